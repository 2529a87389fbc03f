//! Finds the base branch.
//!
//! # Invariants
//! - The config decides, otherwise the remote's current answer. Local information counts only if
//!   the remote does not answer, and then creel prints which branch it chose and why.

use std::time::{Duration, Instant};

use super::{BuiltinError, program::ProgramRunner};
use crate::{engine::hooks::verdict::RunEnd, hooks::builtin::quoting::named};

/// How long the remote gets to report its default branch.
const PATIENCE: Duration = Duration::from_secs(20);
/// The names to try if nothing else is known, in this order.
const USUAL: [&str; 3] = ["main", "master", "trunk"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BaseBranch {
    pub(super) name: String,
    /// Why this branch was chosen, if the remote should have answered and did not.
    pub(super) note: Option<String>,
}

enum RemoteHead {
    Branch(String),
    /// The reason why it is unknown.
    Unknown(String),
}

impl BaseBranch {
    pub(super) async fn find(
        runner: &ProgramRunner,
        wanted: Option<&str>,
        remote: Option<&str>,
    ) -> Result<Self, BuiltinError> {
        if let Some(wanted) = wanted {
            return Ok(Self {
                name: configured(runner, wanted, remote).await?,
                note: None,
            });
        }
        let mut unanswered = None;
        if let Some(remote) = remote {
            match remote_head(runner, remote).await? {
                RemoteHead::Branch(name) => return Ok(Self { name, note: None }),
                RemoteHead::Unknown(why) => unanswered = Some(why),
            }
        }
        let Some((name, reason)) = known_here(runner, remote).await? else {
            let why = unanswered.map_or_else(String::new, |why| format!("{why}, and "));
            let message = format!(
                "which branch does the work go to? {why}there is no {}: set `base_branch`",
                usual("and")
            );
            return Err(BuiltinError::failed(message));
        };
        let note = unanswered
            .map(|why| format!("{why}, so the base branch is {}: {reason}", named(&name)));
        Ok(Self { name, note })
    }
}

/// `main`, `master` or `trunk`, for a sentence.
fn usual(word: &str) -> String {
    let [first, second, third] = USUAL;
    format!("`{first}`, `{second}` {word} `{third}`")
}

async fn configured(
    runner: &ProgramRunner,
    wanted: &str,
    remote: Option<&str>,
) -> Result<String, BuiltinError> {
    // `origin/main` means `main` on `origin`.
    let name = remote
        .and_then(|remote| wanted.strip_prefix(remote)?.strip_prefix('/'))
        .unwrap_or(wanted);
    if is_branch_name(runner, name).await? {
        return Ok(name.to_owned());
    }
    Err(BuiltinError::failed(format!(
        "`base_branch` is {}, which is not a valid branch name",
        named(wanted)
    )))
}

async fn is_branch_name(runner: &ProgramRunner, name: &str) -> Result<bool, BuiltinError> {
    Ok(!name.starts_with('-')
        && runner
            .git(&["check-ref-format", &format!("refs/heads/{name}")])
            .await?
            .ok())
}

/// Asks the remote for its default branch. No answer is not an error: the steps that need the
/// remote report that.
async fn remote_head(runner: &ProgramRunner, remote: &str) -> Result<RemoteHead, BuiltinError> {
    let soon = Instant::now() + PATIENCE;
    let bounded = ProgramRunner {
        deadline: Some(runner.deadline.map_or(soon, |own| own.min(soon))),
        ..runner.clone()
    };
    let ran = match bounded
        .git(&["ls-remote", "--symref", "--", remote, "HEAD"])
        .await
    {
        Ok(ran) => ran,
        Err(halt) if halt.end == RunEnd::TimedOut && bounded.deadline != runner.deadline => {
            let seconds = PATIENCE.as_secs();
            return Ok(RemoteHead::Unknown(format!(
                "{} did not answer within {seconds} s",
                named(remote)
            )));
        }
        Err(halt) => return Err(halt),
    };
    if !ran.ok() {
        return Ok(RemoteHead::Unknown(format!(
            "{} cannot be reached ({})",
            named(remote),
            ran.complaint()
        )));
    }
    let reported = ran.stdout.lines().find_map(|line| {
        line.strip_prefix("ref: refs/heads/")?
            .strip_suffix("\tHEAD")
    });
    match reported {
        Some(name) if is_branch_name(runner, name).await? => {
            Ok(RemoteHead::Branch(name.to_owned()))
        }
        Some(_) | None => Ok(RemoteHead::Unknown(format!(
            "{} does not report a default branch",
            named(remote)
        ))),
    }
}

/// The base branch from local information, and the reason for it.
async fn known_here(
    runner: &ProgramRunner,
    remote: Option<&str>,
) -> Result<Option<(String, String)>, BuiltinError> {
    if let Some(remote) = remote {
        let prefix = format!("refs/remotes/{remote}/");
        let ran = runner
            .git(&["symbolic-ref", "-q", &format!("{prefix}HEAD")])
            .await?;
        if let Some(name) = ran.answer().strip_prefix(&prefix).filter(|_| ran.ok()) {
            return Ok(Some((
                name.to_owned(),
                format!("{} reported it before", named(remote)),
            )));
        }
    }
    let places = remote
        .map(|remote| format!("refs/remotes/{remote}/"))
        .into_iter()
        .chain(["refs/heads/".to_owned()]);
    for place in places {
        for name in USUAL {
            if runner.commit(&format!("{place}{name}")).await?.is_some() {
                return Ok(Some((
                    name.to_owned(),
                    format!("it is the first of {} that exists", usual("and")),
                )));
            }
        }
    }
    Ok(None)
}
