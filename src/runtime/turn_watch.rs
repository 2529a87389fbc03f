//! Compares the files that an agent must not change: before each of its prompts, after each of its
//! turns, and before a session is complete.
//!
//! # Invariants
//! - The baseline of a turn is in the session's folder before the prompt is recorded, so a kill in
//!   the middle of a turn does not hide what that turn changed, and if the baseline is missing,
//!   something removed it. The config is not saved there: creel asks the user to trust a changed
//!   config.
//! - What changed between two looks is reported once. A turn is compared with its baseline, which
//!   stays until the user accepts what changed or the agent has undone it.

use std::{io::Read as _, sync::Arc};

use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, MutexGuard};

use crate::{
    engine::{
        conversation::ForbiddenChanges,
        effect::{FileComparison, ProtectBaseline},
    },
    journal::open,
    process::path_guard::{FileFingerprints, FingerprintCache, PathGuard, ProtectedScan},
};

const TOO_MANY: &str = "creel cannot compare the paths under `protect:`, because the patterns cover too many files or the \
    disk is too slow: name folders in the patterns, as in `tests/**`";

/// The state of the files, as creel last saw it and as turns are compared with it.
struct FileWatch {
    guard: Arc<PathGuard>,
    watched: LookedAt,
    protected: LookedAt,
    /// What the session's folder contains.
    saved: Option<String>,
    watched_cache: FingerprintCache,
    protected_cache: FingerprintCache,
    /// Whether the files were compared for the next turn.
    is_ready: bool,
    /// Whether a hook ran since the last look that is not a check.
    hook_ran: bool,
    /// What changed before a prompt that nothing was compared for.
    unreported: ForbiddenChanges,
}

#[derive(Default)]
struct LookedAt {
    seen: Option<FileFingerprints>,
    baseline: Option<FileFingerprints>,
}

/// The baseline of a turn, as saved in the session's folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct SavedBaseline {
    git: FileFingerprints,
    protected: Option<FileFingerprints>,
}

/// One for all agents of a session.
#[derive(Clone)]
pub(super) struct SharedFileWatch(Arc<Mutex<FileWatch>>);

/// The files during the turns of one agent.
pub(super) struct TurnWatch {
    files: SharedFileWatch,
    whose: WatchedRole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchedRole {
    /// The session's own agent, or a fallback.
    Worker,
    /// An agent that reviews. Protected paths do not count in its turns.
    Reviewer,
}

impl SharedFileWatch {
    pub(super) fn new(guard: Arc<PathGuard>) -> Self {
        let (watched_cache, protected_cache) =
            (FingerprintCache::default(), FingerprintCache::default());
        let (watched, protected) = (LookedAt::default(), LookedAt::default());
        let watch = FileWatch {
            guard,
            watched,
            protected,
            saved: None,
            watched_cache,
            protected_cache,
            is_ready: false,
            hook_ran: false,
            unreported: ForbiddenChanges::NONE,
        };
        Self(Arc::new(Mutex::new(watch)))
    }

    /// For the session's own agent, or a fallback.
    pub(super) fn of_worker(&self) -> TurnWatch {
        TurnWatch {
            files: self.clone(),
            whose: WatchedRole::Worker,
        }
    }

    pub(super) fn of_reviewer(&self) -> TurnWatch {
        TurnWatch {
            files: self.clone(),
            whose: WatchedRole::Reviewer,
        }
    }

    /// What changed since the last look.
    pub(super) async fn compare(&self, before: FileComparison) -> ForbiddenChanges {
        let mut watch = self.lock().await;
        match before {
            FileComparison::Prompt(baseline) => watch.prepare(baseline).await,
            FileComparison::Review => watch.prepare_review().await,
            FileComparison::Complete => watch.look_again().await,
        }
    }

    /// A hook of the user that is not a check can change protected files.
    pub(super) async fn note_hook(&self) {
        self.lock().await.hook_ran = true;
    }

    async fn lock(&self) -> MutexGuard<'_, FileWatch> {
        self.0.lock().await
    }
}

impl TurnWatch {
    /// Call before the prompt is sent.
    pub(super) async fn begin(&mut self, baseline: ProtectBaseline) {
        let mut watch = self.files.lock().await;
        if std::mem::replace(&mut watch.is_ready, false) {
            return;
        }
        // creel did not compare before this prompt, so the end of its turn reports what changed
        // before it.
        watch.unreported = match self.whose {
            WatchedRole::Worker => watch.prepare(baseline).await,
            WatchedRole::Reviewer => watch.prepare_review().await,
        };
        watch.is_ready = false;
    }

    /// Call after the turn.
    pub(super) async fn end(&mut self) -> ForbiddenChanges {
        let mut watch = self.files.lock().await;
        watch.after_turn(self.whose).await
    }
}

impl FileWatch {
    /// Compares with the last look, and sets the baseline of the next turn.
    async fn prepare(&mut self, baseline: ProtectBaseline) -> ForbiddenChanges {
        // An earlier process began this turn.
        let interrupted = baseline == ProtectBaseline::Kept && self.watched.seen.is_none();
        let mut found = self.look_again().await;
        if baseline == ProtectBaseline::New || interrupted {
            self.watched.baseline.clone_from(&self.watched.seen);
            self.protected.baseline.clone_from(&self.protected.seen);
        }
        if interrupted {
            found.tampered.extend(self.recall());
        }
        if found.is_empty() {
            self.save();
        }
        self.is_ready = found.is_empty();
        found
    }

    async fn prepare_review(&mut self) -> ForbiddenChanges {
        let tampered = self.look().await;
        self.watched.baseline.clone_from(&self.watched.seen);
        self.is_ready = tampered.is_empty();
        ForbiddenChanges {
            tampered,
            ..ForbiddenChanges::NONE
        }
    }

    /// What changed since the last look. Of the protected files, only those count that were there
    /// and that git tracks, because checks write reports and caches; and none if a hook of the user
    /// ran that can change them.
    async fn look_again(&mut self) -> ForbiddenChanges {
        let tampered = self.look().await;
        let before = self.protected.seen.take();
        let forgiven = std::mem::replace(&mut self.hook_ran, false);
        let unchecked = self.look_at_protected().await;
        let protected = match (&before, &self.protected.seen) {
            (Some(before), Some(now)) if !forgiven => now.altered_since(before),
            (Some(_) | None, _) => Vec::new(),
        };
        let guard = self.guard.clone();
        let all = protected.clone();
        let tracked = tokio::task::spawn_blocking(move || guard.tracked(protected)).await;
        ForbiddenChanges {
            tampered,
            protected: tracked.unwrap_or(all),
            unchecked,
        }
    }

    async fn after_turn(&mut self, whose: WatchedRole) -> ForbiddenChanges {
        self.look().await;
        let changed = |files: &LookedAt| match (&files.baseline, &files.seen) {
            (Some(before), Some(now)) => now.changed_since(before),
            (None, _) | (_, None) => Vec::new(),
        };
        let mut found = std::mem::take(&mut self.unreported);
        found.tampered.extend(changed(&self.watched));
        if whose == WatchedRole::Worker {
            found.tampered.extend(
                self.saved
                    .as_ref()
                    .and_then(|saved| self.changed_baseline(saved)),
            );
            found.unchecked.extend(self.look_at_protected().await);
            found.protected.extend(changed(&self.protected));
        }
        found
    }

    /// Looks at the watched files. Returns what changed since the last look.
    async fn look(&mut self) -> Vec<String> {
        let (guard, mut cache) = (self.guard.clone(), std::mem::take(&mut self.watched_cache));
        // It can ask git.
        let look = tokio::task::spawn_blocking(move || (guard.look(&mut cache), cache)).await;
        let Ok((now, cache)) = look else {
            return vec!["files that creel could not read".to_owned()];
        };
        self.watched_cache = cache;
        let changed = self
            .watched
            .seen
            .as_ref()
            .map(|before| now.changed_since(before))
            .unwrap_or_default();
        self.watched.seen = Some(now);
        changed
    }

    /// Returns why it cannot.
    async fn look_at_protected(&mut self) -> Vec<String> {
        if self.guard.protect().is_empty() {
            return Vec::new();
        }
        let (guard, cache) = (
            self.guard.clone(),
            std::mem::take(&mut self.protected_cache),
        );
        let look = tokio::task::spawn_blocking(move || guard.look_at_protected(&cache)).await;
        let Ok(ProtectedScan::Seen(found)) = look else {
            self.protected.seen = None;
            return vec![TOO_MANY.to_owned()];
        };
        self.protected.seen = Some(found.prints());
        self.protected_cache = found;
        Vec::new()
    }

    /// Takes the baseline of a turn that an earlier process began from the session's folder. If it
    /// cannot, it returns the file.
    fn recall(&mut self) -> Option<String> {
        let Some(text) = self.read_baseline() else {
            return Some(self.about_baseline("missing"));
        };
        let Ok(kept) = serde_json::from_str::<SavedBaseline>(&text) else {
            return Some(self.about_baseline("damaged"));
        };
        if let Some(watched) = &mut self.watched.baseline {
            watched.put_back(&self.guard.without_config(watched), &kept.git);
        }
        self.protected.baseline = kept.protected;
        None
    }

    fn read_baseline(&self) -> Option<String> {
        let mut text = String::new();
        open::to_read(&self.guard.baseline_file())
            .ok()?
            .read_to_string(&mut text)
            .ok()?;
        Some(text)
    }

    fn changed_baseline(&self, saved: &str) -> Option<String> {
        match self.read_baseline() {
            Some(text) if text == saved => None,
            Some(_) => Some(self.about_baseline("written to")),
            None => Some(self.about_baseline("missing")),
        }
    }

    fn about_baseline(&self, what: &str) -> String {
        format!("{} ({what})", self.guard.name(&self.guard.baseline_file()))
    }

    /// Saves the baseline of the turn, unless the session's folder has it already.
    fn save(&mut self) {
        let watched = self
            .watched
            .baseline
            .as_ref()
            .map(|watched| self.guard.without_config(watched));
        let kept = SavedBaseline {
            git: watched.unwrap_or_default(),
            protected: self.protected.baseline.clone(),
        };
        let Ok(text) = serde_json::to_string(&kept) else {
            return;
        };
        if self.saved.as_ref() == Some(&text) {
            return;
        }
        match open::replace(&self.guard.baseline_file(), &text) {
            Ok(()) => self.saved = Some(text),
            Err(error) => tracing::warn!("cannot keep the state before the turn: {error}"),
        }
    }
}
