//! A journal from a file: whole, torn, shuffled, or written by another program.

use std::{fs, thread};

use creel::{
    cli::record_formatter::{HookOutputMode, RecordFormatter},
    engine::{
        self, SessionState,
        effect::Effect,
        event::{Event, SessionEvent, UserPresence},
        input::Input,
        time::UnixTime,
        verify::{MeasuredChanges, WorkMeasurement},
    },
    journal::{self, Record},
    present::style::ColourMode,
};

use super::{FOLDER, class};

/// More steps than any state needs before it waits for an answer.
const STEPS: usize = 5_000;

/// A journal is refused, or it folds. A journal that folds can be shown, and a session can continue
/// from it without looping. A fold of its beginning does not panic either.
pub fn run(input: &[u8]) -> String {
    let path = FOLDER
        .path()
        .join(format!("journal-{:?}.jsonl", thread::current().id()));
    let half = input.split_inclusive(|byte| *byte == b'\n').count() / 2;
    let beginning = input
        .split_inclusive(|byte| *byte == b'\n')
        .take(half)
        .collect::<Vec<_>>()
        .concat();
    let mut outcome = String::new();
    for part in [&beginning[..], input] {
        fs::write(&path, part).expect("a file");
        let mut narrator = RecordFormatter::new(ColourMode::Plain, HookOutputMode::Recorded);
        let mut now = UnixTime(0);
        // Records are shown up to the first that cannot be read, as `creel show` does.
        let _ = journal::read(&path, |record| {
            now = record.at;
            let told = narrator.tell(&record);
            assert!(
                !told.contains('\u{1b}'),
                "an escape sequence is told: {told:?}"
            );
            let again = Record::from_line(&record.to_line()).expect("what is written is read");
            assert_eq!(again, record, "a record changes when it is written again");
        });
        outcome = match journal::fold(&path) {
            Ok(state) => goes_on(state, now),
            Err(error) => class(&error.to_string()),
        };
    }
    format!("{outcome} · {}", readable_lines(input))
}

/// The same for the readable lines, whatever is between them.
fn readable_lines(input: &[u8]) -> String {
    let lines = input
        .split(|byte| *byte == b'\n')
        .filter_map(|line| std::str::from_utf8(line).ok());
    let records: Vec<Record> = lines
        .filter_map(|line| Record::from_line(line).ok())
        .collect();
    let start = records.iter().find_map(|record| {
        let Event::Session(SessionEvent::Started(began)) = &record.event else {
            return None;
        };
        Some(SessionState::new(
            &record.session,
            (**began).clone(),
            record.at,
        ))
    });
    let Some(mut state) = start else {
        return "no beginning".into();
    };
    for record in &records {
        state.apply(record.at, &record.event);
    }
    goes_on(
        state,
        records.last().map_or(UnixTime(0), |record| record.at),
    )
}

fn goes_on(mut state: SessionState, now: UnixTime) -> String {
    if let Some(refusal) = state.refuse_resume(None) {
        return format!("not resumed: {}", refusal.code());
    }
    let resumed = Input::Resume {
        presence: UserPresence::Unattended,
        max_iterations: None,
        checkpoint: None,
        answer: None,
    };
    let mut input = resumed;
    for steps in 0..STEPS {
        let step = engine::decide(&state, now, input);
        if step.is_empty() && steps > 0 {
            return format!(
                "waits after {} steps: {:?}",
                steps.min(40),
                state.phase.outcome()
            );
        }
        step.events.iter().for_each(|event| state.apply(now, event));
        let asks = step.effects.iter().find_map(|effect| {
            if let Effect::MeasureWork { by, .. } = effect {
                Some(WorkMeasurement {
                    by: *by,
                    changes: Some(MeasuredChanges::default()),
                    missing: Vec::new(),
                    tests: Some(creel::engine::verify::test_guard::TestComparison::default()),
                })
            } else {
                None
            }
        });
        input = asks.map_or(Input::Proceed, Input::WorkMeasured);
    }
    panic!("the session takes more than {STEPS} steps without waiting for anything");
}
