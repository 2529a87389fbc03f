//! The gate: a modal that cannot be missed, and cannot be answered by accident.
//!
//! # Invariants
//! - For a moment after it appeared it takes no answer, and every key that was meant for something else makes that
//!   moment longer.
//! - An answer is chosen first and given then; giving up the session asks once more.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span},
    widgets::{Paragraph, Widget as _},
};

use super::{framed, middle};
use crate::{
    control::text::{first_line, plain},
    engine::{
        State,
        ids::ItemId,
        input::GateAnswer,
        session::gate::{About, Choice, Gate},
        time::{At, Span as Time},
    },
    tui::{
        keymap::Action,
        model::{Attempt, Model},
        runs::Run,
        text::{fit, plain_lines},
        theme::{Role, Theme},
        view::run_text,
    },
};

/// How long it takes no answer.
const GUARD: Time = Time(600);

/// A gate on the screen.
#[derive(Debug)]
pub struct GateModal {
    /// The gate.
    pub gate: Gate,
    /// When it takes answers.
    pub armed_at: At,
    /// The chosen answer.
    choice: usize,
    /// The items, and whether each is approved.
    items: Vec<(ItemId, bool)>,
    /// The chosen item.
    item: usize,
    /// How far the text was read.
    scroll: usize,
    /// Where the items were drawn, for the mouse.
    list: Rect,
    /// Whether giving up was asked for once.
    sure: bool,
}

/// What a key at a gate leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// Nothing outside.
    Nothing,
    /// The answer.
    Answer(GateAnswer),
    /// A message is to be written, and sent as the answer.
    Write,
    /// An item is to be edited.
    Edit(ItemId),
    /// An item is to be edited in the person's own editor.
    EditOutside(ItemId),
    /// The gate is put aside.
    Aside,
}

impl GateModal {
    /// A gate that was just reached.
    pub fn open(gate: Gate, state: &State, now: At) -> Self {
        let waiting = state.pending.waiting_ids();
        let items = gate.items.iter().filter(|id| waiting.contains(id)).map(|id| (*id, true)).collect();
        Self { gate, armed_at: now.after(GUARD), choice: 0, items, item: 0, scroll: 0, list: Rect::ZERO, sure: false }
    }

    fn choices(&self) -> &[Choice] {
        &self.gate.choices
    }

    fn chosen(&self) -> Option<Choice> {
        self.choices().get(self.choice).copied()
    }

    /// It was put aside and comes back, as it was: again it takes no answer in its first moment.
    pub fn shown_again(&mut self, now: At) {
        self.armed_at = now.after(GUARD);
        self.sure = false;
    }

    /// Whether it takes answers by now.
    pub fn is_armed(&self, now: At) -> bool {
        now >= self.armed_at
    }

    /// A key was pressed.
    pub fn key(&mut self, action: Option<Action>, now: At) -> Asked {
        if !self.is_armed(now) {
            self.armed_at = now.after(GUARD);
            return Asked::Nothing;
        }
        let Some(action) = action else { return Asked::Nothing };
        if action != Action::Answer {
            self.sure = false;
        }
        let choices = self.choices().len().max(1);
        let items = self.items.len().max(1);
        match action {
            Action::NextChoice => self.choice = (self.choice + 1) % choices,
            Action::PreviousChoice => self.choice = (self.choice + choices - 1) % choices,
            Action::ItemDown => (self.item, self.scroll) = ((self.item + 1) % items, 0),
            Action::ItemUp => (self.item, self.scroll) = ((self.item + items - 1) % items, 0),
            Action::ToggleItem => {
                if let Some((_, approved)) = self.items.get_mut(self.item) {
                    *approved = !*approved;
                }
            }
            Action::TextDown => self.scroll += 5,
            Action::TextUp => self.scroll = self.scroll.saturating_sub(5),
            Action::EditItem => return self.items.get(self.item).map_or(Asked::Nothing, |(id, _)| Asked::Edit(*id)),
            Action::EditOutside => {
                return self.items.get(self.item).map_or(Asked::Nothing, |(id, _)| Asked::EditOutside(*id));
            }
            Action::Aside => return Asked::Aside,
            Action::Answer => return self.answer(),
            _ => {}
        }
        Asked::Nothing
    }

    fn answer(&mut self) -> Asked {
        let Some(choice) = self.chosen() else { return Asked::Nothing };
        if choice == Choice::Send {
            return Asked::Write;
        }
        if choice == Choice::Abort && !self.sure {
            self.sure = true;
            return Asked::Nothing;
        }
        let approved: Vec<ItemId> = self.items.iter().filter(|(_, approved)| *approved).map(|(id, _)| *id).collect();
        let some = choice == Choice::Approve && approved.len() < self.items.len();
        Asked::Answer(GateAnswer { gate: self.gate.id, choice, text: None, items: some.then_some(approved) })
    }

    /// A mouse button was pressed on a choice.
    pub fn click(&mut self, choice: usize, now: At) -> Asked {
        if !self.is_armed(now) {
            self.armed_at = now.after(GUARD);
            return Asked::Nothing;
        }
        if choice >= self.choices().len() {
            return Asked::Nothing;
        }
        let again = self.choice == choice;
        self.choice = choice;
        self.sure &= again;
        if again { self.answer() } else { Asked::Nothing }
    }

    /// Where the gate stands: as large as what it shows, within the screen.
    pub fn frame(&self, model: &Model, area: Rect) -> Rect {
        let width = area.width * 9 / 10;
        let inside = usize::from(width.saturating_sub(2)).max(1);
        let plain = |text: &str, width: usize| plain_lines(text, ratatui::style::Style::default(), width.max(1)).len();
        let body = if self.items.is_empty() && self.gate.about != About::RetryLimit {
            self.last_run(model).map_or(0, |run| plain(&run_text(run), inside) + 1)
        } else if self.items.is_empty() {
            let columns = attempts_shown(&model.attempts, width).max(1);
            model.attempts.iter().map(|attempt| plain(&attempt.reason, inside / columns)).max().unwrap_or(0) + 1
        } else {
            let pending = model.session.as_ref().map(|state| &state.pending);
            let texts = self.items.iter().filter_map(|(id, _)| pending.and_then(|pending| pending.get(*id)));
            let longest = texts.map(|item| plain(&item.text, inside * 2 / 3)).max().unwrap_or(0);
            longest.max(self.items.len())
        };
        let height = plain(&self.gate.reason, inside).min(4) + body + 7;
        middle(area, width, u16::try_from(height).unwrap_or(u16::MAX).clamp(12, (area.height * 9 / 10).max(12)))
    }

    /// Draws the gate.
    pub fn draw(&mut self, model: &Model, theme: &Theme, area: Rect, buffer: &mut Buffer) {
        let area = self.frame(model, area);
        let title = match self.gate.about {
            About::FinalDelivery => "Final delivery",
            About::Delivery => "Delivery",
            About::RetryLimit => "Retry limit reached",
            About::Escalation => "A person has to look",
            About::Errors => "Too many errors",
            About::BrokenHook => "Broken hook",
            About::Permission => "Permission",
            About::Budget => "Budget used up",
        };
        let inside = framed(area, &format!("◆ {title}"), Role::Gate, theme, buffer);
        let reason = plain_lines(&self.gate.reason, theme.style(Role::Text), usize::from(inside.width));
        let reason_rows = u16::try_from(reason.len().min(4)).unwrap_or(4);
        // Where there is little room, the answers are the last to go.
        let space = u16::from(inside.height >= 9);
        let rows = Layout::vertical([
            Constraint::Length((reason_rows + 1).min(inside.height.saturating_sub(3 + space))),
            Constraint::Min(1),
            Constraint::Length(space),
            Constraint::Length(1),
            Constraint::Length(1),
        ]);
        let [head, middle, meaning, buttons, hints] = rows.areas(inside);
        Paragraph::new(reason).render(head, buffer);
        if !self.items.is_empty() {
            self.draw_items(model, theme, middle, buffer);
        } else if self.gate.about == About::RetryLimit {
            self.draw_attempts(&model.attempts, theme, middle, buffer);
        } else {
            self.draw_last_run(model, theme, middle, buffer);
        }
        let means = self.chosen().map_or("", |choice| meaning_of(self.gate.about, choice));
        Line::styled(fit(means, usize::from(meaning.width)), theme.style(Role::Accent)).render(meaning, buffer);
        self.draw_choices(theme, buttons, buffer);
        Line::styled(fit(&self.hints(model), usize::from(hints.width)), theme.style(Role::Faint)).render(hints, buffer);
    }

    fn hints(&self, model: &Model) -> String {
        if !self.is_armed(model.now) {
            return "a moment: keys that were meant for something else do nothing here".into();
        }
        if self.sure {
            return format!("{} once more gives the session up", model.keymap.key(Action::Answer));
        }
        let keymap = &model.keymap;
        let items = if self.items.is_empty() {
            String::new()
        } else {
            format!(
                "  {} item  {} yes/no  {} edit",
                keymap.key(Action::ItemDown),
                keymap.key(Action::ToggleItem),
                keymap.key(Action::EditItem)
            )
        };
        format!(
            "{} choose  {} answer{items}  {} aside",
            keymap.key(Action::NextChoice),
            keymap.key(Action::Answer),
            keymap.key(Action::Aside)
        )
    }

    fn draw_choices(&self, theme: &Theme, area: Rect, buffer: &mut Buffer) {
        let mut spans = Vec::new();
        for (n, choice) in self.choices().iter().enumerate().skip(self.first_choice(area.width)) {
            let style = if n == self.choice { theme.style(Role::Selected) } else { theme.style(Role::Key) };
            spans.push(Span::styled(format!("[ {} ]", choice.name()), style));
            spans.push(Span::raw(" "));
        }
        Line::from(spans).render(area, buffer);
    }

    /// The first choice in sight: where not all of them fit, the chosen one does.
    fn first_choice(&self, width: u16) -> usize {
        let choices = self.choices();
        let fits = |first: &usize| {
            let shown = &choices[*first..=self.choice];
            shown.iter().map(|choice| button_width(*choice) + 1).sum::<u16>() <= width + 1
        };
        if choices.is_empty() { 0 } else { (0..self.choice).find(fits).unwrap_or(self.choice) }
    }

    /// The last run of the hook that it is about.
    fn last_run<'a>(&self, model: &'a Model) -> Option<&'a Run> {
        model.runs.newest_first().find(|run| self.gate.hook.as_ref() == Some(&run.hook))
    }

    /// What the hook that it is about printed last.
    fn draw_last_run(&mut self, model: &Model, theme: &Theme, area: Rect, buffer: &mut Buffer) {
        let Some((run, finished)) = self.last_run(model).and_then(|run| run.ended.as_ref().map(|end| (run, end)))
        else {
            let said = model.session.as_ref().map_or("", |state| state.turns.said.as_str());
            let text = plain_lines(said, theme.style(Role::Text), usize::from(area.width));
            self.stop_at_the_end(text.len(), area.height);
            Paragraph::new(text.into_iter().skip(self.scroll).collect::<Vec<_>>()).render(area, buffer);
            return;
        };
        let head = format!("{} {} · {} · {}", run.point, run.name(), finished.end.describe(), finished.took_ms);
        let width = usize::from(area.width);
        let mut lines = vec![Line::styled(fit(&head, width), theme.style(Role::Warning))];
        let text = plain_lines(&run_text(run), theme.style(Role::Text), width);
        self.stop_at_the_end(text.len() + 1, area.height);
        lines.extend(text.into_iter().skip(self.scroll));
        Paragraph::new(lines).render(area, buffer);
    }

    /// Where each choice stands in its row, for the mouse.
    pub fn choice_at(&self, column: u16, width: u16) -> Option<usize> {
        let mut from = 0;
        for (n, choice) in self.choices().iter().enumerate().skip(self.first_choice(width)) {
            let width = button_width(*choice);
            if (from..from + width).contains(&column) {
                return Some(n);
            }
            from += width + 1;
        }
        None
    }

    fn draw_items(&mut self, model: &Model, theme: &Theme, area: Rect, buffer: &mut Buffer) {
        let Some(state) = &model.session else { return };
        let list_width = (area.width / 3).clamp(12, 40).min(area.width);
        let [left, right] = Layout::horizontal([Constraint::Length(list_width), Constraint::Min(1)]).areas(area);
        self.list = left;
        let first = self.first_item();
        let rows = self.items.iter().enumerate().skip(first).take(usize::from(left.height));
        let lines: Vec<Line<'_>> = rows
            .map(|(n, (id, approved))| {
                let source =
                    state.pending.get(*id).map(|item| first_line(&plain(&item.source.hook), 60)).unwrap_or_default();
                let edited = if state.pending.get(*id).is_some_and(|item| item.edited) { "~" } else { " " };
                let mark = if *approved { "[x]" } else { "[ ]" };
                let text = fit(&format!("{mark}{edited}{id} {source}"), usize::from(left.width) - 1);
                let role = if n == self.item { Role::Selected } else { Role::Text };
                Line::styled(text, theme.style(role))
            })
            .collect();
        Paragraph::new(lines).render(left, buffer);
        if let Some(item) = self.items.get(self.item).and_then(|(id, _)| state.pending.get(*id)) {
            let text = plain_lines(&item.text, theme.style(Role::Text), usize::from(right.width));
            self.stop_at_the_end(text.len(), right.height);
            let shown: Vec<Line<'_>> = text.into_iter().skip(self.scroll).collect();
            Paragraph::new(shown).render(right, buffer);
        }
    }

    fn first_item(&self) -> usize {
        self.item.saturating_sub(usize::from(self.list.height).saturating_sub(1))
    }

    /// A mouse button was pressed on the items: the first time chooses one, the second approves it or not.
    pub fn click_item(&mut self, column: u16, row: u16, now: At) {
        if self.items.is_empty() || !self.is_armed(now) || !self.list.contains((column, row).into()) {
            return;
        }
        let item = self.first_item() + usize::from(row - self.list.y);
        if item == self.item
            && let Some((_, approved)) = self.items.get_mut(item)
        {
            *approved = !*approved;
        } else if item < self.items.len() {
            (self.item, self.scroll) = (item, 0);
        }
    }

    /// The wheel was turned.
    pub fn wheel(&mut self, down: bool) {
        self.scroll = if down { self.scroll + 1 } else { self.scroll.saturating_sub(1) };
    }

    /// Nobody reads on behind the end: the way back would be as long.
    fn stop_at_the_end(&mut self, rows: usize, height: u16) {
        self.scroll = self.scroll.min(rows.saturating_sub(usize::from(height)));
    }

    /// The last feedbacks side by side, so that one sees whether anything changes.
    fn draw_attempts(&mut self, attempts: &[Attempt], theme: &Theme, area: Rect, buffer: &mut Buffer) {
        let shown = attempts_shown(attempts, area.width);
        if shown == 0 || area.height < 2 {
            return;
        }
        let columns = Layout::horizontal(vec![Constraint::Fill(1); shown]).spacing(1).split(area);
        let shown = &attempts[attempts.len() - shown..];
        let text = |attempt: &Attempt, column: &Rect| {
            plain_lines(&attempt.reason, theme.style(Role::Text), usize::from(column.width))
        };
        let texts: Vec<_> = shown.iter().zip(columns.iter()).map(|(attempt, column)| text(attempt, column)).collect();
        self.stop_at_the_end(texts.iter().map(Vec::len).max().unwrap_or(0) + 1, area.height);
        for ((attempt, column), text) in shown.iter().zip(columns.iter()).zip(texts) {
            let same = if attempt.no_progress { " · same as before" } else { "" };
            let head = fit(&format!("retry {}{same}", attempt.used), usize::from(column.width));
            let mut lines = vec![Line::styled(head, theme.style(Role::Warning))];
            lines.extend(text.into_iter().skip(self.scroll));
            Paragraph::new(lines).render(*column, buffer);
        }
    }
}

fn button_width(choice: Choice) -> u16 {
    u16::try_from(choice.name().len()).unwrap_or(0) + 4
}

/// What an answer leads to.
fn meaning_of(about: About, choice: Choice) -> &'static str {
    match (about, choice) {
        (About::FinalDelivery, Choice::Approve) => "one prompt carries what is approved; then the session ends",
        (_, Choice::Approve) => "what is approved goes with the next prompt",
        (_, Choice::Skip) => "nothing of it is delivered",
        (About::RetryLimit, Choice::Continue) => "as many retries again",
        (About::Budget, Choice::Continue) => "as much again",
        (_, Choice::Continue) => "the next iteration",
        (_, Choice::Send) => "write to the agent yourself; the count starts again",
        (_, Choice::Ignore) => "accept the turn as it is; the iteration counts as forced",
        (_, Choice::Disable) => "this hook does not run any more in this session",
        (_, Choice::Retry) => "run the hook once more",
        (_, Choice::Complete) => "the work is done; end the session as complete",
        (_, Choice::Abort) => "give the session up; it can be resumed",
        (_, Choice::Stop) => "end the session here; it can be resumed",
        (_, Choice::AllowOnce) => "the agent may do this, this once",
        (_, Choice::AllowAlways) => "the agent may do this, and does not ask again in this session",
        (_, Choice::RejectOnce) => "the agent may not do this now; its turn goes on",
        (_, Choice::RejectAlways) => "the agent may not do this, and does not ask again in this session",
        (_, Choice::Cancel) => "no answer; the agent's turn ends",
        (_, Choice::Escalate | Choice::Fail) => "",
    }
}

/// How many feedbacks fit side by side.
fn attempts_shown(attempts: &[Attempt], width: u16) -> usize {
    attempts.len().min(if width >= 90 { 3 } else { 2 })
}
