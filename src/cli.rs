//! The arguments of all commands. Does not run them.

pub mod control;
pub mod headless;
pub mod record_formatter;
pub mod task;
pub mod worker;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::{
    cli::control::{
        AttachArgs, CheckpointArgs, GateArgs, HooksArgs, MessageArgs, PendingArgs, SessionArgs, StatusArgs, StopArgs,
    },
    engine::{hooks::point::HookPoint, tasks::task::TaskState},
};
use task::TaskArgs;
use worker::WorkerArgs;

/// Supervise coding-agent sessions: hooks around every step, held output, retries, gates.
#[derive(Debug, Parser)]
#[command(name = "creel", version, about, max_term_width = 100)]
#[command(after_help = "Start with `creel demo`, then `creel init` in a project of yours.")]
pub struct Cli {
    /// This is the process with the session and its screen: the one that was started waits for it.
    #[arg(long, hide = true)]
    pub held: bool,
    /// What to do; without it, `run`, where a config is found.
    #[command(subcommand)]
    pub command: Option<CliCommand>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Supervise a session.
    Run(RunArgs),
    /// Watch a built-in session in a throw-away folder: nothing to install, no network, no model.
    Demo(DemoArgs),
    /// Write `creel.yaml` for this project; never overwrites.
    Init(InitArgs),
    /// Validate the config, check that what it needs is installed, and print the resulting plan.
    Check(CheckArgs),
    /// Print the annotated example config, or the path of the config in use.
    Config(ConfigCommandArgs),
    /// List the agents: how each would be run, its version, and how to install those that are missing.
    Agents(AgentsArgs),
    /// Go on with a session that stopped or was killed.
    Resume(ResumeArgs),
    /// Open a second screen on a session that runs; leaving it leaves the session running.
    Attach(AttachArgs),
    /// List the sessions of this project.
    Sessions(SessionListArgs),
    /// Print what happened in a session.
    Show(ShowArgs),
    /// Watch a past session again, step by step or at speed.
    Replay(ReplayArgs),
    /// Tell how a running session is.
    Status(StatusArgs),
    /// Send no further prompt for now.
    Pause(SessionArgs),
    /// Go on.
    Unpause(SessionArgs),
    /// End a session when its iteration is completed, or now.
    Stop(StopArgs),
    /// Say something to the agent, when its turn ends.
    Message(MessageArgs),
    /// Look at and change the held output.
    Pending(PendingArgs),
    /// See which gate waits, and answer it.
    Gate(GateArgs),
    /// See hooks, switch them, run one now, see how they did.
    Hooks(HooksArgs),
    /// Look at what hooks and the agent gave to be kept on the way.
    Checkpoint(CheckpointArgs),
    /// Look at and change the task graph.
    Task(TaskArgs),
    /// Take tasks from the queue of a NATS server, one after another, and run a session for each.
    Worker(WorkerArgs),
    /// Serve the session's tools to an agent: an MCP server on standard input and output.
    Mcp(SessionArgs),
    /// Submit the work: of the session that is named or runs, or else of this folder as it is.
    Submit(PipelineArgs),
    /// Merge the work, when every check before that has passed.
    Merge(PipelineArgs),
    /// Allow this project's hooks and agents to run.
    Trust(ConfigArgs),
    /// Take that back.
    Untrust(ConfigArgs),
    /// Print a JSON Schema of the config, for editors.
    Schema,
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page.
    Man,
}

/// Which config.
#[derive(Debug, Default, Clone, Args)]
pub struct ConfigArgs {
    /// The config; otherwise creel.yaml, creel.yml, creel.json or .creel/config.yaml here or above.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Which server, for sessions on other machines.
#[derive(Debug, Default, Args)]
pub struct NatsArgs {
    /// Look on other machines, by a NATS server; the user to log in is in the URL (`${NAME}` is a variable of the
    /// environment) or in the config.
    #[arg(long = "nats", value_name = "URL")]
    pub url: Option<String>,
}

/// How to run a session.
#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// What the agent is asked to do.
    pub prompt: Option<String>,
    /// Read the prompt from a file.
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "prompt")]
    pub prompt_file: Option<PathBuf>,
    /// Which config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The agent: one of the config's `agents`, or a known name. `A,B`: B takes over while A has reached its usage limit.
    #[arg(short, long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The session's name: letters, digits, `-` and `_`.
    #[arg(short, long, value_name = "NAME", value_parser = session_name)]
    pub session: Option<String>,
    /// How many iterations there may be.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_iterations: Option<u32>,
    /// The type of the task, one of the config's `task_types`.
    #[arg(short, long, value_name = "TYPE")]
    pub task_type: Option<String>,
    /// Take over the tasks that another session of this project has not completed.
    #[arg(long, value_name = "SESSION", value_parser = session_name)]
    pub tasks_from: Option<String>,
    /// Tell it to this NATS server, and let it be steered from there; otherwise as `nats:` of the config says.
    #[arg(long = "nats", value_name = "URL")]
    pub nats: Option<String>,
    /// The task of a queue that it works on.
    #[arg(long, hide = true)]
    pub order: Option<String>,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Whether to show it.
    #[command(flatten)]
    pub detach: DetachArgs,
    /// Trust this config's hooks and agents, and remember it.
    #[arg(long)]
    pub trust: bool,
}

/// What to submit or merge.
#[derive(Debug, Args)]
pub struct PipelineArgs {
    /// The session; otherwise the one that runs, or none: then the folder as it is.
    #[arg(value_parser = session_name)]
    pub session: Option<String>,
    /// Which config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Without a session: the type of the work, one of the config's `task_types`.
    #[arg(short, long, value_name = "TYPE", conflicts_with = "session")]
    pub task_type: Option<String>,
    /// Without a session: the agent that repairs what a check says.
    #[arg(short, long, value_name = "NAME", conflicts_with = "session")]
    pub agent: Option<String>,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Trust what would run, and remember it.
    #[arg(long)]
    pub trust: bool,
}

/// How to show a session that runs.
#[derive(Debug, Default, Clone, Copy, Args)]
pub struct OutputArgs {
    /// No screen: print what happens as lines, and let gates take their policy answer.
    #[arg(long)]
    pub headless: bool,
    /// Print records, one a line; implies --headless.
    #[arg(long)]
    pub json: bool,
    /// Without a screen, a user still answers gates, from elsewhere.
    #[arg(long, hide = true)]
    pub attended: bool,
}

/// Whether a session goes into the background.
#[derive(Debug, Default, Clone, Copy, Args)]
pub struct DetachArgs {
    /// Run in the background and print the session's name; its gates wait for `creel attach` or `creel gate answer`.
    #[arg(long, conflicts_with_all = ["headless", "json"])]
    pub detach: bool,
    /// This is the process in the background.
    #[arg(long, hide = true)]
    pub background: bool,
}

/// What to write.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// What decides when the work is complete: `tdd` (the tests pass), `security` (scans are clean, a person looks after ten
    /// iterations), `checkpoint` (something is kept halfway).
    #[arg(long, value_name = "NAME", value_enum)]
    pub template: Option<InitTemplate>,
    /// Ask nothing: take the default answer to every question.
    #[arg(short, long)]
    pub yes: bool,
}

/// What decides when the work is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum InitTemplate {
    /// When the tests pass.
    Tdd,
    /// When scans are clean; after ten iterations a person looks.
    Security,
    /// As without a template, with something kept halfway.
    Checkpoint,
}

/// Which demo.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// The scenario: `tests` (red twice, then green), `limit` (the retry limit), `permission` (an agent that asks).
    pub scenario: Option<String>,
    /// Keep the folder, to look around in it.
    #[arg(long)]
    pub keep: bool,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What to check.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Which config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// What holds for tasks of this type, one of the config's `task_types`.
    #[arg(short, long, value_name = "TYPE")]
    pub task_type: Option<String>,
    /// What holds for this agent.
    #[arg(short, long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
    /// Exit with code 1 if the config is valid, but something that it needs is missing on this machine.
    #[arg(long)]
    pub strict: bool,
}

/// What to print about configs.
#[derive(Debug, Args)]
pub struct ConfigCommandArgs {
    /// What to print.
    #[command(subcommand)]
    pub verb: ConfigCommand,
}

/// What to print about configs.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the annotated example config: every key with its default.
    Example,
    /// Print the path of the config in use.
    Path(ConfigArgs),
}

/// How to list agents.
#[derive(Debug, Args)]
pub struct AgentsArgs {
    /// Whose agents, beside those that creel knows.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Which session to go on with.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The session; otherwise the one that was changed last.
    #[arg(value_parser = session_name)]
    pub session: Option<String>,
    /// A new limit for its iterations.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_iterations: Option<u32>,
    /// Tell the agent of this checkpoint; `creel checkpoint list` shows them.
    #[arg(long, value_name = "N")]
    pub checkpoint: Option<u32>,
    /// Whose sessions.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Tell it to this NATS server, and let it be steered from there; otherwise as `nats:` of the config says.
    #[arg(long = "nats", value_name = "URL")]
    pub nats: Option<String>,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Whether to show it.
    #[command(flatten)]
    pub detach: DetachArgs,
    /// Trust the session's hooks and agent, and remember it.
    #[arg(long)]
    pub trust: bool,
}

/// How to list.
#[derive(Debug, Args)]
pub struct SessionListArgs {
    /// Whose sessions.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where they are.
    #[command(flatten)]
    pub nats: NatsArgs,
    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}

/// What to show of a session.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The session.
    #[arg(value_parser = session_name)]
    pub session: String,
    /// Whose sessions.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where they are.
    #[command(flatten)]
    pub nats: NatsArgs,
    /// Print its records as they are.
    #[arg(long, conflicts_with = "prompts")]
    pub json: bool,
    /// Print what the agent was sent.
    #[arg(long)]
    pub prompts: bool,
}

/// Which session to watch again.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The session.
    #[arg(value_parser = session_name)]
    pub session: String,
    /// Whose sessions.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where they are.
    #[command(flatten)]
    pub nats: NatsArgs,
}

/// A session's name becomes a folder and a part of subjects, so it is plain.
fn session_name(text: &str) -> Result<String, ArgumentError> {
    if !crate::engine::tasks::command::is_name(text) {
        return Err(ArgumentError::BadSessionName);
    }
    Ok(text.to_owned())
}

/// Why a value on the command line is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum ArgumentError {
    #[error("an item is a number; `creel pending list` shows them")]
    NotAnItem,
    #[error("a gate is a number; `creel gate list` shows the one that waits")]
    NotAGate,
    #[error("there is no such answer; `creel gate list` shows those of a gate")]
    NoSuchChoice,
    #[error("there is no such point; there are: {}", HookPoint::ALL.map(HookPoint::name).join(", "))]
    NoSuchPoint,
    #[error("there is no such state; there are: {}", TaskState::ALL.map(TaskState::name).join(", "))]
    NoSuchState,
    #[error("a session name has 1 to 64 letters, digits, `-` or `_`")]
    BadSessionName,
}
