//! Answers gates: for the user, for a rule, for the policy of an unattended session, or after a
//! timeout.
//!
//! Checks an answer, and returns the records and effects that it leads to.

use crate::engine::{
    actor::POLICY,
    effect::{Effect, ExitReason},
    event::{Actor, ActorKind, Event, GateEvent, HookEvent, PromptSent, SteeringEvent},
    gate::{
        Gate, UnansweredGate,
        kind::{
            BrokenHookAnswer, DeliveryAnswer, EscalationAnswer, GateChoice, GateResponse,
            RetryLimitAnswer, UsageLimitAnswer,
        },
        subject::GateSubject,
    },
    hooks::point::HookPoint,
    input::GateAnswer,
    output::EngineOutput,
    refusal::Refusal,
    session::{SessionState, event::ResumeAnswer, phase::Phase},
    time::UnixTime,
};

/// Answers the open gate.
#[derive(Debug, Clone, Copy)]
pub struct GateRules<'a>(pub(crate) &'a SessionState);

impl GateRules<'_> {
    pub(crate) fn proceed_gate(self, now: UnixTime) -> EngineOutput {
        let Some(gate) = &self.0.gates.open else {
            return EngineOutput::default();
        };
        let permissions = self.0.permissions();
        if let Some(ask) = permissions.asked_at(gate)
            && let Some(choice) = permissions.automatic_permission(ask)
        {
            let content = permissions
                .answer_of_hooks(ask)
                .and_then(|(_, content)| content);
            let by = permissions.answers_for_the_user(ask);
            return self.answered(gate, choice, &by, content.as_deref());
        }
        if let Some(choice) = self.0.agent_choice().limit_has_reset(gate, now) {
            return self.answered(gate, choice, &POLICY, None);
        }
        // The user answered when they resumed the session.
        let given = self
            .0
            .pipelines
            .again
            .as_ref()
            .and_then(|again| again.answer.as_ref());
        if let (Some(ResumeAnswer { choice, text }), GateSubject::Pipeline { .. }) =
            (given, &gate.subject)
            && gate.choices.contains(choice)
        {
            let answer = GateAnswer {
                gate: gate.id,
                choice: *choice,
                text: text.clone(),
                items: None,
            };
            return self.answer_gate(&ActorKind::Cli.into(), answer);
        }
        match gate.unanswered(self.0.plan(), self.0.presence, now) {
            UnansweredGate::Answer(choice, by) => self.answered(gate, choice, &by.into(), None),
            UnansweredGate::Wait => EngineOutput::default(),
            // Leaving would end the hooks that notify the user about this gate.
            UnansweredGate::WaitsForUser if self.0.gate_hooks.is_busy() => EngineOutput::default(),
            UnansweredGate::WaitsForUser => {
                EngineOutput::default().then(Effect::Leave(ExitReason::NeedsUser))
            }
        }
    }

    /// After cancelling a turn, the user wants to look or to send a message first, so the session
    /// pauses instead of sending the same prompt again. A message that is already queued is sent
    /// immediately.
    pub(crate) fn hold_cancelled(
        self,
        by: &Actor,
        prompt: &PromptSent,
        step: EngineOutput,
    ) -> EngineOutput {
        let in_the_loop = self.0.ending.is_none() && !self.0.pipelines.is_open();
        let is_silent = !self.0.steering.person_spoke_after(prompt.messages);
        let holds = (in_the_loop || self.0.pipelines.is_turn_of_a_watch(prompt))
            && is_silent
            && !self.0.steering.interrupted()
            && self.0.steering.cancelled != Some(prompt.turn);
        if holds {
            step.and(Event::Steering(SteeringEvent::Paused {
                by: by.clone(),
                turn: Some(prompt.turn),
            }))
        } else {
            step
        }
    }

    pub(crate) fn answer_gate(self, by: &Actor, answer: GateAnswer) -> EngineOutput {
        let GateAnswer {
            gate: id,
            choice,
            text,
            items,
        } = answer;
        let Some(gate) = self.0.gates.open_gate_named(id) else {
            let answered = id <= self.0.gates.last;
            return EngineOutput::refuse(if answered {
                Refusal::GateAlreadyAnswered(id)
            } else {
                Refusal::NoSuchGate(id)
            });
        };
        let choice = gate.understood(choice);
        if !gate.choices.contains(&choice) {
            let offered = gate.choices.clone();
            return EngineOutput::refuse(Refusal::ChoiceNotOffered {
                gate: id,
                choice,
                offered,
            });
        }
        if let Some(unknown) = items
            .iter()
            .flatten()
            .find(|id| !gate.subject.items().contains(id))
        {
            return EngineOutput::refuse(Refusal::ItemNotAtGate {
                gate: gate.id,
                item: *unknown,
            });
        }
        let ask = self.0.permissions().asked_at(gate);
        let option = match ask.map(|ask| ask.checked(id, choice, text.clone())) {
            Some(Err(refusal)) => return EngineOutput::refuse(refusal),
            Some(Ok(option)) => option,
            None => None,
        };
        let edited = match self
            .0
            .proposal_rules()
            .edited(gate, choice, by, text.as_deref())
        {
            Ok(edited) => edited,
            Err(refusal) => return EngineOutput::refuse(refusal),
        };
        if choice == GateChoice::Edit {
            return edited.map(EngineOutput::record).unwrap_or_default();
        }
        let message = if matches!(choice, GateChoice::Send | GateChoice::Message) {
            let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
                return EngineOutput::refuse(Refusal::EmptyGateMessage);
            };
            let text = self.0.proposal_rules().message(gate, text);
            Some(Event::Steering(SteeringEvent::MessageQueued {
                by: by.clone(),
                text,
            }))
        } else {
            None
        };
        // The answer's consequences are recorded before the answer: after an interruption in
        // between, the gate is still open.
        let before = message
            .into_iter()
            .chain(edited)
            .chain(self.0.pending.skips(gate, choice, items.as_deref(), by));
        let step = before.fold(EngineOutput::default(), EngineOutput::and);
        let answered = self.answered(gate, choice, by, option.as_deref());
        EngineOutput {
            events: step.events.into_iter().chain(answered.events).collect(),
            ..answered
        }
    }

    /// Closes a gate with an answer and its consequences, for every actor.
    pub(crate) fn answered(
        self,
        gate: &Gate,
        choice: GateChoice,
        by: &Actor,
        option: Option<&str>,
    ) -> EngineOutput {
        if gate.subject.ask().is_some() {
            return self.permitted(gate, choice, by, option);
        }
        let answered = Event::Gate(GateEvent::Answered {
            gate: gate.id,
            choice,
            by: by.clone(),
            option: None,
            grants: None,
        });
        let before = match gate.kind().response(choice) {
            Some(
                GateResponse::RetryLimit(RetryLimitAnswer::Disable)
                | GateResponse::BrokenHook(BrokenHookAnswer::Disable),
            ) => self.disabled_at(gate, by),
            Some(GateResponse::Escalation(
                EscalationAnswer::Continue | EscalationAnswer::Message,
            )) => self.unblocked(gate, by),
            Some(GateResponse::UsageLimit(UsageLimitAnswer::Switch)) => self
                .0
                .agent_choice()
                .switch_agent(None, by, gate.opened)
                .map(EngineOutput::record)
                .unwrap_or_default(),
            Some(GateResponse::Delivery(DeliveryAnswer::Skip)) if *by == POLICY => self
                .0
                .pending
                .skips(gate, choice, None, by)
                .fold(EngineOutput::default(), EngineOutput::and),
            // Nothing is recorded before the answer itself.
            Some(
                GateResponse::End(_)
                | GateResponse::Delivery(_)
                | GateResponse::RetryLimit(_)
                | GateResponse::Escalation(_)
                | GateResponse::Errors(_)
                | GateResponse::BrokenHook(_)
                | GateResponse::Permission(_)
                | GateResponse::Budget(_)
                | GateResponse::UsageLimit(_)
                | GateResponse::Tampered(_)
                | GateResponse::Pipeline(_)
                | GateResponse::Proposal(_),
            )
            | None => EngineOutput::default(),
        };
        before.and(answered)
    }

    /// The user continues after an escalation: the tasks that it blocked start again.
    fn unblocked(self, gate: &Gate, by: &Actor) -> EngineOutput {
        if matches!(self.0.phase, Phase::Escalated(_)) {
            self.0.task_rules().unblock(&self.0.stop.blocked, by)
        } else if self.0.phase.is_of_a_loop(gate) {
            self.0
                .task_rules()
                .unblock(self.0.stop.escalated.iter().map(|(_, task, _)| task), by)
        } else {
            EngineOutput::default()
        }
    }

    /// Disables the hook that a gate is about, at the gate's hook point.
    pub(crate) fn disabled_at(self, gate: &Gate, by: &Actor) -> EngineOutput {
        let (Some(hook), by) = (gate.subject.hook().map(str::to_owned), by.clone()) else {
            return EngineOutput::default();
        };
        if self.0.side.is_beside(gate) {
            EngineOutput::record(Event::Hook(HookEvent::Disabled {
                point: HookPoint::OnTaskComplete,
                hook,
                by,
            }))
        } else if let Phase::Hooks(dispatch) = &self.0.phase {
            let point = gate.subject.point().unwrap_or(dispatch.point);
            EngineOutput::record(Event::Hook(HookEvent::Disabled { point, hook, by }))
        } else {
            EngineOutput::default()
        }
    }

    /// Answers the agent's request. `cancel` cancels the turn.
    pub(crate) fn permitted(
        self,
        gate: &Gate,
        choice: GateChoice,
        by: &Actor,
        named: Option<&str>,
    ) -> EngineOutput {
        let ask = self.0.permissions().asked_at(gate);
        let answer = ask.and_then(|ask| ask.answer(choice, named, by));
        let permissions = self.0.permissions();
        let waits = ask
            .zip(answer.as_ref())
            .and_then(|(ask, (_, answer))| permissions.answer_waits(ask, answer));
        let is_seen_first = waits.is_some();
        let before = waits.map(EngineOutput::record).unwrap_or_default();
        let step = before.and(Event::Gate(GateEvent::Answered {
            gate: gate.id,
            choice,
            by: by.clone(),
            option: answer.as_ref().and_then(|(option, _)| option.clone()),
            grants: None,
        }));
        match (ask, answer, self.0.phase.turn_in_flight()) {
            (Some(_), Some(_), _) if is_seen_first => step,
            (Some(ask), Some((_, answer)), _) => step.then(Effect::AnswerPermission {
                ask: ask.ask,
                answer,
            }),
            (_, None, Some(prompt)) => {
                let step = match by.by {
                    ActorKind::Policy | ActorKind::Timeout => step,
                    ActorKind::Tui
                    | ActorKind::Cli
                    | ActorKind::Mcp
                    | ActorKind::Nats
                    | ActorKind::Agent
                    | ActorKind::OtherSession
                    | ActorKind::Hook => self.hold_cancelled(by, prompt, step),
                };
                step.then(Effect::CancelTurn(prompt.turn))
            }
            (None, Some(_), _) | (_, None, None) => step,
        }
    }
}
