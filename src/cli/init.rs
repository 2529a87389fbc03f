//! `creel init`: writes a first config, based on the project, the machine and the user's answers.
//!
//! Owns the wording of its three questions and the meaning of the answers.
//!
//! # Invariants
//! - No existing config is changed.
//! - Every program in the written config is installed, or was named by the user.

use std::{
    ffi::OsStr,
    fmt, fs,
    io::{self, BufRead, IsTerminal as _, Write},
    path::{Path, PathBuf},
};

use clap::Args;

use super::{
    error::{CliError, CliResult, say},
    target,
};
use crate::{
    config::{
        self,
        agents::{KnownAgent, KnownAgents, LaunchMethod, how_to_install},
        paths,
    },
    engine::policy::RetryLimitPolicy,
    hooks::test_suites,
    present::text::{plain, some_names},
    process::programs,
    text::nearest,
};

/// What to write.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// What decides when the work is complete: `tdd` (the tests pass), `security` (scans are clean;
    /// you decide after ten iterations), `checkpoint` (a checkpoint halfway).
    #[arg(long, value_name = "NAME", value_enum)]
    pub template: Option<InitTemplate>,
    /// Do not ask questions; use the default answers.
    #[arg(short, long)]
    pub yes: bool,
}

/// What decides when the work is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum InitTemplate {
    /// When the tests pass.
    Tdd,
    /// When scans are clean; after ten iterations you decide.
    Security,
    /// The default, with a checkpoint halfway.
    Checkpoint,
}

/// Where the schema is written, relative to the project. The config names this file, so an editor
/// needs neither creel nor a network, and the path is valid in every clone that has the file.
const SCHEMA: &str = ".creel/config.schema.json";

/// How many checks the config gets by itself. More parts of a monorepo are named in a message.
const CHECKS: usize = 4;

/// The values for the config.
#[derive(Debug, Clone, PartialEq, Eq)]
struct InitChoices {
    /// A known agent. `None` if none is installed and the user named none.
    agent: Option<String>,
    /// The commands that must pass after each turn.
    checks: Vec<String>,
    /// What happens at the retry limit when unattended.
    on_limit: RetryLimitPolicy,
    /// Whether the config imports the hooks that the project has for other tools.
    imports: bool,
}

pub(super) fn init(args: &InitArgs) -> CliResult {
    let here = target::here()?;
    if let Some(existing) = paths::NAMES
        .iter()
        .map(|name| here.join(name))
        .find(|path| path.exists())
    {
        return Err(CliError::usage(format!(
            "{} already exists; creel did not change it. Edit it, or move it away and run `creel init` again",
            existing.display()
        )));
    }
    target::refuse_links(&here)?;
    let known = config::without_config(paths::agents_file().as_deref())?.known;
    let search = std::env::var_os("PATH").unwrap_or_default();
    let mut checks = checks(&here, args.template, &search);
    let more = checks.split_off(checks.len().min(CHECKS));
    let defaults = InitChoices {
        agent: known
            .preferred(&search)
            .map(|(agent, _)| agent.name.clone()),
        checks,
        on_limit: RetryLimitPolicy::Complete,
        imports: false,
    };
    let hook_files = hook_files(&here);
    let installed: Vec<&str> = known
        .iter()
        .filter(|agent| agent.installed(&search).is_some())
        .map(|agent| agent.name.as_str())
        .collect();
    let choices = if args.yes || !can_ask() {
        defaults
    } else {
        ask(&known, &installed, &hook_files, defaults)?
    };
    let schema = write_schema(&here)?;
    let text = ConfigText {
        known: &known,
        search: &search,
        choices: &choices,
        template: args.template,
        schema: SCHEMA,
        hook_files: &hook_files,
    };
    let path = here.join("creel.yaml");
    write_new(&path, &text.to_string())?;
    let unchecked = choices.checks.is_empty() && args.template.is_none();
    let unchecked = if unchecked {
        UNCHECKED.to_owned()
    } else {
        further(&more)
    };
    let next = next_steps(&known, &installed);
    say(&format!(
        "creel: wrote {} and {}\n{unchecked}{}{next}",
        path.display(),
        schema.display(),
        importable(&hook_files, choices.imports)
    ));
    Ok(0)
}

const UNCHECKED: &str = "  creel found no tests here, so nothing would be verified: add the command that checks the work \
                         under `checks:`\n";

fn further(more: &[String]) -> String {
    if more.is_empty() {
        return String::new();
    }
    format!(
        "  there are more tests; add what should be checked, too: {}\n",
        some_names(more, CHECKS)
    )
}

fn next_steps(known: &KnownAgents, installed: &[&str]) -> String {
    if installed.is_empty() {
        let install = install_lines(known).into_iter().next().unwrap_or_default();
        format!(
            "  no known agent is installed. Install one, for example: {install}\n  list all agents with `creel \
             agents`; then run `creel check` and `creel run \"what to do\"`"
        )
    } else {
        format!(
            "  installed agents: {}\n  read the config, then run `creel check` and `creel run \"what to do\"`",
            installed.join(", ")
        )
    }
}

/// The commands that test this project. The `tdd` template needs one even without tests.
fn checks(project: &Path, template: Option<InitTemplate>, search: &OsStr) -> Vec<String> {
    let finds = |program: &str| programs::first_not_on_path(program, project, search).is_none();
    let found = test_suites::checks(project, &finds);
    let placeholder = template == Some(InitTemplate::Tdd) && found.is_empty();
    if placeholder {
        vec!["./test".to_owned()]
    } else {
        found
    }
}

/// Writes the schema for editors. Replaces a file of an earlier version, since users do not edit
/// it.
fn write_schema(project: &Path) -> CliResult<PathBuf> {
    let path = project.join(SCHEMA);
    let write = || {
        fs::create_dir_all(paths::folder(&path))?;
        fs::write(&path, format!("{:#}\n", config::json_schema()))
    };
    write().map_err(|error: io::Error| {
        CliError::failed(format!("cannot write {}: {error}", path.display()))
    })?;
    Ok(path)
}

fn write_new(path: &Path, text: &str) -> CliResult<()> {
    let file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| CliError::failed(format!("cannot write {}: {error}", path.display())))
}

pub(super) struct ConfigText<'a> {
    pub(super) known: &'a KnownAgents,
    /// The `PATH` to search for programs.
    pub(super) search: &'a OsStr,
    choices: &'a InitChoices,
    pub(super) template: Option<InitTemplate>,
    /// The schema's file, relative to the config.
    pub(super) schema: &'a str,
    /// Files of the project whose hooks the config can import.
    hook_files: &'a [&'static str],
}

impl fmt::Display for ConfigText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let iterations = if self.template == Some(InitTemplate::Security) {
            20
        } else {
            10
        };
        writeln!(f, "# yaml-language-server: $schema={}", self.schema)?;
        writeln!(
            f,
            "# `creel config example` prints every key with its default."
        )?;
        write!(
            f,
            "version: 1\n{}max_iterations: {iterations}\n{}",
            self.agent(),
            self.checks()
        )?;
        writeln!(f, "on_limit: {}", limit(self.choices.on_limit))?;
        f.write_str(PERMISSIONS)?;
        f.write_str(&import_line(self.hook_files, self.choices.imports))?;
        f.write_str(&self.stop())
    }
}

const PERMISSIONS: &str = "\
# permissions:   # for agents that ask before they act: the first rule that fits decides, else creel asks you
#   - { kind: [read, search, edit], action: allow }
#   - { kind: execute, action: ask }
";

/// Files with hooks that other tools run here.
const HOOK_FILES: [&str; 4] = [
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/hooks.json",
    ".gemini/settings.json",
];

/// The files of the project with hooks that a config can import.
fn hook_files(project: &Path) -> Vec<&'static str> {
    let has_hooks = |file: &&str| {
        let text = fs::read_to_string(project.join(file)).unwrap_or_default();
        serde_json::from_str::<serde_json::Value>(&text)
            .is_ok_and(|settings| settings.get("hooks").is_some())
    };
    HOOK_FILES.into_iter().filter(has_hooks).collect()
}

/// What to do about hooks of other tools.
fn importable(files: &[&str], imports: bool) -> String {
    if files.is_empty() || imports {
        return String::new();
    }
    let files = files.join(" and ");
    format!("  {files} has hooks. To run them in creel too, uncomment `hooks:`\n")
}

/// A comment if the user did not choose it, because to import hooks is to trust them.
fn import_line(files: &[&str], imports: bool) -> String {
    if files.is_empty() {
        return String::new();
    }
    let files = files.join(", ");
    let comment = if imports { "" } else { "# " };
    format!(
        "{comment}hooks: {{ import: [{files}] }}   # run these hooks too; `creel check` lists them\n"
    )
}

impl ConfigText<'_> {
    fn agent(&self) -> String {
        if let Some(agent) = self
            .choices
            .agent
            .as_deref()
            .and_then(|name| self.known.named(name))
        {
            return named(agent, agent.installed(self.search));
        }
        let install = install_lines(self.known)
            .into_iter()
            .next()
            .unwrap_or_default();
        format!(
            "# agent: {}   # no known agent is installed here; `creel agents` lists all. For example:\n#   {install}\n",
            self.known.names().next().unwrap_or("NAME")
        )
    }

    fn checks(&self) -> String {
        let note =
            "# must pass after each turn; the agent gets the output of a failure, up to 5 times";
        // The rules of this template already run the tests.
        if self.choices.checks.is_empty() || self.template == Some(InitTemplate::Tdd) {
            return format!("checks: []   {note}\n");
        }
        let checks: String = self
            .choices
            .checks
            .iter()
            .map(|check| format!("  - {}\n", quoted(check)))
            .collect();
        format!("checks:   {note}\n{checks}")
    }

    /// The rules and hooks that decide when the work is complete.
    fn stop(&self) -> String {
        let Some(template) = self.template else {
            return String::new();
        };
        let test = quoted(self.choices.checks.first().map_or("./test", String::as_str));
        match template {
            InitTemplate::Tdd => format!(
                "stop:\n  rules:\n    - {{ name: tests_pass, type: command, command: {test}, timeout: 10m }}\n  hooks:\n    \
                 - {{ action: complete, reason: All tests pass, when: {{ rules: {{ tests_pass: passed }} }} }}\n    \
                 - {{ action: continue, reason: Tests still failing, next_prompt: Fix failing tests and run again }}\n"
            ),
            InitTemplate::Security => SECURITY.to_owned(),
            InitTemplate::Checkpoint => CHECKPOINT.to_owned(),
        }
    }
}

const SECURITY: &str = r#"stop:
  # Write here how you scan this project: each command must exit with 0 when it finds nothing.
  rules:
    - { name: vulns_fixed, type: command, command: "./scan-dependencies", timeout: 10m }
    - { name: sast_clean, type: command, command: "./scan-code", timeout: 10m }
  # The rules of a hard case fail for long; after ten iterations you decide.
  circuit_breaker: 0
  hooks:
    - { action: complete, reason: All vulnerabilities remediated, when: { rules: { vulns_fixed: passed, sast_clean: passed } } }
    - { action: escalate, reason: Max iterations reached - complex vulnerabilities may require manual review, when: { iteration: "10.." } }
    - { action: continue, reason: Vulnerabilities remain }
"#;

const CHECKPOINT: &str = "stop:
  hooks:
    - action: continue
      reason: Halfway checkpoint
      when: { iteration: 5 }
      checkpoint: { executionPhase: midpoint, executionStep: 5, agentContext: { milestone: halfway } }
    - default
";

fn limit(on_limit: RetryLimitPolicy) -> String {
    let name = on_limit_name(on_limit);
    format!(
        "{name}   # if a check still fails then and you are not there: complete (as forced) | escalate | abort"
    )
}

pub(super) const fn on_limit_name(on_limit: RetryLimitPolicy) -> &'static str {
    match on_limit {
        RetryLimitPolicy::Complete => "complete",
        RetryLimitPolicy::Escalate => "escalate",
        RetryLimitPolicy::Abort => "abort",
    }
}

/// The line for the agent, with a comment about how it runs and how to log in.
fn named(agent: &KnownAgent, way: Option<&LaunchMethod>) -> String {
    let name = if is_plain(&agent.name) {
        agent.name.clone()
    } else {
        quoted(&agent.name)
    };
    let Some(way) = way.or(agent.ways.first()) else {
        return format!("agent: {name}\n");
    };
    let how = if way.is_acp() {
        "over ACP"
    } else {
        "one process per turn"
    };
    let login = way
        .login()
        .map(|login| format!("; to log in: {}", one_line(login)))
        .unwrap_or_default();
    format!(
        "agent: {name}   # {}, {how}{login}\n",
        one_line(&agent.title)
    )
}

/// How to install the preferred agents, one line each.
pub(super) fn install_lines(known: &KnownAgents) -> Vec<String> {
    let line = |agent: &KnownAgent| {
        let install = how_to_install(agent.ways.iter())
            .first()
            .map(|line| one_line(line))?;
        // It may have a comment of its own.
        let sign = if install.contains(" # ") { "·" } else { "  #" };
        Some(format!("{install} {sign} {}", one_line(&agent.title)))
    };
    known.iter().filter_map(line).take(3).collect()
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Quotes a text for YAML, which accepts JSON strings.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// For a YAML comment, which must not contain a newline.
fn one_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether the user can answer.
fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for the agent, the check command, the action at the retry limit, and whether to import the
/// hooks in these files. Enter chooses the default.
fn ask(
    known: &KnownAgents,
    installed: &[&str],
    hook_files: &[&str],
    defaults: InitChoices,
) -> CliResult<InitChoices> {
    let width = crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns.max(20)));
    let mut asking = InitPrompt {
        answers: io::stdin().lock(),
        screen: io::stderr(),
        width,
    };
    let agent = asking.agent(known, installed, defaults.agent);
    let checks = agent.and_then(|agent| Ok((agent, asking.checks(defaults.checks)?)));
    let all = checks.and_then(|(agent, checks)| {
        Ok(InitChoices {
            agent,
            checks,
            on_limit: asking.limit()?,
            imports: asking.imports(hook_files)?,
        })
    });
    all.map_err(|error| {
        CliError::failed(format!(
            "cannot read the answer: {error}; creel wrote nothing"
        ))
    })
}

struct InitPrompt<R, W> {
    answers: R,
    screen: W,
    /// In columns.
    width: usize,
}

impl<R: BufRead, W: Write> InitPrompt<R, W> {
    fn agent(
        &mut self,
        known: &KnownAgents,
        installed: &[&str],
        default: Option<String>,
    ) -> io::Result<Option<String>> {
        let there = if installed.is_empty() {
            "none".to_owned()
        } else {
            installed.join(", ")
        };
        self.say(&format!(
            "Which agent should do the work? Installed: {there}. `creel agents` lists all."
        ))?;
        loop {
            let answer = self.question(default.as_deref().unwrap_or("decide later"))?;
            if answer.is_empty() {
                return Ok(default);
            }
            if known.named(&answer).is_some() {
                return Ok(Some(answer));
            }
            let hint = nearest(&answer, known.names())
                .map(|near| format!(" Did you mean {near}?"))
                .unwrap_or_default();
            self.say(&format!(
                "creel does not know the agent {}.{hint}",
                plain(&answer)
            ))?;
        }
    }

    fn checks(&mut self, default: Vec<String>) -> io::Result<Vec<String>> {
        if default.is_empty() {
            self.say("creel found no tests here. Without a check, it cannot tell whether the work is done.")?;
        }
        self.say(
            "Which command checks the work after each turn? The agent gets the output of a failure. `none`: no check.",
        )?;
        let offered = if default.is_empty() {
            "none".to_owned()
        } else {
            default.join("; ")
        };
        let answer = self.question(&offered)?;
        Ok(match answer.as_str() {
            "" => default,
            "none" | "-" => Vec::new(),
            _ => vec![answer],
        })
    }

    fn limit(&mut self) -> io::Result<RetryLimitPolicy> {
        self.say(
            "What should happen when the check still fails after 5 retries and you are not there? complete: accept the \
             turn and continue; escalate: stop and wait for you; abort: end the session.",
        )?;
        let all = [
            RetryLimitPolicy::Complete,
            RetryLimitPolicy::Escalate,
            RetryLimitPolicy::Abort,
        ];
        loop {
            let answer = self.question(on_limit_name(RetryLimitPolicy::Complete))?;
            if answer.is_empty() {
                return Ok(RetryLimitPolicy::Complete);
            }
            // A prefix of the name is enough.
            if let Some(chosen) = all
                .into_iter()
                .find(|one| on_limit_name(*one).starts_with(&answer))
            {
                return Ok(chosen);
            }
            self.say("Answer complete, escalate or abort.")?;
        }
    }

    /// Enter does not import: hooks are commands of another author, perhaps.
    fn imports(&mut self, files: &[&str]) -> io::Result<bool> {
        if files.is_empty() {
            return Ok(false);
        }
        self.say(&format!(
            "{} has hooks of another tool. Should creel run them too, for any agent? `creel check` lists them, and creel \
             asks for your trust before it runs anything.",
            files.join(" and ")
        ))?;
        loop {
            match self.question("no")?.to_lowercase().as_str() {
                "" | "n" | "no" => return Ok(false),
                "y" | "yes" => return Ok(true),
                _ => self.say("Answer yes or no.")?,
            }
        }
    }

    /// Prints a text whose lines end between words.
    fn say(&mut self, text: &str) -> io::Result<()> {
        let mut line = String::new();
        for word in text.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > self.width {
                writeln!(self.screen, "{line}")?;
                line.clear();
            }
            let space = if line.is_empty() { "" } else { " " };
            line = format!("{line}{space}{word}");
        }
        writeln!(self.screen, "{line}")
    }

    /// One line of an answer, trimmed. Empty for the default, also at the end of the input.
    fn question(&mut self, default: &str) -> io::Result<String> {
        write!(self.screen, "  [{}] ", plain(default))?;
        self.screen.flush()?;
        let mut answer = String::new();
        if self.answers.read_line(&mut answer)? == 0 {
            writeln!(self.screen)?;
        }
        Ok(answer.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(answers: &str) -> (InitChoices, String) {
        let mut screen = Vec::new();
        let mut asking = InitPrompt {
            answers: answers.as_bytes(),
            screen: &mut screen,
            width: 60,
        };
        let (known, defaults) = (KnownAgents::built_in(), ["claude", "codex"]);
        let agent = asking
            .agent(&known, &defaults, Some("claude".into()))
            .expect("an answer");
        let checks = asking
            .checks(vec!["cargo test".into(), "cd web && npm test".into()])
            .expect("an answer");
        let on_limit = asking.limit().expect("an answer");
        let imports = asking
            .imports(&[".claude/settings.json"])
            .expect("an answer");
        (
            InitChoices {
                agent,
                checks,
                on_limit,
                imports,
            },
            String::from_utf8(screen).expect("text"),
        )
    }

    fn choices(agent: &str, checks: &[&str], on_limit: RetryLimitPolicy) -> InitChoices {
        InitChoices {
            agent: Some(agent.into()),
            checks: checks.iter().map(|&check| check.to_owned()).collect(),
            on_limit,
            imports: false,
        }
    }

    #[test]
    fn enter_takes_the_default_and_so_does_the_end_of_the_input() {
        let defaults = choices(
            "claude",
            &["cargo test", "cd web && npm test"],
            RetryLimitPolicy::Complete,
        );
        assert_eq!(asked("\n\n\n").0, defaults);
        assert_eq!(asked("").0, defaults);
    }

    #[test]
    fn answers_count_and_what_is_not_understood_is_asked_again() {
        let (given, screen) = asked("cluade\n codex \nmake check\nperhaps\nesc\n");
        assert_eq!(
            given,
            choices("codex", &["make check"], RetryLimitPolicy::Escalate)
        );
        assert!(
            screen.contains("does not know the agent cluade. Did you mean claude?"),
            "{screen}"
        );
        assert!(
            screen.contains("Answer complete, escalate or abort."),
            "{screen}"
        );
        assert!(
            screen.contains("after each turn? The agent\ngets the output"),
            "lines end between words: {screen}"
        );
        let (given, screen) = asked("\n\n\nsure\nY\n");
        assert!(
            given.imports && screen.contains("Answer yes or no."),
            "{screen}"
        );
        assert!(import_line(&["a"], given.imports).starts_with("hooks: { import: [a] }"));
        assert_eq!(
            asked("\nnone\na\n").0,
            choices("claude", &[], RetryLimitPolicy::Abort)
        );
    }
}
