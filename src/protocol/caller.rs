//! Identifies a caller: the user, the session's own agent or hook, or another program.
//!
//! Owns what a client says about itself, and how much of that a session believes. Does not decide
//! what a caller is allowed to do: see [`crate::engine::actor`].
//!
//! # Invariants
//! - An agent or a hook, of any session, is recognised whatever it says about itself, if the system
//!   reports whose process it is.
//! - On the control socket the user is the owner of the session. A name that the caller sends
//!   counts only over NATS.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::process_origin;
use crate::{
    engine::actor::{Actor, ActorKind},
    present::text::plain,
};

/// The longest name, in characters.
const LONGEST_NAME: usize = 64;

/// The kind of a client. No client can act as the config or as a timeout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientKind {
    /// A command line, or a program of the user.
    #[default]
    Cli,
    Tui,
    Mcp,
}

impl From<ClientKind> for ActorKind {
    fn from(asker: ClientKind) -> Self {
        match asker {
            ClientKind::Cli => Self::Cli,
            ClientKind::Tui => Self::Tui,
            ClientKind::Mcp => Self::Mcp,
        }
    }
}

/// What a client says about itself in every request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallerInfo {
    pub by: ClientKind,
    /// The marks of the sessions whose child it is, of any project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// The user's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The user's machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl CallerInfo {
    pub fn here(by: ClientKind) -> Self {
        let mark = process_origin::of_this_process();
        Self {
            by,
            mark,
            user: user(),
            host: Some(host()),
        }
    }

    /// The caller on the control socket. `process` is what the system reports about the caller's
    /// process.
    pub fn on_socket(self, process: Option<ActorKind>, session: &str) -> Actor {
        match process.or_else(|| self.own(session)) {
            Some(own) => own.into(),
            None => match self.by {
                ClientKind::Cli => person(ActorKind::Cli),
                ClientKind::Tui => person(ActorKind::Tui),
                ClientKind::Mcp => ActorKind::Mcp.into(),
            },
        }
    }

    pub fn over_nats(self, session: &str) -> Actor {
        if let Some(own) = self.own(session) {
            return own.into();
        }
        let (user, host) = (name(self.user), name(self.host));
        // A NATS server says to no receiver which of its users has sent a message.
        Actor {
            by: ActorKind::Nats,
            claimed: user.is_some() || host.is_some(),
            user,
            host,
        }
    }

    fn own(&self, session: &str) -> Option<ActorKind> {
        let marks = self.mark.as_deref()?;
        process_origin::of_marks(marks, session).or_else(|| process_origin::of_any_marks(marks))
    }
}

/// The user of this machine.
pub fn person(by: ActorKind) -> Actor {
    Actor {
        by,
        user: user(),
        host: Some(host()),
        claimed: false,
    }
}

pub fn host() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// The name of the user that runs this process, or the account's number if the environment has no
/// name.
pub fn user() -> Option<String> {
    static USER: OnceLock<Option<String>> = OnceLock::new();
    let of_environment = || {
        ["USER", "LOGNAME"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok())
    };
    let account = || format!("uid {}", rustix::process::geteuid().as_raw());
    USER.get_or_init(|| {
        name(
            of_environment()
                .filter(|name| !name.is_empty())
                .or_else(|| Some(account())),
        )
    })
    .clone()
}

/// Makes a name from another process safe to show, in one line.
fn name(given: Option<String>) -> Option<String> {
    let line = plain(&given?)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let short: String = line.chars().take(LONGEST_NAME).collect();
    Some(short).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(mark: Option<&str>) -> CallerInfo {
        let (user, host) = (Some("ada\u{1b}[2J\nroot".into()), Some("laptop".into()));
        CallerInfo {
            by: ClientKind::Tui,
            mark: mark.map(str::to_owned),
            user,
            host,
        }
    }

    #[test]
    fn over_nats_the_person_says_a_name_that_cannot_write_to_the_terminal() {
        let actor = caller(None).over_nats("s1");
        assert_eq!(
            (actor.by, actor.host.as_deref()),
            (ActorKind::Nats, Some("laptop"))
        );
        let user = actor.user.expect("a name");
        assert!(!user.contains(char::is_control), "{user:?}");
        assert!(actor.claimed, "no server vouches for it");
    }

    #[test]
    fn on_the_socket_the_person_is_the_owner_whatever_the_caller_says() {
        assert_eq!(caller(None).on_socket(None, "s1"), person(ActorKind::Tui));
    }

    #[test]
    fn the_sessions_own_agent_is_no_person_whichever_way_it_takes() {
        assert_eq!(
            caller(Some("s1/turn-1")).on_socket(None, "s1"),
            ActorKind::Agent.into()
        );
        assert_eq!(
            caller(Some("s1/run-1")).over_nats("s1"),
            ActorKind::Hook.into()
        );
        assert_eq!(
            caller(None).on_socket(Some(ActorKind::Agent), "s1"),
            ActorKind::Agent.into()
        );
        let another = caller(Some("s2/turn-1")).on_socket(None, "s1");
        assert_eq!(
            another,
            ActorKind::OtherSession.into(),
            "another session's agent is no person either"
        );
        let elsewhere = caller(Some("s2/4194304.1/turn-1")).over_nats("s1");
        assert_eq!(
            elsewhere,
            ActorKind::OtherSession.into(),
            "nor is one whose session runs on another machine"
        );
        assert_eq!(
            caller(Some("editor/x")).on_socket(None, "s1"),
            person(ActorKind::Tui)
        );
    }
}
