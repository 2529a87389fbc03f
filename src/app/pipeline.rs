//! `creel submit` and `creel merge`: for a session, or for the work tree as it is.

use std::path::PathBuf;

use super::{
    AppResult,
    project::{self, Project},
    run::{self, NewSession},
    trust::{self, TrustFlag},
};
use crate::{
    app::{
        control::{self, choose_session},
        dead_sessions::DeadSessions,
        session_host::{ExitCodeSource, FolderRetention, SessionHost, SessionSurface, supervise},
        session_name_lock::SessionNameLock,
    },
    cli::{DetachArgs, PipelineArgs, control::SessionArgs},
    config::{PlanRequest, Settings},
    engine::{
        input::{Input, SessionCommand},
        submit::PipelineKind,
        tasks::graph::TaskGraph,
    },
    journal::{self, Journal, SessionDir, SessionsDir},
    runtime::SessionRuntime,
};

/// Submits or merges the named or running session, otherwise the work tree.
pub(super) fn pipeline(pipeline: PipelineKind, args: &PipelineArgs) -> AppResult {
    let (_, sessions) = project::sessions_of(&args.config)?;
    let session = SessionArgs { session: args.session.clone(), config: args.config.clone(), ..SessionArgs::default() };
    let named = choose_session::named(&session, &sessions)?;
    let folder = match named {
        Some(folder) => Some(folder),
        None if choose_session::all_running(&sessions)?.is_empty() => None,
        None => Some(choose_session::running(&session)?),
    };
    match folder {
        Some(folder) if journal::running(&folder).is_some() => {
            control::ask_in(&folder, SessionCommand::Pipeline { pipeline })
        }
        Some(folder) => of_session(pipeline, args, &folder),
        None => of_work_tree(pipeline, args),
    }
}

/// For a session that has ended.
fn of_session(pipeline: PipelineKind, args: &PipelineArgs, folder: &SessionDir) -> AppResult {
    let opened = Journal::open(folder)?;
    let plan = &opened.state.began.plan;
    trust::require_session(folder.project(), plan, asked(args))?;
    let cwd = PathBuf::from(&opened.state.began.cwd);
    let root = if cwd.is_dir() { cwd } else { folder.project().to_owned() };
    let project = Project::load(&args.config).ok();
    let ui = project.as_ref().map_or_else(|| Settings::default().ui, |project| project.settings.ui);
    let nats = project.and_then(run::trusted_nats);
    let surface = SessionSurface::chosen(args.output, DetachArgs::default(), ui);
    let take_up = Input::Pipeline { pipeline, presence: surface.presence() };
    let leftovers = DeadSessions::default().with_resumed(&opened.state);
    let of = ExitCodeSource::Pipeline(pipeline);
    let stage =
        SessionHost { folder, root, surface, afterwards: FolderRetention::Stays, leftovers, of, nats, leash: None };
    supervise(stage, |scene| SessionRuntime::resume(opened, take_up, scene))
}

/// For the work tree, whatever made the changes: starts a session only for this pipeline.
fn of_work_tree(pipeline: PipelineKind, args: &PipelineArgs) -> AppResult {
    let project = Project::load_existing(&args.config)?;
    let wanted =
        PlanRequest { agent: args.agent.as_deref(), task_type: args.task_type.as_deref(), ..PlanRequest::default() };
    let plan = project.settings.plan(wanted)?;
    let would_run = trust::of_project(&project, &plan);
    trust::require(&project.config_place(), &project.settings.documents, &would_run, asked(args))?;
    let turn = SessionNameLock::wait();
    let folder = run::first_free(&SessionsDir::of(&project.root), &run::dated(pipeline.name()));
    run::remember_plan(&project.root, &plan)?;
    let surface = SessionSurface::chosen(args.output, DetachArgs::default(), project.settings.ui);
    let prompt = project.settings.prompt.clone().unwrap_or_default();
    let Project { root, settings } = project;
    let (tasks, errand, nats) = (TaskGraph::default(), Some(pipeline), settings.nats);
    let leftovers = DeadSessions::default();
    let start =
        NewSession { root, folder, turn, plan, prompt, tasks, errand, order: None, nats, leash: None, leftovers };
    run::begin(start, surface, FolderRetention::Stays)
}

fn asked(args: &PipelineArgs) -> TrustFlag {
    if args.trust { TrustFlag::Trust } else { TrustFlag::Unsaid }
}
