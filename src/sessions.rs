//! All sessions of a user: where they are, what each does, and what changes.
//!
//! Owns the list of projects, reading sessions for lists, following them, sending them commands,
//! and removing one. Does not own order or words: see [`crate::present::session_list`].

pub mod fleet;
mod folder_watch;
pub mod project_list;
pub mod removal;
pub mod session_client;
pub mod session_store;
pub mod session_watcher;
pub mod stored_session;

use std::path::PathBuf;

use crate::{journal::SessionDir, present::session_list::ListedSession};

/// Identifies a session among all that a list can have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionKey {
    /// On this machine, with its folder.
    Here(PathBuf),
    /// On another machine, with its name and id.
    There { name: String, id: String },
}

impl SessionKey {
    pub fn of(folder: &SessionDir) -> Self {
        Self::Here(folder.path.clone())
    }

    /// The session's folder, if it is on this machine.
    pub fn folder(&self) -> Option<SessionDir> {
        match self {
            Self::Here(path) => {
                let name = path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                Some(SessionDir {
                    name,
                    path: path.clone(),
                })
            }
            Self::There { .. } => None,
        }
    }
}

/// A difference in a list of sessions.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionChange {
    /// The session is new, or has changed.
    Seen(SessionKey, Box<ListedSession>),
    Removed(SessionKey),
}
