//! Makes the pictures of the README and the book from real frames: `cargo run --example pictures`
//! makes all of them, `cargo run --example pictures gate decision` these two.
//!
//! Runs demos, and a session of its own, in a terminal, and writes the cells of the terminal as
//! SVG. `demo.svg` moves. So the pictures show what a user sees, and can be made again whenever the
//! screen changes.

mod recording;
mod svg;

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use recording::SessionTerminal;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Columns and rows of the recording.
const RECORDED: (u16, u16) = (104, 32);
/// How long each frame of the recording is shown.
const EACH: Duration = Duration::from_millis(250);
/// The recording ends in green: when the screen has this text, and this many frames later.
const PASSED: &str = "stop: tests passed";
const FRAMES_AFTER: usize = 4;

/// A picture: the session, its size, and the texts that the screen has at that moment.
struct Picture {
    name: &'static str,
    command: &'static [&'static str],
    size: (u16, u16),
    moment: &'static [&'static str],
}

const PICTURES: [Picture; 5] = [
    Picture {
        name: "stream",
        command: &["demo"],
        size: (120, 34),
        moment: &["stop: tests passed"],
    },
    Picture {
        name: "gate",
        command: &["demo"],
        size: (120, 30),
        moment: &["Finished. 1 item", "enter answer"],
    },
    Picture {
        name: "retry-limit",
        command: &["demo", "limit"],
        size: (120, 30),
        moment: &["still fails after", "enter answer"],
    },
    Picture {
        name: "permission",
        command: &["demo", "permission"],
        size: (120, 26),
        moment: &["for permission", "enter answer"],
    },
    // A guard stops the loop, which no demo shows.
    Picture {
        name: "decision",
        command: &["run", "--trust", "-s", "parser"],
        size: (120, 30),
        moment: &["NEEDS YOU", "enter answer"],
    },
];

/// The project of the session that is no demo.
const FILES: [(&str, &str); 3] = [
    ("creel.yaml", include_str!("decision/creel.yaml")),
    ("scenario.yaml", include_str!("decision/scenario.yaml")),
    (
        "test.sh",
        "echo 'nested_lists ... FAILED: expected 2 items, got 1'\nexit 1\n",
    ),
];

fn main() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("assets")
        .join("pictures");
    fs::create_dir_all(&folder)?;
    let creel = beside("creel")?;
    let names: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    for Picture {
        name,
        command,
        size,
        moment,
    } in PICTURES
        .into_iter()
        .filter(|picture| is_wanted(picture.name))
    {
        let session = SessionTerminal::start(&creel, command, size, &FILES)?;
        let frame = session.wait_for(moment);
        session.end()?;
        fs::write(folder.join(format!("{name}.svg")), svg::still(&frame?)?)?;
    }
    if !is_wanted("demo") {
        return Ok(());
    }
    let demo = SessionTerminal::start(&creel, &["demo"], RECORDED, &FILES)?;
    let frames = demo.record(EACH, PASSED, FRAMES_AFTER);
    demo.end()?;
    fs::write(
        folder.join("demo.svg"),
        svg::moving(&frames?, usize::try_from(EACH.as_millis())?)?,
    )?;
    Ok(())
}

fn beside(name: &str) -> Result<PathBuf> {
    let me = std::env::current_exe()?;
    let folder = me
        .parent()
        .and_then(Path::parent)
        .ok_or("this program lies nowhere")?;
    Ok(folder.join(name))
}
