//! What all sessions of a worker may use together.
//!
//! # Invariants
//! - What a session used before this worker continued it does not count.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use crate::engine::{budget::UsageTotals, policy::Budget, queue::TaskSpending};

#[derive(Debug)]
pub(crate) struct WorkerBudget {
    limit: Budget,
    began: Instant,
    sessions: Mutex<BTreeMap<String, SessionUse>>,
}

/// What a session had used when this worker began with it, and has used now.
#[derive(Debug, Clone, Copy)]
struct SessionUse {
    before: TaskSpending,
    now: TaskSpending,
}

impl WorkerBudget {
    pub(crate) fn new(limit: Budget) -> Self {
        Self {
            limit,
            began: Instant::now(),
            sessions: Mutex::default(),
        }
    }

    pub(super) fn is_limited(&self) -> bool {
        self.limit != Budget::default()
    }

    /// Notes what a session has used. The first note says what it had used before.
    pub(super) fn note(&self, session: &str, now: TaskSpending) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions
            .entry(session.to_owned())
            .and_modify(|known| known.now = now)
            .or_insert(SessionUse { before: now, now });
    }

    /// Which limit is used up, in words.
    pub(super) fn used_up(&self) -> Option<String> {
        let elapsed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let used = {
            let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            let mut sum = UsageTotals::default();
            for SessionUse { before, now } in sessions.values() {
                let tokens = |used: &TaskSpending| used.tokens.unwrap_or(0);
                sum.tokens += tokens(now).saturating_sub(tokens(before));
                let (before, now) = (before.cost_total(), now.cost_total());
                sum.cost.known += (now.known - before.known).max(0.0);
                sum.cost.estimated += (now.estimated - before.estimated).max(0.0);
            }
            sum
        };
        self.limit.amount_used_up(used).or_else(|| {
            let all = self.limit.time.filter(|all| elapsed >= all.0)?;
            Some(format!("the worker has run for {all}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_session_used_before_does_not_count() {
        let budget = WorkerBudget::new(Budget {
            tokens: Some(100),
            cost: Some(1.0),
            time: None,
        });
        let used = |tokens, cost| TaskSpending {
            tokens: Some(tokens),
            cost: Some(cost),
            ..TaskSpending::default()
        };
        assert_eq!(budget.used_up(), None);
        budget.note("a", used(500, 0.0));
        budget.note("b", TaskSpending::default());
        budget.note("b", used(60, 0.25));
        assert_eq!(budget.used_up(), None);
        budget.note("a", used(540, 0.5));
        let why = "the budget of 100 tokens is used up: 100 so far";
        assert_eq!(budget.used_up().as_deref(), Some(why));
        let estimated = TaskSpending {
            cost: Some(1.5),
            cost_estimated: Some(1.0),
            ..TaskSpending::default()
        };
        budget.note("a", used(500, 0.0));
        budget.note("b", TaskSpending::default());
        budget.note("c", TaskSpending::default());
        budget.note("c", estimated);
        let why = "the budget of 1.00 is used up: about 1.50 so far";
        assert_eq!(budget.used_up().as_deref(), Some(why));
        let unlimited = WorkerBudget::new(Budget::default());
        unlimited.note("a", used(1_000, 9.0));
        assert_eq!((unlimited.is_limited(), unlimited.used_up()), (false, None));
    }
}
