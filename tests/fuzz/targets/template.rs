//! A hook's command with placeholders, and a value for them.

use std::{
    cell::Cell,
    process::{Command, Stdio},
};

use creel::engine::hooks::template::{expand, placeholders, variable};

use super::{FOLDER, class};

/// The parts of commands that a shell runs. They only print.
const PARTS: [&str; 32] = [
    "{{error}}",
    " {{error}}",
    "'{{error}}'",
    "\"{{error}}\"",
    " ",
    " ",
    "a",
    "b c",
    "'",
    "\"",
    "\\",
    "\n",
    "; printf '<%s>' ",
    " && printf '<%s>' ",
    "\"$(printf '%s' ",
    ")\"",
    "(printf '<%s>' ",
    ")",
    "x={{error}}; printf '<%s>' \"$x\" ",
    "# ",
    "case a in a) printf '<%s>' ",
    ";; esac",
    "\nprintf '<%s>' ",
    "${x:-",
    "}",
    "$",
    "$((1+",
    "))",
    "`printf %s ",
    "`",
    "\\\n",
    "if :; then printf '<%s>' ",
];

/// The reference value that other values are compared with.
const PLAIN: &str = "CREELVALUE";

/// Expansion changes only placeholders. No value changes the words of the command: with another
/// value, the shell prints the same output with that value in its place.
pub fn run(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let (command, value) = text
        .split_once('\0')
        .unwrap_or((&text, "$(printf x) ' \" \\ * ~ {{session}}"));
    let outcome = match expand(command) {
        Ok(expanded) => {
            only_placeholders_change(command, &expanded);
            format!("{} placeholders", placeholders(command).len().min(5))
        }
        Err(error) => {
            assert!(
                command.get(error.placeholder.range.clone()).is_some(),
                "the placeholder is outside of the command"
            );
            class(&error.to_string())
        }
    };
    // Starting a shell for every input would take most of the time.
    thread_local!(static TURN: Cell<u32> = const { Cell::new(0) });
    if TURN.replace(TURN.get().wrapping_add(1)).is_multiple_of(20) {
        keeps_its_words(input, value);
    }
    outcome
}

/// The text between placeholders is unchanged, and each placeholder became a reference to its
/// variable.
fn only_placeholders_change(command: &str, expanded: &str) {
    let (mut rest, mut from) = (expanded, 0);
    for placeholder in placeholders(command) {
        let before = &command[from..placeholder.range.start];
        rest = rest
            .strip_prefix(before)
            .unwrap_or_else(|| panic!("{command:?} became {expanded:?}"));
        let reference = format!("${{{}-}}", variable(&placeholder.name));
        let written = &command[placeholder.range.clone()];
        // Placeholders in comments stay.
        let forms = [
            format!("'\"{reference}\"'"),
            format!("\"{reference}\""),
            reference,
            written.to_owned(),
        ];
        let form = forms
            .iter()
            .find_map(|form| rest.strip_prefix(form.as_str()));
        rest = form.unwrap_or_else(|| panic!("{command:?} became {expanded:?}"));
        from = placeholder.range.end;
    }
    assert_eq!(rest, &command[from..], "{command:?} became {expanded:?}");
}

fn keeps_its_words(input: &[u8], value: &str) {
    let parts: String = input
        .iter()
        .take(12)
        .map(|byte| PARTS[usize::from(*byte) % PARTS.len()])
        .collect();
    let command = format!("printf '<%s>' {parts}");
    let Ok(expanded) = expand(&command) else {
        return;
    };
    let value: String = value.chars().filter(|c| *c != '\0').take(200).collect();
    let Some(plain) = printed(&expanded, PLAIN) else {
        return;
    };
    let with_value = printed(&expanded, &value);
    let expected = String::from_utf8_lossy(&plain).replace(PLAIN, &value);
    // `$(…)` removes line breaks at the end.
    if command.contains("$(") && value.ends_with('\n') {
        return;
    }
    let with_value = with_value.map(|printed| String::from_utf8_lossy(&printed).into_owned());
    assert_eq!(
        with_value,
        Some(expected),
        "{value:?} changes the words of {command:?}"
    );
}

/// What a shell without any programs prints, if it succeeds.
fn printed(expanded: &str, value: &str) -> Option<Vec<u8>> {
    let output = Command::new("/bin/sh")
        .args(["-c", expanded])
        .env_clear()
        .env("PATH", "/nonexistent")
        .env(variable("error"), value)
        .current_dir(FOLDER.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .expect("a shell");
    output.status.success().then_some(output.stdout)
}
