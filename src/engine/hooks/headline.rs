//! Selects the most informative line of a program's output about a failure.
//!
//! Counters, rows, gates and error messages have room for one line. All of them use this file, so they all show the
//! same line. Both output streams count alike: many tools print their failures to standard output.
//!
//! # Invariants
//! - The line comes from the output, without terminal sequences, and is at most [`LINE_MAX`] characters long.
//! - If the output contains a letter or a digit, there is a line.

use crate::engine::{plain_text::plain_text, wording::shortened};

/// In characters.
const LINE_MAX: usize = 300;

/// How much a line looks like the failure that the reader wants to see, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FailureLikeness {
    /// Ordinary output.
    None,
    /// A warning: better than ordinary output, but not the failure.
    Warning,
    /// It reports that something failed, but not what: `error: could not compile …`, `make: *** […] Error 1`, `1
    /// failed`.
    Summary,
    /// It contains a word for a failure, or begins with a file position.
    Mention,
    /// It has the form in which a tool reports one failure.
    Failure,
    /// It names the failure and its reason.
    Explained,
}

/// The most informative line of these outputs, in this order: the first one that looks most like a failure, else the
/// last line that is not about progress, else the last one.
pub fn telling_line(outputs: &[&str]) -> Option<String> {
    let texts: Vec<String> = outputs.iter().map(|output| plain_text(output)).collect();
    let lines: Vec<&str> =
        texts.iter().flat_map(|text| text.lines()).map(str::trim).filter(|line| has_word(line)).collect();
    let mut best = (FailureLikeness::None, None);
    for (n, line) in lines.iter().enumerate() {
        let likeness = likeness(line);
        if likeness > best.0 {
            best = (likeness, Some(n));
        }
    }
    let last = || lines.iter().rposition(|line| !is_progress(line)).or_else(|| lines.len().checked_sub(1));
    let chosen = best.1.or_else(last)?;
    // Rust prints the position and the message of a panic in two lines.
    let message =
        lines.get(chosen + 1).filter(|_| lines[chosen].contains(" panicked at ") && lines[chosen].ends_with(':'));
    let line = message.map_or_else(|| lines[chosen].to_owned(), |message| format!("{} {message}", lines[chosen]));
    Some(shortened(&line, LINE_MAX))
}

/// Whether a line of this output reports a failure, rather than progress or a warning.
pub fn looks_like_failure(output: &str) -> bool {
    plain_text(output).lines().map(str::trim).any(|line| has_word(line) && likeness(line) >= FailureLikeness::Summary)
}

fn likeness(line: &str) -> FailureLikeness {
    if is_progress(line) || is_success(line) || is_excerpt(line) {
        return FailureLikeness::None;
    }
    let lower = line.to_lowercase();
    if is_summary(line, &lower) {
        FailureLikeness::Summary
    } else if is_explained(line) {
        FailureLikeness::Explained
    } else if is_failure(line, &lower) {
        FailureLikeness::Failure
    } else if lower.contains("warning") || lower.starts_with("warn") || lower.starts_with("npm warn") {
        FailureLikeness::Warning
    } else if is_mention(line, &lower) {
        FailureLikeness::Mention
    } else {
        FailureLikeness::None
    }
}

/// Lines that build tools print during normal progress.
fn is_progress(line: &str) -> bool {
    const STEPS: [&str; 14] = [
        "Compiling",
        "Checking",
        "Finished",
        "Running",
        "Downloading",
        "Downloaded",
        "Updating",
        "Blocking",
        "Locking",
        "Fresh",
        "Adding",
        "Installing",
        "Documenting",
        "Doc-tests",
    ];
    let first = line.split_whitespace().next().unwrap_or_default();
    STEPS.contains(&first) && !line.ends_with(':')
}

/// A test that passed can have an error in its name.
fn is_success(line: &str) -> bool {
    const STARTS: [&str; 12] =
        ["✓", "✔", "√", "ok ", "ok\t", "PASS", "=== RUN", "=== PAUSE", "=== CONT", "--- PASS", "--- SKIP", "running "];
    STARTS.iter().any(|start| line.starts_with(start))
        || line.ends_with("... ok")
        || line.ends_with("... ignored")
        || line.contains(" PASSED")
}

/// Source code, stack frames and advice that tools print around a failure.
fn is_excerpt(line: &str) -> bool {
    const STARTS: [&str; 15] = [
        "at ",
        "-->",
        "|",
        "^",
        "~",
        "=",
        "note:",
        "help:",
        "hint:",
        "Hint:",
        "File \"",
        "For more information",
        "+ ",
        "- ",
        "import ",
    ];
    // pytest and unittest draw rulers with `=`, some of which contain the number of failures.
    if line.starts_with("==") {
        return !line.contains(|c: char| c.is_ascii_digit());
    }
    let code = line.trim_start_matches(['>', ' ']);
    let number = code.bytes().take_while(u8::is_ascii_digit).count();
    let is_numbered = number > 0 && code[number..].trim_start().starts_with('|');
    is_numbered || STARTS.iter().any(|start| line.starts_with(start))
}

fn is_summary(line: &str, lower: &str) -> bool {
    const STARTS: [&str; 28] = [
        "error: could not compile",
        "error: aborting due to",
        "error: test failed",
        "error: doctest failed",
        "error: process didn't exit",
        "error: process completed",
        "error: recipe ",
        "error: script ",
        "error: command failed",
        "error command failed",
        "failures:",
        "errors:",
        "collect2: error: ld returned",
        "npm err",
        "elifecycle",
        "fail ",
        "fail\t",
        "failed: ",
        "ninja: build stopped",
        "traceback",
        "● test suite failed",
        "● console",
        "✖ failing tests",
        "exit status",
        "warning: build failed",
        "make: target",
        "___",
        "!!!",
    ];
    let is_total =
        ["test result:", "test suites:", "tests:", "test files"].iter().any(|start| lower.starts_with(start));
    let is_make = lower.starts_with("make") && lower.contains(": *** [");
    let is_nextest = line.starts_with("FAIL [");
    let is_listed = STARTS.iter().any(|start| lower.starts_with(start)) || lower == "fail" || lower == "failed";
    (is_total && is_mention(line, lower))
        || is_make
        || (is_listed && !is_nextest)
        || counts_failures(lower)
        || lower.ends_with("targets failed:")
}

/// `1 failed, 2 passed in 0.03s`, `✖ 4 problems (3 errors, 1 warning)`, `Found 2 errors in the same file`.
fn counts_failures(lower: &str) -> bool {
    const COUNTED: [&str; 9] =
        ["error", "errors", "failed", "failure", "failures", "problem", "problems", "failing", "target"];
    let mut words = lower.trim_start_matches(|c: char| !c.is_alphanumeric()).split([' ', ',', '.', ':']);
    let first = words.next().unwrap_or_default();
    let number = if first == "found" { words.next().unwrap_or_default() } else { first };
    let is_some = number.bytes().all(|b| b.is_ascii_digit()) && number.bytes().any(|b| b != b'0');
    is_some && words.next().is_some_and(|word| COUNTED.contains(&word))
}

/// `FAILED test_sum.py::test_adds - assert 3 == 4`.
fn is_explained(line: &str) -> bool {
    (line.starts_with("FAILED ") || line.starts_with("ERROR ")) && line.contains(" - ")
}

fn is_failure(line: &str, lower: &str) -> bool {
    const STARTS: [&str; 18] = [
        "error:",
        "error[",
        "fatal:",
        "panic:",
        "fail:",
        "fail [",
        "--- fail:",
        "not ok ",
        "assertion",
        "✕",
        "✗",
        "✖",
        "✘",
        "×",
        "❌",
        "●",
        "e   ",
        "uncaught ",
    ];
    let names_test = line.contains(" FAILED") && (line.contains("::") || line.ends_with("... FAILED"));
    STARTS.iter().any(|start| lower.starts_with(start))
        || names_test
        || line.contains(" panicked at ")
        || lower.contains(": undefined reference to")
        || (lower.starts_with("make") && lower.contains(": *** "))
        || reports_an_error(lower)
        || names_an_exception(line)
}

/// `a.c:6:22: error: …`, `a.ts(1,7): error TS2322: …`, `a.ts:1:7 - error TS2322: …`, `2:7  error  'y' is …`.
fn reports_an_error(lower: &str) -> bool {
    let begins_with_place = lower.starts_with(|c: char| c.is_ascii_digit()) && {
        let mut words = lower.split_whitespace();
        words.next().is_some_and(|place| place.contains(':')) && words.next() == Some("error")
    };
    begins_with_place || [": error:", ": error ", "- error ", ": fatal error:"].iter().any(|form| lower.contains(form))
}

/// `ValueError: bad`, `java.lang.IllegalStateException: bad`.
fn names_an_exception(line: &str) -> bool {
    let mut words = line.split(' ').peekable();
    while let Some(word) = words.next() {
        let is_named = word.ends_with("Error:") || word.ends_with("Exception:");
        if is_named && words.peek().is_some_and(|next| !next.is_empty()) {
            return true;
        }
    }
    false
}

fn is_mention(line: &str, lower: &str) -> bool {
    const WORDS: [&str; 20] = [
        "error",
        "errors",
        "err",
        "fail",
        "fails",
        "failed",
        "failing",
        "failure",
        "failures",
        "fatal",
        "panic",
        "panicked",
        "exception",
        "aborted",
        "denied",
        "killed",
        "undefined",
        "unexpected",
        "cannot",
        "segmentation",
    ];
    const PHRASES: [&str; 5] = ["not found", "no such", "timed out", "can't", "could not"];
    let mut before = "";
    for word in lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        // `0 failed` and `no errors` report success.
        let is_absent = matches!(before, "0" | "no" | "without");
        if !is_absent && (WORDS.contains(&word) || word.starts_with("assert")) {
            return true;
        }
        before = word;
    }
    let is_exception = |word: &str| word.ends_with("Error") || word.ends_with("Exception");
    PHRASES.iter().any(|phrase| lower.contains(phrase))
        || line.split(|c: char| !c.is_alphanumeric()).any(is_exception)
        || line.contains(['✕', '✗', '✖', '✘', '❌'])
        || begins_with_file(line)
}

/// `src/main.rs:12: …`.
fn begins_with_file(line: &str) -> bool {
    let mut parts = line.split(':');
    let (file, number) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_file = file.contains(['.', '/']) && !file.contains(char::is_whitespace);
    is_file && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

fn has_word(line: &str) -> bool {
    line.contains(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    macro_rules! sample {
        ($name:literal) => {
            include_str!(concat!("../../../tests/fixtures/hook_output/", $name, ".txt"))
        };
    }

    #[test]
    fn of_the_output_of_real_tools_the_failure_is_shown() {
        let samples = [
            (vec![sample!("cargo_test.stdout"), sample!("cargo_test.stderr")], "test tests::adds ... FAILED"),
            (vec![sample!("cargo_test.stderr"), sample!("cargo_test.stdout")], "test tests::adds ... FAILED"),
            (vec![sample!("cargo_compile")], "error[E0308]: mismatched types"),
            (
                vec![sample!("cargo_run")],
                "thread 'main' (27009) panicked at src/main.rs:3:26: index out of bounds: the len is 0 but the index is 3",
            ),
            (vec![sample!("clippy")], "error: unneeded `return` statement"),
            (vec![sample!("pytest")], "FAILED test_sum.py::test_adds - assert 3 == 4"),
            (vec![sample!("pytest_import")], "E   ModuleNotFoundError: No module named 'nothing_here'"),
            (vec![sample!("jest")], "✕ adds 1 + 2 (4 ms)"),
            (vec![sample!("jest_broken")], "Cannot find module './missing' from 'broken.test.js'"),
            (vec![sample!("go_test")], "--- FAIL: TestAdd (0.00s)"),
            (vec![sample!("go_build")], "./add.go:4:9: undefined: total"),
            (vec![sample!("go_panic")], "--- FAIL: TestIndex (0.00s)"),
            (vec![sample!("tsc")], "a.ts(1,7): error TS2322: Type 'string' is not assignable to type 'number'."),
            (vec![sample!("tsc_pretty")], "a.ts:1:7 - error TS2322: Type 'string' is not assignable to type 'number'."),
            (vec![sample!("eslint")], "2:7  error    'y' is assigned a value but never used  no-unused-vars"),
            (vec![sample!("gcc")], "a.c:6:22: error: expected ‘;’ before ‘return’"),
            (vec![sample!("gcc_link")], "l.c:(.text+0x5): undefined reference to `missing'"),
            (vec![sample!("make")], "a.c:6:22: error: expected ‘;’ before ‘return’"),
            (vec![sample!("make_rule")], "make: *** No rule to make target 'nothing'.  Stop."),
        ];
        for (outputs, line) in samples {
            assert_eq!(telling_line(&outputs).as_deref(), Some(line));
        }
    }

    #[test]
    fn short_outputs_show_what_they_say() {
        let cases = [
            ("", "fix it\n", Some("fix it")),
            ("3 files checked\n2 do not match\n", "", Some("2 do not match")),
            ("1 failed", "fix it", Some("1 failed")),
            ("test result: ok. 3 passed; 0 failed", "coverage is 70 %", Some("coverage is 70 %")),
            ("one\ntwo\n", "    Finished `test` profile [unoptimized] target(s) in 0.1s\n", Some("two")),
            (
                "",
                "    Finished `test` profile [unoptimized] target(s) in 0.1s\n",
                Some("Finished `test` profile [unoptimized] target(s) in 0.1s"),
            ),
            ("\u{1b}[1m\u{1b}[31merror\u{1b}[0m: no\r\n", "", Some("error: no")),
            (
                "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nValueError: bad\n",
                "",
                Some("ValueError: bad"),
            ),
            ("sh: 1: frobnicate: not found\ndone\n", "", Some("sh: 1: frobnicate: not found")),
            ("a.c:1:1: warning: odd\nall done\n", "", Some("a.c:1:1: warning: odd")),
            (" \n---\n", "", None),
        ];
        for (stdout, stderr, line) in cases {
            assert_eq!(telling_line(&[stdout, stderr]).as_deref(), line);
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
