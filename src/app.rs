//! Dispatches a command line, and turns the result into an exit code.

mod agents;
mod attach;
mod check;
mod config_command;
mod control;
mod dead_sessions;
mod demo;
mod detach;
mod error;
mod init;
mod mcp;
mod pipeline;
mod process_pair;
mod project;
mod readiness;
mod remote_sessions;
mod run;
mod session_host;
mod session_name_lock;
mod sessions;
mod trust;
mod worker;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{CommandFactory as _, Parser as _};

use crate::{
    app::{error::AppError, process_pair::ParentProcess},
    cli::{Cli, CliCommand, RunArgs, headless::put},
    config::{self, paths},
    engine::{input::SessionCommand, submit::PipelineKind},
    journal::RecordOrderError,
    logging,
    present::text::plain,
};

/// The exit code of a command, or why it failed.
type AppResult<T = u8> = std::result::Result<T, AppError>;

pub fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| refuse(&error));
    // If no second process can be started, this one runs the session itself, as without a screen.
    if process_pair::is_wanted(&cli)
        && let Ok(code) = process_pair::hold()
    {
        return ExitCode::from(code);
    }
    match follow(cli) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            say(&failure.to_string());
            ExitCode::from(failure.code)
        }
    }
}

/// Prints what is wrong with the command line, or its help. The message repeats arguments, so this leaves out
/// characters in them that a terminal would interpret.
fn refuse(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    if plain(&text) == text {
        error.exit();
    }
    say(&text);
    std::process::exit(error.exit_code());
}

/// Runs the command in this process.
fn follow(cli: Cli) -> AppResult {
    let leash = cli.held.then(ParentProcess::take).transpose().map_err(|error| {
        AppError::usage(format!("nobody holds this process: {error}\n  start it without --held, which is creel's own"))
    })?;
    let _log = paths::state_dir().and_then(|dir| logging::start(&dir));
    dispatch(cli.command, leash.as_ref())
}

fn dispatch(command: Option<CliCommand>, leash: Option<&ParentProcess>) -> AppResult {
    match command {
        None => bare(leash),
        Some(CliCommand::Run(args)) => run::run(&args, leash),
        Some(CliCommand::Demo(args)) => demo::demo(&args),
        Some(CliCommand::Init(args)) => init::init(&args),
        Some(CliCommand::Check(args)) => check::check(&args),
        Some(CliCommand::Config(args)) => config_command::config(&args),
        Some(CliCommand::Agents(args)) => agents::agents(&args),
        Some(CliCommand::Resume(args)) => run::resume(&args, leash),
        Some(CliCommand::Attach(args)) => attach::attach(args),
        Some(CliCommand::Sessions(args)) => sessions::sessions(&args),
        Some(CliCommand::Show(args)) => sessions::show(&args),
        Some(CliCommand::Replay(args)) => sessions::replay(&args),
        Some(CliCommand::Status(args)) => control::status(&args),
        Some(CliCommand::Pause(args)) => control::ask(&args, SessionCommand::Pause),
        Some(CliCommand::Unpause(args)) => control::ask(&args, SessionCommand::Unpause),
        Some(CliCommand::Stop(args)) => control::stop(&args),
        Some(CliCommand::Message(args)) => control::message(&args),
        Some(CliCommand::Pending(args)) => control::pending::pending(args.command),
        Some(CliCommand::Gate(args)) => control::gate::gate(args.command),
        Some(CliCommand::Hooks(args)) => control::hooks::hooks(args.command),
        Some(CliCommand::Checkpoint(args)) => control::checkpoint::checkpoint(args.command),
        Some(CliCommand::Task(args)) => control::task::task(args.command),
        Some(CliCommand::Worker(args)) => worker::worker(&args),
        Some(CliCommand::Mcp(args)) => mcp::mcp(args),
        Some(CliCommand::Submit(args)) => pipeline::pipeline(PipelineKind::Submit, &args),
        Some(CliCommand::Merge(args)) => pipeline::pipeline(PipelineKind::Merge, &args),
        Some(CliCommand::Trust(args)) => trust::trust(&args),
        Some(CliCommand::Untrust(args)) => trust::untrust(&args),
        Some(CliCommand::Schema) => print(&format!("{:#}\n", config::json_schema())),
        Some(CliCommand::Completions { shell }) => {
            let mut out = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "creel", &mut out);
            print(&String::from_utf8_lossy(&out))
        }
        Some(CliCommand::Man) => {
            let mut out = Vec::new();
            clap_mangen::Man::new(Cli::command())
                .render(&mut out)
                .map_err(|error| AppError::failed(error.to_string()))?;
            print(&String::from_utf8_lossy(&out))
        }
    }
}

/// `creel` without a command.
fn bare(leash: Option<&ParentProcess>) -> AppResult {
    let here = project::here()?;
    if paths::find(&here).is_some() {
        return run::run(&RunArgs::default(), leash);
    }
    Err(AppError::usage(
        "there is no config here (creel.yaml, creel.yml, creel.json or .creel/config.yaml)\n\n  \
         creel demo    watch a session, with nothing to install\n  \
         creel init    write a creel.yaml for this project\n  \
         creel --help  all commands",
    ))
}

fn print(text: &str) -> AppResult {
    match put(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(AppError::failed(format!("cannot print: {error}")))
        }
        Ok(()) | Err(_) => Ok(0),
    }
}

/// Prints a message for the user.
fn say(text: &str) {
    // If standard error is closed, the user cannot be told. `plain`, since names in the text can come from other
    // programs.
    let _ = writeln!(io::stderr(), "{}", plain(text.trim_end()));
}

/// Warns the user that the lines of a journal are not what a session wrote.
fn warn_of(disorder: Option<&RecordOrderError>) {
    if let Some(disorder) = disorder {
        say(&format!("creel: warning: {disorder}"));
    }
}
