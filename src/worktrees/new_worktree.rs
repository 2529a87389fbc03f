//! Creates a worktree for a session, or continues in one.

use std::{
    fs,
    io::{self, Write as _},
    path::{Component, Path, PathBuf},
    process::{Command, Stdio},
};

use super::{
    FOLDER, ProjectRepository, WorktreeError,
    base_commit::BaseCommit,
    entry_of,
    inventory::{self, OwnedWorktree},
    kill_repair::wait_until_made,
    worktree_git, worktree_git_output,
};

use crate::{
    engine::{
        event::SessionWorktree,
        hooks::template,
        policy::{WORKTREE_BRANCH, WorktreePlan},
    },
    journal::session_dir::create_ignored,
    process::children::output_of,
};

/// The file that says that a restored worktree still has to be set up.
pub(super) const UNREADY: &str = "creel-needs-setup";

/// Which name a worktree gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorktreeName {
    /// This one. If a worktree has it, the session continues there.
    Exactly(String),
    /// This one, or one with a number added if it is taken.
    Like(String),
}

/// A request for a worktree.
pub struct WorktreeRequest<'a> {
    pub repository: &'a ProjectRepository,
    pub plan: &'a WorktreePlan,
    /// Where a new one starts. Not needed if the worktree exists.
    pub base: Option<&'a BaseCommit>,
    pub name: WorktreeName,
    pub session: &'a str,
    /// Whether a session of this name runs.
    pub is_running: &'a dyn Fn(&str) -> bool,
    /// Whether a session of this name ever began.
    pub has_begun: &'a dyn Fn(&str) -> bool,
    /// Shows what takes time.
    pub say: &'a dyn Fn(&str),
}

/// A worktree that is ready for its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedWorktree {
    pub worktree: SessionWorktree,
    /// The project's folder in it.
    pub cwd: PathBuf,
    /// Whether it still has to be set up.
    pub is_new: bool,
}

impl WorktreeRequest<'_> {
    pub fn prepare(&self) -> Result<PreparedWorktree, WorktreeError> {
        let places = [self.repository.project.clone(), self.folder()];
        if let Some(place) = places.into_iter().find(|place| place.to_str().is_none()) {
            return Err(WorktreeError::NotText(place));
        }
        let _alone = self.repository.lock()?;
        let (WorktreeName::Exactly(name) | WorktreeName::Like(name)) = &self.name;
        wait_until_made(&self.folder().join(name));
        self.repository.clear_after_kills()?;
        let existing = match &self.name {
            WorktreeName::Exactly(name) => self
                .repository
                .worktrees()?
                .into_iter()
                .find(|worktree| worktree.name == *name),
            // creel may have been killed between the worktree and the first record of its session.
            WorktreeName::Like(name) if self.folder().join(name).exists() => {
                let worktrees = self.repository.worktrees()?;
                worktrees
                    .into_iter()
                    .find(|worktree| worktree.session.as_deref() == Some(self.session))
            }
            WorktreeName::Like(_) => None,
        };
        match existing {
            Some(existing) if !existing.is_missing => self.continue_in(existing),
            Some(missing) => {
                self.repository.discard(&missing.path)?;
                self.create()
            }
            None => self.create(),
        }
    }

    fn continue_in(&self, existing: OwnedWorktree) -> Result<PreparedWorktree, WorktreeError> {
        let OwnedWorktree {
            name,
            path,
            branch,
            session,
            ..
        } = existing;
        let is_new = session
            .as_ref()
            .is_none_or(|session| !(self.has_begun)(session));
        if !inventory::occupy(&path)?
            || session
                .as_ref()
                .is_some_and(|session| (self.is_running)(session))
        {
            return Err(WorktreeError::InUse {
                name,
                session: session.unwrap_or_default(),
            });
        }
        self.repository
            .repair(&path, branch.as_deref().unwrap_or_default())?;
        self.repository.hand_to(&path, self.session)?;
        let branch = branch.unwrap_or_default();
        // The session was killed before it began, and may start from more by now: its last run may
        // have left work.
        if is_new
            && let Some(base) = self.base
            && let Some(session) = &session
            && self.repository.is_made_for(&branch, session)
        {
            worktree_git(&path, &["reset", "--quiet", "--keep", &base.commit])?;
        }
        let commit = worktree_git_output(&path, &["rev-parse", "HEAD"])?;
        let on = if branch.is_empty() { &commit } else { &branch };
        (self.say)(&format!(
            "creel: continuing in the worktree {} on `{on}`",
            path.display()
        ));
        let base = on.clone();
        let worktree = SessionWorktree {
            name,
            path: text(&path),
            branch,
            base,
            commit,
        };
        let prepared = self.repository.prepared(worktree, is_new);
        if is_new {
            self.repository.fill(self.plan, &prepared, self.say)?;
        }
        Ok(prepared)
    }

    fn create(&self) -> Result<PreparedWorktree, WorktreeError> {
        let Some(base) = self.base.cloned() else {
            return Err(WorktreeError::NoSuchWorktree(self.session.to_owned()));
        };
        let (name, branch, path) = self.free_name()?;
        (self.say)(&format!(
            "creel: worktree {} on branch `{branch}`, from {}",
            path.display(),
            base.name
        ));
        self.repository
            .make_branch(&branch, &base.commit, self.session)?;
        self.repository
            .add(&path, self.session, &[&text(&path), &branch])?;
        inventory::occupy(&path)?;
        let prepared = self.repository.prepared(
            SessionWorktree {
                name,
                path: text(&path),
                branch,
                base: base.name,
                commit: base.commit,
            },
            true,
        );
        if let Err(error) = self.repository.fill(self.plan, &prepared, self.say) {
            // It is new, so there is no work in it.
            inventory::stop_occupying();
            self.repository.discard(&path)?;
            let _ = self
                .repository
                .ask(&["branch", "-D", "--", &prepared.worktree.branch]);
            return Err(error);
        }
        Ok(prepared)
    }

    /// The folder of all worktrees.
    fn folder(&self) -> PathBuf {
        self.repository.folder(self.plan)
    }

    /// A name whose branch and folder do not exist yet, or whose branch this session has just made:
    /// creel may have been killed then.
    fn free_name(&self) -> Result<(String, String, PathBuf), WorktreeError> {
        let (name, is_fixed) = match &self.name {
            WorktreeName::Exactly(name) => (name, true),
            WorktreeName::Like(name) => (name, false),
        };
        let folder = self.folder();
        let numbered = (2_u64..).map(|number| format!("{name}-{number}"));
        for name in std::iter::once(name.clone()).chain(numbered) {
            let (branch, path) = (self.plan.branch_of(&name), folder.join(&name));
            // Names have only letters, digits, `-` and `_`.
            let is_valid = self.plan.branch == WORKTREE_BRANCH
                || self
                    .repository
                    .ask(&["check-ref-format", "--branch", &branch])?
                    .is_ok;
            if !is_valid {
                return Err(WorktreeError::BadBranch(branch));
            }
            let is_taken = self.repository.branch(&branch)?.is_some()
                && !self.repository.is_new(&branch, self.session)?;
            match (is_taken, path.exists(), is_fixed) {
                (false, false, _) => return Ok((name, branch, path)),
                (true, _, true) => return Err(WorktreeError::BranchExists { branch }),
                (_, true, true) => return Err(WorktreeError::FolderExists(path)),
                (_, _, false) => {}
            }
        }
        unreachable!("numbers do not end before branches do")
    }
}

impl ProjectRepository {
    /// The folder of all worktrees.
    pub(super) fn folder(&self, plan: &WorktreePlan) -> PathBuf {
        let mut folder = self.project.clone();
        // Without `..`, since paths are compared with those that git reports.
        for part in Path::new(plan.folder.as_deref().unwrap_or(FOLDER)).components() {
            match part {
                Component::ParentDir => {
                    folder.pop();
                }
                Component::CurDir => {}
                Component::Normal(_) | Component::RootDir | Component::Prefix(_) => {
                    folder.push(part);
                }
            }
        }
        folder
    }

    /// The worktree of a session that continues. If its folder is gone, creel checks it out again,
    /// and it has to be set up.
    pub fn restore(
        &self,
        worktree: &SessionWorktree,
        session: &str,
        plan: &WorktreePlan,
        say: &dyn Fn(&str),
    ) -> Result<PreparedWorktree, WorktreeError> {
        let _alone = self.lock()?;
        let path = PathBuf::from(&worktree.path);
        let known = self
            .worktrees()?
            .into_iter()
            .find(|known| known.path == path);
        if path.exists() {
            if !inventory::occupy(&path)? {
                let session = known.and_then(|known| known.session).unwrap_or_default();
                return Err(WorktreeError::InUse {
                    name: worktree.name.clone(),
                    session,
                });
            }
            self.repair(&path, &worktree.branch)?;
            self.hand_to(&path, session)?;
            let is_new = entry_of(&path).is_some_and(|entry| entry.join(UNREADY).exists());
            return Ok(self.prepared(worktree.clone(), is_new));
        }
        if known.is_some() {
            self.discard(&path)?;
        }
        say(&format!(
            "creel: checking out the worktree {} again",
            path.display()
        ));
        if self.branch(&worktree.branch)?.is_some() {
            self.add(&path, session, &[&worktree.path, &worktree.branch])?;
        } else {
            self.add(
                &path,
                session,
                &["-b", &worktree.branch, &worktree.path, &worktree.commit],
            )?;
        }
        inventory::occupy(&path)?;
        if let Some(entry) = entry_of(&path) {
            let error = |cause| WorktreeError::File {
                action: format!("write to {}", entry.display()),
                cause,
            };
            fs::write(entry.join(UNREADY), "").map_err(error)?;
        }
        let prepared = self.prepared(worktree.clone(), true);
        self.fill(plan, &prepared, say)?;
        Ok(prepared)
    }

    /// Notes that a restored worktree is set up.
    pub fn is_ready(prepared: &PreparedWorktree) {
        if let Some(entry) = entry_of(Path::new(&prepared.worktree.path)) {
            let _ = fs::remove_file(entry.join(UNREADY));
        }
    }

    fn prepared(&self, worktree: SessionWorktree, is_new: bool) -> PreparedWorktree {
        let cwd = Path::new(&worktree.path).join(&self.prefix);
        // Without the slash that an empty prefix adds.
        let cwd = cwd.components().collect();
        PreparedWorktree {
            worktree,
            cwd,
            is_new,
        }
    }

    /// Adds what git leaves out: submodules, and ignored files that the project needs.
    fn fill(
        &self,
        plan: &WorktreePlan,
        prepared: &PreparedWorktree,
        say: &dyn Fn(&str),
    ) -> Result<(), WorktreeError> {
        self.fill_in(plan, Path::new(&prepared.worktree.path), say)
    }

    pub(super) fn fill_in(
        &self,
        plan: &WorktreePlan,
        path: &Path,
        say: &dyn Fn(&str),
    ) -> Result<(), WorktreeError> {
        let cwd = path.join(&self.prefix);
        if path.join(".gitmodules").exists() {
            say("creel: checking out the submodules");
            worktree_git_output(
                path,
                &["submodule", "update", "--init", "--recursive", "--quiet"],
            )?;
        }
        for name in &plan.copy {
            let (from, to) = (self.project.join(name), cwd.join(name));
            match copy(&from, &to) {
                Ok(()) => {}
                Err(cause) if cause.kind() == io::ErrorKind::NotFound && !from.exists() => {
                    say(&format!(
                        "creel: `{name}` does not exist, so the worktree does not get it"
                    ));
                }
                Err(cause) => {
                    let action = format!("copy {} to the worktree", from.display());
                    return Err(WorktreeError::File { action, cause });
                }
            }
        }
        Ok(())
    }

    /// Makes a branch for a session, or moves the one that it has just made. Its log says whose it
    /// is.
    fn make_branch(&self, branch: &str, commit: &str, session: &str) -> Result<(), WorktreeError> {
        let (reference, reason) = (format!("refs/heads/{branch}"), self.lock_reason(session));
        let before = self.branch(branch)?.unwrap_or_default();
        let make = [
            "update-ref",
            "--create-reflog",
            "-m",
            &reason,
            &reference,
            commit,
            &before,
        ];
        self.tell(&make).map(drop)
    }

    /// Whether this session has made the branch, and nothing has happened to it since.
    fn is_new(&self, branch: &str, session: &str) -> Result<bool, WorktreeError> {
        let log = self.ask(&[
            "log",
            "--walk-reflogs",
            "--format=%gs",
            &format!("refs/heads/{branch}"),
            "--",
        ])?;
        let is_used = self.tell(&["worktree", "list", "--porcelain"])?;
        let is_used = is_used
            .lines()
            .any(|line| line.strip_prefix("branch refs/heads/") == Some(branch));
        let reason = self.lock_reason(session);
        Ok(log.is_ok
            && !is_used
            && !log.line().is_empty()
            && log.line().lines().all(|entry| entry == reason))
    }

    /// Creates a worktree that names its session from the start.
    pub(super) fn add(
        &self,
        path: &Path,
        session: &str,
        what: &[&str],
    ) -> Result<(), WorktreeError> {
        if let Some(folder) = path.parent() {
            let error = |cause| WorktreeError::File {
                action: format!("create {}", folder.display()),
                cause,
            };
            // Otherwise the project would show its worktrees as untracked files.
            let is_inside = folder.starts_with(&self.project);
            if is_inside {
                create_ignored(folder)
            } else {
                fs::create_dir_all(folder)
            }
            .map_err(error)?;
        }
        let reason = self.lock_reason(session);
        let first = [
            "worktree",
            "add",
            "--quiet",
            "--no-track",
            "--lock",
            "--reason",
            &reason,
        ];
        // An existing branch has an upstream already, and git refuses the option for it.
        let is_new = what.first() == Some(&"-b");
        let first = first
            .iter()
            .copied()
            .filter(|word| is_new || *word != "--no-track");
        let args: Vec<&str> = first.chain(what.iter().copied()).collect();
        self.tell(&args).map(drop)
    }

    /// Notes another session as the one that works there.
    fn hand_to(&self, path: &Path, session: &str) -> Result<(), WorktreeError> {
        let is_ours = |entry: &PathBuf| entry.starts_with(&self.common_dir);
        let Some(entry) = entry_of(path).filter(is_ours) else {
            return Err(WorktreeError::NoSuchWorktree(session.to_owned()));
        };
        // Git would unlock it first, and a kill in between would leave a worktree without a
        // session.
        let (lock, new) = (entry.join("locked"), entry.join("locked.new"));
        let error = |cause| WorktreeError::File {
            action: format!("write {}", lock.display()),
            cause,
        };
        fs::write(&new, self.lock_reason(session))
            .and_then(|()| fs::rename(&new, &lock))
            .map_err(error)
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Copies a file, a folder or a link. Leaves alone what is already there.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let kind = from.symlink_metadata()?.file_type();
    if kind.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    if to.symlink_metadata().is_ok() {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    if kind.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(from)?, to)
    } else {
        fs::copy(from, to).map(drop)
    }
}

/// Runs a setup command where no session shows it.
pub fn set_up(
    command: &str,
    cwd: &Path,
    session: &str,
    project: &Path,
    say: fn(&str),
) -> Result<(), WorktreeError> {
    say(&format!("creel: setup: {command}"));
    let line = template::expand(command).unwrap_or_else(|_| command.to_owned());
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &line])
        .current_dir(cwd)
        .stdin(Stdio::null())
        .env("CREEL_SESSION", session)
        .env("CREEL_PROJECT", project);
    let ran = output_of(&mut shell).map_err(|cause| WorktreeError::CannotSetUp {
        command: command.to_owned(),
        cause,
    })?;
    let _ = io::stderr()
        .write_all(&ran.stdout)
        .and_then(|()| io::stderr().write_all(&ran.stderr));
    if ran.status.success() {
        return Ok(());
    }
    Err(WorktreeError::SetupFailed {
        command: command.to_owned(),
        status: ran.status,
        folder: cwd.to_owned(),
    })
}
