//! Runs a check in a clean worktree: the work as it is now, with the test files of the base commit
//! or with its own.
//!
//! Owns the worktree, in the session's folder, from its creation to its removal. Does not decide
//! which files are tests, when such a run is due, or what it shows: see
//! [`crate::engine::verify::test_files`] and [`crate::engine::verify::base_tests`].
//!
//! # Invariants
//! - Nothing in the project's folder changes, and no link leads a copy out of the worktree.
//! - The worktree is removed after the run. If creel is killed, `resume` removes it.
//! - A run whose worktree could not be made did not start: it never passes.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, Permissions},
    io::{self, ErrorKind},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Component, Path, PathBuf},
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::{
    git::failed,
    outcome::{BuiltinError, quoted},
    program::{ANSWER, ProgramCall, ProgramResult, ProgramRunner},
    rebase::runner_in,
};
use crate::{
    engine::{
        effect::{CleanRunJob, HookJob},
        hooks::{
            template,
            verdict::{RunEnd, RunResult},
        },
        verify::{base_tests::TestSource, test_files::belongs_to_tests},
    },
    git::PLAIN,
    hooks::{HookWorkspace, run_here},
    process::{
        project_variable,
        run::{OutputStream, ProcessGroup, ProcessObserver},
    },
};

/// The folder of the worktree in the session's folder. It goes last, so it shows whether something
/// is left.
const FOLDER: &str = "clean-worktree";
/// How long making it takes at most, unless the check has more time.
const PATIENCE: Duration = Duration::from_mins(10);
/// Settings of the repository that do not apply: programs that it runs, and a part of the files.
const ALONE: [&str; 6] = [
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.sparseCheckout=false",
];
/// creel's own folder.
const OURS: &str = ".creel";
/// The mode of a submodule in a tree.
const SUBMODULE: &str = "160000";
/// The mode of a program in a tree.
const EXECUTABLE: &str = "100755";

/// Test files: whether each is executable, and the hash of its contents.
type TestFiles = BTreeMap<String, (bool, String)>;

/// What is ready for a run.
enum CleanWorktree {
    /// No test file differs from the base commit.
    NotNeeded,
    Made {
        /// The project's folder in it.
        cwd: PathBuf,
        /// How many test files of the work differ from those of the base commit.
        changed: Option<usize>,
    },
}

/// Runs a check in a clean worktree.
pub(in crate::hooks) async fn run_clean(
    job: &HookJob,
    clean: &CleanRunJob,
    place: &HookWorkspace,
    watch: &mut dyn ProcessObserver,
    cancel: &CancellationToken,
) -> RunResult {
    // The check's timeout begins when the worktree is ready.
    let limit = PATIENCE.max(job.hook.timeout.into());
    let maker = WorktreeMaker {
        runner: ProgramRunner {
            cwd: place.cwd.clone(),
            env: Vec::new(),
            mark: format!("{}/run-{}", place.mark, job.run),
            cancel: cancel.clone(),
            deadline: Some(Instant::now() + limit),
        },
        folder: place.session_dir.join(FOLDER),
    };
    let result = match maker.make(job, clean, place, watch).await {
        Ok(CleanWorktree::NotNeeded) => RunResult {
            end: RunEnd::Exit(0),
            changed_tests: Some(0),
            ..RunResult::not_started(String::new())
        },
        Ok(CleanWorktree::Made { cwd, changed }) => {
            let place = HookWorkspace {
                cwd,
                ..place.clone()
            };
            RunResult {
                changed_tests: changed,
                ..run_here(job, &place, watch, cancel).await
            }
        }
        Err(BuiltinError {
            end: RunEnd::Cut, ..
        }) => RunResult {
            end: RunEnd::Cut,
            ..RunResult::not_started(String::new())
        },
        Err(error) => {
            let why = format!("creel cannot make a clean worktree: {}", error.message);
            RunResult::not_started(why)
        }
    };
    maker.remove().await;
    result
}

/// Removes the worktree that a killed creel left behind. The caller must first have ended that
/// creel's processes.
pub async fn remove_left_worktree(session_dir: &Path, cwd: &Path) {
    let maker = WorktreeMaker {
        runner: runner_in(cwd),
        folder: session_dir.join(FOLDER),
    };
    maker.remove().await;
}

struct WorktreeMaker {
    runner: ProgramRunner,
    folder: PathBuf,
}

impl WorktreeMaker {
    async fn make(
        &self,
        job: &HookJob,
        clean: &CleanRunJob,
        place: &HookWorkspace,
        watch: &mut dyn ProcessObserver,
    ) -> Result<CleanWorktree, BuiltinError> {
        let root = self.line(&place.cwd, &["rev-parse", "--show-toplevel"]);
        let root = PathBuf::from(root.await?);
        let prefix = self.line(&place.cwd, &["rev-parse", "--show-prefix"]);
        let prefix = prefix.await?;
        let restored = match (clean.of, &clean.base) {
            (TestSource::Work, _) => None,
            (TestSource::Base, Some(base)) if base.bytes().all(|it| it.is_ascii_hexdigit()) => {
                let changed = self.changed_tests(&root, base).await?;
                if changed == 0 {
                    return Ok(CleanWorktree::NotNeeded);
                }
                Some((base.as_str(), changed))
            }
            (TestSource::Base, _) => {
                return Err(BuiltinError::failed(
                    "there was no commit before the session",
                ));
            }
        };
        self.remove().await;
        if self.folder.symlink_metadata().is_ok() {
            return Err(BuiltinError::failed(format!(
                "{} is not a folder of creel, or cannot be removed",
                self.folder.display()
            )));
        }
        let name = root.file_name().unwrap_or(OsStr::new("work"));
        let worktree = self.folder.join(name);
        fs::create_dir_all(&self.folder).map_err(|error| broken(&self.folder, &error))?;
        let path = worktree.to_string_lossy().into_owned();
        let add = ["worktree", "add", "--quiet", "--detach", "--no-checkout"];
        let add: Vec<&str> = add.into_iter().chain([path.as_str(), "HEAD"]).collect();
        self.git(&root, &add, Vec::new()).await?;
        self.copy_work(&root, &worktree, clean.of).await?;
        if let Some((base, _)) = restored {
            self.restore_tests(&worktree, base).await?;
        }
        self.git(&worktree, &["read-tree", "HEAD"], Vec::new())
            .await?;
        let cwd: PathBuf = worktree.join(prefix).components().collect();
        fs::create_dir_all(&cwd).map_err(|error| broken(&cwd, &error))?;
        self.copy(&place.cwd, &cwd, clean.copy.clone(), CopiedFolders::Whole)
            .await?;
        for command in &clean.setup {
            self.set_up(command, &cwd, (job, place), watch).await?;
        }
        let changed = restored.map(|(_, changed)| changed);
        Ok(CleanWorktree::Made { cwd, changed })
    }

    /// How many test files differ from those of a commit. Their bytes are compared: a filter, a
    /// flag in the index or a list of ignored names can hide a change from git.
    async fn changed_tests(&self, root: &Path, base: &str) -> Result<usize, BuiltinError> {
        let before = self.tests_of(root, base).await?;
        let now = self.hashes(root, before.keys()).await?;
        let listed = ["ls-files", "-z", "--cached", "--others"];
        let listed: Vec<&str> = listed.into_iter().chain(["--exclude-standard"]).collect();
        let mut all = self.names(root, &listed).await?;
        // The worktree lacks what git ignores. Whole folders of it have the tests of others.
        let ignored = ["ls-files", "-z", "--others", "--ignored", "--directory"];
        let ignored: Vec<&str> = ignored.into_iter().chain(["--exclude-standard"]).collect();
        all.extend(self.names(root, &ignored).await?);
        all.sort_unstable();
        all.dedup();
        let is_new = |name: &&String| {
            let is_file = || {
                let meta = root.join(name).symlink_metadata();
                meta.is_ok_and(|meta| !meta.is_dir())
            };
            belongs_to_tests(name) && !before.contains_key(*name) && is_file()
        };
        let changed = before
            .iter()
            .filter(|(name, file)| now.get(*name) != Some(*file));
        Ok(changed.count() + all.iter().filter(is_new).count())
    }

    /// The test files of a commit.
    async fn tests_of(&self, folder: &Path, base: &str) -> Result<TestFiles, BuiltinError> {
        let tree = ["ls-tree", "-r", "-z", "--full-tree", base];
        let entries = self.names(folder, &tree).await?;
        let mut files = TestFiles::new();
        for entry in &entries {
            let Some((about, name)) = entry.split_once('\t') else {
                continue;
            };
            let (mode, hash) = (about.split(' ').next(), about.rsplit(' ').next());
            if mode == Some(SUBMODULE) && belongs_to_tests(&format!("{name}/")) {
                let name = quoted(name);
                return Err(BuiltinError::failed(format!(
                    "creel does not look into the tests of the submodule {name}"
                )));
            }
            if mode != Some(SUBMODULE) && belongs_to_tests(name) {
                let hash = hash.unwrap_or_default().to_owned();
                files.insert(name.to_owned(), (mode == Some(EXECUTABLE), hash));
            }
        }
        Ok(files)
    }

    /// These files as they are, without git's filters. Those that are not there, or that git would
    /// not read as they are, are left out.
    async fn hashes(
        &self,
        folder: &Path,
        names: impl Iterator<Item = &String>,
    ) -> Result<TestFiles, BuiltinError> {
        let mut hashes = TestFiles::new();
        let mut files = Vec::new();
        for name in names.filter(|name| !is_behind_a_link(folder, Path::new(name))) {
            let path = folder.join(name);
            match path.symlink_metadata() {
                Ok(meta) if meta.is_symlink() => {
                    let target = fs::read_link(&path).map_err(|error| broken(&path, &error))?;
                    let target = target.into_os_string().into_encoded_bytes();
                    let hash = ["hash-object", "--stdin"];
                    let hash = self.git(folder, &hash, target).await?;
                    hashes.insert(name.clone(), (false, hash.answer().to_owned()));
                }
                // Git reads one name a line, and takes away quotes.
                Ok(meta) if meta.is_file() && !name.contains(['\n', '"']) => {
                    let is_executable = meta.permissions().mode() & 0o100 != 0;
                    files.push((name.clone(), is_executable));
                }
                Ok(_) | Err(_) => {}
            }
        }
        let list: String = files.iter().map(|(name, _)| format!("{name}\n")).collect();
        let hash = ["hash-object", "--no-filters", "--stdin-paths"];
        let ran = self.git(folder, &hash, list.into_bytes()).await?;
        let lines: Vec<&str> = ran.stdout.lines().collect();
        if lines.len() != files.len() {
            return Err(BuiltinError::failed("git did not read all test files"));
        }
        let pairs = files.into_iter().zip(lines);
        hashes.extend(
            pairs.map(|((name, is_executable), hash)| (name, (is_executable, hash.to_owned()))),
        );
        Ok(hashes)
    }

    /// Copies the work: tracked files as they are, and new ones that git does not ignore.
    async fn copy_work(
        &self,
        root: &Path,
        worktree: &Path,
        tests: TestSource,
    ) -> Result<(), BuiltinError> {
        let mut places = vec![PathBuf::new()];
        while let Some(place) = places.pop() {
            let from = root.join(&place);
            let listed = ["ls-files", "-z", "--cached", "--others"];
            let listed: Vec<&str> = listed.into_iter().chain(["--exclude-standard"]).collect();
            let mut names = self.names(&from, &listed).await?;
            names.sort_unstable();
            names.dedup();
            // The files of a submodule are copied wherever it is; a new repository is no work.
            let is_inside = place != Path::new("");
            names.retain(|name| {
                let is_submodule = || from.join(name).join(".git").exists();
                let is_left_out = tests == TestSource::Base
                    && !is_inside
                    && belongs_to_tests(name)
                    && !is_submodule();
                let is_ours = name.split('/').any(|folder| folder == OURS);
                !name.ends_with('/') && !is_ours && !is_left_out
            });
            let folders = self
                .copy(&from, &worktree.join(&place), names, CopiedFolders::Listed)
                .await?;
            let submodules = folders.into_iter().map(|name| place.join(name));
            places.extend(submodules.filter(|name| root.join(name).join(".git").exists()));
        }
        Ok(())
    }

    /// Checks out the test files of a commit.
    async fn restore_tests(&self, worktree: &Path, base: &str) -> Result<(), BuiltinError> {
        self.git(worktree, &["read-tree", base], Vec::new()).await?;
        let tests = self.tests_of(worktree, base).await?;
        let list: String = tests.keys().map(|name| format!("{name}\0")).collect();
        let check_out = ["checkout-index", "--quiet", "--force", "-z", "--stdin"];
        self.git(worktree, &check_out, list.into_bytes()).await?;
        let made = self.hashes(worktree, tests.keys()).await?;
        // The agent can write filters into the repository's settings.
        let changed = tests
            .iter()
            .find(|(name, file)| made.get(*name) != Some(*file));
        match changed {
            None => Ok(()),
            Some((name, _)) => Err(BuiltinError::failed(format!(
                "a filter or a setting of git changes {} when it is checked out",
                quoted(name)
            ))),
        }
    }

    /// Copies files and links, and returns the folders among them, unless they are copied whole.
    async fn copy(
        &self,
        from: &Path,
        to: &Path,
        names: Vec<String>,
        folders: CopiedFolders,
    ) -> Result<Vec<String>, BuiltinError> {
        let cancel = self.runner.cancel.clone();
        let (from, to) = (from.to_owned(), to.to_owned());
        let copying = move || copy_all(&from, &to, &names, folders, &cancel);
        match tokio::task::spawn_blocking(copying).await {
            Ok(Ok(folders)) => Ok(folders),
            Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => Err(BuiltinError {
                end: RunEnd::Cut,
                ..BuiltinError::failed("creel was asked to stop")
            }),
            Ok(Err(error)) => Err(BuiltinError::failed(error.to_string())),
            Err(error) => Err(BuiltinError::failed(format!("a bug in creel: {error}"))),
        }
    }

    async fn set_up(
        &self,
        command: &str,
        cwd: &Path,
        (job, place): (&HookJob, &HookWorkspace),
        watch: &mut dyn ProcessObserver,
    ) -> Result<(), BuiltinError> {
        let line = template::expand(command).unwrap_or_else(|_| command.to_owned());
        let runner = ProgramRunner {
            cwd: cwd.to_owned(),
            ..self.runner.clone()
        };
        let session = ("CREEL_SESSION".to_owned(), job.facts.session.clone());
        let env = project_variable(&place.session_dir).into_iter();
        let env = env.chain([session]).collect();
        let mut quiet = UnshownOutput(watch);
        let ran = runner.run_line(&line, env, &mut quiet).await?;
        if ran.ok() {
            return Ok(());
        }
        let (command, why) = (quoted(command), ran.complaint());
        let message = format!("the setup command {command} failed: {why}");
        Err(BuiltinError::failed(message))
    }

    /// Removes the worktree, if there is one.
    async fn remove(&self) {
        // Behind a link, it is not creel's folder.
        let is_ours = self.folder.symlink_metadata().is_ok_and(|it| it.is_dir());
        let Some(entries) = is_ours.then(|| fs::read_dir(&self.folder).ok()).flatten() else {
            return;
        };
        let worktrees: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        let tidy = Self {
            runner: self.runner.for_tidying(),
            folder: self.folder.clone(),
        };
        for worktree in worktrees {
            let path = worktree.to_string_lossy().into_owned();
            let removed = tokio::task::spawn_blocking(move || remove_all(&worktree)).await;
            if let Ok(Err(error)) = removed {
                return tracing::warn!("cannot remove {path}: {error}");
            }
            // Git forgets a worktree whose folder is gone. Elsewhere it does not know it.
            let forget = ["worktree", "remove", "--force", &path];
            if let Err(error) = tidy.git(&tidy.runner.cwd, &forget, Vec::new()).await {
                tracing::debug!("git does not forget {path}: {}", error.message);
            }
        }
        if let Err(error) = fs::remove_dir(&self.folder) {
            tracing::warn!("cannot remove {}: {error}", self.folder.display());
        }
    }

    async fn git(
        &self,
        folder: &Path,
        args: &[&str],
        stdin: Vec<u8>,
    ) -> Result<ProgramResult, BuiltinError> {
        let all: Vec<&str> = PLAIN.iter().chain(&ALONE).chain(args).copied().collect();
        let call = ProgramCall {
            unshown: PLAIN.len() + ALONE.len(),
            stdin,
            ..ProgramCall::new("git", &all)
        };
        let runner = ProgramRunner {
            cwd: folder.to_owned(),
            ..self.runner.clone()
        };
        let ran = runner.run(&call, None).await?;
        if ran.ok() {
            Ok(ran)
        } else {
            Err(failed(args, &ran))
        }
    }

    async fn line(&self, folder: &Path, args: &[&str]) -> Result<String, BuiltinError> {
        let ran = self.git(folder, args, Vec::new()).await?;
        Ok(ran.answer().to_owned())
    }

    /// The entries of a list that ends each with NUL.
    async fn names(&self, folder: &Path, args: &[&str]) -> Result<Vec<String>, BuiltinError> {
        let ran = self.git(folder, args, Vec::new()).await?;
        if ran.stdout.len() >= ANSWER {
            return Err(BuiltinError::failed("there are too many files"));
        }
        if let Some(name) = ran
            .stdout
            .split('\0')
            .find(|name| name.contains('\u{fffd}'))
        {
            let name = quoted(name);
            return Err(BuiltinError::failed(format!("{name} is not a UTF-8 name")));
        }
        let names = ran.stdout.split('\0').filter(|name| !name.is_empty());
        Ok(names.map(str::to_owned).collect())
    }
}

/// What happens to folders that are to be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopiedFolders {
    /// They are copied with everything in them.
    Whole,
    /// Their names are returned.
    Listed,
}

fn broken(path: &Path, error: &io::Error) -> BuiltinError {
    BuiltinError::failed(format!("{}: {error}", path.display()))
}

/// Copies files first and links last, so that nothing is written through a link.
fn copy_all(
    from: &Path,
    to: &Path,
    names: &[String],
    folders: CopiedFolders,
    cancel: &CancellationToken,
) -> io::Result<Vec<String>> {
    let (mut links, mut listed) = (Vec::new(), Vec::new());
    let mut left: Vec<PathBuf> = names.iter().rev().map(PathBuf::from).collect();
    while let Some(name) = left.pop() {
        if cancel.is_cancelled() {
            return Err(ErrorKind::Interrupted.into());
        }
        let source = from.join(&name);
        // A file behind a link or a file is deleted, as git sees it.
        let Some(meta) = source
            .symlink_metadata()
            .ok()
            .filter(|_| !is_behind_a_link(from, &name))
        else {
            continue;
        };
        if meta.is_symlink() {
            links.push(name);
        } else if meta.is_dir() && folders == CopiedFolders::Listed {
            listed.push(name.to_string_lossy().into_owned());
        } else if meta.is_dir() {
            make_folder(to, &name)?;
            for entry in fs::read_dir(&source)? {
                left.push(name.join(entry?.file_name()));
            }
        } else if meta.is_file() && has_room(to, &name)? {
            fs::copy(&source, to.join(&name)).map_err(|error| named(&name, &error))?;
        }
    }
    for name in links {
        if has_room(to, &name)? {
            let target = fs::read_link(from.join(&name))?;
            symlink(target, to.join(&name)).map_err(|error| named(&name, &error))?;
        }
    }
    Ok(listed)
}

/// Makes the folder of a file. Returns false if the file exists.
fn has_room(to: &Path, name: &Path) -> io::Result<bool> {
    if let Some(folder) = name.parent() {
        make_folder(to, folder)?;
    }
    Ok(to.join(name).symlink_metadata().is_err())
}

/// Makes a folder and those above it, none of them behind a link.
fn make_folder(to: &Path, name: &Path) -> io::Result<()> {
    let mut folder = to.to_owned();
    fs::create_dir_all(&folder)?;
    for part in name.components() {
        if !matches!(part, Component::Normal(_)) {
            return Err(named(name, &ErrorKind::InvalidInput.into()));
        }
        folder.push(part);
        match folder.symlink_metadata() {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(named(name, &ErrorKind::NotADirectory.into())),
            Err(_) => fs::create_dir(&folder).map_err(|error| named(name, &error))?,
        }
    }
    Ok(())
}

fn is_behind_a_link(from: &Path, name: &Path) -> bool {
    let above = name.ancestors().skip(1);
    above
        .filter(|above| *above != Path::new(""))
        .any(|above| from.join(above).is_symlink())
}

fn named(name: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", name.display()))
}

/// Removes a folder, also if folders in it are not writable.
fn remove_all(folder: &Path) -> io::Result<()> {
    if fs::remove_dir_all(folder).is_ok() || folder.symlink_metadata().is_err() {
        return Ok(());
    }
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&folder)?.flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            left.extend(is_folder.then(|| entry.path()));
        }
    }
    fs::remove_dir_all(folder)
}

/// Records the processes of a command, and shows none of its output.
struct UnshownOutput<'a>(&'a mut dyn ProcessObserver);

impl ProcessObserver for UnshownOutput<'_> {
    fn started(&mut self, group: ProcessGroup) {
        self.0.started(group);
    }

    fn output(&mut self, _stream: OutputStream, _bytes: &[u8]) {}
}
