//! A worker behind the home screen: a process of its own, which ends when the screen does.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _},
    os::unix::{
        fs::OpenOptionsExt as _,
        process::{CommandExt as _, ExitStatusExt as _},
    },
    path::{Path, PathBuf},
    process::{ChildStdin, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::watch;

use crate::journal::session_dir::{PRIVATE_FILE, create_ignored};

/// How often creel looks whether a worker that it stops has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The exit code after a signal.
const STOPPED: u8 = 130;
/// How many of its last lines a user sees.
const LAST_LINES: usize = 8;

/// A worker that runs while the home screen shows its sessions.
pub(crate) struct ScreenedWorker {
    end: watch::Receiver<Option<u8>>,
    /// The worker ends when this is closed.
    stdin: Option<ChildStdin>,
    log: PathBuf,
    /// Where its lines begin in the log.
    from: u64,
}

impl ScreenedWorker {
    /// Starts the same command again, without a terminal.
    pub(crate) fn start(root: &Path) -> io::Result<Self> {
        let folder = root.join(".creel/queue");
        let log = folder.join("worker.log");
        create_ignored(&folder)?;
        // The home screen watches it from the start.
        create_ignored(&root.join(".creel/sessions"))?;
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(PRIVATE_FILE)
            .open(&log)?;
        let from = file.metadata()?.len();
        let mut child = Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .arg("--behind-screen")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()?;
        let stdin = child.stdin.take();
        let (sender, end) = watch::channel(None);
        std::thread::spawn(move || sender.send(Some(child.wait().map_or(1, code))));
        Ok(Self {
            end,
            stdin,
            log,
            from,
        })
    }

    /// Its exit code, once it has ended.
    pub(crate) fn end(&self) -> watch::Receiver<Option<u8>> {
        self.end.clone()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// Stops it, and waits until it has ended: its tasks go back to the queue.
    pub(crate) fn stop(&mut self) -> u8 {
        drop(self.stdin.take());
        loop {
            if let Some(code) = *self.end.borrow() {
                return code;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// The last lines that it printed.
    pub(crate) fn last_lines(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let from = usize::try_from(self.from).unwrap_or(0).min(text.len());
        let text = String::from_utf8_lossy(&text[from..]).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}

fn code(status: ExitStatus) -> u8 {
    // A worker that has just started has no other way to end at a signal.
    let stopped = || (status.signal() == Some(Signal::TERM.as_raw())).then_some(STOPPED);
    status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .or_else(stopped)
        .unwrap_or(1)
}

/// Behind a screen: ends this worker in order when the screen is gone, however that ended.
pub(crate) fn end_with_screen() {
    std::thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        let _ = kill_process(getpid(), Signal::TERM);
    });
}
