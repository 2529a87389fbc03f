//! The changes of a turn, an iteration or the session, over the panes.
//!
//! Does not read them: see [`crate::tui::diff_reader`].
//!
//! # Invariants
//! - Drawing costs what is visible, whatever the size of the change.

use std::rc::Rc;

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Margin, Rect},
    text::{Line, Span},
    widgets::{Paragraph, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    present::text::plain_line,
    report::session_diff::DiffPart,
    tui::{
        keymap::{DiffKey, GateKey, GlobalKey, KeyAction, Keymap, ScrollKey, ViewerKey},
        modals::{
            frame::{framed, keys_that_fit, mark_matches},
            line_mark::{LineMark, MatchCount},
        },
        patch::{PatchForm, PatchRows},
        stream::SearchHit,
        text::fit,
        theme::{ScreenTheme, ThemeRole},
    },
};

/// How many columns one step to the side moves.
const STEP: usize = 8;
/// How wide a screen with margins is.
const WITH_MARGIN: u16 = 60;

/// A part that can be chosen, with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffChoice {
    pub part: DiffPart,
    pub name: String,
}

#[derive(Debug)]
pub struct DiffModal {
    choices: Vec<DiffChoice>,
    at: usize,
    content: DiffContent,
    top: usize,
    left: usize,
    /// What was searched for last, in lower case.
    query: String,
    matches: MatchCount,
    /// The rows that the user has marked.
    mark: Option<LineMark>,
    /// The size of the text, as it was drawn last.
    room: (usize, usize),
    shown: Vec<Line<'static>>,
}

#[derive(Debug)]
enum DiffContent {
    Reading,
    Ready(Rc<PatchRows>),
    Failed(String),
}

impl DiffModal {
    /// Begins with the first of these parts. There is at least one.
    pub fn new(choices: Vec<DiffChoice>) -> Self {
        Self {
            choices,
            at: 0,
            content: DiffContent::Reading,
            top: 0,
            left: 0,
            query: String::new(),
            matches: MatchCount::default(),
            mark: None,
            room: (80, 20),
            shown: Vec::new(),
        }
    }

    /// The part that it shows.
    pub fn part(&self) -> Option<DiffPart> {
        self.choices.get(self.at).map(|choice| choice.part)
    }

    /// Shows the next part. Returns it.
    pub fn next_part(&mut self) -> Option<DiffPart> {
        self.at = (self.at + 1) % self.choices.len().max(1);
        (self.content, self.top, self.left) = (DiffContent::Reading, 0, 0);
        self.mark = None;
        self.part()
    }

    /// Takes what was read. What the user looks at stays in place.
    pub fn take(&mut self, read: Result<Rc<PatchRows>, String>) {
        self.content = match read {
            Ok(rows) => DiffContent::Ready(rows),
            Err(why) => DiffContent::Failed(why),
        };
        // The rows can be other ones.
        (self.matches, self.mark) = (MatchCount::default(), None);
        self.top = self.top.min(self.last_top());
    }

    fn form(&self) -> PatchForm {
        PatchForm::for_width(self.room.0)
    }

    fn count(&self) -> usize {
        match &self.content {
            DiffContent::Ready(rows) => rows.len(self.form()),
            DiffContent::Reading | DiffContent::Failed(_) => 0,
        }
    }

    fn last_top(&self) -> usize {
        self.count().saturating_sub(self.room.1)
    }

    /// What the key copies: the marked rows, else the patch.
    pub fn copied(&self) -> String {
        let form = self.form();
        match (&self.content, self.mark) {
            (DiffContent::Ready(rows), Some(mark)) => rows.copied(form, mark.lines()),
            (DiffContent::Ready(rows), None) => rows.text.clone(),
            (DiffContent::Reading | DiffContent::Failed(_), _) => String::new(),
        }
    }

    /// Removes the mark. Returns whether there was one.
    pub fn unmark(&mut self) -> bool {
        self.mark.take().is_some()
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "an action without a meaning here does nothing"
    )]
    pub fn key(&mut self, action: KeyAction) {
        let page = self.room.1.saturating_sub(1).max(1);
        let place = (self.top, self.count());
        if LineMark::key(&mut self.mark, action, place, page) {
            if let Some(mark) = self.mark {
                let lowest = (mark.cursor + 1).saturating_sub(self.room.1);
                self.top = self.top.max(lowest).min(mark.cursor);
            }
            return;
        }
        match action {
            KeyAction::Diff(DiffKey::NextFile) => self.show_file(true),
            KeyAction::Diff(DiffKey::PreviousFile) => self.show_file(false),
            KeyAction::Gate(GateKey::NewerRun) => self.left += STEP,
            KeyAction::Gate(GateKey::OlderRun) => self.left = self.left.saturating_sub(STEP),
            KeyAction::Scroll(key) => {
                if let Some(by) = key.rows(page) {
                    self.top = self.top.saturating_add_signed(by).min(self.last_top());
                }
            }
            _ => {}
        }
    }

    fn show_file(&mut self, forward: bool) {
        if let DiffContent::Ready(rows) = &self.content
            && let Some(row) = rows.next_file(self.form(), self.top, forward)
        {
            self.top = row;
        }
    }

    /// Moves to the next or previous row that contains the text, going around. Returns the match,
    /// if there is one. An empty text removes the highlights.
    pub fn search(&mut self, query: &str, forward: bool) -> Option<SearchHit> {
        let query = query.to_lowercase();
        let is_again = query == self.query;
        if !is_again {
            self.query.clone_from(&query);
            self.matches = MatchCount::default();
        }
        let (form, count, top) = (self.form(), self.count(), self.top);
        let DiffContent::Ready(rows) = &self.content else {
            return None;
        };
        if query.is_empty() {
            return None;
        }
        let holds = |row: &usize| rows.holds(form, *row, &query);
        let from = top + usize::from(is_again);
        let found = if forward {
            (from..count).chain(0..from.min(count)).find(holds)
        } else {
            (0..top.min(count))
                .rev()
                .chain((top.min(count)..count).rev())
                .find(holds)
        };
        let found = found?;
        self.matches
            .advance(count, |row| rows.holds(form, row, &query));
        self.top = found;
        if let Some(mark) = &mut self.mark {
            mark.cursor = found;
        }
        Some(self.matches.hit(found, count))
    }

    /// Makes the visible rows.
    pub fn prepare(&mut self, theme: &ScreenTheme, area: Rect) {
        let places = places(area);
        self.room = (
            usize::from(places.text.width),
            usize::from(places.text.height),
        );
        let form = self.form();
        self.shown = match &self.content {
            DiffContent::Reading => vec![theme.line(
                ThemeRole::Faint,
                "Reading the changes; git compares the files…",
            )],
            DiffContent::Failed(why) => {
                vec![theme.line(ThemeRole::Warning, fit(why, self.room.0))]
            }
            DiffContent::Ready(rows) => (self.top..rows.len(form))
                .take(self.room.1)
                .map(|row| {
                    let line = rows.row(form, row, (self.left, self.room.0), theme);
                    LineMark::shown(self.mark, row, line, theme)
                })
                .collect(),
        };
    }

    pub fn draw(&self, keymap: &Keymap, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let places = places(area);
        framed(area, "Changes", ThemeRole::Accent, theme, buffer);
        self.heads(theme).render(places.heads, buffer);
        if let DiffContent::Ready(rows) = &self.content {
            theme
                .line(ThemeRole::Text, rows.summary.clone())
                .right_aligned()
                .render(places.heads, buffer);
        }
        Paragraph::new(self.shown.clone()).render(places.text, buffer);
        if !self.query.is_empty() {
            mark_matches(&self.query, theme, places.text, buffer);
        }
        let hints = self.hints(keymap);
        let line = keys_that_fit(&hints, usize::from(places.hints.width));
        theme
            .line(ThemeRole::Faint, line)
            .render(places.hints, buffer);
    }

    /// The parts; the one that is visible stands out.
    fn heads(&self, theme: &ScreenTheme) -> Line<'static> {
        let mut spans = Vec::new();
        for (n, choice) in self.choices.iter().enumerate() {
            let role = if n == self.at {
                ThemeRole::Selected
            } else {
                ThemeRole::Faint
            };
            spans.push(theme.span(role, format!(" {} ", plain_line(&choice.name, 40))));
            spans.push(Span::raw(" "));
        }
        Line::from(spans)
    }

    fn hints(&self, keymap: &Keymap) -> Vec<String> {
        let place = match &self.content {
            DiffContent::Ready(rows) if !rows.is_empty() => {
                let (file, files) = rows.file_at(self.form(), self.top);
                format!("file {file} of {files}")
            }
            DiffContent::Ready(_) | DiffContent::Reading | DiffContent::Failed(_) => String::new(),
        };
        if let Some(mark) = self.mark {
            let copy = format!("{} copy", keymap.key(ScrollKey::Copy));
            let unmark = format!("{} unmark", keymap.key(ViewerKey::Close));
            return vec![mark.words(), copy, unmark];
        }
        let others = self.choices.len() > 1;
        let keys = [
            (KeyAction::Diff(DiffKey::NextPart), "other part", others),
            (DiffKey::NextFile.into(), "next file", true),
            (ScrollKey::Search.into(), "search", true),
            (ViewerKey::Mark.into(), "mark", true),
            (ScrollKey::Copy.into(), "copy", true),
            (GlobalKey::Help.into(), "keys", true),
            (ViewerKey::Close.into(), "close", true),
        ];
        let keys = keys
            .into_iter()
            .filter(|(.., works)| *works)
            .map(|(action, about, _)| format!("{} {about}", keymap.key(action)));
        [place]
            .into_iter()
            .filter(|place| place.width() > 0)
            .chain(keys)
            .collect()
    }
}

struct DiffPlaces {
    heads: Rect,
    text: Rect,
    hints: Rect,
}

fn places(area: Rect) -> DiffPlaces {
    let side = if area.width < WITH_MARGIN { 1 } else { 2 };
    let inside = area.inner(Margin::new(side, 1));
    let rows = [
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ];
    let [heads, text, hints] = Layout::vertical(rows).areas(inside);
    DiffPlaces { heads, text, hints }
}
