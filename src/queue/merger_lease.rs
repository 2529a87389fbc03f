//! Which creel merges a queue on a server: an entry in the queue's bucket that its writer renews again and
//! again.
//!
//! Does not lock the folder in which merges are made: see the module `farm`.
//!
//! # Invariants
//! - No clock of another machine counts: a merger is presumed dead if its entry has not changed for as long as
//!   the entry says, by the clock of the one that waits.
//! - A merger whose entry was replaced, or that could not renew it for that long, learns that the lease is
//!   lost.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{
    nats::connection::NatsError,
    queue::{backend::QueueFailure, task_bucket::TaskBucket},
};

/// The shortest and the longest lease that counts, whatever an entry says.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(10);

/// The entry of a merger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergerEntry {
    /// Unique among all mergers.
    pub merger: String,
    pub host: String,
    /// How many milliseconds it can be silent.
    pub lease: u64,
}

impl MergerEntry {
    fn length(&self) -> Duration {
        Duration::from_millis(self.lease).clamp(SHORTEST, LONGEST)
    }
}

/// What one that waits for the lease has seen of the merger that has it.
#[derive(Debug, Default)]
pub struct MergerWatch {
    /// The entry's revision, and when it was new.
    seen: Option<(u64, Instant)>,
}

/// The answer to one that wants to merge.
pub enum MergerTurn {
    Taken(Box<MergerLease>),
    /// The merger on this host has the lease.
    Waits(String),
}

#[derive(Debug)]
pub struct MergerLease {
    bucket: TaskBucket,
    entry: MergerEntry,
    /// Of the entry that was written last.
    revision: Mutex<u64>,
}

impl MergerWatch {
    /// Takes the lease if it is free, or if its merger has been silent for too long.
    pub(super) async fn take(
        &mut self,
        bucket: &TaskBucket,
        entry: &MergerEntry,
    ) -> Result<MergerTurn, QueueFailure> {
        let (found, revision) = bucket.merger().await?;
        if let Some(found) = found.filter(|found| found.merger != entry.merger) {
            let at = match self.seen {
                Some((seen, at)) if seen == revision => at,
                Some(_) | None => Instant::now(),
            };
            self.seen = Some((revision, at));
            if at.elapsed() < found.length() {
                return Ok(MergerTurn::Waits(found.host));
            }
        }
        let lease = |revision| MergerLease {
            bucket: bucket.clone(),
            entry: entry.clone(),
            revision: Mutex::new(revision),
        };
        let taken = bucket.write_merger(Some(entry), revision).await?;
        // Another one may have been faster.
        Ok(taken.map_or_else(
            || MergerTurn::Waits(String::new()),
            |revision| MergerTurn::Taken(Box::new(lease(revision))),
        ))
    }
}

impl MergerLease {
    /// Renews the lease. Returns when it is lost.
    pub async fn keep(&self) {
        let (length, mut renewed) = (self.entry.length(), Instant::now());
        loop {
            tokio::time::sleep(length / 3).await;
            match tokio::time::timeout(length / 3, self.renew()).await {
                Ok(Ok(true)) => renewed = Instant::now(),
                Ok(Err(_)) | Err(_) if renewed.elapsed() < length => {}
                Ok(Ok(false) | Err(_)) | Err(_) => return,
            }
        }
    }

    async fn renew(&self) -> Result<bool, NatsError> {
        let known = *self.revision();
        if let Some(revision) = self.bucket.write_merger(Some(&self.entry), known).await? {
            *self.revision() = revision;
            return Ok(true);
        }
        // The answer to an earlier attempt may have been lost.
        let (found, revision) = self.bucket.merger().await?;
        let is_ours = found.is_some_and(|found| found == self.entry);
        if is_ours {
            *self.revision() = revision;
        }
        Ok(is_ours)
    }

    /// Leaves the lease to others at once.
    pub async fn release(&self) {
        let known = *self.revision();
        let released = self.bucket.write_merger(None, known);
        // Otherwise it expires.
        let _ = tokio::time::timeout(SHORTEST, released).await;
    }

    fn revision(&self) -> std::sync::MutexGuard<'_, u64> {
        self.revision.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
