//! The contents of files: in a commit, as git has them, or in the folder of a session.
//!
//! # Invariants
//! - Git only reads: it runs no program that a repository names, and fetches nothing.
//! - No link is followed, and no file outside of the folder is read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, BufRead, BufReader, Read as _, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Component, Path, PathBuf},
    process::{Child, Stdio},
    thread,
};

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use crate::git;

/// Larger files are not compared.
const LARGEST: u64 = 4 << 20;
/// How many names one call of git gets.
const NAMES: usize = 200;
/// How many bytes of a digest the records have.
const DIGEST_BYTES: usize = 8;
/// The modes of git for files and links.
const PLAIN_FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_000;

/// A file as it is in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileVersion {
    Absent,
    /// A file, or a link with its target as content.
    Present {
        mode: u32,
        bytes: Vec<u8>,
    },
    /// Too large, or not a file.
    NotComparable,
}

impl FileVersion {
    /// Whether its content is the one with this digest.
    pub(super) fn has_digest(&self, digest: Option<&str>) -> bool {
        match self {
            Self::Absent => digest.is_none(),
            Self::Present { bytes, .. } => digest.is_some_and(|digest| digest == short_hash(bytes)),
            Self::NotComparable => false,
        }
    }
}

/// The beginning of the digest, as records have it.
fn short_hash(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    let shown = hash.iter().take(DIGEST_BYTES);
    shown.map(|byte| format!("{byte:02x}")).collect()
}

pub(super) type FileVersions = BTreeMap<String, FileVersion>;

/// A repository, seen from the folder that the names are relative to.
pub(super) struct ComparedRepository {
    folder: PathBuf,
}

impl ComparedRepository {
    pub(super) fn at(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    fn command(&self) -> std::process::Command {
        let mut command = git::command(&self.folder);
        command.env("GIT_NO_LAZY_FETCH", "1");
        // Names of files are no patterns.
        command.env("GIT_LITERAL_PATHSPECS", "1");
        command
    }

    fn ask(&self, args: &[&str]) -> Option<String> {
        let reply = git::call(self.command(), args, std::process::Command::output).ok()?;
        reply.is_ok.then_some(reply.stdout)
    }

    fn names(&self, args: &[&str]) -> Option<BTreeSet<String>> {
        let output = self.ask(args)?;
        let names = output.split('\0').filter(|name| !name.is_empty());
        Some(names.map(str::to_owned).collect())
    }

    /// The commit at the tip of a branch.
    pub(super) fn tip(&self, branch: &str) -> Option<String> {
        let name = format!("refs/heads/{branch}^{{commit}}");
        let output = self.ask(&[
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &name,
        ])?;
        Some(output.trim().to_owned())
    }

    /// The commit that is checked out.
    pub(super) fn head(&self) -> Option<String> {
        let output = self.ask(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])?;
        Some(output.trim().to_owned())
    }

    pub(super) fn has_commit(&self, commit: &str) -> bool {
        self.ask(&["ls-tree", "--name-only", commit]).is_some()
    }

    /// The files that differ between two commits, or between a commit and the folder.
    pub(super) fn changed(&self, from: &str, to: Option<&str>) -> Option<BTreeSet<String>> {
        let mut args = vec![
            "diff",
            "--name-only",
            "-z",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=all",
            "--relative",
            from,
        ];
        args.extend(to);
        args.extend(["--", "."]);
        self.names(&args)
    }

    /// The new files in the folder, without ignored ones.
    pub(super) fn untracked(&self) -> Option<BTreeSet<String>> {
        self.names(&[
            "ls-files",
            "--others",
            "--exclude-standard",
            "-z",
            "--",
            ".",
        ])
    }

    /// Files as they are in a commit. None if git cannot say.
    pub(super) fn in_commit(&self, commit: &str, names: &BTreeSet<String>) -> Option<FileVersions> {
        let mut found: FileVersions = names
            .iter()
            .map(|name| (name.clone(), FileVersion::Absent))
            .collect();
        let mut wanted = Vec::new();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for some in names.chunks(NAMES) {
            let mut args = vec!["ls-tree", "-z", "-l", commit, "--"];
            args.extend(some);
            for entry in self.ask(&args)?.split('\0') {
                let Some((name, mode, object)) = listed(entry) else {
                    continue;
                };
                if let Some(object) = object {
                    wanted.push((name.to_owned(), mode, object.to_owned()));
                } else {
                    found.insert(name.to_owned(), FileVersion::NotComparable);
                }
            }
        }
        let objects: Vec<&str> = wanted.iter().map(|(.., object)| object.as_str()).collect();
        let contents = self.contents(&objects).ok()?;
        for ((name, mode, _), bytes) in wanted.into_iter().zip(contents) {
            found.insert(name, FileVersion::Present { mode, bytes });
        }
        Some(found)
    }

    /// The contents of objects, in the same order.
    fn contents(&self, objects: &[&str]) -> io::Result<Vec<Vec<u8>>> {
        if objects.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = self.command();
        command
            .args(git::PLAIN)
            .args(["cat-file", "--batch"])
            .envs(git::QUIET.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn()?;
        let read = exchange(&mut child, objects);
        child.wait()?;
        read
    }
}

/// Asks for all objects while the answers are read: git blocks when its pipe is full.
fn exchange(child: &mut Child, objects: &[&str]) -> io::Result<Vec<Vec<u8>>> {
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let asked: String = objects.iter().map(|object| format!("{object}\n")).collect();
    thread::scope(|scope| {
        let writer = scope.spawn(move || input.write_all(asked.as_bytes()));
        let mut output = BufReader::new(output);
        let read = objects.iter().map(|_| answered(&mut output)).collect();
        // After an error, git must not wait for a reader.
        drop(output);
        let _ = writer.join();
        read
    })
}

/// Reads an answer of `cat-file`: a line with the size, the content, and a newline.
fn answered(output: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut head = String::new();
    output.read_line(&mut head)?;
    let size = head.trim_end().rsplit(' ').next();
    let size: u64 = size
        .and_then(|size| size.parse().ok())
        .ok_or(io::ErrorKind::InvalidData)?;
    let mut bytes = Vec::new();
    output.take(size + 1).read_to_end(&mut bytes)?;
    if bytes.pop() == Some(b'\n') {
        Ok(bytes)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// An entry of `ls-tree -l`: the name, the mode and the object, if it is a file that can be
/// compared.
fn listed(entry: &str) -> Option<(&str, u32, Option<&str>)> {
    let (facts, name) = entry.split_once('\t')?;
    let mut facts = facts.split_ascii_whitespace();
    let mode = u32::from_str_radix(facts.next()?, 8).ok()?;
    let kind = facts.next()?;
    let object = facts.next()?;
    let size: Option<u64> = facts.next().and_then(|size| size.parse().ok());
    let is_comparable = kind == "blob" && size.is_some_and(|size| size <= LARGEST);
    Some((name, mode, is_comparable.then_some(object)))
}

/// A file as it is in the folder now.
pub(super) fn in_folder(folder: &Path, name: &str) -> FileVersion {
    let path = folder.join(name);
    if !is_inside(folder, name) {
        return FileVersion::NotComparable;
    }
    let meta = match fs::symlink_metadata(&path) {
        Ok(meta) => meta,
        Err(error)
            if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) =>
        {
            return FileVersion::Absent;
        }
        Err(_) => return FileVersion::NotComparable,
    };
    if meta.is_symlink() {
        let Ok(target) = fs::read_link(&path) else {
            return FileVersion::NotComparable;
        };
        let bytes = target.into_os_string().into_encoded_bytes();
        return FileVersion::Present { mode: LINK, bytes };
    }
    if !meta.is_file() || meta.len() > LARGEST {
        return FileVersion::NotComparable;
    }
    let mode = if meta.permissions().mode() & 0o100 == 0 {
        PLAIN_FILE
    } else {
        PROGRAM
    };
    read_file(&path).map_or(FileVersion::NotComparable, |bytes| FileVersion::Present {
        mode,
        bytes,
    })
}

/// Records can come with a clone: a name must not lead out of the folder.
fn is_inside(folder: &Path, name: &str) -> bool {
    let is_plain = Path::new(name)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let above = Path::new(name).ancestors().skip(1);
    let mut above = above.filter(|above| !above.as_os_str().is_empty());
    let is_link =
        |above: &Path| fs::symlink_metadata(folder.join(above)).is_ok_and(|meta| meta.is_symlink());
    is_plain && !above.any(is_link)
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    // The file can have been replaced by a pipe or a link since the check.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC)
        .bits()
        .cast_signed();
    let file = fs::File::options()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let mut bytes = Vec::new();
    if file.metadata()?.is_file() {
        file.take(LARGEST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 <= LARGEST {
            return Ok(bytes);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_links_and_what_is_neither() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, outside) = (dir.path().join("p"), dir.path().join("outside"));
        fs::create_dir_all(folder.join("sub")).expect("a folder");
        fs::create_dir_all(&outside).expect("a folder");
        fs::write(outside.join("secret"), "s").expect("a file");
        fs::write(folder.join("sub/a"), "text\n").expect("a file");
        symlink("sub/a", folder.join("link")).expect("a link");
        symlink(&outside, folder.join("away")).expect("a link");
        let present = |mode: u32, text: &str| FileVersion::Present {
            mode,
            bytes: text.into(),
        };
        assert_eq!(in_folder(&folder, "sub/a"), present(PLAIN_FILE, "text\n"));
        assert_eq!(in_folder(&folder, "link"), present(LINK, "sub/a"));
        assert_eq!(in_folder(&folder, "gone"), FileVersion::Absent);
        assert_eq!(in_folder(&folder, "sub/a/b"), FileVersion::Absent);
        for name in ["sub", "../outside/secret", "/etc/passwd", "away/secret"] {
            assert_eq!(
                in_folder(&folder, name),
                FileVersion::NotComparable,
                "{name}"
            );
        }
    }

    #[test]
    fn an_entry_of_a_tree_has_a_size_if_it_is_a_file() {
        let entry = "100755 blob 0123abc       5\tsrc/a b";
        assert_eq!(listed(entry), Some(("src/a b", 0o100_755, Some("0123abc"))));
        let entry = "160000 commit 0123abc       -\tvendor";
        assert_eq!(listed(entry), Some(("vendor", 0o160_000, None)));
        let large = format!("100644 blob 0123abc {}\tdump", LARGEST + 1);
        assert_eq!(listed(&large), Some(("dump", 0o100_644, None)));
        assert_eq!(listed(""), None);
    }

    #[test]
    fn a_digest_is_the_beginning_of_the_hash() {
        let empty = FileVersion::Present {
            mode: PLAIN_FILE,
            bytes: Vec::new(),
        };
        assert!(empty.has_digest(Some("e3b0c44298fc1c14")));
        assert!(!empty.has_digest(None) && FileVersion::Absent.has_digest(None));
    }
}
