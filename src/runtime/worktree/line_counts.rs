//! The lines that a session added and removed, for the card at its end.
//!
//! # Invariants
//! - Counted once, at the end of a session: a turn costs nothing more.
//! - Only files that the session changed count. Where git cannot say what changed, there are no
//!   counts.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::{self, File},
    io::Read as _,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use super::git::GitRepository;
use crate::engine::{conversation::ChangedLines, session::iteration::SessionFiles};

/// A session does not wait longer for its own end.
const PATIENCE: Duration = Duration::from_secs(2);
/// New files of more bytes count as files without lines.
const LARGEST: u64 = 4 << 20;
/// Git looks at as many bytes to tell text from other content.
const SNIFFED: usize = 8_000;

/// The lines that differ from the commit before the session's first turn, in the files that its
/// turns changed.
pub async fn count_lines(
    folder: &Path,
    mark: &str,
    changed: &SessionFiles,
) -> Option<ChangedLines> {
    let since = changed
        .since()
        .filter(|since| since.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    let repository = GitRepository::around(folder, mark)?;
    let mut wanted: BTreeSet<PathBuf> = changed.names()?.map(PathBuf::from).collect();
    let counted = async {
        let output = repository.lines_since(since).await.ok()?;
        let mut counts = ChangedLines::default();
        for (name, added, removed) in output.split(|byte| *byte == 0).filter_map(numbers) {
            if wanted.remove(name) {
                counts = counts.and(added, removed);
            }
        }
        if wanted.is_empty() {
            return Some(counts);
        }
        // The others are new, or as they were.
        let untracked = repository.untracked().await.ok()?;
        let folder = folder.to_owned();
        let fresh: Vec<PathBuf> = untracked
            .into_iter()
            .filter(|name| wanted.contains(name))
            .collect();
        let lines = tokio::task::spawn_blocking(move || {
            fresh
                .iter()
                .map(|name| lines_of(&folder.join(name)))
                .collect::<Vec<_>>()
        });
        Some(
            lines
                .await
                .ok()?
                .into_iter()
                .flatten()
                .fold(counts, |counts, added| counts.and(added, 0)),
        )
    };
    tokio::time::timeout(PATIENCE, counted).await.ok()?
}

/// An entry of `git diff --numstat`. Files that are not text have `-` instead of numbers.
fn numbers(entry: &[u8]) -> Option<(&Path, usize, usize)> {
    let mut fields = entry.splitn(3, |byte| *byte == b'\t');
    let mut number = || {
        std::str::from_utf8(fields.next()?)
            .ok()
            .map(|field| field.parse().unwrap_or(0))
    };
    let (added, removed) = (number()?, number()?);
    Some((Path::new(OsStr::from_bytes(fields.next()?)), added, removed))
}

/// The lines of a new file, as git counts them. None if there is no such file.
fn lines_of(path: &Path) -> Option<usize> {
    let meta = fs::symlink_metadata(path)
        .ok()
        .filter(fs::Metadata::is_file)?;
    let mut content = Vec::new();
    if meta.len() <= LARGEST {
        File::open(path)
            .ok()?
            .take(LARGEST)
            .read_to_end(&mut content)
            .ok()?;
    }
    let is_text = !content.iter().take(SNIFFED).any(|byte| *byte == 0);
    // What follows the last line break is a line only if there is something.
    let parts = content.split(|byte| *byte == b'\n').count();
    let has_open_end = content.last().is_some_and(|last| *last != b'\n');
    Some(if is_text {
        parts - usize::from(!has_open_end)
    } else {
        0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_two_numbers_and_a_name_with_any_character() {
        assert_eq!(
            numbers(b"3\t0\ta\tb\nc"),
            Some((Path::new("a\tb\nc"), 3, 0))
        );
        assert_eq!(
            numbers(b"-\t-\tlogo.png"),
            Some((Path::new("logo.png"), 0, 0))
        );
        assert_eq!(numbers(b""), None);
        assert_eq!(numbers(b"3\t0"), None);
    }

    #[test]
    fn a_new_file_has_the_lines_that_git_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let lines = |content: &[u8]| {
            let path = folder.path().join("a");
            fs::write(&path, content).expect("written");
            lines_of(&path)
        };
        assert_eq!(lines(b""), Some(0));
        assert_eq!(lines(b"a\nb\n"), Some(2));
        assert_eq!(lines(b"a\nb"), Some(2));
        assert_eq!(lines(b"a\0\nb\n"), Some(0));
        assert_eq!(lines_of(&folder.path().join("gone")), None);
        assert_eq!(lines_of(folder.path()), None);
    }
}
