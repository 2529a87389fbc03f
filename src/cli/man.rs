//! `creel man`: the manual pages, one for every command.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::{Args, Command};

use crate::cli::{
    error::{CliError, CliResult},
    help,
    output::{print, say},
};

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
    let pages = pages().map_err(|error| CliError::failed(format!("cannot write the manual: {error}")))?;
    match &args.out {
        Some(folder) => write(folder, &pages),
        None => print(&pages.first().map(|page| String::from_utf8_lossy(&page.text)).unwrap_or_default()),
    }
}

fn write(folder: &Path, pages: &[ManualPage]) -> CliResult {
    let problem = |path: &Path, error: &io::Error| {
        let path = path.display();
        CliError::failed(format!("cannot write {path}: {error}\n  choose a folder that you can write to with --out"))
    };
    fs::create_dir_all(folder).map_err(|error| problem(folder, &error))?;
    for page in pages {
        let path = folder.join(format!("{}.1", page.name));
        fs::write(&path, &page.text).map_err(|error| problem(&path, &error))?;
    }
    say(&format!("creel: wrote {} manual pages to {}; read one with `man creel-run`", pages.len(), folder.display()));
    Ok(0)
}

/// The page of `creel`, then those of all commands below it.
fn pages() -> io::Result<Vec<ManualPage>> {
    let mut whole = help::command().version(env!("CARGO_PKG_VERSION"));
    whole.build();
    let mut found = Vec::new();
    let mut waiting = vec![(whole, String::new())];
    while let Some((command, path)) = waiting.pop() {
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            // clap adds a `help` below each command that has others below it.
            if path.is_empty() || below.get_name() != "help" {
                waiting.push((below.clone(), format!("{path} {}", below.get_name()).trim_start().to_owned()));
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
    let man = clap_mangen::Man::new(command.display_name(name.clone()).version(env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if has_commands {
        man.render_subcommands_section(&mut text)?;
    }
    section(&mut text, "EXAMPLES", &help::examples_of(path));
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

/// A section of text with its lines as they are.
fn section(page: &mut Vec<u8>, heading: &str, text: &str) {
    let lines: String = text.lines().map(|line| format!("{}\n", escaped(line))).collect();
    page.extend(format!(".SH \"{heading}\"\n.nf\n{lines}.fi\n").into_bytes());
}

/// A line that the formatter prints as it is: a hyphen stays a hyphen, and a dot at the start is no request.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}
