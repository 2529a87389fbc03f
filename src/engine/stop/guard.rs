//! What turns a decision to go on into one to ask a person: the loop goes nowhere.
//!
//! # Invariants
//! - A guard never ends a session, and never speaks where a hook completed or escalated, nor in the last iteration.

use std::collections::BTreeMap;

use super::context::RuleOutcome;
use crate::engine::{policy::StopPlan, summary::iterations};

/// What was seen in the iterations so far, each in a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guards {
    /// How many iterations had rules that failed.
    failing: u32,
    /// How many iterations changed each file.
    changed: BTreeMap<String, u32>,
    /// The last message.
    message: String,
    /// How many iterations ended with it.
    repeated: u32,
}

/// What is seen in one iteration.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// What the rules said.
    pub rules: &'a [RuleOutcome],
    /// What was changed.
    pub files: &'a [String],
    /// What the agent said last.
    pub said: &'a str,
}

/// A guard that spoke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// Which guard.
    pub guard: &'static str,
    /// What it saw.
    pub reason: String,
}

impl Guards {
    /// What is known after one more iteration.
    #[must_use]
    pub fn after(&self, sight: Sight<'_>) -> Self {
        let Sight { rules, files, said } = sight;
        let failing = if rules.iter().all(|rule| rule.passed) { 0 } else { self.failing + 1 };
        let times = |file: &String| self.changed.get(file).copied().unwrap_or(0) + 1;
        let changed = files.iter().map(|file| (file.clone(), times(file))).collect();
        let message = said.trim().to_owned();
        let repeated = match message.as_str() {
            "" => 0,
            same if same == self.message => self.repeated + 1,
            _ => 1,
        };
        Self { failing, changed, message, repeated }
    }

    /// What a person should look at.
    pub fn alarm(&self, plan: &StopPlan, rules: &[RuleOutcome]) -> Option<Alarm> {
        let reached = |limit: u32, seen: u32| limit > 0 && seen >= limit;
        if reached(plan.circuit_breaker, self.failing) {
            let failed = rules.iter().filter(|rule| !rule.passed);
            let names = failed.map(|rule| format!("`{}`", rule.rule_name)).collect::<Vec<_>>().join(", ");
            let reason = format!("rules failed in {} in a row; now: {names}", iterations(self.failing));
            return Some(Alarm { guard: "circuit_breaker", reason });
        }
        let most = self.changed.iter().max_by_key(|(_, times)| **times);
        if let Some((file, times)) = most.filter(|(_, times)| reached(plan.thrashing, **times)) {
            let reason = format!("`{file}` was changed in {} in a row, and the work is not done", iterations(*times));
            return Some(Alarm { guard: "thrashing", reason });
        }
        reached(plan.no_progress, self.repeated).then(|| {
            let said = excerpt(&self.message);
            let reason =
                format!("the agent ended {} in a row with the same message: {said}", iterations(self.repeated));
            Alarm { guard: "no_progress", reason }
        })
    }
}

/// The beginning of a text, in one line.
fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut short: String = line.chars().take(80).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    format!("“{short}”")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::policy::Settled;

    fn plan() -> StopPlan {
        StopPlan {
            hooks: Vec::new(),
            rules: Vec::new(),
            settled: Settled::Continue,
            circuit_breaker: 3,
            thrashing: 5,
            no_progress: 4,
        }
    }

    fn rule(passed: bool) -> RuleOutcome {
        RuleOutcome { rule_name: "tests".into(), passed, message: String::new() }
    }

    /// After how many iterations, all alike but for their number, which guard speaks.
    fn speaks(iteration: impl Fn(u32) -> (Vec<RuleOutcome>, Vec<String>, String)) -> Option<(u32, Alarm)> {
        let mut guards = Guards::default();
        (1..20).find_map(|n| {
            let (rules, files, said) = iteration(n);
            guards = guards.after(Sight { rules: &rules, files: &files, said: &said });
            guards.alarm(&plan(), &rules).map(|alarm| (n, alarm))
        })
    }

    #[test]
    fn three_iterations_in_a_row_with_failed_rules_are_enough() {
        let (n, alarm) = speaks(|n| (vec![rule(n == 2)], vec![], n.to_string())).expect("it fails from the third on");
        assert_eq!((n, alarm.guard), (5, "circuit_breaker"));
        assert_eq!(alarm.reason, "rules failed in 3 iterations in a row; now: `tests`");
        assert_eq!(speaks(|n| (vec![rule(n % 3 == 0)], vec![], n.to_string())), None);
    }

    #[test]
    fn a_file_that_is_changed_again_and_again_is_named() {
        let files = |n: u32| vec![format!("src/{n}.rs"), "src/main.rs".to_owned()];
        let (n, alarm) = speaks(|n| (vec![], files(n), n.to_string())).expect("main.rs is in all of them");
        assert_eq!((n, alarm.guard), (5, "thrashing"));
        assert_eq!(alarm.reason, "`src/main.rs` was changed in 5 iterations in a row, and the work is not done");
        assert_eq!(speaks(|n| (vec![], files(n % 4), n.to_string())).map(|(n, _)| n), Some(5));
        assert_eq!(speaks(|n| (vec![], if n % 4 == 0 { vec![] } else { files(n) }, n.to_string())), None);
    }

    #[test]
    fn an_agent_that_says_the_same_each_time_makes_no_progress() {
        let (n, alarm) = speaks(|_| (vec![], vec![], " I am\non it ".into())).expect("it says the same each time");
        assert_eq!((n, alarm.guard), (4, "no_progress"));
        assert_eq!(alarm.reason, "the agent ended 4 iterations in a row with the same message: “I am on it”");
        assert_eq!(speaks(|_| (vec![], vec![], "  ".into())), None);
    }
}
