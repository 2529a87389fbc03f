//! Keys of what is laid over the panes.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{
    Ask, lay_over,
    pane::{is_live, search},
    perform, task,
};
use crate::{
    engine::{
        State,
        event::StopHow,
        ids::ItemId,
        input::{Command, GateAnswer},
        session::gate::Choice,
    },
    tui::{
        keymap::{Action, Context},
        modals::{
            Modal,
            editor::{EditorModal, Purpose},
            gate::Asked,
            search::SearchModal,
            viewer,
        },
        model::{Mode, Model, Tie},
        stream::Reload,
        theme::Role,
    },
};

pub(super) fn on_gate_key(model: &mut Model, key: KeyEvent) -> Vec<Ask> {
    let action = model.keymap.action(key, &[Context::Gate]);
    let elsewhere = model.keymap.action(key, &[Context::Global]);
    let now = model.now;
    let Some(Modal::Gate(gate)) = model.modals.last_mut() else { return Vec::new() };
    let armed = gate.is_armed(now);
    let asked = gate.key(action, now);
    // Looking for help or leaving is possible at a gate, too.
    let leaving = matches!(elsewhere, Some(Action::Quit | Action::Leave | Action::Help | Action::Suspend));
    if armed && action.is_none() && leaving {
        return perform(model, elsewhere.unwrap_or(Action::Help), &|_| None);
    }
    on_gate(model, asked)
}

pub(super) fn on_gate(model: &mut Model, asked: Asked) -> Vec<Ask> {
    let Some(Modal::Gate(gate)) = model.modals.last() else { return Vec::new() };
    let id = gate.gate.id;
    let item_text = |model: &Model, id: ItemId| {
        let state = model.session.as_ref();
        state.and_then(|state| state.pending.get(id)).map(|item| item.text.clone()).unwrap_or_default()
    };
    match asked {
        Asked::Nothing => Vec::new(),
        Asked::Answer(answer) => vec![Ask::Command(Command::AnswerGate(answer))],
        Asked::Write => {
            // At the gate of a submit there is something to begin with: what the agent would be told.
            let told = model.session.as_ref().and_then(State::remediation).filter(|_| model.draft.is_empty());
            let editor =
                EditorModal::new(Purpose::Answer(id), &told.unwrap_or_else(|| std::mem::take(&mut model.draft)));
            lay_over(model, Modal::Editor(Box::new(editor)))
        }
        Asked::Edit(item) => {
            let editor = EditorModal::new(Purpose::Item(item), &item_text(model, item));
            lay_over(model, Modal::Editor(Box::new(editor)))
        }
        Asked::TooLate => {
            is_live(model);
            Vec::new()
        }
        Asked::Restore(item) => vec![Ask::Command(Command::RestoreItem(item))],
        Asked::EditOutside(item) => vec![Ask::EditOutside(Purpose::Item(item), item_text(model, item))],
        Asked::Aside if matches!(model.mode, Mode::Replay(_)) => {
            model.modals.pop();
            Vec::new()
        }
        Asked::Aside => {
            if let Some(Modal::Gate(gate)) = model.modals.pop() {
                model.aside = Some(gate);
            }
            let key = model.keymap.key(Action::ShowGate);
            model.say(Role::Gate, format!("the gate still waits; {key} shows it"));
            Vec::new()
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the terminal library's enum grows")]
pub(super) fn on_editor_key(model: &mut Model, key: KeyEvent) -> Vec<Ask> {
    let Some(Modal::Editor(editor)) = model.modals.last_mut() else { return Vec::new() };
    let purpose = editor.purpose.clone();
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Esc => {
            if !editor.may_leave() {
                return Vec::new();
            }
            // What was written is kept: a message that was left comes back with the next one.
            if purpose.keeps_a_draft() {
                let text = editor.text();
                model.keep_draft(&text);
            }
            model.modals.pop();
            Vec::new()
        }
        KeyCode::Char('s') if control => {
            let Some(Modal::Editor(editor)) = model.modals.pop() else { return Vec::new() };
            finish_editing(model, *editor)
        }
        KeyCode::Char('d') if control => {
            editor.toggle_change();
            Vec::new()
        }
        KeyCode::Char('o') if control => {
            // It stays until the text comes back: who changes nothing out there finds it as it was.
            vec![Ask::EditOutside(purpose, editor.text())]
        }
        _ => {
            editor.input(key);
            Vec::new()
        }
    }
}

/// A text comes back from the person's own editor. Who left it without a change has not said that it is to be sent.
pub(super) fn edited_outside(model: &mut Model, purpose: Purpose, before: &str, text: &str) -> Vec<Ask> {
    if text == before.trim_end_matches('\n') {
        model.say(Role::Faint, "nothing was changed");
        return Vec::new();
    }
    model.modals.pop_if(|modal| matches!(modal, Modal::Editor(editor) if editor.purpose == purpose));
    finish_editing(model, EditorModal::new(purpose, text))
}

/// Somebody has written what they wanted to. What cannot be understood goes back to the editor.
fn finish_editing(model: &mut Model, editor: EditorModal) -> Vec<Ask> {
    match meant(&editor.purpose, editor.text()) {
        Ok(asks) => {
            model.sent.keep(&asks, editor);
            asks
        }
        Err(why) => {
            model.say(Role::Warning, why);
            lay_over(model, Modal::Editor(Box::new(editor)))
        }
    }
}

/// What is asked for by what was written.
fn meant(purpose: &Purpose, text: String) -> Result<Vec<Ask>, String> {
    let command = match purpose {
        Purpose::Message => Command::Message(text),
        // First the message, so that it is there when the turn ends.
        Purpose::MessageNow => return Ok(vec![Ask::InOrder(vec![Command::Message(text), Command::CancelTurn])]),
        Purpose::Answer(gate) => {
            Command::AnswerGate(GateAnswer { gate: *gate, choice: Choice::Send, text: Some(text), items: None })
        }
        Purpose::Item(id) => Command::EditItem(*id, text),
        Purpose::NewTask => task::add(&text)?,
        Purpose::ChangeTask { id, before } => task::changed(id, before, &text)?,
        Purpose::Done(id) => task::done(id, &text),
        Purpose::Block(id) => task::block(id, &text),
    };
    Ok(vec![Ask::Command(command)])
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the viewer decides about the rest, and ignores actions without a meaning there"
)]
pub(super) fn on_viewer_key(model: &mut Model, key: KeyEvent) -> Vec<Ask> {
    let room = viewer::room(model.size);
    let contexts = [Context::Viewer, Context::Scroll, Context::Gate];
    let Some(action) = model.keymap.action(key, &contexts) else { return Vec::new() };
    match action {
        Action::Close | Action::Aside => {
            model.modals.pop();
            Vec::new()
        }
        Action::Search => lay_over(model, Modal::Search(SearchModal::default())),
        Action::SearchNext => search(model, true, &|_| None),
        Action::SearchPrevious => search(model, false, &|_| None),
        Action::Copy => {
            let Some(Modal::Viewer(viewer)) = model.modals.last() else { return Vec::new() };
            let text = viewer.text();
            model.say(Role::Good, format!("copied {} bytes", text.len()));
            vec![Ask::Copy(text)]
        }
        action => {
            if let Some(Modal::Viewer(viewer)) = model.modals.last_mut() {
                viewer.key(action, room);
            }
            Vec::new()
        }
    }
}

pub(super) fn on_help_key(model: &mut Model, key: KeyEvent) -> Vec<Ask> {
    let page = usize::from(model.size.1.saturating_sub(4).max(1));
    match model.keymap.action(key, &[Context::Viewer, Context::Scroll, Context::Global]) {
        Some(Action::Close | Action::Help | Action::Quit) => {
            model.modals.pop();
        }
        Some(action) => {
            if let Some(Modal::Help(help)) = model.modals.last_mut() {
                help.key(action, page);
            }
        }
        None => {}
    }
    Vec::new()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the terminal library's enum grows")]
pub(super) fn on_palette_key(model: &mut Model, key: KeyEvent, reload: Reload<'_>) -> Vec<Ask> {
    let Some(Modal::Palette(palette)) = model.modals.last_mut() else { return Vec::new() };
    match key.code {
        KeyCode::Esc => {
            model.modals.pop();
        }
        KeyCode::Enter => {
            let chosen = palette.chosen();
            model.modals.pop();
            return chosen.map_or_else(Vec::new, |action| perform(model, action, reload));
        }
        KeyCode::Up => palette.step(false),
        KeyCode::Down | KeyCode::Tab => palette.step(true),
        KeyCode::Backspace => palette.pop(),
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            model.modals.pop();
        }
        KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) => palette.push(c),
        _ => {}
    }
    Vec::new()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the terminal library's enum grows")]
pub(super) fn on_search_key(model: &mut Model, key: KeyEvent, reload: Reload<'_>) -> Vec<Ask> {
    let Some(Modal::Search(line)) = model.modals.last_mut() else { return Vec::new() };
    match key.code {
        KeyCode::Esc => {
            model.modals.pop();
        }
        KeyCode::Enter => {
            model.query = std::mem::take(&mut line.query);
            model.modals.pop();
            // Searching for nothing takes the marks away.
            return if model.query.is_empty() { Vec::new() } else { search(model, true, reload) };
        }
        KeyCode::Backspace => {
            line.query.pop();
        }
        KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) => line.query.push(c),
        _ => {}
    }
    Vec::new()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the terminal library's enum grows")]
pub(super) fn on_quit_key(model: &mut Model, key: KeyEvent) -> Vec<Ask> {
    match key.code {
        KeyCode::Char('y') => {
            model.modals.pop();
            vec![Ask::Command(Command::Stop(StopHow::Now)), Ask::LeaveAtTheEnd]
        }
        KeyCode::Char('d') if model.tie == Tie::Loose => vec![Ask::LeaveRunning],
        KeyCode::Char('w') => {
            model.modals.pop();
            vec![Ask::Command(Command::Stop(StopHow::AfterIteration))]
        }
        KeyCode::Esc | KeyCode::Char('n' | 'q') => {
            model.modals.pop();
            Vec::new()
        }
        _ => Vec::new(),
    }
}
