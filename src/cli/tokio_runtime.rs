//! The tokio runtime of a command.

use crate::cli::error::{CliError, CliResult};

pub(crate) fn start() -> CliResult<tokio::runtime::Runtime> {
    let built = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    built.map_err(|error| CliError::failed(format!("cannot start: {error}")))
}
