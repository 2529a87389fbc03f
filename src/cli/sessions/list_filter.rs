//! Which sessions to list: by state, host, user and project.

use std::path::Path;

use clap::{Args, builder::PossibleValuesParser};

use crate::present::session_list::{ListedSession, SessionGroup};

const STATES: [&str; 13] = [
    "needs-you",
    "running",
    "ended",
    "stopped",
    "lost",
    "unreadable",
    "complete",
    "forced",
    "limit",
    "escalated",
    "aborted",
    "failed",
    "cancelled",
];

/// Which sessions to list. Several filters must all match.
#[derive(Debug, Default, Args)]
pub struct SessionFilterArgs {
    /// Only sessions in this state.
    #[arg(long, value_name = "STATE", value_parser = PossibleValuesParser::new(STATES))]
    pub state: Option<String>,
    /// Only sessions of this project: its folder, or the end of its path.
    #[arg(long, value_name = "FOLDER")]
    pub project: Option<String>,
    /// With --nats: only sessions on this machine.
    #[arg(long, value_name = "NAME", requires = "url")]
    pub host: Option<String>,
    /// With --nats: only sessions of this user.
    #[arg(long, value_name = "NAME", requires = "url")]
    pub user: Option<String>,
    /// With --nats: ended sessions too.
    #[arg(long, requires = "url")]
    pub ended: bool,
}

impl SessionFilterArgs {
    pub(super) const fn is_empty(&self) -> bool {
        self.state.is_none() && self.project.is_none() && self.host.is_none() && self.user.is_none()
    }

    pub(super) const fn names_state(&self) -> bool {
        self.state.is_some()
    }

    pub(super) fn matches(&self, listed: &ListedSession) -> bool {
        let state = |wanted: &str| match listed.group() {
            SessionGroup::Ended => wanted == "ended" || wanted == listed.state_name(),
            SessionGroup::NeedsYou | SessionGroup::Running => wanted == listed.state_name(),
        };
        self.state.as_deref().is_none_or(state)
            && self
                .project
                .as_deref()
                .is_none_or(|wanted| is_in(&listed.project, wanted))
            && self
                .host
                .as_deref()
                .is_none_or(|wanted| wanted == listed.host)
            && self
                .user
                .as_deref()
                .is_none_or(|wanted| wanted == listed.user)
    }
}

/// Whether a project's folder is the wanted one: by its whole path, also from here, or by the end
/// of it.
fn is_in(project: &str, wanted: &str) -> bool {
    let from_here = Path::new(wanted)
        .canonicalize()
        .is_ok_and(|path| path == Path::new(project));
    from_here || Path::new(project).ends_with(wanted.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::{event::SessionOutcome, time::UnixTime},
        present::session_list::ListedState,
    };

    #[test]
    fn a_session_must_match_every_filter() {
        let failed = ListedState::Ended {
            outcome: SessionOutcome::Failed,
            reason: String::new(),
        };
        let listed = ListedSession {
            state: failed,
            host: "box".into(),
            ..ListedSession::unread("s", "/home/me/src/parser", UnixTime(0))
        };
        let by = |state: Option<&str>, project: Option<&str>, host: Option<&str>| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            SessionFilterArgs {
                state: own(state),
                project: own(project),
                host: own(host),
                user: None,
                ended: false,
            }
            .matches(&listed)
        };
        assert!(
            by(None, None, None)
                && by(Some("ended"), Some("parser"), Some("box"))
                && by(Some("failed"), None, None)
        );
        assert!(by(None, Some("src/parser/"), None) && by(None, Some("/home/me/src/parser"), None));
        assert!(
            !by(Some("running"), None, None)
                && !by(None, Some("arser"), None)
                && !by(None, None, Some("other"))
        );
    }
}
