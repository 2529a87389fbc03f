//! Opens the output files of hooks in the viewer.

use std::path::PathBuf;

use super::{modals::viewer::ViewerModal, output_lines::OutputLines};
use crate::{engine::ids::RunId, present::text::readable_size};

/// The output of a run.
pub(super) struct RunOutput {
    pub(super) title: String,
    pub(super) file: Option<PathBuf>,
    /// What to show without a readable file.
    pub(super) otherwise: String,
    /// The earlier runs of the hook, which follow.
    pub(super) earlier: String,
    /// The run, if it still runs: the viewer follows it.
    pub(super) live: Option<RunId>,
    /// Why it failed. None if it did not fail.
    pub(super) reason: Option<String>,
}

impl RunOutput {
    pub(super) fn viewer(self) -> ViewerModal {
        let Self {
            title,
            file,
            otherwise,
            earlier,
            live,
            reason,
        } = self;
        let lines = file
            .map(OutputLines::new)
            .filter(|lines| live.is_some() || !lines.is_empty());
        let viewer = match (lines, live) {
            (Some(lines), Some(run)) => ViewerModal::of_file(title, lines, "", Some(run)),
            (Some(lines), None) => ViewerModal::of_file(title, lines, &earlier, None),
            (None, _) => {
                let about = readable_size(otherwise.len() as u64);
                ViewerModal::coloured(title, &otherwise, about).followed_by(&earlier)
            }
        };
        match reason {
            Some(reason) => viewer.opened_at(reason),
            None => viewer,
        }
    }
}
