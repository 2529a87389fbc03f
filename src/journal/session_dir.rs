//! The folders of sessions: `.creel/sessions/NAME/`, readable by the owner only.
//!
//! # Invariants
//! - creel creates and changes nothing behind a symbolic link, because a clone can contain one.

use std::{
    fs,
    io::{self, BufRead as _, Read as _, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use rustix::fs::OFlags;

use super::{open, session_index::SessionIndex};

pub const PRIVATE_DIR: u32 = 0o700;
pub const PRIVATE_FILE: u32 = 0o600;

/// Bytes to read at most in search of the first newline. The first record is always shorter.
const LONGEST: u64 = 256 << 20;

#[derive(Debug, Clone)]
pub struct SessionsDir {
    root: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionDir {
    pub name: String,
    pub path: PathBuf,
}

/// Whether the file has at least one whole line.
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
    pub fn of(project: &Path) -> Self {
        Self {
            root: project.join(open::OURS).join("sessions"),
        }
    }

    /// The folder that contains this session and its siblings.
    pub fn around(folder: &SessionDir) -> Self {
        Self {
            root: folder.path.parent().unwrap_or(&folder.path).to_owned(),
        }
    }

    /// Refuses to work behind a link: a clone must not decide where creel reads and writes
    /// sessions.
    pub fn refuse_links(&self) -> io::Result<()> {
        let above = self
            .root
            .parent()
            .filter(|above| above.file_name().is_some_and(|name| name == open::OURS));
        for folder in above.into_iter().chain([self.root.as_path()]) {
            match open::no_link(folder) {
                // A path that is missing, or behind a file, is not a link. The code that writes
                // there reports that it cannot.
                Err(error)
                    if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory]
                        .contains(&error.kind()) => {}
                checked => checked?,
            }
        }
        Ok(())
    }

    /// Does not check that the session exists.
    pub fn folder(&self, name: &str) -> SessionDir {
        SessionDir {
            name: name.to_owned(),
            path: self.root.join(name),
        }
    }

    /// The folder of that name, then those with a number added.
    pub fn numbered(&self, name: &str) -> impl Iterator<Item = SessionDir> {
        let more = (2..).map(move |number| self.folder(&format!("{name}-{number}")));
        std::iter::once(self.folder(name)).chain(more)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// All sessions that have a journal, latest change first.
    pub fn list(&self) -> io::Result<Vec<SessionDir>> {
        self.refuse_links()?;
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut all = Vec::new();
        for entry in entries {
            all.push(self.folder(&entry?.file_name().to_string_lossy()));
        }
        Ok(latest_first(all))
    }

    /// All sessions that have a journal, each with the time of its last change. Opens none of them.
    pub fn entries(&self) -> io::Result<Vec<(SessionDir, SystemTime)>> {
        self.refuse_links()?;
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let named = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let sessions = named
            .filter(|name| is_session_name(name))
            .map(|name| self.folder(&name));
        Ok(sessions
            .filter_map(|session| {
                let meta = fs::symlink_metadata(session.journal())
                    .ok()
                    .filter(|meta| meta.is_file() && meta.len() > 0)?;
                Some((session, meta.modified().ok()?))
            })
            .collect())
    }

    /// The sessions whose creel has not shut down cleanly, latest change first: they run, or they
    /// were killed.
    pub fn live(&self) -> io::Result<Vec<SessionDir>> {
        SessionIndex::Live.sessions(self).map(latest_first)
    }

    /// The same in any order, including those that have no record yet.
    pub fn live_or_starting(&self) -> io::Result<Vec<SessionDir>> {
        SessionIndex::Live.sessions(self)
    }

    /// The sessions that can perhaps be resumed, latest change first; if `limited`, also those that
    /// need a higher limit.
    pub fn unfinished(&self, limited: bool) -> io::Result<Vec<SessionDir>> {
        let mut found = SessionIndex::Unfinished.sessions(self)?;
        if limited {
            found.extend(SessionIndex::Limited.sessions(self)?);
        }
        Ok(by_time(found))
    }

    /// Whether there is a session. Stops at the first one.
    pub fn has_any(&self) -> bool {
        let names = fs::read_dir(&self.root).into_iter().flatten().flatten();
        names
            .map(|entry| self.folder(&entry.file_name().to_string_lossy()))
            .any(|session| session.exists())
    }

    /// The session that changed last. Looks at all of them only if the note about it is missing or
    /// out of date.
    pub fn latest(&self) -> io::Result<Option<SessionDir>> {
        let noted = open::line(&self.latest_file())
            .ok()
            .map(|name| name.trim_end().to_owned());
        let noted = noted
            .filter(|name| is_session_name(name))
            .map(|name| self.folder(&name));
        match noted.filter(SessionDir::exists) {
            // One that runs or was killed may have changed since.
            Some(noted) => Ok(by_time(
                self.live_or_starting()?
                    .into_iter()
                    .chain([noted])
                    .filter(SessionDir::exists)
                    .collect(),
            )
            .into_iter()
            .next()),
            None => Ok(self.list()?.into_iter().next()),
        }
    }

    fn latest_file(&self) -> PathBuf {
        self.root.join(".latest")
    }

    /// The sessions whose server may lack records, if everything else is in this store. If the last
    /// backlog went to another store, all sessions.
    pub fn unsent_to(&self, store: &str) -> io::Result<Vec<SessionDir>> {
        let is_known = open::line(&self.sent_to_file()).is_ok_and(|last| last.trim_end() == store);
        let found = if is_known {
            SessionIndex::Unsent.sessions(self)?
        } else {
            self.list()?
        };
        Ok(found
            .into_iter()
            .filter(|session| session.outbox_file().exists())
            .collect())
    }

    /// The sessions whose server may lack records, whichever it is.
    pub fn unsent(&self) -> io::Result<Vec<SessionDir>> {
        let found = SessionIndex::Unsent.sessions(self)?.into_iter();
        Ok(found
            .filter(|session| session.outbox_file().exists())
            .collect())
    }

    /// Notes that this store has all records of the sessions without an entry.
    pub fn note_sent_to(&self, store: &str) -> io::Result<()> {
        open::replace(&self.sent_to_file(), &format!("{store}\n"))
    }

    fn sent_to_file(&self) -> PathBuf {
        self.root.join(".sent-to")
    }
}

/// Whether a folder with this name can be a session.
pub(super) fn is_session_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Those that have a journal with a record, latest change first.
fn latest_first(folders: Vec<SessionDir>) -> Vec<SessionDir> {
    let mut found = by_time(folders);
    found.retain(SessionDir::exists);
    found
}

/// Those that have a journal, latest change first. Opens none of them.
fn by_time(folders: Vec<SessionDir>) -> Vec<SessionDir> {
    let modified = |folder: &SessionDir| {
        fs::metadata(folder.journal())
            .and_then(|meta| meta.modified())
            .ok()
    };
    let mut found: Vec<_> = folders
        .into_iter()
        .filter_map(|folder| Some((modified(&folder)?, folder)))
        .collect();
    found.sort_by(|(a, one), (b, other)| b.cmp(a).then_with(|| one.name.cmp(&other.name)));
    found.into_iter().map(|(_, folder)| folder).collect()
}

impl SessionDir {
    pub fn project(&self) -> &Path {
        self.path.ancestors().nth(3).unwrap_or(&self.path)
    }

    pub fn journal(&self) -> PathBuf {
        self.path.join("journal.jsonl")
    }

    /// Contains the pid of the process that runs the session.
    pub fn pid_file(&self) -> PathBuf {
        self.path.join("pid")
    }

    /// Contains one line: the address of the socket while the session runs.
    /// Names the control group of the session's processes.
    pub fn control_group_file(&self) -> PathBuf {
        self.path.join("cgroup")
    }

    /// Names the last record.
    pub fn seal_file(&self) -> PathBuf {
        self.path.join("seal")
    }

    pub fn socket_file(&self) -> PathBuf {
        self.path.join("socket")
    }

    /// Contains how many records were sent to the server.
    pub fn outbox_file(&self) -> PathBuf {
        self.path.join("outbox")
    }

    /// False for a journal without a whole record: that session never began.
    pub fn exists(&self) -> bool {
        open::to_read(&self.journal()).is_ok_and(|file| has_records(&file))
    }

    /// Creates the folder and a `.gitignore`, because output of agents and hooks can be private.
    pub(super) fn create(&self) -> io::Result<()> {
        let root = self.path.parent().unwrap_or(&self.path);
        SessionsDir::around(self).refuse_links()?;
        create_ignored(root)?;
        for folder in [&self.path, &self.path.join("outputs")] {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(PRIVATE_DIR)
                .create(folder)?;
            open::is_folder(folder)?;
        }
        Ok(())
    }

    /// Shows other processes that this one runs the session.
    pub(super) fn mark_running(&self) -> io::Result<()> {
        SessionIndex::Live.enter(self)?;
        SessionIndex::Unfinished.enter(self)?;
        SessionIndex::Limited.leave(self);
        self.mark_latest();
        open::replace(&self.pid_file(), &format!("{}\n", std::process::id()))
    }

    /// Notes that no session has changed later. Without the note, creel looks at all of them.
    fn mark_latest(&self) {
        let _ = open::replace(
            &SessionsDir::around(self).latest_file(),
            &format!("{}\n", self.name),
        );
    }

    /// Shows that no process runs the session and none of its processes is left.
    pub fn mark_stopped(&self) {
        self.mark_latest();
        // If a file cannot be removed, the next run checks the session again.
        if fs::remove_file(self.pid_file()).is_ok() || !self.pid_file().exists() {
            SessionIndex::Live.leave(self);
        }
    }

    /// Shows that the session cannot be resumed.
    pub(super) fn mark_finished(&self) {
        SessionIndex::Unfinished.leave(self);
        SessionIndex::Limited.leave(self);
    }

    /// Shows that the session can only be resumed with a higher limit.
    pub(super) fn mark_limited(&self) {
        if SessionIndex::Limited.enter(self).is_ok() {
            SessionIndex::Unfinished.leave(self);
        }
    }

    /// Shows that the session's server may lack records.
    pub fn mark_unsent(&self) -> io::Result<()> {
        SessionIndex::Unsent.enter(self)
    }

    /// Shows that the session's server has all records.
    pub fn mark_sent(&self) {
        SessionIndex::Unsent.leave(self);
    }

    /// Removes the entries of a session that is gone.
    pub fn forget(&self) {
        for index in [
            SessionIndex::Live,
            SessionIndex::Unfinished,
            SessionIndex::Limited,
            SessionIndex::Unsent,
        ] {
            index.leave(self);
        }
    }

    pub(super) fn read_pid(&self) -> Option<u32> {
        open::line(&self.pid_file()).ok()?.trim().parse().ok()
    }
}

/// Creates a folder of creel's own that git ignores, because what is in it is private or can be
/// made again.
pub fn create_ignored(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_DIR)
        .create(folder)?;
    let ignore = folder.join(".gitignore");
    // An empty one is from a creel that was killed before it wrote to it.
    if fs::symlink_metadata(&ignore).is_ok_and(|meta| meta.len() > 0) {
        return Ok(());
    }
    // Another creel may do the same now.
    let draft = folder.join(format!(".gitignore.{}", std::process::id()));
    open::open(&draft, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?.write_all(b"*\n")?;
    fs::rename(draft, ignore)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_before_the_ignore_file_has_its_content_does_no_harm() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, ignore) = (
            dir.path().join("queue"),
            dir.path().join("queue/.gitignore"),
        );
        let ignored = || {
            create_ignored(&folder).expect("a folder");
            fs::read_to_string(&ignore).expect("a file")
        };
        assert_eq!(ignored(), "*\n");
        fs::write(&ignore, "").expect("a file");
        assert_eq!(ignored(), "*\n");
        fs::write(&ignore, "# mine\n").expect("a file");
        assert_eq!(ignored(), "# mine\n");
    }
}
