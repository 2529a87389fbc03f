//! What a worker does from its first task to its last.

mod parting;

use std::{path::Path, time::Duration};

use async_nats::{Client, Subscriber, jetstream};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior},
};

use parting::Parting;

use super::{
    callings::Callings,
    session::{Before, End, Hired, Job},
};
use crate::{
    app::{Failure, Result, print, say},
    cli::worker::WorkerArgs,
    config::Nats,
    engine::queue::{Claim, Hand, Queued, Standing, Upshot, duty::Streak},
    journal::Sessions,
    nats::{
        command::next,
        connection::{Told, Trouble},
    },
    present::text::{first_line, plain},
    process::signals::Signals,
    queue::{
        Queue, Watched,
        board::{Board, Key, Seen},
        ready_tasks::{Lot, Row, subjects},
    },
    runtime::now,
};

/// How often a worker with nothing to do looks whether it missed something.
const LOOK: Duration = Duration::from_secs(2);
/// How long to wait for a server that is in trouble.
const AGAIN: Duration = Duration::from_secs(1);
/// How much of a goal or a reason fits into a line.
const LINE: usize = 100;
/// The exit code of a worker that was told to leave.
const INTERRUPTED: u8 = 130;

/// Who a worker is.
pub(super) struct Me {
    /// Its name, among all that ever were.
    pub(super) worker: String,
    /// Its machine.
    pub(super) host: String,
}

/// A worker at work.
pub(super) struct Shift<'a> {
    args: &'a WorkerArgs,
    sessions: Sessions,
    me: Me,
    callings: Callings<'a>,
    nats: Nats,
    client: Client,
    told: mpsc::UnboundedReceiver<Told>,
    news: Subscriber,
    queue: Watched,
    signals: Signals,
    /// When it was last looked whether something was missed.
    looked: Instant,
    /// The sessions that failed in a row.
    failures: Streak,
    /// What the server was in trouble with last: the same is told once.
    trouble: Option<Trouble>,
}

/// What a worker does next.
enum Next {
    Take(Box<Lot>),
    Wait,
    Leave(u8),
}

impl<'a> Shift<'a> {
    pub(super) async fn new(
        args: &'a WorkerArgs,
        root: &Path,
        me: Me,
        callings: Callings<'a>,
        nats: Nats,
        client: Client,
        told: mpsc::UnboundedReceiver<Told>,
    ) -> Result<Self> {
        let signals =
            Signals::listen().map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))?;
        let news = client.subscribe(subjects(&nats.prefix)).await;
        let news = news.map_err(|error| Trouble(format!("cannot subscribe: {error}")))?;
        let queue = watch(&client, &nats, args).await?;
        let sessions = Sessions::of(root);
        Ok(Self {
            args,
            sessions,
            me,
            callings,
            nats,
            client,
            told,
            news,
            queue,
            signals,
            looked: Instant::now(),
            failures: Streak::default(),
            trouble: None,
        })
    }

    /// Until there is nothing more to do, or somebody says so.
    pub(super) async fn work(mut self) -> Result {
        loop {
            let did = match self.next().await {
                Ok(Next::Leave(code)) => return Ok(code),
                Ok(Next::Wait) => Ok(None),
                Ok(Next::Take(lot)) => self.take(*lot).await,
                Err(trouble) => Err(Oddity::Trouble(trouble)),
            };
            match did {
                Ok(Some(code)) => return Ok(code),
                Ok(None) => {}
                Err(Oddity::Failure(failure)) => return Err(failure),
                Err(Oddity::Trouble(trouble)) => {
                    if self.trouble.as_ref() != Some(&trouble) {
                        say(&format!("creel: NATS: {trouble}; trying again"));
                    }
                    self.trouble = Some(trouble);
                    if let Some(code) = self.recover().await {
                        return Ok(code);
                    }
                }
            }
        }
    }

    /// Looks at everything anew, as soon as the server lets us.
    async fn recover(&mut self) -> Option<u8> {
        loop {
            tokio::select! {
                _ = self.signals.next() => return Some(INTERRUPTED),
                () = tokio::time::sleep(AGAIN) => {}
            }
            let watched = tokio::select! {
                _ = self.signals.next() => return Some(INTERRUPTED),
                watched = watch(&self.client, &self.nats, self.args) => watched,
            };
            match watched {
                Ok(queue) => {
                    self.queue = queue;
                    return None;
                }
                Err(trouble) => tracing::info!("nats: {trouble}"),
            }
        }
    }

    async fn next(&mut self) -> std::result::Result<Next, Trouble> {
        tokio::select! {
            biased;
            _ = self.signals.next() => return Ok(Next::Leave(INTERRUPTED)),
            readied = self.queue.ready_all() => readied?,
        }
        let Self { queue, callings, signals, .. } = self;
        // What was handed out just then is handed out again when its lease is over.
        let taken = tokio::select! {
            biased;
            _ = signals.next() => return Ok(Next::Leave(INTERRUPTED)),
            taken = queue.queue.line.take(|row| callings.agent_for(row).is_some()) => taken?,
        };
        if let Some(lot) = taken {
            return Ok(Next::Take(Box::new(lot)));
        }
        if self.args.drain && !self.has_more() {
            return Ok(Next::Leave(0));
        }
        tokio::select! {
            _ = self.signals.next() => return Ok(Next::Leave(INTERRUPTED)),
            changed = self.queue.changed() => changed?,
            told = self.told.recv() => hear(told)?,
            Some(message) = next(&mut self.news) => self.queue.queue.line.heard(&message.subject),
            () = tokio::time::sleep_until(self.looked + LOOK) => {
                self.looked = Instant::now();
                let Self { queue, callings, signals, .. } = self;
                tokio::select! {
                    biased;
                    _ = signals.next() => return Ok(Next::Leave(INTERRUPTED)),
                    mended = queue.mend(|order| callings.agent_for(&Row::of(order)).is_some()) => mended?,
                }
            }
        }
        Ok(Next::Wait)
    }

    /// Whether there is a task for this worker now, or may be when others have done theirs.
    fn has_more(&mut self) -> bool {
        let Self { queue, callings, .. } = self;
        queue.tasks().any(|task| queue.is_ahead(task) && callings.agent_for(&Row::of(&task.order)).is_some())
    }

    /// Has a task done. Gives an exit code if the worker is to leave.
    async fn take(&mut self, lot: Lot) -> std::result::Result<Option<u8>, Oddity> {
        let (board, key) = (self.queue.queue.board.clone(), Key::of(&lot.order));
        let ready = || Queued { standing: Standing::Ready, ..Queued::new(lot.order.clone(), now()) };
        // Another program may have put it into the line, past the board.
        let Seen { task, revision } = board.get(&key).await?.unwrap_or_else(|| Seen { task: ready(), revision: 0 });
        let agent = self.callings.agent_for(&Row::of(&task.order));
        let Some(agent) = agent.filter(|_| self.queue.queue.line.subject(&task.order) == lot.subject()) else {
            // Another task's name was put into the line. The task itself stands elsewhere, or will.
            lot.done().await?;
            return Ok(None);
        };
        let prompt = task.order.prompt(&self.before(&task).await?);
        let before = Before::of(&self.sessions, &task);
        let Some(folder) = before.folder() else {
            // Its worker is dead, or cut off, and the session is about to end.
            lot.back(AGAIN).await?;
            return Ok(None);
        };
        let Me { worker, host } = &self.me;
        let hand = Hand { worker: worker.clone(), host: host.clone(), session: folder.name.clone() };
        let task = match task.claimed(hand, now()) {
            Claim::Begin(task) => task,
            Claim::GivenUp(task) => {
                if let Some(revision) = board.write(&task, revision).await? {
                    self.tell(Seen { task, revision })?;
                }
                lot.done().await?;
                return Ok(None);
            }
            Claim::Nothing => {
                lot.done().await?;
                return Ok(None);
            }
        };
        let Some(revision) = board.write(&task, revision).await? else {
            // Whoever was faster may have taken it. Then it stays in the line until that one is silent for too long.
            if board.get(&key).await?.is_none_or(|seen| !matches!(seen.task.standing, Standing::Active { .. })) {
                lot.back(Duration::ZERO).await?;
            }
            return Ok(None);
        };
        self.tell(Seen { task: task.clone(), revision })?;
        self.trouble = None;
        let kind = task.order.kind.as_deref().and_then(|kind| self.callings.described(kind));
        let job = Job { args: self.args, prompt: &prompt, mark: task.mark(), kind, agent: &agent };
        let parting = self.have_done(before, &job, &lot).await;
        self.part(&task, &lot, parting).await
    }

    /// What the task waited for, as it is now: what is known here may be a moment old, and lack what came of it.
    async fn before(&self, task: &Queued) -> std::result::Result<Vec<Queued>, Trouble> {
        let mut before = Vec::new();
        for on in &task.order.dependencies {
            let seen = self.queue.queue.board.get(&Key::of(&task.order).sibling(on)).await?;
            before.extend(seen.map(|seen| seen.task));
        }
        Ok(before)
    }

    /// Runs the session of a task, and stays with it.
    async fn have_done(&mut self, before: Before, job: &Job<'_>, lot: &Lot) -> Parting {
        let started = match before {
            Before::Ended(_, upshot) => return Parting::Ended(End::Upshot(upshot, None)),
            Before::Nothing(folder) => Hired::begin(folder, job),
            Before::Begun(folder) => Hired::resume(folder, job),
            Before::Running => return Parting::Ended(End::Died),
        };
        match started {
            Ok(hired) => self.stay(hired, lot).await,
            Err(error) => {
                say(&format!("creel: no session can be started: {error}"));
                Parting::Ended(End::NeverBegan)
            }
        }
    }

    /// Stays with a session, and tells the server again and again that somebody does. Whatever the server does or does not
    /// do, the end of the session and signals are heard at once.
    async fn stay(&mut self, mut hired: Hired, lot: &Lot) -> Parting {
        let board = self.queue.queue.board.clone();
        let mut kept = std::pin::pin!(kept(lot, &board, &self.me.worker));
        let mut is_kept = true;
        let mut stopped: Option<Parting> = None;
        loop {
            tokio::select! {
                biased;
                end = hired.ended() => return match (stopped, end) {
                    (Some(Parting::Leaves(_)), End::Upshot(upshot, Some(outcome))) if outcome.is_by_itself() => {
                        Parting::Leaves(Some(upshot))
                    }
                    (stopped, end) => stopped.unwrap_or(Parting::Ended(end)),
                },
                _ = self.signals.next() => {
                    hired.stop();
                    stopped = Some(Parting::Leaves(None));
                }
                () = &mut kept, if is_kept => {
                    is_kept = false;
                    if stopped.is_none() {
                        hired.stop();
                        stopped = Some(Parting::TakenAway);
                    }
                }
                Some(message) = next(&mut self.news) => self.queue.queue.line.heard(&message.subject),
                () = self.queue.follow() => {}
            }
        }
    }

    /// Tells what became of a task.
    fn tell(&mut self, seen: Seen) -> Result<()> {
        if self.args.json {
            let line = serde_json::to_string(&seen.task).map_err(|error| Failure::failed(error.to_string()))?;
            print(&(line + "\n"))?;
        } else {
            say(&format!("creel: {}", line(&seen.task)));
        }
        self.queue.note(seen);
        Ok(())
    }
}

/// Tells the server again and again that somebody works on a task. Ends when the task is in other hands.
async fn kept(lot: &Lot, board: &Board, worker: &str) {
    let often = lot.lease / 3;
    let mut beat = tokio::time::interval(often);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        // A server that is away may be back before the lease is over.
        let _ = lot.keep().await;
        // A task that nobody knows is in no other hands: the server lost it, and what is begun may be of use.
        if let Ok(Ok(Some(seen))) = tokio::time::timeout(often, board.get(&Key::of(&lot.order))).await
            && !seen.task.is_in_hands_of(worker)
        {
            return;
        }
    }
}

/// The queue, from now on.
async fn watch(client: &Client, nats: &Nats, args: &WorkerArgs) -> std::result::Result<Watched, Trouble> {
    let jetstream = jetstream::new(client.clone());
    let queue = Queue::open(&jetstream, nats, args.lease.into()).await?;
    let mut watched = queue.watched().await?;
    watched.queue.line.look().await?;
    Ok(watched)
}

/// What the connection tells about itself.
fn hear(told: Option<Told>) -> std::result::Result<(), Trouble> {
    match told {
        Some(Told::Connected) => Ok(()),
        Some(Told::Lost) | None => Err(Trouble("the connection was lost".to_owned())),
        Some(Told::Refused(why)) => Err(Trouble(format!("the server refuses: {why}"))),
    }
}

fn line(task: &Queued) -> String {
    let short = |text: &str| first_line(&plain(text), LINE);
    let Queued { order, standing, attempt, .. } = task;
    let id = &order.id;
    match standing {
        Standing::Created => format!("task {id} waits"),
        Standing::Ready => format!("task {id} is back in the queue"),
        Standing::Active { by, .. } => {
            let again = if *attempt > 1 { format!(" (attempt {attempt})") } else { String::new() };
            format!("task {id}{again}: {}\n  in session {}", short(&order.goal), by.session)
        }
        Standing::Blocked { reason, .. } => format!("task {id} is blocked: {}", short(reason)),
        Standing::Completed { .. } => format!("task {id} is completed"),
        Standing::Removed => format!("task {id} is removed"),
    }
}

/// What went wrong: something that passes, or something that does not.
enum Oddity {
    Trouble(Trouble),
    Failure(Failure),
}

impl From<Trouble> for Oddity {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<Failure> for Oddity {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}
