//! Fingerprints of files at a moment.
//!
//! Owns the comparison of two moments, and the format in a session's folder. Does not choose the files: see
//! [`super::PathGuard`].
//!
//! Contents are SHA-256 digests, so an agent cannot prepare two contents with the same fingerprint.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

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

/// Files by display name. A missing file has no entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileFingerprints(pub(super) BTreeMap<String, FileFingerprint>);

impl FileFingerprints {
    /// The files that were created, deleted or changed since `before`.
    pub fn changed_since(&self, before: &Self) -> Vec<String> {
        let new = self.0.keys().filter(|name| !before.0.contains_key(*name));
        let changed = before.0.keys().chain(new).filter(|name| self.0.get(*name) != before.0.get(*name));
        let mut names: Vec<String> = changed.cloned().collect();
        names.sort();
        names
    }

    /// Replaces the entries of these files with their earlier ones.
    pub fn put_back(&mut self, these: &Self, earlier: &Self) {
        self.0.retain(|name, _| !these.0.contains_key(name));
        self.0.extend(earlier.0.clone());
    }

    #[must_use]
    pub fn only(&self, keep: impl Fn(&str) -> bool) -> Self {
        Self(self.0.iter().filter(|(name, _)| keep(name)).map(|(name, print)| (name.clone(), print.clone())).collect())
    }
}
