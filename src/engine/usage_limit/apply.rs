//! Applies the events of usage limits to the state.

use crate::engine::{
    budget::ConversationUsage,
    conversation::LimitCause,
    event::{LimitAction, LimitReached, UsageLimitEvent},
    gate::kind::UsageLimitAnswer,
    retry::RetryWait,
    session::SessionState,
    time::{TimeSpan, UnixTime},
    usage_limit::{NEVER, UsageLimitWait},
};

pub(crate) fn apply_usage_limit(session: &mut SessionState, at: UnixTime, event: &UsageLimitEvent) {
    match event {
        UsageLimitEvent::Reached(reached) | UsageLimitEvent::Outage(reached) => {
            limit_reached(session, at, reached);
        }
        UsageLimitEvent::AgentSwitched {
            from, to, until, ..
        } => {
            session
                .limits
                .resets
                .extend(until.map(|until| (from.clone(), until)));
            agent_switched(session, from, to);
        }
        UsageLimitEvent::WaitSkipped { .. } => wait_skipped(session, at),
    }
}

fn limit_reached(session: &mut SessionState, at: UnixTime, reached: &LimitReached) {
    let LimitReached {
        agent,
        resets_at,
        until,
        action,
        cause,
    } = reached;
    let changed = session
        .turns
        .work
        .as_deref()
        .is_some_and(|work| !work.files_modified.is_empty());
    session.limits.reached(*cause, changed);
    let without_credit = *cause == LimitCause::NoCredit;
    let back = if without_credit {
        at.after(NEVER)
    } else {
        resets_at.unwrap_or(*until).max(*until)
    };
    session.limits.resets.insert(agent.clone(), back);
    match action {
        LimitAction::Switch | LimitAction::Fail => {}
        LimitAction::Wait | LimitAction::Ask => {
            let needs_user = *action == LimitAction::Ask;
            let (agent, resets_at, until, cause) = (agent.clone(), *resets_at, *until, *cause);
            session.limits.hold = Some(UsageLimitWait {
                agent,
                resets_at,
                until,
                waits_for_user: needs_user,
                cause,
            });
            if !needs_user {
                session.limits.waited =
                    TimeSpan(session.limits.waited.0.saturating_add(until.since(at).0));
            }
            wait_for_reset(session, at);
        }
    }
}

fn wait_for_reset(session: &mut SessionState, at: UnixTime) {
    if let Some(hold) = &session.limits.hold {
        session.retry.wait = RetryWait::Until(hold.until);
        session.retry.last_wait = hold.until.since(at);
    }
}

pub(crate) fn agent_switched(session: &mut SessionState, from: &str, to: &str) {
    session.limits.stand_in = (to != session.plan().agent).then(|| to.to_owned());
    session.limits.hold = None;
    session.limits.handed_over = Some(from.to_owned());
    session.retry.wait = RetryWait::No;
    session.turns.is_begun = false;
    session.turns.first = None;
    session.turns.conversation = None;
    session.turns.opened_in = None;
    session.turns.context = None;
    session.account.conversation = ConversationUsage::default();
}

/// The user ended the wait. What is left of it was not waited for.
pub(crate) fn wait_skipped(session: &mut SessionState, at: UnixTime) {
    if let Some(hold) = session.limits.hold.take() {
        session.limits.waited = TimeSpan(
            session
                .limits
                .waited
                .0
                .saturating_sub(hold.until.since(at).0),
        );
    }
    session.retry.wait = RetryWait::No;
}

/// The user answered the gate. A switch of agents is a record of its own.
pub(crate) fn limit_answered_by_user(
    session: &mut SessionState,
    at: UnixTime,
    answer: UsageLimitAnswer,
) {
    match answer {
        // The user decided: the waits start anew.
        UsageLimitAnswer::Retry => {
            session.limits.waited = TimeSpan::default();
            wait_skipped(session, at);
        }
        UsageLimitAnswer::Wait | UsageLimitAnswer::Switch => {
            if let Some(hold) = &mut session.limits.hold {
                hold.waits_for_user = false;
                session.limits.waited = TimeSpan::default();
                wait_for_reset(session, at);
            }
        }
    }
}
