//! Decides whether a blocked or failed turn is tried again, with which feedback, and after which
//! wait.
//!
//! # Invariants
//! - The first limit that is reached decides: the session's limit, or a blocking hook's own limit.
//! - The values of a template are data: `{{…}}` in a value stays as it is.

use serde::{Deserialize, Serialize};

use crate::{
    engine::{
        event::{Event, IterationOutcome, RetryEvent, UserPresence},
        gate::subject::GateSubject,
        hooks::{
            dispatch::{DispatchQuestion, HookDispatch, HookFeedback, TemplateFeedback},
            point::HookPoint,
            template::fill,
        },
        output::EngineOutput,
        policy::RetryLimitPolicy,
        retry::RetryWait,
        session::SessionState,
        time::UnixTime,
    },
    text::{comparable_text, counted, line_changes, same_text},
};

/// The placeholders of feedback templates.
pub const FEEDBACK_VALUES: &[&str] = &["hook", "reason", "output", "attempt", "limit", "changed"];

/// creel compares only the last lines of two outputs: the cost is quadratic in the number of lines.
const COMPARED_LINES: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RetryLimit {
    /// The count at which it is reached.
    pub(crate) limit: u32,
    /// The hook that it is about.
    pub(crate) hook: String,
}

/// The lines that differ: removed ones with `-` and new ones with `+`. Times and other parts that
/// change with every run are ignored.
fn changed(before: &str, now: &str) -> String {
    let (before, now) = (last_lines(before), last_lines(now));
    let comparable = |lines: &[&str]| {
        lines
            .iter()
            .map(|line| comparable_text(line))
            .collect::<Vec<_>>()
    };
    let (old, new) = (comparable(&before), comparable(&now));
    let (old, new) = (
        old.iter().map(String::as_str).collect::<Vec<_>>(),
        new.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let mut text = Vec::new();
    for change in line_changes(&old, &new) {
        text.extend(before[change.before].iter().map(|line| format!("- {line}")));
        text.extend(now[change.now].iter().map(|line| format!("+ {line}")));
    }
    if text.is_empty() {
        "(no change)".into()
    } else {
        text.join("\n")
    }
}

fn last_lines(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(COMPARED_LINES)..].to_vec()
}

#[derive(Debug, Clone, Copy)]
pub struct RetryRules<'a>(pub(crate) &'a SessionState);

impl RetryRules<'_> {
    /// The count at which the retries end. The screen shows it next to the count.
    pub fn retry_limit(self) -> u32 {
        self.0
            .retry
            .applies
            .unwrap_or_else(|| self.0.retry.limit(self.0.plan().max_hook_retries))
    }

    /// The feedback to the agent, if a hook blocked.
    pub(crate) fn feedback(self, dispatch: &HookDispatch) -> Option<HookFeedback> {
        let feedback = self
            .0
            .protect()
            .protect_feedback(dispatch)
            .or_else(|| dispatch.feedback(&|hook| self.0.hooks.is_off(hook)))?;
        if feedback.own.is_empty() {
            return Some(feedback);
        }
        let limit = self.limit_for(&feedback).limit;
        let own = feedback.own.iter().map(|own| self.own_text(own, limit));
        let text = feedback
            .rest
            .iter()
            .cloned()
            .chain(own)
            .collect::<Vec<_>>()
            .join("\n\n");
        Some(HookFeedback { text, ..feedback })
    }

    pub(crate) fn limit_for(self, feedback: &HookFeedback) -> RetryLimit {
        let shared = self.0.retry.limit(self.0.plan().max_hook_retries);
        let own = feedback
            .blocked
            .iter()
            .filter_map(|hook| Some((self.own_limit(hook)?, hook)));
        match own
            .min_by_key(|(limit, _)| *limit)
            .filter(|(limit, _)| *limit < shared)
        {
            Some((limit, hook)) => RetryLimit {
                limit,
                hook: hook.clone(),
            },
            None => RetryLimit {
                limit: shared,
                hook: feedback.hook.clone(),
            },
        }
    }

    /// The total count at which the hook has used up its own retries.
    pub(crate) fn own_limit(self, hook: &str) -> Option<u32> {
        let retries = self.own_retries(hook)?;
        let (used, granted) = self
            .0
            .retry
            .by_hook
            .get(hook)
            .map_or((0, 0), |known| (known.used, known.granted));
        Some(
            self.0
                .retry
                .used
                .saturating_add(retries.saturating_add(granted).saturating_sub(used)),
        )
    }

    pub(crate) fn own_retries(self, hook: &str) -> Option<u32> {
        self.0.plan().hook(HookPoint::Stop, hook)?.retry.retries
    }

    pub(crate) fn too_many_errors(self) -> Option<EngineOutput> {
        (self.0.retry.errors >= self.0.plan().max_consecutive_errors).then(|| {
            let last = self.0.turns.last_error.as_deref().unwrap_or("unknown");
            let reason = match self.0.retry.errors {
                1 => format!("a turn failed: {last}"),
                times => format!("{times} turns failed in a row, the last one with: {last}"),
            };
            self.0.gates.open_gate(GateSubject::Errors, reason)
        })
    }

    /// The step while a wait is due or in progress. None when it is over.
    pub(crate) fn wait_over(self, now: UnixTime) -> Option<EngineOutput> {
        match self.0.retry.wait {
            RetryWait::Due { nth, at_least } => {
                let own = self
                    .0
                    .plan()
                    .backoff
                    .as_ref()
                    .map(|own| super::wait_for(own, nth, self.0.began.seed));
                let wait_ms = own.unwrap_or_default().max(at_least);
                let waits = own.is_some() || !at_least.is_zero();
                waits.then(|| {
                    EngineOutput::record(Event::Retry(RetryEvent::BackoffStarted {
                        wait_ms,
                        until: now.after(wait_ms),
                    }))
                })
            }
            RetryWait::Until(at) if now < at => Some(EngineOutput::default()),
            RetryWait::No | RetryWait::Until(_) => None,
        }
    }

    /// A recovery prompt is sent immediately, unless the agent's server asked creel to wait.
    pub(crate) fn must_leave_the_server_alone(self, now: UnixTime) -> Option<EngineOutput> {
        match self.0.retry.wait {
            RetryWait::Due { at_least, .. } if at_least.is_zero() => None,
            RetryWait::No | RetryWait::Due { .. } | RetryWait::Until(_) => self.wait_over(now),
        }
    }

    /// No check blocks the turn.
    pub(crate) fn turn_passed(self) -> EngineOutput {
        self.0
            .proposal_rules()
            .ask()
            .unwrap_or_else(|| self.0.iterations.complete_iteration(IterationOutcome::Done))
    }

    /// A check blocks the turn: it is sent back, or the retries are used up.
    pub(crate) fn judge_stop(
        self,
        dispatch: &HookDispatch,
        feedback: HookFeedback,
    ) -> EngineOutput {
        let RetryLimit {
            limit,
            hook: limited,
        } = self.limit_for(&feedback);
        let used = self.0.retry.used;
        if used < limit {
            let no_progress = self
                .0
                .retry
                .last_usual
                .as_deref()
                .is_some_and(|last| same_text(last, &feedback.usual));
            return EngineOutput::record(Event::Retry(RetryEvent::Counted {
                used: used + 1,
                limit,
                hook: feedback.hook.clone(),
                reason: feedback.reason.clone(),
                no_progress,
                feedback: Some(Box::new(feedback.into())),
            }));
        }
        if !dispatch.was_asked(DispatchQuestion::Limit) {
            let reached = EngineOutput::record(Event::Retry(RetryEvent::LimitReached {
                used,
                limit,
                hook: limited,
            }));
            let completes = self.0.presence == UserPresence::Unattended
                && self.0.plan().on_limit == RetryLimitPolicy::Complete;
            let text =
                format!("[Warning: Hook retry limit ({limit}) reached. Completing execution.]");
            return if completes {
                reached.and(Event::warning(text))
            } else {
                reached
            };
        }
        let reason = match used {
            0 => format!(
                "{limited} failed, and it has no retries: {}",
                feedback.reason
            ),
            used => format!(
                "{limited} still fails after {}: {}",
                counted(used, "retry"),
                feedback.reason
            ),
        };
        self.0
            .gates
            .open_gate(GateSubject::RetryLimit { hook: limited }, reason)
    }

    pub(crate) fn own_text(self, own: &TemplateFeedback, limit: u32) -> String {
        let before = self
            .0
            .retry
            .by_hook
            .get(&own.hook)
            .and_then(|known| known.output.as_deref());
        fill(&own.template, |name| match name {
            "hook" => Some(own.hook.clone()),
            "reason" => Some(own.reason.clone()),
            "output" => Some(own.output.clone()),
            "attempt" => Some((self.0.retry.used + 1).to_string()),
            "limit" => Some(limit.to_string()),
            "changed" => Some(before.map_or_else(
                || "(first run)".to_owned(),
                |before| changed(before, &own.output),
            )),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_as_its_lines_and_times_alone_are_no_change() {
        let before = "test a ... FAILED\ntest b ... FAILED\n2 failed in 1.2s";
        assert_eq!(
            changed(before, "test a ... ok\ntest b ... FAILED\n1 failed in 1.3s"),
            "- test a ... FAILED\n+ test a ... ok\n- 2 failed in 1.2s\n+ 1 failed in 1.3s"
        );
        assert_eq!(
            changed(
                before,
                "test a ... FAILED\ntest b ... FAILED\n2 failed in 7.9s"
            ),
            "(no change)"
        );
        let many = |n: usize| {
            (0..50_000)
                .map(|i| format!("line {}\n", i * n))
                .collect::<String>()
        };
        assert_eq!(
            changed(&many(2), &many(3)).lines().count(),
            2 * COMPARED_LINES
        );
    }
}
