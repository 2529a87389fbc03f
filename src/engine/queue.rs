//! The rules of the task queue that workers on many machines share.
//!
//! Owns which worker can start a task, which result counts, and when a task is started again.
//! [`task_spec`] describes a task, [`requests`] says what a person can change, [`handover`] keeps a session and the queue in step about a task
//! of the session, [`worker_rules`] decides which tasks a worker accepts, and [`retention`] which
//! ones the queue can forget. Does not store or distribute tasks.
//!
//! # Invariants
//! - A task is started only when none of its dependencies is open.
//! - Only the worker that has a task can report its result. A task whose worker was presumed dead
//!   belongs to the next worker, and a late result of the first one is ignored.
//! - A task that keeps crashing its worker is not started for ever.

pub mod handover;
pub mod proposal_check;
pub mod requests;
pub mod retention;
pub mod task_proposal;
pub mod task_spec;
pub mod worker_rules;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use requests::{QueueRequest, QueueRequestError, dependency_path};

use crate::engine::{
    SessionState,
    budget::CostTotal,
    event::SessionOutcome,
    queue::task_spec::TaskSpec,
    stop::context::Promise,
    tasks::graph::{TaskDescription, TaskState},
    time::UnixTime,
};

/// How many times a task is started, in case the task itself crashes the workers.
pub const ATTEMPTS: u32 = 5;
/// How many bytes of the agent's last message, or of a reason, are kept.
const RESULT: usize = 4 << 10;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueuedTask {
    #[serde(flatten)]
    pub order: TaskSpec,
    pub created_at: String,
    /// From 1. A person can put the task into the queue again.
    pub run: u32,
    /// How many times workers started it in this run.
    pub attempt: u32,
    /// The branch with its work so far, if its sessions have worktrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit with which its work was merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<String>,
    /// Why the merge queue sent it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// What the agent should know, since a person has put it into the queue again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// How many times it did so since a person last put the task into the queue.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sent_back: u32,
    /// What its branch became, if the base branch has its work as other commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landing: Option<TaskLanding>,
    /// What its sessions have used so far, those of earlier runs included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spent: Vec<SessionSpending>,
    #[serde(flatten)]
    pub state: QueuedTaskState,
}

/// What one session of a task has used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionSpending {
    pub session: String,
    pub host: String,
    #[serde(flatten)]
    pub used: TaskSpending,
}

/// What work on a task has used. None: no agent has reported it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskSpending {
    pub tokens: Option<u64>,
    /// In dollars.
    pub cost: Option<f64>,
    /// The part of the cost that creel estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_estimated: Option<f64>,
    /// How many turns the cost lacks. Earlier versions did not say.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turns_without_cost: u32,
    /// Time during which agents worked.
    pub time_ms: u64,
}

impl TaskSpending {
    pub fn of(session: &SessionState) -> Self {
        let used = session.account.used;
        let CostTotal {
            estimated,
            unknown_turns,
            ..
        } = used.cost;
        Self {
            tokens: (used.tokens > 0).then_some(used.tokens),
            cost: used.cost.known(),
            cost_estimated: (estimated > 0.0).then_some(estimated),
            turns_without_cost: unknown_turns,
            time_ms: session.account.time.0,
        }
    }

    /// The cost as a total. How many turns it is of is not known.
    pub fn cost_total(self) -> CostTotal {
        CostTotal {
            known: self.cost.unwrap_or(0.0),
            estimated: self.cost_estimated.unwrap_or(0.0),
            turns: u32::from(self.cost.is_some()).saturating_add(self.turns_without_cost),
            unknown_turns: self.turns_without_cost,
        }
    }

    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        let sum = |one: Option<f64>, other: Option<f64>| {
            one.into_iter().chain(other).reduce(|a, b| a + b)
        };
        Self {
            tokens: self
                .tokens
                .into_iter()
                .chain(more.tokens)
                .reduce(u64::saturating_add),
            cost: sum(self.cost, more.cost),
            cost_estimated: sum(self.cost_estimated, more.cost_estimated),
            turns_without_cost: self
                .turns_without_cost
                .saturating_add(more.turns_without_cost),
            time_ms: self.time_ms.saturating_add(more.time_ms),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "state",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum QueuedTaskState {
    /// It waits for its dependencies.
    Created,
    Ready,
    Active {
        by: TaskAssignee,
        started_at: String,
    },
    /// No worker continues it until a person or its session decides.
    Blocked {
        reason: String,
        /// The worker that had it, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<TaskAssignee>,
    },
    Completed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<String>,
        /// The worker that had it, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<TaskAssignee>,
        completed_at: String,
    },
    /// Deleted by a person or its session. A person can use the name again.
    Removed,
}

/// Work that was merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskLanding {
    /// The commit of the base branch that has it.
    pub commit: String,
    /// The last commit of the task's branch that is part of it.
    pub tip: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskAssignee {
    /// The worker's id; no other worker has ever had it.
    pub worker: String,
    pub host: String,
    /// The session in which the work is done.
    pub session: String,
}

/// What happens when a worker claims a task.
#[derive(Debug, Clone, PartialEq)]
pub enum ClaimOutcome {
    /// The worker starts.
    Begin(QueuedTask),
    /// The task is blocked: too many workers started it and were never heard of again.
    GivenUp(QueuedTask),
    /// Nothing to do: the task is over, or was distributed too early.
    Nothing,
}

/// The result of a session that worked on a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskOutcome {
    Done(Option<String>),
    /// A person has to look at it.
    Stuck(String),
    /// It is done, but a commit hook of the repository refuses it, for this reason. After as many times as the
    /// limit says, the task is blocked.
    Refused {
        reason: String,
        limit: u32,
    },
    /// It is done, but what it builds on has changed: it runs again, and begins with both.
    Outdated(String),
}

impl QueuedTaskState {
    /// The corresponding state of a task in a session. None if the task was removed.
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

    /// The worker that has the task, or had it.
    pub const fn by(&self) -> Option<&TaskAssignee> {
        match self {
            Self::Active { by, .. } => Some(by),
            Self::Blocked { by, .. } | Self::Completed { by, .. } => by.as_ref(),
            Self::Created | Self::Ready | Self::Removed => None,
        }
    }
}

impl QueuedTask {
    pub fn new(order: TaskSpec, at: UnixTime) -> Self {
        Self {
            order,
            created_at: at.rfc3339(),
            run: 1,
            attempt: 0,
            branch: None,
            merged: None,
            feedback: None,
            context: None,
            sent_back: 0,
            landing: None,
            spent: Vec::new(),
            state: QueuedTaskState::Created,
        }
    }

    /// An id for this run of the task that is unique across all queues. It identifies the session
    /// that works on the task.
    pub fn mark(&self) -> String {
        self.mark_of(self.run)
    }

    /// The ids of all runs so far.
    pub fn all_marks(&self) -> impl Iterator<Item = String> {
        (1..=self.run).map(|run| self.mark_of(run))
    }

    /// The names of the sessions of all runs so far.
    pub fn all_sessions(&self) -> Vec<String> {
        (1..=self.run).map(|run| self.order.session(run)).collect()
    }

    fn mark_of(&self, run: u32) -> String {
        let owner = self
            .order
            .session
            .as_ref()
            .map_or("-", |owner| owner.id.as_str());
        format!("{owner}.{}/{}/{run}", self.order.id, self.created_at)
    }

    /// Whether tasks that depend on it still have to wait.
    pub const fn is_open(&self) -> bool {
        !matches!(
            self.state,
            QueuedTaskState::Completed { .. } | QueuedTaskState::Removed
        )
    }

    /// The task as ready, if it waits and none of its dependencies is open any more.
    pub fn readied(&self, is_open: impl Fn(&str) -> bool) -> Option<Self> {
        let waits = self.order.dependencies.iter().any(|on| is_open(on));
        (self.state == QueuedTaskState::Created && !waits)
            .then(|| self.with(QueuedTaskState::Ready))
    }

    /// Whether it is ready or active, or becomes ready when the active tasks are done.
    pub fn is_ahead<'a>(&'a self, known: impl Fn(&str) -> Option<&'a Self>) -> bool {
        match self.state {
            QueuedTaskState::Ready | QueuedTaskState::Active { .. } => true,
            QueuedTaskState::Created => self.is_coming(known),
            QueuedTaskState::Blocked { .. }
            | QueuedTaskState::Completed { .. }
            | QueuedTaskState::Removed => false,
        }
    }

    /// Whether every open task that it waits for, directly or indirectly, is being worked on or
    /// only waits itself. Then it becomes ready when they are done. A task without open
    /// dependencies is about to become ready.
    fn is_coming<'a>(&'a self, known: impl Fn(&str) -> Option<&'a Self>) -> bool {
        let (mut next, mut seen) = (vec![self], BTreeSet::new());
        while let Some(task) = next.pop() {
            for on in task
                .order
                .dependencies
                .iter()
                .filter(|on| seen.insert(on.as_str()))
                .filter_map(|on| known(on))
            {
                match on.state {
                    QueuedTaskState::Created => next.push(on),
                    QueuedTaskState::Ready | QueuedTaskState::Blocked { .. } => return false,
                    QueuedTaskState::Active { .. }
                    | QueuedTaskState::Completed { .. }
                    | QueuedTaskState::Removed => {}
                }
            }
        }
        true
    }

    /// What happens when a worker claims the task. If the task is active, its previous worker was
    /// silent for too long.
    pub fn claimed(&self, by: TaskAssignee, at: UnixTime) -> ClaimOutcome {
        match &self.state {
            QueuedTaskState::Created
            | QueuedTaskState::Blocked { .. }
            | QueuedTaskState::Completed { .. }
            | QueuedTaskState::Removed => ClaimOutcome::Nothing,
            QueuedTaskState::Ready | QueuedTaskState::Active { .. } if self.attempt >= ATTEMPTS => {
                let reason = format!("{ATTEMPTS} workers started it and stopped responding");
                ClaimOutcome::GivenUp(self.with(QueuedTaskState::Blocked {
                    reason,
                    by: self.state.by().cloned(),
                }))
            }
            QueuedTaskState::Ready | QueuedTaskState::Active { .. } => {
                let active = self.with(QueuedTaskState::Active {
                    by,
                    started_at: at.rfc3339(),
                });
                ClaimOutcome::Begin(Self {
                    attempt: self.attempt + 1,
                    ..active
                })
            }
        }
    }

    /// Whether no worker should get it in its current state.
    pub const fn is_settled(&self) -> bool {
        matches!(
            self.state,
            QueuedTaskState::Blocked { .. }
                | QueuedTaskState::Completed { .. }
                | QueuedTaskState::Removed
        )
    }

    pub fn is_in_hands_of(&self, worker: &str) -> bool {
        matches!(&self.state, QueuedTaskState::Active { by, .. } if by.worker == worker)
    }

    /// Records the result that a worker reports. None if the worker no longer has the task.
    pub fn ended(&self, worker: &str, outcome: TaskOutcome, at: UnixTime) -> Option<Self> {
        let by = self
            .state
            .by()
            .filter(|_| self.is_in_hands_of(worker))
            .cloned()?;
        Some(match outcome {
            TaskOutcome::Done(result) => self.with(QueuedTaskState::Completed {
                result,
                by: Some(by),
                completed_at: at.rfc3339(),
            }),
            TaskOutcome::Stuck(reason) => self.with(QueuedTaskState::Blocked {
                reason: start_of(&reason),
                by: Some(by),
            }),
            TaskOutcome::Refused { reason, limit } => self.sent_back(&reason, limit),
            TaskOutcome::Outdated(reason) => self.again(Some(start_of(&reason))),
        })
    }

    /// Notes what a session has used so far.
    #[must_use]
    pub fn with_spending(mut self, spending: SessionSpending) -> Self {
        self.spent
            .retain(|of| (&of.session, &of.host) != (&spending.session, &spending.host));
        self.spent.push(spending);
        self
    }

    /// Whether it is the same task in the same run. A name can be used again.
    pub fn is_same_run(&self, other: &Self) -> bool {
        self.is_same(other) && self.run == other.run
    }

    /// Whether it is the same task: a name can be used again.
    pub fn is_same(&self, other: &Self) -> bool {
        self.created_at == other.created_at && self.order.id == other.order.id
    }

    /// The session whose work was merged, and its host.
    pub fn merged_session(&self) -> Option<(&str, &str)> {
        self.merged.as_ref()?;
        let by = self.state.by().map(|by| (&by.session, &by.host));
        let by = by.or_else(|| self.spent.last().map(|of| (&of.session, &of.host)));
        by.map(|(session, host)| (session.as_str(), host.as_str()))
    }

    /// What all of its sessions have used.
    pub fn total_spent(&self) -> TaskSpending {
        let each = self.spent.iter().map(|spending| spending.used);
        each.fold(TaskSpending::default(), TaskSpending::plus)
    }

    /// Notes the branch with its work. One that was noted before stays if there is no new one.
    #[must_use]
    pub fn on_branch(self, branch: Option<String>) -> Self {
        Self {
            branch: branch.or(self.branch),
            ..self
        }
    }

    /// Notes what its branch becomes, before the base branch moves there. None if it is not
    /// completed, or was merged before.
    pub fn landing_as(&self, landing: &TaskLanding) -> Option<Self> {
        let is_due =
            matches!(self.state, QueuedTaskState::Completed { .. }) && self.merged.is_none();
        is_due.then(|| Self {
            landing: Some(landing.clone()),
            ..self.clone()
        })
    }

    /// Its work on the base branch, if it was merged.
    pub fn landed(&self) -> Option<TaskLanding> {
        let merged = self.merged.as_ref()?;
        let landing = self.landing.clone();
        let landing = landing.filter(|landing| landing.commit == *merged);
        Some(landing.unwrap_or_else(|| TaskLanding {
            commit: merged.clone(),
            tip: merged.clone(),
        }))
    }

    /// The branches that creel may have made for its runs, by their full names: a branch of the user can
    /// have the same name.
    pub fn own_branches(&self) -> BTreeSet<String> {
        let Some(branch) = &self.branch else {
            return BTreeSet::new();
        };
        let sessions = self.all_sessions();
        // A number or the start of a commit can follow, if the name was taken.
        let before = |session: &String| {
            let (before, after) = branch.rsplit_once(session)?;
            (after.is_empty() || after.starts_with('-')).then_some(before)
        };
        let Some(before) = sessions.iter().rev().find_map(before) else {
            return BTreeSet::new();
        };
        let of_runs = sessions.iter().map(|session| format!("{before}{session}"));
        of_runs.chain([branch.clone()]).collect()
    }

    /// Notes that its work was merged. None if it is not completed, or was merged before.
    pub fn merged_as(&self, commit: &str) -> Option<Self> {
        let is_due =
            matches!(self.state, QueuedTaskState::Completed { .. }) && self.merged.is_none();
        is_due.then(|| Self {
            merged: Some(commit.to_owned()),
            feedback: None,
            sent_back: 0,
            ..self.clone()
        })
    }

    /// The branches that its work starts from, besides the base: those of its dependencies that are
    /// not merged yet, in the given order, and that of its own earlier work.
    pub fn joined_branches(&self, before: &[Self]) -> Vec<String> {
        let open = before
            .iter()
            .filter(|task| task.merged.is_none())
            .filter_map(|task| task.branch.clone());
        open.chain(self.branch.clone()).collect()
    }

    /// The agent's prompt, with the results of the tasks that it depended on.
    pub fn prompt(&self, before: &[Self]) -> String {
        let sent_back = self.feedback.as_ref().map(|reason| {
            format!(
                "You have worked on this before, and your work is here. It was sent back:\n{reason}"
            )
        });
        let context = self
            .context
            .as_ref()
            .map(|context| format!("Your user says about it:\n{context}"));
        let parts = [Some(self.order.goal.trim().to_owned()), sent_back, context];
        let goal = parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        TaskSpec {
            description: TaskDescription {
                goal,
                ..self.order.description.clone()
            },
            ..self.order.clone()
        }
        .prompt(before)
    }

    /// Returns the task of a worker that shuts down; the attempt does not count.
    pub fn given_back(&self, worker: &str) -> Option<Self> {
        let ready = self.with(QueuedTaskState::Ready);
        self.is_in_hands_of(worker).then(|| Self {
            attempt: self.attempt.saturating_sub(1),
            ..ready
        })
    }

    fn with(&self, state: QueuedTaskState) -> Self {
        Self {
            state,
            ..self.clone()
        }
    }
}

/// How many tasks of a queue are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// They wait for other tasks.
    pub waiting: usize,
    pub ready: usize,
    pub active: usize,
    pub blocked: usize,
    /// Completed, with work that is not merged yet.
    pub unmerged: usize,
}

impl QueueCounts {
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self {
            waiting: self.waiting + more.waiting,
            ready: self.ready + more.ready,
            active: self.active + more.active,
            blocked: self.blocked + more.blocked,
            unmerged: self.unmerged + more.unmerged,
        }
    }

    pub fn add(&mut self, task: &QueuedTask) {
        match task.state {
            QueuedTaskState::Created => self.waiting += 1,
            QueuedTaskState::Ready => self.ready += 1,
            QueuedTaskState::Active { .. } => self.active += 1,
            QueuedTaskState::Blocked { .. } => self.blocked += 1,
            QueuedTaskState::Completed { .. } => {
                self.unmerged += usize::from(task.merged.is_none() && task.branch.is_some());
            }
            QueuedTaskState::Removed => {}
        }
    }
}

impl TaskOutcome {
    /// The result of a session that is over, or that waits for a person. The reason names the check
    /// that failed, because a reader of the queue does not have the session at hand.
    pub fn of(session: &SessionState) -> Self {
        let Some(outcome) = session.phase.outcome() else {
            let gate = session
                .gates
                .open
                .as_ref()
                .map_or("a gate", |gate| gate.reason.as_str());
            return Self::Stuck(format!("its session needs you: {gate}"));
        };
        let reason = session
            .ending
            .as_ref()
            .map_or("", |ending| ending.reason.as_str());
        let rules = failed_rules(session);
        match outcome {
            SessionOutcome::Complete => Self::Done(end_of(&session.turns.agent_text)),
            // Other tasks would build on work that has not passed its checks.
            SessionOutcome::Forced | SessionOutcome::Unverified => {
                let proof = session
                    .ending
                    .as_ref()
                    .map(|ending| session.verification().end(ending).1);
                Self::Stuck(format!(
                    "its checks did not pass: {}",
                    proof.as_deref().unwrap_or(reason)
                ))
            }
            SessionOutcome::Limit => Self::Stuck(format!(
                "it used all its iterations, and the agent did not report that it is done: {reason}{rules}"
            )),
            SessionOutcome::Escalated
            | SessionOutcome::Aborted
            | SessionOutcome::Failed
            | SessionOutcome::Cancelled => Self::Stuck(format!("{reason}{rules}")),
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The failed rules with their messages, as the end of a sentence.
fn failed_rules(session: &SessionState) -> String {
    let failed = session.stop.failed_rules.iter();
    failed
        .map(|rule| {
            format!(
                "; the rule `{}` failed: {}",
                rule.rule_name,
                rule.message.trim()
            )
        })
        .collect()
}

/// The start of a reason, which says what it is about.
fn start_of(reason: &str) -> String {
    let until = reason
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .take_while(|end| *end <= RESULT)
        .last();
    reason[..until.unwrap_or(0)].to_owned()
}

/// The end of the agent's message, where the result usually is, without the promise.
fn end_of(agent_text: &str) -> Option<String> {
    let agent_text = agent_text.replace(&Promise::Complete.tag(), "");
    let agent_text = agent_text.trim();
    let from = agent_text
        .char_indices()
        .map(|(at, _)| at)
        .find(|at| agent_text.len() - at <= RESULT)
        .unwrap_or(0);
    (!agent_text.is_empty()).then(|| agent_text[from..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const AT: UnixTime = UnixTime(1_763_199_000_000);

    pub(super) fn task(state: QueuedTaskState) -> QueuedTask {
        let order = TaskSpec {
            id: "3".into(),
            dependencies: ["1".into()].into(),
            description: TaskDescription {
                goal: "g".into(),
                ..TaskDescription::default()
            },
            ..TaskSpec::default()
        };
        QueuedTask {
            state,
            ..QueuedTask::new(order, AT)
        }
    }

    fn hand(worker: &str) -> TaskAssignee {
        TaskAssignee {
            worker: worker.into(),
            host: "h".into(),
            session: "task-3".into(),
        }
    }

    pub(super) fn begun(task: &QueuedTask, worker: &str) -> QueuedTask {
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
        assert_eq!(ready.state, QueuedTaskState::Ready);
        assert_eq!(ready.readied(|_| false), None);
    }

    #[test]
    fn a_task_is_coming_when_all_that_is_in_its_way_is_worked_on() {
        let named = |id: &str, on: &[&str], state: QueuedTaskState| {
            let dependencies = on.iter().map(|on| (*on).to_owned()).collect();
            let order = TaskSpec {
                id: id.into(),
                dependencies,
                description: TaskDescription {
                    goal: "g".into(),
                    ..TaskDescription::default()
                },
                ..TaskSpec::default()
            };
            QueuedTask {
                state,
                ..QueuedTask::new(order, AT)
            }
        };
        let active = || QueuedTaskState::Active {
            by: hand("a"),
            started_at: String::new(),
        };
        let blocked = || QueuedTaskState::Blocked {
            reason: "no".into(),
            by: None,
        };
        let coming = |first: QueuedTaskState, second: QueuedTaskState| {
            let all = [
                named("1", &[], first),
                named("2", &["1"], second),
                named("3", &["2", "1"], QueuedTaskState::Created),
            ];
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
    fn an_expired_worker_cannot_change_its_task() {
        let first = begun(&task(QueuedTaskState::Ready), "a");
        let second = begun(&first, "b");
        assert_eq!(second.attempt, 2);
        assert_eq!(second.ended("a", TaskOutcome::Done(None), AT), None);
        assert_eq!(second.given_back("a"), None);
        assert!(!second.is_settled());
        let done = second
            .ended("b", TaskOutcome::Done(Some("good".into())), AT)
            .expect("it is b's");
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
        let ClaimOutcome::GivenUp(task) = task.claimed(hand("a"), AT) else {
            panic!("it was begun too often")
        };
        assert_eq!(task.state.state(), Some(TaskState::Blocked));
    }

    #[test]
    fn a_worker_that_shuts_down_returns_its_task_unchanged() {
        let ready = task(QueuedTaskState::Ready);
        assert_eq!(begun(&ready, "a").given_back("a"), Some(ready));
    }

    #[test]
    fn a_merged_task_names_the_session_whose_work_it_was() {
        let spending = |session: &str| SessionSpending {
            session: session.into(),
            ..SessionSpending::default()
        };
        let open = task(QueuedTaskState::Ready)
            .with_spending(spending("task-3"))
            .with_spending(spending("task-3-2"));
        assert_eq!(open.merged_session(), None);
        let merged = QueuedTask {
            merged: Some("c0ffee".into()),
            ..open
        };
        assert_eq!(
            merged.merged_session().map(|(session, _)| session),
            Some("task-3-2")
        );
    }

    #[test]
    fn a_task_costs_what_all_of_its_sessions_have_used() {
        let spending = |session: &str, tokens, cost| SessionSpending {
            session: session.into(),
            host: "h".into(),
            used: TaskSpending {
                tokens,
                cost,
                time_ms: 10,
                ..TaskSpending::default()
            },
        };
        let task = task(QueuedTaskState::Ready);
        assert_eq!(task.total_spent().cost, None);
        let task = task
            .with_spending(spending("task-3", Some(5), Some(0.5)))
            .with_spending(spending("task-3-2", None, None))
            .with_spending(spending("task-3", Some(7), Some(0.75)));
        let total = TaskSpending {
            tokens: Some(7),
            cost: Some(0.75),
            time_ms: 20,
            ..TaskSpending::default()
        };
        assert_eq!((task.spent.len(), task.total_spent()), (2, total));
    }

    #[test]
    fn the_kept_end_of_a_message_does_not_begin_within_a_letter() {
        assert_eq!(end_of("  "), None);
        assert_eq!(end_of("<promise>COMPLETE</promise>"), None);
        assert_eq!(
            end_of(" done.\n<promise>COMPLETE</promise> "),
            Some("done.".into())
        );
        let long = format!("x{}", "ä".repeat(RESULT));
        assert_eq!(end_of(&long).map(|text| text.len()), Some(RESULT));
        assert_eq!((start_of("").as_str(), start_of("no").as_str()), ("", "no"));
        assert_eq!(start_of(&long).len(), RESULT - 1);
    }

    #[test]
    fn a_task_is_written_as_others_know_tasks() {
        let task = begun(&task(QueuedTaskState::Ready), "w");
        let text = serde_json::to_string(&task).expect("plain facts");
        assert_eq!(
            serde_json::from_str::<QueuedTask>(&text).expect("what was written"),
            task
        );
        assert_eq!(
            text,
            r#"{"id":"3","goal":"g","deliverables":[],"labels":[],"priority":2,"type":null,"dependencies":["1"],"agents":[],"#
                .to_owned()
                + r#""session":null,"createdAt":"2025-11-15T09:30:00.000Z","run":1,"attempt":1,"state":"active","#
                + r#""by":{"worker":"w","host":"h","session":"task-3"},"startedAt":"2025-11-15T09:30:00.000Z"}"#
        );
    }
}
