//! The direct children of this process: those that it started, and the orphans that it adopted.
//!
//! Owns the list of started children, the lock between starting and ending processes, and the
//! adoption of orphans. Does not end anything: see [`super::sweep`].
//!
//! creel is a child subreaper where the system supports that: a process whose parent ends becomes a
//! child of creel, even after it left its group and cleared its environment. So a direct child that
//! creel did not start is an orphan of the session, and everything below creel can be found.
//!
//! # Invariants
//! - A process that is being started is on the list before creel ends or reaps processes: the two
//!   exclude each other.
//! - No process starts once its session is being killed.
//! - creel reaps orphans only. The exit status of a started child belongs to the task that waits
//!   for it.
//! - Children from before creel (a shell started them, then replaced itself with creel) do not
//!   count.

use std::{
    collections::BTreeMap,
    io,
    process::Stdio,
    sync::{
        Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, getpid, waitid, waitpid};
use tokio::{
    process::Child,
    signal::unix::{SignalKind, signal},
};

use super::sweep;
use crate::process::process_table::{ProcessStat, ProcessTable};

/// The delay before dead orphans are reaped, so that one pass reaps many.
const REAP_EVERY: Duration = Duration::from_secs(1);

/// The marks under which no process can start any more. Code that starts a process locks this for
/// reading until the process is on the list.
static CLOSED: RwLock<Vec<String>> = RwLock::new(Vec::new());
/// The children that this process started: pid, start time if known, and their mark.
static STARTED: Mutex<BTreeMap<(i32, Option<u64>), String>> = Mutex::new(BTreeMap::new());
/// Whether every direct child that is not on the list is an orphan of the session.
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// A child's entry on the list. Keep it as long as the [`Child`].
#[derive(Debug)]
pub struct ChildEntry {
    pid: i32,
    start: Option<u64>,
}

impl ChildEntry {
    fn add(id: Option<u32>, mark: &str) -> io::Result<Self> {
        let pid = id.and_then(|id| i32::try_from(id).ok());
        let pid = pid.ok_or_else(|| io::Error::other("the process has no pid"))?;
        let start = ProcessTable::of_system().stat(pid).map(|stat| stat.start);
        started().insert((pid, start), mark.to_owned());
        Ok(Self { pid, start })
    }

    pub(crate) fn group(&self) -> sweep::ProcessGroup {
        sweep::ProcessGroup {
            pid: self.pid,
            start: self.start,
        }
    }
}

impl Drop for ChildEntry {
    fn drop(&mut self) {
        started().remove(&(self.pid, self.start));
    }
}

fn started() -> MutexGuard<'static, BTreeMap<(i32, Option<u64>), String>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a child process with a mark, unless its session is being ended.
pub fn start(
    mark: &str,
    spawn: impl FnOnce() -> io::Result<Child>,
) -> io::Result<(Child, ChildEntry)> {
    let (child, entry, ()) = start_with(mark, || Ok((spawn()?, ())))?;
    Ok((child, entry))
}

/// For a process that is started together with something else, such as a terminal.
pub(crate) fn start_with<T>(
    mark: &str,
    spawn: impl FnOnce() -> io::Result<(Child, T)>,
) -> io::Result<(Child, ChildEntry, T)> {
    let closed = CLOSED.read().unwrap_or_else(PoisonError::into_inner);
    if closed
        .iter()
        .any(|prefix| sweep::is_below(mark.as_bytes(), prefix))
    {
        return Err(io::Error::other("creel is ending this session"));
    }
    let (child, more) = spawn()?;
    let entry = ChildEntry::add(child.id(), mark)?;
    Ok((child, entry, more))
}

/// Runs a program of creel's own to its end, on a thread that may block. Belongs to no session.
pub fn output_of(command: &mut std::process::Command) -> io::Result<std::process::Output> {
    output_under("", command)
}

/// Runs a program of creel's own that ends with the session of this mark.
pub fn output_under(
    mark: &str,
    command: &mut std::process::Command,
) -> io::Result<std::process::Output> {
    let (child, _entry) = {
        let closed = CLOSED.read().unwrap_or_else(PoisonError::into_inner);
        if closed
            .iter()
            .any(|prefix| sweep::is_below(mark.as_bytes(), prefix))
        {
            return Err(io::Error::other("creel is ending this session"));
        }
        if !mark.is_empty() {
            command.env(sweep::MARK, sweep::marked(mark));
        }
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let entry = ChildEntry::add(Some(child.id()), mark)?;
        (child, entry)
    };
    child.wait_with_output()
}

/// From now on nothing can start under this mark. Waits for starts in progress.
pub fn refuse_new(mark: &str) {
    CLOSED
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .push(mark.to_owned());
}

/// Whether this process started that child and still has its entry. Without a start time the pid is
/// enough: the system does not reuse it before the child is reaped.
pub(crate) fn is_started(pid: i32, start: Option<u64>) -> bool {
    match start {
        Some(_) => started().contains_key(&(pid, start)),
        None => started()
            .range((pid, None)..=(pid, Some(u64::MAX)))
            .next()
            .is_some(),
    }
}

/// The mark of a child that this process started and still has an entry for. Unlike the
/// environment, other programs cannot change it, and it is known before the child's program runs.
pub(crate) fn mark_of(stat: &ProcessStat) -> Option<String> {
    started().get(&(stat.pid, Some(stat.start))).cloned()
}

/// Makes this process the parent of all orphans below it, where the system supports that. Call it
/// before starting a child.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_child_subreaper(Some(getpid())) {
        tracing::warn!(
            "creel cannot find processes that leave their group and clear their environment: {error}"
        );
        return;
    }
    let table = ProcessTable::of_system();
    // As the first process of a container, creel also receives unrelated orphans.
    let has_strangers = getpid().is_init() || has_children();
    ADOPTS.store(
        cfg!(target_os = "linux") && table == ProcessTable::ProcFs && !has_strangers,
        Ordering::SeqCst,
    );
}

/// Whether orphans below this process become its children.
pub fn is_subreaper() -> bool {
    #[cfg(target_os = "linux")]
    return rustix::process::child_subreaper().is_ok_and(|own| own.is_some());
    #[cfg(not(target_os = "linux"))]
    false
}

/// Asks the kernel, because reading the list of all processes takes milliseconds.
fn has_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, options), Err(rustix::io::Errno::CHILD))
}

pub(crate) fn is_adopted(stat: &ProcessStat) -> bool {
    is_child(stat) && ADOPTS.load(Ordering::SeqCst) && !is_started(stat.pid, Some(stat.start))
}

/// Whether creel or its children started everything below this process.
pub(crate) fn owns_all_below() -> bool {
    ADOPTS.load(Ordering::SeqCst)
}

/// Whether nothing that creel or its children started is left. False if that is unknown.
pub(crate) fn are_all_gone() -> bool {
    owns_all_below() && !has_children()
}

pub(crate) fn is_child(stat: &ProcessStat) -> bool {
    stat.parent == getpid().as_raw_nonzero().get()
}

/// Needs tokio.
pub fn keep_reaping() {
    let Ok(mut ended) = signal(SignalKind::child()) else {
        return;
    };
    tokio::spawn(async move {
        while ended.recv().await.is_some() {
            tokio::time::sleep(REAP_EVERY).await;
            reap_orphans();
        }
    });
}

fn reap_orphans() {
    let anything = waitid(
        WaitId::All,
        WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT,
    );
    if !matches!(anything, Ok(Some(_))) {
        return;
    }
    // While this is locked, every started process is on the list.
    let _alone = CLOSED.write().unwrap_or_else(PoisonError::into_inner);
    let orphans = ProcessTable::of_system()
        .all()
        .into_iter()
        .filter(|stat| stat.dead && is_child(stat));
    for orphan in orphans.filter(|stat| !is_started(stat.pid, Some(stat.start))) {
        if let Some(pid) = Pid::from_raw(orphan.pid) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}
