//! What is kept of the work on the way: data of a hook or of the agent, and where the repository was.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::{
    event::{Event, StopEvent},
    session::{SessionState, warning},
    time::UnixTime,
};

/// Something that was kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Its number.
    pub checkpoint: u32,
    /// The task that it is about; the session's name where it is about none.
    pub task: String,
    /// The iteration.
    pub iteration: u32,
    /// The hook that gave it; the agent, if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<String>,
    /// What was given.
    pub data: Value,
    /// The commit that the work was based on, in a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The files that were not committed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dirty: Vec<String>,
}

/// A checkpoint, and when it was made.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedCheckpoint {
    /// When.
    pub at: UnixTime,
    /// What.
    pub checkpoint: Checkpoint,
}

/// What a checkpoint is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCheckpoint {
    /// The task that it is about.
    pub task: String,
    /// The iteration.
    pub iteration: u32,
    /// The hook that gave it.
    pub hook: Option<String>,
    /// What was given.
    pub data: Value,
}

impl Checkpoint {
    /// What the agent was at.
    pub fn phase(&self) -> Option<&str> {
        self.data.get("executionPhase").or_else(|| self.data.get("execution_phase"))?.as_str()
    }

    /// What the agent is told of it.
    pub fn for_agent(&self) -> String {
        let commit = self.commit.as_deref().map(|commit| format!(" · commit {commit}")).unwrap_or_default();
        format!("[Checkpoint {} · iteration {}{commit}]\n{}", self.checkpoint, self.iteration, self.data)
    }
}

impl SessionState {
    /// The records of what is to be kept, numbered.
    pub(crate) fn keep(&self, all: impl IntoIterator<Item = NewCheckpoint>) -> Vec<Event> {
        let last = self.stop.checkpoints.last().map_or(0, |kept| kept.checkpoint.checkpoint);
        let work = self.turns.work.as_ref();
        let numbered = (last + 1..).zip(all);
        numbered
            .map(|(checkpoint, NewCheckpoint { task, iteration, hook, data })| {
                let commit = work.and_then(|work| work.commit.clone());
                let dirty = work.map(|work| work.dirty.clone()).unwrap_or_default();
                Event::Stop(StopEvent::CheckpointKept(Box::new(Checkpoint {
                    checkpoint,
                    task,
                    iteration,
                    hook,
                    data,
                    commit,
                    dirty,
                })))
            })
            .collect()
    }

    /// Why that checkpoint cannot be gone on from.
    pub(crate) fn refuse_checkpoint(&self, number: Option<u32>) -> Option<String> {
        let number = number.filter(|number| self.checkpoint(*number).is_none())?;
        let last = self.stop.checkpoints.last().map(|kept| kept.checkpoint.checkpoint);
        let known = last.map_or_else(|| "it has none".into(), |last| format!("the last one is {last}"));
        Some(format!("the session has no checkpoint {number}; {known}"))
    }

    /// What a person is told who goes on with a session and has not chosen a checkpoint.
    pub(crate) fn offer_checkpoint(&self, chosen: Option<u32>) -> Option<Event> {
        let last = &self.stop.checkpoints.last().filter(|_| chosen.is_none())?.checkpoint;
        let (number, iteration) = (last.checkpoint, last.iteration);
        Some(warning(format!(
            "there is checkpoint {number}, made in iteration {iteration}; the agent is told of it if the session is resumed with \
             `--checkpoint {number}`"
        )))
    }

    /// The checkpoint of that number.
    pub fn checkpoint(&self, number: u32) -> Option<&TimedCheckpoint> {
        self.stop.checkpoints.iter().find(|kept| kept.checkpoint.checkpoint == number)
    }
}
