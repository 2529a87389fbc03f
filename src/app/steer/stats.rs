//! `creel hooks stats`: how the hooks of a session did, as its journal tells; running or past.

use super::{choose, json};
use crate::{
    app::{AppResult, print, project, remote, say, warn_of},
    cli::steer::SessionArgs,
    journal::{self, SessionDir},
    present::hook_stats::{self, HookTallies},
};

/// The session that is meant, running or past.
fn here(session: &SessionArgs) -> AppResult<SessionDir> {
    let (_, sessions) = project::sessions_of(&session.config)?;
    match choose::named(session, &sessions)? {
        Some(folder) => Ok(folder),
        None => choose::running(session),
    }
}

pub(super) fn stats(session: &SessionArgs, as_json: bool) -> AppResult {
    let copy = remote::copy(session)?;
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
