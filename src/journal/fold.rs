//! Reads a journal from its start, or from a snapshot of it, and rebuilds the session state.
//!
//! # Invariants
//! - The state is the same with and without a snapshot: see [`super::snapshot`].

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead as _, BufReader, Seek as _, SeekFrom},
    ops::ControlFlow,
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::{
    file::{JournalError, RecordOrderError},
    open,
    record::{Record, RecordError},
    snapshot::{self, RestoredSession},
    tail::RecordTail,
};
use crate::engine::{
    SessionState,
    event::{Event, SessionEvent, TurnEvent, UsageLimitEvent},
    policy::{AgentSpec, SessionPlan},
};

/// The prompts that each scripted agent has answered, so that it continues at the right step. Of
/// other agents, creel keeps no prompts: they would only grow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AnsweredPrompts {
    is_needed: bool,
    sent: Option<(Option<String>, String)>,
    pub(super) answered: Vec<String>,
    pub(super) reviews: BTreeMap<String, Vec<String>>,
    pub(super) fallbacks: BTreeMap<String, Vec<String>>,
    /// The names of the session's own agent and of the agent that works now.
    own: String,
    working: String,
}

impl AnsweredPrompts {
    pub(super) fn see(&mut self, event: &Event) {
        if let Event::Session(SessionEvent::Started(began)) = event {
            self.is_needed = has_scripted_agent(&began.plan);
            self.own.clone_from(&began.plan.agent);
            self.working.clone_from(&began.plan.agent);
        } else if !self.is_needed {
        } else if let Event::UsageLimit(UsageLimitEvent::AgentSwitched { to, .. }) = event {
            self.working.clone_from(to);
        } else if let Event::Turn(TurnEvent::PromptSent(prompt)) = event {
            self.sent = Some((prompt.agent.clone(), prompt.text.clone()));
        } else if matches!(
            event,
            Event::Turn(TurnEvent::Ended { .. } | TurnEvent::Failed { .. })
        ) {
            match self.sent.take() {
                Some((None, text)) if self.working == self.own => self.answered.push(text),
                Some((None, text)) => self
                    .fallbacks
                    .entry(self.working.clone())
                    .or_default()
                    .push(text),
                Some((Some(agent), text)) => self.reviews.entry(agent).or_default().push(text),
                None => {}
            }
        }
    }
}

fn has_scripted_agent(plan: &SessionPlan) -> bool {
    let reviewers = plan.gatekeepers.values().map(|gatekeeper| &gatekeeper.spec);
    let fallbacks = plan.limits.fallback.iter().map(|fallback| &fallback.spec);
    let mut all = reviewers.chain(fallbacks).chain([&plan.agent_spec]);
    all.any(|spec| matches!(spec, AgentSpec::Scripted { .. }))
}

/// Reads a journal record by record and returns the first line that is out of place. Ignores an
/// incomplete last line.
pub fn read(
    path: &Path,
    mut each: impl FnMut(Record),
) -> Result<Option<RecordOrderError>, JournalError> {
    read_while(path, |record| {
        each(record);
        ControlFlow::Continue(())
    })
}

/// The same, until `each` ends it.
pub fn read_while(
    path: &Path,
    each: impl FnMut(Record) -> ControlFlow<()>,
) -> Result<Option<RecordOrderError>, JournalError> {
    let file = open::to_read(path).map_err(unreadable(path))?;
    read_from(path, file, JournalPosition::default(), each)
}

/// The end of a session, if that is one of its last records.
pub fn last_end(path: &Path) -> Option<Record> {
    /// Few and short records follow the end of a session.
    const NEAR: u64 = 64 << 10;
    let mut end = None;
    let read = read_last(path, NEAR, |record| {
        if matches!(record.event, Event::Session(SessionEvent::Ended { .. })) {
            end = Some(record);
        }
    });
    read.ok().and(end)
}

/// Reads the records in the last bytes of a journal, oldest first.
pub fn read_last(path: &Path, bytes: u64, mut each: impl FnMut(Record)) -> io::Result<()> {
    let file = open::to_read(path)?;
    let start = file.metadata()?.len().saturating_sub(bytes);
    let mut tail = RecordTail::new(file, start);
    if start > 0 {
        // The rest of a line.
        tail.next_line()?;
    }
    while let Ok(Some(record)) = tail.next_record() {
        each(record);
    }
    Ok(())
}

/// Where to begin reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct JournalPosition {
    pub(super) offset: u64,
    /// The number of the last record before it. Also the number of lines.
    pub(super) seq: u64,
}

fn read_from(
    path: &Path,
    mut file: File,
    from: JournalPosition,
    mut each: impl FnMut(Record) -> ControlFlow<()>,
) -> Result<Option<RecordOrderError>, JournalError> {
    let io = unreadable(path);
    file.seek(SeekFrom::Start(from.offset)).map_err(&io)?;
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let mut line = Vec::new();
    let mut disorder = None;
    let mut expected = from.seq + 1;
    for number in expected.. {
        line.clear();
        let read = reader.read_until(b'\n', &mut line).map_err(&io)?;
        if read == 0 || line.last() != Some(&b'\n') {
            break;
        }
        let damaged = |cause| JournalError::Record {
            path: path.to_owned(),
            line: number,
            cause,
        };
        let text = str::from_utf8(&line).map_err(|_| damaged(not_text()))?;
        let record = Record::from_line(text).map_err(damaged)?;
        if record.seq != expected && disorder.is_none() {
            disorder = Some(RecordOrderError {
                path: path.to_owned(),
                line: number,
                expected,
                found: record.seq,
            });
        }
        expected = record.seq.saturating_add(1);
        if each(record).is_break() {
            break;
        }
    }
    Ok(disorder)
}

pub(super) fn unreadable(path: &Path) -> impl Fn(io::Error) -> JournalError {
    let path = path.to_owned();
    move |cause| JournalError::Io {
        doing: "read",
        path: path.clone(),
        cause,
    }
}

fn not_text() -> RecordError {
    RecordError::Malformed(serde::de::Error::custom("it is not UTF-8"))
}

/// Rebuilds the session state from a journal. Ignores the order of the lines.
pub fn fold(path: &Path) -> Result<SessionState, JournalError> {
    fold_checked(path).map(|(state, _)| state)
}

/// Rebuilds the session state, and returns the first line that is out of place.
pub fn fold_checked(path: &Path) -> Result<(SessionState, Option<RecordOrderError>), JournalError> {
    fold_whole(path).map(|folded| (folded.state, folded.disorder))
}

/// Rebuilds the session state if a snapshot makes this quick.
pub fn quick_fold(path: &Path) -> Option<SessionState> {
    let file = open::to_read(path).ok()?;
    let restored = snapshot::restore(path, &file)?;
    fold_from(path, file, Some(restored))
        .ok()
        .map(|folded| folded.state)
}

/// What a journal contains.
pub(super) struct FoldedJournal {
    pub(super) state: SessionState,
    pub(super) seq: u64,
    pub(super) prompts: AnsweredPrompts,
    pub(super) disorder: Option<RecordOrderError>,
    /// The snapshot that reading began with.
    pub(super) snapshot: Option<snapshot::SnapshotMark>,
}

pub(super) fn fold_whole(path: &Path) -> Result<FoldedJournal, JournalError> {
    let file = open::to_read(path).map_err(unreadable(path))?;
    let restored = snapshot::restore(path, &file);
    fold_from(path, file, restored)
}

fn fold_from(
    path: &Path,
    file: File,
    restored: Option<RestoredSession>,
) -> Result<FoldedJournal, JournalError> {
    let (from, mark, mut state, mut prompts) = match restored {
        Some(RestoredSession {
            state,
            prompts,
            mark,
        }) => (mark.position, Some(mark), Some(*state), prompts),
        None => (
            JournalPosition::default(),
            None,
            None,
            AnsweredPrompts::default(),
        ),
    };
    let mut seq = from.seq;
    let disorder = read_from(path, file, from, |record| {
        seq = record.seq;
        prompts.see(&record.event);
        match (&mut state, record.event) {
            (Some(state), event) => state.apply(record.at, &event),
            (None, Event::Session(SessionEvent::Started(began))) => {
                state = Some(SessionState::new(&record.session, *began, record.at));
            }
            (None, _) => {}
        }
        ControlFlow::Continue(())
    })?;
    let state = state.ok_or_else(|| JournalError::NotASession(path.to_owned()))?;
    Ok(FoldedJournal {
        state,
        seq,
        prompts,
        disorder,
        snapshot: mark,
    })
}
