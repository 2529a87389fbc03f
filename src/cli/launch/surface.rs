//! Where a session is shown: on a screen, printed, or nowhere, because `--detach` runs it in the
//! background.
//!
//! For the background, creel starts itself again instead of forking, so that session starts like any
//! other, survives the terminal, and has no open files of it.

use std::{
    ffi::OsString,
    fs::{DirBuilder, File, OpenOptions},
    io::{self, IsTerminal as _, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use crate::{
    cli::{
        arguments::{DetachArgs, OutputArgs},
        error::{CliError, CliResult, print, say},
        headless::PrintFormat,
        target,
    },
    config::UiSettings,
    engine::event::UserPresence,
    journal::{
        self, SessionDir,
        session_dir::{PRIVATE_DIR, PRIVATE_FILE},
    },
    process::{playback_pace::PlaybackPace, sweep},
    socket::address::SocketLocation,
};

/// How often to check whether the session has started.
const AGAIN: Duration = Duration::from_millis(10);
/// How long to wait until a running session can be reached.
const UNREACHED: Duration = Duration::from_secs(5);
/// The exit code of a session that could not start.
const USAGE: i32 = 2;

/// Runs this same command again in the background, with `more` before its own arguments and `input`
/// as its standard input. Prints the session's name as soon as the session can be reached.
pub(crate) fn start_detached(folder: &SessionDir, more: &[&str], input: &str) -> CliResult {
    let failed = |error: io::Error| {
        CliError::failed(format!("cannot start a session in the background: {error}"))
    };
    let mut log = detached_log()?;
    let before = log.seek(SeekFrom::End(0)).map_err(failed)?;
    let mut child = spawn(more, &log).map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A process that does not read the text has ended, and its error is printed below.
        let _ = stdin.write_all(input.as_bytes());
    }
    match begun(folder, &mut child).map_err(failed)? {
        Some(status) if status.code() == Some(USAGE) || !folder.exists() => {
            let mut why = String::new();
            log.seek(SeekFrom::Start(before))
                .and_then(|_| log.read_to_string(&mut why))
                .map_err(failed)?;
            say(&why);
            Ok(status
                .code()
                .and_then(|code| u8::try_from(code).ok())
                .unwrap_or(1))
        }
        Some(_) | None => {
            say(&format!(
                "creel: show the session with `creel attach {0}`, end it with `creel stop -s {0}`",
                folder.name
            ));
            print(&format!("{}\n", folder.name))
        }
    }
}

/// The log for messages of background sessions, which have no terminal.
pub(crate) fn detached_log() -> CliResult<File> {
    let folder = target::state_dir()?.join("log");
    let path = folder.join("background.log");
    let open = |()| {
        OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(PRIVATE_FILE)
            .open(&path)
    };
    DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_DIR)
        .create(&folder)
        .and_then(open)
        .map_err(|error| CliError::failed(format!("cannot write {}: {error}", path.display())))
}

fn spawn(more: &[&str], log: &File) -> io::Result<Child> {
    let mut own = std::env::args_os().skip(1);
    let subcommand = own.next().unwrap_or_default();
    // The option comes last: what is before it can have an optional value, which must not be the
    // prompt.
    let more = more.iter().chain(&["--background"]).map(OsString::from);
    Command::new(std::env::current_exe()?)
        .arg(subcommand)
        .args(more)
        .args(own)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(log.try_clone()?)
        .spawn()
}

/// Waits until the session can be reached, or the process has ended. A session that cannot be
/// reached still runs.
fn begun(folder: &SessionDir, child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let mut holds_since: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let holds = journal::running(folder).is_some_and(|holder| holder.pid == Some(child.id()));
        if holds {
            let since = *holds_since.get_or_insert_with(Instant::now);
            let is_reached =
                SocketLocation::of(folder).is_some_and(|address| address.connect().is_ok());
            if is_reached || since.elapsed() > UNREACHED {
                return Ok(None);
            }
        }
        std::thread::sleep(AGAIN);
    }
}

/// Detaches from the terminal and from the process group of the caller.
pub(crate) fn leave_the_terminal() {
    sweep::remember_session();
    // This fails only for the leader of a group, and a process that creel has started is not one.
    if let Err(error) = rustix::process::setsid() {
        tracing::warn!("this session cannot leave its terminal: {error}");
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum SessionSurface {
    /// On the screen, where the user can answer.
    Screen(UiSettings),
    /// On the screen, at a pace that the viewer controls.
    Demo(UiSettings, PlaybackPace),
    /// Printed, usually unattended.
    Printed(PrintFormat, UserPresence),
    /// Not at all: it runs in the background, and waits until the user attaches or answers from
    /// elsewhere.
    Nowhere,
}

impl SessionSurface {
    /// The surface that the command line asks for. Without a terminal there is no screen.
    pub(crate) fn chosen(output: OutputArgs, detach: DetachArgs, ui: UiSettings) -> Self {
        if detach.background {
            return Self::Nowhere;
        }
        let presence = if output.attended {
            UserPresence::Attended
        } else {
            UserPresence::Unattended
        };
        match output {
            OutputArgs { json: true, .. } => Self::Printed(PrintFormat::Json, presence),
            OutputArgs { .. } if !is_on_screen(output, detach) => {
                Self::Printed(PrintFormat::Lines, presence)
            }
            OutputArgs { .. } => Self::Screen(ui),
        }
    }

    /// Whether the user can answer.
    pub(crate) fn presence(self) -> UserPresence {
        match self {
            Self::Screen(_) | Self::Demo(..) | Self::Nowhere => UserPresence::Attended,
            Self::Printed(_, presence) => presence,
        }
    }
}

/// Refuses to open a screen on a terminal that cannot show one.
pub(crate) fn require_screen() -> CliResult<()> {
    if is_dumb() {
        return Err(CliError::usage(
            "this terminal (TERM=dumb) cannot show the screen: `creel run --headless` prints lines, and `creel sessions` lists the sessions",
        ));
    }
    Ok(())
}

/// Whether the terminal can only print lines.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Whether a session with these arguments has a screen.
pub(crate) fn is_on_screen(output: OutputArgs, detach: DetachArgs) -> bool {
    let asked_for = !output.json && !output.headless && !detach.detach && !detach.background;
    asked_for && io::stdin().is_terminal() && io::stdout().is_terminal()
}
