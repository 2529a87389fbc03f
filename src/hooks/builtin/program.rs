//! Runs the programs that built-in hooks use: git, the forge's command, test runners.
//!
//! Owns their environment, and how much of their output is stored.
//!
//! # Invariants
//! - What is stored for people and agents has no secrets. Standard output, which creel reads itself, is
//!   as the program printed it.
//! - None of them can prompt the user, neither on a terminal nor in an editor.
//! - Each of them uses only the repository of the folder in which it runs.

use std::{
    env,
    ffi::OsStr,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::outcome::{BuiltinError, complaint, named, printed_text, quoted};
use crate::{
    engine::hooks::verdict::RunEnd,
    git::{QUIET, UNSET},
    process::{
        output::TailBuffer,
        run::{
            self, OutputStream, ProcessEnd, ProcessGroup, ProcessObserver, ProcessSpec, ProgramSpec,
        },
        secrets,
    },
    text::StreamMask,
};

/// Bytes of standard output that are stored.
pub(super) const ANSWER: usize = 4 * 1024 * 1024;
/// Bytes at the end of the output that are stored.
const TAIL: usize = 8 * 1024;
/// Time limit for cleaning up.
const TIDYING: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub(super) struct ProgramRunner {
    pub(super) cwd: PathBuf,
    /// Added to creel's own environment.
    pub(super) env: Vec<(String, String)>,
    pub(super) mark: String,
    pub(super) cancel: CancellationToken,
    pub(super) deadline: Option<Instant>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct ProgramCall {
    pub(super) program: String,
    pub(super) args: Vec<String>,
    pub(super) stdin: Vec<u8>,
    /// How many arguments at the front are not shown.
    pub(super) unshown: usize,
}

#[derive(Debug, Clone, Default)]
pub(super) struct ProgramResult {
    pub(super) code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// The end of both streams, in order of arrival.
    pub(super) tail: String,
}

impl ProgramCall {
    pub(super) fn new(program: &str, args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Self {
            program: program.to_owned(),
            args,
            ..Self::default()
        }
    }

    /// As the user would type it.
    pub(super) fn line(&self) -> String {
        let args = self.args.iter().skip(self.unshown).map(|arg| quoted(arg));
        std::iter::once(quoted(&self.program))
            .chain(args)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The name for a message: `git fetch`.
    fn name(&self) -> String {
        let verb = self
            .args
            .get(self.unshown)
            .filter(|arg| !arg.starts_with('-'));
        verb.map_or_else(
            || self.program.clone(),
            |verb| format!("{} {verb}", self.program),
        )
    }
}

impl ProgramResult {
    pub(super) fn ok(&self) -> bool {
        self.code == 0
    }

    /// Standard output without the final newline.
    pub(super) fn answer(&self) -> &str {
        self.stdout.trim_end_matches('\n')
    }

    /// Why it failed, in a sentence.
    pub(super) fn complaint(&self) -> String {
        complaint(if self.stderr.trim().is_empty() {
            &self.stdout
        } else {
            &self.stderr
        })
    }
}

impl ProgramRunner {
    /// For cleanup, which must run in any case: it cannot be cancelled and has its own time limit.
    pub(super) fn for_tidying(&self) -> Self {
        let deadline = Some(Instant::now() + TIDYING);
        Self {
            cancel: CancellationToken::new(),
            deadline,
            ..self.clone()
        }
    }

    /// Runs a program without a shell.
    pub(super) async fn run(
        &self,
        call: &ProgramCall,
        watch: Option<&mut dyn ProcessObserver>,
    ) -> Result<ProgramResult, BuiltinError> {
        let spec = ProgramSpec {
            program: call.program.clone(),
            args: call.args.clone(),
            cwd: self.cwd.clone(),
            env: self.quiet(),
            unset: UNSET,
            stdin: call.stdin.clone(),
            timeout: self.left(),
            mark: self.mark.clone(),
        };
        let mut observer = ProgramObserver::new(watch);
        let end = run::run_program(spec, &mut observer, &self.cancel).await;
        observer.ran(end, &call.name())
    }

    /// Runs the user's own command line, like a command hook.
    pub(super) async fn run_line(
        &self,
        line: &str,
        env: Vec<(String, String)>,
        watch: &mut dyn ProcessObserver,
    ) -> Result<ProgramResult, BuiltinError> {
        let spec = ProcessSpec {
            command: line.to_owned(),
            cwd: self.cwd.clone(),
            env: self.env.iter().cloned().chain(env).collect(),
            stdin: Vec::new(),
            timeout: self.left(),
            grace: run::GRACE,
            unset: Vec::new(),
            mark: self.mark.clone(),
        };
        let mut observer = ProgramObserver::new(Some(watch));
        let end = run::run(spec, &mut observer, &self.cancel).await;
        observer.ran(end, &named(line))
    }

    /// Waits, unless the hook is cancelled. Returns false if the hook would time out.
    pub(super) async fn pause(&self, pause: Duration) -> Result<bool, BuiltinError> {
        if self.left().is_some_and(|left| left < pause * 2) {
            return Ok(false);
        }
        tokio::select! {
            () = self.cancel.cancelled() => Err(BuiltinError { end: RunEnd::Cut, ..BuiltinError::failed("creel was \
                                                                                                         asked to stop \
                                                                                                         waiting") }),
            () = tokio::time::sleep(pause) => Ok(true),
        }
    }

    pub(super) fn finds(&self, program: &str) -> bool {
        let given = self
            .env
            .iter()
            .rev()
            .find(|(name, _)| name == "PATH")
            .map(|(_, value)| value.into());
        let path = given.or_else(|| env::var_os("PATH")).unwrap_or_default();
        let runs = |file: PathBuf| {
            file.metadata()
                .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
        };
        env::split_paths(OsStr::new(&path)).any(|folder| runs(folder.join(program)))
    }

    fn quiet(&self) -> Vec<(String, String)> {
        let mut env: Vec<_> = QUIET
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        if env::var_os("SSH_ASKPASS").is_none() {
            env.push(("SSH_ASKPASS".to_owned(), "false".to_owned()));
        }
        env.extend(self.env.iter().cloned());
        env
    }

    fn left(&self) -> Option<Duration> {
        self.deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

/// Stores a program's output, and forwards it if there is an observer.
struct ProgramObserver<'a> {
    watch: Option<&'a mut dyn ProcessObserver>,
    stdout: Vec<u8>,
    stderr: TailBuffer,
    tail: TailBuffer,
    masks: [StreamMask; 2],
}

impl<'a> ProgramObserver<'a> {
    fn new(watch: Option<&'a mut dyn ProcessObserver>) -> Self {
        Self {
            watch,
            stdout: Vec::new(),
            stderr: TailBuffer::new(TAIL),
            tail: TailBuffer::new(TAIL),
            masks: [secrets::stream(), secrets::stream()],
        }
    }

    fn ran(mut self, end: ProcessEnd, name: &str) -> Result<ProgramResult, BuiltinError> {
        let [stdout, stderr] = &mut self.masks;
        self.tail.push(&stdout.finish());
        let rest = stderr.finish();
        self.tail.push(&rest);
        self.stderr.push(&rest);
        let printed = printed_text(&self.tail.bytes());
        let halt = |end, message| {
            Err(BuiltinError {
                end,
                message,
                remediation: None,
                printed: printed.clone(),
            })
        };
        let code = match end {
            ProcessEnd::Exit(code) => code,
            // Like a shell.
            ProcessEnd::Signal(signal) => 128 + signal,
            ProcessEnd::TimedOut => return halt(RunEnd::TimedOut, format!("`{name}` timed out")),
            ProcessEnd::Cancelled => return halt(RunEnd::Cut, format!("`{name}` was cancelled")),
            ProcessEnd::SpawnFailed(why) => return halt(RunEnd::SpawnFailed(why.clone()), why),
        };
        Ok(ProgramResult {
            code,
            stdout: String::from_utf8_lossy(&self.stdout).into_owned(),
            stderr: printed_text(&self.stderr.bytes()),
            tail: printed,
        })
    }
}

impl ProcessObserver for ProgramObserver<'_> {
    /// A program without an observer is short and is not recorded. creel still finds it by its
    /// mark.
    fn started(&mut self, group: ProcessGroup) {
        if let Some(watch) = &mut self.watch {
            watch.started(group);
        }
    }

    fn output(&mut self, stream: OutputStream, bytes: &[u8]) {
        let [of_stdout, of_stderr] = &mut self.masks;
        match stream {
            OutputStream::Stdout => {
                let room = ANSWER.saturating_sub(self.stdout.len()).min(bytes.len());
                self.stdout.extend_from_slice(&bytes[..room]);
                self.tail.push(&of_stdout.push(bytes));
            }
            OutputStream::Stderr => {
                let masked = of_stderr.push(bytes);
                self.stderr.push(&masked);
                self.tail.push(&masked);
            }
        }
        if let Some(watch) = &mut self.watch {
            watch.output(stream, bytes);
        }
    }
}
