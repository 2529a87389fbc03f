//! The journal file: one process appends to it, any process can read it.
//!
//! # Invariants
//! - One writer: the process that has the file's lock.
//! - A record survives `kill -9` of this process once [`Journal::append`] has returned. Records
//!   that a person or the agent relies on also survive power loss.
//! - A failed append leaves no partial record.
//! - Opening a journal changes nothing on disk. Only [`LockedJournal::take_up`] does, so an
//!   untrusted journal can be opened safely.
//! - Records are numbered from 1 without gaps. creel never resumes a session whose journal breaks
//!   this rule. It can be read, with a warning that names the first line that is out of place.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use rustix::fs::OFlags;

use super::{
    chain::{self, ChainHash, JournalSeal},
    fold::{AnsweredPrompts, FoldedJournal, JournalPosition, fold_whole},
    open,
    record::{Record, RecordError, VERSION},
    snapshot::{SnapshotMark, SnapshotWriter},
    tail::RecordTail,
};
use crate::{
    engine::{
        SessionState,
        event::{Event, GateEvent, PendingEvent, SessionEvent},
        time::UnixTime,
    },
    journal::{
        open::{FileTimePrecision, JournalDamage, JournalFileStamp},
        session_dir::{PRIVATE_FILE, SessionDir, has_records},
    },
};

/// How long a record can be in the kernel's memory only. This matters for power loss; a kill loses
/// nothing.
const SYNC_EVERY: Duration = Duration::from_millis(200);

/// How long to wait for a session's lock before the session counts as running. Another process can
/// lock it for a moment, and a killed process keeps the lock until its last thread has ended.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// Used instead when the process that ran the session is dead: its lock will be released soon.
const DYING_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_AGAIN: Duration = Duration::from_millis(2);

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process runs the session.
    #[error("another creel runs session `{name}`{}", holder(*.pid))]
    Held {
        name: String,
        /// The process that has the lock, if known.
        pid: Option<u32>,
    },
    #[error("session `{0}` already exists")]
    Exists(String),
    #[error("session `{0}` does not exist here")]
    Missing(String),
    #[error("cannot read {path}:{line}: {cause}", path = .path.display())]
    Record {
        path: PathBuf,
        /// From 1.
        line: u64,
        cause: RecordError,
    },
    #[error(transparent)]
    Disorder(RecordOrderError),
    #[error("{} does not begin with `session_started`", .0.display())]
    NotASession(PathBuf),
    #[error("cannot {doing} {path}: {cause}", path = .path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        cause: io::Error,
    },
}

/// The first journal line whose number does not follow the one before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path}:{line} is record {found}, but record {expected} comes next: lines are missing, repeated or out of order",
    path = .path.display()
)]
pub struct RecordOrderError {
    pub path: PathBuf,
    /// From 1.
    pub line: u64,
    pub expected: u64,
    pub found: u64,
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

/// The journal of a session that this process runs.
#[derive(Debug)]
pub struct Journal {
    file: File,
    folder: SessionDir,
    seq: u64,
    length: u64,
    /// Whether [`Self::sync_beginning`] has something to do.
    beginning: JournalBeginning,
    sync: mpsc::Sender<()>,
    /// The file's stamp after the last append.
    mark: Option<JournalFileStamp>,
    times: FileTimePrecision,
    /// What another program did to the file, until [`Self::take_damage`] reports it.
    damage: Option<JournalDamage>,
    prompts: AnsweredPrompts,
    snapshots: SnapshotWriter,
    /// The hash of the last line. None if that line has no link.
    chain: Option<ChainHash>,
    /// Whether this process has written nothing yet.
    is_untouched: bool,
}

/// What a power loss could still take away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JournalBeginning {
    /// The file, with its name.
    OfNewFile,
    /// What an earlier process wrote, if it was killed.
    OfOldFile,
    Nothing,
}

/// A locked journal that has not been changed yet.
#[derive(Debug)]
pub struct LockedJournal {
    file: File,
    folder: SessionDir,
    seq: u64,
    /// Bytes of all whole lines.
    length: u64,
    /// Bytes of an incomplete last line after them.
    torn: u64,
    /// The file's stamp before it was read.
    mark: Option<JournalFileStamp>,
    prompts: AnsweredPrompts,
    snapshot: Option<SnapshotMark>,
}

#[derive(Debug)]
pub struct OpenedJournal {
    pub journal: LockedJournal,
    pub state: SessionState,
    /// The prompts of the session's own agent whose turns ended, oldest first. Empty unless an
    /// agent is scripted.
    pub past_prompts: Vec<String>,
    /// The same for reviewing agents, by name.
    pub past_reviews: BTreeMap<String, Vec<String>>,
    /// The same for fallback agents, by name.
    pub past_fallbacks: BTreeMap<String, Vec<String>>,
}

impl Journal {
    pub fn create(folder: &SessionDir) -> Result<Self, JournalError> {
        let io = |doing, path: &Path| {
            let path = path.to_owned();
            move |cause| JournalError::Io { doing, path, cause }
        };
        folder.create().map_err(io("create", &folder.path))?;
        let path = folder.journal();
        let opened = open::open(&path, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE);
        let file = opened.map_err(io("create", &path))?;
        lock(&file, folder)?;
        if has_records(&file) {
            return Err(JournalError::Exists(folder.name.clone()));
        }
        file.set_len(0).map_err(io("create", &path))?;
        let position = JournalPosition::default();
        let mut journal = Self::new(file, folder, position, AnsweredPrompts::default(), None)?;
        journal.beginning = JournalBeginning::OfNewFile;
        Ok(journal)
    }

    /// Makes the journal survive a power loss. Call it before the session's first process. It is
    /// separate from [`Self::create`] because it can take milliseconds, in which a screen can open.
    /// If it fails, a new journal has no records.
    pub fn sync_beginning(&mut self) -> Result<(), JournalError> {
        let beginning = std::mem::replace(&mut self.beginning, JournalBeginning::Nothing);
        if beginning == JournalBeginning::Nothing {
            return Ok(());
        }
        // Sync the folders too, or the file's name could be lost.
        let folders = [Some(self.folder.path.as_path()), self.folder.path.parent()];
        let sync = |folder: &Path| File::open(folder).and_then(|folder| folder.sync_all());
        let synced = folders
            .into_iter()
            .flatten()
            .try_for_each(sync)
            .and_then(|()| self.file.sync_data());
        synced.map_err(|cause| {
            if beginning == JournalBeginning::OfNewFile {
                let _ = self.file.set_len(0);
            }
            JournalError::Io {
                doing: "sync",
                path: self.folder.path.clone(),
                cause,
            }
        })
    }

    /// Opens the journal of a session that stopped or was killed. Changes nothing on disk.
    pub fn open(folder: &SessionDir) -> Result<OpenedJournal, JournalError> {
        let path = folder.journal();
        let io = |doing| {
            let path = path.clone();
            move |cause| JournalError::Io { doing, path, cause }
        };
        if !folder.exists() {
            return Err(JournalError::Missing(folder.name.clone()));
        }
        let mut file = open::open(&path, OFlags::RDWR | OFlags::APPEND).map_err(io("open"))?;
        lock(&file, folder)?;
        let mark = JournalFileStamp::of(&file);
        let (length, torn) = whole_lines(&mut file).map_err(io("read"))?;
        let FoldedJournal {
            state,
            seq,
            prompts,
            disorder,
            snapshot,
        } = fold_whole(&path)?;
        if let Some(disorder) = disorder {
            return Err(JournalError::Disorder(disorder));
        }
        let past_prompts = prompts.answered.clone();
        let (past_reviews, past_fallbacks) = (prompts.reviews.clone(), prompts.fallbacks.clone());
        let journal = LockedJournal {
            file,
            folder: folder.clone(),
            seq,
            length,
            torn,
            mark,
            prompts,
            snapshot,
        };
        Ok(OpenedJournal {
            journal,
            state,
            past_prompts,
            past_reviews,
            past_fallbacks,
        })
    }

    fn new(
        file: File,
        folder: &SessionDir,
        JournalPosition {
            offset: length,
            seq,
        }: JournalPosition,
        prompts: AnsweredPrompts,
        snapshot: Option<SnapshotMark>,
    ) -> Result<Self, JournalError> {
        let io = |cause| JournalError::Io {
            doing: "write",
            path: folder.pid_file(),
            cause,
        };
        folder.mark_running().map_err(io)?;
        let sync = sync_in_background(file.try_clone().map_err(io)?);
        let chain = chain::last(&file, length);
        JournalSeal::open(seq, chain).write(folder);
        let (mark, times) = (JournalFileStamp::of(&file), FileTimePrecision::of(&file));
        let snapshots =
            SnapshotWriter::new(folder.journal(), file.try_clone().map_err(io)?, snapshot);
        snapshots.wrote(mark);
        let folder = folder.clone();
        let beginning = JournalBeginning::OfOldFile;
        Ok(Self {
            file,
            folder,
            seq,
            length,
            beginning,
            sync,
            mark,
            times,
            damage: None,
            prompts,
            snapshots,
            chain,
            is_untouched: true,
        })
    }

    pub fn folder(&self) -> &SessionDir {
        &self.folder
    }

    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// In bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Reads the records from this byte offset on, including future ones. Opens its own handle,
    /// because the writing handle has the lock and the lock must end with the session.
    pub fn tail(&self, offset: u64) -> io::Result<RecordTail> {
        Ok(RecordTail::new(
            open::to_read(&self.folder.journal())?,
            offset,
        ))
    }

    /// Appends events as records. They are written when this returns.
    pub fn append(
        &mut self,
        at: UnixTime,
        events: Vec<Event>,
    ) -> Result<Vec<Arc<Record>>, JournalError> {
        let matters = events.iter().any(must_survive_power_loss);
        let mut lines = String::new();
        let mut records = Vec::with_capacity(events.len());
        let mut head = self.chain.unwrap_or(ChainHash::START);
        for event in events {
            let seq = self.seq + records.len() as u64 + 1;
            let mut record = Record {
                v: VERSION,
                seq,
                at,
                session: self.folder.name.clone(),
                event,
                chain: None,
            };
            head = chain::append(&mut lines, &record.to_line(), head);
            record.chain = Some(head);
            self.prompts.see(&record.event);
            records.push(Arc::new(record));
        }
        self.look_for_damage();
        self.write(&lines, matters).map_err(|cause| {
            // Cut off a half-written line, so that the next reader finds whole lines only.
            let _ = self.file.set_len(self.length);
            let cause = if cause.kind() == io::ErrorKind::FileTooLarge {
                io::Error::other("the size limit for files (`ulimit -f`) is reached")
            } else {
                cause
            };
            JournalError::Io {
                doing: "write",
                path: self.folder.journal(),
                cause,
            }
        })?;
        self.seq += records.len() as u64;
        if !records.is_empty() {
            self.chain = Some(head);
        }
        self.length += lines.len() as u64;
        Ok(records)
    }

    /// Writes a snapshot in the background if the journal has grown enough. `state` is the state
    /// after all records.
    pub fn offer_snapshot(&mut self, state: &SessionState) {
        let position = JournalPosition {
            offset: self.length,
            seq: self.seq,
        };
        self.snapshots.offer(position, state, &self.prompts);
    }

    /// Notes that this process no longer runs the session. Writes its last snapshot, so that it can
    /// be read quickly.
    pub fn finish(&mut self, state: &SessionState) {
        if state.refuse_resume(Some(u32::MAX)).is_some() {
            self.folder.mark_finished();
        } else if state.refuse_resume(None).is_some() {
            self.folder.mark_limited();
        }
        self.seal();
        self.look_for_damage();
        let position = JournalPosition {
            offset: self.length,
            seq: self.seq,
        };
        self.snapshots.finish(position, state, &self.prompts);
    }

    /// Notes which line is the last, so that a cut is found.
    pub(super) fn seal(&self) {
        JournalSeal::closed(self.seq, self.chain).write(&self.folder);
    }

    fn write(&mut self, lines: &str, matters: bool) -> io::Result<()> {
        self.is_untouched = false;
        self.file.write_all(lines.as_bytes())?;
        // Before the sync, which can take long.
        self.mark_written(lines.len() as u64);
        if matters {
            return self.file.sync_data();
        }
        let _ = self.sync.send(());
        Ok(())
    }

    /// Notes the file's stamp after an append. Another length means that another program wrote at
    /// the same time.
    fn mark_written(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.mark, JournalFileStamp::of(&self.file));
        if self
            .mark
            .is_none_or(|now| now.length != self.length + bytes)
        {
            self.snapshots.spoil();
        }
        if let (Some(before), Some(now)) = (before, self.mark) {
            self.damage =
                JournalDamage::of_lengths(before.length + bytes, now.length).or(self.damage);
        }
        self.snapshots.wrote(self.mark);
    }

    /// What another program did to the file since the last call.
    pub fn take_damage(&mut self) -> Option<JournalDamage> {
        self.look_for_damage();
        let id = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        let ours = self.file.metadata().ok().map(id);
        let there = std::fs::metadata(self.folder.journal()).ok().map(id);
        let replaced = there.is_some() && there != ours && !self.is_deleted();
        let damage = self.damage.take();
        if replaced {
            Some(JournalDamage::Replaced)
        } else {
            damage
        }
    }

    /// Runs before each append, because the append would hide what another program wrote.
    fn look_for_damage(&mut self) {
        let now = JournalFileStamp::of(&self.file);
        if now != self.mark {
            // Even if it is no damage: the file may differ from what this process wrote.
            self.snapshots.spoil();
        }
        if let (Some(before), Some(now)) = (&self.mark, &now) {
            self.damage = now.damage_since(before, self.times).or(self.damage);
        }
        self.mark = now;
    }

    /// Whether the file was deleted. This handle can still read and write it.
    pub fn is_deleted(&self) -> bool {
        self.file.metadata().is_ok_and(|meta| meta.nlink() == 0)
    }

    pub fn rescue(&mut self, to: &Path) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        let mut copy = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(PRIVATE_FILE)
            .open(to)?;
        io::copy(&mut self.file, &mut copy)?;
        copy.sync_all()
    }
}

impl LockedJournal {
    pub fn folder(&self) -> &SessionDir {
        &self.folder
    }

    /// Bytes of the incomplete last line that [`Self::take_up`] will cut off.
    pub fn torn(&self) -> u64 {
        self.torn
    }

    /// Repairs the file and makes it the journal of a session that this process runs.
    pub fn take_up(self) -> Result<Journal, JournalError> {
        let Self {
            file,
            folder,
            seq,
            length,
            torn,
            mark,
            prompts,
            snapshot,
        } = self;
        // The outputs folder can be missing, or be a link.
        folder.create().map_err(|cause| JournalError::Io {
            doing: "use",
            path: folder.path.clone(),
            cause,
        })?;
        let unchanged = mark.is_some() && JournalFileStamp::of(&file) == mark;
        if torn > 0 {
            let io = |cause| JournalError::Io {
                doing: "repair",
                path: folder.journal(),
                cause,
            };
            file.set_len(length).map_err(io)?;
        }
        let position = JournalPosition {
            offset: length,
            seq,
        };
        let journal = Journal::new(
            file,
            &folder,
            position,
            prompts,
            snapshot.filter(|_| unchanged),
        )?;
        if !unchanged {
            journal.snapshots.spoil();
        }
        Ok(journal)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let _ = self.file.sync_data();
        // A refused `resume` leaves the journal as it was.
        if self.is_untouched {
            self.seal();
        }
        self.folder.mark_stopped();
    }
}

/// Events that others act on, or that creel could not find out again. [`Journal::sync_beginning`]
/// syncs the first ones.
fn must_survive_power_loss(event: &Event) -> bool {
    matches!(
        event,
        Event::Session(SessionEvent::Ended { .. })
            | Event::Gate(GateEvent::Answered { .. } | GateEvent::ProposalEdited { .. })
            | Event::Pending(PendingEvent::Delivered { .. })
    )
}

fn sync_in_background(file: File) -> mpsc::Sender<()> {
    let (ask, asked) = mpsc::channel();
    std::thread::spawn(move || {
        while asked.recv().is_ok() {
            std::thread::sleep(SYNC_EVERY);
            while asked.try_recv().is_ok() {}
            let _ = file.sync_data();
        }
    });
    ask
}

/// Locks the file, and waits a moment if another process has the lock.
fn lock(file: &File, folder: &SessionDir) -> Result<(), JournalError> {
    let since = Instant::now();
    let is_worth_waiting = || {
        let waited = since.elapsed();
        waited < LOCK_PATIENCE || waited < DYING_PATIENCE && folder.read_pid().is_some_and(is_dying)
    };
    let locked = loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if is_worth_waiting() => std::thread::sleep(LOCK_AGAIN),
            locked => break locked,
        }
    };
    match locked {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let pid = folder.read_pid().filter(|pid| !is_dying(*pid));
            Err(JournalError::Held {
                name: folder.name.clone(),
                pid,
            })
        }
        Err(TryLockError::Error(cause)) => Err(JournalError::Io {
            doing: "lock",
            path: folder.journal(),
            cause,
        }),
    }
}

/// The process that runs a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockHolder {
    /// None until that process has written its pid.
    pub pid: Option<u32>,
}

/// Returns the process that runs a session, if one does.
pub fn running(folder: &SessionDir) -> Option<LockHolder> {
    let file = open::to_read(&folder.journal()).ok()?;
    let held = || matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    let deadline = Instant::now() + DYING;
    while held() {
        let pid = folder.read_pid();
        let dying = pid.is_some_and(is_dying);
        if !dying || Instant::now() > deadline {
            // Another process can have the lock without having written its pid yet.
            return Some(LockHolder {
                pid: pid.filter(|_| !dying),
            });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// How long a killed process keeps its lock at most, until its last thread has ended.
const DYING: Duration = Duration::from_secs(2);

/// Whether a process is dead or on its way there. Until its last thread has ended, it can keep
/// its lock after it has closed its socket.
fn is_dying(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return Path::new("/proc/self").exists();
    };
    // Read after the process name, which can contain any character.
    stat.rsplit_once(") ").is_some_and(|(_, fields)| {
        let flags = fields
            .split(' ')
            .nth(6)
            .and_then(|flags| flags.parse::<u32>().ok());
        fields.starts_with(['Z', 'X']) || flags.is_some_and(|flags| flags & EXITING != 0)
    })
}

/// `PF_EXITING` of the Linux kernel: the process has begun to exit.
const EXITING: u32 = 4;

/// The length of all whole lines, and of the rest after the last newline.
fn whole_lines(file: &mut File) -> io::Result<(u64, u64)> {
    const CHUNK: u64 = 64 << 10;
    let length = file.metadata()?.len();
    let mut end = length;
    let mut buffer = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(CHUNK);
        buffer.clear();
        file.seek(SeekFrom::Start(start))?;
        file.take(end - start).read_to_end(&mut buffer)?;
        if let Some(newline) = buffer.iter().rposition(|byte| *byte == b'\n') {
            let whole = start + newline as u64 + 1;
            return Ok((whole, length - whole));
        }
        end = start;
    }
    Ok((0, length))
}

#[cfg(test)]
mod tests;
