//! Places where the session waits for a person.
//!
//! Owns what a gate is, which answers it takes, and the answer that the policy gives when nobody is there. What an
//! answer leads to is decided where the gate was opened.
//!
//! # Invariants
//! - At most one gate holds the session at a time, and it is answered once.

use serde::{Deserialize, Serialize};

use crate::engine::{
    event::{By, Presence},
    ids::{AskId, GateId, ItemId},
    policy::{FinalDelivery, OnLimit, Plan},
    time::At,
};

/// What a gate is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
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
pub enum Choice {
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

/// A gate that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub id: GateId,
    /// What it is about.
    pub about: About,
    /// Why the session waits, in words.
    pub reason: String,
    /// The hook that it is about.
    pub hook: Option<String>,
    /// The held items that it is about.
    pub items: Vec<ItemId>,
    /// The agent's request that it is about.
    pub ask: Option<AskId>,
    /// The answers that it takes.
    pub choices: Vec<Choice>,
    /// When it opened.
    pub opened: At,
}

/// The gates of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gates {
    /// The one that waits.
    pub open: Option<Gate>,
    /// The last number given.
    pub last: GateId,
}

/// What becomes of a gate that no person has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The policy or the timeout answers.
    Answer(Choice, By),
    /// It waits.
    Wait,
    /// It waits, and nobody is there.
    NobodyThere,
}

impl About {
    /// The answers that a person can give; at a permission, the agent says.
    pub const fn choices(self) -> &'static [Choice] {
        use Choice::{
            Abort, Approve, Cancel, Complete, Continue, Disable, Ignore, Leave, Message, Retry, Send, Skip, Stop,
            Switch, Wait,
        };
        match self {
            Self::FinalDelivery | Self::Delivery => &[Approve, Skip],
            Self::RetryLimit => &[Continue, Send, Ignore, Disable, Abort],
            Self::Escalation => &[Continue, Message, Complete, Abort],
            Self::Errors => &[Continue, Send, Abort],
            Self::BrokenHook => &[Disable, Retry, Abort],
            Self::Permission => &[Cancel],
            Self::Budget => &[Continue, Stop, Abort],
            Self::UsageLimit => &[Wait, Retry, Switch, Abort],
            Self::Tampered => &[Ignore, Send, Abort],
            Self::Submit => &[Retry, Send, Skip, Leave],
            // Nothing merges past a check that failed.
            Self::Merge => &[Retry, Send, Leave],
        }
    }

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

impl Choice {
    /// Whether the session leaves its phase instead of continuing from there.
    pub(super) const fn leaves_the_loop(self) -> bool {
        match self {
            Self::Abort | Self::Fail | Self::Escalate | Self::Complete | Self::Stop => true,
            Self::Approve
            | Self::Skip
            | Self::Continue
            | Self::Send
            | Self::Message
            | Self::Ignore
            | Self::Disable
            | Self::Retry
            | Self::Wait
            | Self::Switch
            | Self::AllowOnce
            | Self::AllowAlways
            | Self::RejectOnce
            | Self::RejectAlways
            | Self::Leave
            | Self::Cancel => false,
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

impl Gate {
    /// The choice that is meant: to write to the agent is called differently where it ends a turn and where it begins one.
    pub(super) fn understood(&self, choice: Choice) -> Choice {
        let other = match choice {
            Choice::Send => Choice::Message,
            Choice::Message => Choice::Send,
            Choice::Approve
            | Choice::Skip
            | Choice::Continue
            | Choice::Ignore
            | Choice::Disable
            | Choice::Retry
            | Choice::Wait
            | Choice::Switch
            | Choice::Complete
            | Choice::Escalate
            | Choice::Fail
            | Choice::Stop
            | Choice::AllowOnce
            | Choice::AllowAlways
            | Choice::RejectOnce
            | Choice::RejectAlways
            | Choice::Leave
            | Choice::Cancel
            | Choice::Abort => return choice,
        };
        if self.choices.contains(&other) { other } else { choice }
    }

    /// When the timeout answers, if there is one.
    pub fn deadline(&self, plan: &Plan) -> Option<At> {
        (!plan.gates.timeout.is_zero()).then(|| self.opened.after(plan.gates.timeout))
    }

    pub(crate) fn unanswered(&self, plan: &Plan, presence: Presence, now: At) -> Unanswered {
        if let Some(choice) = self.standing_answer(plan, presence) {
            return Unanswered::Answer(choice, By::Policy);
        }
        match self.deadline(plan) {
            Some(deadline) if now >= deadline => Unanswered::Answer(self.auto(plan), By::Timeout),
            None if presence == Presence::Unattended => Unanswered::NobodyThere,
            Some(_) | None => Unanswered::Wait,
        }
    }

    /// The answer that is known before anybody is asked.
    pub(super) fn standing_answer(&self, plan: &Plan, presence: Presence) -> Option<Choice> {
        let unattended = presence == Presence::Unattended;
        match self.about {
            About::FinalDelivery => match (plan.gates.final_delivery, presence) {
                (Some(FinalDelivery::Auto), _) | (None, Presence::Unattended) => Some(Choice::Approve),
                (Some(FinalDelivery::Skip), _) => Some(Choice::Skip),
                (Some(FinalDelivery::Ask), _) | (None, Presence::Attended) => None,
            },
            // It is opened only where the config says `ask`: even with nobody there that means a person.
            About::Delivery | About::Permission | About::UsageLimit => None,
            About::RetryLimit
            | About::Escalation
            | About::Errors
            | About::BrokenHook
            | About::Budget
            | About::Tampered
            | About::Submit
            | About::Merge => unattended.then(|| self.auto(plan)),
        }
    }

    /// What happens with nobody there, or nobody for too long.
    fn auto(&self, plan: &Plan) -> Choice {
        match self.about {
            About::FinalDelivery | About::Delivery => Choice::Approve,
            About::RetryLimit => match plan.on_limit {
                OnLimit::Complete => Choice::Ignore,
                OnLimit::Escalate => Choice::Escalate,
                OnLimit::Abort => Choice::Abort,
            },
            About::Escalation | About::Tampered => Choice::Escalate,
            About::Errors => Choice::Fail,
            About::BrokenHook => Choice::Disable,
            About::Permission => {
                let no = [Choice::RejectOnce, Choice::RejectAlways].into_iter().find(|no| self.choices.contains(no));
                no.unwrap_or(Choice::Cancel)
            }
            About::Budget => Choice::Stop,
            About::UsageLimit => Choice::Wait,
            About::Submit | About::Merge => Choice::Leave,
        }
    }
}
