//! What an agent's output means, read without a process and without a connection.
//!
//! The same reader and the same translation as in a turn, for tests that feed hostile output. Nothing answers the agent's
//! requests here: they are translated, and listed.

use agent_client_protocol::v1::schema as s;
use serde::Deserialize as _;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::mpsc,
};

use super::{
    reader::{self, ActiveTurnFlag, ChunkKind, SharedTail},
    translate::{self, AcpConversation},
};
use crate::{
    agents::acp::connection::{AcpEvent, BACKLOG, PIPE},
    engine::{
        conversation::{AgentUpdate, PermissionOption, ToolCall, TurnUsage},
        policy::UsageScope,
    },
};

/// What was read.
#[derive(Debug, Default, PartialEq)]
pub struct AcpOutputReading {
    /// What the agent said and did. Text that belongs together is one update.
    pub updates: Vec<AgentUpdate>,
    /// Its requests for permission, with the answers that it offers.
    pub permissions: Vec<(ToolCall, Vec<PermissionOption>)>,
    /// The usage that its answers to prompts report.
    pub spent: Vec<TurnUsage>,
    /// The lines that the protocol's own reader gets: requests, answers and unknown notifications.
    pub messages: Vec<u8>,
    /// The end of the output that was not a message.
    pub noise: String,
}

/// Reads all that an agent prints.
pub async fn read_output(output: impl AsyncRead + Unpin) -> AcpOutputReading {
    let (hear, heard) = mpsc::channel(BACKLOG);
    let (near, mut far) = tokio::io::duplex(PIPE);
    let noise = SharedTail::new();
    let mut messages = Vec::new();
    let reading = reader::read(output, near, (hear, ActiveTurnFlag::default()), noise.clone());
    let ((), updates, copied) = tokio::join!(reading, collect(heard), far.read_to_end(&mut messages));
    if let Err(error) = copied {
        tracing::debug!("the messages of an agent break off: {error}");
    }
    let mut book = AcpConversation::default();
    let mut reading = AcpOutputReading { noise: noise.text(), ..AcpOutputReading::default() };
    for update in updates {
        match update {
            AcpReaderItem::Text(update) => push(&mut reading.updates, update),
            AcpReaderItem::Update(value) => {
                book.update(&value).into_iter().for_each(|it| push(&mut reading.updates, it));
            }
        }
    }
    for line in messages.split(|byte| *byte == b'\n') {
        let Ok(value) = serde_json::from_slice::<Value>(line) else { continue };
        if let Ok(request) = s::RequestPermissionRequest::deserialize(&value["params"]) {
            let (tool, _) = book.asked(request.tool_call);
            reading.permissions.push((tool, translate::options(request.options)));
        }
        if let Ok(response) = s::PromptResponse::deserialize(&value["result"]) {
            reading
                .spent
                .extend([UsageScope::Turn, UsageScope::Conversation].map(|about| book.spent(&response, about)));
        }
    }
    reading.messages = messages;
    reading
}

/// What the reader passes on.
enum AcpReaderItem {
    Text(AgentUpdate),
    Update(Value),
}

async fn collect(mut heard: mpsc::Receiver<AcpEvent>) -> Vec<AcpReaderItem> {
    let mut all = Vec::new();
    while let Some(one) = heard.recv().await {
        match one {
            AcpEvent::Text(chunk) => all.push(AcpReaderItem::Text(match chunk.kind {
                ChunkKind::Said => AgentUpdate::Said(chunk.text),
                ChunkKind::Thought => AgentUpdate::Thought(chunk.text),
            })),
            AcpEvent::Update { update, .. } => all.push(AcpReaderItem::Update(update)),
            // Only the protocol's own reader creates these, and there is none here.
            AcpEvent::Permission(..) | AcpEvent::Wants(_) | AcpEvent::Decided(_) | AcpEvent::Terminal(_) => {}
        }
    }
    all
}

/// Adds an update. Where the output was cut must not make a difference, so text is joined.
fn push(updates: &mut Vec<AgentUpdate>, update: AgentUpdate) {
    match (updates.last_mut(), update) {
        (Some(AgentUpdate::Said(before)), AgentUpdate::Said(text))
        | (Some(AgentUpdate::Thought(before)), AgentUpdate::Thought(text)) => before.push_str(&text),
        (_, update) => updates.push(update),
    }
}
