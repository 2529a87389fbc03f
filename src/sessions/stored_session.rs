//! A session that does not run: reads it for a list, and removes it.
//!
//! # Invariants
//! - A long journal is never read whole: its snapshot, or its first and its last records, must do.
//!   The records tell no costs then.

use std::{
    collections::BTreeSet,
    fs, io,
    ops::ControlFlow,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use serde::Deserialize;

use crate::{
    engine::{
        SessionState,
        event::{Event, GateEvent, SessionEvent, SessionOutcome, SessionStarted},
        gate::kind::GateKind,
        time::UnixTime,
    },
    journal::{self, JournalError, JournalFollower, Record, SessionDir, SessionsDir},
    present::{
        session_chip::SessionTimes,
        session_list::{self, ListedSession, ListedState},
        text::{counted, plain, plain_line, readable_size},
    },
    worktrees::session_branch,
};

/// Journals up to this many bytes are read whole.
const SHORT: u64 = 1 << 20;
/// The kind of the record of an end. In a text, the quotes would have backslashes.
const ENDED: &str = "\"kind\":\"session_ended\"";
/// How many records can follow the end of a session.
const AFTER_END: usize = 8;
/// The longest reason, in characters.
const REASON: usize = 300;

/// A session of which only the folder has been looked at.
pub fn unread(folder: &SessionDir, changed: SystemTime) -> ListedSession {
    ListedSession::unread(
        &folder.name,
        &folder.project().to_string_lossy(),
        unix_time(changed),
    )
}

/// The time of a file.
pub fn unix_time(at: SystemTime) -> UnixTime {
    let since_epoch = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    UnixTime(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// The session in this folder, whether or not a process runs it.
pub fn look_at(folder: &SessionDir) -> ListedSession {
    if journal::running(folder).is_none() {
        return read(folder);
    }
    let changed = fs::metadata(folder.journal()).and_then(|meta| meta.modified());
    let base = unread(folder, changed.unwrap_or(SystemTime::UNIX_EPOCH));
    let mut times = SessionTimes::default();
    match JournalFollower::open(&folder.journal(), |at, event| times.follow(at, event)) {
        Ok(session) => on_branch(
            base.with_state(session.state(), &times, true),
            session.state(),
        ),
        Err(error) => unreadable(base, &error),
    }
}

/// The sessions in these folders, for a list of text, in the same order. `live` has those that a
/// process may run.
pub fn rows(folders: &[SessionDir], live: &BTreeSet<String>) -> Vec<ListedSession> {
    for_each(folders, |folder| {
        if live.contains(&folder.name) {
            look_at(folder)
        } else {
            ended(folder).unwrap_or_else(|| read(folder))
        }
    })
}

/// What `read` gives for each of them, in the same order, on all processors.
pub fn for_each<T: Sync, R: Send>(all: &[T], read: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let read = &read;
    std::thread::scope(|scope| {
        let parts = all.chunks(all.len().div_ceil(threads).max(1));
        let reading: Vec<_> = parts
            .map(|part| scope.spawn(move || part.iter().map(read).collect::<Vec<R>>()))
            .collect();
        reading
            .into_iter()
            .flat_map(|reading| reading.join().expect("a thread that reads does not panic"))
            .collect()
    })
}

/// What a list of text shows of a session that ended without an interruption: its last record says
/// almost all of it. None for any other.
fn ended(folder: &SessionDir) -> Option<ListedSession> {
    let path = folder.journal();
    let meta = fs::metadata(&path)
        .ok()
        .filter(|meta| meta.len() <= SHORT)?;
    let text = fs::read_to_string(&path).ok()?;
    let (first, rest) = text.split_once('\n')?;
    // Both can raise the number of iterations.
    if ["\"session_resumed\"", "\"grants\""]
        .iter()
        .any(|sign| rest.contains(sign))
    {
        return None;
    }
    // A damaged journal is read as a whole, and reported.
    if !rest
        .lines()
        .all(|line| line.starts_with('{') && line.ends_with('}'))
    {
        return None;
    }
    let end = rest
        .strip_suffix('\n')?
        .rsplit('\n')
        .take(AFTER_END)
        .find(|line| line.contains(ENDED))?;
    let FirstRecord {
        at,
        agent,
        max_iterations,
    } = serde_json::from_str(first).ok()?;
    let mut listed = ListedSession {
        agent: plain(&agent),
        max_iterations,
        started: UnixTime::from_rfc3339(&at),
        ..unread(folder, meta.modified().ok()?)
    };
    follow(&mut listed, Record::from_line(end).ok()?);
    matches!(listed.state, ListedState::Ended { .. }).then_some(listed)
}

/// What the list needs of a first record, which has the whole plan.
#[derive(Deserialize)]
struct FirstRecord {
    at: String,
    agent: String,
    max_iterations: u32,
}

/// The session in this folder, which no process runs.
pub fn read(folder: &SessionDir) -> ListedSession {
    let path = folder.journal();
    let meta = fs::metadata(&path);
    let changed = meta
        .as_ref()
        .ok()
        .and_then(|meta| meta.modified().ok())
        .unwrap_or(SystemTime::UNIX_EPOCH);
    let base = unread(folder, changed);
    if meta.is_ok_and(|meta| meta.len() <= SHORT) {
        return whole(folder, base);
    }
    match journal::quick_fold(&path) {
        Some(state) => on_branch(
            base.with_state(&state, &SessionTimes::default(), false),
            &state,
        ),
        None => from_ends(folder, base),
    }
}

/// The session with the branch of its worktree, as it is now.
pub(super) fn on_branch(listed: ListedSession, state: &SessionState) -> ListedSession {
    ListedSession {
        branch: shown_branch(&state.began),
        ..listed
    }
}

fn shown_branch(began: &SessionStarted) -> String {
    session_branch(began)
        .as_deref()
        .map(plain)
        .unwrap_or_default()
}

fn whole(folder: &SessionDir, base: ListedSession) -> ListedSession {
    let mut times = SessionTimes::default();
    match JournalFollower::open(&folder.journal(), |at, event| times.follow(at, event)) {
        Ok(session) => on_branch(
            base.with_state(session.state(), &times, false),
            session.state(),
        ),
        Err(error) => unreadable(base, &error),
    }
}

/// What the first record and the end say.
fn from_ends(folder: &SessionDir, base: ListedSession) -> ListedSession {
    let mut first: Option<Record> = None;
    let read = journal::read_while(&folder.journal(), |record| {
        first = Some(record);
        ControlFlow::Break(())
    });
    if let Err(error) = read {
        return unreadable(base, &error);
    }
    let Some(Record {
        at,
        event: Event::Session(SessionEvent::Started(began)),
        ..
    }) = first
    else {
        return unreadable(base, &JournalError::NotASession(folder.journal()));
    };
    let base = ListedSession {
        agent: plain(&began.agent),
        goal: session_list::goal(&began),
        max_iterations: began.max_iterations,
        started: Some(at),
        can_resume: true,
        state: ListedState::Stopped { gate: None },
        ..base
    };
    let mut listed = ListedSession {
        branch: shown_branch(&began),
        ..base
    };
    let read = journal::read_last(&folder.journal(), SHORT, |record| {
        follow(&mut listed, record);
    });
    match read {
        // The session is longer than one record: it has begun.
        Ok(()) => ListedSession {
            iteration: listed.iteration.max(1),
            ..listed
        },
        Err(cause) => unreadable(
            listed,
            &JournalError::Io {
                doing: "read",
                path: folder.journal(),
                cause,
            },
        ),
    }
}

/// Takes in one of the last records.
fn follow(listed: &mut ListedSession, Record { at, event, .. }: Record) {
    listed.changed = at;
    // Most records name their iteration.
    let named = serde_json::to_value(&event)
        .ok()
        .and_then(|event| event["iteration"].as_u64());
    listed.iteration = named
        .and_then(|named| u32::try_from(named).ok())
        .unwrap_or(listed.iteration);
    if let Event::Session(SessionEvent::Ended {
        outcome,
        iterations,
        reason,
        ..
    }) = event
    {
        listed.iteration = iterations;
        listed.can_resume = !matches!(
            outcome,
            SessionOutcome::Complete
                | SessionOutcome::Forced
                | SessionOutcome::Unverified
                | SessionOutcome::Limit
        );
        listed.state = ListedState::Ended {
            outcome,
            reason: plain_line(&reason, REASON),
        };
    } else if let Event::Gate(gate) = event {
        let gate = match gate {
            GateEvent::Opened { about, .. } => Some(about),
            GateEvent::ProposalEdited { .. } => Some(GateKind::Proposal),
            GateEvent::Answered { .. } => None,
        };
        listed.state = ListedState::Stopped { gate };
    } else if let Event::Session(SessionEvent::Resumed { .. }) = event {
        (listed.can_resume, listed.state) = (true, ListedState::Stopped { gate: None });
    }
}

fn unreadable(base: ListedSession, error: &JournalError) -> ListedSession {
    ListedSession {
        state: ListedState::Unreadable(plain_line(&error.to_string(), REASON)),
        ..base
    }
}

/// How long the process of a session that has ended may take to exit: it still sends and closes
/// what it has.
const CLOSING: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(20);

/// What a removal would delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalPreview {
    pub folder: SessionDir,
    pub files: usize,
    pub bytes: u64,
}

impl RemovalPreview {
    /// Counts the files of a session. Links count as files: creel removes the link and not its
    /// target.
    pub fn of(folder: &SessionDir) -> io::Result<Self> {
        let (mut files, mut bytes) = (0, 0);
        count(&folder.path, &mut files, &mut bytes)?;
        Ok(Self {
            folder: folder.clone(),
            files,
            bytes,
        })
    }

    /// `14 files, 1.2 MB`.
    pub fn size(&self) -> String {
        format!(
            "{}, {}",
            counted(self.files, "file"),
            readable_size(self.bytes)
        )
    }
}

fn count(folder: &Path, files: &mut usize, bytes: &mut u64) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_dir() {
            count(&entry.path(), files, bytes)?;
        } else {
            *files += 1;
            *bytes += meta.len();
        }
    }
    Ok(())
}

/// Why a session was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    #[error("session `{0}` is running: stop it first")]
    Running(String),
    #[error("cannot remove {path}: {cause}")]
    Failed { path: String, cause: io::Error },
}

/// Deletes the session's folder and its entries in the project's indexes. Nothing else of the
/// project changes. Waits for the process of a session that has just ended.
pub fn remove(folder: &SessionDir) -> Result<(), RemovalError> {
    let failed = |cause| RemovalError::Failed {
        path: folder.path.display().to_string(),
        cause,
    };
    SessionsDir::around(folder).refuse_links().map_err(failed)?;
    if fs::symlink_metadata(&folder.path)
        .map_err(failed)?
        .is_symlink()
    {
        return Err(failed(io::Error::other("it is a symbolic link")));
    }
    // Keeps the lock, so that no process can resume the session meanwhile.
    let lock = fs::File::open(folder.journal()).map_err(failed)?;
    let is_free = || journal::running(folder).is_none() && lock.try_lock().is_ok();
    let has_ended =
        || journal::fold(&folder.journal()).is_ok_and(|state| state.phase.outcome().is_some());
    let deadline = Instant::now() + CLOSING;
    while !is_free() {
        if Instant::now() > deadline || !has_ended() {
            return Err(RemovalError::Running(folder.name.clone()));
        }
        std::thread::sleep(AGAIN);
    }
    fs::remove_dir_all(&folder.path).map_err(failed)?;
    folder.forget();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::journal::SessionsDir;

    #[test]
    fn a_session_that_ended_is_listed_alike_whether_all_of_it_is_read_or_its_end() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/journals");
        let project = tempfile::tempdir().expect("a folder");
        let sessions = SessionsDir::of(project.path());
        let mut quick = 0;
        for version in fs::read_dir(fixtures).expect("the fixtures").flatten() {
            for journal in fs::read_dir(version.path())
                .expect("a version")
                .flatten()
                .map(|entry| entry.path())
            {
                let Some(name) = journal
                    .file_name()
                    .and_then(|name| name.to_str()?.strip_suffix(".jsonl"))
                else {
                    continue;
                };
                let folder = sessions.folder(&name.replace('.', "-"));
                fs::create_dir_all(&folder.path).expect("a folder");
                fs::copy(&journal, folder.journal()).expect("a copy");
                if let Some(row) = ended(&folder) {
                    let whole = read(&folder);
                    let shown = |one: &ListedSession| {
                        (
                            one.state.clone(),
                            one.iteration,
                            one.max_iterations,
                            one.changed,
                            one.started,
                            one.can_resume,
                        )
                    };
                    assert_eq!(shown(&row), shown(&whole), "{}", journal.display());
                    quick += 1;
                }
            }
        }
        assert!(quick > 5, "{quick}");
    }
}

#[cfg(test)]
mod removal_tests {
    use super::*;

    #[test]
    fn a_removal_deletes_exactly_the_folder_that_it_names() {
        let dir = tempfile::tempdir().expect("a folder");
        let sessions = SessionsDir::of(dir.path());
        let write = |name: &str, file: &str| {
            let path = sessions.folder(name).path.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "12345\n").expect("a file");
        };
        for name in ["one", "other"] {
            write(name, "journal.jsonl");
            write(name, "outputs/run-1.log");
        }
        let one = sessions.folder("one");
        let preview = RemovalPreview::of(&one).expect("it is there");
        assert_eq!(
            (preview.files, preview.size().as_str()),
            (2, "2 files, 12 bytes")
        );
        remove(&one).expect("it does not run");
        assert!(
            !one.path.exists()
                && sessions
                    .folder("other")
                    .path
                    .join("outputs/run-1.log")
                    .exists()
        );
        assert!(remove(&one).is_err(), "it is gone already");
    }

    #[test]
    fn a_running_session_and_a_link_are_not_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let sessions = SessionsDir::of(dir.path());
        let one = sessions.folder("one");
        fs::create_dir_all(&one.path).expect("a folder");
        fs::write(one.journal(), "{}\n").expect("a file");
        let held = fs::File::open(one.journal()).expect("a file");
        held.lock().expect("a lock");
        assert!(matches!(remove(&one), Err(RemovalError::Running(_))));
        drop(held);
        std::os::unix::fs::symlink(&one.path, sessions.folder("link").path).expect("a link");
        assert!(matches!(
            remove(&sessions.folder("link")),
            Err(RemovalError::Failed { .. })
        ));
        assert!(one.journal().exists());
    }
}
