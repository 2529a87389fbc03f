//! `creel gate`: which gate waits, and an answer to it from another terminal.

use clap::{Args, Subcommand};

use crate::{
    cli::{
        arguments::{ArgumentError, SessionArgs, item},
        error::{CliResult, LINE, json, print, refusal_as_json, say},
        target::{ask, given, other_answer, reply_to},
    },
    engine::{
        gate::kind::GateChoice,
        ids::{GateId, ItemId},
        input::{GateAnswer, SessionCommand},
        question::AgentQuestion,
    },
    present::{
        gate_words::{ChoiceWording, GateFigures, choice_words},
        task_view::tree_lines,
        text::{plain, plain_line},
    },
    protocol::{ReplyData, SessionQuery, view::GateView},
};

/// The gates.
#[derive(Debug, Args)]
pub struct GateArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: GateCommand,
}

/// What to do at a gate.
#[derive(Debug, Subcommand)]
pub enum GateCommand {
    /// List the open gates.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
    /// Answer a gate. The first answer counts.
    Answer {
        /// The gate's number.
        #[arg(value_parser = gate_number)]
        gate: GateId,
        /// One of the answers that `creel gate list` shows.
        #[arg(value_parser = choice)]
        choice: GateChoice,
        /// The message for `send`, the changed tasks as JSON for `edit` and `approve`, one of the
        /// agent's options, or the answer to its question (for several fields a line `field:
        /// answer` for each, or a JSON object). `-` reads it from standard input.
        text: Option<String>,
        /// The items to approve, separated by commas. Default: all.
        #[arg(long, value_name = "ITEMS", value_delimiter = ',', value_parser = item)]
        items: Option<Vec<ItemId>>,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
}

fn list(session: &SessionArgs, as_json: bool) -> CliResult {
    let Some(ReplyData::Gates(gates)) = reply_to(session, SessionQuery::GateList)? else {
        return Err(other_answer());
    };
    if as_json {
        return json(&gates);
    }
    if gates.is_empty() {
        say("creel: no gate is open");
    }
    print(
        &gates
            .iter()
            .map(|gate| line(gate) + "\n")
            .collect::<String>(),
    )
}

pub(super) fn gate(command: GateCommand) -> CliResult {
    match command {
        GateCommand::List {
            json: as_json,
            session,
        } => refusal_as_json(as_json, list(&session, as_json)),
        GateCommand::Answer {
            gate,
            choice,
            text,
            items,
            session,
        } => {
            let text = text.as_deref().map(given).transpose()?;
            ask(
                &session,
                SessionCommand::AnswerGate(GateAnswer {
                    gate,
                    choice,
                    text,
                    items,
                }),
            )
        }
    }
}

/// A gate, and under it the answers that it takes.
pub(super) fn line(gate: &GateView) -> String {
    let about = gate.about.name().replace('_', " ");
    let mut text = format!("{} {about}: {}", gate.gate, plain_line(&gate.reason, LINE));
    text += &tree_lines(&gate.tasks)
        .iter()
        .map(|line| format!("\n    {line}"))
        .collect::<String>();
    if let Some(prompt) = &gate.prompt {
        let lines = prompt.lines().map(|line| format!("\n    {}", plain(line)));
        text += &format!("\n  prompt:{}", lines.collect::<String>());
    }
    text += "\n  answers:";
    let figures = GateFigures {
        retries: gate.retries,
        bytes: None,
        keeps_prompt: gate.prompt.is_some(),
        replaces_prompt: gate.replaces_prompt,
    };

    let longest = gate
        .choices
        .iter()
        .map(|choice| choice.name().len())
        .max()
        .unwrap_or(0);
    for choice in &gate.choices {
        let ChoiceWording { label, effect, .. } = choice_words(gate.about, *choice, figures);
        let effect = if effect.is_empty() {
            String::new()
        } else {
            format!(": {effect}")
        };
        text += &format!("\n    {:longest$}  {label}{effect}", choice.name());
    }
    if !gate.items.is_empty() {
        let items = gate
            .items
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(",");
        text += &format!("\n  items: {items}");
    }
    for option in &gate.options {
        let (id, name) = (plain(&option.id), plain_line(&option.name, LINE));
        text += &format!("\n  {} {id}: {name}", option.choice.name());
    }
    for detail in gate.question.iter().flat_map(AgentQuestion::details) {
        text += &format!("\n  {}", plain_line(&detail, LINE));
    }
    text
}

fn gate_number(text: &str) -> Result<GateId, ArgumentError> {
    text.parse()
        .map(GateId)
        .map_err(|_| ArgumentError::NotAGate)
}

pub(super) fn choice(text: &str) -> Result<GateChoice, ArgumentError> {
    let name = serde_json::Value::String(text.replace('-', "_"));
    serde_json::from_value(name).map_err(|_| ArgumentError::NoSuchChoice)
}
