//! `creel agents NAME`: starts an agent, lists its options and their values, and ends it.

use std::{fmt::Write as _, sync::Arc};

use serde_json::json;
use tokio_util::sync::CancellationToken;
use unicode_width::UnicodeWidthStr as _;

use super::{
    agents::INTERRUPTED,
    error::{self, CliError, CliResult, json, print, say},
    launch::trust_prompt::{self, TrustFlag},
    target::Project,
};
use crate::{
    agents::{
        AgentWorkspace,
        acp::{AcpAgent, AgentOffer, OfferedOption},
    },
    engine::{conversation::TurnFailure, policy::AgentSpec},
    present::{tables::padded, text::plain},
    process::signals::ShutdownSignals,
};

/// The width of a line, in columns.
const WIDTH: usize = 80;

pub(super) fn list(project: &Project, name: &str, as_json: bool) -> CliResult {
    // The config's own models are not the question here, and one of them can be wrong.
    let spec = project.settings.agent_named(name)?;
    let is_described = project.settings.described().any(|agent| agent == name);
    if is_described && matches!(spec, AgentSpec::Acp { .. }) {
        trust_prompt::require(
            &project.config_place(),
            &project.settings.documents,
            &trust_prompt::of_project(project, &project.settings.plan_to_trust(name)),
            TrustFlag::Unsaid,
        )?;
    }
    let offer = match &spec {
        AgentSpec::Acp { .. } => {
            let offered = ask(project, name, &spec, |place, cancel| {
                let spec = &spec;
                async move { Box::pin(AcpAgent::offer(spec, place, &cancel)).await }
            })?;
            match offered {
                Some(offer) => offer,
                None => return Ok(INTERRUPTED),
            }
        }
        AgentSpec::Command { .. } | AgentSpec::Scripted { .. } | AgentSpec::Outside => {
            AgentOffer::default()
        }
    };
    let flags: Vec<&str> = spec
        .facts()
        .into_iter()
        .flat_map(|known| known.flags.keys().map(String::as_str))
        .filter(|flag| offer.options.iter().all(|option| option.name != *flag))
        .collect();
    if as_json {
        return json(&json!({
            "name": name,
            "program": offer.program,
            "version": offer.version,
            "resume": offer.can_resume,
            "fork": offer.can_fork,
            "options": offer.options.iter().map(option_json).collect::<Vec<_>>(),
            "flags": flags,
        }));
    }
    print(&table(name, &offer, &flags))?;
    if let Some(example) = example(&offer, &flags) {
        say(&format!(
            "creel: set an option with `agents: {{ {name}: {{ options: {{ {example} }} }} }}`, the model also with `--model`"
        ));
    }
    Ok(0)
}

/// Starts the agent and asks it something. None if a signal arrived first.
pub(super) fn ask<T, F>(
    project: &Project,
    name: &str,
    spec: &AgentSpec,
    question: impl FnOnce(AgentWorkspace, CancellationToken) -> F,
) -> CliResult<Option<T>>
where
    F: Future<Output = Result<T, TurnFailure>>,
{
    let own_name = format!("creel-options-{}", std::process::id());
    let place = AgentWorkspace {
        cwd: project.root.clone(),
        session_dir: std::env::temp_dir().join(&own_name),
        session: own_name.clone(),
        mark: own_name,
        guard: Arc::default(),
        goal: String::new(),
        creel: None,
        variables: project.settings.base_plan.access.env.variables(spec),
        has_tool_hooks: false,
        prices: None,
    };
    let tokio = error::start_tokio()?;
    let answered: CliResult<_> = tokio.block_on(async {
        let mut signals = ShutdownSignals::listen()
            .map_err(|error| CliError::failed(format!("cannot listen for signals: {error}")))?;
        let cancel = CancellationToken::new();
        let mut asking = std::pin::pin!(question(place, cancel.clone()));
        tokio::select! {
            answer = &mut asking => Ok(Some(answer)),
            _ = signals.next() => {
                cancel.cancel();
                let _ = asking.await;
                Ok(None)
            }
        }
    });
    // A task that still reads from a pipe must not delay the exit.
    tokio.shutdown_background();
    let failed = |failure: TurnFailure| {
        CliError::failed(format!(
            "the agent `{name}` does not work: {}",
            failure.message
        ))
    };
    answered?.transpose().map_err(failed)
}

fn option_json(option: &OfferedOption) -> serde_json::Value {
    let value = |value: &crate::agents::acp::OfferedValue| json!({ "name": value.name, "title": value.title });
    json!({
        "name": option.name,
        "title": option.title,
        "current": option.current,
        "values": option.values.iter().map(value).collect::<Vec<_>>(),
    })
}

fn table(name: &str, offer: &AgentOffer, flags: &[&str]) -> String {
    let mut text = plain(name);
    for part in [&offer.program, &offer.version].into_iter().flatten() {
        let _ = write!(text, " · {}", plain(part));
    }
    text += "\n";
    if offer.options.is_empty() && flags.is_empty() {
        return text + "  offers no options\n";
    }
    let names = offer.options.iter().map(|option| option.name.as_str());
    let width = names
        .chain(flags.iter().copied())
        .map(|name| plain(name).width())
        .max()
        .unwrap_or(0);
    for option in &offer.options {
        let current = |name: &str| {
            let mark = if name == option.current { " (now)" } else { "" };
            format!("{}{mark}", plain(name))
        };
        let values: Vec<String> = option
            .values
            .iter()
            .map(|value| current(&value.name))
            .collect();
        let lines = wrapped(&values, WIDTH.saturating_sub(width + 4));
        for (n, line) in lines.iter().enumerate() {
            let name = if n == 0 {
                plain(&option.name)
            } else {
                String::new()
            };
            let _ = writeln!(text, "  {}  {line}", padded(&name, width));
        }
    }
    for flag in flags.iter().map(|flag| plain(flag)) {
        let _ = writeln!(
            text,
            "  {}  (any value: creel passes it on the command line)",
            padded(&flag, width)
        );
    }
    text
}

/// Words with commas, in lines of at most this many columns.
fn wrapped(words: &[String], room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (n, word) in words.iter().enumerate() {
        let word = if n + 1 < words.len() {
            format!("{word},")
        } else {
            word.clone()
        };
        let line = lines.last().map_or(0, |line| line.width());
        let fits = line == 0 || line + 1 + word.width() <= room;
        match lines.last_mut().filter(|_| fits) {
            Some(line) if line.is_empty() => *line = word,
            Some(line) => *line = format!("{line} {word}"),
            None => lines.push(word),
        }
    }
    lines
}

/// An option with a value that it does not have yet.
fn example(offer: &AgentOffer, flags: &[&str]) -> Option<String> {
    let of = |option: &OfferedOption| {
        let other = option
            .values
            .iter()
            .find(|value| value.name != option.current)?;
        let is_plain = other
            .name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_/".contains(c));
        let value = if is_plain {
            plain(&other.name)
        } else {
            format!("'{}'", plain(&other.name))
        };
        Some(format!("{}: {value}", plain(&option.name)))
    };
    let model = offer.options.iter().find(|option| option.name == "model");
    let offered = model
        .and_then(of)
        .or_else(|| offer.options.iter().find_map(of));
    offered.or_else(|| flags.first().map(|flag| format!("{flag}: NAME")))
}
