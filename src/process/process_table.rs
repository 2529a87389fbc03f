//! The system's list of processes, where available, and the control group of a session: the kernel's
//! own list of everything that the session has started.
//!
//! A process that leaves its parent, its group, its terminal and its environment behind stays in
//! its control group. So a creel that comes after a killed one still finds it. Only on Linux with
//! control groups of version 2, below a group that belongs to the user, as that of a desktop
//! session does. Elsewhere there is none.
//!
//! Owns reading `/proc`. Does not decide which processes belong to creel: see [`super::sweep`].
//!
//! # Invariants
//! - Two processes are the same only if pid and start time are equal, because the system reuses
//!   pids.
//! - Without a list, no start time is known and no process is found.
//! - Only a control group that bears the session's own name counts, so a note that was changed names
//!   no other processes.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};

use rustix::process::getpid;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessTable {
    /// As on Linux.
    ProcFs,
    /// Another system, or Linux without `/proc`.
    Absent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    pub(crate) pid: i32,
    /// It has ended, and its parent has not reaped it yet.
    pub(crate) dead: bool,
    /// It does not run until it gets a signal to continue.
    pub(crate) is_stopped: bool,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// Its controlling terminal, or 0.
    pub(crate) terminal: i32,
    /// In the kernel's ticks since boot.
    pub(crate) start: u64,
}

/// The name of a process that runs a session, at most 15 bytes.
const RUNNER: &str = "creel-session";

/// Names this process, so that others see that it runs a session. Without a list of processes
/// nothing happens.
pub fn name_session_process() {
    let _ = std::fs::write("/proc/self/comm", RUNNER);
}

impl ProcessTable {
    pub fn of_system() -> Self {
        static FOUND: OnceLock<ProcessTable> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let exists =
                cfg!(target_os = "linux") && fs::exists("/proc/self/stat").unwrap_or(false);
            if exists { Self::ProcFs } else { Self::Absent }
        })
    }

    /// Whether a shell can resume this process after a stop: a process above its group must be in
    /// the same terminal session. The kernel checks the same before a terminal stops a process.
    pub fn is_under_a_shell(self) -> bool {
        let Some(own) = self.stat(getpid().as_raw_nonzero().get()) else {
            return self == Self::Absent;
        };
        let mut above = self.stat(own.parent);
        while let Some(parent) = above.filter(|parent| parent.group == own.group) {
            above = self.stat(parent.parent);
        }
        above.is_some_and(|parent| parent.session == own.session)
    }

    /// All processes. Not atomic: processes can start or end while the list is read.
    pub(crate) fn all(self) -> Vec<ProcessStat> {
        match self {
            Self::ProcFs => {
                let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
                entries
                    .filter_map(|entry| self.stat(entry.file_name().to_str()?.parse().ok()?))
                    .collect()
            }
            Self::Absent => Vec::new(),
        }
    }

    pub(crate) fn stat(self, pid: i32) -> Option<ProcessStat> {
        if self == Self::Absent {
            return None;
        }
        // One read into a buffer that is always large enough. Reading a file of unknown size needs
        // six calls.
        let mut line = [0; 4096];
        let length = File::open(format!("/proc/{pid}/stat"))
            .ok()?
            .read(&mut line)
            .ok()?;
        parse_stat(&line[..length])
    }

    /// Whether a process runs a session. No other process can say so in its name.
    pub(crate) fn runs_session(self, pid: i32) -> bool {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let program = || std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        // The file of a running program may have been replaced.
        let is_creel = || {
            program()
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("creel"))
        };
        self != Self::Absent && name.trim_end() == RUNNER && is_creel()
    }

    /// The files that a process has open. Empty for other users' processes.
    pub(crate) fn open_files(self, pid: i32) -> Vec<PathBuf> {
        let entries = fs::read_dir(format!("/proc/{pid}/fd"))
            .ok()
            .filter(|_| self == Self::ProcFs);
        entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .collect()
    }

    /// The initial environment of a process. None for other users' processes.
    pub(crate) fn environ(self, pid: i32) -> Option<Vec<u8>> {
        match self {
            Self::ProcFs => fs::read(format!("/proc/{pid}/environ")).ok(),
            Self::Absent => None,
        }
    }
}

/// The process chooses the name in parentheses, so this searches for the last `)`.
fn parse_stat(line: &[u8]) -> Option<ProcessStat> {
    let line = String::from_utf8_lossy(line);
    let (before, after) = line.rsplit_once(')')?;
    let pid = before.split_once(' ')?.0.parse().ok()?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let number = |i: usize| fields.get(i)?.parse::<i32>().ok();
    Some(ProcessStat {
        pid,
        dead: matches!(fields.first(), Some(&("Z" | "X" | "x"))),
        is_stopped: fields.first() == Some(&"T"),
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        terminal: number(4)?,
        start: fields.get(19)?.parse().ok()?,
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_parentheses_does_not_confuse_the_reading_of_a_stat_line() {
        let line = b"42 (a) Z 7 (b)) S 1 40 39 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987 1 1";
        let stat = parse_stat(line).expect("a stat line");
        assert_eq!(
            stat,
            ProcessStat {
                pid: 42,
                is_stopped: false,
                dead: false,
                parent: 1,
                group: 40,
                session: 39,
                terminal: 0,
                start: 987
            }
        );
    }

    #[test]
    fn without_a_list_nothing_is_known() {
        let own = i32::try_from(std::process::id()).expect("a number");
        assert_eq!(ProcessTable::Absent.stat(own), None);
        assert!(
            ProcessTable::Absent.all().is_empty() && ProcessTable::Absent.environ(own).is_none()
        );
    }
}
