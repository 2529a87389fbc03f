//! A project in a temporary folder, and creel run in it as a user or a script would.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::PATIENCE;

/// The interval between two looks at a condition. A busy loop would take the processor from what it
/// waits for.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A project with its own home directory.
pub(crate) struct Project {
    dir: tempfile::TempDir,
}

/// The result of a run of creel.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Project {
    pub(crate) fn new() -> Self {
        super::hear_all_signals();
        let dir = tempfile::tempdir().expect("a folder");
        for name in ["p", "tmp"] {
            fs::create_dir_all(dir.path().join(name)).expect("a folder");
        }
        Self { dir }
    }

    /// A project with this config.
    pub(crate) fn with(config: &str) -> Self {
        Self::new().file("creel.yaml", config)
    }

    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        self.write(name, text);
        self
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir
            .path()
            .canonicalize()
            .expect("it is there")
            .join("p")
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root().join(name)).unwrap_or_default()
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub(crate) fn config_dir(&self) -> PathBuf {
        self.dir.path().join("config")
    }

    /// The temporary directory of everything that runs here: other tests have their own.
    pub(crate) fn temp_dir(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    /// creel, ready to be started in the project.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_creel"));
        command
            .args(args)
            .current_dir(self.root())
            .env("HOME", self.dir.path())
            .env("TMPDIR", self.temp_dir())
            .env("XDG_STATE_HOME", self.state_dir())
            .env("XDG_CONFIG_HOME", self.config_dir())
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("CREEL_SESSION")
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn creel(&self, args: &[&str]) -> Ran {
        Ran::of(&self.command(args).output().expect("creel starts"))
    }

    /// A trusted session named `s`.
    pub(crate) fn run(&self) -> Ran {
        self.creel(&["run", "--headless", "--trust", "-s", "s"])
    }

    /// The same, in the background.
    pub(crate) fn start(&self) -> Started {
        self.start_with(&[])
    }

    /// The same, with more environment variables.
    pub(crate) fn start_with(&self, variables: &[(&str, &str)]) -> Started {
        let mut command = self.command(&["run", "--json", "--trust", "-s", "s"]);
        command.envs(variables.iter().copied());
        Started::of(command)
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.root().join(".creel/sessions/s/journal.jsonl")
    }

    /// The records of session `s`.
    pub(crate) fn records(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.journal()).unwrap_or_default();
        // A running session may be writing: a line without a newline is not a record yet.
        lines(text.rsplit_once('\n').map_or("", |(whole, _)| whole))
    }

    /// The records of one kind.
    pub(crate) fn kind(&self, kind: &str) -> Vec<Value> {
        self.records()
            .into_iter()
            .filter(|record| record["kind"] == kind)
            .collect()
    }

    /// The prompts in order, each with its reason and its text, without the completion note.
    pub(crate) fn prompts(&self) -> Vec<(String, String)> {
        let note = format!(
            "\n\n{}",
            include_str!("../../../assets/prompts/completion.md").trim_end()
        );
        let text = |value: &Value| {
            let text = value.as_str().unwrap_or_default();
            text.strip_suffix(&note).unwrap_or(text).to_owned()
        };
        self.kind("prompt_sent")
            .iter()
            .map(|record| (text(&record["reason"]), text(&record["text"])))
            .collect()
    }

    pub(crate) fn outcome(&self) -> Option<String> {
        self.kind("session_ended")
            .last()
            .and_then(|record| record["outcome"].as_str().map(str::to_owned))
    }
}

impl Ran {
    pub(crate) fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

pub(crate) fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a record is JSON"))
        .collect()
}

/// A running creel that prints its records.
pub(crate) struct Started {
    child: Child,
    records: BufReader<ChildStdout>,
}

impl Started {
    /// Starts a creel that prints lines of JSON.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("creel starts");
        let records = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { child, records }
    }

    /// Reads until a record of that kind.
    pub(crate) fn wait_for(&mut self, kind: &str) -> Value {
        self.wait_for_one(kind, |_| true)
    }

    /// Reads until a matching record of that kind.
    pub(crate) fn wait_for_one(&mut self, kind: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        self.wait_until(kind, |record| record["kind"] == kind && is_wanted(record))
    }

    /// Reads until a matching line.
    pub(crate) fn wait_until(&mut self, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self
                .records
                .read_line(&mut line)
                .expect("creel prints text");
            assert_ne!(read, 0, "creel ended before any {what}");
            let record: Value = serde_json::from_str(&line).expect("a record is JSON");
            if is_wanted(&record) {
                return record;
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).expect("a number")).expect("a process");
        kill_process(pid, signal).expect("it is there");
    }

    /// `kill -9`, and wait.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ended");
    }

    /// Waits for its end, and reads the rest of its output.
    pub(crate) fn end(mut self) -> Ran {
        let mut out = String::new();
        self.records
            .read_to_string(&mut out)
            .expect("creel prints text");
        let ended = Ran::of(&self.child.wait_with_output().expect("it ended"));
        Ran { out, ..ended }
    }
}

/// The content of a file, once it is not empty.
pub(crate) fn eventually_in(path: &Path) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if text.ends_with('\n') {
            return text.trim().to_owned();
        }
        assert!(
            Instant::now() < deadline,
            "nothing came into {}",
            path.display()
        );
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Waits until a condition is true.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(LOOK_AGAIN);
    }
}
