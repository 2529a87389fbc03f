//! Hooks as the engine sees them: where they run, in which order, and what their runs mean.

pub mod dispatch;
pub mod headline;
pub mod point;
pub mod resolve;
pub mod template;
pub mod verdict;
