//! Finds git's config and hooks: in `.git`, or, for a worktree, in the folder that the file `.git`
//! names.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{GIT, HOOKS_MAX};

#[derive(Debug, Clone)]
pub(crate) struct GitFolders {
    /// The folder or the file `.git`.
    entry: PathBuf,
    /// For this work tree only.
    own: PathBuf,
    /// Shared by all work trees.
    common: PathBuf,
}

impl GitFolders {
    pub(crate) fn around(root: &Path) -> Option<Self> {
        let entry = root
            .ancestors()
            .map(|folder| folder.join(GIT))
            .find(|git| git.symlink_metadata().is_ok())?;
        let own = if entry.is_dir() {
            entry.clone()
        } else {
            named_in(&entry, "gitdir: ")?
        };
        let common = named_in(&own.join("commondir"), "").unwrap_or_else(|| own.clone());
        let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
        Some(Self {
            entry,
            own: real(own),
            common: real(common),
        })
    }

    /// The folder of this work tree's own index and commit.
    pub(crate) fn own(&self) -> &Path {
        &self.own
    }

    /// The folder that all work trees share.
    pub(crate) fn common(&self) -> &Path {
        &self.common
    }

    /// The root of the work tree.
    pub(crate) fn root(&self) -> Option<&Path> {
        self.entry.parent()
    }

    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        [self.own.as_path(), self.common.as_path()].into_iter()
    }

    pub(super) fn configs(&self) -> [PathBuf; 2] {
        [self.common.join("config"), self.own.join("config.worktree")]
    }

    /// The files besides its configs that can make git run other programs or use another folder.
    pub(super) fn watched(&self) -> Vec<PathBuf> {
        let mut files = vec![self.own.join("commondir")];
        if !self.entry.is_dir() {
            files.push(self.entry.clone());
        }
        files.extend(hooks_in(self.common.join("hooks")));
        files
    }
}

/// The hooks in a folder, and what they can use in folders below it. Git does not run its sample
/// hooks.
pub(super) fn hooks_in(folder: PathBuf) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop().filter(|_| files.len() < HOOKS_MAX) {
        for entry in fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .take(HOOKS_MAX)
        {
            let path = entry.path();
            if entry.file_type().is_ok_and(|sort| sort.is_dir()) {
                folders.push(path);
            } else if path.extension().is_none_or(|end| end != "sample") {
                files.push(path);
            }
        }
    }
    files
}

/// The path in a small file of git, resolved relative to that file's folder.
fn named_in(file: &Path, before: &str) -> Option<PathBuf> {
    let text = fs::read_to_string(file).ok()?;
    let name = text.strip_prefix(before)?.trim_end_matches(['\n', '\r']);
    Some(file.parent()?.join(name))
}
