//! How the tools reach their session.
//!
//! The session may begin after the server, and end before it. So it is looked for when it is needed, and again when the one
//! that was found is over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::tool::Trouble;
use crate::{
    journal::Folder,
    present::task_view::TaskView,
    socket::{
        client::{AskError, Client},
        message::{Asker, Request, Told},
        talk::Talk,
    },
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
    /// Room for calls.
    room: Semaphore,
}

/// How many calls are worked on at once; the others wait. A session has room for more clients than this.
const AT_ONCE: usize = 16;

/// How many connections are kept. A session has room for so many clients only, and servers are not alone.
const KEPT: usize = 2;

/// A connection to the session, for one call at a time.
pub(super) struct Line(Talk);

impl Reach {
    /// The session that `find` finds.
    pub fn new(find: Box<Find>) -> Self {
        Self { find, found: Mutex::new(None), idle: Mutex::new(Vec::new()), room: Semaphore::new(AT_ONCE) }
    }

    /// Waits until there is room for another call.
    pub(super) async fn room(&self) -> Option<SemaphorePermit<'_>> {
        self.room.acquire().await.ok()
    }

    /// A connection for a call.
    pub(super) async fn line(self: &Arc<Self>) -> Result<Line, Trouble> {
        // Those that the session has closed meanwhile are dropped.
        while let Some(line) = lock(&self.idle).pop() {
            if line.0.is_open() {
                return Ok(line);
            }
        }
        let reach = Arc::clone(self);
        let connected = tokio::task::spawn_blocking(move || reach.connect()).await;
        let client = connected.map_err(|panic| Trouble::Job(format!("no session was found: {panic}")))??;
        Ok(Line(Talk::new(client)?))
    }

    /// Keeps the connection of a call that went well for the next one.
    pub(super) fn keep(&self, line: Line) {
        let mut idle = lock(&self.idle);
        if idle.len() < KEPT {
            idle.push(line);
        }
    }

    /// Blocks until it is connected: a session may be about to begin.
    fn connect(&self) -> Result<Client, Trouble> {
        let found = lock(&self.found).clone();
        if let Some(folder) = found {
            let connected = Client::connect(&folder);
            if !matches!(connected, Err(AskError::NotRunning(_))) {
                return Ok(connected?);
            }
        }
        let folder = (self.find)().map_err(|why| no_session(&why))?;
        let client = Client::connect(&folder)?;
        *lock(&self.found) = Some(folder);
        Ok(client)
    }
}

/// What is behind a lock is whole at any time, whoever died holding it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Line {
    /// Asks for something that is told.
    pub(super) async fn told(&mut self, request: &Request) -> Result<Told, Trouble> {
        self.ask(request).await?.ok_or_else(other_answer)
    }

    /// Asks, for whoever can make something of a refusal.
    pub(super) async fn ask(&mut self, request: &Request) -> Result<Option<Told>, AskError> {
        self.0.ask(Asker::Mcp, request).await
    }

    /// Asks for something that takes as long as the session needs for it.
    pub(super) async fn told_in_time(&mut self, request: &Request) -> Result<Told, Trouble> {
        self.0.ask_patiently(Asker::Mcp, request).await?.ok_or_else(other_answer)
    }

    /// All tasks.
    pub(super) async fn tasks(&mut self) -> Result<Vec<TaskView>, Trouble> {
        let Told::Tasks(tasks) = self.told(&Request::TaskList).await? else { return Err(other_answer()) };
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
