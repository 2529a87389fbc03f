//! What the verbs share that start, resume or submit a session.

pub mod first_conversation;
pub mod pipeline;
pub mod readiness;
pub mod session_end;
pub mod shared_folder;
pub mod surface;
pub mod trust_prompt;
pub mod worktree;
