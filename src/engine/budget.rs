//! A session's usage and its budget.
//!
//! Owns the totals of tokens, cost and working time, and the gate at the limit. Does not limit
//! iterations ([`super::session::iteration`]) or retries ([`super::retry`]).
//!
//! # Invariants
//! - A cost that creel estimated counts like a reported one: a budget that ignored it would never
//!   be used up by an agent that reports only tokens. A total says which part is estimated, and how
//!   many turns it lacks.
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

/// What an agent has reported for a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ConversationUsage {
    pub tokens: u64,
    #[serde(with = "exact_float")]
    pub cost: f64,
}

/// What turns cost together, in dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CostTotal {
    /// As far as it is known: what agents reported, and what creel estimated.
    #[serde(with = "exact_float")]
    pub known: f64,
    /// The part that creel estimated.
    #[serde(with = "exact_float")]
    pub estimated: f64,
    /// How many turns have ended.
    pub turns: u32,
    /// How many of them have no known cost.
    pub unknown_turns: u32,
}

impl CostTotal {
    pub fn add(&mut self, spent: TurnUsage) {
        self.known += spent.known_cost().unwrap_or(0.0);
        self.estimated += spent.estimated_part().unwrap_or(0.0);
        self.turns = self.turns.saturating_add(1);
        self.unknown_turns = self
            .unknown_turns
            .saturating_add(u32::from(spent.known_cost().is_none()));
    }

    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self {
            known: self.known + more.known,
            estimated: self.estimated + more.estimated,
            turns: self.turns.saturating_add(more.turns),
            unknown_turns: self.unknown_turns.saturating_add(more.unknown_turns),
        }
    }

    /// None if the cost of no turn is known.
    pub fn known(self) -> Option<f64> {
        // Earlier versions did not count the turns.
        let is_known = self.unknown_turns < self.turns || self.known > 0.0;
        is_known.then_some(self.known)
    }
}

/// What turns have used together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageTotals {
    /// All tokens that agents reported.
    pub tokens: u64,
    pub cost: CostTotal,
}

impl UsageTotals {
    /// Adds the usage of a turn that ended.
    pub fn add(&mut self, spent: TurnUsage) {
        self.tokens = self.tokens.saturating_add(spent.tokens.unwrap_or(0));
        self.cost.add(spent);
    }
}

impl From<TurnUsage> for UsageTotals {
    fn from(spent: TurnUsage) -> Self {
        let mut used = Self::default();
        used.add(spent);
        used
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct BudgetUsage {
    /// What all turns used.
    pub used: UsageTotals,
    /// What the agent reported for its current conversation.
    pub conversation: ConversationUsage,
    /// What the turns of the current iteration used.
    pub iteration: UsageTotals,
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
        self.used.add(spent);
        self.iteration.add(spent);
        let conversation = &mut self.conversation;
        conversation.tokens = conversation
            .tokens
            .saturating_add(spent.tokens.unwrap_or(0));
        conversation.cost += spent.cost.unwrap_or(0.0).max(0.0);
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
            .map_or(0, |cost| (self.used.cost.known / cost) as u64);
        let used = times(self.used.tokens, budget.tokens)
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
    pub fn amount_used_up(&self, used: UsageTotals) -> Option<String> {
        let (tokens, cost) = (used.tokens, used.cost.known);
        let about = if used.cost.estimated > 0.0 {
            "about "
        } else {
            ""
        };
        let of_tokens = self.tokens.filter(|all| tokens >= *all);
        let of_cost = self.cost.filter(|all| cost >= *all);
        of_tokens
            .map(|all| format!("the budget of {all} tokens is used up: {tokens} so far"))
            .or_else(|| {
                of_cost.map(|all| {
                    format!("the budget of {all:.2} is used up: {about}{cost:.2} so far")
                })
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
        let BudgetUsage { used, time, .. } = *self.account;
        let budget = self
            .plan
            .budget
            .times(self.account.granted.saturating_add(1));
        budget.amount_used_up(used).or_else(|| {
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
