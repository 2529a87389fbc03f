//! `creel man`: the manual pages, one for every command.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Arg, Args, Command};

use super::{
    error::{CliError, CliResult, print, say},
    help,
};
use crate::config::paths::in_words;

/// Where to write the pages.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write a page for every command into this folder. Default: print the page of `creel` itself.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// A page: the name of its file without the section, and its text.
struct ManualPage {
    name: String,
    text: Vec<u8>,
}

pub(super) fn man(args: &ManArgs) -> CliResult {
    let pages =
        pages().map_err(|error| CliError::failed(format!("cannot write the manual: {error}")))?;
    match &args.out {
        Some(folder) => write(folder, &pages),
        None => print(
            &pages
                .first()
                .map(|page| String::from_utf8_lossy(&page.text))
                .unwrap_or_default(),
        ),
    }
}

fn write(folder: &Path, pages: &[ManualPage]) -> CliResult {
    let problem = |path: &Path, error: &io::Error| {
        let (path, why) = (path.display(), in_words(error));
        CliError::failed(format!(
            "cannot write the manual pages: {path}: {why}\n  name a folder that you can write to, for example `creel man \
             --out man`"
        ))
    };
    fs::create_dir_all(folder).map_err(|error| problem(folder, &error))?;
    for page in pages {
        let path = folder.join(format!("{}.1", page.name));
        fs::write(&path, &page.text).map_err(|error| problem(&path, &error))?;
    }
    say(&format!(
        "creel: wrote {} manual pages to {}; read one with `man creel-run`",
        pages.len(),
        folder.display()
    ));
    Ok(0)
}

/// The page of `creel`, then those of all commands below it.
fn pages() -> io::Result<Vec<ManualPage>> {
    let mut whole = help::command().version(env!("CARGO_PKG_VERSION"));
    whole.build();
    let mut found = Vec::new();
    let mut waiting = vec![(whole, String::new())];
    while let Some((command, path)) = waiting.pop() {
        for below in command
            .get_subcommands()
            .filter(|below| !below.is_hide_set())
        {
            // clap adds a `help` below each command that has others below it.
            if path.is_empty() || below.get_name() != "help" {
                waiting.push((
                    below.clone(),
                    format!("{path} {}", below.get_name())
                        .trim_start()
                        .to_owned(),
                ));
            }
        }
        found.push(page(command, &path)?);
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

fn page(command: Command, path: &str) -> io::Result<ManualPage> {
    let name = format!("creel {path}").trim_end().replace(' ', "-");
    let has_commands = command.has_subcommands();
    let synopsis = synopsis(&command, path);
    let version = concat!("creel ", env!("CARGO_PKG_VERSION"));
    let man = clap_mangen::Man::new(command.display_name(name.clone()))
        .source(version)
        .manual("creel");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    text.extend(synopsis.into_bytes());
    text.extend(b".SH DESCRIPTION\n");
    for paragraph in help::description_of(path).split("\n\n") {
        text.extend(format!(".PP\n{}\n", escaped(&paragraph.replace('\n', " "))).into_bytes());
    }
    man.render_options_section(&mut text)?;
    if has_commands {
        man.render_subcommands_section(&mut text)?;
    }
    section(&mut text, "EXAMPLES", &help::examples_of(path).1);
    section(&mut text, "EXIT STATUS", help::EXIT_CODES);
    section(&mut text, "ENVIRONMENT", help::ENVIRONMENT);
    section(&mut text, "FILES", help::FILES);
    let related = match path.rsplit_once(' ') {
        Some((above, _)) => format!("creel(1), creel-{above}(1)"),
        None if path.is_empty() => "creel-run(1), creel-help(1)".to_owned(),
        None => "creel(1)".to_owned(),
    };
    section(&mut text, "SEE ALSO", &related);
    Ok(ManualPage { name, text })
}

/// How to call the command: each option with the name of its value, then the arguments.
fn synopsis(command: &Command, path: &str) -> String {
    let bold = |text: &str| format!("\\fB{}\\fR", escaped(text));
    let value = |arg: &Arg| {
        let names: Vec<String> = arg
            .get_value_names()
            .unwrap_or_default()
            .iter()
            .map(ToString::to_string)
            .collect();
        let names = if names.is_empty() {
            arg.get_id().to_string().to_uppercase()
        } else {
            names.join(" ")
        };
        format!("\\fI{}\\fR", escaped(&names))
    };
    let mut words = vec![bold(format!("creel {path}").trim_end())];
    for arg in command
        .get_opts()
        .chain(command.get_arguments().filter(|arg| is_switch(arg)))
    {
        let names = [
            arg.get_short().map(|c| format!("-{c}")),
            arg.get_long().map(|name| format!("--{name}")),
        ];
        let names = names
            .iter()
            .flatten()
            .map(|name| bold(name))
            .collect::<Vec<_>>()
            .join("|");
        let takes = if is_switch(arg) {
            String::new()
        } else {
            format!(" {}", value(arg))
        };
        words.extend((!arg.is_hide_set()).then(|| format!("[{names}{takes}]")));
    }
    for arg in command.get_positionals().filter(|arg| !arg.is_hide_set()) {
        words.push(if arg.is_required_set() {
            value(arg)
        } else {
            format!("[{}]", value(arg))
        });
    }
    if command.has_subcommands() {
        words.push(if path.is_empty() {
            "[\\fICOMMAND\\fR]".to_owned()
        } else {
            "\\fICOMMAND\\fR".to_owned()
        });
    }
    format!(".SH SYNOPSIS\n{}\n", words.join("\n"))
}

/// Whether an option has no value.
fn is_switch(arg: &Arg) -> bool {
    !arg.is_positional() && !arg.get_action().takes_values()
}

/// A section of text with its lines as they are.
fn section(page: &mut Vec<u8>, heading: &str, text: &str) {
    let lines: String = text
        .lines()
        .map(|line| format!("{}\n", escaped(line)))
        .collect();
    page.extend(format!(".SH \"{heading}\"\n.nf\n{lines}.fi\n").into_bytes());
}

/// A line that the formatter prints as it is: a hyphen stays a hyphen, and a dot at the start is no
/// request.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) {
        format!("\\&{line}")
    } else {
        line
    }
}
