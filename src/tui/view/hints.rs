//! The last line: a word to the person, or the keys that do something here and now.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::Widget as _,
};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    engine::{
        State,
        session::pending::ItemState,
        tasks::task::{Task, TaskState},
    },
    present::text::plain,
    tui::{
        keymap::{self, Action},
        model::{Mode, Model, Pane},
        text::fit,
        theme::{Role, Theme},
    },
};

/// Draws the line.
pub(super) fn draw(model: &Model, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    if let Some(toast) = &model.toast {
        let text = fit(&format!(" {}", plain(&toast.text)), usize::from(area.width));
        Line::styled(text, theme.style(toast.role)).render(area, buffer);
        return;
    }
    let hint = |action: Action| (model.keymap.key(action), format!(" {}  ", keymap::name(action)));
    let width = |(key, about): &(String, String)| key.width() + about.width();
    // The way out and the way to all other keys are always there; the rest as far as there is room.
    let always = [hint(Action::Quit), hint(Action::Help)];
    let mut left = usize::from(area.width).saturating_sub(1 + always.iter().map(width).sum::<usize>());
    let mut hints = Vec::new();
    for action in in_pane(model).into_iter().chain(anywhere(model).iter().copied()) {
        let hint = hint(action);
        let Some(rest) = left.checked_sub(width(&hint)) else { break };
        left = rest;
        hints.push(hint);
    }
    hints.extend(always);
    let mut spans = vec![Span::raw(" ")];
    for (key, about) in hints {
        spans.push(Span::styled(key, theme.style(Role::Key)));
        spans.push(Span::styled(about, theme.style(Role::Faint)));
    }
    Line::from(spans).render(area, buffer);
}

/// What the keys of the pane do, as far as they do something now.
fn in_pane(model: &Model) -> Vec<Action> {
    let steered = model.is_steered();
    match model.focus {
        // In a replay, the keys for the next iteration and error play up to them.
        Pane::Stream if matches!(model.mode, Mode::Replay(_)) => vec![Action::Fold],
        Pane::Stream => vec![Action::Fold, Action::NextIteration, Action::NextError],
        Pane::Hooks if model.hook_rows().is_empty() => Vec::new(),
        Pane::Hooks => {
            let running = model.session.as_ref().is_some_and(|state| state.running().next().is_some());
            let chosen = model.hook_rows().nth(model.chosen_hook).map(|row| row.hook());
            let by_hand = |state: &State| chosen.as_ref().is_some_and(|hook| state.runs_by_hand(hook));
            let runs = model.session.as_ref().is_some_and(by_hand);
            let steering = [(Action::RunHook, runs), (Action::SwitchHook, steered), (Action::CancelHook, running)];
            let steering = steering.into_iter().filter(|(_, works)| *works && steered).map(|(action, _)| action);
            let stats = Some(Action::HookStats).filter(|_| !model.tallies.is_empty());
            [Action::Open].into_iter().chain(steering).chain(stats).collect()
        }
        Pane::Pending => {
            let items = model.session.as_ref().map_or(&[][..], |state| state.pending.items());
            let chosen = items.get(model.chosen_item).map(|item| item.state);
            let changes = steered && matches!(chosen, Some(ItemState::Pending | ItemState::Skipped));
            let open = chosen.map(|_| Action::OpenItem).into_iter();
            let change = [Action::Edit, Action::Skip].into_iter().filter(|_| changes);
            open.chain(change).chain([Action::Preview]).collect()
        }
        Pane::Retries => Vec::new(),
        Pane::Tasks => on_tasks(model),
    }
}

/// What can be done with the chosen task, and with all of them.
fn on_tasks(model: &Model) -> Vec<Action> {
    let steered = model.is_steered();
    let chosen = model.chosen_task();
    let open = steered && chosen.is_some_and(Task::is_open);
    let idle = chosen.is_some_and(|task| task.open_dependencies() == 0 && task.state != TaskState::Active);
    let waits_no_longer = idle && chosen.is_some_and(|task| task.state != TaskState::Ready);
    let other = model.marked_task().is_some_and(|marked| chosen.is_some_and(|task| task.id != marked.id));
    let some = model.graph().is_some_and(|graph| !graph.is_empty());
    let keys = [
        (Action::OpenTask, chosen.is_some()),
        (Action::AddTask, steered),
        (Action::StartTask, open && idle),
        (Action::CompleteTask, open),
        (Action::ReadyTask, open && waits_no_longer),
        (Action::EditTask, steered && chosen.is_some()),
        (Action::DependTask, open && other),
        (Action::FilterTasks, some),
        (Action::TaskTree, some),
        (Action::BlockTask, open),
        (Action::MarkTask, steered && chosen.is_some()),
        (Action::RemoveTask, steered && chosen.is_some()),
    ];
    keys.into_iter().filter(|(_, works)| *works).map(|(action, _)| action).collect()
}

fn waits_for_a_limit(model: &Model) -> bool {
    model.session.as_ref().is_some_and(|state| state.limits.hold.is_some())
}

/// What other keys do.
fn anywhere(model: &Model) -> &'static [Action] {
    match &model.mode {
        Mode::Replay(_) => {
            &[Action::Play, Action::Step, Action::StepBack, Action::Faster, Action::StepIteration, Action::StepError]
        }
        Mode::Live if model.is_steered() && waits_for_a_limit(model) => {
            &[Action::RetryNow, Action::SwitchAgent, Action::Message, Action::Pause, Action::NextPane]
        }
        Mode::Live if model.is_steered() => {
            &[Action::Message, Action::Pause, Action::NextPane, Action::Search, Action::Zoom]
        }
        Mode::Live => &[Action::NextPane, Action::Search, Action::Zoom],
    }
}
