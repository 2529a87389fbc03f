//! Files that a turn changed although it must not: creel's own, the config in use, git's config and hooks, and the
//! paths under `protect:`.
//!
//! Owns the consequences of such a change. The runtime detects the changes and reports them with the end of a turn.
//!
//! # Invariants
//! - A session with a tampered file does not continue until the user has decided; unattended, it ends as escalated.
//! - A protected path that a turn changed blocks the iteration until the change is undone or accepted, also if the turn
//!   failed, and regardless of the stop hooks.
//! - Changes between turns are not attributed to the agent.

use super::{GateDetails, Phase, SessionState, gate::GateChoice, gate::GateKind, turn::DuePrompt};
use crate::engine::{
    EngineOutput,
    conversation::ForbiddenChanges,
    event::PromptSent,
    hooks::{
        dispatch::{HookDispatch, HookFeedback},
        point::HookPoint,
        resolve::HookRef,
    },
    wording::{bulleted, some_names},
};

/// The name of the check of protected paths, where hooks are named.
pub const PROTECT: &str = "protect";
/// How many files a message names.
pub const NAMED: usize = 20;

/// Forbidden changes that have not been undone or accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnsettledChanges {
    /// Files of creel, of its config or of git.
    pub tampered: Vec<String>,
    /// Protected paths that differ from their state before the agent changed them.
    pub protected: Vec<String>,
    /// Whether no stop hook will check the turn that changed the protected paths.
    unjudged: bool,
    /// Whether a turn of the session's own agent began and creel has not seen its end: it runs, or it was interrupted.
    unseen: bool,
}

/// The state that protected paths are compared with after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtectBaseline {
    /// The state when the prompt is sent.
    New,
    /// The state before the unsettled change, or before the interrupted turn.
    Kept,
}

impl SessionState {
    pub(super) fn unseen_changes(&mut self, prompt: &PromptSent) {
        // The changes of an interrupted turn are unknown: the iteration cannot settle.
        self.iterations.signs.unknown_work |= self.unsettled.unseen;
        self.unsettled.unseen |= prompt.agent.is_none();
    }

    /// Records the changes of a turn. A gatekeeper's turn is not checked for protected paths.
    pub(super) fn forbidden_changes(&mut self, found: &ForbiddenChanges) {
        let reviews = self.gatekeeper_works();
        for name in &found.tampered {
            if !self.unsettled.tampered.contains(name) {
                self.unsettled.tampered.push(name.clone());
            }
        }
        if !reviews {
            self.unsettled.unseen = false;
            self.unsettled.protected.clone_from(&found.protected);
            // Stop hooks check the turns of an iteration; turns of a pipeline and of the final delivery have no other
            // check.
            self.unsettled.unjudged = self.ending.is_some() || self.pipelines.is_open();
        }
    }

    pub(super) fn protect_baseline(&self) -> ProtectBaseline {
        let settled = self.unsettled.protected.is_empty() && !self.unsettled.unseen;
        if settled { ProtectBaseline::New } else { ProtectBaseline::Kept }
    }

    /// The gate for changes that no stop hook checks.
    pub(super) fn proceed_tampered(&self) -> Option<EngineOutput> {
        let waits = !matches!(self.phase, Phase::Turn(_) | Phase::Exit(_) | Phase::Ended(_));
        let tampered = &self.unsettled.tampered;
        let left_alone = !self.unsettled.unjudged || self.protect_is_off();
        let protected = if left_alone { &[][..] } else { &self.unsettled.protected };
        let files: Vec<&str> = tampered.iter().chain(protected).map(String::as_str).collect();
        (waits && !files.is_empty()).then(|| {
            let reason =
                format!("the agent's turn changed files that it must not change: {}", some_names(&files, NAMED));
            self.open_gate(GateKind::Tampered, reason, GateDetails::default())
        })
    }

    pub(super) fn tampered_answered(&mut self, choice: GateChoice) {
        self.unsettled.tampered.clear();
        if self.unsettled.unjudged {
            self.unsettled.protected.clear();
        }
        let at_stop = matches!(&self.phase, Phase::Hooks(dispatch) if dispatch.point == HookPoint::Stop);
        if matches!(choice, GateChoice::Send | GateChoice::Message) && at_stop {
            self.phase = Phase::Due(DuePrompt::Message);
        }
    }

    /// Whether the turn is sent back for its protected paths before any stop hook runs.
    pub(super) fn protect_blocks(&self, dispatch: &HookDispatch) -> bool {
        dispatch.point == HookPoint::Stop && dispatch.queue.is_none() && self.protect_feedback(dispatch).is_some()
    }

    /// The feedback about protected paths that the agent changed.
    pub(super) fn protect_feedback(&self, dispatch: &HookDispatch) -> Option<HookFeedback> {
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

    fn protect_is_off(&self) -> bool {
        self.is_off(&HookRef::new(HookPoint::Stop, PROTECT))
    }

    /// The user accepts the turn as it is.
    pub(super) fn accept_protected(&mut self) {
        self.unsettled.protected.clear();
    }
}
