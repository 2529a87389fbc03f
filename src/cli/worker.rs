//! `creel worker`: takes tasks from a queue, one after another, and runs a session for each.
//!
//! # Invariants
//! - A task is acknowledged only after its result is in the queue's bucket. If the worker dies before, another worker
//!   gets the task.
//! - A worker that learns that another one has its task stops its session and reports nothing more about it.
//! - An unreachable server blocks no worker: the session continues, and the worker reports the result when the server
//!   is back.

mod child_session;
mod eligibility;
mod worker_loop;

use clap::Args;

use crate::{
    cli::{
        arguments::{ConfigArgs, NatsArgs},
        error::{CliError, CliResult},
        launch::trust_prompt::{self, TrustFlag},
        output::say,
        target::{
            project::{Project, here},
            remote_sessions::{cannot_connect, on_command_line},
        },
        tokio_runtime,
        worker::{
            eligibility::Eligibility,
            worker_loop::{WorkerIdentity, WorkerLoop},
        },
    },
    config::{BadDuration, NatsConfig, duration_of},
    engine::{queue::worker_rules::WorkerFilter, time::TimeSpan},
    nats::connection::{ReconnectPolicy, connect},
    process::children,
    queue::place::QueuePlace,
    runtime::now,
    socket::caller::host,
};

/// What a worker does.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct WorkerArgs {
    /// The task types to work on, separated by commas. Default: all types that an agent of this machine may work on.
    #[arg(short, long, value_name = "TYPE", value_delimiter = ',')]
    pub types: Vec<String>,
    /// The agent: one of the config's `agents`, or a known name. Default: the config's agent, or the first agent that
    /// the task's type allows and this machine has.
    #[arg(short, long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Which config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The server with the queue. Default: `nats:` of the config, else the project's own queue.
    #[command(flatten)]
    pub nats: NatsArgs,
    /// Wait for you at gates (`creel attach`, `creel gate answer`). Default: answer gates as the config says, and mark a
    /// task that needs you as blocked.
    #[arg(long)]
    pub attended: bool,
    /// Exit when the queue has no task left, instead of waiting for more.
    #[arg(long)]
    pub drain: bool,
    /// How long a worker may be silent before another worker gets its task. It applies to the rows of the queue that
    /// this worker is the first to read.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = lease)]
    pub lease: TimeSpan,
    /// Print each change of a task as JSON, one per line, instead of the events of the sessions.
    #[arg(long)]
    pub json: bool,
    /// Trust this config's hooks and agents, and remember this.
    #[arg(long)]
    pub trust: bool,
}

pub(super) fn worker(args: &WorkerArgs) -> CliResult {
    let project = Project::load(&args.config)?;
    let nats = on_command_line(args.nats.url.as_deref(), project.settings.nats.clone())?;
    let callings =
        Eligibility::new(&project.settings, WorkerFilter { types: &args.types, agent: args.agent.as_deref() });
    let plans = callings.plans()?;
    let would_run = plans.first().map(|plan| trust_prompt::of_project(&project, plan)).unwrap_or_default();
    let asked = TrustFlag::given(args.trust);
    trust_prompt::require(&project.config_place(), &project.settings.documents, &would_run, asked)?;
    // Sessions find their project through the current folder.
    let root = project.root.canonicalize().unwrap_or_else(|_| project.root.clone());
    if args.config.config.is_none() && !here()?.starts_with(&root) {
        return Err(CliError::usage(format!("run the worker in {}", root.display())));
    }
    let me = WorkerIdentity { worker: format!("{}-{:x}-{:x}", host(), std::process::id(), now().0), host: host() };
    children::adopt_orphans();
    let tokio = tokio_runtime::start()?;
    let code = tokio.block_on(async {
        children::keep_reaping();
        let agents: std::collections::BTreeSet<&str> = plans.iter().map(|plan| plan.agent.as_str()).collect();
        let agents = agents.into_iter().collect::<Vec<_>>().join(", ");
        let types = if args.types.is_empty() { "every type".to_owned() } else { args.types.join(", ") };
        let whose = nats.as_ref().map_or_else(|| "this project's queue".to_owned(), NatsConfig::shown);
        let place = match nats {
            Some(nats) => {
                let connected = connect(&nats, ReconnectPolicy::ByItself).await;
                let (client, told) = connected.map_err(|problem| cannot_connect(&nats, &problem))?;
                QueuePlace::server(nats, client, told).await?
            }
            None => QueuePlace::Project(root.clone()),
        };
        say(&format!("creel: waiting for tasks ({types}) from {whose} for {agents}; stop with Ctrl-C"));
        let shift = WorkerLoop::new(args, &root, me, callings, place).await?;
        Box::pin(shift.work()).await
    });
    tokio.shutdown_background();
    code
}

fn lease(text: &str) -> Result<TimeSpan, LeaseError> {
    let span = duration_of(text)?;
    if span < TimeSpan::secs(1) { Err(LeaseError::TooShort) } else { Ok(span) }
}

#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error(transparent)]
    BadDuration(#[from] BadDuration),
    #[error("a lease must be at least a second")]
    TooShort,
}
