//! The running sessions and workers on all machines: each writes its entry again and again to a
//! bucket whose entries expire.
//!
//! # Invariants
//! - A session is listed once, however often it changes.
//! - A session that crashed is recognised by the age of its last heartbeat. It disappears from the
//!   list when that is older than `max_age`, or than a day without one.
//! - A worker that died disappears from the list after a minute.
//! - A server that does not keep the lists stops no session and no worker.

use std::{cell::Cell, sync::Arc, time::Duration};

use async_nats::{
    Client, Subscriber,
    jetstream::{self, Context, message::StreamMessage},
};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{
    config::NatsConfig,
    engine::time::UnixTime,
    nats::{
        commands::next,
        connection::{NatsError, ReconnectPolicy, connect},
        stream::{self, NatsStream},
        subject::is_plain,
    },
    protocol::{
        ReplyData, SessionQuery,
        process_origin::{host, user},
        view::StatusView,
    },
    runtime::now,
    socket::session_mirror::QueryHandle,
};

/// How long the list has a session that has ended, unless the config says it.
const REMEMBERED: Duration = Duration::from_hours(24);
/// The shortest time for which the bucket keeps a heartbeat, since it must outlive the time until
/// the next.
const SHORTEST: Duration = Duration::from_hours(1);
/// How often a session sends a heartbeat when nothing happens.
pub const EVERY: Duration = Duration::from_secs(10);
/// The shortest time between two heartbeats.
const SOONEST: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionHeartbeat {
    pub host: String,
    /// The name of its user. Earlier versions did not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The session's id, since two sessions can have the same name.
    pub id: String,
    /// When the session sent it.
    pub seen: String,
    #[serde(flatten)]
    pub status: StatusView,
}

impl SessionHeartbeat {
    /// When the session sent it, as a moment.
    pub fn seen_at(&self) -> UnixTime {
        let seen: Option<jiff::Timestamp> = self.seen.parse().ok();
        seen.map_or(UnixTime(0), |seen| UnixTime(seen.as_millisecond()))
    }

    /// Whether the list no longer has the session.
    pub fn is_past(&self, nats: &NatsConfig, at: UnixTime) -> bool {
        Duration::from(at.since(self.seen_at())) > remembered(nats)
    }

    /// Whether the heartbeat is so old that the session must have crashed, unless it has ended.
    pub fn is_overdue(&self, at: UnixTime) -> bool {
        Duration::from(at.since(self.seen_at())) > EVERY * 3
    }
}

/// How long the list has a session that has ended.
fn remembered(nats: &NatsConfig) -> Duration {
    let max_age = nats.stream.max_age;
    if max_age.is_zero() {
        REMEMBERED
    } else {
        max_age.into()
    }
}

/// A bucket whose entries expire.
struct ExpiringBucket(String);

impl ExpiringBucket {
    fn of_sessions(prefix: &str) -> Self {
        Self(format!("{}-sessions", prefix.replace('.', "_")))
    }

    fn of_workers(prefix: &str) -> Self {
        Self(format!("{}-workers", prefix.replace('.', "_")))
    }

    fn subject(&self, key: &str) -> String {
        format!("$KV.{}.{key}", self.0)
    }

    /// Makes the bucket, if there is none. Returns why it is not as the config says.
    async fn ensure(
        &self,
        jetstream: &Context,
        kept: Duration,
        replicas: usize,
    ) -> Result<Vec<String>, NatsError> {
        let wanted = stream::bucket(&self.0, kept, replicas);
        let store = stream::ensured_replicas(jetstream, wanted).await?;
        Ok(store.differences)
    }

    /// All entries. The bucket does not exist if no session or worker has used this server.
    async fn entries(&self, jetstream: &Context) -> Result<Vec<StreamMessage>, NatsError> {
        match stream::found(jetstream, &format!("KV_{}", self.0)).await? {
            Some(stream) => {
                let stream = Arc::new(NatsStream::of(stream));
                stream.last_of_each(self.subject(">")).await
            }
            None => Ok(Vec::new()),
        }
    }
}

/// Writes an entry. One that is lost does not matter: another one follows.
async fn write_entry(client: &Client, subject: String, entry: &impl Serialize) {
    let text = serde_json::to_vec(entry).expect("an entry has no keys that are not text");
    let _ = client.publish(subject, text.into()).await;
}

/// The subject of a session's heartbeats.
fn heartbeat_subject(prefix: &str, session: &str, id: &str) -> String {
    ExpiringBucket::of_sessions(prefix).subject(&format!("{session}.{id}"))
}

pub(super) struct HeartbeatSender<'a> {
    nats: &'a NatsConfig,
    client: &'a Client,
    jetstream: &'a Context,
    /// Whether the bucket has been found or made.
    is_open: Cell<bool>,
}

impl<'a> HeartbeatSender<'a> {
    pub(super) const fn new(
        nats: &'a NatsConfig,
        client: &'a Client,
        jetstream: &'a Context,
    ) -> Self {
        Self {
            nats,
            client,
            jetstream,
            is_open: Cell::new(false),
        }
    }

    /// Sends heartbeats until the caller drops the future. A server that does not store them is not
    /// an error, since only the records matter. It can store them later, when a cluster has a
    /// leader again.
    pub(super) async fn keep(
        &self,
        id: &str,
        query_handle: &QueryHandle,
        warn: &mut impl FnMut(String),
    ) {
        while let Err(NatsError(why)) = self.open(warn).await {
            tracing::warn!("nats: cannot add this session to the server's list of sessions: {why}");
            tokio::time::sleep(EVERY).await;
        }
        let mut news = query_handle.news.clone();
        loop {
            if let Some(ReplyData::Status(status)) =
                query_handle.ask(SessionQuery::Status).await.data
            {
                self.send(id, *status).await;
            }
            tokio::time::sleep(SOONEST).await;
            // When a session ends, `send_last` sends its last heartbeat.
            if let Ok(Err(_)) = tokio::time::timeout(EVERY, news.changed()).await {
                std::future::pending::<()>().await;
            }
        }
    }

    async fn send(&self, id: &str, status: StatusView) {
        let subject = heartbeat_subject(&self.nats.prefix, &status.session, id);
        let heartbeat = SessionHeartbeat {
            host: host(),
            user: user(),
            id: id.to_owned(),
            seen: now().rfc3339(),
            status,
        };
        write_entry(self.client, subject, &heartbeat).await;
    }

    /// Sends the last heartbeat. A session can end before it has sent any.
    pub(super) async fn send_last(&self, id: &str, status: StatusView) {
        if let Err(NatsError(why)) = self.open(&mut drop).await {
            tracing::warn!("nats: cannot add this session to the server's list of sessions: {why}");
        }
        self.send(id, status).await;
        let _ = self.client.flush().await;
    }

    /// Makes the bucket, if there is none. Looks for it only once, so that a session that ends does
    /// not wait for the server again.
    async fn open(&self, warn: &mut impl FnMut(String)) -> Result<(), NatsError> {
        if !self.is_open.get() {
            let kept = remembered(self.nats).max(SHORTEST);
            let bucket = ExpiringBucket::of_sessions(&self.nats.prefix);
            let replicas = self.nats.stream.replicas;
            let differences = bucket.ensure(self.jetstream, kept, replicas).await?;
            self.is_open.set(true);
            differences.into_iter().for_each(warn);
        }
        Ok(())
    }
}

/// The last heartbeats of all sessions, the latest first.
pub async fn heartbeats(
    jetstream: &Context,
    nats: &NatsConfig,
) -> Result<Vec<SessionHeartbeat>, NatsError> {
    let (prefix, at) = (nats.prefix.as_str(), now());
    let entries = ExpiringBucket::of_sessions(prefix)
        .entries(jetstream)
        .await?;
    let mut heartbeats: Vec<SessionHeartbeat> = entries
        .iter()
        .filter_map(|entry| read_heartbeat(entry.subject.as_str(), &entry.payload, prefix))
        .filter(|heartbeat| !heartbeat.is_past(nats, at))
        .collect();
    heartbeats.sort_by(|one, other| {
        other
            .seen
            .cmp(&one.seen)
            .then_with(|| one.id.cmp(&other.id))
    });
    Ok(heartbeats)
}

/// All heartbeats from now on.
pub struct HeartbeatWatch {
    messages: Subscriber,
    prefix: String,
}

impl HeartbeatWatch {
    pub async fn start(client: &Client, prefix: &str) -> Result<Self, NatsError> {
        let subject = ExpiringBucket::of_sessions(prefix).subject(">");
        let messages = client
            .subscribe(subject)
            .await
            .map_err(|error| NatsError(error.to_string()))?;
        Ok(Self {
            messages,
            prefix: prefix.to_owned(),
        })
    }

    /// The next heartbeat. None if the connection is closed.
    pub async fn next(&mut self) -> Option<SessionHeartbeat> {
        loop {
            let message = next(&mut self.messages).await?;
            let subject = message.subject.as_str();
            if let Some(heartbeat) = read_heartbeat(subject, &message.payload, &self.prefix) {
                return Some(heartbeat);
            }
        }
    }
}

/// The heartbeat in a message. Every program can write to the bucket, so creel ignores one that
/// does not match its key or whose session or id is not a valid name, and one in a newer format.
fn read_heartbeat(subject: &str, payload: &[u8], prefix: &str) -> Option<SessionHeartbeat> {
    let heartbeat = serde_json::from_slice::<SessionHeartbeat>(payload).ok()?;
    let (session, id) = (&heartbeat.status.session, &heartbeat.id);
    let is_plain = is_plain(session) && is_plain(id);
    (is_plain && heartbeat_subject(prefix, session, id) == subject).then_some(heartbeat)
}

/// How long the bucket keeps an entry that is not written again.
const WORKER_REMEMBERED: Duration = Duration::from_mins(1);
/// How often a worker writes its entry when nothing changes.
const WORKER_EVERY: Duration = Duration::from_secs(15);
/// How often a worker looks whether something has changed.
const LOOK: Duration = Duration::from_secs(1);

/// A worker, as the list has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedWorker {
    /// The worker's id; no other worker has ever had it.
    pub worker: String,
    pub host: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The folder of its project.
    pub project: String,
    /// How many sessions it runs at once.
    pub jobs: usize,
    /// How many of its sessions work.
    pub working: usize,
    /// How many of its sessions wait for the user. They take no slot.
    pub waiting: usize,
    /// The types of tasks that it takes. Empty: all types.
    pub types: Vec<String>,
    /// The agents that it has for them.
    pub agents: Vec<String>,
    /// When it wrote this.
    pub seen: String,
}

/// The entry of a worker in the list. It has a connection of its own: what the server refuses here
/// does not concern the queue.
#[derive(Debug)]
pub struct WorkerListEntry {
    client: Client,
    subject: String,
}

impl WorkerListEntry {
    /// `None` if the server does not keep such a list.
    pub async fn open(nats: &NatsConfig, worker: &str) -> Option<Self> {
        let (client, _events) = connect(nats, ReconnectPolicy::ByItself).await.ok()?;
        let (bucket, jetstream) = (
            ExpiringBucket::of_workers(&nats.prefix),
            jetstream::new(client.clone()),
        );
        let ensured = bucket.ensure(&jetstream, WORKER_REMEMBERED, nats.stream.replicas);
        if let Err(why) = ensured.await {
            tracing::warn!("nats: this worker is not in the server's list of workers: {why}");
            return None;
        }
        Some(Self {
            client,
            subject: bucket.subject(worker),
        })
    }

    /// Keeps the entry up to date until the caller drops the future.
    pub async fn keep(&self, describe: impl Fn() -> ListedWorker) {
        let mut written: Option<(ListedWorker, Instant)> = None;
        loop {
            let worker = describe();
            if written
                .as_ref()
                .is_none_or(|(before, at)| *before != worker || at.elapsed() >= WORKER_EVERY)
            {
                let entry = ListedWorker {
                    seen: now().rfc3339(),
                    ..worker.clone()
                };
                write_entry(&self.client, self.subject.clone(), &entry).await;
                written = Some((worker, Instant::now()));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Removes the entry. An unreachable server does so by itself.
    pub async fn remove(self) {
        let _ = self.client.publish(self.subject, Vec::new().into()).await;
        let _ = tokio::time::timeout(LOOK, self.client.flush()).await;
    }
}

/// The workers that are running, by host and project.
pub async fn workers(jetstream: &Context, prefix: &str) -> Result<Vec<ListedWorker>, NatsError> {
    let entries = ExpiringBucket::of_workers(prefix)
        .entries(jetstream)
        .await?;
    // Every program can write to the bucket.
    let mut workers: Vec<ListedWorker> = entries
        .iter()
        .filter_map(|message| serde_json::from_slice(&message.payload).ok())
        .collect();
    workers.sort_by(|one, other| {
        (&one.host, &one.project, &one.worker).cmp(&(&other.host, &other.project, &other.worker))
    });
    Ok(workers)
}
