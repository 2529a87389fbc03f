//! Follows the sessions of several projects, and reports what changes.
//!
//! # Invariants
//! - While nothing changes, nothing is read and nothing wakes up.
//! - Reading happens beside the receiver, so a long journal does not delay a key.

use std::time::Duration;

use async_nats::Client;
use tokio::{sync::mpsc, task::JoinHandle};

use super::{
    SessionChange, SessionKey, folder_watch::FolderWatch, session_store::SessionStore,
    stored_session,
};
use crate::{config::NatsConfig, journal::SessionDir};

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
        let task = tokio::spawn(super::follow_fleet(client, nats, out));
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
