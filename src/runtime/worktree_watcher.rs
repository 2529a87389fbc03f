//! Surveys the work tree around each turn of an agent.
//!
//! # Invariants
//! - A survey never delays the end of a cancelled turn.
//! - The state before a turn is never older than the last hook, rule or turn.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{
    engine::conversation::WorktreeChanges,
    hooks::HookWorkspace,
    runtime::worktree::{DigestMemory, WorktreeSnapshot, WorktreeSurveyor},
};

/// How long a survey serves as the state before the next turn. The user cannot change files on purpose in this time.
const STILL_FRESH: Duration = Duration::from_millis(500);

/// Shared by all agents that work in the session, because a fallback continues with the files of the agent before it.
pub(super) type SharedDigestMemory = Arc<tokio::sync::Mutex<DigestMemory>>;

pub(super) struct WorktreeWatcher {
    /// None if there is nothing to survey: the folder is too large or too slow, or the agent only reviews.
    surveyor: Option<WorktreeSurveyor>,
    /// Digests of the files that earlier turns changed.
    memory: SharedDigestMemory,
    activity: SessionActivity,
    /// The activity at the last survey.
    surveyed_at: u64,
}

/// Counts the starts and ends of hooks, rules and turns. While the count is the same, none of them has changed files.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionActivity(Arc<AtomicU64>);

/// Something that can change files and has not ended yet.
#[derive(Debug)]
pub(super) struct ActiveWork(SessionActivity);

impl SessionActivity {
    pub(super) fn begin(&self) -> ActiveWork {
        self.0.fetch_add(1, Ordering::SeqCst);
        ActiveWork(self.clone())
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for ActiveWork {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl WorktreeWatcher {
    pub(super) fn new(place: &HookWorkspace, memory: SharedDigestMemory, activity: SessionActivity) -> Self {
        let surveyor = Some(WorktreeSurveyor::new(place.cwd.clone(), place.mark.clone()));
        Self { surveyor, memory, activity, surveyed_at: 0 }
    }

    /// For an agent that changes no files.
    pub(super) fn of_nothing() -> Self {
        Self {
            surveyor: None,
            memory: SharedDigestMemory::default(),
            activity: SessionActivity::default(),
            surveyed_at: 0,
        }
    }

    /// The work tree before a turn. The last survey serves if nothing has run since.
    pub(super) async fn look_before(&mut self, cancel: &CancellationToken) -> Option<WorktreeSnapshot> {
        let is_current = self.activity.count() == self.surveyed_at;
        match self.surveyor.as_ref()?.latest(STILL_FRESH).filter(|_| is_current) {
            Some(latest) => Some(latest),
            None => self.look(cancel).await,
        }
    }

    /// Call when the prompt is sent, and drop the result when the turn has ended.
    pub(super) fn begin_turn(&self) -> ActiveWork {
        self.activity.begin()
    }

    async fn look(&mut self, cancel: &CancellationToken) -> Option<WorktreeSnapshot> {
        self.surveyed_at = self.activity.count();
        let survey = cancel.run_until_cancelled(self.surveyor.as_mut()?.survey()).await?;
        if survey.is_hopeless() {
            // After the first failure creel does not try again.
            self.surveyor = None;
            tracing::warn!("the project folder is too large or too slow for creel to see what each turn changes");
        }
        Some(survey)
    }

    /// What has changed since `before`.
    pub(super) async fn compare(
        &mut self,
        before: Option<WorktreeSnapshot>,
        cancel: &CancellationToken,
    ) -> Option<Box<WorktreeChanges>> {
        let before = before?;
        let after = self.look(cancel).await?;
        let mut work = cancel.run_until_cancelled(after.changes_since(&before)).await??;
        let mut memory = self.memory.lock().await;
        cancel.run_until_cancelled(memory.add_contents(&before, &after, &mut work)).await;
        Some(Box::new(work))
    }
}
