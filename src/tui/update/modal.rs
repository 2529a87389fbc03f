//! Keys of the dialogs.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{
    pane::{copy_text, preview, search},
    perform, task,
};
use crate::{
    engine::{
        event::StopTiming,
        gate::kind::GateChoice,
        ids::ItemId,
        input::{GateAnswer, SessionCommand},
    },
    present::task_view::ProposalFormError,
    tui::{
        keymap::{DiffKey, GateKey, GlobalKey, KeyAction, KeyContext, ScrollKey, ViewerKey},
        modals::{
            Modal, SearchModal,
            editor::{EditorModal, EditorPurpose},
            gate::GateKeyResult,
            help::HelpModal,
            palette::PaletteChoice,
            question::LeaveChoice,
            viewer::{self, CopiedText},
        },
        model::{ScreenMode, ScreenModel, SentDraft},
        request::{OutsideText, ScreenRequest},
        stream::{RecordLoader, SearchStep},
        theme::ThemeRole,
    },
};

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the terminal library's enum grows"
)]
pub(super) fn on_gate_key(model: &mut ScreenModel, key: KeyEvent) {
    let action = model.look.keymap.gate_key(key);
    let character = match key.code {
        KeyCode::Char(c)
            if !key
                .modifiers
                .intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) =>
        {
            Some(c)
        }
        _ => None,
    };
    let elsewhere = model.look.keymap.action(key, &[KeyContext::Global]);
    let now = model.now;
    let Some(Modal::Gate(gate)) = model.modals.last_mut() else {
        return;
    };
    let armed = gate.is_armed(now);
    let chooses = character.is_some_and(|character| gate.has_answer_at(character));
    let asked = gate.key(action, character, now);
    // Help, the changes, leaving and suspending also work at a gate.
    let leaving = matches!(
        elsewhere,
        Some(KeyAction::Global(
            GlobalKey::Quit | GlobalKey::Leave | GlobalKey::Help | GlobalKey::Suspend
        ))
    ) || elsewhere == Some(GlobalKey::Diff.into()) && !chooses;
    if let Some(elsewhere) = elsewhere.filter(|_| armed && action.is_none() && leaving) {
        return perform(model, elsewhere, &|_| None);
    }
    on_gate(model, asked);
}

pub(super) fn on_gate(model: &mut ScreenModel, asked: GateKeyResult) {
    let Some(Modal::Gate(gate)) = model.modals.last() else {
        return;
    };
    let id = gate.gate.id;
    let item_text = |model: &ScreenModel, id: ItemId| {
        let state = model.session.as_ref();
        state
            .and_then(|state| state.pending.get(id))
            .map(|item| item.text.clone())
            .unwrap_or_default()
    };
    match asked {
        GateKeyResult::Nothing => {}
        GateKeyResult::Answer(answer) => {
            model.request(ScreenRequest::Command(SessionCommand::AnswerGate(answer)));
        }
        GateKeyResult::Write => {
            // At a submit or merge gate, start with the text that the agent would get.
            let text = model
                .session
                .as_ref()
                .and_then(|session| session.pipeline().remediation())
                .filter(|_| model.drafts.unsent.is_empty());
            let form = gate.form();
            let editor = if let Some(form) = form {
                let kept = model.drafts.form.take().filter(|(gate, _)| *gate == id);
                let kept = kept.map(|(_, text)| text).filter(|text| !text.is_empty());
                model.drafts.form = Some((id, String::new()));
                EditorModal::new(EditorPurpose::Answer(id), &kept.unwrap_or(form)).at_the_top()
            } else {
                EditorModal::new(
                    EditorPurpose::Answer(id),
                    &text.unwrap_or_else(|| std::mem::take(&mut model.drafts.unsent)),
                )
            };
            model.lay_over(Modal::Editor(Box::new(editor)));
        }
        GateKeyResult::Edit(item) => {
            let editor = EditorModal::new(EditorPurpose::Item(item), &item_text(model, item));
            model.lay_over(Modal::Editor(Box::new(editor)));
        }
        GateKeyResult::EditTasks => {
            let editor =
                EditorModal::new(EditorPurpose::Tasks(id), &task::proposal_form(&gate.gate))
                    .at_the_top();
            model.lay_over(Modal::Editor(Box::new(editor)));
        }
        GateKeyResult::EditTasksOutside => {
            let form = task::proposal_form(&gate.gate);
            model.request(ScreenRequest::EditOutside(
                OutsideText::Text(EditorPurpose::Tasks(id)),
                form,
            ));
        }
        GateKeyResult::Preview => preview(model),
        GateKeyResult::TooLate => {
            model.is_live();
        }
        GateKeyResult::Restore(item) => {
            model.request(ScreenRequest::Command(SessionCommand::RestoreItem { item }));
        }
        GateKeyResult::EditOutside(item) => {
            let text = item_text(model, item);
            model.request(ScreenRequest::EditOutside(
                OutsideText::Text(EditorPurpose::Item(item)),
                text,
            ));
        }
        GateKeyResult::Later if matches!(model.link.mode, ScreenMode::Replay(_)) => {
            model.modals.pop();
        }
        GateKeyResult::Later => {
            if let Some(Modal::Gate(gate)) = model.modals.pop() {
                model.later_gate = Some(gate);
            }
            let key = model.look.keymap.key(GlobalKey::ShowGate);
            model.say(
                ThemeRole::Gate,
                format!("the gate is still open; {key} shows it"),
            );
        }
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the terminal library's enum grows"
)]
pub(super) fn on_editor_key(model: &mut ScreenModel, key: KeyEvent) {
    let Some(Modal::Editor(editor)) = model.modals.last_mut() else {
        return;
    };
    let purpose = editor.purpose.clone();
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Esc => {
            if !editor.may_leave() {
                return;
            }
            // The unsent message comes back as a draft with the next one.
            if purpose.keeps_a_draft() {
                let text = editor.text();
                model.keep_draft(&purpose, &text);
            }
            model.modals.pop();
        }
        KeyCode::Char('s') if control => {
            let Some(Modal::Editor(editor)) = model.modals.pop() else {
                return;
            };
            finish_editing(model, *editor);
        }
        KeyCode::Char('d') if control => {
            editor.toggle_change();
        }
        KeyCode::Char('o') if control => {
            // Keep the dialog until the text comes back, in case the user changes nothing.
            let text = editor.text();
            model.request(ScreenRequest::EditOutside(OutsideText::Text(purpose), text));
        }
        _ => {
            editor.input(key);
        }
    }
}

/// Handles the text from the user's editor. An unchanged text is not sent.
pub(super) fn edited_outside(model: &mut ScreenModel, what: OutsideText, before: &str, text: &str) {
    if text == before.trim_end_matches('\n') {
        model.say(ThemeRole::Faint, "you changed nothing");
        return;
    }
    let purpose = match what {
        OutsideText::Text(purpose) => purpose,
        OutsideText::TaskField => {
            for modal in &mut model.modals {
                if let Modal::TaskForm(form) = modal {
                    form.edited_outside(text);
                }
            }
            return;
        }
    };
    model
        .modals
        .pop_if(|modal| matches!(modal, Modal::Editor(editor) if editor.purpose == purpose));
    finish_editing(model, EditorModal::new(purpose, text));
}

/// Sends what the user wrote. A text with mistakes goes back to the editor.
fn finish_editing(model: &mut ScreenModel, editor: EditorModal) {
    let is_proposal = matches!(editor.purpose, EditorPurpose::Tasks(_));
    if let Some(text) = is_proposal
        .then(|| task::corrected_proposal(model, &editor.text()))
        .flatten()
    {
        model.say(
            ThemeRole::Warning,
            "these tasks cannot be queued yet: the first lines say why",
        );
        return model.lay_over(Modal::Editor(Box::new(editor.with_text(&text))));
    }
    match meant(&editor.purpose, editor.text()) {
        // The message first, so that it is there when the turn ends.
        Ok(command) if editor.purpose == EditorPurpose::MessageNow => {
            let draft = SentDraft::Text(Box::new(editor));
            model.drafts.sent.keep(vec![command.clone()], draft);
            let commands = vec![command, SessionCommand::CancelTurn];
            model.request(ScreenRequest::InOrder(commands));
        }
        Ok(command) => {
            let draft = SentDraft::Text(Box::new(editor));
            model.drafts.sent.keep(vec![command.clone()], draft);
            model.request(ScreenRequest::Command(command));
        }
        Err(why) => {
            model.say(ThemeRole::Warning, why.to_string());
            model.lay_over(Modal::Editor(Box::new(editor)));
        }
    }
}

/// The command for a text, by its purpose, or what is wrong with the text.
fn meant(purpose: &EditorPurpose, text: String) -> Result<SessionCommand, ProposalFormError> {
    Ok(match purpose {
        EditorPurpose::Message | EditorPurpose::MessageNow => SessionCommand::Message { text },
        EditorPurpose::Model => SessionCommand::SetModel {
            model: Some(text.trim().to_owned()).filter(|name| !name.is_empty()),
        },
        EditorPurpose::Answer(gate) => SessionCommand::AnswerGate(GateAnswer {
            gate: *gate,
            choice: GateChoice::Send,
            text: Some(text),
            items: None,
        }),
        EditorPurpose::Item(id) => SessionCommand::EditItem { item: *id, text },
        EditorPurpose::Tasks(gate) => task::edited_proposal(*gate, &text)?,
        EditorPurpose::Done(id) => task::done(id, &text),
        EditorPurpose::Block(id) => task::block(id, &text),
    })
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the viewer decides about the rest, and ignores actions without a meaning there"
)]
pub(super) fn on_viewer_key(model: &mut ScreenModel, key: KeyEvent) {
    let room = viewer::room(model.size);
    let contexts = [KeyContext::Viewer, KeyContext::Scroll, KeyContext::Gate];
    let Some(action) = model.look.keymap.action(key, &contexts) else {
        let is_asked =
            model.look.keymap.action(key, &[KeyContext::Global]) == Some(GlobalKey::Help.into());
        return if is_asked {
            model.lay_over(Modal::Help(HelpModal::of_viewer()));
        } else {
            answer_over(model, key);
        };
    };
    match action {
        KeyAction::Viewer(ViewerKey::Close) | KeyAction::Gate(GateKey::Later) => {
            if let Some(Modal::Viewer(viewer)) = model.modals.last_mut()
                && !viewer.unmark()
            {
                model.modals.pop();
            }
        }
        KeyAction::Scroll(ScrollKey::Search) => {
            model.lay_over(Modal::Search(SearchModal::default()));
        }
        KeyAction::Scroll(ScrollKey::SearchNext) => search(model, SearchStep::Next, &|_| None),
        KeyAction::Scroll(ScrollKey::SearchPrevious) => {
            search(model, SearchStep::Previous, &|_| None);
        }
        KeyAction::Scroll(ScrollKey::Copy) => {
            if let Some(Modal::Viewer(viewer)) = model.modals.last_mut() {
                let copied = viewer.copied();
                if copy_text(model, copied)
                    && let Some(Modal::Viewer(viewer)) = model.modals.last_mut()
                {
                    viewer.unmark();
                }
            }
        }
        action => {
            if let Some(Modal::Viewer(viewer)) = model.modals.last_mut() {
                viewer.key(action, room);
            }
        }
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the dialog decides about the rest, and ignores actions without a meaning there"
)]
pub(super) fn on_diff_key(model: &mut ScreenModel, key: KeyEvent) {
    let contexts = [
        KeyContext::Diff,
        KeyContext::Viewer,
        KeyContext::Scroll,
        KeyContext::Gate,
    ];
    let Some(action) = model.look.keymap.action(key, &contexts) else {
        let is_asked =
            model.look.keymap.action(key, &[KeyContext::Global]) == Some(GlobalKey::Help.into());
        return if is_asked {
            model.lay_over(Modal::Help(HelpModal::of_changes()));
        } else {
            answer_over(model, key);
        };
    };
    match action {
        KeyAction::Viewer(ViewerKey::Close) | KeyAction::Gate(GateKey::Later) => {
            if let Some(Modal::Diff(diff)) = model.modals.last_mut()
                && !diff.unmark()
            {
                model.modals.pop();
            }
        }
        KeyAction::Diff(DiffKey::NextPart) => {
            if let Some(Modal::Diff(diff)) = model.modals.last_mut()
                && let Some(part) = diff.next_part()
            {
                model.request(ScreenRequest::ReadDiff(part));
            }
        }
        KeyAction::Scroll(ScrollKey::Search) => {
            model.lay_over(Modal::Search(SearchModal::default()));
        }
        KeyAction::Scroll(ScrollKey::SearchNext) => search(model, SearchStep::Next, &|_| None),
        KeyAction::Scroll(ScrollKey::SearchPrevious) => {
            search(model, SearchStep::Previous, &|_| None);
        }
        KeyAction::Scroll(ScrollKey::Copy) => {
            let Some(Modal::Diff(diff)) = model.modals.last() else {
                return;
            };
            let text = diff.copied();
            if text.is_empty() {
                return model.say(ThemeRole::Faint, "there is nothing to copy");
            }
            if copy_text(model, CopiedText::whole(text))
                && let Some(Modal::Diff(diff)) = model.modals.last_mut()
            {
                diff.unmark();
            }
        }
        action => {
            if let Some(Modal::Diff(diff)) = model.modals.last_mut() {
                diff.key(action);
            }
        }
    }
}

/// The key that shows the gate also works over a viewer, which announces the gate.
fn answer_over(model: &mut ScreenModel, key: KeyEvent) {
    let is_asked =
        model.look.keymap.action(key, &[KeyContext::Global]) == Some(GlobalKey::ShowGate.into());
    if is_asked && model.waiting_gate().is_some() {
        perform(model, GlobalKey::ShowGate.into(), &|_| None);
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the terminal library's enum grows"
)]
pub(super) fn on_question_key(model: &mut ScreenModel, key: KeyEvent) {
    let action = model.look.keymap.action(key, &[KeyContext::Scroll]);
    let Some(Modal::Remove(question) | Modal::Cancel(question)) = model.modals.last_mut() else {
        return;
    };
    let number = match key.code {
        KeyCode::Enter => question.chosen + 1,
        KeyCode::Char(c) if c.is_ascii_digit() => c
            .to_digit(10)
            .and_then(|d| usize::try_from(d).ok())
            .unwrap_or(0),
        KeyCode::Char('y') => 1,
        KeyCode::Esc | KeyCode::Char('n' | 'q') => question.choices.len(),
        _ => {
            question.move_by(
                isize::from(action == Some(ScrollKey::Down.into()))
                    - isize::from(action == Some(ScrollKey::Up.into())),
            );
            return;
        }
    };
    answer_question(model, number);
}

/// Gives the answer with this number, from 1. The last one changes nothing.
pub(super) fn answer_question(model: &mut ScreenModel, number: usize) {
    let Some(Modal::Remove(question) | Modal::Cancel(question)) = model.modals.last() else {
        return;
    };
    let Some(chosen) = question
        .numbered(number)
        .map(|choice| choice.request.clone())
    else {
        return;
    };
    model.modals.pop();
    if let Some(command) = chosen {
        model.request(ScreenRequest::Command(command));
    }
}

pub(super) fn on_help_key(model: &mut ScreenModel, key: KeyEvent) {
    let page = usize::from(model.size.1.saturating_sub(4).max(1));
    match model.look.keymap.action(
        key,
        &[KeyContext::Viewer, KeyContext::Scroll, KeyContext::Global],
    ) {
        Some(
            KeyAction::Viewer(ViewerKey::Close)
            | KeyAction::Global(GlobalKey::Help | GlobalKey::Quit),
        ) => {
            model.modals.pop();
        }
        Some(KeyAction::Global(GlobalKey::ShowGate)) => answer_over(model, key),
        Some(action) => {
            if let Some(Modal::Help(help)) = model.modals.last_mut() {
                help.key(action, page);
            }
        }
        None => {}
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the terminal library's enum grows"
)]
pub(super) fn on_palette_key(model: &mut ScreenModel, key: KeyEvent, reload: RecordLoader<'_>) {
    let Some(Modal::Palette(palette)) = model.modals.last_mut() else {
        return;
    };
    match key.code {
        KeyCode::Esc => {
            model.modals.pop();
        }
        KeyCode::Enter => {
            let chosen = palette.chosen();
            model.modals.pop();
            match chosen {
                Some(PaletteChoice::Command(action)) => perform(model, action, reload),
                Some(PaletteChoice::Model(name)) => {
                    let chosen = SessionCommand::SetModel { model: name };
                    model.request(ScreenRequest::Command(chosen));
                }
                None => {}
            }
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
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the terminal library's enum grows"
)]
pub(super) fn on_search_key(model: &mut ScreenModel, key: KeyEvent, reload: RecordLoader<'_>) {
    let Some(Modal::Search(line)) = model.modals.last_mut() else {
        return;
    };
    match key.code {
        KeyCode::Esc => {
            model.modals.pop();
        }
        KeyCode::Enter => {
            model.query = std::mem::take(&mut line.query);
            model.modals.pop();
            if !model.query.is_empty() {
                return search(model, SearchStep::Nearest, reload);
            }
            // An empty search removes the highlights.
            if let Some(Modal::Viewer(viewer)) = model.modals.last_mut() {
                viewer.search("", SearchStep::Next);
            } else if let Some(Modal::Diff(diff)) = model.modals.last_mut() {
                diff.search("", true);
            }
        }
        KeyCode::Backspace => {
            line.query.pop();
        }
        KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) => line.query.push(c),
        _ => {}
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the terminal library's enum grows"
)]
pub(super) fn on_quit_key(model: &mut ScreenModel, key: KeyEvent) {
    let action = model.look.keymap.action(key, &[KeyContext::Scroll]);
    let Some(Modal::Quit(question)) = model.modals.last_mut() else {
        return;
    };
    let numbered = |wanted| {
        question
            .choices
            .iter()
            .position(|choice| choice.request == wanted)
            .map(|at| at + 1)
    };
    let number = match key.code {
        KeyCode::Enter => Some(question.chosen + 1),
        KeyCode::Char(c) if c.is_ascii_digit() => {
            c.to_digit(10).and_then(|digit| usize::try_from(digit).ok())
        }
        KeyCode::Char('d') => numbered(Some(LeaveChoice::LeaveRunning)),
        KeyCode::Char('w') => numbered(Some(LeaveChoice::StopAfterIteration)),
        KeyCode::Char('y') => numbered(Some(LeaveChoice::StopNow)),
        KeyCode::Esc | KeyCode::Char('n' | 'q') => numbered(None),
        _ => {
            question.move_by(
                isize::from(action == Some(ScrollKey::Down.into()))
                    - isize::from(action == Some(ScrollKey::Up.into())),
            );
            None
        }
    };
    if let Some(number) = number {
        answer_leave(model, number);
    }
}

/// Gives the answer with this number, from 1, to the question whether to leave.
pub(super) fn answer_leave(model: &mut ScreenModel, number: usize) {
    let Some(Modal::Quit(question)) = model.modals.last() else {
        return;
    };
    let Some(chosen) = question.numbered(number).map(|choice| choice.request) else {
        return;
    };
    model.modals.pop();
    let mut stop = |how| model.request(ScreenRequest::Command(SessionCommand::Stop { how }));
    match chosen {
        Some(LeaveChoice::LeaveRunning) => model.request(ScreenRequest::LeaveRunning),
        Some(LeaveChoice::StopAfterIteration) => stop(StopTiming::AfterIteration),
        Some(LeaveChoice::StopNow) => {
            stop(StopTiming::Now);
            model.request(ScreenRequest::LeaveAtTheEnd);
        }
        None => {}
    }
}
