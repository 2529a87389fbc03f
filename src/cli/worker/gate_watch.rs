//! Notices whether the session of a worker waits for the user.

use std::fs;

use crate::journal::{self, SessionDir};

pub(super) struct GateWatch {
    folder: SessionDir,
    /// The length of the journal at the last look.
    length: u64,
    is_open: bool,
}

impl GateWatch {
    pub(super) fn of(folder: &SessionDir) -> Self {
        Self {
            folder: folder.clone(),
            length: 0,
            is_open: false,
        }
    }

    /// Reads the journal only if it has grown.
    pub(super) fn is_open(&mut self) -> bool {
        let journal = self.folder.journal();
        let length = fs::metadata(&journal).map_or(0, |file| file.len());
        if length != self.length {
            self.length = length;
            self.is_open = journal::fold(&journal).is_ok_and(|state| state.gates.open.is_some());
        }
        self.is_open
    }
}
