//! Finds the processes that creel started, and ends them.
//!
//! Owns process groups, the mark in the environment (`CREEL_MARK`) and the order TERM, grace, KILL.
//! Does not start anything: see [`super::run`].
//!
//! A process belongs to creel if it is in a group that creel started, if its environment has
//! creel's mark (which survives `setsid`), if such a process started it, or if creel adopted it
//! (see [`super::children`]). All but the first need a list of processes. Without a list, a group
//! belongs to creel only while its leader is creel's child.
//!
//! # Invariants
//! - A sweep never ends creel itself or its ancestors: they can have the mark of an outer session.
//! - A sweep never ends an unrelated process that reuses a pid. A leader must have the recorded
//!   start time. A group without its leader must have the mark, or be younger than the leader and
//!   in creel's own terminal session. Where start times are unavailable, groups of earlier
//!   processes are left alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::ffi::OsStrExt as _,
    sync::OnceLock,
    time::Duration,
};

use rustix::process::{
    Pid, Signal, getpgrp, getpid, kill_process, kill_process_group, test_kill_process_group,
};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::children;
use crate::process::process_table::{ControlGroup, ProcessStat, ProcessTable};

/// The variable that marks the processes that creel starts.
pub const MARK: &str = "CREEL_MARK";
/// The prefix of the marks of editors that the user opened.
pub const EDITOR: &str = "editor";

/// The first interval between checks. Intervals double up to [`LOOK_LATER`].
const LOOK_SOON: Duration = Duration::from_millis(5);
/// The longest interval between checks.
const LOOK_LATER: Duration = Duration::from_millis(40);
/// The interval between checks after a KILL.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// How long to check after a KILL. Only a process that is stuck in the kernel survives it.
const AFTER_KILL: Duration = Duration::from_millis(500);

/// A process group that creel started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessGroup {
    /// The pid of the leader, which is also the number of the group.
    pub pid: i32,
    /// The leader's start time, in the kernel's ticks since boot. None where the kernel does not
    /// report it.
    pub start: Option<u64>,
}

impl ProcessGroup {
    pub fn led_by(pid: i32) -> Self {
        Self {
            pid,
            start: ProcessTable::of_system().stat(pid).map(|stat| stat.start),
        }
    }

    /// Signals all processes of the group. An empty group is no error.
    pub(crate) fn signal(self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // Only ESRCH (no process left) and EPERM (none belongs to creel any more) are possible,
            // and both can be ignored.
            let _ = kill_process_group(pid, signal);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepReach {
    /// The processes with the mark, those in the groups, and their descendants.
    Marked,
    /// Also every orphan that this process adopted. For the end of a session.
    WithOrphans,
    /// All descendants of this process. For its own end.
    AllBelow,
}

/// Ends processes. It remembers the ones it found, so they still count after their parent ends.
#[derive(Debug)]
pub struct ProcessSweep<'a> {
    table: ProcessTable,
    mark_prefix: &'a str,
    groups: &'a [ProcessGroup],
    reach: SweepReach,
    /// Whose processes count, too.
    control_group: Option<&'a ControlGroup>,
    known: BTreeSet<(i32, u64)>,
}

/// Ends the processes of these groups and of the mark, with their descendants: see
/// [`ProcessSweep::end`].
pub async fn end_all(mark_prefix: &str, groups: &[ProcessGroup], grace: Duration) -> usize {
    ProcessSweep::new(mark_prefix, groups, SweepReach::Marked)
        .end(grace)
        .await
}

/// Kills the same processes at once: see [`ProcessSweep::kill`].
pub fn kill_all_now(mark_prefix: &str, groups: &[ProcessGroup]) -> usize {
    ProcessSweep::new(mark_prefix, groups, SweepReach::Marked).kill()
}

/// Ends the orphans that this process adopted. Returns how many there were.
pub async fn end_orphans(grace: Duration) -> usize {
    ProcessSweep::new("", &[], SweepReach::WithOrphans)
        .end(grace)
        .await
}

/// Kills all descendants of this process, which must be about to exit. Returns how many there were.
pub fn kill_all_below() -> usize {
    ProcessSweep::new("", &[], SweepReach::AllBelow).kill()
}

impl<'a> ProcessSweep<'a> {
    pub fn new(mark_prefix: &'a str, groups: &'a [ProcessGroup], reach: SweepReach) -> Self {
        Self::with_table(ProcessTable::of_system(), mark_prefix, groups, reach)
    }

    /// Like [`Self::new`], with another list of processes or without one.
    pub fn with_table(
        table: ProcessTable,
        mark_prefix: &'a str,
        groups: &'a [ProcessGroup],
        reach: SweepReach,
    ) -> Self {
        Self {
            table,
            mark_prefix,
            groups,
            reach,
            control_group: None,
            known: BTreeSet::new(),
        }
    }

    /// The same, with everything in a control group.
    #[must_use]
    pub fn with_control_group(self, control_group: Option<&'a ControlGroup>) -> Self {
        Self {
            control_group,
            ..self
        }
    }

    /// Sends TERM, waits up to `grace`, then sends KILL. Returns how many processes there were.
    ///
    /// Sends TERM once, to the processes that exist then: many programs quit at once on a second
    /// TERM, and a process that starts after the first can be the one that cleans up.
    pub async fn end(mut self, grace: Duration) -> usize {
        let first = self.look();
        first.signal(Signal::TERM);
        if !self.gone_within(grace).await {
            let deadline = Instant::now() + AFTER_KILL;
            // Repeat it: a process can fork during the search.
            while Instant::now() < deadline {
                self.look().signal(Signal::KILL);
                if self.gone_within(LOOK_LATER).await {
                    break;
                }
            }
        }
        first.count
    }

    /// Kills the processes and waits until the last one is dead. Returns how many there were.
    pub fn kill(mut self) -> usize {
        let first = self.look();
        first.signal(Signal::KILL);
        // Processes need a moment to die, and one can have forked during the search. None must be
        // left when this returns.
        let deadline = Instant::now() + AFTER_KILL;
        while Instant::now() < deadline && !self.is_gone(Some(Signal::KILL)) {
            std::thread::sleep(LOOK_AGAIN);
        }
        first.count
    }

    async fn gone_within(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut pause = LOOK_SOON;
        loop {
            if self.is_gone(None) {
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

    /// Whether no process is left. A list that is read while a process forks and ends can miss the
    /// new one. So if any process was found before, two lists in a row must be empty.
    fn is_gone(&mut self, signal: Option<Signal>) -> bool {
        let looks = if self.known.is_empty() { 1 } else { 2 };
        (0..looks).all(|_| {
            let left = self.look();
            if let Some(signal) = signal {
                left.signal(signal);
            }
            left.count == 0
        })
    }

    fn look(&mut self) -> LiveProcesses {
        if self.table == ProcessTable::Absent {
            return self.look_without_table();
        }
        let stats = self.table.all();
        let spared = ourselves(self.table);
        let living = || {
            stats
                .iter()
                .filter(|stat| !stat.dead && !spared.contains(&stat.pid))
        };
        let mut left = LiveProcesses::default();
        let mut ours: BTreeSet<i32> = BTreeSet::new();
        let controlled = self
            .control_group
            .map(ControlGroup::processes)
            .unwrap_or_default();
        let is_controlled = |stat: &ProcessStat| {
            controlled.contains(&stat.pid) && !belongs_to_an_editor(self.table, stat)
        };
        for stat in living() {
            if is_member(self.table, stat, self.groups, &stats) {
                left.groups.insert(stat.group);
                ours.insert(stat.pid);
            } else if self.is_ours(stat) || is_controlled(stat) {
                left.alone.insert(stat.pid);
                ours.insert(stat.pid);
            }
        }
        let parents: BTreeMap<i32, i32> =
            stats.iter().map(|stat| (stat.pid, stat.parent)).collect();
        for stat in living().filter(|stat| !ours.contains(&stat.pid)) {
            if descends(stat.pid, &parents, &ours) {
                left.alone.insert(stat.pid);
            }
        }
        self.known.extend(
            stats
                .iter()
                .filter(|stat| ours.contains(&stat.pid) || left.alone.contains(&stat.pid))
                .map(|stat| (stat.pid, stat.start)),
        );
        left.count = ours.union(&left.alone).count();
        left
    }

    /// A group number can belong to another program by now, unless its leader is a child that was
    /// not reaped yet.
    fn look_without_table(&self) -> LiveProcesses {
        let ours = self
            .groups
            .iter()
            .map(|group| group.pid)
            .filter(|pid| children::is_started(*pid, None));
        let groups: BTreeSet<i32> = ours.filter(|pid| exists(*pid)).collect();
        LiveProcesses {
            count: groups.len(),
            groups,
            alone: BTreeSet::new(),
        }
    }

    fn is_ours(&self, stat: &ProcessStat) -> bool {
        let below = match self.reach {
            SweepReach::Marked => false,
            SweepReach::WithOrphans => children::is_adopted(stat),
            SweepReach::AllBelow => children::owns_all_below() && children::is_child(stat),
        };
        self.known.contains(&(stat.pid, stat.start))
            || below && !belongs_to_an_editor(self.table, stat)
            || has_mark(self.table, stat.pid, self.mark_prefix)
    }
}

/// Whether one of `from` is an ancestor of `pid`.
fn descends(pid: i32, parents: &BTreeMap<i32, i32>, from: &BTreeSet<i32>) -> bool {
    let mut seen = BTreeSet::new();
    let mut pid = pid;
    while let Some(parent) = parents.get(&pid).filter(|parent| seen.insert(**parent)) {
        if from.contains(parent) {
            return true;
        }
        pid = *parent;
    }
    false
}

/// Whether the user's editor started this process and it has left the terminal. An editor with a
/// window can start a program that serves other windows too. A process that still uses the terminal
/// ends with creel.
fn belongs_to_an_editor(table: ProcessTable, stat: &ProcessStat) -> bool {
    // creel itself can run in a terminal inside an editor.
    let inherited = std::env::var_os(MARK).unwrap_or_default();
    let inherited: Vec<&[u8]> = inherited.as_bytes().split(|b| *b == b' ').collect();
    let of_editor = |mark: &[u8]| is_below(mark, EDITOR) && !inherited.contains(&mark);
    stat.group != getpgrp().as_raw_nonzero().get()
        && table
            .environ(stat.pid)
            .is_some_and(|environ| marks(&environ).any(of_editor))
}

#[derive(Debug, Default)]
struct LiveProcesses {
    /// Groups whose members all belong to creel.
    groups: BTreeSet<i32>,
    /// Processes that left their group.
    alone: BTreeSet<i32>,
    count: usize,
}

impl LiveProcesses {
    /// Signals a group in one call, so that no member sees the others die first. Ignores processes
    /// that are gone or that creel cannot signal.
    fn signal(&self, signal: Signal) {
        for group in &self.groups {
            ProcessGroup {
                pid: *group,
                start: None,
            }
            .signal(signal);
        }
        for pid in self.alone.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Whether the process is in one of these groups, and the group is still the recorded one.
fn is_member(
    table: ProcessTable,
    stat: &ProcessStat,
    groups: &[ProcessGroup],
    stats: &[ProcessStat],
) -> bool {
    let recorded = |group: &ProcessGroup| match stats.iter().find(|s| s.pid == group.pid) {
        // Without a start time, only a child of this process is certainly the recorded leader.
        Some(leader) => group.start.map_or_else(
            || children::is_started(group.pid, None),
            |at| at == leader.start,
        ),
        None => {
            own_sessions(table).any(|own| own == stat.session)
                && group.start.is_some_and(|at| stat.start >= at)
        }
    };
    groups
        .iter()
        .filter(|group| group.pid == stat.group)
        .any(recorded)
}

/// The terminal session of this process before it left that session.
static LEFT_SESSION: OnceLock<i32> = OnceLock::new();

/// Call it before leaving the terminal session: processes that creel started earlier stay in it.
pub fn remember_session() {
    let _ = LEFT_SESSION.set(own_session(ProcessTable::of_system()));
}

fn own_sessions(table: ProcessTable) -> impl Iterator<Item = i32> {
    LEFT_SESSION
        .get()
        .copied()
        .into_iter()
        .chain([own_session(table)])
}

/// This process's terminal session, or 0 if its leader is outside the process namespace, as in many
/// containers. Read from the list because rustix's `getsid` panics on 0.
fn own_session(table: ProcessTable) -> i32 {
    table
        .stat(getpid().as_raw_nonzero().get())
        .map_or(0, |own| own.session)
}

fn exists(group: i32) -> bool {
    Pid::from_raw(group).is_some_and(|pid| test_kill_process_group(pid).is_ok())
}

/// This process and its ancestors.
fn ourselves(table: ProcessTable) -> BTreeSet<i32> {
    let mut spared = BTreeSet::new();
    let mut pid = getpid().as_raw_nonzero().get();
    while pid > 0 && spared.insert(pid) {
        pid = table.stat(pid).map_or(0, |s| s.parent);
    }
    spared
}

pub(crate) fn own_pid() -> i32 {
    getpid().as_raw_nonzero().get()
}

fn has_mark(table: ProcessTable, pid: i32, prefix: &str) -> bool {
    // The environment of other users' processes cannot be read, and those do not belong to creel.
    !prefix.is_empty()
        && table
            .environ(pid)
            .is_some_and(|environ| environ_has_mark(&environ, prefix))
}

fn environ_has_mark(environ: &[u8], prefix: &str) -> bool {
    marks(environ).any(|mark| is_below(mark, prefix))
}

/// The marks in an environment: one for each creel that the process runs under.
fn marks(environ: &[u8]) -> impl Iterator<Item = &[u8]> {
    let variables = environ.split(|b| *b == 0);
    let values = variables.filter_map(|v| {
        v.strip_prefix(MARK.as_bytes())
            .and_then(|v| v.strip_prefix(b"="))
    });
    values.flat_map(|marks| marks.split(|b| *b == b' '))
}

/// Whether a mark is `prefix` or below it.
pub(crate) fn is_below(mark: &[u8], prefix: &str) -> bool {
    let rest = mark.strip_prefix(prefix.as_bytes());
    !prefix.is_empty()
        && rest.is_some_and(|rest| rest.is_empty() || prefix.ends_with('/') || rest[0] == b'/')
}

/// The mark of a session that this process runs: its id, and the process, so that others can see
/// whether it still runs.
pub fn session_mark(id: &str) -> String {
    let start = ProcessTable::of_system()
        .stat(own_pid())
        .map(|stat| stat.start)
        .unwrap_or_default();
    format!("{id}/{}.{start}", own_pid())
}

/// Whether the session of a mark still runs. What cannot be read or known counts as running.
pub fn is_of_living_session(table: ProcessTable, mark: &str) -> bool {
    match process_of_mark(mark) {
        Some((pid, start)) if start > 0 => table
            .stat(pid)
            .is_some_and(|stat| stat.start == start && !stat.dead),
        Some(_) | None => true,
    }
}

/// The process that runs the session of a mark: its pid and its start.
pub fn process_of_mark(mark: &str) -> Option<(i32, u64)> {
    let (pid, start) = mark.split('/').nth(1)?.split_once('.')?;
    Some((pid.parse().ok()?, start.parse().ok()?))
}

/// The mark for a new process: this creel's own, after those of the creels that it runs under.
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
    fn a_mark_is_met_by_itself_and_by_what_stands_above_it() {
        let environ = b"HOME=/\0CREEL_MARK=a/run-1\0X=CREEL_MARK=b";
        let met = |prefix| environ_has_mark(environ, prefix);
        assert_eq!(["a", "a/", "a/run-1"].map(met), [true; 3]);
        assert_eq!(["", "a/run", "a/run-12", "b", "run-1"].map(met), [false; 5]);
    }

    #[test]
    fn we_and_those_above_us_are_spared() {
        let spared = ourselves(ProcessTable::of_system());
        assert!(spared.contains(&getpid().as_raw_nonzero().get()));
        assert!(spared.len() > 1 || !cfg!(target_os = "linux"));
    }
}
