//! What the screen remembers from one session to the next: the split of the panes, how often each
//! command was used, and which sessions explained themselves.

use std::{collections::BTreeMap, fs, io, path::Path};

use serde::{Deserialize, Serialize};

use super::keymap::{KeyAction, name};

/// How much of the width the stream has, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "u16", into = "u16")]
pub struct PaneSplit(u16);

impl PaneSplit {
    const LEAST: u16 = 30;
    const MOST: u16 = 80;

    #[must_use]
    pub fn new(percent: u16) -> Self {
        Self(percent.clamp(Self::LEAST, Self::MOST))
    }

    pub const fn percent(self) -> u16 {
        self.0
    }

    /// The split with a wider or a narrower stream.
    #[must_use]
    pub fn moved(self, by: i16) -> Self {
        Self::new(self.0.saturating_add_signed(by))
    }
}

impl Default for PaneSplit {
    fn default() -> Self {
        Self(60)
    }
}

impl From<u16> for PaneSplit {
    fn from(percent: u16) -> Self {
        Self::new(percent)
    }
}

impl From<PaneSplit> for u16 {
    fn from(split: PaneSplit) -> Self {
        split.0
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenMemory {
    #[serde(default)]
    pub split: PaneSplit,
    /// How often each command was used, by its name in the key map.
    #[serde(default)]
    pub uses: BTreeMap<String, u32>,
    #[serde(default)]
    pub hints: HintMemory,
}

/// Which sessions had the line that explains what happens: see [`super::hints`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HintMemory {
    /// Whether the user has hidden the line.
    pub dismissed: bool,
    /// The ids of the first sessions.
    pub sessions: Vec<String>,
}

impl ScreenMemory {
    /// Counts the use of a command.
    pub fn count(&mut self, action: KeyAction) {
        let uses = self.uses.entry(name(action).to_owned()).or_default();
        *uses = uses.saturating_add(1);
    }

    pub fn uses(&self, action: KeyAction) -> u32 {
        self.uses.get(name(action)).copied().unwrap_or(0)
    }

    /// Without a readable file, the defaults.
    pub fn load(file: &Path) -> Self {
        fs::read(file)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }

    /// Replaces the file as a whole: two screens can save at the same time.
    pub fn save(&self, file: &Path) -> io::Result<()> {
        let folder = file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let new = file.with_extension(format!("{}.new", std::process::id()));
        fs::write(&new, serde_json::to_vec(self)?)?;
        fs::rename(&new, file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_survives_and_a_broken_file_does_no_harm() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("creel/screen.json");
        assert_eq!(ScreenMemory::load(&file), ScreenMemory::default());
        let uses = BTreeMap::from([("pause".to_owned(), 3)]);
        let hints = HintMemory {
            dismissed: true,
            sessions: vec!["a".to_owned()],
        };
        let memory = ScreenMemory {
            split: PaneSplit::new(70),
            uses,
            hints,
        };
        memory.save(&file).expect("saved");
        assert_eq!(ScreenMemory::load(&file), memory);
        fs::write(&file, "{\"split\": 7").expect("written");
        assert_eq!(ScreenMemory::load(&file), ScreenMemory::default());
        fs::write(&file, "{\"split\": 7}").expect("written");
        assert_eq!(
            ScreenMemory::load(&file).split,
            PaneSplit::new(PaneSplit::LEAST)
        );
    }
}
