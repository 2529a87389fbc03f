//! Tasks of the queue as text for a terminal: a table of many, or the details of one.

use crate::{
    engine::queue::{QueuedTask, QueuedTaskState, task_spec::TaskSpec},
    present::task_table::{columns, facts, short},
    text::some_names,
};

/// How many tasks a sentence names.
const NAMED: usize = 5;

/// One line per task, below a heading.
pub fn table(tasks: &[QueuedTask]) -> String {
    columns(
        ["ID", "STATE", "PRIORITY", "TYPE", "SESSION", "GOAL"],
        tasks.iter().map(row),
    )
}

/// The name of a task, which is unique among the tasks of all sessions.
pub fn name(order: &TaskSpec) -> String {
    let owner = order
        .session
        .as_ref()
        .map(|owner| format!("{}/", owner.name))
        .unwrap_or_default();
    format!("{owner}{}", order.id)
}

/// What stays in the queue when a worker has done all that it can. None if nothing does.
pub fn left<'a>(tasks: impl Iterator<Item = &'a QueuedTask>) -> Option<String> {
    let (mut blocked, mut waiting, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for task in tasks {
        match task.standing {
            QueuedTaskState::Blocked { .. } => blocked.push(name(&task.order)),
            QueuedTaskState::Created => waiting.push(name(&task.order)),
            QueuedTaskState::Ready | QueuedTaskState::Active { .. } => {
                others.push(name(&task.order));
            }
            QueuedTaskState::Completed { .. } | QueuedTaskState::Removed => {}
        }
    }
    let group = |names: &[String], one: &str, several: &str| match names {
        [] => None,
        [name] => Some(format!("task {name} {one}")),
        names => Some(format!("tasks {} {several}", some_names(names, NAMED))),
    };
    let groups = [
        group(&blocked, "is blocked", "are blocked"),
        group(&waiting, "waits", "wait"),
        group(&others, "is for other workers", "are for other workers"),
    ];
    let groups: Vec<String> = groups.into_iter().flatten().collect();
    (!groups.is_empty()).then(|| groups.join(", "))
}

fn row(task: &QueuedTask) -> [String; 6] {
    let QueuedTask {
        order, standing, ..
    } = task;
    let session = standing
        .by()
        .map(|by| format!("{} on {}", by.session, by.host));
    [
        short(&name(order)),
        state(standing),
        order.priority.to_string(),
        short(order.kind.as_deref().unwrap_or_default()),
        short(&session.unwrap_or_default()),
        short(&order.goal),
    ]
}

fn state(standing: &QueuedTaskState) -> String {
    standing
        .state()
        .map_or("removed", |state| state.name())
        .to_owned()
}

/// All details of a task, one per line.
pub fn whole(task: &QueuedTask) -> String {
    let QueuedTask {
        order,
        standing,
        created_at,
        attempt,
        ..
    } = task;
    let list = |all: &std::collections::BTreeSet<String>| {
        all.iter().cloned().collect::<Vec<_>>().join(", ")
    };
    let (mut reason, mut result, mut since) = (String::new(), String::new(), String::new());
    match standing {
        QueuedTaskState::Active { started_at, .. } => since.clone_from(started_at),
        QueuedTaskState::Blocked { reason: why, .. } => reason.clone_from(why),
        QueuedTaskState::Completed {
            result: came,
            completed_at,
            ..
        } => {
            result = came.clone().unwrap_or_default();
            since.clone_from(completed_at);
        }
        QueuedTaskState::Created | QueuedTaskState::Ready | QueuedTaskState::Removed => {}
    }
    let by = standing.by();
    facts([
        ("task", format!("{} ({})", name(order), state(standing))),
        ("goal", order.goal.clone()),
        ("priority", order.priority.to_string()),
        ("type", order.kind.clone().unwrap_or_default()),
        ("agents", list(&order.agents)),
        ("labels", order.labels.join(", ")),
        ("deliverables", order.deliverables.join("\n")),
        ("depends on", list(&order.dependencies)),
        ("blocked", reason),
        ("sent back", task.feedback.clone().unwrap_or_default()),
        ("result", result),
        ("branch", task.branch.clone().unwrap_or_default()),
        ("merged", task.merged.clone().unwrap_or_default()),
        ("added", created_at.clone()),
        ("since", since),
        (
            "session",
            by.map(|by| format!("{} on {}", by.session, by.host))
                .unwrap_or_default(),
        ),
        (
            "attempts",
            if *attempt > 1 {
                attempt.to_string()
            } else {
                String::new()
            },
        ),
    ])
}
