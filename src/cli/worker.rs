//! `creel worker`: takes tasks from a queue and runs a session for each, one after another or
//! several at once.

use std::{
    collections::BTreeSet,
    io::{self, IsTerminal as _},
    path::Path,
};

use clap::Args;

use crate::{
    cli::{
        arguments::{NatsArgs, QueueSourceArgs},
        error::{self, CliError, CliResult, LINE, say},
        launch::{
            surface,
            trust_prompt::{self, TrustFlag},
        },
        merge,
        target::{
            Project, here, name_queue,
            remote_sessions::{NatsServerConnection, on_command_line},
        },
        verb_outcome::{HomeRequestArgs, VerbOutcome},
    },
    config::{BadDuration, NatsConfig, PlanError, PlanRequest, duration_of},
    engine::{
        policy::Budget,
        queue::{QueuedTask, QueuedTaskState},
        time::TimeSpan,
    },
    farm::{
        FarmError,
        job_slots::{self, JobSlots},
        merge_loop::{BATCH, MergeLoop},
        merge_queue::wanted_base,
        worker::{
            Eligibility, ScreenedWorker, ShownWorker, WorkerCrew, WorkerIdentity, WorkerOptions,
            WorkerSite, end_with_screen,
        },
        worker_budget::WorkerBudget,
        worker_merger::WorkerMerger,
    },
    nats::presence::ListedWorker,
    present::{session_list::short_path, tables::columns, text::plain_line},
    process::{children, secrets},
    protocol::process_origin::host,
    runtime::now,
    worktrees::{ProjectRepository, WorktreeError},
};

/// The longest reason in a line: the user decides by it.
const REASON: usize = 500;

/// What a worker does.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is its own switch")]
pub struct WorkerArgs {
    /// The task types to work on, separated by commas. Default: all types that an agent of this
    /// machine may work on.
    #[arg(short, long, value_name = "TYPE", value_delimiter = ',', value_parser = task_type)]
    pub types: Vec<String>,
    /// The agent: one of the config's `agents`, or a known name. Default: the config's agent, or
    /// the first agent that the task's type allows and this machine has.
    #[arg(short, long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Which queue.
    #[command(flatten)]
    pub queue: QueueSourceArgs,
    /// Wait for you at gates (`creel attach`, `creel gate answer`). Default: answer gates as the
    /// config says, and mark a task that needs you as blocked.
    #[arg(long)]
    pub attended: bool,
    /// How many sessions to run at once. In a git repository, each has its own worktree;
    /// elsewhere they run one after another, in this folder.
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = job_count)]
    pub jobs: usize,
    /// Start no further session while the load average of this machine is higher. One can always
    /// run.
    #[arg(long, value_name = "LOAD", value_parser = load_limit, allow_negative_numbers = true)]
    pub max_load: Option<f64>,
    /// How many sessions of an agent to run at once, such as `claude=2`; can be repeated.
    #[arg(long = "limit-agent", value_name = "AGENT=N", value_parser = agent_limit)]
    pub agent_limits: Vec<(String, usize)>,
    /// What all sessions together may use: `cost=5,time=8h,tokens=2M`, or some of these. `time` counts
    /// from the worker's start. When it is used up, the worker stops its sessions, returns their tasks,
    /// and exits with 3.
    #[arg(long, value_name = "LIMITS", value_parser = budget)]
    pub budget: Option<Budget>,
    /// Exit when the queue has no task left, instead of waiting for more: with 4 if a task is blocked.
    #[arg(long)]
    pub drain: bool,
    /// Merge finished tasks while the sessions run, as `creel merge --queue --watch` does. With --drain, wait
    /// until everything is merged that can be.
    #[arg(long)]
    pub merge: bool,
    /// How long a worker can be silent (killed, suspended, cut off from the server) before another
    /// one gets its task. The first worker that takes a type of task from a server's queue sets
    /// this for the others.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = lease)]
    pub lease: TimeSpan,
    /// Print each change of a task as JSON, one per line, instead of the events of the sessions.
    #[arg(long)]
    pub json: bool,
    /// Print lines. Default: with several jobs in a terminal, the home screen shows the sessions.
    #[arg(long)]
    pub headless: bool,
    /// List the workers that are running on the server: what they can do, and how busy they are.
    #[arg(long, conflicts_with_all = ["types", "agent", "attended", "jobs", "max_load", "agent_limits", "budget", "drain", "merge", "headless", "trust"])]
    pub list: bool,
    /// Internal: the home screen shows the sessions.
    #[arg(long, hide = true)]
    pub behind_screen: bool,
    /// Trust this config's hooks and agents, and remember this.
    #[arg(long)]
    pub trust: bool,
}

pub(super) fn worker(args: &WorkerArgs) -> CliResult<VerbOutcome> {
    if args.list {
        return list_workers(args).map(VerbOutcome::Done);
    }
    let project = Project::load(&args.queue.config)?;
    let mut nats = on_command_line(
        args.queue.url.as_deref(),
        project.settings.servers.nats.clone(),
    )?;
    let options = args.options();
    let plans = Eligibility::new(&project.settings, options.filter()).plans()?;
    let would_run = plans
        .first()
        .map(|plan| trust_prompt::of_project(&project, plan))
        .unwrap_or_default();
    trust_prompt::require(
        &project.config_place(),
        &project.settings.documents,
        &would_run,
        TrustFlag::given(args.trust),
    )?;
    // Sessions find their project through the current folder.
    let root = project
        .root
        .canonicalize()
        .unwrap_or_else(|_| project.root.clone());
    if args.queue.config.config.is_none() && !here()?.starts_with(&root) {
        return Err(CliError::usage(format!(
            "run the worker in {}",
            root.display()
        )));
    }
    if let Some(nats) = &mut nats {
        name_queue(nats, None, &root)?;
    }
    let site = site(args, &project, &root)?;
    if args.max_load.is_some() && job_slots::load().is_none() {
        return Err(CliError::usage(
            "creel cannot read the load of this machine; leave out --max-load",
        ));
    }
    if args.wants_screen() {
        let mut agents: Vec<String> = plans.iter().map(|plan| plan.agent.clone()).collect();
        agents.sort();
        agents.dedup();
        let facts = ShownWorker {
            jobs: args.jobs,
            agents,
            merges: args.merge,
            drains: args.drain,
        };
        let worker = ScreenedWorker::start(&root)
            .map_err(|error| CliError::failed(format!("cannot start the worker: {error}")))?;
        return Ok(VerbOutcome::Home(Box::new(HomeRequestArgs {
            nats: NatsArgs::default(),
            root,
            has_config: true,
            ui: project.settings.ui,
            worker: Some((worker, facts)),
        })));
    }
    let orders = args.behind_screen.then(end_with_screen);
    let merger = merger(args, &project, &site, nats.as_ref())?;
    for (agent, _) in &args.agent_limits {
        let wanted = PlanRequest {
            agent: Some(agent),
            ..PlanRequest::default()
        };
        if let Err(error @ PlanError::UnknownAgent { .. }) = project.settings.plan(wanted) {
            return Err(CliError::usage(format!("--limit-agent {agent}: {error}")));
        }
    }
    let agents: BTreeSet<String> = plans.into_iter().map(|plan| plan.agent).collect();
    let mut crew = WorkerCrew {
        options: &options,
        settings: &project.settings,
        site,
        nats,
        me: WorkerIdentity {
            worker: format!("{}-{:x}-{:x}", host(), std::process::id(), now().0),
            host: host(),
        },
        slots: JobSlots::new(
            args.jobs,
            args.max_load,
            args.agent_limits.iter().cloned().collect(),
            WorkerBudget::new(args.budget.unwrap_or_default()),
        ),
        agents: agents.into_iter().collect(),
        opened: tokio::sync::Notify::new(),
        merger,
        orders,
    };
    children::adopt_orphans();
    let tokio = error::start_tokio()?;
    let code = tokio.block_on(async {
        children::keep_reaping();
        // The server is reachable, or this is where the worker says that it is not.
        say_waiting(args, &crew);
        Box::pin(crew.work_listed()).await
    });
    tokio.shutdown_background();
    Ok(VerbOutcome::Done(code?))
}

impl WorkerArgs {
    fn options(&self) -> WorkerOptions {
        WorkerOptions {
            types: self.types.clone(),
            agent: self.agent.clone(),
            config: self.queue.config.config.clone(),
            nats_url: self.queue.url.clone(),
            attended: self.attended,
            jobs: self.jobs,
            drain: self.drain,
            lease: self.lease,
            // The events of several sessions would be mixed.
            shows_sessions: !self.json && self.jobs <= 1,
            say,
            report: if self.json { report_json } else { report_line },
        }
    }

    /// Whether a screen shows the sessions: there are several, and a terminal.
    fn wants_screen(&self) -> bool {
        let is_plain = self.headless || self.json || self.behind_screen || surface::is_dumb();
        self.jobs > 1 && !is_plain && io::stdin().is_terminal() && io::stdout().is_terminal()
    }
}

/// Where the worker works. Better a refusal now than in every session.
fn site(args: &WorkerArgs, project: &Project, root: &Path) -> CliResult<WorkerSite> {
    let plan = &project.settings.base_plan;
    // A worker can merge, and runs checks then.
    secrets::use_patterns(&plan.access.mask);
    let needs_worktrees = args.jobs > 1 || plan.worktree.is_some();
    let found = ProjectRepository::of(root);
    let has_none = matches!(
        found,
        Err(WorktreeError::NoRepository(_) | WorktreeError::NoGit)
    );
    if has_none && !needs_worktrees {
        return Ok(WorkerSite {
            root: root.to_owned(),
            repository: None,
            remote: None,
            base: None,
            attempts: 0,
            submits: false,
        });
    }
    let repository = found?;
    repository.check_worktrees()?;
    let remote = repository.remote(plan.submit.remote.as_deref())?;
    if remote.is_none() && repository.commit("HEAD")?.is_none() {
        return Err(WorktreeError::NoCommit.into());
    }
    Ok(WorkerSite {
        root: root.to_owned(),
        repository: Some(repository),
        remote,
        base: wanted_base(plan).map(str::to_owned),
        attempts: plan.submit.queue.attempts,
        submits: plan.submit.on_complete,
    })
}

/// How many failures of the merger in a row end a worker that drains the queue.
const MERGE_FAILURES: u32 = 3;

/// The merger of the worker, if it is to merge.
fn merger(
    args: &WorkerArgs,
    project: &Project,
    site: &WorkerSite,
    nats: Option<&NatsConfig>,
) -> CliResult<Option<WorkerMerger>> {
    if !args.merge {
        return Ok(None);
    }
    let repository = match &site.repository {
        Some(repository) => repository.clone(),
        None => ProjectRepository::of(&site.root)?,
    };
    Ok(Some(WorkerMerger::new(MergeLoop {
        root: site.root.clone(),
        settings: project.settings.clone(),
        home: repository.branch_here()?,
        repository,
        nats: nats.cloned(),
        batch: BATCH,
        lease: args.lease.into(),
        watches: true,
        patience: args.drain.then_some(MERGE_FAILURES),
        say,
        echo: if args.options().shows_sessions {
            merge::echo
        } else {
            |_| {}
        },
    })))
}

fn say_waiting(args: &WorkerArgs, crew: &WorkerCrew<'_>) {
    let types = if args.types.is_empty() {
        "every type".to_owned()
    } else {
        args.types.join(", ")
    };
    let whose = crew
        .nats
        .as_ref()
        .map_or_else(|| "this project's queue".to_owned(), NatsConfig::shown);
    let at_once = if args.jobs > 1 {
        format!(", up to {} at once", args.jobs)
    } else {
        String::new()
    };
    say(&format!(
        "creel: waiting for tasks ({types}) from {whose} for {}{at_once}; stop with Ctrl-C",
        crew.agents.join(", ")
    ));
}

fn report_json(task: &QueuedTask) -> Result<(), FarmError> {
    let line = serde_json::to_string(task).map_err(|error| FarmError::Failed(error.to_string()))?;
    error::print(&(line + "\n"))
        .map(drop)
        .map_err(|error| FarmError::Failed(error.into_message()))
}

#[expect(clippy::unnecessary_wraps, reason = "the same form as `report_json`")]
fn report_line(task: &QueuedTask) -> Result<(), FarmError> {
    say(&format!("creel: {}", line(task)));
    Ok(())
}

fn line(task: &QueuedTask) -> String {
    let QueuedTask {
        order,
        state,
        attempt,
        ..
    } = task;
    let id = &order.id;
    match state {
        QueuedTaskState::Created => match &task.feedback {
            Some(reason) => {
                let reason = plain_line(reason, REASON);
                format!("task {id} goes back to the queue: {reason}")
            }
            None => format!("task {id} is waiting"),
        },
        QueuedTaskState::Ready => format!("task {id} is back in the queue"),
        QueuedTaskState::Active { by, .. } => {
            let again = if *attempt > 1 {
                format!(" (attempt {attempt})")
            } else {
                String::new()
            };
            format!(
                "task {id}{again}: {}\n  in session {}",
                plain_line(&order.goal, LINE),
                by.session
            )
        }
        QueuedTaskState::Blocked { reason, .. } => {
            format!("task {id} is blocked: {}", plain_line(reason, REASON))
        }
        QueuedTaskState::Completed { .. } => format!("task {id} is completed"),
        QueuedTaskState::Removed => format!("task {id} is removed"),
    }
}

/// Prints the workers of a server.
fn list_workers(args: &WorkerArgs) -> CliResult {
    let Some(server) = NatsServerConnection::meant(
        &NatsArgs {
            url: args.queue.url.clone(),
        },
        &args.queue.config,
    )?
    else {
        let why =
            "only a server lists its workers; pass it with --nats, or set `nats:` in the config";
        return Err(CliError::usage(why));
    };
    let workers = server.workers()?;
    if args.json {
        return error::json(&workers);
    }
    if workers.is_empty() {
        say("creel: no worker is running; start one with `creel worker`");
        return Ok(0);
    }
    error::print(&worker_table(&workers))
}

/// The workers of a server as a table.
fn worker_table(workers: &[ListedWorker]) -> String {
    let row = |worker: &ListedWorker| {
        let project = short_path(&worker.project, None);
        let types = if worker.types.is_empty() {
            "every type".to_owned()
        } else {
            worker.types.join(", ")
        };
        let (user, agents) = (
            worker.user.clone().unwrap_or_default(),
            worker.agents.join(", "),
        );
        [
            worker.host.clone(),
            user,
            project,
            busy(worker),
            types,
            agents,
        ]
        .map(|text| plain_line(&text, LINE))
    };
    columns(
        ["HOST", "USER", "PROJECT", "SESSIONS", "TASKS", "AGENTS"],
        workers.iter().map(row),
    )
}

/// `1 of 3`, `1 of 3, 2 wait for you`.
fn busy(worker: &ListedWorker) -> String {
    let ListedWorker {
        jobs,
        working,
        waiting,
        ..
    } = worker;
    match waiting {
        0 => format!("{working} of {jobs}"),
        1 => format!("{working} of {jobs}, 1 waits for you"),
        n => format!("{working} of {jobs}, {n} wait for you"),
    }
}

fn lease(text: &str) -> Result<TimeSpan, LeaseError> {
    let span = duration_of(text)?;
    if span < TimeSpan::secs(1) {
        Err(LeaseError::TooShort)
    } else {
        Ok(span)
    }
}

/// The most sessions at once.
const MOST_JOBS: usize = 64;

fn job_count(text: &str) -> Result<usize, WorkerArgumentError> {
    let count = text
        .parse()
        .ok()
        .filter(|count| (1..=MOST_JOBS).contains(count));
    count.ok_or(WorkerArgumentError::BadJobCount)
}

/// A name. An empty one, such as that of an unset variable, would wait for tasks that do not exist.
fn task_type(text: &str) -> Result<String, WorkerArgumentError> {
    let name = text.trim();
    if name.is_empty() {
        Err(WorkerArgumentError::NoType)
    } else {
        Ok(name.to_owned())
    }
}

fn load_limit(text: &str) -> Result<f64, WorkerArgumentError> {
    let load = text
        .parse::<f64>()
        .ok()
        .filter(|load| load.is_finite() && *load > 0.0);
    load.ok_or(WorkerArgumentError::BadLoad)
}

fn agent_limit(text: &str) -> Result<(String, usize), WorkerArgumentError> {
    let (agent, most) = text
        .split_once('=')
        .ok_or(WorkerArgumentError::BadAgentLimit)?;
    let most = most.trim().parse().ok().filter(|most| *most > 0);
    let agent = Some(agent.trim()).filter(|agent| !agent.is_empty());
    agent
        .zip(most)
        .map(|(agent, most)| (agent.to_owned(), most))
        .ok_or(WorkerArgumentError::BadAgentLimit)
}

fn budget(text: &str) -> Result<Budget, WorkerArgumentError> {
    let mut budget = Budget::default();
    for part in text.split(',') {
        let bad = || WorkerArgumentError::BadBudget(part.trim().to_owned());
        let (what, much) = part.split_once('=').ok_or_else(bad)?;
        let much = much.trim();
        match what.trim() {
            "cost" => {
                let cost = much.trim_start_matches('$').parse::<f64>().ok();
                let cost = cost.filter(|cost| cost.is_finite() && *cost > 0.0);
                budget.cost = Some(cost.ok_or_else(bad)?);
            }
            "time" => {
                let time = duration_of(much).ok().filter(|time| time.0 > 0);
                budget.time = Some(time.ok_or_else(bad)?);
            }
            "tokens" => budget.tokens = Some(token_count(much).ok_or_else(bad)?),
            _ => return Err(bad()),
        }
    }
    Ok(budget)
}

/// `500`, `500k` or `2M`.
fn token_count(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => match text.strip_suffix(['m', 'M']) {
            Some(digits) => (digits, 1_000_000),
            None => (text, 1),
        },
    };
    let count = digits.parse::<u64>().ok()?.checked_mul(unit)?;
    (count > 0).then_some(count)
}

#[derive(Debug, thiserror::Error)]
enum WorkerArgumentError {
    #[error("the number of jobs is a whole number from 1 to {MOST_JOBS}")]
    BadJobCount,
    #[error("a type needs a name; leave out --types to work on all types")]
    NoType,
    #[error("a load is a number above 0, such as `4` or `1.5`")]
    BadLoad,
    #[error("say how many sessions of which agent, such as `claude=2`")]
    BadAgentLimit,
    #[error("`{0}` is no limit; say `cost=5,time=8h,tokens=2M`, or some of these")]
    BadBudget(String),
}

#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error(transparent)]
    BadDuration(#[from] BadDuration),
    #[error("a lease must be at least a second, such as `30s`")]
    TooShort,
}
