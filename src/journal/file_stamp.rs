//! The metadata of the journal's file, from which creel knows whether another program wrote to it.

use std::{cmp::Ordering, fs::File, os::unix::fs::MetadataExt as _};

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
