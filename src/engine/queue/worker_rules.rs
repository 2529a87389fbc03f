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
    event::SessionOutcome,
    queue::{QueuedTask, TaskOutcome},
};

/// After this many failed sessions in a row, the worker itself is assumed to be broken.
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

/// How many sessions of a worker failed in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FailureStreak(u32);

impl FailureStreak {
    #[must_use]
    pub fn after(self, outcome: Option<SessionOutcome>) -> Self {
        if outcome == Some(SessionOutcome::Failed) {
            Self(self.0 + 1)
        } else {
            Self(0)
        }
    }

    /// Whether the failures are more likely the worker's fault than the tasks'.
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
    fn sessions_that_fail_in_a_row_are_the_workers_fault_and_one_that_does_not_ends_the_row() {
        let fail = |streak: FailureStreak| streak.after(Some(SessionOutcome::Failed));
        let twice = fail(fail(FailureStreak::default()));
        assert!(!twice.is_too_long());
        assert!(fail(twice).is_too_long());
        assert!(!fail(twice.after(Some(SessionOutcome::Forced))).is_too_long());
        assert!(!fail(twice.after(None)).is_too_long());
    }
}
