//! `creel init`: a first config, from what the project and the machine have.

use std::{fs, io::Write as _, path::Path};

use super::{Failure, Result, project, say};
use crate::{
    config::{
        self,
        known_agents::{KnownAgent, Way},
        paths,
    },
    control::{
        cli::{InitArgs, Template},
        text::plain,
    },
};

/// A toolchain, the file that shows it, and how it tests.
const TOOLCHAINS: [(&str, &str); 7] = [
    ("Cargo.toml", "cargo test"),
    ("go.mod", "go test ./..."),
    ("package.json", "npm test"),
    ("pyproject.toml", "pytest -q"),
    ("setup.py", "pytest -q"),
    ("mix.exs", "mix test"),
    ("Makefile", "make test"),
];

pub(super) fn init(args: &InitArgs) -> Result {
    let here = project::here()?;
    if let Some(existing) = paths::NAMES.iter().map(|name| here.join(name)).find(|path| path.exists()) {
        return Err(Failure::usage(format!("{} is there already; it was not touched", existing.display())));
    }
    let known = config::without_config(paths::agents_file().as_deref())?.known;
    let search = std::env::var_os("PATH").unwrap_or_default();
    let installed: Vec<&str> =
        known.iter().filter(|agent| agent.installed(&search).is_some()).map(|agent| agent.name.as_str()).collect();
    let text = config(&here, known.preferred(&search), args.template);
    let path = here.join("creel.yaml");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
    file.write_all(text.as_bytes())
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
    let agents = if installed.is_empty() {
        "none found; `creel agents` says how to install one".into()
    } else {
        installed.join(", ")
    };
    say(&format!(
        "creel: wrote {}\n  installed agents: {agents}\n  look at it, then `creel check`, `creel run \"what to do\"`",
        path.display()
    ));
    Ok(0)
}

fn config(project: &Path, agent: Option<(&KnownAgent, &Way)>, template: Option<Template>) -> String {
    let agent = agent.map_or_else(
        || {
            "# No agent was found on this machine: `creel agents` says how to install one. Or describe yours: the prompt\n\
             # goes to its standard input.\n\
             agent: mine\nagents:\n  mine: { command: \"my-agent\" }\n"
                .to_owned()
        },
        |(agent, way)| named(agent, way),
    );
    let test = TOOLCHAINS.iter().find(|(file, _)| project.join(file).exists()).map(|(_, command)| *command);
    let stop = template.map(|template| stop(template, test)).unwrap_or_default();
    // The rules of a template check the tests already.
    let hooked = test.filter(|_| template != Some(Template::Tdd));
    let hooks = hooked.map_or_else(
        || "hooks:\n  stop: []   # commands that must pass before a turn counts; exit 2 sends the output back\n".to_owned(),
        |command| {
            format!(
                "hooks:\n  stop:\n    # Exit code 2 sends the output back to the agent, up to max_hook_retries times.\n    \
                 - name: tests\n      command: \"{command} || exit 2\"\n      timeout: 10m\n"
            )
        },
    );
    let iterations = if template == Some(Template::Security) { 20 } else { 10 };
    format!(
        "# What creel does in this project; every key is in config.example.yaml.\nversion: 1\n{agent}max_iterations: {iterations}\n{hooks}{stop}"
    )
}

/// What decides when the work is complete.
fn stop(template: Template, test: Option<&str>) -> String {
    let test = test.unwrap_or("./test");
    match template {
        Template::Tdd => format!(
            "stop:\n  rules:\n    - {{ name: tests_pass, type: command, command: \"{test}\", timeout: 10m }}\n  hooks:\n    \
             - {{ action: complete, reason: All tests pass, when: {{ rules: {{ tests_pass: passed }} }} }}\n    \
             - {{ action: continue, reason: Tests still failing, next_prompt: Fix failing tests and run again }}\n"
        ),
        Template::Security => "stop:\n  # Say how this project is scanned: each must exit with 0 when nothing is found.\n  rules:\n    \
             - { name: vulns_fixed, type: command, command: \"./scan-dependencies\", timeout: 10m }\n    \
             - { name: sast_clean, type: command, command: \"./scan-code\", timeout: 10m }\n  \
             # The rules of a hard case fail for long; after ten iterations a person looks.\n  circuit_breaker: 0\n  hooks:\n    \
             - { action: complete, reason: All vulnerabilities remediated, when: { rules: { vulns_fixed: passed, sast_clean: passed } } }\n    \
             - { action: escalate, reason: Max iterations reached - complex vulnerabilities may require manual review, when: { iteration: \"10..\" } }\n    \
             - { action: continue, reason: Vulnerabilities remain }\n"
            .into(),
        Template::Checkpoint => "stop:\n  hooks:\n    - action: continue\n      reason: Halfway checkpoint\n      when: { iteration: 5 }\n      \
             checkpoint: { executionPhase: midpoint, executionStep: 5, agentContext: { milestone: halfway } }\n    - default\n"
            .into(),
    }
}

/// The agent's line, below what a person should know of it.
fn named(agent: &KnownAgent, way: &Way) -> String {
    let how = if way.is_acp() { "over ACP" } else { "one process a turn" };
    let login = way.login().map(|login| format!("# To log in: {}\n", one_line(login))).unwrap_or_default();
    let name = &agent.name;
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let name = if is_plain { name.clone() } else { serde_json::Value::from(name.as_str()).to_string() };
    format!("# {}, {how}. `creel agents` lists the others.\n{login}agent: {name}\n", one_line(&agent.title))
}

/// A comment ends with its line.
fn one_line(text: &str) -> String {
    plain(text).split_whitespace().collect::<Vec<_>>().join(" ")
}
