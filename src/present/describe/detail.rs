//! The text under the line of an event.

use crate::{
    engine::{
        conversation::ToolCall,
        event::{Event, GateEvent, HookEvent, HookFinished, SessionEvent, TurnEvent},
    },
    present::{describe::SENTENCE, task_view::tree, tool_calls},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetailText {
    pub kind: DetailKind,
    pub text: String,
}

/// The kind of a text, which decides its style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DetailKind {
    /// Of the agent or of a hook.
    Words,
    Change,
    Arguments,
    Output,
    Plan,
}

impl DetailText {
    pub fn words(text: impl Into<String>) -> Self {
        Self {
            kind: DetailKind::Words,
            text: text.into(),
        }
    }
}

/// The texts under the line of an event. They depend on the event alone, so that the stream can
/// load them again.
pub fn details(event: &Event) -> Vec<DetailText> {
    let texts = if let Event::Turn(event) = event {
        turn(event)
    } else if let Event::Hook(HookEvent::Finished(finished)) = event {
        vec![DetailText {
            kind: DetailKind::Output,
            text: output(finished),
        }]
    } else if let Event::Gate(
        GateEvent::Opened { tasks, .. } | GateEvent::ProposalEdited { tasks, .. },
    ) = event
    {
        vec![DetailText::words(tree(tasks))]
    } else if let Event::Session(SessionEvent::Warning { text }) = event {
        after_the_line(text)
    } else {
        Vec::new()
    };
    texts
        .into_iter()
        .filter(|part| !part.text.trim().is_empty())
        .collect()
}

fn turn(event: &TurnEvent) -> Vec<DetailText> {
    match event {
        TurnEvent::PromptSent(prompt) => vec![DetailText::words(&prompt.text)],
        TurnEvent::AgentSaid { text, .. } | TurnEvent::AgentThought { text, .. } => {
            vec![DetailText::words(text)]
        }
        TurnEvent::ToolCalled { tool, .. } | TurnEvent::ToolUpdated { tool, .. } => {
            tool_texts(tool)
        }
        TurnEvent::PermissionAsked { ask, .. } => tool_texts(&ask.tool),
        TurnEvent::AgentPlanned { entries, .. } => {
            let text = entries
                .iter()
                .map(tool_calls::plan_entry)
                .collect::<Vec<_>>()
                .join("\n");
            vec![DetailText {
                kind: DetailKind::Plan,
                text,
            }]
        }
        TurnEvent::AgentNoted { text, .. }
        | TurnEvent::Failed { error: text, .. }
        | TurnEvent::ToolDecided {
            reason: Some(text), ..
        } => rest(text),
        TurnEvent::AgentUsed { .. }
        | TurnEvent::ToolDecided { .. }
        | TurnEvent::QuestionAnswered { .. }
        | TurnEvent::Cancelling { .. }
        | TurnEvent::ConversationOpened { .. }
        | TurnEvent::Ended { .. } => Vec::new(),
    }
}

/// The changes, the arguments and the output of a tool call.
fn tool_texts(call: &ToolCall) -> Vec<DetailText> {
    let part = |kind, text: Option<String>| text.map(|text| DetailText { kind, text });
    let texts = [
        part(DetailKind::Change, call.diff.clone()),
        part(
            DetailKind::Arguments,
            call.input.as_deref().map(tool_calls::arguments),
        ),
        part(DetailKind::Output, call.output.clone()),
    ];
    texts.into_iter().flatten().collect()
}

fn output(finished: &HookFinished) -> String {
    let parts = [&finished.stdout, &finished.stderr]
        .into_iter()
        .filter(|text| !text.trim().is_empty());
    parts
        .map(|text| text.trim_end())
        .collect::<Vec<_>>()
        .join("\n")
}

/// What the line of a warning does not show.
fn after_the_line(text: &str) -> Vec<DetailText> {
    match text.trim().split_once('\n') {
        Some((first, more)) if first.chars().count() <= SENTENCE => vec![DetailText::words(more)],
        Some(_) | None => rest(text),
    }
}

/// The whole text, if it does not fit into a line.
fn rest(text: &str) -> Vec<DetailText> {
    let long = text.trim().contains('\n') || text.trim().chars().count() > SENTENCE;
    long.then(|| DetailText::words(text)).into_iter().collect()
}
