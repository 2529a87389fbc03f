//! Digests of the files that a turn changed. File names alone do not show whether the agent repeats
//! the same changes.
//!
//! Owns the digests of earlier contents, which are needed to recognise an append. Does not choose
//! the files: the [`WorktreeSnapshot`] names them.
//!
//! # Invariants
//! - It reads regular files only, never through a link, and a limited amount of each file and in
//!   total.
//! - A file that is too large is skipped, never half read.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Instant,
};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use super::{PATIENCE, SnapshotContent, WorktreeSnapshot};
use crate::engine::conversation::{FileContent, WorktreeChanges};

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
