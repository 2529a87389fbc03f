//! Arguments that several verbs share.

use std::path::PathBuf;

use clap::Args;

use crate::engine::{hooks::point::HookPoint, ids::ItemId, tasks::task::TaskState};

/// Which session.
#[derive(Debug, Default, Args)]
pub struct SessionArgs {
    /// The session; otherwise the one that `CREEL_SESSION` names, or the only one that runs in this project.
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
    /// The config; otherwise creel.yaml, creel.yml, creel.json or .creel/config.yaml here or above.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Which server, for sessions on other machines.
#[derive(Debug, Default, Args)]
pub struct NatsArgs {
    /// Look on other machines, by a NATS server; the user to log in is in the URL (`${NAME}` is a variable of the
    /// environment) or in the config.
    #[arg(long = "nats", value_name = "URL")]
    pub url: Option<String>,
}

/// How to show a session that runs.
#[derive(Debug, Default, Clone, Copy, Args)]
pub struct OutputArgs {
    /// No screen: print what happens as lines, and let gates take their policy answer.
    #[arg(long)]
    pub headless: bool,
    /// Print records, one a line; implies --headless.
    #[arg(long)]
    pub json: bool,
    /// Without a screen, a user still answers gates, from elsewhere.
    #[arg(long, hide = true)]
    pub attended: bool,
}

/// Whether a session goes into the background.
#[derive(Debug, Default, Clone, Copy, Args)]
pub struct DetachArgs {
    /// Run in the background and print the session's name; its gates wait for `creel attach` or `creel gate answer`.
    #[arg(long, conflicts_with_all = ["headless", "json"])]
    pub detach: bool,
    /// This is the process in the background.
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

/// Why a value on the command line is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArgumentError {
    #[error("an item is a number; `creel pending list` shows them")]
    NotAnItem,
    #[error("a gate is a number; `creel gate list` shows the one that waits")]
    NotAGate,
    #[error("there is no such answer; `creel gate list` shows those of a gate")]
    NoSuchChoice,
    #[error("there is no such point; there are: {}", HookPoint::ALL.map(HookPoint::name).join(", "))]
    NoSuchPoint,
    #[error("there is no such state; there are: {}", TaskState::ALL.map(TaskState::name).join(", "))]
    NoSuchState,
    #[error("a session name has 1 to 64 letters, digits, `-` or `_`")]
    BadSessionName,
}

/// The number of a pending item.
pub(super) fn item(text: &str) -> Result<ItemId, ArgumentError> {
    text.parse().map(ItemId).map_err(|_| ArgumentError::NotAnItem)
}
