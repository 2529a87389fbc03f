//! The files under `protect:`: what they contain before a turn and after it.
//!
//! Contents are compared, not times: an agent that undoes its change is not blocked again. Reading is bounded, and a file
//! whose metadata did not change is not read again.

use std::{
    collections::BTreeMap,
    fs,
    hash::{BuildHasher as _, RandomState},
    io::Read as _,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::{Duration, Instant},
};

use super::{PathGuard, WatchStamp};

/// How many entries are looked at.
const ENTRIES: usize = 50_000;
/// How long one look may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Of a longer file, the metadata stand for the content.
const READ_MAX: u64 = 8 << 20;
/// Folders that are only looked into if a pattern names them.
const PASSED_OVER: [&str; 5] = [".creel", ".git", "target", "node_modules", ".venv"];
/// Drawn anew by each process, so that an agent cannot prepare two contents that look the same.
static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);

/// The protected files at a moment.
#[derive(Debug, Clone, Default)]
pub struct Fingerprints(BTreeMap<PathBuf, (WatchStamp, [u64; 2])>);

/// What a look at the protected files found.
#[derive(Debug, Clone)]
pub enum ProtectedLook {
    /// All of them.
    Seen(Fingerprints),
    /// There are too many, or the disk is too slow.
    TooMany,
}

impl PathGuard {
    /// The protected files as they are now; nothing, if there are no patterns.
    pub fn look_at_protected(&self, before: Option<&Fingerprints>) -> ProtectedLook {
        let mut found = Fingerprints::default();
        let mut entries = 0;
        let deadline = Instant::now() + PATIENCE;
        let mut folders: Vec<PathBuf> = self.protect.iter().map(|pattern| literal_start(pattern)).collect();
        folders.sort();
        folders.dedup();
        while let Some(folder) = folders.pop() {
            let place = self.root.join(&folder);
            // A link that a pattern names is followed; one inside of a folder is a file like any other.
            let Ok(meta) = fs::metadata(&place).or_else(|_| place.symlink_metadata()) else { continue };
            if !meta.is_dir() {
                self.take_in(&folder, before, &mut found);
                continue;
            }
            for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
                entries += 1;
                if entries > ENTRIES || Instant::now() > deadline {
                    return ProtectedLook::TooMany;
                }
                let path = folder.join(entry.file_name());
                let is_folder = entry.file_type().is_ok_and(|sort| sort.is_dir());
                if !is_folder {
                    self.take_in(&path, before, &mut found);
                } else if !PASSED_OVER.iter().any(|name| entry.file_name() == *name) {
                    folders.push(path);
                }
            }
        }
        ProtectedLook::Seen(found)
    }

    fn take_in(&self, path: &Path, before: Option<&Fingerprints>, found: &mut Fingerprints) {
        if self.protects(&path.to_string_lossy()).is_none() || found.0.contains_key(path) {
            return;
        }
        let place = self.root.join(path);
        let Ok(meta) = place.symlink_metadata() else { return };
        let stamp = WatchStamp::of(&meta);
        let known = before.and_then(|before| before.0.get(path)).filter(|(seen, _)| *seen == stamp);
        let print = known.map_or_else(|| fingerprint(&place, &meta), |(_, print)| *print);
        found.0.insert(path.to_owned(), (stamp, print));
    }
}

impl Fingerprints {
    /// The files that were created, deleted or changed since an earlier look.
    pub fn changed_since(&self, before: &Self) -> Vec<String> {
        let print = |files: &Self, path: &PathBuf| files.0.get(path).map(|(stamp, print)| (stamp.mode, *print));
        let new = self.0.keys().filter(|path| !before.0.contains_key(*path));
        let changed = before.0.keys().chain(new).filter(|path| print(self, path) != print(before, path));
        let mut names: Vec<String> = changed.map(|path| path.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn fingerprint(path: &Path, meta: &fs::Metadata) -> [u64; 2] {
    let mut content = Vec::new();
    if meta.is_symlink() {
        let target = fs::read_link(path).unwrap_or_default();
        content = target.into_os_string().into_encoded_bytes();
    } else if meta.is_file() && meta.len() <= READ_MAX {
        let file = fs::File::open(path);
        let _ = file.and_then(|file| file.take(READ_MAX).read_to_end(&mut content));
    } else {
        content = format!("{:?}", WatchStamp::of(meta)).into_bytes();
    }
    [KEYS[0].hash_one(&content), KEYS[1].hash_one(&content)]
}

/// The folders of a pattern before its first wildcard, or the whole of a pattern without one.
fn literal_start(pattern: &str) -> PathBuf {
    let is_wild = |part: &str| part.contains(['*', '?', '[', '{', '\\', '!']);
    let parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let literal = parts.iter().position(|part| is_wild(part)).unwrap_or(parts.len());
    parts[..literal].iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(guard: &PathGuard, before: Option<&Fingerprints>) -> Fingerprints {
        match guard.look_at_protected(before) {
            ProtectedLook::Seen(found) => found,
            ProtectedLook::TooMany => panic!("too many"),
        }
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
        let before = seen(&guard, None);
        write("src/main.rs", "two");
        write("tests/a.rs", "one");
        assert_eq!(seen(&guard, Some(&before)).changed_since(&before), Vec::<String>::new());
        write("tests/new.rs", "new");
        write("tests/a.rs", "two");
        write(".env", "two");
        fs::remove_file(folder.path().join("tests/deep/b.rs")).expect("removed");
        let after = seen(&guard, Some(&before));
        assert_eq!(after.changed_since(&before), [".env", "tests/a.rs", "tests/deep/b.rs", "tests/new.rs"]);
        write("tests/a.rs", "one");
        write(".env", "one");
        write("tests/deep/b.rs", "one");
        fs::remove_file(folder.path().join("tests/new.rs")).expect("removed");
        assert_eq!(seen(&guard, Some(&after)).changed_since(&before), Vec::<String>::new());
    }

    #[test]
    fn only_the_folders_that_a_pattern_names_are_looked_into() {
        assert_eq!(literal_start("tests/**"), PathBuf::from("tests"));
        assert_eq!(literal_start("./a/b/c.txt"), PathBuf::from("a/b/c.txt"));
        assert_eq!(literal_start("**/*.snap"), PathBuf::new());
        assert_eq!(literal_start("a/{b,c}/d"), PathBuf::from("a"));
    }
}
