//! Stop decisions: whether the session is complete, goes on, or needs a person.

pub mod promise;
pub mod rule;

use serde::{Deserialize, Serialize};

use super::policy::StopHook;
use promise::Promise;

/// What is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The work is done.
    Complete,
    /// Another iteration.
    Continue,
    /// A person has to look.
    Escalate,
}

/// A decision and its grounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopDecision {
    /// The hook that decided.
    pub hook: String,
    /// What.
    pub action: Action,
    /// Why.
    pub reason: String,
}

/// Asks the hooks in order: the first that completes or escalates decides, otherwise the last one's word stands.
pub fn decide(hooks: &[StopHook], last_message: &str) -> StopDecision {
    let mut standing = StopDecision {
        hook: "default".into(),
        action: Action::Continue,
        reason: "No hooks registered for this task".into(),
    };
    for hook in hooks {
        standing = ask(hook, last_message);
        if standing.action != Action::Continue {
            break;
        }
    }
    standing
}

fn ask(hook: &StopHook, last_message: &str) -> StopDecision {
    let (name, promises_count) = match hook {
        StopHook::Default => ("default", true),
        StopHook::Promise => ("promise", true),
        StopHook::Validation => ("validation", false),
        // The config warns that this version does not run them.
        StopHook::Command(command) => (command.as_str(), false),
    };
    let promise = if promises_count { Promise::strongest(last_message) } else { None };
    let signalled = |what: &str, word: &str| format!("Agent signaled {what} via <promise>{word}</promise>");
    let (action, reason) = match promise {
        Some(Promise::Complete) => (Action::Complete, signalled("completion", "COMPLETE")),
        Some(Promise::Escalate) => (Action::Escalate, signalled("escalation", "ESCALATE")),
        Some(Promise::Blocked) => (Action::Escalate, signalled("that it is blocked", "BLOCKED")),
        None => (Action::Continue, "Iteration in progress".into()),
    };
    StopDecision { hook: name.into(), action, reason }
}
