//! `creel gate`: which gate waits, and an answer to it from another terminal.

use super::{LINE, ask, given, json, other_answer, refusal_as_json, told};
use crate::{
    app::{AppResult, print, say},
    cli::control::{GateCommand, SessionArgs},
    engine::input::{GateAnswer, SessionCommand},
    present::text::{plain, plain_line},
    socket::{message::ReplyData, query::SessionQuery, view::GateView},
};

fn list(session: &SessionArgs, as_json: bool) -> AppResult {
    let Some(ReplyData::Gates(gates)) = told(session, SessionQuery::GateList)? else {
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

pub(in crate::app) fn gate(command: GateCommand) -> AppResult {
    match command {
        GateCommand::List { json: as_json, session } => refusal_as_json(as_json, list(&session, as_json)),
        GateCommand::Answer { gate, choice, text, items, session } => {
            let text = text.as_deref().map(given).transpose()?;
            ask(&session, SessionCommand::AnswerGate(GateAnswer { gate, choice, text, items }))
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
