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
pub mod shutdown;
mod turn_watch;
pub mod worktree;

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    agents::{self, Agent, AgentError, AgentPlace, Past},
    engine::{
        self, State, Step,
        effect::{Effect, Leave},
        event::{Event, SessionStarted},
        input::Input,
        tasks::{graph::Graph, inherit::inherit},
    },
    hooks::Place,
    journal::{Folder, Journal, JournalDamage, JournalError, Record, RecordTail},
    process::path_guard::PathGuard,
};
/// The machine's clock. The session itself uses another time: see [`clock`].
pub use clock::wall_clock as now;
use clock::{session_time, sleep_until};
use fallbacks::FallbackAgents;
use gatekeepers::Gatekeepers;
pub use handle::{Handle, Live, Records};
use handle::{Inbox, JudgementWatcher, Message};
use perform::Performer;
use shutdown::Children;

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
pub struct Scene {
    /// The project's folder.
    pub cwd: PathBuf,
    /// Where a journal is saved whose folder was deleted.
    pub rescue: PathBuf,
}

/// A session that runs in this process.
pub struct Runtime {
    state: State,
    journal: Journal,
    scene: Scene,
    inbox: Inbox,
    handle: Handle,
    performer: Performer,
    /// The number of the last record. It wakes the readers of the session, which then read the journal.
    news: watch::Sender<u64>,
    /// The callers that wait for a judgement.
    judgements: Vec<JudgementWatcher>,
    /// How long the journal was when this process began.
    began_at: u64,
    left: Option<Leave>,
}

/// A session as it is at a moment, and every record that comes after.
#[derive(Debug)]
pub struct Follower {
    /// The session so far.
    pub state: State,
    /// The last record that is part of it.
    pub seq: u64,
    /// What comes after.
    pub records: RecordTail,
    /// The number of the last record. Ends with the session.
    pub news: watch::Receiver<u64>,
}

/// How a session left this process.
#[derive(Debug)]
pub struct Left {
    /// Why.
    pub leave: Leave,
    /// The session as it was then.
    pub state: State,
    /// Where the journal was saved, if its folder was deleted.
    pub rescued: Option<PathBuf>,
}

impl Runtime {
    /// Begins a session. Nothing runs yet; if it cannot begin, nothing is left on disk.
    pub fn begin(began: SessionStarted, folder: &Folder, scene: Scene) -> Result<Self, RuntimeError> {
        let at = session_time();
        let state = State::new(&folder.name, began.clone(), at);
        let agent = start_agent(&state, folder, &scene, &[])?;
        let mut journal = Journal::create(folder)?;
        let records = journal.append(at, vec![Event::SessionStarted(Box::new(began))])?;
        let gatekeepers = gatekeepers(&state, folder, &scene, BTreeMap::new());
        let fallbacks = fallbacks(&state, &gatekeepers, BTreeMap::new());
        let mut runtime = Self::new(state, journal, scene, (agent, gatekeepers, fallbacks));
        runtime.began_at = 0;
        runtime.publish(&records);
        Ok(runtime)
    }

    /// Goes on with a session; `resume` says how. What the dead creel left running must be gone already.
    pub fn resume(opened: crate::journal::Opened, resume: Input, scene: Scene) -> Result<Self, RuntimeError> {
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
    pub fn take_over(&mut self, tasks: &Graph) -> Result<(), RuntimeError> {
        self.commit(inherit(tasks)).map(drop)
    }

    fn new(
        state: State,
        journal: Journal,
        scene: Scene,
        agents: (Box<dyn Agent>, Gatekeepers, FallbackAgents),
    ) -> Self {
        let (handle, inbox) = handle::channel();
        let place = Place {
            cwd: scene.cwd.clone(),
            session_dir: journal.folder().path.clone(),
            session_id: state.began.id.clone(),
            journal: journal.folder().journal(),
            mark: state.began.id.clone(),
        };
        let children = Children::new(&state.began.id);
        let performer = Performer::new(place, agents, handle.clone(), children);
        let (began_at, news) = (journal.length(), watch::Sender::new(journal.seq()));
        let judgements = Vec::new();
        Self { state, journal, scene, inbox, handle, performer, news, judgements, began_at, left: None }
    }

    /// What others steer the session by.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Somebody who knows the session as it is now, and misses nothing from here on.
    pub fn follow(&self) -> io::Result<Follower> {
        let (seq, records) = (self.journal.seq(), self.journal.tail(self.journal.length())?);
        Ok(Follower { state: self.state.clone(), seq, records, news: self.news() })
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
    pub fn children(&self) -> Children {
        self.performer.children()
    }

    /// Shows the output of hooks as it comes. What the receiver is too slow for is dropped: all of it is on disk.
    pub fn show_live(&mut self, live: mpsc::Sender<Live>) {
        self.performer.show_live(live);
    }

    /// Where any number of others can follow the output of hooks. Whoever is too slow misses some of it.
    pub fn live(&self) -> broadcast::Sender<Live> {
        self.performer.live()
    }

    /// Runs the session until it ends, or waits for a person who is not there.
    ///
    /// On a worker thread, wherever it is awaited: the loop and the tasks that it starts then mostly share a thread.
    /// On the thread that blocks on tokio, every hook and every turn would have to wake another thread, and be woken.
    pub async fn run(self) -> Result<Left, RuntimeError> {
        let ran = AbortOnDropHandle::new(tokio::spawn(self.run_here())).await;
        // Nobody else can abort it, so an error is a panic, and goes on as one.
        ran.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    async fn run_here(mut self) -> Result<Left, RuntimeError> {
        let ran = self.until_left().await;
        // The processes first: an error of the journal must not leave an agent behind.
        self.performer.shut_down().await;
        let leave = ran?;
        let rescued = self.rescue();
        Ok(Left { leave, state: self.state, rescued })
    }

    async fn until_left(&mut self) -> Result<Leave, RuntimeError> {
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
        Ok(self.left.unwrap_or(Leave::Ended))
    }

    fn on_message(&mut self, message: Message) -> Result<(), RuntimeError> {
        match message {
            Message::Input(mut input) => {
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
            Message::Command { by, command, reply } => {
                let taken = self.take(Input::Command { by, command })?;
                // Whoever asked may be gone.
                let _ = reply.send(taken);
            }
            Message::Await(watcher) => self.judgements.push(watcher),
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
    fn take(&mut self, input: Input) -> Result<Result<Records, String>, RuntimeError> {
        let mut step = engine::decide(&self.state, session_time(), input);
        let refusal = step.refusal.take();
        let records = self.commit(step)?;
        Ok(refusal.map_or(Ok(records), Err))
    }

    /// Record, apply, perform.
    fn commit(&mut self, step: Step) -> Result<Records, RuntimeError> {
        let mut records = Records::new();
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

fn start_agent(state: &State, folder: &Folder, scene: &Scene, past: &[String]) -> Result<Box<dyn Agent>, AgentError> {
    // What is known of the conversation belongs to the agent that works.
    let past = match state.limits.standing_in {
        None => {
            Past { prompts: past, conversation: state.turns.conversation.as_deref(), tally: state.account.conversation }
        }
        Some(_) => Past { prompts: past, ..Past::default() },
    };
    agents::start(&state.plan().agent_spec, agent_place(state, folder, scene), past)
}

fn agent_place(state: &State, folder: &Folder, scene: &Scene) -> AgentPlace {
    AgentPlace {
        cwd: scene.cwd.clone(),
        session: state.name.clone(),
        session_dir: folder.path.clone(),
        mark: state.began.id.clone(),
        guard: Arc::new(path_guard(state, folder, scene)),
        goal: state.began.prompt.clone(),
        creel: std::env::current_exe().ok(),
    }
}

fn path_guard(state: &State, folder: &Folder, scene: &Scene) -> PathGuard {
    let config: Vec<PathBuf> = state.plan().config_files.iter().map(PathBuf::from).collect();
    PathGuard::new(&scene.cwd, &folder.path, &config, &state.plan().protect)
}

fn gatekeepers(state: &State, folder: &Folder, scene: &Scene, past: BTreeMap<String, Vec<String>>) -> Gatekeepers {
    Gatekeepers { known: state.plan().gatekeepers.clone(), place: agent_place(state, folder, scene), past }
}

fn fallbacks(state: &State, gatekeepers: &Gatekeepers, past: BTreeMap<String, Vec<String>>) -> FallbackAgents {
    let working = state.limits.standing_in.clone();
    FallbackAgents {
        known: state.plan().limits.fallback.clone(),
        place: gatekeepers.place.clone(),
        past,
        working: working.map(|name| (name, state.turns.conversation.clone(), state.account.conversation)),
    }
}
