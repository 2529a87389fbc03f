//! `creel gate`: which gate waits, and an answer to it from another terminal.

use super::{LINE, ask, given, json, other_answer, told};
use crate::{
    app::{AppResult, print, say},
    cli::control::GateCommand,
    present::text::{plain, plain_line},
    socket::{
        message::{ReplyData, SessionRequest},
        view::GateView,
    },
};

pub(in crate::app) fn gate(command: GateCommand) -> AppResult {
    match command {
        GateCommand::List { json: as_json, session } => {
            let Some(ReplyData::Gates(gates)) = told(&session, &SessionRequest::GateList)? else {
                return Err(other_answer());
            };
            if as_json {
                return json(&gates);
            }
            if gates.is_empty() {
                say("creel: no gate waits");
            }
            print(&gates.iter().map(|gate| line(gate) + "\n").collect::<String>())
        }
        GateCommand::Answer { gate, choice, text, items, session } => {
            let text = text.as_deref().map(given).transpose()?;
            ask(&session, &SessionRequest::GateAnswer { gate, choice, text, items })
        }
    }
}

/// A gate, and under it the answers that it takes.
pub(super) fn line(gate: &GateView) -> String {
    let choices = gate.choices.iter().map(|choice| choice.name()).collect::<Vec<_>>().join(", ");
    let about = gate.about.name().replace('_', " ");
    let mut text = format!("{} {about}: {}\n  answers: {choices}", gate.gate, plain_line(&gate.reason, LINE));
    if !gate.items.is_empty() {
        let items = gate.items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        text += &format!("\n  items: {items}");
    }
    for option in &gate.options {
        let (id, name) = (plain(&option.id), plain_line(&option.name, LINE));
        text += &format!("\n  {} {id}: {name}", option.choice.name());
    }
    text
}
