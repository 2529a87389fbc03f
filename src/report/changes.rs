//! The text of changes, as far as git has it.
//!
//! # Invariants
//! - Git only reads: it runs no program that a repository names, and fetches nothing.
//! - A change that is not in a commit is not in git. The report says so instead of showing less.

use std::path::Path;

use super::{Report, ReportedDiff};
use crate::{
    git,
    present::text::{plain, plain_line, readable_size},
};

/// The longest text of a change, in bytes.
const MOST: usize = 1 << 20;
/// How much of a commit's name a sentence has.
const COMMIT: usize = 12;

/// Reads the text of the changes from the repository in this folder.
pub fn read(report: &mut Report, folder: &Path) {
    let stages = report.stages.iter_mut();
    for stage in stages.filter(|stage| !stage.files.is_empty()) {
        let commits = (
            stage.commit_before.as_deref(),
            stage.commit_after.as_deref(),
        );
        stage.diff = between(folder, commits);
    }
    let changes = &mut report.changes;
    let commits = (
        changes.commit_before.as_deref(),
        changes.commit_after.as_deref(),
    );
    changes.diff = between(folder, commits);
}

/// What changed between two commits.
pub fn between(folder: &Path, commits: (Option<&str>, Option<&str>)) -> ReportedDiff {
    let why = |why: &str| ReportedDiff::NotAvailable(why.to_owned());
    let (Some(before), Some(after)) = commits else {
        return why("the journal names no commits");
    };
    if !is_commit(before) || !is_commit(after) {
        return why("the journal names commits that git cannot have");
    }
    if before == after {
        return why("the changes were not committed, and the journal names the changed files only");
    }
    let range = [
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "--no-renames",
        "--stat",
        "--patch",
        before,
        after,
        "--",
    ];
    let mut command = git::command(folder);
    command.env("GIT_NO_LAZY_FETCH", "1");
    match git::call(command, &range, std::process::Command::output) {
        Ok(reply) if reply.is_ok => ReportedDiff::Text(cut(&plain(&reply.stdout))),
        Ok(reply) => {
            let complaint = plain_line(&reply.complaint(), 200);
            let (before, after) = (&before[..COMMIT], &after[..COMMIT]);
            why(&format!(
                "git cannot compare {before} and {after} here: {complaint}"
            ))
        }
        Err(_) => why("git did not run"),
    }
}

fn is_commit(name: &str) -> bool {
    name.len() >= COMMIT && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn cut(diff: &str) -> String {
    let end = diff.floor_char_boundary(MOST.min(diff.len()));
    if end == diff.len() {
        return diff.to_owned();
    }
    let rest = readable_size((diff.len() - end) as u64);
    format!("{}\n[… {rest} more left out …]\n", &diff[..end])
}
