//! `creel trust`: allows this project's hooks and agents to run.

use crate::{
    cli::{
        arguments::ConfigArgs,
        error::{CliResult, say},
        launch::trust_prompt::{cannot_remember, listed, of_project, refuse_supervised},
        target::{self, Project},
    },
    config::PlanRequest,
};

pub(super) fn trust(args: &ConfigArgs) -> CliResult {
    let project = Project::load_existing(args)?;
    let place = project.config_place();
    refuse_supervised()?;
    target::trust_store()?
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
