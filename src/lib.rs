//! creel: a terminal supervisor for coding-agent sessions.
//!
//! creel runs an agent in a loop, with hooks, retries, limits and the user's decisions around every
//! turn. The engine decides, the runtime performs, and the surfaces send commands and show records:
//!
//! ```text
//! commands, results ─▶ Input ─▶ decide ─▶ Event ─▶ journal ─▶ apply ─▶ SessionState
//!                                    └──▶ Effect ─▶ perform ─▶ agents, hooks
//! ```
//!
//! This page leads to every part. Each page says what its module owns, what it does not own, and
//! what always holds. `ARCHITECTURE.md` has the decisions behind it, and `contributing/extending.md` the
//! steps to add something.
//!
//! # The contract of the engine
//!
//! - [`engine`]: `decide`, the one entry, and how the machines are built.
//! - [`engine::input`]: the results of effects, and the commands of users, agents and hooks.
//! - [`engine::event`]: what happened. It wraps the events of the machines; each event is a record
//!   of the journal.
//! - [`engine::effect`]: requests to the runtime. Each result returns as an input, with the same
//!   ticket ([`engine::ids`]).
//! - [`engine::output`]: what a decision returns: events, effects, or a refusal
//!   ([`engine::refusal`]).
//! - [`engine::policy`]: the plan, the rules that a session starts with and keeps.
//! - [`engine::conversation`]: the exchange between creel and an agent during a turn.
//!
//! # The machines
//!
//! | machine | owns | its events |
//! | --- | --- | --- |
//! | [`engine::session`] | the phase of the session, its iterations, and what is due next | [`engine::session::event`] |
//! | [`engine::turn`] | prompts, the agent's updates, and what the end of a turn means | [`engine::turn::event`] |
//! | [`engine::hooks`] | hook points, the order of runs, and verdicts | [`engine::hooks::HookEvent`] |
//! | [`engine::pending`] | hook output that has not been sent to the agent yet | [`engine::pending::event`] |
//! | [`engine::retry`] | how often a blocked turn was sent back, and the waits between | [`engine::retry::RetryEvent`] |
//! | [`engine::usage_limit`] | the wait for a reset, and the agent that takes over | [`engine::usage_limit::event`] |
//! | [`engine::gate`] | decisions that the session waits for, and their unattended answers | [`engine::gate::event`] |
//! | [`engine::stop`] | whether the work is complete: rules, stop hooks, guards, loops of the agent | [`engine::stop::event`] |
//! | [`engine::tasks`] | the task graph | [`engine::tasks::event`] |
//! | [`engine::tasks::automation`] | hooks that answer task events, and the actions still to do | [`engine::tasks::event`] |
//! | [`engine::tasks::workflow`] | named steps in the background | [`engine::tasks::event`] |
//! | [`engine::submit`] | submitting and merging: checks, repairs, reviews | [`engine::submit::event`] |
//! | [`engine::steering`] | pause, stop, messages, and the meaning of every command | [`engine::steering::SteeringEvent`] |
//!
//! Machines that react to the events of others:
//!
//! - [`engine::permission`]: permission requests of the agent, and remembered answers.
//! - [`engine::budget`]: what a session has used, and its limits.
//! - [`engine::protect`]: files that a turn changed although it must not.
//!
//! Beside them:
//!
//! - [`engine::session::delivery`]: the end of the loop, the final delivery, the end of the
//!   session.
//! - [`engine::session::recovery`]: resuming after a kill or a stop.
//! - [`engine::actor`]: which actor may give which command.
//! - [`engine::queue`]: the rules of the task queue that many computers share.
//!
//! # Around the engine
//!
//! - [`runtime`]: the loop of a session: record, apply, perform.
//! - [`journal`]: records on disk, and the state rebuilt from them.
//! - [`hooks`], [`agents`]: run one hook, one turn; [`process`] has the child processes of both.
//! - [`config`]: YAML to a validated plan.
//! - [`protocol`]: what clients and sessions say to each other.
//! - [`socket`], [`nats`], [`queue`], [`mcp`]: the ways in and out of a running session.
//! - [`otel`]: the session as a trace and metrics, for a collector.
//! - [`git`]: calls of git.
//! - [`worktrees`]: git worktrees in which sessions work beside each other.
//! - [`farm`]: the worker, the merge queue and the planning of tasks.
//! - [`sessions`]: all sessions of a user: found, followed, sent commands.
//! - [`task_files`]: the tasks in files of other tools.
//! - [`present`]: wording, tables and styles.
//! - [`report`]: what a session did, as Markdown, HTML or JSON.
//! - [`tui`]: the screen.
//! - [`cli`]: the command line, one file per verb, and sessions without a screen.
//! - [`app`]: wiring: it hosts the sessions and opens the screens that the verbs prepare.
//! - [`logging`]: the debug log.

pub mod agents;
pub mod app;
pub mod cli;
pub mod config;
pub mod engine;
pub mod farm;
pub mod git;
pub mod hooks;
pub mod journal;
pub mod logging;
pub mod mcp;
pub mod nats;
pub mod otel;
pub mod present;
pub mod process;
pub mod protocol;
pub mod queue;
pub mod report;
pub mod runtime;
pub mod sessions;
pub mod socket;
pub mod task_files;
pub mod text;
pub mod tui;
pub mod worktrees;
