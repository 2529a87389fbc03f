//! The gate: a dialog that the user cannot miss, and cannot answer by accident.
//!
//! Owns the selection. The areas are in [`layout`]; the answers are in [`answers`]; the content is
//! in [`text`]; [`drawing`] draws all of it.
//!
//! # Invariants
//! - A gate that appears by itself accepts no answer for a moment, and every key in that moment
//!   extends it. `esc` always works, and a gate that the user opened accepts answers at once.
//! - Answers that give something up ask once more, whichever key or click chose them.
//! - A gate in a replay is read-only.

mod answers;
mod drawing;
mod layout;
mod text;

use answers::AnswerOption;
pub use layout::GateParts;
use ratatui::{layout::Rect, text::Line};

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
        pending::ItemState,
        question::AgentQuestion,
        time::{TimeSpan as Time, UnixTime},
    },
    present::{gate_words::GateFigures, text::grouped},
    tui::{keymap::GateKey, runs::GateRun},
};

/// How long a gate accepts no answer after it appears.
const GUARD: Time = Time(600);

#[derive(Debug)]
pub struct GateModal {
    pub gate: Gate,
    /// The agent's permission request that the gate is about.
    ask: Option<AgentPermissionRequest>,
    options: Vec<AnswerOption>,
    availability: GateAvailability,
    /// When it begins to accept answers.
    pub armed_at: UnixTime,
    /// The selected answer.
    choice: usize,
    items: Vec<(ItemId, ItemMark)>,
    /// The selected item.
    item: usize,
    /// The runs behind a retry limit, newest first.
    runs: Vec<GateRun>,
    /// The run whose output is shown.
    run: usize,
    /// The first visible row of the text.
    scroll: usize,
    /// Where everything goes, for drawing and for the mouse.
    layout: GateLayout,
    /// Whether the user has chosen once what gives something up.
    sure: bool,
}

/// Beyond the end of every text: the layout moves it to the line that says why the run failed, or
/// to the last page.
const AT_REASON: usize = usize::MAX / 2;

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
    /// Edit the proposed tasks.
    EditTasks,
    /// Edit them in the user's editor.
    EditTasksOutside,
    /// Deliver an item that was skipped.
    Restore(ItemId),
    /// Show the prompt that the ticked items would make.
    Preview,
    /// Not possible in a replay.
    TooLate,
    /// Close the gate without an answer, for later.
    Later,
}

impl GateModal {
    pub fn open(gate: Gate, state: &SessionState, runs: Vec<GateRun>, now: UnixTime) -> Self {
        Self {
            armed_at: now.after(GUARD),
            ..Self::with(gate, state, runs, GateAvailability::Waits)
        }
    }

    /// A gate in a replay.
    pub fn past(gate: Gate, state: &SessionState, runs: Vec<GateRun>) -> Self {
        Self::with(gate, state, runs, GateAvailability::Past)
    }

    fn with(
        gate: Gate,
        state: &SessionState,
        runs: Vec<GateRun>,
        availability: GateAvailability,
    ) -> Self {
        let items = gate
            .subject
            .items()
            .iter()
            .filter_map(|id| Some((*id, state.pending.get(*id)?.state)));
        let marked = |(id, state)| match state {
            ItemState::Pending => Some((id, ItemMark::Approved)),
            ItemState::Skipped => Some((id, ItemMark::Skipped)),
            ItemState::InFlight | ItemState::Delivered => None,
        };
        let items = items.filter_map(marked).collect();
        let ask = state.permissions().asked_at(&gate).cloned();
        let options = answers::options(&gate, ask.as_ref(), GateFigures::of(state, &gate));
        let choice = answers::first(&options);
        let scroll = if runs.is_empty() { 0 } else { AT_REASON };
        Self {
            gate,
            ask,
            options,
            availability,
            armed_at: UnixTime(0),
            choice,
            items,
            item: 0,
            runs,
            run: 0,
            scroll,
            layout: GateLayout::default(),
            sure: false,
        }
    }

    /// Updates the marks and the tasks: items can be skipped and restored elsewhere, and proposed
    /// tasks changed.
    pub fn look_at(&mut self, state: &SessionState) {
        let pending = &state.pending;
        if let Some(gate) = state.gates.open_gate_named(self.gate.id) {
            self.gate = gate.clone();
        }
        for (id, mark) in &mut self.items {
            let skipped = pending
                .get(*id)
                .is_some_and(|item| item.state == ItemState::Skipped);
            *mark = match (skipped, *mark) {
                (true, _) => ItemMark::Skipped,
                (false, ItemMark::Skipped | ItemMark::Approved) => ItemMark::Approved,
                (false, ItemMark::LeftOut) => ItemMark::LeftOut,
            };
        }
    }

    /// The items that the answer would send, as they are ticked. None at a gate without items.
    pub fn ticked(&self) -> Option<Vec<ItemId>> {
        let ticked = self
            .items
            .iter()
            .filter(|(_, mark)| *mark == ItemMark::Approved)
            .map(|(id, _)| *id);
        (!self.items.is_empty()).then(|| ticked.collect())
    }

    /// The gate is visible again by itself, with its selections. As before, it accepts no answer
    /// for a moment.
    pub fn shown_again(&mut self, now: UnixTime) {
        self.armed_at = now.after(GUARD);
        self.sure = false;
    }

    /// The user has opened the gate: no key can be meant for something else.
    pub fn opened_by_the_user(&mut self, now: UnixTime) {
        self.armed_at = now;
        self.sure = false;
    }

    /// The text that an answer begins with: the fields of a question.
    pub fn form(&self) -> Option<String> {
        Some(self.ask.as_ref()?.question()?.form())
    }

    /// Whether it accepts answers by now.
    pub fn is_armed(&self, now: UnixTime) -> bool {
        now >= self.armed_at
    }

    /// Whether the gate lists items, so that up and down select one.
    pub fn has_items(&self) -> bool {
        !self.items.is_empty()
    }

    /// The key that shows more of the text. None if all of it is visible.
    pub fn more_text(&self) -> Option<GateKey> {
        let last = self.layout.last_page();
        let key = if self.scroll < last {
            GateKey::TextDown
        } else {
            GateKey::TextUp
        };
        (last > 0).then_some(key)
    }

    /// Whether the gate shows several runs.
    pub fn has_runs(&self) -> bool {
        self.runs.len() > 1
    }

    /// The screen row with the keys, if there is room for it.
    pub fn hint_row(&self) -> Option<u16> {
        Some(self.layout.hints.y).filter(|_| self.layout.hints.height > 0)
    }

    /// A key, with its meaning and its character as far as it has them.
    pub fn key(
        &mut self,
        key: Option<GateKey>,
        character: Option<char>,
        now: UnixTime,
    ) -> GateKeyResult {
        if !self.is_armed(now) && key != Some(GateKey::Later) {
            self.armed_at = now.after(GUARD);
            return GateKeyResult::Nothing;
        }
        let Some(key) = key else {
            return character.map_or(GateKeyResult::Nothing, |key| self.on_character(key));
        };
        self.sure &= key == GateKey::Answer;
        match key {
            GateKey::NextChoice => self.step_choice(true),
            GateKey::PreviousChoice => self.step_choice(false),
            GateKey::ItemDown | GateKey::ItemUp => self.step(key == GateKey::ItemDown),
            GateKey::NewerRun | GateKey::OlderRun => self.step_run(key == GateKey::NewerRun),
            GateKey::ToggleItem | GateKey::Edit | GateKey::EditOutside => {
                return self.on_item(key);
            }
            GateKey::Preview if self.has_items() => return GateKeyResult::Preview,
            GateKey::Preview => {}
            GateKey::TextDown | GateKey::TextUp => self.page(key == GateKey::TextDown),
            GateKey::Later => return GateKeyResult::Later,
            GateKey::Answer => return self.answer(),
        }
        GateKeyResult::Nothing
    }

    /// Whether a character chooses an answer.
    pub fn has_answer_at(&self, key: char) -> bool {
        answers::at_key(&self.options, key).is_some()
    }

    /// A digit or a letter chooses its answer.
    fn on_character(&mut self, key: char) -> GateKeyResult {
        if let Some(choice) = answers::at_key(&self.options, key) {
            return self.choose(choice);
        }
        self.sure = false;
        GateKeyResult::Nothing
    }

    fn choose(&mut self, choice: usize) -> GateKeyResult {
        self.sure &= self.choice == choice;
        self.choice = choice;
        self.answer()
    }

    fn step_choice(&mut self, down: bool) {
        let count = self.options.len().max(1);
        self.choice = (self.choice + if down { 1 } else { count - 1 }) % count;
    }

    /// Moves to the next item; without items, to the next answer.
    fn step(&mut self, down: bool) {
        let items = self.items.len();
        if items == 0 {
            return self.step_choice(down);
        }
        let by = if down { 1 } else { items - 1 };
        (self.item, self.scroll) = ((self.item + by) % items, 0);
    }

    /// Shows the output of another run; without runs, moves to the next answer.
    fn step_run(&mut self, newer: bool) {
        if !self.has_runs() {
            return self.step_choice(newer);
        }
        let last = self.runs.len() - 1;
        self.run = if newer {
            self.run.saturating_sub(1)
        } else {
            (self.run + 1).min(last)
        };
        self.scroll = AT_REASON;
    }

    /// Scrolls by a page, up to the first or the last one.
    fn page(&mut self, down: bool) {
        let by = self.layout.rows_shown.saturating_sub(1).max(1);
        self.scroll = if down {
            self.scroll.saturating_add(by).min(self.layout.last_page())
        } else {
            self.scroll.saturating_sub(by)
        };
    }

    fn on_item(&mut self, key: GateKey) -> GateKeyResult {
        let proposes = self.gate.kind() == GateKind::Proposal;
        let Some((id, mark)) = self.items.get_mut(self.item) else {
            return match (self.availability, key) {
                (GateAvailability::Waits, GateKey::Edit) if proposes => GateKeyResult::EditTasks,
                (GateAvailability::Waits, GateKey::EditOutside) if proposes => {
                    GateKeyResult::EditTasksOutside
                }
                (_, _) => GateKeyResult::Nothing,
            };
        };
        match (self.availability, key) {
            (GateAvailability::Past, _) => GateKeyResult::TooLate,
            (GateAvailability::Waits, GateKey::Edit) => GateKeyResult::Edit(*id),
            (GateAvailability::Waits, GateKey::EditOutside) => GateKeyResult::EditOutside(*id),
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
        if self.availability == GateAvailability::Past {
            return GateKeyResult::TooLate;
        }
        let Some(AnswerOption { choice, option, .. }) = self.options.get(self.choice).cloned()
        else {
            return GateKeyResult::Nothing;
        };
        let question = self.ask.as_ref().and_then(AgentPermissionRequest::question);
        let answers = choice == GateChoice::Answer
            && option.is_none()
            && question.is_some_and(AgentQuestion::takes_text);
        if answers || matches!(choice, GateChoice::Send | GateChoice::Message) {
            return GateKeyResult::Write;
        }
        if choice == GateChoice::Edit {
            return GateKeyResult::EditTasks;
        }
        if answers::again(choice).is_some() && !self.sure {
            self.sure = true;
            return GateKeyResult::Nothing;
        }
        let left_out = self
            .items
            .iter()
            .any(|(_, mark)| *mark == ItemMark::LeftOut);
        let some = choice == GateChoice::Approve && left_out;
        let items = self.ticked().filter(|_| some);
        GateKeyResult::Answer(GateAnswer {
            gate: self.gate.id,
            choice,
            text: option,
            items,
        })
    }

    /// A click on an answer chooses it. On an item, the first click selects it and the second
    /// toggles it.
    pub fn click(&mut self, column: u16, row: u16, now: UnixTime) -> GateKeyResult {
        let option = self.layout.option_at(column, row);
        if !self.is_armed(now) {
            // A click outside the answers does not extend the wait.
            self.armed_at = if option.is_some() {
                now.after(GUARD)
            } else {
                self.armed_at
            };
            return GateKeyResult::Nothing;
        }
        match option {
            Some(option) => self.choose(option),
            None => self.click_row(column, row),
        }
    }

    fn click_row(&mut self, column: u16, row: u16) -> GateKeyResult {
        let list = self.layout.list;
        if !list.contains((column, row).into()) {
            return GateKeyResult::Nothing;
        }
        let nth = usize::from(row - list.y);
        if !self.runs.is_empty() {
            let run = self.first_run() + nth;
            (self.run, self.scroll) = if run < self.runs.len() {
                (run, AT_REASON)
            } else {
                (self.run, self.scroll)
            };
            return GateKeyResult::Nothing;
        }
        let item = self.first_item() + nth;
        if item == self.item {
            return self.on_item(GateKey::ToggleItem);
        }
        if item < self.items.len() {
            (self.item, self.scroll) = (item, 0);
        }
        GateKeyResult::Nothing
    }

    pub fn wheel(&mut self, down: bool) {
        self.scroll = if down {
            self.scroll.saturating_add(1)
        } else {
            self.scroll.saturating_sub(1)
        };
    }

    fn first_item(&self) -> usize {
        self.item
            .saturating_sub(usize::from(self.layout.list.height).saturating_sub(1))
    }

    fn first_run(&self) -> usize {
        self.run
            .saturating_sub(usize::from(self.layout.list.height).saturating_sub(1))
    }
}

/// The areas of a gate, and the texts in them.
#[derive(Debug, Default)]
pub(super) struct GateLayout {
    pub(super) frame: Rect,
    pub(super) title: String,
    pub(super) since: String,
    pub(super) head: Rect,
    pub(super) reason: Vec<Line<'static>>,
    pub(super) body: TextColumn,
    /// The items or the runs beside the text. Empty if there are none.
    pub(super) list: Rect,
    /// The title over the text and over the list. Without height at gates that need none.
    pub(super) heads: Rect,
    /// How many rows the text has.
    pub(super) rows: usize,
    /// How many of them fit.
    pub(super) rows_shown: usize,
    pub(super) options: Rect,
    /// The first visible answer.
    pub(super) first_option: usize,
    /// The width of the labels if the effects stand beside them. None: only the chosen answer has
    /// room for its effect.
    pub(super) label_width: Option<usize>,
    /// The effect of the chosen answer, where the list has no room for all.
    pub(super) effect: Rect,
    pub(super) hints: Rect,
}

#[derive(Debug, Default)]
pub(super) struct TextColumn {
    pub(super) area: Rect,
    pub(super) lines: Vec<Line<'static>>,
    /// The number of the line that each row is part of. Empty if rows are counted instead.
    pub(super) numbers: Vec<usize>,
    /// The row that says why the run failed.
    pub(super) decisive: Option<usize>,
}

impl GateLayout {
    /// The answer at a place of the screen.
    pub(super) fn option_at(&self, column: u16, row: u16) -> Option<usize> {
        let inside = self.options.contains((column, row).into());
        inside.then(|| self.first_option + usize::from(row - self.options.y))
    }

    /// The lines of the text that are visible from this row on, and how many there are: `1–13 of
    /// 22`.
    pub(super) fn place_from(&self, scroll: usize) -> String {
        let number = |row: usize| self.body.numbers.get(row).copied().unwrap_or(row + 1);
        let (last, all) = (
            (scroll + self.rows_shown).min(self.rows),
            number(self.rows.saturating_sub(1)),
        );
        format!(
            "{}–{} of {}",
            grouped(number(scroll)),
            grouped(number(last.saturating_sub(1))),
            grouped(all)
        )
    }

    /// The first row of the text's last page.
    pub(super) const fn last_page(&self) -> usize {
        self.rows.saturating_sub(self.rows_shown)
    }
}
