//! Waits until one of several files or folders changes.
//!
//! On Linux the kernel reports changes. Elsewhere, and if the kernel has no watches left, creel
//! looks once a second.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

#[cfg(target_os = "linux")]
use kernel::KernelWatch;
#[cfg(not(target_os = "linux"))]
use kernel::NoKernelWatch as KernelWatch;

/// How often to look where the kernel does not report changes.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WatchedChange {
    /// These paths, and nothing else.
    Paths(BTreeSet<PathBuf>),
    /// Perhaps something: look at everything.
    Unknown,
}

#[derive(Debug)]
pub(super) struct FolderWatch {
    kernel: Option<KernelWatch>,
}

impl FolderWatch {
    /// Must be called inside a tokio runtime.
    pub(super) fn new() -> Self {
        Self {
            kernel: KernelWatch::new(),
        }
    }

    /// Watches exactly these paths. Those that do not exist are tried again with the next call.
    pub(super) fn watch(&mut self, paths: &BTreeSet<PathBuf>) {
        let is_reported = self
            .kernel
            .as_mut()
            .is_none_or(|kernel| kernel.watch(paths));
        if !is_reported {
            self.kernel = None;
        }
    }

    /// Waits for the next change.
    pub(super) async fn changed(&mut self) -> WatchedChange {
        if let Some(kernel) = &mut self.kernel {
            if let Some(paths) = kernel.changed().await {
                return WatchedChange::Paths(paths);
            }
            self.kernel = None;
            return WatchedChange::Unknown;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
        WatchedChange::Unknown
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::{collections::BTreeMap, io};

    use rustix::{
        fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
        io::Errno,
    };
    use tokio::net::unix::pipe;

    use super::{BTreeSet, PathBuf};

    #[derive(Debug)]
    pub(super) struct KernelWatch {
        /// The kernel's file of events, which reads like a pipe.
        file: pipe::Receiver,
        numbers: BTreeMap<i32, PathBuf>,
        paths: BTreeMap<PathBuf, i32>,
    }

    impl KernelWatch {
        pub(super) fn new() -> Option<Self> {
            let file = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
            let file = pipe::Receiver::from_owned_fd_unchecked(file).ok()?;
            Some(Self {
                file,
                numbers: BTreeMap::new(),
                paths: BTreeMap::new(),
            })
        }

        /// Returns whether the kernel reports every path that exists.
        pub(super) fn watch(&mut self, paths: &BTreeSet<PathBuf>) -> bool {
            let unwanted: Vec<PathBuf> = self
                .paths
                .keys()
                .filter(|path| !paths.contains(*path))
                .cloned()
                .collect();
            for path in unwanted {
                if let Some(number) = self.paths.remove(&path) {
                    self.numbers.remove(&number);
                    let _ = inotify::remove_watch(&self.file, number);
                }
            }
            // A writer that is killed closes its file, so the end of a process is reported too.
            let what = WatchFlags::MODIFY
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::DONT_FOLLOW;
            let new: Vec<&PathBuf> = paths
                .iter()
                .filter(|path| !self.paths.contains_key(*path))
                .collect();
            for path in new {
                match inotify::add_watch(&self.file, path, what) {
                    Ok(number) => {
                        self.numbers.insert(number, path.clone());
                        self.paths.insert(path.clone(), number);
                    }
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
                    Err(error) => {
                        tracing::info!("the kernel does not watch {}: {error}", path.display());
                        return false;
                    }
                }
            }
            true
        }

        /// The paths that have changed. None if the kernel lost track.
        pub(super) async fn changed(&mut self) -> Option<BTreeSet<PathBuf>> {
            let mut changed = BTreeSet::new();
            while changed.is_empty() {
                self.file.readable().await.ok()?;
                let mut buffer = [0; 4096];
                match self.file.try_read(&mut buffer) {
                    Ok(0) => return None,
                    Ok(read) => self.note(&buffer[..read], &mut changed)?,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return None,
                }
            }
            Some(changed)
        }

        /// Reads events as the kernel writes them: number, kind, cookie, the length of the name,
        /// the name.
        fn note(&mut self, mut events: &[u8], changed: &mut BTreeSet<PathBuf>) -> Option<()> {
            while let Some((head, rest)) = events.split_first_chunk::<16>() {
                let field = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
                let (number, kind) = (i32::from_ne_bytes(field(0)), u32::from_ne_bytes(field(4)));
                let kind = ReadFlags::from_bits_retain(kind);
                let name = usize::try_from(u32::from_ne_bytes(field(12))).ok()?;
                events = rest.get(name..)?;
                if kind.contains(ReadFlags::QUEUE_OVERFLOW) {
                    return None;
                }
                let Some(path) = self.numbers.get(&number).cloned() else {
                    continue;
                };
                if kind.contains(ReadFlags::IGNORED) {
                    self.numbers.remove(&number);
                    self.paths.remove(&path);
                }
                changed.insert(path);
            }
            Some(())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use super::{BTreeSet, PathBuf};

    #[derive(Debug)]
    pub(super) enum NoKernelWatch {}

    impl NoKernelWatch {
        pub(super) const fn new() -> Option<Self> {
            None
        }

        pub(super) fn watch(&mut self, _paths: &BTreeSet<PathBuf>) -> bool {
            match *self {}
        }

        pub(super) async fn changed(&mut self) -> Option<BTreeSet<PathBuf>> {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn a_change_of_a_file_or_a_folder_is_reported() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("file");
        fs::write(&file, "").expect("a file");
        let sub = dir.path().join("sub");
        fs::create_dir(&sub).expect("a folder");
        let mut watch = FolderWatch::new();
        watch.watch(&BTreeSet::from([
            file.clone(),
            sub.clone(),
            dir.path().join("missing"),
        ]));
        for (path, change) in [(&file, file.clone()), (&sub, sub.join("new"))] {
            fs::write(change, "text").expect("a file");
            match watch.changed().await {
                WatchedChange::Paths(changed) => {
                    assert_eq!(changed, BTreeSet::from([path.clone()]));
                }
                WatchedChange::Unknown => {}
            }
        }
    }
}
