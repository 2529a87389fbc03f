//! What happens to the session as a whole: its start and end, its iterations.

use crate::engine::{policy::SessionPlan, submit::PipelineKind};
use serde::{Deserialize, Serialize};

/// What happens to the session as a whole: its start and end, its iterations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum SessionEvent {
    #[serde(rename = "session_started")]
    Started(Box<SessionStarted>),
    #[serde(rename = "session_resumed")]
    Resumed {
        /// What was in flight when the session was cut off.
        cut: Vec<String>,
        presence: UserPresence,
        /// A new limit, if one was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_iterations: Option<u32>,
        /// The checkpoint that the agent is told of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint: Option<u32>,
        /// Whether it is still paused.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        paused: bool,
    },
    #[serde(rename = "iteration_started")]
    IterationStarted { iteration: u32 },
    #[serde(rename = "iteration_completed")]
    IterationCompleted { iteration: u32, outcome: IterationOutcome },
    /// The loop is over; what is left is the final delivery, if there is one, and `session_end`.
    #[serde(rename = "loop_ended")]
    LoopEnded { outcome: SessionOutcome, reason: String, delivery: FinalDeliveryMode },
    #[serde(rename = "session_ended")]
    Ended { outcome: SessionOutcome, iterations: u32, reason: String },
    #[serde(rename = "warning")]
    Warning { text: String },
    /// A process that belongs to the session was started; told so that a later creel can find it.
    #[serde(rename = "process_started")]
    ProcessStarted {
        pid: i32,
        /// When it was started, in the kernel's own units: tells it apart from a later process of that number.
        started: u64,
    },
}

/// How a session began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionStarted {
    /// The agent's name.
    pub agent: String,
    /// The project's folder.
    pub cwd: String,
    /// The goal.
    pub prompt: String,
    /// How many iterations there may be.
    pub max_iterations: u32,
    /// Names this session among all that ever had its name.
    pub id: String,
    /// What the jitter of waits is drawn from.
    pub seed: u64,
    /// Whether somebody is there to answer.
    pub presence: UserPresence,
    /// The rules.
    pub plan: SessionPlan,
    /// All that it is for, if that is not to work on a goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errand: Option<PipelineKind>,
    /// The task of a queue that it works on, if it does: see [`crate::engine::queue::QueuedTask::mark`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
}

/// How an iteration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IterationOutcome {
    /// Its last turn ended well and nothing blocked it.
    Done,
    /// A turn failed or was cancelled.
    Failed,
    /// Its last turn was blocked and accepted all the same.
    Forced,
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionOutcome {
    /// Done.
    Complete,
    /// The last iteration was accepted at the retry limit.
    Forced,
    /// No iterations are left.
    Limit,
    /// A person has to look at it.
    Escalated,
    /// A person, or the policy at the retry limit, gave it up.
    Aborted,
    /// Too many turns failed.
    Failed,
    /// A person stopped it.
    Cancelled,
}

/// Whether what is still held is delivered after the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalDeliveryMode {
    /// If there is something, and the policy or a person says so.
    Offer,
    /// The agent is not to be bothered any more.
    No,
}

/// Whether somebody is there to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserPresence {
    /// A person watches.
    Attended,
    /// Nobody does; gates take their policy answer.
    Unattended,
}
