//! The contents of the files under `protect:` before and after a turn.
//!
//! It compares contents, not times: an agent that undoes its change is not blocked again. Reading is limited, and a
//! file whose metadata did not change is not read again.

use std::{
    fs,
    io::Read as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{FileFingerprint, FileFingerprints, FingerprintCache, PathGuard, WatchStamp};

/// The maximum number of entries in one scan.
const ENTRIES: usize = 50_000;
/// Time limit for one scan.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longer files are compared by metadata instead of content.
const READ_MAX: u64 = 8 << 20;
/// Folders that are scanned only if a pattern names them.
const PASSED_OVER: [&str; 5] = [".creel", ".git", "target", "node_modules", ".venv"];
#[derive(Debug)]
pub enum ProtectedScan {
    Seen(FingerprintCache),
    /// There are too many, or the disk is too slow.
    TooMany,
}

impl PathGuard {
    /// The protected files now. Empty if there are no patterns. `cache` is the result of the last scan.
    pub fn look_at_protected(&self, cache: &FingerprintCache) -> ProtectedScan {
        let mut found = FingerprintCache::default();
        let mut entries = 0;
        let deadline = Instant::now() + PATIENCE;
        let mut folders: Vec<PathBuf> = self.protect.iter().map(|pattern| literal_start(pattern)).collect();
        folders.sort();
        folders.dedup();
        while let Some(folder) = folders.pop() {
            let place = self.root.join(&folder);
            // Follow a link that a pattern names. A link inside a folder counts as a file.
            let Ok(meta) = fs::metadata(&place).or_else(|_| place.symlink_metadata()) else { continue };
            if !meta.is_dir() {
                self.take_in(&folder, cache, &mut found);
                continue;
            }
            for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
                entries += 1;
                if entries > ENTRIES || Instant::now() > deadline {
                    return ProtectedScan::TooMany;
                }
                let path = folder.join(entry.file_name());
                let is_folder = entry.file_type().is_ok_and(|sort| sort.is_dir());
                if !is_folder {
                    self.take_in(&path, cache, &mut found);
                } else if !PASSED_OVER.iter().any(|name| entry.file_name() == *name) {
                    folders.push(path);
                }
            }
        }
        ProtectedScan::Seen(found)
    }

    fn take_in(&self, path: &Path, cache: &FingerprintCache, found: &mut FingerprintCache) {
        if self.protects(&path.to_string_lossy()).is_none() || found.0.contains_key(path) {
            return;
        }
        let place = self.root.join(path);
        let Ok(meta) = place.symlink_metadata() else { return };
        let stamp = WatchStamp::of(&meta);
        let print = cache.known(path, stamp).unwrap_or_else(|| print_of(&place, &meta));
        found.0.insert(path.to_owned(), (stamp, print));
    }
}

impl FingerprintCache {
    pub fn prints(&self) -> FileFingerprints {
        let name = |path: &PathBuf| path.to_string_lossy().into_owned();
        FileFingerprints(self.0.iter().map(|(path, (_, print))| (name(path), print.clone())).collect())
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
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let literal = parts.iter().position(|part| is_wild(part)).unwrap_or(parts.len());
    parts[..literal].iter().collect()
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
        for name in ["tests/a.rs", "tests/deep/b.rs", "src/main.rs", ".env", "vendor/node_modules/x/t.snap"] {
            write(name, "one");
        }
        let protect = ["tests/**", ".env", "**/*.snap"].map(str::to_owned);
        let guard = PathGuard::new(folder.path(), &folder.path().join("session"), &[], &protect);
        let mut cache = FingerprintCache::default();
        let before = seen(&guard, &mut cache);
        write("src/main.rs", "two");
        write("tests/a.rs", "one");
        assert_eq!(seen(&guard, &mut cache).changed_since(&before), Vec::<String>::new());
        write("tests/new.rs", "new");
        write("tests/a.rs", "two");
        write(".env", "two");
        fs::remove_file(folder.path().join("tests/deep/b.rs")).expect("removed");
        let after = seen(&guard, &mut cache);
        assert_eq!(after.changed_since(&before), [".env", "tests/a.rs", "tests/deep/b.rs", "tests/new.rs"]);
        write("tests/a.rs", "one");
        write(".env", "one");
        write("tests/deep/b.rs", "one");
        fs::remove_file(folder.path().join("tests/new.rs")).expect("removed");
        assert_eq!(seen(&guard, &mut cache).changed_since(&before), Vec::<String>::new());
    }

    #[test]
    fn only_the_folders_that_a_pattern_names_are_looked_into() {
        assert_eq!(literal_start("tests/**"), PathBuf::from("tests"));
        assert_eq!(literal_start("./a/b/c.txt"), PathBuf::from("a/b/c.txt"));
        assert_eq!(literal_start("**/*.snap"), PathBuf::new());
        assert_eq!(literal_start("a/{b,c}/d"), PathBuf::from("a"));
    }
}
