//! Why a command failed: the message for the user and the exit code for programs.

use std::fmt;

use crate::{
    config::{ConfigErrors, PlanError},
    engine::refusal::Refusal,
    journal::{JournalError, record::RecordError},
    present::{refusals, text::counted},
    runtime::RuntimeError,
    socket::client::SessionRequestError,
};

/// Wrong usage or config.
const USAGE: u8 = 2;
const FAILED: u8 = 1;

#[derive(Debug)]
pub(super) struct AppError {
    pub(super) code: u8,
    message: String,
    /// The code of the session's refusal, if it refused.
    pub(super) refusal: Option<String>,
}

impl AppError {
    /// The user can fix it: the command line, the config, or the choice of the session.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into(), refusal: None }
    }

    /// A failure that the user did not cause.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into(), refusal: None }
    }

    /// A session that does not run would have refused it.
    pub(super) fn refused(refusal: impl Into<Refusal>) -> Self {
        Self { code: FAILED, ..refusal.into().into() }
    }

    /// Replaces the message.
    pub(super) fn with(self, words: impl FnOnce(String) -> String) -> Self {
        Self { message: words(self.message), ..self }
    }

    /// The message without the exit code.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    pub(super) fn into_message(self) -> String {
        self.message
    }
}

impl fmt::Display for AppError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "creel: {}", self.message)
    }
}

impl From<ConfigErrors> for AppError {
    fn from(errors: ConfigErrors) -> Self {
        let mistakes = counted(errors.diagnostics.len(), "mistake");
        Self::usage(format!("the config has {mistakes}; nothing has run\n\n{errors}"))
    }
}

impl From<PlanError> for AppError {
    fn from(error: PlanError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<JournalError> for AppError {
    fn from(error: JournalError) -> Self {
        let way_out = match &error {
            JournalError::Held { name, .. } => {
                &format!("`creel attach {name}` shows it, `creel stop --session {name}` ends it")
            }
            JournalError::Exists(_) => "choose another name with --session",
            JournalError::Missing(_) => "`creel sessions` lists those that there are",
            JournalError::Record { cause: RecordError::Newer { .. }, .. } => "it was left as it is",
            JournalError::Record { .. } | JournalError::NotASession(_) => {
                "if the file was damaged, cut it before that line; creel goes on from the records that are left"
            }
            JournalError::Disorder(_) => {
                "creel does not resume such a session; `creel show` prints what is there, and if you cut the file before \
                 that line, creel resumes from the records that are left"
            }
            JournalError::Io { .. } => {
                "creel keeps each session's journal in the project's folder, under .creel/sessions: \
                 the folder must be writable, with space left on its disk"
            }
        };
        let usage = matches!(error, JournalError::Held { .. } | JournalError::Exists(_) | JournalError::Missing(_));
        let message = format!("{error}\n  {way_out}");
        if usage { Self::usage(message) } else { Self::failed(message) }
    }
}

impl From<SessionRequestError> for AppError {
    fn from(error: SessionRequestError) -> Self {
        match &error {
            SessionRequestError::Refused(why) => Self { refusal: why.code.clone(), ..Self::failed(&why.text) },
            SessionRequestError::NotSent(_) => Self::failed(error.to_string()),
            SessionRequestError::NotRunning(name) => Self::usage(format!(
                "{error}\n  `creel show {name}` tells what happened, `creel resume {name}` goes on with it"
            )),
            SessionRequestError::Unreachable { .. } | SessionRequestError::Ended(_) => Self::usage(error.to_string()),
        }
    }
}

impl From<RuntimeError> for AppError {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Journal(error) => error.into(),
            RuntimeError::Agent(error) => Self::usage(error.to_string()),
            RuntimeError::Refused(why) => why.into(),
        }
    }
}

impl From<Refusal> for AppError {
    fn from(refusal: Refusal) -> Self {
        Self { refusal: Some(refusal.code().into()), ..Self::usage(refusals::text(&refusal)) }
    }
}
