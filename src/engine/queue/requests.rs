//! What a person, a session or the merge queue asks of a task in the queue.
//!
//! Owns which requests are possible in which state, and what becomes of the task.
//!
//! # Invariants
//! - Nothing changes a task while a worker has it, except its labels and its end.
//! - Work that was merged is not sent back.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::{
    queue::{QueuedTask, QueuedTaskState, TaskAssignee, start_of, task_spec::TaskSpec},
    tasks::{
        command::{TaskChanges, TaskRefusal},
        graph::TaskDescriptionChanges,
        task_rules::relabelled,
    },
    time::UnixTime,
};

/// A request about a task, by a person or by the session that owns the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueRequest {
    /// Put it into the queue again. The agent gets the context.
    Again {
        context: Option<String>,
    },
    Complete(Option<String>),
    Block(String),
    Remove,
    /// Change the description, and the agents that may work on it.
    Update {
        changes: TaskChanges,
        agents: Option<BTreeSet<String>>,
    },
    Depend {
        on: String,
    },
    Undepend {
        on: String,
    },
    /// The work of this run cannot be merged, for this reason. After as many times as the limit
    /// says, the task is blocked.
    SendBack {
        run: u32,
        reason: String,
        limit: u32,
    },
}

/// Why the queue refuses a request about a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueRequestError {
    #[error("the queue has no task {0}")]
    NoSuchTask(String),
    #[error("the queue has no task {0} to depend on")]
    NoDependency(String),
    #[error(transparent)]
    BadChange(#[from] TaskRefusal),
    #[error(
        "{id} belongs to the session {owner}: only its priority and its labels can change here"
    )]
    OfSession { id: String, owner: String },
    #[error("{0} is completed")]
    Completed(String),
    #[error("a reason is needed to block {0}")]
    NoReason(String),
    #[error("{0} depends on a task that is not completed")]
    Waits(String),
    #[error("{0} is not completed, so there is nothing to send back")]
    Unfinished(String),
    #[error("{0} is merged")]
    Merged(String),
    #[error("{0} is already in the queue")]
    Ready(String),
    #[error("{id} is already active on {host}")]
    Active { id: String, host: String },
}

impl QueuedTask {
    pub fn asked(&self, ask: QueueRequest, at: UnixTime) -> Result<Self, QueueRequestError> {
        let id = || self.order.id.clone();
        match (&self.state, ask) {
            (QueuedTaskState::Removed, _) => Err(QueueRequestError::NoSuchTask(id())),
            (_, QueueRequest::Remove) => Ok(self.with(QueuedTaskState::Removed)),
            (_, QueueRequest::Update { changes, agents }) => self.updated(changes, agents),
            (_, QueueRequest::Depend { on }) => self.depending(&on, true),
            (_, QueueRequest::Undepend { on }) => self.depending(&on, false),
            (
                QueuedTaskState::Completed { .. },
                QueueRequest::Complete(_) | QueueRequest::Block(_),
            ) => Err(QueueRequestError::Completed(id())),
            (_, QueueRequest::Complete(result)) => {
                let (by, completed_at) = (self.state.by().cloned(), at.rfc3339());
                Ok(self.with(QueuedTaskState::Completed {
                    result,
                    by,
                    completed_at,
                }))
            }
            (_, QueueRequest::Block(reason)) if reason.trim().is_empty() => {
                Err(QueueRequestError::NoReason(id()))
            }
            (_, QueueRequest::Block(reason)) => Ok(self.with(QueuedTaskState::Blocked {
                reason,
                by: self.state.by().cloned(),
            })),
            (QueuedTaskState::Created, QueueRequest::Again { .. }) => {
                Err(QueueRequestError::Waits(id()))
            }
            (QueuedTaskState::Ready, QueueRequest::Again { .. }) => {
                Err(QueueRequestError::Ready(id()))
            }
            (QueuedTaskState::Active { by, .. }, QueueRequest::Again { .. }) => {
                Err(self.active_at(by))
            }
            // Its dependencies were completed once, but may have been reopened since.
            (QueuedTaskState::Blocked { .. }, QueueRequest::Again { context }) => Ok(Self {
                sent_back: 0,
                context: context.or_else(|| self.context.clone()),
                ..self.again(self.feedback.clone())
            }),
            (QueuedTaskState::Completed { .. }, QueueRequest::Again { context }) => Ok(Self {
                sent_back: 0,
                context,
                ..self.again(None)
            }),
            (QueuedTaskState::Completed { .. }, QueueRequest::SendBack { .. })
                if self.merged.is_some() =>
            {
                Err(QueueRequestError::Merged(id()))
            }
            (QueuedTaskState::Completed { .. }, QueueRequest::SendBack { run, reason, limit })
                if run == self.run =>
            {
                Ok(self.sent_back(&reason, limit))
            }
            (
                QueuedTaskState::Created
                | QueuedTaskState::Ready
                | QueuedTaskState::Active { .. }
                | QueuedTaskState::Blocked { .. }
                | QueuedTaskState::Completed { .. },
                QueueRequest::SendBack { .. },
            ) => Err(QueueRequestError::Unfinished(id())),
        }
    }

    /// Changes the description. A worker has read the one of an active task.
    fn updated(
        &self,
        changes: TaskChanges,
        agents: Option<BTreeSet<String>>,
    ) -> Result<Self, QueueRequestError> {
        let description = TaskDescriptionChanges {
            labels: relabelled(&self.order.labels, &changes),
            ..changes.description
        };
        if description == TaskDescriptionChanges::default() {
            return Err(TaskRefusal::NothingToChange(self.order.id.clone()).into());
        }
        let without_labels = TaskDescriptionChanges {
            labels: None,
            ..description.clone()
        };
        if without_labels != TaskDescriptionChanges::default() {
            self.can_change()?;
        }
        let without_priority = TaskDescriptionChanges {
            priority: None,
            ..without_labels
        };
        if without_priority != TaskDescriptionChanges::default() {
            self.is_of_no_session()?;
        }
        let updated = self.with_order(TaskSpec {
            description: self.order.description.changed(&description),
            agents: agents.unwrap_or_else(|| self.order.agents.clone()),
            ..self.order.clone()
        })?;
        let is_anew = without_priority != TaskDescriptionChanges::default();
        Ok(if is_anew {
            updated.begun_anew()
        } else {
            updated
        })
    }

    /// A session that has begun knows the task as it was: the changed one gets another.
    fn begun_anew(self) -> Self {
        // A blocked task gets another session in any case.
        let waits = matches!(
            self.state,
            QueuedTaskState::Created | QueuedTaskState::Ready
        );
        if self.spent.is_empty() || !waits {
            return self;
        }
        Self {
            run: self.run + 1,
            attempt: 0,
            ..self
        }
    }

    /// Adds a dependency, or removes it. A ready task has to wait again if the other one is open.
    fn depending(&self, on: &str, is_wanted: bool) -> Result<Self, QueueRequestError> {
        self.can_change()?;
        self.is_of_no_session()?;
        let mut order = self.order.clone();
        let (id, on) = (order.id.clone(), on.to_owned());
        let is_new = if is_wanted {
            order.dependencies.insert(on.clone())
        } else {
            order.dependencies.remove(&on)
        };
        match (is_new, is_wanted) {
            (true, _) => {}
            (false, true) => return Err(TaskRefusal::DependsAlready { id, on }.into()),
            (false, false) => return Err(TaskRefusal::DoesNotDepend { id, on }.into()),
        }
        let changed = self.with_order(order)?.begun_anew();
        Ok(match changed.state {
            QueuedTaskState::Ready => changed.with(QueuedTaskState::Created),
            QueuedTaskState::Created
            | QueuedTaskState::Active { .. }
            | QueuedTaskState::Blocked { .. }
            | QueuedTaskState::Completed { .. }
            | QueuedTaskState::Removed => changed,
        })
    }

    fn with_order(&self, order: TaskSpec) -> Result<Self, QueueRequestError> {
        Ok(Self {
            order: order.checked()?,
            ..self.clone()
        })
    }

    fn can_change(&self) -> Result<(), QueueRequestError> {
        match &self.state {
            QueuedTaskState::Active { by, .. } => Err(self.active_at(by)),
            QueuedTaskState::Completed { .. } => {
                Err(QueueRequestError::Completed(self.order.id.clone()))
            }
            QueuedTaskState::Created
            | QueuedTaskState::Ready
            | QueuedTaskState::Blocked { .. }
            | QueuedTaskState::Removed => Ok(()),
        }
    }

    /// Its session knows the task as it was added.
    fn is_of_no_session(&self) -> Result<(), QueueRequestError> {
        match &self.order.session {
            Some(owner) => Err(QueueRequestError::OfSession {
                id: self.order.id.clone(),
                owner: owner.name.clone(),
            }),
            None => Ok(()),
        }
    }

    fn active_at(&self, by: &TaskAssignee) -> QueueRequestError {
        QueueRequestError::Active {
            id: self.order.id.clone(),
            host: by.host.clone(),
        }
    }

    /// Puts the task into the queue again with the reason. At the limit, blocks it.
    pub(super) fn sent_back(&self, reason: &str, limit: u32) -> Self {
        let feedback = Some(start_of(reason));
        if self.sent_back < limit {
            return Self {
                sent_back: self.sent_back + 1,
                ..self.again(feedback)
            };
        }
        let before = match self.sent_back {
            0 => String::new(),
            1 => " (it was sent back once)".to_owned(),
            times => format!(" (it was sent back {times} times)"),
        };
        let reason = start_of(&format!("its work cannot be merged{before}: {reason}"));
        let by = self.state.by().cloned();
        Self {
            feedback,
            ..self.with(QueuedTaskState::Blocked { reason, by })
        }
    }

    /// The next run, once all of its dependencies are completed.
    pub(super) fn again(&self, feedback: Option<String>) -> Self {
        Self {
            run: self.run + 1,
            attempt: 0,
            merged: None,
            landing: None,
            feedback,
            ..self.with(QueuedTaskState::Created)
        }
    }
}

/// The way from one task to another over what each waits for. None if there is no way.
pub fn dependency_path(
    from: &str,
    to: &str,
    all: &BTreeMap<String, BTreeSet<String>>,
) -> Option<Vec<String>> {
    let (mut ways, mut seen) = (vec![vec![from.to_owned()]], BTreeSet::new());
    while let Some(way) = ways.pop() {
        let here = way.last()?;
        if here == to {
            return Some(way);
        }
        if !seen.insert(here.clone()) {
            continue;
        }
        let next = all.get(here).into_iter().flatten();
        ways.extend(next.map(|next| [way.as_slice(), std::slice::from_ref(next)].concat()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::queue::{
        SessionSpending, TaskOutcome, task_spec,
        tests::{AT, begun, task},
    };

    fn anew(context: Option<&str>) -> QueueRequest {
        QueueRequest::Again {
            context: context.map(str::to_owned),
        }
    }

    #[test]
    fn a_person_can_have_it_done_again_and_the_session_is_another_then() {
        let blocked = task(QueuedTaskState::Blocked {
            reason: "no".into(),
            by: None,
        });
        let again = blocked.asked(anew(None), AT).expect("it is blocked");
        assert_eq!(
            (again.run, again.attempt, &again.state),
            (2, 0, &QueuedTaskState::Created)
        );
        assert_ne!(
            again.order.session(again.run),
            blocked.order.session(blocked.run)
        );
        assert_eq!(
            again.asked(anew(None), AT),
            Err(QueueRequestError::Waits("3".into()))
        );
        let removed = blocked
            .asked(QueueRequest::Remove, AT)
            .expect("it is there");
        assert!(!removed.is_open());
        assert_eq!(
            removed.asked(anew(None), AT),
            Err(QueueRequestError::NoSuchTask("3".into()))
        );
    }

    #[test]
    fn a_person_changes_a_task_until_a_worker_has_it() {
        let update = |description| QueueRequest::Update {
            changes: TaskChanges {
                description,
                ..TaskChanges::default()
            },
            agents: None,
        };
        let urgent = update(TaskDescriptionChanges {
            goal: Some("write it".into()),
            priority: Some(0),
            ..TaskDescriptionChanges::default()
        });
        let labelled = QueueRequest::Update {
            changes: TaskChanges {
                add_labels: vec!["night".into()],
                ..TaskChanges::default()
            },
            agents: None,
        };
        let ready = task(QueuedTaskState::Ready);
        let changed = ready.asked(urgent.clone(), AT).expect("it is ready");
        assert_eq!(
            (
                changed.order.goal.as_str(),
                changed.order.priority,
                &changed.state
            ),
            ("write it", 0, &QueuedTaskState::Ready)
        );
        let active = begun(&ready, "a");
        let refused = Err(QueueRequestError::Active {
            id: "3".into(),
            host: "h".into(),
        });
        assert_eq!(active.asked(urgent.clone(), AT), refused);
        let labels = active.asked(labelled, AT).expect("no worker reads labels");
        assert_eq!(labels.order.labels, ["night"]);
        let begun = ready.clone().with_spending(SessionSpending::default());
        let anew = begun.asked(urgent.clone(), AT).expect("it was given back");
        assert_eq!((changed.run, anew.run), (1, 2));
        let nothing = update(TaskDescriptionChanges::default());
        let refused = TaskRefusal::NothingToChange("3".into()).into();
        assert_eq!(ready.asked(nothing, AT), Err(refused));
        let no_goal = update(TaskDescriptionChanges {
            goal: Some(" ".into()),
            ..TaskDescriptionChanges::default()
        });
        let refused = Err(TaskRefusal::NoGoal.into());
        assert_eq!(ready.asked(no_goal, AT), refused);
        let mut owned = ready;
        owned.order.session = Some(task_spec::OwnerSession {
            name: "s".into(),
            id: "1-s".into(),
        });
        assert!(matches!(
            owned.asked(urgent, AT),
            Err(QueueRequestError::OfSession { .. })
        ));
    }

    #[test]
    fn a_ready_task_that_depends_on_another_waits_again() {
        let (depend, undepend) = (
            QueueRequest::Depend { on: "2".into() },
            QueueRequest::Undepend { on: "2".into() },
        );
        let ready = task(QueuedTaskState::Ready);
        let waits = ready.asked(depend.clone(), AT).expect("it is ready");
        assert_eq!(waits.state, QueuedTaskState::Created);
        assert!(waits.order.dependencies.contains("2"));
        let (id, on) = ("3".to_owned(), "2".to_owned());
        let twice = TaskRefusal::DependsAlready { id, on };
        assert_eq!(waits.asked(depend, AT), Err(twice.into()));
        let free = waits.asked(undepend.clone(), AT).expect("it waits");
        assert_eq!(free.order.dependencies, ready.order.dependencies);
        assert!(free.asked(undepend, AT).is_err());
        let all = [("1", "2"), ("2", "3"), ("3", "1")]
            .map(|(from, to)| (from.to_owned(), [to.to_owned()].into()));
        let all = BTreeMap::from(all);
        assert_eq!(
            dependency_path("1", "3", &all),
            Some(["1", "2", "3"].map(str::to_owned).to_vec())
        );
        assert_eq!(dependency_path("1", "4", &all), None);
    }

    #[test]
    fn the_agent_of_a_task_that_starts_again_gets_the_context() {
        let blocked = task(QueuedTaskState::Blocked {
            reason: "no".into(),
            by: None,
        });
        let again = blocked
            .asked(anew(Some("use tabs")), AT)
            .expect("it is blocked");
        assert!(
            again
                .prompt(&[])
                .starts_with("g\n\nYour user says about it:\nuse tabs\n\n")
        );
        let done =
            begun(&again.with(QueuedTaskState::Ready), "a").ended("a", TaskOutcome::Done(None), AT);
        let done = done.expect("it is a's");
        let twice = done.asked(anew(None), AT).expect("it is completed");
        assert_eq!(twice.context, None);
    }

    #[test]
    fn a_task_is_sent_back_up_to_the_limit_and_a_person_starts_the_count_again() {
        let send_back = |run| QueueRequest::SendBack {
            run,
            reason: "it conflicts".into(),
            limit: 1,
        };
        let completed = |task: &QueuedTask| {
            let active = begun(&task.with(QueuedTaskState::Ready), "a");
            let done = active.ended("a", TaskOutcome::Done(None), AT);
            done.expect("it is a's")
        };
        let refused = Err(QueueRequestError::Unfinished("3".into()));
        let done = completed(&task(QueuedTaskState::Ready));
        let once = done.asked(send_back(1), AT).expect("it is completed");
        assert_eq!((once.run, once.sent_back), (2, 1));
        assert_eq!(once.asked(send_back(2), AT), refused);
        let again = completed(&once);
        assert_eq!(again.asked(send_back(1), AT), refused, "of an earlier run");
        let blocked = again.asked(send_back(2), AT).expect("it is completed");
        let why = "its work cannot be merged (it was sent back once): it conflicts";
        assert!(
            matches!(&blocked.state, QueuedTaskState::Blocked { reason, .. } if reason == why),
            "{blocked:?}"
        );
        let started = blocked.asked(anew(None), AT).expect("it is blocked");
        assert_eq!(
            (started.run, started.sent_back, started.feedback.as_deref()),
            (3, 0, Some("it conflicts"))
        );
        let merged = done.merged_as("abc").expect("it is completed");
        let refused = Err(QueueRequestError::Merged("3".into()));
        assert_eq!(merged.asked(send_back(1), AT), refused);
    }
}
