//! A task of a session that others do: what the session and the queue have to tell each other.
//!
//! The session knows when the task can be begun, the queue knows who works on it. Either may change at any time, also
//! while nobody listens.
//!
//! # Invariants
//! - When both know the same, nothing is due; what is due brings them nearer to that.

use super::{Ask, Queued, Standing};
use crate::engine::tasks::{
    command::{Completion, TaskCommand},
    task::TaskState,
};

/// Why nobody works on a task that waits for others of its session.
const WAITS: &str = "it waits for other tasks of its session";

/// The task, as its session knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ours<'a> {
    /// Its name.
    pub id: &'a str,
    /// Where it is.
    pub state: TaskState,
    /// What came of it.
    pub result: Option<&'a str>,
    /// Why it is blocked.
    pub reason: Option<&'a str>,
}

/// Who has something new to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// The session.
    OfSession,
    /// The queue.
    OfQueue,
    /// Nobody knows: either may have changed while they did not hear of each other.
    AfterSilence,
}

/// What has to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// Put the task into the queue.
    Put,
    /// Ask something of the queue.
    Ask(Ask),
    /// Tell the session.
    Tell(TaskCommand),
}

/// What has to be done about a task.
pub fn due(ours: Option<Ours<'_>>, queued: Option<&Queued>, news: News) -> Due {
    let Some(ours) = ours else {
        return if queued.is_some_and(Queued::is_open) { Due::Ask(Ask::Remove) } else { Due::Nothing };
    };
    let Some(queued) = queued else {
        return if ours.state == TaskState::Ready { Due::Put } else { Due::Nothing };
    };
    match ours.state {
        TaskState::Completed if queued.is_open() => Due::Ask(Ask::Complete(ours.result.map(str::to_owned))),
        TaskState::Completed => Due::Nothing,
        TaskState::Created | TaskState::Blocked => held(ours, &queued.standing, news),
        TaskState::Ready => ready(ours, &queued.standing, news),
        TaskState::Active => active(ours, &queued.standing, news),
    }
}

/// Nobody may work on it, as far as the session knows.
fn held(ours: Ours<'_>, standing: &Standing, news: News) -> Due {
    match (standing, news) {
        // It was put into the queue again.
        (Standing::Created | Standing::Ready | Standing::Active { .. }, News::OfQueue)
            if ours.state == TaskState::Blocked =>
        {
            Due::Tell(TaskCommand::MakeReady { id: ours.id.to_owned() })
        }
        (Standing::Created | Standing::Ready | Standing::Active { .. }, _) => {
            Due::Ask(Ask::Block(ours.reason.unwrap_or(WAITS).to_owned()))
        }
        (Standing::Blocked { .. } | Standing::Removed, _) => Due::Nothing,
        (Standing::Completed { result, .. }, _) => completed(ours, result.as_ref()),
    }
}

/// Somebody may begin.
fn ready(ours: Ours<'_>, standing: &Standing, news: News) -> Due {
    match (standing, news) {
        // The bucket keeps only the last state: a quick worker may have completed a task before the session heard of its
        // start. The completion follows when the session knows of the start.
        (Standing::Active { by, .. }, _)
        | (Standing::Completed { by: Some(by), .. }, News::OfQueue | News::AfterSilence) => {
            let context = format!("in session {} on {}", by.session, by.host);
            Due::Tell(TaskCommand::TakenUp { id: ours.id.to_owned(), context })
        }
        // It was made ready again.
        (Standing::Blocked { .. }, News::OfSession) => Due::Ask(Ask::Again),
        (
            Standing::Created
            | Standing::Ready
            | Standing::Blocked { .. }
            | Standing::Removed
            | Standing::Completed { .. },
            _,
        ) => active(ours, standing, news),
    }
}

/// Somebody works on it.
fn active(ours: Ours<'_>, standing: &Standing, news: News) -> Due {
    let block = |reason: &str| {
        let (id, reason) = (ours.id.to_owned(), reason.to_owned());
        Due::Tell(TaskCommand::Block { id, reason, required_knowledge: Vec::new() })
    };
    match (standing, news) {
        (Standing::Blocked { reason, .. }, News::OfQueue | News::AfterSilence) => block(reason),
        (Standing::Removed, News::OfQueue | News::AfterSilence) => block("it was taken out of the queue"),
        (Standing::Completed { result, .. }, _) => completed(ours, result.as_ref()),
        // A worker that left gave it back: the next one goes on with it.
        (Standing::Created | Standing::Ready | Standing::Active { .. }, _)
        | (Standing::Blocked { .. } | Standing::Removed, News::OfSession) => Due::Nothing,
    }
}

fn completed(ours: Ours<'_>, result: Option<&String>) -> Due {
    let (id, result) = (ours.id.to_owned(), result.cloned());
    Due::Tell(TaskCommand::Complete(Completion { id, content: None, result, artifacts: Vec::new() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{
        queue::{Hand, order::Order},
        time::At,
    };

    const ALL: [News; 3] = [News::OfSession, News::OfQueue, News::AfterSilence];

    fn ours(state: TaskState) -> Ours<'static> {
        let reason = (state == TaskState::Blocked).then_some("no");
        Ours { id: "3", state, result: (state == TaskState::Completed).then_some("good"), reason }
    }

    fn standings() -> [Standing; 6] {
        let by = Hand { worker: "w".into(), host: "h".into(), session: "s-3".into() };
        [
            Standing::Created,
            Standing::Ready,
            Standing::Active { by, started_at: String::new() },
            Standing::Blocked { reason: "stuck".into(), by: None },
            Standing::Completed { result: Some("fine".into()), by: None, completed_at: String::new() },
            Standing::Removed,
        ]
    }

    fn queued(standing: Standing) -> Queued {
        Queued { standing, ..Queued::new(Order { id: "3".into(), ..Order::default() }, At(0)) }
    }

    /// What the session would know of it then.
    fn told(state: TaskState, due: &Due) -> TaskState {
        match due {
            Due::Tell(TaskCommand::TakenUp { .. }) => TaskState::Active,
            Due::Tell(TaskCommand::Complete(_)) => TaskState::Completed,
            Due::Tell(TaskCommand::Block { .. }) => TaskState::Blocked,
            Due::Tell(TaskCommand::MakeReady { .. }) => TaskState::Ready,
            Due::Nothing | Due::Put | Due::Ask(_) | Due::Tell(_) => state,
        }
    }

    #[test]
    fn a_task_goes_into_the_queue_when_it_is_ready_and_not_before() {
        for news in ALL {
            let states = TaskState::ALL.map(|state| due(Some(ours(state)), None, news) == Due::Put);
            assert_eq!(states, [false, true, false, false, false]);
        }
    }

    #[test]
    fn what_came_of_it_is_told_whatever_the_session_thought() {
        let done = queued(standings()[4].clone());
        for (state, news) in TaskState::ALL.into_iter().flat_map(|state| ALL.map(|news| (state, news))) {
            let told = matches!(due(Some(ours(state)), Some(&done), news), Due::Tell(TaskCommand::Complete(_)));
            assert_eq!(told, state != TaskState::Completed);
        }
    }

    #[test]
    fn a_task_that_a_worker_completed_quickly_is_started_first() {
        let by = Hand { worker: "w".into(), host: "h".into(), session: "s-3".into() };
        let done = queued(Standing::Completed { result: None, by: Some(by), completed_at: String::new() });
        for news in [News::OfQueue, News::AfterSilence] {
            let first = due(Some(ours(TaskState::Ready)), Some(&done), news);
            assert!(matches!(first, Due::Tell(TaskCommand::TakenUp { .. })), "{first:?}");
        }
        let then = due(Some(ours(TaskState::Active)), Some(&done), News::OfSession);
        assert!(matches!(then, Due::Tell(TaskCommand::Complete(_))), "{then:?}");
    }

    #[test]
    fn a_task_that_is_gone_or_done_at_home_is_not_worked_on_elsewhere() {
        for standing in standings().map(queued) {
            let open = standing.is_open();
            let gone = due(None, Some(&standing), News::OfSession);
            assert_eq!(gone, if open { Due::Ask(Ask::Remove) } else { Due::Nothing });
            let done = due(Some(ours(TaskState::Completed)), Some(&standing), News::OfSession);
            assert_eq!(done, if open { Due::Ask(Ask::Complete(Some("good".into()))) } else { Due::Nothing });
        }
    }

    #[test]
    fn a_blocked_task_that_is_made_ready_again_is_put_into_the_queue_again() {
        let blocked = queued(standings()[3].clone());
        assert_eq!(due(Some(ours(TaskState::Ready)), Some(&blocked), News::OfSession), Due::Ask(Ask::Again));
        for news in [News::OfQueue, News::AfterSilence] {
            let told = due(Some(ours(TaskState::Ready)), Some(&blocked), news);
            assert!(matches!(told, Due::Tell(TaskCommand::Block { reason, .. }) if reason == "stuck"));
        }
        let again = due(Some(ours(TaskState::Blocked)), Some(&queued(Standing::Ready)), News::OfQueue);
        assert_eq!(again, Due::Tell(TaskCommand::MakeReady { id: "3".into() }));
    }

    #[test]
    fn who_blocked_a_task_while_nobody_heard_it_has_it_blocked() {
        for news in [News::OfSession, News::AfterSilence] {
            let asked = due(Some(ours(TaskState::Blocked)), Some(&queued(Standing::Ready)), news);
            assert_eq!(asked, Due::Ask(Ask::Block("no".into())));
        }
    }

    #[test]
    fn whatever_both_know_they_agree_soon() {
        for (mut state, standing) in TaskState::ALL.into_iter().flat_map(|state| standings().map(|it| (state, it))) {
            let (before, mut queued) = (state, queued(standing.clone()));
            let mut steps = 0;
            for news in ALL.into_iter().cycle() {
                let due = due(Some(ours(state)), Some(&queued), news);
                match &due {
                    Due::Ask(ask) => queued = queued.asked(ask.clone(), At(0)).expect("it can be asked"),
                    Due::Nothing if steps > 4 => break,
                    Due::Nothing | Due::Put | Due::Tell(_) => {}
                }
                state = told(state, &due);
                steps += 1;
                assert!(steps < 20, "{before:?} and {standing:?} never agree");
            }
        }
    }
}
