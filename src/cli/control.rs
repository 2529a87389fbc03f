//! The arguments of the commands for a running session.

use clap::{Args, Subcommand};

use super::{ArgumentError, ConfigArgs, NatsArgs, session_name};
use crate::engine::{
    hooks::point::HookPoint,
    ids::{GateId, ItemId},
    session::gate::GateChoice,
};

/// Which session.
#[derive(Debug, Default, Args)]
pub struct SessionArgs {
    /// The session; otherwise the one that `CREEL_SESSION` names, or the only one that runs in this project.
    #[arg(short, long, value_name = "NAME", value_parser = session_name)]
    pub session: Option<String>,
    /// Whose sessions.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where they are.
    #[command(flatten)]
    pub nats: NatsArgs,
}

/// How a session is.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}

/// How to stop.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
    /// At once: cancel the turn, deliver nothing more, run `session_end`. Otherwise when this iteration is completed.
    #[arg(long)]
    pub now: bool,
}

/// What to say.
#[derive(Debug, Args)]
pub struct MessageArgs {
    /// The message, or `-` to read it from standard input.
    pub text: String,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// The held output.
#[derive(Debug, Args)]
pub struct PendingArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: PendingCommand,
}

/// What to do with held output.
#[derive(Debug, Subcommand)]
pub enum PendingCommand {
    /// List what the agent does not have yet.
    List {
        /// List what was delivered, too.
        #[arg(long)]
        all: bool,
        /// Print it as JSON.
        #[arg(long)]
        json: bool,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
    /// Print what an item says.
    Show {
        /// The item's number.
        #[arg(value_parser = item)]
        item: ItemId,
        /// Print it as JSON, with where it came from.
        #[arg(long)]
        json: bool,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
    /// Keep an item from the agent.
    Skip {
        /// The item's number.
        #[arg(value_parser = item)]
        item: ItemId,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
    /// Deliver a skipped item after all.
    Restore {
        /// The item's number.
        #[arg(value_parser = item)]
        item: ItemId,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
    /// Change what an item says.
    Edit {
        /// The item's number.
        #[arg(value_parser = item)]
        item: ItemId,
        /// The new text, or `-` to read it from standard input; without it, your editor opens.
        text: Option<String>,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
}

/// The gates.
#[derive(Debug, Args)]
pub struct GateArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: GateCommand,
}

/// What to do at a gate.
#[derive(Debug, Subcommand)]
pub enum GateCommand {
    /// List the gates that wait for a person.
    List {
        /// Print it as JSON.
        #[arg(long)]
        json: bool,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
    /// Answer a gate. The first answer counts.
    Answer {
        /// The gate's number.
        #[arg(value_parser = gate)]
        gate: GateId,
        /// One of the answers that `creel gate list` shows.
        #[arg(value_parser = choice)]
        choice: GateChoice,
        /// The message to `send` (`-`: from standard input), or which of the agent's options to take.
        text: Option<String>,
        /// The items to approve, with commas between them; otherwise all.
        #[arg(long, value_name = "ITEMS", value_delimiter = ',', value_parser = item)]
        items: Option<Vec<ItemId>>,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
}

/// What was kept on the way.
#[derive(Debug, Args)]
pub struct CheckpointArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: CheckpointCommand,
}

/// What to do with checkpoints.
#[derive(Debug, Subcommand)]
pub enum CheckpointCommand {
    /// List the checkpoints of a session; of a past one with --session.
    List {
        /// Print it as JSON.
        #[arg(long)]
        json: bool,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
    /// Print what a checkpoint holds.
    Show {
        /// Its number.
        checkpoint: u32,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
}

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
    /// List the hooks of the session; those of the config, if none runs.
    List {
        /// Print it as JSON.
        #[arg(long)]
        json: bool,
        /// Which session.
        #[command(flatten)]
        session: SessionArgs,
    },
    /// Run a hook again in this session.
    Enable(HookTargetArgs),
    /// Do not run a hook any more in this session.
    Disable(HookTargetArgs),
    /// Run a hook now, beside everything else; its verdict changes nothing.
    Run(HookTargetArgs),
    /// How often hooks ran and passed, and how long they took; of a past session with --session.
    Stats {
        /// Print it as JSON.
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
    /// Only at this point; otherwise wherever there is one of that name.
    #[arg(long, value_name = "POINT", value_parser = point)]
    pub point: Option<HookPoint>,
    /// Which session.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// Which session to look at.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// The session; otherwise the one that `CREEL_SESSION` names, or the only one that runs in this project.
    #[arg(value_parser = session_name)]
    pub session: Option<String>,
    /// Whose sessions.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Where they are.
    #[command(flatten)]
    pub nats: NatsArgs,
}

fn item(text: &str) -> Result<ItemId, ArgumentError> {
    text.parse().map(ItemId).map_err(|_| ArgumentError::NotAnItem)
}

fn gate(text: &str) -> Result<GateId, ArgumentError> {
    text.parse().map(GateId).map_err(|_| ArgumentError::NotAGate)
}

fn choice(text: &str) -> Result<GateChoice, ArgumentError> {
    let name = serde_json::Value::String(text.replace('-', "_"));
    serde_json::from_value(name).map_err(|_| ArgumentError::NoSuchChoice)
}

fn point(text: &str) -> Result<HookPoint, ArgumentError> {
    let stop_decision = (text == HookPoint::StopDecision.name()).then_some(HookPoint::StopDecision);
    HookPoint::named(text).or(stop_decision).ok_or(ArgumentError::NoSuchPoint)
}
