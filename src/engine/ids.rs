//! Numbers that name things inside one session.
//!
//! A [`RunId`] or a [`TurnId`] is the ticket of its effect: the answer brings it back, and an answer whose ticket
//! is no longer awaited changes nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The number after this one.
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
    /// Where all that the run prints is kept, below the session's folder.
    pub fn output_file(self) -> String {
        format!("outputs/run-{self}.log")
    }
}

id! {
    /// One prompt and the agent's answer, counted through the whole session.
    TurnId
}
id! {
    /// One piece of held output.
    ItemId
}
id! {
    /// One place where the session waited for a person.
    GateId
}
id! {
    /// One event of a task that hooks are told of.
    TaskEventId
}
id! {
    /// One run of a workflow.
    WorkflowRunId
}
id! {
    /// One request of an agent for leave to do something.
    PermissionId
}
