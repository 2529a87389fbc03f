//! What clients and sessions say to each other, over the control socket and over NATS.
//!
//! Owns the words: requests, replies, live messages, views of a session, and the identity of a caller. Sends
//! nothing: see [`crate::socket`] and [`crate::nats`].

pub mod caller;
pub mod deadline;
mod live_message;
pub mod process_origin;
mod reply;
mod request;
pub mod view;

pub use caller::{CallerInfo, ClientKind};
pub use live_message::{HookOutputMessage, LiveMessage, NatsStatus};
pub use reply::{ReplyData, RequestRefusal, SessionReply, SessionRequestError};
pub use request::{
    ItemFilter, LONGEST_REQUEST, RequestError, SessionQuery, SessionRequest, WatchRequest,
    read_request, request_line,
};
