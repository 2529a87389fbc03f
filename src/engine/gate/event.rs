//! The events of gates: opened, changed, answered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::engine::{
    actor::Actor,
    gate::kind::{GateChoice, GateKind},
    hooks::point::HookPoint,
    ids::{GateId, ItemId, PermissionId, RunId},
    queue::task_proposal::ProposedTask,
    stored_form::known_or_none,
    verify::CheckRef,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum GateEvent {
    #[serde(rename = "gate_opened")]
    Opened {
        gate: GateId,
        about: GateKind,
        choices: Vec<GateChoice>,
        /// Why the session waits.
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hook: Option<String>,
        /// The failed run of that hook.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<RunId>,
        /// The point of that hook, if it is a check.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        point: Option<HookPoint>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        items: Vec<ItemId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ask: Option<PermissionId>,
        /// The proposed tasks.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tasks: Vec<ProposedTask>,
    },
    /// The user changed the proposed tasks, before or with the answer.
    #[serde(rename = "proposal_edited")]
    ProposalEdited {
        gate: GateId,
        tasks: Vec<ProposedTask>,
        #[serde(flatten)]
        by: Actor,
        /// What the gate says about them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    #[serde(rename = "gate_answered")]
    Answered {
        gate: GateId,
        choice: GateChoice,
        #[serde(flatten)]
        by: Actor,
        /// The id of the agent's option that was chosen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        option: Option<String>,
        /// What `continue` grants. Journals of earlier versions do not say.
        #[serde(
            default,
            deserialize_with = "known_or_none",
            skip_serializing_if = "Option::is_none"
        )]
        grants: Option<Box<GateGrants>>,
    },
}

impl GateEvent {
    /// The kinds of its records.
    pub(crate) const KINDS: &'static [&'static str] =
        &["gate_opened", "proposal_edited", "gate_answered"];
}

/// What the user grants by continuing at a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateGrants {
    /// How many times the budget has been granted again, this time included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<u32>,
    /// More retries for the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// The checks that the user or the policy accepts as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<CheckRef>,
    /// More retries for hooks with a limit of their own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hooks: BTreeMap<String, u32>,
    /// Why the loop ends with this answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
}

impl GateGrants {
    /// The retries that it grants, of the hook that gets most.
    pub fn most_retries(&self) -> Option<u32> {
        self.retries.or_else(|| self.hooks.values().copied().max())
    }
}
