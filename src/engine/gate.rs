//! Gates: decisions that the session waits for the user to make.
//!
//! Owns what a gate is about ([`subject`]), the answers that it accepts and what each one means
//! ([`kind`]), the answer of an unattended session, the `on_gate` hooks
//! ([`notices`]), and the tasks that an agent proposes ([`proposal_rules`]). Does not decide when
//! any other gate opens: the machine that needs the decision opens it, and stores its answer.
//!
//! # Invariants
//! - At most one gate is open at a time, and it is answered once.
//! - An answer that the gate does not offer is refused.
//! - The other records that an answer causes come before its own, so a crash in between leaves the
//!   gate open.

pub mod answer;
pub(crate) mod apply;
pub mod event;
pub(crate) mod grants;
pub mod kind;
pub mod notices;
pub mod proposal_rules;
pub mod subject;

use serde::{Deserialize, Serialize};

use crate::engine::{
    event::{Actor, ActorKind, Event, GateEvent, UserPresence},
    gate::{
        kind::{GateChoice, GateKind},
        subject::GateSubject,
    },
    ids::GateId,
    output::EngineOutput,
    policy::{FinalDeliveryPolicy, RetryLimitPolicy, SessionPlan},
    question::QuestionPolicy,
    time::UnixTime,
};

/// An open gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    pub id: GateId,
    pub subject: GateSubject,
    /// Why the session asks.
    pub reason: String,
    /// The answers that the user can give.
    pub choices: Vec<GateChoice>,
    pub opened: UnixTime,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionGates {
    pub open: Option<Gate>,
    /// The highest id so far.
    pub last: GateId,
}

/// What happens at a gate that the user has not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnansweredGate {
    /// The policy or the timeout answers.
    Answer(GateChoice, ActorKind),
    Wait,
    /// The gate waits for a user, but the session is unattended.
    WaitsForUser,
}

impl Gate {
    pub fn kind(&self) -> GateKind {
        self.subject.kind()
    }

    /// The choice under the name that this gate uses for it: `send` and `message` mean the same,
    /// and at a question they mean `answer`.
    pub(crate) fn understood(&self, choice: GateChoice) -> GateChoice {
        let other = choice.other_name();
        if other != choice && self.kind() == GateKind::Question {
            GateChoice::Answer
        } else if self.choices.contains(&other) {
            other
        } else {
            choice
        }
    }

    /// When `gates.timeout` answers, if it is set and does not leave the gate to the user.
    pub fn deadline(&self, plan: &SessionPlan) -> Option<UnixTime> {
        let answers = !plan.gates.timeout.is_zero() && !self.waits_for_a_person(plan);
        answers.then(|| self.opened.after(plan.gates.timeout))
    }

    pub(crate) fn unanswered(
        &self,
        plan: &SessionPlan,
        presence: UserPresence,
        now: UnixTime,
    ) -> UnansweredGate {
        if let Some(choice) = self.automatic_answer(plan, presence) {
            return UnansweredGate::Answer(choice, ActorKind::Policy);
        }
        match self.deadline(plan) {
            Some(deadline) if now >= deadline => {
                UnansweredGate::Answer(self.auto(plan), ActorKind::Timeout)
            }
            None if presence == UserPresence::Unattended => UnansweredGate::WaitsForUser,
            Some(_) | None => UnansweredGate::Wait,
        }
    }

    /// Whether only the user answers it, however long that takes.
    fn waits_for_a_person(&self, plan: &SessionPlan) -> bool {
        self.kind() == GateKind::Question && plan.gates.questions == QuestionPolicy::Escalate
    }

    /// The answer that is known without asking the user.
    pub(crate) fn automatic_answer(
        &self,
        plan: &SessionPlan,
        presence: UserPresence,
    ) -> Option<GateChoice> {
        let unattended = presence == UserPresence::Unattended;
        match self.kind() {
            GateKind::FinalDelivery => match (plan.gates.final_delivery, presence) {
                (Some(FinalDeliveryPolicy::Auto), _) | (None, UserPresence::Unattended) => {
                    Some(GateChoice::Approve)
                }
                (Some(FinalDeliveryPolicy::Skip), _) => Some(GateChoice::Skip),
                (Some(FinalDeliveryPolicy::Ask), _) | (None, UserPresence::Attended) => None,
            },
            // These gates open only where the config says `ask`, which means the user even in an
            // unattended session, or where a user was present. Only a user decides what is queued.
            GateKind::Delivery
            | GateKind::Review
            | GateKind::Permission
            | GateKind::UsageLimit
            | GateKind::Proposal => None,
            GateKind::Question if self.waits_for_a_person(plan) => None,
            GateKind::RetryLimit
            | GateKind::Escalation
            | GateKind::Errors
            | GateKind::BrokenHook
            | GateKind::Question
            | GateKind::Budget
            | GateKind::Tampered
            | GateKind::Submit
            | GateKind::Merge => unattended.then(|| self.auto(plan)),
        }
    }

    /// The answer of an unattended session, and after `gates.timeout`.
    fn auto(&self, plan: &SessionPlan) -> GateChoice {
        match self.kind() {
            GateKind::FinalDelivery | GateKind::Delivery | GateKind::Review => GateChoice::Approve,
            GateKind::RetryLimit => match plan.on_limit {
                RetryLimitPolicy::Complete => GateChoice::Ignore,
                RetryLimitPolicy::Escalate => GateChoice::Escalate,
                RetryLimitPolicy::Abort => GateChoice::Abort,
            },
            GateKind::Escalation | GateKind::Tampered => GateChoice::Escalate,
            GateKind::Errors => GateChoice::Fail,
            GateKind::BrokenHook if self.subject.is_broken_check() => GateChoice::Escalate,
            GateKind::BrokenHook => GateChoice::Disable,
            GateKind::Permission => {
                let no = [GateChoice::RejectOnce, GateChoice::RejectAlways]
                    .into_iter()
                    .find(|no| self.choices.contains(no));
                no.unwrap_or(GateChoice::Cancel)
            }
            GateKind::Question => GateChoice::Decline,
            GateKind::Budget => GateChoice::Stop,
            GateKind::UsageLimit => GateChoice::Wait,
            GateKind::Submit | GateKind::Merge | GateKind::Proposal => GateChoice::Leave,
        }
    }
}

impl SessionGates {
    pub(crate) fn open_gate(&self, subject: GateSubject, reason: String) -> EngineOutput {
        let choices = subject.kind().choices();
        self.open_gate_with(subject, reason, choices)
    }

    /// Opens a gate that offers its own selection of answers.
    pub(crate) fn open_gate_with(
        &self,
        subject: GateSubject,
        reason: String,
        choices: Vec<GateChoice>,
    ) -> EngineOutput {
        EngineOutput::record(Event::Gate(subject.opened(
            self.last.next(),
            choices,
            reason,
        )))
    }

    pub fn open_gate_named(&self, id: GateId) -> Option<&Gate> {
        self.open.as_ref().filter(|gate| gate.id == id)
    }

    /// Cancels an open gate about a request of the agent, because its turn ends.
    pub(crate) fn unasked(&self, by: &Actor) -> EngineOutput {
        let asks = |gate: &Gate| gate.subject.ask().is_some();
        if self.open.as_ref().is_some_and(asks) {
            self.withdraw(by)
        } else {
            EngineOutput::default()
        }
    }

    /// Closes the open gate, because its reason is gone.
    pub(crate) fn withdraw(&self, by: &Actor) -> EngineOutput {
        self.open
            .as_ref()
            .map_or_else(EngineOutput::default, |gate| {
                EngineOutput::record(Event::Gate(GateEvent::Answered {
                    gate: gate.id,
                    choice: GateChoice::Cancel,
                    by: by.clone(),
                    option: None,
                    grants: None,
                }))
            })
    }
}
