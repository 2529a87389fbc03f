//! `creel worker`: takes tasks from a queue and runs a session for each, one after another or
//! several at once.
//!
//! # Invariants
//! - A task is acknowledged only after its result is in the queue's bucket. If the worker dies
//!   before, another worker gets the task.
//! - A worker that learns that another one has its task stops its session and reports nothing more
//!   about it.
//! - An unreachable server blocks no worker: the session continues, and the worker reports the
//!   result when the server is back.

mod child_session;
mod crew;
mod eligibility;
mod gate_watch;
mod job_slots;
pub mod screened_worker;
mod worker_loop;
mod worker_table;

use std::collections::BTreeSet;

use clap::Args;

use crate::{
    cli::{
        arguments::{NatsArgs, QueueSourceArgs},
        error::{CliError, CliResult},
        home::HomeRequestArgs,
        launch::trust_prompt::{self, TrustFlag},
        output::{self, say},
        target::{
            project::{Project, here, name_queue},
            remote_sessions::{NatsServerConnection, on_command_line},
        },
        tokio_runtime,
        verb_outcome::VerbOutcome,
        worker::{
            crew::WorkerCrew,
            eligibility::Eligibility,
            job_slots::JobSlots,
            screened_worker::{ScreenedWorker, end_with_screen, wants_screen},
            worker_loop::{WorkerIdentity, WorkerSite},
            worker_table::worker_table,
        },
    },
    config::{BadDuration, NatsConfig, duration_of},
    engine::{queue::worker_rules::WorkerFilter, time::TimeSpan},
    process::children,
    protocol::caller::host,
    runtime::now,
    worktrees::{ProjectRepository, WorktreeError},
};

/// What a worker does.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
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
    /// How many sessions to run at once. In a git repository, each has a worktree of its own;
    /// elsewhere they run one after another, in this folder.
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = job_count)]
    pub jobs: usize,
    /// Start no further session while the load average of this machine is higher. One can always
    /// run.
    #[arg(long, value_name = "LOAD", value_parser = load_limit, allow_negative_numbers = true)]
    pub max_load: Option<f64>,
    /// Exit when the queue has no task left, instead of waiting for more.
    #[arg(long)]
    pub drain: bool,
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
    #[arg(long, conflicts_with_all = ["types", "agent", "attended", "jobs", "max_load", "drain", "headless", "trust"])]
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
    let mut nats = on_command_line(args.queue.url.as_deref(), project.settings.nats.clone())?;
    let callings = Eligibility::new(
        &project.settings,
        WorkerFilter {
            types: &args.types,
            agent: args.agent.as_deref(),
        },
    );
    let plans = callings.plans()?;
    let would_run = plans
        .first()
        .map(|plan| trust_prompt::of_project(&project, plan))
        .unwrap_or_default();
    let asked = TrustFlag::given(args.trust);
    trust_prompt::require(
        &project.config_place(),
        &project.settings.documents,
        &would_run,
        asked,
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
    let needs_worktrees = args.jobs > 1 || project.settings.base_plan.worktree.is_some();
    // Better now than in every session.
    let found = ProjectRepository::of(&root);
    let has_none = matches!(
        found,
        Err(WorktreeError::NoRepository(_) | WorktreeError::NoGit)
    );
    let repository = if has_none && !needs_worktrees {
        None
    } else {
        Some(found?)
    };
    if let Some(repository) = &repository {
        repository.check_worktrees()?;
    }
    let configured = project.settings.base_plan.submit.remote.as_deref();
    let remote = repository
        .as_ref()
        .map(|repository| repository.remote(configured))
        .transpose()?
        .flatten();
    if let Some(repository) = repository.as_ref().filter(|_| remote.is_none())
        && repository.commit("HEAD")?.is_none()
    {
        return Err(WorktreeError::NoCommit.into());
    }
    if args.max_load.is_some() && job_slots::load().is_none() {
        return Err(CliError::usage(
            "creel cannot read the load of this machine; leave out --max-load",
        ));
    }
    let submits = repository.is_some() && project.settings.base_plan.submit.on_complete;
    if wants_screen(args) {
        let worker = Some(ScreenedWorker::start(&root)?);
        let (nats, ui) = (NatsArgs::default(), project.settings.ui);
        return Ok(VerbOutcome::Home(Box::new(HomeRequestArgs {
            nats,
            root,
            has_config: true,
            ui,
            worker,
        })));
    }
    if args.behind_screen {
        end_with_screen();
    }
    let site = WorkerSite {
        root: root.clone(),
        repository,
        remote,
        submits,
    };
    let me = WorkerIdentity {
        worker: format!("{}-{:x}-{:x}", host(), std::process::id(), now().0),
        host: host(),
    };
    children::adopt_orphans();
    let tokio = tokio_runtime::start()?;
    let code = tokio.block_on(async {
        children::keep_reaping();
        let agents: BTreeSet<String> = plans.iter().map(|plan| plan.agent.clone()).collect();
        let agents: Vec<String> = agents.into_iter().collect();
        let types = if args.types.is_empty() {
            "every type".to_owned()
        } else {
            args.types.join(", ")
        };
        let whose = nats
            .as_ref()
            .map_or_else(|| "this project's queue".to_owned(), NatsConfig::shown);
        let at_once = if args.jobs > 1 {
            format!(", up to {} at once", args.jobs)
        } else {
            String::new()
        };
        let slots = JobSlots::new(args.jobs, args.max_load);
        let named = agents.join(", ");
        let crew = WorkerCrew {
            args,
            settings: &project.settings,
            site,
            nats,
            me,
            slots,
            agents,
        };
        // The server is reachable, or this is where the worker says that it is not.
        say(&format!(
            "creel: waiting for tasks ({types}) from {whose} for {named}{at_once}; stop with Ctrl-C"
        ));
        Box::pin(crew.work_listed()).await
    });
    tokio.shutdown_background();
    code.map(VerbOutcome::Done)
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
        return output::json(&workers);
    }
    if workers.is_empty() {
        say("creel: no worker is running; start one with `creel worker`");
        return Ok(0);
    }
    output::print(&worker_table(&workers))
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

#[derive(Debug, thiserror::Error)]
enum WorkerArgumentError {
    #[error("the number of jobs is a whole number from 1 to {MOST_JOBS}")]
    BadJobCount,
    #[error("a type needs a name; leave out --types to work on all types")]
    NoType,
    #[error("a load is a number above 0, such as `4` or `1.5`")]
    BadLoad,
}

#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error(transparent)]
    BadDuration(#[from] BadDuration),
    #[error("a lease must be at least a second, such as `30s`")]
    TooShort,
}
