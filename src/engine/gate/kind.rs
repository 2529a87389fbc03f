//! The kinds of gates and the words of answers, as records and the command line name them.
//!
//! Which kind accepts which answer is a table in [`super::response`].

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateKind {
    /// The loop has ended, and pending items are left.
    FinalDelivery,
    /// The next iteration's prompt would carry pending items.
    Delivery,
    /// A stop hook still blocks, and its retries are used up.
    RetryLimit,
    /// A stop decision or a hook needs the user.
    Escalation,
    /// Too many turns failed in a row.
    Errors,
    /// A hook was broken twice in a row.
    BrokenHook,
    /// The agent asks for permission.
    Permission,
    /// The budget is used up.
    Budget,
    /// The agent reached a usage limit.
    UsageLimit,
    /// The agent's turn changed files of creel, of its config or of git.
    Tampered,
    /// A check before the submit failed.
    Submit,
    /// A check before the merge failed.
    Merge,
    /// The agent has proposed tasks for the queue.
    Proposal,
}

/// The words of answers. What one means depends on the kind of gate: see [`super::response`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateChoice {
    /// Send the items, all or some, or accept the proposed tasks.
    Approve,
    /// Change the proposed tasks. The gate stays open.
    Edit,
    /// Do not send the items, or continue without a check.
    Skip,
    /// Continue: more retries, the next iteration, or the same budget again.
    Continue,
    /// Send a message to the agent now.
    Send,
    /// Continue, with a message for the next prompt.
    Message,
    /// Accept the turn as it is.
    Ignore,
    /// Do not run this hook any more in this session.
    Disable,
    /// Try again: the hook, the checks, or the turn.
    Retry,
    /// Wait for the reset.
    Wait,
    /// Let another agent work.
    Switch,
    /// The session is complete.
    Complete,
    /// End as escalated. Only the policy gives this answer.
    Escalate,
    /// End as failed. Only the policy gives this answer.
    Fail,
    /// End the session with the outcome `limit`.
    Stop,
    AllowOnce,
    /// Allow it, and do not ask again about the same request.
    AllowAlways,
    RejectOnce,
    /// Reject it, and do not ask again about the same request.
    RejectAlways,
    /// Leave a submit, a merge or a proposal as it is.
    Leave,
    /// Do not answer, and cancel the turn.
    Cancel,
    /// End the session as aborted. It can be resumed.
    Abort,
}

impl GateKind {
    pub const ALL: [Self; 13] = [
        Self::FinalDelivery,
        Self::Delivery,
        Self::RetryLimit,
        Self::Escalation,
        Self::Errors,
        Self::BrokenHook,
        Self::Permission,
        Self::Budget,
        Self::UsageLimit,
        Self::Tampered,
        Self::Submit,
        Self::Merge,
        Self::Proposal,
    ];

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
            Self::Proposal => "proposal",
        }
    }
}

impl GateChoice {
    /// The other word for the same answer: a message to the agent is `send` at some gates and
    /// `message` at others.
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
            Self::Edit => "edit",
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
