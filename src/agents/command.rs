//! An agent that runs one process per turn.
//!
//! Owns which command a turn runs and what its end means. Does not run processes itself (see
//! [`crate::process::run`]), and does not parse their output: see [`translate`].
//!
//! # Invariants
//! - If the agent reports that its turn failed, the turn failed, whatever the exit code.
//! - A conversation is continued only under the id that the agent itself gave it.
//! - The prompt and the conversation id are data: standard input or one argument, never part of the
//!   command text.

mod answer_reader;
mod answer_stream;
mod translate;

use std::collections::BTreeMap;

use tokio_util::sync::CancellationToken;

use super::{
    Agent, AgentError, AgentHistory, AgentObserver, AgentWorkspace, BoxFuture, TurnRequest,
    environment,
    error_pattern::ErrorPattern,
    failure::{self, FailureKind},
    limit,
    mcp_tools::{self, ToolOptions, ToolServer},
    native_hooks::NativeHooks,
    scripted::ScriptError,
    too_late, with_flags,
};
use crate::{
    engine::{
        conversation::{
            AGENT_NOT_STARTED, AgentUpdate, ConversationMode, StopReason, TurnEnd, TurnFailure,
            TurnUsage,
        },
        hooks::template,
        ids::TurnId,
        policy::{AgentFacts, AgentSpec, OutputFormat},
        time::TimeSpan,
    },
    process::{
        VARIABLE_MAX, pty,
        run::{self, OutputStream, ProcessEnd, ProcessObserver as _, ProcessSpec},
        trace_context::TracedWork,
    },
    text::{CarriageReturnMode, PlainTextFilter},
};
use answer_reader::{AnswerReader, JsonStreamSummary, OutputDecoder, OutputSummary};
use answer_stream::AnswerReceiver;
use translate::{
    ReportedUsage, StreamOutcome, StreamTranslator, TranslatedOutput, claude, codex, gemini,
};

pub struct CommandAgent {
    first: CommandLine,
    later: Option<CommandLine>,
    format: OutputFormat,
    streams: StandardStreams,
    known: AgentFacts,
    /// Recognises an answer that is really an error.
    disguise: Option<ErrorPattern>,
    /// Options that pass the session's tools to the agent.
    tools: Option<ToolOptions>,
    /// The hook that creel adds to the agent.
    hooks: Option<NativeHooks>,
    /// A warning to show once, if the agent does not accept the tools.
    refusal: Option<&'static str>,
    place: AgentWorkspace,
    memory: CommandConversation,
    /// The conversation that the session begins with, until a turn in it has ended well.
    chosen: Option<String>,
}

#[derive(Debug, Clone)]
struct CommandConversation {
    /// The agent's id for it.
    name: Option<String>,
    /// The usage that the agent reported in it. None if unknown.
    tally: Option<ReportedUsage>,
    stage: ConversationProgress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConversationProgress {
    /// The agent has not answered yet.
    Empty,
    Begun,
    /// The agent reported that it cannot continue the conversation.
    Over,
}

impl CommandConversation {
    /// A conversation that is older than this process.
    const fn of(name: Option<String>) -> Self {
        Self {
            name,
            tally: None,
            stage: ConversationProgress::Begun,
        }
    }

    fn fresh() -> Self {
        Self {
            name: None,
            tally: Some(ReportedUsage::default()),
            stage: ConversationProgress::Empty,
        }
    }
}

struct TurnCommand<'a> {
    line: &'a CommandLine,
    memory: CommandConversation,
    warning: Option<&'static str>,
}

/// What is needed to judge the end of a turn.
struct TurnEndContext<'a> {
    line: &'a CommandLine,
    timeout: TimeSpan,
    cancel: &'a CancellationToken,
}

impl CommandAgent {
    /// Checks the command lines.
    pub fn new(
        spec: &AgentSpec,
        place: AgentWorkspace,
        past: AgentHistory<'_>,
    ) -> Result<Self, AgentError> {
        let AgentSpec::Command {
            command,
            continue_command,
            format,
            tty,
            known,
        } = spec
        else {
            return Err(AgentError::Script(ScriptError::NotACommand));
        };
        let chosen = past.first.map(|first| first.id.clone());
        let tools = ToolOptions::of(&place, known);
        let hooks = NativeHooks::of(&place, known)?;
        let line = |written: &str, place| {
            let line = CommandLine::new(written, place)?.with_tools(tools.as_ref())?;
            line.with_hooks(hooks.as_ref())
        };
        let later = continue_command
            .as_deref()
            .map(|written| line(written, TurnPosition::Later));
        Ok(Self {
            first: line(command, TurnPosition::First)?,
            refusal: mcp_tools::refusal(&place, known),
            later: later.transpose()?,
            format: *format,
            streams: if *tty {
                StandardStreams::Terminal
            } else {
                StandardStreams::Pipes
            },
            disguise: ErrorPattern::of(known)?,
            known: known.clone(),
            tools,
            hooks,
            place,
            memory: CommandConversation::of(
                past.conversation.map(str::to_owned).or(chosen.clone()),
            ),
            chosen,
        })
    }

    fn choose(&self, request: &TurnRequest) -> TurnCommand<'_> {
        let first = |warning| TurnCommand {
            line: &self.first,
            memory: CommandConversation::fresh(),
            warning,
        };
        if request.conversation == ConversationMode::New {
            return first(None);
        }
        let Some(later) = &self.later else {
            return first(None);
        };
        match self.memory.stage {
            ConversationProgress::Over => first(Some(
                "the conversation cannot continue, so this turn starts a new one with `command`",
            )),
            ConversationProgress::Begun
                if !later.needs_conversation || self.memory.name.is_some() =>
            {
                TurnCommand {
                    line: later,
                    memory: self.memory.clone(),
                    warning: None,
                }
            }
            // There is no conversation to continue yet.
            ConversationProgress::Empty => {
                let lacks_goal = self.place.with_goal(&request.text) != request.text;
                first(lacks_goal.then_some(
                    "the last turn ended before the agent answered, so there is no conversation to continue",
                ))
            }
            ConversationProgress::Begun => first(Some(
                "the agent did not report the id of its conversation, so creel cannot continue it. This turn starts a \
                 new one with `command`",
            )),
        }
    }

    fn spec(
        &self,
        choice: &TurnCommand<'_>,
        request: &TurnRequest,
    ) -> Result<ProcessSpec, TurnFailure> {
        if let Some(hooks) = &self.hooks {
            let prepared = hooks.prepare();
            prepared.map_err(|error| TurnFailure::new(error.to_string()))?;
        }
        let mut env = environment(&self.place, TracedWork::Turn(request.turn.0));
        let tools = ToolServer::of(&self.place, &self.known);
        env.extend(tools.map(|tools| (mcp_tools::VARIABLE.to_owned(), tools.to_json())));
        env.extend(self.tools.iter().flat_map(ToolOptions::variables));
        env.extend(self.hooks.iter().flat_map(NativeHooks::variables));
        choice
            .line
            .fill_in(&mut env, &request.text, choice.memory.name.as_deref())?;
        let (line, model) = (&choice.line.expanded, request.model.as_deref());
        let command = with_flags(&self.known, model, line, &mut env)
            .map_err(|error| TurnFailure::new(error.to_string()))?;
        Ok(ProcessSpec {
            command,
            cwd: self.place.cwd.clone(),
            env: env.into_iter().collect(),
            stdin: choice.line.input(request, self.streams)?,
            timeout: limit(request.timeout),
            grace: run::GRACE,
            unset: self.place.unset(),
            mark: format!("{}/turn-{}", self.place.mark, request.turn),
        })
    }

    fn listen(
        &self,
        memory: &CommandConversation,
        request: &TurnRequest,
        stop: CancellationToken,
    ) -> (AnswerReader, AnswerReceiver) {
        let reader = match translator(self.format, memory.tally) {
            None => OutputDecoder::text(),
            Some(translator) => {
                let plain = (self.streams == StandardStreams::Terminal)
                    .then(|| PlainTextFilter::new(CarriageReturnMode::Redraw));
                OutputDecoder::json(
                    translator,
                    TranslatedOutput::new(request.turn, memory.name.clone()),
                    plain,
                )
            }
        };
        AnswerReader::new(reader, &self.place, request.turn, stop)
    }

    async fn one_turn(
        &mut self,
        request: TurnRequest,
        updates: &mut dyn AgentObserver,
        cancel: &CancellationToken,
    ) -> Result<TurnEnd, TurnFailure> {
        if let Some(refusal) = self.refusal.take() {
            updates
                .update(AgentUpdate::Warned(refusal.to_owned()))
                .await;
        }
        let (end, is_lost) = self.attempt(request.clone(), updates, cancel).await;
        if is_lost {
            self.attempt(request, updates, cancel).await.0
        } else {
            end
        }
    }

    /// Runs the command once. Also returns whether the agent does not know the conversation, and so
    /// did nothing.
    async fn attempt(
        &mut self,
        mut request: TurnRequest,
        updates: &mut dyn AgentObserver,
        cancel: &CancellationToken,
    ) -> (Result<TurnEnd, TurnFailure>, bool) {
        let choice = self.choose(&request);
        if let Some(warning) = choice.warning {
            updates
                .update(AgentUpdate::Warned(format!(
                    "{warning}. creel puts the goal in front of the prompt"
                )))
                .await;
            request.text = self.place.with_goal(&request.text);
        }
        let spec = match self.spec(&choice, &request) {
            Ok(spec) => spec,
            Err(failure) => return (Err(failure), false),
        };
        let stop = cancel.child_token();
        let (mut answer, pieces) = self.listen(&choice.memory, &request, stop.clone());
        let streams = self.streams;
        let run = async move {
            let end = match streams {
                StandardStreams::Pipes => run::run(spec, &mut answer, &stop).await,
                StandardStreams::Terminal => run::run_on_terminal(spec, &mut answer, &stop).await,
            };
            (end, answer.finish())
        };
        let ((end, rest), ()) = tokio::join!(run, pieces.pass_on(updates));
        let misunderstood = if end == ProcessEnd::Exit(0) {
            self.misunderstood(&rest)
        } else {
            None
        };
        for warning in rest.warnings.iter().cloned().chain(misunderstood) {
            updates.update(AgentUpdate::Warned(warning)).await;
        }
        let asked = TurnEndContext {
            line: choice.line,
            timeout: request.timeout,
            cancel,
        };
        let end = self.judge(end, &rest, &asked).map(TurnEnd::new);
        let has_answered = self.has_answered(&rest);
        // The conversation that the user chose is not replaced by a new one.
        let is_lost = self.chosen.is_none()
            && choice.memory.stage == ConversationProgress::Begun
            && !has_answered
            && end
                .as_ref()
                .is_err_and(|failure| failure::is_unknown_conversation(&failure.message));
        let before = choice.memory;
        if end.is_ok() {
            self.chosen = None;
        }
        let stage = match &end {
            Err(failure) if failure::ends_conversation(&failure.message) => {
                ConversationProgress::Over
            }
            Ok(_) | Err(_) if has_answered => ConversationProgress::Begun,
            Ok(end) if end.stop_reason != StopReason::Cancelled => ConversationProgress::Begun,
            Ok(_) | Err(_) => before.stage,
        };
        let Some(JsonStreamSummary {
            end: stream,
            conversation,
            ..
        }) = rest.stream
        else {
            self.remember(CommandConversation { stage, ..before });
            return (end, is_lost);
        };
        self.remember(CommandConversation {
            name: conversation,
            tally: stream.tally.or(before.tally),
            stage,
        });
        (with_spent(end, stream.spent), is_lost)
    }

    /// Whether the agent said or did something, so that there is a conversation to continue.
    fn has_answered(&self, rest: &OutputSummary) -> bool {
        let is_error = |pattern: &ErrorPattern| pattern.find(&rest.last).is_some();
        let end = rest.answer_end();
        match &rest.stream {
            Some(stream) => stream.has_answer,
            None => {
                !end.is_empty()
                    && FailureKind::of(&end) == FailureKind::Other
                    && !self.disguise.as_ref().is_some_and(is_error)
            }
        }
    }

    /// A turn that fails leads back to the conversation that the user chose, not to a new one.
    fn remember(&mut self, memory: CommandConversation) {
        self.memory = match &self.chosen {
            Some(chosen) if memory.stage == ConversationProgress::Over => {
                CommandConversation::of(Some(chosen.clone()))
            }
            Some(_) | None => memory,
        };
    }

    /// For tests with hostile output: reads `printed` as the output of a whole turn whose process
    /// exited with code 0. Starts no process and does not remember the conversation.
    pub async fn read_output(
        &self,
        printed: &[&[u8]],
        updates: &mut dyn AgentObserver,
    ) -> Result<StopReason, TurnFailure> {
        let (turn, conversation, timeout) = (TurnId(1), ConversationMode::New, TimeSpan::default());
        let request = TurnRequest {
            turn,
            text: String::new(),
            conversation,
            model: None,
            timeout,
        };
        let cancel = CancellationToken::new();
        let (mut answer, pieces) =
            self.listen(&CommandConversation::fresh(), &request, cancel.clone());
        for piece in printed {
            answer.output(OutputStream::Stdout, piece);
        }
        let rest = answer.finish();
        pieces.pass_on(updates).await;
        let asked = TurnEndContext {
            line: &self.first,
            timeout,
            cancel: &cancel,
        };
        self.judge(ProcessEnd::Exit(0), &rest, &asked)
    }

    fn judge(
        &self,
        end: ProcessEnd,
        rest: &OutputSummary,
        asked: &TurnEndContext<'_>,
    ) -> Result<StopReason, TurnFailure> {
        let command = &asked.line.written;
        let words = rest.words();
        let explain = |what: &str| failure::explain(what, &words, &self.known);
        let hopeless = rest
            .stream
            .as_ref()
            .and_then(|stream| stream.hopeless.as_deref());
        match end {
            ProcessEnd::Exit(0) => self.answered(rest),
            ProcessEnd::Exit(127) => {
                let what = "the agent was not found (exit 127)";
                Err(failure::not_installed(what, command, &words, &self.known))
            }
            ProcessEnd::Exit(126) => Err(explain(&format!(
                "the agent is not executable (exit 126). Check the permissions of `{command}`"
            ))),
            ProcessEnd::Exit(code) => Err(explain(&format!("the agent ended with exit {code}"))),
            ProcessEnd::Signal(signal) => {
                Err(explain(&format!("the agent was killed by signal {signal}")))
            }
            ProcessEnd::SpawnFailed(why) => {
                Err(TurnFailure::new(format!("{AGENT_NOT_STARTED}: {why}")))
            }
            ProcessEnd::TimedOut => Err(failure::after_server_errors(
                too_late(asked.timeout),
                &rest.complaints(),
            )),
            ProcessEnd::Cancelled => match hopeless.filter(|_| !asked.cancel.is_cancelled()) {
                Some(why) => Err(failure::explain(
                    "creel stopped the agent",
                    why,
                    &self.known,
                )),
                None => Ok(StopReason::Cancelled),
            },
        }
    }

    /// Judges an answer whose process exited with code 0.
    fn answered(&self, rest: &OutputSummary) -> Result<StopReason, TurnFailure> {
        let stop_reason = match rest.stream.as_ref().map(|stream| &stream.end.verdict) {
            Some(StreamOutcome::Failed(words)) => {
                return Err(failure::explain(
                    "the agent reports that its turn failed",
                    words,
                    &self.known,
                ));
            }
            Some(StreamOutcome::Ended(stop_reason)) => *stop_reason,
            Some(StreamOutcome::Unsaid) | None => StopReason::EndTurn,
        };
        match self
            .disguise
            .as_ref()
            .and_then(|pattern| pattern.find(&rest.last))
        {
            Some(error) => Err(failure::explain(
                "the agent's answer was an error message",
                error,
                &self.known,
            )),
            None => Ok(stop_reason),
        }
    }

    /// A warning for the user about lines that do not match the format.
    fn misunderstood(&self, rest: &OutputSummary) -> Option<String> {
        let stream = rest.stream.as_ref()?;
        if stream.counts.understood == 0 && stream.counts.plain > 0 {
            Some(format!(
                "the agent's output does not have the configured `format`, so creel reads it as text. Add `{}` to the \
                 agent's command, or remove `format`",
                translate::arguments(self.format)
            ))
        } else {
            let broke_off =
                stream.counts.understood > 0 && stream.end.verdict == StreamOutcome::Unsaid;
            broke_off.then(|| {
                "the agent's output ends abruptly. The end of its answer may be missing".to_owned()
            })
        }
    }
}

fn with_spent(end: Result<TurnEnd, TurnFailure>, spent: TurnUsage) -> Result<TurnEnd, TurnFailure> {
    end.map(|end| TurnEnd { spent, ..end })
        .map_err(|failure| TurnFailure { spent, ..failure })
}

impl Agent for CommandAgent {
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

/// The placeholder for the prompt.
const PROMPT: &str = "prompt";
/// The placeholder for the agent's id of the conversation.
const CONVERSATION: &str = "conversation";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnPosition {
    First,
    Later,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StandardStreams {
    Pipes,
    Terminal,
}

#[derive(Debug, Clone)]
struct CommandLine {
    /// As written in the config.
    written: String,
    /// For the shell.
    expanded: String,
    /// Whether it needs the conversation's id.
    needs_conversation: bool,
    prompt_as: PromptPassing,
    /// Whether it uses the prompt's variable, through the placeholder or directly.
    needs_prompt: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PromptPassing {
    StandardInput,
    Argument,
}

impl CommandLine {
    fn new(written: &str, place: TurnPosition) -> Result<Self, AgentError> {
        let names: &[&str] = match place {
            TurnPosition::First => &[PROMPT, "session"],
            TurnPosition::Later => &[PROMPT, "session", CONVERSATION],
        };
        let placeholders = template::placeholders(written);
        if let Some(unknown) = placeholders
            .iter()
            .find(|p| !names.contains(&p.name.as_str()))
        {
            return Err(AgentError::UnknownName {
                name: unknown.name.clone(),
            });
        }
        let names = |name: &str| placeholders.iter().any(|p| p.name == name);
        Ok(Self {
            written: written.to_owned(),
            expanded: template::expand(written)?,
            needs_conversation: names(CONVERSATION),
            prompt_as: if names(PROMPT) {
                PromptPassing::Argument
            } else {
                PromptPassing::StandardInput
            },
            needs_prompt: names(PROMPT) || written.contains(&template::variable(PROMPT)),
        })
    }

    /// Adds the options that pass the session's tools. Messages still show the command as written.
    fn with_tools(self, tools: Option<&ToolOptions>) -> Result<Self, AgentError> {
        let Some(tools) = tools else { return Ok(self) };
        Ok(Self {
            expanded: tools.added_to(&self.written)?,
            ..self
        })
    }

    fn with_hooks(self, hooks: Option<&NativeHooks>) -> Result<Self, AgentError> {
        let Some(hooks) = hooks else { return Ok(self) };
        Ok(Self {
            expanded: hooks.added_to(&self.expanded)?,
            ..self
        })
    }

    /// Adds the variables that the command line uses.
    fn fill_in(
        &self,
        env: &mut BTreeMap<String, String>,
        prompt: &str,
        conversation: Option<&str>,
    ) -> Result<(), TurnFailure> {
        if self.needs_prompt {
            if prompt.len() > VARIABLE_MAX {
                return Err(TurnFailure::new(format!(
                    "the prompt is too long for an argument ({} B; the limit is {VARIABLE_MAX} B). Remove \
                     {{{{prompt}}}} from the agent's command, so that the agent reads the prompt from standard input",
                    prompt.len()
                )));
            }
            env.insert(template::variable(PROMPT), prompt.to_owned());
        }
        if let Some(conversation) = conversation.filter(|_| self.needs_conversation) {
            env.insert(template::variable(CONVERSATION), conversation.to_owned());
        }
        Ok(())
    }

    /// The standard input of the command.
    fn input(
        &self,
        request: &TurnRequest,
        streams: StandardStreams,
    ) -> Result<Vec<u8>, TurnFailure> {
        match (self.prompt_as, streams) {
            (PromptPassing::Argument, _) => Ok(Vec::new()),
            (PromptPassing::StandardInput, StandardStreams::Pipes) => Ok(request.text.clone().into_bytes()),
            (PromptPassing::StandardInput, StandardStreams::Terminal) => pty::typed(&request.text).ok_or_else(|| {
                TurnFailure::new(format!(
                    "a line of the prompt is longer than {} B, the limit of a terminal. Add {{{{prompt}}}} to the \
                     agent's command, or remove `tty: true`",
                    pty::LINE_MAX
                ))
            }),
        }
    }
}

/// The translator of a format, or None for plain text. `before` is the usage of this conversation
/// before the turn, if known.
fn translator(
    format: OutputFormat,
    before: Option<ReportedUsage>,
) -> Option<Box<dyn StreamTranslator>> {
    match format {
        OutputFormat::Text => None,
        OutputFormat::Claude => Some(Box::new(claude::ClaudeTranslator::new(before))),
        OutputFormat::Codex => Some(Box::new(codex::CodexTranslator::new(before))),
        OutputFormat::Gemini => Some(Box::<gemini::GeminiTranslator>::default()),
        OutputFormat::Opencode => Some(Box::<gemini::OpencodeTranslator>::default()),
    }
}
