//! Commands by NATS: a client sends requests to a session on another machine, and the session
//! receives them, together with reports of tasks that other programs completed.
//!
//! # Invariants
//! - A command has the same effect and the same reply as on the control socket.
//! - A command does not run after its client timed out: see [`check_deadline`]. A request
//!   that was reported as not sent is not sent later.
//! - A completion counts once, however often it is published: the session knows which tasks were
//!   completed. One that was published while the server was unreachable is read from the stream.
//! - A session ignores its own records.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::{Duration, Instant},
};

use async_nats::{
    Client, HeaderMap, Message, Request, RequestErrorKind, Subject, Subscriber, connection::State,
};
use futures_core::Stream as _;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    engine::{
        event::ActorKind,
        input::SessionCommand,
        refusal::Refusal,
        tasks::command::{TaskCommand, TaskCompletion, TaskRefusal},
        time::{TimeSpan, UnixTime},
    },
    nats::{
        connection::NatsError,
        stream::{NatsStream, header},
        subject::{SESSION, SessionSubjects},
    },
    present::{refusals, text::time_with_seconds},
    protocol::{
        ClientKind, DeadlineRefusal, LONGEST_REQUEST, ReplyData, RequestError, RequestRefusal,
        SessionClock, SessionQuery, SessionReply, SessionRequest, SessionRequestError, TimedReply,
        check_deadline, read_request, request_line,
    },
    runtime::{SessionHandle, now},
    socket::session_mirror::{QueryHandle, RequestOutcome, answer},
};

/// How many unreadable completions cause a warning. A program that floods the session with them
/// must not fill the journal.
const WARNINGS: usize = 10;

pub(super) struct CommandListener {
    subjects: SessionSubjects,
    id: String,
    /// When the session began: it ignores completions before that.
    since: UnixTime,
    handle: SessionHandle,
    /// Which stream was read, and up to which message.
    read: (String, u64),
    unreadable: usize,
}

/// A task that another program completed. Programs use different names for the same field, or
/// several at once.
#[derive(Debug, Deserialize)]
struct ExternalCompletion {
    task_id: Option<Value>,
    id: Option<Value>,
    content: Option<Value>,
    goal: Option<Value>,
    result: Option<Value>,
}

impl CommandListener {
    pub(super) fn new(
        subjects: SessionSubjects,
        id: String,
        since: UnixTime,
        handle: SessionHandle,
    ) -> Self {
        Self {
            subjects,
            id,
            since,
            handle,
            read: (String::new(), 0),
            unreadable: 0,
        }
    }

    /// Listens until the connection is of no more use.
    pub(super) async fn listen(
        &mut self,
        client: &Client,
        store: &NatsStream,
        query_handle: &QueryHandle,
    ) -> NatsError {
        match self.hear(client, store, query_handle).await {
            Ok(()) => NatsError("the connection was lost".to_owned()),
            Err(error) => error,
        }
    }

    async fn hear(
        &mut self,
        client: &Client,
        store: &NatsStream,
        query_handle: &QueryHandle,
    ) -> Result<(), NatsError> {
        let cannot =
            |error: async_nats::SubscribeError| NatsError(format!("cannot subscribe: {error}"));
        let mut commands = client
            .subscribe(self.subjects.commands())
            .await
            .map_err(cannot)?;
        let mut completions = client
            .subscribe(self.subjects.completions())
            .await
            .map_err(cannot)?;
        self.look_back(store).await?;
        loop {
            tokio::select! {
                asked = next(&mut commands) => match asked {
                    Some(asked) => self.answer(client, query_handle, asked).await?,
                    None => return Ok(()),
                },
                completion = next(&mut completions) => match completion {
                    Some(completion) => self.completed(completion.headers.as_ref(), &completion.payload).await,
                    None => return Ok(()),
                },
            }
        }
    }

    /// Reads the completions that were published while the session was not connected.
    async fn look_back(&mut self, store: &NatsStream) -> Result<(), NatsError> {
        let subject = self.subjects.completions();
        if self.read.0 != store.made {
            self.read = (store.made.clone(), 0);
        }
        while let Some(message) = store.next_of(&subject, self.read.1 + 1).await? {
            self.read.1 = message.sequence;
            let when =
                i64::try_from(message.time.unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX);
            if when >= self.since.0 {
                self.completed(Some(&message.headers), &message.payload)
                    .await;
            }
        }
        Ok(())
    }

    async fn answer(
        &self,
        client: &Client,
        query_handle: &QueryHandle,
        asked: Message,
    ) -> Result<(), NatsError> {
        // Two sessions can have the same name. The id says which one is asked.
        let meant = asked
            .headers
            .as_ref()
            .and_then(|headers| header(headers, SESSION));
        if meant.is_some_and(|id| id != self.id) {
            return Ok(());
        }
        if let Err(late) = check_deadline(&asked.payload, now()) {
            return say(client, asked.reply, late.reply(), late.refusal()).await;
        }
        let read = if asked.payload.len() > LONGEST_REQUEST {
            Err(RequestError::TooLong)
        } else {
            read_request(&asked.payload)
        };
        let (caller, request) = match read {
            Ok(read) => read,
            Err(why) => {
                return say(
                    client,
                    asked.reply,
                    SessionReply::refused(&why.into()),
                    None,
                )
                .await;
            }
        };
        if request.is_of_agent_hook() {
            // That hook runs where the agent does.
            let refused = SessionReply::refused(&Refusal::NotTheAgent.into());
            return say(client, asked.reply, refused, None).await;
        }
        let (client, query_handle, handle, events) = (
            client.clone(),
            query_handle.clone(),
            self.handle.clone(),
            self.subjects.events(),
        );
        let (lasts, actor) = (request.waits_for_judgement(), caller.over_nats(&self.id));
        let answering = async move {
            let reply = match answer(&handle, &query_handle, actor, request).await {
                RequestOutcome::Reply(reply) => reply,
                RequestOutcome::Watch(..) => {
                    SessionReply::refused(&RequestRefusal::NoWatchOverNats(events))
                }
            };
            say(&client, asked.reply, reply, None).await
        };
        if lasts {
            // Other requests must not wait for this one.
            drop(tokio::spawn(answering));
            return Ok(());
        }
        answering.await
    }

    async fn completed(&mut self, headers: Option<&HeaderMap>, payload: &[u8]) {
        if headers.is_some_and(|headers| header(headers, SESSION).is_some()) {
            return;
        }
        let why = match completion(payload) {
            Err(why) => why.to_string(),
            Ok(completion) => {
                let command = SessionCommand::Task {
                    task: TaskCommand::Complete(completion),
                };
                match self.handle.command(ActorKind::Nats, command).await {
                    Ok(()) | Err(Refusal::Task(TaskRefusal::CompletedBefore(_))) => return,
                    Err(why) => refusals::text(&why),
                }
            }
        };
        self.unreadable += 1;
        match self.unreadable {
            ..WARNINGS => self.handle.warn(format!("creel does not understand a completed task from NATS: {why}")),
            WARNINGS => self.handle.warn(format!(
                "creel does not understand a completed task from NATS: {why}; more of these are only in creel's log"
            )),
            _ => tracing::warn!("creel does not understand a completed task from NATS: {why}"),
        }
    }
}

/// Why a message of another program reports no completed task.
#[derive(Debug, thiserror::Error)]
enum ExternalCompletionError {
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
    #[error("it names no task: `task_id` is missing, or is not text")]
    NoTask,
    #[error("the name of its task has characters that creel cannot show")]
    UnprintableName,
}

/// Parses the completion that another program published.
fn completion(payload: &[u8]) -> Result<TaskCompletion, ExternalCompletionError> {
    let ExternalCompletion {
        task_id,
        id,
        content,
        goal,
        result,
    } = serde_json::from_slice(payload)?;
    let id = match task_id.or(id) {
        Some(Value::String(id)) => id,
        Some(Value::Number(id)) => id.to_string(),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => {
            return Err(ExternalCompletionError::NoTask);
        }
    };
    if id.chars().any(char::is_control) {
        return Err(ExternalCompletionError::UnprintableName);
    }
    Ok(TaskCompletion {
        id,
        content: content.or(goal).and_then(text),
        result: result.and_then(text),
        artifacts: Vec::new(),
    })
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Some(value.to_string())
        }
    }
}

/// Sends the reply, if the client asked for one.
async fn say(
    client: &Client,
    to: Option<Subject>,
    reply: SessionReply,
    refusal: Option<DeadlineRefusal>,
) -> Result<(), NatsError> {
    let Some(to) = to else { return Ok(()) };
    let most = client.server_info().max_payload;
    let json = |reply| TimedReply::at(reply, refusal, now()).to_json();
    let mut line = json(reply);
    if line.len() > most {
        let length = line.len();
        line = json(SessionReply::refused(&RequestRefusal::ReplyTooLong {
            length,
            most,
        }));
    }
    let sent = client.publish(to, line.into()).await;
    sent.map_err(|error| NatsError(format!("cannot answer: {error}")))
}

/// The next message. `None` if the subscription is closed.
pub async fn next(subscriber: &mut Subscriber) -> Option<Message> {
    std::future::poll_fn(|context| -> Poll<Option<Message>> {
        Pin::new(&mut *subscriber).poll_next(context)
    })
    .await
}

/// How long to wait for the session's answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often to check that the connection still exists while waiting for an answer.
const LOOK: Duration = Duration::from_millis(250);

/// Requests over a NATS server, to a session on any machine.
/// [`crate::sessions::session_client`] is the client that uses it.
#[derive(Debug, Clone)]
pub struct NatsTransport {
    client: Client,
    subjects: SessionSubjects,
    session: String,
    /// Which of the sessions of that name, if known.
    id: Option<String>,
    /// The session's clock, as its last reply reported it.
    clock: Arc<Mutex<Option<SessionClock>>>,
}

impl NatsTransport {
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

    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
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
        let message = Request::new()
            .payload(line.trim_end().to_owned().into())
            .headers(headers);
        let unanswered = |cause| SessionRequestError::Unanswered {
            name: self.session.clone(),
            cause,
        };
        // The client would store the request until the server is back. By then the user may not
        // want it any more.
        if !self.is_connected() {
            return Err(SessionRequestError::NotSent(
                "the connection to the server is lost".to_owned(),
            ));
        }
        let until = now().after(TimeSpan::from(PATIENCE));
        let answered = tokio::select! {
            answered = self.client.send_request(self.subjects.commands(), message.timeout(Some(PATIENCE))) => answered,
            () = self.disconnected() => {
                return Err(unanswered(io::Error::other(format!(
                    "the connection to the server was lost before the session answered. The session may have run the \
                     command, or may still run it until {}; check with `creel show`",
                    time_with_seconds(until, &TimeZone::system())
                ))));
            }
        };
        let answer = answered.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => SessionRequestError::NotRunning(self.session.clone()),
            RequestErrorKind::TimedOut => unanswered(io::Error::other(format!(
                "no answer within {}s. If the session has not run the command yet, it will not run it any more; check \
                 with `creel show`",
                PATIENCE.as_secs()
            ))),
            RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded => {
                SessionRequestError::NotSent(error.to_string())
            }
            RequestErrorKind::Other => unanswered(io::Error::other(error.to_string())),
        })?;
        let reply: TimedReply =
            serde_json::from_slice(&answer.payload).map_err(|error| unanswered(error.into()))?;
        if let Some(clock) = SessionClock::of(&reply, Instant::now()) {
            *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = Some(clock);
        }
        Ok(reply)
    }

    async fn disconnected(&self) {
        while self.is_connected() {
            tokio::time::sleep(LOOK).await;
        }
    }
}
