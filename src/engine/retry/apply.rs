//! Stores the counters of retries, and the feedback that is sent next.

use crate::engine::{
    event::RetryEvent,
    hooks::dispatch::DispatchQuestion,
    retry::RetryWait,
    session::{SessionState, phase::Phase},
    turn::DuePrompt,
};

pub(crate) fn apply_retry(session: &mut SessionState, event: &RetryEvent) {
    match event {
        RetryEvent::Counted {
            used,
            limit,
            feedback,
            ..
        } => {
            session.retry.used = *used;
            session.retry.applies = Some(*limit);
            if let Some(feedback) = feedback {
                session.retry.feedback_due(*used, feedback);
                session.phase = Phase::Due(DuePrompt::Feedback(feedback.text.clone()));
            }
        }
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
