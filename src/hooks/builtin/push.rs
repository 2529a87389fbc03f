//! Pushes the branch to the remote.
//!
//! # Invariants
//! - Nothing is forced, with one exception: the branch was rebased here, and the remote has an
//!   earlier state of it. Then the push names the remote's expected commit, so that a newer one is
//!   not lost.

use super::{
    BuiltinError, git,
    program::{ProgramResult, ProgramRunner},
};
use crate::hooks::builtin::{
    branch_status::BranchStatus,
    builtin_run::BuiltinRun,
    quoting::{named, quoted, short},
    undo_rebase,
};

/// How far back to search a branch's reflog.
const PAST: &str = "--max-count=2000";

/// Pushes the current commit of the branch. Returns a message about it.
pub(super) async fn push(
    worker: &mut BuiltinRun<'_>,
    standing: &BranchStatus,
    remote: &str,
) -> Result<String, BuiltinError> {
    let (target, branch) = (
        format!("refs/heads/{}", standing.branch),
        named(&standing.branch),
    );
    let tip = tip(&worker.runner, remote, &target).await?;
    let lease = match &tip {
        Some(tip) if *tip == standing.head => {
            return Ok(format!("{branch} was already on {}", named(remote)));
        }
        Some(tip) if !worker.runner.contains(&standing.head, tip).await? => {
            if !rebased_since(&worker.runner, &target, tip).await? {
                return Err(diverged(standing, remote, tip));
            }
            vec![format!("--force-with-lease={target}:{tip}")]
        }
        Some(_) | None => Vec::new(),
    };
    let refspec = format!("{}:{target}", standing.head);
    let mut args = vec!["push", "--porcelain", "--no-follow-tags"];
    args.extend(lease.iter().map(String::as_str));
    args.extend(["--", remote, &refspec]);
    let ran = worker.show(&git::call(&args)).await?;
    if !ran.ok() {
        return Err(refused(standing, remote, &ran));
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
        if !KEEPING.contains(&word) && !action.starts_with(undo_rebase::ACTION) {
            return Ok(false);
        }
        rebased |= is_rebase(action);
    }
    Ok(false)
}

fn is_rebase(action: &str) -> bool {
    let by_pull = action.starts_with("pull")
        && (action.contains(" --rebase") || action.ends_with("(finish)"));
    by_pull || action.starts_with("rebase") || action.starts_with(undo_rebase::ACTION)
}

fn diverged(standing: &BranchStatus, remote: &str, tip: &str) -> BuiltinError {
    let branch = named(&standing.branch);
    let (at, on) = (short(tip), named(remote));
    let message = format!(
        "{branch} on {on} is at {at}, which is not part of the work here. creel does not overwrite it: add it to your \
         work with `git pull --rebase {} {}`",
        quoted(remote),
        quoted(&standing.branch)
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
        plain = quoted(&standing.branch)
    ))
}

/// Exit 1 is a refusal, by the remote or by a hook of the repository. Anything else is a problem
/// with the remote itself.
fn refused(standing: &BranchStatus, remote: &str, ran: &ProgramResult) -> BuiltinError {
    let (branch, on) = (named(&standing.branch), named(remote));
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
        quoted(&standing.branch)
    ))
}

/// The reason for a rejected reference in the output of `git push --porcelain`.
pub(super) fn rejection(stdout: &str) -> Option<String> {
    let line = stdout.lines().find(|line| line.starts_with("!\t"))?;
    line.splitn(3, '\t').nth(2).map(super::quoting::complaint)
}
