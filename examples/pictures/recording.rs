//! Records what creel shows in a real terminal.

use std::{
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

use crate::Result;

/// How long creel has to show what is wanted.
const PATIENCE: Duration = Duration::from_mins(2);

/// What a terminal shows.
struct Shown {
    parser: vt100::Parser,
    /// Whether the last frame is complete: each ends with this sequence.
    is_whole: bool,
}

const FRAME_END: &[u8] = b"\x1b[?2026l";

/// A session in a terminal and a folder of its own.
pub struct SessionTerminal {
    pty: Arc<Pty>,
    child: std::process::Child,
    shown: Arc<Mutex<Shown>>,
    home: PathBuf,
}

impl SessionTerminal {
    /// Runs creel in a folder with these files.
    pub fn start(
        creel: &Path,
        args: &[&str],
        (width, height): (u16, u16),
        files: &[(&str, &str)],
    ) -> Result<Self> {
        let home = std::env::temp_dir().join(format!("creel-pictures-{}", std::process::id()));
        fs::create_dir_all(&home)?;
        for (name, text) in files {
            fs::write(home.join(name), text)?;
        }
        let (pty, inside) = open()?;
        pty.resize(Size::new(height, width))?;
        let command = Command::new(creel)
            .args(args)
            .current_dir(&home)
            .env("HOME", &home)
            .env("XDG_STATE_HOME", home.join("state"))
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("TERM", "xterm-256color")
            .env("COLORFGBG", "15;0")
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .env_remove("NO_COLOR");
        let child = command.spawn(inside)?;
        let cells = |n| NonZeroU16::new(n).ok_or("a terminal has a size");
        let parser = vt100::Parser::new(cells(height)?, cells(width)?, 0);
        let shown = Arc::new(Mutex::new(Shown {
            parser,
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
        };
        session.wait_for(&[])?;
        Ok(session)
    }

    /// The first whole frame that has all of these texts.
    pub fn wait_for(&self, texts: &[&str]) -> Result<Buffer> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let shown = look(&self.shown);
            let screen = shown.parser.screen();
            let text = screen.contents();
            if shown.is_whole
                && screen.alternate_screen()
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
        // Ctrl-C twice.
        (&*self.pty).write_all(b"\x03\x03")?;
        self.child.wait()?;
        fs::remove_dir_all(&self.home)?;
        Ok(())
    }
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
        shown.is_whole = bytes[..count].ends_with(FRAME_END);
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
