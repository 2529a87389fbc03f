//! `creel replay`: shows a past session again on the screen.

use std::io::IsTerminal as _;

use clap::Args;

use crate::{
    cli::{
        arguments::{ConfigArgs, NatsArgs, session_name},
        error::{CliError, CliResult, warn_of},
        target::{Project, remote_sessions::RecordedSession},
        verb_outcome::{ReplayScreen, VerbOutcome},
    },
    config::Settings,
    journal,
};

/// Which session to watch again.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The session. Default: `CREEL_SESSION`, or the one that changed last.
    #[arg(value_parser = session_name)]
    pub session: Option<String>,
    /// Whose sessions.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where they are.
    #[command(flatten)]
    pub nats: NatsArgs,
}

pub(super) fn replay(args: &ReplayArgs) -> CliResult<VerbOutcome> {
    let session = RecordedSession::find(args.session.as_deref(), &args.config, &args.nats)?;
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(CliError::usage(
            "a replay needs a terminal; `creel show` prints the session as text",
        ));
    }
    // Read once before the screen opens, so that a damaged journal is reported as text.
    let (_, disorder) = journal::fold_checked(&session.folder().journal())?;
    warn_of(disorder.as_ref());
    let ui =
        Project::load(&args.config).map_or(Settings::default().ui, |project| project.settings.ui);
    Ok(VerbOutcome::Replay(Box::new(ReplayScreen { session, ui })))
}
