//! `creel diff`: what a session or one of its iterations changed.

use std::io::{self, Write as _};

use clap::Args;

use crate::{
    cli::{
        arguments::{ConfigArgs, NatsArgs, iteration_count, session_name},
        error::{CliError, CliResult, json, print, say},
        target::{self, remote_sessions::RecordedSession},
    },
    present::{
        style::{ColourMode, TextRole},
        text::{counted, plain, plain_line},
    },
    report::session_diff::{
        ChangedFile, DiffPart, DiffPlace, DiffSource, SessionDiff, WorkHistory, session_diff,
    },
};

/// The longest name in a line of `--stat`, in characters.
const NAME: usize = 300;

/// Which changes.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The session. Default: `CREEL_SESSION`, or the one that changed last.
    #[arg(value_parser = session_name)]
    pub session: Option<String>,
    /// Only this iteration. Default: the whole session. A number alone means the latest session.
    #[arg(value_parser = iteration_count)]
    pub iteration: Option<u32>,
    /// Whose sessions.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where they are.
    #[command(flatten)]
    pub nats: NatsArgs,
    /// Print a line per file instead of the patch.
    #[arg(long, conflicts_with = "json")]
    pub stat: bool,
    /// Print JSON: each file with its added and removed lines.
    #[arg(long)]
    pub json: bool,
}

pub(super) fn diff(args: &DiffArgs) -> CliResult {
    let (session, iteration) = chosen(args)?;
    let recorded = RecordedSession::find(session, &args.config, &args.nats)?;
    let history = WorkHistory::read(&recorded.folder().journal())?;
    let part = iteration.map_or(DiffPart::Session, DiffPart::Iteration);
    let here = target::here()?;
    let place = if args.nats.url.is_some() {
        DiffPlace::Elsewhere(here)
    } else {
        DiffPlace::Here(recorded.folder().project().to_owned())
    };
    let diff =
        session_diff(&history, part, &place).map_err(|error| CliError::usage(error.to_string()))?;
    if args.json {
        return json(&diff);
    }
    let paint = ColourMode::for_stream(&io::stdout());
    let printed = if args.stat {
        print(&statistics(&diff, paint))
    } else {
        print_patch(&diff, paint)
    };
    for note in notes(&diff) {
        say(&format!("creel: {note}"));
    }
    printed
}

/// A number alone is an iteration of the latest session, unless a session has that name.
fn chosen(args: &DiffArgs) -> CliResult<(Option<&str>, Option<u32>)> {
    let (Some(name), None, None) = (&args.session, args.iteration, &args.nats.url) else {
        return Ok((args.session.as_deref(), args.iteration));
    };
    let (_, sessions) = target::sessions_of(&args.config)?;
    match name.parse() {
        Ok(number) if !sessions.folder(name).exists() => Ok((None, Some(number))),
        Ok(_) | Err(_) => Ok((Some(name), None)),
    }
}

fn notes(diff: &SessionDiff) -> Vec<String> {
    let mut notes = diff.notes.clone();
    if diff.more_files > 0 {
        let more = counted(diff.more_files, "changed file");
        notes.push(format!("the records do not name {more}."));
    }
    if diff.files.is_empty() && notes.is_empty() {
        notes.push("nothing changed".to_owned());
    }
    notes
}

/// The patch: for a terminal in colours and without what only a terminal understands, for another
/// program as it is.
fn print_patch(diff: &SessionDiff, paint: ColourMode) -> CliResult {
    let text: String = diff
        .files
        .iter()
        .map(|file| patch_of(file, paint))
        .collect();
    if io::IsTerminal::is_terminal(&io::stdout()) {
        return print(&text);
    }
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::failed(format!("cannot print: {error}")))
        }
        Ok(()) | Err(_) => Ok(0),
    }
}

/// Lines before a patch that are not part of one are indented: `git apply` skips them.
fn patch_of(file: &ChangedFile, paint: ColourMode) -> String {
    let name = plain_line(&file.path, NAME);
    match file.source {
        DiffSource::Contents => {
            let is_terminal = io::IsTerminal::is_terminal(&io::stdout());
            let shown = |line: &str| {
                let line = if is_terminal {
                    plain(line)
                } else {
                    line.to_owned()
                };
                coloured(&line, paint)
            };
            let lines = file.text.split_inclusive('\n');
            lines
                .map(|line| shown(line.trim_end_matches('\n')) + "\n")
                .collect()
        }
        DiffSource::AgentEdits => {
            let head = paint.paint(
                TextRole::Heading,
                format!("{name}: the edits that the agent reported"),
            );
            let edits = plain(&file.text);
            let lines = edits
                .lines()
                .map(|line| format!("  {}\n", coloured(line, paint)));
            format!("{head}\n{}", lines.collect::<String>())
        }
        DiffSource::NameOnly => {
            paint.paint(
                TextRole::Heading,
                format!("{name}: changed, contents not known"),
            ) + "\n"
        }
    }
}

fn coloured(line: &str, paint: ColourMode) -> String {
    let is_head = [
        "diff ",
        "--- ",
        "+++ ",
        "new file",
        "deleted file",
        "old mode",
        "new mode",
    ];
    if is_head.iter().any(|start| line.starts_with(start)) {
        return paint.paint(TextRole::Heading, line);
    }
    match line.as_bytes().first() {
        Some(b'+') => paint.paint(TextRole::Good, line),
        Some(b'-') => paint.paint(TextRole::Bad, line),
        Some(b'@') => paint.paint(TextRole::Faint, line),
        _ => line.to_owned(),
    }
}

fn statistics(diff: &SessionDiff, paint: ColourMode) -> String {
    let number = |sign: char, count: Option<usize>| {
        count.map_or_else(|| "?".to_owned(), |count| format!("{sign}{count}"))
    };
    let cells = |file: &ChangedFile| [number('+', file.added), number('−', file.removed)];
    let width = |column: usize| {
        let widths = diff
            .files
            .iter()
            .map(|file| cells(file)[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let (wide, narrow) = (width(0), width(1));
    let mut text = String::new();
    for file in &diff.files {
        let [added, removed] = cells(file);
        let added = paint.paint(TextRole::Good, format!("{added:>wide$}"));
        let removed = paint.paint(TextRole::Bad, format!("{removed:>narrow$}"));
        text += &format!("{added}  {removed}  {}\n", plain_line(&file.path, NAME));
    }
    let sum = |count: fn(&ChangedFile) -> Option<usize>| {
        diff.files.iter().filter_map(count).sum::<usize>()
    };
    let (added, removed) = (sum(|file| file.added), sum(|file| file.removed));
    if !diff.files.is_empty() {
        let files = counted(diff.files.len() + diff.more_files, "file");
        let unknown = diff
            .files
            .iter()
            .filter(|file| file.added.is_none())
            .count();
        let lines = if unknown < diff.files.len() {
            format!(", +{added} −{removed}")
        } else {
            String::new()
        };
        let gaps = match unknown {
            0 => String::new(),
            some => format!(", the lines of {some} are not known"),
        };
        text += &format!("{files}{lines}{gaps}\n");
    }
    text
}
