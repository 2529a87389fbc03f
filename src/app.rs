//! Wiring: runs the command line, and carries out what a verb cannot do itself: host a session,
//! open the screen.

mod home_screen;
mod process_pair;
mod screens;
mod session_host;
mod start_session;

use std::process::ExitCode;

use clap::{FromArgMatches as _, Parser as _, error::ErrorKind};

use crate::{
    app::process_pair::ParentProcess,
    cli::{
        Cli,
        demo::DemoSession,
        error::{CliError, CliResult, say},
        help, usage_error,
        verb_outcome::VerbOutcome,
    },
    config::paths,
    journal, logging,
    tui::{request::CloseBehavior, terminal::TerminalNotifier},
};

pub fn main() -> ExitCode {
    // If no second process can be started, this one runs the session itself, as without a screen.
    if process_pair::is_wanted(std::env::args_os().skip(1))
        && let Ok(code) = process_pair::hold()
    {
        return ExitCode::from(code);
    }
    let cli = Cli::try_parse()
        .or_else(with_whole_help)
        .unwrap_or_else(|error| refuse(&error));
    match follow(cli) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            say(&failure.to_string());
            ExitCode::from(failure.code)
        }
    }
}

/// Parses again with groups and examples if the command line asks for help.
fn with_whole_help(error: clap::Error) -> Result<Cli, clap::Error> {
    let needs_terminal = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if !needs_terminal {
        return Err(error);
    }
    help::command()
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches))
}

/// Prints what is wrong with the command line, or its help.
fn refuse(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        error.exit();
    }
    let words: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        // creel added it when it started itself again for a screen.
        .filter(|word| word != "--held")
        .collect();
    // The help, because the command line has no command.
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        error.exit();
    }
    say(&usage_error::in_words(error, &words));
    std::process::exit(error.exit_code());
}

/// Runs the command in this process.
fn follow(cli: Cli) -> CliResult {
    let parent = cli.held.then(ParentProcess::take).transpose().map_err(|error| {
        CliError::usage(format!(
            "this process has no parent process of creel: {error}\n  start it without --held, which only creel itself \
             uses"
        ))
    })?;
    let state_dir = paths::state_dir();
    if let Some(dir) = &state_dir {
        journal::keep_snapshot_key_in(dir);
    }
    let _log = state_dir.and_then(|dir| logging::start(&dir));
    carry_out(cli.perform()?, parent.as_ref())
}

/// Does what is left to do after a verb, and returns the exit code.
fn carry_out(outcome: VerbOutcome, parent: Option<&ParentProcess>) -> CliResult {
    match outcome {
        VerbOutcome::Done(code) => Ok(code),
        VerbOutcome::BeginSession(start) => start_session::begin(*start, parent),
        VerbOutcome::ResumeSession(resumed) => start_session::resume(*resumed, parent),
        VerbOutcome::RunDemo(demo) => {
            let DemoSession { start, folder } = *demo;
            // Not detachable: its folder is removed with the screen, so there would be nothing to
            // attach to.
            let code = start_session::begin(start, None)?;
            folder.close();
            Ok(code)
        }
        VerbOutcome::Attach(screen) => screens::attach(screen, CloseBehavior::Loose).map(|_| 0),
        VerbOutcome::Home(home) => home_screen::show(*home),
        VerbOutcome::Replay(screen) => screens::replay(&screen).map(|_| 0),
        VerbOutcome::WriteCast(cast) => screens::write_cast(&cast),
        VerbOutcome::ServeTools(request) => start_session::serve(request),
        VerbOutcome::PrintCheck(report) => report.print(&screens::keymap_mistakes()),
        VerbOutcome::PrintDoctor(report) => {
            let notifier = TerminalNotifier::detect(|name| std::env::var(name).ok());
            report.print(&notifier.in_words(), &screens::keymap_mistakes())
        }
    }
}
