//! Runs a session and shows it: on the screen, as lines, or as records.

use std::{
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
};

use tokio::sync::{mpsc, watch};

use super::{AppError, AppResult, detach, project, say};
use crate::{
    app::{dead_sessions::DeadSessions, process_pair::ParentProcess},
    cli::{
        ConfigArgs, DetachArgs, OutputArgs,
        headless::{self, ExitCleanup, PrintFormat, SessionPrinter},
        record_formatter::{HookOutputMode, RecordFormatter},
    },
    config::{NatsConfig, UiSettings, paths},
    engine::{
        effect::ExitReason,
        event::{ActorKind, Event, SessionEvent, SessionOutcome, StopTiming, UserPresence},
        input::SessionCommand,
        session::gate::GateKind,
        submit::{PipelineKind, PipelineOutcome},
    },
    hooks::builtin,
    journal::{self, SessionDir},
    nats::{NatsEndpoint, status::NatsStatus},
    present::{style::ColourMode, text::plain},
    process::{children, signals::survive_file_limits},
    runtime::{RuntimeDirs, RuntimeError, RuntimeExit, SessionRuntime},
    socket::{ControlSocket, address::SocketDirs, session_client::SessionClient},
    tui::{self, ScreenExit, model::CloseBehavior},
};

/// Exit codes that other programs rely on.
const NOBODY_THERE: u8 = 4;
const INTERRUPTED: u8 = 130;

#[derive(Debug, Clone)]
pub(super) enum SessionSurface {
    /// On the screen, where the user can answer.
    Screen(tui::ScreenOptions),
    /// Printed, usually unattended.
    Printed(PrintFormat, UserPresence),
    /// Not at all: it runs in the background, and waits until the user attaches or answers from elsewhere.
    Nowhere,
}

impl SessionSurface {
    /// The surface that the command line asks for. Without a terminal there is no screen.
    pub(super) fn chosen(output: OutputArgs, detach: DetachArgs, ui: UiSettings) -> Self {
        if detach.background {
            return Self::Nowhere;
        }
        let presence = if output.attended { UserPresence::Attended } else { UserPresence::Unattended };
        match output {
            OutputArgs { json: true, .. } => Self::Printed(PrintFormat::Json, presence),
            OutputArgs { .. } if !is_on_screen(output, detach) => Self::Printed(PrintFormat::Lines, presence),
            OutputArgs { .. } => Self::Screen(screen_options(ui)),
        }
    }

    /// Whether the user can answer.
    pub(super) fn presence(&self) -> UserPresence {
        match self {
            Self::Screen(_) | Self::Nowhere => UserPresence::Attended,
            Self::Printed(_, presence) => *presence,
        }
    }
}

/// Whether a session with these arguments has a screen.
pub(super) fn is_on_screen(output: OutputArgs, detach: DetachArgs) -> bool {
    let asked_for = !output.json && !output.headless && !detach.detach && !detach.background;
    asked_for && io::stdin().is_terminal() && io::stdout().is_terminal()
}

pub(super) fn screen_options(ui: UiSettings) -> tui::ScreenOptions {
    tui::ScreenOptions {
        theme: ui.theme,
        no_color: std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
        mouse: ui.mouse,
        notify: ui.notify.then(|| tui::notification::TerminalNotifier::detect(|name| std::env::var(name).ok())),
        keymap: keymap(),
        log: paths::state_dir().map(|dir| dir.join("log")),
    }
}

/// The user's own keymap.
pub(super) fn keymap() -> Option<PathBuf> {
    paths::config_dir().map(|dir| dir.join("keymap.yaml"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FolderRetention {
    Stays,
    GoesAway,
}

pub(super) struct SessionHost<'a> {
    pub(super) folder: &'a SessionDir,
    /// The project's folder.
    pub(super) root: PathBuf,
    pub(super) surface: SessionSurface,
    /// Whether the session can be viewed and resumed afterwards.
    pub(super) afterwards: FolderRetention,
    /// The sessions that may have left processes running. These are ended before anything new starts.
    pub(super) leftovers: DeadSessions,
    pub(super) of: ExitCodeSource,
    pub(super) nats: Option<NatsConfig>,
    /// The parent process. Without one, the user cannot leave the screen while the session runs.
    pub(super) leash: Option<ParentProcess>,
}

/// What the exit code of a session reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExitCodeSource {
    /// How the session ended.
    Session,
    /// How the submit or merge went that the session was started or resumed for.
    Pipeline(PipelineKind),
}

/// Runs a session in the foreground, and shows it.
pub(super) fn supervise(
    stage: SessionHost<'_>,
    make: impl FnOnce(RuntimeDirs) -> std::result::Result<SessionRuntime, RuntimeError>,
) -> AppResult {
    let SessionHost { folder, root, surface, afterwards, leftovers, of, nats, leash } = stage;
    if matches!(surface, SessionSurface::Nowhere) {
        detach::leave_the_terminal();
    }
    let elsewhere = elsewhere(&root);
    let scene = RuntimeDirs { cwd: root, rescue: project::state_dir()?.join("rescued") };
    children::adopt_orphans();
    let tokio = runtime()?;
    let left = tokio.block_on(async {
        children::keep_reaping();
        survive_file_limits().map_err(no_signals)?;
        let resumes = leftovers.is_resuming();
        let notes = leftovers.end().await;
        if resumes && let Some(note) = builtin::recover(&scene.cwd).await {
            say(&format!("creel: {note}"));
        }
        let make = |scene| {
            let runtime = make(scene)?;
            for note in notes {
                runtime.handle().warn(note);
            }
            Ok(runtime)
        };
        match surface {
            SessionSurface::Screen(options) => {
                let way_back = format!("`creel attach {}`{elsewhere} shows it again", folder.name);
                let window = ScreenSession { folder, options, leash, way_back, nats };
                on_screen(window, || make(scene)).await
            }
            SessionSurface::Nowhere => in_background(HeadlessSession { folder, nats, leash }, || make(scene)).await,
            SessionSurface::Printed(format, _) => {
                printed(HeadlessSession { folder, nats, leash }, format, || make(scene)).await
            }
        }
    })?;
    // A task that still reads from a pipe must not delay the exit.
    tokio.shutdown_background();
    match (afterwards, left.leave) {
        (FolderRetention::Stays, _) => match of {
            ExitCodeSource::Session => farewell(folder, &left, &elsewhere),
            ExitCodeSource::Pipeline(pipeline) => farewell_to_pipeline(folder, &left, pipeline),
        },
        (FolderRetention::GoesAway, ExitReason::NobodyThere) => {
            say(&format!(
                "creel: the session waits for a person: {}\n  run it on a terminal, without --headless",
                why(&left)
            ));
        }
        (FolderRetention::GoesAway, ExitReason::Ended) => {}
    }
    Ok(match of {
        ExitCodeSource::Session => exit_code(&left),
        ExitCodeSource::Pipeline(_) => pipeline_code(&left),
    })
}

pub(super) fn runtime() -> AppResult<tokio::runtime::Runtime> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.map_err(|error| AppError::failed(format!("cannot start: {error}")))
}

struct HeadlessSession<'a> {
    folder: &'a SessionDir,
    nats: Option<NatsConfig>,
    leash: Option<ParentProcess>,
}

impl HeadlessSession<'_> {
    /// Opens the ways to reach the session, and makes signals and the end of the parent process end it.
    fn open_doors(self, runtime: &mut SessionRuntime) -> AppResult<ControlEndpoints> {
        let doors = ControlEndpoints::open(self.folder, runtime, self.nats);
        if let Some(leash) = &self.leash {
            leash.guard(doors.way_out(runtime));
        }
        headless::obey_signals(runtime.handle(), doors.way_out(runtime)).map_err(no_signals)?;
        Ok(doors)
    }
}

async fn printed(
    hidden: HeadlessSession<'_>,
    format: PrintFormat,
    make: impl FnOnce() -> std::result::Result<SessionRuntime, RuntimeError>,
) -> AppResult<RuntimeExit> {
    let (mut printer, live) = SessionPrinter::new(format);
    // A resumed session has a journal to catch up with. A new one has none yet.
    let _ = journal::read(&hidden.folder.journal(), |record| printer.catch_up(&record.event));
    let mut runtime = make()?;
    if format == PrintFormat::Lines {
        runtime.show_live(live);
    }
    let doors = hidden.open_doors(&mut runtime)?;
    let records = runtime.records().map(|records| (records, runtime.news()));
    let printing = records.and_then(|(records, news)| printer.start(records, news));
    let printing = printing.map_err(|error| AppError::failed(format!("cannot print: {error}")))?;
    let left = runtime.run().await?;
    // On a blocking thread, since the workers may still wait for a signal.
    let _ = tokio::task::spawn_blocking(move || (printing.join(), doors.close())).await;
    Ok(left)
}

async fn in_background(
    hidden: HeadlessSession<'_>,
    make: impl FnOnce() -> std::result::Result<SessionRuntime, RuntimeError>,
) -> AppResult<RuntimeExit> {
    let mut runtime = make()?;
    let doors = hidden.open_doors(&mut runtime)?;
    let left = runtime.run().await?;
    let _ = tokio::task::spawn_blocking(move || doors.close()).await;
    Ok(left)
}

struct ScreenSession<'a> {
    folder: &'a SessionDir,
    options: tui::ScreenOptions,
    leash: Option<ParentProcess>,
    /// How to show the session again after the user has left it.
    way_back: String,
    nats: Option<NatsConfig>,
}

async fn on_screen(
    window: ScreenSession<'_>,
    make: impl FnOnce() -> std::result::Result<SessionRuntime, RuntimeError>,
) -> AppResult<RuntimeExit> {
    let ScreenSession { folder, options, leash, way_back, nats } = window;
    let (live_in, live) = mpsc::channel(256);
    let mut runtime = make()?;
    let news = runtime.news();
    runtime.show_live(live_in);
    let doors = ControlEndpoints::open(folder, &mut runtime, nats);
    let (handle, way_out, nats) = (runtime.handle(), doors.way_out(&runtime), doors.link());
    if let Some(leash) = &leash {
        leash.guard(way_out.clone());
    }
    let tie = if leash.is_some() { CloseBehavior::Loose } else { CloseBehavior::Close };
    let helm = Some(SessionClient::Here(handle.clone()));
    let source = tui::ScreenSource { journal: folder.journal(), helm, news, live, tie, nats };
    let session = tokio::spawn(runtime.run());
    let log = options.log.as_ref().map(|log| format!("\n  its log is in {}", log.display())).unwrap_or_default();
    let shown = tui::run(source, options).await;
    if matches!(shown, Ok(ScreenExit::AtOnce)) && !session.is_finished() {
        say(&format!("creel: session `{0}` was left at once; `creel resume {0}` continues it", folder.name));
        way_out.take();
    }
    let leaves = matches!(shown, Ok(ScreenExit::LeavesItRunning)) && !session.is_finished();
    if let Some(leash) = leash.filter(|_| leaves) {
        say(&format!("creel: session `{}` goes on; {way_back}", folder.name));
        // Detach first: the terminal belongs to the shell from now on.
        leash.let_go();
        headless::obey_signals(handle, way_out).map_err(no_signals)?;
    } else {
        // The screen has closed: stop the session if it still runs. The next signal exits at once.
        let _ = handle.command(ActorKind::Tui, SessionCommand::Stop { how: StopTiming::Now }).await;
        headless::leave_at_a_signal(way_out).map_err(no_signals)?;
    }
    let left = session
        .await
        .map_err(|panic| AppError::failed(format!("the session died, which is a fault of creel: {panic}{log}")))??;
    let _ = tokio::task::spawn_blocking(move || doors.close()).await;
    shown.map_err(|error| AppError::failed(format!("the screen failed: {error}\n  `creel resume` goes on")))?;
    tell_the_end(folder);
    Ok(left)
}

/// The ways to reach a session.
pub(super) struct ControlEndpoints {
    socket: Option<ControlSocket>,
    uplink: Option<NatsEndpoint>,
}

impl ControlEndpoints {
    /// Opens the ways to reach the session. If one cannot be opened, the session runs anyway.
    pub(super) fn open(folder: &SessionDir, runtime: &mut SessionRuntime, nats: Option<NatsConfig>) -> Self {
        let uplink = nats.and_then(|nats| {
            let opened = NatsEndpoint::open(nats, folder, runtime);
            opened.inspect_err(|error| say(&format!("creel: this session is not told to NATS: {error}"))).ok()
        });
        let places = SocketDirs::usual(paths::state_dir().as_deref());
        let socket = ControlSocket::open(&places, folder, runtime, uplink.as_ref().map(NatsEndpoint::link));
        let socket = socket.inspect_err(|error| {
            tracing::warn!("there is no control socket: {error}");
            say(&format!("creel: this session cannot be reached from other terminals: {error}"));
        });
        Self { socket: socket.ok(), uplink }
    }

    /// `None` if the session has no NATS server.
    fn link(&self) -> Option<watch::Receiver<NatsStatus>> {
        self.uplink.as_ref().map(NatsEndpoint::link)
    }

    pub(super) fn way_out(&self, runtime: &SessionRuntime) -> ExitCleanup {
        ExitCleanup { children: runtime.children(), address: self.socket.as_ref().map(ControlSocket::address) }
    }

    /// Waits a short time until watchers have the last records.
    pub(super) fn close(self) {
        if let Some(socket) = self.socket {
            socket.close();
        }
        if let Some(link) = self.uplink.and_then(NatsEndpoint::close) {
            say(&format!(
                "creel: NATS does not have all of the session ({link}); the next session here that reaches this server sends the rest"
            ));
        }
    }
}

/// Prints the last line of the session, so that it stays in the terminal after the screen has closed.
pub(super) fn tell_the_end(folder: &SessionDir) {
    let mut narrator = RecordFormatter::new(ColourMode::for_stream(&io::stdout()), HookOutputMode::Told);
    let mut last = String::new();
    let read = journal::read(&folder.journal(), |record| {
        if matches!(record.event, Event::Session(SessionEvent::Ended { .. })) {
            last = narrator.tell(&record);
        } else {
            narrator.follow(&record.event);
        }
    });
    if read.is_ok() {
        let _ = headless::put(&last);
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what an error is mapped by")]
fn no_signals(error: io::Error) -> AppError {
    AppError::failed(format!("cannot listen for signals: {error}"))
}

/// How to name the project in a hint. Empty if the current folder is in it.
fn elsewhere(root: &Path) -> String {
    let here = project::sessions_of(&ConfigArgs::default()).is_ok_and(|(here, _)| here == root);
    if here { String::new() } else { format!(" in {}", root.display()) }
}

/// Why the session waits for the user.
fn why(left: &RuntimeExit) -> String {
    left.state.gates.open.as_ref().map_or_else(|| "a gate".into(), |gate| plain(&gate.reason))
}

fn farewell(folder: &SessionDir, left: &RuntimeExit, elsewhere: &str) {
    let name = &folder.name;
    if let Some(copy) = &left.rescued {
        say(&format!("creel: the journal was deleted while the session ran; a copy is in {}", copy.display()));
        return;
    }
    match left.leave {
        ExitReason::NobodyThere => {
            let why = why(left);
            let advice = if left.state.gates.open.as_ref().is_some_and(|gate| gate.about == GateKind::Permission) {
                "\n  or set in advance what the agent may do: `gates.permissions: allow` or `deny`, or rules in `permissions:`"
            } else {
                ""
            };
            say(&format!(
                "creel: the session waits for a person: {why}\n  go on with `creel resume {name}`{elsewhere}{advice}"
            ));
        }
        // The outcome alone is not enough: the user may have interrupted the end.
        ExitReason::Ended if left.state.refuse_resume(None).is_none() => {
            say(&format!(
                "creel: see what happened with `creel show {name}`, go on with `creel resume {name}`{elsewhere}"
            ));
        }
        ExitReason::Ended if left.state.outcome() == Some(SessionOutcome::Limit) => {
            say(&format!("creel: go on with `creel resume {name} --max-iterations N`{elsewhere}"));
        }
        ExitReason::Ended => {}
    }
}

/// Explains a submit or a merge that did not finish.
fn farewell_to_pipeline(folder: &SessionDir, left: &RuntimeExit, pipeline: PipelineKind) {
    let last = left.state.pipelines.last.as_deref();
    if let Some(last) = last.filter(|last| last.outcome != PipelineOutcome::Done) {
        let (why, name) = (plain(&last.reason), pipeline.name());
        say(&format!("creel: {why}\n  nothing is lost; try again with `creel {name} {}`", folder.name));
    }
}

fn pipeline_code(left: &RuntimeExit) -> u8 {
    let Some(last) = left.state.pipelines.last.as_deref().filter(|_| left.leave == ExitReason::Ended) else {
        return exit_code(left);
    };
    match last.outcome {
        PipelineOutcome::Done => 0,
        PipelineOutcome::Failed if last.waits_for_a_person() => NOBODY_THERE,
        PipelineOutcome::Failed => 1,
        PipelineOutcome::Cancelled => INTERRUPTED,
    }
}

fn exit_code(left: &RuntimeExit) -> u8 {
    if left.leave == ExitReason::NobodyThere {
        return NOBODY_THERE;
    }
    let interrupted = left.state.steering.stop == Some(StopTiming::Now);
    match left.state.outcome() {
        Some(SessionOutcome::Forced | SessionOutcome::Cancelled) if interrupted => INTERRUPTED,
        Some(SessionOutcome::Complete) => 0,
        Some(SessionOutcome::Failed | SessionOutcome::Aborted) | None => 1,
        Some(SessionOutcome::Limit) => 3,
        Some(SessionOutcome::Escalated) => NOBODY_THERE,
        Some(SessionOutcome::Forced) => 5,
        Some(SessionOutcome::Cancelled) => INTERRUPTED,
    }
}
