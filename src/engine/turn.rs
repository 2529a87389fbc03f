//! Turns: what a prompt contains, and what is recorded of the agent's work until the turn ends.
//!
//! Owns the text of every prompt ([`prompt`], [`background`]), the agent's updates ([`reports`]),
//! and the end of the agent's last message, where promises are. Does not decide which prompt is due
//! ([`super::session`]), which agent gets it ([`super::usage_limit`]), or whether the work is
//! complete ([`super::stop`]).
//!
//! Also decides where a session continues when a turn has ended: once, when creel records the end
//! of the turn. Reading the journal back only follows the record.
//!
//! # Invariants
//! - A prompt is recorded in full before it is sent.
//! - No prompt is sent while the budget is used up, whatever the prompt's reason.
//! - A turn that was interrupted is sent again unchanged.
//! - Every tool call ends with its turn at the latest.

pub(crate) mod apply;
pub mod background;
pub mod event;
pub mod prompt;
pub mod reports;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    engine::{
        conversation::{
            ContextUsage, ConversationMode, FirstConversation, StopReason, ToolCall, ToolStatus,
            WorktreeChanges,
        },
        event::{AfterTurn, PromptReason, PromptSent},
        hooks::{claude::FailureCause, point::HookPoint},
        ids::TurnId,
        policy::SessionPlan,
        session::{
            iteration::IterationState,
            phase::{LoopEnd, Phase},
        },
        steering::ControlState,
        stop::context::Promise,
        submit::state::PipelineState,
    },
    text::open_fence,
};

/// How many bytes of the agent's last message are kept, counted from its end, where promises are.
const KEPT_MESSAGE: usize = 64 << 10;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnState {
    /// The highest turn id so far.
    pub last: TurnId,
    /// Whether the session's own agent has received a prompt. Gatekeepers have conversations of
    /// their own.
    pub is_begun: bool,
    /// The conversation that the session begins with, until a turn in it has ended well.
    #[serde(default)]
    pub first: Option<FirstConversation>,
    /// The last prompt.
    pub prompt: String,
    /// The prompt that hooks read last, until one is sent that they did not read.
    #[serde(default)]
    pub(crate) read: Option<ReadPrompt>,
    /// The end of the agent's last message. A tool call starts a new message.
    pub agent_text: String,
    /// Whether the agent began a tool call since its last text.
    pub acted_since: bool,
    /// Changes to the project's files in the last turn, if known.
    pub work: Option<Box<WorktreeChanges>>,
    /// Text that the stop decision adds to the next prompt.
    pub next_prompt: Option<String>,
    /// Why the last failed turn failed.
    pub last_error: Option<String>,
    /// The same in Claude Code's words.
    #[serde(default)]
    pub last_cause: FailureCause,
    /// The unfinished tool calls of the current turn, by id.
    pub open_calls: BTreeMap<String, ToolCall>,
    /// The call that ended last.
    #[serde(default)]
    pub ended_call: Option<ToolCall>,
    /// The calls of the current turn that ended, by id.
    #[serde(default)]
    pub(crate) ended_calls: BTreeSet<String>,
    /// None if the agent does not report it.
    pub context: Option<ContextUsage>,
    /// The agent's id for the conversation.
    pub conversation: Option<String>,
    /// The turn in which the agent opened or resumed the conversation.
    pub opened_in: Option<TurnId>,
    /// Whether the agent has sent nothing for `limits.silence`.
    #[serde(default)]
    pub silent: bool,
    /// The model of the last prompt, as far as it is known.
    #[serde(default)]
    pub model: Option<String>,
    /// The model that the agent itself reported last in this conversation.
    #[serde(default)]
    pub(crate) reported_model: Option<String>,
    /// The model that the agent had in this conversation before creel chose one.
    #[serde(default)]
    pub own_model: Option<String>,
    /// The models that each agent offers, by the agent's name.
    #[serde(default)]
    pub(crate) models: BTreeMap<String, OfferedModels>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedModels {
    pub names: Vec<String>,
    /// Whether the agent offers no other.
    pub(crate) is_complete: bool,
}

/// What an `agent_noted` record is about if the agent sends nothing.
pub const SILENCE: &str = "silence";
/// What a note about the models that the agent offers is about: one in each line.
pub const MODELS_NOTE: &str = "models";
/// The same, if they are too many to list all of them.
pub const SOME_MODELS_NOTE: &str = "some_models";

/// The next prompt to send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum DuePrompt {
    /// A stop hook blocked.
    Feedback(String),
    /// The user, the agent or a hook sent a message.
    Message,
    /// A check of a submit or a merge failed.
    Remediation(String),
    /// The turn was interrupted.
    Again(Box<PromptSent>),
    /// The user cancelled the turn. It is sent again, unless the user sends a message instead.
    Cancelled(Box<PromptSent>),
}

impl TurnState {
    pub(crate) fn follow(&mut self, tool: &ToolCall) {
        match tool.status {
            ToolStatus::Pending | ToolStatus::InProgress => {
                self.open_calls.insert(tool.call.clone(), tool.clone());
            }
            ToolStatus::Completed | ToolStatus::Failed => {
                self.open_calls.remove(&tool.call);
                self.ended_calls.insert(tool.call.clone());
                self.ended_call = Some(tool.clone());
            }
        }
    }

    pub(crate) fn has_ended(&self, call: &str) -> bool {
        self.ended_calls.contains(call)
    }

    /// Ends the current message: text after a tool call is a new one.
    pub(crate) fn act(&mut self, tool: &ToolCall) {
        self.acted_since = !self.agent_text.is_empty();
        self.follow(tool);
    }

    pub(crate) fn hear(&mut self, text: &str) {
        if std::mem::take(&mut self.acted_since) {
            let before = self.agent_text.trim_end_matches('\n').len();
            self.agent_text.truncate(before);
            self.agent_text.push_str("\n\n");
        }
        self.agent_text.push_str(text);
        // Truncate only at twice the size, so that a stream of small pieces does not copy the text
        // each time.
        if self.agent_text.len() > 2 * KEPT_MESSAGE {
            self.forget_the_beginning();
        }
    }

    /// Cuts at the start of a line, unless the line is very long, and keeps the fence of a code
    /// block that is cut. Without the fence code would be read as text, and text as code.
    fn forget_the_beginning(&mut self) {
        let most = self
            .agent_text
            .floor_char_boundary(self.agent_text.len() - KEPT_MESSAGE);
        let least = self
            .agent_text
            .floor_char_boundary(most.saturating_sub(KEPT_MESSAGE / 2));
        let cut = self.agent_text[least..most]
            .rfind('\n')
            .map_or(most, |end| least + end + 1);
        let fence = open_fence(&self.agent_text[..cut]).map(|fence| format!("{fence}\n"));
        self.agent_text
            .replace_range(..cut, fence.as_deref().unwrap_or_default());
    }
}

/// A prompt as its hooks got it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReadPrompt {
    pub(crate) text: String,
    /// Whether its turn had been interrupted before.
    pub(crate) again: bool,
}

/// After a refusal the agent forgets the prompt, so none of its items count as delivered.
pub(crate) const REFUSED: &str =
    "the agent refused to answer this prompt. Read its answer, then change the prompt";

impl TurnState {
    pub(crate) fn next_turn(&self) -> TurnId {
        self.last.next()
    }

    /// Continues the conversation, if there is one.
    pub(crate) fn ongoing(&self) -> ConversationMode {
        if self.is_begun || self.first.is_some() {
            ConversationMode::Same
        } else {
            ConversationMode::New
        }
    }
}

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
        let is_held = self.pipelines.is_turn_of_a_watch(prompt)
            && self.steering.cancelled == Some(prompt.turn)
            && !self.steering.interrupted();
        if is_held {
            AfterTurn::Cancelled
        } else if self.pipelines.is_open() {
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
            | PromptReason::News
            | PromptReason::Remediation => AfterTurn::OnError,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::stop::context::Promise;

    /// What is promised in a message that comes piece by piece.
    fn promised(message: &str) -> Vec<Promise> {
        let mut turns = TurnState::default();
        let mut rest = message;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.ceil_char_boundary(999.min(rest.len())));
            turns.hear(piece);
            rest = after;
            assert!(
                turns.agent_text.len() <= 2 * KEPT_MESSAGE,
                "what is kept is bounded"
            );
        }
        Promise::made_in(&turns.agent_text, "")
    }

    #[test]
    fn a_long_message_promises_what_a_short_one_does() {
        for length in [10, 4 * KEPT_MESSAGE] {
            let code = "let é = `1`;\n".repeat(length);
            let one_line = "é".repeat(length);
            let complete = "<promise>COMPLETE</promise>";
            assert_eq!(promised(&format!("{code}{complete}")), [Promise::Complete]);
            assert_eq!(
                promised(&format!("{one_line} {complete}\n")),
                [Promise::Complete]
            );
            assert_eq!(
                promised(&format!("````rust\n{code}```\n{code}````\n{complete}")),
                [Promise::Complete]
            );
            assert_eq!(
                promised(&format!("```\n{one_line}\n```\n{complete}")),
                [Promise::Complete]
            );
            assert_eq!(
                promised(&format!("~~~~\n{code}{complete}\n~~~~\nNot yet.")),
                []
            );
            assert_eq!(
                promised(&format!("```\n{code}\n{complete}\n{one_line}\n```")),
                []
            );
        }
    }
}
