//! The log, for debugging creel itself. The events of a session are in its journal.
//!
//! Most runs log nothing, so creel opens the file and starts the thread that writes it with the
//! first line.

use std::{
    fs::DirBuilder,
    io::{self, Write},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{
    filter::Targets,
    fmt::{MakeWriter, layer},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use crate::process::secrets;

/// Owner only, because an agent can print secrets that creel does not know.
const PRIVATE: u32 = 0o700;
/// How many lines wait for the disk at most. Further ones are dropped.
const BACKLOG: usize = 4_096;

/// Writes the last lines when it is dropped.
#[derive(Debug)]
pub struct LogGuard(Arc<LogFile>);

#[derive(Debug)]
struct LogFile {
    folder: PathBuf,
    /// `None` inside if the file cannot be written.
    writer: OnceLock<Option<NonBlocking>>,
    thread: Mutex<Option<WorkerGuard>>,
}

/// A handle for the subscriber, which asks for a writer with each line.
struct LogLines(Arc<LogFile>);

/// Writes a log file in this folder. `CREEL_LOG` sets the level, for everything (`debug`) or for
/// parts (`info,creel::nats=trace`); the default is `info`.
pub fn start(state_dir: &Path) -> Option<LogGuard> {
    let levels = std::env::var("CREEL_LOG")
        .ok()
        .and_then(|levels| levels.parse::<Targets>().ok());
    let levels = levels.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let file = Arc::new(LogFile {
        folder: state_dir.join("log"),
        writer: OnceLock::new(),
        thread: Mutex::new(None),
    });
    let lines = layer().with_writer(LogLines(file.clone())).with_ansi(false);
    tracing_subscriber::registry()
        .with(lines)
        .with(levels)
        .try_init()
        .ok()?;
    Some(LogGuard(file))
}

impl LogFile {
    fn open(&self) -> Option<NonBlocking> {
        // The appender would print an error if it had to create the folder itself.
        DirBuilder::new()
            .recursive(true)
            .mode(PRIVATE)
            .create(&self.folder)
            .ok()?;
        let file = tracing_appender::rolling::Builder::new()
            .rotation(tracing_appender::rolling::Rotation::DAILY)
            .filename_prefix("creel")
            .filename_suffix("log")
            .max_log_files(7)
            .build(&self.folder)
            .ok()?;
        let (writer, thread) = NonBlockingBuilder::default()
            .buffered_lines_limit(BACKLOG)
            .finish(file);
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Some(writer)
    }
}

impl<'a> MakeWriter<'a> for LogLines {
    type Writer = Box<dyn Write + 'a>;

    fn make_writer(&'a self) -> Self::Writer {
        match self.0.writer.get_or_init(|| self.0.open()) {
            Some(writer) => Box::new(MaskedLines(writer.clone())),
            None => Box::new(io::sink()),
        }
    }
}

/// The subscriber writes each line at once. A line can quote what an agent printed.
struct MaskedLines(NonBlocking);

impl Write for MaskedLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let masked = secrets::masked_bytes(line);
        self.0.write_all(&masked)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        drop(
            self.0
                .thread
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }
}
