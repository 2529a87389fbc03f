//! Guards: they turn continue into escalate if the loop makes no progress.
//!
//! # Invariants
//! - A guard never ends a session. It does not override a hook that completed or escalated, and it
//!   is silent in the last iteration.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    engine::{
        policy::StopPlan,
        stop::{
            context::RuleOutcome,
            file_history::{ChangedFiles, FileHistory},
        },
    },
    text::{comparable_text, counted, same_text, shortened},
};

/// What the guards have seen. All counts are of consecutive iterations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardState {
    /// Iterations with failed rules.
    failing: u32,
    /// The rules that failed in the last iteration.
    failures: BTreeMap<String, RepeatedFailure>,
    files: FileHistory,
    /// The last message.
    message: String,
    /// Iterations that ended with this message.
    repeated: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RepeatedFailure {
    /// In the form in which messages are compared.
    message: String,
    /// Consecutive iterations in which it failed with this message.
    times: u32,
}

#[derive(Debug, Clone, Copy)]
pub struct IterationFacts<'a> {
    pub rules: &'a [RuleOutcome],
    pub files: ChangedFiles<'a>,
    /// The agent's last message.
    pub said: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardAlarm {
    pub guard: &'static str,
    pub reason: String,
}

impl GuardState {
    /// The state after one more iteration.
    #[must_use]
    pub fn after(&self, sight: IterationFacts<'_>) -> Self {
        let IterationFacts { rules, files, said } = sight;
        let failing = if rules.iter().all(|rule| rule.passed) {
            0
        } else {
            self.failing + 1
        };
        let failures = rules
            .iter()
            .filter(|rule| !rule.passed)
            .map(|rule| self.failed_again(rule))
            .collect();
        let message = said.trim().to_owned();
        let repeated = match message.as_str() {
            "" => 0,
            same if same_text(same, &self.message) => self.repeated + 1,
            _ => 1,
        };
        Self {
            failing,
            failures,
            files: self.files.after(files),
            message,
            repeated,
        }
    }

    fn failed_again(&self, rule: &RuleOutcome) -> (String, RepeatedFailure) {
        let message = comparable_text(&rule.message);
        let before = self
            .failures
            .get(&rule.rule_name)
            .filter(|before| before.message == message);
        let times = before.map_or(1, |before| before.times.saturating_add(1));
        (rule.rule_name.clone(), RepeatedFailure { message, times })
    }

    /// The alarm for the user, if a guard has reached its limit.
    pub fn alarm(&self, plan: &StopPlan, rules: &[RuleOutcome]) -> Option<GuardAlarm> {
        let reached = |limit: u32, seen: u32| limit > 0 && seen >= limit;
        if reached(plan.circuit_breaker, self.failing) {
            let failed = rules.iter().filter(|rule| !rule.passed);
            let names = failed
                .map(|rule| format!("`{}`", rule.rule_name))
                .collect::<Vec<_>>()
                .join(", ");
            let reason = format!(
                "rules failed in {} in a row; now: {names}",
                counted(self.failing, "iteration")
            );
            return Some(GuardAlarm {
                guard: "circuit_breaker",
                reason,
            });
        }
        if let Some(reason) = self.thrashes(rules, |seen| reached(plan.thrashing, seen)) {
            return Some(GuardAlarm {
                guard: "thrashing",
                reason,
            });
        }
        reached(plan.no_progress, self.repeated).then(|| {
            let said = excerpt(&self.message);
            let reason = format!(
                "the agent ended {} in a row with the same message: {said}",
                counted(self.repeated, "iteration")
            );
            GuardAlarm {
                guard: "no_progress",
                reason,
            }
        })
    }

    /// Which file is rewritten back and forth, if `reached` accepts the number of iterations.
    fn thrashes(&self, rules: &[RuleOutcome], reached: impl Fn(u32) -> bool) -> Option<String> {
        if let Some((file, times)) = self
            .files
            .most_returned()
            .filter(|(_, times)| reached(*times))
        {
            let times = counted(times, "iteration");
            return Some(format!(
                "`{file}` returned to content that it had before in {times} in a row"
            ));
        }
        let (file, rewritten) = self.files.most_rewritten()?;
        let (rule, failure) = self
            .failures
            .iter()
            .max_by_key(|(_, failure)| failure.times)?;
        let times = rewritten.min(failure.times);
        reached(times).then(|| {
            let said = rules.iter().find(|known| known.rule_name == *rule).map_or("", |known| &known.message);
            let (times, said) = (counted(times, "iteration"), excerpt(said));
            format!(
                "the agent rewrote `{file}` in {times} in a row, and `{rule}` still fails with the same message: {said}"
            )
        })
    }
}

/// The beginning of a text, in one line.
fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("“{}”", shortened(&line, 80))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{
        conversation::FileContent,
        policy::{OpenTasksPolicy, SettledPolicy},
    };

    fn plan() -> StopPlan {
        StopPlan {
            hooks: Vec::new(),
            rules: Vec::new(),
            settled: SettledPolicy::Continue,
            open_tasks: OpenTasksPolicy::Ignore,
            circuit_breaker: 3,
            thrashing: 5,
            no_progress: 4,
        }
    }

    fn rule(passed: bool) -> RuleOutcome {
        RuleOutcome {
            rule_name: "tests".into(),
            passed,
            message: String::new(),
        }
    }

    type Files = BTreeMap<String, FileContent>;

    /// After how many iterations which guard speaks.
    fn speaks(
        plan: &StopPlan,
        iteration: impl Fn(u32) -> (Vec<RuleOutcome>, Files, String),
    ) -> Option<(u32, GuardAlarm)> {
        let mut guards = GuardState::default();
        (1..20).find_map(|n| {
            let (rules, files, said) = iteration(n);
            guards = guards.after(IterationFacts {
                rules: &rules,
                files: ChangedFiles::Seen(&files),
                said: &said,
            });
            guards.alarm(plan, &rules).map(|alarm| (n, alarm))
        })
    }

    fn file(name: &str, content: u32) -> (String, FileContent) {
        (
            name.to_owned(),
            FileContent {
                digest: Some(content.to_string()),
                ..FileContent::default()
            },
        )
    }

    #[test]
    fn three_iterations_in_a_row_with_failed_rules_are_enough() {
        let (n, alarm) = speaks(&plan(), |n| {
            (vec![rule(n == 2)], Files::new(), n.to_string())
        })
        .expect("it fails from the third on");
        assert_eq!((n, alarm.guard), (5, "circuit_breaker"));
        assert_eq!(
            alarm.reason,
            "rules failed in 3 iterations in a row; now: `tests`"
        );
        assert_eq!(
            speaks(&plan(), |n| (
                vec![rule(n % 3 == 0)],
                Files::new(),
                n.to_string()
            )),
            None
        );
    }

    #[test]
    fn a_file_that_returns_to_earlier_content_again_and_again_is_named() {
        let files =
            |n: u32| Files::from([file(&format!("src/{n}.rs"), n), file("src/main.rs", n % 2)]);
        let (n, alarm) =
            speaks(&plan(), |n| (vec![], files(n), n.to_string())).expect("main.rs flips");
        assert_eq!((n, alarm.guard), (7, "thrashing"));
        assert_eq!(
            alarm.reason,
            "`src/main.rs` returned to content that it had before in 5 iterations in a row"
        );
        let with_new_content = |n: u32| Files::from([file("src/main.rs", n)]);
        assert_eq!(
            speaks(&plan(), |n| (vec![], with_new_content(n), n.to_string())),
            None
        );
    }

    #[test]
    fn a_file_that_is_rewritten_while_a_rule_fails_in_the_same_way_is_named() {
        let plan = StopPlan {
            circuit_breaker: 0,
            ..plan()
        };
        let failing = |message: String| {
            vec![RuleOutcome {
                message,
                ..rule(false)
            }]
        };
        let rewritten = |n: u32| Files::from([file("a.rs", n)]);
        let same = |n: u32| failing(format!("2 tests failed in {n}.5s"));
        let (n, alarm) =
            speaks(&plan, |n| (same(n), rewritten(n), n.to_string())).expect("it goes nowhere");
        assert_eq!((n, alarm.guard), (5, "thrashing"));
        assert_eq!(
            alarm.reason,
            "the agent rewrote `a.rs` in 5 iterations in a row, and `tests` still fails with the same message: “2 tests failed in 5.5s”"
        );
        let other = |n: u32| failing(format!("{n} tests failed"));
        assert_eq!(
            speaks(&plan, |n| (other(n), rewritten(n), n.to_string())),
            None
        );
        let log = |n: u32| {
            let content = FileContent {
                digest: Some(n.to_string()),
                appended: n > 1,
                committed: false,
            };
            Files::from([("progress.txt".to_owned(), content)])
        };
        assert_eq!(speaks(&plan, |n| (same(n), log(n), n.to_string())), None);
    }

    #[test]
    fn files_that_an_agent_only_names_count_while_a_rule_fails() {
        let plan = StopPlan {
            circuit_breaker: 0,
            ..plan()
        };
        let alarm = |rules: &[RuleOutcome]| {
            let names = ["a.rs".to_owned()];
            let guards = (0..8).fold(GuardState::default(), |guards, n| {
                guards.after(IterationFacts {
                    rules,
                    files: ChangedFiles::Named(&names),
                    said: &n.to_string(),
                })
            });
            guards.alarm(&plan, rules).map(|alarm| alarm.guard)
        };
        assert_eq!(alarm(&[rule(false)]), Some("thrashing"));
        assert_eq!(alarm(&[rule(true)]), None);
    }

    #[test]
    fn an_agent_that_says_the_same_each_time_makes_no_progress() {
        let (n, alarm) = speaks(&plan(), |_| (vec![], Files::new(), " I am\non it ".into()))
            .expect("it says the same each time");
        assert_eq!((n, alarm.guard), (4, "no_progress"));
        assert_eq!(
            alarm.reason,
            "the agent ended 4 iterations in a row with the same message: “I am on it”"
        );
        assert_eq!(
            speaks(&plan(), |_| (vec![], Files::new(), "  ".into())),
            None
        );
        let timed = |n: u32| format!("Still 3 failures after {n} s.");
        assert_eq!(
            speaks(&plan(), |n| (vec![], Files::new(), timed(n))).map(|(n, _)| n),
            Some(4)
        );
    }
}
