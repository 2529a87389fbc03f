//! The meaning of each [`SessionCommand`]: the events and effects that it causes, or the reason why
//! it is refused.

use crate::engine::{
    actor::{ActorKind, UserCommand},
    effect::Effect,
    event::{
        Actor, Event, HookEvent, PendingEvent, SteeringEvent, StopEvent, StopTiming,
        UsageLimitEvent,
    },
    gate::{SessionGates, answer::GateRules},
    hooks::{beside::BesideWork, dispatch::HookDispatch, point::HookPoint, resolve::HookRef},
    ids::RunId,
    input::SessionCommand,
    output::EngineOutput,
    pending::{ItemState, PendingItems},
    policy::{HookAction, HookSpec, SessionPlan},
    protect::PROTECT,
    refusal::{ByHandObstacle, Refusal},
    session::{
        delivery::EndRules,
        phase::{LoopEnd, Phase},
    },
    steering::ControlState,
    stop::{StopState, loop_rules::LoopRules, stop_rules::StopRules},
    submit::PipelineRules,
    tasks::{SessionTasks, record::ChangeOrigin, task_rules::TaskRules},
    time::UnixTime,
    turn::TurnState,
    usage_limit::AgentChoice,
};

/// The context in which commands are carried out or refused.
#[derive(Debug, Clone, Copy)]
pub struct CommandRules<'a> {
    pub(crate) plan: &'a SessionPlan,
    pub(crate) phase: &'a Phase,
    pub(crate) turns: &'a TurnState,
    pub(crate) pending: &'a PendingItems,
    pub(crate) gates: &'a SessionGates,
    pub(crate) tasks: &'a SessionTasks,
    pub(crate) stop: &'a StopState,
    pub(crate) steering: &'a ControlState,
    pub(crate) ending: &'a Option<LoopEnd>,
    pub(crate) agent_choice: AgentChoice<'a>,
    pub(crate) task_rules: TaskRules<'a>,
    pub(crate) agent_loops: LoopRules<'a>,
    pub(crate) stop_rules: StopRules<'a>,
    pub(crate) beside: BesideWork<'a>,
    pub(crate) pipeline: PipelineRules<'a>,
    pub(crate) end_rules: EndRules<'a>,
    pub(crate) gate_rules: GateRules<'a>,
}

impl CommandRules<'_> {
    /// Why an agent or a hook is not allowed to give this command. None if it is.
    pub(crate) fn keeps_from(self, actor: &Actor, command: &SessionCommand) -> Option<Refusal> {
        let wanted = if actor.by == ActorKind::OtherSession {
            command.in_another_session()
        } else {
            command.of_the_user().filter(|_| actor.by.is_supervised())?
        };
        let first_message = wanted == UserCommand::Message
            && actor.by != ActorKind::OtherSession
            && !self.steering.queued_in.has(actor.by, self.turns.last);
        if first_message || wanted.is_allowed_by(&self.plan.access.agent_may) {
            return None;
        }
        Some(Refusal::NotAllowed {
            actor: actor.by,
            command: wanted,
        })
    }

    pub(crate) fn on_command(
        self,
        by: &Actor,
        command: SessionCommand,
        now: UnixTime,
    ) -> EngineOutput {
        if let Some(outcome) = self.phase.outcome() {
            return EngineOutput::refuse(Refusal::SessionEnded(outcome));
        }
        if let Some(why) = self.keeps_from(by, &command) {
            return EngineOutput::refuse(why);
        }
        let by = &by.as_recorded();
        match command {
            SessionCommand::Pause if self.steering.paused => {
                EngineOutput::refuse(Refusal::AlreadyPaused)
            }
            SessionCommand::Pause => EngineOutput::record(Event::Steering(SteeringEvent::Paused {
                by: by.clone(),
                turn: None,
            })),
            SessionCommand::Unpause if !self.steering.paused => {
                EngineOutput::refuse(Refusal::NotPaused)
            }
            SessionCommand::Unpause => {
                EngineOutput::record(Event::Steering(SteeringEvent::Unpaused { by: by.clone() }))
            }
            SessionCommand::Stop { how } => self.stop(by, how),
            SessionCommand::CancelTurn => match self.phase.turn_in_flight() {
                Some(prompt) => self
                    .gate_rules
                    .hold_cancelled(by, prompt, self.gates.unasked(by))
                    .then(Effect::CancelTurn(prompt.turn)),
                None => EngineOutput::refuse(Refusal::NoTurn),
            },
            SessionCommand::Message { text } => self.message(by, text),
            SessionCommand::SkipItem { item } => self.pending.change_item(
                item,
                &[ItemState::Pending],
                Event::Pending(PendingEvent::Skipped {
                    item,
                    by: by.clone(),
                }),
            ),
            SessionCommand::RestoreItem { item } => self.pending.change_item(
                item,
                &[ItemState::Skipped],
                Event::Pending(PendingEvent::Restored {
                    item,
                    by: by.clone(),
                }),
            ),
            SessionCommand::EditItem { item, text } => {
                let states = [ItemState::Pending, ItemState::Skipped];
                self.pending.change_item(
                    item,
                    &states,
                    Event::Pending(PendingEvent::Edited {
                        item,
                        by: by.clone(),
                        text,
                    }),
                )
            }
            SessionCommand::AnswerGate(answer) => self.gate_rules.answer_gate(by, answer),
            SessionCommand::DisableHook { point, hook } => {
                self.switch_hook(point, &hook, |point, hook| {
                    Event::Hook(HookEvent::Disabled {
                        point,
                        hook,
                        by: by.clone(),
                    })
                })
            }
            SessionCommand::EnableHook { point, hook } => {
                self.switch_hook(point, &hook, |point, hook| {
                    Event::Hook(HookEvent::Enabled {
                        point,
                        hook,
                        by: by.clone(),
                    })
                })
            }
            SessionCommand::RunHook { point, hook } => match self.refuses_by_hand(point, &hook) {
                Some(why) => EngineOutput::refuse(why),
                None => self.switch_hook(point, &hook, |point, hook| {
                    Event::Hook(HookEvent::Requested {
                        point,
                        hook,
                        by: by.clone(),
                    })
                }),
            },
            SessionCommand::CancelHook { run } if self.running().any(|running| running == run) => {
                EngineOutput::default().then(Effect::CancelHook(run))
            }
            SessionCommand::CancelHook { run } => EngineOutput::refuse(Refusal::NoSuchRun(run)),
            SessionCommand::Task { task: command } => self
                .task_rules
                .on_task_command(command, ChangeOrigin::by(by.clone())),
            SessionCommand::RegisterStopHook(wanted) => {
                self.agent_loops.register_stop_hook(by, wanted, now)
            }
            SessionCommand::ClearStopHooks { task } => self.stop.clear_stop_hooks(by, task),
            SessionCommand::Loop { about: command } => {
                self.agent_loops.on_loop_command(by, command, now)
            }
            SessionCommand::CompleteSession { .. } if self.is_being_completed() => {
                EngineOutput::refuse(Refusal::AlreadyCompleting)
            }
            SessionCommand::CompleteSession { reason } => {
                EngineOutput::record(Event::Stop(StopEvent::CompletionPromised {
                    reason,
                    by: by.clone(),
                }))
            }
            SessionCommand::Pipeline { pipeline } => self.pipeline.want_pipeline(pipeline, by),
            SessionCommand::RetryNow => self.agent_choice.while_limited(|_| {
                Ok(Event::UsageLimit(UsageLimitEvent::WaitSkipped {
                    by: by.clone(),
                }))
            }),
            SessionCommand::SwitchAgent { agent: to } => self
                .agent_choice
                .while_limited(|_| self.agent_choice.switch_agent(to.as_deref(), by, now)),
        }
    }

    pub fn running(self) -> impl Iterator<Item = RunId> {
        let run = |dispatch: &HookDispatch| dispatch.running.as_ref().map(|running| running.run);
        let beside = self.beside.dispatches_beside().filter_map(run);
        let by_itself = self.tasks.automation.running().map(|running| running.run);
        let steps = self.tasks.flows.running().map(|(_, run, _)| run);
        let judged = self
            .stop_rules
            .judgements()
            .flat_map(|(_, judging)| judging.runs().map(|running| running.run));
        self.phase
            .dispatch()
            .and_then(run)
            .into_iter()
            .chain(beside)
            .chain(by_itself)
            .chain(steps)
            .chain(judged)
    }

    pub(crate) fn stop(self, by: &Actor, how: StopTiming) -> EngineOutput {
        if self
            .steering
            .stop
            .is_some_and(|asked| asked == StopTiming::Now || asked == how)
        {
            return EngineOutput::refuse(Refusal::AlreadyStopping);
        }
        let step = EngineOutput::record(Event::Steering(SteeringEvent::StopRequested {
            by: by.clone(),
            how,
        }));
        // A paused session would never reach the end of its iteration.
        let step = if self.steering.paused {
            step.and(Event::Steering(SteeringEvent::Unpaused { by: by.clone() }))
        } else {
            step
        };
        // Hooks of `session_end` are not cancelled: they are the last work of an interrupted
        // session.
        if how == StopTiming::AfterIteration || self.phase.is_ending() {
            return step;
        }
        let turn = self
            .phase
            .turn_in_flight()
            .map(|prompt| Effect::CancelTurn(prompt.turn));
        let hooks = self.running().map(Effect::CancelHook);
        turn.into_iter().chain(hooks).fold(step, EngineOutput::then)
    }

    pub(crate) fn message(self, by: &Actor, text: String) -> EngineOutput {
        if text.trim().is_empty() {
            return EngineOutput::refuse(Refusal::EmptyMessage);
        }
        if self.plan.is_led_from_outside() {
            return EngineOutput::refuse(Refusal::SelfDriven);
        }
        if self.phase.is_ending() || self.end_rules.delivery_is_off() {
            return EngineOutput::refuse(Refusal::SessionEnding);
        }
        let step = EngineOutput::record(Event::Steering(SteeringEvent::MessageQueued {
            by: by.clone(),
            text,
        }));
        // A session that is paused for a cancelled turn waits only for this message.
        let awaited = self.steering.paused && self.steering.cancelled.is_some();
        if awaited {
            step.and(Event::Steering(SteeringEvent::Unpaused { by: by.clone() }))
        } else {
            step
        }
    }

    pub(crate) fn switch_hook(
        self,
        at: Option<HookPoint>,
        hook: &str,
        event: impl Fn(HookPoint, String) -> Event,
    ) -> EngineOutput {
        let points = HookPoint::ALL.into_iter().chain([HookPoint::Automation]);
        let points = points.filter(|point| at.is_none_or(|at| at == *point));
        let asked = (at.is_none_or(|at| at == HookPoint::StopDecision)
            && self.agent_loops.stop_hook(hook).is_some())
        .then_some(HookPoint::StopDecision);
        let found = points
            .filter(|point| self.plan.hook(*point, hook).is_some())
            .chain(asked);
        let protect = hook == PROTECT
            && at.is_none_or(|at| at == HookPoint::Stop)
            && !self.plan.access.protect.is_empty();
        let found = found.chain(protect.then_some(HookPoint::Stop));
        let step = found.fold(EngineOutput::default(), |step, point| {
            step.and(event(point, hook.to_owned()))
        });
        if step.is_empty() {
            EngineOutput::refuse(Refusal::NoSuchHook(hook.to_owned()))
        } else {
            step
        }
    }

    /// Whether the user can run this hook by hand.
    pub fn runs_by_hand(self, hook: &HookRef) -> bool {
        self.beside.runs_beside(hook.point, &hook.hook)
            && self.refuses_by_hand(Some(hook.point), &hook.hook).is_none()
    }

    /// Why the user cannot run this hook by hand. None if they can.
    pub(crate) fn refuses_by_hand(self, at: Option<HookPoint>, hook: &str) -> Option<Refusal> {
        let refused = |why| {
            Some(Refusal::NotRunByHand {
                hook: hook.to_owned(),
                why,
            })
        };
        let meant = |point: HookPoint| at.is_none_or(|at| at == point);
        if hook == PROTECT && self.plan.hook(HookPoint::Stop, hook).is_none() {
            return refused(ByHandObstacle::ChecksTurns);
        }
        if meant(HookPoint::StopDecision) && self.agent_loops.stop_hook(hook).is_some() {
            return refused(ByHandObstacle::DecidesIterations);
        }
        if meant(HookPoint::Automation) && self.plan.automation_hook(hook).is_some() {
            return refused(ByHandObstacle::AnswersTaskEvents);
        }
        // A review needs its agents, which only a pipeline runs.
        let review = |spec: &HookSpec| matches!(spec.action, HookAction::Gatekeeper(_));
        let mut found = HookPoint::ALL.into_iter().filter(|point| meant(*point));
        let reviews = found.any(|point| self.plan.hook(point, hook).is_some_and(review));
        if reviews {
            refused(ByHandObstacle::ReviewsPipelines)
        } else {
            None
        }
    }

    /// Whether an agent that the user runs by hand has reported completion.
    pub fn is_being_completed(self) -> bool {
        self.plan.is_led_from_outside() && (self.stop.promised.is_some() || self.ending.is_some())
    }
}
