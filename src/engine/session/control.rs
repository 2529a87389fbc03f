//! Commands to a session: pause, stop, messages, changes to pending items, answers to gates.
//!
//! Owns the meaning of each [`SessionCommand`]. A command that cannot be carried out is refused with a reason and
//! changes nothing.

use super::{
    Phase, SessionState,
    gate::{Gate, GateChoice, GateKind},
    pending::ItemState,
    tamper::PROTECT,
};
use crate::engine::{
    EngineOutput,
    actor::UserCommand,
    effect::Effect,
    event::{
        Actor, ActorKind, Event, GateEvent, HookEvent, PendingEvent, PromptSent, SteeringEvent, StopEvent, StopTiming,
        UsageLimitEvent,
    },
    hooks::{dispatch::HookDispatch, point::HookPoint, resolve::HookRef},
    ids::{ItemId, RunId, TurnId},
    input::{GateAnswer, SessionCommand},
    policy::{HookAction, HookSpec},
    refusal::{ByHandObstacle, Refusal},
    tasks::record::ChangeOrigin,
    time::UnixTime,
};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ControlState {
    /// While true, no prompt is sent.
    pub paused: bool,
    /// The turn whose cancellation paused the session.
    pub cancelled: Option<TurnId>,
    /// When the session should stop. None: it continues.
    pub stop: Option<StopTiming>,
    /// Messages that the agent has not answered, oldest first.
    pub messages: Vec<QueuedMessage>,
    pub queued_in: LastMessageTurns,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedMessage {
    pub by: ActorKind,
    pub text: String,
}

impl ControlState {
    /// Whether a person sent one of the messages after the first `known`.
    pub(super) fn person_spoke_after(&self, known: usize) -> bool {
        self.messages.iter().skip(known).any(|message| !message.by.is_supervised())
    }

    /// Whether a person sent one of the first `carried` messages. Older records do not count the messages of a prompt:
    /// those count as a person's.
    pub(super) fn person_speaks_in(&self, carried: usize) -> bool {
        carried == 0 || self.messages.iter().take(carried).any(|message| !message.by.is_supervised())
    }
}

/// When agents and hooks queued their last message: each can queue one per turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LastMessageTurns {
    agent: Option<TurnId>,
    hook: Option<TurnId>,
}

impl LastMessageTurns {
    pub(in crate::engine) fn note(&mut self, by: ActorKind, turn: TurnId) {
        match by {
            ActorKind::Agent => self.agent = Some(turn),
            ActorKind::Hook => self.hook = Some(turn),
            ActorKind::Tui
            | ActorKind::Cli
            | ActorKind::Mcp
            | ActorKind::Nats
            | ActorKind::Policy
            | ActorKind::Timeout => {}
        }
    }

    fn has(self, by: ActorKind, turn: TurnId) -> bool {
        match by {
            ActorKind::Agent => self.agent == Some(turn),
            ActorKind::Hook => self.hook == Some(turn),
            ActorKind::Tui
            | ActorKind::Cli
            | ActorKind::Mcp
            | ActorKind::Nats
            | ActorKind::Policy
            | ActorKind::Timeout => false,
        }
    }
}

impl SessionState {
    /// Why the session's own agent or hook is not allowed to give this command. None if it is.
    fn keeps_from(&self, actor: &Actor, command: &SessionCommand) -> Option<Refusal> {
        let wanted = command.of_the_user().filter(|_| actor.by.is_supervised())?;
        let first_message = wanted == UserCommand::Message && !self.steering.queued_in.has(actor.by, self.turns.last);
        if first_message || self.plan().agent_may.contains(&wanted) {
            return None;
        }
        Some(Refusal::NotAllowed { actor: actor.by, command: wanted })
    }

    pub(crate) fn on_command(&self, by: &Actor, command: SessionCommand, now: UnixTime) -> EngineOutput {
        if let Some(outcome) = self.outcome() {
            return EngineOutput::refuse(Refusal::SessionEnded(outcome));
        }
        if let Some(why) = self.keeps_from(by, &command) {
            return EngineOutput::refuse(why);
        }
        match command {
            SessionCommand::Pause if self.steering.paused => EngineOutput::refuse(Refusal::AlreadyPaused),
            SessionCommand::Pause => {
                EngineOutput::record(Event::Steering(SteeringEvent::Paused { by: by.clone(), turn: None }))
            }
            SessionCommand::Unpause if !self.steering.paused => EngineOutput::refuse(Refusal::NotPaused),
            SessionCommand::Unpause => {
                EngineOutput::record(Event::Steering(SteeringEvent::Unpaused { by: by.clone() }))
            }
            SessionCommand::Stop { how } => self.stop(by, how),
            SessionCommand::CancelTurn => match self.turn_in_flight() {
                Some(prompt) => self.hold_cancelled(by, prompt, self.unasked(by)).then(Effect::CancelTurn(prompt.turn)),
                None => EngineOutput::refuse(Refusal::NoTurn),
            },
            SessionCommand::Message { text } => self.message(by, text),
            SessionCommand::SkipItem { item } => self.change_item(
                item,
                &[ItemState::Pending],
                Event::Pending(PendingEvent::Skipped { item, by: by.clone() }),
            ),
            SessionCommand::RestoreItem { item } => self.change_item(
                item,
                &[ItemState::Skipped],
                Event::Pending(PendingEvent::Restored { item, by: by.clone() }),
            ),
            SessionCommand::EditItem { item, text } => {
                let states = [ItemState::Pending, ItemState::Skipped];
                self.change_item(item, &states, Event::Pending(PendingEvent::Edited { item, by: by.clone(), text }))
            }
            SessionCommand::AnswerGate(answer) => self.answer_gate(by, answer),
            SessionCommand::DisableHook { point, hook } => self.switch_hook(point, &hook, |point, hook| {
                Event::Hook(HookEvent::Disabled { point, hook, by: by.clone() })
            }),
            SessionCommand::EnableHook { point, hook } => self.switch_hook(point, &hook, |point, hook| {
                Event::Hook(HookEvent::Enabled { point, hook, by: by.clone() })
            }),
            SessionCommand::RunHook { point, hook } => match self.refuses_by_hand(point, &hook) {
                Some(why) => EngineOutput::refuse(why),
                None => self.switch_hook(point, &hook, |point, hook| {
                    Event::Hook(HookEvent::Requested { point, hook, by: by.clone() })
                }),
            },
            SessionCommand::CancelHook { run } if self.running().any(|running| running == run) => {
                EngineOutput::default().then(Effect::CancelHook(run))
            }
            SessionCommand::CancelHook { run } => EngineOutput::refuse(Refusal::NoSuchRun(run)),
            SessionCommand::Task { task: command } => self.on_task_command(command, ChangeOrigin::by(by.clone())),
            SessionCommand::RegisterStopHook(wanted) => self.register_stop_hook(by, wanted, now),
            SessionCommand::ClearStopHooks { task } => self.clear_stop_hooks(by, task),
            SessionCommand::Loop { about: command } => self.on_loop_command(by, command, now),
            SessionCommand::CompleteSession { .. } if self.is_being_completed() => {
                EngineOutput::refuse(Refusal::AlreadyCompleting)
            }
            SessionCommand::CompleteSession { reason } => {
                EngineOutput::record(Event::Stop(StopEvent::CompletionPromised { reason, by: by.clone() }))
            }
            SessionCommand::Pipeline { pipeline } => self.want_pipeline(pipeline, by),
            SessionCommand::RetryNow => {
                self.while_limited(|_| Ok(Event::UsageLimit(UsageLimitEvent::WaitSkipped { by: by.clone() })))
            }
            SessionCommand::SwitchAgent { agent: to } => {
                self.while_limited(|_| self.switch_agent(to.as_deref(), by, now))
            }
        }
    }

    pub(super) fn apply_steering(&mut self, event: &SteeringEvent) {
        match event {
            SteeringEvent::Paused { turn, .. } => {
                self.steering.paused = true;
                self.steering.cancelled = *turn;
            }
            SteeringEvent::Unpaused { .. } => self.steering.paused = false,
            SteeringEvent::MessageQueued { by, text } => {
                self.steering.messages.push(QueuedMessage { by: by.by, text: text.clone() });
                self.steering.queued_in.note(by.by, self.turns.last);
            }
            SteeringEvent::StopRequested { how, .. } => self.stop_requested(*how),
        }
    }

    pub fn running(&self) -> impl Iterator<Item = RunId> {
        let run = |dispatch: &HookDispatch| dispatch.running.as_ref().map(|running| running.run);
        let beside = self.dispatches_beside().filter_map(run);
        let by_itself = self.tasks.automation.running().map(|running| running.run);
        let steps = self.tasks.flows.running().map(|(_, run, _)| run);
        let judged = self.judgements().flat_map(|(_, judging)| judging.runs().map(|running| running.run));
        self.dispatch().and_then(run).into_iter().chain(beside).chain(by_itself).chain(steps).chain(judged)
    }

    fn stop(&self, by: &Actor, how: StopTiming) -> EngineOutput {
        if self.steering.stop.is_some_and(|asked| asked == StopTiming::Now || asked == how) {
            return EngineOutput::refuse(Refusal::AlreadyStopping);
        }
        let step = EngineOutput::record(Event::Steering(SteeringEvent::StopRequested { by: by.clone(), how }));
        // A paused session would never reach the end of its iteration.
        let step = if self.steering.paused {
            step.and(Event::Steering(SteeringEvent::Unpaused { by: by.clone() }))
        } else {
            step
        };
        // Hooks of `session_end` are not cancelled: they are the last work of an interrupted session.
        if how == StopTiming::AfterIteration || self.is_ending() {
            return step;
        }
        let turn = self.turn_in_flight().map(|prompt| Effect::CancelTurn(prompt.turn));
        let hooks = self.running().map(Effect::CancelHook);
        turn.into_iter().chain(hooks).fold(step, EngineOutput::then)
    }

    /// After cancelling a turn, the user wants to look or to send a message first, so the session pauses instead of
    /// sending the same prompt again. A message that is already queued is sent immediately.
    pub(super) fn hold_cancelled(&self, by: &Actor, prompt: &PromptSent, step: EngineOutput) -> EngineOutput {
        let in_the_loop = self.ending.is_none() && !self.pipelines.is_open();
        let nothing_said = !self.steering.person_spoke_after(prompt.messages);
        let holds = in_the_loop && nothing_said && !self.interrupted() && self.steering.cancelled != Some(prompt.turn);
        if holds {
            step.and(Event::Steering(SteeringEvent::Paused { by: by.clone(), turn: Some(prompt.turn) }))
        } else {
            step
        }
    }

    /// Whether the messages are sent in a turn of their own. Messages of the agent itself or of a hook use up
    /// iterations there; otherwise they could keep the session running for ever.
    pub(super) fn message_is_due(&self) -> bool {
        let said = !self.steering.messages.is_empty();
        said && (self.steering.person_spoke_after(0) || self.iterations.used() < self.max_iterations())
    }

    fn message(&self, by: &Actor, text: String) -> EngineOutput {
        if text.trim().is_empty() {
            return EngineOutput::refuse(Refusal::EmptyMessage);
        }
        if self.is_led_from_outside() {
            return EngineOutput::refuse(Refusal::SelfDriven);
        }
        if self.is_ending() || self.delivery_is_off() {
            return EngineOutput::refuse(Refusal::SessionEnding);
        }
        let step = EngineOutput::record(Event::Steering(SteeringEvent::MessageQueued { by: by.clone(), text }));
        // A session that is paused for a cancelled turn waits only for this message.
        let awaited = self.steering.paused && self.steering.cancelled.is_some();
        if awaited { step.and(Event::Steering(SteeringEvent::Unpaused { by: by.clone() })) } else { step }
    }

    fn change_item(&self, id: ItemId, from: &[ItemState], event: Event) -> EngineOutput {
        let Some(state) = self.pending.get(id).map(|item| item.state) else {
            return EngineOutput::refuse(Refusal::NoSuchItem(id));
        };
        match (state.is_settled(id), state) {
            (Some(why), _) => EngineOutput::refuse(why),
            (None, state) if from.contains(&state) => EngineOutput::record(event),
            (None, ItemState::Skipped) => EngineOutput::refuse(Refusal::ItemAlreadySkipped(id)),
            (None, ItemState::Pending | ItemState::InFlight | ItemState::Delivered) => {
                EngineOutput::refuse(Refusal::ItemNotSkipped(id))
            }
        }
    }

    fn switch_hook(
        &self,
        at: Option<HookPoint>,
        hook: &str,
        event: impl Fn(HookPoint, String) -> Event,
    ) -> EngineOutput {
        let points = HookPoint::ALL.into_iter().chain([HookPoint::Automation]);
        let points = points.filter(|point| at.is_none_or(|at| at == *point));
        let asked = (at.is_none_or(|at| at == HookPoint::StopDecision) && self.stop_hook(hook).is_some())
            .then_some(HookPoint::StopDecision);
        let found = points.filter(|point| self.plan().hook(*point, hook).is_some()).chain(asked);
        let protect = hook == PROTECT && at.is_none_or(|at| at == HookPoint::Stop) && !self.plan().protect.is_empty();
        let found = found.chain(protect.then_some(HookPoint::Stop));
        let step = found.fold(EngineOutput::default(), |step, point| step.and(event(point, hook.to_owned())));
        if step.is_empty() { EngineOutput::refuse(Refusal::NoSuchHook(hook.to_owned())) } else { step }
    }

    /// Whether the user can run this hook by hand.
    pub fn runs_by_hand(&self, hook: &HookRef) -> bool {
        self.runs_beside(hook.point, &hook.hook) && self.refuses_by_hand(Some(hook.point), &hook.hook).is_none()
    }

    /// Why the user cannot run this hook by hand. None if they can.
    fn refuses_by_hand(&self, at: Option<HookPoint>, hook: &str) -> Option<Refusal> {
        let refused = |why| Some(Refusal::NotRunByHand { hook: hook.to_owned(), why });
        let meant = |point: HookPoint| at.is_none_or(|at| at == point);
        if hook == PROTECT && self.plan().hook(HookPoint::Stop, hook).is_none() {
            return refused(ByHandObstacle::ChecksTurns);
        }
        if meant(HookPoint::StopDecision) && self.stop_hook(hook).is_some() {
            return refused(ByHandObstacle::DecidesIterations);
        }
        if meant(HookPoint::Automation) && self.plan().automation_hook(hook).is_some() {
            return refused(ByHandObstacle::AnswersTaskEvents);
        }
        // A review needs its agents, which only a pipeline runs.
        let review = |spec: &HookSpec| matches!(spec.action, HookAction::Gatekeeper(_));
        let mut found = HookPoint::ALL.into_iter().filter(|point| meant(*point));
        let reviews = found.any(|point| self.plan().hook(point, hook).is_some_and(review));
        if reviews { refused(ByHandObstacle::ReviewsPipelines) } else { None }
    }

    fn answer_gate(&self, by: &Actor, answer: GateAnswer) -> EngineOutput {
        let GateAnswer { gate: id, choice, text, items } = answer;
        let Some(gate) = self.open_gate_named(id) else {
            let answered = id <= self.gates.last;
            return EngineOutput::refuse(if answered {
                Refusal::GateAlreadyAnswered(id)
            } else {
                Refusal::NoSuchGate(id)
            });
        };
        let choice = gate.understood(choice);
        if !gate.choices.contains(&choice) {
            let offered = gate.choices.clone();
            return EngineOutput::refuse(Refusal::ChoiceNotOffered { gate: id, choice, offered });
        }
        if let Some(unknown) = items.iter().flatten().find(|id| !gate.items.contains(id)) {
            return EngineOutput::refuse(Refusal::ItemNotAtGate { gate: gate.id, item: *unknown });
        }
        let ask = self.asked_at(gate);
        if let (Some(ask), Some(named)) = (ask, &text)
            && ask.option(choice, Some(named)).is_none()
        {
            let known =
                ask.options.iter().filter(|option| option.kind.choice() == choice).map(|option| option.id.clone());
            let (option, known) = (named.clone(), known.collect());
            return EngineOutput::refuse(Refusal::NoSuchOption { gate: id, choice, option, known });
        }
        let option = ask.and(text.clone());
        let message = if matches!(choice, GateChoice::Send | GateChoice::Message) {
            let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
                return EngineOutput::refuse(Refusal::EmptyGateMessage);
            };
            Some(Event::Steering(SteeringEvent::MessageQueued { by: by.clone(), text }))
        } else {
            None
        };
        // The answer's consequences are recorded before the answer: after an interruption in between, the gate is still
        // open.
        let before = message.into_iter().chain(self.skips(gate, choice, items.as_deref(), by));
        let step = before.fold(EngineOutput::default(), EngineOutput::and);
        let answered = self.answered(gate, choice, by, option.as_deref());
        EngineOutput { events: step.events.into_iter().chain(answered.events).collect(), ..answered }
    }

    /// The items that an answer skips.
    fn skips<'a>(
        &'a self,
        gate: &'a Gate,
        choice: GateChoice,
        approved: Option<&'a [ItemId]>,
        by: &'a Actor,
    ) -> impl Iterator<Item = Event> + 'a {
        let delivers = matches!(gate.about, GateKind::FinalDelivery | GateKind::Delivery);
        let some_are_left_out = choice == GateChoice::Approve && approved.is_some();
        let kept_back =
            move |id: &ItemId| choice == GateChoice::Skip || approved.is_some_and(|approved| !approved.contains(id));
        let waiting = self.pending.waiting_ids().into_iter().filter(|id| gate.items.contains(id));
        waiting
            .filter(move |id| delivers && (choice == GateChoice::Skip || some_are_left_out) && kept_back(id))
            .map(move |item| Event::Pending(PendingEvent::Skipped { item, by: by.clone() }))
    }

    /// Closes a gate with an answer and its consequences, for every actor.
    pub(super) fn answered(&self, gate: &Gate, choice: GateChoice, by: &Actor, option: Option<&str>) -> EngineOutput {
        if gate.about == GateKind::Permission {
            return self.permitted(gate, choice, by, option);
        }
        let answered = Event::Gate(GateEvent::Answered { gate: gate.id, choice, by: by.clone(), option: None });
        let before = match choice {
            GateChoice::Disable => self.disabled_at(gate, by),
            GateChoice::Continue | GateChoice::Message if matches!(self.phase, Phase::Escalated(_)) => {
                self.unblock(&self.stop.blocked, by)
            }
            GateChoice::Continue | GateChoice::Message if self.is_of_a_loop(gate) => {
                self.unblock(self.stop.escalated.iter().map(|(_, task, _)| task), by)
            }
            GateChoice::Switch => {
                self.switch_agent(None, by, gate.opened).map(EngineOutput::record).unwrap_or_default()
            }
            GateChoice::Skip if *by == super::POLICY => {
                self.skips(gate, choice, None, by).fold(EngineOutput::default(), EngineOutput::and)
            }
            GateChoice::Continue
            | GateChoice::Message
            | GateChoice::Skip
            | GateChoice::Approve
            | GateChoice::Send
            | GateChoice::Ignore
            | GateChoice::Retry
            | GateChoice::Wait
            | GateChoice::Complete
            | GateChoice::Escalate
            | GateChoice::Fail
            | GateChoice::Stop
            | GateChoice::AllowOnce
            | GateChoice::AllowAlways
            | GateChoice::RejectOnce
            | GateChoice::RejectAlways
            | GateChoice::Leave
            | GateChoice::Cancel
            | GateChoice::Abort => EngineOutput::default(),
        };
        before.and(answered)
    }

    /// Disables the hook that a gate is about, at the gate's hook point.
    fn disabled_at(&self, gate: &Gate, by: &Actor) -> EngineOutput {
        let (Some(hook), by) = (gate.hook.clone(), by.clone()) else { return EngineOutput::default() };
        if self.is_beside(gate) {
            EngineOutput::record(Event::Hook(HookEvent::Disabled { point: HookPoint::OnTaskComplete, hook, by }))
        } else if let Phase::Hooks(dispatch) = &self.phase {
            EngineOutput::record(Event::Hook(HookEvent::Disabled { point: dispatch.point, hook, by }))
        } else {
            EngineOutput::default()
        }
    }
}
