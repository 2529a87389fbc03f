//! What a run says, and what the runs of one dispatch say together.

use serde::{Deserialize, Serialize};

use crate::engine::time::Span;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// It exited with this code.
    Exit(i32),
    /// A signal ended it.
    Signal(i32),
    /// It took longer than it may.
    TimedOut,
    /// It could not be started, and why.
    SpawnFailed(String),
    /// creel was stopped, or a person cancelled it, while it ran.
    Cut,
}

/// What a run printed and how it ended, as the runner tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// How it ended.
    pub end: RunEnd,
    /// How long it took.
    pub took: Span,
    /// Standard output, limited.
    pub stdout: String,
    /// Standard error, limited.
    pub stderr: String,
    /// How many bytes the limits left out.
    pub omitted_bytes: u64,
    /// The file with all of it, relative to the session's folder.
    pub file: Option<String>,
    /// The JSON that it printed, if it exited with 0 and did.
    pub reply: Option<Reply>,
}

/// What a hook can answer in JSON: the format of Claude Code and codemie hooks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// What it decided.
    pub decision: Option<Decision>,
    /// Why.
    pub reason: Option<String>,
    /// What the agent should know.
    pub additional_context: Option<String>,
    /// Whether to keep the output from the agent.
    pub suppress_output: bool,
}

/// A decision, weakest first: merging takes the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Go on.
    Allow,
    /// Go on, said aloud.
    Approve,
    /// Do not go on.
    Deny,
    /// Do not go on.
    Block,
}

/// What a run means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing stands in the way.
    Pass,
    /// It must not go on like this.
    Block,
    /// It did not do its job; what that means, the point says.
    Fail,
}

impl RunEnd {
    /// Whether the hook itself is at fault, not what it looked at. 126 and 127 are what a shell says of a command
    /// that cannot be run or found.
    pub fn is_broken(&self) -> bool {
        match self {
            Self::Exit(code) => matches!(code, 126 | 127),
            Self::Signal(_) | Self::TimedOut | Self::SpawnFailed(_) | Self::Cut => true,
        }
    }

    /// As a person says it: `exit 101`, `signal 9`, `timed out`.
    pub fn describe(&self) -> String {
        match self {
            Self::Exit(code) => format!("exit {code}"),
            Self::Signal(signal) => format!("signal {signal}"),
            Self::TimedOut => "timed out".into(),
            Self::SpawnFailed(why) => format!("could not start: {why}"),
            Self::Cut => "cut".into(),
        }
    }
}
