//! How people and programs reach creel without the screen: the command line, and sessions told as lines.

pub mod amounts;
pub mod cli;
pub mod headless;
pub mod narrate;
pub mod paint;
pub mod requests;
pub mod text;
pub mod tool;
pub mod trust;
