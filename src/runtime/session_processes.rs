//! The processes of a session, and how creel ends them so that none is left running.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::{
    engine::SessionState,
    process::{
        children,
        run::ProcessGroup,
        sweep::{ProcessSweep, SweepReach},
    },
};

/// How long processes get to end after a polite signal.
const GRACE: Duration = Duration::from_secs(2);

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct SessionProcesses {
    mark: Arc<str>,
    groups: Arc<Mutex<Vec<ProcessGroup>>>,
    killed: Arc<AtomicBool>,
}

impl SessionProcesses {
    pub(super) fn new(mark: &str) -> Self {
        Self { mark: mark.into(), groups: Arc::default(), killed: Arc::default() }
    }

    /// The processes that an earlier creel started and perhaps left running.
    pub fn left_behind(state: &SessionState) -> Self {
        let groups = state
            .processes
            .iter()
            .map(|(pid, start)| ProcessGroup { pid: *pid, start: (*start > 0).then_some(*start) });
        Self {
            mark: state.began.id.as_str().into(),
            groups: Arc::new(Mutex::new(groups.collect())),
            killed: Arc::default(),
        }
    }

    pub(super) fn add(&self, group: ProcessGroup) {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).push(group);
    }

    fn groups(&self) -> Vec<ProcessGroup> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn were_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    /// Asks all processes to end, kills the ones that do not, and returns how many there were.
    pub async fn end_all(&self) -> usize {
        ProcessSweep::new(&self.mark, &self.groups(), SweepReach::WithOrphans).end(GRACE).await
    }

    /// Kills all processes at once and prevents new ones. The session does not record the work that this interrupts as
    /// ended.
    pub fn kill_now(&self) -> usize {
        self.killed.store(true, Ordering::SeqCst);
        children::refuse_new(&self.mark);
        ProcessSweep::new(&self.mark, &self.groups(), SweepReach::WithOrphans).kill()
    }
}
