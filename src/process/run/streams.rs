//! The streams of one command: pipes or a terminal.
//!
//! Owns how much is read and written at once. Does not decide when: see [`super`].
//!
//! # Invariants
//! - A stream that fails counts as ended. (Reading from a terminal fails once no process has it
//!   open.)

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

/// Bytes per read from a command that prints little, as most do.
const BUFFER: usize = 8 * 1024;
/// Bytes per read from a command that filled the small buffer. An observer can store hundreds of
/// such chunks for a slow screen.
pub(super) const LARGE_BUFFER: usize = 64 * 1024;
/// The pipe size that creel then asks the kernel for. The kernel can refuse.
const PIPE: usize = 512 * 1024;
/// An empty pipe accepts this much input without blocking.
const SHORT_INPUT: usize = 4 * 1024;

pub(super) struct ProcessInput {
    pipe: Box<dyn AsyncWrite + Send + Unpin>,
    bytes: Vec<u8>,
    written: usize,
}

pub(super) struct ProcessOutput {
    pipe: Option<Box<dyn OutputSource>>,
    buffer: Vec<u8>,
}

impl ProcessInput {
    pub(super) fn new(pipe: impl AsyncWrite + Send + Unpin + 'static, bytes: Vec<u8>) -> Self {
        Self {
            pipe: Box::new(pipe),
            bytes,
            written: 0,
        }
    }
}

pub(super) trait OutputSource: AsyncRead + Send + Unpin {
    /// Allows fewer and larger reads, where possible.
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
    /// The size of a terminal's buffer is fixed.
    fn enlarge(&self) {}
}

impl ProcessOutput {
    pub(super) fn new(source: impl OutputSource + 'static) -> Self {
        Self {
            pipe: Some(Box::new(source)),
            buffer: vec![0; BUFFER],
        }
    }

    pub(super) fn closed() -> Self {
        Self {
            pipe: None,
            buffer: Vec::new(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// The number of bytes, 0 at the end. Never ready once the stream is closed.
    pub(super) async fn read(&mut self) -> usize {
        match &mut self.pipe {
            Some(pipe) => pipe.read(&mut self.buffer).await.unwrap_or(0),
            None => std::future::pending().await,
        }
    }

    pub(super) fn pass_on(
        &mut self,
        stream: OutputStream,
        n: usize,
        watch: &mut dyn ProcessObserver,
    ) {
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

    /// Reads and drops all further output, so that background processes can still print.
    pub(super) fn discard(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            tokio::spawn(async move {
                let mut buffer = vec![0; 16 * 1024];
                while pipe.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
            });
        }
    }
}

/// Short input is written to the pipe before the command starts, so creel does not have to wait for
/// it.
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

/// Writes a chunk. Never ready once everything is written.
pub(super) async fn write(input: &mut Option<ProcessInput>) {
    let Some(open) = input else {
        return std::future::pending().await;
    };
    match open.pipe.write(&open.bytes[open.written..]).await {
        Ok(n) if n > 0 => open.written += n,
        // A command need not read its input, so EPIPE is not an error.
        Ok(_) | Err(_) => open.written = open.bytes.len(),
    }
    if open.written == open.bytes.len() {
        *input = None;
    }
}

/// Ignores a refusal, which only costs speed.
fn enlarge(pipe: &impl AsFd) {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = (pipe, PIPE);
}
