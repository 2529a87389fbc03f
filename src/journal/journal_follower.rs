//! The state of a session that another process runs, kept current by reading its journal.

use std::{io, path::Path};

use super::{JournalError, RecordTail, fold, open, snapshot};
use crate::engine::{
    SessionState,
    event::{Event, SessionEvent},
    time::UnixTime,
};

/// A session's state and the place in its journal up to which it was read.
#[derive(Debug)]
pub struct JournalFollower {
    state: Box<SessionState>,
    tail: RecordTail,
}

impl JournalFollower {
    /// Reads a journal, from its snapshot if there is one. `each` sees every record that is read.
    pub fn open(path: &Path, mut each: impl FnMut(UnixTime, &Event)) -> Result<Self, JournalError> {
        let io = fold::unreadable(path);
        let file = open::to_read(path).map_err(&io)?;
        let restored = snapshot::restore(path, &file);
        let (mut state, offset) = restored.map_or((None, 0), |restored| {
            (Some(restored.state), restored.mark.position.offset)
        });
        let mut tail = RecordTail::new(file, offset);
        while state.is_none() {
            let Some(record) = tail.next_record().map_err(&io)? else {
                break;
            };
            each(record.at, &record.event);
            if let Event::Session(SessionEvent::Started(began)) = record.event {
                state = Some(Box::new(SessionState::new(
                    &record.session,
                    *began,
                    record.at,
                )));
            }
        }
        let state = state.ok_or_else(|| JournalError::NotASession(path.to_owned()))?;
        let mut session = Self { state, tail };
        session.catch_up(each).map_err(io)?;
        Ok(session)
    }

    /// Applies the records that were written since. Returns whether there were any.
    pub fn catch_up(&mut self, mut each: impl FnMut(UnixTime, &Event)) -> io::Result<bool> {
        let mut has_changed = false;
        while let Some(record) = self.tail.next_record()? {
            each(record.at, &record.event);
            self.state.apply(record.at, &record.event);
            has_changed = true;
        }
        Ok(has_changed)
    }

    pub fn state(&self) -> &SessionState {
        &self.state
    }
}
