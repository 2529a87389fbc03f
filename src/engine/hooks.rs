//! Hooks: where they run, in which order, with which facts, and what their results mean.
//!
//! Owns the table of hook points ([`point`]), one pass over the hooks of a point ([`dispatch`]),
//! the facts and placeholders of a run ([`start`], [`template`]), its verdict ([`verdict`]), the
//! hooks that run beside the agent ([`side_jobs`]), and those of its tool calls ([`tool_hooks`]). Does not run anything: see `crate::hooks`.
//! What follows when the hooks of a point have run is decided by [`super::session`], and for
//! submits and merges by [`super::submit`].
//!
//! # Invariants
//! - Every difference between hook points is a column of one table.
//! - No hook fails a session: the most that a hook can do is to open a gate.
//! - Of each kind at most one runs at a time: one hook of the lifecycle, one side job, one
//!   `on_gate` hook, one at each point of tool calls.

pub mod announced_call;
pub(crate) mod apply;
pub mod claude;
pub mod claude_tools;
pub mod dispatch;
pub mod event;
pub mod point;
pub mod resolve;
pub mod side_jobs;
pub mod side_rules;
pub mod start;
pub mod template;
pub mod tool_hooks;
pub mod tool_matcher;
pub mod verdict;
