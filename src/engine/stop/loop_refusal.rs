//! Why creel refuses a command about an agent loop.

use crate::engine::stop::decision::StopAction;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoopRefusal {
    NoIterations,
    /// The loop or the stop hook is for a task that does not exist. The agent would otherwise work
    /// on a mistyped name.
    UnknownTask {
        task: String,
        near: Option<String>,
        session: String,
    },
    LoopExists {
        task: String,
        loop_id: String,
        iteration: u32,
    },
    NoSuchLoop(String),
    LoopOver {
        loop_id: String,
        task: String,
    },
    BeingJudged(String),
    LimitUsed {
        loop_id: String,
        limit: u32,
    },
    /// The loop waits for the user, and does not continue.
    Escalated(String),
    /// The loop waits for the user, so its task is not completed.
    NotCompletedWhileEscalated(String),
    JudgedComplete(String),
    NotJudgedComplete {
        loop_id: String,
        last: Option<(StopAction, String)>,
    },
    /// The loop ended while its evaluation ran.
    EndedUnjudged(String),
    /// The session ended while the evaluation of a loop ran.
    SessionOverUnjudged,
}

impl LoopRefusal {
    /// The stable name of the reason, for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoIterations => "no_iterations",
            Self::UnknownTask { .. } => "no_such_task",
            Self::LoopExists { .. } => "loop_exists",
            Self::NoSuchLoop(_) => "no_such_loop",
            Self::LoopOver { .. } | Self::EndedUnjudged(_) => "loop_over",
            Self::BeingJudged(_) => "loop_being_judged",
            Self::LimitUsed { .. } => "iteration_limit_used",
            Self::Escalated(_) | Self::NotCompletedWhileEscalated(_) => "loop_escalated",
            Self::JudgedComplete(_) => "loop_judged_complete",
            Self::NotJudgedComplete { .. } => "loop_not_judged_complete",
            Self::SessionOverUnjudged => "session_ended",
        }
    }
}
