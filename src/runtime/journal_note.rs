//! The head of a session's journal, in a git note of the last commit.
//!
//! # Invariants
//! - A note that cannot be added changes nothing about the session: the log has the reason.

use std::{path::Path, process::Command};

use crate::{
    git,
    journal::{
        SessionDir,
        chain::{self, EVIDENCE_NOTES},
    },
};

/// An author for the notes of a user without a name in git.
const NAMELESS: [&str; 4] = ["-c", "user.name=creel", "-c", "user.email=creel@localhost"];

/// Adds the head to the commit that is checked out. Outside of a repository there is none.
pub(super) fn add(cwd: &Path, folder: &SessionDir) {
    let Some(line) = chain::evidence(folder) else {
        return;
    };
    let ask = |args: &[&str]| git::call(git::command(cwd), args, Command::output);
    let is_there = ask(&["rev-parse", "--verify", "--quiet", "HEAD"]);
    if !is_there.is_ok_and(|reply| reply.is_ok) {
        return;
    }
    let notes = format!("--ref={EVIDENCE_NOTES}");
    let add = ["notes", &notes, "append", "-m", &line, "HEAD"];
    let has_name = ask(&["var", "GIT_COMMITTER_IDENT"]).is_ok_and(|reply| reply.is_ok);
    let args = if has_name {
        add.to_vec()
    } else {
        [&NAMELESS[..], &add].concat()
    };
    match ask(&args) {
        Ok(reply) if reply.is_ok => {}
        Ok(reply) => tracing::warn!("cannot add a git note: {}", reply.complaint()),
        Err(_) => tracing::warn!("cannot add a git note: git did not run to its end"),
    }
}
