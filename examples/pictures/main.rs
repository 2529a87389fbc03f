//! Makes the pictures of the README from real frames: `cargo run --example pictures`.
//!
//! Runs the demo, applies its records up to the wanted moment, draws the screen as creel does, and writes the cells as
//! SVG. `demo.svg` moves: it is recorded from the demo in a real terminal. So the pictures can be made again whenever the
//! screen changes.

mod recording;
mod svg;

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use creel::{
    config::{HintMode, ThemeName as Choice},
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
use ratatui::{buffer::Buffer, layout::Rect};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Columns and rows of the recording.
const RECORDED: (u16, u16) = (104, 32);
/// How long each frame of the recording is shown, and how many there are: 20 seconds.
const EACH: Duration = Duration::from_millis(250);
const FRAMES: usize = 80;

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
    let creel = beside("creel")?;
    for scenario in ["tests", "limit", "permission"] {
        let records = records(&creel, scenario)?;
        for picture in PICTURES.iter().filter(|picture| picture.scenario == scenario) {
            let svg = svg::still(&take(picture, records.clone()))?;
            fs::write(folder.join(format!("{}.svg", picture.name)), svg)?;
        }
    }
    let frames = recording::demo(&creel, RECORDED, EACH, FRAMES)?;
    fs::write(folder.join("demo.svg"), svg::moving(&frames, usize::try_from(EACH.as_millis())?)?)?;
    Ok(())
}

fn take(picture: &Picture, records: Vec<Record>) -> Buffer {
    let mut model = ScreenModel::new(Keymap::standard(), ScreenTheme::chosen(Choice::Dark, false), ScreenMode::Live);
    model.size = picture.size;
    model.hint.mode = HintMode::Always;
    for mut record in records {
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
    buffer
}

/// The records of a demo, run by the creel that was built beside this program.
fn records(creel: &Path, scenario: &str) -> Result<Vec<Record>> {
    let output = Command::new(creel).args(["demo", scenario, "--json"]).output()?;
    let text = String::from_utf8(output.stdout)?;
    text.lines().map(|line| Record::from_line(line).map_err(Into::into)).collect()
}

fn beside(name: &str) -> Result<PathBuf> {
    let me = std::env::current_exe()?;
    let folder = me.parent().and_then(Path::parent).ok_or("this program lies nowhere")?;
    Ok(folder.join(name))
}
