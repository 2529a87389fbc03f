//! The hook points, and the one table of their differences.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A point in the lifecycle where hooks can be configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookPoint {
    /// Once, before the first iteration.
    SessionStart,
    /// Before each iteration's prompt.
    PreIteration,
    /// Before each prompt to the session's agent, whatever its reason.
    PrePrompt,
    /// When the agent asks for permission, before you are asked.
    PreTool,
    /// After a tool call of the agent, while its turn continues.
    PostTool,
    /// When the agent asks a question, before you are asked.
    OnQuestion,
    /// After each turn of an iteration that did not fail.
    Stop,
    /// After each completed iteration.
    PostIteration,
    /// When a task is completed, independently of the agent.
    OnTaskComplete,
    /// On task events, independently of the agent. Not a point of `hooks:`: automation hooks have
    /// their own section in the config, subscribe to events, and answer with actions.
    Automation,
    /// After each iteration, to decide whether it was the last. Not a point of `hooks:` either:
    /// stop decisions have their own section in the config.
    StopDecision,
    /// After a turn that failed.
    OnError,
    /// When a gate opens and again when it closes, independently of the session.
    OnGate,
    BeforeSubmit,
    AfterSubmit,
    BeforeMerge,
    AfterMerge,
    /// Once, after the final delivery.
    SessionEnd,
}

/// Which results at a point change what happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionMode {
    /// Results change nothing; runs matter for their effects and their output.
    NoEffect,
    /// One run that blocks blocks the whole point.
    AllMustPass,
    /// One run that blocks makes the prompt wait for the user.
    HoldsPrompt,
    /// The first that completes or escalates decides.
    TheFirstThatEndsIt,
    /// Each run denies, asks, allows or says nothing; the strictest decides a request of the agent.
    TheStrictest,
}

/// What a broken run (crash, timeout, not found) means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenHookPolicy {
    /// A warning; the session continues.
    Warn,
    /// A `hook_error` record; the session continues.
    HookError,
    /// As if the hook had blocked.
    Block,
    /// The user has to look.
    Escalate,
}

/// Where the output of a piped run is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipeTarget {
    /// Pending until the next iteration's prompt.
    Pending,
    /// The prompt that is about to be sent.
    ThisPrompt,
    /// A turn of its own, immediately, if the point blocks.
    Feedback,
    /// A recovery turn, immediately.
    Recovery,
    /// A turn in which the agent repairs the failed check.
    Remediation,
    /// The next iteration's prompt.
    NextPrompt,
    /// Nowhere: no prompt follows.
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    RunTheRest,
    StopTheRest,
}

/// When a broken hook opens a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenGate {
    /// When it cannot start: its point checks the work, and nothing else is broken there.
    AtOnce,
    /// The second time in a row.
    Repeated,
    /// The point has a gate of its own for failures, or nothing follows that could wait.
    Never,
}

/// One row of the table: all differences between points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointRules {
    pub decides: DecisionMode,
    pub after_failure: AfterFailure,
    pub broken: BrokenHookPolicy,
    pub broken_gate: BrokenGate,
    pub piped_to: PipeTarget,
}

impl PointRules {
    /// Whether the hooks of the point check the work.
    pub fn checks_work(self) -> bool {
        self.broken_gate == BrokenGate::AtOnce
    }
}

impl HookPoint {
    /// All points of `hooks:`, in the order of a session.
    pub const ALL: [Self; 16] = [
        Self::SessionStart,
        Self::PreIteration,
        Self::PrePrompt,
        Self::PreTool,
        Self::PostTool,
        Self::OnQuestion,
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

    /// The table. Every difference between points is a column here, and no other code has
    /// point-specific rules of this kind.
    pub const fn rules(self) -> PointRules {
        use AfterFailure::{RunTheRest, StopTheRest};
        use DecisionMode::{AllMustPass, HoldsPrompt, NoEffect, TheFirstThatEndsIt, TheStrictest};
        let (decides, after_failure, broken, broken_gate, piped_to) = match self {
            Self::SessionStart | Self::PostIteration => (
                NoEffect,
                RunTheRest,
                BrokenHookPolicy::Warn,
                BrokenGate::Repeated,
                PipeTarget::Pending,
            ),
            Self::AfterSubmit | Self::AfterMerge | Self::PostTool => (
                NoEffect,
                RunTheRest,
                BrokenHookPolicy::Warn,
                BrokenGate::Never,
                PipeTarget::Pending,
            ),
            Self::PreIteration => (
                NoEffect,
                RunTheRest,
                BrokenHookPolicy::Warn,
                BrokenGate::Repeated,
                PipeTarget::ThisPrompt,
            ),
            Self::PrePrompt => (
                HoldsPrompt,
                RunTheRest,
                BrokenHookPolicy::Warn,
                BrokenGate::Repeated,
                PipeTarget::ThisPrompt,
            ),
            Self::PreTool | Self::OnQuestion => (
                TheStrictest,
                RunTheRest,
                BrokenHookPolicy::Warn,
                BrokenGate::Never,
                PipeTarget::Pending,
            ),
            Self::Stop => (
                AllMustPass,
                RunTheRest,
                BrokenHookPolicy::Warn,
                BrokenGate::AtOnce,
                PipeTarget::Feedback,
            ),
            Self::OnTaskComplete => (
                NoEffect,
                RunTheRest,
                BrokenHookPolicy::HookError,
                BrokenGate::Repeated,
                PipeTarget::Pending,
            ),
            Self::Automation => (
                NoEffect,
                RunTheRest,
                BrokenHookPolicy::HookError,
                BrokenGate::Repeated,
                PipeTarget::Never,
            ),
            Self::StopDecision => (
                TheFirstThatEndsIt,
                StopTheRest,
                BrokenHookPolicy::Escalate,
                BrokenGate::Repeated,
                PipeTarget::NextPrompt,
            ),
            Self::OnError => (
                NoEffect,
                RunTheRest,
                BrokenHookPolicy::Warn,
                BrokenGate::Repeated,
                PipeTarget::Recovery,
            ),
            Self::BeforeSubmit | Self::BeforeMerge => (
                AllMustPass,
                StopTheRest,
                BrokenHookPolicy::Block,
                BrokenGate::Never,
                PipeTarget::Remediation,
            ),
            Self::OnGate => (
                NoEffect,
                RunTheRest,
                BrokenHookPolicy::Warn,
                BrokenGate::Repeated,
                PipeTarget::Never,
            ),
            Self::SessionEnd => (
                NoEffect,
                RunTheRest,
                BrokenHookPolicy::Warn,
                BrokenGate::Never,
                PipeTarget::Never,
            ),
        };
        PointRules {
            decides,
            after_failure,
            broken,
            broken_gate,
            piped_to,
        }
    }

    /// The name in the config and in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SessionStart => "session_start",
            Self::PreIteration => "pre_iteration",
            Self::PrePrompt => "pre_prompt",
            Self::PreTool => "pre_tool",
            Self::PostTool => "post_tool",
            Self::OnQuestion => "on_question",
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

    /// Whether its hooks run while the agent works, each time for a call or a question of it.
    pub const fn is_in_turn(self) -> bool {
        matches!(self, Self::PreTool | Self::PostTool | Self::OnQuestion)
    }

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
        let deciding = HookPoint::ALL
            .map(|p| (p.rules().decides == DecisionMode::AllMustPass).then_some(p.name()));
        assert_eq!(
            deciding.into_iter().flatten().collect::<Vec<_>>(),
            ["stop", "before_submit", "before_merge"]
        );
    }
}
