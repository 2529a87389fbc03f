//! Requests of clients, by socket or NATS.
//!
//! One JSON object a line, in both directions. A request has its version, its verb, and the verb's
//! arguments:
//!
//! ```text
//! {"v":1,"do":"pause"}                                      {"v":1,"ok":true}
//! {"v":1,"do":"pause"}                                      {"v":1,"ok":false,"error":"the session is already paused",
//!                                                            "code":"already_paused"}
//! {"v":1,"do":"gate_answer","gate":3,"choice":"approve"}    {"v":1,"ok":true}
//! {"v":1,"do":"status"}                                     {"v":1,"ok":true,"status":{…}}
//! {"v":1,"do":"watch","from":1}                             {"v":1,"ok":true}, then records, a line each
//! ```
//!
//! Requests of one connection are answered one after another, in their order. A watch uses its
//! connection until the client closes its side or the session ends. Unknown fields are skipped.

use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, value::MapDeserializer},
};

use super::process_origin::{CallerInfo, ClientKind};
use crate::{
    engine::{ids::ItemId, input::SessionCommand, stop::agent_loop::LoopCommand},
    text::nearest,
};

/// The version of the protocol.
pub const VERSION: u32 = 1;

/// The longest request, in bytes, without its newline.
pub const LONGEST_REQUEST: usize = 1 << 20;

/// How many characters of an unknown verb a reply repeats.
const LONGEST_VERB: usize = 64;

/// A request to a session: one of its commands or queries, or a watch. It has no verbs of its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SessionRequest {
    /// The session decides.
    Command(SessionCommand),
    /// A copy of the session's state answers.
    Query(SessionQuery),
    /// The session sends its records from now on.
    Watch(WatchRequest),
}

impl SessionRequest {
    /// Whether only the hook that creel added to the session's own agent asks it.
    pub(crate) const fn is_of_agent_hook(&self) -> bool {
        matches!(self, Self::Command(command) if command.is_of_agent_hook())
    }

    /// Whether a call of the agent waits for the reply.
    pub(crate) const fn decides_tool(&self) -> bool {
        matches!(self, Self::Command(SessionCommand::DecideTool { .. }))
    }

    /// Whether the reply can take long, because rules and hooks run before it, or you decide.
    pub const fn waits_for_judgement(&self) -> bool {
        matches!(
            self,
            Self::Command(
                SessionCommand::Loop {
                    about: LoopCommand::Judge(_)
                } | SessionCommand::DecideTool { .. }
            )
        )
    }
}

impl From<SessionCommand> for SessionRequest {
    fn from(command: SessionCommand) -> Self {
        Self::Command(command)
    }
}

impl From<SessionQuery> for SessionRequest {
    fn from(query: SessionQuery) -> Self {
        Self::Query(query)
    }
}

impl From<WatchRequest> for SessionRequest {
    fn from(watch: WatchRequest) -> Self {
        Self::Watch(watch)
    }
}

impl SessionRequest {
    /// Reads the request of this verb from the line that has it.
    fn read(verb: &str, line: &[u8]) -> Result<Self, RequestError> {
        let (commands, queries) = (verbs::<SessionCommand>(), verbs::<SessionQuery>());
        if commands.contains(&verb) {
            return Ok(Self::Command(serde_json::from_slice(line)?));
        }
        if queries.contains(&verb) {
            return Ok(Self::Query(serde_json::from_slice(line)?));
        }
        if verb == WatchRequest::VERB {
            return Ok(Self::Watch(serde_json::from_slice(line)?));
        }
        let mut known = [queries, commands, &[WatchRequest::VERB]].concat();
        known.sort_unstable();
        Err(RequestError::UnknownVerb {
            verb: verb.chars().take(LONGEST_VERB).collect(),
            known,
        })
    }
}

/// A question about the session, written like a command: `{"do":"task_show","id":"3"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum SessionQuery {
    /// How the session is: answered by `status`.
    Status,
    /// The pending items, without their texts: answered by `items`.
    PendingList {
        #[serde(default)]
        which: ItemFilter,
    },
    /// One item: answered by `item`. The text of a delivered item is only in the journal.
    PendingShow { item: ItemId },
    /// The open gates: answered by `gates`.
    GateList,
    /// The hooks of the session: answered by `hooks`.
    HookList,
    /// The tasks: answered by `tasks`.
    TaskList,
    /// The tasks that are in the queue. Only creel itself asks for them.
    #[serde(skip)]
    QueuedTaskList,
    /// One task: answered by `task`.
    TaskShow { id: String },
    /// The registered stop hooks, all or those for a task: answered by `stop_hooks`.
    StopHookList {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
    },
    /// One loop that an agent leads: answered by `agent_loop`.
    LoopShow { id: String },
    /// The checkpoints: answered by `checkpoints`.
    CheckpointList,
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

/// Asks for the records from this number on, then for all that come; without a number, only for
/// those that come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename = "watch")]
pub struct WatchRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Whether to send live messages between the records: see [`super::LiveMessage`].
    #[serde(default)]
    pub live: bool,
}

impl WatchRequest {
    const VERB: &str = "watch";
}

/// The verbs of a tagged enum. Its deserializer names them when it meets one that it does not know,
/// so no second list of them is needed.
fn verbs<T: DeserializeOwned>() -> &'static [&'static str] {
    let unknown = MapDeserializer::<_, KnownVerbs>::new(std::iter::once(("do", "")));
    T::deserialize(unknown)
        .err()
        .map_or(&[], |KnownVerbs(verbs)| verbs)
}

#[derive(Debug, thiserror::Error)]
#[error("expected one of {0:?}")]
struct KnownVerbs(&'static [&'static str]);

impl serde::de::Error for KnownVerbs {
    fn custom<T: std::fmt::Display>(_: T) -> Self {
        Self(&[])
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self(expected)
    }
}

/// Why a line is not a request.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("not a request: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("version {0} is not supported; this creel supports version {VERSION}")]
    OtherVersion(u32),
    #[error("`v` is missing; this creel supports version {VERSION}")]
    NoVersion,
    #[error("not a request: `do` is missing")]
    NoVerb,
    #[error("not a request: unknown verb `{verb}`{} The verbs are: {}", did_you_mean(verb, known), known.join(", "))]
    UnknownVerb {
        verb: String,
        known: Vec<&'static str>,
    },
    #[error("a request has at most {LONGEST_REQUEST} bytes")]
    TooLong,
}

impl RequestError {
    /// The stable name of the reason, for programs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) | Self::NoVerb => "bad_request",
            Self::OtherVersion(_) | Self::NoVersion => "unsupported_version",
            Self::UnknownVerb { .. } => "unknown_verb",
            Self::TooLong => "request_too_long",
        }
    }
}

fn did_you_mean(verb: &str, known: &[&'static str]) -> String {
    nearest(verb, known.iter().copied())
        .map_or_else(|| ".".into(), |near| format!("; did you mean `{near}`?"))
}

/// What is known before the request itself is read.
#[derive(Deserialize)]
struct RequestEnvelope {
    v: Option<u32>,
    #[serde(rename = "do")]
    verb: Option<String>,
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

/// The line of a request, with its newline. After `deadline` the session refuses it: a request over
/// NATS can take long to arrive.
pub fn request_line(by: ClientKind, request: &SessionRequest, deadline: Option<&str>) -> String {
    line(&OutgoingRequest {
        v: VERSION,
        caller: CallerInfo::here(by),
        deadline,
        request,
    })
}

pub fn read_request(line: &[u8]) -> Result<(CallerInfo, SessionRequest), RequestError> {
    let RequestEnvelope { v, verb, caller } = serde_json::from_slice(line)?;
    match v {
        Some(VERSION) => {}
        Some(other) => return Err(RequestError::OtherVersion(other)),
        None => return Err(RequestError::NoVersion),
    }
    let verb = verb.ok_or(RequestError::NoVerb)?;
    Ok((caller, SessionRequest::read(&verb, line)?))
}

pub(super) fn line(value: &impl Serialize) -> String {
    let mut line = serde_json::to_string(value).expect("messages have no keys that are not text");
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{
        event::StopTiming,
        gate::kind::GateChoice,
        hooks::point::HookPoint,
        ids::{GateId, ItemId, PermissionId, RunId},
        input::GateAnswer,
        policy::StopPreset,
        stop::{agent_loop::LoopCommand, chain::StopHookRegistration},
        submit::kind::PipelineKind,
        tasks::command::TaskCommand,
    };

    fn read_back(request: &SessionRequest) -> SessionRequest {
        let line = request_line(ClientKind::Tui, request, None);
        let (caller, request) = read_request(line.trim_end().as_bytes()).expect("a request");
        assert_eq!(caller.by, ClientKind::Tui);
        request
    }

    /// A request of every kind, by its verb.
    fn requests() -> Vec<SessionRequest> {
        let (item, hook) = (ItemId(2), || "tests".to_owned());
        let answer = GateAnswer {
            gate: GateId(3),
            choice: GateChoice::Send,
            text: Some("a\nb".into()),
            items: Some(vec![item]),
        };
        let registration = StopHookRegistration {
            task: "t".into(),
            preset: StopPreset::Default,
            metadata: serde_json::Map::new(),
        };
        vec![
            SessionCommand::Pause.into(),
            SessionCommand::Unpause.into(),
            SessionCommand::Stop {
                how: StopTiming::Now,
            }
            .into(),
            SessionCommand::Stop {
                how: StopTiming::AfterIteration,
            }
            .into(),
            SessionCommand::CancelTurn.into(),
            SessionCommand::Message {
                text: "say \"x\"".into(),
            }
            .into(),
            SessionCommand::SkipItem { item }.into(),
            SessionCommand::RestoreItem { item }.into(),
            SessionCommand::EditItem {
                item,
                text: "text".into(),
            }
            .into(),
            SessionCommand::AnswerGate(answer).into(),
            SessionCommand::DisableHook {
                point: None,
                hook: hook(),
            }
            .into(),
            SessionCommand::EnableHook {
                point: Some(HookPoint::Stop),
                hook: hook(),
            }
            .into(),
            SessionCommand::RunHook {
                point: None,
                hook: hook(),
            }
            .into(),
            SessionCommand::CancelHook { run: RunId(7) }.into(),
            SessionCommand::Task {
                task: TaskCommand::MakeReady { id: "t".into() },
            }
            .into(),
            SessionCommand::Task {
                task: TaskCommand::Depend {
                    id: "t".into(),
                    on: "u".into(),
                },
            }
            .into(),
            SessionCommand::RegisterStopHook(registration).into(),
            SessionCommand::ClearStopHooks { task: "t".into() }.into(),
            SessionCommand::Loop {
                about: LoopCommand::Next {
                    id: "IT-1".into(),
                    checkpoint: None,
                },
            }
            .into(),
            SessionCommand::CompleteSession {
                reason: "done".into(),
            }
            .into(),
            SessionCommand::Pipeline {
                pipeline: PipelineKind::Merge,
            }
            .into(),
            SessionCommand::SetModel {
                model: Some("opus".into()),
            }
            .into(),
            SessionCommand::DecideTool {
                ask: PermissionId::default(),
                call: Box::default(),
                arguments: None,
                shortened: false,
                whole: false,
                digest: None,
            }
            .into(),
            SessionCommand::ToolEnded {
                call: Box::default(),
            }
            .into(),
            SessionCommand::RetryNow.into(),
            SessionCommand::SwitchAgent {
                agent: Some("codex".into()),
            }
            .into(),
            SessionQuery::Status.into(),
            SessionQuery::PendingList {
                which: ItemFilter::All,
            }
            .into(),
            SessionQuery::PendingShow { item }.into(),
            SessionQuery::GateList.into(),
            SessionQuery::HookList.into(),
            SessionQuery::TaskList.into(),
            SessionQuery::TaskShow { id: "t".into() }.into(),
            SessionQuery::StopHookList { task: None }.into(),
            SessionQuery::LoopShow { id: "IT-1".into() }.into(),
            SessionQuery::CheckpointList.into(),
            WatchRequest {
                from: Some(3),
                live: true,
            }
            .into(),
        ]
    }

    #[test]
    fn every_request_means_the_same_on_the_other_side() {
        for request in requests() {
            assert_eq!(read_back(&request), request);
        }
    }

    #[test]
    fn the_test_above_has_every_verb_and_no_two_requests_share_one() {
        let verb = |request: &SessionRequest| {
            let value = serde_json::to_value(request).expect("JSON");
            value["do"].as_str().expect("a verb").to_owned()
        };
        let tested: std::collections::BTreeSet<String> = requests().iter().map(verb).collect();
        let known = [
            verbs::<SessionCommand>(),
            verbs::<SessionQuery>(),
            &[WatchRequest::VERB],
        ]
        .concat();
        assert_eq!(
            tested,
            known.iter().map(|verb| (*verb).to_owned()).collect()
        );
        assert_eq!(tested.len(), known.len());
    }

    #[test]
    fn what_may_be_left_out_has_its_default() {
        let read = |line: &str| read_request(line.as_bytes()).expect("a request").1;
        assert_eq!(
            read(r#"{"v":1,"do":"stop","more":1}"#),
            SessionCommand::Stop {
                how: StopTiming::AfterIteration
            }
            .into()
        );
        assert_eq!(
            read(r#"{"v":1,"do":"pending_list"}"#),
            SessionQuery::PendingList {
                which: ItemFilter::Held
            }
            .into()
        );
        assert_eq!(
            read(r#"{"v":1,"do":"watch"}"#),
            WatchRequest {
                from: None,
                live: false
            }
            .into()
        );
        let answer = GateAnswer {
            gate: GateId(1),
            choice: GateChoice::Approve,
            text: None,
            items: None,
        };
        assert_eq!(
            read(r#"{"v":1,"do":"gate_answer","gate":1,"choice":"approve"}"#),
            SessionCommand::AnswerGate(answer).into()
        );
    }

    #[test]
    fn a_bad_request_gets_an_explanation() {
        let why = |line: &str| {
            read_request(line.as_bytes())
                .expect_err("not a request")
                .to_string()
        };
        assert_eq!(
            why(r#"{"v":0,"do":"pause"}"#),
            "version 0 is not supported; this creel supports version 1"
        );
        assert_eq!(
            why(r#"{"do":"pause"}"#),
            "`v` is missing; this creel supports version 1"
        );
        assert_eq!(why(r#"{"v":1}"#), "not a request: `do` is missing");
        let unknown = why(r#"{"v":1,"do":"gate_anser"}"#);
        assert!(
            unknown.starts_with(
                "not a request: unknown verb `gate_anser`; did you mean `gate_answer`? The"
            ),
            "{unknown}"
        );
        assert!(
            unknown.contains(
                "The verbs are: cancel_turn, checkpoint_list, decide_tool, gate_answer, "
            ),
            "{unknown}"
        );
        assert!(why(r#"{"v":1,"do":"message"}"#).contains("missing field `text`"));
        assert!(why(r#"{"v":1"#).starts_with("not a request: EOF"));
        assert!(why(r#"{"v":1,"by":"policy","do":"pause"}"#).contains("unknown variant `policy`"));
    }
}
