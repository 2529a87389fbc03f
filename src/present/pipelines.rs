//! Lines for the records of a submit or a merge: for sessions without a screen, and for the stream.

use super::text::{plain, plain_line};
use crate::{
    engine::{
        event::{Event, PipelineEvent},
        submit::{PipelineKind, PipelineOutcome, review::ReviewVerdict},
    },
    present::tasks::LineTone,
};

/// The longest reason in a line, in characters.
const LINE: usize = 200;

/// The line for a record of a submit or a merge. `None` for other records.
#[expect(clippy::wildcard_enum_match_arm, reason = "everything else is not about pipelines, whatever it is")]
pub fn told(event: &Event) -> Option<(LineTone, String)> {
    let short = |text: &str| plain_line(text, LINE);
    Some(match event {
        Event::Pipeline(PipelineEvent::Requested { pipeline, .. }) => {
            (LineTone::Plain, format!("a {} was asked for; it begins after this iteration", pipeline.name()))
        }
        Event::Pipeline(PipelineEvent::Started { pipeline, .. }) => {
            (LineTone::Plain, format!("━━ {}", pipeline.name()))
        }
        Event::Pipeline(PipelineEvent::RemediationCounted { used, limit, hook, reason, .. }) => {
            (LineTone::Warning, format!("↻ repair {used}/{limit} of `{}`: {}", short(hook), short(reason)))
        }
        Event::Pipeline(PipelineEvent::ReviewStarted { hook, change, .. }) => {
            (LineTone::Faint, format!("· {} bytes of change for `{}`", change.len(), short(hook)))
        }
        Event::Pipeline(PipelineEvent::Reviewed { said, .. }) => {
            let (tone, sign) = match said.verdict {
                ReviewVerdict::Approve => (LineTone::Good, "✓"),
                ReviewVerdict::Block | ReviewVerdict::Unsaid => (LineTone::Warning, "✗"),
            };
            let why = short(&said.reason);
            (tone, format!("{sign} review by {}: {}: {why}", short(&said.gatekeeper), said.verdict.name()))
        }
        Event::Pipeline(PipelineEvent::Ended { pipeline, outcome, reason, pull_request, .. }) => {
            ended(*pipeline, *outcome, &short(reason), pull_request.as_deref())
        }
        _ => return None,
    })
}

fn ended(
    pipeline: PipelineKind,
    outcome: PipelineOutcome,
    reason: &str,
    pull_request: Option<&str>,
) -> (LineTone, String) {
    let name = pipeline.name();
    let link = pull_request.filter(|link| !reason.contains(link)).map(|link| format!(" · {}", plain(link)));
    let link = link.unwrap_or_default();
    match outcome {
        PipelineOutcome::Done => (LineTone::Good, format!("✓ {name} done: {reason}{link}")),
        PipelineOutcome::Failed => {
            (LineTone::Warning, format!("✗ {name} left: {reason}{link}; the branch stays as it is"))
        }
        PipelineOutcome::Cancelled => (LineTone::Warning, format!("✗ {name} stopped{link}; the branch stays as it is")),
    }
}
