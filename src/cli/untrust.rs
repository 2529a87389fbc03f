//! `creel untrust`: takes back what `creel trust` allowed.

use crate::{
    cli::{
        arguments::ConfigArgs,
        error::{CliError, CliResult, say},
        launch::trust_prompt::{cannot_remember, place_of_plans, refuse_supervised},
        target,
    },
    config::paths,
};

pub(super) fn untrust(args: &ConfigArgs) -> CliResult {
    let here = target::here()?;
    let named = args
        .config
        .clone()
        .map(|path| here.join(path))
        .or_else(|| paths::find(&here));
    let Some(path) = named else {
        return Err(CliError::usage(
            "no config in this folder or above; name it with --config",
        ));
    };
    let place = path.canonicalize().unwrap_or(path);
    refuse_supervised()?;
    let store = target::trust_store()?;
    let root = paths::project_root(&place);
    store
        .untrust(&place_of_plans(&root))
        .map_err(|error| cannot_remember(&error))?;
    let had = store
        .untrust(&place)
        .map_err(|error| cannot_remember(&error))?;
    say(&format!(
        "creel: {} {}",
        place.display(),
        if had {
            "is no longer trusted"
        } else {
            "was not trusted"
        }
    ));
    Ok(0)
}
