//! The question whether to leave, and what to do with the session.

use super::choice_question::{ChoiceQuestion, OfferedChoice};
use crate::tui::model::CloseBehavior;

/// What the user wants to happen to a running session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaveChoice {
    LeaveRunning,
    StopAfterIteration,
    StopNow,
}

/// Asks what should happen to the session. `again` is the quit key with a modifier, such as
/// `ctrl-c`: pressed at the question, it leaves immediately.
pub fn leave_question(tie: CloseBehavior, again: Option<&str>) -> ChoiceQuestion<LeaveChoice> {
    let choice = |label: &str, effect: &str, request| OfferedChoice {
        label: label.to_owned(),
        effect: effect.to_owned(),
        request,
    };
    let leave = choice(
        "Leave it running",
        "`creel attach` shows it",
        Some(LeaveChoice::LeaveRunning),
    );
    let others = [
        choice(
            "Stop after this iteration",
            "the turn finishes first",
            Some(LeaveChoice::StopAfterIteration),
        ),
        choice(
            "Stop now",
            "cancels the turn and leaves",
            Some(LeaveChoice::StopNow),
        ),
        choice("Stay", "", None),
    ];
    let at_once = again.map(|again| format!("Press {again} again to leave immediately."));
    ChoiceQuestion {
        title: "Leave?".to_owned(),
        text: ["The session is still running.".to_owned()]
            .into_iter()
            .chain(at_once)
            .collect(),
        choices: Some(leave)
            .filter(|_| tie == CloseBehavior::Loose)
            .into_iter()
            .chain(others)
            .collect(),
        chosen: 0,
    }
}
