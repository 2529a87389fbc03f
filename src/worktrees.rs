//! Git worktrees in which sessions work beside each other, each on a branch of its own.
//!
//! Owns how a worktree is created, found again, and removed. [`repository`] calls git,
//! [`base_commit`] finds the commit to start from, [`new_worktree`] creates, [`inventory`] lists,
//! [`joined_branches`] merges, and [`removal`] removes. Does not decide when a session gets a
//! worktree or when it goes: see [`crate::engine::policy::WorktreePlan`].
//!
//! # Invariants
//! - Nothing is lost: a folder with changes is not removed, and a branch is deleted only if another
//!   one has all its commits.
//! - A worktree names its session from the moment it exists (git's lock has the reason), so a kill
//!   leaves none behind that creel does not recognise.
//! - creel never changes the files or the branch of the user's own checkout.

pub mod base_commit;
pub mod inventory;
pub mod joined_branches;
mod kill_repair;
pub mod merge_stage;
pub mod new_worktree;
pub mod removal;
pub mod repository;

pub use new_worktree::{PreparedWorktree, WorktreeRequest};
pub use repository::{ProjectRepository, WorktreeError};

/// Where worktrees are, below the project.
pub const FOLDER: &str = ".creel/worktrees";
