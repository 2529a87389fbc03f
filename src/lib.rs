//! creel: a terminal supervisor for coding-agent sessions.

pub mod engine;
pub mod journal;
