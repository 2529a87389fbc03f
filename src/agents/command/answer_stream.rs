//! Forwards an answer to the session.
//!
//! Owns the limits of an answer, and the chunks in which it is forwarded. Does not know where it
//! comes from: see [`super::answer_reader`].
//!
//! # Invariants
//! - At most [`ANSWER_MAX`] of an answer is forwarded as it comes. All of a longer answer goes to a
//!   file, and its end is forwarded.
//! - The end of an answer is always in a file, also if the file with all of it is full.
//! - Updates other than text wait in a queue of at most [`BACKLOG_MAX`]. Further ones are dropped
//!   and counted.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{Instant, timeout_at},
};

use crate::{
    agents::{AgentObserver, AgentWorkspace},
    engine::{conversation::AgentUpdate, ids::TurnId},
    process::{
        output::{self, SpoolFile, TailBuffer},
        run::ProcessGroup,
        secrets,
    },
    text::StreamMask,
};

/// Bytes of an answer that are forwarded as they come.
pub const ANSWER_MAX: usize = 1024 * 1024;
/// Bytes at the end of a longer answer that are forwarded.
const ANSWER_END: usize = 16 * 1024;
/// Bytes at the end of an answer that are searched for errors.
const LAST: usize = 64 * 1024;
/// How many updates can wait for the session.
const BACKLOG_MAX: usize = 1000;
/// Text is forwarded once there are this many bytes …
const PIECE: usize = 4 * 1024;
/// … or once it is this old, or at the end of a line.
const PIECE_AGE: Duration = Duration::from_millis(50);

enum AnswerEvent {
    Started(ProcessGroup),
    Bytes(Vec<u8>),
    Update(AgentUpdate),
}

/// Queues what is to be forwarded. It must not block, because the process waits meanwhile.
pub(super) struct AnswerStream {
    pieces: UnboundedSender<AnswerEvent>,
    backlog: Arc<AtomicUsize>,
    /// How many updates were dropped.
    dropped: usize,
    /// The beginning of the answer, until it is clear whether a file is needed.
    begun: Vec<u8>,
    total: u64,
    end: TailBuffer,
    last: TailBuffer,
    mask: StreamMask,
    /// Whether a tool call came after the last text.
    acted: bool,
    path: PathBuf,
    name: String,
    spool: Option<SpoolFile>,
}

impl AnswerStream {
    pub(super) fn new(place: &AgentWorkspace, turn: TurnId) -> (Self, AnswerReceiver) {
        let (pieces, waiting) = unbounded_channel();
        let backlog = Arc::new(AtomicUsize::new(0));
        let path = place.session_dir.join(format!("outputs/turn-{turn}.log"));
        let stream = Self {
            pieces,
            backlog: backlog.clone(),
            dropped: 0,
            begun: Vec::new(),
            total: 0,
            end: TailBuffer::new(ANSWER_END),
            last: TailBuffer::new(LAST),
            mask: secrets::stream(),
            acted: false,
            name: output::path_from(&place.cwd, &path),
            path,
            spool: None,
        };
        (stream, AnswerReceiver { waiting, backlog })
    }

    pub(super) fn started(&mut self, group: ProcessGroup) {
        self.send(AnswerEvent::Started(group));
    }

    /// The end of the answer.
    pub(super) fn last(&self) -> Vec<u8> {
        let mut last = self.last.bytes();
        last.drain(..output::torn_start(&last));
        last
    }

    pub(super) fn tell(&mut self, update: AgentUpdate) {
        if let AgentUpdate::Message(text) = update {
            self.say(text.as_bytes());
            return;
        }
        if matches!(update, AgentUpdate::ToolCalled(_)) {
            self.end_text();
            self.acted = true;
        }
        if self.backlog.fetch_add(1, Ordering::Relaxed) < BACKLOG_MAX {
            self.send(AnswerEvent::Update(update));
        } else {
            self.backlog.fetch_sub(1, Ordering::Relaxed);
            self.dropped += 1;
        }
    }

    pub(super) fn say(&mut self, bytes: &[u8]) {
        let masked = self.mask.push(bytes).into_owned();
        self.say_masked(&masked);
    }

    /// No more text belongs to what was said so far.
    pub(super) fn end_text(&mut self) {
        let rest = self.mask.finish();
        self.say_masked(&rest);
    }

    fn say_masked(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        // The text before and after a tool call are two messages.
        if std::mem::take(&mut self.acted) && self.total > 0 {
            self.last.push(b"\n\n");
        }
        self.total += bytes.len() as u64;
        self.last.push(bytes);
        let (now, later) = bytes.split_at(bytes.len().min(ANSWER_MAX - self.begun.len()));
        if !now.is_empty() {
            self.begun.extend_from_slice(now);
            self.send(AnswerEvent::Bytes(now.to_vec()));
        }
        if !later.is_empty() {
            let spool = self.spool.get_or_insert_with(|| {
                output::remove_live_end(&self.path);
                let mut spool =
                    SpoolFile::new(self.path.clone(), self.name.clone(), output::FILE_CAP);
                spool.write(&self.begun);
                spool
            });
            spool.write(later);
            self.end.push(later);
            if spool.is_full()
                && let Err(error) = output::keep_live_end(&self.path, self.total, &self.end.bytes())
            {
                tracing::debug!("cannot write the end of {}: {error}", self.name);
            }
        }
    }

    fn send(&self, piece: AnswerEvent) {
        // The receiver is gone only if the turn is being dropped.
        let _ = self.pieces.send(piece);
    }

    /// Forwards the end of a long answer. Returns warnings about what is missing.
    pub(super) fn finish(self) -> Vec<String> {
        if self.spool.is_some() {
            output::remove_live_end(&self.path);
        }
        let missing = self.total - (self.begun.len() + self.end.len()) as u64;
        let whole = self.spool.as_ref().and_then(SpoolFile::whole_is_in);
        let mut end = self.end.bytes();
        let mut warnings = Vec::new();
        if missing > 0 {
            self.send(AnswerEvent::Bytes(
                format!("\n{}", output::marker(missing, 0, whole.as_deref())).into_bytes(),
            ));
            end.drain(..output::torn_start(&end));
            let whole = whole.map(|w| format!(" ({w})")).unwrap_or_default();
            warnings.push(format!(
                "the answer is too long to keep: creel omitted {missing} B of {} B{whole}",
                self.total
            ));
        }
        if !end.is_empty() {
            self.send(AnswerEvent::Bytes(end));
        }
        if self.dropped > 0 {
            warnings.push(format!(
                "creel omitted {} tool calls and thoughts: the agent sent them faster than creel could store them",
                self.dropped
            ));
        }
        warnings
    }
}

pub(super) struct AnswerReceiver {
    waiting: UnboundedReceiver<AnswerEvent>,
    backlog: Arc<AtomicUsize>,
}

impl AnswerReceiver {
    /// Forwards everything until the stream ends, text in chunks that are neither tiny nor late.
    pub(super) async fn pass_on(mut self, updates: &mut dyn AgentObserver) {
        let mut held: Vec<u8> = Vec::new();
        let mut since = Instant::now();
        loop {
            let next = if held.is_empty() {
                self.waiting.recv().await
            } else if let Ok(next) = timeout_at(since + PIECE_AGE, self.waiting.recv()).await {
                next
            } else {
                let whole = held.len() - output::torn_end(&held);
                say(held.drain(..whole), updates).await;
                // An incomplete character waits for the rest, however long that takes.
                since = Instant::now();
                continue;
            };
            match next {
                None => break,
                Some(AnswerEvent::Started(group)) => updates.process(group),
                Some(AnswerEvent::Update(update)) => {
                    self.backlog.fetch_sub(1, Ordering::Relaxed);
                    say(held.drain(..), updates).await;
                    updates.update(update).await;
                }
                Some(AnswerEvent::Bytes(bytes)) => {
                    if held.is_empty() {
                        since = Instant::now();
                    }
                    held.extend_from_slice(&bytes);
                    while let Some(ready) = ready(&held) {
                        say(held.drain(..ready), updates).await;
                    }
                }
            }
        }
        say(held.drain(..), updates).await;
    }
}

/// How many bytes to forward now: whole lines, or a full chunk.
fn ready(held: &[u8]) -> Option<usize> {
    let piece = &held[..held.len().min(PIECE)];
    match piece.iter().rposition(|b| *b == b'\n') {
        Some(line_end) => Some(line_end + 1),
        None if piece.len() == PIECE => Some(PIECE - output::torn_end(piece)),
        None => None,
    }
}

async fn say(bytes: impl Iterator<Item = u8>, updates: &mut dyn AgentObserver) {
    let bytes: Vec<u8> = bytes.collect();
    if !bytes.is_empty() {
        updates.update(AgentUpdate::Message(lossy(&bytes))).await;
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
