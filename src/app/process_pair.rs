//! Parent and child process of a session on a screen.
//!
//! A process cannot detach from its terminal while the shell waits for it. So creel starts itself
//! again for a session on a screen: the parent only waits, the child runs the session and its
//! screen. When the user leaves the session running, the child detaches with it, and the parent
//! returns to the shell.
//!
//! A socket pair connects them. The child gets its end as standard input, and the terminal through
//! it. No other process sees what is passed this way, neither as a variable nor as an open file.
//!
//! # Invariants
//! - The child does not outlive its parent, unless it has detached.
//! - To the shell the two are one: the same job, the same signals, the same exit code.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{File, OpenOptions},
    io::{self, IsTerminal as _, Read as _, Write as _, stdin, stdout},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{net::UnixStream, process::ExitStatusExt as _},
    },
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::Duration,
};

use rustix::{
    process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, setsid, waitid},
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
    termios::{OptionalActions, Termios, tcgetattr, tcsetattr},
};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
};

use crate::{
    cli::{error::say, headless::ExitCleanup, launch::surface},
    process::{
        children,
        process_table::ProcessTable,
        receive_file,
        run::GRACE,
        send_file,
        signals::{ShutdownSignals, SuspendSignal},
        sweep,
    },
    tui::terminal,
};

/// The verbs that open a screen on a session of this process.
const ON_SCREEN: [&str; 2] = ["run", "resume"];
/// Options with which they do not, or with which this process is the child already.
const ELSEWHERE: [&str; 5] = ["--headless", "--json", "--detach", "--background", "--held"];

/// Whether to start a child. Looks at the words only: the parent stays as small as possible, so it
/// does not parse the command line. If the command is wrong or opens no screen after all, the child
/// does what this process would have done.
pub(super) fn is_wanted(args: impl Iterator<Item = OsString>) -> bool {
    stdin().is_terminal() && stdout().is_terminal() && wants_screen(args)
}

fn wants_screen(args: impl Iterator<Item = OsString>) -> bool {
    let mut words = args.take_while(|word| word != "--").peekable();
    let is_one_of = |word: &OsStr, list: &[&str]| list.iter().any(|one| word == *one);
    words.peek().is_some_and(|verb| is_one_of(verb, &ON_SCREEN))
        && !words.any(|word| is_one_of(&word, &ELSEWHERE))
}

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
        let parent = Self(Arc::new(ParentLink {
            socket,
            tied: Mutex::new(ParentExitAction::Alone),
        }));
        let watched = parent.clone();
        thread::spawn(move || watched.watch());
        Ok(parent)
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

/// Shells add this to the number of the signal that ended a process.
const BY_SIGNAL: i32 = 128;

enum ChildProcessEnd {
    Ended(ExitStatus),
    /// The child has detached with the session.
    Left,
}

/// Runs this same command in a child process until that ends or detaches, and returns the exit
/// code. An error means that nothing was started.
pub(in crate::app) fn hold() -> io::Result<u8> {
    let before = tcgetattr(io::stdin())?;
    let (socket, theirs) = UnixStream::pair()?;
    send_file(&socket, io::stdin())?;
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    tokio.block_on(async {
        socket.set_nonblocking(true)?;
        let socket = tokio::net::UnixStream::from_std(socket)?;
        let signals = ForwardedSignals::listen()?;
        children::adopt_orphans();
        Ok(match until_parted(start(theirs)?, socket, signals).await {
            ChildProcessEnd::Left => 0,
            ChildProcessEnd::Ended(status) => {
                clear_up(status, &before).await;
                exit_code(status)
            }
        })
    })
}

/// Cleans up after a child that was killed: the processes that it started now belong to this one.
/// Otherwise the child has ended them itself.
async fn clear_up(status: ExitStatus, before: &Termios) {
    let Some(signal) = status.signal() else {
        return;
    };
    let had_screen = put_right(before);
    let ended = sweep::end_orphans(GRACE).await;
    if had_screen || ended > 0 {
        let ended = match ended {
            0 => String::new(),
            1 => "; creel ended 1 process that it left running".to_owned(),
            n => format!("; creel ended {n} processes that it left running"),
        };
        say(&format!(
            "creel: the session was killed by signal {signal}{ended}\n  continue it with `creel resume`"
        ));
    }
}

fn start(theirs: UnixStream) -> io::Result<Child> {
    // Not in the list of children: it ends before anything is swept.
    Command::new(env::current_exe()?)
        .arg("--held")
        .args(env::args_os().skip(1))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
}

async fn until_parted(
    mut held: Child,
    mut socket: tokio::net::UnixStream,
    mut signals: ForwardedSignals,
) -> ChildProcessEnd {
    loop {
        tokio::select! {
            biased;
            // `wait` can be called again after it was cancelled. If it fails, there is no process
            // to wait for.
            status = held.wait() => return ChildProcessEnd::Ended(status.unwrap_or_else(|_| ExitStatus::from_raw(1 << 8))),
            () = let_go(&mut socket) => return ChildProcessEnd::Left,
            signal = signals.end.next() => pass_on(&held, signal),
            // Before the check of the child: once that runs again, this process must not follow an
            // old stop.
            _ = signals.resume.recv() => {
                // A stop signal that belongs to the stop that has just ended does not count again.
                signals.stop.forget();
                pass_on(&held, Signal::CONT);
            }
            _ = signals.child.recv() => follow_into_stop(&held),
            () = signals.stop.next() => pass_on(&held, Signal::TSTP),
        }
    }
}

struct ForwardedSignals {
    end: ShutdownSignals,
    stop: SuspendSignal,
    resume: tokio::signal::unix::Signal,
    child: tokio::signal::unix::Signal,
}

impl ForwardedSignals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            end: ShutdownSignals::listen_to_pass_on()?,
            stop: SuspendSignal::listen()?,
            resume: signal(SignalKind::from_raw(Signal::CONT.as_raw()))?,
            child: signal(SignalKind::child())?,
        })
    }
}

/// Stops this process when the child has restored the terminal and stopped, since the two are one
/// job to the shell. TSTP from the shell or the terminal goes to the child first, and never stops
/// this process alone.
fn follow_into_stop(held: &Child) {
    let Some(pid) = pid_of(held) else { return };
    let stopped = waitid(
        WaitId::Pid(pid),
        WaitIdOptions::STOPPED | WaitIdOptions::NOHANG,
    );
    if matches!(stopped, Ok(Some(_))) && ProcessTable::of_system().is_under_a_shell() {
        let _ = kill_process(getpid(), Signal::STOP);
        // This line runs when the shell has resumed this process.
        pass_on(held, Signal::CONT);
    }
}

/// Waits until the child reports that it has detached. Never returns if the child ends instead.
async fn let_go(socket: &mut tokio::net::UnixStream) {
    if !matches!(socket.read(&mut [0]).await, Ok(1)) {
        std::future::pending::<()>().await;
    }
}

/// Forwards a signal. The child also gets signals of the terminal directly, and treats the same
/// signal twice as one.
fn pass_on(held: &Child, signal: Signal) {
    if let Some(pid) = pid_of(held) {
        // The child may have just ended.
        let _ = kill_process(pid, signal);
    }
}

fn pid_of(held: &Child) -> Option<Pid> {
    held.id()
        .and_then(|pid| i32::try_from(pid).ok())
        .and_then(Pid::from_raw)
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| BY_SIGNAL + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Restores the terminal after the child was killed. Its settings differ only if the screen was
/// open; returns whether they did.
fn put_right(before: &Termios) -> bool {
    let changed =
        tcgetattr(io::stdin()).is_ok_and(|now| !terminal::have_same_settings(&now, before));
    if changed {
        terminal::switch_off();
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, before);
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_session_on_a_screen_has_a_parent_and_a_child() {
        let has_screen = |line: &str| wants_screen(line.split_whitespace().map(OsString::from));
        for line in [
            "run",
            "run -n 3 prompt",
            "resume",
            "resume name --max-iterations 3",
            "run -- --headless",
        ] {
            assert!(has_screen(line), "{line}");
        }
        let elsewhere = [
            "",
            "run --headless",
            "run x --json",
            "run --detach",
            "--held run",
            "attach",
            "demo",
            "--help",
        ];
        for line in elsewhere {
            assert!(!has_screen(line), "{line}");
        }
    }
}
