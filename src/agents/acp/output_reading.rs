//! Reads an agent's output without a process and without a connection.
//!
//! Uses the same reader and translation as a turn, for tests with hostile output. The agent's
//! requests are translated and listed, but not answered.

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
    let (hear, heard) = mpsc::channel(BACKLOG);
    let (near, mut far) = tokio::io::duplex(PIPE);
    let noise = SharedTail::new();
    let mut messages = Vec::new();
    let reading = reader::read(
        output,
        near,
        (hear, ActiveTurnFlag::default()),
        noise.clone(),
    );
    let ((), updates, copied) =
        tokio::join!(reading, collect(heard), far.read_to_end(&mut messages));
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
            let (tool, _) = book.asked(request.tool_call);
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

async fn collect(mut heard: mpsc::Receiver<AcpEvent>) -> Vec<AcpReaderItem> {
    let mut all = Vec::new();
    while let Some(one) = heard.recv().await {
        match one {
            AcpEvent::Text(chunk) => all.push(AcpReaderItem::Text(match chunk.kind {
                ChunkKind::Said => AgentUpdate::Said(chunk.text),
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
        (Some(AgentUpdate::Said(before)), AgentUpdate::Said(text))
        | (Some(AgentUpdate::Thought(before)), AgentUpdate::Thought(text)) => {
            before.push_str(&text);
        }
        (_, update) => updates.push(update),
    }
}
