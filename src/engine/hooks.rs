//! Hooks in the engine: where they run, in which order, and what their results mean.

pub mod dispatch;
pub mod headline;
pub mod point;
pub mod resolve;
pub mod template;
pub mod verdict;
