//! The rules, as stories and as properties of random sessions.

mod base_tests;
mod bounds;
mod gate_hooks;
mod guarantees;
pub(crate) mod invariants;
mod late_messages;
mod models;
mod own_retries;
mod permissions;
mod pipelines;
mod prompt_hooks;
pub(crate) mod proposal_gate;
mod questions;
mod queue;
mod reasons;
mod recorded_decisions;
mod settled;
mod stops;
mod stories;
mod tampering;
mod task_invariants;
mod tasks;
mod tool_hooks;
pub(crate) mod watch;
mod weaker_tests;
pub(crate) mod workflows;
