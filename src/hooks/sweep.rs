//! Which processes are ours, and how they are ended.
//!
//! Owns process groups, the mark in the environment (`CREEL_MARK`) and the order TERM, grace, KILL. Does not start
//! anything: see [`super::process`].
//!
//! A process is ours if it is in a group that we started, or if its environment carries our mark, which it keeps
//! when it leaves the group with `setsid`. The mark is found in `/proc`, so only on Linux; elsewhere the groups are
//! all there is.
//!
//! # Invariants
//! - Never ourselves, never an ancestor of ours: they may carry the mark of an outer session.
//! - Never a stranger who got the number of a process that is gone: a leader must have the start time that was
//!   recorded, and what is left of a group without its leader must carry the mark, or be younger than the leader
//!   and of our own terminal session.

use std::{collections::BTreeSet, fs, time::Duration};

use rustix::process::{Pid, Signal, getpid, getsid, kill_process, kill_process_group, test_kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

/// The variable that marks what we started.
pub const MARK: &str = "CREEL_MARK";

/// How often we look whether all are gone.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long we look after a KILL, which nothing survives unless the kernel holds it.
const AFTER_KILL: Duration = Duration::from_millis(500);

/// A process group that we started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Group {
    /// Its leader, and its number.
    pub pid: i32,
    /// When the leader started, in the kernel's ticks since boot, where the kernel tells.
    pub start: Option<u64>,
}

/// What `/proc/PID/stat` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    pid: i32,
    dead: bool,
    parent: i32,
    group: i32,
    session: i32,
    start: u64,
}

impl Group {
    /// The group that this process leads.
    pub fn led_by(pid: i32) -> Self {
        Self { pid, start: stat(pid).map(|s| s.start) }
    }

    /// Sends a signal to all of it. That nobody is there is fine.
    pub(super) fn signal(self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // Only ESRCH (all are gone) and EPERM (none is ours any more) can come, and neither changes anything.
            let _ = kill_process_group(pid, signal);
        }
    }
}

/// Processes that live and carry this mark, or one below it: `a/run-1` is met by `a`, `a/` and `a/run-1`, but not by
/// `a/run`.
pub fn alive_with_mark(prefix: &str) -> Vec<i32> {
    let spared = ourselves();
    all_stats().filter(|s| !s.dead && !spared.contains(&s.pid) && has_mark(s.pid, prefix)).map(|s| s.pid).collect()
}

/// Ends all that is left of these groups or carries the mark: TERM, then as long as they need up to `grace`, then
/// KILL. Says how many processes there were.
pub async fn end_all(mark_prefix: &str, groups: &[Group], grace: Duration) -> usize {
    let mut told: BTreeSet<i32> = BTreeSet::new();
    let deadline = Instant::now() + grace;
    loop {
        let left = left(mark_prefix, groups);
        if left.is_empty() {
            return told.len();
        }
        // One that was forked in the meantime is told as well.
        for pid in left.difference(&told) {
            signal(*pid, Signal::TERM);
        }
        told.extend(left);
        if Instant::now() >= deadline {
            break;
        }
        sleep(LOOK_EVERY.min(grace)).await;
    }
    let deadline = Instant::now() + AFTER_KILL;
    loop {
        let killed = kill_all_now(mark_prefix, groups);
        if killed == 0 || Instant::now() >= deadline {
            return told.len();
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Ends them at once and does not wait. Says how many processes there were.
pub fn kill_all_now(mark_prefix: &str, groups: &[Group]) -> usize {
    let left = left(mark_prefix, groups);
    for pid in &left {
        signal(*pid, Signal::KILL);
    }
    left.len()
}

/// What lives of these groups, and what carries the mark.
fn left(mark_prefix: &str, groups: &[Group]) -> BTreeSet<i32> {
    if !cfg!(target_os = "linux") {
        return groups.iter().filter(|g| exists(g.pid)).map(|g| -g.pid).collect();
    }
    let spared = ourselves();
    let own_session = getsid(None).map_or(0, |pid| pid.as_raw_nonzero().get());
    let stats: Vec<Stat> = all_stats().collect();
    let member = |s: &Stat| {
        groups.iter().filter(|g| g.pid == s.group).any(|g| match stats.iter().find(|leader| leader.pid == g.pid) {
            Some(leader) => g.start.is_none_or(|start| start == leader.start),
            None => s.session == own_session && g.start.is_none_or(|start| s.start >= start),
        })
    };
    let ours = |s: &&Stat| !s.dead && !spared.contains(&s.pid) && (member(s) || has_mark(s.pid, mark_prefix));
    stats.iter().filter(ours).map(|s| s.pid).collect()
}

/// A negative number is a group, as in `kill(2)`.
fn signal(pid: i32, signal: Signal) {
    if pid < 0 {
        Group { pid: -pid, start: None }.signal(signal);
    } else if let Some(pid) = Pid::from_raw(pid) {
        // Gone in the meantime, or not ours to end: neither changes anything.
        let _ = kill_process(pid, signal);
    }
}

fn exists(group: i32) -> bool {
    Pid::from_raw(group).is_some_and(|pid| test_kill_process_group(pid).is_ok())
}

/// This process and all above it.
fn ourselves() -> BTreeSet<i32> {
    let mut spared = BTreeSet::new();
    let mut pid = getpid().as_raw_nonzero().get();
    while pid > 0 && spared.insert(pid) {
        pid = stat(pid).map_or(0, |s| s.parent);
    }
    spared
}

fn all_stats() -> impl Iterator<Item = Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?))
}

fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in parentheses is chosen by the process, so we look for the last one that closes.
fn parse_stat(line: &[u8]) -> Option<Stat> {
    let line = String::from_utf8_lossy(line);
    let (before, after) = line.rsplit_once(')')?;
    let pid = before.split_once(' ')?.0.parse().ok()?;
    let fields: Vec<&str> = after.split_ascii_whitespace().collect();
    let number = |i: usize| fields.get(i)?.parse::<i32>().ok();
    Some(Stat {
        pid,
        dead: matches!(fields.first(), Some(&("Z" | "X" | "x"))),
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        start: fields.get(19)?.parse().ok()?,
    })
}

fn has_mark(pid: i32, prefix: &str) -> bool {
    // Processes of others cannot be read, and are not ours.
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| environ_has_mark(&environ, prefix))
}

fn environ_has_mark(environ: &[u8], prefix: &str) -> bool {
    environ.split(|b| *b == 0).any(|variable| {
        let value = variable.strip_prefix(MARK.as_bytes()).and_then(|v| v.strip_prefix(b"="));
        let below = value.and_then(|v| v.strip_prefix(prefix.as_bytes()));
        !prefix.is_empty() && below.is_some_and(|rest| rest.is_empty() || prefix.ends_with('/') || rest[0] == b'/')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_parentheses_does_not_confuse_the_reading_of_a_stat_line() {
        let line = b"42 (a) Z 7 (b)) S 1 40 39 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987 1 1";
        let stat = parse_stat(line).expect("a stat line");
        assert_eq!(stat, Stat { pid: 42, dead: false, parent: 1, group: 40, session: 39, start: 987 });
    }

    #[test]
    fn a_mark_is_met_by_itself_and_by_what_stands_above_it() {
        let environ = b"HOME=/\0CREEL_MARK=a/run-1\0X=CREEL_MARK=b";
        let met = |prefix| environ_has_mark(environ, prefix);
        assert_eq!(["a", "a/", "a/run-1"].map(met), [true; 3]);
        assert_eq!(["", "a/run", "a/run-12", "b", "run-1"].map(met), [false; 5]);
    }

    #[test]
    fn we_and_those_above_us_are_spared() {
        let spared = ourselves();
        assert!(spared.contains(&getpid().as_raw_nonzero().get()));
        assert!(spared.len() > 1 || !cfg!(target_os = "linux"));
    }
}
