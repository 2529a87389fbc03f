//! The panes, one file each.

pub mod hooks;
pub mod pending;
pub mod retries;
pub mod stream;
pub mod tasks;

use ratatui::{
    layout::Rect,
    text::{Line, Span},
};

use unicode_width::UnicodeWidthStr as _;

use super::{
    keymap::KeyAction,
    model::{Pane, ScreenModel},
    text::fit,
    theme::{ScreenTheme, ThemeRole},
    view::facts,
};
use crate::{engine::pending::ItemState, present::text::counted};

/// The most important number of a pane.
pub fn count(model: &ScreenModel, pane: Pane) -> String {
    let state = model.session.as_ref();
    match pane {
        Pane::Stream => String::new(),
        Pane::Hooks => facts::hooks(model).unwrap_or_default(),
        Pane::Pending => state
            .map(|state| facts::pending(state).to_string())
            .unwrap_or_default(),
        Pane::Retries => state.and_then(facts::retries).unwrap_or_default(),
        Pane::Tasks => facts::tasks(model).unwrap_or_default(),
    }
}

/// The same with a few words, for its frame.
pub fn count_in_words(model: &ScreenModel, pane: Pane) -> String {
    match pane {
        Pane::Pending if model.session.is_some() => pending_words(model),
        Pane::Tasks => tasks::count(model),
        Pane::Retries => model
            .session
            .as_ref()
            .and_then(facts::retries_in_words)
            .unwrap_or_default(),
        Pane::Stream | Pane::Hooks | Pane::Pending => count(model, pane),
    }
}

/// How many rows a pane needs for its content. 0 if it has none.
pub fn wanted(model: &ScreenModel, pane: Pane) -> usize {
    match pane {
        Pane::Stream => usize::MAX,
        Pane::Hooks => hooks::wanted(model),
        Pane::Pending => model
            .session
            .as_ref()
            .map_or(0, |state| state.pending.items().len()),
        Pane::Retries => retries::wanted(model),
        Pane::Tasks => model.task_rows().map_or(0, |rows| {
            if model.has_tasks() {
                rows.len().max(1)
            } else {
                0
            }
        }),
    }
}

/// What would be in a pane without content, and how it gets there, as far as a width has room for
/// it.
pub fn empty(model: &ScreenModel, pane: Pane, width: usize) -> String {
    let dots = || model.session.as_ref().and_then(facts::retries);
    let texts = match pane {
        Pane::Stream => [
            "Nothing has happened yet".to_owned(),
            "Nothing yet".to_owned(),
        ],
        Pane::Hooks => [
            "No hooks. Add some under `hooks:` in creel.yaml".to_owned(),
            "No hooks. Add some under `hooks:`".to_owned(),
        ],
        Pane::Pending => [
            "Nothing to send. Hooks with `pipe_output: true` add items".to_owned(),
            "Nothing: no hook has piped output".to_owned(),
        ],
        Pane::Retries => match dots() {
            Some(dots) => [
                format!("{dots}  None in this iteration. A stop hook that blocks uses one"),
                format!("{dots}  None in this iteration"),
            ],
            None => ["Off (max_hook_retries: 0)".to_owned(), "Off".to_owned()],
        },
        Pane::Tasks if model.is_steered() => {
            let key = model.keymap.key(KeyAction::AddTask);
            [
                format!("No tasks. Press {key} to add one"),
                format!("None. {key} adds one"),
            ]
        }
        Pane::Tasks => ["No tasks".to_owned(), "None".to_owned()],
    };
    let [long, short] = texts;
    if long.width() <= width {
        long
    } else {
        fit(&short, width)
    }
}

/// The row with the cursor in front of it, if it is selected. In the focused pane the whole row
/// stands out.
pub(super) fn with_cursor(
    spans: Vec<Span<'static>>,
    selected: bool,
    focused: bool,
    theme: &ScreenTheme,
) -> Line<'static> {
    let sign = if selected { "▌ " } else { "  " };
    let role = if focused {
        ThemeRole::BorderFocused
    } else {
        ThemeRole::Border
    };
    let mut line = Line::from(vec![Span::styled(sign, theme.style(role))]);
    line.spans.extend(spans);
    if selected && focused {
        line.patch_style(theme.style(ThemeRole::Selected))
    } else {
        line
    }
}

/// The first visible row of a list, so that the selected one is visible.
pub(super) fn first_row(chosen: usize, area: Rect) -> usize {
    (chosen + 1).saturating_sub(usize::from(area.height))
}

/// The number of pending items, and of items that the agent works with.
fn pending_words(model: &ScreenModel) -> String {
    let Some(state) = &model.session else {
        return String::new();
    };
    let with_agent = state
        .pending
        .items()
        .iter()
        .filter(|item| item.state == ItemState::InFlight)
        .count();
    let held = counted(state.pending.waiting().count(), "item");
    if with_agent == 0 {
        held
    } else {
        format!("{held}, {with_agent} with the agent")
    }
}
