//! How the events of gates and retries change the state.

use std::collections::BTreeMap;

use crate::engine::{
    event::{Actor, FinalDeliveryMode, GateEvent, IterationOutcome, RetryEvent, SessionOutcome},
    gate::{
        Gate,
        kind::{GateChoice, GateKind},
    },
    hooks::{apply::hold_what_stop_hooks_piped, dispatch::DispatchQuestion},
    protect::apply::tampered_answered,
    retry::RetryWait,
    session::{
        SessionState,
        phase::{LoopEnd, Phase},
    },
    stop::apply::looked_at,
    submit::apply::pipeline_answered,
    time::{TimeSpan, UnixTime},
    turn::{DuePrompt, apply::set_turn_aside},
    usage_limit::apply::limit_answered_by_user,
};

pub(crate) fn apply_gate(session: &mut SessionState, at: UnixTime, event: &GateEvent) {
    match event {
        GateEvent::Opened { gate, about, reason, hook, run, items, ask, choices } => {
            session.gates.last = *gate;
            let (reason, hook, items, choices) = (reason.clone(), hook.clone(), items.clone(), choices.clone());
            // Journals of earlier versions do not name the run.
            let run = run.or_else(|| session.side.next_failure_of(hook.as_deref()?, *about));
            let (id, about, ask) = (*gate, *about, *ask);
            session.gates.open = Some(Gate { id, about, reason, hook, run, items, ask, choices, opened: at });
        }
        GateEvent::Answered { choice, by, .. } => gate_answered(session, at, *choice, by),
    }
}

pub(crate) fn gate_answered(session: &mut SessionState, at: UnixTime, choice: GateChoice, by: &Actor) {
    let Some(gate) = session.gates.open.take() else { return };
    let of_a_loop = session.phase.is_of_a_loop(&gate);
    if of_a_loop {
        session.stop.blocked = session.stop.escalated.take().map(|(_, task, _)| task).into_iter().collect();
    }
    let beside = session.side.asked(gate.run, choice);
    if gate.about == GateKind::Tampered {
        tampered_answered(session, choice);
    }
    let reason = || gate.reason.clone();
    if choice.leaves_the_loop() {
        set_turn_aside(session);
    }
    match choice {
        GateChoice::Abort => return session.phase.exit(SessionOutcome::Aborted, &reason()),
        GateChoice::Fail => return session.phase.exit(SessionOutcome::Failed, &reason()),
        GateChoice::Escalate => return session.phase.exit(SessionOutcome::Escalated, &reason()),
        GateChoice::Complete => {
            hold_what_stop_hooks_piped(session);
            session.phase = Phase::Exit(LoopEnd::offering(SessionOutcome::Complete, "accepted by a person"));
            return;
        }
        GateChoice::Stop => return budget_stopped(session, by, &gate),
        GateChoice::Approve
        | GateChoice::Skip
        | GateChoice::Continue
        | GateChoice::Send
        | GateChoice::Message
        | GateChoice::Ignore
        | GateChoice::Disable
        | GateChoice::Retry
        | GateChoice::Wait
        | GateChoice::Switch
        | GateChoice::Leave
        | GateChoice::AllowOnce
        | GateChoice::AllowAlways
        | GateChoice::RejectOnce
        | GateChoice::RejectAlways
        | GateChoice::Cancel => {}
    }
    match gate.about {
        GateKind::FinalDelivery => {
            // Not the items added while the gate was open: the user has not seen those.
            let approved = session.pending.waiting_ids().into_iter().filter(|id| gate.items.contains(id)).collect();
            if let Some(ending) = &mut session.ending {
                ending.approved = Some(approved);
                ending.seen = gate.items;
            }
        }
        GateKind::Delivery => {
            if let Phase::Hooks(dispatch) = &mut session.phase {
                dispatch.seen = gate.items;
            }
        }
        GateKind::RetryLimit => limit_answered(session, choice, &gate.reason),
        GateKind::Escalation if matches!(session.phase, Phase::Escalated(_)) => {
            session.phase = Phase::Between;
            looked_at(session);
        }
        GateKind::Escalation if of_a_loop => looked_at(session),
        GateKind::Escalation => session.phase.ask_once(DispatchQuestion::Escalation),
        GateKind::Errors => session.retry.errors = 0,
        GateKind::BrokenHook if beside => {}
        GateKind::BrokenHook => session.phase.broken_answered(choice, gate.hook.as_deref()),
        GateKind::Permission if choice == GateChoice::Cancel => session.asks.waiting.clear(),
        GateKind::Permission => {
            let agent = session.permissions().asking_agent().to_owned();
            session.asks.answered(choice, &agent);
        }
        GateKind::UsageLimit => limit_answered_by_user(session, at, choice),
        GateKind::Budget => session.account.grant(&session.began.plan.budget),
        // Settled above, whatever the answer.
        GateKind::Tampered => {}
        GateKind::Submit | GateKind::Merge => pipeline_answered(session, choice, by, &gate),
    }
}

pub(crate) fn limit_answered(session: &mut SessionState, choice: GateChoice, reason: &str) {
    match choice {
        GateChoice::Ignore => {
            session.iterations.forced_past = Some(reason.to_owned());
            session.unsettled.accept_protected();
            hold_what_stop_hooks_piped(session);
            session.phase = Phase::Settled(IterationOutcome::Forced);
        }
        GateChoice::Send | GateChoice::Message => {
            hold_what_stop_hooks_piped(session);
            session.phase = Phase::Due(DuePrompt::Message);
        }
        GateChoice::Continue => {
            grant_retries(session);
            session.phase.forget_limit();
        }
        // Without the hook the turn is judged again.
        GateChoice::Disable => session.phase.forget_limit(),
        GateChoice::Approve
        | GateChoice::Skip
        | GateChoice::Retry
        | GateChoice::Wait
        | GateChoice::Switch
        | GateChoice::Complete
        | GateChoice::Escalate
        | GateChoice::Fail
        | GateChoice::Stop
        | GateChoice::Leave
        | GateChoice::AllowOnce
        | GateChoice::AllowAlways
        | GateChoice::RejectOnce
        | GateChoice::RejectAlways
        | GateChoice::Cancel
        | GateChoice::Abort => {}
    }
}

pub(crate) fn apply_retry(session: &mut SessionState, event: &RetryEvent) {
    match event {
        RetryEvent::Counted { used, limit, .. } => retry_counted(session, *used, *limit),
        RetryEvent::LimitReached { limit, .. } => {
            session.retry.applies = Some(*limit);
            session.phase.ask_once(DispatchQuestion::Limit);
        }
        RetryEvent::BackoffStarted { until, wait_ms } => {
            session.retry.wait = RetryWait::Until(*until);
            session.retry.last_wait = *wait_ms;
        }
    }
}

pub(crate) fn retry_counted(session: &mut SessionState, used: u32, limit: u32) {
    let feedback =
        if let Phase::Hooks(dispatch) = &session.phase { session.retries().feedback(dispatch) } else { None };
    session.retry.used = used;
    session.retry.applies = Some(limit);
    let Some(feedback) = feedback else { return };
    session.retry.count_retries(&feedback);
    session.retry.last_feedback = Some(feedback.text.clone());
    session.retry.last_usual = Some(feedback.usual);
    session.retry.wait = RetryWait::Due { nth: used, at_least: TimeSpan::default() };
    session.phase = Phase::Due(DuePrompt::Feedback(feedback.text));
}

/// The user continues: each limit that was reached is granted again.
pub(crate) fn grant_retries(session: &mut SessionState) {
    let max = session.plan().max_hook_retries;
    let feedback =
        if let Phase::Hooks(dispatch) = &session.phase { session.retries().feedback(dispatch) } else { None };
    let own: BTreeMap<String, u32> = feedback
        .iter()
        .flat_map(|feedback| &feedback.blocked)
        .filter(|hook| session.retries().own_limit(hook).is_some_and(|limit| limit <= session.retry.used))
        .filter_map(|hook| Some((hook.clone(), session.retries().own_retries(hook)?)))
        .collect();
    if own.is_empty() || session.retry.limit(max) <= session.retry.used {
        session.retry.grant(max);
    }
    for (hook, retries) in own {
        let known = session.retry.by_hook.entry(hook).or_default();
        // At least one, or the grant would have no effect.
        known.granted = known.granted.saturating_add(retries.max(1));
    }
    session.retry.applies = None;
}

/// An actor answered `stop` at the gate. A submit or a merge is left as it is. A loop that is still running ends
/// here; after the loop, only the end of the session is left.
pub(crate) fn budget_stopped(session: &mut SessionState, by: &Actor, gate: &Gate) {
    if let Some(ending) = &mut session.ending {
        ending.delivery = FinalDeliveryMode::No;
    }
    if let Some(course) = &mut session.pipelines.course {
        course.left = Some((by.clone(), gate.reason.clone()));
    } else if session.ending.is_some() {
        session.phase = Phase::Delivering;
    } else {
        session.phase = Phase::Exit(LoopEnd::undelivered(SessionOutcome::Limit, &gate.reason));
    }
}
