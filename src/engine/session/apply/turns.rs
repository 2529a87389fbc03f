//! Applies the events of turns to the state.

use crate::engine::{
    conversation::StopReason,
    event::{FinalDeliveryMode, IterationOutcome, PromptReason, PromptSent, TurnEvent},
    hooks::{
        dispatch::{DispatchCause, HookDispatch},
        point::HookPoint,
    },
    session::{
        Phase, SessionState,
        budget::ConversationUsage,
        pending::ItemState,
        retry::RetryWait,
        turn::{DuePrompt, REFUSED},
    },
    time::{TimeSpan, UnixTime},
};

impl SessionState {
    pub(super) fn apply_turn(&mut self, at: UnixTime, event: &TurnEvent) {
        match event {
            TurnEvent::PromptSent(prompt) => {
                self.account.turn_began = at;
                self.unseen_changes(prompt);
                self.prompt_sent(prompt);
            }
            TurnEvent::AgentSaid { text, .. } => self.turns.hear(text),
            TurnEvent::ToolCalled { tool, .. } => self.turns.act(tool),
            TurnEvent::ToolUpdated { tool, .. } => self.turns.follow(tool),
            // A gatekeeper has a conversation of its own.
            TurnEvent::AgentUsed { .. } | TurnEvent::ConversationOpened { .. } if self.gatekeeper_works() => {}
            TurnEvent::AgentUsed { context, .. } => self.turns.context = Some(*context),
            TurnEvent::ConversationOpened { conversation, turn, .. } => {
                if self.turns.conversation.as_ref() != Some(conversation) {
                    self.account.conversation = ConversationUsage::default();
                }
                self.turns.conversation = Some(conversation.clone());
                self.turns.opened_in = Some(*turn);
                self.turns.context = None;
            }
            TurnEvent::PermissionAsked { ask, .. } => self.asks.waiting.push_back((**ask).clone()),
            TurnEvent::Ended { stop_reason, spent, work, forbidden, .. } => {
                self.account.book(at, *spent);
                self.work_done(work.as_deref());
                if *stop_reason == StopReason::EndTurn && !self.gatekeeper_works() {
                    let files = work.as_deref().map(|work| &*work.files_modified).unwrap_or_default();
                    self.limits.turn_ended(&self.turns.said, files);
                }
                self.forbidden_changes(forbidden);
                self.asks.waiting.clear();
                self.turn_stopped(*stop_reason);
            }
            TurnEvent::Failed { error, retry_after_ms, usage_limit, spent, forbidden, .. } => {
                self.account.book(at, *spent);
                self.forbidden_changes(forbidden);
                self.asks.waiting.clear();
                // A failed turn does not report its changes.
                self.iterations.signs.unknown_work = true;
                match self.turn_that_ended().filter(|_| *usage_limit) {
                    Some(prompt) => self.limited_turn(prompt),
                    None => self.turn_failed(error, *retry_after_ms),
                }
            }
            TurnEvent::AgentThought { .. } | TurnEvent::AgentPlanned { .. } | TurnEvent::AgentNoted { .. } => {}
        }
    }

    pub(super) fn prompt_sent(&mut self, prompt: &PromptSent) {
        self.turns.last = prompt.turn;
        self.side.chained = 0;
        if prompt.agent.is_none() {
            self.limits.prompt_sent();
        }
        self.turns.is_begun |= prompt.agent.is_none();
        self.turns.said.clear();
        self.turns.acted_since = false;
        self.asks.next_turn();
        self.turns.prompt.clone_from(&prompt.text);
        self.turns.open_calls.clear();
        let again = matches!(&self.phase, Phase::Due(DuePrompt::Again(before) | DuePrompt::Cancelled(before)) if prompt.text.ends_with(&before.text));
        let by_person = self.steering.person_speaks_in(prompt.messages);
        if prompt.reason == PromptReason::Message && !by_person && !again {
            self.iterations.messages += 1;
        }
        // The items of a turn that a message replaces were not delivered.
        self.set_turn_aside();
        if prompt.reopens {
            self.ending = None;
            self.iterations.begin_work();
        }
        self.pending.set_state(&prompt.items, ItemState::InFlight);
        self.retry.wait = RetryWait::No;
        if prompt.reason == PromptReason::Gatekeeper {
            self.gatekeeper_asked();
        }
        match prompt.reason {
            PromptReason::Iteration => self.retry.reset(),
            PromptReason::Message if by_person => self.retry.reset(),
            PromptReason::Message
            | PromptReason::Feedback
            | PromptReason::Recovery
            | PromptReason::FinalDelivery
            | PromptReason::Remediation
            | PromptReason::Gatekeeper => {}
        }
        self.phase = Phase::Turn(Box::new(prompt.clone()));
    }

    pub(super) fn turn_stopped(&mut self, reason: StopReason) {
        match reason {
            StopReason::Refusal => self.turn_failed(REFUSED, None),
            StopReason::Cancelled => self.turn_cancelled(),
            StopReason::MaxTokens if self.gatekeeper_works() => {
                self.gatekeeper_answered(Some("it ran into its token limit before it was done"));
            }
            StopReason::MaxTurnRequests if self.gatekeeper_works() => {
                self.gatekeeper_answered(Some("it used all the requests of its turn before it was done"));
            }
            StopReason::EndTurn | StopReason::MaxTokens | StopReason::MaxTurnRequests => self.turn_ended(),
        }
    }

    pub(super) fn turn_ended(&mut self) {
        let Some(prompt) = self.turn_that_ended() else { return };
        if prompt.reason == PromptReason::Gatekeeper {
            return self.gatekeeper_answered(None);
        }
        // A recovery does not show whether the work progresses: it neither increases nor resets the count.
        if prompt.reason != PromptReason::Recovery {
            self.retry.errors = 0;
        }
        self.pending.deliver(&prompt.items);
        self.steering.messages.drain(..prompt.messages.min(self.steering.messages.len()));
        if prompt.reason == PromptReason::Iteration {
            self.turns.next_prompt = None;
        }
        let message_is_due = self.message_is_due();
        self.phase = match (&mut self.ending, prompt.reason) {
            _ if self.pipelines.is_open() => Phase::Pipeline,
            (Some(ending), _) => {
                // The approval does not cover items that arrive from now on.
                ending.approved = None;
                ending.deliveries += u32::from(prompt.reason == PromptReason::FinalDelivery);
                Phase::Delivering
            }
            (None, PromptReason::Recovery) => Phase::Settled(IterationOutcome::Failed),
            (None, _) if message_is_due => Phase::Due(DuePrompt::Message),
            (None, _) => Phase::Hooks(HookDispatch::reached(HookPoint::Stop, DispatchCause::Lifecycle)),
        };
    }

    pub(super) fn turn_cancelled(&mut self) {
        let Some(prompt) = self.turn_that_ended() else { return };
        if prompt.reason == PromptReason::Gatekeeper {
            return self.gatekeeper_answered(Some("it was cancelled"));
        }
        self.pending.set_state(&prompt.items, ItemState::Pending);
        let interrupted = self.interrupted();
        self.phase = match &mut self.ending {
            _ if self.pipelines.is_open() => Phase::Pipeline,
            Some(ending) => {
                ending.delivery = FinalDeliveryMode::No;
                Phase::Delivering
            }
            None if interrupted => Phase::Due(DuePrompt::Again(prompt)),
            None if self.steering.person_spoke_after(prompt.messages) => Phase::Due(DuePrompt::Message),
            None if self.steering.cancelled == Some(prompt.turn) => {
                self.pending.set_state(&prompt.items, ItemState::InFlight);
                Phase::Due(DuePrompt::Cancelled(prompt))
            }
            // The agent ended the turn itself: the prompt's items are sent with the next iteration, as after a failed
            // turn.
            None => Phase::Settled(IterationOutcome::Failed),
        };
    }

    pub(super) fn turn_failed(&mut self, error: &str, retry_after: Option<TimeSpan>) {
        let Some(prompt) = self.turn_that_ended() else { return };
        if prompt.reason == PromptReason::Gatekeeper {
            return self.gatekeeper_answered(Some(error));
        }
        self.pending.set_state(&prompt.items, ItemState::Pending);
        // A pipeline has its own count of repairs.
        if prompt.reason != PromptReason::Recovery && !self.pipelines.is_open() {
            self.retry.errors += 1;
        }
        self.retry.wait = RetryWait::Due { nth: self.retry.errors, at_least: retry_after.unwrap_or_default() };
        self.turns.last_error = Some(error.to_owned());
        self.phase = match (prompt.reason, &self.ending) {
            (PromptReason::Recovery, _) if self.pipelines.is_open() => Phase::Pipeline,
            (PromptReason::Recovery, Some(_)) => Phase::Delivering,
            (PromptReason::Recovery, None) => Phase::Settled(IterationOutcome::Failed),
            (
                PromptReason::Iteration
                | PromptReason::Feedback
                | PromptReason::FinalDelivery
                | PromptReason::Message
                | PromptReason::Remediation
                | PromptReason::Gatekeeper,
                _,
            ) => Phase::Hooks(HookDispatch::reached(HookPoint::OnError, DispatchCause::Error(error.to_owned()))),
        };
    }

    pub(super) fn turn_that_ended(&self) -> Option<Box<PromptSent>> {
        let Phase::Turn(prompt) = &self.phase else { return None };
        Some(prompt.clone())
    }

    pub(in crate::engine::session) fn gatekeeper_works(&self) -> bool {
        self.turn_in_flight().is_some_and(|prompt| prompt.agent.is_some())
    }

    /// The session leaves its phase. A turn that was about to be sent again is not sent, and a review that was about to
    /// ask a gatekeeper keeps its dispatch, so that its run can be ended.
    pub(super) fn set_turn_aside(&mut self) {
        self.gatekeeper_asked();
        if let Phase::Due(DuePrompt::Again(prompt) | DuePrompt::Cancelled(prompt)) = &self.phase {
            self.pending.set_state(&prompt.items, ItemState::Pending);
        }
    }
}
