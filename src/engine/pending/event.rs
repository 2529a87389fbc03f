//! The events of pending items: added, skipped, restored, edited, delivered.

use serde::{Deserialize, Serialize};

use crate::engine::{
    actor::Actor,
    hooks::point::HookPoint,
    ids::{ItemId, RunId},
    watch::forge::NewsSource,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum PendingEvent {
    #[serde(rename = "pending_added")]
    Added {
        item: ItemId,
        run: RunId,
        point: HookPoint,
        hook: String,
        iteration: u32,
        bytes: usize,
        text: String,
        /// Set if it is from a forge.
        #[serde(flatten)]
        news: Option<Box<NewsSource>>,
        /// Whether it waits until the user restores it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        skipped: bool,
    },
    #[serde(rename = "pending_skipped")]
    Skipped {
        item: ItemId,
        #[serde(flatten)]
        by: Actor,
    },
    #[serde(rename = "pending_restored")]
    Restored {
        item: ItemId,
        #[serde(flatten)]
        by: Actor,
    },
    #[serde(rename = "pending_edited")]
    Edited {
        item: ItemId,
        #[serde(flatten)]
        by: Actor,
        text: String,
    },
    #[serde(rename = "delivered")]
    Delivered { items: Vec<ItemId> },
}

impl PendingEvent {
    /// The kinds of its records.
    pub(crate) const KINDS: &'static [&'static str] = &[
        "pending_added",
        "pending_skipped",
        "pending_restored",
        "pending_edited",
        "delivered",
    ];
}
