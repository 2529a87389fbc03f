//! The events of the session as a whole: its start and end, its iterations, warnings.

use serde::{Deserialize, Serialize};

use crate::engine::{
    conversation::{ChangedFileLines, ChangedLines, FirstConversation},
    gate::kind::GateChoice,
    policy::SessionPlan,
    stored_form::known_or_none,
    submit::kind::PipelineKind,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum SessionEvent {
    #[serde(rename = "session_started")]
    Started(Box<SessionStarted>),
    #[serde(rename = "session_resumed")]
    Resumed {
        /// What was in progress when the session was interrupted.
        cut: Vec<String>,
        presence: UserPresence,
        /// A new limit, if one was given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_iterations: Option<u32>,
        /// The checkpoint whose content the agent gets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint: Option<u32>,
        /// The answer to the gate of the submit or merge that starts again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<ResumeAnswer>,
        /// Whether it is still paused.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        paused: bool,
        /// The hooks of `session_start` that run again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hooks: Vec<String>,
        /// How it continues. Journals of earlier versions do not say.
        #[serde(
            default,
            deserialize_with = "known_or_none",
            skip_serializing_if = "Option::is_none"
        )]
        decision: Option<ResumeDecision>,
    },
    #[serde(rename = "iteration_started")]
    IterationStarted { iteration: u32 },
    #[serde(rename = "iteration_completed")]
    IterationCompleted {
        iteration: u32,
        outcome: IterationOutcome,
    },
    /// The loop has ended. The final delivery, if any, and `session_end` follow.
    #[serde(rename = "loop_ended")]
    LoopEnded {
        outcome: SessionOutcome,
        reason: String,
        delivery: FinalDeliveryMode,
    },
    #[serde(rename = "session_ended")]
    Ended {
        outcome: SessionOutcome,
        iterations: u32,
        reason: String,
        /// The lines that it changed. The runtime counts them just before the record is written; no
        /// decision depends on them. None outside a repository, and in journals of earlier
        /// versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lines: Option<ChangedLines>,
        /// The files with most of these lines, most first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<ChangedFileLines>,
        /// Whether `creel submit` can work: there is changed work, and what the hooks before a
        /// submit need. The runtime finds out, like the lines.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        submittable: bool,
        /// The checks that count, each with its result on the work as it is at the end.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        checks: Vec<CheckOutcome>,
    },
    #[serde(rename = "warning")]
    Warning { text: String },
    /// The runtime started a process of the session. Recorded so that a later creel can find the
    /// process.
    #[serde(rename = "process_started")]
    ProcessStarted {
        pid: i32,
        /// The start time in the kernel's own units. It distinguishes the process from a later one
        /// with the same id.
        started: u64,
    },
}

impl SessionEvent {
    /// The kinds of its records.
    pub(crate) const KINDS: &'static [&'static str] = &[
        "session_started",
        "session_resumed",
        "iteration_started",
        "iteration_completed",
        "loop_ended",
        "session_ended",
        "warning",
        "process_started",
    ];
}

/// The user's answer to the gate that a resumed session opens again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeAnswer {
    pub choice: GateChoice,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionStarted {
    pub agent: String,
    /// The project's folder.
    pub cwd: String,
    /// The goal.
    pub prompt: String,
    pub max_iterations: u32,
    /// Unique among all sessions, including others of the same name.
    pub id: String,
    /// The seed for the jitter of waits.
    pub seed: u64,
    pub presence: UserPresence,
    pub plan: SessionPlan,
    /// The pipeline that the session runs instead of working on a goal. None for ordinary sessions.
    #[serde(default, rename = "errand", skip_serializing_if = "Option::is_none")]
    pub only_pipeline: Option<PipelineKind>,
    /// The queue task that the session works on, if any: see
    /// [`crate::engine::queue::QueuedTask::mark`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// The git worktree that the session has for itself, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<SessionWorktree>,
    /// The agent's id for the conversation that it continues. None: it begins a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The session that had this conversation: the agent continues a copy of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<String>,
    /// The version of creel that started it. Journals of earlier versions do not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub creel: String,
    /// The user that started it. None in journals of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The span of another program in whose trace it is (W3C `traceparent`). None: it has its own
    /// trace, or sends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
}

impl SessionStarted {
    pub(crate) fn first_conversation(&self) -> Option<FirstConversation> {
        let (id, fork_of) = (self.from.clone()?, self.fork.clone());
        Some(FirstConversation { id, fork_of })
    }
}

/// The git worktree of a session. `cwd` is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionWorktree {
    pub name: String,
    /// Its top folder.
    pub path: String,
    pub branch: String,
    /// The branch that it started from.
    pub base: String,
    /// The commit that it started from.
    pub commit: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IterationOutcome {
    /// Its last turn did not fail, and no hook blocked it.
    Done,
    /// A turn failed or was cancelled.
    Failed,
    /// Its last turn was blocked and accepted anyway.
    Forced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionOutcome {
    Complete,
    /// A check that blocked was accepted, and it has not passed since.
    Forced,
    /// A check failed without blocking, could not run, or was disabled.
    Unverified,
    /// No iterations are left.
    Limit,
    /// The user has to look at it.
    Escalated,
    /// The user, or the policy at the retry limit, aborted it.
    Aborted,
    /// Too many turns failed.
    Failed,
    /// The user stopped it.
    Cancelled,
}

/// A check and its result at the end of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckOutcome {
    pub name: String,
    pub result: CheckRunResult,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckRunResult {
    /// It has passed since the work last changed.
    Passed,
    Failed,
    /// It could not run.
    Broken,
    /// It was disabled during the session.
    Disabled,
    /// It has not run since the work last changed.
    NotRun,
}

/// Whether pending items are sent after the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalDeliveryMode {
    /// If there are any, and the policy or the user agrees.
    Offer,
    /// The agent gets no further prompt.
    No,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserPresence {
    /// A user can answer.
    Attended,
    /// No user is present; gates get their policy answer.
    Unattended,
}

/// How a resumed session continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeDecision {
    pub next: AfterResume,
    /// How many times the budget has been granted again, if its budget had ended the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<u32>,
}

/// Where a resumed session continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterResume {
    /// Where it was interrupted.
    Same,
    /// The interrupted turn is sent again.
    Again,
    /// The pipeline for which the session exists starts again.
    PipelineOnly,
    /// The work was complete, and only its submit is repeated.
    Submit,
    /// The loop had ended: pending items are offered again.
    Delivery,
    /// The loop had ended well before the user was needed: that end counts again.
    EarlierEnd,
    /// The phase in which the user stopped the session.
    StoppedPhase,
    /// The gate at which it ended.
    Gate,
    /// The next iteration.
    NextIteration,
    /// The session starts again: it never reached its first iteration.
    Start,
}
