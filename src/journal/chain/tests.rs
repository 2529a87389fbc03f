//! A chain that was changed at random, cut, and continued by a resumed session.

use std::fs;

use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use super::*;
use crate::{
    engine::{
        event::{ActorKind, Event, SessionEvent, SessionOutcome, SteeringEvent, UserPresence},
        time::UnixTime,
    },
    journal::{Journal, Record, SessionsDir, file::OpenedJournal},
};

const AT: UnixTime = UnixTime(1_794_735_000_123);

fn message(n: usize) -> Event {
    Event::Steering(SteeringEvent::MessageQueued {
        by: ActorKind::Cli.into(),
        text: format!(
            "message {n}: a \"kind\":\"session_ended\" é\n{}",
            "x".repeat(n % 90)
        ),
    })
}

fn ended() -> Event {
    Event::Session(SessionEvent::Ended {
        outcome: SessionOutcome::Complete,
        iterations: 1,
        reason: "done".into(),
        lines: None,
        files: Vec::new(),
        submittable: false,
        checks: Vec::new(),
    })
}

fn resumed() -> Event {
    Event::Session(SessionEvent::Resumed {
        cut: Vec::new(),
        presence: UserPresence::Attended,
        max_iterations: None,
        checkpoint: None,
        answer: None,
        paused: false,
        hooks: Vec::new(),
        decision: None,
    })
}

/// Drops the journal, and waits until its background thread has released the lock.
fn close(journal: Journal) {
    let folder = journal.folder().clone();
    drop(journal);
    while file::running(&folder).is_some() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

struct Session {
    folder: SessionDir,
    _dir: tempfile::TempDir,
}

impl Session {
    /// A session with this many records, the last of them its end. Its first record is from a
    /// fixture, so that it can be opened.
    fn of(records: usize) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = SessionsDir::of(dir.path()).folder("s");
        let mut journal = Journal::create(&folder).expect("a new journal");
        let fixture = include_str!("../../../tests/fixtures/journals/0.2.0/final_delivery.jsonl");
        let began = Record::from_line(fixture.lines().next().expect("a line"));
        let mut events = vec![began.expect("a record").event];
        events.extend((2..records).map(message));
        events.push(ended());
        for event in events {
            journal.append(AT, vec![event]).expect("space");
        }
        journal.seal();
        close(journal);
        Self { folder, _dir: dir }
    }

    fn resume(&self) -> Journal {
        let OpenedJournal { journal, .. } = Journal::open(&self.folder).expect("a journal");
        journal.take_up().expect("the journal")
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.folder.journal()).expect("the journal")
    }

    fn write(&self, bytes: &[u8]) {
        fs::write(self.folder.journal(), bytes).expect("space");
    }

    fn check(&self) -> ChainCheck {
        verify(&self.folder, JournalOrigin::Own).expect("the journal")
    }

    fn finding(&self) -> ChainFinding {
        self.check().finding
    }
}

#[test]
fn what_creel_wrote_is_intact_and_reads_back() {
    let session = Session::of(40);
    let check = session.check();
    assert_eq!(check.finding, ChainFinding::Intact);
    assert_eq!((check.records, check.without_chain), (40, 0));
    let text = String::from_utf8(session.bytes()).expect("text");
    for line in text.split_inclusive('\n') {
        let record = Record::from_line(line).expect("a record");
        assert!(record.chain.is_some());
        assert_eq!(record.to_line(), line);
    }
    assert_eq!(
        verify(&session.folder, JournalOrigin::Copy)
            .expect("it")
            .finding,
        ChainFinding::Intact
    );
}

#[derive(Debug, Clone, Copy)]
enum Damage {
    Byte(u8),
    Removed,
    Moved(usize),
    Doubled,
    CutAfter,
    CutWithin(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        3 => (1..=255_u8).prop_map(Damage::Byte),
        1 => Just(Damage::Removed),
        1 => (1..30_usize).prop_map(Damage::Moved),
        1 => Just(Damage::Doubled),
        1 => Just(Damage::CutAfter),
        1 => (1..60_usize).prop_map(Damage::CutWithin),
    ]
}

/// The journal after a damage. None if it would be as before.
fn damaged(whole: &[u8], at: prop::sample::Index, damage: Damage) -> Option<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = whole
        .split_inclusive(|b| *b == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let n = at.index(lines.len());
    match damage {
        Damage::Byte(flip) => {
            let mut bytes = whole.to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            return Some(bytes);
        }
        Damage::Removed => {
            lines.remove(n);
        }
        Damage::Moved(by) => {
            let to = (n + by) % lines.len();
            let line = lines.remove(n);
            lines.insert(to, line);
        }
        Damage::Doubled => lines.insert(n, lines[n].clone()),
        Damage::CutAfter => lines.truncate(n + 1),
        Damage::CutWithin(bytes) => {
            lines.truncate(n + 1);
            let last = lines.last_mut().expect("a line");
            last.truncate(last.len().saturating_sub(bytes));
        }
    }
    let changed = lines.concat();
    (changed != whole).then_some(changed)
}

#[test]
fn a_thousand_random_changes_are_all_found() {
    let session = Session::of(60);
    let whole = session.bytes();
    let config = Config {
        cases: 1_000,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let changes = (any::<prop::sample::Index>(), damage());
    let checked = TestRunner::new_with_rng(config, rng).run(&changes, |(at, damage)| {
        if let Some(changed) = damaged(&whole, at, damage) {
            session.write(&changed);
            let finding = session.finding();
            prop_assert!(!finding.is_good(), "{damage:?}: {finding:?}");
        }
        Ok(())
    });
    checked.expect("all are found");
    session.write(&whole);
    assert_eq!(session.finding(), ChainFinding::Intact);
}

#[test]
fn the_cut_end_of_a_finished_session_is_found() {
    let session = Session::of(10);
    let whole = session.bytes();
    let lines: Vec<&[u8]> = whole.split_inclusive(|b| *b == b'\n').collect();
    session.write(&lines[..7].concat());
    assert_eq!(session.finding(), ChainFinding::CutOff { sealed: 10 });
    session.write(&whole);
    fs::remove_file(session.folder.seal_file()).expect("a seal");
    assert_eq!(session.finding(), ChainFinding::SealMissing);
}

#[test]
fn a_session_that_is_continued_hides_no_cut() {
    let session = Session::of(10);
    let whole = session.bytes();
    let lines: Vec<&[u8]> = whole.split_inclusive(|b| *b == b'\n').collect();
    session.write(&lines[..7].concat());
    for messages in [1, 6] {
        let mut journal = session.resume();
        let more = (0..messages).map(message);
        let records = std::iter::once(resumed()).chain(more).chain([ended()]);
        journal.append(AT, records.collect()).expect("space");
        journal.seal();
        close(journal);
        assert_eq!(session.finding(), ChainFinding::CutOff { sealed: 10 });
    }
    let session = Session::of(10);
    fs::remove_file(session.folder.seal_file()).expect("a seal");
    let mut journal = session.resume();
    journal.append(AT, vec![resumed(), ended()]).expect("space");
    journal.seal();
    close(journal);
    assert_eq!(session.finding(), ChainFinding::SealMissing);
}

#[test]
fn a_resumed_session_continues_the_chain_and_cannot_be_cut_back_to_its_first_end() {
    let session = Session::of(10);
    let first = session.bytes();
    let mut journal = session.resume();
    assert_eq!(session.finding(), ChainFinding::Running);
    journal
        .append(AT, vec![resumed(), message(1)])
        .expect("space");
    close(journal);
    // As after a kill: nothing names the last line.
    assert_eq!(session.finding(), ChainFinding::NoEnd);
    session.write(&first);
    assert_eq!(session.finding(), ChainFinding::NoEnd);

    let mut journal = session.resume();
    journal
        .append(AT, vec![resumed(), message(2), ended()])
        .expect("space");
    let killed_at_its_end = session.bytes();
    journal.seal();
    close(journal);
    assert_eq!(session.check().records, 13);
    assert_eq!(session.finding(), ChainFinding::Intact);
    session.write(&first);
    assert_eq!(session.finding(), ChainFinding::CutOff { sealed: 13 });
    session.write(&killed_at_its_end);
    assert_eq!(session.finding(), ChainFinding::Intact);
}

#[test]
fn an_earlier_journal_has_a_chain_from_where_this_creel_continued_it() {
    let session = Session::of(10);
    let fixture = include_bytes!("../../../tests/fixtures/journals/0.2.0/final_delivery.jsonl");
    session.write(fixture);
    // The seal knows a record that lost its link.
    assert_eq!(session.finding(), ChainFinding::Changed { line: 10 });
    fs::remove_file(session.folder.seal_file()).expect("a seal");
    assert_eq!(session.finding(), ChainFinding::NoChain);
    let lines = fixture.split_inclusive(|b| *b == b'\n').count() as u64;
    let mut journal = session.resume();
    journal.append(AT, vec![resumed(), ended()]).expect("space");
    journal.seal();
    close(journal);
    let check = session.check();
    assert_eq!(check.finding, ChainFinding::Intact);
    assert_eq!((check.without_chain, check.records), (lines, lines + 2));
    // Links cannot be taken off: the first one must be the first of the chain.
    let text = String::from_utf8(session.bytes()).expect("text");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let last = lines.len() - 2;
    let cut = lines[last].find(LABEL).expect("a link");
    lines[last].replace_range(cut.., "}");
    session.write((lines.join("\n") + "\n").as_bytes());
    assert!(!session.finding().is_good());
}
