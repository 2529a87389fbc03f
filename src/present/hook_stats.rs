//! Statistics of a session's hooks, counted from its records: for `creel hooks stats` and for the
//! screen.

use std::collections::BTreeMap;

use serde::Serialize;

use super::text::plain_line;
use crate::engine::{
    event::{Event, HookEvent, HookFinished, RetryEvent, StopDecided, StopEvent},
    hooks::{
        HookRef,
        point::HookPoint,
        verdict::{RunEnd, Verdict},
    },
    stop::decision::StopAction,
    time::TimeSpan,
};

/// The longest name of a hook in a line, in characters.
const NAME: usize = 100;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookStats {
    pub point: HookPoint,
    pub hook: String,
    /// The number of finished runs. Runs that ended because creel died do not count.
    pub runs: usize,
    pub passed: usize,
    pub blocked: usize,
    /// The number of runs that failed to do their job.
    pub failed: usize,
    /// The share of runs that passed, 0 to 1.
    pub pass_rate: f64,
    /// The median of the durations.
    pub p50_ms: TimeSpan,
    /// The 95th percentile of the durations.
    pub p95_ms: TimeSpan,
    /// How often it sent the agent back.
    pub retries_caused: usize,
    /// How many bytes of its output went to the agent.
    pub bytes_piped: usize,
    /// Only for stop decision hooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decisions: Option<DecisionCounts>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DecisionCounts {
    pub complete: usize,
    #[serde(rename = "continue")]
    pub go_on: usize,
    pub escalate: usize,
}

#[derive(Debug, Default)]
pub struct HookTallies(BTreeMap<HookRef, HookTally>);

#[derive(Debug, Clone, Default)]
struct HookTally {
    verdicts: Vec<Verdict>,
    took: Vec<TimeSpan>,
    retries: usize,
    bytes: usize,
    decisions: Option<DecisionCounts>,
}

impl HookTallies {
    /// Counts an event.
    pub fn take(&mut self, event: &Event) {
        if let Event::Hook(HookEvent::Finished(finished)) = event {
            if finished.end != RunEnd::Cut && finished.tests_of.is_none() {
                self.0
                    .entry(HookRef::new(finished.point, &finished.hook))
                    .or_default()
                    .ran(finished);
            }
        } else if let Event::Retry(RetryEvent::Counted { hook, .. }) = event {
            // Only stop hooks send a turn back.
            self.0
                .entry(HookRef::new(HookPoint::Stop, hook))
                .or_default()
                .retries += 1;
        } else if let Event::Stop(StopEvent::RuleChecked {
            rule,
            passed,
            took_ms,
            end,
            ..
        }) = event
        {
            if *end != Some(RunEnd::Cut) {
                let tally = self
                    .0
                    .entry(HookRef::new(
                        HookPoint::StopDecision,
                        &format!("rule {rule}"),
                    ))
                    .or_default();
                tally.verdicts.push(if *passed {
                    Verdict::Pass
                } else {
                    Verdict::Fail
                });
                tally.took.push(*took_ms);
            }
        } else if let Event::Stop(StopEvent::Decided(decided)) = event {
            self.decided(decided);
        }
    }

    /// Counts every hook that was asked, and a guard that overruled them all.
    fn decided(&mut self, decided: &StopDecided) {
        let own = (decided.hook.clone(), decided.action);
        let overruled = (!decided.asked.contains(&own)).then_some(&own);
        for (hook, action) in decided.asked.iter().chain(overruled) {
            let tally = self
                .0
                .entry(HookRef::new(HookPoint::StopDecision, hook))
                .or_default();
            let decisions = tally.decisions.get_or_insert_default();
            match action {
                StopAction::Complete => decisions.complete += 1,
                StopAction::Continue => decisions.go_on += 1,
                StopAction::Escalate => decisions.escalate += 1,
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The decisions of a stop hook so far. `None` if it was not asked.
    pub fn decisions(&self, hook: &str) -> Option<DecisionCounts> {
        self.0
            .get(&HookRef::new(HookPoint::StopDecision, hook))?
            .decisions
    }

    pub fn stats(&self) -> Vec<HookStats> {
        self.0
            .iter()
            .map(|(hook, tally)| tally.clone().summed_up(hook))
            .collect()
    }
}

/// A table for people, as wide as its content.
pub fn table(all: &[HookStats]) -> String {
    let head = [
        "POINT", "RUNS", "PASS", "P50", "P95", "RETRIES", "PIPED", "HOOK",
    ]
    .map(String::from);
    let rows: Vec<[String; 8]> = std::iter::once(head)
        .chain(all.iter().filter(|stats| stats.ran()).map(cells))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
    let line = |row: &[String; 8]| {
        let numbers: String = (1..7)
            .map(|n| format!("{:>1$}  ", row[n], widths[n]))
            .collect();
        format!("{:2$}  {numbers}{}\n", row[0], row[7], widths[0])
    };
    rows.iter().map(line).collect::<String>() + &decisions(all)
}

/// The decisions of the stop hooks, if there are any.
fn decisions(all: &[HookStats]) -> String {
    let deciding: Vec<_> = all
        .iter()
        .filter_map(|stats| Some((stats, stats.decisions?)))
        .collect();
    if deciding.is_empty() {
        return String::new();
    }
    let lines = deciding.iter().map(
        |(
            stats,
            DecisionCounts {
                complete,
                go_on,
                escalate,
            },
        )| {
            format!(
                "{complete:>8}  {go_on:>8}  {escalate:>8}  {}\n",
                plain_line(&stats.hook, NAME)
            )
        },
    );
    format!(
        "\nCOMPLETE  CONTINUE  ESCALATE  STOP HOOK\n{}",
        lines.collect::<String>()
    )
}

impl HookStats {
    /// Whether the table shows its runs: a preset has none.
    fn ran(&self) -> bool {
        self.runs > 0 || self.retries_caused > 0 || self.decisions.is_none()
    }
}

fn cells(stats: &HookStats) -> [String; 8] {
    [
        stats.point.name().to_owned(),
        stats.runs.to_string(),
        format!("{:.0}%", stats.pass_rate * 100.0),
        stats.p50_ms.to_string(),
        stats.p95_ms.to_string(),
        stats.retries_caused.to_string(),
        stats.bytes_piped.to_string(),
        plain_line(&stats.hook, NAME),
    ]
}

impl HookTally {
    fn ran(&mut self, finished: &HookFinished) {
        self.verdicts.push(finished.verdict);
        self.took.push(finished.took_ms);
        self.bytes += if finished.piped {
            finished.stdout.len() + finished.stderr.len()
        } else {
            0
        };
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "the sixteenth digit of a share does not matter"
    )]
    fn summed_up(mut self, hook: &HookRef) -> HookStats {
        self.took.sort_unstable();
        let of = |verdict| self.verdicts.iter().filter(|one| **one == verdict).count();
        let (runs, passed) = (self.verdicts.len(), of(Verdict::Pass));
        HookStats {
            point: hook.point,
            hook: hook.hook.clone(),
            runs,
            passed,
            blocked: of(Verdict::Block),
            failed: of(Verdict::Fail),
            pass_rate: if runs == 0 {
                0.0
            } else {
                passed as f64 / runs as f64
            },
            p50_ms: nearest_rank(&self.took, 50),
            p95_ms: nearest_rank(&self.took, 95),
            retries_caused: self.retries,
            bytes_piped: self.bytes,
            decisions: self.decisions,
        }
    }
}

/// The nearest-rank percentile of sorted values.
fn nearest_rank(sorted: &[TimeSpan], percent: usize) -> TimeSpan {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<TimeSpan> = (1..=20).map(TimeSpan).collect();
        assert_eq!(
            (nearest_rank(&values, 50), nearest_rank(&values, 95)),
            (TimeSpan(10), TimeSpan(19))
        );
        assert_eq!(
            (
                nearest_rank(&values[..1], 50),
                nearest_rank(&values[..1], 95)
            ),
            (TimeSpan(1), TimeSpan(1))
        );
        assert_eq!(nearest_rank(&[], 95), TimeSpan(0));
    }
}
