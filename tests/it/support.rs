//! What several tests need: waiting for a condition, folders, observers.

pub mod forge;
pub mod git_project;
pub mod http;
#[path = "../lib/support/journals.rs"]
pub mod journals;
pub mod listener;
pub mod mcp;
pub mod nats;
pub mod operator;
pub mod peer;
pub mod project;
pub mod repo;
pub mod terminal;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, Once, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use creel::process::{
    run::{GRACE, OutputStream, ProcessGroup, ProcessObserver, ProcessSpec},
    sweep::MARK,
};
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// The longest wait of a test.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// Waits until a condition is true.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether a process is alive (a zombie is not).
pub(crate) fn lives(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| {
            stat.rsplit_once(')')
                .map(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
        })
        .unwrap_or(false)
}

/// The live processes with this mark or one below it.
pub(crate) fn alive_with_mark(prefix: &str) -> Vec<i32> {
    let has_mark = |pid: &i32| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let marks = environ
            .split(|byte| *byte == 0)
            .filter_map(|variable| variable.strip_prefix(format!("{MARK}=").as_bytes()))
            .flat_map(|marks| marks.split(|byte| *byte == b' '));
        marks
            .filter_map(|mark| mark.strip_prefix(prefix.as_bytes()))
            .any(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    let all = std::fs::read_dir("/proc").into_iter().flatten();
    all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(has_mark)
        .collect()
}

/// The process id that a command wrote to a file, once it exists.
pub(crate) async fn pid_in(file: &Path) -> i32 {
    let mut pid = None;
    eventually(&format!("a number in {}", file.display()), || {
        pid = std::fs::read_to_string(file)
            .ok()
            .filter(|t| t.ends_with('\n'))
            .and_then(|t| t.trim().parse().ok());
        pid.is_some()
    })
    .await;
    pid.expect("found just now")
}

/// A mark that no other test has.
pub(crate) fn mark(test: &str) -> String {
    format!("test-{}-{test}", std::process::id())
}

/// A command in a folder, with defaults.
pub(crate) fn spec(command: &str, cwd: &Path, test: &str) -> ProcessSpec {
    hear_all_signals();
    ProcessSpec {
        command: command.into(),
        cwd: cwd.into(),
        env: Vec::new(),
        stdin: Vec::new(),
        timeout: Some(PATIENCE),
        grace: GRACE,
        unset: Vec::new(),
        mark: mark(test),
    }
}

/// A temporary folder.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for the test")
}

/// Records what it saw; clones share the record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    groups: Vec<ProcessGroup>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Memory {
    fn with<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn groups(&self) -> Vec<ProcessGroup> {
        self.with(|seen| seen.groups.clone())
    }

    pub(crate) fn stdout(&self) -> String {
        self.with(|seen| String::from_utf8_lossy(&seen.stdout).into_owned())
    }

    pub(crate) fn stderr(&self) -> String {
        self.with(|seen| String::from_utf8_lossy(&seen.stderr).into_owned())
    }

    pub(crate) fn stdout_bytes(&self) -> Vec<u8> {
        self.with(|seen| seen.stdout.clone())
    }
}

impl ProcessObserver for Memory {
    fn started(&mut self, group: ProcessGroup) {
        self.with(|seen| seen.groups.push(group));
    }

    fn output(&mut self, stream: OutputStream, bytes: &[u8]) {
        self.with(|seen| match stream {
            OutputStream::Stdout => seen.stdout.extend_from_slice(bytes),
            OutputStream::Stderr => seen.stderr.extend_from_slice(bytes),
        });
    }
}

/// A new mark for each call.
pub(crate) fn fresh_mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    mark(&format!("fresh-{}", NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// The program of `tests/acp-agent`.
pub(crate) fn acp_agent() -> PathBuf {
    example("acp-agent")
}

/// A program that cargo puts beside this test's folder.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let built = test
        .parent()
        .and_then(Path::parent)
        .expect("a test lies in target/debug/deps");
    let program = built.join("examples").join(name);
    assert!(
        program.exists(),
        "{} is missing: `cargo test` builds it, `cargo test --test it` only together with `--examples`",
        program.display()
    );
    program
}

/// The programs that tests start must receive all signals, even if the tests were started with some
/// ignored (`nohup`, a background job of a script): a program inherits ignored signals, but not
/// handlers.
pub(crate) fn hear_all_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status
            .lines()
            .find_map(|line| line.strip_prefix("SigIgn:"))
            .unwrap_or("0");
        let mask = u64::from_str_radix(mask.trim(), 16).expect("a mask of signals");
        // In a separate thread: an async test must not drop a runtime.
        let handlers = std::thread::spawn(move || {
            let tokio = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            let _inside = tokio.enter();
            let all = [
                Signal::INT,
                Signal::QUIT,
                Signal::HUP,
                Signal::TERM,
                Signal::TSTP,
                Signal::TTIN,
                Signal::TTOU,
            ];
            for raw in all
                .map(Signal::as_raw)
                .into_iter()
                .filter(|raw| mask & (1 << (raw - 1)) != 0)
            {
                drop(signal(SignalKind::from_raw(raw)).expect("a handler"));
            }
        });
        handlers.join().expect("handlers");
    });
}

/// A path in a folder, for use in a command.
pub(crate) fn in_folder(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    folder.path().join(name)
}
