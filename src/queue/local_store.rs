//! The tasks of a project's own queue: `.creel/queue/tasks.jsonl`, a line for each change, without
//! any server.
//!
//! # Invariants
//! - Changes are made one at a time, under a lock that the kernel releases when its holder dies.
//! - A change counts when its line is complete. The next writer removes what a killed one left half
//!   written.
//! - The file is never longer than a few lines for each task: a writer replaces it by one with the
//!   last line of each.
//! - A line that cannot be read is skipped, reported and kept: a file with such a line is not
//!   replaced.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{DirBuilder, File, Metadata, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::backend::{ChangeFeed, QueueFuture, QueueTaskKey, TaskRevision, TaskStore};
use crate::{
    config::paths::in_words,
    engine::{
        queue::{QueuedTask, QueuedTaskState},
        tasks::command::is_name,
    },
    journal::{
        open,
        session_dir::{PRIVATE_DIR, create_ignored},
    },
    text::some_names,
};

/// How long another process may hold the lock. It takes milliseconds, unless the process is
/// suspended.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
const LOCK_AGAIN: Duration = Duration::from_millis(2);
/// How often to look for changes of other processes.
const LOOK: Duration = Duration::from_millis(50);
/// A file with fewer lines is not worth being replaced by a shorter one.
const FEW_LINES: usize = 1_000;

/// Why the folder cannot be used at the moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocalQueueError {
    #[error("cannot use {path}: {cause}\n  a folder that you can write to must be there")]
    Io { path: String, cause: String },
    #[error("another creel process has had the lock {0} for ten seconds; is it suspended?")]
    Locked(String),
}

/// The lines of the file that creel skips. They are damaged, or a newer creel wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedLines {
    path: String,
    /// From 1.
    numbers: Vec<usize>,
}

/// The most line numbers in a message.
const SHOWN_LINES: usize = 5;

impl fmt::Display for SkippedLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, numbers } = self;
        let names: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        let (lines, changes, them) = match numbers.len() {
            1 => ("line", "this change of a task", "it"),
            _ => ("lines", "these changes of tasks", "them"),
        };
        write!(
            f,
            "{path}: cannot read {lines} {}. creel skips {changes} and keeps the {lines}\n  if a newer creel wrote {them}, \
             update this one; otherwise stop the workers, then repair or delete {them}",
            some_names(&names, SHOWN_LINES)
        )
    }
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct TaskLine {
    revision: u64,
    /// The revision with which the task was added.
    born: u64,
    task: QueuedTask,
}

/// The folder of the queue.
#[derive(Debug, Clone)]
pub(super) struct LocalQueueDir {
    path: PathBuf,
}

/// The lock on the folder, until it is dropped.
pub(super) struct FolderLock(
    #[expect(dead_code, reason = "closing the file releases the lock")] File,
);

#[derive(Debug, Clone)]
pub(super) struct LocalStore {
    pub(super) folder: LocalQueueDir,
    known: Arc<Mutex<KnownTasks>>,
}

/// What this process has read so far.
#[derive(Debug, Default)]
pub(super) struct KnownTasks {
    read: Option<ReadFile>,
    tasks: BTreeMap<QueueTaskKey, KnownTask>,
    last: u64,
    lines: usize,
    /// The numbers of the lines that this creel cannot read.
    unreadable: Vec<usize>,
}

#[derive(Debug)]
struct ReadFile {
    file: File,
    inode: u64,
    /// The end of the last complete line.
    offset: u64,
}

#[derive(Debug, Clone)]
pub(super) struct KnownTask {
    pub(super) seen: TaskRevision,
    pub(super) born: u64,
}

impl LocalQueueDir {
    /// The folder in a project. Creates it if there is none.
    pub(super) fn open(project: &Path) -> Result<Self, LocalQueueError> {
        let path = project.join(open::OURS).join("queue");
        let leases = || {
            DirBuilder::new()
                .recursive(true)
                .mode(PRIVATE_DIR)
                .create(path.join("leases"))
        };
        let made = create_ignored(&path).and_then(|()| leases());
        let this = Self { path };
        let ours = project.join(open::OURS);
        made.and_then(|()| {
            [&ours, &this.path]
                .into_iter()
                .try_for_each(|path| open::no_link(path))
        })
        .map_err(|cause| this.error(&cause))?;
        Ok(this)
    }

    /// The folder, which need not exist: to read it only.
    pub(super) fn to_read(project: &Path) -> Self {
        Self {
            path: project.join(open::OURS).join("queue"),
        }
    }

    fn tasks(&self) -> PathBuf {
        self.path.join("tasks.jsonl")
    }

    pub(super) fn lease(&self, key: &QueueTaskKey) -> PathBuf {
        self.path.join("leases").join(key.tokens())
    }

    pub(super) fn error(&self, cause: &io::Error) -> LocalQueueError {
        LocalQueueError::Io {
            path: self.path.display().to_string(),
            cause: in_words(cause),
        }
    }

    /// Waits for the lock.
    pub(super) async fn locked(&self) -> Result<FolderLock, LocalQueueError> {
        let path = self.path.join("lock");
        let file = open::open(&path, OFlags::WRONLY | OFlags::CREATE)
            .map_err(|cause| self.error(&cause))?;
        let since = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(FolderLock(file)),
                Err(TryLockError::WouldBlock) if since.elapsed() < LOCK_PATIENCE => {
                    tokio::time::sleep(LOCK_AGAIN).await;
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(LocalQueueError::Locked(path.display().to_string()));
                }
                Err(TryLockError::Error(cause)) => return Err(self.error(&cause)),
            }
        }
    }
}

impl KnownTasks {
    pub(super) fn get(&self, key: &QueueTaskKey) -> Option<&KnownTask> {
        self.tasks.get(key)
    }

    pub(super) fn tasks(&self) -> impl Iterator<Item = (&QueueTaskKey, &KnownTask)> {
        self.tasks.iter()
    }

    /// Reads what is new and returns the tasks that changed, in the order of their changes.
    pub(super) fn catch_up(&mut self, folder: &LocalQueueDir) -> io::Result<Vec<QueueTaskKey>> {
        let path = folder.tasks();
        let found = match std::fs::symlink_metadata(&path) {
            Ok(meta) => Some(meta),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let is_known = |(read, meta): (&ReadFile, &Metadata)| {
            read.inode == meta.ino() && read.offset <= meta.len()
        };
        if !self.read.as_ref().zip(found.as_ref()).is_some_and(is_known) {
            // Replaced by a shorter one, or edited or removed by the user.
            *self = Self {
                last: self.last,
                tasks: std::mem::take(&mut self.tasks),
                ..Self::default()
            };
            if found.is_none() {
                self.tasks.clear();
                return Ok(Vec::new());
            }
            let file = open::to_read(&path)?;
            let inode = file.metadata()?.ino();
            self.read = Some(ReadFile {
                file,
                inode,
                offset: 0,
            });
        }
        let Some(read) = &mut self.read else {
            return Ok(Vec::new());
        };
        if read.file.metadata()?.len() == read.offset {
            return Ok(Vec::new());
        }
        let mut text = Vec::new();
        read.file.seek(SeekFrom::Start(read.offset))?;
        read.file.read_to_end(&mut text)?;
        let whole = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        read.offset += whole as u64;
        Ok(text[..whole]
            .split_inclusive(|byte| *byte == b'\n')
            .filter_map(|line| self.note(line))
            .collect())
    }

    fn note(&mut self, line: &[u8]) -> Option<QueueTaskKey> {
        self.lines += 1;
        let Ok(TaskLine {
            revision,
            born,
            task,
        }) = serde_json::from_slice::<TaskLine>(line)
        else {
            self.unreadable.push(self.lines);
            // The next change is a later one, also after this line has been repaired.
            self.last += 1;
            return None;
        };
        self.last = self.last.max(revision);
        let key = QueueTaskKey::of(&task.order);
        let seen = TaskRevision { task, revision };
        if !seen.is_news_to(self.tasks.get(&key).map(|known| &known.seen)) {
            return None;
        }
        self.tasks.insert(key.clone(), KnownTask { seen, born });
        Some(key)
    }

    /// Appends a change. Only under the lock, and after catching up.
    fn append(&mut self, folder: &LocalQueueDir, task: &QueuedTask) -> io::Result<u64> {
        let key = QueueTaskKey::of(&task.order);
        let revision = self.last + 1;
        let before = self.get(&key);
        let before = before.filter(|known| known.seen.task.state != QueuedTaskState::Removed);
        let born = before.map_or(revision, |known| known.born);
        let line = line_of(&TaskLine {
            revision,
            born,
            task: task.clone(),
        });
        let mut file = open::open(&folder.tasks(), OFlags::WRONLY | OFlags::CREATE)?;
        let end = self.read.as_ref().map_or(0, |read| read.offset);
        file.set_len(end)?;
        file.seek(SeekFrom::Start(end))?;
        file.write_all(line.as_bytes())?;
        file.sync_data()?;
        self.catch_up(folder)?;
        if self.lines > FEW_LINES && self.lines > 4 * self.tasks.len() && self.unreadable.is_empty()
        {
            self.shorten(folder)?;
        }
        Ok(revision)
    }

    fn shorten(&self, folder: &LocalQueueDir) -> io::Result<()> {
        let mut tasks = self.tasks.values().collect::<Vec<_>>();
        tasks.sort_by_key(|known| known.seen.revision);
        let lines = tasks.into_iter().map(|KnownTask { seen, born }| {
            line_of(&TaskLine {
                revision: seen.revision,
                born: *born,
                task: seen.task.clone(),
            })
        });
        open::replace(&folder.tasks(), &lines.collect::<String>())
    }
}

fn line_of(stored: &TaskLine) -> String {
    serde_json::to_string(stored).expect("a task has no keys that are not text") + "\n"
}

impl LocalStore {
    pub(super) fn new(folder: LocalQueueDir) -> Self {
        Self {
            folder,
            known: Arc::default(),
        }
    }

    pub(super) fn skipped_lines(&self) -> Result<Option<SkippedLines>, LocalQueueError> {
        let numbers = self.read(|known| known.unreadable.clone())?;
        let path = self.folder.tasks().display().to_string();
        Ok((!numbers.is_empty()).then_some(SkippedLines { path, numbers }))
    }

    fn known(&self) -> MutexGuard<'_, KnownTasks> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the tasks as they are now. Needs no lock: a line that is being written is not complete
    /// yet.
    pub(super) fn read<T>(
        &self,
        look: impl FnOnce(&KnownTasks) -> T,
    ) -> Result<T, LocalQueueError> {
        let mut known = self.known();
        known
            .catch_up(&self.folder)
            .map_err(|cause| self.folder.error(&cause))?;
        Ok(look(&known))
    }
}

impl TaskStore for LocalStore {
    fn get<'a>(&'a self, key: &'a QueueTaskKey) -> QueueFuture<'a, Option<TaskRevision>> {
        Box::pin(async { Ok(self.read(|known| known.get(key).map(|known| known.seen.clone()))?) })
    }

    fn write<'a>(&'a self, task: &'a QueuedTask, read: u64) -> QueueFuture<'a, Option<u64>> {
        Box::pin(async move {
            let _lock = self.folder.locked().await?;
            let key = QueueTaskKey::of(&task.order);
            if self.read(|known| known.get(&key).map_or(0, |known| known.seen.revision))? != read
                || !is_name(key.id())
            {
                return Ok(None);
            }
            let written = self.known().append(&self.folder, task);
            Ok(Some(written.map_err(|cause| self.folder.error(&cause))?))
        })
    }

    fn next_number(&self) -> QueueFuture<'_, u64> {
        Box::pin(async {
            Ok(self.read(|known| (known.tasks.len() + known.unreadable.len()) as u64 + 1)?)
        })
    }

    fn all(&self) -> QueueFuture<'_, Vec<QueuedTask>> {
        Box::pin(async {
            let mut all = self.read(|known| {
                known
                    .tasks()
                    .map(|(_, known)| known.seen.clone())
                    .collect::<Vec<_>>()
            })?;
            all.sort_by_key(|seen| seen.revision);
            Ok(all.into_iter().map(|seen| seen.task).collect())
        })
    }

    fn changes<'a>(&'a self, owner: &'a str) -> QueueFuture<'a, Box<dyn ChangeFeed>> {
        let feed = LocalChangeFeed {
            folder: self.folder.clone(),
            owner: owner.to_owned(),
            known: KnownTasks::default(),
            due: Vec::new(),
        };
        Box::pin(async { Ok(Box::new(feed) as Box<dyn ChangeFeed>) })
    }
}

/// Reads the file as it grows.
struct LocalChangeFeed {
    folder: LocalQueueDir,
    owner: String,
    known: KnownTasks,
    /// Read, but not yet returned.
    due: Vec<TaskRevision>,
}

impl LocalChangeFeed {
    fn look(&mut self) -> Result<(), LocalQueueError> {
        let changed = self
            .known
            .catch_up(&self.folder)
            .map_err(|cause| self.folder.error(&cause))?;
        let ours = changed
            .into_iter()
            .filter(|key| self.owner.is_empty() || key.owner() == self.owner);
        let seen = ours
            .filter_map(|key| self.known.get(&key))
            .map(|known| known.seen.clone())
            .collect::<Vec<_>>();
        // The next one is taken from the end.
        self.due.splice(0..0, seen.into_iter().rev());
        Ok(())
    }
}

impl ChangeFeed for LocalChangeFeed {
    fn all(&mut self) -> QueueFuture<'_, BTreeMap<QueueTaskKey, TaskRevision>> {
        Box::pin(async {
            self.look()?;
            let all = self.due.drain(..).rev();
            Ok(all
                .map(|seen| (QueueTaskKey::of(&seen.task.order), seen))
                .collect())
        })
    }

    fn next(&mut self) -> QueueFuture<'_, Option<TaskRevision>> {
        Box::pin(async {
            loop {
                if let Some(seen) = self.due.pop() {
                    return Ok(Some(seen));
                }
                self.look()?;
                if self.due.is_empty() {
                    tokio::time::sleep(LOOK).await;
                }
            }
        })
    }
}
