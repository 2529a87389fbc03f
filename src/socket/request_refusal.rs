//! Why a session does not do what a client asks: the engine's refusals, and those of the ways to
//! the session.

use std::io;

use super::message::{LONGEST, RequestError};
use crate::{engine::refusal::Refusal, nats::deadline::DeadlineError, present::refusals};

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub enum RequestRefusal {
    #[error("{}", refusals::text(.0))]
    Session(Refusal),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("a request has at most {LONGEST} bytes; the session closed the connection")]
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
