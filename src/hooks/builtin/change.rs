//! What a gatekeeper reads: the commits of the branch, and what they change.
//!
//! # Invariants
//! - What is printed is the change and nothing else; no change, no output.

use super::{
    Done, Halt, git,
    standing::Standing,
    words::{named, some},
    worker::Worker,
};

pub(super) async fn run(worker: &mut Worker<'_>) -> Result<Done, Halt> {
    let standing = Standing::find(&worker.runner, worker.submission).await?;
    let (known, local) = (standing.base_ref(), format!("refs/heads/{}", standing.base));
    let base = match worker.runner.commit(&known).await? {
        Some(base) => base,
        None => worker.runner.commit(&local).await?.ok_or_else(|| {
            Halt::failed(format!("there is no branch {} to compare with: set `base_branch`", named(&standing.base)))
        })?,
    };
    if worker.runner.ahead(&base, &standing.head).await? == 0 {
        return Ok(Done::default());
    }
    let range = format!("{base}..{}", standing.head);
    let commits = worker.runner.git_says(&["log", "--reverse", "--format=%h %s", &range, "--"]).await?;
    let changes = worker.runner.changes().await?;
    let left_out = if changes.tracked.is_empty() {
        String::new()
    } else {
        format!("Not committed, and so not part of it: {}\n\n", some(&changes.tracked))
    };
    let (branch, goes_to) = (named(&standing.branch), named(&standing.base_name()));
    worker.print(&format!("Commits on {branch}, which goes to {goes_to}:\n{commits}\n\n{left_out}"));
    // From where the branch began: what the base branch got since is not the work's doing.
    let range = format!("{base}...{}", standing.head);
    let args = ["diff", "--no-ext-diff", "--no-textconv", "--stat", "--patch", &range, "--"];
    let ran = worker.pass_on(&git::call(&args)).await?;
    if ran.ok() { Ok(Done::default()) } else { Err(git::failed(&args, &ran)) }
}
