//! `creel mcp`: the session's tools for an agent.
//!
//! An agent that creel supervises has a session. One that the user starts by hand may have none:
//! then the first call starts a self-driven session, which ends with the agent.

use std::{io::IsTerminal as _, path::PathBuf};

use crate::{
    cli::{
        arguments::{ConfigArgs, SessionArgs},
        error::{CliResult, say},
        launch::trust_prompt,
        target::{self, Project},
        verb_outcome::{ToolServerRequest, VerbOutcome},
    },
    config::Settings,
    engine::policy::SessionPlan,
};

pub(super) fn mcp(session: SessionArgs) -> VerbOutcome {
    if std::io::stdin().is_terminal() {
        say(
            "creel: an agent starts this command: it speaks the Model Context Protocol on standard input and output",
        );
    }
    let has_none = target::running_if_any(&session).is_ok_and(|found| found.is_none());
    let note = if has_none {
        restriction(&session)
    } else {
        None
    };
    VerbOutcome::ServeTools(ToolServerRequest { session, note })
}

/// A note for the agent if its self-driven session does not run the project's hooks and rules.
fn restriction(args: &SessionArgs) -> Option<&'static str> {
    let untrusted = SelfDrivenSpec::of(&args.config).is_ok_and(|spec| !spec.allowed);
    untrusted.then_some(
        "You have not trusted the project's config, so creel does not run its hooks and rules. Trust it with `creel \
         trust`.",
    )
}

/// The session to start for an agent that has none.
pub(crate) struct SelfDrivenSpec {
    pub(crate) root: PathBuf,
    pub(crate) plan: SessionPlan,
    /// Whether the config is trusted to run what it names.
    allowed: bool,
}

impl SelfDrivenSpec {
    /// Uses the config if the user has trusted it; otherwise the defaults, which run nothing.
    pub(crate) fn of(config: &ConfigArgs) -> CliResult<Self> {
        let project = Project::load(config)?;
        let plan = project.settings.plan_outside(None);
        let would_run = trust_prompt::of_plan(&plan);
        let allowed = trust_prompt::is_allowed(
            &project.config_place(),
            &project.settings.documents,
            &would_run,
        )?;
        let plan = if allowed {
            plan
        } else {
            Settings::default().plan_outside(None)
        };
        Ok(Self {
            root: project.root,
            plan,
            allowed,
        })
    }
}
