//! Writing tasks so that an import reads them again.
//!
//! # Invariants
//! - What is written is read back as the same tasks, as far as the format can say them: a
//!   `prd.json` cannot say that a task has the default priority.

use serde_json::{Value, json};

use crate::{
    engine::tasks::{command::NewTask, graph::PRIORITY},
    task_files::{FileTask, FileTaskState, TaskFile, TaskFormat, checklist::ChecklistNote},
};

/// The columns by which a part is further to the right than what it is a part of.
const STEP: usize = 2;

/// How to write tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportFormat {
    /// A Markdown checklist.
    #[default]
    Markdown,
    /// The `prd.json` of ralph.
    Prd,
    /// JSON, a task in each line.
    Json,
}

/// The tasks as a text. `project` is the name of the project in a `prd.json`.
pub fn written(tasks: &[FileTask], format: ExportFormat, project: &str) -> String {
    match format {
        ExportFormat::Markdown => markdown(tasks),
        ExportFormat::Prd => prd(tasks, project),
        ExportFormat::Json => lines(tasks),
    }
}

fn markdown(tasks: &[FileTask]) -> String {
    let mut text = String::new();
    for task in tasks.iter().filter(|task| above(tasks, task).is_none()) {
        add_item(tasks, task, 0, &mut text);
    }
    text
}

/// The task that a task is nested below: its parent, if that waits for it.
fn above<'a>(tasks: &'a [FileTask], task: &FileTask) -> Option<&'a FileTask> {
    let parent = task.task.parent.as_deref()?;
    let parent = tasks.iter().find(|other| other.id() == parent)?;
    let waits = parent.task.dependencies.iter().any(|on| on == task.id());
    waits.then_some(parent)
}

fn add_item(tasks: &[FileTask], task: &FileTask, depth: usize, text: &mut String) {
    let is_part =
        |other: &&FileTask| above(tasks, other).is_some_and(|above| above.id() == task.id());
    let parts: Vec<&FileTask> = tasks.iter().filter(is_part).collect();
    let mut own = task.task.clone();
    own.dependencies
        .retain(|on| parts.iter().all(|part| part.id() != on));
    if above(tasks, task).is_some() {
        own.parent = None;
    }
    let indent = " ".repeat(depth * STEP);
    for line in item(&own, task.state).lines() {
        let indent = if line.is_empty() { "" } else { &indent };
        *text += &format!("{indent}{line}\n");
    }
    for part in parts {
        add_item(tasks, part, depth + 1, text);
    }
}

/// A task as an item. If its text would not be read as the same task, the comment has all of it.
fn item(task: &NewTask, state: FileTaskState) -> String {
    let mark = if state == FileTaskState::Done {
        'x'
    } else {
        ' '
    };
    let (first, rest) = task.goal.split_once('\n').unwrap_or((&task.goal, ""));
    let note = ChecklistNote {
        id: task.id.clone(),
        after: task.dependencies.clone(),
        priority: task.priority.filter(|priority| *priority != PRIORITY),
        kind: task.kind.clone(),
        labels: task.labels.clone(),
        parent: task.parent.clone(),
        goal: None,
        deliverables: Vec::new(),
    };
    let mut plain = format!("- [{mark}] {first} {}\n", comment(&note));
    let deliverables = task.deliverables.iter().map(|entry| format!("- {entry}"));
    let heading = (!task.deliverables.is_empty()).then(|| "Deliverables:".to_owned());
    let body = rest.lines().map(str::to_owned);
    let body = body.take(if rest.is_empty() { 0 } else { usize::MAX });
    for line in body.chain(heading).chain(deliverables) {
        plain += if line.is_empty() { "" } else { "  " };
        plain += &format!("{line}\n");
    }
    let expected = NewTask {
        priority: note.priority,
        queue: None,
        ..task.clone()
    };
    // A code block that does not end would contain the next item.
    let read = TaskFile::read(&format!("{plain}- [ ] next\n"), Some(TaskFormat::Markdown));
    if read.is_ok_and(|read| matches!(read.tasks.as_slice(), [first, _] if first.task == expected))
    {
        return plain;
    }
    let whole = ChecklistNote {
        goal: Some(task.goal.clone()),
        deliverables: task.deliverables.clone(),
        ..note
    };
    let first = first.replace("<!--", "").replace("-->", "");
    format!("- [{mark}] {} {}\n", first.trim(), comment(&whole))
}

fn comment(note: &ChecklistNote) -> String {
    let json = serde_json::to_string(note).unwrap_or_default();
    // A comment ends at the first `-->`.
    format!("<!-- creel {} -->", json.replace('>', "\\u003e"))
}

fn prd(tasks: &[FileTask], project: &str) -> String {
    let story = |FileTask { task, state, .. }: &FileTask| {
        let (title, rest) = task.goal.split_once('\n').unwrap_or((&task.goal, ""));
        // Between the title and a description, a reader puts an empty line.
        let description = match rest.strip_prefix('\n') {
            Some(description) => description,
            None if rest.is_empty() => "",
            None => &task.goal,
        };
        let mut story = json!({
            "id": task.id,
            "title": title.trim(),
            "description": description,
            "acceptanceCriteria": task.deliverables,
            "priority": task.priority.unwrap_or(PRIORITY) + 1,
            "passes": *state == FileTaskState::Done,
            "notes": "",
            "labels": task.labels,
            "dependsOn": task.dependencies,
        });
        for (key, value) in [("type", &task.kind), ("parent", &task.parent)] {
            if let Some(value) = value {
                story[key] = json!(value);
            }
        }
        story
    };
    let stories: Vec<Value> = tasks.iter().map(story).collect();
    let whole = json!({ "name": project, "userStories": stories });
    format!("{whole:#}\n")
}

fn lines(tasks: &[FileTask]) -> String {
    let line = |FileTask { task, state, .. }: &FileTask| {
        let mut line = json!(task);
        if let Some(fields) = line.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
            if let Some(agents) = fields.shift_remove("queue") {
                fields.insert("agents".to_owned(), agents);
            }
            if *state == FileTaskState::Done {
                fields.insert("state".to_owned(), json!("completed"));
            }
        }
        format!("{line}\n")
    };
    tasks.iter().map(line).collect()
}
