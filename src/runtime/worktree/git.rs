//! Reads the state of a work tree from git.
//!
//! # Invariants
//! - Git runs without a shell, a lock, a pager, or the file watcher that the repository configures.
//! - In a nested repository, git lists names and reads no content, because reading could run
//!   programs.
//! - Names are NUL-terminated bytes, so every valid file name works.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::{io::AsyncReadExt as _, process::Command};

use crate::{
    git,
    process::{
        children,
        sweep::{self, MARK},
    },
};

/// The maximum number of files in one survey.
pub(super) const ENTRIES: usize = 20_000;
/// creel's own folder, which is never reported.
pub(super) const OURS: &str = ".creel";
/// Bytes of git's output at most.
const LIST_MAX: u64 = 64 << 20;
/// The tree without files, to which git compares a work tree before its first commit.
pub(super) const NOTHING: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
/// How many lines git has about an entry of the index.
const INDEX_LINES: usize = 5;
/// Whether git also names the folders that it ignores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IgnoredFolders {
    Listed,
    Omitted,
    /// Files that git does not track are omitted, too.
    OnlyTracked,
}

#[derive(Debug)]
pub(super) enum GitStatusError {
    /// Git is missing, or this is not a repository.
    No,
    /// The output is longer than the limit.
    TooMuch,
}

/// The repository that contains the project's folder.
#[derive(Debug, Clone)]
pub(super) struct GitRepository {
    folder: PathBuf,
    /// The path from the repository's root to the project's folder.
    prefix: PathBuf,
    mark: String,
}

#[derive(Debug, Default)]
pub(super) struct WorktreeStatus {
    /// None before the first commit.
    pub(super) head: Option<String>,
    /// Uncommitted files, and nested repositories that are new or changed.
    pub(super) changed: Vec<PathBuf>,
    /// The nested repositories in `changed`.
    pub(super) nested: Vec<PathBuf>,
    /// The files in `changed` that git does not track.
    pub(super) untracked: BTreeSet<PathBuf>,
    /// The folders that git ignored.
    pub(super) ignored: BTreeSet<PathBuf>,
}

impl GitRepository {
    /// Finds the repository without running git, which would be the most expensive step where there
    /// is none.
    pub(super) fn around(folder: &Path, mark: &str) -> Option<Self> {
        let folder = folder.canonicalize().ok()?;
        let root = folder
            .ancestors()
            .find(|root| is_repository(&root.join(".git")))?;
        let prefix = folder.strip_prefix(root).ok()?.to_owned();
        Some(Self {
            folder,
            prefix,
            mark: format!("{mark}/git"),
        })
    }

    /// The root of the repository and the path from there to the project's folder. None if they are
    /// the same.
    pub(super) fn root(&self) -> Option<(PathBuf, PathBuf)> {
        let root = self
            .folder
            .ancestors()
            .nth(self.prefix.components().count())?;
        (root != self.folder).then(|| (root.to_owned(), self.prefix.clone()))
    }

    pub(super) async fn status(
        &self,
        ignored: IgnoredFolders,
    ) -> Result<WorktreeStatus, GitStatusError> {
        let without_ours = format!(":(exclude){OURS}");
        let untracked = if ignored == IgnoredFolders::OnlyTracked {
            "no"
        } else {
            "all"
        };
        let untracked = format!("--untracked-files={untracked}");
        let asked = [
            "status",
            "--porcelain=v2",
            "--branch",
            "--no-ahead-behind",
            "-z",
            &untracked,
        ];
        let listed = (ignored == IgnoredFolders::Listed).then_some("--ignored=matching");
        let asked = asked.into_iter().chain(listed);
        let limits = [
            "--no-renames",
            "--ignore-submodules=none",
            "--",
            ".",
            &without_ours,
        ];
        let output = self.ask(asked.chain(limits)).await?;
        let mut status = WorktreeStatus::default();
        for entry in entries(&output) {
            if let Some(head) = entry.strip_prefix(b"# branch.oid ") {
                status.head = String::from_utf8(head.to_vec())
                    .ok()
                    .filter(|head| head != "(initial)");
            } else if let Some(folder) = entry
                .strip_prefix(b"! ")
                .and_then(|name| name.strip_suffix(b"/"))
            {
                let folder = Path::new(OsStr::from_bytes(folder)).strip_prefix(&self.prefix);
                status.ignored.extend(folder.ok().map(Path::to_owned));
            } else if let Some(ChangedEntry { name, nested }) = ChangedEntry::read(entry) {
                let Ok(path) = Path::new(OsStr::from_bytes(name)).strip_prefix(&self.prefix) else {
                    continue;
                };
                status.changed.push(path.to_owned());
                status.nested.extend(nested.then(|| path.to_owned()));
                status
                    .untracked
                    .extend(entry.starts_with(b"?").then(|| path.to_owned()));
            }
        }
        if status.changed.len() > ENTRIES {
            Err(GitStatusError::TooMuch)
        } else {
            Ok(status)
        }
    }

    /// The files outside the repository that decide what git says: its settings, and the lists that
    /// they name. None if that cannot be known.
    pub(super) async fn settings(&self) -> Option<Vec<PathBuf>> {
        let output = self
            .ask(["config", "--list", "--show-origin", "-z"])
            .await
            .ok()?;
        let home = PathBuf::from(std::env::var_os("HOME")?);
        let config = std::env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty());
        let config = config
            .map_or_else(|| home.join(".config"), PathBuf::from)
            .join("git");
        // Also those that do not exist yet.
        let mut files: BTreeSet<PathBuf> = ["config", "ignore", "attributes"]
            .map(|name| config.join(name))
            .into();
        files.extend([home.join(".gitconfig"), PathBuf::from("/etc/gitconfig")]);
        let mut output = entries(&output);
        while let (Some(origin), Some(setting)) = (output.next(), output.next()) {
            let origin = origin
                .strip_prefix(b"file:")
                .map(|file| self.folder.join(OsStr::from_bytes(file)));
            files.extend(origin);
            let list = [&b"core.excludesfile\n"[..], b"core.attributesfile\n"];
            let list = list.iter().find_map(|name| setting.strip_prefix(*name));
            if let Some(list) = list.filter(|list| !list.is_empty()) {
                files.insert(named_path(list, &home)?);
            }
        }
        Some(files.into_iter().collect())
    }

    /// The sizes that tracked files had when they were clean, as far as the index knows them.
    pub(super) async fn clean_sizes(&self, names: &[&Path]) -> BTreeMap<PathBuf, u64> {
        let mut command = unwatched_git(&self.folder);
        command.args(["--literal-pathspecs", "ls-files", "--debug", "-z", "--"]);
        command.args(names);
        let output = self.output_of(command).await.unwrap_or_default();
        index_sizes(&output).into_iter().collect()
    }

    /// The files in the project's folder that differ between two commits, or all files if `old` is
    /// None.
    pub(super) async fn between(
        &self,
        old: Option<&str>,
        new: &str,
    ) -> Result<Vec<PathBuf>, GitStatusError> {
        let output = match old {
            Some(old) => {
                self.ask([
                    "diff-tree",
                    "-r",
                    "-z",
                    "--name-only",
                    "--no-renames",
                    "--relative",
                    old,
                    new,
                ])
                .await?
            }
            None => {
                self.ask(["ls-tree", "-r", "-z", "--name-only", new])
                    .await?
            }
        };
        Ok(entries(&output)
            .map(|name| PathBuf::from(OsStr::from_bytes(name)))
            .collect())
    }

    /// The files in the project's folder that differ from a commit, new ones included.
    pub(super) async fn changed_since(&self, commit: &str) -> Result<Vec<String>, GitStatusError> {
        let asked = ["diff", "--name-only", "-z", "--no-renames", "--relative"];
        let limits = ["--ignore-submodules=all", commit, "--", "."];
        let output = self.ask(asked.into_iter().chain(limits)).await?;
        let tracked = entries(&output).map(|name| PathBuf::from(OsStr::from_bytes(name)));
        let all = tracked.chain(self.untracked().await?);
        Ok(all
            .map(|name| name.to_string_lossy().into_owned())
            .collect())
    }

    /// The submodules in the project's folder that have another commit checked out than a commit
    /// says.
    pub(super) async fn submodules_changed_since(
        &self,
        commit: &str,
    ) -> Result<Vec<String>, GitStatusError> {
        let asked = ["diff", "--raw", "-z", "--no-renames", "--relative"];
        let limits = ["--ignore-submodules=dirty", commit, "--", "."];
        let output = self.ask(asked.into_iter().chain(limits)).await?;
        let fields: Vec<&[u8]> = entries(&output).collect();
        let is_submodule = |about: &[u8]| {
            let modes = about.split(|byte| *byte == b' ').take(2);
            modes.into_iter().any(|mode| mode.ends_with(b"160000"))
        };
        let pairs = fields.chunks_exact(2);
        let submodules = pairs.filter(|pair| is_submodule(pair[0]));
        Ok(submodules
            .map(|pair| String::from_utf8_lossy(pair[1]).into_owned())
            .collect())
    }

    /// Those of these files that a commit has.
    pub(super) async fn existing(
        &self,
        commit: &str,
        names: &[String],
    ) -> Result<BTreeSet<String>, GitStatusError> {
        if names.is_empty() {
            return Ok(BTreeSet::new());
        }
        let asked = ["--literal-pathspecs", "ls-tree", "-z", "--name-only"];
        let asked = asked.into_iter().chain([commit, "--"]);
        let names = names.iter().map(String::as_str);
        let output = self.ask(asked.chain(names)).await?;
        Ok(entries(&output)
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect())
    }

    /// The text of a file in a commit.
    pub(super) async fn text_at(&self, commit: &str, name: &str) -> Result<String, GitStatusError> {
        let place = format!("{commit}:./{name}");
        let output = self.ask(["cat-file", "blob", &place]).await?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    /// How many lines of each tracked file in the project's folder differ from a commit, in the
    /// words of git.
    pub(super) async fn lines_since(&self, commit: &str) -> Result<Vec<u8>, GitStatusError> {
        let asked = [
            "diff",
            "--numstat",
            "-z",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
        ];
        self.ask(asked.into_iter().chain([
            "--ignore-submodules=all",
            "--relative",
            commit,
            "--",
            ".",
        ]))
        .await
    }

    /// The tracked files whose changes git was output not to report, as far as they exist.
    pub(super) async fn hidden(&self) -> Result<Vec<PathBuf>, GitStatusError> {
        let output = self.ask(["ls-files", "-z", "-v", "--", "."]).await?;
        let is_hidden = |tag: u8| tag == b'S' || tag.is_ascii_lowercase();
        let names = entries(&output).filter_map(|entry| match entry {
            [tag, b' ', name @ ..] if is_hidden(*tag) => {
                Some(PathBuf::from(OsStr::from_bytes(name)))
            }
            _ => None,
        });
        let names: Vec<PathBuf> = names
            .filter(|name| self.folder.join(name).symlink_metadata().is_ok())
            .collect();
        if names.len() > ENTRIES {
            Err(GitStatusError::TooMuch)
        } else {
            Ok(names)
        }
    }

    /// The new files in the project's folder, without ignored ones.
    pub(super) async fn untracked(&self) -> Result<Vec<PathBuf>, GitStatusError> {
        let output = self
            .ask([
                "ls-files",
                "-z",
                "--others",
                "--exclude-standard",
                "--",
                ".",
            ])
            .await?;
        Ok(entries(&output)
            .map(|name| PathBuf::from(OsStr::from_bytes(name)))
            .collect())
    }

    /// The files of a nested repository, without ignored ones. Repositories inside it are listed as
    /// folders.
    pub(super) async fn files_of_nested(
        &self,
        place: &Path,
    ) -> Result<Vec<PathBuf>, GitStatusError> {
        let folder = self.folder.join(place);
        let mut command = unwatched_git(&folder);
        command.args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]);
        // Git must neither use the outer repository instead nor fetch the objects that a partial
        // clone lacks.
        command.env(
            "GIT_CEILING_DIRECTORIES",
            folder.parent().unwrap_or(&folder),
        );
        command
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_ALLOW_PROTOCOL", "");
        let output = self.output_of(command).await?;
        let names = entries(&output).map(|name| name.strip_suffix(b"/").unwrap_or(name));
        let names: Vec<PathBuf> = names
            .map(|name| PathBuf::from(OsStr::from_bytes(name)))
            .collect();
        if names.len() > ENTRIES {
            Err(GitStatusError::TooMuch)
        } else {
            Ok(names)
        }
    }

    async fn ask<'a>(
        &self,
        args: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<u8>, GitStatusError> {
        let mut command = unwatched_git(&self.folder);
        command.args(args);
        self.output_of(command).await
    }

    async fn output_of(&self, command: std::process::Command) -> Result<Vec<u8>, GitStatusError> {
        let mut command = Command::from(command);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .env("GIT_OPTIONAL_LOCKS", "0")
            // Another commit in place of the base commit would hide every change.
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_GRAFT_FILE", "/dev/null/none")
            .env(MARK, sweep::marked(&self.mark));
        let (mut child, _entry) =
            children::start(&self.mark, || command.spawn()).map_err(|_| GitStatusError::No)?;
        let mut output = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout
                .take(LIST_MAX + 1)
                .read_to_end(&mut output)
                .await
                .map_err(|_| GitStatusError::No)?;
        }
        if output.len() as u64 > LIST_MAX {
            return Err(GitStatusError::TooMuch);
        }
        let ended = child.wait().await.map_err(|_| GitStatusError::No)?;
        if ended.success() {
            Ok(output)
        } else {
            Err(GitStatusError::No)
        }
    }
}

/// Git without the file watcher that the repository configures.
fn unwatched_git(folder: &Path) -> std::process::Command {
    let mut command = git::command(folder);
    command.args(["-c", "core.fsmonitor=false"]);
    command
}

/// Reads names, each with five lines about its entry in the index. The last line begins with the
/// file's size. A size of 0 can also mean that git has to read the file, so it says nothing.
fn index_sizes(mut output: &[u8]) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    while let Some(end) = output.iter().position(|byte| *byte == 0) {
        let (name, rest) = (&output[..end], &output[end + 1..]);
        let mut lines = rest.splitn(INDEX_LINES + 1, |byte| *byte == b'\n');
        let size = lines.by_ref().take(INDEX_LINES).last().and_then(|line| {
            let line = str::from_utf8(line)
                .ok()?
                .trim_start()
                .strip_prefix("size: ")?;
            line.split_whitespace().next()?.parse().ok()
        });
        found.extend(
            size.filter(|size| *size > 0)
                .map(|size| (PathBuf::from(OsStr::from_bytes(name)), size)),
        );
        output = lines.next().unwrap_or_default();
    }
    found
}

/// Like git: a `.git` file that points to a repository, or a folder with a `HEAD` in it.
fn is_repository(git: &Path) -> bool {
    git.is_file() || git.join("HEAD").symlink_metadata().is_ok()
}

/// A path as git's settings have it. None if only git can resolve it.
fn named_path(name: &[u8], home: &Path) -> Option<PathBuf> {
    if let Some(rest) = name.strip_prefix(b"~/") {
        return Some(home.join(OsStr::from_bytes(rest)));
    }
    let path = Path::new(OsStr::from_bytes(name));
    path.is_absolute().then(|| path.to_owned())
}

fn entries(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output
        .split(|byte| *byte == 0)
        .filter(|entry| !entry.is_empty())
}

/// An entry of `git status`.
#[derive(Debug, PartialEq, Eq)]
struct ChangedEntry<'a> {
    name: &'a [u8],
    /// Whether it is a nested repository.
    nested: bool,
}

impl<'a> ChangedEntry<'a> {
    /// The name comes after a number of fields that depends on the kind of entry.
    fn read(entry: &'a [u8]) -> Option<Self> {
        let fields = match entry.first()? {
            b'1' => 8,
            b'2' => 9,
            b'u' => 10,
            b'?' => 1,
            _ => return None,
        };
        let mut parts = entry.splitn(fields + 1, |byte| *byte == b' ');
        // `S...` is a submodule, `N...` is not.
        let submodule = fields > 1 && parts.nth(2)?.starts_with(b"S");
        let name = if fields > 1 {
            parts.nth(fields - 3)?
        } else {
            parts.nth(1)?
        };
        // For an untracked repository, git prints a name with a trailing slash.
        let folder = name.strip_suffix(b"/");
        Some(Self {
            name: folder.unwrap_or(name),
            nested: submodule || folder.is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_knows_the_sizes_of_clean_files() {
        let about = |size: u32| {
            format!(
                "  ctime: 1:2\n  mtime: 1:2\n  dev: 1\tino: 2\n  uid: 0\tgid: 0\n  size: {size}\tflags: 0\n"
            )
        };
        let output = format!("a\0{}b\nc\0{}empty\0{}", about(7), about(12), about(0));
        assert_eq!(
            index_sizes(output.as_bytes()),
            [("a".into(), 7), ("b\nc".into(), 12)]
        );
        assert_eq!(index_sizes(b"a\0something else"), []);
        assert_eq!(index_sizes(b""), []);
    }

    #[test]
    fn a_name_is_what_follows_the_fields_of_its_entry() {
        let read = |entry: &'static str| ChangedEntry::read(entry.as_bytes());
        let name = |entry: &str| {
            let read = ChangedEntry::read(entry.as_bytes());
            read.map(|read| String::from_utf8_lossy(read.name).into_owned())
        };
        let zeros = "0000000000000000000000000000000000000000";
        assert_eq!(name("? a b\nc").as_deref(), Some("a b\nc"));
        assert_eq!(
            read("? nested/"),
            Some(ChangedEntry {
                name: b"nested",
                nested: true
            })
        );
        assert_eq!(
            read("? S a"),
            Some(ChangedEntry {
                name: b"S a",
                nested: false
            })
        );
        assert_eq!(
            read("1 .M S.M. 160000 160000 160000 0 0 lib"),
            Some(ChangedEntry {
                name: b"lib",
                nested: true
            })
        );
        assert_eq!(
            read("1 .M N... 100644 100644 100644 0 0 S"),
            Some(ChangedEntry {
                name: b"S",
                nested: false
            })
        );
        assert_eq!(
            name(&format!(
                "1 .M N... 100644 100644 100644 {zeros} {zeros} src/a b.rs"
            ))
            .as_deref(),
            Some("src/a b.rs")
        );
        assert_eq!(
            name(&format!(
                "u UU N... 100644 100644 100644 100644 {zeros} {zeros} {zeros} x"
            ))
            .as_deref(),
            Some("x")
        );
        assert_eq!(name("# branch.head main"), None);
        assert_eq!(name("1 .M"), None);
    }
}
