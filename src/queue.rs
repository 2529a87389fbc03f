//! The queue as a whole: the board with all tasks, the line of those that can be begun, and what is known of both here.
//!
//! # Invariants
//! - A task goes into the line after the board says that it is ready. Whoever dies in between has done no harm: the next
//!   one who looks puts it there.

pub mod board;
pub mod handover;
pub mod ready_tasks;

use std::{collections::BTreeMap, time::Duration};

use async_nats::jetstream::Context;

use crate::{
    config::Nats,
    engine::{
        queue::{Ask, Queued, Standing, order::Order},
        time::At,
    },
    nats::connection::Trouble,
    queue::{
        board::{AddError, Board, Changes, Key, Seen},
        ready_tasks::Line,
    },
};

/// How long to wait for a server that is in trouble.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a worker may be silent, where nobody says anything else.
pub const LEASE: Duration = Duration::from_secs(15);

/// The queue, for whoever asks something of it.
#[derive(Debug)]
pub struct Queue {
    /// All tasks.
    pub board: Board,
    /// Those that can be begun.
    pub line: Line,
}

/// The queue, for whoever stays with it.
pub struct Watched {
    /// The queue.
    pub queue: Queue,
    /// All tasks, as they were when last heard of.
    tasks: BTreeMap<Key, Seen>,
    changes: Changes,
    /// Whether a task may have become ready since that was looked at.
    stirred: bool,
}

/// Why something that a person asked for is not done.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It cannot be done.
    #[error("{0}")]
    Refused(String),
    /// The server is in the way.
    #[error("NATS: {0}")]
    Trouble(#[from] Trouble),
}

impl From<AddError> for AskError {
    fn from(error: AddError) -> Self {
        match error {
            AddError::Taken(_) => Self::Refused(error.to_string()),
            AddError::Trouble(trouble) => Self::Trouble(trouble),
        }
    }
}

impl Queue {
    /// The queue; what is missing of it on the server is made.
    pub async fn open(jetstream: &Context, nats: &Nats, lease: Duration) -> Result<Self, Trouble> {
        let board = Board::open(jetstream, nats).await?;
        let line = Line::open(jetstream, nats, lease).await?;
        Ok(Self { board, line })
    }

    /// Why a lost server may take the queue with it, though the config asks for more replicas.
    pub fn missing_replicas(&self) -> Option<String> {
        let all: Vec<&str> = self.board.missing_replicas().into_iter().chain(self.line.missing_replicas()).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Adds a task; one without a name gets the next number.
    pub async fn add(&mut self, order: Order, at: At) -> Result<Seen, AskError> {
        // It has a name later.
        let named = if order.id.is_empty() { Order { id: "0".to_owned(), ..order.clone() } } else { order.clone() };
        named.checked().map_err(AskError::Refused)?;
        for on in &order.dependencies {
            let known = self.board.get(&Key::of(&order).sibling(on)).await?;
            if known.is_none_or(|seen| seen.task.standing == Standing::Removed) {
                return Err(AskError::Refused(format!("there is no task {on} in the queue to depend on")));
            }
        }
        let added = self.board.add(Queued::new(order, at)).await?;
        Ok(self.ready(&Key::of(&added.task.order)).await?.unwrap_or(added))
    }

    /// Does what a person asks for.
    pub async fn ask(&mut self, key: &Key, ask: &Ask, at: At) -> Result<Seen, AskError> {
        loop {
            let none = || AskError::Refused(format!("there is no task {} in the queue", key.id()));
            let Seen { task, revision } = self.board.get(key).await?.ok_or_else(none)?;
            let task = task.asked(ask.clone(), at).map_err(AskError::Refused)?;
            if let Some(revision) = self.board.write(&task, revision).await? {
                return Ok(self.ready(key).await?.unwrap_or(Seen { task, revision }));
            }
        }
    }

    /// Puts a task into the line if nothing that it waits for is open. Gives it as it is then.
    pub async fn ready(&mut self, key: &Key) -> Result<Option<Seen>, Trouble> {
        let Some(known) = self.board.get(key).await? else { return Ok(None) };
        let mut open = Vec::new();
        for on in &known.task.order.dependencies {
            let waits = self.board.get(&key.sibling(on)).await?.is_some_and(|seen| seen.task.is_open());
            open.extend(waits.then(|| on.clone()));
        }
        let is_open = |on: &str| open.iter().any(|open| open == on);
        let seen = match self.board.change(key, |task| task.readied(is_open)).await? {
            Some(readied) => readied,
            // Somebody else may have done it just now.
            None => self.board.get(key).await?.unwrap_or(known),
        };
        if seen.task.standing == Standing::Ready {
            self.line.put(&seen.task.order).await?;
        }
        Ok(Some(seen))
    }

    /// Stays with it.
    pub async fn watched(self) -> Result<Watched, Trouble> {
        let mut changes = self.board.changes("").await?;
        let tasks = changes.all().await?;
        Ok(Watched { queue: self, tasks, changes, stirred: true })
    }
}

impl Watched {
    /// Waits until a task changes.
    pub async fn changed(&mut self) -> Result<(), Trouble> {
        if let Some(seen) = self.changes.next().await? {
            self.note(seen);
        }
        Ok(())
    }

    /// Remembers how a task is, if nothing later is known of it.
    pub fn note(&mut self, seen: Seen) {
        let key = Key::of(&seen.task.order);
        if seen.is_news_to(self.tasks.get(&key)) {
            self.stirred |= !seen.task.is_open() || seen.task.standing == Standing::Created;
            self.tasks.insert(key, seen);
        }
    }

    /// Whether somebody is to work on a task now, or will be when others have done theirs.
    pub fn is_ahead(&self, task: &Queued) -> bool {
        let key = Key::of(&task.order);
        task.is_ahead(|on| self.tasks.get(&key.sibling(on)).map(|seen| &seen.task))
    }

    /// All tasks that are known.
    pub fn tasks(&self) -> impl Iterator<Item = &Queued> {
        self.tasks.values().map(|seen| &seen.task)
    }

    /// Puts the tasks into the line whose time has come.
    pub async fn ready_all(&mut self) -> Result<(), Trouble> {
        if !self.stirred {
            return Ok(());
        }
        let waits = |key: &Key, on: &str| self.tasks.get(&key.sibling(on)).is_some_and(|seen| seen.task.is_open());
        let due = self.tasks.iter().filter(|(key, seen)| seen.task.readied(|on| waits(key, on)).is_some());
        let due: Vec<Key> = due.map(|(key, _)| key.clone()).collect();
        for key in due {
            if let Some(seen) = self.queue.ready(&key).await? {
                self.tasks.insert(key, seen);
            }
        }
        self.stirred = false;
        Ok(())
    }

    /// Hears what changes, and puts the tasks into the line whose time has come: others may wait for one that is known to
    /// be ready here alone. Goes on until nobody waits for it; what it was about to do then is done the next time.
    pub async fn follow(&mut self) {
        loop {
            let followed = match self.ready_all().await {
                Ok(()) => self.changed().await,
                Err(trouble) => Err(trouble),
            };
            if let Err(trouble) = followed {
                tracing::info!("nats: {trouble}");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    /// Looks whether something is missing: puts the tasks into the line that are not in it though somebody could begin, or
    /// did and may be dead.
    pub async fn mend(&mut self, mut wanted: impl FnMut(&Order) -> bool) -> Result<(), Trouble> {
        let Queue { line, .. } = &mut self.queue;
        let there = line.look().await?;
        let is_due = |task: &&Queued| matches!(task.standing, Standing::Ready | Standing::Active { .. });
        for task in self.tasks.values().map(|seen| &seen.task).filter(is_due).filter(|task| wanted(&task.order)) {
            if !there.contains(&line.subject(&task.order)) {
                line.put(&task.order).await?;
            }
        }
        self.stirred = true;
        Ok(())
    }
}
