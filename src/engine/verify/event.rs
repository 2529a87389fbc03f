//! The events of verification: what changed the work, and the passes of the checks.

use serde::{Deserialize, Serialize};

use crate::engine::{
    conversation::ForbiddenChanges,
    verify::{PassFeedback, WorkChangedBy},
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum VerifyEvent {
    /// Something other than a turn changed the work: earlier results of checks are stale.
    #[serde(rename = "work_changed")]
    WorkChanged {
        by: WorkChangedBy,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<String>,
        /// How many files the list leaves out.
        #[serde(default, skip_serializing_if = "is_zero")]
        more: usize,
        /// Whether creel cannot tell what changed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unknown: bool,
        /// Whether git tracks none of the files.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        untracked: bool,
    },
    /// Checks whose results are stale run again: hooks, or rules.
    #[serde(rename = "verification_started")]
    Started {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hooks: Vec<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<String>,
    },
    #[serde(rename = "verification_ended")]
    Ended {
        next: AfterPass,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<PassFeedback>,
    },
    /// Files that agents must not change have changed since the last turn, or creel could not
    /// compare them.
    #[serde(rename = "tampering_found")]
    Tampered(ForbiddenChanges),
    /// The checks have judged the turn of a final delivery.
    #[serde(rename = "delivery_checked")]
    DeliveryChecked { passed: bool },
}

/// Where the session continues after a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterPass {
    /// Where it was.
    Back,
    /// In a new iteration, whose prompt has the feedback.
    Iteration,
}

impl VerifyEvent {
    /// The kinds of its records.
    pub(crate) const KINDS: &'static [&'static str] = &[
        "work_changed",
        "verification_started",
        "verification_ended",
        "tampering_found",
        "delivery_checked",
    ];
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}
