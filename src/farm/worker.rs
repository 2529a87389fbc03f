//! A worker: takes tasks from a queue and runs a session for each, one after another or several at
//! once. It has a loop for each slot.
//!
//! A [`ScreenedWorker`] runs behind the home screen: its own process, which ends when the
//! screen does.
//!
//! # Invariants
//! - A task is acknowledged only after its result is in the queue's bucket. If the worker dies
//!   before, another worker gets the task.
//! - A worker that learns that another one has its task stops its session and reports nothing more
//!   about it.
//! - An unreachable server blocks no worker: the session continues, and the worker reports the
//!   result when the server is back.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    future::poll_fn,
    io::{self, Write as _},
    os::unix::{
        fs::OpenOptionsExt as _,
        process::{CommandExt as _, ExitStatusExt as _},
    },
    path::{Path, PathBuf},
    pin::Pin,
    process::{ChildStdin, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::Duration,
};

use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::{Notify, mpsc, watch};

use crate::{
    config::{NatsConfig, PlanError, PlanRequest, Settings},
    engine::{
        policy::SessionPlan,
        queue::{
            QueuedTask,
            worker_rules::{AvailableAgents, WorkerFilter},
        },
        time::TimeSpan,
    },
    farm::{
        FarmError,
        job_slots::{JobSlots, PauseOrder},
        open_place,
        worker_loop::{WorkerLoop, WorkerLoopEnd},
        worker_merger::WorkerMerger,
    },
    journal::session_dir::{PRIVATE_FILE, create_ignored},
    nats::presence::{ListedWorker, WorkerListEntry},
    protocol::{WorkerOrder, process_origin::user},
    queue::backend::DispatchGroup,
    worktrees::ProjectRepository,
};

/// What a worker does, and how it tells the user.
pub(crate) struct WorkerOptions {
    /// The requested types. Empty: all.
    pub(crate) types: Vec<String>,
    pub(crate) agent: Option<String>,
    /// For its sessions: the config and the server on the worker's command line.
    pub(crate) config: Option<PathBuf>,
    pub(crate) nats_url: Option<String>,
    /// Whether its sessions wait for the user at gates.
    pub(crate) attended: bool,
    pub(crate) jobs: usize,
    /// Whether the worker ends when the queue has no task left.
    pub(crate) drain: bool,
    pub(crate) lease: TimeSpan,
    /// Whether its sessions print their events.
    pub(crate) shows_sessions: bool,
    /// Prints a message for the user.
    pub(crate) say: fn(&str),
    /// Prints a change of a task.
    pub(crate) report: fn(&QueuedTask) -> Result<(), FarmError>,
}

impl WorkerOptions {
    pub(crate) fn filter(&self) -> WorkerFilter<'_> {
        WorkerFilter {
            types: &self.types,
            agent: self.agent.as_deref(),
        }
    }
}

pub(crate) struct WorkerIdentity {
    /// Unique among all workers.
    pub(crate) worker: String,
    pub(crate) host: String,
}

/// Where a worker works.
pub(crate) struct WorkerSite {
    /// The project's folder.
    pub(crate) root: PathBuf,
    /// Set if each session has a worktree.
    pub(crate) repository: Option<ProjectRepository>,
    /// The remote of the repository.
    pub(crate) remote: Option<String>,
    /// The branch that work is merged into, if the config names it.
    pub(crate) base: Option<String>,
    /// How many times a task is sent back before it is blocked.
    pub(crate) attempts: u32,
    /// Whether the work of a completed task is submitted.
    pub(crate) submits: bool,
}

type LoopFuture<'a> = Pin<Box<dyn Future<Output = Result<WorkerLoopEnd, FarmError>> + 'a>>;

/// What all loops of a worker share.
pub(crate) struct WorkerCrew<'a> {
    pub(crate) options: &'a WorkerOptions,
    pub(crate) settings: &'a Settings,
    pub(crate) site: WorkerSite,
    pub(crate) nats: Option<NatsConfig>,
    pub(crate) me: WorkerIdentity,
    pub(crate) slots: JobSlots,
    /// The agents that work on its tasks.
    pub(crate) agents: Vec<String>,
    /// A loop has opened the queue.
    pub(crate) opened: Notify,
    /// Set if it merges what is finished.
    pub(crate) merger: Option<WorkerMerger>,
    /// What its screen asks for. None without a screen.
    pub(crate) orders: Option<mpsc::UnboundedReceiver<WorkerOrder>>,
}

impl WorkerCrew<'_> {
    /// Works, and reports to the server what it can do and does.
    pub(crate) async fn work_listed(&mut self) -> Result<u8, FarmError> {
        let orders = self.orders.take();
        let crew = &*self;
        tokio::select! {
            ended = crew.work_and_report() => ended,
            () = crew.obey(orders) => unreachable!("the worker's screen may ask for more"),
        }
    }

    /// Does what the user asks for on the worker's screen.
    async fn obey(&self, orders: Option<mpsc::UnboundedReceiver<WorkerOrder>>) {
        let Some(mut orders) = orders else {
            return std::future::pending().await;
        };
        while let Some(order) = orders.recv().await {
            match order {
                WorkerOrder::Pause => self.slots.set_paused(PauseOrder::Pause),
                WorkerOrder::Unpause => self.slots.set_paused(PauseOrder::Unpause),
                WorkerOrder::Drain => self.slots.drain(),
                WorkerOrder::Finish => self.slots.close(),
            }
        }
        std::future::pending::<()>().await;
    }

    async fn work_and_report(&self) -> Result<u8, FarmError> {
        let Some(nats) = &self.nats else {
            return self.work().await;
        };
        let mut entry = None;
        let listed = async {
            // A worker is listed when it can take tasks.
            self.opened.notified().await;
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
            jobs: self.options.jobs,
            working,
            waiting,
            types: self.options.types.clone(),
            agents: self.agents.clone(),
            seen: String::new(),
        }
    }

    async fn work(&self) -> Result<u8, FarmError> {
        let worked = self.work_on_tasks();
        match &self.merger {
            Some(merger) => merger.run_with(worked, || self.slots.close()).await,
            None => worked.await,
        }
    }

    /// Works until there are no more tasks, a signal arrives, or a loop fails. Sessions that run
    /// then are finished.
    async fn work_on_tasks(&self) -> Result<u8, FarmError> {
        let mut loops: Vec<LoopFuture<'_>> = Vec::new();
        let (mut started, mut ended): (usize, Option<Result<WorkerLoopEnd, FarmError>>) = (0, None);
        loop {
            while ended.is_none() && loops.len() < self.slots.loops() {
                started += 1;
                loops.push(Box::pin(self.one_loop(started)));
            }
            if loops.is_empty() {
                let Some(end) = ended.transpose()? else {
                    return Ok(0);
                };
                if let Some(message) = end.message {
                    (self.options.say)(&format!("creel: {message}"));
                }
                return Ok(end.code);
            }
            tokio::select! {
                result = next(&mut loops) => {
                    // The others take no more tasks. One that has no task left says nothing about
                    // them.
                    let has_no_more = matches!(&result, Ok(end) if end.has_no_more());
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

    async fn one_loop(&self, number: usize) -> Result<WorkerLoopEnd, FarmError> {
        let place = open_place(self.nats.as_ref(), &self.site.root).await?;
        let me = WorkerIdentity {
            worker: format!("{}-{number}", self.me.worker),
            host: self.me.host.clone(),
        };
        let eligibility = Eligibility::new(self.settings, self.options.filter());
        let worker_loop = WorkerLoop::new(
            self.options,
            &self.site,
            me,
            eligibility,
            place,
            (&self.slots, self.merger.as_ref()),
        )
        .await?;
        self.opened.notify_one();
        if number == 1 {
            worker_loop.say_notice();
            worker_loop.clear_leftovers().await;
        }
        worker_loop.work().await
    }
}

/// The result of the first loop that ends.
async fn next(loops: &mut Vec<LoopFuture<'_>>) -> Result<WorkerLoopEnd, FarmError> {
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

/// Which tasks the config allows this worker to run, and with which agent. Which of them the worker
/// takes is decided in [`crate::engine::queue::worker_rules`].
pub(crate) struct Eligibility<'a> {
    settings: &'a Settings,
    filter: WorkerFilter<'a>,
    /// The agent for each group, as far as known. `None`: not for this worker.
    known: BTreeMap<DispatchGroup, Option<String>>,
}

impl<'a> Eligibility<'a> {
    pub(crate) fn new(settings: &'a Settings, filter: WorkerFilter<'a>) -> Self {
        Self {
            settings,
            filter,
            known: BTreeMap::new(),
        }
    }

    /// The plans for the requested or configured task types. Fails if there are none.
    pub(crate) fn plans(&self) -> Result<Vec<SessionPlan>, PlanError> {
        if !self.filter.types.is_empty() {
            return self
                .filter
                .types
                .iter()
                .map(|kind| self.plan_of(self.described(kind)))
                .collect();
        }
        let untyped = self.settings.plan(PlanRequest {
            agent: self.filter.agent,
            ..PlanRequest::default()
        });
        let typed = self
            .settings
            .task_types
            .keys()
            .filter_map(|kind| self.plan_of(Some(kind)).ok());
        let typed: Vec<SessionPlan> = typed.collect();
        match untyped {
            Err(error) if typed.is_empty() => Err(error),
            untyped => Ok(untyped.into_iter().chain(typed).collect()),
        }
    }

    /// The type, if the config defines types. Otherwise types are only labels.
    pub(super) fn described<'b>(&self, kind: &'b str) -> Option<&'b str> {
        (!self.settings.task_types.is_empty()).then_some(kind)
    }

    /// The agent for the tasks of a group. `None` if they are not for this worker.
    pub(super) fn agent_for(&mut self, row: &DispatchGroup) -> Option<String> {
        if let Some(known) = self.known.get(row) {
            return known.clone();
        }
        let agent = self.find(row, |_| true);
        self.known.insert(row.clone(), agent.clone());
        agent
    }

    /// The same, but only an agent that can have another session.
    pub(super) fn agent_with_room(
        &mut self,
        row: &DispatchGroup,
        has_room: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let usual = self.agent_for(row)?;
        if has_room(&usual) {
            return Some(usual);
        }
        self.find(row, has_room)
    }

    fn find(&self, row: &DispatchGroup, has_room: impl Fn(&str) -> bool) -> Option<String> {
        let kind = row.kind.as_deref().and_then(|kind| self.described(kind));
        let usual = self.plan_of(kind).ok().map(|plan| plan.agent);
        let can = |agent: &str| {
            self.settings
                .plan(PlanRequest {
                    agent: Some(agent),
                    task_type: kind,
                    ..PlanRequest::default()
                })
                .is_ok()
                && has_room(agent)
        };
        self.filter.agent_for(
            row.kind.as_deref(),
            &row.agents,
            &AvailableAgents {
                usual: usual.as_deref(),
                can,
            },
        )
    }

    /// The plan for a type: with the requested agent, otherwise the config's, otherwise another one
    /// that the type allows.
    fn plan_of(&self, kind: Option<&str>) -> Result<SessionPlan, PlanError> {
        let with = |agent| {
            self.settings.plan(PlanRequest {
                agent,
                task_type: kind,
                ..PlanRequest::default()
            })
        };
        let usual = with(self.filter.agent);
        if usual.is_ok() || self.filter.agent.is_some() {
            return usual;
        }
        let of_type = kind.and_then(|kind| self.settings.task_types.get(kind));
        let allowed = of_type
            .and_then(|of_type| of_type.implementers())
            .unwrap_or_default();
        allowed
            .iter()
            .find_map(|agent| with(Some(agent)).ok())
            .map_or(usual, Ok)
    }
}

/// How often creel looks whether a worker that it stops has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The exit code after a signal.
const STOPPED: u8 = 130;
/// How many of its last lines a user sees.
const LAST_LINES: usize = 8;

/// What the screen of a worker says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownWorker {
    pub jobs: usize,
    pub agents: Vec<String>,
    /// Whether it merges what is finished.
    pub merges: bool,
    /// Whether it ends when the queue has no task left.
    pub drains: bool,
}

/// A worker that runs while the home screen shows its sessions.
pub(crate) struct ScreenedWorker {
    end: watch::Receiver<Option<u8>>,
    /// The worker ends when this is closed.
    stdin: Arc<Mutex<Option<ChildStdin>>>,
    log: PathBuf,
    /// Where its lines begin in the log.
    from: u64,
}

impl ScreenedWorker {
    /// Starts the same command again, without a terminal.
    pub(crate) fn start(root: &Path) -> io::Result<Self> {
        let folder = root.join(".creel/queue");
        let log = folder.join("worker.log");
        create_ignored(&folder)?;
        // The home screen watches it from the start.
        create_ignored(&root.join(".creel/sessions"))?;
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(PRIVATE_FILE)
            .open(&log)?;
        let from = file.metadata()?.len();
        let mut child = Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .arg("--behind-screen")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()?;
        let stdin = child.stdin.take();
        let (sender, end) = watch::channel(None);
        std::thread::spawn(move || sender.send(Some(child.wait().map_or(1, code))));
        Ok(Self {
            end,
            stdin: Arc::new(Mutex::new(stdin)),
            log,
            from,
        })
    }

    /// Takes orders for it.
    pub(crate) fn orders(&self) -> std::sync::mpsc::Sender<WorkerOrder> {
        let (sender, orders) = std::sync::mpsc::channel::<WorkerOrder>();
        let stdin = Arc::clone(&self.stdin);
        std::thread::spawn(move || {
            for order in orders {
                give(&stdin, order);
            }
        });
        sender
    }

    /// Its exit code, once it has ended.
    pub(crate) fn end(&self) -> watch::Receiver<Option<u8>> {
        self.end.clone()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// Stops it, and waits until it has ended: its tasks go back to the queue.
    pub(crate) fn stop(&mut self) -> u8 {
        drop(
            self.stdin
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        loop {
            if let Some(code) = *self.end.borrow() {
                return code;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// The last lines that it printed.
    pub(crate) fn last_lines(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let from = usize::try_from(self.from).unwrap_or(0).min(text.len());
        let text = String::from_utf8_lossy(&text[from..]).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}

/// Gives a worker behind a screen an order. One that has ended reads nothing more.
fn give(stdin: &Mutex<Option<ChildStdin>>, order: WorkerOrder) {
    let mut stdin = stdin.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(stdin) = stdin.as_mut()
        && let Err(error) = writeln!(stdin, "{}", order.line())
    {
        tracing::info!("the worker takes no order: {error}");
    }
}

fn code(status: ExitStatus) -> u8 {
    // A worker that has just started has no other way to end at a signal.
    let stopped = || (status.signal() == Some(Signal::TERM.as_raw())).then_some(STOPPED);
    status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .or_else(stopped)
        .unwrap_or(1)
}

/// Behind a screen: returns what the user asks for there, and ends this worker in order when the
/// screen is gone, however that ended.
pub(crate) fn end_with_screen() -> mpsc::UnboundedReceiver<WorkerOrder> {
    let (sender, orders) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let lines = io::stdin().lines().map_while(Result::ok);
        for order in lines.filter_map(|line| WorkerOrder::of_line(&line)) {
            // Fails if the worker ends already.
            let _ = sender.send(order);
        }
        let _ = kill_process(getpid(), Signal::TERM);
    });
    orders
}
