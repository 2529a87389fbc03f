//! The kinds of gates, and the answers that each one accepts.

use serde::{Deserialize, Serialize};

/// What a gate is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateKind {
    /// The loop is over and output is still held.
    FinalDelivery,
    /// An iteration's prompt is about to carry held output.
    Delivery,
    /// A stop hook blocked as often as it may.
    RetryLimit,
    /// A stop decision or a hook wants a person to look.
    Escalation,
    /// Too many turns failed in a row.
    Errors,
    /// A hook could not do its job twice in a row.
    BrokenHook,
    /// The agent asks whether it may do something.
    Permission,
    /// As much was used as may be.
    Budget,
    /// The agent reached a usage limit.
    UsageLimit,
    /// The agent's turn changed files of creel, of its config or of git.
    Tampered,
    /// A check holds the submit.
    Submit,
    /// A check holds the merge.
    Merge,
}

/// What can be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateChoice {
    /// Deliver, all or some.
    Approve,
    /// Do not deliver.
    Skip,
    /// Go on: more retries, or the next iteration.
    Continue,
    /// Send a message of one's own.
    Send,
    /// Go on, with a message of one's own for the next prompt.
    Message,
    /// Accept the turn as it is.
    Ignore,
    /// Do not run this hook any more in this session.
    Disable,
    /// Run the hook again.
    Retry,
    /// Wait for the reset.
    Wait,
    /// Let another agent work.
    Switch,
    /// The session is complete.
    Complete,
    /// End as escalated. Only the policy answers so.
    Escalate,
    /// End as failed. Only the policy answers so.
    Fail,
    /// End the session here, as one that reached a limit.
    Stop,
    /// Let the agent do it, this time.
    AllowOnce,
    /// Let the agent do it, and do not ask again.
    AllowAlways,
    /// Do not let it, this time.
    RejectOnce,
    /// Do not let it, and do not ask again.
    RejectAlways,
    /// Leave a submit or a merge as it is.
    Leave,
    /// Do not answer; end the turn.
    Cancel,
    /// Give the session up.
    Abort,
}

impl GateKind {
    /// The name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FinalDelivery => "final_delivery",
            Self::Delivery => "delivery",
            Self::RetryLimit => "retry_limit",
            Self::Escalation => "escalation",
            Self::Errors => "errors",
            Self::BrokenHook => "broken_hook",
            Self::Permission => "permission",
            Self::Budget => "budget",
            Self::UsageLimit => "usage_limit",
            Self::Tampered => "tampered",
            Self::Submit => "submit",
            Self::Merge => "merge",
        }
    }
}

impl GateChoice {
    /// The other name of the same answer: a message to the agent is called differently where it ends a turn and where it
    /// begins one.
    pub(crate) fn other_name(self) -> Self {
        if self == Self::Send {
            Self::Message
        } else if self == Self::Message {
            Self::Send
        } else {
            self
        }
    }

    /// The name in records and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Skip => "skip",
            Self::Continue => "continue",
            Self::Send => "send",
            Self::Message => "message",
            Self::Ignore => "ignore",
            Self::Disable => "disable",
            Self::Retry => "retry",
            Self::Wait => "wait",
            Self::Switch => "switch",
            Self::Complete => "complete",
            Self::Escalate => "escalate",
            Self::Fail => "fail",
            Self::Stop => "stop",
            Self::AllowOnce => "allow_once",
            Self::AllowAlways => "allow_always",
            Self::RejectOnce => "reject_once",
            Self::RejectAlways => "reject_always",
            Self::Leave => "leave",
            Self::Cancel => "cancel",
            Self::Abort => "abort",
        }
    }
}
