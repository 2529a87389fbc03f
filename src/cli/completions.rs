//! `creel completions`: completions for a shell.

use clap::{Args, CommandFactory as _};

use crate::cli::{
    Cli,
    error::{CliResult, print},
};

/// For which shell.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: clap_complete::Shell,
}

pub(super) fn completions(args: &CompletionsArgs) -> CliResult {
    let mut out = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "creel", &mut out);
    print(&String::from_utf8_lossy(&out))
}
