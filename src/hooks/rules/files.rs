//! Whether files are there.

use std::path::Path;

use super::{Finding, shown};
use crate::{
    engine::policy::Need,
    process::project_dir::{Barred, Premises},
};

/// No more names than this are told.
const NAMED: usize = 20;

/// Whether as many files are there as must be. A folder counts, too.
pub(super) fn judge(files: &[String], need: Need, premises: &Premises) -> Finding {
    let missing: Vec<String> = files.iter().filter_map(|file| absence(file, premises)).collect();
    let there = files.len() - missing.len();
    let all = format!("{there} of {} there", files.len());
    match need {
        Need::All if missing.is_empty() => Ok(all),
        Need::All => Err(format!("missing: {} ({all})", list(&missing))),
        Need::Any if there > 0 => Ok(all),
        Need::Any => Err(format!("one of these must be there, and none is: {}", list(&missing))),
    }
}

/// The name of a file that is not there, and why if that is not plain.
fn absence(file: &str, premises: &Premises) -> Option<String> {
    let name = shown(file);
    match premises.inside(Path::new(file)) {
        Ok(place) if place.exists() => None,
        Ok(_) | Err(Barred::Missing) => Some(name),
        Err(Barred::Outside) => Some(format!("{name} (leads out of the project's folder)")),
        Err(Barred::Io(error)) => Some(format!("{name} ({error})")),
        Err(Barred::NotAFile | Barred::TooLarge(_)) => None,
    }
}

fn list(names: &[String]) -> String {
    let told = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > NAMED { format!("{told} and {} more", names.len() - NAMED) } else { told }
}
