//! Lines for the records of tasks and workflows: for sessions without a screen, and for the stream.

use serde_json::{Map, Value};

use super::text::plain_line;
use crate::engine::{
    event::{Event, WorkflowEvent},
    tasks::{
        record::{TaskRecordData, TaskRecordRef, TaskUpdated},
        workflow::WorkflowOutcome,
    },
    time::TimeSpan,
};

/// The longest goal or reason in a line, in characters.
const LINE: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineTone {
    Plain,
    Good,
    /// The user may want to look.
    Warning,
    /// Less important.
    Faint,
}

/// The line for a record of a task or a workflow. `None` for other records.
pub fn told(event: &Event) -> Option<(LineTone, String)> {
    event.task_news().map(|news| task(&news)).or_else(|| flow(event))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "everything else is not about workflows, whatever it is")]
fn flow(event: &Event) -> Option<(LineTone, String)> {
    let short = |text: &str| plain_line(text, LINE);
    Some(match event {
        Event::Workflow(WorkflowEvent::Started(began)) => {
            (LineTone::Plain, format!("workflow {} started", short(&began.workflow)))
        }
        Event::Workflow(WorkflowEvent::StepEnded(ended)) if ended.result.ok => {
            (LineTone::Faint, format!("workflow step {} is done", short(&ended.step)))
        }
        Event::Workflow(WorkflowEvent::StepEnded(ended)) => {
            let end = ended.result.end.as_ref().map(|end| format!(": {}", end.describe())).unwrap_or_default();
            (LineTone::Warning, format!("workflow step {} failed{}", short(&ended.step), short(&end)))
        }
        Event::Workflow(WorkflowEvent::Ended { flow, outcome }) => match outcome {
            WorkflowOutcome::Done => (LineTone::Good, format!("workflow run {flow} is done")),
            WorkflowOutcome::Failed => (LineTone::Warning, format!("workflow run {flow} failed")),
            WorkflowOutcome::Cut => (LineTone::Warning, format!("workflow run {flow} was stopped")),
        },
        _ => return None,
    })
}

fn task(news: &TaskRecordRef<'_>) -> (LineTone, String) {
    let short = |text: &str| plain_line(text, LINE);
    let task = short(news.task);
    match news.what {
        TaskRecordData::Created(data) => (LineTone::Plain, format!("task {task} added: {}", short(&data.goal))),
        TaskRecordData::Started(_) => (LineTone::Plain, format!("task {task} started")),
        TaskRecordData::Completed(data) => {
            let result = data.result.as_deref().unwrap_or(&data.content);
            (LineTone::Good, format!("task {task} completed: {}", short(result)))
        }
        TaskRecordData::Blocked(data) => {
            (LineTone::Warning, format!("task {task} is blocked: {}", short(&data.reason)))
        }
        TaskRecordData::Deleted(_) => (LineTone::Plain, format!("task {task} removed")),
        TaskRecordData::Updated(changes) => {
            (LineTone::Faint, format!("task {task} changed: {}", short(&changed(changes))))
        }
        TaskRecordData::DependencyAdded(edge) => {
            (LineTone::Faint, format!("task {task} now waits for {}", short(&edge.to_id)))
        }
        TaskRecordData::DependencyRemoved(edge) => {
            (LineTone::Faint, format!("task {task} no longer waits for {}", short(&edge.to_id)))
        }
        TaskRecordData::DependencySatisfied(_) => (LineTone::Faint, format!("task {task} waits for nothing any more")),
        TaskRecordData::Custom(kind, data) => {
            (LineTone::Faint, format!("{} of {task}{}", short(kind), short(&logged(data))))
        }
        TaskRecordData::Metrics(data) => (LineTone::Faint, format!("task {task} {}", short(&measured(data)))),
        TaskRecordData::ActionFailed(data) => {
            (LineTone::Warning, format!("! action `{}`: {}", short(&data.action_type), short(&data.error)))
        }
    }
}

/// The data that a hook logged, in one line.
fn logged(data: &Map<String, Value>) -> String {
    let fields: Vec<String> = data.iter().map(|(key, value)| format!("{key} {value}")).collect();
    if fields.is_empty() { String::new() } else { format!(": {}", fields.join(" · ")) }
}

/// The duration. If it is not known, all numbers in the data.
fn measured(data: &Map<String, Value>) -> String {
    if let Some(ms) = data.get("durationMs").and_then(Value::as_u64) {
        return format!("took {}", TimeSpan(ms));
    }
    let numbers = data.iter().filter(|(_, value)| value.is_number()).map(|(key, value)| format!("{key} {value}"));
    match numbers.collect::<Vec<_>>().join(" · ") {
        none if none.is_empty() => "was measured".to_owned(),
        said => format!("was measured: {said}"),
    }
}

fn changed(changes: &TaskUpdated) -> String {
    let TaskUpdated { goal, deliverables, labels, priority, kind, parent, state } = changes;
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
