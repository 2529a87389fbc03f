//! How much is kept of what an agent does, and how a change is shown.

use std::time::Duration;

use crate::process::{output::OutputCapture, run::OutputStream};

/// How much of a call's title, or of a note, is kept.
pub(super) const NOTE_MAX: usize = 2 << 10;
/// How much of a call's arguments is kept.
pub(super) const INPUT_MAX: usize = 4 << 10;
/// How much of what it printed is kept.
pub(super) const OUTPUT_MAX: usize = 8 << 10;
/// How much of what it changed, or of one thought, is kept.
pub(super) const LONG_MAX: usize = 16 << 10;
/// Texts that are longer together are not compared line by line.
const COMPARE_MAX: usize = 1 << 20;
/// How long a comparison may take; what is not compared by then is told as replaced.
const COMPARE_TIME: Duration = Duration::from_millis(100);

/// The beginning and the end of a text.
pub(super) fn limited(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut capture = OutputCapture::new(most, None, 0);
    capture.push(OutputStream::Stdout, text.as_bytes());
    capture.finish().stdout
}

/// The change of a file as a unified diff.
pub(super) fn unified(path: &str, old: &str, new: &str) -> String {
    if old.len() + new.len() > COMPARE_MAX {
        return format!("--- {path}\n+++ {path}\n{} bytes become {}\n", old.len(), new.len());
    }
    let diff = similar::TextDiff::configure().timeout(COMPARE_TIME).diff_lines(old, new);
    diff.unified_diff().header(path, path).to_string()
}
