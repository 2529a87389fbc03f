//! The viewer: the whole output of a run, a pending item, or the next prompt.
//!
//! # Invariants
//! - The output of a hook is shown from its first line, whatever its size; while the hook runs, it
//!   grows.
//! - Drawing reads no file: [`ViewerModal::prepare`] has read what is visible.

use std::path::Path;

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Margin, Rect},
    style::Style,
    text::Line,
    widgets::{Paragraph, Widget as _},
};

use crate::{
    engine::{ids::RunId, time::UnixTime},
    present::text::{grouped, plain, readable_size, running_clock},
    text::place_of_telling_line,
    tui::{
        ansi::{coloured_lines, only_colours},
        diff::{OutputComparison, sign_role},
        keymap::{GateKey, GlobalKey, KeyAction, Keymap, ScrollKey, ViewerKey},
        modals::{
            frame::{dialog, keys_that_fit, mark_matches},
            line_mark::{LineMark, MatchCount, TextMarks},
        },
        output_lines::OutputLines,
        runs::{RunEntry, RunList},
        stream::{SearchHit, SearchStep},
        text::{StyledText, expand_tabs, fit, window, wrap},
        theme::{ScreenLook, ScreenTheme, ThemeRole},
    },
};

/// How many lines above the reason of a failure are visible.
const ABOVE: usize = 2;
/// In bytes. More of an output file is not copied.
const COPIED: u64 = 8 << 20;

#[derive(Debug)]
pub struct ViewerModal {
    title: String,
    /// The output file, if there is one. Its lines come first.
    file: Option<OutputLines>,
    lines: Vec<String>,
    /// Two outputs instead of one text.
    comparison: Option<OutputComparison>,
    /// A note about the text: its size, what was cut.
    about: String,
    /// The run that the viewer follows. None if it is no output of a run that was running.
    live: Option<LiveRun>,
    top: ViewerPosition,
    /// How many lines the text has without the earlier runs below it. None: all of them.
    own: Option<usize>,
    /// The line to open at, until the first frame.
    opens_at: Option<Box<str>>,
    left: usize,
    wraps: bool,
    marks: Box<TextMarks>,
    /// The visible rows, made before each frame.
    shown: Vec<Line<'static>>,
    /// Where the view is, or that it follows.
    place: Box<str>,
}

/// A run whose output grows while the viewer shows it.
#[derive(Debug, Clone, Copy)]
struct LiveRun {
    run: RunId,
    /// Whether the end stays visible.
    follows: bool,
}

/// A line, and a row in it if it is wrapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct ViewerPosition {
    line: usize,
    row: usize,
}

/// How wide a screen with margins is.
const WITH_MARGIN: u16 = 60;

/// Columns and rows.
type ViewportSize = (usize, usize);

/// The size of the text area on a screen of this size: without the frame, the margins and the last
/// line.
pub fn room((width, height): (u16, u16)) -> ViewportSize {
    let sides = 2 + 2 * margin(width);
    (
        usize::from(width.saturating_sub(sides)).max(1),
        usize::from(height.saturating_sub(3)).max(1),
    )
}

/// The empty columns between the frame and the text. A narrow screen needs them for the text.
const fn margin(width: u16) -> u16 {
    if width < WITH_MARGIN { 0 } else { 1 }
}

impl ViewerModal {
    pub fn new(title: impl Into<String>, text: &str, about: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            file: None,
            lines: plain(text).lines().map(expand_tabs).collect(),
            comparison: None,
            about: about.into(),
            live: None,
            top: ViewerPosition::default(),
            own: None,
            opens_at: None,
            left: 0,
            wraps: true,
            marks: Box::default(),
            shown: Vec::new(),
            place: Box::default(),
        }
    }

    /// A viewer of a text in its own colours.
    pub fn coloured(title: impl Into<String>, text: &str, about: impl Into<String>) -> Self {
        let lines = only_colours(text).lines().map(with_tabs).collect();
        Self {
            lines,
            ..Self::new(title, "", about)
        }
    }

    /// A viewer of two outputs and their differences.
    pub fn compared(title: impl Into<String>, comparison: OutputComparison) -> Self {
        let about = if comparison.is_alike() && comparison.is_shortened() {
            "No differences in what creel kept; it left out a part of the output"
        } else if comparison.is_alike() {
            "= only times, ids or temporary paths differ from the run before"
        } else {
            "- the run before   + this run   = only times, ids or temporary paths differ"
        };
        Self {
            comparison: Some(comparison),
            ..Self::new(title, "", about)
        }
    }

    /// A viewer of an output file. A run that still runs is followed. Otherwise the text after the
    /// file follows.
    pub fn of_file(title: String, file: OutputLines, after: &str, live: Option<RunId>) -> Self {
        let about = readable_size(file.size());
        let own = Some(file.len()).filter(|_| live.is_none());
        let live = live.map(|run| LiveRun { run, follows: true });
        Self {
            file: Some(file),
            live,
            own,
            ..Self::coloured(title, after, about)
        }
    }

    /// The same with the earlier runs of the hook below.
    #[must_use]
    pub fn followed_by(mut self, earlier: &str) -> Self {
        self.own = Some(self.count());
        self.lines
            .extend(only_colours(earlier).lines().map(with_tabs));
        self
    }

    /// The same, opened at the line with this reason, or at the end if no line has it.
    #[must_use]
    pub fn opened_at(self, reason: String) -> Self {
        Self {
            opens_at: Some(reason.into()),
            ..self
        }
    }

    /// Moves to the line that says why the run failed.
    fn open_at(&mut self, reason: &str, room: ViewportSize) {
        let own = self.own.unwrap_or_else(|| self.count());
        let end = self.end_of(own, room);
        let found = (0..own).find(|n| {
            let line = plain(&self.line(*n));
            place_of_telling_line([line.as_str()].into_iter(), reason).is_some()
        });
        let line = |line: usize| ViewerPosition {
            line: line.saturating_sub(ABOVE),
            row: 0,
        };
        self.top = found.map_or(end, |found| line(found).min(end));
    }

    /// The text, without colours. Of a very large file, the beginning.
    fn text(&mut self) -> CopiedText {
        if let Some(comparison) = &self.comparison {
            let rows = 0..comparison.len();
            let row = |row| plain(&comparison.text(row)) + "\n";
            return CopiedText::whole(rows.map(row).collect());
        }
        let file = self.file.as_mut();
        let is_cut = file.as_ref().is_some_and(|file| file.size() > COPIED);
        let file = file.map(|file| plain(&file.beginning(COPIED)));
        let file = file.unwrap_or_default();
        CopiedText {
            text: format!("{file}{}", plain(&self.lines.join("\n"))),
            is_cut,
        }
    }

    /// What the key copies: the marked lines, else the line that a search has found, else the text.
    pub fn copied(&mut self) -> CopiedText {
        if let Some(mark) = self.marks.lines {
            return self.marked(mark);
        }
        if self.marks.query.is_empty() {
            return self.text();
        }
        let line = plain(&self.line(self.top.line));
        if line.to_lowercase().contains(&self.marks.query) {
            CopiedText::whole(line)
        } else {
            self.text()
        }
    }

    fn marked(&mut self, mark: LineMark) -> CopiedText {
        let mut text = String::new();
        for n in mark.lines() {
            if text.len() as u64 > COPIED {
                return CopiedText { text, is_cut: true };
            }
            if n > *mark.lines().start() {
                text.push('\n');
            }
            text.push_str(&plain(&self.line(n)));
        }
        CopiedText::whole(text)
    }

    /// Removes the mark. Returns whether there was one.
    pub fn unmark(&mut self) -> bool {
        self.marks.lines.take().is_some()
    }

    fn count(&self) -> usize {
        if let Some(comparison) = &self.comparison {
            return comparison.len();
        }
        self.file.as_ref().map_or(0, OutputLines::len) + self.lines.len()
    }

    /// A line with its colours, and without any other escape sequence.
    fn line(&mut self, n: usize) -> String {
        if let Some(comparison) = &self.comparison {
            return comparison.text(n);
        }
        let in_file = self.file.as_ref().map_or(0, OutputLines::len);
        match &mut self.file {
            Some(file) if n < in_file => with_tabs(&only_colours(&file.line(n))),
            Some(_) | None => self.lines.get(n - in_file).cloned().unwrap_or_default(),
        }
    }

    pub fn key(&mut self, action: KeyAction, room: ViewportSize) {
        self.fit_to(room.0);
        let page = room.1.saturating_sub(1).max(1);
        let place = (self.top.line, self.count());
        if LineMark::key(&mut self.marks.lines, action, place, page) {
            self.reveal_mark(room);
        } else {
            self.scroll(action, page, room);
        }
        let end = self.end(room);
        if let Some(live) = &mut self.live {
            // At the end, and with `G`, the view follows again; not while lines are marked.
            live.follows = self.marks.lines.is_none()
                && (action == ScrollKey::Bottom.into() || self.top >= end);
        }
    }

    /// Scrolls to the line at which the mark ends.
    fn reveal_mark(&mut self, room: ViewportSize) {
        let Some(mark) = self.marks.lines else {
            return;
        };
        let start = ViewerPosition {
            line: mark.cursor,
            row: 0,
        };
        // The line is the last one in sight, if it is below.
        let lowest = self.end_of(mark.cursor + 1, room);
        self.top = self.top.max(lowest).min(start);
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "an action without a meaning here does nothing"
    )]
    fn scroll(&mut self, action: KeyAction, page: usize, room: ViewportSize) {
        match action {
            KeyAction::Scroll(ScrollKey::Up) => self.back(1, room),
            KeyAction::Scroll(ScrollKey::Down) => self.on(1, room),
            KeyAction::Scroll(ScrollKey::PageUp) => self.back(page, room),
            KeyAction::Scroll(ScrollKey::PageDown) => self.on(page, room),
            KeyAction::Scroll(ScrollKey::Top) => self.top = ViewerPosition::default(),
            KeyAction::Scroll(ScrollKey::Bottom) => self.top = self.end(room),
            KeyAction::Viewer(ViewerKey::Wrap) => {
                self.wraps = !self.wraps;
                self.top.row = 0;
            }
            KeyAction::Gate(GateKey::NewerRun) => self.left += 8,
            KeyAction::Gate(GateKey::OlderRun) => self.left = self.left.saturating_sub(8),
            _ => {}
        }
    }

    /// How many rows a line needs.
    fn rows(&mut self, line: usize, width: usize) -> usize {
        if line >= self.count() {
            return 0;
        }
        let wraps = self.wraps && !self.is_beside();
        let text = self.line(line);
        if wraps {
            wrap(&pieces(&text, Style::default(), false), width, 0).len()
        } else {
            1
        }
    }

    fn fit_to(&mut self, width: usize) {
        if let Some(comparison) = &mut self.comparison {
            comparison.fit_to(width);
        }
    }

    /// Whether it shows two outputs beside each other.
    fn is_beside(&self) -> bool {
        self.comparison
            .as_ref()
            .is_some_and(OutputComparison::is_wide)
    }

    /// The position from which everything to the end is visible.
    fn end(&mut self, room: ViewportSize) -> ViewerPosition {
        self.end_of(self.count(), room)
    }

    /// The position from which the last of the first `count` lines are visible.
    fn end_of(&mut self, count: usize, (width, height): ViewportSize) -> ViewerPosition {
        let mut left = height;
        for line in (0..count).rev() {
            let rows = self.rows(line, width);
            if rows >= left {
                return ViewerPosition {
                    line,
                    row: rows - left,
                };
            }
            left -= rows;
        }
        ViewerPosition::default()
    }

    fn back(&mut self, mut rows: usize, (width, _): ViewportSize) {
        while rows > self.top.row && self.top.line > 0 {
            rows -= self.top.row + 1;
            let line = self.top.line - 1;
            self.top = ViewerPosition {
                line,
                row: self.rows(line, width).saturating_sub(1),
            };
        }
        self.top.row = self.top.row.saturating_sub(rows);
    }

    /// Scrolls forward, but not beyond the end, unless a search has already moved beyond it.
    fn on(&mut self, mut rows: usize, room: ViewportSize) {
        let last = self.end(room).max(self.top);
        while self.top < last && rows > 0 {
            let left = self
                .rows(self.top.line, room.0)
                .saturating_sub(self.top.row);
            if rows < left {
                self.top.row += rows;
                break;
            }
            rows -= left;
            self.top = ViewerPosition {
                line: self.top.line + 1,
                row: 0,
            };
        }
        self.top = self.top.min(last);
    }

    /// Moves to the next or previous line that contains the text, going around; returns whether
    /// there is one. A new search begins with the first visible line, and an empty one removes the
    /// highlights.
    pub fn search(&mut self, query: &str, step: SearchStep) -> Option<SearchHit> {
        let query = query.to_lowercase();
        if query.is_empty() {
            self.marks.query.clear();
            return None;
        }
        let (count, top) = (self.count(), self.top.line);
        let is_again = self.marks.query == query;
        let from = top + usize::from(is_again);
        if !is_again {
            self.marks.query.clone_from(&query);
            self.marks.matches = MatchCount::default();
        }
        let mut holds = |n: &usize| plain(&self.line(*n)).to_lowercase().contains(&query);
        let found = match step {
            SearchStep::Next => (from..count).chain(0..from.min(count)).find(&mut holds),
            SearchStep::Previous => (0..top.min(count))
                .rev()
                .chain((top.min(count)..count).rev())
                .find(&mut holds),
            SearchStep::Nearest => nearest(top, count, &mut holds),
        };
        let hit = found.map(|line| self.hit_at(line));
        self.top = found.map_or(self.top, |line| ViewerPosition { line, row: 0 });
        if let (Some(live), Some(_)) = (&mut self.live, found) {
            live.follows = false;
        }
        if let (Some(mark), Some(line)) = (&mut self.marks.lines, found) {
            mark.cursor = line;
        }
        hit
    }

    /// Which match a line is. Every search counts more of a very long text.
    fn hit_at(&mut self, line: usize) -> SearchHit {
        let (count, query) = (self.count(), self.marks.query.clone());
        let mut matches = std::mem::take(&mut self.marks.matches);
        // Lines that were counted while the text grew can have changed.
        if self.live.is_some() {
            matches = MatchCount::default();
        }
        matches.advance(count, |n| {
            plain(&self.line(n)).to_lowercase().contains(&query)
        });
        self.marks.matches = matches;
        self.marks.matches.hit(line, count)
    }

    /// Reads what the next frame shows.
    pub fn prepare(&mut self, runs: &RunList, moment: UnixTime, look: &ScreenLook, area: Rect) {
        let room = room((area.width, area.height));
        self.fit_to(room.0);
        let run = self.live.and_then(|live| runs.get(live.run));
        self.refresh(run);
        if let Some(reason) = self.opens_at.take() {
            self.open_at(&reason, room);
        }
        if self.live.is_some_and(|live| live.follows) {
            self.top = self.end(room);
        }
        self.place = self.place(run, moment, &look.keymap).into();
        self.shown = self.visible(&look.theme, room);
    }

    /// Looks at what the run has printed since. Without a file here, only the end of its output is
    /// known.
    fn refresh(&mut self, run: Option<&RunEntry>) {
        if self.live.is_none() {
            return;
        }
        if let Some(file) = &mut self.file {
            file.refresh();
            self.about = readable_size(file.size());
        }
        let Some(run) = run else { return };
        if self.file.as_ref().is_none_or(OutputLines::is_empty) {
            let text = run.output();
            self.lines = text.lines().map(str::to_owned).collect();
            let about = if text.is_empty() {
                "Nothing was printed yet"
            } else {
                "The end of the output"
            };
            about.clone_into(&mut self.about);
        } else {
            self.lines.clear();
        }
        if run.ended.is_some() {
            self.about = format!("Ended · {}", self.about);
        }
    }

    fn place(&self, run: Option<&RunEntry>, moment: UnixTime, keymap: &Keymap) -> String {
        if let Some(mark) = self.marks.lines {
            return mark.words();
        }
        let count = self.own.unwrap_or_else(|| self.count());
        let position = || match self.top.line + 1 {
            line if line <= count || self.own.is_none() => {
                format!("line {} of {}", grouped(line.min(count)), grouped(count))
            }
            _ => "earlier runs".to_owned(),
        };
        let (Some(live), Some(run)) = (self.live, run) else {
            return position();
        };
        let (lines, time) = (grouped(count), running_clock(run.took(moment)));
        let unit = if count == 1 { "line" } else { "lines" };
        match (&run.ended, live.follows) {
            (None, true) => format!("● live · {lines} {unit} · {time}"),
            (None, false) => format!(
                "{} · {} follows · {time}",
                position(),
                keymap.key(ScrollKey::Bottom)
            ),
            (Some(finished), true) => {
                format!("{} · {lines} {unit} · {time}", finished.end.describe())
            }
            (Some(finished), false) => format!("{} · {}", finished.end.describe(), position()),
        }
    }

    fn visible(
        &mut self,
        theme: &ScreenTheme,
        (width, height): ViewportSize,
    ) -> Vec<Line<'static>> {
        let style = theme.style(ThemeRole::Text);
        let mut rows: Vec<Line<'static>> = Vec::with_capacity(height);
        for n in self.top.line..self.count() {
            if rows.len() >= height + self.top.row {
                break;
            }
            if let Some(comparison) = self
                .comparison
                .as_ref()
                .filter(|comparison| comparison.is_wide())
            {
                let row = comparison.wide_row(n, self.left, width, theme);
                rows.push(LineMark::shown(self.marks.lines, n, row, theme));
                continue;
            }
            let line = self.line(n);
            let mut pieces = pieces(&line, style, theme.keeps_colours);
            if let (Some(comparison), Some((text, first))) = (&self.comparison, pieces.first_mut())
            {
                // The sign and the text have the style of the sign, unless the text has its own.
                let role = sign_role(comparison.sign(n));
                *first = if text.starts_with(' ') {
                    *first
                } else {
                    theme.style(role)
                };
            }
            let of_line = if self.wraps {
                wrap(&pieces, width, 0)
            } else {
                vec![window(&pieces, self.left, width)]
            };
            let marked = of_line
                .into_iter()
                .map(|row| LineMark::shown(self.marks.lines, n, row, theme));
            rows.extend(marked);
        }
        rows.into_iter().skip(self.top.row).take(height).collect()
    }

    pub fn draw(&self, keymap: &Keymap, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let inside = dialog(area, &self.title, ThemeRole::Accent, theme, buffer);
        let inside = inside.inner(Margin::new(margin(area.width), 0));
        let [text, foot] =
            Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(inside);
        Paragraph::new(self.shown.clone()).render(text, buffer);
        if !self.marks.query.is_empty() {
            mark_matches(&self.marks.query, theme, text, buffer);
        }
        let keys = [
            (KeyAction::Scroll(ScrollKey::Search), "search"),
            (KeyAction::Viewer(ViewerKey::Wrap), "wrap"),
            (KeyAction::Viewer(ViewerKey::Mark), "mark"),
            (KeyAction::Scroll(ScrollKey::Copy), "copy"),
            (KeyAction::Global(GlobalKey::Help), "keys"),
            (KeyAction::Viewer(ViewerKey::Close), "close"),
        ];
        let of_mark = [
            (ScrollKey::Copy.into(), "copy"),
            (ScrollKey::Down.into(), "more"),
            (ScrollKey::Up.into(), "fewer"),
            (ScrollKey::Bottom.into(), "to the end"),
            (ViewerKey::Close.into(), "unmark"),
        ];
        let keys = if self.marks.lines.is_some() {
            &of_mark[..]
        } else {
            &keys[..]
        };
        let keys = keys
            .iter()
            .map(|(action, about)| format!("{} {about}", keymap.key(*action)));
        let hints: Vec<String> = [self.place.to_string()].into_iter().chain(keys).collect();
        let line = keys_that_fit(&hints, usize::from(foot.width));
        theme.line(ThemeRole::Faint, line).render(foot, buffer);
        let edge = Rect {
            x: area.x + 1,
            y: area.bottom() - 1,
            width: area.width.saturating_sub(2),
            height: 1,
        };
        let about = fit(&format!(" {} ", self.about), usize::from(edge.width));
        theme.line(ThemeRole::Accent, about).render(edge, buffer);
    }
}

/// What the copy key copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedText {
    pub text: String,
    /// Whether it is only the beginning of a very large text.
    pub is_cut: bool,
}

impl CopiedText {
    pub const fn whole(text: String) -> Self {
        Self {
            text,
            is_cut: false,
        }
    }
}

/// The output of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct RunOutput {
    pub title: String,
    /// Relative to the session's folder.
    pub file: Option<String>,
    /// What to show without a readable file.
    pub otherwise: String,
    /// The earlier runs of the hook, which follow.
    pub earlier: String,
    /// The run, if it still runs: the viewer follows it.
    pub live: Option<RunId>,
    /// Why it failed. None if it did not fail.
    pub reason: Option<String>,
}

impl RunOutput {
    pub fn viewer(self, folder: &Path) -> ViewerModal {
        let Self {
            title,
            file,
            otherwise,
            earlier,
            live,
            reason,
        } = self;
        let lines = file
            .map(|file| OutputLines::new(folder.join(file)))
            .filter(|lines| live.is_some() || !lines.is_empty());
        let viewer = match (lines, live) {
            (Some(lines), Some(run)) => ViewerModal::of_file(title, lines, "", Some(run)),
            (Some(lines), None) => ViewerModal::of_file(title, lines, &earlier, None),
            (None, _) => {
                let about = readable_size(otherwise.len() as u64);
                ViewerModal::coloured(title, &otherwise, about).followed_by(&earlier)
            }
        };
        match reason {
            Some(reason) => viewer.opened_at(reason),
            None => viewer,
        }
    }
}

/// The line that is nearest to `top`, of those that `holds` accepts.
fn nearest(top: usize, count: usize, holds: &mut impl FnMut(&usize) -> bool) -> Option<usize> {
    (0..=count).find_map(|by| {
        let ahead = Some(top + by).filter(|line| *line < count);
        let back = top.checked_sub(by).filter(|line| by > 0 && *line < count);
        ahead.into_iter().chain(back).find(|line| holds(line))
    })
}

/// A line with its tabs expanded. Behind a colour, the column is not known: such a tab has a fixed
/// width.
fn with_tabs(line: &str) -> String {
    if line.contains('\u{1b}') {
        line.to_owned()
    } else {
        expand_tabs(line)
    }
}

/// One line as styled pieces.
fn pieces(line: &str, style: Style, keeps_colours: bool) -> Vec<StyledText> {
    coloured_lines(line, style, keeps_colours)
        .into_iter()
        .next()
        .unwrap_or_default()
}
