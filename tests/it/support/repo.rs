//! A clone with a bare remote beside it, and a `gh` that records its calls.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use creel::{
    engine::{
        effect::{HookFacts, HookJob, SubmissionFacts},
        hooks::{
            point::HookPoint,
            verdict::{BuiltinOutcome, BuiltinStatus, RunEnd, RunResult},
        },
        ids::RunId,
        policy::{HookAction, HookSpec},
    },
    hooks::{
        HookWorkspace,
        builtin::{self, BuiltinJob},
    },
    process::run::ProcessObserver,
};
use tokio_util::sync::CancellationToken;

use super::{Memory, folder, fresh_mark};

/// The stand-in for `gh`: it records its arguments and the file that it gets, and answers as
/// configured.
const GH: &str = r#"#!/bin/sh
calls=$(dirname "$0")/../gh
n=$(ls "$calls" | grep -c '^call-')
printf '%s\0' "$@" > "$calls/call-$n"
for arg; do
    case $arg in --body-file=*) cp "${arg#--body-file=}" "$calls/body";; esac
done
if [ -f "$calls/$1-$2.sh" ]; then . "$calls/$1-$2.sh"; fi
"#;

/// A clone on the branch `work`, with one commit on `main` that the remote has.
pub struct Repo {
    folder: Home,
    /// The work tree.
    pub work: PathBuf,
    /// The mark of the session's processes.
    pub mark: String,
    path: String,
}

/// Which process removes the folder.
enum Home {
    Ours(tempfile::TempDir),
    Anothers(PathBuf),
}

impl Home {
    fn path(&self) -> &Path {
        match self {
            Self::Ours(folder) => folder.path(),
            Self::Anothers(path) => path,
        }
    }
}

/// The state that must not be lost.
#[derive(Debug)]
pub struct Before {
    head: String,
    branch: String,
    commits: BTreeSet<String>,
}

impl Repo {
    /// With a remote, and without `gh`.
    pub fn new() -> Self {
        let repo = Self::without_remote();
        let remote = repo.remote();
        repo.git_in(
            repo.folder.path(),
            &[
                "init",
                "--quiet",
                "--bare",
                "--initial-branch=main",
                &shown(&remote),
            ],
        );
        repo.git(&["remote", "add", "origin", &shown(&remote)]);
        repo.git(&["push", "--quiet", "origin", "main"]);
        repo.git(&["fetch", "--quiet", "origin"]);
        repo
    }

    pub fn without_remote() -> Self {
        let folder = Home::Ours(folder());
        for name in ["work", "bin", "gh"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let repo = Self::at_home(folder, fresh_mark());
        let config =
            "[user]\n name = Test\n email = test@example.com\n[commit]\n gpgSign = false\n";
        fs::write(repo.at("gitconfig"), config).expect("a config");
        repo.git(&["init", "--quiet", "--initial-branch=main"]);
        repo.commit("a.txt", "one\n", "first");
        repo.git(&["switch", "--quiet", "-c", "work"]);
        repo
    }

    /// One that another process has created, and removes.
    pub fn that_is_at(folder: &Path, mark: String) -> Self {
        Self::at_home(Home::Anothers(folder.to_owned()), mark)
    }

    fn at_home(folder: Home, mark: String) -> Self {
        let work = folder.path().join("work");
        let system = std::env::var("PATH").expect("a PATH");
        let path = format!("{}:{system}", folder.path().join("bin").display());
        Self {
            folder,
            work,
            mark,
            path,
        }
    }

    /// With a `gh` that knows no pull request.
    pub fn with_gh() -> Self {
        let repo = Self::new();
        repo.program("gh", GH);
        repo.gh_answers("pr-list", "echo '[]'");
        repo.gh_answers("pr-create", "echo https://forge.example/pull/7");
        repo
    }

    /// From now on only git is on the `PATH`.
    pub fn bare_path(&mut self) {
        let git = Command::new("sh")
            .args(["-c", "command -v git"])
            .output()
            .expect("a shell")
            .stdout;
        symlink(String::from_utf8_lossy(&git).trim(), self.at("bin/git")).expect("a link");
        self.path = shown(&self.at("bin"));
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn remote(&self) -> PathBuf {
        self.at("remote.git")
    }

    /// Puts a program on the `PATH`.
    pub fn program(&self, name: &str, text: &str) {
        executable(&self.at("bin").join(name), text);
    }

    /// What `gh` does when it is called with these two words; `$@` are its arguments.
    pub fn gh_answers(&self, words: &str, script: &str) {
        fs::write(self.at("gh").join(format!("{words}.sh")), script).expect("a script");
    }

    pub fn gh_calls(&self) -> Vec<Vec<String>> {
        let call = |n: usize| fs::read(self.at("gh").join(format!("call-{n}"))).ok();
        let words = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).expect("text");
            text.strip_suffix('\0')
                .unwrap_or(&text)
                .split('\0')
                .map(str::to_owned)
                .collect()
        };
        (0..).map_while(call).map(words).collect()
    }

    /// The calls that begin with these two words.
    pub fn gh_called(&self, words: [&str; 2]) -> Vec<Vec<String>> {
        self.gh_calls()
            .into_iter()
            .filter(|call| call.iter().take(2).eq(words))
            .collect()
    }

    /// The content of the last body file.
    pub fn gh_body(&self) -> String {
        fs::read_to_string(self.at("gh/body")).expect("a body")
    }

    pub fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.work, args)
    }

    pub fn git_in(&self, folder: &Path, args: &[&str]) -> String {
        let (ok, text) = self.try_git(folder, args);
        assert!(ok, "git {args:?}: {text}");
        text
    }

    pub fn try_git(&self, folder: &Path, args: &[&str]) -> (bool, String) {
        let out = Command::new("git")
            .args(args)
            .current_dir(folder)
            .envs(self.env())
            .output()
            .expect("git runs");
        let text = if out.status.success() {
            &out.stdout
        } else {
            &out.stderr
        };
        (
            out.status.success(),
            String::from_utf8_lossy(text).trim_end().to_owned(),
        )
    }

    pub fn commit(&self, file: &str, text: &str, message: &str) -> String {
        self.commit_in(&self.work, file, text, message)
    }

    pub fn commit_in(&self, folder: &Path, file: &str, text: &str, message: &str) -> String {
        fs::write(folder.join(file), text).expect("a file");
        self.git_in(folder, &["add", "--", file]);
        self.git_in(folder, &["commit", "--quiet", "-m", message]);
        self.git_in(folder, &["rev-parse", "HEAD"])
    }

    /// Commits to a branch of the remote from another clone.
    pub fn elsewhere(&self, branch: &str, file: &str, text: &str) -> String {
        let other = tempfile::tempdir_in(self.folder.path()).expect("a folder");
        self.git_in(
            other.path(),
            &[
                "clone",
                "--quiet",
                "--branch",
                branch,
                &shown(&self.remote()),
                "clone",
            ],
        );
        let clone = other.path().join("clone");
        let commit = self.commit_in(&clone, file, text, "from elsewhere");
        self.git_in(&clone, &["push", "--quiet", "origin", branch]);
        commit
    }

    /// The commit of a branch on the remote.
    pub fn on_remote(&self, branch: &str) -> Option<String> {
        let (ok, text) = self.try_git(
            &self.remote(),
            &["rev-parse", "--verify", &format!("refs/heads/{branch}")],
        );
        ok.then_some(text)
    }

    /// The commit of a branch here.
    pub fn here(&self, branch: &str) -> String {
        self.git(&["rev-parse", &format!("refs/heads/{branch}")])
    }

    pub fn before(&self) -> Before {
        let commits = self
            .git(&["rev-list", "--all"])
            .lines()
            .map(str::to_owned)
            .collect();
        Before {
            head: self.git(&["rev-parse", "HEAD"]),
            branch: self.git(&["symbolic-ref", "HEAD"]),
            commits,
        }
    }

    /// Asserts that nothing is in progress, no commit is lost, and the branch has not moved.
    pub fn is_as(&self, before: &Before) {
        self.lost_nothing_since(before);
        assert_eq!(
            self.git(&["rev-parse", "HEAD"]),
            before.head,
            "the branch has moved"
        );
    }

    /// Asserts that nothing is in progress and no commit is lost.
    pub fn lost_nothing_since(&self, before: &Before) {
        assert_eq!(self.git(&["symbolic-ref", "HEAD"]), before.branch);
        for state in [
            "rebase-merge",
            "rebase-apply",
            "MERGE_HEAD",
            "index.lock",
            "HEAD.lock",
            "creel-rebase.json",
        ] {
            assert!(
                !self.work.join(".git").join(state).exists(),
                "{state} is left"
            );
        }
        let all = self.git(&["rev-list", "--all", "--reflog"]);
        let all: BTreeSet<&str> = all.lines().collect();
        for commit in &before.commits {
            assert!(all.contains(commit.as_str()), "{commit} is lost");
        }
        assert_eq!(self.git(&["fsck", "--no-progress", "--no-dangling"]), "");
    }

    /// Asserts that the work tree has no changes.
    pub fn is_clean(&self) {
        assert_eq!(self.git(&["status", "--porcelain"]), "");
    }

    /// Asserts that no tracked file has changes. A killed merge driver leaves untracked files.
    pub fn is_unchanged(&self) {
        assert_eq!(
            self.git(&["status", "--porcelain", "--untracked-files=no"]),
            ""
        );
    }

    pub async fn run(&self, name: &str) -> RunResult {
        self.run_with(name, SubmissionFacts::default()).await
    }

    pub async fn run_with(&self, name: &str, submission: SubmissionFacts) -> RunResult {
        let job = job(name, submission);
        self.run_job(&job, &mut Memory::default(), &CancellationToken::new())
            .await
    }

    pub async fn run_job(
        &self,
        job: &HookJob,
        watch: &mut dyn ProcessObserver,
        cancel: &CancellationToken,
    ) -> RunResult {
        let session_dir = self.at("session");
        let journal = session_dir.join("journal.jsonl");
        let session_id = "id-1".into();
        let place = HookWorkspace {
            cwd: self.work.clone(),
            session_dir,
            session_id,
            journal,
            mark: self.mark.clone(),
        };
        let env = self.env();
        builtin::run(
            &job.hook.name,
            BuiltinJob {
                job,
                place: &place,
                env: &env,
            },
            watch,
            cancel,
        )
        .await
    }

    pub fn env(&self) -> Vec<(String, String)> {
        let pairs = [
            ("PATH", self.path.clone()),
            ("HOME", shown(self.folder.path())),
            ("GIT_CONFIG_GLOBAL", shown(&self.at("gitconfig"))),
            ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

/// A hook of this name, with a long timeout.
pub fn job(name: &str, submission: SubmissionFacts) -> HookJob {
    HookJob {
        run: RunId(3),
        point: HookPoint::BeforeSubmit,
        hook: HookSpec::new(name, HookAction::Builtin(name.into())),
        output_limit: 16 * 1024,
        facts: HookFacts {
            session: "s".into(),
            submission: Some(Box::new(submission)),
            ..HookFacts::default()
        },
        clean: None,
    }
}

/// The outcome of a run, which must agree with its exit code and its output.
pub fn outcome(result: &RunResult) -> &BuiltinOutcome {
    let outcome = result.outcome.as_ref().expect("an outcome");
    let (expected, told) = match outcome.status {
        BuiltinStatus::Success | BuiltinStatus::Skip => (true, &result.stdout),
        BuiltinStatus::Failure => (false, &result.stderr),
    };
    assert_eq!(result.end == RunEnd::Exit(0), expected, "{result:?}");
    assert!(told.contains(&outcome.message), "{result:?}");
    outcome
}

/// The error, and what an agent should do about it.
pub fn failure(result: &RunResult) -> (&str, Option<&str>) {
    let outcome = outcome(result);
    assert_eq!(outcome.status, BuiltinStatus::Failure, "{outcome:?}");
    (&outcome.message, outcome.remediation.as_deref())
}

/// The message of a run that had nothing to do.
pub fn skipped(result: &RunResult) -> &str {
    let outcome = outcome(result);
    assert_eq!(outcome.status, BuiltinStatus::Skip, "{outcome:?}");
    &outcome.message
}

/// The outcome of a successful run.
pub fn success(result: &RunResult) -> &BuiltinOutcome {
    let outcome = outcome(result);
    assert_eq!(outcome.status, BuiltinStatus::Success, "{outcome:?}");
    outcome
}

/// Installs a git hook in a repository's git folder.
pub fn hook_of(folder: &Path, name: &str, text: &str) {
    fs::create_dir_all(folder.join("hooks")).expect("a folder");
    executable(&folder.join("hooks").join(name), text);
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).expect("a program");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
