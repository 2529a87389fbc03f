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
        (GateKind::FinalDelivery, GateChoice::Approve) => "one prompt carries what is approved; then the session ends",
        (_, GateChoice::Approve) => "what is approved goes with the next prompt",
        (GateKind::Submit, GateChoice::Skip) => "go on without this check",
        (_, GateChoice::Skip) => "nothing of it is delivered",
        (GateKind::RetryLimit, GateChoice::Continue) => "as many retries again",
        (GateKind::Budget, GateChoice::Continue) => "as much again; then you are asked again",
        (_, GateChoice::Continue) => "the next iteration",
        (GateKind::Submit | GateKind::Merge, GateChoice::Send) => {
            "write to the agent yourself; then every check runs again"
        }
        (GateKind::Tampered, GateChoice::Send) => "write to the agent, for example to undo the changes",
        (_, GateChoice::Send) => "write to the agent yourself; the count starts again",
        (_, GateChoice::Message) => "go on, with words of your own for the agent",
        (GateKind::Tampered, GateChoice::Ignore) => "accept these changes and continue",
        (_, GateChoice::Ignore) => "accept the turn as it is; the iteration counts as forced",
        (_, GateChoice::Disable) => "this hook does not run any more in this session",
        (GateKind::Submit | GateKind::Merge, GateChoice::Retry) => "run every check once more",
        (GateKind::UsageLimit, GateChoice::Retry) => "send the turn again now",
        (_, GateChoice::Retry) => "run the hook once more",
        (_, GateChoice::Wait) => "wait, then send the same turn again",
        (_, GateChoice::Switch) => "another agent takes the turn now",
        (_, GateChoice::Complete) => "the work is done; end the session as complete",
        (_, GateChoice::Abort) => "give the session up; it can be resumed",
        (_, GateChoice::Stop) => "stop here, and deliver what is held",
        (_, GateChoice::AllowOnce) => "allow this once",
        (_, GateChoice::AllowAlways) => "creel asks again about anything else",
        (_, GateChoice::RejectOnce) => "reject it; the turn continues",
        (_, GateChoice::RejectAlways) => "reject it; creel asks again about anything else",
        (_, GateChoice::Leave) => "leave it; the branch stays, and `creel submit` or `creel merge` tries again",
        (_, GateChoice::Cancel) => "no answer; the agent's turn ends here",
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
        assert_eq!(meaning(GateKind::Permission, &long, 30), "Yes, and do …: allow this once");
        assert_eq!(meaning(GateKind::Permission, &button("Yes"), 80), "Yes: allow this once");
    }
}
