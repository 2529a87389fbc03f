//! Records what creel shows in a real terminal.

use std::{
    fs,
    io::{Read as _, Write as _},
    num::NonZeroU16,
    path::Path,
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

/// How long creel has to show its first frame.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a terminal shows.
struct Shown {
    parser: vt100::Parser,
    /// Whether the last frame is complete: each ends with this sequence.
    is_whole: bool,
}

const FRAME_END: &[u8] = b"\x1b[?2026l";

/// The frames of `creel demo`, one per interval.
pub fn demo(creel: &Path, (width, height): (u16, u16), each: Duration, frames: usize) -> Result<Vec<Buffer>> {
    let home = std::env::temp_dir().join(format!("creel-pictures-{}", std::process::id()));
    fs::create_dir_all(&home)?;
    let (pty, inside) = open()?;
    pty.resize(Size::new(height, width))?;
    let command = Command::new(creel)
        .arg("demo")
        .current_dir(&home)
        .env("HOME", &home)
        .env("XDG_STATE_HOME", home.join("state"))
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("TERM", "xterm-256color")
        .env("COLORFGBG", "15;0")
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .env_remove("NO_COLOR");
    let mut child = command.spawn(inside)?;
    let cells = |n| NonZeroU16::new(n).ok_or("a terminal has a size");
    let parser = vt100::Parser::new(cells(height)?, cells(width)?, 0);
    let shown = Arc::new(Mutex::new(Shown { parser, is_whole: false }));
    let (pty, reader) = (Arc::new(pty), shown.clone());
    let input = pty.clone();
    std::thread::spawn(move || read(&input, &reader));
    let recorded = record(&shown, each, frames);
    // Ctrl-C twice ends it at once.
    (&*pty).write_all(b"\x03\x03")?;
    child.wait()?;
    fs::remove_dir_all(&home)?;
    recorded
}

fn record(shown: &Mutex<Shown>, each: Duration, frames: usize) -> Result<Vec<Buffer>> {
    let begin = Instant::now();
    while !(look(shown).is_whole && look(shown).parser.screen().alternate_screen()) {
        if begin.elapsed() > PATIENCE {
            return Err("creel shows no screen".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let begin = Instant::now();
    let mut recorded: Vec<Buffer> = Vec::new();
    for n in 0..frames {
        let due = begin + each * u32::try_from(n)?;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let now = look(shown);
        let frame = if now.is_whole { None } else { recorded.last().cloned() };
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
    let mut buffer = Buffer::empty(Rect { x: 0, y: 0, width: width.get(), height: height.get() });
    for row in 0..height.get() {
        for column in 0..width.get() {
            let Some(seen) = screen.cell(row, column) else { continue };
            let cell = &mut buffer[(column, row)];
            cell.set_symbol(if seen.has_contents() { seen.contents() } else { " " });
            cell.set_fg(colour(seen.fgcolor())).set_bg(colour(seen.bgcolor()));
            let looks = [(seen.bold(), Modifier::BOLD), (seen.inverse(), Modifier::REVERSED)];
            cell.modifier = looks.into_iter().filter(|(is, _)| *is).map(|(_, look)| look).collect();
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
