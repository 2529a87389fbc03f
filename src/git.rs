//! Calls of git: its environment, its first arguments and its reply.
//!
//! Does not start processes: callers pass the function that does, because each of them needs other
//! rules for how git ends.
//!
//! # Invariants
//! - Git uses only the repository of the folder in which it runs, and never reads from the terminal.
//! - A question that git could not answer because something killed it is asked again.

use std::{
    io,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use rustix::process::Signal;

/// Variables that point git to another repository, change how it reads names, give it a terminal,
/// or force colours. They are set, for example, if a git hook started creel.
pub const UNSET: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_PREFIX",
    "GIT_NAMESPACE",
    "GIT_LITERAL_PATHSPECS",
    "GIT_REFLOG_ACTION",
    "GIT_EXTERNAL_DIFF",
    "GIT_REPLACE_REF_BASE",
    "GPG_TTY",
    "GH_FORCE_TTY",
    "CLICOLOR_FORCE",
];

/// For git and the forge's command, but not for tests.
pub const QUIET: &[(&str, &str)] = &[
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("GIT_MERGE_AUTOEDIT", "no"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    // Use commits and files as they will be pushed, without local replacements.
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    // A path that cannot exist, because git warns about any graft file that it can open.
    ("GIT_GRAFT_FILE", "/dev/null/none"),
    // Without an askpass program, ssh would prompt on the terminal, even if another program uses
    // it.
    ("SSH_ASKPASS_REQUIRE", "force"),
    ("GH_PROMPT_DISABLED", "1"),
    ("GH_NO_UPDATE_NOTIFIER", "1"),
    ("NO_PROMPT", "true"),
    ("GLAB_CHECK_UPDATE", "false"),
    ("NO_COLOR", "1"),
];

/// The first arguments of a call whose output creel parses: the user's settings must not colour it.
pub const PLAIN: [&str; 3] = ["--no-pager", "-c", "color.ui=false"];

/// The commands that change nothing, or only what the same command changes again. One that was
/// killed is no answer: "no".
const QUESTIONS: [&str; 14] = [
    "check-ref-format",
    "diff",
    "fetch",
    "for-each-ref",
    "log",
    "ls-files",
    "ls-remote",
    "merge-base",
    "push",
    "remote",
    "rev-list",
    "rev-parse",
    "status",
    "symbolic-ref",
];
/// How often git is asked.
pub const ATTEMPTS: u32 = 3;

/// What git printed.
#[derive(Debug)]
pub struct GitReply {
    pub is_ok: bool,
    /// Whether something killed it before it was done.
    pub was_killed: bool,
    pub stdout: String,
    pub stderr: String,
}

#[derive(Debug)]
pub enum GitCallError {
    /// Git could not be started.
    CannotStart(io::Error),
    /// Something killed it each time, so there is no answer.
    Killed { signal: i32 },
}

impl GitReply {
    /// The answer without the line break at its end.
    pub fn line(&self) -> &str {
        self.stdout.trim_end_matches('\n')
    }

    /// The last line of what git complained about, which is the decisive one.
    pub fn complaint(&self) -> String {
        let lines = self
            .stderr
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        let is_decisive = |line: &&str| line.starts_with("fatal:") || line.starts_with("error:");
        let chosen = lines
            .clone()
            .find(is_decisive)
            .or_else(|| lines.clone().next_back())
            .unwrap_or("it does not say why");
        // A list follows on the next lines, and what a hook of the remote says comes before.
        let list: Vec<&str> = lines
            .clone()
            .skip_while(|line| *line != chosen)
            .skip(1)
            .take(3)
            .collect();
        let list = if chosen.ends_with(':') {
            format!(" {}", list.join(", "))
        } else {
            String::new()
        };
        let remote: Vec<&str> = lines
            .filter_map(|line| line.strip_prefix("remote: "))
            .map(str::trim)
            .take(3)
            .collect();
        let remote = if remote.is_empty() {
            String::new()
        } else {
            format!(" ({})", remote.join("; "))
        };
        let chosen = chosen
            .trim_start_matches("fatal: ")
            .trim_start_matches("error: ");
        format!("{chosen}{list}{remote}")
    }
}

/// Git in a folder.
pub fn command(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(folder).stdin(Stdio::null());
    for name in UNSET {
        command.env_remove(name);
    }
    command
}

/// Calls git with plain output and without any prompt. `run` starts it and waits for its end.
pub fn call(
    mut command: Command,
    args: &[&str],
    run: impl Fn(&mut Command) -> io::Result<Output>,
) -> Result<GitReply, GitCallError> {
    command.args(PLAIN).args(args).envs(QUIET.iter().copied());
    let is_question = args.first().is_some_and(|first| QUESTIONS.contains(first));
    let output = answer(
        || run(&mut command),
        |output| is_question && was_killed(output),
    )
    .map_err(GitCallError::CannotStart)?;
    let was_killed = was_killed(&output);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut stderr = text(&output.stderr);
    if let Some(signal) = output.status.signal() {
        // A push says what it did by its exit code, too.
        if is_question && args.first() != Some(&"push") {
            return Err(GitCallError::Killed { signal });
        }
        stderr.push_str(&format!("\nfatal: git was killed by signal {signal}"));
    }
    Ok(GitReply {
        is_ok: output.status.success(),
        was_killed,
        stdout: text(&output.stdout),
        stderr,
    })
}

/// Runs git, and again while its output is no answer.
pub fn answer(
    mut run: impl FnMut() -> io::Result<Output>,
    is_unanswered: impl Fn(&Output) -> bool,
) -> io::Result<Output> {
    let mut output = run()?;
    for _ in 1..ATTEMPTS {
        if is_unanswered(&output) {
            output = run()?;
        }
    }
    Ok(output)
}

/// Whether a program of git was killed, and not by a key or a command that ends this process, too.
fn was_killed(output: &Output) -> bool {
    let by_user = [Signal::INT, Signal::TERM, Signal::HUP].map(Signal::as_raw);
    let own = output
        .status
        .signal()
        .is_some_and(|signal| !by_user.contains(&signal));
    own || String::from_utf8_lossy(&output.stderr).contains("died of signal 9")
}
