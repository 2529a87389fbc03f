//! A merge without a forge: creates a merge commit without a work tree, then pushes it.
//!
//! `git merge-tree` merges in the object store alone. A temporary work tree would need all files of
//! the project, and a kill would leave it behind. This way there is nothing to clean up: until the
//! single step that moves the base branch, only unreferenced objects are added.
//!
//! # Invariants
//! - The base branch moves forward or not at all: nothing is forced.
//! - A checkout of the base branch is updated only if it has no changes, with git's own
//!   fast-forward.

use std::path::PathBuf;

use super::{BuiltinError, BuiltinSuccess, git, program::ProgramRunner, push};
use crate::hooks::builtin::{
    branch_status::BranchStatus,
    builtin_run::BuiltinRun,
    quoting::{self, files, named, quoted, short, some},
};

pub(super) async fn run(
    worker: &mut BuiltinRun<'_>,
    standing: &BranchStatus,
) -> Result<BuiltinSuccess, BuiltinError> {
    let base = standing.fetch_base(worker).await?;
    let (branch, base_name) = (named(&standing.branch), named(&standing.base_name()));
    if worker.runner.contains(&base, &standing.head).await? {
        return Ok(BuiltinSuccess::skip(format!(
            "nothing to merge: {base_name} already has all of {branch}"
        )));
    }
    let tree = merged_tree(&worker.runner, standing, &base).await?;
    let commit = commit(
        &worker.runner,
        standing,
        (&base, &tree),
        &worker.submission.title,
    )
    .await?;
    match &standing.remote {
        Some(remote) => push_base(worker, standing, remote, &commit).await?,
        None => move_base(worker, standing, &base, &commit).await?,
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
    standing: &BranchStatus,
    base: &str,
) -> Result<String, BuiltinError> {
    let args = [
        "merge-tree",
        "--write-tree",
        "--name-only",
        "--no-messages",
        "-z",
        base,
        &standing.head,
    ];
    let ran = runner.git(&args).await?;
    let mut parts = ran
        .stdout
        .split(['\0', '\n'])
        .filter(|part| !part.is_empty())
        .map(str::to_owned);
    match (ran.code, parts.next()) {
        (0, Some(tree)) => Ok(tree),
        (1, Some(_)) => {
            let conflicts: Vec<String> = parts.collect();
            let base = named(&standing.base_name());
            let message = format!(
                "{} conflicts with {base} in {}",
                named(&standing.branch),
                some(&conflicts)
            );
            Err(BuiltinError::failed(message).repaired_by(prompt(standing, &conflicts)))
        }
        (129, _) => Err(BuiltinError::failed(
            "this git cannot merge without a work tree: install version 2.38 or newer",
        )),
        (_, _) => Err(git::failed(&args, &ran)),
    }
}

/// The agent's prompt for a merge with conflicts.
pub(super) fn prompt(standing: &BranchStatus, conflicts: &[String]) -> String {
    let base = standing.base_name();
    let which = if conflicts.is_empty() {
        String::new()
    } else {
        format!(" in:\n{}", files(conflicts))
    };
    let fetch = standing.remote.as_ref().map_or_else(String::new, |remote| {
        format!(
            "`git fetch {} {}`, then ",
            quoted(remote),
            quoted(&standing.base)
        )
    });
    format!(
        "The branch {} cannot be merged into {}: they conflict{which}\n\
         1. Put the work on top of the newest state: {fetch}`git rebase {}`.\n\
         2. Resolve the conflicts, keeping what both sides meant, with `git add -- FILE` and `GIT_EDITOR=true git rebase \
         --continue`.\n\
         3. Test, and see with `git status` that no rebase is in progress and nothing is uncommitted.\n\
         Do not push, do not merge, and do not drop commits.",
        named(&standing.branch),
        named(&base),
        quoted(&base)
    )
}

/// Creates an unreferenced merge commit.
async fn commit(
    runner: &ProgramRunner,
    standing: &BranchStatus,
    (base, tree): (&str, &str),
    title: &str,
) -> Result<String, BuiltinError> {
    let title = quoting::title(title);
    let about = if title.is_empty() {
        title
    } else {
        format!("\n\n{title}")
    };
    let message = format!(
        "Merge branch '{}' into {}{about}\n",
        standing.branch, standing.base
    );
    let mut args = vec!["commit-tree", "-p", base, "-p", &standing.head, "-F", "-"];
    if runner
        .git(&["config", "--type=bool", "commit.gpgSign"])
        .await?
        .answer()
        == "true"
    {
        args.push("-S");
    }
    args.push(tree);
    let mut call = git::call(&args);
    call.stdin = message.into_bytes();
    let ran = runner.run(&call, None).await?;
    if ran.ok() {
        Ok(ran.answer().to_owned())
    } else {
        Err(git::failed(&args, &ran))
    }
}

async fn push_base(
    worker: &mut BuiltinRun<'_>,
    standing: &BranchStatus,
    remote: &str,
    commit: &str,
) -> Result<(), BuiltinError> {
    let refspec = format!("{commit}:refs/heads/{}", standing.base);
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
        named(&standing.base_name())
    )))
}

/// Without a remote, moves the local base branch.
async fn move_base(
    worker: &mut BuiltinRun<'_>,
    standing: &BranchStatus,
    base: &str,
    commit: &str,
) -> Result<(), BuiltinError> {
    let reference = standing.base_ref();
    let Some(folder) = checked_out(&worker.runner, &reference).await? else {
        let why = format!("creel: merge {}", standing.branch);
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
            named(&standing.base),
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
    let said = runner
        .git_says(&["worktree", "list", "--porcelain", "-z"])
        .await?;
    let is_there = |tree: &&str| {
        tree.split('\0')
            .any(|line| line.strip_prefix("branch ") == Some(reference))
    };
    let tree = said.split("\0\0").find(is_there);
    Ok(tree
        .and_then(|tree| {
            tree.split('\0')
                .find_map(|line| line.strip_prefix("worktree "))
        })
        .map(PathBuf::from))
}
