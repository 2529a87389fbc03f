//! Keeps a session and the queue in step about a task of the session that a worker does.
//!
//! The session knows when the task is ready, the queue knows which worker has it. Either can change
//! at any time, also while they are disconnected.
//!
//! # Invariants
//! - When both agree, no action is due; every action brings them closer to agreement.

use crate::engine::{
    queue::{QueueRequest, QueuedTask, QueuedTaskState},
    tasks::{
        command::{TaskCommand, TaskCompletion},
        graph::TaskState,
    },
};

/// Why a queued task is blocked while it waits for other tasks of its session.
const WAITS: &str = "it waits for other tasks of its session";

/// The task in the session's graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTask<'a> {
    pub id: &'a str,
    pub state: TaskState,
    pub result: Option<&'a str>,
    pub reason: Option<&'a str>,
}

/// Which side has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandoverTrigger {
    OfSession,
    OfQueue,
    /// Unknown: either side may have changed while they were disconnected.
    AfterSilence,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandoverAction {
    Nothing,
    Put,
    Ask(QueueRequest),
    /// Send a command to the session.
    Tell(TaskCommand),
}

/// The next action for a task.
pub fn due(
    ours: Option<LocalTask<'_>>,
    queued: Option<&QueuedTask>,
    news: HandoverTrigger,
) -> HandoverAction {
    let Some(ours) = ours else {
        return if queued.is_some_and(QueuedTask::is_open) {
            HandoverAction::Ask(QueueRequest::Remove)
        } else {
            HandoverAction::Nothing
        };
    };
    let Some(queued) = queued else {
        return if ours.state == TaskState::Ready {
            HandoverAction::Put
        } else {
            HandoverAction::Nothing
        };
    };
    match ours.state {
        TaskState::Completed if queued.is_open() => {
            HandoverAction::Ask(QueueRequest::Complete(ours.result.map(str::to_owned)))
        }
        TaskState::Completed => HandoverAction::Nothing,
        TaskState::Created | TaskState::Blocked => held(ours, &queued.state, news),
        TaskState::Ready => ready(ours, &queued.state, news),
        TaskState::Active => active(ours, &queued.state, news),
    }
}

/// The session's task is not ready: no worker should start it.
fn held(ours: LocalTask<'_>, state: &QueuedTaskState, news: HandoverTrigger) -> HandoverAction {
    match (state, news) {
        // A person put it into the queue again.
        (
            QueuedTaskState::Created | QueuedTaskState::Ready | QueuedTaskState::Active { .. },
            HandoverTrigger::OfQueue,
        ) if ours.state == TaskState::Blocked => HandoverAction::Tell(TaskCommand::MakeReady {
            id: ours.id.to_owned(),
        }),
        (QueuedTaskState::Created | QueuedTaskState::Ready | QueuedTaskState::Active { .. }, _) => {
            HandoverAction::Ask(QueueRequest::Block(ours.reason.unwrap_or(WAITS).to_owned()))
        }
        (QueuedTaskState::Blocked { .. } | QueuedTaskState::Removed, _) => HandoverAction::Nothing,
        (QueuedTaskState::Completed { result, .. }, _) => completed(ours, result.as_ref()),
    }
}

/// The session's task is ready: a worker can start it.
fn ready(ours: LocalTask<'_>, state: &QueuedTaskState, news: HandoverTrigger) -> HandoverAction {
    match (state, news) {
        // The bucket keeps only the last state: a quick worker may have completed a task before the
        // session heard of its start. The completion follows when the session knows of the start.
        (QueuedTaskState::Active { by, .. }, _)
        | (
            QueuedTaskState::Completed { by: Some(by), .. },
            HandoverTrigger::OfQueue | HandoverTrigger::AfterSilence,
        ) => {
            let context = format!("in session {} on {}", by.session, by.host);
            HandoverAction::Tell(TaskCommand::TakenUp {
                id: ours.id.to_owned(),
                context,
            })
        }
        // The session made it ready again.
        (QueuedTaskState::Blocked { .. }, HandoverTrigger::OfSession) => {
            HandoverAction::Ask(QueueRequest::Again { context: None })
        }
        (
            QueuedTaskState::Created
            | QueuedTaskState::Ready
            | QueuedTaskState::Blocked { .. }
            | QueuedTaskState::Removed
            | QueuedTaskState::Completed { .. },
            _,
        ) => active(ours, state, news),
    }
}

/// In the session, a worker is doing the task.
fn active(ours: LocalTask<'_>, state: &QueuedTaskState, news: HandoverTrigger) -> HandoverAction {
    let block = |reason: &str| {
        let (id, reason) = (ours.id.to_owned(), reason.to_owned());
        HandoverAction::Tell(TaskCommand::Block {
            id,
            reason,
            required_knowledge: Vec::new(),
        })
    };
    match (state, news) {
        (
            QueuedTaskState::Blocked { reason, .. },
            HandoverTrigger::OfQueue | HandoverTrigger::AfterSilence,
        ) => block(reason),
        (QueuedTaskState::Removed, HandoverTrigger::OfQueue | HandoverTrigger::AfterSilence) => {
            block("it was removed from the queue")
        }
        (QueuedTaskState::Completed { result, .. }, _) => completed(ours, result.as_ref()),
        // A worker that shut down returned the task: the next worker continues it.
        (QueuedTaskState::Created | QueuedTaskState::Ready | QueuedTaskState::Active { .. }, _)
        | (
            QueuedTaskState::Blocked { .. } | QueuedTaskState::Removed,
            HandoverTrigger::OfSession,
        ) => HandoverAction::Nothing,
    }
}

fn completed(ours: LocalTask<'_>, result: Option<&String>) -> HandoverAction {
    let (id, result) = (ours.id.to_owned(), result.cloned());
    HandoverAction::Tell(TaskCommand::Complete(TaskCompletion {
        id,
        content: None,
        result,
        artifacts: Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{
        queue::{TaskAssignee, task_spec::TaskSpec},
        time::UnixTime,
    };

    const ALL: [HandoverTrigger; 3] = [
        HandoverTrigger::OfSession,
        HandoverTrigger::OfQueue,
        HandoverTrigger::AfterSilence,
    ];

    fn ours(state: TaskState) -> LocalTask<'static> {
        let reason = (state == TaskState::Blocked).then_some("no");
        LocalTask {
            id: "3",
            state,
            result: (state == TaskState::Completed).then_some("good"),
            reason,
        }
    }

    fn queued_states() -> [QueuedTaskState; 6] {
        let by = TaskAssignee {
            worker: "w".into(),
            host: "h".into(),
            session: "s-3".into(),
        };
        [
            QueuedTaskState::Created,
            QueuedTaskState::Ready,
            QueuedTaskState::Active {
                by,
                started_at: String::new(),
            },
            QueuedTaskState::Blocked {
                reason: "stuck".into(),
                by: None,
            },
            QueuedTaskState::Completed {
                result: Some("fine".into()),
                by: None,
                completed_at: String::new(),
            },
            QueuedTaskState::Removed,
        ]
    }

    fn queued(state: QueuedTaskState) -> QueuedTask {
        QueuedTask {
            state,
            ..QueuedTask::new(
                TaskSpec {
                    id: "3".into(),
                    ..TaskSpec::default()
                },
                UnixTime(0),
            )
        }
    }

    /// What the session would know of it then.
    fn applied(state: TaskState, due: &HandoverAction) -> TaskState {
        match due {
            HandoverAction::Tell(TaskCommand::TakenUp { .. }) => TaskState::Active,
            HandoverAction::Tell(TaskCommand::Complete(_)) => TaskState::Completed,
            HandoverAction::Tell(TaskCommand::Block { .. }) => TaskState::Blocked,
            HandoverAction::Tell(TaskCommand::MakeReady { .. }) => TaskState::Ready,
            HandoverAction::Nothing
            | HandoverAction::Put
            | HandoverAction::Ask(_)
            | HandoverAction::Tell(_) => state,
        }
    }

    #[test]
    fn a_task_goes_into_the_queue_when_it_is_ready_and_not_before() {
        for news in ALL {
            let states = TaskState::ALL
                .map(|state| due(Some(ours(state)), None, news) == HandoverAction::Put);
            assert_eq!(states, [false, true, false, false, false]);
        }
    }

    #[test]
    fn the_result_is_recorded_whatever_state_the_session_has() {
        let done = queued(queued_states()[4].clone());
        for (state, news) in TaskState::ALL
            .into_iter()
            .flat_map(|state| ALL.map(|news| (state, news)))
        {
            let applied = matches!(
                due(Some(ours(state)), Some(&done), news),
                HandoverAction::Tell(TaskCommand::Complete(_))
            );
            assert_eq!(applied, state != TaskState::Completed);
        }
    }

    #[test]
    fn a_task_that_a_worker_completed_quickly_is_started_first() {
        let by = TaskAssignee {
            worker: "w".into(),
            host: "h".into(),
            session: "s-3".into(),
        };
        let done = queued(QueuedTaskState::Completed {
            result: None,
            by: Some(by),
            completed_at: String::new(),
        });
        for news in [HandoverTrigger::OfQueue, HandoverTrigger::AfterSilence] {
            let first = due(Some(ours(TaskState::Ready)), Some(&done), news);
            assert!(
                matches!(first, HandoverAction::Tell(TaskCommand::TakenUp { .. })),
                "{first:?}"
            );
        }
        let then = due(
            Some(ours(TaskState::Active)),
            Some(&done),
            HandoverTrigger::OfSession,
        );
        assert!(
            matches!(then, HandoverAction::Tell(TaskCommand::Complete(_))),
            "{then:?}"
        );
    }

    #[test]
    fn a_task_that_is_gone_or_done_at_home_is_not_worked_on_elsewhere() {
        for state in queued_states().map(queued) {
            let open = state.is_open();
            let gone = due(None, Some(&state), HandoverTrigger::OfSession);
            assert_eq!(
                gone,
                if open {
                    HandoverAction::Ask(QueueRequest::Remove)
                } else {
                    HandoverAction::Nothing
                }
            );
            let done = due(
                Some(ours(TaskState::Completed)),
                Some(&state),
                HandoverTrigger::OfSession,
            );
            assert_eq!(
                done,
                if open {
                    HandoverAction::Ask(QueueRequest::Complete(Some("good".into())))
                } else {
                    HandoverAction::Nothing
                }
            );
        }
    }

    #[test]
    fn a_blocked_task_that_is_made_ready_again_is_put_into_the_queue_again() {
        let blocked = queued(queued_states()[3].clone());
        assert_eq!(
            due(
                Some(ours(TaskState::Ready)),
                Some(&blocked),
                HandoverTrigger::OfSession
            ),
            HandoverAction::Ask(QueueRequest::Again { context: None })
        );
        for news in [HandoverTrigger::OfQueue, HandoverTrigger::AfterSilence] {
            let applied = due(Some(ours(TaskState::Ready)), Some(&blocked), news);
            assert!(
                matches!(applied, HandoverAction::Tell(TaskCommand::Block { reason, .. }) if reason == "stuck")
            );
        }
        let again = due(
            Some(ours(TaskState::Blocked)),
            Some(&queued(QueuedTaskState::Ready)),
            HandoverTrigger::OfQueue,
        );
        assert_eq!(
            again,
            HandoverAction::Tell(TaskCommand::MakeReady { id: "3".into() })
        );
    }

    #[test]
    fn a_task_blocked_while_disconnected_becomes_blocked_in_the_queue() {
        for news in [HandoverTrigger::OfSession, HandoverTrigger::AfterSilence] {
            let asked = due(
                Some(ours(TaskState::Blocked)),
                Some(&queued(QueuedTaskState::Ready)),
                news,
            );
            assert_eq!(asked, HandoverAction::Ask(QueueRequest::Block("no".into())));
        }
    }

    #[test]
    fn whatever_both_know_they_agree_soon() {
        for (mut state, in_queue) in TaskState::ALL
            .into_iter()
            .flat_map(|state| queued_states().map(|it| (state, it)))
        {
            let (before, mut queued) = (state, queued(in_queue.clone()));
            let mut steps = 0;
            for news in ALL.into_iter().cycle() {
                let due = due(Some(ours(state)), Some(&queued), news);
                match &due {
                    HandoverAction::Ask(ask) => {
                        queued = queued
                            .asked(ask.clone(), UnixTime(0))
                            .expect("it can be asked");
                    }
                    HandoverAction::Nothing if steps > 4 => break,
                    HandoverAction::Nothing | HandoverAction::Put | HandoverAction::Tell(_) => {}
                }
                state = applied(state, &due);
                steps += 1;
                assert!(steps < 20, "{before:?} and {in_queue:?} never agree");
            }
        }
    }
}
