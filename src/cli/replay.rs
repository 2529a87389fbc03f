//! `creel replay`: shows a past session again on the screen, or writes that as a recording.

use std::{io::IsTerminal as _, path::PathBuf};

use clap::Args;

use crate::{
    cli::{
        arguments::{ConfigArgs, NatsArgs, session_name, terminal_size},
        error::{CliError, CliResult, warn_of},
        launch::surface,
        target::{Project, remote_sessions::RecordedSession},
        verb_outcome::{CastFile, ReplayScreen, VerbOutcome},
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
    /// Write an asciicast, which other programs play, instead of opening the screen. Needs no
    /// terminal.
    #[arg(long, value_name = "FILE")]
    pub cast: Option<PathBuf>,
    /// With --cast: the columns and rows of the recording.
    #[arg(long, value_name = "COLSxROWS", default_value = "80x24", requires = "cast", value_parser = terminal_size)]
    pub size: (u16, u16),
}

pub(super) fn replay(args: &ReplayArgs) -> CliResult<VerbOutcome> {
    let session = RecordedSession::find(args.session.as_deref(), &args.config, &args.nats)?;
    let has_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if args.cast.is_none() && !has_terminal {
        return Err(CliError::usage(
            "a replay needs a terminal; `creel show` prints the session as text, and --cast FILE writes a recording",
        ));
    }
    if args.cast.is_none() {
        surface::require_screen()?;
    }
    // Read once before the screen opens, so that a damaged journal is reported as text.
    let (_, disorder) = journal::fold_checked(&session.folder().journal())?;
    warn_of(disorder.as_ref());
    let ui =
        Project::load(&args.config).map_or(Settings::default().ui, |project| project.settings.ui);
    if let Some(file) = args.cast.clone() {
        let size = args.size;
        return Ok(VerbOutcome::WriteCast(Box::new(CastFile {
            session,
            ui,
            file,
            size,
        })));
    }
    Ok(VerbOutcome::Replay(Box::new(ReplayScreen { session, ui })))
}
