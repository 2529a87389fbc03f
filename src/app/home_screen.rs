//! The home screen, and what its user opens from it.
//!
//! creel attaches and replays in this process. A session that the user starts or resumes runs in a
//! child process of its own, as `creel run` does: it needs a parent of its own that ends everything
//! if it is killed, and it must be able to leave the terminal while the home screen stays.

use std::{
    io::{self, BufRead as _, Write as _},
    path::Path,
    process::Command,
};

use crate::{
    app::screens,
    cli::{
        arguments::{ConfigArgs, NatsArgs},
        error::{self, CliError, CliResult, say},
        target::{
            self,
            remote_sessions::{NatsServerConnection, RecordedSession},
        },
        verb_outcome::{AttachedScreen, HomeRequestArgs, LocalScreen, RemoteScreen, ReplayScreen},
    },
    config::{UiSettings, paths},
    farm::worker::ScreenedWorker,
    runtime::clock::session_time,
    sessions::{
        SessionKey,
        session_client::RemoteUpdates,
        session_store::{ProjectList, ProjectScope},
    },
    tui::{
        ScreenExit,
        home::{
            self, HomeExit, HomeOptions, HomeSource, HomeWorker, SessionStart, model::HomeMemory,
        },
        model::Toast,
        request::CloseBehavior,
        theme::ThemeRole,
    },
};

/// The exit code of a command that could not do what it was asked for, and has said why.
const USAGE: i32 = 2;

pub(super) fn show(args: HomeRequestArgs) -> CliResult {
    let HomeRequestArgs {
        nats,
        root,
        has_config,
        ui,
        worker,
    } = args;
    let (worker, facts) = worker.unzip();
    let server = match worker {
        Some(_) => None,
        None => NatsServerConnection::named(&nats, &ConfigArgs::default())?,
    };
    let (tokio, source) = if let Some(NatsServerConnection {
        tokio,
        nats,
        client,
        ..
    }) = server
    {
        (
            tokio,
            HomeSource::Fleet {
                client,
                nats: Box::new(nats),
            },
        )
    } else {
        // A worker has its sessions in one project.
        let list = if worker.is_some() {
            None
        } else {
            Some(ProjectList::of(&target::state_dir()?))
        };
        (
            error::start_tokio()?,
            HomeSource::Machine(ProjectScope {
                projects: vec![root.clone()],
                list,
            }),
        )
    };
    let screen = screens::screen_options(ui);
    let mut options = HomeOptions {
        screen,
        source,
        root,
        has_config,
        worker: worker
            .as_ref()
            .zip(facts)
            .map(|(worker, facts)| HomeWorker {
                end: worker.end(),
                orders: worker.orders(),
                started: session_time(),
                jobs: facts.jobs,
                agents: facts.agents,
                merges: facts.merges,
                drains: facts.drains,
            }),
    };
    let mut memory = HomeMemory::default();
    loop {
        let left = tokio.block_on(home::run(&options, &mut memory));
        let left = left.map_err(|error| CliError::failed(format!("the screen failed: {error}")))?;
        if matches!(
            left,
            HomeExit::Quit | HomeExit::WorkerEnded | HomeExit::Gone
        ) {
            // A task that still reads must not delay the exit.
            tokio.shutdown_background();
            if let Some(words) = &memory.farewell {
                say(&format!("creel: {words}"));
            }
            return Ok(worker.map_or(0, |mut worker| farewell(&mut worker)));
        }
        match visit(left, &options, &nats, ui) {
            Ok(ScreenExit::Gone) => return Ok(worker.map_or(0, |mut worker| farewell(&mut worker))),
            Ok(ScreenExit::Done | ScreenExit::LeavesItRunning | ScreenExit::AtOnce) => {}
            Err(failure) => {
                memory.toast = Some(Toast {
                    role: ThemeRole::Bad,
                    text: failure.to_string(),
                });
            }
        }
        options.has_config = paths::find(&options.root).is_some();
    }
}

/// Says what the worker said last. Returns its exit code.
fn farewell(worker: &mut ScreenedWorker) -> u8 {
    if !worker.has_ended() {
        say("creel: stopping the worker");
    }
    let code = worker.stop();
    say(&worker.last_lines());
    code
}

/// Does what the user chose, until the home screen shows again.
fn visit(
    chosen: HomeExit,
    options: &HomeOptions,
    nats: &NatsArgs,
    ui: UiSettings,
) -> CliResult<ScreenExit> {
    match chosen {
        HomeExit::Quit | HomeExit::WorkerEnded | HomeExit::Gone => Ok(ScreenExit::Done),
        HomeExit::Attach(key) => attach(&key, nats, ui),
        HomeExit::Replay(key) => replay(&key, nats, ui),
        HomeExit::Resume(key) => match key.folder() {
            Some(folder) => run_creel(folder.project(), &["resume".into(), folder.name.clone()]),
            None => Ok(ScreenExit::Done),
        },
        HomeExit::Start(SessionStart {
            root,
            prompt,
            agent,
        }) => {
            let mut words = vec!["run".to_owned()];
            words.extend(
                agent
                    .into_iter()
                    .flat_map(|agent| ["--agent".to_owned(), agent]),
            );
            if !prompt.is_empty() {
                // The prompt can begin with a hyphen.
                words.extend(["--".to_owned(), prompt]);
            }
            run_creel(&root, &words)
        }
        HomeExit::Demo => run_creel(&options.root, &["demo".into()]),
        HomeExit::Init => {
            run_creel(&options.root, &["init".into()])?;
            wait_for_enter();
            Ok(ScreenExit::Done)
        }
    }
}

fn attach(key: &SessionKey, nats: &NatsArgs, ui: UiSettings) -> CliResult<ScreenExit> {
    let screen = match key {
        SessionKey::There { id, .. } => {
            let Some(server) = NatsServerConnection::named(nats, &ConfigArgs::default())? else {
                return Ok(ScreenExit::Done);
            };
            let copy = server.mirror(Some(id))?;
            AttachedScreen::Remote(Box::new(RemoteScreen { copy, server, ui }))
        }
        SessionKey::Here(_) | SessionKey::Task(_) => {
            let Some(folder) = key.folder() else {
                return Ok(ScreenExit::Done);
            };
            let updates = RemoteUpdates::follow(&folder)?;
            AttachedScreen::Local(Box::new(LocalScreen {
                folder,
                updates,
                ui,
            }))
        }
    };
    screens::attach(screen, CloseBehavior::Home)
}

fn replay(key: &SessionKey, nats: &NatsArgs, ui: UiSettings) -> CliResult<ScreenExit> {
    let session = match key {
        SessionKey::There { id, .. } => {
            RecordedSession::find(Some(id), &ConfigArgs::default(), nats)?
        }
        SessionKey::Here(_) | SessionKey::Task(_) => match key.folder() {
            Some(folder) => RecordedSession::at(folder),
            None => return Ok(ScreenExit::Done),
        },
    };
    // Before the screen opens, so that a damaged journal is a message and not an empty replay.
    crate::journal::fold_checked(&session.folder().journal())?;
    screens::replay(&ReplayScreen { session, ui })
}

/// Runs creel with the terminal until it ends or leaves its session running.
fn run_creel(folder: &Path, words: &[String]) -> CliResult<ScreenExit> {
    let failed =
        |error: io::Error| CliError::failed(format!("cannot run `creel {}`: {error}", words[0]));
    let program = std::env::current_exe().map_err(failed)?;
    let status = Command::new(program)
        .args(words)
        .current_dir(folder)
        .status()
        .map_err(failed)?;
    // It has said why on the terminal, which the home screen would hide.
    if status.code().is_none_or(|code| code == USAGE) {
        wait_for_enter();
    }
    Ok(ScreenExit::Done)
}

fn wait_for_enter() {
    say("\nPress enter to return to creel.");
    let _ = io::stderr().flush();
    let _ = io::stdin().lock().read_line(&mut String::new());
}
