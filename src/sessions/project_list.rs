//! The projects in which this user has run creel: one path per line, in the state folder.
//!
//! # Invariants
//! - Starting a session costs one small read, and one append for a new project. Nothing waits for
//!   the disk.
//! - The list is a hint: a project that is gone or has no sessions does no harm, and one that is
//!   missing comes back with its next session.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use crate::journal::session_dir::{PRIVATE_DIR, PRIVATE_FILE};

/// From this many projects on, those that are gone are dropped.
const MANY: usize = 64;

/// The list in this state folder.
#[derive(Debug, Clone)]
pub struct ProjectList {
    file: PathBuf,
}

impl ProjectList {
    pub fn of(state_dir: &Path) -> Self {
        Self {
            file: state_dir.join("projects"),
        }
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Adds a project, if it is not there yet. A list that cannot be written is only logged: the
    /// session matters more.
    pub fn note(&self, project: &Path) {
        let Some(line) = project.to_str().filter(|path| !path.contains('\n')) else {
            return;
        };
        let known = fs::read_to_string(&self.file).unwrap_or_default();
        if known.lines().any(|known| known == line) {
            return;
        }
        if let Err(error) = self.append(line) {
            tracing::warn!("cannot write {}: {error}", self.file.display());
        }
    }

    fn append(&self, line: &str) -> io::Result<()> {
        if let Some(folder) = self.file.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(PRIVATE_DIR)
                .create(folder)?;
        }
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(PRIVATE_FILE)
            .open(&self.file)?;
        // One write, so that processes that start at the same time do not mix their lines.
        file.write_all(format!("{line}\n").as_bytes())
    }

    /// The projects that exist, without repetition, in the order in which creel met them.
    pub fn projects(&self) -> Vec<PathBuf> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        let mut found: Vec<PathBuf> = Vec::new();
        for path in text.lines().map(PathBuf::from) {
            if path.is_absolute() && !found.contains(&path) {
                found.push(path);
            }
        }
        let all = found.len();
        found.retain(|project| project.is_dir());
        if all >= MANY && found.len() * 2 < all {
            self.replace(&found);
        }
        found
    }

    /// Forgets the projects that are gone. A project that another process adds meanwhile may be
    /// lost until its next session.
    fn replace(&self, projects: &[PathBuf]) {
        let text: String = projects
            .iter()
            .map(|project| format!("{}\n", project.display()))
            .collect();
        let draft = self.file.with_extension(format!("{}", std::process::id()));
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(PRIVATE_FILE)
                .open(&draft)?;
            file.write_all(text.as_bytes())?;
            fs::rename(&draft, &self.file)
        };
        if let Err(error) = write() {
            tracing::warn!("cannot write {}: {error}", self.file.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_noted_once_and_forgotten_when_it_is_gone() {
        let dir = tempfile::tempdir().expect("a folder");
        let list = ProjectList::of(&dir.path().join("state"));
        assert_eq!(list.projects(), Vec::<PathBuf>::new());
        let [one, other] = ["one", "other"].map(|name| dir.path().join(name));
        for project in [&one, &other, &one] {
            fs::create_dir_all(project).expect("a folder");
            list.note(project);
        }
        assert_eq!(list.projects(), [one.clone(), other.clone()]);
        assert_eq!(
            fs::read_to_string(list.file())
                .expect("a list")
                .lines()
                .count(),
            2
        );
        fs::remove_dir(&one).expect("a folder");
        assert_eq!(list.projects(), [other]);
    }

    #[test]
    fn a_list_of_projects_that_are_gone_does_not_grow_forever() {
        let dir = tempfile::tempdir().expect("a folder");
        let list = ProjectList::of(dir.path());
        for n in 0..MANY {
            list.note(&dir.path().join(format!("gone-{n}")));
        }
        list.note(dir.path());
        assert_eq!(list.projects(), [dir.path()]);
        assert_eq!(
            fs::read_to_string(list.file())
                .expect("a list")
                .lines()
                .count(),
            1
        );
    }
}
