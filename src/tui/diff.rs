//! Differences: the changes of a file as an agent reports them, and two outputs compared line by line.

use ratatui::text::{Line, Span};

use crate::{
    present::text::{grouped, plain, plural},
    text::{LineChange, comparable_text, is_shortened, line_changes},
    tui::{
        ansi::coloured_lines,
        text::{fit, window, wrap},
        theme::{ScreenTheme, ThemeRole},
    },
};

/// The wrapped lines of a unified diff: additions, removals, and headers in a faint style.
pub fn lines(diff: &str, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
    let clean = plain(diff);
    let mut hunk = DiffHunk::default();
    clean
        .lines()
        .flat_map(|line| wrap(&[(line.to_owned(), theme.style(hunk.role(line)))], width, 1))
        .collect()
}

/// A diff of one file: the file, the head of its first hunk, and the lines after that head. On a
/// small screen, a title with both leaves more rows to the lines.
pub struct FileDiff {
    /// Relative to the project, if it is inside.
    pub path: String,
    pub hunk: String,
    pub lines: Vec<Line<'static>>,
}

impl FileDiff {
    /// None for several files, or for a file that is renamed, made or removed: then the names of
    /// the files matter.
    pub fn of(diff: &str, project: &str, theme: &ScreenTheme, width: usize) -> Option<Self> {
        let clean = plain(diff);
        let (before, rest) = clean.strip_prefix("--- ")?.split_once("\n+++ ")?;
        let (after, hunks) = rest.split_once('\n')?;
        let name = |name: &str, side: &str| name.strip_prefix(side).unwrap_or(name).to_owned();
        let path = name(before, "a/");
        let hunk = hunks.lines().next().filter(|line| line.starts_with("@@"))?;
        if path != name(after, "b/")
            || path.contains('\n')
            || hunks.lines().any(|line| line.starts_with("--- "))
        {
            return None;
        }
        let head = lines(hunk, theme, width).len();
        let lines = lines(hunks, theme, width).into_iter().skip(head).collect();
        let inside = path
            .strip_prefix(project)
            .and_then(|rest| rest.strip_prefix('/'))
            .unwrap_or(&path);
        Some(Self {
            path: inside.to_owned(),
            hunk: hunk.to_owned(),
            lines,
        })
    }

    /// Whether it changes this file, named as `path` or `path:line`.
    pub fn is_of(&self, file: &str) -> bool {
        file.strip_prefix(self.path.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    }
}

/// How many lines of a hunk are left. Inside a hunk, a line that begins with `---` is a removed
/// line, not a header.
#[derive(Default)]
struct DiffHunk {
    before: u64,
    after: u64,
}

impl DiffHunk {
    fn role(&mut self, line: &str) -> ThemeRole {
        if self.before == 0 && self.after == 0 {
            return self.head(line);
        }
        match line.as_bytes().first() {
            Some(b'+') => {
                self.after = self.after.saturating_sub(1);
                ThemeRole::Good
            }
            Some(b'-') => {
                self.before = self.before.saturating_sub(1);
                ThemeRole::Bad
            }
            // `\ No newline at end of file` is not a line of the file.
            Some(b'\\') => ThemeRole::Faint,
            Some(_) | None => {
                (self.before, self.after) =
                    (self.before.saturating_sub(1), self.after.saturating_sub(1));
                ThemeRole::Text
            }
        }
    }

    /// The role of a line outside a hunk. A hunk without line counts is coloured by the signs
    /// alone.
    fn head(&mut self, line: &str) -> ThemeRole {
        if let Some(numbers) = line
            .strip_prefix("@@ -")
            .and_then(|rest| rest.split(" @@").next())
        {
            let (before, after) = numbers.split_once(" +").unwrap_or((numbers, "0,0"));
            (self.before, self.after) = (count(before), count(after));
            return ThemeRole::Faint;
        }
        let names = ["@@", "--- ", "+++ ", "diff ", "index ", "\\ ", "… "];
        match line.as_bytes().first() {
            _ if names.iter().any(|name| line.starts_with(name)) => ThemeRole::Faint,
            Some(b'+') => ThemeRole::Good,
            Some(b'-') => ThemeRole::Bad,
            Some(_) | None => ThemeRole::Text,
        }
    }
}

/// The number of lines in a range: 3 for `12,3`, 1 for `12`.
fn count(range: &str) -> u64 {
    range
        .split_once(',')
        .map_or(Ok(1), |(_, count)| count.trim().parse())
        .unwrap_or(0)
}

/// In columns. From this width on, the outputs are beside each other.
const WIDE: usize = 96;

/// A line of one output, and the one of the other output that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ComparedLine {
    Same {
        before: String,
        now: String,
    },
    /// Only times, ids or temporary paths differ.
    Alike {
        before: String,
        now: String,
    },
    Changed {
        before: String,
        now: String,
    },
    Gone(String),
    New(String),
    /// So many lines that do not differ.
    Folded(usize),
}

/// How many lines that do not differ are visible next to a difference.
const CONTEXT: usize = 3;

/// Folds what does not differ, so that the first difference is in sight at once. Without any
/// difference, everything stays.
fn folded(lines: Vec<ComparedLine>) -> Vec<ComparedLine> {
    let is_equal = |line: &ComparedLine| {
        matches!(line, ComparedLine::Same { .. } | ComparedLine::Alike { .. })
    };
    if lines.iter().all(is_equal) {
        return lines;
    }
    let (mut all, mut equal) = (Vec::new(), Vec::new());
    for line in lines {
        if is_equal(&line) {
            equal.push(line);
            continue;
        }
        let before = if all.is_empty() { 0 } else { CONTEXT };
        all.extend(fold(std::mem::take(&mut equal), before, CONTEXT));
        all.push(line);
    }
    all.extend(fold(equal, CONTEXT, 0));
    all
}

/// The lines between two differences: only the first and the last of them, if there are many.
fn fold(mut equal: Vec<ComparedLine>, first: usize, last: usize) -> Vec<ComparedLine> {
    let gone = equal.len().saturating_sub(first + last);
    if gone > 1 {
        equal.splice(first..first + gone, [ComparedLine::Folded(gone)]);
    }
    equal
}

fn folded_words(count: usize) -> String {
    format!(
        "… {} {} that do not differ",
        grouped(count),
        plural(count, "line")
    )
}

#[derive(Debug)]
pub struct OutputComparison {
    lines: Vec<ComparedLine>,
    /// The same lines one below the other, each with its sign.
    stacked: Vec<(char, String)>,
    /// The titles of the two outputs.
    titles: [String; 2],
    is_wide: bool,
}

impl OutputComparison {
    /// Compares two outputs, which may have colours. `titles` name the earlier and the later one.
    pub fn new(before: &str, now: &str, titles: [String; 2]) -> Self {
        let lines = folded(compared(before, now));
        let stacked = lines.iter().flat_map(stacked).collect();
        Self {
            lines,
            stacked,
            titles,
            is_wide: false,
        }
    }

    /// Whether nothing differs except for times, ids and temporary paths.
    pub fn is_alike(&self) -> bool {
        self.lines
            .iter()
            .all(|line| matches!(line, ComparedLine::Same { .. } | ComparedLine::Alike { .. }))
    }

    /// Whether a part of one of the outputs was left out.
    pub fn is_shortened(&self) -> bool {
        self.stacked.iter().any(|(_, text)| is_shortened(text))
    }

    /// Chooses the form for a width.
    pub fn fit_to(&mut self, width: usize) {
        self.is_wide = width >= WIDE;
    }

    pub fn is_wide(&self) -> bool {
        self.is_wide
    }

    /// How many rows it has, without wrapping. In the wide form, the first one has the titles.
    pub fn len(&self) -> usize {
        if self.is_wide {
            self.lines.len() + 1
        } else {
            self.stacked.len()
        }
    }

    /// The text of a row, with colours.
    pub fn text(&self, row: usize) -> String {
        if !self.is_wide {
            return self
                .stacked
                .get(row)
                .map(|(sign, text)| format!("{sign} {text}"))
                .unwrap_or_default();
        }
        let Some(line) = row.checked_sub(1) else {
            return self.titles.join("  ");
        };
        match self.lines.get(line) {
            Some(
                ComparedLine::Same { before, now }
                | ComparedLine::Alike { before, now }
                | ComparedLine::Changed { before, now },
            ) => format!("{before}  {now}"),
            Some(ComparedLine::Gone(text) | ComparedLine::New(text)) => text.clone(),
            Some(ComparedLine::Folded(count)) => folded_words(*count),
            None => String::new(),
        }
    }

    /// The sign of a row of the narrow form.
    pub fn sign(&self, row: usize) -> char {
        self.stacked.get(row).map_or(' ', |(sign, _)| *sign)
    }

    /// A row of the wide form, from a column of both texts on.
    pub fn wide_row(
        &self,
        row: usize,
        left: usize,
        width: usize,
        theme: &ScreenTheme,
    ) -> Line<'static> {
        let half = width.saturating_sub(3) / 2;
        let Some(line) = row.checked_sub(1) else {
            let heading = |title: &str| {
                window(
                    &[(title.to_owned(), theme.style(ThemeRole::Heading))],
                    0,
                    half,
                )
            };
            return beside(
                heading(&self.titles[0]),
                heading(&self.titles[1]),
                half,
                theme,
            );
        };
        let side = |sign: char, text: &str| {
            let mut line = window(&styled(text, theme), left, half.saturating_sub(2));
            line.spans
                .insert(0, theme.span(sign_role(sign), format!("{sign} ")));
            line
        };
        let (before, now) = match self.lines.get(line) {
            Some(ComparedLine::Same { before, now }) => (side(' ', before), side(' ', now)),
            Some(ComparedLine::Alike { before, now }) => (side('=', before), side('=', now)),
            Some(ComparedLine::Changed { before, now }) => (side('-', before), side('+', now)),
            Some(ComparedLine::Gone(before)) => (side('-', before), Line::default()),
            Some(ComparedLine::New(now)) => (Line::default(), side('+', now)),
            Some(ComparedLine::Folded(count)) => {
                let words = fit(&folded_words(*count), half);
                (theme.line(ThemeRole::Faint, words), Line::default())
            }
            None => (Line::default(), Line::default()),
        };
        beside(before, now, half, theme)
    }
}

/// The role of a sign before a line.
pub fn sign_role(sign: char) -> ThemeRole {
    match sign {
        '-' => ThemeRole::Bad,
        '+' => ThemeRole::Good,
        _ => ThemeRole::Warning,
    }
}

fn styled(text: &str, theme: &ScreenTheme) -> Vec<super::text::StyledText> {
    let lines = coloured_lines(text, theme.style(ThemeRole::Text), theme.keeps_colours);
    lines.into_iter().next().unwrap_or_default()
}

fn beside(
    before: Line<'static>,
    now: Line<'static>,
    half: usize,
    theme: &ScreenTheme,
) -> Line<'static> {
    let gap = " ".repeat(half.saturating_sub(before.width()));
    let mut spans = before.spans;
    spans.push(Span::raw(gap));
    spans.push(theme.span(ThemeRole::Border, " │ "));
    spans.extend(now.spans);
    Line::from(spans)
}

fn compared(before: &str, now: &str) -> Vec<ComparedLine> {
    let (old, new): (Vec<&str>, Vec<&str>) = (
        before.trim_end().lines().collect(),
        now.trim_end().lines().collect(),
    );
    let comparable = |lines: &[&str]| {
        lines
            .iter()
            .map(|line| comparable_text(line))
            .collect::<Vec<_>>()
    };
    let (old_text, new_text) = (comparable(&old), comparable(&new));
    let mut all = Vec::new();
    let (mut old_at, mut new_at) = (0, 0);
    for LineChange { before, now } in line_changes(&views(&old_text), &views(&new_text)) {
        all.extend(paired(
            &old[old_at..before.start],
            &new[new_at..now.start],
            true,
        ));
        (old_at, new_at) = (before.end, now.end);
        all.extend(paired(&old[before], &new[now], false));
    }
    all.extend(paired(&old[old_at..], &new[new_at..], true));
    all
}

fn views(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

/// The lines of two parts beside each other. `is_equal`: at most times, ids and temporary paths
/// differ.
fn paired(befores: &[&str], nows: &[&str], is_equal: bool) -> Vec<ComparedLine> {
    let line = |n: usize| match (befores.get(n), nows.get(n)) {
        (Some(before), Some(now)) => {
            let (before, now) = ((*before).to_owned(), (*now).to_owned());
            match is_equal {
                true if plain(&before) == plain(&now) => Some(ComparedLine::Same { before, now }),
                true => Some(ComparedLine::Alike { before, now }),
                false => Some(ComparedLine::Changed { before, now }),
            }
        }
        (Some(before), None) => Some(ComparedLine::Gone((*before).to_owned())),
        (None, Some(now)) => Some(ComparedLine::New((*now).to_owned())),
        (None, None) => None,
    };
    (0..befores.len().max(nows.len()))
        .filter_map(line)
        .collect()
}

/// A line of the narrow form: what is gone comes before what is new.
fn stacked(line: &ComparedLine) -> Vec<(char, String)> {
    match line {
        ComparedLine::Same { now, .. } => vec![(' ', now.clone())],
        ComparedLine::Alike { now, .. } => vec![('=', now.clone())],
        ComparedLine::Changed { before, now } => vec![('-', before.clone()), ('+', now.clone())],
        ComparedLine::Gone(before) => vec![('-', before.clone())],
        ComparedLine::New(now) => vec![('+', now.clone())],
        ComparedLine::Folded(count) => vec![(' ', folded_words(*count))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_one_file_is_no_line() {
        let theme = ScreenTheme::chosen(crate::config::ThemeName::Dark, false);
        let parts = |diff: &str| {
            FileDiff::of(diff, "/p", &theme, 40).map(|one| (one.path, one.hunk, one.lines.len()))
        };
        let one = "--- a/x\n+++ b/x\n@@ -1 +1 @@ fn x\n-a\n+b\n";
        assert_eq!(parts(one), Some(("x".into(), "@@ -1 +1 @@ fn x".into(), 2)));
        assert_eq!(
            parts("--- /p/x\n+++ /p/x\n@@ -1 +1 @@\n-a\n+b").map(|(path, ..)| path),
            Some("x".into())
        );
        assert_eq!(parts("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b"), None);
        assert_eq!(parts(&one.repeat(2)), None);
        assert_eq!(parts("@@ -1 +1 @@\n-a\n+b"), None);
    }

    fn roles(diff: &str) -> String {
        let mut hunk = DiffHunk::default();
        let letters = [
            (ThemeRole::Good, '+'),
            (ThemeRole::Bad, '-'),
            (ThemeRole::Faint, 'f'),
        ];
        let letter = |role| {
            letters
                .iter()
                .find(|(known, _)| *known == role)
                .map_or(' ', |(_, letter)| *letter)
        };
        diff.lines().map(|line| letter(hunk.role(line))).collect()
    }

    #[test]
    fn heads_and_lines_that_look_like_heads_differ() {
        assert_eq!(
            roles("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@ fn x\n a\n--- b\n+++ b\n c\n--- a/y\n+++ b/y"),
            "fff -+ ff"
        );
        assert_eq!(
            roles("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b"),
            "f-f+"
        );
    }

    #[test]
    fn a_hunk_without_numbers_is_read_by_its_signs() {
        assert_eq!(roles("@@\n-a\n+b\n c"), "f-+ ");
        assert_eq!(roles("-a\n+b"), "-+");
        assert_eq!(roles("@@ -1,9 +1,9 @@\n-a"), "f-");
    }

    const BEFORE: &str =
        "running in /tmp/ab12\ntest a ... FAILED\ntest b ... FAILED\nfailed after 1.5 s\n";
    const NOW: &str = "running in /tmp/cd34\ntest a ... ok\nfailed after 2.5 s\none more";

    fn comparison(width: usize) -> OutputComparison {
        let mut comparison = OutputComparison::new(BEFORE, NOW, ["Run 1".into(), "Run 2".into()]);
        comparison.fit_to(width);
        comparison
    }

    #[test]
    fn a_narrow_comparison_has_a_sign_before_each_line() {
        let narrow = comparison(60);
        let rows: Vec<String> = (0..narrow.len()).map(|row| narrow.text(row)).collect();
        assert_eq!(
            rows,
            [
                "= running in /tmp/cd34",
                "- test a ... FAILED",
                "+ test a ... ok",
                "- test b ... FAILED",
                "= failed after 2.5 s",
                "+ one more",
            ]
        );
        assert!(!narrow.is_alike());
    }

    #[test]
    fn a_wide_comparison_has_the_lines_beside_each_other() {
        let theme = ScreenTheme::chosen(crate::config::ThemeName::Dark, false);
        let wide = comparison(100);
        let rows = (0..wide.len()).map(|row| {
            wide.wide_row(row, 0, 53, &theme)
                .to_string()
                .trim_end()
                .to_owned()
        });
        assert_eq!(
            rows.collect::<Vec<_>>(),
            [
                "Run 1                     │ Run 2",
                "= running in /tmp/ab12    │ = running in /tmp/cd34",
                "- test a ... FAILED       │ + test a ... ok",
                "- test b ... FAILED       │",
                "= failed after 1.5 s      │ = failed after 2.5 s",
                "                          │ + one more",
            ]
        );
    }

    #[test]
    fn what_does_not_differ_is_folded() {
        let text = |changed: &str| {
            let line = |n: usize| {
                if n == 50 {
                    format!("{changed}\n")
                } else {
                    format!("line {n}\n")
                }
            };
            (1..=100).map(line).collect::<String>()
        };
        let comparison =
            OutputComparison::new(&text("a"), &text("b"), [String::new(), String::new()]);
        let rows: Vec<String> = (0..comparison.len())
            .map(|row| comparison.text(row))
            .collect();
        assert_eq!(
            rows,
            [
                "  … 46 lines that do not differ",
                "  line 47",
                "  line 48",
                "  line 49",
                "- a",
                "+ b",
                "  line 51",
                "  line 52",
                "  line 53",
                "  … 47 lines that do not differ",
            ]
        );
    }

    #[test]
    fn outputs_that_differ_only_in_times_are_alike() {
        let comparison = OutputComparison::new(
            "took 1 s\nred",
            "took 2 s\nred\n",
            [String::new(), String::new()],
        );
        assert!(comparison.is_alike());
        assert_eq!(
            (comparison.text(0), comparison.sign(1)),
            ("= took 2 s".into(), ' ')
        );
    }
}
