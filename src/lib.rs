//! creel: a terminal supervisor for coding-agent sessions.

pub mod config;
pub mod engine;
