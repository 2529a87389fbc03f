//! Sends requests to a session on another machine.
//!
//! # Invariants
//! - A request that was reported as not sent is not sent later.
//! - A command does not run after its client timed out: see [`super::deadline`].

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_nats::{Client, HeaderMap, Request as Message, RequestErrorKind, connection::State};
use jiff::tz::TimeZone;

use super::subject::{SESSION, SessionSubjects};
use crate::{
    engine::time::TimeSpan,
    present::clock::time_with_seconds,
    protocol::{
        ClientKind, ReplyData, SessionQuery, SessionRequest, SessionRequestError,
        deadline::{SessionClock, TimedReply},
        request_line,
    },
    runtime::now,
};

/// How long to wait for the session's answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often to check that the connection still exists while waiting for an answer.
const LOOK: Duration = Duration::from_millis(250);

#[derive(Debug, Clone)]
pub struct NatsSessionClient {
    client: Client,
    subjects: SessionSubjects,
    session: String,
    /// Which of the sessions of that name, if known.
    id: Option<String>,
    /// The session's clock, as its last reply reported it.
    clock: Arc<Mutex<Option<SessionClock>>>,
}

impl NatsSessionClient {
    pub fn new(client: Client, prefix: &str, session: &str, id: Option<String>) -> Self {
        let (subjects, session) = (SessionSubjects::new(prefix, session), session.to_owned());
        Self {
            client,
            subjects,
            session,
            id,
            clock: Arc::default(),
        }
    }

    /// Sends a request and waits for the answer.
    pub async fn ask(
        &self,
        by: ClientKind,
        request: &SessionRequest,
    ) -> Result<Option<ReplyData>, SessionRequestError> {
        let deadline = match request {
            SessionRequest::Query(_) | SessionRequest::Watch(_) => None,
            SessionRequest::Command(_) => {
                // The first command of a connection must learn the session's clock. A creel that
                // does not report its clock does not know deadlines either.
                if self.known_clock().is_none() {
                    let status = SessionQuery::Status.into();
                    self.send(request_line(by, &status, None)).await?;
                }
                let clock = self.known_clock();
                clock.map(|clock| clock.deadline(Instant::now(), PATIENCE))
            }
        };
        let answer = self
            .send(request_line(by, request, deadline.as_deref()))
            .await?;
        answer.reply.outcome().map_err(SessionRequestError::Refused)
    }

    fn known_clock(&self) -> Option<SessionClock> {
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, line: String) -> Result<TimedReply, SessionRequestError> {
        let mut headers = HeaderMap::new();
        if let Some(id) = &self.id {
            headers.insert(SESSION, id.as_str());
        }
        let message = Message::new()
            .payload(line.trim_end().to_owned().into())
            .headers(headers);
        let unreachable = |cause| SessionRequestError::Unreachable {
            name: self.session.clone(),
            cause,
        };
        // The client would store the request until the server is back. By then the user may not
        // want it any more.
        if self.client.connection_state() != State::Connected {
            return Err(SessionRequestError::NotSent(
                "the connection to the server is lost".to_owned(),
            ));
        }
        let until = now().after(TimeSpan::from(PATIENCE));
        let answered = tokio::select! {
            answered = self.client.send_request(self.subjects.commands(), message.timeout(Some(PATIENCE))) => answered,
            () = self.disconnected() => {
                return Err(unreachable(io::Error::other(format!(
                    "the connection to the server was lost before the session answered. The session may have run the \
                     command, or may still run it until {}; check with `creel show`",
                    time_with_seconds(until, &TimeZone::system())
                ))));
            }
        };
        let answer = answered.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => SessionRequestError::NotRunning(self.session.clone()),
            RequestErrorKind::TimedOut => unreachable(io::Error::other(format!(
                "no answer within {}s. If the session has not run the command yet, it will not run it any more; check \
                 with `creel show`",
                PATIENCE.as_secs()
            ))),
            RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded => {
                SessionRequestError::NotSent(error.to_string())
            }
            RequestErrorKind::Other => unreachable(io::Error::other(error.to_string())),
        })?;
        let reply: TimedReply =
            serde_json::from_slice(&answer.payload).map_err(|error| unreachable(error.into()))?;
        if let Some(clock) = SessionClock::of(&reply, Instant::now()) {
            *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = Some(clock);
        }
        Ok(reply)
    }

    async fn disconnected(&self) {
        while self.client.connection_state() == State::Connected {
            tokio::time::sleep(LOOK).await;
        }
    }
}
