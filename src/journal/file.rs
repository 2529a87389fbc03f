//! The journal file: one process appends to it, any process can read it.
//!
//! # Invariants
//! - One writer: the process that has the file's lock.
//! - A record survives `kill -9` of this process once [`Journal::append`] has returned. Records that a person or the
//!   agent relies on also survive power loss.
//! - A failed append leaves no partial record.
//! - Opening a journal changes nothing on disk. Only [`LockedJournal::take_up`] does, so an untrusted journal can be
//!   opened safely.
//! - Records are numbered from 1 without gaps. creel never resumes a session whose journal breaks this rule. It can be
//!   read, with a warning that names the first line that is out of place.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions, TryLockError},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use rustix::fs::OFlags;

use super::{
    open,
    record::{Record, RecordError, VERSION},
    tail::RecordTail,
};
use crate::{
    engine::{
        SessionState,
        event::{Event, GateEvent, PendingEvent, SessionEvent, TurnEvent, UsageLimitEvent},
        time::UnixTime,
    },
    journal::session_dir::{PRIVATE_FILE, SessionDir, has_records},
};

/// How long a record can be in the kernel's memory only. This matters for power loss; a kill loses nothing.
const SYNC_EVERY: Duration = Duration::from_millis(200);

/// How long to wait for a session's lock before the session counts as running. Another process can lock it for a
/// moment, and a killed process keeps the lock until its last thread has ended.
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
    Io { doing: &'static str, path: PathBuf, cause: io::Error },
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
    sync: mpsc::Sender<()>,
    /// The file's stamp after the last append.
    mark: Option<JournalFileStamp>,
    times: FileTimePrecision,
    /// What another program did to the file, until [`Self::take_damage`] reports it.
    damage: Option<JournalDamage>,
}

/// Whether the file system changes a file's times exactly when its content changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileTimePrecision {
    Exact,
    /// A network file system can change the times later.
    Vague,
}

impl FileTimePrecision {
    #[cfg(target_os = "linux")]
    fn of(file: &File) -> Self {
        // ext2 to ext4, xfs, btrfs, tmpfs, overlayfs, f2fs, zfs.
        const LOCAL: [u64; 7] = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0xf2f5_2010, 0x2fc1_2fc1];
        let sort = rustix::fs::fstatfs(file).map(|found| u64::try_from(found.f_type).unwrap_or_default());
        if sort.is_ok_and(|sort| LOCAL.contains(&sort)) { Self::Exact } else { Self::Vague }
    }

    #[cfg(not(target_os = "linux"))]
    fn of(_: &File) -> Self {
        Self::Vague
    }
}

/// Detects whether another process wrote to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct JournalFileStamp {
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// Mode, link count and owner. If one of these changed, it explains the new ctime and is no damage.
    harmless: (u32, u64, u32, u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalDamage {
    Truncated,
    Written,
    Replaced,
}

impl JournalFileStamp {
    fn of(file: &File) -> Option<Self> {
        let meta = file.metadata().ok()?;
        Some(Self {
            length: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
            harmless: (meta.mode(), meta.nlink(), meta.uid(), meta.gid()),
        })
    }

    fn damage_since(&self, before: &Self, times: FileTimePrecision) -> Option<JournalDamage> {
        let touched = self.changed != before.changed && self.harmless == before.harmless;
        let later = times == FileTimePrecision::Exact && (self.modified != before.modified || touched);
        if self.length < before.length {
            Some(JournalDamage::Truncated)
        } else if self.length != before.length || later {
            Some(JournalDamage::Written)
        } else {
            None
        }
    }
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
}

#[derive(Debug)]
pub struct OpenedJournal {
    pub journal: LockedJournal,
    pub state: SessionState,
    /// The prompts of the session's own agent whose turns ended, oldest first.
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
        // Sync the folder too, or the file's name could be lost.
        File::open(&folder.path).and_then(|dir| dir.sync_all()).map_err(io("sync", &folder.path))?;
        Self::new(file, folder, 0, 0)
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
        let (length, torn) = whole_lines(&mut file).map_err(io("read"))?;
        let mut prompts = AnsweredPrompts::default();
        let mut seq = 0;
        let (state, disorder) = fold_with(&path, |record| {
            seq = record.seq;
            prompts.see(&record.event);
        })?;
        if let Some(disorder) = disorder {
            return Err(JournalError::Disorder(disorder));
        }
        let journal = LockedJournal { file, folder: folder.clone(), seq, length, torn };
        let AnsweredPrompts { answered: past_prompts, reviews: past_reviews, fallbacks: past_fallbacks, .. } = prompts;
        Ok(OpenedJournal { journal, state, past_prompts, past_reviews, past_fallbacks })
    }

    fn new(file: File, folder: &SessionDir, seq: u64, length: u64) -> Result<Self, JournalError> {
        let io = |cause| JournalError::Io { doing: "write", path: folder.pid_file(), cause };
        folder.write_pid().map_err(io)?;
        let sync = sync_in_background(file.try_clone().map_err(io)?);
        let (mark, times) = (JournalFileStamp::of(&file), FileTimePrecision::of(&file));
        Ok(Self { file, folder: folder.clone(), seq, length, sync, mark, times, damage: None })
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

    /// Reads the records from this byte offset on, including future ones. Opens its own handle, because the writing
    /// handle has the lock and the lock must end with the session.
    pub fn tail(&self, offset: u64) -> io::Result<RecordTail> {
        Ok(RecordTail::new(open::to_read(&self.folder.journal())?, offset))
    }

    /// Appends events as records. They are written when this returns.
    pub fn append(&mut self, at: UnixTime, events: Vec<Event>) -> Result<Vec<Arc<Record>>, JournalError> {
        let matters = events.iter().any(must_survive_power_loss);
        let mut lines = String::new();
        let mut records = Vec::with_capacity(events.len());
        for event in events {
            let seq = self.seq + records.len() as u64 + 1;
            let record = Record { v: VERSION, seq, at, session: self.folder.name.clone(), event };
            lines.push_str(&record.to_line());
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
            JournalError::Io { doing: "write", path: self.folder.journal(), cause }
        })?;
        self.seq += records.len() as u64;
        self.length += lines.len() as u64;
        self.mark = JournalFileStamp::of(&self.file);
        Ok(records)
    }

    fn write(&mut self, lines: &str, matters: bool) -> io::Result<()> {
        self.file.write_all(lines.as_bytes())?;
        if matters {
            return self.file.sync_data();
        }
        let _ = self.sync.send(());
        Ok(())
    }

    /// What another program did to the file since the last call.
    pub fn take_damage(&mut self) -> Option<JournalDamage> {
        self.look_for_damage();
        let id = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        let ours = self.file.metadata().ok().map(id);
        let there = std::fs::metadata(self.folder.journal()).ok().map(id);
        let replaced = there.is_some() && there != ours && !self.is_deleted();
        let damage = self.damage.take();
        if replaced { Some(JournalDamage::Replaced) } else { damage }
    }

    /// Runs before each append, because the append would hide what another program wrote.
    fn look_for_damage(&mut self) {
        let now = JournalFileStamp::of(&self.file);
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
        let mut copy = OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE_FILE).open(to)?;
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
        let Self { file, folder, seq, length, torn } = self;
        // The outputs folder can be missing, or be a link.
        folder.create().map_err(|cause| JournalError::Io { doing: "use", path: folder.path.clone(), cause })?;
        if torn > 0 {
            let io = |cause| JournalError::Io { doing: "repair", path: folder.journal(), cause };
            file.set_len(length).map_err(io)?;
        }
        Journal::new(file, &folder, seq, length)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let _ = self.file.sync_data();
        let _ = std::fs::remove_file(self.folder.pid_file());
    }
}

/// Events that others act on, or that creel could not find out again.
fn must_survive_power_loss(event: &Event) -> bool {
    matches!(
        event,
        Event::Session(SessionEvent::Started(_) | SessionEvent::Ended { .. })
            | Event::Gate(GateEvent::Answered { .. })
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
            Err(JournalError::Held { name: folder.name.clone(), pid })
        }
        Err(TryLockError::Error(cause)) => Err(JournalError::Io { doing: "lock", path: folder.journal(), cause }),
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
            return Some(LockHolder { pid: pid.filter(|_| !dying) });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// How long a killed process keeps its lock at most, until its last thread has ended.
const DYING: Duration = Duration::from_millis(500);

/// Whether a process is dead, although some of its threads can still be alive.
fn is_dying(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return Path::new("/proc/self").exists();
    };
    // Read after the process name, which can contain any character.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
}

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

/// The prompts that each agent has answered, so that a scripted agent continues at the right step.
#[derive(Default)]
struct AnsweredPrompts {
    sent: Option<(Option<String>, String)>,
    answered: Vec<String>,
    reviews: BTreeMap<String, Vec<String>>,
    fallbacks: BTreeMap<String, Vec<String>>,
    /// The names of the session's own agent and of the agent that works now.
    own: String,
    working: String,
}

impl AnsweredPrompts {
    fn see(&mut self, event: &Event) {
        if let Event::Session(SessionEvent::Started(began)) = event {
            self.own.clone_from(&began.plan.agent);
            self.working.clone_from(&began.plan.agent);
        } else if let Event::UsageLimit(UsageLimitEvent::AgentSwitched { to, .. }) = event {
            self.working.clone_from(to);
        } else if let Event::Turn(TurnEvent::PromptSent(prompt)) = event {
            self.sent = Some((prompt.agent.clone(), prompt.text.clone()));
        } else if matches!(event, Event::Turn(TurnEvent::Ended { .. } | TurnEvent::Failed { .. })) {
            match self.sent.take() {
                Some((None, text)) if self.working == self.own => self.answered.push(text),
                Some((None, text)) => self.fallbacks.entry(self.working.clone()).or_default().push(text),
                Some((Some(agent), text)) => self.reviews.entry(agent).or_default().push(text),
                None => {}
            }
        }
    }
}

/// Reads a journal record by record and returns the first line that is out of place. Ignores an incomplete last line.
pub fn read(path: &Path, mut each: impl FnMut(Record)) -> Result<Option<RecordOrderError>, JournalError> {
    let io = |cause| JournalError::Io { doing: "read", path: path.to_owned(), cause };
    let mut reader = BufReader::with_capacity(256 << 10, open::to_read(path).map_err(io)?);
    let mut line = Vec::new();
    let mut disorder = None;
    let mut expected = 1;
    for number in 1.. {
        line.clear();
        let read = reader.read_until(b'\n', &mut line).map_err(io)?;
        if read == 0 || line.last() != Some(&b'\n') {
            break;
        }
        let damaged = |cause| JournalError::Record { path: path.to_owned(), line: number, cause };
        let text = str::from_utf8(&line).map_err(|_| damaged(not_text()))?;
        let record = Record::from_line(text).map_err(damaged)?;
        if record.seq != expected && disorder.is_none() {
            disorder = Some(RecordOrderError { path: path.to_owned(), line: number, expected, found: record.seq });
        }
        expected = record.seq.saturating_add(1);
        each(record);
    }
    Ok(disorder)
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
    fold_with(path, |_| {})
}

fn fold_with(
    path: &Path,
    mut also: impl FnMut(&Record),
) -> Result<(SessionState, Option<RecordOrderError>), JournalError> {
    let mut state: Option<SessionState> = None;
    let disorder = read(path, |record| {
        also(&record);
        match (&mut state, record.event) {
            (Some(state), event) => state.apply(record.at, &event),
            (None, Event::Session(SessionEvent::Started(began))) => {
                state = Some(SessionState::new(&record.session, *began, record.at));
            }
            (None, _) => {}
        }
    })?;
    let state = state.ok_or_else(|| JournalError::NotASession(path.to_owned()))?;
    Ok((state, disorder))
}
