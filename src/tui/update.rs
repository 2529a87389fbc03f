//! What a key, a click or a tick changes on the screen, and what is asked of the world for it.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;

use super::{
    keymap::{Action, Context},
    modals::{
        Modal,
        editor::{EditorModal, Purpose},
        gate::Asked,
        help::HelpModal,
        palette::PaletteModal,
        quit::QuitModal,
        search::SearchModal,
        viewer::ViewerModal,
    },
    model::{Mode, Model, Pane},
    stream::{Kind, Reload},
    theme::Role,
    view,
};
use crate::engine::{
    event::{Event, StopHow},
    ids::ItemId,
    input::{Command, GateAnswer},
    session::{gate::Choice, pending::ItemState},
};

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
    /// A command was refused.
    Refused(String),
    /// A text was read for the viewer.
    Read(ViewerModal),
    /// The person's own editor was closed.
    Edited(Purpose, Option<String>),
}

/// Something that the screen asks for.
#[derive(Debug, PartialEq)]
pub enum Ask {
    /// Of the session.
    Command(Command),
    /// To leave.
    Leave,
    /// To leave as soon as the session is over.
    LeaveAtTheEnd,
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
        Msg::Key(key) => {
            model.toast = None;
            model.sent.clear();
            on_key(model, key, reload)
        }
        Msg::Mouse(mouse) => on_mouse(model, mouse, reload),
        Msg::Paste(text) => {
            match model.modals.last_mut() {
                Some(Modal::Editor(editor)) => editor.paste(&text),
                Some(Modal::Search(search)) => search.query.push_str(text.lines().next().unwrap_or("")),
                _ => {}
            }
            Vec::new()
        }
        Msg::Resize(width, height) => {
            model.size = (width, height);
            // The terminal has moved or cut what it showed, even if it is as large as before by now.
            vec![Ask::Redraw]
        }
        Msg::Focus(focused) => {
            model.terminal_focused = focused;
            Vec::new()
        }
        Msg::Refused(why) => {
            // What was written is not lost: it comes back with the next message.
            if model.draft.is_empty() {
                model.draft = std::mem::take(&mut model.sent);
            }
            model.say(Role::Warning, why);
            Vec::new()
        }
        Msg::Read(viewer) => {
            model.modals.push(Modal::Viewer(viewer));
            Vec::new()
        }
        Msg::Edited(purpose, text) => match text {
            Some(text) => finish_editing(model, purpose, text),
            None => Vec::new(),
        },
    }
}

fn on_key(model: &mut Model, key: KeyEvent, reload: Reload<'_>) -> Vec<Ask> {
    match model.modals.last() {
        None => on_pane_key(model, key, reload),
        Some(Modal::Gate(_)) => on_gate_key(model, key),
        Some(Modal::Editor(_)) => on_editor_key(model, key),
        Some(Modal::Viewer(_)) => on_viewer_key(model, key),
        Some(Modal::Help(_)) => on_help_key(model, key),
        Some(Modal::Palette(_)) => on_palette_key(model, key, reload),
        Some(Modal::Search(_)) => on_search_key(model, key, reload),
        Some(Modal::Quit(_)) => on_quit_key(model, key),
    }
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
        Pane::Retries | Pane::Tasks => None,
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
        Action::Help => lay_over(model, Modal::Help(HelpModal::default())),
        Action::Palette => lay_over(model, Modal::Palette(PaletteModal::default())),
        Action::NextPane => focus_by(model, 1),
        Action::PreviousPane => focus_by(model, Pane::ALL.len() - 1),
        Action::FocusStream => focus(model, Pane::Stream),
        Action::FocusHooks => focus(model, Pane::Hooks),
        Action::FocusPending => focus(model, Pane::Pending),
        Action::FocusRetries => focus(model, Pane::Retries),
        Action::FocusTasks => focus(model, Pane::Tasks),
        Action::Zoom => {
            model.zoomed = !model.zoomed;
            Vec::new()
        }
        Action::ShowGate => {
            model.gate_aside = false;
            model.look_after_the_gate();
            if !model.modals.iter().any(|modal| matches!(modal, Modal::Gate(_))) {
                model.say(Role::Faint, "no gate waits");
            }
            Vec::new()
        }
        Action::Message => write(model, Purpose::Message),
        Action::MessageNow => write(model, Purpose::MessageNow),
        Action::Pause | Action::Stop | Action::CancelTurn => steer(model, action),
        Action::Redraw => vec![Ask::Redraw],
        Action::Suspend => vec![Ask::Suspend],
        Action::Up | Action::Down | Action::PageUp | Action::PageDown | Action::Top | Action::Bottom => {
            scroll(model, action, reload);
            Vec::new()
        }
        Action::Search => lay_over(model, Modal::Search(SearchModal::default())),
        Action::SearchNext => search(model, true, reload),
        Action::SearchPrevious => search(model, false, reload),
        Action::Copy => copy(model),
        Action::NextIteration
        | Action::PreviousIteration
        | Action::NextError
        | Action::PreviousError
        | Action::Fold
        | Action::FoldThoughts => {
            in_stream(model, action, reload);
            Vec::new()
        }
        Action::Open => open_run(model),
        Action::RunHook => run_hook(model),
        Action::SwitchHook => switch_hook(model),
        Action::CancelHook => cancel_hook(model),
        Action::OpenItem | Action::Edit | Action::Skip | Action::Preview => on_item(model, action, reload),
        Action::Play
        | Action::Step
        | Action::StepBack
        | Action::Faster
        | Action::Slower
        | Action::StepIteration
        | Action::StepError => replay(model, action),
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

fn lay_over(model: &mut Model, what: Modal) -> Vec<Ask> {
    model.modals.push(what);
    Vec::new()
}

fn focus(model: &mut Model, pane: Pane) -> Vec<Ask> {
    // Who comes to the held output comes for what waits, not for what was delivered long ago.
    let items = model.session.as_ref().map_or(&[][..], |state| state.pending.items());
    let gone = items.get(model.chosen_item).is_some_and(|item| item.state == ItemState::Delivered);
    if pane == Pane::Pending && model.focus != pane && gone {
        let waits = items.iter().position(|item| item.state == ItemState::Pending);
        model.chosen_item = waits.unwrap_or(model.chosen_item);
    }
    model.focus = pane;
    Vec::new()
}

fn focus_by(model: &mut Model, by: usize) -> Vec<Ask> {
    let at = Pane::ALL.iter().position(|pane| *pane == model.focus).unwrap_or(0);
    focus(model, Pane::ALL[(at + by) % Pane::ALL.len()])
}

fn is_live(model: &mut Model) -> bool {
    let live = matches!(model.mode, Mode::Live);
    if !live {
        model.say(Role::Faint, "this is a replay: it can be watched, but not steered");
    }
    live
}

fn quit(model: &mut Model) -> Vec<Ask> {
    let over = model.session.as_ref().is_none_or(|state| state.outcome().is_some());
    if over || matches!(model.mode, Mode::Replay(_)) {
        return vec![Ask::Leave];
    }
    lay_over(model, Modal::Quit(QuitModal))
}

fn write(model: &mut Model, purpose: Purpose) -> Vec<Ask> {
    if is_live(model) {
        let editor = EditorModal::new(purpose, &model.draft);
        model.modals.push(Modal::Editor(Box::new(editor)));
    }
    Vec::new()
}

fn steer(model: &mut Model, action: Action) -> Vec<Ask> {
    if !is_live(model) {
        return Vec::new();
    }
    let paused = model.session.as_ref().is_some_and(|state| state.steering.paused);
    let command = match action {
        Action::Pause if paused => Command::Unpause,
        Action::Pause => Command::Pause,
        Action::CancelTurn => Command::CancelTurn,
        _ => Command::Stop(StopHow::AfterIteration),
    };
    vec![Ask::Command(command)]
}

fn scroll(model: &mut Model, action: Action, reload: Reload<'_>) {
    let page = isize::try_from(model.stream_size.1.saturating_sub(1).max(1)).unwrap_or(1);
    let by = match action {
        Action::Up => -1,
        Action::Down => 1,
        Action::PageUp => -page,
        Action::PageDown => page,
        Action::Top => isize::MIN / 2,
        _ => isize::MAX / 2,
    };
    match model.focus {
        Pane::Stream => match action {
            Action::Top => model.stream.to_top(),
            Action::Bottom => model.stream.to_end(),
            _ => model.stream.scroll(by, model.stream_size, &model.theme, reload),
        },
        Pane::Hooks => model.chosen_run = moved(model.chosen_run, by, model.runs.len()),
        Pane::Pending => {
            let count = model.session.as_ref().map_or(0, |state| state.pending.items().len());
            model.chosen_item = moved(model.chosen_item, by, count);
        }
        Pane::Retries => model.skipped_attempts = moved(model.skipped_attempts, by, model.attempts.len()),
        Pane::Tasks => {}
    }
}

fn moved(at: usize, by: isize, count: usize) -> usize {
    at.saturating_add_signed(by).min(count.saturating_sub(1))
}

fn search(model: &mut Model, forward: bool, reload: Reload<'_>) -> Vec<Ask> {
    if model.query.is_empty() {
        model.say(Role::Faint, "nothing was searched for yet");
        return Vec::new();
    }
    let query = model.query.clone();
    let found = match (model.modals.last_mut(), model.focus) {
        (Some(Modal::Viewer(viewer)), _) => viewer.search(&query, forward),
        (_, Pane::Hooks) => search_runs(model, &query, forward),
        (_, Pane::Pending) => search_items(model, &query, forward),
        (_, Pane::Retries) => search_attempts(model, &query, forward),
        (_, Pane::Stream | Pane::Tasks) => {
            model.focus = Pane::Stream;
            model.stream.search(&query, forward, model.stream_size, &model.theme, reload)
        }
    };
    if !found {
        model.say(Role::Warning, format!("not found: {query}"));
    }
    Vec::new()
}

/// The next of `count` things after `from` that fits, going around.
fn next_fit(from: usize, count: usize, forward: bool, fits: impl Fn(usize) -> bool) -> Option<usize> {
    (1..=count)
        .map(|n| if forward { (from + n) % count } else { (from + count - n % count) % count })
        .find(|n| fits(*n))
}

fn search_runs(model: &mut Model, query: &str, forward: bool) -> bool {
    let query = query.to_lowercase();
    let fits = |n| model.runs.nth(n).is_some_and(|run| run.name().to_lowercase().contains(&query));
    let found = next_fit(model.chosen_run, model.runs.len(), forward, fits);
    model.chosen_run = found.unwrap_or(model.chosen_run);
    found.is_some()
}

fn search_attempts(model: &mut Model, query: &str, forward: bool) -> bool {
    let query = query.to_lowercase();
    let newest_first: Vec<String> = model.attempts.iter().rev().map(|attempt| attempt.reason.to_lowercase()).collect();
    let fits = |n: usize| newest_first[n].contains(&query);
    let found = next_fit(model.skipped_attempts, newest_first.len(), forward, fits);
    model.skipped_attempts = found.unwrap_or(model.skipped_attempts);
    found.is_some()
}

fn search_items(model: &mut Model, query: &str, forward: bool) -> bool {
    let query = query.to_lowercase();
    let Some(state) = &model.session else { return false };
    let items = state.pending.items();
    let fits = |n: usize| {
        items[n].text.to_lowercase().contains(&query) || items[n].source.hook.to_lowercase().contains(&query)
    };
    let found = next_fit(model.chosen_item, items.len(), forward, fits);
    model.chosen_item = found.unwrap_or(model.chosen_item);
    found.is_some()
}

fn copy(model: &mut Model) -> Vec<Ask> {
    let text = match model.focus {
        Pane::Stream | Pane::Retries | Pane::Tasks => {
            model.stream_lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        }
        Pane::Hooks => model.runs.nth(model.chosen_run).map(view::run_text).unwrap_or_default(),
        Pane::Pending => chosen_item(model).map(|(_, text)| text).unwrap_or_default(),
    };
    model.say(Role::Good, format!("copied {} bytes", text.len()));
    vec![Ask::Copy(text)]
}

fn in_stream(model: &mut Model, action: Action, reload: Reload<'_>) {
    let (size, theme) = (model.stream_size, &model.theme);
    let iteration = |block: &super::stream::Block| block.kind == Kind::Iteration;
    let error = |block: &super::stream::Block| block.error;
    let stream = &mut model.stream;
    let found = match action {
        Action::NextIteration => stream.jump(true, size, theme, reload, &iteration),
        Action::PreviousIteration => stream.jump(false, size, theme, reload, &iteration),
        Action::NextError => stream.jump(true, size, theme, reload, &error),
        Action::PreviousError => stream.jump(false, size, theme, reload, &error),
        Action::FoldThoughts => {
            stream.fold_thoughts();
            true
        }
        _ => {
            stream.fold(size, theme, reload);
            true
        }
    };
    if !found {
        model.say(Role::Faint, "there is none further");
    }
}

fn open_run(model: &mut Model) -> Vec<Ask> {
    let Some(run) = model.runs.nth(model.chosen_run) else { return Vec::new() };
    let title = format!("run {} · {} · {}", run.run, run.point, run.name());
    let file = run.ended.as_ref().and_then(|finished| finished.file.clone());
    vec![Ask::ReadOutput { title, file, otherwise: view::run_text(run) }]
}

fn switch_hook(model: &mut Model) -> Vec<Ask> {
    if !is_live(model) {
        return Vec::new();
    }
    let (Some(run), Some(state)) = (model.runs.nth(model.chosen_run), &model.session) else { return Vec::new() };
    let on = state.plan().hook(run.point, &run.hook).is_some_and(|spec| state.hooks.is_enabled(run.point, spec));
    let (point, hook) = (Some(run.point), run.hook.clone());
    vec![Ask::Command(if on { Command::DisableHook(point, hook) } else { Command::EnableHook(point, hook) })]
}

fn run_hook(model: &mut Model) -> Vec<Ask> {
    let chosen = model.runs.nth(model.chosen_run).map(|run| (run.point, run.hook.clone()));
    match chosen {
        Some((point, hook)) if is_live(model) => vec![Ask::Command(Command::RunHook(Some(point), hook))],
        Some(_) | None => Vec::new(),
    }
}

fn cancel_hook(model: &mut Model) -> Vec<Ask> {
    let running = model.session.as_ref().and_then(|state| state.running().next());
    match running {
        Some(run) if is_live(model) => vec![Ask::Command(Command::CancelHook(run))],
        Some(_) => Vec::new(),
        None => {
            model.say(Role::Faint, "no hook runs");
            Vec::new()
        }
    }
}

fn chosen_item(model: &Model) -> Option<(ItemId, String)> {
    let items = model.session.as_ref()?.pending.items();
    items.get(model.chosen_item).map(|item| (item.id, item.text.clone()))
}

/// The text of an item that was delivered: only the journal has it still.
fn text_on_disk(model: &Model, id: ItemId, reload: Reload<'_>) -> String {
    let record = model.item_spots.get(&id).and_then(|spot| reload(*spot));
    match record.map(|record| record.event) {
        Some(Event::PendingAdded { text, .. } | Event::PendingEdited { text, .. }) => text,
        Some(_) | None => String::new(),
    }
}

fn on_item(model: &mut Model, action: Action, reload: Reload<'_>) -> Vec<Ask> {
    if action == Action::Preview {
        let text = model.session.as_ref().map(crate::engine::State::preview).unwrap_or_default();
        let about = format!("{} bytes, as it would be sent now; hooks of pre_iteration may add to it", text.len());
        return lay_over(model, Modal::Viewer(ViewerModal::new("the next prompt", &text, about)));
    }
    let Some((id, text)) = chosen_item(model) else {
        model.say(Role::Faint, "nothing is held");
        return Vec::new();
    };
    if action == Action::OpenItem {
        let text = if text.is_empty() { text_on_disk(model, id, reload) } else { text };
        let about = format!("{} bytes", text.len());
        return lay_over(model, Modal::Viewer(ViewerModal::new(format!("item {id}"), &text, about)));
    }
    if !is_live(model) {
        return Vec::new();
    }
    let skipped = model.session.as_ref().and_then(|state| state.pending.get(id)).map(|item| item.state);
    match action {
        Action::Edit => lay_over(model, Modal::Editor(Box::new(EditorModal::new(Purpose::Item(id), &text)))),
        _ if skipped == Some(ItemState::Skipped) => vec![Ask::Command(Command::RestoreItem(id))],
        _ => vec![Ask::Command(Command::SkipItem(id))],
    }
}

fn replay(model: &mut Model, action: Action) -> Vec<Ask> {
    let now = model.now;
    let Mode::Replay(player) = &mut model.mode else { return Vec::new() };
    let target = match action {
        Action::Play => {
            player.toggle(now);
            return Vec::new();
        }
        Action::Faster | Action::Slower => {
            player.change_speed(if action == Action::Faster { 1 } else { -1 }, now);
            return Vec::new();
        }
        Action::Step => player.shown + 1,
        // Before the first record there is nothing to see.
        Action::StepBack => player.shown.saturating_sub(1).max(1),
        Action::StepIteration => player.next_iteration(),
        _ => player.next_error(),
    };
    vec![Ask::Seek(target)]
}

fn on_gate_key(model: &mut Model, key: KeyEvent) -> Vec<Ask> {
    let action = model.keymap.action(key, &[Context::Gate]);
    let elsewhere = model.keymap.action(key, &[Context::Global]);
    let now = model.now;
    let Some(Modal::Gate(gate)) = model.modals.last_mut() else { return Vec::new() };
    let armed = gate.is_armed(now);
    let asked = gate.key(action, now);
    // Looking for help or leaving is possible at a gate, too.
    if armed && action.is_none() && matches!(elsewhere, Some(Action::Quit | Action::Help | Action::Suspend)) {
        return perform(model, elsewhere.unwrap_or(Action::Help), &|_| None);
    }
    on_gate(model, asked)
}

fn on_gate(model: &mut Model, asked: Asked) -> Vec<Ask> {
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
            let editor = EditorModal::new(Purpose::Answer(id), &model.draft);
            lay_over(model, Modal::Editor(Box::new(editor)))
        }
        Asked::Edit(item) => {
            let editor = EditorModal::new(Purpose::Item(item), &item_text(model, item));
            lay_over(model, Modal::Editor(Box::new(editor)))
        }
        Asked::EditOutside(item) => vec![Ask::EditOutside(Purpose::Item(item), item_text(model, item))],
        Asked::Aside => {
            model.modals.pop();
            model.gate_aside = true;
            let key = model.keymap.key(Action::ShowGate);
            model.say(Role::Gate, format!("the gate still waits; {key} shows it"));
            Vec::new()
        }
    }
}

fn on_editor_key(model: &mut Model, key: KeyEvent) -> Vec<Ask> {
    let Some(Modal::Editor(editor)) = model.modals.last_mut() else { return Vec::new() };
    let purpose = editor.purpose;
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Esc => {
            // What was written is kept: a message that was left comes back with the next one.
            if !matches!(purpose, Purpose::Item(_)) {
                model.draft = editor.text();
            }
            model.modals.pop();
            Vec::new()
        }
        KeyCode::Char('s') if control => {
            let text = editor.text();
            model.modals.pop();
            finish_editing(model, purpose, text)
        }
        KeyCode::Char('d') if control => {
            editor.toggle_change();
            Vec::new()
        }
        KeyCode::Char('o') if control => {
            let text = editor.text();
            model.modals.pop();
            vec![Ask::EditOutside(purpose, text)]
        }
        _ => {
            editor.input(key);
            Vec::new()
        }
    }
}

fn finish_editing(model: &mut Model, purpose: Purpose, text: String) -> Vec<Ask> {
    if !matches!(purpose, Purpose::Item(_)) {
        model.draft.clear();
    }
    // With two commands, a refusal would not say of which of them it is.
    if matches!(purpose, Purpose::Message | Purpose::Answer(_)) {
        model.sent.clone_from(&text);
    }
    match purpose {
        Purpose::Message => vec![Ask::Command(Command::Message(text))],
        // First the message, so that it is there when the turn ends.
        Purpose::MessageNow => vec![Ask::Command(Command::Message(text)), Ask::Command(Command::CancelTurn)],
        Purpose::Answer(gate) => {
            let answer = GateAnswer { gate, choice: Choice::Send, text: Some(text), items: None };
            vec![Ask::Command(Command::AnswerGate(answer))]
        }
        Purpose::Item(id) => vec![Ask::Command(Command::EditItem(id, text))],
    }
}

fn on_viewer_key(model: &mut Model, key: KeyEvent) -> Vec<Ask> {
    let page = usize::from(model.size.1.saturating_sub(4).max(1));
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
                viewer.key(action, page);
            }
            Vec::new()
        }
    }
}

fn on_help_key(model: &mut Model, key: KeyEvent) -> Vec<Ask> {
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

fn on_palette_key(model: &mut Model, key: KeyEvent, reload: Reload<'_>) -> Vec<Ask> {
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

fn on_search_key(model: &mut Model, key: KeyEvent, reload: Reload<'_>) -> Vec<Ask> {
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

fn on_quit_key(model: &mut Model, key: KeyEvent) -> Vec<Ask> {
    match key.code {
        KeyCode::Char('y') => {
            model.modals.pop();
            vec![Ask::Command(Command::Stop(StopHow::Now)), Ask::LeaveAtTheEnd]
        }
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

fn on_mouse(model: &mut Model, mouse: MouseEvent, reload: Reload<'_>) -> Vec<Ask> {
    let wheel = match mouse.kind {
        MouseEventKind::ScrollUp => Some(Action::Up),
        MouseEventKind::ScrollDown => Some(Action::Down),
        _ => None,
    };
    let page = 3;
    if let Some(action) = wheel {
        for _ in 0..page {
            match model.modals.last_mut() {
                Some(Modal::Viewer(viewer)) => viewer.key(action, 1),
                Some(Modal::Help(help)) => help.key(action, 1),
                Some(Modal::Gate(gate)) => gate.wheel(action == Action::Down),
                Some(_) => {}
                None => {
                    if let Some(pane) = view::pane_at(model, mouse.column, mouse.row) {
                        model.focus = pane;
                    }
                    scroll(model, action, reload);
                }
            }
        }
        return Vec::new();
    }
    if mouse.kind != MouseEventKind::Down(MouseButton::Left) {
        return Vec::new();
    }
    click(model, mouse.column, mouse.row)
}

fn click(model: &mut Model, column: u16, row: u16) -> Vec<Ask> {
    let now = model.now;
    let area = Rect { x: 0, y: 0, width: model.size.0, height: model.size.1 };
    let buttons = view::gate_buttons(model, area);
    match model.modals.last_mut() {
        Some(Modal::Gate(gate)) => {
            let Some(buttons) = buttons else { return Vec::new() };
            if row != buttons.y || column < buttons.x {
                gate.click_item(column, row, now);
                return Vec::new();
            }
            let asked = gate
                .choice_at(column - buttons.x, buttons.width)
                .map_or(Asked::Nothing, |choice| gate.click(choice, now));
            on_gate(model, asked)
        }
        Some(_) => Vec::new(),
        None => {
            if let Some(pane) = view::pane_at(model, column, row) {
                view::choose_at(model, pane, row);
                model.focus = pane;
            }
            Vec::new()
        }
    }
}
