//! Checkpoints: data that a hook or the agent saves during the work, with the state of the
//! repository.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::time::UnixTime;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub checkpoint: u32,
    /// The task's id, or the session's name if it is about no task.
    pub task: String,
    pub iteration: u32,
    /// The hook that saved it. None: the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<String>,
    pub data: Value,
    /// The commit that was checked out. None outside a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Files with uncommitted changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dirty: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimedCheckpoint {
    pub at: UnixTime,
    pub checkpoint: Checkpoint,
}

/// A checkpoint that has no number yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCheckpoint {
    pub task: String,
    pub iteration: u32,
    pub hook: Option<String>,
    pub data: Value,
}

impl Checkpoint {
    /// The agent's phase, if the data contains one.
    pub fn phase(&self) -> Option<&str> {
        self.data
            .get("executionPhase")
            .or_else(|| self.data.get("execution_phase"))?
            .as_str()
    }

    /// The checkpoint as text for the agent.
    pub fn for_agent(&self) -> String {
        let commit = self
            .commit
            .as_deref()
            .map(|commit| format!(" · commit {commit}"))
            .unwrap_or_default();
        format!(
            "[Checkpoint {} · iteration {}{commit}]\n{}",
            self.checkpoint, self.iteration, self.data
        )
    }
}
