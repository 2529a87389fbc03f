//! creel: a terminal supervisor for coding-agent sessions.
//!
//! The engine decides, the runtime performs, surfaces ask and show. Start reading at [`engine`].

pub mod agents;
pub mod app;
pub mod config;
pub mod control;
pub mod engine;
pub mod hooks;
pub mod journal;
pub mod logging;
pub mod runtime;
pub mod tui;
