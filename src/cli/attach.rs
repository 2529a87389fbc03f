//! `creel attach`: a second screen on a session that runs in another process.

use std::io::IsTerminal as _;

use clap::Args;

use crate::{
    cli::{
        arguments::{ConfigArgs, NatsArgs, SessionArgs, session_name},
        error::{CliError, CliResult, say},
        launch::{
            session_end::{self, NextCommands},
            surface,
        },
        target::{self, Project, remote_sessions::NatsServerConnection},
        verb_outcome::{AttachedScreen, LocalScreen, RemoteScreen, VerbOutcome},
    },
    config::Settings,
    journal::{self, SessionDir},
    sessions::session_client::RemoteUpdates,
};

/// Which session to look at.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// The session. Default: `CREEL_SESSION`, or the only running session of this project.
    #[arg(value_parser = session_name)]
    pub session: Option<String>,
    /// Whose sessions.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where they are.
    #[command(flatten)]
    pub nats: NatsArgs,
}

pub(super) fn attach(args: AttachArgs) -> CliResult<VerbOutcome> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(CliError::usage(
            "a screen needs a terminal; `creel status` shows the status as text",
        ));
    }
    surface::require_screen()?;
    let ui =
        Project::load(&args.config).map_or(Settings::default().ui, |project| project.settings.ui);
    if let Some(server) = NatsServerConnection::named(&args.nats, &args.config)? {
        let copy = server.mirror(args.session.as_deref())?;
        return Ok(VerbOutcome::Attach(AttachedScreen::Remote(Box::new(
            RemoteScreen { copy, server, ui },
        ))));
    }
    let folder = target::running(&SessionArgs {
        session: args.session,
        config: args.config,
        nats: args.nats,
    })?;
    let updates = RemoteUpdates::follow(&folder)?;
    Ok(VerbOutcome::Attach(AttachedScreen::Local(Box::new(
        LocalScreen {
            folder,
            updates,
            ui,
        },
    ))))
}

/// The last words after the screen of a local session has closed.
pub(crate) fn farewell(folder: &SessionDir) {
    let name = &folder.name;
    // The process of a session that has ended may still be about to exit.
    if has_ended(folder) {
        session_end::print_last_record(folder, NextCommands::OfSession);
    } else if journal::running(folder).is_some() {
        say(&format!(
            "creel: session `{name}` is still running; show it with `creel attach {name}`"
        ));
    } else {
        say(&format!(
            "creel: session `{name}` is not running any more; continue it with `creel resume {name}`"
        ));
    }
}

/// The last words after the screen of a session on another machine has closed.
pub(crate) fn farewell_to_remote(folder: &SessionDir) {
    let name = &folder.name;
    if has_ended(folder) {
        session_end::print_last_record(folder, NextCommands::OfSession);
    } else {
        say(&format!(
            "creel: session `{name}` is still running; show it with `creel attach --nats URL {name}`"
        ));
    }
}

fn has_ended(folder: &SessionDir) -> bool {
    journal::fold(&folder.journal()).is_ok_and(|state| state.phase.outcome().is_some())
}
