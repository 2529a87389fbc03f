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
        tasks::task::{Task, TaskState},
    },
    present::text::plain,
    process::playback_pace::PlaybackMode,
    tui::{
        keymap::{self, KeyAction},
        modals::Modal,
        model::{Pane, ScreenMode, ScreenModel},
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
        Line::styled(text, theme.style(toast.role)).render(area, buffer);
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
    let literal = |key: &str, about: &str| (key.to_owned(), format!(" {about}  "));
    let width = |(key, about): &(String, String)| key.width() + about.width();
    // The keys for leaving and for help are always shown, the others if there is room.
    let (actions, always) = match model.modals.last() {
        // A gate that has just opened accepts no keys for a moment.
        Some(Modal::Gate(gate)) if gate.armed_at > model.now => (Vec::new(), Vec::new()),
        Some(Modal::Palette(_)) => (
            Vec::new(),
            vec![
                literal("enter", "run"),
                literal("↑↓", "move"),
                literal("esc", "close"),
            ],
        ),
        // The gate has the keys of its own.
        Some(Modal::Gate(_)) => (
            Vec::new(),
            vec![hint(KeyAction::Help), hint(KeyAction::Quit)],
        ),
        // These show which keys they accept.
        Some(
            Modal::Viewer(_)
            | Modal::Help(_)
            | Modal::Editor(_)
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
                    hint(KeyAction::Quit),
                ],
            )
        }
        None if model.plays_demo().is_some() => (
            useful(model),
            vec![
                literal("space", "continue the demo"),
                hint(KeyAction::Help),
                hint(KeyAction::Quit),
            ],
        ),
        None => (
            useful(model),
            vec![hint(KeyAction::Help), hint(KeyAction::Quit)],
        ),
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
        spans.push(Span::styled(key, theme.style(ThemeRole::Key)));
        spans.push(Span::styled(about, theme.style(ThemeRole::Text)));
    }
    Line::from(spans).render(area, buffer);
}

/// The words for a key at this moment.
fn words(model: &ScreenModel, action: KeyAction) -> String {
    let paused = || {
        model
            .session
            .as_ref()
            .is_some_and(|state| state.steering.paused)
    };
    if action == KeyAction::Pause && paused() {
        "resume".to_owned()
    } else if action == KeyAction::Play
        && matches!(&model.link.mode, ScreenMode::Replay(player) if player.is_playing())
    {
        "pause".to_owned()
    } else if action == KeyAction::Aside && model.modals.is_empty() {
        "close".to_owned()
    } else {
        keymap::short_words(action)
    }
}

/// The keys that are useful now, most useful first: those of the pane, then those that work
/// everywhere.
pub fn useful(model: &ScreenModel) -> Vec<KeyAction> {
    let asks = model
        .session
        .as_ref()
        .is_some_and(|state| state.gates.open.is_some());
    let paused = model.is_steered()
        && model
            .session
            .as_ref()
            .is_some_and(|state| state.steering.paused);
    let has_card = super::shows_end_card(model);
    let first = [
        (KeyAction::ShowGate, asks),
        (KeyAction::Pause, paused),
        (KeyAction::Aside, has_card),
    ];
    let mut keys: Vec<KeyAction> = first
        .into_iter()
        .filter(|(_, now)| *now)
        .map(|(action, _)| action)
        .collect();
    for action in in_pane(model)
        .into_iter()
        .chain(anywhere(model).iter().copied())
    {
        // The card hides the row that enter would open.
        let is_hidden = has_card && action == KeyAction::Fold;
        if !keys.contains(&action) && !is_hidden {
            keys.push(action);
        }
    }
    keys
}

/// The keys of the focused pane that currently do something.
fn in_pane(model: &ScreenModel) -> Vec<KeyAction> {
    let steered = model.is_steered();
    match model.panes.focus {
        // In a replay, these keys play up to the next iteration or error.
        Pane::Stream if matches!(model.link.mode, ScreenMode::Replay(_)) => vec![KeyAction::Fold],
        Pane::Stream if model.stream.is_empty() => Vec::new(),
        Pane::Stream => {
            let found = model.stream.landmarks;
            let jumps = [
                (KeyAction::NextError, found.errors > 0),
                (KeyAction::NextIteration, found.parts > 1),
            ];
            let jumps = jumps
                .into_iter()
                .filter(|(_, works)| *works)
                .map(|(action, _)| action);
            [KeyAction::Fold].into_iter().chain(jumps).collect()
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
            let steering = [
                (KeyAction::RunHook, runs),
                (KeyAction::SwitchHook, steered),
                (KeyAction::CancelHook, running),
            ];
            let steering = steering
                .into_iter()
                .filter(|(_, works)| *works && steered)
                .map(|(action, _)| action);
            let stats = Some(KeyAction::HookStats).filter(|_| !model.tallies.hooks.is_empty());
            [KeyAction::Open]
                .into_iter()
                .chain(steering)
                .chain(stats)
                .collect()
        }
        Pane::Pending => {
            let items = model
                .session
                .as_ref()
                .map_or(&[][..], |state| state.pending.items());
            let chosen = items.get(model.panes.item).map(|item| item.state);
            let changes =
                steered && matches!(chosen, Some(ItemState::Pending | ItemState::Skipped));
            let open = chosen.map(|_| KeyAction::OpenItem).into_iter();
            let change = [KeyAction::Edit, KeyAction::Skip]
                .into_iter()
                .filter(|_| changes);
            open.chain(change).chain([KeyAction::Preview]).collect()
        }
        Pane::Retries if model.attempts.is_empty() => Vec::new(),
        Pane::Retries => vec![KeyAction::OpenAttempt],
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
    let some = model.graph().is_some_and(|graph| !graph.is_empty());
    let keys = [
        (KeyAction::OpenTask, chosen.is_some()),
        (KeyAction::AddTask, steered),
        (KeyAction::StartTask, open && idle),
        (KeyAction::CompleteTask, open),
        (KeyAction::ReadyTask, open && waits_no_longer),
        (KeyAction::EditTask, steered && chosen.is_some()),
        (KeyAction::DependTask, open && other),
        (KeyAction::FilterTasks, some),
        (KeyAction::TaskTree, some),
        (KeyAction::BlockTask, open),
        (KeyAction::MarkTask, steered && chosen.is_some()),
        (KeyAction::RemoveTask, steered && chosen.is_some()),
    ];
    keys.into_iter()
        .filter(|(_, works)| *works)
        .map(|(action, _)| action)
        .collect()
}

fn waits_for_a_limit(model: &ScreenModel) -> bool {
    model
        .session
        .as_ref()
        .is_some_and(|state| state.limits.hold.is_some())
}

/// The keys outside the pane.
fn anywhere(model: &ScreenModel) -> &'static [KeyAction] {
    match &model.link.mode {
        ScreenMode::Replay(_) => &[
            KeyAction::Play,
            KeyAction::Step,
            KeyAction::StepBack,
            KeyAction::Faster,
            KeyAction::StepIteration,
            KeyAction::StepError,
        ],
        ScreenMode::Live if model.is_steered() && waits_for_a_limit(model) => &[
            KeyAction::RetryNow,
            KeyAction::SwitchAgent,
            KeyAction::Message,
            KeyAction::Pause,
            KeyAction::NextPane,
        ],
        ScreenMode::Live if model.is_steered() => &[
            KeyAction::Message,
            KeyAction::Pause,
            KeyAction::Search,
            KeyAction::NextPane,
            KeyAction::Zoom,
        ],
        ScreenMode::Live => &[KeyAction::NextPane, KeyAction::Search, KeyAction::Zoom],
    }
}
