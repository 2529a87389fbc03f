//! The answers of a gate as buttons: label, meaning and position.
//!
//! # Invariants
//! - At a permission gate, the agent's options appear in its own words and order. Only "always", which creel remembers
//!   itself, has creel's words and appears once.
//! - No button is wider than its row.
//! - An answer that also applies to later requests is never preselected if there is another.

use unicode_width::UnicodeWidthStr as _;

use crate::{
    engine::{
        conversation::AgentPermissionRequest,
        gate::{
            Gate,
            kind::{GateChoice, GateKind},
        },
    },
    present::text::plain_line,
    tui::text::fit,
};

/// How many characters of an option's name are read.
const LABEL: usize = 120;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerButton {
    pub(super) label: String,
    pub(super) choice: GateChoice,
    /// The id of the agent's option, if the answer is one.
    pub(super) option: Option<String>,
}

pub(super) fn buttons(gate: &Gate, ask: Option<&AgentPermissionRequest>) -> Vec<AnswerButton> {
    let options = ask.map(AgentPermissionRequest::offers).unwrap_or_default().into_iter().map(|offer| {
        let name = plain_line(&offer.name, LABEL);
        let label = if name.is_empty() { offer.choice.name().to_owned() } else { name };
        AnswerButton { label, choice: offer.choice, option: Some(offer.id) }
    });
    let offered = |choice: GateChoice| ask.is_some_and(|ask| ask.option(choice, None).is_some());
    let own = gate.choices.iter().filter(|choice| !offered(**choice));
    options
        .chain(own.map(|choice| AnswerButton { label: choice.name().to_owned(), choice: *choice, option: None }))
        .collect()
}

/// The preselected button: the first that does not apply to later requests, or else the first.
pub(super) fn first(buttons: &[AnswerButton]) -> usize {
    let for_ever = |button: &AnswerButton| matches!(button.choice, GateChoice::AllowAlways | GateChoice::RejectAlways);
    buttons.iter().position(|button| !for_ever(button)).unwrap_or(0)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlacedButton {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) text: String,
}

/// Places the buttons side by side, in as many rows as they need.
pub(super) fn placed(buttons: &[AnswerButton], width: usize) -> Vec<PlacedButton> {
    let (mut row, mut column) = (0, 0);
    let place = |button: &AnswerButton| {
        let text = fit(&format!("[ {} ]", fit(&button.label, width.saturating_sub(4))), width);
        if column > 0 && column + text.width() > width {
            (row, column) = (row + 1, 0);
        }
        let placed = PlacedButton { row, column, text };
        column += placed.text.width() + 1;
        placed
    };
    buttons.iter().map(place).collect()
}

pub(super) fn rows(buttons: &[AnswerButton], width: usize) -> usize {
    placed(buttons, width).last().map_or(1, |placed| placed.row + 1)
}

/// What a button means, after the agent's name for it if there is one.
pub(super) fn meaning(about: GateKind, button: &AnswerButton, width: usize) -> String {
    let means = meaning_of(about, button.choice);
    if button.option.is_none() {
        return fit(means, width);
    }
    let name = fit(&button.label, width.saturating_sub(means.width() + 2));
    fit(&format!("{name}: {means}"), width)
}

/// What an answer leads to.
const fn meaning_of(about: GateKind, choice: GateChoice) -> &'static str {
    match (about, choice) {
        (GateKind::FinalDelivery, GateChoice::Approve) => "Send the ticked items, then end",
        (_, GateChoice::Approve) => "Send the ticked items with the next prompt",
        (GateKind::Submit, GateChoice::Skip) => "Continue without this check",
        (GateKind::FinalDelivery, GateChoice::Skip) => "End without sending",
        (_, GateChoice::Skip) => "Continue without sending",
        (GateKind::RetryLimit, GateChoice::Continue) => "Allow the same number of retries again",
        (GateKind::Budget, GateChoice::Continue) => "Grant the same budget again",
        (_, GateChoice::Continue) => "Start the next iteration",
        (GateKind::Submit | GateKind::Merge, GateChoice::Send) => "Write to the agent; then every check runs again",
        (GateKind::Tampered, GateChoice::Send) => "Write to the agent, for example to undo the changes",
        (_, GateChoice::Send) => "Write to the agent; the count starts again",
        (_, GateChoice::Message) => "Continue with a message for the agent",
        (GateKind::Tampered, GateChoice::Ignore) => "Accept these changes and continue",
        (_, GateChoice::Ignore) => "Accept the turn as it is; the iteration counts as forced",
        (_, GateChoice::Disable) => "Do not run this hook again in this session",
        (GateKind::Submit | GateKind::Merge, GateChoice::Retry) => "Run every check again",
        (GateKind::UsageLimit, GateChoice::Retry) => "Send the turn again now",
        (_, GateChoice::Retry) => "Run the hook again",
        (_, GateChoice::Wait) => "Wait for the reset, then send the same turn again",
        (_, GateChoice::Switch) => "Let another agent take the turn now",
        (_, GateChoice::Complete) => "End the session as complete",
        (_, GateChoice::Abort) => "Abort (you can resume later)",
        (_, GateChoice::Stop) => "End here without sending pending items",
        (_, GateChoice::AllowOnce) => "Allow this once",
        (_, GateChoice::AllowAlways) => "Allow this exact request from now on",
        (_, GateChoice::RejectOnce) => "Reject it; the turn continues",
        (_, GateChoice::RejectAlways) => "Reject this exact request from now on",
        (_, GateChoice::Leave) => "Leave the branch as it is; try again with `creel submit` or `creel merge`",
        (_, GateChoice::Cancel) => "Do not answer; end the agent's turn",
        (_, GateChoice::Escalate | GateChoice::Fail) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn button(label: &str) -> AnswerButton {
        AnswerButton { label: label.into(), choice: GateChoice::AllowOnce, option: Some(label.into()) }
    }

    #[test]
    fn buttons_go_on_in_the_next_row_and_none_is_wider_than_a_row() {
        let all = ["Yes", "Yes, and don't ask again for `cargo test`", "No, 日本語", "x"].map(button);
        let text = |width| {
            let mut rows = vec![String::new(); rows(&all, width)];
            for PlacedButton { row, column, text } in placed(&all, width) {
                let gap = column - rows[row].width();
                rows[row] += &format!("{}{text}", " ".repeat(gap));
            }
            rows
        };
        assert_eq!(text(80), ["[ Yes ] [ Yes, and don't ask again for `cargo test` ] [ No, 日本語 ] [ x ]"]);
        assert_eq!(text(24), ["[ Yes ]", "[ Yes, and don't ask … ]", "[ No, 日本語 ] [ x ]"]);
        assert!((0..30).all(|width| text(width).iter().all(|row| row.width() <= width)));
    }

    #[test]
    fn the_meaning_is_said_even_where_the_name_is_long() {
        let long = button("Yes, and do not ask again for anything in this folder");
        assert_eq!(meaning(GateKind::Permission, &long, 30), "Yes, and do …: Allow this once");
        assert_eq!(meaning(GateKind::Permission, &button("Yes"), 80), "Yes: Allow this once");
    }
}
