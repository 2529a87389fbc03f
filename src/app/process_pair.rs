//! Parent and child process of a session on a screen.
//!
//! A process cannot detach from its terminal while the shell waits for it. So creel starts itself again for a session
//! on a screen: the parent only waits, the child runs the session and its screen. When the user leaves the session
//! running, the child detaches with it, and the parent returns to the shell.
//!
//! A socket pair connects them. The child gets its end as standard input, and the terminal through it. No other process
//! sees what is passed this way, neither as a variable nor as an open file.
//!
//! # Invariants
//! - The child does not outlive its parent, unless it has detached.
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

/// Whether the command is a session on a screen, and this process is not yet the child.
pub(super) fn is_wanted(cli: &Cli) -> bool {
    let (output, detach) = match &cli.command {
        None => (OutputArgs::default(), DetachArgs::default()),
        Some(CliCommand::Run(args)) => (args.output, args.detach),
        Some(CliCommand::Resume(args)) => (args.output, args.detach),
        Some(_) => return false,
    };
    !cli.held && is_on_screen(output, detach)
}

/// Sends the file, usually a terminal, that becomes the standard input of the child.
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
