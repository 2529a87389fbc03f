//! The verdict of one gatekeeper on a change, with its reason.

use serde::{Deserialize, Serialize};

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
