//! What a key, a click or a tick changes on the screen, and what is asked of the world for it.

mod modal;
mod mouse;
mod pane;
mod task;

use crossterm::event::{KeyEvent, KeyEventKind, KeyModifiers, MouseEvent};

use super::{
    keymap::{KeyAction, KeyContext},
    modals::{
        Modal,
        editor::{EditorModal, EditorPurpose},
        gate::GateModal,
        help::HelpModal,
        palette::PaletteModal,
        search::SearchModal,
        viewer::ViewerModal,
    },
    model::{Pane, ScreenMode, ScreenModel},
    notification::TerminalFocus,
    replay::ReplayPlayer,
    stream::RecordLoader,
    theme::ThemeRole,
    view,
};
use crate::engine::{event::StopTiming, input::SessionCommand, submit::PipelineKind, tasks::command::TaskCommand};
use modal::{
    edited_outside, on_editor_key, on_gate_key, on_help_key, on_palette_key, on_quit_key, on_search_key, on_viewer_key,
};
use mouse::on_mouse;
use pane::{
    ScrollStep, cancel_hook, change_speed, copy, edit_item, focus, focus_by, fold, fold_thoughts, jump_to_error,
    jump_to_iteration, leave, open_hook, open_item, pause, play, preview, quit, run_hook, scroll, search, seek,
    show_stats, skip_item, steer, switch_hook, write, zoom,
};
use task::on_remove_key;

/// Something that happened to the screen.
#[derive(Debug)]
pub enum ScreenEvent {
    /// A key.
    Key(KeyEvent),
    /// The mouse.
    Mouse(MouseEvent),
    /// Text from the clipboard.
    Paste(String),
    /// The terminal has another size.
    Resize(u16, u16),
    /// The terminal has the focus, or lost it.
    Focus(bool),
    /// A command was taken.
    Accepted(SessionCommand),
    /// A command was refused, and why.
    Refused(SessionCommand, String),
    /// Nobody said what became of a command, and why.
    Unanswered(SessionCommand, String),
    /// Something else could not be done.
    Failed(String),
    /// A text was read for the viewer.
    Read(ViewerModal),
    /// The person's own editor was closed.
    Edited {
        /// What the text is for.
        purpose: EditorPurpose,
        /// As it was before.
        before: String,
        /// As it is now.
        text: String,
    },
}

/// Something that the screen asks for.
#[derive(Debug, PartialEq)]
pub enum ScreenRequest {
    /// Of the session.
    Command(SessionCommand),
    /// Of the session, one after the other, until one is refused.
    InOrder(Vec<SessionCommand>),
    /// To leave.
    Leave,
    /// To leave, and to let the session go on.
    LeaveRunning,
    /// To leave as soon as the session is over.
    LeaveAtTheEnd,
    /// To leave without waiting for anything.
    LeaveAtOnce,
    /// To put a text on the clipboard.
    Copy(String),
    /// To open a text in the person's own editor.
    EditOutside(EditorPurpose, String),
    /// To go to the shell.
    Suspend,
    /// To draw everything again.
    Redraw,
    /// To read the whole output of a run.
    ReadOutput {
        /// The title of the viewer.
        title: String,
        /// The file, relative to the session's folder.
        file: Option<String>,
        /// What to show if there is none.
        otherwise: String,
    },
    /// To show a past session up to this record.
    Seek(usize),
}

/// Takes in a message.
pub fn update(model: &mut ScreenModel, msg: ScreenEvent, reload: RecordLoader<'_>) -> Vec<ScreenRequest> {
    match msg {
        ScreenEvent::Key(key) if key.kind == KeyEventKind::Release => Vec::new(),
        ScreenEvent::Key(key) if !view::has_room(model.size) => on_key_unseen(model, key, reload),
        ScreenEvent::Mouse(_) | ScreenEvent::Paste(_) if !view::has_room(model.size) => Vec::new(),
        ScreenEvent::Key(key) => {
            model.toast = None;
            on_key(model, key, reload)
        }
        ScreenEvent::Mouse(mouse) => on_mouse(model, mouse, reload),
        ScreenEvent::Paste(text) => {
            match model.modals.last_mut() {
                Some(Modal::Editor(editor)) => editor.paste(&text),
                Some(Modal::Search(search)) => search.query.push_str(text.lines().next().unwrap_or("")),
                Some(
                    Modal::Gate(_)
                    | Modal::Viewer(_)
                    | Modal::Help(_)
                    | Modal::Palette(_)
                    | Modal::Quit(_)
                    | Modal::Remove(_),
                )
                | None => {}
            }
            Vec::new()
        }
        ScreenEvent::Resize(width, height) => {
            model.resized((width, height));
            // The terminal has moved or cut what it showed, even if it is as large as before by now.
            vec![ScreenRequest::Redraw]
        }
        ScreenEvent::Focus(focused) => {
            model.terminal_focus = if focused { TerminalFocus::Here } else { TerminalFocus::Elsewhere };
            Vec::new()
        }
        ScreenEvent::Accepted(command) => {
            model.sent.take(&command);
            Vec::new()
        }
        ScreenEvent::Refused(command, why) => {
            // What was written and refused is not lost: it is there again, to be made better.
            if let Some(editor) = model.sent.take(&command) {
                bring_back(model, editor);
            }
            model.say(ThemeRole::Warning, why);
            Vec::new()
        }
        ScreenEvent::Unanswered(command, why) => {
            // It may have arrived, and is not to be sent twice without a thought: a message waits where drafts do, and
            // whatever else was written says so itself.
            match model.sent.take(&command) {
                Some(editor) if editor.purpose.keeps_a_draft() => model.keep_draft(&editor.text()),
                Some(editor) => bring_back(model, Box::new(editor.in_doubt())),
                None => {}
            }
            model.say(ThemeRole::Warning, why);
            Vec::new()
        }
        ScreenEvent::Failed(why) => {
            model.say(ThemeRole::Warning, why);
            Vec::new()
        }
        ScreenEvent::Read(viewer) => {
            model.modals.push(Modal::Viewer(viewer));
            Vec::new()
        }
        ScreenEvent::Edited { purpose, before, text } => edited_outside(model, purpose, &before, &text),
    }
}

/// Lays out again what was written and not taken. It may come late: whatever has the keys by then keeps them, and has it
/// below itself. Only what was written at a gate comes over one.
fn bring_back(model: &mut ScreenModel, editor: Box<EditorModal>) {
    let over = match model.modals.last() {
        None => true,
        Some(Modal::Gate(_)) => editor.purpose.is_of_a_gate(),
        Some(_) => false,
    };
    let below = usize::from(!over);
    model.modals.insert(model.modals.len() - below, Modal::Editor(editor));
}

fn on_key(model: &mut ScreenModel, key: KeyEvent, reload: RecordLoader<'_>) -> Vec<ScreenRequest> {
    if is_interrupt(model, key) {
        return interrupt(model);
    }
    match model.modals.last() {
        None => on_pane_key(model, key, reload),
        Some(Modal::Gate(_)) => on_gate_key(model, key),
        Some(Modal::Editor(_)) => on_editor_key(model, key),
        Some(Modal::Viewer(_)) => on_viewer_key(model, key),
        Some(Modal::Help(_)) => on_help_key(model, key),
        Some(Modal::Palette(_)) => on_palette_key(model, key, reload),
        Some(Modal::Search(_)) => on_search_key(model, key, reload),
        Some(Modal::Quit(_)) => on_quit_key(model, key),
        Some(Modal::Remove(_)) => on_remove_key(model, key),
    }
}

/// A key on a screen that is too small to show anything: it answers and writes nothing. Only the ways out are there, and
/// no letter is one, since it may be a part of something else.
fn on_key_unseen(model: &mut ScreenModel, key: KeyEvent, reload: RecordLoader<'_>) -> Vec<ScreenRequest> {
    if is_interrupt(model, key) {
        return interrupt(model);
    }
    match model.keymap.action(key, &[KeyContext::Global]).filter(|_| is_held(key)) {
        Some(action @ (KeyAction::Leave | KeyAction::Suspend)) => perform(model, action, reload),
        Some(_) | None => Vec::new(),
    }
}

fn is_held(key: KeyEvent) -> bool {
    key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT)
}

/// Whether it is Ctrl-C, or what the user has put in its place. A letter alone may be a part of a text.
fn is_interrupt(model: &ScreenModel, key: KeyEvent) -> bool {
    is_held(key) && model.keymap.action(key, &[KeyContext::Global]) == Some(KeyAction::Quit)
}

/// Ctrl-C asks how to leave, wherever the user is. Pressed again, or while the session is being stopped already, it leaves
/// at once.
fn interrupt(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    let asked = model.modals.iter().any(|modal| matches!(modal, Modal::Quit(_)));
    let is_stopping = || model.session.as_ref().is_some_and(|state| state.steering.stop == Some(StopTiming::Now));
    let is_over = || model.session.as_ref().is_some_and(|state| state.outcome().is_some());
    if asked || is_stopping() && !is_over() { vec![ScreenRequest::LeaveAtOnce] } else { quit(model) }
}

fn on_pane_key(model: &mut ScreenModel, key: KeyEvent, reload: RecordLoader<'_>) -> Vec<ScreenRequest> {
    let mut contexts = Vec::with_capacity(4);
    if matches!(model.mode, ScreenMode::Replay(_)) {
        contexts.push(KeyContext::Replay);
    }
    contexts.extend(match model.focus {
        Pane::Stream => Some(KeyContext::Stream),
        Pane::Hooks => Some(KeyContext::Hooks),
        Pane::Pending => Some(KeyContext::Pending),
        Pane::Tasks => Some(KeyContext::Tasks),
        Pane::Retries => None,
    });
    contexts.extend([KeyContext::Scroll, KeyContext::Global]);
    match model.keymap.action(key, &contexts) {
        Some(action) => perform(model, action, reload),
        None => Vec::new(),
    }
}

/// Does what an action says, wherever it came from.
pub fn perform(model: &mut ScreenModel, action: KeyAction, reload: RecordLoader<'_>) -> Vec<ScreenRequest> {
    match action {
        KeyAction::Quit => quit(model),
        KeyAction::Leave => leave(model),
        KeyAction::Help => lay_over(model, Modal::Help(HelpModal::default())),
        KeyAction::Palette => lay_over(model, Modal::Palette(PaletteModal::default())),
        KeyAction::NextPane => focus_by(model, 1),
        KeyAction::PreviousPane => focus_by(model, Pane::ALL.len() - 1),
        KeyAction::FocusStream => focus(model, Pane::Stream),
        KeyAction::FocusHooks => focus(model, Pane::Hooks),
        KeyAction::FocusPending => focus(model, Pane::Pending),
        KeyAction::FocusRetries => focus(model, Pane::Retries),
        KeyAction::FocusTasks => focus(model, Pane::Tasks),
        KeyAction::Zoom => zoom(model),
        KeyAction::ShowGate => show_gate(model),
        KeyAction::Message => write(model, EditorPurpose::Message),
        KeyAction::MessageNow => write(model, EditorPurpose::MessageNow),
        KeyAction::Pause => pause(model),
        KeyAction::RetryNow => steer(model, SessionCommand::RetryNow),
        KeyAction::SwitchAgent => steer(model, SessionCommand::SwitchAgent(None)),
        KeyAction::Stop => steer(model, SessionCommand::Stop(StopTiming::AfterIteration)),
        KeyAction::CancelTurn => steer(model, SessionCommand::CancelTurn),
        KeyAction::Submit => steer(model, SessionCommand::Pipeline(PipelineKind::Submit)),
        KeyAction::Merge => steer(model, SessionCommand::Pipeline(PipelineKind::Merge)),
        KeyAction::Redraw => vec![ScreenRequest::Redraw],
        KeyAction::Suspend => vec![ScreenRequest::Suspend],
        KeyAction::Up => scroll(model, ScrollStep::LineUp, reload),
        KeyAction::Down => scroll(model, ScrollStep::LineDown, reload),
        KeyAction::PageUp => scroll(model, ScrollStep::PageUp, reload),
        KeyAction::PageDown => scroll(model, ScrollStep::PageDown, reload),
        KeyAction::Top => scroll(model, ScrollStep::Top, reload),
        KeyAction::Bottom => scroll(model, ScrollStep::Bottom, reload),
        KeyAction::Search => lay_over(model, Modal::Search(SearchModal::default())),
        KeyAction::SearchNext => search(model, true, reload),
        KeyAction::SearchPrevious => search(model, false, reload),
        KeyAction::Copy => copy(model),
        KeyAction::NextIteration => jump_to_iteration(model, true, reload),
        KeyAction::PreviousIteration => jump_to_iteration(model, false, reload),
        KeyAction::NextError => jump_to_error(model, true, reload),
        KeyAction::PreviousError => jump_to_error(model, false, reload),
        KeyAction::Fold => fold(model, reload),
        KeyAction::FoldThoughts => fold_thoughts(model),
        KeyAction::Open => open_hook(model),
        KeyAction::RunHook => run_hook(model),
        KeyAction::SwitchHook => switch_hook(model),
        KeyAction::CancelHook => cancel_hook(model),
        KeyAction::HookStats => show_stats(model),
        KeyAction::OpenItem => open_item(model, reload),
        KeyAction::Edit => edit_item(model),
        KeyAction::Skip => skip_item(model),
        KeyAction::Preview => preview(model),
        KeyAction::OpenTask => task::open(model),
        KeyAction::AddTask => task::write_new(model),
        KeyAction::EditTask => task::edit(model),
        KeyAction::StartTask => task::ask_about_chosen(model, |id| TaskCommand::Start { id, context: None }),
        KeyAction::ReadyTask => task::ask_about_chosen(model, |id| TaskCommand::MakeReady { id }),
        KeyAction::CompleteTask => task::complete(model),
        KeyAction::BlockTask => task::write_reason(model),
        KeyAction::MarkTask => task::mark(model),
        KeyAction::DependTask => task::depend(model),
        KeyAction::RemoveTask => task::remove(model),
        KeyAction::FilterTasks => task::filter(model),
        KeyAction::TaskTree => task::switch_tree(model),
        KeyAction::Play => play(model),
        KeyAction::Step => seek(model, |player| player.shown + 1),
        // Before the first record there is nothing to see.
        KeyAction::StepBack => seek(model, |player| player.shown.saturating_sub(1).max(1)),
        KeyAction::Faster => change_speed(model, 1),
        KeyAction::Slower => change_speed(model, -1),
        KeyAction::StepIteration => seek(model, ReplayPlayer::next_iteration),
        KeyAction::StepError => seek(model, ReplayPlayer::next_error),
        // They have a meaning only inside their modals.
        KeyAction::NextChoice
        | KeyAction::PreviousChoice
        | KeyAction::ItemDown
        | KeyAction::ItemUp
        | KeyAction::ToggleItem
        | KeyAction::EditItem
        | KeyAction::EditOutside
        | KeyAction::TextDown
        | KeyAction::TextUp
        | KeyAction::Answer
        | KeyAction::Aside
        | KeyAction::Close
        | KeyAction::Wrap => Vec::new(),
    }
}

/// Shows the gate that waits; in a past session, the one that waited then.
fn show_gate(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    if let Some(mut gate) = model.aside.take() {
        gate.shown_again(model.now);
        model.modals.push(Modal::Gate(gate));
    }
    if let (Some(state), ScreenMode::Replay(_)) = (&model.session, &model.mode)
        && let Some(gate) = &state.gates.open
    {
        let gate = GateModal::past(gate.clone(), state);
        model.modals.push(Modal::Gate(Box::new(gate)));
    }
    model.look_after_the_gate();
    if !model.modals.iter().any(|modal| matches!(modal, Modal::Gate(_))) {
        model.say(ThemeRole::Faint, "no gate waits");
    }
    Vec::new()
}

fn lay_over(model: &mut ScreenModel, what: Modal) -> Vec<ScreenRequest> {
    model.modals.push(what);
    Vec::new()
}
