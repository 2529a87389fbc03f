//! Which hooks a change to a task makes due, decided once, before the change is recorded.

use crate::engine::{
    event::{ActorKind, TaskEvent},
    hooks::{self, point::HookPoint},
    session::SessionState,
    tasks::record::{ChangeOrigin, DueHooks, TaskRecordData},
};

pub(crate) fn due_hooks(session: &SessionState, event: &TaskEvent) -> DueHooks {
    let news = event.news();
    let follows = session.tasks.automation.follow_up_depth(event);
    let has_listener = |kind| !session.automation().hearing(kind).is_empty();
    let completed = matches!(news.what, TaskRecordData::Completed(_));
    DueHooks {
        depth: follows.unwrap_or_else(|| depth_of(session, news.origin)),
        automation: news.what.kind().is_some_and(has_listener),
        on_complete: completed
            && !hooks::due(session.plan(), &session.hooks, HookPoint::OnTaskComplete).is_empty(),
    }
}

/// How many changes led to a change, each made by a hook of the one before: as an action, as a step
/// of a workflow, or by a command that the hook ran.
fn depth_of(session: &SessionState, origin: &ChangeOrigin) -> u32 {
    let by_hook =
        origin.cause.is_none() && origin.step.is_none() && comes_from_a_hook(session, origin);
    let job = session
        .tasks
        .automation
        .current
        .as_ref()
        .filter(|_| origin.cause.is_some() || by_hook);
    let flow = origin.step.as_ref().and_then(|step| {
        session
            .tasks
            .flows
            .open
            .iter()
            .find(|flow| flow.id == step.flow)
    });
    let job = job.map(|job| job.raised.depth.saturating_add(1));
    let side = session
        .side
        .next_depth()
        .max(session.beside().next_depth_at_gate())
        .filter(|_| by_hook);
    job.or(flow.map(|flow| flow.depth)).max(side).unwrap_or(0)
}

/// Whether a hook made a change, or may have: while the agent is not working, a process of unknown
/// origin is more likely a hook's than a person's.
fn comes_from_a_hook(session: &SessionState, origin: &ChangeOrigin) -> bool {
    match origin.by.as_ref().map(|actor| actor.by) {
        Some(ActorKind::Hook) => true,
        Some(ActorKind::Agent | ActorKind::OtherSession | ActorKind::Cli | ActorKind::Mcp) => {
            session.phase.turn_in_flight().is_none()
        }
        Some(ActorKind::Tui | ActorKind::Nats | ActorKind::Policy | ActorKind::Timeout) | None => {
            false
        }
    }
}
