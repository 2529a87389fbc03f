//! Selects the most informative line of a program's output about a failure.
//!
//! Counters, rows, gates and error messages have room for one line. All of them use this file, so
//! they all show the same line. Both output streams count alike: many tools print their failures to
//! standard output. What the lines of each family of tools look like is data: one list of forms for
//! each of them.
//!
//! # Invariants
//! - The line comes from the output, without terminal sequences, and is at most [`LINE_MAX`]
//!   characters long. If the place of the failure is in a line nearby, it follows in brackets.
//! - If the output contains a letter or a digit, there is a line.

use std::sync::LazyLock;

use regex::{Regex, RegexSet};

use super::{plain::plain_text, shortened};

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

/// The line of an output that [`telling_line`] has chosen, if the output still has it.
pub fn place_of_telling_line<'a>(
    lines: impl Iterator<Item = &'a str>,
    chosen: &str,
) -> Option<usize> {
    let chosen = chosen.trim_end_matches('…');
    // The place of the failure comes from another line.
    let before_place = chosen
        .strip_suffix(')')
        .and_then(|rest| rest.rsplit_once(" ("))
        .filter(|(_, place)| place.contains(['.', ':']));
    let words = before_place.map_or(chosen, |(words, _)| words);
    if words.is_empty() {
        return None;
    }
    let mut lines = lines.enumerate();
    let found = lines.find(|(_, line)| match line.trim() {
        "" => false,
        // The reason of a panic has the next line, too.
        line => {
            line.contains(chosen)
                || line.contains(words)
                || line.contains(" panicked at ") && words.starts_with(line)
        }
    });
    found.map(|(at, _)| at)
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

/// What a line says about a failure. If several forms fit a line, the first of these counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LineKind {
    /// The next line is the failure.
    Head,
    /// It names the failure and its reason.
    Explained,
    /// Progress, success, source code, differences, stack frames, advice, and what a tool adds to
    /// the failure of another.
    Noise,
    /// It reports that something failed, but not what.
    Summary,
    Warning,
    /// What is wrong: an assertion, an exception, an error of a compiler or a linter.
    Cause,
    /// It names a test that failed.
    Named,
    /// It mentions a warning.
    Remark,
    /// It contains a word for a failure.
    Mention,
    Other,
}

impl LineKind {
    /// How much a reader wants to see the line.
    const fn weight(self) -> u8 {
        match self {
            Self::Noise => 0,
            Self::Other => 1,
            Self::Warning | Self::Remark => 2,
            Self::Summary => 3,
            Self::Mention => 4,
            Self::Named => 5,
            Self::Head | Self::Cause => 6,
            Self::Explained => 7,
        }
    }
}

/// Regular expressions for a trimmed line.
const FORMS: &[(LineKind, &[&str])] = &[
    // rust
    (LineKind::Head, &[r" panicked at \S+:$"]),
    (
        LineKind::Explained,
        &[r"^note: panic did not contain expected string"],
    ),
    (
        LineKind::Summary,
        &[
            r"^error: (could not compile|aborting due to|(doc)?test failed|\d+ target\w* failed|process (didn't exit|completed)|command failed)",
            r"targets failed:$",
        ],
    ),
    (
        LineKind::Noise,
        &[
            r"^(Compiling|Checking|Finished|Running|Download(ing|ed)|Updating|Blocking|Locking|Fresh|Adding|Installing|Documenting|Doc-tests)\b.*[^:]$",
            r"^running \d",
            r"\.\.\. (ok|ignored)$",
            r"^(-->|note:|help:|\d+ \|)",
        ],
    ),
    (
        LineKind::Cause,
        &[
            r"^error(\[[\w-]+\])?: ",
            r" panicked at ",
            r"^Error: ",
            r"^Diff in ",
        ],
    ),
    (
        LineKind::Named,
        &[r"\.\.\. FAILED$", r"^(TRY \d+ )?FAIL \["],
    ),
    // python
    (
        LineKind::Explained,
        &[
            r"^(FAILED|ERROR) \S+ - .*[^.]$",
            r"^E +[\w.]*(Error|Exception): ",
            r"^FAIL Required test coverage",
        ],
    ),
    (
        LineKind::Noise,
        &[r"\[ *\d+%\]$", r#"^E +(File "|\^|~)"#, r"\bPASSED\b"],
    ),
    (
        LineKind::Summary,
        &[
            r"^Traceback",
            r"^ImportError: Failed to import",
            r"^(Import|Load)Error while",
            r"^[_!=-]{3,}",
        ],
    ),
    (
        LineKind::Cause,
        &[
            r"^E {3,}\S",
            r"^\S+:\d+:\d+: ([A-Z]+\d+|invalid-syntax)",
            r"^[A-Z]{1,4}\d{3,4} ",
            r"^would reformat",
            r"^unformatted:",
        ],
    ),
    (LineKind::Named, &[r"^(FAILED|ERROR) ", r"::.* FAILED"]),
    // javascript
    (LineKind::Explained, &[r"^(error: )?expect\("]),
    (
        LineKind::Noise,
        &[
            r"^npm (ERR!|error|warn)",
            r"^ELIFECYCLE",
            r"^error Command failed",
            r"^error: script ",
            r"^at ",
            r"^❯ ",
            r"^⎯",
            r"^> ?\d* ?\|",
        ],
    ),
    (
        LineKind::Summary,
        &[
            r"^(FAIL|FAILED:?)\s+[^\[]",
            r"^● (Test suite failed|Console)",
            r"^✖ failing tests",
        ],
    ),
    (
        LineKind::Cause,
        &[
            r"^thrown: ",
            r"^\d+:\d+\s+error\s",
            r"^ESLint ",
            r"^\[(warn|error)\] \S+(:.*)?$",
            r"- error TS\d",
            r"TS\d+ \[ERROR\]",
            r"^Cannot find module",
        ],
    ),
    (LineKind::Named, &[r"^not ok "]),
    // go
    (
        LineKind::Noise,
        &[r"^=== (RUN|PAUSE|CONT|NAME)", r"^--- (PASS|SKIP)", r"^ok\s"],
    ),
    (
        LineKind::Cause,
        &[r"^panic: ", r"^(vet: )?\S+\.go:\d+(:\d+)?: "],
    ),
    (LineKind::Named, &[r"^--- FAIL:"]),
    // java
    (
        LineKind::Summary,
        &[
            r"^FAILURE: ",
            r"^BUILD FAILED",
            r"^\[ERROR\] (Tests run|Failed to execute|Failures:|Errors:|There are|COMPILATION ERROR|To see|Re-run|For more|\[Help|-> |After|Please)",
        ],
    ),
    (LineKind::Cause, &[r"\.java:\[\d+,\d+\]"]),
    // php, ruby
    (
        LineKind::Head,
        &[
            r"^\d+\) \S+::\S+$",
            r"^\S+ \[\S+:\d+\]:$",
            r"^(\w+::)*[A-Z]\w*Error:$",
        ],
    ),
    (LineKind::Explained, &[r"^(│ )?Failed asserting"]),
    (
        LineKind::Cause,
        &[r"^PHP \w+ error: ", r"^Expected(:| .* to )"],
    ),
    (LineKind::Named, &[r"^Failure/Error: "]),
    // c
    (LineKind::Noise, &[r"^Start\s+\d+:"]),
    (
        LineKind::Summary,
        &[r"^collect2: error: ld returned", r"^ninja: build stopped"],
    ),
    (LineKind::Warning, &[r":\d+: (\w*[wW]arning|note|info)\b"]),
    (
        LineKind::Cause,
        &[
            r"(:\d+(:\d+)?|\(\d+,\d+\)): (fatal )?error\b",
            r": undefined reference to",
            r"^CMake Error",
        ],
    ),
    (LineKind::Named, &[r"^\d+/\d+ Test +#\d+:.*\*\*\*"]),
    // kotlin, scala, elixir, haskell, and tools around them
    (
        LineKind::Head,
        &[
            r"\*\*\* FAILED \*\*\*$",
            r":\d+: Failure$",
            r":\d+: FAILED:$",
            r"^ERROR in \S+",
            r"^error: \|-?$",
        ],
    ),
    (LineKind::Explained, &[r"^FAIL - "]),
    (
        LineKind::Summary,
        &[
            r"^Failed to compile",
            r"(?i)\bbuild failed in\b",
            r"run failed: command",
            r"chart\(s\) failed",
            r"^\[ERROR\] Found \d",
            r"^== \[",
            r"^Error:$",
            r"^> Task :.* FAILED$",
        ],
    ),
    (
        LineKind::Cause,
        &[
            r"^\*\* \(",
            r"^e: \S",
            r"^Module not found",
            r"^(Type|Syntax|Parse) error: ",
        ],
    ),
    // make, just, shells
    (
        LineKind::Noise,
        &[
            r"^make(\[\d+\])?: (\*\*\* \[|Target |\w+ing directory )",
            r"^error: Recipe ",
        ],
    ),
    (
        LineKind::Cause,
        &[
            r": \*\*\* .*Stop\.",
            r"^\S+: (line )?\d+: ",
            r": (No such file or directory|Permission denied|(command )?not found)$",
            r"SC\d+ \(error\)",
        ],
    ),
    // any
    (
        LineKind::Noise,
        &[
            r"^([✓✔√]|PASS\b)",
            r"^(\||~|[Hh]int:|For more information|import )",
            r"^([+-][^-+]|@@|\+\+\+ |--- ([ab]/|\S+\.)|diff --git )",
            r"^[\w./<>\[\]-]+( files)?\s*(\|\s*)?(\d+\s+){2,}.*\d%",
            r"\|\s+[\d.]+ \|",
            r"(?i)\b(0|no) (errors?|failures?|failed|problems?)\b",
            r"(?i)\b(errors|failures|failed): 0",
        ],
    ),
    (
        LineKind::Summary,
        &[
            r"(?i)^(failures|errors):",
            r"(?i)^(failed|fail|failure|error|exit status.*)$",
            r"(?i)^(test result:|test suites:|tests?:|test files|tests run:|suites?\b|ran \d)",
            r"(?i)^\W*(found )?[1-9]\d* (tests? )?(errors?|failed|failures?|problems?|failing|targets?|offenses?)\b",
            r"(?i)^(warning|error): build failed",
        ],
    ),
    (
        LineKind::Cause,
        &[
            r"^(\S+: )?(Uncaught )?[\w.$]*(Error|Exception|Interrupt)( \[\w+\])?(:| at \S+:\d+$)",
            r"^fatal: ",
            r"(?i)\bassertion\b.*\bfailed\b",
            r"(?i)^[\w./-]+\.\w+:\d+(:\d+)?: ",
        ],
    ),
    (
        LineKind::Named,
        &[r"^[✕✗✖✘×❌●]", r"^(fail|FAIL):", r" FAILED$"],
    ),
    (LineKind::Remark, &[r"(?i)\bwarn(ing)?\b"]),
    (
        LineKind::Mention,
        &[
            r"(?i)\b(error|errors|err|fail|fails|failed|failing|failure|failures|fatal|panic|panicked|exception|aborted|denied|killed|undefined|unexpected|cannot|segmentation|assert\w*)\b",
            r"(?i)not found",
            r"(?i)no such",
            r"(?i)timed out",
            r"(?i)can't",
            r"(?i)couldn't",
            r"(?i)could not",
            r"(?i)(?-i:\w(Error|Exception)\b)",
            r"(?i)[✕✗✖✘❌]",
            r"(?i)^[^\s:]*[./][^\s:]*:\d+",
        ],
    ),
];

fn kind_of(line: &str) -> LineKind {
    static SET: LazyLock<(Vec<LineKind>, RegexSet)> = LazyLock::new(|| {
        let all = || {
            FORMS
                .iter()
                .flat_map(|(kind, forms)| forms.iter().map(move |form| (*kind, *form)))
        };
        let set =
            RegexSet::new(all().map(|(_, form)| form)).expect("the forms are regular expressions");
        (all().map(|(kind, _)| kind).collect(), set)
    });
    let (kinds, set) = &*SET;
    set.matches(line)
        .iter()
        .map(|n| kinds[n])
        .min()
        .unwrap_or(LineKind::Other)
}

/// Where a line about a failure has its place: how many lines after it (before it, if negative), at
/// most, and the form of that line.
const PLACES: [(isize, &str); 6] = [
    (-1, r" panicked at (\S+:\d+:\d+):$"),
    (-1, r"^\S+ \[(\S+:\d+)\]:$"),
    (2, r"^--> (\S+:\d+:\d+)$"),
    (10, r"^(\S+\.py:\d+): \w*$"),
    (25, r"^(?:at|❯) (?:.*\()?([^\s()]+:\d+:\d+)\)?$"),
    (-3, r#"^File "(.+)", line (\d+)"#),
];
/// Above the findings of a linter that have only a line and a column.
const FILE: &str = r"^(/?[\w.-]+(?:/[\w.-]+)*\.\w+)$";
const FINDINGS_MAX: isize = -20;

/// The place of the failure in this line, if a line nearby has it and the line itself does not.
fn place_of(lines: &[&str], at: usize) -> Option<String> {
    static FORMS: LazyLock<Vec<(isize, Regex)>> = LazyLock::new(|| {
        let all = PLACES.iter().copied().chain([(FINDINGS_MAX, FILE)]);
        all.map(|(within, form)| (within, Regex::new(form).expect("a regular expression")))
            .collect()
    });
    static HAS_PLACE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\w\.\w+(:\d|\(\d|:\[)").expect("a regular expression"));
    static FINDING: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^\d+:\d+\s").expect("a regular expression"));
    if HAS_PLACE.is_match(lines[at]) {
        return None;
    }
    let is_finding = FINDING.is_match(lines[at]);
    let mut forms = FORMS
        .iter()
        .filter(|(within, _)| (*within == FINDINGS_MAX) == is_finding);
    forms.find_map(|(within, form)| nearby(lines, at, *within, form))
}

/// What a place in a library has in its path.
const FOREIGN: [&str; 6] = [
    "node_modules",
    "node:",
    "https://",
    ".cargo/registry",
    "/rustc/",
    "site-packages",
];

/// The place in the nearest line of this form. A ruler ends the search, and frames of libraries are
/// not the place.
fn nearby(lines: &[&str], at: usize, within: isize, form: &Regex) -> Option<String> {
    let is_ruler = |line: &&str| line.starts_with("___") || line.starts_with("===");
    let is_foreign = |line: &str| FOREIGN.iter().any(|part| line.contains(part));
    let near = (1..=within.unsigned_abs()).map_while(|n| {
        let at = if within < 0 {
            at.checked_sub(n)?
        } else {
            at + n
        };
        lines.get(at).copied()
    });
    let mut near = near
        .take_while(|line| !is_ruler(line))
        .filter(|line| !is_foreign(line));
    let found = near.find_map(|line| form.captures(line))?;
    let parts: Vec<&str> = found
        .iter()
        .skip(1)
        .flatten()
        .map(|part| part.as_str())
        .collect();
    Some(parts.join(":"))
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
