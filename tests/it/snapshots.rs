//! Snapshots of long sessions: what creel says about a session is the same with and without one,
//! however it was killed.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Child, Stdio},
};

use serde_json::Value;

use crate::support::project::{Project, Ran, until};

/// Each turn has enough records for a snapshot. The agent completes when the file `done` exists.
const CONFIG: &str = r#"
prompt: GOAL
agent: sh
max_iterations: 1000000
stop: { no_progress: 0, thrashing: 0, circuit_breaker: 0, settled: continue }
agents:
  sh:
    command: |
      cat > /dev/null; yes "$(printf '%01000d' 7)" | head -n 400; date +%s%N > work
      [ ! -e done ] || echo "<promise>COMPLETE</promise>"
hooks:
  post_iteration: [{ name: after, command: 'date +%s%N', pipe_output: true }]
"#;

fn snapshot(project: &Project) -> PathBuf {
    project.journal().with_file_name("snapshot.json")
}

/// What creel says about the session. With another state folder it has no key, and reads the whole
/// journal.
fn told(project: &Project, uses_snapshots: bool) -> Vec<Value> {
    let state = if uses_snapshots {
        project.state_dir()
    } else {
        project.temp_dir()
    };
    let says = |args: &[&str]| {
        let ran = Ran::of(
            &project
                .command(args)
                .env("XDG_STATE_HOME", &state)
                .output()
                .expect("creel starts"),
        );
        assert_eq!(ran.code, 0, "{}", ran.err);
        let mut said: Value = serde_json::from_str(&ran.out).expect("JSON");
        said.as_array_mut()
            .into_iter()
            .flatten()
            .for_each(|one| one["age_ms"] = Value::Null);
        said
    };
    vec![
        says(&["sessions", "--json"]),
        says(&["task", "list", "--json", "-s", "s"]),
    ]
}

fn started(project: &Project, args: &[&str]) -> Child {
    project
        .command(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("creel starts")
}

fn is_told_the_same(project: &Project) {
    assert_eq!(told(project, true), told(project, false));
}

/// The iteration in which the session was stopped, in the words of the list.
fn stopped_in(project: &Project) -> String {
    let listed = project.creel(&["sessions"]).out;
    let at = listed
        .find("Stopped in iteration ")
        .unwrap_or_else(|| panic!("it was killed in an iteration: {listed}"));
    listed[at..]
        .split(['·', '\n'])
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[test]
fn a_session_that_ends_leaves_a_snapshot_for_its_owner_only() {
    let project = Project::with(CONFIG).file("done", "");
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}", ran.err);
    for name in ["snapshot.json", "snapshot.stamp"] {
        let meta = fs::metadata(project.journal().with_file_name(name)).expect("a snapshot");
        assert_eq!(meta.permissions().mode() & 0o777, 0o600, "{name}");
    }
    let key = fs::metadata(project.state_dir().join("creel/snapshot-key")).expect("a key");
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    is_told_the_same(&project);
}

#[test]
fn a_short_session_has_none() {
    let project = Project::with(
        "prompt: GOAL\nagent: sh\nagents: { sh: { command: 'cat > /dev/null' } }\nmax_iterations: 1",
    );
    project.run();
    assert!(!project.records().is_empty() && !snapshot(&project).exists());
}

#[test]
fn a_killed_session_is_the_same_with_and_without_its_snapshot() {
    let project = Project::with(CONFIG);
    let mut session = started(&project, &["run", "--headless", "--trust", "-s", "s"]);
    for kill in 0..4 {
        let before = fs::read(snapshot(&project)).ok();
        let records = project.records().len();
        // A list reads only the ends of a journal above 1 MiB, so one kill waits for such a
        // journal.
        let length = if kill == 2 { 1 << 20 } else { 0 };
        until("the session has written a snapshot", || {
            fs::read(snapshot(&project)).ok() != before
                && snapshot(&project).exists()
                && project.records().len() > records
                && fs::metadata(project.journal()).is_ok_and(|journal| journal.len() > length)
        });
        session
            .kill()
            .and_then(|()| session.wait())
            .expect("it was running");
        is_told_the_same(&project);
        if kill == 2 {
            // Without its snapshot, the session is read from its journal.
            let with = stopped_in(&project);
            fs::remove_file(snapshot(&project)).expect("a snapshot");
            assert_eq!(stopped_in(&project), with);
        }
        session = started(&project, &["resume", "s", "--headless"]);
    }
    project.write("done", "");
    assert!(session.wait().expect("it was running").success());
    assert_eq!(project.outcome().as_deref(), Some("complete"));
    is_told_the_same(&project);
    let records = project.records();
    let numbers = records
        .iter()
        .map(|record| record["seq"].as_u64().unwrap_or_default());
    assert!(
        numbers.eq(1..=records.len() as u64),
        "records are missing or repeated"
    );
}

#[test]
fn a_journal_edited_after_its_snapshot_counts_as_it_is_now() {
    let project = Project::with(CONFIG).file("done", "");
    project.run();
    let agent = |said: &[Value]| said[0][0]["max_iterations"].clone();
    assert_eq!(agent(&told(&project, true)), 1_000_000);
    let text = fs::read_to_string(project.journal()).expect("a journal");
    fs::write(
        project.journal(),
        text.replacen(":1000000,", ":2000000,", 2),
    )
    .expect("space");
    assert_eq!(agent(&told(&project, true)), agent(&told(&project, false)));
    assert_eq!(agent(&told(&project, true)), 2_000_000);
}
