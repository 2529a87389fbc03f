//! Which changes to the task graph are allowed, and the record that each one becomes; also for the
//! open tasks that a session copies from another one.
//!
//! # Invariants
//! - A task is recorded after its dependencies, so that every edge in a prefix of the journal leads
//!   to an existing task.

use std::collections::BTreeSet;

use crate::engine::{
    event::{Actor, ActorKind, Event, TaskEvent},
    hooks::side_jobs::SideJobs,
    output::EngineOutput,
    policy::SessionPlan,
    queue::task_spec::TaskSpec,
    steering::ControlState,
    tasks::{
        SessionTasks,
        command::{
            NewTask, TaskChanges, TaskCommand, TaskCompletion, TaskRefusal, a_goal, a_priority,
            is_name,
        },
        graph::{PRIORITY, Task, TaskDescription, TaskDescriptionChanges, TaskGraph, TaskState},
        record::{
            ChangeOrigin, EdgeAdded, EdgeRemoved, EdgeType, TaskBlocked, TaskCompleted,
            TaskCreated, TaskDeleted, TaskRecord, TaskStarted, TaskUpdated,
        },
    },
};

pub(crate) fn known<'a>(graph: &'a TaskGraph, id: &str) -> Result<&'a Task, TaskRefusal> {
    graph
        .get(id)
        .ok_or_else(|| TaskRefusal::NoSuchTask(id.to_owned()))
}

pub(crate) fn open_task<'a>(graph: &'a TaskGraph, id: &str) -> Result<&'a Task, TaskRefusal> {
    let task = known(graph, id)?;
    if task.is_open() {
        Ok(task)
    } else {
        Err(TaskRefusal::Completed(id.to_owned()))
    }
}

pub(crate) fn can_start(task: &Task) -> Result<(), TaskRefusal> {
    if task.state == TaskState::Active {
        return Err(TaskRefusal::AlreadyInState {
            id: task.id.clone(),
            state: TaskState::Active,
        });
    }
    waits_for_none(task)
}

/// A task in progress stays in progress: a hook may have decided before the task was started.
pub(crate) fn can_be_ready(task: &Task) -> Result<(), TaskRefusal> {
    if matches!(task.state, TaskState::Ready | TaskState::Active) {
        return Err(TaskRefusal::AlreadyInState {
            id: task.id.clone(),
            state: task.state,
        });
    }
    waits_for_none(task)
}

pub(crate) fn waits_for_none(task: &Task) -> Result<(), TaskRefusal> {
    match task.open {
        0 => Ok(()),
        open => Err(TaskRefusal::Waits {
            id: task.id.clone(),
            open,
        }),
    }
}

pub(crate) fn can_depend(graph: &TaskGraph, task: &Task, on: &str) -> Result<(), TaskRefusal> {
    let id = &task.id;
    known(graph, on)?;
    if id == on {
        return Err(TaskRefusal::DependsOnItself(id.clone()));
    }
    if task.dependencies.contains(on) {
        return Err(TaskRefusal::DependsAlready {
            id: id.clone(),
            on: on.to_owned(),
        });
    }
    match graph.path(on, id) {
        Some(way) => Err(TaskRefusal::DependencyCycle {
            id: id.clone(),
            on: on.to_owned(),
            way,
        }),
        None => Ok(()),
    }
}

pub(crate) fn changed(
    graph: &TaskGraph,
    task: &Task,
    changes: TaskChanges,
) -> Result<TaskUpdated, TaskRefusal> {
    let description = TaskDescriptionChanges {
        labels: relabelled(&task.labels, &changes),
        ..changes.description
    };
    if let Some(parent) = &description.parent {
        can_come_from(graph, task, parent)?;
    }
    description.goal.as_deref().map(a_goal).transpose()?;
    description.priority.map(a_priority).transpose()?;
    let only_parent = TaskDescriptionChanges {
        parent: description.parent.clone(),
        ..TaskDescriptionChanges::default()
    };
    if task.queue.is_some() && description != only_parent {
        return Err(TaskRefusal::FixedInQueue(task.id.clone()));
    }
    if description == TaskDescriptionChanges::default() {
        Err(TaskRefusal::NothingToChange(task.id.clone()))
    } else {
        Ok(TaskUpdated {
            description,
            state: None,
        })
    }
}

/// The new labels. None if the changes do not mention labels.
pub(crate) fn relabelled(now: &[String], changes: &TaskChanges) -> Option<Vec<String>> {
    let TaskChanges {
        description: TaskDescriptionChanges { labels, .. },
        add_labels,
        remove_labels,
    } = changes;
    if labels.is_none() && add_labels.is_empty() && remove_labels.is_empty() {
        return None;
    }
    let kept = labels.clone().unwrap_or_else(|| now.to_vec());
    let all = kept.into_iter().chain(add_labels.iter().cloned());
    Some(each_once(
        all.filter(|label| !remove_labels.contains(label)).collect(),
    ))
}

pub(crate) fn can_come_from(
    graph: &TaskGraph,
    task: &Task,
    parent: &str,
) -> Result<(), TaskRefusal> {
    let mut ancestor = Some(known(graph, parent)?);
    while let Some(here) = ancestor {
        if here.id == task.id {
            return Err(TaskRefusal::ParentCycle {
                id: task.id.clone(),
                parent: parent.to_owned(),
            });
        }
        ancestor = here.parent.as_deref().and_then(|id| graph.get(id));
    }
    Ok(())
}

pub(crate) fn each_once(labels: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    labels
        .into_iter()
        .filter(|label| !label.trim().is_empty() && seen.insert(label.clone()))
        .collect()
}

#[derive(Debug, Clone, Copy)]
pub struct TaskRules<'a> {
    pub(crate) plan: &'a SessionPlan,
    pub(crate) side: &'a SideJobs,
    pub(crate) tasks: &'a SessionTasks,
    pub(crate) steering: &'a ControlState,
}

impl<'a> TaskRules<'a> {
    /// The user continues the work: the tasks that the escalation blocked are started again.
    pub(crate) fn unblock(
        self,
        tasks: impl IntoIterator<Item = &'a String>,
        by: &Actor,
    ) -> EngineOutput {
        let starts = tasks
            .into_iter()
            .filter(|id| self.tasks.is_blocked(id))
            .filter_map(|id| {
                let start = TaskCommand::Start {
                    id: id.clone(),
                    context: None,
                };
                self.task_event(start, ChangeOrigin::by(by.clone())).ok()
            });
        starts.fold(EngineOutput::default(), EngineOutput::and)
    }

    pub(crate) fn on_task_command(
        self,
        command: TaskCommand,
        origin: ChangeOrigin,
    ) -> EngineOutput {
        match self.task_event(command, origin) {
            Ok(event) => EngineOutput::record(event),
            Err(why) => EngineOutput::refuse(why),
        }
    }

    /// The record for a command, or the reason why creel refuses it.
    pub(crate) fn task_event(
        self,
        command: TaskCommand,
        origin: ChangeOrigin,
    ) -> Result<Event, TaskRefusal> {
        let graph = &self.tasks.graph;
        match command {
            TaskCommand::Add(new) => self.add(new, origin),
            TaskCommand::Complete(completion) => self.complete(completion, origin),
            TaskCommand::Start { id, context } => {
                let task = open_task(graph, &id)?;
                can_start(task)?;
                if task.queue.is_some() {
                    return Err(TaskRefusal::StartsFromQueue(id));
                }
                if let Some(why) = task
                    .kind
                    .as_deref()
                    .and_then(|kind| self.plan.refuses_type(kind))
                {
                    return Err(why.into());
                }
                Ok(Event::Task(TaskEvent::Started(TaskRecord {
                    task: id,
                    data: TaskStarted { context },
                    origin,
                })))
            }
            TaskCommand::TakenUp { id, context } => {
                can_start(open_task(graph, &id)?)?;
                Ok(Event::Task(TaskEvent::Started(TaskRecord {
                    task: id,
                    data: TaskStarted {
                        context: Some(context),
                    },
                    origin,
                })))
            }
            TaskCommand::Block {
                id,
                reason,
                required_knowledge,
            } => {
                open_task(graph, &id)?;
                if reason.trim().is_empty() {
                    return Err(TaskRefusal::NoReason(id));
                }
                Ok(Event::Task(TaskEvent::Blocked(TaskRecord {
                    task: id,
                    data: TaskBlocked {
                        reason,
                        required_knowledge,
                    },
                    origin,
                })))
            }
            TaskCommand::Update { id, changes } => {
                let data = changed(graph, known(graph, &id)?, changes)?;
                Ok(Event::Task(TaskEvent::Updated(Box::new(TaskRecord {
                    task: id,
                    data,
                    origin,
                }))))
            }
            TaskCommand::MakeReady { id } => {
                can_be_ready(open_task(graph, &id)?)?;
                let data = TaskUpdated {
                    state: Some(TaskState::Ready),
                    ..TaskUpdated::default()
                };
                Ok(Event::Task(TaskEvent::Updated(Box::new(TaskRecord {
                    task: id,
                    data,
                    origin,
                }))))
            }
            TaskCommand::Depend { id, on } => {
                can_depend(graph, open_task(graph, &id)?, &on)?;
                let data = EdgeAdded {
                    from_id: id.clone(),
                    to_id: on,
                    edge_type: EdgeType::DependsOn,
                };
                Ok(Event::Task(TaskEvent::DependencyAdded(TaskRecord {
                    task: id,
                    data,
                    origin,
                })))
            }
            TaskCommand::Undepend { id, on } => {
                if !known(graph, &id)?.dependencies.contains(&on) {
                    return Err(TaskRefusal::DoesNotDepend { id, on });
                }
                let edge_id = format!("{id}:depends_on:{on}");
                let data = EdgeRemoved {
                    edge_id,
                    from_id: id.clone(),
                    to_id: on,
                };
                Ok(Event::Task(TaskEvent::DependencyRemoved(TaskRecord {
                    task: id,
                    data,
                    origin,
                })))
            }
            TaskCommand::Remove { id } => {
                known(graph, &id)?;
                let data = TaskDeleted {
                    edges_removed: graph.edges_of(&id),
                };
                Ok(Event::Task(TaskEvent::Deleted(TaskRecord {
                    task: id,
                    data,
                    origin,
                })))
            }
        }
    }

    pub(crate) fn add(self, new: NewTask, origin: ChangeOrigin) -> Result<Event, TaskRefusal> {
        let graph = &self.tasks.graph;
        let id = new.id.unwrap_or_else(|| self.free_task_name());
        if !is_name(&id) {
            return Err(TaskRefusal::BadName {
                name: id,
                what: "a task",
            });
        }
        if graph.get(&id).is_some() {
            return Err(TaskRefusal::Exists(id));
        }
        if self.side.completed.contains(&id) {
            return Err(TaskRefusal::NameCompletedBefore(id));
        }
        a_goal(&new.goal)?;
        let priority = new.priority.unwrap_or(PRIORITY);
        a_priority(priority)?;
        if let Some(parent) = &new.parent {
            known(graph, parent)?;
        }
        let dependencies: BTreeSet<String> = new.dependencies.into_iter().collect();
        if dependencies.contains(&id) {
            return Err(TaskRefusal::DependsOnItself(id));
        }
        for on in &dependencies {
            known(graph, on)?;
        }
        let queue = new
            .queue
            .map(|named| self.who_may(named, new.kind.as_deref()));
        let description = TaskDescription {
            goal: new.goal,
            deliverables: new.deliverables,
            labels: each_once(new.labels),
            priority,
            kind: new.kind,
        };
        if let Some(agents) = queue.clone() {
            TaskSpec {
                id: id.clone(),
                description: description.clone(),
                agents,
                ..TaskSpec::default()
            }
            .checked()?;
        }
        let waits = graph.open_among(&dependencies) > 0;
        let data = TaskCreated {
            description,
            parent: new.parent,
            dependencies: dependencies.into_iter().collect(),
            queue,
            state: if waits {
                TaskState::Created
            } else {
                TaskState::Ready
            },
        };
        Ok(Event::Task(TaskEvent::Created(Box::new(TaskRecord {
            task: id,
            data,
            origin,
        }))))
    }

    /// Which agents can work on a task in the queue: the named ones, or else those of its type.
    pub(crate) fn who_may(self, named: BTreeSet<String>, kind: Option<&str>) -> BTreeSet<String> {
        let of_type = kind
            .filter(|_| named.is_empty())
            .and_then(|kind| self.plan.task_types.get(kind));
        of_type.map_or(named, |agents| agents.iter().cloned().collect())
    }

    /// The next id that neither a task of this graph nor a task of another program has used.
    pub(crate) fn free_task_name(self) -> String {
        let taken = |id: &String| self.side.completed.contains(id);
        self.tasks
            .graph
            .names()
            .find(|id| !taken(id))
            .expect("numbers do not end before tasks do")
    }

    pub(crate) fn complete(
        self,
        completion: TaskCompletion,
        origin: ChangeOrigin,
    ) -> Result<Event, TaskRefusal> {
        let TaskCompletion {
            id,
            content,
            result,
            artifacts,
        } = completion;
        if self.side.completed.contains(&id) {
            return Err(TaskRefusal::CompletedBefore(id));
        }
        let goal = || self.tasks.graph.get(&id).map(|task| task.goal.clone());
        let Some(content) = content.filter(|text| !text.trim().is_empty()).or_else(goal) else {
            return Err(TaskRefusal::NoContent(id));
        };
        let data = TaskCompleted {
            content,
            result,
            artifacts,
        };
        Ok(Event::Task(TaskEvent::Completed(Box::new(TaskRecord {
            task: id,
            data,
            origin,
        }))))
    }
}

/// Copies the open tasks of a graph under their ids. No copy is active. A blocked task stays
/// blocked, with its reason.
pub fn inherit(graph: &TaskGraph) -> EngineOutput {
    let of_task = |task| [Some(created(graph, task)), blocked(task)];
    let events = in_order(graph)
        .into_iter()
        .flat_map(of_task)
        .flatten()
        .collect();
    EngineOutput {
        events,
        ..EngineOutput::default()
    }
}

/// The open tasks, dependencies first, and otherwise in the order in which they were added.
fn in_order(graph: &TaskGraph) -> Vec<&Task> {
    let mut ordered = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut next: Vec<(&Task, GraphVisit)> = open(graph)
        .rev()
        .map(|task| (task, GraphVisit::Before))
        .collect();
    // An explicit stack instead of recursion: a chain of tasks can be longer than the call stack
    // allows.
    while let Some((task, visit)) = next.pop() {
        match visit {
            GraphVisit::Before if seen.insert(&task.id) => {
                next.push((task, GraphVisit::After));
                next.extend(waited_for(graph, task).map(|on| (on, GraphVisit::Before)));
            }
            GraphVisit::Before => {}
            GraphVisit::After => ordered.push(task),
        }
    }
    ordered
}

/// Whether a task's dependencies have been visited.
enum GraphVisit {
    Before,
    After,
}

fn open(graph: &TaskGraph) -> impl DoubleEndedIterator<Item = &Task> {
    graph.tasks().into_iter().filter(|task| task.is_open())
}

/// The open dependencies of a task.
fn waited_for<'a>(graph: &'a TaskGraph, task: &'a Task) -> impl Iterator<Item = &'a Task> {
    task.dependencies
        .iter()
        .filter_map(|on| graph.get(on))
        .filter(|on| on.is_open())
}

fn created(graph: &TaskGraph, task: &Task) -> Event {
    let dependencies: Vec<String> = waited_for(graph, task).map(|on| on.id.clone()).collect();
    let is_open = |id: &String| graph.get(id).is_some_and(Task::is_open);
    let data = TaskCreated {
        description: task.description.clone(),
        queue: task.queue.clone(),
        // The parent may be recorded later: a task often waits for its own children.
        parent: task.parent.clone().filter(is_open),
        state: if dependencies.is_empty() {
            TaskState::Ready
        } else {
            TaskState::Created
        },
        dependencies,
    };
    Event::Task(TaskEvent::Created(Box::new(record(task, data))))
}

fn blocked(task: &Task) -> Option<Event> {
    if task.state != TaskState::Blocked {
        return None;
    }
    let reason = task.reason.clone().unwrap_or_default();
    let data = TaskBlocked {
        reason,
        required_knowledge: task.required_knowledge.clone(),
    };
    Some(Event::Task(TaskEvent::Blocked(record(task, data))))
}

fn record<D>(task: &Task, data: D) -> TaskRecord<D> {
    TaskRecord {
        task: task.id.clone(),
        data,
        origin: ChangeOrigin::by(ActorKind::Cli.into()),
    }
}
