//! Selects the most informative line of a program's output about a failure.
//!
//! Counters, rows, gates and error messages have room for one line. All of them use this file, so
//! they all show the same line. Both output streams count alike: many tools print their failures to
//! standard output. What the lines of each family of tools look like is data ([`forms`]).
//!
//! # Invariants
//! - The line comes from the output, without terminal sequences, and is at most [`LINE_MAX`]
//!   characters long. If the place of the failure is in a line nearby, it follows in brackets.
//! - If the output contains a letter or a digit, there is a line.

mod forms;

use forms::{LineKind, kind_of, place_of};

use super::{plain::plain_text, wording::shortened};

/// In characters.
const LINE_MAX: usize = 300;

/// The most informative line of these outputs, in this order: the first one that says most about a
/// failure, else the last line that is not about progress, else the last one.
pub fn telling_line(outputs: &[&str]) -> Option<String> {
    let texts: Vec<String> = outputs.iter().map(|output| plain_text(output)).collect();
    let lines: Vec<&str> = texts
        .iter()
        .flat_map(|text| text.lines())
        .map(str::trim)
        .filter(|line| has_word(line))
        .collect();
    let kinds: Vec<LineKind> = lines.iter().map(|line| kind_of(line)).collect();
    let weight = kinds
        .iter()
        .map(|kind| kind.weight())
        .max()
        .filter(|weight| *weight > LineKind::Other.weight());
    let best = weight.and_then(|weight| kinds.iter().position(|kind| kind.weight() == weight));
    let last = || {
        kinds
            .iter()
            .rposition(|kind| *kind != LineKind::Noise)
            .or_else(|| lines.len().checked_sub(1))
    };
    let chosen = best.or_else(last)?;
    let is_head = kinds[chosen] == LineKind::Head && chosen + 1 < lines.len();
    let chosen = if is_head { chosen + 1 } else { chosen };
    let line = shortened(lines[chosen], LINE_MAX);
    let place = best
        .and_then(|_| place_of(&lines, chosen))
        .filter(|place| line.len() + place.len() < LINE_MAX);
    Some(place.map_or_else(|| line.clone(), |place| format!("{line} ({place})")))
}

/// Whether a line of this output reports a failure, rather than progress or a warning.
pub fn looks_like_failure(output: &str) -> bool {
    let reports =
        |line: &str| has_word(line) && kind_of(line).weight() >= LineKind::Summary.weight();
    plain_text(output).lines().map(str::trim).any(reports)
}

fn has_word(line: &str) -> bool {
    line.contains(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_outputs_show_what_they_say() {
        let cases = [
            ("", "fix it\n", Some("fix it")),
            (
                "3 files checked\n2 do not match\n",
                "",
                Some("2 do not match"),
            ),
            ("1 failed", "fix it", Some("1 failed")),
            (
                "test result: ok. 3 passed; 0 failed",
                "coverage is 70 %",
                Some("coverage is 70 %"),
            ),
            (
                "one\ntwo\n",
                "    Finished `test` profile [unoptimized] target(s) in 0.1s\n",
                Some("two"),
            ),
            (
                "",
                "    Finished `test` profile [unoptimized] target(s) in 0.1s\n",
                Some("Finished `test` profile [unoptimized] target(s) in 0.1s"),
            ),
            (
                "\u{1b}[1m\u{1b}[31merror\u{1b}[0m: no\r\n",
                "",
                Some("error: no"),
            ),
            (
                "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nValueError: bad\n",
                "",
                Some("ValueError: bad (a.py:1)"),
            ),
            (
                "sh: 1: frobnicate: not found\ndone\n",
                "",
                Some("sh: 1: frobnicate: not found"),
            ),
            (
                "a.c:1:1: warning: odd\nall done\n",
                "",
                Some("a.c:1:1: warning: odd"),
            ),
            (" \n---\n", "", None),
        ];
        for (stdout, stderr, line) in cases {
            assert_eq!(telling_line(&[stdout, stderr]).as_deref(), line);
        }
    }

    #[test]
    fn a_heading_is_shown_by_the_line_below_it_and_a_summary_by_what_it_sums_up() {
        let cases = [
            (
                "test.cc:9: Failure\nExpected equality of these values:\n  sum(1)\n",
                "Expected equality of these values:",
            ),
            (
                "ERROR in ./src/index.js 1:0-28\nModule not found: './x'\n",
                "Module not found: './x'",
            ),
            (
                "not ok 1 - adds\n  error: |-\n    3 is not 4\n",
                "3 is not 4",
            ),
            (
                "> Task :compileKotlin FAILED\ne: A.kt:3:5 Unresolved reference 'x'.\n",
                "e: A.kt:3:5 Unresolved reference 'x'.",
            ),
            (
                "1) test adds\n   test/a_test.exs:6\n   ** (ArithmeticError) bad argument\n",
                "** (ArithmeticError) bad argument",
            ),
            (
                "Failed to compile.\n\n./a.ts:3:5\nType error: no overload\n",
                "Type error: no overload",
            ),
            (
                "2 tests, 1 passed, 1 failure\nFAIL - policy.yaml - no latest tag\n",
                "FAIL - policy.yaml - no latest tag",
            ),
        ];
        for (output, line) in cases {
            assert_eq!(telling_line(&[output]).as_deref(), Some(line));
        }
    }

    #[test]
    fn a_very_long_line_is_cut() {
        let line = telling_line(&[&"é".repeat(10_000)]).expect("a line");
        assert_eq!(line, format!("{}…", "é".repeat(LINE_MAX)));
    }

    proptest! {
        #[test]
        fn whatever_is_printed_there_is_a_line(text in "(\\PC|[\\n\\x1b0-9:.|> ]|error|FAIL |panicked at ){0,60}") {
            let line = telling_line(&[&text]);
            prop_assert_eq!(line.is_some(), plain_text(&text).contains(char::is_alphanumeric));
            prop_assert!(line.is_none_or(|line| !line.contains(|c: char| c.is_control() && c != '\t')));
        }
    }
}
