//! Snapshots are used only if they match their journal.

use std::{
    fs::OpenOptions,
    io::{Seek as _, SeekFrom, Write as _},
    sync::LazyLock,
};

use super::*;
use crate::{
    engine::event::{Event, SessionEvent},
    journal::{
        Journal, Record, SessionDir, SessionsDir,
        fold::{FoldedJournal, fold_whole},
    },
};

const FIXTURE: &str = include_str!("../../../tests/fixtures/journals/0.1.0/retry_gates.jsonl");

/// One key for all tests of this process, as in a process of creel.
static KEYS: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a folder");
    keep_key_in(dir.path());
    dir
});

/// What was done to a session's files.
type Mismatch<'a> = (&'a str, &'a dyn Fn(&Session));

struct Session {
    _project: tempfile::TempDir,
    folder: SessionDir,
}

fn record(line: &str) -> Record {
    Record::from_line(line).expect("a record")
}

/// A journal that is long enough, written record by record.
fn recorded(journal: &mut Journal, state: &mut Option<SessionState>, events: Vec<Event>) {
    for written in journal
        .append(crate::engine::time::UnixTime(1_000), events)
        .expect("space")
    {
        match (&mut *state, &written.event) {
            (Some(state), event) => state.apply(written.at, event),
            (None, Event::Session(SessionEvent::Started(began))) => {
                *state = Some(SessionState::new(
                    &written.session,
                    (**began).clone(),
                    written.at,
                ));
            }
            (None, _) => panic!("a journal begins with its session"),
        }
    }
}

fn padding(times: usize) -> Vec<Event> {
    (0..times)
        .map(|n| Event::warning(format!("{n} {}", "-".repeat(1_000))))
        .collect()
}

impl Session {
    fn new() -> Self {
        Self::with_warnings(200)
    }

    fn with_warnings(warnings: usize) -> Self {
        let _ = &*KEYS;
        let project = tempfile::tempdir().expect("a folder");
        let folder = SessionsDir::of(project.path()).folder("s");
        let mut journal = Journal::create(&folder).expect("a journal");
        let mut state = None;
        recorded(
            &mut journal,
            &mut state,
            FIXTURE.lines().map(|line| record(line).event).collect(),
        );
        recorded(&mut journal, &mut state, padding(warnings));
        journal.finish(&state.expect("it has begun"));
        Self {
            _project: project,
            folder,
        }
    }

    fn journal(&self) -> PathBuf {
        self.folder.journal()
    }

    fn folded(&self) -> FoldedJournal {
        fold_whole(&self.journal()).expect("a journal")
    }

    /// Overwrites the journal, as late as the file system needs to show it: some count time in
    /// steps of milliseconds.
    fn edit(&self, at: u64, text: &str) {
        let mut file = OpenOptions::new()
            .write(true)
            .open(self.journal())
            .expect("a journal");
        let before = JournalFileStamp::of(&file);
        while JournalFileStamp::of(&file) == before {
            file.seek(SeekFrom::Start(at)).expect("a place");
            file.write_all(text.as_bytes()).expect("space");
        }
    }

    /// The state is the same as without a snapshot.
    fn is_folded_as_without(&self, is_used: bool, what: &str) {
        let folded = self.folded();
        assert_eq!(folded.snapshot.is_some(), is_used, "{what}");
        let bare = tempfile::tempdir().expect("a folder");
        let copy = bare.path().join("journal.jsonl");
        fs::copy(self.journal(), &copy).expect("a copy");
        let plain = fold_whole(&copy).expect("a journal");
        assert!(plain.snapshot.is_none());
        assert_eq!(
            (folded.state, folded.seq, folded.prompts),
            (plain.state, plain.seq, plain.prompts),
            "{what}"
        );
    }
}

/// Where the text of a warning in the middle of the journal begins.
fn middle(session: &Session) -> u64 {
    let text = fs::read_to_string(session.journal()).expect("a journal");
    text.find(" ------").expect("a warning") as u64 + 2
}

#[test]
fn a_snapshot_is_used_and_changes_nothing() {
    let session = Session::new();
    session.is_folded_as_without(true, "at the end");
    let mut opened = Journal::open(&session.folder).expect("a journal");
    let mut journal = opened.journal.take_up().expect("a journal");
    let written = journal
        .append(crate::engine::time::UnixTime(2_000), padding(3))
        .expect("space");
    for record in &written {
        opened.state.apply(record.at, &record.event);
    }
    session.is_folded_as_without(true, "while it runs, with records after the snapshot");
    assert_eq!(session.folded().state, opened.state);
    // As after a kill: neither a last snapshot nor any other farewell.
    std::mem::forget(journal);
    session.is_folded_as_without(true, "after a kill");
}

#[test]
fn a_snapshot_that_does_not_match_is_ignored() {
    let other = Session::with_warnings(201);
    let cases: [Mismatch<'_>; 14] = [
        ("an edited record in the middle", &|session| {
            session.edit(middle(session), "=");
        }),
        ("an appended record", &|session| {
            let next = session.folded().seq + 1;
            let line = record(FIXTURE.lines().last().expect("a line"));
            let end = fs::metadata(session.journal()).expect("a journal").len();
            session.edit(end, &Record { seq: next, ..line }.to_line());
        }),
        ("a record that was cut off", &|session| {
            let text = fs::read_to_string(session.journal()).expect("a journal");
            let end = text.trim_end().rfind('\n').expect("lines") as u64 + 1;
            OpenOptions::new()
                .write(true)
                .open(session.journal())
                .and_then(|file| file.set_len(end))
                .expect("cut");
        }),
        ("a replaced journal", &|session| {
            let copy = session.folder.path.join("copy");
            fs::copy(session.journal(), &copy)
                .and_then(|_| fs::rename(&copy, session.journal()))
                .expect("a copy");
        }),
        ("an empty snapshot", &|session| {
            fs::write(snapshot_file(&session.journal()), "").expect("space");
        }),
        ("a torn snapshot", &|session| {
            let path = snapshot_file(&session.journal());
            let text = fs::read_to_string(&path).expect("a snapshot");
            fs::write(&path, &text[..text.len() / 2]).expect("space");
        }),
        ("an edited snapshot", &|session| {
            let path = snapshot_file(&session.journal());
            let text = fs::read_to_string(&path).expect("a snapshot");
            assert!(text.contains("\"name\":\"s\""));
            fs::write(&path, text.replace("\"name\":\"s\"", "\"name\":\"t\"")).expect("space");
        }),
        ("a snapshot of another session", &|session| {
            fs::copy(
                snapshot_file(&other.journal()),
                snapshot_file(&session.journal()),
            )
            .expect("a copy");
        }),
        ("both files of another session", &|session| {
            for path in [snapshot_file, stamp_file] {
                fs::copy(path(&other.journal()), path(&session.journal())).expect("a copy");
            }
        }),
        ("no stamp", &|session| {
            fs::remove_file(stamp_file(&session.journal())).expect("a stamp");
        }),
        ("an old stamp", &|session| {
            let stamp = fs::read(stamp_file(&session.journal())).expect("a stamp");
            let journal =
                Journal::open(&session.folder).and_then(|opened| opened.journal.take_up());
            journal
                .expect("a journal")
                .append(crate::engine::time::UnixTime(2_000), padding(1))
                .expect("space");
            fs::write(stamp_file(&session.journal()), stamp).expect("space");
        }),
        ("another key", &|session| {
            let (path, file) = (
                snapshot_file(&session.journal()),
                File::open(session.journal()).expect("a journal"),
            );
            let text = fs::read_to_string(&path).expect("a snapshot");
            let key = SnapshotKey::new([7; 32]);
            let sealed = text.split_once('\n').expect("a seal").1;
            let seal = key.seal(sealed.as_bytes());
            fs::write(&path, format!("{seal}\n{sealed}")).expect("space");
            let now = JournalFileStamp::of(&file).expect("metadata");
            fs::write(stamp_file(&session.journal()), stamp(&key, &seal, &now)).expect("space");
        }),
        ("another build", &|session| {
            resealed(session, build().expect("a program"), "0.0.0");
        }),
        ("another format", &|session| {
            resealed(session, "{\"format\":1,", "{\"format\":2,");
        }),
    ];
    for (what, change) in cases {
        let session = Session::new();
        change(&session);
        session.is_folded_as_without(false, what);
    }
}

/// Replaces a text in a snapshot and seals it again, as another creel of this user would.
fn resealed(session: &Session, from: &str, to: &str) {
    let path = snapshot_file(&session.journal());
    let text = fs::read_to_string(&path).expect("a snapshot");
    let sealed = text.split_once('\n').expect("a seal").1;
    assert!(sealed.contains(from));
    let sealed = sealed.replacen(from, to, 1);
    let key = SnapshotKey::existing().expect("a key");
    let seal = key.seal(sealed.as_bytes());
    fs::write(&path, format!("{seal}\n{sealed}")).expect("space");
    let now =
        JournalFileStamp::of(&File::open(session.journal()).expect("a journal")).expect("metadata");
    fs::write(stamp_file(&session.journal()), stamp(key, &seal, &now)).expect("space");
}

#[test]
fn a_session_resumed_past_an_edit_does_not_bring_the_old_snapshot_back() {
    let session = Session::new();
    let old = ["snapshot.json", "snapshot.stamp"].map(|name| {
        let path = session.folder.path.join(name);
        (fs::read(&path).expect("a file"), path)
    });
    session.edit(middle(&session), "=");
    let journal = Journal::open(&session.folder).and_then(|opened| opened.journal.take_up());
    for (content, path) in &old {
        fs::write(path, content).expect("space");
    }
    journal
        .expect("a journal")
        .append(crate::engine::time::UnixTime(2_000), padding(1))
        .expect("space");
    session.is_folded_as_without(false, "the old snapshot of an edited journal");
}

#[test]
fn a_running_session_whose_journal_was_touched_stamps_no_snapshot() {
    let session = Session::new();
    let mut journal = Journal::open(&session.folder)
        .and_then(|opened| opened.journal.take_up())
        .expect("a journal");
    session.edit(middle(&session), "=");
    journal
        .append(crate::engine::time::UnixTime(2_000), padding(1))
        .expect("space");
    session.is_folded_as_without(false, "a journal that was edited while it ran");
}

#[test]
fn links_in_place_of_a_snapshot_are_not_followed() {
    let session = Session::new();
    for path in [
        snapshot_file(&session.journal()),
        stamp_file(&session.journal()),
    ] {
        let elsewhere = session.folder.path.join("elsewhere");
        fs::rename(&path, &elsewhere)
            .and_then(|()| std::os::unix::fs::symlink(&elsewhere, &path))
            .expect("a link");
        session.is_folded_as_without(false, "a link");
        fs::rename(&elsewhere, &path).expect("the file again");
    }
    session.is_folded_as_without(true, "the files themselves");
}

#[test]
fn a_seal_is_an_hmac() {
    // RFC 4231, test case 1, whose key is shorter: it is padded with zeros.
    let mut key = [0; KEY_BYTES];
    key[..20].fill(0x0b);
    assert_eq!(
        SnapshotKey::new(key).seal(b"Hi There"),
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    );
}

#[test]
fn processes_that_create_the_key_at_the_same_time_agree() {
    let dir = tempfile::tempdir().expect("a folder");
    create(dir.path()).expect("a key");
    let first = read(&dir.path().join("snapshot-key")).expect("a key");
    create(dir.path()).expect("the same key");
    assert_eq!(
        read(&dir.path().join("snapshot-key")).expect("a key"),
        first
    );
    assert_eq!(
        fs::read_dir(dir.path()).expect("a folder").count(),
        1,
        "no draft is left"
    );
}
