//! Serves the tools of `creel mcp`, and runs a self-driven session for an agent that has no other.
//!
//! # Invariants
//! - It runs nothing from a config that the user has not trusted.
//! - It ends before the server does, unless the server is killed; then `creel resume` continues it.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Sender},
    },
    thread::JoinHandle,
    time::Duration,
};

use crate::{
    app::{
        session_host::{ControlEndpoints, note_project},
        start_session,
    },
    cli::{
        arguments::SessionArgs,
        error::{self, CliError, CliResult},
        headless::{self, ExitCleanup},
        launch::{
            shared_folder::{SessionNameLock, dated, first_free},
            trust_prompt,
        },
        mcp::SelfDrivenSpec,
        target::{self, local_sessions},
        verb_outcome::ToolServerRequest,
    },
    engine::{
        event::{ActorKind, StopTiming, UserPresence},
        input::SessionCommand,
    },
    journal::{self, SessionDir, SessionsDir},
    mcp::{self, McpServerEnd, NoSessionError},
    present::refusals,
    process::children,
    runtime::{RuntimeDirs, SessionHandle, SessionRuntime},
};

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
        let first = start_session::began(&root, plan, String::new(), UserPresence::Unattended);
        let dirs = RuntimeDirs {
            cwd: root,
            rescue: target::state_dir()?.join("rescued"),
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
        let endpoints = ControlEndpoints::open(folder, &mut runtime, None);
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
    if let Some(folder) = local_sessions::running_if_any(args)? {
        return Ok(folder);
    }
    let begun = SelfDrivenSession::begin(SelfDrivenSpec::of(&args.config)?)?;
    let folder = begun.folder().clone();
    *own = Some(begun);
    Ok(folder)
}
