//! Whether the tests are as strong as they were: compares the tests that each check ran with those
//! of its first run, and reads what the runtime found in the changed test files.
//!
//! Owns the findings and their wording, because reasons are records. Does not look into files: see
//! [`super::test_files`].
//!
//! # Invariants
//! - The comparison is recorded before the session is complete, so a finding is on record whatever
//!   the policy is.
//! - What creel cannot compare is named, never taken for unchanged.

use serde::{Deserialize, Serialize};

use crate::{
    engine::{
        effect::Effect,
        event::{Event, HookFinished, VerifyEvent},
        hooks::HookState,
        output::EngineOutput,
        policy::{SessionPlan, TestProtection},
        session::iteration::SessionFiles,
        verify::{
            WorkChangedBy, WorkMeasurement, base_tests::LastCleanRun, state::VerificationState,
            test_files::can_matter,
        },
    },
    text::{TestCounts, counted, first_line, listed, same_text},
};

/// How many findings a sentence names.
const NAMED: usize = 3;
/// The longest name of a check in a sentence, in characters.
pub(crate) const NAME: usize = 40;

/// A sign that tests were weakened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "sign", rename_all = "snake_case")]
pub enum TestFinding {
    /// A check ran fewer tests than at the start.
    FewerTests {
        check: String,
        before: u64,
        now: u64,
    },
    /// More tests are skipped or ignored than at the start.
    MoreSkipped {
        check: String,
        before: u64,
        now: u64,
    },
    /// A check no longer says how many tests ran.
    NotCounted {
        check: String,
        before: u64,
    },
    /// A check fails with the test files of the commit before the session.
    FailsWithBase {
        check: String,
        reason: String,
    },
    /// creel cannot compare changed test files, and the user decides about findings.
    NotCompared {
        reason: String,
    },
    FileDeleted {
        file: String,
    },
    FewerAssertions {
        file: String,
        line: u64,
        fewer: u64,
    },
    TestsRemoved {
        file: String,
        line: u64,
        fewer: u64,
    },
    /// A new line that skips a test, or that makes it pass whatever happens.
    Weakened {
        file: String,
        line: u64,
        text: String,
    },
}

/// The tests at the end, compared with those at the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestComparison {
    /// How many changed files were looked into.
    #[serde(skip_serializing_if = "is_zero")]
    pub files: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<TestFinding>,
    /// What could not be compared, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<String>,
    /// The checks that also passed with the test files of the commit before the session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_with_base: Vec<String>,
    /// Those of them that ran fewer tests so than with the tests of the work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fewer_with_base: Vec<FewerWithBase>,
    /// Whether the user decides about the findings before the session is complete.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub asks: bool,
}

/// How many tests a check ran with the test files of the base commit, and with its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FewerWithBase {
    pub check: String,
    pub base: u64,
    pub own: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The tests that a check ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckTests {
    pub check: String,
    /// Of the first run that has counts.
    pub first: TestCounts,
    /// Whether an earlier run had none.
    pub is_late: bool,
    /// Of the last run. None if it has none.
    pub last: Option<TestCounts>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TestGuard {
    pub checks: Vec<CheckTests>,
    /// The last comparison, and the version of the work that it is about.
    pub last: Option<(u64, TestComparison)>,
    /// The findings that the user accepted.
    pub accepted: Vec<TestFinding>,
    /// The last runs in clean worktrees: see [`super::base_tests`].
    #[serde(default)]
    pub clean_runs: Vec<LastCleanRun>,
}

impl TestFinding {
    /// In one line. A place comes first.
    pub fn describe(&self) -> String {
        let was = |number: u64| if number == 1 { "was" } else { "were" };
        let at_start = |check: &str, before: u64, what: &str| {
            let before = counted(before, what);
            format!("{}: {before} at the start", first_line(check, NAME))
        };
        match self {
            Self::FewerTests { check, before, now } => {
                format!("{}, {now} at the end", at_start(check, *before, "test"))
            }
            Self::MoreSkipped { check, before, now } => {
                let before = at_start(check, *before, "skipped test");
                format!("{before}, {now} at the end")
            }
            Self::NotCounted { check, before } => {
                format!("{}, no count at the end", at_start(check, *before, "test"))
            }
            Self::FailsWithBase { check, reason } => {
                let check = first_line(check, NAME);
                format!("{check} fails with the tests of the base commit: {reason}")
            }
            Self::NotCompared { reason } => reason.clone(),
            Self::FileDeleted { file } => format!("{file} was deleted"),
            Self::FewerAssertions { file, line, fewer } => {
                format!(
                    "{file}:{line}: {} {} removed",
                    counted(*fewer, "assertion"),
                    was(*fewer)
                )
            }
            Self::TestsRemoved { file, line, fewer } => {
                format!(
                    "{file}:{line}: {} {} removed",
                    counted(*fewer, "test"),
                    was(*fewer)
                )
            }
            Self::Weakened { file, line, text } => format!("{file}:{line}: `{text}` is new"),
        }
    }
}

impl TestFinding {
    /// Whether accepting one accepts the other, too: times in the line of a failed run differ each
    /// time.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::FailsWithBase { check, reason },
                Self::FailsWithBase {
                    check: of,
                    reason: before,
                },
            ) => check == of && same_text(reason, before),
            (one, other) => one == other,
        }
    }
}

impl TestComparison {
    /// What was found, in one sentence. None if nothing was.
    pub fn summary(&self) -> Option<String> {
        weaker_tests(&self.findings)
    }

    /// Which checks also passed with the tests of the base commit, in one sentence.
    pub fn with_base(&self) -> Option<String> {
        let with_counts = |check: &String| {
            let name = first_line(check, NAME);
            let mut fewer = self.fewer_with_base.iter();
            match fewer.find(|fewer| fewer.check == *check) {
                Some(fewer) => {
                    let (base, own) = (counted(fewer.base, "test"), fewer.own);
                    format!("{name} ({base}, {own} with its own)")
                }
                None => name,
            }
        };
        let names: Vec<String> = self.passed_with_base.iter().map(with_counts).collect();
        (!names.is_empty()).then(|| {
            format!(
                "{} also passed with the tests of the base commit",
                listed(&names)
            )
        })
    }
}

/// These findings in one sentence. None if there are none.
pub fn weaker_tests(findings: &[TestFinding]) -> Option<String> {
    let shown = findings.iter().take(NAMED).map(TestFinding::describe);
    let shown: Vec<String> = shown.collect();
    let more = match findings.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {}", counted(more, "more sign")),
    };
    let shown = shown.join("; ");
    (!shown.is_empty()).then(|| format!("the tests may be weaker than at the start: {shown}{more}"))
}

impl CheckTests {
    fn compare(&self, found: &mut TestComparison) {
        let (first, check) = (self.first, self.check.clone());
        let name = first_line(&check, NAME);
        if self.is_late {
            found.undecided.push(format!(
                "the first run of {name} does not say how many tests ran; creel compared with a later one"
            ));
        }
        let Some(last) = self.last else {
            if first.partial {
                found
                    .undecided
                    .push(format!("{name} does not say how many tests ran at the end"));
            } else {
                let before = first.total();
                found
                    .findings
                    .push(TestFinding::NotCounted { check, before });
            }
            return;
        };
        let (before, now) = (first.total(), last.total());
        if now < before && last.partial {
            found.undecided.push(format!(
                "the last run of {name} stopped early, so not all of its tests are counted"
            ));
        } else if now < before {
            let check = check.clone();
            found
                .findings
                .push(TestFinding::FewerTests { check, before, now });
        }
        // A first run that stopped early did not reach the tests that were skipped already.
        let unknown = if first.partial {
            now.saturating_sub(before)
        } else {
            0
        };
        if last.skipped > first.skipped.saturating_add(unknown) {
            let (before, now) = (first.skipped, last.skipped);
            found
                .findings
                .push(TestFinding::MoreSkipped { check, before, now });
        }
    }
}

impl VerificationState {
    /// Keeps the tests of a run of a check.
    pub(crate) fn tests_ran(&mut self, finished: &HookFinished, ran_before: bool) {
        let known = self
            .tests
            .checks
            .iter_mut()
            .find(|known| known.check == finished.hook);
        match (known, finished.tests) {
            (Some(known), last) => known.last = last,
            (None, Some(counts)) => self.tests.checks.push(CheckTests {
                check: finished.hook.clone(),
                first: counts,
                is_late: ran_before,
                last: Some(counts),
            }),
            (None, None) => {}
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct TestRules<'a> {
    pub(crate) plan: &'a SessionPlan,
    pub(crate) files: &'a SessionFiles,
    pub(crate) hooks: &'a HookState,
    pub(crate) verify: &'a VerificationState,
}

impl TestRules<'_> {
    /// The next step towards the comparison. None if it is done, or if there is nothing to compare.
    pub(crate) fn compare(self, measured: Option<&WorkMeasurement>) -> Option<EngineOutput> {
        let guard = &self.verify.tests;
        let is_done = guard
            .last
            .as_ref()
            .is_some_and(|(version, _)| *version == self.verify.version);
        if self.plan.access.protect_tests == TestProtection::Off || is_done {
            return None;
        }
        if let Some(step) = self.next_clean_runs() {
            return Some(step);
        }
        let looks = self.changed_tests();
        let in_files = match measured.and_then(|measured| measured.tests.clone()) {
            Some(found) => found,
            None if looks => {
                return Some(EngineOutput::default().then(Effect::MeasureWork {
                    by: WorkChangedBy::Others,
                    checks: Vec::new(),
                    tests: Some(Box::new(self.files.clone())),
                }));
            }
            None => TestComparison::default(),
        };
        let mut found = in_files;
        if self.plan.access.protect_tests == TestProtection::Gate {
            let reasons = std::mem::take(&mut found.undecided).into_iter();
            found
                .findings
                .extend(reasons.map(|reason| TestFinding::NotCompared { reason }));
        }
        for check in &guard.checks {
            check.compare(&mut found);
        }
        self.compare_with_base(&mut found);
        let is_known = |finding: &TestFinding| guard.accepted.iter().any(|it| it.is_same(finding));
        let is_new = |finding: &TestFinding| !is_known(finding);
        found.asks = self.plan.access.protect_tests == TestProtection::Gate
            && found.findings.iter().any(is_new);
        let says_nothing = found == TestComparison::default() && guard.checks.is_empty();
        (!says_nothing || guard.last.is_some())
            .then(|| EngineOutput::record(Event::Verify(VerifyEvent::TestsCompared(found))))
    }

    /// What the last comparison found, in one sentence.
    pub(crate) fn summary(self) -> Option<String> {
        let (_, last) = self.verify.tests.last.as_ref()?;
        last.summary()
    }

    /// Whether the session may have changed a file of tests.
    fn changed_tests(self) -> bool {
        match self.files.names() {
            Some(mut names) => names.any(can_matter),
            None => !self.files.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, skipped: u64, partial: bool) -> TestCounts {
        TestCounts {
            passed,
            failed: 0,
            skipped,
            partial,
        }
    }

    fn compared(first: TestCounts, last: Option<TestCounts>) -> (Vec<String>, usize) {
        let check = CheckTests {
            check: "tests".into(),
            first,
            is_late: false,
            last,
        };
        let mut found = TestComparison::default();
        check.compare(&mut found);
        let findings = found.findings.iter().map(TestFinding::describe);
        (findings.collect(), found.undecided.len())
    }

    #[test]
    fn fewer_tests_and_more_skipped_ones_are_findings() {
        let ten = counts(10, 0, false);
        assert_eq!(compared(ten, Some(counts(12, 0, false))), (vec![], 0));
        assert_eq!(
            compared(ten, Some(counts(7, 3, false))),
            (
                vec!["tests: 0 skipped tests at the start, 3 at the end".into()],
                0
            )
        );
        assert_eq!(
            compared(ten, Some(counts(9, 0, false))),
            (vec!["tests: 10 tests at the start, 9 at the end".into()], 0)
        );
        assert_eq!(
            compared(ten, None),
            (
                vec!["tests: 10 tests at the start, no count at the end".into()],
                0
            )
        );
    }

    #[test]
    fn what_a_run_that_stopped_early_did_not_reach_is_no_finding() {
        let stopped = counts(2, 0, true);
        assert_eq!(compared(stopped, Some(counts(9, 2, false))), (vec![], 0));
        assert_eq!(compared(stopped, None), (vec![], 1));
        assert_eq!(compared(counts(9, 0, false), Some(stopped)), (vec![], 1));
        let (found, _) = compared(stopped, Some(counts(1, 2, false)));
        assert_eq!(found, ["tests: 0 skipped tests at the start, 2 at the end"]);
    }
}
