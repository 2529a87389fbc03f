//! Journals that an earlier creel recorded: each one still reads and resumes as it did.
//!
//! Every `tests/fixtures/journals/VERSION/NAME.jsonl` has two expectations beside it. `NAME.txt`
//! contains the session's result and what a resumed session does after each of its records; only a
//! change of the rules may change it. `NAME.show.txt` contains the output of `creel show`, so a
//! change of wording may change it: see `tests/it/old_journals.rs`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use creel::{
    engine::{
        self, SessionState,
        effect::{Effect, ExitReason},
        event::{Event, SessionEvent, UserPresence},
        input::Input,
        time::{TimeSpan, UnixTime},
        verify::{MeasuredChanges, WorkChangedBy, WorkMeasurement, test_guard::TestComparison},
    },
    journal::Record,
};
use expect_test::expect_file;
use serde_json::Value;

use crate::support::{
    journals::{fixtures, versions},
    world::is_restored_from_its_stored_form,
};

/// More steps than any session has between two waits.
const MANY: usize = 500;

fn lines_of(path: &Path) -> Vec<String> {
    fs::read_to_string(path)
        .expect("a journal")
        .lines()
        .map(str::to_owned)
        .collect()
}

/// A release adds its own journals: the next version must read them.
#[test]
fn there_are_journals_of_this_version() {
    let this = env!("CARGO_PKG_VERSION");
    let name = |path: &PathBuf| {
        path.file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned()
    };
    let known: Vec<String> = versions().iter().map(name).collect();
    assert!(
        known.iter().any(|version| version == this),
        "record journals of {this}: {known:?}"
    );
    assert!(known.iter().any(|version| version == "0.1.0"), "{known:?}");
}

#[test]
fn every_record_is_written_as_it_was_read() {
    for (name, path) in fixtures() {
        for line in lines_of(&path) {
            let record =
                Record::from_line(&line).unwrap_or_else(|error| panic!("{name}: {error}: {line}"));
            let written: Value = serde_json::from_str(&record.to_line()).expect("JSON");
            let read: Value = serde_json::from_str(&line).expect("JSON");
            assert_eq!(written, read, "{name}");
        }
    }
}

#[test]
fn they_reach_the_same_result_and_resume_from_every_record() {
    for (_, path) in fixtures() {
        let records: Vec<Record> = lines_of(&path)
            .iter()
            .map(|line| Record::from_line(line).expect("a record"))
            .collect();
        let mut state: Option<SessionState> = None;
        let mut resumes = String::new();
        for record in &records {
            match (&mut state, &record.event) {
                (Some(state), event) => state.apply(record.at, event),
                (None, Event::Session(SessionEvent::Started(began))) => {
                    state = Some(SessionState::new(
                        &record.session,
                        (**began).clone(),
                        record.at,
                    ));
                }
                (None, _) => panic!("a journal begins with its session"),
            }
            let state = state.clone().expect("it has begun");
            is_restored_from_its_stored_form(&state);
            resumes += &format!(
                "{} {}\n{}",
                record.seq,
                kind(&record.event),
                resumed(state, record.at)
            );
        }
        let state = state.expect("a journal has records");
        let text = format!("{}\nresumed after each record:\n{resumes}", summary(&state));
        expect_file![path.with_extension("txt")].assert_eq(&text);
    }
}

/// The JSON name of a value, which other programs read and no redesign changes.
fn named(value: impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).expect("JSON");
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn kind(event: &Event) -> String {
    serde_json::to_value(event).expect("JSON")["kind"]
        .as_str()
        .expect("a kind")
        .to_owned()
}

/// What a session does that was cut here and is resumed a second later in attended mode: its
/// records and effects until it waits for an answer.
fn resumed(mut state: SessionState, last: UnixTime) -> String {
    let now = last.after(TimeSpan::secs(1));
    let mut text = String::new();
    let mut input = Input::Resume {
        presence: UserPresence::Attended,
        max_iterations: None,
        checkpoint: None,
        answer: None,
    };
    for _ in 0..MANY {
        let step = engine::decide(&state, now, input);
        if step.refusal.is_some() {
            text += "    refused\n";
        }
        if step.is_empty() {
            return text;
        }
        for event in &step.events {
            state.apply(now, event);
            text += &format!("    {}\n", kind(event));
        }
        text.extend(
            step.effects
                .iter()
                .map(|effect| format!("    > {}\n", described(effect))),
        );
        let measures = step.effects.iter().find_map(measured);
        input = measures.map_or(Input::Proceed, |by| {
            Input::WorkMeasured(WorkMeasurement {
                by,
                changes: Some(MeasuredChanges::default()),
                missing: Vec::new(),
                tests: Some(TestComparison::default()),
            })
        });
    }
    panic!("the session does not come to rest: {text}");
}

fn measured(effect: &Effect) -> Option<WorkChangedBy> {
    if let Effect::MeasureWork { by, .. } = effect {
        Some(*by)
    } else {
        None
    }
}

fn described(effect: &Effect) -> String {
    match effect {
        Effect::RunHook(job) => format!("run hook {}", job.hook.name),
        Effect::CheckRule(job) => format!("check rule {}", job.rule.name),
        Effect::CancelHook(run) => format!("cancel hook {run}"),
        Effect::SendPrompt {
            text, to, stand_in, ..
        } => {
            let agent = to
                .as_ref()
                .or(stand_in.as_ref())
                .map(|agent| format!(" to {agent}"))
                .unwrap_or_default();
            format!(
                "send prompt{agent} {:?}",
                text.lines().next().unwrap_or_default()
            )
        }
        Effect::MeasureWork { .. } => "look at the work".into(),
        Effect::CancelTurn(turn) => format!("cancel turn {turn}"),
        Effect::AnswerPermission { ask, .. } => format!("answer request {ask}"),
        Effect::ReadForge(_) => "look at the pull request".into(),
        Effect::AnswerNews(_) => "answer a comment".into(),
        Effect::Leave(ExitReason::Ended) => "leave: ended".into(),
        Effect::Leave(ExitReason::NeedsUser) => "leave: needs the user".into(),
    }
}

/// The session's result, in terms of the records and not of our types.
fn summary(state: &SessionState) -> String {
    let mut lines = vec![
        format!(
            "outcome: {}",
            state.phase.outcome().map_or("none".into(), named)
        ),
        format!(
            "iterations: {} of {}",
            state.iterations.used(),
            state.max_iterations()
        ),
        format!(
            "last iteration: {}",
            state.iterations.last.map_or("none".into(), named)
        ),
        format!(
            "retries: {} used, {} granted",
            state.retry.used, state.retry.granted
        ),
        format!("errors in a row: {}", state.retry.errors),
        format!("tokens: {}", state.account.used.tokens),
        format!("agent: {}", state.agent_choice().agent()),
    ];
    for item in state.pending.items() {
        let edited = if item.edited { ", edited" } else { "" };
        let source = format!("{} {}", named(item.source.point), item.source.hook);
        lines.push(format!(
            "pending {}: {} ({source}{edited})",
            item.id,
            named(item.state)
        ));
    }
    if let Some(gate) = &state.gates.open {
        let choices: Vec<String> = gate.choices.iter().map(named).collect();
        lines.push(format!(
            "open gate {}: {}: {}",
            gate.id,
            named(gate.kind()),
            choices.join(", ")
        ));
    }
    for hook in &state.hooks.disabled {
        lines.push(format!("disabled: {} {}", named(hook.point), hook.hook));
    }
    for (hook, times) in &state.hooks.broken {
        lines.push(format!(
            "broken in a row: {} {}: {times}",
            named(hook.point),
            hook.hook
        ));
    }
    for task in state.tasks.graph.tasks() {
        let (waits_for, labels) = (&task.dependencies, task.labels.join(" "));
        lines.push(format!(
            "task {}: {}, depends on {waits_for:?}, labels [{labels}]",
            task.id,
            named(task.state)
        ));
    }
    for hook in &state.stop.registered {
        lines.push(format!(
            "stop hook for {}: {}",
            hook.task,
            named(&hook.hook)
        ));
    }
    for one in &state.stop.loops {
        lines.push(format!(
            "loop over {}: iteration {} of {}",
            one.task, one.iteration, one.max_iterations
        ));
    }
    for kept in &state.stop.checkpoints {
        lines.push(format!(
            "checkpoint {}: {}",
            kept.checkpoint.checkpoint,
            named(&kept.checkpoint.data)
        ));
    }
    lines.join("\n") + "\n"
}
