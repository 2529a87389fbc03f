//! Template values come back from a real shell unchanged, wherever the placeholder is.

use std::process::{Command, Stdio};

use creel::engine::hooks::template::{UnsafePosition, expand, variable};
use proptest::prelude::*;

use crate::support::folder;

/// Shells that are `sh` on some system; missing ones are skipped.
fn shells() -> impl Iterator<Item = &'static str> {
    let installed =
        |shell: &&str| *shell == "sh" || Command::new(shell).args(["-c", ":"]).output().is_ok();
    ["sh", "bash"].into_iter().filter(installed)
}

fn output_of(shell: &str, command: &str, value: &str) -> String {
    let expanded = expand(command).expect("a place that can be quoted");
    let output = Command::new(shell)
        .arg("-c")
        .arg(expanded)
        .env(variable("error"), value)
        .output()
        .expect("a shell");
    assert!(
        output.status.success(),
        "{shell}: {command}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Text full of characters that are special in shells.
fn nasty() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("'"),
        Just("\""),
        Just("\\"),
        Just("\n"),
        Just("$(touch pwned)"),
        Just("`touch pwned`"),
        Just("{{session}}"),
        Just("{{error}}"),
        Just("-"),
        Just("--help "),
        Just("!"),
        Just("*"),
        Just("?[a-z]"),
        Just("$HOME"),
        Just("${IFS}"),
        Just("; exit 7 "),
        Just("&"),
        Just("|"),
        Just(">x"),
        Just("#"),
        Just("~"),
        Just(" "),
        Just("\t"),
        Just("%s"),
        Just("ä€🦀"),
        Just("\u{1b}[31m"),
        Just("\r"),
        Just("EOF\n"),
        Just("))"),
        Just("}"),
        Just("a"),
    ];
    prop_oneof![
        4 => proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat()),
        1 => proptest::collection::vec(any::<char>().prop_filter("no NUL", |c| *c != '\0'), 0..20)
            .prop_map(|chars| chars.into_iter().collect::<String>()),
    ]
}

/// Each prints the value once, in brackets.
const PLACES: &[&str] = &[
    "printf '[%s]' {{error}}",
    "printf '[%s]' '{{error}}'",
    "printf '[%s]' \"{{error}}\"",
    "printf %s '['\"{{error}}\"']'",
    "printf %s \"[{{ error }}]\"",
    "printf %s '[{{error}}]'",
    "printf '[%s]' x{{error}} | sed '1s/^\\[x/[/'",
    "x={{error}}; printf '[%s]' \"$x\"",
    "f() { printf '[%s]' \"$1\"; }; f {{error}}",
    "case {{error}} in '{{error}}') printf '[%s]' {{error}};; esac",
    "if :; then (printf '[%s]' {{error}}); fi # {{error}}",
    "printf \"[%s]\" \"$(printf '%s.' {{error}} \"\")\" | sed '$s/\\.\\.\\]$/]/'",
    "printf '[%s]' \"$(printf '%s.' \"{{error}}\")\" | sed '$s/\\.\\]$/]/'",
    "sh -c 'printf \"[%s]\" \"$1\"' sh {{error}}",
    "set -eu; printf '[%s]' \\\n  {{error}}",
];

/// Each prints the value once, in brackets, and a line break.
const DOCUMENTS: &[&str] = &[
    "cat <<EOF\n[{{error}}]\nEOF",
    "cat <<-EOF; : {{error}}\n\t[{{error}}]\n\tEOF",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_value_comes_back_unchanged_from_every_place(value in nasty()) {
        for shell in shells() {
            for place in PLACES {
                prop_assert_eq!(output_of(shell, place, &value), format!("[{value}]"), "{}: {}", shell, place);
            }
            for document in DOCUMENTS {
                prop_assert_eq!(output_of(shell, document, &value), format!("[{value}]\n"), "{}: {}", shell, document);
            }
        }
    }
}

#[test]
fn a_name_without_a_value_is_empty_text() {
    let expanded = expand("set -u; printf '[%s]' {{error}} '{{error}}' \"{{error}}\"")
        .expect("a place that can be quoted");
    let output = Command::new("sh")
        .arg("-c")
        .arg(expanded)
        .env_remove("CREEL_ERROR")
        .output()
        .expect("a shell");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "[][][]");
}

/// A value is only ever a variable, so the shell that creel starts never runs it. These commands
/// hand the variable to something that does. They are why `expand` knows programs that run their
/// arguments or their input.
#[test]
fn each_kind_of_command_that_is_refused_would_run_the_value() {
    for (command, written_out) in [
        ("eval {{error}}", "eval \"$CREEL_ERROR\""),
        ("sh -c {{error}}", "sh -c \"$CREEL_ERROR\""),
        ("sh -c 'echo {{error}}'", "sh -c 'echo '\"$CREEL_ERROR\"''"),
        ("trap {{error}} EXIT", "trap \"$CREEL_ERROR\" EXIT"),
        ("env sh -c {{error}}", "env sh -c \"$CREEL_ERROR\""),
        ("sh <<E\n{{error}}\nE", "sh <<E\n$CREEL_ERROR\nE"),
        (
            "printf '%s\\n' {{error}} | sh",
            "printf '%s\\n' \"$CREEL_ERROR\" | sh",
        ),
        (
            "x={{error}}; printf '%s\\n' \"$x\" | sh",
            "x=$CREEL_ERROR; printf '%s\\n' \"$x\" | sh",
        ),
        (
            "{ printf '%s\\n' {{error}}; } | sh",
            "{ printf '%s\\n' \"$CREEL_ERROR\"; } | sh",
        ),
        (
            "printf '%s' {{error}} | xargs -I% sh -c %",
            "printf '%s' \"$CREEL_ERROR\" | xargs -I% sh -c %",
        ),
        ("awk {{error}}", "awk \"$CREEL_AWK\""),
    ] {
        let refused = expand(command).expect_err(command);
        assert_eq!(refused.place, UnsafePosition::OtherShell, "{command}");
        let folder = folder();
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(written_out)
            .current_dir(folder.path())
            .stdin(Stdio::null());
        shell
            .env("CREEL_ERROR", "x=1; touch pwned")
            .env("CREEL_AWK", "BEGIN { system(\"touch pwned\") }");
        shell.output().expect("a shell");
        assert!(folder.path().join("pwned").exists(), "{written_out}");
    }
}

#[test]
fn the_notification_of_the_seed_is_complete() {
    let command = "printf '%s' '{\"text\": \"Iteration {{iteration}} done\"}'";
    let expanded = expand(command).expect("a place that can be quoted");
    let output = Command::new("sh")
        .arg("-c")
        .arg(expanded)
        .env("CREEL_ITERATION", "3")
        .output()
        .expect("a shell");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        r#"{"text": "Iteration 3 done"}"#
    );
}

/// Random commands, mostly nonsense. Substitutions are in "…", since the shell itself splits
/// others.
fn any_command() -> impl Strategy<Value = String> {
    let piece = proptest::sample::select(vec![
        "{{error}}",
        "{{error}}",
        "{{error}}",
        "{{error}}",
        "printf '<%s>' ",
        "printf '<%s>' ",
        " ",
        " ",
        "'",
        "'",
        "\"",
        "\"",
        "\"$(",
        "\"$(",
        ")\"",
        ")\"",
        "(",
        "\\",
        "#",
        "\n",
        "; ",
        "${x:-",
        "${x#",
        "}",
        "$((1+",
        "))",
        "case a in a) ",
        ";; esac",
        "cat <<E\n",
        "cat <<'E'\n",
        "\nE\n",
        "<<-E",
        "$",
        "a",
        "{",
        "$'",
        "\\\n",
        "\t",
        "&& ",
        "| cat",
    ]);
    proptest::collection::vec(piece, 1..14)
        .prop_map(|pieces| format!("printf '<%s>' {}", pieces.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn an_accepted_command_keeps_the_value_unchanged(command in any_command()) {
        let Ok(expanded) = expand(&command) else { return Ok(()) };
        let folder = folder();
        let value = "AAA * b  c$(touch pwned)`touch pwned`'\"\\ZZZ";
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(&expanded).env(variable("error"), value).current_dir(folder.path()).stdin(Stdio::null());
        let output = shell.output().expect("a shell");
        prop_assert!(!folder.path().join("pwned").exists(), "{}", expanded);
        if output.status.success() {
            let printed = String::from_utf8_lossy(&output.stdout);
            // The author's own `$(…)` outside of quotes splits what was printed inside of it.
            let is_outside = |at: usize| expanded[..at].replace("\\\"", "").matches('"').count().is_multiple_of(2);
            let is_split = expanded.match_indices("$(").any(|(at, _)| is_outside(at));
            let is_whole = printed.matches("AAA").count() == printed.matches(value).count();
            prop_assert!(is_whole || is_split, "{}: {}", expanded, printed);
            prop_assert!(!printed.contains("CREEL_ERROR"), "{}: {}", expanded, printed);
        }
    }
}
