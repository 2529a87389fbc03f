//! Hooks in the engine: where they run, in which order, and what their results mean.

pub(crate) mod apply;
pub mod beside;
pub mod dispatch;
pub mod event;
pub mod headline;
pub mod point;
pub mod resolve;
pub mod side_jobs;
pub mod side_rules;
pub mod start;
pub mod template;
pub mod verdict;
