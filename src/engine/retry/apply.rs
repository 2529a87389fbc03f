//! Stores the counters of retries, and the feedback that is sent next.

use crate::engine::{
    event::RetryEvent,
    hooks::dispatch::DispatchQuestion,
    retry::RetryWait,
    session::{SessionState, phase::Phase},
    time::TimeSpan,
    turn::DuePrompt,
};

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

fn retry_counted(session: &mut SessionState, used: u32, limit: u32) {
    let feedback = if let Phase::Hooks(dispatch) = &session.phase {
        session.retries().feedback(dispatch)
    } else {
        None
    };
    session.retry.used = used;
    session.retry.applies = Some(limit);
    let Some(feedback) = feedback else { return };
    session.retry.count_retries(&feedback);
    session.retry.last_feedback = Some(feedback.text.clone());
    session.retry.last_usual = Some(feedback.usual);
    session.retry.wait = RetryWait::Due {
        nth: used,
        at_least: TimeSpan::default(),
    };
    session.phase = Phase::Due(DuePrompt::Feedback(feedback.text));
}
