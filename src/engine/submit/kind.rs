//! The two pipelines, submit and merge: their hook points, and how one can end.

use crate::engine::hooks::point::HookPoint;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipelineKind {
    Submit,
    Merge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipelineOutcome {
    /// Every check passed.
    Done,
    /// A check failed and was not repaired.
    Failed,
    /// The session was stopped first.
    Cancelled,
}

impl PipelineKind {
    pub const ALL: [Self; 2] = [Self::Submit, Self::Merge];

    /// The name in records and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Merge => "merge",
        }
    }

    /// The point of its checks.
    pub const fn before(self) -> HookPoint {
        match self {
            Self::Submit => HookPoint::BeforeSubmit,
            Self::Merge => HookPoint::BeforeMerge,
        }
    }

    /// The point of the hooks that follow.
    pub const fn after(self) -> HookPoint {
        match self {
            Self::Submit => HookPoint::AfterSubmit,
            Self::Merge => HookPoint::AfterMerge,
        }
    }

    /// The pipeline that a point belongs to.
    pub fn of(point: HookPoint) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|pipeline| pipeline.before() == point || pipeline.after() == point)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatekeeperReview {
    pub gatekeeper: String,
    pub verdict: ReviewVerdict,
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewVerdict {
    Approve,
    Block,
    /// No verdict that creel understands; it counts as a block.
    Unsaid,
}

impl ReviewVerdict {
    /// The word in the tag, also shown to the user.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Block => "block",
            Self::Unsaid => "no verdict",
        }
    }
}
