//! Tasks that an agent proposes: what it may answer, and in which order they come. Whether they can
//! be queued is checked in [`super::proposal_check`].

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::engine::tasks::graph::PRIORITY;

/// The most tasks of a proposal.
pub(super) const MOST_TASKS: usize = 100;
/// How many objects of an answer are tried.
const MOST_OBJECTS: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskProposal {
    pub tasks: Vec<ProposedTask>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposedTask {
    pub id: String,
    pub goal: String,
    #[serde(
        default,
        alias = "dependencies",
        alias = "dependsOn",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub depends_on: Vec<String>,
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default = "usual_priority", skip_serializing_if = "is_usual")]
    pub priority: u8,
}

const fn usual_priority() -> u8 {
    PRIORITY
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_usual(priority: &u8) -> bool {
    *priority == PRIORITY
}

/// Something that the agent has to repair.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposalMistake {
    #[error("your answer has no JSON object with `tasks`")]
    NoObject,
    #[error("the JSON does not have the requested form: {0}")]
    WrongForm(String),
    #[error("there are no tasks")]
    Empty,
    #[error("the list is too long: it has {0} entries, and at most {MOST_TASKS} are allowed")]
    TooMany(usize),
    #[error("two tasks have the id `{0}`")]
    SameId(String),
    #[error("task `{task}`: {reason}")]
    BadTask { task: String, reason: String },
    #[error("task `{task}` depends on `{on}`, which is not in the list")]
    UnknownDependency { task: String, on: String },
    #[error("task `{task}` has the type `{kind}`; the types are: {known}")]
    UnknownType {
        task: String,
        kind: String,
        known: String,
    },
    #[error("these tasks wait for each other: {0}")]
    Cycle(String),
}

/// A line of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposalLine<'a> {
    pub depth: usize,
    pub task: &'a ProposedTask,
    /// What it waits for, besides the task above it.
    pub also_after: Vec<&'a str>,
}

impl TaskProposal {
    /// The last proposal in an answer.
    pub fn in_answer(answer: &str) -> Result<Self, ProposalMistake> {
        let mut objects = answer
            .match_indices('{')
            .map(|(at, _)| at)
            .take(MOST_OBJECTS);
        let (mut found, mut until) = (None, 0);
        // Objects inside of an object that was read are part of it.
        while let Some(at) = objects.find(|at| *at >= until) {
            let mut values =
                serde_json::Deserializer::from_str(&answer[at..]).into_iter::<serde_json::Value>();
            if let Some(Ok(value)) = values.next() {
                until = at + values.byte_offset();
                if value.get("tasks").is_some() {
                    found = Some(value);
                }
            }
        }
        let value = found.ok_or(ProposalMistake::NoObject)?;
        serde_json::from_value(value).map_err(|error| ProposalMistake::WrongForm(error.to_string()))
    }

    /// Each task after those that it depends on. Leaves out tasks that wait for each other.
    pub fn in_order(&self) -> Vec<&ProposedTask> {
        let (mut order, mut done) = (Vec::new(), BTreeSet::new());
        loop {
            let is_due = |task: &&ProposedTask| {
                !done.contains(task.id.as_str())
                    && task.depends_on.iter().all(|on| done.contains(on.as_str()))
            };
            let Some(next) = self.tasks.iter().find(is_due) else {
                return order;
            };
            done.insert(next.id.as_str());
            order.push(next);
        }
    }
}

/// Tasks as a tree: each below the first task that it depends on.
pub fn task_tree(tasks: &[ProposedTask]) -> Vec<ProposalLine<'_>> {
    let mut lines = Vec::new();
    add_below(tasks, None, 0, &mut lines);
    lines
}

fn add_below<'a>(
    tasks: &'a [ProposedTask],
    above: Option<&str>,
    depth: usize,
    lines: &mut Vec<ProposalLine<'a>>,
) {
    // A cycle has no task without dependencies, so it is never reached.
    for task in tasks
        .iter()
        .filter(|task| task.depends_on.first().map(String::as_str) == above)
    {
        let also_after = task.depends_on.iter().skip(1).map(String::as_str).collect();
        lines.push(ProposalLine {
            depth,
            task,
            also_after,
        });
        add_below(tasks, Some(&task.id), depth + 1, lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_object_with_tasks_counts_whatever_is_around_it() {
        let answer = "First { I thought {\"tasks\": []}.\nNow:\n```json\n{\"tasks\": [{\"id\": \"a\", \"goal\": \"Do {x}\"}]}\n```\n";
        let proposal = TaskProposal::in_answer(answer).expect("a proposal");
        assert_eq!(proposal.tasks[0].goal, "Do {x}");
        assert_eq!(
            TaskProposal::in_answer("no JSON {"),
            Err(ProposalMistake::NoObject)
        );
        assert_eq!(
            TaskProposal::in_answer("{\"task\": []}"),
            Err(ProposalMistake::NoObject)
        );
    }

    #[test]
    fn tasks_come_after_what_they_depend_on_and_below_it() {
        let answer = r#"{"tasks": [
            {"id": "test", "goal": "g", "depends_on": ["parser", "printer"]},
            {"id": "parser", "goal": "g"}, {"id": "printer", "goal": "g", "dependencies": []}]}"#;
        let proposal = TaskProposal::in_answer(answer).expect("a proposal");
        let order: Vec<&str> = proposal
            .in_order()
            .into_iter()
            .map(|task| task.id.as_str())
            .collect();
        assert_eq!(order, ["parser", "printer", "test"]);
        let tree: Vec<(usize, &str, usize)> = task_tree(&proposal.tasks)
            .iter()
            .map(|line| (line.depth, line.task.id.as_str(), line.also_after.len()))
            .collect();
        assert_eq!(tree, [(0, "parser", 0), (1, "test", 1), (0, "printer", 0)]);
    }
}
