//! `creel schema`: the JSON Schema of the config, of reports, or of `creel stats`.

use clap::{Args, ValueEnum};

use crate::{
    cli::error::{CliResult, print},
    config,
    report::{SCHEMA, stats::STATS_SCHEMA},
};

/// Which schema.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// What the schema describes.
    #[arg(value_enum, default_value = "config")]
    pub of: SchemaSubject,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaSubject {
    Config,
    /// The output of `creel report --format json`.
    Report,
    /// The output of `creel stats --json`.
    Stats,
}

pub(super) fn schema(args: &SchemaArgs) -> CliResult {
    match args.of {
        SchemaSubject::Config => print(&format!("{:#}\n", config::json_schema())),
        SchemaSubject::Report => print(SCHEMA),
        SchemaSubject::Stats => print(STATS_SCHEMA),
    }
}
