//! `creel attach`: a second screen on a session that runs in another process.

use std::io::IsTerminal as _;

use super::{
    Failure, Result,
    project::Project,
    say,
    stage::{self, screen_options},
    steer::choose,
};
use crate::{
    config::Settings,
    control::{
        cli::steer::{AttachArgs, SessionArgs},
        helm::{Following, Helm, Remote},
    },
    journal::{self, Folder},
    tui::{self, model::Tie},
};

pub(super) fn attach(args: AttachArgs) -> Result {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::usage("a screen needs a terminal; `creel status` tells how a session is"));
    }
    let ui = Project::load(&args.config).map_or(Settings::default().ui, |project| project.settings.ui);
    let folder = choose::running(&SessionArgs { session: args.session, config: args.config })?;
    let (remote, Following { news, live }) = Remote::follow(&folder)?;
    let source =
        tui::Source { journal: folder.journal(), helm: Some(Helm::There(remote)), news, live, tie: Tie::Loose };
    let tokio = stage::runtime()?;
    let shown = tokio.block_on(tui::run(source, screen_options(ui)));
    // Whoever still waits for the session must not keep the program.
    tokio.shutdown_background();
    shown.map_err(|error| Failure::failed(format!("the screen failed: {error}; the session goes on")))?;
    farewell(&folder);
    Ok(0)
}

fn farewell(folder: &Folder) {
    let name = &folder.name;
    // A session that has ended may still be about to leave.
    if journal::fold(&folder.journal()).is_ok_and(|state| state.outcome().is_some()) {
        stage::tell_the_end(folder);
    } else if journal::running(folder).is_some() {
        say(&format!("creel: session `{name}` goes on; `creel attach {name}` shows it again"));
    } else {
        say(&format!("creel: session `{name}` is not running any more; `creel resume {name}` goes on with it"));
    }
}
