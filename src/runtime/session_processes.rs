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
    journal::SessionDir,
    process::{
        children,
        process_table::ControlGroup,
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
    starter: ProcessStarter,
    groups: Arc<Mutex<Vec<ProcessGroup>>>,
    /// The control group of a session whose creel was killed.
    control_group: Option<ControlGroup>,
    killed: Arc<AtomicBool>,
}

/// Which creel started the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessStarter {
    ThisCreel,
    /// One that was killed. Its processes belong to another parent now.
    EarlierCreel,
}

impl SessionProcesses {
    pub(super) fn new(mark: &str) -> Self {
        let starter = ProcessStarter::ThisCreel;
        Self {
            mark: mark.into(),
            starter,
            groups: Arc::default(),
            control_group: None,
            killed: Arc::default(),
        }
    }

    /// The processes that an earlier creel started and perhaps left running.
    pub fn left_behind(state: &SessionState, folder: &SessionDir) -> Self {
        let groups = state.processes.iter().map(|(pid, start)| ProcessGroup {
            pid: *pid,
            start: (*start > 0).then_some(*start),
        });
        Self {
            mark: state.began.id.as_str().into(),
            starter: ProcessStarter::EarlierCreel,
            groups: Arc::new(Mutex::new(groups.collect())),
            control_group: ControlGroup::noted(&state.began.id, &folder.control_group_file()),
            killed: Arc::default(),
        }
    }

    pub(super) fn add(&self, group: ProcessGroup) {
        self.groups
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(group);
    }

    fn groups(&self) -> Vec<ProcessGroup> {
        self.groups
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn were_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    /// Asks all processes to end, kills the ones that do not, and returns how many there were.
    pub async fn end_all(&self) -> usize {
        // Usually there are none left, and the kernel knows it at once. Searching all processes
        // takes milliseconds.
        if self.starter == ProcessStarter::ThisCreel && children::are_all_gone() {
            return 0;
        }
        let groups = self.groups();
        let sweep = ProcessSweep::new(&self.mark, &groups, SweepReach::WithOrphans);
        sweep
            .with_control_group(self.control_group.as_ref())
            .end(GRACE)
            .await
    }

    /// Kills all processes at once and prevents new ones. The session does not record the work that
    /// this interrupts as ended.
    pub fn kill_now(&self) -> usize {
        self.killed.store(true, Ordering::SeqCst);
        children::refuse_new(&self.mark);
        ProcessSweep::new(&self.mark, &self.groups(), SweepReach::WithOrphans).kill()
    }
}
