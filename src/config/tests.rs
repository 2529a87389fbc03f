//! Whole configs and the messages about them.

mod advice;
mod agents;
mod checks;
mod example;
mod mistakes;
mod nats;
mod otel;
mod permissions;
mod rules;
mod schema_check;
mod seeds;
mod stop;
mod task_types;
mod tool_hooks;

use std::path::Path;

use super::{ConfigErrors, Settings, parse, render};

fn read(text: &str) -> Result<Settings, ConfigErrors> {
    parse(text, Path::new("creel.yaml"))
}

/// The messages about a config: errors or warnings.
fn errors_in(text: &str) -> String {
    match read(text) {
        Ok(settings) => render(&settings.warnings),
        Err(errors) => errors.to_string(),
    }
}

fn good(text: &str) -> Settings {
    read(text).unwrap_or_else(|errors| panic!("{errors}"))
}
