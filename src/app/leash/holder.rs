//! The holding end: the process that the shell knows, and that only waits.

use std::{
    env, io,
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::ExitStatusExt as _},
    },
    process::{ExitStatus, Stdio},
};

use rustix::{
    process::{Pid, Signal, kill_process},
    termios::{OptionalActions, Termios, tcgetattr, tcsetattr},
};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
};

use super::{say, send_input};
use crate::{control::headless::Signals, tui::terminal};

/// What is added to the number of a signal that ended a process, as shells do.
const BY_SIGNAL: i32 = 128;

/// How it came to an end.
enum Parting {
    /// The held process has ended.
    Ended(ExitStatus),
    /// It has left with the session.
    Left,
}

/// Runs this same command in a process of its own and stays until it ends or leaves; gives the exit code. An error means
/// that nothing was started.
pub(in crate::app) fn hold() -> io::Result<u8> {
    let before = tcgetattr(io::stdin())?;
    let (socket, theirs) = UnixStream::pair()?;
    send_input(&socket, io::stdin())?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let parting = tokio.block_on(async {
        socket.set_nonblocking(true)?;
        let socket = tokio::net::UnixStream::from_std(socket)?;
        let signals = (Signals::listen()?, signal(SignalKind::quit())?);
        Ok::<_, io::Error>(until_parted(start(theirs)?, socket, signals).await)
    })?;
    Ok(match parting {
        Parting::Left => 0,
        Parting::Ended(status) => {
            if let Some(signal) = status.signal() {
                put_right(&before, signal);
            }
            exit_code(status)
        }
    })
}

fn start(theirs: UnixStream) -> io::Result<Child> {
    Command::new(env::current_exe()?)
        .arg("--held")
        .args(env::args_os().skip(1))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
}

async fn until_parted(
    mut held: Child,
    mut socket: tokio::net::UnixStream,
    (mut signals, mut quit): (Signals, tokio::signal::unix::Signal),
) -> Parting {
    loop {
        let signal = tokio::select! {
            biased;
            // It can be asked again and again; if it fails there is no process to wait for.
            status = held.wait() => return Parting::Ended(status.unwrap_or_else(|_| ExitStatus::from_raw(1 << 8))),
            () = let_go(&mut socket) => return Parting::Left,
            signal = signals.next() => signal,
            _ = quit.recv() => Signal::QUIT,
        };
        pass_on(&held, signal);
    }
}

/// Waits for the word. Without it the held process ends, and is waited for elsewhere.
async fn let_go(socket: &mut tokio::net::UnixStream) {
    if !matches!(socket.read(&mut [0]).await, Ok(1)) {
        std::future::pending::<()>().await;
    }
}

/// What comes from the terminal has reached the held process as well, which takes the same signal twice for one.
fn pass_on(held: &Child, signal: Signal) {
    let pid = held.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended just now.
        let _ = kill_process(pid, signal);
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| BY_SIGNAL + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// A process that was killed leaves the terminal as it had it; only while its screen was open do the settings differ.
fn put_right(before: &Termios, signal: i32) {
    let changed = tcgetattr(io::stdin()).is_ok_and(|now| format!("{now:?}") != format!("{before:?}"));
    if changed {
        terminal::switch_off();
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, before);
        say(&format!("creel: the session was killed by signal {signal}; `creel resume` goes on with it"));
    }
}
