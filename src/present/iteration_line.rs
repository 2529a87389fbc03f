//! A finished iteration in one line: its checks, how long it took, what it cost, and what the agent
//! answer last.
//!
//! Owns the counting, which is a fold over records, and the words. A cost that the agent did not
//! report is left out, never 0.

use std::collections::BTreeSet;

use super::text::{counted, plain, short_span};
use crate::{
    engine::{
        event::{Event, HookEvent, IterationOutcome, SessionEvent, StopEvent, TurnEvent},
        hooks::{point::HookPoint, verdict::Verdict},
        time::UnixTime,
    },
    present::{text::plain_line, usage::money},
};

/// How much of the agent's answer is looked at, in bytes.
const ANSWER: usize = 600;
/// The longest line of it, in characters.
const LINE: usize = 200;
/// How many runs of a check have a sign each.
const SIGNS: usize = 6;
/// The longest name of a check, in characters.
const NAME: usize = 24;

#[derive(Debug, Clone, Default)]
pub struct IterationTally {
    began: Option<UnixTime>,
    ended: Option<UnixTime>,
    outcome: Option<IterationOutcome>,
    /// Each check, and whether its runs passed.
    checks: Vec<(String, Vec<CheckMark>)>,
    /// In dollars.
    cost: Option<f64>,
    files: BTreeSet<String>,
    more_files: usize,
    /// The beginning of the last answer.
    answer: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CheckMark {
    Passed,
    Blocked,
    Broken,
}

impl CheckMark {
    const fn sign(self) -> &'static str {
        match self {
            Self::Passed => "✓",
            Self::Blocked => "✗",
            Self::Broken => "!",
        }
    }
}

/// The parts of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IterationLine {
    pub result: IterationResult,
    /// The checks with their signs, or the outcome if there are none.
    pub checks: String,
    pub took: String,
    /// Empty if it is not known.
    pub cost: String,
    /// Empty if no file changed.
    pub files: String,
    /// What the agent said last.
    pub words: String,
}

/// How an iteration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IterationResult {
    Passed,
    Failed,
    Forced,
}

impl IterationTally {
    /// Counts a record of the iteration. The first one is its beginning.
    pub fn take(&mut self, at: UnixTime, event: &Event) {
        self.began = self.began.or(Some(at));
        if let Event::Hook(HookEvent::Finished(run)) = event
            && run.point == HookPoint::Stop
        {
            self.ran(
                &run.hook,
                match run.verdict {
                    Verdict::Pass => CheckMark::Passed,
                    Verdict::Block => CheckMark::Blocked,
                    Verdict::Fail => CheckMark::Broken,
                },
            );
        } else if let Event::Stop(StopEvent::RuleChecked { rule, passed, .. }) = event {
            self.ran(
                rule,
                if *passed {
                    CheckMark::Passed
                } else {
                    CheckMark::Blocked
                },
            );
        } else if let Event::Turn(event) = event {
            self.turn(event);
        } else if let Event::Session(SessionEvent::IterationCompleted { outcome, .. }) = event {
            self.outcome = Some(*outcome);
        }
        if let Event::Session(
            SessionEvent::IterationStarted { .. }
            | SessionEvent::IterationCompleted { .. }
            | SessionEvent::LoopEnded { .. },
        ) = event
        {
            self.ended = Some(at);
        }
    }

    fn turn(&mut self, event: &TurnEvent) {
        if let TurnEvent::PromptSent(_) = event {
            self.answer.clear();
        } else if let TurnEvent::AgentSaid { text, .. } = event {
            let room = ANSWER.saturating_sub(self.answer.len()).min(text.len());
            self.answer
                .push_str(&text[..text.floor_char_boundary(room)]);
        } else if let TurnEvent::Ended { spent, work, .. } | TurnEvent::Failed { spent, work, .. } =
            event
        {
            self.cost = match (self.cost, spent.cost) {
                (Some(before), Some(more)) => Some(before + more),
                (before, more) => before.or(more),
            };
            if let Some(work) = work {
                self.files.extend(work.files_modified.iter().cloned());
                self.more_files = self.more_files.max(work.more_modified);
            }
        }
    }

    fn ran(&mut self, check: &str, mark: CheckMark) {
        match self.checks.iter_mut().find(|(name, _)| name == check) {
            Some((_, marks)) => marks.push(mark),
            None => self.checks.push((check.to_owned(), vec![mark])),
        }
    }

    /// Whether a cost is known.
    pub const fn has_cost(&self) -> bool {
        self.cost.is_some()
    }

    /// Whether a file has changed.
    pub fn has_files(&self) -> bool {
        !self.files.is_empty() || self.more_files > 0
    }

    pub fn line(&self) -> IterationLine {
        let result = match self.outcome {
            Some(IterationOutcome::Done) => IterationResult::Passed,
            Some(IterationOutcome::Forced) => IterationResult::Forced,
            Some(IterationOutcome::Failed) | None => IterationResult::Failed,
        };
        let took = self.began.zip(self.ended);
        let files = self.files.len() + self.more_files;
        IterationLine {
            result,
            checks: self.check_words(result),
            took: took.map_or_else(String::new, |(from, to)| short_span(to.since(from))),
            cost: self.cost.map(money).unwrap_or_default(),
            files: if files == 0 {
                String::new()
            } else {
                counted(files, "file")
            },
            words: last_words(&self.answer),
        }
    }

    /// `✗✗✓ tests  ✓ clippy`: those that failed first, then together those that always passed.
    fn check_words(&self, result: IterationResult) -> String {
        let has_failed = |(_, marks): &&(String, Vec<CheckMark>)| {
            marks.iter().any(|mark| *mark != CheckMark::Passed)
        };
        let name = |name: &str| plain_line(name, NAME);
        let failed = self.checks.iter().filter(has_failed);
        let mut words: Vec<String> = failed
            .map(|(check, marks)| format!("{} {}", signs(marks), name(check)))
            .collect();
        let passed: Vec<String> = self
            .checks
            .iter()
            .filter(|check| !has_failed(check))
            .map(|(check, _)| name(check))
            .collect();
        if !passed.is_empty() {
            words.push(format!("✓ {}", passed.join(" ")));
        }
        let outcome = match result {
            IterationResult::Forced => Some("⚠ forced"),
            IterationResult::Failed if self.outcome.is_some() => Some("✗ failed"),
            IterationResult::Failed => Some("– not finished"),
            IterationResult::Passed if words.is_empty() => Some("✓ done"),
            IterationResult::Passed => None,
        };
        outcome
            .into_iter()
            .map(str::to_owned)
            .chain(words)
            .collect::<Vec<_>>()
            .join("  ")
    }
}

/// A sign for each run; of many runs, how many did not pass, and the last one.
fn signs(marks: &[CheckMark]) -> String {
    if marks.len() <= SIGNS {
        return marks.iter().map(|mark| mark.sign()).collect();
    }
    let failed = marks.iter().filter(|mark| **mark != CheckMark::Passed);
    let last = marks.last().filter(|last| **last == CheckMark::Passed);
    let last = last.map_or("", |last| last.sign());
    format!("✗×{}{last}", failed.count())
}

/// The first line that says something, without marks of Markdown and without a promise.
fn last_words(answer: &str) -> String {
    let clean = plain(answer);
    let without = |line: &str| {
        let before = line.split_once("<promise>");
        before.map_or(line, |(before, _)| before).to_owned()
    };
    let mut lines = clean.lines().map(without);
    let found = lines.find(|line| line.chars().any(char::is_alphanumeric));
    let text = found.unwrap_or_default();
    let text = text.trim().trim_start_matches(['#', '-', '*', '>', ' ']);
    plain_line(&text.replace("**", "").replace('`', ""), LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_checks_come_first_and_many_runs_are_counted() {
        let mut tally = IterationTally {
            outcome: Some(IterationOutcome::Done),
            ..IterationTally::default()
        };
        for mark in [CheckMark::Blocked, CheckMark::Blocked, CheckMark::Passed] {
            tally.ran("tests", mark);
        }
        tally.ran("clippy", CheckMark::Passed);
        tally.ran("fmt", CheckMark::Passed);
        assert_eq!(tally.line().checks, "✗✗✓ tests  ✓ clippy fmt");
        for _ in 0..6 {
            tally.ran("fmt", CheckMark::Blocked);
        }
        assert_eq!(tally.line().checks, "✗✗✓ tests  ✗×6 fmt  ✓ clippy");
        tally.outcome = Some(IterationOutcome::Forced);
        assert!(tally.line().checks.starts_with("⚠ forced  ✗✗✓ tests"));
        assert_eq!(tally.line().cost, "", "no cost was reported");
    }

    #[test]
    fn the_agents_words_have_no_promise() {
        assert_eq!(
            last_words("\n## All **done**. <promise>COMPLETE</promise>\n"),
            "All done."
        );
        assert_eq!(last_words("<promise>COMPLETE</promise>"), "");
        assert_eq!(last_words("---\n- `parse` is new\n"), "parse is new");
    }
}
