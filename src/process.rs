//! Child processes and the directory they run in.
//!
//! Owns how creel starts a program in its own process group, captures its output, and ends it with
//! everything that it started. Knows nothing about sessions: hooks, agents and built-ins all run
//! their programs here.
//!
//! - [`run`] runs one command line to its end; [`piped_process`] runs a long-lived program.
//! - [`output`] captures what a program prints; [`reply_scan`] searches it for a JSON reply.
//! - [`sweep`], [`children`] and [`process_table`] find and end processes;
//!   [`signals`] handles the signals that end creel itself.
//! - [`project_dir`] opens files in the project; [`path_guard`] checks those that an agent must not
//!   change.
//! - [`send_file`] hands an open file to another process; [`environment`] prepares variables for
//!   programs.
//! - [`programs`] finds the programs that a command needs and that are missing.
//! - [`pty`] and [`editor`] are for programs that need a terminal.

pub mod children;
pub mod editor;
pub mod environment;
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
pub mod signals;
pub mod sweep;

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::{
    cmsg_space,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};

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
