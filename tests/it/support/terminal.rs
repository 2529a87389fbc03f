//! creel in a real terminal of a given size: a test types, and reads what the terminal shows.
//!
//! Nothing here sleeps: new output wakes a waiting test, which then checks its condition again.

use std::{
    fmt::Write as _,
    io::{Read as _, Write as _},
    num::NonZeroU16,
    process::{Child, Command},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use pty_process::{
    Size,
    blocking::{Command as PtyCommand, Pty, open},
};
use rustix::{
    process::{Pid, Signal, kill_process},
    termios::tcgetattr,
};

use super::{PATIENCE, project::Project};

/// Width and height.
pub(crate) type Cells = (u16, u16);

pub(crate) struct Terminal {
    pty: Arc<Pty>,
    child: Child,
    seen: Arc<Seen>,
    /// The terminal settings before anything ran.
    pub(crate) before: String,
}

struct Seen {
    shown: Mutex<Shown>,
    news: Condvar,
}

/// The terminal's output so far.
pub(crate) struct Shown {
    parser: vt100::Parser,
    bytes: Vec<u8>,
    closed: bool,
}

impl Shown {
    /// The screen as text, one line per row.
    pub(crate) fn text(&self) -> String {
        let width = self.parser.screen().size().1.get();
        self.parser
            .screen()
            .rows(0, width)
            .fold(String::new(), |text, row| text + &row + "\n")
    }

    pub(crate) fn has(&self, text: &str) -> bool {
        self.text().contains(text)
    }

    /// Whether no frame is incomplete: the last one that began has ended. A title or a bell may
    /// have followed it.
    fn is_whole(&self) -> bool {
        let last = |mark: &[u8]| {
            self.bytes
                .windows(mark.len())
                .rposition(|bytes| bytes == mark)
        };
        !self.screen().alternate_screen() || last(b"\x1b[?2026l") > last(b"\x1b[?2026h")
    }

    /// The status line.
    pub(crate) fn status(&self) -> String {
        self.text().lines().next().unwrap_or_default().to_owned()
    }

    pub(crate) fn screen(&self) -> &vt100::Screen {
        self.parser.screen()
    }
}

impl Seen {
    fn look(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads until the last program has closed the terminal.
    fn read(&self, pty: &Pty) {
        let mut buffer = [0; 16 * 1024];
        let mut input = pty;
        loop {
            // The read fails after the last program has closed the terminal: that is the end.
            let read = input.read(&mut buffer).unwrap_or(0);
            let mut shown = self.look();
            shown.parser.process(&buffer[..read]);
            shown.bytes.extend_from_slice(&buffer[..read]);
            shown.closed = read == 0;
            drop(shown);
            self.news.notify_all();
            if read == 0 {
                return;
            }
        }
    }

    /// The output once the condition is true or the time is over; and whether it is true.
    fn wait(
        &self,
        patience: Duration,
        wanted: impl Fn(&Shown) -> bool,
    ) -> (MutexGuard<'_, Shown>, bool) {
        let wanted = |shown: &Shown| shown.is_whole() && wanted(shown);
        let deadline = Instant::now() + patience;
        let mut shown = self.look();
        while !wanted(&shown) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || shown.closed {
                let came = wanted(&shown);
                return (shown, came);
            }
            shown = self
                .news
                .wait_timeout(shown, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        (shown, true)
    }
}

fn cells(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("a terminal has a size")
}

impl Terminal {
    /// creel in a terminal of this size.
    pub(crate) fn open(project: &Project, args: &[&str], size: Cells) -> Self {
        Self::start(at_home(project, args), size)
    }

    /// A trusted session named `s`.
    pub(crate) fn run(project: &Project, size: Cells) -> Self {
        Self::open(project, &["run", "--trust", "-s", "s"], size)
    }

    /// The same, with more environment variables.
    pub(crate) fn run_with(project: &Project, variables: &[(&str, &str)]) -> Self {
        let mut command = at_home(project, &["run", "--trust", "-s", "s"]);
        command.envs(variables.iter().copied());
        Self::start(command, (120, 40))
    }

    pub(crate) fn start(mut command: Command, (width, height): Cells) -> Self {
        let (pty, inside) = open().expect("a terminal");
        pty.resize(Size::new(height, width)).expect("it has a size");
        let pty = Arc::new(pty);
        let before = settings(&pty);
        command
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .env_remove("VISUAL");
        let child = PtyCommand::from(command).spawn(inside).expect("it starts");
        let parser = vt100::Parser::new(cells(height), cells(width), 0);
        let shown = Mutex::new(Shown {
            parser,
            bytes: Vec::new(),
            closed: false,
        });
        let seen = Arc::new(Seen {
            shown,
            news: Condvar::new(),
        });
        let (reader, input) = (seen.clone(), pty.clone());
        std::thread::spawn(move || reader.read(&input));
        Self {
            pty,
            child,
            seen,
            before,
        }
    }

    /// Waits until a condition is true for the screen.
    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, wanted: impl Fn(&Shown) -> bool) {
        let (shown, came) = self.seen.wait(PATIENCE, wanted);
        assert!(
            came,
            "waited in vain for {what}; the screen shows:\n{}",
            shown.text()
        );
    }

    /// Waits for a text on the screen.
    #[track_caller]
    pub(crate) fn wait_for_text(&self, text: &str) {
        self.wait_for(text, |shown| shown.has(text));
    }

    /// Waits for a text in the status line.
    #[track_caller]
    pub(crate) fn wait_for_status(&self, text: &str) {
        self.wait_for(text, |shown| {
            shown.screen().alternate_screen() && shown.status().contains(text)
        });
    }

    /// Whether the condition becomes true within a moment, as when a typing user looks at the
    /// screen.
    pub(crate) fn glance(&self, wanted: impl Fn(&Shown) -> bool) -> bool {
        self.seen.wait(Duration::from_millis(20), wanted).1
    }

    /// Presses keys by name, or as they are: `right enter`, `q`.
    pub(crate) fn press(&self, keys: &str) {
        for key in keys.split(' ') {
            self.type_text(match key {
                "enter" => "\r",
                "esc" => "\u{1b}",
                "space" => " ",
                "right" => "\u{1b}[C",
                "down" => "\u{1b}[B",
                "page-up" => "\u{1b}[5~",
                "home" => "\u{1b}[H",
                "end" => "\u{1b}[F",
                "ctrl-c" => "\u{3}",
                "ctrl-d" => "\u{4}",
                "ctrl-l" => "\u{c}",
                "ctrl-s" => "\u{13}",
                "ctrl-z" => "\u{1a}",
                plain => plain,
            });
        }
    }

    pub(crate) fn type_text(&self, text: &str) {
        let mut input = &*self.pty;
        input.write_all(text.as_bytes()).expect("somebody listens");
    }

    /// Resizes the terminal, and the emulator that reads it.
    pub(crate) fn resize(&self, (width, height): Cells) {
        self.seen
            .look()
            .parser
            .set_size(cells(height), cells(width));
        self.pty
            .resize(Size::new(height, width))
            .expect("it has a size");
    }

    pub(crate) fn text(&self) -> String {
        self.look(Shown::text)
    }

    /// Reads from a complete frame.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Shown) -> T) -> T {
        look(&self.seen.wait(PATIENCE, |_| true).0)
    }

    /// Everything that was written to the terminal.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.seen.look().bytes.clone()
    }

    /// The current settings.
    pub(crate) fn settings(&self) -> String {
        settings(&self.pty)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).expect("a number")).expect("a process");
        kill_process(pid, signal).expect("it is there");
    }

    /// Waits until its first program has ended.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("it ended").code()
    }

    /// Waits until all programs have ended, and returns the exit code.
    #[track_caller]
    pub(crate) fn end(&mut self) -> i32 {
        self.wait_for("the end", |shown| shown.closed);
        self.child.wait().expect("it ended").code().unwrap_or(-1)
    }

    /// Asserts that the terminal is as before: its settings, and every mode that the screen uses.
    #[track_caller]
    pub(crate) fn is_as_it_was(&self) {
        assert_eq!(self.settings(), self.before);
        let bytes = self.bytes();
        for mode in [
            "1049", "1000", "1002", "1003", "1006", "1015", "1004", "2004",
        ] {
            let (on, off) = (format!("\u{1b}[?{mode}h"), format!("\u{1b}[?{mode}l"));
            let last = |text: &str| {
                bytes
                    .windows(text.len())
                    .rposition(|window| window == text.as_bytes())
            };
            assert!(
                last(&off).is_some() && last(&off) > last(&on),
                "mode {mode} was left on"
            );
        }
        self.look(|shown| {
            assert!(
                !shown.screen().alternate_screen(),
                "the alternate screen was left on"
            );
            assert!(!shown.screen().hide_cursor(), "the cursor is hidden");
            assert!(
                !shown.screen().bracketed_paste(),
                "bracketed paste was left on"
            );
            assert_eq!(
                shown.screen().mouse_protocol_mode(),
                vt100::MouseProtocolMode::None
            );
        });
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Leave nothing running after a failed test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// creel, independent of the developer's environment.
pub(crate) fn at_home(project: &Project, args: &[&str]) -> Command {
    let mut command = project.command(args);
    command.env("TMPDIR", project.root()).env_remove("EDITOR");
    for variable in [
        "TMUX",
        "STY",
        "TERM_PROGRAM",
        "LC_TERMINAL",
        "VTE_VERSION",
        "WT_SESSION",
    ] {
        command.env_remove(variable);
    }
    command.env("TERM", "xterm-256color");
    // As over ssh, so that a developer's Windows shows no notification.
    command.env("SSH_CONNECTION", "somewhere");
    command
}

/// The settings of a terminal, for comparison.
fn settings(pty: &Pty) -> String {
    let mut text = String::new();
    write!(
        text,
        "{:#?}",
        tcgetattr(pty).expect("a terminal has settings")
    )
    .expect("text takes everything");
    text
}
