//! Agents, which answer the prompts.
//!
//! Owns the interface between the runtime and any agent, the list of kinds, the options that an
//! agent gets on its command line, and the size limits for what an agent reports. Does not decide
//! what to send or what an answer means: see [`crate::engine`].
//!
//! # Invariants
//! - A cancelled turn ends as `Cancelled`, is not a failure, and leaves nothing running.
//! - The memory for an answer is bounded, however long it is.

pub mod acp;
pub mod command;
mod error_pattern;
mod failure;
pub mod kinds;
mod mcp_tools;
mod native_hooks;
pub mod prices;
pub mod scripted;
mod token_counts;
mod usage_limit;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::{
    engine::{
        budget::ConversationUsage,
        conversation::{
            AgentUpdate, ConversationMode, FirstConversation, PermissionAnswer, PermissionOption,
            PermissionSource, StopReason, ToolCall, TurnEnd, TurnFailure,
        },
        hooks::template::{self, TemplateError},
        ids::TurnId,
        permission::tool_call::files_in,
        policy::{AgentFacts, MODEL},
        time::TimeSpan,
    },
    process::{
        output,
        path_guard::PathGuard,
        project_variable,
        run::ProcessGroup,
        secrets,
        trace_context::{self, TracedWork},
    },
    text::unified_diff,
};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRequest {
    pub turn: TurnId,
    pub text: String,
    pub conversation: ConversationMode,
    /// None: as the agent's options say, or its default.
    pub model: Option<String>,
    /// Zero means no limit.
    pub timeout: TimeSpan,
}

pub trait Agent: Send {
    /// Sends a prompt and waits for the end. A cancelled turn ends as [`StopReason::Cancelled`].
    fn turn<'a>(
        &'a mut self,
        request: TurnRequest,
        updates: &'a mut dyn AgentObserver,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<TurnEnd, TurnFailure>>;

    /// Ends what the agent keeps running between turns.
    fn shutdown(&mut self) -> BoxFuture<'_, ()>;
}

/// Observes an agent during its turn.
pub trait AgentObserver: Send {
    /// Can wait, and the agent waits meanwhile.
    fn update(&mut self, update: AgentUpdate) -> BoxFuture<'_, ()>;
    fn permission(&mut self, request: PermissionRequest) -> BoxFuture<'_, ()>;
    /// The agent started a process, which creel might have to end later.
    fn process(&mut self, group: ProcessGroup);
}

#[derive(Debug)]
pub struct PermissionRequest {
    pub tool: ToolCall,
    /// The answers that the agent offers.
    pub options: Vec<PermissionOption>,
    pub source: PermissionSource,
    /// Whether the title, the input or the diff was cut.
    pub shortened: bool,
    /// The whole input, if it was cut.
    pub whole: Option<String>,
    /// Dropped if the turn ends before there is an answer.
    pub answer: oneshot::Sender<PermissionAnswer>,
}

impl PermissionRequest {
    /// A request for something that the agent does itself.
    pub fn of_agent(
        tool: ToolCall,
        options: Vec<PermissionOption>,
        answer: oneshot::Sender<PermissionAnswer>,
    ) -> Self {
        Self {
            tool,
            options,
            source: PermissionSource::Agent,
            shortened: false,
            whole: None,
            answer,
        }
    }
}

/// The answer to a request that the user or the engine has not decided yet.
#[derive(Debug)]
struct PendingAnswer {
    answer: oneshot::Receiver<PermissionAnswer>,
    stop: CancellationToken,
}

impl PendingAnswer {
    /// Passes a request on, unless its turn is over.
    async fn ask(
        updates: &mut dyn AgentObserver,
        stop: &CancellationToken,
        request: impl FnOnce(oneshot::Sender<PermissionAnswer>) -> PermissionRequest + Send,
    ) -> Self {
        let (sender, answer) = oneshot::channel();
        if !stop.is_cancelled() {
            updates.permission(request(sender)).await;
        }
        let stop = stop.clone();
        Self { answer, stop }
    }

    /// Waits for the answer. The end of the turn cancels the request.
    async fn wait(self) -> PermissionAnswer {
        tokio::select! {
            biased;
            answer = self.answer => answer.unwrap_or(PermissionAnswer::Cancelled),
            () = self.stop.cancelled() => PermissionAnswer::Cancelled,
        }
    }
}

#[derive(Debug, Clone)]
pub struct AgentWorkspace {
    pub cwd: PathBuf,
    pub session: String,
    /// Long answers go into `outputs` inside it.
    pub session_dir: PathBuf,
    /// The mark of the session's processes. Each turn adds its number.
    pub mark: String,
    /// Protects the files that creel never writes for an agent.
    pub guard: Arc<PathGuard>,
    pub goal: String,
    /// The path of this program, for agents that start its tools.
    pub creel: Option<PathBuf>,
    /// The names of the variables of creel that the agent gets, as patterns. None: all.
    pub variables: Option<Vec<String>>,
    /// Whether the session has hooks of tool calls.
    pub has_tool_hooks: bool,
    /// The user's own prices of models.
    pub prices: Option<PathBuf>,
}

impl AgentWorkspace {
    /// The variables of creel that the agent does not get.
    fn unset(&self) -> Vec<OsString> {
        let Some(passed) = &self.variables else {
            return Vec::new();
        };
        let names = std::env::vars_os().map(|(name, _)| name);
        names
            .filter(|name| !passed.iter().any(|pattern| is_meant(pattern, name)))
            .collect()
    }

    /// Adds the goal to a prompt for an agent that lost the conversation.
    fn with_goal(&self, text: &str) -> String {
        if self.goal.is_empty() || text.contains(&self.goal) {
            text.to_owned()
        } else {
            format!("{}\n\n{text}", self.goal)
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("creel cannot use the agent's `error_pattern`: {0}")]
    Pattern(#[source] regex::Error),
    /// A placeholder in a position where it cannot be filled in.
    #[error("creel cannot use the agent's command: {0}")]
    Template(#[from] TemplateError),
    #[error(
        "the agent's command has the unknown name `{{{{{name}}}}}`. Use {{{{prompt}}}} and {{{{session}}}}, and \
         {{{{conversation}}}} in `continue_command`"
    )]
    UnknownName { name: String },
    #[error(
        "the agent's script is not valid: {0}\n  correct the file that `script:` names under `agents:`"
    )]
    Script(#[from] scripted::ScriptError),
    #[error(transparent)]
    Hook(#[from] native_hooks::NativeHookError),
}

/// What an agent did in this session before this process started.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentHistory<'a> {
    /// Oldest first.
    pub prompts: &'a [String],
    /// The agent's id for its conversation.
    pub conversation: Option<&'a str>,
    /// The usage of that conversation.
    pub tally: ConversationUsage,
    /// The model that the agent had in it before creel chose one.
    pub own_model: Option<&'a str>,
    /// The conversation that the session begins with, until a turn in it has ended well.
    pub first: Option<&'a FirstConversation>,
}

/// Whether a pattern means a variable: its name, or a beginning with `*`.
fn is_meant(pattern: &str, name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning.as_bytes()),
        None => pattern.as_bytes() == name,
    }
}

/// The variables for every process of an agent. A map, so that each name occurs once. A process that
/// serves several turns belongs to the session.
fn environment(place: &AgentWorkspace, work: TracedWork) -> BTreeMap<String, String> {
    let session = ("CREEL_SESSION".to_owned(), place.session.clone());
    [session]
        .into_iter()
        .chain(project_variable(&place.session_dir))
        .chain(trace_context::variable(work))
        .collect()
}

fn limit(timeout: TimeSpan) -> Option<Duration> {
    (!timeout.is_zero()).then(|| timeout.into())
}

fn cancelled() -> TurnEnd {
    TurnEnd::new(StopReason::Cancelled)
}

fn too_late(timeout: TimeSpan) -> TurnFailure {
    let message = format!(
        "the agent did not end its turn within {timeout} (turn_timeout), so creel stopped it. Raise turn_timeout, or \
         give the agent smaller tasks"
    );
    TurnFailure {
        silent: true,
        ..TurnFailure::new(message)
    }
}

/// Never receives a prompt: the engine sends none to a self-driven agent.
#[derive(Debug)]
pub struct SelfDrivenAgent;

impl Agent for SelfDrivenAgent {
    fn turn<'a>(
        &'a mut self,
        _request: TurnRequest,
        _updates: &'a mut dyn AgentObserver,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<TurnEnd, TurnFailure>> {
        let why = "the agent of this session drives itself: creel sends it no prompts, only the results of its tool calls";
        Box::pin(async move { Err(TurnFailure::new(why)) })
    }

    fn shutdown(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// Bytes of a call's title, or of a note.
const NOTE_MAX: usize = 2 << 10;
/// Bytes of a call's arguments.
const INPUT_MAX: usize = 4 << 10;
/// Bytes of a call's output.
const OUTPUT_MAX: usize = 8 << 10;
/// Bytes of a diff, or of one thought.
const LONG_MAX: usize = 16 << 10;
/// Texts that are longer together are not compared line by line.
const COMPARE_MAX: usize = 1 << 20;

/// How many bytes of each text in long arguments are kept, tried in this order.
const TEXTS_MAX: [usize; 4] = [2 << 10, 1 << 10, 256, 64];

/// The arguments of a call as they are recorded. Long texts in them are cut, so that the rest stays
/// readable.
fn limited_input(input: &Value) -> String {
    fn cut(value: &Value, most: usize) -> Value {
        match value {
            Value::String(text) => Value::String(limited(text, most)),
            Value::Array(values) => values.iter().map(|it| cut(it, most)).collect(),
            Value::Object(fields) => {
                let cut = |(key, value): (&String, &Value)| (key.clone(), cut(value, most));
                Value::Object(fields.iter().map(cut).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
    let whole = format!("{:#}", cut(input, usize::MAX));
    if whole.len() <= INPUT_MAX {
        return whole;
    }
    let mut shorter = TEXTS_MAX
        .into_iter()
        .map(|most| format!("{:#}", cut(input, most)));
    let fitting = shorter.find(|text| text.len() <= INPUT_MAX);
    fitting.unwrap_or_else(|| limited(&whole, INPUT_MAX))
}

/// Cuts a call to the size of a record. Returns its whole input, if that was cut.
pub(crate) fn limit_call(call: &mut ToolCall) -> Option<String> {
    call.title = limited(&call.title, NOTE_MAX);
    call.output = call.output.take().map(|text| limited(&text, OUTPUT_MAX));
    let input = call.input.take()?;
    let read: Value = serde_json::from_str(&input).unwrap_or(Value::Null);
    let known = files_in(&read);
    let new: Vec<String> = known
        .into_iter()
        .filter(|it| !call.files.contains(it))
        .collect();
    call.files.extend(new);
    let kept = limited_input(&read);
    let is_cut = serde_json::from_str::<Value>(&kept).ok().as_ref() != Some(&read);
    call.input = Some(kept);
    is_cut.then_some(input)
}

/// Cuts a text to its beginning and its end, and masks it before that: half a secret would not be
/// found.
fn limited(text: &str, most: usize) -> String {
    output::limited(secrets::masked(text).into_owned(), most, None)
}

/// Whether the record of a text does not have all of it.
fn is_recorded_in_part(text: &str, most: usize) -> bool {
    text.len() > most || matches!(secrets::masked(text), Cow::Owned(_))
}

/// Masks what a call shows. Returns whether it had secrets.
pub(crate) fn mask_call(call: &mut ToolCall) -> bool {
    let ToolCall {
        title,
        locations,
        files,
        input,
        diff,
        output,
        ..
    } = call;
    let texts = [Some(title), input.as_mut(), diff.as_mut(), output.as_mut()];
    let places = locations.iter_mut().map(|place| &mut place.path);
    let texts = texts.into_iter().flatten().map(secrets::mask_text);
    let paths = places.chain(files).map(secrets::mask_path);
    texts.chain(paths).fold(false, |any, had| any | had)
}

fn unified(path: &str, old: &str, new: &str) -> String {
    if old.len() + new.len() > COMPARE_MAX {
        return format!(
            "--- {path}\n+++ {path}\n{} B become {} B\n",
            old.len(),
            new.len()
        );
    }
    unified_diff(path, old, new)
}

/// Why an option cannot be on the command line.
#[derive(Debug, thiserror::Error)]
enum FlagError {
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The agent could read it as another option.
    #[error(
        "{value:?} cannot be the value of the option `{name}` on a command line. Correct the config, or `--model`"
    )]
    Value { name: String, value: String },
}

/// Adds options to a shell command line. An assignment goes in front of the command, everything
/// else after it.
fn with_options(command: &str, options: &str) -> String {
    let name = options.split('=').next().unwrap_or_default();
    let assigns =
        options.contains('=') && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if assigns {
        format!("{options} {command}")
    } else {
        format!("{command} {options}")
    }
}

/// Adds the flags of the agent's options to a command line for the shell, and their values to its
/// variables. The values are data: no value can change the command. Skips options without a flag.
fn with_flags(
    known: &AgentFacts,
    model: Option<&str>,
    command: &str,
    env: &mut BTreeMap<String, String>,
) -> Result<String, FlagError> {
    let mut options = known.options.clone();
    options.extend(model.map(|model| (MODEL.to_owned(), model.to_owned())));
    let mut command = command.to_owned();
    for (number, (name, value)) in (1..).zip(options) {
        let Some(flag) = known.flags.get(&name) else {
            continue;
        };
        if value.trim().is_empty() || value.starts_with('-') || value.contains(char::is_control) {
            return Err(FlagError::Value { name, value });
        }
        let placeholder = format!("option_{number}");
        let flag = flag.replace("{{value}}", &format!("{{{{{placeholder}}}}}"));
        command = with_options(&command, &template::expand(&flag)?);
        env.insert(template::variable(&placeholder), value);
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<const N: usize>(all: [(&str, &str); N]) -> BTreeMap<String, String> {
        all.map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    #[test]
    fn values_are_variables_and_flags_go_where_they_belong() {
        let known = AgentFacts {
            options: texts([("effort", "high"), ("model", "small"), ("colour", "red")]),
            flags: texts([
                ("effort", "-c 'effort=\"{{value}}\"'"),
                ("model", "AGENT_MODEL={{value}}"),
            ]),
            ..AgentFacts::default()
        };
        for other_option in ["--yolo", " ", "a\nb"] {
            let refused = with_flags(&known, Some(other_option), "agent", &mut BTreeMap::new());
            assert!(
                matches!(refused, Err(FlagError::Value { .. })),
                "{other_option:?}"
            );
        }
        let mut env = BTreeMap::new();
        let line = with_flags(&known, Some("x; rm -rf /"), "agent -p", &mut env).expect("a line");
        let effort = template::variable("option_2");
        let model = template::variable("option_3");
        assert_eq!(
            line,
            format!("AGENT_MODEL=\"${{{model}-}}\" agent -p -c 'effort=\"'\"${{{effort}-}}\"'\"'")
        );
        assert_eq!(env[&effort], "high");
        assert_eq!(env[&model], "x; rm -rf /");
    }
}
