//! The points where hooks run, and the one table of what differs between them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A place in the lifecycle where hooks can be configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookPoint {
    /// Once, before the first iteration.
    SessionStart,
    /// Before each iteration's prompt.
    PreIteration,
    /// After each turn of an iteration that ended well.
    Stop,
    /// After each iteration that was completed.
    PostIteration,
    /// When a task was completed, beside the agent.
    OnTaskComplete,
    /// When something happens to a task, beside the agent. Not a point of `hooks:`: these have a place of their own in the
    /// config, subscribe to events, and answer with actions.
    Automation,
    /// After each iteration, to decide whether it was the last. Not a point of `hooks:` either: stop decisions have a place
    /// of their own in the config.
    StopDecision,
    /// After a turn that failed.
    OnError,
    /// When a gate opens and again when it closes, beside the session.
    OnGate,
    /// Before the work is submitted.
    BeforeSubmit,
    /// After the work was submitted.
    AfterSubmit,
    /// Before the work is merged.
    BeforeMerge,
    /// After the work was merged.
    AfterMerge,
    /// Once, after the final delivery.
    SessionEnd,
}

/// Whose word at a point changes what happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionMode {
    /// Runs are for their effects and their output.
    Nobody,
    /// One run that blocks holds the whole point.
    AllMustPass,
    /// The first that completes or escalates decides.
    TheFirstThatEndsIt,
}

/// What a run that could not do its job (crash, timeout, not found) means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenHookPolicy {
    /// A warning; everything goes on.
    Warn,
    /// A `hook_error` record; everything goes on.
    HookError,
    /// As if the hook had blocked.
    Block,
    /// A person has to look.
    Escalate,
}

/// Where the text of a piped run goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipeTarget {
    /// Held for the next iteration's prompt.
    Pending,
    /// Part of the prompt that is about to be sent.
    ThisPrompt,
    /// A turn of its own, at once, if the point blocks.
    Feedback,
    /// A recovery turn, at once.
    Recovery,
    /// A turn in which the agent repairs what blocked.
    Remediation,
    /// Part of the next iteration's prompt.
    NextPrompt,
    /// Nowhere: no prompt follows.
    Never,
}

/// What follows from a failed run for the runs after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// They run all the same.
    RunTheRest,
    /// They do not run.
    StopTheRest,
}

/// One row of the table: everything in which points differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointRules {
    /// Whose word counts.
    pub decides: DecisionMode,
    /// Whether the rest runs after a failure.
    pub after_failure: AfterFailure,
    /// What a broken hook means.
    pub broken: BrokenHookPolicy,
    /// Where piped text goes.
    pub piped_to: PipeTarget,
}

impl HookPoint {
    /// All points of `hooks:`, in the order of a session.
    pub const ALL: [Self; 12] = [
        Self::SessionStart,
        Self::PreIteration,
        Self::Stop,
        Self::PostIteration,
        Self::OnTaskComplete,
        Self::OnError,
        Self::OnGate,
        Self::BeforeSubmit,
        Self::AfterSubmit,
        Self::BeforeMerge,
        Self::AfterMerge,
        Self::SessionEnd,
    ];

    /// The table. Every difference between points is a column of it, and no other place knows of one.
    pub const fn rules(self) -> PointRules {
        use AfterFailure::{RunTheRest, StopTheRest};
        use DecisionMode::{AllMustPass, Nobody, TheFirstThatEndsIt};
        let (decides, after_failure, broken, piped_to) = match self {
            Self::SessionStart | Self::PostIteration | Self::AfterSubmit | Self::AfterMerge => {
                (Nobody, RunTheRest, BrokenHookPolicy::Warn, PipeTarget::Pending)
            }
            Self::PreIteration => (Nobody, RunTheRest, BrokenHookPolicy::Warn, PipeTarget::ThisPrompt),
            Self::Stop => (AllMustPass, RunTheRest, BrokenHookPolicy::Warn, PipeTarget::Feedback),
            Self::OnTaskComplete => (Nobody, RunTheRest, BrokenHookPolicy::HookError, PipeTarget::Pending),
            Self::Automation => (Nobody, RunTheRest, BrokenHookPolicy::HookError, PipeTarget::Never),
            Self::StopDecision => (TheFirstThatEndsIt, StopTheRest, BrokenHookPolicy::Escalate, PipeTarget::NextPrompt),
            Self::OnError => (Nobody, RunTheRest, BrokenHookPolicy::Warn, PipeTarget::Recovery),
            Self::BeforeSubmit | Self::BeforeMerge => {
                (AllMustPass, StopTheRest, BrokenHookPolicy::Block, PipeTarget::Remediation)
            }
            Self::OnGate | Self::SessionEnd => (Nobody, RunTheRest, BrokenHookPolicy::Warn, PipeTarget::Never),
        };
        PointRules { decides, after_failure, broken, piped_to }
    }

    /// The name in the config and in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SessionStart => "session_start",
            Self::PreIteration => "pre_iteration",
            Self::Stop => "stop",
            Self::PostIteration => "post_iteration",
            Self::OnTaskComplete => "on_task_complete",
            Self::Automation => "automation",
            Self::StopDecision => "stop_decision",
            Self::OnError => "on_error",
            Self::OnGate => "on_gate",
            Self::BeforeSubmit => "before_submit",
            Self::AfterSubmit => "after_submit",
            Self::BeforeMerge => "before_merge",
            Self::AfterMerge => "after_merge",
            Self::SessionEnd => "session_end",
        }
    }

    /// The point of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|point| point.name() == name)
    }
}

impl fmt::Display for HookPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_called_the_same_in_the_config_and_in_records() {
        for point in HookPoint::ALL {
            assert_eq!(serde_json::to_value(point).expect("a name"), point.name());
            assert_eq!(HookPoint::named(point.name()), Some(point));
        }
    }

    #[test]
    fn only_points_that_decide_can_block() {
        let deciding = HookPoint::ALL.map(|p| (p.rules().decides == DecisionMode::AllMustPass).then_some(p.name()));
        assert_eq!(deciding.into_iter().flatten().collect::<Vec<_>>(), ["stop", "before_submit", "before_merge"]);
    }
}
