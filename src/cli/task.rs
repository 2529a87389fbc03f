//! The arguments of `creel task`.

use clap::{ArgGroup, Args, Subcommand};

use crate::{
    cli::{ArgumentError, control::SessionArgs},
    engine::tasks::task::{LOWEST, TaskState},
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
    /// List the tasks, in the order in which they were added; of a past session with --session.
    List(TaskListArgs),
    /// Print all that is known of a task; of a past session with --session.
    Show(TaskShowArgs),
    /// Begin with a task.
    Start(TaskStartArgs),
    /// Complete a task; hooks at `on_task_complete` run once for it.
    Done(TaskDoneArgs),
    /// Say that a task cannot be gone on with.
    Block(TaskBlockArgs),
    /// Change what is known of a task; what is not named stays as it is.
    Update(TaskUpdateArgs),
    /// Let a task wait for another, or with --remove no longer.
    Depend(TaskDependArgs),
    /// Remove a task. Tasks that waited for it no longer do.
    Remove(TaskRemoveArgs),
}

/// Whose task it is.
#[derive(Debug, Default, Clone, Copy, Args)]
pub struct QueueArgs {
    /// A task of the queue that workers on many machines take from (`creel worker`), at the server of --nats or of the
    /// config; one that a session has put there is SESSION/ID.
    #[arg(long)]
    pub queue: bool,
}

/// A task to be added.
#[derive(Debug, Args)]
pub struct TaskAddArgs {
    /// What is to be reached, or `-` to read it from standard input.
    pub goal: String,
    /// Its name: letters, digits, `-` and `_`; otherwise the next number.
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// What is to be there in the end; can be repeated.
    #[arg(short, long = "deliverable", value_name = "TEXT")]
    pub deliverables: Vec<String>,
    /// A word to find it by; can be repeated.
    #[arg(short, long = "label", value_name = "LABEL")]
    pub labels: Vec<String>,
    /// From 0, the highest, to 4; otherwise 2.
    #[arg(short, long, value_name = "0-4", value_parser = clap::value_parser!(u8).range(0..=i64::from(LOWEST)))]
    pub priority: Option<u8>,
    /// Its type, one of the config's `task_types`.
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// The task that it came from.
    #[arg(long, value_name = "ID")]
    pub parent: Option<String>,
    /// A task that has to be completed before it; can be repeated.
    #[arg(long = "depends-on", value_name = "ID")]
    pub dependencies: Vec<String>,
    /// Put it into the queue that workers on many machines take from (`creel worker`), at the server of --nats or of the config.
    /// With --session, or from within a session, it stays a task of that session, and goes into the queue when it is ready.
    #[arg(long)]
    pub queue: bool,
    /// In the queue: a worker that may do it, in addition to what its type says; can be repeated.
    #[arg(long = "agent", value_name = "NAME", requires = "queue")]
    pub agents: Vec<String>,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// Which tasks to list.
#[derive(Debug, Args)]
pub struct TaskListArgs {
    /// Only those in this state: created, ready, active, blocked, completed; can be repeated.
    #[arg(long = "state", value_name = "STATE", value_parser = state)]
    pub states: Vec<TaskState>,
    /// Only those with this label; with several, those that bear all of them.
    #[arg(short, long = "label", value_name = "LABEL")]
    pub labels: Vec<String>,
    /// Only those of this type.
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// Print it as JSON.
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
    /// Print it as JSON.
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
    #[arg(long, value_name = "TEXT", conflicts_with = "queue")]
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
    /// The task's name; one that is not in the graph is a task of another program, and needs --content.
    pub id: String,
    /// What came of it, or `-` to read it from standard input.
    #[arg(short, long, value_name = "TEXT")]
    pub result: Option<String>,
    /// Something that was made; can be repeated.
    #[arg(short, long = "artifact", value_name = "ARTIFACT", conflicts_with = "queue")]
    pub artifacts: Vec<String>,
    /// What it was about, as hooks are told; otherwise its goal.
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
    /// Why, or `-` to read it from standard input.
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
    /// What is to be reached.
    #[arg(long, value_name = "TEXT", group = "change")]
    pub goal: Option<String>,
    /// What is to be there in the end, instead of what was; can be repeated.
    #[arg(short, long = "deliverable", value_name = "TEXT", group = "change")]
    pub deliverables: Option<Vec<String>>,
    /// A label instead of those that it has; can be repeated.
    #[arg(short, long = "label", value_name = "LABEL", group = "change")]
    pub labels: Option<Vec<String>>,
    /// One label more; can be repeated.
    #[arg(long = "add-label", value_name = "LABEL", group = "change")]
    pub add_labels: Vec<String>,
    /// One label less; can be repeated.
    #[arg(long = "remove-label", value_name = "LABEL", group = "change")]
    pub remove_labels: Vec<String>,
    /// From 0, the highest, to 4.
    #[arg(short, long, value_name = "0-4", group = "change")]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=i64::from(LOWEST)))]
    pub priority: Option<u8>,
    /// Its type, one of the config's `task_types`.
    #[arg(short = 't', long = "type", value_name = "TYPE", group = "change")]
    pub kind: Option<String>,
    /// The task that it came from.
    #[arg(long, value_name = "ID", group = "change")]
    pub parent: Option<String>,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// What waits for what.
#[derive(Debug, Args)]
pub struct TaskDependArgs {
    /// The task that waits.
    pub id: String,
    /// The task that has to be completed before it.
    pub on: String,
    /// It no longer waits.
    #[arg(long)]
    pub remove: bool,
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

fn state(text: &str) -> Result<TaskState, ArgumentError> {
    let named = TaskState::ALL.into_iter().find(|state| state.name() == text);
    named.ok_or(ArgumentError::NoSuchState)
}
