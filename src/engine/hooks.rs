//! Hooks as the engine sees them: where they run, in which order, and what their runs mean.

pub mod dispatch;
pub mod point;
pub mod resolve;
pub mod telling_line;
pub mod template;
pub mod verdict;
