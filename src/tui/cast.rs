//! Writes a replay as an asciicast, a recording that other programs play: the frames of the screen
//! as a terminal would get them, without a terminal.
//!
//! # Invariants
//! - The same journal, size and theme give the same recording.
//! - Pauses are those of a replay on the screen.

use std::io::{self, Write};

use ratatui::{backend::Backend as _, buffer::Buffer, layout::Rect};
use serde_json::json;

use crate::{
    config::ThemeName,
    engine::time::{TimeSpan, UnixTime},
    journal::{RecordTail, SessionDir},
    present::style::SignSet,
    tui::{
        keymap::Keymap,
        model::{ScreenMode, ScreenModel},
        replay::ReplayPlayer,
        terminal::lean_backend::LeanBackend,
        theme::ScreenTheme,
        view,
    },
};

/// The version of the format.
const VERSION: u32 = 2;
/// Records that follow each other faster share a frame.
const FRAME: TimeSpan = TimeSpan(40);
/// How long the last frame stays.
const REST: TimeSpan = TimeSpan(3_000);

/// How the screen looks.
#[derive(Debug, Clone, Copy)]
pub struct CastLook {
    /// Columns and rows.
    pub size: (u16, u16),
    pub theme: ThemeName,
    pub signs: SignSet,
}

struct CastRecording<W: Write> {
    out: W,
    model: ScreenModel,
    shown: Buffer,
    backend: LeanBackend<FrameBytes>,
}

/// The bytes of a frame, until they are written as one event.
#[derive(Debug, Default)]
struct FrameBytes(Vec<u8>);

impl Write for FrameBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the recording of a session.
pub fn write_cast(session: &SessionDir, look: CastLook, out: impl Write) -> io::Result<()> {
    let mut feed = RecordTail::open(&session.journal())?;
    let mut player = ReplayPlayer::default();
    let mut marks = Vec::new();
    while let Some((spot, record)) = feed.next_placed()? {
        player.add(spot, &record);
        marks.push((spot, record.at));
    }
    let began = marks.first().map_or(UnixTime(0), |(_, at)| *at);
    player.toggle(UnixTime(0));
    let mut recording = CastRecording::new(player, look, out);
    recording.head(&session.name, began)?;
    let mut elapsed = TimeSpan::default();
    let mut drawn: Option<TimeSpan> = None;
    for (n, (spot, at)) in marks.iter().enumerate() {
        let record = feed.again(*spot)?;
        recording.model.take(*spot, &record);
        recording.model.now = UnixTime(0).after(elapsed);
        if let ScreenMode::Replay(player) = &mut recording.model.link.mode {
            player.shown = n + 1;
            player.plan(UnixTime(0).after(elapsed));
        }
        let next = marks.get(n + 1).map(|(_, next)| next.since(*at));
        let pause = next.map_or(TimeSpan::default(), ReplayPlayer::pause);
        let is_due = drawn.is_none_or(|drawn| elapsed.0 - drawn.0 >= FRAME.0);
        // A frame that stays long enough to be seen, or the last one.
        if is_due || pause >= FRAME || next.is_none() {
            recording.draw(elapsed, &|spot| feed.again(spot).ok())?;
            drawn = Some(elapsed);
        }
        elapsed = TimeSpan(elapsed.0.saturating_add(pause.0));
    }
    recording.event(TimeSpan(elapsed.0.saturating_add(REST.0)), "")?;
    recording.out.flush()
}

impl<W: Write> CastRecording<W> {
    fn new(player: ReplayPlayer, look: CastLook, out: W) -> Self {
        let theme = ScreenTheme::chosen(look.theme, false);
        let mode = ScreenMode::Replay(player);
        let mut model = ScreenModel::new(Keymap::standard(), theme, mode);
        model.size = look.size;
        model.look.signs = look.signs;
        let (width, height) = look.size;
        Self {
            out,
            model,
            shown: Buffer::empty(Rect::new(0, 0, width, height)),
            backend: LeanBackend::new(FrameBytes::default()),
        }
    }

    fn head(&mut self, session: &str, began: UnixTime) -> io::Result<()> {
        let (width, height) = self.model.size;
        let head = json!({
            "version": VERSION,
            "width": width,
            "height": height,
            "timestamp": began.0.div_euclid(1_000),
            "title": format!("creel replay {session}"),
            "env": { "TERM": "xterm-256color" },
        });
        writeln!(self.out, "{head}")?;
        self.backend.hide_cursor()?;
        self.backend.clear()
    }

    fn draw(&mut self, at: TimeSpan, reload: super::stream::RecordLoader<'_>) -> io::Result<()> {
        let area = self.shown.area;
        self.model.look_after_the_gate();
        view::prepare(&mut self.model, area, reload);
        let mut next = Buffer::empty(area);
        view::draw(&self.model, area, &mut next);
        let changed = self.shown.diff(&next);
        self.backend.draw(changed.into_iter())?;
        self.backend.flush()?;
        self.shown = next;
        let bytes = std::mem::take(&mut self.backend.writer_mut().0);
        if bytes.is_empty() {
            return Ok(());
        }
        self.event(at, &String::from_utf8_lossy(&bytes))
    }

    fn event(&mut self, at: TimeSpan, text: &str) -> io::Result<()> {
        let seconds = format!("{}.{:03}", at.0 / 1_000, at.0 % 1_000);
        let text = serde_json::to_string(text)?;
        writeln!(self.out, "[{seconds}, \"o\", {text}]")
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use serde_json::Value;

    use super::*;

    fn recorded(name: &str, size: (u16, u16)) -> String {
        let dir = tempfile::tempdir().expect("a folder");
        let journal = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/fixtures/journals")
            .join(name);
        fs::copy(journal, dir.path().join("journal.jsonl")).expect("copied");
        let session = SessionDir {
            name: "s".to_owned(),
            path: dir.path().to_owned(),
        };
        let look = CastLook {
            size,
            theme: ThemeName::Dark,
            signs: SignSet::Unicode,
        };
        let mut out = Vec::new();
        write_cast(&session, look, &mut out).expect("a recording");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_recording_ends_with_the_screen_that_a_replay_ends_with() {
        for size in [(80_u16, 24_u16), (120, 40), (40, 12)] {
            let cast = recorded("0.1.0/retry_gates.jsonl", size);
            assert_eq!(cast, recorded("0.1.0/retry_gates.jsonl", size));
            let mut lines = cast
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
            let head = lines.next().expect("a head");
            assert_eq!(
                (&head["version"], &head["width"]),
                (&2.into(), &size.0.into())
            );
            let cells = |n: u16| std::num::NonZeroU16::new(n).expect("not zero");
            let mut terminal = vt100::Parser::new(cells(size.1), cells(size.0), 0);
            let mut last = 0.0;
            for event in lines {
                let at = event[0].as_f64().expect("seconds");
                assert!(at >= last && event[1] == "o", "{event}");
                last = at;
                terminal.process(event[2].as_str().expect("a text").as_bytes());
            }
            let screen = terminal.screen().contents();
            assert!(screen.contains("replay") || size.0 == 40, "{screen}");
            assert!(last >= 3.0);
        }
    }
}
