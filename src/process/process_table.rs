//! The system's list of processes, where available.
//!
//! Owns reading `/proc`. Does not decide which processes belong to creel: see [`super::sweep`].
//!
//! # Invariants
//! - Two processes are the same only if pid and start time are equal, because the system reuses
//!   pids.
//! - Without a list, no start time is known and no process is found.

use std::{
    fs::{self, File},
    io::Read as _,
    path::PathBuf,
    sync::OnceLock,
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
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        terminal: number(4)?,
        start: fields.get(19)?.parse().ok()?,
    })
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
