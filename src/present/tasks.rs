//! What a record of a task or a workflow says in a line: for sessions without a screen, and for the stream.

use serde_json::{Map, Value};

use super::text::{first_line, plain};
use crate::engine::{
    event::Event,
    tasks::{
        record::{Changes, TaskNews, What},
        workflow::FlowOutcome,
    },
    time::Span,
};

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

/// The line for a record of a task or of a workflow; nothing, if it is about something else.
pub fn told(event: &Event) -> Option<(Tone, String)> {
    event.task_news().map(|news| task(&news)).or_else(|| flow(event))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "everything else is not about workflows, whatever it is")]
fn flow(event: &Event) -> Option<(Tone, String)> {
    let short = |text: &str| first_line(&plain(text), LINE);
    Some(match event {
        Event::WorkflowStarted(began) => (Tone::Plain, format!("workflow {} started", short(&began.workflow))),
        Event::WorkflowStepEnded(ended) if ended.result.ok => {
            (Tone::Faint, format!("workflow step {} is done", short(&ended.step)))
        }
        Event::WorkflowStepEnded(ended) => {
            let end = ended.result.end.as_ref().map(|end| format!(": {}", end.describe())).unwrap_or_default();
            (Tone::Warning, format!("workflow step {} failed{}", short(&ended.step), short(&end)))
        }
        Event::WorkflowEnded { flow, outcome } => match outcome {
            FlowOutcome::Done => (Tone::Good, format!("workflow run {flow} is done")),
            FlowOutcome::Failed => (Tone::Warning, format!("workflow run {flow} failed")),
            FlowOutcome::Cut => (Tone::Warning, format!("workflow run {flow} was stopped")),
        },
        _ => return None,
    })
}

fn task(news: &TaskNews<'_>) -> (Tone, String) {
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
        What::Custom(kind, data) => (Tone::Faint, format!("{} of {task}{}", short(kind), short(&logged(data)))),
        What::Metrics(data) => (Tone::Faint, format!("task {task} {}", short(&measured(data)))),
        What::ActionFailed(data) => {
            (Tone::Warning, format!("! action `{}`: {}", short(&data.action_type), short(&data.error)))
        }
    }
}

/// What a hook logged, on a line.
fn logged(data: &Map<String, Value>) -> String {
    let fields: Vec<String> = data.iter().map(|(key, value)| format!("{key} {value}")).collect();
    if fields.is_empty() { String::new() } else { format!(": {}", fields.join(" · ")) }
}

/// How long it took; if that is not known, whatever numbers there are.
fn measured(data: &Map<String, Value>) -> String {
    if let Some(ms) = data.get("durationMs").and_then(Value::as_u64) {
        return format!("took {}", Span(ms));
    }
    let numbers = data.iter().filter(|(_, value)| value.is_number()).map(|(key, value)| format!("{key} {value}"));
    match numbers.collect::<Vec<_>>().join(" · ") {
        none if none.is_empty() => "was measured".to_owned(),
        said => format!("was measured: {said}"),
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
