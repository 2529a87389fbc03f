//! What is wrong with proposed tasks.
//!
//! # Invariants
//! - A proposal without mistakes can be queued: its names are unique and plain, and its
//!   dependencies exist and have no cycle.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::{
    queue::{
        task_proposal::{MOST_TASKS, ProposalMistake, ProposedTask, TaskProposal},
        task_spec::TaskSpec,
    },
    tasks::graph::TaskDescription,
};

impl TaskProposal {
    /// Everything that is wrong with it. `types` are those of the config; if there are none, any
    /// type is a label.
    pub fn mistakes(&self, types: &BTreeSet<String>) -> Vec<ProposalMistake> {
        let mut found = Vec::new();
        if self.tasks.is_empty() {
            found.push(ProposalMistake::Empty);
        }
        if self.tasks.len() > MOST_TASKS {
            found.push(ProposalMistake::TooMany(self.tasks.len()));
        }
        let mut ids = BTreeSet::new();
        for task in &self.tasks {
            if !ids.insert(task.id.as_str()) {
                found.push(ProposalMistake::SameId(task.id.clone()));
            }
            if let Err(refusal) = task.spec(&BTreeMap::new()).checked() {
                found.push(ProposalMistake::BadTask {
                    task: task.id.clone(),
                    reason: refusal.to_string(),
                });
            }
            if let Some(kind) = task
                .kind
                .as_ref()
                .filter(|kind| !types.is_empty() && !types.contains(*kind))
            {
                let known = types
                    .iter()
                    .map(|kind| format!("`{kind}`"))
                    .collect::<Vec<_>>()
                    .join(", ");
                found.push(ProposalMistake::UnknownType {
                    task: task.id.clone(),
                    kind: kind.clone(),
                    known,
                });
            }
        }
        for task in &self.tasks {
            for on in task
                .depends_on
                .iter()
                .filter(|on| !ids.contains(on.as_str()))
            {
                found.push(ProposalMistake::UnknownDependency {
                    task: task.id.clone(),
                    on: on.clone(),
                });
            }
        }
        let ordered: BTreeSet<&str> = self
            .in_order()
            .into_iter()
            .map(|task| task.id.as_str())
            .collect();
        let circle: Vec<&str> = self
            .tasks
            .iter()
            .map(|task| task.id.as_str())
            .filter(|id| !ordered.contains(id))
            .collect();
        let is_known =
            |task: &ProposedTask| task.depends_on.iter().all(|on| ids.contains(on.as_str()));
        if !circle.is_empty() && self.tasks.iter().all(is_known) {
            found.push(ProposalMistake::Cycle(circle.join(", ")));
        }
        found
    }
}

impl ProposedTask {
    /// The task for the queue. `names` has the names there of those before it.
    pub fn spec(&self, names: &BTreeMap<String, String>) -> TaskSpec {
        let known = |on: &String| names.get(on).unwrap_or(on).clone();
        TaskSpec {
            id: self.id.clone(),
            description: TaskDescription {
                goal: self.goal.clone(),
                priority: self.priority,
                kind: self.kind.clone(),
                ..TaskDescription::default()
            },
            dependencies: self.depends_on.iter().map(known).collect(),
            ..TaskSpec::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(answer: &str) -> Vec<String> {
        match TaskProposal::in_answer(answer) {
            Ok(proposal) => proposal
                .mistakes(&["docs".to_owned()].into())
                .iter()
                .map(ToString::to_string)
                .collect(),
            Err(mistake) => vec![mistake.to_string()],
        }
    }

    #[test]
    fn every_mistake_is_named() {
        assert_eq!(mistakes(r#"{"tasks": []}"#), ["there are no tasks"]);
        assert!(mistakes(r#"{"tasks": [{"id": "a"}]}"#)[0].contains("missing field `goal`"));
        assert!(
            mistakes(r#"{"tasks": [{"id": "a", "goal": "g", "after": []}]}"#)[0]
                .contains("unknown field `after`")
        );
        let all = mistakes(
            r#"{"tasks": [
                {"id": "a", "goal": "g", "type": "code"}, {"id": "a", "goal": "g"},
                {"id": "b c", "goal": "g"}, {"id": "d", "goal": " ", "depends_on": ["e"]}]}"#,
        );
        for expected in [
            "two tasks have the id `a`",
            "the type `code`",
            "task `b c`",
            "task `d`",
            "depends on `e`",
        ] {
            assert!(
                all.iter().any(|mistake| mistake.contains(expected)),
                "{expected}: {all:?}"
            );
        }
        let circle = r#"{"tasks": [{"id": "a", "goal": "g", "depends_on": ["b"]}, {"id": "b", "goal": "g", "depends_on": ["a"]}]}"#;
        assert_eq!(mistakes(circle), ["these tasks wait for each other: a, b"]);
    }
}
