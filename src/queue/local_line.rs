//! The ready tasks of a project's own queue, and which worker has which.
//!
//! A worker's hold on a task is a file in `.creel/queue/leases`, which it keeps locked: the kernel
//! releases it when the worker dies. A worker that is suspended for longer than the lease loses its
//! task, too: the next worker replaces the file by its own.
//!
//! # Invariants
//! - A worker is handed a task only if no other worker has a lease on it. Leases are given one at a
//!   time.
//! - Only the file that a worker has locked itself is its lease, whatever happened since.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::OFlags;

use crate::{
    engine::{
        queue::{QueuedTaskState, task_spec::TaskSpec},
        time::UnixTime,
    },
    journal::open,
    queue::{
        backend::{
            DispatchGroup, GroupTurns, QueueFuture, QueueTaskKey, ReadyLine, TaskLease,
            WantedGroups,
        },
        local_store::{LocalQueueDir, LocalQueueError, LocalStore},
    },
    runtime::now,
};

/// A lease cannot reach farther into the future than this. If it seems to, the clock was set back.
const FARTHEST: Duration = Duration::from_hours(24);

#[derive(Debug)]
pub(super) struct LocalLine {
    store: LocalStore,
    lease: Duration,
    turns: GroupTurns,
}

#[derive(Debug)]
struct LocalLease {
    order: TaskSpec,
    length: Duration,
    folder: LocalQueueDir,
    path: PathBuf,
    /// Locked.
    file: File,
}

impl LocalLine {
    pub(super) fn new(store: LocalStore, lease: Duration) -> Self {
        Self {
            store,
            lease,
            turns: GroupTurns::default(),
        }
    }

    /// The tasks that can be handed out, unless a worker has a lease, in groups and the oldest
    /// first.
    fn candidates(&self, wanted: WantedGroups<'_>) -> Result<Vec<TaskSpec>, LocalQueueError> {
        let mut due = self.store.read(|known| {
            let due = known.tasks().filter(|(_, known)| {
                matches!(
                    known.seen.task.state,
                    QueuedTaskState::Ready | QueuedTaskState::Active { .. }
                )
            });
            due.map(|(_, known)| (known.born, known.seen.task.order.clone()))
                .collect::<Vec<_>>()
        })?;
        due.sort_by_key(|(born, _)| *born);
        let mut groups: Vec<DispatchGroup> = due
            .iter()
            .map(|(_, order)| DispatchGroup::of(order))
            .collect();
        groups.sort();
        groups.dedup();
        let groups = self
            .turns
            .in_order(groups.into_iter().filter(|group| wanted(group)));
        Ok(groups
            .into_iter()
            .flat_map(|group| {
                due.iter()
                    .map(|(_, order)| order)
                    .filter(move |order| DispatchGroup::of(order) == group)
            })
            .cloned()
            .collect())
    }
}

impl ReadyLine for LocalLine {
    /// The state of a task says whether it is in the line.
    fn put<'a>(&'a mut self, _order: &'a TaskSpec) -> QueueFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn restore<'a>(&'a mut self, _due: Vec<&'a TaskSpec>) -> QueueFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn take<'a>(
        &'a mut self,
        wanted: WantedGroups<'a>,
    ) -> QueueFuture<'a, Option<Box<dyn TaskLease>>> {
        Box::pin(async {
            let folder = self.store.folder.clone();
            let _lock = folder.locked().await?;
            for order in self.candidates(wanted)? {
                let path = folder.lease(&QueueTaskKey::of(&order));
                let leased =
                    lease(&path, now(), self.lease).map_err(|cause| folder.error(&cause))?;
                if let Some(file) = leased {
                    self.turns.note(DispatchGroup::of(&order));
                    let lease = LocalLease {
                        order,
                        length: self.lease,
                        folder,
                        path,
                        file,
                    };
                    return Ok(Some(Box::new(lease) as Box<dyn TaskLease>));
                }
            }
            Ok(None)
        })
    }

    /// The state of a task says which group it is in.
    fn note_change(&mut self, _subject: &str) {}
}

/// Takes the lease of a task, unless another worker has it. Only under the lock of the folder.
fn lease(path: &Path, now: UnixTime, length: Duration) -> io::Result<Option<File>> {
    match open::open(path, OFlags::RDWR) {
        Ok(mut there) => {
            let mut text = String::new();
            there.read_to_string(&mut text)?;
            let until = text
                .trim_end()
                .split_once(' ')
                .and_then(|(until, whose)| Some((until.parse().ok()?, whose)));
            let (until, whose) = until.unwrap_or((0, "held"));
            let is_ahead = now.0 < until && until < now.0 + millis(FARTHEST);
            let is_held = whose == "held" && there.try_lock().is_err();
            if is_ahead && (is_held || whose == "back") {
                return Ok(None);
            }
            fs::remove_file(path)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let file = open::open(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
    file.try_lock().map_err(io::Error::from)?;
    write_until(&file, now, length, "held")?;
    Ok(Some(file))
}

fn write_until(mut file: &File, now: UnixTime, length: Duration, whose: &str) -> io::Result<()> {
    file.rewind()?;
    // Of the same length always, so that no reader finds half of it.
    file.write_all(format!("{:020} {whose}\n", now.0 + millis(length)).as_bytes())
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX / 4)
}

impl LocalLease {
    /// Whether the lease is still this worker's.
    fn is_ours(&self) -> io::Result<bool> {
        match fs::symlink_metadata(&self.path) {
            Ok(there) => Ok(there.ino() == self.file.metadata()?.ino()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Changes the lease, if it is still this worker's.
    fn change<'a>(
        &'a self,
        change: impl FnOnce(&Self) -> io::Result<()> + Send + 'a,
    ) -> QueueFuture<'a, ()> {
        Box::pin(async {
            let _lock = self.folder.locked().await?;
            let changed = self
                .is_ours()
                .and_then(|ours| if ours { change(self) } else { Ok(()) });
            Ok(changed.map_err(|cause| self.folder.error(&cause))?)
        })
    }
}

impl TaskLease for LocalLease {
    fn order(&self) -> &TaskSpec {
        &self.order
    }

    fn length(&self) -> Duration {
        self.length
    }

    fn is_for(&self, order: &TaskSpec) -> bool {
        QueueTaskKey::of(order) == QueueTaskKey::of(&self.order)
    }

    fn keep(&self) -> QueueFuture<'_, ()> {
        self.change(|lease| write_until(&lease.file, now(), lease.length, "held"))
    }

    fn done(&self) -> QueueFuture<'_, ()> {
        self.change(|lease| fs::remove_file(&lease.path))
    }

    fn back(&self, after: Duration) -> QueueFuture<'_, ()> {
        self.change(move |lease| {
            if after.is_zero() {
                fs::remove_file(&lease.path)
            } else {
                write_until(&lease.file, now(), after, "back")
            }
        })
    }
}
