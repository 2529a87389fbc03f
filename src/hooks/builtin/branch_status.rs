//! The state of the work: its branch, its base branch, and what blocks it.
//!
//! # Invariants
//! - It changes nothing, except that it first undoes a rebase that a killed creel left behind.

use std::path::{Path, PathBuf};

use super::{
    git::{self, BaseBranch, UncommittedChanges},
    job::BuiltinRun,
    outcome::{BuiltinError, complaint, files, named, quoted, short, some},
    program::ProgramRunner,
    rebase,
};
use crate::{
    engine::{
        effect::SubmissionFacts,
        hooks::point::HookPoint,
        policy::{HookSpec, SessionPlan},
    },
    hooks::workspace::HookWorkspace,
    text::counted,
};

#[derive(Debug, Clone)]
pub(super) struct BranchStatus {
    pub(super) git_dir: PathBuf,
    /// Without `refs/heads/`.
    pub(super) branch: String,
    /// The commit of the branch.
    pub(super) head: String,
    pub(super) base: String,
    /// None if the work stays in this repository.
    pub(super) remote: Option<String>,
}

/// Why the work cannot be submitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SubmitObstacle(pub(super) String);

/// Whether the hooks before a submit have what they need. Opening a pull request takes a remote,
/// and a program for it.
pub async fn can_submit(folder: &Path, plan: &SessionPlan) -> bool {
    let enabled = || {
        plan.hooks_or_usual(HookPoint::BeforeSubmit)
            .iter()
            .filter(|hook| hook.enabled)
    };
    if !enabled().any(HookSpec::opens_request) {
        return enabled().next().is_some();
    }
    let runner = rebase::runner_in(folder);
    let has_program =
        plan.submit.pr_command.is_some() || runner.finds("gh") || runner.finds("glab");
    has_program
        && runner
            .git_says(&["remote"])
            .await
            .is_ok_and(|remotes| !remotes.trim().is_empty())
}

/// Why work that is on its base branch cannot be merged. None if it is on a branch of its own, and
/// if something else is wrong, which the hooks report.
pub async fn refuse_on_base(
    folder: &Path,
    submission: &SubmissionFacts,
    session: &str,
) -> Option<SubmitObstacle> {
    let runner = rebase::runner_in(folder);
    let (status, _) = BranchStatus::find(&runner, submission).await.ok()?;
    status
        .on_its_own_branch(session)
        .err()
        .map(|halt| SubmitObstacle(halt.message))
}

/// What a command at a submit or a merge can name. Without a branch in git, only what the session
/// knows.
pub async fn facts_of_the_work(
    place: &HookWorkspace,
    submission: &SubmissionFacts,
) -> Vec<(String, String)> {
    let runner = rebase::runner_in(&place.cwd);
    let status = BranchStatus::silently(&runner, submission).await.ok();
    let status = status.map(|status| {
        [
            ("branch", status.branch),
            ("base", status.base),
            ("commit", status.head),
        ]
    });
    let known = [
        ("agent", Some(submission.agent.clone())),
        ("task_type", submission.task_type.clone()),
        ("pull_request", submission.pull_request.clone()),
    ];
    let known = known
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    status
        .into_iter()
        .flatten()
        .chain(known)
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Why there is nothing to submit, as far as this repository knows. None if there is something, or
/// if creel cannot tell.
pub(in crate::hooks) async fn nothing_to_submit(
    place: &HookWorkspace,
    submission: &SubmissionFacts,
) -> Option<String> {
    let runner = rebase::runner_in(&place.cwd);
    let status = BranchStatus::silently(&runner, submission).await.ok()?;
    let base = runner.commit(&status.base_ref()).await.ok()??;
    let is_clean = runner.changes().await.ok()?.is_empty();
    let nothing = is_clean && runner.ahead(&base, &status.head).await.ok()? == 0;
    nothing.then(|| {
        format!(
            "nothing to submit: {} has all of the work",
            named(&status.base_name())
        )
    })
}

impl BranchStatus {
    /// For a hook: prints why this base branch was chosen, if the remote did not answer.
    pub(super) async fn of(worker: &mut BuiltinRun<'_>) -> Result<Self, BuiltinError> {
        let (status, note) = Self::find(&worker.runner, worker.submission).await?;
        if let Some(note) = note {
            worker.print(&format!("{note}\n"));
        }
        Ok(status)
    }

    /// For a hook that prints only its result.
    pub(super) async fn silently(
        runner: &ProgramRunner,
        submission: &SubmissionFacts,
    ) -> Result<Self, BuiltinError> {
        Ok(Self::find(runner, submission).await?.0)
    }

    /// Fails if an operation is in progress, or if no branch with a commit is checked out. Also
    /// returns why the base branch was chosen, if the user needs to know.
    async fn find(
        runner: &ProgramRunner,
        submission: &SubmissionFacts,
    ) -> Result<(Self, Option<String>), BuiltinError> {
        let git_dir = runner.git_dir().await?;
        if let Some(problem) = rebase::undo(runner, &git_dir).await?.problem() {
            return Err(BuiltinError::failed(problem));
        }
        if let Some(what) = git::in_progress(&git_dir) {
            return Err(BuiltinError::failed(format!(
                "{what} is in progress in {}, and creel did not start it: finish or abort it, then try again",
                runner.cwd.display()
            )));
        }
        let Some(branch) = runner.branch().await? else {
            return Err(BuiltinError::failed(
                "no branch is checked out, only a commit: create a branch with `git switch -c NAME`",
            ));
        };
        let Some(head) = runner.commit("HEAD").await? else {
            let message = format!(
                "{} has no commits yet: commit the work first",
                named(&branch)
            );
            return Err(BuiltinError::failed(message)
                .repaired_by(commit_prompt(&branch, &runner.changes().await?)));
        };
        let remote = remote(runner, submission.remote.as_deref()).await?;
        let wanted = submission.base_branch.as_deref();
        let BaseBranch { name: base, note } =
            BaseBranch::find(runner, wanted, remote.as_deref()).await?;
        Ok((
            Self {
                git_dir,
                branch,
                head,
                base,
                remote,
            },
            note,
        ))
    }

    /// The base branch as last fetched.
    pub(super) fn base_ref(&self) -> String {
        match &self.remote {
            Some(remote) => format!("refs/remotes/{remote}/{}", self.base),
            None => format!("refs/heads/{}", self.base),
        }
    }

    /// The base branch for the user: `origin/main`.
    pub(super) fn base_name(&self) -> String {
        self.remote.as_ref().map_or_else(
            || self.base.clone(),
            |remote| format!("{remote}/{}", self.base),
        )
    }

    /// Fails if the work is on the base branch itself.
    pub(super) fn on_its_own_branch(&self, session: &str) -> Result<(), BuiltinError> {
        if self.branch != self.base {
            return Ok(());
        }
        let new = quoted(&format!("creel/{session}"));
        let message = format!(
            "the work is on {} itself, its target branch: create a branch for it with `git switch -c {new}`",
            named(&self.base)
        );
        Err(BuiltinError::failed(message).repaired_by(format!(
            "The work is on the branch {base} itself and has to be submitted from a branch of its own.\n1. Create one: \
             `git switch -c {new}` (or a better name). It keeps the commits and the changes.\n2. Commit what belongs \
             to the task and is not committed yet.\nDo not push, and do not change {base} or any other branch.",
            base = named(&self.base)
        )))
    }

    /// Fails if the branch has moved since its review.
    pub(super) fn as_reviewed(&self, submission: &SubmissionFacts) -> Result<(), BuiltinError> {
        let Some(seen) = submission
            .reviewed
            .as_deref()
            .filter(|seen| *seen != self.head)
        else {
            return Ok(());
        };
        Err(BuiltinError::failed(format!(
            "{} moved since its review, from {} to {}. If a hook after the review moves it, like `rebase_on_main`, put \
             that hook before the gatekeeper. Otherwise find out what moved it (`git log {}..`). Then try again, so \
             that the new state is reviewed",
            named(&self.branch),
            short(seen),
            short(&self.head),
            short(seen)
        )))
    }

    /// Fetches the base branch if there is a remote, and returns its commit.
    pub(super) async fn fetch_base(
        &self,
        worker: &mut BuiltinRun<'_>,
    ) -> Result<String, BuiltinError> {
        if let Some(remote) = &self.remote {
            let refspec = format!("+refs/heads/{}:{}", self.base, self.base_ref());
            let ran = worker
                .show(&git::call(&["fetch", "--no-tags", "--", remote, &refspec]))
                .await?;
            if !ran.ok() {
                return Err(BuiltinError::failed(
                    self.why_not_fetched(remote, &ran.stderr),
                ));
            }
        }
        let missing = || {
            format!(
                "the branch {} does not exist: set `base_branch` to one that does",
                named(&self.base_name())
            )
        };
        worker
            .runner
            .commit(&self.base_ref())
            .await?
            .ok_or_else(|| BuiltinError::failed(missing()))
    }

    fn why_not_fetched(&self, remote: &str, stderr: &str) -> String {
        let (base, remote_name) = (named(&self.base), named(remote));
        if stderr.contains("couldn't find remote ref") {
            return format!(
                "{remote_name} has no branch {base}: push it with `git push {} {}`, or set `base_branch`",
                quoted(remote),
                quoted(&self.base)
            );
        }
        format!(
            "creel could not fetch {base} from {remote_name} ({}): check that `git fetch {}` works",
            complaint(stderr),
            quoted(remote)
        )
    }

    /// Fails if what the checks saw is not what the commit has. Files that no turn touched stay out,
    /// unless the session waits for the merge and git tracks them.
    pub(super) async fn is_whole(
        &self,
        runner: &ProgramRunner,
        changes: &UncommittedChanges,
        submission: &SubmissionFacts,
    ) -> Result<(), BuiltinError> {
        if changes.is_empty() || (submission.files.is_empty() && !submission.until_merged) {
            return Ok(());
        }
        // Git names files from the top of the repository, the session from the project's folder.
        let folder = runner.git_says(&["rev-parse", "--show-prefix"]).await?;
        let of_the_session = |file: &&String| {
            let below = file.strip_prefix(&folder);
            let has_all = file.ends_with('/') && folder.starts_with(file.as_str());
            has_all || below.is_some_and(|file| submission.files.may_have(file))
        };
        let tracked = changes.tracked.iter();
        let tracked = tracked.filter(|file| submission.until_merged || of_the_session(file));
        let untracked = changes.untracked.iter().filter(of_the_session);
        let left = UncommittedChanges {
            tracked: tracked.chain(untracked).cloned().collect(),
            untracked: Vec::new(),
        };
        self.refuse_changes(&left, "the commit is not what the checks saw")
    }

    /// Fails if tracked files have changes, which would be mixed up with the work.
    pub(super) fn refuse_changes(
        &self,
        changes: &UncommittedChanges,
        what: &str,
    ) -> Result<(), BuiltinError> {
        if changes.tracked.is_empty() {
            return Ok(());
        }
        let message = format!(
            "{} uncommitted changes ({}), so {what}: commit or stash them",
            counted(changes.tracked.len(), "file")
                + if changes.tracked.len() == 1 {
                    " has"
                } else {
                    " have"
                },
            some(&changes.tracked)
        );
        Err(BuiltinError::failed(message).repaired_by(commit_prompt(&self.branch, changes)))
    }
}

impl UncommittedChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.tracked.is_empty() && self.untracked.is_empty()
    }

    /// A sentence about uncommitted files, if any.
    pub(super) fn left_out(&self) -> String {
        let all: Vec<String> = self
            .tracked
            .iter()
            .chain(&self.untracked)
            .cloned()
            .collect();
        if all.is_empty() {
            String::new()
        } else {
            format!("; not committed, so not included: {}", some(&all))
        }
    }
}

/// The agent's prompt for uncommitted changes.
pub(super) fn commit_prompt(branch: &str, changes: &UncommittedChanges) -> String {
    let all: Vec<String> = changes
        .tracked
        .iter()
        .chain(&changes.untracked)
        .cloned()
        .collect();
    format!(
        "The work on the branch {} cannot be submitted while it is not committed. These files have changes or are \
         new:\n{}1. Look at them with `git status` and `git diff`.\n2. Commit what belongs to the task: `git add -- \
         FILE…`, then `git commit`.\n3. Stash what does not belong to the task with `git stash push -- FILE…`; do not \
         delete anything.\nDo not push.",
        named(branch),
        files(&all)
    )
}

/// The remote that the current branch tracks, if any.
async fn followed(runner: &ProgramRunner) -> Result<Option<String>, BuiltinError> {
    let branch = runner.git_says(&["branch", "--show-current"]).await?;
    let key = format!("branch.{}.remote", branch.trim());
    let output = runner
        .git_says(&["config", "--default", "", "--get", &key])
        .await?;
    Ok(Some(output.trim().to_owned()).filter(|name| !name.is_empty() && !branch.trim().is_empty()))
}

/// The remote to use. None if the repository has none.
pub(super) async fn remote(
    runner: &ProgramRunner,
    wanted: Option<&str>,
) -> Result<Option<String>, BuiltinError> {
    let output = runner.git_says(&["remote"]).await?;
    let all: Vec<&str> = output.lines().collect();
    let names = || {
        all.iter()
            .map(|name| named(name))
            .collect::<Vec<_>>()
            .join(", ")
    };
    if wanted.is_none() && all.len() > 1 {
        let followed = followed(runner).await?;
        let followed =
            followed.filter(|name| all.contains(&name.as_str()) && !name.starts_with('-'));
        if followed.is_some() {
            return Ok(followed);
        }
    }
    match (wanted, all.as_slice()) {
        (Some(wanted), _) if all.contains(&wanted) && !wanted.starts_with('-') => {
            Ok(Some(wanted.to_owned()))
        }
        (Some(wanted), []) => Err(BuiltinError::failed(format!(
            "the remote {} does not exist: add it with `git remote add {} URL`",
            named(wanted),
            quoted(wanted)
        ))),
        (Some(wanted), _) => Err(BuiltinError::failed(format!(
            "the remote {} does not exist; use one of: {}",
            named(wanted),
            names()
        ))),
        (None, []) => Ok(None),
        (None, [only]) if !only.starts_with('-') => Ok(Some((*only).to_owned())),
        (None, several) if several.contains(&"origin") => Ok(Some("origin".to_owned())),
        (None, _) => Err(BuiltinError::failed(format!(
            "which remote does the work go to? Set `remote` to one of: {}",
            names()
        ))),
    }
}
