//! Decisions that the session waits for the user to make.
//!
//! Owns what a gate is, which answers it accepts, and the answer that the policy gives in an unattended session. What an
//! answer leads to is decided where the gate was opened.
//!
//! # Invariants
//! - At most one gate holds the session at a time, and it is answered once.

pub mod answer;
pub(crate) mod apply;
pub(crate) mod apply_notices;
pub mod event;
pub mod kind;
pub mod notices;

use crate::engine::{
    conversation::AgentPermissionRequest,
    event::{Actor, ActorKind, Event, GateEvent, UserPresence},
    gate::kind::{GateChoice, GateKind},
    ids::{GateId, ItemId, PermissionId, RunId},
    output::EngineOutput,
    policy::{FinalDeliveryPolicy, RetryLimitPolicy, SessionPlan},
    time::UnixTime,
};

/// A gate that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub id: GateId,
    /// What it is about.
    pub about: GateKind,
    /// Why the session waits, in words.
    pub reason: String,
    /// The hook that it is about.
    pub hook: Option<String>,
    /// The failed run of that hook.
    pub run: Option<RunId>,
    /// The held items that it is about.
    pub items: Vec<ItemId>,
    /// The agent's request that it is about.
    pub ask: Option<PermissionId>,
    /// The answers that it takes.
    pub choices: Vec<GateChoice>,
    /// When it opened.
    pub opened: UnixTime,
}

/// The gates of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionGates {
    /// The one that waits.
    pub open: Option<Gate>,
    /// The last number given.
    pub last: GateId,
}

/// What becomes of a gate that no person has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnansweredGate {
    /// The policy or the timeout answers.
    Answer(GateChoice, ActorKind),
    /// It waits.
    Wait,
    /// It waits, and the session is unattended.
    NobodyThere,
}

impl Gate {
    /// The choice that is meant: to write to the agent is called differently where it ends a turn and where it begins one.
    pub(crate) fn understood(&self, choice: GateChoice) -> GateChoice {
        let other = match choice {
            GateChoice::Send => GateChoice::Message,
            GateChoice::Message => GateChoice::Send,
            GateChoice::Approve
            | GateChoice::Skip
            | GateChoice::Continue
            | GateChoice::Ignore
            | GateChoice::Disable
            | GateChoice::Retry
            | GateChoice::Wait
            | GateChoice::Switch
            | GateChoice::Complete
            | GateChoice::Escalate
            | GateChoice::Fail
            | GateChoice::Stop
            | GateChoice::AllowOnce
            | GateChoice::AllowAlways
            | GateChoice::RejectOnce
            | GateChoice::RejectAlways
            | GateChoice::Leave
            | GateChoice::Cancel
            | GateChoice::Abort => return choice,
        };
        if self.choices.contains(&other) { other } else { choice }
    }

    /// When the timeout answers, if there is one.
    pub fn deadline(&self, plan: &SessionPlan) -> Option<UnixTime> {
        (!plan.gates.timeout.is_zero()).then(|| self.opened.after(plan.gates.timeout))
    }

    pub(crate) fn unanswered(&self, plan: &SessionPlan, presence: UserPresence, now: UnixTime) -> UnansweredGate {
        if let Some(choice) = self.standing_answer(plan, presence) {
            return UnansweredGate::Answer(choice, ActorKind::Policy);
        }
        match self.deadline(plan) {
            Some(deadline) if now >= deadline => UnansweredGate::Answer(self.auto(plan), ActorKind::Timeout),
            None if presence == UserPresence::Unattended => UnansweredGate::NobodyThere,
            Some(_) | None => UnansweredGate::Wait,
        }
    }

    /// The answer that is known without asking the user.
    pub(crate) fn standing_answer(&self, plan: &SessionPlan, presence: UserPresence) -> Option<GateChoice> {
        let unattended = presence == UserPresence::Unattended;
        match self.about {
            GateKind::FinalDelivery => match (plan.gates.final_delivery, presence) {
                (Some(FinalDeliveryPolicy::Auto), _) | (None, UserPresence::Unattended) => Some(GateChoice::Approve),
                (Some(FinalDeliveryPolicy::Skip), _) => Some(GateChoice::Skip),
                (Some(FinalDeliveryPolicy::Ask), _) | (None, UserPresence::Attended) => None,
            },
            // These gates open only where the config says `ask`, which means the user even in an unattended session.
            GateKind::Delivery | GateKind::Permission | GateKind::UsageLimit => None,
            GateKind::RetryLimit
            | GateKind::Escalation
            | GateKind::Errors
            | GateKind::BrokenHook
            | GateKind::Budget
            | GateKind::Tampered
            | GateKind::Submit
            | GateKind::Merge => unattended.then(|| self.auto(plan)),
        }
    }

    /// The answer of an unattended session, and after `gates.timeout`.
    fn auto(&self, plan: &SessionPlan) -> GateChoice {
        match self.about {
            GateKind::FinalDelivery | GateKind::Delivery => GateChoice::Approve,
            GateKind::RetryLimit => match plan.on_limit {
                RetryLimitPolicy::Complete => GateChoice::Ignore,
                RetryLimitPolicy::Escalate => GateChoice::Escalate,
                RetryLimitPolicy::Abort => GateChoice::Abort,
            },
            GateKind::Escalation | GateKind::Tampered => GateChoice::Escalate,
            GateKind::Errors => GateChoice::Fail,
            GateKind::BrokenHook => GateChoice::Disable,
            GateKind::Permission => {
                let no =
                    [GateChoice::RejectOnce, GateChoice::RejectAlways].into_iter().find(|no| self.choices.contains(no));
                no.unwrap_or(GateChoice::Cancel)
            }
            GateKind::Budget => GateChoice::Stop,
            GateKind::UsageLimit => GateChoice::Wait,
            GateKind::Submit | GateKind::Merge => GateChoice::Leave,
        }
    }
}

impl SessionGates {
    pub(crate) fn open_gate(&self, about: GateKind, reason: String, details: GateDetails) -> EngineOutput {
        EngineOutput::record(Event::Gate(GateEvent::Opened {
            gate: self.last.next(),
            about,
            choices: details.choices.unwrap_or_else(|| about.choices().to_vec()),
            reason,
            hook: details.hook,
            run: details.run,
            items: details.items,
            ask: details.ask,
        }))
    }

    pub fn open_gate_named(&self, id: GateId) -> Option<&Gate> {
        self.open.as_ref().filter(|gate| gate.id == id)
    }

    /// The end of a turn cancels the requests that still wait.
    pub(crate) fn unasked(&self, by: &Actor) -> EngineOutput {
        let gate = self.open.as_ref().filter(|gate| gate.about == GateKind::Permission);
        gate.map_or_else(EngineOutput::default, |gate| {
            EngineOutput::record(Event::Gate(GateEvent::Answered {
                gate: gate.id,
                choice: GateChoice::Cancel,
                by: by.clone(),
                option: None,
            }))
        })
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct GateDetails {
    hook: Option<String>,
    run: Option<RunId>,
    items: Vec<ItemId>,
    ask: Option<PermissionId>,
    /// The answers, where they differ between gates of the kind.
    choices: Option<Vec<GateChoice>>,
}

impl GateDetails {
    pub(crate) fn hook(hook: &str) -> Self {
        Self { hook: Some(hook.to_owned()), ..Self::default() }
    }

    /// A hook whose run failed.
    pub(crate) fn failed_run(hook: &str, run: RunId) -> Self {
        Self { run: Some(run), ..Self::hook(hook) }
    }

    pub(crate) fn items(items: Vec<ItemId>) -> Self {
        Self { items, ..Self::default() }
    }

    /// Answers that differ from those of other gates of the kind.
    pub(crate) fn choices(choices: Vec<GateChoice>) -> Self {
        Self { choices: Some(choices), ..Self::default() }
    }

    pub(crate) fn ask(ask: &AgentPermissionRequest) -> Self {
        Self { ask: Some(ask.ask), choices: Some(ask.choices()), ..Self::default() }
    }
}
