//! The agent that is one process a turn.
//!
//! Owns how the prompt reaches the command and how its output becomes an answer. Does not run processes itself: see
//! [`crate::hooks::process`].
//!
//! # Invariants
//! - The prompt is data: it is read from standard input or is one argument, and never part of the command text.
//! - At most [`SAID_MAX`] of an answer is passed on as it comes; of a longer one the rest goes to a file, and only its
//!   end is passed on.

use std::{path::PathBuf, time::Duration};

use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{Agent, AgentError, AgentPlace, BoxFuture, TurnRequest, Updates, cancelled, environment, limit, too_late};
use crate::{
    engine::{
        conversation::{AgentUpdate, Conversation, StopReason, TurnEnd, TurnFailure},
        hooks::template,
        ids::TurnId,
    },
    hooks::{
        VARIABLE_MAX,
        output::{self, Ring, Spool},
        process::{self, Group, ProcessEnd, ProcessSpec, Stream, Watch},
    },
};

/// How much of an answer is passed on as it comes.
pub const SAID_MAX: usize = 1024 * 1024;
/// How much of the end of a longer answer is passed on.
const SAID_END: usize = 16 * 1024;
/// How much of standard error explains a failure.
const ERROR_END: usize = 2 * 1024;
/// Text is passed on when there is so much of it …
const PIECE: usize = 4 * 1024;
/// … or when it is so old, or at the end of a line.
const PIECE_AGE: Duration = Duration::from_millis(50);
/// The name that stands for the prompt.
const PROMPT: &str = "prompt";
/// The names that an agent's command may use.
const NAMES: &[&str] = &[PROMPT, "session"];

/// One process a turn.
pub struct CommandAgent {
    first: CommandLine,
    later: CommandLine,
    place: AgentPlace,
}

/// A command line and how it gets the prompt.
#[derive(Debug, Clone)]
struct CommandLine {
    written: String,
    expanded: String,
    prompt_as: PromptAs,
    /// Whether it looks at the variable, by name or by ours.
    needs_variable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PromptAs {
    StandardInput,
    Argument,
}

impl CommandLine {
    fn new(written: &str) -> Result<Self, AgentError> {
        let placeholders = template::placeholders(written);
        if let Some(unknown) = placeholders.iter().find(|p| !NAMES.contains(&p.name.as_str())) {
            return Err(AgentError::UnknownName { name: unknown.name.clone() });
        }
        let has_prompt = placeholders.iter().any(|p| p.name == PROMPT);
        Ok(Self {
            written: written.to_owned(),
            expanded: template::expand(written)?,
            prompt_as: if has_prompt { PromptAs::Argument } else { PromptAs::StandardInput },
            needs_variable: has_prompt || written.contains(&template::variable(PROMPT)),
        })
    }
}

impl CommandAgent {
    /// Checks the command lines; `later` is for the later turns of one conversation.
    pub fn new(first: &str, later: Option<&str>, place: AgentPlace) -> Result<Self, AgentError> {
        let first = CommandLine::new(first)?;
        let later = later.map(CommandLine::new).transpose()?.unwrap_or_else(|| first.clone());
        Ok(Self { first, later, place })
    }

    fn spec(&self, line: &CommandLine, request: &TurnRequest) -> Result<ProcessSpec, TurnFailure> {
        let mut env = environment(&self.place);
        if line.needs_variable {
            if request.text.len() > VARIABLE_MAX {
                return Err(TurnFailure::new(format!(
                    "the prompt has {} bytes, too many for an argument (at most {VARIABLE_MAX}): leave {{{{prompt}}}} out of \
                     the agent's command, so that it reads the prompt on standard input",
                    request.text.len()
                )));
            }
            env.insert(template::variable(PROMPT), request.text.clone());
        }
        Ok(ProcessSpec {
            command: line.expanded.clone(),
            cwd: self.place.cwd.clone(),
            env: env.into_iter().collect(),
            stdin: match line.prompt_as {
                PromptAs::StandardInput => request.text.clone().into_bytes(),
                PromptAs::Argument => Vec::new(),
            },
            timeout: limit(request.timeout),
            grace: process::GRACE,
            mark: format!("{}/turn-{}", self.place.mark, request.turn),
        })
    }

    async fn one_turn(
        &mut self,
        request: TurnRequest,
        updates: &mut dyn Updates,
        cancel: &CancellationToken,
    ) -> Result<TurnEnd, TurnFailure> {
        let line = match request.conversation {
            Conversation::New => &self.first,
            Conversation::Same => &self.later,
        };
        let spec = self.spec(line, &request)?;
        let (pieces, waiting) = unbounded_channel();
        let mut answer = Answer::new(pieces, &self.place, request.turn);
        let run = async move {
            let end = process::run(spec, &mut answer, cancel).await;
            (end, answer.finish())
        };
        let ((end, rest), ()) = tokio::join!(run, pass_on(waiting, updates));
        if let Some(warning) = rest.warning {
            updates.update(AgentUpdate::Warned(warning)).await;
        }
        match end {
            ProcessEnd::Exit(0) => Ok(TurnEnd::new(StopReason::EndTurn)),
            ProcessEnd::Cancelled => Ok(cancelled()),
            ProcessEnd::TimedOut => Err(too_late(request.timeout)),
            ProcessEnd::Exit(code) => Err(TurnFailure::new(exit_said(code, &line.written, &rest.errors))),
            ProcessEnd::Signal(signal) => {
                Err(TurnFailure::new(with_errors(&format!("the agent was killed by signal {signal}"), &rest.errors)))
            }
            ProcessEnd::SpawnFailed(why) => Err(TurnFailure::new(format!("the agent could not be started: {why}"))),
        }
    }
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

fn exit_said(code: i32, command: &str, errors: &str) -> String {
    match code {
        127 => with_errors(
            &format!(
                "the agent was not found (exit 127): `{command}` names a program that is not installed or not on the PATH; \
                 install it, or change the agent's `command`"
            ),
            errors,
        ),
        126 => {
            with_errors(&format!("the agent cannot be executed (exit 126): check the rights of `{command}`"), errors)
        }
        code => with_errors(&format!("the agent ended with exit {code}"), errors),
    }
}

fn with_errors(what: &str, errors: &str) -> String {
    match errors.trim() {
        "" => format!("{what}, and printed nothing on standard error"),
        errors => format!("{what}: {errors}"),
    }
}

/// What goes from the process to those who listen.
enum Piece {
    Started(Group),
    Bytes(Vec<u8>),
}

/// Takes the output of the process. It must not wait, so it puts pieces aside for [`pass_on`]; since only
/// [`SAID_MAX`] of them are put there, that is bounded.
struct Answer {
    pieces: UnboundedSender<Piece>,
    /// What was put aside, until it is known whether a file is needed.
    begun: Vec<u8>,
    total: u64,
    end: Ring,
    errors: Ring,
    path: PathBuf,
    name: String,
    spool: Option<Spool>,
}

struct Rest {
    errors: String,
    warning: Option<String>,
}

impl Answer {
    fn new(pieces: UnboundedSender<Piece>, place: &AgentPlace, turn: TurnId) -> Self {
        let name = format!("outputs/turn-{turn}.log");
        Self {
            pieces,
            begun: Vec::new(),
            total: 0,
            end: Ring::new(SAID_END),
            errors: Ring::new(ERROR_END),
            path: place.session_dir.join(&name),
            name,
            spool: None,
        }
    }

    fn said(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (now, later) = bytes.split_at(bytes.len().min(SAID_MAX - self.begun.len()));
        if !now.is_empty() {
            self.begun.extend_from_slice(now);
            self.send(now.to_vec());
        }
        if !later.is_empty() {
            let spool = self.spool.get_or_insert_with(|| {
                let mut spool = Spool::new(self.path.clone(), self.name.clone(), output::FILE_CAP);
                spool.write(&self.begun);
                spool
            });
            spool.write(later);
            self.end.push(later);
        }
    }

    fn send(&self, bytes: Vec<u8>) {
        // Nobody listens only when the turn is being dropped.
        let _ = self.pieces.send(Piece::Bytes(bytes));
    }

    /// Says the end of a long answer, and tells what is missing.
    fn finish(self) -> Rest {
        let missing = self.total - (self.begun.len() + self.end.len()) as u64;
        let whole = self.spool.as_ref().and_then(Spool::whole_is_in);
        let mut end = self.end.bytes();
        let warning = (missing > 0).then(|| {
            self.send(format!("\n{}", output::marker(missing, whole.as_deref())).into_bytes());
            end.drain(..output::torn_start(&end));
            let whole = whole.map(|w| format!(" ({w})")).unwrap_or_default();
            format!("the answer is very long: {missing} of {} bytes are left out{whole}", self.total)
        });
        if !end.is_empty() {
            self.send(end);
        }
        Rest { errors: String::from_utf8_lossy(&self.errors.bytes()).into_owned(), warning }
    }
}

impl Watch for Answer {
    fn started(&mut self, group: Group) {
        let _ = self.pieces.send(Piece::Started(group));
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => self.said(bytes),
            Stream::Stderr => self.errors.push(bytes),
        }
    }
}

/// Passes on what was put aside, in pieces that are neither tiny nor late, until there is no more.
async fn pass_on(mut waiting: UnboundedReceiver<Piece>, updates: &mut dyn Updates) {
    let mut held: Vec<u8> = Vec::new();
    let mut since = Instant::now();
    loop {
        let next = if held.is_empty() {
            waiting.recv().await
        } else if let Ok(next) = timeout_at(since + PIECE_AGE, waiting.recv()).await {
            next
        } else {
            let whole = held.len() - output::torn_end(&held);
            say(held.drain(..whole), updates).await;
            // The half of a character that is left waits for the other half, however long that takes.
            since = Instant::now();
            continue;
        };
        match next {
            None => break,
            Some(Piece::Started(group)) => updates.process(group),
            Some(Piece::Bytes(bytes)) => {
                if held.is_empty() {
                    since = Instant::now();
                }
                held.extend_from_slice(&bytes);
                while let Some(ready) = ready(&held) {
                    say(held.drain(..ready), updates).await;
                }
            }
        }
    }
    say(held.drain(..), updates).await;
}

/// How much of this can go out now: whole lines, or a piece.
fn ready(held: &[u8]) -> Option<usize> {
    let piece = &held[..held.len().min(PIECE)];
    match piece.iter().rposition(|b| *b == b'\n') {
        Some(line_end) => Some(line_end + 1),
        None if piece.len() == PIECE => Some(PIECE - output::torn_end(piece)),
        None => None,
    }
}

async fn say(bytes: impl Iterator<Item = u8>, updates: &mut dyn Updates) {
    let bytes: Vec<u8> = bytes.collect();
    if !bytes.is_empty() {
        updates.update(AgentUpdate::Said(String::from_utf8_lossy(&bytes).into_owned())).await;
    }
}
