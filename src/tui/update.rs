//! Applies keys, clicks and answers to the model, and returns what to request from the session and
//! the terminal.

mod hook;
mod modal;
mod mouse;
mod pane;
mod task;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use hook::{cancel_hook, open_attempt, open_hook, run_hook, show_stats, switch_hook};
use modal::{
    edited_outside, on_editor_key, on_gate_key, on_help_key, on_palette_key, on_question_key,
    on_quit_key, on_search_key, on_viewer_key,
};
use mouse::on_mouse;
use pane::{
    ScrollStep, change_speed, copy, edit_item, focus, focus_by, fold, fold_thoughts, jump_to_error,
    jump_to_iteration, leave, open_item, pause, play, preview, quit, scroll, search, seek,
    seek_next, skip_item, split, steer, write, zoom,
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
    model::{Pane, ScreenMode, ScreenModel},
    notification::TerminalFocus,
    replay::ReplayPlayer,
    stream::RecordLoader,
    theme::ThemeRole,
    view,
};
use crate::{
    engine::{
        event::StopTiming, input::SessionCommand, submit::kind::PipelineKind,
        tasks::command::TaskCommand,
    },
    process::playback_pace::{PlaybackMode, PlaybackPace},
    tui::{
        modals::{SearchModal, question::cancel_question},
        model::has_room,
        request::{ScreenEvent, ScreenRequest},
        runs::GateRun,
        view::footer,
    },
};

/// Applies an event and returns the requests that follow.
pub fn update(
    model: &mut ScreenModel,
    msg: ScreenEvent,
    reload: RecordLoader<'_>,
) -> Vec<ScreenRequest> {
    match msg {
        ScreenEvent::Key(key) if key.kind == KeyEventKind::Release => Vec::new(),
        ScreenEvent::Key(key) if !has_room(model.size) => on_key_unseen(model, key, reload),
        ScreenEvent::Mouse(_) | ScreenEvent::Paste(_) if !has_room(model.size) => Vec::new(),
        ScreenEvent::Key(key) => {
            model.toast = None;
            on_key(model, key, reload)
        }
        ScreenEvent::Mouse(mouse) => on_mouse(model, mouse, reload),
        ScreenEvent::Paste(text) => {
            match model.modals.last_mut() {
                Some(Modal::Editor(editor)) => editor.paste(&text),
                Some(Modal::Search(search)) => {
                    search.query.push_str(text.lines().next().unwrap_or(""));
                }
                Some(
                    Modal::Gate(_)
                    | Modal::Viewer(_)
                    | Modal::Help(_)
                    | Modal::Palette(_)
                    | Modal::Quit(_)
                    | Modal::Remove(_)
                    | Modal::Cancel(_),
                )
                | None => {}
            }
            Vec::new()
        }
        ScreenEvent::Resize(width, height) => {
            model.resized((width, height));
            // The terminal has moved or cut its content, even if it has its old size again by now.
            vec![ScreenRequest::Redraw]
        }
        ScreenEvent::Focus(focused) => {
            model.terminal_focus = if focused {
                TerminalFocus::Here
            } else {
                TerminalFocus::Elsewhere
            };
            Vec::new()
        }
        ScreenEvent::Accepted(command) => {
            model.drafts.sent.take(&command);
            Vec::new()
        }
        ScreenEvent::Refused(command, why) => {
            // Bring the refused text back, so that the user can correct it.
            if let Some(editor) = model.drafts.sent.take(&command) {
                bring_back(model, editor);
            }
            model.say(ThemeRole::Warning, why);
            Vec::new()
        }
        ScreenEvent::Unanswered(command, why) => {
            // The command may have arrived, so the user should decide whether to send it again: a
            // message becomes a draft, and any other text comes back with a note.
            match model.drafts.sent.take(&command) {
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
            model.modals.push(Modal::Viewer(Box::new(viewer)));
            Vec::new()
        }
        ScreenEvent::Edited {
            purpose,
            before,
            text,
        } => edited_outside(model, purpose, &before, &text),
    }
}

/// Shows a text again that the session did not accept. This can happen late: a dialog that receives
/// keys by then keeps them, and the editor goes below it. Only a text for a gate goes above a gate.
fn bring_back(model: &mut ScreenModel, editor: Box<EditorModal>) {
    let over = match model.modals.last() {
        None => true,
        Some(Modal::Gate(_)) => editor.purpose.is_of_a_gate(),
        Some(_) => false,
    };
    let below = usize::from(!over);
    model
        .modals
        .insert(model.modals.len() - below, Modal::Editor(editor));
}

fn on_key(model: &mut ScreenModel, key: KeyEvent, reload: RecordLoader<'_>) -> Vec<ScreenRequest> {
    if is_interrupt(model, key) {
        return interrupt(model);
    }
    match model.modals.last() {
        None => match on_demo_key(model, key) {
            Some(requests) => requests,
            None => on_pane_key(model, key, reload),
        },
        Some(Modal::Gate(_)) => on_gate_key(model, key),
        Some(Modal::Editor(_)) => on_editor_key(model, key),
        Some(Modal::Viewer(_)) => on_viewer_key(model, key),
        Some(Modal::Help(_)) => on_help_key(model, key),
        Some(Modal::Palette(_)) => on_palette_key(model, key, reload),
        Some(Modal::Search(_)) => on_search_key(model, key, reload),
        Some(Modal::Quit(_)) => on_quit_key(model, key),
        Some(Modal::Remove(_) | Modal::Cancel(_)) => on_question_key(model, key),
    }
}

/// In a demo, space pauses, and while nothing is paused, every key skips ahead except those that
/// leave or help. None if the key has its usual meaning.
fn on_demo_key(model: &mut ScreenModel, key: KeyEvent) -> Option<Vec<ScreenRequest>> {
    let pace = model.plays_demo()?;
    let is_paused = pace.mode == PlaybackMode::Paused;
    let usual = model.look.keymap.action(key, &[KeyContext::Global]);
    let is_usual = matches!(
        usual,
        Some(
            KeyAction::Quit
                | KeyAction::Leave
                | KeyAction::Help
                | KeyAction::Redraw
                | KeyAction::Suspend
                | KeyAction::ShowGate
        )
    );
    let pace = if key.code == KeyCode::Char(' ') {
        let mode = if is_paused {
            PlaybackMode::Play
        } else {
            PlaybackMode::Paused
        };
        PlaybackPace { mode, ..pace }
    } else if is_paused || is_usual {
        return None;
    } else {
        PlaybackPace {
            skips: pace.skips.saturating_add(1),
            ..pace
        }
    };
    model.link.demo = Some(pace);
    Some(vec![ScreenRequest::SetPace(pace)])
}

/// Handles a key on a screen that is too small to show anything. Only keys with ctrl or alt that
/// leave or suspend work: a plain letter could belong to a text or an answer.
fn on_key_unseen(
    model: &mut ScreenModel,
    key: KeyEvent,
    reload: RecordLoader<'_>,
) -> Vec<ScreenRequest> {
    if is_interrupt(model, key) {
        return interrupt(model);
    }
    match model
        .look
        .keymap
        .action(key, &[KeyContext::Global])
        .filter(|_| is_held(key))
    {
        Some(action @ (KeyAction::Leave | KeyAction::Suspend)) => perform(model, action, reload),
        Some(_) | None => Vec::new(),
    }
}

fn is_held(key: KeyEvent) -> bool {
    key.modifiers
        .intersects(KeyModifiers::CONTROL | KeyModifiers::ALT)
}

/// Whether it is Ctrl-C, or the user's replacement for it. A letter without ctrl or alt does not
/// count: it can be part of a text.
fn is_interrupt(model: &ScreenModel, key: KeyEvent) -> bool {
    is_held(key) && model.look.keymap.action(key, &[KeyContext::Global]) == Some(KeyAction::Quit)
}

/// Ctrl-C asks how to leave, from anywhere. Pressed again, or while the session is already
/// stopping, it leaves immediately.
fn interrupt(model: &mut ScreenModel) -> Vec<ScreenRequest> {
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
        vec![ScreenRequest::LeaveAtOnce]
    } else {
        quit(model)
    }
}

fn on_pane_key(
    model: &mut ScreenModel,
    key: KeyEvent,
    reload: RecordLoader<'_>,
) -> Vec<ScreenRequest> {
    // The card hides the row of the stream that enter would open.
    let is_over_row = key.code == KeyCode::Enter && model.panes.focus == Pane::Stream;
    let closes =
        model.look.keymap.action(key, &[KeyContext::Gate]) == Some(KeyAction::Aside) || is_over_row;
    if closes && view::shows_end_card(model) {
        model.card_closed = true;
        return Vec::new();
    }
    match model.look.keymap.action(key, &contexts(model)) {
        Some(action) => perform(model, action, reload),
        None => Vec::new(),
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
pub fn perform(
    model: &mut ScreenModel,
    action: KeyAction,
    reload: RecordLoader<'_>,
) -> Vec<ScreenRequest> {
    model.memory.count(action);
    let goes_on = matches!(
        action,
        KeyAction::NextIteration | KeyAction::NextError | KeyAction::NextPane
    );
    match action {
        KeyAction::Quit => quit(model),
        KeyAction::Leave => leave(model),
        KeyAction::Help => model.lay_over(Modal::Help(HelpModal::new(help_places(model)))),
        KeyAction::Palette => model.lay_over(Modal::Palette(PaletteModal::new(
            &footer::useful(model),
            &model.memory,
        ))),
        KeyAction::NextPane | KeyAction::PreviousPane => {
            focus_by(model, if goes_on { 1 } else { Pane::ALL.len() - 1 })
        }
        KeyAction::FocusStream => focus(model, Pane::Stream),
        KeyAction::FocusHooks => focus(model, Pane::Hooks),
        KeyAction::FocusPending => focus(model, Pane::Pending),
        KeyAction::FocusRetries => focus(model, Pane::Retries),
        KeyAction::FocusTasks => focus(model, Pane::Tasks),
        KeyAction::Zoom => zoom(model),
        KeyAction::Wider | KeyAction::Narrower => {
            split(model, if action == KeyAction::Wider { 5 } else { -5 })
        }
        KeyAction::ShowGate => show_gate(model),
        KeyAction::Message => write(model, EditorPurpose::Message),
        KeyAction::MessageNow => write(model, EditorPurpose::MessageNow),
        KeyAction::Pause => pause(model),
        KeyAction::RetryNow => steer(model, SessionCommand::RetryNow),
        KeyAction::SwitchAgent => steer(model, SessionCommand::SwitchAgent { agent: None }),
        KeyAction::Stop => steer(
            model,
            SessionCommand::Stop {
                how: StopTiming::AfterIteration,
            },
        ),
        KeyAction::CancelTurn => ask_to_cancel(model),
        KeyAction::Submit => steer(
            model,
            SessionCommand::Pipeline {
                pipeline: PipelineKind::Submit,
            },
        ),
        KeyAction::Merge => steer(
            model,
            SessionCommand::Pipeline {
                pipeline: PipelineKind::Merge,
            },
        ),
        KeyAction::Hints => model.switch_hint(),
        KeyAction::Redraw => vec![ScreenRequest::Redraw],
        KeyAction::Suspend => vec![ScreenRequest::Suspend],
        KeyAction::Up => scroll(model, ScrollStep::LineUp, reload),
        KeyAction::Down => scroll(model, ScrollStep::LineDown, reload),
        KeyAction::PageUp => scroll(model, ScrollStep::PageUp, reload),
        KeyAction::PageDown => scroll(model, ScrollStep::PageDown, reload),
        KeyAction::Top => scroll(model, ScrollStep::Top, reload),
        KeyAction::Bottom => scroll(model, ScrollStep::Bottom, reload),
        KeyAction::Search => model.lay_over(Modal::Search(SearchModal::default())),
        KeyAction::SearchNext | KeyAction::SearchPrevious => {
            search(model, action == KeyAction::SearchNext, reload)
        }
        KeyAction::Copy => copy(model),
        KeyAction::NextIteration | KeyAction::PreviousIteration => {
            jump_to_iteration(model, goes_on, reload)
        }
        KeyAction::NextError | KeyAction::PreviousError => jump_to_error(model, goes_on, reload),
        KeyAction::Fold => fold(model, reload),
        KeyAction::FoldThoughts => fold_thoughts(model),
        KeyAction::Open => open_hook(model),
        KeyAction::RunHook => run_hook(model),
        KeyAction::SwitchHook => switch_hook(model),
        KeyAction::CancelHook => cancel_hook(model),
        KeyAction::HookStats => show_stats(model),
        KeyAction::OpenAttempt => open_attempt(model),
        KeyAction::OpenItem => open_item(model, reload),
        KeyAction::Edit => edit_item(model),
        KeyAction::Skip => skip_item(model),
        KeyAction::Preview => preview(model),
        KeyAction::OpenTask => task::open(model),
        KeyAction::AddTask => task::write_new(model),
        KeyAction::EditTask => task::edit(model),
        KeyAction::StartTask => {
            task::ask_about_chosen(model, |id| TaskCommand::Start { id, context: None })
        }
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
        // Before the first record there is nothing to show.
        KeyAction::StepBack => seek(model, |player| player.shown.saturating_sub(1).max(1)),
        KeyAction::Faster | KeyAction::Slower => {
            change_speed(model, if action == KeyAction::Faster { 1 } else { -1 })
        }
        KeyAction::StepIteration => seek_next(model, "iteration", ReplayPlayer::next_iteration),
        KeyAction::StepError => seek_next(model, "error", ReplayPlayer::next_error),
        // These apply only inside their dialogs, or on the home screen.
        KeyAction::NextChoice
        | KeyAction::PreviousChoice
        | KeyAction::NewerRun
        | KeyAction::OlderRun
        | KeyAction::PreviewItems
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
        | KeyAction::Wrap
        | KeyAction::OpenSession
        | KeyAction::AnswerSession
        | KeyAction::NewSession
        | KeyAction::StopSession
        | KeyAction::ResumeSession
        | KeyAction::FilterSessions
        | KeyAction::RemoveSession
        | KeyAction::RunDemo
        | KeyAction::WriteConfig
        | KeyAction::QuitHome => Vec::new(),
    }
}

/// Shows the gate that waits for the user; in a replay, the gate that was open at that moment.
fn show_gate(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    if let Some(mut gate) = model.later_gate.take() {
        gate.shown_again(model.now, true);
        model.modals.push(Modal::Gate(gate));
    }
    model.open_gate();
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
    Vec::new()
}

/// Asks before it cancels the turn: the agent's work in it may be lost.
fn ask_to_cancel(model: &mut ScreenModel) -> Vec<ScreenRequest> {
    let works = model
        .session
        .as_ref()
        .is_some_and(|state| state.phase.turn_in_flight().is_some());
    if !model.is_live() {
        return Vec::new();
    }
    if works {
        return model.lay_over(Modal::Cancel(Box::new(cancel_question())));
    }
    // The session knows best why there is nothing to cancel.
    vec![ScreenRequest::Command(SessionCommand::CancelTurn)]
}
