//! Events: the records of the journal. Only an event changes the state.
//!
//! Each machine owns an enum with its events, in a file `event` of its own. [`Event`] wraps these
//! enums, and reads and writes them by their kind. It does not know what an event means.
//!
//! # Invariants
//! - Fields that other programs rely on keep their meaning; more can be added.
//! - A kind that a reader does not know is [`Event::Unknown`], and changes nothing. Hooks log
//!   events of their own kinds as [`TaskEvent::Custom`].

use std::collections::BTreeMap;

use serde::{Serialize, Serializer, de::DeserializeOwned};

pub use crate::engine::{
    actor::{Actor, ActorKind},
    gate::event::{GateEvent, GateGrants},
    hooks::{HookEvent, HookFinished},
    pending::event::PendingEvent,
    retry::RetryEvent,
    session::event::{
        CheckOutcome, CheckRunResult, FinalDeliveryMode, IterationOutcome, SessionEvent,
        SessionOutcome, SessionStarted, SessionWorktree, UserPresence,
    },
    steering::{SteeringEvent, StopTiming},
    stop::event::{StopDecided, StopEvent},
    submit::event::PipelineEvent,
    tasks::event::{AutomationEvent, CUSTOM, CustomRecord, TaskEvent, WorkflowEvent},
    turn::event::{AfterTurn, PromptReason, PromptSent, TurnEvent},
    usage_limit::event::{LimitAction, LimitReached, UsageLimitEvent},
    verify::VerifyEvent,
    watch::event::WatchEvent,
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
    /// Changes of the work, and the checks that run again for them.
    Verify(VerifyEvent),
    /// The pull request that the session waits for.
    Watch(WatchEvent),
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
            Self::Verify(event) => event.serialize(serializer),
            Self::Watch(event) => event.serialize(serializer),
            Self::Unknown => BTreeMap::from([("kind", "unknown")]).serialize(serializer),
        }
    }
}

impl Event {
    /// Reads a line by its kind. A kind that this creel does not know is [`Event::Unknown`].
    pub fn read(kind: &str, line: &str) -> Result<Self, serde_json::Error> {
        if kind.starts_with(CUSTOM) {
            return read(line).map(|custom| Self::Task(TaskEvent::Custom(Box::new(custom))));
        }
        if TurnEvent::KINDS.contains(&kind) {
            read(line).map(Self::Turn)
        } else if HookEvent::KINDS.contains(&kind) {
            read(line).map(Self::Hook)
        } else if SessionEvent::KINDS.contains(&kind) {
            read(line).map(Self::Session)
        } else if PendingEvent::KINDS.contains(&kind) {
            read(line).map(Self::Pending)
        } else if UsageLimitEvent::KINDS.contains(&kind) {
            read(line).map(Self::UsageLimit)
        } else if RetryEvent::KINDS.contains(&kind) {
            read(line).map(Self::Retry)
        } else if GateEvent::KINDS.contains(&kind) {
            read(line).map(Self::Gate)
        } else if StopEvent::KINDS.contains(&kind) {
            read(line).map(Self::Stop)
        } else if TaskEvent::KINDS.contains(&kind) {
            read(line).map(Self::Task)
        } else if AutomationEvent::KINDS.contains(&kind) {
            read(line).map(Self::Automation)
        } else if WorkflowEvent::KINDS.contains(&kind) {
            read(line).map(Self::Workflow)
        } else if PipelineEvent::KINDS.contains(&kind) {
            read(line).map(Self::Pipeline)
        } else if SteeringEvent::KINDS.contains(&kind) {
            read(line).map(Self::Steering)
        } else if VerifyEvent::KINDS.contains(&kind) {
            read(line).map(Self::Verify)
        } else if WatchEvent::KINDS.contains(&kind) {
            read(line).map(Self::Watch)
        } else {
            Ok(Self::Unknown)
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
        let error = read::<T>(r#"{"kind":"?"}"#)
            .err()
            .expect("there is no such kind")
            .to_string();
        let names = error.split('`').skip(3).step_by(2);
        names
            .filter(|name| !name.contains('?'))
            .map(str::to_owned)
            .collect()
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
            kinds::<VerifyEvent>(),
            kinds::<WatchEvent>(),
        ];
        assert!(all.iter().all(|kinds| kinds.len() > 1), "{all:?}");
        for kind in all.iter().flatten() {
            assert!(
                Event::is_own_kind(kind),
                "`Event::read` does not know {kind}"
            );
        }
        assert!(!Event::is_own_kind("later") && !Event::is_own_kind("custom.mine"));
    }
}
