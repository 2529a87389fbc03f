//! The log of a failed check: which part of it failed, and which line says why.
//!
//! # Invariants
//! - The agent's text is at most as long as its limit; the file has the whole log.

use std::io::Write as _;

use crate::{
    hooks::workspace::HookWorkspace,
    process::output::{create, limited, path_from},
    text::{plain_text, telling_line},
};

/// What runners of GitHub and GitLab mark a failed step and its end with.
const ERROR: &str = "##[error]";
const STEP: &str = "##[group]Run ";
const SECTIONS: [&str; 2] = ["section_start:", "section_end:"];
/// The sections of GitLab that run the script of the job; older runners use the second name.
const SCRIPTS: [&str; 2] = [":step_script", ":build_script"];
/// The last line of a failed step, which says nothing about the failure.
const EXIT: &str = "Process completed with exit code";

/// The text of a log: without terminal sequences, and without the time before each line.
pub(super) fn plain(log: &str) -> String {
    let text = plain_text(log);
    let mut plain = String::with_capacity(text.len());
    for line in text.lines() {
        plain.push_str(without_time(line));
        plain.push('\n');
    }
    plain
}

/// `2026-11-19T01:02:03.1234567Z text`, and GitLab's `2026-11-19T01:02:03.123456Z 00O text`.
fn without_time(line: &str) -> &str {
    let line = line.trim_start_matches('\u{feff}');
    let (time, rest) = line.split_once(' ').unwrap_or((line, ""));
    let digits = time.bytes().filter(u8::is_ascii_digit).count();
    let is_time = time.ends_with('Z')
        && time.as_bytes().get(10) == Some(&b'T')
        && digits >= 14
        && time
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"-:.TZ".contains(&byte));
    if !is_time {
        return line;
    }
    // The number and the kind of a stream; `+` continues a line.
    match rest.as_bytes() {
        [first, second, b'O' | b'E', b' ' | b'+', ..]
            if first.is_ascii_hexdigit() && second.is_ascii_hexdigit() =>
        {
            &rest[4..]
        }
        [first, second, b'O' | b'E'] if first.is_ascii_hexdigit() && second.is_ascii_hexdigit() => {
            ""
        }
        _ => rest,
    }
}

/// The steps that failed, up to their errors; the whole log if it has no marks.
fn failing_part(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let begins = |at: &usize| lines[*at].starts_with(STEP);
    let starts: Vec<usize> = std::iter::once(0)
        .chain((1..lines.len()).filter(begins))
        .collect();
    let ends = starts.iter().copied().skip(1).chain([lines.len()]);
    let mut failed: Vec<&str> = Vec::new();
    for (from, to) in starts.iter().copied().zip(ends) {
        let step = &lines[from..to];
        if let Some(last) = step.iter().rposition(|line| line.starts_with(ERROR)) {
            failed.extend(&step[..=last]);
        }
    }
    if failed.is_empty() {
        let script = |line: &str| {
            line.starts_with(SECTIONS[0]) && SCRIPTS.iter().any(|name| line.contains(name))
        };
        let from = lines.iter().position(|line| script(line)).unwrap_or(0);
        failed = lines[from..].to_vec();
    }
    let shown = failed.into_iter().filter(|line| {
        !SECTIONS.iter().any(|mark| line.starts_with(mark)) && *line != "##[endgroup]"
    });
    shown.map(readable).collect()
}

/// A line as the forge's own page shows it.
fn readable(line: &str) -> String {
    let marks = [
        (ERROR, "Error: "),
        ("##[warning]", "Warning: "),
        ("##[group]", ""),
        ("##[command]", ""),
        ("##[debug]", ""),
    ];
    let found = marks
        .iter()
        .find_map(|(mark, word)| Some(format!("{word}{}\n", line.strip_prefix(mark)?)));
    found.unwrap_or_else(|| format!("{line}\n"))
}

/// Writes the log into the session's folder. Returns where it is, for the agent.
pub(super) fn write(place: &HookWorkspace, job: u64, log: &str) -> String {
    let path = place.session_dir.join(format!("outputs/check-{job}.log"));
    match create(&path).and_then(|mut file| file.write_all(log.as_bytes())) {
        Ok(()) => format!("all of it: {}", path_from(&place.cwd, &path)),
        Err(error) => format!("creel could not write the log ({error})"),
    }
}

/// The decisive line, then where the log is, then the part of it that failed.
pub(super) fn text(what: &str, about: &str, log: &str, whole: &str, limit: usize) -> String {
    let part = failing_part(log);
    let telling: String = part
        .lines()
        .filter(|line| !line.contains(EXIT))
        .map(|line| format!("{line}\n"))
        .collect();
    let line = telling_line(&[&telling]).or_else(|| telling_line(&[&part]));
    let line = line.unwrap_or_else(|| "its log is empty".to_owned());
    let head = format!("{what}: {line}\n\n{about}\nThe failing part of its log ({whole}):\n\n");
    let room = limit.saturating_sub(head.len());
    limited(
        format!("{head}{}", limited(part, room, Some(whole))),
        limit,
        Some(whole),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIONS: &str = "\u{feff}2026-11-19T01:00:00.1234567Z ##[group]Run actions/checkout@v4\n\
        2026-11-19T01:00:00.2000000Z ##[endgroup]\n\
        2026-11-19T01:00:01.0000000Z Syncing repository: acme/app\n\
        2026-11-19T01:00:02.0000000Z ##[group]Run cargo test\n\
        2026-11-19T01:00:02.0000000Z \u{1b}[36;1mcargo test\u{1b}[0m\n\
        2026-11-19T01:00:02.1000000Z ##[endgroup]\n\
        2026-11-19T01:00:03.0000000Z test sum ... FAILED\n\
        2026-11-19T01:00:03.0000000Z thread 'sum' panicked at src/lib.rs:7:5:\n\
        2026-11-19T01:00:03.0000000Z assertion failed: sum(1, 2) == 3\n\
        2026-11-19T01:00:03.1000000Z ##[error]Process completed with exit code 101.\n\
        2026-11-19T01:00:04.0000000Z Post job cleanup.\n";

    #[test]
    fn of_a_log_of_actions_the_failed_step_is_shown() {
        let log = plain(ACTIONS);
        assert!(
            !log.contains("2026-11-19") && !log.contains('\u{1b}'),
            "{log}"
        );
        let part = failing_part(&log);
        assert!(
            part.starts_with("Run cargo test\ncargo test\ntest sum"),
            "{part}"
        );
        assert!(
            part.ends_with("Error: Process completed with exit code 101.\n"),
            "{part}"
        );
        let text = text(
            "`test` failed",
            "Commit 1.",
            &log,
            "all of it: outputs/check-1.log",
            4096,
        );
        let first = text.lines().next().expect("a line");
        assert!(
            first.starts_with("`test` failed: ") && first.contains("src/lib.rs:7"),
            "{first}"
        );
    }

    #[test]
    fn of_a_log_of_gitlab_the_script_is_shown() {
        let log = "2026-11-19T01:00:00.123456Z 00O \u{1b}[0KRunning with gitlab-runner 18.0\n\
            2026-11-19T01:00:01.123456Z 00O section_start:1700000000:step_script\r\u{1b}[0K\u{1b}[36;1mExecuting\u{1b}[0;m\n\
            2026-11-19T01:00:01.123456Z 01O $ make\n\
            2026-11-19T01:00:01.123456Z 01E main.c:3:1: error: expected ';'\n\
            2026-11-19T01:00:02.123456Z 00O section_end:1700000001:step_script\r\u{1b}[0K\u{1b}[31;1mERROR: Job failed: exit code 2\n";
        let part = failing_part(&plain(log));
        assert_eq!(
            part,
            "Executing\n$ make\nmain.c:3:1: error: expected ';'\nERROR: Job failed: exit code 2\n"
        );
    }

    #[test]
    fn a_long_log_is_cut_and_says_where_all_of_it_is() {
        let log = format!("{}src/a.rs:3: error: boom\n", "noise\n".repeat(10_000));
        let text = text(
            "`test` failed",
            "Commit 1.",
            &log,
            "all of it: outputs/check-1.log",
            2048,
        );
        assert!(text.len() <= 2048, "{}", text.len());
        assert!(
            text.starts_with("`test` failed: src/a.rs:3: error: boom\n"),
            "{text}"
        );
        assert!(
            text.contains("left out; all of it: outputs/check-1.log …]"),
            "{text}"
        );
        assert!(text.ends_with("boom\n"), "{text}");
    }
}
