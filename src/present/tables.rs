//! Tables for a terminal: tasks of a session and of the queue, worktrees; and the details of one task.

use unicode_width::UnicodeWidthStr as _;

use crate::{
    engine::{
        queue::{
            QueueCounts, QueuedTask, QueuedTaskState, SessionSpending, TaskSpending,
            task_spec::TaskSpec,
        },
        time::TimeSpan,
    },
    present::{
        task_view::TaskView,
        text::{counted, plain, plain_line, short_span},
        usage,
    },
    text::some_names,
};

/// The longest goal in a line of the table, in characters.
const GOAL: usize = 60;

/// One line per task, below a heading.
pub fn task_table(tasks: &[TaskView]) -> String {
    columns(
        ["ID", "STATE", "PRIORITY", "GOAL", "DEPENDS ON"],
        tasks.iter().map(task_row),
    )
}

/// Rows below a heading, with aligned columns.
pub fn columns<const N: usize>(
    heading: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let rows: Vec<[String; N]> = std::iter::once(heading.map(str::to_owned))
        .chain(rows)
        .collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].width())
            .max()
            .unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    rows.iter().map(|row| line(row, widths)).collect()
}

fn task_row(task: &TaskView) -> [String; 5] {
    [
        short(&task.id),
        task.state.name().to_owned(),
        task.priority.to_string(),
        short(&task.goal),
        task.dependencies.join(", "),
    ]
}

fn line<const N: usize>(row: &[String; N], widths: [usize; N]) -> String {
    let cells: Vec<String> = row
        .iter()
        .zip(widths)
        .map(|(cell, width)| padded(cell, width))
        .collect();
    cells.join("  ").trim_end().to_owned() + "\n"
}

/// Fills a text with spaces up to a number of columns.
pub fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

fn short(text: &str) -> String {
    plain_line(text, GOAL)
}

/// All details of a task, one per line.
pub fn task_details(task: &TaskView) -> String {
    let list = |all: &[String]| all.join(", ");
    let some = |text: &Option<String>| text.clone().unwrap_or_default();
    let lines = [
        ("task", format!("{} ({})", task.id, task.state.name())),
        ("goal", task.goal.clone()),
        ("priority", task.priority.to_string()),
        ("type", some(&task.kind)),
        ("labels", list(&task.labels)),
        ("deliverables", task.deliverables.join("\n")),
        ("depends on", list(&task.dependencies)),
        (
            "queue",
            task.queue
                .as_deref()
                .map(|agents| {
                    if agents.is_empty() {
                        "for all agents".into()
                    } else {
                        list(agents)
                    }
                })
                .unwrap_or_default(),
        ),
        ("needed by", list(&task.dependents)),
        ("parent", some(&task.parent)),
        ("blocked", some(&task.reason)),
        ("needs", task.required_knowledge.join("\n")),
        ("result", some(&task.result)),
        ("artifacts", task.artifacts.join("\n")),
        ("added", task.created_at.clone()),
        ("started", some(&task.started_at)),
        ("completed", some(&task.completed_at)),
    ];
    facts(lines)
}

/// Named values, one per line. Empty ones are left out.
fn facts<const N: usize>(lines: [(&str, String); N]) -> String {
    let known = lines
        .into_iter()
        .filter(|(_, text)| !text.trim().is_empty());
    known
        .map(|(name, text)| format!("{name:12}  {}\n", indented(&text)))
        .collect()
}

/// Indents all lines after the first.
fn indented(text: &str) -> String {
    plain(text)
        .trim_end()
        .replace('\n', &format!("\n{:14}", ""))
}

/// How many tasks a sentence names.
const NAMED: usize = 5;

/// One line per task, below a heading.
pub fn queue_table(tasks: &[QueuedTask]) -> String {
    columns(
        ["ID", "STATE", "PRIORITY", "TYPE", "SESSION", "GOAL"],
        tasks.iter().map(queue_row),
    )
}

/// The name of a task, which is unique among the tasks of all sessions.
pub fn queued_name(order: &TaskSpec) -> String {
    let owner = order
        .session
        .as_ref()
        .map(|owner| format!("{}/", owner.name))
        .unwrap_or_default();
    format!("{owner}{}", order.id)
}

/// `9 ready · 3 active · 2 blocked · 1 to be merged`. None if nothing is left to do.
pub fn queue_counts(counts: QueueCounts) -> Option<String> {
    let QueueCounts {
        waiting,
        ready,
        active,
        blocked,
        unmerged,
    } = counts;
    let parts = [
        (ready, "ready"),
        (waiting, "waiting"),
        (active, "active"),
        (blocked, "blocked"),
        (unmerged, "to be merged"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
}

/// What stays in the queue when a worker leaves: when `has_all` that it can do is done, the rest
/// is for other workers. None if nothing stays.
pub fn left_in_queue<'a>(
    tasks: impl Iterator<Item = &'a QueuedTask>,
    has_all: bool,
) -> Option<String> {
    let (mut blocked, mut waiting, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for task in tasks {
        match task.state {
            QueuedTaskState::Blocked { .. } => blocked.push(queued_name(&task.order)),
            QueuedTaskState::Created => waiting.push(queued_name(&task.order)),
            QueuedTaskState::Ready | QueuedTaskState::Active { .. } => {
                others.push(queued_name(&task.order));
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
        if has_all {
            group(&others, "is for other workers", "are for other workers")
        } else {
            group(&others, "is not done", "are not done")
        },
    ];
    let groups: Vec<String> = groups.into_iter().flatten().collect();
    (!groups.is_empty()).then(|| groups.join(", "))
}

fn queue_row(task: &QueuedTask) -> [String; 6] {
    let QueuedTask { order, state, .. } = task;
    let session = state
        .by()
        .map(|by| format!("{} on {}", by.session, by.host));
    [
        short(&queued_name(order)),
        queued_state(state),
        order.priority.to_string(),
        short(order.kind.as_deref().unwrap_or_default()),
        short(&session.unwrap_or_default()),
        short(&order.goal),
    ]
}

fn queued_state(state: &QueuedTaskState) -> String {
    state
        .state()
        .map_or("removed", |state| state.name())
        .to_owned()
}

/// All details of a task, one per line.
pub fn queued_details(task: &QueuedTask) -> String {
    let QueuedTask {
        order,
        state,
        created_at,
        attempt,
        ..
    } = task;
    let list = |all: &std::collections::BTreeSet<String>| {
        all.iter().cloned().collect::<Vec<_>>().join(", ")
    };
    let (mut reason, mut result, mut since) = (String::new(), String::new(), String::new());
    match state {
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
    let by = state.by();
    facts([
        (
            "task",
            format!("{} ({})", queued_name(order), queued_state(state)),
        ),
        ("goal", order.goal.clone()),
        ("priority", order.priority.to_string()),
        ("type", order.kind.clone().unwrap_or_default()),
        ("agents", list(&order.agents)),
        ("labels", order.labels.join(", ")),
        ("deliverables", order.deliverables.join("\n")),
        ("depends on", list(&order.dependencies)),
        ("blocked", reason),
        ("sent back", task.feedback.clone().unwrap_or_default()),
        ("context", task.context.clone().unwrap_or_default()),
        ("result", result),
        ("branch", task.branch.clone().unwrap_or_default()),
        ("merged", task.merged.clone().unwrap_or_default()),
        ("used", task_spending(task)),
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

/// `$0.42 · 12.3k tokens · 4m 10s in 2 sessions`. Empty if no session has worked on it.
pub fn task_spending(task: &QueuedTask) -> String {
    if task.spent.is_empty() {
        return String::new();
    }
    let TaskSpending {
        tokens,
        cost,
        cost_estimated,
        turns_without_cost,
        time_ms,
    } = task.total_spent();
    let lacks_cost = |of: &SessionSpending| of.used.cost.is_none();
    let is_partial = turns_without_cost > 0 || task.spent.iter().any(lacks_cost);
    let cost = cost.map_or_else(
        || "cost unknown".to_owned(),
        |cost| {
            let least = if is_partial { "at least " } else { "" };
            let cost = usage::amount(cost, cost_estimated.unwrap_or(0.0), false);
            format!("{least}{cost}")
        },
    );
    let sessions = counted(task.spent.len(), "session");
    let time = format!("{} in {sessions}", short_span(TimeSpan(time_ms)));
    let parts = [Some(cost), tokens.map(usage::tokens), Some(time)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// A worktree as a row.
#[derive(Debug, Clone)]
pub struct WorktreeRow {
    pub name: String,
    pub branch: String,
    pub session: String,
    /// The state of its session.
    pub state: String,
    /// What is in its folder.
    pub contents: String,
}

pub fn worktree_table(rows: &[WorktreeRow]) -> String {
    let heading = ["NAME", "BRANCH", "SESSION", "STATE", "CONTENTS"];
    let row = |row: &WorktreeRow| {
        [
            row.name.clone(),
            row.branch.clone(),
            row.session.clone(),
            row.state.clone(),
            row.contents.clone(),
        ]
    };
    columns(heading, rows.iter().map(row))
}
