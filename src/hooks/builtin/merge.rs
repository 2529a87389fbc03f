//! `merge_pr`: merges the work into the base branch.
//!
//! On a forge, only through its pull request. A repair that the agent made meanwhile is pushed to
//! the pull request first, see [`super::push`]. Without a forge, it creates a merge commit without
//! a work tree and pushes it: `git merge-tree` merges in the object store alone. A temporary work
//! tree would need all files of the project, and a kill would leave it behind. This way there is
//! nothing to clean up: until the single step that moves the base branch, only unreferenced objects
//! are added.
//!
//! # Invariants
//! - Nothing is merged while a check that decides has failed, still runs, or cannot be read. If
//!   the forge requires some of the checks, those decide.
//! - Only the local commit is merged; after a review, only the reviewed one.
//! - Without a forge, the base branch moves forward or not at all: nothing is forced. A checkout of
//!   it is updated only if it has no changes, with git's own fast-forward.

use std::path::PathBuf;

use super::{
    branch_status::BranchStatus,
    forge::{
        Forge, ForgeLookup, PullRequest, PullRequestCheck, SubmittedState, forge_of, is_a_folder,
    },
    git::{self, MergedTree},
    job::BuiltinRun,
    outcome::{BuiltinError, BuiltinSuccess, files, named, quoted, short, some, title_line},
    program::ProgramRunner,
    push,
};
use crate::{
    engine::policy::EvidencePolicy,
    journal::{
        SessionDir,
        chain::{self, EVIDENCE_NOTES},
    },
};

enum ForgeState {
    PullRequest(Box<PullRequest>),
    Unsubmitted,
    NoForge,
}

pub(super) async fn run(worker: &mut BuiltinRun<'_>) -> Result<BuiltinSuccess, BuiltinError> {
    let status = BranchStatus::of(worker).await?;
    status.on_its_own_branch(&worker.call.job.facts.session)?;
    status.as_reviewed(worker.submission)?;
    let changes = worker.runner.changes().await?;
    status.refuse_changes(&changes, "it is not merged")?;
    status
        .is_whole(&worker.runner, &changes, worker.submission)
        .await?;
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
    match on_forge(&worker.runner, &status).await? {
        ForgeState::PullRequest(pull) => by_forge(worker, &status, *pull).await,
        ForgeState::NoForge => merge_locally(worker, &status).await,
        ForgeState::Unsubmitted => Err(BuiltinError::failed(format!(
            "{} has no pull request, and on a forge creel merges only by pull request: submit first with `creel \
            submit`, then run `creel merge` again",
            named(&status.branch)
        ))),
    }
}

async fn on_forge(
    runner: &ProgramRunner,
    status: &BranchStatus,
) -> Result<ForgeState, BuiltinError> {
    let Some(remote) = &status.remote else {
        return Ok(ForgeState::NoForge);
    };
    let url = runner.url_of(status).await?;
    let candidates = Forge::candidates(&url);
    // A pull request there could have checks that creel cannot see.
    let unseen = |why: &str| {
        let remote = named(remote);
        match (candidates, forge_of(&url)) {
            ([forge], _) => Err(BuiltinError::failed(format!(
                "{remote} is on {}, and `{}`{why}",
                forge.name(),
                forge.program()
            ))),
            (_, Some(forge)) => Err(BuiltinError::failed(format!(
                "{remote} is on a forge ({forge}) whose requests creel cannot see: submit first, then merge the \
                request there"
            ))),
            (_, None) => Ok(ForgeState::NoForge),
        }
    };
    if !candidates.iter().any(|forge| runner.finds(forge.program())) {
        return unseen(", which shows its checks, is not on PATH: install it");
    }
    match runner.pull_request(status).await? {
        ForgeLookup::Known(_, Some(pull)) => Ok(ForgeState::PullRequest(pull)),
        // The program answers for any remote that it knows. If the work goes to a folder, it means
        // another remote.
        ForgeLookup::Known(_, None)
            if is_a_folder(&url) && has_a_remote_elsewhere(runner).await? =>
        {
            Ok(ForgeState::NoForge)
        }
        ForgeLookup::Known(..) => Ok(ForgeState::Unsubmitted),
        ForgeLookup::NoForge => {
            let program = candidates.first().map_or("gh", |forge| forge.program());
            unseen(&format!(
                " does not know that host and sees no checks: log in with `{program} auth login`"
            ))
        }
        ForgeLookup::Failed(..) if is_a_folder(&url) => Ok(ForgeState::NoForge),
        ForgeLookup::Failed(forge, ran) => Err(forge.error("list", &ran)),
    }
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
    status: &BranchStatus,
    pull: PullRequest,
) -> Result<BuiltinSuccess, BuiltinError> {
    if pull.state == SubmittedState::Merged {
        return Ok(merged(
            &pull,
            BuiltinSuccess::skip(format!("{} is already merged", pull.url)),
        ));
    }
    if pull.state == SubmittedState::Closed {
        return Err(BuiltinError::failed(format!(
            "{} was closed without merging: reopen it if you still want to merge it",
            pull.url
        )));
    }
    let pull = if pull.head == status.head {
        pull
    } else {
        push::bring_repair(worker, status, &pull).await?
    };
    refuse(status, &pull)?;
    let checks = worker.runner.checks(&pull).await?;
    judge(&pull, &checks)?;
    let number = pull.number.to_string();
    let call = match pull.forge {
        Forge::GitHub => {
            let method = worker.runner.merge_method().await?;
            let commit = format!("--match-head-commit={}", status.head);
            pull.forge.call("merge", &[&number, method, &commit])
        }
        Forge::GitLab => {
            let commit = format!("--sha={}", status.head);
            pull.forge.call("merge", &[&number, &commit, "--yes"])
        }
    };
    let ran = worker.show(&call).await?;
    if !ran.ok() {
        return Err(pull
            .forge
            .error("merge", &ran)
            .and(&format!("{} is not merged", pull.url)));
    }
    let now = worker.runner.look_at(&pull).await?;
    match now.state {
        SubmittedState::Merged => Ok(merged(
            &now,
            BuiltinSuccess::success(format!("merged {}", now.url)),
        )),
        SubmittedState::Open => {
            let done = BuiltinSuccess::success(format!(
                "{} is in the merge queue: {} merges it when it is its turn",
                now.url,
                now.forge.name()
            ));
            Ok(BuiltinSuccess {
                pull_request: Some(now.url),
                ..done
            })
        }
        SubmittedState::Closed => Err(BuiltinError::failed(format!(
            "{} was closed without merging: reopen it if you still want to merge it",
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
fn refuse(status: &BranchStatus, pull: &PullRequest) -> Result<(), BuiltinError> {
    let url = &pull.url;
    if pull.is_draft {
        let ready = match pull.forge {
            Forge::GitHub => format!("gh pr ready {}", pull.number),
            Forge::GitLab => format!("glab mr update {} --ready", pull.number),
        };
        return Err(BuiltinError::failed(format!(
            "{url} is a draft: mark it as ready with `{ready}`"
        )));
    }
    if pull.review_decision.as_deref() == Some("CHANGES_REQUESTED") {
        return Err(BuiltinError::failed(format!(
            "a reviewer of {url} requests changes: see there"
        )));
    }
    if pull.mergeable == "CONFLICTING" {
        let base = status.base_name();
        return Err(BuiltinError::failed(format!(
            "{url} conflicts with {}: rebase it",
            named(&base)
        ))
        .repaired_by(prompt(status, &[])));
    }
    Ok(())
}

/// All checks that decide must have passed.
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
        return Err(BuiltinError::failed(format!(
            "{} is not merged: these checks failed: {}",
            pull.url,
            names(&failed)
        ))
        .repaired_by(format!(
            "The pull request {} cannot be merged, because these checks failed:\n{list}\
                 Find out why ({}), repair it, test it here, and commit. Do not \
                 push, do not merge, and do not remove or weaken checks.",
            pull.url,
            match pull.forge {
                Forge::GitHub =>
                    format!("`gh pr checks {}`, `gh run view --log-failed`", pull.number),
                Forge::GitLab => "`glab ci status`, `glab ci trace JOB`".to_owned(),
            }
        )));
    }
    if checks.iter().all(PullRequestCheck::passed) {
        return Ok(());
    }
    let waiting: Vec<String> = checks
        .iter()
        .filter(|check| !check.passed())
        .map(|check| {
            let note = if check.was_cancelled() {
                " (cancelled)"
            } else {
                ""
            };
            format!("{}{note}", named(&check.name))
        })
        .collect();
    Err(BuiltinError::failed(format!(
        "{} is not merged yet: it waits for these checks, which have not ended: {}; run this again when they have \
         passed",
        pull.url,
        waiting.join(", ")
    )))
}

pub(super) async fn merge_locally(
    worker: &mut BuiltinRun<'_>,
    status: &BranchStatus,
) -> Result<BuiltinSuccess, BuiltinError> {
    let base = status.fetch_base(worker).await?;
    let (branch, base_name) = (named(&status.branch), named(&status.base_name()));
    if worker.runner.contains(&base, &status.head).await? {
        return Ok(BuiltinSuccess::skip(format!(
            "nothing to merge: {base_name} already has all of {branch}"
        )));
    }
    let tree = merged_tree(&worker.runner, status, &base).await?;
    let commit = commit(worker, status, (&base, &tree)).await?;
    match &status.remote {
        Some(remote) => push_base(worker, status, remote, &commit).await?,
        None => move_base(worker, status, &base, &commit).await?,
    }
    let done = BuiltinSuccess::success(format!(
        "merged {branch} into {base_name} as {}",
        short(&commit)
    ));
    Ok(BuiltinSuccess {
        merged: Some(commit),
        ..done
    })
}

/// The tree of the merge.
async fn merged_tree(
    runner: &ProgramRunner,
    status: &BranchStatus,
    base: &str,
) -> Result<String, BuiltinError> {
    match runner.merged_tree(base, &status.head).await? {
        MergedTree::Clean(tree) => Ok(tree),
        MergedTree::Conflicts(conflicts) => {
            let base = named(&status.base_name());
            let message = format!(
                "{} conflicts with {base} in {}",
                named(&status.branch),
                some(&conflicts)
            );
            Err(BuiltinError::failed(message).repaired_by(prompt(status, &conflicts)))
        }
    }
}

/// The agent's prompt for a merge with conflicts.
pub(super) fn prompt(status: &BranchStatus, conflicts: &[String]) -> String {
    let base = status.base_name();
    let which = if conflicts.is_empty() {
        String::new()
    } else {
        format!(" in:\n{}", files(conflicts))
    };
    let fetch = status.remote.as_ref().map_or_else(String::new, |remote| {
        format!(
            "`git fetch {} {}`, then ",
            quoted(remote),
            quoted(&status.base)
        )
    });
    format!(
        "The branch {} cannot be merged into {}: they conflict{which}\n\
         1. Put the work on top of the newest state: {fetch}`git rebase {}`.\n\
         2. Resolve the conflicts, keeping what both sides meant, with `git add -- FILE` and `GIT_EDITOR=true git rebase \
         --continue`.\n\
         3. Test, and see with `git status` that no rebase is in progress and nothing is uncommitted.\n\
         Do not push, do not merge, and do not drop commits.",
        named(&status.branch),
        named(&base),
        quoted(&base)
    )
}

/// Creates an unreferenced merge commit.
async fn commit(
    worker: &mut BuiltinRun<'_>,
    status: &BranchStatus,
    (base, tree): (&str, &str),
) -> Result<String, BuiltinError> {
    let title = title_line(&worker.submission.title);
    let about = if title.is_empty() {
        title
    } else {
        format!("\n\n{title}")
    };
    let evidence = evidence(worker);
    let trailer = evidence
        .as_ref()
        .filter(|_| worker.submission.evidence == EvidencePolicy::Trailer)
        .map(|line| format!("\n{line}\n"));
    let message = format!(
        "Merge branch '{}' into {}{about}\n{}",
        status.branch,
        status.base,
        trailer.unwrap_or_default()
    );
    let parents = [base, status.head.as_str()];
    let runner = &worker.runner;
    let commit = runner.commit_tree(tree, &parents, &message).await?;
    if let Some(line) = evidence.filter(|_| worker.submission.evidence == EvidencePolicy::Note) {
        let notes = format!("--ref={EVIDENCE_NOTES}");
        // The merge is right without it, too.
        runner
            .git(&["notes", &notes, "append", "-m", &line, &commit])
            .await?;
    }
    Ok(commit)
}

/// The line that names the head of the session's journal, if the session wants it.
fn evidence(worker: &BuiltinRun<'_>) -> Option<String> {
    if worker.submission.evidence == EvidencePolicy::None {
        return None;
    }
    let path = worker.call.place.session_dir.clone();
    let name = path.file_name()?.to_string_lossy().into_owned();
    chain::evidence(&SessionDir { name, path })
}

async fn push_base(
    worker: &mut BuiltinRun<'_>,
    status: &BranchStatus,
    remote: &str,
    commit: &str,
) -> Result<(), BuiltinError> {
    let refspec = format!("{commit}:refs/heads/{}", status.base);
    let ran = worker
        .show(&git::call(&[
            "push",
            "--porcelain",
            "--no-follow-tags",
            "--",
            remote,
            &refspec,
        ]))
        .await?;
    if ran.ok() {
        return Ok(());
    }
    let why = push::rejection(&ran.stdout).unwrap_or_else(|| ran.complaint());
    Err(BuiltinError::failed(format!(
        "creel could not push the merge to {}: {why}. It changed nothing. If {} moved meanwhile, try again",
        named(remote),
        named(&status.base_name())
    )))
}

/// Without a remote, moves the local base branch.
async fn move_base(
    worker: &mut BuiltinRun<'_>,
    status: &BranchStatus,
    base: &str,
    commit: &str,
) -> Result<(), BuiltinError> {
    let reference = status.base_ref();
    let Some(folder) = checked_out(&worker.runner, &reference).await? else {
        let why = format!("creel: merge {}", status.branch);
        let ran = worker
            .show(&git::call(&[
                "update-ref",
                "-m",
                &why,
                &reference,
                commit,
                base,
            ]))
            .await?;
        return if ran.ok() {
            Ok(())
        } else {
            Err(git::failed(&["update-ref"], &ran))
        };
    };
    let there = ProgramRunner {
        cwd: folder.clone(),
        ..worker.runner.clone()
    };
    let dirty = there.changes().await?.tracked;
    if !dirty.is_empty() || git::in_progress(&there.git_dir().await?).is_some() {
        return Err(BuiltinError::failed(format!(
            "{} is checked out in {} and has uncommitted changes: commit or stash them there, then try again",
            named(&status.base),
            folder.display()
        )));
    }
    let folder = folder.to_string_lossy();
    let ran = worker
        .show(&git::call(&[
            "-C",
            &folder,
            "merge",
            "--ff-only",
            "--quiet",
            commit,
        ]))
        .await?;
    if ran.ok() {
        Ok(())
    } else {
        Err(git::failed(&["merge"], &ran))
    }
}

/// The folder in which a branch is checked out, if any.
async fn checked_out(
    runner: &ProgramRunner,
    reference: &str,
) -> Result<Option<PathBuf>, BuiltinError> {
    let output = runner
        .git_says(&["worktree", "list", "--porcelain", "-z"])
        .await?;
    let is_there = |tree: &&str| {
        tree.split('\0')
            .any(|line| line.strip_prefix("branch ") == Some(reference))
    };
    let tree = output.split("\0\0").find(is_there);
    Ok(tree
        .and_then(|tree| {
            tree.split('\0')
                .find_map(|line| line.strip_prefix("worktree "))
        })
        .map(PathBuf::from))
}
