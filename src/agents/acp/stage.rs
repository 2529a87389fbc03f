//! What happens while an agent is asked for something: it talks, it asks back, it may be cut short.
//!
//! # Invariants
//! - What was said before an answer is passed on before the answer counts.
//! - Text is passed on in pieces that are neither tiny nor late.

use std::time::Duration;

use agent_client_protocol::{Error, v1::schema::SessionId};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    link::{FromAgent, Link},
    reader::{Chunk, ChunkKind},
    service::Services,
    terminals::TerminalNews,
};
use crate::{agents::Updates, engine::conversation::AgentUpdate};

/// How many things are looked at in one go.
const BATCH: usize = 64;
/// Text is passed on when there is so much of it …
const PIECE: usize = 4 << 10;
/// … or when it is so old, or at the end of a line.
const PIECE_AGE: Duration = Duration::from_millis(50);
/// How long an answer may be under way after the agent closed its output.
const LAST_WORD: Duration = Duration::from_millis(500);
/// How much of what was said is kept to look for an error in disguise.
const HEARD_MAX: usize = 256 << 10;

/// Whether what is said is news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listening {
    /// It is.
    Live,
    /// It was said before, and is only repeated.
    Replay,
}

/// Why there is no answer.
pub(super) enum Broken {
    Cancelled,
    TooLate,
    /// The agent is gone.
    Gone,
    /// The answer is an error.
    Answered(Error),
}

/// One thing that an agent is asked for, until it is answered.
pub(super) struct Stage<'a> {
    pub(super) link: &'a mut Link,
    updates: &'a mut dyn Updates,
    services: &'a mut Services,
    listening: Listening,
    /// The conversation that counts; before there is one, all do.
    conversation: Option<SessionId>,
    /// What the agent said in its answer so far; of a long one, the end.
    pub(super) heard: String,
    held: Option<Held>,
    /// The message that was said last.
    message: Option<String>,
    /// Requests for leave end with the stage.
    stop: CancellationToken,
    _end: DropGuard,
}

struct Held {
    kind: ChunkKind,
    text: String,
    since: Instant,
}

impl<'a> Stage<'a> {
    pub(super) fn new(
        link: &'a mut Link,
        updates: &'a mut dyn Updates,
        services: &'a mut Services,
        listening: Listening,
        conversation: Option<SessionId>,
    ) -> Self {
        let stop = CancellationToken::new();
        let (heard, held, message, end) = (String::new(), None, None, stop.clone().drop_guard());
        Self { link, updates, services, listening, conversation, heard, held, message, stop, _end: end }
    }

    /// Waits for the answer, and passes on what happens meanwhile.
    pub(super) async fn until<T>(
        &mut self,
        answer: impl Future<Output = Result<T, Error>>,
        cancel: Option<&CancellationToken>,
        deadline: Option<Instant>,
    ) -> Result<T, Broken> {
        let mut answer = std::pin::pin!(answer);
        let mut batch = Vec::with_capacity(BATCH);
        let gone = self.link.gone.clone();
        loop {
            let stale = self.held.as_ref().map(|held| held.since + PIECE_AGE);
            tokio::select! {
                biased;
                () = cancelled(cancel) => return self.broken(Broken::Cancelled).await,
                () = at(deadline) => return self.broken(Broken::TooLate).await,
                () = at(stale) => self.pass_on().await,
                _ = self.link.heard.recv_many(&mut batch, BATCH) => self.take_in(&mut batch).await,
                answered = &mut answer => return self.answered(answered).await,
                () = gone.cancelled() => {
                    let last = timeout(LAST_WORD, &mut answer).await;
                    self.drain().await;
                    return match last {
                        Ok(answered) => self.answered(answered).await,
                        Err(_) => self.broken(Broken::Gone).await,
                    };
                }
            }
        }
    }

    async fn answered<T>(&mut self, answered: Result<T, Error>) -> Result<T, Broken> {
        self.drain().await;
        answered.map_err(Broken::Answered)
    }

    async fn broken<T>(&mut self, broken: Broken) -> Result<T, Broken> {
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

    /// What was said since the last turn is no part of this one; what was asked is answered all the same.
    pub(super) async fn forget_the_past(&mut self) {
        let mut batch = Vec::new();
        while let Ok(one) = self.link.heard.try_recv() {
            if !matches!(one, FromAgent::Text(_)) {
                batch.push(one);
            }
        }
        self.take_in(&mut batch).await;
    }

    /// Open requests for leave are answered as cancelled, and so are further ones.
    pub(super) fn unask(&self) {
        self.stop.cancel();
    }

    async fn take_in(&mut self, batch: &mut Vec<FromAgent>) {
        for one in batch.drain(..) {
            match one {
                FromAgent::Text(chunk) => self.hear(chunk).await,
                other => {
                    self.pass_on().await;
                    self.happened(other).await;
                }
            }
        }
    }

    async fn hear(&mut self, chunk: Chunk) {
        if self.listening == Listening::Replay || self.is_foreign(&chunk.session) {
            return;
        }
        if self.held.as_ref().is_some_and(|held| held.kind != chunk.kind) {
            self.pass_on().await;
        }
        let mut text = chunk.text;
        if chunk.kind == ChunkKind::Said {
            // Where one message ends and the next begins, the text alone does not say.
            let other = chunk.message.is_some() && chunk.message != self.message;
            if other && !self.heard.is_empty() && !self.heard.ends_with('\n') {
                text.insert_str(0, "\n\n");
            }
            self.message = chunk.message;
            self.remember(&text);
        }
        let held =
            self.held.get_or_insert_with(|| Held { kind: chunk.kind, text: String::new(), since: Instant::now() });
        held.text.push_str(&text);
        if held.text.len() >= PIECE || held.text.ends_with('\n') {
            self.pass_on().await;
        }
    }

    fn remember(&mut self, text: &str) {
        self.heard.push_str(text);
        if self.heard.len() > 2 * HEARD_MAX {
            let cut = self.heard.ceil_char_boundary(self.heard.len() - HEARD_MAX);
            self.heard.drain(..cut);
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

    async fn happened(&mut self, what: FromAgent) {
        match what {
            FromAgent::Text(_) => {}
            FromAgent::Update { session, .. } if self.listening == Listening::Replay || self.is_foreign(&session) => {}
            FromAgent::Update { update, .. } => {
                if let Some(update) = self.services.book.update(update) {
                    if let AgentUpdate::Said(text) = &update {
                        self.remember(&text.clone());
                    }
                    self.updates.update(update).await;
                }
            }
            FromAgent::Terminal(TerminalNews::Started(group)) => self.updates.process(group),
            FromAgent::Terminal(TerminalNews::Ended(call)) => self.updates.update(AgentUpdate::ToolUpdated(call)).await,
            FromAgent::Permission(request, responder) => {
                self.services.ask(request, responder, self.updates, &self.stop).await;
            }
            other => self.services.serve(other, self.updates, &self.link.hear).await,
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
