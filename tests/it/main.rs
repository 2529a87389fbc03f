//! The integration tests, as one binary: one module a part.
#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks at the few kinds of events that it is about")]

mod acp;
mod acp_sessions;
mod agents;
mod attach;
mod automation;
mod contract;
mod crowd;
mod formats;
mod frames;
mod invariants;
mod keys;
mod known_agents;
mod leaving;
mod lines;
mod mcp;
mod output;
mod process;
mod quoting;
mod rules;
mod seeds;
mod sessions;
mod socket;
mod stop_sessions;
mod stops;
mod stories;
mod support;
mod task_invariants;
mod task_keys;
mod tasks;
mod tasks_cli;
mod terminal;
mod test_agent;
mod trouble;
mod workflows;
mod worktree;
