//! The pace of a scripted session: its agent and its hooks pause between their words and lines, and
//! the viewer can pause all of them or skip ahead.
//!
//! Owns the file that says so. It lies in the project's folder for creel's files, since hooks are
//! programs of their own: `assets/demo/pace.sh` reads the same file. Decides nothing in the
//! session: without pauses, everything happens in the same order.
//!
//! # Invariants
//! - A skip lasts until the end of the turn or the hook that it interrupts. The next one has its
//!   pauses again.
//! - Without the file, a pause takes exactly its time.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::{Instant, sleep};

/// How often a pause looks at the file.
const LOOK: Duration = Duration::from_millis(40);

/// What the viewer wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlaybackPace {
    /// How often the viewer has skipped ahead.
    pub skips: u32,
    pub mode: PlaybackMode,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlaybackMode {
    #[default]
    Play,
    Paused,
    /// Without any pause.
    Fast,
}

impl PlaybackMode {
    const ALL: [Self; 3] = [Self::Play, Self::Paused, Self::Fast];

    const fn name(self) -> &'static str {
        match self {
            Self::Play => "play",
            Self::Paused => "paused",
            Self::Fast => "fast",
        }
    }
}

/// The file with the pace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaceFile(PathBuf);

impl PaceFile {
    /// The file for a session in this folder.
    pub fn of_session(session_dir: &Path) -> Self {
        let ours = session_dir.ancestors().nth(2).unwrap_or(session_dir);
        Self(ours.join("pace"))
    }

    /// Replaces the file as a whole, so that no reader sees half of it.
    pub fn write(&self, pace: PlaybackPace) -> io::Result<()> {
        if let Some(folder) = self.0.parent() {
            fs::create_dir_all(folder)?;
        }
        let new = self.0.with_extension("new");
        fs::write(&new, format!("{} {}\n", pace.skips, pace.mode.name()))?;
        fs::rename(&new, &self.0)
    }

    /// None without a readable file.
    fn read(&self) -> Option<PlaybackPace> {
        let text = fs::read_to_string(&self.0).ok()?;
        let (skips, mode) = text.trim_end().split_once(' ')?;
        let mode = PlaybackMode::ALL
            .into_iter()
            .find(|known| known.name() == mode)?;
        Some(PlaybackPace {
            skips: skips.parse().ok()?,
            mode,
        })
    }

    /// Begins something that a skip ends, such as a turn.
    pub fn begin(&self) -> PacedStep {
        PacedStep {
            file: self.clone(),
            skips: self.read().map(|pace| pace.skips),
        }
    }
}

/// A turn with pauses in it.
#[derive(Debug)]
pub struct PacedStep {
    file: PaceFile,
    /// The skips before it began. None without a file.
    skips: Option<u32>,
}

impl PacedStep {
    /// Pauses, but not after a skip. While the viewer has paused everything, no time passes.
    pub async fn pause(&self, time: Duration) {
        let Some(before) = self.skips else {
            return sleep(time).await;
        };
        let mut left = time;
        while !left.is_zero() {
            let pace = self.file.read().unwrap_or_default();
            if pace.skips > before || pace.mode == PlaybackMode::Fast {
                return;
            }
            let began = Instant::now();
            sleep(left.min(LOOK)).await;
            if pace.mode == PlaybackMode::Play {
                left = left.saturating_sub(began.elapsed());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn file() -> (tempfile::TempDir, PaceFile) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = PaceFile::of_session(&folder.path().join(".creel/sessions/demo"));
        (folder, file)
    }

    fn pace(skips: u32, mode: PlaybackMode) -> PlaybackPace {
        PlaybackPace { skips, mode }
    }

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let (folder, file) = file();
        assert_eq!(file.read(), None);
        for mode in PlaybackMode::ALL {
            file.write(pace(7, mode)).expect("written");
            assert_eq!(file.read(), Some(pace(7, mode)));
        }
        assert!(folder.path().join(".creel/pace").exists());
    }

    #[tokio::test(start_paused = true)]
    async fn a_skip_ends_the_pauses_of_one_step() {
        let (_folder, file) = file();
        file.write(pace(0, PlaybackMode::Play)).expect("written");
        let (step, began) = (file.begin(), Instant::now());
        step.pause(HOUR).await;
        assert!(began.elapsed() >= HOUR);
        file.write(pace(1, PlaybackMode::Play)).expect("written");
        let began = Instant::now();
        step.pause(HOUR).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        file.begin().pause(HOUR).await;
        assert!(began.elapsed() >= HOUR, "the next step has its pauses");
    }

    #[tokio::test(start_paused = true)]
    async fn no_time_passes_while_everything_is_paused() {
        let (_folder, file) = file();
        file.write(pace(0, PlaybackMode::Paused)).expect("written");
        let step = file.begin();
        let moment = Duration::from_millis(100);
        assert!(
            tokio::time::timeout(HOUR, step.pause(moment))
                .await
                .is_err()
        );
        file.write(pace(0, PlaybackMode::Play)).expect("written");
        assert!(tokio::time::timeout(HOUR, step.pause(moment)).await.is_ok());
        file.write(pace(0, PlaybackMode::Fast)).expect("written");
        let began = Instant::now();
        file.begin().pause(HOUR).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
