//! Files that creel reads and writes for an agent.
//!
//! # Invariants
//! - creel reads, writes and creates nothing outside the project's folder, whatever links there
//!   are, even if another process changes them at the same time.
//! - creel never writes a file that the session's guard protects.

use std::{
    io::{self, Write as _},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use rustix::fs::OFlags;

use crate::{
    agents::{COMPARE_MAX, unified},
    process::{
        path_guard::{GuardRefusal, PathGuard},
        project_dir::{self, OpenError, ProjectDir},
    },
};

/// Larger files are not read.
const READ_MAX: u64 = 32 << 20;

/// Why a file was not served. The agent sees the message.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServedFileError {
    #[error("{} is outside the project folder {}. creel reads and writes only files inside it", .path.display(), .root.display())]
    Outside { path: PathBuf, root: PathBuf },
    #[error("{} is not a regular file", .0.display())]
    NotAFile(PathBuf),
    #[error("{} is too large to read at once ({size} B)", .path.display())]
    TooLarge { path: PathBuf, size: u64 },
    #[error("{} is not text", .0.display())]
    NotText(PathBuf),
    /// Agents search for these words to distinguish a missing file from a forbidden one.
    #[error("Resource not found: {} does not exist", .0.display())]
    Missing(PathBuf),
    #[error("{} was not written: {why}", .path.display())]
    Guarded { path: PathBuf, why: GuardRefusal },
    #[error("{}: {error}", .path.display())]
    Io { path: PathBuf, error: io::Error },
}

/// An edit as some agents show it.
#[derive(Debug, Clone)]
pub(super) struct ReplacedText {
    pub(super) old: String,
    pub(super) new: String,
    /// Whether it replaces every occurrence.
    pub(super) everywhere: bool,
}

/// The project's folder, the only one that an agent gets access to.
#[derive(Debug, Clone)]
pub(super) struct GuardedProjectDir {
    project_dir: ProjectDir,
    guard: Arc<PathGuard>,
}

impl GuardedProjectDir {
    pub(super) fn new(root: &Path, guard: Arc<PathGuard>) -> Self {
        Self {
            project_dir: ProjectDir::new(root),
            guard,
        }
    }

    /// Reads a file, or some of its lines. `line` counts from 1.
    pub(super) fn read(
        &self,
        path: &Path,
        line: Option<u32>,
        limit: Option<u32>,
    ) -> Result<String, ServedFileError> {
        let bytes = self
            .project_dir
            .read(path, READ_MAX)
            .map_err(|why| self.because(path, why))?;
        let text =
            String::from_utf8(bytes).map_err(|_| ServedFileError::NotText(path.to_owned()))?;
        if line.is_none() && limit.is_none() {
            return Ok(text);
        }
        let first = usize::try_from(line.unwrap_or(1).saturating_sub(1)).unwrap_or(usize::MAX);
        let count = limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit).unwrap_or(usize::MAX)
        });
        Ok(text.split_inclusive('\n').skip(first).take(count).collect())
    }

    /// The diff of a write, or why creel refuses it even if the user allows it.
    pub(super) fn preview(&self, path: &Path, text: &str) -> Result<String, ServedFileError> {
        let real = self.real(path);
        if !real.starts_with(self.project_dir.root()) {
            return Err(self.because(path, OpenError::Outside));
        }
        self.permit(path, &real)?;
        // A file that is missing or not text is replaced.
        let before = self.read(path, None, None).unwrap_or_default();
        Ok(unified(&self.relative(&real), &before, text))
    }

    /// A file before and after an edit of which the agent shows only the replaced text. None if
    /// that text is not in it, or at several places.
    pub(super) fn edited(
        &self,
        path: &Path,
        edit: &ReplacedText,
    ) -> Result<Option<(String, String)>, ServedFileError> {
        let before = self.read(path, None, None)?;
        let places = before.matches(&edit.old).count();
        if places == 0 || (places > 1 && !edit.everywhere) {
            return Ok(None);
        }
        let after = before.replace(&edit.old, &edit.new);
        let is_comparable = before.len() + after.len() <= COMPARE_MAX;
        Ok(is_comparable.then_some((before, after)))
    }

    /// Writes a file and creates the folders on the way. Returns the diff.
    pub(super) fn write(&self, path: &Path, text: &str) -> Result<String, ServedFileError> {
        let change = self.preview(path, text)?;
        self.make_folders(path)
            .map_err(|why| self.because(path, why))?;
        let place = self
            .project_dir
            .inside(path)
            .map_err(|why| self.because(path, why))?;
        // Check again: a link can have appeared.
        self.permit(path, &place)?;
        self.overwrite(&place, text)
            .map_err(|why| self.because(path, why))?;
        Ok(change)
    }

    fn permit(&self, path: &Path, real: &Path) -> Result<(), ServedFileError> {
        let refused = |why| ServedFileError::Guarded {
            path: path.to_owned(),
            why,
        };
        self.guard
            .refuses(real)
            .map_or(Ok(()), |why| Err(refused(why)))
    }

    fn overwrite(&self, place: &Path, text: &str) -> Result<(), OpenError> {
        let mut file = self
            .project_dir
            .open(place, OFlags::WRONLY | OFlags::CREATE)?;
        project_dir::size(&file)?;
        file.set_len(0)?;
        file.write_all(text.as_bytes())?;
        Ok(())
    }

    /// A folder in which an agent can run a command.
    pub(super) fn folder(&self, path: Option<&Path>) -> Result<PathBuf, ServedFileError> {
        self.project_dir
            .folder(path)
            .map_err(|why| self.because(path.unwrap_or(Path::new(".")), why))
    }

    /// The target of a path relative to the project's folder, with links resolved as far as the
    /// path exists. For a new file, its existing parent folders are resolved.
    pub(super) fn leads_to(&self, path: &Path) -> String {
        self.relative(&self.real(path))
    }

    fn real(&self, path: &Path) -> PathBuf {
        let wanted = self.project_dir.root().join(path);
        let resolved = |ancestor: &Path| {
            let rest = wanted.strip_prefix(ancestor).ok()?;
            Some(ancestor.canonicalize().ok()?.join(rest))
        };
        wanted
            .ancestors()
            .find_map(resolved)
            .unwrap_or_else(|| wanted.clone())
    }

    fn relative(&self, place: &Path) -> String {
        place
            .strip_prefix(self.project_dir.root())
            .unwrap_or(place)
            .display()
            .to_string()
    }

    fn because(&self, path: &Path, why: OpenError) -> ServedFileError {
        let path = path.to_owned();
        match why {
            OpenError::Outside => ServedFileError::Outside {
                path,
                root: self.project_dir.root().to_owned(),
            },
            OpenError::Missing => ServedFileError::Missing(path),
            OpenError::NotAFile => ServedFileError::NotAFile(path),
            OpenError::TooLarge(size) => ServedFileError::TooLarge { path, size },
            OpenError::Io(error) => ServedFileError::Io { path, error },
        }
    }

    fn make_folders(&self, path: &Path) -> Result<(), OpenError> {
        let wanted = self.project_dir.root().join(path);
        let mut missing = Vec::new();
        let mut parent = wanted.parent();
        while let Some(folder) = parent
            && folder.symlink_metadata().is_err()
        {
            missing.push(folder.to_owned());
            parent = folder.parent();
        }
        if missing
            .iter()
            .any(|folder| folder.components().any(|part| part == Component::ParentDir))
        {
            return Err(OpenError::Outside);
        }
        for folder in missing.iter().rev() {
            let place = self.project_dir.inside(folder)?;
            match std::fs::create_dir(&place) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(error.into());
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    struct TestFolders {
        _whole: tempfile::TempDir,
        project: PathBuf,
        elsewhere: PathBuf,
    }

    fn folders() -> TestFolders {
        let whole = tempfile::tempdir().expect("a folder");
        let (project, elsewhere) = (whole.path().join("project"), whole.path().join("elsewhere"));
        fs::create_dir_all(project.join("src")).expect("a folder");
        fs::create_dir_all(&elsewhere).expect("a folder");
        fs::write(project.join("src/a.txt"), "one\ntwo\nthree\n").expect("a file");
        fs::write(elsewhere.join("secret"), "secret").expect("a file");
        symlink(&elsewhere, project.join("out")).expect("a link");
        symlink(elsewhere.join("secret"), project.join("leak")).expect("a link");
        symlink(elsewhere.join("new"), project.join("dangling")).expect("a link");
        symlink(project.join("src"), project.join("in")).expect("a link");
        TestFolders {
            _whole: whole,
            project,
            elsewhere,
        }
    }

    #[test]
    fn files_inside_the_project_are_read_and_written() {
        let folders = folders();
        let project_dir = GuardedProjectDir::new(&folders.project, Arc::default());
        let read = |path: &str, line, limit| {
            project_dir
                .read(Path::new(path), line, limit)
                .expect("text")
        };
        assert_eq!(read("src/a.txt", None, None), "one\ntwo\nthree\n");
        assert_eq!(read("in/a.txt", Some(2), Some(1)), "two\n");
        assert_eq!(
            project_dir
                .read(&folders.project.join("src/../src/a.txt"), Some(3), None)
                .expect("text"),
            "three\n"
        );
        let diff = project_dir
            .write(Path::new("in/a.txt"), "one\ntwo\n")
            .expect("written");
        assert!(
            diff.contains("-three") && diff.starts_with("--- src/a.txt"),
            "{diff}"
        );
        project_dir
            .write(Path::new("new/folder/b.txt"), "new\n")
            .expect("written");
        assert_eq!(read("new/folder/b.txt", None, None), "new\n");
    }

    #[test]
    fn nothing_outside_is_touched_by_any_way() {
        let folders = folders();
        let project_dir = GuardedProjectDir::new(&folders.project, Arc::default());
        let secret = folders.elsewhere.join("secret");
        let ways = [
            "../elsewhere/secret",
            "out/secret",
            "leak",
            "src/../../elsewhere/secret",
            "dangling",
            "out/new",
            "..",
            ".",
        ];
        for path in ways
            .iter()
            .map(PathBuf::from)
            .chain([secret.clone(), PathBuf::from("/etc/passwd")])
        {
            assert!(
                project_dir.read(&path, None, None).is_err(),
                "read {}",
                path.display()
            );
            assert!(
                project_dir.write(&path, "overwritten").is_err(),
                "wrote {}",
                path.display()
            );
        }
        assert_eq!(fs::read_to_string(&secret).expect("text"), "secret");
        assert_eq!(
            fs::read_dir(&folders.elsewhere).expect("a folder").count(),
            1
        );
        assert!(project_dir.write(Path::new("out/deep/er/x"), "x").is_err());
        assert!(
            project_dir
                .write(Path::new("missing/../../elsewhere/x"), "x")
                .is_err()
        );
        assert!(project_dir.folder(Some(Path::new("out"))).is_err());
        assert!(project_dir.folder(Some(Path::new("src"))).is_ok());
    }

    #[test]
    fn an_edit_is_shown_where_it_is_in_the_file() {
        let folders = folders();
        let project_dir = GuardedProjectDir::new(&folders.project, Arc::default());
        let text: String = (1..=40).map(|n| format!("line {n}\n")).collect();
        fs::write(folders.project.join("long"), text + "same\nsame\n").expect("a file");
        let edited = |path: &str, old: &str, everywhere| {
            let (old, new) = (old.to_owned(), "new".to_owned());
            let edit = ReplacedText {
                old,
                new,
                everywhere,
            };
            let edited = project_dir.edited(Path::new(path), &edit).ok().flatten();
            edited.map(|(before, after)| unified(path, &before, &after))
        };
        let diff = edited("long", "line 30", false).expect("a diff");
        assert!(
            diff.contains("@@ -27,7 +27,7 @@") && diff.contains("-line 30\n+new\n"),
            "{diff}"
        );
        assert_eq!(edited("long", "same", false), None);
        assert!(edited("long", "same", true).is_some_and(|diff| diff.contains("+new\n+new")));
        assert_eq!(edited("long", "missing", false), None);
        assert_eq!(edited("../elsewhere/secret", "secret", false), None);
    }

    #[test]
    fn a_file_that_is_not_text_is_reported() {
        let folders = folders();
        let project_dir = GuardedProjectDir::new(&folders.project, Arc::default());
        fs::write(folders.project.join("binary"), [0xff, 0xfe]).expect("a file");
        let error = |path: &str| {
            project_dir
                .read(Path::new(path), None, None)
                .expect_err("not served")
                .to_string()
        };
        assert_eq!(error("binary"), "binary is not text");
        assert_eq!(
            error("nothing"),
            "Resource not found: nothing does not exist"
        );
        assert_eq!(error("src"), "src is not a regular file");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            folders.project.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .expect("a pipe");
        assert_eq!(error("pipe"), "pipe is not a regular file");
    }
}
