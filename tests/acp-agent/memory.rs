//! What the agent remembers across requests, and across processes if there is a state file.
//!
//! # Invariants
//! - The file is written before the next step is played, so a crash loses nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::fail;

#[derive(Default)]
pub(crate) struct Memory {
    file: Option<PathBuf>,
    /// The folder of each session.
    sessions: BTreeMap<String, String>,
    prompts: u64,
    turns: BTreeSet<usize>,
    once: BTreeSet<String>,
}

impl Memory {
    pub(crate) fn open(file: Option<PathBuf>) -> Self {
        let known = file.as_deref().and_then(|file| fs::read(file).ok());
        let known: Value = known
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let entries = known["sessions"].as_object().into_iter().flatten();
        let list = |key: &str| known[key].as_array().cloned().unwrap_or_default();
        Self {
            file,
            sessions: entries
                .map(|(session, cwd)| (session.clone(), cwd.as_str().unwrap_or_default().into()))
                .collect(),
            prompts: known["prompts"].as_u64().unwrap_or_default(),
            turns: list("turns")
                .iter()
                .filter_map(|turn| usize::try_from(turn.as_u64()?).ok())
                .collect(),
            once: list("once")
                .iter()
                .filter_map(|place| Some(place.as_str()?.to_owned()))
                .collect(),
        }
    }

    /// Whether the memory survives the process.
    pub(crate) fn lasts(&self) -> bool {
        self.file.is_some()
    }

    pub(crate) fn folder_of(&self, session: &str) -> Option<PathBuf> {
        self.sessions.get(session).map(PathBuf::from)
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = (&String, &String)> {
        self.sessions.iter()
    }

    /// An unused session id.
    pub(crate) fn fresh_session(&self) -> String {
        let mut ids = (1..).map(|number: u32| format!("session-{number}"));
        ids.find(|id| !self.sessions.contains_key(id))
            .expect("numbers do not run out")
    }

    pub(crate) fn remember_session(&mut self, session: &str, cwd: &Path) {
        self.sessions
            .insert(session.to_owned(), cwd.to_string_lossy().into_owned());
        self.save();
    }

    pub(crate) fn forget_session(&mut self, session: &str) {
        self.sessions.remove(session);
        self.save();
    }

    pub(crate) fn was_played(&self, turn: usize) -> bool {
        self.turns.contains(&turn)
    }

    /// Records that a prompt plays this turn, and returns the number of prompts so far.
    pub(crate) fn remember_prompt(&mut self, turn: Option<usize>) -> u64 {
        self.prompts += 1;
        self.turns.extend(turn);
        self.save();
        self.prompts
    }

    /// Whether this place in the script is played for the first time.
    pub(crate) fn is_first_time(&mut self, place: &str) -> bool {
        let first = self.once.insert(place.to_owned());
        self.save();
        first
    }

    fn save(&self) {
        let Some(file) = &self.file else { return };
        let known = json!({
            "sessions": self.sessions, "prompts": self.prompts, "turns": self.turns, "once": self.once,
        });
        let draft = file.with_extension("draft");
        let saved = fs::write(&draft, known.to_string()).and_then(|()| fs::rename(&draft, file));
        saved.unwrap_or_else(|error| fail(&format!("{}: {error}", file.display())));
    }
}
