//! A task as a person writes it down: the goal in the first line, and what else there is to say in lines of `key: value`.

use crate::engine::tasks::command::NewTask;

/// What can be said beside the goal.
const KEYS: &str = "id, type, priority, labels, parent, depends, deliverable";

/// The task that was written down, or what cannot be understood.
pub fn read(text: &str) -> Result<NewTask, String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let goal = lines.next().ok_or("a task needs a goal")?.to_owned();
    let mut task = NewTask { goal, ..NewTask::default() };
    for line in lines {
        let (key, value) = line.split_once(':').ok_or_else(|| format!("`{line}` has no key: there are {KEYS}"))?;
        take(&mut task, key.trim(), value.trim())?;
    }
    Ok(task)
}

fn take(task: &mut NewTask, key: &str, value: &str) -> Result<(), String> {
    let one = || (!value.is_empty()).then(|| value.to_owned());
    match key {
        "id" => task.id = one(),
        "type" => task.kind = one(),
        "priority" => {
            let number = value.parse().map_err(|_| format!("`{value}` is no priority: 0, the highest, to 4"))?;
            task.priority = Some(number);
        }
        "labels" | "label" => task.labels.extend(several(value)),
        "parent" => task.parent = one(),
        "depends" | "depends on" => task.dependencies.extend(several(value)),
        "deliverable" | "deliverables" => task.deliverables.extend(one()),
        unknown => return Err(format!("`{unknown}` is no key: there are {KEYS}")),
    }
    Ok(())
}

fn several(value: &str) -> impl Iterator<Item = String> {
    value.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned)
}

/// The task as it was written down.
pub fn write(task: &NewTask) -> String {
    let NewTask { id, goal, deliverables, labels, priority, kind, parent, dependencies } = task;
    let one = |key: &str, value: &Option<String>| value.as_ref().map(|value| format!("{key}: {value}"));
    let several = |key: &str, all: &[String]| (!all.is_empty()).then(|| format!("{key}: {}", all.join(", ")));
    let said = [
        Some(goal.clone()),
        one("id", id),
        one("type", kind),
        priority.map(|priority| format!("priority: {priority}")),
        several("labels", labels),
        one("parent", parent),
        several("depends", dependencies),
    ];
    let deliverables = deliverables.iter().map(|what| format!("deliverable: {what}"));
    said.into_iter().flatten().chain(deliverables).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "Write: the parser\nid: parser\ntype: feature\npriority: 1\nlabels: core, new\nparent: task_1\n\
                       depends: lexer, tokens\ndeliverable: src/parser.rs, whole\ndeliverable: its tests";

    #[test]
    fn a_goal_is_enough() {
        assert_eq!(
            read("\n  Write the lexer \n"),
            Ok(NewTask { goal: "Write the lexer".into(), ..NewTask::default() })
        );
    }

    #[test]
    fn what_was_written_down_can_be_written_again() {
        assert_eq!(read(ALL).map(|task| write(&task)).as_deref(), Ok(ALL));
    }

    #[test]
    fn what_is_not_understood_is_told() {
        let why = |text| read(text).expect_err("it cannot be understood");
        assert_eq!(why(" \n"), "a task needs a goal");
        assert_eq!(why("a\nlabls: x"), format!("`labls` is no key: there are {KEYS}"));
        assert_eq!(why("a\nand b"), format!("`and b` has no key: there are {KEYS}"));
        assert_eq!(why("a\npriority: high"), "`high` is no priority: 0, the highest, to 4");
    }
}
