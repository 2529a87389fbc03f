//! Looks into the changed files of a session for signs of weakened tests.
//!
//! Reads the files before the session from git and as they are now from the folder. What the texts
//! mean is decided in [`crate::engine::verify::test_files`].
//!
//! # Invariants
//! - It changes nothing, and has limited time and memory.
//! - A file that it cannot compare is named.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use super::git::GitRepository;
use crate::engine::{
    session::iteration::SessionFiles,
    verify::{
        test_files::{
            ChangedText, belongs_to_tests, can_matter, has_tests, is_test_file, weakened,
        },
        test_guard::TestComparison,
    },
};

/// A session does not wait longer before its end.
const PATIENCE: Duration = Duration::from_secs(10);
/// Files to look into at most.
const FILES: usize = 300;
/// Larger files are no tests that people write, in bytes.
const LARGEST: u64 = 2 << 20;

/// What the files that a session changed say about its tests.
pub async fn compare_tests(folder: &Path, mark: &str, changed: &SessionFiles) -> TestComparison {
    let looking = look(folder, mark, changed);
    let found = tokio::time::timeout(PATIENCE, looking).await;
    found.unwrap_or_else(|_| undecided("git took too long"))
}

fn undecided(why: &str) -> TestComparison {
    TestComparison {
        undecided: vec![format!(
            "creel cannot compare the changed test files: {why}"
        )],
        ..TestComparison::default()
    }
}

async fn look(folder: &Path, mark: &str, changed: &SessionFiles) -> TestComparison {
    let known: Option<Vec<String>> = changed.names().map(|names| {
        names
            .filter(|name| can_matter(name))
            .map(str::to_owned)
            .collect()
    });
    let since = changed
        .since()
        .filter(|since| since.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let Some((repository, since)) = GitRepository::around(folder, mark).zip(since) else {
        let concerns = known.is_none_or(|names| names.iter().any(|name| is_test_file(name)));
        return if concerns {
            undecided("there is no git repository, or it has no commit")
        } else {
            TestComparison::default()
        };
    };
    let names = match known {
        Some(names) => names,
        None => match repository.changed_since(since).await {
            Ok(names) => names.into_iter().filter(|name| can_matter(name)).collect(),
            Err(_) => return undecided("git does not say which files changed"),
        },
    };
    let (names, more) = names.split_at(names.len().min(FILES));
    let Ok(existed) = repository.existing(since, names).await else {
        return undecided(&format!("git cannot read commit {since}"));
    };
    let mut found = TestComparison::default();
    if changed.may_miss_commits() {
        found.undecided.push(
            "the first turn was interrupted, so creel does not know whether it committed weaker tests"
                .to_owned(),
        );
    }
    match repository.submodules_changed_since(since).await {
        Ok(names) => {
            let has_tests = |name: &String| belongs_to_tests(&format!("{name}/"));
            let names = names.into_iter().filter(has_tests);
            found.undecided.extend(
                names.map(|name| {
                    format!("creel does not look into the tests of the submodule {name}")
                }),
            );
        }
        Err(_) => return undecided(&format!("git cannot read commit {since}")),
    }
    let mut texts = Vec::new();
    for name in names {
        let before = if existed.contains(name) {
            repository.text_at(since, name).await.map(Some)
        } else {
            Ok(None)
        };
        match (before, text_now(folder.join(name)).await) {
            (Ok(before), Ok(now)) => texts.push(ChangedText {
                name: name.clone(),
                before,
                now,
            }),
            (Err(_), _) | (_, Err(_)) => found.undecided.push(format!(
                "creel cannot compare {name} with the version before the session"
            )),
        }
    }
    if !more.is_empty() {
        let more = more.len();
        let text = format!("creel did not look into {more} more changed files");
        found.undecided.push(text);
    }
    found.files = texts.iter().filter(|file| has_tests(file)).count();
    let looking = tokio::task::spawn_blocking(move || weakened(&texts));
    match looking.await {
        Ok(findings) => found.findings = findings,
        Err(error) => found.undecided.push(format!("a bug in creel: {error}")),
    }
    found
}

/// Why a file cannot be compared: it is too large, or no file.
struct NotReadable;

/// The text of a file in the folder. None if there is no such file.
async fn text_now(path: PathBuf) -> Result<Option<String>, NotReadable> {
    let read = move || {
        let Ok(meta) = fs::symlink_metadata(&path) else {
            return Ok(None);
        };
        if !meta.is_file() || meta.len() > LARGEST {
            return Err(NotReadable);
        }
        let mut bytes = Vec::new();
        let file = File::open(&path).map_err(|_| NotReadable)?;
        file.take(LARGEST)
            .read_to_end(&mut bytes)
            .map_err(|_| NotReadable)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    };
    tokio::task::spawn_blocking(read)
        .await
        .unwrap_or(Err(NotReadable))
}
