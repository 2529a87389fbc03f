//! The subjects and headers that creel uses. No other file spells their names.
//!
//! # Invariants
//! - Session names, event kinds and prefixes are plain names, so no part of a subject can add a dot
//!   or a wildcard.

use crate::{
    engine::{event::CUSTOM, tasks::command::is_name},
    journal::outbox::RecordNaming,
};

/// The header with the session's id. Messages of other programs have none.
pub const SESSION: &str = "Creel-Session";
/// The header of a part of a record that is too large for one message: `2/3`.
pub const PART: &str = "Creel-Part";
/// The header by which the server recognises a message that it already has.
pub const MESSAGE_ID: &str = "Nats-Msg-Id";
/// The header that makes the server refuse a message unless the last one of its subject has this
/// sequence number. `0`: the subject has none.
pub const LAST_OF_SUBJECT: &str = "Nats-Expected-Last-Subject-Sequence";

#[derive(Debug, Clone)]
pub struct SessionSubjects {
    prefix: String,
    session: String,
}

impl SessionSubjects {
    pub fn new(prefix: &str, session: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            session: session.to_owned(),
        }
    }

    /// The subject of a record of that kind.
    pub fn event(&self, kind: &str) -> String {
        format!(
            "{}.events.{}.{}",
            self.prefix,
            self.session,
            noun_verb(kind)
        )
    }

    /// All records of the session.
    pub fn events(&self) -> String {
        format!("{}.events.{}.>", self.prefix, self.session)
    }

    /// The first record.
    pub fn beginning(&self) -> String {
        self.event("session_started")
    }

    /// Where the session receives completions from other programs.
    pub fn completions(&self) -> String {
        self.event("task_completed")
    }

    /// The prefix of the subjects of queued tasks.
    pub fn queue(&self) -> String {
        queue(&self.prefix)
    }

    /// Where the session receives commands.
    pub fn commands(&self) -> String {
        format!("{}.commands.{}", self.prefix, self.session)
    }

    /// Where the session publishes the output of running hooks while a viewer watches.
    pub fn live(&self) -> String {
        format!("{}.live.{}", self.prefix, self.session)
    }

    /// Where viewers report that they watch.
    pub fn watch(&self) -> String {
        format!("{}.watch.{}", self.prefix, self.session)
    }

    /// Whether a refusal of the server concerns [`Self::live`] or [`Self::watch`].
    pub fn live_is_meant(&self, refusal: &str) -> bool {
        let refusal = refusal.to_lowercase();
        [self.live(), self.watch()]
            .iter()
            .any(|subject| refusal.contains(&format!("\"{}\"", subject.to_lowercase())))
    }
}

/// Whether creel could have made this name or id. Such a name is safe in a subject, a header and a
/// path.
pub fn is_plain(name: &str) -> bool {
    is_name(name)
}

/// The records of all sessions.
pub fn all_events(prefix: &str) -> String {
    format!("{prefix}.events.>")
}

/// The prefix of the subjects of queued tasks.
pub fn queue(prefix: &str) -> String {
    format!("{prefix}.queue.")
}

/// `task_completed` becomes `task.completed`. A kind of one word gets the noun `session`.
fn noun_verb(kind: &str) -> String {
    let plain = |text: &str| -> String {
        text.chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '_' {
                    c
                } else {
                    '-'
                }
            })
            .collect()
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

/// The id by which the server recognises a duplicate.
pub fn message_id(
    names: RecordNaming,
    session: &str,
    id: &str,
    seq: u64,
    part: Option<usize>,
) -> String {
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
            (
                "custom.deploy_started",
                "creel.events.s.custom.deploy_started",
            ),
            ("custom.deploy.*", "creel.events.s.custom.deploy--"),
            ("hook_finished", "creel.events.s.hook.finished"),
            ("retry_limit_reached", "creel.events.s.retry_limit.reached"),
            ("paused", "creel.events.s.session.paused"),
            ("a.b > *_c", "creel.events.s.a-b----.c"),
        ] {
            assert_eq!(subjects.event(kind), subject);
        }
        assert_eq!(
            SessionSubjects::new("iteratr", "s").completions(),
            "iteratr.events.s.task.completed"
        );
    }

    #[test]
    fn a_message_is_known_by_the_sessions_name_and_the_records_number() {
        assert_eq!(message_id(RecordNaming::Plain, "s", "1-a", 7, None), "s:7");
        assert_eq!(
            message_id(RecordNaming::Plain, "s", "1-a", 7, Some(2)),
            "s:7.2"
        );
        assert_eq!(
            message_id(RecordNaming::WithId, "s", "1-a", 7, None),
            "s:1-a:7"
        );
    }
}
