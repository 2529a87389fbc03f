//! What is said over the control socket: the one place that knows the words.
//!
//! One JSON object a line, in both directions. A request says its version, what to do, and what that needs:
//!
//! ```text
//! {"v":1,"do":"pause"}                                      {"v":1,"ok":true}
//! {"v":1,"do":"pause"}                                      {"v":1,"ok":false,"error":"the session is paused already"}
//! {"v":1,"do":"gate_answer","gate":3,"choice":"approve"}    {"v":1,"ok":true}
//! {"v":1,"do":"status"}                                     {"v":1,"ok":true,"status":{…}}
//! {"v":1,"do":"watch","from":1}                             {"v":1,"ok":true}, then records, a line each
//! ```
//!
//! Requests of one connection are answered one after another, in their order. A watch takes its connection for good, and
//! lasts until the client closes its side or the session is over. Fields that are not known are skipped.

pub mod live_message;

use serde::{Deserialize, Serialize};

use super::view::{GateView, HookView, ItemView, StatusView};
pub use crate::socket::caller::ClientKind;
use crate::{
    engine::{
        event::{Event, StopEvent, StopTiming, TaskEvent},
        hooks::point::HookPoint,
        ids::{GateId, ItemId, RunId},
        input::{GateAnswer, SessionCommand},
        session::gate::GateChoice,
        stop::{
            agent_loop::{EvaluationRequest, LoopCommand},
            registry::StopHookRegistration,
        },
        submit::PipelineKind,
        tasks::command::TaskCommand,
    },
    present::task_view::TaskView,
    socket::{
        caller::CallerInfo,
        stop_view::{CheckpointView, JudgementView, LoopView, StopHookView},
    },
};

/// The version of these words.
pub const VERSION: u32 = 1;

/// No request is longer, in bytes, its newline not counted.
pub const LONGEST: usize = 1 << 20;

/// Something that is asked of a running session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum SessionRequest {
    /// How the session is: answered by `status`.
    Status,
    /// Send no further prompt for now.
    Pause,
    /// Go on.
    Unpause,
    /// End the session.
    Stop {
        #[serde(default = "after_iteration")]
        how: StopTiming,
    },
    /// End this turn; the loop continues.
    CancelTurn,
    /// Say something to the agent.
    Message { text: String },
    /// What is held: answered by `items`, without their texts.
    PendingList {
        #[serde(default)]
        which: ItemFilter,
    },
    /// One item: answered by `item`. What was delivered has its text only in the journal.
    PendingShow { item: ItemId },
    /// Keep an item from the agent.
    PendingSkip { item: ItemId },
    /// Take a skip back.
    PendingRestore { item: ItemId },
    /// Change what an item says.
    PendingEdit { item: ItemId, text: String },
    /// The gates that wait: answered by `gates`.
    GateList,
    /// Answer a gate. The first answer counts.
    GateAnswer {
        gate: GateId,
        choice: GateChoice,
        /// The message, where the choice is to send one; the agent's own name of an option at a permission gate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// The items that are approved; all, if unsaid.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        items: Option<Vec<ItemId>>,
    },
    /// The hooks of the session: answered by `hooks`.
    HookList,
    /// Do not run a hook any more in this session; at all points, unless one is named.
    HookDisable {
        hook: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        point: Option<HookPoint>,
    },
    /// Run it again.
    HookEnable {
        hook: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        point: Option<HookPoint>,
    },
    /// Run a hook now, beside everything else.
    HookRun {
        hook: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        point: Option<HookPoint>,
    },
    /// End a hook that runs.
    HookCancel { run: RunId },
    /// Something that is asked of the task graph; that a task was added is answered by `added`, its name.
    Task { task: TaskCommand },
    /// Submit or merge the work, between two iterations.
    Pipeline { pipeline: PipelineKind },
    /// The tasks: answered by `tasks`.
    TaskList,
    /// One task: answered by `task`.
    TaskShow { id: String },
    /// Ask a stop hook as well, from now on: answered by `stop_hooks`, it alone.
    StopHookRegister {
        #[serde(flatten)]
        hook: StopHookRegistration,
    },
    /// Send the turn that waits for a usage limit at once.
    RetryNow,
    /// Let another agent take the turn that waits for a usage limit.
    SwitchAgent {
        /// Which one; the next, if unsaid.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
    },
    /// Ask none of those any more that were registered for this task: answered by `cleared`, how many there were.
    StopHooksClear { task: String },
    /// The stop hooks that were registered, all or those for a task: answered by `stop_hooks`.
    StopHookList {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
    },
    /// Something about a loop that an agent leads: answered by `agent_loop`, or, when its work is judged, by `judged`, as
    /// soon as that is done.
    Loop { about: LoopCommand },
    /// One loop: answered by `agent_loop`.
    LoopShow { id: String },
    /// The agent says that the session is complete; the stop hooks judge that.
    SessionComplete {
        #[serde(default)]
        reason: String,
    },
    /// What was kept: answered by `checkpoints`.
    CheckpointList,
    /// The records from this number on, then all that come; only those that come, if unsaid. With `live`, between the
    /// records, what is none as well: see [`live_message`].
    Watch {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<u64>,
        #[serde(default)]
        live: bool,
    },
}

const fn after_iteration() -> StopTiming {
    StopTiming::AfterIteration
}

/// Which items are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemFilter {
    /// Those that the agent does not have yet.
    #[default]
    Held,
    /// The delivered ones as well.
    All,
}

/// What a request means: something for the engine, something to look up, or a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestKind {
    /// The session decides.
    Command(SessionCommand),
    /// What is known already is told.
    Question(SessionQuery),
    /// The session decides, when it has judged what an agent did.
    Judgement(EvaluationRequest),
    /// Records, from this number on, and perhaps what is none.
    Watch(Option<u64>, LiveSubscription),
}

/// Whether what is no record is wanted as it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveSubscription {
    /// It is.
    Wanted,
    /// The records are enough.
    Unwanted,
}

/// Something to look up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionQuery {
    /// How the session is.
    Status,
    /// What is held.
    Items(ItemFilter),
    /// One item.
    Item(ItemId),
    /// The gates that wait.
    Gates,
    /// The hooks.
    Hooks,
    /// The tasks.
    Tasks,
    /// The tasks that are handed to others.
    HandedTasks,
    /// The task of that name.
    Task(String),
    /// The stop hooks that were registered.
    StopHooks(Option<String>),
    /// The loop of that name.
    Loop(String),
    /// What was kept.
    Checkpoints,
}

impl SessionRequest {
    /// Whether the answer may take long: rules and commands run before it is known.
    pub const fn lasts(&self) -> bool {
        matches!(self, Self::Loop { about: LoopCommand::Judge(_) })
    }

    /// What it means.
    pub fn meaning(self) -> RequestKind {
        use RequestKind::{Command as Do, Question as Tell};
        match self {
            Self::Status => Tell(SessionQuery::Status),
            Self::PendingList { which } => Tell(SessionQuery::Items(which)),
            Self::PendingShow { item } => Tell(SessionQuery::Item(item)),
            Self::GateList => Tell(SessionQuery::Gates),
            Self::HookList => Tell(SessionQuery::Hooks),
            Self::TaskList => Tell(SessionQuery::Tasks),
            Self::TaskShow { id } => Tell(SessionQuery::Task(id)),
            Self::StopHookList { task } => Tell(SessionQuery::StopHooks(task)),
            Self::LoopShow { id } => Tell(SessionQuery::Loop(id)),
            Self::CheckpointList => Tell(SessionQuery::Checkpoints),
            Self::Loop { about: LoopCommand::Judge(asked) } => RequestKind::Judgement(*asked),
            Self::Watch { from, live: true } => RequestKind::Watch(from, LiveSubscription::Wanted),
            Self::Watch { from, live: false } => RequestKind::Watch(from, LiveSubscription::Unwanted),
            Self::Pause => Do(SessionCommand::Pause),
            Self::Unpause => Do(SessionCommand::Unpause),
            Self::Stop { how } => Do(SessionCommand::Stop(how)),
            Self::CancelTurn => Do(SessionCommand::CancelTurn),
            Self::Message { text } => Do(SessionCommand::Message(text)),
            Self::PendingSkip { item } => Do(SessionCommand::SkipItem(item)),
            Self::PendingRestore { item } => Do(SessionCommand::RestoreItem(item)),
            Self::PendingEdit { item, text } => Do(SessionCommand::EditItem(item, text)),
            Self::GateAnswer { gate, choice, text, items } => {
                Do(SessionCommand::AnswerGate(GateAnswer { gate, choice, text, items }))
            }
            Self::HookDisable { hook, point } => Do(SessionCommand::DisableHook(point, hook)),
            Self::HookEnable { hook, point } => Do(SessionCommand::EnableHook(point, hook)),
            Self::HookRun { hook, point } => Do(SessionCommand::RunHook(point, hook)),
            Self::HookCancel { run } => Do(SessionCommand::CancelHook(run)),
            Self::Task { task } => Do(SessionCommand::Task(task)),
            Self::StopHookRegister { hook } => Do(SessionCommand::RegisterStopHook(hook)),
            Self::StopHooksClear { task } => Do(SessionCommand::ClearStopHooks(task)),
            Self::Loop { about } => Do(SessionCommand::Loop(about)),
            Self::SessionComplete { reason } => Do(SessionCommand::CompleteSession(reason)),
            Self::Pipeline { pipeline } => Do(SessionCommand::Pipeline(pipeline)),
            Self::RetryNow => Do(SessionCommand::RetryNow),
            Self::SwitchAgent { agent } => Do(SessionCommand::SwitchAgent(agent)),
        }
    }
}

/// The words for a command: a screen on another terminal asks for the same things.
impl From<SessionCommand> for SessionRequest {
    fn from(command: SessionCommand) -> Self {
        match command {
            SessionCommand::Pause => Self::Pause,
            SessionCommand::Unpause => Self::Unpause,
            SessionCommand::Stop(how) => Self::Stop { how },
            SessionCommand::CancelTurn => Self::CancelTurn,
            SessionCommand::Message(text) => Self::Message { text },
            SessionCommand::SkipItem(item) => Self::PendingSkip { item },
            SessionCommand::RestoreItem(item) => Self::PendingRestore { item },
            SessionCommand::EditItem(item, text) => Self::PendingEdit { item, text },
            SessionCommand::AnswerGate(GateAnswer { gate, choice, text, items }) => {
                Self::GateAnswer { gate, choice, text, items }
            }
            SessionCommand::DisableHook(point, hook) => Self::HookDisable { hook, point },
            SessionCommand::EnableHook(point, hook) => Self::HookEnable { hook, point },
            SessionCommand::RunHook(point, hook) => Self::HookRun { hook, point },
            SessionCommand::CancelHook(run) => Self::HookCancel { run },
            SessionCommand::Task(task) => Self::Task { task },
            SessionCommand::RegisterStopHook(hook) => Self::StopHookRegister { hook },
            SessionCommand::ClearStopHooks(task) => Self::StopHooksClear { task },
            SessionCommand::Loop(about) => Self::Loop { about },
            SessionCommand::CompleteSession(reason) => Self::SessionComplete { reason },
            SessionCommand::Pipeline(pipeline) => Self::Pipeline { pipeline },
            SessionCommand::RetryNow => Self::RetryNow,
            SessionCommand::SwitchAgent(agent) => Self::SwitchAgent { agent },
        }
    }
}

/// What is known before the request itself is read.
#[derive(Deserialize)]
struct RequestEnvelope {
    v: Option<u32>,
    #[serde(flatten)]
    caller: CallerInfo,
}

/// A request as it is sent.
#[derive(Serialize)]
struct OutgoingRequest<'a> {
    v: u32,
    #[serde(flatten)]
    caller: CallerInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<&'a str>,
    #[serde(flatten)]
    request: &'a SessionRequest,
}

/// The line of a request, newline included.
pub fn ask(by: ClientKind, request: &SessionRequest) -> String {
    line(&OutgoingRequest { v: VERSION, caller: CallerInfo::here(by), deadline: None, request })
}

/// The same, for a request that is refused after this time: a request over NATS can take long to arrive.
pub fn ask_until(by: ClientKind, request: &SessionRequest, deadline: &str) -> String {
    line(&OutgoingRequest { v: VERSION, caller: CallerInfo::here(by), deadline: Some(deadline), request })
}

/// Parses a request. The error is for the client that sent it.
pub fn read(line: &[u8]) -> Result<(CallerInfo, SessionRequest), String> {
    let wrong = |error: serde_json::Error| format!("not a request: {error}");
    let envelope: RequestEnvelope = serde_json::from_slice(line).map_err(wrong)?;
    match envelope.v {
        Some(VERSION) => {}
        Some(other) => {
            return Err(format!("version {other} is not spoken here; this creel speaks version {VERSION}"));
        }
        None => return Err(format!("`v` is missing; this creel speaks version {VERSION}")),
    }
    Ok((envelope.caller, serde_json::from_slice(line).map_err(wrong)?))
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionReply {
    /// The version of these words.
    pub v: u32,
    /// Whether it was done.
    pub ok: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What was asked for.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub told: Option<ReplyData>,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyData {
    /// How the session is.
    Status(Box<StatusView>),
    /// What is held.
    Items(Vec<ItemView>),
    /// One item.
    Item(Box<ItemView>),
    /// The gates that wait.
    Gates(Vec<GateView>),
    /// The hooks.
    Hooks(Vec<HookView>),
    /// The tasks.
    Tasks(Vec<TaskView>),
    /// One task.
    Task(Box<TaskView>),
    /// The name of the task that was added.
    Added(String),
    /// The stop hooks that were registered.
    StopHooks(Vec<StopHookView>),
    /// How many stop hooks were taken away.
    Cleared(usize),
    /// A loop that an agent leads.
    AgentLoop(Box<LoopView>),
    /// What was decided about an iteration of it.
    Judged(Box<JudgementView>),
    /// What was kept.
    Checkpoints(Vec<CheckpointView>),
}

impl SessionReply {
    /// It was done.
    pub const fn done() -> Self {
        Self { v: VERSION, ok: true, error: None, told: None }
    }

    /// It was done, and this was recorded.
    #[expect(clippy::wildcard_enum_match_arm, reason = "everything else needs no more words than that it was done")]
    pub fn recorded<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let told = events.into_iter().filter_map(|event| match event {
            Event::Task(TaskEvent::Created(created)) => Some(ReplyData::Added(created.task.clone())),
            Event::Stop(StopEvent::HooksCleared { hooks, .. }) => Some(ReplyData::Cleared(hooks.len())),
            _ => None,
        });
        told.last().map_or(Self::done(), Self::told)
    }

    /// This is what was asked for.
    pub const fn told(told: ReplyData) -> Self {
        Self { v: VERSION, ok: true, error: None, told: Some(told) }
    }

    /// It was not done.
    pub fn refused(why: impl Into<String>) -> Self {
        Self { v: VERSION, ok: false, error: Some(why.into()), told: None }
    }

    /// What was asked for, or why it was not done.
    pub fn outcome(self) -> Result<Option<ReplyData>, String> {
        match (self.ok, self.error) {
            (true, _) => Ok(self.told),
            (false, why) => Err(why.unwrap_or_else(|| "the session did not say why not".into())),
        }
    }

    /// The line of it, newline included.
    pub fn to_line(&self) -> String {
        line(self)
    }
}

fn line(value: &impl Serialize) -> String {
    let mut line = serde_json::to_string(value).expect("messages have no keys that are not text");
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(command: &SessionCommand) -> SessionCommand {
        let line = ask(ClientKind::Tui, &command.clone().into());
        let (caller, request) = read(line.trim_end().as_bytes()).expect("a request");
        assert_eq!(caller.by, ClientKind::Tui);
        match request.meaning() {
            RequestKind::Command(command) => command,
            RequestKind::Question(_) | RequestKind::Judgement(_) | RequestKind::Watch(..) => {
                panic!("{line} is no command")
            }
        }
    }

    #[test]
    fn every_command_means_the_same_on_the_other_side() {
        let (item, hook) = (ItemId(2), || "tests".to_owned());
        let answer = GateAnswer {
            gate: GateId(3),
            choice: GateChoice::Send,
            text: Some("a\nb".into()),
            items: Some(vec![item]),
        };
        let commands = [
            SessionCommand::Pause,
            SessionCommand::Unpause,
            SessionCommand::Stop(StopTiming::Now),
            SessionCommand::Stop(StopTiming::AfterIteration),
            SessionCommand::CancelTurn,
            SessionCommand::Message("say \"x\"".into()),
            SessionCommand::SkipItem(item),
            SessionCommand::RestoreItem(item),
            SessionCommand::EditItem(item, "text".into()),
            SessionCommand::AnswerGate(answer),
            SessionCommand::DisableHook(None, hook()),
            SessionCommand::EnableHook(Some(HookPoint::Stop), hook()),
            SessionCommand::RunHook(None, hook()),
            SessionCommand::CancelHook(RunId(7)),
            SessionCommand::Task(TaskCommand::MakeReady { id: "t".into() }),
            SessionCommand::Task(TaskCommand::Depend { id: "t".into(), on: "u".into() }),
        ];
        for command in commands {
            assert_eq!(read_back(&command), command);
        }
    }

    #[test]
    fn what_is_wrong_is_told_in_words() {
        let why = |line: &str| read(line.as_bytes()).expect_err("not a request");
        assert_eq!(why(r#"{"v":0,"do":"pause"}"#), "version 0 is not spoken here; this creel speaks version 1");
        assert_eq!(why(r#"{"do":"pause"}"#), "`v` is missing; this creel speaks version 1");
        assert!(why(r#"{"v":1,"do":"dance"}"#).contains("unknown variant `dance`, expected one of `status`, `pause`"));
        assert!(why(r#"{"v":1,"do":"message"}"#).contains("missing field `text`"));
        assert!(why(r#"{"v":1"#).starts_with("not a request: EOF"));
        assert!(why(r#"{"v":1,"by":"policy","do":"pause"}"#).contains("unknown variant `policy`"));
    }

    #[test]
    fn answers_read_as_they_are_documented() {
        assert_eq!(SessionReply::done().to_line(), "{\"v\":1,\"ok\":true}\n");
        assert_eq!(SessionReply::refused("no").to_line(), "{\"v\":1,\"ok\":false,\"error\":\"no\"}\n");
        let gates = SessionReply::told(ReplyData::Gates(Vec::new()));
        assert_eq!(gates.to_line(), "{\"v\":1,\"ok\":true,\"gates\":[]}\n");
        assert_eq!(serde_json::from_str::<SessionReply>(&gates.to_line()).expect("a reply"), gates);
        assert_eq!(
            serde_json::from_str::<SessionReply>(&SessionReply::done().to_line()).expect("a reply"),
            SessionReply::done()
        );
    }
}
