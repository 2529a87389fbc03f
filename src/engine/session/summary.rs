//! Facts about a session that other modules put into words.

use crate::engine::{event::SessionOutcome, session::SessionState};

impl SessionOutcome {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Forced => "forced",
            Self::Unverified => "unverified",
            Self::Limit => "limit",
            Self::Escalated => "escalated",
            Self::Aborted => "aborted",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl SessionState {
    /// What an agent that drives itself has to mend before it can complete the session. None while
    /// the checks run, and if none of them is red.
    pub fn completion_refused(&self) -> Option<&str> {
        let decided = self.plan().is_led_from_outside() && !self.commands().is_being_completed();
        self.verify
            .feedback
            .as_ref()
            .filter(|_| decided)
            .map(|feedback| feedback.text.as_str())
    }
}
