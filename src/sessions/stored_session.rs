//! Reads a session that does not run, for a list.
//!
//! # Invariants
//! - A long journal is never read whole: its snapshot, or its first and its last records, must do. The records tell no
//!   costs then.

use std::{fs, ops::ControlFlow, time::SystemTime};

use crate::{
    engine::{
        SessionState,
        event::{Event, GateEvent, SessionEvent, SessionOutcome, SessionStarted},
        gate::kind::GateKind,
        time::UnixTime,
    },
    journal::{self, JournalError, JournalFollower, Record, SessionDir},
    present::{
        session_chip::SessionTimes,
        session_list::{self, ListedSession, ListedState},
        text::{plain, plain_line},
    },
    worktrees::repository::session_branch,
};

/// Journals up to this many bytes are read whole.
const SHORT: u64 = 1 << 20;
/// The longest reason, in characters.
const REASON: usize = 300;

/// A session of which only the folder has been looked at.
pub fn unread(folder: &SessionDir, changed: SystemTime) -> ListedSession {
    ListedSession::unread(&folder.name, &folder.project().to_string_lossy(), unix_time(changed))
}

/// The time of a file.
pub fn unix_time(at: SystemTime) -> UnixTime {
    let since_epoch = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
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
        Ok(session) => on_branch(base.with_state(session.state(), &times, true), session.state()),
        Err(error) => unreadable(base, &error),
    }
}

/// The session in this folder, which no process runs.
pub fn read(folder: &SessionDir) -> ListedSession {
    let path = folder.journal();
    let meta = fs::metadata(&path);
    let changed = meta.as_ref().ok().and_then(|meta| meta.modified().ok()).unwrap_or(SystemTime::UNIX_EPOCH);
    let base = unread(folder, changed);
    if meta.is_ok_and(|meta| meta.len() <= SHORT) {
        return whole(folder, base);
    }
    match journal::quick_fold(&path) {
        Some(state) => on_branch(base.with_state(&state, &SessionTimes::default(), false), &state),
        None => from_ends(folder, base),
    }
}

/// The session with the branch of its worktree, as it is now.
pub(super) fn on_branch(listed: ListedSession, state: &SessionState) -> ListedSession {
    ListedSession { branch: shown_branch(&state.began), ..listed }
}

fn shown_branch(began: &SessionStarted) -> String {
    session_branch(began).as_deref().map(plain).unwrap_or_default()
}

fn whole(folder: &SessionDir, base: ListedSession) -> ListedSession {
    let mut times = SessionTimes::default();
    match JournalFollower::open(&folder.journal(), |at, event| times.follow(at, event)) {
        Ok(session) => on_branch(base.with_state(session.state(), &times, false), session.state()),
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
    let Some(Record { at, event: Event::Session(SessionEvent::Started(began)), .. }) = first else {
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
    let mut listed = ListedSession { branch: shown_branch(&began), ..base };
    let read = journal::read_last(&folder.journal(), SHORT, |record| follow(&mut listed, record));
    match read {
        // The session is longer than one record: it has begun.
        Ok(()) => ListedSession { iteration: listed.iteration.max(1), ..listed },
        Err(cause) => unreadable(listed, &JournalError::Io { doing: "read", path: folder.journal(), cause }),
    }
}

/// Takes in one of the last records.
fn follow(listed: &mut ListedSession, Record { at, event, .. }: Record) {
    listed.changed = at;
    // Most records name their iteration.
    let named = serde_json::to_value(&event).ok().and_then(|event| event["iteration"].as_u64());
    listed.iteration = named.and_then(|named| u32::try_from(named).ok()).unwrap_or(listed.iteration);
    if let Event::Session(SessionEvent::Ended { outcome, iterations, reason, .. }) = event {
        listed.iteration = iterations;
        listed.can_resume = !matches!(
            outcome,
            SessionOutcome::Complete | SessionOutcome::Forced | SessionOutcome::Unverified | SessionOutcome::Limit
        );
        listed.state = ListedState::Ended { outcome, reason: plain_line(&reason, REASON) };
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
    ListedSession { state: ListedState::Unreadable(plain_line(&error.to_string(), REASON)), ..base }
}
