//! Where everything at a gate goes.
//!
//! Computed before each frame, so that drawing changes nothing and the mouse finds what was drawn.
//!
//! # Invariants
//! - The text never scrolls past its end: the way back would be as long.
//! - Where there is little room, the answers are the last to go, and the chosen one is in sight.

use ratatui::{
    layout::{Constraint, Layout, Rect},
    style::Style,
    text::Line,
    widgets::Block,
};

use super::{
    GateModal, answers,
    columns::{self, AttemptColumn},
    text,
};
use crate::{
    engine::gate::kind::GateKind,
    tui::{modals::middle, model::ScreenModel, text::plain_lines, theme::ThemeRole},
};

/// The areas of a gate, and the texts in them.
#[derive(Debug, Default)]
pub(super) struct GateLayout {
    pub(super) frame: Rect,
    pub(super) head: Rect,
    pub(super) meaning: Rect,
    pub(super) hints: Rect,
    pub(super) reason: Vec<Line<'static>>,
    pub(super) body: GateBody,
    /// How many rows the longest text has.
    pub(super) rows: usize,
    /// How many of them fit.
    pub(super) rows_shown: usize,
    pub(super) list: Rect,
    pub(super) buttons: Vec<ButtonArea>,
}

/// What a gate shows between its reason and its answers.
#[derive(Debug)]
pub(super) enum GateBody {
    Text(TextColumn),
    /// The text of the chosen item; the list of items is beside it.
    Items(TextColumn),
    Attempts(Vec<AttemptColumn>),
}

impl Default for GateBody {
    fn default() -> Self {
        Self::Text(TextColumn::default())
    }
}

#[derive(Debug, Default)]
pub(super) struct TextColumn {
    pub(super) area: Rect,
    pub(super) lines: Vec<Line<'static>>,
}

/// A button that is in sight.
#[derive(Debug)]
pub(super) struct ButtonArea {
    pub(super) index: usize,
    pub(super) text: String,
    pub(super) area: Rect,
}

impl GateLayout {
    /// The button at a place of the screen.
    pub(super) fn button_at(&self, column: u16, row: u16) -> Option<usize> {
        self.buttons.iter().find(|button| button.area.contains((column, row).into())).map(|button| button.index)
    }
}

impl GateModal {
    /// Lays the gate out for the next frame.
    pub fn prepare(&mut self, model: &ScreenModel, area: Rect) {
        self.layout = self.laid_out(model, area);
        let last = self.layout.rows.saturating_sub(self.layout.rows_shown);
        self.scroll = self.scroll.min(last);
    }

    fn laid_out(&self, model: &ScreenModel, area: Rect) -> GateLayout {
        let frame = self.frame(model, area);
        let inside = Block::bordered().inner(frame);
        let width = usize::from(inside.width);
        let reason = self.reason(&model.theme, width);
        let reason_rows = if reason.is_empty() { 0 } else { u16::try_from(reason.len()).unwrap_or(0) + 1 };
        let button_rows = u16::try_from(answers::rows(&self.buttons, width)).unwrap_or(u16::MAX);
        let space = u16::from(inside.height >= 9);
        let button_rows = button_rows.min((inside.height / 3).max(1));
        let left = inside.height.saturating_sub(space + button_rows + 1);
        let rows = Layout::vertical([
            Constraint::Length(reason_rows.min(left.div_ceil(2))),
            Constraint::Min(1),
            Constraint::Length(space),
            Constraint::Length(button_rows),
            Constraint::Length(1),
        ]);
        let [head, body, meaning, buttons, hints] = rows.areas(inside);
        let layout = GateLayout {
            frame,
            head,
            meaning,
            hints,
            reason,
            buttons: self.buttons_in_sight(buttons),
            ..GateLayout::default()
        };
        self.with_body(layout, model, body)
    }

    fn with_body(&self, layout: GateLayout, model: &ScreenModel, area: Rect) -> GateLayout {
        if !self.items.is_empty() {
            let list_width = (area.width / 3).clamp(12, 40).min(area.width);
            let [list, right] = Layout::horizontal([Constraint::Length(list_width), Constraint::Min(1)]).areas(area);
            let pending = model.session.as_ref().map(|state| &state.pending);
            let chosen = self.items.get(self.item).and_then(|(id, _)| pending?.get(*id));
            let style = model.theme.style(ThemeRole::Text);
            let lines = chosen.map(|item| plain_lines(&item.text, style, usize::from(right.width))).unwrap_or_default();
            let (rows, rows_shown) = (lines.len(), usize::from(right.height));
            let body = GateBody::Items(TextColumn { area: right, lines });
            GateLayout { body, rows, rows_shown, list, ..layout }
        } else if self.gate.kind() == GateKind::RetryLimit {
            let attempts = columns::attempt_columns(&model.attempts, &model.theme, area);
            let longest = attempts.iter().map(|column| column.lines.len()).max();
            let rows = longest.map_or(0, |longest| longest + 1);
            let body = GateBody::Attempts(attempts);
            GateLayout { body, rows, rows_shown: usize::from(area.height), ..layout }
        } else {
            let lines = text::lines(&self.gate, self.ask.as_ref(), model, &model.theme, usize::from(area.width));
            let (rows, rows_shown) = (lines.len(), usize::from(area.height));
            GateLayout { body: GateBody::Text(TextColumn { area, lines }), rows, rows_shown, ..layout }
        }
    }

    fn buttons_in_sight(&self, area: Rect) -> Vec<ButtonArea> {
        let placed = answers::placed(&self.buttons, usize::from(area.width));
        let chosen = placed.get(self.choice).map_or(0, |placed| placed.row);
        let height = usize::from(area.height);
        let first = (chosen + 1).saturating_sub(height);
        let cells = |n: usize| u16::try_from(n).unwrap_or(0);
        let in_sight = placed.into_iter().enumerate().filter_map(|(index, button)| {
            let row = button.row.checked_sub(first).filter(|row| *row < height)?;
            let width = cells(Line::raw(button.text.as_str()).width());
            let area = Rect { x: area.x + cells(button.column), y: area.y + cells(row), width, height: 1 };
            Some(ButtonArea { index, text: button.text, area })
        });
        in_sight.collect()
    }

    /// The gate's area: as large as its content, within the screen.
    fn frame(&self, model: &ScreenModel, area: Rect) -> Rect {
        let width = area.width * 9 / 10;
        let inside = usize::from(width.saturating_sub(2)).max(1);
        let plain = |text: &str, width: usize| plain_lines(text, Style::default(), width.max(1)).len();
        let body = if !self.items.is_empty() {
            let pending = model.session.as_ref().map(|state| &state.pending);
            let texts = self.items.iter().filter_map(|(id, _)| pending.and_then(|pending| pending.get(*id)));
            let longest = texts.map(|item| plain(&item.text, inside * 2 / 3)).max().unwrap_or(0);
            longest.max(self.items.len())
        } else if self.gate.kind() == GateKind::RetryLimit {
            let columns = columns::attempts_shown(&model.attempts, width).max(1);
            model.attempts.iter().map(|attempt| plain(&attempt.feedback, inside / columns)).max().unwrap_or(0) + 1
        } else {
            text::lines(&self.gate, self.ask.as_ref(), model, &model.theme, inside).len()
        };
        let height = self.reason(&model.theme, inside).len() + body + answers::rows(&self.buttons, inside) + 6;
        middle(area, width, u16::try_from(height).unwrap_or(u16::MAX).clamp(12, (area.height * 9 / 10).max(12)))
    }
}
