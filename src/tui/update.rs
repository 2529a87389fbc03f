//! Applies keys, clicks and answers to the model, and returns what to request from the session and
//! the terminal.

mod hook;
mod modal;
mod pane;
mod task;

use crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::{
    keymap::{KeyAction, KeyContext},
    modals::{
        Modal,
        editor::{EditorModal, EditorPurpose},
        gate::GateModal,
        help::HelpModal,
        palette::PaletteModal,
    },
    model::{Pane, ScreenMode, ScreenModel, SentDraft},
    stream::RecordLoader,
    theme::ThemeRole,
    view,
};
use crate::{
    engine::{event::StopTiming, input::SessionCommand, submit::kind::PipelineKind},
    process::playback_pace::{PlaybackMode, PlaybackPace},
    tui::{
        keymap::{GateKey, GlobalKey, HookKey, PendingKey, RetryKey, ScrollKey, TaskKey},
        modals::{question::cancel_question, viewer},
        model::has_room,
        panes::ClickedRow,
        request::{ScreenEvent, ScreenRequest},
        runs::GateRun,
        terminal::TerminalFocus,
        view::{footer, possible::possible},
    },
};
use hook::{on_hook_key, open_attempt};
use modal::{
    answer_leave, answer_question, edited_outside, on_diff_key, on_editor_key, on_gate,
    on_gate_key, on_help_key, on_palette_key, on_question_key, on_quit_key, on_search_key,
    on_viewer_key,
};
use pane::{
    focus, focus_by, leave, on_pending_key, on_replay_key, on_scroll_key, on_stream, on_stream_key,
    open_row, quit, steer, wheel, write,
};
use task::{on_form_key, on_task_key};

/// Applies an event and returns the requests that follow.
pub fn update(
    model: &mut ScreenModel,
    msg: ScreenEvent,
    reload: RecordLoader<'_>,
) -> Vec<ScreenRequest> {
    on_event(model, msg, reload);
    std::mem::take(&mut model.requests)
}

fn on_event(model: &mut ScreenModel, msg: ScreenEvent, reload: RecordLoader<'_>) {
    match msg {
        ScreenEvent::Key(key) if key.kind == KeyEventKind::Release => {}
        ScreenEvent::Key(key) if !has_room(model.size) => on_key_unseen(model, key, reload),
        ScreenEvent::Mouse(_) | ScreenEvent::Paste(_) if !has_room(model.size) => {}
        ScreenEvent::Key(key) => {
            model.toast = None;
            on_key(model, key, reload);
        }
        ScreenEvent::Mouse(mouse) => on_mouse(model, mouse, reload),
        ScreenEvent::Paste(text) => match model.modals.last_mut() {
            Some(Modal::Editor(editor)) => editor.paste(&text),
            Some(Modal::TaskForm(form)) => form.paste(&text),
            Some(Modal::Search(search)) => {
                search.query.push_str(text.lines().next().unwrap_or(""));
            }
            Some(
                Modal::Gate(_)
                | Modal::Viewer(_)
                | Modal::Diff(_)
                | Modal::Help(_)
                | Modal::Palette(_)
                | Modal::Quit(_)
                | Modal::Remove(_)
                | Modal::Cancel(_),
            )
            | None => {}
        },
        ScreenEvent::Resize(width, height) => {
            model.resized((width, height));
            // The terminal has moved or cut its content, even if it has its old size again by now.
            model.request(ScreenRequest::Redraw);
        }
        ScreenEvent::Focus(focused) => {
            model.terminal_focus = if focused {
                TerminalFocus::Here
            } else {
                TerminalFocus::Elsewhere
            };
        }
        ScreenEvent::Accepted(command) => {
            model.drafts.sent.accepted(&command);
        }
        ScreenEvent::Refused(command, why) => {
            // Bring the refused text back, so that the user can correct it.
            match model.drafts.sent.take(&command) {
                Some(SentDraft::Text(editor)) => bring_back(model, Modal::Editor(editor)),
                Some(SentDraft::Task(form)) => bring_back(model, Modal::TaskForm(form)),
                None => {}
            }
            model.say(ThemeRole::Warning, why);
        }
        ScreenEvent::Unanswered(command, why) => {
            // The command may have arrived, so the user should decide whether to send it again: a
            // message becomes a draft, and any other text comes back with a note.
            match model.drafts.sent.take(&command) {
                Some(SentDraft::Text(editor)) if editor.purpose.keeps_a_draft() => {
                    model.keep_draft(&editor.purpose, &editor.text());
                }
                Some(SentDraft::Text(editor)) => {
                    bring_back(model, Modal::Editor(Box::new(editor.in_doubt())));
                }
                Some(SentDraft::Task(form)) => {
                    bring_back(model, Modal::TaskForm(Box::new(form.in_doubt())));
                }
                None => {}
            }
            model.say(ThemeRole::Warning, why);
        }
        ScreenEvent::Failed(why) => {
            model.say(ThemeRole::Warning, why);
        }
        ScreenEvent::Read(viewer) => {
            model.modals.push(Modal::Viewer(Box::new(viewer)));
        }
        ScreenEvent::Diffed(part, read) => model.take_changes(part, read),
        ScreenEvent::Edited { what, before, text } => edited_outside(model, what, &before, &text),
    }
}

/// Shows a text again that the session did not accept. This can happen late: a dialog that receives
/// keys by then keeps them, and the editor goes below it. Only a text for a gate goes above a gate.
fn bring_back(model: &mut ScreenModel, draft: Modal) {
    let is_of_a_gate = matches!(&draft, Modal::Editor(editor) if editor.purpose.is_of_a_gate());
    let over = match model.modals.last() {
        None => true,
        Some(Modal::Gate(_)) => is_of_a_gate,
        Some(_) => false,
    };
    let below = usize::from(!over);
    model.modals.insert(model.modals.len() - below, draft);
}

fn on_key(model: &mut ScreenModel, key: KeyEvent, reload: RecordLoader<'_>) {
    if is_interrupt(model, key) {
        return interrupt(model);
    }
    if model.modals.is_empty() && on_demo_key(model, key) {
        return;
    }
    match model.modals.last() {
        None => on_pane_key(model, key, reload),
        Some(Modal::Gate(_)) => on_gate_key(model, key),
        Some(Modal::Editor(_)) => on_editor_key(model, key),
        Some(Modal::TaskForm(_)) => on_form_key(model, key),
        Some(Modal::Viewer(_)) => on_viewer_key(model, key),
        Some(Modal::Diff(_)) => on_diff_key(model, key),
        Some(Modal::Help(_)) => on_help_key(model, key),
        Some(Modal::Palette(_)) => on_palette_key(model, key, reload),
        Some(Modal::Search(_)) => on_search_key(model, key, reload),
        Some(Modal::Quit(_)) => on_quit_key(model, key),
        Some(Modal::Remove(_) | Modal::Cancel(_)) => on_question_key(model, key),
    }
}

/// In a demo, space pauses, and while nothing is paused, every key skips ahead except those that
/// leave or help. Returns whether it did that.
fn on_demo_key(model: &mut ScreenModel, key: KeyEvent) -> bool {
    let Some(pace) = model.plays_demo() else {
        return false;
    };
    let is_paused = pace.mode == PlaybackMode::Paused;
    let usual = model.look.keymap.action(key, &[KeyContext::Global]);
    let is_usual = matches!(
        usual,
        Some(KeyAction::Global(
            GlobalKey::Quit
                | GlobalKey::Leave
                | GlobalKey::Help
                | GlobalKey::Redraw
                | GlobalKey::Suspend
                | GlobalKey::ShowGate
        ))
    );
    let pace = if key.code == KeyCode::Char(' ') {
        let mode = if is_paused {
            PlaybackMode::Play
        } else {
            PlaybackMode::Paused
        };
        PlaybackPace { mode, ..pace }
    } else if is_paused || is_usual {
        return false;
    } else {
        PlaybackPace {
            skips: pace.skips.saturating_add(1),
            ..pace
        }
    };
    model.link.demo = Some(pace);
    model.request(ScreenRequest::SetPace(pace));
    true
}

/// Handles a key on a screen that is too small to show anything. Only keys with ctrl or alt that
/// leave or suspend work: a plain letter could belong to a text or an answer.
fn on_key_unseen(model: &mut ScreenModel, key: KeyEvent, reload: RecordLoader<'_>) {
    if is_interrupt(model, key) {
        return interrupt(model);
    }
    let action = model.look.keymap.action(key, &[KeyContext::Global]);
    if let Some(action @ KeyAction::Global(GlobalKey::Leave | GlobalKey::Suspend)) =
        action.filter(|_| is_held(key))
    {
        perform(model, action, reload);
    }
}

fn is_held(key: KeyEvent) -> bool {
    key.modifiers
        .intersects(KeyModifiers::CONTROL | KeyModifiers::ALT)
}

/// Whether it is Ctrl-C, or the user's replacement for it. A letter without ctrl or alt does not
/// count: it can be part of a text.
fn is_interrupt(model: &ScreenModel, key: KeyEvent) -> bool {
    is_held(key)
        && model.look.keymap.action(key, &[KeyContext::Global]) == Some(GlobalKey::Quit.into())
}

/// Ctrl-C asks how to leave, from anywhere. Pressed again, or while the session is already
/// stopping, it leaves immediately.
fn interrupt(model: &mut ScreenModel) {
    let asked = model
        .modals
        .iter()
        .any(|modal| matches!(modal, Modal::Quit(_)));
    let is_stopping = || {
        model
            .session
            .as_ref()
            .is_some_and(|state| state.steering.stop == Some(StopTiming::Now))
    };
    let is_over = || {
        model
            .session
            .as_ref()
            .is_some_and(|state| state.phase.outcome().is_some())
    };
    if asked || is_stopping() && !is_over() {
        model.request(ScreenRequest::LeaveAtOnce);
    } else {
        quit(model);
    }
}

fn on_pane_key(model: &mut ScreenModel, key: KeyEvent, reload: RecordLoader<'_>) {
    // The card hides the row of the stream that enter would open.
    let is_over_row = key.code == KeyCode::Enter && model.panes.focus == Pane::Stream;
    let closes = model.look.keymap.gate_key(key) == Some(GateKey::Later) || is_over_row;
    if closes && view::shows_end_card(model) {
        model.card_closed = true;
        return;
    }
    if let Some(action) = model.look.keymap.action(key, &contexts(model)) {
        perform(model, action, reload);
    }
}

/// Where the keys of the focused pane have their meanings, most important first.
fn contexts(model: &ScreenModel) -> Vec<KeyContext> {
    let replay = matches!(model.link.mode, ScreenMode::Replay(_)).then_some(KeyContext::Replay);
    let pane = match model.panes.focus {
        Pane::Stream => KeyContext::Stream,
        Pane::Hooks => KeyContext::Hooks,
        Pane::Pending => KeyContext::Pending,
        Pane::Retries => KeyContext::Retries,
        Pane::Tasks => KeyContext::Tasks,
    };
    replay
        .into_iter()
        .chain([pane, KeyContext::Scroll, KeyContext::Global])
        .collect()
}

/// The places whose keys the help page shows first.
fn help_places(model: &ScreenModel) -> Vec<KeyContext> {
    match model.modals.last() {
        Some(Modal::Gate(_)) => vec![KeyContext::Gate, KeyContext::Global],
        Some(_) | None => contexts(model),
    }
}

/// Performs an action, from a key or from the palette.
pub fn perform(model: &mut ScreenModel, action: KeyAction, reload: RecordLoader<'_>) {
    model.memory.count(action);
    match action {
        KeyAction::Global(key) => on_global_key(model, key),
        KeyAction::Scroll(key) => on_scroll_key(model, key, reload),
        KeyAction::Stream(key) => on_stream_key(model, key, reload),
        KeyAction::Hooks(key) => on_hook_key(model, key),
        KeyAction::Pending(key) => on_pending_key(model, key, reload),
        KeyAction::Retries(RetryKey::Open) => open_attempt(model),
        KeyAction::Tasks(key) => on_task_key(model, key),
        KeyAction::Replay(key) => on_replay_key(model, key),
        // These apply only inside their dialogs, or on the home screen.
        KeyAction::Gate(_)
        | KeyAction::Viewer(_)
        | KeyAction::Diff(_)
        | KeyAction::Home(_)
        | KeyAction::Worker(_) => {}
    }
}

fn on_global_key(model: &mut ScreenModel, key: GlobalKey) {
    match key {
        GlobalKey::Quit => quit(model),
        GlobalKey::Leave => leave(model),
        GlobalKey::Help => model.lay_over(Modal::Help(HelpModal::new(help_places(model)))),
        GlobalKey::Palette => {
            let palette = PaletteModal::new(&footer::useful(model), possible(model), &model.memory);
            model.lay_over(Modal::Palette(palette));
        }
        GlobalKey::NextPane => focus_by(model, 1),
        GlobalKey::PreviousPane => focus_by(model, Pane::ALL.len() - 1),
        GlobalKey::FocusStream => focus(model, Pane::Stream),
        GlobalKey::FocusHooks => focus(model, Pane::Hooks),
        GlobalKey::FocusPending => focus(model, Pane::Pending),
        GlobalKey::FocusRetries => focus(model, Pane::Retries),
        GlobalKey::FocusTasks => focus(model, Pane::Tasks),
        GlobalKey::Zoom => {
            model.panes.zoomed = !model.panes.zoomed;
        }
        GlobalKey::Wider | GlobalKey::Narrower => {
            let by = if key == GlobalKey::Wider { 5 } else { -5 };
            model.memory.split = model.memory.split.moved(by);
            model.request(ScreenRequest::Remember);
        }
        GlobalKey::ShowGate => show_gate(model),
        GlobalKey::Message => write(model, EditorPurpose::Message),
        GlobalKey::MessageNow => write(model, EditorPurpose::MessageNow),
        GlobalKey::Pause => {
            let paused = model
                .session
                .as_ref()
                .is_some_and(|state| state.steering.paused);
            let command = if paused {
                SessionCommand::Unpause
            } else {
                SessionCommand::Pause
            };
            steer(model, command);
        }
        GlobalKey::RetryNow => steer(model, SessionCommand::RetryNow),
        GlobalKey::ChooseModel => choose_model(model),
        GlobalKey::SwitchAgent => steer(model, SessionCommand::SwitchAgent { agent: None }),
        GlobalKey::Stop => steer(
            model,
            SessionCommand::Stop {
                how: StopTiming::AfterIteration,
            },
        ),
        GlobalKey::CancelTurn => ask_to_cancel(model),
        GlobalKey::Diff => model.show_changes(),
        GlobalKey::Submit | GlobalKey::Merge => {
            let pipeline = if key == GlobalKey::Submit {
                PipelineKind::Submit
            } else {
                PipelineKind::Merge
            };
            steer(model, SessionCommand::Pipeline { pipeline });
        }
        GlobalKey::Hints => model.switch_hint(),
        GlobalKey::Redraw => model.request(ScreenRequest::Redraw),
        GlobalKey::Suspend => model.request(ScreenRequest::Suspend),
    }
}

/// Shows the gate that waits for the user; in a replay, the gate that was open at that moment.
fn show_gate(model: &mut ScreenModel) {
    if let Some(gate) = model.later_gate.take() {
        model.modals.push(Modal::Gate(gate));
    }
    model.open_gate();
    let now = model.now;
    if let Some(Modal::Gate(gate)) = model.modals.last_mut() {
        gate.opened_by_the_user(now);
    }
    if let (Some(state), ScreenMode::Replay(_)) = (&model.session, &model.link.mode)
        && let Some(gate) = &state.gates.open
    {
        let runs = GateRun::list(gate, state, &model.runs, &model.attempts);
        let gate = GateModal::past(gate.clone(), state, runs);
        model.modals.push(Modal::Gate(Box::new(gate)));
    }
    model.look_after_the_gate();
    if !model
        .modals
        .iter()
        .any(|modal| matches!(modal, Modal::Gate(_)))
    {
        model.say(ThemeRole::Faint, "no gate is open");
    }
}

/// Asks before it cancels the turn: the agent's work in it may be lost.
fn ask_to_cancel(model: &mut ScreenModel) {
    let works = model
        .session
        .as_ref()
        .is_some_and(|state| state.phase.turn_in_flight().is_some());
    if !model.is_live() {
        return;
    }
    if works {
        return model.lay_over(Modal::Cancel(Box::new(cancel_question())));
    }
    // The session knows best why there is nothing to cancel.
    model.request(ScreenRequest::Command(SessionCommand::CancelTurn));
}

/// Shows the models that the agent offers. If it has offered none, the name can be typed.
fn choose_model(model: &mut ScreenModel) {
    let is_live = model.is_live();
    let Some(state) = model.session.as_ref().filter(|_| is_live) else {
        return;
    };
    let current = state.turns.model.as_deref();
    let dialog = match state.offered_models().filter(|all| !all.names.is_empty()) {
        Some(offered) => Modal::Palette(PaletteModal::models(offered, current)),
        None => Modal::Editor(Box::new(EditorModal::new(
            EditorPurpose::Model,
            current.unwrap_or_default(),
        ))),
    };
    model.lay_over(dialog);
}

/// How many rows one step of the wheel moves.
const WHEEL: usize = 3;

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the terminal library's enum grows"
)]
fn on_mouse(model: &mut ScreenModel, mouse: MouseEvent, reload: RecordLoader<'_>) {
    match mouse.kind {
        MouseEventKind::ScrollUp => on_wheel(model, mouse, false, reload),
        MouseEventKind::ScrollDown => on_wheel(model, mouse, true, reload),
        MouseEventKind::Down(MouseButton::Left) => {
            click(model, mouse.column, mouse.row, reload);
        }
        MouseEventKind::Drag(MouseButton::Left)
            if model.modals.is_empty()
                && view::replay_position_at(model, mouse.column, mouse.row).is_some() =>
        {
            if let Some(position) = view::replay_position_at(model, mouse.column, mouse.row) {
                model.request(ScreenRequest::Seek(position));
            }
        }
        MouseEventKind::Drag(MouseButton::Left) if model.panes.drags => {
            if let Some(split) = view::split_at(model, mouse.column) {
                model.memory.split = split;
            }
        }
        MouseEventKind::Up(MouseButton::Left) if std::mem::take(&mut model.panes.drags) => {
            model.request(ScreenRequest::Remember);
        }
        _ => {}
    }
}

fn on_wheel(model: &mut ScreenModel, mouse: MouseEvent, down: bool, reload: RecordLoader<'_>) {
    let key = if down { ScrollKey::Down } else { ScrollKey::Up };
    let room = viewer::room(model.size);
    for _ in 0..WHEEL {
        match model.modals.last_mut() {
            Some(Modal::Viewer(viewer)) => viewer.key(key.into(), room),
            Some(Modal::Diff(diff)) => diff.key(key.into()),
            Some(Modal::Help(help)) => help.key(key.into(), 1),
            Some(Modal::Gate(gate)) => gate.wheel(down),
            Some(_) => {}
            None => {
                if let Some(pane) = view::pane_at(model, mouse.column, mouse.row) {
                    model.panes.focus = pane;
                }
                wheel(model, down, reload);
            }
        }
    }
}

fn click(model: &mut ScreenModel, column: u16, row: u16, reload: RecordLoader<'_>) {
    let now = model.now;
    let on_line = view::is_split_line(model, column, row);
    if view::hides_hint(model, column, row) {
        return model.switch_hint();
    }
    if model.modals.is_empty()
        && let Some(position) = view::replay_position_at(model, column, row)
    {
        return model.request(ScreenRequest::Seek(position));
    }
    if let Some(key) = view::key_at(model, column, row) {
        model.toast = None;
        return on_key(model, key, reload);
    }
    let area = model.area();
    if model.modals.is_empty()
        && let Some(block) = view::timeline_block_at(model, column, row)
    {
        model.panes.focus = Pane::Stream;
        return model.stream.go_to_block(block);
    }
    match model.modals.last_mut() {
        Some(Modal::Gate(gate)) => {
            let asked = gate.click(column, row, now);
            on_gate(model, asked);
        }
        Some(Modal::Palette(palette)) => {
            let is_command = palette.choose_at(area, column, row);
            if is_command {
                on_key(model, KeyEvent::from(KeyCode::Enter), reload);
            }
        }
        Some(Modal::Quit(question)) => {
            let chosen = question.choice_at(area, column, row);
            if let Some(chosen) = chosen {
                answer_leave(model, chosen + 1);
            }
        }
        Some(Modal::Remove(question) | Modal::Cancel(question)) => {
            let chosen = question.choice_at(area, column, row);
            if let Some(chosen) = chosen {
                answer_question(model, chosen + 1);
            }
        }
        Some(Modal::TaskForm(form)) => {
            if form.click(area, column, row) {
                form.key(KeyEvent::from(KeyCode::Char(' ')));
            }
        }
        Some(_) => {}
        None if on_line => {
            model.panes.drags = true;
        }
        None => click_pane(model, column, row, reload),
    }
}

/// A click moves the cursor. On a row of the stream, and on the row that is selected already, it
/// does what enter does.
fn click_pane(model: &mut ScreenModel, column: u16, row: u16, reload: RecordLoader<'_>) {
    let Some(pane) = view::pane_at(model, column, row) else {
        return;
    };
    let was_there = model.panes.focus == pane;
    let hit = view::choose_at(model, pane, row);
    model.panes.focus = pane;
    match (hit, pane) {
        (
            ClickedRow::Nothing | ClickedRow::Chosen,
            Pane::Hooks | Pane::Pending | Pane::Retries | Pane::Tasks,
        )
        | (ClickedRow::Nothing, Pane::Stream) => {}
        (ClickedRow::Chosen | ClickedRow::Again, Pane::Stream) => {
            let place = model.frame.cursor;
            let Some(place) = place else {
                return;
            };
            on_stream(model, reload, |stream, view| stream.point_at(place, view));
            open_row(model, reload);
        }
        (ClickedRow::Again, _) if !was_there => {}
        (ClickedRow::Again, Pane::Hooks) => perform(model, HookKey::Open.into(), reload),
        (ClickedRow::Again, Pane::Pending) => perform(model, PendingKey::Open.into(), reload),
        (ClickedRow::Again, Pane::Retries) => perform(model, RetryKey::Open.into(), reload),
        (ClickedRow::Again, Pane::Tasks) => perform(model, TaskKey::Open.into(), reload),
    }
}
