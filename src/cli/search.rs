//! `creel search`: finds a text in the prompts, messages and outputs of all sessions.

use std::{cmp::Reverse, io, ops::ControlFlow, path::PathBuf, time::SystemTime};

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::{
    cli::{
        arguments::{ConfigArgs, NatsArgs},
        error::{CliError, CliResult, json, put, say},
        target::{self, remote_sessions::NatsServerConnection},
    },
    journal::{
        SessionDir, SessionsDir,
        search::{SearchCase, SearchPattern},
    },
    present::{
        style::{ColourMode, TextRole},
        text::plain,
    },
};

/// Nothing matches.
const NOTHING: u8 = 1;
/// The longest line, and how much of it stands before the match, in characters.
const LINE: usize = 200;
const BEFORE: usize = 60;
/// The fields of records that are not texts of the session: what all records share, words of creel,
/// and the plan, which has the config.
const NO_TEXT: [&str; 26] = [
    "v",
    "seq",
    "at",
    "session",
    "kind",
    "chain",
    "id",
    "plan",
    "contents",
    "point",
    "verdict",
    "status",
    "by",
    "stop_reason",
    "conversation",
    "choices",
    "choice",
    "about",
    "presence",
    "outcome",
    "action",
    "call",
    "tool",
    "origin",
    "until",
    "resets_at",
];

/// What to search for.
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// The text.
    #[arg(value_name = "TEXT")]
    pub text: String,
    /// Whose sessions.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Search the sessions of all projects in which you have run creel.
    #[arg(long, conflicts_with = "url")]
    pub all: bool,
    /// Where they are.
    #[command(flatten)]
    pub nats: NatsArgs,
    /// TEXT is a regular expression, for the lines of each text.
    #[arg(long)]
    pub regex: bool,
    /// Capitals.
    #[command(flatten)]
    pub case: SearchCaseArgs,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Whether capitals matter.
#[derive(Debug, Args)]
pub struct SearchCaseArgs {
    /// Ignore case.
    #[arg(short, long)]
    pub ignore_case: bool,
    /// Ignore case, unless TEXT has capitals.
    #[arg(short = 'S', long)]
    pub smart_case: bool,
}

/// A line that matches.
#[derive(Debug, Serialize)]
struct FoundLine<'a> {
    project: &'a str,
    session: &'a str,
    /// None if the record belongs to no iteration.
    iteration: Option<u64>,
    kind: &'a str,
    seq: u64,
    at: &'a str,
    field: &'a str,
    line: &'a str,
}

pub(super) fn search(args: &SearchArgs) -> CliResult {
    let mut lines = MatchingLines {
        args,
        pattern: pattern(args)?,
        paint: ColourMode::for_stream(&std::io::stdout()),
        count: 0,
        listed: Vec::new(),
    };
    let looked = if let Some(server) = NatsServerConnection::named(&args.nats, &args.config)? {
        elsewhere(&server, &mut lines)?
    } else {
        let projects = target::projects_of(&args.config, args.all)?;
        newest_first(&projects).iter().try_for_each(|session| {
            let project = session.project().display().to_string();
            lines.look(session, &session.name, &project)
        })
    };
    match looked {
        // A pager was closed.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
        Err(error) => return Err(CliError::failed(format!("cannot print: {error}"))),
        Ok(()) => {}
    }
    if args.json {
        json(&lines.listed)?;
    }
    Ok(if lines.count == 0 { NOTHING } else { 0 })
}

/// Looks at all sessions that a server lists, latest change first.
fn elsewhere(
    server: &NatsServerConnection,
    lines: &mut MatchingLines<'_>,
) -> CliResult<io::Result<()>> {
    let mut listed = server.heartbeats()?;
    listed.sort_by_key(|heartbeat| Reverse(heartbeat.seen_at()));
    Ok(listed.iter().try_for_each(|heartbeat| {
        let status = &heartbeat.status;
        match server.copy_of(heartbeat) {
            Ok(copy) => lines.look(copy.folder(), &status.session, &status.cwd),
            Err(error) => {
                let session = plain(&status.session);
                say(&format!("creel: cannot search `{session}`: {error}"));
                Ok(())
            }
        }
    }))
}

/// The lines that match, printed or collected.
struct MatchingLines<'a> {
    args: &'a SearchArgs,
    pattern: SearchPattern,
    paint: ColourMode,
    count: usize,
    listed: Vec<Value>,
}

impl MatchingLines<'_> {
    /// Looks at one session. Fails if its lines cannot be printed.
    fn look(&mut self, session: &SessionDir, name: &str, project: &str) -> io::Result<()> {
        let Self {
            args,
            pattern,
            paint,
            count,
            listed,
        } = self;
        let names_project = args.all || args.nats.url.is_some();
        let mut printed = Ok(());
        let looked = pattern.search(&session.journal(), |record| {
            let mut text = String::new();
            let Ok(record) = serde_json::from_str(record) else {
                return ControlFlow::Continue(());
            };
            each_line(&record, project, name, pattern, |found| {
                *count += 1;
                if args.json {
                    listed.extend(serde_json::to_value(found).ok());
                } else {
                    text += &row(found, pattern, names_project, *paint);
                }
            });
            printed = if text.is_empty() { Ok(()) } else { put(&text) };
            if printed.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        if let (Err(error), Ok(())) = (looked, &printed) {
            let journal = session.journal();
            say(&format!(
                "creel: cannot read {}: {error}",
                journal.display()
            ));
        }
        printed
    }
}

fn pattern(args: &SearchArgs) -> CliResult<SearchPattern> {
    let has_capitals = args.text.chars().any(char::is_uppercase);
    let case = if args.case.ignore_case || (args.case.smart_case && !has_capitals) {
        SearchCase::Ignored
    } else {
        SearchCase::Exact
    };
    if args.text.is_empty() {
        return Err(CliError::usage("the text to search for is empty"));
    }
    if args.text.contains('\n') {
        return Err(CliError::usage(
            "the text to search for has a line break, and creel compares line by line\n  search for one of its lines",
        ));
    }
    let pattern = if args.regex {
        SearchPattern::regex(&args.text, case)
    } else {
        SearchPattern::text(&args.text, case)
    };
    pattern.map_err(|error| CliError::usage(format!("TEXT is not a regular expression: {error}")))
}

/// The sessions of these projects, latest change first. A project that cannot be read hides no
/// other.
fn newest_first(projects: &[PathBuf]) -> Vec<SessionDir> {
    let mut found: Vec<(SystemTime, SessionDir)> = Vec::new();
    for project in projects {
        match SessionsDir::of(project).entries() {
            Ok(sessions) => found.extend(sessions.into_iter().map(|(session, at)| (at, session))),
            Err(error) => say(&format!(
                "creel: cannot list the sessions of {}: {error}",
                project.display()
            )),
        }
    }
    found.sort_by(|(at, one), (other_at, other)| {
        other_at.cmp(at).then_with(|| one.path.cmp(&other.path))
    });
    found.into_iter().map(|(_, session)| session).collect()
}

/// Calls `each` with every line of the record's texts that matches.
fn each_line(
    record: &Value,
    project: &str,
    session: &str,
    pattern: &SearchPattern,
    mut each: impl FnMut(&FoundLine<'_>),
) {
    let Value::Object(fields) = record else {
        return;
    };
    let of = |name: &str| record[name].as_str().unwrap_or_default();
    // Of a prompt, it is a word of creel.
    let has_reason = of("kind") != "prompt_sent";
    let is_text = |name: &str| !NO_TEXT.contains(&name) && (has_reason || name != "reason");
    for (field, value) in fields.iter().filter(|(name, _)| is_text(name)) {
        each_text(value, &mut |text| {
            for line in text.lines().filter(|line| pattern.find(line).is_some()) {
                each(&FoundLine {
                    project,
                    session,
                    iteration: record["iteration"].as_u64(),
                    kind: of("kind"),
                    seq: record["seq"].as_u64().unwrap_or_default(),
                    at: of("at"),
                    field,
                    line,
                });
            }
        });
    }
}

fn each_text(value: &Value, each: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(values) => values.iter().for_each(|value| each_text(value, each)),
        Value::Object(fields) => fields.values().for_each(|value| each_text(value, each)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The session, the iteration, the kind of the record, and the line around the match.
fn row(found: &FoundLine<'_>, pattern: &SearchPattern, all: bool, paint: ColourMode) -> String {
    let iteration = found
        .iteration
        .map_or_else(|| "-".to_owned(), |iteration| iteration.to_string());
    let session = if all {
        format!("{}:{}", plain(found.project), found.session)
    } else {
        found.session.to_owned()
    };
    let place = format!("{session}  {iteration}  {}", plain(found.kind));
    let place = paint.paint(TextRole::Faint, place);
    // The match is looked for again: the line without what only a terminal understands is shorter.
    let line = plain(found.line);
    let line = line.trim();
    let matched = pattern.find(line).unwrap_or(0..0);
    let before = line[..matched.start].chars().rev().take(BEFORE);
    let start = matched.start - before.map(char::len_utf8).sum::<usize>();
    let cut = if start > 0 { "…" } else { "" };
    let rest = LINE.saturating_sub(line[start..matched.end].chars().count());
    let end = line[matched.end..]
        .chars()
        .take(rest)
        .map(char::len_utf8)
        .sum::<usize>();
    let end = matched.end + end;
    let more = if end < line.len() { "…" } else { "" };
    let highlighted = if matched.is_empty() {
        String::new()
    } else {
        paint.paint(TextRole::Warning, &line[matched.clone()])
    };
    format!(
        "{place}  {cut}{}{highlighted}{}{more}\n",
        &line[start..matched.start],
        &line[matched.end..end]
    )
}
