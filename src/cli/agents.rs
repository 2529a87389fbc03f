//! `creel agents`: lists the agents, how each would run, and how to install the missing ones. With a
//! name: see [`super::agent_options`].
//!
//! # Invariants
//! - Only programs that the user has installed are asked for their version: creel runs nothing that
//!   a project's config names.
//! - Asking is limited in time and in the bytes of an answer that are kept.
//! - A program runs in the root folder, so the files of a project have no effect.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use regex::Regex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use unicode_width::UnicodeWidthStr as _;

use super::{
    agent_options,
    arguments::ConfigArgs,
    error::{self, CliError, CliResult, print, say},
    target::Project,
};
use crate::{
    config::{
        PlanError, Settings,
        agents::{AgentOrigin, KnownAgent, LaunchMethod, find_program, how_to_install},
        program_of,
    },
    engine::policy::{AgentSpec, ToolAccess},
    present::{
        style::{ColourMode, TextRole},
        tables::padded,
        text::{first_line, plain, plain_line},
    },
    process::{
        run::{self, OutputStream, ProcessEnd, ProcessGroup, ProcessObserver, ProcessSpec},
        signals::ShutdownSignals,
    },
};

/// How to list agents.
#[derive(Debug, Args)]
pub struct AgentsArgs {
    /// Start this agent, list its options and their values, and end it.
    pub name: Option<String>,
    /// The config whose agents to list, in addition to the known ones.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

pub(super) const INTERRUPTED: u8 = 130;
/// The width of a line, in columns.
const WIDTH: usize = 80;

struct ListedAgent<'a> {
    name: &'a str,
    /// Its product name, if known.
    title: Option<&'a str>,
    from: &'static str,
    /// How it would run. `None` if it is not installed.
    runs: Option<&'a AgentSpec>,
    found: ProgramLookup,
    /// How to ask its program for the version.
    question: Option<VersionQuery>,
    /// The ways to install it that would improve something.
    install: Vec<&'a str>,
    login: Option<&'a str>,
}

enum ProgramLookup {
    At(PathBuf),
    Missing,
    /// It needs no program, or runs something that only a shell can find.
    Unknown,
}

pub(super) fn agents(args: &AgentsArgs) -> CliResult {
    let project = Project::load(&args.config)?;
    if let Some(name) = &args.name {
        return agent_options::list(&project, name, args.json);
    }
    let settings = &project.settings;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let listed = list(settings, &project.root, &path);
    let questions: BTreeSet<VersionQuery> = listed
        .iter()
        .filter_map(|agent| agent.question.clone())
        .collect();
    let Some(versions) = ask_all(questions, LISTING)? else {
        return Ok(INTERRUPTED);
    };
    if args.json {
        let all: Vec<Value> = listed
            .iter()
            .map(|agent| as_json(agent, &versions))
            .collect();
        return print(&format!("{:#}\n", Value::from(all)));
    }
    print(&table(
        &listed,
        &versions,
        ColourMode::for_stream(&std::io::stdout()),
    ))?;
    match settings.plan(crate::config::PlanRequest::default()) {
        Ok(plan) => {
            say(&format!(
                "creel: this project uses `{}`; choose another agent with `--agent NAME`",
                plain(&plan.agent)
            ));
        }
        // The general advice is to run this very command.
        Err(PlanError::NoAgent { .. }) if settings.described().next().is_none() => {
            say(
                "creel: none of these agents is on PATH; install one, describe your own under `agents:`, or try `creel demo`",
            );
        }
        Err(error) => say(&format!("creel: {error}")),
    }
    Ok(0)
}

/// An agent that is installed.
pub(super) struct InstalledAgent {
    pub(super) name: String,
    pub(super) version: Option<String>,
    /// Why its program does not say its version.
    pub(super) problem: Option<String>,
    /// How to log in.
    pub(super) login: Option<String>,
}

/// The installed agents. None if a signal arrived first.
pub(super) fn installed(
    settings: &Settings,
    root: &Path,
) -> CliResult<Option<Vec<InstalledAgent>>> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let listed = list(settings, root, &path).into_iter();
    let there: Vec<_> = listed
        .filter(|agent| matches!(agent.found, ProgramLookup::At(_)))
        .collect();
    let questions = there
        .iter()
        .filter_map(|agent| agent.question.clone())
        .collect();
    let Some(versions) = ask_all(questions, LISTING)? else {
        return Ok(None);
    };
    let of_agent = |agent: &ListedAgent<'_>| {
        let asked = agent
            .question
            .as_ref()
            .and_then(|question| versions.get(question));
        InstalledAgent {
            name: agent.name.to_owned(),
            version: asked.and_then(VersionAnswer::version).map(str::to_owned),
            problem: asked.and_then(VersionAnswer::problem),
            login: agent.login.map(str::to_owned),
        }
    };
    Ok(Some(there.iter().map(of_agent).collect()))
}

/// The agents of the config, then those that need no entry.
fn list<'a>(settings: &'a Settings, root: &Path, path: &OsStr) -> Vec<ListedAgent<'a>> {
    let described = settings
        .agents
        .iter()
        .map(|(name, spec)| described(settings, name, spec, (root, path)));
    let known = settings
        .known
        .iter()
        .filter(|agent| !settings.agents.contains_key(&agent.name));
    described
        .chain(known.map(|agent| known_agent(agent, path)))
        .collect()
}

fn described<'a>(
    settings: &'a Settings,
    name: &'a str,
    spec: &'a AgentSpec,
    (root, path): (&Path, &OsStr),
) -> ListedAgent<'a> {
    let program = spec.command_line().map(program_of).unwrap_or_default();
    let found = if is_plain_word(program) {
        find(program, root, path)
    } else {
        ProgramLookup::Unknown
    };
    let known = settings.known.by_program(program);
    let install = spec
        .facts()
        .and_then(|facts| facts.install.as_deref())
        .filter(|_| matches!(found, ProgramLookup::Missing));
    ListedAgent {
        name,
        title: None,
        from: "config",
        runs: Some(spec),
        question: known.and_then(|way| question(way, path)),
        found,
        install: install.into_iter().collect(),
        login: spec.facts().and_then(|facts| facts.login.as_deref()),
    }
}

fn known_agent<'a>(agent: &'a KnownAgent, path: &OsStr) -> ListedAgent<'a> {
    let way = agent.installed(path);
    // What is installed is good enough, unless only another way speaks the protocol.
    let better = agent
        .ways
        .iter()
        .filter(|other| way.is_none_or(|way| !way.is_acp() && other.is_acp()));
    ListedAgent {
        name: &agent.name,
        title: Some(&agent.title),
        from: match agent.origin {
            AgentOrigin::BuiltIn => "built_in",
            AgentOrigin::Own => "user",
        },
        runs: way.map(|way| &way.spec),
        question: way.and_then(|way| question(way, path)),
        found: way
            .and_then(|way| way.find(path))
            .map_or(ProgramLookup::Missing, ProgramLookup::At),
        install: how_to_install(better),
        login: way.or(agent.ways.first()).and_then(LaunchMethod::login),
    }
}

pub(super) fn question(way: &LaunchMethod, path: &OsStr) -> Option<VersionQuery> {
    Some(VersionQuery {
        program: way.find(path)?,
        arguments: way.version.clone()?,
    })
}

/// Whether a shell would read the word as the name of a program.
fn is_plain_word(word: &str) -> bool {
    const OF_THE_SHELL: [&str; 10] = [
        "exec", "cd", "eval", "export", "if", "for", "while", "set", "command", "time",
    ];
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '/' | '@');
    !word.is_empty() && word.chars().all(plain) && !OF_THE_SHELL.contains(&word)
}

fn find(program: &str, root: &Path, path: &OsStr) -> ProgramLookup {
    let whole = root.join(program);
    let program = if program.contains('/') {
        whole.to_str().unwrap_or(program)
    } else {
        program
    };
    find_program(program, path).map_or(ProgramLookup::Missing, ProgramLookup::At)
}

fn as_json(agent: &ListedAgent<'_>, versions: &BTreeMap<VersionQuery, VersionAnswer>) -> Value {
    let asked = agent
        .question
        .as_ref()
        .and_then(|question| versions.get(question));
    let (installed, path) = match &agent.found {
        ProgramLookup::At(path) => (Some(true), Some(path)),
        ProgramLookup::Missing => (Some(false), None),
        ProgramLookup::Unknown => (None, None),
    };
    json!({
        "name": agent.name,
        "title": agent.title,
        "from": agent.from,
        "runs": agent.runs.map(how),
        "command": agent.runs.and_then(AgentSpec::command_line),
        "installed": installed,
        "path": path.map(|path| path.to_string_lossy()),
        "version": asked.and_then(VersionAnswer::version),
        "version_problem": asked.and_then(VersionAnswer::problem),
        "install": agent.install,
        "login": agent.login,
        "tools": agent.runs.map(|spec| match spec.tool_access() {
            ToolAccess::Given => "given",
            ToolAccess::InVariable => "in CREEL_MCP",
            ToolAccess::Refused => "refused",
            ToolAccess::Off => "off",
        }),
    })
}

const fn how(spec: &AgentSpec) -> &'static str {
    match spec {
        AgentSpec::Acp { .. } => "acp",
        AgentSpec::Command { .. } => "command",
        AgentSpec::Scripted { .. } => "script",
        AgentSpec::Outside => "outside",
    }
}

fn table(
    listed: &[ListedAgent<'_>],
    versions: &BTreeMap<VersionQuery, VersionAnswer>,
    paint: ColourMode,
) -> String {
    let version_text = |agent: &ListedAgent<'_>| {
        let asked = agent
            .question
            .as_ref()
            .and_then(|question| versions.get(question));
        match asked {
            Some(VersionAnswer::Known(version)) => version.clone(),
            Some(VersionAnswer::NoAnswer(_)) => "no answer".to_owned(),
            // A program's own error message is long; `creel check` shows it.
            Some(VersionAnswer::Failed(_)) => "fails".to_owned(),
            None => "-".to_owned(),
        }
    };
    let (missing, there): (Vec<_>, Vec<_>) = listed
        .iter()
        .partition(|agent| matches!(agent.found, ProgramLookup::Missing));
    let widest = |texts: &mut dyn Iterator<Item = String>| {
        let widths = texts.map(|text| text.width());
        widths.max().unwrap_or(0).max("VERSION".len())
    };
    let columns = AgentColumns {
        name: widest(&mut listed.iter().map(|agent| name_of(agent))),
        version: widest(&mut there.iter().map(|agent| version_text(agent))),
    };
    let AgentColumns { name, .. } = columns;
    let mut text = String::new();
    if !there.is_empty() {
        let head = columns.row("NAME", ["RUNS AS", "VERSION"], "COMMAND");
        text += &format!("{}\n", paint.paint(TextRole::Heading, head));
    }
    for agent in &there {
        let version_text = version_text(agent);
        let (runs, command) = agent.runs.map_or(("", String::new()), |spec| {
            (shown(spec), columns.command(spec))
        });
        text += &columns.row(&name_of(agent), [runs, &version_text], &command);
        text += "\n";
        if agent
            .runs
            .is_some_and(|spec| spec.tool_access() == ToolAccess::Refused)
        {
            let without = format!(
                "{:name$}  does not accept creel's tools (tasks, stop hooks)",
                ""
            );
            text += &format!("{}\n", paint.paint(TextRole::Faint, without));
        }
        for line in &agent.install {
            let better = format!("{:name$}  over ACP with: {}", "", plain(line));
            text += &format!("{}\n", paint.paint(TextRole::Faint, better));
        }
    }
    if !missing.is_empty() {
        let gap = if there.is_empty() { "" } else { "\n" };
        text += &format!(
            "{gap}{}\n",
            paint.paint(
                TextRole::Heading,
                format!("{:name$}  HOW TO INSTALL", "MISSING")
            )
        );
    }
    text + &missing
        .iter()
        .map(|agent| columns.install(agent))
        .collect::<String>()
}

/// The name in the table.
fn name_of(agent: &ListedAgent<'_>) -> String {
    plain_line(agent.name, LONGEST)
}

#[derive(Clone, Copy)]
struct AgentColumns {
    name: usize,
    version: usize,
}

impl AgentColumns {
    fn row(self, name: &str, [runs, version]: [&str; 2], command: &str) -> String {
        let [name, runs, version] = [(name, self.name), (runs, 7), (version, self.version)]
            .map(|(text, width)| padded(text, width));
        format!("{name}  {runs}  {version}  {command}")
    }

    /// As much of the command as fits.
    fn command(self, spec: &AgentSpec) -> String {
        let room =
            WIDTH.saturating_sub(self.name + self.version + "    RUNS AS  …".chars().count());
        plain_line(spec.command_line().unwrap_or_default(), room)
    }

    fn install(self, agent: &ListedAgent<'_>) -> String {
        let name = self.name;
        let mut lines: Vec<String> = agent.install.iter().map(|line| plain(line)).collect();
        if lines.is_empty() {
            let program = agent
                .runs
                .and_then(AgentSpec::command_line)
                .map(program_of)
                .unwrap_or_default();
            lines.push(format!("`{}` is not on PATH", plain(program)));
        }
        let line = |(n, line): (usize, &String)| match n {
            0 => format!("{}  {line}\n", padded(&name_of(agent), name)),
            _ => format!("{:name$}  or: {line}\n", ""),
        };
        lines.iter().enumerate().map(line).collect()
    }
}

const fn shown(spec: &AgentSpec) -> &'static str {
    match spec {
        AgentSpec::Acp { .. } => "ACP",
        AgentSpec::Command { .. } => "command",
        AgentSpec::Scripted { .. } => "script",
        AgentSpec::Outside => "outside",
    }
}

/// How long a listing waits for one program.
pub(in crate::cli) const LISTING: Duration = Duration::from_secs(15);
/// How long a check waits for the agent: some take several seconds to start on a busy machine.
pub(in crate::cli) const CHECKING: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_millis(300);
/// How many bytes of an answer are kept.
const KEPT: usize = 8 * 1024;
/// How many characters of a program's own message are shown.
const SHOWN: usize = 200;
/// The longest version, in characters.
const LONGEST: usize = 24;

/// A program, and the arguments that make it print its version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) struct VersionQuery {
    pub(in crate::cli) program: PathBuf,
    pub(in crate::cli) arguments: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum VersionAnswer {
    Known(String),
    /// It does not start, or ends with an error: how it ended, and the last line that it printed.
    Failed(String),
    /// It did not answer within this time: it hangs, or the machine is busy.
    NoAnswer(Duration),
}

impl VersionAnswer {
    pub(in crate::cli) fn version(&self) -> Option<&str> {
        match self {
            Self::Known(version) => Some(version),
            Self::Failed(_) | Self::NoAnswer(_) => None,
        }
    }

    pub(in crate::cli) fn problem(&self) -> Option<String> {
        match self {
            Self::Known(_) => None,
            Self::Failed(how) => Some(how.clone()),
            Self::NoAnswer(patience) => Some(format!("no answer within {} s", patience.as_secs())),
        }
    }
}

/// Asks all programs, one after the other: together they would slow each other down until they are
/// too late. Leaves out those whose output contains no version. `None` if a signal arrived first.
pub(in crate::cli) fn ask_all(
    questions: BTreeSet<VersionQuery>,
    patience: Duration,
) -> CliResult<Option<BTreeMap<VersionQuery, VersionAnswer>>> {
    if questions.is_empty() {
        return Ok(Some(BTreeMap::new()));
    }
    let tokio = error::start_tokio()?;
    let answers = tokio.block_on(async {
        let mut signals = ShutdownSignals::listen()?;
        let cancel = CancellationToken::new();
        let mut answers = BTreeMap::new();
        for question in questions {
            let mut asking = std::pin::pin!(ask(question, patience, cancel.clone()));
            tokio::select! {
                answer = &mut asking => answers.extend(answer),
                _ = signals.next() => {
                    cancel.cancel();
                    asking.await;
                    return Ok(None);
                }
            }
        }
        Ok(Some(answers))
    });
    // A task that still reads from a pipe must not delay the exit.
    tokio.shutdown_background();
    answers.map_err(|error: std::io::Error| {
        CliError::failed(format!("cannot listen for signals: {error}"))
    })
}

async fn ask(
    question: VersionQuery,
    patience: Duration,
    cancel: CancellationToken,
) -> Option<(VersionQuery, VersionAnswer)> {
    let spec = ProcessSpec {
        command: format!("exec \"$CREEL_PROGRAM\" {}", question.arguments),
        cwd: PathBuf::from("/"),
        env: vec![(
            "CREEL_PROGRAM".to_owned(),
            question.program.to_str()?.to_owned(),
        )],
        stdin: Vec::new(),
        timeout: Some(patience),
        grace: GRACE,
        unset: Vec::new(),
        mark: format!(
            "agents-{}/{}",
            std::process::id(),
            question.program.display()
        ),
    };
    let mut answer = VersionOutput::default();
    let end = run::run(spec, &mut answer, &cancel).await;
    let output = [answer.out, answer.err].map(|bytes| plain(&String::from_utf8_lossy(&bytes)));
    let how = match end {
        ProcessEnd::Exit(0) => {
            let version = output.iter().find_map(|text| version_in(text))?;
            return Some((question, VersionAnswer::Known(version)));
        }
        ProcessEnd::TimedOut => return Some((question, VersionAnswer::NoAnswer(patience))),
        ProcessEnd::Cancelled => return None,
        ProcessEnd::Exit(code) => format!("exit code {code}"),
        ProcessEnd::Signal(signal) => format!("signal {signal}"),
        ProcessEnd::SpawnFailed(why) => why,
    };
    let last = output
        .iter()
        .rev()
        .find_map(|text| text.lines().rfind(|line| !line.trim().is_empty()));
    let last = last
        .map(|line| format!(": {}", first_line(line.trim(), SHOWN)))
        .unwrap_or_default();
    Some((question, VersionAnswer::Failed(format!("{how}{last}"))))
}

#[derive(Default)]
struct VersionOutput {
    out: Vec<u8>,
    err: Vec<u8>,
}

impl ProcessObserver for VersionOutput {
    fn started(&mut self, _group: ProcessGroup) {}

    fn output(&mut self, stream: OutputStream, bytes: &[u8]) {
        let kept = match stream {
            OutputStream::Stdout => &mut self.out,
            OutputStream::Stderr => &mut self.err,
        };
        kept.extend(bytes.iter().take(KEPT - kept.len()));
    }
}

fn version_in(text: &str) -> Option<String> {
    let version = Regex::new(r"(?:^|[^0-9A-Za-z.])v?([0-9]+(?:\.[0-9]+)+[0-9A-Za-z.+-]*)").ok()?;
    let found = text.lines().find_map(|line| version.captures(line))?;
    let version: String = found[1]
        .trim_end_matches(['.', '+', '-'])
        .chars()
        .take(LONGEST)
        .collect();
    Some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_what_programs_say() {
        let output = [
            "2.1.0 (Claude Code)",
            "codex-cli 0.166.0",
            "GitHub Copilot CLI 1.0.102.\nRun 'copilot update'",
            "WARNING: proceeding, even though /lib/python3.11/x is gone\naider 0.86.2",
            "goose v1.34.0-rc.1+build",
            " 1.34.0",
            "@scope/codex-acp 2.6.0",
        ];
        let expected = [
            "2.1.0",
            "0.166.0",
            "1.0.102",
            "0.86.2",
            "1.34.0-rc.1+build",
            "1.34.0",
            "2.6.0",
        ];
        assert_eq!(
            output.map(|output| version_in(output).expect("a version")),
            expected
        );
        assert_eq!(version_in("usage: agent [OPTIONS]\nsee 42"), None);
    }
}
