//! The log, for debugging creel itself. The events of a session are in its journal.

use std::{fs::DirBuilder, os::unix::fs::DirBuilderExt as _, path::Path};

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::EnvFilter;

/// Owner only, because an agent can print secrets.
const PRIVATE: u32 = 0o700;

/// Writes a log file in this folder, if possible. `CREEL_LOG` sets the level (default: `info`).
pub fn start(state_dir: &Path) -> Option<WorkerGuard> {
    let folder = state_dir.join("log");
    // The appender would print an error if it had to create the folder itself.
    DirBuilder::new().recursive(true).mode(PRIVATE).create(&folder).ok()?;
    let file = tracing_appender::rolling::Builder::new()
        .rotation(tracing_appender::rolling::Rotation::DAILY)
        .filename_prefix("creel")
        .filename_suffix("log")
        .max_log_files(7)
        .build(folder)
        .ok()?;
    let (writer, guard) = tracing_appender::non_blocking(file);
    let filter = EnvFilter::try_from_env("CREEL_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_writer(writer).with_ansi(false).with_env_filter(filter).try_init().ok()?;
    Some(guard)
}
