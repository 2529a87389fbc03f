//! `creel checkpoint`: what hooks and the agent gave to be kept, as the journal of a session tells;
//! running or past.

use clap::{Args, Subcommand};

use crate::{
    cli::{
        arguments::SessionArgs,
        error::{CliError, CliResult, json, print, say, warn_of},
        target,
    },
    journal::{self, SessionDir},
    present::text::plain_line,
    protocol::view::{self, CheckpointView},
};

/// What was kept on the way.
#[derive(Debug, Args)]
pub struct CheckpointArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: CheckpointCommand,
}

/// What to do with checkpoints.
#[derive(Debug, Subcommand)]
pub enum CheckpointCommand {
    /// List the checkpoints of a session.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
    /// Print a checkpoint.
    Show {
        /// The checkpoint's number.
        checkpoint: u32,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
}

/// How much of the data fits into a line.
const DATA: usize = 60;
/// How much of a commit's name tells it from others.
const COMMIT: usize = 10;

pub(super) fn checkpoint(command: CheckpointCommand) -> CliResult {
    match command {
        CheckpointCommand::List {
            json: as_json,
            session,
        } => {
            let (folder, all) = kept(&session)?;
            if as_json {
                return json(&all);
            }
            if all.is_empty() {
                say(&format!(
                    "creel: session `{}` has no checkpoints",
                    folder.name
                ));
            }
            print(&all.iter().map(line).collect::<String>())
        }
        CheckpointCommand::Show {
            checkpoint: number,
            session,
        } => {
            let (folder, all) = kept(&session)?;
            let found = all.iter().find(|kept| kept.checkpoint.checkpoint == number);
            let missing = || {
                CliError::usage(format!(
                    "session `{0}` has no checkpoint {number}; list them with `creel checkpoint list -s {0}`",
                    folder.name
                ))
            };
            json(found.ok_or_else(missing)?)
        }
    }
}

fn kept(session: &SessionArgs) -> CliResult<(SessionDir, Vec<CheckpointView>)> {
    let folder = target::named_or_running(session)?;
    let (state, disorder) = journal::fold_checked(&folder.journal())?;
    warn_of(disorder.as_ref());
    Ok((folder, view::checkpoints(&state)))
}

fn line(kept: &CheckpointView) -> String {
    let CheckpointView { at, checkpoint } = kept;
    let by = checkpoint.hook.as_deref().unwrap_or("the agent");
    let commit = checkpoint
        .commit
        .as_deref()
        .map(|commit| &commit[..commit.floor_char_boundary(COMMIT)]);
    let dirty = match checkpoint.dirty.len() {
        0 => String::new(),
        1 => ", 1 file not committed".into(),
        some => format!(", {some} files not committed"),
    };
    let commit = commit
        .map(|commit| format!("  commit {commit}{dirty}"))
        .unwrap_or_default();
    let data = plain_line(&checkpoint.data.to_string(), DATA);
    let by = plain_line(by, DATA);
    format!(
        "{:>3}  {at}  iteration {}  {by}{commit}  {data}\n",
        checkpoint.checkpoint, checkpoint.iteration
    )
}
