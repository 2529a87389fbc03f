//! Which sessions there are on which machines: a sign of life from each, in a bucket that forgets.
//!
//! # Invariants
//! - A session is listed once, whatever it does meanwhile.
//! - A session that is gone without a word is seen by its last sign, and is forgotten after a day.

use std::{cell::Cell, sync::Arc, time::Duration};

use async_nats::{
    Client,
    jetstream::{Context, message::StreamMessage},
};
use serde::{Deserialize, Serialize};

use super::{connection::NatsError, subject::is_plain};
use crate::{
    config::NatsConfig,
    engine::time::UnixTime,
    journal::record::rfc3339,
    nats::stream::{self, NatsStream},
    runtime::now,
    socket::{
        caller::host,
        message::{ReplyData, SessionQuery},
        session_mirror::QueryHandle,
        view::StatusView,
    },
};

/// How long a session is remembered that gives no more signs.
const REMEMBERED: Duration = Duration::from_hours(24);
/// How often a session gives a sign when nothing happens.
const EVERY: Duration = Duration::from_secs(10);
/// Signs do not come faster.
const SOONEST: Duration = Duration::from_millis(500);

/// A sign of life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionHeartbeat {
    /// The machine.
    pub host: String,
    /// The session's id: names can be given twice.
    pub id: String,
    /// When it was given.
    pub seen: String,
    /// How the session is.
    #[serde(flatten)]
    pub status: StatusView,
}

impl SessionHeartbeat {
    /// Whether it is so old that the session can be taken for gone, if it has not ended.
    pub fn is_overdue(&self, at: UnixTime) -> bool {
        let seen: Option<jiff::Timestamp> = self.seen.parse().ok();
        let seen = seen.map_or(UnixTime(0), |seen| UnixTime(seen.as_millisecond()));
        Duration::from(at.since(seen)) > EVERY * 3
    }
}

/// The bucket's name.
pub fn bucket(prefix: &str) -> String {
    format!("{}-sessions", prefix.replace('.', "_"))
}

/// The subject of a session's sign.
fn key(prefix: &str, session: &str, id: &str) -> String {
    format!("$KV.{}.{session}.{id}", bucket(prefix))
}

/// Where signs are given.
pub(super) struct HeartbeatSender<'a> {
    nats: &'a NatsConfig,
    client: &'a Client,
    jetstream: &'a Context,
    /// Whether the bucket is there.
    is_open: Cell<bool>,
}

impl<'a> HeartbeatSender<'a> {
    pub(super) const fn new(nats: &'a NatsConfig, client: &'a Client, jetstream: &'a Context) -> Self {
        Self { nats, client, jetstream, is_open: Cell::new(false) }
    }

    /// Gives signs of life until the caller drops it. A server that does not store them is not an error, since only
    /// records matter. It may store them later, when a cluster has a leader again.
    pub(super) async fn keep(&self, id: &str, desk: &QueryHandle, warn: &mut impl FnMut(String)) {
        while let Err(NatsError(why)) = self.open(warn).await {
            tracing::warn!("nats: no list of sessions: {why}");
            tokio::time::sleep(EVERY).await;
        }
        let mut news = desk.news.clone();
        loop {
            if let Some(ReplyData::Status(status)) = desk.ask(SessionQuery::Status).await.told {
                self.give(id, *status).await;
            }
            tokio::time::sleep(SOONEST).await;
            // A session that is over says so itself, with its last sign.
            if let Ok(Err(_)) = tokio::time::timeout(EVERY, news.changed()).await {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Gives a sign.
    pub(super) async fn give(&self, id: &str, status: StatusView) {
        let subject = key(&self.nats.prefix, &status.session, id);
        let sign = SessionHeartbeat { host: host(), id: id.to_owned(), seen: rfc3339(now()), status };
        let text = serde_json::to_vec(&sign).expect("a sign has no keys that are not text");
        // It may be too late, or too early: there is always a next one.
        let _ = self.client.publish(subject, text.into()).await;
    }

    /// Gives the last sign. A session may be over before it could give any.
    pub(super) async fn give_last(&self, id: &str, status: StatusView) {
        if let Err(NatsError(why)) = self.open(&mut drop).await {
            tracing::warn!("nats: no list of sessions: {why}");
        }
        self.give(id, status).await;
        let _ = self.client.flush().await;
    }

    /// Makes the bucket, if there is none. It is looked for once: whoever leaves need not wait for that.
    async fn open(&self, warn: &mut impl FnMut(String)) -> Result<(), NatsError> {
        if !self.is_open.get() {
            let wanted = stream::bucket(&bucket(&self.nats.prefix), REMEMBERED, self.nats.stream.replicas);
            let store = stream::ensured_replicas(self.jetstream, wanted).await?;
            self.is_open.set(true);
            store.differences.into_iter().for_each(warn);
        }
        Ok(())
    }
}

/// The last signs of all sessions, the latest first.
pub async fn signs(jetstream: &Context, prefix: &str) -> Result<Vec<SessionHeartbeat>, NatsError> {
    let bucket = bucket(prefix);
    // A server that no session was told to has none.
    let Some(stream) = stream::found(jetstream, &format!("KV_{bucket}")).await? else { return Ok(Vec::new()) };
    let last = Arc::new(NatsStream::of(stream)).last_of_each(format!("$KV.{bucket}.>")).await?;
    let mut signs: Vec<SessionHeartbeat> = last.iter().filter_map(|message| sign(message, prefix)).collect();
    signs.sort_by(|one, other| other.seen.cmp(&one.seen).then_with(|| one.id.cmp(&other.id)));
    Ok(signs)
}

/// The sign of life in a message. Every program can write there, so a sign of another session, or of a name that creel
/// does not give, is ignored. A newer creel may use another format.
fn sign(message: &StreamMessage, prefix: &str) -> Option<SessionHeartbeat> {
    let sign = serde_json::from_slice::<SessionHeartbeat>(&message.payload).ok()?;
    let is_plain = is_plain(&sign.status.session) && is_plain(&sign.id);
    (is_plain && key(prefix, &sign.status.session, &sign.id) == message.subject.as_str()).then_some(sign)
}
