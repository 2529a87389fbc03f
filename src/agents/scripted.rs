//! An agent that follows a script: for demos, for tests, and for trying a config without a model.
//!
//! Owns the script's format and which turn answers which prompt. Does not run commands itself: see
//! [`crate::process::run`].
//!
//! # Invariants
//! - The same script and the same prompts produce the same turns, so a resumed session continues
//!   where it was.
//! - A turn is used once. `otherwise` answers as often as needed.

use std::{fmt, path::Path, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    Agent, AgentObserver, AgentWorkspace, BoxFuture, PermissionRequest, TurnRequest, cancelled,
    environment, failure, limit, too_late,
};
use crate::{
    engine::{
        conversation::{
            AgentUpdate, FileLocation, PermissionAnswer, PermissionOption, PermissionOptionKind,
            PermissionSource, StopReason, TokenKinds, ToolCall, ToolKind, ToolStatus, TurnEnd,
            TurnFailure, TurnUsage,
        },
        ids::TurnId,
        policy::MODEL,
        question::{AgentQuestion, FieldKind, FieldOption, QuestionField},
    },
    process::{
        output::OutputCapture,
        playback_pace::{PaceFile, PacedStep},
        run::{self, OutputStream, ProcessEnd, ProcessGroup, ProcessObserver, ProcessSpec},
        trace_context::TracedWork,
    },
};

/// Bytes of a command's output in its tool call.
const TOOL_OUTPUT: usize = 4 * 1024;

/// The commands in a script, shown before the user decides whether to trust it.
pub fn commands(script: &str) -> Vec<String> {
    let Ok(script) = parse(script) else {
        return Vec::new();
    };
    let turns = script.turns.iter().chain([&script.otherwise]);
    turns
        .flat_map(|turn| {
            turn.run
                .iter()
                .map(|command| format!("the script runs: {command}"))
        })
        .collect()
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentScript {
    #[serde(default)]
    turns: Vec<ScriptedTurn>,
    #[serde(default)]
    otherwise: ScriptedTurn,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedTurn {
    /// Answers only a prompt that contains this text.
    when: Option<String>,
    think: Option<String>,
    say: Option<String>,
    #[serde(default, deserialize_with = "one_or_more")]
    run: Vec<String>,
    /// Between two words.
    #[serde(default, deserialize_with = "delay")]
    delay: Duration,
    /// Before the first word and before each command.
    #[serde(default, deserialize_with = "delay")]
    pause: Duration,
    stop_reason: Option<StopReason>,
    /// A permission request before the turn runs anything.
    ask: Option<ScriptedPermission>,
    tokens: Option<u64>,
    /// The same by kind.
    token_kinds: Option<TokenKinds>,
    cost: Option<f64>,
    /// The model that the agent names.
    model: Option<String>,
    fail: Option<String>,
    #[serde(default)]
    crash: bool,
    #[serde(default)]
    hang: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedPermission {
    title: String,
    kind: Option<ToolKind>,
    path: Option<String>,
    diff: Option<String>,
    /// It is a question, with these answers.
    #[serde(default)]
    choose: Vec<String>,
}

impl ScriptedPermission {
    fn source(&self) -> PermissionSource {
        if self.choose.is_empty() {
            return PermissionSource::Agent;
        }
        let option = |title: &String| FieldOption {
            value: title.clone(),
            title: title.clone(),
            description: None,
        };
        let field = QuestionField {
            name: "answer".into(),
            title: "Answer".into(),
            kind: FieldKind::One,
            options: self.choose.iter().map(option).collect(),
            ..QuestionField::default()
        };
        PermissionSource::Question(Box::new(AgentQuestion {
            message: self.title.clone(),
            fields: vec![field],
            url: None,
        }))
    }
}

pub struct ScriptedAgent {
    turns: Vec<Option<ScriptedTurn>>,
    otherwise: ScriptedTurn,
    place: AgentWorkspace,
}

impl ScriptedAgent {
    /// `past` are the prompts that were answered already. Their turns are skipped.
    pub fn new(script: &str, place: AgentWorkspace, past: &[String]) -> Result<Self, ScriptError> {
        let script = parse(script)?;
        let turns = script.turns.into_iter().map(Some).collect();
        let mut agent = Self {
            turns,
            otherwise: script.otherwise,
            place,
        };
        for prompt in past {
            agent.answer_to(prompt);
        }
        Ok(agent)
    }

    /// Takes the turn for this prompt: the first whose `when` the prompt contains, otherwise the
    /// first without a `when`, otherwise `otherwise`.
    fn answer_to(&mut self, prompt: &str) -> ScriptedTurn {
        let fits = |turn: &Option<ScriptedTurn>| {
            turn.as_ref()
                .and_then(|t| t.when.as_ref())
                .is_some_and(|when| prompt.contains(when.as_str()))
        };
        let open = |turn: &Option<ScriptedTurn>| turn.as_ref().is_some_and(|t| t.when.is_none());
        let found = self
            .turns
            .iter()
            .position(fits)
            .or_else(|| self.turns.iter().position(open));
        found
            .and_then(|i| self.turns[i].take())
            .unwrap_or_else(|| self.otherwise.clone())
    }

    async fn one_turn(
        &mut self,
        request: TurnRequest,
        updates: &mut dyn AgentObserver,
        cancel: &CancellationToken,
    ) -> Result<TurnEnd, TurnFailure> {
        let turn = self.answer_to(&request.text);
        // A child token, so that a timeout ends commands as gently as a cancellation does.
        let stop = cancel.child_token();
        let pace = PaceFile::of_session(&self.place.session_dir).begin();
        let mut play = TurnPlayback {
            id: request.turn,
            place: &self.place,
            updates,
            stop: &stop,
            pace,
        };
        let performance = play.perform(&turn);
        tokio::pin!(performance);
        let late = async {
            match limit(request.timeout) {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            end = &mut performance => return end,
            () = late => stop.cancel(),
        }
        let end = performance.await;
        if cancel.is_cancelled() {
            end
        } else {
            Err(too_late(request.timeout))
        }
    }
}

impl Agent for ScriptedAgent {
    fn turn<'a>(
        &'a mut self,
        request: TurnRequest,
        updates: &'a mut dyn AgentObserver,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<TurnEnd, TurnFailure>> {
        Box::pin(self.one_turn(request, updates, cancel))
    }

    /// Nothing runs between turns.
    fn shutdown(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

struct TurnPlayback<'a> {
    id: TurnId,
    place: &'a AgentWorkspace,
    updates: &'a mut dyn AgentObserver,
    stop: &'a CancellationToken,
    pace: PacedStep,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScriptedPermissionOutcome {
    Granted,
    Refused,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PlaybackState {
    GoOn,
    Stopped,
}

impl TurnPlayback<'_> {
    async fn perform(&mut self, turn: &ScriptedTurn) -> Result<TurnEnd, TurnFailure> {
        if self.act(turn).await == PlaybackState::Stopped {
            return Ok(cancelled());
        }
        if turn.hang {
            self.stop.cancelled().await;
            return Ok(cancelled());
        }
        if turn.crash {
            return Err(TurnFailure::new(
                "the agent crashed in the middle of its turn",
            ));
        }
        if let Some(failure) = &turn.fail {
            return Err(failure::plainly(failure));
        }
        let stop_reason = turn.stop_reason.unwrap_or(StopReason::EndTurn);
        let spent = TurnUsage {
            tokens: turn.tokens.or(turn.token_kinds.map(TokenKinds::total)),
            cost: turn.cost,
            token_kinds: turn.token_kinds,
            cost_estimated: None,
        };
        Ok(TurnEnd {
            spent,
            ..TurnEnd::new(stop_reason)
        })
    }

    async fn act(&mut self, turn: &ScriptedTurn) -> PlaybackState {
        if let Some(model) = &turn.model {
            let (what, text) = (MODEL.to_owned(), model.clone());
            self.updates.update(AgentUpdate::Noted { what, text }).await;
        }
        self.pause(turn.pause).await;
        if let Some(thought) = &turn.think {
            for chunk in chunks(thought, turn.delay) {
                if self.stop.is_cancelled() {
                    return PlaybackState::Stopped;
                }
                self.updates
                    .update(AgentUpdate::Thought(chunk.to_owned()))
                    .await;
                self.pause(turn.delay).await;
            }
        }
        for chunk in chunks(turn.say.as_deref().unwrap_or_default(), turn.delay) {
            if self.stop.is_cancelled() {
                return PlaybackState::Stopped;
            }
            self.updates
                .update(AgentUpdate::Message(chunk.to_owned()))
                .await;
            self.pause(turn.delay).await;
        }
        if let Some(ask) = &turn.ask
            && self.ask(ask).await == ScriptedPermissionOutcome::Refused
        {
            self.updates
                .update(AgentUpdate::Message(
                    "\nThe user did not allow it.".to_owned(),
                ))
                .await;
            return if self.stop.is_cancelled() {
                PlaybackState::Stopped
            } else {
                PlaybackState::GoOn
            };
        }
        for (i, command) in turn.run.iter().enumerate() {
            self.pause(turn.pause).await;
            if self.run(i + 1, command).await == PlaybackState::Stopped {
                return PlaybackState::Stopped;
            }
        }
        if self.stop.is_cancelled() {
            PlaybackState::Stopped
        } else {
            PlaybackState::GoOn
        }
    }

    async fn ask(&mut self, ask: &ScriptedPermission) -> ScriptedPermissionOutcome {
        let tool = ToolCall {
            call: format!("turn-{}/ask", self.id),
            title: ask.title.clone(),
            kind: ask.kind,
            locations: ask
                .path
                .iter()
                .map(|path| FileLocation {
                    path: path.clone(),
                    line: None,
                })
                .collect(),
            diff: ask.diff.clone(),
            ..ToolCall::default()
        };
        let option = |id: &str, name: &str, kind| PermissionOption {
            id: id.to_owned(),
            name: name.to_owned(),
            kind,
        };
        let options = vec![
            option("once", "Yes", PermissionOptionKind::AllowOnce),
            option(
                "always",
                "Yes, and don't ask again",
                PermissionOptionKind::AllowAlways,
            ),
            option("no", "No", PermissionOptionKind::RejectOnce),
        ];
        let (sender, answer) = oneshot::channel();
        self.updates
            .permission(PermissionRequest {
                source: ask.source(),
                ..PermissionRequest::of_agent(tool, options, sender)
            })
            .await;
        tokio::select! {
            answer = answer => match answer {
                Ok(PermissionAnswer::Selected(id)) if id != "no" => ScriptedPermissionOutcome::Granted,
                Ok(PermissionAnswer::Declined { .. }) => ScriptedPermissionOutcome::Granted,
                Ok(_) | Err(_) => ScriptedPermissionOutcome::Refused,
            },
            () = self.stop.cancelled() => ScriptedPermissionOutcome::Refused,
        }
    }

    async fn pause(&mut self, delay: Duration) {
        if !delay.is_zero() {
            tokio::select! {
                () = self.pace.pause(delay) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }

    /// Runs a command and shows it as a tool call. A failed command does not fail the turn, as with
    /// a real agent.
    async fn run(&mut self, number: usize, command: &str) -> PlaybackState {
        let name = format!("turn-{}/{number}", self.id);
        let call = ToolCall {
            call: name,
            title: command.to_owned(),
            status: ToolStatus::InProgress,
            kind: Some(ToolKind::Execute),
            ..ToolCall::default()
        };
        self.updates
            .update(AgentUpdate::ToolCalled(call.clone()))
            .await;
        let spec = ProcessSpec {
            command: command.to_owned(),
            cwd: self.place.cwd.clone(),
            env: environment(self.place, TracedWork::Turn(self.id.0))
                .into_iter()
                .chain(path_with(self.place.creel.as_deref()))
                .collect(),
            stdin: Vec::new(),
            timeout: None,
            grace: run::GRACE,
            unset: self.place.unset(),
            mark: format!("{}/turn-{}", self.place.mark, self.id),
        };
        let mut tool = ScriptedToolObserver {
            capture: OutputCapture::new(TOOL_OUTPUT, None, 0),
            updates: &mut *self.updates,
        };
        let end = run::run(spec, &mut tool, self.stop).await;
        let printed = tool.capture.finish();
        let (status, ending) = match end {
            ProcessEnd::Exit(0) => (ToolStatus::Completed, String::new()),
            ProcessEnd::Exit(code) => (ToolStatus::Failed, format!("exit {code}")),
            ProcessEnd::Signal(signal) => {
                (ToolStatus::Failed, format!("killed by signal {signal}"))
            }
            ProcessEnd::Cancelled | ProcessEnd::TimedOut => {
                (ToolStatus::Failed, "cancelled".into())
            }
            ProcessEnd::SpawnFailed(why) => (ToolStatus::Failed, why),
        };
        let parts = [printed.stdout, printed.stderr, ending].map(|part| part.trim_end().to_owned());
        let output = parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("\n");
        let call = ToolCall {
            status,
            output: (!output.is_empty()).then_some(output),
            ..call
        };
        self.updates.update(AgentUpdate::ToolUpdated(call)).await;
        if self.stop.is_cancelled() {
            PlaybackState::Stopped
        } else {
            PlaybackState::GoOn
        }
    }
}

struct ScriptedToolObserver<'a> {
    capture: OutputCapture,
    updates: &'a mut dyn AgentObserver,
}

impl ProcessObserver for ScriptedToolObserver<'_> {
    fn started(&mut self, group: ProcessGroup) {
        self.updates.process(group);
    }

    fn output(&mut self, stream: OutputStream, bytes: &[u8]) {
        self.capture.push(stream, bytes);
    }
}

/// The variable with which a script finds the creel that runs it, wherever that is installed.
fn path_with(creel: Option<&Path>) -> Option<(String, String)> {
    let ours = creel?.parent()?.to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(ours).chain(std::env::split_paths(&path));
    Some((
        "PATH".to_owned(),
        std::env::join_paths(folders).ok()?.into_string().ok()?,
    ))
}

/// Splits text into lines, or into words if a delay makes the pieces visible.
fn chunks(text: &str, delay: Duration) -> Vec<&str> {
    if delay.is_zero() {
        text.split_inclusive('\n').collect()
    } else {
        text.split_inclusive([' ', '\n']).collect()
    }
}

/// Why a script is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The YAML parser's message, with the line.
    #[error("{0}")]
    Malformed(String),
    #[error(
        "`otherwise` answers every prompt, so it cannot have a `when`. Add a turn to `turns` instead"
    )]
    WhenOtherwise,
    #[error("turn {turn} has several ends. Keep one of `fail`, `crash` and `hang`")]
    SeveralEnds { turn: usize },
    #[error("it does not speak the protocol")]
    NotAcp,
    #[error("it is not a command")]
    NotACommand,
}

fn parse(script: &str) -> Result<AgentScript, ScriptError> {
    let options = serde_yaml::options! {
        duplicate_keys: serde_yaml::DuplicateKeyPolicy::Error,
        strict_booleans: true,
    };
    let script: AgentScript = serde_yaml::from_str_with_options(script, options).map_err(|e| {
        ScriptError::Malformed(
            e.render()
                .trim_start_matches("error: ")
                .replace("<input>", "script"),
        )
    })?;
    if script.otherwise.when.is_some() {
        return Err(ScriptError::WhenOtherwise);
    }
    let ends = |turn: &ScriptedTurn| {
        usize::from(turn.fail.is_some()) + usize::from(turn.crash) + usize::from(turn.hang)
    };
    let unclear = script
        .turns
        .iter()
        .chain([&script.otherwise])
        .position(|turn| ends(turn) > 1);
    match unclear {
        Some(i) => Err(ScriptError::SeveralEnds { turn: i + 1 }),
        None => Ok(script),
    }
}

/// Accepts a string or a list of strings.
fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct CommandListVisitor;
    impl<'de> Visitor<'de> for CommandListVisitor {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a command or a list of commands")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(vec![text.to_owned()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut commands = Vec::new();
            while let Some(command) = list.next_element()? {
                commands.push(command);
            }
            Ok(commands)
        }
    }
    deserializer.deserialize_any(CommandListVisitor)
}

/// Accepts seconds, or text such as `400ms`.
fn delay<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    struct DelayVisitor;
    impl Visitor<'_> for DelayVisitor {
        type Value = Duration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a length of time: seconds (`1.5`) or text (`400ms`, `2s`)")
        }

        fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Duration, E> {
            Ok(Duration::from_secs(seconds))
        }

        fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Duration, E> {
            u64::try_from(seconds)
                .map(Duration::from_secs)
                .map_err(|_| E::invalid_value(de::Unexpected::Signed(seconds), &self))
        }

        fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Duration, E> {
            Duration::try_from_secs_f64(seconds)
                .map_err(|_| E::invalid_value(de::Unexpected::Float(seconds), &self))
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
            if let Ok(seconds) = text.trim().parse() {
                return self.visit_f64(seconds);
            }
            let length = text.trim().parse::<jiff::SignedDuration>().ok();
            length
                .and_then(|l| Duration::try_from(l).ok())
                .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
        }
    }
    deserializer.deserialize_any(DelayVisitor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validate(script: &str) -> Result<(), ScriptError> {
        parse(script).map(drop)
    }

    fn agent(script: &str, past: &[&str]) -> ScriptedAgent {
        let place = AgentWorkspace {
            cwd: "/".into(),
            session: "s".into(),
            session_dir: "/".into(),
            mark: "m".into(),
            guard: std::sync::Arc::default(),
            goal: String::new(),
            creel: None,
            variables: None,
            has_tool_hooks: false,
            prices: None,
        };
        let past: Vec<String> = past.iter().map(|p| (*p).to_owned()).collect();
        ScriptedAgent::new(script, place, &past).expect("a good script")
    }

    fn ending(agent: &mut ScriptedAgent, prompt: &str) -> String {
        agent.answer_to(prompt).say.unwrap_or_default()
    }

    const SCRIPT: &str = r#"
turns:
  - say: "first"
    run: "true"
    delay: 400ms
  - when: "Hook feedback"
    say: "fixed"
  - say: "second"
    run: ["a", "b"]
otherwise: { say: "nothing to do" }
"#;

    #[test]
    fn the_first_unused_turn_that_matches_answers() {
        let mut agent = agent(SCRIPT, &[]);
        let prompts = [
            "[Hook feedback]: red",
            "go",
            "[Hook feedback]: red",
            "go",
            "[Hook feedback]: red",
        ];
        let answers = prompts.map(|prompt| ending(&mut agent, prompt));
        assert_eq!(
            answers,
            ["fixed", "first", "second", "nothing to do", "nothing to do"]
        );
    }

    #[test]
    fn a_resumed_session_goes_on_where_it_was() {
        let mut agent = agent(SCRIPT, &["go", "[Hook feedback]: red"]);
        assert_eq!(ending(&mut agent, "[Hook feedback]: red"), "second");
    }

    #[test]
    fn a_delay_is_seconds_or_text() {
        for (written, millis) in [
            ("400ms", 400),
            ("2", 2000),
            ("1.5", 1500),
            ("'3'", 3000),
            ("0", 0),
            ("2s", 2000),
        ] {
            let script = parse(&format!("turns: [{{ delay: {written} }}]")).expect("a good script");
            assert_eq!(
                script.turns[0].delay,
                Duration::from_millis(millis),
                "{written}"
            );
        }
    }

    #[test]
    fn a_wrong_script_is_refused_with_its_place() {
        let unknown = validate("turns:\n  - sya: hello\n")
            .expect_err("a wrong key")
            .to_string();
        assert!(
            unknown.contains("sya") && unknown.contains('2'),
            "{unknown}"
        );
        for script in [
            "turns: 3",
            "turns: [{ delay: -1 }]",
            "turns: [{ delay: soon }]",
            "turns: [{ crash: true, hang: true }]",
        ] {
            assert!(validate(script).is_err(), "{script}");
        }
        assert!(
            validate("otherwise: { when: x }")
                .expect_err("a `when`")
                .to_string()
                .contains("otherwise")
        );
        assert_eq!(validate(SCRIPT), Ok(()));
    }

    #[test]
    fn the_script_of_the_contract_is_good() {
        let script = r#"
turns:
  - say: "I will write the parser."     # streamed as an agent would
    run: "printf 'fn main() {}' > main.rs"   # shown as a tool call; a list runs in order
    delay: 400ms                        # between chunks; 0 in tests
  - when: "Hook feedback"               # this turn answers the first unanswered prompt that matches
    say: "Fixed. <promise>COMPLETE</promise>"
  - fail: "connection reset"            # or crash: true, or hang: true
otherwise: { say: "Nothing to do." }    # when the turns are used up
"#;
        assert_eq!(validate(script), Ok(()));
    }

    #[test]
    fn text_comes_in_lines_or_in_words() {
        assert_eq!(chunks("a b\nc", Duration::ZERO), ["a b\n", "c"]);
        assert_eq!(
            chunks("a b\nc", Duration::from_millis(1)),
            ["a ", "b\n", "c"]
        );
        assert_eq!(
            chunks("a b c\n", Duration::from_millis(1)),
            ["a ", "b ", "c\n"]
        );
    }
}
