//! The session's loop: inputs go to the engine, its events to the journal, and its effects are
//! performed.
//!
//! Owns the order in which things happen. Decides nothing: the engine decides what follows from an
//! input.
//!
//! # Invariants
//! - Record, apply, perform: no effect happens before its event is recorded.
//! - However the loop ends, no process of the session is left running.

pub mod clock;
pub mod handle;
mod journal_note;
mod other_agents;
mod perform;
mod turn_watch;
pub mod worktree;
mod worktree_watcher;

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    agents::{self, Agent, AgentError, AgentHistory, AgentWorkspace, limit_call, mask_call},
    engine::{
        self, SessionState,
        actor::{Actor, ActorKind},
        conversation::ForbiddenChanges,
        effect::{Effect, ExitReason, FileComparison},
        event::{Event, SessionEvent, SessionOutcome, SessionStarted},
        input::{Input, SessionCommand},
        output::EngineOutput,
        policy::EvidencePolicy,
        refusal::Refusal,
        tasks::{graph::TaskGraph, task_rules::inherit},
        verify::WorkMeasurement,
    },
    hooks::{HookWorkspace, builtin::can_submit},
    journal::{Journal, JournalDamage, JournalError, Record, RecordTail, SessionDir},
    process::{path_guard::PathGuard, process_table, secrets, sweep},
    runtime::{
        handle::SessionProcesses,
        other_agents::{FallbackAgents, GatekeeperAgents, WorkingFallback},
    },
};

/// The machine's clock. The session itself uses a different one: see [`clock`].
pub use clock::wall_clock as now;
use clock::{session_time, sleep_until};
pub use handle::{CommandRecords, HookOutputChunk, SessionHandle};
use handle::{JudgementWatcher, RuntimeInbox, RuntimeMessage};
use perform::EffectPerformer;

/// Why a session cannot start or continue. It is not lost: its journal has everything up to this
/// point.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("the session refused: {}", .0.code())]
    Refused(Refusal),
}

#[derive(Debug, Clone)]
pub struct RuntimeDirs {
    pub cwd: PathBuf,
    /// Where creel saves the journal if the session's folder was deleted.
    pub rescue: PathBuf,
    /// The user's own prices of models.
    pub prices: Option<PathBuf>,
}

pub struct SessionRuntime {
    state: SessionState,
    journal: Journal,
    dirs: RuntimeDirs,
    inbox: RuntimeInbox,
    handle: SessionHandle,
    performer: EffectPerformer,
    /// The number of the last record. A change wakes the readers of the session, which then read
    /// the journal.
    news: watch::Sender<u64>,
    judgements: Vec<JudgementWatcher>,
    /// What changed in the work, until the engine has used it.
    measured: Option<WorkMeasurement>,
    /// What the last comparison of files was for, and what it found.
    compared: Option<(FileComparison, ForbiddenChanges)>,
    /// The journal's length in bytes when this process took over.
    began_at: u64,
    left: Option<ExitReason>,
}

/// The state of a session at a moment, and a reader for every later record.
#[derive(Debug)]
pub struct SessionFollower {
    pub state: SessionState,
    /// The number of the last record in `state`.
    pub seq: u64,
    pub records: RecordTail,
    /// The number of the last record. Closes when the session ends.
    pub news: watch::Receiver<u64>,
}

#[derive(Debug)]
pub struct RuntimeExit {
    pub leave: ExitReason,
    pub state: SessionState,
    /// Where the journal was saved, if its folder was deleted.
    pub rescued: Option<PathBuf>,
}

impl SessionRuntime {
    /// Prepares a new session; [`Self::run`] runs it. On an error, nothing is left on disk.
    pub fn begin(
        began: SessionStarted,
        folder: &SessionDir,
        dirs: RuntimeDirs,
    ) -> Result<Self, RuntimeError> {
        let mut runtime = Self::begin_for_screen(began, folder, dirs)?;
        runtime.journal.sync_beginning()?;
        Ok(runtime)
    }

    /// Like [`Self::begin`], but [`Self::run`] syncs the new journal, so that a screen can open
    /// meanwhile.
    pub fn begin_for_screen(
        began: SessionStarted,
        folder: &SessionDir,
        dirs: RuntimeDirs,
    ) -> Result<Self, RuntimeError> {
        let at = session_time();
        let state = SessionState::new(&folder.name, began.clone(), at);
        let agent = start_agent(&state, folder, &dirs, &[])?;
        let mut journal = Journal::create(folder)?;
        let records = journal.append(
            at,
            vec![Event::Session(SessionEvent::Started(Box::new(began)))],
        )?;
        let gatekeepers = gatekeepers(&state, folder, &dirs, BTreeMap::new());
        let fallbacks = fallbacks(&state, &gatekeepers, BTreeMap::new());
        let mut runtime = Self::new(state, journal, dirs, (agent, gatekeepers, fallbacks));
        runtime.began_at = 0;
        runtime.publish(&records);
        runtime.announce();
        Ok(runtime)
    }

    /// Continues a session as `resume` says. The caller must first have ended the processes that
    /// the dead creel left running.
    pub fn resume(
        opened: crate::journal::OpenedJournal,
        resume: Input,
        dirs: RuntimeDirs,
    ) -> Result<Self, RuntimeError> {
        let agent = start_agent(
            &opened.state,
            opened.journal.folder(),
            &dirs,
            &opened.past_prompts,
        )?;
        let gatekeepers = gatekeepers(
            &opened.state,
            opened.journal.folder(),
            &dirs,
            opened.past_reviews,
        );
        let fallbacks = fallbacks(&opened.state, &gatekeepers, opened.past_fallbacks);
        let torn = opened.journal.torn();
        let journal = opened.journal.take_up()?;
        let mut runtime = Self::new(opened.state, journal, dirs, (agent, gatekeepers, fallbacks));
        if torn > 0 {
            let text =
                format!("the journal ended in the middle of a record; creel cut off {torn} B");
            let _ = runtime.take(Input::Warned(text))?;
        }
        match runtime.take(resume)? {
            Err(refusal) => Err(RuntimeError::Refused(refusal)),
            Ok(_) => Ok(runtime),
        }
    }

    /// Takes over another session's open tasks. Call it before [`Self::run`], so that the first
    /// prompt includes them.
    pub fn take_over(&mut self, tasks: &TaskGraph) -> Result<(), RuntimeError> {
        self.commit(inherit(tasks)).map(drop)
    }

    fn new(
        state: SessionState,
        journal: Journal,
        dirs: RuntimeDirs,
        agents: (Box<dyn Agent>, GatekeeperAgents, FallbackAgents),
    ) -> Self {
        let (handle, inbox) = handle::channel();
        process_table::name_session_process();
        secrets::use_patterns(&state.plan().access.mask);
        let place = HookWorkspace {
            cwd: dirs.cwd.clone(),
            session_dir: journal.folder().path.clone(),
            session_id: state.began.id.clone(),
            journal: journal.folder().journal(),
            mark: sweep::session_mark(&state.began.id),
        };
        let children = SessionProcesses::new(&state.began.id);
        let performer = EffectPerformer::new(place, agents, handle.clone(), children);
        let (began_at, news) = (journal.length(), watch::Sender::new(journal.seq()));
        let judgements = Vec::new();
        Self {
            state,
            journal,
            dirs,
            inbox,
            handle,
            performer,
            news,
            judgements,
            measured: None,
            compared: None,
            began_at,
            left: None,
        }
    }

    pub fn handle(&self) -> SessionHandle {
        self.handle.clone()
    }

    /// The session's id.
    pub fn id(&self) -> &str {
        &self.state.began.id
    }

    /// The current state and every record from here on.
    pub fn follow(&self) -> io::Result<SessionFollower> {
        let (seq, records) = (
            self.journal.seq(),
            self.journal.tail(self.journal.length())?,
        );
        Ok(SessionFollower {
            state: self.state.clone(),
            seq,
            records,
            news: self.news(),
        })
    }

    /// All records that this process writes.
    pub fn records(&self) -> io::Result<RecordTail> {
        self.journal.tail(self.began_at)
    }

    /// The offset in the journal of the first record that this process writes.
    pub const fn began_at(&self) -> u64 {
        self.began_at
    }

    /// The number of the last record, which tells readers of the journal that there is more. Closes
    /// when the session ends.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// The session's processes, for a caller that has to kill them at once.
    pub fn children(&self) -> SessionProcesses {
        self.performer.children()
    }

    /// Sends hook output to `live` as it is printed. Chunks that the receiver is too slow for are
    /// dropped; the files on disk have everything.
    pub fn show_live(&mut self, live: mpsc::Sender<HookOutputChunk>) {
        self.performer.show_live(live);
    }

    /// Any number of receivers can subscribe to hook output here. A slow receiver misses some of
    /// it.
    pub fn live(&self) -> broadcast::Sender<HookOutputChunk> {
        self.performer.live()
    }

    /// Runs the session until it ends, or until it needs a person while unattended.
    ///
    /// Spawned on a worker thread, so that the loop and the tasks it starts mostly share a thread.
    /// On the thread that blocks on tokio, every hook and every turn would have to wake another
    /// thread.
    pub async fn run(self) -> Result<RuntimeExit, RuntimeError> {
        let ran = AbortOnDropHandle::new(tokio::spawn(self.run_here())).await;
        // No other code can abort the task, so an error is a panic. Continue the panic here.
        ran.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    async fn run_here(mut self) -> Result<RuntimeExit, RuntimeError> {
        let ran = self.until_left().await;
        // End the processes first: a journal error must not leave an agent running.
        self.performer.shut_down().await;
        let leave = ran?;
        self.journal.finish(&self.state);
        if leave == ExitReason::Ended && self.state.plan().evidence == EvidencePolicy::Note {
            journal_note::add(&self.dirs.cwd, self.journal.folder());
        }
        let rescued = self.rescue();
        Ok(RuntimeExit {
            leave,
            state: self.state,
            rescued,
        })
    }

    async fn until_left(&mut self) -> Result<ExitReason, RuntimeError> {
        self.journal.sync_beginning()?;
        self.settle().await?;
        while self.left.is_none() {
            let wake = self.state.next_wake();
            // A call to the forge that is due is in progress until its answer comes.
            let calls = self.performer.calls_forge();
            let wake = wake.filter(|at| !calls || *at > session_time());
            tokio::select! {
                message = self.inbox.next() => {
                    if self.performer.children().were_killed() {
                        // All processes were killed and this one is about to exit. Record nothing
                        // more, as after a `kill -9`.
                        return std::future::pending().await;
                    }
                    self.on_message(message)?;
                }
                () = sleep_until(wake) => {}
            }
            self.settle().await?;
        }
        Ok(self.left.unwrap_or(ExitReason::Ended))
    }

    fn on_message(&mut self, message: RuntimeMessage) -> Result<(), RuntimeError> {
        match message {
            // An answer to the loop itself, which may lead to the end of the session.
            RuntimeMessage::Input(Input::WorkMeasured(measured)) => {
                self.performer.end_measurement();
                self.measured = Some(measured);
            }
            RuntimeMessage::Compared(before, found) => {
                self.performer.end_comparison();
                self.compared = Some((before, found));
            }
            RuntimeMessage::Input(mut input) => {
                if matches!(input, Input::ForgeRead { .. } | Input::NewsAnswered { .. }) {
                    self.performer.end_forge_call();
                }
                self.report_journal_damage(&mut input);
                let something_ended = matches!(
                    input,
                    Input::HookFinished { .. } | Input::TurnEnded { .. } | Input::TurnFailed { .. }
                );
                if let Err(refusal) = self.take(input)? {
                    tracing::debug!("refused: {}", refusal.code());
                }
                if something_ended {
                    self.look_after_the_folder()?;
                }
            }
            RuntimeMessage::Command {
                by,
                mut command,
                reply,
            } => {
                if let SessionCommand::ToolEnded { call } = &mut command {
                    limit_call(call);
                    mask_call(call);
                }
                let command = masked_command(&by, command);
                let taken = self.take(Input::Command { by, command })?;
                // The next query of the client must show what the command did.
                self.announce();
                // The caller can be gone already, so a failed send is ignored.
                let _ = reply.send(taken);
            }
            RuntimeMessage::Await(watcher) => self.judgements.push(watcher),
            RuntimeMessage::DecideTool {
                by,
                call,
                answer,
                reply,
            } => {
                let (ask, command) = self.performer.keep_call(call, answer);
                let taken = self.take(Input::Command { by, command })?;
                if taken.is_err() {
                    self.performer.forget_call(ask);
                }
                if reply.send(taken.map(|_| ask)).is_err() {
                    let _ = self.take(Input::ToolHookGone(ask))?;
                }
            }
        }
        Ok(())
    }

    /// Adds damage to the journal to the forbidden changes of the turn that just ended.
    fn report_journal_damage(&mut self, input: &mut Input) {
        let forbidden = if let Input::TurnEnded { end, .. } = input {
            &mut end.forbidden
        } else if let Input::TurnFailed { failure, .. } = input {
            &mut *failure.forbidden
        } else {
            return;
        };
        forbidden.tampered.extend(self.journal_damage());
    }

    fn journal_damage(&mut self) -> Option<String> {
        let what = match self.journal.take_damage()? {
            JournalDamage::Truncated => "truncated",
            JournalDamage::Written => "written to",
            JournalDamage::Replaced => "replaced",
        };
        let path = self.journal.folder().journal();
        let name = path.strip_prefix(&self.dirs.cwd).unwrap_or(&path);
        Some(format!("{} ({what})", name.display()))
    }

    /// A hook or an agent can delete any folder, including the project's.
    fn look_after_the_folder(&mut self) -> Result<(), RuntimeError> {
        let gone = if self.journal.is_deleted() {
            Some(format!(
                "the session folder {} was deleted",
                self.journal.folder().path.display()
            ))
        } else if !self.dirs.cwd.is_dir() {
            Some(format!(
                "the project folder {} was deleted",
                self.dirs.cwd.display()
            ))
        } else {
            None
        };
        if let Some(reason) = gone.filter(|_| self.state.ending.is_none()) {
            let _ = self.take(Input::CannotContinue(reason))?;
        }
        Ok(())
    }

    /// Lets the engine continue until it has nothing more to do. Readers learn of all its records
    /// at once: waking them for each would cost more than the steps themselves.
    async fn settle(&mut self) -> Result<(), RuntimeError> {
        while self.left.is_none() {
            let compared = self.compared.take();
            if let Some((_, found)) = &compared {
                let step = self.on_compared(found.clone());
                if !step.is_empty() {
                    self.commit(step)?;
                    continue;
                }
            }
            let measured = self.measured.take();
            let is_answer = measured.is_some();
            let input = measured.clone().map_or(Input::Proceed, Input::WorkMeasured);
            let mut step = engine::decide(&self.state, session_time(), input);
            if is_answer && step.is_empty() {
                continue;
            }
            // What is in progress answers; asking again would change nothing.
            let waits = step.events.is_empty()
                && step
                    .effects
                    .iter()
                    .all(|effect| self.performer.is_busy_with(effect));
            if step.is_empty() || waits {
                break;
            }
            if let Some(before) = step
                .compares()
                .filter(|before| compared.is_none_or(|(known, _)| known != *before))
            {
                self.measured = measured;
                self.performer.compare_files(before);
                break;
            }
            self.measure_work(&mut step).await;
            self.commit(step)?;
        }
        self.announce();
        Ok(())
    }

    /// The step to take first, if files changed that agents must not change.
    fn on_compared(&mut self, mut found: ForbiddenChanges) -> EngineOutput {
        found.tampered.extend(self.journal_damage());
        engine::decide(&self.state, session_time(), Input::FilesCompared(found))
    }

    /// Adds to the record of the session's end how many lines the session changed, and whether they
    /// can be submitted. A submit or a merge of a session that has ended before says nothing about
    /// that.
    async fn measure_work(&self, step: &mut EngineOutput) {
        for event in step
            .events
            .iter_mut()
            .filter(|_| !self.state.pipelines.is_open())
        {
            if let Event::Session(SessionEvent::Ended {
                outcome,
                lines,
                files: by_file,
                submittable,
                ..
            }) = event
            {
                // This can take a moment.
                self.announce();
                let (cwd, files) = (&self.dirs.cwd, &self.state.iterations.all_files);
                let counted = worktree::count_lines(cwd, &self.state.began.id, files).await;
                (*lines, *by_file) = counted.map_or_else(Default::default, |counted| {
                    (Some(counted.lines), counted.largest())
                });
                // Without a change there is nothing to submit; without a commit, there is no
                // repository.
                let has_work = *outcome == SessionOutcome::Complete
                    && files.since().is_some()
                    && !files.is_empty();
                *submittable = has_work && can_submit(cwd, self.state.plan()).await;
            }
        }
    }

    /// Returns the records that followed from the input, or the engine's refusal.
    fn take(&mut self, input: Input) -> Result<Result<CommandRecords, Refusal>, RuntimeError> {
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
            self.journal.offer_snapshot(&self.state);
        }
        if !step.effects.is_empty() {
            // What an effect prints comes after its record.
            self.announce();
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
    }

    /// Wakes the readers of the journal if there are new records.
    fn announce(&self) {
        let seq = self.journal.seq();
        self.news
            .send_if_modified(|known| std::mem::replace(known, seq) != seq);
    }

    fn rescue(&mut self) -> Option<PathBuf> {
        if !self.journal.is_deleted() {
            return None;
        }
        std::fs::create_dir_all(&self.dirs.rescue).ok()?;
        let copy = self
            .dirs
            .rescue
            .join(format!("{}-{}.jsonl", self.state.name, self.state.began.id));
        self.journal
            .rescue(&copy)
            .inspect_err(|error| tracing::error!("cannot save the journal: {error}"))
            .ok()?;
        Some(copy)
    }
}

fn start_agent(
    state: &SessionState,
    folder: &SessionDir,
    dirs: &RuntimeDirs,
    past: &[String],
) -> Result<Box<dyn Agent>, AgentError> {
    // The recorded conversation belongs to the agent that works now, which can be a fallback.
    let past = match state.limits.stand_in {
        None => AgentHistory {
            prompts: past,
            conversation: state.turns.conversation.as_deref(),
            tally: state.account.conversation,
            own_model: state.turns.own_model.as_deref(),
            first: state.turns.first.as_ref(),
        },
        Some(_) => AgentHistory {
            prompts: past,
            ..AgentHistory::default()
        },
    };
    agents::kinds::start(
        &state.plan().agent_spec,
        agent_place(state, folder, dirs),
        past,
    )
}

/// What an agent or a hook says in a command is masked like what it prints.
fn masked_command(by: &Actor, command: SessionCommand) -> SessionCommand {
    let is_users = match by.by {
        ActorKind::Agent | ActorKind::Hook | ActorKind::OtherSession | ActorKind::Mcp => false,
        ActorKind::Tui
        | ActorKind::Cli
        | ActorKind::Nats
        | ActorKind::Policy
        | ActorKind::Timeout => true,
    };
    if is_users {
        return command;
    }
    let Ok(mut value) = serde_json::to_value(&command) else {
        return command;
    };
    if !secrets::mask_value(&mut value) {
        return command;
    }
    serde_json::from_value(value).unwrap_or(command)
}

fn agent_place(state: &SessionState, folder: &SessionDir, dirs: &RuntimeDirs) -> AgentWorkspace {
    AgentWorkspace {
        cwd: dirs.cwd.clone(),
        session: state.name.clone(),
        session_dir: folder.path.clone(),
        mark: sweep::session_mark(&state.began.id),
        guard: Arc::new(path_guard(state, folder, dirs)),
        goal: state.began.prompt.clone(),
        creel: std::env::current_exe().ok(),
        variables: state.plan().access.env.variables(&state.plan().agent_spec),
        has_tool_hooks: state.plan().has_tool_hooks(),
        prices: dirs.prices.clone(),
    }
}

fn path_guard(state: &SessionState, folder: &SessionDir, dirs: &RuntimeDirs) -> PathGuard {
    let config: Vec<PathBuf> = state
        .plan()
        .access
        .config_files
        .iter()
        .map(PathBuf::from)
        .collect();
    let guard = PathGuard::new(
        &dirs.cwd,
        &folder.path,
        &config,
        &state.plan().access.protect,
    );
    guard.of_session(sweep::session_mark(&state.began.id))
}

fn gatekeepers(
    state: &SessionState,
    folder: &SessionDir,
    dirs: &RuntimeDirs,
    past: BTreeMap<String, Vec<String>>,
) -> GatekeeperAgents {
    GatekeeperAgents {
        env: state.plan().access.env.clone(),
        known: state.plan().gatekeepers.clone(),
        place: agent_place(state, folder, dirs),
        past,
    }
}

fn fallbacks(
    state: &SessionState,
    gatekeepers: &GatekeeperAgents,
    past: BTreeMap<String, Vec<String>>,
) -> FallbackAgents {
    let working = state.limits.stand_in.clone();
    FallbackAgents {
        env: state.plan().access.env.clone(),
        known: state.plan().limits.fallback.clone(),
        place: gatekeepers.place.clone(),
        past,
        working: working.map(|name| WorkingFallback {
            name,
            conversation: state.turns.conversation.clone(),
            tally: state.account.conversation,
            own_model: state.turns.own_model.clone(),
        }),
    }
}
