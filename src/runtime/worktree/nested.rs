//! Repositories inside the project's repository: clones, submodules, other work trees.
//!
//! Git reports such a repository as a single entry, whatever changes in it. So creel compares its
//! files one by one.
//!
//! # Invariants
//! - An agent can write the settings of a nested repository. So git only lists names there. It runs
//!   no program and fetches nothing that those settings name.
//! - If there is too much to look at, the whole survey is unknown. A change is never missed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{ENTRIES, FileStamp, FileStamps, OURS, PATIENCE, differing, git, stamp};

/// How many nested repositories are surveyed: each needs a process.
const REPOSITORIES: usize = 64;

/// The files of each nested repository, by the repository's path. All paths are relative to the
/// project's folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NestedFiles(BTreeMap<PathBuf, FileStamps>);

impl NestedFiles {
    /// Surveys these repositories and those inside them. None if there is too much to look at.
    pub(super) async fn look(
        repository: &git::GitRepository,
        folder: &Path,
        mut found: Vec<PathBuf>,
    ) -> Option<Self> {
        let mut seen = Self::default();
        let mut files = 0;
        while let Some(place) = found.pop() {
            if seen.0.len() >= REPOSITORIES {
                return None;
            }
            let listed = match repository.files_of_nested(&place).await {
                Ok(names) => Some(names),
                Err(git::GitStatusError::TooMuch) => return None,
                Err(git::GitStatusError::No) => None,
            };
            let folder = folder.to_owned();
            let (place, looked) = tokio::task::spawn_blocking(move || {
                let looked = look_at(&folder, &place, listed);
                (place, looked)
            })
            .await
            .ok()?;
            let FilesInside {
                stamps,
                repositories,
            } = looked?;
            files += stamps.len();
            if files > ENTRIES {
                return None;
            }
            found.extend(repositories);
            seen.0.insert(place, stamps);
        }
        Some(seen)
    }

    /// The files that changed since an earlier survey. A repository that only one of the surveys
    /// contains is listed itself.
    pub(super) fn changed_since(&self, earlier: &Self) -> BTreeSet<PathBuf> {
        let mut changed = BTreeSet::new();
        for place in self.0.keys().chain(earlier.0.keys()) {
            match (self.0.get(place), earlier.0.get(place)) {
                (Some(now), Some(before)) => changed.extend(differing(now, before).cloned()),
                (Some(_), None) | (None, _) => drop(changed.insert(place.clone())),
            }
        }
        changed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, name: &Path) -> bool {
        self.0.keys().any(|place| name.starts_with(place))
    }
}

struct FilesInside {
    stamps: FileStamps,
    repositories: Vec<PathBuf>,
}

/// Stamps the files that git listed, or all files if git could not read the repository.
fn look_at(folder: &Path, place: &Path, listed: Option<Vec<PathBuf>>) -> Option<FilesInside> {
    let Some(listed) = listed else {
        let files = walked_files(&folder.join(place), ENTRIES, PATIENCE)?;
        let stamps = files
            .into_iter()
            .map(|(name, stamp)| (place.join(name), stamp))
            .collect();
        return Some(FilesInside {
            stamps,
            repositories: Vec::new(),
        });
    };
    let names: BTreeSet<PathBuf> = listed.into_iter().map(|name| place.join(name)).collect();
    let (repositories, files) = names.into_iter().partition(|name: &PathBuf| {
        let path = folder.join(name);
        !path.is_symlink() && path.is_dir()
    });
    let stamps = Vec::into_iter(files)
        .map(|name: PathBuf| (name.clone(), stamp(&folder.join(name))))
        .collect();
    Some(FilesInside {
        stamps,
        repositories,
    })
}

/// Folders of tools, caches and build output, which are skipped.
const PASSED_OVER: [&str; 16] = [
    OURS,
    ".git",
    ".hg",
    ".svn",
    ".jj",
    "target",
    "node_modules",
    ".venv",
    "venv",
    "__pycache__",
    ".tox",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".gradle",
    ".next",
];

/// All files, or None if there are more entries than `most` or it lasts longer than `patience`.
/// Does not follow links.
pub(super) fn walked_files(root: &Path, most: usize, patience: Duration) -> Option<FileStamps> {
    let deadline = Instant::now() + patience;
    let mut found = FileStamps::new();
    let mut entries = 0;
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        // A folder that was deleted or that creel cannot read counts as empty.
        let Ok(inside) = fs::read_dir(root.join(&folder)) else {
            continue;
        };
        for entry in inside.flatten() {
            entries += 1;
            if entries > most || Instant::now() > deadline {
                return None;
            }
            let name = entry.file_name();
            let Ok(meta) = entry.metadata() else { continue };
            if !meta.is_dir() {
                found.insert(folder.join(name), Some(FileStamp::of(&meta)));
            } else if !PASSED_OVER.iter().any(|passed| name == *passed) {
                folders.push(folder.join(name));
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_too_many_entries_no_list_is_returned() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a", "b", "c"] {
            fs::write(folder.path().join(name), name).expect("a file");
        }
        let found = |most| {
            walked_files(folder.path(), most, Duration::from_mins(1)).map(|found| found.len())
        };
        assert_eq!((found(3), found(2)), (Some(3), None));
    }
}
