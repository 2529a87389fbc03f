//! `creel hooks`: what there is, on and off, run one now, and how they did.

use clap::{Args, Subcommand};

use crate::{
    cli::{
        arguments::{ArgumentError, SessionArgs},
        error::{CliResult, LINE, json, print, refusal_as_json, say, warn_of},
        target::{self, Project, ask, other_answer, remote_sessions, reply_to},
    },
    engine::{
        hooks::{HookState, point::HookPoint},
        input::SessionCommand,
    },
    journal,
    present::{
        hook_stats::{self, HookTallies},
        text::plain_line,
    },
    protocol::{
        ReplyData, SessionQuery,
        view::{self, HookView},
    },
};

/// The hooks.
#[derive(Debug, Args)]
pub struct HooksArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: HooksCommand,
}

/// What to do with hooks.
#[derive(Debug, Subcommand)]
pub enum HooksCommand {
    /// List the hooks of the running session, or of the config if no session is running.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
    /// Enable a hook again in this session.
    Enable(HookTargetArgs),
    /// Disable a hook in this session.
    Disable(HookTargetArgs),
    /// Run a hook now. Its verdict has no effect.
    Run(HookTargetArgs),
    /// Show how often hooks ran and passed, and how long they took.
    Stats {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
}

/// Which hook.
#[derive(Debug, Args)]
pub struct HookTargetArgs {
    /// The hook's name.
    pub name: String,
    /// Only at this hook point. Default: at every point that has a hook of this name.
    #[arg(long, value_name = "POINT", value_parser = point)]
    pub point: Option<HookPoint>,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

pub(super) fn hooks(command: HooksCommand) -> CliResult {
    match command {
        HooksCommand::List {
            json: as_json,
            session,
        } => {
            let listed =
                known(&session).and_then(|hooks| if as_json { json(&hooks) } else { list(&hooks) });
            refusal_as_json(as_json, listed)
        }
        HooksCommand::Enable(HookTargetArgs {
            name,
            point,
            session,
        }) => ask(&session, SessionCommand::EnableHook { hook: name, point }),
        HooksCommand::Disable(HookTargetArgs {
            name,
            point,
            session,
        }) => ask(&session, SessionCommand::DisableHook { hook: name, point }),
        HooksCommand::Run(HookTargetArgs {
            name,
            point,
            session,
        }) => ask(&session, SessionCommand::RunHook { hook: name, point }),
        HooksCommand::Stats {
            json: as_json,
            session,
        } => stats(&session, as_json),
    }
}

/// The hooks of the session; with none running and none named, those of the config.
fn known(session: &SessionArgs) -> CliResult<Vec<HookView>> {
    let (_, sessions) = target::sessions_of(&session.config)?;
    let here = session.nats.url.is_none();
    if here
        && target::named(session, &sessions)?.is_none()
        && target::all_running(&sessions)?.is_empty()
    {
        let project = Project::load_existing(&session.config)?;
        let base = &project.settings.base_plan;
        let lifecycle =
            view::hooks(&project.settings.project_hooks(), &HookState::default()).into_iter();
        let all = lifecycle.chain(view::automation_hooks(
            &base.automation,
            &HookState::default(),
        ));
        return Ok(all.chain(view::stop_hooks(&base.stop, None)).collect());
    }
    let Some(ReplyData::Hooks(hooks)) = reply_to(session, SessionQuery::HookList)? else {
        return Err(other_answer());
    };
    Ok(hooks)
}

fn list(hooks: &[HookView]) -> CliResult {
    if hooks.is_empty() {
        say("creel: the config has no hooks");
    }
    let line = |hook: &HookView| {
        let on = if hook.enabled { "on " } else { "off" };
        let piped = hook
            .pipe_output
            .describe()
            .map(|piped| format!(", {piped}"))
            .unwrap_or_default();
        let name = plain_line(&hook.hook, LINE);
        let runs = plain_line(&hook.runs, LINE);
        let runs = if runs == name {
            String::new()
        } else {
            format!(": {runs}")
        };
        let timeout = if hook.timeout_ms.is_zero() {
            String::new()
        } else {
            format!("  [timeout {}{piped}]", hook.timeout_ms)
        };
        format!("{on}  {:16}  {name}{runs}{timeout}\n", hook.point.name())
    };
    print(&hooks.iter().map(line).collect::<String>())
}

fn point(text: &str) -> Result<HookPoint, ArgumentError> {
    let stop_decision = (text == HookPoint::StopDecision.name()).then_some(HookPoint::StopDecision);
    HookPoint::named(text)
        .or(stop_decision)
        .ok_or(ArgumentError::NoSuchPoint)
}

pub(super) fn stats(session: &SessionArgs, as_json: bool) -> CliResult {
    let copy = remote_sessions::copy(session)?;
    let folder = match &copy {
        Some(copy) => copy.folder().clone(),
        None => target::named_or_running(session)?,
    };
    let mut tallies = HookTallies::default();
    let disorder = journal::read(&folder.journal(), |record| tallies.take(&record.event))?;
    warn_of(disorder.as_ref());
    let all = tallies.stats();
    if as_json {
        return json(&all);
    }
    if all.is_empty() {
        say(&format!(
            "creel: session `{}` has not run any hook",
            folder.name
        ));
        return Ok(0);
    }
    print(&hook_stats::table(&all))
}
