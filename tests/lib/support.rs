//! Worlds, samples of sessions, and screens.

pub mod frame_sheet;
pub mod journals;
pub mod samples;
pub mod screen;
pub mod task_samples;
pub mod world;
