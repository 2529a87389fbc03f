//! How long a session did not run: between its end or a kill, and the `creel resume`, `submit` or
//! `merge` that continued it. A fold over records.

use crate::engine::{
    event::{Event, PipelineEvent, SessionEvent},
    time::{TimeSpan, UnixTime},
};

#[derive(Debug, Clone, Default)]
pub struct IdleTime {
    /// The time of the last record.
    last: Option<UnixTime>,
    /// The time of the last record before that. Records that are written together have the same
    /// time.
    before: Option<UnixTime>,
    has_ended: bool,
    total: TimeSpan,
}

impl IdleTime {
    /// Counts a record.
    pub fn take(&mut self, at: UnixTime, event: &Event) {
        if self.last.is_none_or(|last| last < at) {
            self.before = self.last.replace(at);
        }
        let continues = matches!(event, Event::Session(SessionEvent::Resumed { .. }))
            || self.has_ended && matches!(event, Event::Pipeline(PipelineEvent::Started { .. }));
        if continues {
            let idle = self
                .before
                .map(|before| at.since(before))
                .unwrap_or_default();
            self.total = TimeSpan(self.total.0.saturating_add(idle.0));
        }
        self.has_ended = !continues
            && (self.has_ended || matches!(event, Event::Session(SessionEvent::Ended { .. })));
    }

    pub const fn total(&self) -> TimeSpan {
        self.total
    }

    /// How long the session ran from one moment to another.
    pub fn running(&self, from: UnixTime, to: UnixTime) -> TimeSpan {
        TimeSpan(to.since(from).0.saturating_sub(self.total.0))
    }
}
