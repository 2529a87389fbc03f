//! The mouse: wheel and clicks.

use crossterm::event::{KeyCode, KeyEvent, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;

use super::{
    modal::{answer_leave, answer_question, on_gate},
    on_key,
    pane::{on_stream, open_row, wheel},
    perform,
};
use crate::tui::{
    keymap::{HookKey, PendingKey, RetryKey, ScrollKey, TaskKey},
    modals::{Modal, viewer},
    model::{Pane, ScreenModel},
    panes::ClickedRow,
    request::ScreenRequest,
    stream::RecordLoader,
    view,
};

/// How many rows one step of the wheel moves.
const WHEEL: usize = 3;

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the terminal library's enum grows"
)]
pub(super) fn on_mouse(model: &mut ScreenModel, mouse: MouseEvent, reload: RecordLoader<'_>) {
    match mouse.kind {
        MouseEventKind::ScrollUp => on_wheel(model, mouse, false, reload),
        MouseEventKind::ScrollDown => on_wheel(model, mouse, true, reload),
        MouseEventKind::Down(MouseButton::Left) => {
            click(model, mouse.column, mouse.row, reload);
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
    if let Some(key) = view::key_at(model, column, row) {
        model.toast = None;
        return on_key(model, key, reload);
    }
    let area = Rect {
        x: 0,
        y: 0,
        width: model.size.0,
        height: model.size.1,
    };
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
