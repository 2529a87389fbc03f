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
    path::{Path, PathBuf},
};

use super::{ENTRIES, FileStamps, PATIENCE, differing, git, off_the_loop, stamp, walk};

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
            let (place, looked) = off_the_loop(move || {
                let looked = look_at(&folder, &place, listed);
                (place, looked)
            })
            .await?;
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
        let files = walk::files(&folder.join(place), ENTRIES, PATIENCE)?;
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
