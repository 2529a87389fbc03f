//! `creel hooks stats`: how the hooks of a session did, as its journal tells; running or past.

use super::json;
use crate::{
    app::{AppResult, control::choose_session, print, project, remote_sessions, say, warn_of},
    cli::control::SessionArgs,
    journal::{self, SessionDir},
    present::hook_stats::{self, HookTallies},
};

/// The session that is meant, running or past.
fn here(session: &SessionArgs) -> AppResult<SessionDir> {
    let (_, sessions) = project::sessions_of(&session.config)?;
    match choose_session::named(session, &sessions)? {
        Some(folder) => Ok(folder),
        None => choose_session::running(session),
    }
}

pub(super) fn stats(session: &SessionArgs, as_json: bool) -> AppResult {
    let copy = remote_sessions::copy(session)?;
    let folder = match &copy {
        Some(copy) => copy.folder().clone(),
        None => here(session)?,
    };
    let mut tallies = HookTallies::default();
    let disorder = journal::read(&folder.journal(), |record| tallies.take(&record.event))?;
    warn_of(disorder.as_ref());
    let all = tallies.stats();
    if as_json {
        return json(&all);
    }
    if all.is_empty() {
        say(&format!("creel: no hook has run in session `{}`", folder.name));
        return Ok(0);
    }
    print(&hook_stats::table(&all))
}
