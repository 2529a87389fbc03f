//! Starts or resumes a session that a verb has prepared, and runs it to its end.
//!
//! Owns which sessions are checked before another one starts, for processes that they left running
//! when their creel was killed. Does not find processes: see [`crate::process::sweep`].
//!
//! Also serves the tools of `creel mcp`, and runs a self-driven session for an agent that has no
//! other.
//!
//! # Invariants
//! - The processes of a running session are never touched: a session is swept only while this
//!   process has its lock.
//! - A session whose plan the user has not trusted is skipped: its journal may have come with a
//!   clone, and could name any process.
//! - A self-driven session runs nothing from a config that the user has not trusted.
//! - It ends before the server does, unless the server is killed; then `creel resume` continues it.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Sender},
    },
    thread::JoinHandle,
    time::Duration,
};

use crate::{
    app::{
        process_pair::ParentProcess,
        session_host::{ControlEndpoints, SessionHost, note_project, supervise},
    },
    cli::{
        VERSION,
        arguments::SessionArgs,
        error::{self, CliError, CliResult},
        headless::{self, ExitCleanup},
        launch::{
            session_end::ExitCodeSource,
            shared_folder::{SessionNameLock, dated, first_free},
            surface::SessionSurface,
            trust_prompt,
        },
        mcp::SelfDrivenSpec,
        target,
        verb_outcome::{
            FolderRetention, NewSession, ResumedSession, SweepScope, ToolServerRequest,
        },
    },
    config::{SessionServers, paths, trust::plan_document},
    engine::{
        SessionState,
        event::{ActorKind, SessionStarted, StopTiming, UserPresence},
        input::SessionCommand,
        policy::SessionPlan,
    },
    journal::{self, Journal, OpenedJournal, SessionDir, SessionsDir},
    mcp::{self, McpServerEnd, NoSessionError},
    present::refusals,
    process::{children, process_table::ControlGroup, trace_context::TraceParent},
    protocol::process_origin,
    runtime::{RuntimeDirs, SessionHandle, SessionRuntime, handle::SessionProcesses, now},
};

/// The first event of a session.
pub(super) fn began(
    root: &Path,
    plan: SessionPlan,
    prompt: String,
    presence: UserPresence,
) -> SessionStarted {
    SessionStarted {
        agent: plan.agent.clone(),
        cwd: root.to_string_lossy().into_owned(),
        prompt,
        max_iterations: plan.max_iterations,
        id: new_id(),
        seed: now().0.unsigned_abs() ^ u64::from(std::process::id()),
        presence,
        plan,
        only_pipeline: None,
        order: None,
        worktree: None,
        from: None,
        fork: None,
        creel: VERSION.to_owned(),
        user: process_origin::user(),
        trace: None,
    }
}

pub(super) fn begin(start: NewSession, parent: Option<&ParentProcess>) -> CliResult {
    let NewSession {
        root,
        folder,
        turn,
        plan,
        prompt,
        tasks,
        first,
        only_pipeline,
        order,
        worktree,
        servers,
        surface,
        afterwards,
        sweep,
    } = start;
    let leftovers = match sweep {
        SweepScope::Project => DeadSessions::of(&SessionsDir::of(&root)),
        SweepScope::Session => DeadSessions::default(),
    };
    let (cwd, worktree) = worktree.map_or((root, None), |prepared| {
        (prepared.cwd, Some(prepared.worktree))
    });
    let (from, fork) = first.map_or((None, None), |first| (Some(first.id), first.fork_of));
    let trace = servers.otel.as_ref().and_then(|_| TraceParent::inherited());
    let began = SessionStarted {
        trace: trace.map(|parent| parent.to_string()),
        only_pipeline,
        order,
        worktree,
        from,
        fork,
        ..began(&cwd, plan, prompt, surface.presence())
    };
    let of = match (only_pipeline, &began.plan.proposal) {
        (Some(pipeline), _) => ExitCodeSource::Pipeline(pipeline),
        (None, Some(_)) => ExitCodeSource::Proposal,
        (None, None) => ExitCodeSource::Session,
    };
    let parent = parent.cloned();
    let make = match surface {
        SessionSurface::Screen(_) | SessionSurface::Demo(..) => SessionRuntime::begin_for_screen,
        SessionSurface::Printed(..) | SessionSurface::Nowhere => SessionRuntime::begin,
    };
    let stage = SessionHost {
        folder: &folder,
        root: cwd,
        surface,
        afterwards,
        leftovers,
        of,
        servers,
        parent,
    };
    supervise(stage, |dirs| {
        let mut runtime = make(began, &folder, dirs)?;
        drop(turn);
        runtime.take_over(&tasks)?;
        Ok(runtime)
    })
}

pub(super) fn resume(resumed: ResumedSession, parent: Option<&ParentProcess>) -> CliResult {
    let ResumedSession {
        root,
        folder,
        turn,
        opened,
        input,
        exit_code: of,
        servers,
        surface,
        sweep,
    } = resumed;
    let leftovers = match sweep {
        SweepScope::Project => {
            DeadSessions::before_resuming(&SessionsDir::of(folder.project()), &opened.state)
        }
        SweepScope::Session => DeadSessions::default().with_resumed(&opened.state, &folder),
    };
    let (afterwards, parent) = (FolderRetention::Stays, parent.cloned());
    let stage = SessionHost {
        folder: &folder,
        root,
        surface,
        afterwards,
        leftovers,
        of,
        servers,
        parent,
    };
    supervise(stage, |dirs| {
        let runtime = SessionRuntime::resume(opened, input, dirs)?;
        drop(turn);
        Ok(runtime)
    })
}

/// Identifies a session among all that ever had its name. Part of the mark of its processes.
fn new_id() -> String {
    format!("{:x}-{:x}", now().0, std::process::id())
}

/// The dead sessions of a project that may have left processes running.
#[derive(Default)]
pub(super) struct DeadSessions {
    /// The session that is being resumed.
    resumed: Option<SessionProcesses>,
    others: Vec<DeadSession>,
}

/// A session that no process runs, and whose creel did not shut down cleanly.
struct DeadSession {
    folder: SessionDir,
    /// Keeps the session locked.
    opened: OpenedJournal,
}

impl DeadSessions {
    /// All sessions that no process runs.
    pub(super) fn of(sessions: &SessionsDir) -> Self {
        Self::except(sessions, "")
    }

    /// The session that is being resumed, whose lock the caller has, and all others.
    pub(super) fn before_resuming(sessions: &SessionsDir, state: &SessionState) -> Self {
        Self::except(sessions, &state.name).with_resumed(state, &sessions.folder(&state.name))
    }

    fn except(sessions: &SessionsDir, name: &str) -> Self {
        let all = sessions
            .live()
            .unwrap_or_default()
            .into_iter()
            .filter(|folder| folder.name != name);
        Self {
            resumed: None,
            others: all.filter_map(DeadSession::find).collect(),
        }
    }

    pub(super) fn with_resumed(mut self, state: &SessionState, folder: &SessionDir) -> Self {
        self.resumed = Some(SessionProcesses::left_behind(state, folder));
        self
    }

    pub(super) const fn is_resuming(&self) -> bool {
        self.resumed.is_some()
    }

    /// Ends the remaining processes, and returns a note about each session that had some.
    pub(super) async fn end(self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(children) = self.resumed {
            notes.extend(note(children.end_all().await, "this session"));
        }
        for DeadSession { folder, opened } in self.others {
            let ended = SessionProcesses::left_behind(&opened.state, &folder)
                .end_all()
                .await;
            if let Some(group) =
                ControlGroup::noted(&opened.state.began.id, &folder.control_group_file())
            {
                group.remove(&folder.control_group_file());
            }
            notes.extend(note(ended, &format!("session `{}`", folder.name)));
            folder.mark_stopped();
        }
        notes
    }
}

impl DeadSession {
    fn find(folder: SessionDir) -> Option<Self> {
        // creel removes the file when it shuts down cleanly.
        if !folder.pid_file().exists() || journal::running(&folder).is_some() {
            return None;
        }
        let opened = Journal::open(&folder).ok()?;
        let plan = [plan_document(&opened.state.began.plan)];
        let trusted = target::trust_store().is_ok_and(|store| {
            store.trusts(&trust_prompt::place_of_plans(folder.project()), &plan)
        });
        trusted.then_some(Self { folder, opened })
    }
}

fn note(ended: usize, whose: &str) -> Option<String> {
    match ended {
        0 => None,
        1 => Some(format!("Ended 1 process that {whose} left running")),
        n => Some(format!("Ended {n} processes that {whose} left running")),
    }
}

/// How often to look whether the session has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(super) struct SelfDrivenSession {
    folder: SessionDir,
    thread: JoinHandle<()>,
    begun: SelfDrivenHandle,
}

/// How to control the session once it has started.
struct SelfDrivenHandle {
    tokio: tokio::runtime::Handle,
    way_out: ExitCleanup,
    session: SessionHandle,
}

impl SelfDrivenSession {
    /// Starts the session, and waits until it can be reached.
    pub(super) fn begin(spec: SelfDrivenSpec) -> CliResult<Self> {
        let SelfDrivenSpec { root, plan, .. } = spec;
        let turn = SessionNameLock::wait();
        let folder = first_free(&SessionsDir::of(&root), &dated("mcp"));
        trust_prompt::remember_plan(&root, &plan)?;
        let first = began(&root, plan, String::new(), UserPresence::Unattended);
        let dirs = RuntimeDirs {
            cwd: root,
            rescue: target::state_dir()?.join("rescued"),
            prices: paths::prices_file(),
        };
        let (tell, decided) = mpsc::channel();
        let thread = {
            let folder = folder.clone();
            let make = move |folder: &SessionDir| {
                let runtime = SessionRuntime::begin(first, folder, dirs)?;
                drop(turn);
                Ok(runtime)
            };
            std::thread::Builder::new()
                .name("session".into())
                .spawn(move || live(&folder, make, &tell))
        };
        let thread =
            thread.map_err(|error| CliError::failed(format!("cannot start a session: {error}")))?;
        match decided.recv() {
            Ok(started) => started.map(|begun| Self {
                folder,
                thread,
                begun,
            }),
            Err(_) => Err(CliError::failed(
                "the session crashed before it started. This is a bug in creel",
            )),
        }
    }

    pub(super) const fn folder(&self) -> &SessionDir {
        &self.folder
    }

    pub(super) fn is_running(&self) -> bool {
        journal::running(&self.folder).is_some()
    }

    /// Ends the session after the agent has disconnected: as complete, unless the agent was in the
    /// middle of a loop or a check is red.
    pub(super) fn end(self) {
        let SelfDrivenHandle {
            tokio,
            way_out,
            session,
        } = self.begun;
        let _inside = tokio.enter();
        if let Err(error) = headless::leave_at_a_signal(way_out) {
            tracing::warn!("cannot listen for signals: {error}");
        }
        let state = journal::fold(&self.folder.journal());
        let in_a_loop = state.is_ok_and(|state| {
            !state.commands().is_being_completed()
                && state.stop.loops.iter().any(|known| !known.is_over)
        });
        let last = if in_a_loop {
            SessionCommand::Stop {
                how: StopTiming::Now,
            }
        } else {
            SessionCommand::CompleteSession {
                reason: "the agent has exited".into(),
            }
        };
        // Not through the socket: the folder with its path may be gone as well. If the session
        // refuses, it is already ending, and this only waits.
        if let Err(why) = tokio.block_on(session.command(ActorKind::Mcp, last)) {
            tracing::info!("{}", refusals::text(&why));
        }
        // No one is left to mend a red check or to answer a gate.
        while !self.thread.is_finished() {
            let state = journal::fold(&self.folder.journal());
            if state.is_ok_and(|state| {
                state.completion_refused().is_some() || state.gates.open.is_some()
            }) {
                let _ = tokio.block_on(session.command(
                    ActorKind::Mcp,
                    SessionCommand::Stop {
                        how: StopTiming::Now,
                    },
                ));
                break;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        let _ = self.thread.join();
    }
}

/// Runs the session on its own thread. Sends to `tell` when it has started, or why it has not.
fn live(
    folder: &SessionDir,
    make: impl FnOnce(&SessionDir) -> CliResult<SessionRuntime>,
    tell: &Sender<CliResult<SelfDrivenHandle>>,
) {
    children::adopt_orphans();
    let tokio = match error::start_tokio() {
        Ok(tokio) => tokio,
        Err(failure) => return drop(tell.send(Err(failure))),
    };
    tokio.block_on(async {
        children::keep_reaping();
        let mut runtime = match make(folder) {
            Ok(runtime) => runtime,
            Err(failure) => return drop(tell.send(Err(failure))),
        };
        note_project(folder);
        let endpoints = ControlEndpoints::open(folder, &mut runtime, SessionServers::default());
        let way_out = endpoints.way_out(&runtime);
        let (tokio, session) = (tokio::runtime::Handle::current(), runtime.handle());
        let _ = tell.send(Ok(SelfDrivenHandle {
            tokio,
            way_out,
            session,
        }));
        if let Err(error) = runtime.run().await {
            tracing::error!("the session failed: {error}");
        }
        let _ = tokio::task::spawn_blocking(move || endpoints.close()).await;
    });
    tokio.shutdown_background();
}

/// The exit code of a server that a signal ended.
const INTERRUPTED: u8 = 130;

pub(super) fn serve(request: ToolServerRequest) -> CliResult {
    let ToolServerRequest {
        session: args,
        note,
    } = request;
    let own = Arc::new(Mutex::new(None));
    let find = {
        let own = Arc::clone(&own);
        move || session(&args, &own).map_err(|error| NoSessionError(error.into_message()))
    };
    let served = mcp::serve(Box::new(find), note);
    if let Some(own) = own.lock().unwrap_or_else(PoisonError::into_inner).take() {
        own.end();
    }
    match served {
        Ok(McpServerEnd::Closed) => Ok(0),
        Ok(McpServerEnd::Interrupted) => Ok(INTERRUPTED),
        Err(error) => Err(CliError::failed(format!("the MCP server failed: {error}"))),
    }
}

/// The named or running session. If there is none, a self-driven one.
fn session(args: &SessionArgs, own: &Mutex<Option<SelfDrivenSession>>) -> CliResult<SessionDir> {
    // The first call starts it while the others wait for the lock.
    let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(own) = own.as_ref().filter(|own| own.is_running()) {
        return Ok(own.folder().clone());
    }
    if let Some(folder) = target::running_if_any(args)? {
        return Ok(folder);
    }
    let begun = SelfDrivenSession::begin(SelfDrivenSpec::of(&args.config)?)?;
    let folder = begun.folder().clone();
    *own = Some(begun);
    Ok(folder)
}
