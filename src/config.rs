//! Reads the config from YAML. Every message has a position and says what to do.
//!
//! Owns the format of the config, its defaults and its messages. Does not run anything, does not
//! talk to the user, and does not need an agent: [`Settings::plan`] chooses one when a session
//! starts.
//!
//! # Invariants
//! - All mistakes are reported at once, and nothing of an invalid config is used.
//! - One table ([`keys`]) contains every key. The validation, the defaults and the JSON schema
//!   follow from it.

pub mod agents;
mod automation;
mod claude;
pub mod diagnostic;
mod fields;
mod hooks;
#[rustfmt::skip]
pub mod keys;
mod load;
pub mod nats;
pub mod node;
pub mod otel;
pub mod paths;
mod plan;
mod resolve;
mod settings;
pub mod shape;
mod stop;
pub mod trust;
mod validate;
mod workflows;

#[cfg(test)]
mod tests;

use std::path::Path;

pub use agents::program_of;
pub use claude::{ImportResult, ImportedHook};
pub use diagnostic::{Diagnostic, Severity};
pub use fields::{BadDuration, duration_of};
pub use nats::NatsConfig;
pub use otel::OtelConfig;
pub use resolve::{HookOrigin, PlanRequest, ResolvedHook};
pub use settings::{
    ConfigDocument, HintMode, MotionMode, PlanError, SessionServers, Settings, SignChoice,
    ThemeName, UiSettings,
};
pub use shape::json_schema;

/// The maximum number of messages to show.
const SHOWN: usize = 50;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", render(.diagnostics))]
pub struct ConfigErrors {
    /// Sorted by position.
    pub diagnostics: Vec<Diagnostic>,
}

impl ConfigErrors {
    fn one(diagnostic: Diagnostic) -> Self {
        Self {
            diagnostics: vec![diagnostic],
        }
    }
}

/// Formats messages for the user, one below the other.
pub fn render(diagnostics: &[Diagnostic]) -> String {
    let mut shown: Vec<String> = diagnostics
        .iter()
        .take(SHOWN)
        .map(ToString::to_string)
        .collect();
    if diagnostics.len() > SHOWN {
        shown.push(format!("and {} more", diagnostics.len() - SHOWN));
    }
    shown.join("\n")
}

/// Reads the config at `path` and the files that it names. `own` is the user's table of agents,
/// which need not exist.
pub fn load(path: &Path, own: Option<&Path>) -> Result<Settings, ConfigErrors> {
    load::load(path, own)
}

/// Reads a config from its text, as if it were at `path`.
pub fn parse(text: &str, path: &Path) -> Result<Settings, ConfigErrors> {
    load::parse(text, path, None)
}

/// The settings without a config file.
pub fn without_config(own: Option<&Path>) -> Result<Settings, ConfigErrors> {
    load::defaults_with(own)
}
