//! Digests of the files that a turn changed. File names alone do not show whether the agent repeats
//! the same changes.
//!
//! Owns the digests of earlier contents, which are needed to recognise an append. Does not choose
//! the files: the [`WorktreeSnapshot`] names them.
//!
//! Also counts the lines that a session added and removed, for the card at its end, and looks into
//! repositories inside the project's repository: clones, submodules, other work trees. Git reports
//! such a repository as a single entry, whatever changes in it. So creel compares its files one by
//! one.
//!
//! # Invariants
//! - It reads regular files only, never through a link, and a limited amount of each file and in
//!   total.
//! - A file that is too large is skipped, never half read.
//! - Lines are counted once, at the end of a session: a turn costs nothing more. Only files that
//!   the session changed count. Where git cannot say what changed, there are no counts.
//! - An agent can write the settings of a nested repository. So git only lists names there. It runs
//!   no program and fetches nothing that those settings name.
//! - If there is too much to look at, the whole survey is unknown. A change is never missed.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fmt::Write as _,
    fs::{self, File},
    io::{self, Read as _},
    os::unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use super::{
    ENTRIES, FileStamp, FileStamps, OURS, PATIENCE, SnapshotContent, WorktreeSnapshot, differing,
    git::{self, GitRepository},
    stamp,
};
use crate::engine::{
    conversation::{ChangedFileLines, ChangedLines, FileContent, WorktreeChanges},
    session::iteration::SessionFiles,
};

/// Larger files are skipped: no source file is this large.
const FILE_MAX: u64 = 4 << 20;
/// Files and bytes that creel reads faster than it can ask another thread to.
const FEW: usize = 16;
const LITTLE: u64 = 64 << 10;
/// Bytes to read at most after one turn.
const TOTAL_MAX: u64 = 64 << 20;
/// Enough bytes of the hash to distinguish versions of one file.
const DIGEST_BYTES: usize = 8;
/// How many files to remember. Beyond that, the memory is cleared.
const REMEMBERED: usize = 5_000;

/// The digests of files that earlier turns changed, and the last commit that creel saw.
#[derive(Debug, Clone, Default)]
pub struct DigestMemory {
    head: Option<String>,
    files: BTreeMap<String, FileDigest>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FileDigest {
    size: u64,
    digest: String,
}

impl DigestMemory {
    /// Adds the contents of the changed files to `work`, the changes between the two snapshots.
    pub async fn add_contents(
        &mut self,
        earlier: &WorktreeSnapshot,
        now: &WorktreeSnapshot,
        work: &mut WorktreeChanges,
    ) {
        let committed = self.committed(earlier, now).await;
        // Commits in a nested repository are not visible here, and committed files must not count
        // as rewritten.
        let in_nested = |name: &str| matches!(&now.seen, SnapshotContent::Repository { nested, .. } if nested.contains(Path::new(name)));
        let names: Vec<String> = work
            .files_modified
            .iter()
            .filter(|name| !in_nested(name))
            .cloned()
            .collect();
        if names.is_empty() {
            return;
        }
        let (folder, files) = (now.folder.clone(), std::mem::take(&mut self.files));
        let looked = if is_little(&folder, &names) {
            Some(look(&folder, names, files))
        } else {
            tokio::task::spawn_blocking(move || look(&folder, names, files))
                .await
                .ok()
        };
        let Some((mut contents, files)) = looked else {
            return;
        };
        for (name, content) in &mut contents {
            content.committed = committed
                .iter()
                .any(|path| path.as_path() == Path::new(name));
        }
        work.contents = contents;
        self.files = files;
    }

    /// The files that the agent, or a hook after its turn, committed since the last survey.
    async fn committed(
        &mut self,
        earlier: &WorktreeSnapshot,
        now: &WorktreeSnapshot,
    ) -> Vec<PathBuf> {
        let (
            SnapshotContent::Repository { head: old, .. },
            SnapshotContent::Repository {
                repository, head, ..
            },
        ) = (&earlier.seen, &now.seen)
        else {
            return Vec::new();
        };
        let old = std::mem::replace(&mut self.head, head.clone()).or_else(|| old.clone());
        let Some(new) = head.as_deref().filter(|_| *head != old) else {
            return Vec::new();
        };
        let asked = tokio::time::timeout(PATIENCE, repository.between(old.as_deref(), new)).await;
        asked.ok().and_then(Result::ok).unwrap_or_default()
    }
}

type ChangedContents = BTreeMap<String, FileContent>;
type KnownDigests = BTreeMap<String, FileDigest>;

fn look(
    folder: &Path,
    names: Vec<String>,
    mut known: KnownDigests,
) -> (ChangedContents, KnownDigests) {
    let deadline = Instant::now() + PATIENCE;
    let mut left = TOTAL_MAX;
    let mut contents = ChangedContents::new();
    if known.len() > REMEMBERED {
        known.clear();
    }
    for name in names {
        if Instant::now() > deadline {
            break;
        }
        let before = known.remove(&name);
        match read(&folder.join(&name), before.as_ref(), &mut left) {
            Ok(Some((now, appended))) => {
                let digest = Some(now.digest.clone());
                contents.insert(
                    name.clone(),
                    FileContent {
                        digest,
                        appended,
                        committed: false,
                    },
                );
                known.insert(name, now);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                contents.insert(name, FileContent::default());
            }
            Ok(None) | Err(_) => {}
        }
    }
    (contents, known)
}

fn is_little(folder: &Path, names: &[String]) -> bool {
    let size = |name: &String| fs::symlink_metadata(folder.join(name)).map_or(0, |meta| meta.len());
    names.len() <= FEW && names.iter().map(size).sum::<u64>() <= LITTLE
}

/// Reads a file and whether it is the previous content with more appended. None if it is too large
/// or not a regular file.
fn read(
    path: &Path,
    before: Option<&FileDigest>,
    left: &mut u64,
) -> io::Result<Option<(FileDigest, bool)>> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(None);
    }
    // The file can have been replaced by a pipe or a link since the check.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC)
        .bits()
        .cast_signed();
    let file = fs::File::options()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > FILE_MAX.min(*left) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(FILE_MAX + 1).read_to_end(&mut bytes)?;
    let size = bytes.len() as u64;
    *left = left.saturating_sub(size);
    if size > FILE_MAX {
        return Ok(None);
    }
    let old_size = before
        .filter(|before| before.size < size)
        .and_then(|before| usize::try_from(before.size).ok());
    let (start, end) = bytes.split_at(old_size.unwrap_or(0));
    let mut hasher = Sha256::new_with_prefix(start);
    let appended =
        old_size.is_some() && before.is_some_and(|before| before.digest == short(hasher.clone()));
    hasher.update(end);
    Ok(Some((
        FileDigest {
            size,
            digest: short(hasher),
        },
        appended,
    )))
}

fn short(hasher: Sha256) -> String {
    let mut digest = String::new();
    for byte in hasher.finalize().iter().take(DIGEST_BYTES) {
        let _ = write!(digest, "{byte:02x}");
    }
    digest
}

/// A session does not wait longer for its own end.
const COUNT_PATIENCE: Duration = Duration::from_secs(2);
/// New files of more bytes count as files without lines.
const LARGEST: u64 = 4 << 20;
/// Git looks at as many bytes to tell text from other content.
const SNIFFED: usize = 8_000;

/// How many files a record names.
const LISTED: usize = 20;

/// The lines of the files that a session changed.
#[derive(Debug, Default)]
pub struct CountedLines {
    pub lines: ChangedLines,
    files: Vec<ChangedFileLines>,
}

impl CountedLines {
    fn and(mut self, path: &Path, added: usize, removed: usize) -> Self {
        self.lines = self.lines.and(added, removed);
        self.files.push(ChangedFileLines {
            path: path.to_string_lossy().into_owned(),
            added,
            removed,
        });
        self
    }

    /// The files with most changed lines, most first.
    pub fn largest(mut self) -> Vec<ChangedFileLines> {
        let changed = |file: &ChangedFileLines| file.added + file.removed;
        self.files.sort_by(|one, other| {
            let most = changed(other).cmp(&changed(one));
            most.then_with(|| one.path.cmp(&other.path))
        });
        self.files.truncate(LISTED);
        self.files
    }
}

/// The lines that differ from the commit before the session's first turn, in the files that its
/// turns changed.
pub async fn count_lines(
    folder: &Path,
    mark: &str,
    changed: &SessionFiles,
) -> Option<CountedLines> {
    let since = changed
        .since()
        .filter(|since| since.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    let repository = GitRepository::around(folder, mark)?;
    let mut wanted: BTreeSet<PathBuf> = changed.seen_names()?.map(PathBuf::from).collect();
    let counted = async {
        let output = repository.lines_since(since).await.ok()?;
        let mut counts = CountedLines::default();
        for (name, added, removed) in output.split(|byte| *byte == 0).filter_map(numbers) {
            if wanted.remove(name) {
                counts = counts.and(name, added, removed);
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
            let count = |name: PathBuf| Some((lines_of(&folder.join(&name))?, name));
            fresh.into_iter().filter_map(count).collect::<Vec<_>>()
        });
        Some(
            lines
                .await
                .ok()?
                .into_iter()
                .fold(counts, |counts, (added, name)| counts.and(&name, added, 0)),
        )
    };
    tokio::time::timeout(COUNT_PATIENCE, counted).await.ok()?
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

/// How many nested repositories are surveyed: each needs a process.
const REPOSITORIES: usize = 64;

/// The files of each nested repository, by the repository's path. All paths are relative to the
/// project's folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NestedFiles(BTreeMap<PathBuf, FileStamps>);

impl NestedFiles {
    /// Surveys these repositories and those inside them. None if there is too much to look at.
    pub(super) async fn look(
        repository: &git::GitRepository,
        folder: &Path,
        mut found: Vec<PathBuf>,
    ) -> Option<Self> {
        let mut seen = Self::default();
        let mut files = 0;
        while let Some(place) = found.pop() {
            if seen.0.len() >= REPOSITORIES {
                return None;
            }
            let listed = match repository.files_of_nested(&place).await {
                Ok(names) => Some(names),
                Err(git::GitStatusError::TooMuch) => return None,
                Err(git::GitStatusError::No) => None,
            };
            let folder = folder.to_owned();
            let (place, looked) = tokio::task::spawn_blocking(move || {
                let looked = look_at(&folder, &place, listed);
                (place, looked)
            })
            .await
            .ok()?;
            let FilesInside {
                stamps,
                repositories,
            } = looked?;
            files += stamps.len();
            if files > ENTRIES {
                return None;
            }
            found.extend(repositories);
            seen.0.insert(place, stamps);
        }
        Some(seen)
    }

    /// The files that changed since an earlier survey. A repository that only one of the surveys
    /// contains is listed itself.
    pub(super) fn changed_since(&self, earlier: &Self) -> BTreeSet<PathBuf> {
        let mut changed = BTreeSet::new();
        for place in self.0.keys().chain(earlier.0.keys()) {
            match (self.0.get(place), earlier.0.get(place)) {
                (Some(now), Some(before)) => changed.extend(differing(now, before).cloned()),
                (Some(_), None) | (None, _) => drop(changed.insert(place.clone())),
            }
        }
        changed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, name: &Path) -> bool {
        self.0.keys().any(|place| name.starts_with(place))
    }
}

struct FilesInside {
    stamps: FileStamps,
    repositories: Vec<PathBuf>,
}

/// Stamps the files that git listed, or all files if git could not read the repository.
fn look_at(folder: &Path, place: &Path, listed: Option<Vec<PathBuf>>) -> Option<FilesInside> {
    let Some(listed) = listed else {
        let files = walked_files(&folder.join(place), ENTRIES, PATIENCE)?;
        let stamps = files
            .into_iter()
            .map(|(name, stamp)| (place.join(name), stamp))
            .collect();
        return Some(FilesInside {
            stamps,
            repositories: Vec::new(),
        });
    };
    let names: BTreeSet<PathBuf> = listed.into_iter().map(|name| place.join(name)).collect();
    let (repositories, files) = names.into_iter().partition(|name: &PathBuf| {
        let path = folder.join(name);
        !path.is_symlink() && path.is_dir()
    });
    let stamps = Vec::into_iter(files)
        .map(|name: PathBuf| (name.clone(), stamp(&folder.join(name))))
        .collect();
    Some(FilesInside {
        stamps,
        repositories,
    })
}

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
pub(super) fn walked_files(root: &Path, most: usize, patience: Duration) -> Option<FileStamps> {
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
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn appends_differ_from_rewrites_and_pipes_links_and_large_files_are_left_out() {
        let dir = tempfile::tempdir().expect("a folder");
        let dir = dir.path();
        let write = |name: &str, text: &str| fs::write(dir.join(name), text).expect("a file");
        let see = |known: KnownDigests| {
            look(
                dir,
                ["log", "code", "link", "pipe", "big", "gone"]
                    .map(str::to_owned)
                    .into(),
                known,
            )
        };
        write("log", "one\n");
        write("code", "fn a() {}");
        write("gone", "g");
        symlink("code", dir.join("link")).expect("a link");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.join("pipe"),
            rustix::fs::FileType::Fifo,
            mode,
            0,
        )
        .expect("a pipe");
        fs::File::create(dir.join("big"))
            .and_then(|big| big.set_len(FILE_MAX + 1))
            .expect("a large file");
        let (first, known) = see(KnownDigests::new());
        assert_eq!(first.keys().collect::<Vec<_>>(), ["code", "gone", "log"]);
        assert!(
            first
                .values()
                .all(|content| !content.appended && content.digest.is_some()),
            "{first:?}"
        );
        write("log", "one\ntwo\n");
        write("code", "fn b() {} // longer");
        fs::remove_file(dir.join("gone")).expect("removed");
        let (second, known) = see(known);
        let appended: Vec<_> = second.values().map(|content| content.appended).collect();
        assert_eq!(appended, [false, false, true], "{second:?}");
        assert_eq!(second["gone"], FileContent::default());
        write("log", "one\n");
        write("code", "fn a() {}");
        let (third, _) = see(known);
        assert_eq!(
            (&third["log"], &third["code"]),
            (&first["log"], &first["code"])
        );
    }
}

#[cfg(test)]
mod line_counts_tests {
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

#[cfg(test)]
mod nested_tests {
    use super::*;

    #[test]
    fn with_too_many_entries_no_list_is_returned() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a", "b", "c"] {
            fs::write(folder.path().join(name), name).expect("a file");
        }
        let found = |most| {
            walked_files(folder.path(), most, Duration::from_mins(1)).map(|found| found.len())
        };
        assert_eq!((found(3), found(2)), (Some(3), None));
    }
}
