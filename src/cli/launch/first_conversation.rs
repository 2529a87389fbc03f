//! The conversation that a new session begins with: one that you began in the agent itself, or a
//! copy of the one in which another session ended.
//!
//! Owns what `creel run` refuses before anything is recorded. Does not open the conversation: the
//! agent's first turn does.

use jiff::Timestamp;

use crate::{
    agents::acp::{AcpAgent, KnownConversations, ListedConversation},
    cli::{
        agent_options::ask,
        agents::INTERRUPTED,
        error::{CliError, CliResult, print},
        target::{self, Project},
    },
    engine::{
        conversation::FirstConversation,
        hooks::template::placeholders,
        policy::{AgentSpec, SessionPlan},
    },
    journal::{self, SessionDir},
    present::{
        tables::columns,
        text::{local_zone, plain, plain_line},
    },
};

/// The word that asks for the list instead of a conversation.
pub(in crate::cli) const LIST: &str = "list";
/// The longest title in the list, in characters.
const TITLE: usize = 60;
/// How many conversations an error lists.
const LISTED: usize = 10;

/// The conversation in which a session ended.
pub(in crate::cli) fn of_session(
    folder: &SessionDir,
    plan: &SessionPlan,
) -> CliResult<FirstConversation> {
    let name = &folder.name;
    if !folder.exists() {
        return Err(target::missing(folder));
    }
    if journal::running(folder).is_some() {
        return Err(CliError::usage(format!(
            "session `{name}` is still running\n  wait for its end, or stop it with `creel stop -s {name}`"
        )));
    }
    let state = journal::fold(&folder.journal())?;
    let agent = state.limits.stand_in.as_ref();
    let agent = agent.unwrap_or(&state.began.agent);
    if *agent != plan.agent {
        let (agent, chosen) = (plain(agent), plain(&plan.agent));
        return Err(CliError::usage(format!(
            "session `{name}` ended in a conversation of `{agent}`, and this session would use `{chosen}`\n  \
             add `--agent {agent}`"
        )));
    }
    match state.turns.conversation {
        Some(id) => Ok(FirstConversation {
            id,
            fork_of: Some(name.clone()),
        }),
        None => Err(CliError::usage(format!(
            "session `{name}` ended without a conversation: its agent did not open one, or did not report its id"
        ))),
    }
}

/// Refuses a conversation that the agent does not have or cannot continue. Returns the exit code if
/// a signal arrived first.
pub(in crate::cli) fn require(
    project: &Project,
    plan: &SessionPlan,
    first: &FirstConversation,
) -> CliResult<Option<u8>> {
    let (agent, id) = (plain(&plan.agent), plain(&first.id));
    let cannot = |why: &str| Err(CliError::usage(format!("the agent `{agent}` {why}")));
    let is_copy = first.fork_of.is_some();
    match &plan.agent_spec {
        AgentSpec::Acp { .. } => {
            let wanted = Some(&*first.id).filter(|_| !is_copy);
            let Some(known) = known(project, plan, wanted)? else {
                return Ok(Some(INTERRUPTED));
            };
            match known.refused {
                _ if is_copy && !known.can_fork => cannot(&format!(
                    "cannot copy conversations\n  `--from {id}` continues the conversation itself"
                )),
                Some(_) if !known.can_resume => cannot("cannot continue conversations"),
                Some(why) => cannot(&format!(
                    "does not continue the conversation `{id}`: {}{}",
                    plain(&why),
                    known
                        .listed
                        .map_or_else(String::new, |listed| alternatives(&listed))
                )),
                None => Ok(None),
            }
        }
        AgentSpec::Command { .. } if is_copy => cannot(&format!(
            "runs as a command, and creel cannot copy conversations of commands\n  \
             `--from {id}` continues the conversation itself"
        )),
        AgentSpec::Command {
            continue_command: Some(line),
            ..
        } if placeholders(line)
            .iter()
            .any(|name| name.name == "conversation") =>
        {
            Ok(None)
        }
        AgentSpec::Command { .. } => cannot(
            "cannot continue a conversation by its id\n  its `continue_command` needs `{{conversation}}`",
        ),
        AgentSpec::Scripted { .. } | AgentSpec::Outside => {
            cannot("has no conversations to continue")
        }
    }
}

/// Prints the agent's conversations of this folder.
pub(in crate::cli) fn list(project: &Project, plan: &SessionPlan) -> CliResult {
    let agent = plain(&plan.agent);
    let cannot = || {
        CliError::usage(format!(
            "the agent `{agent}` does not list its conversations\n  find the id in the agent itself, and pass it to `--from`"
        ))
    };
    let AgentSpec::Acp { .. } = &plan.agent_spec else {
        return Err(cannot());
    };
    let Some(known) = known(project, plan, None)? else {
        return Ok(INTERRUPTED);
    };
    match known.listed.ok_or_else(cannot)? {
        listed if listed.is_empty() => print(&format!(
            "The agent `{agent}` has no conversations of this folder.\n"
        )),
        listed => print(&table(&listed)),
    }
}

fn known(
    project: &Project,
    plan: &SessionPlan,
    wanted: Option<&str>,
) -> CliResult<Option<KnownConversations>> {
    let spec = &plan.agent_spec;
    let known = ask(project, &plan.agent, spec, |place, cancel| async move {
        Box::pin(AcpAgent::conversations(spec, place, wanted, &cancel)).await
    })?;
    Ok(known.map(|mut known| {
        if let Some(listed) = &mut known.listed {
            listed.sort_by(|one, other| other.updated.cmp(&one.updated));
        }
        known
    }))
}

fn alternatives(listed: &[ListedConversation]) -> String {
    if listed.is_empty() {
        return "\n  it has no conversations of this folder".to_owned();
    }
    let lines = table(&listed[..listed.len().min(LISTED)]);
    let lines: String = lines.lines().map(|line| format!("\n    {line}")).collect();
    format!("\n  its conversations of this folder:{lines}")
}

fn table(listed: &[ListedConversation]) -> String {
    columns(
        ["CONVERSATION", "LAST USED", "TITLE"],
        listed.iter().map(|one| {
            let title = one.title.as_deref().unwrap_or_default();
            [
                plain_line(&one.id, TITLE),
                one.updated.as_deref().map(time).unwrap_or_default(),
                plain_line(title, TITLE),
            ]
        }),
    )
}

/// A time of an agent in this machine's zone.
fn time(text: &str) -> String {
    text.parse::<Timestamp>().map_or_else(
        |_| plain_line(text, TITLE),
        |time| {
            let there = time.to_zoned(local_zone());
            there.strftime("%Y-%m-%d %H:%M").to_string()
        },
    )
}
