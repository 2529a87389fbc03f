//! Passes an open file to another process through a socket. No other process sees the file, neither
//! in a variable nor in a folder.

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

/// Sends an open file.
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
