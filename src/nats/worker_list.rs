//! The list of workers on all machines: each worker writes to a bucket whose entries expire what it
//! can do, and how much of that it does.
//!
//! # Invariants
//! - A worker that died disappears from the list after a minute.
//! - A server that does not keep the list stops no worker.

use std::{sync::Arc, time::Duration};

use async_nats::{
    Client,
    jetstream::{self, Context},
};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{
    config::NatsConfig,
    journal::record::rfc3339,
    nats::{
        connection::{NatsError, ReconnectPolicy, connect},
        stream::{self, NatsStream},
    },
    runtime::now,
};

/// How long the bucket keeps an entry that is not written again.
const REMEMBERED: Duration = Duration::from_mins(1);
/// How often a worker writes its entry when nothing changes.
const EVERY: Duration = Duration::from_secs(15);
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

fn bucket(prefix: &str) -> String {
    format!("{}-workers", prefix.replace('.', "_"))
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
        let (client, _told) = connect(nats, ReconnectPolicy::ByItself).await.ok()?;
        let bucket = bucket(&nats.prefix);
        let wanted = stream::bucket(&bucket, REMEMBERED, nats.stream.replicas);
        if let Err(why) = stream::ensured_replicas(&jetstream::new(client.clone()), wanted).await {
            tracing::warn!("nats: this worker is not in the server's list of workers: {why}");
            return None;
        }
        Some(Self {
            client,
            subject: format!("$KV.{bucket}.{worker}"),
        })
    }

    /// Keeps the entry up to date until the caller drops the future.
    pub async fn keep(&self, describe: impl Fn() -> ListedWorker) {
        let mut written: Option<(ListedWorker, Instant)> = None;
        loop {
            let worker = describe();
            if written
                .as_ref()
                .is_none_or(|(before, at)| *before != worker || at.elapsed() >= EVERY)
            {
                let entry = ListedWorker {
                    seen: rfc3339(now()),
                    ..worker.clone()
                };
                let text =
                    serde_json::to_vec(&entry).expect("an entry has no keys that are not text");
                // One that is lost does not matter: another one follows.
                let _ = self.client.publish(self.subject.clone(), text.into()).await;
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
    let bucket = bucket(prefix);
    // The bucket does not exist if no worker has used this server.
    let Some(stream) = stream::found(jetstream, &format!("KV_{bucket}")).await? else {
        return Ok(Vec::new());
    };
    let last = Arc::new(NatsStream::of(stream))
        .last_of_each(format!("$KV.{bucket}.>"))
        .await?;
    // Every program can write to the bucket.
    let mut workers: Vec<ListedWorker> = last
        .iter()
        .filter_map(|message| serde_json::from_slice(&message.payload).ok())
        .collect();
    workers.sort_by(|one, other| {
        (&one.host, &one.project, &one.worker).cmp(&(&other.host, &other.project, &other.worker))
    });
    Ok(workers)
}
