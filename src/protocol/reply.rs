//! Replies to requests: data, or why a request was refused or not answered.

use std::io;

use serde::{Deserialize, Serialize};

use super::{
    deadline::DeadlineError,
    request::{LONGEST_REQUEST, RequestError, VERSION, line},
    view::{
        CheckpointView, GateView, HookView, ItemView, JudgementView, LoopView, StatusView,
        StopHookView,
    },
};
use crate::{
    engine::{
        event::{Event, StopEvent, TaskEvent},
        refusal::Refusal,
    },
    present::{refusals, task_view::TaskView},
};

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub enum RequestRefusal {
    #[error("{}", refusals::text(.0))]
    Session(Refusal),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("a request has at most {LONGEST_REQUEST} bytes; the session closed the connection")]
    LineTooLong,
    #[error(transparent)]
    Deadline(#[from] DeadlineError),
    /// The query names a loop that does not exist.
    #[error("there is no iteration {0}")]
    NoSuchLoop(String),
    #[error("this session belongs to another user")]
    OtherUser,
    #[error("all {0} connections of this session are busy; try again")]
    TooManyClients(usize),
    #[error("too many clients watch this session (the limit is {0})")]
    TooManyWatchers(usize),
    #[error("cannot read the journal: {0}")]
    JournalUnreadable(io::Error),
    #[error("NATS does not send records here: read them from the stream, under {0}")]
    NoWatchOverNats(String),
    #[error(
        "the answer is too large ({length} B; the NATS server allows {most} B); ask on the session's machine"
    )]
    ReplyTooLong { length: usize, most: usize },
}

impl RequestRefusal {
    /// The stable name of the reason, for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Session(refusal) => refusal.code(),
            Self::Request(error) => error.code(),
            Self::LineTooLong => "request_too_long",
            Self::Deadline(error) => error.code(),
            Self::NoSuchLoop(_) => "no_such_loop",
            Self::OtherUser => "other_user",
            Self::TooManyClients(_) => "too_many_clients",
            Self::TooManyWatchers(_) => "too_many_watchers",
            Self::JournalUnreadable(_) => "journal_unreadable",
            Self::NoWatchOverNats(_) => "no_watch_over_nats",
            Self::ReplyTooLong { .. } => "reply_too_long",
        }
    }
}

impl From<Refusal> for RequestRefusal {
    fn from(refusal: Refusal) -> Self {
        Self::Session(refusal)
    }
}

/// A refusal as a client receives it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct RefusedRequest {
    /// The stable name of the reason. An older creel does not send it.
    pub code: Option<String>,
    /// The reason, for people.
    pub text: String,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionRequestError {
    /// No process runs the session.
    #[error("session `{0}` is not running")]
    NotRunning(String),
    /// A process runs the session, but it does not answer.
    #[error("session `{name}` is running, but creel cannot reach it: {cause}")]
    Unreachable { name: String, cause: io::Error },
    #[error(transparent)]
    Refused(RefusedRequest),
    /// The request did not leave this machine.
    #[error("{0}; nothing was sent")]
    NotSent(String),
    /// The session ended before it answered.
    #[error("session `{0}` ended before it answered")]
    Ended(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionReply {
    /// The version of the protocol.
    pub v: u32,
    /// Whether it was done.
    pub ok: bool,
    /// Why not, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why not, for programs: the text may change, the code does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub data: Option<ReplyData>,
}

/// The data of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyData {
    Status(Box<StatusView>),
    Items(Vec<ItemView>),
    Item(Box<ItemView>),
    Gates(Vec<GateView>),
    Hooks(Vec<HookView>),
    Tasks(Vec<TaskView>),
    Task(Box<TaskView>),
    /// The name of the task that was added.
    Added(String),
    /// The stop hooks that were registered.
    StopHooks(Vec<StopHookView>),
    /// How many stop hooks were removed.
    Cleared(usize),
    AgentLoop(Box<LoopView>),
    Judged(Box<JudgementView>),
    Checkpoints(Vec<CheckpointView>),
}

impl SessionReply {
    /// It was done.
    pub const fn done() -> Self {
        Self {
            v: VERSION,
            ok: true,
            error: None,
            code: None,
            data: None,
        }
    }

    /// The reply to a command that recorded these events.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the reply to other commands has no data"
    )]
    pub fn recorded<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let data = events.into_iter().filter_map(|event| match event {
            Event::Task(TaskEvent::Created(created)) => {
                Some(ReplyData::Added(created.task.clone()))
            }
            Event::Stop(StopEvent::HooksCleared { hooks, .. }) => {
                Some(ReplyData::Cleared(hooks.len()))
            }
            _ => None,
        });
        data.last().map_or(Self::done(), Self::with)
    }

    pub fn with(data: ReplyData) -> Self {
        Self {
            data: Some(data),
            ..Self::done()
        }
    }

    pub fn refused(why: &RequestRefusal) -> Self {
        Self {
            ok: false,
            error: Some(why.to_string()),
            code: Some(why.code().into()),
            ..Self::done()
        }
    }

    pub fn outcome(self) -> Result<Option<ReplyData>, RefusedRequest> {
        if self.ok {
            return Ok(self.data);
        }
        let text = self
            .error
            .unwrap_or_else(|| "the session gave no reason".into());
        Err(RefusedRequest {
            code: self.code,
            text,
        })
    }

    /// The reply as a line, with its newline.
    pub fn to_line(&self) -> String {
        line(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_read_as_they_are_documented() {
        assert_eq!(SessionReply::done().to_line(), "{\"v\":1,\"ok\":true}\n");
        let refused = SessionReply::refused(&Refusal::NotPaused.into());
        let line = r#"{"v":1,"ok":false,"error":"the session is not paused","code":"not_paused"}"#;
        assert_eq!(refused.to_line(), format!("{line}\n"));
        let (code, text) = (
            Some("not_paused".to_owned()),
            "the session is not paused".to_owned(),
        );
        assert_eq!(refused.outcome(), Err(RefusedRequest { code, text }));
        let gates = SessionReply::with(ReplyData::Gates(Vec::new()));
        assert_eq!(gates.to_line(), "{\"v\":1,\"ok\":true,\"gates\":[]}\n");
        assert_eq!(
            serde_json::from_str::<SessionReply>(&gates.to_line()).expect("a reply"),
            gates
        );
        assert_eq!(
            serde_json::from_str::<SessionReply>(&SessionReply::done().to_line()).expect("a reply"),
            SessionReply::done()
        );
    }
}
