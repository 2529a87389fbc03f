//! The worktree of a session: before it starts, before it is resumed, and after its end.

use std::path::{Path, PathBuf};

use crate::{
    cli::{
        error::{CliError, CliResult, say},
        target::Project,
    },
    engine::{
        SessionState,
        event::{SessionOutcome, SessionStarted, SessionWorktree},
        hooks::point::HookPoint,
        policy::{SessionPlan, WorktreePlan},
    },
    journal::{self, SessionDir, SessionsDir},
    worktrees::{
        PreparedWorktree, ProjectRepository, WorktreeError, WorktreeRequest,
        base_commit::BaseCommit,
        checked_out, inventory,
        new_worktree::{WorktreeName, set_up},
        removal::{BranchRemoval, RemovalOutcome},
    },
};

impl From<WorktreeError> for CliError {
    fn from(error: WorktreeError) -> Self {
        match error {
            WorktreeError::NoGit
            | WorktreeError::NotText(_)
            | WorktreeError::NotCommitted(_)
            | WorktreeError::NoRepository(_)
            | WorktreeError::NoCommit
            | WorktreeError::NoRemote(_)
            | WorktreeError::NoBase { .. }
            | WorktreeError::BadBranch(_)
            | WorktreeError::BranchExists { .. }
            | WorktreeError::FolderExists(_)
            | WorktreeError::Broken(_)
            | WorktreeError::InUse { .. }
            | WorktreeError::NoSuchWorktree(_) => Self::usage(error.to_string()),
            WorktreeError::CannotRun(_)
            | WorktreeError::File { .. }
            | WorktreeError::CannotSetUp { .. }
            | WorktreeError::SetupFailed { .. }
            | WorktreeError::Git { .. } => Self::failed(error.to_string()),
        }
    }
}

/// Lets the command line ask for a worktree that the config does not ask for.
pub(crate) fn ask_for(plan: &mut SessionPlan, is_asked: bool) {
    if is_asked && plan.worktree.is_none() {
        plan.worktree = Some(WorktreePlan::default());
    }
}

/// A repository, and where a new worktree in it starts.
pub(crate) struct WorktreeBase {
    repository: ProjectRepository,
    /// Not needed to continue in an existing worktree.
    base: Option<BaseCommit>,
}

impl WorktreeBase {
    /// Says which base the worktree takes if the user's own branch has commits that it does not get.
    pub(crate) fn say_if_elsewhere(&self) -> CliResult<()> {
        let Some(base) = &self.base else {
            return Ok(());
        };
        if let Some(branch) = self.repository.branch_here()?
            && !self.repository.contains(&base.commit, "HEAD")?
        {
            say(&format!(
                "creel: the worktree starts from `{}`, not from your branch `{branch}`, which has other commits; \
                 to start from those, set `worktree: {{ base: HEAD }}`",
                base.name
            ));
        }
        Ok(())
    }
}

/// Fetches the base of a worktree if the plan wants one. This can take a while: it happens before
/// creel locks anything.
pub(crate) fn find_base(
    project: &Project,
    plan: &SessionPlan,
    name: Option<&str>,
) -> CliResult<Option<WorktreeBase>> {
    let Some(wanted) = &plan.worktree else {
        return Ok(None);
    };
    let repository = ProjectRepository::of(&project.root)?;
    if name.is_some_and(|name| {
        repository
            .worktree(name)
            .is_ok_and(|existing| !existing.is_missing)
    }) {
        return Ok(Some(WorktreeBase {
            repository,
            base: None,
        }));
    }
    let base = BaseCommit::find(
        &repository,
        wanted.base.as_deref(),
        plan.submit.remote.as_deref(),
    )?;
    if let Some(note) = &base.note {
        say(&format!("creel: {note}"));
    }
    Ok(Some(WorktreeBase {
        repository,
        base: Some(base),
    }))
}

/// Creates the worktree of a new session if its plan wants one, and adds the setup commands to its
/// hooks.
pub(crate) fn prepare(
    base: Option<WorktreeBase>,
    plan: &mut SessionPlan,
    name: Option<&str>,
    folder: &SessionDir,
) -> CliResult<Option<PreparedWorktree>> {
    let (Some(wanted), Some(WorktreeBase { repository, base })) = (plan.worktree.clone(), base)
    else {
        return Ok(None);
    };
    let sessions = SessionsDir::of(folder.project());
    let is_running = |session: &str| journal::running(&sessions.folder(session)).is_some();
    let has_begun = |session: &str| sessions.folder(session).exists();
    let name = name.map_or_else(
        || WorktreeName::Like(folder.name.clone()),
        |name| WorktreeName::Exactly(name.to_owned()),
    );
    let request = WorktreeRequest {
        repository: &repository,
        plan: &wanted,
        base: base.as_ref(),
        name,
        session: &folder.name,
        is_running: &is_running,
        has_begun: &has_begun,
        say: &say,
    };
    let prepared = request.prepare()?;
    if prepared.is_new {
        let hooks = plan.hooks.entry(HookPoint::SessionStart).or_default();
        hooks.splice(0..0, wanted.setup_hooks());
    }
    Ok(Some(prepared))
}

/// Merges the branches that a task builds on into its worktree. Returns what the agent has to do
/// first.
pub(crate) fn join(
    project: &Path,
    prepared: Option<&PreparedWorktree>,
    branches: &[String],
    remote: Option<&str>,
) -> CliResult<String> {
    let Some(prepared) = prepared.filter(|_| !branches.is_empty()) else {
        return Ok(String::new());
    };
    let repository = ProjectRepository::of(project)?;
    let remote = repository.remote(remote)?;
    let conflict = repository.join(
        Path::new(&prepared.worktree.path),
        branches,
        remote.as_deref(),
    )?;
    Ok(conflict
        .map(|conflict| conflict.for_agent())
        .unwrap_or_default())
}

/// The folder in which an ended session continues. A worktree that is gone is checked out and set
/// up again.
pub(crate) fn folder_of(folder: &SessionDir, began: &SessionStarted) -> CliResult<PathBuf> {
    let Some(worktree) = &began.worktree else {
        let cwd = PathBuf::from(&began.cwd);
        return Ok(if cwd.is_dir() {
            cwd
        } else {
            folder.project().to_owned()
        });
    };
    let plan = began.plan.worktree.clone().unwrap_or_default();
    let prepared =
        ProjectRepository::of(folder.project())?.restore(worktree, &folder.name, &plan, &say)?;
    if prepared.is_new {
        for command in &plan.setup {
            set_up(command, &prepared.cwd, &folder.name, folder.project(), say)?;
        }
        ProjectRepository::is_ready(&prepared);
    }
    Ok(prepared.cwd)
}

/// After the session: removes its worktree if the plan allows it and nothing would be lost, and
/// says where the work is.
pub(crate) fn let_go(folder: &SessionDir, state: &SessionState) {
    inventory::stop_occupying();
    // A worker commits and pushes the work of a task first.
    let Some(worktree) = state
        .began
        .worktree
        .as_ref()
        .filter(|_| state.began.order.is_none())
    else {
        return;
    };
    let keep = state.plan().worktree.clone().unwrap_or_default().keep;
    let is_complete = state.phase.outcome() == Some(SessionOutcome::Complete);
    let can_go = keep.lets_go(is_complete);
    let SessionWorktree {
        name, path, branch, ..
    } = worktree;
    // A commit without a branch is checked before the folder is removed.
    if let Some(now) = checked_out(Path::new(path))
        .flatten()
        .filter(|now| now != branch)
    {
        say(&format!(
            "creel: the agent left the branch `{branch}`: the worktree {path} stays, with the branch `{now}` checked out\n  \
             `creel submit` and `creel merge` of this session use that branch"
        ));
        return;
    }
    let removed = if can_go {
        removed(folder, worktree).unwrap_or_else(|error| Some(error.to_string()))
    } else {
        None
    };
    say(&match (can_go, removed) {
        (true, None) => {
            format!("creel: the work is on branch `{branch}`; creel removed its worktree")
        }
        (true, Some(why)) => {
            format!(
                "creel: the worktree {path} stays: it has {why}\n  when you have saved that, remove it with `creel worktree \
                 remove {name}`"
            )
        }
        (false, _) => format!("creel: the work is on branch `{branch}` in the worktree {path}"),
    });
}

/// Removes a worktree, or says why it stays.
fn removed(
    folder: &SessionDir,
    worktree: &SessionWorktree,
) -> Result<Option<String>, WorktreeError> {
    let repository = ProjectRepository::of(folder.project())?;
    let Ok(owned) = repository.worktree(&worktree.name) else {
        return Ok(None);
    };
    Ok(match repository.remove(&owned, BranchRemoval::Keep)? {
        RemovalOutcome::Removed(_) => None,
        RemovalOutcome::Kept(unsaved) => Some(unsaved.in_words()),
    })
}
