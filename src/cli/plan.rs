//! `creel plan`: an agent proposes tasks for a goal, and you queue what you approve.
//!
//! The agent's session is an ordinary one, with a check that sends it back until its answer is a valid proposal.

pub mod proposal_session;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    process::Command,
};

use clap::Args;

use crate::{
    cli::{
        arguments::{NatsArgs, QueueSourceArgs, SessionArgs, session_name},
        error::{CliError, CliResult},
        launch::session_names::{dated, first_free},
        output::{json, print, say},
        plan::proposal_session::{check, prompt, proposal_of, types},
        target::project::{self, Project},
        task::queue::QueueConnection,
    },
    engine::queue::{
        task_proposal::{ProposalMistake, ProposedTask, TaskProposal},
        task_spec::TaskSpec,
    },
    engine::wording::counted,
    present::text::plain_line,
    process::{children::output_of, editor::EditorFile},
};

/// The exit code when the user has to decide.
const NEEDS_USER: u8 = 4;
/// The longest goal in a line of the tree, in characters.
const GOAL: usize = 100;
/// What the editor shows above the proposal.
const EDIT_NOTE: &str = "# Change, add and delete tasks, then save. To queue none, delete everything.\n";

/// What to plan.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
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
    if args.goal.as_ref().is_some_and(|goal| goal.trim().is_empty()) {
        return Err(CliError::usage(
            "the goal is empty; say what you want, such as `creel plan \"Add an export to CSV.\"`",
        ));
    }
    let types = types(&Project::load(&args.queue.config)?);
    let mut session = match &args.session {
        Some(session) => session.clone(),
        None => match propose(args, &prompt(args.goal.as_deref().unwrap_or_default(), &types))? {
            Ok(session) => session,
            Err(code) => return Ok(code),
        },
    };
    let mut proposal = usable(proposal_of(&args.queue.config, &session, &types)?, &session)?;
    let asks = !args.yes && !args.json && io::stdin().is_terminal() && io::stdout().is_terminal();
    if args.json && !args.yes {
        return json(&proposal);
    }
    loop {
        if !args.json {
            print(&tree(&proposal))?;
        }
        let decision = match (args.yes, asks) {
            (true, _) => PlanDecision::Queue,
            (false, true) => decide(proposal.tasks.len())?,
            (false, false) => {
                say(&format!(
                    "creel: nothing is queued yet; queue these tasks with `creel plan --session {session} --yes`"
                ));
                return Ok(NEEDS_USER);
            }
        };
        match decision {
            PlanDecision::Queue => return queue(args, &proposal, &session),
            PlanDecision::Edit => match edited(&proposal, &types)? {
                Some(changed) => proposal = changed,
                None => return Ok(leave(&session)),
            },
            PlanDecision::Revise(wish) => {
                let text = serde_json::to_string_pretty(&proposal).unwrap_or_default();
                let goal = args.goal.as_deref().unwrap_or("the tasks below");
                let again = format!("{goal}\n\nYou proposed this:\n{text}\n\nChange it: {wish}");
                match propose(args, &prompt(&again, &types))? {
                    Ok(revised) => {
                        session = revised;
                        proposal = usable(proposal_of(&args.queue.config, &session, &types)?, &session)?;
                    }
                    Err(code) => return Ok(code),
                }
            }
            PlanDecision::Leave => return Ok(leave(&session)),
        }
    }
}

fn leave(session: &str) -> u8 {
    say(&format!("creel: nothing is queued; the proposal stays: `creel plan --session {session}`"));
    0
}

fn usable(found: Result<TaskProposal, Vec<ProposalMistake>>, session: &str) -> CliResult<TaskProposal> {
    found.map_err(|mistakes| {
        let list: String = mistakes.iter().map(|mistake| format!("\n  - {mistake}")).collect();
        CliError::failed(format!(
            "session `{session}` has no proposal that can be used:{list}\n  ask for one with `creel plan \"GOAL\"`"
        ))
    })
}

/// Runs the session of the agent. Returns its name, or its exit code if it did not complete.
fn propose(args: &PlanArgs, prompt: &str) -> CliResult<Result<String, u8>> {
    let (_, sessions) = project::sessions_of(&args.queue.config)?;
    let name = first_free(&sessions, &dated("plan")).name;
    let cannot = |error: &dyn std::fmt::Display| CliError::failed(format!("cannot start the agent's session: {error}"));
    // A file of its own, since the terminal is the session's.
    let file = EditorFile::new(prompt).map_err(|error| cannot(&error))?;
    let mut command = Command::new(std::env::current_exe().map_err(|error| cannot(&error))?);
    command.args(["run", "--proposal", "--session", &name, "--prompt-file"]).arg(file.path());
    if let Some(agent) = &args.agent {
        command.args(["--agent", agent]);
    }
    if let Some(config) = &args.queue.config.config {
        command.arg("--config").arg(config);
    }
    if args.trust {
        command.arg("--trust");
    }
    let is_shown = io::stdout().is_terminal() && io::stdin().is_terminal() && !args.headless && !args.json;
    let status = if is_shown {
        command.status()
    } else {
        command.arg("--headless").stdin(std::process::Stdio::null());
        output_of(&mut command).map(|ran| {
            let _ = io::stderr().write_all(&ran.stdout).and_then(|()| io::stderr().write_all(&ran.stderr));
            ran.status
        })
    };
    file.remove();
    let status = status.map_err(|error| cannot(&error))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(if code == 0 { Ok(name) } else { Err(code) })
}

fn tree(proposal: &TaskProposal) -> String {
    let line = |line: crate::engine::queue::task_proposal::ProposalLine<'_>| {
        let ProposedTask { id, goal, kind, .. } = line.task;
        let kind = kind.as_ref().map(|kind| format!(" ({kind})")).unwrap_or_default();
        let after = if line.also_after.is_empty() {
            String::new()
        } else {
            format!(" [also after {}]", line.also_after.join(", "))
        };
        let indent = "  ".repeat(line.depth);
        let sign = if line.depth == 0 { "" } else { "└ " };
        format!("{indent}{sign}{id}{kind}: {}{after}\n", plain_line(goal, GOAL))
    };
    proposal.tree().into_iter().map(line).collect()
}

fn decide(count: usize) -> CliResult<PlanDecision> {
    let tasks = if count == 1 { "this task".to_owned() } else { format!("these {}", counted(count, "task")) };
    loop {
        let question = format!("Queue {tasks}? [y]es, [e]dit, [n]o, or say what should be different: ");
        let _ = io::stderr().write_all(question.as_bytes());
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        let read = read.map_err(|error| CliError::failed(format!("cannot read the answer: {error}")))?;
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
    let mut text = format!("{EDIT_NOTE}{}", as_yaml(proposal));
    loop {
        let sheet = EditorFile::new(text.trim_end()).map_err(|error| CliError::failed(error.to_string()))?;
        let changed = sheet.read(sheet.command().status()).map_err(|error| CliError::failed(error.to_string()))?;
        sheet.remove();
        let is_empty = changed.lines().all(|line| line.trim().is_empty() || line.starts_with('#'));
        if is_empty {
            return Ok(None);
        }
        let mistakes = match serde_yaml::from_str::<TaskProposal>(&changed) {
            Ok(proposal) => match proposal.mistakes(types) {
                mistakes if mistakes.is_empty() => return Ok(Some(proposal)),
                mistakes => mistakes.iter().map(ToString::to_string).collect(),
            },
            Err(error) => vec![error.to_string()],
        };
        let kept: String =
            changed.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        let note: String = mistakes.iter().map(|mistake| format!("# {}\n", mistake.replace('\n', " "))).collect();
        text = format!("{EDIT_NOTE}# This cannot be queued yet:\n{note}{kept}");
    }
}

/// The proposal for an editor. A text in quotes is the same in JSON and in YAML.
fn as_yaml(proposal: &TaskProposal) -> String {
    let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let task = |task: &ProposedTask| {
        let ProposedTask { id, goal, depends_on, kind, priority } = task;
        let after: Vec<String> = depends_on.iter().map(|on| quoted(on)).collect();
        let kind = kind.as_ref().map(|kind| format!("  type: {}\n", quoted(kind))).unwrap_or_default();
        format!(
            "- id: {}\n  goal: {}\n  depends_on: [{}]\n{kind}  priority: {priority}\n",
            quoted(id),
            quoted(goal),
            after.join(", ")
        )
    };
    format!("tasks:\n{}", proposal.tasks.iter().map(task).collect::<String>())
}

/// Puts the tasks into the queue, each after those that it depends on. Their label is the session that proposed them, so
/// that none is queued twice.
fn queue(args: &PlanArgs, proposal: &TaskProposal, session: &str) -> CliResult {
    let queue = SessionArgs {
        config: args.queue.config.clone(),
        nats: NatsArgs { url: args.queue.url.clone() },
        ..SessionArgs::default()
    };
    let mut connection = QueueConnection::open(&queue)?;
    let present = connection.all()?;
    let label = session.to_owned();
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut added = 0;
    for task in proposal.in_order() {
        let is_it = |spec: &TaskSpec| spec.goal == task.goal && spec.labels.contains(&label);
        let number = if let Some(queued) = present.iter().find(|queued| is_it(&queued.order)) {
            let number = queued.order.id.clone();
            say(&format!("creel: task {number} is in the queue already: {}", plain_line(&task.goal, GOAL)));
            number
        } else {
            // Numbers, since a name can be used only once in the life of a queue.
            let spec = TaskSpec { id: String::new(), labels: vec![label.clone()], ..task.spec(&names) };
            let number = connection.add(spec)?;
            added += 1;
            say(&format!("creel: task {number}: {}", plain_line(&task.goal, GOAL)));
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
