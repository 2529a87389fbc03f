//! Hooks that are written for Claude Code: its events, and the one table of what creel makes of
//! them.
//!
//! Owns the point of each event, the words that a matcher selects, and what a block means there.
//! Does not read settings files (see `crate::config`) and does not build the input of a hook (see
//! `crate::hooks`).
//!
//! # Invariants
//! - creel runs an event of the table, or [`offer`] says why it does not. No hook is dropped
//!   silently.

use serde::{Deserialize, Serialize};

use crate::engine::{
    hooks::{point::HookPoint, tool_matcher::ClaudeToolEvent},
    time::TimeSpan,
};

/// An event of Claude Code whose hooks creel runs. Records have Claude Code's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClaudeEvent {
    SessionStart,
    UserPromptSubmit,
    Stop,
    StopFailure,
    Notification,
    TaskCompleted,
    Elicitation,
    ElicitationResult,
    SessionEnd,
    /// One about a tool call. Its matcher is the hook's own.
    #[serde(untagged)]
    Tool(ClaudeToolEvent),
}

/// What makes a hook one of Claude Code's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaudeHandler {
    pub event: ClaudeEvent,
    /// The words of the event that its matcher selects, such as `resume`. None: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<Vec<String>>,
    /// The settings file that it comes from. Its command has no placeholders of creel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The agents of the session that read this file themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_to: Vec<String>,
}

/// What a hook achieves that blocks: with exit code 2, or in its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaudeBlock {
    /// Nothing: the event cannot be blocked.
    NoEffect,
    /// The agent works on, with the reason.
    SendsBack,
    /// The prompt waits for the user.
    NeedsUser,
    /// What happened stays. The agent gets the reason with its next prompt.
    TellsAgent,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct ClaudeEventRules {
    pub name: &'static str,
    pub point: HookPoint,
    /// The words that its matcher can select. Empty: it has no matcher.
    pub words: &'static [&'static str],
    pub block: ClaudeBlock,
    /// Whether plain output of a run that ended well is context for the agent.
    pub output_is_context: bool,
    /// The default timeout.
    pub timeout: TimeSpan,
    /// Whether an agent with hooks of its own has the same event. creel's gates and tasks are its
    /// own.
    pub agents_have_it: bool,
}

/// Why a turn failed, in Claude Code's words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCause {
    AuthenticationFailed,
    BillingError,
    InvalidRequest,
    RateLimit,
    Overloaded,
    ServerError,
    #[default]
    Unknown,
}

/// The words of a failed turn.
const FAILURES: [&str; 7] = [
    FailureCause::AuthenticationFailed.name(),
    FailureCause::BillingError.name(),
    FailureCause::InvalidRequest.name(),
    FailureCause::RateLimit.name(),
    FailureCause::Overloaded.name(),
    FailureCause::ServerError.name(),
    FailureCause::Unknown.name(),
];

impl FailureCause {
    pub const fn name(self) -> &'static str {
        match self {
            Self::AuthenticationFailed => "authentication_failed",
            Self::BillingError => "billing_error",
            Self::InvalidRequest => "invalid_request",
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::ServerError => "server_error",
            Self::Unknown => "unknown",
        }
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    pub(crate) fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

impl ClaudeEvent {
    pub const ALL: [Self; 13] = [
        Self::SessionStart,
        Self::UserPromptSubmit,
        Self::Stop,
        Self::StopFailure,
        Self::Notification,
        Self::TaskCompleted,
        Self::Elicitation,
        Self::ElicitationResult,
        Self::SessionEnd,
        Self::Tool(ClaudeToolEvent::PreToolUse),
        Self::Tool(ClaudeToolEvent::PermissionRequest),
        Self::Tool(ClaudeToolEvent::PostToolUse),
        Self::Tool(ClaudeToolEvent::PostToolUseFailure),
    ];

    /// The table.
    pub const fn rules(self) -> ClaudeEventRules {
        let usual = ClaudeEventRules {
            name: "",
            point: HookPoint::Stop,
            words: &[],
            block: ClaudeBlock::NoEffect,
            output_is_context: false,
            timeout: TimeSpan::secs(600),
            agents_have_it: true,
        };
        match self {
            Self::SessionStart => ClaudeEventRules {
                name: "SessionStart",
                point: HookPoint::SessionStart,
                words: &["startup", "resume"],
                output_is_context: true,
                ..usual
            },
            Self::UserPromptSubmit => ClaudeEventRules {
                name: "UserPromptSubmit",
                point: HookPoint::PrePrompt,
                block: ClaudeBlock::NeedsUser,
                output_is_context: true,
                timeout: TimeSpan::secs(30),
                ..usual
            },
            Self::Stop => ClaudeEventRules {
                name: "Stop",
                point: HookPoint::Stop,
                block: ClaudeBlock::SendsBack,
                // It is a check, even if the agent runs it too.
                agents_have_it: false,
                ..usual
            },
            Self::StopFailure => ClaudeEventRules {
                name: "StopFailure",
                point: HookPoint::OnError,
                words: &FAILURES,
                ..usual
            },
            Self::Notification => ClaudeEventRules {
                name: "Notification",
                point: HookPoint::OnGate,
                words: &["permission_prompt", "idle_prompt", "elicitation_dialog"],
                agents_have_it: false,
                ..usual
            },
            Self::TaskCompleted => ClaudeEventRules {
                name: "TaskCompleted",
                point: HookPoint::OnTaskComplete,
                block: ClaudeBlock::TellsAgent,
                agents_have_it: false,
                ..usual
            },
            Self::Elicitation => ClaudeEventRules {
                name: "Elicitation",
                point: HookPoint::OnQuestion,
                block: ClaudeBlock::TellsAgent,
                ..usual
            },
            Self::ElicitationResult => ClaudeEventRules {
                name: "ElicitationResult",
                point: HookPoint::OnQuestion,
                block: ClaudeBlock::TellsAgent,
                ..usual
            },
            Self::SessionEnd => ClaudeEventRules {
                name: "SessionEnd",
                point: HookPoint::SessionEnd,
                words: &["other"],
                timeout: TimeSpan::secs(60),
                ..usual
            },
            Self::Tool(event) => ClaudeEventRules {
                name: event.name(),
                point: event.point(),
                block: ClaudeBlock::TellsAgent,
                ..usual
            },
        }
    }

    pub const fn name(self) -> &'static str {
        self.rules().name
    }

    pub const fn point(self) -> HookPoint {
        self.rules().point
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }
}

/// How many bytes of what one of its hooks prints reach the agent.
pub const OUTPUT_LIMIT: usize = 10_000;

/// What creel makes of an event of Claude Code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaudeOffer {
    Runs(ClaudeEvent),
    /// Why creel does not run its hooks.
    Refused(&'static str),
    Unknown,
}

/// What creel makes of the event with this name.
pub fn offer(event: &str) -> ClaudeOffer {
    if let Some(event) = ClaudeEvent::named(event) {
        return ClaudeOffer::Runs(event);
    }
    let refused = refused(|name| name == event);
    refused.map_or(ClaudeOffer::Unknown, |(_, why)| ClaudeOffer::Refused(why))
}

/// The event that creel does not run and that this name means, in whatever spelling, and why.
pub fn refused_like(written: &str) -> Option<(&'static str, &'static str)> {
    let letters = |name: &str| name.replace(['_', '-'], "").to_ascii_lowercase();
    refused(|name| letters(name) == letters(written))
}

fn refused(is_it: impl Fn(&str) -> bool) -> Option<(&'static str, &'static str)> {
    let all = REFUSED
        .iter()
        .flat_map(|(names, why)| names.iter().map(move |name| (*name, *why)));
    let mut all = all.filter(|(name, _)| is_it(name));
    all.next()
}

/// The events whose hooks creel does not run, and why.
const REFUSED: &[(&[&str], &str)] = &[
    (
        &["PostToolBatch"],
        "creel has no hook point for it; use `PostToolUse`, which sees each call",
    ),
    (
        &["PermissionDenied"],
        "creel has no hook point for denied calls; use `PreToolUse`, which sees each call before",
    ),
    (
        &["SubagentStart", "SubagentStop"],
        "creel does not see the agent's subagents; a check of the work belongs to `Stop`",
    ),
    (
        &["TaskCreated"],
        "creel has no hook point for new tasks; use `automation`",
    ),
    (
        &[
            "TeammateIdle",
            "InstructionsLoaded",
            "UserPromptExpansion",
            "PreCompact",
            "PostCompact",
            "PreModelSwitch",
            "PostModelSwitch",
        ],
        "only the agent knows when it happens",
    ),
    (
        &["WorktreeCreate", "WorktreeRemove", "Setup"],
        "creel makes worktrees itself; use `worktree.setup`",
    ),
    (
        &["ConfigChange"],
        "creel asks you itself when a turn changes its config",
    ),
    (
        &["FileChanged"],
        "creel compares files when a turn has ended; use `PostToolUse`, `Stop` or `post_iteration`",
    ),
    (
        &["CwdChanged", "DirectoryAdded"],
        "a session of creel stays in its folder",
    ),
    (
        &["MessageDisplay"],
        "hooks cannot change what creel shows; `post_iteration` gets the agent's last message",
    ),
];

impl ClaudeHandler {
    pub fn new(event: ClaudeEvent) -> Self {
        Self {
            event,
            words: None,
            file: None,
            left_to: Vec::new(),
        }
    }

    /// Whether creel leaves it to the agent, which runs it itself.
    pub fn is_left_to(&self, agent: &str) -> bool {
        self.event.rules().agents_have_it && self.left_to.iter().any(|name| name == agent)
    }

    /// Whether its matcher selects the word of an occasion.
    pub(crate) fn selects(&self, word: Option<&str>) -> bool {
        match (&self.words, word) {
            (None, _) | (_, None) => true,
            (Some(words), Some(word)) => words.iter().any(|known| known == word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_called_the_same_in_settings_and_in_records() {
        for event in ClaudeEvent::ALL {
            assert_eq!(serde_json::to_value(event).expect("a name"), event.name());
            assert_eq!(offer(event.name()), ClaudeOffer::Runs(event));
        }
    }

    #[test]
    fn a_failure_is_called_the_same_in_matchers_and_in_records() {
        for word in ClaudeEvent::StopFailure.rules().words {
            let cause: FailureCause =
                serde_json::from_value((*word).into()).expect("a known cause");
            assert_eq!(cause.name(), *word);
        }
    }

    /// All events of Claude Code: creel runs each one, or says why it does not.
    #[test]
    fn what_creel_cannot_run_has_a_reason() {
        let refused: Vec<&str> = REFUSED
            .iter()
            .flat_map(|(names, _)| *names)
            .copied()
            .collect();
        assert_eq!(ClaudeEvent::ALL.len() + refused.len(), 33);
        for name in refused {
            assert!(matches!(offer(name), ClaudeOffer::Refused(_)), "{name}");
        }
        assert_eq!(offer("PreToolUsed"), ClaudeOffer::Unknown);
    }
}
