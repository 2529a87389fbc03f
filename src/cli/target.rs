//! Which project and which session a command is about, and how to reach them.

pub mod local_sessions;
pub mod person;
pub mod project;
pub mod remote_sessions;
