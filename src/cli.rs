//! The command line. Each verb is one file: its arguments, its action and its output.
//!
//! Owns the list of verbs. A verb that starts a session or opens the screen only prepares it, and
//! returns what is left to do as a [`VerbOutcome`]: see [`crate::app`].

pub mod arguments;
pub mod error;
pub mod headless;
pub mod launch;
pub mod record_formatter;
pub mod target;
pub mod usage_error;
pub mod verb_outcome;

mod agent_options;
pub mod agents;
pub mod attach;
pub mod cancel;
pub mod check;
pub mod checkpoint;
pub mod completions;
pub mod config;
pub mod demo;
pub mod diff;
pub mod doctor;
pub mod export;
pub mod gate;
pub mod help;
pub mod home;
pub mod hook;
pub mod hooks;
pub mod import;
pub mod init;
pub mod man;
pub mod mcp;
pub mod merge;
pub mod message;
pub mod pause;
pub mod pending;
pub mod plan;
pub mod prune;
pub mod replay;
pub mod report;
pub mod resume;
pub mod run;
pub mod schema;
pub mod search;
pub mod sessions;
pub mod show;
pub mod stats;
pub mod status;
pub mod stop;
pub mod submit;
pub mod task;
pub mod trust;
pub mod unpause;
pub mod untrust;
pub mod verify;
pub mod watch;
mod worker;
pub mod worktree;

use clap::{Parser, Subcommand};

use crate::{
    cli::{
        agents::AgentsArgs,
        arguments::{ConfigArgs, DetachArgs, SessionArgs},
        attach::AttachArgs,
        check::CheckArgs,
        checkpoint::CheckpointArgs,
        completions::CompletionsArgs,
        config::ConfigCommandArgs,
        demo::DemoArgs,
        diff::DiffArgs,
        doctor::DoctorArgs,
        error::{CliError, CliResult},
        export::ExportArgs,
        gate::GateArgs,
        help::HelpArgs,
        hook::HookArgs,
        hooks::HooksArgs,
        import::ImportArgs,
        init::InitArgs,
        launch::surface,
        man::ManArgs,
        merge::MergeArgs,
        message::MessageArgs,
        pending::PendingArgs,
        plan::PlanArgs,
        prune::PruneArgs,
        replay::ReplayArgs,
        report::ReportArgs,
        resume::ResumeArgs,
        run::RunArgs,
        schema::SchemaArgs,
        search::SearchArgs,
        sessions::SessionListArgs,
        show::ShowArgs,
        stats::StatsArgs,
        status::StatusArgs,
        stop::StopArgs,
        task::TaskArgs,
        verb_outcome::VerbOutcome,
        verify::VerifyArgs,
        worker::WorkerArgs,
        worktree::WorktreeArgs,
    },
    engine::actor::UserCommand,
};

/// The version with the commit, as `build.rs` found it.
pub const VERSION: &str = env!("BUILD_VERSION");

/// Supervise coding-agent sessions: hooks around every step, pending output, retries, gates.
#[derive(Debug, Parser)]
#[command(
    name = "creel",
    version = VERSION,
    about = "Run a coding agent in a loop, check each turn with your own commands, and answer when it needs you",
    max_term_width = 100,
    disable_help_subcommand = true
)]
pub struct Cli {
    /// Internal: this process runs the session and its screen; the process that you started waits
    /// for it.
    #[arg(long, hide = true)]
    pub held: bool,
    /// Show the sessions on all machines of this NATS server on the home screen.
    #[arg(long, value_name = "URL")]
    pub nats: Option<String>,
    /// The command. Default: in a terminal, the home screen with all your sessions.
    #[command(subcommand)]
    pub command: Option<CliCommand>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Run a session.
    Run(RunArgs),
    /// Watch a built-in session in a temporary folder: nothing to install, no network, no model.
    Demo(DemoArgs),
    /// Write `creel.yaml` for this project; never overwrites.
    Init(InitArgs),
    /// Check the config and what it needs on this machine, and print the resulting plan.
    Check(CheckArgs),
    /// Try everything that creel depends on, and say what to do about what does not work.
    Doctor(DoctorArgs),
    /// Print the annotated example config, or the path of the config in use.
    Config(ConfigCommandArgs),
    /// List the agents: how creel runs each, its version, and how to install missing ones.
    Agents(AgentsArgs),
    /// Resume a session that stopped or was killed.
    Resume(ResumeArgs),
    /// Open another screen on a running session; the session keeps running when you leave.
    Attach(AttachArgs),
    /// List sessions, those that need you first: of this project, of all projects, or on other
    /// machines.
    Sessions(SessionListArgs),
    /// Print what happened in a session.
    Show(ShowArgs),
    /// Report how a session ended, what each check said, and what it changed and cost.
    Report(ReportArgs),
    /// Show what a session, or one of its iterations, changed.
    Diff(DiffArgs),
    /// Search the prompts, messages and outputs of all sessions.
    Search(SearchArgs),
    /// Sum up sessions: how they ended, what they cost, and which checks fail.
    Stats(StatsArgs),
    /// Check that a session's journal is as creel wrote it.
    Verify(VerifyArgs),
    /// Delete old sessions that have ended.
    Prune(PruneArgs),
    /// Replay a past session, step by step or at speed.
    Replay(ReplayArgs),
    /// Show the status of a running session.
    Status(StatusArgs),
    /// Pause a session: send no further prompts.
    Pause(SessionArgs),
    /// Unpause a session.
    Unpause(SessionArgs),
    /// Cancel the turn and pause the session.
    Cancel(SessionArgs),
    /// Stop a session after this iteration, or at once.
    Stop(StopArgs),
    /// Send the agent a message when its turn ends.
    Message(MessageArgs),
    /// List, show, skip and edit pending items.
    Pending(PendingArgs),
    /// List the open gates, and answer them.
    Gate(GateArgs),
    /// List, run, enable and disable hooks, and show their statistics.
    Hooks(HooksArgs),
    /// List and show checkpoints.
    Checkpoint(CheckpointArgs),
    /// List, add and change tasks.
    Task(TaskArgs),
    /// Create tasks from a checklist, a prd.json, GitHub issues or beads.
    Import(ImportArgs),
    /// Print the tasks for other tools, or mark the finished ones in the file they came from.
    Export(ExportArgs),
    /// Run a session for each task in the queue, one after another or several at once.
    Worker(WorkerArgs),
    /// Have the agent propose tasks for a goal, and queue what you approve.
    Plan(PlanArgs),
    /// List, open and remove the worktrees of sessions.
    Worktree(WorktreeArgs),
    /// Serve the session's tools to an agent: an MCP server on standard input and output.
    Mcp(SessionArgs),
    /// Answer for a hook of the session's own agent: what do your hooks say about this tool call?
    Hook(HookArgs),
    /// Submit the work of a session, or of this folder as it is.
    Submit(submit::SubmitArgs),
    /// Follow a pull request until it is merged: the agent gets what checks and reviewers say.
    Watch(watch::WatchArgs),
    /// Merge the work when all checks have passed.
    Merge(MergeArgs),
    /// Trust this project's hooks and agents, so that they can run.
    Trust(ConfigArgs),
    /// Stop trusting this project's hooks and agents.
    Untrust(ConfigArgs),
    /// Print a JSON Schema: of the config, for editors, of reports, or of `creel stats`.
    Schema(SchemaArgs),
    /// Print completions for a shell.
    Completions(CompletionsArgs),
    /// Print the manual page, or write one for every command.
    Man(ManArgs),
    /// Explain a command or a topic: exit-codes, environment, files, hooks.
    Help(HelpArgs),
}

impl Cli {
    /// Does what the command line asks for, up to what only [`crate::app`] can do.
    pub(crate) fn perform(self) -> CliResult<VerbOutcome> {
        match (self.command, self.nats) {
            (None, nats) => home::home(nats),
            (Some(command), None) => command.perform(),
            (Some(_), Some(_)) => Err(CliError::usage("write --nats URL after the command")),
        }
    }
}

impl CliCommand {
    fn perform(self) -> CliResult<VerbOutcome> {
        self.only_for_people()
            .map_or(Ok(()), target::require_person)?;
        if self.opens_a_screen() {
            surface::require_screen()?;
        }
        match self {
            Self::Run(args) => run::run(&args),
            Self::Demo(args) => demo::demo(&args),
            Self::Check(args) => check::check(args),
            Self::Doctor(args) => doctor::doctor(args),
            Self::Resume(args) => resume::resume(&args),
            Self::Attach(args) => attach::attach(args),
            Self::Replay(args) => replay::replay(&args),
            Self::Mcp(args) => Ok(mcp::mcp(args)),
            Self::Submit(args) => submit::submit(args),
            Self::Watch(args) => watch::watch(args),
            Self::Merge(args) => merge::merge(&args),
            Self::Init(args) => init::init(&args).map(VerbOutcome::Done),
            Self::Config(args) => config::config(&args).map(VerbOutcome::Done),
            Self::Agents(args) => agents::agents(&args).map(VerbOutcome::Done),
            Self::Sessions(args) => sessions::sessions(&args).map(VerbOutcome::Done),
            Self::Show(args) => show::show(&args).map(VerbOutcome::Done),
            Self::Report(args) => report::report(&args).map(VerbOutcome::Done),
            Self::Diff(args) => diff::diff(&args).map(VerbOutcome::Done),
            Self::Search(args) => search::search(&args).map(VerbOutcome::Done),
            Self::Stats(args) => stats::print_stats(&args).map(VerbOutcome::Done),
            Self::Verify(args) => verify::verify(&args).map(VerbOutcome::Done),
            Self::Prune(args) => prune::prune(&args).map(VerbOutcome::Done),
            Self::Status(args) => status::status(&args).map(VerbOutcome::Done),
            Self::Pause(args) => pause::pause(&args).map(VerbOutcome::Done),
            Self::Unpause(args) => unpause::unpause(&args).map(VerbOutcome::Done),
            Self::Cancel(args) => cancel::cancel(&args).map(VerbOutcome::Done),
            Self::Stop(args) => stop::stop(&args).map(VerbOutcome::Done),
            Self::Message(args) => message::message(&args).map(VerbOutcome::Done),
            Self::Pending(args) => pending::pending(args.command).map(VerbOutcome::Done),
            Self::Gate(args) => gate::gate(args.command).map(VerbOutcome::Done),
            Self::Hook(args) => hook::hook(&args).map(VerbOutcome::Done),
            Self::Hooks(args) => hooks::hooks(args.command).map(VerbOutcome::Done),
            Self::Checkpoint(args) => checkpoint::checkpoint(args.command).map(VerbOutcome::Done),
            Self::Task(args) => task::task(args.command).map(VerbOutcome::Done),
            Self::Import(args) => import::import(&args).map(VerbOutcome::Done),
            Self::Export(args) => export::export(&args).map(VerbOutcome::Done),
            Self::Worker(args) => worker::worker(&args),
            Self::Plan(args) => plan::plan(&args).map(VerbOutcome::Done),
            Self::Worktree(args) => worktree::worktree(&args.command).map(VerbOutcome::Done),
            Self::Trust(args) => trust::trust(&args).map(VerbOutcome::Done),
            Self::Untrust(args) => untrust::untrust(&args).map(VerbOutcome::Done),
            Self::Schema(args) => schema::schema(&args).map(VerbOutcome::Done),
            Self::Completions(args) => completions::completions(&args).map(VerbOutcome::Done),
            Self::Man(args) => man::man(&args).map(VerbOutcome::Done),
            Self::Help(args) => help::help(&args).map(VerbOutcome::Done),
        }
    }

    /// Whether it shows a session of its own on a screen.
    fn opens_a_screen(&self) -> bool {
        let (output, detach) = if let Self::Run(args) = self {
            (args.output, args.detach)
        } else if let Self::Resume(args) = self {
            (args.output, args.detach)
        } else if let Self::Demo(args) = self {
            (args.output, DetachArgs::default())
        } else {
            return false;
        };
        surface::is_on_screen(output, detach)
    }

    /// What a person is needed for. None for verbs that read, that work on the session of the agent
    /// that uses them, or about which a running session decides.
    fn only_for_people(&self) -> Option<UserCommand> {
        match self {
            Self::Run(_) | Self::Resume(_) => Some(UserCommand::Run),
            // The check of a plan's own session.
            Self::Plan(args) => (!args.check).then_some(UserCommand::Run),
            Self::Worker(_) => Some(UserCommand::Worker),
            Self::Init(_) => Some(UserCommand::Init),
            Self::Prune(_) => Some(UserCommand::Prune),
            Self::Submit(_) | Self::Watch(_) => Some(UserCommand::Submit),
            Self::Merge(_) => Some(UserCommand::Merge),
            Self::Task(args) => args.command.changes_queue().then_some(UserCommand::Task),
            Self::Worktree(args) => args.command.removes().then_some(UserCommand::Worktree),
            // `trust` and `untrust` refuse agents themselves, whatever the config allows.
            Self::Trust(_)
            | Self::Untrust(_)
            | Self::Attach(_)
            | Self::Import(_)
            | Self::Export(_)
            | Self::Pause(_)
            | Self::Unpause(_)
            | Self::Cancel(_)
            | Self::Stop(_)
            | Self::Message(_)
            | Self::Pending(_)
            | Self::Gate(_)
            | Self::Hooks(_)
            | Self::Mcp(_)
            | Self::Hook(_)
            | Self::Demo(_)
            | Self::Check(_)
            | Self::Doctor(_)
            | Self::Config(_)
            | Self::Agents(_)
            | Self::Sessions(_)
            | Self::Show(_)
            | Self::Report(_)
            | Self::Diff(_)
            | Self::Search(_)
            | Self::Stats(_)
            | Self::Verify(_)
            | Self::Replay(_)
            | Self::Status(_)
            | Self::Checkpoint(_)
            | Self::Schema(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Help(_) => None,
        }
    }
}
