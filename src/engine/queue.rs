//! The queue that many machines work from: what may become of a task in it.
//!
//! Owns the rules: who may begin, who says what came of it, when it is begun again. What is to be done is an [`order`]; what a
//! session and the queue have to tell each other of a task of the session is a [`handover`]; which tasks a worker takes is its
//! [`duty`].
//! Does not keep tasks and does not hand them out: a board and a line do, wherever those are.
//!
//! # Invariants
//! - A task is begun only when nothing that it waits for is open.
//! - Whoever has a task says what came of it, and nobody else does: one whose worker was taken for dead belongs to the
//!   next worker, and what the first one says then counts for nothing.
//! - A task that takes its worker down again and again is not handed out for ever.

pub mod duty;
pub mod handover;
pub mod order;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{State, event::Outcome, stop::promise::Promise, tasks::task::TaskState, time::At};
use order::Order;

/// How often somebody begins with a task: it may be the task that workers die of.
pub const ATTEMPTS: u32 = 5;
/// How much of what the agent said in the end is kept as the result, and how much of a reason.
const RESULT: usize = 4 << 10;

/// A task, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Queued {
    /// What is to be done.
    #[serde(flatten)]
    pub order: Order,
    /// When it was added.
    pub created_at: String,
    /// How often it was put into the queue: a person can do it again.
    pub run: u32,
    /// How often somebody began with it since then.
    pub attempt: u32,
    /// Where it is.
    #[serde(flatten)]
    pub standing: Standing,
}

/// Where a task is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Standing {
    /// It waits for others.
    Created,
    /// Somebody can begin.
    Ready,
    /// Somebody works on it.
    Active {
        /// Who.
        by: Hand,
        /// Since when.
        started_at: String,
    },
    /// Nobody goes on without a person.
    Blocked {
        /// Why.
        reason: String,
        /// Who worked on it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Hand>,
    },
    /// It is done.
    Completed {
        /// What came of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<String>,
        /// Who worked on it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Hand>,
        /// When.
        completed_at: String,
    },
    /// It is not to be done any more. The name stays taken.
    Removed,
}

/// Who works on a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hand {
    /// The worker, one of all that ever were.
    pub worker: String,
    /// Its machine.
    pub host: String,
    /// The session in which the work is done.
    pub session: String,
}

/// What becomes of a task that a worker was handed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The worker begins.
    Begin(Queued),
    /// Nobody begins any more: it took too many workers down.
    GivenUp(Queued),
    /// There is nothing to do: it is over, or was handed out too early.
    Nothing,
}

/// What came of a session that worked on a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upshot {
    /// The work is done.
    Done(Option<String>),
    /// A person has to see to it.
    Stuck(String),
}

/// What a person can ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Work on it again.
    Again,
    /// It is done.
    Complete(Option<String>),
    /// Nobody shall begin.
    Block(String),
    /// It is not to be done any more.
    Remove,
}

impl Standing {
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
    pub const fn by(&self) -> Option<&Hand> {
        match self {
            Self::Active { by, .. } => Some(by),
            Self::Blocked { by, .. } | Self::Completed { by, .. } => by.as_ref(),
            Self::Created | Self::Ready | Self::Removed => None,
        }
    }
}

impl Queued {
    /// A new task.
    pub fn new(order: Order, at: At) -> Self {
        Self { order, created_at: at.rfc3339(), run: 1, attempt: 0, standing: Standing::Created }
    }

    /// What a session that works on it is known by, among all tasks that ever were, also of other queues.
    pub fn mark(&self) -> String {
        let owner = self.order.session.as_ref().map_or("-", |owner| owner.id.as_str());
        format!("{owner}.{}/{}/{}", self.order.id, self.created_at, self.run)
    }

    /// Whether whoever waits for it still has to.
    pub const fn is_open(&self) -> bool {
        !matches!(self.standing, Standing::Completed { .. } | Standing::Removed)
    }

    /// The same task as one that can be begun, if nothing that it waits for is open any more.
    pub fn readied(&self, is_open: impl Fn(&str) -> bool) -> Option<Self> {
        let waits = self.order.dependencies.iter().any(|on| is_open(on));
        (self.standing == Standing::Created && !waits).then(|| self.with(Standing::Ready))
    }

    /// Whether somebody is to work on it now, or will be when others have done theirs.
    pub fn is_ahead<'a>(&'a self, known: impl Fn(&str) -> Option<&'a Self>) -> bool {
        match self.standing {
            Standing::Ready | Standing::Active { .. } => true,
            Standing::Created => self.is_coming(known),
            Standing::Blocked { .. } | Standing::Completed { .. } | Standing::Removed => false,
        }
    }

    /// Whether it waits for nothing but what others work on, however far around: then it will be ready when they are done. One
    /// that has nothing in its way is about to be.
    fn is_coming<'a>(&'a self, known: impl Fn(&str) -> Option<&'a Self>) -> bool {
        let (mut next, mut seen) = (vec![self], BTreeSet::new());
        while let Some(task) = next.pop() {
            for on in task.order.dependencies.iter().filter(|on| seen.insert(on.as_str())).filter_map(|on| known(on)) {
                match on.standing {
                    Standing::Created => next.push(on),
                    Standing::Ready | Standing::Blocked { .. } => return false,
                    Standing::Active { .. } | Standing::Completed { .. } | Standing::Removed => {}
                }
            }
        }
        true
    }

    /// What becomes of it in the hands of a worker. To be handed one that is active means that its worker gave no sign of
    /// life for too long.
    pub fn claimed(&self, by: Hand, at: At) -> Claim {
        match &self.standing {
            Standing::Created | Standing::Blocked { .. } | Standing::Completed { .. } | Standing::Removed => {
                Claim::Nothing
            }
            Standing::Ready | Standing::Active { .. } if self.attempt >= ATTEMPTS => {
                let reason = format!("{ATTEMPTS} workers began and were never heard of again");
                Claim::GivenUp(self.with(Standing::Blocked { reason, by: self.standing.by().cloned() }))
            }
            Standing::Ready | Standing::Active { .. } => {
                let active = self.with(Standing::Active { by, started_at: at.rfc3339() });
                Claim::Begin(Self { attempt: self.attempt + 1, ..active })
            }
        }
    }

    /// Whether nobody is to be handed it, as things are.
    pub const fn is_settled(&self) -> bool {
        matches!(self.standing, Standing::Blocked { .. } | Standing::Completed { .. } | Standing::Removed)
    }

    /// Whether that worker has it.
    pub fn is_in_hands_of(&self, worker: &str) -> bool {
        matches!(&self.standing, Standing::Active { by, .. } if by.worker == worker)
    }

    /// What a worker says came of it. Nothing, if it is not in its hands any more.
    pub fn ended(&self, worker: &str, upshot: Upshot, at: At) -> Option<Self> {
        let by = self.standing.by().filter(|_| self.is_in_hands_of(worker)).cloned()?;
        Some(self.with(match upshot {
            Upshot::Done(result) => Standing::Completed { result, by: Some(by), completed_at: at.rfc3339() },
            Upshot::Stuck(reason) => Standing::Blocked { reason: start_of(&reason), by: Some(by) },
        }))
    }

    /// A worker that leaves gives it back; that it began does not count.
    pub fn given_back(&self, worker: &str) -> Option<Self> {
        let ready = self.with(Standing::Ready);
        self.is_in_hands_of(worker).then(|| Self { attempt: self.attempt.saturating_sub(1), ..ready })
    }

    /// What a person asks for.
    pub fn asked(&self, ask: Ask, at: At) -> Result<Self, String> {
        let id = &self.order.id;
        match (&self.standing, ask) {
            (Standing::Removed, _) => Err(format!("there is no task {id} in the queue")),
            (_, Ask::Remove) => Ok(self.with(Standing::Removed)),
            (Standing::Completed { .. }, Ask::Complete(_) | Ask::Block(_)) => Err(format!("{id} is completed")),
            (_, Ask::Complete(result)) => {
                let (by, completed_at) = (self.standing.by().cloned(), at.rfc3339());
                Ok(self.with(Standing::Completed { result, by, completed_at }))
            }
            (_, Ask::Block(reason)) if reason.trim().is_empty() => Err(format!("a reason is needed to block {id}")),
            (_, Ask::Block(reason)) => Ok(self.with(Standing::Blocked { reason, by: self.standing.by().cloned() })),
            (Standing::Created, Ask::Again) => Err(format!("{id} waits for a task that is not completed")),
            (Standing::Ready, Ask::Again) => Err(format!("{id} is in the queue already")),
            (Standing::Active { by, .. }, Ask::Again) => Err(format!("{id} is active already, on {}", by.host)),
            // What it waits for was done before; but that may have been undone since.
            (Standing::Blocked { .. } | Standing::Completed { .. }, Ask::Again) => {
                Ok(Self { run: self.run + 1, attempt: 0, ..self.with(Standing::Created) })
            }
        }
    }

    fn with(&self, standing: Standing) -> Self {
        Self { standing, ..self.clone() }
    }
}

impl Upshot {
    /// The result of a session that is over, or that waits for a person. The reason names the check that failed,
    /// because a reader of the queue does not have the session at hand.
    pub fn of(session: &State) -> Self {
        let Some(outcome) = session.outcome() else {
            let gate = session.gates.open.as_ref().map_or("a gate", |gate| gate.reason.as_str());
            return Self::Stuck(format!("it waits for a person: {gate}"));
        };
        let reason = session.ending.as_ref().map_or("", |ending| ending.reason.as_str());
        let rules = failed_rules(session);
        match outcome {
            Outcome::Complete => Self::Done(end_of(&session.turns.said)),
            // Somebody else would build on what no check has passed.
            Outcome::Forced => {
                let check = session.iterations.forced_past.as_deref().unwrap_or(reason);
                Self::Stuck(format!("its checks did not pass: {check}{rules}"))
            }
            Outcome::Limit => Self::Stuck(format!(
                "no iterations are left, and the agent did not say that it is done: {reason}{rules}"
            )),
            Outcome::Escalated | Outcome::Aborted | Outcome::Failed | Outcome::Cancelled => {
                Self::Stuck(format!("{reason}{rules}"))
            }
        }
    }
}

/// The rules that did not pass, each with what it said, as the end of a sentence.
fn failed_rules(session: &State) -> String {
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

    const AT: At = At(1_763_199_000_000);

    fn task(standing: Standing) -> Queued {
        let order = Order { id: "3".into(), goal: "g".into(), dependencies: ["1".into()].into(), ..Order::default() };
        Queued { standing, ..Queued::new(order, AT) }
    }

    fn hand(worker: &str) -> Hand {
        Hand { worker: worker.into(), host: "h".into(), session: "task-3".into() }
    }

    fn begun(task: &Queued, worker: &str) -> Queued {
        match task.claimed(hand(worker), AT) {
            Claim::Begin(task) => task,
            other @ (Claim::GivenUp(_) | Claim::Nothing) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_task_is_ready_when_nothing_that_it_waits_for_is_open() {
        let waiting = task(Standing::Created);
        assert_eq!(waiting.readied(|_| true), None);
        assert_eq!(waiting.claimed(hand("a"), AT), Claim::Nothing);
        let ready = waiting.readied(|id| id != "1").expect("nothing is open");
        assert_eq!(ready.standing, Standing::Ready);
        assert_eq!(ready.readied(|_| false), None);
    }

    #[test]
    fn a_task_is_coming_when_all_that_is_in_its_way_is_worked_on() {
        let named = |id: &str, on: &[&str], standing: Standing| {
            let dependencies = on.iter().map(|on| (*on).to_owned()).collect();
            let order = Order { id: id.into(), goal: "g".into(), dependencies, ..Order::default() };
            Queued { standing, ..Queued::new(order, AT) }
        };
        let active = || Standing::Active { by: hand("a"), started_at: String::new() };
        let blocked = || Standing::Blocked { reason: "no".into(), by: None };
        let coming = |first: Standing, second: Standing| {
            let all = [named("1", &[], first), named("2", &["1"], second), named("3", &["2", "1"], Standing::Created)];
            all[2].is_ahead(|id| all.iter().find(|task| task.order.id == id))
        };
        assert!(coming(active(), Standing::Created));
        assert!(!coming(blocked(), Standing::Created));
        assert!(!coming(Standing::Ready, Standing::Created));
        assert!(coming(Standing::Removed, active()));
        assert!(coming(Standing::Removed, Standing::Removed));
        assert!(named("3", &[], active()).is_ahead(|_| None));
        assert!(!named("3", &[], blocked()).is_ahead(|_| None));
    }

    #[test]
    fn whoever_was_taken_for_dead_has_nothing_more_to_say() {
        let first = begun(&task(Standing::Ready), "a");
        let second = begun(&first, "b");
        assert_eq!(second.attempt, 2);
        assert_eq!(second.ended("a", Upshot::Done(None), AT), None);
        assert_eq!(second.given_back("a"), None);
        assert!(!second.is_settled());
        let done = second.ended("b", Upshot::Done(Some("good".into())), AT).expect("it is b's");
        assert!(!done.is_open() && done.is_settled());
        assert_eq!(done.ended("b", Upshot::Stuck("no".into()), AT), None);
        assert_eq!(done.claimed(hand("c"), AT), Claim::Nothing);
    }

    #[test]
    fn a_task_that_workers_die_of_is_given_up() {
        let mut task = task(Standing::Ready);
        for _ in 0..ATTEMPTS {
            task = begun(&task, "a");
        }
        let Claim::GivenUp(task) = task.claimed(hand("a"), AT) else { panic!("it was begun too often") };
        assert_eq!(task.standing.state(), Some(TaskState::Blocked));
    }

    #[test]
    fn who_leaves_in_order_gives_the_task_back_as_it_was() {
        let ready = task(Standing::Ready);
        assert_eq!(begun(&ready, "a").given_back("a"), Some(ready));
    }

    #[test]
    fn a_person_can_have_it_done_again_and_the_session_is_another_then() {
        let blocked = task(Standing::Blocked { reason: "no".into(), by: None });
        let again = blocked.asked(Ask::Again, AT).expect("it is blocked");
        assert_eq!((again.run, again.attempt, &again.standing), (2, 0, &Standing::Created));
        assert_ne!(again.order.session(again.run), blocked.order.session(blocked.run));
        assert_eq!(again.asked(Ask::Again, AT), Err("3 waits for a task that is not completed".into()));
        let removed = blocked.asked(Ask::Remove, AT).expect("it is there");
        assert!(!removed.is_open());
        assert_eq!(removed.asked(Ask::Again, AT), Err("there is no task 3 in the queue".into()));
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
        let task = begun(&task(Standing::Ready), "w");
        let text = serde_json::to_string(&task).expect("plain facts");
        assert_eq!(serde_json::from_str::<Queued>(&text).expect("what was written"), task);
        assert_eq!(
            text,
            r#"{"id":"3","goal":"g","deliverables":[],"labels":[],"priority":2,"type":null,"dependencies":["1"],"agents":[],"#
                .to_owned()
                + r#""session":null,"createdAt":"2025-11-15T09:30:00.000Z","run":1,"attempt":1,"state":"active","#
                + r#""by":{"worker":"w","host":"h","session":"task-3"},"startedAt":"2025-11-15T09:30:00.000Z"}"#
        );
    }
}
