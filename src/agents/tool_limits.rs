//! Size limits for what an agent reports, and diffs of its changes.

use crate::{process::output, text::unified_diff};

/// Bytes of a call's title, or of a note.
pub(super) const NOTE_MAX: usize = 2 << 10;
/// Bytes of a call's arguments.
pub(super) const INPUT_MAX: usize = 4 << 10;
/// Bytes of a call's output.
pub(super) const OUTPUT_MAX: usize = 8 << 10;
/// Bytes of a diff, or of one thought.
pub(super) const LONG_MAX: usize = 16 << 10;
/// Texts that are longer together are not compared line by line.
const COMPARE_MAX: usize = 1 << 20;

/// Cuts a text to its beginning and its end.
pub(super) fn limited(text: &str, most: usize) -> String {
    output::limited(text.to_owned(), most, None)
}

pub(super) fn unified(path: &str, old: &str, new: &str) -> String {
    if old.len() + new.len() > COMPARE_MAX {
        return format!(
            "--- {path}\n+++ {path}\n{} B become {} B\n",
            old.len(),
            new.len()
        );
    }
    unified_diff(path, old, new)
}
