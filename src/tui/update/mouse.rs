//! The mouse: the wheel, panes, rows and buttons.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;

use super::{Ask, modal::on_gate, pane::scroll};
use crate::tui::{
    keymap::Action,
    modals::{Modal, gate::Asked},
    model::Model,
    stream::Reload,
    view,
};

pub(super) fn on_mouse(model: &mut Model, mouse: MouseEvent, reload: Reload<'_>) -> Vec<Ask> {
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

pub(super) fn click(model: &mut Model, column: u16, row: u16) -> Vec<Ask> {
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
