//! `creel attach`: a second screen on a session that runs in another process.

use std::io::IsTerminal as _;

use tokio::sync::{mpsc, watch};

use super::{AppError, AppResult, project::Project, say};
use crate::{
    app::{
        control::choose_session,
        remote_sessions::NatsServerConnection,
        session_host::{self, screen_options},
    },
    cli::control::{AttachArgs, SessionArgs},
    config::{Settings, UiSettings},
    journal::{self, SessionDir},
    nats::{remote_journal::ViewerChannels, session_client::NatsSessionClient, status::NatsStatus},
    socket::session_client::{LIVE_BACKLOG, RemoteSession, RemoteUpdates, SessionClient},
    tui::{self, model::CloseBehavior},
};

pub(super) fn attach(args: AttachArgs) -> AppResult {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(AppError::usage("a screen needs a terminal; `creel status` tells how a session is"));
    }
    let ui = Project::load(&args.config).map_or(Settings::default().ui, |project| project.settings.ui);
    if let Some(server) = NatsServerConnection::named(&args.nats, &args.config)? {
        return from_afar(server, args.session.as_deref(), ui);
    }
    let folder = choose_session::running(&SessionArgs { session: args.session, config: args.config, nats: args.nats })?;
    let (remote, RemoteUpdates { news, live, nats }) = RemoteSession::follow(&folder)?;
    let helm = Some(SessionClient::There(remote));
    let source = tui::ScreenSource { journal: folder.journal(), helm, news, live, tie: CloseBehavior::Loose, nats };
    let tokio = session_host::runtime()?;
    let shown = tokio.block_on(tui::run(source, screen_options(ui)));
    // A task that still waits for the session must not delay the exit.
    tokio.shutdown_background();
    shown.map_err(|error| AppError::failed(format!("the screen failed: {error}; the session goes on")))?;
    farewell(&folder);
    Ok(0)
}

/// Shows a session on another machine. Reconnects by itself when the connection was lost.
fn from_afar(server: NatsServerConnection, session: Option<&str>, ui: UiSettings) -> AppResult {
    let mirror = server.mirror(session)?;
    let name = mirror.folder().name.clone();
    let NatsServerConnection { tokio, nats, client, told } = server;
    let asking = NatsSessionClient::new(client, &nats.prefix, &name, Some(mirror.id().to_owned()));
    let folder = mirror.folder().clone();
    let (told_news, news) = watch::channel(0);
    let (live_in, live) = mpsc::channel(LIVE_BACKLOG);
    let (link_in, link) = watch::channel(NatsStatus::Connected { behind: 0 });
    let source = tui::ScreenSource {
        journal: folder.journal(),
        helm: Some(SessionClient::There(RemoteSession::Far(Box::new(asking)))),
        news,
        live,
        tie: CloseBehavior::Loose,
        nats: Some(link),
    };
    let following = tokio.spawn(mirror.follow(told, ViewerChannels { news: told_news, live: live_in, link: link_in }));
    let shown = tokio.block_on(tui::run(source, screen_options(ui)));
    if journal::fold(&folder.journal()).is_ok_and(|state| state.outcome().is_some()) {
        session_host::tell_the_end(&folder);
    } else {
        say(&format!("creel: session `{name}` goes on; `creel attach --nats URL {name}` shows it again"));
    }
    following.abort();
    // The copy of the journal is removed with the task that follows the session.
    let _ = tokio.block_on(following);
    tokio.shutdown_background();
    shown.map(|_| 0).map_err(|error| AppError::failed(format!("the screen failed: {error}; the session goes on")))
}

fn farewell(folder: &SessionDir) {
    let name = &folder.name;
    // The process of a session that has ended may still be about to exit.
    if journal::fold(&folder.journal()).is_ok_and(|state| state.outcome().is_some()) {
        session_host::tell_the_end(folder);
    } else if journal::running(folder).is_some() {
        say(&format!("creel: session `{name}` goes on; `creel attach {name}` shows it again"));
    } else {
        say(&format!("creel: session `{name}` is not running any more; `creel resume {name}` goes on with it"));
    }
}
