//! Prompts and answers: what a prompt contains, and what follows when a turn ends.
//!
//! # Invariants
//! - A prompt is recorded in full before it is sent.
//! - No prompt is sent while the budget is used up, whatever the prompt's reason.
//! - A turn that was interrupted is sent again unchanged.
//! - Every tool call ends with its turn at the latest.

use std::collections::BTreeMap;

use super::{Phase, SessionState};
use crate::engine::{
    EngineOutput,
    conversation::{
        AgentUpdate, ContextUsage, ConversationMode, StopReason, ToolCall, ToolStatus, TurnEnd, TurnFailure,
        WorktreeChanges,
    },
    effect::Effect,
    event::{Event, IterationOutcome, PromptReason, PromptSent, SessionOutcome, TurnEvent},
    hooks::dispatch::HookDispatch,
    ids::{ItemId, TurnId},
    policy::ContextPolicy,
    time::UnixTime,
    unquoted_text::open_fence,
};

/// How many bytes of the agent's last message are kept, counted from its end, where promises are.
const KEPT_MESSAGE: usize = 64 << 10;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnState {
    /// The highest turn id so far.
    pub last: TurnId,
    /// Whether the session's own agent has received a prompt. Gatekeepers have conversations of their own.
    pub is_begun: bool,
    /// The last prompt.
    pub prompt: String,
    /// The end of the agent's last message. A tool call starts a new message.
    pub said: String,
    /// Whether the agent began a tool call since its last text.
    pub acted_since: bool,
    /// Changes to the project's files in the last turn, if known.
    pub work: Option<Box<WorktreeChanges>>,
    /// Text that the stop decision adds to the next prompt.
    pub next_prompt: Option<String>,
    /// Why the last failed turn failed.
    pub last_error: Option<String>,
    /// The unfinished tool calls of the current turn, by id.
    pub open_calls: BTreeMap<String, ToolCall>,
    /// None if the agent does not report it.
    pub context: Option<ContextUsage>,
    /// The agent's id for the conversation.
    pub conversation: Option<String>,
    /// The turn in which the agent opened or resumed the conversation.
    pub opened_in: Option<TurnId>,
}

/// The next prompt to send.
#[derive(Debug, Clone, PartialEq)]
pub enum DuePrompt {
    /// A stop hook blocked.
    Feedback(String),
    /// The user, the agent or a hook sent a message.
    Message,
    /// A check of a submit or a merge failed.
    Remediation(String),
    /// The turn was interrupted.
    Again(Box<PromptSent>),
    /// A person cancelled the turn. It is sent again, unless the person sends a message instead.
    Cancelled(Box<PromptSent>),
}

impl TurnState {
    pub(super) fn follow(&mut self, tool: &ToolCall) {
        match tool.status {
            ToolStatus::Pending | ToolStatus::InProgress => {
                self.open_calls.insert(tool.call.clone(), tool.clone());
            }
            ToolStatus::Completed | ToolStatus::Failed => {
                self.open_calls.remove(&tool.call);
            }
        }
    }

    /// Ends the current message: text after a tool call is a new one.
    pub(super) fn act(&mut self, tool: &ToolCall) {
        self.acted_since = !self.said.is_empty();
        self.follow(tool);
    }

    pub(super) fn hear(&mut self, text: &str) {
        if std::mem::take(&mut self.acted_since) {
            let before = self.said.trim_end_matches('\n').len();
            self.said.truncate(before);
            self.said.push_str("\n\n");
        }
        self.said.push_str(text);
        // Truncate only at twice the size, so that a stream of small pieces does not copy the text each time.
        if self.said.len() > 2 * KEPT_MESSAGE {
            self.forget_the_beginning();
        }
    }

    /// Cuts at the start of a line, unless the line is very long, and keeps the fence of a code block that is cut.
    /// Without the fence code would be read as text, and text as code.
    fn forget_the_beginning(&mut self) {
        let most = self.said.floor_char_boundary(self.said.len() - KEPT_MESSAGE);
        let least = self.said.floor_char_boundary(most.saturating_sub(KEPT_MESSAGE / 2));
        let cut = self.said[least..most].rfind('\n').map_or(most, |end| least + end + 1);
        let fence = open_fence(&self.said[..cut]).map(|fence| format!("{fence}\n"));
        self.said.replace_range(..cut, fence.as_deref().unwrap_or_default());
    }
}

impl SessionState {
    pub(super) fn proceed_due(&self, due: &DuePrompt, now: UnixTime) -> EngineOutput {
        if self.steering.paused {
            return EngineOutput::default();
        }
        if let Some(step) = self.limit_gate(now) {
            return step;
        }
        if let Some(step) = self.wait_over(now).or_else(|| self.switch_after_wait(now)) {
            return step;
        }
        match due {
            DuePrompt::Cancelled(_) if self.steering.stop.is_some() => {
                self.complete_iteration(IterationOutcome::Failed)
            }
            DuePrompt::Cancelled(prompt) if self.steering.person_spoke_after(prompt.messages) => {
                self.message_prompt(None)
            }
            DuePrompt::Again(prompt) | DuePrompt::Cancelled(prompt)
                if !prompt.items.is_empty() && self.is_busy_beside() =>
            {
                EngineOutput::default()
            }
            DuePrompt::Again(prompt) | DuePrompt::Cancelled(prompt) => self.send(self.again(prompt)),
            DuePrompt::Message => self.message_prompt(None),
            DuePrompt::Remediation(text) => self.remediation_prompt(text),
            DuePrompt::Feedback(text) => self.feedback_prompt(text),
        }
    }

    /// The next iteration's prompt if it were sent now, without the output of its hooks.
    pub fn preview(&self) -> String {
        self.compose(&self.pending.waiting_ids(), None, self.iteration_conversation())
    }

    pub(super) fn iteration_prompt(&self, dispatch: &HookDispatch, items: Vec<ItemId>) -> EngineOutput {
        let conversation = self.iteration_conversation();
        let text = self.compose(&items, dispatch.piped_text(), conversation);
        let messages = self.steering.messages.len();
        let prompt = self.prompt(PromptReason::Iteration, text);
        self.send(PromptSent { items, conversation, messages, ..prompt })
    }

    fn iteration_conversation(&self) -> ConversationMode {
        match self.plan().context {
            ContextPolicy::Fresh => ConversationMode::New,
            ContextPolicy::Keep => self.ongoing(),
        }
    }

    /// In this order: pending items, output of `pre_iteration`, messages, the goal, the completion note.
    fn compose(&self, items: &[ItemId], piped: Option<String>, conversation: ConversationMode) -> String {
        let held = items.iter().filter_map(|id| self.pending.get(*id)).map(|item| item.text.clone());
        held.chain(piped)
            .chain(self.messages_text())
            .chain(self.turns.next_prompt.clone())
            .chain([self.began.prompt.clone()])
            .chain(self.completion_note(conversation))
            .collect::<Vec<_>>()
            .join("\n\n")
    }

    fn messages_text(&self) -> Option<String> {
        let texts: Vec<&str> = self.steering.messages.iter().map(|message| message.text.as_str()).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    fn message_prompt(&self, feedback: Option<&str>) -> EngineOutput {
        self.send_with_messages(PromptReason::Message, feedback)
    }

    /// A message of a person next to the feedback resets the retry counter. A message of the agent or a hook does not.
    fn feedback_prompt(&self, feedback: &str) -> EngineOutput {
        let spoke = self.steering.person_spoke_after(0);
        self.send_with_messages(if spoke { PromptReason::Message } else { PromptReason::Feedback }, Some(feedback))
    }

    fn send_with_messages(&self, reason: PromptReason, more: Option<&str>) -> EngineOutput {
        let parts = self.messages_text().into_iter().chain(more.map(str::to_owned));
        let text = parts.collect::<Vec<_>>().join("\n\n");
        self.send(PromptSent { messages: self.steering.messages.len(), ..self.prompt(reason, text) })
    }

    fn remediation_prompt(&self, text: &str) -> EngineOutput {
        self.send_with_messages(PromptReason::Remediation, Some(text))
    }

    pub(super) fn recovery_prompt(&self, text: String) -> EngineOutput {
        if self.steering.paused {
            return EngineOutput::default();
        }
        self.send(self.prompt(PromptReason::Recovery, text))
    }

    /// Messages to a complete session are left out: their answers have to be checked.
    pub(super) fn final_prompt(&self, items: Vec<ItemId>) -> EngineOutput {
        let complete = self.ending.as_ref().is_some_and(|ending| ending.outcome == SessionOutcome::Complete);
        let messages = if complete { 0 } else { self.steering.messages.len() };
        let held = items.iter().filter_map(|id| self.pending.get(*id)).map(|item| item.text.clone());
        let text = held.chain(self.messages_text().filter(|_| messages > 0)).collect::<Vec<_>>().join("\n\n");
        let reason = if items.is_empty() { PromptReason::Message } else { PromptReason::FinalDelivery };
        self.send(PromptSent { items, messages, ..self.prompt(reason, text) })
    }

    /// The messages that arrived before the session was complete, as one more turn of its last iteration.
    pub(super) fn reopening_prompt(&self) -> EngineOutput {
        let messages = self.steering.messages.len();
        let text = self.messages_text().unwrap_or_default();
        self.send(PromptSent { messages, reopens: true, ..self.prompt(PromptReason::Message, text) })
    }

    pub(in crate::engine) fn prompt(&self, reason: PromptReason, text: String) -> PromptSent {
        PromptSent {
            iteration: self.iterations.current,
            turn: self.next_turn(),
            reason,
            text,
            items: Vec::new(),
            conversation: self.ongoing(),
            messages: 0,
            agent: None,
            reopens: false,
        }
    }

    /// The prompt of a turn that was interrupted. If the agent had opened a conversation in that turn, the prompt
    /// continues it, so that the agent keeps its work so far.
    fn again(&self, cut: &PromptSent) -> PromptSent {
        let was_opened = cut.agent.is_none() && self.turns.opened_in == Some(cut.turn);
        let conversation = if was_opened { ConversationMode::Same } else { cut.conversation };
        let takes_over = cut.agent.is_none() && !self.turns.is_begun;
        let conversation = if takes_over { ConversationMode::New } else { conversation };
        // The first prompt has already reopened the iteration.
        let mut prompt = PromptSent { turn: self.next_turn(), conversation, reopens: false, ..cut.clone() };
        // An agent that takes over in the middle of a conversation has not received the note.
        let note = self.completion_note(conversation).filter(|_| takes_over && cut.reason == PromptReason::Iteration);
        if let Some(note) = note.filter(|note| !prompt.text.ends_with(note.as_str())) {
            prompt.text = format!("{}\n\n{note}", prompt.text);
        }
        prompt
    }

    /// Continues the conversation, if there is one.
    fn ongoing(&self) -> ConversationMode {
        if self.turns.is_begun { ConversationMode::Same } else { ConversationMode::New }
    }

    /// The only way to send a prompt, so that none can bypass an exhausted budget.
    pub(in crate::engine) fn send(&self, prompt: PromptSent) -> EngineOutput {
        if let Some(gate) = self.over_budget() {
            return gate;
        }
        let mut prompt = prompt;
        if let Some(handover) = self.handover(&prompt.text).filter(|_| prompt.agent.is_none()) {
            prompt.text = format!("{handover}\n\n{}", prompt.text);
        }
        let for_review = prompt.agent.as_ref().and_then(|_| self.review_timeout());
        let effect = Effect::SendPrompt {
            turn: prompt.turn,
            text: prompt.text.clone(),
            conversation: prompt.conversation,
            timeout: for_review.unwrap_or(self.plan().turn_timeout),
            to: prompt.agent.clone(),
            standing_in: self.limits.standing_in.clone(),
            baseline: self.protect_baseline(),
        };
        EngineOutput::record(Event::Turn(TurnEvent::PromptSent(Box::new(prompt)))).then(effect)
    }

    pub(crate) fn on_agent(&self, turn: TurnId, update: AgentUpdate) -> EngineOutput {
        let Some(iteration) = self.awaited(turn) else { return EngineOutput::stale(turn) };
        EngineOutput::record(match update {
            AgentUpdate::Said(text) => Event::Turn(TurnEvent::AgentSaid { iteration, turn, text }),
            AgentUpdate::Thought(text) => Event::Turn(TurnEvent::AgentThought { iteration, turn, text }),
            AgentUpdate::ToolCalled(tool) => Event::Turn(TurnEvent::ToolCalled { iteration, turn, tool }),
            AgentUpdate::ToolUpdated(tool) => Event::Turn(TurnEvent::ToolUpdated { iteration, turn, tool }),
            AgentUpdate::Planned(entries) => Event::Turn(TurnEvent::AgentPlanned { iteration, turn, entries }),
            AgentUpdate::Used(context) => Event::Turn(TurnEvent::AgentUsed { iteration, turn, context }),
            AgentUpdate::Opened(conversation) => {
                Event::Turn(TurnEvent::ConversationOpened { iteration, turn, conversation })
            }
            AgentUpdate::Noted { what, text } => Event::Turn(TurnEvent::AgentNoted { iteration, turn, what, text }),
            AgentUpdate::Warned(text) => super::warning(text),
        })
    }

    pub(crate) fn on_turn_ended(&self, turn: TurnId, end: TurnEnd) -> EngineOutput {
        let Some(iteration) = self.awaited(turn) else { return EngineOutput::stale(turn) };
        let TurnEnd { stop_reason, spent, work, forbidden } = end;
        let (status, why) = match stop_reason {
            StopReason::EndTurn => (ToolStatus::Completed, UNTOLD),
            StopReason::MaxTokens | StopReason::MaxTurnRequests | StopReason::Refusal | StopReason::Cancelled => {
                (ToolStatus::Failed, CUT_OFF)
            }
        };
        let closed = self.close_calls(status, why).fold(self.unasked(&super::POLICY), EngineOutput::and);
        let step = closed.and(Event::Turn(TurnEvent::Ended { iteration, turn, stop_reason, spent, work, forbidden }));
        // The review itself reports that it was cut short.
        match cut_short(stop_reason).filter(|_| !self.gatekeeper_works()) {
            Some(why) => step.and(super::warning(why)),
            None => step,
        }
    }

    pub(crate) fn on_turn_failed(&self, turn: TurnId, failure: TurnFailure, now: UnixTime) -> EngineOutput {
        let Some(iteration) = self.awaited(turn) else { return EngineOutput::stale(turn) };
        let TurnFailure { message: error, retry_after: retry_after_ms, limit, spent, forbidden } = failure;
        let closed =
            self.close_calls(ToolStatus::Failed, CUT_OFF).fold(self.unasked(&super::POLICY), EngineOutput::and);
        let limit = limit.filter(|_| !self.gatekeeper_works()).and_then(|limit| self.reached_limit(limit, now));
        let usage_limit = limit.is_some();
        let forbidden = *forbidden;
        let failed =
            Event::Turn(TurnEvent::Failed { iteration, turn, error, retry_after_ms, usage_limit, spent, forbidden });
        limit.into_iter().flatten().fold(closed.and(failed), EngineOutput::and)
    }

    /// Ends every open tool call of the current turn: no call outlives its turn.
    pub(in crate::engine) fn close_calls(&self, status: ToolStatus, why: &'static str) -> impl Iterator<Item = Event> {
        let calls = self.turn_in_flight().map(|prompt| (prompt.iteration, prompt.turn, &self.turns.open_calls));
        calls.into_iter().flat_map(move |(iteration, turn, calls)| {
            calls.values().map(move |call| {
                let output = call.output.clone().or_else(|| Some(why.to_owned()));
                Event::Turn(TurnEvent::ToolUpdated {
                    iteration,
                    turn,
                    tool: ToolCall { status, output, ..call.clone() },
                })
            })
        })
    }

    /// The iteration of the turn, if it is the current one.
    pub(super) fn awaited(&self, turn: TurnId) -> Option<u32> {
        let Phase::Turn(prompt) = &self.phase else { return None };
        (prompt.turn == turn).then_some(prompt.iteration)
    }
}

/// Shown as the output of a tool call that ended with its turn.
pub(in crate::engine) const CUT_OFF: &str = "cut off with the turn";
const UNTOLD: &str = "the agent ended its turn without saying how this ended";

/// A warning for a turn that ended before the agent was done.
fn cut_short(stop_reason: StopReason) -> Option<&'static str> {
    match stop_reason {
        StopReason::EndTurn | StopReason::Cancelled | StopReason::Refusal => None,
        StopReason::MaxTokens => Some(
            "the agent ran into its token limit in the middle of its work; the turn is judged as it is: give it less to do \
             at once, or raise the limit in its own settings",
        ),
        StopReason::MaxTurnRequests => Some(
            "the agent used all the requests that it may make in a turn; the turn is judged as it is: give it less to do at \
             once, or raise the limit in its own settings",
        ),
    }
}

/// After a refusal the agent forgets the prompt, so none of its items count as delivered.
pub(super) const REFUSED: &str = "the agent refused to answer this prompt: see what it said, and ask in other words";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::stop::promise::Promise;

    /// What is promised in a message that comes piece by piece.
    fn promised(message: &str) -> Vec<Promise> {
        let mut turns = TurnState::default();
        let mut rest = message;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.ceil_char_boundary(999.min(rest.len())));
            turns.hear(piece);
            rest = after;
            assert!(turns.said.len() <= 2 * KEPT_MESSAGE, "what is kept is bounded");
        }
        Promise::made_in(&turns.said, "")
    }

    #[test]
    fn a_long_message_promises_what_a_short_one_does() {
        for length in [10, 4 * KEPT_MESSAGE] {
            let code = "let é = `1`;\n".repeat(length);
            let one_line = "é".repeat(length);
            let complete = "<promise>COMPLETE</promise>";
            assert_eq!(promised(&format!("{code}{complete}")), [Promise::Complete]);
            assert_eq!(promised(&format!("{one_line} {complete}\n")), [Promise::Complete]);
            assert_eq!(promised(&format!("````rust\n{code}```\n{code}````\n{complete}")), [Promise::Complete]);
            assert_eq!(promised(&format!("```\n{one_line}\n```\n{complete}")), [Promise::Complete]);
            assert_eq!(promised(&format!("~~~~\n{code}{complete}\n~~~~\nNot yet.")), []);
            assert_eq!(promised(&format!("```\n{code}\n{complete}\n{one_line}\n```")), []);
        }
    }
}
