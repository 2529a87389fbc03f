//! The sessions of several projects on this machine, as they were last seen.
//!
//! Reads files and blocks meanwhile: see [`super::SessionFeed`] for waiting.
//!
//! Also owns the list of the projects in which this user has run creel: one path per line, in the
//! state folder.
//!
//! # Invariants
//! - Only running sessions are read when they are found. Others are read when a list shows them.
//! - A session that runs is read from where it was last read.
//! - Starting a session costs one small read, and one append for a new project. Nothing waits for
//!   the disk.
//! - The list is a hint: a project that is gone or has no sessions does no harm, and one that is
//!   missing comes back with its next session.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{SessionChange, SessionKey, folder_watch::WatchedChange, stored_session};
use crate::{
    journal::{
        self, JournalFollower, SessionDir, SessionsDir,
        session_dir::{PRIVATE_DIR, PRIVATE_FILE},
    },
    present::{session_chip::SessionTimes, session_list::ListedSession},
};

/// Which projects to look at.
#[derive(Debug, Clone, Default)]
pub struct ProjectScope {
    /// These, whether or not they are in the list.
    pub projects: Vec<PathBuf>,
    /// Also all in this list.
    pub list: Option<ProjectList>,
}

impl ProjectScope {
    pub(super) fn roots(&self) -> BTreeSet<PathBuf> {
        let listed = self
            .list
            .as_ref()
            .map(ProjectList::projects)
            .unwrap_or_default();
        self.projects.iter().cloned().chain(listed).collect()
    }
}

#[derive(Debug)]
pub struct SessionStore {
    scope: ProjectScope,
    projects: BTreeMap<PathBuf, KnownProject>,
}

#[derive(Debug, Default)]
struct KnownProject {
    sessions: BTreeMap<String, KnownSession>,
    /// Sessions that have no record yet.
    starting: BTreeSet<String>,
    /// The times of its folders at the last look.
    stamp: Option<[Option<SystemTime>; 2]>,
}

#[derive(Debug)]
enum KnownSession {
    Running(Box<RunningSession>),
    Resting(SystemTime),
}

#[derive(Debug)]
struct RunningSession {
    followed: JournalFollower,
    times: SessionTimes,
}

impl RunningSession {
    /// None if its journal cannot be read, for example because it has no record yet.
    fn open(folder: &SessionDir) -> Option<Self> {
        let mut times = SessionTimes::default();
        let followed =
            JournalFollower::open(&folder.journal(), |at, event| times.follow(at, event)).ok()?;
        Some(Self { followed, times })
    }

    fn listed(&self, folder: &SessionDir) -> ListedSession {
        let modified = fs::metadata(folder.journal()).and_then(|meta| meta.modified());
        let base = stored_session::unread(folder, modified.unwrap_or(SystemTime::UNIX_EPOCH));
        stored_session::on_branch(
            base.with_state(self.followed.state(), &self.times, true),
            self.followed.state(),
        )
    }
}

impl SessionStore {
    pub const fn new(scope: ProjectScope) -> Self {
        Self {
            scope,
            projects: BTreeMap::new(),
        }
    }

    /// Looks at all projects.
    pub fn scan(&mut self) -> Vec<SessionChange> {
        let roots = self.scope.roots();
        let mut changes = Vec::new();
        let gone: Vec<PathBuf> = self
            .projects
            .keys()
            .filter(|root| !roots.contains(*root))
            .cloned()
            .collect();
        for root in gone {
            let sessions = SessionsDir::of(&root);
            let known = self.projects.remove(&root).unwrap_or_default();
            changes.extend(
                known
                    .sessions
                    .keys()
                    .map(|name| removed(&sessions.folder(name))),
            );
        }
        for root in roots {
            changes.extend(self.scan_project(&root));
        }
        changes
    }

    fn scan_project(&mut self, root: &Path) -> Vec<SessionChange> {
        let known = self.projects.entry(root.to_owned()).or_default();
        let sessions = SessionsDir::of(root);
        known.stamp = Some(stamp(root));
        // A project whose folders cannot be read has no sessions to show.
        let live = sessions
            .live_or_starting()
            .unwrap_or_default()
            .into_iter()
            .map(|folder| folder.name);
        let live: BTreeSet<String> = live.collect();
        let found: BTreeMap<String, SystemTime> = sessions
            .entries()
            .unwrap_or_default()
            .into_iter()
            .map(|(folder, changed)| (folder.name, changed))
            .collect();
        known.starting = live
            .iter()
            .filter(|name| !found.contains_key(*name))
            .cloned()
            .collect();
        let mut changes = Vec::new();
        known.sessions.retain(|name, _| {
            let stays = found.contains_key(name);
            if !stays {
                changes.push(removed(&sessions.folder(name)));
            }
            stays
        });
        for (name, changed) in found {
            let folder = sessions.folder(&name);
            let is_live = live.contains(&name);
            changes.extend(known.look_at(&folder, changed, is_live));
        }
        changes
    }

    /// Looks at what has changed.
    pub(super) fn look_again(&mut self, change: &WatchedChange) -> Vec<SessionChange> {
        let paths = match change {
            WatchedChange::Paths(paths) => paths,
            WatchedChange::Unknown => return self.look_at_everything(),
        };
        if self
            .scope
            .list
            .as_ref()
            .is_some_and(|list| list.file().parent().is_some_and(|dir| paths.contains(dir)))
        {
            let roots = self.scope.roots();
            if !roots.iter().eq(self.projects.keys()) {
                return self.scan();
            }
        }
        let mut changes = Vec::new();
        let roots: Vec<PathBuf> = self.projects.keys().cloned().collect();
        for root in roots {
            let starts = self
                .projects
                .get(&root)
                .is_some_and(|known| known.starts_in(&root, paths));
            if starts || folders(&root).iter().any(|folder| paths.contains(folder)) {
                changes.extend(self.scan_project(&root));
            }
        }
        let journals = paths
            .iter()
            .filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
        for path in journals.filter_map(|path| path.parent()) {
            let Some(folder) = SessionKey::Here(path.to_owned()).folder() else {
                continue;
            };
            if let Some(known) = self.projects.get_mut(folder.project()) {
                changes.extend(known.catch_up(&folder));
            }
        }
        changes
    }

    /// Looks at the running sessions, and at projects whose folders have changed.
    fn look_at_everything(&mut self) -> Vec<SessionChange> {
        let roots = self.scope.roots();
        if !roots.iter().eq(self.projects.keys()) {
            return self.scan();
        }
        let mut changes = Vec::new();
        for root in roots {
            let Some(known) = self.projects.get_mut(&root) else {
                continue;
            };
            if known.stamp != Some(stamp(&root)) {
                changes.extend(self.scan_project(&root));
                continue;
            }
            let sessions = SessionsDir::of(&root);
            for name in known.running() {
                changes.extend(known.catch_up(&sessions.folder(&name)));
            }
        }
        changes
    }

    /// Everything whose change can change the list.
    pub(super) fn watched(&self) -> BTreeSet<PathBuf> {
        let list = self
            .scope
            .list
            .as_ref()
            .and_then(|list| list.file().parent())
            .map(Path::to_owned);
        let mut paths: BTreeSet<PathBuf> = list.into_iter().collect();
        for (root, known) in &self.projects {
            let sessions = SessionsDir::of(root);
            paths.extend(folders(root));
            paths.extend(
                known
                    .running()
                    .iter()
                    .chain(&known.starting)
                    .map(|name| sessions.folder(name).journal()),
            );
        }
        paths
    }

    /// Whether a session had no record yet when it was last looked at.
    pub(super) fn has_starting(&self) -> bool {
        self.projects
            .values()
            .any(|known| !known.starting.is_empty())
    }

    /// Looks again at the projects with sessions that had no record yet.
    pub(super) fn look_at_starting(&mut self) -> Vec<SessionChange> {
        let starting = self
            .projects
            .iter()
            .filter(|(_, known)| !known.starting.is_empty());
        let roots: Vec<PathBuf> = starting.map(|(root, _)| root.clone()).collect();
        roots
            .iter()
            .flat_map(|root| self.scan_project(root))
            .collect()
    }
}

impl KnownProject {
    fn running(&self) -> Vec<String> {
        let running = self
            .sessions
            .iter()
            .filter(|(_, known)| matches!(known, KnownSession::Running(_)));
        running.map(|(name, _)| name.clone()).collect()
    }

    /// Whether one of these paths is the journal of a session that had no record yet.
    fn starts_in(&self, root: &Path, paths: &BTreeSet<PathBuf>) -> bool {
        let sessions = SessionsDir::of(root);
        self.starting
            .iter()
            .any(|name| paths.contains(&sessions.folder(name).journal()))
    }

    /// Looks at a session whose folder was found.
    fn look_at(
        &mut self,
        folder: &SessionDir,
        changed: SystemTime,
        is_live: bool,
    ) -> Option<SessionChange> {
        let is_running = is_live && journal::running(folder).is_some();
        match self.sessions.get(&folder.name) {
            Some(KnownSession::Running(_)) if is_running => return self.catch_up(folder),
            Some(KnownSession::Resting(known)) if !is_running && *known == changed => return None,
            Some(_) | None => {}
        }
        Some(
            match is_running.then(|| RunningSession::open(folder)).flatten() {
                Some(session) => {
                    let listed = session.listed(folder);
                    self.sessions.insert(
                        folder.name.clone(),
                        KnownSession::Running(Box::new(session)),
                    );
                    seen(folder, listed)
                }
                None => self.rests(folder, changed),
            },
        )
    }

    /// A session that no process runs. One that was listed as running is read at once: the list
    /// shows it.
    fn rests(&mut self, folder: &SessionDir, changed: SystemTime) -> SessionChange {
        let before = self
            .sessions
            .insert(folder.name.clone(), KnownSession::Resting(changed));
        match before {
            Some(_) => seen(folder, stored_session::read(folder)),
            None => seen(folder, stored_session::unread(folder, changed)),
        }
    }

    /// Reads what a running session has recorded since.
    fn catch_up(&mut self, folder: &SessionDir) -> Option<SessionChange> {
        let Some(KnownSession::Running(session)) = self.sessions.get_mut(&folder.name) else {
            return None;
        };
        let RunningSession { followed, times } = &mut **session;
        let has_changed = followed
            .catch_up(|at, event| times.follow(at, event))
            .unwrap_or(true);
        if journal::running(folder).is_none() {
            let modified = fs::metadata(folder.journal())
                .and_then(|meta| meta.modified())
                .ok()?;
            return Some(self.rests(folder, modified));
        }
        has_changed.then(|| seen(folder, session.listed(folder)))
    }
}

fn seen(folder: &SessionDir, listed: ListedSession) -> SessionChange {
    SessionChange::Seen(SessionKey::of(folder), Box::new(listed))
}

fn removed(folder: &SessionDir) -> SessionChange {
    SessionChange::Removed(SessionKey::of(folder))
}

/// The folders of a project in which sessions appear and disappear.
fn folders(root: &Path) -> [PathBuf; 2] {
    let sessions = root.join(".creel/sessions");
    [sessions.join(".live"), sessions]
}

fn stamp(root: &Path) -> [Option<SystemTime>; 2] {
    folders(root).map(|folder| fs::metadata(folder).and_then(|meta| meta.modified()).ok())
}

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
