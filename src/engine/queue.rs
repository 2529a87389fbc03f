//! The queue that many machines work from: what may become of a task in it.
//!
//! Owns the rules: who may begin, who says what came of it, when it is begun again. What is to be done is an [`task_spec`]; what a
//! session and the queue have to tell each other of a task of the session is a [`handover`]; which tasks a worker takes is its
//! [`worker_rules`].
//! Does not keep tasks and does not hand them out: a board and a line do, wherever those are.
//!
//! # Invariants
//! - A task is begun only when nothing that it waits for is open.
//! - Whoever has a task says what came of it, and nobody else does: one whose worker was taken for dead belongs to the
//!   next worker, and what the first one says then counts for nothing.
//! - A task that takes its worker down again and again is not handed out for ever.

pub mod handover;
pub mod task_spec;
pub mod worker_rules;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{SessionState, event::SessionOutcome, stop::promise::Promise, tasks::task::TaskState, time::UnixTime};
use crate::engine::queue::task_spec::TaskSpec;

/// How often somebody begins with a task: it may be the task that workers die of.
pub const ATTEMPTS: u32 = 5;
/// How much of what the agent said in the end is kept as the result, and how much of a reason.
const RESULT: usize = 4 << 10;

/// A task, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedTask {
    /// What is to be done.
    #[serde(flatten)]
    pub order: TaskSpec,
    /// When it was added.
    pub created_at: String,
    /// How often it was put into the queue: a person can do it again.
    pub run: u32,
    /// How often somebody began with it since then.
    pub attempt: u32,
    /// Where it is.
    #[serde(flatten)]
    pub standing: QueuedTaskState,
}

/// Where a task is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum QueuedTaskState {
    /// It waits for others.
    Created,
    /// Somebody can begin.
    Ready,
    /// Somebody works on it.
    Active {
        /// Who.
        by: TaskAssignee,
        /// Since when.
        started_at: String,
    },
    /// Nobody goes on without a person.
    Blocked {
        /// Why.
        reason: String,
        /// Who worked on it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<TaskAssignee>,
    },
    /// It is done.
    Completed {
        /// What came of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<String>,
        /// Who worked on it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<TaskAssignee>,
        /// When.
        completed_at: String,
    },
    /// It is not to be done any more. The name stays taken.
    Removed,
}

/// Who works on a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskAssignee {
    /// The worker, one of all that ever were.
    pub worker: String,
    /// Its machine.
    pub host: String,
    /// The session in which the work is done.
    pub session: String,
}

/// What becomes of a task that a worker was handed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The worker begins.
    Begin(QueuedTask),
    /// Nobody begins any more: it took too many workers down.
    GivenUp(QueuedTask),
    /// There is nothing to do: it is over, or was handed out too early.
    Nothing,
}

/// What came of a session that worked on a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskOutcome {
    /// The work is done.
    Done(Option<String>),
    /// A person has to see to it.
    Stuck(String),
}

/// What a person can ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueRequest {
    /// Work on it again.
    Again,
    /// It is done.
    Complete(Option<String>),
    /// Nobody shall begin.
    Block(String),
    /// It is not to be done any more.
    Remove,
}

impl QueuedTaskState {
    /// The same, as a task of a session has it. None, if there is no such task any more.
    pub const fn state(&self) -> Option<TaskState> {
        match self {
            Self::Created => Some(TaskState::Created),
            Self::Ready => Some(TaskState::Ready),
            Self::Active { .. } => Some(TaskState::Active),
            Self::Blocked { .. } => Some(TaskState::Blocked),
            Self::Completed { .. } => Some(TaskState::Completed),
            Self::Removed => None,
        }
    }

    /// Who works on it, or did.
    pub const fn by(&self) -> Option<&TaskAssignee> {
        match self {
            Self::Active { by, .. } => Some(by),
            Self::Blocked { by, .. } | Self::Completed { by, .. } => by.as_ref(),
            Self::Created | Self::Ready | Self::Removed => None,
        }
    }
}

impl QueuedTask {
    /// A new task.
    pub fn new(order: TaskSpec, at: UnixTime) -> Self {
        Self { order, created_at: at.rfc3339(), run: 1, attempt: 0, standing: QueuedTaskState::Created }
    }

    /// What a session that works on it is known by, among all tasks that ever were, also of other queues.
    pub fn mark(&self) -> String {
        let owner = self.order.session.as_ref().map_or("-", |owner| owner.id.as_str());
        format!("{owner}.{}/{}/{}", self.order.id, self.created_at, self.run)
    }

    /// Whether whoever waits for it still has to.
    pub const fn is_open(&self) -> bool {
        !matches!(self.standing, QueuedTaskState::Completed { .. } | QueuedTaskState::Removed)
    }

    /// The same task as one that can be begun, if nothing that it waits for is open any more.
    pub fn readied(&self, is_open: impl Fn(&str) -> bool) -> Option<Self> {
        let waits = self.order.dependencies.iter().any(|on| is_open(on));
        (self.standing == QueuedTaskState::Created && !waits).then(|| self.with(QueuedTaskState::Ready))
    }

    /// Whether somebody is to work on it now, or will be when others have done theirs.
    pub fn is_ahead<'a>(&'a self, known: impl Fn(&str) -> Option<&'a Self>) -> bool {
        match self.standing {
            QueuedTaskState::Ready | QueuedTaskState::Active { .. } => true,
            QueuedTaskState::Created => self.is_coming(known),
            QueuedTaskState::Blocked { .. } | QueuedTaskState::Completed { .. } | QueuedTaskState::Removed => false,
        }
    }

    /// Whether it waits for nothing but what others work on, however far around: then it will be ready when they are done. One
    /// that has nothing in its way is about to be.
    fn is_coming<'a>(&'a self, known: impl Fn(&str) -> Option<&'a Self>) -> bool {
        let (mut next, mut seen) = (vec![self], BTreeSet::new());
        while let Some(task) = next.pop() {
            for on in task.order.dependencies.iter().filter(|on| seen.insert(on.as_str())).filter_map(|on| known(on)) {
                match on.standing {
                    QueuedTaskState::Created => next.push(on),
                    QueuedTaskState::Ready | QueuedTaskState::Blocked { .. } => return false,
                    QueuedTaskState::Active { .. } | QueuedTaskState::Completed { .. } | QueuedTaskState::Removed => {}
                }
            }
        }
        true
    }

    /// What becomes of it in the hands of a worker. To be handed one that is active means that its worker gave no sign of
    /// life for too long.
    pub fn claimed(&self, by: TaskAssignee, at: UnixTime) -> ClaimOutcome {
        match &self.standing {
            QueuedTaskState::Created
            | QueuedTaskState::Blocked { .. }
            | QueuedTaskState::Completed { .. }
            | QueuedTaskState::Removed => ClaimOutcome::Nothing,
            QueuedTaskState::Ready | QueuedTaskState::Active { .. } if self.attempt >= ATTEMPTS => {
                let reason = format!("{ATTEMPTS} workers began and were never heard of again");
                ClaimOutcome::GivenUp(self.with(QueuedTaskState::Blocked { reason, by: self.standing.by().cloned() }))
            }
            QueuedTaskState::Ready | QueuedTaskState::Active { .. } => {
                let active = self.with(QueuedTaskState::Active { by, started_at: at.rfc3339() });
                ClaimOutcome::Begin(Self { attempt: self.attempt + 1, ..active })
            }
        }
    }

    /// Whether nobody is to be handed it, as things are.
    pub const fn is_settled(&self) -> bool {
        matches!(
            self.standing,
            QueuedTaskState::Blocked { .. } | QueuedTaskState::Completed { .. } | QueuedTaskState::Removed
        )
    }

    /// Whether that worker has it.
    pub fn is_in_hands_of(&self, worker: &str) -> bool {
        matches!(&self.standing, QueuedTaskState::Active { by, .. } if by.worker == worker)
    }

    /// What a worker says came of it. Nothing, if it is not in its hands any more.
    pub fn ended(&self, worker: &str, upshot: TaskOutcome, at: UnixTime) -> Option<Self> {
        let by = self.standing.by().filter(|_| self.is_in_hands_of(worker)).cloned()?;
        Some(self.with(match upshot {
            TaskOutcome::Done(result) => {
                QueuedTaskState::Completed { result, by: Some(by), completed_at: at.rfc3339() }
            }
            TaskOutcome::Stuck(reason) => QueuedTaskState::Blocked { reason: start_of(&reason), by: Some(by) },
        }))
    }

    /// A worker that leaves gives it back; that it began does not count.
    pub fn given_back(&self, worker: &str) -> Option<Self> {
        let ready = self.with(QueuedTaskState::Ready);
        self.is_in_hands_of(worker).then(|| Self { attempt: self.attempt.saturating_sub(1), ..ready })
    }

    /// What a person asks for.
    pub fn asked(&self, ask: QueueRequest, at: UnixTime) -> Result<Self, String> {
        let id = &self.order.id;
        match (&self.standing, ask) {
            (QueuedTaskState::Removed, _) => Err(format!("there is no task {id} in the queue")),
            (_, QueueRequest::Remove) => Ok(self.with(QueuedTaskState::Removed)),
            (QueuedTaskState::Completed { .. }, QueueRequest::Complete(_) | QueueRequest::Block(_)) => {
                Err(format!("{id} is completed"))
            }
            (_, QueueRequest::Complete(result)) => {
                let (by, completed_at) = (self.standing.by().cloned(), at.rfc3339());
                Ok(self.with(QueuedTaskState::Completed { result, by, completed_at }))
            }
            (_, QueueRequest::Block(reason)) if reason.trim().is_empty() => {
                Err(format!("a reason is needed to block {id}"))
            }
            (_, QueueRequest::Block(reason)) => {
                Ok(self.with(QueuedTaskState::Blocked { reason, by: self.standing.by().cloned() }))
            }
            (QueuedTaskState::Created, QueueRequest::Again) => {
                Err(format!("{id} waits for a task that is not completed"))
            }
            (QueuedTaskState::Ready, QueueRequest::Again) => Err(format!("{id} is in the queue already")),
            (QueuedTaskState::Active { by, .. }, QueueRequest::Again) => {
                Err(format!("{id} is active already, on {}", by.host))
            }
            // What it waits for was done before; but that may have been undone since.
            (QueuedTaskState::Blocked { .. } | QueuedTaskState::Completed { .. }, QueueRequest::Again) => {
                Ok(Self { run: self.run + 1, attempt: 0, ..self.with(QueuedTaskState::Created) })
            }
        }
    }

    fn with(&self, standing: QueuedTaskState) -> Self {
        Self { standing, ..self.clone() }
    }
}

impl TaskOutcome {
    /// The result of a session that is over, or that waits for a person. The reason names the check that failed,
    /// because a reader of the queue does not have the session at hand.
    pub fn of(session: &SessionState) -> Self {
        let Some(outcome) = session.outcome() else {
            let gate = session.gates.open.as_ref().map_or("a gate", |gate| gate.reason.as_str());
            return Self::Stuck(format!("it waits for a person: {gate}"));
        };
        let reason = session.ending.as_ref().map_or("", |ending| ending.reason.as_str());
        let rules = failed_rules(session);
        match outcome {
            SessionOutcome::Complete => Self::Done(end_of(&session.turns.said)),
            // Somebody else would build on what no check has passed.
            SessionOutcome::Forced => {
                let check = session.iterations.forced_past.as_deref().unwrap_or(reason);
                Self::Stuck(format!("its checks did not pass: {check}{rules}"))
            }
            SessionOutcome::Limit => Self::Stuck(format!(
                "no iterations are left, and the agent did not say that it is done: {reason}{rules}"
            )),
            SessionOutcome::Escalated
            | SessionOutcome::Aborted
            | SessionOutcome::Failed
            | SessionOutcome::Cancelled => Self::Stuck(format!("{reason}{rules}")),
        }
    }
}

/// The rules that did not pass, each with what it said, as the end of a sentence.
fn failed_rules(session: &SessionState) -> String {
    let failed = session.stop.failed_rules.iter();
    failed.map(|rule| format!("; the rule `{}` failed: {}", rule.rule_name, rule.message.trim())).collect()
}

/// The start of a reason, which says what it is about.
fn start_of(reason: &str) -> String {
    let until = reason.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= RESULT).last();
    reason[..until.unwrap_or(0)].to_owned()
}

/// The end of what was said, where the result stands, without the promise.
fn end_of(said: &str) -> Option<String> {
    let said = said.replace(&Promise::Complete.tag(), "");
    let said = said.trim();
    let from = said.char_indices().map(|(at, _)| at).find(|at| said.len() - at <= RESULT).unwrap_or(0);
    (!said.is_empty()).then(|| said[from..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: UnixTime = UnixTime(1_763_199_000_000);

    fn task(standing: QueuedTaskState) -> QueuedTask {
        let order =
            TaskSpec { id: "3".into(), goal: "g".into(), dependencies: ["1".into()].into(), ..TaskSpec::default() };
        QueuedTask { standing, ..QueuedTask::new(order, AT) }
    }

    fn hand(worker: &str) -> TaskAssignee {
        TaskAssignee { worker: worker.into(), host: "h".into(), session: "task-3".into() }
    }

    fn begun(task: &QueuedTask, worker: &str) -> QueuedTask {
        match task.claimed(hand(worker), AT) {
            ClaimOutcome::Begin(task) => task,
            other @ (ClaimOutcome::GivenUp(_) | ClaimOutcome::Nothing) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_task_is_ready_when_nothing_that_it_waits_for_is_open() {
        let waiting = task(QueuedTaskState::Created);
        assert_eq!(waiting.readied(|_| true), None);
        assert_eq!(waiting.claimed(hand("a"), AT), ClaimOutcome::Nothing);
        let ready = waiting.readied(|id| id != "1").expect("nothing is open");
        assert_eq!(ready.standing, QueuedTaskState::Ready);
        assert_eq!(ready.readied(|_| false), None);
    }

    #[test]
    fn a_task_is_coming_when_all_that_is_in_its_way_is_worked_on() {
        let named = |id: &str, on: &[&str], standing: QueuedTaskState| {
            let dependencies = on.iter().map(|on| (*on).to_owned()).collect();
            let order = TaskSpec { id: id.into(), goal: "g".into(), dependencies, ..TaskSpec::default() };
            QueuedTask { standing, ..QueuedTask::new(order, AT) }
        };
        let active = || QueuedTaskState::Active { by: hand("a"), started_at: String::new() };
        let blocked = || QueuedTaskState::Blocked { reason: "no".into(), by: None };
        let coming = |first: QueuedTaskState, second: QueuedTaskState| {
            let all =
                [named("1", &[], first), named("2", &["1"], second), named("3", &["2", "1"], QueuedTaskState::Created)];
            all[2].is_ahead(|id| all.iter().find(|task| task.order.id == id))
        };
        assert!(coming(active(), QueuedTaskState::Created));
        assert!(!coming(blocked(), QueuedTaskState::Created));
        assert!(!coming(QueuedTaskState::Ready, QueuedTaskState::Created));
        assert!(coming(QueuedTaskState::Removed, active()));
        assert!(coming(QueuedTaskState::Removed, QueuedTaskState::Removed));
        assert!(named("3", &[], active()).is_ahead(|_| None));
        assert!(!named("3", &[], blocked()).is_ahead(|_| None));
    }

    #[test]
    fn whoever_was_taken_for_dead_has_nothing_more_to_say() {
        let first = begun(&task(QueuedTaskState::Ready), "a");
        let second = begun(&first, "b");
        assert_eq!(second.attempt, 2);
        assert_eq!(second.ended("a", TaskOutcome::Done(None), AT), None);
        assert_eq!(second.given_back("a"), None);
        assert!(!second.is_settled());
        let done = second.ended("b", TaskOutcome::Done(Some("good".into())), AT).expect("it is b's");
        assert!(!done.is_open() && done.is_settled());
        assert_eq!(done.ended("b", TaskOutcome::Stuck("no".into()), AT), None);
        assert_eq!(done.claimed(hand("c"), AT), ClaimOutcome::Nothing);
    }

    #[test]
    fn a_task_that_workers_die_of_is_given_up() {
        let mut task = task(QueuedTaskState::Ready);
        for _ in 0..ATTEMPTS {
            task = begun(&task, "a");
        }
        let ClaimOutcome::GivenUp(task) = task.claimed(hand("a"), AT) else { panic!("it was begun too often") };
        assert_eq!(task.standing.state(), Some(TaskState::Blocked));
    }

    #[test]
    fn who_leaves_in_order_gives_the_task_back_as_it_was() {
        let ready = task(QueuedTaskState::Ready);
        assert_eq!(begun(&ready, "a").given_back("a"), Some(ready));
    }

    #[test]
    fn a_person_can_have_it_done_again_and_the_session_is_another_then() {
        let blocked = task(QueuedTaskState::Blocked { reason: "no".into(), by: None });
        let again = blocked.asked(QueueRequest::Again, AT).expect("it is blocked");
        assert_eq!((again.run, again.attempt, &again.standing), (2, 0, &QueuedTaskState::Created));
        assert_ne!(again.order.session(again.run), blocked.order.session(blocked.run));
        assert_eq!(again.asked(QueueRequest::Again, AT), Err("3 waits for a task that is not completed".into()));
        let removed = blocked.asked(QueueRequest::Remove, AT).expect("it is there");
        assert!(!removed.is_open());
        assert_eq!(removed.asked(QueueRequest::Again, AT), Err("there is no task 3 in the queue".into()));
    }

    #[test]
    fn the_end_of_what_was_said_is_kept_whole_in_its_letters() {
        assert_eq!(end_of("  "), None);
        assert_eq!(end_of("<promise>COMPLETE</promise>"), None);
        assert_eq!(end_of(" done.\n<promise>COMPLETE</promise> "), Some("done.".into()));
        let long = format!("x{}", "ä".repeat(RESULT));
        assert_eq!(end_of(&long).map(|text| text.len()), Some(RESULT));
        assert_eq!((start_of("").as_str(), start_of("no").as_str()), ("", "no"));
        assert_eq!(start_of(&long).len(), RESULT - 1);
    }

    #[test]
    fn a_task_is_written_as_others_know_tasks() {
        let task = begun(&task(QueuedTaskState::Ready), "w");
        let text = serde_json::to_string(&task).expect("plain facts");
        assert_eq!(serde_json::from_str::<QueuedTask>(&text).expect("what was written"), task);
        assert_eq!(
            text,
            r#"{"id":"3","goal":"g","deliverables":[],"labels":[],"priority":2,"type":null,"dependencies":["1"],"agents":[],"#
                .to_owned()
                + r#""session":null,"createdAt":"2025-11-15T09:30:00.000Z","run":1,"attempt":1,"state":"active","#
                + r#""by":{"worker":"w","host":"h","session":"task-3"},"startedAt":"2025-11-15T09:30:00.000Z"}"#
        );
    }
}
