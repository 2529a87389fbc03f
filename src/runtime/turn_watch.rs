//! Looks at the files that an agent must not change, before and after each of its turns.
//!
//! # Invariants
//! - A look never blocks the session's loop: it happens in the agent's own task.

use std::sync::Arc;

use crate::{
    engine::{conversation::ForbiddenChanges, session::tamper::ProtectBaseline},
    hooks::guard::{Fingerprints, PathGuard, ProtectedLook, WatchedFiles},
};

/// What creel says when it cannot watch the protected paths.
pub(super) const TOO_MANY: &str = "creel cannot watch the paths under `protect:`, because the patterns cover too many \
    files or the disk is too slow: name folders in the patterns, as in `tests/**`";

/// The files of one agent.
pub(super) struct TurnWatch {
    guard: Arc<PathGuard>,
    /// Whether protected paths count in the turns of this agent.
    protects: bool,
    watched: WatchedFiles,
    /// What the protected paths are compared with.
    baseline: Option<Fingerprints>,
    /// The last look, which saves reading.
    seen: Option<Fingerprints>,
    given_up: GivenUp,
}

/// Whether creel has given up on the protected paths, and said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GivenUp {
    No,
    Unsaid,
    Said,
}

impl TurnWatch {
    /// For the session's own agent.
    pub(super) fn new(guard: Arc<PathGuard>) -> Self {
        let protects = !guard.protect().is_empty();
        let (watched, given_up) = (WatchedFiles::default(), GivenUp::No);
        Self { guard, protects, watched, baseline: None, seen: None, given_up }
    }

    /// For an agent that reviews.
    pub(super) fn of_reviewer(guard: Arc<PathGuard>) -> Self {
        Self { protects: false, ..Self::new(guard) }
    }

    /// Before the prompt is sent.
    pub(super) async fn begin(&mut self, baseline: ProtectBaseline) {
        self.watched = self.guard.look(Some(&self.watched));
        if baseline == ProtectBaseline::New || self.baseline.is_none() {
            self.baseline = self.look_at_protected().await;
        }
    }

    /// After the turn.
    pub(super) async fn end(&mut self) -> ForbiddenChanges {
        let now = self.guard.look(Some(&self.watched));
        let tampered = self.guard.changed(&self.watched, &now);
        self.watched = now;
        let after = self.look_at_protected().await;
        let protected = match (&self.baseline, &after) {
            (Some(before), Some(after)) => after.changed_since(before),
            (None, _) | (_, None) => Vec::new(),
        };
        ForbiddenChanges { tampered, protected }
    }

    /// What the user should know once.
    pub(super) fn complaint(&mut self) -> Option<&'static str> {
        (self.given_up == GivenUp::Unsaid).then(|| {
            self.given_up = GivenUp::Said;
            TOO_MANY
        })
    }

    async fn look_at_protected(&mut self) -> Option<Fingerprints> {
        if !self.protects || self.given_up != GivenUp::No {
            return None;
        }
        let (guard, before) = (self.guard.clone(), self.seen.take());
        let look = tokio::task::spawn_blocking(move || guard.look_at_protected(before.as_ref())).await;
        match look {
            Ok(ProtectedLook::Seen(found)) => {
                self.seen = Some(found.clone());
                Some(found)
            }
            Ok(ProtectedLook::TooMany) | Err(_) => {
                self.given_up = GivenUp::Unsaid;
                None
            }
        }
    }
}
