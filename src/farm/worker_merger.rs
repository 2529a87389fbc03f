//! The merger of a worker, which merges what is finished while the worker's sessions run.
//!
//! # Invariants
//! - A worker that drains the queue does not end before everything is merged that can be.

use std::sync::Arc;

use tokio::{runtime::Handle, sync::watch};
use tokio_util::sync::CancellationToken;

use crate::{
    engine::queue::QueuedTask,
    farm::{
        FarmError,
        merge_loop::{MergeLoop, MergeProgress},
    },
};

/// The exit code of a worker that left tasks which only the user can get merged.
const NEEDS_USER: u8 = 4;

pub(crate) struct WorkerMerger {
    merging: Arc<MergeLoop>,
    progress: watch::Sender<MergeProgress>,
}

impl WorkerMerger {
    pub(crate) fn new(merging: MergeLoop) -> Self {
        Self {
            merging: Arc::new(merging),
            progress: watch::Sender::new(MergeProgress::default()),
        }
    }

    /// Whether nothing of these tasks is still to be merged.
    pub(super) fn has_done<'a>(&self, tasks: impl Iterator<Item = &'a QueuedTask>) -> bool {
        self.progress.borrow().has_done(tasks)
    }

    /// Waits until it has merged what it can.
    pub(super) async fn changed(&self) {
        let _ = self.progress.subscribe().changed().await;
    }

    /// Merges while the worker works. Returns the exit code of both. If the merger ends first, `close` makes
    /// the worker end.
    pub(super) async fn run_with(
        &self,
        work: impl Future<Output = Result<u8, FarmError>>,
        close: impl Fn(),
    ) -> Result<u8, FarmError> {
        let stop = CancellationToken::new();
        let (merging, stopped, progress) = (
            Arc::clone(&self.merging),
            stop.clone(),
            self.progress.clone(),
        );
        let mut merging = tokio::task::spawn_blocking(move || {
            merging.run(&Handle::current(), &stopped, &progress)
        });
        let mut work = std::pin::pin!(work);
        let (worked, merged) = tokio::select! {
            worked = &mut work => {
                stop.cancel();
                (worked, merging.await)
            }
            merged = &mut merging => {
                close();
                (work.await, merged)
            }
        };
        let code = worked?;
        merged.map_err(|error| FarmError::Failed(format!("the merger ended: {error}")))??;
        let has_left = code == 0 && self.progress.borrow().has_left();
        Ok(if has_left { NEEDS_USER } else { code })
    }
}
