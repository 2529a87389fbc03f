//! The streams of one command, whether they are pipes or a terminal.
//!
//! Owns how much is read and written at once. Does not decide when: see [`super`].
//!
//! # Invariants
//! - A stream that fails is a stream that has ended. (A terminal that nobody holds open any more fails.)

use std::{
    io::{self, Write},
    os::fd::AsFd,
    process::Stdio,
};

use pty_process::OwnedReadPty;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    process::{ChildStderr, ChildStdout},
};

use super::{OutputStream, ProcessObserver};

/// How much is read at once from a command that prints little, which most do.
const BUFFER: usize = 8 * 1024;
/// How much is read at once from a command that filled the small buffer. Whoever watches may keep some hundreds of such
/// pieces for a screen that is slow.
pub(super) const LARGE_BUFFER: usize = 64 * 1024;
/// What we then ask the kernel to hold for us; it may refuse.
const PIPE: usize = 512 * 1024;
/// Input that every empty pipe takes at once.
const SHORT_INPUT: usize = 4 * 1024;

/// What is written to a command.
pub(super) struct ProcessInput {
    pipe: Box<dyn AsyncWrite + Send + Unpin>,
    bytes: Vec<u8>,
    written: usize,
}

/// What a command prints on one stream.
pub(super) struct ProcessOutput {
    pipe: Option<Box<dyn OutputSource>>,
    buffer: Vec<u8>,
}

impl ProcessInput {
    pub(super) fn new(pipe: impl AsyncWrite + Send + Unpin + 'static, bytes: Vec<u8>) -> Self {
        Self { pipe: Box::new(pipe), bytes, written: 0 }
    }
}

/// Where output comes from.
pub(super) trait OutputSource: AsyncRead + Send + Unpin {
    /// Fewer and larger reads, where that is possible.
    fn enlarge(&self);
}

impl OutputSource for ChildStdout {
    fn enlarge(&self) {
        enlarge(self);
    }
}

impl OutputSource for ChildStderr {
    fn enlarge(&self) {
        enlarge(self);
    }
}

impl OutputSource for OwnedReadPty {
    /// A terminal is as large as it is.
    fn enlarge(&self) {}
}

impl ProcessOutput {
    pub(super) fn new(source: impl OutputSource + 'static) -> Self {
        Self { pipe: Some(Box::new(source)), buffer: vec![0; BUFFER] }
    }

    /// A stream that there is not.
    pub(super) fn closed() -> Self {
        Self { pipe: None, buffer: Vec::new() }
    }

    pub(super) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// How many bytes came; zero at the end. Never ready once it is closed.
    pub(super) async fn read(&mut self) -> usize {
        match &mut self.pipe {
            Some(pipe) => pipe.read(&mut self.buffer).await.unwrap_or(0),
            None => std::future::pending().await,
        }
    }

    pub(super) fn pass_on(&mut self, stream: OutputStream, n: usize, watch: &mut dyn ProcessObserver) {
        if n == 0 {
            self.pipe = None;
            return;
        }
        watch.output(stream, &self.buffer[..n]);
        if n == BUFFER && self.buffer.len() == BUFFER {
            self.buffer = vec![0; LARGE_BUFFER];
            self.pipe.as_ref().inspect(|pipe| pipe.enlarge());
        }
    }

    /// Reads on and drops it all, for the sake of those who still print.
    pub(super) fn discard(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            tokio::spawn(async move {
                let mut buffer = vec![0; 16 * 1024];
                while pipe.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
            });
        }
    }
}

/// Short input is put into the pipe before the command starts, which saves waiting for it.
pub(super) fn input_for(bytes: &[u8]) -> Stdio {
    if bytes.is_empty() {
        return Stdio::null();
    }
    if bytes.len() <= SHORT_INPUT
        && let Ok((reader, mut writer)) = io::pipe()
        && writer.write_all(bytes).is_ok()
    {
        return reader.into();
    }
    Stdio::piped()
}

/// Writes a piece. Never ready once all is written.
pub(super) async fn write(input: &mut Option<ProcessInput>) {
    let Some(open) = input else { return std::future::pending().await };
    match open.pipe.write(&open.bytes[open.written..]).await {
        Ok(n) if n > 0 => open.written += n,
        // A command need not read its input: EPIPE is no error.
        Ok(_) | Err(_) => open.written = open.bytes.len(),
    }
    if open.written == open.bytes.len() {
        *input = None;
    }
}

/// A refusal only costs speed.
fn enlarge(pipe: &impl AsFd) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = (pipe, PIPE);
}
