//! `creel worker`: takes tasks from a queue, one after another, and has each done in a session.
//!
//! # Invariants
//! - A task is acknowledged after the board says what came of it; whoever dies before has it handed to another.
//! - A worker that hears that its task is in other hands stops its session and says nothing more about it.
//! - A server that is away holds nobody: the session goes on, and what came of it is told when the server is back.

mod callings;
mod session;
mod shift;

use super::{
    Failure, Result,
    project::{Project, here},
    run::on_command_line,
    say, stage,
    trust::{self, Asked},
};
use crate::{
    cli::worker::WorkerArgs,
    engine::queue::duty::Duty,
    nats::connection::{Again, connect},
    process::children,
    runtime::now,
    socket::caller::host,
};
use callings::Callings;
use shift::{Me, Shift};

pub(super) fn worker(args: &WorkerArgs) -> Result {
    let project = Project::load(&args.config)?;
    let Some(nats) = on_command_line(args.nats.url.as_deref(), project.settings.nats.clone())? else {
        return Err(Failure::usage("no server is named: give --nats URL, or `nats:` in the config"));
    };
    let callings = Callings::new(&project.settings, Duty { types: &args.types, agent: args.agent.as_deref() });
    let plans = callings.plans()?;
    let would_run = plans.first().map(|plan| trust::of_project(&project, plan)).unwrap_or_default();
    let asked = if args.trust { Asked::Trust } else { Asked::Unsaid };
    trust::require(&project.config_place(), &project.settings.documents, &would_run, asked)?;
    // Sessions find their project by the current folder.
    let root = project.root.canonicalize().unwrap_or_else(|_| project.root.clone());
    if args.config.config.is_none() && !here()?.starts_with(&root) {
        return Err(Failure::usage(format!("run the worker in {}", root.display())));
    }
    let me = Me { worker: format!("{}-{:x}-{:x}", host(), std::process::id(), now().0), host: host() };
    children::adopt_orphans();
    let tokio = stage::runtime()?;
    let code = tokio.block_on(async {
        children::keep_reaping();
        let (client, told) = connect(&nats, Again::ByItself).await?;
        let agents: std::collections::BTreeSet<&str> = plans.iter().map(|plan| plan.agent.as_str()).collect();
        let agents = agents.into_iter().collect::<Vec<_>>().join(", ");
        let types = if args.types.is_empty() { "every type".to_owned() } else { args.types.join(", ") };
        say(&format!("creel: takes tasks ({types}) from {} for {agents}; Ctrl-C ends it", nats.shown()));
        let shift = Shift::new(args, &root, me, callings, nats, client, told).await?;
        Box::pin(shift.work()).await
    });
    tokio.shutdown_background();
    code
}
