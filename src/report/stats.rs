//! Sums over the reports of many sessions: how they ended, what they cost, and which checks fail.
//!
//! # Invariants
//! - Each sum is that of the reports. Failed, aborted and open sessions count in it like all others.
//! - A cost that no agent reported and creel could not estimate is unknown and never 0; a sum says how
//!   many sessions lack one, and which part is estimated.
//! - A change counts as merged once, whether its session or the merge queue merged it.

use std::collections::BTreeMap;

use jiff::{Timestamp, tz::TimeZone};
use serde::Serialize;

use super::{CheckPlace, Report, RunMark, TurnOutcome, Verification};
use crate::engine::{
    event::SessionOutcome,
    time::{TimeSpan, UnixTime},
};

/// The version of the JSON form.
const VERSION: u32 = 1;

/// The JSON Schema of the sums.
pub const STATS_SCHEMA: &str = include_str!("../../assets/stats.schema.json");

/// By what sessions are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StatsKey {
    Agent,
    Model,
    Type,
    Project,
    User,
    Week,
}

/// What counts of one session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionFigures {
    agent: String,
    models: Vec<String>,
    task_type: Option<String>,
    project: String,
    user: Option<String>,
    pub started: UnixTime,
    outcome: Option<SessionOutcome>,
    is_verified: bool,
    is_merged: bool,
    retries: u32,
    tokens: Option<u64>,
    cost: Option<f64>,
    cost_estimated: Option<f64>,
    has_unknown_cost: bool,
    working: TimeSpan,
    checks: Vec<CheckFigures>,
}

/// The sums of some sessions.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StatsGroup {
    /// None if the sessions do not say.
    pub name: Option<String>,
    pub sessions: usize,
    /// How many ended in which way; `open`: not ended.
    pub outcomes: BTreeMap<&'static str, usize>,
    /// How many are complete, and every check passed.
    pub verified: usize,
    /// How many changes were merged.
    pub merged: usize,
    pub retries: u64,
    pub retries_per_completion: Option<f64>,
    /// None: no agent reported any.
    pub tokens: Option<u64>,
    /// In dollars. None: no agent reported any, and creel could not estimate any.
    pub cost: Option<f64>,
    /// The part of the cost that creel estimated.
    pub cost_estimated: Option<f64>,
    /// How many sessions have turns whose cost is not known.
    pub cost_unknown: usize,
    pub cost_per_verified: Option<f64>,
    pub cost_per_merged: Option<f64>,
    /// How long agents worked.
    pub working_ms: TimeSpan,
}

/// The runs of a check.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckFigures {
    pub kind: CheckPlace,
    pub name: String,
    pub runs: usize,
    pub failed: usize,
    pub took_ms: TimeSpan,
    /// The part of the time that runs took which did not pass.
    pub failed_ms: TimeSpan,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionStats {
    pub v: u32,
    pub by: StatsKey,
    pub total: StatsGroup,
    /// Most sessions first; weeks, latest first.
    pub groups: Vec<StatsGroup>,
    /// Those that fail most often first.
    pub checks: Vec<CheckFigures>,
    /// How many journals creel could not read.
    pub unreadable: usize,
}

impl SessionFigures {
    pub fn of(report: &Report, project: &str) -> Self {
        let session = &report.session;
        let usage = &report.usage;
        let mut turns = report.stages.iter().flat_map(|stage| &stage.turns);
        let has_open_turn = turns.any(|turn| turn.end == TurnOutcome::Open);
        let has_unknown_cost = usage.turns_without_cost > 0 || has_open_turn;
        // Without any turn, nothing was spent.
        let cost = usage.cost.or((!has_unknown_cost).then_some(0.0));
        Self {
            agent: session.agent.clone(),
            models: session.models.clone(),
            task_type: session.task_type.clone(),
            project: project.to_owned(),
            user: session.user.clone(),
            started: session.started,
            outcome: report.outcome.outcome,
            is_verified: report.outcome.verification == Verification::Verified,
            is_merged: session.is_merged,
            retries: report.stages.iter().map(|stage| stage.retries).sum(),
            tokens: usage.tokens,
            cost,
            cost_estimated: usage.cost_estimated,
            has_unknown_cost,
            working: usage.working_ms,
            checks: report.checks.iter().map(CheckFigures::of).collect(),
        }
    }

    /// The same session, whose change the merge queue merged.
    #[must_use]
    pub fn merged_by_queue(self) -> Self {
        Self {
            is_merged: true,
            ..self
        }
    }

    fn key(&self, by: StatsKey, zone: &TimeZone) -> Option<String> {
        match by {
            StatsKey::Agent => Some(self.agent.clone()),
            StatsKey::Model => (!self.models.is_empty()).then(|| self.models.join(", ")),
            StatsKey::Type => self.task_type.clone(),
            StatsKey::Project => Some(self.project.clone()),
            StatsKey::User => self.user.clone(),
            StatsKey::Week => week(self.started, zone),
        }
    }
}

/// The week in which a moment is: `2026-W47`.
fn week(at: UnixTime, zone: &TimeZone) -> Option<String> {
    let at = Timestamp::from_millisecond(at.0).ok()?;
    let date = at.to_zoned(zone.clone()).date().iso_week_date();
    Some(format!("{}-W{:02}", date.year(), date.week()))
}

impl CheckFigures {
    fn of(check: &super::CheckHistory) -> Self {
        let failed = |run: &&super::ReportedRun| match run.result {
            RunMark::Blocked | RunMark::Failed | RunMark::TimedOut | RunMark::NotStarted => true,
            RunMark::Passed | RunMark::Skipped | RunMark::Cut => false,
        };
        let time = |span: TimeSpan, run: &super::ReportedRun| {
            TimeSpan(span.0.saturating_add(run.took_ms.0))
        };
        let none = TimeSpan::default();
        Self {
            kind: check.kind,
            name: check.name.clone(),
            runs: check.runs.len(),
            failed: check.runs.iter().filter(failed).count(),
            took_ms: check.runs.iter().fold(none, time),
            failed_ms: check.runs.iter().filter(failed).fold(none, time),
        }
    }
}

impl StatsGroup {
    fn add(&mut self, session: &SessionFigures) {
        self.sessions += 1;
        let outcome = session.outcome.map_or("open", SessionOutcome::name);
        *self.outcomes.entry(outcome).or_default() += 1;
        self.verified += usize::from(session.is_verified);
        self.merged += usize::from(session.is_merged);
        self.retries += u64::from(session.retries);
        if let Some(tokens) = session.tokens {
            self.tokens = Some(self.tokens.unwrap_or(0).saturating_add(tokens));
        }
        if let Some(cost) = session.cost {
            self.cost = Some(self.cost.unwrap_or(0.0) + cost);
        }
        if let Some(estimated) = session.cost_estimated {
            self.cost_estimated = Some(self.cost_estimated.unwrap_or(0.0) + estimated);
        }
        self.cost_unknown += usize::from(session.has_unknown_cost);
        self.working_ms = TimeSpan(self.working_ms.0.saturating_add(session.working.0));
    }

    fn finish(&mut self) {
        let complete = self.outcomes.get(SessionOutcome::Complete.name());
        let retries = f64::from(u32::try_from(self.retries).unwrap_or(u32::MAX));
        self.retries_per_completion = per(Some(retries), complete.copied().unwrap_or(0));
        // Of sessions without a turn, and others whose cost is unknown, nothing is known.
        let is_known = |cost: &f64| *cost > 0.0 || self.cost_unknown == 0;
        self.cost = self.cost.filter(is_known);
        self.cost_per_verified = per(self.cost, self.verified);
        self.cost_per_merged = per(self.cost, self.merged);
    }
}

fn per(sum: Option<f64>, count: usize) -> Option<f64> {
    let count = u32::try_from(count).ok().filter(|count| *count > 0)?;
    Some(sum? / f64::from(count))
}

/// The sums of these sessions.
pub fn stats(sessions: &[SessionFigures], by: StatsKey, zone: &TimeZone) -> SessionStats {
    let mut total = StatsGroup::default();
    let mut groups: BTreeMap<Option<String>, StatsGroup> = BTreeMap::new();
    let mut checks: BTreeMap<(String, &str), CheckFigures> = BTreeMap::new();
    for session in sessions {
        total.add(session);
        groups
            .entry(session.key(by, zone))
            .or_default()
            .add(session);
        for check in &session.checks {
            let key = (format!("{:?}", check.kind), check.name.as_str());
            match checks.get_mut(&key) {
                Some(known) => known.join(check),
                None => drop(checks.insert(key, check.clone())),
            }
        }
    }
    total.finish();
    let mut groups: Vec<StatsGroup> = groups
        .into_iter()
        .map(|(name, mut group)| {
            group.finish();
            StatsGroup { name, ..group }
        })
        .collect();
    if by == StatsKey::Week {
        groups.reverse();
    } else {
        groups.sort_by_key(|group| std::cmp::Reverse(group.sessions));
    }
    let mut checks: Vec<CheckFigures> = checks.into_values().collect();
    checks.sort_by_key(|check| std::cmp::Reverse((check.failed, check.failed_ms.0)));
    SessionStats {
        v: VERSION,
        by,
        total,
        groups,
        checks,
        unreadable: 0,
    }
}

impl CheckFigures {
    fn join(&mut self, other: &Self) {
        self.runs += other.runs;
        self.failed += other.failed;
        self.took_ms = TimeSpan(self.took_ms.0.saturating_add(other.took_ms.0));
        self.failed_ms = TimeSpan(self.failed_ms.0.saturating_add(other.failed_ms.0));
    }
}
