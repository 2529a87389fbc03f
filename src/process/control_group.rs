//! The control group of a session: the kernel's own list of everything that the session has
//! started.
//!
//! A process that leaves its parent, its group, its terminal and its environment behind stays in
//! its control group. So a creel that comes after a killed one still finds it. Only on Linux with
//! control groups of version 2, below a group that belongs to the user, as that of a desktop
//! session does. Elsewhere there is none.
//!
//! # Invariants
//! - Only a group that bears the session's own name counts, so a note that was changed names no
//!   other processes.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// What the name of a group begins with.
const PREFIX: &str = "creel-";
/// The file of a group that lists its processes, and moves those in that are written to it.
const PROCESSES: &str = "cgroup.procs";
/// Where the kernel shows the groups.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlGroup {
    path: PathBuf,
}

impl ControlGroup {
    /// Moves this process, with everything that it starts from now on, into a new group, and writes
    /// where that is. None where the system does not allow it.
    pub fn enter(id: &str, note: &Path) -> Option<Self> {
        let above = own_group()?;
        clear_empty(&above);
        let group = Self {
            path: above.join(format!("{PREFIX}{id}")),
        };
        // The note comes first: a group without a note would never be found.
        let enter = || {
            match fs::create_dir(&group.path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
            fs::write(note, group.path.to_str().unwrap_or_default())?;
            fs::write(group.path.join(PROCESSES), "0")
        };
        // Another session may have just removed it, because it was empty.
        if enter().or_else(|_| enter()).is_err() {
            let _ = fs::remove_dir(&group.path);
            let _ = fs::remove_file(note);
            return None;
        }
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(group.path.clone());
        Some(group)
    }

    /// The group that an earlier process noted for this session.
    pub fn noted(id: &str, note: &Path) -> Option<Self> {
        let path = PathBuf::from(fs::read_to_string(note).ok()?);
        let is_own = path.file_name()?.to_str()?.strip_prefix(PREFIX) == Some(id);
        let is_below = ROOTS.iter().any(|root| path.starts_with(root))
            && !path.components().any(|part| part.as_os_str() == "..");
        (is_own && is_below).then_some(Self { path })
    }

    /// The processes in it now.
    pub(super) fn processes(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.path.join(PROCESSES)).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Leaves the group and removes it. One with processes stays.
    pub fn leave(self, note: &Path) {
        CURRENT
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let above = self.path.parent().map(|above| above.join(PROCESSES));
        let left = above.is_some_and(|above| fs::write(above, "0").is_ok());
        if left && fs::remove_dir(&self.path).is_ok() {
            let _ = fs::remove_file(note);
        }
    }

    /// Removes a group whose processes have ended.
    pub fn remove(self, note: &Path) {
        if fs::remove_dir(&self.path).is_ok() || !self.path.exists() {
            let _ = fs::remove_file(note);
        }
    }
}

/// Moves a process that belongs to the user, such as an editor, out of the group. What it starts is
/// then not in it either.
pub fn let_go(pid: u32) {
    let current = CURRENT
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    if let Some(above) = current.as_deref().and_then(Path::parent) {
        // It may have just ended.
        let _ = fs::write(above.join(PROCESSES), pid.to_string());
    }
}

/// The group of this process.
static CURRENT: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The folder of the group that this process is in.
fn own_group() -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folders = ROOTS.iter().map(|root| Path::new(root).join(own));
    folders
        .into_iter()
        .find(|folder| folder.join(PROCESSES).exists())
}

/// Removes the groups of sessions whose last process has ended, those inside first. The kernel
/// keeps the others.
fn clear_empty(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        if entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX))
        {
            clear_empty(&entry.path());
            let _ = fs::remove_dir(entry.path());
        }
    }
}
