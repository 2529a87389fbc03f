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
            file_history::{ChangedFiles, FileHistory, FileStreaks},
        },
        stored_form::is_default,
    },
    text::{counted, same_text, shortened},
};

/// What the guards have seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardState {
    streaks: GuardStreaks,
    /// The rules that failed in the last iteration, with their messages.
    failures: BTreeMap<String, String>,
    files: FileHistory,
    /// The last message.
    message: String,
}

/// What repeats itself, in consecutive iterations. Recorded with the decision, because texts are
/// compared loosely: a later version may find others to be the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuardStreaks {
    /// Iterations with failed rules.
    #[serde(skip_serializing_if = "is_default")]
    pub failing: u32,
    /// Iterations in which a rule failed with the same message, by rule.
    #[serde(skip_serializing_if = "is_default")]
    pub failures: BTreeMap<String, u32>,
    /// Iterations that ended with the same message of the agent.
    #[serde(skip_serializing_if = "is_default")]
    pub repeated: u32,
    #[serde(flatten)]
    pub files: FileStreaks,
}

#[derive(Debug, Clone, Copy)]
pub struct IterationFacts<'a> {
    pub rules: &'a [RuleOutcome],
    pub files: ChangedFiles<'a>,
    /// The agent's last message.
    pub message: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardAlarm {
    pub guard: &'static str,
    pub reason: String,
}

impl GuardState {
    /// What repeats itself with one more iteration.
    pub fn streaks(&self, facts: IterationFacts<'_>) -> GuardStreaks {
        let before = &self.streaks;
        let failed_again = |rule: &RuleOutcome| {
            let is_same = self
                .failures
                .get(&rule.rule_name)
                .is_some_and(|message| same_text(message, &rule.message));
            let times = before.failures.get(&rule.rule_name).filter(|_| is_same);
            let times = times.map_or(1, |times| times.saturating_add(1));
            (rule.rule_name.clone(), times)
        };
        let failures: BTreeMap<String, u32> = failed(facts.rules).map(failed_again).collect();
        GuardStreaks {
            failing: if failures.is_empty() {
                0
            } else {
                before.failing + 1
            },
            failures,
            repeated: match facts.message.trim() {
                "" => 0,
                same if same_text(same, &self.message) => before.repeated + 1,
                _ => 1,
            },
            files: self.files.streaks(facts.files, &before.files),
        }
    }

    /// Stores an iteration, and what repeats itself with it.
    pub fn store(&mut self, facts: IterationFacts<'_>, streaks: GuardStreaks) {
        self.failures = failed(facts.rules)
            .map(|rule| (rule.rule_name.clone(), rule.message.clone()))
            .collect();
        self.files.store(facts.files);
        facts.message.trim().clone_into(&mut self.message);
        self.streaks = streaks;
    }

    /// The state after one more iteration.
    #[must_use]
    pub fn after(&self, facts: IterationFacts<'_>) -> Self {
        let mut after = self.clone();
        after.store(facts, self.streaks(facts));
        after
    }

    /// The alarm for the user, if a guard has reached its limit.
    pub fn alarm(&self, plan: &StopPlan, rules: &[RuleOutcome]) -> Option<GuardAlarm> {
        let reached = |limit: u32, seen: u32| limit > 0 && seen >= limit;
        if reached(plan.circuit_breaker, self.streaks.failing) {
            let names = failed(rules)
                .map(|rule| format!("`{}`", rule.rule_name))
                .collect::<Vec<_>>()
                .join(", ");
            let reason = format!(
                "rules failed in {} in a row; now: {names}",
                counted(self.streaks.failing, "iteration")
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
        reached(plan.no_progress, self.streaks.repeated).then(|| {
            let message = excerpt(&self.message);
            let reason = format!(
                "the agent ended {} in a row with the same message: {message}",
                counted(self.streaks.repeated, "iteration")
            );
            GuardAlarm {
                guard: "no_progress",
                reason,
            }
        })
    }

    /// Which file is rewritten back and forth, if `reached` accepts the number of iterations.
    fn thrashes(&self, rules: &[RuleOutcome], reached: impl Fn(u32) -> bool) -> Option<String> {
        let streaks = &self.streaks;
        if let Some((file, times)) =
            most(&streaks.files.returned).filter(|(_, times)| reached(*times))
        {
            let times = counted(times, "iteration");
            return Some(format!(
                "`{file}` returned to content that it had before in {times} in a row"
            ));
        }
        let (file, rewritten) = most(&streaks.files.rewritten)?;
        let (rule, failed) = most(&streaks.failures)?;
        let times = rewritten.min(failed);
        reached(times).then(|| {
            let message = rules.iter().find(|known| known.rule_name == rule).map_or("", |known| &known.message);
            let (times, message) = (counted(times, "iteration"), excerpt(message));
            format!(
                "the agent rewrote `{file}` in {times} in a row, and `{rule}` still fails with the same message: {message}"
            )
        })
    }
}

fn failed(rules: &[RuleOutcome]) -> impl Iterator<Item = &RuleOutcome> {
    rules.iter().filter(|rule| !rule.passed)
}

/// The longest of these streaks.
fn most(streaks: &BTreeMap<String, u32>) -> Option<(&str, u32)> {
    let longest = streaks.iter().max_by_key(|(_, times)| **times);
    longest.map(|(name, times)| (name.as_str(), *times))
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
            let (rules, files, message) = iteration(n);
            guards = guards.after(IterationFacts {
                rules: &rules,
                files: ChangedFiles::Seen(&files),
                message: &message,
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
                    message: &n.to_string(),
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
