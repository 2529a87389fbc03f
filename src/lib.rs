//! creel: a terminal supervisor for coding-agent sessions.

pub mod agents;
pub mod engine;
pub mod hooks;
