//! What a client can ask about a session. Queries change nothing; a copy of the session's state
//! answers them.

use serde::{Deserialize, Serialize};

use crate::engine::ids::ItemId;

/// A question about the session, written like a command: `{"do":"task_show","id":"3"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum SessionQuery {
    /// How the session is: answered by `status`.
    Status,
    /// The pending items, without their texts: answered by `items`.
    PendingList {
        #[serde(default)]
        which: ItemFilter,
    },
    /// One item: answered by `item`. The text of a delivered item is only in the journal.
    PendingShow { item: ItemId },
    /// The open gates: answered by `gates`.
    GateList,
    /// The hooks of the session: answered by `hooks`.
    HookList,
    /// The tasks: answered by `tasks`.
    TaskList,
    /// The tasks that are in the queue. Only creel itself asks for them.
    #[serde(skip)]
    QueuedTaskList,
    /// One task: answered by `task`.
    TaskShow { id: String },
    /// The registered stop hooks, all or those for a task: answered by `stop_hooks`.
    StopHookList {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
    },
    /// One loop that an agent leads: answered by `agent_loop`.
    LoopShow { id: String },
    /// The checkpoints: answered by `checkpoints`.
    CheckpointList,
}

/// Which items are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemFilter {
    /// Those that the agent does not have yet.
    #[default]
    Held,
    /// The delivered ones as well.
    All,
}

/// Asks for the records from this number on, then for all that come; without a number, only for
/// those that come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename = "watch")]
pub struct WatchRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Whether to send, between the records, what is not a record: see
    /// [`super::message::live_message`].
    #[serde(default)]
    pub live: bool,
}

impl WatchRequest {
    pub(super) const VERB: &str = "watch";
}
