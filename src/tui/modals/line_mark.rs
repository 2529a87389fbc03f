//! The lines that the user has marked in a text, and the matches of a search in it.
//!
//! # Invariants
//! - A mark has at least one line, and all of them exist.
//! - The count of matches never claims lines that were not looked at.

use std::ops::RangeInclusive;

use ratatui::text::{Line, Span};

use crate::{
    present::text::{grouped, plural},
    tui::{
        keymap::{KeyAction, ViewerKey},
        stream::SearchHit,
        theme::{ScreenTheme, ThemeRole},
    },
};

/// The lines from where the mark began to the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineMark {
    anchor: usize,
    pub cursor: usize,
}

impl LineMark {
    const fn at(line: usize) -> Self {
        Self {
            anchor: line,
            cursor: line,
        }
    }

    pub fn lines(self) -> RangeInclusive<usize> {
        self.anchor.min(self.cursor)..=self.anchor.max(self.cursor)
    }

    /// A row of this line, as it looks if the line is marked.
    pub fn shown(
        mark: Option<Self>,
        line: usize,
        row: Line<'static>,
        theme: &ScreenTheme,
    ) -> Line<'static> {
        if !mark.is_some_and(|mark| mark.lines().contains(&line)) {
            return row;
        }
        let style = theme.style(ThemeRole::Selected);
        let mut row = theme.selected(row);
        for span in &mut row.spans {
            span.style = span.style.patch(style);
        }
        if row.spans.is_empty() {
            // An empty line needs a cell to be seen.
            row.spans.push(Span::styled(" ", style));
        }
        row
    }

    /// `1 line marked`.
    pub fn words(self) -> String {
        let lines = self.anchor.abs_diff(self.cursor) + 1;
        format!("{} {} marked", grouped(lines), plural(lines, "line"))
    }

    /// Handles a key in a text with `count` lines. A mark begins at line `first`. Returns whether the
    /// key has to do with marks.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "other actions have nothing to do with marks"
    )]
    pub fn key(
        mark: &mut Option<Self>,
        action: KeyAction,
        (first, count): (usize, usize),
        page: usize,
    ) -> bool {
        let by = match action {
            KeyAction::Viewer(ViewerKey::Mark) if mark.take().is_some() => return true,
            KeyAction::Viewer(ViewerKey::Mark) => Some(0),
            KeyAction::Viewer(ViewerKey::MarkUp) => Some(-1),
            KeyAction::Viewer(ViewerKey::MarkDown) => Some(1),
            KeyAction::Scroll(key) if mark.is_some() => key.rows(page),
            _ => None,
        };
        let (Some(by), Some(last)) = (by, count.checked_sub(1)) else {
            return false;
        };
        let mark = mark.get_or_insert(Self::at(first.min(last)));
        mark.cursor = mark.cursor.saturating_add_signed(by).min(last);
        true
    }
}

/// What is highlighted in a text.
#[derive(Debug, Default)]
pub struct TextMarks {
    /// What was searched for last, in lower case.
    pub query: String,
    pub matches: MatchCount,
    pub lines: Option<LineMark>,
}

/// How many lines of a text one look at it counts.
const COUNTED: usize = 100_000;
/// More lines with a match are not counted.
const MOST: usize = 100_000;

/// The lines that have a match, as far as they are counted.
#[derive(Debug, Default)]
pub struct MatchCount {
    lines: Vec<usize>,
    /// The first line that was not looked at.
    next: usize,
}

impl MatchCount {
    /// Looks at more lines of a text with `count` lines.
    pub fn advance(&mut self, count: usize, mut holds: impl FnMut(usize) -> bool) {
        // The last line may have grown since.
        let end = count.min(self.next.saturating_add(COUNTED));
        while self.next < end && self.lines.len() < MOST {
            if holds(self.next) {
                self.lines.push(self.next);
            }
            self.next += 1;
        }
    }

    /// Which match a line is, in a text with `count` lines.
    pub fn hit(&self, line: usize, count: usize) -> SearchHit {
        let nth = self.lines.partition_point(|found| *found <= line);
        SearchHit {
            nth: if line < self.next { nth } else { 0 },
            of: self.lines.len(),
            is_all: self.next >= count,
        }
    }
}
