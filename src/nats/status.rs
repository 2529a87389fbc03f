//! The state of a session's connection to its NATS server.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of a session's connection to its NATS server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum NatsStatus {
    /// The session has not reached the server yet.
    Connecting {
        /// How many records the server does not have.
        behind: u64,
    },
    Connected {
        /// How many records the server does not have yet.
        behind: u64,
    },
    /// The session cannot reach the server, or the server refuses records.
    Away {
        why: String,
        /// How many records the server does not have.
        behind: u64,
    },
}

impl NatsStatus {
    /// The same state with another count.
    #[must_use]
    pub fn with(self, behind: u64) -> Self {
        match self {
            Self::Connecting { .. } => Self::Connecting { behind },
            Self::Connected { .. } => Self::Connected { behind },
            Self::Away { why, .. } => Self::Away { why, behind },
        }
    }

    /// How many records the server does not have.
    pub const fn behind(&self) -> u64 {
        match self {
            Self::Connecting { behind }
            | Self::Connected { behind }
            | Self::Away { behind, .. } => *behind,
        }
    }
}

impl fmt::Display for NatsStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting { .. } => write!(f, "connecting")?,
            Self::Connected { .. } => write!(f, "connected")?,
            Self::Away { why, .. } => write!(f, "{why}")?,
        }
        match self.behind() {
            0 => Ok(()),
            1 => write!(f, ", 1 record behind"),
            n => write!(f, ", {n} records behind"),
        }
    }
}
