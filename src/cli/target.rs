//! Which project and which session a command is about, and how to reach them.
//!
//! Some verbs are only for a person: an agent or a hook is refused, unless the config of its session
//! allows the verb. A running session decides about the commands to it, so none are refused here.

pub mod local_sessions;
pub mod project;
pub mod remote_sessions;

use std::path::{Path, PathBuf};

use super::error::{CliError, CliResult};
use crate::{
    engine::{actor::UserCommand, refusal::Refusal},
    journal::{self, SessionsDir},
    process::process_table::ProcessTable,
    protocol::process_origin,
};

/// Refuses the command if an agent or a hook gives it. What creel cannot find out is refused.
pub(crate) fn require_person(command: UserCommand) -> CliResult<()> {
    let Some((actor, files)) = process_origin::supervisor_of_this_process() else {
        return Ok(());
    };
    let journals = journals_of(files);
    let allows = |journal: &PathBuf| {
        journal::fold(journal)
            .is_ok_and(|state| command.is_allowed_by(&state.plan().access.agent_may))
    };
    if !journals.is_empty() && journals.iter().all(allows) {
        return Ok(());
    }
    Err(CliError::refused(Refusal::NotAllowed { actor, command }))
}

/// The journals of the sessions that the supervising process runs.
fn journals_of(files: Vec<PathBuf>) -> Vec<PathBuf> {
    if ProcessTable::of_system() == ProcessTable::Absent {
        let [project, session] =
            ["CREEL_PROJECT", "CREEL_SESSION"].map(|name| std::env::var(name).unwrap_or_default());
        return vec![
            SessionsDir::of(Path::new(&project))
                .folder(&session)
                .journal(),
        ];
    }
    files
        .into_iter()
        .filter(|file| file.file_name().is_some_and(|name| name == "journal.jsonl"))
        .collect()
}
