//! The text of each prompt, its hooks, and the one function that sends it.
//!
//! # Invariants
//! - The first line of a prompt says what it is, except that an iteration prompt begins with its
//!   own content.
//! - Hooks read a prompt once: an interrupted turn is sent again as they read it. If something comes
//!   before it then, such as a handover to another agent, they read the whole again.
//! - A prompt that begins a new conversation stands on its own: see `turn/background.rs`.

use crate::{
    engine::{
        conversation::ConversationMode,
        effect::Effect,
        event::{ActorKind, Event, HookEvent, PromptReason, PromptSent, SessionOutcome, TurnEvent},
        hooks::{
            dispatch::{DispatchCause, HookDispatch},
            point::HookPoint,
        },
        ids::ItemId,
        output::EngineOutput,
        policy::ContextPolicy,
        session::SessionState,
        time::TimeSpan,
        usage_limit::without_handover,
    },
    text::shortened,
};

/// How many characters of an error the recovery prompt contains.
const ERROR_SHOWN: usize = 500;

/// The first line of a final delivery.
const FINAL_DELIVERY: &str = "[Final delivery]: the loop has ended; this output of hooks has not reached you yet. Act on \
                              it if it needs work.";

/// Composes and sends prompts.
#[derive(Debug, Clone, Copy)]
pub struct PromptRules<'a>(pub(crate) &'a SessionState);

impl PromptRules<'_> {
    /// The time limit of a gatekeeper's turn: its hook's timeout.
    pub(crate) fn review_timeout(self) -> Option<TimeSpan> {
        let review = self.0.pipelines.pipeline_run.as_ref()?.review.as_deref()?;
        let dispatch = review.dispatch.as_ref().or(self.0.phase.dispatch())?;
        let running = dispatch.running.as_ref()?;
        Some(self.0.plan().hook(dispatch.point, &running.hook)?.timeout)
    }

    /// The next prompt if it were sent now, with all waiting items and without the output of its
    /// hooks.
    pub fn preview(self) -> String {
        self.preview_with(&self.0.pending.waiting_ids())
    }

    /// The same with these items. After the loop, the next prompt is the final delivery.
    pub fn preview_with(self, items: &[ItemId]) -> String {
        if self.0.ending.is_some() {
            self.with_background(PromptReason::FinalDelivery, self.final_text(items).0)
        } else {
            self.compose(items, None, self.iteration_conversation())
        }
    }

    pub(crate) fn iteration_prompt(
        self,
        dispatch: &HookDispatch,
        items: Vec<ItemId>,
    ) -> EngineOutput {
        let conversation = self.iteration_conversation();
        let text = self.compose(&items, dispatch.piped_text(), conversation);
        let messages = self.0.steering.messages.len();
        let prompt = self.prompt(PromptReason::Iteration, text);
        self.send(PromptSent {
            items,
            conversation,
            messages,
            ..prompt
        })
    }

    pub(crate) fn iteration_conversation(self) -> ConversationMode {
        match self.0.plan().context {
            ContextPolicy::Fresh if self.0.turns.first.is_none() => ConversationMode::New,
            ContextPolicy::Fresh | ContextPolicy::Keep => self.conversation(),
        }
    }

    /// Continues the conversation, if there is one and the agent can.
    fn conversation(self) -> ConversationMode {
        if self.0.agent_choice().forgets() {
            ConversationMode::New
        } else {
            self.0.turns.ongoing()
        }
    }

    /// In this order: pending items, output of `pre_iteration`, messages, the goal, open tasks, the
    /// completion note.
    pub(crate) fn compose(
        self,
        items: &[ItemId],
        piped: Option<String>,
        conversation: ConversationMode,
    ) -> String {
        // An agent does not know the note from a conversation that is older than the session.
        let known = match &self.0.turns.first {
            Some(_) => ConversationMode::New,
            None => conversation,
        };
        let held = items
            .iter()
            .filter_map(|id| self.0.pending.get(*id))
            .map(|item| item.text.clone());
        held.chain(piped)
            .chain(self.0.steering.messages_text())
            .chain(self.0.turns.next_prompt.clone())
            .chain([self.0.began.prompt.clone()])
            .chain(
                self.0
                    .tasks
                    .open_list()
                    .map(|list| format!("Open tasks of this session:\n{list}")),
            )
            .chain(self.0.agent_choice().completion_note(known))
            .collect::<Vec<_>>()
            .join("\n\n")
    }

    pub(crate) fn message_prompt(self, feedback: Option<&str>) -> EngineOutput {
        self.send_with_messages(PromptReason::Message, feedback)
    }

    /// A message of the user beside the feedback resets the retry counter. A message of the agent
    /// or a hook does not.
    pub(crate) fn feedback_prompt(self, feedback: &str) -> EngineOutput {
        let spoke = self.0.steering.person_spoke_after(0);
        self.send_with_messages(
            if spoke {
                PromptReason::Message
            } else {
                PromptReason::Feedback
            },
            Some(feedback),
        )
    }

    pub(crate) fn send_with_messages(
        self,
        reason: PromptReason,
        more: Option<&str>,
    ) -> EngineOutput {
        self.send_with(reason, more, Vec::new())
    }

    /// A prompt with the messages that wait, and these items.
    pub(crate) fn send_with(
        self,
        reason: PromptReason,
        more: Option<&str>,
        items: Vec<ItemId>,
    ) -> EngineOutput {
        let parts = self
            .messages_with_origin()
            .into_iter()
            .chain(more.map(str::to_owned));
        let text = parts.collect::<Vec<_>>().join("\n\n");
        self.send(PromptSent {
            messages: self.0.steering.messages.len(),
            items,
            ..self.prompt(reason, text)
        })
    }

    pub(crate) fn remediation_prompt(self, text: &str) -> EngineOutput {
        self.send_with_messages(PromptReason::Remediation, Some(text))
    }

    /// The waiting messages, each after a line that names its author. Iteration prompts contain
    /// only the messages.
    fn messages_with_origin(self) -> Option<String> {
        let mut author = "";
        let mut paragraphs = Vec::new();
        for message in &self.0.steering.messages {
            let before = std::mem::replace(&mut author, author_of(message.by));
            let origin = if before == author {
                String::new()
            } else {
                format!("[Message]: from {author}\n")
            };
            paragraphs.push(origin + &message.text);
        }
        (!paragraphs.is_empty()).then(|| paragraphs.join("\n\n"))
    }

    /// `piped` is the output of the `on_error` hooks.
    pub(crate) fn recovery_prompt(self, piped: &str) -> EngineOutput {
        if self.0.steering.paused {
            return EngineOutput::default();
        }
        let error = self.0.turns.last_error.as_deref().unwrap_or_default();
        let error = error
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty())
            .unwrap_or("unknown error");
        let opening = format!(
            "[Recovery]: the last turn failed: {}. Repair what the hooks report about it; the work continues in the next \
             turn.",
            shortened(error.trim_end_matches('.'), ERROR_SHOWN)
        );
        let text = format!("{opening}\n\n{piped}");
        self.send(self.prompt(PromptReason::Recovery, text))
    }

    /// The text of the final delivery, and how many messages it carries. Messages to a complete
    /// session are left out: their answers have to be checked.
    fn final_text(self, items: &[ItemId]) -> (String, usize) {
        let complete = self
            .0
            .ending
            .as_ref()
            .is_some_and(|ending| ending.outcome == SessionOutcome::Complete);
        let messages = if complete {
            0
        } else {
            self.0.steering.messages.len()
        };
        let held = items
            .iter()
            .filter_map(|id| self.0.pending.get(*id))
            .map(|item| item.text.clone());
        let opening = (!items.is_empty()).then(|| FINAL_DELIVERY.to_owned());
        let parts = opening
            .into_iter()
            .chain(held)
            .chain(self.messages_with_origin().filter(|_| messages > 0));
        (parts.collect::<Vec<_>>().join("\n\n"), messages)
    }

    pub(crate) fn final_prompt(self, items: Vec<ItemId>) -> EngineOutput {
        let (text, messages) = self.final_text(&items);
        let reason = if items.is_empty() {
            PromptReason::Message
        } else {
            PromptReason::FinalDelivery
        };
        self.send(PromptSent {
            items,
            messages,
            ..self.prompt(reason, text)
        })
    }

    /// The messages that arrived before the session was complete, as one more turn of its last
    /// iteration.
    pub(crate) fn reopening_prompt(self) -> EngineOutput {
        let messages = self.0.steering.messages.len();
        let text = self.messages_with_origin().unwrap_or_default();
        self.send(PromptSent {
            messages,
            reopens: true,
            ..self.prompt(PromptReason::Message, text)
        })
    }

    pub(crate) fn prompt(self, reason: PromptReason, text: String) -> PromptSent {
        PromptSent {
            iteration: self.0.iterations.current,
            turn: self.0.turns.next_turn(),
            reason,
            text: self.with_background(reason, text),
            items: Vec::new(),
            conversation: self.conversation(),
            messages: 0,
            agent: None,
            model: None,
            reopens: false,
        }
    }

    /// The prompt of a turn that was interrupted. If the agent had opened a conversation in that
    /// turn, the prompt continues it, so that the agent keeps its work so far.
    pub(crate) fn again(self, cut: &PromptSent) -> PromptSent {
        if let Some(question) = self.verdict_question_again(cut) {
            return question;
        }
        let is_own = cut.agent.is_none();
        let takes_over = is_own && !self.0.turns.is_begun;
        let forgets = is_own && self.0.agent_choice().forgets();
        let conversation = if takes_over || forgets {
            ConversationMode::New
        } else if is_own && self.0.turns.opened_in == Some(cut.turn) {
            ConversationMode::Same
        } else {
            cut.conversation
        };
        // The first prompt has already reopened the iteration.
        let mut prompt = PromptSent {
            turn: self.0.turns.next_turn(),
            conversation,
            reopens: false,
            ..cut.clone()
        };
        // The agent that had the conversation so far is not the one that gets the prompt now.
        if takes_over || (forgets && cut.conversation == ConversationMode::Same) {
            prompt.text = match cut.reason {
                PromptReason::Iteration => self.with_note(prompt.text),
                PromptReason::Feedback
                | PromptReason::Recovery
                | PromptReason::FinalDelivery
                | PromptReason::Message
                | PromptReason::News
                | PromptReason::Remediation
                | PromptReason::Gatekeeper => self.with_background(cut.reason, prompt.text),
            };
        }
        prompt
    }

    /// The model of a prompt. None: the agent's own.
    fn model(self, prompt: &PromptSent) -> Option<String> {
        let plan = self.0.plan();
        if let Some(gatekeeper) = &prompt.agent {
            let model = plan.gatekeepers.get(gatekeeper)?.spec.model();
            return model.map(str::to_owned);
        }
        let agent = self.0.agent_choice();
        let planned = || {
            if self.0.limits.stand_in.is_some() {
                return agent.spec()?.model();
            }
            plan.models.after(match prompt.reason {
                // The retry that this prompt is counts already.
                PromptReason::Feedback => self.0.retry.used.saturating_sub(1),
                PromptReason::Recovery => self.0.retry.used,
                PromptReason::Iteration
                | PromptReason::FinalDelivery
                | PromptReason::Message
                | PromptReason::News
                | PromptReason::Remediation
                | PromptReason::Gatekeeper => 0,
            })
        };
        let chosen = self.0.steering.models.get(agent.agent());
        chosen
            .map(String::as_str)
            .or_else(planned)
            .map(str::to_owned)
    }

    /// Sends a prompt, once its hooks have read it.
    pub(crate) fn send(self, prompt: PromptSent) -> EngineOutput {
        let prompt = self.with_notes(prompt);
        let rules = self.0.hook_rules();
        let hooks = rules.due(HookPoint::PrePrompt, &DispatchCause::Lifecycle);
        if hooks.is_empty() || prompt.agent.is_some() {
            return self.transmit(prompt);
        }
        if let Some(gate) = self.0.budget().over_budget() {
            return gate;
        }
        EngineOutput::record(Event::Hook(HookEvent::Due {
            point: HookPoint::PrePrompt,
            iteration: Some(prompt.iteration),
            hooks,
            task: None,
            by_hand: false,
            ask: None,
            prompt: Some(Box::new(prompt)),
            answer: None,
        }))
    }

    /// Sends an interrupted turn again. Its hooks have read it, unless its text changes.
    pub(crate) fn send_again(self, cut: &PromptSent) -> EngineOutput {
        let again = self.with_notes(self.again(cut));
        let read = self.0.turns.read.as_ref().filter(|_| {
            let due = self.0.hook_rules();
            let due = due.due(HookPoint::PrePrompt, &DispatchCause::Lifecycle);
            again.text != cut.text && cut.agent.is_none() && !due.is_empty()
        });
        let Some(read) = read else {
            return self.transmit(again);
        };
        let text = without_handover(&read.text).to_owned();
        let cut = PromptSent {
            text,
            ..cut.clone()
        };
        self.send(self.again(&cut))
    }

    /// What the agent has to know first.
    fn with_notes(self, mut prompt: PromptSent) -> PromptSent {
        if prompt.agent.is_some() {
            return prompt;
        }
        let handover = self.0.agent_choice().handover(&prompt.text);
        for note in handover
            .into_iter()
            .chain(self.0.requests.unanswered_note())
        {
            prompt.text = format!("{note}\n\n{}", prompt.text);
        }
        prompt
    }

    /// The prompt with the output of its hooks. The completion note stays at the end.
    pub(crate) fn with_context(self, prompt: &PromptSent, added: Option<&str>) -> PromptSent {
        let Some(added) = added else {
            return prompt.clone();
        };
        let note = self.0.agent_choice().completion_note(ConversationMode::New);
        let with_note = note.as_deref().and_then(|note| {
            let body = prompt.text.strip_suffix(note)?;
            Some(format!("{body}{added}\n\n{note}"))
        });
        PromptSent {
            text: with_note.unwrap_or_else(|| format!("{}\n\n{added}", prompt.text)),
            ..prompt.clone()
        }
    }

    /// The only way to send a prompt, so that none can bypass an exhausted budget.
    pub(crate) fn transmit(self, prompt: PromptSent) -> EngineOutput {
        if let Some(gate) = self.0.budget().over_budget() {
            return gate;
        }
        let mut prompt = prompt;
        prompt.model = self.model(&prompt);
        let for_review = prompt.agent.as_ref().and_then(|_| self.review_timeout());
        let effect = Effect::SendPrompt {
            turn: prompt.turn,
            text: prompt.text.clone(),
            conversation: prompt.conversation,
            model: prompt.model.clone(),
            timeout: for_review.unwrap_or(self.0.plan().turn_timeout),
            silence: self.0.plan().limits.silence,
            to: prompt.agent.clone(),
            stand_in: self.0.limits.stand_in.clone(),
            baseline: self.0.unsettled.protect_baseline(),
        };
        EngineOutput::record(Event::Turn(TurnEvent::PromptSent(Box::new(prompt)))).then(effect)
    }
}

/// The author of a message, for the agent.
const fn author_of(by: ActorKind) -> &'static str {
    match by {
        ActorKind::Agent => "yourself, in an earlier turn",
        ActorKind::Hook => "a hook of this session",
        ActorKind::OtherSession => "another agent",
        ActorKind::Tui
        | ActorKind::Cli
        | ActorKind::Mcp
        | ActorKind::Nats
        | ActorKind::Policy
        | ActorKind::Timeout => "the user",
    }
}
