//! Ids that are unique within one session.
//!
//! A [`RunId`] or a [`TurnId`] is the id of its effect: the result carries it, and a result whose
//! id the session does not wait for changes nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// One execution of a hook.
    RunId
}

impl RunId {
    /// The file with the run's whole output, relative to the session's folder.
    pub fn output_file(self) -> String {
        format!("outputs/run-{self}.log")
    }
}

id! {
    /// One prompt and the agent's answer, counted through the whole session.
    TurnId
}
id! {
    /// One pending item.
    ItemId
}
id! {
    /// One gate.
    GateId
}
id! {
    /// One task event that automation hooks receive.
    TaskEventId
}
id! {
    /// One run of a workflow.
    WorkflowRunId
}
id! {
    /// One permission request.
    PermissionId
}
