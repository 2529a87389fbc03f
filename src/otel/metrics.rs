//! From spans to metrics: how sessions ended, what they used, and how their checks and hooks did.
//!
//! A session that ends has one set of metrics: what happened since it started, or since its last
//! end. So a session that was killed and resumed counts once.
//!
//! # Invariants
//! - A cost or a number of tokens that no agent reported is missing, and never 0. The turns without a
//!   cost are counted.

use std::collections::BTreeMap;

use serde_json::Value;

use super::spans::TraceSpan;
use crate::{engine::time::UnixTime, process::trace_context::TracedWork};

/// The upper bounds of the buckets of durations, in seconds.
pub const BOUNDS: [f64; 10] = [0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0];

/// A counter, with the attributes of its spans that it is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricKind {
    pub name: &'static str,
    pub unit: &'static str,
    divided_by: &'static [&'static str],
}

const OF_SESSION: &[&str] = &[
    "creel.project",
    "creel.task_type",
    "gen_ai.agent.name",
    "creel.outcome",
];
const OF_TURN: &[&str] = &["gen_ai.agent.name", "gen_ai.request.model"];
const OF_RUN: &[&str] = &["creel.hook.point", "creel.hook.name", "creel.hook.verdict"];

const SESSIONS: MetricKind = metric("creel.sessions", "{session}", OF_SESSION);
const ITERATIONS: MetricKind = metric("creel.iterations", "{iteration}", &["creel.outcome"]);
const TURNS: MetricKind = metric("creel.turns", "{turn}", OF_TURN);
const UNKNOWN_COSTS: MetricKind = metric("creel.turns.cost_unknown", "{turn}", OF_TURN);
const TOKENS: MetricKind = metric("creel.tokens", "{token}", OF_TURN);
const COST: MetricKind = metric("creel.cost", "USD", OF_TURN);
const RUNS: MetricKind = metric("creel.hook.runs", "{run}", OF_RUN);
const TURN_TIMES: MetricKind = metric("creel.turn.duration", "s", OF_TURN);
const RUN_TIMES: MetricKind = metric("creel.hook.duration", "s", OF_RUN);

const fn metric(
    name: &'static str,
    unit: &'static str,
    divided_by: &'static [&'static str],
) -> MetricKind {
    MetricKind {
        name,
        unit,
        divided_by,
    }
}

/// Attributes and their values.
pub type MetricKey = Vec<(&'static str, String)>;

/// The sums of a session between two moments.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionMetrics {
    pub start: UnixTime,
    pub end: UnixTime,
    pub counts: BTreeMap<MetricKind, BTreeMap<MetricKey, u64>>,
    pub amounts: BTreeMap<MetricKind, BTreeMap<MetricKey, f64>>,
    pub durations: BTreeMap<MetricKind, BTreeMap<MetricKey, DurationBuckets>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct DurationBuckets {
    pub count: u64,
    pub sum: f64,
    /// One more than there are bounds.
    pub buckets: [u64; BOUNDS.len() + 1],
}

impl SessionMetrics {
    pub const fn since(start: UnixTime) -> Self {
        Self {
            start,
            end: start,
            counts: BTreeMap::new(),
            amounts: BTreeMap::new(),
            durations: BTreeMap::new(),
        }
    }

    /// Adds a span. Returns all sums if it is the session's own, and begins again.
    pub fn see(&mut self, span: &TraceSpan) -> Option<Self> {
        match span.work {
            TracedWork::Session(_) => {
                self.count(SESSIONS, span, 1);
                let begun = Self::since(span.end);
                let ended = std::mem::replace(self, begun);
                return Some(Self {
                    end: span.end,
                    ..ended
                });
            }
            TracedWork::Iteration(_) => self.count(ITERATIONS, span, 1),
            TracedWork::Turn(_) => self.add_turn(span),
            TracedWork::Run(_) => {
                self.count(RUNS, span, 1);
                self.time(RUN_TIMES, span);
            }
            TracedWork::Tool(_) | TracedWork::Gate(_) => {}
        }
        None
    }

    fn add_turn(&mut self, span: &TraceSpan) {
        self.count(TURNS, span, 1);
        self.time(TURN_TIMES, span);
        if let Some(tokens) = span.attribute("creel.usage.tokens").and_then(Value::as_u64) {
            self.count(TOKENS, span, tokens);
        }
        let cost = span.attribute("creel.usage.cost");
        let cost = cost.or_else(|| span.attribute("creel.usage.cost_estimated"));
        match cost.and_then(Value::as_f64) {
            Some(cost) => {
                let costs = self.amounts.entry(COST).or_default();
                *costs.entry(COST.key(span)).or_default() += cost;
            }
            None => self.count(UNKNOWN_COSTS, span, 1),
        }
    }

    fn count(&mut self, kind: MetricKind, span: &TraceSpan, more: u64) {
        let counts = self.counts.entry(kind).or_default();
        *counts.entry(kind.key(span)).or_default() += more;
    }

    fn time(&mut self, kind: MetricKind, span: &TraceSpan) {
        let seconds = f64::from(u32::try_from(span.end.0 - span.start.0).unwrap_or(u32::MAX)) / 1e3;
        let known = self.durations.entry(kind).or_default();
        let times = known.entry(kind.key(span)).or_default();
        times.count += 1;
        times.sum += seconds;
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound);
        times.buckets[bucket.unwrap_or(BOUNDS.len())] += 1;
    }
}

impl MetricKind {
    fn key(self, span: &TraceSpan) -> MetricKey {
        let values = self.divided_by.iter().filter_map(|name| {
            let value = span.attribute(name)?.as_str()?;
            Some((*name, value.to_owned()))
        });
        values.collect()
    }
}
