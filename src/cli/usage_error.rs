//! What is wrong with a command line, in creel's own words: what happened, why, and what to do.
//!
//! Parsing is clap's; only its words are replaced.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::{
    cli::help,
    text::{listed, nearest},
};

/// Words that other tools have, what the user probably wants, and the command for it.
const ELSEWHERE: [(&[&str], &str, &str); 16] = [
    (
        &["ls", "list", "ps", "dashboard"],
        "list the sessions",
        "creel sessions",
    ),
    (
        &["log", "logs", "history", "tail"],
        "print what happened",
        "creel show",
    ),
    (
        &["start", "new", "loop", "exec", "go"],
        "run a session",
        "creel run \"GOAL\"",
    ),
    (
        &["continue", "retry", "restart"],
        "continue a session",
        "creel resume",
    ),
    (
        &["kill", "abort", "quit", "end"],
        "end a session at once",
        "creel stop --now",
    ),
    (&["version"], "print the version", "creel --version"),
    (
        &["tasks", "todo", "todos", "next", "ready"],
        "list the tasks",
        "creel task list",
    ),
    (&["add", "create"], "add a task", "creel task add \"GOAL\""),
    (
        &["queue"],
        "list the tasks of the queue",
        "creel task list --queue",
    ),
    (
        &["answer", "approve", "yes", "allow"],
        "answer a gate",
        "creel gate answer GATE CHOICE",
    ),
    (
        &["send", "tell", "say", "chat", "prompt"],
        "write to the agent",
        "creel message TEXT",
    ),
    (
        &["rm", "remove", "delete", "clean", "gc"],
        "delete old sessions",
        "creel prune",
    ),
    (
        &["setup", "install", "configure"],
        "write a config",
        "creel init",
    ),
    (
        &["convert", "create-prd", "sync"],
        "create tasks from a file",
        "creel import FILE",
    ),
    (
        &["info", "top"],
        "show the status of a running session",
        "creel status",
    ),
    (&["ui", "tui", "home"], "open the home screen", "creel"),
];

/// The error as creel says it. `words` is the command line without the program.
pub(crate) fn in_words(error: &clap::Error, words: &[String]) -> String {
    let path = command_path(words);
    let (what, advice) = described(error, words, &path);
    let advice = advice.unwrap_or_else(|| match path.as_str() {
        "creel" => "list the commands with `creel --help`".to_owned(),
        path => format!("`{path} --help` explains the options"),
    });
    format!("creel: {what}\n  {advice}")
}

/// The commands at the beginning of the command line: `creel task add`.
fn command_path(words: &[String]) -> String {
    let whole = help::command();
    let (mut command, mut path) = (&whole, "creel".to_owned());
    for word in words {
        let Some(below) = command.find_subcommand(word) else {
            break;
        };
        command = below;
        path += &format!(" {word}");
    }
    path
}

/// What happened and why, and what to do if that is not only to read the help.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "clap's enum grows, and its own words are good enough"
)]
fn described(error: &clap::Error, words: &[String], path: &str) -> (String, Option<String>) {
    let argument = text_of(error, ContextKind::InvalidArg);
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let wrong = text_of(error, ContextKind::InvalidSubcommand);
            (
                format!("unknown command `{}`", whole(path, &wrong)),
                meant(path, &wrong),
            )
        }
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            let similar = text_of(error, ContextKind::SuggestedArg);
            let similar = Some(similar).filter(|similar| !similar.is_empty());
            let command = command_instead(&argument, path);
            let advice = command.or(similar.map(|similar| format!("did you mean `{similar}`?")));
            (format!("unknown option `{argument}`"), advice)
        }
        ErrorKind::UnknownArgument => (
            format!("unexpected argument `{argument}`"),
            in_quotes(words),
        ),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => invalid_value(error, &argument),
        ErrorKind::MissingRequiredArgument => {
            let missing = texts_of(error, ContextKind::InvalidArg);
            let missing: Vec<String> = missing.iter().map(|name| needed(name)).collect();
            let missing = listed(&missing);
            (format!("`{path}` needs {missing}"), None)
        }
        ErrorKind::ArgumentConflict => {
            let mut both = vec![format!("`{argument}`")];
            both.extend(quoted(error, ContextKind::PriorArg));
            let twice = both.len() == 1 || both[1..].iter().all(|other| *other == both[0]);
            if twice {
                return (
                    format!("{} is there twice", both[0]),
                    Some("leave one out".to_owned()),
                );
            }
            let detached = words.iter().any(|word| word == "--detach");
            let advice = detached.then(|| {
                "--detach runs the session in the background, where its gates wait for you; --headless and --json answer \
                 them\n  as the config says. Choose one: with --detach, `creel attach` and `creel show --json` show the session"
                    .to_owned()
            });
            (
                format!("{} exclude each other", listed(&both)),
                advice.or_else(|| Some("leave one out".to_owned())),
            )
        }
        // Rare, and clap's words say it well enough.
        _ => {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            (first.trim_start_matches("error: ").replace('\'', "`"), None)
        }
    }
}

/// An argument, or several of which one is needed: `<--goal <TEXT>|--label <LABEL>>`.
fn needed(name: &str) -> String {
    let inner = name
        .strip_prefix('<')
        .and_then(|inner| inner.strip_suffix('>'));
    match inner.filter(|inner| inner.contains('|')) {
        Some(choices) => format!("one of `{}`", choices.replace('|', "`, `")),
        None => format!("`{name}`"),
    }
}

/// A value that its argument does not take.
fn invalid_value(error: &clap::Error, argument: &str) -> (String, Option<String>) {
    let value = text_of(error, ContextKind::InvalidValue);
    let known = texts_of(error, ContextKind::ValidValue);
    if value.is_empty() && known.is_empty() && error.source().is_none() {
        return (format!("`{argument}` needs a value"), None);
    }
    if let Some(reason) = error.source() {
        let reason = reason.to_string();
        let (reason, advice) = match reason.split_once("; ") {
            Some((reason, advice)) => (reason, Some(advice.to_owned())),
            None => (reason.as_str(), None),
        };
        return (
            format!("`{value}` is not valid for `{argument}`: {reason}"),
            advice,
        );
    }
    let near = text_of(error, ContextKind::SuggestedValue);
    let near = (!near.is_empty()).then(|| format!("did you mean `{near}`?"));
    let choices = (!known.is_empty()).then(|| format!("use one of: {}", known.join(", ")));
    let advice: Vec<String> = near.into_iter().chain(choices).collect();
    let what = if value.is_empty() {
        format!("`{argument}` needs a value")
    } else {
        format!("`{value}` is not valid for `{argument}`")
    };
    (what, (!advice.is_empty()).then(|| advice.join("\n  ")))
}

/// A command as the user wrote it.
fn whole(path: &str, wrong: &str) -> String {
    let below = path.trim_start_matches("creel").trim_start();
    if below.is_empty() {
        wrong.to_owned()
    } else {
        format!("{below} {wrong}")
    }
}

/// The command that the user probably meant.
fn meant(path: &str, wrong: &str) -> Option<String> {
    let elsewhere = ELSEWHERE
        .iter()
        .find(|(words, ..)| path == "creel" && words.contains(&wrong));
    if let Some((_, what, command)) = elsewhere {
        return Some(format!("to {what}: `{command}`"));
    }
    let whole = help::command();
    let mut command = &whole;
    for word in path.split(' ').skip(1) {
        command = command.find_subcommand(word)?;
    }
    let known: Vec<&str> = command
        .get_subcommands()
        .map(clap::Command::get_name)
        .collect();
    let near = nearest(wrong, known)?;
    Some(format!("did you mean `{path} {near}`?"))
}

/// `--sessions` for `sessions`.
fn command_instead(option: &str, path: &str) -> Option<String> {
    let whole = help::command();
    let name = option.strip_prefix("--").filter(|_| path == "creel")?;
    let meant = whole.find_subcommand(name)?.get_name();
    Some(format!("did you mean `creel {meant}`?"))
}

/// A text without quotes around it.
fn in_quotes(words: &[String]) -> Option<String> {
    let verb = words
        .first()
        .filter(|verb| ["run", "plan", "message"].contains(&verb.as_str()))?;
    let text = &words[1..];
    let is_prose = text.len() > 1 && text.iter().all(|word| !word.starts_with('-'));
    is_prose.then(|| {
        format!(
            "put the text in quotes: `creel {verb} \"{}\"`",
            text.join(" ")
        )
    })
}

fn texts_of(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    let value = error.get(kind);
    if let Some(ContextValue::Strings(texts)) = value {
        return texts.clone();
    }
    match value {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(_) | None => Vec::new(),
    }
}

fn text_of(error: &clap::Error, kind: ContextKind) -> String {
    texts_of(error, kind).into_iter().next().unwrap_or_default()
}

fn quoted(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    texts_of(error, kind)
        .iter()
        .map(|text| format!("`{text}`"))
        .collect()
}
