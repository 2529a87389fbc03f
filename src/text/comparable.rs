//! Decides whether two texts mean the same although they were written at different times.
//!
//! Two runs of the same failing test differ in their durations, process ids and temporary
//! directories. Every "same message" and "no progress" comparison goes through [`same_text`], so
//! all of them ignore the same things.
//!
//! Also reads the line in place of output that was too long to keep, as `crate::process` writes it:
//! `[… 99197 lines, 689133 bytes left out; all of it: .creel/sessions/s/outputs/run-7.log …]`. Two
//! long outputs are compared by it, and the screen counts lines with it.
//!
//! # Invariants
//! - Only times, durations, process and thread ids, temporary paths, hex addresses, terminal
//!   sequences, the amount of white space, and the size and the place of output that creel left out
//!   are ignored. Line numbers, counts, versions and file names stay.

use super::plain::plain_text;

const TIME: &str = "<time>";
const ID: &str = "<id>";
const ADDRESS: &str = "<address>";
const TEMPORARY: &str = "<tmp>";

/// Where systems keep temporary files. The part of a path after one of these is different in each
/// run.
const TEMPORARY_ROOTS: [&str; 5] = [
    "/tmp/",
    "/var/tmp/",
    "/dev/shm/",
    "/private/tmp/",
    "/private/var/tmp/",
];
/// macOS: two more components and `T` follow.
const MAC_FOLDERS: [&str; 2] = ["/var/folders/", "/private/var/folders/"];
/// Words before the number of a process or a thread.
const ID_LABELS: [&str; 8] = [
    "pid",
    "tid",
    "process id",
    "thread id",
    "threadid",
    "thread",
    "goroutine",
    "process",
];
const UNITS: [&str; 11] = [
    "ns", "us", "µs", "μs", "ms", "s", "sec", "secs", "min", "mins", "h",
];
/// Units that are ambiguous after a space (`5 m`) or never stand without one (`5seconds`).
const JOINED_UNITS: [&str; 3] = ["m", "hr", "hrs"];
const SPELLED_UNITS: [&str; 12] = [
    "microsecond",
    "microseconds",
    "millisecond",
    "milliseconds",
    "second",
    "seconds",
    "minute",
    "minutes",
    "hour",
    "hours",
    "day",
    "days",
];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Whether two texts are the same, apart from parts that change with every run.
pub fn same_text(one: &str, other: &str) -> bool {
    one == other || comparable_text(one) == comparable_text(other)
}

/// The text with everything that changes from run to run replaced by a mark, and each run of white
/// space by one space.
pub fn comparable_text(text: &str) -> String {
    let line = plain_text(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let mut out = String::with_capacity(line.len());
    let mut at = 0;
    while let Some(next) = line[at..].chars().next() {
        let (before, rest) = line.split_at(at);
        if let Some((length, mark)) = changing_part(before, rest) {
            out.push_str(&mark);
            at += length;
        } else {
            out.push(next);
            at += next.len_utf8();
        }
    }
    out
}

/// If `rest` begins with a part that changes with every run: its length and its replacement.
fn changing_part(before: &str, rest: &str) -> Option<(usize, String)> {
    if before.ends_with(|c: char| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let marked = |mark: &'static str| move |length: usize| (length, mark.to_owned());
    let first = rest.chars().next()?;
    match first {
        // How many lines were left out counts; durations in them change how many bytes they have.
        '[' => OmittedOutput::at_start(rest)
            .map(|omitted| (omitted.length, format!("[… {} …]", omitted.lines))),
        '/' => temporary_path(rest),
        '.' | 't' => temporary_name(rest).map(marked(TEMPORARY)),
        'A'..='Z' => dated_by_month(rest).map(marked(TIME)),
        'a'..='f' => uuid(rest).map(marked(ID)),
        '0'..='9' => uuid(rest)
            .map(marked(ID))
            .or_else(|| address(rest).map(marked(ADDRESS)))
            .or_else(|| {
                moment(before, rest)
                    .or_else(|| duration(before, rest))
                    .map(marked(TIME))
            })
            .or_else(|| process_id(before, rest).map(marked(ID))),
        _ => None,
    }
}

fn temporary_path(rest: &str) -> Option<(usize, String)> {
    let root = TEMPORARY_ROOTS
        .iter()
        .find(|root| rest.starts_with(**root))
        .map(|root| root.len());
    let below = root.or_else(|| {
        let root = MAC_FOLDERS.iter().find(|root| rest.starts_with(**root))?;
        let mut parts = rest[root.len()..].splitn(4, '/');
        let (one, two, last) = (parts.next()?, parts.next()?, parts.next()?);
        (last == "T").then_some(root.len() + one.len() + two.len() + 4)
    })?;
    let ends = |c: char| c.is_whitespace() || "\"'`()[]<>{}:,;|&?*".contains(c);
    let path = &rest[..rest
        .get(below..)?
        .find(ends)
        .map_or(rest.len(), |end| below + end)];
    let mut mark = TEMPORARY.to_owned();
    // The first name is the temporary file or directory itself.
    for name in path.get(below..)?.split('/').skip(1) {
        mark.push('/');
        mark.push_str(numbered_directory(name).unwrap_or(name));
    }
    Some((path.len(), mark))
}

/// The name without its number, if it is a directory that test runners number: `pytest-12`.
fn numbered_directory(name: &str) -> Option<&str> {
    let (stem, number) = name.rsplit_once('-')?;
    (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then_some(stem)
}

/// A name that `mktemp` or a library invented, wherever its directory is: `.tmpAbC123`,
/// `tmp.Qv3kXb29Lp`.
fn temporary_name(rest: &str) -> Option<usize> {
    let (prefix, invented) = [(".tmp", 6), ("tmp.", 10)]
        .into_iter()
        .find(|(prefix, _)| rest.starts_with(prefix))?;
    let word = rest[prefix.len()..]
        .bytes()
        .take_while(u8::is_ascii_alphanumeric)
        .count();
    (word == invented).then_some(prefix.len() + invented)
}

/// `0x7ffee3a1c0d8`. Short ones are more likely to be values that the text is about.
fn address(rest: &str) -> Option<usize> {
    let digits = rest
        .strip_prefix("0x")?
        .bytes()
        .take_while(u8::is_ascii_hexdigit)
        .count();
    (digits >= 6 && ends_word(&rest[2 + digits..])).then_some(2 + digits)
}

fn uuid(rest: &str) -> Option<usize> {
    let candidate = rest.get(..36)?;
    let groups = candidate
        .split('-')
        .map(|group| (group.len(), group.bytes().all(|b| b.is_ascii_hexdigit())));
    let is_uuid = groups.eq([(8, true), (4, true), (4, true), (4, true), (12, true)]);
    (is_uuid && ends_word(&rest[36..])).then_some(36)
}

/// `May  3 12:30:01`, as system logs and `date` print it.
fn dated_by_month(rest: &str) -> Option<usize> {
    let month = rest.get(..3).filter(|month| MONTHS.contains(month))?;
    let day = rest[month.len()..].trim_start();
    let time = day[digits(day).filter(|count| *count <= 2)?..].trim_start();
    let from = rest.len() - time.len();
    Some(from + clock(time)?)
}

/// A date, a time of day, both, or seconds since 1970.
fn moment(before: &str, rest: &str) -> Option<usize> {
    // `src/main.rs:12:30` is a place in a file, and `1.2024-05-01` a version.
    if before.ends_with([':', '.']) {
        return None;
    }
    date(rest)
        .or_else(|| clock(rest))
        .or_else(|| half_day(rest))
        .or_else(|| epoch(rest))
}

fn date(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let is_number = |from: usize, to: usize| {
        bytes
            .get(from..to)
            .is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    if !(rest.starts_with("19") || rest.starts_with("20")) || !is_number(0, 4) {
        return None;
    }
    // 20240501T123001Z
    if is_number(4, 8) && bytes.get(8) == Some(&b'T') && is_number(9, 15) {
        let zone = usize::from(bytes.get(15) == Some(&b'Z'));
        return ends_word(&rest[15 + zone..]).then_some(15 + zone);
    }
    let separator = *bytes.get(4).filter(|b| matches!(b, b'-' | b'/'))?;
    let is_date = is_number(5, 7) && bytes.get(7) == Some(&separator) && is_number(8, 10);
    let after = rest.get(10..).filter(|_| is_date)?;
    if let Some(length) = after.strip_prefix(['T', ' ', '_']).and_then(clock) {
        return Some(11 + length);
    }
    ends_word(after).then_some(10)
}

/// `12:30:01.123 PM`, `0:01:05`, `12:30:01+02:00`. Without seconds it would be a line and a column.
fn clock(rest: &str) -> Option<usize> {
    let hours = digits(rest).filter(|count| *count <= 2)?;
    let minutes = sixty(rest.get(hours..)?)?;
    let seconds = sixty(rest.get(hours + minutes..)?)?;
    let mut length = hours + minutes + seconds;
    if let Some(fraction) = rest[length..].strip_prefix(['.', ',']).and_then(digits) {
        length += 1 + fraction;
    }
    length += zone(&rest[length..]);
    let after = &rest[length..];
    let is_longer = after
        .strip_prefix(':')
        .is_some_and(|more| digits(more).is_some());
    (ends_word(after) && !is_longer).then_some(length)
}

/// `:59`.
fn sixty(rest: &str) -> Option<usize> {
    let number = rest.strip_prefix(':')?;
    let is_below = number.starts_with(|c: char| ('0'..='5').contains(&c));
    (is_below && digits(number) == Some(2)).then_some(3)
}

/// The length of a time zone or of AM/PM after a time.
fn zone(rest: &str) -> usize {
    if let Some(offset) = rest.strip_prefix(['+', '-']) {
        let bare: String = offset.chars().take(5).filter(|c| *c != ':').collect();
        let is_offset = bare.len() >= 4 && bare.as_bytes()[..4].iter().all(u8::is_ascii_digit);
        return if is_offset {
            5 + usize::from(offset.as_bytes().get(2) == Some(&b':'))
        } else {
            0
        };
    }
    let space = usize::from(rest.starts_with(' '));
    let zones = ["Z", "UTC", "GMT", "AM", "PM", "am", "pm"];
    let found = zones
        .iter()
        .find(|name| rest[space..].starts_with(**name) && ends_word(&rest[space + name.len()..]));
    found.map_or(0, |name| space + name.len())
}

/// `8pm`, `8:30 PM`.
fn half_day(rest: &str) -> Option<usize> {
    let hours = digits(rest).filter(|count| *count <= 2)?;
    let minutes = sixty(&rest[hours..]).unwrap_or(0);
    let after = &rest[hours + minutes..];
    let space = usize::from(after.starts_with(' '));
    let half = after
        .get(space..space + 2)
        .filter(|half| ["am", "pm"].contains(&half.to_ascii_lowercase().as_str()))?;
    ends_word(&after[space + half.len()..]).then_some(hours + minutes + space + half.len())
}

/// Seconds or milliseconds since 1970, between 2017 and 2033.
fn epoch(rest: &str) -> Option<usize> {
    let count = digits(rest).filter(|count| matches!(count, 10 | 13))?;
    let is_recent =
        rest.starts_with('1') && rest[1..].starts_with(|c: char| ('5'..='9').contains(&c));
    (is_recent && ends_word(&rest[count..])).then_some(count)
}

/// `0.12s`, `1m 20s`, `5 ms`, `1h04m`, `3 seconds`.
fn duration(before: &str, rest: &str) -> Option<usize> {
    if before.ends_with('.') {
        return None;
    }
    let number = rest
        .bytes()
        .take_while(|b| b.is_ascii_digit() || matches!(b, b'.' | b','))
        .count();
    let after = rest
        .get(number..)
        .filter(|_| rest.as_bytes()[number - 1].is_ascii_digit())?;
    let space = usize::from(after.starts_with(' '));
    let word = &after[space..];
    let unit = &word[..word
        .find(|c: char| !c.is_alphabetic())
        .unwrap_or(word.len())];
    let is_unit = UNITS.contains(&unit)
        || if space == 0 {
            &JOINED_UNITS[..]
        } else {
            &SPELLED_UNITS[..]
        }
        .contains(&unit);
    if !is_unit {
        return None;
    }
    let length = number + space + unit.len();
    let more = &rest[length..];
    if more.starts_with(|c: char| c.is_ascii_digit()) {
        return Some(length + duration("", more)?);
    }
    let next = more.strip_prefix(' ').filter(|next| digits(next).is_some());
    let next = next
        .and_then(|next| duration("", next))
        .map_or(0, |length| length + 1);
    (next > 0 || ends_word(more)).then_some(length + next)
}

/// The id of a process or a thread, recognized by the words before it.
fn process_id(before: &str, rest: &str) -> Option<usize> {
    let count = digits(rest).filter(|count| ends_word(&rest[*count..]))?;
    let after = &rest[count..];
    let is_bracketed = |open: &str, close: &str| before.ends_with(open) && after.starts_with(close);
    // `server[1234]: …` and `==1234==ERROR`.
    let is_logged = count >= 3
        && is_bracketed("[", "]:")
        && before[..before.len() - 1].ends_with(|c: char| c.is_alphanumeric());
    if is_logged
        || is_bracketed("==", "==")
        || (is_bracketed("(", ")") && follows_thread_name(before))
    {
        return Some(count);
    }
    let words = before.trim_end_matches([' ', ':', '=', '#', '(', '-', '[', '"']);
    let gap = before.len() - words.len();
    let label = ID_LABELS
        .iter()
        .find(|label| ends_with_word(words, label))?;
    // "process 12 files" is more likely to be a verb.
    let is_verb = *label == "process" && count < 3;
    ((1..=3).contains(&gap) && !is_verb).then_some(count)
}

/// `thread 'main' (`.
fn follows_thread_name(before: &str) -> bool {
    let name = before
        .strip_suffix("' (")
        .and_then(|words| words.rfind('\'').map(|open| &words[..open]));
    name.is_some_and(|words| words.trim_end().ends_with("thread"))
}

fn ends_with_word(text: &str, word: &str) -> bool {
    let Some(from) = text.len().checked_sub(word.len()) else {
        return false;
    };
    let is_word = text
        .get(from..)
        .is_some_and(|end| end.eq_ignore_ascii_case(word));
    is_word && !text[..from].ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

fn digits(text: &str) -> Option<usize> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    (count > 0).then_some(count)
}

fn ends_word(after: &str) -> bool {
    !after.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Output that was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OmittedOutput {
    /// 0 if it was part of a line, or if the journal is from a version that did not count lines.
    pub lines: usize,
    /// How long the line about it is, in bytes.
    pub length: usize,
}

impl OmittedOutput {
    /// What the text says about omitted output in its first line.
    pub fn at_start(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("[… ")?;
        let end = rest.find(" …]")?;
        let (amount, _) = rest[..end]
            .split_once(" left out")
            .filter(|_| !rest[..end].contains('\n'))?;
        let lines = amount
            .split_once(" line")
            .and_then(|(count, _)| count.parse().ok())
            .unwrap_or(0);
        Some(Self {
            lines,
            length: text.len() - rest.len() + end + " …]".len(),
        })
    }
}

/// How many lines a text had before a part of it was left out.
pub fn printed_lines(text: &str) -> usize {
    text.lines()
        .map(|line| OmittedOutput::at_start(line).map_or(1, |omitted| omitted.lines))
        .sum()
}

/// Whether a part of the text was left out, so that it does not say all that was printed.
pub fn is_shortened(text: &str) -> bool {
    text.lines()
        .any(|line| OmittedOutput::at_start(line).is_some())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_changes_with_every_run_does_not_count() {
        let pairs = [
            (
                "    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.12s",
                "    Finished `test` profile [unoptimized + debuginfo] target(s) in 1m 04s",
            ),
            (
                "test result: FAILED. 3 passed; 1 failed; 0 ignored; finished in 1.20s",
                "test result: FAILED. 3 passed; 1 failed; 0 ignored; finished in 0.98s",
            ),
            (
                "thread 'main' (12345) panicked at src/a.rs:3:5:",
                "thread 'main' (99) panicked at src/a.rs:3:5:",
            ),
            ("thread 'a::b' (1) panicked", "thread 'a::b' (22) panicked"),
            ("at ThreadId(3)", "at ThreadId(14)"),
            (
                "cannot open /tmp/.tmpAbC123/x",
                "cannot open /tmp/.tmpZyX987/x",
            ),
            (
                "(/tmp/tmp.qJ3kLm90pQ/src/a.rs:3)",
                "(/tmp/tmp.aaaaaaaaaa/src/a.rs:3)",
            ),
            ("/work/build/.tmpAbC123/x", "/work/build/.tmpZyX987/x"),
            (
                "/var/folders/zz/abc123/T/tmpx/a: no",
                "/var/folders/zy/abd/T/tmpy/a: no",
            ),
            (
                "/tmp/pytest-of-root/pytest-3/test_a0/f",
                "/tmp/pytest-of-root/pytest-12/test_a0/f",
            ),
            (
                "<Foo object at 0x7ffee3a1c0d8>",
                "<Foo object at 0x10a2b3c4d>",
            ),
            (
                "2024-05-01T12:30:01.123Z ERROR boom",
                "2025-11-30T01:02:03Z ERROR boom",
            ),
            (
                "2024-05-01 12:30:01,123 boom",
                "2024-05-02 02:30:01,999 boom",
            ),
            ("2024/05/01 12:30:01 boom", "2024/12/31 23:59:59 boom"),
            ("20240501T123001Z boom", "20240502T010203Z boom"),
            ("12:30:01 boom", "1:02:03 boom"),
            ("[10:15:02 AM] error", "[3:00:00 PM] error"),
            ("May  3 12:30:01 host boom", "Jun 13 02:30:01 host boom"),
            (
                "at 2024-05-01T12:30:01+02:00 boom",
                "at 2024-05-01T12:30:02-0500 boom",
            ),
            ("resets 8pm", "resets 11:30 PM"),
            ("started 1712345678 boom", "started 1712345699 boom"),
            ("pid 123 exited", "pid 98765 exited"),
            ("pid=123 exited", "pid=9 exited"),
            ("PID: 123 exited", "PID: 9 exited"),
            ("process 12345 exited", "process 54321 exited"),
            ("server[1234]: boom", "server[777]: boom"),
            (
                "==1234==ERROR: AddressSanitizer",
                "==99==ERROR: AddressSanitizer",
            ),
            ("goroutine 18 [running]:", "goroutine 7 [running]:"),
            ("Thread-3: boom", "Thread-12: boom"),
            (
                "id 123e4567-e89b-12d3-a456-426614174000",
                "id 00000000-e89b-12d3-a456-426614174999",
            ),
            ("--- FAIL: TestA (0.00s)", "--- FAIL: TestA (12.50s)"),
            ("  ✕ adds (5 ms)", "  ✕ adds (1.2 s)"),
            ("1 failed in 0.12s", "1 failed in 65.01s"),
            ("took 3 seconds", "took 1h04m12s"),
            ("\u{1b}[31merror\u{1b}[0m: x", "error:   x\n"),
        ];
        for (one, other) in pairs {
            assert_eq!(comparable_text(one), comparable_text(other));
        }
    }

    #[test]
    fn what_the_text_is_about_counts() {
        let pairs = [
            ("src/a.rs:12:30: error", "src/a.rs:12:31: error"),
            ("  12:30  error  no-undef", "  12:31  error  no-undef"),
            ("3 passed; 1 failed", "3 passed; 2 failed"),
            ("line 3", "line 4"),
            ("left: 0x1f", "left: 0x2f"),
            ("foo v1.2.3", "foo v1.2.4"),
            ("/tmp/x/src/a.rs", "/tmp/x/src/b.rs"),
            ("/tmp/x/src/a.rs:3:5", "/tmp/x/src/a.rs:4:5"),
            ("expected 5 got 6", "expected 5 got 7"),
            ("process 3 files", "process 4 files"),
            ("values[3]: no", "values[4]: no"),
            ("a 2d array", "a 3d array"),
            ("5 errors", "6 errors"),
            ("commit 3f2a9b8", "commit 3f2a9b9"),
            ("thread 'a' (1) panicked", "thread 'b' (1) panicked"),
        ];
        for (one, other) in pairs {
            assert!(!same_text(one, other), "{one} / {other}");
        }
    }

    proptest! {
        #[test]
        fn any_text_can_be_compared_and_the_amount_of_space_does_not_count(text in "(\\PC|[ \\n0-9:./'\\[\\]()=xTsm-]|/tmp/|thread ){0,80}") {
            prop_assert!(same_text(&text, &text.replace(' ', "  ")));
        }
    }
}

#[cfg(test)]
mod omitted_tests {
    use super::*;

    #[test]
    fn a_line_about_omitted_output_is_read() {
        let lines = |text| OmittedOutput::at_start(text).map(|omitted| omitted.lines);
        assert_eq!(
            lines("[… 99197 lines, 689133 bytes left out; all of it: outputs/run-7.log …]\nnext"),
            Some(99_197)
        );
        assert_eq!(lines("[… 1 line, 12 bytes left out …]"), Some(1));
        assert_eq!(lines("[… 12 bytes left out …]"), Some(0));
        assert_eq!(lines("[… 12 bytes\nleft out …]"), None);
        assert_eq!(lines("12 bytes left out"), None);
        assert!(
            is_shortened("a\n[… 12 bytes left out …]\nb") && !is_shortened("a\n[b] left out …]")
        );
        assert_eq!(
            printed_lines("a\nb\n[… 5 lines, 10 bytes left out …]\nc\n"),
            8
        );
    }
}
