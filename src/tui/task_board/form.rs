//! A task as a text that the user edits: the goal in the first line, then lines of `key: value`. A
//! goal or a deliverable continues in lines that begin with `|`.

use std::collections::BTreeSet;

use crate::engine::{
    tasks::{
        command::NewTask,
        graph::{Task, TaskDescription, TaskDescriptionChanges, TaskGraph, TaskState},
    },
    time::UnixTime,
};

/// The keys that can follow the goal.
const KEYS: &str = "id, type, priority, labels, parent, depends, deliverable";

/// What is wrong with the text of a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskFormError {
    #[error("a task needs a goal")]
    NoGoal,
    #[error("`{0}` has no key: use {KEYS}")]
    NoKey(String),
    #[error("`{0}` is not a key: use {KEYS}")]
    UnknownKey(String),
    #[error("`{0}` is not a priority: use 0, the highest, to 4")]
    BadPriority(String),
    #[error("`{0}` cannot change here: use type, priority, labels, parent and deliverable")]
    FixedKey(&'static str),
    #[error("you changed nothing; press esc to leave")]
    NothingChanged,
}

/// Parses a task, or returns what is wrong with the text.
pub fn read(text: &str) -> Result<NewTask, TaskFormError> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let goal = lines.next().ok_or(TaskFormError::NoGoal)?.to_owned();
    let mut task = NewTask {
        goal,
        ..NewTask::default()
    };
    let mut of_deliverable = false;
    for line in lines {
        if let Some(more) = line.strip_prefix('|') {
            let deliverable = task.deliverables.last_mut().filter(|_| of_deliverable);
            let text = deliverable.unwrap_or(&mut task.goal);
            text.push('\n');
            text.push_str(more.strip_prefix(' ').unwrap_or(more));
            continue;
        }
        let (key, value) = line
            .split_once(':')
            .ok_or_else(|| TaskFormError::NoKey(line.to_owned()))?;
        of_deliverable = matches!(key.trim(), "deliverable" | "deliverables");
        take(&mut task, key.trim(), value.trim())?;
    }
    Ok(task)
}

fn take(task: &mut NewTask, key: &str, value: &str) -> Result<(), TaskFormError> {
    let one = || (!value.is_empty()).then(|| value.to_owned());
    match key {
        "id" => task.id = one(),
        "type" => task.kind = one(),
        "priority" => {
            let number = value
                .parse()
                .map_err(|_| TaskFormError::BadPriority(value.to_owned()))?;
            task.priority = Some(number);
        }
        "labels" | "label" => task.labels.extend(several(value)),
        "parent" => task.parent = one(),
        "depends" | "depends on" => task.dependencies.extend(several(value)),
        "deliverable" | "deliverables" => task.deliverables.extend(one()),
        unknown => return Err(TaskFormError::UnknownKey(unknown.to_owned())),
    }
    Ok(())
}

fn several(value: &str) -> impl Iterator<Item = String> {
    value
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
}

/// The text of an existing task, for editing.
pub fn write(task: &Task) -> String {
    let TaskDescription {
        goal,
        deliverables,
        labels,
        priority,
        kind,
    } = &task.description;
    let lines = |text: &str| text.trim().lines().collect::<Vec<_>>().join("\n| ");
    let line = |text: &str| text.lines().collect::<Vec<_>>().join(" ");
    let goal = lines(goal);
    let kind = kind.iter().map(|kind| format!("type: {}", line(kind)));
    // Also if they are empty, so that the user sees the keys.
    let always = [
        format!("priority: {priority}"),
        format!("labels: {}", line(&labels.join(", "))),
    ];
    let deliverables = deliverables
        .iter()
        .map(|what| format!("deliverable: {}", lines(what)));
    [goal]
        .into_iter()
        .chain(kind)
        .chain(always)
        .chain(deliverables)
        .collect::<Vec<_>>()
        .join("\n")
}

/// The differences between two texts of a task, or what is wrong with them.
pub fn changes(before: &str, after: &str) -> Result<TaskDescriptionChanges, TaskFormError> {
    let (before, after) = (read(before)?, read(after)?);
    let fixed = [
        ("id", after.id.is_some()),
        ("depends", !after.dependencies.is_empty()),
    ];
    if let Some((key, _)) = fixed.into_iter().find(|(_, is_given)| *is_given) {
        return Err(TaskFormError::FixedKey(key));
    }
    Ok(TaskDescriptionChanges {
        goal: different(&before.goal, after.goal),
        deliverables: different(&before.deliverables, after.deliverables),
        labels: different(&before.labels, after.labels),
        priority: after.priority.filter(|_| before.priority != after.priority),
        kind: different(&before.kind, after.kind).flatten(),
        parent: after.parent,
    })
}

fn different<T: PartialEq>(before: &T, after: T) -> Option<T> {
    (*before != after).then_some(after)
}

/// The column where the values begin.
const COLUMN: usize = 14;

pub const fn sign(state: TaskState) -> &'static str {
    match state {
        TaskState::Created => "○",
        TaskState::Ready => "●",
        TaskState::Active => "▸",
        TaskState::Blocked => "!",
        TaskState::Completed => "✓",
    }
}

pub fn details(graph: &TaskGraph, task: &Task, now: UnixTime) -> String {
    let named = |tasks: Vec<&Task>| tasks.into_iter().map(in_a_line).collect();
    let dependencies = task
        .dependencies
        .iter()
        .filter_map(|id| graph.get(id))
        .collect();
    let parent = task.parent.iter().filter_map(|id| graph.get(id)).collect();
    let about = [
        (
            "state",
            vec![format!("{} {}", sign(task.state), task.state.name())],
        ),
        ("reason", task.reason.iter().cloned().collect()),
        ("needed knowledge", task.required_knowledge.clone()),
        (
            "priority",
            vec![format!(
                "{} (0 is the highest, 4 the lowest)",
                task.priority
            )],
        ),
        ("type", task.kind.iter().cloned().collect()),
        ("labels", joined(&task.labels)),
        ("queue", task.queue.iter().map(for_whom).collect()),
        ("deliverables", task.deliverables.clone()),
        ("depends on", named(dependencies)),
        ("needed by", named(graph.dependents(&task.id))),
        ("came from", named(parent)),
        ("led to", named(graph.children(&task.id))),
        ("result", task.result.iter().cloned().collect()),
        ("artifacts", task.artifacts.clone()),
        ("added", vec![moment(task.created, now)]),
        (
            "started",
            task.started.map(|at| moment(at, now)).into_iter().collect(),
        ),
        (
            "completed",
            task.completed
                .map(|at| moment(at, now))
                .into_iter()
                .collect(),
        ),
    ];
    let lines = about
        .iter()
        .map(|(what, texts)| paragraph(what, texts))
        .collect::<String>();
    format!("{}\n\n{lines}", task.goal)
}

/// Which agents can work on a queued task.
fn for_whom(agents: &BTreeSet<String>) -> String {
    if agents.is_empty() {
        return "for all agents".to_owned();
    }
    let names: Vec<&str> = agents.iter().map(String::as_str).collect();
    format!("for {}", names.join(", "))
}

/// A task by its state, id and goal.
fn in_a_line(task: &Task) -> String {
    format!(
        "{} {} {}",
        sign(task.state),
        task.id,
        task.goal.lines().next().unwrap_or("")
    )
}

fn joined(words: &[String]) -> Vec<String> {
    if words.is_empty() {
        Vec::new()
    } else {
        vec![words.join(", ")]
    }
}

/// A name with its values, one per line. Empty without values.
fn paragraph(what: &str, texts: &[String]) -> String {
    let lines = texts.iter().flat_map(|text| text.lines());
    let line =
        |(n, line): (usize, &str)| format!("{:COLUMN$}{line}\n", if n == 0 { what } else { "" });
    lines.enumerate().map(line).collect()
}

fn moment(at: UnixTime, now: UnixTime) -> String {
    let written = at.rfc3339();
    let (day, time) = written.split_once('T').unwrap_or((&written, ""));
    let time = time.split('.').next().unwrap_or(time);
    format!("{day} {time} UTC, {} ago", now.since(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "Write: the parser\n|\n| by hand\nid: parser\ntype: feature\npriority: 1\nlabels: core, new\nparent: task_1\n\
                       depends: lexer, tokens\ndeliverable: src/parser.rs, whole\ndeliverable: its tests";

    #[test]
    fn a_goal_is_enough() {
        assert_eq!(
            read("\n  Write the lexer \n"),
            Ok(NewTask {
                goal: "Write the lexer".into(),
                ..NewTask::default()
            })
        );
    }

    #[test]
    fn all_can_be_given() {
        let texts = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>()
        };
        let task = NewTask {
            id: Some("parser".into()),
            goal: "Write: the parser\n\nby hand".into(),
            deliverables: texts(&["src/parser.rs, whole", "its tests"]),
            labels: texts(&["core", "new"]),
            priority: Some(1),
            kind: Some("feature".into()),
            parent: Some("task_1".into()),
            dependencies: texts(&["lexer", "tokens"]),
            queue: None,
        };
        assert_eq!(read(ALL), Ok(task));
    }

    #[test]
    fn only_what_is_different_is_changed() {
        let before =
            "Parse\n| by hand\ntype: feature\npriority: 2\nlabels: \ndeliverable: parser.rs";
        let same = |text: &str| {
            changes(before, text).map(|changes| changes == TaskDescriptionChanges::default())
        };
        assert_eq!(same(before), Ok(true));
        assert_eq!(
            same("Parse\n|by hand\ndeliverable: parser.rs"),
            Ok(true),
            "what is not named is as it was"
        );
        let after = "Parse\nlabels: core, new\npriority: 0\nparent: task_1";
        let changed = TaskDescriptionChanges {
            goal: Some("Parse".into()),
            deliverables: Some(Vec::new()),
            labels: Some(vec!["core".into(), "new".into()]),
            priority: Some(0),
            parent: Some("task_1".into()),
            kind: None,
        };
        assert_eq!(changes(before, after), Ok(changed));
        let why = changes(before, "Parse\nid: x")
            .expect_err("it cannot be changed")
            .to_string();
        assert_eq!(
            why,
            "`id` cannot change here: use type, priority, labels, parent and deliverable"
        );
    }

    #[test]
    fn a_wrong_form_says_what_is_wrong() {
        let why = |text| read(text).expect_err("it cannot be understood").to_string();
        assert_eq!(why(" \n"), "a task needs a goal");
        assert_eq!(
            why("a\nlabls: x"),
            format!("`labls` is not a key: use {KEYS}")
        );
        assert_eq!(why("a\nand b"), format!("`and b` has no key: use {KEYS}"));
        assert_eq!(
            why("a\npriority: high"),
            "`high` is not a priority: use 0, the highest, to 4"
        );
    }
}
