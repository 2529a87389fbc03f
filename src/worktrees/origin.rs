//! Finds the project of a worktree from within it, without calling git.
//!
//! # Invariants
//! - Only the repository's own entry counts: a folder cannot claim to be the worktree of a project
//!   that does not list it.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The project whose session works in the worktree that contains this folder, and the same folder
/// in that project. None if the folder is in no worktree of creel's.
pub fn project_of(folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    let top = folder
        .ancestors()
        .find(|folder| folder.join(".git").symlink_metadata().is_ok())?;
    let link = top.join(".git");
    // In a repository itself, it is a folder.
    let entry = fs::read_to_string(&link).ok()?;
    // Both paths can be relative.
    let entry = top
        .join(entry.strip_prefix("gitdir: ")?.trim_end())
        .canonicalize()
        .ok()?;
    let reason = fs::read_to_string(entry.join("locked")).ok()?;
    let (_, project) = reason
        .trim_end()
        .strip_prefix("creel session ")?
        .split_once(" in ")?;
    let project = PathBuf::from(project);
    let own = own_git_dir(&project)?;
    let points_back = fs::read_to_string(entry.join("gitdir")).ok()?;
    let points_back = entry
        .join(points_back.trim_end())
        .parent()?
        .canonicalize()
        .ok()?;
    let is_listed = entry.parent()? == own.join("worktrees") && points_back == top;
    is_listed.then_some(project)
}

/// The git folder of the repository that a project is in.
fn own_git_dir(project: &Path) -> Option<PathBuf> {
    let found = project
        .ancestors()
        .map(|folder| folder.join(".git"))
        .find(|git| git.symlink_metadata().is_ok())?;
    if found.is_dir() {
        return found.canonicalize().ok();
    }
    // The project is itself in a worktree of the user's, or in a submodule.
    let entry = fs::read_to_string(&found).ok()?;
    let entry = found
        .parent()?
        .join(entry.strip_prefix("gitdir: ")?.trim_end());
    let common = fs::read_to_string(entry.join("commondir"))
        .map_or(entry.clone(), |common| entry.join(common.trim_end()));
    common.canonicalize().ok()
}
