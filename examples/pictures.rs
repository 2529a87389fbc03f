//! Makes the pictures of the README from real frames: `cargo run --example pictures`.
//!
//! Runs the demo, applies its records up to the wanted moment, draws the screen as creel does, and writes the cells as
//! SVG. So the pictures can be made again whenever the screen changes.

use std::{
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use creel::{
    config::ThemeName as Choice,
    engine::{
        event::{Event, GateEvent, HookEvent, SessionEvent, UserPresence},
        hooks::verdict::Verdict,
        time::UnixTime,
    },
    journal::Record,
    tui::{
        journal_feed::RecordSpan,
        keymap::Keymap,
        model::{ScreenMode, ScreenModel},
        theme::ScreenTheme,
        view,
    },
};
use ratatui::{
    buffer::{Buffer, Cell},
    layout::Rect,
    style::{Color, Modifier},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The width of a character and the height of a line, in pixels.
const CELL: (u16, u16) = (8, 17);
const BACKGROUND: &str = "#20242c";
const TEXT: &str = "#d8dee9";

/// A picture: the scenario, its size, and the record after which it is taken.
struct Picture {
    name: &'static str,
    scenario: &'static str,
    size: (u16, u16),
    last: fn(&Event) -> bool,
}

const PICTURES: [Picture; 4] = [
    Picture { name: "stream", scenario: "tests", size: (120, 34), last: tests_passed },
    Picture {
        name: "gate",
        scenario: "tests",
        size: (120, 30),
        last: |event| matches!(event, Event::Gate(GateEvent::Opened { .. })),
    },
    Picture {
        name: "retry-limit",
        scenario: "limit",
        size: (120, 30),
        last: |event| matches!(event, Event::Gate(GateEvent::Opened { .. })),
    },
    Picture {
        name: "permission",
        scenario: "permission",
        size: (120, 26),
        last: |event| matches!(event, Event::Gate(GateEvent::Opened { .. })),
    },
];

/// Whether the demo's tests just passed.
fn tests_passed(event: &Event) -> bool {
    matches!(event, Event::Hook(HookEvent::Finished(finished)) if finished.hook == "tests" && finished.verdict == Verdict::Pass)
}

fn main() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets").join("pictures");
    fs::create_dir_all(&folder)?;
    for picture in PICTURES {
        let svg = take(&picture)?;
        fs::write(folder.join(format!("{}.svg", picture.name)), svg)?;
    }
    Ok(())
}

fn take(picture: &Picture) -> Result<String> {
    let mut model = ScreenModel::new(Keymap::standard(), ScreenTheme::chosen(Choice::Dark, false), ScreenMode::Live);
    model.size = picture.size;
    for mut record in records(picture.scenario)? {
        // Pretend that a user was there: a gate that the policy answers is not shown.
        if let Event::Session(SessionEvent::Started(began)) = &mut record.event {
            began.presence = UserPresence::Attended;
        }
        model.now = record.at;
        model.take(RecordSpan { offset: 0, length: 0 }, &record);
        if (picture.last)(&record.event) {
            break;
        }
    }
    model.look_after_the_gate();
    // A moment later, when the gate accepts answers.
    model.now = UnixTime(model.now.0 + 2_000);
    let area = Rect { x: 0, y: 0, width: picture.size.0, height: picture.size.1 };
    let mut buffer = Buffer::empty(area);
    view::prepare(&mut model, area, &|_| None);
    view::draw(&model, area, &mut buffer);
    Ok(svg(&buffer)?)
}

/// The records of a demo, run by the creel that was built beside this program.
fn records(scenario: &str) -> Result<Vec<Record>> {
    let creel = beside("creel")?;
    let output = Command::new(creel).args(["demo", scenario, "--json"]).output()?;
    let text = String::from_utf8(output.stdout)?;
    text.lines().map(|line| Record::from_line(line).map_err(Into::into)).collect()
}

fn beside(name: &str) -> Result<PathBuf> {
    let me = std::env::current_exe()?;
    let folder = me.parent().and_then(Path::parent).ok_or("this program lies nowhere")?;
    Ok(folder.join(name))
}

fn svg(buffer: &Buffer) -> std::result::Result<String, std::fmt::Error> {
    let (width, height) = (buffer.area.width * CELL.0 + 16, buffer.area.height * CELL.1 + 16);
    let mut out = String::new();
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="13.29">"#
    )?;
    writeln!(out, r#"<rect width="{width}" height="{height}" rx="6" fill="{BACKGROUND}"/>"#)?;
    for row in 0..buffer.area.height {
        let mut column = 0;
        while column < buffer.area.width {
            let first = &buffer[(column, row)];
            let mut text = String::new();
            let start = column;
            while column < buffer.area.width && same_look(first, &buffer[(column, row)]) {
                text.push_str(buffer[(column, row)].symbol());
                column += 1;
            }
            run(&mut out, first, &text, (start, row, column - start))?;
        }
    }
    writeln!(out, "</svg>")?;
    Ok(out)
}

fn same_look(one: &Cell, other: &Cell) -> bool {
    one.fg == other.fg && one.bg == other.bg && one.modifier == other.modifier
}

fn run(out: &mut String, cell: &Cell, text: &str, (column, row, cells): (u16, u16, u16)) -> std::fmt::Result {
    let (mut ink, mut paper) = (colour(cell.fg, TEXT), colour(cell.bg, BACKGROUND));
    if cell.modifier.contains(Modifier::REVERSED) {
        std::mem::swap(&mut ink, &mut paper);
    }
    let (x, y) = (8 + column * CELL.0, 8 + row * CELL.1);
    if paper != BACKGROUND {
        writeln!(out, r#"<rect x="{x}" y="{y}" width="{}" height="{}" fill="{paper}"/>"#, cells * CELL.0, CELL.1)?;
    }
    // Spaces at the ends are not part of the text that is stretched to the cells' width.
    let inner = text.trim();
    if inner.is_empty() {
        return Ok(());
    }
    let before = u16::try_from(text.chars().take_while(|c| *c == ' ').count()).unwrap_or(0);
    let after = u16::try_from(text.chars().rev().take_while(|c| *c == ' ').count()).unwrap_or(0);
    let x = x + before * CELL.0;
    let weight = if cell.modifier.contains(Modifier::BOLD) { r#" font-weight="bold""# } else { "" };
    let text = inner.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let length = (cells - before - after) * CELL.0;
    writeln!(
        out,
        r#"<text x="{x}" y="{}" fill="{ink}"{weight} textLength="{length}" lengthAdjust="spacingAndGlyphs" xml:space="preserve">{text}</text>"#,
        y + 13
    )
}

fn colour(colour: Color, otherwise: &str) -> String {
    // The dark theme uses only RGB colours.
    if let Color::Rgb(r, g, b) = colour { format!("#{r:02x}{g:02x}{b:02x}") } else { otherwise.to_owned() }
}
