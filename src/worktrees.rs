//! Git worktrees in which sessions work beside each other, each on a branch of its own.
//!
//! Owns how a worktree is created, found again, and removed. [`ProjectRepository`]
//! calls git, [`base_commit`] finds the commit to start from, [`new_worktree`] creates, [`inventory`] lists,
//! [`joined_branches`] merges, and [`removal`] removes. Does not decide when a session gets a
//! worktree or when it goes: see [`crate::engine::policy::WorktreePlan`].
//!
//! # Invariants
//! - Nothing is lost: a folder with changes is not removed, and a branch is deleted only if another
//!   one has all its commits.
//! - A worktree names its session from the moment it exists (git's lock has the reason), so a kill
//!   leaves none behind that creel does not recognise.
//! - creel never changes the files or the branch of the user's own checkout.

pub mod base_commit;
pub mod inventory;
pub mod joined_branches;
mod kill_repair;
pub mod merge_report;
pub mod merge_stage;
pub mod new_worktree;
pub mod removal;

pub use new_worktree::{PreparedWorktree, WorktreeRequest};

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
};

use crate::{
    engine::event::SessionStarted,
    git::{self, GitCallError, GitReply},
    process::children::output_of,
};

/// Where worktrees are, below the project.
pub const FOLDER: &str = ".creel/worktrees";

/// Whether git may have something of this project although it cannot be asked now: there is a
/// repository, or there was one.
pub fn may_have_git(project: &Path) -> bool {
    let is_folder =
        |entry: io::Result<fs::DirEntry>| entry.is_ok_and(|entry| entry.path().is_dir());
    let mut found = project.join(FOLDER).read_dir().into_iter().flatten();
    project.ancestors().any(|above| above.join(".git").exists()) || found.any(is_folder)
}

/// The option that leaves out the hooks of the repository.
const NO_HOOKS: [&str; 2] = ["-c", "core.hooksPath=/dev/null"];

/// The lock of a repository while creel adds or removes worktrees.
const LOCK: &str = "creel-worktrees.lock";

#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    #[error("git is not installed; worktrees need it")]
    NoGit,
    #[error("cannot run git: {0}")]
    CannotRun(io::Error),
    #[error(
        "{} is not in a git repository, and a worktree needs one\n  create one with `git init` and a first commit. Without \
         one, leave out --worktree, `worktree:` and --jobs", .0.display()
    )]
    NoRepository(PathBuf),
    #[error(
        "the repository has no commit yet, and a worktree starts from one; commit something first"
    )]
    NoCommit,
    #[error(
        "sessions in {} cannot have worktrees: the folder's name is not valid text (UTF-8)\n  rename it, or leave out \
         --worktree, `worktree:` and --jobs", .0.display()
    )]
    NotText(PathBuf),
    #[error("{} is not in the last commit, so a worktree would not have it\n  commit it first", .0.display())]
    NotCommitted(PathBuf),
    #[error(
        "the remote `{0}` does not exist\n  add it with `git remote add {0} URL`, or change `submit.remote`"
    )]
    NoRemote(String),
    #[error("there is no branch `{base}`{place}\n  change `worktree.base`")]
    NoBase { base: String, place: String },
    #[error("`{0}` is not a valid name for a branch\n  change `worktree.branch`")]
    BadBranch(String),
    #[error(
        "the branch `{branch}` already exists\n  choose another name (--worktree NAME), or delete it with `git branch -d \
         {branch}` if you do not need it"
    )]
    BranchExists { branch: String },
    #[error(
        "{} exists and is not a worktree of this repository\n  choose another name (--worktree NAME), or delete the folder \
         if you do not need it", .0.display()
    )]
    FolderExists(PathBuf),
    #[error(
        "{} is not a worktree any more: its `.git` file is gone or wrong\n  take out what you need, delete the folder, then \
         try again", .0.display()
    )]
    Broken(PathBuf),
    #[error(
        "session `{session}` works in the worktree `{name}`\n  choose another name, or wait until it has ended"
    )]
    InUse { name: String, session: String },
    #[error("there is no worktree `{0}`; list them with `creel worktree list`")]
    NoSuchWorktree(String),
    #[error("cannot {action}: {cause}")]
    File { action: String, cause: io::Error },
    #[error("cannot run `{command}`: {cause}")]
    CannotSetUp { command: String, cause: io::Error },
    #[error(
        "the worktree is not ready: `{command}` failed ({status})\n  repair that in {}, then try again", .folder.display()
    )]
    SetupFailed {
        command: String,
        status: ExitStatus,
        folder: PathBuf,
    },
    #[error("`git {command}` failed: {complaint}")]
    Git { command: String, complaint: String },
}

/// Why the commit that a history began with is unknown.
#[derive(Debug, thiserror::Error)]
pub enum RootCommitError {
    #[error("this folder is not in a git repository")]
    NoRepository,
    #[error("the repository has no commit yet")]
    NoCommit,
    #[error("the clone is shallow, so the first commit is not here")]
    Shallow,
    #[error(transparent)]
    Git(#[from] WorktreeError),
}

#[derive(Debug, Clone)]
pub struct ProjectRepository {
    /// The project's folder.
    pub project: PathBuf,
    /// The project's folder, relative to the top of the repository.
    pub prefix: PathBuf,
    /// The git folder that all worktrees share.
    pub common_dir: PathBuf,
}

/// While this exists, no other creel adds or removes worktrees of the repository.
#[derive(Debug)]
pub struct RepositoryLock {
    _file: File,
}

impl ProjectRepository {
    pub fn of(project: &Path) -> Result<Self, WorktreeError> {
        let answer = git_in(
            project,
            &[
                "rev-parse",
                "--is-inside-work-tree",
                "--show-prefix",
                "--git-common-dir",
            ],
        )?;
        let mut lines = answer.stdout.lines();
        match (lines.next(), lines.next(), lines.next()) {
            (Some("true"), Some(prefix), Some(common)) if answer.is_ok => {
                let common_dir = project.join(common);
                let common_dir = common_dir.canonicalize().unwrap_or(common_dir);
                Ok(Self {
                    project: project.to_owned(),
                    prefix: PathBuf::from(prefix),
                    common_dir,
                })
            }
            (_, _, _) => {
                let is_none = ["not a git repository", "must be run in a work tree"];
                if answer.is_ok || is_none.iter().any(|words| answer.stderr.contains(words)) {
                    return Err(WorktreeError::NoRepository(project.to_owned()));
                }
                Err(WorktreeError::Git {
                    command: "rev-parse".to_owned(),
                    complaint: answer.complaint(),
                })
            }
        }
    }

    /// Fails if worktrees of this project cannot work.
    pub fn check_worktrees(&self) -> Result<(), WorktreeError> {
        if self.project.to_str().is_none() {
            return Err(WorktreeError::NotText(self.project.clone()));
        }
        let folder = format!("HEAD:{}", self.prefix.display());
        let is_there = self.prefix.as_os_str().is_empty()
            || self
                .ask(&["rev-parse", "--verify", "--quiet", &folder])?
                .is_ok;
        if is_there {
            Ok(())
        } else {
            Err(WorktreeError::NotCommitted(self.project.clone()))
        }
    }

    /// Waits until no other creel changes the worktrees.
    pub fn lock(&self) -> Result<RepositoryLock, WorktreeError> {
        let path = self.common_dir.join(LOCK);
        let opened = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let locked = opened.and_then(|file| file.lock().map(|()| file));
        let error = |cause| WorktreeError::File {
            action: format!("lock {}", path.display()),
            cause,
        };
        locked
            .map(|file| RepositoryLock { _file: file })
            .map_err(error)
    }

    /// Fetches a branch. Leaves `FETCH_HEAD` alone: the user may be pulling.
    fn fetch(&self, remote: &str, refspec: &str) -> Result<GitReply, WorktreeError> {
        let how = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--",
        ];
        self.ask(&[&how[..], &[remote, refspec]].concat())
    }

    /// Any exit code is fine.
    pub fn ask(&self, args: &[&str]) -> Result<GitReply, WorktreeError> {
        git_in(&self.project, args)
    }

    /// A failure of git is an error.
    pub fn tell(&self, args: &[&str]) -> Result<String, WorktreeError> {
        git_output(&self.project, args)
    }

    /// Resolves a reference to its commit.
    pub fn commit(&self, what: &str) -> Result<Option<String>, WorktreeError> {
        let answer = self.ask(&[
            "rev-parse",
            "--verify",
            "--quiet",
            &format!("{what}^{{commit}}"),
        ])?;
        Ok(answer.is_ok.then(|| answer.line().to_owned()))
    }

    /// The commit of a local branch.
    pub fn branch(&self, name: &str) -> Result<Option<String>, WorktreeError> {
        self.commit(&format!("refs/heads/{name}"))
    }

    /// The commit without a parent that this history began with. It is the same in every full
    /// clone.
    pub fn root_commit(project: &Path) -> Result<String, RootCommitError> {
        let found = Self::of(project);
        if matches!(found, Err(WorktreeError::NoRepository(_))) {
            return Err(RootCommitError::NoRepository);
        }
        let own = found?;
        if own.ask(&["rev-parse", "--is-shallow-repository"])?.line() != "false" {
            return Err(RootCommitError::Shallow);
        }
        if own.commit("HEAD")?.is_none() {
            return Err(RootCommitError::NoCommit);
        }
        Ok(own.tell(&["rev-list", "--first-parent", "--max-parents=0", "HEAD"])?)
    }

    /// Whether `earlier` is an ancestor of `later`, or the same.
    pub fn contains(&self, later: &str, earlier: &str) -> Result<bool, WorktreeError> {
        Ok(self
            .ask(&["merge-base", "--is-ancestor", earlier, later])?
            .is_ok)
    }
}

/// The entry of a worktree in its repository, where git keeps its HEAD and index. None if this is
/// no worktree.
pub fn entry_of(worktree: &Path) -> Option<PathBuf> {
    let link = std::fs::read_to_string(worktree.join(".git")).ok()?;
    worktree
        .join(link.strip_prefix("gitdir: ")?.trim_end())
        .canonicalize()
        .ok()
}

/// The branch that is checked out in a worktree, without asking git. `Some(None)` if only a commit
/// is; None if that cannot be read.
pub fn checked_out(worktree: &Path) -> Option<Option<String>> {
    // A journal can name any path.
    let is_file = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    let head =
        entry_of(Some(worktree).filter(|worktree| is_file(&worktree.join(".git")))?)?.join("HEAD");
    let head = std::fs::read_to_string(Some(head).filter(|head| is_file(head))?).ok()?;
    Some(
        head.trim_end()
            .strip_prefix("ref: refs/heads/")
            .map(str::to_owned),
    )
}

/// The branch that is checked out in the session's worktree: the agent may have left the one that
/// creel created. If the worktree is gone, the branch that stayed.
pub fn session_branch(began: &SessionStarted) -> Option<String> {
    let worktree = began.worktree.as_ref()?;
    checked_out(Path::new(&worktree.path)).unwrap_or_else(|| Some(worktree.branch.clone()))
}

/// Calls git in the top folder of a worktree. Without its own `.git` file, git would use the
/// repository around it: the user's checkout.
pub fn worktree_git(worktree: &Path, args: &[&str]) -> Result<GitReply, WorktreeError> {
    if entry_of(worktree).is_none() {
        return Err(WorktreeError::Broken(worktree.to_owned()));
    }
    let mut command = git::command(worktree);
    command.env(
        "GIT_CEILING_DIRECTORIES",
        worktree.parent().unwrap_or(worktree),
    );
    call(command, worktree, args)
}

/// The same. A failure of git is an error.
pub fn worktree_git_output(worktree: &Path, args: &[&str]) -> Result<String, WorktreeError> {
    output_or_error(&worktree_git(worktree, args)?, args)
}

/// Calls git in a folder.
pub fn git_in(folder: &Path, args: &[&str]) -> Result<GitReply, WorktreeError> {
    call(git::command(folder), folder, args)
}

/// The same. A failure of git is an error.
pub fn git_output(folder: &Path, args: &[&str]) -> Result<String, WorktreeError> {
    output_or_error(&git_in(folder, args)?, args)
}

fn call(command: Command, folder: &Path, args: &[&str]) -> Result<GitReply, WorktreeError> {
    git::call(command, args, output_of).map_err(|error| match error {
        GitCallError::CannotStart(error) if error.kind() != io::ErrorKind::NotFound => {
            WorktreeError::CannotRun(error)
        }
        GitCallError::CannotStart(_) if folder.is_dir() => WorktreeError::NoGit,
        GitCallError::CannotStart(_) => WorktreeError::NoRepository(folder.to_owned()),
        GitCallError::Killed { signal } => WorktreeError::Git {
            command: args[0].to_owned(),
            complaint: format!("git was killed by signal {signal}"),
        },
    })
}

fn output_or_error(reply: &GitReply, args: &[&str]) -> Result<String, WorktreeError> {
    if reply.is_ok {
        return Ok(reply.line().to_owned());
    }
    let command = args.iter().take(2).copied().collect::<Vec<_>>().join(" ");
    Err(WorktreeError::Git {
        command,
        complaint: reply.complaint(),
    })
}
