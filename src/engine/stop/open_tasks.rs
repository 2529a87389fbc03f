//! Open tasks at the end: an agent that says it is done is reminded of them, once per set of them.

use std::collections::BTreeSet;

use crate::{
    engine::{
        policy::OpenTasksPolicy,
        stop::{
            chain::StopVerdict,
            decision::{StopAction, StopResult},
            stop_rules::StopRules,
        },
        tasks::{
            SessionTasks,
            task::{Task, TaskState},
        },
    },
    text::counted,
};

/// The hook name in decisions about open tasks.
const OPEN_TASKS: &str = "open_tasks";

impl SessionTasks {
    /// The tasks that the session's agent still has to do: ready, active, or waiting for such a
    /// task. Tasks of the queue and tasks that automation created are not its own.
    pub fn open_here(&self) -> Vec<&Task> {
        let own = |task: &&Task| !task.is_elsewhere() && !self.automated.contains(&task.id);
        let all: Vec<&Task> = self.graph.tasks().into_iter().filter(own).collect();
        let mut open: BTreeSet<&str> = BTreeSet::new();
        loop {
            let before = open.len();
            for task in &all {
                let waits_for_one = || {
                    task.dependencies
                        .iter()
                        .any(|on| open.contains(on.as_str()))
                };
                let is_open = match task.state {
                    TaskState::Ready | TaskState::Active => true,
                    TaskState::Created => waits_for_one(),
                    TaskState::Blocked | TaskState::Completed => false,
                };
                if is_open {
                    open.insert(&task.id);
                }
            }
            if open.len() == before {
                return all
                    .into_iter()
                    .filter(|task| open.contains(task.id.as_str()))
                    .collect();
            }
        }
    }

    /// The list of the open tasks for a prompt. None if there are none.
    pub(crate) fn open_list(&self) -> Option<String> {
        let open = self.open_here();
        let lines = open
            .iter()
            .map(|task| format!("- {} ({}): {}", task.id, task.state.name(), task.goal));
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

impl StopRules<'_> {
    /// Turns complete into continue if the session has open tasks that the agent was not reminded
    /// of.
    pub(crate) fn remind_of_tasks(self, verdict: StopVerdict) -> StopVerdict {
        let open: Vec<String> = self
            .tasks
            .open_here()
            .iter()
            .map(|task| task.id.clone())
            .collect();
        let was_reminded = open.is_empty() || open == self.stop.reminded;
        let is_last = self.iterations.used() >= self.iterations.limit(self.plan);
        let completes = verdict.result.action == StopAction::Complete;
        if !completes
            || was_reminded
            || is_last
            || self.plan.stop.open_tasks == OpenTasksPolicy::Ignore
        {
            return verdict;
        }
        let are = if open.len() == 1 { "is" } else { "are" };
        let count = format!("{} of this session {are} open", counted(open.len(), "task"));
        let list = self.tasks.open_list().unwrap_or_default();
        let prompt = format!(
            "[Open tasks]: you said that you are done, but {count}. Complete each one with \
             `creel task done ID` when it is done, block it with its reason, or remove it:\n{list}"
        );
        let result = StopResult::new(
            StopAction::Continue,
            format!("the agent says it is done, but {count}"),
        );
        StopVerdict {
            open_tasks: open,
            ..verdict.overruled_by(OPEN_TASKS, result.telling(prompt))
        }
    }
}
