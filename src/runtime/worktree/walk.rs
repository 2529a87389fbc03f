//! Lists every file of a folder that is not in a repository.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{FileStamp, FileStamps, OURS};

/// Folders of tools, caches and build output, which are skipped.
const PASSED_OVER: [&str; 16] = [
    OURS,
    ".git",
    ".hg",
    ".svn",
    ".jj",
    "target",
    "node_modules",
    ".venv",
    "venv",
    "__pycache__",
    ".tox",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".gradle",
    ".next",
];

/// All files, or None if there are more entries than `most` or it lasts longer than `patience`.
/// Does not follow links.
pub(super) fn files(root: &Path, most: usize, patience: Duration) -> Option<FileStamps> {
    let deadline = Instant::now() + patience;
    let mut found = FileStamps::new();
    let mut entries = 0;
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        // A folder that was deleted or that creel cannot read counts as empty.
        let Ok(inside) = fs::read_dir(root.join(&folder)) else {
            continue;
        };
        for entry in inside.flatten() {
            entries += 1;
            if entries > most || Instant::now() > deadline {
                return None;
            }
            let name = entry.file_name();
            let Ok(meta) = entry.metadata() else { continue };
            if !meta.is_dir() {
                found.insert(folder.join(name), Some(FileStamp::of(&meta)));
            } else if !PASSED_OVER.iter().any(|passed| name == *passed) {
                folders.push(folder.join(name));
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_entries_are_not_told_by_half() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a", "b", "c"] {
            fs::write(folder.path().join(name), name).expect("a file");
        }
        let found =
            |most| files(folder.path(), most, Duration::from_mins(1)).map(|found| found.len());
        assert_eq!((found(3), found(2)), (Some(3), None));
    }
}
