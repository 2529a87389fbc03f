//! The files in the project's folder, and what changed between two surveys.
//!
//! Owns two ways to find out: from git where there is a repository, otherwise from every file. Does
//! not attribute changes: the caller surveys before and after some work.
//!
//! # Invariants
//! - A survey changes, locks and writes nothing, in the folder or in the repository.
//! - A survey has limited time and memory. A folder that is too large is unknown, never half known.
//! - A file that was modified before the first survey, and not since, is not reported.

mod changed_tests;
mod contents;
mod git;
mod stat_cache;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

pub use changed_tests::compare_tests;
pub use contents::DigestMemory;
use contents::NestedFiles;
pub use contents::count_lines;
use git::{ENTRIES, OURS};
use stat_cache::{GitAnswer, GitFiles, StatCache};

use crate::engine::{conversation::WorktreeChanges, verify::MeasuredChanges};

/// Time limit for one survey.
const PATIENCE: Duration = Duration::from_secs(5);
/// Up to this many files are read on the current thread: waking another one costs more, above all
/// on a busy machine.
const FEW: usize = 256;
/// Time limit for reading on the current thread.
const MOMENT: Duration = Duration::from_millis(5);
/// The maximum number of names in a list. The rest is counted.
pub const NAMED: usize = 500;

/// If one of these differs, the file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    size: u64,
    modified: (i64, i64),
    /// When anything about the file changed. Unlike the time above, no program can set it back.
    changed: (i64, i64),
    mode: u32,
}

/// Files by name. `None` if the file does not exist.
type FileStamps = BTreeMap<PathBuf, Option<FileStamp>>;

#[derive(Debug, Clone)]
pub struct WorktreeSnapshot {
    folder: PathBuf,
    seen: SnapshotContent,
}

#[derive(Debug, Clone)]
enum SnapshotContent {
    /// The commit, the uncommitted files, and the files that git does not compare.
    Repository {
        repository: git::GitRepository,
        head: Option<String>,
        dirty: FileStamps,
        /// The names in `dirty` that git does not track.
        untracked: BTreeSet<PathBuf>,
        nested: NestedFiles,
        /// Tracked files whose changes git was status not to report.
        hidden: FileStamps,
    },
    /// All files of a folder without a repository.
    Files(FileStamps),
    /// Too large, or too slow to survey.
    Unknown,
}

/// Surveys one folder again and again, and asks git only if something can have changed.
#[derive(Debug)]
pub struct WorktreeSurveyor {
    folder: PathBuf,
    /// Marks the processes that this starts, so that creel finds them after a crash.
    mark: String,
    last: Option<LastSurvey>,
    /// Whether the repository is small enough to remember.
    ignored: git::IgnoredFolders,
    /// Git's settings outside the repository. None if they are not known yet.
    settings: Option<GitFiles>,
}

#[derive(Debug)]
struct LastSurvey {
    snapshot: WorktreeSnapshot,
    at: Instant,
    cache: Option<StatCache>,
}

impl WorktreeSurveyor {
    pub fn new(folder: PathBuf, mark: String) -> Self {
        Self {
            folder,
            mark,
            last: None,
            ignored: git::IgnoredFolders::Listed,
            settings: None,
        }
    }

    /// For the tracked files of the whole repository, if the folder is only a part of it; and the
    /// path from its root to the folder.
    pub fn around(folder: &Path, mark: &str) -> Option<(Self, PathBuf)> {
        let (root, part) = git::GitRepository::around(folder, mark)?.root()?;
        Some((
            Self {
                ignored: git::IgnoredFolders::OnlyTracked,
                ..Self::new(root, mark.to_owned())
            },
            part,
        ))
    }

    /// The last survey, if it is not older than this.
    pub fn latest(&self, within: Duration) -> Option<WorktreeSnapshot> {
        self.last
            .as_ref()
            .filter(|last| last.at.elapsed() < within)
            .map(|last| last.snapshot.clone())
    }

    pub async fn survey(&mut self) -> WorktreeSnapshot {
        let at = Instant::now();
        let mut before = self.last.take();
        if let Some(last) = &mut before
            && last.is_renewed()
        {
            last.at = at;
            let snapshot = last.snapshot.clone();
            self.last = before;
            return snapshot;
        }
        let before = before.and_then(|last| last.cache);
        let looked = tokio::time::timeout(PATIENCE, self.look(before.as_ref())).await;
        let (seen, cache) = looked.unwrap_or((SnapshotContent::Unknown, None));
        let snapshot = WorktreeSnapshot {
            folder: self.folder.clone(),
            seen,
        };
        self.last = Some(LastSurvey {
            snapshot: snapshot.clone(),
            at,
            cache,
        });
        snapshot
    }

    async fn look(&mut self, before: Option<&StatCache>) -> (SnapshotContent, Option<StatCache>) {
        let folder = self.folder.as_path();
        if let Some(repository) = git::GitRepository::around(folder, &self.mark) {
            let files = GitFiles::around(folder);
            let since = SystemTime::now();
            let known = self.settings.take().filter(GitFiles::are_unchanged);
            let settings = async {
                match known {
                    Some(known) => Some(known),
                    None => GitFiles::of_settings(&repository, since).await,
                }
            };
            let (mut status, hidden, settings) = tokio::join!(
                repository.status(self.ignored),
                repository.hidden(),
                settings
            );
            let files = files
                .zip(settings.as_ref())
                .map(|(files, settings)| files.with(settings));
            self.settings = settings;
            if matches!(status, Err(git::GitStatusError::TooMuch))
                && self.ignored == git::IgnoredFolders::Listed
            {
                self.ignored = git::IgnoredFolders::Omitted;
                status = repository.status(self.ignored).await;
            }
            match status.and_then(|status| Ok((status, hidden?))) {
                Ok((status, hidden)) => {
                    return self
                        .look_at(repository, (status, hidden), (since, files), before)
                        .await;
                }
                Err(git::GitStatusError::TooMuch) => return (SnapshotContent::Unknown, None),
                // Treat it as a folder without a repository.
                Err(git::GitStatusError::No) => {}
            }
        }
        if let Some(files) = contents::walked_files(folder, FEW, MOMENT) {
            return (SnapshotContent::Files(files), None);
        }
        let place = folder.to_owned();
        let files =
            tokio::task::spawn_blocking(move || contents::walked_files(&place, ENTRIES, PATIENCE))
                .await
                .ok()
                .flatten();
        (
            files.map_or(SnapshotContent::Unknown, SnapshotContent::Files),
            None,
        )
    }

    async fn look_at(
        &mut self,
        repository: git::GitRepository,
        (status, hidden): (git::WorktreeStatus, Vec<PathBuf>),
        (since, files): (SystemTime, Option<GitFiles>),
        before: Option<&StatCache>,
    ) -> (SnapshotContent, Option<StatCache>) {
        let git::WorktreeStatus {
            head,
            changed,
            nested,
            untracked,
            ignored,
        } = status;
        let nested = NestedFiles::look(&repository, &self.folder, nested).await;
        let Some(nested) = nested else {
            return (SnapshotContent::Unknown, None);
        };
        let remembers = self.ignored == git::IgnoredFolders::Listed && nested.is_empty();
        let mut clean_sizes = BTreeMap::new();
        if let Some(files) = files.as_ref().filter(|_| remembers) {
            let tracked = changed.iter().filter(|name| !untracked.contains(*name));
            let unknown = StatCache::without_size(tracked, files, before);
            if !unknown.is_empty() && unknown.len() <= FEW {
                clean_sizes = repository.clean_sizes(&unknown).await;
            }
        }
        // Last, so that little can change between these stamps and those in the memory.
        let looked = (
            stamps(&self.folder, changed).await,
            stamps(&self.folder, hidden).await,
        );
        let (Some(dirty), Some(hidden)) = looked else {
            return (SnapshotContent::Unknown, None);
        };
        let mut cache = None;
        if remembers {
            let (dirty, untracked, ignored) = (&dirty, &untracked, &ignored);
            let answer = GitAnswer {
                dirty,
                untracked,
                ignored,
                since,
                repository: files,
                clean_sizes,
            };
            cache = StatCache::learn(&self.folder, &answer, before);
            if cache.is_none() {
                self.ignored = git::IgnoredFolders::Omitted;
            }
        }
        (
            SnapshotContent::Repository {
                repository,
                head,
                dirty,
                untracked,
                nested,
                hidden,
            },
            cache,
        )
    }
}

impl LastSurvey {
    /// Updates the stamps of the uncommitted files. Returns false if git has to be asked.
    fn is_renewed(&mut self) -> bool {
        let SnapshotContent::Repository { dirty, .. } = &mut self.snapshot.seen else {
            return false;
        };
        self.cache
            .as_mut()
            .is_some_and(|cache| cache.still_holds(&self.snapshot.folder, dirty))
    }
}

impl WorktreeSnapshot {
    /// Whether the folder is too large or too slow, so that the next survey would fail as well.
    pub fn is_hopeless(&self) -> bool {
        matches!(self.seen, SnapshotContent::Unknown)
    }

    /// The changes since an earlier survey of the same folder. None if unknown. [`DigestMemory`]
    /// adds the contents.
    pub async fn changes_since(&self, earlier: &Self) -> Option<WorktreeChanges> {
        let mut changes = self.all_changes_since(earlier).await?;
        (changes.files_modified, changes.more_modified) = cut(changes.files_modified);
        (changes.dirty, changes.more_dirty) = cut(changes.dirty);
        Some(changes)
    }

    /// The same with all names.
    async fn all_changes_since(&self, earlier: &Self) -> Option<WorktreeChanges> {
        let (files_modified, commit, dirty, before) = match (&self.seen, &earlier.seen) {
            (
                SnapshotContent::Repository {
                    repository,
                    head,
                    dirty,
                    nested,
                    hidden,
                    ..
                },
                SnapshotContent::Repository {
                    head: old,
                    dirty: before,
                    nested: nested_before,
                    hidden: hidden_before,
                    ..
                },
            ) => {
                let moved = head != old;
                let committed = match head.as_deref().filter(|_| moved) {
                    Some(new) => {
                        tokio::time::timeout(PATIENCE, repository.between(old.as_deref(), new))
                            .await
                            .ok()?
                            .ok()?
                    }
                    None => Vec::new(),
                };
                let mut changed = self.changed(before, dirty, committed).await?;
                changed.extend(nested.changed_since(nested_before));
                changed.extend(differing(hidden, hidden_before).cloned());
                let before = if moved || head.is_none() {
                    Some(old.as_deref().unwrap_or(git::NOTHING))
                } else {
                    None
                };
                (
                    reported_names(&self.folder, &changed),
                    head.clone(),
                    reported_names(&self.folder, dirty.keys()),
                    before.map(str::to_owned),
                )
            }
            (SnapshotContent::Files(now), SnapshotContent::Files(before)) => (
                reported_names(
                    &self.folder,
                    differing(now, before).collect::<BTreeSet<_>>(),
                ),
                None,
                Vec::new(),
                None,
            ),
            (
                SnapshotContent::Repository { .. }
                | SnapshotContent::Files(_)
                | SnapshotContent::Unknown,
                _,
            ) => {
                return None;
            }
        };
        Some(WorktreeChanges {
            files_modified,
            commit,
            before,
            dirty,
            ..Default::default()
        })
    }

    /// The files that changed since an earlier survey, status by whether git tracks them. None if
    /// unknown.
    pub async fn measured_since(&self, earlier: &Self) -> Option<MeasuredChanges> {
        let changes = self.all_changes_since(earlier).await?;
        let (untracked, tracked) = changes
            .files_modified
            .into_iter()
            .partition(|name| self.is_untracked(Path::new(name), earlier));
        Some(MeasuredChanges { tracked, untracked })
    }

    fn is_untracked(&self, name: &Path, earlier: &Self) -> bool {
        match (&self.seen, &earlier.seen) {
            (
                SnapshotContent::Repository {
                    dirty, untracked, ..
                },
                SnapshotContent::Repository {
                    dirty: dirty_before,
                    untracked: before,
                    ..
                },
            ) => {
                let was_tracked = dirty_before.contains_key(name) && !before.contains(name);
                let is_gone = || before.contains(name) && !self.folder.join(name).exists();
                !was_tracked
                    && (untracked.contains(name) || (!dirty.contains_key(name) && is_gone()))
            }
            (SnapshotContent::Files(_), SnapshotContent::Files(_)) => true,
            (
                SnapshotContent::Repository { .. }
                | SnapshotContent::Files(_)
                | SnapshotContent::Unknown,
                _,
            ) => false,
        }
    }

    /// A file has changed if it was clean and is now dirty or in a new commit, or if it was dirty
    /// and its stamp differs.
    async fn changed(
        &self,
        before: &FileStamps,
        dirty: &FileStamps,
        committed: Vec<PathBuf>,
    ) -> Option<BTreeSet<PathBuf>> {
        let settled = before
            .keys()
            .filter(|name| !dirty.contains_key(*name))
            .cloned()
            .collect();
        let settled = stamps(&self.folder, settled).await?;
        let now = |name: &PathBuf| dirty.get(name).or_else(|| settled.get(name));
        let fresh = dirty
            .keys()
            .chain(&committed)
            .filter(|name| !before.contains_key(*name));
        let touched = before
            .iter()
            .filter(|(name, stamp)| now(name) != Some(*stamp))
            .map(|(name, _)| name);
        Some(fresh.chain(touched).cloned().collect())
    }
}

/// The files that only one of the surveys has, or that changed between them. A name can occur
/// twice.
fn differing<'a>(now: &'a FileStamps, before: &'a FileStamps) -> impl Iterator<Item = &'a PathBuf> {
    now.keys()
        .chain(before.keys())
        .filter(|name| now.get(*name) != before.get(*name))
}

/// Names for the report, without creel's own files and without what it prints into the folder.
fn reported_names<'a>(folder: &Path, names: impl IntoIterator<Item = &'a PathBuf>) -> Vec<String> {
    let printed = own_output();
    let is_own = |name: &Path| {
        let is_printed =
            || file_id(&folder.join(name)).is_some_and(|id| printed.contains(&Some(id)));
        name.starts_with(OURS) || (printed.iter().any(Option::is_some) && is_printed())
    };
    names
        .into_iter()
        .filter(|name| !is_own(name))
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

/// The files that creel's standard streams go to, by device and inode. `creel run --json >
/// out.jsonl` changes no work.
fn own_output() -> [Option<(u64, u64)>; 2] {
    let regular = |stat: rustix::fs::Stat| {
        (rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile)
            .then_some((stat.st_dev, stat.st_ino))
    };
    let out = rustix::fs::fstat(rustix::stdio::stdout()).ok();
    let err = rustix::fs::fstat(rustix::stdio::stderr()).ok();
    [out.and_then(regular), err.and_then(regular)]
}

fn file_id(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Cuts a list to [`NAMED`] names and counts the rest.
fn cut(mut names: Vec<String>) -> (Vec<String>, usize) {
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    (names, more)
}

async fn stamps(folder: &Path, names: Vec<PathBuf>) -> Option<FileStamps> {
    let look = |folder: &Path, names: Vec<PathBuf>| -> FileStamps {
        let stamped = |name: PathBuf| (name.clone(), stamp(&folder.join(name)));
        names.into_iter().map(stamped).collect()
    };
    if names.len() <= FEW {
        return Some(look(folder, names));
    }
    let folder = folder.to_owned();
    tokio::task::spawn_blocking(move || look(&folder, names))
        .await
        .ok()
}

/// Does not follow links. A folder is a nested repository, whose files have stamps of their own.
fn stamp(path: &Path) -> Option<FileStamp> {
    let meta = fs::symlink_metadata(path).ok()?;
    let stamp = FileStamp::of(&meta);
    Some(if meta.is_dir() {
        FileStamp {
            size: 0,
            modified: (0, 0),
            changed: (0, 0),
            ..stamp
        }
    } else {
        stamp
    })
}

impl FileStamp {
    fn of(meta: &fs::Metadata) -> Self {
        let modified = (meta.mtime(), meta.mtime_nsec());
        Self {
            size: meta.len(),
            modified,
            changed: (meta.ctime(), meta.ctime_nsec()),
            mode: meta.mode(),
        }
    }
}
