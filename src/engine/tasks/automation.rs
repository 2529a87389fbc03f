//! What happens by itself when a task changes: the queue of raised events, and the one that is being worked on.
//!
//! For each event its hooks run one after another, by priority; what they want is recorded as they answer
//! (`automation_decided`, or `hook_error` for one that did not do its job). Then the actions of all of them are carried
//! out in order. Events that they raise are queued behind, one level deeper.
//!
//! All of this goes on beside the agent, whether the session is paused or held at a gate.
//!
//! # Invariants
//! - What a hook decided is recorded before anything of it is done, and each action's record takes it off the list: cut
//!   anywhere, what is left is done, and nothing is done twice.
//! - A hook that fails leaves one `hook_error` and changes nothing for the others.
//! - The session neither delivers nor ends while something is left to do here.

use std::collections::VecDeque;

use super::{
    action::{self, AutomationAction},
    builtin::BuiltinAutomation,
    follow_up::FollowUp,
    record::{ActionRef, ChangeOrigin, HookErrorData, TaskEventKind, TaskRecordData, TaskRecordRef},
};
use crate::engine::{
    EngineOutput,
    effect::{Effect, HookFacts, HookJob, TaskFacts},
    event::{AutomationEvent, Event, HookEvent, HookFinished, TaskEvent},
    hooks::{
        dispatch::ActiveRun,
        point::HookPoint,
        verdict::{RunResult, Verdict},
    },
    ids::{RunId, TaskEventId},
    policy::{AutomationHook, HookAction, HookSpec, SessionPlan},
    session::{SessionState, warning},
    time::UnixTime,
};

/// Events further than this below the one that began it are left alone.
pub const DEEPEST: u32 = 8;

/// What happens by itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AutomationState {
    /// The events that were not looked at yet.
    pub queue: VecDeque<RaisedEvent>,
    /// The event that is being worked on.
    pub current: Option<AutomationJob>,
    /// The records that follow from changes of the graph.
    pub follow_ups: VecDeque<FollowUp>,
    /// The last number given to an event.
    last: TaskEventId,
}

/// An event that hooks are told of.
#[derive(Debug, Clone, PartialEq)]
pub struct RaisedEvent {
    /// Its name.
    pub id: TaskEventId,
    /// When it happened.
    pub at: UnixTime,
    /// How many actions led to it, one from the other.
    pub depth: u32,
    /// What happened.
    pub event: Box<TaskEvent>,
}

/// The work on one event.
#[derive(Debug, Clone, PartialEq)]
pub struct AutomationJob {
    /// The event.
    pub raised: RaisedEvent,
    /// The hooks that have not answered, in order.
    pub hooks: VecDeque<String>,
    /// The one that runs; it has not answered.
    pub running: Option<ActiveRun>,
    /// What the others want to be done, in order.
    pub actions: VecDeque<QueuedAction>,
    /// How many actions there were.
    count: u32,
}

/// An action that waits.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedAction {
    /// Its name.
    pub cause: ActionRef,
    /// What is to be done.
    pub action: AutomationAction,
}

impl AutomationState {
    /// Whether something is left to do.
    pub fn is_busy(&self) -> bool {
        self.current.is_some() || !self.queue.is_empty() || !self.follow_ups.is_empty()
    }

    /// The run in flight.
    pub fn running(&self) -> Option<&ActiveRun> {
        self.current.as_ref()?.running.as_ref()
    }

    pub(crate) fn awaits(&self, run: RunId) -> bool {
        self.running().is_some_and(|running| running.run == run)
    }

    pub(super) fn raise(&mut self, at: UnixTime, event: &TaskEvent, depth: u32) {
        self.last = self.last.next();
        self.queue.push_back(RaisedEvent { id: self.last, at, depth, event: Box::new(event.clone()) });
    }

    pub(crate) fn apply(&mut self, event: &AutomationEvent) {
        match event {
            AutomationEvent::Due { event, hooks, .. } => self.due(*event, hooks),
            AutomationEvent::Decided { event, hook, actions } => self.decided(*event, hook, actions),
            AutomationEvent::HookError { data, event: Some(event), .. } => self.decided(*event, &data.hook_name, &[]),
            // The hook ran for `on_task_complete`.
            AutomationEvent::HookError { event: None, .. } => {}
        }
    }

    fn due(&mut self, event: TaskEventId, hooks: &[String]) {
        let Some(raised) = self.queue.pop_front_if(|raised| raised.id == event) else { return };
        let hooks = hooks.iter().cloned().collect();
        self.current = Some(AutomationJob { raised, hooks, running: None, actions: VecDeque::new(), count: 0 });
        self.settle();
    }

    pub(crate) fn started(&mut self, running: ActiveRun) {
        if let Some(job) = &mut self.current {
            job.running = Some(running);
        }
    }

    pub(crate) fn finished(&mut self) {
        if let Some(job) = &mut self.current {
            job.running = None;
        }
        self.settle();
    }

    fn decided(&mut self, event: TaskEventId, hook: &str, actions: &[AutomationAction]) {
        let Some(job) = self.current.as_mut().filter(|job| job.raised.id == event) else { return };
        job.hooks.pop_front_if(|front| front == hook);
        for action in actions {
            job.count += 1;
            let cause = ActionRef { event, hook: hook.to_owned(), action: job.count };
            job.actions.push_back(QueuedAction { cause, action: action.clone() });
        }
        self.settle();
    }

    pub(super) fn carried_out(&mut self, cause: &ActionRef) {
        if let Some(job) = &mut self.current {
            job.actions.pop_front_if(|wanted| wanted.cause == *cause);
        }
        self.settle();
    }

    /// Takes hooks out that have not been started.
    pub(crate) fn drop_hooks(&mut self, dropped: impl Fn(&str) -> bool) {
        if let Some(job) = &mut self.current {
            let running = job.running.clone();
            let runs = |hook: &str| running.as_ref().is_some_and(|running| running.hook == hook);
            job.hooks.retain(|hook| runs(hook) || !dropped(hook));
        }
        self.settle();
    }

    /// An event with nothing left to do is over.
    fn settle(&mut self) {
        let over = |job: &AutomationJob| job.hooks.is_empty() && job.running.is_none() && job.actions.is_empty();
        if self.current.as_ref().is_some_and(over) {
            self.current = None;
        }
    }
}

impl SessionPlan {
    /// The automation hook of that name.
    pub fn automation_hook(&self, name: &str) -> Option<&AutomationHook> {
        self.automation.iter().find(|hook| hook.spec.name == name)
    }
}

impl AutomationHook {
    /// Whether it may have something to say about such events.
    fn hears(&self, kind: TaskEventKind) -> bool {
        let speaks = match &self.spec.action {
            HookAction::Builtin(call) => {
                BuiltinAutomation::named(&call.name).is_none_or(|builtin| builtin.speaks_at() == kind)
            }
            HookAction::Command(_) | HookAction::Gatekeeper(_) => true,
        };
        speaks && self.events.contains(&kind)
    }
}

impl SessionState {
    /// The hooks that may have something to say about such events, in order; ties as they are written.
    pub(super) fn hearing(&self, kind: TaskEventKind) -> Vec<&AutomationHook> {
        let hears =
            |hook: &&AutomationHook| hook.hears(kind) && self.hooks.is_enabled(HookPoint::Automation, &hook.spec);
        let mut hooks: Vec<&AutomationHook> = self.plan().automation.iter().filter(hears).collect();
        hooks.sort_by_key(|hook| hook.spec.priority);
        hooks
    }

    pub(crate) fn proceed_automation(&self) -> EngineOutput {
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
        let carry_out =
            |wanted: &QueuedAction| self.carry_out(&wanted.action, ChangeOrigin::action(wanted.cause.clone()));
        next.map_or_else(EngineOutput::default, |wanted| EngineOutput::record(carry_out(wanted)))
    }

    /// Recorded also when nobody has anything to say: the record takes the event off the queue.
    fn begin(&self, raised: &RaisedEvent) -> EngineOutput {
        let news = raised.event.news();
        let event = raised.id;
        let task = news.task.to_owned();
        if raised.depth > DEEPEST {
            let text = format!(
                "automation stops here: {DEEPEST} events led to this one of {task}, each raised by a hook of the one before"
            );
            return EngineOutput::record(warning(text)).and(Event::Automation(AutomationEvent::Due {
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

    fn has_something_to_do(&self, hook: &AutomationHook, news: &TaskRecordRef<'_>) -> bool {
        match &hook.spec.action {
            HookAction::Builtin(call) => BuiltinAutomation::named(&call.name)
                .is_none_or(|builtin| !builtin.actions(news, &self.tasks.graph).is_empty()),
            // What an interrupt leaves undone: it ends what runs, and starts nothing.
            HookAction::Command(_) | HookAction::Gatekeeper(_) => !self.interrupted(),
        }
    }

    /// What an interrupt leaves undone: the commands. What is built in and what was decided takes no time.
    pub(crate) fn drop_automation_commands(&mut self) {
        let automation = &self.began.plan.automation;
        let is_command = |name: &str| {
            automation.iter().any(|hook| hook.spec.name == name && !matches!(hook.spec.action, HookAction::Builtin(_)))
        };
        self.tasks.automation.drop_hooks(is_command);
    }

    fn ask(&self, job: &AutomationJob, hook: &str) -> EngineOutput {
        let event = job.raised.id;
        let news = job.raised.event.news();
        let spec = self.plan().automation_hook(hook).map(|hook| &hook.spec);
        match spec.map(|spec| (spec, &spec.action)) {
            Some((spec, HookAction::Command(_))) => self.run(job, &news, spec),
            Some((_, HookAction::Builtin(call))) => match BuiltinAutomation::named(&call.name) {
                Some(builtin) => {
                    let actions = builtin.actions(&news, &self.tasks.graph);
                    EngineOutput::record(Event::Automation(AutomationEvent::Decided {
                        event,
                        hook: hook.to_owned(),
                        actions,
                    }))
                }
                None => {
                    EngineOutput::record(hook_error(job, hook, format!("there is no built-in hook `{}`", call.name)))
                }
            },
            Some((_, HookAction::Gatekeeper(_))) | None => {
                EngineOutput::record(hook_error(job, hook, "it cannot be run here".into()))
            }
        }
    }

    fn run(&self, job: &AutomationJob, news: &TaskRecordRef<'_>, spec: &HookSpec) -> EngineOutput {
        let run = self.hooks.last_run.next();
        let goal = self.tasks.graph.get(news.task).map(|task| task.goal.clone());
        let content = if let TaskRecordData::Completed(data) = news.what { Some(data.content.clone()) } else { goal };
        let facts = HookFacts {
            session: self.name.clone(),
            iteration: Some(self.iterations.current),
            task: Some(TaskFacts { id: news.task.to_owned(), content: content.unwrap_or_default() }),
            event: Some(job.raised.event.for_hooks(job.raised.at)),
            graph: Some(self.tasks.graph.to_json()),
            ..HookFacts::default()
        };
        let (point, output_limit) = (HookPoint::Automation, self.plan().output_limit);
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

    /// A hook answered, or did not. What it wants is recorded before its end: cut in between, it is not asked again.
    pub(crate) fn on_automation_finished(&self, run: RunId, result: RunResult) -> EngineOutput {
        let Some((job, running)) =
            self.tasks.automation.current.as_ref().and_then(|job| Some((job, job.running.as_ref()?)))
        else {
            return EngineOutput::stale(run);
        };
        let hook = running.hook.clone();
        let (answer, verdict) = match action::answered(&result) {
            Ok(actions) => (
                Event::Automation(AutomationEvent::Decided { event: job.raised.id, hook: hook.clone(), actions }),
                Verdict::Pass,
            ),
            Err(why) => (hook_error(job, &hook, why), Verdict::Fail),
        };
        let finished = HookFinished {
            end: result.end,
            took_ms: result.took,
            verdict,
            stdout: result.stdout,
            stderr: result.stderr,
            omitted_bytes: result.omitted_bytes,
            file: result.file,
            again: false,
            ..cut(job, running)
        };
        EngineOutput::record(answer).and(Event::Hook(HookEvent::Finished(Box::new(finished))))
    }

    /// The run in flight, as one that was cut by the death of creel.
    pub(crate) fn cut_automation_run(&self) -> Option<HookFinished> {
        let job = self.tasks.automation.current.as_ref()?;
        Some(cut(job, job.running.as_ref()?))
    }
}

/// A run without an end of its own.
fn cut(job: &AutomationJob, running: &ActiveRun) -> HookFinished {
    // It may have answered already, with only its end not recorded.
    let again = job.hooks.front() == Some(&running.hook);
    HookFinished { again, ..HookFinished::cut(HookPoint::Automation, running) }
}

fn hook_error(job: &AutomationJob, hook: &str, error: String) -> Event {
    let task = job.raised.event.news().task.to_owned();
    let original_event = Some(job.raised.event.for_hooks(job.raised.at));
    let data = HookErrorData { hook_name: hook.to_owned(), error, original_event };
    Event::Automation(AutomationEvent::HookError { task, data, event: Some(job.raised.id) })
}
