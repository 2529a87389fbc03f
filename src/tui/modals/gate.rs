//! The gate: a dialog that the user cannot miss, and cannot answer by accident.
//!
//! Owns the selection and the drawing. The areas are in [`layout`]; the buttons are in [`answers`]; the content is in
//! [`text`] and [`columns`].
//!
//! # Invariants
//! - A gate accepts no answer for a moment after it appears, and every key in that moment extends it.
//! - Selecting and confirming an answer are two steps; aborting the session asks once more.
//! - A gate in a replay is read-only.

mod answers;
mod columns;
mod layout;
mod text;

use answers::AnswerButton;
use layout::{GateBody, GateLayout, TextColumn};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::Line,
    widgets::{Paragraph, Widget as _},
};

use super::{first_that_fits, framed, keys_that_fit};
use crate::{
    engine::{
        SessionState,
        conversation::AgentPermissionRequest,
        gate::{
            Gate,
            kind::{GateChoice, GateKind},
        },
        ids::ItemId,
        input::GateAnswer,
        pending::{ItemState, PendingItems},
        time::{TimeSpan as Time, UnixTime},
    },
    tui::{
        keymap::KeyAction,
        model::ScreenModel,
        text::{fit, plain_lines},
        theme::{ScreenTheme, ThemeRole},
    },
};

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
    /// Where everything goes, for drawing and for the mouse.
    layout: GateLayout,
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
        let items = gate.subject.items().iter().filter_map(|id| Some((*id, state.pending.get(*id)?.state)));
        let marked = |(id, state)| match state {
            ItemState::Pending => Some((id, ItemMark::Approved)),
            ItemState::Skipped => Some((id, ItemMark::Skipped)),
            ItemState::InFlight | ItemState::Delivered => None,
        };
        let items = items.filter_map(marked).collect();
        let ask = state.permissions().asked_at(&gate).cloned();
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
            layout: GateLayout::default(),
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
        let button = self.layout.button_at(column, row);
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
        if !self.layout.list.contains((column, row).into()) {
            return GateKeyResult::Nothing;
        }
        let item = self.first_item() + usize::from(row - self.layout.list.y);
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

    /// Draws the gate where the last [`GateModal::prepare`] has laid it out.
    pub fn draw(&self, model: &ScreenModel, theme: &ScreenTheme, buffer: &mut Buffer) {
        let layout = &self.layout;
        framed(layout.frame, &format!("◆ {}", self.title(model)), ThemeRole::Gate, theme, buffer);
        let width = usize::from(layout.hints.width);
        Paragraph::new(layout.reason.clone()).render(layout.head, buffer);
        self.draw_body(model, theme, buffer);
        let chosen = self.buttons.get(self.choice);
        let means = chosen.map(|button| answers::meaning(self.gate.kind(), button, width)).unwrap_or_default();
        Line::styled(means, theme.style(ThemeRole::Accent)).render(layout.meaning, buffer);
        for button in &layout.buttons {
            let role = if button.index == self.choice { ThemeRole::Selected } else { ThemeRole::Key };
            Line::styled(button.text.as_str(), theme.style(role)).render(button.area, buffer);
        }
        Line::styled(self.hints(model, width), theme.style(ThemeRole::Faint)).render(layout.hints, buffer);
        self.draw_place(theme, layout.frame, buffer);
    }

    fn title(&self, model: &ScreenModel) -> String {
        let waiting = model.session.as_ref().map_or(0, |state| state.asks.waiting.len());
        match self.gate.kind() {
            GateKind::FinalDelivery => "Final delivery".into(),
            GateKind::Delivery => "Delivery".into(),
            GateKind::RetryLimit => "Retry limit reached".into(),
            GateKind::Escalation => "Needs you".into(),
            GateKind::Errors => "Too many errors".into(),
            GateKind::BrokenHook => "Broken hook".into(),
            GateKind::Permission if waiting > 1 => {
                format!("The agent asks for permission · {} more after this", waiting - 1)
            }
            GateKind::Permission => "The agent asks for permission".into(),
            GateKind::Budget => "Budget used up".into(),
            GateKind::UsageLimit => "Usage limit reached".into(),
            GateKind::Tampered => "Forbidden changes".into(),
            GateKind::Submit => "Submit blocked".into(),
            GateKind::Merge => "Merge blocked".into(),
        }
    }

    fn draw_body(&self, model: &ScreenModel, theme: &ScreenTheme, buffer: &mut Buffer) {
        match &self.layout.body {
            GateBody::Text(text) => self.draw_text(text, buffer),
            GateBody::Items(text) => {
                self.draw_items(model, theme, buffer);
                self.draw_text(text, buffer);
            }
            GateBody::Attempts(columns) => self.draw_attempts(columns, theme, buffer),
        }
    }

    fn draw_text(&self, text: &TextColumn, buffer: &mut Buffer) {
        let shown: Vec<Line<'_>> = text.lines.iter().skip(self.scroll).cloned().collect();
        Paragraph::new(shown).render(text.area, buffer);
    }

    fn hints(&self, model: &ScreenModel, width: usize) -> String {
        let key = |action| model.keymap.key(action);
        if self.standing == GateAvailability::Past {
            let close = format!("{} close", key(KeyAction::Aside));
            return keys_that_fit(&["a past gate: you cannot answer it any more".into(), close], width);
        }
        if !self.is_armed(model.now) {
            let words = ["one moment: creel ignores keys that you meant for something else", "one moment …"];
            return first_that_fits(&words, width);
        }
        if self.sure {
            return fit(&format!("{} again aborts the session", key(KeyAction::Answer)), width);
        }
        let mut hints =
            vec![format!("{} answer", key(KeyAction::Answer)), format!("{} choose", key(KeyAction::NextChoice))];
        if !self.items.is_empty() {
            let items =
                [(KeyAction::ItemDown, "item"), (KeyAction::ToggleItem, "yes/no"), (KeyAction::EditItem, "edit")];
            hints.extend(items.map(|(action, about)| format!("{} {about}", key(action))));
        }
        if self.layout.rows > self.layout.rows_shown {
            hints.push(format!("{} scroll", key(KeyAction::TextDown)));
        }
        hints.push(format!("{} look around", key(KeyAction::Aside)));
        keys_that_fit(&hints, width)
    }

    /// Draws the scroll position at the edge if the text is longer than its area.
    fn draw_place(&self, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let (rows, height) = (self.layout.rows, self.layout.rows_shown);
        let text = format!(" {}–{} of {rows} ", self.scroll + 1, (self.scroll + height).min(rows));
        let width = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
        if rows <= height || width + 4 > area.width {
            return;
        }
        let edge = Rect { x: area.right() - width - 2, y: area.bottom().saturating_sub(1), width, height: 1 };
        Line::styled(text, theme.style(ThemeRole::Gate)).render(edge, buffer);
    }

    fn first_item(&self) -> usize {
        self.item.saturating_sub(usize::from(self.layout.list.height).saturating_sub(1))
    }
}
