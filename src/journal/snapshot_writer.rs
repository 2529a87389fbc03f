//! Writes snapshots of a running session: in the background now and then, and when it ends.
//!
//! # Invariants
//! - The work per record does not grow with the session: a snapshot is written only after the
//!   journal has grown by several times the snapshot's size.
//! - A snapshot that cannot be written changes nothing for the session.
//! - Once another program has touched the journal, this process stamps no snapshot any more.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::fs::OFlags;

use super::{
    fold::{AnsweredPrompts, JournalPosition},
    open,
    snapshot::{self, SnapshotMark},
};
use crate::{
    engine::SessionState,
    journal::{open::JournalFileStamp, snapshot::SnapshotKey},
};

/// Reading this much of a journal takes one or two milliseconds.
const WORTHWHILE: u64 = 256 << 10;
/// At the end of a session. There is no later one.
const WORTHWHILE_AT_THE_END: u64 = 64 << 10;
/// How much more than a snapshot's size the journal must grow before the next one.
const TIMES_ITS_SIZE: u64 = 4;
const AT_MOST_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct SnapshotWriter {
    path: PathBuf,
    journal: File,
    stamps: Arc<Mutex<StampedSnapshot>>,
    /// How much of the journal the latest snapshot covers, and its size. Set when its writing
    /// begins.
    covered: u64,
    last_write: Option<Instant>,
    writing: Option<JoinHandle<()>>,
}

/// The snapshot that matches the journal, and the file that says so.
#[derive(Debug, Default)]
struct StampedSnapshot {
    stamp: Option<File>,
    snapshot: Option<SnapshotMark>,
    journal: Option<JournalFileStamp>,
    /// Another program touched the journal: what it contains now is not what this process wrote.
    is_spoiled: bool,
}

impl SnapshotWriter {
    /// `journal` is a handle of the journal's file, `restored` the snapshot that the session was
    /// read from.
    pub(super) fn new(path: PathBuf, journal: File, restored: Option<SnapshotMark>) -> Self {
        // Read now: an update can replace the program later.
        let _ = snapshot::build();
        let covered = restored.as_ref().map_or(0, |mark| mark.position.offset);
        let stamp = restored.as_ref().and_then(|_| open_stamp(&path).ok());
        if restored.is_none() {
            // Without a stamp they would not be used, but nothing of a session that is gone should
            // be left.
            let _ = std::fs::remove_file(snapshot::stamp_file(&path));
            let _ = std::fs::remove_file(snapshot::snapshot_file(&path));
        }
        let stamps = StampedSnapshot {
            stamp,
            snapshot: restored,
            journal: None,
            is_spoiled: false,
        };
        Self {
            path,
            journal,
            stamps: Arc::new(Mutex::new(stamps)),
            covered,
            last_write: None,
            writing: None,
        }
    }

    /// Notes that this process wrote to the journal. `journal` is the file's metadata since then.
    pub(super) fn wrote(&self, journal: Option<JournalFileStamp>) {
        let mut stamps = lock(&self.stamps);
        stamps.journal = journal;
        stamps.update();
    }

    /// Notes that another program touched the journal.
    pub(super) fn spoil(&self) {
        let mut stamps = lock(&self.stamps);
        stamps.is_spoiled = true;
        if let Some(stamp) = stamps.stamp.take() {
            let _ = stamp.set_len(0);
        }
    }

    /// Begins to write a snapshot in the background, if it is time for one. `state` is the state at
    /// `position`.
    pub(super) fn offer(
        &mut self,
        position: JournalPosition,
        state: &SessionState,
        prompts: &AnsweredPrompts,
    ) {
        if !self.is_due(position, WORTHWHILE)
            || self
                .last_write
                .is_some_and(|last| last.elapsed() < AT_MOST_EVERY)
        {
            return;
        }
        let Ok(journal) = self.journal.try_clone() else {
            return;
        };
        self.begin(position);
        let (path, stamps, state, prompts) = (
            self.path.clone(),
            self.stamps.clone(),
            state.clone(),
            prompts.clone(),
        );
        self.writing = std::thread::Builder::new()
            .name("snapshot".into())
            .spawn(move || write_or_log(&path, &journal, &stamps, position, &state, &prompts))
            .ok();
    }

    /// Writes the last snapshot of a session that has ended, if reading the journal without it
    /// would take longer.
    pub(super) fn finish(
        &mut self,
        position: JournalPosition,
        state: &SessionState,
        prompts: &AnsweredPrompts,
    ) {
        if let Some(writing) = self.writing.take() {
            let _ = writing.join();
        }
        if self.is_due(position, WORTHWHILE_AT_THE_END) {
            self.begin(position);
            write_or_log(
                &self.path,
                &self.journal,
                &self.stamps,
                position,
                state,
                prompts,
            );
        }
    }

    fn is_due(&self, position: JournalPosition, worthwhile: u64) -> bool {
        let grown = position.offset.saturating_sub(self.covered);
        if grown < worthwhile
            || self
                .writing
                .as_ref()
                .is_some_and(|writing| !writing.is_finished())
        {
            return false;
        }
        let stamps = lock(&self.stamps);
        let size = stamps.snapshot.as_ref().map_or(0, |mark| mark.size);
        !stamps.is_spoiled && grown >= TIMES_ITS_SIZE * size
    }

    fn begin(&mut self, position: JournalPosition) {
        (self.covered, self.last_write) = (position.offset, Some(Instant::now()));
    }
}

impl StampedSnapshot {
    /// Writes the stamp for the journal as it is now.
    fn update(&mut self) {
        let Self {
            stamp: Some(file),
            snapshot: Some(mark),
            journal: Some(journal),
            is_spoiled: false,
        } = self
        else {
            return;
        };
        let Some(key) = SnapshotKey::existing() else {
            return;
        };
        let _ = file.write_all_at(snapshot::stamp(key, &mark.seal, journal).as_bytes(), 0);
    }
}

fn lock(stamps: &Mutex<StampedSnapshot>) -> MutexGuard<'_, StampedSnapshot> {
    stamps.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_stamp(path: &std::path::Path) -> io::Result<File> {
    open::open(&snapshot::stamp_file(path), OFlags::RDWR | OFlags::CREATE)
}

fn write_or_log(
    path: &std::path::Path,
    journal: &File,
    stamps: &Mutex<StampedSnapshot>,
    position: JournalPosition,
    state: &SessionState,
    prompts: &AnsweredPrompts,
) {
    let Some(key) = SnapshotKey::existing_or_new() else {
        return;
    };
    let written = write(key, path, journal, stamps, (position, state, prompts));
    if let Err(error) = written {
        tracing::info!("no snapshot of {}: {error}", path.display());
    }
}

fn write(
    key: &SnapshotKey,
    path: &std::path::Path,
    journal: &File,
    stamps: &Mutex<StampedSnapshot>,
    (position, state, prompts): (JournalPosition, &SessionState, &AnsweredPrompts),
) -> io::Result<()> {
    let (text, mark) = snapshot::compose(key, journal, position, state, prompts)?;
    // After a power loss, the journal must still have everything that the snapshot covers.
    journal.sync_data()?;
    let mut stamps = lock(stamps);
    if stamps.is_spoiled {
        return Ok(());
    }
    if stamps.stamp.is_none() {
        stamps.stamp = Some(open_stamp(path)?);
    }
    open::replace(&snapshot::snapshot_file(path), &text)?;
    stamps.snapshot = Some(mark);
    stamps.update();
    Ok(())
}
