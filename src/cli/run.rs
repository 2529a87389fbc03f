//! `creel run`: prepares a new session, from the config to its name.

use std::path::{Path, PathBuf};

use clap::{Args, builder::NonEmptyStringValueParser};

use super::{
    arguments::{ConfigArgs, DetachArgs, OutputArgs, iteration_count, session_name, worktree_name},
    error::{CliError, CliResult},
    import,
    launch::{
        first_conversation, readiness,
        shared_folder::{FolderRequest, FolderUse, SessionNameLock, dated_name, first_free},
        surface::{self, SessionSurface},
        trust_prompt::{self, TrustFlag},
        worktree,
    },
    plan::types,
    target::{self, Project, remote_sessions::on_command_line},
    task,
    verb_outcome::{FolderRetention, NewSession, SweepScope, VerbOutcome},
};
use crate::{
    config::{PlanRequest, SessionServers, paths::in_words},
    engine::{
        conversation::FirstConversation, event::UserPresence, policy::SessionPlan,
        tasks::graph::TaskGraph,
    },
    farm::plan::{ProposalApproval, only_propose},
    journal::{self, JournalError, SessionDir, SessionsDir},
};

/// The goal of a session that works on a file of tasks, if it has no other.
const ALL_TASKS: &str = "Work on the open tasks of this session, one after the other, until all of them are completed. When one is \
                         done, run `creel task done ID`.";

/// How to run a session.
#[derive(Debug, Default, Clone, Args)]
pub struct RunArgs {
    /// The prompt: what the agent should do.
    pub prompt: Option<String>,
    /// Read the prompt from a file.
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "prompt")]
    pub prompt_file: Option<PathBuf>,
    /// Which config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The agent: one of the config's `agents`, or a known name. `A,B`: B takes over while A has
    /// reached its usage limit.
    #[arg(short, long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The agent's model, by the agent's own name for it (`creel agents NAME` lists them).
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub model: Option<String>,
    /// The session's name: letters, digits, `-` and `_`.
    #[arg(short, long, value_name = "NAME", value_parser = session_name)]
    pub session: Option<String>,
    /// The maximum number of iterations.
    #[arg(short = 'n', long, value_name = "N", value_parser = iteration_count, allow_negative_numbers = true)]
    pub max_iterations: Option<u32>,
    /// The type of the task, one of the config's `task_types`.
    #[arg(short, long, value_name = "TYPE")]
    pub task_type: Option<String>,
    /// Take over the open tasks of another session of this project.
    #[arg(long, value_name = "SESSION", value_parser = session_name)]
    pub tasks_from: Option<String>,
    /// Work on the open tasks of a file: a Markdown checklist, a prd.json, GitHub issues, beads, or
    /// what `creel export` wrote.
    #[arg(long, value_name = "FILE", conflicts_with = "tasks_from")]
    pub tasks: Option<PathBuf>,
    /// Continue a conversation that you began in the agent itself, by the agent's id for it; `list`
    /// shows those of this folder. With `context: fresh` only the first iteration continues it.
    #[arg(long, value_name = "CONVERSATION", value_parser = NonEmptyStringValueParser::new())]
    pub from: Option<String>,
    /// Continue a copy of the conversation in which another session of this project ended.
    #[arg(long, value_name = "SESSION", value_parser = session_name, conflicts_with = "from")]
    pub fork: Option<String>,
    /// Work in its own git worktree, on a new branch. NAME: the name of the worktree, which
    /// may exist. Default: the session's name.
    #[arg(long, value_name = "NAME", num_args = 0..=1)]
    pub worktree: Option<Option<String>>,
    /// Run even if another session works in this folder: both agents change the same files.
    #[arg(long)]
    pub force: bool,
    /// Publish records to this NATS server, and receive commands from it. Default: `nats:` of the
    /// config.
    #[arg(long = "nats", value_name = "URL")]
    pub nats: Option<String>,
    /// Internal: the task of the queue that the session works on.
    #[arg(long, hide = true)]
    pub order: Option<String>,
    /// Internal: the agent only proposes tasks.
    #[arg(long, hide = true)]
    pub proposal: Option<ProposalApproval>,
    /// Internal: the branches that the worktree starts from, besides its base.
    #[arg(long, hide = true, value_name = "BRANCH")]
    pub join: Vec<String>,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Whether to show it.
    #[command(flatten)]
    pub detach: DetachArgs,
    /// Trust this config's hooks and agents, and remember this.
    #[arg(long)]
    pub trust: bool,
}

pub(super) fn run(args: &RunArgs) -> CliResult<VerbOutcome> {
    let args = &prompt_after_worktree(args.clone())?;
    let project = Project::load(&args.config)?;
    let mut plan = plan(&project, args)?;
    if let Some(approval) = args.proposal {
        only_propose(&mut plan, types(&project), approval)
            .map_err(|error| CliError::failed(format!("cannot find creel: {error}")))?;
    }
    worktree::ask_for(&mut plan, args.worktree.is_some());
    if args.order.is_some() && plan.worktree.is_some() {
        // The worker submits the work when it has committed what the agent left.
        plan.submit.on_complete = false;
    }
    readiness::require_agent(&project.root, &plan, readiness::ANOTHER_AGENT)?;
    readiness::require_checks(
        &project.root,
        readiness::checks_at_start(&plan),
        readiness::ANOTHER_CHECK,
    )?;
    let sessions = SessionsDir::of(&project.root);
    let first = match (&args.from, &args.fork) {
        (Some(from), _) if from == first_conversation::LIST => {
            trust_agent(&project, &plan, args)?;
            return first_conversation::list(&project, &plan).map(VerbOutcome::Done);
        }
        (Some(id), _) => Some(FirstConversation {
            id: id.clone(),
            fork_of: None,
        }),
        (None, Some(session)) => Some(first_conversation::of_session(
            &sessions.folder(session),
            &plan,
        )?),
        (None, None) => None,
    };
    let prompt = prompt(&project, args)?;
    if let Some(name) = &args.session {
        require_free(&sessions.folder(name))?;
    }
    let place = FolderRequest {
        cwd: &project.root,
        sessions: &sessions,
        resumed: None,
    };
    // The process that started this one in the background has asked, and keeps others from starting
    // meanwhile.
    let is_settled = args.force || args.detach.background || plan.worktree.is_some();
    let folder_use = if is_settled {
        FolderUse::Shared
    } else {
        place.decide(args.output)?
    };
    worktree::ask_for(&mut plan, folder_use == FolderUse::Worktree);
    trust_agent(&project, &plan, args)?;
    // The process that started this one in the background has asked the agent.
    if let Some(first) = first.as_ref().filter(|_| !args.detach.background)
        && let Some(interrupted) = first_conversation::require(&project, &plan, first)?
    {
        return Ok(VerbOutcome::Done(interrupted));
    }
    let tasks = match (&args.tasks_from, &args.tasks) {
        (Some(session), _) => tasks_of(&sessions, session)?,
        (None, Some(file)) => import::tasks_for_new_session(file, &args.config)?,
        (None, None) => TaskGraph::default(),
    };
    // A worker tries such a task again. It stops only if no session could start.
    let of_task = |error: CliError| match &args.order {
        Some(_) => CliError::failed(error.into_message()),
        None => error,
    };
    let name = args.worktree.as_ref().and_then(Option::as_deref);
    let detaches = args.detach.detach && !args.detach.background;
    let base = if detaches {
        None
    } else {
        worktree::find_base(&project, &plan, name).map_err(of_task)?
    };
    if let Some(base) = base.as_ref().filter(|_| args.order.is_none()) {
        base.say_if_elsewhere()?;
    }
    let turn = match folder_use {
        FolderUse::Alone => place.claim()?,
        FolderUse::Shared | FolderUse::Worktree if args.session.is_none() => {
            SessionNameLock::wait()
        }
        FolderUse::Shared | FolderUse::Worktree => None,
    };
    let folder = choose_folder(&sessions, &project, args.session.as_deref(), name)?;
    if detaches {
        let mut more = if folder_use == FolderUse::Worktree {
            vec!["--worktree"]
        } else {
            Vec::new()
        };
        if args.session.is_none() {
            more.extend(["--session", &folder.name]);
        }
        return surface::start_detached(
            &folder,
            &more,
            args.prompt_file.as_ref().map_or("", |_| &prompt),
        )
        .map(VerbOutcome::Done);
    }
    let prepared = worktree::prepare(base, &mut plan, name, &folder).map_err(of_task)?;
    let remote = plan.submit.remote.as_deref();
    let joined =
        worktree::join(&project.root, prepared.as_ref(), &args.join, remote).map_err(of_task)?;
    trust_prompt::remember_plan(&project.root, &plan)?;
    let surface = SessionSurface::chosen(args.output, args.detach, project.settings.ui);
    readiness::warn_about_unseen_calls(&plan, &project.settings.known);
    if surface.presence() == UserPresence::Unattended && args.order.is_none() {
        readiness::warn_about_edits(&plan);
    }
    let Project { root, settings } = project;
    Ok(VerbOutcome::BeginSession(Box::new(NewSession {
        root,
        folder,
        turn,
        plan,
        prompt: joined + &prompt,
        tasks,
        first,
        only_pipeline: None,
        order: args.order.clone(),
        worktree: prepared,
        servers: SessionServers {
            nats: on_command_line(args.nats.as_deref(), settings.servers.nats)?,
            otel: settings.servers.otel,
        },
        surface,
        afterwards: FolderRetention::Stays,
        sweep: SweepScope::Project,
    })))
}

fn trust_agent(project: &Project, plan: &SessionPlan, args: &RunArgs) -> CliResult<()> {
    let would_run = trust_prompt::of_project(project, plan);
    let (config, asked) = (project.config_place(), TrustFlag::given(args.trust));
    trust_prompt::require(&config, &project.settings.documents, &would_run, asked)
}

/// `--worktree "Write the parser."`: what cannot be a name is the prompt, if there is no other.
fn prompt_after_worktree(mut args: RunArgs) -> CliResult<RunArgs> {
    let Some(Some(given)) = &args.worktree else {
        return Ok(args);
    };
    match worktree_name(given) {
        Ok(_) => {}
        Err(_) if args.prompt.is_none() && args.prompt_file.is_none() => {
            args.prompt = Some(given.clone());
            args.worktree = Some(None);
        }
        Err(error) => {
            return Err(CliError::usage(format!(
                "`{given}` cannot be the name of a worktree: {error}"
            )));
        }
    }
    Ok(args)
}

/// The tasks of another session, running or not.
fn tasks_of(sessions: &SessionsDir, name: &str) -> CliResult<TaskGraph> {
    let folder = sessions.folder(name);
    if folder.exists() {
        task::on_record(&folder)
    } else {
        Err(target::missing(&folder))
    }
}

fn plan(project: &Project, args: &RunArgs) -> CliResult<SessionPlan> {
    let wanted = PlanRequest {
        agent: args.agent.as_deref(),
        task_type: args.task_type.as_deref(),
        max_iterations: args.max_iterations,
        model: args.model.as_deref(),
    };
    Ok(project.settings.plan(wanted)?)
}

fn prompt(project: &Project, args: &RunArgs) -> CliResult<String> {
    let from_file = args.prompt_file.as_deref().map(|path| {
        // The process that started this one has read the file, which may be readable only once, and
        // passes it on.
        let path = if args.detach.background {
            Path::new("/dev/stdin")
        } else {
            path
        };
        std::fs::read_to_string(path).map_err(|error| {
            let (path, why) = (path.display(), in_words(&error));
            CliError::usage(format!(
                "cannot read the prompt from {path}: {why}\n  name a text file with --prompt-file"
            ))
        })
    });
    let prompt = match (&args.prompt, from_file) {
        (Some(prompt), _) => Some(prompt.clone()),
        (None, Some(read)) => Some(read?),
        (None, None) => project.settings.prompt.clone(),
    };
    let of_tasks = args.tasks.as_ref().map(|_| ALL_TASKS.to_owned());
    let prompt = prompt.or(of_tasks);
    prompt.filter(|text| !text.trim().is_empty()).ok_or_else(|| {
        CliError::usage(
            "the session has no goal: pass a prompt (`creel run \"Make the tests pass.\"`), pass a file \
             (--prompt-file), or set `prompt:` in the config",
        )
    })
}

/// A new name, that of the worktree, or the requested one if it is free. A name in the config is
/// for all sessions of the project: later ones, and those that run beside it, get a number.
fn choose_folder(
    sessions: &SessionsDir,
    project: &Project,
    asked: Option<&str>,
    worktree: Option<&str>,
) -> CliResult<SessionDir> {
    if let Some(name) = asked {
        let folder = sessions.folder(name);
        return require_free(&folder).map(|()| folder);
    }
    let Some(name) = &project.settings.session else {
        let name = worktree.map_or_else(|| dated_name(&project.root), str::to_owned);
        return Ok(first_free(sessions, &name));
    };
    let folder = sessions.folder(name);
    let has_ended =
        || journal::fold(&folder.journal()).is_ok_and(|state| state.phase.outcome().is_some());
    // Read after that: a session that has just ended has its outcome on record.
    if folder.exists() && journal::running(&folder).is_none() && !has_ended() {
        return Err(taken(&folder));
    }
    Ok(first_free(sessions, name))
}

fn require_free(folder: &SessionDir) -> CliResult<()> {
    if folder.exists() {
        Err(taken(folder))
    } else {
        Ok(())
    }
}

fn taken(folder: &SessionDir) -> CliError {
    let name = &folder.name;
    if let Some(holder) = journal::running(folder) {
        return JournalError::Held {
            name: name.clone(),
            pid: holder.pid,
        }
        .into();
    }
    let is_over =
        journal::fold(&folder.journal()).is_ok_and(|state| state.refuse_resume(None).is_some());
    let first = if is_over {
        "see it with `creel show"
    } else {
        "continue it with `creel resume"
    };
    CliError::usage(format!(
        "session `{name}` already exists\n  {first} {name}`, or choose another name with --session"
    ))
}
