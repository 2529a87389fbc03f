//! The agent that is one process a turn.
//!
//! Owns which command a turn runs and what its end means. Does not run processes itself (see
//! [`crate::process::run`]), and does not know what agents print: see [`translate`].
//!
//! # Invariants
//! - A turn that says that it failed is a failed turn, whatever the exit code.
//! - A conversation is taken up again only under the name that the agent itself gave it.

use tokio_util::sync::CancellationToken;

use super::{
    Agent, AgentError, AgentPlace, BoxFuture, TurnRequest, Updates,
    disguise::ErrorPattern,
    environment, failure, limit, too_late,
    tools::{self, ToolOptions, ToolServer},
};
use crate::{
    engine::{
        conversation::{AgentUpdate, Conversation, Spent, StopReason, TurnEnd, TurnFailure},
        ids::TurnId,
        plain_text::{Plain, Returns},
        policy::{AgentFacts, AgentSpec, OutputFormat},
        time::Span,
    },
    process::run::{self, ProcessEnd, ProcessSpec, Stream, Watch as _},
};

mod answer;
mod line;
mod lines;
mod translate;
mod voice;

use answer::{Answer, Reader, Rest, StreamRest};
use line::{CommandLine, Place, Streams};
use translate::{Tally, Told, Verdict};
use voice::Pieces;

pub use voice::SAID_MAX;

/// One process a turn.
pub struct CommandAgent {
    first: CommandLine,
    later: Option<CommandLine>,
    format: OutputFormat,
    streams: Streams,
    known: AgentFacts,
    /// What an answer looks like that is really an error.
    disguise: Option<ErrorPattern>,
    /// What passes the session's tools to it.
    tools: Option<ToolOptions>,
    /// What is still to be told about an agent that does not accept them.
    refusal: Option<&'static str>,
    place: AgentPlace,
    memory: Memory,
    /// Whether the conversation is one that an earlier creel process had begun.
    resumed: bool,
}

/// What is known of the current conversation.
#[derive(Debug, Clone)]
struct Memory {
    /// What the agent calls it.
    name: Option<String>,
    /// What the agent counted in it.
    tally: Option<Tally>,
    /// How far it is.
    stage: Stage,
}

/// How far a conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was answered in it.
    Empty,
    /// It goes on.
    Begun,
    /// The agent said that it cannot go on.
    Over,
}

impl Memory {
    /// A conversation in which nothing was said.
    fn fresh() -> Self {
        Self { name: None, tally: Some(Tally::default()), stage: Stage::Empty }
    }
}

/// What one turn runs.
struct Choice<'a> {
    line: &'a CommandLine,
    memory: Memory,
    warning: Option<&'static str>,
}

/// What its end is judged by.
struct Asked<'a> {
    line: &'a CommandLine,
    timeout: Span,
    cancel: &'a CancellationToken,
}

impl CommandAgent {
    /// Checks the command lines. `conversation` is the one that the agent was in when creel was ended.
    pub fn new(spec: &AgentSpec, place: AgentPlace, conversation: Option<&str>) -> Result<Self, AgentError> {
        let AgentSpec::Command { command, continue_command, format, tty, known } = spec else {
            return Err(AgentError::Script("it is no command".into()));
        };
        let tools = ToolOptions::of(&place, known);
        let line = |written: &str, place| CommandLine::new(written, place)?.with_tools(tools.as_ref());
        let later = continue_command.as_deref().map(|written| line(written, Place::Later));
        Ok(Self {
            first: line(command, Place::First)?,
            refusal: tools::refusal(&place, known),
            later: later.transpose()?,
            format: *format,
            streams: if *tty { Streams::Terminal } else { Streams::Pipes },
            disguise: ErrorPattern::of(known)?,
            known: known.clone(),
            tools,
            place,
            memory: Memory { name: conversation.map(str::to_owned), tally: None, stage: Stage::Begun },
            resumed: conversation.is_some(),
        })
    }

    fn choose(&self, conversation: Conversation) -> Choice<'_> {
        let first = |warning| Choice { line: &self.first, memory: Memory::fresh(), warning };
        if conversation == Conversation::New {
            return first(None);
        }
        let Some(later) = &self.later else {
            return first(self.resumed.then_some(
                "the agent has no `continue_command`, so it cannot continue the conversation that it was in: this turn \
                 starts a new one with `command`",
            ));
        };
        match self.memory.stage {
            Stage::Over => first(Some("the conversation cannot go on, so this turn starts a new one with `command`")),
            Stage::Begun | Stage::Empty if !later.needs_conversation || self.memory.name.is_some() => {
                Choice { line: later, memory: self.memory.clone(), warning: None }
            }
            // There is nothing that could be taken up.
            Stage::Empty => first(None),
            Stage::Begun => first(Some(
                "the agent did not say what it calls the conversation, so it cannot be taken up again: this turn starts a \
                 new one with `command`",
            )),
        }
    }

    fn spec(&self, choice: &Choice<'_>, request: &TurnRequest) -> Result<ProcessSpec, TurnFailure> {
        let mut env = environment(&self.place);
        let tools = ToolServer::of(&self.place, &self.known);
        env.extend(tools.map(|tools| (tools::VARIABLE.to_owned(), tools.to_json())));
        env.extend(self.tools.iter().flat_map(ToolOptions::variables));
        choice.line.fill_in(&mut env, &request.text, choice.memory.name.as_deref())?;
        Ok(ProcessSpec {
            command: choice.line.expanded.clone(),
            cwd: self.place.cwd.clone(),
            env: env.into_iter().collect(),
            stdin: choice.line.input(request, self.streams)?,
            timeout: limit(request.timeout),
            grace: run::GRACE,
            mark: format!("{}/turn-{}", self.place.mark, request.turn),
        })
    }

    fn listen(&self, memory: &Memory, request: &TurnRequest, stop: CancellationToken) -> (Answer, Pieces) {
        let reader = match translate::translator(self.format, memory.tally) {
            None => Reader::text(),
            Some(translator) => {
                let plain = (self.streams == Streams::Terminal).then(|| Plain::new(Returns::Redraw));
                Reader::json(translator, Told::new(request.turn, memory.name.clone()), plain)
            }
        };
        Answer::new(reader, &self.place, request.turn, stop)
    }

    async fn one_turn(
        &mut self,
        request: TurnRequest,
        updates: &mut dyn Updates,
        cancel: &CancellationToken,
    ) -> Result<TurnEnd, TurnFailure> {
        if let Some(refusal) = self.refusal.take() {
            updates.update(AgentUpdate::Warned(refusal.to_owned())).await;
        }
        let choice = self.choose(request.conversation);
        let mut request = request;
        if let Some(warning) = choice.warning {
            updates.update(AgentUpdate::Warned(format!("{warning}; the goal goes in front of the prompt"))).await;
            request.text = self.place.with_goal(&request.text);
        }
        let spec = self.spec(&choice, &request)?;
        let stop = cancel.child_token();
        let (mut answer, pieces) = self.listen(&choice.memory, &request, stop.clone());
        let streams = self.streams;
        let run = async move {
            let end = match streams {
                Streams::Pipes => run::run(spec, &mut answer, &stop).await,
                Streams::Terminal => run::run_on_terminal(spec, &mut answer, &stop).await,
            };
            (end, answer.finish())
        };
        let ((end, rest), ()) = tokio::join!(run, pieces.pass_on(updates));
        let misunderstood = if end == ProcessEnd::Exit(0) { self.misunderstood(&rest) } else { None };
        for warning in rest.warnings.iter().cloned().chain(misunderstood) {
            updates.update(AgentUpdate::Warned(warning)).await;
        }
        let asked = Asked { line: choice.line, timeout: request.timeout, cancel };
        let end = self.judge(end, &rest, &asked).map(TurnEnd::new);
        let before = choice.memory;
        self.resumed = false;
        let stage = match &end {
            Ok(_) => Stage::Begun,
            Err(failure) if failure::ends_conversation(&failure.message) => Stage::Over,
            Err(_) => before.stage,
        };
        let Some(StreamRest { end: stream, conversation, .. }) = rest.stream else {
            self.memory = Memory { stage, ..before };
            return end;
        };
        self.memory = Memory { name: conversation, tally: stream.tally.or(before.tally), stage };
        with_spent(end, stream.spent)
    }

    /// Reads `printed` as the output of a whole turn whose process ended with exit code 0, without a process: for tests
    /// that feed hostile output. The conversation is not remembered.
    pub async fn read_output(&self, printed: &[&[u8]], updates: &mut dyn Updates) -> Result<StopReason, TurnFailure> {
        let (turn, conversation, timeout) = (TurnId(1), Conversation::New, Span::default());
        let request = TurnRequest { turn, text: String::new(), conversation, timeout };
        let cancel = CancellationToken::new();
        let (mut answer, pieces) = self.listen(&Memory::fresh(), &request, cancel.clone());
        for piece in printed {
            answer.output(Stream::Stdout, piece);
        }
        let rest = answer.finish();
        pieces.pass_on(updates).await;
        let asked = Asked { line: &self.first, timeout, cancel: &cancel };
        self.judge(ProcessEnd::Exit(0), &rest, &asked)
    }

    /// What the end of the process means.
    fn judge(&self, end: ProcessEnd, rest: &Rest, asked: &Asked<'_>) -> Result<StopReason, TurnFailure> {
        let command = &asked.line.written;
        let words = rest.words();
        let explain = |what: &str| failure::explain(what, &words, &self.known);
        let hopeless = rest.stream.as_ref().and_then(|stream| stream.hopeless.as_deref());
        match end {
            ProcessEnd::Exit(0) => self.answered(rest),
            ProcessEnd::Exit(127) => {
                let what = "the agent was not found (exit 127)";
                Err(failure::not_installed(what, command, &words, &self.known))
            }
            ProcessEnd::Exit(126) => {
                Err(explain(&format!("the agent cannot be executed (exit 126): check the rights of `{command}`")))
            }
            ProcessEnd::Exit(code) => Err(explain(&format!("the agent ended with exit {code}"))),
            ProcessEnd::Signal(signal) => Err(explain(&format!("the agent was killed by signal {signal}"))),
            ProcessEnd::SpawnFailed(why) => Err(TurnFailure::new(format!("the agent could not be started: {why}"))),
            ProcessEnd::TimedOut => Err(failure::after_server_errors(too_late(asked.timeout), &rest.complaints())),
            ProcessEnd::Cancelled => match hopeless.filter(|_| !asked.cancel.is_cancelled()) {
                Some(why) => Err(TurnFailure::new(format!("{why}; it was stopped"))),
                None => Ok(StopReason::Cancelled),
            },
        }
    }

    /// What an answer means whose process ended well.
    fn answered(&self, rest: &Rest) -> Result<StopReason, TurnFailure> {
        let stop_reason = match rest.stream.as_ref().map(|stream| &stream.end.verdict) {
            Some(Verdict::Failed(words)) => {
                return Err(failure::explain("the agent says that its turn failed", words, &self.known));
            }
            Some(Verdict::Ended(stop_reason)) => *stop_reason,
            Some(Verdict::Unsaid) | None => StopReason::EndTurn,
        };
        match self.disguise.as_ref().and_then(|pattern| pattern.find(&rest.last)) {
            Some(error) => Err(failure::explain("the agent printed an error as its answer", error, &self.known)),
            None => Ok(stop_reason),
        }
    }

    /// What a person should know of lines that are not what they should be.
    fn misunderstood(&self, rest: &Rest) -> Option<String> {
        let stream = rest.stream.as_ref()?;
        if stream.counts.understood == 0 && stream.counts.plain > 0 {
            Some(format!(
                "the agent's output is not what `format` says, so it was taken as text: add `{}` to its command, or leave \
                 `format` out",
                translate::arguments(self.format)
            ))
        } else {
            let broke_off = stream.counts.understood > 0 && stream.end.verdict == Verdict::Unsaid;
            broke_off.then(|| "the agent's output breaks off: what it said last may be missing".to_owned())
        }
    }
}

fn with_spent(end: Result<TurnEnd, TurnFailure>, spent: Spent) -> Result<TurnEnd, TurnFailure> {
    end.map(|end| TurnEnd { spent, ..end }).map_err(|failure| TurnFailure { spent, ..failure })
}

impl Agent for CommandAgent {
    fn turn<'a>(
        &'a mut self,
        request: TurnRequest,
        updates: &'a mut dyn Updates,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<TurnEnd, TurnFailure>> {
        Box::pin(self.one_turn(request, updates, cancel))
    }

    /// Nothing is kept between turns.
    fn shutdown(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
