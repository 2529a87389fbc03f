//! creel: a terminal supervisor for coding-agent sessions.
//!
//! creel runs an agent in a loop, with hooks, retries, limits and the user's decisions around every turn. The engine
//! decides, the runtime performs, and the surfaces send commands and show records:
//!
//! ```text
//! commands, results ─▶ Input ─▶ decide ─▶ Event ─▶ journal ─▶ apply ─▶ SessionState
//!                                    └──▶ Effect ─▶ perform ─▶ agents, hooks
//! ```
//!
//! This page leads to every part. Each page says what its module owns, what it does not own, and what always holds.
//! `ARCHITECTURE.md` has the decisions behind it, and `docs/extending.md` the steps to add something.
//!
//! # The contract of the engine
//!
//! - [`engine`]: `decide`, the one entry, and what it returns.
//! - [`engine::input`]: what the engine is told: results of effects, and commands of users, agents and hooks.
//! - [`engine::event`]: what happened. One enum per machine; each variant is a record of the journal.
//! - [`engine::effect`]: what the runtime has to do. Its result returns as an input, with the same ticket ([`engine::ids`]).
//! - [`engine::policy`]: the plan, the rules that a session starts with and keeps.
//! - [`engine::conversation`]: what an agent and a session exchange in a turn.
//!
//! # The machines
//!
//! | machine | what it owns | its events |
//! | --- | --- | --- |
//! | [`engine::session`] | the phase of the session, its iterations, and what is due next | [`engine::event::session`] |
//! | [`engine::session::turn`] | prompts, answers, and what the end of a turn means | [`engine::event::turn`] |
//! | [`engine::hooks`] | hook points, the order of runs, and verdicts | [`engine::event::hook`] |
//! | [`engine::session::pending`] | hook output that has not been sent to the agent yet | [`engine::event::pending`] |
//! | [`engine::session::retry`] | how often a blocked turn was sent back, and the waits between | [`engine::event::retry`] |
//! | [`engine::session::limits`] | usage limits: the wait for a reset, and the agent that takes over | [`engine::event::usage_limit`] |
//! | [`engine::session::gate`] | decisions that the session waits for, and their unattended answers | [`engine::event::gate`] |
//! | [`engine::stop`] | whether the work is complete: rules, stop hooks, guards, loops of the agent | [`engine::event::stop`] |
//! | [`engine::tasks`] | the task graph | [`engine::event::task`] |
//! | [`engine::tasks::automation`] | hooks that answer task events, and the actions still to do | [`engine::event::automation`] |
//! | [`engine::tasks::workflow`] | named steps in the background | [`engine::event::workflow`] |
//! | [`engine::submit`] | submitting and merging: checks, repairs, reviews | [`engine::event::pipeline`] |
//! | [`engine::session::control`] | commands: pause, stop, messages, answers to gates | [`engine::event::steering`] |
//!
//! Parts that the machines share:
//!
//! - [`engine::session::permission`]: permission requests of the agent, and remembered answers.
//! - [`engine::session::budget`]: what a session has used, and its limits.
//! - [`engine::session::tamper`]: files that a turn changed although it must not.
//! - [`engine::session::delivery`]: the end of the loop, the final delivery, the end of the session.
//! - [`engine::session::side_jobs`], [`engine::session::gate_hooks`]: hooks that run beside the agent.
//! - [`engine::recovery`]: resuming after a kill or a stop.
//! - [`engine::actor`]: which actor may give which command.
//! - [`engine::queue`]: the rules of the task queue that many machines work from.
//!
//! # Around the engine
//!
//! - [`runtime`]: the loop of a session: record, apply, perform.
//! - [`journal`]: records on disk, and the state rebuilt from them.
//! - [`hooks`], [`agents`]: run one hook, one turn; [`process`] has the child processes of both.
//! - [`config`]: YAML to a validated plan.
//! - [`socket`], [`nats`], [`queue`], [`mcp`]: the ways in and out of a running session.
//! - [`present`]: wording, tables and styles.
//! - [`tui`]: the screen.
//! - [`cli`]: the command line, one file per verb, and sessions without a screen.
//! - [`app`]: wiring: it hosts the sessions and opens the screens that the verbs prepare.
//! - [`logging`]: the debug log.

pub mod agents;
pub mod app;
pub mod cli;
pub mod config;
pub mod engine;
pub mod hooks;
pub mod journal;
pub mod logging;
pub mod mcp;
pub mod nats;
pub mod present;
pub mod process;
pub mod queue;
pub mod runtime;
pub mod socket;
pub mod tui;
