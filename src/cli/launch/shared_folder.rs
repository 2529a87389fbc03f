//! The refusal, or on a terminal the question, before a session starts in a folder where another
//! one works. Also names for new sessions that no other session has, and the lock for choosing one.
//!
//! # Invariants
//! - A session in its own worktree is never in the way: its folder is another one.
//! - Of sessions that start in a folder at the same time, one runs. The check that counts is made
//!   under the [`SessionNameLock`], which the new session keeps until others can see it.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    cli::{
        arguments::OutputArgs,
        error::{CliError, CliResult, say},
    },
    config::paths,
    journal::{
        self, SessionDir, SessionsDir,
        session_dir::{PRIVATE_DIR, PRIVATE_FILE},
    },
    present::text::local_now,
    worktrees::{ProjectRepository, inventory},
};

/// How a session uses its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FolderUse {
    /// No other session may work there.
    Alone,
    /// Beside others.
    Shared,
    /// Not at all: it gets its own worktree.
    Worktree,
}

/// A session that would start in a folder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FolderRequest<'a> {
    /// Where its agent would work.
    pub(crate) cwd: &'a Path,
    /// The sessions of its project.
    pub(crate) sessions: &'a SessionsDir,
    /// Its name if it is resumed. Then it cannot move to a worktree.
    pub(crate) resumed: Option<&'a str>,
}

impl FolderRequest<'_> {
    /// Decides how the session uses its folder. If another session works there, asks the user on a
    /// terminal, and refuses without one.
    pub(crate) fn decide(self, output: OutputArgs) -> CliResult<FolderUse> {
        let others = self.others();
        let is_attended = !output.headless
            && !output.json
            && io::stdin().is_terminal()
            && io::stderr().is_terminal();
        match (others.as_slice(), is_attended) {
            ([], _) => Ok(FolderUse::Alone),
            (others, true) => self.ask(others),
            (others, false) => Err(self.refusal(others)),
        }
    }

    /// Refuses if another session has started in the folder meanwhile. Otherwise none does while
    /// the lock is kept.
    pub(crate) fn claim(self) -> CliResult<Option<SessionNameLock>> {
        let turn = SessionNameLock::wait();
        let others = self.others();
        if others.is_empty() {
            Ok(turn)
        } else {
            Err(self.refusal(&others))
        }
    }

    /// The names of the other sessions that work in the folder.
    fn others(self) -> Vec<String> {
        // In a worktree of a session, the sessions of its project count too.
        let of_origin = inventory::project_of(self.cwd).map(|project| SessionsDir::of(&project));
        let live = std::iter::once(self.sessions)
            .chain(&of_origin)
            .flat_map(|all| all.live().unwrap_or_default());
        let others =
            live.filter(|folder| self.resumed != Some(&folder.name) && works_in(folder, self.cwd));
        let mut names: Vec<String> = others.map(|folder| folder.name).collect();
        names.sort();
        names.dedup();
        names
    }

    fn refusal(self, others: &[String]) -> CliError {
        let (them, first) = (pronoun(others), &others[0]);
        let way_out = match (self.resumed, self.has_repository()) {
            (Some(_), _) => format!(
                "stop {them} with `creel stop -s {first}`, or add --force to run beside {them}"
            ),
            (None, true) => {
                format!(
                    "add --worktree for a folder and a branch of its own, or --force to run beside {them}"
                )
            }
            (None, false) => format!(
                "add --force to run beside {them}; --worktree, for a folder and a branch of its own, needs a git repository"
            ),
        };
        CliError::usage(format!("{}\n  {way_out}", conflict(others)))
    }

    fn ask(self, others: &[String]) -> CliResult<FolderUse> {
        let them = pronoun(others);
        let has_worktrees = self.resumed.is_none() && self.has_repository();
        let question = if has_worktrees {
            format!(
                "Run this one in its own git [w]orktree, run [b]eside {them} anyway, or [l]eave? [w/b/L] "
            )
        } else {
            format!("Run [b]eside {them} anyway, or [l]eave? [b/L] ")
        };
        say(&format!("creel: {}", conflict(others)));
        loop {
            let _ = write!(io::stderr(), "{question}");
            let mut answer = String::new();
            let read = io::stdin().lock().read_line(&mut answer);
            read.map_err(|error| CliError::failed(format!("cannot read the answer: {error}")))?;
            match answer.trim().to_lowercase().as_str() {
                "" | "l" | "leave" | "n" | "no" | "q" | "quit" => {
                    return Err(CliError::usage("nothing has run"));
                }
                "b" | "beside" => return Ok(FolderUse::Shared),
                "w" | "worktree" if has_worktrees => return Ok(FolderUse::Worktree),
                _ => {}
            }
        }
    }

    fn has_repository(self) -> bool {
        ProjectRepository::of(self.cwd).is_ok()
    }
}

/// Whether a session runs and has its agent in this folder. A process that only looks at the
/// journal of a dead session has its lock too, but not its pid file.
fn works_in(folder: &SessionDir, cwd: &Path) -> bool {
    journal::running(folder).is_some_and(|holder| holder.pid.is_some())
        && journal::fold(&folder.journal()).is_ok_and(|state| Path::new(&state.began.cwd) == cwd)
}

fn conflict(others: &[String]) -> String {
    let subject = match others {
        [only] => format!("session `{only}` is"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(|name| format!("`{name}`")).collect();
            format!("sessions {} and `{last}` are", first.join(", "))
        }
        [] => "another session is".to_owned(),
    };
    format!("{subject} already running in this folder, and the agents would change the same files")
}

const fn pronoun(others: &[String]) -> &'static str {
    if others.len() > 1 { "them" } else { "it" }
}

/// How many names to try one after the other.
const IN_ORDER: u64 = 16;

/// The folder of that name, or a free one with a number added: the first one, if there are only a
/// few.
pub(crate) fn first_free(sessions: &SessionsDir, name: &str) -> SessionDir {
    let is_free = |folder: &SessionDir| !folder.exists();
    if let Some(folder) = sessions
        .numbered(name)
        .take(usize::try_from(IN_ORDER).unwrap_or(1))
        .find(is_free)
    {
        return folder;
    }
    // Doubles the number until one is free, then halves the distance to one that is taken: this
    // stays quick after thousands of sessions.
    let numbered = |number: u64| sessions.folder(&format!("{name}-{number}"));
    let (mut taken, mut free) = (IN_ORDER, 2 * IN_ORDER);
    while !is_free(&numbered(free)) {
        (taken, free) = (free, free.saturating_mul(2));
    }
    while free - taken > 1 {
        let middle = taken + (free - taken) / 2;
        if is_free(&numbered(middle)) {
            free = middle;
        } else {
            taken = middle;
        }
    }
    numbered(free)
}

/// A name from the folder and the time.
pub(crate) fn dated_name(root: &Path) -> String {
    let folder = root
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let plain: String = folder
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '-'
            }
        })
        .take(40)
        .collect();
    let folder = plain.trim_matches('-');
    dated(if folder.is_empty() { "session" } else { folder })
}

/// A name with the time added.
pub(crate) fn dated(name: &str) -> String {
    format!("{name}-{}", local_now().strftime("%Y%m%d-%H%M%S"))
}

/// How long to wait for another process between its choice of a name and its first record. A
/// suspended process must not block all others.
const PATIENCE: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(5);

/// Locked until this is dropped.
#[derive(Debug)]
pub(crate) struct SessionNameLock(#[expect(dead_code, reason = "its lock is what counts")] File);

impl SessionNameLock {
    /// Waits for the lock. `None` if it cannot be acquired: then only the journal's lock protects
    /// the name.
    pub(crate) fn wait() -> Option<Self> {
        let folder = paths::state_dir()?;
        DirBuilder::new()
            .recursive(true)
            .mode(PRIVATE_DIR)
            .create(&folder)
            .ok()?;
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create(true)
            .truncate(false)
            .mode(PRIVATE_FILE);
        let file = options.open(folder.join("names.lock")).ok()?;
        let deadline = Instant::now() + PATIENCE;
        while matches!(file.try_lock(), Err(TryLockError::WouldBlock)) && Instant::now() < deadline
        {
            std::thread::sleep(AGAIN);
        }
        Some(Self(file))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_name_is_free_however_many_sessions_have_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let sessions = SessionsDir::of(dir.path());
        for _ in 0..100 {
            let folder = first_free(&sessions, "s");
            assert!(!folder.exists());
            fs::create_dir_all(&folder.path).expect("a folder");
            fs::write(folder.journal(), "{}\n").expect("a journal");
        }
        let taken: Vec<String> = sessions
            .numbered("s")
            .take(100)
            .map(|folder| folder.name)
            .collect();
        assert!(
            taken.iter().all(|name| sessions.folder(name).exists()),
            "no number was skipped"
        );
    }
}
