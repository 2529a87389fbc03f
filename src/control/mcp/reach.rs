//! How the tools reach their session.
//!
//! The session may begin after the server, and end before it. So it is looked for when it is needed, and again when the one
//! that was found is over.

use std::sync::{Mutex, PoisonError};

use super::tool::Trouble;
use crate::{
    control::{
        socket::{
            client::{AskError, Client},
            message::{Asker, Request, Told},
        },
        task_view::TaskView,
    },
    journal::Folder,
};

/// Finds the session that is meant, or says why there is none.
pub type Find = dyn Fn() -> Result<Folder, String> + Send + Sync;

/// The way to the session.
pub struct Reach {
    find: Box<Find>,
    /// The session that was found last.
    found: Mutex<Option<Folder>>,
}

/// A connection to the session, for one call.
pub(super) struct Line(Client);

impl Reach {
    /// The session that `find` finds.
    pub fn new(find: Box<Find>) -> Self {
        Self { find, found: Mutex::new(None) }
    }

    /// Connects. Blocks while it does.
    pub(super) fn line(&self) -> Result<Line, Trouble> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(folder) = found {
            match Client::connect(&folder) {
                Err(AskError::NotRunning(_)) => {}
                connected => return Ok(Line(connected?)),
            }
        }
        let folder = (self.find)().map_err(|why| no_session(&why))?;
        let client = Client::connect(&folder)?;
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(folder);
        Ok(Line(client))
    }
}

impl Line {
    /// Asks for something that is told.
    pub(super) fn told(&mut self, request: &Request) -> Result<Told, Trouble> {
        self.ask(request)?.ok_or_else(other_answer)
    }

    /// Asks, for whoever can make something of a refusal.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Option<Told>, AskError> {
        self.0.ask(Asker::Mcp, request)
    }

    /// All tasks.
    pub(super) fn tasks(&mut self) -> Result<Vec<TaskView>, Trouble> {
        let Told::Tasks(tasks) = self.told(&Request::TaskList)? else { return Err(other_answer()) };
        Ok(tasks)
    }
}

/// An answer to another question than the one that was asked.
pub(super) fn other_answer() -> Trouble {
    Trouble::Job("the session answered something else; it may be run by another version of creel".into())
}

fn no_session(why: &str) -> Trouble {
    let how = "`creel run` starts a session, `creel resume` goes on with one; then call this tool again";
    Trouble::Job(format!("{why}\n{how}"))
}

impl From<AskError> for Trouble {
    fn from(error: AskError) -> Self {
        match &error {
            AskError::Refused(why) => Self::Job(why.clone()),
            AskError::NotRunning(name) => no_session(&format!("session `{name}` is not running")),
            AskError::Unreachable { .. } => Self::Job(format!("{error}\nit may be about to end; call this tool again")),
            AskError::Ended(_) => {
                Self::Job(format!("{error}\nwhat was asked for may have been done, or not: `creel show` tells"))
            }
        }
    }
}
