//! The answers of a gate as a numbered list.
//!
//! # Invariants
//! - At a permission gate, the agent's options appear in its own words and order. Only "always",
//!   which creel remembers itself, has creel's words and appears once.
//! - A letter stands for at most one answer, and for none that shares it with another.
//! - An answer that also applies to later requests is never preselected if there is another.

use std::borrow::Cow;

use crate::{
    engine::{
        conversation::AgentPermissionRequest,
        gate::{Gate, kind::GateChoice},
    },
    present::{
        gate_words::{ChoiceWording, GateFigures, choice_words},
        text::plain_line,
    },
};

/// How many characters of an option's name are read.
const LABEL: usize = 120;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerOption {
    pub(super) words: ChoiceWording,
    pub(super) choice: GateChoice,
    /// The id of the agent's option, if the answer is one.
    pub(super) option: Option<String>,
}

pub(super) fn options(
    gate: &Gate,
    ask: Option<&AgentPermissionRequest>,
    figures: GateFigures,
) -> Vec<AnswerOption> {
    let words = |choice| choice_words(gate.kind(), choice, figures);
    let offers = ask
        .map(|ask| ask.offers(gate))
        .unwrap_or_default()
        .into_iter()
        .map(|offer| {
            let (name, own) = (plain_line(&offer.name, LABEL), words(offer.choice));
            let words = if name.is_empty() {
                own
            } else {
                let effect = if offer.choice == GateChoice::Answer {
                    own.effect.clone()
                } else {
                    own_effect(&name, &own)
                };
                ChoiceWording {
                    label: name.into(),
                    effect,
                    ..own
                }
            };
            AnswerOption {
                words,
                choice: offer.choice,
                option: Some(offer.id),
            }
        });
    let offered = |choice: GateChoice| ask.is_some_and(|ask| ask.is_offered(choice));
    let own = gate.choices.iter().filter(|choice| !offered(**choice));
    let asks_for_nothing = ask
        .and_then(AgentPermissionRequest::question)
        .is_some_and(|question| question.fields.is_empty());
    let own = own.map(|choice| AnswerOption {
        words: if *choice == GateChoice::Answer && asks_for_nothing {
            ChoiceWording {
                label: "Done".into(),
                ..words(*choice)
            }
        } else {
            words(*choice)
        },
        choice: *choice,
        option: None,
    });
    offers.chain(own).collect()
}

/// What the agent's own words for an answer may not say: what creel does with it.
fn own_effect(name: &str, words: &ChoiceWording) -> Cow<'static, str> {
    let is_same = name.to_lowercase().contains(&words.label.to_lowercase());
    match words.effect.chars().next() {
        _ if is_same => words.effect.clone(),
        Some(_) => format!("{}: {}", words.label, words.effect).into(),
        None => words.label.clone(),
    }
}

/// The preselected answer: the first that does not apply to later requests, or else the first.
pub(super) fn first(options: &[AnswerOption]) -> usize {
    let for_ever = |option: &AnswerOption| {
        matches!(
            option.choice,
            GateChoice::AllowAlways | GateChoice::AllowEdits | GateChoice::RejectAlways
        )
    };
    options
        .iter()
        .position(|option| !for_ever(option))
        .unwrap_or(0)
}

/// What choosing the answer once more does. None for answers that give nothing up.
pub(super) fn again(choice: GateChoice) -> Option<&'static str> {
    [
        (GateChoice::Ignore, "accepts it as it is"),
        (GateChoice::Disable, "turns this hook off"),
        (GateChoice::Abort, "aborts the session"),
    ]
    .into_iter()
    .find_map(|(known, effect)| (known == choice).then_some(effect))
}

/// The answer with this number or letter.
pub(super) fn at_key(options: &[AnswerOption], key: char) -> Option<usize> {
    if let Some(digit) = key.to_digit(10) {
        let n = usize::try_from(digit).ok()?.checked_sub(1)?;
        return (n < options.len()).then_some(n);
    }
    let mut with_letter = options
        .iter()
        .enumerate()
        .filter(|(_, option)| option.words.letter == key);
    let (n, _) = with_letter.next()?;
    with_letter.next().is_none().then_some(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{engine::gate::kind::GateKind, tui::keymap::Keymap};
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    fn option(choice: GateChoice) -> AnswerOption {
        AnswerOption {
            words: choice_words(GateKind::Permission, choice, GateFigures::default()),
            choice,
            option: None,
        }
    }

    #[test]
    fn a_digit_or_a_letter_finds_its_answer_and_a_shared_letter_finds_none() {
        let all = [
            GateChoice::AllowOnce,
            GateChoice::AllowOnce,
            GateChoice::RejectOnce,
        ]
        .map(option);
        let found = ['1', '3', '4', '0', 'n', 'y', 'x'].map(|key| at_key(&all, key));
        assert_eq!(found, [Some(0), Some(2), None, None, Some(2), None, None]);
    }

    #[test]
    fn no_letter_is_a_key_that_means_something_else_at_a_gate() {
        let keymap = Keymap::standard();
        for kind in GateKind::ALL {
            for choice in kind.choices() {
                let letter = choice_words(kind, choice, GateFigures::default()).letter;
                let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE);
                assert_eq!(keymap.gate_key(key), None, "{kind:?}: {letter}");
                assert!(!"q?".contains(letter));
            }
        }
    }
}
