//! How the hooks of a session did, as its journal tells: running or past.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{LINE, choose, json};
use crate::{
    app::{Result, print, project, say},
    control::{
        cli::steer::SessionArgs,
        text::{first_line, plain},
    },
    engine::{
        event::{Event, HookFinished},
        hooks::{
            point::Point,
            resolve::HookRef,
            verdict::{RunEnd, Verdict},
        },
        time::Span,
    },
    journal::{self, Folder},
};

/// How a hook did.
#[derive(Debug, Serialize)]
struct Stats {
    point: Point,
    hook: String,
    /// How often it ran to an end of its own; runs that were cut by the death of creel do not count.
    runs: usize,
    passed: usize,
    blocked: usize,
    failed: usize,
    /// The share of runs that passed, 0 to 1.
    pass_rate: f64,
    p50_ms: Span,
    p95_ms: Span,
    /// How often it sent the agent back.
    retries_caused: usize,
    /// How much of what it printed went to the agent.
    bytes_piped: usize,
}

/// What is counted.
#[derive(Default)]
struct Tally {
    verdicts: Vec<Verdict>,
    took: Vec<Span>,
    retries: usize,
    bytes: usize,
}

pub(super) fn stats(session: &SessionArgs, as_json: bool) -> Result {
    let (_, sessions) = project::sessions_of(&session.config)?;
    let folder = match choose::named(session, &sessions)? {
        Some(folder) => folder,
        None => choose::running(session)?,
    };
    let all = count(&folder)?;
    if as_json {
        return json(&all);
    }
    if all.is_empty() {
        say(&format!("creel: no hook has run in session `{}`", folder.name));
        return Ok(0);
    }
    let head = format!(
        "{:16}  {:>5}  {:>5}  {:>10}  {:>10}  {:>7}  {:>9}  HOOK\n",
        "POINT", "RUNS", "PASS", "P50", "P95", "RETRIES", "PIPED"
    );
    print(&(head + &all.iter().map(line).collect::<String>()))
}

fn line(stats: &Stats) -> String {
    format!(
        "{:16}  {:>5}  {:>4.0}%  {:>10}  {:>10}  {:>7}  {:>9}  {}\n",
        stats.point.name(),
        stats.runs,
        stats.pass_rate * 100.0,
        stats.p50_ms.to_string(),
        stats.p95_ms.to_string(),
        stats.retries_caused,
        stats.bytes_piped,
        first_line(&plain(&stats.hook), LINE),
    )
}

fn count(folder: &Folder) -> Result<Vec<Stats>> {
    let mut tallies: BTreeMap<HookRef, Tally> = BTreeMap::new();
    journal::read(&folder.journal(), |record| {
        if let Event::HookFinished(finished) = record.event {
            if finished.end != RunEnd::Cut {
                tallies.entry(HookRef::new(finished.point, &finished.hook)).or_default().ran(&finished);
            }
        } else if let Event::RetryCounted { hook, .. } = record.event {
            // Only stop hooks send a turn back.
            tallies.entry(HookRef::new(Point::Stop, &hook)).or_default().retries += 1;
        }
    })?;
    Ok(tallies.into_iter().map(|(hook, tally)| tally.summed_up(hook)).collect())
}

impl Tally {
    fn ran(&mut self, finished: &HookFinished) {
        self.verdicts.push(finished.verdict);
        self.took.push(finished.took_ms);
        self.bytes += if finished.piped { finished.stdout.len() + finished.stderr.len() } else { 0 };
    }

    #[expect(clippy::cast_precision_loss, reason = "nobody reads the sixteenth digit of a share")]
    fn summed_up(mut self, hook: HookRef) -> Stats {
        self.took.sort_unstable();
        let of = |verdict| self.verdicts.iter().filter(|said| **said == verdict).count();
        let (runs, passed) = (self.verdicts.len(), of(Verdict::Pass));
        Stats {
            point: hook.point,
            hook: hook.hook,
            runs,
            passed,
            blocked: of(Verdict::Block),
            failed: of(Verdict::Fail),
            pass_rate: if runs == 0 { 0.0 } else { passed as f64 / runs as f64 },
            p50_ms: nearest_rank(&self.took, 50),
            p95_ms: nearest_rank(&self.took, 95),
            retries_caused: self.retries,
            bytes_piped: self.bytes,
        }
    }
}

/// The smallest of the sorted values that so many percent are not above.
fn nearest_rank(sorted: &[Span], percent: usize) -> Span {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<Span> = (1..=20).map(Span).collect();
        assert_eq!((nearest_rank(&values, 50), nearest_rank(&values, 95)), (Span(10), Span(19)));
        assert_eq!((nearest_rank(&values[..1], 50), nearest_rank(&values[..1], 95)), (Span(1), Span(1)));
        assert_eq!(nearest_rank(&[], 95), Span(0));
    }
}
