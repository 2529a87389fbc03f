//! The result of a command: its exit code, or why it failed, with the message for the user.
//!
//! Also owns how verbs print, results on standard output and messages for the user on standard
//! error, and the tokio runtime of a command.

use std::{
    fmt,
    io::{self, Write as _},
};

use crate::{
    config::{ConfigErrors, NatsConfig, PlanError},
    engine::refusal::Refusal,
    farm::FarmError,
    journal::{JournalError, RecordOrderError, record::RecordError},
    nats::connection::{ConnectProblem, NatsError},
    present::{
        refusals,
        text::{counted, plain, without_c1},
    },
    protocol::SessionRequestError,
    runtime::RuntimeError,
};

/// Wrong usage or config.
const USAGE: u8 = 2;
const FAILED: u8 = 1;

/// The exit code of a command, or why it failed.
pub(crate) type CliResult<T = u8> = Result<T, CliError>;

#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) code: u8,
    message: String,
    /// The code of the session's refusal, if it refused.
    pub(crate) refusal: Option<String>,
}

impl CliError {
    /// The user can fix it: the command line, the config, or the choice of the session.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            code: USAGE,
            message: message.into(),
            refusal: None,
        }
    }

    /// A failure that the user did not cause.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self {
            code: FAILED,
            message: message.into(),
            refusal: None,
        }
    }

    /// A session that does not run would have refused it.
    pub(crate) fn refused(refusal: impl Into<Refusal>) -> Self {
        Self {
            code: FAILED,
            ..refusal.into().into()
        }
    }

    /// Replaces the message.
    pub(crate) fn with(self, words: impl FnOnce(String) -> String) -> Self {
        Self {
            message: words(self.message),
            ..self
        }
    }

    /// The message without the exit code.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn into_message(self) -> String {
        self.message
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "creel: {}", self.message)?;
        let way_out = self
            .refusal
            .as_deref()
            .and_then(way_out)
            .filter(|_| !self.message.contains("`creel"));
        way_out.map_or(Ok(()), |way_out| write!(f, "\n  {way_out}"))
    }
}

/// What to do after a refusal that says only what does not exist.
fn way_out(code: &str) -> Option<&'static str> {
    match code {
        "no_such_task" => Some("list the tasks with `creel task list`"),
        "no_such_item" => Some("list the items with `creel pending list`"),
        "no_such_gate" => Some("list the open gates with `creel gate list`"),
        "no_such_hook" => Some("list the hooks with `creel hooks list`"),
        "no_such_checkpoint" => Some("list the checkpoints with `creel checkpoint list`"),
        _ => None,
    }
}

impl From<ConfigErrors> for CliError {
    fn from(errors: ConfigErrors) -> Self {
        // A file that creel cannot read has no mistake at any place.
        let what = match errors.diagnostics.as_slice() {
            [only] if only.place.is_none() => "cannot use the config".to_owned(),
            all => format!("the config has {}", counted(all.len(), "mistake")),
        };
        Self::usage(format!("{what}; nothing has run\n\n{errors}"))
    }
}

impl From<PlanError> for CliError {
    fn from(error: PlanError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<JournalError> for CliError {
    fn from(error: JournalError) -> Self {
        let way_out = match &error {
            JournalError::Held { name, .. } => &format!(
                "show it with `creel attach {name}`, or end it with `creel stop --session {name}`"
            ),
            JournalError::Exists(_) => "choose another name with --session",
            JournalError::Missing(_) => "list the sessions with `creel sessions`",
            JournalError::Record {
                cause: RecordError::Newer { .. },
                ..
            } => "creel did not change it",
            JournalError::Record { line: 1, .. } | JournalError::NotASession(_) => {
                "the file has no record that creel could start from: restore it from a backup, or remove the session's \
                 folder"
            }
            JournalError::Record { .. } => {
                "if the file is damaged, cut it before that line; creel resumes from the records before it"
            }
            JournalError::Disorder(_) => {
                "creel does not resume such a session. Print what is there with `creel show`. If you cut the file \
                 before that line, creel resumes from the records before it"
            }
            JournalError::Io { .. } => {
                "creel keeps each session's journal in the project folder, under .creel/sessions. The folder must be \
                 writable, and its disk must have free space"
            }
        };
        let usage = matches!(
            error,
            JournalError::Held { .. } | JournalError::Exists(_) | JournalError::Missing(_)
        );
        let message = format!("{error}\n  {way_out}");
        if usage {
            Self::usage(message)
        } else {
            Self::failed(message)
        }
    }
}

impl From<SessionRequestError> for CliError {
    fn from(error: SessionRequestError) -> Self {
        match &error {
            SessionRequestError::Refused(why) => Self {
                refusal: why.code.clone(),
                ..Self::failed(&why.text)
            },
            SessionRequestError::NotSent(_) => Self::failed(error.to_string()),
            SessionRequestError::NotRunning(name) => Self::usage(format!(
                "{error}\n  see what happened with `creel show {name}`; if it has not ended, continue it with `creel resume \
                 {name}`"
            )),
            SessionRequestError::Unreachable { .. }
            | SessionRequestError::Unanswered { .. }
            | SessionRequestError::Ended(_) => Self::usage(error.to_string()),
        }
    }
}

impl From<NatsError> for CliError {
    fn from(error: NatsError) -> Self {
        Self::failed(format!("NATS: {error}"))
    }
}

impl From<FarmError> for CliError {
    fn from(error: FarmError) -> Self {
        match error {
            FarmError::Failed(why) => Self::failed(why),
            FarmError::Plan(error) => error.into(),
            FarmError::Queue(error) => error.into(),
            FarmError::Worktree(error) => error.into(),
            FarmError::CannotConnect(nats, problem) => cannot_connect(&nats, &problem),
        }
    }
}

/// Why there is no connection to this server, and what to do.
pub(crate) fn cannot_connect(nats: &NatsConfig, problem: &ConnectProblem) -> CliError {
    let advice = problem
        .advice
        .map(|advice| format!("\n  {advice}"))
        .unwrap_or_default();
    CliError::failed(format!("{}: {}{advice}", nats.shown(), problem.reason))
}

impl From<RuntimeError> for CliError {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Journal(error) => error.into(),
            RuntimeError::Agent(error) => Self::usage(error.to_string()),
            RuntimeError::Refused(why) => why.into(),
        }
    }
}

impl From<Refusal> for CliError {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal: Some(refusal.code().into()),
            ..Self::usage(refusals::text(&refusal))
        }
    }
}

/// How much of a reason or a name fits into a line.
pub(super) const LINE: usize = 100;

/// Writes to standard output and flushes it.
pub(crate) fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(without_c1(text).as_bytes())?;
    out.flush()
}

/// Prints the result of a command. A reader that has gone is no error.
pub(super) fn print(text: &str) -> CliResult {
    match put(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::failed(format!("cannot print: {error}")))
        }
        Ok(()) | Err(_) => Ok(0),
    }
}

pub(super) fn json(value: &impl serde::Serialize) -> CliResult {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| CliError::failed(error.to_string()))?;
    print(&(text + "\n"))
}

/// With `--json`, a refusal is printed as JSON, too: a program decides by its code.
pub(super) fn refusal_as_json(wanted: bool, result: CliResult) -> CliResult {
    if wanted
        && let Err(error) = &result
        && let Some(code) = &error.refusal
    {
        json(&serde_json::json!({ "error": error.message(), "code": code }))?;
    }
    result
}

/// Prints a message for the user.
pub(crate) fn say(text: &str) {
    // If standard error is closed, the user cannot be told. `plain`, since names in the text can
    // come from other programs.
    let _ = writeln!(io::stderr(), "{}", plain(text.trim_end()));
}

/// Warns the user that the lines of a journal are not what a session wrote.
pub(super) fn warn_of(disorder: Option<&RecordOrderError>) {
    if let Some(disorder) = disorder {
        say(&format!("creel: warning: {disorder}"));
    }
}

pub(crate) fn start_tokio() -> CliResult<tokio::runtime::Runtime> {
    let built = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    built.map_err(|error| CliError::failed(format!("cannot start: {error}")))
}
