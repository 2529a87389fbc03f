//! Which session a command is about: the one that is named, the one whose agent or hook asks, or the only one that runs.

use std::path::Path;

use crate::{
    app::{Failure, Result, project},
    control::cli::steer::SessionArgs,
    journal::{self, Folder, JournalError, Sessions},
};

/// A session that runs, as far as can be known: whoever connects will see.
pub(in crate::app) fn running(args: &SessionArgs) -> Result<Folder> {
    let (root, _) = project::sessions_of(&args.config)?;
    running_if_any(args)?.ok_or_else(|| none_running(&root))
}

/// The same; nothing, if none is named and none runs.
pub(in crate::app) fn running_if_any(args: &SessionArgs) -> Result<Option<Folder>> {
    let (_, sessions) = project::sessions_of(&args.config)?;
    match named(args, &sessions)? {
        Some(folder) => Ok(Some(folder)),
        None => the_only(&sessions),
    }
}

/// The session that is named, running or not.
pub(in crate::app) fn named(args: &SessionArgs, sessions: &Sessions) -> Result<Option<Folder>> {
    let by_environment = || std::env::var("CREEL_SESSION").ok().filter(|name| !name.is_empty());
    let Some(name) = args.session.clone().or_else(by_environment) else { return Ok(None) };
    let folder = sessions.folder(&name);
    if folder.exists() { Ok(Some(folder)) } else { Err(JournalError::Missing(name).into()) }
}

/// All that run.
pub(in crate::app) fn all_running(sessions: &Sessions) -> Result<Vec<Folder>> {
    let all = sessions.list().map_err(|error| Failure::failed(format!("cannot list the sessions: {error}")))?;
    Ok(all.into_iter().filter(|folder| journal::running(folder).is_some()).collect())
}

fn the_only(sessions: &Sessions) -> Result<Option<Folder>> {
    let mut running = all_running(sessions)?;
    match (running.pop(), running.len()) {
        (only, 0) => Ok(only),
        (last, _) => {
            let names = running.iter().chain(&last).map(|folder| format!("\n  {}", folder.name));
            Err(Failure::usage(format!(
                "several sessions are running; name one with --session:{}",
                names.collect::<String>()
            )))
        }
    }
}

fn none_running(root: &Path) -> Failure {
    Failure::usage(format!("no session is running in {}; `creel sessions` lists those that there were", root.display()))
}
