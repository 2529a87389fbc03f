//! Starts the automation hooks of a task event, one after another, and then carries out their
//! actions in order.

use crate::engine::{
    budget::BudgetCheck,
    effect::{Effect, HookFacts, HookJob, TaskFacts},
    event::{AutomationEvent, Event, HookEvent},
    hooks::{point::HookPoint, resolve::HookState},
    output::EngineOutput,
    policy::{AutomationHook, HookAction, HookSpec, SessionPlan},
    session::{iteration::IterationState, phase::Phase},
    steering::ControlState,
    tasks::{
        SessionTasks,
        automation::{AutomationJob, QueuedAction, RaisedEvent, hook_error},
        builtin::BuiltinAutomation,
        carry_out::{self, ActionError},
        record::{
            ChangeOrigin, DEEPEST, MOST_ACTIONS, TaskEventKind, TaskRecordData, TaskRecordRef,
        },
        task_rules::TaskRules,
    },
    time::UnixTime,
};

#[derive(Debug, Clone, Copy)]
pub struct AutomationRules<'a> {
    pub(crate) name: &'a str,
    pub(crate) plan: &'a SessionPlan,
    pub(crate) iterations: &'a IterationState,
    pub(crate) hooks: &'a HookState,
    pub(crate) tasks: &'a SessionTasks,
    pub(crate) steering: &'a ControlState,
    pub(crate) task_rules: TaskRules<'a>,
    pub(crate) budget: BudgetCheck<'a>,
    pub(crate) phase: &'a Phase,
}

impl<'a> AutomationRules<'a> {
    /// The hooks that react to such events, by priority; ties keep the config's order.
    pub(crate) fn hearing(self, kind: TaskEventKind) -> Vec<&'a AutomationHook> {
        let hears = |hook: &&AutomationHook| {
            hook.hears(kind) && self.hooks.is_enabled(HookPoint::Automation, &hook.spec)
        };
        let mut hooks: Vec<&AutomationHook> = self.plan.automation.iter().filter(hears).collect();
        hooks.sort_by_key(|hook| hook.spec.priority);
        hooks
    }

    pub(crate) fn proceed_automation(self, now: UnixTime) -> EngineOutput {
        let automation = &self.tasks.automation;
        if let Some(due) = automation.follow_ups.front() {
            return EngineOutput::record(Event::Task(due.event()));
        }
        let Some(job) = &automation.current else {
            return automation
                .queue
                .front()
                .map_or_else(EngineOutput::default, |raised| self.begin(raised, now));
        };
        if job.running.is_some() {
            return EngineOutput::default();
        }
        if let Some(hook) = job.hooks.front() {
            return self.ask(job, hook);
        }
        let next = job.actions.front();
        let carry_out = |wanted: &QueuedAction| {
            let origin = ChangeOrigin::action(wanted.cause.clone());
            match self.must_stop(&job.raised, now) {
                Some(why) => carry_out::failed(&wanted.action, &why, origin),
                None => self.task_rules.carry_out(&wanted.action, origin),
            }
        };
        next.map_or_else(EngineOutput::default, |wanted| {
            EngineOutput::record(carry_out(wanted))
        })
    }

    /// Why hooks cause no more changes. What follows from a change of the user or the agent ends,
    /// however many changes each hook wants, and it does not outlive the budget.
    fn must_stop(self, raised: &RaisedEvent, now: UnixTime) -> Option<ActionError> {
        if self.tasks.automation.actions_with(raised) >= MOST_ACTIONS {
            return Some(ActionError::TooManyActions);
        }
        let works = self.phase.turn_in_flight().is_some();
        self.budget
            .used_up_at(works.then_some(now))
            .filter(|_| raised.depth > 0)
            .map(ActionError::OverBudget)
    }

    /// Recorded even if no hook reacts: the record removes the event from the queue.
    pub(crate) fn begin(self, raised: &RaisedEvent, now: UnixTime) -> EngineOutput {
        let news = raised.event.news();
        let event = raised.id;
        let task = news.task.to_owned();
        if raised.depth > DEEPEST {
            let text = format!(
                "creel stops automation here: {DEEPEST} events led to this one of {task}, each raised by a hook of the \
                 one before"
            );
            return EngineOutput::record(Event::warning(text)).and(Event::Automation(
                AutomationEvent::Due {
                    event,
                    task,
                    hooks: Vec::new(),
                },
            ));
        }
        let stops = self.must_stop(raised, now);
        let warning = stops
            .as_ref()
            .filter(|_| self.tasks.automation.actions_with(raised) == MOST_ACTIONS);
        let warning = warning
            .map(|why| EngineOutput::record(Event::warning(why.to_string())))
            .unwrap_or_default();
        let kind = news.what.kind().filter(|_| stops.is_none());
        let hearing = kind.map_or_else(Vec::new, |kind| self.hearing(kind));
        let speaking = hearing
            .into_iter()
            .filter(|hook| self.has_something_to_do(hook, &news));
        let hooks = speaking.map(|hook| hook.spec.name.clone()).collect();
        warning.and(Event::Automation(AutomationEvent::Due {
            event,
            task,
            hooks,
        }))
    }

    pub(crate) fn has_something_to_do(
        self,
        hook: &AutomationHook,
        news: &TaskRecordRef<'_>,
    ) -> bool {
        match &hook.spec.action {
            HookAction::Builtin(call) => BuiltinAutomation::named(&call.name)
                .is_none_or(|builtin| !builtin.actions(news, &self.tasks.graph).is_empty()),
            // An interrupt cancels running commands and starts no new ones.
            HookAction::Command(_) | HookAction::Exec(_) | HookAction::Gatekeeper(_) => {
                !self.steering.interrupted()
            }
        }
    }

    pub(crate) fn ask(self, job: &AutomationJob, hook: &str) -> EngineOutput {
        let event = job.raised.id;
        let news = job.raised.event.news();
        let spec = self.plan.automation_hook(hook).map(|hook| &hook.spec);
        match spec.map(|spec| (spec, &spec.action)) {
            Some((spec, HookAction::Command(_) | HookAction::Exec(_))) => {
                self.run(job, &news, spec)
            }
            Some((_, HookAction::Builtin(call))) => match BuiltinAutomation::named(&call.name) {
                Some(builtin) => {
                    let actions = builtin.actions(&news, &self.tasks.graph);
                    EngineOutput::record(Event::Automation(AutomationEvent::Decided {
                        event,
                        hook: hook.to_owned(),
                        actions,
                    }))
                }
                None => EngineOutput::record(hook_error(
                    job,
                    hook,
                    format!("unknown built-in hook `{}`", call.name),
                )),
            },
            Some((_, HookAction::Gatekeeper(_))) | None => {
                EngineOutput::record(hook_error(job, hook, "it cannot run here".into()))
            }
        }
    }

    pub(crate) fn run(
        self,
        job: &AutomationJob,
        news: &TaskRecordRef<'_>,
        spec: &HookSpec,
    ) -> EngineOutput {
        let run = self.hooks.last_run.next();
        let goal = self
            .tasks
            .graph
            .get(news.task)
            .map(|task| task.goal.clone());
        let content = if let TaskRecordData::Completed(data) = news.what {
            Some(data.content.clone())
        } else {
            goal
        };
        let facts = HookFacts {
            session: self.name.to_owned(),
            iteration: Some(self.iterations.current),
            task: Some(TaskFacts {
                id: news.task.to_owned(),
                content: content.unwrap_or_default(),
            }),
            event: Some(job.raised.event.for_hooks(job.raised.at)),
            graph: Some(self.tasks.graph.to_json()),
            ..HookFacts::default()
        };
        let (point, output_limit) = (HookPoint::Automation, self.plan.output_limit);
        let effect = HookJob {
            run,
            point,
            hook: spec.clone(),
            output_limit,
            facts,
        };
        let (hook, iteration) = (spec.name.clone(), self.iterations.current);
        EngineOutput::record(Event::Hook(HookEvent::Started {
            run,
            point,
            hook,
            iteration,
            attempt: 0,
            beside: true,
            of: None,
        }))
        .then(Effect::RunHook(Box::new(effect)))
    }
}
