//! Starts the automation hooks of a task event, one after another, and then carries out their actions in order.

use crate::engine::{
    effect::{Effect, HookFacts, HookJob, TaskFacts},
    event::{AutomationEvent, Event, HookEvent},
    hooks::{point::HookPoint, resolve::HookState},
    output::EngineOutput,
    policy::{AutomationHook, HookAction, HookSpec, SessionPlan},
    session::iteration::IterationState,
    steering::ControlState,
    tasks::{
        SessionTasks,
        automation::{AutomationJob, QueuedAction, RaisedEvent, hook_error},
        builtin::BuiltinAutomation,
        record::{ChangeOrigin, DEEPEST, TaskEventKind, TaskRecordData, TaskRecordRef},
        task_rules::TaskRules,
    },
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
}

impl<'a> AutomationRules<'a> {
    /// The hooks that react to such events, by priority; ties keep the config's order.
    pub(crate) fn hearing(self, kind: TaskEventKind) -> Vec<&'a AutomationHook> {
        let hears =
            |hook: &&AutomationHook| hook.hears(kind) && self.hooks.is_enabled(HookPoint::Automation, &hook.spec);
        let mut hooks: Vec<&AutomationHook> = self.plan.automation.iter().filter(hears).collect();
        hooks.sort_by_key(|hook| hook.spec.priority);
        hooks
    }

    pub(crate) fn proceed_automation(self) -> EngineOutput {
        let automation = &self.tasks.automation;
        if let Some(due) = automation.follow_ups.front() {
            return EngineOutput::record(Event::Task(due.event()));
        }
        let Some(job) = &automation.current else {
            return automation.queue.front().map_or_else(EngineOutput::default, |raised| self.begin(raised));
        };
        if job.running.is_some() {
            return EngineOutput::default();
        }
        if let Some(hook) = job.hooks.front() {
            return self.ask(job, hook);
        }
        let next = job.actions.front();
        let carry_out = |wanted: &QueuedAction| {
            self.task_rules.carry_out(&wanted.action, ChangeOrigin::action(wanted.cause.clone()))
        };
        next.map_or_else(EngineOutput::default, |wanted| EngineOutput::record(carry_out(wanted)))
    }

    /// Recorded even if no hook reacts: the record removes the event from the queue.
    pub(crate) fn begin(self, raised: &RaisedEvent) -> EngineOutput {
        let news = raised.event.news();
        let event = raised.id;
        let task = news.task.to_owned();
        if raised.depth > DEEPEST {
            let text = format!(
                "creel stops automation here: {DEEPEST} events led to this one of {task}, each raised by a hook of the \
                 one before"
            );
            return EngineOutput::record(Event::warning(text)).and(Event::Automation(AutomationEvent::Due {
                event,
                task,
                hooks: Vec::new(),
            }));
        }
        let hearing = news.what.kind().map_or_else(Vec::new, |kind| self.hearing(kind));
        let speaking = hearing.into_iter().filter(|hook| self.has_something_to_do(hook, &news));
        let hooks = speaking.map(|hook| hook.spec.name.clone()).collect();
        EngineOutput::record(Event::Automation(AutomationEvent::Due { event, task, hooks }))
    }

    pub(crate) fn has_something_to_do(self, hook: &AutomationHook, news: &TaskRecordRef<'_>) -> bool {
        match &hook.spec.action {
            HookAction::Builtin(call) => BuiltinAutomation::named(&call.name)
                .is_none_or(|builtin| !builtin.actions(news, &self.tasks.graph).is_empty()),
            // An interrupt cancels running commands and starts no new ones.
            HookAction::Command(_) | HookAction::Exec(_) | HookAction::Gatekeeper(_) => !self.steering.interrupted(),
        }
    }

    pub(crate) fn ask(self, job: &AutomationJob, hook: &str) -> EngineOutput {
        let event = job.raised.id;
        let news = job.raised.event.news();
        let spec = self.plan.automation_hook(hook).map(|hook| &hook.spec);
        match spec.map(|spec| (spec, &spec.action)) {
            Some((spec, HookAction::Command(_) | HookAction::Exec(_))) => self.run(job, &news, spec),
            Some((_, HookAction::Builtin(call))) => match BuiltinAutomation::named(&call.name) {
                Some(builtin) => {
                    let actions = builtin.actions(&news, &self.tasks.graph);
                    EngineOutput::record(Event::Automation(AutomationEvent::Decided {
                        event,
                        hook: hook.to_owned(),
                        actions,
                    }))
                }
                None => EngineOutput::record(hook_error(job, hook, format!("unknown built-in hook `{}`", call.name))),
            },
            Some((_, HookAction::Gatekeeper(_))) | None => {
                EngineOutput::record(hook_error(job, hook, "it cannot run here".into()))
            }
        }
    }

    pub(crate) fn run(self, job: &AutomationJob, news: &TaskRecordRef<'_>, spec: &HookSpec) -> EngineOutput {
        let run = self.hooks.last_run.next();
        let goal = self.tasks.graph.get(news.task).map(|task| task.goal.clone());
        let content = if let TaskRecordData::Completed(data) = news.what { Some(data.content.clone()) } else { goal };
        let facts = HookFacts {
            session: self.name.to_owned(),
            iteration: Some(self.iterations.current),
            task: Some(TaskFacts { id: news.task.to_owned(), content: content.unwrap_or_default() }),
            event: Some(job.raised.event.for_hooks(job.raised.at)),
            graph: Some(self.tasks.graph.to_json()),
            ..HookFacts::default()
        };
        let (point, output_limit) = (HookPoint::Automation, self.plan.output_limit);
        let effect = HookJob { run, point, hook: spec.clone(), output_limit, facts };
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
