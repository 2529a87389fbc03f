//! The subjects and headers of a session: the one place that knows their names.
//!
//! # Invariants
//! - A session's name, a kind and a prefix are plain, so no part of a subject holds a dot or a wildcard of somebody else's.

use crate::{
    engine::{event::CUSTOM, tasks::command::is_name},
    journal::outbox::RecordNaming,
};

/// The header with the session's id: what another program published has none.
pub const SESSION: &str = "Creel-Session";
/// The header of a part of a record that is too large for one message: `2/3`.
pub const PART: &str = "Creel-Part";
/// The header by which the server knows a message that it has.
pub const MESSAGE_ID: &str = "Nats-Msg-Id";
/// The header that lets a message in only if its subject has none yet.
pub const LAST_OF_SUBJECT: &str = "Nats-Expected-Last-Subject-Sequence";

/// The subjects of one session.
#[derive(Debug, Clone)]
pub struct SessionSubjects {
    prefix: String,
    session: String,
}

impl SessionSubjects {
    /// The subjects of the session of that name.
    pub fn new(prefix: &str, session: &str) -> Self {
        Self { prefix: prefix.to_owned(), session: session.to_owned() }
    }

    /// Where a record of that kind goes.
    pub fn event(&self, kind: &str) -> String {
        format!("{}.events.{}.{}", self.prefix, self.session, noun_verb(kind))
    }

    /// All records.
    pub fn events(&self) -> String {
        format!("{}.events.{}.>", self.prefix, self.session)
    }

    /// The first record.
    pub fn beginning(&self) -> String {
        self.event("session_started")
    }

    /// Where it hears of tasks that were completed elsewhere.
    pub fn completions(&self) -> String {
        self.event("task_completed")
    }

    /// Where tasks for others go.
    pub fn queue(&self) -> String {
        queue(&self.prefix)
    }

    /// Where it takes commands.
    pub fn commands(&self) -> String {
        format!("{}.commands.{}", self.prefix, self.session)
    }

    /// Where it tells what its hooks print, as long as somebody watches.
    pub fn live(&self) -> String {
        format!("{}.live.{}", self.prefix, self.session)
    }

    /// Where it hears that somebody does.
    pub fn watch(&self) -> String {
        format!("{}.watch.{}", self.prefix, self.session)
    }

    /// Whether a refusal is about these two.
    pub fn live_is_meant(&self, refusal: &str) -> bool {
        let refusal = refusal.to_lowercase();
        [self.live(), self.watch()].iter().any(|subject| refusal.contains(&format!("\"{}\"", subject.to_lowercase())))
    }
}

/// Whether a session's name, or its id, is one that creel gives: a subject, a header and a path can hold it.
pub fn is_plain(name: &str) -> bool {
    is_name(name)
}

/// The records of all sessions.
pub fn all_events(prefix: &str) -> String {
    format!("{prefix}.events.>")
}

/// What the subjects of tasks for others begin with.
pub fn queue(prefix: &str) -> String {
    format!("{prefix}.queue.")
}

/// `task_completed` is `task.completed`. A kind of one word is the session's.
fn noun_verb(kind: &str) -> String {
    let plain = |text: &str| -> String {
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect()
    };
    if let Some(own) = kind.strip_prefix(CUSTOM) {
        return format!("custom.{}", plain(own));
    }
    let plain = plain(kind);
    match plain.rsplit_once('_') {
        Some((noun, verb)) if !noun.is_empty() && !verb.is_empty() => format!("{noun}.{verb}"),
        Some(_) | None => format!("session.{plain}"),
    }
}

/// What the server knows a message by.
pub fn message_id(names: RecordNaming, session: &str, id: &str, seq: u64, part: Option<usize>) -> String {
    let part = part.map(|part| format!(".{part}")).unwrap_or_default();
    match names {
        RecordNaming::Plain => format!("{session}:{seq}{part}"),
        RecordNaming::WithId => format!("{session}:{id}:{seq}{part}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_a_noun_and_a_verb() {
        let subjects = SessionSubjects::new("creel", "s");
        for (kind, subject) in [
            ("task_completed", "creel.events.s.task.completed"),
            ("custom.deploy_started", "creel.events.s.custom.deploy_started"),
            ("custom.deploy.*", "creel.events.s.custom.deploy--"),
            ("hook_finished", "creel.events.s.hook.finished"),
            ("retry_limit_reached", "creel.events.s.retry_limit.reached"),
            ("paused", "creel.events.s.session.paused"),
            ("a.b > *_c", "creel.events.s.a-b----.c"),
        ] {
            assert_eq!(subjects.event(kind), subject);
        }
        assert_eq!(SessionSubjects::new("iteratr", "s").completions(), "iteratr.events.s.task.completed");
    }

    #[test]
    fn a_message_is_known_by_the_sessions_name_and_the_records_number() {
        assert_eq!(message_id(RecordNaming::Plain, "s", "1-a", 7, None), "s:7");
        assert_eq!(message_id(RecordNaming::Plain, "s", "1-a", 7, Some(2)), "s:7.2");
        assert_eq!(message_id(RecordNaming::WithId, "s", "1-a", 7, None), "s:1-a:7");
    }
}
