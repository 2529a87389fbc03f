//! The child process, which runs the session and the screen.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::{fd::AsFd as _, unix::net::UnixStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::Duration,
};

use rustix::{
    process::setsid,
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};

use crate::{
    cli::{headless::ExitCleanup, launch::surface},
    process::{file_passing::receive_file, sweep},
    tui::terminal,
};

/// The exit code if the parent was killed. No process is left to read it.
const KILLED: i32 = 137;
/// How long restoring the terminal can take: a terminal emulator may have stopped reading.
const GIVING_BACK: Duration = Duration::from_millis(500);

/// The connection to the parent process. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::app) struct ParentProcess(Arc<ParentLink>);

#[derive(Debug)]
struct ParentLink {
    socket: UnixStream,
    tied: Mutex<ParentExitAction>,
}

/// What to end when the parent exits.
#[derive(Debug)]
enum ParentExitAction {
    Alone,
    /// This process and its session.
    WithSession(ExitCleanup),
    /// Nothing: the child has detached.
    Loose,
}

impl ParentProcess {
    /// Reads the socket that the parent passed as standard input, and replaces it by the terminal.
    pub(in crate::app) fn take() -> io::Result<Self> {
        let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        dup2_stdin(receive_file(&socket)?)?;
        let leash = Self(Arc::new(ParentLink {
            socket,
            tied: Mutex::new(ParentExitAction::Alone),
        }));
        let watched = leash.clone();
        thread::spawn(move || watched.watch());
        Ok(leash)
    }

    /// From now on, a parent that exits also ends the session with its processes.
    pub(in crate::app) fn guard(&self, way_out: ExitCleanup) {
        *self.tied() = ParentExitAction::WithSession(way_out);
    }

    /// Detaches the session from the terminal, and makes the parent return to the shell.
    pub(in crate::app) fn let_go(&self) {
        surface::leave_the_terminal();
        if let Err(error) = fall_silent() {
            tracing::warn!("this session cannot close the files of its terminal: {error}");
        }
        *self.tied() = ParentExitAction::Loose;
        // This fails if the parent was just killed, which does not matter.
        let _ = (&self.0.socket).write_all(b"l");
    }

    /// Waits for the end of the parent. The parent never writes, so the read returns only then.
    fn watch(&self) {
        let _ = (&self.0.socket).read(&mut [0]);
        let tied = self.tied();
        match &*tied {
            ParentExitAction::Loose => {}
            ParentExitAction::Alone => give_back_and_exit(None),
            ParentExitAction::WithSession(way_out) => give_back_and_exit(Some(way_out)),
        }
    }

    fn tied(&self) -> MutexGuard<'_, ParentExitAction> {
        self.0.tied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Redirects the standard streams to `/dev/null`, and errors to the log that `--detach` uses.
fn fall_silent() -> io::Result<()> {
    let nowhere = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    let log: Option<File> = surface::detached_log().ok();
    dup2_stdin(&nowhere)?;
    dup2_stdout(&nowhere)?;
    dup2_stderr(log.as_ref().unwrap_or(&nowhere))?;
    Ok(())
}

/// Ends everything after the parent was killed. Not by a signal from the kernel, since that could
/// not clean up.
fn give_back_and_exit(way_out: Option<&ExitCleanup>) -> ! {
    // A process without a controlling terminal is not stopped when it writes to a terminal from the
    // background.
    sweep::remember_session();
    let _ = setsid();
    let taken = terminal::is_taken();
    let (given, back) = mpsc::channel();
    thread::spawn(move || {
        if taken {
            terminal::switch_off();
        }
        let _ = given.send(());
    });
    if let Some(way_out) = way_out {
        way_out.clear();
    }
    // A session that was about to start may already have processes.
    sweep::kill_all_below();
    let given = back.recv_timeout(GIVING_BACK);
    // By now the shell may have the terminal again, with its own settings.
    if taken && given.is_ok() && terminal::is_raw() {
        terminal::give_back();
    }
    std::process::exit(KILLED);
}
