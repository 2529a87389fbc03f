//! `rebase_on_main`: rebases the work onto the base branch.
//!
//! # Invariants
//! - However it ends, the branch is where it was, or completely on top of the base branch.
//! - It begins only without uncommitted changes, so that aborting a rebase loses nothing.

use super::{
    BuiltinError, BuiltinSuccess,
    git::{self, UncommittedChanges},
    program::{ProgramResult, ProgramRunner},
};
use crate::{
    hooks::builtin::{
        branch_status::BranchStatus,
        builtin_run::BuiltinRun,
        quoting::{files, named, quoted, short},
        undo_rebase::{self, RebaseNote, RebaseUndo},
    },
    text::counted,
};

pub(super) async fn run(worker: &mut BuiltinRun<'_>) -> Result<BuiltinSuccess, BuiltinError> {
    let standing = BranchStatus::of(worker).await?;
    let changes = worker.runner.changes().await?;
    let base = standing.fetch_base(worker).await?;
    if let Some(skip) = nothing_to_do(&worker.runner, &standing, &base, &changes).await? {
        return Ok(skip);
    }
    standing.on_its_own_branch(&worker.errand.job.facts.session)?;
    standing.refuse_changes(&changes, "it is not rebased")?;
    if !worker
        .runner
        .git(&["merge-base", &base, &standing.head])
        .await?
        .ok()
    {
        return Err(BuiltinError::failed(format!(
            "{} and {} have no commit in common: check `base_branch`",
            named(&standing.branch),
            named(&standing.base_name())
        )));
    }
    rebase(worker, &standing, &base).await
}

async fn nothing_to_do(
    runner: &ProgramRunner,
    standing: &BranchStatus,
    base: &str,
    changes: &UncommittedChanges,
) -> Result<Option<BuiltinSuccess>, BuiltinError> {
    let (branch, base_name) = (named(&standing.branch), named(&standing.base_name()));
    if runner.contains(&standing.head, base).await? {
        let at = short(base);
        return Ok(Some(BuiltinSuccess::skip(format!(
            "{branch} is up to date with {base_name} ({at})"
        ))));
    }
    if runner.ahead(base, &standing.head).await? == 0 && changes.tracked.is_empty() {
        return Ok(Some(BuiltinSuccess::skip(format!(
            "{branch} has no commits that {base_name} does not have"
        ))));
    }
    Ok(None)
}

async fn rebase(
    worker: &mut BuiltinRun<'_>,
    standing: &BranchStatus,
    base: &str,
) -> Result<BuiltinSuccess, BuiltinError> {
    let note = RebaseNote::write(&standing.git_dir, &standing.branch, &standing.head, base)?;
    worker.runner.env.push((
        "GIT_REFLOG_ACTION".to_owned(),
        undo_rebase::ACTION.to_owned(),
    ));
    // Override the user's settings: stashed changes would not come back after a kill, and other
    // branches must stay.
    let args = [
        "-c",
        "rebase.autoStash=false",
        "-c",
        "rebase.updateRefs=false",
        "rebase",
        "--no-autosquash",
        base,
    ];
    let mut call = git::call(&args);
    call.unshown += 4;
    let ran = worker.show(&call).await;
    let tidying = worker.runner.for_tidying();
    let conflicts = tidying.unmerged().await.unwrap_or_default();
    if ran.as_ref().is_ok_and(ProgramResult::ok) {
        RebaseNote::remove(&standing.git_dir);
        let commits = worker.runner.ahead(base, "HEAD").await?;
        return Ok(BuiltinSuccess::success(format!(
            "rebased {} of {} onto {} ({}); before, the branch was at {}",
            counted(commits, "commit"),
            named(&standing.branch),
            named(&standing.base_name()),
            short(base),
            short(&standing.head)
        )));
    }
    let undone = undo_rebase::put_back(&tidying, &standing.git_dir, &note).await?;
    let halt = match ran {
        Ok(_) if !conflicts.is_empty() => conflict(standing, &conflicts),
        Ok(ran) => BuiltinError::failed(format!(
            "`git rebase` failed (exit {}): {}",
            ran.code,
            ran.complaint()
        )),
        Err(halt) => halt,
    };
    Err(match undone {
        RebaseUndo::Nothing | RebaseUndo::PutBack(_) => halt.and(&format!(
            "the branch is at {} as before",
            short(&standing.head)
        )),
        RebaseUndo::Left(why) => halt.and(&why),
    })
}

fn conflict(standing: &BranchStatus, conflicts: &[String]) -> BuiltinError {
    let (branch, base) = (named(&standing.branch), named(&standing.base_name()));
    let message = format!(
        "{branch} conflicts with {base} in {}",
        super::quoting::some(conflicts)
    );
    let fetch = standing.remote.as_ref().map_or_else(String::new, |remote| {
        format!(
            "Get the newest state: `git fetch {} {}`.",
            quoted(remote),
            quoted(&standing.base)
        )
    });
    let steps = [
        fetch,
        format!("Begin: `git rebase {}`.", quoted(&standing.base_name())),
        "For each file with conflicts: open it, keep what both sides meant, remove the conflict markers, then `git add -- \
         FILE`."
            .to_owned(),
        "Continue: `GIT_EDITOR=true git rebase --continue`. Repeat from step 3 until git says that the rebase is done."
            .to_owned(),
        "Build and test, and commit what this needs.".to_owned(),
        "See with `git status` that no rebase is in progress and that nothing is uncommitted.".to_owned(),
    ];
    let steps: String = steps
        .iter()
        .filter(|step| !step.is_empty())
        .enumerate()
        .map(numbered)
        .collect();
    let steps = if standing.remote.is_some() {
        steps
    } else {
        steps.replace("from step 3", "from step 2")
    };
    BuiltinError::failed(message).repaired_by(format!(
        "creel could not rebase the branch {branch} onto {base}. These files have conflicts:\n{}creel aborted the \
         rebase, and the branch is as you left it. Rebase it yourself, in this folder:\n{steps}Do not push, do not \
         merge, do not drop commits, and do not use `git rebase --skip`. If you cannot resolve it, leave with `git \
         rebase --abort` and say why.",
        files(conflicts)
    ))
}

fn numbered((at, step): (usize, &String)) -> String {
    format!("{}. {step}\n", at + 1)
}
