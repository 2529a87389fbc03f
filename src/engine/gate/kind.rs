//! The kinds of gates, the words of answers, and what an answer means.
//!
//! Records and the command line name an answer by its [`GateChoice`]. One table lists the choices
//! that a kind of gate accepts and what each one means there.

use serde::{Deserialize, Serialize};

use crate::engine::event::SessionOutcome;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateKind {
    /// The loop has ended, and pending items are left.
    FinalDelivery,
    /// The next iteration's prompt would carry pending items.
    Delivery,
    /// There is news of the pull request for the agent.
    Review,
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
    /// The agent asks you something.
    Question,
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

/// The words of answers. What one means depends on the kind of gate: see [`GateKind::response`].
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
    /// Merge the pull request.
    Merge,
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
    /// Allow it, and every other edit in the project for the rest of the session.
    AllowEdits,
    RejectOnce,
    /// Reject it, and do not ask again about the same request.
    RejectAlways,
    /// Answer the agent's question.
    Answer,
    /// Do not answer it. The turn continues.
    Decline,
    /// Leave a submit, a merge or a proposal as it is.
    Leave,
    /// Do not answer, and cancel the turn.
    Cancel,
    /// End the session as aborted. It can be resumed.
    Abort,
}

impl GateKind {
    pub const ALL: [Self; 15] = [
        Self::FinalDelivery,
        Self::Delivery,
        Self::Review,
        Self::RetryLimit,
        Self::Escalation,
        Self::Errors,
        Self::BrokenHook,
        Self::Permission,
        Self::Question,
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
            Self::Review => "review",
            Self::RetryLimit => "retry_limit",
            Self::Escalation => "escalation",
            Self::Errors => "errors",
            Self::BrokenHook => "broken_hook",
            Self::Permission => "permission",
            Self::Question => "question",
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
            Self::Merge => "merge",
            Self::Complete => "complete",
            Self::Escalate => "escalate",
            Self::Fail => "fail",
            Self::Stop => "stop",
            Self::AllowOnce => "allow_once",
            Self::AllowAlways => "allow_always",
            Self::AllowEdits => "allow_edits",
            Self::RejectOnce => "reject_once",
            Self::RejectAlways => "reject_always",
            Self::Answer => "answer",
            Self::Decline => "decline",
            Self::Leave => "leave",
            Self::Cancel => "cancel",
            Self::Abort => "abort",
        }
    }
}

/// What an answer means at the gate that it was given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateResponse {
    /// The session leaves its loop with this outcome, and nothing more is sent.
    End(SessionOutcome),
    Delivery(DeliveryAnswer),
    RetryLimit(RetryLimitAnswer),
    Escalation(EscalationAnswer),
    Errors(ErrorsAnswer),
    BrokenHook(BrokenHookAnswer),
    Permission(PermissionChoice),
    Budget(BudgetAnswer),
    UsageLimit(UsageLimitAnswer),
    Tampered(TamperedAnswer),
    Pipeline(PipelineAnswer),
    Proposal(ProposalAnswer),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryAnswer {
    Approve,
    Skip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryLimitAnswer {
    /// The same number of retries again.
    Continue,
    Send,
    /// Accept the turn as it is.
    Ignore,
    Disable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EscalationAnswer {
    Continue,
    /// Continue, with a message for the next prompt.
    Message,
    Complete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorsAnswer {
    Continue,
    Send,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenHookAnswer {
    Disable,
    Retry,
}

/// What happens to a request. A question is answered or declined once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionChoice {
    AllowOnce,
    AllowAlways,
    AllowEdits,
    RejectOnce,
    RejectAlways,
    /// No answer: the turn is cancelled.
    Cancel,
}

impl PermissionChoice {
    pub(crate) const fn denies(self) -> bool {
        match self {
            Self::RejectOnce | Self::RejectAlways => true,
            Self::AllowOnce | Self::AllowAlways | Self::AllowEdits | Self::Cancel => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetAnswer {
    /// The same budget again.
    Continue,
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageLimitAnswer {
    Wait,
    Retry,
    Switch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TamperedAnswer {
    /// Accept the changes.
    Ignore,
    Send,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipelineAnswer {
    Retry,
    Send,
    /// Continue without the check that failed.
    Skip,
    /// Merge the pull request that the session waits for.
    Merge,
    /// Wait for its merge, although something is red.
    Wait,
    Leave,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProposalAnswer {
    Approve,
    /// Other tasks instead: the gate stays open.
    Edit,
    /// The agent proposes again.
    Send,
    /// Queue nothing. The proposal stays.
    Leave,
}

impl GateKind {
    /// What each choice means at such a gate. Only the policy of an unattended session chooses
    /// `escalate` and `fail`.
    const fn answers(self) -> &'static [(GateChoice, GateResponse)] {
        use GateChoice as Choice;
        use GateResponse as Means;
        const ABORT: (GateChoice, GateResponse) =
            (Choice::Abort, Means::End(SessionOutcome::Aborted));
        const ESCALATE: (GateChoice, GateResponse) =
            (Choice::Escalate, Means::End(SessionOutcome::Escalated));
        match self {
            Self::FinalDelivery | Self::Delivery | Self::Review => &[
                (Choice::Approve, Means::Delivery(DeliveryAnswer::Approve)),
                (Choice::Skip, Means::Delivery(DeliveryAnswer::Skip)),
            ],
            Self::RetryLimit => &[
                (
                    Choice::Continue,
                    Means::RetryLimit(RetryLimitAnswer::Continue),
                ),
                (Choice::Send, Means::RetryLimit(RetryLimitAnswer::Send)),
                (Choice::Ignore, Means::RetryLimit(RetryLimitAnswer::Ignore)),
                (
                    Choice::Disable,
                    Means::RetryLimit(RetryLimitAnswer::Disable),
                ),
                ABORT,
                ESCALATE,
            ],
            Self::Escalation => &[
                (
                    Choice::Continue,
                    Means::Escalation(EscalationAnswer::Continue),
                ),
                (
                    Choice::Message,
                    Means::Escalation(EscalationAnswer::Message),
                ),
                (
                    Choice::Complete,
                    Means::Escalation(EscalationAnswer::Complete),
                ),
                ABORT,
                ESCALATE,
            ],
            Self::Errors => &[
                (Choice::Continue, Means::Errors(ErrorsAnswer::Continue)),
                (Choice::Send, Means::Errors(ErrorsAnswer::Send)),
                ABORT,
                (Choice::Fail, Means::End(SessionOutcome::Failed)),
            ],
            Self::BrokenHook => &[
                (
                    Choice::Disable,
                    Means::BrokenHook(BrokenHookAnswer::Disable),
                ),
                (Choice::Retry, Means::BrokenHook(BrokenHookAnswer::Retry)),
                ABORT,
                ESCALATE,
            ],
            Self::Permission => &[
                (
                    Choice::AllowOnce,
                    Means::Permission(PermissionChoice::AllowOnce),
                ),
                (
                    Choice::AllowAlways,
                    Means::Permission(PermissionChoice::AllowAlways),
                ),
                (
                    Choice::AllowEdits,
                    Means::Permission(PermissionChoice::AllowEdits),
                ),
                (
                    Choice::RejectOnce,
                    Means::Permission(PermissionChoice::RejectOnce),
                ),
                (
                    Choice::RejectAlways,
                    Means::Permission(PermissionChoice::RejectAlways),
                ),
                (Choice::Cancel, Means::Permission(PermissionChoice::Cancel)),
            ],
            Self::Question => &[
                (
                    Choice::Answer,
                    Means::Permission(PermissionChoice::AllowOnce),
                ),
                (
                    Choice::Decline,
                    Means::Permission(PermissionChoice::RejectOnce),
                ),
                (Choice::Cancel, Means::Permission(PermissionChoice::Cancel)),
            ],
            Self::Budget => &[
                (Choice::Continue, Means::Budget(BudgetAnswer::Continue)),
                (Choice::Stop, Means::Budget(BudgetAnswer::Stop)),
                ABORT,
            ],
            Self::UsageLimit => &[
                (Choice::Wait, Means::UsageLimit(UsageLimitAnswer::Wait)),
                (Choice::Retry, Means::UsageLimit(UsageLimitAnswer::Retry)),
                (Choice::Switch, Means::UsageLimit(UsageLimitAnswer::Switch)),
                ABORT,
            ],
            Self::Tampered => &[
                (Choice::Ignore, Means::Tampered(TamperedAnswer::Ignore)),
                (Choice::Send, Means::Tampered(TamperedAnswer::Send)),
                ABORT,
                ESCALATE,
            ],
            Self::Submit => &[
                (Choice::Retry, Means::Pipeline(PipelineAnswer::Retry)),
                (Choice::Send, Means::Pipeline(PipelineAnswer::Send)),
                (Choice::Skip, Means::Pipeline(PipelineAnswer::Skip)),
                (Choice::Leave, Means::Pipeline(PipelineAnswer::Leave)),
            ],
            // Nothing merges past a check that failed; `merge` is offered when all are green, `wait`
            // while the session waits for the merge.
            Self::Merge => &[
                (Choice::Merge, Means::Pipeline(PipelineAnswer::Merge)),
                (Choice::Wait, Means::Pipeline(PipelineAnswer::Wait)),
                (Choice::Retry, Means::Pipeline(PipelineAnswer::Retry)),
                (Choice::Send, Means::Pipeline(PipelineAnswer::Send)),
                (Choice::Leave, Means::Pipeline(PipelineAnswer::Leave)),
            ],
            Self::Proposal => &[
                (Choice::Approve, Means::Proposal(ProposalAnswer::Approve)),
                (Choice::Edit, Means::Proposal(ProposalAnswer::Edit)),
                (Choice::Send, Means::Proposal(ProposalAnswer::Send)),
                (Choice::Leave, Means::Proposal(ProposalAnswer::Leave)),
            ],
        }
    }

    /// The answers that a user can give. At a permission gate, the agent decides which of them it
    /// offers.
    pub fn choices(self) -> Vec<GateChoice> {
        let all = self.answers().iter().map(|(choice, _)| *choice);
        let by_rule = [GateChoice::Escalate, GateChoice::Fail, GateChoice::Merge];
        let at_times = |choice| self == Self::Merge && choice == GateChoice::Wait;
        all.filter(|choice| !by_rule.contains(choice) && !at_times(*choice))
            .collect()
    }

    /// What a choice means at such a gate. None if it accepts no such choice.
    pub fn response(self, choice: GateChoice) -> Option<GateResponse> {
        let meaning =
            |choice: GateChoice| self.answers().iter().find(|(known, _)| *known == choice);
        meaning(choice)
            .or_else(|| meaning(choice.other_name()))
            .map(|(_, means)| *means)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn send_and_message_mean_the_same_at_every_gate() {
        let asked = GateKind::RetryLimit.response(GateChoice::Message);
        assert_eq!(
            asked,
            Some(GateResponse::RetryLimit(RetryLimitAnswer::Send))
        );
        let asked = GateKind::Escalation.response(GateChoice::Send);
        assert_eq!(
            asked,
            Some(GateResponse::Escalation(EscalationAnswer::Message))
        );
        assert_eq!(GateKind::Merge.response(GateChoice::Skip), None);
    }
}
