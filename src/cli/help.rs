//! `creel help`: the help of a command, or a topic. Also the help of all commands, with groups and
//! examples.
//!
//! Groups and examples are added only when help is printed, so that other commands start faster.

use clap::{Args, Command, CommandFactory as _, builder::Styles};

use crate::{
    cli::{
        Cli,
        error::{CliError, CliResult, print},
    },
    present::style::ColourMode,
    text::nearest,
};

/// What to explain.
#[derive(Debug, Args)]
pub struct HelpArgs {
    /// A command (`run`, `gate answer`) or a topic: exit-codes, environment, files, hooks.
    #[arg(value_name = "COMMAND OR TOPIC")]
    pub words: Vec<String>,
}

/// The commands by what you want to do. A test requires each command in exactly one group.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Run", &["run", "resume", "demo"]),
    (
        "Watch",
        &[
            "sessions", "attach", "status", "show", "report", "diff", "search", "stats", "verify",
            "replay", "prune",
        ],
    ),
    (
        "Steer",
        &[
            "pause",
            "unpause",
            "cancel",
            "stop",
            "message",
            "pending",
            "gate",
            "hooks",
            "checkpoint",
        ],
    ),
    (
        "Tasks",
        &["plan", "task", "import", "export", "worker", "worktree"],
    ),
    ("Share", &["submit", "watch", "merge"]),
    (
        "Set up",
        &[
            "init",
            "check",
            "doctor",
            "config",
            "agents",
            "trust",
            "untrust",
            "mcp",
            "hook",
            "schema",
            "completions",
            "man",
            "help",
        ],
    ),
];

/// The examples of each command, each a command line that creel understands, and its description for
/// the manual page: more than the line in the help, less than the book.
const COMMANDS: &str = include_str!("../../assets/help/commands.txt");
pub(super) const EXIT_CODES: &str = include_str!("../../assets/help/exit-codes.txt");
pub(super) const ENVIRONMENT: &str = include_str!("../../assets/help/environment.txt");
pub(super) const FILES: &str = include_str!("../../assets/help/files.txt");
const HOOKS: &str = include_str!("../../assets/help/hooks.txt");

/// What is not the help of a command.
pub const TOPICS: [(&str, &str); 4] = [
    ("exit-codes", EXIT_CODES),
    ("environment", ENVIRONMENT),
    ("files", FILES),
    ("hooks", HOOKS),
];

/// The whole command line with its groups and examples.
pub fn command() -> Command {
    let mut whole = with_examples(Cli::command(), "");
    let groups = groups(&whole);
    let topics = TOPICS.map(|(name, _)| name).join(", ");
    whole = whole.after_help(format!(
        "Examples:\n{}\n\n`creel help COMMAND` explains a command, and `creel help exit-codes` the exit codes.\n\
         Topics: {topics}.",
        examples_of("").1
    ));
    whole.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{{options}}{{after-help}}"
    ))
}

/// The groups of commands as text, with the heading of the options below.
fn groups(whole: &Command) -> String {
    let styles = Styles::default();
    let (heading, literal) = (styles.get_header(), styles.get_literal());
    let width = whole
        .get_subcommands()
        .map(|command| command.get_name().len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for (group, names) in GROUPS {
        text += &format!("{heading}{group}:{heading:#}\n");
        for command in names.iter().filter_map(|name| whole.find_subcommand(name)) {
            let about = command
                .get_about()
                .map(ToString::to_string)
                .unwrap_or_default();
            let first = about.lines().next().unwrap_or_default();
            text += &format!(
                "  {literal}{:width$}{literal:#}  {first}\n",
                command.get_name()
            );
        }
        text += "\n";
    }
    text + &format!("{heading}Options:{heading:#}\n")
}

/// Adds the examples of a command and of the commands below it. `path` is empty for `creel` itself.
fn with_examples(command: Command, path: &str) -> Command {
    let command = match examples_of(path) {
        (0, _) => command,
        (1, listed) => command.after_help(format!("Example:\n{listed}")),
        (_, listed) => command.after_help(format!("Examples:\n{listed}")),
    };
    command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        with_examples(below, path.trim_start())
    })
}

/// The lines about a command, for example `gate answer`. Empty for `creel` itself.
fn lines_about(path: &str) -> impl Iterator<Item = &'static str> {
    let name = if path.is_empty() { "creel" } else { path };
    let about = COMMANDS
        .split("== ")
        .find_map(|section| section.strip_prefix(name)?.strip_prefix('\n'));
    about.unwrap_or_default().trim_end().lines()
}

/// How many examples a command has, and their list with the explanations in one column.
pub(super) fn examples_of(path: &str) -> (usize, String) {
    let examples: Vec<(&str, &str)> = lines_about(path)
        .filter_map(|line| line.strip_prefix("$ ")?.split_once("  # "))
        .collect();
    let width = examples.iter().map(|(line, _)| line.len()).max();
    let width = width.unwrap_or(0);
    let lines: Vec<String> = examples
        .iter()
        .map(|(line, what)| format!("  {line:width$}  {what}"))
        .collect();
    (examples.len(), lines.join("\n"))
}

/// The description of a command for its manual page. Empty lines separate its paragraphs.
pub(super) fn description_of(path: &str) -> String {
    let lines: Vec<&str> = lines_about(path)
        .filter(|line| !line.starts_with("$ "))
        .collect();
    lines.join("\n").trim_start().to_owned()
}

pub(super) fn help(args: &HelpArgs) -> CliResult {
    if let [topic] = args.words.as_slice()
        && let Some((_, text)) = TOPICS.iter().find(|(name, _)| name == topic)
    {
        return print(text);
    }
    let whole = command();
    let mut found = &whole;
    for word in &args.words {
        found = found
            .find_subcommand(word)
            .ok_or_else(|| unknown(found, word))?;
    }
    // The same text as with `--help`.
    let line = std::iter::once("creel")
        .chain(args.words.iter().map(String::as_str))
        .chain(["--help"]);
    let Err(shown) = whole.clone().try_get_matches_from(line) else {
        return Err(CliError::failed("the command has no help"));
    };
    let text = shown.render();
    match ColourMode::for_stream(&std::io::stdout()) {
        ColourMode::Colour => print(&text.ansi().to_string()),
        ColourMode::Plain => print(&text.to_string()),
    }
}

fn unknown(above: &Command, word: &str) -> CliError {
    let names: Vec<&str> = above.get_subcommands().map(Command::get_name).collect();
    let topics = if above.get_name() == "creel" {
        TOPICS.map(|(name, _)| name).to_vec()
    } else {
        Vec::new()
    };
    let known = names.iter().chain(&topics).copied();
    let way_out = match nearest(word, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            "list the commands with `creel --help`; the topics are exit-codes, environment, files and hooks".to_owned()
        }
    };
    CliError::usage(format!(
        "no help on `{word}`: it is neither a command nor a topic\n  {way_out}"
    ))
}
