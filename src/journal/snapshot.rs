//! A snapshot of the session's state next to its journal, so that reading a long journal does not
//! take long.
//!
//! Owns the snapshot's format, whether one can be used, and when a running session writes one: in
//! the background now and then, and when it ends. The journal is the only truth: without a usable
//! snapshot, or with one that does not match, creel reads the journal from its start.
//!
//! Two files belong to a snapshot. `snapshot.json` contains the state after a prefix of the
//! journal. `snapshot.stamp` contains the metadata of the journal's file after creel's last write
//! to it, and names the snapshot.
//!
//! # Invariants
//! - Both files are sealed with the user's key, so no clone brings a snapshot that creel uses. The
//!   key is in the user's state folder, next to the trusted configs: a clone or a sandboxed agent
//!   does not have it. It never changes once it exists, and processes that create it at the same
//!   time agree on one.
//! - Any write to the journal by another program changes the file's metadata, and the snapshot no
//!   longer counts. This is what detects a change in the middle of a journal that is too long to
//!   read.
//! - A snapshot counts only for the build of creel that wrote it: the state's meaning can change
//!   between builds.
//! - The work per record does not grow with the session: a snapshot is written only after the
//!   journal has grown by several times the snapshot's size.
//! - A snapshot that cannot be written changes nothing for the session.
//! - Once another program has touched the journal, this process stamps no snapshot any more.

use std::{
    fmt::Write as _,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use hmac::{Hmac, Mac as _};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    engine::SessionState,
    journal::{
        fold::{AnsweredPrompts, JournalPosition},
        open::{self, FileTimePrecision, JournalFileStamp},
        session_dir::{PRIVATE_DIR, PRIVATE_FILE},
    },
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
        let _ = build();
        let covered = restored.as_ref().map_or(0, |mark| mark.position.offset);
        let stamp = restored.as_ref().and_then(|_| open_stamp(&path).ok());
        if restored.is_none() {
            // Without a stamp they would not be used, but nothing of a session that is gone should
            // be left.
            let _ = std::fs::remove_file(stamp_file(&path));
            let _ = std::fs::remove_file(snapshot_file(&path));
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
        let _ = file.write_all_at(stamp(key, &mark.seal, journal).as_bytes(), 0);
    }
}

fn lock(stamps: &Mutex<StampedSnapshot>) -> MutexGuard<'_, StampedSnapshot> {
    stamps.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_stamp(path: &std::path::Path) -> io::Result<File> {
    open::open(&stamp_file(path), OFlags::RDWR | OFlags::CREATE)
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
    let (text, mark) = compose(key, journal, position, state, prompts)?;
    // After a power loss, the journal must still have everything that the snapshot covers.
    journal.sync_data()?;
    let mut stamps = lock(stamps);
    if stamps.is_spoiled {
        return Ok(());
    }
    if stamps.stamp.is_none() {
        stamps.stamp = Some(open_stamp(path)?);
    }
    open::replace(&snapshot_file(path), &text)?;
    stamps.snapshot = Some(mark);
    stamps.update();
    Ok(())
}

#[cfg(test)]
mod tests;

/// The version of the format of both files.
const FORMAT: u32 = 1;
/// How much of the journal before the snapshot's end is compared.
const COMPARED: u64 = 64 << 10;
/// A larger snapshot is not used.
const LARGEST: u64 = 256 << 20;
/// The stamp's length, padded with spaces, so that each stamp replaces the one before it in one
/// write.
const STAMP: usize = 320;
/// How many times to look again: between a record and its stamp, a running session's files do not
/// match.
const LOOKS: u32 = 3;
const LOOK_AGAIN: Duration = Duration::from_millis(1);

pub(super) fn snapshot_file(journal: &Path) -> PathBuf {
    journal.with_file_name("snapshot.json")
}

pub(super) fn stamp_file(journal: &Path) -> PathBuf {
    journal.with_file_name("snapshot.stamp")
}

/// Identifies a snapshot that matches its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SnapshotMark {
    pub(super) seal: String,
    pub(super) position: JournalPosition,
    /// In bytes.
    pub(super) size: u64,
}

/// The state from a snapshot.
#[derive(Debug)]
pub(super) struct RestoredSession {
    pub(super) state: Box<SessionState>,
    pub(super) prompts: AnsweredPrompts,
    pub(super) mark: SnapshotMark,
}

#[derive(Debug, Serialize, Deserialize)]
struct SnapshotHeader {
    format: u32,
    build: String,
    offset: u64,
    seq: u64,
    /// The length of the journal's first line.
    first_length: u64,
    first: String,
    /// The digest of the last part of the journal before `offset`.
    last: String,
}

#[derive(Deserialize)]
struct StoredSession {
    state: Box<SessionState>,
    prompts: AnsweredPrompts,
}

#[derive(Serialize)]
struct SnapshotParts<'a> {
    state: &'a SessionState,
    prompts: &'a AnsweredPrompts,
}

/// Identifies the running program: its version and its file. Read once, because an update can
/// replace the file.
pub(super) fn build() -> Option<&'static str> {
    static BUILD: OnceLock<Option<String>> = OnceLock::new();
    BUILD
        .get_or_init(|| {
            // On Linux, this is the running program even if its file was replaced or deleted.
            let running = fs::metadata("/proc/self/exe");
            let meta = running
                .or_else(|_| std::env::current_exe().and_then(fs::metadata))
                .ok()?;
            let file = (meta.dev(), meta.ino(), meta.len());
            let times = (
                meta.mtime(),
                meta.mtime_nsec(),
                meta.ctime(),
                meta.ctime_nsec(),
            );
            Some(format!("{} {file:?} {times:?}", env!("CARGO_PKG_VERSION")))
        })
        .as_deref()
}

/// The text of a snapshot of the state after the journal's first `position.offset` bytes, and its
/// mark.
pub(super) fn compose(
    key: &SnapshotKey,
    journal: &File,
    position: JournalPosition,
    state: &SessionState,
    prompts: &AnsweredPrompts,
) -> io::Result<(String, SnapshotMark)> {
    let build = build()
        .ok_or_else(|| io::Error::other("the program's file is unknown"))?
        .to_owned();
    let first_length = first_line(journal, position.offset)?;
    let first = digest(journal, 0, first_length)?;
    let last = digest(
        journal,
        position.offset.saturating_sub(COMPARED),
        position.offset,
    )?;
    let JournalPosition { offset, seq } = position;
    let header = SnapshotHeader {
        format: FORMAT,
        build,
        offset,
        seq,
        first_length,
        first,
        last,
    };
    let content = serde_json::to_string(&SnapshotParts { state, prompts })?;
    // Whatever the stored form cannot represent must not change a session.
    let read: StoredSession = serde_json::from_str(&content)?;
    if *read.state != *state || read.prompts != *prompts {
        return Err(io::Error::other(
            "the stored form does not restore the state",
        ));
    }
    let sealed = format!("{}\n{content}\n", serde_json::to_string(&header)?);
    let seal = key.seal(sealed.as_bytes());
    let text = format!("{seal}\n{sealed}");
    let size = text.len() as u64;
    Ok((
        text,
        SnapshotMark {
            seal,
            position,
            size,
        },
    ))
}

/// The stamp that says: the journal's file is as creel left it, and this snapshot belongs to it.
pub(super) fn stamp(key: &SnapshotKey, seal: &str, journal: &JournalFileStamp) -> String {
    let JournalFileStamp {
        id,
        length,
        modified,
        changed,
        ..
    } = journal;
    let stamp = format!("{FORMAT} {seal} {id:?} {length} {modified:?} {changed:?}");
    let line = format!("{stamp} {}", key.seal(stamp.as_bytes()));
    format!("{line:<width$}\n", width = STAMP - 1)
}

/// The state from the snapshot of a journal, if both match. `file` is the journal, opened.
pub(super) fn restore(journal: &Path, file: &File) -> Option<RestoredSession> {
    let path = snapshot_file(journal);
    // Most sessions have none.
    fs::symlink_metadata(&path).ok()?;
    // Where another machine can write without a new time here, only the whole journal tells.
    // (Elsewhere than on Linux creel does not know the file systems; most of them are local.)
    if cfg!(target_os = "linux") && FileTimePrecision::of(file) == FileTimePrecision::Vague {
        return None;
    }
    restore_with(SnapshotKey::existing()?, journal, file)
}

fn restore_with(key: &SnapshotKey, journal: &Path, file: &File) -> Option<RestoredSession> {
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(LOOK_AGAIN);
        }
        let text = read_text(&snapshot_file(journal))?;
        let (seal, sealed) = text.split_once('\n')?;
        if key.seal(sealed.as_bytes()) != seal {
            return None;
        }
        let current = JournalFileStamp::of(file)?;
        if read_text(&stamp_file(journal))? == stamp(key, seal, &current) {
            return unseal(seal, sealed, text.len() as u64, file);
        }
    }
    tracing::debug!("the snapshot does not match {}", journal.display());
    None
}

fn unseal(seal: &str, sealed: &str, size: u64, journal: &File) -> Option<RestoredSession> {
    let (header, content) = sealed.split_once('\n')?;
    let header: SnapshotHeader = serde_json::from_str(header).ok()?;
    let SnapshotHeader {
        format,
        build: by,
        offset,
        seq,
        first_length,
        first,
        last,
    } = header;
    if format != FORMAT || Some(by.as_str()) != build() {
        return None;
    }
    let same = digest(journal, 0, first_length).ok()? == first
        && digest(journal, offset.saturating_sub(COMPARED), offset).ok()? == last;
    if !same {
        return None;
    }
    let StoredSession { state, prompts } = serde_json::from_str(content).ok()?;
    let mark = SnapshotMark {
        seal: seal.to_owned(),
        position: JournalPosition { offset, seq },
        size,
    };
    Some(RestoredSession {
        state,
        prompts,
        mark,
    })
}

fn read_text(path: &Path) -> Option<String> {
    let mut text = String::new();
    open::to_read(path)
        .ok()?
        .take(LARGEST)
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}

/// The length of the first line, with its newline.
fn first_line(journal: &File, end: u64) -> io::Result<u64> {
    let mut chunk = vec![0; 64 << 10];
    let mut at = 0;
    while at < end {
        let read = journal.read_at(&mut chunk, at)?;
        if let Some(newline) = chunk[..read].iter().position(|byte| *byte == b'\n') {
            return Ok(at + newline as u64 + 1);
        }
        if read == 0 {
            break;
        }
        at += read as u64;
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// The digest of the journal's bytes from `start` to `end`.
fn digest(journal: &File, start: u64, end: u64) -> io::Result<String> {
    let length = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; length];
    journal.read_exact_at(&mut bytes, start)?;
    Ok(hex(&Sha256::digest(bytes)))
}

const KEY_BYTES: usize = 32;

static FOLDER: OnceLock<PathBuf> = OnceLock::new();
static KEY: OnceLock<SnapshotKey> = OnceLock::new();

/// Sets the folder of the key. Until then, this process neither writes nor uses snapshots.
pub fn keep_key_in(state_dir: &Path) {
    let _ = FOLDER.set(state_dir.to_owned());
}

/// The secret that seals snapshots, for HMAC-SHA256.
#[derive(Debug, Clone)]
pub(super) struct SnapshotKey(Hmac<Sha256>);

impl SnapshotKey {
    fn new(key: [u8; KEY_BYTES]) -> Self {
        Self(Hmac::new_from_slice(&key).expect("HMAC accepts keys of any length"))
    }

    /// The user's key, if there is one.
    pub(super) fn existing() -> Option<&'static Self> {
        KEY.get().or_else(|| {
            let key = read(&FOLDER.get()?.join("snapshot-key")).ok()?;
            Some(KEY.get_or_init(|| Self::new(key)))
        })
    }

    /// The user's key. Creates it if there is none.
    pub(super) fn existing_or_new() -> Option<&'static Self> {
        Self::existing().or_else(|| {
            // The draft's name is the process's own, so threads create it one at a time.
            static ALONE: Mutex<()> = Mutex::new(());
            let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
            let made = create(FOLDER.get()?);
            made.inspect_err(|error| {
                tracing::warn!("cannot create the key for snapshots: {error}");
            })
            .ok()?;
            Self::existing()
        })
    }

    pub(super) fn seal(&self, content: &[u8]) -> String {
        hex(&self.0.clone().chain_update(content).finalize().into_bytes())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

fn read(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    File::open(path)?.read_exact(&mut key)?;
    Ok(key)
}

/// Creates the key under another name first, so that no process reads half of it.
fn create(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_DIR)
        .create(folder)?;
    let draft = folder.join(format!("snapshot-key.{}", std::process::id()));
    let _ = fs::remove_file(&draft);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(PRIVATE_FILE)
        .open(&draft)?;
    file.write_all(&read(Path::new("/dev/urandom"))?)?;
    file.sync_all()?;
    let linked = fs::hard_link(&draft, folder.join("snapshot-key"));
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
