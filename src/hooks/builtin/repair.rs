//! Pushes a repair that the agent made between the review and the merge to the pull request, whose
//! checks then run again.
//!
//! The engine runs the whole list again after a repair, so gatekeepers have already seen it here.
//! Only the pull request still shows the earlier commit.
//!
//! # Invariants
//! - Only a commit that gatekeepers approved, or that the agent made at this pipeline's request, is
//!   pushed. Anything else must be submitted.
//! - Checks count only after the forge shows the repair: those of the earlier commit do not apply.

use std::time::{Duration, Instant};

use super::{
    BuiltinError,
    forge::{self, ForgeLookup, PullRequest, PullRequestCheck},
    program::ProgramRunner,
    push,
};
use crate::hooks::builtin::{branch_status::BranchStatus, builtin_run::BuiltinRun, quoting::short};

/// How long the forge gets to show a push and to report its first check.
const NOTICED: Duration = Duration::from_mins(1);
/// The first and the longest pause between two requests.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));

/// Pushes the repair to the pull request, and waits for its checks.
pub(super) async fn bring(
    worker: &mut BuiltinRun<'_>,
    standing: &BranchStatus,
    pull: &PullRequest,
) -> Result<PullRequest, BuiltinError> {
    let (url, reviewed) = (&pull.url, worker.submission.reviewed.is_some());
    let (true, Some(remote)) = (reviewed || worker.submission.repaired, &standing.remote) else {
        return Err(BuiltinError::failed(format!(
            "{url} is at {}, and the work here at {}: submit again with `creel submit`, then run `creel merge` again",
            short(&pull.head),
            short(&standing.head)
        )));
    };
    let checks_before = worker.runner.checks(pull.number).await?.len();
    let pushed = push::push(worker, standing, remote).await?;
    if !reviewed && pull.review_decision.as_deref() == Some("APPROVED") {
        return Err(BuiltinError::failed(format!(
            "{url} was approved before the repair ({pushed}), and its reviewers have not seen the repair: ask them to look \
             again, then run `creel merge` again"
        )));
    }
    worker.print(&format!("{pushed}; waiting for the checks of {url}\n"));
    wait_for_checks(&worker.runner, standing, pull, checks_before).await
}

/// Waits until the forge shows the repair and all its checks have ended, or one has failed. Shortly
/// before the hook's timeout it returns the pull request while checks still run, or an error if the
/// forge shows none yet.
async fn wait_for_checks(
    runner: &ProgramRunner,
    standing: &BranchStatus,
    before: &PullRequest,
    checks_before: usize,
) -> Result<PullRequest, BuiltinError> {
    let (mut pause, longest) = PAUSES;
    let pushed_at = Instant::now();
    loop {
        let is_late = pushed_at.elapsed() > NOTICED;
        match shown(runner, standing, before).await? {
            Some(pull) => {
                let checks = runner.checks(pull.number).await?;
                let has_begun = !checks.is_empty() || checks_before == 0;
                if has_begun && have_ended(&checks) {
                    return Ok(pull);
                }
                if is_late && !has_begun {
                    return Err(unnoticed(before, standing, "no check on it"));
                }
                if !runner.pause(pause).await? {
                    return if has_begun {
                        Ok(pull)
                    } else {
                        Err(unnoticed(before, standing, "no check on it"))
                    };
                }
            }
            None if is_late || !runner.pause(pause).await? => {
                return Err(unnoticed(before, standing, "another commit"));
            }
            None => {}
        }
        pause = (pause * 2).min(longest);
    }
}

/// The pull request, if the forge shows the repair already.
async fn shown(
    runner: &ProgramRunner,
    standing: &BranchStatus,
    before: &PullRequest,
) -> Result<Option<PullRequest>, BuiltinError> {
    match runner.pull_request(standing).await? {
        ForgeLookup::Known(Some(pull)) => {
            Ok((pull.number == before.number && pull.head == standing.head).then_some(*pull))
        }
        ForgeLookup::Known(None) | ForgeLookup::NoForge => Ok(None),
        ForgeLookup::Failed(ran) => Err(forge::trouble("gh pr list", &ran)),
    }
}

fn have_ended(checks: &[PullRequestCheck]) -> bool {
    checks.iter().any(PullRequestCheck::failed) || checks.iter().all(PullRequestCheck::passed)
}

fn unnoticed(pull: &PullRequest, standing: &BranchStatus, shows: &str) -> BuiltinError {
    BuiltinError::failed(format!(
        "the repair {} was pushed to {}, which still shows {shows}: run `creel merge` again when it has caught up",
        short(&standing.head),
        pull.url
    ))
}
