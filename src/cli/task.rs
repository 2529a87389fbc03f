//! `creel task`: the task graph of a session, looked at and changed from another terminal or by the
//! agent itself.

pub(in crate::cli) mod queue;

use clap::{ArgGroup, Args, Subcommand};

use crate::{
    cli::{
        arguments::{ArgumentError, SessionArgs, queue_name},
        error::{CliError, CliResult, json, print, refusal_as_json, say, warn_of},
        target::{self, ask, given, other_answer, remote_sessions::NatsServerConnection, reply_to},
    },
    engine::{
        input::SessionCommand,
        queue::QueueRequest,
        tasks::{
            command::{NewTask, TaskChanges, TaskCommand, TaskCompletion},
            graph::{LOWEST, TaskDescriptionChanges, TaskGraph, TaskState},
        },
    },
    journal::{self, SessionDir},
    present::{
        tables,
        task_view::{self, TaskView},
    },
    protocol::{ClientKind, ReplyData, SessionQuery, SessionRequest, SessionRequestError},
    sessions::session_client::request_once,
};

/// The task graph.
#[derive(Debug, Args)]
pub struct TaskArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: TaskCliCommand,
}

/// What to do with tasks.
#[derive(Debug, Subcommand)]
pub enum TaskCliCommand {
    /// Add a task, and print its name.
    Add(TaskAddArgs),
    /// List the tasks in the order in which they were added.
    List(TaskListArgs),
    /// Show a task.
    Show(TaskShowArgs),
    /// Start a task.
    Start(TaskStartArgs),
    /// Complete a task; hooks at `on_task_complete` run once for it.
    Done(TaskDoneArgs),
    /// Mark a task as blocked.
    Block(TaskBlockArgs),
    /// Change a task. Only what you name changes.
    Update(TaskUpdateArgs),
    /// Make a task depend on another, or remove the dependency with --remove.
    Depend(TaskDependArgs),
    /// Remove a task. Tasks that depend on it no longer do.
    Remove(TaskRemoveArgs),
}

/// Whose task it is.
#[derive(Debug, Default, Clone, Args)]
pub struct QueueArgs {
    /// Use the queue of `creel worker`: on the NATS server (--nats, or `nats:` in the config), or
    /// else of this project. The tasks of a session are named SESSION/ID there. --queue=NAME: on a
    /// server, the queue of this name (`nats.queue`).
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = queue_name)]
    pub queue: Option<String>,
}

impl QueueArgs {
    pub(super) const fn is_meant(&self) -> bool {
        self.queue.is_some()
    }

    /// The name that the user gave.
    fn name(&self) -> Option<&str> {
        self.queue.as_deref().filter(|name| !name.is_empty())
    }
}

/// A task to be added.
#[derive(Debug, Args)]
pub struct TaskAddArgs {
    /// The goal, or `-` to read it from standard input.
    pub goal: String,
    /// The task's name: letters, digits, `-` and `_`. Default: the next number.
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// What the task must produce; can be repeated.
    #[arg(short, long = "deliverable", value_name = "TEXT")]
    pub deliverables: Vec<String>,
    /// A label; can be repeated.
    #[arg(short, long = "label", value_name = "LABEL")]
    pub labels: Vec<String>,
    /// The priority from 0, the highest, to 4. Default: 2.
    #[arg(short, long, value_name = "0-4", value_parser = clap::value_parser!(u8).range(0..=i64::from(LOWEST)))]
    pub priority: Option<u8>,
    /// The type, one of the config's `task_types`.
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// The parent task.
    #[arg(long, value_name = "ID")]
    pub parent: Option<String>,
    /// A task that must be completed first; can be repeated.
    #[arg(long = "depends-on", value_name = "ID")]
    pub dependencies: Vec<String>,
    /// Add it to the queue of `creel worker`: on the NATS server (--nats, or `nats:` in the
    /// config), or else of this project. With --session, or inside a session, it stays a task of
    /// that session, and enters the queue when it is ready. --queue=NAME: on a server, the queue of
    /// this name (`nats.queue`).
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = queue_name)]
    pub queue: Option<String>,
    /// In the queue: an agent that may do it, in addition to the agents of its type; can be
    /// repeated.
    #[arg(long = "agent", value_name = "NAME", requires = "queue")]
    pub agents: Vec<String>,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// Which tasks to list.
#[derive(Debug, Args)]
pub struct TaskListArgs {
    /// Only tasks in this state: created (waiting), ready, active, blocked, completed (done); can
    /// be repeated.
    #[arg(long = "state", value_name = "STATE", value_parser = state)]
    pub states: Vec<TaskState>,
    /// Only tasks with this label; several labels must all be present.
    #[arg(short, long = "label", value_name = "LABEL")]
    pub labels: Vec<String>,
    /// Only tasks of this type.
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Where it is.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// Which task to show.
#[derive(Debug, Args)]
pub struct TaskShowArgs {
    /// The task's name.
    pub id: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Where it is.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// Which task to begin with.
#[derive(Debug, Args)]
pub struct TaskStartArgs {
    /// The task's name.
    pub id: String,
    /// What the agent that works on it should know.
    #[arg(long, value_name = "TEXT")]
    pub context: Option<String>,
    /// Where it is.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// What was done.
#[derive(Debug, Args)]
pub struct TaskDoneArgs {
    /// The task's name. A task of another program, which the graph does not have, needs --content.
    pub id: String,
    /// The result, or `-` to read it from standard input.
    #[arg(short, long, value_name = "TEXT")]
    pub result: Option<String>,
    /// A file or another artifact that the task produced; can be repeated.
    #[arg(
        short,
        long = "artifact",
        value_name = "ARTIFACT",
        conflicts_with = "queue"
    )]
    pub artifacts: Vec<String>,
    /// The description for hooks. Default: the task's goal.
    #[arg(long, value_name = "TEXT", conflicts_with = "queue")]
    pub content: Option<String>,
    /// Where it is.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// What holds a task.
#[derive(Debug, Args)]
pub struct TaskBlockArgs {
    /// The task's name.
    pub id: String,
    /// The reason, or `-` to read it from standard input.
    pub reason: String,
    /// What the agent must know to continue; can be repeated.
    #[arg(long = "needs", value_name = "KNOWLEDGE", conflicts_with = "queue")]
    pub needs: Vec<String>,
    /// Where it is.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// What shall be different about a task.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("change").required(true).multiple(true))]
pub struct TaskUpdateArgs {
    /// The task's name.
    pub id: String,
    /// The new goal, or `-` to read it from standard input.
    #[arg(long, value_name = "TEXT", group = "change")]
    pub goal: Option<String>,
    /// What the task must produce, replacing the current list; can be repeated.
    #[arg(short, long = "deliverable", value_name = "TEXT", group = "change")]
    pub deliverables: Option<Vec<String>>,
    /// A label, replacing the current labels; can be repeated.
    #[arg(short, long = "label", value_name = "LABEL", group = "change")]
    pub labels: Option<Vec<String>>,
    /// A label to add; can be repeated.
    #[arg(long = "add-label", value_name = "LABEL", group = "change")]
    pub add_labels: Vec<String>,
    /// A label to remove; can be repeated.
    #[arg(long = "remove-label", value_name = "LABEL", group = "change")]
    pub remove_labels: Vec<String>,
    /// The priority from 0, the highest, to 4.
    #[arg(short, long, value_name = "0-4", group = "change")]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=i64::from(LOWEST)))]
    pub priority: Option<u8>,
    /// The type, one of the config's `task_types`.
    #[arg(short = 't', long = "type", value_name = "TYPE", group = "change")]
    pub kind: Option<String>,
    /// The parent task.
    #[arg(long, value_name = "ID", group = "change", conflicts_with = "queue")]
    pub parent: Option<String>,
    /// Where it is.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// What waits for what.
#[derive(Debug, Args)]
pub struct TaskDependArgs {
    /// The task that depends on the other.
    pub id: String,
    /// The task that must be completed first.
    pub on: String,
    /// Remove the dependency.
    #[arg(long)]
    pub remove: bool,
    /// Where it is.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// Which task.
#[derive(Debug, Args)]
pub struct TaskRemoveArgs {
    /// The task's name.
    pub id: String,
    /// Where it is.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

impl TaskCliCommand {
    /// Whether it changes a task of the queue that exists already.
    pub(super) fn changes_queue(&self) -> bool {
        match self {
            Self::Start(TaskStartArgs { queue, .. })
            | Self::Done(TaskDoneArgs { queue, .. })
            | Self::Block(TaskBlockArgs { queue, .. })
            | Self::Update(TaskUpdateArgs { queue, .. })
            | Self::Depend(TaskDependArgs { queue, .. })
            | Self::Remove(TaskRemoveArgs { queue, .. }) => queue.is_meant(),
            Self::Add(_) | Self::List(_) | Self::Show(_) => false,
        }
    }
}

pub(super) fn task(verb: TaskCliCommand) -> CliResult {
    match verb {
        TaskCliCommand::Add(args) if args.queue.is_some() => queue::add(args),
        TaskCliCommand::Add(args) => add(args),
        TaskCliCommand::List(args) if args.queue.is_meant() => queue::list(&args),
        TaskCliCommand::Show(args) if args.queue.is_meant() => queue::show(&args),
        TaskCliCommand::Start(args) if args.queue.is_meant() => queue::start(args),
        TaskCliCommand::Done(TaskDoneArgs {
            id,
            result,
            session,
            queue,
            ..
        }) if queue.is_meant() => {
            let result = result.as_deref().map(given).transpose()?;
            queue::done(&session, &queue, &id, result)
        }
        TaskCliCommand::Block(TaskBlockArgs {
            id,
            reason,
            session,
            queue,
            ..
        }) if queue.is_meant() => {
            queue::ask(&session, &queue, &id, &QueueRequest::Block(given(&reason)?))
        }
        TaskCliCommand::Remove(TaskRemoveArgs { id, session, queue }) if queue.is_meant() => {
            queue::ask(&session, &queue, &id, &QueueRequest::Remove)
        }
        TaskCliCommand::Update(args) if args.queue.is_meant() => queue::update(args),
        TaskCliCommand::Depend(TaskDependArgs {
            id,
            on,
            remove,
            session,
            queue,
        }) if queue.is_meant() => {
            let request = if remove {
                QueueRequest::Undepend { on }
            } else {
                QueueRequest::Depend { on }
            };
            queue::ask(&session, &queue, &id, &request)
        }
        TaskCliCommand::List(args) => list(&args),
        TaskCliCommand::Show(args) => show(&args),
        TaskCliCommand::Start(TaskStartArgs {
            id,
            context,
            session,
            ..
        }) => change(&session, TaskCommand::Start { id, context }),
        TaskCliCommand::Done(args) => done(args),
        TaskCliCommand::Block(TaskBlockArgs {
            id,
            reason,
            needs,
            session,
            ..
        }) => {
            let reason = given(&reason)?;
            change(
                &session,
                TaskCommand::Block {
                    id,
                    reason,
                    required_knowledge: needs,
                },
            )
        }
        TaskCliCommand::Update(args) => update(args),
        TaskCliCommand::Depend(TaskDependArgs {
            id,
            on,
            remove: false,
            session,
            ..
        }) => change(&session, TaskCommand::Depend { id, on }),
        TaskCliCommand::Depend(TaskDependArgs {
            id,
            on,
            remove: true,
            session,
            ..
        }) => change(&session, TaskCommand::Undepend { id, on }),
        TaskCliCommand::Remove(TaskRemoveArgs { id, session, .. }) => {
            change(&session, TaskCommand::Remove { id })
        }
    }
}

fn change(session: &SessionArgs, task: TaskCommand) -> CliResult {
    ask(session, SessionCommand::Task { task })
}

fn add(args: TaskAddArgs) -> CliResult {
    let (new, _, session) = args.described()?;
    print(&(add_to_session(&session, new)? + "\n"))
}

impl TaskAddArgs {
    /// The task, where it goes, and the session that it is for.
    fn described(self) -> CliResult<(NewTask, QueueArgs, SessionArgs)> {
        let new = NewTask {
            id: self.id,
            goal: given(&self.goal)?,
            deliverables: self.deliverables,
            labels: self.labels,
            priority: self.priority,
            kind: self.kind,
            parent: self.parent,
            dependencies: self.dependencies,
            queue: self
                .queue
                .as_ref()
                .map(|_| self.agents.into_iter().collect()),
        };
        Ok((new, QueueArgs { queue: self.queue }, self.session))
    }
}

/// Adds a task to a session, and returns its name.
pub(super) fn add_to_session(session: &SessionArgs, new: NewTask) -> CliResult<String> {
    let command = SessionCommand::Task {
        task: TaskCommand::Add(new),
    };
    match reply_to(session, command)? {
        Some(ReplyData::Added(id)) => Ok(id),
        Some(_) | None => Err(other_answer()),
    }
}

fn done(args: TaskDoneArgs) -> CliResult {
    let TaskDoneArgs {
        id,
        result,
        artifacts,
        content,
        session,
        ..
    } = args;
    let result = result.as_deref().map(given).transpose()?;
    change(
        &session,
        TaskCommand::Complete(TaskCompletion {
            id,
            content,
            result,
            artifacts,
        }),
    )
}

fn update(args: TaskUpdateArgs) -> CliResult {
    let (id, session, changes) = args.changes()?;
    change(&session, TaskCommand::Update { id, changes })
}

impl TaskUpdateArgs {
    fn changes(self) -> CliResult<(String, SessionArgs, TaskChanges)> {
        let changes = TaskChanges {
            description: TaskDescriptionChanges {
                goal: self.goal.as_deref().map(given).transpose()?,
                deliverables: self.deliverables,
                labels: self.labels,
                priority: self.priority,
                kind: self.kind,
                parent: self.parent,
            },
            add_labels: self.add_labels,
            remove_labels: self.remove_labels,
        };
        Ok((self.id, self.session, changes))
    }
}

fn list(args: &TaskListArgs) -> CliResult {
    refusal_as_json(args.json, list_tasks(args))
}

fn list_tasks(args: &TaskListArgs) -> CliResult {
    let mut tasks = all_of(&args.session)?;
    let has_tasks = !tasks.is_empty();
    tasks.retain(|task| is_wanted(args, task));
    if args.json {
        return json(&tasks);
    }
    if tasks.is_empty() {
        say(if has_tasks {
            "creel: no tasks match"
        } else {
            "creel: no tasks; add one with `creel task add`"
        });
        return Ok(0);
    }
    print(&tables::task_table(&tasks))
}

/// All tasks of a session, running or past.
pub(super) fn all_of(session: &SessionArgs) -> CliResult<Vec<TaskView>> {
    match known(session, SessionQuery::TaskList)? {
        TaskLookup::Replied(ReplyData::Tasks(tasks)) => Ok(tasks),
        TaskLookup::Replied(_) => Err(other_answer()),
        TaskLookup::OnRecord(graph) => Ok(task_view::all(&graph)),
    }
}

/// The same, or those of the last session if none runs.
pub(super) fn all_of_last(session: &SessionArgs) -> CliResult<Vec<TaskView>> {
    let is_local = session.session.is_none() && session.nats.url.is_none();
    if is_local && target::running_if_any(session)?.is_none() {
        let last = target::called_or_latest(None, &session.config)?;
        return Ok(task_view::all(&on_record(&last)?));
    }
    all_of(session)
}

fn is_wanted(args: &TaskListArgs, task: &TaskView) -> bool {
    let TaskListArgs {
        states,
        labels,
        kind,
        ..
    } = args;
    (states.is_empty() || states.contains(&task.state))
        && labels.iter().all(|label| task.labels.contains(label))
        && kind
            .as_ref()
            .is_none_or(|kind| task.kind.as_ref() == Some(kind))
}

fn show(args: &TaskShowArgs) -> CliResult {
    refusal_as_json(args.json, show_task(args))
}

fn show_task(args: &TaskShowArgs) -> CliResult {
    let task = match known(
        &args.session,
        SessionQuery::TaskShow {
            id: args.id.clone(),
        },
    )? {
        TaskLookup::Replied(ReplyData::Task(task)) => *task,
        TaskLookup::Replied(_) => return Err(other_answer()),
        TaskLookup::OnRecord(graph) => {
            task_view::one(&graph, &args.id).map_err(CliError::refused)?
        }
    };
    if args.json {
        json(&task)
    } else {
        print(&tables::task_details(&task))
    }
}

/// Where the tasks of a session are known from.
enum TaskLookup {
    /// The session runs, and this is its reply.
    Replied(ReplyData),
    /// It does not run: these are the tasks that its journal tells of.
    OnRecord(Box<TaskGraph>),
}

/// Asks the session that is meant; one that is named need not run.
fn known(session: &SessionArgs, request: impl Into<SessionRequest>) -> CliResult<TaskLookup> {
    let replied =
        |reply: Option<ReplyData>| reply.map(TaskLookup::Replied).ok_or_else(other_answer);
    if let Some(server) = NatsServerConnection::named(&session.nats, &session.config)? {
        return replied(server.reply_to(session, request)?);
    }
    let (_, sessions) = target::sessions_of(&session.config)?;
    let folder = match target::named(session, &sessions)? {
        Some(folder) => folder,
        None => target::running_or_past(session).map_err(|error| {
            error.with(|why| format!("{why}\n  the tasks of the queue: `creel task list --queue`"))
        })?,
    };
    match request_once(&folder, ClientKind::Cli, request) {
        Ok(reply) => replied(reply),
        // It may have ended just now.
        Err(SessionRequestError::NotRunning(_) | SessionRequestError::Ended(_)) => {
            Ok(TaskLookup::OnRecord(Box::new(on_record(&folder)?)))
        }
        Err(
            error @ (SessionRequestError::Unreachable { .. }
            | SessionRequestError::Unanswered { .. }
            | SessionRequestError::Refused(_)
            | SessionRequestError::NotSent(_)),
        ) => Err(error.into()),
    }
}

/// The tasks that a journal tells of.
pub(super) fn on_record(folder: &SessionDir) -> CliResult<TaskGraph> {
    let (state, disorder) = journal::fold_checked(&folder.journal())?;
    warn_of(disorder.as_ref());
    Ok(state.tasks.graph)
}

fn state(text: &str) -> Result<TaskState, ArgumentError> {
    match text {
        "done" => Ok(TaskState::Completed),
        "waiting" => Ok(TaskState::Created),
        _ => TaskState::ALL
            .into_iter()
            .find(|state| state.name() == text)
            .ok_or(ArgumentError::NoSuchState),
    }
}
