//! Runs a session and shows it: on the screen, as lines, or as records.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use tokio::sync::{mpsc, watch};

use crate::{
    app::{process_pair::ParentProcess, screens, start_session::DeadSessions},
    cli::{
        error::{self, CliError, CliResult, say},
        headless::{self, ExitCleanup, PrintFormat, SessionPrinter},
        launch::{
            session_end::{self, ExitCodeSource, NextCommands},
            surface::{self, SessionSurface},
            worktree,
        },
        target,
        verb_outcome::FolderRetention,
    },
    config::{NatsConfig, SessionServers, paths},
    engine::{
        SessionState,
        effect::ExitReason,
        event::{ActorKind, StopTiming},
        input::SessionCommand,
        queue::task_spec::OwnerSession,
    },
    hooks::builtin,
    journal::{self, SessionDir},
    nats::NatsEndpoint,
    otel::TelemetryEndpoint,
    process::{
        children,
        playback_pace::{PaceFile, PlaybackPace},
        process_table::ControlGroup,
        signals::survive_file_limits,
    },
    protocol::NatsStatus,
    queue::handover::{self, HandoverPlace, TaskHandover},
    runtime::{RuntimeDirs, RuntimeError, RuntimeExit, SessionHandle, SessionRuntime},
    sessions::{session_client::SessionAddress, session_store::ProjectList},
    socket::{
        CompanionWork, ControlSocket, SocketCompanion, address::SocketDirs,
        session_mirror::QueryHandle,
    },
    tui::{self, ScreenExit, request::CloseBehavior},
};

pub(super) struct SessionHost<'a> {
    pub(super) folder: &'a SessionDir,
    /// Where the session works: the project's folder, or a worktree.
    pub(super) root: PathBuf,
    pub(super) surface: SessionSurface,
    /// Whether the session can be viewed and resumed afterwards.
    pub(super) afterwards: FolderRetention,
    /// The sessions that may have left processes running. These are ended before anything new
    /// starts.
    pub(super) leftovers: DeadSessions,
    pub(super) of: ExitCodeSource,
    pub(super) servers: SessionServers,
    /// The parent process. Without one, the user cannot leave the screen while the session runs.
    pub(super) parent: Option<ParentProcess>,
}

/// Runs a session in the foreground, and shows it.
pub(super) fn supervise(
    host: SessionHost<'_>,
    make: impl FnOnce(RuntimeDirs) -> std::result::Result<SessionRuntime, RuntimeError>,
) -> CliResult {
    let SessionHost {
        folder,
        root,
        surface,
        afterwards,
        leftovers,
        of,
        servers,
        parent,
    } = host;
    if matches!(surface, SessionSurface::Nowhere) {
        surface::leave_the_terminal();
    }
    let elsewhere = session_end::elsewhere(folder.project());
    let dirs = RuntimeDirs {
        cwd: root,
        rescue: target::state_dir()?.join("rescued"),
        prices: paths::prices_file(),
    };
    children::adopt_orphans();
    let tokio = error::start_tokio()?;
    let left = tokio.block_on(async {
        children::keep_reaping();
        survive_file_limits().map_err(no_signals)?;
        let resumes = leftovers.is_resuming();
        let notes = leftovers.end().await;
        if resumes && let Some(note) = builtin::recover(&dirs.cwd).await {
            say(&format!("creel: {note}"));
        }
        if resumes {
            builtin::remove_left_worktree(&folder.path, &dirs.cwd).await;
        }
        let make = |dirs| {
            let runtime = make(dirs)?;
            if afterwards == FolderRetention::Stays {
                note_project(folder);
            }
            for note in notes {
                runtime.handle().warn(note);
            }
            Ok(runtime)
        };
        match surface {
            SessionSurface::Screen(ui) | SessionSurface::Demo(ui, _) => {
                let options = screens::screen_options(ui);
                let way_back = format!("show it with `creel attach {}`{elsewhere}", folder.name);
                let pace = if let SessionSurface::Demo(_, pace) = surface {
                    Some(pace)
                } else {
                    None
                };
                let next = if pace.is_some() {
                    NextCommands::AfterDemo
                } else {
                    of.next_commands()
                };
                let window = ScreenSession {
                    folder,
                    options,
                    parent,
                    way_back,
                    pace,
                    servers,
                    next,
                };
                on_screen(window, || make(dirs)).await
            }
            SessionSurface::Nowhere => {
                in_background(
                    HeadlessSession {
                        folder,
                        servers,
                        parent,
                    },
                    || make(dirs),
                )
                .await
            }
            SessionSurface::Printed(format, _) => {
                printed(
                    HeadlessSession {
                        folder,
                        servers,
                        parent,
                    },
                    format,
                    || make(dirs),
                )
                .await
            }
        }
    })?;
    // A task that still reads from a pipe must not delay the exit.
    tokio.shutdown_background();
    if let (SessionSurface::Printed(PrintFormat::Lines, _), ExitReason::Ended) =
        (surface, left.leave)
    {
        let next = match afterwards {
            FolderRetention::Stays => of.next_commands(),
            FolderRetention::GoesAway => NextCommands::AfterDemo,
        };
        session_end::print_card(folder, &left.state, next);
    }
    match afterwards {
        FolderRetention::Stays => {
            worktree::let_go(folder, &left.state);
            of.farewell(folder, &left, &elsewhere);
        }
        FolderRetention::GoesAway => session_end::farewell_without_folder(&left),
    }
    Ok(of.exit_code(&left))
}

/// Lets lists of all sessions find this one.
pub(super) fn note_project(folder: &SessionDir) {
    if let Some(state_dir) = paths::state_dir() {
        ProjectList::of(&state_dir).note(folder.project());
    }
}

struct HeadlessSession<'a> {
    folder: &'a SessionDir,
    servers: SessionServers,
    parent: Option<ParentProcess>,
}

impl HeadlessSession<'_> {
    /// Opens the ways to reach the session, and makes signals and the end of the parent process end
    /// it.
    fn open_endpoints(self, runtime: &mut SessionRuntime) -> CliResult<ControlEndpoints> {
        let endpoints = ControlEndpoints::open(self.folder, runtime, self.servers);
        if let Some(parent) = &self.parent {
            parent.guard(endpoints.way_out(runtime));
        }
        headless::obey_signals(runtime.handle(), endpoints.way_out(runtime)).map_err(no_signals)?;
        Ok(endpoints)
    }
}

async fn printed(
    hidden: HeadlessSession<'_>,
    format: PrintFormat,
    make: impl FnOnce() -> std::result::Result<SessionRuntime, RuntimeError>,
) -> CliResult<RuntimeExit> {
    let (mut printer, live) = SessionPrinter::new(format);
    // A resumed session has a journal. A new one has none yet.
    if let Ok(state) = journal::fold(&hidden.folder.journal()) {
        printer.continue_after(&state);
    }
    let mut runtime = make()?;
    if format == PrintFormat::Lines {
        runtime.show_live(live);
    }
    let endpoints = hidden.open_endpoints(&mut runtime)?;
    let records = runtime.records().map(|records| (records, runtime.news()));
    let printing = records.and_then(|(records, news)| printer.start(records, news));
    let printing = printing.map_err(|error| CliError::failed(format!("cannot print: {error}")))?;
    let left = runtime.run().await?;
    // On a blocking thread, since the workers may still wait for a signal.
    let _ = tokio::task::spawn_blocking(move || (printing.join(), endpoints.close())).await;
    Ok(left)
}

async fn in_background(
    hidden: HeadlessSession<'_>,
    make: impl FnOnce() -> std::result::Result<SessionRuntime, RuntimeError>,
) -> CliResult<RuntimeExit> {
    let mut runtime = make()?;
    let endpoints = hidden.open_endpoints(&mut runtime)?;
    let left = runtime.run().await?;
    let _ = tokio::task::spawn_blocking(move || endpoints.close()).await;
    Ok(left)
}

struct ScreenSession<'a> {
    folder: &'a SessionDir,
    options: tui::ScreenOptions,
    parent: Option<ParentProcess>,
    /// How to show the session again after the user has left it.
    way_back: String,
    /// Set for a demo.
    pace: Option<PlaybackPace>,
    servers: SessionServers,
    next: NextCommands,
}

async fn on_screen(
    window: ScreenSession<'_>,
    make: impl FnOnce() -> std::result::Result<SessionRuntime, RuntimeError>,
) -> CliResult<RuntimeExit> {
    let ScreenSession {
        folder,
        options,
        parent,
        way_back,
        pace,
        servers,
        next,
    } = window;
    let (live_in, live) = mpsc::channel(256);
    let mut runtime = make()?;
    let news = runtime.news();
    runtime.show_live(live_in);
    let endpoints = ControlEndpoints::open(folder, &mut runtime, servers);
    let (handle, way_out, nats) = (
        runtime.handle(),
        endpoints.way_out(&runtime),
        endpoints.link(),
    );
    if let Some(parent) = &parent {
        parent.guard(way_out.clone());
    }
    let tie = if parent.is_some() {
        CloseBehavior::Loose
    } else {
        CloseBehavior::Close
    };
    let client = Some(SessionAddress::Here(handle.clone()));
    let pace = pace.map(|pace| (PaceFile::of_session(&folder.path), pace));
    let source = tui::ScreenSource {
        journal: folder.journal(),
        client,
        news,
        live,
        tie,
        pace,
        nats,
        files: tui::DiffPlace::Here(folder.project().to_owned()),
    };
    let session = tokio::spawn(runtime.run());
    let log = options
        .log
        .as_ref()
        .map(|log| format!("\n  see the log in {}", log.display()))
        .unwrap_or_default();
    let shown = Box::pin(tui::run(source, options)).await;
    if matches!(shown, Ok(ScreenExit::AtOnce)) && !session.is_finished() {
        say(&format!(
            "creel: closed session `{0}` at once; continue it with `creel resume {0}`",
            folder.name
        ));
        way_out.take();
    }
    let leaves = matches!(shown, Ok(ScreenExit::LeavesItRunning)) && !session.is_finished();
    if let Some(parent) = parent.filter(|_| leaves) {
        say(&format!(
            "creel: session `{}` is still running; {way_back}",
            folder.name
        ));
        // Detach first: the terminal belongs to the shell from now on.
        parent.let_go();
        headless::obey_signals(handle, way_out).map_err(no_signals)?;
    } else {
        // The screen has closed: stop the session if it still runs. The next signal exits at once.
        let _ = handle
            .command(
                ActorKind::Tui,
                SessionCommand::Stop {
                    how: StopTiming::Now,
                },
            )
            .await;
        headless::leave_at_a_signal(way_out).map_err(no_signals)?;
    }
    let left = session.await.map_err(|panic| {
        CliError::failed(format!(
            "the session crashed. This is a bug in creel: {panic}{log}"
        ))
    })??;
    let _ = tokio::task::spawn_blocking(move || endpoints.close()).await;
    shown.map_err(|error| {
        CliError::failed(format!(
            "the screen failed: {error}\n  continue the session with `creel resume`"
        ))
    })?;
    session_end::print_last_record(folder, next);
    Ok(left)
}

/// How long to wait until the queue has the last tasks of a session.
const LAST_TASKS: Duration = Duration::from_secs(5);

/// The ways to reach a session.
pub(super) struct ControlEndpoints {
    socket: Option<ControlSocket>,
    uplink: Option<NatsEndpoint>,
    folder: SessionDir,
    nats: Option<NatsConfig>,
    control_group: Option<ControlGroup>,
    telemetry: Option<TelemetryEndpoint>,
}

impl ControlEndpoints {
    /// Opens the ways to reach the session. If one cannot be opened, the session runs anyway.
    pub(super) fn open(
        folder: &SessionDir,
        runtime: &mut SessionRuntime,
        SessionServers { nats, otel }: SessionServers,
    ) -> Self {
        let telemetry = otel.and_then(|otel| {
            let opened = TelemetryEndpoint::open(otel, folder, runtime);
            let silent = "creel: this session sends nothing to the OpenTelemetry collector";
            opened
                .inspect_err(|error| say(&format!("{silent}: {error}")))
                .ok()
        });
        let nats = nats.map(|mut nats| {
            // A session without tasks for the queue needs no name for it.
            let _ = target::name_queue(&mut nats, None, folder.project());
            nats
        });
        let (owner, warned) = (
            OwnerSession {
                name: folder.name.clone(),
                id: runtime.id().to_owned(),
            },
            Arc::new(AtomicBool::new(false)),
        );
        let uplink = nats.clone().and_then(|nats| {
            let (server, owner, warned) = (nats.clone(), owner.clone(), Arc::clone(&warned));
            let companion = Box::new(move |jetstream, handle, queries| {
                let place = HandoverPlace::Server(Box::new((jetstream, server.clone())));
                hand_over(place, owner.clone(), (handle, queries), Arc::clone(&warned))
            });
            let opened = NatsEndpoint::open(nats, folder, runtime, companion);
            opened
                .inspect_err(|error| {
                    say(&format!(
                        "creel: this session does not publish to NATS: {error}"
                    ));
                })
                .ok()
        });
        let places = SocketDirs::usual(paths::state_dir().as_deref());
        // With a server, the connection to it hands tasks over.
        let companion = uplink.is_none().then(|| {
            let place = HandoverPlace::Project(folder.project().to_owned());
            Box::new(move |handle, queries| hand_over(place, owner, (handle, queries), warned))
                as SocketCompanion
        });
        let socket = ControlSocket::open(
            &places,
            folder,
            runtime,
            uplink.as_ref().map(NatsEndpoint::link),
            companion,
        );
        let socket = socket.inspect_err(|error| {
            tracing::warn!("there is no control socket: {error}");
            say(&format!(
                "creel: other terminals cannot reach this session: {error}"
            ));
        });
        let nats = nats.filter(|_| uplink.is_some());
        let control_group = ControlGroup::enter(runtime.id(), &folder.control_group_file());
        Self {
            socket: socket.ok(),
            uplink,
            folder: folder.clone(),
            nats,
            control_group,
            telemetry,
        }
    }

    /// `None` if the session has no NATS server.
    fn link(&self) -> Option<watch::Receiver<NatsStatus>> {
        self.uplink.as_ref().map(NatsEndpoint::link)
    }

    pub(super) fn way_out(&self, runtime: &SessionRuntime) -> ExitCleanup {
        ExitCleanup {
            children: runtime.children(),
            address: self.socket.as_ref().map(ControlSocket::address),
        }
    }

    /// Waits a short time until watchers have the last records.
    pub(super) fn close(self) {
        if let Some(control_group) = self.control_group {
            control_group.leave(&self.folder.control_group_file());
        }
        if let Some(socket) = self.socket {
            socket.close();
        }
        if let Ok(state) = journal::fold(&self.folder.journal()) {
            hand_over_rest(&self.folder, self.nats.as_ref(), &state);
        }
        if let Some(link) = self.uplink.and_then(NatsEndpoint::close) {
            say(&format!(
                "creel: the NATS server does not have all records of the session ({link}); the next session here that \
                 reaches this server sends the rest"
            ));
        }
        if let Some(why) = self.telemetry.and_then(TelemetryEndpoint::close) {
            say(&format!(
                "creel: the OpenTelemetry collector does not have everything of the session: {why}"
            ));
        }
    }
}

/// Hands over the tasks that the session added just before its end.
fn hand_over_rest(folder: &SessionDir, nats: Option<&NatsConfig>, state: &SessionState) {
    let owner = OwnerSession {
        name: folder.name.clone(),
        id: state.began.id.clone(),
    };
    let finishing = handover::finish(folder.project(), nats, owner, &state.tasks.graph);
    let finished = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map(|tokio| tokio.block_on(async { tokio::time::timeout(LAST_TASKS, finishing).await }));
    let why = match finished {
        Ok(Ok(Ok(()))) => return,
        Ok(Ok(Err(error))) => error.to_string(),
        Ok(Err(_)) => "the server does not answer".to_owned(),
        Err(error) => error.to_string(),
    };
    let name = &folder.name;
    let way_out = if state.refuse_resume(None).is_none() {
        format!("`creel resume {name}` hands them over")
    } else {
        format!(
            "queue them again with `creel task add --queue`; `creel task list -s {name}` shows them"
        )
    };
    say(&format!(
        "creel: the queue does not have all tasks of this session: {why}\n  {way_out}"
    ));
}

/// Hands tasks of a session over to its queue, until the future is dropped.
fn hand_over(
    place: HandoverPlace,
    owner: OwnerSession,
    (handle, query_handle): (SessionHandle, QueryHandle),
    warned: Arc<AtomicBool>,
) -> CompanionWork {
    let handover = TaskHandover {
        place,
        owner,
        query_handle,
        handle,
    };
    Box::pin(async move { handover.keep(&warned).await })
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "it is what an error is mapped by"
)]
fn no_signals(error: io::Error) -> CliError {
    CliError::failed(format!("cannot listen for signals: {error}"))
}
