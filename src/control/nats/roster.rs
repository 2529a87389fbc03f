//! Which sessions there are on which machines: a sign of life from each, in a bucket that forgets.
//!
//! # Invariants
//! - A session that is gone without a word is seen by its last sign, and is forgotten after a day.

use std::{cell::Cell, time::Duration};

use async_nats::{Client, jetstream::Context};
use serde::{Deserialize, Serialize};

use super::{
    connection::Trouble,
    store::{self, Store},
    subject::is_plain,
};
use crate::{
    control::{
        caller::host,
        socket::{
            ledger::Desk,
            message::{Question, Told},
            view::Status,
        },
    },
    engine::time::At,
    journal::record::rfc3339,
    runtime::now,
};

/// How long a session is remembered that gives no more signs.
const REMEMBERED: Duration = Duration::from_hours(24);
/// How often a session gives a sign when nothing happens.
const EVERY: Duration = Duration::from_secs(10);
/// Signs do not come faster.
const SOONEST: Duration = Duration::from_millis(500);

/// A sign of life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sign {
    /// The machine.
    pub host: String,
    /// The session's id: names can be given twice.
    pub id: String,
    /// When it was given.
    pub seen: String,
    /// How the session is.
    #[serde(flatten)]
    pub status: Status,
}

impl Sign {
    /// Whether it is so old that the session can be taken for gone, if it has not ended.
    pub fn is_overdue(&self, at: At) -> bool {
        let seen: Option<jiff::Timestamp> = self.seen.parse().ok();
        let seen = seen.map_or(At(0), |seen| At(seen.as_millisecond()));
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
pub(super) struct Roster<'a> {
    prefix: &'a str,
    client: &'a Client,
    jetstream: &'a Context,
    /// Whether the bucket is there.
    is_open: Cell<bool>,
}

impl<'a> Roster<'a> {
    pub(super) const fn new(prefix: &'a str, client: &'a Client, jetstream: &'a Context) -> Self {
        Self { prefix, client, jetstream, is_open: Cell::new(false) }
    }

    /// Gives signs of life as long as it is asked to. A server that does not keep them is no trouble: records matter.
    pub(super) async fn keep(&self, id: &str, desk: &Desk) {
        if let Err(Trouble(why)) = self.open().await {
            tracing::warn!("nats: no list of sessions: {why}");
            std::future::pending::<()>().await;
        }
        let mut news = desk.news.clone();
        loop {
            if let Some(Told::Status(status)) = desk.ask(Question::Status).await.told {
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
    pub(super) async fn give(&self, id: &str, status: Status) {
        let subject = key(self.prefix, &status.session, id);
        let sign = Sign { host: host(), id: id.to_owned(), seen: rfc3339(now()), status };
        let text = serde_json::to_vec(&sign).expect("a sign has no keys that are not text");
        // It may be too late, or too early: there is always a next one.
        let _ = self.client.publish(subject, text.into()).await;
    }

    /// Gives the last sign. A session may be over before it could give any.
    pub(super) async fn give_last(&self, id: &str, status: Status) {
        if let Err(Trouble(why)) = self.open().await {
            tracing::warn!("nats: no list of sessions: {why}");
        }
        self.give(id, status).await;
        let _ = self.client.flush().await;
    }

    /// Makes the bucket, if there is none. It is looked for once: whoever leaves need not wait for that.
    async fn open(&self) -> Result<(), Trouble> {
        if !self.is_open.get() {
            let config = store::bucket(&bucket(self.prefix), REMEMBERED, 1);
            store::ensured(self.jetstream, config).await?;
            self.is_open.set(true);
        }
        Ok(())
    }
}

/// The last signs of all sessions, the latest first.
pub async fn signs(jetstream: &Context, prefix: &str) -> Result<Vec<Sign>, Trouble> {
    let bucket = bucket(prefix);
    // A server that no session was told to has none.
    let Some(stream) = store::found(jetstream, &format!("KV_{bucket}")).await? else { return Ok(Vec::new()) };
    let store = Store::of(stream);
    let (subject, mut from) = (format!("$KV.{bucket}.>"), 1);
    let mut signs: Vec<Sign> = Vec::new();
    while let Some(message) = store.next_of(&subject, from).await? {
        from = message.sequence + 1;
        // A newer creel may say it in other words. Anybody can write there: a name that creel does not give is none.
        let sign = serde_json::from_slice::<Sign>(&message.payload).ok();
        signs.extend(sign.filter(|sign| is_plain(&sign.status.session) && is_plain(&sign.id)));
    }
    signs.sort_by(|one, other| other.seen.cmp(&one.seen));
    Ok(signs)
}
