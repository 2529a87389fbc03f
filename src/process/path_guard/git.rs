//! Git's config and hooks: in `.git`, or, for a worktree, in the folder that the file `.git` names.
//!
//! Owns which entries of the config ordinary work may add or change. Whatever git cannot read is
//! compared as bytes.

use std::{
    fs,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
};

use crate::{
    git,
    process::{
        children::output_under,
        path_guard::{GIT, HOOKS_MAX},
    },
};

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

/// The names in `[core]` that `git init` writes.
const WRITTEN_BY_INIT: [&str; 7] = [
    "repositoryformatversion",
    "filemode",
    "bare",
    "logallrefupdates",
    "ignorecase",
    "precomposeunicode",
    "symlinks",
];

/// What ordinary commands write once.
const FIRST_IS_FINE: [(&str, &str); 9] = [
    ("user", "name"),
    ("user", "email"),
    ("remote", "fetch"),
    ("remote", "tagopt"),
    ("submodule", "active"),
    ("maintenance", "auto"),
    ("maintenance", "strategy"),
    ("rerere", "enabled"),
    ("rerere", "autoupdate"),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfigEntry {
    /// As git prints it: section and name in lower case.
    pub(super) key: String,
    /// All its values, in their order.
    pub(super) value: Vec<u8>,
    /// Whether ordinary work adds it, as `git remote add` does. A different value is still a
    /// change.
    pub(super) new_is_fine: bool,
}

/// The entries of a config that matter, and the files that it includes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GitConfig {
    pub(super) entries: Vec<ConfigEntry>,
    pub(super) included: Vec<PathBuf>,
    /// The folder of the hooks, if it is not the usual one.
    pub(super) hooks: Option<PathBuf>,
}

impl GitConfig {
    /// None if git cannot read it.
    pub(super) fn read(config: &Path, mark: &str) -> Option<Self> {
        let mut command = git::command(Path::new("/"));
        command
            .args(["config", "--list", "-z", "--file"])
            .arg(config);
        let run = || output_under(mark, &mut command);
        // A killed git has not answered.
        let read = git::answer(run, |read| read.status.signal().is_some())
            .ok()
            .filter(|read| read.status.success())?;
        let text = String::from_utf8(read.stdout).ok()?;
        let mut found = Self::default();
        for entry in text.split_terminator('\0') {
            let (key, value) = entry.split_once('\n').unwrap_or((entry, "true"));
            if ["include", "includeif"].contains(&parts(key).0) {
                found.included.push(resolved(config, value));
            }
            if key == "core.hookspath" {
                found.hooks = Some(PathBuf::from(value));
            }
            if !is_ordinary(key, value) {
                found.add(key, value);
            }
        }
        Some(found)
    }

    /// Stands for a config that git cannot read.
    pub(super) fn of_bytes(bytes: Vec<u8>) -> Self {
        let whole = ConfigEntry {
            key: String::new(),
            value: bytes,
            new_is_fine: false,
        };
        Self {
            entries: vec![whole],
            ..Self::default()
        }
    }

    fn add(&mut self, key: &str, value: &str) {
        if let Some(known) = self.entries.iter_mut().find(|known| known.key == key) {
            known.value.push(0);
            known.value.extend(value.as_bytes());
        } else {
            let new_is_fine = new_is_fine(key, value);
            self.entries.push(ConfigEntry {
                key: key.to_owned(),
                value: value.as_bytes().to_vec(),
                new_is_fine,
            });
        }
    }
}

fn resolved(config: &Path, path: &str) -> PathBuf {
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    let path = match path.strip_prefix("~/").zip(home()) {
        Some((below, home)) => home.join(below),
        None => config.parent().unwrap_or(config).join(path),
    };
    path.canonicalize().unwrap_or(path)
}

/// The last part of a key, and the section before its first dot.
fn parts(key: &str) -> (&str, &str) {
    (
        key.split('.').next().unwrap_or_default(),
        key.rsplit('.').next().unwrap_or_default(),
    )
}

/// What `git push -u`, `git switch` and git-lfs write in normal work. An upstream whose remote is a
/// URL or a path instead of a remote's name is none of that.
fn is_ordinary(key: &str, value: &str) -> bool {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || c == ':';
    let is_name = !value.is_empty()
        && !value.contains("..")
        && !value.starts_with(['/', '-'])
        && !value.contains(is_odd);
    match parts(key) {
        // A branch can follow another branch of the same repository.
        ("branch", "remote" | "pushremote") => {
            (is_name && !value.contains(['/', '.'])) || value == "."
        }
        ("branch", "merge" | "vscode-merge-base" | "github-pr-owner-number")
        | ("lfs", "access" | "repositoryformatversion" | "locksverify")
        | ("remote", "gh-resolved") => is_name,
        ("branch", "rebase") => ["true", "false"].contains(&value),
        ("branch", "description") => true,
        _ => false,
    }
}

/// What `git init`, `git remote add`, `git submodule init` and a first `git config user.name`
/// write.
fn new_is_fine(key: &str, value: &str) -> bool {
    let is_address = !value.contains("::") && !value.starts_with('-');
    match parts(key) {
        ("remote" | "submodule", "url") => is_address,
        ("core", name) => WRITTEN_BY_INIT.contains(&name),
        other => FIRST_IS_FINE.contains(&other),
    }
}
