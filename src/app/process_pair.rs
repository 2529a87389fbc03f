//! The leash between the process that the shell knows and the one that has the session and its screen.
//!
//! Nobody can leave a terminal and stay the process that a shell waits for. So creel starts itself again for a session on
//! a screen: the first process holds the second and does nothing else, the second does all there is to do. When a
//! person leaves the session running, the second goes with it and lets the first return to the shell.
//!
//! They are tied by a pair of sockets. The held one gets its end as standard input, and the terminal through it: what is
//! handed over like this is seen by nobody else, neither as a variable nor as an open file.
//!
//! # Invariants
//! - The held process does not outlive its holder, unless it was let go.
//! - To the shell the two are one: the same job, the same signals, the same exit code.

mod child;
mod parent;

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
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
        recvmsg, sendmsg,
    },
};

use super::{detach, say};
pub(super) use crate::app::process_pair::child::ParentProcess;
pub(super) use crate::app::process_pair::parent::hold;
use crate::{
    app::session_host::is_on_screen,
    cli::{Cli, CliCommand, DetachArgs, OutputArgs},
};

/// Whether what was asked for is a session on a screen, and nobody holds this process yet.
pub(super) fn is_wanted(cli: &Cli) -> bool {
    let (output, detach) = match &cli.command {
        None => (OutputArgs::default(), DetachArgs::default()),
        Some(CliCommand::Run(args)) => (args.output, args.detach),
        Some(CliCommand::Resume(args)) => (args.output, args.detach),
        Some(_) => return false,
    };
    !cli.held && is_on_screen(output, detach)
}

/// Sends what is to be the standard input of whoever has the other end: a terminal, mostly.
pub(super) fn send_input(socket: &UnixStream, input: impl AsFd) -> io::Result<()> {
    let terminal = [input.as_fd()];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut enclosed = SendAncillaryBuffer::new(&mut space);
    enclosed.push(SendAncillaryMessage::ScmRights(&terminal));
    sendmsg(socket, &[IoSlice::new(b"t")], &mut enclosed, SendFlags::empty())?;
    Ok(())
}

fn receive_input(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut enclosed = RecvAncillaryBuffer::new(&mut space);
    recvmsg(socket, &mut [IoSliceMut::new(&mut [0])], &mut enclosed, RecvFlags::empty())?;
    let terminal = |message| if let RecvAncillaryMessage::ScmRights(mut files) = message { files.next() } else { None };
    enclosed.drain().find_map(terminal).ok_or_else(|| io::Error::other("nothing to read from was handed over"))
}
