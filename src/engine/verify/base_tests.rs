//! `tests: base`: a check that passed runs again with the test files of the commit before the
//! session, in a clean worktree.
//!
//! Owns when such a run is due, what its end means, and what follows for the comparison of the
//! tests. Does not make the worktree: see `crate::hooks`.
//!
//! # Invariants
//! - These runs never count as results of the check: they neither verify the work nor fail it.
//! - A failure is a finding only if the check passes in the same kind of worktree with the tests of
//!   the work. Otherwise the worktree can be the reason, and creel says that it cannot decide.

use serde::{Deserialize, Serialize};

use crate::{
    engine::{
        event::{CheckRunResult, Event, HookFinished, VerifyEvent},
        hooks::{
            HookRef,
            point::HookPoint,
            verdict::{BuiltinStatus, RecordedJudgement, RunEnd, RunJudgement, Verdict},
        },
        output::EngineOutput,
        policy::HookSpec,
        verify::{
            CheckKind, CheckRef,
            state::VerificationState,
            test_guard::{FewerWithBase, NAME, TestComparison, TestFinding, TestRules},
        },
    },
    text::{TestCounts, first_line},
};

/// How much of a line a reason quotes, in characters.
const LINE: usize = 200;

/// Whose test files a check runs with in a clean worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestSource {
    /// Those of the commit before the session.
    Base,
    /// Those of the work: shows whether the worktree is the reason for a failure.
    Work,
}

impl TestSource {
    /// The name in records and in the config.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Work => "work",
        }
    }

    /// What the check runs with.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Base => "with the tests of the base commit",
            Self::Work => "with its own tests in a clean worktree",
        }
    }
}

/// What a run in a clean worktree shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum CleanRunResult {
    Passed,
    Failed {
        why: String,
    },
    /// Nothing, for this reason.
    Undecided {
        why: String,
    },
    /// It was not needed: no test file differs from the base commit.
    Unneeded,
}

/// A run in a clean worktree, as its record has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanRun {
    pub of: TestSource,
    #[serde(flatten)]
    pub result: CleanRunResult,
    /// How many test files of the work differ from those of the base commit. None if creel does
    /// not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<usize>,
}

/// The last run of a check in a clean worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastCleanRun {
    pub check: String,
    pub run: CleanRun,
    /// The version of the work that it is about.
    pub version: u64,
    /// The tests that ran. None if its output does not say it.
    #[serde(default)]
    pub tests: Option<TestCounts>,
}

impl CleanRun {
    /// A run whose end creel did not see.
    pub(crate) fn cut(of: TestSource) -> Self {
        let why = "it was interrupted".to_owned();
        Self {
            of,
            result: CleanRunResult::Undecided { why },
            files: None,
        }
    }

    /// What the run of a check shows. `judged` is what it would mean as a run of the check itself.
    fn of(
        of: TestSource,
        spec: &HookSpec,
        ran: &HookFinished,
        judged: &RunJudgement,
        files: Option<usize>,
    ) -> Self {
        let undecided = |why: String| CleanRunResult::Undecided { why };
        let headline = judged.headline.clone();
        let why = headline.unwrap_or_else(|| ran.end.describe());
        let is_unreadable = ran.reply.as_ref().is_some_and(|reply| reply.unreadable);
        let skipped = ran
            .outcome
            .as_ref()
            .filter(|outcome| outcome.status == BuiltinStatus::Skip);
        let result = match &ran.end {
            RunEnd::Exit(_) if of == TestSource::Base && files == Some(0) => {
                CleanRunResult::Unneeded
            }
            RunEnd::Exit(0) if is_unreadable => undecided(why),
            RunEnd::Exit(0) => match (skipped, judged.verdict) {
                (Some(skipped), _) => undecided(skipped.message.clone()),
                (None, Verdict::Pass) => CleanRunResult::Passed,
                (None, Verdict::Block | Verdict::Fail) => CleanRunResult::Failed { why },
            },
            RunEnd::Exit(_) => CleanRunResult::Failed { why },
            RunEnd::TimedOut => undecided(format!("it timed out after {}", spec.timeout.compact())),
            RunEnd::Signal(signal) => undecided(format!("signal {signal} ended it")),
            RunEnd::SpawnFailed(why) => undecided(why.clone()),
            RunEnd::Cut => return Self::cut(of),
        };
        Self { of, result, files }
    }
}

impl HookFinished {
    /// The record of a run in a clean worktree. It neither blocks nor escalates, and nothing of it
    /// is sent to the agent.
    pub(crate) fn in_clean_worktree(
        self,
        of: TestSource,
        spec: &HookSpec,
        judged: &RunJudgement,
        files: Option<usize>,
    ) -> Self {
        let run = CleanRun::of(of, spec, &self, judged, files);
        let verdict = match run.result {
            CleanRunResult::Passed | CleanRunResult::Unneeded => Verdict::Pass,
            CleanRunResult::Failed { .. } | CleanRunResult::Undecided { .. } => Verdict::Fail,
        };
        let headline = judged.headline.clone();
        let headline = headline.filter(|_| verdict != Verdict::Pass);
        Self {
            verdict,
            judged: Some(RecordedJudgement {
                headline,
                ..RecordedJudgement::default()
            }),
            tests_of: Some(Box::new(run)),
            ..self
        }
    }
}

impl VerificationState {
    /// Keeps a run in a clean worktree.
    pub(crate) fn clean_run_ended(&mut self, finished: &HookFinished, run: &CleanRun) {
        let runs = &mut self.tests.clean_runs;
        runs.retain(|known| known.check != finished.hook || known.run.of != run.of);
        runs.push(LastCleanRun {
            check: finished.hook.clone(),
            run: run.clone(),
            version: self.version,
            tests: finished.tests,
        });
    }

    /// The run of a check on the work as it is.
    fn clean_run(&self, check: &str, of: TestSource) -> Option<&LastCleanRun> {
        let mut runs = self.tests.clean_runs.iter();
        runs.find(|known| {
            known.check == check && known.run.of == of && known.version == self.version
        })
    }
}

impl<'a> TestRules<'a> {
    /// The checks with `tests: base` that passed on the work as it is.
    fn to_run_with_base(self) -> impl Iterator<Item = &'a str> {
        let hooks = self.plan.hooks_at(HookPoint::Stop).iter();
        let has_key = hooks.filter(|spec| spec.tests == Some(TestSource::Base));
        let names = has_key.map(|spec| spec.name.as_str());
        names.filter(move |name| {
            let is_off = self.hooks.is_off(&HookRef::new(HookPoint::Stop, name));
            let run = self.verify.run_of(&CheckRef::new(CheckKind::Hook, name));
            !is_off
                && run.is_some_and(|run| {
                    run.result == CheckRunResult::Passed && run.version == self.verify.version
                })
        })
    }

    /// The next runs in a clean worktree: with the tests of the base commit, and after a failure
    /// with those of the work. None if none is due.
    pub(crate) fn next_clean_runs(self) -> Option<EngineOutput> {
        let result = |check: &str, of| {
            let known = self.verify.clean_run(check, of);
            known.map(|known| &known.run.result)
        };
        let lacks = |of: TestSource| -> Vec<String> {
            let is_due = |check: &&str| match of {
                TestSource::Base => true,
                TestSource::Work => matches!(
                    result(check, TestSource::Base),
                    Some(CleanRunResult::Failed { .. })
                ),
            };
            let all = self.to_run_with_base().filter(is_due);
            let missing = all.filter(|check| result(check, of).is_none());
            missing.map(str::to_owned).collect()
        };
        [TestSource::Base, TestSource::Work]
            .into_iter()
            .map(|of| (of, lacks(of)))
            .find(|(_, hooks)| !hooks.is_empty())
            .map(|(of, hooks)| {
                EngineOutput::record(Event::Verify(VerifyEvent::Started {
                    hooks,
                    rules: Vec::new(),
                    tests_of: Some(of),
                }))
            })
    }

    /// Adds what the runs in clean worktrees show.
    pub(crate) fn compare_with_base(self, found: &mut TestComparison) {
        for check in self.to_run_with_base() {
            let Some(base) = self.verify.clean_run(check, TestSource::Base) else {
                continue;
            };
            let name = first_line(check, NAME);
            let undecided = |why: &str| {
                let why = first_line(why, LINE);
                format!(
                    "creel cannot decide whether {name} passes with the tests of the base commit: {why}"
                )
            };
            match &base.run.result {
                CleanRunResult::Unneeded => {}
                CleanRunResult::Passed => match self.compare_counts(check, base.tests) {
                    Err(why) => found.undecided.push(undecided(why)),
                    Ok(fewer) => {
                        found.fewer_with_base.extend(fewer);
                        found.passed_with_base.push(check.to_owned());
                    }
                },
                CleanRunResult::Undecided { why } => found.undecided.push(undecided(why)),
                CleanRunResult::Failed { why } => match self.fails_because_of_the_worktree(check) {
                    Some(reason) => found.undecided.push(undecided(&reason)),
                    None => found.findings.push(TestFinding::FailsWithBase {
                        check: check.to_owned(),
                        reason: first_line(why, LINE),
                    }),
                },
            }
        }
    }

    /// Why a failure with the tests of the base commit proves nothing. None if the check passes in
    /// a clean worktree with the tests of the work.
    fn fails_because_of_the_worktree(self, check: &str) -> Option<String> {
        let with_own = self.verify.clean_run(check, TestSource::Work);
        let why = match with_own.map(|known| &known.run.result) {
            Some(CleanRunResult::Passed) => return None,
            Some(CleanRunResult::Failed { why } | CleanRunResult::Undecided { why }) => why,
            Some(CleanRunResult::Unneeded) | None => "it did not run",
        };
        Some(format!(
            "in a clean worktree it does not pass with the tests of the work either ({})",
            first_line(why, LINE)
        ))
    }

    /// Compares the tests of a run that passed with those of the check's own last run. The error
    /// is why the run proves nothing.
    fn compare_counts(
        self,
        check: &str,
        base: Option<TestCounts>,
    ) -> Result<Option<FewerWithBase>, &'static str> {
        let mut known = self.verify.tests.checks.iter();
        let own = known.find(|known| known.check == check);
        let own = own.and_then(|known| known.last).map(TestCounts::total);
        match (own, base.map(TestCounts::total)) {
            (Some(_), None) => Err("its output does not say how many tests ran"),
            (Some(1..), Some(0)) => Err("it ran no tests"),
            (Some(own), Some(base)) if base < own => Ok(Some(FewerWithBase {
                check: check.to_owned(),
                base,
                own,
            })),
            (Some(_) | None, _) => Ok(None),
        }
    }
}
