//! The tests of the library: no terminal, no git, no server, and no program is started.
//!
//! [`engine`] and its support (`world`, `samples`, `task_samples`) use nothing of creel but
//! `creel::engine` and `creel::text`, so that they also compile against a crate that has only
//! these two.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test looks at the few kinds of events that it is about"
)]

mod engine;
mod old_journals;
mod refusal_texts;
mod refusals;
mod reports;
mod screen;
mod stats;
mod support;
mod telemetry;
mod workflow_config;
