//! Opens the output files of hooks in the viewer.

use std::path::PathBuf;

use super::{modals::viewer::ViewerModal, output_lines::OutputLines};
use crate::{engine::ids::RunId, present::text::readable_size};

/// A viewer with a run's output file. Without a readable file it shows `otherwise`. The `earlier` runs of the hook
/// follow. A run that is `live` is followed instead.
pub(super) fn view(
    title: String,
    file: Option<PathBuf>,
    otherwise: &str,
    earlier: &str,
    live: Option<RunId>,
) -> ViewerModal {
    let lines = file.map(OutputLines::new).filter(|lines| live.is_some() || !lines.is_empty());
    match (lines, live) {
        (Some(lines), Some(run)) => ViewerModal::of_file(title, lines, "", Some(run)),
        (Some(lines), None) => ViewerModal::of_file(title, lines, earlier, None),
        (None, _) => {
            ViewerModal::coloured(title, &format!("{otherwise}{earlier}"), readable_size(otherwise.len() as u64))
        }
    }
}
