//! `creel init`: writes a first config, based on the project, the machine and the user's answers.
//!
//! # Invariants
//! - No existing config is changed.
//! - Every program in the written config is installed, or was named by the user.

mod config_text;
mod questions;

use std::{
    ffi::OsStr,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use clap::Args;

use super::{
    error::{CliError, CliResult},
    output::say,
    target::project,
};
use crate::{
    config::{self, agents::KnownAgents, paths},
    engine::policy::RetryLimitPolicy,
    hooks::test_suites,
    present::text::some_names,
    process::programs,
};
use config_text::ConfigText;

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
}

pub(super) fn init(args: &InitArgs) -> CliResult {
    let here = project::here()?;
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
    project::refuse_links(&here)?;
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
    };
    let installed: Vec<&str> = known
        .iter()
        .filter(|agent| agent.installed(&search).is_some())
        .map(|agent| agent.name.as_str())
        .collect();
    let choices = if args.yes || !questions::can_ask() {
        defaults
    } else {
        questions::ask(&known, &installed, defaults)?
    };
    let schema = write_schema(&here)?;
    let text = ConfigText {
        known: &known,
        search: &search,
        choices: &choices,
        template: args.template,
        schema: SCHEMA,
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
        "creel: wrote {} and {}\n{unchecked}{next}",
        path.display(),
        schema.display()
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
        let install = config_text::install_lines(known)
            .into_iter()
            .next()
            .unwrap_or_default();
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
