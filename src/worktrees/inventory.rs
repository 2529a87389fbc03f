//! The worktrees that creel created in a repository: their list, which of them a session occupies,
//! and the project that each belongs to.
//!
//! # Invariants
//! - Only the repository's own entry counts: a folder cannot claim to be the worktree of a project
//!   that does not list it.

use std::{
    fs::{self, File, OpenOptions},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use super::{
    FOLDER, ProjectRepository, WorktreeError, entry_of,
    kill_repair::{is_bare, is_half_made},
    worktree_git, worktree_git_output,
};

/// How the reason of git's lock begins.
pub(super) const REASON: &str = "creel session ";
/// The file that says that a removal has begun. Git deletes the files first: after a kill, they
/// look like changes.
pub(super) const GOING: &str = "creel-removes-this";
/// How many files one call of git reads.
const HASHED: usize = 100;
/// What separates the session from the project there.
const OF: &str = " in ";

/// A worktree that belongs to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedWorktree {
    pub name: String,
    /// Its top folder.
    pub path: PathBuf,
    /// None with a detached HEAD.
    pub branch: Option<String>,
    /// The session that it was created for, or that used it last. None if creel was killed while
    /// git created it.
    pub session: Option<String>,
    /// The commit that is checked out.
    pub head: String,
    /// Whether its folder is gone.
    pub is_missing: bool,
}

/// Why a folder cannot be removed without losing something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnsavedWork {
    Changes(Vec<String>),
    /// Edits that git does not report, because it was told to overlook them.
    Overlooked(Vec<String>),
    /// An operation of git, such as a rebase.
    InProgress(&'static str),
    /// Commits that no branch has.
    LooseCommits,
    /// Changes in a submodule, or commits there that its remote does not have.
    Submodules,
    /// A session works there.
    Session,
    /// Its `.git` file is gone or wrong.
    Broken,
    /// Sessions that a user started in it.
    OwnSessions,
}

/// The session and the project that the reason of git's lock names.
pub(super) fn session_of(reason: &str) -> Option<(&str, &str)> {
    reason.strip_prefix(REASON)?.split_once(OF)
}

impl ProjectRepository {
    /// The reason for git's lock, which names the session and its project.
    pub fn lock_reason(&self, session: &str) -> String {
        format!("{REASON}{session}{OF}{}", self.project.display())
    }

    /// All worktrees of this project's sessions, by name.
    pub fn worktrees(&self) -> Result<Vec<OwnedWorktree>, WorktreeError> {
        let output = self.tell(&["worktree", "list", "--porcelain", "-z"])?;
        let mut found: Vec<OwnedWorktree> = output
            .split("\0\0")
            .filter_map(|entry| self.owned(entry))
            .collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    pub fn worktree(&self, name: &str) -> Result<OwnedWorktree, WorktreeError> {
        let found = self
            .worktrees()?
            .into_iter()
            .find(|worktree| worktree.name == name);
        found.ok_or_else(|| WorktreeError::NoSuchWorktree(name.to_owned()))
    }

    /// Parses an entry of git's list. None if the worktree is not creel's, or of another project.
    fn owned(&self, entry: &str) -> Option<OwnedWorktree> {
        let field = |name: &str| entry.split('\0').find_map(|line| line.strip_prefix(name));
        let path = PathBuf::from(field("worktree ")?);
        let session = match field("locked ").filter(|reason| reason.starts_with(REASON)) {
            Some(reason) => {
                let (session, project) = session_of(reason)?;
                if Path::new(project) != self.project {
                    return None;
                }
                Some(session.to_owned())
            }
            // creel was killed while git created it.
            None if path.starts_with(self.project.join(FOLDER)) => None,
            None => return None,
        };
        let branch = field("branch ")
            .and_then(|branch| branch.strip_prefix("refs/heads/"))
            .map(str::to_owned);
        let name = path.file_name()?.to_string_lossy().into_owned();
        // creel's own, in which it makes merges.
        if name.starts_with('.') {
            return None;
        }
        let head = field("HEAD ").unwrap_or_default().to_owned();
        Some(OwnedWorktree {
            name,
            is_missing: !path.exists(),
            path,
            branch,
            session,
            head,
        })
    }
}

impl OwnedWorktree {
    /// What would be lost with the folder. Git ignores what the project ignores, and so does this.
    pub fn unsaved(
        &self,
        repository: &ProjectRepository,
    ) -> Result<Option<UnsavedWork>, WorktreeError> {
        if self.branch.is_none() && !self.head.is_empty() {
            let contains = format!("--contains={}", self.head);
            let kept = repository.ask(&["for-each-ref", "--count=1", &contains, "--format=x"])?;
            if kept.is_ok && kept.stdout.trim().is_empty() {
                return Ok(Some(UnsavedWork::LooseCommits));
            }
        }
        if self.is_missing {
            return Ok(None);
        }
        let Some(entry) =
            entry_of(&self.path).filter(|entry| entry.starts_with(&repository.common_dir))
        else {
            return Ok(Some(UnsavedWork::Broken));
        };
        if is_half_made(&entry) {
            return Ok((!is_bare(&self.path)).then_some(UnsavedWork::Broken));
        }
        if is_occupied(&self.path) {
            return Ok(Some(UnsavedWork::Session));
        }
        let status = worktree_git(
            &self.path,
            &["status", "--porcelain=v1", "-z", "--untracked-files=normal"],
        )?;
        if !status.is_ok {
            let complaint = status.complaint();
            return Err(WorktreeError::Git {
                command: format!("status in {}", self.path.display()),
                complaint,
            });
        }
        // A removal that was interrupted has deleted files, and nothing else.
        let goes = entry.join(GOING).exists();
        let changes = changed_files(&status.stdout, goes);
        if !changes.is_empty() {
            return Ok(Some(UnsavedWork::Changes(changes)));
        }
        let overlooked = self.overlooked()?;
        if !overlooked.is_empty() {
            return Ok(Some(UnsavedWork::Overlooked(overlooked)));
        }
        if let Some(what) = in_progress(&entry) {
            return Ok(Some(UnsavedWork::InProgress(what)));
        }
        if entry.join("modules").exists() && self.has_work_in_submodules()? {
            return Ok(Some(UnsavedWork::Submodules));
        }
        let own = std::fs::read_dir(self.path.join(".creel/sessions"))
            .is_ok_and(|mut found| found.next().is_some());
        Ok(own.then_some(UnsavedWork::OwnSessions))
    }

    /// The edited files that git was told to assume unchanged, or to skip.
    fn overlooked(&self) -> Result<Vec<String>, WorktreeError> {
        let listed = worktree_git_output(&self.path, &["ls-files", "-v", "--stage", "-z"])?;
        // Each has its sign, mode, content and stage: `h 100644 CONTENT 0	name`.
        let hidden = listed.split('\0').filter_map(|line| {
            let (facts, name) = line.split_once('\t')?;
            let (sign, content) = (facts.chars().next()?, facts.split(' ').nth(2)?);
            let is_file = || {
                let found = self.path.join(name).symlink_metadata();
                found.is_ok_and(|found| found.is_file())
            };
            let is_hidden = sign == 'S' || sign.is_ascii_lowercase();
            (is_hidden && is_file()).then_some((name, content))
        });
        let hidden: Vec<(&str, &str)> = hidden.collect();
        let mut found = Vec::new();
        for some in hidden.chunks(HASHED) {
            let names = some.iter().map(|(name, _)| *name);
            let args: Vec<&str> = ["hash-object", "--"].into_iter().chain(names).collect();
            let contents = worktree_git_output(&self.path, &args)?;
            let changed = some.iter().zip(contents.lines());
            let changed = changed.filter(|((_, before), now)| before != now);
            found.extend(changed.map(|((name, _), _)| (*name).to_owned()));
        }
        Ok(found)
    }

    /// The repositories of submodules go with the folder.
    fn has_work_in_submodules(&self) -> Result<bool, WorktreeError> {
        const LOOK: &str = "git status --porcelain --ignore-submodules=none; git log -1 --format=%H HEAD --branches --not \
                            --remotes";
        let found = worktree_git(
            &self.path,
            &["submodule", "--quiet", "foreach", "--recursive", LOOK],
        )?;
        Ok(!found.is_ok || !found.stdout.trim().is_empty())
    }
}

impl UnsavedWork {
    /// As the end of a sentence: "it has …".
    pub fn in_words(&self) -> String {
        match self {
            Self::Changes(files) => {
                format!("uncommitted changes ({})", some_files(files))
            }
            Self::Overlooked(files) => format!("edits that git overlooks ({})", some_files(files)),
            Self::InProgress(what) => format!("{what} in progress"),
            Self::LooseCommits => "commits that no branch has".to_owned(),
            Self::Submodules => {
                "changes in a submodule, or commits there that its remote does not have".to_owned()
            }
            Self::Session => "a session at work".to_owned(),
            Self::Broken => "lost its `.git` file".to_owned(),
            Self::OwnSessions => "sessions of its own".to_owned(),
        }
    }
}

/// The first few names.
pub fn some_files(files: &[String]) -> String {
    let some: Vec<&str> = files.iter().take(3).map(String::as_str).collect();
    let more = if files.len() > 3 {
        format!(" and {} more", files.len() - 3)
    } else {
        String::new()
    };
    format!("{}{more}", some.join(", "))
}

/// The names in the output of `git status -z`: two letters, a space, the name. For a rename, the
/// old name follows. With `goes`, deleted files do not count.
fn changed_files(status: &str, goes: bool) -> Vec<String> {
    let (mut found, mut entries) = (Vec::new(), status.split('\0'));
    while let Some(entry) = entries.next() {
        let (Some(letters), Some(name)) = (entry.get(..2), entry.get(3..)) else {
            continue;
        };
        if letters.contains(['R', 'C']) {
            entries.next();
        }
        if !(goes && letters == " D") {
            found.push(name.to_owned());
        }
    }
    found
}

/// The operation in progress in the worktree of this git folder.
pub(super) fn in_progress(git_dir: &Path) -> Option<&'static str> {
    const OPERATIONS: [(&str, &str); 6] = [
        ("BISECT_LOG", "a bisect"),
        ("rebase-merge", "a rebase"),
        ("rebase-apply", "a rebase"),
        ("MERGE_HEAD", "a merge"),
        ("CHERRY_PICK_HEAD", "a cherry-pick"),
        ("REVERT_HEAD", "a revert"),
    ];
    OPERATIONS
        .iter()
        .find(|(file, _)| git_dir.join(file).exists())
        .map(|(_, what)| *what)
}

/// The locked file.
const IN_USE: &str = "creel-in-use";

/// The lock of this process.
static HELD: Mutex<Option<File>> = Mutex::new(None);

/// Keeps the worktree for this process until it ends. False if another process has it.
pub fn occupy(worktree: &Path) -> Result<bool, WorktreeError> {
    let Some(file) = lock(worktree)? else {
        return Ok(false);
    };
    *HELD.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
    Ok(true)
}

/// Gives the worktree of this process back.
pub fn stop_occupying() {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
}

/// Whether a process works there.
pub fn is_occupied(worktree: &Path) -> bool {
    matches!(lock(worktree), Ok(None))
}

/// None if another process has the lock.
fn lock(worktree: &Path) -> Result<Option<File>, WorktreeError> {
    let entry = entry_of(worktree).ok_or_else(|| WorktreeError::Broken(worktree.to_owned()))?;
    let path = entry.join(IN_USE);
    let error = |cause| WorktreeError::File {
        action: format!("lock {}", path.display()),
        cause,
    };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(error)?;
    Ok(file.try_lock().is_ok().then_some(file))
}

/// The project whose session works in the worktree that contains this folder, and the same folder
/// in that project. None if the folder is in no worktree of creel's.
pub fn project_of(folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    let top = folder
        .ancestors()
        .find(|folder| folder.join(".git").symlink_metadata().is_ok())?;
    let link = top.join(".git");
    // In a repository itself, it is a folder.
    let entry = fs::read_to_string(&link).ok()?;
    // Both paths can be relative.
    let entry = top
        .join(entry.strip_prefix("gitdir: ")?.trim_end())
        .canonicalize()
        .ok()?;
    let reason = fs::read_to_string(entry.join("locked")).ok()?;
    let (_, project) = reason
        .trim_end()
        .strip_prefix("creel session ")?
        .split_once(" in ")?;
    let project = PathBuf::from(project);
    let own = own_git_dir(&project)?;
    let points_back = fs::read_to_string(entry.join("gitdir")).ok()?;
    let points_back = entry
        .join(points_back.trim_end())
        .parent()?
        .canonicalize()
        .ok()?;
    let is_listed = entry.parent()? == own.join("worktrees") && points_back == top;
    is_listed.then_some(project)
}

/// The git folder of the repository that a project is in.
fn own_git_dir(project: &Path) -> Option<PathBuf> {
    let found = project
        .ancestors()
        .map(|folder| folder.join(".git"))
        .find(|git| git.symlink_metadata().is_ok())?;
    if found.is_dir() {
        return found.canonicalize().ok();
    }
    // The project is itself in a worktree of the user's, or in a submodule.
    let entry = fs::read_to_string(&found).ok()?;
    let entry = found
        .parent()?
        .join(entry.strip_prefix("gitdir: ")?.trim_end());
    let common = fs::read_to_string(entry.join("commondir"))
        .map_or(entry.clone(), |common| entry.join(common.trim_end()));
    common.canonicalize().ok()
}
