//! What all sessions of a worker may use together.
//!
//! # Invariants
//! - What a session used before this worker continued it does not count.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use crate::engine::{policy::Budget, queue::TaskSpending};

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
        let (tokens, cost) = {
            let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            let tokens = |used: TaskSpending| used.tokens.unwrap_or(0);
            let cost = |used: TaskSpending| used.cost.unwrap_or(0.0);
            sessions.values().fold((0, 0.0), |sum, session| {
                let SessionUse { before, now } = *session;
                (
                    sum.0 + tokens(now).saturating_sub(tokens(before)),
                    sum.1 + (cost(now) - cost(before)).max(0.0),
                )
            })
        };
        self.limit.amount_used_up(tokens, cost).or_else(|| {
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
            time_ms: 0,
        };
        assert_eq!(budget.used_up(), None);
        budget.note("a", used(500, 0.0));
        budget.note("b", TaskSpending::default());
        budget.note("b", used(60, 0.25));
        assert_eq!(budget.used_up(), None);
        budget.note("a", used(540, 0.5));
        let why = "the budget of 100 tokens is used up: 100 so far";
        assert_eq!(budget.used_up().as_deref(), Some(why));
        let unlimited = WorkerBudget::new(Budget::default());
        unlimited.note("a", used(1_000, 9.0));
        assert_eq!((unlimited.is_limited(), unlimited.used_up()), (false, None));
    }
}
