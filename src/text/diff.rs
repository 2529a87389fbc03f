//! Compares two texts line by line.

use std::{fmt::Write as _, ops::Range};

use imara_diff::{Algorithm, Diff, InternedInput};

/// How many equal lines stand around a change.
const CONTEXT: usize = 3;

/// A place where two texts differ: the lines `now` stand where the lines `before` were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineChange {
    pub before: Range<usize>,
    pub now: Range<usize>,
}

/// The places where two texts differ, in order.
pub fn line_changes(before: &[&str], now: &[&str]) -> Vec<LineChange> {
    let mut input = InternedInput::default();
    input.update_before(before.iter().copied());
    input.update_after(now.iter().copied());
    let mut diff = Diff::compute(Algorithm::Myers, &input);
    diff.postprocess_lines(&input);
    let range = |range: Range<u32>| range.start as usize..range.end as usize;
    diff.hunks()
        .map(|hunk| LineChange {
            before: range(hunk.before),
            now: range(hunk.after),
        })
        .collect()
}

/// The lines of a text, each with its newline.
pub fn whole_lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Changes that stand so near to each other that they share their context.
#[derive(Debug, Default)]
pub struct DiffGroup<'a> {
    before: Range<usize>,
    now: Range<usize>,
    /// `-`, `+` or a space, and the line.
    pub lines: Vec<(char, &'a str)>,
}

/// The changes with the lines around them. Far from any change, nothing is left.
pub fn diff_groups<'a>(before: &[&'a str], now: &[&'a str]) -> Vec<DiffGroup<'a>> {
    let changes = line_changes(before, now);
    changes
        .chunk_by(|one, next| next.before.start - one.before.end <= 2 * CONTEXT)
        .map(|near| {
            let (Some(first), Some(last)) = (near.first(), near.last()) else {
                return DiffGroup::default();
            };
            let (ahead, after) = (
                first.before.start.min(CONTEXT),
                (before.len() - last.before.end).min(CONTEXT),
            );
            let mut at = first.before.start - ahead;
            let mut lines = Vec::new();
            for change in near {
                lines.extend(
                    before[at..change.before.start]
                        .iter()
                        .map(|line| (' ', *line)),
                );
                lines.extend(
                    before[change.before.clone()]
                        .iter()
                        .map(|line| ('-', *line)),
                );
                lines.extend(now[change.now.clone()].iter().map(|line| ('+', *line)));
                at = change.before.end;
            }
            lines.extend(before[at..at + after].iter().map(|line| (' ', *line)));
            let around =
                |first: &Range<usize>, last: &Range<usize>| first.start - ahead..last.end + after;
            DiffGroup {
                before: around(&first.before, &last.before),
                now: around(&first.now, &last.now),
                lines,
            }
        })
        .collect()
}

/// The unified diff of a file. Empty if nothing differs.
pub fn unified_diff(path: &str, before: &str, now: &str) -> String {
    let hunks = unified_hunks(before, now);
    if hunks.is_empty() {
        return hunks;
    }
    format!("--- {path}\n+++ {path}\n{hunks}")
}

/// The same without the names of the file.
pub fn unified_hunks(before: &str, now: &str) -> String {
    let mut text = String::new();
    for group in diff_groups(&whole_lines(before), &whole_lines(now)) {
        let _ = writeln!(
            text,
            "@@ -{} +{} @@",
            numbers(&group.before),
            numbers(&group.now)
        );
        for (sign, line) in group.lines {
            let ending = if line.ends_with('\n') {
                ""
            } else {
                "\n\\ No newline at end of file\n"
            };
            let _ = write!(text, "{sign}{line}{ending}");
        }
    }
    text
}

/// A range in the head of a group: the first line counts as 1, and an empty range names the line
/// before it.
fn numbers(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => (range.start + 1).to_string(),
        lines => format!("{},{lines}", range.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_unified_diff_shows_changes_with_the_lines_around_them() {
        let before = (1..=20).map(|n| format!("line {n}\n")).collect::<String>();
        let now = before
            .replace("line 4\n", "line four\n")
            .replace("line 18\n", "")
            .replace("line 20\n", "line 20");
        let expected = "--- f\n+++ f\n@@ -1,7 +1,7 @@\n line 1\n line 2\n line 3\n-line 4\n+line four\n line 5\n line 6\n line 7\n\
                        @@ -15,6 +15,5 @@\n line 15\n line 16\n line 17\n-line 18\n line 19\n-line 20\n+line 20\n\\ No newline at end of file\n";
        assert_eq!(unified_diff("f", &before, &now), expected);
        assert_eq!(
            unified_diff("f", "", "a\n"),
            "--- f\n+++ f\n@@ -0,0 +1 @@\n+a\n"
        );
        assert_eq!(
            unified_diff("f", "a\n", ""),
            "--- f\n+++ f\n@@ -1 +0,0 @@\n-a\n"
        );
        assert_eq!(unified_diff("f", &before, &before), "");
    }

    proptest! {
        #[test]
        fn the_changes_turn_one_text_into_the_other(
            before in prop::collection::vec("[abc]", 0..40),
            now in prop::collection::vec("[abc]", 0..40),
        ) {
            let before = before.iter().map(String::as_str).collect::<Vec<_>>();
            let now = now.iter().map(String::as_str).collect::<Vec<_>>();
            let (mut made, mut at) = (Vec::<&str>::new(), 0);
            for change in line_changes(&before, &now) {
                made.extend(&before[at..change.before.start]);
                made.extend(&now[change.now.clone()]);
                at = change.before.end;
            }
            made.extend(&before[at..]);
            prop_assert_eq!(made, now.clone());
            for group in diff_groups(&before, &now) {
                let side = |sign| group.lines.iter().filter(|line| line.0 != sign).map(|line| line.1).collect::<Vec<_>>();
                prop_assert_eq!(side('+'), &before[group.before.clone()]);
                prop_assert_eq!(side('-'), &now[group.now.clone()]);
            }
        }
    }
}
