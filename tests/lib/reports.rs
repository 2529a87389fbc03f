//! Reports of the journals that earlier versions of creel recorded, of all their beginnings, and of
//! a session whose texts are hostile.

#[path = "../../src/config/tests/schema_check.rs"]
pub(crate) mod schema_check;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use creel::{
    engine::ids::TurnId,
    journal::Record,
    report::{
        CheckPlace, MARKDOWN_LIMIT, MarkdownPart, Report, ReportBuilder, RunMark, SCHEMA,
        Verification, html, markdown,
        session_diff::{DiffPart, DiffPlace, DiffSource, WorkHistory, session_diff},
    },
};
use schema_check::objections;

fn journals() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/journals");
    let versions = fs::read_dir(folder).expect("a folder for each version");
    let files = versions.flat_map(|version| {
        fs::read_dir(version.expect("an entry").path()).expect("a folder of journals")
    });
    let mut found: Vec<PathBuf> = files
        .map(|file| file.expect("an entry").path())
        .filter(|file| file.extension().is_some_and(|it| it == "jsonl"))
        .collect();
    found.sort();
    found
}

fn records(path: &Path) -> Vec<Record> {
    let text = fs::read_to_string(path).expect("a journal");
    let lines = text.lines();
    lines
        .map(|line| Record::from_line(line).expect("a record"))
        .collect()
}

fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Report {
    let mut builder = ReportBuilder::default();
    records.into_iter().for_each(|record| builder.take(record));
    builder.finish().expect("a session has begun")
}

fn journal(name: &str) -> Report {
    let mut all = journals().into_iter();
    let path = all.find(|path| path.file_stem().is_some_and(|stem| stem == name));
    of(&records(&path.expect("a journal of that name")))
}

/// A session of lines after its beginning, with a check and a rule. `EVENT` lacks only the fields
/// that all records share.
fn session(goal: &str, events: &[Value]) -> Report {
    of(&session_records(goal, events))
}

fn session_records(goal: &str, events: &[Value]) -> Vec<Record> {
    let began = records(&journals()[0]).remove(0).to_line();
    let mut began: Value = serde_json::from_str(&began).expect("JSON");
    began["prompt"] = goal.into();
    let mut lines = vec![began];
    lines.extend(events.iter().cloned());
    lines
        .into_iter()
        .enumerate()
        .map(|(n, mut line)| {
            line["v"] = 1.into();
            line["seq"] = (n + 1).into();
            line["session"] = "s".into();
            line["at"] = format!("2026-11-16T18:{:02}:{:02}.000Z", n / 60 % 60, n % 60).into();
            Record::from_line(&line.to_string()).expect("a record")
        })
        .collect()
}

fn ran(run: usize, text: &str) -> Value {
    serde_json::json!({
        "kind": "hook_finished", "run": run, "point": "stop", "hook": text, "iteration": 1,
        "end": {"exit": 2}, "took_ms": 12, "verdict": "block", "stdout": text, "stderr": "",
        "omitted_bytes": 0, "piped": false
    })
}

fn sent(turn: usize, text: &str) -> Value {
    serde_json::json!({
        "kind": "prompt_sent", "iteration": 1, "turn": turn, "reason": "iteration", "text": text,
        "items": [], "conversation": "new"
    })
}

fn turn_ended(turn: usize, spent: &Value) -> Value {
    let mut event = serde_json::json!({
        "kind": "turn_ended", "iteration": 1, "turn": turn, "stop_reason": "end_turn"
    });
    let fields = spent.as_object().expect("an object").clone();
    event.as_object_mut().expect("an object").extend(fields);
    event
}

#[test]
fn a_report_of_every_beginning_of_a_journal_is_valid() {
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    for path in journals() {
        let records = records(&path);
        for end in 1..=records.len() {
            let report = of(&records[..end]);
            let json: Value = serde_json::from_str(&report.json()).expect("JSON");
            let found = objections(&schema, &json);
            assert!(found.is_empty(), "{} {end}: {found:?}", path.display());
            let page = html(&report);
            assert!(page.ends_with("</html>\n"), "{} {end}", path.display());
            assert_eq!(
                page.matches("<details>").count(),
                page.matches("</details>").count()
            );
            for part in [MarkdownPart::Whole, MarkdownPart::PullRequest] {
                let text = markdown(&report, part, MARKDOWN_LIMIT);
                assert!(text.len() <= MARKDOWN_LIMIT, "{} {end}", path.display());
            }
        }
    }
}

#[test]
fn the_first_sentence_says_whether_the_work_is_verified() {
    let head = |name: &str| {
        let outcome = journal(name).outcome;
        (outcome.verification, outcome.sentence)
    };
    let (verification, sentence) = head("final_delivery");
    assert_eq!(verification, Verification::NotRecorded);
    assert!(
        sentence.contains("does not record which checks had passed"),
        "{sentence}"
    );
    let (verification, sentence) = head("forced");
    assert_eq!(verification, Verification::NotVerified);
    assert!(sentence.starts_with("Not verified: forced"), "{sentence}");
    let (verification, sentence) = head("killed_turn");
    assert_eq!(verification, Verification::Open);
    assert!(
        sentence.starts_with("Not finished: iteration 1 of at most"),
        "{sentence}"
    );
}

#[test]
fn what_was_forced_or_skipped_stands_at_the_top_of_every_form() {
    let report = journal("forced");
    let cautions = report.outcome.cautions.join("\n");
    assert!(
        cautions.contains("forced: accepted although a check blocked"),
        "{cautions}"
    );
    let text = markdown(&report, MarkdownPart::Whole, MARKDOWN_LIMIT);
    let top = text.split("### Goal").next().expect("a head");
    assert!(top.contains("⚠ Iteration 1 was forced"), "{top}");
    let page = html(&report);
    let top = page.split("<h2>Goal").next().expect("a head");
    assert!(top.contains("⚠ Iteration 1 was forced"), "{top}");
}

#[test]
fn decisions_name_the_actor() {
    let report = journal("retry_gates");
    let answered = report.gates.iter().filter_map(|gate| gate.by.clone());
    let answered: Vec<String> = answered.collect();
    assert!(
        !answered.is_empty() && answered.iter().all(|by| !by.is_empty()),
        "{answered:?}"
    );
    let text = markdown(&report, MarkdownPart::Whole, MARKDOWN_LIMIT);
    assert!(text.contains(&answered[0]), "{text}");
}

#[test]
fn a_history_has_every_run_of_a_check() {
    let report = journal("final_delivery");
    let check = report.checks.iter().find(|check| check.name == "tests");
    let check = check.expect("the check");
    assert_eq!((check.kind, check.counts), (CheckPlace::Stop, true));
    let marks: Vec<RunMark> = check.runs.iter().map(|run| run.result).collect();
    assert!(marks.len() > 1 && marks[0] == RunMark::Blocked, "{marks:?}");
    assert_eq!(marks.last(), Some(&RunMark::Passed));
    assert!(
        check.runs[0].output.contains("no greeting"),
        "{:?}",
        check.runs[0]
    );
}

#[test]
fn what_the_agent_did_not_report_is_unknown_and_never_zero() {
    let none = serde_json::json!({});
    let report = session("goal", &[sent(1, "p"), turn_ended(1, &none)]);
    assert_eq!((report.usage.tokens, report.usage.cost), (None, None));
    let text = markdown(&report, MarkdownPart::Whole, MARKDOWN_LIMIT);
    assert!(text.contains("tokens unknown · cost unknown"), "{text}");
    assert!(!text.contains("$0"), "{text}");
    assert!(!html(&report).contains("$0"));

    let some = serde_json::json!({"tokens": 1_200, "cost": 0.25});
    let events = [
        sent(1, "p"),
        turn_ended(1, &some),
        sent(2, "q"),
        turn_ended(2, &none),
    ];
    let report = session("goal", &events);
    assert_eq!(report.usage.cost, Some(0.25));
    assert_eq!(report.usage.turns_without_cost, 1);
    let page = html(&report);
    assert!(
        page.contains("at least $0.25: 1 of 2 turns reported no cost"),
        "{page}"
    );
    let free = serde_json::json!({"cost": 0.0});
    let report = session("goal", &[sent(1, "p"), turn_ended(1, &free)]);
    assert_eq!((report.usage.tokens, report.usage.cost), (None, Some(0.0)));
}

const HOSTILE: &str = "</details></pre></script><script>alert(1)</script>\n````\n@admin #12 `x`\n\
    <img src=http://evil.example onerror=alert(1)>\n/merge\n\u{1b}[31mred\u{202e}txt\n| a | b |\n```";

#[test]
fn hostile_text_stays_text() {
    let events = [sent(1, HOSTILE), ran(1, HOSTILE), ran(2, HOSTILE)];
    let report = session(HOSTILE, &events);
    let page = html(&report);
    assert!(
        !page.contains("<script") && !page.contains("<img"),
        "{page}"
    );
    assert_eq!(
        page.matches("<details>").count(),
        page.matches("</details>").count()
    );
    assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
    assert!(page.contains("default-src 'none'"));
    let text = markdown(&report, MarkdownPart::Whole, MARKDOWN_LIMIT);
    let outside = without_fences(&text);
    for dangerous in [
        "<script",
        "<img",
        "@admin",
        "#12",
        "evil.example",
        "\n/merge",
    ] {
        assert!(!outside.contains(dangerous), "{dangerous} in\n{outside}");
    }
    assert_eq!(
        outside.matches("<details>").count(),
        outside.matches("</details>").count()
    );
}

/// Markdown without its fenced blocks.
fn without_fences(text: &str) -> String {
    let mut fence: Option<usize> = None;
    let mut outside = String::new();
    for line in text.lines() {
        let ticks = line.len() - line.trim_start_matches('`').len();
        match fence {
            Some(open) if ticks >= open && line.len() == ticks => fence = None,
            Some(_) => {}
            None if ticks >= 3 => fence = Some(ticks),
            None => outside += &format!("{line}\n"),
        }
    }
    assert_eq!(fence, None, "a fence stays open");
    outside
}

#[test]
fn a_long_report_says_what_it_leaves_out() {
    let long = "a line of output with `ticks` and <tags>\n".repeat(300);
    let mut events = Vec::new();
    for n in 0..120 {
        events.extend([sent(n + 1, &long), ran(n + 1, &format!("check {n} {long}"))]);
    }
    let report = session(&long, &events);
    for limit in [MARKDOWN_LIMIT, 20_000, 3_000] {
        let text = markdown(&report, MarkdownPart::Whole, limit);
        assert!(text.len() <= limit, "{} of {limit}", text.len());
        without_fences(&text);
        assert!(
            text.contains("This report is shortened to fit")
                || text.contains("The rest is too long"),
            "{text}"
        );
    }
}

#[test]
fn a_file_without_known_contents_has_the_edits_of_the_agent_or_only_its_name() {
    let edit = serde_json::json!({
        "kind": "tool_called", "iteration": 1, "turn": 1, "call": "c", "title": "Edit a.rs", "status": "completed",
        "diff": "--- /p/src/a.rs\n+++ /p/src/a.rs\n@@ -1 +1 @@\n-old\n+new\n"
    });
    let work = serde_json::json!({ "work": { "files_modified": ["src/a.rs", "b.rs"] } });
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("journal.jsonl");
    let records = session_records("goal", &[sent(1, "p"), edit, turn_ended(1, &work)]);
    let lines: String = records.iter().map(Record::to_line).collect();
    fs::write(&journal, lines).expect("written");
    let history = WorkHistory::read(&journal).expect("a journal");
    let nowhere = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let place = DiffPlace::Elsewhere(nowhere);
    let diff = session_diff(&history, DiffPart::Session, &place).expect("the whole session");
    let turn = session_diff(&history, DiffPart::Turn(TurnId(1)), &place).expect("a turn");
    assert_eq!(turn.files, diff.files);
    let found: Vec<_> = diff
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.source, file.added))
        .collect();
    let expected = [
        ("b.rs", DiffSource::NameOnly, None),
        ("src/a.rs", DiffSource::AgentEdits, None),
    ];
    assert_eq!(found, expected);
    assert!(diff.files[1].text.contains("+new"), "{diff:?}");
    assert_eq!(diff.notes.len(), 3, "{:?}", diff.notes);
    assert!(session_diff(&history, DiffPart::Iteration(7), &place).is_err());
    assert!(session_diff(&history, DiffPart::Turn(TurnId(7)), &place).is_err());
}
