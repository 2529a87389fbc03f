//! Files that an agent must not change: creel's own folder, the config in use, git's config and
//! hooks, and the paths under `protect:`.
//!
//! Owns which files these are, whether a path leads to one of them, and their fingerprints before
//! and after a turn. Does not decide the consequences: see [`crate::engine::protect`].
//!
//! # Invariants
//! - A path is judged by the file that it leads to: links, `..`, other spellings and hard links
//!   make no difference.
//! - Checking the watched files costs a few dozen system calls, and reads a file again only if its
//!   metadata changed.
//! - Files that creel itself, other sessions of the project or other creel commands write are not
//!   watched.

pub(crate) mod git;
mod protected;

use std::{
    collections::BTreeMap,
    fs::{self, Metadata},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::process::path_guard::protected::FileFingerprint;
pub use crate::process::path_guard::protected::FileFingerprints;
use git::GitConfig;
use git::GitFolders;
pub use protected::ProtectedScan;

const CREEL: &str = ".creel";
/// Git's folder in a project, or the file that names it.
const GIT: &str = ".git";
/// Larger watched files are compared by metadata.
const COMPARED: u64 = 1 << 20;
/// The maximum number of git hooks to watch.
const HOOKS_MAX: usize = 200;
/// The maximum number of git's configs, with those that they include.
const CONFIGS_MAX: usize = 20;
/// The maximum number of the user's own files in `.creel` to watch.
const CREELS_MAX: usize = 1_000;
/// What creel itself writes in `.creel`.
const WRITTEN_BY_CREEL: [&str; 5] = ["sessions", "queue", "worktrees", "pace", "pace.new"];

#[derive(Debug, Default)]
pub struct PathGuard {
    root: PathBuf,
    session_dir: PathBuf,
    /// Without links.
    config: Vec<PathBuf>,
    git: Option<GitFolders>,
    protect: Vec<String>,
    /// The same patterns for what is below them: a folder stands for all that is in it.
    below: Vec<String>,
    /// The mark of the git commands that look for it.
    mark: String,
}

/// Why creel does not write a file for an agent. The agent sees the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuardRefusal {
    #[error("it is in creel's own folder `.creel`, which creel never changes for an agent")]
    Creel,
    #[error("it is the config of this session, which creel never changes for an agent")]
    Config,
    #[error(
        "it is in git's own folder `.git`, where creel never writes for an agent; use git commands"
    )]
    Git,
    /// The pattern that matches.
    #[error("the user's config protects it (`protect: {0}`)")]
    Protected(String),
}

/// Device and inode.
type FileId = (u64, u64);

impl PathGuard {
    pub fn new(root: &Path, session_dir: &Path, config: &[PathBuf], protect: &[String]) -> Self {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let root = real(root);
        Self {
            git: GitFolders::around(&root),
            session_dir: real(session_dir),
            config: config.iter().map(|path| real(path)).collect(),
            protect: protect.to_vec(),
            below: protect
                .iter()
                .map(|pattern| format!("{pattern}/**"))
                .collect(),
            mark: String::new(),
            root,
        }
    }

    /// Its git commands end with the session of this mark.
    #[must_use]
    pub fn of_session(self, mark: String) -> Self {
        Self { mark, ..self }
    }

    pub fn protect(&self) -> &[String] {
        &self.protect
    }

    /// Why creel must not write this file. `real` is the path with its links resolved, as far as it
    /// exists.
    pub fn refuses(&self, real: &Path) -> Option<GuardRefusal> {
        let inside = real.strip_prefix(&self.root).unwrap_or(real);
        let has = |name: &str| {
            inside
                .iter()
                .any(|part| part.to_string_lossy().eq_ignore_ascii_case(name))
        };
        let above: Vec<FileId> = real.ancestors().skip(1).filter_map(id_of).collect();
        let is_in = |folder: &Path| id_of(folder).is_some_and(|id| above.contains(&id));
        let file = fs::metadata(real).ok().map(|meta| id(&meta));
        let is_file = |path: &Path| file.is_some() && id_of(path) == file;
        let same_name = |path: &&PathBuf| {
            path.to_string_lossy()
                .eq_ignore_ascii_case(&real.to_string_lossy())
        };
        if has(CREEL)
            || is_in(&self.root.join(CREEL))
            || is_in(&self.session_dir)
            || is_file(&self.journal())
        {
            return Some(GuardRefusal::Creel);
        }
        if self.config.iter().any(|path| is_file(path))
            || self.config.iter().any(|path| same_name(&path))
        {
            return Some(GuardRefusal::Config);
        }
        let in_git = |git: &GitFolders| {
            git.folders().any(is_in)
                || git
                    .watched()
                    .iter()
                    .chain(&git.configs())
                    .any(|path| is_file(path))
        };
        if has(GIT) || self.git.as_ref().is_some_and(in_git) {
            return Some(GuardRefusal::Git);
        }
        self.protects(&inside.to_string_lossy())
            .map(GuardRefusal::Protected)
    }

    /// The pattern that protects a path of the project.
    fn protects(&self, inside: &str) -> Option<String> {
        let matches = |pattern: &String| fast_glob::glob_match(pattern.as_str(), inside);
        let found = self
            .protect
            .iter()
            .zip(&self.below)
            .find(|(pattern, below)| matches(pattern) || matches(below));
        found.map(|(pattern, _)| pattern.clone())
    }

    fn journal(&self) -> PathBuf {
        self.session_dir.join("journal.jsonl")
    }

    /// Where the session's folder stores the baseline of a turn.
    pub fn baseline_file(&self) -> PathBuf {
        self.session_dir.join("baseline.json")
    }

    /// The watched files now. A file whose metadata did not change is not read again.
    pub fn look(&self, cache: &mut FingerprintCache) -> FileFingerprints {
        // An agent can create a repository.
        let git = GitFolders::around(&self.root);
        let of_git = git.as_ref().map(GitFolders::watched).unwrap_or_default();
        let mut seen = FingerprintCache::default();
        let mut configs = git
            .as_ref()
            .map(|git| git.configs().to_vec())
            .unwrap_or_default();
        while let Some(path) = configs.pop().filter(|_| seen.configs.len() < CONFIGS_MAX) {
            let Ok(meta) = fs::metadata(&path) else {
                continue;
            };
            if seen.configs.contains_key(&path) {
                continue;
            }
            let stamp = WatchStamp::of(&meta);
            let known = cache
                .configs
                .remove(&path)
                .filter(|(known, _)| *known == stamp);
            let (_, config) = known.unwrap_or_else(|| (stamp, self.config_of(&path, &meta)));
            configs.extend(config.included.iter().cloned());
            seen.configs.insert(path, (stamp, config));
        }
        let hooks = seen
            .configs
            .values()
            .filter_map(|(_, config)| config.hooks.clone());
        let hooks: Vec<PathBuf> = hooks
            .flat_map(|folder| git::hooks_in(self.root.join(folder)))
            .collect();
        for path in self
            .config
            .iter()
            .cloned()
            .chain(of_git)
            .chain(hooks)
            .chain(self.creels_files())
        {
            // Follow links: the target is part of the file's content.
            let Ok(meta) = fs::metadata(&path) else {
                continue;
            };
            let stamp = WatchStamp::of(&meta);
            // Of the mode, only whether the file is executable counts.
            let print = cache.known(&path, stamp).unwrap_or_else(|| {
                FileFingerprint::new(
                    &content_of(&path, &meta),
                    if meta.mode() & 0o111 == 0 { 0 } else { 0o111 },
                )
            });
            seen.files.insert(path, (stamp, print));
        }
        *cache = seen;
        let files = cache
            .files
            .iter()
            .map(|(path, (_, print))| (self.name(path), print.clone()));
        let mut prints = FileFingerprints(files.collect());
        for (path, (_, config)) in &cache.configs {
            config
                .entries
                .iter()
                .for_each(|entry| prints.add_entry(&self.name(path), entry));
        }
        prints
    }

    /// What git reads in a config. If git cannot read it, its bytes.
    fn config_of(&self, path: &Path, meta: &Metadata) -> GitConfig {
        // Git would wait for a pipe.
        let read = (meta.is_file() && meta.len() <= COMPARED)
            .then(|| GitConfig::read(path, &self.mark))
            .flatten();
        read.unwrap_or_else(|| GitConfig::of_bytes(content_of(path, meta)))
    }

    /// The files of `.creel`, without those that creel itself, other sessions and other creel
    /// commands write.
    fn creels_files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.root.join(CREEL)];
        while let Some(folder) = folders.pop() {
            let is_top = folder == self.root.join(CREEL);
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let is_written = is_top
                    && WRITTEN_BY_CREEL
                        .iter()
                        .any(|name| entry.file_name() == *name);
                if is_written || files.len() >= CREELS_MAX {
                    continue;
                }
                let is_folder = entry.file_type().is_ok_and(|sort| sort.is_dir());
                if is_folder {
                    folders.push(entry.path());
                } else {
                    files.push(entry.path());
                }
            }
        }
        files
    }

    /// The watched files of git. The config is excluded because creel asks the user to trust a
    /// changed config.
    pub fn without_config(&self, watched: &FileFingerprints) -> FileFingerprints {
        let config: Vec<String> = self.config.iter().map(|path| self.name(path)).collect();
        watched.only(|name| !config.iter().any(|config| config == name))
    }

    /// The name for people: relative to the project, if it is there.
    pub fn name(&self, path: &Path) -> String {
        path.strip_prefix(&self.root)
            .unwrap_or(path)
            .display()
            .to_string()
    }
}

/// The last result, to avoid reading unchanged files.
#[derive(Debug, Default)]
pub struct FingerprintCache {
    files: BTreeMap<PathBuf, (WatchStamp, FileFingerprint)>,
    configs: BTreeMap<PathBuf, (WatchStamp, GitConfig)>,
}

impl FingerprintCache {
    fn known(&self, path: &Path, stamp: WatchStamp) -> Option<FileFingerprint> {
        self.files
            .get(path)
            .filter(|(seen, _)| *seen == stamp)
            .map(|(_, print)| print.clone())
    }
}

/// Metadata that changes with every change of a file, even if a program resets its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WatchStamp {
    id: FileId,
    size: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl WatchStamp {
    fn of(meta: &Metadata) -> Self {
        Self {
            id: id(meta),
            size: meta.len(),
            mode: meta.mode(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// What stands for a file that is not read. Sessions keep digests of these bytes, so they must
    /// never change: an upgrade in the middle of a turn would look like a change to the file.
    fn to_bytes(self) -> Vec<u8> {
        let Self {
            id: (device, inode),
            size,
            mode,
            modified: (mtime, mtime_ns),
            changed: (ctime, ctime_ns),
        } = self;
        format!(
            "WatchStamp {{ id: ({device}, {inode}), size: {size}, mode: {mode}, modified: ({mtime}, {mtime_ns}), \
             changed: ({ctime}, {ctime_ns}) }}"
        )
        .into_bytes()
    }
}

/// The content of a small file. For any other file, its metadata.
fn content_of(path: &Path, meta: &Metadata) -> Vec<u8> {
    let whole = meta.is_file() && meta.len() <= COMPARED;
    let read = || fs::read(path).ok();
    let content = whole.then(read).flatten();
    content.unwrap_or_else(|| WatchStamp::of(meta).to_bytes())
}

fn id(meta: &Metadata) -> FileId {
    (meta.dev(), meta.ino())
}

fn id_of(path: &Path) -> Option<FileId> {
    fs::metadata(path).ok().map(|meta| id(&meta))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_bytes_that_stand_for_a_large_file_never_change() {
        let stamp = WatchStamp {
            id: (1, 2),
            size: 3,
            mode: 4,
            modified: (5, -6),
            changed: (7, 8),
        };
        let kept_by_earlier_versions =
            "WatchStamp { id: (1, 2), size: 3, mode: 4, modified: (5, -6), changed: (7, 8) }";
        assert_eq!(
            String::from_utf8_lossy(&stamp.to_bytes()),
            kept_by_earlier_versions
        );
    }

    struct GuardedProject {
        _whole: tempfile::TempDir,
        root: PathBuf,
        guard: PathGuard,
    }

    fn guarded(prepare: impl Fn(&Path)) -> GuardedProject {
        let whole = tempfile::tempdir().expect("a folder");
        let root = whole.path().canonicalize().expect("a path").join("project");
        let session = root.join(".creel/sessions/s");
        fs::create_dir_all(&session).expect("a folder");
        fs::write(session.join("journal.jsonl"), "{}\n").expect("a file");
        fs::write(root.join("creel.yaml"), "version: 1\n").expect("a file");
        prepare(&root);
        let protect = ["tests/**".to_owned()];
        let guard = PathGuard::new(&root, &session, &[root.join("creel.yaml")], &protect);
        GuardedProject {
            _whole: whole,
            root,
            guard,
        }
    }

    fn repository(root: &Path) {
        fs::create_dir_all(root.join(".git/hooks")).expect("a folder");
        fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").expect("a file");
        fs::write(root.join(".git/config"), "[core]\n\tbare = false\n").expect("a file");
    }

    #[test]
    fn a_guarded_file_is_refused_by_every_name_that_it_has() {
        let GuardedProject { root, guard, .. } = &guarded(repository);
        let refused = |path: &str| guard.refuses(&root.join(path));
        for path in [
            ".creel/x",
            ".Creel/new",
            ".creel/sessions/s/journal.jsonl",
            "sub/.creel/config.yaml",
        ] {
            assert_eq!(refused(path), Some(GuardRefusal::Creel), "{path}");
        }
        for path in [
            ".git/config",
            ".git/hooks/pre-commit",
            ".GIT/hooks/x",
            ".git",
            "vendor/lib/.git/config",
        ] {
            assert_eq!(refused(path), Some(GuardRefusal::Git), "{path}");
        }
        assert_eq!(refused("creel.yaml"), Some(GuardRefusal::Config));
        assert_eq!(refused("Creel.yaml"), Some(GuardRefusal::Config));
        assert_eq!(
            refused("tests/a/b.rs"),
            Some(GuardRefusal::Protected("tests/**".into()))
        );
        for path in [
            "src/main.rs",
            "creel.yaml.bak",
            ".github/workflows/x.yml",
            ".gitignore",
            "src/tests.rs",
        ] {
            assert_eq!(refused(path), None, "{path}");
        }
        for (from, link) in [
            ("creel.yaml", "c"),
            (".git/config", "g"),
            (".creel/sessions/s/journal.jsonl", "j"),
        ] {
            fs::hard_link(root.join(from), root.join(link)).expect("a link");
            assert!(refused(link).is_some(), "a hard link to {from}");
        }
    }

    #[test]
    fn a_worktree_guards_the_folder_that_its_git_file_names() {
        let GuardedProject { root, guard, .. } = &guarded(|root| {
            let main = root.parent().expect("a parent").join("main/.git");
            fs::create_dir_all(main.join("worktrees/w")).expect("a folder");
            fs::create_dir_all(main.join("hooks")).expect("a folder");
            fs::write(main.join("HEAD"), "ref: refs/heads/main\n").expect("a file");
            fs::write(main.join("config"), "[core]\n").expect("a file");
            fs::write(main.join("worktrees/w/commondir"), "../..\n").expect("a file");
            fs::write(
                root.join(".git"),
                format!("gitdir: {}\n", main.join("worktrees/w").display()),
            )
            .expect("a file");
        });
        let main = root.parent().expect("a parent").join("main/.git");
        assert_eq!(
            guard.refuses(&main.join("hooks/pre-commit")),
            Some(GuardRefusal::Git)
        );
        let mut cache = FingerprintCache::default();
        let before = guard.look(&mut cache);
        fs::write(main.join("hooks/pre-commit"), "#!/bin/sh\n").expect("a file");
        fs::write(main.join("config"), "[core]\n\thooksPath = /tmp\n").expect("a file");
        let changed = guard.look(&mut cache).changed_since(&before);
        assert!(
            changed
                .iter()
                .any(|name| name.ends_with("hooks/pre-commit")),
            "{changed:?}"
        );
        assert!(
            changed.iter().any(|name| name.ends_with(".git/config")),
            "{changed:?}"
        );
    }

    #[test]
    fn only_changes_of_watched_files_are_reported() {
        let GuardedProject { root, guard, .. } = &guarded(repository);
        let mut cache = FingerprintCache::default();
        let before = guard.look(&mut cache);
        fs::create_dir_all(root.join(".creel/sessions/other")).expect("a folder");
        fs::write(root.join(".creel/sessions/other/journal.jsonl"), "{}\n").expect("a file");
        // While a demo plays, its pace is replaced as a whole.
        fs::write(root.join(".creel/pace.new"), "1 play\n").expect("a file");
        fs::write(root.join(".git/index"), "x").expect("a file");
        fs::write(root.join("src.rs"), "x").expect("a file");
        // The same content again, as `git checkout` can write it.
        fs::write(root.join("creel.yaml"), "version: 1\n").expect("a file");
        let upstream = "[core]\n\tbare = false\n[branch \"work\"]\n\tremote = origin\n\tmerge = refs/heads/work\n";
        fs::write(root.join(".git/config"), upstream).expect("a file");
        assert_eq!(
            guard.look(&mut cache).changed_since(&before),
            Vec::<String>::new()
        );
        fs::write(root.join("creel.yaml"), "version: 2\n").expect("a file");
        fs::write(root.join(".git/hooks/pre-push"), "exit 0\n").expect("a file");
        let pushes_elsewhere =
            "[core]\n\tbare = false\n[branch \"work\"]\n\tremote = /tmp/elsewhere\n";
        fs::write(root.join(".git/config"), pushes_elsewhere).expect("a file");
        let changed = guard.look(&mut cache).changed_since(&before);
        assert_eq!(
            changed,
            [".git/config", ".git/hooks/pre-push", "creel.yaml"]
        );
        fs::remove_file(root.join("creel.yaml")).expect("removed");
        symlink("src.rs", root.join("creel.yaml")).expect("a link");
        assert!(
            guard
                .look(&mut cache)
                .changed_since(&before)
                .contains(&"creel.yaml".to_owned())
        );
    }
}
