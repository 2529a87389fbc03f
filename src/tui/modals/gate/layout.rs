//! Where everything at a gate goes.
//!
//! Computed before each frame, so that drawing changes nothing and the mouse finds what was drawn.
//!
//! # Invariants
//! - The gate is as wide as its content and no wider, within the screen.
//! - The text never scrolls past its end: the way back would be as long.
//! - Where there is little room, the answers are the last to go, and the chosen one is in sight.

use ratatui::{
    layout::{Constraint, Layout, Rect},
    style::Modifier,
    text::Line,
};
use unicode_width::UnicodeWidthStr as _;

use super::{AT_REASON, GateModal, answers, drawing, text};
use crate::{
    engine::ids::ItemId,
    present::{
        gate_words::{GateFigures, gate_reason, gate_title},
        text::{plain, time_of_day},
    },
    text::{is_shortened, place_of_telling_line},
    tui::{
        ansi::PrintedRows,
        modals::{
            frame::{frame_width, middle},
            gate::{GateLayout, TextColumn},
        },
        model::ScreenModel,
        runs::GateRun,
        text::plain_lines,
        theme::{ScreenTheme, ThemeRole},
    },
};

/// How many lines of the reason are shown.
const REASON: usize = 4;
/// Content that is narrower than this would make a gate that is hard to notice.
const NARROWEST: usize = 56;
/// Longer lines of a text are hard to read.
const WIDEST: u16 = 132;
/// Between two columns: a space, a line, a space.
pub(super) const GAP: u16 = 3;
/// On screens that are narrower than this, a gate has no margin.
const MARGIN_FROM: u16 = 60;
/// If all of the text or this many rows of it are visible, blank rows set the answers off, and the
/// effect of the chosen answer has its own row. The text matters more than both.
const AIR: u16 = 8;

/// Before the line that says why a run failed.
const MARK: &str = "▸ ";
/// How many rows above that line are visible, if there is room.
const ABOVE: usize = 2;

/// Which parts of a gate are visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateParts {
    All,
    /// Without the answers: the user writes one.
    Text,
}

/// The parts of the content before they have a place.
struct GateContent {
    title: String,
    since: String,
    reason: String,
    /// The rows of the list beside the text.
    list: usize,
    list_width: u16,
    /// The width of everything, if there is room.
    width: usize,
    /// The widest answer with its effect.
    options_width: usize,
}

impl GateModal {
    /// Lays the gate out for the next frame.
    pub fn prepare(&mut self, model: &ScreenModel, area: Rect, parts: GateParts) {
        let figures = model
            .session
            .as_ref()
            .map(|state| GateFigures::of(state, &self.gate))
            .unwrap_or_default();
        let bytes = self.ticked().map(|ticked| size_of(&ticked, model));
        self.options = answers::options(
            &self.gate,
            self.ask.as_ref(),
            GateFigures { bytes, ..figures },
        );
        self.layout = self.laid_out(model, area, parts);
        if let (AT_REASON, Some(row)) = (self.scroll, self.layout.body.decisive) {
            self.scroll = row.saturating_sub(ABOVE.min(self.layout.rows_shown / 3));
        }
        self.scroll = self.scroll.min(self.layout.last_page());
    }

    fn content(&self, model: &ScreenModel, most: usize) -> GateContent {
        let state = model.session.as_ref();
        let title = state
            .map(|state| gate_title(state, &self.gate))
            .unwrap_or_default();
        let since = format!("since {}", time_of_day(self.gate.opened, &model.look.zone));
        let reason = state
            .map(|state| gate_reason(state, &self.gate, &model.look.zone))
            .unwrap_or_default();
        let (list, natural) = self.list_size(model);
        let widest = if self.has_items() {
            most * 3 / 5
        } else {
            most * 2 / 5
        };
        let list_width = u16::try_from(natural.min(widest)).unwrap_or(0);
        let beside = if list == 0 {
            0
        } else {
            usize::from(list_width + GAP)
        };
        let text = self
            .text_rows(model, most.saturating_sub(beside).max(1))
            .0
            .rows;
        let text = text.iter().map(Line::width).max().unwrap_or(0);
        let labels = self
            .options
            .iter()
            .map(|option| option.words.label.width())
            .max()
            .unwrap_or(0);
        let effects = self
            .options
            .iter()
            .map(|option| option.words.effect.width())
            .max()
            .unwrap_or(0);
        let options_width = labels + effects + drawing::OPTION_MARGIN + 3;
        let reason_width = reason.lines().map(str::width).max().unwrap_or(0);
        let width = [
            beside + text,
            title.width() + since.width() + 8,
            options_width,
            reason_width,
            NARROWEST,
        ];
        let width = width.into_iter().max().unwrap_or(NARROWEST).min(most);
        GateContent {
            title,
            since,
            reason,
            list,
            list_width,
            width,
            options_width,
        }
    }

    /// How many rows the list beside the text has, and how wide it would like to be.
    fn list_size(&self, model: &ScreenModel) -> (usize, usize) {
        if self.has_items() {
            let widest = (0..self.items.len())
                .map(|n| self.item_row(n, model).width())
                .max()
                .unwrap_or(0);
            (self.items.len(), widest + 1)
        } else if self.runs.is_empty() {
            (0, 0)
        } else {
            let widest = self
                .runs
                .iter()
                .map(|run| run.reason.width())
                .max()
                .unwrap_or(0);
            (self.runs.len(), widest + 10)
        }
    }

    fn laid_out(&self, model: &ScreenModel, area: Rect, parts: GateParts) -> GateLayout {
        let margin = u16::from(area.width >= MARGIN_FROM);
        let edge = 2 * margin + 2;
        let most = if area.width < MARGIN_FROM {
            area.width
        } else {
            area.width.min(WIDEST)
        };
        let content = self.content(model, usize::from(most.saturating_sub(edge)).max(1));
        let width = u16::try_from(content.width).unwrap_or(most);
        let width = frame_width(area, width.saturating_add(edge)).saturating_sub(edge);
        let beside = if content.list == 0 {
            0
        } else {
            content.list_width + GAP
        };
        let text_width = width.saturating_sub(beside).max(1);
        let (text, decisive) = self.text_rows(model, usize::from(text_width));
        let PrintedRows {
            rows: lines,
            numbers,
        } = text;
        let reason = reason_lines(&content.reason, model, usize::from(width));
        let heads = u16::from(!self.runs.is_empty());
        let counted = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
        let body = counted(lines.len().max(content.list)).saturating_add(heads);
        let reason_rows = counted(reason.len());
        let wide = content.options_width <= usize::from(width);
        let (options, effect) = match parts {
            GateParts::All => (counted(self.options.len().max(1)), u16::from(!wide)),
            GateParts::Text => (0, 0),
        };
        let blanks = u16::from(reason_rows > 0) + u16::from(body > 0);
        let height = reason_rows
            .saturating_add(body)
            .saturating_add(options + effect + blanks + 1 + 2);
        let highest = if area.height < 16 {
            area.height
        } else {
            area.height - 2
        };
        let frame = middle(area, width + edge, height.min(highest));
        let inside = Rect {
            x: frame.x + 1 + margin,
            y: frame.y + 1,
            width: frame.width.saturating_sub(edge),
            height: frame.height.saturating_sub(2),
        };
        let layout = GateLayout {
            frame,
            title: content.title,
            since: content.since,
            reason,
            label_width: wide.then(|| {
                self.options
                    .iter()
                    .map(|o| o.words.label.width())
                    .max()
                    .unwrap_or(0)
            }),
            rows: lines.len(),
            body: TextColumn {
                area: Rect::default(),
                lines,
                numbers,
                decisive,
            },
            ..GateLayout::default()
        };
        self.with_areas(
            layout,
            inside,
            GateRows {
                reason: reason_rows,
                body,
                options,
                effect,
                heads,
                list: content.list,
                list_width: content.list_width,
            },
        )
    }

    fn with_areas(&self, layout: GateLayout, inside: Rect, wanted: GateRows) -> GateLayout {
        let height = inside.height;
        let hints = u16::from(height >= 3 && wanted.options > 0);
        let fixed = wanted.reason + wanted.options + wanted.effect + hints + wanted.heads;
        let text = wanted.body.saturating_sub(wanted.heads);
        let blanks = u16::from(wanted.reason > 0) + u16::from(wanted.body > 0);
        let blank = u16::from(height >= fixed.saturating_add(blanks + text.min(AIR)));
        let effect = if wanted.body == 0 {
            wanted.effect
        } else {
            wanted.effect.min(blank)
        };
        let options = wanted
            .options
            .min((height * 2 / 3).max(1))
            .min(height.saturating_sub(hints + 1).max(1));
        let left = height.saturating_sub(options + hints + effect + blank);
        let reason = if wanted.body == 0 {
            wanted.reason.min(left)
        } else {
            wanted.reason.min(left.div_ceil(3))
        };
        let after_reason = if reason > 0 { blank } else { 0 };
        let (body, after_body) = if wanted.body == 0 { (0, 0) } else { (1, blank) };
        let rows = Layout::vertical([
            Constraint::Length(reason),
            Constraint::Length(after_reason),
            Constraint::Min(body),
            Constraint::Length(after_body),
            Constraint::Length(options),
            Constraint::Length(effect),
            Constraint::Length(hints),
        ]);
        let [head, _, body, _, options, effect, hints] = rows.areas(inside);
        let heads_rows = wanted.heads.min(body.height.saturating_sub(1));
        let [heads, body] =
            Layout::vertical([Constraint::Length(heads_rows), Constraint::Min(0)]).areas(body);
        let (text, list) = if wanted.list == 0 {
            (body, Rect::default())
        } else if self.has_items() {
            let [list, _, text] = Layout::horizontal([
                Constraint::Length(wanted.list_width),
                Constraint::Length(GAP),
                Constraint::Min(1),
            ])
            .areas(body);
            (text, list)
        } else {
            let [text, _, list] = Layout::horizontal([
                Constraint::Min(1),
                Constraint::Length(GAP),
                Constraint::Length(wanted.list_width),
            ])
            .areas(body);
            (text, list)
        };
        let first_option = (self.choice + 1).saturating_sub(usize::from(options.height));
        let body = TextColumn {
            area: text,
            ..layout.body
        };
        let rows_shown = usize::from(text.height);
        GateLayout {
            head,
            body,
            list,
            heads,
            rows_shown,
            options,
            first_option,
            effect,
            hints,
            ..layout
        }
    }

    /// The text of the gate: of the chosen item, of the chosen run, or what the gate is about.
    /// Also the row that says why the run failed.
    fn text_rows(&self, model: &ScreenModel, width: usize) -> (PrintedRows, Option<usize>) {
        if let Some(run) = self.runs.get(self.run) {
            return run_rows(run, &model.look.theme, width);
        }
        let style = model.look.theme.style(ThemeRole::Text);
        let rows = if let Some((id, _)) = self.items.get(self.item) {
            let item = model
                .session
                .as_ref()
                .and_then(|state| state.pending.get(*id));
            item.map(|item| plain_lines(&item.text, style, width))
                .unwrap_or_default()
        } else {
            text::lines(
                &self.gate,
                self.ask.as_ref(),
                model,
                &model.look.theme,
                width,
            )
        };
        let numbers = Vec::new();
        (PrintedRows { rows, numbers }, None)
    }
}

/// What a run printed, with a mark before the line that says why it failed.
fn run_rows(run: &GateRun, theme: &ScreenTheme, width: usize) -> (PrintedRows, Option<usize>) {
    let inner = width.saturating_sub(MARK.width()).max(1);
    let mut text = PrintedRows::of(&run.text, theme, inner);
    let printed = plain(run.text.trim_end());
    let line = place_of_telling_line(printed.lines(), &run.reason);
    let is_whole = !is_shortened(&run.text);
    let first = line
        .filter(|_| is_whole)
        .and_then(|line| text.numbers.iter().position(|number| *number == line + 1));
    let first = first.or_else(|| {
        let rows: Vec<String> = text.rows.iter().map(Line::to_string).collect();
        place_of_telling_line(rows.iter().map(String::as_str), &run.reason)
    });
    let Some(first) = first else {
        return (PrintedRows::of(&run.text, theme, width), None);
    };
    let number = text.numbers.get(first).copied();
    for (n, row) in text.rows.iter_mut().enumerate() {
        let is_decisive = text.numbers.get(n).copied() == number;
        let mark = if n == first { MARK } else { "  " };
        row.spans.insert(0, theme.span(ThemeRole::Bad, mark));
        if is_decisive {
            *row = std::mem::take(row).patch_style(Modifier::BOLD);
        }
    }
    (text, Some(first))
}

/// The size of these items together.
fn size_of(items: &[ItemId], model: &ScreenModel) -> u64 {
    let pending = model.session.as_ref().map(|state| &state.pending);
    let item = |id| {
        pending
            .and_then(|pending| pending.get(id))
            .map_or(0, |item| item.text.len() as u64)
    };
    items.iter().map(|id| item(*id)).sum()
}

fn reason_lines(reason: &str, model: &ScreenModel, width: usize) -> Vec<Line<'static>> {
    plain_lines(
        reason,
        model.look.theme.style(ThemeRole::Text),
        width.max(1),
    )
    .into_iter()
    .take(REASON)
    .collect()
}

/// How many rows each part would like to have.
#[derive(Clone, Copy)]
struct GateRows {
    reason: u16,
    body: u16,
    options: u16,
    effect: u16,
    heads: u16,
    list: usize,
    list_width: u16,
}
