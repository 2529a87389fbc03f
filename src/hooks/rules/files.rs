//! Rules about the existence of files.

use std::path::Path;

use super::{RuleFinding, shown};
use crate::{
    engine::policy::FileRequirement,
    process::project_dir::{OpenError, ProjectDir},
    text::some_names,
};

/// How many names to list.
const NAMED: usize = 20;

/// Whether enough of the files exist. A folder counts too.
pub(super) fn judge(files: &[String], need: FileRequirement, premises: &ProjectDir) -> RuleFinding {
    let missing: Vec<String> = files
        .iter()
        .filter_map(|file| absence(file, premises))
        .collect();
    let there = files.len() - missing.len();
    let all = format!("{there} of {} exist", files.len());
    match need {
        FileRequirement::All if missing.is_empty() => Ok(all),
        FileRequirement::All => Err(format!("missing: {} ({all})", some_names(&missing, NAMED))),
        FileRequirement::Any if there > 0 => Ok(all),
        FileRequirement::Any => Err(format!(
            "one of these files must exist: {}",
            some_names(&missing, NAMED)
        )),
    }
}

/// The name of a missing file, with the reason if it is not obvious.
fn absence(file: &str, premises: &ProjectDir) -> Option<String> {
    let name = shown(file);
    match premises.inside(Path::new(file)) {
        Ok(place) if place.exists() => None,
        Ok(_) | Err(OpenError::Missing) => Some(name),
        Err(OpenError::Outside) => Some(format!("{name} (leads out of the project folder)")),
        Err(OpenError::Io(error)) => Some(format!("{name} ({error})")),
        Err(OpenError::NotAFile | OpenError::TooLarge(_)) => None,
    }
}
