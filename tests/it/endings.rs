//! No process outlives its session, however creel ends.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    attach::Background,
    support::{
        lives,
        project::{Project, Ran, Started, eventually_in, until},
        terminal::{Cells, Terminal},
    },
};

const WIDE: Cells = (120, 40);

/// A turn that writes its process id to a file and lasts until the file `go` exists, or until the
/// project is gone.
const TURN: &str = "echo $$ > turn; until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done";
/// A process that leaves its group and clears its environment. It writes its process id to
/// `escaped`.
const ESCAPE: &str =
    r#"env -i setsid sh -c 'echo $$ > escaped; until [ ! -e creel.yaml ]; do sleep 0.02; done'"#;

/// A project whose command agent runs this line.
fn project(agent: &str, rest: &str) -> Project {
    let agent = agent.replace('\'', "''");
    Project::with(&format!(
        "prompt: GOAL\nagent: sh\nagents: {{ sh: {{ command: '{agent}; echo \"<promise>COMPLETE</promise>\"' }} }}\n{rest}\n"
    ))
}

fn hook(point: &str, command: &str, more: &str) -> String {
    format!(
        "hooks: {{ {point}: [{{ command: '{}'{more} }}] }}",
        command.replace('\'', "''")
    )
}

fn process(pid: i32) -> Pid {
    Pid::from_raw(pid).expect("a process")
}

#[track_caller]
fn number_in(path: &Path) -> i32 {
    eventually_in(path).parse().expect("a number")
}

/// A headless session in the middle of a turn, and the process of that turn.
#[track_caller]
fn headless_turn(project: &Project) -> (Started, i32) {
    let session = project.start();
    (session, number_in(&project.root().join("turn")))
}

/// The same with a screen.
#[track_caller]
fn screen_turn(project: Project) -> (Background, Terminal, i32) {
    let terminal = Terminal::run(&project, WIDE);
    let turn = number_in(&project.root().join("turn"));
    terminal.wait_for_status("WORKING");
    (Background::of(project), terminal, turn)
}

// Signals

#[test]
fn a_quit_signal_ends_a_headless_session_like_a_term_signal() {
    let project = project(TURN, &hook("session_end", "touch bye", ""));
    let (session, turn) = headless_turn(&project);
    session.signal(Signal::QUIT);
    assert_eq!(session.end().code, 130);
    assert_eq!(project.outcome().as_deref(), Some("cancelled"));
    assert!(project.root().join("bye").exists() && !lives(turn));
}

#[test]
fn a_quit_signal_ends_a_session_on_a_screen_and_restores_the_terminal() {
    let (session, mut terminal, turn) =
        screen_turn(project(TURN, &hook("session_end", "touch bye", "")));
    terminal.signal(Signal::QUIT);
    assert_eq!(terminal.end(), 130);
    terminal.is_as_it_was();
    session.ends("cancelled");
    assert!(session.project.root().join("bye").exists() && !lives(turn));
}

#[test]
fn ctrl_c_twice_on_a_screen_leaves_at_once_and_leaves_nothing_running() {
    let rest = hook("session_end", "touch bye", "");
    let (session, mut terminal, turn) =
        screen_turn(project(&format!("trap '' TERM; {TURN}"), &rest));
    terminal.press("ctrl-c");
    terminal.wait_for_text("Leave?");
    terminal.press("ctrl-c");
    assert_eq!(terminal.end(), 130);
    terminal.is_as_it_was();
    assert!(
        terminal
            .text()
            .contains("continue it with `creel resume s`"),
        "{}",
        terminal.text()
    );
    assert!(!lives(turn) && !lives(session.pid));
    assert!(!session.project.root().join("bye").exists() && session.project.outcome().is_none());
    session.project.write("go", "");
    assert_eq!(session.project.creel(&["resume", "--headless"]).code, 0);
}

#[test]
fn a_process_that_hides_is_found_after_a_kill_where_the_system_has_control_groups() {
    let hide = format!(
        "( {ESCAPE} & ) > /dev/null 2>&1; until [ -s escaped ]; do sleep 0.02; done; {TURN}"
    );
    let project = project(&hide, "");
    let (session, _) = headless_turn(&project);
    let note = project.root().join(".creel/sessions/s/cgroup");
    let group = fs::read_to_string(&note).ok();
    let escaped = number_in(&project.root().join("escaped"));
    session.signal(Signal::KILL);
    session.end();
    project.write("go", "");
    let next = project.creel(&["run", "--headless", "--trust", "-s", "next", "GOAL"]);
    assert_eq!(next.code, 0, "{}", next.err);
    // Otherwise this system has no control groups that creel can use.
    let Some(group) = group else { return };
    assert!(!lives(escaped), "{}", next.err);
    assert!(
        !note.exists() && !Path::new(&group).exists(),
        "the group is gone, too"
    );
}

#[test]
fn a_small_stack_is_enough() {
    let project = Project::with(
        "prompt: GOAL\nagent: sh\nagents: { sh: { command: 'echo \"<promise>COMPLETE</promise>\"' } }\n",
    );
    let creel = project.command(&["run", "--headless", "--trust", "-s", "s"]);
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg("ulimit -s 256; exec \"$0\" \"$@\"")
        .arg(creel.get_program())
        .args(creel.get_args());
    shell.current_dir(project.root()).envs(
        creel
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let ran = shell.output().expect("a shell");
    assert_eq!(
        ran.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

#[test]
fn a_limit_on_the_size_of_files_ends_the_session_with_a_reason_and_leaves_nothing_running() {
    // Each turn adds to the journal until the file size limit is reached.
    let project = Project::with(
        "prompt: GOAL\nagent: sh\nagents:\n  sh:\n    command: |\n      \
         sleep 1000 & echo $! >> turns; echo $$ >> turns; head -c 20000 /dev/zero | tr '\\0' x\n",
    );
    let creel = project.command(&[]);
    let mut shell = Command::new("sh");
    let line = "ulimit -f 64; exec \"$0\" run --headless --trust -s s";
    shell
        .arg("-c")
        .arg(line)
        .arg(creel.get_program())
        .current_dir(project.root());
    shell
        .envs(
            creel
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env_remove("CREEL_SESSION");
    let ended = Ran::of(&shell.output().expect("a shell"));
    assert_eq!(ended.code, 1, "{}", ended.err);
    let why = format!(
        "cannot write {}: the size limit for files (`ulimit -f`) is reached",
        project.journal().display()
    );
    assert!(ended.err.contains(&why), "{}", ended.err);
    for pid in project.read("turns").lines() {
        assert!(!lives(pid.parse().expect("a number")));
    }
    let records = project.records();
    assert!(
        records
            .iter()
            .zip(1..)
            .all(|(record, seq)| record["seq"] == seq),
        "the journal is whole"
    );
}

/// A headless session that is started with these signals ignored.
fn started_ignoring(project: &Project, signals: &str) -> Started {
    let creel = project.command(&[]);
    let mut shell = Command::new("sh");
    let line = format!("trap '' {signals}; exec \"$0\" run --json --trust -s s");
    shell
        .arg("-c")
        .arg(line)
        .arg(creel.get_program())
        .current_dir(project.root());
    shell
        .envs(
            creel
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env_remove("CREEL_SESSION");
    Started::of(shell)
}

#[test]
fn signals_that_were_ignored_when_creel_started_do_not_end_it_and_are_not_ignored_by_hooks() {
    let project = project(
        TURN,
        &hook(
            "session_start",
            "grep SigIgn /proc/self/status > ignored",
            "",
        ),
    );
    let session = started_ignoring(&project, "INT QUIT HUP");
    let turn = number_in(&project.root().join("turn"));
    for signal in [Signal::INT, Signal::QUIT, Signal::HUP] {
        session.signal(signal);
    }
    let mask = project.read("ignored");
    let mask = u64::from_str_radix(mask.trim_start_matches("SigIgn:").trim(), 16).expect("a mask");
    assert_eq!(mask & 0b111, 0, "the hook ignores signals: {mask:x}");
    project.write("go", "");
    assert_eq!(session.end().code, 0);
    assert!(!lives(turn));
}

#[test]
fn a_term_signal_ends_creel_even_if_it_was_ignored() {
    let project = project(TURN, "");
    let session = started_ignoring(&project, "INT QUIT HUP TERM");
    let turn = number_in(&project.root().join("turn"));
    session.signal(Signal::TERM);
    assert_eq!(session.end().code, 130);
    assert!(!lives(turn));
}

// The process that runs the session is killed

#[test]
fn the_parent_ends_everything_when_the_process_that_runs_the_session_is_killed() {
    let agent = format!("{ESCAPE} & until [ -s escaped ]; do sleep 0.02; done; {TURN}");
    let (session, mut terminal, turn) = screen_turn(project(&agent, ""));
    let escaped = number_in(&session.project.root().join("escaped"));
    kill_process(process(session.pid), Signal::KILL).expect("it is there");
    assert_eq!(terminal.end(), 128 + 9);
    assert!(!lives(turn), "the agent is still running");
    assert!(
        !lives(escaped),
        "a process that left its group and cleared its environment is still running"
    );
    terminal.is_as_it_was();
    assert!(
        terminal.text().contains("was killed by signal 9"),
        "{}",
        terminal.text()
    );
    session.project.write("go", "");
    assert_eq!(session.project.creel(&["resume", "--headless"]).code, 0);
}

// Processes that leave their group and clear their environment

#[test]
fn a_process_that_escaped_from_a_hook_that_timed_out_ends_with_the_hook() {
    let command = format!("{ESCAPE} & sleep 1000");
    let project = project(TURN, &hook("session_start", &command, ", timeout: 4s"));
    let (session, _) = headless_turn(&project);
    let escaped = number_in(&project.root().join("escaped"));
    assert!(!lives(escaped));
    project.write("go", "");
    assert_eq!(session.end().code, 0);
}

#[test]
fn a_process_that_escaped_from_a_finished_hook_ends_with_the_session() {
    let command = format!("{ESCAPE} & until [ -s escaped ]; do sleep 0.02; done");
    for signal in [None, Some(Signal::TERM)] {
        let project = project(TURN, &hook("session_start", &command, ""));
        let (session, _) = headless_turn(&project);
        let escaped = number_in(&project.root().join("escaped"));
        assert!(
            lives(escaped),
            "a hook may leave something in the background"
        );
        match signal {
            Some(signal) => session.signal(signal),
            None => project.write("go", ""),
        }
        session.end();
        assert!(!lives(escaped), "{signal:?}");
    }
}

/// The dead, unreaped children of a process.
fn zombies_of(parent: u32) -> usize {
    let stats = fs::read_dir("/proc").expect("a process table").flatten();
    let stats = stats.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let is_zombie = |stat: &String| {
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .map_or("", |(_, rest)| rest)
            .split_whitespace()
            .collect();
        matches!(fields[..], ["Z", ppid, ..] if ppid == parent.to_string())
    };
    stats.filter(is_zombie).count()
}

#[test]
fn creel_reaps_the_orphans_that_it_adopts() {
    // Each of them is orphaned for a moment, then dead.
    let command = "for n in 1 2 3 4 5; do (sh -c \"sleep 0.1\" &); done; touch orphans";
    let project = project(TURN, &hook("session_start", command, ""));
    let (session, _) = headless_turn(&project);
    assert!(project.root().join("orphans").exists());
    until("no orphan is left as a zombie", || {
        let children = fs::read_dir("/proc").expect("a process table").flatten();
        let sleeping = children
            .filter_map(|entry| fs::read(entry.path().join("environ")).ok())
            .filter(|environ| {
                let root = project.root();
                let root = root.to_string_lossy();
                String::from_utf8_lossy(environ).contains(&format!("CREEL_PROJECT={root}"))
            })
            .count();
        // Only the turn and its `sleep` may be left.
        sleeping <= 2 && zombies_of(session.pid()) == 0
    });
    project.write("go", "");
    assert_eq!(session.end().code, 0);
}

#[test]
fn creel_leaves_inherited_children_alone() {
    let project = project("touch asked", "");
    let creel = project.command(&[]);
    let mut shell = Command::new("sh");
    // `exec` makes the shell's child a child of creel.
    let line =
        "sleep 1000 >/dev/null 2>&1 & echo $! > inherited; exec \"$0\" run --json --trust -s s";
    shell
        .arg("-c")
        .arg(line)
        .arg(creel.get_program())
        .current_dir(project.root());
    shell
        .envs(
            creel
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env_remove("CREEL_SESSION");
    let ended = Started::of(shell).end();
    assert_eq!(ended.code, 0, "{}", ended.err);
    let inherited = number_in(&project.root().join("inherited"));
    assert!(lives(inherited));
    kill_process(process(inherited), Signal::KILL).expect("it is there");
}

// Leftover processes of dead sessions

#[test]
fn a_new_run_ends_the_processes_of_a_killed_session_and_says_so() {
    let project = project(TURN, "");
    let (session, turn) = headless_turn(&project);
    session.kill();
    assert!(lives(turn));
    let next = "prompt: GOAL\nagent: sh\nagents: { sh: { command: 'echo \"<promise>COMPLETE</promise>\"' } }\n";
    project.write("creel.yaml", next);
    let Ran { code, out, err } = project.creel(&["run", "--headless", "--trust", "-s", "next"]);
    assert_eq!(code, 0, "{err}");
    assert!(!lives(turn), "two agents ran side by side");
    assert!(out.contains("that session `s` left running"), "{out}{err}");
}

#[test]
fn resume_says_what_it_ended() {
    let project = project(TURN, "");
    let (session, turn) = headless_turn(&project);
    session.kill();
    assert!(lives(turn));
    let mut resumed = Started::of(project.command(&["resume", "--json", "s"]));
    let warning = resumed.wait_for("warning");
    assert!(
        warning["text"]
            .as_str()
            .is_some_and(|text| text.contains("left running")),
        "{warning}"
    );
    assert!(!lives(turn));
    project.write("go", "");
    assert_eq!(resumed.end().code, 0);
}

#[test]
fn a_new_run_leaves_the_processes_of_running_sessions_alone() {
    let project = project(TURN, "");
    let (session, turn) = headless_turn(&project);
    let other =
        Started::of(project.command(&["run", "--json", "--trust", "--force", "-s", "next"]));
    until("the other session works", || {
        project
            .read(".creel/sessions/next/journal.jsonl")
            .contains("\"kind\":\"prompt_sent\"")
    });
    assert!(lives(turn));
    project.write("go", "");
    assert_eq!([session.end().code, other.end().code], [0, 0]);
}

#[test]
fn resume_waits_for_the_lock_of_a_creel_that_is_still_dying() {
    let project = project(TURN, "");
    let (session, _) = headless_turn(&project);
    session.kill();
    // As if the last thread of the dead process had not ended yet.
    let lock = fs::File::open(project.journal()).expect("a journal");
    lock.lock().expect("the lock is free");
    let mut resumed = Started::of(project.command(&["resume", "--json", "s"]));
    let files = format!("/proc/{}/fd", resumed.pid());
    until("it has opened the journal", || {
        let files = fs::read_dir(&files).into_iter().flatten().flatten();
        files
            .filter_map(|file| fs::read_link(file.path()).ok())
            .any(|file| file == project.journal())
    });
    // For longer than a look at the session takes.
    let since = Instant::now();
    until("it has waited", || {
        since.elapsed() > Duration::from_millis(400)
    });
    drop(lock);
    resumed.wait_for("session_resumed");
    project.write("go", "");
    assert_eq!(resumed.end().code, 0);
}
