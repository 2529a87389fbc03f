//! After the loop: pending items are sent, the work is verified and submitted, then the session
//! ends.
//!
//! # Invariants
//! - With pending items that were not skipped, the session ends only after the user or the policy
//!   was asked. The same is true for an escalation of an agent loop that no evaluation has handled,
//!   or of an `on_task_complete` hook.
//! - A session is not complete while it has a message that it can still send: the answer is checked
//!   like any other work.
//! - At most [`FINAL_DELIVERIES`] prompts carry pending items: output that hooks produce after the
//!   last one stays in the journal.

use std::collections::BTreeSet;

use crate::{
    engine::{
        effect::{Effect, ExitReason},
        event::{
            Event, FinalDeliveryMode, IterationOutcome, SessionEvent, SessionOutcome, VerifyEvent,
        },
        gate::subject::GateSubject,
        hooks::{dispatch::DispatchCause, point::HookPoint},
        ids::ItemId,
        output::EngineOutput,
        session::{
            SessionState,
            phase::{LoopEnd, STOPPED},
        },
        submit::kind::{PipelineKind, PipelineOutcome},
        time::UnixTime,
        verify::{
            WorkChangedBy, WorkMeasurement,
            rules::{VerificationStep, VerifyRules},
        },
    },
    text::{counted, plural, some_names},
};

/// How many times the agent gets pending items after the loop. Its turns can cause new ones.
pub const FINAL_DELIVERIES: u32 = 3;

/// How the warning about work that no check has seen begins.
pub const CHANGED_LATE: &str = "changed after the last check, while the session ended";

/// How many undelivered items the last warning names.
const LISTED: usize = 20;

/// The ids of the items that the agent has not received, so that the user can look each one up.
fn undelivered(left: &[ItemId]) -> String {
    let names: Vec<String> = left.iter().map(ToString::to_string).collect();
    let (items, names) = (plural(left.len(), "item"), some_names(&names, LISTED));
    format!("not delivered: {items} {names}; the text is in the journal")
}

/// The warning about what hooks or the user changed after the checks had passed for the last time.
fn changed_late(event: &Event) -> Option<Event> {
    let Event::Verify(VerifyEvent::WorkChanged { files, unknown, .. }) = event else {
        return None;
    };
    let what = if *unknown {
        "something that creel cannot tell".to_owned()
    } else {
        some_names(files, LISTED)
    };
    Some(Event::warning(format!("{CHANGED_LATE}: {what}")))
}

#[derive(Debug, Clone, Copy)]
pub struct EndRules<'a>(pub(crate) &'a SessionState);

impl EndRules<'_> {
    /// The pipeline after the final delivery: a requested one, or the automatic submit of work that
    /// is verified.
    pub(crate) fn begin_after_the_loop(self) -> Option<EngineOutput> {
        let ending = self
            .0
            .ending
            .as_ref()
            .filter(|ending| !ending.interrupted)?;
        let complete = self.0.verification().end(ending).0 == SessionOutcome::Complete;
        let asked = self.0.pipelines.wanted.filter(|_| {
            matches!(
                ending.outcome,
                SessionOutcome::Complete | SessionOutcome::Limit
            )
        });
        // One that starts again verifies the work itself, and asks.
        let again = self.0.pipelines.again.is_some() && ending.outcome == SessionOutcome::Complete;
        let by_itself =
            ((complete && self.0.plan().submit.on_complete) || again) && !self.0.pipelines.followed;
        let pipeline = asked.or(by_itself.then_some(PipelineKind::Submit))?;
        Some(if self.0.beside().is_busy_beside() {
            EngineOutput::default()
        } else {
            self.0.pipeline().begin_pipeline(pipeline)
        })
    }

    /// Leaves the loop. An iteration that is still open is recorded as failed first, unless the
    /// user accepts it. An iteration that the user stops immediately stays open, and so does one
    /// that ends at a gate: `resume` continues it.
    pub(crate) fn leave_loop(self, ending: &LoopEnd) -> EngineOutput {
        let stopped = ending.outcome == SessionOutcome::Cancelled && self.0.steering.interrupted();
        if self.0.iterations.open && !stopped && ending.asked.is_none() {
            let accepted = ending.outcome == SessionOutcome::Complete;
            return self.0.iterations.complete_iteration(if accepted {
                IterationOutcome::Done
            } else {
                IterationOutcome::Failed
            });
        }
        EngineOutput::record(Event::Session(SessionEvent::LoopEnded {
            outcome: ending.outcome,
            reason: ending.reason.clone(),
            delivery: if self.0.plan().is_led_from_outside() {
                FinalDeliveryMode::No
            } else {
                ending.delivery
            },
        }))
    }

    pub(crate) fn delivery_is_off(self) -> bool {
        self.0
            .ending
            .as_ref()
            .is_some_and(|ending| ending.delivery == FinalDeliveryMode::No)
    }

    /// Pending items are sent, then the work is verified, then it is submitted, then the session
    /// ends.
    pub(crate) fn proceed_delivery(
        self,
        now: UnixTime,
        measured: Option<&WorkMeasurement>,
    ) -> EngineOutput {
        let side_rules = self.0.side_rules();
        let to_look_at = || {
            side_rules
                .take_up_a_loop()
                .or_else(|| side_rules.ask_about_failure())
        };
        if let Some(step) = self
            .0
            .ending
            .as_ref()
            .is_some_and(LoopEnd::ends_well)
            .then(to_look_at)
            .flatten()
        {
            return step;
        }
        if let Some(step) = self.answer_late_message(now) {
            return step;
        }
        // Items that come with the submit, or later, are not sent any more.
        if !self.delivery_is_off() && !self.0.pipelines.followed {
            if let Some(step) = self.0.retries().too_many_errors() {
                return step;
            }
            if self.0.beside().is_busy_beside() {
                return EngineOutput::default();
            }
            if let Some(step) = self.deliver(now) {
                return step;
            }
        }
        if let Some(step) = self
            .verify_the_end(measured)
            .or_else(|| self.compare_tests(measured))
            .or_else(|| self.begin_after_the_loop())
        {
            return step;
        }
        self.reach_session_end(measured)
    }

    /// Whether the work has to be verified here. A submit that starts again verifies it itself, and
    /// asks.
    fn is_verified_here(self) -> bool {
        let completes =
            |ending: &LoopEnd| ending.outcome == SessionOutcome::Complete && !ending.interrupted;
        self.0.ending.as_ref().is_some_and(completes)
            && !self.0.pipelines.followed
            && self.0.pipelines.again.is_none()
    }

    /// The tests are compared with those at the start before a session ends as complete.
    fn compare_tests(self, measured: Option<&WorkMeasurement>) -> Option<EngineOutput> {
        if self.is_verified_here() {
            self.0.test_rules().compare(measured)
        } else {
            None
        }
    }

    /// The checks that have not run since the work last changed run before a session ends as
    /// complete.
    fn verify_the_end(self, measured: Option<&WorkMeasurement>) -> Option<EngineOutput> {
        if !self.is_verified_here() {
            return None;
        }
        if self.0.beside().end_waits() {
            return Some(EngineOutput::default());
        }
        match self.0.verification().proceed(measured, &BTreeSet::new()) {
            VerificationStep::Next(step) => Some(step),
            VerificationStep::Over => None,
        }
    }

    /// The gate or the prompt of a final delivery. None if there is nothing to send.
    fn deliver(self, now: UnixTime) -> Option<EngineOutput> {
        let approved = self
            .0
            .ending
            .as_ref()
            .and_then(|ending| ending.approved.as_ref());
        let delivers = self
            .0
            .ending
            .as_ref()
            .is_some_and(|ending| ending.deliveries < FINAL_DELIVERIES);
        // News of a pull request has a way of its own: see [`crate::engine::watch`].
        let waiting = if delivers {
            self.0.pending.waiting_output()
        } else {
            Vec::new()
        };
        let items: Vec<ItemId> = waiting
            .iter()
            .copied()
            .filter(|id| approved.is_none_or(|approved| approved.contains(id)))
            .collect();
        // The user has not seen items that arrived while the gate was open.
        let seen = self
            .0
            .ending
            .as_ref()
            .map_or(&[][..], |ending| &ending.seen);
        let unseen: Vec<ItemId> = waiting
            .into_iter()
            .filter(|id| !seen.contains(id))
            .collect();
        if items.is_empty()
            && unseen.is_empty()
            && !self
                .0
                .steering
                .message_is_due(0, &self.0.iterations, self.0.plan())
        {
            return None;
        }
        let items = if approved.is_some() && items.is_empty() {
            unseen
        } else {
            items
        };
        if !items.is_empty()
            && items
                .iter()
                .any(|id| approved.is_none_or(|approved| !approved.contains(id)))
        {
            let reason = format!(
                "the loop has ended. Not sent to the agent yet: {}",
                counted(items.len(), "pending item")
            );
            return Some(
                self.0
                    .gates
                    .open_gate(GateSubject::FinalDelivery { items }, reason),
            );
        }
        Some(
            self.0
                .retries()
                .wait_over(now)
                .unwrap_or_else(|| self.0.prompts().final_prompt(items)),
        )
    }

    /// A message to a session whose loop has ended as complete. The items that the user has
    /// approved are sent before it, so that creel does not ask about them twice.
    pub(crate) fn answer_late_message(self, now: UnixTime) -> Option<EngineOutput> {
        let ending = self
            .0
            .ending
            .as_ref()
            .filter(|ending| !ending.interrupted)?;
        let approved = ending.approved.as_deref().unwrap_or_default();
        let items_first = self
            .0
            .pending
            .waiting_ids()
            .iter()
            .any(|id| approved.contains(id));
        if items_first {
            None
        } else {
            self.answer_before_the_end(ending, now)
        }
    }

    /// The step towards a message that waits while the session is about to end as complete. Its
    /// turn belongs to the last iteration, so the stop hooks and the stop decision check it.
    pub(crate) fn answer_before_the_end(
        self,
        ending: &LoopEnd,
        now: UnixTime,
    ) -> Option<EngineOutput> {
        let retries = self.0.retries();
        let completes = ending.outcome == SessionOutcome::Complete
            && ending.delivery == FinalDeliveryMode::Offer;
        if !completes
            || !self
                .0
                .steering
                .message_is_due(0, &self.0.iterations, self.0.plan())
        {
            return None;
        }
        if self.0.steering.paused {
            return Some(EngineOutput::default());
        }
        retries
            .too_many_errors()
            .or_else(|| retries.wait_over(now))
            .or_else(|| Some(self.0.prompts().reopening_prompt()))
    }

    /// Whether hooks that no check follows can have changed the work: those after a submit, and
    /// those of the end.
    fn hooks_ran_since_the_checks(self) -> bool {
        let has_hooks = |point| !self.0.plan().hooks_or_usual(point).is_empty();
        let ran = has_hooks(HookPoint::SessionEnd)
            || (self.0.pipelines.followed && has_hooks(HookPoint::AfterSubmit));
        ran && !self.0.verification().counted().is_empty()
    }

    pub(crate) fn reach_session_end(self, measured: Option<&WorkMeasurement>) -> EngineOutput {
        if self.0.beside().end_waits() {
            return EngineOutput::default();
        }
        let announced = self
            .0
            .hook_rules()
            .announce(HookPoint::SessionEnd, &DispatchCause::Lifecycle);
        if announced.is_empty() {
            self.end(measured)
        } else {
            announced
        }
    }

    pub(crate) fn end(self, measured: Option<&WorkMeasurement>) -> EngineOutput {
        let verification = self.0.verification();
        let Some(ending) = self
            .0
            .ending
            .as_ref()
            .filter(|_| !self.0.beside().end_waits())
        else {
            return EngineOutput::default();
        };
        let completes = ending.outcome == SessionOutcome::Complete && !ending.interrupted;
        if let Some(step) = verification.repeat_stale().filter(|_| completes) {
            return step;
        }
        let (outcome, reason) = match ending {
            LoopEnd {
                interrupted: true, ..
            } => (SessionOutcome::Cancelled, STOPPED.to_owned()),
            LoopEnd { .. } => verification.end(ending),
        };
        let unsubmitted = self.0.pipelines.last.as_ref().is_some_and(|last| {
            last.pipeline == PipelineKind::Submit && last.outcome != PipelineOutcome::Done
        });
        let followed = self.0.pipelines.left_watch.as_deref();
        let reason = match (outcome, followed) {
            (SessionOutcome::Complete, Some(watch)) => {
                let last = self.0.pipelines.last.as_deref();
                let merged = last.is_some_and(|last| last.merged.is_some());
                let is = if merged { "is" } else { "is not" };
                format!("{reason}; {} {is} merged", watch.pull_request)
            }
            (SessionOutcome::Complete, None) if unsubmitted => {
                format!("{reason}; nothing was submitted")
            }
            (_, _) => reason,
        };
        let open = self.0.tasks.open_here().len();
        let reason = if outcome == SessionOutcome::Complete && open > 0 {
            let is = if open == 1 { "is" } else { "are" };
            format!("{reason}; {} {is} still open", counted(open, "task"))
        } else {
            reason
        };
        let weaker = self.0.test_rules().summary();
        let is_new = |weaker: &String| {
            outcome != SessionOutcome::Cancelled && !reason.contains(weaker.as_str())
        };
        let reason = match weaker.filter(is_new) {
            Some(weaker) => format!("{reason}; {weaker}"),
            None => reason,
        };
        let looks = outcome == SessionOutcome::Complete && self.hooks_ran_since_the_checks();
        let late = match measured.filter(|_| looks) {
            Some(measured) => verification.change(measured),
            None if looks => return VerifyRules::measure(WorkChangedBy::Others),
            None => None,
        };
        let (iterations, checks) = (self.0.iterations.current, verification.outcomes());
        let ended = Event::Session(SessionEvent::Ended {
            outcome,
            iterations,
            reason,
            lines: None,
            files: Vec::new(),
            submittable: false,
            checks,
        });
        let left = self.0.pending.waiting_ids();
        let undelivered = (!left.is_empty()).then(|| Event::warning(undelivered(&left)));
        let step = late
            .as_ref()
            .and_then(changed_late)
            .into_iter()
            .chain(undelivered)
            .chain(self.0.steering.messages_left())
            .chain(self.0.side.hooks_left())
            .fold(EngineOutput::default(), EngineOutput::and)
            .and(ended);
        step.then(Effect::Leave(ExitReason::Ended))
    }
}
