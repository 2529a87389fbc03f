//! What there is in the project's folder, and what changed in it since.
//!
//! Owns two ways to find out: from git where there is a repository, else by looking at every file. Does not say who made
//! a change: whoever asks before and after some work knows.
//!
//! # Invariants
//! - Nothing is changed, locked or written, in the folder or in the repository.
//! - It takes a bounded time and a bounded memory; a folder that is too large for that is not known, instead of half known.
//! - A file that was changed before, and not since, is not told as changed.

mod contents;
mod git;
mod nested;
mod walk;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

pub use contents::DigestMemory;
use nested::NestedFiles;

use crate::engine::conversation::WorktreeChanges;

/// How long one look may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many files are looked at.
const ENTRIES: usize = 20_000;
/// So few files are looked at on the spot: to wake another thread costs more than that, above all on a busy machine.
const FEW: usize = 256;
/// How long that may take.
const MOMENT: Duration = Duration::from_millis(5);
/// How many names a list tells; what is beyond is counted.
pub const NAMED: usize = 500;
/// creel's own folder, which is never told.
const OURS: &str = ".creel";

/// What tells a file from itself at another time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    size: u64,
    modified: (i64, i64),
    mode: u32,
}

/// Files by their names; `None` for one that is not there.
type FileStamps = BTreeMap<PathBuf, Option<FileStamp>>;

/// What was in the project's folder at a moment.
#[derive(Debug, Clone)]
pub struct WorktreeSnapshot {
    folder: PathBuf,
    seen: SnapshotContent,
}

#[derive(Debug, Clone)]
enum SnapshotContent {
    /// A repository: the commit that it stands on, the files that are not committed, and the files of other repositories
    /// inside of it.
    Repository { repository: git::GitRepository, head: Option<String>, dirty: FileStamps, nested: NestedFiles },
    /// All files.
    Files(FileStamps),
    /// Too large, or too slow to look at.
    Unknown,
}

/// Looks at a folder. `mark` is what its processes are marked with, so that they are found if creel dies.
pub async fn survey(folder: &Path, mark: &str) -> WorktreeSnapshot {
    let seen = tokio::time::timeout(PATIENCE, look(folder, mark)).await.unwrap_or(SnapshotContent::Unknown);
    WorktreeSnapshot { folder: folder.to_owned(), seen }
}

async fn look(folder: &Path, mark: &str) -> SnapshotContent {
    if let Some(repository) = git::GitRepository::around(folder, mark) {
        match repository.status().await {
            Ok(git::WorktreeStatus { head, changed, nested }) => {
                let Some(nested) = NestedFiles::look(&repository, folder, nested).await else {
                    return SnapshotContent::Unknown;
                };
                return match stamps(folder, changed).await {
                    Some(dirty) => SnapshotContent::Repository { repository, head, dirty, nested },
                    None => SnapshotContent::Unknown,
                };
            }
            Err(git::GitStatusError::TooMuch) => return SnapshotContent::Unknown,
            // As if there were no repository.
            Err(git::GitStatusError::No) => {}
        }
    }
    if let Some(files) = walk::files(folder, FEW, MOMENT) {
        return SnapshotContent::Files(files);
    }
    let place = folder.to_owned();
    off_the_loop(move || walk::files(&place, ENTRIES, PATIENCE))
        .await
        .flatten()
        .map_or(SnapshotContent::Unknown, SnapshotContent::Files)
}

impl WorktreeSnapshot {
    /// Whether it failed because of the size or the slowness of the folder: it will the next time, too.
    pub fn is_hopeless(&self) -> bool {
        matches!(self.seen, SnapshotContent::Unknown)
    }

    /// What changed since an earlier look at the same folder, unless that is not known. [`DigestMemory`] adds the contents.
    pub async fn changes_since(&self, earlier: &Self) -> Option<WorktreeChanges> {
        let (files_modified, commit, dirty) = match (&self.seen, &earlier.seen) {
            (
                SnapshotContent::Repository { repository, head, dirty, nested },
                SnapshotContent::Repository { head: old, dirty: before, nested: nested_before, .. },
            ) => {
                let moved = head != old;
                let committed = match head.as_deref().filter(|_| moved) {
                    Some(new) => {
                        tokio::time::timeout(PATIENCE, repository.between(old.as_deref(), new)).await.ok()?.ok()?
                    }
                    None => Vec::new(),
                };
                let mut changed = self.changed(before, dirty, committed).await?;
                changed.extend(nested.changed_since(nested_before));
                (told(&changed), head.clone(), told(dirty.keys()))
            }
            (SnapshotContent::Files(now), SnapshotContent::Files(before)) => {
                let names = now.keys().chain(before.keys()).filter(|name| now.get(*name) != before.get(*name));
                (told(names.collect::<BTreeSet<_>>()), None, Vec::new())
            }
            (SnapshotContent::Repository { .. } | SnapshotContent::Files(_) | SnapshotContent::Unknown, _) => {
                return None;
            }
        };
        let ((files_modified, more_modified), (dirty, more_dirty)) = (cut(files_modified), cut(dirty));
        Some(WorktreeChanges { files_modified, more_modified, commit, dirty, more_dirty, ..WorktreeChanges::default() })
    }

    /// What was clean and is not, or is committed now, has changed. What was not clean has changed if it looks different.
    async fn changed(
        &self,
        before: &FileStamps,
        dirty: &FileStamps,
        committed: Vec<PathBuf>,
    ) -> Option<BTreeSet<PathBuf>> {
        let settled = before.keys().filter(|name| !dirty.contains_key(*name)).cloned().collect();
        let settled = stamps(&self.folder, settled).await?;
        let now = |name: &PathBuf| dirty.get(name).or_else(|| settled.get(name));
        let fresh = dirty.keys().chain(&committed).filter(|name| !before.contains_key(*name));
        let touched = before.iter().filter(|(name, stamp)| now(name) != Some(*stamp)).map(|(name, _)| name);
        Some(fresh.chain(touched).cloned().collect())
    }
}

/// Names as they are told: without what is creel's own.
fn told<'a>(names: impl IntoIterator<Item = &'a PathBuf>) -> Vec<String> {
    names.into_iter().filter(|name| !name.starts_with(OURS)).map(|name| name.to_string_lossy().into_owned()).collect()
}

/// As much of a list as is told, and how much is not.
fn cut(mut names: Vec<String>) -> (Vec<String>, usize) {
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    (names, more)
}

/// How files look now.
async fn stamps(folder: &Path, names: Vec<PathBuf>) -> Option<FileStamps> {
    let look = |folder: &Path, names: Vec<PathBuf>| -> FileStamps {
        let stamped = |name: PathBuf| (name.clone(), stamp(&folder.join(name)));
        names.into_iter().map(stamped).collect()
    };
    if names.len() <= FEW {
        return Some(look(folder, names));
    }
    let folder = folder.to_owned();
    off_the_loop(move || look(&folder, names)).await
}

/// Of a link itself, not of what it leads to. A folder is a nested repository, whose files have stamps of their own.
fn stamp(path: &Path) -> Option<FileStamp> {
    let meta = fs::symlink_metadata(path).ok()?;
    let stamp = FileStamp::of(&meta);
    Some(if meta.is_dir() { FileStamp { size: 0, modified: (0, 0), ..stamp } } else { stamp })
}

impl FileStamp {
    fn of(meta: &fs::Metadata) -> Self {
        Self { size: meta.len(), modified: (meta.mtime(), meta.mtime_nsec()), mode: meta.mode() }
    }
}

/// Looks at files where waiting for them holds nobody.
async fn off_the_loop<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}
