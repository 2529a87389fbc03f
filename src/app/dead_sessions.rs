//! Ends the processes that sessions left running when their creel was killed.
//!
//! Owns which sessions are checked before another one starts. Does not find processes: see
//! [`crate::process::sweep`].
//!
//! # Invariants
//! - The processes of a running session are never touched: a session is swept only while this
//!   process has its lock.
//! - A session whose plan the user has not trusted is skipped: its journal may have come with a
//!   clone, and could name any process.

use crate::{
    cli::{launch::trust_prompt, target::project},
    config::trust::plan_document,
    engine::SessionState,
    journal::{self, Journal, OpenedJournal, SessionDir, SessionsDir},
    process::control_group::ControlGroup,
    runtime::session_processes::SessionProcesses,
};

/// The dead sessions of a project that may have left processes running.
#[derive(Default)]
pub(super) struct DeadSessions {
    /// The session that is being resumed.
    resumed: Option<SessionProcesses>,
    others: Vec<DeadSession>,
}

/// A session that no process runs, and whose creel did not shut down cleanly.
struct DeadSession {
    folder: SessionDir,
    /// Keeps the session locked.
    opened: OpenedJournal,
}

impl DeadSessions {
    /// All sessions that no process runs.
    pub(super) fn of(sessions: &SessionsDir) -> Self {
        Self::except(sessions, "")
    }

    /// The session that is being resumed, whose lock the caller has, and all others.
    pub(super) fn before_resuming(sessions: &SessionsDir, state: &SessionState) -> Self {
        Self::except(sessions, &state.name).with_resumed(state, &sessions.folder(&state.name))
    }

    fn except(sessions: &SessionsDir, name: &str) -> Self {
        let all = sessions
            .live()
            .unwrap_or_default()
            .into_iter()
            .filter(|folder| folder.name != name);
        Self {
            resumed: None,
            others: all.filter_map(DeadSession::find).collect(),
        }
    }

    pub(super) fn with_resumed(mut self, state: &SessionState, folder: &SessionDir) -> Self {
        self.resumed = Some(SessionProcesses::left_behind(state, folder));
        self
    }

    pub(super) const fn is_resuming(&self) -> bool {
        self.resumed.is_some()
    }

    /// Ends the remaining processes, and returns a note about each session that had some.
    pub(super) async fn end(self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(children) = self.resumed {
            notes.extend(note(children.end_all().await, "this session"));
        }
        for DeadSession { folder, opened } in self.others {
            let ended = SessionProcesses::left_behind(&opened.state, &folder)
                .end_all()
                .await;
            if let Some(group) =
                ControlGroup::noted(&opened.state.began.id, &folder.control_group_file())
            {
                group.remove(&folder.control_group_file());
            }
            notes.extend(note(ended, &format!("session `{}`", folder.name)));
            folder.mark_stopped();
        }
        notes
    }
}

impl DeadSession {
    fn find(folder: SessionDir) -> Option<Self> {
        // creel removes the file when it shuts down cleanly.
        if !folder.pid_file().exists() || journal::running(&folder).is_some() {
            return None;
        }
        let opened = Journal::open(&folder).ok()?;
        let plan = [plan_document(&opened.state.began.plan)];
        let trusted = project::trust_store().is_ok_and(|store| {
            store.trusts(&trust_prompt::place_of_plans(folder.project()), &plan)
        });
        trusted.then_some(Self { folder, opened })
    }
}

fn note(ended: usize, whose: &str) -> Option<String> {
    match ended {
        0 => None,
        1 => Some(format!("Ended 1 process that {whose} left running")),
        n => Some(format!("Ended {n} processes that {whose} left running")),
    }
}
