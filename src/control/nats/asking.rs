//! Asks a session that runs on another machine.
//!
//! # Invariants
//! - What was told not to have been sent is not sent later.

use std::{io, time::Duration};

use async_nats::{Client, HeaderMap, Request as Message, RequestErrorKind, connection::State};

use super::subject::{SESSION, Subjects};
use crate::control::socket::{
    client::AskError,
    message::{Asker, Reply, Request, Told, ask},
};

/// How long a session may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A session on another machine, as it is asked.
#[derive(Debug, Clone)]
pub struct Asking {
    client: Client,
    subjects: Subjects,
    session: String,
    /// Which of those that had the name, if that is known.
    id: Option<String>,
}

impl Asking {
    /// The session of that name.
    pub fn new(client: Client, prefix: &str, session: &str, id: Option<String>) -> Self {
        Self { client, subjects: Subjects::new(prefix, session), session: session.to_owned(), id }
    }

    /// Asks, and waits for the answer.
    pub async fn ask(&self, by: Asker, request: &Request) -> Result<Option<Told>, AskError> {
        let mut headers = HeaderMap::new();
        if let Some(id) = &self.id {
            headers.insert(SESSION, id.as_str());
        }
        let line = ask(by, request).trim_end().to_owned();
        let message = Message::new().payload(line.into()).headers(headers).timeout(Some(PATIENCE));
        let unreachable = |cause| AskError::Unreachable { name: self.session.clone(), cause };
        // The client would keep it until the server is back, and by then nobody may want it any more.
        if self.client.connection_state() != State::Connected {
            return Err(AskError::Refused("the connection to the server is lost; nothing was sent".to_owned()));
        }
        let answered = self.client.send_request(self.subjects.commands(), message).await;
        let answer = answered.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => AskError::NotRunning(self.session.clone()),
            RequestErrorKind::TimedOut => {
                unreachable(io::Error::other("no answer came; whether it was done, its records tell"))
            }
            RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded => {
                AskError::Refused(format!("{error}; nothing was sent"))
            }
            RequestErrorKind::Other => unreachable(io::Error::other(error.to_string())),
        })?;
        let reply: Reply = serde_json::from_slice(&answer.payload).map_err(|error| unreachable(error.into()))?;
        reply.outcome().map_err(AskError::Refused)
    }
}
