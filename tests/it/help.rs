//! The help: groups, examples, topics and manual pages. Nothing of it is stale, and every command
//! is in it.

use std::{collections::BTreeSet, fs, path::Path};

use clap::{Command, CommandFactory as _, Parser as _};
use creel::cli::{Cli, help};

use crate::{
    book::words,
    support::project::{Project, Ran},
};

/// All commands, each with its words: `gate answer`.
fn commands(command: &Command, path: &str) -> Vec<(String, Command)> {
    let mut found = Vec::new();
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        let path = format!("{path} {}", below.get_name())
            .trim_start()
            .to_owned();
        found.push((path.clone(), below.clone()));
        found.extend(commands(below, &path));
    }
    found
}

fn creel(args: &[&str]) -> Ran {
    Project::new().creel(args)
}

#[test]
fn every_command_has_an_example_that_creel_understands() {
    let mut wrong = Vec::new();
    for (path, command) in commands(&help::command(), "") {
        let text = command
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("  creel "))
            .collect();
        if lines.is_empty() {
            wrong.push(format!("{path} has no example"));
        }
        for line in lines {
            // Two spaces end the command line: what follows explains it.
            let line = line.trim_start().split("  ").next().unwrap_or_default();
            let belongs =
                line == format!("creel {path}") || line.starts_with(&format!("creel {path} "));
            if !belongs && !command.has_subcommands() {
                wrong.push(format!("{path}: an example of another command: {line}"));
            }
            if let Err(error) = Cli::try_parse_from(words(line)) {
                wrong.push(format!("{line}\n{error}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_help_groups_the_commands_gives_examples_and_points_to_the_exit_codes() {
    let shown = creel(&["--help"]);
    assert_eq!((shown.code, shown.err.as_str()), (0, ""));
    let mut from = 0;
    for group in [
        "\nRun:\n",
        "\nWatch:\n",
        "\nSteer:\n",
        "\nTasks:\n",
        "\nShare:\n",
        "\nSet up:\n",
        "\nOptions:\n",
    ] {
        let at = shown.out[from..]
            .find(group)
            .unwrap_or_else(|| panic!("no {group} in\n{}", shown.out));
        from += at;
    }
    assert_eq!(shown.out.matches("\n  creel ").count(), 3, "{}", shown.out);
    assert!(
        shown.out.contains("`creel help exit-codes`"),
        "{}",
        shown.out
    );
    for command in Cli::command()
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
    {
        let row = format!("\n  {} ", command.get_name());
        assert_eq!(
            shown.out.matches(&row).count(),
            1,
            "`{}` is in one group\n{}",
            command.get_name(),
            shown.out
        );
    }
    assert_eq!(shown.out, creel(&["help"]).out);
    assert_eq!(shown.out, creel(&["-h"]).out);
}

#[test]
fn help_explains_commands_and_topics() {
    let answer = creel(&["help", "gate", "answer"]);
    assert!(
        answer.out.contains("Usage: creel gate answer") && answer.out.contains("Examples:\n"),
        "{}",
        answer.out
    );
    assert_eq!(answer.out, creel(&["gate", "answer", "--help"]).out);
    for (topic, text) in help::TOPICS {
        assert_eq!(creel(&["help", topic]).out, text, "{topic}");
    }
    let wrong = creel(&["help", "exit-code"]);
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.err.contains("did you mean `exit-codes`?"),
        "{}",
        wrong.err
    );
    let wrong = creel(&["help", "gate", "anser"]);
    assert!(
        wrong.err.contains("did you mean `answer`?"),
        "{}",
        wrong.err
    );
}

/// The first column of the tables below a heading, without backticks.
fn first_column(page: &str, heading: &str) -> Vec<String> {
    let section = page
        .split(&format!("## {heading}\n"))
        .nth(1)
        .expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(2);
    rows.flat_map(|row| row.split('|').nth(1).unwrap_or_default().split(", "))
        .map(|cell| cell.trim().trim_matches('`').to_owned())
        .collect()
}

#[test]
fn the_topics_have_what_the_book_has() {
    let page = include_str!("../../docs/reference-commands.md");
    for (heading, topic) in [
        ("Exit codes", "exit-codes"),
        ("Environment", "environment"),
        ("Files", "files"),
    ] {
        let text = help::TOPICS
            .iter()
            .find(|(name, _)| *name == topic)
            .expect("a topic")
            .1;
        let rows = first_column(page, heading);
        assert!(rows.len() > 5, "{rows:?}");
        for row in rows {
            assert!(text.contains(&row), "`creel help {topic}` has no `{row}`");
        }
    }
    let hooks = help::TOPICS[3].1;
    for point in creel::engine::hooks::point::HookPoint::ALL
        .map(creel::engine::hooks::point::HookPoint::name)
    {
        // Stop decisions and automation have sections of their own in the config.
        assert!(
            hooks.contains(point) || ["stop_decision", "automation"].contains(&point),
            "no {point}"
        );
    }
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let project = Project::new();
    let written = project.creel(&["man", "--out", "man/man1"]);
    assert_eq!(written.code, 0, "{}", written.err);
    let folder = project.root().join("man/man1");
    let names = |folder: &Path| -> BTreeSet<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect()
    };
    let mut wanted: BTreeSet<String> = commands(&help::command(), "")
        .into_iter()
        .map(|(path, _)| format!("creel-{}.1", path.replace(' ', "-")))
        .collect();
    wanted.insert("creel.1".to_owned());
    assert_eq!(names(&folder), wanted);
    for name in &wanted {
        let page = fs::read_to_string(folder.join(name)).expect("a page");
        for section in [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "EXAMPLES",
            "EXIT STATUS",
            "ENVIRONMENT",
            "FILES",
            "SEE ALSO",
        ] {
            let heading = |line: &str| {
                line.strip_prefix(".SH ")
                    .is_some_and(|rest| rest.trim_matches('"') == section)
            };
            assert!(page.lines().any(heading), "{name} has no {section}\n{page}");
        }
        assert!(
            page.contains("CREEL_SESSION") && page.contains("journal.jsonl"),
            "{name}"
        );
        let (_, description) = page
            .split_once(".SH DESCRIPTION\n.PP\n")
            .expect("a description");
        let description = description.lines().next().expect("a line");
        assert!(
            description.ends_with('.') && !page.contains(&format!("\\- {description}")),
            "{name}: {description}"
        );
    }
    let page = fs::read_to_string(folder.join("creel-worker.1")).expect("a page");
    assert!(
        page.contains("[\\fB\\-t\\fR|\\fB\\-\\-types\\fR \\fITYPE\\fR]\n"),
        "{page}"
    );
    let page = fs::read_to_string(folder.join("creel-gate-answer.1")).expect("a page");
    assert!(
        page.contains("\\fIGATE\\fR\n\\fICHOICE\\fR\n[\\fITEXT\\fR]\n"),
        "{page}"
    );
    assert_eq!(
        project.creel(&["man"]).out,
        fs::read_to_string(folder.join("creel.1")).expect("a page")
    );
}

/// The formatter reads every line as it is meant: it has no warnings.
#[test]
#[expect(clippy::print_stderr, reason = "a test says what it skips")]
fn the_manual_pages_are_well_formed() {
    let project = Project::new();
    assert_eq!(project.creel(&["man", "--out", "man"]).code, 0);
    let mut groff = std::process::Command::new("groff");
    groff.args([
        "-man",
        "-Tutf8",
        "-ww",
        "-z",
        "creel.1",
        "creel-run.1",
        "creel-gate-answer.1",
    ]);
    let Ok(output) = groff.current_dir(project.root().join("man")).output() else {
        eprintln!("groff is not installed: the manual pages are not formatted");
        return;
    };
    let ran = Ran::of(&output);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

/// Runs a shell with a script of completions, or says that it is not installed.
#[expect(clippy::print_stderr, reason = "a test says what it skips")]
fn completed(shell: &str, file: &str, args: &[&str]) -> Option<String> {
    let project = Project::new();
    project.write(file, &project.creel(&["completions", shell]).out);
    let mut command = std::process::Command::new("timeout");
    command
        .args(["60", shell])
        .args(args)
        .current_dir(project.root())
        .env("HOME", project.root());
    let creel = Path::new(env!("CARGO_BIN_EXE_creel"))
        .parent()
        .expect("a folder")
        .display()
        .to_string();
    command
        .env(
            "PATH",
            format!("{creel}:{}", std::env::var("PATH").expect("a PATH")),
        )
        .env("TERM", "xterm");
    let ran = Ran::of(&command.output().expect("timeout is installed"));
    if ran.code == 127 {
        eprintln!("{shell} is not installed: its completions are not tried");
        return None;
    }
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    Some(ran.out)
}

#[test]
fn fish_completes_commands_and_options() {
    let script = "source creel.fish; complete -C 'creel wor'; complete -C 'creel task bl'; complete -C 'creel run --max'";
    let Some(out) = completed("fish", "creel.fish", &["--no-config", "-c", script]) else {
        return;
    };
    let words: Vec<&str> = out
        .lines()
        .filter_map(|line| line.split('\t').next())
        .collect();
    assert_eq!(words, ["worker", "worktree", "block", "--max-iterations"]);
}

#[test]
fn zsh_completes_commands_and_options() {
    // A pseudo-terminal, because zsh completes only there.
    let script = r#"
        zmodload zsh/zpty
        zpty z zsh -f -i
        zpty -w z 'PROMPT=; fpath=($PWD/zsh $fpath); autoload -Uz compinit; compinit -u -D; print loaded-$((1 + 1))'
        zpty -r z out '*loaded-2*'
        zpty -n -w z $'creel workt\t'
        zpty -r z out '*worktree*'
        zpty -n -w z $'rem\t'
        zpty -r z out '*remove*'
        zpty -n -w z $'\025creel run --max\t'
        zpty -r z out '*--max-iterations*'
        zpty -d z
        print done
    "#;
    let Some(out) = completed("zsh", "zsh/_creel", &["-f", "-c", script]) else {
        return;
    };
    assert_eq!(out, "done\n");
}

#[test]
fn the_version_names_the_commit() {
    let shown = creel(&["--version"]);
    let pattern =
        r"^creel \d+\.\d+\.\d+ \(([0-9a-f]{7,} \d{4}-\d\d-\d\d or later, )?debug build\)\n$";
    // A release build has only the commit, and outside of a checkout nothing.
    let pattern = regex::Regex::new(&format!(
        r"{pattern}|^creel \d+\.\d+\.\d+( \([0-9a-f]{{7,}}( \d{{4}}-\d\d-\d\d)?\))?\n$"
    ));
    assert!(
        pattern.expect("a regular expression").is_match(&shown.out),
        "{}",
        shown.out
    );
}
