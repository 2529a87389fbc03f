//! Checks the files that an agent must not change, before and after each of its turns.
//!
//! # Invariants
//! - A check never blocks the session's loop: it runs in the agent's own task.
//! - The baseline of a turn is in the session's folder before the prompt is sent, so a kill in the middle of a turn
//!   does not hide what that turn changed. The config is not saved there: creel asks the user to trust a changed
//!   config.

use std::{io::Read as _, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    engine::{conversation::ForbiddenChanges, effect::ProtectBaseline},
    journal::open,
    process::path_guard::{FileFingerprints, FingerprintCache, PathGuard, ProtectedScan},
};

/// The warning for the user when creel cannot watch the protected paths.
pub(super) const TOO_MANY: &str = "creel cannot watch the paths under `protect:`, because the patterns cover too many \
    files or the disk is too slow: name folders in the patterns, as in `tests/**`";

pub(super) struct TurnWatch {
    guard: Arc<PathGuard>,
    whose: WatchedRole,
    /// The watched files before the turn.
    watched: Option<FileFingerprints>,
    /// What the protected paths are compared with.
    protected: Option<FileFingerprints>,
    /// What the session's folder contains already.
    kept: Option<SavedBaseline>,
    watched_cache: FingerprintCache,
    protected_cache: FingerprintCache,
    given_up: ScanAbandoned,
}

/// The baseline of a turn, as saved in the session's folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct SavedBaseline {
    git: FileFingerprints,
    protected: Option<FileFingerprints>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchedRole {
    /// The session's own agent, or a fallback.
    Worker,
    /// An agent that reviews. Protected paths do not count in its turns.
    Reviewer,
}

/// Whether creel has stopped watching the protected paths, and has told the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanAbandoned {
    No,
    Unsaid,
    Said,
}

impl TurnWatch {
    /// For the session's own agent, or a fallback.
    pub(super) fn new(guard: Arc<PathGuard>) -> Self {
        Self::of(guard, WatchedRole::Worker)
    }

    pub(super) fn of_reviewer(guard: Arc<PathGuard>) -> Self {
        Self::of(guard, WatchedRole::Reviewer)
    }

    fn of(guard: Arc<PathGuard>, whose: WatchedRole) -> Self {
        let (watched_cache, protected_cache) = (FingerprintCache::default(), FingerprintCache::default());
        let given_up = ScanAbandoned::No;
        Self { guard, whose, watched: None, protected: None, kept: None, watched_cache, protected_cache, given_up }
    }

    /// Call before the prompt is sent.
    pub(super) async fn begin(&mut self, baseline: ProtectBaseline) {
        let mut watched = self.guard.look(&mut self.watched_cache);
        let before = match baseline {
            ProtectBaseline::New => None,
            ProtectBaseline::Kept if self.watched.is_some() => self.protected.take(),
            // This process has seen no turn yet: an earlier process began this one.
            ProtectBaseline::Kept => self.recall().and_then(|kept| {
                watched.put_back(&self.guard.without_config(&watched), &kept.git);
                kept.protected
            }),
        };
        self.protected = match before {
            None => self.look_at_protected().await,
            before => before,
        };
        self.keep(&watched);
        self.watched = Some(watched);
    }

    /// Call after the turn.
    pub(super) async fn end(&mut self) -> ForbiddenChanges {
        let now = self.guard.look(&mut self.watched_cache);
        let tampered = self.watched.as_ref().map(|before| now.changed_since(before)).unwrap_or_default();
        self.watched = Some(now);
        let after = self.look_at_protected().await;
        let protected = match (&self.protected, &after) {
            (Some(before), Some(after)) => after.changed_since(before),
            (None, _) | (_, None) => Vec::new(),
        };
        ForbiddenChanges { tampered, protected }
    }

    fn recall(&self) -> Option<SavedBaseline> {
        let mut text = String::new();
        open::to_read(&self.guard.baseline_file()).ok()?.read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Saves the baseline of the turn, unless the session's folder has it already.
    fn keep(&mut self, watched: &FileFingerprints) {
        if self.whose == WatchedRole::Reviewer {
            return;
        }
        let kept = SavedBaseline { git: self.guard.without_config(watched), protected: self.protected.clone() };
        if self.kept.as_ref() == Some(&kept) {
            return;
        }
        let written = serde_json::to_string(&kept).map_err(std::io::Error::other);
        if let Err(error) = written.and_then(|text| open::replace(&self.guard.baseline_file(), &text)) {
            tracing::warn!("cannot keep the state before the turn: {error}");
        }
        self.kept = Some(kept);
    }

    /// A warning for the user, returned once only.
    pub(super) fn complaint(&mut self) -> Option<&'static str> {
        (self.given_up == ScanAbandoned::Unsaid).then(|| {
            self.given_up = ScanAbandoned::Said;
            TOO_MANY
        })
    }

    async fn look_at_protected(&mut self) -> Option<FileFingerprints> {
        let has_patterns = !self.guard.protect().is_empty();
        if !has_patterns || self.whose == WatchedRole::Reviewer || self.given_up != ScanAbandoned::No {
            return None;
        }
        let (guard, cache) = (self.guard.clone(), std::mem::take(&mut self.protected_cache));
        let look = tokio::task::spawn_blocking(move || guard.look_at_protected(&cache)).await;
        match look {
            Ok(ProtectedScan::Seen(found)) => {
                self.protected_cache = found;
                Some(self.protected_cache.prints())
            }
            Ok(ProtectedScan::TooMany) | Err(_) => {
                self.given_up = ScanAbandoned::Unsaid;
                None
            }
        }
    }
}
