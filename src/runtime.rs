//! The one loop: inputs go to the engine, its events to the journal, its effects into the world.
//!
//! Owns the order in which things happen. Decides nothing: what follows from an input is the engine's word.
//!
//! # Invariants
//! - Record, apply, perform: no effect happens before its event is on record.
//! - Whatever ends the loop, no process of the session is left running.

pub mod clock;
mod fallbacks;
mod gatekeepers;
pub mod handle;
mod perform;
pub mod session_processes;
mod turn_watch;
pub mod worktree;

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    agents::{self, Agent, AgentError, AgentHistory, AgentWorkspace},
    engine::{
        self, EngineOutput, SessionState,
        effect::{Effect, ExitReason},
        event::{Event, SessionEvent, SessionStarted},
        input::Input,
        tasks::{graph::TaskGraph, inherit::inherit},
    },
    hooks::HookWorkspace,
    journal::{Journal, JournalDamage, JournalError, Record, RecordTail, SessionDir},
    process::path_guard::PathGuard,
    runtime::session_processes::SessionProcesses,
};
/// The machine's clock. The session itself uses another time: see [`clock`].
pub use clock::wall_clock as now;
use clock::{session_time, sleep_until};
use fallbacks::FallbackAgents;
use gatekeepers::GatekeeperAgents;
pub use handle::{CommandRecords, HookOutputChunk, SessionHandle};
use handle::{JudgementWatcher, RuntimeInbox, RuntimeMessage};
use perform::EffectPerformer;

/// Why a session cannot begin or go on. The session itself is not lost: its journal tells how far it came.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The journal cannot be written or read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The agent cannot be used.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The session cannot be resumed.
    #[error("{0}")]
    Refused(String),
}

/// Where a session takes place.
#[derive(Debug, Clone)]
pub struct RuntimeDirs {
    /// The project's folder.
    pub cwd: PathBuf,
    /// Where a journal is saved whose folder was deleted.
    pub rescue: PathBuf,
}

/// A session that runs in this process.
pub struct SessionRuntime {
    state: SessionState,
    journal: Journal,
    scene: RuntimeDirs,
    inbox: RuntimeInbox,
    handle: SessionHandle,
    performer: EffectPerformer,
    /// The number of the last record. It wakes the readers of the session, which then read the journal.
    news: watch::Sender<u64>,
    /// The callers that wait for a judgement.
    judgements: Vec<JudgementWatcher>,
    /// How long the journal was when this process began.
    began_at: u64,
    left: Option<ExitReason>,
}

/// A session as it is at a moment, and every record that comes after.
#[derive(Debug)]
pub struct SessionFollower {
    /// The session so far.
    pub state: SessionState,
    /// The last record that is part of it.
    pub seq: u64,
    /// What comes after.
    pub records: RecordTail,
    /// The number of the last record. Ends with the session.
    pub news: watch::Receiver<u64>,
}

/// How a session left this process.
#[derive(Debug)]
pub struct RuntimeExit {
    /// Why.
    pub leave: ExitReason,
    /// The session as it was then.
    pub state: SessionState,
    /// Where the journal was saved, if its folder was deleted.
    pub rescued: Option<PathBuf>,
}

impl SessionRuntime {
    /// Begins a session. Nothing runs yet; if it cannot begin, nothing is left on disk.
    pub fn begin(began: SessionStarted, folder: &SessionDir, scene: RuntimeDirs) -> Result<Self, RuntimeError> {
        let at = session_time();
        let state = SessionState::new(&folder.name, began.clone(), at);
        let agent = start_agent(&state, folder, &scene, &[])?;
        let mut journal = Journal::create(folder)?;
        let records = journal.append(at, vec![Event::Session(SessionEvent::Started(Box::new(began)))])?;
        let gatekeepers = gatekeepers(&state, folder, &scene, BTreeMap::new());
        let fallbacks = fallbacks(&state, &gatekeepers, BTreeMap::new());
        let mut runtime = Self::new(state, journal, scene, (agent, gatekeepers, fallbacks));
        runtime.began_at = 0;
        runtime.publish(&records);
        Ok(runtime)
    }

    /// Goes on with a session; `resume` says how. What the dead creel left running must be gone already.
    pub fn resume(
        opened: crate::journal::OpenedJournal,
        resume: Input,
        scene: RuntimeDirs,
    ) -> Result<Self, RuntimeError> {
        let agent = start_agent(&opened.state, opened.journal.folder(), &scene, &opened.past_prompts)?;
        let gatekeepers = gatekeepers(&opened.state, opened.journal.folder(), &scene, opened.past_reviews);
        let fallbacks = fallbacks(&opened.state, &gatekeepers, opened.past_fallbacks);
        let torn = opened.journal.torn();
        let journal = opened.journal.take_up()?;
        let mut runtime = Self::new(opened.state, journal, scene, (agent, gatekeepers, fallbacks));
        if torn > 0 {
            let text = format!("the journal ended in the middle of a record; {torn} bytes were cut off");
            let _ = runtime.take(Input::Warned(text))?;
        }
        match runtime.take(resume)? {
            Err(refusal) => Err(RuntimeError::Refused(refusal)),
            Ok(_) => Ok(runtime),
        }
    }

    /// Takes over the tasks that another session has left open. Before it runs: its first prompt finds them there.
    pub fn take_over(&mut self, tasks: &TaskGraph) -> Result<(), RuntimeError> {
        self.commit(inherit(tasks)).map(drop)
    }

    fn new(
        state: SessionState,
        journal: Journal,
        scene: RuntimeDirs,
        agents: (Box<dyn Agent>, GatekeeperAgents, FallbackAgents),
    ) -> Self {
        let (handle, inbox) = handle::channel();
        let place = HookWorkspace {
            cwd: scene.cwd.clone(),
            session_dir: journal.folder().path.clone(),
            session_id: state.began.id.clone(),
            journal: journal.folder().journal(),
            mark: state.began.id.clone(),
        };
        let children = SessionProcesses::new(&state.began.id);
        let performer = EffectPerformer::new(place, agents, handle.clone(), children);
        let (began_at, news) = (journal.length(), watch::Sender::new(journal.seq()));
        let judgements = Vec::new();
        Self { state, journal, scene, inbox, handle, performer, news, judgements, began_at, left: None }
    }

    /// What others steer the session by.
    pub fn handle(&self) -> SessionHandle {
        self.handle.clone()
    }

    /// Somebody who knows the session as it is now, and misses nothing from here on.
    pub fn follow(&self) -> io::Result<SessionFollower> {
        let (seq, records) = (self.journal.seq(), self.journal.tail(self.journal.length())?);
        Ok(SessionFollower { state: self.state.clone(), seq, records, news: self.news() })
    }

    /// The records that this process writes, from the first.
    pub fn records(&self) -> io::Result<RecordTail> {
        self.journal.tail(self.began_at)
    }

    /// The number of the last record, for readers of the journal: a sign that there is more. It ends with the session.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// The processes of the session, for whoever has to end them at once.
    pub fn children(&self) -> SessionProcesses {
        self.performer.children()
    }

    /// Shows the output of hooks as it comes. What the receiver is too slow for is dropped: all of it is on disk.
    pub fn show_live(&mut self, live: mpsc::Sender<HookOutputChunk>) {
        self.performer.show_live(live);
    }

    /// Where any number of others can follow the output of hooks. Whoever is too slow misses some of it.
    pub fn live(&self) -> broadcast::Sender<HookOutputChunk> {
        self.performer.live()
    }

    /// Runs the session until it ends, or waits for a person who is not there.
    ///
    /// On a worker thread, wherever it is awaited: the loop and the tasks that it starts then mostly share a thread.
    /// On the thread that blocks on tokio, every hook and every turn would have to wake another thread, and be woken.
    pub async fn run(self) -> Result<RuntimeExit, RuntimeError> {
        let ran = AbortOnDropHandle::new(tokio::spawn(self.run_here())).await;
        // Nobody else can abort it, so an error is a panic, and goes on as one.
        ran.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    async fn run_here(mut self) -> Result<RuntimeExit, RuntimeError> {
        let ran = self.until_left().await;
        // The processes first: an error of the journal must not leave an agent behind.
        self.performer.shut_down().await;
        let leave = ran?;
        let rescued = self.rescue();
        Ok(RuntimeExit { leave, state: self.state, rescued })
    }

    async fn until_left(&mut self) -> Result<ExitReason, RuntimeError> {
        self.settle()?;
        while self.left.is_none() {
            let wake = self.state.next_wake();
            tokio::select! {
                message = self.inbox.next() => {
                    if self.performer.children().were_killed() {
                        // This process is about to go, as if it had been killed: nothing more has happened.
                        return std::future::pending().await;
                    }
                    self.on_message(message)?;
                }
                () = sleep_until(wake) => {}
            }
            self.settle()?;
        }
        Ok(self.left.unwrap_or(ExitReason::Ended))
    }

    fn on_message(&mut self, message: RuntimeMessage) -> Result<(), RuntimeError> {
        match message {
            RuntimeMessage::Input(mut input) => {
                self.look_after_the_journal(&mut input);
                let something_ended =
                    matches!(input, Input::HookFinished { .. } | Input::TurnEnded { .. } | Input::TurnFailed { .. });
                if let Err(refusal) = self.take(input)? {
                    tracing::debug!("{refusal}");
                }
                if something_ended {
                    self.look_after_the_folder()?;
                }
            }
            RuntimeMessage::Command { by, command, reply } => {
                let taken = self.take(Input::Command { by, command })?;
                // Whoever asked may be gone.
                let _ = reply.send(taken);
            }
            RuntimeMessage::Await(watcher) => self.judgements.push(watcher),
        }
        Ok(())
    }

    /// Reports what another program did to the journal, together with the end of the turn.
    fn look_after_the_journal(&mut self, input: &mut Input) {
        let forbidden = if let Input::TurnEnded { end, .. } = input {
            &mut end.forbidden
        } else if let Input::TurnFailed { failure, .. } = input {
            &mut *failure.forbidden
        } else {
            return;
        };
        if let Some(damage) = self.journal.take_damage() {
            let what = match damage {
                JournalDamage::Truncated => "truncated",
                JournalDamage::Written => "written to",
                JournalDamage::Replaced => "replaced",
            };
            let path = self.journal.folder().journal();
            let name = path.strip_prefix(&self.scene.cwd).unwrap_or(&path);
            forbidden.tampered.push(format!("{} ({what})", name.display()));
        }
    }

    /// A hook or an agent may delete anything, the project itself included.
    fn look_after_the_folder(&mut self) -> Result<(), RuntimeError> {
        let gone = if self.journal.is_deleted() {
            Some(format!("the session's folder {} was deleted", self.journal.folder().path.display()))
        } else if !self.scene.cwd.is_dir() {
            Some(format!("the project's folder {} was deleted", self.scene.cwd.display()))
        } else {
            None
        };
        if let Some(reason) = gone.filter(|_| self.state.ending.is_none()) {
            let _ = self.take(Input::Doomed(reason))?;
        }
        Ok(())
    }

    /// Goes on as far as the state allows.
    fn settle(&mut self) -> Result<(), RuntimeError> {
        while self.left.is_none() {
            let step = engine::decide(&self.state, session_time(), Input::Proceed);
            if step.is_empty() {
                break;
            }
            self.commit(step)?;
        }
        Ok(())
    }

    /// The records of what follows, or why nothing does.
    fn take(&mut self, input: Input) -> Result<Result<CommandRecords, String>, RuntimeError> {
        let mut step = engine::decide(&self.state, session_time(), input);
        let refusal = step.refusal.take();
        let records = self.commit(step)?;
        Ok(refusal.map_or(Ok(records), Err))
    }

    /// Record, apply, perform.
    fn commit(&mut self, step: EngineOutput) -> Result<CommandRecords, RuntimeError> {
        let mut records = CommandRecords::new();
        if !step.events.is_empty() {
            records = self.journal.append(session_time(), step.events)?;
            for record in &records {
                self.state.apply(record.at, &record.event);
            }
            self.publish(&records);
        }
        for effect in step.effects {
            if let Effect::Leave(leave) = effect {
                self.left = Some(leave);
            } else {
                self.performer.perform(effect);
            }
        }
        Ok(records)
    }

    fn publish(&mut self, records: &[Arc<Record>]) {
        for record in records {
            self.judgements.retain(|watcher| watcher.tell(record));
        }
        self.news.send_replace(self.journal.seq());
    }

    fn rescue(&mut self) -> Option<PathBuf> {
        if !self.journal.is_deleted() {
            return None;
        }
        std::fs::create_dir_all(&self.scene.rescue).ok()?;
        let copy = self.scene.rescue.join(format!("{}-{}.jsonl", self.state.name, self.state.began.id));
        self.journal.rescue(&copy).inspect_err(|error| tracing::error!("cannot save the journal: {error}")).ok()?;
        Some(copy)
    }
}

fn start_agent(
    state: &SessionState,
    folder: &SessionDir,
    scene: &RuntimeDirs,
    past: &[String],
) -> Result<Box<dyn Agent>, AgentError> {
    // What is known of the conversation belongs to the agent that works.
    let past = match state.limits.standing_in {
        None => AgentHistory {
            prompts: past,
            conversation: state.turns.conversation.as_deref(),
            tally: state.account.conversation,
        },
        Some(_) => AgentHistory { prompts: past, ..AgentHistory::default() },
    };
    agents::start(&state.plan().agent_spec, agent_place(state, folder, scene), past)
}

fn agent_place(state: &SessionState, folder: &SessionDir, scene: &RuntimeDirs) -> AgentWorkspace {
    AgentWorkspace {
        cwd: scene.cwd.clone(),
        session: state.name.clone(),
        session_dir: folder.path.clone(),
        mark: state.began.id.clone(),
        guard: Arc::new(path_guard(state, folder, scene)),
        goal: state.began.prompt.clone(),
        creel: std::env::current_exe().ok(),
    }
}

fn path_guard(state: &SessionState, folder: &SessionDir, scene: &RuntimeDirs) -> PathGuard {
    let config: Vec<PathBuf> = state.plan().config_files.iter().map(PathBuf::from).collect();
    PathGuard::new(&scene.cwd, &folder.path, &config, &state.plan().protect)
}

fn gatekeepers(
    state: &SessionState,
    folder: &SessionDir,
    scene: &RuntimeDirs,
    past: BTreeMap<String, Vec<String>>,
) -> GatekeeperAgents {
    GatekeeperAgents { known: state.plan().gatekeepers.clone(), place: agent_place(state, folder, scene), past }
}

fn fallbacks(
    state: &SessionState,
    gatekeepers: &GatekeeperAgents,
    past: BTreeMap<String, Vec<String>>,
) -> FallbackAgents {
    let working = state.limits.standing_in.clone();
    FallbackAgents {
        known: state.plan().limits.fallback.clone(),
        place: gatekeepers.place.clone(),
        past,
        working: working.map(|name| (name, state.turns.conversation.clone(), state.account.conversation)),
    }
}
