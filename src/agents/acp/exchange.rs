//! One request to an agent, and everything that the agent sends until it answers.
//!
//! Also owns the messages for the ways in which an agent can fail. [`crate::agents::failure`]
//! interprets the agent's own words.
//!
//! # Invariants
//! - Everything that the agent sent before its answer is forwarded before the answer counts.
//! - Text is forwarded in chunks that are neither tiny nor late.

use std::time::Duration;

use agent_client_protocol::{
    Error,
    v1::schema::{self as s, SessionId},
};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    AcpAgent, TurnAbortReason,
    connection::AcpProcessExit,
    reader::{ChunkKind, TextChunk},
    service::AcpServices,
    terminals::TerminalEvent,
};
use crate::{
    agents::{
        AgentObserver,
        acp::connection::{AcpConnection, AcpEvent, AcpServiceRequest},
        failure, limited,
    },
    engine::{
        conversation::{AgentUpdate, TurnFailure},
        time::TimeSpan,
    },
    process::{run::ProcessEnd, secrets},
};

/// How many events to process at once.
const BATCH: usize = 32;
/// Text is forwarded once there are this many bytes …
const PIECE: usize = 4 << 10;
/// … or once it is this old, or at the end of a line.
const PIECE_AGE: Duration = Duration::from_millis(50);
/// How long to wait for an answer after the agent closed its output.
const LAST_WORD: Duration = Duration::from_millis(500);
/// How long an agent that sent text between turns must be silent before the next turn begins …
const PAUSE: Duration = Duration::from_millis(50);
/// … and how many such pauses to wait for.
const PAUSES: usize = 20;
/// How long to wait for the rest of the output after the agent has ended.
const LAST_OUTPUT: Duration = Duration::from_millis(500);
/// Bytes of the answer that are stored to search for an error in them.
const KEPT_TEXT: usize = 64 << 10;

/// Whether the agent's updates are new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpdateOrigin {
    Live,
    /// The agent repeats an earlier conversation.
    Replay,
}

pub(super) enum AcpRequestError {
    Cancelled,
    TooLate,
    /// The agent is gone.
    Gone,
    Answered(Error),
}

/// One request to an agent, until it is answered.
pub(super) struct AcpExchange<'a> {
    pub(super) link: &'a mut AcpConnection,
    updates: &'a mut dyn AgentObserver,
    services: &'a mut AcpServices,
    listening: UpdateOrigin,
    /// Only updates of this conversation count. If None, all do.
    conversation: Option<SessionId>,
    pub(super) answer: AcpAnswer,
    held: Option<BufferedText>,
    /// Cancels open permission requests when the exchange ends.
    stop: CancellationToken,
    _end: DropGuard,
}

/// The agent's answer in a turn.
#[derive(Debug, Clone, Default)]
pub(super) struct AcpAnswer {
    /// Whether the agent sent any text.
    pub(super) anything: bool,
    /// The last message, or the end of a long one.
    pub(super) last: String,
    /// The agent's id for that message.
    message: Option<String>,
}

impl AcpAnswer {
    /// Something else happened, so the next text is a new message.
    fn interrupt(&mut self) {
        self.last.clear();
    }

    /// Adds a chunk. Returns whether it begins a new message.
    fn hear(&mut self, text: &str, message: Option<String>) -> MessageBoundary {
        let ended = self.message != message && !self.last.is_empty();
        let another = if ended && !self.last.ends_with('\n') {
            MessageBoundary::Begins
        } else {
            MessageBoundary::No
        };
        if ended {
            self.interrupt();
        }
        self.message = message;
        self.anything |= !text.trim().is_empty();
        self.last.push_str(text);
        if self.last.len() > 2 * KEPT_TEXT {
            let cut = self.last.ceil_char_boundary(self.last.len() - KEPT_TEXT);
            self.last.drain(..cut);
        }
        another
    }
}

/// Whether a message begins that needs a separator before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageBoundary {
    Begins,
    No,
}

struct BufferedText {
    kind: ChunkKind,
    text: String,
    since: Instant,
}

impl<'a> AcpExchange<'a> {
    pub(super) fn new(
        link: &'a mut AcpConnection,
        updates: &'a mut dyn AgentObserver,
        services: &'a mut AcpServices,
        listening: UpdateOrigin,
        conversation: Option<SessionId>,
    ) -> Self {
        let stop = CancellationToken::new();
        let (answer, held, end) = (AcpAnswer::default(), None, stop.clone().drop_guard());
        Self {
            link,
            updates,
            services,
            listening,
            conversation,
            answer,
            held,
            stop,
            _end: end,
        }
    }

    /// Waits for the answer, and forwards everything else meanwhile.
    pub(super) async fn until<T>(
        &mut self,
        answer: impl Future<Output = Result<T, Error>>,
        cancel: Option<&CancellationToken>,
        deadline: Option<Instant>,
    ) -> Result<T, AcpRequestError> {
        let mut answer = std::pin::pin!(answer);
        let mut batch = Vec::with_capacity(BATCH);
        let gone = self.link.gone.clone();
        let mut dead = None;
        loop {
            let stale = self.held.as_ref().map(|held| held.since + PIECE_AGE);
            tokio::select! {
                biased;
                () = cancelled(cancel) => return self.broken(AcpRequestError::Cancelled).await,
                () = at(deadline) => return self.broken(AcpRequestError::TooLate).await,
                () = at(stale) => self.pass_on().await,
                // A child of the agent can keep the output open indefinitely.
                () = at(dead), if !gone.is_cancelled() => gone.cancel(),
                () = self.link.companion.exited(), if dead.is_none() => dead = Some(Instant::now() + LAST_OUTPUT),
                _ = self.link.events.recv_many(&mut batch, BATCH) => self.take_in(&mut batch).await,
                answered = &mut answer => return self.answered(answered).await,
                () = gone.cancelled() => {
                    let last = timeout(LAST_WORD, &mut answer).await;
                    self.drain().await;
                    return match last {
                        Ok(answered) => self.answered(answered).await,
                        Err(_) => self.broken(AcpRequestError::Gone).await,
                    };
                }
            }
        }
    }

    async fn answered<T>(&mut self, answered: Result<T, Error>) -> Result<T, AcpRequestError> {
        self.drain().await;
        answered.map_err(AcpRequestError::Answered)
    }

    async fn broken<T>(&mut self, broken: AcpRequestError) -> Result<T, AcpRequestError> {
        self.drain().await;
        Err(broken)
    }

    /// Forwards everything that the agent has sent so far.
    async fn drain(&mut self) {
        let mut batch = Vec::new();
        while let Ok(one) = self.link.events.try_recv() {
            batch.push(one);
        }
        self.take_in(&mut batch).await;
        self.pass_on().await;
    }

    /// Begins a turn. Permission requests and questions since the last turn are handled in this
    /// one.
    pub(super) async fn begin_turn(&mut self) {
        let mut asked = self.forget_the_past().await;
        self.services.next_turn();
        self.link.attention.turn_to();
        self.take_in(&mut asked).await;
    }

    /// Begins another conversation. Permission requests and questions from the last one are
    /// cancelled.
    pub(super) async fn leave_the_past(&mut self) {
        let mut asked = self.forget_the_past().await;
        self.link.attention.turn_to();
        self.unask();
        self.take_in(&mut asked).await;
    }

    /// Drops text since the last turn, because it is not part of this one. Serves other requests,
    /// but returns permission requests and questions to the caller. Waits a while for an agent that still sends
    /// text.
    async fn forget_the_past(&mut self) -> Vec<AcpEvent> {
        let (mut before, mut asked) = (0, Vec::new());
        for _ in 0..PAUSES {
            let (mut texts, mut batch) = (0, Vec::new());
            while let Ok(one) = self.link.events.try_recv() {
                match one {
                    AcpEvent::Text(_) => texts += 1,
                    request @ AcpEvent::Permission(..) => asked.push(request),
                    AcpEvent::Wants(wanted) if matches!(*wanted, AcpServiceRequest::Ask(..)) => {
                        asked.push(AcpEvent::Wants(wanted));
                    }
                    other @ (AcpEvent::Update { .. }
                    | AcpEvent::Wants(_)
                    | AcpEvent::Decided(_)
                    | AcpEvent::Terminal(_)) => {
                        batch.push(other);
                    }
                }
            }
            self.take_in(&mut batch).await;
            let missed = self.link.attention.missed();
            if texts == 0 && missed == before {
                break;
            }
            before = missed;
            sleep(PAUSE).await;
        }
        asked
    }

    /// Whether the agent made a tool call in this turn.
    pub(super) fn has_calls(&self) -> bool {
        self.services.book.has_calls()
    }

    /// Processes events until the agent has been silent for this long.
    pub(super) async fn until_quiet(&mut self, silence: Duration, at_most: Duration) {
        let end = Instant::now() + at_most;
        let mut batch = Vec::with_capacity(BATCH);
        while Instant::now() < end
            && timeout(silence, self.link.events.recv_many(&mut batch, BATCH))
                .await
                .is_ok()
        {
            self.take_in(&mut batch).await;
        }
    }

    /// Cancels open and future permission requests.
    pub(super) fn unask(&self) {
        self.stop.cancel();
    }

    async fn take_in(&mut self, batch: &mut Vec<AcpEvent>) {
        for one in batch.drain(..) {
            match one {
                AcpEvent::Text(chunk) => self.hear(chunk).await,
                other @ (AcpEvent::Update { .. }
                | AcpEvent::Permission(..)
                | AcpEvent::Wants(_)
                | AcpEvent::Decided(_)
                | AcpEvent::Terminal(_)) => {
                    self.pass_on().await;
                    self.happened(other).await;
                }
            }
        }
    }

    async fn hear(&mut self, chunk: TextChunk) {
        if chunk.text.is_empty()
            || self.listening == UpdateOrigin::Replay
            || self.is_foreign(&chunk.session)
        {
            return;
        }
        if self
            .held
            .as_ref()
            .is_some_and(|held| held.kind != chunk.kind)
        {
            self.pass_on().await;
        }
        let mut text = chunk.text;
        // The text alone does not show where one message ends and the next begins.
        if chunk.kind == ChunkKind::Message
            && self.answer.hear(&text, chunk.message) == MessageBoundary::Begins
        {
            text.insert_str(0, "\n\n");
        }
        let held = self.held.get_or_insert_with(|| BufferedText {
            kind: chunk.kind,
            text: String::new(),
            since: Instant::now(),
        });
        held.text.push_str(&text);
        if held.text.len() >= PIECE || held.text.ends_with('\n') {
            self.pass_on().await;
        }
    }

    async fn pass_on(&mut self) {
        let Some(held) = self.held.take() else { return };
        self.updates
            .update(match held.kind {
                ChunkKind::Message => AgentUpdate::Message(held.text),
                ChunkKind::Thought => AgentUpdate::Thought(held.text),
            })
            .await;
    }

    fn is_foreign(&self, session: &str) -> bool {
        self.conversation
            .as_ref()
            .is_some_and(|own| &*own.0 != session)
    }

    async fn happened(&mut self, what: AcpEvent) {
        match what {
            AcpEvent::Text(_) => {}
            AcpEvent::Update { session, .. } if self.is_foreign(&session) => {}
            // The options are as they are now, not as they were.
            AcpEvent::Update { update, .. }
                if self.listening == UpdateOrigin::Replay
                    && update["sessionUpdate"] != "config_option_update" => {}
            AcpEvent::Update { update, .. } => {
                for update in self.services.book.update(&update) {
                    match &update {
                        AgentUpdate::Message(text) => drop(self.answer.hear(text, None)),
                        AgentUpdate::ToolCalled(_) => self.answer.interrupt(),
                        AgentUpdate::Thought(_)
                        | AgentUpdate::ToolUpdated(_)
                        | AgentUpdate::Planned(_)
                        | AgentUpdate::Used(_)
                        | AgentUpdate::Opened(_)
                        | AgentUpdate::Noted { .. }
                        | AgentUpdate::Warned(_) => {}
                    }
                    self.updates.update(update).await;
                }
            }
            AcpEvent::Terminal(TerminalEvent::Started(group)) => self.updates.process(group),
            AcpEvent::Terminal(TerminalEvent::Ended(call)) => {
                self.updates.update(AgentUpdate::ToolUpdated(call)).await;
            }
            AcpEvent::Permission(request, responder) => {
                self.services
                    .ask(*request, responder, self.updates, &self.stop)
                    .await;
            }
            AcpEvent::Wants(wanted) => {
                self.services
                    .serve(*wanted, self.updates, &self.link.hear, &self.stop)
                    .await;
            }
            AcpEvent::Decided(decided) => {
                self.services
                    .carry_out(*decided, self.updates, &self.link.hear)
                    .await;
            }
        }
    }
}

async fn cancelled(cancel: Option<&CancellationToken>) {
    match cancel {
        Some(cancel) => cancel.cancelled().await,
        None => std::future::pending().await,
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The protocol's error code for an agent that needs a login first.
const AUTH_REQUIRED: i32 = -32000;

impl AcpAgent {
    /// Why the agent did not do what creel asked for.
    pub(super) async fn why_not(
        &self,
        link: &mut AcpConnection,
        broken: AcpRequestError,
        what: &str,
        hello: Option<&s::InitializeResponse>,
    ) -> TurnAbortReason {
        match broken {
            AcpRequestError::Cancelled => TurnAbortReason::Cancelled,
            AcpRequestError::TooLate => TurnAbortReason::TooLate,
            AcpRequestError::Gone => {
                TurnAbortReason::Failed(self.death(&link.obituary().await, what))
            }
            AcpRequestError::Answered(error) if link.gone.is_cancelled() || is_hung_up(&error) => {
                TurnAbortReason::Failed(self.death(&link.obituary().await, what))
            }
            AcpRequestError::Answered(error) => {
                let methods = hello.map(login_methods).unwrap_or_default();
                TurnAbortReason::Failed(self.refusal(&error, what, &link.complaints(), &methods))
            }
        }
    }

    /// The agent started, but does not answer.
    pub(super) fn silence(&self, waited: Duration) -> TurnFailure {
        TurnFailure::new(format!(
            "the agent started but did not answer within {}. Run `{}` by hand to see why, and check that this command \
             speaks the Agent Client Protocol",
            TimeSpan::from(waited),
            self.command
        ))
    }

    /// The agent speaks another version of the protocol.
    pub(super) fn stranger(&self, hello: &s::InitializeResponse) -> TurnFailure {
        let install = self
            .known
            .install
            .as_ref()
            .map(|how| format!(" ({how})"))
            .unwrap_or_default();
        TurnFailure::new(format!(
            "the agent speaks version {} of the Agent Client Protocol, but creel speaks version 1. Install a version \
             of the agent that speaks version 1{install}",
            hello.protocol_version
        ))
    }

    fn refusal(&self, error: &Error, what: &str, complaints: &str, methods: &str) -> TurnFailure {
        if i32::from(error.code) == AUTH_REQUIRED {
            let how = self.known.login.clone().unwrap_or_else(|| match methods {
                "" => format!(
                    "start `{}` by hand and follow its instructions",
                    self.command
                ),
                methods => format!("with the agent's own program, which offers: {methods}"),
            });
            return TurnFailure::new(format!(
                "the agent needs a login. Log in ({how}), then resume the session ({})",
                words(error)
            ));
        }
        let text = match (words(error), complaints) {
            (text, "") => text,
            // A short error gets the end of the agent's standard error too, which can explain it.
            (text, complaints) if text.len() < 40 => format!("{text}\n{complaints}"),
            (text, _) => text,
        };
        failure::explain(&format!("the agent {what}"), &text, &self.known)
    }

    /// The agent ended unexpectedly.
    fn death(&self, obituary: &AcpProcessExit, what: &str) -> TurnFailure {
        let text = obituary.last_words();
        let how = match &obituary.end {
            Some(ProcessEnd::Exit(127)) => {
                return failure::not_installed(
                    "the agent was not found",
                    &self.command,
                    text,
                    &self.known,
                );
            }
            Some(ProcessEnd::Exit(0)) => "ended by itself".to_owned(),
            // The shell reports a signal this way.
            Some(ProcessEnd::Exit(code @ 129..160)) => {
                format!("was killed by signal {}", code - 128)
            }
            Some(ProcessEnd::Exit(code)) => format!("ended with exit {code}"),
            Some(ProcessEnd::Signal(signal)) => format!("was killed by signal {signal}"),
            Some(ProcessEnd::SpawnFailed(why)) => why.clone(),
            Some(ProcessEnd::TimedOut | ProcessEnd::Cancelled) | None => {
                "closed its output".to_owned()
            }
        };
        failure::explain(&format!("the agent {what}: it {how}"), text, &self.known)
    }
}

pub(super) fn wrong_mode(mode: &str, error: &Error) -> TurnFailure {
    TurnFailure::new(format!(
        "the agent does not accept the mode `{mode}`, so creel did not send the prompt. Change `mode` in the config to \
         a mode of this agent ({})",
        words(error)
    ))
}

/// The turn timed out before the agent sent or did anything.
pub(super) fn not_a_word(waited: TimeSpan) -> TurnFailure {
    let message = format!(
        "the agent sent no output within {waited} (turn_timeout), so creel stopped it. The model's server may be down \
         or refuse requests, and many agents retry without a message. See creel's log for the agent's error output, or \
         raise turn_timeout until the agent reports the error itself"
    );
    TurnFailure {
        silent: true,
        ..TurnFailure::new(message)
    }
}

/// The part of standard error after `before`. Only the end of it is stored, so `before` can be
/// gone.
pub(super) fn newer(before: &str, now: String) -> String {
    now.strip_prefix(before).map(str::to_owned).unwrap_or(now)
}

/// Whether the connection broke, as opposed to an error that the agent sent.
pub(super) fn is_hung_up(error: &Error) -> bool {
    error
        .data
        .as_ref()
        .is_some_and(|data| data["reason"] == "connection_terminated")
}

/// An error's text with its code, for which some agents use the server's HTTP status.
pub(super) fn words(error: &Error) -> String {
    let number = i32::from(error.code);
    let status = if (100..600).contains(&number) {
        format!("{number} ")
    } else {
        String::new()
    };
    let data = match &error.data {
        None | Some(serde_json::Value::Null) => String::new(),
        Some(serde_json::Value::String(text)) => text.clone(),
        // Some agents put the reason into one field among many.
        Some(data) => match ["details", "message", "error"]
            .into_iter()
            .find_map(|name| data[name].as_str())
        {
            Some(reason) => reason.to_owned(),
            None => limited(&data.to_string(), 300),
        },
    };
    let more = if data.is_empty() || data == error.message {
        String::new()
    } else {
        format!(": {data}")
    };
    let words = format!("{status}{}{more}", error.message);
    secrets::masked(&words).into_owned()
}

pub(super) fn login_methods(hello: &s::InitializeResponse) -> String {
    hello
        .auth_methods
        .iter()
        .map(|method| method.name().to_owned())
        .collect::<Vec<_>>()
        .join(", ")
}
