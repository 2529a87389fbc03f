//! The wording of gates: what happened, and what each answer does.
//!
//! One table for the screen, the command line and messages. Which answers a gate accepts is in
//! [`crate::engine::gate::kind::GateKind::response`].

use std::borrow::Cow;

use jiff::tz::TimeZone;

use super::text::{counted, plain, plain_line, plural, readable_size};
use crate::{
    engine::{
        SessionState,
        event::{Actor, ActorKind},
        gate::{
            Gate,
            event::GateGrants,
            grants::granted,
            kind::{GateChoice, GateKind},
            subject::GateSubject,
        },
    },
    present::usage,
};

/// The longest name of a hook in a title, in characters.
const NAME: usize = 40;

/// How an answer is shown: a key, what it does, and what follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChoiceWording {
    /// The key on the screen, besides its number.
    pub letter: char,
    pub label: Cow<'static, str>,
    /// What follows. Empty if the label says all of it.
    pub effect: Cow<'static, str>,
}

/// The figures in the wording of answers, as far as they are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GateFigures {
    /// How many retries the user would grant.
    pub retries: Option<u32>,
    /// The size of the items that would be sent.
    pub bytes: Option<u64>,
    /// Whether hooks keep a prompt back.
    pub keeps_prompt: bool,
    /// Whether a message is sent instead of it.
    pub replaces_prompt: bool,
}

impl GateFigures {
    pub fn of(state: &SessionState, gate: &Gate) -> Self {
        let grants = granted(state, GateChoice::Continue);
        let retries = grants.as_ref().and_then(GateGrants::most_retries);
        let keeps_prompt = state.prompt_kept_back_at(gate).is_some();
        Self {
            retries,
            bytes: None,
            keeps_prompt,
            replaces_prompt: keeps_prompt && state.message_replaces_prompt(),
        }
    }
}

/// What an answer does at a gate of this kind.
pub fn choice_words(kind: GateKind, choice: GateChoice, figures: GateFigures) -> ChoiceWording {
    let (letter, label, effect) = fixed_words(kind, choice);
    let words = ChoiceWording {
        letter,
        label: label.into(),
        effect: effect.into(),
    };
    match (kind, choice, figures) {
        (GateKind::FinalDelivery, GateChoice::Approve, GateFigures { bytes: Some(0), .. }) => {
            ChoiceWording {
                label: "End; nothing is ticked".into(),
                effect: "".into(),
                ..words
            }
        }
        (GateKind::Delivery, GateChoice::Approve, GateFigures { bytes: Some(0), .. }) => {
            ChoiceWording {
                label: "Continue; nothing is ticked".into(),
                effect: "".into(),
                ..words
            }
        }
        (
            GateKind::RetryLimit,
            GateChoice::Continue,
            GateFigures {
                retries: Some(n), ..
            },
        ) => ChoiceWording {
            label: format!("Retry {n} more {}", plural(n, "time")).into(),
            ..words
        },
        (
            _,
            GateChoice::Approve,
            GateFigures {
                bytes: Some(bytes), ..
            },
        ) => ChoiceWording {
            effect: format!("{effect}, {}", readable_size(bytes)).into(),
            ..words
        },
        (
            _,
            GateChoice::Continue,
            GateFigures {
                keeps_prompt: true, ..
            },
        ) => ChoiceWording {
            label: "Send the prompt".into(),
            effect: "as it is".into(),
            ..words
        },
        (
            _,
            GateChoice::Message,
            GateFigures {
                replaces_prompt: true,
                ..
            },
        ) => ChoiceWording {
            effect: "sent instead of this prompt".into(),
            ..words
        },
        (_, _, _) => words,
    }
}

const fn fixed_words(kind: GateKind, choice: GateChoice) -> (char, &'static str, &'static str) {
    match (kind, choice) {
        (GateKind::Proposal, GateChoice::Approve) => {
            ('a', "Approve these tasks", "`creel plan` queues them")
        }
        (_, GateChoice::Edit) => ('t', "Edit the tasks…", "then approve the changed ones"),
        (GateKind::FinalDelivery, GateChoice::Approve) => {
            ('s', "Send the ticked items, then end", "one last prompt")
        }
        (_, GateChoice::Approve) => ('s', "Send the ticked items", "with the next prompt"),
        (GateKind::FinalDelivery, GateChoice::Skip) => {
            ('n', "End without sending", "they stay in the journal")
        }
        (GateKind::Submit, GateChoice::Skip) => {
            ('s', "Skip this check", "and continue with the next one")
        }
        (_, GateChoice::Skip) => (
            'n',
            "Continue without sending",
            "creel marks the items as skipped",
        ),
        (GateKind::RetryLimit, GateChoice::Continue) => ('r', "Retry again, up to the limit", ""),
        (GateKind::Budget, GateChoice::Continue) => (
            'g',
            "Grant the same budget again",
            "creel asks again when it is used up",
        ),
        (_, GateChoice::Continue) => ('c', "Continue", "with the next iteration"),
        (GateKind::Submit | GateKind::Merge, GateChoice::Send) => {
            ('w', "Write to the agent…", "then every check runs again")
        }
        (GateKind::Proposal, GateChoice::Send) => (
            'w',
            "Write to the agent…",
            "what should be different; it proposes again",
        ),
        (GateKind::Tampered, GateChoice::Send) => (
            'w',
            "Write to the agent…",
            "for example to undo the changes",
        ),
        (_, GateChoice::Send) => (
            'w',
            "Write to the agent…",
            "sent at once, and the counter starts again",
        ),
        (_, GateChoice::Message) => ('w', "Write to the agent…", "sent with the next prompt"),
        (GateKind::Tampered, GateChoice::Ignore) => ('a', "Accept the changes", "and continue"),
        (_, GateChoice::Ignore) => (
            'a',
            "Accept as it is",
            "the iteration counts as forced, not as passed",
        ),
        (_, GateChoice::Disable) => ('t', "Turn this hook off", "for this session"),
        (_, GateChoice::Merge) => ('m', "Merge it", "after the checks before a merge"),
        (GateKind::Submit | GateKind::Merge, GateChoice::Retry) => {
            ('r', "Run every check again", "")
        }
        (GateKind::UsageLimit, GateChoice::Retry) => ('r', "Send the turn again now", ""),
        (_, GateChoice::Retry) => ('r', "Run the hook again", ""),
        (GateKind::Merge, GateChoice::Wait) => (
            'r',
            "Keep waiting",
            "creel asks again after the next commit",
        ),
        (_, GateChoice::Wait) => (
            'w',
            "Wait for the reset",
            "then creel sends the same turn again",
        ),
        (_, GateChoice::Switch) => ('s', "Switch to another agent", "it takes the turn now"),
        (_, GateChoice::Complete) => ('n', "End as complete", "the session's work is done"),
        (_, GateChoice::Stop) => ('n', "End here", "creel does not send pending items"),
        (_, GateChoice::Abort) => ('b', "Abort", "you can resume later"),
        (_, GateChoice::AllowOnce) => ('y', "Allow once", ""),
        (_, GateChoice::AllowAlways) => ('a', "Always allow this exact request", ""),
        (_, GateChoice::AllowEdits) => {
            ('s', "Allow all edits in this project for this session", "")
        }
        (_, GateChoice::RejectOnce) => ('n', "Deny", "the turn continues"),
        (_, GateChoice::RejectAlways) => ('d', "Always deny this exact request", ""),
        (_, GateChoice::Answer) => ('w', "Write an answer…", "the agent gets it at once"),
        (_, GateChoice::Decline) => ('n', "Decline", "the turn continues without an answer"),
        (_, GateChoice::Cancel) => ('c', "Cancel the turn", "the agent gets no answer"),
        (GateKind::Merge, GateChoice::Leave) => (
            'b',
            "Leave the branch as it is",
            "try again with `creel merge`",
        ),
        (GateKind::Proposal, GateChoice::Leave) => ('n', "Queue nothing", "the proposal stays"),
        (_, GateChoice::Leave) => (
            'b',
            "Leave the branch as it is",
            "try again with `creel submit`",
        ),
        (_, GateChoice::Escalate) => ('x', "End as escalated", "you can resume later"),
        (_, GateChoice::Fail) => ('f', "End as failed", "you can resume later"),
    }
}

/// Which answer a gate got, in the words of the choice. Without the kind of the gate, the choice
/// has only its name.
pub fn answer_words(
    kind: Option<GateKind>,
    choice: GateChoice,
    retries: Option<u32>,
    by: &Actor,
) -> String {
    let is_withdrawn = choice == GateChoice::Cancel && by.by == ActorKind::Policy;
    if is_withdrawn && matches!(kind, Some(GateKind::Review | GateKind::Merge)) {
        return "The gate closed: the pull request changed".to_owned();
    }
    let words = kind.map(|kind| {
        choice_words(
            kind,
            choice,
            GateFigures {
                retries,
                ..GateFigures::default()
            },
        )
        .label
    });
    let words = words.unwrap_or_else(|| choice.name().into());
    let actor = match by.by {
        ActorKind::Tui | ActorKind::Cli => "You chose",
        ActorKind::Policy | ActorKind::Timeout => "creel chose",
        ActorKind::Mcp
        | ActorKind::Nats
        | ActorKind::Agent
        | ActorKind::Hook
        | ActorKind::OtherSession => "Answered",
    };
    format!(
        "{actor}: {}{}",
        words.trim_end_matches('…'),
        answer_origin(by)
    )
}

/// Where an answer came from, unless it was the user at the session's screen.
pub fn answer_origin(by: &Actor) -> String {
    let origin = match by.by {
        ActorKind::Tui => return String::new(),
        ActorKind::Cli => "on the command line".to_owned(),
        ActorKind::Mcp => "by an MCP client".to_owned(),
        ActorKind::Nats => {
            let claimed = if by.claimed { " (claimed)" } else { "" };
            match (&by.user, &by.host) {
                (Some(user), Some(host)) => {
                    format!(
                        "by {}@{}{claimed}",
                        plain_line(user, NAME),
                        plain_line(host, NAME)
                    )
                }
                (Some(one), None) | (None, Some(one)) => {
                    format!("by {}{claimed}", plain_line(one, NAME))
                }
                (None, None) => "from another machine".to_owned(),
            }
        }
        ActorKind::Agent | ActorKind::OtherSession => "by the agent".to_owned(),
        ActorKind::Hook => "by a hook".to_owned(),
        ActorKind::Policy => "by policy".to_owned(),
        ActorKind::Timeout => "after the timeout".to_owned(),
    };
    format!(" · {origin}")
}

/// What happened, in one line.
pub fn gate_title(state: &SessionState, gate: &Gate) -> String {
    let hook = |name: &str| plain_line(name, NAME);
    match &gate.subject {
        GateSubject::FinalDelivery { items } => not_sent_at_the_end(items.len()),
        GateSubject::Delivery { items } => not_sent(items.len()),
        GateSubject::RetryLimit { hook: name } if state.retry.used == 0 => {
            format!("{} blocks the turn, and it has no retries", hook(name))
        }
        GateSubject::RetryLimit { hook: name } => {
            format!(
                "{} still fails after {}",
                hook(name),
                counted(state.retry.used, "retry")
            )
        }
        GateSubject::Escalation {
            failed: Some(failed),
        } if state.prompt_kept_back_at(gate).is_some() => {
            format!("{} keeps this prompt back", hook(&failed.hook))
        }
        GateSubject::Escalation {
            failed: Some(failed),
        } if state.is_stopped_at(gate) => {
            format!("{} stopped the session", hook(&failed.hook))
        }
        GateSubject::Escalation {
            failed: Some(failed),
        } => format!("{} failed and needs you", hook(&failed.hook)),
        GateSubject::Escalation { failed: None } => "The session needs your decision".to_owned(),
        GateSubject::Errors if state.retry.errors < 2 => "The turn failed".to_owned(),
        GateSubject::Errors => format!("{} failed in a row", counted(state.retry.errors, "turn")),
        GateSubject::BrokenHook(failed) if gate.subject.is_broken_check() => {
            format!("{} cannot start", hook(&failed.hook))
        }
        GateSubject::BrokenHook(failed) => {
            format!("{} could not run, twice in a row", hook(&failed.hook))
        }
        GateSubject::Permission { .. } => match state.requests.waiting.len() {
            0 | 1 => "The agent asks for permission".to_owned(),
            waiting => format!(
                "The agent asks for permission · {} more after this",
                waiting - 1
            ),
        },
        GateSubject::Question { .. } => "The agent asks you something".to_owned(),
        GateSubject::Budget => "The budget is used up".to_owned(),
        GateSubject::UsageLimit => format!(
            "{} has reached its usage limit",
            hook(state.agent_choice().agent())
        ),
        GateSubject::Tampered if !state.unsettled.tests.is_empty() => {
            "The tests may be weaker than at the start".to_owned()
        }
        GateSubject::Tampered => "Files changed that agents must not change".to_owned(),
        GateSubject::Review { items } => {
            format!("The pull request has {}", counted(items.len(), "new item"))
        }
        GateSubject::Pipeline { hook: name, .. } if name.is_empty() => {
            if gate.choices.contains(&GateChoice::Merge) {
                "The pull request is ready to be merged".to_owned()
            } else if gate.kind() == GateKind::Submit {
                "The submit needs you".to_owned()
            } else {
                "The pull request still needs work".to_owned()
            }
        }
        GateSubject::Pipeline {
            pipeline,
            hook: name,
        } => {
            format!("The {} waits: {} failed", pipeline.name(), hook(name))
        }
        GateSubject::Proposal(proposal) => {
            let tasks = counted(proposal.tasks.len(), "task");
            if state.proposal.edited.is_some() {
                format!("The changed proposal has {tasks}")
            } else {
                format!("The agent proposes {tasks}")
            }
        }
    }
}

/// What a delivery waits for.
pub fn not_sent(items: usize) -> String {
    let have = if items == 1 { "has" } else { "have" };
    format!(
        "{} {have} not been sent to the agent yet",
        counted(items, "item")
    )
}

/// The same at the end of the session.
pub fn not_sent_at_the_end(items: usize) -> String {
    format!("Finished. {}", not_sent(items))
}

/// Why the session asks, as far as the title does not say it.
pub fn gate_reason(state: &SessionState, gate: &Gate, zone: &TimeZone) -> String {
    match &gate.subject {
        GateSubject::RetryLimit { .. } => {
            let feedback = state
                .phase
                .dispatch()
                .and_then(|dispatch| state.retries().feedback(dispatch));
            plain(&feedback.map_or_else(|| gate.reason.clone(), |feedback| feedback.reason))
        }
        GateSubject::BrokenHook(_) if gate.subject.is_broken_check() => plain(&gate.reason),
        GateSubject::Pipeline { hook, .. } if hook.is_empty() => plain(&gate.reason),
        GateSubject::Escalation { failed: Some(_) }
            if state.is_stopped_at(gate) || state.prompt_kept_back_at(gate).is_some() =>
        {
            plain(&gate.reason)
        }
        // The title and the body say all of it.
        GateSubject::FinalDelivery { .. }
        | GateSubject::Delivery { .. }
        | GateSubject::Review { .. }
        | GateSubject::BrokenHook(_)
        | GateSubject::Budget
        | GateSubject::Tampered
        | GateSubject::Escalation { failed: Some(_) }
        | GateSubject::Pipeline { .. }
        | GateSubject::Proposal(_) => String::new(),
        GateSubject::Permission { .. } | GateSubject::Question { .. } => {
            let permissions = state.permissions();
            let ask = permissions.asked_at(gate);
            let words = ask.and_then(|ask| permissions.hook_decision_words(ask));
            plain(&words.unwrap_or_default())
        }
        GateSubject::Errors => plain(state.turns.last_error.as_deref().unwrap_or(&gate.reason)),
        GateSubject::UsageLimit => match &state.limits.hold {
            Some(hold) => usage::reset_time(hold, gate.opened, zone),
            None => plain(&gate.reason),
        },
        GateSubject::Escalation { failed: None } => plain(&gate.reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_of_a_gate_has_its_own_letter_and_label() {
        for kind in GateKind::ALL {
            let words: Vec<ChoiceWording> = kind
                .choices()
                .into_iter()
                .map(|choice| choice_words(kind, choice, GateFigures::default()))
                .collect();
            for (n, one) in words.iter().enumerate() {
                assert!(!one.label.is_empty());
                for other in &words[..n] {
                    assert_ne!(
                        one.letter, other.letter,
                        "{kind:?}: {} and {}",
                        one.label, other.label
                    );
                    assert_ne!(one.label, other.label, "{kind:?}");
                }
            }
        }
    }

    #[test]
    fn figures_are_named() {
        let figures = GateFigures {
            retries: Some(5),
            bytes: Some(1_234),
            ..GateFigures::default()
        };
        let label = |kind, choice| choice_words(kind, choice, figures);
        assert_eq!(
            label(GateKind::RetryLimit, GateChoice::Continue).label,
            "Retry 5 more times"
        );
        let one = GateFigures {
            retries: Some(1),
            ..GateFigures::default()
        };
        assert_eq!(
            choice_words(GateKind::RetryLimit, GateChoice::Continue, one).label,
            "Retry 1 more time"
        );
        assert_eq!(
            label(GateKind::FinalDelivery, GateChoice::Approve).effect,
            "one last prompt, 1.2 kB"
        );
    }
}
