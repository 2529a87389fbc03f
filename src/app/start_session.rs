//! Starts or resumes a session that a verb has prepared, and runs it to its end.
//!
//! Owns which sessions are checked before another one starts, for processes that they left running
//! when their creel was killed. Does not find processes: see [`crate::process::sweep`].
//!
//! # Invariants
//! - The processes of a running session are never touched: a session is swept only while this
//!   process has its lock.
//! - A session whose plan the user has not trusted is skipped: its journal may have come with a
//!   clone, and could name any process.

use std::path::Path;

use crate::{
    app::{
        process_pair::ParentProcess,
        session_host::{SessionHost, supervise},
    },
    cli::{
        error::CliResult,
        launch::{session_end::ExitCodeSource, surface::SessionSurface, trust_prompt},
        target,
        verb_outcome::{FolderRetention, NewSession, ResumedSession, SweepScope},
    },
    config::trust::plan_document,
    engine::{
        SessionState,
        event::{SessionStarted, UserPresence},
        policy::SessionPlan,
    },
    journal::{self, Journal, OpenedJournal, SessionDir, SessionsDir},
    process::process_table::ControlGroup,
    runtime::{SessionRuntime, handle::SessionProcesses, now},
};

/// The first event of a session.
pub(super) fn began(
    root: &Path,
    plan: SessionPlan,
    prompt: String,
    presence: UserPresence,
) -> SessionStarted {
    SessionStarted {
        agent: plan.agent.clone(),
        cwd: root.to_string_lossy().into_owned(),
        prompt,
        max_iterations: plan.max_iterations,
        id: new_id(),
        seed: now().0.unsigned_abs() ^ u64::from(std::process::id()),
        presence,
        plan,
        only_pipeline: None,
        order: None,
        worktree: None,
        from: None,
        fork: None,
    }
}

pub(super) fn begin(start: NewSession, parent: Option<&ParentProcess>) -> CliResult {
    let NewSession {
        root,
        folder,
        turn,
        plan,
        prompt,
        tasks,
        first,
        only_pipeline,
        order,
        worktree,
        nats,
        surface,
        afterwards,
        sweep,
    } = start;
    let leftovers = match sweep {
        SweepScope::Project => DeadSessions::of(&SessionsDir::of(&root)),
        SweepScope::Session => DeadSessions::default(),
    };
    let (cwd, worktree) = worktree.map_or((root, None), |prepared| {
        (prepared.cwd, Some(prepared.worktree))
    });
    let (from, fork) = first.map_or((None, None), |first| (Some(first.id), first.fork_of));
    let began = SessionStarted {
        only_pipeline,
        order,
        worktree,
        from,
        fork,
        ..began(&cwd, plan, prompt, surface.presence())
    };
    let of = match (only_pipeline, &began.plan.proposal) {
        (Some(pipeline), _) => ExitCodeSource::Pipeline(pipeline),
        (None, Some(_)) => ExitCodeSource::Proposal,
        (None, None) => ExitCodeSource::Session,
    };
    let parent = parent.cloned();
    let make = match surface {
        SessionSurface::Screen(_) | SessionSurface::Demo(..) => SessionRuntime::begin_for_screen,
        SessionSurface::Printed(..) | SessionSurface::Nowhere => SessionRuntime::begin,
    };
    let stage = SessionHost {
        folder: &folder,
        root: cwd,
        surface,
        afterwards,
        leftovers,
        of,
        nats,
        parent,
    };
    supervise(stage, |dirs| {
        let mut runtime = make(began, &folder, dirs)?;
        drop(turn);
        runtime.take_over(&tasks)?;
        Ok(runtime)
    })
}

pub(super) fn resume(resumed: ResumedSession, parent: Option<&ParentProcess>) -> CliResult {
    let ResumedSession {
        root,
        folder,
        turn,
        opened,
        input,
        exit_code: of,
        nats,
        surface,
        sweep,
    } = resumed;
    let leftovers = match sweep {
        SweepScope::Project => {
            DeadSessions::before_resuming(&SessionsDir::of(folder.project()), &opened.state)
        }
        SweepScope::Session => DeadSessions::default().with_resumed(&opened.state, &folder),
    };
    let (afterwards, parent) = (FolderRetention::Stays, parent.cloned());
    let stage = SessionHost {
        folder: &folder,
        root,
        surface,
        afterwards,
        leftovers,
        of,
        nats,
        parent,
    };
    supervise(stage, |dirs| {
        let runtime = SessionRuntime::resume(opened, input, dirs)?;
        drop(turn);
        Ok(runtime)
    })
}

/// Identifies a session among all that ever had its name. Part of the mark of its processes.
fn new_id() -> String {
    format!("{:x}-{:x}", now().0, std::process::id())
}

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
        let trusted = target::trust_store().is_ok_and(|store| {
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
