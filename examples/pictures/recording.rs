//! Records what creel shows in a real terminal.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{Read as _, Write as _},
    num::NonZeroU16,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use pty_process::{
    Size,
    blocking::{Command, Pty, open},
};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Color, Modifier},
};

use crate::{Result, Scene};

/// How long creel has to show what is wanted.
const PATIENCE: Duration = Duration::from_mins(2);

/// How long a screen has to close.
const LEAVES_WITHIN: Duration = Duration::from_secs(5);

/// What a terminal shows.
struct Shown {
    parser: vt100::Parser,
    /// Whether creel draws a screen. Another program prints lines.
    has_screen: bool,
    /// Whether the last frame is complete: each of a screen ends with this sequence.
    is_whole: bool,
}

const FRAME_END: &[u8] = b"\x1b[?2026l";

/// A session in a terminal and a folder of its own.
pub struct SessionTerminal {
    pty: Arc<Pty>,
    child: std::process::Child,
    shown: Arc<Mutex<Shown>>,
    home: PathBuf,
    /// The folder of creel, and what the programs of the picture run with.
    path: OsString,
    teardown: &'static str,
}

impl SessionTerminal {
    /// Runs a program, such as creel, in a folder with these files that a script has prepared.
    pub fn start(creel: &Path, scene: &Scene) -> Result<Self> {
        let home = std::env::temp_dir().join(format!("creel-pictures-{}", std::process::id()));
        fs::create_dir_all(&home)?;
        for (name, text) in scene.files {
            fs::write(home.join(name), text)?;
        }
        let folders = creel.parent().into_iter().map(Path::to_owned);
        let others = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(home.join("bin")).chain(folders);
        let path = std::env::join_paths(folders.chain(std::env::split_paths(&others)))?;
        in_shell(scene.setup, &home, &path)?;
        let (pty, inside) = open()?;
        pty.resize(Size::new(scene.size.1, scene.size.0))?;
        let command = variables(&home, &path).into_iter().fold(
            Command::new(scene.command[0])
                .args(&scene.command[1..])
                .current_dir(home.join(scene.folder))
                .env_remove("NO_COLOR"),
            |command, (name, value)| command.env(name, value),
        );
        let child = command.spawn(inside)?;
        let cells = |n| NonZeroU16::new(n).ok_or("a terminal has a size");
        let parser = vt100::Parser::new(cells(scene.size.1)?, cells(scene.size.0)?, 0);
        let shown = Arc::new(Mutex::new(Shown {
            parser,
            has_screen: scene.command[0] == "creel",
            is_whole: false,
        }));
        let (pty, reader) = (Arc::new(pty), shown.clone());
        let input = pty.clone();
        std::thread::spawn(move || read(&input, &reader));
        let session = Self {
            pty,
            child,
            shown,
            home,
            path,
            teardown: scene.teardown,
        };
        session.wait_for(&[])?;
        Ok(session)
    }

    pub fn press(&self, keys: &str) -> Result<()> {
        (&*self.pty).write_all(keys.as_bytes())?;
        Ok(())
    }

    /// The first whole frame that has all of these texts.
    pub fn wait_for(&self, texts: &[&str]) -> Result<Buffer> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let shown = look(&self.shown);
            let screen = shown.parser.screen();
            let text = screen.contents();
            if shown.is_whole
                && screen.alternate_screen() == shown.has_screen
                && texts.iter().all(|wanted| text.contains(wanted))
            {
                return Ok(buffer(screen));
            }
            drop(shown);
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(format!(
            "creel does not show {texts:?}: {}",
            look(&self.shown).parser.screen().contents()
        )
        .into())
    }

    /// One frame per interval, until the screen has this text, and some frames more.
    pub fn record(&self, each: Duration, last: &str, more: usize) -> Result<Vec<Buffer>> {
        record(&self.shown, each, last, more)
    }

    /// Ends the session at once.
    pub fn end(mut self) -> Result<()> {
        // Ctrl-C twice. A screen that asks first is killed: nothing runs there any more.
        (&*self.pty).write_all(b"\x03\x03")?;
        let begin = Instant::now();
        while self.child.try_wait()?.is_none() {
            if begin.elapsed() > LEAVES_WITHIN {
                self.child.kill()?;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        in_shell(self.teardown, &self.home, &self.path)?;
        fs::remove_dir_all(&self.home)?;
        Ok(())
    }
}

/// What every program of a picture runs with: nothing of the developer's own settings.
fn variables(home: &Path, path: &OsStr) -> [(&'static str, OsString); 14] {
    [
        ("PATH", path.to_owned()),
        ("HOME", home.into()),
        ("XDG_STATE_HOME", home.join("state").into()),
        ("XDG_CONFIG_HOME", home.join("config").into()),
        ("TERM", "xterm-256color".into()),
        ("COLORFGBG", "15;0".into()),
        ("LC_ALL", "C.UTF-8".into()),
        ("TZ", "UTC".into()),
        ("GIT_AUTHOR_NAME", "Ada".into()),
        ("GIT_AUTHOR_EMAIL", "ada@example.org".into()),
        ("GIT_COMMITTER_NAME", "Ada".into()),
        ("GIT_COMMITTER_EMAIL", "ada@example.org".into()),
        ("GIT_CONFIG_GLOBAL", "/dev/null".into()),
        ("PS1", "$ ".into()),
    ]
}

fn in_shell(script: &str, home: &Path, path: &OsStr) -> Result<()> {
    let done = std::process::Command::new("sh")
        .args(["-ec", script])
        .current_dir(home)
        .envs(variables(home, path))
        .output()?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(format!("{script}\nfailed: {said}").into());
    }
    Ok(())
}

fn record(shown: &Mutex<Shown>, each: Duration, last: &str, more: usize) -> Result<Vec<Buffer>> {
    let begin = Instant::now();
    let mut recorded: Vec<Buffer> = Vec::new();
    let mut left = None;
    while left != Some(0) {
        if begin.elapsed() > PATIENCE {
            return Err(format!("creel never shows {last:?}").into());
        }
        let due = begin + each * u32::try_from(recorded.len())?;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let now = look(shown);
        left = match left {
            Some(left) => Some(left - 1),
            None if now.is_whole && now.parser.screen().contents().contains(last) => Some(more),
            None => None,
        };
        let frame = if now.is_whole {
            None
        } else {
            recorded.last().cloned()
        };
        recorded.push(frame.unwrap_or_else(|| buffer(now.parser.screen())));
    }
    Ok(recorded)
}

fn look(shown: &Mutex<Shown>) -> MutexGuard<'_, Shown> {
    shown.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads until creel has closed the terminal.
fn read(pty: &Pty, shown: &Mutex<Shown>) {
    let mut bytes = [0; 16 * 1024];
    let mut input = pty;
    while let Ok(count @ 1..) = input.read(&mut bytes) {
        let mut shown = look(shown);
        shown.parser.process(&bytes[..count]);
        shown.is_whole = !shown.has_screen || bytes[..count].ends_with(FRAME_END);
    }
}

fn buffer(screen: &vt100::Screen) -> Buffer {
    let (height, width) = screen.size();
    let mut buffer = Buffer::empty(Rect {
        x: 0,
        y: 0,
        width: width.get(),
        height: height.get(),
    });
    for row in 0..height.get() {
        for column in 0..width.get() {
            let Some(seen) = screen.cell(row, column) else {
                continue;
            };
            let cell = &mut buffer[(column, row)];
            cell.set_symbol(if seen.has_contents() {
                seen.contents()
            } else {
                " "
            });
            cell.set_fg(colour(seen.fgcolor()))
                .set_bg(colour(seen.bgcolor()));
            let looks = [
                (seen.bold(), Modifier::BOLD),
                (seen.inverse(), Modifier::REVERSED),
                (seen.dim(), Modifier::DIM),
            ];
            cell.modifier = looks
                .into_iter()
                .filter(|(is, _)| *is)
                .map(|(_, look)| look)
                .collect();
        }
    }
    buffer
}

fn colour(colour: vt100::Color) -> Color {
    match colour {
        vt100::Color::Rgb(r, g, b) => Color::Rgb(r, g, b),
        vt100::Color::Default | vt100::Color::Idx(_) => Color::Reset,
    }
}
