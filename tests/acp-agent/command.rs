//! Processes that the agent starts.
//!
//! # Invariants
//! - A process beside the agent never reads the agent's stdin, and writes to its stdout only if the
//!   script says so.

use std::{
    io,
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
    thread,
};

use crate::{
    agent::Agent,
    fail,
    step::{Home, Output, Spawn},
    wire::Incoming,
};

/// What an agent without stdout becomes: it writes its log until stdin is closed.
const READ_ON: &str = r#"exec cat >> "$LOG""#;

impl Agent {
    /// Runs a command to its end. The agent keeps reading, but a cancelled turn does not interrupt
    /// the command.
    pub(crate) fn run_command(&mut self, command: &str) {
        let mut shell = self.shell("sh", command);
        shell.stdout(io::stderr());
        let ended_before = self.commands_ended;
        let inbox = self.inbox.clone();
        start(shell, command, move || {
            drop(inbox.send(Incoming::CommandEnded));
        });
        while self.commands_ended == ended_before {
            self.take_next();
        }
    }

    pub(crate) fn spawn(&self, spawn: &Spawn) {
        let mut shell = match spawn.home {
            Home::Same => self.shell("sh", &spawn.command),
            Home::Away => self.shell("setsid", &spawn.command),
        };
        if let Output::Dropped = spawn.output {
            shell.stdout(Stdio::null()).stderr(Stdio::null());
        }
        start(shell, &spawn.command, || ());
    }

    /// Becomes a shell without stdout: the same process, of which the client reads the end of the
    /// stream.
    ///
    /// The standard library cannot close stdout of a process that continues, so the steps that
    /// follow are lost.
    pub(crate) fn close_stdout(&self, then: Option<&str>) -> ! {
        let mut shell = self.shell("sh", then.unwrap_or(READ_ON));
        shell
            .env("LOG", &self.log)
            .stdin(Stdio::inherit())
            .stdout(Stdio::null());
        fail(&format!("sh: {}", shell.exec()))
    }

    fn shell(&self, program: &str, command: &str) -> Command {
        let mut shell = Command::new(program);
        shell
            .args((program != "sh").then_some("sh"))
            .args(["-c", command]);
        shell.stdin(Stdio::null()).current_dir(&self.scene.cwd);
        shell
    }
}

/// Starts a process and waits for it in a thread, so that no zombie stays.
fn start(mut shell: Command, command: &str, ended: impl FnOnce() + Send + 'static) {
    let mut child = shell
        .spawn()
        .unwrap_or_else(|error| fail(&format!("`{command}`: {error}")));
    thread::spawn(move || {
        let _ = child.wait();
        ended();
    });
}
