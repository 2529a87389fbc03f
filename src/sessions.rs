//! All sessions of a user: where they are, what each does, and what changes.
//!
//! Owns the list of projects, reading sessions for lists, following them, sending them commands,
//! and removing one. Does not own order or words: see [`crate::present::session_list`].
//!
//! # Invariants
//! - While nothing changes, nothing is read and nothing wakes up.
//! - Reading happens beside the receiver, so a long journal does not delay a key.

mod folder_watch;
pub mod queue_feed;
pub mod session_client;
pub mod session_store;
pub mod stored_session;

use std::{path::PathBuf, time::Duration};

use async_nats::{Client, jetstream};
use tokio::{sync::mpsc, task::JoinHandle};

use crate::{
    config::NatsConfig,
    engine::{budget::CostTotal, time::UnixTime},
    journal::SessionDir,
    nats::presence::{self, EVERY, HeartbeatWatch, SessionHeartbeat},
    present::{
        session_chip::CurrentActivity,
        session_list::{ListedSession, ListedState},
        text::{plain, plain_line},
    },
    queue::backend::QueueTaskKey,
    runtime::now,
    sessions::{folder_watch::FolderWatch, session_store::SessionStore},
};

/// Identifies a session among all that a list can have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionKey {
    /// On this machine, with its folder.
    Here(PathBuf),
    /// On another machine, with its name and id.
    There { name: String, id: String },
    /// A blocked task of a queue, which needs the user like a session.
    Task(BlockedTaskKey),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockedTaskKey {
    pub queue: QueueKey,
    pub key: QueueTaskKey,
    /// The name of the task for people.
    pub task: String,
    /// The session that worked on it last, if it is on this machine.
    pub session: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueKey {
    /// That of the project in this folder.
    Project(PathBuf),
    /// One of a server.
    Named(String),
}

impl SessionKey {
    pub fn of(folder: &SessionDir) -> Self {
        Self::Here(folder.path.clone())
    }

    /// The session's folder, if it is on this machine.
    pub fn folder(&self) -> Option<SessionDir> {
        match self {
            Self::Here(path)
            | Self::Task(BlockedTaskKey {
                session: Some(path),
                ..
            }) => {
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
            Self::There { .. } | Self::Task(_) => None,
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

/// The longest text from another machine, in characters.
const LINE: usize = 300;

/// A session as its last heartbeat describes it.
pub fn listed_heartbeat(heartbeat: &SessionHeartbeat, at: UnixTime) -> ListedSession {
    let status = &heartbeat.status;
    let moment = |text: &str| {
        text.parse::<jiff::Timestamp>()
            .ok()
            .map(|at| UnixTime(at.as_millisecond()))
    };
    // A worktree is in its project.
    let project = status
        .cwd
        .split("/.creel/worktrees/")
        .next()
        .unwrap_or(&status.cwd);
    let state = match (&status.outcome, &status.gate) {
        (Some(outcome), _) => ListedState::Ended {
            outcome: *outcome,
            reason: String::new(),
        },
        (None, _) if heartbeat.is_overdue(at) => ListedState::Lost,
        (None, Some(gate)) => {
            let since = moment(&gate.opened).unwrap_or(heartbeat.seen_at());
            let activity = CurrentActivity::NeedsUser {
                gate: gate.about,
                since,
            };
            ListedState::Runs {
                activity,
                reason: plain_line(&gate.reason, LINE),
            }
        }
        (None, None) => {
            let doing = CurrentActivity::Between(plain_line(&status.doing, LINE));
            let activity = if status.paused && status.turn.is_none() {
                CurrentActivity::Paused { by: String::new() }
            } else {
                doing
            };
            ListedState::Runs {
                activity,
                reason: String::new(),
            }
        }
    };
    ListedSession {
        host: plain(&heartbeat.host),
        user: plain(heartbeat.user.as_deref().unwrap_or_default()),
        branch: plain(status.branch.as_deref().unwrap_or_default()),
        cost: CostTotal {
            known: status.cost,
            estimated: status.cost_estimated,
            turns: status.turns,
            unknown_turns: status.turns_without_cost,
        },
        agent: plain(&status.agent),
        iteration: status.iteration,
        max_iterations: status.max_iterations,
        retries: (status.counts.retries, status.counts.max_retries),
        started: moment(&status.started),
        state,
        ..ListedSession::unread(
            &plain(&status.session),
            &plain(project),
            heartbeat.seen_at(),
        )
    }
}

fn key(heartbeat: &SessionHeartbeat) -> SessionKey {
    SessionKey::There {
        name: heartbeat.status.session.clone(),
        id: heartbeat.id.clone(),
    }
}

fn change(heartbeat: &SessionHeartbeat) -> SessionChange {
    SessionChange::Seen(key(heartbeat), Box::new(listed_heartbeat(heartbeat, now())))
}

/// Reports all sessions, then each change. Ends when the connection is closed or the receiver is
/// gone.
async fn follow_fleet(
    client: Client,
    nats: NatsConfig,
    out: mpsc::UnboundedSender<Vec<SessionChange>>,
) {
    // Before the first look, so that no heartbeat in between is missed.
    let watch = HeartbeatWatch::start(&client, &nats.prefix).await;
    let heartbeats = presence::heartbeats(&jetstream::new(client), &nats).await;
    let (mut watch, mut heartbeats) = match (watch, heartbeats) {
        (Ok(watch), Ok(heartbeats)) => (watch, heartbeats),
        (Err(error), _) | (_, Err(error)) => {
            return tracing::warn!("nats: cannot list the sessions: {error}");
        }
    };
    if out.send(heartbeats.iter().map(change).collect()).is_err() {
        return;
    }
    loop {
        let found = tokio::time::timeout(EVERY, watch.next()).await;
        let changes = match found {
            Ok(None) => return,
            Ok(Some(heartbeat)) => {
                let same = |known: &SessionHeartbeat| key(known) == key(&heartbeat);
                let has_changed = heartbeats
                    .iter()
                    .find(|known| same(known))
                    .is_none_or(|known| known.status != heartbeat.status);
                heartbeats.retain(|known| !same(known));
                let changes = if has_changed {
                    vec![change(&heartbeat)]
                } else {
                    Vec::new()
                };
                heartbeats.push(heartbeat);
                changes
            }
            // Nothing arrived for a while: some may be lost, or past.
            Err(_) => {
                let past = heartbeats
                    .extract_if(.., |heartbeat| heartbeat.is_past(&nats, now()))
                    .collect::<Vec<_>>();
                let gone = past
                    .iter()
                    .map(|heartbeat| SessionChange::Removed(key(heartbeat)));
                gone.chain(
                    heartbeats
                        .iter()
                        .filter(|heartbeat| heartbeat.is_overdue(now()))
                        .map(change),
                )
                .collect()
            }
        };
        if !changes.is_empty() && out.send(changes).is_err() {
            return;
        }
    }
}

/// The shortest time between two looks: an agent that talks writes many records a second.
const PAUSE: Duration = Duration::from_millis(100);

/// The receiver's end of a watcher. Dropping it ends the watcher.
#[derive(Debug)]
pub struct SessionFeed {
    changes: mpsc::UnboundedReceiver<Vec<SessionChange>>,
    wanted: mpsc::UnboundedSender<Vec<SessionKey>>,
    task: JoinHandle<()>,
}

impl SessionFeed {
    /// Starts to watch. The first report has all sessions.
    pub fn start(store: SessionStore) -> Self {
        let (out, changes) = mpsc::unbounded_channel();
        let (wanted, requests) = mpsc::unbounded_channel();
        let task = tokio::spawn(watch(store, out, requests));
        Self {
            changes,
            wanted,
            task,
        }
    }

    /// Starts to follow the sessions on a NATS server. The first report has all sessions.
    pub fn of_fleet(client: Client, nats: NatsConfig) -> Self {
        let (out, changes) = mpsc::unbounded_channel();
        let (wanted, _) = mpsc::unbounded_channel();
        let task = tokio::spawn(follow_fleet(client, nats, out));
        Self {
            changes,
            wanted,
            task,
        }
    }

    /// The next changes. None if the watcher has failed.
    pub async fn next(&mut self) -> Option<Vec<SessionChange>> {
        self.changes.recv().await
    }

    /// Asks for sessions that do not run to be read.
    pub fn read(&self, sessions: Vec<SessionKey>) {
        let _ = self.wanted.send(sessions);
    }
}

impl Drop for SessionFeed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn watch(
    store: SessionStore,
    out: mpsc::UnboundedSender<Vec<SessionChange>>,
    mut requests: mpsc::UnboundedReceiver<Vec<SessionKey>>,
) {
    let mut folders = FolderWatch::new();
    // Watch before looking, so that nothing in between is missed; the second look finds it.
    let Some((mut store, first)) = with(store, SessionStore::scan).await else {
        return;
    };
    folders.watch(&store.watched());
    let Some((again, more)) = with(store, SessionStore::scan).await else {
        return;
    };
    store = again;
    if out.send(first.into_iter().chain(more).collect()).is_err() {
        return;
    }
    loop {
        tokio::select! {
            change = folders.changed() => {
                let Some((looked, changes)) = with(store, move |store| store.look_again(&change)).await else { return };
                store = looked;
                folders.watch(&store.watched());
                // Its first record may have come before the watch.
                let starts = store.has_starting();
                if !changes.is_empty() && out.send(changes).is_err() {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
                if starts {
                    let looked = with(store, SessionStore::look_at_starting).await;
                    let Some((looked, changes)) = looked else { return };
                    store = looked;
                    folders.watch(&store.watched());
                    if !changes.is_empty() && out.send(changes).is_err() {
                        return;
                    }
                }
            }
            wanted = requests.recv() => {
                let Some(wanted) = wanted else { return };
                let Ok(changes) = tokio::task::spawn_blocking(move || read_all(wanted)).await else { return };
                if out.send(changes).is_err() {
                    return;
                }
            }
        }
    }
}

fn read_all(wanted: Vec<SessionKey>) -> Vec<SessionChange> {
    let folders = wanted
        .into_iter()
        .filter_map(|key| key.folder().map(|folder| (key, folder)));
    let look = |(key, folder): (SessionKey, SessionDir)| {
        if folder.exists() {
            SessionChange::Seen(key, Box::new(stored_session::look_at(&folder)))
        } else {
            // It was removed meanwhile, or never began.
            SessionChange::Removed(key)
        }
    };
    folders.map(look).collect()
}

/// Lends the store to another thread, which may block.
async fn with<T: Send + 'static>(
    mut store: SessionStore,
    work: impl FnOnce(&mut SessionStore) -> T + Send + 'static,
) -> Option<(SessionStore, T)> {
    let lent = tokio::task::spawn_blocking(move || {
        let done = work(&mut store);
        (store, done)
    });
    lent.await.ok()
}
