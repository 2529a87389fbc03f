//! Reads from the output of a test runner how many tests ran.
//!
//! Which lines count is data: one row per runner. A runner can print several summaries, one per
//! program or module: they are added up.
//!
//! # Invariants
//! - Output without a summary that creel knows has no counts: it says nothing about the tests.
//! - Memory does not grow with the output: it is read line by line.

use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use super::plain::plain_text;

/// Longer lines are no summaries, in bytes.
const LINE_MAX: usize = 500;

/// The tests of one run of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestCounts {
    pub passed: u64,
    pub failed: u64,
    /// Skipped, ignored, deselected, expected to fail, or not written yet.
    pub skipped: u64,
    /// Whether there may be more tests: the runner stopped at a failure, or it prints counts only
    /// when a test fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

impl TestCounts {
    pub const fn total(self) -> u64 {
        self.passed
            .saturating_add(self.failed)
            .saturating_add(self.skipped)
    }

    /// The counts in an output. None if it has no summary that creel knows.
    pub fn read(output: &str) -> Option<Self> {
        let mut reader = TestCountReader::default();
        for line in output.lines() {
            reader.line(line);
        }
        reader.finish()
    }

    fn add(&mut self, more: Self) {
        self.passed = self.passed.saturating_add(more.passed);
        self.failed = self.failed.saturating_add(more.failed);
        self.skipped = self.skipped.saturating_add(more.skipped);
        self.partial |= more.partial;
    }
}

/// How a summary line is read.
#[derive(Debug, Clone, Copy)]
enum SummaryForm {
    /// Numbers with words, as in `3 passed, 1 failed`.
    List,
    /// Words with numbers, as in `Failures: 1, Skipped: 2`; `total` names the sum.
    Named,
    /// The number of tests; a later line says how many of them did not pass.
    TotalFirst,
    /// One test.
    One(TestResult),
    /// The runner left out tests.
    Stopped,
    /// The runner names every test, not only those that fail.
    Verbose,
    /// A summary that is printed only when a test failed.
    OnlyFailures,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestResult {
    Passed,
    Failed,
    Skipped,
}

/// Regular expressions for a trimmed line. The capture is what is read; the first row that fits
/// counts.
const FORMS: &[(&str, SummaryForm)] = &[
    // cargo test
    (r"^test result: \S+\. (.*)", SummaryForm::List),
    (
        r"^error: (?:doc)?test failed, to rerun pass",
        SummaryForm::Stopped,
    ),
    // cargo nextest
    (
        r"^Summary \[[^\]]*\] +(?:\d+/)?\d+ tests? run: (.*)",
        SummaryForm::List,
    ),
    (
        r"^warning: \d+/\d+ tests? (?:was|were) not run",
        SummaryForm::Stopped,
    ),
    // pytest
    (
        r"^=* ?(\d+ [a-z]+(?: [a-z]+)?(?:, \d+ [a-z]+(?: [a-z]+)?)*) in [\d.]+s(?: \([\d:]+\))? ?=*$",
        SummaryForm::List,
    ),
    (r"^=* ?(no tests ran) in [\d.]+s ?=*$", SummaryForm::List),
    (r"^!+ (?:stopping after|Interrupted:)", SummaryForm::Stopped),
    // unittest
    (r"^Ran (\d+) tests?[ ]in [\d.]+s$", SummaryForm::TotalFirst),
    (r"^(?:OK|FAILED) \(([a-z ]+=\d+.*)\)$", SummaryForm::Named),
    // jest, Pest
    (
        r"^Tests: +(\d+ [a-z]+(?:, \d+ [a-z]+)*)(?: \(\d+ assertions?\))?$",
        SummaryForm::List,
    ),
    // vitest
    (
        r"^Tests +(\d+ [a-z ]+(?: \| \d+ [a-z ]+)*)\(\d+\)$",
        SummaryForm::List,
    ),
    // mocha
    (r"^(\d+ passing) \(\d+\w+\)$", SummaryForm::List),
    (r"^(\d+ (?:pending|failing))$", SummaryForm::List),
    // node --test
    (
        r"^(?:#|ℹ) ((?:pass|fail|cancelled|skipped|todo) \d+)$",
        SummaryForm::Named,
    ),
    // go test -v and -json; without them, it names only tests that fail
    (r"^=== RUN ", SummaryForm::Verbose),
    (
        r"^--- PASS: Test|^\{.*\x22Action\x22:\x22pass\x22.*\x22Test\x22:",
        SummaryForm::One(TestResult::Passed),
    ),
    (
        r"^--- FAIL: Test|^\{.*\x22Action\x22:\x22fail\x22.*\x22Test\x22:",
        SummaryForm::One(TestResult::Failed),
    ),
    (
        r"^--- SKIP: Test|^\{.*\x22Action\x22:\x22skip\x22.*\x22Test\x22:",
        SummaryForm::One(TestResult::Skipped),
    ),
    // Gradle, and its plugin for test loggers
    (
        r"^(\d+ tests?[ ]completed(?:, \d+ (?:failed|skipped))*)$",
        SummaryForm::OnlyFailures,
    ),
    (
        r"^(?:SUCCESS|FAILURE): Executed (\d+ tests?) in \S+(?: \S+)*?(?: (\(.*\)))?$",
        SummaryForm::List,
    ),
    // Maven; a line with a time is about one class
    (
        r"^(?:\[\w+\] )?(Tests run: \d+, Failures: \d+, Errors: \d+, Skipped: \d+)$",
        SummaryForm::Named,
    ),
    // ctest
    (
        r"^\d+% tests passed, (\d+ tests?[ ]failed out of \d+)$",
        SummaryForm::List,
    ),
    (
        r"^\d+ - .+ \((?:Skipped|Disabled|Not Run.*)\)$",
        SummaryForm::One(TestResult::Skipped),
    ),
    // PHPUnit
    (r"^OK \((\d+ tests?), \d+ assertions?\)$", SummaryForm::List),
    (r"^(Tests: \d+, Assertions: \d+.*)\.$", SummaryForm::Named),
    // dotnet test
    (
        r"^(?:Passed|Failed)! +- (Failed: +\d+, Passed: +\d+, Skipped: +\d+)",
        SummaryForm::Named,
    ),
    // RSpec, minitest
    (
        r"^(\d+ (?:examples?|runs), .*\d+ (?:failures?|pending|skips).*)$",
        SummaryForm::List,
    ),
];

/// What the words of summaries mean. A word that is not listed says nothing about a test.
const WORDS: &[(&str, WordMeaning)] = &[
    ("passed", WordMeaning::Of(TestResult::Passed)),
    ("xpassed", WordMeaning::Of(TestResult::Passed)),
    ("passing", WordMeaning::Of(TestResult::Passed)),
    ("pass", WordMeaning::Of(TestResult::Passed)),
    ("measured", WordMeaning::Of(TestResult::Passed)),
    ("failed", WordMeaning::Of(TestResult::Failed)),
    ("tests failed", WordMeaning::Of(TestResult::Failed)),
    ("test failed", WordMeaning::Of(TestResult::Failed)),
    ("failing", WordMeaning::Of(TestResult::Failed)),
    ("fail", WordMeaning::Of(TestResult::Failed)),
    ("failure", WordMeaning::Of(TestResult::Failed)),
    ("failures", WordMeaning::Of(TestResult::Failed)),
    ("error", WordMeaning::Error),
    ("errors", WordMeaning::Error),
    ("cancelled", WordMeaning::Of(TestResult::Failed)),
    ("timed out", WordMeaning::Of(TestResult::Failed)),
    ("exec failed", WordMeaning::Of(TestResult::Failed)),
    ("unexpected successes", WordMeaning::Of(TestResult::Failed)),
    ("skipped", WordMeaning::Of(TestResult::Skipped)),
    ("skips", WordMeaning::Of(TestResult::Skipped)),
    ("ignored", WordMeaning::Of(TestResult::Skipped)),
    ("todo", WordMeaning::Of(TestResult::Skipped)),
    ("pending", WordMeaning::Of(TestResult::Skipped)),
    ("incomplete", WordMeaning::Of(TestResult::Skipped)),
    ("deselected", WordMeaning::Of(TestResult::Skipped)),
    ("xfailed", WordMeaning::Of(TestResult::Skipped)),
    ("expected fail", WordMeaning::Of(TestResult::Skipped)),
    ("expected failures", WordMeaning::Of(TestResult::Skipped)),
    ("out of", WordMeaning::Total),
    ("tests run", WordMeaning::Total),
    ("tests", WordMeaning::Total),
    ("test", WordMeaning::Total),
    ("tests completed", WordMeaning::Total),
    ("test completed", WordMeaning::Total),
    ("examples", WordMeaning::Total),
    ("example", WordMeaning::Total),
    ("runs", WordMeaning::Total),
    ("subtest passed", WordMeaning::Subtests),
    ("subtests passed", WordMeaning::Subtests),
];

#[derive(Debug, Clone, Copy)]
enum WordMeaning {
    Of(TestResult),
    /// A test that failed, or an error before or after a test that is counted, too.
    Error,
    /// All tests: those that no other number counts have passed.
    Total,
    /// Parts of tests. Each that fails counts as a failed test.
    Subtests,
}

static READ_FORMS: LazyLock<Vec<(Regex, SummaryForm)>> = LazyLock::new(|| {
    let compile = |(form, how): &(&str, SummaryForm)| (pattern(form), *how);
    FORMS.iter().map(compile).collect()
});
static NUMBER_WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"(\d+) ([a-z]+(?: [a-z]+)?)"));
static OUT_OF: LazyLock<Regex> = LazyLock::new(|| pattern(r"out of (\d+)"));
static WORD_NUMBER: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"([A-Za-z]+(?: [a-z]+)?)(?:=|: *| )(\d+)"));
static IN_BRACKETS: LazyLock<Regex> = LazyLock::new(|| pattern(r"\([^)]*\)"));

fn pattern(form: &str) -> Regex {
    Regex::new(form).expect("the forms of summaries are valid patterns")
}

/// Reads an output line by line.
#[derive(Debug, Default)]
pub struct TestCountReader {
    found: Option<TestCounts>,
    /// Whether the runner left out tests.
    is_stopped: bool,
    /// Whether it named a test that failed, and whether it names all.
    names_failures: bool,
    names_all: bool,
    /// The number of tests whose results come in a later line.
    open_total: Option<u64>,
}

impl TestCountReader {
    pub fn line(&mut self, line: &str) {
        if line.len() > LINE_MAX || !may_be_summary(line) {
            return;
        }
        let line = plain_text(line);
        let line = line.trim();
        let fits = READ_FORMS
            .iter()
            .find_map(|(form, how)| Some((form.captures(line)?, *how)));
        let Some((captures, how)) = fits else {
            return;
        };
        let parts: Vec<&str> = captures
            .iter()
            .skip(1)
            .flatten()
            .map(|part| part.as_str())
            .collect();
        let numbers = parts.join(", ");
        match how {
            SummaryForm::List => self.add(listed(&numbers, false)),
            SummaryForm::OnlyFailures => self.add(listed(&numbers, true)),
            SummaryForm::Named => {
                let total = self.open_total.take();
                self.add(named(&numbers, total));
            }
            SummaryForm::TotalFirst => {
                self.close_total();
                self.open_total = numbers.parse().ok();
            }
            SummaryForm::One(result) => {
                self.names_failures |= line.starts_with("--- ");
                let mut one = TestCounts::default();
                put(&mut one, result, 1);
                self.add(one);
            }
            SummaryForm::Stopped => self.is_stopped = true,
            SummaryForm::Verbose => self.names_all = true,
        }
    }

    pub fn finish(mut self) -> Option<TestCounts> {
        self.close_total();
        let counts = self.found?;
        Some(TestCounts {
            partial: counts.partial || self.is_stopped || (self.names_failures && !self.names_all),
            ..counts
        })
    }

    fn add(&mut self, more: TestCounts) {
        self.found.get_or_insert_default().add(more);
    }

    /// No line said that any of these tests did not pass.
    fn close_total(&mut self) {
        if let Some(passed) = self.open_total.take() {
            self.add(TestCounts {
                passed,
                ..TestCounts::default()
            });
        }
    }
}

/// Most lines of an output are none: this is cheaper than the patterns.
fn may_be_summary(line: &str) -> bool {
    let start = line.trim_start_matches(|c: char| c.is_whitespace() || c == '=');
    let begins =
        start.starts_with(|c: char| c.is_ascii_digit() || "TtSsROFPewn-{#ℹ![\u{1b}".contains(c));
    begins && !start.is_empty()
}

fn put(counts: &mut TestCounts, result: TestResult, number: u64) {
    let place = match result {
        TestResult::Passed => &mut counts.passed,
        TestResult::Failed => &mut counts.failed,
        TestResult::Skipped => &mut counts.skipped,
    };
    *place = place.saturating_add(number);
}

fn meaning(word: &str) -> Option<WordMeaning> {
    let known = |word: &str| WORDS.iter().find(|(known, _)| *known == word);
    let first = || word.split(' ').next().and_then(known);
    known(word).or_else(first).map(|(_, meaning)| *meaning)
}

/// Numbers with words behind them.
fn listed(text: &str, partial: bool) -> TestCounts {
    let text = if text.starts_with(|c: char| c.is_ascii_digit()) && text.contains("), ") {
        IN_BRACKETS.replace_all(text, "").into_owned()
    } else {
        text.replace(['(', ')'], "")
    };
    let pairs = NUMBER_WORD
        .captures_iter(&text)
        .map(|pair| (pair[2].to_owned(), pair[1].to_owned()))
        .collect();
    let of_all = OUT_OF
        .captures(&text)
        .and_then(|found| found[1].parse().ok());
    let counts = summed(pairs, of_all);
    TestCounts {
        partial: partial || counts.partial,
        ..counts
    }
}

/// Numbers with words before them.
fn named(text: &str, total: Option<u64>) -> TestCounts {
    let pairs = WORD_NUMBER
        .captures_iter(text)
        .map(|pair| (pair[1].to_lowercase(), pair[2].to_owned()))
        .collect();
    summed(pairs, total)
}

fn summed(pairs: Vec<(String, String)>, total: Option<u64>) -> TestCounts {
    let (mut counts, mut total) = (TestCounts::default(), total);
    let (mut errors, mut has_parts) = (0, false);
    for (word, number) in pairs {
        let Ok(number) = number.parse() else {
            continue;
        };
        match meaning(&word) {
            Some(WordMeaning::Of(result)) => put(&mut counts, result, number),
            Some(WordMeaning::Error) => errors = number,
            Some(WordMeaning::Total) => total = Some(number),
            Some(WordMeaning::Subtests) => has_parts = true,
            None => {}
        }
    }
    if let Some(total) = total {
        put(&mut counts, TestResult::Failed, errors);
        // A test can fail several times: in its parts, and when it is torn down.
        let most = total.saturating_sub(counts.skipped);
        counts.failed = counts.failed.min(most);
        if counts.passed == 0 {
            counts.passed = total.saturating_sub(counts.total());
        }
    } else {
        // Without a total, these may be tests that are counted, too.
        counts.partial = errors > 0 || (has_parts && counts.failed > 0);
        if has_parts {
            counts.failed = 0;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passed, failed, skipped.
    fn read(output: &str) -> Option<(u64, u64, u64)> {
        let counts = TestCounts::read(output)?;
        Some((counts.passed, counts.failed, counts.skipped))
    }

    fn is_partial(output: &str) -> bool {
        TestCounts::read(output).is_some_and(|counts| counts.partial)
    }

    #[test]
    fn the_summaries_of_all_programs_of_cargo_are_added_up() {
        let output = "\nrunning 4 tests\ntest a ... ok\ntest b ... ignored\n\n\
            test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s\n\n\
            running 2 tests\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\n\
            error: 1 target failed:\n    `-p a --test it`\n";
        assert_eq!(read(output), Some((4, 1, 1)));
        assert!(!is_partial(output));
        let stopped = format!("{output}error: test failed, to rerun pass `--lib`\n");
        assert!(is_partial(&stopped));
    }

    #[test]
    fn nextest_counts_in_brackets_are_parts_of_others() {
        let output = "     Summary [   0.125s] 7 tests run: 5 passed (1 slow, 1 flaky), 1 failed, 1 timed out, 3 skipped\n";
        assert_eq!(read(output), Some((5, 2, 3)));
        let output = "     Summary [   0.1s] 3/10 tests run: 2 passed, 1 failed, 0 skipped\n\
            warning: 7/10 tests were not run due to test failure (run with --no-fail-fast to run all tests)\n";
        assert_eq!(read(output), Some((2, 1, 0)));
        assert!(is_partial(output));
        let one = "Summary [0.004s] 1 test run: 1 passed, 0 skipped";
        assert_eq!(read(one), Some((1, 0, 0)));
    }

    #[test]
    fn pytest_and_unittest_are_read() {
        let all = "===== 1 failed, 10 passed, 2 skipped, 3 deselected, 1 xfailed, 2 warnings, 1 error in 62.10s (0:01:02) =====";
        assert_eq!(read(all), Some((10, 1, 6)));
        assert!(
            is_partial(all),
            "an error can be that of a test that passed"
        );
        let parts = "=== 2 failed, 1 passed, 5 subtests passed in 0.10s ===";
        assert_eq!(read(parts), Some((1, 0, 0)));
        assert!(is_partial(parts), "a test and its parts can fail");
        let repaired = "=== 1 passed, 7 subtests passed in 0.10s ===";
        assert_eq!(read(repaired), Some((1, 0, 0)));
        assert!(!is_partial(repaired));
        assert_eq!(
            read("Ran 1 test in 0.001s\n\nFAILED (failures=3)"),
            Some((0, 1, 0)),
            "three parts of one test"
        );
        assert_eq!(read("3 passed in 0.01s"), Some((3, 0, 0)));
        assert_eq!(read("==== no tests ran in 0.01s ===="), Some((0, 0, 0)));
        let stopped = "!!!! stopping after 1 failures !!!!\n=== 1 failed, 2 passed in 0.1s ===";
        assert!(is_partial(stopped));
        assert_eq!(
            read("Ran 5 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=1)"),
            Some((2, 2, 1))
        );
        assert_eq!(
            read("Ran 3 tests in 0.1s\n\nOK (skipped=1, expected failures=1)"),
            Some((1, 0, 2))
        );
        assert_eq!(read("Ran 2 tests in 0.000s\n\nOK\n"), Some((2, 0, 0)));
    }

    #[test]
    fn the_runners_of_javascript_are_read() {
        let jest = "Test Suites: 1 failed, 2 passed, 3 total\n\
            Tests:       1 failed, 2 skipped, 1 todo, 10 passed, 14 total\nSnapshots:   0 total\n";
        assert_eq!(read(jest), Some((10, 1, 3)));
        let vitest = " Test Files  1 failed | 2 passed (3)\n      \u{1b}[2mTests\u{1b}[22m  1 failed | 10 passed | 2 skipped | 1 todo (14)\n";
        assert_eq!(read(vitest), Some((10, 1, 3)));
        assert_eq!(
            read("  10 passing (5ms)\n  2 pending\n  1 failing\n"),
            Some((10, 1, 2))
        );
        let node = "# tests 6\n# suites 0\n# pass 3\n# fail 1\n# cancelled 0\n# skipped 1\n# todo 1\n# duration_ms 50";
        assert_eq!(read(node), Some((3, 1, 2)));
    }

    #[test]
    fn go_counts_only_what_it_names() {
        let verbose = "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/sub (0.00s)\n\
            --- FAIL: TestB (0.00s)\n--- SKIP: TestC (0.00s)\nFAIL\tx\t0.01s\n";
        assert_eq!(read(verbose), Some((2, 1, 1)));
        let json = "{\"Action\":\"pass\",\"Package\":\"x\",\"Test\":\"TestA\"}\n{\"Action\":\"pass\",\"Package\":\"x\"}\n";
        assert_eq!(read(json), Some((1, 0, 0)));
        assert_eq!(read("ok  \tx\t0.01s\n?   \ty\t[no test files]\n"), None);
        let failures = "--- FAIL: TestB (0.00s)\nFAIL\tx\t0.01s\n";
        assert!(is_partial(failures), "without -v, go names only failures");
    }

    #[test]
    fn the_runners_of_java_php_c_and_others_are_read() {
        let gradle = "14 tests completed, 1 failed, 2 skipped";
        assert_eq!(read(gradle), Some((11, 1, 2)));
        assert!(is_partial(gradle), "Gradle is silent when all pass");
        assert_eq!(
            read("SUCCESS: Executed 12 tests in 1.2s (1 skipped)"),
            Some((11, 0, 1))
        );
        let maven = "[INFO] Tests run: 4, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s -- in A\n\
            [ERROR] Tests run: 10, Failures: 1, Errors: 1, Skipped: 2\n";
        assert_eq!(read(maven), Some((6, 2, 2)));
        let ctest = "90% tests passed, 1 tests failed out of 10\n\nThe following tests did not run:\n\t  3 - slow (Disabled)\n";
        assert_eq!(read(ctest), Some((9, 1, 1)));
        assert_eq!(
            read("100% tests passed, 0 tests failed out of 3"),
            Some((3, 0, 0))
        );
        assert_eq!(read("OK (5 tests, 10 assertions)"), Some((5, 0, 0)));
        let phpunit = "OK, but incomplete, skipped, or risky tests!\nTests: 9, Assertions: 10, Failures: 1, Skipped: 2, Incomplete: 1.";
        assert_eq!(read(phpunit), Some((5, 1, 3)));
        let pest = "  Tests:    1 failed, 2 skipped, 10 passed (20 assertions)";
        assert_eq!(read(pest), Some((10, 1, 2)));
        let dotnet =
            "Passed!  - Failed:     0, Passed:     5, Skipped:     1, Total:     6, Duration: 9 ms";
        assert_eq!(read(dotnet), Some((5, 0, 1)));
        assert_eq!(read("10 examples, 1 failure, 2 pending"), Some((7, 1, 2)));
        assert_eq!(
            read("5 runs, 10 assertions, 1 failures, 0 errors, 1 skips"),
            Some((3, 1, 1))
        );
    }

    #[test]
    fn other_output_has_no_counts() {
        for output in [
            "",
            "all tests passed",
            "3 files changed, 10 insertions(+)",
            "warning: 2 warnings emitted",
            "OK",
            "Finished in 3 seconds",
        ] {
            assert_eq!(read(output), None, "{output}");
        }
    }
}
