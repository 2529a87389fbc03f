//! `creel hooks stats`: how the hooks of a session did, as its journal tells; running or past.

use crate::{
    cli::{
        arguments::SessionArgs,
        error::CliResult,
        output::{json, print, say, warn_of},
        target::{choose_session, remote_sessions},
    },
    journal,
    present::hook_stats::{self, HookTallies},
};

pub(super) fn stats(session: &SessionArgs, as_json: bool) -> CliResult {
    let copy = remote_sessions::copy(session)?;
    let folder = match &copy {
        Some(copy) => copy.folder().clone(),
        None => choose_session::named_or_running(session)?,
    };
    let mut tallies = HookTallies::default();
    let disorder = journal::read(&folder.journal(), |record| tallies.take(&record.event))?;
    warn_of(disorder.as_ref());
    let all = tallies.stats();
    if as_json {
        return json(&all);
    }
    if all.is_empty() {
        say(&format!(
            "creel: session `{}` has not run any hook",
            folder.name
        ));
        return Ok(0);
    }
    print(&hook_stats::table(&all))
}
