//! What follows from a record, decided once, before it is written.
//!
//! Which hooks a change to a task makes due, what an answer grants, and how a resumed session
//! continues depend on rules. The record contains the result, so that a later version with other
//! rules reads the same state back. The end of a turn ([`super::turn::AfterTurnRules`]) and the
//! judgement of a run ([`super::hooks::verdict`]) are recorded in the same way.

use crate::engine::{
    event::{Event, GateEvent, PipelineEvent, RetryEvent, SessionEvent, StopEvent, TurnEvent},
    gate::{
        grants::granted,
        proposal_rules::{EDITED, reason as proposal_reason},
    },
    output::EngineOutput,
    session::{SessionState, recovery::resume_decision},
    tasks::due::due_hooks,
    time::UnixTime,
};

/// Adds to each event what follows from it. An event is judged by the state that the events before
/// it lead to.
pub(crate) fn decided(
    state: &SessionState,
    now: UnixTime,
    mut output: EngineOutput,
) -> EngineOutput {
    let Some(last) = output.events.iter().rposition(has_consequences) else {
        return output;
    };
    let mut after: Option<SessionState> = None;
    for (at, event) in output.events.iter_mut().enumerate().take(last + 1) {
        decide_one(after.as_ref().unwrap_or(state), event);
        if at < last {
            after.get_or_insert_with(|| state.clone()).apply(now, event);
        }
    }
    output
}

fn has_consequences(event: &Event) -> bool {
    matches!(
        event,
        Event::Task(_)
            | Event::Gate(GateEvent::Answered { .. })
            | Event::Session(SessionEvent::Resumed { .. })
            | Event::Stop(StopEvent::Decided(_))
    )
}

fn decide_one(session: &SessionState, event: &mut Event) {
    if let Event::Task(event) = event {
        let due = due_hooks(session, event);
        event.set_due(Some(due));
    } else if let Event::Gate(GateEvent::Answered { choice, grants, .. }) = event {
        *grants = granted(session, *choice).map(Box::new);
    } else if let Event::Session(SessionEvent::Resumed {
        max_iterations,
        checkpoint,
        decision,
        ..
    }) = event
    {
        *decision = Some(resume_decision(session, *max_iterations, *checkpoint));
    } else if let Event::Stop(StopEvent::Decided(decided)) = event {
        decided.streaks = session.stop_rules().streaks(decided.of.as_deref());
    }
}

/// An event of an earlier version, with the decisions that it lacks, by today's rules. None if it
/// lacks none.
pub(crate) fn completed(session: &SessionState, event: &Event) -> Option<Event> {
    let lacks_one = matches!(
        event,
        Event::Gate(
            GateEvent::Answered { grants: None, .. }
                | GateEvent::ProposalEdited { reason: None, .. }
        ) | Event::Session(SessionEvent::Resumed { decision: None, .. })
            | Event::Turn(
                TurnEvent::Ended { next: None, .. } | TurnEvent::Failed { next: None, .. }
            )
            | Event::Retry(RetryEvent::Counted { feedback: None, .. })
            | Event::Pipeline(PipelineEvent::RemediationCounted { text: None, .. })
    ) || matches!(event, Event::Task(event) if event.news().origin.due.is_none())
        || matches!(event, Event::Stop(StopEvent::Decided(decided)) if decided.streaks.is_none());
    if !lacks_one {
        return None;
    }
    let mut event = event.clone();
    if let Event::Turn(TurnEvent::Ended {
        stop_reason, next, ..
    }) = &mut event
    {
        *next = session.after_turn().ended(*stop_reason);
    } else if let Event::Turn(TurnEvent::Failed {
        usage_limit, next, ..
    }) = &mut event
    {
        *next = session.after_turn().failed(*usage_limit);
    } else if let Event::Retry(RetryEvent::Counted { feedback, .. }) = &mut event {
        let dispatch = session.phase.dispatch();
        let due = dispatch.and_then(|dispatch| session.retries().feedback(dispatch));
        *feedback = due.map(|due| Box::new(due.into()));
    } else if let Event::Gate(GateEvent::ProposalEdited { tasks, reason, .. }) = &mut event {
        *reason = Some(proposal_reason(EDITED, tasks));
    } else if let Event::Pipeline(PipelineEvent::RemediationCounted { text, .. }) = &mut event {
        *text = session.pipeline().remediation();
    } else {
        decide_one(session, &mut event);
    }
    Some(event)
}
