//! `creel hooks`: what there is, on and off, run one now, and how they did.

use super::{LINE, ask, json, other_answer, refusal_as_json, told};
use crate::{
    app::{
        AppResult,
        control::{choose_session, hook_stats},
        print,
        project::{self, Project},
        say,
    },
    cli::control::{HookTargetArgs, HooksCommand, SessionArgs},
    engine::{hooks::resolve::HookState, input::SessionCommand},
    present::text::plain_line,
    socket::{
        message::ReplyData,
        query::SessionQuery,
        view::{self, HookView},
    },
};

pub(in crate::app) fn hooks(command: HooksCommand) -> AppResult {
    match command {
        HooksCommand::List { json: as_json, session } => {
            let listed = known(&session).and_then(|hooks| if as_json { json(&hooks) } else { list(&hooks) });
            refusal_as_json(as_json, listed)
        }
        HooksCommand::Enable(HookTargetArgs { name, point, session }) => {
            ask(&session, SessionCommand::EnableHook { hook: name, point })
        }
        HooksCommand::Disable(HookTargetArgs { name, point, session }) => {
            ask(&session, SessionCommand::DisableHook { hook: name, point })
        }
        HooksCommand::Run(HookTargetArgs { name, point, session }) => {
            ask(&session, SessionCommand::RunHook { hook: name, point })
        }
        HooksCommand::Stats { json: as_json, session } => hook_stats::stats(&session, as_json),
    }
}

/// The hooks of the session; with none running and none named, those of the config.
fn known(session: &SessionArgs) -> AppResult<Vec<HookView>> {
    let (_, sessions) = project::sessions_of(&session.config)?;
    let here = session.nats.url.is_none();
    if here
        && choose_session::named(session, &sessions)?.is_none()
        && choose_session::all_running(&sessions)?.is_empty()
    {
        let project = Project::load_existing(&session.config)?;
        let draft = &project.settings.draft;
        let lifecycle = view::hooks(&draft.hooks, &HookState::default()).into_iter();
        let all = lifecycle.chain(view::automation_hooks(&draft.automation, &HookState::default()));
        return Ok(all.chain(view::stop_hooks(&draft.stop, None)).collect());
    }
    let Some(ReplyData::Hooks(hooks)) = told(session, SessionQuery::HookList)? else { return Err(other_answer()) };
    Ok(hooks)
}

fn list(hooks: &[HookView]) -> AppResult {
    if hooks.is_empty() {
        say("creel: there are no hooks");
    }
    let line = |hook: &HookView| {
        let on = if hook.enabled { "on " } else { "off" };
        let piped = if hook.pipe_output { ", piped" } else { "" };
        let name = plain_line(&hook.hook, LINE);
        let runs = plain_line(&hook.runs, LINE);
        let runs = if runs == name { String::new() } else { format!(": {runs}") };
        let timeout =
            if hook.timeout_ms.is_zero() { String::new() } else { format!("  [timeout {}{piped}]", hook.timeout_ms) };
        format!("{on}  {:16}  {name}{runs}{timeout}\n", hook.point.name())
    };
    print(&hooks.iter().map(line).collect::<String>())
}
