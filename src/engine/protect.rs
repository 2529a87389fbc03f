//! Files that a turn changed although it must not: creel's own, the config in use, git's config and hooks, and the
//! paths under `protect:`.
//!
//! Owns the consequences of such a change. Does not detect it: the runtime does, and reports it with the end of a turn.
//!
//! # Invariants
//! - A session with a tampered file does not continue until the user has decided; unattended, it ends as escalated.
//! - A protected path that a turn changed blocks the iteration until the change is undone or accepted, also if the turn
//!   failed, and regardless of the stop hooks.
//! - Changes between turns are not attributed to the agent.

pub(crate) mod apply;

use serde::{Deserialize, Serialize};

use crate::engine::{
    effect::ProtectBaseline,
    gate::{SessionGates, subject::GateSubject},
    hooks::{
        dispatch::{HookDispatch, HookFeedback},
        point::HookPoint,
        resolve::{HookRef, HookState},
    },
    output::EngineOutput,
    session::phase::Phase,
    wording::{bulleted, some_names},
};

/// The name of the check of protected paths, where hooks are named.
pub const PROTECT: &str = "protect";
/// How many files a message names.
pub const NAMED: usize = 20;

/// Forbidden changes that have not been undone or accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsettledChanges {
    /// Files of creel, of its config or of git.
    pub tampered: Vec<String>,
    /// Protected paths that differ from their state before the agent changed them.
    pub protected: Vec<String>,
    /// Whether no stop hook will check the turn that changed the protected paths.
    pub(crate) unjudged: bool,
    /// Whether a turn of the session's own agent began and creel has not seen its end: it runs, or it was interrupted.
    pub(crate) unseen: bool,
    /// Whether the user has been asked about the protected paths, or was not there. Until the next turn or `resume`, the
    /// gate does not open again.
    #[serde(default)]
    pub(crate) asked: bool,
}

impl UnsettledChanges {
    pub(crate) fn protect_baseline(&self) -> ProtectBaseline {
        let settled = self.protected.is_empty() && !self.unseen;
        if settled { ProtectBaseline::New } else { ProtectBaseline::Kept }
    }

    /// The user accepts the turn as it is.
    pub(crate) fn accept_protected(&mut self) {
        self.protected.clear();
    }
}

#[derive(Debug, Clone, Copy)]
pub struct ProtectRules<'a> {
    pub(crate) phase: &'a Phase,
    pub(crate) gates: &'a SessionGates,
    pub(crate) hooks: &'a HookState,
    pub(crate) unsettled: &'a UnsettledChanges,
}

impl ProtectRules<'_> {
    /// The gate for changes that no stop hook checks.
    pub(crate) fn proceed_tampered(self) -> Option<EngineOutput> {
        let waits = !matches!(self.phase, Phase::Turn(_) | Phase::Exit(_) | Phase::Ended(_));
        let tampered = &self.unsettled.tampered;
        let left_alone = !self.unsettled.unjudged || self.protect_is_off();
        let protected = if left_alone { &[][..] } else { &self.unsettled.protected };
        let files: Vec<&str> = tampered.iter().chain(protected).map(String::as_str).collect();
        (waits && !files.is_empty() && !self.unsettled.asked).then(|| {
            let reason =
                format!("the agent's turn changed files that agents must not change: {}", some_names(&files, NAMED));
            self.gates.open_gate(GateSubject::Tampered, reason)
        })
    }

    /// Whether the turn is sent back for its protected paths before any stop hook runs.
    pub(crate) fn protect_blocks(self, dispatch: &HookDispatch) -> bool {
        dispatch.point == HookPoint::Stop && dispatch.queue.is_none() && self.protect_feedback(dispatch).is_some()
    }

    /// The feedback about protected paths that the agent changed.
    pub(crate) fn protect_feedback(self, dispatch: &HookDispatch) -> Option<HookFeedback> {
        let files: Vec<&str> = self.unsettled.protected.iter().map(String::as_str).collect();
        if dispatch.point != HookPoint::Stop || files.is_empty() || self.protect_is_off() {
            return None;
        }
        let reason = format!("protected paths changed: {}", some_names(&files, NAMED));
        let text = format!(
            "[Hook feedback]: You changed paths that the user protects (`protect:` in creel's config). Undo these changes, \
             and do the task without them:\n{}",
            bulleted(&files, NAMED).trim_end()
        );
        Some(HookFeedback::usual(PROTECT, reason, text))
    }

    pub(crate) fn protect_is_off(self) -> bool {
        self.hooks.is_off(&HookRef::new(HookPoint::Stop, PROTECT))
    }
}
