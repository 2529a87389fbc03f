//! The events of a watched pull request: begun, read, not read, a comment answered.

use serde::{Deserialize, Serialize};

use crate::engine::{ids::ItemId, time::UnixTime, watch::forge::ForgeReading};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum WatchEvent {
    /// The session waits for the pull request: after the submit, and after each push.
    #[serde(rename = "watch_started")]
    Started {
        pull_request: String,
        /// The commit that was verified and pushed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head: Option<String>,
        /// What creel answers to the comments that the agent has just worked on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
        /// What blocked the submit or the merge just now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<String>,
    },
    #[serde(rename = "forge_read")]
    Read(Box<ForgeRead>),
    /// The forge gave no answer.
    #[serde(rename = "forge_failed")]
    Failed {
        pull_request: String,
        reason: String,
        /// When creel asks again.
        next: UnixTime,
    },
    /// creel answered a comment, or could not.
    #[serde(rename = "thread_answered")]
    Answered {
        id: String,
        /// The other comments of the thread that it answers.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        also: Vec<String>,
        /// The commit that settles it. None: nothing was changed for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

/// One look at the pull request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForgeRead {
    pub pull_request: String,
    /// With the new pieces of news only.
    #[serde(flatten)]
    pub reading: ForgeReading,
    /// The ids of all news that the forge has now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// The items whose text is another now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updated: Vec<ItemId>,
    /// Whether something is other than at the last look.
    #[serde(default)]
    pub changed: bool,
    /// When creel looks again.
    pub next: UnixTime,
}

impl WatchEvent {
    /// The kinds of its records.
    pub(crate) const KINDS: &'static [&'static str] = &[
        "watch_started",
        "forge_read",
        "forge_failed",
        "thread_answered",
    ];
}
