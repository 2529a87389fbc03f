//! `creel man`: the manual page.

use clap::CommandFactory as _;

use crate::cli::{
    Cli,
    error::{CliError, CliResult},
    output::print,
};

pub(super) fn man() -> CliResult {
    let mut out = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut out).map_err(|error| CliError::failed(error.to_string()))?;
    print(&String::from_utf8_lossy(&out))
}
