//! `creel` without a verb: the home screen in a terminal, the help otherwise.

use std::io::IsTerminal as _;

use crate::{
    cli::{
        arguments::{ConfigArgs, NatsArgs},
        error::{CliError, CliResult, print},
        help,
        launch::surface,
        target::{self, Project},
        verb_outcome::{HomeRequestArgs, VerbOutcome},
    },
    config::{Settings, paths},
    engine::actor::UserCommand,
};

pub(super) fn home(nats: Option<String>) -> CliResult<VerbOutcome> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        if nats.is_some() {
            let why = "the home screen needs a terminal; `creel sessions --nats URL` lists the sessions as text";
            return Err(CliError::usage(why));
        }
        return print(&help::command().render_help().to_string()).map(VerbOutcome::Done);
    }
    surface::require_screen()?;
    // The screen can start sessions.
    target::require_person(UserCommand::Run)?;
    let (root, _) = target::sessions_of(&ConfigArgs::default())?;
    let has_config = paths::find(&target::here()?).is_some();
    // A config with mistakes must not hide the sessions.
    let ui = Project::load(&ConfigArgs::default())
        .map_or(Settings::default().ui, |project| project.settings.ui);
    Ok(VerbOutcome::Home(Box::new(HomeRequestArgs {
        nats: NatsArgs { url: nats },
        root,
        has_config,
        ui,
        worker: None,
    })))
}
