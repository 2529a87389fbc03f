//! `creel plan`: an agent proposes tasks for a goal, and you queue what you approve.
//!
//! The agent's session is an ordinary one, with a check that sends it back until its answer is a
//! valid proposal.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    process::Command,
};

use clap::{Args, builder::NonEmptyStringValueParser};

use crate::{
    cli::{
        arguments::{ConfigArgs, NatsArgs, QueueSourceArgs, SessionArgs, session_name},
        error::{CliError, CliResult, json, print, say},
        launch::{
            shared_folder::{dated, first_free},
            surface,
        },
        target::{self, Project},
        task::{QueueArgs, queue::QueueConnection},
    },
    engine::queue::{
        task_proposal::{ProposalMistake, TaskProposal},
        task_spec::TaskSpec,
    },
    farm::plan::{self as proposals, ProposalVerdict, SessionProposal, prompt},
    present::{
        task_view::{as_yaml, read_form, tree, with_mistakes},
        text::plain_line,
    },
    process::{children::output_of, editor::EditorFile},
    text::counted,
};

/// The exit code of a hook that sends the agent back.
const BLOCKS: u8 = 2;
/// The exit code when the user has to decide.
const NEEDS_USER: u8 = 4;
/// The longest goal in a line of the tree, in characters.
const GOAL: usize = 100;
/// What the editor shows above the proposal.
const EDIT_NOTE: &str =
    "# Change, add and delete tasks, then save. To queue none, delete everything.\n";

/// What to plan.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is its own switch")]
pub struct PlanArgs {
    /// The goal.
    #[arg(required_unless_present_any = ["session", "check"])]
    pub goal: Option<String>,
    /// Do not ask an agent: use what it proposed in this session.
    #[arg(short, long, value_name = "NAME", value_parser = session_name, conflicts_with = "goal")]
    pub session: Option<String>,
    /// The agent: one of the config's `agents`, or a known name.
    #[arg(short, long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The agent's model, by the agent's own name for it.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub model: Option<String>,
    /// Which queue.
    #[command(flatten)]
    pub queue: QueueSourceArgs,
    /// Queue all proposed tasks without asking.
    #[arg(short, long)]
    pub yes: bool,
    /// Do not show the agent's session on a screen.
    #[arg(long)]
    pub headless: bool,
    /// Print the proposal as JSON and queue nothing, unless you add --yes.
    #[arg(long)]
    pub json: bool,
    /// Trust this config's hooks and agents, and remember this.
    #[arg(long)]
    pub trust: bool,
    /// Internal: check the proposal of the session in which this runs.
    #[arg(long, hide = true)]
    pub check: bool,
}

/// A proposal that can be queued, and the session that it comes from.
struct FoundProposal {
    session: String,
    proposal: TaskProposal,
    verdict: ProposalVerdict,
}

/// What the user wants to do with a proposal.
enum PlanDecision {
    Queue,
    Edit,
    Revise(String),
    Leave,
}

pub(super) fn plan(args: &PlanArgs) -> CliResult {
    if args.check {
        return check(&args.queue.config);
    }
    if args
        .goal
        .as_ref()
        .is_some_and(|goal| goal.trim().is_empty())
    {
        return Err(CliError::usage(
            "the goal is empty; say what you want, such as `creel plan \"Add an export to CSV.\"`",
        ));
    }
    let types = types(&Project::load(&args.queue.config)?);
    let mut found = match &args.session {
        Some(session) => earlier(args, session, &types)?,
        None => match propose(args, args.goal.as_deref().unwrap_or_default(), &types)? {
            Ok(found) => found,
            Err(code) => return Ok(code),
        },
    };
    let is_interactive =
        !args.yes && !args.json && io::stdin().is_terminal() && io::stdout().is_terminal();
    if args.json && !args.yes {
        return json(&found.proposal);
    }
    loop {
        let FoundProposal {
            session,
            proposal,
            verdict,
        } = &found;
        if !args.json && *verdict != ProposalVerdict::Declined {
            print(&tree(&proposal.tasks))?;
        }
        let decision = match (args.yes, *verdict) {
            (true, _) | (false, ProposalVerdict::Approved) => PlanDecision::Queue,
            (false, ProposalVerdict::Declined) => PlanDecision::Leave,
            (false, ProposalVerdict::Unasked | ProposalVerdict::Undecided) if is_interactive => {
                decide(proposal.tasks.len())?
            }
            (false, ProposalVerdict::Unasked | ProposalVerdict::Undecided) => {
                say(&format!(
                    "creel: nothing is queued yet; queue these tasks with `creel plan --session {session} --yes`"
                ));
                return Ok(NEEDS_USER);
            }
        };
        match decision {
            PlanDecision::Queue => return queue(args, proposal, session),
            PlanDecision::Edit => match edited(proposal, &types)? {
                Some(changed) => found.proposal = changed,
                None => return Ok(leave(session)),
            },
            PlanDecision::Revise(wish) => {
                let text = serde_json::to_string_pretty(proposal).unwrap_or_default();
                let goal = args.goal.as_deref().unwrap_or("the tasks below");
                let again = format!("{goal}\n\nYou proposed this:\n{text}\n\nChange it: {wish}");
                match propose(args, &again, &types)? {
                    Ok(revised) => found = revised,
                    Err(code) => return Ok(code),
                }
            }
            PlanDecision::Leave => return Ok(leave(session)),
        }
    }
}

fn leave(session: &str) -> u8 {
    say(&format!(
        "creel: nothing is queued; the proposal stays: `creel plan --session {session}`"
    ));
    0
}

fn usable(
    found: Result<TaskProposal, Vec<ProposalMistake>>,
    session: &str,
) -> CliResult<TaskProposal> {
    found.map_err(|mistakes| {
        let list: String = mistakes.iter().map(|mistake| format!("\n  - {mistake}")).collect();
        CliError::failed(format!(
            "session `{session}` has no proposal that can be used:{list}\n  ask for one with `creel plan \"GOAL\"`"
        ))
    })
}

/// What a session has proposed before. The user is asked about it, whatever the answer was at its
/// gate.
fn earlier(args: &PlanArgs, session: &str, types: &BTreeSet<String>) -> CliResult<FoundProposal> {
    let proposal = usable(
        proposal_of(&args.queue.config, session, types)?.tasks,
        session,
    )?;
    Ok(FoundProposal {
        session: session.to_owned(),
        proposal,
        verdict: ProposalVerdict::Unasked,
    })
}

/// Has the agent propose tasks. Returns the exit code if the user has nothing to decide or to queue
/// now.
fn propose(
    args: &PlanArgs,
    goal: &str,
    types: &BTreeSet<String>,
) -> CliResult<Result<FoundProposal, u8>> {
    let session = match run_session(args, &prompt(goal, types))? {
        Ok(session) => session,
        Err(code) => return Ok(Err(code)),
    };
    let SessionProposal { tasks, verdict } = proposal_of(&args.queue.config, &session, types)?;
    if verdict == ProposalVerdict::Undecided {
        say(&format!(
            "creel: nothing is queued yet; when session `{session}` has ended, queue its tasks with `creel plan --session \
             {session}`"
        ));
        return Ok(Err(0));
    }
    Ok(Ok(FoundProposal {
        proposal: usable(tasks, &session)?,
        verdict,
        session,
    }))
}

/// Runs the session of the agent. Returns its name, or its exit code if it did not complete.
fn run_session(args: &PlanArgs, prompt: &str) -> CliResult<Result<String, u8>> {
    let (_, sessions) = target::sessions_of(&args.queue.config)?;
    let name = first_free(&sessions, &dated("plan")).name;
    let cannot = |error: &dyn std::fmt::Display| {
        CliError::failed(format!("cannot start the agent's session: {error}"))
    };
    // Its own file, since the terminal is the session's.
    let file = EditorFile::new(prompt).map_err(|error| cannot(&error))?;
    let mut command = Command::new(std::env::current_exe().map_err(|error| cannot(&error))?);
    let is_shown = io::stdout().is_terminal()
        && io::stdin().is_terminal()
        && !args.headless
        && !args.json
        && !surface::is_dumb();
    let approval = if is_shown && !args.yes {
        "at-gate"
    } else {
        "later"
    };
    // The agent only reads, so another session is not in its way.
    command
        .args([
            "run",
            "--force",
            "--proposal",
            approval,
            "--session",
            &name,
            "--prompt-file",
        ])
        .arg(file.path());
    if let Some(agent) = &args.agent {
        command.args(["--agent", agent]);
    }
    if let Some(model) = &args.model {
        command.args(["--model", model]);
    }
    if let Some(config) = &args.queue.config.config {
        command.arg("--config").arg(config);
    }
    if args.trust {
        command.arg("--trust");
    }
    let status = if is_shown {
        command.status()
    } else {
        command.arg("--headless").stdin(std::process::Stdio::null());
        output_of(&mut command).map(|ran| {
            let _ = io::stderr()
                .write_all(&ran.stdout)
                .and_then(|()| io::stderr().write_all(&ran.stderr));
            ran.status
        })
    };
    file.remove();
    let status = status.map_err(|error| cannot(&error))?;
    let code = status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1);
    Ok(if code == 0 { Ok(name) } else { Err(code) })
}

fn decide(count: usize) -> CliResult<PlanDecision> {
    let tasks = if count == 1 {
        "this task".to_owned()
    } else {
        format!("these {}", counted(count, "task"))
    };
    loop {
        let question =
            format!("Queue {tasks}? [y]es, [e]dit, [n]o, or say what should be different: ");
        let _ = io::stderr().write_all(question.as_bytes());
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        let read =
            read.map_err(|error| CliError::failed(format!("cannot read the answer: {error}")))?;
        match (read, answer.trim().to_lowercase().as_str()) {
            (0, _) | (_, "n" | "no" | "q" | "quit") => return Ok(PlanDecision::Leave),
            (_, "y" | "yes") => return Ok(PlanDecision::Queue),
            (_, "e" | "edit") => return Ok(PlanDecision::Edit),
            (_, "") => {}
            (_, _) => return Ok(PlanDecision::Revise(answer.trim().to_owned())),
        }
    }
}

/// Lets the user change the proposal in an editor, again and again until it is valid.
fn edited(proposal: &TaskProposal, types: &BTreeSet<String>) -> CliResult<Option<TaskProposal>> {
    let mut text = format!("{EDIT_NOTE}{}", as_yaml(&proposal.tasks));
    loop {
        let sheet = EditorFile::new(text.trim_end())
            .map_err(|error| CliError::failed(error.to_string()))?;
        let changed = sheet
            .read(sheet.command().status())
            .map_err(|error| CliError::failed(error.to_string()))?;
        sheet.remove();
        let is_empty = changed
            .lines()
            .all(|line| line.trim().is_empty() || line.starts_with('#'));
        if is_empty {
            return Ok(None);
        }
        let mistakes: Vec<String> = match read_form(&changed) {
            Ok(proposal) => match proposal.mistakes(types) {
                mistakes if mistakes.is_empty() => return Ok(Some(proposal)),
                mistakes => mistakes.iter().map(ToString::to_string).collect(),
            },
            Err(error) => vec![error.to_string()],
        };
        text = format!("{EDIT_NOTE}{}", with_mistakes(&changed, &mistakes));
    }
}

/// Puts the tasks into the queue, each after those that it depends on. Their label is the session
/// that proposed them, so that none is queued twice.
fn queue(args: &PlanArgs, proposal: &TaskProposal, session: &str) -> CliResult {
    let queue = SessionArgs {
        config: args.queue.config.clone(),
        nats: NatsArgs {
            url: args.queue.url.clone(),
        },
        ..SessionArgs::default()
    };
    let mut connection = QueueConnection::open(&queue, &QueueArgs::default())?;
    let present = connection.all()?;
    let label = session.to_owned();
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut added = 0;
    for task in proposal.in_order() {
        let is_it = |spec: &TaskSpec| spec.goal == task.goal && spec.labels.contains(&label);
        let number = if let Some(queued) = present.iter().find(|queued| is_it(&queued.order)) {
            let number = queued.order.id.clone();
            say(&format!(
                "creel: task {number} is in the queue already: {}",
                plain_line(&task.goal, GOAL)
            ));
            number
        } else {
            // Numbers, since a name can be used only once in the life of a queue.
            let mut spec = task.spec(&names);
            spec.id.clear();
            spec.description.labels = vec![label.clone()];
            let number = connection.add(spec)?;
            added += 1;
            say(&format!(
                "creel: task {number}: {}",
                plain_line(&task.goal, GOAL)
            ));
            number
        };
        names.insert(task.id.clone(), number);
    }
    if args.json {
        return json(&names);
    }
    say(if added == 0 {
        "creel: nothing was added; `creel task start --queue ID` repeats a task, `creel task remove --queue ID` makes room to \
         queue it anew"
    } else {
        "creel: work on them with `creel worker --jobs 3`"
    });
    Ok(0)
}

/// The proposal of a session of this project.
fn proposal_of(
    config: &ConfigArgs,
    session: &str,
    types: &BTreeSet<String>,
) -> CliResult<SessionProposal> {
    let (_, sessions) = target::sessions_of(config)?;
    let folder = sessions.folder(session);
    if !folder.exists() {
        return Err(target::missing(&folder));
    }
    Ok(proposals::proposal_of(&folder, types)?)
}

/// The hook that checks the answer of the session in which it runs.
fn check(config: &ConfigArgs) -> CliResult {
    let session = std::env::var("CREEL_SESSION").unwrap_or_default();
    let types = types(&Project::load(config)?);
    match proposal_of(config, &session, &types)?.tasks {
        Ok(_) => Ok(0),
        Err(mistakes) => {
            let list: String = mistakes
                .iter()
                .map(|mistake| format!("- {mistake}\n"))
                .collect();
            say(&format!(
                "Your proposal cannot be used:\n{list}Answer again with the whole JSON object, repaired, in the form \
                 that you were asked for."
            ));
            Ok(BLOCKS)
        }
    }
}

/// The types of tasks in the config.
pub(super) fn types(project: &Project) -> BTreeSet<String> {
    project.settings.task_types.keys().cloned().collect()
}
