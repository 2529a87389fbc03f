//! `creel trust` and `creel untrust`: allow this project's hooks and agents to run, and take that
//! back.

use crate::{
    cli::{
        arguments::ConfigArgs,
        error::{CliError, CliResult},
        launch::trust_prompt::{
            cannot_remember, listed, of_project, place_of_plans, refuse_supervised,
        },
        output::say,
        target::project::{self, Project},
    },
    config::{PlanRequest, paths},
};

pub(super) fn trust(args: &ConfigArgs) -> CliResult {
    let project = Project::load_existing(args)?;
    let place = project.config_place();
    refuse_supervised()?;
    project::trust_store()?
        .trust(&place, &project.settings.documents)
        .map_err(|error| cannot_remember(&error))?;
    // A config with a mistake can be trusted, too; `creel check` reports the mistake.
    let settings = &project.settings;
    let plan = settings.plan(PlanRequest::default());
    let plan = plan.unwrap_or_else(|_| settings.plan_outside(None));
    let may_run = of_project(&project, &plan);
    let may_run = if may_run.is_empty() {
        String::new()
    } else {
        format!(". It can run:\n\n{}", listed(&may_run))
    };
    say(&format!(
        "creel: trusted {} as it is now{may_run}",
        place.display()
    ));
    Ok(0)
}

pub(super) fn untrust(args: &ConfigArgs) -> CliResult {
    let here = project::here()?;
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
    let store = project::trust_store()?;
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
