//! Which sessions of a project are live or unfinished, so that no command has to look at all
//! sessions for these.
//!
//! `.creel/sessions/.live` has an empty file for each session whose creel has not shut down
//! cleanly: it runs, or it was killed. `.creel/sessions/.unfinished` has one for each session that
//! may be resumed, `.creel/sessions/.limited` one for each that may be resumed with a higher limit,
//! and `.creel/sessions/.unsent` one for each session whose NATS server may lack records.
//!
//! # Invariants
//! - A live session has its entry before its pid file, and loses its pid file before its entry. So
//!   a kill at any moment loses no entry; an entry without a session does no harm.
//! - A project without these folders has sessions of an earlier creel. They get their entries
//!   before the first new one.
//! - An entry is a hint: the journal's lock shows whether a session runs, and its records whether
//!   it has ended.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use super::{
    open,
    session_dir::{PRIVATE_DIR, SessionDir, SessionsDir, is_session_name},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionIndex {
    Live,
    Unfinished,
    Limited,
    Unsent,
}

impl SessionIndex {
    const fn folder_name(self) -> &'static str {
        match self {
            Self::Live => ".live",
            Self::Unfinished => ".unfinished",
            Self::Limited => ".limited",
            Self::Unsent => ".unsent",
        }
    }

    fn folder(self, root: &Path) -> PathBuf {
        root.join(self.folder_name())
    }

    /// Whether a session of an earlier creel, which made no entries, belongs here.
    fn may_contain(self, session: &SessionDir) -> bool {
        match self {
            Self::Live => session.pid_file().exists(),
            // Reading all journals would take long. A session that has ended is found out when it
            // is looked at.
            Self::Unfinished => true,
            // Those of an earlier creel are among the unfinished ones.
            Self::Limited => false,
            // A session without an outbox file never had a server.
            Self::Unsent => session.outbox_file().exists(),
        }
    }

    /// The sessions with an entry. In a project without entries, all that may belong here.
    pub(super) fn sessions(self, sessions: &SessionsDir) -> io::Result<Vec<SessionDir>> {
        sessions.refuse_links()?;
        let root = sessions.root();
        let names = match open::is_folder(&self.folder(root)) {
            Ok(_) => names_in(&self.folder(root))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.earlier(sessions),
            Err(error) => return Err(error),
        };
        Ok(names
            .into_iter()
            .map(|name| sessions.folder(&name))
            .collect())
    }

    fn earlier(self, sessions: &SessionsDir) -> io::Result<Vec<SessionDir>> {
        let names = match names_in(sessions.root()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            names => names?,
        };
        let all = names.into_iter().map(|name| sessions.folder(&name));
        Ok(all.filter(|session| self.may_contain(session)).collect())
    }

    /// Adds an entry for a session.
    pub(super) fn enter(self, session: &SessionDir) -> io::Result<()> {
        let sessions = SessionsDir::around(session);
        let folder = self.folder(sessions.root());
        if let Err(error) = open::is_folder(&folder) {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            self.create(&sessions)?;
        }
        open::open(&folder.join(&session.name), OFlags::WRONLY | OFlags::CREATE).map(drop)
    }

    /// Removes the entry of a session.
    pub(super) fn leave(self, session: &SessionDir) {
        let folder = self.folder(SessionsDir::around(session).root());
        if open::is_folder(&folder).is_ok() {
            let _ = fs::remove_file(folder.join(&session.name));
        }
    }

    /// Creates the folder with the entries of all earlier sessions in one step.
    fn create(self, sessions: &SessionsDir) -> io::Result<()> {
        let folder = self.folder(sessions.root());
        let draft = sessions
            .root()
            .join(format!("{}.{}", self.folder_name(), std::process::id()));
        let _ = fs::remove_dir_all(&draft);
        DirBuilder::new().mode(PRIVATE_DIR).create(&draft)?;
        for session in self.earlier(sessions)? {
            open::open(&draft.join(&session.name), OFlags::WRONLY | OFlags::CREATE)?;
        }
        let renamed = fs::rename(&draft, &folder);
        if renamed.is_err() {
            let _ = fs::remove_dir_all(&draft);
        }
        // Another process may have created the folder in the meantime.
        if folder.is_dir() { Ok(()) } else { renamed }
    }
}

/// The names of possible sessions in a folder.
fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if is_session_name(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(sessions: &SessionsDir, name: &str) -> SessionDir {
        let session = sessions.folder(name);
        fs::create_dir_all(&session.path).expect("a folder");
        fs::write(session.journal(), "{}\n").expect("a journal");
        session
    }

    fn names(found: io::Result<Vec<SessionDir>>) -> Vec<String> {
        let mut names: Vec<String> = found
            .expect("a folder")
            .into_iter()
            .map(|session| session.name)
            .collect();
        names.sort();
        names
    }

    #[test]
    fn sessions_of_an_earlier_creel_get_their_entries_before_the_first_new_one() {
        let dir = tempfile::tempdir().expect("a folder");
        let sessions = SessionsDir::of(dir.path());
        assert!(names(sessions.live()).is_empty() && names(sessions.unfinished(false)).is_empty());
        let (killed, _stopped) = (session(&sessions, "killed"), session(&sessions, "stopped"));
        fs::write(killed.pid_file(), "1\n").expect("a pid");
        assert_eq!(names(sessions.live()), ["killed"]);
        assert_eq!(names(sessions.unfinished(false)), ["killed", "stopped"]);
        session(&sessions, "new").mark_running().expect("an entry");
        assert_eq!(names(sessions.live()), ["killed", "new"]);
        assert_eq!(
            names(sessions.unfinished(false)),
            ["killed", "new", "stopped"]
        );
        killed.mark_stopped();
        killed.mark_finished();
        assert_eq!(names(sessions.live()), ["new"]);
        assert_eq!(names(sessions.unfinished(false)), ["new", "stopped"]);
        assert!(!killed.pid_file().exists());
    }

    #[test]
    fn the_session_that_changed_last_is_known_without_looking_at_all_of_them() {
        let dir = tempfile::tempdir().expect("a folder");
        let sessions = SessionsDir::of(dir.path());
        let latest = || {
            sessions
                .latest()
                .expect("a folder")
                .map(|session| session.name)
        };
        assert!(latest().is_none() && !sessions.has_any());
        let (one, two) = (session(&sessions, "one"), session(&sessions, "two"));
        one.mark_running().expect("an entry");
        two.mark_running().expect("an entry");
        assert!(sessions.has_any());
        // Both run: the one that wrote last counts.
        fs::write(one.journal(), "{}\n{}\n").expect("a journal");
        assert_eq!(latest().as_deref(), Some("one"));
        one.mark_stopped();
        two.mark_stopped();
        assert_eq!(latest().as_deref(), Some("two"), "it stopped last");
        fs::remove_dir_all(&two.path).expect("it was there");
        assert_eq!(
            latest().as_deref(),
            Some("one"),
            "the note is of no use any more"
        );
    }

    #[test]
    fn a_session_at_its_limit_is_only_offered_for_a_higher_one() {
        let dir = tempfile::tempdir().expect("a folder");
        let sessions = SessionsDir::of(dir.path());
        let ended = session(&sessions, "ended");
        ended.mark_running().expect("an entry");
        ended.mark_limited();
        assert!(names(sessions.unfinished(false)).is_empty());
        assert_eq!(names(sessions.unfinished(true)), ["ended"]);
        ended.mark_running().expect("an entry");
        assert_eq!(names(sessions.unfinished(false)), ["ended"]);
        ended.mark_finished();
        assert!(names(sessions.unfinished(true)).is_empty());
    }

    #[test]
    fn only_sessions_with_an_entry_are_looked_at() {
        let dir = tempfile::tempdir().expect("a folder");
        let sessions = SessionsDir::of(dir.path());
        session(&sessions, "new").mark_running().expect("an entry");
        let other = session(&sessions, "other");
        fs::write(other.pid_file(), "1\n").expect("a pid");
        assert_eq!(names(sessions.live()), ["new"]);
        assert_eq!(names(sessions.list()), ["new", "other"]);
    }

    #[test]
    fn a_link_in_place_of_an_index_is_refused() {
        let (dir, elsewhere) = (
            tempfile::tempdir().expect("a folder"),
            tempfile::tempdir().expect("a folder"),
        );
        let sessions = SessionsDir::of(dir.path());
        let new = session(&sessions, "new");
        std::os::unix::fs::symlink(elsewhere.path(), sessions.root().join(".live"))
            .expect("a link");
        assert!(new.mark_running().is_err() && sessions.live().is_err());
        assert_eq!(fs::read_dir(elsewhere.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn processes_that_create_an_index_at_the_same_time_lose_no_entry() {
        let dir = tempfile::tempdir().expect("a folder");
        let sessions = SessionsDir::of(dir.path());
        let first = session(&sessions, "first");
        fs::write(first.pid_file(), "1\n").expect("a pid");
        SessionIndex::Live.create(&sessions).expect("an index");
        session(&sessions, "second")
            .mark_running()
            .expect("an entry");
        // Another process began to create it before the first one had.
        SessionIndex::Live.create(&sessions).expect("an index");
        assert_eq!(names(sessions.live()), ["first", "second"]);
    }
}
