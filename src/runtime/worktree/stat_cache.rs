//! Whether a repository's work tree has changed since git looked at it, found out without git.
//!
//! Starting git takes longer than everything else that creel does in an iteration. So creel
//! remembers the stamps of all files and folders that git does not ignore, and of git's own files
//! that decide what it says. If nothing has changed since but files that are uncommitted whatever
//! they contain, git would name the same files again.
//!
//! Remembers nothing where that is not certain: with submodules, whose commits are elsewhere, and
//! on file systems whose times are coarse or come from another machine.
//!
//! # Invariants
//! - If in doubt, the answer is "unknown", and git is asked.
//! - A change that happened while git looked is never taken for an old one: what is younger than
//!   the start of git makes the memory useless, unless git has listed the file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{FileStamp, FileStamps, OURS, git::GitRepository};
use crate::{journal::FileTimePrecision, process::path_guard::git::GitFolders};

/// How many files and folders to remember. Looking at more takes as long as git does.
const REMEMBERED: usize = 5_000;
/// The largest size that the index can store.
const INDEX_MAX: u64 = 0xffff_ffff;
/// How exactly file systems know the time.
const PRECISION: Duration = Duration::from_millis(20);
/// Files that decide what git says about other files, in any folder.
const RULES: [&str; 3] = [".gitignore", ".gitattributes", ".gitmodules"];

#[derive(Debug, Clone)]
pub(super) struct StatCache {
    /// By their paths in the project's folder, in this order.
    files: Vec<(PathBuf, ExactStamp)>,
    folders: Vec<(PathBuf, ExactStamp)>,
    /// Git's own files.
    repository: GitFiles,
    /// The uncommitted files.
    dirty: BTreeMap<PathBuf, LastingChange>,
    /// Whether nothing changed while git looked, and everything could be read. Otherwise only the
    /// sizes of clean files are of use.
    is_certain: bool,
}

/// When an uncommitted file is certainly still uncommitted after another change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastingChange {
    /// Git does not track it.
    Always,
    /// If its size is not the size that it had when it was clean.
    UnlessSize(u64),
    /// Its clean size is unknown, so only git can tell.
    Unknown,
}

impl LastingChange {
    /// Whether a file that now has this size is certainly uncommitted.
    const fn holds_for(self, size: u64) -> bool {
        match self {
            Self::Always => true,
            // The index has 32 bits for a size, and larger files have special rules.
            Self::UnlessSize(clean) => size <= INDEX_MAX && size != clean & INDEX_MAX,
            Self::Unknown => false,
        }
    }
}

/// What git said, and when.
pub(super) struct GitAnswer<'a> {
    pub(super) dirty: &'a FileStamps,
    pub(super) untracked: &'a BTreeSet<PathBuf>,
    /// The folders that git skipped.
    pub(super) ignored: &'a BTreeSet<PathBuf>,
    /// When git was started.
    pub(super) since: SystemTime,
    /// Git's own files, before it was started. None if what git says depends on more than files.
    pub(super) repository: Option<GitFiles>,
    /// The sizes of clean files according to the index.
    pub(super) clean_sizes: BTreeMap<PathBuf, u64>,
}

/// The files on which git's answer depends besides the work tree: the index, the commit, settings,
/// and what to ignore.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GitFiles(Vec<(PathBuf, Option<ExactStamp>)>);

/// Unlike [`FileStamp`], this also differs for another file of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ExactStamp {
    stamp: FileStamp,
    inode: u64,
}

impl ExactStamp {
    fn of(meta: &fs::Metadata) -> Self {
        Self {
            stamp: FileStamp::of(meta),
            inode: meta.ino(),
        }
    }

    fn at(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().map(|meta| Self::of(&meta))
    }

    fn is_after(&self, time: (i64, i64)) -> bool {
        self.stamp.modified >= time || self.stamp.changed >= time
    }
}

impl StatCache {
    /// Remembers everything that git has just looked at. `None` if there is too much.
    pub(super) fn learn(
        folder: &Path,
        answer: &GitAnswer<'_>,
        before: Option<&Self>,
    ) -> Option<Self> {
        let young = young(answer.since);
        let repository = answer
            .repository
            .as_ref()
            .filter(|files| files.are_unchanged());
        // With another index, other contents count as clean.
        let before = before.filter(|before| Some(&before.repository) == repository);
        let dirty = lasting_changes(answer, before);
        let mut seen = Self {
            files: Vec::new(),
            folders: Vec::new(),
            is_certain: repository.is_some() && has_exact_times(folder),
            repository: repository.cloned().unwrap_or_default(),
            dirty,
        };
        let mut left = vec![PathBuf::new()];
        while let Some(place) = left.pop() {
            match seen.learn_folder(folder, place, young) {
                Ok(folders) => left.extend(
                    folders
                        .into_iter()
                        .filter(|name| !answer.ignored.contains(name)),
                ),
                Err(_) => seen.is_certain = false,
            }
            if seen.files.len() + seen.folders.len() > REMEMBERED {
                return None;
            }
        }
        // What changed since the answer's stamps were taken would never be noticed.
        let is_new = |(name, now): &(PathBuf, ExactStamp)| {
            answer
                .dirty
                .get(name)
                .is_some_and(|it| *it != Some(now.stamp))
        };
        seen.is_certain &= !seen.files.iter().any(is_new);
        seen.files
            .sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Some(seen)
    }

    /// Remembers the files of one folder, and returns the folders in it.
    fn learn_folder(
        &mut self,
        root: &Path,
        place: PathBuf,
        young: (i64, i64),
    ) -> io::Result<Vec<PathBuf>> {
        let path = root.join(&place);
        let stamp = ExactStamp::of(&fs::symlink_metadata(&path)?);
        self.is_certain &= !stamp.is_after(young);
        let mut folders = Vec::new();
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            let (name, meta) = (place.join(entry.file_name()), entry.metadata()?);
            // A submodule: its commit and its index are elsewhere.
            self.is_certain &= place.as_os_str().is_empty() || entry.file_name() != ".git";
            if meta.is_dir() {
                let skipped = name == Path::new(OURS) || entry.file_name() == ".git";
                folders.extend((!skipped).then_some(name));
                continue;
            }
            let stamp = ExactStamp::of(&meta);
            let lasts = self
                .dirty
                .get(&name)
                .map(|lasting| lasting.holds_for(stamp.stamp.size));
            // A young file may have changed after git looked.
            if stamp.is_after(young) && !lasts.unwrap_or(false) {
                self.is_certain = false;
            }
            if !stamp.is_after(young) || lasts.is_some() {
                self.files.push((name, stamp));
            }
        }
        self.folders.push((place, stamp));
        Ok(folders)
    }

    /// Whether git would name the same files as uncommitted. Then `dirty` gets their present
    /// stamps.
    pub(super) fn still_holds(&mut self, folder: &Path, dirty: &mut FileStamps) -> bool {
        let unchanged = |(place, stamp): &(PathBuf, ExactStamp)| {
            ExactStamp::at(&folder.join(place)) == Some(*stamp)
        };
        if !self.is_certain
            || !self.repository.are_unchanged()
            || !self.folders.iter().all(unchanged)
        {
            return false;
        }
        for (name, stamp) in &mut self.files {
            let now = ExactStamp::at(&folder.join(&*name));
            if now == Some(*stamp) {
                continue;
            }
            if RULES.iter().any(|rules| name.ends_with(rules)) {
                return false;
            }
            // A clean file may be dirty now or only have been touched, and a dirty one may be
            // clean: git can tell.
            let (Some(now), Some(listed), Some(lasting)) =
                (now, dirty.get_mut(name), self.dirty.get(name))
            else {
                return false;
            };
            if !lasting.holds_for(now.stamp.size) {
                return false;
            }
            (*stamp, *listed) = (now, Some(now.stamp));
        }
        true
    }

    /// Those of the uncommitted files whose clean sizes only git can know, and which it has not
    /// been asked about.
    pub(super) fn without_size<'a>(
        tracked: impl Iterator<Item = &'a PathBuf>,
        repository: &GitFiles,
        before: Option<&Self>,
    ) -> Vec<&'a Path> {
        let before = before.filter(|before| before.repository == *repository);
        let is_unknown = |name: &&PathBuf| {
            let was_asked = before.is_some_and(|before| before.dirty.contains_key(*name));
            !was_asked && before.and_then(|before| before.clean_size(name)).is_none()
        };
        tracked.filter(is_unknown).map(PathBuf::as_path).collect()
    }

    /// The size of a file when it was clean, if it was clean in this memory or before.
    fn clean_size(&self, name: &Path) -> Option<u64> {
        match self.dirty.get(name) {
            Some(LastingChange::UnlessSize(size)) => Some(*size),
            Some(LastingChange::Always | LastingChange::Unknown) => None,
            None => {
                let at = self
                    .files
                    .binary_search_by(|(file, _)| file.as_path().cmp(name))
                    .ok()?;
                Some(self.files[at].1.stamp.size)
            }
        }
    }
}

fn lasting_changes(
    answer: &GitAnswer<'_>,
    before: Option<&StatCache>,
) -> BTreeMap<PathBuf, LastingChange> {
    let of = |name: &PathBuf| {
        let lasting = if answer.untracked.contains(name) {
            LastingChange::Always
        } else {
            let size = before.and_then(|before| before.clean_size(name));
            let size = size.or_else(|| answer.clean_sizes.get(name).copied());
            size.map_or(LastingChange::Unknown, LastingChange::UnlessSize)
        };
        (name.clone(), lasting)
    };
    answer.dirty.keys().map(of).collect()
}

/// What changed from this time on may have changed after git was started at `since`.
fn young(since: SystemTime) -> (i64, i64) {
    let young = since
        .checked_sub(PRECISION)
        .and_then(|since| since.duration_since(UNIX_EPOCH).ok());
    young.map_or((0, 0), |since| {
        (
            since.as_secs().cast_signed(),
            i64::from(since.subsec_nanos()),
        )
    })
}

/// Whether the times of files there are exact, and those of this machine.
fn has_exact_times(folder: &Path) -> bool {
    File::open(folder)
        .is_ok_and(|folder| FileTimePrecision::of(&folder) == FileTimePrecision::Exact)
}

impl GitFiles {
    /// Those of the repository around a folder. None if there is more that creel would have to
    /// know.
    pub(super) fn around(folder: &Path) -> Option<Self> {
        let git = GitFolders::around(folder)?;
        let (own, common) = (git.own(), git.common());
        // There the commit is in tables whose names change.
        if common.join("reftable").exists() {
            return None;
        }
        let head = own.join("HEAD");
        let branch = fs::read_to_string(&head)
            .ok()?
            .strip_prefix("ref: ")
            .map(|name| common.join(name.trim_end()));
        let above = git.root().map(|root| {
            folder
                .ancestors()
                .take_while(move |above| above.starts_with(root))
        });
        let rules = above
            .into_iter()
            .flatten()
            .flat_map(|above| RULES.map(|rules| above.join(rules)));
        let shared = ["packed-refs", "info/exclude", "info/attributes", "config"]
            .map(|name| common.join(name));
        let fixed = [own.join("index"), own.join("config.worktree"), head];
        Some(Self::stamped(
            fixed.into_iter().chain(shared).chain(branch).chain(rules),
        ))
    }

    /// Those outside the repository. None if they are unknown, or if one may have changed since
    /// that time.
    pub(super) async fn of_settings(repository: &GitRepository, since: SystemTime) -> Option<Self> {
        let Self(files) = Self::stamped(repository.settings().await?.into_iter());
        let is_old = |(_, stamp): &(PathBuf, Option<ExactStamp>)| {
            !stamp.is_some_and(|it| it.is_after(young(since)))
        };
        files.iter().all(is_old).then_some(Self(files))
    }

    pub(super) fn with(mut self, more: &Self) -> Self {
        self.0.extend(more.0.iter().cloned());
        self
    }

    fn stamped(paths: impl Iterator<Item = PathBuf>) -> Self {
        let stamped = |path: PathBuf| {
            let stamp = ExactStamp::at(&path);
            (path, stamp)
        };
        Self(paths.map(stamped).collect())
    }

    pub(super) fn are_unchanged(&self) -> bool {
        self.0
            .iter()
            .all(|(path, stamp)| ExactStamp::at(path) == *stamp)
    }
}
