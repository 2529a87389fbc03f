//! Starts or resumes a session that a verb has prepared, and runs it to its end.

use std::path::Path;

use crate::{
    app::{
        dead_sessions::DeadSessions,
        process_pair::ParentProcess,
        session_host::{SessionHost, supervise},
    },
    cli::{
        error::CliResult,
        launch::{session_end::ExitCodeSource, surface::SessionSurface},
        verb_outcome::{FolderRetention, NewSession, ResumedSession, SweepScope},
    },
    engine::{
        event::{SessionStarted, UserPresence},
        policy::SessionPlan,
    },
    journal::SessionsDir,
    runtime::{SessionRuntime, now},
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
        errand: None,
        order: None,
        worktree: None,
    }
}

pub(super) fn begin(start: NewSession, leash: Option<&ParentProcess>) -> CliResult {
    let NewSession {
        root,
        folder,
        turn,
        plan,
        prompt,
        tasks,
        errand,
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
    let began = SessionStarted {
        errand,
        order,
        worktree,
        ..began(&cwd, plan, prompt, surface.presence())
    };
    let of = match (errand, &began.plan.proposal) {
        (Some(pipeline), _) => ExitCodeSource::Pipeline(pipeline),
        (None, Some(_)) => ExitCodeSource::Proposal,
        (None, None) => ExitCodeSource::Session,
    };
    let leash = leash.cloned();
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
        leash,
    };
    supervise(stage, |scene| {
        let mut runtime = make(began, &folder, scene)?;
        drop(turn);
        runtime.take_over(&tasks)?;
        Ok(runtime)
    })
}

pub(super) fn resume(resumed: ResumedSession, leash: Option<&ParentProcess>) -> CliResult {
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
    let (afterwards, leash) = (FolderRetention::Stays, leash.cloned());
    let stage = SessionHost {
        folder: &folder,
        root,
        surface,
        afterwards,
        leftovers,
        of,
        nats,
        leash,
    };
    supervise(stage, |scene| {
        let runtime = SessionRuntime::resume(opened, input, scene)?;
        drop(turn);
        Ok(runtime)
    })
}

/// Identifies a session among all that ever had its name. Part of the mark of its processes.
fn new_id() -> String {
    format!("{:x}-{:x}", now().0, std::process::id())
}
