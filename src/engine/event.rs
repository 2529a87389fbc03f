//! Events: the records of the journal. Only an event changes the state.
//!
//! Each machine owns an enum with its events, in a file `event` of its own. [`Event`] wraps these enums, and reads and
//! writes them by their kind. It does not know what an event means.
//!
//! # Invariants
//! - Fields that other programs rely on keep their meaning; more can be added.
//! - A kind that a reader does not know is [`Event::Unknown`], and changes nothing. Hooks log events of their own kinds
//!   as [`TaskEvent::Custom`].

use std::collections::BTreeMap;

use serde::{Serialize, Serializer, de::DeserializeOwned};

pub use crate::engine::{
    actor::{Actor, ActorKind},
    gate::event::{GateEvent, GateGrants},
    hooks::event::{HookEvent, HookFinished},
    pending::event::PendingEvent,
    retry::event::RetryEvent,
    session::event::{
        AfterResume, FinalDeliveryMode, IterationOutcome, ResumeDecision, SessionEvent, SessionOutcome, SessionStarted,
        UserPresence,
    },
    steering::event::{SteeringEvent, StopTiming},
    stop::event::{StopDecided, StopEvent},
    submit::event::PipelineEvent,
    tasks::{
        automation_event::AutomationEvent,
        event::{CUSTOM, CustomRecord, TaskEvent},
        workflow_event::WorkflowEvent,
    },
    turn::event::{AfterTurn, PromptReason, PromptSent, TurnEvent},
    usage_limit::event::{LimitAction, LimitReached, UsageLimitEvent},
};

#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The session as a whole: its start and end, its iterations.
    Session(SessionEvent),
    Hook(HookEvent),
    /// Hook output on its way to the agent.
    Pending(PendingEvent),
    /// A prompt, and the agent's updates until its turn ends.
    Turn(TurnEvent),
    UsageLimit(UsageLimitEvent),
    Retry(RetryEvent),
    Gate(GateEvent),
    /// Rules, stop decisions, and the loops that an agent drives itself.
    Stop(StopEvent),
    Task(TaskEvent),
    Automation(AutomationEvent),
    Workflow(WorkflowEvent),
    /// Submitting and merging.
    Pipeline(PipelineEvent),
    /// The user's commands to a running session.
    Steering(SteeringEvent),
    /// A kind of a later version.
    Unknown,
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Session(event) => event.serialize(serializer),
            Self::Hook(event) => event.serialize(serializer),
            Self::Pending(event) => event.serialize(serializer),
            Self::Turn(event) => event.serialize(serializer),
            Self::UsageLimit(event) => event.serialize(serializer),
            Self::Retry(event) => event.serialize(serializer),
            Self::Gate(event) => event.serialize(serializer),
            Self::Stop(event) => event.serialize(serializer),
            Self::Task(event) => event.serialize(serializer),
            Self::Automation(event) => event.serialize(serializer),
            Self::Workflow(event) => event.serialize(serializer),
            Self::Pipeline(event) => event.serialize(serializer),
            Self::Steering(event) => event.serialize(serializer),
            Self::Unknown => BTreeMap::from([("kind", "unknown")]).serialize(serializer),
        }
    }
}

impl Event {
    /// Reads a line by its kind. A kind that this creel does not know is [`Event::Unknown`].
    pub fn read(kind: &str, line: &str) -> Result<Self, serde_json::Error> {
        match kind {
            "session_started"
            | "session_resumed"
            | "iteration_started"
            | "iteration_completed"
            | "loop_ended"
            | "session_ended"
            | "warning"
            | "process_started" => read(line).map(Self::Session),
            "hooks_due" | "hook_requested" | "hook_started" | "hook_finished" | "hook_disabled" | "hook_enabled" => {
                read(line).map(Self::Hook)
            }
            "pending_added" | "pending_skipped" | "pending_restored" | "pending_edited" | "delivered" => {
                read(line).map(Self::Pending)
            }
            "prompt_sent"
            | "agent_said"
            | "agent_thought"
            | "tool_called"
            | "tool_updated"
            | "agent_planned"
            | "agent_used"
            | "agent_noted"
            | "conversation_opened"
            | "permission_asked"
            | "turn_ended"
            | "turn_failed" => read(line).map(Self::Turn),
            "limit_reached" | "agent_switched" | "wait_skipped" => read(line).map(Self::UsageLimit),
            "retry_counted" | "retry_limit_reached" | "backoff_started" => read(line).map(Self::Retry),
            "gate_opened" | "gate_answered" => read(line).map(Self::Gate),
            "rules_due"
            | "rule_started"
            | "rule_checked"
            | "stop_decided"
            | "checkpoint"
            | "stop_hook_registered"
            | "stop_hooks_cleared"
            | "agent_loop_started"
            | "agent_loop_advanced"
            | "judgement_asked"
            | "agent_loop_ended"
            | "completion_promised" => read(line).map(Self::Stop),
            "task_created"
            | "task_started"
            | "task_completed"
            | "task_blocked"
            | "task_deleted"
            | "task_updated"
            | "dependency_added"
            | "dependency_removed"
            | "dependency_satisfied"
            | "agent_metrics"
            | "action_error" => read(line).map(Self::Task),
            "automation_due" | "automation_decided" | "hook_error" => read(line).map(Self::Automation),
            "workflow_started" | "workflow_step_started" | "workflow_step_ended" | "workflow_ended" => {
                read(line).map(Self::Workflow)
            }
            "pipeline_requested"
            | "pipeline_started"
            | "remediation_counted"
            | "review_started"
            | "reviewed"
            | "pipeline_ended" => read(line).map(Self::Pipeline),
            "paused" | "unpaused" | "message_queued" | "stop_requested" => read(line).map(Self::Steering),
            custom if custom.starts_with(CUSTOM) => {
                read(line).map(|custom| Self::Task(TaskEvent::Custom(Box::new(custom))))
            }
            _ => Ok(Self::Unknown),
        }
    }

    pub(crate) fn warning(text: impl Into<String>) -> Self {
        Self::Session(SessionEvent::Warning { text: text.into() })
    }

    /// Whether creel itself writes records of that kind.
    pub fn is_own_kind(kind: &str) -> bool {
        !kind.starts_with(CUSTOM) && !matches!(Self::read(kind, "{}"), Ok(Self::Unknown))
    }
}

fn read<T: DeserializeOwned>(line: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK_KINDS: [&str; 11] = [
        "task_created",
        "task_started",
        "task_completed",
        "task_blocked",
        "task_deleted",
        "task_updated",
        "dependency_added",
        "dependency_removed",
        "dependency_satisfied",
        "agent_metrics",
        "action_error",
    ];

    /// The kinds that an enum can read, from serde's own list of them.
    fn kinds<T: DeserializeOwned>() -> Vec<String> {
        let error = read::<T>(r#"{"kind":"?"}"#).err().expect("there is no such kind").to_string();
        let names = error.split('`').skip(3).step_by(2);
        names.filter(|name| !name.contains('?')).map(str::to_owned).collect()
    }

    #[test]
    fn every_kind_of_every_machine_is_read() {
        let all = [
            kinds::<SessionEvent>(),
            kinds::<HookEvent>(),
            kinds::<PendingEvent>(),
            kinds::<TurnEvent>(),
            kinds::<UsageLimitEvent>(),
            kinds::<RetryEvent>(),
            kinds::<GateEvent>(),
            kinds::<StopEvent>(),
            // Serde does not list the kinds of an enum with an untagged variant.
            TASK_KINDS.map(str::to_owned).to_vec(),
            kinds::<AutomationEvent>(),
            kinds::<WorkflowEvent>(),
            kinds::<PipelineEvent>(),
            kinds::<SteeringEvent>(),
        ];
        assert!(all.iter().all(|kinds| kinds.len() > 1), "{all:?}");
        for kind in all.iter().flatten() {
            assert!(Event::is_own_kind(kind), "`Event::read` does not know {kind}");
        }
        assert!(!Event::is_own_kind("later") && !Event::is_own_kind("custom.mine"));
    }
}
