//! A program in a terminal of its own, as a user would start it.

use std::{
    fs,
    io::{Read as _, Write as _},
    num::NonZero,
    os::fd::AsFd as _,
    path::Path,
    process::{Child, Command},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use pty_process::{Size, blocking};

use crate::measure::Result;

/// As in the table of the documentation.
const ROWS: NonZero<u16> = NonZero::new(50).expect("50 is not 0");
const COLUMNS: NonZero<u16> = NonZero::new(200).expect("200 is not 0");
/// How long a program may take to show something.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a terminal says when a program asks for its kind and for the position of the cursor.
const ANSWERS: [(&[u8], &[u8]); 3] = [
    (b"\x1b[c", b"\x1b[?62;22c"),
    (b"\x1b[0c", b"\x1b[?62;22c"),
    (b"\x1b[6n", b"\x1b[1;1R"),
];

pub(crate) struct TerminalProgram {
    child: Child,
    started: Instant,
    chunks: Receiver<(Instant, Vec<u8>)>,
    screen: vt100::Parser,
    /// Bytes that the program has printed.
    printed: usize,
}

impl TerminalProgram {
    pub(crate) fn start(command: blocking::Command) -> Result<Self> {
        let (mut pty, pts) = blocking::open()?;
        pty.resize(Size::new(ROWS.get(), COLUMNS.get()))?;
        let mut keyboard = fs::File::from(pty.as_fd().try_clone_to_owned()?);
        let (told, chunks) = mpsc::channel();
        let started = Instant::now();
        let child = command.spawn(pts)?;
        thread::spawn(move || {
            let mut bytes = vec![0; 1 << 16];
            while let Ok(count) = pty.read(&mut bytes) {
                let chunk = &bytes[..count];
                for (question, answer) in ANSWERS {
                    if chunk
                        .windows(question.len())
                        .any(|window| window == question)
                    {
                        let _ = keyboard.write_all(answer);
                    }
                }
                if count == 0 || told.send((Instant::now(), chunk.to_vec())).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            child,
            started,
            chunks,
            screen: vt100::Parser::new(ROWS, COLUMNS, 0),
            printed: 0,
        })
    }

    /// Waits until the screen shows this, and returns how long that took from the start.
    pub(crate) fn until(&mut self, shows: impl Fn(&str) -> bool) -> Result<Duration> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (at, bytes) = match self
                .chunks
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(chunk) => chunk,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(format!(
                        "the program never showed it:\n{}",
                        self.screen.screen().contents()
                    )
                    .into());
                }
            };
            self.printed += bytes.len();
            self.screen.process(&bytes);
            if shows(&self.screen.screen().contents()) {
                return Ok(at - self.started);
            }
        }
    }

    /// Lets the program run for a while, and returns how many bytes it printed.
    pub(crate) fn watch(&mut self, time: Duration) -> usize {
        let (deadline, before) = (Instant::now() + time, self.printed);
        while let Ok((_, bytes)) = self
            .chunks
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            self.printed += bytes.len();
            self.screen.process(&bytes);
        }
        self.printed - before
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for TerminalProgram {
    /// Lets the program end properly: the next creel would first look for processes of a killed
    /// one.
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process and everything below it that runs the same program.
pub(crate) fn same_program(pid: u32) -> Vec<u32> {
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        let threads = fs::read_dir(format!("/proc/{parent}/task"))
            .into_iter()
            .flatten()
            .flatten();
        for thread in threads {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let pids = children
                .split_whitespace()
                .filter_map(|pid| pid.parse::<u32>().ok());
            found.extend(
                pids.filter(|pid| fs::read_link(format!("/proc/{pid}/exe")).ok() == program),
            );
        }
    }
    found
}

/// The sum over processes of a line of `/proc/PID/status`, in KiB.
pub(crate) fn memory_kib(pids: &[u32], line: &str) -> Result<u64> {
    let of = |pid: &u32| -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let found = status.lines().find_map(|text| text.strip_prefix(line));
        Ok(found
            .and_then(|rest| rest.split_whitespace().next())
            .ok_or("the kernel does not say")?
            .parse()?)
    };
    pids.iter().map(of).sum()
}

/// A command that sees only this folder as the user's home.
pub(crate) fn at_home(program: &Path, folder: &Path, home: &Path) -> blocking::Command {
    blocking::Command::new(program)
        .current_dir(folder)
        .env("HOME", home)
        .env("XDG_STATE_HOME", home.join("state"))
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("TERM", "xterm-256color")
        .env_remove("XDG_RUNTIME_DIR")
        .env_remove("CREEL_SESSION")
        .env_remove("TMUX")
}
