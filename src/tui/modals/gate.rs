//! The gate: a dialog that the user cannot miss, and cannot answer by accident.
//!
//! Owns the selection and the layout. The buttons are in [`answers`]; the content is in [`text`] and [`columns`].
//!
//! # Invariants
//! - A gate accepts no answer for a moment after it appears, and every key in that moment extends it.
//! - Selecting and confirming an answer are two steps; aborting the session asks once more.
//! - A gate in a replay is read-only.

mod answers;
mod columns;
mod text;

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::Line,
    widgets::{Paragraph, Widget as _},
};

use super::{first_that_fits, framed, keys_that_fit, middle};
use crate::{
    engine::{
        SessionState,
        conversation::AgentPermissionRequest,
        ids::ItemId,
        input::GateAnswer,
        session::{
            gate::{Gate, GateChoice, GateKind},
            pending::{ItemState, PendingItems},
        },
        time::{TimeSpan as Time, UnixTime},
    },
    tui::{
        keymap::KeyAction,
        model::ScreenModel,
        text::{fit, plain_lines},
        theme::{ScreenTheme, ThemeRole},
    },
};
use answers::AnswerButton;

/// How long a gate accepts no answer after it appears.
const GUARD: Time = Time(600);
/// How many lines of the reason are shown.
const REASON: usize = 4;

#[derive(Debug)]
pub struct GateModal {
    pub gate: Gate,
    /// The agent's permission request that the gate is about.
    ask: Option<AgentPermissionRequest>,
    buttons: Vec<AnswerButton>,
    standing: GateAvailability,
    /// When it begins to accept answers.
    pub armed_at: UnixTime,
    /// The selected answer.
    choice: usize,
    items: Vec<(ItemId, ItemMark)>,
    /// The selected item.
    item: usize,
    /// The first visible row of the text.
    scroll: usize,
    /// How many rows of text there are, and how many of them are visible.
    rows: (usize, usize),
    /// Where the items were drawn, for the mouse.
    list: Rect,
    /// Where the answers were drawn, for the mouse.
    spots: Vec<(usize, Rect)>,
    /// Whether the user has confirmed an abort once.
    sure: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GateAvailability {
    /// It waits for an answer.
    Waits,
    /// It is part of a replay.
    Past,
}

/// What the answer does with an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemMark {
    /// Sent to the agent.
    Approved,
    /// Not sent, by this answer.
    LeftOut,
    /// Was already skipped before.
    Skipped,
}

/// What follows from a key at a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateKeyResult {
    /// Nothing outside the dialog.
    Nothing,
    Answer(GateAnswer),
    /// Open an editor for a message, which is the answer.
    Write,
    Edit(ItemId),
    /// Edit an item in the user's editor.
    EditOutside(ItemId),
    /// Deliver an item that was skipped.
    Restore(ItemId),
    /// Not possible in a replay.
    TooLate,
    /// Close the gate without an answer, for later.
    Aside,
}

impl GateModal {
    pub fn open(gate: Gate, state: &SessionState, now: UnixTime) -> Self {
        Self { armed_at: now.after(GUARD), ..Self::with(gate, state, GateAvailability::Waits) }
    }

    /// A gate in a replay.
    pub fn past(gate: Gate, state: &SessionState) -> Self {
        Self::with(gate, state, GateAvailability::Past)
    }

    fn with(gate: Gate, state: &SessionState, standing: GateAvailability) -> Self {
        let items = gate.items.iter().filter_map(|id| Some((*id, state.pending.get(*id)?.state)));
        let marked = |(id, state)| match state {
            ItemState::Pending => Some((id, ItemMark::Approved)),
            ItemState::Skipped => Some((id, ItemMark::Skipped)),
            ItemState::InFlight | ItemState::Delivered => None,
        };
        let items = items.filter_map(marked).collect();
        let ask = state.asked_at(&gate).cloned();
        let buttons = answers::buttons(&gate, ask.as_ref());
        let choice = answers::first(&buttons);
        Self {
            gate,
            ask,
            buttons,
            standing,
            armed_at: UnixTime(0),
            choice,
            items,
            item: 0,
            scroll: 0,
            rows: (0, 0),
            list: Rect::ZERO,
            spots: Vec::new(),
            sure: false,
        }
    }

    /// Updates the marks: items can be skipped and restored elsewhere.
    pub fn look_at(&mut self, pending: &PendingItems) {
        for (id, mark) in &mut self.items {
            let skipped = pending.get(*id).is_some_and(|item| item.state == ItemState::Skipped);
            *mark = match (skipped, *mark) {
                (true, _) => ItemMark::Skipped,
                (false, ItemMark::Skipped | ItemMark::Approved) => ItemMark::Approved,
                (false, ItemMark::LeftOut) => ItemMark::LeftOut,
            };
        }
    }

    /// The gate is visible again, with its selections. As before, it accepts no answer for a moment.
    pub fn shown_again(&mut self, now: UnixTime) {
        self.armed_at = now.after(GUARD);
        self.sure = false;
    }

    /// Whether it accepts answers by now.
    pub fn is_armed(&self, now: UnixTime) -> bool {
        now >= self.armed_at
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "an action without a meaning here does nothing")]
    pub fn key(&mut self, action: Option<KeyAction>, now: UnixTime) -> GateKeyResult {
        if !self.is_armed(now) {
            self.armed_at = now.after(GUARD);
            return GateKeyResult::Nothing;
        }
        let Some(action) = action else { return GateKeyResult::Nothing };
        if action != KeyAction::Answer {
            self.sure = false;
        }
        let choices = self.buttons.len().max(1);
        match action {
            KeyAction::NextChoice => self.choice = (self.choice + 1) % choices,
            KeyAction::PreviousChoice => self.choice = (self.choice + choices - 1) % choices,
            KeyAction::ItemDown | KeyAction::ItemUp => self.step(action == KeyAction::ItemDown),
            KeyAction::ToggleItem | KeyAction::EditItem | KeyAction::EditOutside => return self.on_item(action),
            KeyAction::TextDown => self.scroll += 5,
            KeyAction::TextUp => self.scroll = self.scroll.saturating_sub(5),
            KeyAction::Aside => return GateKeyResult::Aside,
            KeyAction::Answer => return self.answer(),
            _ => {}
        }
        GateKeyResult::Nothing
    }

    /// Moves to the next item; without items, to the next line.
    fn step(&mut self, down: bool) {
        let items = self.items.len();
        if items == 0 {
            return self.wheel(down);
        }
        let by = if down { 1 } else { items - 1 };
        (self.item, self.scroll) = ((self.item + by) % items, 0);
    }

    fn on_item(&mut self, action: KeyAction) -> GateKeyResult {
        let Some((id, mark)) = self.items.get_mut(self.item) else { return GateKeyResult::Nothing };
        match (self.standing, action) {
            (GateAvailability::Past, _) => GateKeyResult::TooLate,
            (GateAvailability::Waits, KeyAction::EditItem) => GateKeyResult::Edit(*id),
            (GateAvailability::Waits, KeyAction::EditOutside) => GateKeyResult::EditOutside(*id),
            (GateAvailability::Waits, _) => {
                *mark = match mark {
                    ItemMark::Approved => ItemMark::LeftOut,
                    ItemMark::LeftOut => ItemMark::Approved,
                    ItemMark::Skipped => return GateKeyResult::Restore(*id),
                };
                GateKeyResult::Nothing
            }
        }
    }

    fn answer(&mut self) -> GateKeyResult {
        if self.standing == GateAvailability::Past {
            return GateKeyResult::TooLate;
        }
        let Some(AnswerButton { choice, option, .. }) = self.buttons.get(self.choice).cloned() else {
            return GateKeyResult::Nothing;
        };
        if matches!(choice, GateChoice::Send | GateChoice::Message) {
            return GateKeyResult::Write;
        }
        if choice == GateChoice::Abort && !self.sure {
            self.sure = true;
            return GateKeyResult::Nothing;
        }
        let marked = |wanted: ItemMark| self.items.iter().filter(move |(_, mark)| *mark == wanted).map(|(id, _)| *id);
        let approved: Vec<ItemId> = marked(ItemMark::Approved).collect();
        let some = choice == GateChoice::Approve && marked(ItemMark::LeftOut).next().is_some();
        GateKeyResult::Answer(GateAnswer { gate: self.gate.id, choice, text: option, items: some.then_some(approved) })
    }

    /// The first click selects an answer or an item, the second confirms or toggles it.
    pub fn click(&mut self, column: u16, row: u16, now: UnixTime) -> GateKeyResult {
        let button = self.spots.iter().find(|(_, spot)| spot.contains((column, row).into())).map(|(n, _)| *n);
        if !self.is_armed(now) {
            // A click outside the answers does not extend the wait.
            self.armed_at = if button.is_some() { now.after(GUARD) } else { self.armed_at };
            return GateKeyResult::Nothing;
        }
        let Some(button) = button else { return self.click_item(column, row) };
        let again = self.choice == button;
        self.choice = button;
        self.sure &= again;
        if again { self.answer() } else { GateKeyResult::Nothing }
    }

    fn click_item(&mut self, column: u16, row: u16) -> GateKeyResult {
        if !self.list.contains((column, row).into()) {
            return GateKeyResult::Nothing;
        }
        let item = self.first_item() + usize::from(row - self.list.y);
        if item == self.item {
            return self.on_item(KeyAction::ToggleItem);
        }
        if item < self.items.len() {
            (self.item, self.scroll) = (item, 0);
        }
        GateKeyResult::Nothing
    }

    pub fn wheel(&mut self, down: bool) {
        self.scroll = if down { self.scroll + 1 } else { self.scroll.saturating_sub(1) };
    }

    /// Empty for a permission request, which already shows the agent's text.
    fn reason(&self, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
        let reason = if self.ask.is_some() { "" } else { self.gate.reason.as_str() };
        plain_lines(reason, theme.style(ThemeRole::Text), width.max(1)).into_iter().take(REASON).collect()
    }

    /// The gate's area: as large as its content, within the screen.
    fn frame(&self, model: &ScreenModel, area: Rect) -> Rect {
        let width = area.width * 9 / 10;
        let inside = usize::from(width.saturating_sub(2)).max(1);
        let plain = |text: &str, width: usize| plain_lines(text, ratatui::style::Style::default(), width.max(1)).len();
        let body = if !self.items.is_empty() {
            let pending = model.session.as_ref().map(|state| &state.pending);
            let texts = self.items.iter().filter_map(|(id, _)| pending.and_then(|pending| pending.get(*id)));
            let longest = texts.map(|item| plain(&item.text, inside * 2 / 3)).max().unwrap_or(0);
            longest.max(self.items.len())
        } else if self.gate.about == GateKind::RetryLimit {
            let columns = columns::attempts_shown(&model.attempts, width).max(1);
            model.attempts.iter().map(|attempt| plain(&attempt.feedback, inside / columns)).max().unwrap_or(0) + 1
        } else {
            text::lines(&self.gate, self.ask.as_ref(), model, &model.theme, inside).len()
        };
        let height = self.reason(&model.theme, inside).len() + body + answers::rows(&self.buttons, inside) + 6;
        middle(area, width, u16::try_from(height).unwrap_or(u16::MAX).clamp(12, (area.height * 9 / 10).max(12)))
    }

    pub fn draw(&mut self, model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let area = self.frame(model, area);
        let inside = framed(area, &format!("◆ {}", self.title(model)), ThemeRole::Gate, theme, buffer);
        let width = usize::from(inside.width);
        let reason = self.reason(theme, width);
        let reason_rows = if reason.is_empty() { 0 } else { u16::try_from(reason.len()).unwrap_or(0) + 1 };
        let button_rows = u16::try_from(answers::rows(&self.buttons, width)).unwrap_or(u16::MAX);
        // With little room, the answers disappear last.
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
        let [head, middle, meaning, buttons, hints] = rows.areas(inside);
        Paragraph::new(reason).render(head, buffer);
        self.draw_body(model, theme, middle, buffer);
        let chosen = self.buttons.get(self.choice);
        let means = chosen.map(|button| answers::meaning(self.gate.about, button, width)).unwrap_or_default();
        Line::styled(means, theme.style(ThemeRole::Accent)).render(meaning, buffer);
        self.draw_buttons(theme, buttons, buffer);
        Line::styled(self.hints(model, width), theme.style(ThemeRole::Faint)).render(hints, buffer);
        self.draw_place(theme, area, buffer);
    }

    fn title(&self, model: &ScreenModel) -> String {
        let waiting = model.session.as_ref().map_or(0, |state| state.asks.waiting.len());
        match self.gate.about {
            GateKind::FinalDelivery => "Final delivery".into(),
            GateKind::Delivery => "Delivery".into(),
            GateKind::RetryLimit => "Retry limit reached".into(),
            GateKind::Escalation => "A person has to look".into(),
            GateKind::Errors => "Too many errors".into(),
            GateKind::BrokenHook => "Broken hook".into(),
            GateKind::Permission if waiting > 1 => format!("The agent asks · {} more after this", waiting - 1),
            GateKind::Permission => "The agent asks".into(),
            GateKind::Budget => "Budget used up".into(),
            GateKind::UsageLimit => "Usage limit reached".into(),
            GateKind::Tampered => "Forbidden changes".into(),
            GateKind::Submit => "The submit is held".into(),
            GateKind::Merge => "The merge is held".into(),
        }
    }

    fn draw_body(&mut self, model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        if !self.items.is_empty() {
            self.draw_items(model, theme, area, buffer);
        } else if self.gate.about == GateKind::RetryLimit {
            self.draw_attempts(&model.attempts, theme, area, buffer);
        } else {
            let lines = text::lines(&self.gate, self.ask.as_ref(), model, theme, usize::from(area.width));
            self.stop_at_the_end(lines.len(), area.height);
            Paragraph::new(lines.into_iter().skip(self.scroll).collect::<Vec<_>>()).render(area, buffer);
        }
    }

    fn hints(&self, model: &ScreenModel, width: usize) -> String {
        let key = |action| model.keymap.key(action);
        if self.standing == GateAvailability::Past {
            let close = format!("{} close", key(KeyAction::Aside));
            return keys_that_fit(&["a gate of the past: it takes no answer".into(), close], width);
        }
        if !self.is_armed(model.now) {
            let words = ["a moment: keys that were meant for something else do nothing here", "a moment …"];
            return first_that_fits(&words, width);
        }
        if self.sure {
            return fit(&format!("{} once more gives the session up", key(KeyAction::Answer)), width);
        }
        let mut hints =
            vec![format!("{} answer", key(KeyAction::Answer)), format!("{} choose", key(KeyAction::NextChoice))];
        if !self.items.is_empty() {
            let items =
                [(KeyAction::ItemDown, "item"), (KeyAction::ToggleItem, "yes/no"), (KeyAction::EditItem, "edit")];
            hints.extend(items.map(|(action, about)| format!("{} {about}", key(action))));
        }
        if self.rows.0 > self.rows.1 {
            hints.push(format!("{} read on", key(KeyAction::TextDown)));
        }
        hints.push(format!("{} aside", key(KeyAction::Aside)));
        keys_that_fit(&hints, width)
    }

    /// Draws the answers. If not all rows fit, the selected answer stays visible.
    fn draw_buttons(&mut self, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let placed = answers::placed(&self.buttons, usize::from(area.width));
        let chosen = placed.get(self.choice).map_or(0, |placed| placed.row);
        let height = usize::from(area.height);
        let first = (chosen + 1).saturating_sub(height);
        self.spots.clear();
        for (n, button) in placed.into_iter().enumerate() {
            let Some(row) = button.row.checked_sub(first).filter(|row| *row < height) else { continue };
            let cells = |n: usize| u16::try_from(n).unwrap_or(0);
            let line = Line::styled(
                button.text,
                theme.style(if n == self.choice { ThemeRole::Selected } else { ThemeRole::Key }),
            );
            let spot = Rect {
                x: area.x + cells(button.column),
                y: area.y + cells(row),
                width: cells(line.width()),
                height: 1,
            };
            line.render(spot, buffer);
            self.spots.push((n, spot));
        }
    }

    /// Draws the scroll position at the edge if the text is longer than its area.
    fn draw_place(&self, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let (rows, height) = self.rows;
        let text = format!(" {}–{} of {rows} ", self.scroll + 1, (self.scroll + height).min(rows));
        let width = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
        if rows <= height || width + 4 > area.width {
            return;
        }
        let edge = Rect { x: area.right() - width - 2, y: area.bottom().saturating_sub(1), width, height: 1 };
        Line::styled(text, theme.style(ThemeRole::Gate)).render(edge, buffer);
    }

    fn first_item(&self) -> usize {
        self.item.saturating_sub(usize::from(self.list.height).saturating_sub(1))
    }

    /// Limits scrolling to the end of the text: scrolling back would need as many keys.
    fn stop_at_the_end(&mut self, rows: usize, height: u16) {
        self.rows = (rows, usize::from(height));
        self.scroll = self.scroll.min(rows.saturating_sub(usize::from(height)));
    }
}
