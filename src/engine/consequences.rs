//! What follows from a record, decided once, before it is written.
//!
//! Which hooks a change to a task makes due, what an answer grants, and how a resumed session
//! continues depend on rules. The record contains the result, so that a later version with other
//! rules reads the same state back. The end of a turn ([`super::turn::after`]) and the judgement of
//! a run ([`super::hooks::verdict`]) are recorded in the same way.

use crate::engine::{
    event::{Event, GateEvent, SessionEvent},
    gate::grants::granted,
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
    }
}
