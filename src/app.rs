//! Puts it together: from the command line to an exit code.

mod agents;
mod attach;
mod check;
mod config_verb;
mod demo;
mod detach;
mod failure;
mod init;
mod leash;
mod leftovers;
mod mcp;
mod pipeline;
mod project;
mod readiness;
mod remote;
mod run;
mod sessions;
mod stage;
mod steer;
mod trust;
mod turn;
mod worker;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{CommandFactory as _, Parser as _};

use crate::{
    cli::{Cli, Command, RunArgs, headless::put},
    config::{self, paths},
    engine::submit::Pipeline,
    journal::Disorder,
    logging,
    present::text::plain,
    socket::message::Request,
};
use failure::Failure;
use leash::Leash;

/// What a command came to: an exit code, or the reason why it failed.
type Result<T = u8> = std::result::Result<T, Failure>;

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| refuse(&error));
    // What cannot be held is done in one process, as for a session without a screen.
    if leash::is_wanted(&cli)
        && let Ok(code) = leash::hold()
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

/// Prints what is wrong with the command line, or its help. The message repeats arguments, so it leaves out characters
/// in them that a terminal would obey.
fn refuse(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    if plain(&text) == text {
        error.exit();
    }
    say(&text);
    std::process::exit(error.exit_code());
}

/// Does what was asked for, here and now.
fn follow(cli: Cli) -> Result {
    let leash = cli.held.then(Leash::take).transpose().map_err(|error| {
        Failure::usage(format!("nobody holds this process: {error}\n  start it without --held, which is creel's own"))
    })?;
    let _log = paths::state_dir().and_then(|dir| logging::start(&dir));
    dispatch(cli.command, leash.as_ref())
}

fn dispatch(command: Option<Command>, leash: Option<&Leash>) -> Result {
    match command {
        None => bare(leash),
        Some(Command::Run(args)) => run::run(&args, leash),
        Some(Command::Demo(args)) => demo::demo(&args),
        Some(Command::Init(args)) => init::init(&args),
        Some(Command::Check(args)) => check::check(&args),
        Some(Command::Config(args)) => config_verb::config(&args),
        Some(Command::Agents(args)) => agents::agents(&args),
        Some(Command::Resume(args)) => run::resume(&args, leash),
        Some(Command::Attach(args)) => attach::attach(args),
        Some(Command::Sessions(args)) => sessions::sessions(&args),
        Some(Command::Show(args)) => sessions::show(&args),
        Some(Command::Replay(args)) => sessions::replay(&args),
        Some(Command::Status(args)) => steer::status(&args),
        Some(Command::Pause(args)) => steer::ask(&args, &Request::Pause),
        Some(Command::Unpause(args)) => steer::ask(&args, &Request::Unpause),
        Some(Command::Stop(args)) => steer::stop(&args),
        Some(Command::Message(args)) => steer::message(&args),
        Some(Command::Pending(args)) => steer::pending::pending(args.command),
        Some(Command::Gate(args)) => steer::gate::gate(args.command),
        Some(Command::Hooks(args)) => steer::hooks::hooks(args.command),
        Some(Command::Checkpoint(args)) => steer::checkpoint::checkpoint(args.command),
        Some(Command::Task(args)) => steer::task::task(args.command),
        Some(Command::Worker(args)) => worker::worker(&args),
        Some(Command::Mcp(args)) => mcp::mcp(args),
        Some(Command::Submit(args)) => pipeline::pipeline(Pipeline::Submit, &args),
        Some(Command::Merge(args)) => pipeline::pipeline(Pipeline::Merge, &args),
        Some(Command::Trust(args)) => trust::trust(&args),
        Some(Command::Untrust(args)) => trust::untrust(&args),
        Some(Command::Schema) => print(&format!("{:#}\n", config::json_schema())),
        Some(Command::Completions { shell }) => {
            let mut out = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "creel", &mut out);
            print(&String::from_utf8_lossy(&out))
        }
        Some(Command::Man) => {
            let mut out = Vec::new();
            clap_mangen::Man::new(Cli::command())
                .render(&mut out)
                .map_err(|error| Failure::failed(error.to_string()))?;
            print(&String::from_utf8_lossy(&out))
        }
    }
}

/// `creel` alone.
fn bare(leash: Option<&Leash>) -> Result {
    let here = project::here()?;
    if paths::find(&here).is_some() {
        return run::run(&RunArgs::default(), leash);
    }
    Err(Failure::usage(
        "there is no config here (creel.yaml, creel.yml, creel.json or .creel/config.yaml)\n\n  \
         creel demo    watch a session, with nothing to install\n  \
         creel init    write a creel.yaml for this project\n  \
         creel --help  all commands",
    ))
}

/// Prints a result.
fn print(text: &str) -> Result {
    match put(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot print: {error}")))
        }
        Ok(()) | Err(_) => Ok(0),
    }
}

/// Says something to the person.
fn say(text: &str) {
    // With standard error gone there is nobody to say it to. Names in it may come from elsewhere.
    let _ = writeln!(io::stderr(), "{}", plain(text.trim_end()));
}

/// Warns the user that the lines of a journal are not what a session wrote.
fn warn_of(disorder: Option<&Disorder>) {
    if let Some(disorder) = disorder {
        say(&format!("creel: warning: {disorder}"));
    }
}
