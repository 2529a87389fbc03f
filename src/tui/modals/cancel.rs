//! The question whether to cancel the turn.

use super::choice_question::{ChoiceQuestion, OfferedChoice};
use crate::engine::input::SessionCommand;

pub fn cancel_question() -> ChoiceQuestion<SessionCommand> {
    let choice = |label: &str, effect: &str, request| OfferedChoice {
        label: label.to_owned(),
        effect: effect.to_owned(),
        request,
    };
    ChoiceQuestion {
        title: "Cancel the turn?".to_owned(),
        text: vec!["The agent stops what it is doing.".to_owned()],
        choices: vec![
            choice(
                "Cancel it",
                "and pause, so that you can write to the agent",
                Some(SessionCommand::CancelTurn),
            ),
            choice("Let it work", "", None),
        ],
        chosen: 1,
    }
}
