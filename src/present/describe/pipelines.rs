//! The wording of submits and merges.

use super::{Described, EventTone, name, sentence};
use crate::{
    engine::{
        event::PipelineEvent,
        submit::{
            gatekeeper::ReviewVerdict,
            kind::{PipelineKind, PipelineOutcome},
        },
    },
    present::text::{plain, readable_size},
};

pub(super) fn pipeline(event: &PipelineEvent) -> Described {
    match event {
        PipelineEvent::Requested { pipeline, .. } => {
            let text = format!(
                "{} requested · starts after this iteration",
                title(*pipeline)
            );
            Described::new("", EventTone::Plain, text)
        }
        PipelineEvent::Started { pipeline, .. } => {
            Described::new("━━", EventTone::Plain, title(*pipeline))
        }
        PipelineEvent::RemediationCounted {
            used,
            limit,
            hook,
            reason,
            ..
        } => {
            let text = format!(
                "Repair {used} of {limit} for `{}`: {}",
                name(hook),
                sentence(reason)
            );
            Described::new("↻", EventTone::Problem, text)
        }
        PipelineEvent::ReviewStarted { hook, change, .. } => {
            let size = readable_size(change.len() as u64);
            Described::new(
                "·",
                EventTone::Quiet,
                format!("Review `{}` started · {size} to review", name(hook)),
            )
        }
        PipelineEvent::Reviewed { said, .. } => {
            let (sign, tone, verdict) = match said.verdict {
                ReviewVerdict::Approve => ("✓", EventTone::Passed, "approved"),
                ReviewVerdict::Block => ("✗", EventTone::Problem, "blocked"),
                ReviewVerdict::Unsaid => ("✗", EventTone::Problem, "no verdict"),
            };
            let (gatekeeper, reason) = (name(&said.gatekeeper), sentence(&said.reason));
            Described::new(
                sign,
                tone,
                format!("Review by {gatekeeper} · {verdict}: {reason}"),
            )
        }
        PipelineEvent::Ended {
            pipeline,
            outcome,
            reason,
            pull_request,
            ..
        } => ended(
            *pipeline,
            *outcome,
            &sentence(reason),
            pull_request.as_deref(),
        ),
    }
}

/// How a submit or a merge ended, in one word.
pub const fn pipeline_result(outcome: PipelineOutcome) -> &'static str {
    match outcome {
        PipelineOutcome::Done => "done",
        PipelineOutcome::Failed => "failed",
        PipelineOutcome::Cancelled => "cancelled",
    }
}

const fn title(pipeline: PipelineKind) -> &'static str {
    match pipeline {
        PipelineKind::Submit => "Submit",
        PipelineKind::Merge => "Merge",
    }
}

fn ended(
    pipeline: PipelineKind,
    outcome: PipelineOutcome,
    reason: &str,
    pull_request: Option<&str>,
) -> Described {
    let result = format!("{} {}", title(pipeline), pipeline_result(outcome));
    let link = pull_request
        .filter(|link| !reason.contains(link))
        .map(|link| format!(" · {}", plain(link)));
    let link = link.unwrap_or_default();
    match outcome {
        PipelineOutcome::Done => {
            Described::new("✓", EventTone::Passed, format!("{result}: {reason}{link}"))
        }
        PipelineOutcome::Failed => {
            let text = format!("{result}: {reason}{link} · the branch is kept");
            Described::new("✗", EventTone::Problem, text)
        }
        PipelineOutcome::Cancelled => Described::new(
            "✗",
            EventTone::Problem,
            format!("{result}{link} · the branch is kept"),
        ),
    }
}
