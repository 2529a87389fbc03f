//! The phases of the lifecycle, and how a loop ended.

use serde::{Deserialize, Serialize};

use crate::engine::{
    event::{FinalDeliveryMode, IterationOutcome, PromptSent, SessionOutcome},
    gate::{Gate, kind::GateKind, subject::GateSubject},
    hooks::{
        dispatch::{DispatchCause, DispatchQuestion, FinishedRun, HookDispatch},
        point::HookPoint,
    },
    ids::{ItemId, TurnId},
    stop::agent_loop::StopEvaluation,
    submit::{kind::PipelineKind, state::PipelineRun},
    turn::DuePrompt,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Phase {
    /// The hooks of a point are due or running.
    Hooks(HookDispatch),
    Due(DuePrompt),
    /// The agent works.
    Turn(Box<PromptSent>),
    /// Nothing more happens in this iteration.
    Settled(IterationOutcome),
    /// The next iteration is due, or the end of the loop.
    Between,
    /// The stop evaluation of the iteration runs.
    Judging(Box<StopEvaluation>),
    /// A stop decision asks the user.
    Escalated(String),
    /// The session is about to leave the loop.
    Exit(LoopEnd),
    /// The checks of a submit or a merge are due.
    Pipeline,
    /// The session exists only for this pipeline.
    PipelineOnly(PipelineKind),
    /// The session waits for its pull request to be merged.
    Watching,
    /// Pending items are sent, then the session ends.
    Delivering,
    Ended(SessionOutcome),
}

pub(crate) const STOPPED: &str = "stopped by the user";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopEnd {
    pub outcome: SessionOutcome,
    pub reason: String,
    pub delivery: FinalDeliveryMode,
    /// The approved items. None until the user or the policy has answered.
    pub approved: Option<Vec<ItemId>>,
    /// The items that the question was about.
    pub seen: Vec<ItemId>,
    /// How many final deliveries the agent has answered.
    pub deliveries: u32,
    /// Whether the user interrupted the end.
    pub interrupted: bool,
    /// The successful end of the loop before it was escalated after all: `resume` continues with
    /// it.
    pub before: Option<Box<Self>>,
    /// The phase when the user stopped the session immediately: `resume` continues there.
    pub stopped_at: Option<Box<Phase>>,
    /// The gate at which the session ended, because no user was there: `resume` opens it again.
    #[serde(default)]
    pub asked: Option<Box<AskedGate>>,
    /// The sentence for people, once the session has ended.
    #[serde(default)]
    pub sentence: Option<String>,
}

/// A gate that the policy could only escalate, and where the session stood.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskedGate {
    pub gate: Gate,
    pub phase: Phase,
    pub pass: Option<VerificationPass>,
    /// Whether the iteration was in progress.
    pub in_iteration: bool,
    /// The pipeline in progress.
    pub pipeline_run: Option<Box<PipelineRun>>,
}

impl LoopEnd {
    /// Whether nothing needs the user's attention.
    pub(crate) fn ends_well(&self) -> bool {
        match self.outcome {
            SessionOutcome::Complete
            | SessionOutcome::Limit
            | SessionOutcome::Forced
            | SessionOutcome::Unverified => !self.interrupted,
            SessionOutcome::Escalated
            | SessionOutcome::Aborted
            | SessionOutcome::Failed
            | SessionOutcome::Cancelled => false,
        }
    }

    /// Pending items can still be sent.
    pub(crate) fn offering(outcome: SessionOutcome, reason: &str) -> Self {
        Self {
            outcome,
            reason: reason.to_owned(),
            delivery: FinalDeliveryMode::Offer,
            approved: None,
            seen: Vec::new(),
            deliveries: 0,
            interrupted: false,
            before: None,
            stopped_at: None,
            asked: None,
            sentence: None,
        }
    }

    /// Why the session ended, in words for people.
    pub fn explanation(&self) -> &str {
        self.sentence.as_deref().unwrap_or(&self.reason)
    }

    /// Pending items are not sent.
    pub(crate) fn undelivered(outcome: SessionOutcome, reason: &str) -> Self {
        Self {
            delivery: FinalDeliveryMode::No,
            ..Self::offering(outcome, reason)
        }
    }
}

/// A pass of the checks outside of an iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerificationPass {
    /// Where the session continues afterwards.
    pub back: Box<Phase>,
}

impl Phase {
    /// None while the session runs.
    pub fn outcome(&self) -> Option<SessionOutcome> {
        if let Self::Ended(outcome) = self {
            Some(*outcome)
        } else {
            None
        }
    }

    pub fn turn_in_flight(&self) -> Option<&PromptSent> {
        if let Self::Turn(prompt) = self {
            Some(prompt)
        } else {
            None
        }
    }

    /// The prompt that is about to be sent, and does not change any more: one that was interrupted,
    /// or one that waits for its hooks.
    pub(crate) fn waiting_prompt(&self) -> Option<&PromptSent> {
        match self {
            Self::Due(DuePrompt::Again(prompt) | DuePrompt::Cancelled(prompt)) => Some(prompt),
            Self::Hooks(_) => self.held_prompt(),
            Self::Due(DuePrompt::Feedback(_) | DuePrompt::Message | DuePrompt::Remediation(_))
            | Self::Turn(_)
            | Self::Settled(_)
            | Self::Between
            | Self::Judging(_)
            | Self::Escalated(_)
            | Self::Exit(_)
            | Self::Pipeline
            | Self::PipelineOnly(_)
            | Self::Watching
            | Self::Delivering
            | Self::Ended(_) => None,
        }
    }

    /// The prompt that waits for its hooks.
    pub(crate) fn held_prompt(&self) -> Option<&PromptSent> {
        match &self.dispatch()?.cause {
            DispatchCause::Prompt(prompt) => Some(prompt),
            DispatchCause::Lifecycle
            | DispatchCause::Error(_)
            | DispatchCause::Task(_)
            | DispatchCause::Gate(_)
            | DispatchCause::Tool(_)
            | DispatchCause::ByHand
            | DispatchCause::Verification
            | DispatchCause::CleanRun(_)
            | DispatchCause::Resumed => None,
        }
    }

    /// The same, if its hooks keep it back at this gate.
    pub fn prompt_kept_back_at(&self, gate: &Gate) -> Option<&PromptSent> {
        self.run_that_escalated(gate).and(self.held_prompt())
    }

    /// The run that a gate for an escalation is about, if it is one of the lifecycle.
    pub(crate) fn run_that_escalated(&self, gate: &Gate) -> Option<&FinishedRun> {
        let run = gate.subject.run()?;
        let mut runs = self.dispatch()?.done.iter();
        runs.find(|done| done.run == run && gate.kind() == GateKind::Escalation)
    }

    /// The dispatch of the lifecycle, if one is in progress.
    pub fn dispatch(&self) -> Option<&HookDispatch> {
        if let Self::Hooks(dispatch) = self {
            Some(dispatch)
        } else {
            None
        }
    }

    /// The evaluation of the session's own iteration, if one is in progress.
    pub fn judging_here(&self) -> Option<&StopEvaluation> {
        if let Self::Judging(judging) = self {
            Some(judging)
        } else {
            None
        }
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        match self {
            Self::Turn(_) => true,
            Self::Hooks(dispatch) => dispatch.running.is_some(),
            Self::Judging(judging) => judging.runs().next().is_some(),
            Self::Due(_)
            | Self::Settled(_)
            | Self::Between
            | Self::Escalated(_)
            | Self::Exit(_)
            | Self::Pipeline
            | Self::PipelineOnly(_)
            | Self::Watching
            | Self::Delivering
            | Self::Ended(_) => false,
        }
    }

    /// Whether a gate is about a loop's escalation, and not about a hook or a decision of the
    /// session itself.
    pub(crate) fn is_of_a_loop(&self, gate: &Gate) -> bool {
        let decided = matches!(self, Self::Escalated(_));
        matches!(gate.subject, GateSubject::Escalation { failed: None }) && !decided
    }

    /// The iteration of the turn, if it is the current one.
    pub(crate) fn awaited(&self, turn: TurnId) -> Option<u32> {
        let Self::Turn(prompt) = self else {
            return None;
        };
        (prompt.turn == turn).then_some(prompt.iteration)
    }

    pub(crate) fn is_ending(&self) -> bool {
        matches!(self, Self::Hooks(dispatch) if dispatch.point == HookPoint::SessionEnd)
    }

    /// The dispatch of the lifecycle, if it is at that point.
    pub(crate) fn dispatch_at(&mut self, point: HookPoint) -> Option<&mut HookDispatch> {
        let Self::Hooks(dispatch) = self else {
            return None;
        };
        (dispatch.point == point).then_some(dispatch)
    }

    pub(crate) fn exit(&mut self, outcome: SessionOutcome, reason: &str) {
        *self = Self::Exit(LoopEnd::undelivered(outcome, reason));
    }

    pub(crate) fn forget_limit(&mut self) {
        if let Self::Hooks(dispatch) = self {
            dispatch
                .asked
                .retain(|asked| *asked != DispatchQuestion::Limit);
        }
    }

    /// A check that has not run yet, because its program was missing before the first turn, stays
    /// due.
    pub(crate) fn run_again(&mut self, hook: &str) {
        if let Self::Hooks(dispatch) = self
            && dispatch.done.iter().any(|done| done.hook == hook)
        {
            dispatch.requeue(hook);
        }
    }

    pub(crate) fn ask_once(&mut self, question: DispatchQuestion) {
        if let Self::Hooks(dispatch) = self {
            dispatch.asked.push(question);
        }
    }

    pub(crate) fn turn_that_ended(&self) -> Option<Box<PromptSent>> {
        let Self::Turn(prompt) = self else {
            return None;
        };
        Some(prompt.clone())
    }

    pub(crate) fn gatekeeper_works(&self) -> bool {
        self.turn_in_flight()
            .is_some_and(|prompt| prompt.agent.is_some())
    }
}
