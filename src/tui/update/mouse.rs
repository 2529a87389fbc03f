//! The mouse: wheel and clicks.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use super::{
    ScreenRequest,
    modal::on_gate,
    pane::{ScrollStep, scroll},
};
use crate::tui::{
    keymap::KeyAction,
    modals::{Modal, viewer},
    model::ScreenModel,
    stream::RecordLoader,
    view,
};

#[expect(clippy::wildcard_enum_match_arm, reason = "the terminal library's enum grows")]
pub(super) fn on_mouse(model: &mut ScreenModel, mouse: MouseEvent, reload: RecordLoader<'_>) -> Vec<ScreenRequest> {
    let wheel = match mouse.kind {
        MouseEventKind::ScrollUp => Some(KeyAction::Up),
        MouseEventKind::ScrollDown => Some(KeyAction::Down),
        _ => None,
    };
    let page = 3;
    let room = viewer::room(model.size);
    if let Some(action) = wheel {
        for _ in 0..page {
            match model.modals.last_mut() {
                Some(Modal::Viewer(viewer)) => viewer.key(action, room),
                Some(Modal::Help(help)) => help.key(action, 1),
                Some(Modal::Gate(gate)) => gate.wheel(action == KeyAction::Down),
                Some(_) => {}
                None => {
                    if let Some(pane) = view::pane_at(model, mouse.column, mouse.row) {
                        model.focus = pane;
                    }
                    let step = if action == KeyAction::Down { ScrollStep::LineDown } else { ScrollStep::LineUp };
                    scroll(model, step, reload);
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

pub(super) fn click(model: &mut ScreenModel, column: u16, row: u16) -> Vec<ScreenRequest> {
    let now = model.now;
    match model.modals.last_mut() {
        Some(Modal::Gate(gate)) => {
            let asked = gate.click(column, row, now);
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
