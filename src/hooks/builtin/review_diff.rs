//! Prints the change for a gatekeeper: the commits of the branch, and their diff.
//!
//! # Invariants
//! - It prints the change and nothing else. Without a change, it prints nothing.
//! - The repository's settings cannot hide text: the content of a file decides whether it is text.

use super::{
    branch_status::BranchStatus,
    git,
    job::BuiltinRun,
    outcome::{BuiltinError, BuiltinSuccess, named, some},
    program::ProgramRunner,
};

/// Bytes of a file that decide whether it is text. The same as in git.
const LOOKED_AT: usize = 8_000;
/// Prints a diff independent of the repository's settings.
const PLAINLY: [&str; 5] = [
    "diff",
    "--no-ext-diff",
    "--no-textconv",
    "--no-relative",
    "--ignore-submodules=none",
];

pub(super) async fn run(worker: &mut BuiltinRun<'_>) -> Result<BuiltinSuccess, BuiltinError> {
    let status = BranchStatus::silently(&worker.runner, worker.submission).await?;
    let (known, local) = (status.base_ref(), format!("refs/heads/{}", status.base));
    let base = match worker.runner.commit(&known).await? {
        Some(base) => base,
        None => worker.runner.commit(&local).await?.ok_or_else(|| {
            BuiltinError::failed(format!(
                "the branch {} to compare with does not exist: set `base_branch`",
                named(&status.base)
            ))
        })?,
    };
    if worker.runner.ahead(&base, &status.head).await? == 0 {
        return Ok(BuiltinSuccess::default());
    }
    let range = format!("{base}..{}", status.head);
    let commits = worker
        .runner
        .git_says(&["log", "--reverse", "--format=%h %s", &range, "--"])
        .await?;
    let changes = worker.runner.changes().await?;
    let left_out = if changes.tracked.is_empty() {
        String::new()
    } else {
        format!(
            "Not committed, so not included: {}\n\n",
            some(&changes.tracked)
        )
    };
    let (branch, goes_to) = (named(&status.branch), named(&status.base_name()));
    worker.print(&format!(
        "Commits on {branch}, which goes to {goes_to}:\n{commits}\n\n{left_out}"
    ));
    // From the merge base: newer changes of the base branch are not part of the work.
    let range = format!("{base}...{}", status.head);
    show(worker, &["--stat", "--patch", &range, "--"]).await?;
    let hidden = hidden(&worker.runner, &range, &status.head).await?;
    if !hidden.is_empty() {
        worker.print("\nThe repository marks these files as binary, but they are text:\n");
        let names = hidden
            .iter()
            .map(|name| format!(":(top,literal){name}"))
            .collect::<Vec<_>>();
        let names = names.iter().map(String::as_str);
        show(
            worker,
            &["--text", "--patch", &range, "--"]
                .into_iter()
                .chain(names)
                .collect::<Vec<_>>(),
        )
        .await?;
    }
    Ok(BuiltinSuccess {
        read: Some(status.head),
        ..BuiltinSuccess::default()
    })
}

async fn show(worker: &mut BuiltinRun<'_>, args: &[&str]) -> Result<(), BuiltinError> {
    let args = [&PLAINLY, args].concat();
    let ran = worker.pass_on(&git::call(&args)).await?;
    if ran.ok() {
        Ok(())
    } else {
        Err(git::failed(&args, &ran))
    }
}

/// Text files that git shows as binary, because of `-diff` in `.gitattributes`.
async fn hidden(
    runner: &ProgramRunner,
    range: &str,
    head: &str,
) -> Result<Vec<String>, BuiltinError> {
    let args = [
        &PLAINLY[..],
        &["--numstat", "--no-renames", "-z", range, "--"],
    ]
    .concat();
    let counted = runner.git_says(&args).await?;
    let mut found = Vec::new();
    for name in counted
        .split('\0')
        .filter_map(|entry| entry.strip_prefix("-\t-\t"))
    {
        let file = runner
            .git(&["cat-file", "blob", &format!("{head}:{name}")])
            .await?;
        let is_text = !file.stdout.bytes().take(LOOKED_AT).any(|byte| byte == 0);
        if file.ok() && is_text {
            found.push(name.to_owned());
        }
    }
    Ok(found)
}
