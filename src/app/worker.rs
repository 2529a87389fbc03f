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

use super::{
    AppError, AppResult,
    project::{Project, here},
    run::on_command_line,
    say,
    trust::{self, TrustFlag},
};
use crate::{
    app::{
        session_host,
        worker::{
            eligibility::Eligibility,
            worker_loop::{WorkerIdentity, WorkerLoop},
        },
    },
    cli::worker::WorkerArgs,
    engine::queue::worker_rules::WorkerFilter,
    nats::connection::{ReconnectPolicy, connect},
    process::children,
    runtime::now,
    socket::caller::host,
};

pub(super) fn worker(args: &WorkerArgs) -> AppResult {
    let project = Project::load(&args.config)?;
    let Some(nats) = on_command_line(args.nats.url.as_deref(), project.settings.nats.clone())? else {
        return Err(AppError::usage("no server is named: give --nats URL, or `nats:` in the config"));
    };
    let callings =
        Eligibility::new(&project.settings, WorkerFilter { types: &args.types, agent: args.agent.as_deref() });
    let plans = callings.plans()?;
    let would_run = plans.first().map(|plan| trust::of_project(&project, plan)).unwrap_or_default();
    let asked = if args.trust { TrustFlag::Trust } else { TrustFlag::Unsaid };
    trust::require(&project.config_place(), &project.settings.documents, &would_run, asked)?;
    // Sessions find their project through the current folder.
    let root = project.root.canonicalize().unwrap_or_else(|_| project.root.clone());
    if args.config.config.is_none() && !here()?.starts_with(&root) {
        return Err(AppError::usage(format!("run the worker in {}", root.display())));
    }
    let me = WorkerIdentity { worker: format!("{}-{:x}-{:x}", host(), std::process::id(), now().0), host: host() };
    children::adopt_orphans();
    let tokio = session_host::runtime()?;
    let code = tokio.block_on(async {
        children::keep_reaping();
        let (client, told) = connect(&nats, ReconnectPolicy::ByItself).await?;
        let agents: std::collections::BTreeSet<&str> = plans.iter().map(|plan| plan.agent.as_str()).collect();
        let agents = agents.into_iter().collect::<Vec<_>>().join(", ");
        let types = if args.types.is_empty() { "every type".to_owned() } else { args.types.join(", ") };
        say(&format!("creel: takes tasks ({types}) from {} for {agents}; Ctrl-C ends it", nats.shown()));
        let shift = WorkerLoop::new(args, &root, me, callings, nats, client, told).await?;
        Box::pin(shift.work()).await
    });
    tokio.shutdown_background();
    code
}
