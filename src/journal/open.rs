//! Opens files in a session's folder, which an attacker could have put into a clone, and knows from
//! the metadata of the journal's file whether another program wrote to it.
//!
//! # Invariants
//! - No link is followed: not one in place of a file, of the session's folder, or of `.creel`.
//! - Only regular files are opened, so a named pipe cannot block creel.
//! - A replaced file is never half written: a reader finds the old content or the new.

use std::{
    cmp::Ordering,
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, renameat, statat, unlinkat},
    io::Errno,
};

/// creel's own folder in a project.
pub(crate) const OURS: &str = ".creel";

/// Bytes read from a one-line file.
const A_LINE: u64 = 64 << 10;

pub fn to_read(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDONLY)
}

/// Reads a one-line file, such as the pid file.
pub fn line(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    to_read(path)?.take(A_LINE).read_to_string(&mut text)?;
    Ok(text)
}

/// Replaces a file's content atomically.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let (folder, name) = folder_of(path)?;
    let draft = Path::new(name).with_extension("new");
    // A draft that exists already is from a killed creel, or came with a clone.
    let _ = unlinkat(&folder, &draft, AtFlags::empty());
    let mut file = open_in(
        &folder,
        draft.as_os_str(),
        OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL,
    )?;
    file.write_all(text.as_bytes())?;
    Ok(renameat(&folder, &draft, &folder, name)?)
}

/// A file that it creates is readable by the owner only.
pub(crate) fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let (folder, name) = folder_of(path)?;
    open_in(&folder, name, flags)
}

fn open_in(folder: &OwnedFd, name: &OsStr, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = openat(folder, name, flags, Mode::RUSR | Mode::WUSR);
    let file = File::from(opened.map_err(|error| why_not(folder, name, error))?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a file"))
    }
}

/// Returns the parent folder, open so that no link can replace it, and the file name in it.
fn folder_of(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    Ok((is_folder(folder)?, name))
}

/// Opens a folder, but not through a link. For a session's folder it checks `.creel` and `sessions`
/// above it too, because a clone could contain them as links to anywhere.
pub(super) fn is_folder(path: &Path) -> io::Result<OwnedFd> {
    let is_ours = |path: &Path| path.file_name().is_some_and(|name| name == OURS);
    let above = if path.ancestors().nth(2).is_some_and(is_ours) {
        2
    } else {
        0
    };
    path.ancestors().skip(1).take(above).try_for_each(no_link)?;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).map_err(|error| why_not(CWD, path.as_os_str(), error))
}

pub(crate) fn no_link(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_symlink() {
        Err(not_followed(path))
    } else {
        Ok(())
    }
}

/// Systems report a refused link with different errors, so this checks for a link itself.
fn why_not(folder: impl AsFd, name: &OsStr, error: Errno) -> io::Error {
    let meta = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    let is_link = meta.is_ok_and(|meta| FileType::from_raw_mode(meta.st_mode) == FileType::Symlink);
    if is_link {
        not_followed(Path::new(name))
    } else {
        error.into()
    }
}

fn not_followed(path: &Path) -> io::Error {
    io::Error::other(format!(
        "{} is a symbolic link, and creel does not follow links to its own files. Replace it with its target, or \
         remove it",
        path.display()
    ))
}

/// Whether the file system changes a file's times exactly when its content changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileTimePrecision {
    Exact,
    /// A network file system can change the times later.
    Vague,
}

impl FileTimePrecision {
    #[cfg(target_os = "linux")]
    pub fn of(file: &File) -> Self {
        // ext2 to ext4, xfs, btrfs, tmpfs, overlayfs, f2fs, zfs.
        const LOCAL: [u64; 7] = [
            0xef53,
            0x5846_5342,
            0x9123_683e,
            0x0102_1994,
            0x794c_7630,
            0xf2f5_2010,
            0x2fc1_2fc1,
        ];
        let sort =
            rustix::fs::fstatfs(file).map(|found| u64::try_from(found.f_type).unwrap_or_default());
        if sort.is_ok_and(|sort| LOCAL.contains(&sort)) {
            Self::Exact
        } else {
            Self::Vague
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub fn of(_: &File) -> Self {
        Self::Vague
    }
}

/// Detects whether another process wrote to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JournalFileStamp {
    /// Device and inode.
    pub(super) id: (u64, u64),
    pub(super) length: u64,
    pub(super) modified: (i64, i64),
    pub(super) changed: (i64, i64),
    /// Mode, link count and owner. If one of these changed, it explains the new ctime and is no
    /// damage.
    harmless: (u32, u64, u32, u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalDamage {
    Truncated,
    Written,
    Replaced,
}

impl JournalFileStamp {
    pub(super) fn of(file: &File) -> Option<Self> {
        let meta = file.metadata().ok()?;
        Some(Self {
            id: (meta.dev(), meta.ino()),
            length: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
            harmless: (meta.mode(), meta.nlink(), meta.uid(), meta.gid()),
        })
    }

    pub(super) fn damage_since(
        &self,
        before: &Self,
        times: FileTimePrecision,
    ) -> Option<JournalDamage> {
        let touched = self.changed != before.changed && self.harmless == before.harmless;
        let later =
            times == FileTimePrecision::Exact && (self.modified != before.modified || touched);
        JournalDamage::of_lengths(before.length, self.length)
            .or(later.then_some(JournalDamage::Written))
    }
}

impl JournalDamage {
    pub(super) fn of_lengths(expected: u64, found: u64) -> Option<Self> {
        match found.cmp(&expected) {
            Ordering::Less => Some(Self::Truncated),
            Ordering::Equal => None,
            Ordering::Greater => Some(Self::Written),
        }
    }
}
