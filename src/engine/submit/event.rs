//! The events of pipelines: requested, started, repairs, reviews, ended.

use serde::{Deserialize, Serialize};

use crate::engine::{
    actor::Actor,
    ids::RunId,
    session::event::{SessionOutcome, UserPresence},
    submit::kind::{GatekeeperReview, PipelineKind, PipelineOutcome},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum PipelineEvent {
    #[serde(rename = "pipeline_requested")]
    Requested {
        pipeline: PipelineKind,
        #[serde(flatten)]
        by: Actor,
    },
    #[serde(rename = "pipeline_started")]
    Started {
        pipeline: PipelineKind,
        presence: UserPresence,
        /// Whether the session then waits until the pull request is merged.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        until_merged: bool,
    },
    /// A check failed, and the agent is asked to repair it.
    #[serde(rename = "remediation_counted")]
    RemediationCounted {
        pipeline: PipelineKind,
        used: u32,
        limit: u32,
        hook: String,
        reason: String,
        /// The prompt. Journals of earlier versions do not have it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// The change that agents review was read.
    #[serde(rename = "review_started")]
    ReviewStarted {
        run: RunId,
        hook: String,
        change: String,
        /// The last commit of the change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
    },
    #[serde(rename = "reviewed")]
    Reviewed {
        run: RunId,
        #[serde(flatten)]
        review: GatekeeperReview,
    },
    #[serde(rename = "pipeline_ended")]
    Ended {
        pipeline: PipelineKind,
        outcome: PipelineOutcome,
        reason: String,
        /// The actor that ended the pipeline after a failure.
        #[serde(flatten)]
        by: Option<Actor>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pull_request: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        merged: Option<String>,
        /// How the session ends because of it. None: as it would without a submit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ends: Option<SessionOutcome>,
    },
}

impl PipelineEvent {
    /// The kinds of its records.
    pub(crate) const KINDS: &'static [&'static str] = &[
        "pipeline_requested",
        "pipeline_started",
        "remediation_counted",
        "review_started",
        "reviewed",
        "pipeline_ended",
    ];
}
