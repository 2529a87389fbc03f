//! Which processes are ours, and how they are ended.
//!
//! Owns process groups, the mark in the environment (`CREEL_MARK`) and the order TERM, grace, KILL. Does not start
//! anything: see [`super::process`].
//!
//! A process is ours if it is in a group that we started, or if its environment carries our mark, which it keeps
//! when it leaves the group with `setsid`. The mark is found in `/proc`, so only on Linux; elsewhere the groups are
//! all there is. One that leaves its group *and* clears its environment is lost to us; only a namespace or a cgroup
//! could hold it, and both need rights that we do not ask for.
//!
//! # Invariants
//! - Never ourselves, never an ancestor of ours: they may carry the mark of an outer session.
//! - Never a stranger who got the number of a process that is gone: a leader must have the start time that was
//!   recorded, and what is left of a group without its leader must carry the mark, or be younger than the leader
//!   and of our own terminal session.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Read as _,
    sync::OnceLock,
    time::Duration,
};

use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group, test_kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

/// The variable that marks what we started.
pub const MARK: &str = "CREEL_MARK";

/// How soon we look whether all are gone; then half as often each time, down to [`LOOK_LATER`].
const LOOK_SOON: Duration = Duration::from_millis(5);
/// How often we look at those who take their time.
const LOOK_LATER: Duration = Duration::from_millis(40);
/// How soon we look again after a KILL.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
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
///
/// TERM goes once to those who are there: many programs take a second one as an order to give up at once, and what
/// is started after the first may be what cleans up.
pub async fn end_all(mark_prefix: &str, groups: &[Group], grace: Duration) -> usize {
    let first = Left::find(mark_prefix, groups);
    first.signal(Signal::TERM);
    if !gone_within(grace, mark_prefix, groups).await {
        let deadline = Instant::now() + AFTER_KILL;
        // More than once: one may fork while we look.
        while Instant::now() < deadline {
            Left::find(mark_prefix, groups).signal(Signal::KILL);
            if gone_within(LOOK_LATER, mark_prefix, groups).await {
                break;
            }
        }
    }
    first.count
}

/// Ends them at once and does not wait. Says how many processes there were.
pub fn kill_all_now(mark_prefix: &str, groups: &[Group]) -> usize {
    let first = Left::find(mark_prefix, groups);
    first.signal(Signal::KILL);
    // Death takes a moment, and one may have forked while we looked: whoever leaves now must leave nobody.
    let deadline = Instant::now() + AFTER_KILL;
    while Instant::now() < deadline {
        let left = Left::find(mark_prefix, groups);
        if left.count == 0 {
            break;
        }
        left.signal(Signal::KILL);
        std::thread::sleep(LOOK_AGAIN);
    }
    first.count
}

async fn gone_within(time: Duration, mark_prefix: &str, groups: &[Group]) -> bool {
    let deadline = Instant::now() + time;
    let mut pause = LOOK_SOON;
    loop {
        if Left::find(mark_prefix, groups).count == 0 {
            return true;
        }
        let now = Instant::now();
        if now >= deadline {
            return false;
        }
        sleep(pause.min(deadline - now)).await;
        pause = LOOK_LATER.min(pause * 2);
    }
}

/// What lives of ours.
#[derive(Debug, Default)]
struct Left {
    /// Groups all of whose members are ours.
    groups: BTreeSet<i32>,
    /// Processes that left their group, and are found by their mark.
    alone: BTreeSet<i32>,
    count: usize,
}

impl Left {
    fn find(mark_prefix: &str, groups: &[Group]) -> Self {
        let stats: Vec<Stat> = all_stats().collect();
        if stats.is_empty() {
            // Not Linux, or no `/proc`: the groups are all we know.
            let groups: BTreeSet<i32> = groups.iter().map(|g| g.pid).filter(|pid| exists(*pid)).collect();
            return Self { count: groups.len(), groups, alone: BTreeSet::new() };
        }
        let spared = ourselves();
        let mut left = Self::default();
        for stat in stats.iter().filter(|s| !s.dead && !spared.contains(&s.pid)) {
            if is_member(stat, groups, &stats) {
                left.groups.insert(stat.group);
                left.count += 1;
            } else if has_mark(stat.pid, mark_prefix) {
                left.alone.insert(stat.pid);
                left.count += 1;
            }
        }
        left
    }

    /// A group is told as one, so that none of it sees the others die first. That somebody is gone in the meantime,
    /// or not ours to end, changes nothing.
    fn signal(&self, signal: Signal) {
        for group in &self.groups {
            Group { pid: *group, start: None }.signal(signal);
        }
        for pid in self.alone.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Whether it is in one of these groups, and the group is still the one that was recorded.
fn is_member(stat: &Stat, groups: &[Group], stats: &[Stat]) -> bool {
    let recorded = |group: &Group| match stats.iter().find(|s| s.pid == group.pid) {
        Some(leader) => group.start.is_none_or(|start| start == leader.start),
        None => own_sessions().any(|own| own == stat.session) && group.start.is_none_or(|start| stat.start >= start),
    };
    groups.iter().filter(|group| group.pid == stat.group).any(recorded)
}

/// The terminal session that we were in before we left it.
static LEFT_SESSION: OnceLock<i32> = OnceLock::new();

/// We are about to leave our terminal session: what we started before stays in it.
pub fn remember_session() {
    let _ = LEFT_SESSION.set(own_session());
}

fn own_sessions() -> impl Iterator<Item = i32> {
    LEFT_SESSION.get().copied().into_iter().chain([own_session()])
}

/// Our terminal session, 0 where its leader is outside of our process namespace, as in many a container. That is why
/// it is read here: `getsid` of rustix takes 0 for impossible and panics.
fn own_session() -> i32 {
    stat(getpid().as_raw_nonzero().get()).map_or(0, |own| own.session)
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

/// The number of this process.
pub(super) fn own_pid() -> i32 {
    getpid().as_raw_nonzero().get()
}

/// The group of a process that lives, where the system tells.
pub(super) fn group_of(pid: i32) -> Option<i32> {
    stat(pid).filter(|stat| !stat.dead).map(|stat| stat.group)
}

/// The parent of a process, where the system tells.
pub(super) fn parent_of(pid: i32) -> Option<i32> {
    stat(pid).map(|stat| stat.parent)
}

fn all_stats() -> impl Iterator<Item = Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?))
}

fn stat(pid: i32) -> Option<Stat> {
    // One read into room that is always enough; a file without a size would be felt for in six.
    let mut line = [0; 4096];
    let length = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
    parse_stat(&line[..length])
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
        // One mark for each creel that it runs under.
        value.is_some_and(|marks| marks.split(|b| *b == b' ').any(|mark| is_below(mark, prefix)))
    })
}

fn is_below(mark: &[u8], prefix: &str) -> bool {
    let rest = mark.strip_prefix(prefix.as_bytes());
    !prefix.is_empty() && rest.is_some_and(|rest| rest.is_empty() || prefix.ends_with('/') || rest[0] == b'/')
}

/// The mark of a process that this creel starts: its own, behind those of the creels that this one runs under.
pub fn marked(own: &str) -> std::ffi::OsString {
    let mut marks = std::env::var_os(MARK).unwrap_or_default();
    if !marks.is_empty() {
        marks.push(" ");
    }
    marks.push(own);
    marks
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
