//! `creel run` and `creel resume`: runs a session, from its config to its exit code.

use std::path::{Path, PathBuf};

use super::{
    AppError, AppResult, detach,
    project::{self, Project},
    readiness, say,
    trust::{self, TrustFlag},
};
use crate::{
    app::{
        control::task,
        dead_sessions::DeadSessions,
        process_pair::ParentProcess,
        session_host::{ExitCodeSource, FolderRetention, SessionHost, SessionSurface, supervise},
        session_name_lock::SessionNameLock,
    },
    cli::{ResumeArgs, RunArgs},
    config::{NatsConfig, PlanRequest, Settings, trust::plan_document},
    engine::{
        event::{SessionStarted, UserPresence},
        input::Input,
        policy::SessionPlan,
        submit::PipelineKind,
        tasks::graph::TaskGraph,
    },
    journal::{self, Journal, JournalError, SessionDir, SessionsDir},
    runtime::{SessionRuntime, now},
};

pub(super) fn run(args: &RunArgs, leash: Option<&ParentProcess>) -> AppResult {
    let project = Project::load(&args.config)?;
    let plan = plan(&project, args)?;
    readiness::require_agent(&project.root, &plan, readiness::ANOTHER_AGENT)?;
    let prompt = prompt(&project, args)?;
    let asked = if args.trust { TrustFlag::Trust } else { TrustFlag::Unsaid };
    let would_run = trust::of_project(&project, &plan);
    trust::require(&project.config_place(), &project.settings.documents, &would_run, asked)?;
    let sessions = SessionsDir::of(&project.root);
    let tasks = args.tasks_from.as_deref().map(|name| tasks_of(&sessions, name)).transpose()?;
    let (folder, turn) = choose_folder(&sessions, &project, args.session.as_deref())?;
    remember_plan(&project.root, &plan)?;
    if args.detach.detach && !args.detach.background {
        let named: &[&str] = if args.session.is_some() { &[] } else { &["--session", &folder.name] };
        return detach::start(&folder, named, args.prompt_file.as_ref().map_or("", |_| &prompt));
    }
    let surface = SessionSurface::chosen(args.output, args.detach, project.settings.ui);
    let Project { root, settings } = project;
    let leftovers = DeadSessions::of(&sessions);
    let tasks = tasks.unwrap_or_default();
    let nats = on_command_line(args.nats.as_deref(), settings.nats)?;
    let (leash, order) = (leash.cloned(), args.order.clone());
    let start = NewSession { root, folder, turn, plan, prompt, tasks, errand: None, order, nats, leash, leftovers };
    begin(start, surface, FolderRetention::Stays)
}

pub(super) struct NewSession {
    /// The project's folder.
    pub(super) root: PathBuf,
    /// The session's folder.
    pub(super) folder: SessionDir,
    /// Reserves the session's name until it has started.
    pub(super) turn: Option<SessionNameLock>,
    pub(super) plan: SessionPlan,
    pub(super) prompt: String,
    /// The session copies the open ones of these tasks.
    pub(super) tasks: TaskGraph,
    /// Set if the session only runs this pipeline and has no goal.
    pub(super) errand: Option<PipelineKind>,
    /// The task of a queue that it works on.
    pub(super) order: Option<String>,
    pub(super) nats: Option<NatsConfig>,
    /// The parent process, if this is the child of a pair.
    pub(super) leash: Option<ParentProcess>,
    /// The sessions that may have left processes running.
    pub(super) leftovers: DeadSessions,
}

/// The first event of a session.
pub(super) fn began(root: &Path, plan: SessionPlan, prompt: String, presence: UserPresence) -> SessionStarted {
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
    }
}

/// Starts a session whose plan is trusted, and runs it to its end.
pub(super) fn begin(start: NewSession, surface: SessionSurface, afterwards: FolderRetention) -> AppResult {
    let NewSession { root, folder, turn, plan, prompt, tasks, errand, order, nats, leash, leftovers } = start;
    let began = SessionStarted { errand, order, ..began(&root, plan, prompt, surface.presence()) };
    let of = errand.map_or(ExitCodeSource::Session, ExitCodeSource::Pipeline);
    let stage = SessionHost { folder: &folder, root, surface, afterwards, leftovers, of, nats, leash };
    supervise(stage, |scene| {
        let mut runtime = SessionRuntime::begin(began, &folder, scene)?;
        drop(turn);
        runtime.take_over(&tasks)?;
        Ok(runtime)
    })
}

/// The tasks of another session, running or not.
fn tasks_of(sessions: &SessionsDir, name: &str) -> AppResult<TaskGraph> {
    let folder = sessions.folder(name);
    if folder.exists() { task::on_record(&folder) } else { Err(JournalError::Missing(name.to_owned()).into()) }
}

pub(super) fn resume(args: &ResumeArgs, leash: Option<&ParentProcess>) -> AppResult {
    let (root, sessions) = project::sessions_of(&args.config)?;
    let folder = match &args.session {
        Some(name) => sessions.folder(name),
        None => latest_unfinished(&sessions, args.max_iterations)?,
    };
    let opened = Journal::open(&folder)?;
    let plan = &opened.state.began.plan;
    let asked = if args.trust { TrustFlag::Trust } else { TrustFlag::Unsaid };
    trust::require_session(&root, plan, asked)?;
    if args.detach.detach && !args.detach.background {
        // Unlocks the journal for the process in the background.
        drop(opened);
        let named: &[&str] = if args.session.is_some() { &[] } else { &[&folder.name] };
        return detach::start(&folder, named, "");
    }
    let cwd = PathBuf::from(&opened.state.began.cwd);
    let root = if cwd.is_dir() { cwd } else { root };
    let project = Project::load(&args.config).ok();
    let ui = project.as_ref().map_or_else(|| Settings::default().ui, |project| project.settings.ui);
    let nats = on_command_line(args.nats.as_deref(), project.and_then(trusted_nats))?;
    let surface = SessionSurface::chosen(args.output, args.detach, ui);
    let resume = Input::Resume {
        presence: surface.presence(),
        max_iterations: args.max_iterations,
        checkpoint: args.checkpoint,
    };
    if opened.state.began.errand.is_none() {
        readiness::require_agent(&root, plan, readiness::RESUME_LATER)?;
    }
    let leftovers = DeadSessions::before_resuming(&sessions, &opened.state);
    let afterwards = FolderRetention::Stays;
    let of = opened.state.began.errand.map_or(ExitCodeSource::Session, ExitCodeSource::Pipeline);
    let stage = SessionHost { folder: &folder, root, surface, afterwards, leftovers, of, nats, leash: leash.cloned() };
    supervise(stage, |scene| SessionRuntime::resume(opened, resume, scene))
}

/// The server on the command line, otherwise the one in the config.
pub(super) fn on_command_line(url: Option<&str>, config: Option<NatsConfig>) -> AppResult<Option<NatsConfig>> {
    match url {
        Some(url) => NatsConfig::named(url, config).map(Some).map_err(|error| AppError::usage(error.to_string())),
        None => Ok(config),
    }
}

/// The server in the current config, since a journal contains no login. The config may have changed since the session
/// started, so it must be trusted as it is now.
pub(super) fn trusted_nats(project: Project) -> Option<NatsConfig> {
    let trusted = is_trusted(&project);
    if project.settings.nats.is_some() && !trusted {
        say("creel: the config has changed since it was trusted, so nothing is told to NATS; `creel trust` allows it");
    }
    project.settings.nats.filter(|_| trusted)
}

/// Whether the user has trusted the config as it is.
pub(super) fn is_trusted(project: &Project) -> bool {
    let place = project.config_place();
    project::trust_store().is_ok_and(|store| store.trusts(&place, &project.settings.documents))
}

fn plan(project: &Project, args: &RunArgs) -> AppResult<SessionPlan> {
    let wanted = PlanRequest {
        agent: args.agent.as_deref(),
        task_type: args.task_type.as_deref(),
        max_iterations: args.max_iterations,
    };
    Ok(project.settings.plan(wanted)?)
}

fn prompt(project: &Project, args: &RunArgs) -> AppResult<String> {
    let from_file = args.prompt_file.as_deref().map(|path| {
        // The process that started this one has read the file, which may be readable only once, and passes it on.
        let path = if args.detach.background { Path::new("/dev/stdin") } else { path };
        std::fs::read_to_string(path)
            .map_err(|error| AppError::usage(format!("cannot read the prompt from {}: {error}", path.display())))
    });
    let prompt = match (&args.prompt, from_file) {
        (Some(prompt), _) => Some(prompt.clone()),
        (None, Some(read)) => Some(read?),
        (None, None) => project.settings.prompt.clone(),
    };
    prompt.filter(|text| !text.trim().is_empty()).ok_or_else(|| {
        AppError::usage(
            "there is nothing to ask the agent: give a prompt (`creel run \"Make the tests pass.\"`), \
             a file (--prompt-file), or `prompt:` in the config",
        )
    })
}

/// A new name, or the requested one if it is free. A name in the config is for all sessions of the project: later ones
/// get a number.
fn choose_folder(
    sessions: &SessionsDir,
    project: &Project,
    asked: Option<&str>,
) -> AppResult<(SessionDir, Option<SessionNameLock>)> {
    if let Some(name) = asked {
        let folder = sessions.folder(name);
        return if folder.exists() { Err(taken(&folder)) } else { Ok((folder, None)) };
    }
    let turn = SessionNameLock::wait();
    let Some(name) = &project.settings.session else {
        return Ok((first_free(sessions, &dated_name(&project.root)), turn));
    };
    let folder = sessions.folder(name);
    let over = || journal::fold(&folder.journal()).is_ok_and(|state| state.outcome().is_some());
    if folder.exists() && (journal::running(&folder).is_some() || !over()) {
        return Err(taken(&folder));
    }
    Ok((first_free(sessions, name), turn))
}

fn taken(folder: &SessionDir) -> AppError {
    let name = &folder.name;
    match journal::running(folder) {
        Some(holder) => JournalError::Held { name: name.clone(), pid: holder.pid }.into(),
        None => AppError::usage(format!(
            "there is a session `{name}` already\n  go on with it by `creel resume {name}`, or choose another name with --session"
        )),
    }
}

/// The folder of that name, or the first free one with a number added.
pub(super) fn first_free(sessions: &SessionsDir, name: &str) -> SessionDir {
    let mut all = numbered(sessions, name);
    all.find(|folder| !folder.exists()).expect("numbers do not end before sessions do")
}

/// The folder of that name, then those with a number added.
pub(super) fn numbered(sessions: &SessionsDir, name: &str) -> impl Iterator<Item = SessionDir> {
    let more = (2..).map(move |n| sessions.folder(&format!("{name}-{n}")));
    std::iter::once(sessions.folder(name)).chain(more)
}

/// A name from the folder and the time.
fn dated_name(root: &Path) -> String {
    let folder = root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain: String =
        folder.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).take(40).collect();
    let folder = plain.trim_matches('-');
    dated(if folder.is_empty() { "session" } else { folder })
}

/// A name with the time added.
pub(super) fn dated(name: &str) -> String {
    format!("{name}-{}", jiff::Zoned::now().strftime("%Y%m%d-%H%M%S"))
}

/// The latest session that can be resumed. Self-driven ones come last, since they only wait for their agent.
fn latest_unfinished(sessions: &SessionsDir, max_iterations: Option<u32>) -> AppResult<SessionDir> {
    let all = sessions.list().map_err(|error| AppError::failed(format!("cannot list the sessions: {error}")))?;
    let mut waits = None;
    for folder in all.into_iter().filter(|folder| journal::running(folder).is_none()) {
        let Ok(state) = journal::fold(&folder.journal()) else { continue };
        if state.refuse_resume(max_iterations).is_some() {
            continue;
        }
        if !state.is_led_from_outside() {
            return Ok(folder);
        }
        waits = waits.or(Some(folder));
    }
    waits.ok_or_else(|| AppError::usage("there is no session to go on with; `creel sessions` lists all"))
}

/// Trusts the plan for a later resume, which also asks for trust since a journal can come with a clone. The user has
/// just allowed it.
pub(super) fn remember_plan(root: &Path, plan: &SessionPlan) -> AppResult<()> {
    project::trust_store()?
        .trust(&trust::place_of_plans(root), &[plan_document(plan)])
        .map_err(|error| AppError::failed(format!("cannot remember what is trusted: {error}")))
}

/// Identifies a session among all that ever had its name. Part of the mark of its processes.
fn new_id() -> String {
    format!("{:x}-{:x}", now().0, std::process::id())
}
