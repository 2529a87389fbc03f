//! What long sessions and many sessions cost, compared with short and few ones.
//!
//! Each figure is a ratio of two times of the real program in the same run: it does the same work
//! in a project where it did little before, and in one where it did a lot. `cargo bench --bench
//! long` measures all of them.

#[path = "support/measure.rs"]
mod measure;

use std::{
    fs::{self, File, OpenOptions},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use measure::{Figure, Finding, Result, Verdict, check, compare};
use serde_json::{Value, json};

/// Records in a short and in a long journal.
const RECORDS: [u64; 2] = [1_000, 1_000_000];
/// Sessions in a project with few and in one with many.
const SESSIONS: [usize; 2] = [5, 5_000];
/// Iterations of a session, and how many of its first and last ones are compared.
const ITERATIONS: usize = 3_000;
const COMPARED: usize = 300;

/// The agent fails at once, and with it the session: it can be resumed again and again.
const CONFIG: &str = "prompt: GOAL\nagent: sh\nmax_iterations: 1000000\n\
                      max_consecutive_errors: 1\nagents: { sh: { command: 'cat > /dev/null; false' } }\n";

fn main() -> ExitCode {
    measure::run(&FIGURES)
}

const FIGURES: [Figure; 3] = [
    Figure {
        name: "resume",
        measure: resume,
    },
    Figure {
        name: "many",
        measure: many,
    },
    Figure {
        name: "late",
        measure: late,
    },
];

/// A project in a temporary folder, with its own home.
struct Project {
    dir: tempfile::TempDir,
}

impl Project {
    fn new(config: &str) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        fs::create_dir(dir.path().join("p"))?;
        fs::write(dir.path().join("p/creel.yaml"), config)?;
        Ok(Self { dir })
    }

    fn sessions(&self) -> PathBuf {
        self.dir.path().join("p/.creel/sessions")
    }

    /// How long a command takes. Its exit code does not matter: these sessions fail.
    fn takes(&self, args: &[&str]) -> Result<Duration> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_creel"));
        command
            .args(args)
            .current_dir(self.dir.path().join("p"))
            .env("HOME", self.dir.path());
        for (name, folder) in [
            ("XDG_STATE_HOME", "state"),
            ("XDG_CONFIG_HOME", "config"),
            ("TMPDIR", "."),
        ] {
            command.env(name, self.dir.path().join(folder));
        }
        command
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("CREEL_SESSION");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let started = Instant::now();
        check(command.status()?.code().is_some(), "creel was killed")?;
        Ok(started.elapsed())
    }
}

/// Continuing a session with a long journal, compared with one with a short journal.
fn resume() -> Result<Vec<Finding>> {
    let [few, lots] = RECORDS;
    let (short, long) = (with_records(few)?, with_records(lots)?);
    check(
        long.sessions().join("s/snapshot.json").exists(),
        "the session has no snapshot",
    )?;
    let name = |what: &str, records: u64| format!("`{what}` with {records} records");
    let mut findings = Vec::new();
    for args in [&["resume", "s", "--headless"][..], &["sessions"]] {
        let compared = compare(25, || long.takes(args), || short.takes(args))?;
        findings.push(compared.finding(&name(args[0], lots), &name(args[0], few), 1.2));
    }
    Ok(findings)
}

fn with_records(records: u64) -> Result<Project> {
    let project = Project::new(CONFIG)?;
    project.takes(&["run", "--headless", "--trust", "-s", "s"])?;
    lengthen(&project.sessions().join("s/journal.jsonl"), records)?;
    // Reads the whole journal, and leaves a snapshot.
    project.takes(&["resume", "s", "--headless"])?;
    Ok(project)
}

/// Appends warnings, which change nothing, until the journal has that many records.
fn lengthen(journal: &Path, records: u64) -> Result<()> {
    let text = fs::read_to_string(journal)?;
    let last: Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
    let mut file = BufWriter::new(OpenOptions::new().append(true).open(journal)?);
    for seq in last["seq"].as_u64().unwrap_or(0) + 1..=records {
        let warning = "a".repeat(200);
        let record = json!({"v": 1, "seq": seq, "at": last["at"], "session": "s", "kind": "warning", "text": warning});
        writeln!(file, "{record}")?;
    }
    Ok(file.flush()?)
}

/// Starting a session, and looking for the running one, in a project with many sessions.
fn many() -> Result<Vec<Finding>> {
    let (few, lots) = (with_sessions(SESSIONS[0])?, with_sessions(SESSIONS[1])?);
    let mut findings = Vec::new();
    let run = &["run", "--headless"][..];
    for args in [
        run,
        &["resume", "s", "--headless"],
        &["resume", "--headless"],
        &["status"],
        &["show", "s"],
        &["show"],
    ] {
        let compared = compare(25, || lots.takes(args), || few.takes(args))?;
        let name = |sessions: usize| format!("`{}` with {sessions} sessions", args.join(" "));
        findings.push(compared.finding(&name(SESSIONS[1]), &name(SESSIONS[0]), 1.2));
    }
    let listed = compare(3, || lots.takes(&["sessions"]), || few.takes(&["sessions"]))?;
    let text = listed.tell("`sessions`, which prints them all", "with few");
    findings.push(Finding {
        text,
        verdict: Verdict::Information,
    });
    Ok(findings)
}

fn with_sessions(sessions: usize) -> Result<Project> {
    let project = Project::new(CONFIG)?;
    project.takes(&["run", "--headless", "--trust", "-s", "s"])?;
    let journal = project.sessions().join("s/journal.jsonl");
    for n in 1..sessions {
        let name = format!("other-{n}");
        fs::create_dir(project.sessions().join(&name))?;
        fs::copy(
            &journal,
            project.sessions().join(&name).join("journal.jsonl"),
        )?;
        File::create(project.sessions().join(".unfinished").join(&name))?;
    }
    Ok(project)
}

/// The last iterations of a long session, compared with its first ones.
fn late() -> Result<Vec<Finding>> {
    let config = format!(
        "prompt: GOAL\nagent: sh\nmax_iterations: {ITERATIONS}\n\
         stop: {{ no_progress: 0, thrashing: 0, circuit_breaker: 0 }}\n\
         agents: {{ sh: {{ command: 'cat > /dev/null; echo done' }} }}\n\
         hooks: {{ post_iteration: [{{ name: after, command: 'date +%s%N', pipe_output: true }}] }}\n"
    );
    let project = Project::new(&config)?;
    project.takes(&["run", "--headless", "--trust", "-s", "s"])?;
    let text = fs::read_to_string(project.sessions().join("s/journal.jsonl"))?;
    let mut began: Vec<jiff::Timestamp> = Vec::new();
    for line in text.lines() {
        let record: Value = serde_json::from_str(line)?;
        if record["kind"] == "iteration_started" {
            began.push(record["at"].as_str().unwrap_or_default().parse()?);
        }
    }
    check(began.len() == ITERATIONS, "not all iterations took place")?;
    let took = |from: usize| {
        Duration::try_from(began[from + COMPARED].duration_since(began[from])).map_err(Into::into)
    };
    // The first ones warm the caches.
    let compared = compare(1, || took(ITERATIONS - COMPARED - 1), || took(COMPARED))?;
    Ok(vec![compared.finding(
        &format!("the last {COMPARED} of {ITERATIONS} iterations"),
        "as many early ones",
        1.2,
    )])
}
