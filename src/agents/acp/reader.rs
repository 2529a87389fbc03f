//! Reads an agent's output line by line.
//!
//! Owns the way from bytes to messages. Updates are handled here; everything else goes to the
//! protocol library. Agents send updates by the hundred thousand, so they must cost little more
//! than reading them: text that arrived together is forwarded as one chunk.
//!
//! # Invariants
//! - Order is preserved: an update is forwarded before anything that the agent printed after it.
//! - A line that is not a message does no harm. It is stored to explain an error that follows. A
//!   message with half a character in it still counts, because the agent would wait forever for the
//!   answer to its request.
//! - Text between turns is dropped here. In a queue it would look like a part of the next turn.
//! - [`LINE_MAX`] bounds the memory.

use std::{
    borrow::Cow,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use agent_client_protocol::v1::schema as s;
use serde::Deserialize;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
};

use super::{
    connection::{AcpEvent, BACKLOG, PIPE},
    translate::{self, AcpConversation, EditPlaces},
};
use crate::{
    engine::{
        conversation::{AgentUpdate, PermissionOption, ToolCall, TurnUsage},
        policy::UsageScope,
    },
    process::{output::TailBuffer, reply_scan::mended, secrets},
    text::StreamMask,
};

/// The longest message in bytes. An agent that prints a longer line is disconnected.
const LINE_MAX: usize = 64 << 20;
/// Bytes per read.
const PIECE: usize = 64 << 10;
/// Bytes of the last output that are stored to explain a failure.
const TAIL: usize = 2 << 10;

/// The end of an output, without secrets. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct SharedTail(Arc<Mutex<MaskedTail>>);

#[derive(Debug)]
struct MaskedTail {
    tail: TailBuffer,
    mask: StreamMask,
}

impl SharedTail {
    pub(super) fn new() -> Self {
        let (tail, mask) = (TailBuffer::new(TAIL), secrets::stream());
        Self(Arc::new(Mutex::new(MaskedTail { tail, mask })))
    }

    pub(super) fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let MaskedTail { tail, mask } = &mut *kept;
        tail.push(&mask.push(bytes));
    }

    pub(super) fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = [kept.tail.bytes(), kept.mask.rest().into_owned()].concat();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

/// Whether a turn is active, so that text counts. Active until the first turn has ended. Cheap to
/// clone.
#[derive(Debug, Clone, Default)]
pub(super) struct ActiveTurnFlag {
    away: Arc<AtomicBool>,
    missed: Arc<AtomicUsize>,
}

impl ActiveTurnFlag {
    pub(super) fn turn_to(&self) {
        self.away.store(false, Ordering::Release);
    }

    /// The turn has ended: text no longer counts.
    pub(super) fn turn_away(&self) {
        self.missed.store(0, Ordering::Release);
        self.away.store(true, Ordering::Release);
    }

    /// How many chunks of text were dropped since the turn ended.
    pub(super) fn missed(&self) -> usize {
        self.missed.load(Ordering::Acquire)
    }

    fn misses(&self) -> bool {
        let away = self.away.load(Ordering::Acquire);
        self.missed.fetch_add(usize::from(away), Ordering::AcqRel);
        away
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextChunk {
    pub(super) session: String,
    pub(super) kind: ChunkKind,
    /// The agent's id for the message, if it sends one.
    pub(super) message: Option<String>,
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkKind {
    Message,
    Thought,
}

#[derive(Debug)]
enum AcpOutputLine<'a> {
    Chunk(ChunkLine<'a>),
    Update {
        session: String,
        update: Value,
    },
    /// A request, a response, or another kind of notification.
    Message,
    Noise,
}

#[derive(Debug, Deserialize)]
struct ChunkLine<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: ChunkParams<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChunkParams<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    update: ChunkUpdate<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChunkUpdate<'a> {
    session_update: ChunkTag,
    #[serde(borrow)]
    content: ChunkContent<'a>,
    #[serde(default)]
    message_id: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ChunkTag {
    AgentMessageChunk,
    AgentThoughtChunk,
}

#[derive(Debug, Deserialize)]
struct ChunkContent<'a> {
    #[serde(rename = "type")]
    tag: ChunkContentTag,
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ChunkContentTag {
    Text,
}

/// Reads until the agent closes its output, or the receiver is gone.
pub(super) async fn read(
    mut output: impl AsyncRead + Unpin,
    mut protocol: impl AsyncWrite + Unpin,
    listener: (mpsc::Sender<AcpEvent>, ActiveTurnFlag),
    noise: SharedTail,
) {
    let mut buffer: Vec<u8> = Vec::with_capacity(2 * PIECE);
    let mut looked_at = 0;
    loop {
        buffer.reserve(PIECE);
        match output.read_buf(&mut buffer).await {
            Ok(n) if n > 0 => {}
            Ok(_) | Err(_) => break,
        }
        let Some(last) = buffer[looked_at..].iter().rposition(|byte| *byte == b'\n') else {
            looked_at = buffer.len();
            if looked_at > LINE_MAX {
                noise.push(b"a line of more than 64 MiB");
                return;
            }
            continue;
        };
        let whole = looked_at + last;
        if pass_on(&buffer[..whole], &mut protocol, &listener, &noise)
            .await
            .is_err()
        {
            return;
        }
        buffer.drain(..=whole);
        looked_at = 0;
    }
    // An unfinished line is not a message.
    noise.push(&buffer);
}

struct ReceiverClosed;

async fn pass_on(
    lines: &[u8],
    protocol: &mut (impl AsyncWrite + Unpin),
    (events, attention): &(mpsc::Sender<AcpEvent>, ActiveTurnFlag),
    noise: &SharedTail,
) -> Result<(), ReceiverClosed> {
    let mut held: Option<TextChunk> = None;
    for line in lines.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let readable;
        let (sorted, line) = match sort(line) {
            AcpOutputLine::Noise if line[0] == b'{' => {
                readable = mended(&String::from_utf8_lossy(line)).into_bytes();
                (sort(&readable), readable.as_slice())
            }
            sorted @ (AcpOutputLine::Chunk(_)
            | AcpOutputLine::Update { .. }
            | AcpOutputLine::Message
            | AcpOutputLine::Noise) => (sorted, line),
        };
        match sorted {
            AcpOutputLine::Chunk(_) if attention.misses() => {}
            AcpOutputLine::Chunk(chunk) => {
                if let Some(finished) = add(&mut held, chunk) {
                    send(events, AcpEvent::Text(finished)).await?;
                }
            }
            AcpOutputLine::Noise => {
                tracing::debug!(
                    "the agent printed: {}",
                    String::from_utf8_lossy(&line[..line.len().min(400)])
                );
                noise.push(line);
                noise.push(b"\n");
            }
            AcpOutputLine::Update { session, update } => {
                if let Some(chunk) = held.take() {
                    send(events, AcpEvent::Text(chunk)).await?;
                }
                send(events, AcpEvent::Update { session, update }).await?;
            }
            AcpOutputLine::Message => {
                if let Some(chunk) = held.take() {
                    send(events, AcpEvent::Text(chunk)).await?;
                }
                let sent = async {
                    protocol.write_all(line).await?;
                    protocol.write_all(b"\n").await
                };
                sent.await.map_err(|_| ReceiverClosed)?;
            }
        }
    }
    match held {
        Some(chunk) => send(events, AcpEvent::Text(chunk)).await,
        None => Ok(()),
    }
}

async fn send(events: &mpsc::Sender<AcpEvent>, what: AcpEvent) -> Result<(), ReceiverClosed> {
    events.send(what).await.map_err(|_| ReceiverClosed)
}

/// Adds text to the stored chunk. If the text belongs to another chunk, returns the stored one.
fn add(held: &mut Option<TextChunk>, line: ChunkLine<'_>) -> Option<TextChunk> {
    let ChunkParams { session_id, update } = line.params;
    let kind = match update.session_update {
        ChunkTag::AgentMessageChunk => ChunkKind::Message,
        ChunkTag::AgentThoughtChunk => ChunkKind::Thought,
    };
    if let Some(chunk) = held
        && chunk.kind == kind
        && chunk.session == session_id
        && chunk.message == update.message_id
    {
        chunk.text.push_str(&update.content.text);
        return None;
    }
    let text = update.content.text.into_owned();
    held.replace(TextChunk {
        session: session_id.into_owned(),
        kind,
        message: update.message_id,
        text,
    })
}

fn sort(line: &[u8]) -> AcpOutputLine<'_> {
    if line[0] != b'{' && line[0] != b'[' {
        return AcpOutputLine::Noise;
    }
    // Nearly all lines of a busy agent are of this kind, so this is the fast path.
    if let Ok(chunk) = serde_json::from_slice::<ChunkLine<'_>>(line)
        && chunk.method == "session/update"
        // An empty chunk is sent for its other fields.
        && !chunk.params.update.content.text.is_empty()
    {
        let ChunkContentTag::Text = chunk.params.update.content.tag;
        return AcpOutputLine::Chunk(chunk);
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(line) else {
        return AcpOutputLine::Noise;
    };
    if value["method"] != "session/update" || !value["id"].is_null() {
        return AcpOutputLine::Message;
    }
    let session = value["params"]["sessionId"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let update = value
        .pointer_mut("/params/update")
        .map(Value::take)
        .unwrap_or_default();
    AcpOutputLine::Update { session, update }
}

#[derive(Debug, Default, PartialEq)]
pub struct AcpOutputReading {
    /// Adjacent text is one update.
    pub updates: Vec<AgentUpdate>,
    /// The permission requests, each with the answers that the agent offers.
    pub permissions: Vec<(ToolCall, Vec<PermissionOption>)>,
    /// The usage in the agent's responses to prompts.
    pub spent: Vec<TurnUsage>,
    /// The lines for the protocol library: requests, responses and unknown notifications.
    pub messages: Vec<u8>,
    /// The end of the output that was not a message.
    pub noise: String,
}

pub async fn read_output(output: impl AsyncRead + Unpin) -> AcpOutputReading {
    let (hear, events) = mpsc::channel(BACKLOG);
    let (near, mut far) = tokio::io::duplex(PIPE);
    let noise = SharedTail::new();
    let mut messages = Vec::new();
    let reading = read(
        output,
        near,
        (hear, ActiveTurnFlag::default()),
        noise.clone(),
    );
    let ((), updates, copied) =
        tokio::join!(reading, collect(events), far.read_to_end(&mut messages));
    if let Err(error) = copied {
        tracing::debug!("cannot read the agent's messages any further: {error}");
    }
    let mut book = AcpConversation::default();
    let mut reading = AcpOutputReading {
        noise: noise.text(),
        ..AcpOutputReading::default()
    };
    for update in updates {
        match update {
            AcpReaderItem::Text(update) => push(&mut reading.updates, update),
            AcpReaderItem::Update(value) => {
                book.update(&value)
                    .into_iter()
                    .for_each(|it| push(&mut reading.updates, it));
            }
        }
    }
    for line in messages.split(|byte| *byte == b'\n') {
        let Ok(value) = serde_json::from_slice::<Value>(line) else {
            continue;
        };
        if let Ok(request) = s::RequestPermissionRequest::deserialize(&value["params"]) {
            let (tool, ..) = book.asked(request.tool_call, EditPlaces::Unknown);
            reading
                .permissions
                .push((tool, translate::options(request.options)));
        }
        if let Ok(response) = s::PromptResponse::deserialize(&value["result"]) {
            reading.spent.extend(
                [UsageScope::Turn, UsageScope::Conversation]
                    .map(|about| book.spent(&response, about)),
            );
        }
    }
    reading.messages = messages;
    reading
}

enum AcpReaderItem {
    Text(AgentUpdate),
    Update(Value),
}

async fn collect(mut events: mpsc::Receiver<AcpEvent>) -> Vec<AcpReaderItem> {
    let mut all = Vec::new();
    while let Some(one) = events.recv().await {
        match one {
            AcpEvent::Text(chunk) => all.push(AcpReaderItem::Text(match chunk.kind {
                ChunkKind::Message => AgentUpdate::Message(chunk.text),
                ChunkKind::Thought => AgentUpdate::Thought(chunk.text),
            })),
            AcpEvent::Update { update, .. } => all.push(AcpReaderItem::Update(update)),
            // Only the protocol library creates these, and it is not used here.
            AcpEvent::Permission(..)
            | AcpEvent::Wants(_)
            | AcpEvent::Decided(_)
            | AcpEvent::Terminal(_) => {}
        }
    }
    all
}

/// Adds an update. Joins adjacent text, so that the result does not depend on how the output was
/// split.
fn push(updates: &mut Vec<AgentUpdate>, update: AgentUpdate) {
    match (updates.last_mut(), update) {
        (Some(AgentUpdate::Message(before)), AgentUpdate::Message(text))
        | (Some(AgentUpdate::Thought(before)), AgentUpdate::Thought(text)) => {
            before.push_str(&text);
        }
        (_, update) => updates.push(update),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn events(bytes: &[u8]) -> (Vec<String>, String, String) {
        let (sender, mut receiver) = mpsc::channel(1_000);
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let noise = SharedTail::new();
        read(
            bytes,
            near,
            (sender, ActiveTurnFlag::default()),
            noise.clone(),
        )
        .await;
        let mut seen = Vec::new();
        while let Some(one) = receiver.recv().await {
            seen.push(match one {
                AcpEvent::Text(chunk) => format!("{:?} {}", chunk.kind, chunk.text),
                AcpEvent::Update { update, .. } => format!("update {}", update["sessionUpdate"]),
                AcpEvent::Permission(..)
                | AcpEvent::Wants(_)
                | AcpEvent::Decided(_)
                | AcpEvent::Terminal(_) => "a request".into(),
            });
        }
        let mut forwarded = String::new();
        far.read_to_string(&mut forwarded).await.expect("text");
        (seen, forwarded, noise.text())
    }

    fn chunk(kind: &str, text: &str) -> String {
        let update =
            serde_json::json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}});
        let params = serde_json::json!({"sessionId": "s", "update": update});
        format!(
            "{}\n",
            serde_json::json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
        )
    }

    #[tokio::test]
    async fn text_that_came_at_once_is_one_piece_and_order_is_kept() {
        let lines = [
            chunk("agent_message_chunk", "a"),
            chunk("agent_message_chunk", "b \"quoted\"\n"),
            chunk("agent_thought_chunk", "c"),
            "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"sessionUpdate\":\"plan\",\"entries\":[]}}}\n".into(),
            chunk("agent_message_chunk", "d"),
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n".into(),
        ];
        let (seen, forwarded, noise) = events(lines.concat().as_bytes()).await;
        assert_eq!(
            seen,
            [
                "Message ab \"quoted\"\n",
                "Thought c",
                "update \"plan\"",
                "Message d"
            ]
        );
        assert_eq!(
            (forwarded.as_str(), noise.as_str()),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n", "")
        );
    }

    #[tokio::test]
    async fn half_a_character_costs_neither_text_nor_a_request() {
        let half = chunk("agent_message_chunk", "cut HALF").replace("HALF", "\\ud83d");
        let request =
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":\"\\ud83d \xff\"}\n";
        let (seen, forwarded, noise) = events(&[half.as_bytes(), request].concat()).await;
        assert_eq!(seen, ["Message cut \u{fffd}"]);
        let mended =
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":\"\u{fffd} \u{fffd}\"}\n";
        assert_eq!((forwarded.as_str(), noise.as_str()), (mended, ""));
    }

    #[tokio::test]
    async fn lines_that_are_no_message_are_ignored() {
        let bytes = b"Loading...\n\xff\xfe{\n{\"half\": \n[1,2]\nnull\n\n   \n{\"method\":\"session/update\",\"params\":7}\nlast";
        let (seen, forwarded, noise) = events(bytes).await;
        assert_eq!(seen, ["update null"]);
        assert_eq!(forwarded, "[1,2]\n");
        assert!(
            noise.starts_with("Loading...\n") && noise.ends_with("null\nlast"),
            "{noise}"
        );
    }
}
