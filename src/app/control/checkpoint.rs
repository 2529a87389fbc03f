//! `creel checkpoint`: what hooks and the agent gave to be kept, as the journal of a session tells; running or past.

use super::json;
use crate::{
    app::{AppError, AppResult, control::choose_session, print, project, say, warn_of},
    cli::control::{CheckpointCommand, SessionArgs},
    journal::{self, SessionDir},
    present::text::plain_line,
    socket::stop_view::{self, CheckpointView},
};

/// How much of the data fits into a line.
const DATA: usize = 60;
/// How much of a commit's name tells it from others.
const COMMIT: usize = 10;

pub(in crate::app) fn checkpoint(command: CheckpointCommand) -> AppResult {
    match command {
        CheckpointCommand::List { json: as_json, session } => {
            let (folder, all) = kept(&session)?;
            if as_json {
                return json(&all);
            }
            if all.is_empty() {
                say(&format!("creel: session `{}` has no checkpoints", folder.name));
            }
            print(&all.iter().map(line).collect::<String>())
        }
        CheckpointCommand::Show { checkpoint: number, session } => {
            let (folder, all) = kept(&session)?;
            let found = all.iter().find(|kept| kept.checkpoint.checkpoint == number);
            let missing = || AppError::usage(format!("session `{}` has no checkpoint {number}", folder.name));
            json(found.ok_or_else(missing)?)
        }
    }
}

fn kept(session: &SessionArgs) -> AppResult<(SessionDir, Vec<CheckpointView>)> {
    let (_, sessions) = project::sessions_of(&session.config)?;
    let folder = match choose_session::named(session, &sessions)? {
        Some(folder) => folder,
        None => choose_session::running(session)?,
    };
    let (state, disorder) = journal::fold_checked(&folder.journal())?;
    warn_of(disorder.as_ref());
    Ok((folder, stop_view::checkpoints(&state)))
}

fn line(kept: &CheckpointView) -> String {
    let CheckpointView { at, checkpoint } = kept;
    let by = checkpoint.hook.as_deref().unwrap_or("the agent");
    let commit = checkpoint.commit.as_deref().map(|commit| &commit[..commit.floor_char_boundary(COMMIT)]);
    let dirty = match checkpoint.dirty.len() {
        0 => String::new(),
        1 => ", 1 file not committed".into(),
        some => format!(", {some} files not committed"),
    };
    let commit = commit.map(|commit| format!("  commit {commit}{dirty}")).unwrap_or_default();
    let data = plain_line(&checkpoint.data.to_string(), DATA);
    let by = plain_line(by, DATA);
    format!("{:>3}  {at}  iteration {}  {by}{commit}  {data}\n", checkpoint.checkpoint, checkpoint.iteration)
}
