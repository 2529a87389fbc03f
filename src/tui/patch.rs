//! What a session changed, as rows of the screen: one below the other, or before and after beside
//! each other.
//!
//! # Invariants
//! - A patch is read once. A row becomes a line only when it is drawn.
//! - Text of files has no control characters.

use std::{collections::BTreeSet, ops::RangeInclusive};

use ratatui::{
    style::Style,
    text::{Line, Span},
};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    present::text::{counted, plain},
    report::session_diff::{ChangedFile, DiffSource, SessionDiff},
    tui::{
        text::{expand_tabs, fit, window, wrap},
        theme::{ScreenTheme, ThemeRole},
    },
};

/// How many rows are kept. `creel diff` prints all of a larger change.
const MOST: usize = 200_000;
/// In columns. A longer note has several rows.
const NOTE: usize = 56;
/// In columns. From this width on, before and after are beside each other.
const WIDE: usize = 150;

/// How rows stand on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchForm {
    Stacked,
    Beside,
}

impl PatchForm {
    pub const fn for_width(width: usize) -> Self {
        if width >= WIDE {
            Self::Beside
        } else {
            Self::Stacked
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum PatchLine {
    Empty,
    /// A file in the list at the top: its counts and its name.
    Listed(String, String),
    /// The beginning of a file: its name and its counts.
    File(String, String),
    Note(String),
    /// Where in the file the next lines are.
    Hunk(String),
    Same {
        old: usize,
        new: usize,
        text: String,
    },
    /// Without a number, the agent did not report where it is.
    Gone(Option<usize>, String),
    New(Option<usize>, String),
}

/// A row of the wide form, by the lines that it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PatchPair {
    Whole(usize),
    Beside(Option<usize>, Option<usize>),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct PatchRows {
    lines: Vec<PatchLine>,
    pairs: Vec<PatchPair>,
    /// The columns of a line number.
    digits: usize,
    /// `+12 −4 in 2 files`.
    pub summary: String,
    /// The lines that were added and removed, if all of them are known.
    pub counted: Option<(usize, usize)>,
    /// The patch, for the clipboard.
    pub text: String,
    files: usize,
}

/// The numbers of the next lines, and how many are left of the hunk.
#[derive(Debug, Default, Clone, Copy)]
struct HunkPosition {
    old: usize,
    new: usize,
    old_left: usize,
    new_left: usize,
}

impl PatchRows {
    pub fn new(diff: &SessionDiff) -> Self {
        let mut rows = Self {
            summary: summary(diff),
            counted: diff.counted_lines(),
            files: diff.files.len(),
            ..Self::default()
        };
        for note in diff.notes.iter().cloned().chain(more_files(diff)) {
            let rows_of_note = wrap(&[(plain(&note), Style::default())], NOTE, 0);
            let text = rows_of_note.iter().map(ToString::to_string);
            rows.lines
                .extend(text.map(|text| PatchLine::Note(text.trim_end().to_owned())));
        }
        if diff.files.is_empty() && rows.lines.is_empty() {
            rows.lines
                .push(PatchLine::Note("Nothing has changed.".to_owned()));
        }
        if diff.files.len() > 1 {
            let listed = diff
                .files
                .iter()
                .map(|file| PatchLine::Listed(counts(file), plain(&file.path).replace('\n', " ")));
            rows.lines.extend(listed);
        }
        for (n, file) in diff.files.iter().enumerate() {
            if rows.lines.len() >= MOST {
                let left = counted(diff.files.len() - n, "more file");
                let note = format!("This is too much for the screen: `creel diff` prints {left}.");
                rows.lines.push(PatchLine::Note(note));
                break;
            }
            rows.add(file);
        }
        rows.digits = rows.lines.iter().map(number_of).max().unwrap_or(0);
        rows.digits = rows.digits.to_string().len();
        rows.pairs = paired(&rows.lines);
        rows
    }

    fn add(&mut self, file: &ChangedFile) {
        if !self.lines.is_empty() {
            self.lines.push(PatchLine::Empty);
        }
        let path = plain(&file.path).replace('\n', " ");
        self.lines.push(PatchLine::File(path, counts(file)));
        self.text += &file.text;
        let mut at = HunkPosition::default();
        let clean = plain(&file.text);
        for line in clean.lines() {
            if self.lines.len() >= MOST {
                self.lines.push(PatchLine::Note(
                    "The rest of this file is too much for the screen.".to_owned(),
                ));
                return;
            }
            self.lines.extend(at.line(line));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.files == 0
    }

    pub fn len(&self, form: PatchForm) -> usize {
        match form {
            PatchForm::Stacked => self.lines.len(),
            PatchForm::Beside => self.pairs.len(),
        }
    }

    /// The row at which the next file begins, or the one before.
    pub fn next_file(&self, form: PatchForm, from: usize, forward: bool) -> Option<usize> {
        let is_file =
            |row: &usize| matches!(self.first_line(form, *row), Some(PatchLine::File(..)));
        if forward {
            (from + 1..self.len(form)).find(is_file)
        } else {
            (0..from).rev().find(is_file)
        }
    }

    /// The number and the count of the file that a row belongs to.
    pub fn file_at(&self, form: PatchForm, row: usize) -> (usize, usize) {
        let is_file =
            |row: &usize| matches!(self.first_line(form, *row), Some(PatchLine::File(..)));
        let before = (0..=row.min(self.len(form).saturating_sub(1)))
            .filter(is_file)
            .count();
        (before.max(1).min(self.files), self.files)
    }

    fn first_line(&self, form: PatchForm, row: usize) -> Option<&PatchLine> {
        let line = match form {
            PatchForm::Stacked => row,
            PatchForm::Beside => match self.pairs.get(row)? {
                PatchPair::Whole(line) => *line,
                PatchPair::Beside(before, now) => before.or(*now)?,
            },
        };
        self.lines.get(line)
    }

    /// Whether a row contains a text, which is in lower case.
    pub fn holds(&self, form: PatchForm, row: usize, query: &str) -> bool {
        let has = |line: usize| {
            let text = self.lines.get(line).map_or("", text_of);
            text.to_lowercase().contains(query)
        };
        match (form, self.pairs.get(row)) {
            (PatchForm::Stacked, _) => has(row),
            (PatchForm::Beside, Some(PatchPair::Whole(line))) => has(*line),
            (PatchForm::Beside, Some(PatchPair::Beside(before, now))) => {
                before.is_some_and(has) || now.is_some_and(has)
            }
            (PatchForm::Beside, None) => false,
        }
    }

    /// The text of some rows, as a patch has it.
    pub fn copied(&self, form: PatchForm, rows: RangeInclusive<usize>) -> String {
        let lines_of = |row: usize| match (form, self.pairs.get(row)) {
            (PatchForm::Stacked, _) => [Some(row), None],
            (PatchForm::Beside, Some(PatchPair::Whole(line))) => [Some(*line), None],
            (PatchForm::Beside, Some(PatchPair::Beside(before, now))) => [*before, *now],
            (PatchForm::Beside, None) => [None, None],
        };
        // In the order of the patch: what is gone comes before what came instead.
        let lines: BTreeSet<usize> = rows.flat_map(lines_of).flatten().collect();
        let line = |n: usize| {
            self.lines
                .get(n)
                .map(|line| format!("{}{}\n", sign_of(line), text_of(line)))
        };
        lines.into_iter().filter_map(line).collect()
    }

    /// A row, from a column of its text on.
    pub fn row(
        &self,
        form: PatchForm,
        row: usize,
        (left, width): (usize, usize),
        theme: &ScreenTheme,
    ) -> Line<'static> {
        let pair = match form {
            PatchForm::Stacked => PatchPair::Whole(row),
            PatchForm::Beside => match self.pairs.get(row) {
                Some(pair) => *pair,
                None => return Line::default(),
            },
        };
        match pair {
            PatchPair::Whole(line) => self.line(line, Side::New, (left, width), theme),
            PatchPair::Beside(before, now) => {
                let half = width.saturating_sub(3) / 2;
                let side = |line: Option<usize>, side| {
                    line.map(|line| self.line(line, side, (left, half), theme))
                        .unwrap_or_default()
                };
                let (before, now) = (side(before, Side::Old), side(now, Side::New));
                let gap = " ".repeat(half.saturating_sub(before.width()));
                let mut spans = before.spans;
                spans.push(Span::raw(gap));
                spans.push(theme.span(ThemeRole::Border, " │ "));
                spans.extend(now.spans);
                Line::from(spans)
            }
        }
    }

    fn line(
        &self,
        line: usize,
        side: Side,
        (left, width): (usize, usize),
        theme: &ScreenTheme,
    ) -> Line<'static> {
        let Some(line) = self.lines.get(line) else {
            return Line::default();
        };
        let of_file = |number: Option<usize>, sign: &str, text: &str, role| {
            let number = number.map(|number| number.to_string()).unwrap_or_default();
            let head = format!("{number:>0$} ", self.digits);
            let room = width.saturating_sub(head.width() + 2);
            let mut line = window(&[(text.to_owned(), theme.style(role))], left, room);
            line.spans.insert(0, theme.span(role, format!("{sign} ")));
            line.spans.insert(0, theme.span(ThemeRole::Faint, head));
            line
        };
        match line {
            PatchLine::Empty => Line::default(),
            PatchLine::Listed(counts, path) => Line::from(vec![
                theme.span(ThemeRole::Faint, format!("{counts:>12}  ")),
                theme.span(ThemeRole::Text, fit(path, width.saturating_sub(14))),
            ]),
            PatchLine::File(path, counts) => {
                let counts = format!("  {counts} ");
                let path = fit(path, width.saturating_sub(counts.width() + 2));
                let rule = width.saturating_sub(path.width() + counts.width());
                Line::from(vec![
                    theme.span(ThemeRole::Heading, path),
                    theme.span(ThemeRole::Text, counts),
                    theme.span(ThemeRole::Border, "─".repeat(rule)),
                ])
            }
            PatchLine::Note(note) => {
                let style = theme.style(ThemeRole::Warning);
                window(&[(note.clone(), style)], left, width)
            }
            PatchLine::Hunk(place) => theme.line(ThemeRole::Faint, fit(place, width)),
            PatchLine::Same { old, new, text } => {
                let number = if side == Side::Old { old } else { new };
                of_file(Some(*number), " ", text, ThemeRole::Text)
            }
            PatchLine::Gone(number, text) => of_file(*number, "-", text, ThemeRole::Bad),
            PatchLine::New(number, text) => of_file(*number, "+", text, ThemeRole::Good),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Old,
    New,
}

impl HunkPosition {
    /// The row for a line of a patch. None if it only repeats the file's name.
    fn line(&mut self, line: &str) -> Option<PatchLine> {
        if self.old_left == 0 && self.new_left == 0 {
            return self.head(line);
        }
        let text = |line: &str| expand_tabs(line.get(1..).unwrap_or_default());
        Some(match line.as_bytes().first() {
            Some(b'+') => {
                self.new_left = self.new_left.saturating_sub(1);
                self.new += 1;
                PatchLine::New(Some(self.new - 1), text(line))
            }
            Some(b'-') => {
                self.old_left = self.old_left.saturating_sub(1);
                self.old += 1;
                PatchLine::Gone(Some(self.old - 1), text(line))
            }
            Some(b'\\') => PatchLine::Hunk(line.trim_start_matches("\\ ").to_owned()),
            Some(_) | None => {
                (self.old_left, self.new_left) = (
                    self.old_left.saturating_sub(1),
                    self.new_left.saturating_sub(1),
                );
                (self.old, self.new) = (self.old + 1, self.new + 1);
                PatchLine::Same {
                    old: self.old - 1,
                    new: self.new - 1,
                    text: text(line),
                }
            }
        })
    }

    /// A line outside of a hunk. One of a hunk without numbers is known by its sign alone.
    fn head(&mut self, line: &str) -> Option<PatchLine> {
        let numbers = line
            .strip_prefix("@@ -")
            .and_then(|rest| rest.split_once(" @@"));
        if let Some((numbers, place)) = numbers {
            let (old, new) = numbers.split_once(" +").unwrap_or((numbers, "0,0"));
            ((self.old, self.old_left), (self.new, self.new_left)) = (range(old), range(new));
            let place = place.trim();
            let gap = if place.is_empty() { "" } else { "  " };
            return Some(PatchLine::Hunk(format!("line {}{gap}{place}", self.new)));
        }
        if let Some(what) = line.strip_prefix("Binary files") {
            let both = what.trim_end_matches(" differ");
            return Some(PatchLine::Hunk(format!("not text:{both}")));
        }
        let repeated = ["diff ", "--- ", "+++ ", "index ", "@@"];
        if line.is_empty() || repeated.iter().any(|start| line.starts_with(start)) {
            return None;
        }
        let text = |line: &str| expand_tabs(line.get(1..).unwrap_or_default());
        Some(match line.as_bytes().first() {
            Some(b'+') => PatchLine::New(None, text(line)),
            Some(b'-') => PatchLine::Gone(None, text(line)),
            Some(_) | None => PatchLine::Hunk(expand_tabs(line)),
        })
    }
}

/// The first line and the number of lines: `12,3`, or `12` for one line.
fn range(text: &str) -> (usize, usize) {
    let (first, count) = text.split_once(',').unwrap_or((text, "1"));
    let number = |text: &str| text.trim().parse().unwrap_or(0);
    (number(first), number(count))
}

fn number_of(line: &PatchLine) -> usize {
    match line {
        PatchLine::Same { old, new, .. } => *old.max(new),
        PatchLine::Gone(number, _) | PatchLine::New(number, _) => number.unwrap_or(0),
        PatchLine::Empty
        | PatchLine::Listed(..)
        | PatchLine::File(..)
        | PatchLine::Note(_)
        | PatchLine::Hunk(_) => 0,
    }
}

fn text_of(line: &PatchLine) -> &str {
    match line {
        PatchLine::Empty => "",
        PatchLine::Listed(_, text)
        | PatchLine::File(text, _)
        | PatchLine::Note(text)
        | PatchLine::Hunk(text)
        | PatchLine::Same { text, .. }
        | PatchLine::Gone(_, text)
        | PatchLine::New(_, text) => text,
    }
}

/// What a patch has before the text of a line.
const fn sign_of(line: &PatchLine) -> &'static str {
    match line {
        PatchLine::Empty
        | PatchLine::Listed(..)
        | PatchLine::File(..)
        | PatchLine::Note(_)
        | PatchLine::Hunk(_) => "",
        PatchLine::Same { .. } => " ",
        PatchLine::Gone(..) => "-",
        PatchLine::New(..) => "+",
    }
}

/// The rows of the wide form: what is gone beside what came instead.
fn paired(lines: &[PatchLine]) -> Vec<PatchPair> {
    let mut pairs = Vec::with_capacity(lines.len());
    let (mut gone, mut new): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    let close = |pairs: &mut Vec<PatchPair>, gone: &mut Vec<usize>, new: &mut Vec<usize>| {
        for n in 0..gone.len().max(new.len()) {
            pairs.push(PatchPair::Beside(gone.get(n).copied(), new.get(n).copied()));
        }
        gone.clear();
        new.clear();
    };
    for (n, line) in lines.iter().enumerate() {
        match line {
            PatchLine::Gone(..) => {
                if !new.is_empty() {
                    close(&mut pairs, &mut gone, &mut new);
                }
                gone.push(n);
            }
            PatchLine::New(..) => new.push(n),
            PatchLine::Same { .. } => {
                close(&mut pairs, &mut gone, &mut new);
                pairs.push(PatchPair::Beside(Some(n), Some(n)));
            }
            PatchLine::Empty
            | PatchLine::Listed(..)
            | PatchLine::File(..)
            | PatchLine::Note(_)
            | PatchLine::Hunk(_) => {
                close(&mut pairs, &mut gone, &mut new);
                pairs.push(PatchPair::Whole(n));
            }
        }
    }
    close(&mut pairs, &mut gone, &mut new);
    pairs
}

/// The lines of a file: `+12 −4`. Words if they are not known.
fn counts(file: &ChangedFile) -> String {
    match (file.source, file.added, file.removed) {
        (_, Some(added), Some(removed)) => format!("+{added} −{removed}"),
        (DiffSource::AgentEdits, _, _) => "as reported".to_owned(),
        (DiffSource::NameOnly, _, _) => "not known".to_owned(),
        (DiffSource::Contents, _, _) => "not text".to_owned(),
    }
}

fn summary(diff: &SessionDiff) -> String {
    let sum = |count: fn(&ChangedFile) -> Option<usize>| -> usize {
        diff.files.iter().filter_map(count).sum()
    };
    let files = diff.files.len() + diff.more_files;
    if files == 0 {
        return "nothing".to_owned();
    }
    let (added, removed) = (sum(|file| file.added), sum(|file| file.removed));
    let is_counted = |file: &ChangedFile| file.added.is_some();
    if diff.files.iter().any(is_counted) {
        format!("+{added} −{removed} in {}", counted(files, "file"))
    } else {
        counted(files, "file")
    }
}

fn more_files(diff: &SessionDiff) -> Option<String> {
    let more = counted(diff.more_files, "changed file");
    (diff.more_files > 0).then(|| format!("The records do not name {more}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ThemeName;

    fn rows(text: &str) -> PatchRows {
        PatchRows::new(&SessionDiff::of_files(vec![ChangedFile {
            path: "src/a.rs".to_owned(),
            source: DiffSource::Contents,
            added: Some(2),
            removed: Some(1),
            text: text.to_owned(),
        }]))
    }

    fn shown(rows: &PatchRows, form: PatchForm, width: usize) -> Vec<String> {
        let theme = ScreenTheme::chosen(ThemeName::Dark, true);
        (0..rows.len(form))
            .map(|row| rows.row(form, row, (0, width), &theme).to_string())
            .map(|row| row.trim_end().to_owned())
            .collect()
    }

    const PATCH: &str = "diff --git a/src/a.rs b/src/a.rs\n--- a/src/a.rs\n+++ b/src/a.rs\n\
        @@ -8,3 +8,4 @@ fn parse\n one\n-two\n+2\n+2b\n three\n";

    #[test]
    fn one_below_the_other_and_beside_each_other() {
        let rows = rows(PATCH);
        assert_eq!(rows.summary, "+2 −1 in 1 file");
        assert_eq!(
            shown(&rows, PatchForm::Stacked, 40),
            [
                "src/a.rs  +2 −1 ────────────────────────",
                "line 8  fn parse",
                " 8   one",
                " 9 - two",
                " 9 + 2",
                "10 + 2b",
                "11   three",
            ]
        );
        assert_eq!(
            shown(&rows, PatchForm::Beside, 43)[2..],
            [
                " 8   one             │  8   one",
                " 9 - two             │  9 + 2",
                "                     │ 10 + 2b",
                "10   three           │ 11   three",
            ]
        );
    }

    #[test]
    fn edits_without_numbers_and_what_is_no_text() {
        let loose = rows("--- a/x\n+++ b/x\n@@\n-a\n+b\nBinary files a/x and b/x differ\n");
        assert_eq!(
            shown(&loose, PatchForm::Stacked, 30)[1..],
            ["  - a", "  + b", "not text: a/x and b/x"]
        );
    }

    #[test]
    fn files_are_found_in_both_directions() {
        let file = |path: &str| ChangedFile {
            path: path.to_owned(),
            source: DiffSource::NameOnly,
            added: None,
            removed: None,
            text: String::new(),
        };
        let rows = PatchRows::new(&SessionDiff::of_files(vec![file("a"), file("b")]));
        let form = PatchForm::Stacked;
        let first = rows.next_file(form, 0, true).expect("a file");
        let second = rows.next_file(form, first, true).expect("another");
        assert_eq!(rows.next_file(form, second, true), None);
        assert_eq!(rows.next_file(form, second, false), Some(first));
        assert_eq!(rows.file_at(form, second), (2, 2));
    }
}
