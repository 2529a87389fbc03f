//! Arguments that several verbs share.

use std::path::PathBuf;

use clap::Args;

use crate::engine::{hooks::point::HookPoint, ids::ItemId, tasks::graph::TaskState};

/// Which session.
#[derive(Debug, Default, Args)]
pub struct SessionArgs {
    /// The session. Default: `CREEL_SESSION`, or the only running session of this project.
    #[arg(short, long, value_name = "NAME", value_parser = session_name)]
    pub session: Option<String>,
    /// Whose sessions.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where they are.
    #[command(flatten)]
    pub nats: NatsArgs,
}

/// Which config.
#[derive(Debug, Default, Clone, Args)]
pub struct ConfigArgs {
    /// The config. Default: creel.yaml, creel.yml, creel.json or .creel/config.yaml in this folder
    /// or above.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Which server, for sessions on other machines.
#[derive(Debug, Default, Args)]
pub struct NatsArgs {
    /// Look for sessions on other machines, through this NATS server. Put the user into the URL
    /// (`${NAME}` stands for an environment variable) or into the config.
    #[arg(long = "nats", value_name = "URL")]
    pub url: Option<String>,
}

/// Which queue.
#[derive(Debug, Default, Args)]
pub struct QueueSourceArgs {
    /// Whose queue.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Use the queue on this NATS server. Default: the server in the config's `nats:`, else the
    /// project's own queue, which needs no server.
    #[arg(long = "nats", value_name = "URL")]
    pub url: Option<String>,
}

/// How to show a session that runs.
#[derive(Debug, Default, Clone, Copy, Args)]
pub struct OutputArgs {
    /// Print lines instead of a screen, and answer gates as the config says.
    #[arg(long)]
    pub headless: bool,
    /// Print records, one per line; implies --headless.
    #[arg(long)]
    pub json: bool,
    /// Without a screen, wait for your answers to gates from another terminal.
    #[arg(long, hide = true)]
    pub attended: bool,
}

/// Whether a session goes into the background.
#[derive(Debug, Default, Clone, Copy, Args)]
pub struct DetachArgs {
    /// Run in the background and print the session's name; answer gates with `creel attach` or
    /// `creel gate answer`.
    #[arg(long, conflicts_with_all = ["headless", "json"])]
    pub detach: bool,
    /// Internal: this is the background process.
    #[arg(long, hide = true)]
    pub background: bool,
}

/// A session's name becomes a folder and a part of subjects, so it is plain.
pub(super) fn session_name(text: &str) -> Result<String, ArgumentError> {
    if !crate::engine::tasks::command::is_name(text) {
        return Err(ArgumentError::BadSessionName);
    }
    Ok(text.to_owned())
}

/// The name of a queue, or nothing for the project's own.
pub(super) fn queue_name(text: &str) -> Result<String, ArgumentError> {
    if text.is_empty() {
        Ok(String::new())
    } else {
        worktree_name(text)
    }
}

/// The name of a worktree, for a folder and a branch.
pub(super) fn worktree_name(text: &str) -> Result<String, ArgumentError> {
    session_name(text).map_err(|_| ArgumentError::BadWorktreeName)
}

/// Why a value on the command line is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArgumentError {
    #[error("a name has only letters, digits, `-` and `_`")]
    BadWorktreeName,
    #[error("an item is a number; list the items with `creel pending list`")]
    NotAnItem,
    #[error("a gate is a number; list the open gates with `creel gate list`")]
    NotAGate,
    #[error("unknown answer; list the answers of a gate with `creel gate list`")]
    NoSuchChoice,
    #[error("unknown hook point; use one of: {}", HookPoint::ALL.map(HookPoint::name).join(", "))]
    NoSuchPoint,
    #[error("unknown state; use one of: {}, or `waiting` for created, `done` for completed", TaskState::ALL.map(TaskState::name).join(", "))]
    NoSuchState,
    #[error("a size is columns and rows between 20x6 and 500x200, such as 80x24")]
    NotASize,
    #[error("the number of iterations must be a whole number, at least 1")]
    NotAnIterationCount,
    #[error("a session name has 1 to 64 letters, digits, `-` or `_`")]
    BadSessionName,
}

/// A limit of iterations.
pub(super) fn iteration_count(text: &str) -> Result<u32, ArgumentError> {
    text.parse()
        .ok()
        .filter(|count| *count > 0)
        .ok_or(ArgumentError::NotAnIterationCount)
}

/// The columns and rows of a terminal.
pub(super) fn terminal_size(text: &str) -> Result<(u16, u16), ArgumentError> {
    let (columns, rows) = text.split_once('x').ok_or(ArgumentError::NotASize)?;
    match (columns.parse(), rows.parse()) {
        (Ok(columns @ 20..=500), Ok(rows @ 6..=200)) => Ok((columns, rows)),
        (_, _) => Err(ArgumentError::NotASize),
    }
}

/// The number of a pending item.
pub(super) fn item(text: &str) -> Result<ItemId, ArgumentError> {
    text.parse()
        .map(ItemId)
        .map_err(|_| ArgumentError::NotAnItem)
}
