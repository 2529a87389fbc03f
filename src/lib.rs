//! creel: a terminal supervisor for coding-agent sessions.
//!
//! The engine decides, the runtime performs, surfaces ask and show. Start reading at [`engine`].

pub mod agents;
pub mod app;
pub mod cli;
pub mod config;
pub mod engine;
pub mod hooks;
pub mod journal;
pub mod logging;
pub mod mcp;
pub mod nats;
pub mod present;
pub mod process;
pub mod queue;
pub mod runtime;
pub mod socket;
pub mod tui;
