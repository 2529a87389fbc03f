//! Tests of the key map.

use super::*;

#[test]
fn every_action_has_a_key() {
    let keymap = Keymap::standard();
    for (_, action, name, _) in ACTIONS {
        assert!(!keymap.keys(*action).is_empty(), "{name}");
    }
}

#[test]
fn a_users_keys_replace_the_standard_ones() {
    let keymap =
        Keymap::parse("global: { quit: [ctrl-q] }", Some(&Keymap::standard())).expect("right");
    assert_eq!(keymap.keys(KeyAction::Quit), "ctrl-q");
    assert_eq!(keymap.keys(KeyAction::Help), "? f1");
    let q = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
    assert_eq!(keymap.action(q, &[KeyContext::Global]), None);
}

#[test]
fn what_is_wrong_with_a_keymap_is_told() {
    let wrong = |text| Keymap::parse(text, Some(&Keymap::standard())).expect_err("wrong");
    assert_eq!(
        wrong("global: { zoom: [q] }"),
        ["`q` in `global` means both `zoom` and `quit`"]
    );
    assert_eq!(
        wrong("global: { zom: [q], zoom: [hyper-x, \"?\"] }\nglobl: {}"),
        [
            "unknown action `zom` in `global`",
            "`hyper-x` is not a key",
            "unknown place `globl`",
            "`?` in `global` means both `zoom` and `help`"
        ]
    );
}

#[test]
fn a_letter_with_shift_is_its_capital() {
    let keymap = Keymap::parse(
        "global: { zoom: [shift-w, alt-shift-w] }",
        Some(&Keymap::standard()),
    )
    .expect("right");
    for modifiers in [KeyModifiers::NONE, KeyModifiers::SHIFT, KeyModifiers::ALT] {
        let key = KeyEvent::new(KeyCode::Char('W'), modifiers);
        assert_eq!(
            keymap.action(key, &[KeyContext::Global]),
            Some(KeyAction::Zoom)
        );
    }
    assert_eq!(keymap.keys(KeyAction::Zoom), "W alt-W");
    for key in ["shift-1", "shift-space", "ctrl-shift-w", "shift-ß"] {
        let told = format!(
            "terminals do not send `{key}`: write the character that the keys produce together"
        );
        assert_eq!(
            KeyChord::parse(key).map_err(|error| error.to_string()),
            Err(told)
        );
    }
    assert_eq!(
        KeyChord::parse("shift-up").map(|key| key.to_string()),
        Ok("shift-up".into())
    );
}

#[test]
fn a_capital_is_the_same_with_or_without_a_reported_shift() {
    let keymap = Keymap::standard();
    for modifiers in [KeyModifiers::NONE, KeyModifiers::SHIFT] {
        let key = KeyEvent::new(KeyCode::Char('G'), modifiers);
        assert_eq!(
            keymap.action(key, &[KeyContext::Scroll]),
            Some(KeyAction::Bottom)
        );
    }
    let back = KeyEvent::new(KeyCode::BackTab, KeyModifiers::SHIFT);
    assert_eq!(
        keymap.action(back, &[KeyContext::Global]),
        Some(KeyAction::PreviousPane)
    );
}
