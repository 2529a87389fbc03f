//! Where a session continues when a turn has ended.
//!
//! creel decides this once, when it records the end of the turn. Reading the journal back only
//! follows the record.

use crate::engine::{
    conversation::StopReason,
    event::{AfterTurn, PromptReason, PromptSent},
    hooks::point::HookPoint,
    policy::SessionPlan,
    session::{
        iteration::IterationState,
        phase::{LoopEnd, Phase},
    },
    steering::ControlState,
    stop::context::Promise,
    submit::state::PipelineState,
    turn::TurnState,
};

/// What the next step after a turn depends on.
#[derive(Debug, Clone, Copy)]
pub struct AfterTurnRules<'a> {
    pub(crate) plan: &'a SessionPlan,
    pub(crate) phase: &'a Phase,
    pub(crate) iterations: &'a IterationState,
    pub(crate) turns: &'a TurnState,
    pub(crate) pipelines: &'a PipelineState,
    pub(crate) steering: &'a ControlState,
    pub(crate) ending: &'a Option<LoopEnd>,
}

impl AfterTurnRules<'_> {
    /// After a turn that the agent ended. None if no turn is in progress.
    pub(crate) fn ended(self, stop_reason: StopReason) -> Option<AfterTurn> {
        let prompt = self.phase.turn_in_flight()?;
        if prompt.reason == PromptReason::Gatekeeper {
            return Some(AfterTurn::Review);
        }
        Some(match stop_reason {
            StopReason::Refusal => self.after_failure(prompt),
            StopReason::Cancelled => self.after_cancel(prompt),
            StopReason::EndTurn | StopReason::MaxTokens | StopReason::MaxTurnRequests => {
                self.after_answer(prompt)
            }
        })
    }

    /// After a turn that failed. None if no turn is in progress.
    pub(crate) fn failed(self, usage_limit: bool) -> Option<AfterTurn> {
        let prompt = self.phase.turn_in_flight()?;
        Some(if usage_limit {
            AfterTurn::Again
        } else {
            self.after_failure(prompt)
        })
    }

    fn after_answer(self, prompt: &PromptSent) -> AfterTurn {
        if self.pipelines.is_open() {
            AfterTurn::Pipeline
        } else if self.ending.is_some() {
            if prompt.reason != PromptReason::Recovery && self.is_judged() {
                AfterTurn::StopHooks
            } else {
                AfterTurn::Delivery
            }
        } else if prompt.reason == PromptReason::Recovery {
            AfterTurn::IterationFailed
        } else if self
            .steering
            .message_is_due(prompt.messages, self.iterations, self.plan)
        {
            AfterTurn::Message
        } else {
            AfterTurn::StopHooks
        }
    }

    /// Whether a turn after the loop has something to judge: by a check, or a question in it.
    fn is_judged(self) -> bool {
        let has_checks =
            !self.plan.hooks_at(HookPoint::Stop).is_empty() || !self.plan.access.protect.is_empty();
        let needs_user = Promise::made_in(&self.turns.agent_text, &self.turns.prompt)
            .iter()
            .any(|promise| *promise != Promise::Complete);
        has_checks || needs_user
    }

    fn after_cancel(self, prompt: &PromptSent) -> AfterTurn {
        if self.pipelines.is_open() {
            AfterTurn::Pipeline
        } else if self.ending.is_some() {
            AfterTurn::Delivery
        } else if self.steering.interrupted() {
            AfterTurn::Again
        } else if self.steering.person_spoke_after(prompt.messages) {
            AfterTurn::Message
        } else if self.steering.cancelled == Some(prompt.turn) {
            AfterTurn::Cancelled
        } else {
            // The agent ended the turn itself: the prompt's items are sent with the next iteration,
            // as after a failed turn.
            AfterTurn::IterationFailed
        }
    }

    fn after_failure(self, prompt: &PromptSent) -> AfterTurn {
        match prompt.reason {
            PromptReason::Gatekeeper => AfterTurn::Review,
            PromptReason::Recovery if self.pipelines.is_open() => AfterTurn::Pipeline,
            PromptReason::Recovery if self.ending.is_some() => AfterTurn::Delivery,
            PromptReason::Recovery => AfterTurn::IterationFailed,
            PromptReason::Iteration
            | PromptReason::Feedback
            | PromptReason::FinalDelivery
            | PromptReason::Message
            | PromptReason::Remediation => AfterTurn::OnError,
        }
    }
}
