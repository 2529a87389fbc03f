//! Signs of weakened tests in the files that a session changed: removed assertions and tests, new
//! skip marks, assertions that cannot fail.
//!
//! Owns what a test file, an assertion and a skip mark look like in each language: one table. Does
//! not read files: see `crate::runtime`. It reads lines, not programs, so it finds shortcuts and
//! typing, not every trick.
//!
//! # Invariants
//! - A line that is only moved, to another place or another file, is neither removed nor added.
//! - What is weak in the text before, too, is no finding.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;

use crate::{
    engine::verify::test_guard::TestFinding,
    text::{line_changes, shortened},
};

/// How much of a line a finding quotes, in characters.
const QUOTED: usize = 80;

/// A file before the session and now. None: there is no such file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedText {
    pub name: String,
    pub before: Option<String>,
    pub now: Option<String>,
}

/// What tests of a language look like. All patterns are for one line; an empty one fits nothing.
struct TestLanguage {
    extensions: &'static [&'static str],
    /// Names of test files, without folders.
    names: &'static str,
    /// From this line on, a file that is no test file has tests.
    tests_from: &'static str,
    /// How a test is declared.
    declares: &'static str,
    asserts: &'static str,
    /// What keeps a test from running or from failing.
    weakens: &'static str,
    comment: &'static str,
}

const LANGUAGES: &[TestLanguage] = &[
    TestLanguage {
        extensions: &["rs"],
        names: r"^(tests?\.rs|.*_tests?\.rs)$",
        tests_from: r"^\s*#\[cfg\(test\)\]|^\s*#\[(\w+::)*test\b",
        declares: r"#\[(\w+::)*test\b",
        asserts: r"\b\w*assert\w*!|\bexpect!\[|#\[should_panic|\.(unwrap|expect)_err\(",
        weakens: r"#\[ignore\b|#\[cfg\((any\(\)|false|FALSE)\)\]|\bassert!\(\s*true\s*[,)]|#\[cfg_attr\(.*\bignore\b|\bif\s+false\b",
        comment: r"^\s*(//|/\*|\*)",
    },
    TestLanguage {
        extensions: &["py", "pyi"],
        names: r"^(test_.*|.*_test|tests?|conftest)\.py$",
        tests_from: "",
        declares: r"^\s*(async\s+)?def\s+test",
        asserts: r"^\s*assert\b|\bself\.assert\w+\(|\bself\.fail\w*\(|\bpytest\.(raises|warns|fail)\(|\.assert_\w+\(",
        weakens: r#"@(pytest\.)?mark\.(skip|skipif|xfail)\b|\bpytest\.(skip|xfail|importorskip)\(|@(unittest\.)?(skip|skipIf|skipUnless|expectedFailure)\b|\.skipTest\(|^\s*assert\s+(True|1)\s*(,.*|#.*)?$|^\s*assert\b.*\bor\s+True\b|assertTrue\(\s*True\s*[,)]|\bcollect_ignore|\bpytestmark\s*=|\b__(eq|ne|lt|le|gt|ge|bool|contains)__\s*=\s*lambda[^:]*:\s*True|\b(sys|os)\._?exit\(\s*0?\s*\)|^\s*(if|while)\s+(False|0)\s*:|\.outcome\s*=\s*['"]passed|^\s*def\s+pytest_(collection_modifyitems|ignore_collect|pyfunc_call|runtest_\w+|report_teststatus)\b"#,
        comment: r"^\s*#",
    },
    TestLanguage {
        extensions: &["js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue"],
        names: r"\.(test|spec|cy|e2e)\.\w+$|^(test|tests)\.\w+$",
        tests_from: "",
        declares: r"^\s*(it|test)(\.(each|for|concurrent|sequential|serial))*\s*[(`]",
        asserts: r"\bexpect\s*\(|\bassert(\.\w+)*\s*\(|\.should\b|\bt\.(is|not|true|false|truthy|falsy|deepEqual|equal|throws\w*|like)\(",
        weakens: r"\b(it|test|describe|suite|context)\.(skip|todo|only|fails|failing)\b|^\s*(xit|xtest|xdescribe|fit|fdescribe)\s*\(|\bthis\.skip\(|\bskip:\s*true|\bexpect\(\s*(true|1)\s*\)\.(toBe(Truthy)?|toEqual|to\.be)|\bassert(\.ok)?\(\s*true\s*[,)]|\bt\.(pass|skip)\(|\bif\s*\(\s*false\s*\)",
        comment: r"^\s*(//|/\*|\*)",
    },
    TestLanguage {
        extensions: &["go"],
        names: r"_test\.go$",
        tests_from: "",
        declares: r"^func\s+(Test|Fuzz|Example)\w*\(",
        asserts: r"\b[tb]\.(Error|Errorf|Fatal|Fatalf|Fail|FailNow)\(|\b(assert|require|is|qt)\.\w+\(",
        weakens: r"\bt\.(Skip|Skipf|SkipNow)\(|^//\s*\+build\s+ignore|^//go:build\s+ignore|\bassert\.True\(t,\s*true\b|\bos\.Exit\(\s*0\s*\)|\bif\s+false\b",
        comment: r"^\s*(//[^g+ ]|// [^+]|/\*|\*)",
    },
    TestLanguage {
        extensions: &["java", "kt", "kts", "groovy", "scala"],
        names: r"(Tests?|IT|Spec)\.\w+$|^Test\w+\.(java|kt)$",
        tests_from: "",
        declares: r"@(Test|ParameterizedTest|RepeatedTest)\b",
        asserts: r"\bassert\w*\s*[({]|^\s*assert\b|\bverify\s*\(|\bfail\s*\(|\bshould\w*\b|\bexpectThat\b",
        weakens: r"@(Disabled|Ignore)\w*\b|\bassum(e|ing)\w*\(\s*(false|true)|\bassertTrue\(\s*true\s*[,)]|\bassertThat\(\s*true\s*\)|\benabled\s*=\s*false|\bif\s*\(\s*false\s*\)",
        comment: r"^\s*(//|/\*|\*)",
    },
    TestLanguage {
        extensions: &["c", "cc", "cpp", "cxx", "h", "hpp"],
        names: r"^(test_.*|.*_(unit)?tests?|.*Tests?|tests?)\.\w+$",
        tests_from: "",
        declares: r"^\s*(TEST|TEST_F|TEST_P|TYPED_TEST|TEST_CASE|SCENARIO|BOOST_AUTO_TEST_CASE)\s*\(",
        asserts: r"\b(EXPECT|ASSERT|CHECK|REQUIRE|BOOST_(CHECK|REQUIRE|TEST)|QVERIFY|QCOMPARE)\w*\s*\(|\b\w*assert\w*\s*\(",
        weakens: r"\bGTEST_SKIP\b|\bDISABLED_|\bSKIP\(|\bQSKIP\(|\b(EXPECT|ASSERT)_TRUE\(\s*true\s*\)|\b(CHECK|REQUIRE)\(\s*true\s*\)|\bassert\(\s*(1|true)\s*\)|^\s*#\s*if\s+0\b|\bif\s*\(\s*(0|false)\s*\)",
        comment: r"^\s*(//|/\*|\*)",
    },
    TestLanguage {
        extensions: &["php"],
        names: r"Test\.php$",
        tests_from: "",
        declares: r"function\s+test|#\[Test\]|@test\b",
        asserts: r"(->|::)(assert|expect)\w*\(|\bexpect\s*\(",
        weakens: r"\bmarkTest(Skipped|Incomplete)\(|->(skip|todo)\(|assertTrue\(\s*true\s*[,)]|\bexpectNotToPerformAssertions\(|\bif\s*\(\s*false\s*\)",
        comment: r"^\s*(//|/\*|\*|#[^\[])",
    },
    TestLanguage {
        extensions: &["rb"],
        names: r"_(spec|test)\.rb$|^test_.*\.rb$",
        tests_from: "",
        declares: r#"^\s*(it|specify|test)\s+["']|^\s*def\s+test_"#,
        asserts: r"\b(assert|refute)\w*\b|\bexpect\b|\.should\b|\bmust_\w+",
        weakens: r"^\s*(skip|pending)\b|^\s*(xit|xdescribe|xcontext|fit|fdescribe)\b|\bskip:\s*true|\bassert\(?\s*true\b|expect\(\s*true\s*\)",
        comment: r"^\s*#",
    },
    TestLanguage {
        extensions: &["cs", "fs"],
        names: r"Tests?\.(cs|fs)$",
        tests_from: "",
        declares: r"\[(Fact|Theory|Test|TestMethod|TestCase)\b",
        asserts: r"\bAssert\.\w+|\.Should\w*\(",
        weakens: r"\[Ignore\b|\bSkip\s*=|\bAssert\.(Ignore|Inconclusive|Pass|Skip)\(|\bAssert\.(True|IsTrue)\(\s*true\s*[,)]|\bif\s*\(\s*false\s*\)",
        comment: r"^\s*(//|/\*|\*)",
    },
    // Settings of test runners.
    TestLanguage {
        extensions: &["ini", "cfg", "toml", "json", "yaml", "yml"],
        names: r"^(pytest\.ini|tox\.ini|setup\.cfg|pyproject\.toml|package\.json|nextest\.toml|\.mocharc\.\w+|jest\.config\.json)$",
        tests_from: "",
        declares: "",
        asserts: "",
        weakens: r#"--deselect\b|(pytest|addopts).*--ignore(-glob)?[= ]|^\s*["']?--ignore(-glob)?[= ]|\bnorecursedirs\b|testPathIgnorePatterns|passWithNoTests|--pass-?[wW]ith-?[nN]o-?[tT]ests|\bdefault-filter\b"#,
        comment: r"^\s*(#|;|//)",
    },
];

/// Folders whose files are tests.
const TEST_FOLDERS: [&str; 6] = ["test", "tests", "spec", "specs", "__tests__", "e2e"];

/// Folders whose files are data of tests.
const TEST_DATA: [&str; 2] = ["testdata", "__snapshots__"];
/// Settings of test runners that are also settings of the work.
const MANIFESTS: [&str; 3] = ["pyproject.toml", "setup.cfg", "package.json"];

/// The compiled patterns of a language.
struct LanguagePatterns {
    extensions: &'static [&'static str],
    names: Regex,
    /// Whether its files can have tests. Settings have none.
    has_tests: bool,
    tests_from: Option<Regex>,
    declares: Regex,
    asserts: Regex,
    weakens: Regex,
    comment: Regex,
}

static PATTERNS: LazyLock<Vec<LanguagePatterns>> = LazyLock::new(|| {
    let compile = |language: &TestLanguage| LanguagePatterns {
        extensions: language.extensions,
        names: pattern(language.names),
        has_tests: !language.asserts.is_empty(),
        tests_from: (!language.tests_from.is_empty()).then(|| pattern(language.tests_from)),
        declares: pattern(language.declares),
        asserts: pattern(language.asserts),
        weakens: pattern(language.weakens),
        comment: pattern(language.comment),
    };
    LANGUAGES.iter().map(compile).collect()
});

/// A Python comparison, and a body that says that everything is equal.
static COMPARES: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^\s*def\s+__(eq|ne|lt|le|gt|ge|bool|contains)__\s*\("));
static RETURNS_TRUE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s*return\s+True\s*(#.*)?$"));
const PYTHON: &str = "py";

fn pattern(text: &str) -> Regex {
    const NEVER: &str = r"[^\s\S]";
    let text = if text.is_empty() { NEVER } else { text };
    Regex::new(text).expect("the forms of tests are valid patterns")
}

/// Whether changes of this file can weaken tests. Only a look into it can tell.
pub fn can_matter(name: &str) -> bool {
    let looks_inside = |language: &LanguagePatterns| {
        language.tests_from.is_some() || language.extensions.contains(&PYTHON)
    };
    is_test_file(name) || language_of(name).is_some_and(looks_inside)
}

/// Whether a changed file has tests, or had some.
pub fn has_tests(file: &ChangedText) -> bool {
    let form = language_of(&file.name).and_then(|language| language.tests_from.as_ref());
    let texts = file.before.iter().chain(&file.now);
    let mut lines = texts.flat_map(|text| text.lines());
    is_test_file(&file.name) || form.is_some_and(|form| lines.any(|line| form.is_match(line)))
}

/// Whether this is a file of tests or the settings of a test runner, by its name.
pub fn is_test_file(name: &str) -> bool {
    let (folders, file) = name.rsplit_once('/').unwrap_or(("", name));
    let in_tests = || {
        folders
            .split('/')
            .any(|folder| TEST_FOLDERS.contains(&folder))
    };
    language_of(name)
        .is_some_and(|language| language.names.is_match(file) || (language.has_tests && in_tests()))
}

/// Whether this file is a part of the tests, by its name: tests, their data, and the settings of
/// test runners. Files that also say how the work is built are not.
pub fn belongs_to_tests(name: &str) -> bool {
    let (folders, file) = name.rsplit_once('/').unwrap_or(("", name));
    let mut folders = folders.split('/');
    folders.any(|folder| TEST_FOLDERS.contains(&folder) || TEST_DATA.contains(&folder))
        || (is_test_file(name) && !MANIFESTS.contains(&file))
}

fn language_of(name: &str) -> Option<&'static LanguagePatterns> {
    let (_, extension) = name.rsplit_once('.')?;
    PATTERNS
        .iter()
        .find(|language| language.extensions.contains(&extension))
}

/// The lines of a file's tests that were removed or added, each with a line number in the text as
/// it is now.
struct FileLines<'a> {
    file: &'a ChangedText,
    language: &'static LanguagePatterns,
    removed: Vec<(u64, &'a str)>,
    added: Vec<(u64, &'a str)>,
}

/// How many lines with the same text were changed and are not only moved.
type LineCounts<'a> = BTreeMap<&'a str, usize>;

/// The signs of weakened tests in all changed files.
pub fn weakened(files: &[ChangedText]) -> Vec<TestFinding> {
    let changed: Vec<FileLines<'_>> = files.iter().filter_map(FileLines::of).collect();
    let mut removed = counted_lines(changed.iter().flat_map(|file| &file.removed));
    let mut added = counted_lines(changed.iter().flat_map(|file| &file.added));
    for (line, gone) in &mut removed {
        let moved = added.get_mut(line).map_or(0, |new| {
            let moved = (*gone).min(*new);
            *new -= moved;
            moved
        });
        *gone -= moved;
    }
    let marks = changed
        .iter()
        .flat_map(|file| file.findings(&mut removed, &mut added));
    marks.collect()
}

fn counted_lines<'a>(lines: impl Iterator<Item = &'a (u64, &'a str)>) -> LineCounts<'a> {
    let mut counts = LineCounts::new();
    for (_, line) in lines {
        *counts.entry(line.trim()).or_default() += 1;
    }
    counts
}

/// Takes one line of those that are not only moved.
fn take(left: &mut LineCounts<'_>, line: &str) -> bool {
    let count = left.get_mut(line.trim()).filter(|count| **count > 0);
    count.map(|count| *count -= 1).is_some()
}

impl<'a> FileLines<'a> {
    fn of(file: &'a ChangedText) -> Option<Self> {
        let language = language_of(&file.name)?;
        let lines = |text: &'a Option<String>| -> Vec<&'a str> {
            text.as_deref().unwrap_or_default().lines().collect()
        };
        let (before, now) = (lines(&file.before), lines(&file.now));
        let is_test = is_test_file(&file.name);
        let begin = |lines: &[&str]| match &language.tests_from {
            _ if is_test => 0,
            Some(form) => {
                let first = lines.iter().position(|line| form.is_match(line));
                first.unwrap_or(lines.len())
            }
            None => lines.len(),
        };
        let (begins_before, begins_now) = (begin(&before), begin(&now));
        let counts = |line: &str| !line.trim().is_empty() && !language.comment.is_match(line);
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        for change in line_changes(&before, &now) {
            let place = number(change.now.start.min(now.len().saturating_sub(1)));
            let gone = change.before.filter(|at| *at >= begins_before);
            removed.extend(gone.map(|at| (place, before[at])));
            let new = change.now.filter(|at| *at >= begins_now);
            added.extend(new.map(|at| (number(at), now[at])));
        }
        removed.retain(|(_, line)| counts(line));
        added.retain(|(_, line)| counts(line));
        Some(Self {
            file,
            language,
            removed,
            added,
        })
    }

    fn findings(
        &self,
        all_removed: &mut LineCounts<'_>,
        all_added: &mut LineCounts<'_>,
    ) -> Vec<TestFinding> {
        let language = self.language;
        let file = self.file.name.clone();
        let proves =
            |line: &str| language.asserts.is_match(line) && !language.weakens.is_match(line);
        let fresh: Vec<_> = self
            .added
            .iter()
            .filter(|(_, line)| take(all_added, line))
            .collect();
        let gone: Vec<_> = self
            .removed
            .iter()
            .filter(|(_, line)| take(all_removed, line))
            .collect();
        if self.file.now.is_none() {
            return self.deleted(gone.iter().map(|(_, line)| *line));
        }
        let mut found: Vec<TestFinding> = fresh
            .iter()
            .filter(|(_, line)| language.weakens.is_match(line))
            .map(|(at, line)| self.weak(*at, line))
            .collect();
        let marks = found.len();
        let net = |form: &dyn Fn(&str) -> bool| {
            let gone = gone.iter().filter(|(_, line)| form(line));
            let fresh = fresh.iter().filter(|(_, line)| form(line)).count();
            let first = gone.clone().next().map_or(1, |(at, _)| *at);
            (first, gone.count().saturating_sub(fresh))
        };
        let (line, fewer) = net(&proves);
        if fewer > 0 {
            let file = file.clone();
            let fewer = count(fewer);
            found.push(TestFinding::FewerAssertions { file, line, fewer });
        }
        let (line, tests) = net(&|line| language.declares.is_match(line));
        let fewer = tests.saturating_sub(marks);
        if fewer > 0 {
            let fewer = count(fewer);
            found.push(TestFinding::TestsRemoved { file, line, fewer });
        }
        found.extend(self.comparisons_that_are_always_true());
        found
    }

    /// A file that is only moved keeps most of its tests in another file.
    fn deleted<'b>(&self, gone: impl Iterator<Item = &'b str>) -> Vec<TestFinding> {
        let language = self.language;
        let is_test =
            |line: &str| language.asserts.is_match(line) || language.declares.is_match(line);
        let before = self
            .removed
            .iter()
            .filter(|(_, line)| is_test(line))
            .count();
        let gone = gone.filter(|line| is_test(line)).count();
        let is_gone = if before == 0 {
            language.has_tests && is_test_file(&self.file.name)
        } else {
            2 * gone > before
        };
        let file = self.file.name.clone();
        is_gone
            .then_some(TestFinding::FileDeleted { file })
            .into_iter()
            .collect()
    }

    fn weak(&self, line: u64, text: &str) -> TestFinding {
        TestFinding::Weakened {
            file: self.file.name.clone(),
            line,
            text: shortened(text.trim(), QUOTED),
        }
    }

    /// Python: a new `__eq__` with nothing but `return True`, in any file.
    fn comparisons_that_are_always_true(&self) -> Vec<TestFinding> {
        if !self.language.extensions.contains(&PYTHON) {
            return Vec::new();
        }
        let always_true = |text: &'a Option<String>| -> Vec<(u64, &'a str)> {
            let lines = text.as_deref().unwrap_or_default().lines();
            let lines = (1..).zip(lines).filter(|(_, line)| !line.trim().is_empty());
            let lines: Vec<(u64, &str)> = lines.collect();
            let pairs = lines.windows(2);
            let pairs = pairs
                .filter(|pair| COMPARES.is_match(pair[0].1) && RETURNS_TRUE.is_match(pair[1].1));
            pairs.map(|pair| pair[0]).collect()
        };
        let before = always_true(&self.file.before).len();
        let now = always_true(&self.file.now);
        if now.len() <= before {
            return Vec::new();
        }
        let weak = |(at, line): (u64, &str)| self.weak(at, &format!("{} return True", line.trim()));
        now.into_iter().map(weak).collect()
    }
}

/// The number of the line at this index.
fn number(index: usize) -> u64 {
    count(index).saturating_add(1)
}

fn count(many: usize) -> u64 {
    u64::try_from(many).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, before: &str, now: &str) -> ChangedText {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ChangedText {
            name: name.into(),
            before: text(before),
            now: text(now),
        }
    }

    fn found(files: &[ChangedText]) -> Vec<String> {
        let findings = weakened(files);
        findings.iter().map(TestFinding::describe).collect()
    }

    #[test]
    fn test_files_are_known_by_their_names() {
        for name in [
            "tests/api.rs",
            "src/parser_test.go",
            "test_a.py",
            "a/conftest.py",
            "src/App.test.tsx",
            "web/__tests__/a.js",
            "src/test/java/ATest.java",
            "spec/a_spec.rb",
            "ATest.php",
            "pytest.ini",
        ] {
            assert!(is_test_file(name) && can_matter(name), "{name}");
        }
        for name in [
            "src/main.go",
            "README.md",
            "tests/data.json",
            "latest.js",
            "Makefile",
        ] {
            assert!(!is_test_file(name) && !can_matter(name), "{name}");
        }
        for name in [
            "tests/data.json",
            "go/testdata/a.txt",
            "a/__snapshots__/a.snap",
            "pytest.ini",
            "test_a.py",
        ] {
            assert!(belongs_to_tests(name), "{name}");
        }
        for name in [
            "package.json",
            "pyproject.toml",
            "src/contest/a.py",
            "Makefile",
        ] {
            assert!(!belongs_to_tests(name), "{name}");
        }
        assert!(can_matter("src/lib.rs") && !is_test_file("src/lib.rs"));
        assert!(can_matter("money.py") && !is_test_file("money.py"));
    }

    #[test]
    fn a_repair_that_skips_three_tests_is_found_line_by_line() {
        let before = "def test_a():\n    assert a() == 1\n\ndef test_b():\n    assert b() == 2\n\ndef test_c():\n    assert c() == 3\n";
        let now = before.replace("def ", "@pytest.mark.skip(reason=\"flaky\")\ndef ");
        assert_eq!(
            found(&[file("tests/test_all.py", before, &now)]),
            [
                "tests/test_all.py:1: `@pytest.mark.skip(reason=\"flaky\")` is new",
                "tests/test_all.py:5: `@pytest.mark.skip(reason=\"flaky\")` is new",
                "tests/test_all.py:9: `@pytest.mark.skip(reason=\"flaky\")` is new",
            ]
        );
    }

    #[test]
    fn a_deleted_assertion_is_named_where_it_was() {
        let before = "#[test]\nfn adds() {\n    assert_eq!(add(1, 2), 3);\n    assert_eq!(add(2, 2), 4);\n}\n";
        let now = "#[test]\nfn adds() {\n    assert_eq!(add(1, 2), 3);\n}\n";
        assert_eq!(
            found(&[file("tests/add.rs", before, now)]),
            ["tests/add.rs:4: 1 assertion was removed"]
        );
        let other = before.replace("4);", "5);");
        assert!(
            found(&[file("tests/add.rs", before, &other)]).is_empty(),
            "none is missing"
        );
    }

    #[test]
    fn tests_inside_a_source_file_count_and_its_other_lines_do_not() {
        let source = "fn a() {\n    assert!(ok());\n}\n";
        let tests = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn b() {\n        assert!(a());\n    }\n}\n";
        let both = format!("{source}{tests}");
        let without_check = both.replace("    assert!(ok());\n", "");
        assert!(found(&[file("src/a.rs", &both, &without_check)]).is_empty());
        assert_eq!(
            found(&[file("src/a.rs", &both, source)]),
            [
                "src/a.rs:3: 1 assertion was removed",
                "src/a.rs:3: 1 test was removed"
            ]
        );
    }

    #[test]
    fn a_patched_comparison_is_found_in_any_python_file() {
        let before = "class Money:\n    def __eq__(self, other):\n        return self.cents == other.cents\n";
        let now = "class Money:\n    def __eq__(self, other):\n        return True\n";
        assert_eq!(
            found(&[file("money.py", before, now)]),
            ["money.py:2: `def __eq__(self, other): return True` is new"]
        );
        assert!(found(&[file("money.py", now, &format!("{now}\nx = 1\n"))]).is_empty());
        let hidden = "Money.__eq__ = lambda a, b: True\n";
        assert_eq!(
            found(&[file("conftest.py", "", hidden)]),
            ["conftest.py:1: `Money.__eq__ = lambda a, b: True` is new"]
        );
    }

    #[test]
    fn a_special_case_for_the_input_of_a_test_leaves_no_sign() {
        let before = "def price(n):\n    return n * 3\n";
        let now = "def price(n):\n    if n == 7:\n        return 22\n    return n * 3\n";
        assert!(found(&[file("price.py", before, now)]).is_empty());
    }

    #[test]
    fn deleted_files_are_found_and_moved_ones_are_not() {
        let text = "it('adds', () => {\n  expect(add(1, 2)).toBe(3);\n});\n";
        let gone = file("a.test.js", text, "");
        assert_eq!(
            found(std::slice::from_ref(&gone)),
            ["a.test.js was deleted"]
        );
        let moved = file("unit/a.test.js", "", text);
        assert!(found(&[gone, moved]).is_empty());
    }

    #[test]
    fn skipped_and_weak_tests_of_each_language_are_found_once() {
        for (name, before, now) in [
            ("a.test.ts", "it('a', f);", "it.skip('a', f);"),
            ("b.test.ts", "a();", "if (false) a();"),
            (
                "test_b.py",
                "    assert a()",
                "    if False:\n        assert a()",
            ),
            (
                "conftest.py",
                "import pytest",
                "import pytest\ndef pytest_runtest_makereport(item, call):",
            ),
            (
                "pytest.ini",
                "[pytest]",
                "[pytest]\naddopts = -q --ignore=tests/slow",
            ),
            ("a.spec.js", "  it('a', f);", "  xit('a', f);"),
            (
                "a_test.go",
                "func TestA(t *testing.T) {",
                "func TestA(t *testing.T) {\n\tt.Skip(\"later\")",
            ),
            ("ATest.java", "@Test", "@Disabled\n@Test"),
            ("tests/a.rs", "#[test]", "#[test]\n#[ignore]"),
            (
                "tests/a.rs",
                "assert!(a());",
                "assert!(a());\nassert!(true);",
            ),
            ("test_a.py", "x = 1", "x = 1\nassert True"),
            (
                "ATest.php",
                "$a = 1;",
                "$a = 1;\n$this->markTestSkipped('x');",
            ),
            ("a_test.cc", "TEST(A, b) {", "TEST(A, b) {\nGTEST_SKIP();"),
            ("a_spec.rb", "it 'a' do", "xit 'a' do"),
            (
                "pytest.ini",
                "[pytest]",
                "[pytest]\naddopts = --deselect tests/a.py::b",
            ),
        ] {
            let found = found(&[file(name, before, now)]);
            assert_eq!(found.len(), 1, "{name}: {found:?}");
            assert!(found[0].ends_with("is new"), "{found:?}");
        }
        let comment = file("a.test.js", "it('a', f);", "it('a', f);\n// it.skip('b')");
        assert!(found(&[comment]).is_empty());
        for fine in [
            file("a.test.ts", "it('a', f);", "it.concurrent('a', f);"),
            file("package.json", "{", "{\n\"dev\": \"nodemon --ignore dist\""),
        ] {
            assert!(found(&[fine]).is_empty());
        }
        let was_there = file("test_a.py", "assert True\nx = 1", "x = 2\nassert True");
        assert!(found(&[was_there]).is_empty());
    }
}
