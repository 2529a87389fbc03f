//! Child processes and the directory they run in.
//!
//! Owns how creel starts a program in its own process group, captures its output, and ends it with
//! everything that it started. Knows nothing about sessions: hooks, agents and built-ins all run
//! their programs here.
//!
//! - [`run`] runs one command line to its end; [`piped_process`] runs a long-lived program.
//! - [`output`] captures what a program prints; [`reply_scan`] searches it for a JSON reply.
//! - [`sweep`], [`children`] and [`process_table`] find and end processes; [`signals`] handles the
//!   signals that end creel itself.
//! - [`project_dir`] opens files in the project; [`path_guard`] checks those that an agent must not
//!   change.
//! - [`send_file`] hands an open file to another process; [`for_variable`] prepares a text for a
//!   variable of a program.
//! - [`programs`] finds the programs that a command needs and that are missing.
//! - [`trace_context`] is the trace of the session, for the variables of its processes.
//! - [`pty`] and [`editor`] are for programs that need a terminal; [`browser`] opens a page;
//!   [`windows_notice`] notifies a user of WSL.
//!
//! # Invariants
//! - No agent and no hook has creel's terminal as its controlling terminal. Otherwise it could type
//!   keys there as if it were the user, or wait there for a password.

pub mod browser;
pub mod children;
pub mod editor;
pub mod output;
pub mod path_guard;
pub mod piped_process;
pub mod playback_pace;
pub mod process_table;
pub mod programs;
pub mod project_dir;
pub mod pty;
pub mod reply_scan;
pub mod run;
pub mod secrets;
pub mod signals;
pub mod sweep;
pub mod trace_context;
pub mod windows_notice;

use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    sync::OnceLock,
};

use process_wrap::std::{CommandWrap, CommandWrapper as _, ProcessSession};
use rustix::{
    cmsg_space,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};
use tokio::process::Command;

/// Sends an open file through a socket: no other process sees it, neither in a variable nor in a
/// folder.
pub fn send_file(socket: &UnixStream, file: impl AsFd) -> io::Result<()> {
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut enclosed = SendAncillaryBuffer::new(&mut space);
    enclosed.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(
        socket,
        &[IoSlice::new(b"t")],
        &mut enclosed,
        SendFlags::empty(),
    )?;
    Ok(())
}

/// Receives a file that [`send_file`] has sent.
pub fn receive_file(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut enclosed = RecvAncillaryBuffer::new(&mut space);
    recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut [0])],
        &mut enclosed,
        RecvFlags::empty(),
    )?;
    let file = |message| {
        if let RecvAncillaryMessage::ScmRights(mut files) = message {
            files.next()
        } else {
            None
        }
    };
    enclosed
        .drain()
        .find_map(file)
        .ok_or_else(|| io::Error::other("no file was passed to read from"))
}

/// The longest value in bytes. Linux allows 128 KiB per variable including its name; this leaves
/// room where the total is limited too.
pub const VARIABLE_MAX: usize = 96 * 1024;
/// How many folders a session's folder is below its project.
const DEPTH: usize = 3;

/// The variable with the session's project, so that `creel` finds the session from any folder. None
/// if the path is not UTF-8.
pub fn project_variable(session_dir: &Path) -> Option<(String, String)> {
    let root = session_dir.ancestors().nth(DEPTH)?.to_str()?;
    Some(("CREEL_PROJECT".to_owned(), root.to_owned()))
}

/// Makes a text fit a variable: removes NUL bytes, and cuts a long text and ends it with `…`.
pub fn for_variable(text: &str) -> String {
    let mut value = text.replace('\0', "");
    if value.len() > VARIABLE_MAX {
        value.truncate(value.floor_char_boundary(VARIABLE_MAX));
        value.push('…');
    }
    value
}

/// Gives the process its own group and, if creel has a terminal, its own session, which has none.
fn own_group(command: &mut Command) {
    // Starting a process in its own session takes a little longer.
    if has_terminal() {
        let nothing = CommandWrap::with_new("", |_| {});
        if ProcessSession
            .pre_spawn(command.as_std_mut(), &nothing)
            .is_ok()
        {
            return;
        }
    }
    command.process_group(0);
}

fn has_terminal() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| File::open("/dev/tty").is_ok())
}
