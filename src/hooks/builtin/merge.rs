//! `merge_pr`: brings the work into the base branch.
//!
//! By the forge, where the branch has a pull request; else by a merge of our own, see [`super::local_merge`].
//!
//! # Invariants
//! - Nothing is merged past a check that failed or still runs, or that could not be asked for.
//! - What is merged is the commit that is here, and no other; after a review, the one that was reviewed.

use super::{
    Done, Halt,
    forge::{self, Asked, Check, PullRequest, PullState},
    local_merge,
    program::Runner,
    standing::Standing,
    words::{named, quoted, short},
    worker::Worker,
};

pub(super) async fn run(worker: &mut Worker<'_>) -> Result<Done, Halt> {
    let standing = Standing::of(worker).await?;
    standing.on_its_own_branch(&worker.errand.job.facts.session)?;
    standing.as_reviewed(worker.submission)?;
    standing.refuse_changes(&worker.runner.changes().await?, "it is not merged")?;
    if worker.submission.pr_command.as_ref().is_some_and(|line| !line.trim().is_empty()) {
        return Err(Halt::failed(
            "creel cannot see the checks of the forge behind `pr_command`: in place of `merge_pr`, use a `command:` hook \
             with that forge's own command, which merges once its checks have passed",
        ));
    }
    match pull_request(&worker.runner, &standing).await? {
        Some(pull) => by_forge(worker, &standing, &pull).await,
        None => local_merge::run(worker, &standing).await,
    }
}

/// The pull request of the branch; none if there is none, or no forge.
async fn pull_request(runner: &Runner, standing: &Standing) -> Result<Option<Box<PullRequest>>, Halt> {
    let Some(remote) = &standing.remote else { return Ok(None) };
    let url = runner.git(&["remote", "get-url", remote]).await?.answer().to_owned();
    // A pull request there could have checks that we do not see.
    let unseen = |why: &str| {
        if url.contains("github") && !is_a_folder(&url) {
            Err(Halt::failed(format!("{} is on GitHub, and {why}", named(remote))))
        } else {
            Ok(None)
        }
    };
    if !runner.finds("gh") {
        return unseen("there is no `gh` on the PATH to see its checks: install it");
    }
    match runner.pull_request(standing).await? {
        Asked::Known(pull) => Ok(pull),
        Asked::NoForge => unseen("`gh` does not know that host, and sees no checks: log in with `gh auth login`"),
        Asked::Failed(_) if is_a_folder(&url) => Ok(None),
        Asked::Failed(ran) => Err(forge::trouble("gh pr list", &ran)),
    }
}

/// Whether a remote is a folder of this machine.
fn is_a_folder(url: &str) -> bool {
    url.starts_with("file://") || url.starts_with(['/', '.'])
}

async fn by_forge(worker: &mut Worker<'_>, standing: &Standing, pull: &PullRequest) -> Result<Done, Halt> {
    if pull.state == PullState::Merged {
        return Ok(merged(pull, Done::skip(format!("{} is merged already", pull.url))));
    }
    refuse(standing, pull)?;
    let checks = worker.runner.checks(pull.number).await?;
    judge(pull, &checks)?;
    let (number, method) = (pull.number.to_string(), worker.runner.merge_method().await?);
    let commit = format!("--match-head-commit={}", standing.head);
    let ran = worker.show(&forge::call(&["pr", "merge", &number, method, &commit])).await?;
    if !ran.ok() {
        return Err(forge::trouble("gh pr merge", &ran).and(&format!("{} is not merged", pull.url)));
    }
    let now = worker.runner.look_at(pull.number).await?;
    match now.state {
        PullState::Merged => Ok(merged(&now, Done::success(format!("merged {}", now.url)))),
        PullState::Open | PullState::Closed => Err(Halt::failed(format!(
            "{} was accepted for merging but is not merged yet (a merge queue?): run this again when it is",
            now.url
        ))),
    }
}

fn merged(pull: &PullRequest, done: Done) -> Done {
    let merged = pull.merge_commit.as_ref().map(|commit| commit.oid.clone());
    Done { pull_request: Some(pull.url.clone()), merged, ..done }
}

/// What speaks against merging, checks aside.
fn refuse(standing: &Standing, pull: &PullRequest) -> Result<(), Halt> {
    let url = &pull.url;
    if pull.state == PullState::Closed {
        return Err(Halt::failed(format!("{url} was closed without merging: open it again if it is wanted")));
    }
    if pull.head != standing.head {
        return Err(Halt::failed(format!(
            "{url} is at {}, the work here at {}: submit again, so that both are the same",
            short(&pull.head),
            short(&standing.head)
        )));
    }
    if pull.is_draft {
        return Err(Halt::failed(format!("{url} is a draft: mark it as ready with `gh pr ready {}`", pull.number)));
    }
    if pull.review_decision.as_deref() == Some("CHANGES_REQUESTED") {
        return Err(Halt::failed(format!("a reviewer of {url} wants changes: see there")));
    }
    if pull.mergeable == "CONFLICTING" {
        let base = standing.base_name();
        return Err(Halt::failed(format!("{url} conflicts with {}: rebase it", named(&base)))
            .repaired_by(local_merge::prompt(standing, &[])));
    }
    Ok(())
}

/// All checks must have passed.
fn judge(pull: &PullRequest, checks: &[Check]) -> Result<(), Halt> {
    let of = |buckets: &[&str]| -> Vec<&Check> {
        checks.iter().filter(|check| buckets.contains(&check.bucket.as_str())).collect()
    };
    let names = |checks: &[&Check]| checks.iter().map(|check| named(&check.name)).collect::<Vec<_>>().join(", ");
    let failed = of(&["fail", "cancel"]);
    if !failed.is_empty() {
        let list: String =
            failed.iter().map(|check| format!("- {} {}\n", named(&check.name), quoted(&check.link))).collect();
        return Err(Halt::failed(format!("{} is not merged: these checks failed: {}", pull.url, names(&failed)))
            .repaired_by(format!(
                "The pull request {} cannot be merged, because these checks failed:\n{list}\
                 Find out why (`gh pr checks {}`, `gh run view --log-failed`), repair it, test it here, and commit. Do not \
                 push, do not merge, and do not remove or weaken checks.",
                pull.url, pull.number
            )));
    }
    let passed = of(&["pass", "skipping"]).len();
    if passed == checks.len() {
        return Ok(());
    }
    let waiting: Vec<&Check> =
        checks.iter().filter(|check| !["pass", "skipping"].contains(&check.bucket.as_str())).collect();
    Err(Halt::failed(format!(
        "{} is not merged: these checks have not ended: {}; run this again when they have",
        pull.url,
        names(&waiting)
    )))
}
