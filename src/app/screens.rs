//! Opens the screen on a session that this process does not run: a running one, or a replay.

use std::{
    fs::File,
    io::{self, BufWriter},
    path::PathBuf,
};

use tokio::sync::{mpsc, watch};

use crate::{
    cli::{
        attach,
        error::{self, CliError, CliResult},
        target::remote_sessions::NatsServerConnection,
        verb_outcome::{AttachedScreen, CastFile, LocalScreen, RemoteScreen, ReplayScreen},
    },
    config::{SignChoice, ThemeName, UiSettings, paths},
    nats::{commands::NatsTransport, remote_journal::ViewerChannels},
    present::style::SignSet,
    protocol::NatsStatus,
    sessions::session_client::{LIVE_BACKLOG, RemoteUpdates, SessionAddress},
    tui::{self, ScreenExit, cast::CastLook, keymap::Keymap, request::CloseBehavior},
};

pub(super) fn attach(screen: AttachedScreen, tie: CloseBehavior) -> CliResult<ScreenExit> {
    match screen {
        AttachedScreen::Local(screen) => attach_here(*screen, tie),
        AttachedScreen::Remote(screen) => attach_remote(*screen, tie),
    }
}

fn attach_here(screen: LocalScreen, tie: CloseBehavior) -> CliResult<ScreenExit> {
    let LocalScreen {
        folder,
        updates: RemoteUpdates { news, live, nats },
        ui,
    } = screen;
    let source = tui::ScreenSource {
        journal: folder.journal(),
        client: Some(SessionAddress::Socket(folder.clone())),
        news,
        live,
        tie,
        pace: None,
        nats,
        files: tui::DiffPlace::Here(folder.project().to_owned()),
    };
    let tokio = error::start_tokio()?;
    let shown = tokio.block_on(tui::run(source, screen_options(ui)));
    // A task that still waits for the session must not delay the exit.
    tokio.shutdown_background();
    let left = shown.map_err(|error| {
        CliError::failed(format!(
            "the screen failed: {error}; the session is still running"
        ))
    })?;
    if says_goodbye(tie) {
        attach::farewell(&folder);
    }
    Ok(left)
}

/// Whether the user returns to a shell. The home screen itself shows what became of the session.
fn says_goodbye(tie: CloseBehavior) -> bool {
    tie != CloseBehavior::Home
}

/// Shows a session on another machine. Reconnects by itself when the connection was lost.
fn attach_remote(screen: RemoteScreen, tie: CloseBehavior) -> CliResult<ScreenExit> {
    let RemoteScreen { copy, server, ui } = screen;
    let folder = copy.folder().clone();
    let NatsServerConnection {
        tokio,
        nats,
        client,
        events,
    } = server;
    let transport = NatsTransport::new(
        client,
        &nats.prefix,
        &folder.name,
        Some(copy.id().to_owned()),
    );
    let (news_in, news) = watch::channel(0);
    let (live_in, live) = mpsc::channel(LIVE_BACKLOG);
    let (link_in, link) = watch::channel(NatsStatus::Connected { behind: 0 });
    let source = tui::ScreenSource {
        journal: folder.journal(),
        client: Some(SessionAddress::Nats(Box::new(transport))),
        news,
        live,
        tie,
        pace: None,
        nats: Some(link),
        files: tui::DiffPlace::Elsewhere(std::env::current_dir().unwrap_or_default()),
    };
    let following = tokio.spawn(copy.follow(
        events.into_inner(),
        ViewerChannels {
            news: news_in,
            live: live_in,
            link: link_in,
        },
    ));
    let shown = tokio.block_on(tui::run(source, screen_options(ui)));
    if says_goodbye(tie) {
        attach::farewell_to_remote(&folder);
    }
    following.abort();
    // The copy of the journal is removed with the task that follows the session.
    let _ = tokio.block_on(following);
    tokio.shutdown_background();
    shown.map_err(|error| {
        CliError::failed(format!(
            "the screen failed: {error}; the session is still running"
        ))
    })
}

pub(super) fn replay(screen: &ReplayScreen) -> CliResult<ScreenExit> {
    let (_silent, news) = watch::channel(0);
    let (_mute, live) = mpsc::channel(1);
    let source = tui::ScreenSource {
        journal: screen.session.folder().journal(),
        client: None,
        news,
        live,
        tie: CloseBehavior::default(),
        pace: None,
        nats: None,
        files: screen.session.files(),
    };
    let shown = error::start_tokio()?.block_on(tui::run(source, screen_options(screen.ui)));
    shown.map_err(|error| CliError::failed(format!("the screen failed: {error}")))
}

/// Writes the frames of a replay to a file.
pub(super) fn write_cast(cast: &CastFile) -> CliResult {
    let shown = cast.file.display();
    let failed = |error: io::Error| {
        CliError::failed(format!(
            "cannot write {shown}: {error}\n  name another file with --cast"
        ))
    };
    let look = CastLook {
        size: cast.size,
        // A recording has no background that creel could ask for.
        theme: if cast.ui.theme == ThemeName::Auto {
            ThemeName::Dark
        } else {
            cast.ui.theme
        },
        signs: match cast.ui.signs {
            SignChoice::Auto | SignChoice::Unicode => SignSet::Unicode,
            SignChoice::Ascii => SignSet::Ascii,
        },
    };
    let file = File::create(&cast.file).map_err(failed)?;
    tui::cast::write_cast(cast.session.folder(), look, BufWriter::new(file)).map_err(failed)?;
    error::say(&format!("creel: wrote {shown}"));
    Ok(0)
}

pub(super) fn screen_options(ui: UiSettings) -> tui::ScreenOptions {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let no_color = variable("NO_COLOR").is_some();
    let signs = match ui.signs {
        SignChoice::Auto => SignSet::of_locale(variable),
        SignChoice::Unicode => SignSet::Unicode,
        SignChoice::Ascii => SignSet::Ascii,
    };
    tui::ScreenOptions {
        theme: ui.theme,
        no_color,
        background: tui::BackgroundSource::detect(ui.theme, no_color, variable),
        motion: ui.motion,
        hints: ui.hints,
        signs,
        mouse: ui.mouse,
        notify: ui
            .notify
            .then(|| tui::terminal::TerminalNotifier::detect(|name| std::env::var(name).ok())),
        keymap: keymap(),
        memory: paths::state_dir().map(|dir| dir.join("screen.json")),
        log: paths::state_dir().map(|dir| dir.join("log")),
    }
}

/// The user's own keymap.
fn keymap() -> Option<PathBuf> {
    paths::config_dir().map(|dir| dir.join("keymap.yaml"))
}

/// The mistakes in the user's own keymap. The screen has room for only one of them.
pub(super) fn keymap_mistakes() -> Vec<String> {
    let Some(file) = keymap() else {
        return Vec::new();
    };
    let mistakes = Keymap::load(&file).1.into_iter();
    mistakes
        .map(|mistake| format!("{}: {mistake}; the default keys apply", file.display()))
        .collect()
}
