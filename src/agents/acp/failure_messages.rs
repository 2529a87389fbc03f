//! Messages for the ways in which an agent can fail.
//!
//! [`crate::agents::failure`] interprets the agent's own words.

use std::time::Duration;

use agent_client_protocol::{Error, v1::schema as s};

use super::{AcpAgent, TurnAbortReason};
use super::{
    connection::{AcpConnection, AcpProcessExit},
    exchange::AcpRequestError,
};
use crate::{
    agents::{failure, limited},
    engine::{conversation::TurnFailure, time::TimeSpan},
    process::run::ProcessEnd,
};

/// The protocol's error code for an agent that needs a login first.
const AUTH_REQUIRED: i32 = -32000;

impl AcpAgent {
    /// Why the agent did not do what creel asked for.
    pub(super) async fn why_not(
        &self,
        link: &mut AcpConnection,
        broken: AcpRequestError,
        what: &str,
        hello: Option<&s::InitializeResponse>,
    ) -> TurnAbortReason {
        match broken {
            AcpRequestError::Cancelled => TurnAbortReason::Cancelled,
            AcpRequestError::TooLate => TurnAbortReason::TooLate,
            AcpRequestError::Gone => {
                TurnAbortReason::Failed(self.death(&link.obituary().await, what))
            }
            AcpRequestError::Answered(error) if link.gone.is_cancelled() || is_hung_up(&error) => {
                TurnAbortReason::Failed(self.death(&link.obituary().await, what))
            }
            AcpRequestError::Answered(error) => {
                let methods = hello.map(login_methods).unwrap_or_default();
                TurnAbortReason::Failed(self.refusal(&error, what, &link.complaints(), &methods))
            }
        }
    }

    /// The agent started, but does not answer.
    pub(super) fn silence(&self, waited: Duration) -> TurnFailure {
        TurnFailure::new(format!(
            "the agent started but did not answer within {}. Run `{}` by hand to see why, and check that this command \
             speaks the Agent Client Protocol",
            TimeSpan::from(waited),
            self.command
        ))
    }

    /// The agent speaks another version of the protocol.
    pub(super) fn stranger(&self, hello: &s::InitializeResponse) -> TurnFailure {
        let install = self
            .known
            .install
            .as_ref()
            .map(|how| format!(" ({how})"))
            .unwrap_or_default();
        TurnFailure::new(format!(
            "the agent speaks version {} of the Agent Client Protocol, but creel speaks version 1. Install a version \
             of the agent that speaks version 1{install}",
            hello.protocol_version
        ))
    }

    fn refusal(&self, error: &Error, what: &str, complaints: &str, methods: &str) -> TurnFailure {
        if i32::from(error.code) == AUTH_REQUIRED {
            let how = self.known.login.clone().unwrap_or_else(|| match methods {
                "" => format!(
                    "start `{}` by hand and follow its instructions",
                    self.command
                ),
                methods => format!("with the agent's own program, which offers: {methods}"),
            });
            return TurnFailure::new(format!(
                "the agent needs a login. Log in ({how}), then resume the session ({})",
                words(error)
            ));
        }
        let text = match (words(error), complaints) {
            (text, "") => text,
            // A short error gets the end of the agent's standard error too, which can explain it.
            (text, complaints) if text.len() < 40 => format!("{text}\n{complaints}"),
            (text, _) => text,
        };
        failure::explain(&format!("the agent {what}"), &text, &self.known)
    }

    /// The agent ended unexpectedly.
    fn death(&self, obituary: &AcpProcessExit, what: &str) -> TurnFailure {
        let text = obituary.last_words();
        let how = match &obituary.end {
            Some(ProcessEnd::Exit(127)) => {
                return failure::not_installed(
                    "the agent was not found",
                    &self.command,
                    text,
                    &self.known,
                );
            }
            Some(ProcessEnd::Exit(0)) => "ended by itself".to_owned(),
            // The shell reports a signal this way.
            Some(ProcessEnd::Exit(code @ 129..160)) => {
                format!("was killed by signal {}", code - 128)
            }
            Some(ProcessEnd::Exit(code)) => format!("ended with exit {code}"),
            Some(ProcessEnd::Signal(signal)) => format!("was killed by signal {signal}"),
            Some(ProcessEnd::SpawnFailed(why)) => why.clone(),
            Some(ProcessEnd::TimedOut | ProcessEnd::Cancelled) | None => {
                "closed its output".to_owned()
            }
        };
        failure::explain(&format!("the agent {what}: it {how}"), text, &self.known)
    }
}

pub(super) fn wrong_mode(mode: &str, error: &Error) -> TurnFailure {
    TurnFailure::new(format!(
        "the agent does not accept the mode `{mode}`, so creel did not send the prompt. Change `mode` in the config to \
         a mode of this agent ({})",
        words(error)
    ))
}

/// The turn timed out before the agent sent or did anything.
pub(super) fn not_a_word(waited: TimeSpan) -> TurnFailure {
    let message = format!(
        "the agent sent no output within {waited} (turn_timeout), so creel stopped it. The model's server may be down \
         or refuse requests, and many agents retry without a message. See creel's log for the agent's error output, or \
         raise turn_timeout until the agent reports the error itself"
    );
    TurnFailure {
        silent: true,
        ..TurnFailure::new(message)
    }
}

/// The part of standard error after `before`. Only the end of it is stored, so `before` can be
/// gone.
pub(super) fn newer(before: &str, now: String) -> String {
    now.strip_prefix(before).map(str::to_owned).unwrap_or(now)
}

/// Whether the connection broke, as opposed to an error that the agent sent.
pub(super) fn is_hung_up(error: &Error) -> bool {
    error
        .data
        .as_ref()
        .is_some_and(|data| data["reason"] == "connection_terminated")
}

/// An error's text with its code, for which some agents use the server's HTTP status.
pub(super) fn words(error: &Error) -> String {
    let number = i32::from(error.code);
    let status = if (100..600).contains(&number) {
        format!("{number} ")
    } else {
        String::new()
    };
    let data = match &error.data {
        None | Some(serde_json::Value::Null) => String::new(),
        Some(serde_json::Value::String(text)) => text.clone(),
        // Some agents put the reason into one field among many.
        Some(data) => match ["details", "message", "error"]
            .into_iter()
            .find_map(|name| data[name].as_str())
        {
            Some(reason) => reason.to_owned(),
            None => limited(&data.to_string(), 300),
        },
    };
    let more = if data.is_empty() || data == error.message {
        String::new()
    } else {
        format!(": {data}")
    };
    format!("{status}{}{more}", error.message)
}

pub(super) fn login_methods(hello: &s::InitializeResponse) -> String {
    hello
        .auth_methods
        .iter()
        .map(|method| method.name().to_owned())
        .collect::<Vec<_>>()
        .join(", ")
}
