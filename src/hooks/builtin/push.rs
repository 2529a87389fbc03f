//! Pushes the branch to the remote, and a repair to the pull request.
//!
//! The engine runs the whole list again after a repair that the agent made between the review and
//! the merge, so gatekeepers have already seen it here. Only the pull request still shows the
//! earlier commit; its checks run again.
//!
//! # Invariants
//! - Nothing is forced, with one exception: the branch was rebased here, and the remote has an
//!   earlier state of it. Then the push names the remote's expected commit, so that a newer one is
//!   not lost.
//! - Only a repair that gatekeepers approved, or that the agent made at this pipeline's request, is
//!   pushed. Anything else must be submitted.
//! - Checks count only after the forge shows the repair: those of the earlier commit do not apply.

use std::time::{Duration, Instant};

use super::{
    branch_status::BranchStatus,
    forge::{ForgeLookup, PullRequest, PullRequestCheck},
    git,
    job::BuiltinRun,
    outcome::{BuiltinError, complaint, named, quoted, short},
    program::{ProgramResult, ProgramRunner},
    rebase,
};

/// How far back to search a branch's reflog.
const PAST: &str = "--max-count=2000";

/// Pushes the current commit of the branch. Returns a message about it.
pub(super) async fn push(
    worker: &mut BuiltinRun<'_>,
    status: &BranchStatus,
    remote: &str,
) -> Result<String, BuiltinError> {
    let (target, branch) = (
        format!("refs/heads/{}", status.branch),
        named(&status.branch),
    );
    let tip = tip(&worker.runner, remote, &target).await?;
    let lease = match &tip {
        Some(tip) if *tip == status.head => {
            return Ok(format!("{branch} was already on {}", named(remote)));
        }
        Some(tip) if !worker.runner.contains(&status.head, tip).await? => {
            if !rebased_since(&worker.runner, &target, tip).await? {
                return Err(diverged(status, remote, tip));
            }
            vec![format!("--force-with-lease={target}:{tip}")]
        }
        Some(_) | None => Vec::new(),
    };
    let refspec = format!("{}:{target}", status.head);
    let mut args = vec!["push", "--porcelain", "--no-follow-tags"];
    args.extend(lease.iter().map(String::as_str));
    args.extend(["--", remote, &refspec]);
    let ran = worker.show(&git::call(&args)).await?;
    if !ran.ok() {
        return Err(refused(status, remote, &ran));
    }
    let over = if lease.is_empty() {
        ""
    } else {
        ", replacing its state before the rebase"
    };
    Ok(format!("pushed {branch} to {}{over}", named(remote)))
}

/// The remote's commit for a branch.
async fn tip(
    runner: &ProgramRunner,
    remote: &str,
    target: &str,
) -> Result<Option<String>, BuiltinError> {
    let ran = runner.git(&["ls-remote", "--", remote, target]).await?;
    if !ran.ok() {
        return Err(BuiltinError::failed(format!(
            "{} cannot be reached ({}): check that `git ls-remote {}` works",
            named(remote),
            ran.complaint(),
            quoted(remote)
        )));
    }
    let mut lines = ran.stdout.lines().filter_map(|line| line.split_once('\t'));
    Ok(lines
        .find(|(_, name)| *name == target)
        .map(|(commit, _)| commit.to_owned()))
}

/// Reflog actions that discard no commits. Any other action might.
const KEEPING: &[&str] = &[
    "commit",
    "rebase",
    "pull",
    "cherry-pick",
    "merge",
    "revert",
    "am",
];

/// Whether the branch was at this commit and was rebased since, without discarding commits.
async fn rebased_since(
    runner: &ProgramRunner,
    target: &str,
    tip: &str,
) -> Result<bool, BuiltinError> {
    let ran = runner
        .git(&["reflog", "show", "--format=%H %gs", PAST, target, "--"])
        .await?;
    let mut rebased = false;
    for (commit, action) in ran.stdout.lines().filter_map(|line| line.split_once(' ')) {
        if commit == tip {
            return Ok(rebased);
        }
        // The rest is a commit message, which can contain anything.
        let action = action.split_once(':').map_or(action, |(action, _)| action);
        let word = action.split(' ').next().unwrap_or_default();
        if !KEEPING.contains(&word) && !action.starts_with(rebase::ACTION) {
            return Ok(false);
        }
        rebased |= is_rebase(action);
    }
    Ok(false)
}

fn is_rebase(action: &str) -> bool {
    let by_pull = action.starts_with("pull")
        && (action.contains(" --rebase") || action.ends_with("(finish)"));
    by_pull || action.starts_with("rebase") || action.starts_with(rebase::ACTION)
}

fn diverged(status: &BranchStatus, remote: &str, tip: &str) -> BuiltinError {
    let branch = named(&status.branch);
    let (at, on) = (short(tip), named(remote));
    let message = format!(
        "{branch} on {on} is at {at}, which is not part of the work here. creel does not overwrite it: add it to your \
         work with `git pull --rebase {} {}`",
        quoted(remote),
        quoted(&status.branch)
    );
    BuiltinError::failed(message).repaired_by(format!(
        "The branch {branch} cannot be pushed: on {on} it has commits (up to {at}) that are not here.\n\
         1. Get them: `git fetch {remote} {plain}`.\n\
         2. See what they are: `git log HEAD..FETCH_HEAD`.\n\
         3. Put the work on top of them: `git rebase FETCH_HEAD`. Resolve conflicts, keeping what both sides meant, with \
         `git add -- FILE` and `GIT_EDITOR=true git rebase --continue`.\n\
         4. Test, and see with `git status` that no rebase is in progress.\n\
         Do not push, and never force anything.",
        remote = quoted(remote),
        plain = quoted(&status.branch)
    ))
}

/// Exit 1 is a refusal, by the remote or by a hook of the repository. Anything else is a problem
/// with the remote itself.
fn refused(status: &BranchStatus, remote: &str, ran: &ProgramResult) -> BuiltinError {
    let (branch, on) = (named(&status.branch), named(remote));
    let why = rejection(&ran.stdout).unwrap_or_else(|| ran.complaint());
    let halt = BuiltinError::failed(format!("creel could not push {branch} to {on}: {why}"));
    if ran.code != 1 {
        return halt.and(&format!(
            "check that `git push {}` works; creel changed nothing",
            quoted(remote)
        ));
    }
    halt.repaired_by(format!(
        "The push of the branch {branch} to {on} was refused: {why}. What was printed:\n\n{}\n\n\
         If a check or a rule complains about the work, repair that and commit. If the branch on {on} has new commits, get \
         them with `git fetch {} {}` and rebase onto `FETCH_HEAD`. Do not push, and never force anything: the push is done \
         again afterwards.",
        ran.tail,
        quoted(remote),
        quoted(&status.branch)
    ))
}

/// The reason for a rejected reference in the output of `git push --porcelain`.
pub(super) fn rejection(stdout: &str) -> Option<String> {
    let line = stdout.lines().find(|line| line.starts_with("!\t"))?;
    line.splitn(3, '\t').nth(2).map(complaint)
}

/// How long the forge gets to show a push and to report its first check.
const NOTICED: Duration = Duration::from_mins(1);
/// The first and the longest pause between two requests.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));

/// Pushes the repair to the pull request, and waits for its checks.
pub(super) async fn bring_repair(
    worker: &mut BuiltinRun<'_>,
    status: &BranchStatus,
    pull: &PullRequest,
) -> Result<PullRequest, BuiltinError> {
    let (url, reviewed) = (&pull.url, worker.submission.reviewed.is_some());
    let (true, Some(remote)) = (reviewed || worker.submission.repaired, &status.remote) else {
        return Err(BuiltinError::failed(format!(
            "{url} is at {}, and the work here at {}: submit again with `creel submit`, then run `creel merge` again",
            short(&pull.head),
            short(&status.head)
        )));
    };
    let checks_before = worker.runner.checks(pull).await?.len();
    let pushed = push(worker, status, remote).await?;
    if !reviewed && pull.review_decision.as_deref() == Some("APPROVED") {
        return Err(BuiltinError::failed(format!(
            "{url} was approved before the repair ({pushed}), and its reviewers have not seen the repair: ask them to look \
             again, then run `creel merge` again"
        )));
    }
    worker.print(&format!("{pushed}; waiting for the checks of {url}\n"));
    wait_for_checks(&worker.runner, status, pull, checks_before).await
}

/// Waits until the forge shows the repair and all its checks have ended, or one has failed. Shortly
/// before the hook's timeout it returns the pull request while checks still run, or an error if the
/// forge shows none yet.
async fn wait_for_checks(
    runner: &ProgramRunner,
    status: &BranchStatus,
    before: &PullRequest,
    checks_before: usize,
) -> Result<PullRequest, BuiltinError> {
    let (mut pause, longest) = PAUSES;
    let pushed_at = Instant::now();
    loop {
        let is_late = pushed_at.elapsed() > NOTICED;
        match shown(runner, status, before).await? {
            Some(pull) => {
                let checks = runner.checks(&pull).await?;
                let has_begun = !checks.is_empty() || checks_before == 0;
                if has_begun && have_ended(&checks) {
                    return Ok(pull);
                }
                if is_late && !has_begun {
                    return Err(unnoticed(before, status, "no check on it"));
                }
                if !runner.pause(pause).await? {
                    return if has_begun {
                        Ok(pull)
                    } else {
                        Err(unnoticed(before, status, "no check on it"))
                    };
                }
            }
            None if is_late || !runner.pause(pause).await? => {
                return Err(unnoticed(before, status, "another commit"));
            }
            None => {}
        }
        pause = (pause * 2).min(longest);
    }
}

/// The pull request, if the forge shows the repair already.
async fn shown(
    runner: &ProgramRunner,
    status: &BranchStatus,
    before: &PullRequest,
) -> Result<Option<PullRequest>, BuiltinError> {
    match runner.pull_request(status).await? {
        ForgeLookup::Known(_, Some(pull)) => {
            Ok((pull.number == before.number && pull.head == status.head).then_some(*pull))
        }
        ForgeLookup::Known(_, None) | ForgeLookup::NoForge => Ok(None),
        ForgeLookup::Failed(forge, ran) => Err(forge.error("list", &ran)),
    }
}

fn have_ended(checks: &[PullRequestCheck]) -> bool {
    checks.iter().any(PullRequestCheck::failed) || checks.iter().all(PullRequestCheck::passed)
}

fn unnoticed(pull: &PullRequest, status: &BranchStatus, shows: &str) -> BuiltinError {
    BuiltinError::failed(format!(
        "the repair {} was pushed to {}, which still shows {shows}: run `creel merge` again when it has caught up",
        short(&status.head),
        pull.url
    ))
}
