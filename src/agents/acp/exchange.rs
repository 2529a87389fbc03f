//! What happens while an agent is asked for something: it talks, it asks back, it may be cut short.
//!
//! # Invariants
//! - What was said before an answer is passed on before the answer counts.
//! - Text is passed on in pieces that are neither tiny nor late.

use std::time::Duration;

use agent_client_protocol::{Error, v1::schema::SessionId};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    reader::{ChunkKind, TextChunk},
    service::AcpServices,
    terminals::TerminalEvent,
};
use crate::{
    agents::{
        AgentObserver,
        acp::connection::{AcpConnection, AcpEvent},
    },
    engine::conversation::AgentUpdate,
};

/// How many things are looked at in one go.
const BATCH: usize = 64;
/// Text is passed on when there is so much of it …
const PIECE: usize = 4 << 10;
/// … or when it is so old, or at the end of a line.
const PIECE_AGE: Duration = Duration::from_millis(50);
/// How long an answer may be under way after the agent closed its output.
const LAST_WORD: Duration = Duration::from_millis(500);
/// How long an agent that talked between turns has to be silent before the next one begins …
const PAUSE: Duration = Duration::from_millis(50);
/// … and how many such pauses it is given.
const PAUSES: usize = 20;
/// How long the output of an agent that has ended may be under way.
const LAST_OUTPUT: Duration = Duration::from_millis(500);
/// How much of what was said is kept to look for an error in disguise.
const HEARD_MAX: usize = 64 << 10;

/// Whether what is said is news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpdateOrigin {
    /// It is.
    Live,
    /// It was said before, and is only repeated.
    Replay,
}

/// Why there is no answer.
pub(super) enum AcpRequestError {
    Cancelled,
    TooLate,
    /// The agent is gone.
    Gone,
    /// The answer is an error.
    Answered(Error),
}

/// One thing that an agent is asked for, until it is answered.
pub(super) struct AcpExchange<'a> {
    pub(super) link: &'a mut AcpConnection,
    updates: &'a mut dyn AgentObserver,
    services: &'a mut AcpServices,
    listening: UpdateOrigin,
    /// The conversation that counts; before there is one, all do.
    conversation: Option<SessionId>,
    /// What the agent said so far.
    pub(super) heard: AcpAnswer,
    held: Option<BufferedText>,
    /// Requests for leave end with the stage.
    stop: CancellationToken,
    _end: DropGuard,
}

/// What an agent said in a turn.
#[derive(Debug, Clone, Default)]
pub(super) struct AcpAnswer {
    /// Whether it said anything.
    pub(super) anything: bool,
    /// The last message; of a long one, the end.
    pub(super) last: String,
    /// The agent's name for that message.
    message: Option<String>,
}

impl AcpAnswer {
    /// Something else happened: what comes is another message.
    fn interrupt(&mut self) {
        self.last.clear();
    }

    /// Takes in a piece, and says whether a message before it has ended.
    fn hear(&mut self, text: &str, message: Option<String>) -> MessageBoundary {
        let ended = self.message != message && !self.last.is_empty();
        let another = if ended && !self.last.ends_with('\n') { MessageBoundary::Begins } else { MessageBoundary::No };
        if ended {
            self.interrupt();
        }
        self.message = message;
        self.anything |= !text.trim().is_empty();
        self.last.push_str(text);
        if self.last.len() > 2 * HEARD_MAX {
            let cut = self.last.ceil_char_boundary(self.last.len() - HEARD_MAX);
            self.last.drain(..cut);
        }
        another
    }
}

/// Whether a message begins that has to be set apart.
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
        let (heard, held, end) = (AcpAnswer::default(), None, stop.clone().drop_guard());
        Self { link, updates, services, listening, conversation, heard, held, stop, _end: end }
    }

    /// Waits for the answer, and passes on what happens meanwhile.
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
                // A child of it may hold its output open for as long as it likes.
                () = at(dead), if !gone.is_cancelled() => gone.cancel(),
                () = self.link.companion.exited(), if dead.is_none() => dead = Some(Instant::now() + LAST_OUTPUT),
                _ = self.link.heard.recv_many(&mut batch, BATCH) => self.take_in(&mut batch).await,
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

    /// Everything that was said so far.
    async fn drain(&mut self) {
        let mut batch = Vec::new();
        while let Ok(one) = self.link.heard.try_recv() {
            batch.push(one);
        }
        self.take_in(&mut batch).await;
        self.pass_on().await;
    }

    /// A turn begins. What was asked since the last one is answered in it.
    pub(super) async fn begin_turn(&mut self) {
        let mut asked = self.forget_the_past().await;
        self.services.next_turn();
        self.link.attention.turn_to();
        self.take_in(&mut asked).await;
    }

    /// Another conversation begins. Nobody is asked any more for what was asked in the last one.
    pub(super) async fn leave_the_past(&mut self) {
        let mut asked = self.forget_the_past().await;
        self.link.attention.turn_to();
        self.unask();
        self.take_in(&mut asked).await;
    }

    /// What was said since the last turn is no part of this one; what was asked for is done all the same, but for requests for
    /// leave: those are given back. An agent that still talks is waited for, a while.
    async fn forget_the_past(&mut self) -> Vec<AcpEvent> {
        let (mut before, mut asked) = (0, Vec::new());
        for _ in 0..PAUSES {
            let (mut said, mut batch) = (0, Vec::new());
            while let Ok(one) = self.link.heard.try_recv() {
                match one {
                    AcpEvent::Text(_) => said += 1,
                    request @ AcpEvent::Permission(..) => asked.push(request),
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
            if said == 0 && missed == before {
                break;
            }
            before = missed;
            sleep(PAUSE).await;
        }
        asked
    }

    /// Whether the agent did something in this turn.
    pub(super) fn has_calls(&self) -> bool {
        self.services.book.has_calls()
    }

    /// Hears the agent out until it has been silent for so long.
    pub(super) async fn until_quiet(&mut self, silence: Duration, at_most: Duration) {
        let end = Instant::now() + at_most;
        let mut batch = Vec::with_capacity(BATCH);
        while Instant::now() < end && timeout(silence, self.link.heard.recv_many(&mut batch, BATCH)).await.is_ok() {
            self.take_in(&mut batch).await;
        }
    }

    /// Open requests for leave are answered as cancelled, and so are further ones.
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
        if chunk.text.is_empty() || self.listening == UpdateOrigin::Replay || self.is_foreign(&chunk.session) {
            return;
        }
        if self.held.as_ref().is_some_and(|held| held.kind != chunk.kind) {
            self.pass_on().await;
        }
        let mut text = chunk.text;
        // Where one message ends and the next begins, the text alone does not say.
        if chunk.kind == ChunkKind::Said && self.heard.hear(&text, chunk.message) == MessageBoundary::Begins {
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
                ChunkKind::Said => AgentUpdate::Said(held.text),
                ChunkKind::Thought => AgentUpdate::Thought(held.text),
            })
            .await;
    }

    fn is_foreign(&self, session: &str) -> bool {
        self.conversation.as_ref().is_some_and(|own| &*own.0 != session)
    }

    async fn happened(&mut self, what: AcpEvent) {
        match what {
            AcpEvent::Text(_) => {}
            AcpEvent::Update { session, .. } if self.listening == UpdateOrigin::Replay || self.is_foreign(&session) => {
            }
            AcpEvent::Update { update, .. } => {
                if let Some(update) = self.services.book.update(&update) {
                    match &update {
                        AgentUpdate::Said(text) => drop(self.heard.hear(text, None)),
                        AgentUpdate::ToolCalled(_) => self.heard.interrupt(),
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
            AcpEvent::Terminal(TerminalEvent::Ended(call)) => self.updates.update(AgentUpdate::ToolUpdated(call)).await,
            AcpEvent::Permission(request, responder) => {
                self.services.ask(*request, responder, self.updates, &self.stop).await;
            }
            AcpEvent::Wants(wanted) => {
                self.services.serve(*wanted, self.updates, &self.link.hear, &self.stop).await;
            }
            AcpEvent::Decided(decided) => {
                self.services.carry_out(*decided, self.updates, &self.link.hear).await;
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
