//! Identifies a caller: a person, the session's own agent or hook, or another program.
//!
//! Owns what a client says about itself, and how much of that a session believes. Does not decide what a caller may do:
//! see [`crate::engine::actor`].
//!
//! # Invariants
//! - A session's own agent or hook is recognised whatever it says about itself, if the system reports whose process it
//!   is.
//! - On the control socket the person is the owner of the session; what a caller calls itself counts only over NATS.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::{
    engine::actor::{Actor, By},
    present::text::plain,
    process::sweep::MARK,
    socket::descent,
};

/// No name is longer, in characters.
const LONGEST_NAME: usize = 64;

/// How a client asks. No client can act as the config or as a timeout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asker {
    /// A command line, or a program of the user's own.
    #[default]
    Cli,
    /// A screen.
    Tui,
    /// An MCP server.
    Mcp,
}

impl From<Asker> for By {
    fn from(asker: Asker) -> Self {
        match asker {
            Asker::Cli => Self::Cli,
            Asker::Tui => Self::Tui,
            Asker::Mcp => Self::Mcp,
        }
    }
}

/// What a client says about itself in every request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Caller {
    /// How it asks.
    pub by: Asker,
    /// The marks of the sessions that it runs under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// The person's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The person's machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl Caller {
    /// This process.
    pub fn here(by: Asker) -> Self {
        let mark = std::env::var(MARK).ok().filter(|mark| !mark.is_empty());
        Self { by, mark, user: user(), host: Some(host()) }
    }

    /// The caller on the control socket; `process` is what the system reports about the caller's process.
    pub fn on_socket(self, process: Option<By>, session: &str) -> Actor {
        match process.or_else(|| self.own(session)) {
            Some(own) => own.into(),
            None => match self.by {
                Asker::Cli => person(By::Cli),
                Asker::Tui => person(By::Tui),
                Asker::Mcp => By::Mcp.into(),
            },
        }
    }

    /// The caller over NATS.
    pub fn over_nats(self, session: &str) -> Actor {
        match self.own(session) {
            Some(own) => own.into(),
            None => Actor { by: By::Nats, user: name(self.user), host: name(self.host) },
        }
    }

    fn own(&self, session: &str) -> Option<By> {
        self.mark.as_deref().and_then(|mark| descent::of_marks(mark, session))
    }
}

/// The person in front of this machine.
pub fn person(by: By) -> Actor {
    Actor { by, user: user(), host: Some(host()) }
}

/// The name of this machine.
pub fn host() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// The name of the person who runs this process, or the account's number where the environment has none.
fn user() -> Option<String> {
    static USER: OnceLock<Option<String>> = OnceLock::new();
    let of_environment = || ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let account = || format!("uid {}", rustix::process::geteuid().as_raw());
    USER.get_or_init(|| name(of_environment().filter(|name| !name.is_empty()).or_else(|| Some(account())))).clone()
}

/// A name from elsewhere, in one line that can be shown.
fn name(given: Option<String>) -> Option<String> {
    let line = plain(&given?).split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().take(LONGEST_NAME).collect();
    Some(short).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(mark: Option<&str>) -> Caller {
        let (user, host) = (Some("ada\u{1b}[2J\nroot".into()), Some("laptop".into()));
        Caller { by: Asker::Tui, mark: mark.map(str::to_owned), user, host }
    }

    #[test]
    fn over_nats_the_person_says_a_name_that_cannot_write_to_the_terminal() {
        let actor = caller(None).over_nats("s1");
        assert_eq!((actor.by, actor.host.as_deref()), (By::Nats, Some("laptop")));
        let user = actor.user.expect("a name");
        assert!(!user.contains(char::is_control), "{user:?}");
    }

    #[test]
    fn on_the_socket_the_person_is_the_owner_whatever_the_caller_says() {
        assert_eq!(caller(None).on_socket(None, "s1"), person(By::Tui));
    }

    #[test]
    fn the_sessions_own_agent_is_no_person_whichever_way_it_takes() {
        assert_eq!(caller(Some("s1/turn-1")).on_socket(None, "s1"), By::Agent.into());
        assert_eq!(caller(Some("s1/run-1")).over_nats("s1"), By::Hook.into());
        assert_eq!(caller(None).on_socket(Some(By::Agent), "s1"), By::Agent.into());
        assert_eq!(caller(Some("s2/turn-1")).on_socket(None, "s1"), person(By::Tui), "another session's agent");
    }
}
