//! Fingerprints of files at a moment.
//!
//! Owns the comparison of two moments, and the format in a session's folder. Does not choose the
//! files: see [`super::PathGuard`].
//!
//! Contents are SHA-256 digests, so an agent cannot prepare two contents with the same fingerprint.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::git_config::ConfigEntry;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileFingerprint {
    digest: String,
    /// The mode bits that matter.
    mode: u32,
}

impl FileFingerprint {
    pub(super) fn new(content: &[u8], mode: u32) -> Self {
        let mut digest = String::new();
        for byte in Sha256::digest(content) {
            let _ = write!(digest, "{byte:02x}");
        }
        Self { digest, mode }
    }
}

/// Separates a file's name from the name of an entry in it. The entries of git's config are
/// compared one by one.
const ENTRY: char = '\0';
/// Stands before the name of an entry that can be new, but not changed.
const NEW_IS_FINE: char = '+';

/// Files by display name. A missing file has no entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileFingerprints(pub(super) BTreeMap<String, FileFingerprint>);

impl FileFingerprints {
    /// The files that were created, deleted or changed since `before`.
    pub fn changed_since(&self, before: &Self) -> Vec<String> {
        let is_fine = |name: &str| {
            name.split_once(ENTRY)
                .is_some_and(|(_, entry)| entry.starts_with(NEW_IS_FINE))
        };
        let new = self
            .0
            .keys()
            .filter(|name| !before.0.contains_key(*name) && !is_fine(name));
        let changed = before
            .0
            .iter()
            .filter(|(name, print)| self.0.get(*name) != Some(print))
            .map(|(name, _)| name);
        let file = |name: &String| name.split(ENTRY).next().unwrap_or_default().to_owned();
        changed
            .chain(new)
            .map(file)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// The files that were deleted or changed since `before`.
    pub fn altered_since(&self, before: &Self) -> Vec<String> {
        let altered = before
            .0
            .iter()
            .filter(|(name, print)| self.0.get(*name) != Some(print));
        altered.map(|(name, _)| name.clone()).collect()
    }

    /// Adds an entry of a file.
    pub(super) fn add_entry(&mut self, file: &str, entry: &ConfigEntry) {
        let mark = if entry.new_is_fine {
            NEW_IS_FINE.to_string()
        } else {
            String::new()
        };
        let name = format!("{file}{ENTRY}{mark}{}", entry.key);
        self.0.insert(name, FileFingerprint::new(&entry.value, 0));
    }

    /// Replaces the entries of these files with their earlier ones.
    pub fn put_back(&mut self, these: &Self, earlier: &Self) {
        self.0.retain(|name, _| !these.0.contains_key(name));
        self.0.extend(earlier.0.clone());
    }

    #[must_use]
    pub fn only(&self, keep: impl Fn(&str) -> bool) -> Self {
        Self(
            self.0
                .iter()
                .filter(|(name, _)| keep(name))
                .map(|(name, print)| (name.clone(), print.clone()))
                .collect(),
        )
    }
}
