//! What a key, a click or a tick changes on the screen, and what is asked of the world for it.

mod modal;
mod mouse;
mod pane;
mod task;

use crossterm::event::{KeyEvent, KeyEventKind, KeyModifiers, MouseEvent};

use super::{
    keymap::{Action, Context},
    modals::{
        Modal,
        editor::{EditorModal, Purpose},
        gate::GateModal,
        help::HelpModal,
        palette::PaletteModal,
        search::SearchModal,
        viewer::ViewerModal,
    },
    model::{Mode, Model, Pane},
    notification::TerminalFocus,
    replay::Player,
    stream::Reload,
    theme::Role,
    view,
};
use crate::engine::{event::StopHow, input::Command, submit::Pipeline, tasks::command::TaskCommand};
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
pub enum Msg {
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
    Accepted(Command),
    /// A command was refused, and why.
    Refused(Command, String),
    /// Nobody said what became of a command, and why.
    Unanswered(Command, String),
    /// Something else could not be done.
    Failed(String),
    /// A text was read for the viewer.
    Read(ViewerModal),
    /// The person's own editor was closed.
    Edited {
        /// What the text is for.
        purpose: Purpose,
        /// As it was before.
        before: String,
        /// As it is now.
        text: String,
    },
}

/// Something that the screen asks for.
#[derive(Debug, PartialEq)]
pub enum Ask {
    /// Of the session.
    Command(Command),
    /// Of the session, one after the other, until one is refused.
    InOrder(Vec<Command>),
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
    EditOutside(Purpose, String),
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
pub fn update(model: &mut Model, msg: Msg, reload: Reload<'_>) -> Vec<Ask> {
    match msg {
        Msg::Key(key) if key.kind == KeyEventKind::Release => Vec::new(),
        Msg::Key(key) if !view::has_room(model.size) => on_key_unseen(model, key, reload),
        Msg::Mouse(_) | Msg::Paste(_) if !view::has_room(model.size) => Vec::new(),
        Msg::Key(key) => {
            model.toast = None;
            on_key(model, key, reload)
        }
        Msg::Mouse(mouse) => on_mouse(model, mouse, reload),
        Msg::Paste(text) => {
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
        Msg::Resize(width, height) => {
            model.resized((width, height));
            // The terminal has moved or cut what it showed, even if it is as large as before by now.
            vec![Ask::Redraw]
        }
        Msg::Focus(focused) => {
            model.terminal_focus = if focused { TerminalFocus::Here } else { TerminalFocus::Elsewhere };
            Vec::new()
        }
        Msg::Accepted(command) => {
            model.sent.take(&command);
            Vec::new()
        }
        Msg::Refused(command, why) => {
            // What was written and refused is not lost: it is there again, to be made better.
            if let Some(editor) = model.sent.take(&command) {
                bring_back(model, editor);
            }
            model.say(Role::Warning, why);
            Vec::new()
        }
        Msg::Unanswered(command, why) => {
            // It may have arrived, and is not to be sent twice without a thought: a message waits where drafts do, and
            // whatever else was written says so itself.
            match model.sent.take(&command) {
                Some(editor) if editor.purpose.keeps_a_draft() => model.keep_draft(&editor.text()),
                Some(editor) => bring_back(model, Box::new(editor.in_doubt())),
                None => {}
            }
            model.say(Role::Warning, why);
            Vec::new()
        }
        Msg::Failed(why) => {
            model.say(Role::Warning, why);
            Vec::new()
        }
        Msg::Read(viewer) => {
            model.modals.push(Modal::Viewer(viewer));
            Vec::new()
        }
        Msg::Edited { purpose, before, text } => edited_outside(model, purpose, &before, &text),
    }
}

/// Lays out again what was written and not taken. It may come late: whatever has the keys by then keeps them, and has it
/// below itself. Only what was written at a gate comes over one.
fn bring_back(model: &mut Model, editor: Box<EditorModal>) {
    let over = match model.modals.last() {
        None => true,
        Some(Modal::Gate(_)) => editor.purpose.is_of_a_gate(),
        Some(_) => false,
    };
    let below = usize::from(!over);
    model.modals.insert(model.modals.len() - below, Modal::Editor(editor));
}

fn on_key(model: &mut Model, key: KeyEvent, reload: Reload<'_>) -> Vec<Ask> {
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
fn on_key_unseen(model: &mut Model, key: KeyEvent, reload: Reload<'_>) -> Vec<Ask> {
    if is_interrupt(model, key) {
        return interrupt(model);
    }
    match model.keymap.action(key, &[Context::Global]).filter(|_| is_held(key)) {
        Some(action @ (Action::Leave | Action::Suspend)) => perform(model, action, reload),
        Some(_) | None => Vec::new(),
    }
}

fn is_held(key: KeyEvent) -> bool {
    key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT)
}

/// Whether it is Ctrl-C, or what the user has put in its place. A letter alone may be a part of a text.
fn is_interrupt(model: &Model, key: KeyEvent) -> bool {
    is_held(key) && model.keymap.action(key, &[Context::Global]) == Some(Action::Quit)
}

/// Ctrl-C asks how to leave, wherever the user is. Pressed again, or while the session is being stopped already, it leaves
/// at once.
fn interrupt(model: &mut Model) -> Vec<Ask> {
    let asked = model.modals.iter().any(|modal| matches!(modal, Modal::Quit(_)));
    let is_stopping = || model.session.as_ref().is_some_and(|state| state.steering.stop == Some(StopHow::Now));
    let is_over = || model.session.as_ref().is_some_and(|state| state.outcome().is_some());
    if asked || is_stopping() && !is_over() { vec![Ask::LeaveAtOnce] } else { quit(model) }
}

fn on_pane_key(model: &mut Model, key: KeyEvent, reload: Reload<'_>) -> Vec<Ask> {
    let mut contexts = Vec::with_capacity(4);
    if matches!(model.mode, Mode::Replay(_)) {
        contexts.push(Context::Replay);
    }
    contexts.extend(match model.focus {
        Pane::Stream => Some(Context::Stream),
        Pane::Hooks => Some(Context::Hooks),
        Pane::Pending => Some(Context::Pending),
        Pane::Tasks => Some(Context::Tasks),
        Pane::Retries => None,
    });
    contexts.extend([Context::Scroll, Context::Global]);
    match model.keymap.action(key, &contexts) {
        Some(action) => perform(model, action, reload),
        None => Vec::new(),
    }
}

/// Does what an action says, wherever it came from.
pub fn perform(model: &mut Model, action: Action, reload: Reload<'_>) -> Vec<Ask> {
    match action {
        Action::Quit => quit(model),
        Action::Leave => leave(model),
        Action::Help => lay_over(model, Modal::Help(HelpModal::default())),
        Action::Palette => lay_over(model, Modal::Palette(PaletteModal::default())),
        Action::NextPane => focus_by(model, 1),
        Action::PreviousPane => focus_by(model, Pane::ALL.len() - 1),
        Action::FocusStream => focus(model, Pane::Stream),
        Action::FocusHooks => focus(model, Pane::Hooks),
        Action::FocusPending => focus(model, Pane::Pending),
        Action::FocusRetries => focus(model, Pane::Retries),
        Action::FocusTasks => focus(model, Pane::Tasks),
        Action::Zoom => zoom(model),
        Action::ShowGate => show_gate(model),
        Action::Message => write(model, Purpose::Message),
        Action::MessageNow => write(model, Purpose::MessageNow),
        Action::Pause => pause(model),
        Action::RetryNow => steer(model, Command::RetryNow),
        Action::SwitchAgent => steer(model, Command::SwitchAgent(None)),
        Action::Stop => steer(model, Command::Stop(StopHow::AfterIteration)),
        Action::CancelTurn => steer(model, Command::CancelTurn),
        Action::Submit => steer(model, Command::Pipeline(Pipeline::Submit)),
        Action::Merge => steer(model, Command::Pipeline(Pipeline::Merge)),
        Action::Redraw => vec![Ask::Redraw],
        Action::Suspend => vec![Ask::Suspend],
        Action::Up => scroll(model, ScrollStep::LineUp, reload),
        Action::Down => scroll(model, ScrollStep::LineDown, reload),
        Action::PageUp => scroll(model, ScrollStep::PageUp, reload),
        Action::PageDown => scroll(model, ScrollStep::PageDown, reload),
        Action::Top => scroll(model, ScrollStep::Top, reload),
        Action::Bottom => scroll(model, ScrollStep::Bottom, reload),
        Action::Search => lay_over(model, Modal::Search(SearchModal::default())),
        Action::SearchNext => search(model, true, reload),
        Action::SearchPrevious => search(model, false, reload),
        Action::Copy => copy(model),
        Action::NextIteration => jump_to_iteration(model, true, reload),
        Action::PreviousIteration => jump_to_iteration(model, false, reload),
        Action::NextError => jump_to_error(model, true, reload),
        Action::PreviousError => jump_to_error(model, false, reload),
        Action::Fold => fold(model, reload),
        Action::FoldThoughts => fold_thoughts(model),
        Action::Open => open_hook(model),
        Action::RunHook => run_hook(model),
        Action::SwitchHook => switch_hook(model),
        Action::CancelHook => cancel_hook(model),
        Action::HookStats => show_stats(model),
        Action::OpenItem => open_item(model, reload),
        Action::Edit => edit_item(model),
        Action::Skip => skip_item(model),
        Action::Preview => preview(model),
        Action::OpenTask => task::open(model),
        Action::AddTask => task::write_new(model),
        Action::EditTask => task::edit(model),
        Action::StartTask => task::ask_about_chosen(model, |id| TaskCommand::Start { id, context: None }),
        Action::ReadyTask => task::ask_about_chosen(model, |id| TaskCommand::MakeReady { id }),
        Action::CompleteTask => task::complete(model),
        Action::BlockTask => task::write_reason(model),
        Action::MarkTask => task::mark(model),
        Action::DependTask => task::depend(model),
        Action::RemoveTask => task::remove(model),
        Action::FilterTasks => task::filter(model),
        Action::TaskTree => task::switch_tree(model),
        Action::Play => play(model),
        Action::Step => seek(model, |player| player.shown + 1),
        // Before the first record there is nothing to see.
        Action::StepBack => seek(model, |player| player.shown.saturating_sub(1).max(1)),
        Action::Faster => change_speed(model, 1),
        Action::Slower => change_speed(model, -1),
        Action::StepIteration => seek(model, Player::next_iteration),
        Action::StepError => seek(model, Player::next_error),
        // They have a meaning only inside their modals.
        Action::NextChoice
        | Action::PreviousChoice
        | Action::ItemDown
        | Action::ItemUp
        | Action::ToggleItem
        | Action::EditItem
        | Action::EditOutside
        | Action::TextDown
        | Action::TextUp
        | Action::Answer
        | Action::Aside
        | Action::Close
        | Action::Wrap => Vec::new(),
    }
}

/// Shows the gate that waits; in a past session, the one that waited then.
fn show_gate(model: &mut Model) -> Vec<Ask> {
    if let Some(mut gate) = model.aside.take() {
        gate.shown_again(model.now);
        model.modals.push(Modal::Gate(gate));
    }
    if let (Some(state), Mode::Replay(_)) = (&model.session, &model.mode)
        && let Some(gate) = &state.gates.open
    {
        let gate = GateModal::past(gate.clone(), state);
        model.modals.push(Modal::Gate(Box::new(gate)));
    }
    model.look_after_the_gate();
    if !model.modals.iter().any(|modal| matches!(modal, Modal::Gate(_))) {
        model.say(Role::Faint, "no gate waits");
    }
    Vec::new()
}

fn lay_over(model: &mut Model, what: Modal) -> Vec<Ask> {
    model.modals.push(what);
    Vec::new()
}
