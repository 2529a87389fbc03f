//! Parent and child process of a session on a screen.
//!
//! A process cannot detach from its terminal while the shell waits for it. So creel starts itself again for a session
//! on a screen: the parent only waits, the child runs the session and its screen. When the user leaves the session
//! running, the child detaches with it, and the parent returns to the shell.
//!
//! A socket pair connects them. The child gets its end as standard input, and the terminal through it. No other process
//! sees what is passed this way, neither as a variable nor as an open file.
//!
//! # Invariants
//! - The child does not outlive its parent, unless it has detached.
//! - To the shell the two are one: the same job, the same signals, the same exit code.

mod child;
mod parent;

use crate::cli::{
    Cli, CliCommand,
    arguments::{DetachArgs, OutputArgs},
    launch::surface::is_on_screen,
};
pub(super) use child::ParentProcess;
pub(super) use parent::hold;

/// Whether the command is a session on a screen, and this process is not yet the child.
pub(super) fn is_wanted(cli: &Cli) -> bool {
    let (output, detach) = match &cli.command {
        None => (OutputArgs::default(), DetachArgs::default()),
        Some(CliCommand::Run(args)) => (args.output, args.detach),
        Some(CliCommand::Resume(args)) => (args.output, args.detach),
        Some(_) => return false,
    };
    !cli.held && is_on_screen(output, detach)
}
