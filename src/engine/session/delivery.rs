//! After the loop: pending items are sent, then the session ends.
//!
//! # Invariants
//! - With pending items that were not skipped, the session ends only after the user or the policy was asked. The same
//!   is true for an escalation of an agent loop that no evaluation has handled, or of an `on_task_complete` hook.
//! - A session is not complete while it has a message that it can still send: the answer is checked like any other
//!   work.
//! - At most [`FINAL_DELIVERIES`] prompts carry pending items: output that hooks produce after the last one stays in
//!   the journal.

use super::{GateDetails, Phase, SessionState, gate::GateKind, warning};
use crate::engine::{
    EngineOutput,
    effect::{Effect, ExitReason},
    event::{Event, FinalDeliveryMode, IterationOutcome, SessionEvent, SessionOutcome},
    hooks::point::HookPoint,
    ids::ItemId,
    time::UnixTime,
    wording::{counted, plural, some_names},
};

/// How many times the agent gets pending items after the loop. Its turns can cause new ones.
pub const FINAL_DELIVERIES: u32 = 3;

/// How many undelivered items the last warning names.
const LISTED: usize = 20;

#[derive(Debug, Clone, PartialEq)]
pub struct LoopEnd {
    pub outcome: SessionOutcome,
    pub reason: String,
    pub delivery: FinalDeliveryMode,
    /// The approved items. None until the user or the policy has answered.
    pub approved: Option<Vec<ItemId>>,
    /// The items that the question was about.
    pub seen: Vec<ItemId>,
    /// How many final deliveries the agent has answered.
    pub deliveries: u32,
    /// Whether the user interrupted the end.
    pub interrupted: bool,
    /// The successful end of the loop before it was escalated after all: `resume` continues with it.
    pub before: Option<Box<Self>>,
    /// The phase when the user stopped the session immediately: `resume` continues there.
    pub stopped_at: Option<Box<Phase>>,
}

pub(crate) const STOPPED: &str = "stopped by a person";

impl LoopEnd {
    /// Pending items can still be sent.
    pub(crate) fn offering(outcome: SessionOutcome, reason: &str) -> Self {
        Self {
            outcome,
            reason: reason.to_owned(),
            delivery: FinalDeliveryMode::Offer,
            approved: None,
            seen: Vec::new(),
            deliveries: 0,
            interrupted: false,
            before: None,
            stopped_at: None,
        }
    }

    /// Pending items are not sent.
    pub(crate) fn undelivered(outcome: SessionOutcome, reason: &str) -> Self {
        Self { delivery: FinalDeliveryMode::No, ..Self::offering(outcome, reason) }
    }
}

impl SessionState {
    pub(super) fn proceed_delivery(&self, now: UnixTime) -> EngineOutput {
        let to_look_at = || self.take_up_a_loop().or_else(|| self.take_up_trouble());
        if let Some(step) = self.ends_well().then(to_look_at).flatten() {
            return step;
        }
        if let Some(step) = self.answer_late_message(now) {
            return step;
        }
        if let Some(step) = self.begin_after_the_loop() {
            return step;
        }
        if self.delivery_is_off() {
            return self.reach_session_end();
        }
        if let Some(step) = self.too_many_errors() {
            return step;
        }
        if self.is_busy_beside() {
            return EngineOutput::default();
        }
        let approved = self.ending.as_ref().and_then(|ending| ending.approved.as_ref());
        let delivers = self.ending.as_ref().is_some_and(|ending| ending.deliveries < FINAL_DELIVERIES);
        let waiting = if delivers { self.pending.waiting_ids() } else { Vec::new() };
        let items: Vec<ItemId> =
            waiting.iter().copied().filter(|id| approved.is_none_or(|approved| approved.contains(id))).collect();
        // The user has not seen items that arrived while the gate was open.
        let seen = self.ending.as_ref().map_or(&[][..], |ending| &ending.seen);
        let unseen: Vec<ItemId> = waiting.into_iter().filter(|id| !seen.contains(id)).collect();
        if items.is_empty() && unseen.is_empty() && !self.message_is_due() {
            return self.reach_session_end();
        }
        if self.steering.paused {
            return EngineOutput::default();
        }
        let items = if approved.is_some() && items.is_empty() { unseen } else { items };
        if !items.is_empty() && items.iter().any(|id| approved.is_none_or(|approved| !approved.contains(id))) {
            let reason = format!("the loop is over, and the agent has not seen {}", counted(items.len(), "held item"));
            return self.open_gate(GateKind::FinalDelivery, reason, GateDetails::items(items));
        }
        self.wait_over(now).unwrap_or_else(|| self.final_prompt(items))
    }

    /// A message to a session whose loop has ended as complete. The items that the user has approved are sent before
    /// it, so that creel does not ask about them twice.
    fn answer_late_message(&self, now: UnixTime) -> Option<EngineOutput> {
        let ending = self.ending.as_ref().filter(|ending| !ending.interrupted)?;
        let approved = ending.approved.as_deref().unwrap_or_default();
        let items_first = self.pending.waiting_ids().iter().any(|id| approved.contains(id));
        if items_first { None } else { self.answer_before_the_end(ending, now) }
    }

    /// The step towards a message that waits while the session is about to end as complete. Its turn belongs to the
    /// last iteration, so the stop hooks and the stop decision check it.
    pub(super) fn answer_before_the_end(&self, ending: &LoopEnd, now: UnixTime) -> Option<EngineOutput> {
        let completes = ending.outcome == SessionOutcome::Complete && ending.delivery == FinalDeliveryMode::Offer;
        if !completes || !self.message_is_due() {
            return None;
        }
        if self.steering.paused {
            return Some(EngineOutput::default());
        }
        self.too_many_errors().or_else(|| self.wait_over(now)).or_else(|| Some(self.reopening_prompt()))
    }

    /// Whether nothing needs the user's attention.
    pub(super) fn ends_well(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| match ending.outcome {
            SessionOutcome::Complete | SessionOutcome::Limit | SessionOutcome::Forced => !ending.interrupted,
            SessionOutcome::Escalated
            | SessionOutcome::Aborted
            | SessionOutcome::Failed
            | SessionOutcome::Cancelled => false,
        })
    }

    pub(super) fn reach_session_end(&self) -> EngineOutput {
        if self.end_waits() {
            return EngineOutput::default();
        }
        let announced = self.announce(HookPoint::SessionEnd);
        if announced.is_empty() { self.end() } else { announced }
    }

    pub(super) fn end(&self) -> EngineOutput {
        let Some(ending) = self.ending.as_ref().filter(|_| !self.end_waits()) else { return EngineOutput::default() };
        let forced = self.iterations.last == Some(IterationOutcome::Forced);
        let (outcome, reason) = match ending {
            LoopEnd { interrupted: true, .. } => (SessionOutcome::Cancelled, STOPPED.to_owned()),
            LoopEnd { outcome, reason, .. } => (*outcome, reason.clone()),
        };
        let outcome = if forced { SessionOutcome::Forced } else { outcome };
        let ended = Event::Session(SessionEvent::Ended { outcome, iterations: self.iterations.current, reason });
        let left = self.pending.waiting_ids();
        let undelivered = (!left.is_empty()).then(|| warning(undelivered(&left)));
        let step = undelivered
            .into_iter()
            .chain(self.messages_left())
            .chain(self.hooks_left())
            .fold(EngineOutput::default(), EngineOutput::and)
            .and(ended);
        step.then(Effect::Leave(ExitReason::Ended))
    }
}

impl SessionState {
    /// The warning about unsent messages of the agent or a hook.
    fn messages_left(&self) -> Option<Event> {
        let left = self.steering.messages.iter().filter(|message| message.by.is_supervised()).count();
        let words = counted(left, "message");
        (left > 0).then(|| warning(format!("not sent: {words} of the agent or its hooks; the text is in the journal")))
    }

    /// The completed tasks whose hooks did not run because of the interrupt.
    fn hooks_left(&self) -> Option<Event> {
        let tasks: Vec<&str> = self.side.tasks().collect();
        let first = tasks.first()?;
        let of = if tasks.len() == 1 { format!("task {first}") } else { format!("{} tasks", tasks.len()) };
        Some(warning(format!("the on_task_complete hooks of {of} have not run; they run when you resume the session")))
    }

    /// Where a session that is stopped immediately continues when it is resumed: as if creel had been killed here.
    pub(super) fn phase_to_resume(&self) -> Option<Box<Phase>> {
        match &self.phase {
            Phase::Hooks(_) | Phase::Due(_) | Phase::Settled(_) | Phase::Between | Phase::Escalated(_) => {
                Some(Box::new(self.phase.clone()))
            }
            // The cancelled hooks gave no verdict, so the turn is evaluated again.
            Phase::Judging(_) => Some(Box::new(Phase::Judging(Box::default()))),
            // The user had decided to leave: the iteration is over.
            Phase::Exit(_) if self.iterations.open => Some(Box::new(Phase::Settled(IterationOutcome::Failed))),
            Phase::Turn(_)
            | Phase::Exit(_)
            | Phase::Pipeline
            | Phase::Errand(_)
            | Phase::Delivering
            | Phase::Ended(_) => None,
        }
    }
}

/// The ids of the items that the agent has not received, so that the user can look each one up.
fn undelivered(left: &[ItemId]) -> String {
    let names: Vec<String> = left.iter().map(ToString::to_string).collect();
    let (items, names) = (plural(left.len(), "item"), some_names(&names, LISTED));
    format!("not delivered: {items} {names}; the text is in the journal")
}
