//! Which project and which session a command is about, and how to reach them.

pub mod choose_session;
pub mod person;
pub mod project;
pub mod remote_sessions;
pub mod session_request;
