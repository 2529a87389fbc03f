//! Where sessions live on disk: `.creel/sessions/NAME/`, for the owner only.
//!
//! # Invariants
//! - Nothing is made or changed behind a link: what a clone brings along is no session's folder.

use std::{
    fs,
    io::{self, BufRead as _, Read as _, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use super::open;

/// Owner only, for folders.
pub const PRIVATE_DIR: u32 = 0o700;
/// Owner only, for files.
pub const PRIVATE_FILE: u32 = 0o600;

/// More than the first record of a session ever has. No more is read to find its end.
const LONGEST: u64 = 256 << 20;

/// The sessions of a project.
#[derive(Debug, Clone)]
pub struct SessionsDir {
    root: PathBuf,
}

/// The folder of one session.
#[derive(Debug, Clone)]
pub struct SessionDir {
    /// The session's name.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
}

/// Whether there is a whole line in it.
pub(super) fn has_records(file: &fs::File) -> bool {
    let mut reader = io::BufReader::new(file.take(LONGEST));
    while let Ok(read) = reader.fill_buf() {
        if read.is_empty() || read.contains(&b'\n') {
            return !read.is_empty();
        }
        let length = read.len();
        reader.consume(length);
    }
    false
}

impl SessionsDir {
    /// The sessions of the project in this folder.
    pub fn of(project: &Path) -> Self {
        Self { root: project.join(open::OURS).join("sessions") }
    }

    /// The sessions beside this one.
    pub fn around(folder: &SessionDir) -> Self {
        Self { root: folder.path.parent().unwrap_or(&folder.path).to_owned() }
    }

    /// Refuses to work behind a link: what comes with a clone must not decide where sessions are read and written.
    pub fn refuse_links(&self) -> io::Result<()> {
        let above = self.root.parent().filter(|above| above.file_name().is_some_and(|name| name == open::OURS));
        for folder in above.into_iter().chain([self.root.as_path()]) {
            match open::no_link(folder) {
                // A path that is missing, or behind a file, is not a link. The code that writes there reports that it
                // cannot.
                Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => {}
                checked => checked?,
            }
        }
        Ok(())
    }

    /// The folder of a session, whether or not it exists.
    pub fn folder(&self, name: &str) -> SessionDir {
        SessionDir { name: name.to_owned(), path: self.root.join(name) }
    }

    /// All sessions that have a journal, latest change first.
    pub fn list(&self) -> io::Result<Vec<SessionDir>> {
        self.refuse_links()?;
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let folder = self.folder(&name);
            let modified = fs::metadata(folder.journal()).and_then(|meta| meta.modified());
            if let (Ok(modified), true) = (modified, folder.exists()) {
                found.push((modified, folder));
            }
        }
        found.sort_by(|(a, one), (b, other)| b.cmp(a).then_with(|| one.name.cmp(&other.name)));
        Ok(found.into_iter().map(|(_, folder)| folder).collect())
    }
}

impl SessionDir {
    /// The project that it belongs to.
    pub fn project(&self) -> &Path {
        self.path.ancestors().nth(3).unwrap_or(&self.path)
    }

    /// The records.
    pub fn journal(&self) -> PathBuf {
        self.path.join("journal.jsonl")
    }

    /// The number of the process that runs the session.
    pub fn pid_file(&self) -> PathBuf {
        self.path.join("pid")
    }

    /// Where the session can be reached while it runs, as a line.
    pub fn socket_file(&self) -> PathBuf {
        self.path.join("socket")
    }

    /// How far the records were sent elsewhere.
    pub fn outbox_file(&self) -> PathBuf {
        self.path.join("outbox")
    }

    /// Whether the session exists: a journal without a whole record is what is left of one that never began.
    pub fn exists(&self) -> bool {
        open::to_read(&self.journal()).is_ok_and(|file| has_records(&file))
    }

    /// Makes the folder, and keeps it out of version control: what agents and hooks print may be private.
    pub(super) fn create(&self) -> io::Result<()> {
        let root = self.path.parent().unwrap_or(&self.path);
        SessionsDir::around(self).refuse_links()?;
        fs::DirBuilder::new().recursive(true).mode(PRIVATE_DIR).create(root)?;
        let ignore = fs::OpenOptions::new().write(true).create_new(true).open(root.join(".gitignore"));
        match ignore {
            Ok(mut ignore) => ignore.write_all(b"*\n")?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        for folder in [&self.path, &self.path.join("outputs")] {
            fs::DirBuilder::new().recursive(true).mode(PRIVATE_DIR).create(folder)?;
            open::is_folder(folder)?;
        }
        Ok(())
    }

    pub(super) fn write_pid(&self) -> io::Result<()> {
        open::replace(&self.pid_file(), &format!("{}\n", std::process::id()))
    }

    pub(super) fn read_pid(&self) -> Option<u32> {
        open::line(&self.pid_file()).ok()?.trim().parse().ok()
    }
}
