//! The journals in `tests/fixtures/journals`, which earlier versions of creel recorded.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The folders of the versions.
pub fn versions() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/journals");
    let entries = fs::read_dir(folder).expect("a folder for each version");
    entries
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

/// The journals of all versions, each with its name.
pub fn fixtures() -> Vec<(String, PathBuf)> {
    let entries = versions()
        .into_iter()
        .flat_map(|version| fs::read_dir(version).expect("a folder of journals"));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let journals = paths.filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "jsonl")
    });
    let named = |path: PathBuf| {
        (
            path.file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned(),
            path,
        )
    };
    let mut found: Vec<_> = journals.map(named).collect();
    found.sort();
    assert!(found.len() >= 10, "the journals are gone: {found:?}");
    found
}
