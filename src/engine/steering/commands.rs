//! The meaning of each [`SessionCommand`]: the events and effects that it causes, or the reason why
//! it is refused.

use crate::engine::{
    actor::{ActorKind, UserCommand},
    conversation::{AgentPermissionRequest, PermissionSource},
    effect::Effect,
    event::{
        Actor, Event, HookEvent, PendingEvent, SteeringEvent, StopEvent, StopTiming,
        UsageLimitEvent,
    },
    hooks::{HookRef, dispatch::HookDispatch, point::HookPoint},
    ids::RunId,
    input::SessionCommand,
    output::EngineOutput,
    pending::ItemState,
    permission::HookAnswer,
    policy::{HookAction, HookSpec, MODEL},
    protect::PROTECT,
    refusal::{ByHandObstacle, Refusal},
    session::SessionState,
    tasks::record::ChangeOrigin,
    time::UnixTime,
};

/// Carries out commands, or refuses them.
#[derive(Debug, Clone, Copy)]
pub struct CommandRules<'a>(pub(crate) &'a SessionState);

impl CommandRules<'_> {
    /// Why an agent or a hook is not allowed to give this command. None if it is.
    pub(crate) fn keeps_from(self, actor: &Actor, command: &SessionCommand) -> Option<Refusal> {
        if command.is_of_agent_hook() {
            let is_its = actor.by == ActorKind::Agent && self.0.has_own_tool_hook();
            return (!is_its).then_some(Refusal::NotTheAgent);
        }
        let wanted = if actor.by == ActorKind::OtherSession {
            command.in_another_session()
        } else {
            command.of_the_user().filter(|_| actor.by.is_supervised())?
        };
        let first_message = wanted == UserCommand::Message
            && actor.by != ActorKind::OtherSession
            && !self.0.steering.queued_in.has(actor.by, self.0.turns.last);
        if first_message || wanted.is_allowed_by(&self.0.plan().access.agent_may) {
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
        if let Some(outcome) = self.0.phase.outcome() {
            return EngineOutput::refuse(Refusal::SessionEnded(Some(outcome)));
        }
        if let Some(why) = self.keeps_from(by, &command) {
            return EngineOutput::refuse(why);
        }
        let by = &by.as_recorded();
        match command {
            SessionCommand::Pause if self.0.steering.paused => {
                EngineOutput::refuse(Refusal::AlreadyPaused)
            }
            SessionCommand::Pause => EngineOutput::record(Event::Steering(SteeringEvent::Paused {
                by: by.clone(),
                turn: None,
            })),
            SessionCommand::Unpause if !self.0.steering.paused => {
                EngineOutput::refuse(Refusal::NotPaused)
            }
            SessionCommand::Unpause => {
                EngineOutput::record(Event::Steering(SteeringEvent::Unpaused { by: by.clone() }))
            }
            SessionCommand::Stop { how } => self.stop(by, how),
            SessionCommand::CancelTurn => match self.0.phase.turn_in_flight() {
                Some(prompt) => {
                    let step = self.0.gates.unasked(by);
                    let step = self.0.permissions().cancel_calls(prompt, step);
                    self.0
                        .gate_rules()
                        .hold_cancelled(by, prompt, step)
                        .then(Effect::CancelTurn(prompt.turn))
                }
                None => EngineOutput::refuse(Refusal::NoTurn),
            },
            SessionCommand::Message { text } => self.message(by, text),
            SessionCommand::DecideTool {
                ask,
                call,
                arguments: _,
                shortened,
                whole,
                digest,
            } => {
                let request = AgentPermissionRequest {
                    ask,
                    tool: *call,
                    options: HookAnswer::options(),
                    source: PermissionSource::Hook,
                    shortened,
                    whole,
                    digest,
                    earlier: None,
                };
                self.0.permissions().on_tool_hook(Box::new(request))
            }
            SessionCommand::ToolEnded { call } => self.0.turn_rules().on_tool_ended(*call),
            SessionCommand::SkipItem { item } => self.0.pending.change_item(
                item,
                &[ItemState::Pending],
                Event::Pending(PendingEvent::Skipped {
                    item,
                    by: by.clone(),
                }),
            ),
            SessionCommand::RestoreItem { item } => self.0.pending.change_item(
                item,
                &[ItemState::Skipped],
                Event::Pending(PendingEvent::Restored {
                    item,
                    by: by.clone(),
                }),
            ),
            SessionCommand::EditItem { item, text } => {
                let states = [ItemState::Pending, ItemState::Skipped];
                self.0.pending.change_item(
                    item,
                    &states,
                    Event::Pending(PendingEvent::Edited {
                        item,
                        by: by.clone(),
                        text,
                    }),
                )
            }
            SessionCommand::AnswerGate(answer) => self.0.gate_rules().answer_gate(by, answer),
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
                .0
                .task_rules()
                .on_task_command(command, ChangeOrigin::by(by.clone())),
            SessionCommand::RegisterStopHook(wanted) => {
                self.0.agent_loops().register_stop_hook(by, wanted, now)
            }
            SessionCommand::ClearStopHooks { task } => self.0.stop.clear_stop_hooks(by, task),
            SessionCommand::Loop { about: command } => {
                self.0.agent_loops().on_loop_command(by, command, now)
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
            SessionCommand::Pipeline { pipeline } => self.0.pipeline().want_pipeline(pipeline, by),
            SessionCommand::RetryNow => self.0.agent_choice().while_limited(|_| {
                Ok(Event::UsageLimit(UsageLimitEvent::WaitSkipped {
                    by: by.clone(),
                }))
            }),
            SessionCommand::SetModel { model } => self.choose_model(model, by),
            SessionCommand::SwitchAgent { agent: to } => self
                .0
                .agent_choice()
                .while_limited(|_| self.0.agent_choice().switch_agent(to.as_deref(), by, now)),
        }
    }

    fn choose_model(self, model: Option<String>, by: &Actor) -> EngineOutput {
        let model = model.filter(|model| !model.trim().is_empty());
        let chosen = |model| {
            EngineOutput::record(Event::Steering(SteeringEvent::ModelChosen {
                by: by.clone(),
                model,
                agent: self.0.limits.stand_in.clone(),
            }))
        };
        let Some(wanted) = &model else {
            return chosen(None);
        };
        let offered = self.0.offered_models();
        let names = offered.map_or(&[][..], |offered| &offered.names);
        let same = names.iter().find(|name| name.eq_ignore_ascii_case(wanted));
        let is_open = offered.is_none_or(|offered| !offered.is_complete);
        let spec = self.0.agent_choice().spec();
        if spec.is_some_and(|spec| spec.accepts(MODEL)) && (is_open || same.is_some()) {
            return chosen(same.cloned().or(model));
        }
        EngineOutput::refuse(Refusal::NoSuchModel {
            model: wanted.clone(),
            offered: names.to_vec(),
        })
    }

    pub fn running(self) -> impl Iterator<Item = RunId> {
        let run = |dispatch: &HookDispatch| dispatch.running.as_ref().map(|running| running.run);
        let beside = self.0.beside().dispatches_beside().filter_map(run);
        let by_itself = self.0.tasks.automation.running().map(|running| running.run);
        let steps = self.0.tasks.flows.running().map(|(_, run, _)| run);
        let judged = self
            .0
            .stop_rules()
            .judgements()
            .flat_map(|(_, judging)| judging.runs().map(|running| running.run));
        self.0
            .phase
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
            .0
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
        let step = if self.0.steering.paused {
            step.and(Event::Steering(SteeringEvent::Unpaused { by: by.clone() }))
        } else {
            step
        };
        // Hooks of `session_end` are not cancelled: they are the last work of an interrupted
        // session.
        if how == StopTiming::AfterIteration || self.0.phase.is_ending() {
            return step;
        }
        let turn = self
            .0
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
        if self.0.plan().is_led_from_outside() {
            return EngineOutput::refuse(Refusal::SelfDriven);
        }
        if self.0.phase.is_ending() || self.0.end_rules().delivery_is_off() {
            return EngineOutput::refuse(Refusal::SessionEnding);
        }
        let step = EngineOutput::record(Event::Steering(SteeringEvent::MessageQueued {
            by: by.clone(),
            text,
        }));
        // A session that is paused for a cancelled turn waits only for this message.
        let awaited = self.0.steering.paused && self.0.steering.cancelled.is_some();
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
            && self.0.agent_loops().stop_hook(hook).is_some())
        .then_some(HookPoint::StopDecision);
        let found = points
            .filter(|point| self.0.plan().hook(*point, hook).is_some())
            .chain(asked);
        let protect = hook == PROTECT
            && at.is_none_or(|at| at == HookPoint::Stop)
            && !self.0.plan().access.protect.is_empty();
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
        self.0.beside().runs_beside(hook.point, &hook.hook)
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
        if hook == PROTECT && self.0.plan().hook(HookPoint::Stop, hook).is_none() {
            return refused(ByHandObstacle::ChecksTurns);
        }
        if meant(HookPoint::StopDecision) && self.0.agent_loops().stop_hook(hook).is_some() {
            return refused(ByHandObstacle::DecidesIterations);
        }
        if meant(HookPoint::Automation) && self.0.plan().automation_hook(hook).is_some() {
            return refused(ByHandObstacle::AnswersTaskEvents);
        }
        let mut in_turn = HookPoint::ALL
            .into_iter()
            .filter(|point| point.is_in_turn());
        if in_turn.any(|point| meant(point) && self.0.plan().hook(point, hook).is_some()) {
            return refused(ByHandObstacle::SeesToolCalls);
        }
        // A review needs its agents, which only a pipeline runs.
        let review = |spec: &HookSpec| matches!(spec.action, HookAction::Gatekeeper(_));
        let mut found = HookPoint::ALL.into_iter().filter(|point| meant(*point));
        let reviews = found.any(|point| self.0.plan().hook(point, hook).is_some_and(review));
        if reviews {
            refused(ByHandObstacle::ReviewsPipelines)
        } else {
            None
        }
    }

    /// Whether an agent that the user runs by hand has reported completion.
    pub fn is_being_completed(self) -> bool {
        self.0.plan().is_led_from_outside()
            && (self.0.stop.promised.is_some() || self.0.ending.is_some())
    }
}
