//! The feedback to the agent when stop hooks block, and the retry limit that applies to it.
//!
//! # Invariants
//! - The first limit that is reached decides: the session's limit, or a blocking hook's own limit.
//! - The values of a template are data: `{{…}}` in a value stays as it is.

use std::collections::BTreeMap;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::{Phase, SessionState};
use crate::engine::{
    comparable_text::comparable_text,
    hooks::{
        dispatch::{HookDispatch, HookFeedback, TemplateFeedback},
        point::HookPoint,
        template::fill,
    },
};

/// The placeholders of feedback templates.
pub const FEEDBACK_VALUES: &[&str] = &["hook", "reason", "output", "attempt", "limit", "changed"];

/// creel compares only the last lines of two outputs: the cost is quadratic in the number of lines.
const COMPARED_LINES: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RetryLimit {
    /// The count at which it is reached.
    pub(super) limit: u32,
    /// The hook that it is about.
    pub(super) hook: String,
}

/// The retries that one hook has caused since the last new message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookRetries {
    pub used: u32,
    /// How many the user granted on top of the hook's own limit.
    pub granted: u32,
    /// Its last output, if its feedback is a template.
    pub output: Option<String>,
}

impl SessionState {
    /// The count at which the retries end. The screen shows it next to the count.
    pub fn retry_limit(&self) -> u32 {
        self.retry.applies.unwrap_or_else(|| self.retry.limit(self.plan().max_hook_retries))
    }

    /// The feedback to the agent, if a hook blocked.
    pub(crate) fn feedback(&self, dispatch: &HookDispatch) -> Option<HookFeedback> {
        let feedback = self.protect_feedback(dispatch).or_else(|| dispatch.feedback(&|hook| self.is_off(hook)))?;
        if feedback.own.is_empty() {
            return Some(feedback);
        }
        let limit = self.limit_for(&feedback).limit;
        let own = feedback.own.iter().map(|own| self.own_text(own, limit));
        let text = feedback.rest.iter().cloned().chain(own).collect::<Vec<_>>().join("\n\n");
        Some(HookFeedback { text, ..feedback })
    }

    fn own_text(&self, own: &TemplateFeedback, limit: u32) -> String {
        let before = self.retry.by_hook.get(&own.hook).and_then(|known| known.output.as_deref());
        fill(&own.template, |name| match name {
            "hook" => Some(own.hook.clone()),
            "reason" => Some(own.reason.clone()),
            "output" => Some(own.output.clone()),
            "attempt" => Some((self.retry.used + 1).to_string()),
            "limit" => Some(limit.to_string()),
            "changed" => Some(before.map_or_else(|| "(first run)".to_owned(), |before| changed(before, &own.output))),
            _ => None,
        })
    }

    pub(super) fn limit_for(&self, feedback: &HookFeedback) -> RetryLimit {
        let shared = self.retry.limit(self.plan().max_hook_retries);
        let own = feedback.blocked.iter().filter_map(|hook| Some((self.own_limit(hook)?, hook)));
        match own.min_by_key(|(limit, _)| *limit).filter(|(limit, _)| *limit < shared) {
            Some((limit, hook)) => RetryLimit { limit, hook: hook.clone() },
            None => RetryLimit { limit: shared, hook: feedback.hook.clone() },
        }
    }

    /// The total count at which the hook has used up its own retries.
    fn own_limit(&self, hook: &str) -> Option<u32> {
        let retries = self.own_retries(hook)?;
        let (used, granted) = self.retry.by_hook.get(hook).map_or((0, 0), |known| (known.used, known.granted));
        Some(self.retry.used.saturating_add(retries.saturating_add(granted).saturating_sub(used)))
    }

    fn own_retries(&self, hook: &str) -> Option<u32> {
        self.plan().hook(HookPoint::Stop, hook)?.retry.retries
    }

    /// Counts a retry for each hook that blocked, and remembers the output that `{{changed}}` is compared with.
    pub(super) fn count_retries(&mut self, feedback: &HookFeedback) {
        for hook in &feedback.blocked {
            let known = self.retry.by_hook.entry(hook.clone()).or_default();
            known.used = known.used.saturating_add(1);
            known.output = feedback.own.iter().find(|own| own.hook == *hook).map(|own| own.output.clone());
        }
    }

    /// The user continues: each limit that was reached is granted again.
    pub(super) fn grant_retries(&mut self) {
        let max = self.plan().max_hook_retries;
        let feedback = if let Phase::Hooks(dispatch) = &self.phase { self.feedback(dispatch) } else { None };
        let own: BTreeMap<String, u32> = feedback
            .iter()
            .flat_map(|feedback| &feedback.blocked)
            .filter(|hook| self.own_limit(hook).is_some_and(|limit| limit <= self.retry.used))
            .filter_map(|hook| Some((hook.clone(), self.own_retries(hook)?)))
            .collect();
        if own.is_empty() || self.retry.limit(max) <= self.retry.used {
            self.retry.grant(max);
        }
        for (hook, retries) in own {
            let known = self.retry.by_hook.entry(hook).or_default();
            // At least one, or the grant would have no effect.
            known.granted = known.granted.saturating_add(retries.max(1));
        }
        self.retry.applies = None;
    }
}

/// The lines that differ: removed ones with `-` and new ones with `+`. Times and other parts that change with every run
/// are ignored.
fn changed(before: &str, now: &str) -> String {
    let (before, now) = (last_lines(before), last_lines(now));
    let comparable = |lines: &[&str]| lines.iter().map(|line| comparable_text(line)).collect::<Vec<_>>();
    let mut text = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, &comparable(&before), &comparable(&now)) {
        if !matches!(op, DiffOp::Equal { .. }) {
            text.extend(before[op.old_range()].iter().map(|line| format!("- {line}")));
            text.extend(now[op.new_range()].iter().map(|line| format!("+ {line}")));
        }
    }
    if text.is_empty() { "(no change)".into() } else { text.join("\n") }
}

fn last_lines(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(COMPARED_LINES)..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_by_its_lines_and_times_make_none() {
        let before = "test a ... FAILED\ntest b ... FAILED\n2 failed in 1.2s";
        assert_eq!(
            changed(before, "test a ... ok\ntest b ... FAILED\n1 failed in 1.3s"),
            "- test a ... FAILED\n+ test a ... ok\n- 2 failed in 1.2s\n+ 1 failed in 1.3s"
        );
        assert_eq!(changed(before, "test a ... FAILED\ntest b ... FAILED\n2 failed in 7.9s"), "(no change)");
        let many = |n: usize| (0..50_000).map(|i| format!("line {}\n", i * n)).collect::<String>();
        assert_eq!(changed(&many(2), &many(3)).lines().count(), 2 * COMPARED_LINES);
    }
}
