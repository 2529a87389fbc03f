//! Hooks as the engine sees them: where they run, what their runs mean.

pub mod point;
pub mod template;
pub mod verdict;
