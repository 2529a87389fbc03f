//! `merge_pr`: merges the work into the base branch.
//!
//! On a forge, only through its pull request; without a forge with a local merge, see
//! [`super::local_merge`]. A repair that the agent made meanwhile is pushed to the pull request
//! first, see [`super::repair`].
//!
//! # Invariants
//! - Nothing is merged while a check has failed, still runs, or cannot be read.
//! - Only the local commit is merged; after a review, only the reviewed one.

use super::{
    BuiltinError, BuiltinSuccess,
    forge::{self, ForgeLookup, PullRequest, PullRequestCheck, PullRequestState},
    local_merge,
    program::ProgramRunner,
    repair,
};
use crate::hooks::builtin::{
    branch_status::BranchStatus,
    builtin_run::BuiltinRun,
    quoting::{named, quoted},
};

enum ForgeState {
    PullRequest(Box<PullRequest>),
    Unsubmitted,
    NoForge,
}

pub(super) async fn run(worker: &mut BuiltinRun<'_>) -> Result<BuiltinSuccess, BuiltinError> {
    let standing = BranchStatus::of(worker).await?;
    standing.on_its_own_branch(&worker.errand.job.facts.session)?;
    standing.as_reviewed(worker.submission)?;
    standing.refuse_changes(&worker.runner.changes().await?, "it is not merged")?;
    if worker
        .submission
        .pr_command
        .as_ref()
        .is_some_and(|line| !line.trim().is_empty())
    {
        return Err(BuiltinError::failed(
            "creel cannot see the checks of the forge behind `pr_command`. Instead of `merge_pr`, use a `command:` \
             hook that merges with that forge's own command after its checks have passed",
        ));
    }
    match on_forge(&worker.runner, &standing).await? {
        ForgeState::PullRequest(pull) => by_forge(worker, &standing, *pull).await,
        ForgeState::NoForge => local_merge::run(worker, &standing).await,
        ForgeState::Unsubmitted => Err(BuiltinError::failed(format!(
            "{} has no pull request, and on a forge creel merges only by pull request: submit first with `creel \
            submit`, then run `creel merge` again",
            named(&standing.branch)
        ))),
    }
}

async fn on_forge(
    runner: &ProgramRunner,
    standing: &BranchStatus,
) -> Result<ForgeState, BuiltinError> {
    let Some(remote) = &standing.remote else {
        return Ok(ForgeState::NoForge);
    };
    let url = runner
        .git(&["remote", "get-url", remote])
        .await?
        .answer()
        .to_owned();
    // A pull request there could have checks that creel cannot see.
    let unseen = |why: &str| {
        let remote = named(remote);
        match forge_of(&url) {
            Some(GITHUB) => Err(BuiltinError::failed(format!(
                "{remote} is on GitHub, and {why}"
            ))),
            Some(forge) => Err(BuiltinError::failed(format!(
                "{remote} is on a forge ({forge}) whose requests creel cannot see: submit first, then merge the \
                request there"
            ))),
            None => Ok(ForgeState::NoForge),
        }
    };
    if !runner.finds("gh") {
        return unseen("`gh`, which shows its checks, is not on PATH: install it");
    }
    match runner.pull_request(standing).await? {
        ForgeLookup::Known(Some(pull)) => Ok(ForgeState::PullRequest(pull)),
        // `gh` answers for any remote that it knows. If the work goes to a folder, `gh` means
        // another remote.
        ForgeLookup::Known(None) if is_a_folder(&url) && has_a_remote_elsewhere(runner).await? => {
            Ok(ForgeState::NoForge)
        }
        ForgeLookup::Known(None) => Ok(ForgeState::Unsubmitted),
        ForgeLookup::NoForge => {
            unseen("`gh` does not know that host and sees no checks: log in with `gh auth login`")
        }
        ForgeLookup::Failed(_) if is_a_folder(&url) => Ok(ForgeState::NoForge),
        ForgeLookup::Failed(ran) => Err(forge::trouble("gh pr list", &ran)),
    }
}

/// The forge that `gh` supports.
const GITHUB: &str = "github";
/// Parts of the URLs of known forges. A forge with any other name counts as a plain git server.
const FORGES: [&str; 9] = [
    GITHUB,
    "gitlab",
    "bitbucket",
    "codeberg",
    "gitea",
    "forgejo",
    "sr.ht",
    "dev.azure.com",
    "visualstudio.com",
];

/// Whether a remote is a folder on this machine.
fn is_a_folder(url: &str) -> bool {
    url.starts_with("file://") || url.starts_with(['/', '.'])
}

/// The forge of a URL, by its name. None for a folder or a plain git server.
pub fn forge_of(url: &str) -> Option<&'static str> {
    FORGES
        .into_iter()
        .find(|forge| url.contains(forge) && !is_a_folder(url))
}

async fn has_a_remote_elsewhere(runner: &ProgramRunner) -> Result<bool, BuiltinError> {
    let ran = runner
        .git(&["config", "--get-regexp", r"^remote\..*\.url$"])
        .await?;
    let mut urls = ran.stdout.lines().filter_map(|line| line.split_once(' '));
    Ok(urls.any(|(_, url)| !is_a_folder(url)))
}

async fn by_forge(
    worker: &mut BuiltinRun<'_>,
    standing: &BranchStatus,
    pull: PullRequest,
) -> Result<BuiltinSuccess, BuiltinError> {
    if pull.state == PullRequestState::Merged {
        return Ok(merged(
            &pull,
            BuiltinSuccess::skip(format!("{} is already merged", pull.url)),
        ));
    }
    if pull.state == PullRequestState::Closed {
        return Err(BuiltinError::failed(format!(
            "{} was closed without merging: reopen it if you still want to merge it",
            pull.url
        )));
    }
    let pull = if pull.head == standing.head {
        pull
    } else {
        repair::bring(worker, standing, &pull).await?
    };
    refuse(standing, &pull)?;
    let checks = worker.runner.checks(pull.number).await?;
    judge(&pull, &checks)?;
    let (number, method) = (pull.number.to_string(), worker.runner.merge_method().await?);
    let commit = format!("--match-head-commit={}", standing.head);
    let ran = worker
        .show(&forge::call(&["pr", "merge", &number, method, &commit]))
        .await?;
    if !ran.ok() {
        return Err(forge::trouble("gh pr merge", &ran).and(&format!("{} is not merged", pull.url)));
    }
    let now = worker.runner.look_at(pull.number).await?;
    match now.state {
        PullRequestState::Merged => Ok(merged(
            &now,
            BuiltinSuccess::success(format!("merged {}", now.url)),
        )),
        PullRequestState::Open | PullRequestState::Closed => Err(BuiltinError::failed(format!(
            "{} was accepted for merging but is not merged yet (a merge queue?): run this again when it is",
            now.url
        ))),
    }
}

fn merged(pull: &PullRequest, done: BuiltinSuccess) -> BuiltinSuccess {
    let merged = pull.merge_commit.as_ref().map(|commit| commit.oid.clone());
    BuiltinSuccess {
        pull_request: Some(pull.url.clone()),
        merged,
        ..done
    }
}

/// Reasons not to merge, other than checks.
fn refuse(standing: &BranchStatus, pull: &PullRequest) -> Result<(), BuiltinError> {
    let url = &pull.url;
    if pull.is_draft {
        return Err(BuiltinError::failed(format!(
            "{url} is a draft: mark it as ready with `gh pr ready {}`",
            pull.number
        )));
    }
    if pull.review_decision.as_deref() == Some("CHANGES_REQUESTED") {
        return Err(BuiltinError::failed(format!(
            "a reviewer of {url} requests changes: see there"
        )));
    }
    if pull.mergeable == "CONFLICTING" {
        let base = standing.base_name();
        return Err(BuiltinError::failed(format!(
            "{url} conflicts with {}: rebase it",
            named(&base)
        ))
        .repaired_by(local_merge::prompt(standing, &[])));
    }
    Ok(())
}

/// All checks must have passed.
fn judge(pull: &PullRequest, checks: &[PullRequestCheck]) -> Result<(), BuiltinError> {
    let names = |checks: &[&PullRequestCheck]| {
        checks
            .iter()
            .map(|check| named(&check.name))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let failed: Vec<&PullRequestCheck> = checks.iter().filter(|check| check.failed()).collect();
    if !failed.is_empty() {
        let list: String = failed
            .iter()
            .map(|check| format!("- {} {}\n", named(&check.name), quoted(&check.link)))
            .collect();
        return Err(BuiltinError::failed(format!("{} is not merged: these checks failed: {}", pull.url, names(&failed)))
            .repaired_by(format!(
                "The pull request {} cannot be merged, because these checks failed:\n{list}\
                 Find out why (`gh pr checks {}`, `gh run view --log-failed`), repair it, test it here, and commit. Do not \
                 push, do not merge, and do not remove or weaken checks.",
                pull.url, pull.number
            )));
    }
    if checks.iter().all(PullRequestCheck::passed) {
        return Ok(());
    }
    let waiting: Vec<&PullRequestCheck> = checks.iter().filter(|check| !check.passed()).collect();
    Err(BuiltinError::failed(format!(
        "{} is not merged: these checks have not ended: {}; run this again when they have",
        pull.url,
        names(&waiting)
    )))
}
