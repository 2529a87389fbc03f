//! Makes the pictures of the README and the book from real frames: `cargo run --example pictures`
//! makes all of them, `cargo run --example pictures gate decision` these two.
//!
//! Runs demos and sessions in a terminal, and writes the cells of the terminal as SVG. Some
//! pictures move. So they show what a user sees, and can be made again whenever the screen changes.
//! Build creel and the other examples first (`cargo build --examples`): one plays a forge.

mod recording;
mod scenes;
mod svg;

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use recording::SessionTerminal;
use scenes::{Film, SCENES, Scene};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("assets")
        .join("pictures");
    fs::create_dir_all(&folder)?;
    let creel = beside("creel")?;
    let names: Vec<String> = std::env::args().skip(1).collect();
    let wanted = SCENES
        .iter()
        .filter(|scene| names.is_empty() || names.iter().any(|name| name == scene.name));
    for scene in wanted {
        let session = SessionTerminal::start(&creel, scene)?;
        let picture = film(&session, &scene.film);
        session.end()?;
        fs::write(folder.join(format!("{}.svg", scene.name)), picture?)?;
    }
    Ok(())
}

fn film(session: &SessionTerminal, film: &Film) -> Result<String> {
    let millis = |each: Duration| usize::try_from(each.as_millis());
    match *film {
        Film::Still(moment) => Ok(svg::still(&session.wait_for(moment)?)?),
        Film::Moving { each, last, more } => {
            let frames = session.record(each, last, more)?;
            Ok(svg::moving(&frames, millis(each)?)?)
        }
        Film::Steps { each, steps } => {
            let mut frames = Vec::new();
            for (moment, keys) in steps {
                frames.push(session.wait_for(moment)?);
                session.press(keys)?;
            }
            Ok(svg::moving(&frames, millis(each)?)?)
        }
    }
}

fn beside(name: &str) -> Result<PathBuf> {
    let me = std::env::current_exe()?;
    let folder = me
        .parent()
        .and_then(Path::parent)
        .ok_or("this program lies nowhere")?;
    Ok(folder.join(name))
}
