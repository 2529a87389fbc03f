//! What git tells of a work tree.
//!
//! # Invariants
//! - No shell, no lock, no pager, no program that the repository names for watching its files.
//! - Names are taken as bytes, each ended by a NUL: any name that a file can have is understood.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::{io::AsyncReadExt as _, process::Command};

use super::{ENTRIES, OURS};
use crate::process::{
    children,
    sweep::{self, MARK},
};

/// No longer list is read.
const LIST_MAX: u64 = 16 << 20;
/// Where git looks for a repository if these are set; it shall look around the project's folder.
const ELSEWHERE: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_LITERAL_PATHSPECS",
    "GIT_EXTERNAL_DIFF",
];

/// Why git does not tell.
#[derive(Debug)]
pub(super) enum Failed {
    /// It is not there, or this is no repository after all.
    No,
    /// There is more than is read.
    TooMuch,
}

/// A repository around a project's folder.
#[derive(Debug, Clone)]
pub(super) struct Repository {
    folder: PathBuf,
    /// The way from the repository's root to the project's folder.
    prefix: PathBuf,
    mark: String,
}

/// How a work tree stands.
pub(super) struct Status {
    /// The commit; none before the first.
    pub(super) head: Option<String>,
    /// The files that are not as they are committed.
    pub(super) changed: Vec<PathBuf>,
}

impl Repository {
    /// The repository that a folder lies in. Found without git, which costs more than all else where there is none.
    pub(super) fn around(folder: &Path, mark: &str) -> Option<Self> {
        let folder = folder.canonicalize().ok()?;
        let root = folder.ancestors().find(|root| is_repository(&root.join(".git")))?;
        let prefix = folder.strip_prefix(root).ok()?.to_owned();
        Some(Self { folder, prefix, mark: format!("{mark}/git") })
    }

    pub(super) async fn status(&self) -> Result<Status, Failed> {
        let without_ours = format!(":(exclude){OURS}");
        let asked = ["status", "--porcelain=v2", "--branch", "--no-ahead-behind", "-z", "--untracked-files=all"];
        let limits = ["--no-renames", "--", ".", &without_ours];
        let told = self.ask(asked.into_iter().chain(limits)).await?;
        let mut status = Status { head: None, changed: Vec::new() };
        for entry in entries(&told) {
            if let Some(head) = entry.strip_prefix(b"# branch.oid ") {
                status.head = String::from_utf8(head.to_vec()).ok().filter(|head| head != "(initial)");
            } else if let Some(name) = name_of(entry) {
                let path = Path::new(OsStr::from_bytes(name)).strip_prefix(&self.prefix);
                status.changed.extend(path.ok().map(Path::to_owned));
            }
        }
        if status.changed.len() > ENTRIES { Err(Failed::TooMuch) } else { Ok(status) }
    }

    /// The files of the project's folder that differ between two commits; all that there are, if there was none before.
    pub(super) async fn between(&self, old: Option<&str>, new: &str) -> Result<Vec<PathBuf>, Failed> {
        let told = match old {
            Some(old) => {
                self.ask(["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--relative", old, new]).await?
            }
            None => self.ask(["ls-tree", "-r", "-z", "--name-only", new]).await?,
        };
        Ok(entries(&told).map(|name| PathBuf::from(OsStr::from_bytes(name))).collect())
    }

    async fn ask<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Result<Vec<u8>, Failed> {
        let mut command = Command::new("git");
        command.args(["-c", "core.fsmonitor=false"]).args(args).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        for name in ELSEWHERE {
            command.env_remove(name);
        }
        command.env("GIT_OPTIONAL_LOCKS", "0").env(MARK, sweep::marked(&self.mark));
        let (mut child, _entry) = children::start(&self.mark, || command.spawn()).map_err(|_| Failed::No)?;
        let mut told = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(LIST_MAX + 1).read_to_end(&mut told).await.map_err(|_| Failed::No)?;
        }
        if told.len() as u64 > LIST_MAX {
            return Err(Failed::TooMuch);
        }
        let ended = child.wait().await.map_err(|_| Failed::No)?;
        if ended.success() { Ok(told) } else { Err(Failed::No) }
    }
}

/// What git takes for one: a file that leads to it, or a folder with something in it that can be one.
fn is_repository(git: &Path) -> bool {
    git.is_file() || git.join("HEAD").symlink_metadata().is_ok()
}

fn entries(told: &[u8]) -> impl Iterator<Item = &[u8]> {
    told.split(|byte| *byte == 0).filter(|entry| !entry.is_empty())
}

/// The name in an entry of the status: what stands after a number of fields that depends on its sort.
fn name_of(entry: &[u8]) -> Option<&[u8]> {
    let fields = match entry.first()? {
        b'1' => 8,
        b'2' => 9,
        b'u' => 10,
        b'?' => 1,
        _ => return None,
    };
    let name = entry.splitn(fields + 1, |byte| *byte == b' ').nth(fields)?;
    // A repository inside of this one is told as a folder.
    Some(name.strip_suffix(b"/").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_follows_the_fields_of_its_entry() {
        let name = |entry: &str| name_of(entry.as_bytes()).map(|name| String::from_utf8_lossy(name).into_owned());
        let zeros = "0000000000000000000000000000000000000000";
        assert_eq!(name("? a b\nc").as_deref(), Some("a b\nc"));
        assert_eq!(name("? nested/").as_deref(), Some("nested"));
        assert_eq!(
            name(&format!("1 .M N... 100644 100644 100644 {zeros} {zeros} src/a b.rs")).as_deref(),
            Some("src/a b.rs")
        );
        assert_eq!(
            name(&format!("u UU N... 100644 100644 100644 100644 {zeros} {zeros} {zeros} x")).as_deref(),
            Some("x")
        );
        assert_eq!(name("# branch.head main"), None);
        assert_eq!(name("1 .M"), None);
    }
}
