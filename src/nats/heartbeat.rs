//! The list of running sessions on all machines: each session writes heartbeats to a bucket whose
//! entries expire.
//!
//! # Invariants
//! - A session is listed once, however often it changes.
//! - A session that crashed is recognised by the age of its last heartbeat.
//! - A session disappears from the list when its last heartbeat is older than `max_age`, or than a
//!   day without one.

use std::{cell::Cell, pin::Pin, sync::Arc, time::Duration};

use async_nats::{Client, Subscriber, jetstream::Context};
use futures_core::Stream as _;
use serde::{Deserialize, Serialize};

use super::{connection::NatsError, subject::is_plain};
use crate::{
    config::NatsConfig,
    engine::time::UnixTime,
    journal::record::rfc3339,
    nats::stream::{self, NatsStream},
    protocol::{
        ReplyData, SessionQuery,
        caller::{host, user},
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

pub fn bucket(prefix: &str) -> String {
    format!("{}-sessions", prefix.replace('.', "_"))
}

/// The subject of a session's heartbeats.
fn key(prefix: &str, session: &str, id: &str) -> String {
    format!("$KV.{}.{session}.{id}", bucket(prefix))
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
                self.give(id, *status).await;
            }
            tokio::time::sleep(SOONEST).await;
            // When a session ends, `give_last` sends its last heartbeat.
            if let Ok(Err(_)) = tokio::time::timeout(EVERY, news.changed()).await {
                std::future::pending::<()>().await;
            }
        }
    }

    pub(super) async fn give(&self, id: &str, status: StatusView) {
        let subject = key(&self.nats.prefix, &status.session, id);
        let sign = SessionHeartbeat {
            host: host(),
            user: user(),
            id: id.to_owned(),
            seen: rfc3339(now()),
            status,
        };
        let text = serde_json::to_vec(&sign).expect("a sign has no keys that are not text");
        // A heartbeat that is lost does not matter: another one follows.
        let _ = self.client.publish(subject, text.into()).await;
    }

    /// Sends the last heartbeat. A session can end before it has sent any.
    pub(super) async fn give_last(&self, id: &str, status: StatusView) {
        if let Err(NatsError(why)) = self.open(&mut drop).await {
            tracing::warn!("nats: cannot add this session to the server's list of sessions: {why}");
        }
        self.give(id, status).await;
        let _ = self.client.flush().await;
    }

    /// Makes the bucket, if there is none. Looks for it only once, so that a session that ends does
    /// not wait for the server again.
    async fn open(&self, warn: &mut impl FnMut(String)) -> Result<(), NatsError> {
        if !self.is_open.get() {
            let kept = remembered(self.nats).max(SHORTEST);
            let wanted =
                stream::bucket(&bucket(&self.nats.prefix), kept, self.nats.stream.replicas);
            let store = stream::ensured_replicas(self.jetstream, wanted).await?;
            self.is_open.set(true);
            store.differences.into_iter().for_each(warn);
        }
        Ok(())
    }
}

/// The last heartbeats of all sessions, the latest first.
pub async fn signs(
    jetstream: &Context,
    nats: &NatsConfig,
) -> Result<Vec<SessionHeartbeat>, NatsError> {
    let (prefix, at) = (nats.prefix.as_str(), now());
    let bucket = bucket(prefix);
    // The bucket does not exist if no session has used this server.
    let Some(stream) = stream::found(jetstream, &format!("KV_{bucket}")).await? else {
        return Ok(Vec::new());
    };
    let last = Arc::new(NatsStream::of(stream))
        .last_of_each(format!("$KV.{bucket}.>"))
        .await?;
    let mut signs: Vec<SessionHeartbeat> = last
        .iter()
        .filter_map(|message| sign(message.subject.as_str(), &message.payload, prefix))
        .collect();
    signs.retain(|sign| !sign.is_past(nats, at));
    signs.sort_by(|one, other| {
        other
            .seen
            .cmp(&one.seen)
            .then_with(|| one.id.cmp(&other.id))
    });
    Ok(signs)
}

/// All heartbeats from now on.
pub struct HeartbeatWatch {
    messages: Subscriber,
    prefix: String,
}

impl HeartbeatWatch {
    pub async fn start(client: &Client, prefix: &str) -> Result<Self, NatsError> {
        let subject = format!("$KV.{}.>", bucket(prefix));
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
            let message =
                std::future::poll_fn(|context| Pin::new(&mut self.messages).poll_next(context))
                    .await?;
            if let Some(sign) = sign(message.subject.as_str(), &message.payload, &self.prefix) {
                return Some(sign);
            }
        }
    }
}

/// The heartbeat in a message. Every program can write to the bucket, so creel ignores one that
/// does not match its key or whose session or id is not a valid name, and one in a newer format.
fn sign(subject: &str, payload: &[u8], prefix: &str) -> Option<SessionHeartbeat> {
    let sign = serde_json::from_slice::<SessionHeartbeat>(payload).ok()?;
    let is_plain = is_plain(&sign.status.session) && is_plain(&sign.id);
    (is_plain && key(prefix, &sign.status.session, &sign.id) == subject).then_some(sign)
}
