//! The home screen: all sessions of the user, those that need the user first, live.
//!
//! [`mod@update`] changes the [`model`] and returns requests, [`view`] draws it. What opens another
//! screen or starts a session ends this one: see [`HomeExit`].
//!
//! # Invariants
//! - While no session works and nothing changes, nothing is drawn and nothing wakes up.
//! - The terminal gets its own settings back, however the screen ends.

pub mod model;
pub mod new_session;
pub mod preview;
pub mod update;
pub mod view;

use std::{
    io,
    path::{Path, PathBuf},
};

use async_nats::{Client, jetstream};
use crossterm::event::{Event, KeyEvent};
use model::{HomeMemory, HomeModel, HomeScope, WorkerBoard};
use new_session::{NewSessionForm, StartPlace};
use tokio::sync::{mpsc, watch};
use update::{HomeEvent, update};

use super::{
    ScreenOptions,
    screen_terminal::{ScreenTerminal, SuspendResult, TerminalKeys, next_event, until_frame},
    theme::{ScreenTheme, ThemeRole},
};
use crate::{
    config::{self, NatsConfig, paths},
    engine::{event::StopTiming, input::SessionCommand, queue::QueueRequest, time::UnixTime},
    journal::SessionDir,
    nats::commands::NatsTransport,
    present::text::{local_zone, sentence_case},
    process::browser,
    protocol::WorkerOrder,
    queue::{LEASE, TaskQueue},
    report,
    runtime::{
        clock::{session_time, sleep_until},
        now,
    },
    sessions::{
        BlockedTaskKey, QueueKey, SessionFeed, SessionKey,
        queue_feed::QueueFeed,
        session_client::{CommandError, SessionAddress},
        session_store::{ProjectScope, SessionStore},
        stored_session::{self, RemovalPreview},
    },
};

/// Where the sessions are.
#[derive(Debug, Clone)]
pub enum HomeSource {
    Machine(ProjectScope),
    Fleet {
        client: Client,
        nats: Box<NatsConfig>,
    },
}

#[derive(Debug, Clone)]
pub struct HomeOptions {
    pub screen: ScreenOptions,
    pub source: HomeSource,
    /// The project of the folder in which creel was started.
    pub root: PathBuf,
    pub has_config: bool,
    /// The worker whose sessions these are. It stops when the screen closes, and the screen closes
    /// when it has ended.
    pub worker: Option<HomeWorker>,
}

/// The exit code of a worker, once it has ended.
pub type WorkerEnd = watch::Receiver<Option<u8>>;

/// A worker whose tasks and sessions the screen shows.
#[derive(Debug, Clone)]
pub struct HomeWorker {
    pub end: WorkerEnd,
    /// Takes orders for it.
    pub orders: std::sync::mpsc::Sender<WorkerOrder>,
    pub started: UnixTime,
    /// How many sessions it runs at once.
    pub jobs: usize,
    pub agents: Vec<String>,
    /// Whether it merges what is finished.
    pub merges: bool,
    /// Whether it ends when the queue has no task left.
    pub drains: bool,
}

/// A session to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionStart {
    pub root: PathBuf,
    /// Empty for the prompt of the config.
    pub prompt: String,
    /// None for the agent that creel takes by itself.
    pub agent: Option<String>,
}

/// What the user asks the home screen for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HomeRequest {
    Attach(SessionKey),
    Replay(SessionKey),
    Resume(SessionKey),
    Stop(SessionKey, StopTiming),
    /// Find out what a removal would delete, and ask.
    PrepareRemoval(SessionKey),
    Remove(SessionDir),
    /// Open the report of a session in the browser.
    Report(SessionKey),
    /// Ask for a new session, near this one.
    PrepareNew(Option<SessionKey>),
    Start(SessionStart),
    Demo,
    Init,
    /// Decide about a blocked task.
    Task(BlockedTaskKey, TaskDecision),
    /// Let the user type what the agent of a blocked task should know.
    AskForHint(BlockedTaskKey),
    /// Ask the worker for something.
    Order(WorkerOrder),
    /// Merge what is finished now.
    Merge,
    Redraw,
    Suspend,
    Quit,
}

/// What the user decides about a blocked task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskDecision {
    /// Start it again, with a hint for its agent.
    Start(Option<String>),
    Done,
    Remove,
}

/// Why the home screen closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HomeExit {
    Quit,
    /// The worker has ended.
    WorkerEnded,
    /// The terminal is gone, or a signal asks for the end.
    Gone,
    Attach(SessionKey),
    Replay(SessionKey),
    Resume(SessionKey),
    Start(SessionStart),
    Demo,
    Init,
}

/// Shows the sessions until the user chooses something that needs the terminal. `memory` is what
/// the last home screen showed.
pub async fn run(options: &HomeOptions, memory: &mut HomeMemory) -> io::Result<HomeExit> {
    let mut home = HomeScreen::open(options, memory)?;
    let left = home.follow().await;
    let HomeScreen {
        model, terminal, ..
    } = home;
    drop(terminal);
    *memory = model.remember();
    left
}

/// Waits until the worker has ended. Without one, for ever.
async fn ended(worker: &mut Option<WorkerEnd>) {
    match worker {
        Some(worker) => drop(worker.wait_for(Option::is_some).await),
        None => std::future::pending().await,
    }
}

struct HomeScreen<'a> {
    options: &'a HomeOptions,
    model: HomeModel,
    terminal: ScreenTerminal,
    feed: SessionFeed,
    queues: QueueFeed,
    /// Whether the first report of the feed is still to come.
    is_first: bool,
    /// The sessions that the feed has been asked to read.
    asked: Vec<SessionKey>,
    events: (
        mpsc::UnboundedSender<HomeEvent>,
        mpsc::UnboundedReceiver<HomeEvent>,
    ),
    exit: Option<HomeExit>,
}

impl<'a> HomeScreen<'a> {
    fn open(options: &'a HomeOptions, memory: &mut HomeMemory) -> io::Result<Self> {
        let shown = &options.screen;
        let (keymap, wrong) = shown.keys();
        let (scope, feed, queues) = match &options.source {
            HomeSource::Machine(scope) => (
                HomeScope::Machine,
                SessionFeed::start(SessionStore::new(scope.clone())),
                QueueFeed::start(scope.clone()),
            ),
            HomeSource::Fleet { client, nats } => (
                HomeScope::Fleet,
                SessionFeed::of_fleet(client.clone(), (**nats).clone()),
                QueueFeed::of_fleet(client.clone(), (**nats).clone()),
            ),
        };
        let mut model = HomeModel::new(keymap, shown.first_theme(), scope);
        (model.look.motion, model.look.signs, model.look.zone) =
            (shown.motion, shown.signs, local_zone());
        model.has_config = options.has_config;
        model.worker = options.worker.as_ref().map(WorkerBoard::of);
        // Another machine's home folder is not this one's.
        model.home_dir = std::env::var("HOME")
            .ok()
            .filter(|_| scope == HomeScope::Machine);
        model.now = session_time();
        model.restore(memory);
        if let Some(wrong) = wrong {
            model.say(ThemeRole::Warning, wrong);
        }
        let mut terminal = ScreenTerminal::open(shown)?;
        terminal.screen.set_title("creel".to_owned())?;
        model.size = terminal.screen.size()?;
        model.move_by(0);
        Ok(Self {
            options,
            model,
            terminal,
            feed,
            queues,
            is_first: true,
            asked: Vec::new(),
            events: mpsc::unbounded_channel(),
            exit: None,
        })
    }

    async fn follow(&mut self) -> io::Result<HomeExit> {
        let mut worker = self
            .options
            .worker
            .as_ref()
            .map(|worker| worker.end.clone());
        loop {
            if let Some(exit) = self.exit.take() {
                return Ok(exit);
            }
            self.model.now = session_time();
            self.draw_if_due()?;
            let tick = self.model.next_tick();
            let frame = self.terminal.next_frame();
            tokio::select! {
                event = next_event(&mut self.terminal.events) => match event {
                    Some(Ok(event)) => self.on_event(event)?,
                    // The terminal is gone.
                    Some(Err(_)) | None => return Ok(HomeExit::Gone),
                },
                Some(changes) = self.feed.next() => {
                    let is_first = std::mem::take(&mut self.is_first);
                    self.take(if is_first { HomeEvent::AllSessions(changes) } else { HomeEvent::Sessions(changes) })?;
                }
                Some(report) = self.queues.next() => self.take(HomeEvent::Queue(report))?,
                Some(event) = self.events.1.recv() => self.take(event)?,
                () = sleep_until(tick) => self.terminal.changed = true,
                () = until_frame(frame) => {}
                _ = self.terminal.signals.next() => return Ok(HomeExit::Gone),
                () = ended(&mut worker) => return Ok(HomeExit::WorkerEnded),
                () = self.terminal.stop_signal.next() => {
                    if self.terminal.stops() {
                        self.suspend()?;
                    }
                }
            }
        }
    }

    fn draw_if_due(&mut self) -> io::Result<()> {
        if !self.terminal.is_frame_due() {
            return Ok(());
        }
        let Self {
            model, terminal, ..
        } = self;
        terminal.draw(|frame| {
            view::prepare(model, frame.area());
            view::draw(model, frame.area(), frame.buffer_mut());
        })?;
        if let Some(key) = self.model.preview_to_read() {
            self.read_preview(key);
        }
        // Each is asked for once: one that cannot be read says so.
        let unread = self.model.unread_in_view();
        let unread: Vec<SessionKey> = unread
            .into_iter()
            .filter(|key| !self.asked.contains(key))
            .collect();
        if !unread.is_empty() {
            self.asked.extend(unread.iter().cloned());
            self.feed.read(unread);
        }
        Ok(())
    }

    fn on_event(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::Key(key) => self.on_keys(key),
            Event::Mouse(mouse) => self.take(HomeEvent::Mouse(mouse)),
            Event::Paste(text) => self.take(HomeEvent::Paste(text)),
            Event::Resize(width, height) => self.take(HomeEvent::Resize(width, height)),
            Event::FocusGained | Event::FocusLost => Ok(()),
        }
    }

    /// A key that may be part of the terminal's answer about its background.
    fn on_keys(&mut self, key: KeyEvent) -> io::Result<()> {
        match self.terminal.filter(key) {
            TerminalKeys::Keys(keys) => keys
                .into_iter()
                .try_for_each(|key| self.take(HomeEvent::Key(key))),
            TerminalKeys::Background(colour) => {
                self.model.look.theme = ScreenTheme::on_background(colour);
                self.terminal.changed = true;
                Ok(())
            }
        }
    }

    fn take(&mut self, event: HomeEvent) -> io::Result<()> {
        self.terminal.changed = true;
        for request in update(&mut self.model, event) {
            self.perform(request)?;
        }
        Ok(())
    }

    fn perform(&mut self, request: HomeRequest) -> io::Result<()> {
        match request {
            HomeRequest::Attach(key) => self.exit = Some(HomeExit::Attach(key)),
            HomeRequest::Replay(key) => self.exit = Some(HomeExit::Replay(key)),
            HomeRequest::Resume(key) => self.exit = Some(HomeExit::Resume(key)),
            HomeRequest::Start(start) => self.exit = Some(HomeExit::Start(start)),
            HomeRequest::Demo => self.exit = Some(HomeExit::Demo),
            HomeRequest::Init => self.exit = Some(HomeExit::Init),
            HomeRequest::Quit => self.exit = Some(HomeExit::Quit),
            HomeRequest::Redraw => self.terminal.screen.redraw(),
            HomeRequest::Suspend => self.suspend()?,
            HomeRequest::Stop(key, how) => self.stop(&key, how),
            HomeRequest::PrepareRemoval(key) => {
                if let Some(folder) = key.folder() {
                    self.in_background(move || match RemovalPreview::of(&folder) {
                        Ok(preview) => HomeEvent::Removal(preview),
                        Err(error) => HomeEvent::Toast(
                            ThemeRole::Bad,
                            format!("Cannot read {}: {error}", folder.path.display()),
                        ),
                    });
                }
            }
            HomeRequest::Remove(folder) => {
                self.in_background(move || match stored_session::remove(&folder) {
                    Ok(()) => {
                        HomeEvent::Toast(ThemeRole::Good, format!("{} is removed", folder.name))
                    }
                    Err(error) => HomeEvent::Toast(ThemeRole::Bad, error.to_string()),
                });
            }
            HomeRequest::Report(key) => {
                if let Some(folder) = key.folder() {
                    let events = self.events.0.clone();
                    tokio::spawn(async move { events.send(report(folder).await) });
                }
            }
            HomeRequest::Order(order) => {
                if let Some(worker) = &self.options.worker {
                    // Fails if it has ended, which closes this screen.
                    let _ = worker.orders.send(order);
                }
            }
            HomeRequest::Merge => {
                let (root, events) = (self.options.root.clone(), self.events.0.clone());
                tokio::spawn(async move { events.send(merge_now(&root).await) });
            }
            HomeRequest::Task(task, decision) => self.decide(task, decision),
            // The model asks by itself.
            HomeRequest::AskForHint(_) => {}
            HomeRequest::PrepareNew(near) => self.prepare_new(near.as_ref()),
        }
        Ok(())
    }

    /// Reads the last records of a session of this machine.
    fn read_preview(&self, key: SessionKey) {
        if let Some(folder) = key.folder() {
            self.in_background(move || {
                let lines = preview::last_lines(&folder.journal());
                HomeEvent::Preview(key, lines)
            });
        }
    }

    /// Does something that can take a moment, and tells the model what came of it.
    fn in_background(&self, work: impl FnOnce() -> HomeEvent + Send + 'static) {
        let events = self.events.0.clone();
        tokio::task::spawn_blocking(move || drop(events.send(work())));
    }

    fn stop(&self, key: &SessionKey, how: StopTiming) {
        let (name, session) = match (key, &self.options.source) {
            (SessionKey::There { name, id }, HomeSource::Fleet { client, nats }) => {
                let nats = NatsTransport::new(client.clone(), &nats.prefix, name, Some(id.clone()));
                (name.clone(), SessionAddress::Nats(Box::new(nats)))
            }
            (SessionKey::Here(_) | SessionKey::There { .. } | SessionKey::Task(_), _) => {
                match key.folder() {
                    Some(folder) => (folder.name.clone(), SessionAddress::Socket(folder)),
                    None => return,
                }
            }
        };
        let events = self.events.0.clone();
        tokio::spawn(async move {
            let stopped = session.command(SessionCommand::Stop { how }).await;
            let event = match (stopped, how) {
                (Ok(()), StopTiming::Now) => {
                    HomeEvent::Toast(ThemeRole::Good, format!("{name} stops now"))
                }
                (Ok(()), StopTiming::AfterIteration) => HomeEvent::Toast(
                    ThemeRole::Good,
                    format!("{name} stops after this iteration"),
                ),
                (Err(CommandError::Refused(why) | CommandError::Unanswered(why)), _) => {
                    HomeEvent::Toast(ThemeRole::Bad, why)
                }
            };
            let _ = events.send(event);
        });
    }

    fn decide(&self, task: BlockedTaskKey, decision: TaskDecision) {
        let events = self.events.0.clone();
        let server = match &self.options.source {
            HomeSource::Fleet { client, nats } => Some((client.clone(), (**nats).clone())),
            HomeSource::Machine(_) => None,
        };
        tokio::spawn(async move {
            let done = match &decision {
                TaskDecision::Start(_) => "is in the queue again",
                TaskDecision::Done => "is done",
                TaskDecision::Remove => "is removed",
            };
            let event = match decided(&task, decision, server).await {
                Ok(()) => HomeEvent::Toast(ThemeRole::Good, format!("Task {} {done}", task.task)),
                Err(why) => HomeEvent::TaskRefused(task.task.clone(), why),
            };
            let _ = events.send(event);
        });
    }

    /// Finds out where a session can start, and with which agents.
    fn prepare_new(&self, near: Option<&SessionKey>) {
        let near = near
            .and_then(SessionKey::folder)
            .map(|folder| folder.project().to_owned());
        let agent = self.model.chosen().map(|row| row.session.agent.clone());
        let others = self.model.rows().iter().filter_map(|row| row.key.folder());
        let others = others.map(|folder| folder.project().to_owned());
        let mut roots: Vec<PathBuf> = Vec::new();
        for root in near
            .into_iter()
            .chain([self.options.root.clone()])
            .chain(others)
        {
            if !roots.contains(&root) && root.is_dir() {
                roots.push(root);
            }
        }
        let home_dir = self.model.home_dir.clone();
        self.in_background(move || {
            let places = roots.iter().map(|root| place(root)).collect();
            match NewSessionForm::new(places, agent.as_deref(), home_dir) {
                Some(form) => HomeEvent::NewSession(Box::new(form)),
                None => HomeEvent::Toast(
                    ThemeRole::Bad,
                    "creel knows no folder for a new session".into(),
                ),
            }
        });
    }

    fn suspend(&mut self) -> io::Result<()> {
        let result = self.terminal.suspend()?;
        self.model.size = self.terminal.screen.size()?;
        self.model.move_by(0);
        if result == SuspendResult::NotPossible {
            self.model.say(
                ThemeRole::Warning,
                "Cannot suspend creel here: no shell could resume it",
            );
        }
        Ok(())
    }
}

/// Opens the report of a session in the browser.
async fn report(folder: SessionDir) -> HomeEvent {
    let written = tokio::task::spawn_blocking(move || report::write_page(&folder)).await;
    let page = match written {
        Ok(Ok(page)) => page,
        Ok(Err(error)) => {
            return HomeEvent::Toast(ThemeRole::Bad, format!("Cannot make the report: {error}"));
        }
        Err(_) => return HomeEvent::Toast(ThemeRole::Bad, "Cannot make the report".to_owned()),
    };
    match browser::open(&page).await {
        Ok(()) => HomeEvent::Toast(
            ThemeRole::Good,
            format!("The report is open in your browser: {}", page.display()),
        ),
        Err(why) => HomeEvent::Toast(
            ThemeRole::Warning,
            format!("The report is {}; {why}", page.display()),
        ),
    }
}

/// Does what the user decided about a task, in its queue.
async fn decided(
    task: &BlockedTaskKey,
    decision: TaskDecision,
    server: Option<(Client, NatsConfig)>,
) -> Result<(), String> {
    let mut queue = match (&task.queue, server) {
        (QueueKey::Project(root), _) if decision == TaskDecision::Done => {
            return hand_in(root, &task.task).await;
        }
        (QueueKey::Project(root), _) => TaskQueue::of_project(root, LEASE),
        (QueueKey::Named(name), Some((client, mut nats))) => {
            nats.queue = Some(name.clone());
            TaskQueue::of_server(&jetstream::new(client), &nats, LEASE).await
        }
        (QueueKey::Named(_), None) => return Err("the server is not known".to_owned()),
    }
    .map_err(|error| error.to_string())?;
    let request = match decision {
        TaskDecision::Start(context) => QueueRequest::Again { context },
        TaskDecision::Done => QueueRequest::Complete(None),
        TaskDecision::Remove => QueueRequest::Remove,
    };
    let asked = queue.ask(&task.key, &request, now()).await;
    asked.map(drop).map_err(|error| error.to_string())
}

/// Merges what is finished as `creel merge --queue` does. Says its last line.
async fn merge_now(root: &Path) -> HomeEvent {
    let ran = match std::env::current_exe() {
        Ok(program) => {
            tokio::process::Command::new(program)
                .args(["merge", "--queue"])
                .current_dir(root)
                .stdin(std::process::Stdio::null())
                .output()
                .await
        }
        Err(error) => Err(error),
    };
    match ran {
        Ok(ran) => {
            let output = String::from_utf8_lossy(&ran.stderr).into_owned();
            let last = output.lines().rev().find(|line| !line.trim().is_empty());
            let last = last.unwrap_or("nothing to merge").trim();
            let role = if ran.status.success() {
                ThemeRole::Good
            } else {
                ThemeRole::Warning
            };
            let words = last.strip_prefix("creel: ").unwrap_or(last);
            HomeEvent::Toast(role, sentence_case(words))
        }
        Err(error) => HomeEvent::Toast(ThemeRole::Bad, format!("Cannot merge: {error}")),
    }
}

/// Completes a task as `creel task done` does, which hands its branch in. Returns the whole reason if
/// creel refuses.
async fn hand_in(root: &Path, task: &str) -> Result<(), String> {
    let settings = paths::find(root)
        .and_then(|path| config::load(&path, paths::agents_file().as_deref()).ok());
    if settings.is_some_and(|settings| settings.servers.nats.is_some()) {
        return Err("this project's queue is on its server now: decide there".to_owned());
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let ran = tokio::process::Command::new(program)
        .args(["task", "done", "--queue", task])
        .current_dir(root)
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .map_err(|error| error.to_string())?;
    let output = String::from_utf8_lossy(&ran.stderr);
    let why = output.trim();
    if ran.status.success() {
        Ok(())
    } else {
        Err(why.strip_prefix("creel: ").unwrap_or(why).to_owned())
    }
}

/// The agents of a project: the one that creel takes by itself, then the others of its config.
fn place(root: &Path) -> StartPlace {
    let settings = paths::find(root)
        .and_then(|path| config::load(&path, paths::agents_file().as_deref()).ok());
    let mut agents: Vec<String> = settings
        .iter()
        .filter_map(|settings| settings.agent.clone())
        .collect();
    if agents.is_empty() {
        agents.push("the default".to_owned());
    }
    for name in settings.iter().flat_map(|settings| settings.agents.keys()) {
        if !agents.contains(name) {
            agents.push(name.clone());
        }
    }
    StartPlace {
        root: root.to_owned(),
        agents,
    }
}
