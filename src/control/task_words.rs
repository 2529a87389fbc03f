//! What a record of a task says in a line: for sessions without a screen, and for the stream.

use super::text::{first_line, plain};
use crate::engine::tasks::record::{Changes, TaskNews, What};

/// How much of a goal or a reason fits into a line.
const LINE: usize = 100;

/// How a line is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Something happened.
    Plain,
    /// Something is done.
    Good,
    /// A person may want to look.
    Warning,
    /// For whoever wants to know.
    Faint,
}

/// The line for a record of a task.
pub fn told(news: &TaskNews<'_>) -> (Tone, String) {
    let short = |text: &str| first_line(&plain(text), LINE);
    let task = short(news.task);
    match news.what {
        What::Created(data) => (Tone::Plain, format!("task {task} added: {}", short(&data.goal))),
        What::Started(_) => (Tone::Plain, format!("task {task} started")),
        What::Completed(data) => {
            let result = data.result.as_deref().unwrap_or(&data.content);
            (Tone::Good, format!("task {task} completed: {}", short(result)))
        }
        What::Blocked(data) => (Tone::Warning, format!("task {task} is blocked: {}", short(&data.reason))),
        What::Deleted(_) => (Tone::Plain, format!("task {task} removed")),
        What::Updated(changes) => (Tone::Faint, format!("task {task} changed: {}", short(&changed(changes)))),
        What::DependencyAdded(edge) => (Tone::Faint, format!("task {task} now waits for {}", short(&edge.to_id))),
        What::DependencyRemoved(edge) => {
            (Tone::Faint, format!("task {task} no longer waits for {}", short(&edge.to_id)))
        }
        What::DependencySatisfied(_) => (Tone::Faint, format!("task {task} waits for nothing any more")),
        What::Metrics(_) => (Tone::Faint, format!("task {task} was measured")),
        What::ActionFailed(data) => {
            (Tone::Warning, format!("! action `{}`: {}", short(&data.action_type), short(&data.error)))
        }
    }
}

fn changed(changes: &Changes) -> String {
    let Changes { goal, deliverables, labels, priority, kind, parent, state } = changes;
    let said = [
        goal.as_ref().map(|goal| format!("goal {goal}")),
        deliverables.as_ref().map(|all| format!("deliverables {}", all.join(", "))),
        labels.as_ref().map(|all| format!("labels {}", all.join(", "))),
        priority.map(|priority| format!("priority {priority}")),
        kind.as_ref().map(|kind| format!("type {kind}")),
        parent.as_ref().map(|parent| format!("comes from {parent}")),
        state.map(|state| state.name().to_owned()),
    ];
    said.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}
