//! Performs effects, each in its own task, which sends its result back with the effect's id.
//!
//! # Invariants
//! - Every effect gets exactly one result, even if its task panics.

use std::{
    any::Any,
    collections::{HashMap, VecDeque, hash_map::Entry},
    num::NonZero,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    thread::available_parallelism,
};

use sha2::{Digest as _, Sha256};
use tokio::{
    sync::{Notify, Semaphore, broadcast, mpsc, oneshot},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    handle::{HookOutputChunk, SessionHandle, SessionProcesses},
    other_agents::{FallbackAgents, GatekeeperAgents},
    turn_watch::{SharedFileWatch, TurnWatch},
    worktree,
    worktree_watcher::{SessionActivity, SharedWorkMemory, WorkMemory, WorktreeWatcher},
};

use crate::{
    agents::{
        Agent, AgentError, AgentObserver, BoxFuture, PermissionRequest, TurnRequest, limit_call,
        mask_call,
    },
    engine::{
        conversation::{
            AgentPermissionRequest, AgentUpdate, ForbiddenChanges, PermissionAnswer, ToolCall,
            TurnEnd, TurnFailure,
        },
        effect::{Effect, FileComparison, HookJob, ProtectBaseline, RuleJob},
        hooks::{point::HookPoint, tool_hooks::unnamed, verdict::RunResult},
        ids::{PermissionId, RunId, TurnId},
        input::{Input, SessionCommand},
        policy::HookSpec,
        session::iteration::SessionFiles,
        stop::context::RuleCheckResult,
        time::TimeSpan,
        turn::SILENCE,
        verify::{MissingCheck, WorkChangedBy, WorkMeasurement, test_guard::TestComparison},
        watch::forge::{ForgeAnswer, ForgeFailure, ForgeNews, ForgeRequest},
    },
    hooks::{self, HookWorkspace, builtin},
    process::{
        run::{OutputStream, ProcessGroup, ProcessObserver},
        secrets,
    },
    text::StreamMask,
};

/// How many chunks of output are buffered for a remote screen that is behind.
const FAR_BACKLOG: usize = 64;
/// Bytes of inputs that creel keeps for hooks in a turn.
const INPUTS_MAX: usize = 64 << 20;

pub(super) struct EffectPerformer {
    place: HookWorkspace,
    handle: SessionHandle,
    children: SessionProcesses,
    live: Option<mpsc::Sender<HookOutputChunk>>,
    far: broadcast::Sender<HookOutputChunk>,
    hooks: HashMap<RunId, HookTaskHandle>,
    /// None once the agent has to end.
    agent: Option<AgentTaskHandle>,
    gatekeepers: GatekeeperAgents,
    /// The reviewing agents that were started, by name.
    asked: HashMap<String, AgentTaskHandle>,
    fallbacks: FallbackAgents,
    /// The fallback agents that were started, by name.
    stand_in: HashMap<String, AgentTaskHandle>,
    work: SharedWorkMemory,
    files: SharedFileWatch,
    /// The measurement in progress.
    measuring: Option<JoinHandle<()>>,
    /// The comparison of files in progress.
    comparing: Option<JoinHandle<()>>,
    /// The call to the forge in progress.
    forge: Option<HookTaskHandle>,
    activity: SessionActivity,
    turn: Option<(TurnId, CancellationToken)>,
    /// Limits how many rules are checked at once.
    cores: Arc<Semaphore>,
    permissions: PermissionWaiters,
}

enum PromptRecipient {
    Own,
    Gatekeeper(String),
    Fallback(String),
}

struct TurnJob {
    request: TurnRequest,
    baseline: ProtectBaseline,
    silence: TimeSpan,
    cancel: CancellationToken,
}

struct AgentTaskHandle {
    turns: mpsc::UnboundedSender<TurnJob>,
    task: JoinHandle<()>,
}

/// The agent's permission requests that wait for an answer.
#[derive(Debug, Clone, Default)]
struct PermissionWaiters(Arc<Mutex<PermissionWaiterMap>>);

#[derive(Debug, Default)]
struct PermissionWaiterMap {
    last: PermissionId,
    answers: HashMap<PermissionId, oneshot::Sender<PermissionAnswer>>,
    /// The inputs of calls whose records are truncated, oldest first.
    inputs: VecDeque<WholeInput>,
}

/// The whole input of a call about which the agent or its hook has asked. Agents choose the ids of
/// calls, so creel's own id of the request says which one it is.
#[derive(Debug)]
struct WholeInput {
    ask: PermissionId,
    call: String,
    /// What its record has.
    recorded: Option<String>,
    text: String,
}

impl PermissionWaiterMap {
    /// Keeps an input, if there is room. No input is dropped while its request waits.
    fn keep(&mut self, input: WholeInput) -> bool {
        let waits = |map: &Self, ask| map.answers.contains_key(&ask);
        let room = INPUTS_MAX.saturating_sub(input.text.len());
        while self.inputs.iter().map(|it| it.text.len()).sum::<usize>() > room {
            let Some(settled) = self.inputs.iter().position(|it| !waits(self, it.ask)) else {
                return false;
            };
            self.inputs.remove(settled);
        }
        let fits = input.text.len() <= INPUTS_MAX;
        if fits {
            self.inputs.push_back(input);
        }
        fits
    }
}

impl PermissionWaiters {
    fn add(&self, answer: oneshot::Sender<PermissionAnswer>) -> PermissionId {
        let mut waiting = self.waiting();
        waiting.last = waiting.last.next();
        let ask = waiting.last;
        waiting.answers.insert(ask, answer);
        ask
    }

    /// The agent that asked can be gone already, so a failed send is ignored.
    fn answer(&self, ask: PermissionId, answer: PermissionAnswer) {
        if let Some(sender) = self.waiting().answers.remove(&ask) {
            let _ = sender.send(answer);
        }
    }

    /// Keeps the whole input of a request for its hooks. Returns whether there was room.
    fn keep_input(&self, ask: PermissionId, tool: &ToolCall, text: String) -> bool {
        self.waiting().keep(WholeInput {
            ask,
            call: tool.call.clone(),
            recorded: tool.input.clone(),
            text,
        })
    }

    /// The whole input of a request.
    fn input_of(&self, ask: PermissionId) -> Option<String> {
        let waiting = self.waiting();
        let known = waiting.inputs.iter().find(|it| it.ask == ask);
        known.map(|it| it.text.clone())
    }

    /// The whole input of a call that has ended, if its record is truncated.
    fn input_of_ended(&self, tool: &ToolCall) -> Option<String> {
        let waiting = self.waiting();
        let mut known = waiting.inputs.iter().rev();
        let known = known.find(|it| it.call == tool.call && it.recorded == tool.input);
        known.map(|it| it.text.clone())
    }

    fn next_turn(&self) {
        self.waiting().inputs.clear();
    }

    /// Ends all waiting requests without an answer, because the turn has ended.
    fn forget(&self) {
        self.waiting().answers.clear();
    }

    fn waiting(&self) -> MutexGuard<'_, PermissionWaiterMap> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct HookTaskHandle {
    cancel: CancellationToken,
    done: JoinHandle<()>,
}

impl EffectPerformer {
    pub(super) fn new(
        place: HookWorkspace,
        (agent, gatekeepers, fallbacks): (Box<dyn Agent>, GatekeeperAgents, FallbackAgents),
        handle: SessionHandle,
        children: SessionProcesses,
    ) -> Self {
        let permissions = PermissionWaiters::default();
        let work = WorkMemory::new(&place);
        let activity = SessionActivity::default();
        let surveyor = WorktreeWatcher::new(work.clone(), activity.clone());
        let files = SharedFileWatch::new(gatekeepers.place.guard.clone());
        let agent = Some(AgentTaskHandle::open(
            agent,
            surveyor,
            files.of_worker(),
            TurnObserver::new(&handle, &children, &permissions),
        ));
        Self {
            place,
            handle,
            children,
            live: None,
            far: broadcast::Sender::new(FAR_BACKLOG),
            hooks: HashMap::new(),
            agent,
            gatekeepers,
            asked: HashMap::new(),
            fallbacks,
            stand_in: HashMap::new(),
            work,
            files,
            measuring: None,
            comparing: None,
            forge: None,
            activity,
            turn: None,
            cores: Arc::new(Semaphore::new(
                available_parallelism().map_or(1, NonZero::get),
            )),
            permissions,
        }
    }

    pub(super) fn children(&self) -> SessionProcesses {
        self.children.clone()
    }

    pub(super) fn show_live(&mut self, live: mpsc::Sender<HookOutputChunk>) {
        self.live = Some(live);
    }

    pub(super) fn live(&self) -> broadcast::Sender<HookOutputChunk> {
        self.far.clone()
    }

    pub(super) fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::RunHook(job) => self.run_hook(*job),
            Effect::CheckRule(job) => self.check_rule(*job),
            Effect::CancelHook(run) => {
                if let Some(task) = self.hooks.get(&run) {
                    task.cancel.cancel();
                }
            }
            Effect::SendPrompt {
                turn,
                text,
                conversation,
                model,
                timeout,
                silence,
                to,
                stand_in,
                baseline,
            } => {
                let request = TurnRequest {
                    turn,
                    text,
                    conversation,
                    model,
                    timeout,
                };
                let to = match (to, stand_in) {
                    (Some(name), _) => PromptRecipient::Gatekeeper(name),
                    (None, Some(name)) => PromptRecipient::Fallback(name),
                    (None, None) => PromptRecipient::Own,
                };
                if let Err(why) = self.send(request, to, (baseline, silence)) {
                    self.handle.tell(Input::TurnFailed {
                        turn,
                        failure: TurnFailure::new(why.to_string()),
                    });
                }
            }
            Effect::CancelTurn(turn) => {
                if let Some((_, cancel)) = self.turn.as_ref().filter(|(asked, _)| *asked == turn) {
                    cancel.cancel();
                }
            }
            Effect::AnswerPermission { ask, answer } => self.permissions.answer(ask, answer),
            Effect::MeasureWork { by, checks, tests } => self.measure(by, checks, tests),
            Effect::ReadForge(request) => self.read_forge(*request),
            Effect::AnswerNews(answer) => self.answer_news(*answer),
            // The loop handles this one.
            Effect::Leave(_) => {}
        }
    }

    /// The command for a call about which a hook of the agent asks. Keeps its whole input for the
    /// hooks.
    pub(super) fn keep_call(
        &self,
        mut call: Box<ToolCall>,
        answer: oneshot::Sender<PermissionAnswer>,
    ) -> (PermissionId, SessionCommand) {
        let ask = self.permissions.add(answer);
        if call.call.is_empty() {
            call.call = unnamed(ask);
        }
        let digest = call.input.as_deref().map(input_digest);
        let long = limit_call(&mut call);
        mask_call(&mut call);
        let shortened = long.is_some();
        let whole = long.is_none_or(|text| self.permissions.keep_input(ask, &call, text));
        let command = SessionCommand::DecideTool {
            ask,
            call,
            arguments: None,
            shortened,
            whole,
            digest,
        };
        (ask, command)
    }

    pub(super) fn forget_call(&self, ask: PermissionId) {
        self.permissions.answer(ask, PermissionAnswer::Cancelled);
    }

    fn send(
        &mut self,
        request: TurnRequest,
        to: PromptRecipient,
        (baseline, silence): (ProtectBaseline, TimeSpan),
    ) -> Result<(), SendError> {
        let cancel = CancellationToken::new();
        self.permissions.next_turn();
        self.turn = Some((request.turn, cancel.clone()));
        let line = match to {
            PromptRecipient::Own => self.agent.as_ref(),
            PromptRecipient::Gatekeeper(name) => Some(self.gatekeeper(name)?),
            PromptRecipient::Fallback(name) => Some(self.fallback(name)?),
        };
        let sent = line.is_some_and(|line| {
            line.turns
                .send(TurnJob {
                    request,
                    baseline,
                    silence,
                    cancel,
                })
                .is_ok()
        });
        if sent {
            Ok(())
        } else {
            Err(SendError::TaskDied)
        }
    }

    /// Returns a fallback agent, and starts it if it is not running.
    fn fallback(&mut self, name: String) -> Result<&AgentTaskHandle, SendError> {
        Ok(match self.stand_in.entry(name) {
            Entry::Occupied(line) => line.into_mut(),
            Entry::Vacant(place) => {
                let agent = self.fallbacks.start(place.key())?;
                let surveyor = WorktreeWatcher::new(self.work.clone(), self.activity.clone());
                let observer = TurnObserver::new(&self.handle, &self.children, &self.permissions);
                place.insert(AgentTaskHandle::open(
                    agent,
                    surveyor,
                    self.files.of_worker(),
                    observer,
                ))
            }
        })
    }

    /// Returns a reviewing agent, and starts it if it is not running.
    fn gatekeeper(&mut self, name: String) -> Result<&AgentTaskHandle, SendError> {
        Ok(match self.asked.entry(name) {
            Entry::Occupied(line) => line.into_mut(),
            Entry::Vacant(place) => {
                let agent = self.gatekeepers.start(place.key())?;
                // A reviewer changes no files, so there is nothing to survey.
                let surveyor = WorktreeWatcher::of_nothing(self.activity.clone());
                let observer = TurnObserver::new(&self.handle, &self.children, &self.permissions);
                place.insert(AgentTaskHandle::open(
                    agent,
                    surveyor,
                    self.files.of_reviewer(),
                    observer,
                ))
            }
        })
    }

    fn run_hook(&mut self, mut job: HookJob) {
        self.hooks.retain(|_, task| !task.done.is_finished());
        let run = job.run;
        let whole_of = job.facts.whole_input_of;
        if let Some(call) = &mut job.facts.tool {
            let whole = match whole_of {
                Some(ask) => self.permissions.input_of(ask),
                None => self.permissions.input_of_ended(call),
            };
            if whole.is_none() && whole_of.is_some() {
                // A hook must not take the part for the whole.
                let why = "creel no longer has the whole input of the call".to_owned();
                let result = Box::new(RunResult::not_started(why));
                return self.handle.tell(Input::HookFinished { run, result });
            }
            call.input = whole.or_else(|| call.input.take());
        }
        let cancel = CancellationToken::new();
        let (place, handle, token) = (self.place.clone(), self.handle.clone(), cancel.clone());
        let (mut watch, active) = (self.watcher(run), self.activity.begin());
        let files = (job.point != HookPoint::Stop).then(|| self.files.clone());
        let done = tokio::spawn(async move {
            // Panics are caught here instead of in a separate task: tokio moves part of a longer
            // chain of tasks to another thread, and waking that thread costs more than the rest of
            // a short hook.
            let running = caught(hooks::run_hook(&job, &place, &mut watch, &token)).await;
            drop(active);
            if let Some(files) = files {
                files.note_hook().await;
            }
            let result = running
                .unwrap_or_else(|panic| RunResult::not_started(format!("a bug in creel: {panic}")));
            handle
                .tell_in_turn(Input::HookFinished {
                    run,
                    result: Box::new(result),
                })
                .await;
        });
        self.hooks.insert(run, HookTaskHandle { cancel, done });
    }

    /// Compares files, unless that is in progress. The answer is
    /// [`super::handle::RuntimeMessage::Compared`].
    pub(super) fn compare_files(&mut self, before: FileComparison) {
        if self.comparing.is_some() {
            return;
        }
        let (files, handle) = (self.files.clone(), self.handle.clone());
        self.comparing = Some(tokio::spawn(async move {
            let found =
                caught(files.compare(before))
                    .await
                    .unwrap_or_else(|panic| ForbiddenChanges {
                        unchecked: vec![format!(
                            "creel cannot compare files: a bug in creel: {panic}"
                        )],
                        ..ForbiddenChanges::NONE
                    });
            handle.tell_compared(before, found);
        }));
    }

    pub(super) fn end_comparison(&mut self) {
        self.comparing = None;
    }

    /// Whether the same is in progress, so that the engine only has to wait for it.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the engine asks for any other effect once"
    )]
    pub(super) fn is_busy_with(&self, effect: &Effect) -> bool {
        match effect {
            Effect::MeasureWork { .. } => self.measuring.is_some(),
            Effect::ReadForge(_) | Effect::AnswerNews(_) => self.calls_forge(),
            _ => false,
        }
    }

    /// The answer has arrived. The task that sent it may run a moment longer, and the engine can
    /// have asked again by then.
    pub(super) fn end_measurement(&mut self) {
        self.measuring = None;
    }

    fn measure(
        &mut self,
        by: WorkChangedBy,
        checks: Vec<HookSpec>,
        tests: Option<Box<SessionFiles>>,
    ) {
        if self.measuring.is_some() {
            return;
        }
        let (work, handle, place) = (self.work.clone(), self.handle.clone(), self.place.clone());
        self.measuring = Some(tokio::spawn(async move {
            let changes = caught(async { work.lock().await.measure().await })
                .await
                .ok()
                .flatten();
            let missing = checks.into_iter().filter_map(|spec| {
                let why = hooks::not_on_path(&hooks::missing_program(&spec.action, &place.cwd)?);
                Some(MissingCheck {
                    check: spec.name,
                    why,
                })
            });
            let missing = missing.collect();
            let tests = match tests {
                Some(files) => Some(compare_tests(&place, &files).await),
                None => None,
            };
            handle.tell(Input::WorkMeasured(WorkMeasurement {
                by,
                changes,
                missing,
                tests,
            }));
        }));
    }

    pub(super) const fn calls_forge(&self) -> bool {
        self.forge.is_some()
    }

    pub(super) fn end_forge_call(&mut self) {
        self.forge = None;
    }

    fn read_forge(&mut self, request: ForgeRequest) {
        self.ask_forge(|place, cancel| async move {
            let read = caught(builtin::read_pull_request(&place, &[], &request, &cancel)).await;
            let mut result =
                read.unwrap_or_else(|panic| Err(ForgeFailure::bug(&panic.to_string())));
            match &mut result {
                Ok(reading) => mask_news(&mut reading.news),
                Err(failure) => drop(secrets::mask_text(&mut failure.reason)),
            }
            Input::ForgeRead {
                pull_request: request.pull_request,
                result: Box::new(result),
            }
        });
    }

    fn answer_news(&mut self, answer: ForgeAnswer) {
        self.ask_forge(|place, cancel| async move {
            let posted = caught(builtin::answer_news(&place, &[], &answer, &cancel)).await;
            Input::NewsAnswered {
                answer: Box::new(answer),
                result: posted.unwrap_or_else(|panic| Err(ForgeFailure::bug(&panic.to_string()))),
            }
        });
    }

    /// Calls the forge, unless a call is in progress.
    fn ask_forge<F>(&mut self, call: impl FnOnce(HookWorkspace, CancellationToken) -> F)
    where
        F: Future<Output = Input> + Send + 'static,
    {
        if self.forge.is_some() {
            return;
        }
        let cancel = CancellationToken::new();
        let (handle, calling) = (
            self.handle.clone(),
            call(self.place.clone(), cancel.clone()),
        );
        let done = tokio::spawn(async move { handle.tell(calling.await) });
        self.forge = Some(HookTaskHandle { cancel, done });
    }

    /// Checks rules in parallel, at most one per core.
    fn check_rule(&mut self, job: RuleJob) {
        self.hooks.retain(|_, task| !task.done.is_finished());
        let run = job.run;
        let cancel = CancellationToken::new();
        let (place, handle, token, cores) = (
            self.place.clone(),
            self.handle.clone(),
            cancel.clone(),
            self.cores.clone(),
        );
        let (mut watch, active) = (self.watcher(run), self.activity.begin());
        let done = tokio::spawn(async move {
            let turn = cores.acquire_owned().await;
            let checking = caught(hooks::rules::check(job, &place, &mut watch, &token)).await;
            drop((turn, active));
            let result = checking.unwrap_or_else(|panic| {
                RuleCheckResult::not_judged(format!("a bug in creel: {panic}"))
            });
            handle
                .tell_in_turn(Input::RuleChecked {
                    run,
                    result: Box::new(result),
                })
                .await;
        });
        self.hooks.insert(run, HookTaskHandle { cancel, done });
    }

    fn watcher(&self, run: RunId) -> HookRunObserver {
        HookRunObserver {
            run,
            handle: self.handle.clone(),
            children: self.children.clone(),
            live: self.live.clone(),
            far: self.far.clone(),
            printed: 0,
            gap: false,
        }
    }

    /// Ends everything that still runs, and waits for it.
    pub(super) async fn shut_down(&mut self) {
        for task in self.hooks.values().chain(&self.forge) {
            task.cancel.cancel();
        }
        if let Some((_, cancel)) = self.turn.take() {
            cancel.cancel();
        }
        if let Some(measuring) = self.measuring.take() {
            measuring.abort();
        }
        if let Some(comparing) = self.comparing.take() {
            comparing.abort();
        }
        let lines: Vec<AgentTaskHandle> = self
            .agent
            .take()
            .into_iter()
            .chain(
                self.asked
                    .drain()
                    .chain(self.stand_in.drain())
                    .map(|(_, line)| line),
            )
            .collect();
        let patience = std::time::Duration::from_secs(10);
        let ended = async {
            for (_, task) in self.hooks.drain() {
                let _ = task.done.await;
            }
            for AgentTaskHandle { turns, task } in lines {
                drop(turns);
                let _ = task.await;
            }
        };
        if tokio::time::timeout(patience, ended).await.is_err() {
            tracing::warn!("tasks did not end in {patience:?}; creel kills their processes");
        }
        self.children.end_all().await;
    }
}

impl AgentTaskHandle {
    fn open(
        agent: Box<dyn Agent>,
        surveyor: WorktreeWatcher,
        watch: TurnWatch,
        observer: TurnObserver,
    ) -> Self {
        let (turns, asked) = mpsc::unbounded_channel();
        Self {
            turns,
            task: tokio::spawn(converse(agent, asked, observer, (surveyor, watch))),
        }
    }
}

/// What the changed files say about the tests.
async fn compare_tests(place: &HookWorkspace, files: &SessionFiles) -> TestComparison {
    let looking = worktree::compare_tests(&place.cwd, &place.mark, files);
    caught(looking)
        .await
        .unwrap_or_else(|panic| TestComparison {
            undecided: vec![format!(
                "creel cannot compare the changed test files: a bug in creel: {panic}"
            )],
            ..TestComparison::default()
        })
}

/// The task of one agent: runs its turns one after another.
async fn converse(
    mut agent: Box<dyn Agent>,
    mut asked: mpsc::UnboundedReceiver<TurnJob>,
    mut observer: TurnObserver,
    (mut surveyor, mut watch): (WorktreeWatcher, TurnWatch),
) {
    while let Some(TurnJob {
        request,
        baseline,
        silence,
        cancel,
    }) = asked.recv().await
    {
        let turn = request.turn;
        observer.begin(turn);
        // Survey before the prompt is sent, not at the same time: the agent's first changes must
        // not look as if they had been there already.
        let before = surveyor.look_before(&cancel).await;
        let active = surveyor.begin_turn();
        watch.begin(baseline).await;
        let listening = SilenceWatch::new(&observer, silence);
        let ended = tokio::select! {
            ended = one_turn(&mut *agent, request, &mut observer, &cancel) => ended,
            never = listening.watch() => match never {},
        };
        let silent = listening.is_silent();
        observer.end_text().await;
        drop(active);
        let forbidden = watch.end().await;
        let ended = match ended {
            Ok(end) => Ok(TurnEnd {
                work: surveyor.compare(before, &cancel).await,
                forbidden,
                ..end
            }),
            Err(failure) => {
                let work = surveyor.compare(before, &cancel).await;
                let silent = silent && failure.silent;
                let message = secrets::masked(&failure.message).into_owned();
                Err(TurnFailure {
                    message,
                    silent,
                    forbidden: Box::new(forbidden),
                    work,
                    ..failure
                })
            }
        };
        observer.permissions.forget();
        observer
            .handle
            .tell_in_turn(match ended {
                Ok(end) => Input::TurnEnded { turn, end },
                Err(failure) => Input::TurnFailed { turn, failure },
            })
            .await;
    }
    agent.shutdown().await;
}

/// The same for equal inputs, however they are written.
fn input_digest(input: &str) -> String {
    let text = match serde_json::from_str::<serde_json::Value>(input) {
        Ok(mut value) => {
            value.sort_all_objects();
            value.to_string()
        }
        Err(_) => input.to_owned(),
    };
    let digest = Sha256::digest(text.as_bytes());
    digest
        .iter()
        .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// A panic in an agent fails its turn, not the session.
async fn one_turn(
    agent: &mut dyn Agent,
    request: TurnRequest,
    observer: &mut TurnObserver,
    cancel: &CancellationToken,
) -> Result<TurnEnd, TurnFailure> {
    let message = "creel itself failed in the middle of the turn; see its log";
    caught(agent.turn(request, observer, cancel))
        .await
        .unwrap_or_else(|_| Err(TurnFailure::new(message)))
}

/// The message of a panic in a task of the session.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct CaughtPanic(String);

/// Why a prompt could not be given to its agent.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("there is no fallback agent `{0}`")]
    NoFallback(String),
    #[error("there is no agent `{0}`")]
    NoGatekeeper(String),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("the agent's task crashed. This is a bug in creel; see its log")]
    TaskDied,
}

/// Runs a future and returns its result, or its panic message.
async fn caught<T>(work: impl Future<Output = T>) -> Result<T, CaughtPanic> {
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(CaughtPanic(panic_message(&*panic)))),
        }
    })
    .await
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or(panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("it panicked without a message").to_owned()
}

/// Masks what a forge says, but not what identifies it.
fn mask_news(news: &mut [ForgeNews]) {
    for ForgeNews { source, text, .. } in news {
        secrets::mask_text(text);
        secrets::mask_text(&mut source.title);
    }
}

/// Forwards what an agent does to the session, without secrets.
struct TurnObserver {
    turn: TurnId,
    message: StreamMask,
    thought: StreamMask,
    handle: SessionHandle,
    children: SessionProcesses,
    permissions: PermissionWaiters,
    /// Woken by whatever the agent sends.
    activity: Arc<Notify>,
}

/// Notices that an agent sends nothing.
struct SilenceWatch {
    turn: TurnId,
    limit: TimeSpan,
    handle: SessionHandle,
    permissions: PermissionWaiters,
    activity: Arc<Notify>,
    silent: AtomicBool,
}

impl SilenceWatch {
    fn new(observer: &TurnObserver, limit: TimeSpan) -> Self {
        let TurnObserver {
            turn,
            handle,
            permissions,
            activity,
            ..
        } = observer;
        let (handle, permissions, activity) =
            (handle.clone(), permissions.clone(), activity.clone());
        Self {
            turn: *turn,
            limit,
            handle,
            permissions,
            activity,
            silent: AtomicBool::new(false),
        }
    }

    fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    /// Reports each silence once. An agent that waits for an answer of the user is not silent.
    async fn watch(&self) -> std::convert::Infallible {
        if self.limit.is_zero() {
            return std::future::pending().await;
        }
        loop {
            let was_active = tokio::time::timeout(self.limit.into(), self.activity.notified())
                .await
                .is_ok();
            let is_silent = !was_active && self.permissions.waiting().answers.is_empty();
            if self.silent.swap(is_silent, Ordering::Relaxed) || !is_silent {
                continue;
            }
            let text = format!("the agent has sent nothing for {}", self.limit);
            let update = AgentUpdate::Noted {
                what: SILENCE.to_owned(),
                text,
            };
            self.handle
                .tell_in_turn(Input::Agent {
                    turn: self.turn,
                    update,
                })
                .await;
        }
    }
}

impl TurnObserver {
    fn new(
        handle: &SessionHandle,
        children: &SessionProcesses,
        permissions: &PermissionWaiters,
    ) -> Self {
        let (handle, children, permissions) =
            (handle.clone(), children.clone(), permissions.clone());
        Self {
            turn: TurnId::default(),
            message: secrets::stream(),
            thought: secrets::stream(),
            handle,
            children,
            permissions,
            activity: Arc::default(),
        }
    }
}

impl TurnObserver {
    fn begin(&mut self, turn: TurnId) {
        self.turn = turn;
        (self.message, self.thought) = (secrets::stream(), secrets::stream());
    }

    /// No more text belongs to what the agent said and thought so far.
    async fn end_text(&mut self) {
        let thought = self.thought.finish_text();
        self.tell(AgentUpdate::Thought(thought)).await;
        let message = self.message.finish_text();
        self.tell(AgentUpdate::Message(message)).await;
    }

    async fn mask(&mut self, update: AgentUpdate) {
        let masked = match update {
            AgentUpdate::Message(text) => {
                let thought = self.thought.finish_text();
                self.tell(AgentUpdate::Thought(thought)).await;
                AgentUpdate::Message(self.message.push_text(&text))
            }
            AgentUpdate::Thought(text) => {
                let message = self.message.finish_text();
                self.tell(AgentUpdate::Message(message)).await;
                AgentUpdate::Thought(self.thought.push_text(&text))
            }
            AgentUpdate::ToolCalled(mut call) => {
                self.end_text().await;
                mask_call(&mut call);
                AgentUpdate::ToolCalled(call)
            }
            AgentUpdate::ToolUpdated(mut call) => {
                mask_call(&mut call);
                AgentUpdate::ToolUpdated(call)
            }
            AgentUpdate::Planned(mut plan) => {
                for entry in &mut plan {
                    secrets::mask_text(&mut entry.content);
                }
                AgentUpdate::Planned(plan)
            }
            AgentUpdate::Noted { what, mut text } => {
                secrets::mask_text(&mut text);
                AgentUpdate::Noted { what, text }
            }
            AgentUpdate::Warned(mut text) => {
                secrets::mask_text(&mut text);
                AgentUpdate::Warned(text)
            }
            AgentUpdate::Used(_) | AgentUpdate::Opened(_) => update,
        };
        self.tell(masked).await;
    }

    async fn tell(&self, update: AgentUpdate) {
        if let AgentUpdate::Message(text) | AgentUpdate::Thought(text) = &update
            && text.is_empty()
        {
            return;
        }
        let turn = self.turn;
        self.handle
            .tell_in_turn(Input::Agent { turn, update })
            .await;
    }
}

impl AgentObserver for TurnObserver {
    fn update(&mut self, update: AgentUpdate) -> BoxFuture<'_, ()> {
        self.activity.notify_one();
        Box::pin(self.mask(update))
    }

    fn permission(&mut self, request: PermissionRequest) -> BoxFuture<'_, ()> {
        let PermissionRequest {
            mut tool,
            mut options,
            source,
            mut shortened,
            mut whole,
            answer,
        } = request;
        let input = tool.input.clone();
        // Two requests with other secrets look the same, and are not.
        if mask_call(&mut tool) {
            shortened = true;
            whole = whole.or(input);
        }
        for option in &mut options {
            secrets::mask_text(&mut option.name);
        }
        let ask = self.permissions.add(answer);
        let digest = whole.as_deref().map(input_digest);
        let whole = whole.is_some_and(|text| self.permissions.keep_input(ask, &tool, text));
        let ask = Box::new(AgentPermissionRequest {
            ask,
            tool,
            options,
            source,
            shortened,
            whole,
            digest,
            earlier: None,
        });
        Box::pin(self.handle.tell_in_turn(Input::PermissionAsked {
            turn: self.turn,
            ask,
        }))
    }

    fn process(&mut self, group: ProcessGroup) {
        started(&self.handle, &self.children, group);
    }
}

/// Forwards what a hook does to the session.
struct HookRunObserver {
    run: RunId,
    handle: SessionHandle,
    children: SessionProcesses,
    live: Option<mpsc::Sender<HookOutputChunk>>,
    /// For remote screens.
    far: broadcast::Sender<HookOutputChunk>,
    /// Bytes printed so far.
    printed: u64,
    /// Whether a chunk was dropped since the last one that was sent.
    gap: bool,
}

impl ProcessObserver for HookRunObserver {
    fn started(&mut self, group: ProcessGroup) {
        started(&self.handle, &self.children, group);
    }

    fn output(&mut self, stream: OutputStream, bytes: &[u8]) {
        let (run, at) = (self.run, self.printed);
        self.printed += bytes.len() as u64;
        if let Some(live) = &self.live {
            let gap = std::mem::take(&mut self.gap);
            // Reserve first: output that does not fit is not copied.
            match live.try_reserve() {
                Ok(place) => place.send(HookOutputChunk {
                    run,
                    stream,
                    at,
                    bytes: bytes.to_vec(),
                    gap,
                }),
                Err(_) => self.gap = true,
            }
        }
        if self.far.receiver_count() > 0 {
            let _ = self.far.send(HookOutputChunk {
                run,
                stream,
                at,
                bytes: bytes.to_vec(),
                gap: false,
            });
        }
    }
}

fn started(handle: &SessionHandle, children: &SessionProcesses, group: ProcessGroup) {
    children.add(group);
    handle.tell(Input::ProcessStarted {
        pid: group.pid,
        started: group.start.unwrap_or(0),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(waiting: &PermissionWaiters, id: &str, text: &str) -> (PermissionId, bool) {
        let (answer, _waits) = oneshot::channel();
        let ask = waiting.add(answer);
        let tool = ToolCall {
            call: id.to_owned(),
            input: Some("cut".to_owned()),
            ..ToolCall::default()
        };
        let kept = waiting.keep_input(ask, &tool, text.to_owned());
        (ask, kept)
    }

    #[test]
    fn another_request_about_a_call_does_not_replace_what_hooks_read_about_the_first() {
        let waiting = PermissionWaiters::default();
        let (first, _) = request(&waiting, "1", "rm -rf /");
        let (second, _) = request(&waiting, "1", "ls");
        assert_eq!(waiting.input_of(first).as_deref(), Some("rm -rf /"));
        assert_eq!(waiting.input_of(second).as_deref(), Some("ls"));
    }

    #[test]
    fn a_full_store_keeps_what_waiting_requests_need_and_says_so_to_the_next() {
        let waiting = PermissionWaiters::default();
        let long = "x".repeat(INPUTS_MAX / 2);
        let (first, kept) = request(&waiting, "1", &long);
        let (second, kept_too) = request(&waiting, "2", &long);
        assert!(kept && kept_too);
        let (third, kept) = request(&waiting, "3", "more");
        assert!(!kept && waiting.input_of(third).is_none());
        assert!(waiting.input_of(first).is_some() && waiting.input_of(second).is_some());
        waiting.answer(first, PermissionAnswer::Undecided);
        let (fourth, kept) = request(&waiting, "4", "more");
        assert!(kept && waiting.input_of(fourth).is_some());
        assert_eq!(waiting.input_of(first), None);
    }

    #[test]
    fn equal_inputs_have_the_same_digest_however_they_are_written() {
        let one = input_digest(r#"{"a":1,"b":{"c":2,"d":3}}"#);
        assert_eq!(one, input_digest(r#"{ "b": {"d":3,"c":2}, "a": 1 }"#));
        assert_ne!(one, input_digest(r#"{"a":1,"b":{"c":2,"d":4}}"#));
    }
}
