//! Surveys the work tree around each turn of an agent, and whenever the engine wants to know what
//! changed since.
//!
//! # Invariants
//! - A survey never delays the end of a cancelled turn.
//! - The state before a turn is never older than the last hook, rule or turn.
//! - Each change after a turn is reported once, by the next measurement.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{
    engine::{conversation::WorktreeChanges, verify::MeasuredChanges},
    hooks::HookWorkspace,
    runtime::worktree::{DigestMemory, WorktreeSnapshot, WorktreeSurveyor},
};

/// How long a survey serves as the state before the next turn. The user cannot change files on
/// purpose in this time.
const STILL_FRESH: Duration = Duration::from_millis(500);

/// Shared by all agents that work in the session, because a fallback continues with the files of
/// the agent before it.
pub(super) type SharedWorkMemory = Arc<tokio::sync::Mutex<WorkMemory>>;

/// What creel remembers of the work.
pub(super) struct WorkMemory {
    surveyor: WorktreeSurveyor,
    /// Digests of the files that earlier turns changed.
    digests: DigestMemory,
    /// The work at the last look.
    mark: Option<WorktreeSnapshot>,
    /// None if the project's folder is the whole repository, or is in none.
    outside: Option<RestOfRepository>,
}

/// The tracked files of the repository outside of the project's folder. Where creel cannot survey
/// them, they do not count: a session in one folder of a huge repository would never be verified.
struct RestOfRepository {
    surveyor: WorktreeSurveyor,
    /// The path from the repository's root to the project's folder.
    part: PathBuf,
    mark: Option<WorktreeSnapshot>,
}

impl WorkMemory {
    pub(super) fn new(place: &HookWorkspace) -> SharedWorkMemory {
        let surveyor = WorktreeSurveyor::new(place.cwd.clone(), place.mark.clone());
        let outside = WorktreeSurveyor::around(&place.cwd, &place.mark);
        let outside = outside.map(|(surveyor, part)| RestOfRepository {
            surveyor,
            part,
            mark: None,
        });
        Arc::new(tokio::sync::Mutex::new(Self {
            surveyor,
            digests: DigestMemory::default(),
            mark: None,
            outside,
        }))
    }

    /// The tracked files outside of the project's folder that changed since the last look.
    async fn changes_outside(&mut self) -> Vec<String> {
        match &mut self.outside {
            Some(outside) => outside.changes().await,
            None => Vec::new(),
        }
    }

    /// What changed since the last look. None if that cannot be known. The first look has nothing
    /// to compare with.
    pub(super) async fn measure(&mut self) -> Option<MeasuredChanges> {
        let now = self.surveyor.survey().await;
        if now.is_hopeless() {
            self.mark = None;
            return None;
        }
        let outside = self.changes_outside().await;
        let mut changes = match self.mark.replace(now.clone()) {
            Some(before) => now.measured_since(&before).await?,
            None => MeasuredChanges::default(),
        };
        changes.tracked.extend(outside);
        Some(changes)
    }
}

impl RestOfRepository {
    async fn changes(&mut self) -> Vec<String> {
        let now = self.surveyor.survey().await;
        let before = std::mem::replace(&mut self.mark, (!now.is_hopeless()).then(|| now.clone()));
        let Some(before) = before else {
            return Vec::new();
        };
        let changes = now.measured_since(&before).await.unwrap_or_default();
        let up = "../".repeat(self.part.components().count());
        let outside = changes
            .tracked
            .into_iter()
            .filter(|name| !Path::new(name).starts_with(&self.part));
        outside.map(|name| format!("{up}{name}")).collect()
    }
}

pub(super) struct WorktreeWatcher {
    /// None if there is nothing to survey: the folder is too large or too slow, or the agent only
    /// reviews.
    memory: Option<SharedWorkMemory>,
    activity: SessionActivity,
    /// The activity at the last survey, if everything rested then.
    surveyed_at: Option<u64>,
}

/// Counts the hooks, rules and turns that began and that ended. If as many ended as began, and none
/// has begun since, none of them has changed files.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionActivity(Arc<ActivityCounts>);

#[derive(Debug, Default)]
struct ActivityCounts {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// Something that can change files and has not ended yet.
#[derive(Debug)]
pub(super) struct ActiveWork(SessionActivity);

impl SessionActivity {
    pub(super) fn begin(&self) -> ActiveWork {
        self.0.begun.fetch_add(1, Ordering::SeqCst);
        ActiveWork(self.clone())
    }

    /// How much began so far, if all of it has ended.
    fn at_rest(&self) -> Option<u64> {
        let ended = self.0.ended.load(Ordering::SeqCst);
        // Read in this order: what begins and ends in between does not look like rest.
        (self.0.begun.load(Ordering::SeqCst) == ended).then_some(ended)
    }
}

impl Drop for ActiveWork {
    fn drop(&mut self) {
        self.0.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

impl WorktreeWatcher {
    pub(super) fn new(memory: SharedWorkMemory, activity: SessionActivity) -> Self {
        Self {
            memory: Some(memory),
            activity,
            surveyed_at: None,
        }
    }

    /// For an agent that should change no files. If it does, that is not the next agent's work.
    pub(super) fn of_nothing(activity: SessionActivity) -> Self {
        Self {
            memory: None,
            activity,
            surveyed_at: None,
        }
    }

    /// The work tree before a turn. The last survey serves if nothing has run since.
    pub(super) async fn look_before(
        &mut self,
        cancel: &CancellationToken,
    ) -> Option<WorktreeSnapshot> {
        let is_current = self.surveyed_at.is_some() && self.activity.at_rest() == self.surveyed_at;
        let latest = self
            .memory
            .as_ref()?
            .lock()
            .await
            .surveyor
            .latest(STILL_FRESH);
        let before = match latest.filter(|_| is_current) {
            Some(latest) => latest,
            None => self.look(cancel).await?,
        };
        let mut memory = self.memory.as_ref()?.lock().await;
        cancel.run_until_cancelled(memory.changes_outside()).await?;
        memory.mark = Some(before.clone());
        Some(before)
    }

    /// Call when the prompt is sent, and drop the result when the turn has ended.
    pub(super) fn begin_turn(&self) -> ActiveWork {
        self.activity.begin()
    }

    async fn look(&mut self, cancel: &CancellationToken) -> Option<WorktreeSnapshot> {
        self.surveyed_at = self.activity.at_rest();
        let memory = self.memory.clone()?;
        let survey = cancel
            .run_until_cancelled(async { memory.lock().await.surveyor.survey().await })
            .await?;
        if survey.is_hopeless() {
            // After the first failure creel does not try again.
            self.memory = None;
            tracing::warn!(
                "the project folder is too large or too slow for creel to see what each turn changes"
            );
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
        let mut work = cancel
            .run_until_cancelled(after.changes_since(&before))
            .await??;
        let memory = self.memory.clone()?;
        let mut memory = memory.lock().await;
        cancel
            .run_until_cancelled(memory.digests.add_contents(&before, &after, &mut work))
            .await;
        memory.mark = Some(after);
        let outside = cancel.run_until_cancelled(memory.changes_outside()).await?;
        work.files_modified.extend(outside);
        Some(Box::new(work))
    }
}
