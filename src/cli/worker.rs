//! The arguments of `creel worker`.

use clap::Args;

use super::{ConfigArgs, NatsArgs};
use crate::{
    config::{BadDuration, duration_of},
    engine::time::TimeSpan,
};

/// What a worker does.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct WorkerArgs {
    /// The types of tasks to take, with commas between them; otherwise all that an agent of this machine may work on.
    #[arg(short, long, value_name = "TYPE", value_delimiter = ',')]
    pub types: Vec<String>,
    /// The agent: one of the config's `agents`, or a known name; otherwise the config's, or for a type that does not allow
    /// it, the first that the type allows and this machine has.
    #[arg(short, long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Which config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The server with the queue; otherwise as `nats:` of the config says.
    #[command(flatten)]
    pub nats: NatsArgs,
    /// Let gates wait for a person (`creel attach`, `creel gate answer`); otherwise they take their policy answer, and a task
    /// that needs a person is blocked.
    #[arg(long)]
    pub attended: bool,
    /// Leave when there is nothing more to do, instead of waiting for more.
    #[arg(long)]
    pub drain: bool,
    /// How long a worker may be silent before its task is handed to another; holds for the rows of the queue that this worker is
    /// the first to take from.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = lease)]
    pub lease: TimeSpan,
    /// Print each change of a task as JSON, one a line, instead of what happens in the sessions.
    #[arg(long)]
    pub json: bool,
    /// Trust this config's hooks and agents, and remember it.
    #[arg(long)]
    pub trust: bool,
}

fn lease(text: &str) -> Result<TimeSpan, LeaseError> {
    let span = duration_of(text)?;
    if span < TimeSpan::secs(1) { Err(LeaseError::TooShort) } else { Ok(span) }
}

#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error(transparent)]
    BadDuration(#[from] BadDuration),
    #[error("a lease is at least a second")]
    TooShort,
}
