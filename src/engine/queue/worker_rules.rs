//! Which tasks a worker accepts, which existing sessions it continues, and when it has to stop.
//!
//! Does not know which agents are installed: the caller passes that in.
//!
//! # Invariants
//! - An agent accepts a task only if both the task's description and the worker's own config allow
//!   it.
//! - A session that was begun here is continued, and one that ended here is not repeated.

use std::collections::BTreeSet;

use crate::engine::{
    SessionState,
    conversation::{AGENT_NOT_INSTALLED, AGENT_NOT_STARTED},
    event::SessionOutcome,
    hooks::claude::FailureCause,
    queue::{QueuedTask, TaskOutcome},
};

/// After this many sessions in a row that failed because of the machine, the worker stops.
pub const FAILURES: u32 = 3;

#[derive(Debug, Clone, Copy)]
pub struct WorkerFilter<'a> {
    /// The requested types. Empty: all.
    pub types: &'a [String],
    /// The requested agent. None: any agent that is allowed.
    pub agent: Option<&'a str>,
}

/// The agents that can work on a type of task on this machine.
#[derive(Debug, Clone, Copy)]
pub struct AvailableAgents<'a, C> {
    /// The preferred agent for the type.
    pub usual: Option<&'a str>,
    /// Whether an agent can run here.
    pub can: C,
}

impl WorkerFilter<'_> {
    /// Which agent works on tasks of this type. `may` lists the allowed agents; empty allows all.
    /// None: the task is not for this worker.
    pub fn agent_for<C: Fn(&str) -> bool>(
        self,
        kind: Option<&str>,
        may: &BTreeSet<String>,
        hands: &AvailableAgents<'_, C>,
    ) -> Option<String> {
        let is_named = kind.is_some_and(|kind| self.types.iter().any(|named| named == kind));
        if !self.types.is_empty() && !is_named {
            return None;
        }
        let others = may
            .iter()
            .map(String::as_str)
            .filter(|_| self.agent.is_none());
        let fits = |agent: &str| (may.is_empty() || may.contains(agent)) && (hands.can)(agent);
        hands
            .usual
            .into_iter()
            .chain(others)
            .find(|agent| fits(agent))
            .map(str::to_owned)
    }
}

/// An existing session under the name that a task's session would get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExistingSession {
    /// It belongs to another task.
    Foreign,
    /// It has to be continued.
    Unfinished,
    Over(TaskOutcome),
}

impl ExistingSession {
    /// Names can repeat, with another server or after a queue was lost; the mark cannot.
    pub fn of(session: &SessionState, task: &QueuedTask) -> Self {
        if session.began.order.as_ref() != Some(&task.mark()) {
            return Self::Foreign;
        }
        match session.phase.outcome() {
            Some(outcome) if outcome.is_by_itself() => Self::Over(TaskOutcome::of(session)),
            Some(_) | None => Self::Unfinished,
        }
    }
}

impl SessionOutcome {
    /// Whether the session ended by itself. A stopped session was stopped because its worker shut
    /// down.
    pub const fn is_by_itself(self) -> bool {
        match self {
            Self::Cancelled => false,
            Self::Complete
            | Self::Forced
            | Self::Unverified
            | Self::Limit
            | Self::Escalated
            | Self::Aborted
            | Self::Failed => true,
        }
    }
}

/// Why sessions fail on a machine, whatever their tasks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineFault {
    NoAgent,
    NotLoggedIn,
    NoCredit,
    DiskFull,
    /// Git could not prepare the worktree of a session.
    NoWorktree,
}

/// How programs say that the disk is full.
const DISK_FULL: [&str; 3] = ["no space left on device", "enospc", "the disk is full"];

impl MachineFault {
    /// The fault that made a session fail. None if the task may be the reason.
    pub fn of(session: &SessionState) -> Option<Self> {
        if session.phase.outcome() != Some(SessionOutcome::Failed) {
            return None;
        }
        let ending = session.ending.as_ref().map(|ending| &ending.reason);
        let messages = session.turns.last_error.iter().chain(ending);
        Self::behind(
            session.turns.last_cause,
            &messages.cloned().collect::<Vec<_>>().join("\n"),
        )
    }

    fn behind(cause: FailureCause, messages: &str) -> Option<Self> {
        match cause {
            FailureCause::AuthenticationFailed => Some(Self::NotLoggedIn),
            FailureCause::BillingError => Some(Self::NoCredit),
            FailureCause::InvalidRequest
            | FailureCause::RateLimit
            | FailureCause::Overloaded
            | FailureCause::ServerError
            | FailureCause::Unknown => {
                if let Some(fault) = Self::in_words_of(messages) {
                    return Some(fault);
                }
                let words = [AGENT_NOT_INSTALLED, AGENT_NOT_STARTED];
                let has_none = words.iter().any(|words| messages.contains(words));
                has_none.then_some(Self::NoAgent)
            }
        }
    }

    /// The fault that the words of another program name, whatever it did.
    pub fn in_words_of(messages: &str) -> Option<Self> {
        let lower = messages.to_lowercase();
        let is_full = DISK_FULL.iter().any(|words| lower.contains(words));
        is_full.then_some(Self::DiskFull)
    }

    pub const fn in_words(self) -> &'static str {
        match self {
            Self::NoAgent => "the agent cannot be started",
            Self::NotLoggedIn => "the agent is not logged in",
            Self::NoCredit => "the agent has no credit left",
            Self::DiskFull => "the disk is full",
            Self::NoWorktree => "creel cannot make the worktrees of its sessions",
        }
    }
}

/// How many sessions of a worker failed in a row because of the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FailureStreak(u32);

impl FailureStreak {
    #[must_use]
    pub fn after(self, fault: Option<MachineFault>) -> Self {
        if fault.is_some() {
            Self(self.0 + 1)
        } else {
            Self(0)
        }
    }

    pub const fn is_too_long(self) -> bool {
        self.0 >= FAILURES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The machine has `claude` and `codex`, and works with `claude`, unless another was named.
    fn who(
        types: &[&str],
        agent: Option<&str>,
        kind: Option<&str>,
        may: &[&str],
    ) -> Option<String> {
        let types: Vec<String> = types.iter().map(|kind| (*kind).to_owned()).collect();
        let hands = AvailableAgents {
            usual: agent.or(Some("claude")),
            can: |agent: &str| ["claude", "codex"].contains(&agent),
        };
        WorkerFilter {
            types: &types,
            agent,
        }
        .agent_for(kind, &names(may), &hands)
    }

    #[test]
    fn a_worker_takes_the_types_that_it_was_asked_for() {
        assert_eq!(who(&[], None, None, &[]).as_deref(), Some("claude"));
        assert_eq!(who(&[], None, Some("bug"), &[]).as_deref(), Some("claude"));
        assert_eq!(
            who(&["bug", "docs"], None, Some("docs"), &[]).as_deref(),
            Some("claude")
        );
        assert_eq!(who(&["bug"], None, Some("docs"), &[]), None);
        assert_eq!(who(&["bug"], None, None, &[]), None);
    }

    #[test]
    fn only_who_may_work_on_a_task_does_and_only_who_can() {
        assert_eq!(
            who(&[], None, None, &["codex", "claude"]).as_deref(),
            Some("claude")
        );
        assert_eq!(
            who(&[], None, None, &["codex", "gemini"]).as_deref(),
            Some("codex")
        );
        assert_eq!(who(&[], None, None, &["gemini"]), None);
        assert_eq!(who(&[], Some("codex"), None, &["claude"]), None);
        assert_eq!(
            who(&[], Some("codex"), None, &["claude", "codex"]).as_deref(),
            Some("codex")
        );
        assert_eq!(who(&[], Some("gemini"), None, &[]), None);
    }

    #[test]
    fn a_worker_stops_after_failures_in_a_row_that_every_task_would_have() {
        let fault = |cause, messages: &str| MachineFault::behind(cause, messages);
        let unknown = |messages: &str| fault(FailureCause::Unknown, messages);
        assert_eq!(unknown("the tests do not compile"), None);
        assert_eq!(fault(FailureCause::ServerError, "500"), None);
        let known = [
            fault(FailureCause::AuthenticationFailed, ""),
            fault(FailureCause::BillingError, ""),
            unknown("write a.rs: ENOSPC"),
            unknown("cannot write: No space left on device"),
            unknown("the program of `mine` is not installed or not on PATH. Install it"),
            unknown("the agent could not be started: permission denied"),
        ];
        let streak = FailureStreak::default();
        let twice = streak.after(known[0]).after(known[1]);
        for fault in known {
            assert!(fault.is_some() && !twice.is_too_long());
            assert!(twice.after(fault).is_too_long());
            assert!(!twice.after(None).after(fault).is_too_long());
        }
    }
}
