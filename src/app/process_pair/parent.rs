//! The parent process, which the shell waits for and which itself only waits.

use std::{
    env, io,
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::ExitStatusExt as _},
    },
    process::{ExitStatus, Stdio},
};

use rustix::{
    process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, waitid},
    termios::{OptionalActions, Termios, tcgetattr, tcsetattr},
};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
};

use crate::{
    cli::output::say,
    process::{
        children,
        file_passing::send_file,
        process_table::ProcessTable,
        run::GRACE,
        signals::{ShutdownSignals, SuspendSignal},
        sweep,
    },
    tui::terminal,
};

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
