//! Files that a turn changed although it must not: creel's own, the config in use, git's config and
//! hooks, and the paths under `protect:`.
//!
//! Owns the consequences of such a change. Does not detect it: the runtime does, and reports it
//! with the end of a turn.
//!
//! # Invariants
//! - A session with a tampered file does not continue until the user has decided; unattended, it
//!   ends as escalated.
//! - A protected path that a turn changed blocks the iteration until the change is undone or
//!   accepted, also if the turn failed, and regardless of the stop hooks.
//! - creel compares before each prompt, after each turn and before it says complete. What creel
//!   cannot compare, the user decides about.

pub(crate) mod apply;

use serde::{Deserialize, Serialize};

use crate::{
    engine::{
        conversation::ForbiddenChanges,
        effect::ProtectBaseline,
        event::{Event, SessionOutcome, VerifyEvent},
        gate::{SessionGates, subject::GateSubject},
        hooks::{
            HookRef, HookState,
            dispatch::{HookDispatch, HookFeedback},
            point::HookPoint,
        },
        output::EngineOutput,
        session::phase::{LoopEnd, Phase},
        verify::test_guard::{TestFinding, weaker_tests},
    },
    text::{bulleted, some_names},
};

/// The name of the check of protected paths, where hooks are named.
pub const PROTECT: &str = "protect";
/// How many files a message names.
pub const NAMED: usize = 20;

/// Forbidden changes that have not been undone or accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct UnsettledChanges {
    /// Files of creel, of its config or of git.
    pub tampered: Vec<String>,
    /// Protected paths that differ from their state before the agent changed them.
    pub protected: Vec<String>,
    /// Whether no stop hook will check the turn that changed the protected paths.
    pub(crate) unjudged: bool,
    /// Whether a turn of the session's own agent began and creel has not seen its end: it runs, or
    /// it was interrupted.
    pub(crate) unseen: bool,
    /// Whether the user has been asked about the protected paths, or was not there. Until the next
    /// turn or `resume`, the gate does not open again.
    #[serde(default)]
    pub(crate) asked: bool,
    /// Why creel could not compare some files.
    #[serde(default)]
    pub(crate) unchecked: Vec<String>,
    /// Whether files changed while no turn was in progress.
    #[serde(default)]
    pub(crate) between: bool,
    /// Whether the user asked the agent to undo its changes: the next turn is compared with the
    /// state before them.
    #[serde(default)]
    pub(crate) undo: bool,
    /// Signs of weakened tests that the user decides about.
    #[serde(default)]
    pub tests: Vec<TestFinding>,
    /// Whether the user continues although creel cannot compare some files.
    #[serde(default)]
    pub(crate) blind: bool,
}

impl UnsettledChanges {
    pub(crate) fn protect_baseline(&self) -> ProtectBaseline {
        let settled = self.protected.is_empty() && !self.unseen && !self.undo;
        if settled {
            ProtectBaseline::New
        } else {
            ProtectBaseline::Kept
        }
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
    /// Files changed while no turn was in progress, or creel could not compare them.
    pub(crate) fn on_compared(self, found: ForbiddenChanges) -> EngineOutput {
        let is_known = |name: &String| self.unsettled.tampered.contains(name);
        let found = ForbiddenChanges {
            tampered: found
                .tampered
                .into_iter()
                .chain(found.protected)
                .filter(|name| !is_known(name))
                .collect(),
            protected: Vec::new(),
            unchecked: if self.continues_blind() {
                Vec::new()
            } else {
                found.unchecked
            },
        };
        if found.is_empty() {
            return EngineOutput::default();
        }
        EngineOutput::record(Event::Verify(VerifyEvent::Tampered(found)))
    }

    /// Whether the user continues although creel cannot compare the protected paths.
    fn continues_blind(self) -> bool {
        self.unsettled.blind || self.protect_is_off()
    }

    /// The gate for changes that no stop hook checks.
    pub(crate) fn proceed_tampered(self) -> Option<EngineOutput> {
        let leaves = |ending: &LoopEnd| ending.outcome != SessionOutcome::Complete;
        let is_over = matches!(self.phase, Phase::Exit(ending) if leaves(ending));
        let waits = !is_over && !matches!(self.phase, Phase::Turn(_) | Phase::Ended(_));
        let tampered = &self.unsettled.tampered;
        let left_alone = !self.unsettled.unjudged || self.protect_is_off();
        let protected = if left_alone {
            &[][..]
        } else {
            &self.unsettled.protected
        };
        let files: Vec<&str> = tampered
            .iter()
            .chain(protected)
            .map(String::as_str)
            .collect();
        let unchecked = if self.continues_blind() {
            &[][..]
        } else {
            &self.unsettled.unchecked
        };
        let weaker = weaker_tests(&self.unsettled.tests);
        let nothing = files.is_empty() && unchecked.is_empty() && weaker.is_none();
        (waits && !nothing && !self.unsettled.asked).then(|| {
            let named = some_names(&files, NAMED);
            let changed = match (files.is_empty(), self.unsettled.between) {
                (true, _) => None,
                (false, false) => Some(format!("the agent's turn changed files that agents must not change: {named}")),
                (false, true) => Some(format!(
                    "files that agents must not change have changed since the last turn: {named}. You, a hook, or a \
                     process that the agent left behind can have done that"
                )),
            };
            let reason: Vec<String> = changed.into_iter().chain(unchecked.iter().cloned()).chain(weaker).collect();
            self.gates.open_gate(GateSubject::Tampered, reason.join("; "))
        })
    }

    /// Whether the turn is sent back for its protected paths before any stop hook runs.
    pub(crate) fn protect_blocks(self, dispatch: &HookDispatch) -> bool {
        dispatch.point == HookPoint::Stop
            && dispatch.queue.is_none()
            && self.protect_feedback(dispatch).is_some()
    }

    /// The feedback about protected paths that the agent changed.
    pub(crate) fn protect_feedback(self, dispatch: &HookDispatch) -> Option<HookFeedback> {
        let files: Vec<&str> = self
            .unsettled
            .protected
            .iter()
            .map(String::as_str)
            .collect();
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
