//! Commits of the branch that no turn made: those that others pushed, your own, and merges of the
//! newest base.
//!
//! Owns the mark in git's reflog by which creel recognizes, also after a kill, what it took over.
//!
//! # Invariants
//! - The branch here moves only forward, and only if git finds no change in the way.

use super::{Look, forge_error, of_git, source};
use crate::{
    engine::watch::forge::{ForgeFailure, ForgeNews, NewsOrigin},
    hooks::builtin::{
        git::{self, MergedTree},
        outcome::{BuiltinError, named, quoted, short, visible},
        program::ProgramRunner,
    },
    text::{counted, shortened},
};

/// The reflog says this about commits that creel took over.
const ACTION: &str = "merge by creel of commits of others";
const NEWEST_BASE: &str = "merge by creel of the newest base";
/// How many commits are listed, and how many files of each.
const LISTED: (usize, usize) = (20, 10);

/// News about the newest commits of others, unless they are part of the work.
pub(super) async fn commits_of_others(look: &Look<'_>) -> Result<Option<ForgeNews>, ForgeFailure> {
    let head = &look.pull.reading.head;
    if look.request.pushed.as_ref() == Some(head) {
        return Ok(None);
    }
    let runner = &look.client.runner;
    let branch = format!("refs/heads/{}", look.pull.branch);
    let is_here = runner.contains("HEAD", head).await.map_err(of_git)?;
    let taken_from = taken_from(runner, &branch, head).await.map_err(of_git)?;
    if is_here && taken_from.is_none() {
        return Ok(None);
    }
    let news = |text| ForgeNews {
        source: source(NewsOrigin::Commits, format!("commits/{head}")),
        text,
        trusted: true,
    };
    let known = look.knows(&format!("commits/{head}"));
    if known {
        return Ok(Some(news(String::new())));
    }
    if !is_here {
        fetch(look, head).await?;
    }
    // Listed from where the branch was before creel moved it.
    let before = match taken_from {
        Some(before) => before,
        None => runner
            .git_says(&["rev-parse", "HEAD"])
            .await
            .map_err(of_git)?,
    };
    let is_here = is_here || forward(runner, head, ACTION).await.map_err(of_git)?;
    let text = text(look, &before, is_here).await.map_err(of_git)?;
    Ok(Some(news(text)))
}

/// What the branch here has that no turn made.
#[derive(Debug, Default)]
pub(super) struct OwnCommits {
    /// The commit that is to be verified and pushed: yours, or a merge of the newest base, if only
    /// that is missing. None while files have changes that are not committed.
    pub(super) to_verify: Option<String>,
    /// Whether it does not have all of it on the forge.
    pub(super) unpushed: bool,
}

pub(super) async fn own_commits(look: &Look<'_>) -> Result<OwnCommits, ForgeFailure> {
    find_own(look).await.map_err(of_git)
}

async fn find_own(look: &Look<'_>) -> Result<OwnCommits, BuiltinError> {
    let (runner, shown) = (&look.client.runner, &look.pull.reading.head);
    let here = runner.git_says(&["rev-parse", "HEAD"]).await?;
    let unpushed = here != *shown && !runner.contains(shown, &here).await?;
    let is_yours = unpushed && runner.contains(&here, shown).await?;
    let is_pushed = here == *shown && look.request.pushed.as_ref() != Some(shown);
    let lacks_base = here == *shown && look.lacks_only_the_base();
    let has_some = is_yours || is_pushed || lacks_base;
    if !has_some || !runner.changes().await?.tracked.is_empty() {
        return Ok(OwnCommits {
            to_verify: None,
            unpushed,
        });
    }
    let to_verify = if lacks_base {
        newest_base(look, &here).await?
    } else {
        Some(here)
    };
    Ok(OwnCommits {
        to_verify,
        unpushed,
    })
}

/// The branch with the newest base merged. None if they conflict.
async fn newest_base(look: &Look<'_>, here: &str) -> Result<Option<String>, BuiltinError> {
    let (runner, reading) = (&look.client.runner, &look.pull.reading);
    let to = format!("refs/remotes/{}/{}", look.remote, reading.base);
    let refspec = format!("+refs/heads/{}:{to}", reading.base);
    let args = ["fetch", "--no-tags", "--", look.remote, &refspec];
    let fetched = runner.git(&args).await?.ok();
    let Some(base) = runner.commit(&to).await?.filter(|_| fetched) else {
        return Ok(None);
    };
    if runner.contains(here, &base).await? {
        return Ok(None);
    }
    let MergedTree::Clean(tree) = runner.merged_tree(here, &base).await? else {
        return Ok(None);
    };
    let (from, into) = (&reading.base, &look.pull.branch);
    let message = format!("Merge branch '{from}' into {into}\n");
    let commit = runner.commit_tree(&tree, &[here, &base], &message).await?;
    let is_here = forward(runner, &commit, NEWEST_BASE).await?;
    Ok(is_here.then_some(commit))
}

async fn fetch(look: &Look<'_>, head: &str) -> Result<(), ForgeFailure> {
    let (runner, branch) = (&look.client.runner, &look.pull.branch);
    let (remote, on) = (look.remote, named(look.remote));
    let refspec = format!("+refs/heads/{branch}:refs/remotes/{remote}/{branch}");
    let ran = runner
        .git(&["fetch", "--no-tags", "--", remote, &refspec])
        .await
        .map_err(of_git)?;
    if !ran.ok() {
        return Err(forge_error(format!(
            "creel could not fetch {} from {on} ({}): check that `git fetch {}` works",
            named(branch),
            ran.complaint(),
            quoted(remote)
        )));
    }
    match runner.commit(head).await.map_err(of_git)? {
        Some(_) => Ok(()),
        None => Err(forge_error(format!(
            "{} is at {}, which {on} does not have: is this a clone of that repository?",
            look.client.address.url,
            short(head)
        ))),
    }
}

/// Moves the branch forward. False if it has commits or changes of its own in the way.
async fn forward(runner: &ProgramRunner, head: &str, action: &str) -> Result<bool, BuiltinError> {
    let git_dir = runner.git_dir().await?;
    if git::in_progress(&git_dir).is_some() || !runner.contains(head, "HEAD").await? {
        return Ok(false);
    }
    let mut marked = runner.clone();
    marked
        .env
        .push(("GIT_REFLOG_ACTION".to_owned(), action.to_owned()));
    let args = [
        "-c",
        "merge.autoStash=false",
        "merge",
        "--ff-only",
        "--quiet",
        "--no-overwrite-ignore",
        head,
    ];
    Ok(marked.git(&args).await?.ok())
}

/// Where the branch was before creel moved it to this commit, if creel did.
async fn taken_from(
    runner: &ProgramRunner,
    branch: &str,
    head: &str,
) -> Result<Option<String>, BuiltinError> {
    let log = runner
        .git(&[
            "reflog",
            "show",
            "--format=%H %gs",
            "--max-count=200",
            branch,
            "--",
        ])
        .await?;
    let mut entries = log.stdout.lines().filter_map(|line| line.split_once(' '));
    let is_taken = |(commit, action): &(&str, &str)| *commit == head && action.starts_with(ACTION);
    Ok(entries
        .find(is_taken)
        .and_then(|_| entries.next())
        .map(|(before, _)| before.to_owned()))
}

/// The authors with their commits, and what the agent has to do about them.
async fn text(look: &Look<'_>, before: &str, is_here: bool) -> Result<String, BuiltinError> {
    let (runner, head) = (&look.client.runner, &look.pull.reading.head);
    let range = format!("{before}..{head}");
    let args = [
        "log",
        "--format=%x01%h%x1f%an%x1f%s",
        "--name-only",
        &range,
        "--",
    ];
    let log = runner.git_says(&args).await?;
    let commits: Vec<&str> = log.split('\u{1}').skip(1).collect();
    let mut list: String = commits
        .iter()
        .take(LISTED.0)
        .map(|commit| listed(commit))
        .collect();
    if commits.len() > LISTED.0 {
        list.push_str(&format!("- and {} more\n", commits.len() - LISTED.0));
    }
    let what = counted(commits.len(), "commit");
    let (branch, url) = (named(&look.pull.branch), &look.client.address.url);
    let first = format!("Others pushed {what} to the branch {branch} of {url}:\n{list}");
    let then = if is_here {
        "They are in this folder now: creel moved the branch forward. Look at them (`git show COMMIT`) before you continue, \
         and keep what they do."
            .to_owned()
    } else {
        format!(
            "They are not in this folder yet, because it has commits or changes of its own.\n\
             1. Commit what belongs to the task, or stash it.\n\
             2. Look at them: `git log -p HEAD..{head}`.\n\
             3. Merge them: `git merge {head}`. Resolve conflicts, keeping what both sides meant, with `git add -- FILE` \
             and `git commit --no-edit`.\n\
             4. Test, and see with `git status` that no merge is in progress.\n\
             Do not push, and do not drop commits."
        )
    };
    Ok(format!("{first}{then}"))
}

fn listed(commit: &str) -> String {
    let mut lines = commit.lines().filter(|line| !line.is_empty());
    let mut head = lines.next().unwrap_or_default().splitn(3, '\u{1f}');
    let mut next = || visible(&shortened(head.next().unwrap_or_default(), 200));
    let (id, author, subject) = (next(), next(), next());
    let mut files: Vec<String> = lines.map(named).collect();
    let more = files.len().saturating_sub(LISTED.1);
    files.truncate(LISTED.1);
    if more > 0 {
        files.push(format!("{more} more"));
    }
    format!("- {id} by {author}: {subject} ({})\n", files.join(", "))
}
