//! A session whose standard output is not read: it continues, keeps nothing in memory for the
//! reader, and loses nothing.

use std::{
    fs,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use serde_json::json;

use crate::support::{acp_agent, project::Project};

/// One update of the agent, repeated this many times.
const UPDATE: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcd\n";
const REPEAT: usize = 1_000;
const UPDATES: usize = 520;
/// How long that may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);

/// A running session with `--json`, whose standard output is not read.
fn blocked(project: &Project) -> Child {
    let mut command = project.command(&["run", "--json", "--trust", "-s", "s"]);
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .stdin(Stdio::null())
        .spawn()
        .expect("creel starts")
}

/// The resident memory of a process, in bytes.
fn memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(
        line.trim()
            .strip_suffix(" kB")?
            .trim()
            .parse::<u64>()
            .ok()?
            * 1024,
    )
}

fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::yield_now();
    }
}

/// The last bytes of a file.
fn end_of(file: &Path) -> String {
    let Ok(mut file) = fs::File::open(file) else {
        return String::new();
    };
    let length = file.metadata().map_or(0, |meta| meta.len());
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(length.saturating_sub(4_096)))
        .expect("a place in the file");
    file.read_to_end(&mut end).expect("a file");
    String::from_utf8_lossy(&end).into_owned()
}

#[test]
fn a_stopped_reader_costs_no_memory_and_misses_nothing() {
    let flood = json!({"flood": {"updates": UPDATES, "text": UPDATE, "repeat": REPEAT}});
    let script = json!({"turns": [[flood, {"say": "<promise>COMPLETE</promise>"}]]});
    let config = format!(
        "prompt: GOAL\nagent: a\nagents: {{ a: {{ acp: \"'{}' script.json log\" }} }}\n",
        acp_agent().display()
    );
    let project = Project::with(&config).file("script.json", &script.to_string());
    let mut creel = blocked(&project);
    let length = || fs::metadata(project.journal()).map_or(0, |meta| meta.len());
    // Buffers of the first updates count for nothing: a quarter of them is out by then.
    let all = UPDATE.len() * REPEAT * UPDATES;
    wait_for("the agent talks", || length() > all as u64 / 4);
    let before = memory(creel.id());
    wait_for("the session has ended for all but the reader", || {
        end_of(&project.journal()).contains("\"session_ended\"")
    });
    let journal = fs::read(project.journal()).expect("a journal");
    assert!(journal.len() > all, "the agent said much");
    // Only Linux reports the memory of another process.
    if let (Some(before), Some(after)) = (before, memory(creel.id())) {
        let grown = after.saturating_sub(before);
        assert!(
            grown < all as u64 / 2,
            "{grown} bytes of memory for {} bytes of journal",
            journal.len()
        );
    }
    let mut printed = Vec::new();
    creel
        .stdout
        .take()
        .expect("a pipe")
        .read_to_end(&mut printed)
        .expect("output");
    assert_eq!(creel.wait().expect("it ends").code(), Some(0));
    assert!(
        printed == journal,
        "{} bytes printed of {}",
        printed.len(),
        journal.len()
    );
}
