//! Guards: they turn continue into escalate if the loop makes no progress.
//!
//! Also owns the contents of the project's files in the latest iterations, which show the files
//! that the agent keeps rewriting.
//!
//! # Invariants
//! - A guard never ends a session. It does not override a hook that completed or escalated, and it
//!   is silent in the last iteration.
//! - A file that was committed has no history: committed work counts as finished.
//! - A file that grows to new content, or is written again unchanged, is not rewritten. A file that
//!   returns to the content of an earlier iteration is, even if the change only appends.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::{
    engine::{
        conversation::FileContent, policy::StopPlan, stop::context::RuleOutcome,
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

/// How many iterations the history covers.
const REMEMBERED: usize = 20;

#[derive(Debug, Clone, Copy)]
pub enum ChangedFiles<'a> {
    /// With their contents, as creel saw them.
    Seen(&'a BTreeMap<String, FileContent>),
    /// Only the names, as an agent reported them.
    Named(&'a [String]),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHistory {
    /// The digests of the files that each of the latest iterations changed, newest last.
    past: VecDeque<BTreeMap<String, Option<String>>>,
}

/// In how many consecutive iterations the agent rewrote a file, by file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileStreaks {
    #[serde(skip_serializing_if = "is_default")]
    pub rewritten: BTreeMap<String, u32>,
    /// Files that returned to content of an earlier iteration.
    #[serde(skip_serializing_if = "is_default")]
    pub returned: BTreeMap<String, u32>,
}

impl FileHistory {
    /// Which files one more iteration rewrites.
    pub fn streaks(&self, changed: ChangedFiles<'_>, before: &FileStreaks) -> FileStreaks {
        let mut after = FileStreaks::default();
        let contents = match changed {
            ChangedFiles::Seen(contents) => contents,
            ChangedFiles::Named(names) => {
                let longer = |name: &String| (name.clone(), next(&before.rewritten, name));
                after.rewritten = names.iter().map(longer).collect();
                return after;
            }
        };
        for (name, content) in in_work(contents) {
            let mut earlier = self
                .past
                .iter()
                .rev()
                .filter_map(|iteration| iteration.get(name));
            if earlier.next() == Some(&content.digest) {
                continue;
            }
            let returned = earlier.any(|digest| *digest == content.digest);
            if returned || !content.appended {
                let times = next(&before.rewritten, name);
                after.rewritten.insert(name.clone(), times);
            }
            if returned {
                let times = next(&before.returned, name);
                after.returned.insert(name.clone(), times);
            }
        }
        after
    }

    pub fn store(&mut self, changed: ChangedFiles<'_>) {
        let ChangedFiles::Seen(contents) = changed else {
            self.past.clear();
            return;
        };
        for (name, _) in contents.iter().filter(|(_, content)| content.committed) {
            self.past
                .iter_mut()
                .for_each(|iteration| drop(iteration.remove(name)));
        }
        let digests =
            in_work(contents).map(|(name, content)| (name.clone(), content.digest.clone()));
        self.past.push_back(digests.collect());
        while self.past.len() > REMEMBERED {
            self.past.pop_front();
        }
    }
}

fn in_work(
    contents: &BTreeMap<String, FileContent>,
) -> impl Iterator<Item = (&String, &FileContent)> {
    contents.iter().filter(|(_, content)| !content.committed)
}

fn next(streaks: &BTreeMap<String, u32>, name: &str) -> u32 {
    streaks.get(name).map_or(1, |times| times.saturating_add(1))
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

#[cfg(test)]
mod file_history_tests {
    use super::*;

    fn seen(digest: &str) -> FileContent {
        FileContent {
            digest: Some(digest.to_owned()),
            ..FileContent::default()
        }
    }

    /// How often `f` returned and was rewritten, in a row, after iterations with these contents.
    fn streaks(iterations: impl IntoIterator<Item = Option<FileContent>>) -> (u32, u32) {
        let (mut history, mut streaks) = (FileHistory::default(), FileStreaks::default());
        for content in iterations {
            let contents = content.map(|content| ("f".to_owned(), content));
            let contents = contents.into_iter().collect();
            streaks = history.streaks(ChangedFiles::Seen(&contents), &streaks);
            history.store(ChangedFiles::Seen(&contents));
        }
        let times = |of: &BTreeMap<String, u32>| of.values().max().copied().unwrap_or(0);
        (times(&streaks.returned), times(&streaks.rewritten))
    }

    #[test]
    fn a_file_returns_if_it_had_the_content_before_the_last_one() {
        let of = |text: &str| {
            streaks(
                text.chars()
                    .map(|c| (c != ' ').then(|| seen(&c.to_string()))),
            )
        };
        assert_eq!(of("ABA"), (1, 3));
        assert_eq!(of("ABABAB"), (4, 6));
        assert_eq!(of("ABCDEF"), (0, 6), "new content each time");
        assert_eq!(of("AAAAAA"), (0, 0), "written again without a change");
        assert_eq!(
            of("ABAB AB"),
            (2, 2),
            "an iteration that leaves it alone begins the count again"
        );
        assert_eq!(of("ABCA"), (1, 4));
    }

    #[test]
    fn a_file_that_is_removed_and_written_again_returns() {
        let gone = FileContent::default();
        assert_eq!(
            streaks([seen("A"), gone.clone(), seen("A"), gone].map(Some)),
            (2, 4)
        );
    }

    #[test]
    fn appends_and_commits_never_count() {
        let appended = |digest: &str| FileContent {
            appended: true,
            ..seen(digest)
        };
        let committed = |digest: &str| FileContent {
            committed: true,
            ..seen(digest)
        };
        assert_eq!(
            streaks([seen("A"), appended("B"), appended("C")].map(Some)),
            (0, 0)
        );
        assert_eq!(
            streaks([seen("A"), seen("B"), committed("A"), committed("B")].map(Some)),
            (0, 0)
        );
        assert_eq!(
            streaks([seen("A"), seen("B"), committed("C"), seen("A")].map(Some)),
            (0, 1)
        );
    }

    #[test]
    fn an_append_that_restores_earlier_content_is_a_return() {
        // "ab" begins with "a": each way back looks like an append, and is not new.
        let shorter = || seen("a");
        let longer = || FileContent {
            appended: true,
            ..seen("ab")
        };
        assert_eq!(
            streaks([shorter(), longer()].map(Some)),
            (0, 0),
            "new content"
        );
        assert_eq!(
            streaks(
                [
                    shorter(),
                    longer(),
                    shorter(),
                    longer(),
                    shorter(),
                    longer()
                ]
                .map(Some)
            ),
            (4, 4)
        );
        let grown = FileContent {
            appended: true,
            ..seen("abc")
        };
        assert_eq!(
            streaks([shorter(), longer(), shorter(), longer(), grown].map(Some)),
            (0, 0),
            "it grows again"
        );
    }

    #[test]
    fn the_history_is_bounded() {
        let name = |n: usize| format!("f{n}");
        let mut history = FileHistory::default();
        for n in 0..100 {
            history.store(ChangedFiles::Seen(&BTreeMap::from([(name(n), seen("A"))])));
        }
        assert_eq!(history.past.len(), REMEMBERED);
    }
}
