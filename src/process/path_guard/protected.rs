//! The contents of the files under `protect:` before and after a turn.
//!
//! Fingerprints are SHA-256 digests, so an agent cannot prepare two contents with the same one. It
//! compares contents, not times: an agent that undoes its change is not blocked again. Reading
//! is limited, and a file whose metadata did not change is not read again.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fmt::Write as _,
    fs,
    io::Read as _,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    git,
    process::{
        children::output_under,
        path_guard::{
            FingerprintCache, PathGuard, WatchStamp,
            git::{ConfigEntry, GitFolders},
        },
    },
};

/// The maximum number of entries in one scan.
const ENTRIES: usize = 200_000;
/// Time limit for one scan.
const PATIENCE: Duration = Duration::from_secs(15);
/// Longer files are compared by metadata instead of content.
const READ_MAX: u64 = 8 << 20;
/// Folders whose content never counts.
const NEVER: [&str; 2] = [".creel", ".git"];
/// Folders that count only below a folder that a pattern names, where no git knows what is built.
const BUILT: [&str; 3] = ["target", "node_modules", ".venv"];

#[derive(Debug)]
pub enum ProtectedScan {
    Seen(FingerprintCache),
    /// There are too many, or the disk is too slow.
    TooMany,
}

impl PathGuard {
    /// The protected files now, without those in folders that git ignores. Empty if there are no
    /// patterns. `cache` is the result of the last scan.
    pub fn look_at_protected(&self, cache: &FingerprintCache) -> ProtectedScan {
        self.scan(cache, ENTRIES)
    }

    fn scan(&self, cache: &FingerprintCache, most: usize) -> ProtectedScan {
        let mut found = FingerprintCache::default();
        let mut entries = 0;
        let deadline = Instant::now() + PATIENCE;
        let starts: BTreeSet<PathBuf> = self
            .protect
            .iter()
            .map(|pattern| literal_start(pattern))
            .collect();
        let ignored = self.ignored_folders(&starts);
        let mut folders: Vec<PathBuf> = starts.iter().cloned().collect();
        while let Some(folder) = folders.pop() {
            let place = self.root.join(&folder);
            // Follow a link that a pattern names. A link inside a folder counts as a file.
            let Ok(meta) = fs::metadata(&place).or_else(|_| place.symlink_metadata()) else {
                continue;
            };
            if !meta.is_dir() {
                self.take_in(&folder, cache, &mut found);
                continue;
            }
            for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
                entries += 1;
                if entries > most || Instant::now() > deadline {
                    return ProtectedScan::TooMany;
                }
                let path = folder.join(entry.file_name());
                if !entry.file_type().is_ok_and(|sort| sort.is_dir()) {
                    self.take_in(&path, cache, &mut found);
                    continue;
                }
                let is_named = starts
                    .iter()
                    .any(|start| !start.as_os_str().is_empty() && path.starts_with(start));
                let is_built = match &ignored {
                    Some(ignored) => ignored.contains(&path),
                    None => !is_named && BUILT.iter().any(|name| entry.file_name() == *name),
                };
                let is_never = NEVER.iter().any(|name| entry.file_name() == *name);
                if !is_built
                    && !is_never
                    && self
                        .protect
                        .iter()
                        .any(|pattern| may_contain(pattern, &path))
                {
                    folders.push(path);
                }
            }
        }
        ProtectedScan::Seen(found)
    }

    /// The folders that git ignores and tracks nothing in, as far as they matter. None without a
    /// repository.
    fn ignored_folders(&self, starts: &BTreeSet<PathBuf>) -> Option<BTreeSet<PathBuf>> {
        if self.protect.is_empty() || GitFolders::around(&self.root).is_none() {
            return None;
        }
        let mut command = git::command(&self.root);
        command.args([
            "-c",
            "core.fsmonitor=false",
            "ls-files",
            "--others",
            "--ignored",
            "--exclude-standard",
            "--directory",
            "-z",
            "--",
        ]);
        command.args(
            starts
                .iter()
                .filter(|start| !start.as_os_str().is_empty() && !starts.contains(Path::new(""))),
        );
        let listed = output_under(&self.mark, &mut command)
            .ok()
            .filter(|listed| listed.status.success())?;
        let folders = listed
            .stdout
            .split(|byte| *byte == 0)
            .filter_map(|name| name.strip_suffix(b"/"));
        Some(
            folders
                .map(|name| PathBuf::from(OsStr::from_bytes(name)))
                .collect(),
        )
    }

    /// Those of these files that git tracks. All of them without a repository.
    pub fn tracked(&self, files: Vec<String>) -> Vec<String> {
        if files.is_empty() || GitFolders::around(&self.root).is_none() {
            return files;
        }
        let mut command = git::command(&self.root);
        command
            .args(["--literal-pathspecs", "ls-files", "-z", "--"])
            .args(&files);
        let listed = output_under(&self.mark, &mut command);
        let Some(listed) = listed.ok().filter(|listed| listed.status.success()) else {
            return files;
        };
        let names = listed
            .stdout
            .split(|byte| *byte == 0)
            .map(|name| String::from_utf8_lossy(name).into_owned());
        let tracked: BTreeSet<String> = names.collect();
        files
            .into_iter()
            .filter(|file| tracked.contains(file))
            .collect()
    }

    fn take_in(&self, path: &Path, cache: &FingerprintCache, found: &mut FingerprintCache) {
        if self.protects(&path.to_string_lossy()).is_none() || found.files.contains_key(path) {
            return;
        }
        let place = self.root.join(path);
        let Ok(meta) = place.symlink_metadata() else {
            return;
        };
        let stamp = WatchStamp::of(&meta);
        let print = cache
            .known(path, stamp)
            .unwrap_or_else(|| print_of(&place, &meta));
        found.files.insert(path.to_owned(), (stamp, print));
    }
}

impl FingerprintCache {
    pub fn prints(&self) -> FileFingerprints {
        let name = |path: &PathBuf| path.to_string_lossy().into_owned();
        FileFingerprints(
            self.files
                .iter()
                .map(|(path, (_, print))| (name(path), print.clone()))
                .collect(),
        )
    }
}

fn print_of(path: &Path, meta: &fs::Metadata) -> FileFingerprint {
    let mut content = Vec::new();
    if meta.is_symlink() {
        let target = fs::read_link(path).unwrap_or_default();
        content = target.into_os_string().into_encoded_bytes();
    } else if meta.is_file() && meta.len() <= READ_MAX {
        let file = fs::File::open(path);
        let _ = file.and_then(|file| file.take(READ_MAX).read_to_end(&mut content));
    } else {
        content = WatchStamp::of(meta).to_bytes();
    }
    FileFingerprint::new(&content, meta.mode())
}

/// The folders of a pattern before its first wildcard, or the whole pattern if it has none.
fn literal_start(pattern: &str) -> PathBuf {
    let is_wild = |part: &str| part.contains(['*', '?', '[', '{', '\\', '!']);
    let parts: Vec<&str> = pattern
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    let literal = parts
        .iter()
        .position(|part| is_wild(part))
        .unwrap_or(parts.len());
    parts[..literal].iter().collect()
}

/// Whether a folder can contain files that a pattern matches. What cannot be told can.
fn may_contain(pattern: &str, folder: &Path) -> bool {
    // A group can contain several parts of a path.
    if pattern.contains(['{', '\\']) {
        return true;
    }
    let mut parts = pattern
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".");
    for name in folder {
        match parts.next() {
            Some(part) if part.contains("**") => return true,
            Some(part) if !fast_glob::glob_match(part, name.as_encoded_bytes()) => return false,
            Some(_) => {}
            // The pattern names a folder above.
            None => return true,
        }
    }
    true
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(guard: &PathGuard, cache: &mut FingerprintCache) -> FileFingerprints {
        match guard.look_at_protected(cache) {
            ProtectedScan::Seen(found) => *cache = found,
            ProtectedScan::TooMany => panic!("too many"),
        }
        cache.prints()
    }

    #[test]
    fn changes_are_found_and_a_change_that_was_undone_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        for name in [
            "tests/a.rs",
            "tests/deep/b.rs",
            "src/main.rs",
            ".env",
            "vendor/node_modules/x/t.snap",
        ] {
            write(name, "one");
        }
        let protect = ["tests/**", ".env", "**/*.snap"].map(str::to_owned);
        let guard = PathGuard::new(folder.path(), &folder.path().join("session"), &[], &protect);
        let mut cache = FingerprintCache::default();
        let before = seen(&guard, &mut cache);
        write("src/main.rs", "two");
        write("tests/a.rs", "one");
        assert_eq!(
            seen(&guard, &mut cache).changed_since(&before),
            Vec::<String>::new()
        );
        write("tests/new.rs", "new");
        write("tests/a.rs", "two");
        write(".env", "two");
        fs::remove_file(folder.path().join("tests/deep/b.rs")).expect("removed");
        let after = seen(&guard, &mut cache);
        assert_eq!(
            after.changed_since(&before),
            [".env", "tests/a.rs", "tests/deep/b.rs", "tests/new.rs"]
        );
        write("tests/a.rs", "one");
        write(".env", "one");
        write("tests/deep/b.rs", "one");
        fs::remove_file(folder.path().join("tests/new.rs")).expect("removed");
        assert_eq!(
            seen(&guard, &mut cache).changed_since(&before),
            Vec::<String>::new()
        );
    }

    #[test]
    fn only_the_folders_that_a_pattern_names_are_looked_into() {
        for (pattern, folder, expected) in [
            ("tests/**", "tests/a/b", true),
            ("tests", "tests/a", true),
            ("**/*.rs", "any/where", true),
            ("crates/*/tests/**", "crates/a", true),
            ("crates/*/tests/**", "crates/a/tests/deep", true),
            ("crates/*/tests/**", "crates/a/src", false),
            ("golden/*.txt", "other", false),
            ("a/{b/c,d}/*.txt", "a/b", true),
        ] {
            assert_eq!(
                may_contain(pattern, Path::new(folder)),
                expected,
                "{pattern} {folder}"
            );
        }
        assert_eq!(literal_start("tests/**"), PathBuf::from("tests"));
        assert_eq!(literal_start("./a/b/c.txt"), PathBuf::from("a/b/c.txt"));
        assert_eq!(literal_start("**/*.snap"), PathBuf::new());
        assert_eq!(literal_start("a/{b,c}/d"), PathBuf::from("a"));
    }

    fn guard_of(folder: &Path, files: &[&str], protect: &[&str]) -> PathGuard {
        for name in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, "one").expect("a file");
        }
        let protect: Vec<String> = protect.iter().map(ToString::to_string).collect();
        PathGuard::new(folder, &folder.join("session"), &[], &protect)
    }

    #[test]
    fn a_folder_stands_for_all_in_it_except_for_what_git_ignores() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = [
            "tests/a.rs",
            "tests/target/b.rs",
            "tests/deep/node_modules/c.js",
            "tests.rs",
            "target/d.rs",
        ];
        let guard = guard_of(folder.path(), &files, &["tests"]);
        let names = |guard: &PathGuard| -> Vec<String> {
            let seen = seen(guard, &mut FingerprintCache::default());
            seen.changed_since(&FileFingerprints::default())
        };
        assert_eq!(
            names(&guard),
            [
                "tests/a.rs",
                "tests/deep/node_modules/c.js",
                "tests/target/b.rs"
            ]
        );
        let everywhere = guard_of(folder.path(), &[], &["**/*.rs"]);
        assert_eq!(
            names(&everywhere),
            ["tests.rs", "tests/a.rs"],
            "without git, what is built is known by its name"
        );
        let made = git::command(folder.path()).args(["init", "-q"]).status();
        assert!(made.is_ok_and(|made| made.success()));
        fs::write(folder.path().join(".gitignore"), "tests/target\nbuild\n").expect("a file");
        assert_eq!(
            names(&guard),
            ["tests/a.rs", "tests/deep/node_modules/c.js"]
        );
        guard_of(folder.path(), &["build/e.rs"], &[]);
        assert_eq!(
            names(&everywhere),
            ["target/d.rs", "tests.rs", "tests/a.rs"]
        );
    }

    #[test]
    fn a_scan_ends_at_its_limit_and_folders_without_a_match_do_not_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let many: Vec<String> = (0..50).map(|i| format!("other/{i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let scan = |protect: &[&str]| {
            guard_of(folder.path(), &many, protect).scan(&FingerprintCache::default(), 40)
        };
        assert!(matches!(scan(&["**/*.rs"]), ProtectedScan::TooMany));
        assert!(
            matches!(scan(&["tests/**", "*/tests/**"]), ProtectedScan::TooMany),
            "any folder can have tests"
        );
        assert!(matches!(
            scan(&["tests/**", "[ab]*/x"]),
            ProtectedScan::Seen(_)
        ));
    }
}
