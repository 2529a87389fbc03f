//! The description of a queued task.
//!
//! # Invariants
//! - Its names are plain: they become parts of subjects, of file names and of command lines.

use std::{collections::BTreeSet, ops::Deref};

use serde::{Deserialize, Serialize};

use crate::engine::{
    queue::QueuedTask,
    tasks::{
        command::{TaskRefusal, a_goal, a_priority, is_name},
        graph::TaskDescription,
    },
    turn::background::COMPLETION_NOTE,
};

/// The largest description in bytes, as JSON. Together with the result it must fit into one message
/// of the server.
const LARGEST: usize = 512 << 10;
/// The longest list of agents: it becomes part of a file name on the server.
const AGENTS: usize = 120;
/// The longest session name. It leaves room for a number at the end, which distinguishes sessions
/// of the same name.
const LONGEST: usize = 60;
/// How many characters of the owner's name a session name keeps at least, so that it never begins
/// with a `-`.
const OWNER: usize = 4;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TaskSpec {
    #[serde(alias = "task_id", alias = "taskId")]
    pub id: String,
    #[serde(flatten)]
    pub description: TaskDescription,
    /// Tasks that must be completed first.
    pub dependencies: BTreeSet<String>,
    /// The agents that can work on it. Empty: all.
    pub agents: BTreeSet<String>,
    /// The session that the task belongs to, if any.
    pub session: Option<OwnerSession>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerSession {
    pub name: String,
    /// Unique among all sessions.
    pub id: String,
}

impl Deref for TaskSpec {
    type Target = TaskDescription;

    fn deref(&self) -> &TaskDescription {
        &self.description
    }
}

impl TaskSpec {
    /// Returns the description unchanged if it is valid.
    pub fn checked(self) -> Result<Self, TaskRefusal> {
        let Self {
            id,
            description,
            dependencies,
            agents,
            session,
        } = &self;
        let named = |name: &str, what: &'static str| {
            let fits = is_name(name) && name != "-";
            if fits {
                Ok(())
            } else {
                Err(TaskRefusal::BadName {
                    name: name.to_owned(),
                    what,
                })
            }
        };
        named(id, "a task")?;
        a_goal(&description.goal)?;
        a_priority(description.priority)?;
        description
            .kind
            .iter()
            .try_for_each(|kind| named(kind, "a type of tasks in the queue"))?;
        agents
            .iter()
            .try_for_each(|agent| named(agent, "an agent"))?;
        if agents.iter().map(|agent| agent.len() + 1).sum::<usize>() > AGENTS {
            return Err(TaskRefusal::AgentNamesTooLong(AGENTS));
        }
        dependencies.iter().try_for_each(|on| named(on, "a task"))?;
        session.iter().try_for_each(|owner| {
            named(&owner.name, "a session").and(named(&owner.id, "a session"))
        })?;
        if dependencies.contains(id) {
            return Err(TaskRefusal::DependsOnItself(id.clone()));
        }
        if serde_json::to_string(&self).map_or(0, |text| text.len()) > LARGEST {
            return Err(TaskRefusal::TooLong(LARGEST >> 10));
        }
        Ok(self)
    }

    /// The name of the session for this run of the task.
    pub fn session(&self, run: u32) -> String {
        let owner = self
            .session
            .as_ref()
            .map_or("task", |owner| owner.name.as_str());
        let again = if run > 1 {
            format!("-{run}")
        } else {
            String::new()
        };
        let room = LONGEST.saturating_sub(again.len() + 1);
        let id: String = self.id.chars().take(room.saturating_sub(OWNER)).collect();
        let owner: String = owner.chars().take(room.saturating_sub(id.len())).collect();
        format!("{owner}-{id}{again}")
    }

    /// The agent's prompt, with the results of the tasks that it depended on.
    pub fn prompt(&self, before: &[QueuedTask]) -> String {
        let mut text = self.goal.trim().to_owned();
        if !self.deliverables.is_empty() {
            text += "\n\nDeliverables:\n";
            text += &self
                .deliverables
                .iter()
                .map(|it| format!("- {it}\n"))
                .collect::<String>();
        }
        for task in before {
            if let super::QueuedTaskState::Completed {
                result: Some(result),
                ..
            } = &task.state
            {
                let goal = task.order.goal.lines().next().unwrap_or_default();
                text += &format!("\n\n[Result of task {}: {goal}]\n{result}", task.order.id);
            }
        }
        format!("{}\n\n{}", text.trim_end(), COMPLETION_NOTE.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{queue::QueuedTaskState, stop::context::Promise, time::UnixTime};

    fn order(id: &str) -> TaskSpec {
        TaskSpec {
            id: id.into(),
            description: TaskDescription {
                goal: "Write it.".into(),
                ..TaskDescription::default()
            },
            ..TaskSpec::default()
        }
    }

    #[test]
    fn names_that_mean_something_elsewhere_are_refused() {
        assert_eq!(order("3").checked(), Ok(order("3")));
        for id in [
            "",
            "-",
            "a.b",
            "*",
            ">",
            "a b",
            "../x",
            "ä",
            &"x".repeat(65),
        ] {
            assert!(
                order(id)
                    .checked()
                    .is_err_and(|why| why.to_string().contains("is not a valid name for a task")),
                "{id}"
            );
        }
        let typed = |kind: &str| {
            TaskSpec {
                description: TaskDescription {
                    kind: Some(kind.into()),
                    ..order("3").description
                },
                ..order("3")
            }
            .checked()
        };
        assert!(typed("bug").is_ok() && typed("b.ug").is_err() && typed("-").is_err());
        let by = |agent: &str| {
            TaskSpec {
                agents: [agent.to_owned()].into(),
                ..order("3")
            }
            .checked()
        };
        assert!(by("codex").is_ok() && by("co+dex").is_err());
        let many = (10..30).map(|n| format!("agent-{n}")).collect();
        assert!(
            TaskSpec {
                agents: many,
                ..order("3")
            }
            .checked()
            .is_err_and(|why| why.to_string().contains("name fewer"))
        );
        let after = |on: &str| {
            TaskSpec {
                dependencies: [on.to_owned()].into(),
                ..order("3")
            }
            .checked()
        };
        assert!(after("2").is_ok() && after("*").is_err());
        assert_eq!(
            TaskSpec {
                description: TaskDescription {
                    goal: " ".into(),
                    ..order("3").description
                },
                ..order("3")
            }
            .checked(),
            Err(TaskRefusal::NoGoal)
        );
    }

    #[test]
    fn names_that_no_server_accepts_are_refused() {
        let long = |bytes| {
            TaskSpec {
                description: TaskDescription {
                    goal: "x".repeat(bytes),
                    ..order("3").description
                },
                ..order("3")
            }
            .checked()
        };
        assert!(long(LARGEST - 1_000).is_ok());
        assert!(long(LARGEST).is_err_and(|why| why.to_string().contains("longer than 512 KiB")));
    }

    #[test]
    fn another_program_says_it_in_fewer_words() {
        let stored: TaskSpec =
            serde_json::from_str(r#"{"task_id":"3","content":"Write it.","more":1}"#)
                .expect("an order");
        assert_eq!(stored, order("3"));
    }

    #[test]
    fn the_session_is_named_after_the_task_and_whose_it_is() {
        assert_eq!(order("3").session(1), "task-3");
        assert_eq!(order("3").session(2), "task-3-2");
        let owner = OwnerSession {
            name: "x".repeat(64),
            id: "1-a".into(),
        };
        let long = TaskSpec {
            session: Some(owner),
            ..order("3")
        }
        .session(12);
        assert_eq!((long.len(), &long[54..]), (60, "x-3-12"));
        let long = order(&"y".repeat(64));
        assert_eq!(long.session(1), format!("task-{}", "y".repeat(55)));
        assert_eq!(long.session(2), format!("task-{}-2", "y".repeat(53)));
    }

    #[test]
    fn the_agent_hears_what_came_of_the_tasks_before() {
        let done = QueuedTaskState::Completed {
            result: Some("It is in a.rs.".into()),
            by: None,
            completed_at: String::new(),
        };
        let before = QueuedTask {
            state: done,
            ..QueuedTask::new(order("1"), UnixTime(0))
        };
        let order = TaskSpec {
            description: TaskDescription {
                deliverables: vec!["b.rs".into()],
                ..order("2").description
            },
            ..order("2")
        };
        let prompt = order.prompt(&[before]);
        let expected = "Write it.\n\nDeliverables:\n- b.rs\n\n\n[Result of task 1: Write it.]\nIt is in a.rs.\n\nWork until";
        assert!(prompt.starts_with(expected), "{prompt}");
    }

    #[test]
    fn the_promise_that_the_prompt_requests_completes_the_task() {
        let prompt = order("1").prompt(&[]);
        assert_eq!(
            Promise::made_in("It works.\n<promise>COMPLETE</promise>", &prompt),
            [Promise::Complete]
        );
        assert_eq!(Promise::made_in(&prompt, &prompt), []);
    }
}
