//! A unified diff as coloured lines.

use ratatui::text::Line;

use super::{
    text::wrap,
    theme::{ScreenTheme, ThemeRole},
};
use crate::present::text::plain;

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
}
