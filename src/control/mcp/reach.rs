//! How the tools reach their session.
//!
//! The session may begin after the server, and end before it. So it is looked for when it is needed, and again when the one
//! that was found is over.

use std::sync::{Mutex, MutexGuard, PoisonError};

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
    /// Connections that no call uses now.
    idle: Mutex<Vec<Line>>,
}

/// How many connections are kept. A session has room for so many clients only, and servers are not alone.
const KEPT: usize = 2;

/// A connection to the session, for one call at a time.
pub(super) struct Line(Client);

impl Reach {
    /// The session that `find` finds.
    pub fn new(find: Box<Find>) -> Self {
        Self { find, found: Mutex::new(None), idle: Mutex::new(Vec::new()) }
    }

    /// A connection for a call. Blocks while it is made.
    pub(super) fn line(&self) -> Result<Line, Trouble> {
        // Those that the session has closed meanwhile are dropped.
        while let Some(line) = lock(&self.idle).pop() {
            if line.0.is_open() {
                return Ok(line);
            }
        }
        self.connect()
    }

    /// Keeps the connection of a call that went well for the next one.
    pub(super) fn keep(&self, line: Line) {
        let mut idle = lock(&self.idle);
        if idle.len() < KEPT {
            idle.push(line);
        }
    }

    fn connect(&self) -> Result<Line, Trouble> {
        let found = lock(&self.found).clone();
        if let Some(folder) = found {
            match Client::connect(&folder) {
                Err(AskError::NotRunning(_)) => {}
                connected => return Ok(Line(connected?)),
            }
        }
        let folder = (self.find)().map_err(|why| no_session(&why))?;
        let client = Client::connect(&folder)?;
        *lock(&self.found) = Some(folder);
        Ok(Line(client))
    }
}

/// What is behind a lock is whole at any time, whoever died holding it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Asks for something that takes as long as the session needs for it.
    pub(super) fn told_in_time(&mut self, request: &Request) -> Result<Told, Trouble> {
        self.0.ask_patiently(Asker::Mcp, request)?.ok_or_else(other_answer)
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
