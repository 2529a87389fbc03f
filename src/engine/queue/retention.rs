//! Which tasks the queue can forget, and which branches of tasks can go.
//!
//! # Invariants
//! - An unfinished task stays, and so does everything that it depends on: it starts from their work
//!   and their results.
//! - Work that is on a branch and not merged yet is not forgotten.
//! - Only branches that creel made for a task can go, and none that an unmerged task may use.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::{
    queue::{QueuedTask, QueuedTaskState, TaskLanding},
    time::{TimeSpan, UnixTime},
};

/// The tasks that ended longer ago than `max_age` and that nothing needs any more.
///
/// Tasks of a session stay. The session may be resumed later, and would hand a task over again that
/// is missing.
pub fn past_tasks<'a>(
    all: impl Iterator<Item = &'a QueuedTask> + Clone,
    max_age: TimeSpan,
    at: UnixTime,
) -> Vec<&'a QueuedTask> {
    let all = all.filter(|task| task.order.session.is_none());
    let unfinished = all.clone().filter(|task| task.is_open());
    let needed: BTreeSet<&str> = unfinished
        .flat_map(|task| &task.order.dependencies)
        .map(String::as_str)
        .collect();
    all.filter(|task| ended_at(task).is_some_and(|ended| at.since(ended) > max_age))
        .filter(|task| !needed.contains(task.order.id.as_str()))
        .collect()
}

/// The branches of merged tasks, each with the work that was merged from it. One with other commits
/// has to stay.
pub fn merged_branches<'a>(
    all: impl Iterator<Item = &'a QueuedTask> + Clone,
) -> BTreeMap<String, Vec<TaskLanding>> {
    let mut found: BTreeMap<String, Vec<TaskLanding>> = BTreeMap::new();
    for task in all.clone() {
        if let Some(landed) = task.landed() {
            for branch in task.own_branches() {
                found.entry(branch).or_default().push(landed.clone());
            }
        }
    }
    // The sessions of two tasks can have the same name.
    let in_use: BTreeSet<String> = all
        .filter(|task| task.merged.is_none())
        .flat_map(|task| task.branch.iter().cloned().chain(task.all_sessions()))
        .collect();
    found.retain(|branch, _| {
        let name = branch.rsplit('/').next().unwrap_or_default();
        !in_use.contains(branch) && !in_use.contains(name)
    });
    found
}

/// When the task ended, unless its work still has to be merged. One that was removed counts from
/// when it was added.
fn ended_at(task: &QueuedTask) -> Option<UnixTime> {
    let is_merged = task.branch.is_none() || task.merged.is_some();
    match &task.state {
        QueuedTaskState::Completed { completed_at, .. } => {
            UnixTime::from_rfc3339(completed_at).filter(|_| is_merged)
        }
        QueuedTaskState::Removed => UnixTime::from_rfc3339(&task.created_at),
        QueuedTaskState::Created
        | QueuedTaskState::Ready
        | QueuedTaskState::Active { .. }
        | QueuedTaskState::Blocked { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{
        queue::task_spec::{OwnerSession, TaskSpec},
        tasks::graph::TaskDescription,
    };

    const HOUR: TimeSpan = TimeSpan::secs(3_600);
    const NOW: UnixTime = UnixTime(100 * 3_600_000);

    fn hours_ago(hours: i64) -> UnixTime {
        UnixTime(NOW.0 - hours * 3_600_000)
    }

    fn created(id: &str) -> QueuedTask {
        let order = TaskSpec {
            id: id.to_owned(),
            description: TaskDescription {
                goal: "Any".to_owned(),
                ..TaskDescription::default()
            },
            ..TaskSpec::default()
        };
        QueuedTask::new(order, hours_ago(50))
    }

    fn completed(id: &str, hours: i64) -> QueuedTask {
        let completed_at = hours_ago(hours).rfc3339();
        QueuedTask {
            state: QueuedTaskState::Completed {
                result: None,
                by: None,
                completed_at,
            },
            ..created(id)
        }
    }

    fn past(tasks: &[QueuedTask]) -> Vec<&str> {
        past_tasks(tasks.iter(), HOUR, NOW)
            .into_iter()
            .map(|task| task.order.id.as_str())
            .collect()
    }

    #[test]
    fn a_task_that_ended_long_ago_is_past() {
        let removed = QueuedTask {
            state: QueuedTaskState::Removed,
            ..created("removed")
        };
        assert_eq!(
            past(&[
                completed("old", 2),
                completed("new", 0),
                created("open"),
                removed
            ]),
            ["old", "removed"]
        );
    }

    #[test]
    fn an_unfinished_task_keeps_what_it_depends_on() {
        let mut waits = created("waits");
        waits.order.dependencies = ["first".to_owned()].into();
        assert_eq!(past(&[completed("first", 2), waits.clone()]), [""; 0]);
        let done = QueuedTask {
            order: waits.order,
            ..completed("waits", 0)
        };
        assert_eq!(past(&[completed("first", 2), done]), ["first"]);
    }

    #[test]
    fn work_that_is_not_merged_stays() {
        let on_branch = completed("work", 2).on_branch(Some("creel/work".to_owned()));
        let merged = on_branch.merged_as("abc").expect("it is completed");
        assert_eq!(
            (past(&[on_branch]).len(), past(&[merged])),
            (0, vec!["work"])
        );
    }

    #[test]
    fn only_branches_that_creel_made_for_merged_tasks_can_go() {
        let on = |id: &str, run: u32, branch: &str| {
            let task = completed(id, 2).on_branch(Some(branch.to_owned()));
            QueuedTask { run, ..task }
        };
        let merged = |task: &QueuedTask| task.merged_as("abc").expect("it is completed");
        let names = |tasks: &[QueuedTask]| -> Vec<String> {
            merged_branches(tasks.iter()).into_keys().collect()
        };
        let second = merged(&on("1", 2, "creel/task-1-2"));
        assert_eq!(
            names(&[second.clone(), on("2", 1, "creel/task-2")]),
            ["creel/task-1", "creel/task-1-2"]
        );
        // The first session of another task has the name of this one's second session.
        assert_eq!(names(&[second, created("1-2")]), ["creel/task-1"]);
        let renamed = merged(&on("3", 1, "creel/task-3-0123abcd"));
        assert_eq!(names(&[renamed]), ["creel/task-3", "creel/task-3-0123abcd"]);
        assert_eq!(names(&[merged(&on("4", 1, "release"))]), [""; 0]);
    }

    #[test]
    fn a_task_of_a_session_stays() {
        let mut task = completed("task_1", 2);
        task.order.session = Some(OwnerSession {
            name: "s".to_owned(),
            id: "x".to_owned(),
        });
        assert_eq!(past(&[task]), [""; 0]);
    }
}
