//! A settled iteration: all checks passed, and the agent changed nothing and promised nothing. Then the work is done.
//!
//! Owns the conditions. The config's reaction to a settled iteration is
//! [`StopPlan::settled`](crate::engine::policy::StopPlan).
//!
//! # Invariants
//! - Without any check, an iteration never settles.
//! - Only a check that passed counts: not one that broke, failed without blocking, or was disabled.
//! - While a message waits for the agent, an iteration does not settle: the next turn may change something.
//! - A hook that the agent registered can still ask to continue.

use crate::engine::{
    event::IterationOutcome,
    policy::SettledPolicy,
    session::iteration::StopHookSigns,
    stop::{
        chain,
        decision::{StopAction, StopResult},
        evaluation::StopEvaluation,
        stop_rules::StopRules,
    },
    time::UnixTime,
};

/// The hook name in decisions about settled iterations.
const SETTLED: &str = "settled";
const REASON: &str = "All checks pass and the agent changed nothing";

impl StopRules<'_> {
    /// The decision about a settled iteration, if the hooks want to continue.
    pub(crate) fn settle(
        self,
        judging: &StopEvaluation,
        verdict: chain::StopVerdict,
        now: UnixTime,
    ) -> chain::StopVerdict {
        let of_agent = self.stop.registered.iter().any(|known| known.id == verdict.hook);
        if verdict.result.action != StopAction::Continue || of_agent || !self.has_settled(judging, now) {
            return verdict;
        }
        let action = match self.plan.stop.settled {
            SettledPolicy::Complete => StopAction::Complete,
            SettledPolicy::Ask => StopAction::Escalate,
            SettledPolicy::Continue => return verdict,
        };
        chain::StopVerdict { hook: SETTLED.to_owned(), result: StopResult::new(action, REASON), ..verdict }
    }

    pub(crate) fn has_settled(self, judging: &StopEvaluation, now: UnixTime) -> bool {
        let signs = &self.iterations.signs;
        let checked = match signs.stop_hooks {
            StopHookSigns::NotPassed => false,
            StopHookSigns::Passed => true,
            StopHookSigns::None => !judging.results.is_empty(),
        };
        let changed = signs.changed_a_task || signs.unknown_work || !self.iterations.files.is_empty();
        let accepted = self.iterations.last == Some(IterationOutcome::Done);
        let promised = !self.promises_made(None, &self.turns.said, now).is_empty();
        let asked_for_more = !self.steering.messages.is_empty();
        checked
            && accepted
            && !asked_for_more
            && judging.results.iter().all(|rule| rule.passed)
            && !changed
            && !promised
    }
}
