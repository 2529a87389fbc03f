//! What `creel submit` and `creel merge` share: they work for a session, or for the work tree as it
//! is.

use std::path::Path;

use clap::Args;

use crate::{
    cli::{
        arguments::{ConfigArgs, DetachArgs, OutputArgs, SessionArgs, session_name},
        error::{self, CliError, CliResult, say},
        launch::{
            session_end::ExitCodeSource,
            shared_folder::{SessionNameLock, dated, first_free},
            surface::SessionSurface,
            trust_prompt::{self, TrustFlag},
            worktree,
        },
        target::{self, Project},
        verb_outcome::{FolderRetention, NewSession, ResumedSession, SweepScope, VerbOutcome},
    },
    config::{PlanRequest, Settings},
    engine::{
        effect::SubmissionFacts,
        hooks::point::HookPoint,
        input::{Input, SessionCommand},
        policy::{SessionPlan, SubmitPlan, SubmitUntil},
        submit::kind::PipelineKind,
        tasks::graph::TaskGraph,
    },
    hooks::builtin,
    journal::{self, Journal, SessionDir, SessionsDir},
};

/// What to submit or merge.
#[derive(Debug, Args)]
pub struct PipelineArgs {
    /// The session. Default: the running one. Without a session, the project folder as it is.
    #[arg(value_parser = session_name)]
    pub session: Option<String>,
    /// Which config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Without a session: the type of the work, one of the config's `task_types`.
    #[arg(short, long, value_name = "TYPE", conflicts_with = "session")]
    pub task_type: Option<String>,
    /// Without a session: the agent that repairs what a check reports.
    #[arg(short, long, value_name = "NAME", conflicts_with = "session")]
    pub agent: Option<String>,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Trust the commands, and remember this.
    #[arg(long)]
    pub trust: bool,
    /// Whether to wait until the pull request is merged.
    #[arg(skip)]
    pub until_merged: bool,
}

/// Submits or merges the named or running session, otherwise the work tree.
pub(in crate::cli) fn pipeline(
    pipeline: PipelineKind,
    args: &PipelineArgs,
) -> CliResult<VerbOutcome> {
    let (_, sessions) = target::sessions_of(&args.config)?;
    let session = SessionArgs {
        session: args.session.clone(),
        config: args.config.clone(),
        ..SessionArgs::default()
    };
    let named = target::named(&session, &sessions)?;
    let folder = match named {
        Some(folder) => Some(folder),
        None if target::all_running(&sessions)?.is_empty() => None,
        None => Some(target::running(&session)?),
    };
    match folder {
        Some(folder) if journal::running(&folder).is_some() && args.until_merged => {
            Err(CliError::usage(format!(
                "the session `{}` runs: submit with `--until merged` when it has ended, or set `submit.until: merged` in \
                 the config before the next run",
                folder.name
            )))
        }
        Some(folder) if journal::running(&folder).is_some() => {
            let code = target::ask_in(&folder, SessionCommand::Pipeline { pipeline })?;
            say(&format!(
                "creel: session `{}` starts the {} after this iteration",
                folder.name,
                pipeline.name()
            ));
            Ok(VerbOutcome::Done(code))
        }
        Some(folder) => of_session(pipeline, args, folder),
        None => of_work_tree(pipeline, args),
    }
}

/// For a session that has ended.
fn of_session(
    pipeline: PipelineKind,
    args: &PipelineArgs,
    folder: SessionDir,
) -> CliResult<VerbOutcome> {
    let opened = Journal::open(&folder)?;
    trust_prompt::require_session(
        folder.project(),
        &opened.state.began.plan,
        TrustFlag::given(args.trust),
    )?;
    let root = worktree::folder_of(&folder, &opened.state.began)?;
    refuse_on_base(pipeline, &root, &opened.state.began.plan, &folder.name)?;
    let project = Project::load(&args.config).ok();
    let ui = project
        .as_ref()
        .map_or_else(|| Settings::default().ui, |project| project.settings.ui);
    let servers = project.map(Project::trusted_servers).unwrap_or_default();
    let surface = SessionSurface::chosen(args.output, DetachArgs::default(), ui);
    let input = Input::Pipeline {
        pipeline,
        until_merged: args.until_merged,
        presence: surface.presence(),
    };
    let (exit_code, sweep) = (ExitCodeSource::Pipeline(pipeline), SweepScope::Session);
    let resumed = ResumedSession {
        root,
        folder,
        turn: None,
        opened,
        input,
        exit_code,
        servers,
        surface,
        sweep,
    };
    Ok(VerbOutcome::ResumeSession(Box::new(resumed)))
}

/// For the work tree, whatever made the changes: starts a session only for this pipeline.
fn of_work_tree(pipeline: PipelineKind, args: &PipelineArgs) -> CliResult<VerbOutcome> {
    let project = Project::load_existing(&args.config)?;
    let wanted = PlanRequest {
        agent: args.agent.as_deref(),
        task_type: args.task_type.as_deref(),
        ..PlanRequest::default()
    };
    let mut plan = project.settings.plan(wanted)?;
    if args.until_merged {
        plan.submit.watch.until = SubmitUntil::Merged;
    }
    let would_run = trust_prompt::of_project(&project, &plan);
    let (place, asked) = (project.config_place(), TrustFlag::given(args.trust));
    trust_prompt::require(&place, &project.settings.documents, &would_run, asked)?;
    refuse_on_base(pipeline, &project.root, &plan, pipeline.name())?;
    let turn = SessionNameLock::wait();
    let folder = first_free(&SessionsDir::of(&project.root), &dated(pipeline.name()));
    trust_prompt::remember_plan(&project.root, &plan)?;
    let Project { root, settings } = project;
    Ok(VerbOutcome::BeginSession(Box::new(NewSession {
        root,
        folder,
        turn,
        plan,
        prompt: settings.prompt.unwrap_or_default(),
        tasks: TaskGraph::default(),
        first: None,
        only_pipeline: Some(pipeline),
        order: None,
        worktree: None,
        servers: settings.servers,
        surface: SessionSurface::chosen(args.output, DetachArgs::default(), settings.ui),
        afterwards: FolderRetention::Stays,
        sweep: SweepScope::Session,
    })))
}

/// Refuses to merge the base branch into itself before a check, a review or the agent runs for it.
fn refuse_on_base(
    pipeline: PipelineKind,
    root: &Path,
    plan: &SessionPlan,
    session: &str,
) -> CliResult<()> {
    let merges = plan
        .hooks_or_usual(HookPoint::BeforeMerge)
        .iter()
        .any(|hook| hook.enabled && hook.is_merge());
    if pipeline != PipelineKind::Merge || !merges {
        return Ok(());
    }
    let SubmitPlan {
        base_branch,
        remote,
        ..
    } = plan.submit.clone();
    let submission = SubmissionFacts {
        base_branch,
        remote,
        ..SubmissionFacts::default()
    };
    let refused =
        error::start_tokio()?.block_on(builtin::refuse_on_base(root, &submission, session));
    refused.map_or(Ok(()), |why| {
        Err(CliError::failed(format!(
            "{why}, then run `creel merge` again"
        )))
    })
}
