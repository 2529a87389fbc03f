//! Automation hooks: the queue of task events, and the event that is being processed.
//!
//! The hooks of an event run one after another, by priority. creel records the actions of each hook
//! as it answers (`automation_decided`, or `hook_error` for a hook that failed). Then it carries
//! out the actions of all hooks in order. Events that these actions raise are appended to the
//! queue, one level deeper.
//!
//! Automation runs independently of the agent, also while the session is paused or waits at a gate.
//!
//! Follow-ups are records that follow from another record of the graph: the edges that a task was
//! created with, and a task that became ready because a dependency was removed.
//!
//! # Invariants
//! - A hook's decision is recorded before any of its actions, and each action's record removes it
//!   from the list: after an interruption the remaining actions are carried out, and none is
//!   carried out twice.
//! - A hook that fails produces one `hook_error` and does not affect the other hooks.
//! - The session neither delivers nor ends while automation work is left.
//! - Follow-ups are due from the change until they are recorded, so a kill in between neither loses
//!   nor repeats one.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;

use crate::engine::{
    event::{AutomationEvent, Event, HookEvent, HookFinished, TaskEvent},
    hooks::{
        dispatch::ActiveRun,
        point::HookPoint,
        verdict::{RunResult, Verdict},
    },
    ids::{RunId, TaskEventId},
    output::EngineOutput,
    policy::{AutomationHook, HookAction, SessionPlan},
    tasks::{
        builtin::BuiltinAutomation,
        command::{AutomationAction, requested_actions},
        event::CUSTOM,
        graph::{Task, TaskGraph, TaskState},
        record::{
            ActionRef, ChangeOrigin, DependencySatisfied, EdgeAdded, EdgeType, HookErrorData,
            MOST_ACTIONS, TaskEventKind, TaskRecord, TaskRecordData, TaskRecordRef,
        },
    },
    time::UnixTime,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AutomationState {
    /// Events that have not been processed yet.
    pub queue: VecDeque<RaisedEvent>,
    pub current: Option<AutomationJob>,
    /// Records that follow from changes of the graph.
    pub follow_ups: VecDeque<FollowUp>,
    /// The highest event id so far.
    last: TaskEventId,
    /// How many actions followed from each event that no hook raised, while automation is busy.
    #[serde(default)]
    counts: BTreeMap<TaskEventId, u32>,
    /// The event that no hook raised and from which the last one followed.
    #[serde(default)]
    root: TaskEventId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RaisedEvent {
    pub id: TaskEventId,
    pub at: UnixTime,
    /// How many actions, each triggered by the previous one, led to this event.
    pub depth: u32,
    /// The event that no hook raised and from which this one followed.
    #[serde(default)]
    root: TaskEventId,
    #[serde(deserialize_with = "task_event")]
    pub event: Box<TaskEvent>,
}

/// The processing of one event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AutomationJob {
    pub raised: RaisedEvent,
    /// The hooks that have not answered, in order.
    pub hooks: VecDeque<String>,
    /// Its hook has not answered.
    pub running: Option<ActiveRun>,
    /// The actions of the hooks that have answered, in order.
    pub actions: VecDeque<QueuedAction>,
    /// How many actions the hooks requested in total.
    count: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueuedAction {
    pub cause: ActionRef,
    pub action: AutomationAction,
}

impl AutomationState {
    pub fn is_busy(&self) -> bool {
        self.current.is_some() || !self.queue.is_empty() || !self.follow_ups.is_empty()
    }

    pub fn running(&self) -> Option<&ActiveRun> {
        self.current.as_ref()?.running.as_ref()
    }

    pub(crate) fn awaits(&self, run: RunId) -> bool {
        self.running().is_some_and(|running| running.run == run)
    }

    pub(super) fn raise(&mut self, at: UnixTime, event: &TaskEvent, depth: u32) {
        self.last = self.last.next();
        let root = if depth == 0 { self.last } else { self.root };
        self.queue.push_back(RaisedEvent {
            id: self.last,
            at,
            depth,
            root,
            event: Box::new(event.clone()),
        });
    }

    pub(crate) fn apply(&mut self, event: &AutomationEvent) {
        match event {
            AutomationEvent::Due { event, hooks, .. } => self.due(*event, hooks),
            AutomationEvent::Decided {
                event,
                hook,
                actions,
            } => self.decided(*event, hook, actions),
            AutomationEvent::HookError {
                data,
                event: Some(event),
                ..
            } => self.decided(*event, &data.hook_name, &[]),
            // The hook ran for `on_task_complete`.
            AutomationEvent::HookError { event: None, .. } => {}
        }
    }

    fn due(&mut self, event: TaskEventId, hooks: &[String]) {
        let Some(raised) = self.queue.pop_front_if(|raised| raised.id == event) else {
            return;
        };
        let hooks: VecDeque<String> = hooks.iter().cloned().collect();
        self.root = raised.root;
        if hooks.is_empty() && self.actions_with(&raised) == MOST_ACTIONS {
            // The user has been told.
            self.counts.insert(raised.root, MOST_ACTIONS + 1);
        }
        self.current = Some(AutomationJob {
            raised,
            hooks,
            running: None,
            actions: VecDeque::new(),
            count: 0,
        });
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
        let Some(job) = self.current.as_mut().filter(|job| job.raised.id == event) else {
            return;
        };
        job.hooks.pop_front_if(|front| front == hook);
        for action in actions {
            job.count += 1;
            let cause = ActionRef {
                event,
                hook: hook.to_owned(),
                action: job.count,
            };
            job.actions.push_back(QueuedAction {
                cause,
                action: action.clone(),
            });
        }
        self.settle();
    }

    pub(super) fn carried_out(&mut self, cause: &ActionRef) {
        if let Some(job) = &mut self.current
            && job
                .actions
                .pop_front_if(|wanted| wanted.cause == *cause)
                .is_some()
        {
            *self.counts.entry(job.raised.root).or_default() += 1;
        }
        self.settle();
    }

    /// How many actions followed from the same event as this one.
    pub(super) fn actions_with(&self, raised: &RaisedEvent) -> u32 {
        self.counts.get(&raised.root).copied().unwrap_or_default()
    }

    /// Removes hooks that have not been started.
    pub(crate) fn drop_hooks(&mut self, dropped: impl Fn(&str) -> bool) {
        if let Some(job) = &mut self.current {
            let running = job.running.clone();
            let runs = |hook: &str| running.as_ref().is_some_and(|running| running.hook == hook);
            job.hooks.retain(|hook| runs(hook) || !dropped(hook));
        }
        self.settle();
    }

    /// Ends the event when no hooks and no actions are left.
    fn settle(&mut self) {
        let over = |job: &AutomationJob| {
            job.hooks.is_empty() && job.running.is_none() && job.actions.is_empty()
        };
        if self.current.as_ref().is_some_and(over) {
            self.current = None;
        }
        if self.current.is_none() && self.queue.is_empty() {
            self.counts.clear();
        }
    }
}

impl SessionPlan {
    pub fn automation_hook(&self, name: &str) -> Option<&AutomationHook> {
        self.automation.iter().find(|hook| hook.spec.name == name)
    }
}

impl AutomationHook {
    /// Whether the hook reacts to such events.
    pub(super) fn hears(&self, kind: TaskEventKind) -> bool {
        let speaks = match &self.spec.action {
            HookAction::Builtin(call) => BuiltinAutomation::named(&call.name)
                .is_none_or(|builtin| builtin.speaks_at() == kind),
            HookAction::Command(_) | HookAction::Exec(_) | HookAction::Gatekeeper(_) => true,
        };
        speaks && self.events.contains(&kind)
    }
}

/// A run whose end creel did not see.
fn cut(job: &AutomationJob, running: &ActiveRun) -> HookFinished {
    // The hook may have answered already, with only its end not recorded.
    let again = job.hooks.front() == Some(&running.hook);
    HookFinished {
        again,
        ..HookFinished::cut(HookPoint::Automation, running)
    }
}

pub(super) fn hook_error(job: &AutomationJob, hook: &str, error: String) -> Event {
    let task = job.raised.event.news().task.to_owned();
    let original_event = Some(job.raised.event.for_hooks(job.raised.at));
    let data = HookErrorData {
        hook_name: hook.to_owned(),
        error,
        original_event,
    };
    Event::Automation(AutomationEvent::HookError {
        task,
        data,
        event: Some(job.raised.id),
    })
}

impl AutomationState {
    /// Handles the end of a hook's run. Its decision is recorded before its end, so after an
    /// interruption in between it is not run again.
    pub(crate) fn on_automation_finished(&self, run: RunId, result: RunResult) -> EngineOutput {
        let Some((job, running)) = self
            .current
            .as_ref()
            .and_then(|job| Some((job, job.running.as_ref()?)))
        else {
            return EngineOutput::stale(run);
        };
        let hook = running.hook.clone();
        let (answer, verdict) = match requested_actions(&result) {
            Ok(actions) => (
                Event::Automation(AutomationEvent::Decided {
                    event: job.raised.id,
                    hook: hook.clone(),
                    actions,
                }),
                Verdict::Pass,
            ),
            Err(why) => (hook_error(job, &hook, why.to_string()), Verdict::Fail),
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

    /// The current run as cut, because creel itself died.
    pub(crate) fn cut_automation_run(&self) -> Option<HookFinished> {
        let job = self.current.as_ref()?;
        Some(cut(job, job.running.as_ref()?))
    }
}

/// Reads a task event. Those of a custom kind have a form of their own, as in records.
fn task_event<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<TaskEvent>, D::Error> {
    let stored = Value::deserialize(deserializer)?;
    let is_custom = stored
        .get("kind")
        .and_then(Value::as_str)
        .is_some_and(|kind| kind.starts_with(CUSTOM));
    let event = if is_custom {
        serde_json::from_value(stored).map(TaskEvent::Custom)
    } else {
        serde_json::from_value(stored)
    };
    event.map(Box::new).map_err(D::Error::custom)
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FollowUp {
    fact: FollowUpFact,
    /// The origin of the change that it follows from.
    origin: ChangeOrigin,
    /// How many actions led to that change.
    depth: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum FollowUpFact {
    /// A task was created with this edge.
    EdgeAdded { from: String, to: String },
    /// A task is ready since this task was removed, or is no longer a dependency.
    Satisfied { task: String, removed: String },
}

impl FollowUp {
    pub(super) fn event(&self) -> TaskEvent {
        let origin = self.origin.clone();
        match &self.fact {
            FollowUpFact::EdgeAdded { from, to } => {
                let data = EdgeAdded {
                    from_id: from.clone(),
                    to_id: to.clone(),
                    edge_type: EdgeType::DependsOn,
                };
                TaskEvent::DependencyAdded(TaskRecord {
                    task: from.clone(),
                    data,
                    origin,
                })
            }
            FollowUpFact::Satisfied { task, removed } => {
                let (dependent_task_id, removed_task_id) = (task.clone(), Some(removed.clone()));
                let data = DependencySatisfied {
                    dependent_task_id,
                    completed_task_id: None,
                    removed_task_id,
                };
                TaskEvent::DependencySatisfied(TaskRecord {
                    task: task.clone(),
                    data,
                    origin,
                })
            }
        }
    }

    /// Whether it is still true: the graph may have changed before it was recorded.
    fn holds(&self, graph: &TaskGraph) -> bool {
        match &self.fact {
            FollowUpFact::EdgeAdded { from, to } => graph
                .get(from)
                .is_some_and(|task| task.dependencies.contains(to)),
            FollowUpFact::Satisfied { task, .. } => graph
                .get(task)
                .is_some_and(|task| task.state == TaskState::Ready),
        }
    }
}

/// The tasks that wait for a task or an edge that a change removes, each with the removed
/// dependency. Must be called before the change is applied.
pub(super) fn waiting_for(graph: &TaskGraph, news: &TaskRecordRef<'_>) -> Vec<(String, String)> {
    let waits = |task: &&Task| task.state == TaskState::Created;
    match news.what {
        TaskRecordData::DependencyRemoved(edge) => {
            let from = graph.get(&edge.from_id).filter(waits);
            from.map(|task| (task.id.clone(), edge.to_id.clone()))
                .into_iter()
                .collect()
        }
        TaskRecordData::Deleted(_) => {
            let dependents = graph.dependents(news.task).into_iter().filter(waits);
            dependents
                .map(|task| (task.id.clone(), news.task.to_owned()))
                .collect()
        }
        TaskRecordData::Created(_)
        | TaskRecordData::Started(_)
        | TaskRecordData::Completed(_)
        | TaskRecordData::Blocked(_)
        | TaskRecordData::Updated(_)
        | TaskRecordData::DependencyAdded(_)
        | TaskRecordData::DependencySatisfied(_)
        | TaskRecordData::Metrics(_)
        | TaskRecordData::Custom(..)
        | TaskRecordData::ActionFailed(_) => Vec::new(),
    }
}

impl AutomationState {
    /// Queues the consequences of a change. `waited` are the tasks that waited for a removed
    /// dependency.
    pub(super) fn follow(
        &mut self,
        graph: &TaskGraph,
        news: &TaskRecordRef<'_>,
        depth: u32,
        waited: Vec<(String, String)>,
    ) {
        self.follow_ups.retain(|due| due.holds(graph));
        let edges = match news.what {
            TaskRecordData::Created(data) => data.dependencies.as_slice(),
            TaskRecordData::Started(_)
            | TaskRecordData::Completed(_)
            | TaskRecordData::Blocked(_)
            | TaskRecordData::Deleted(_)
            | TaskRecordData::Updated(_)
            | TaskRecordData::DependencyAdded(_)
            | TaskRecordData::DependencyRemoved(_)
            | TaskRecordData::DependencySatisfied(_)
            | TaskRecordData::Metrics(_)
            | TaskRecordData::Custom(..)
            | TaskRecordData::ActionFailed(_) => &[],
        };
        let added = edges.iter().map(|to| FollowUpFact::EdgeAdded {
            from: news.task.to_owned(),
            to: to.clone(),
        });
        let freed = waited
            .into_iter()
            .map(|(task, removed)| FollowUpFact::Satisfied { task, removed });
        let origin = ChangeOrigin {
            cause: None,
            step: None,
            due: None,
            ..news.origin.clone()
        };
        let due = added.chain(freed).map(|fact| FollowUp {
            fact,
            origin: origin.clone(),
            depth,
        });
        self.follow_ups.extend(due.filter(|due| due.holds(graph)));
    }

    /// How many actions led to a record, if it is the one that was due.
    pub(super) fn follow_up_depth(&self, event: &TaskEvent) -> Option<u32> {
        self.follow_ups
            .front()
            .filter(|due| due.event() == *event)
            .map(|due| due.depth)
    }

    /// Removes a record from the list if it is the one that was due, and returns how many actions
    /// led to it.
    pub(super) fn followed(&mut self, event: &TaskEvent) -> Option<u32> {
        let recorded = event.without_due();
        self.follow_ups
            .pop_front_if(|due| due.event() == recorded)
            .map(|due| due.depth)
    }
}
