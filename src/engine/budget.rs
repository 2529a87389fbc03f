//! A session's usage and its budget.
//!
//! Owns the totals of tokens, cost and working time, and the gate at the limit. Does not limit
//! iterations ([`super::session::iteration`]) or retries ([`super::retry`]).
//!
//! # Invariants
//! - The budget is checked before every prompt, never during a turn: the turn has its own time
//!   limit.
//! - After `stop` at the gate nothing more is sent: pending items stay in the journal, and a loop
//!   that had ended keeps its outcome.
//! - `continue` at the gate, or resuming a session that its budget ended, grants the same budget
//!   again.

use serde::{Deserialize, Serialize};

use crate::engine::{
    conversation::TurnUsage,
    gate::{SessionGates, subject::GateSubject},
    output::EngineOutput,
    policy::{Budget, SessionPlan},
    stored_form::exact_float,
    time::{TimeSpan, UnixTime},
};

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ConversationUsage {
    pub tokens: u64,
    #[serde(with = "exact_float")]
    pub cost: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct BudgetUsage {
    /// All tokens that the agent reported.
    pub tokens: u64,
    /// All costs that the agent reported.
    #[serde(with = "exact_float")]
    pub cost: f64,
    /// The part that was used in the agent's current conversation.
    pub conversation: ConversationUsage,
    /// The part that was used in the current iteration.
    pub iteration: ConversationUsage,
    /// Time during which the agent worked.
    pub time: TimeSpan,
    /// When the current turn began.
    pub turn_began: UnixTime,
    /// How many times the budget was granted again.
    pub granted: u32,
}

impl BudgetUsage {
    /// Adds the usage of a turn that ended.
    pub(crate) fn book(&mut self, at: UnixTime, spent: TurnUsage) {
        let (tokens, cost) = (
            spent.tokens.unwrap_or(0),
            spent.cost.unwrap_or(0.0).max(0.0),
        );
        self.tokens = self.tokens.saturating_add(tokens);
        self.cost += cost;
        for part in [&mut self.conversation, &mut self.iteration] {
            part.tokens = part.tokens.saturating_add(tokens);
            part.cost += cost;
        }
        self.time = TimeSpan(self.time.0.saturating_add(at.since(self.turn_began).0));
    }
}

impl BudgetUsage {
    pub(crate) fn grant(&mut self, granted: Option<u32>) {
        self.granted = granted.unwrap_or(self.granted);
    }

    /// The count after the initial budget is granted again, counted from the current usage.
    pub(crate) fn next_grant(&self, budget: &Budget) -> u32 {
        let times = |used: u64, limit: Option<u64>| {
            limit
                .filter(|limit| *limit > 0)
                .map_or(0, |limit| used / limit)
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates, and is never negative"
        )]
        let by_cost = budget
            .cost
            .filter(|cost| *cost > 0.0)
            .map_or(0, |cost| (self.cost / cost) as u64);
        let used = times(self.tokens, budget.tokens)
            .max(times(self.time.0, budget.time.map(|time| time.0)))
            .max(by_cost);
        u32::try_from(used)
            .unwrap_or(u32::MAX)
            .max(self.granted.saturating_add(1))
    }
}

impl Budget {
    fn times(self, times: u32) -> Self {
        let times_more = |one: u64| one.saturating_mul(u64::from(times));
        Self {
            tokens: self.tokens.map(times_more),
            cost: self.cost.map(|cost| cost * f64::from(times)),
            time: self.time.map(|time| TimeSpan(times_more(time.0))),
        }
    }

    /// Which limit is used up, in words. Time is for the caller to judge: it is that of the agent, or
    /// of a worker.
    pub fn amount_used_up(&self, tokens: u64, cost: f64) -> Option<String> {
        let of_tokens = self.tokens.filter(|all| tokens >= *all);
        let of_cost = self.cost.filter(|all| cost >= *all);
        of_tokens
            .map(|all| format!("the budget of {all} tokens is used up: {tokens} so far"))
            .or_else(|| {
                of_cost.map(|all| format!("the budget of {all:.2} is used up: {cost:.2} so far"))
            })
    }
}

#[derive(Debug, Clone, Copy)]
pub struct BudgetCheck<'a> {
    pub(crate) plan: &'a SessionPlan,
    pub(crate) gates: &'a SessionGates,
    pub(crate) account: &'a BudgetUsage,
}

impl BudgetCheck<'_> {
    /// Which limit is used up, in words. `now` if a turn is in progress, whose time counts as well.
    pub(crate) fn used_up_at(self, now: Option<UnixTime>) -> Option<String> {
        let running = now
            .map(|now| now.since(self.account.turn_began))
            .unwrap_or_default();
        let time = TimeSpan(self.account.time.0.saturating_add(running.0));
        BudgetCheck {
            account: &BudgetUsage {
                time,
                ..*self.account
            },
            ..self
        }
        .used_up()
    }

    /// Which limit is used up, in words.
    pub fn used_up(self) -> Option<String> {
        let BudgetUsage {
            tokens, cost, time, ..
        } = *self.account;
        let budget = self
            .plan
            .budget
            .times(self.account.granted.saturating_add(1));
        budget.amount_used_up(tokens, cost).or_else(|| {
            let all = budget.time.filter(|all| time >= *all)?;
            Some(format!(
                "the agent has worked for {time}, and the budget is {all}"
            ))
        })
    }

    /// Opens the gate if a limit is used up.
    pub(crate) fn over_budget(self) -> Option<EngineOutput> {
        self.used_up()
            .map(|reason| self.gates.open_gate(GateSubject::Budget, reason))
    }
}
