//! Opens the output files of hooks in the viewer.

use std::{fs::File, io::Read as _, path::Path};

use super::modals::viewer::ViewerModal;
use crate::present::text::readable_size;

/// In bytes.
const VIEWED: u64 = 8 << 20;

/// A viewer with a run's output file, cut at [`VIEWED`]. Without a readable file it shows `otherwise`. The `earlier` runs
/// of the hook follow.
pub(super) fn view(title: String, file: Option<&Path>, otherwise: &str, earlier: &str) -> ViewerModal {
    let read = file.and_then(|file| {
        let mut bytes = Vec::new();
        let opened = File::open(file).ok()?;
        let size = opened.metadata().ok()?.len();
        opened.take(VIEWED).read_to_end(&mut bytes).ok()?;
        Some((String::from_utf8_lossy(&bytes).into_owned(), size, file.display().to_string()))
    });
    match read {
        Some((text, size, _)) if size <= VIEWED => {
            ViewerModal::new(title, &format!("{text}{earlier}"), readable_size(size))
        }
        Some((text, size, path)) => {
            let (shown, size) = (readable_size(VIEWED), readable_size(size));
            ViewerModal::new(title, &text, format!("the first {shown} of {size}; all of it: {path}"))
        }
        None => ViewerModal::new(title, &format!("{otherwise}{earlier}"), readable_size(otherwise.len() as u64)),
    }
}
