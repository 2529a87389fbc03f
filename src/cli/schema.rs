//! `creel schema`: the JSON Schema of the config.

use crate::{
    cli::error::{CliResult, print},
    config,
};

pub(super) fn schema() -> CliResult {
    print(&format!("{:#}\n", config::json_schema()))
}
