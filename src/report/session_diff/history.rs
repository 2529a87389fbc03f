//! What the turns of a session changed, as its records say. Grows with the journal.
//!
//! # Invariants
//! - Every record is read once. The text of edits stays on disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::{
    engine::{
        conversation::{ToolCall, WorktreeChanges},
        event::{Event, SessionEvent, TurnEvent},
        ids::TurnId,
        session::event::SessionWorktree,
    },
    journal::{JournalError, Record, RecordSpan, RecordTail},
    present::text::plain,
};

/// The longest text of one edit, in bytes.
const EDIT: usize = 64 << 10;

/// A journal, and what its turns changed so far.
#[derive(Debug)]
pub struct WorkHistory {
    feed: RecordTail,
    pub(super) session: DiffedSession,
    pub(super) turns: Vec<WorkTurn>,
    /// The last iteration that has started.
    pub(super) iterations: u32,
    /// Set within the loop.
    iteration: Option<u32>,
    pub(super) has_ended: bool,
}

#[derive(Debug)]
pub(super) struct DiffedSession {
    pub(super) name: String,
    /// The folder that it works in.
    pub(super) cwd: String,
    pub(super) worktree: Option<SessionWorktree>,
}

/// What a turn changed.
#[derive(Debug)]
pub(super) struct WorkTurn {
    pub(super) turn: TurnId,
    /// None before the first iteration and after the last one.
    pub(super) iteration: Option<u32>,
    /// Whether its end is not on record.
    pub(super) is_open: bool,
    /// Whether creel saw what it changed. It did not if the turn has not ended or was interrupted, or
    /// if the folder could not be surveyed.
    pub(super) is_seen: bool,
    pub(super) commit_before: Option<String>,
    pub(super) commit_after: Option<String>,
    pub(super) left: LeftFiles,
    pub(super) more_files: usize,
    /// The edits that the agent reported: each call, and where its last record is.
    edits: Vec<(String, RecordSpan)>,
}

/// The files that a turn changed, with their exact names, as it left them.
#[derive(Debug, Default)]
pub(super) struct LeftFiles {
    pub(super) names: BTreeSet<String>,
    /// Files with uncommitted changes. None if the records do not name all of them.
    pub(super) dirty: Option<BTreeSet<String>>,
    /// The beginnings of the SHA-256 digests of the contents. None if the file was removed.
    pub(super) digests: BTreeMap<String, Option<String>>,
}

impl WorkHistory {
    /// The history of a journal, up to its last record.
    pub fn read(journal: &Path) -> Result<Self, JournalError> {
        let unreadable = |cause| JournalError::Io {
            doing: "read",
            path: journal.to_owned(),
            cause,
        };
        let mut feed = RecordTail::open(journal).map_err(unreadable)?;
        let first = feed.next_record().map_err(unreadable)?;
        let session = first.and_then(|first| DiffedSession::of(&first));
        let session = session.ok_or_else(|| JournalError::NotASession(journal.to_owned()))?;
        let mut history = Self {
            feed,
            session,
            turns: Vec::new(),
            iterations: 0,
            iteration: None,
            has_ended: false,
        };
        history.catch_up().map_err(unreadable)?;
        Ok(history)
    }

    /// Reads the records that were written since.
    pub fn catch_up(&mut self) -> std::io::Result<()> {
        while let Some((span, record)) = self.feed.next_placed()? {
            if let Event::Session(event) = &record.event {
                self.session(event);
            } else if let Event::Turn(event) = &record.event {
                self.turn(span, event);
            }
        }
        Ok(())
    }

    fn session(&mut self, event: &SessionEvent) {
        if let SessionEvent::IterationStarted { iteration } = event {
            self.iteration = Some(*iteration);
            self.iterations = self.iterations.max(*iteration);
        } else if let SessionEvent::LoopEnded { .. } = event {
            self.iteration = None;
        } else if let SessionEvent::Ended { .. } = event {
            self.has_ended = true;
        } else if let SessionEvent::Resumed { .. } = event {
            self.has_ended = false;
        }
    }

    fn turn(&mut self, span: RecordSpan, event: &TurnEvent) {
        if let TurnEvent::PromptSent(prompt) = event {
            self.begin(prompt.turn);
        } else if let TurnEvent::ToolCalled { turn, tool, .. }
        | TurnEvent::ToolUpdated { turn, tool, .. } = event
        {
            self.edited(*turn, tool, span);
        } else if let TurnEvent::Ended { turn, work, .. } | TurnEvent::Failed { turn, work, .. } =
            event
        {
            self.ended(*turn, work.as_deref());
        }
    }

    fn begin(&mut self, turn: TurnId) {
        self.turns.push(WorkTurn {
            turn,
            iteration: self.iteration,
            is_open: true,
            is_seen: false,
            commit_before: None,
            commit_after: None,
            left: LeftFiles::default(),
            more_files: 0,
            edits: Vec::new(),
        });
    }

    fn known(&mut self, turn: TurnId) -> Option<&mut WorkTurn> {
        self.turns.iter_mut().rev().find(|known| known.turn == turn)
    }

    fn edited(&mut self, turn: TurnId, tool: &ToolCall, span: RecordSpan) {
        let Some(own) = self.known(turn).filter(|_| tool.diff.is_some()) else {
            return;
        };
        match own.edits.iter_mut().find(|(call, _)| *call == tool.call) {
            Some((_, last)) => *last = span,
            None => own.edits.push((tool.call.clone(), span)),
        }
    }

    fn ended(&mut self, turn: TurnId, work: Option<&WorktreeChanges>) {
        if self.known(turn).is_none() {
            self.begin(turn);
        }
        let Some(own) = self.known(turn) else {
            return;
        };
        own.is_open = false;
        let Some(work) = work else {
            return;
        };
        own.is_seen = true;
        own.commit_before = work.before.clone().or_else(|| work.commit.clone());
        own.commit_after.clone_from(&work.commit);
        own.more_files = work.more_modified;
        own.left = LeftFiles::of(work);
    }

    /// The edits that the agent reported in a turn, oldest first.
    pub(super) fn edits_of(&self, turn: &WorkTurn) -> Vec<String> {
        let read = |(_, span): &(String, RecordSpan)| {
            let record = self.feed.again(*span).ok()?;
            let Event::Turn(
                TurnEvent::ToolCalled { tool, .. } | TurnEvent::ToolUpdated { tool, .. },
            ) = record.event
            else {
                return None;
            };
            let diff = plain(&tool.diff?);
            let short = diff.floor_char_boundary(EDIT.min(diff.len()));
            Some(diff[..short].to_owned())
        };
        turn.edits.iter().filter_map(read).collect()
    }

    /// The turn that is not over.
    pub(super) fn open_turn(&self) -> Option<TurnId> {
        let last = self.turns.last().filter(|last| last.is_open)?;
        (!self.has_ended).then_some(last.turn)
    }
}

impl DiffedSession {
    fn of(first: &Record) -> Option<Self> {
        let Event::Session(SessionEvent::Started(began)) = &first.event else {
            return None;
        };
        Some(Self {
            name: first.session.clone(),
            cwd: began.cwd.clone(),
            worktree: began.worktree.clone(),
        })
    }
}

impl LeftFiles {
    fn of(work: &WorktreeChanges) -> Self {
        let digest = |(name, content): (&String, &crate::engine::conversation::FileContent)| {
            (name.clone(), content.digest.clone())
        };
        Self {
            names: work.files_modified.iter().cloned().collect(),
            dirty: (work.more_dirty == 0).then(|| work.dirty.iter().cloned().collect()),
            digests: work.contents.iter().map(digest).collect(),
        }
    }
}
