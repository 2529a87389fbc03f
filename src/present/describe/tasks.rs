//! The wording of tasks and workflows.

use serde_json::{Map, Value};

use super::{Described, EventTone, brief_span, name, sentence};
use crate::engine::{
    event::WorkflowEvent,
    tasks::{
        graph::TaskDescriptionChanges,
        record::{TaskRecordData, TaskRecordRef, TaskUpdated},
        workflow_record::WorkflowOutcome,
    },
    time::TimeSpan,
};

pub(super) fn workflow(event: &WorkflowEvent) -> Option<Described> {
    let (sign, tone, text) = match event {
        WorkflowEvent::Started(began) => (
            "⇢",
            EventTone::Active,
            format!("Workflow {} started", name(&began.workflow)),
        ),
        WorkflowEvent::StepEnded(ended) if ended.result.ok => (
            "✓",
            EventTone::Passed,
            format!("Workflow step {} done", name(&ended.step)),
        ),
        WorkflowEvent::StepEnded(ended) => {
            let end = ended
                .result
                .end
                .as_ref()
                .map(|end| format!(": {}", sentence(&end.describe())));
            (
                "!",
                EventTone::Problem,
                format!(
                    "Workflow step {} failed{}",
                    name(&ended.step),
                    end.unwrap_or_default()
                ),
            )
        }
        WorkflowEvent::Ended { flow, outcome } => match outcome {
            WorkflowOutcome::Done => ("✓", EventTone::Passed, format!("Workflow run {flow} done")),
            WorkflowOutcome::Failed => (
                "!",
                EventTone::Problem,
                format!("Workflow run {flow} failed"),
            ),
            WorkflowOutcome::Cut => (
                "!",
                EventTone::Problem,
                format!("Workflow run {flow} stopped"),
            ),
        },
        WorkflowEvent::StepStarted { .. } => return None,
    };
    Some(Described::new(sign, tone, text))
}

pub(super) fn task(news: &TaskRecordRef<'_>) -> Described {
    let task = name(news.task);
    let (sign, tone, text) = match news.what {
        TaskRecordData::Created(data) => (
            "+",
            EventTone::Plain,
            format!("Task added: {} · {task}", sentence(&data.description.goal)),
        ),
        TaskRecordData::Started(_) => ("▸", EventTone::Plain, format!("Task {task} started")),
        TaskRecordData::Completed(data) => {
            let result = data.result.as_deref().unwrap_or(&data.content);
            (
                "✓",
                EventTone::Passed,
                format!("Task {task} completed: {}", sentence(result)),
            )
        }
        TaskRecordData::Blocked(data) => (
            "!",
            EventTone::Problem,
            format!("Task {task} is blocked: {}", sentence(&data.reason)),
        ),
        TaskRecordData::Deleted(_) => ("-", EventTone::Plain, format!("Task {task} removed")),
        TaskRecordData::Updated(changes) => (
            "~",
            EventTone::Quiet,
            format!("Task {task} changed: {}", sentence(&changed(changes))),
        ),
        TaskRecordData::DependencyAdded(edge) => (
            "·",
            EventTone::Quiet,
            format!("Task {task} now depends on {}", name(&edge.to_id)),
        ),
        TaskRecordData::DependencyRemoved(edge) => (
            "·",
            EventTone::Quiet,
            format!("Task {task} no longer depends on {}", name(&edge.to_id)),
        ),
        TaskRecordData::DependencySatisfied(_) => (
            "·",
            EventTone::Quiet,
            format!("Task {task} has no open dependencies"),
        ),
        TaskRecordData::Custom(kind, data) => (
            "·",
            EventTone::Quiet,
            format!("{} of {task}{}", name(kind), sentence(&logged(data))),
        ),
        TaskRecordData::Metrics(data) => (
            "·",
            EventTone::Quiet,
            format!("Task {task} {}", sentence(&measured(data))),
        ),
        TaskRecordData::ActionFailed(data) => {
            let text = format!(
                "Action `{}` failed: {}",
                name(&data.action_type),
                sentence(&data.error)
            );
            return Described::new("!", EventTone::Problem, text);
        }
    };
    Described::new(sign, tone, text)
}

/// The data that a hook logged, in one line.
fn logged(data: &Map<String, Value>) -> String {
    let fields: Vec<String> = data
        .iter()
        .map(|(key, value)| format!("{key} {value}"))
        .collect();
    if fields.is_empty() {
        String::new()
    } else {
        format!(": {}", fields.join(" · "))
    }
}

/// The duration. If it is not known, all numbers in the data.
fn measured(data: &Map<String, Value>) -> String {
    if let Some(ms) = data.get("durationMs").and_then(Value::as_u64) {
        return format!("took {}", brief_span(TimeSpan(ms)));
    }
    let numbers = data
        .iter()
        .filter(|(_, value)| value.is_number())
        .map(|(key, value)| format!("{key} {value}"));
    match numbers.collect::<Vec<_>>().join(" · ") {
        none if none.is_empty() => "reported metrics".to_owned(),
        parts => format!("metrics: {parts}"),
    }
}

fn changed(changes: &TaskUpdated) -> String {
    let TaskUpdated { description, state } = changes;
    let TaskDescriptionChanges {
        goal,
        deliverables,
        labels,
        priority,
        kind,
        parent,
    } = description;
    let parts = [
        goal.as_ref().map(|goal| format!("goal {goal}")),
        deliverables
            .as_ref()
            .map(|all| format!("deliverables {}", all.join(", "))),
        labels
            .as_ref()
            .map(|all| format!("labels {}", all.join(", "))),
        priority.map(|priority| format!("priority {priority}")),
        kind.as_ref().map(|kind| format!("type {kind}")),
        parent.as_ref().map(|parent| format!("parent {parent}")),
        state.map(|state| state.name().to_owned()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}
