//! The loops of a worker that runs several sessions at once: one for each slot.

use std::{future::poll_fn, pin::Pin, task::Poll};

use crate::{
    cli::{
        error::{CliError, CliResult},
        output::say,
        target::remote_sessions::cannot_connect,
        worker::{
            WorkerArgs,
            eligibility::Eligibility,
            job_slots::JobSlots,
            worker_loop::{WorkerIdentity, WorkerLoop, WorkerLoopEnd, WorkerSite},
        },
    },
    config::{NatsConfig, Settings},
    engine::queue::worker_rules::WorkerFilter,
    nats::{
        connection::{ReconnectPolicy, connect},
        presence::{ListedWorker, WorkerListEntry},
    },
    protocol::caller::user,
    queue::QueuePlace,
};

type LoopFuture<'a> = Pin<Box<dyn Future<Output = CliResult<WorkerLoopEnd>> + 'a>>;

/// What all loops of a worker share.
pub(super) struct WorkerCrew<'a> {
    pub(super) args: &'a WorkerArgs,
    pub(super) settings: &'a Settings,
    pub(super) site: WorkerSite,
    pub(super) nats: Option<NatsConfig>,
    pub(super) me: WorkerIdentity,
    pub(super) slots: JobSlots,
    /// The agents that work on its tasks.
    pub(super) agents: Vec<String>,
}

impl WorkerCrew<'_> {
    /// Works, and says meanwhile on the server what it can do and does.
    pub(super) async fn work_listed(&self) -> CliResult {
        let Some(nats) = &self.nats else {
            return self.work().await;
        };
        let mut entry = None;
        let listed = async {
            entry = WorkerListEntry::open(nats, &self.me.worker).await;
            match &entry {
                Some(entry) => entry.keep(|| self.described()).await,
                None => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            ended = self.work() => ended,
            () = listed => unreachable!("the entry is kept until the worker ends"),
        };
        if let Some(entry) = entry {
            entry.remove().await;
        }
        ended
    }

    fn described(&self) -> ListedWorker {
        let (working, waiting) = self.slots.in_use();
        ListedWorker {
            worker: self.me.worker.clone(),
            host: self.me.host.clone(),
            user: user(),
            project: self.site.root.display().to_string(),
            jobs: self.args.jobs,
            working,
            waiting,
            types: self.args.types.clone(),
            agents: self.agents.clone(),
            seen: String::new(),
        }
    }

    /// Works until there are no more tasks, a signal arrives, or a loop fails. Sessions that run
    /// then are finished.
    pub(super) async fn work(&self) -> CliResult {
        let mut loops: Vec<LoopFuture<'_>> = Vec::new();
        let (mut started, mut ended): (usize, Option<CliResult<WorkerLoopEnd>>) = (0, None);
        loop {
            while ended.is_none() && loops.len() < self.slots.loops() {
                started += 1;
                loops.push(Box::pin(self.one_loop(started)));
            }
            if loops.is_empty() {
                let Some(end) = ended.transpose()? else {
                    return Ok(0);
                };
                if let Some(left) = end.left {
                    say(&format!(
                        "creel: nothing is left that this worker can do: {left}\n  `creel task list --queue` shows these tasks"
                    ));
                }
                return Ok(end.code);
            }
            tokio::select! {
                result = next(&mut loops) => {
                    // The others take no more tasks. One that has no task left says nothing about
                    // them.
                    let has_no_more = matches!(&result, Ok(end) if end.code == 0);
                    if !has_no_more {
                        self.slots.close();
                    }
                    ended = Some(match ended {
                        Some(Ok(before)) if has_no_more && before.code != 0 => Ok(before),
                        Some(Err(error)) => Err(error),
                        Some(Ok(_)) | None => result,
                    });
                }
                () = self.slots.changed() => {}
            }
        }
    }

    async fn one_loop(&self, number: usize) -> CliResult<WorkerLoopEnd> {
        let duty = WorkerFilter {
            types: &self.args.types,
            agent: self.args.agent.as_deref(),
        };
        let place = self.place().await?;
        let me = self.me.numbered(number);
        let callings = Eligibility::new(self.settings, duty);
        let shift =
            WorkerLoop::new(self.args, &self.site, me, callings, place, &self.slots).await?;
        if number == 1 {
            shift.say_notice();
            shift.clear_leftovers().await;
        }
        shift.work().await
    }

    async fn place(&self) -> Result<QueuePlace, CliError> {
        let Some(nats) = self.nats.clone() else {
            return Ok(QueuePlace::Project(self.site.root.clone()));
        };
        let connected = connect(&nats, ReconnectPolicy::ByItself).await;
        let (client, told) = connected.map_err(|problem| cannot_connect(&nats, &problem))?;
        Ok(QueuePlace::server(nats, client, told).await?)
    }
}

/// The result of the first loop that ends.
async fn next(loops: &mut Vec<LoopFuture<'_>>) -> CliResult<WorkerLoopEnd> {
    poll_fn(|context| {
        for at in 0..loops.len() {
            if let Poll::Ready(result) = loops[at].as_mut().poll(context) {
                drop(loops.swap_remove(at));
                return Poll::Ready(result);
            }
        }
        Poll::Pending
    })
    .await
}
