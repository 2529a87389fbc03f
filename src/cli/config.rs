//! `creel config`: prints the annotated example, or the path of the config in use.

use clap::{Args, Subcommand};

use crate::{
    cli::{
        arguments::ConfigArgs,
        error::{CliError, CliResult, print},
        target,
    },
    config::paths,
};

/// What to print about configs.
#[derive(Debug, Args)]
pub struct ConfigCommandArgs {
    /// What to print.
    #[command(subcommand)]
    pub verb: ConfigCommand,
}

/// What to print about configs.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the annotated example config: every key with its default.
    Example,
    /// Print the path of the config in use.
    Path(ConfigArgs),
}

/// Every key with its default. A test keeps it complete.
const EXAMPLE: &str = include_str!("../../config.example.yaml");

pub(super) fn config(args: &ConfigCommandArgs) -> CliResult {
    match &args.verb {
        ConfigCommand::Example => print(EXAMPLE),
        ConfigCommand::Path(args) => {
            let here = target::here()?;
            let named = args
                .config
                .as_ref()
                .map(|path| here.join(path))
                .filter(|path| path.is_file());
            let found = if args.config.is_some() {
                named
            } else {
                paths::find(&here)
            };
            let path = found.ok_or_else(|| {
                args.config.as_ref().map_or_else(
                    || CliError::usage("no config in this folder or above; write one with `creel init`"),
                    |path| CliError::usage(format!("the file {} does not exist\n  name another file with --config, or write a config with `creel init`", path.display())),
                )
            })?;
            print(&format!("{}\n", path.display()))
        }
    }
}
