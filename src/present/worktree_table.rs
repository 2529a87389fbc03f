//! The worktrees of sessions as a table.

use super::task_table::columns;

/// A worktree as a row.
#[derive(Debug, Clone)]
pub struct WorktreeRow {
    pub name: String,
    pub branch: String,
    pub session: String,
    /// The state of its session.
    pub state: String,
    /// What is in its folder.
    pub contents: String,
}

pub fn table(rows: &[WorktreeRow]) -> String {
    let heading = ["NAME", "BRANCH", "SESSION", "STATE", "CONTENTS"];
    let row = |row: &WorktreeRow| {
        [
            row.name.clone(),
            row.branch.clone(),
            row.session.clone(),
            row.state.clone(),
            row.contents.clone(),
        ]
    };
    columns(heading, rows.iter().map(row))
}
