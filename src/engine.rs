//! The engine decides; it does nothing itself.

pub mod conversation;
pub mod effect;
pub mod hooks;
pub mod ids;
pub mod policy;
pub mod time;
