//! `creel config`: prints the annotated example, or the path of the config in use.

use super::{AppError, AppResult, print, project};
use crate::{
    cli::{ConfigCommand, ConfigCommandArgs},
    config::paths,
};

/// Every key with its default. A test keeps it complete.
const EXAMPLE: &str = include_str!("../../config.example.yaml");

pub(super) fn config(args: &ConfigCommandArgs) -> AppResult {
    match &args.verb {
        ConfigCommand::Example => print(EXAMPLE),
        ConfigCommand::Path(args) => {
            let here = project::here()?;
            let named = args.config.as_ref().map(|path| here.join(path)).filter(|path| path.is_file());
            let found = if args.config.is_some() { named } else { paths::find(&here) };
            let path = found.ok_or_else(|| {
                args.config.as_ref().map_or_else(
                    || AppError::usage("there is no config here or above; `creel init` writes one"),
                    |path| AppError::usage(format!("there is no file {}", path.display())),
                )
            })?;
            print(&format!("{}\n", path.display()))
        }
    }
}
