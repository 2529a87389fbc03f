//! The held end: the process with the session and the screen.

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

use super::{detach, receive_input};
use crate::{cli::headless::ExitCleanup, process::sweep, tui::terminal};

/// The exit code of one whose holder was killed, which nobody is there to see.
const KILLED: i32 = 137;
/// How long a terminal may take to be given back: its other end may have stopped reading.
const GIVING_BACK: Duration = Duration::from_millis(500);

/// What ties this process to its holder. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::app) struct ParentProcess(Arc<ParentLink>);

#[derive(Debug)]
struct ParentLink {
    socket: UnixStream,
    tied: Mutex<ParentExitAction>,
}

/// What has to end when the holder does.
#[derive(Debug)]
enum ParentExitAction {
    /// This process.
    Alone,
    /// And the session in it.
    WithSession(ExitCleanup),
    /// Nothing any more.
    Loose,
}

impl ParentProcess {
    /// Takes the end that the holder has handed over as standard input, and the terminal in its place.
    pub(in crate::app) fn take() -> io::Result<Self> {
        let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        dup2_stdin(receive_input(&socket)?)?;
        let leash = Self(Arc::new(ParentLink { socket, tied: Mutex::new(ParentExitAction::Alone) }));
        let watched = leash.clone();
        thread::spawn(move || watched.watch());
        Ok(leash)
    }

    /// From now on there is a session, with processes that must not stay behind.
    pub(in crate::app) fn guard(&self, way_out: ExitCleanup) {
        *self.tied() = ParentExitAction::WithSession(way_out);
    }

    /// Leaves the terminal with the session, and lets the holder return to the shell.
    pub(in crate::app) fn let_go(&self) {
        detach::leave_the_terminal();
        if let Err(error) = fall_silent() {
            tracing::warn!("this session keeps files of its terminal open: {error}");
        }
        *self.tied() = ParentExitAction::Loose;
        // A holder that was killed a moment ago need not be told.
        let _ = (&self.0.socket).write_all(b"l");
    }

    /// The holder never says a word: the read is over when the holder is.
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

/// Standard streams that lead nowhere, except for what has to be said: that is kept where `--detach` keeps it.
fn fall_silent() -> io::Result<()> {
    let nowhere = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let log: Option<File> = detach::log().ok();
    dup2_stdin(&nowhere)?;
    dup2_stdout(&nowhere)?;
    dup2_stderr(log.as_ref().unwrap_or(&nowhere))?;
    Ok(())
}

/// The holder was killed, and so is all that it held. Here, and not by a signal from the kernel, which could not clean up.
fn give_back_and_exit(way_out: Option<&ExitCleanup>) -> ! {
    // Whoever has no terminal session is not stopped for touching a terminal from the background.
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
    // A session that was about to begin may have started something already.
    sweep::kill_all_below();
    let given = back.recv_timeout(GIVING_BACK);
    // By now a shell that cares has the terminal again, and has set it as it likes.
    if taken && given.is_ok() && terminal::is_raw() {
        terminal::give_back();
    }
    std::process::exit(KILLED);
}
