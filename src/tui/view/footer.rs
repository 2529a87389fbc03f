//! The last line: a message to the user, or the keys that currently do something.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::{Clear, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    engine::{
        SessionState,
        pending::ItemState,
        tasks::graph::{Task, TaskState},
    },
    present::text::plain,
    process::playback_pace::PlaybackMode,
    tui::{
        keymap::{
            self, GateKey, GlobalKey, HookKey, KeyAction, PendingKey, ReplayKey, RetryKey,
            ScrollKey, StreamKey, TaskKey,
        },
        modals::Modal,
        model::{Pane, ScreenMode, ScreenModel},
        panes::{self, PendingRow},
        text::fit,
        theme::{ScreenTheme, ThemeRole},
    },
};

/// The message to the user, if there is one.
pub(super) fn draw_toast(
    model: &ScreenModel,
    theme: &ScreenTheme,
    area: Rect,
    buffer: &mut Buffer,
) {
    if let Some(toast) = &model.toast {
        let text = fit(&format!(" {}", plain(&toast.text)), usize::from(area.width));
        Clear.render(area, buffer);
        buffer.set_style(area, theme.style(ThemeRole::Text));
        theme.line(toast.role, text).render(area, buffer);
    }
}

pub(super) fn draw(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    if model.toast.is_some() {
        draw_toast(model, theme, area, buffer);
        return;
    }
    let hint = |action: KeyAction| {
        (
            model.look.keymap.key(action),
            format!(" {}  ", words(model, action)),
        )
    };
    let [help, quit] = [GlobalKey::Help, GlobalKey::Quit].map(|key| hint(key.into()));
    let literal = |key: &str, about: &str| (key.to_owned(), format!(" {about}  "));
    let width = |(key, about): &(String, String)| key.width() + about.width();
    // The keys for leaving and for help are always shown, the others if there is room.
    let (actions, always) = match model.modals.last() {
        // A gate that has just opened accepts no keys for a moment.
        Some(Modal::Gate(gate)) if gate.armed_at > model.now => (Vec::new(), Vec::new()),
        Some(Modal::Palette(palette)) => (
            Vec::new(),
            vec![
                literal(
                    "enter",
                    if palette.lists_models() {
                        "choose"
                    } else {
                        "run"
                    },
                ),
                literal("↑↓", "move"),
                literal("esc", "close"),
            ],
        ),
        // The gate has the keys of its own.
        Some(Modal::Gate(_)) => (Vec::new(), vec![help, quit]),
        // These show which keys they accept.
        Some(
            Modal::Viewer(_)
            | Modal::Diff(_)
            | Modal::Help(_)
            | Modal::Editor(_)
            | Modal::TaskForm(_)
            | Modal::Search(_)
            | Modal::Quit(_)
            | Modal::Remove(_)
            | Modal::Cancel(_),
        ) => (Vec::new(), Vec::new()),
        None if model
            .plays_demo()
            .is_some_and(|pace| pace.mode == PlaybackMode::Play) =>
        {
            (
                Vec::new(),
                vec![
                    literal("space", "pause"),
                    literal("any key", "skip ahead"),
                    quit,
                ],
            )
        }
        None if model.plays_demo().is_some() => (
            useful(model),
            vec![literal("space", "continue the demo"), help, quit],
        ),
        None => (useful(model), vec![help, quit]),
    };
    let mut left =
        usize::from(area.width).saturating_sub(1 + always.iter().map(width).sum::<usize>());
    let mut hints = Vec::new();
    for hint in actions
        .into_iter()
        .map(hint)
        .filter(|(key, _)| !key.is_empty())
    {
        // A shorter one after it may still have room.
        if let Some(rest) = left.checked_sub(width(&hint)) {
            left = rest;
            hints.push(hint);
        }
    }
    hints.extend(always);
    let mut spans = vec![Span::raw(" ")];
    for (key, about) in hints {
        spans.push(theme.span(ThemeRole::Key, key));
        spans.push(theme.span(ThemeRole::Text, about));
    }
    Line::from(spans).render(area, buffer);
}

/// The words for a key at this moment.
fn words(model: &ScreenModel, action: KeyAction) -> String {
    let plays = matches!(&model.link.mode, ScreenMode::Replay(player) if player.is_playing());
    let unusual = [
        (
            KeyAction::from(GlobalKey::Pause),
            is_paused(model),
            "resume",
        ),
        (ReplayKey::Play.into(), plays, "pause"),
        (GateKey::Later.into(), model.modals.is_empty(), "close"),
        (
            GlobalKey::ShowGate.into(),
            matches!(model.link.mode, ScreenMode::Replay(_)),
            "show the gate",
        ),
    ];
    let found = unusual
        .into_iter()
        .find(|(known, now, _)| *known == action && *now);
    found.map_or_else(
        || keymap::short_words(action),
        |(_, _, words)| words.to_owned(),
    )
}

fn is_paused(model: &ScreenModel) -> bool {
    model
        .session
        .as_ref()
        .is_some_and(|state| state.steering.paused)
}

/// Those of the keys that do something now.
fn working<K: Into<KeyAction>>(keys: impl IntoIterator<Item = (K, bool)>) -> Vec<KeyAction> {
    keys.into_iter()
        .filter(|(_, works)| *works)
        .map(|(key, _)| key.into())
        .collect()
}

/// The keys that are useful now, most useful first: those of the pane, then those that work
/// everywhere.
pub fn useful(model: &ScreenModel) -> Vec<KeyAction> {
    let has_gate = model
        .session
        .as_ref()
        .is_some_and(|state| state.gates.open.is_some());
    let has_card = super::shows_end_card(model);
    let mut keys = working([
        (KeyAction::from(GlobalKey::ShowGate), has_gate),
        (
            GlobalKey::Pause.into(),
            model.is_steered() && is_paused(model),
        ),
        (GateKey::Later.into(), has_card),
    ]);
    for action in in_pane(model, model.panes.focus)
        .into_iter()
        .chain(anywhere(model))
    {
        // The card hides the row that enter would open.
        let is_hidden = has_card && action == StreamKey::Fold.into();
        if !keys.contains(&action) && !is_hidden {
            keys.push(action);
        }
    }
    keys
}

/// The keys of a pane that currently do something.
pub(super) fn in_pane(model: &ScreenModel, pane: Pane) -> Vec<KeyAction> {
    let steered = model.is_steered();
    match pane {
        // In a replay, these keys play up to the next iteration or error.
        Pane::Stream if matches!(model.link.mode, ScreenMode::Replay(_)) => {
            vec![StreamKey::Fold.into()]
        }
        Pane::Stream if model.stream.is_empty() => Vec::new(),
        Pane::Stream => {
            let found = model.stream.landmarks;
            working([
                (StreamKey::Fold, true),
                (StreamKey::NextError, found.errors > 0),
                (StreamKey::NextIteration, found.parts > 1),
            ])
        }
        Pane::Hooks if model.hook_rows().is_empty() => Vec::new(),
        Pane::Hooks => {
            let row = model.hook_rows().nth(model.panes.hook);
            let running = row.is_some_and(|row| row.running().is_some());
            let chosen = row.map(|row| row.hook());
            let by_hand = |state: &SessionState| {
                chosen
                    .as_ref()
                    .is_some_and(|hook| state.commands().runs_by_hand(hook))
            };
            let runs = model.session.as_ref().is_some_and(by_hand);
            working([
                (HookKey::Open, true),
                (HookKey::Run, runs && steered),
                (HookKey::Switch, steered),
                (HookKey::Cancel, running && steered),
                (HookKey::Stats, !model.tallies.hooks.is_empty()),
            ])
        }
        Pane::Pending => {
            let items = model
                .session
                .as_ref()
                .map_or(&[][..], |state| state.pending.items());
            let row = panes::pending_row(model);
            let folds = matches!(row, Some(PendingRow::Delivered(_)));
            let chosen = match row {
                Some(PendingRow::Item(n)) => items.get(n).map(|item| item.state),
                Some(PendingRow::Delivered(_)) | None => None,
            };
            let changes =
                steered && matches!(chosen, Some(ItemState::Pending | ItemState::Skipped));
            working([
                (PendingKey::Open, chosen.is_some() || folds),
                (PendingKey::Edit, changes),
                (PendingKey::Skip, changes),
                (PendingKey::Preview, true),
            ])
        }
        Pane::Retries => working([(RetryKey::Open, !model.attempts.is_empty())]),
        Pane::Tasks => on_tasks(model),
    }
}

/// The keys that do something with the selected task, or with all tasks.
fn on_tasks(model: &ScreenModel) -> Vec<KeyAction> {
    let steered = model.is_steered();
    let chosen = model.chosen_task();
    let open = steered && chosen.is_some_and(Task::is_open);
    let idle =
        chosen.is_some_and(|task| task.open_dependencies() == 0 && task.state != TaskState::Active);
    let waits_no_longer = idle && chosen.is_some_and(|task| task.state != TaskState::Ready);
    let other = model
        .marked_task()
        .is_some_and(|marked| chosen.is_some_and(|task| task.id != marked.id));
    let some = model.has_tasks();
    working([
        (TaskKey::Open, chosen.is_some()),
        (TaskKey::Add, steered),
        (TaskKey::Start, open && idle),
        (TaskKey::Complete, open),
        (TaskKey::Ready, open && waits_no_longer),
        (TaskKey::Edit, steered && chosen.is_some()),
        (TaskKey::Depend, open && other),
        (TaskKey::Filter, some),
        (TaskKey::Tree, some),
        (TaskKey::Block, open),
        (TaskKey::Mark, steered && chosen.is_some()),
        (TaskKey::Remove, steered && chosen.is_some()),
    ])
}

/// The keys outside the pane.
fn anywhere(model: &ScreenModel) -> Vec<KeyAction> {
    let waits_for_a_limit = model
        .session
        .as_ref()
        .is_some_and(|state| state.limits.hold.is_some());
    let search = KeyAction::from(ScrollKey::Search);
    let changes = model
        .changes
        .has_some()
        .then_some(KeyAction::from(GlobalKey::Diff));
    match &model.link.mode {
        ScreenMode::Replay(_) => [
            ReplayKey::Play,
            ReplayKey::Step,
            ReplayKey::StepBack,
            ReplayKey::Faster,
            ReplayKey::StepIteration,
            ReplayKey::StepError,
        ]
        .map(KeyAction::Replay)
        .into_iter()
        .chain(changes)
        .collect(),
        ScreenMode::Live if model.is_steered() && waits_for_a_limit => [
            GlobalKey::RetryNow,
            GlobalKey::SwitchAgent,
            GlobalKey::Message,
            GlobalKey::Pause,
            GlobalKey::NextPane,
        ]
        .map(KeyAction::Global)
        .into(),
        ScreenMode::Live if model.is_steered() => {
            [GlobalKey::Message.into(), GlobalKey::Pause.into()]
                .into_iter()
                .chain(changes)
                .chain([search, GlobalKey::NextPane.into(), GlobalKey::Zoom.into()])
                .collect()
        }
        ScreenMode::Live => changes
            .into_iter()
            .chain([GlobalKey::NextPane.into(), search, GlobalKey::Zoom.into()])
            .collect(),
    }
}
