//! Leaving the screen of a session that continues, and the two processes behind it.

use std::fs;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::{
    attach::Background,
    support::{
        lives,
        project::{Project, eventually_in, until},
        terminal::{Cells, Terminal},
    },
};

const WIDE: Cells = (120, 40);

/// A turn that lasts until the file `go` exists.
const UNTIL_GO: &str = "  - { say: '<promise>COMPLETE</promise>', run: 'echo $$ > turn; until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }\n";
const COMPLETE: &str = "  - say: '<promise>COMPLETE</promise>'\n";

/// A project with a scripted agent.
fn scripted(rest: &str, turns: &str) -> Project {
    Project::with(&format!(
        "prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\n{rest}"
    ))
    .file(
        "scenario.yaml",
        &format!("turns:\n{turns}otherwise: {{ say: '<promise>COMPLETE</promise>' }}\n"),
    )
}

/// A session on a screen in the middle of a turn, and the process of that turn.
#[track_caller]
fn in_a_turn(rest: &str) -> (Background, Terminal, i32) {
    // A scripted agent does not repeat a cut turn: the second one is for sessions that continue.
    let project = scripted(rest, &UNTIL_GO.repeat(2));
    let terminal = Terminal::run(&project, WIDE);
    let turn = eventually_in(&project.root().join("turn"))
        .parse()
        .expect("a number");
    terminal.wait_for_status("WORKING");
    (Background::of(project), terminal, turn)
}

fn process(pid: i32) -> Pid {
    Pid::from_raw(pid).expect("a process")
}

/// The parent process, which only waits.
fn holder(terminal: &Terminal) -> i32 {
    i32::try_from(terminal.pid()).expect("a number")
}

#[test]
fn a_session_left_running_continues_its_turn() {
    for keys in ["q d", "ctrl-d"] {
        let (session, mut terminal, turn) = in_a_turn("");
        terminal.press(keys);
        assert_eq!(terminal.end(), 0);
        terminal.is_as_it_was();
        let still_running = "creel: session `s` is still running; show it with `creel attach s`";
        assert!(
            terminal.text().contains(still_running),
            "{}",
            terminal.text()
        );
        // Close the terminal itself, too.
        drop(terminal);
        assert!(lives(session.pid) && lives(turn));
        session.has_no_terminal();
        let status = session.project.creel(&["status"]);
        assert!(
            status.out.contains("the agent works"),
            "{}{}",
            status.out,
            status.err
        );
        let mut again = session.attach();
        again.wait_for_status("WORKING");
        session.project.write("go", "");
        again.wait_for_status("COMPLETE");
        again.press("q");
        assert_eq!(again.end(), 0);
        session.ends("complete");
        let count = |kind| session.project.kind(kind).len();
        assert_eq!(
            [
                "prompt_sent",
                "turn_ended",
                "stop_requested",
                "session_resumed"
            ]
            .map(count),
            [1, 1, 0, 0]
        );
    }
}

#[test]
fn a_shell_has_its_prompt_back_and_no_job_left() {
    let project = scripted("", UNTIL_GO);
    let creel = project.command(&[]);
    let mut shell = std::process::Command::new("sh");
    let job = format!(
        "set -m; '{}' run --trust -s s; echo code $?, jobs:$(jobs); read -r line",
        creel.get_program().display()
    );
    shell.arg("-c").arg(job).current_dir(project.root());
    shell
        .envs(
            creel
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env_remove("CREEL_SESSION");
    let mut terminal = Terminal::start(shell, WIDE);
    terminal.wait_for_status("WORKING");
    terminal.press("ctrl-d");
    terminal.wait_for_text("code 0, jobs:\n");
    let session = Background::of(project);
    // The shell ends with its terminal, as at the end of a day.
    terminal.signal(Signal::HUP);
    terminal.end();
    assert!(lives(session.pid));
    session.project.write("go", "");
    session.ends("complete");
}

#[test]
fn a_session_left_running_waits_at_its_gates_and_ends_normally() {
    let (session, mut terminal, turn) =
        in_a_turn("hooks: { session_end: [{ command: 'touch bye' }] }");
    terminal.press("ctrl-d");
    assert_eq!(terminal.end(), 0);
    assert_eq!(session.project.creel(&["pause"]).code, 0);
    session.waits_for("paused");
    kill_process(process(session.pid), Signal::TERM).expect("it is there");
    session.ends("cancelled");
    assert!(session.project.root().join("bye").exists() && !lives(turn));
    let said = fs::read_to_string(session.project.state_dir().join("creel/log/background.log"))
        .expect("a log");
    assert!(said.contains("continue with `creel resume s`"), "{said}");
}

#[test]
fn a_session_left_running_can_be_resumed_on_a_screen_and_left_again() {
    let (session, mut terminal, _) = in_a_turn("");
    terminal.press("ctrl-d");
    terminal.end();
    assert_eq!(session.project.creel(&["stop", "--now"]).code, 0);
    session.ends("cancelled");
    fs::remove_file(session.project.root().join("turn")).expect("it was there");
    let mut terminal = Terminal::open(&session.project, &["resume", "s"], WIDE);
    eventually_in(&session.project.root().join("turn"));
    terminal.wait_for_status("WORKING");
    terminal.press("ctrl-d");
    assert_eq!(terminal.end(), 0);
    session.project.write("go", "");
    until("it has ended", || {
        session.project.outcome().as_deref() == Some("complete")
    });
}

// The parent process and the session process

#[test]
fn killing_the_parent_process_kills_everything_at_once() {
    let (session, mut terminal, turn) = in_a_turn("");
    assert_ne!(session.pid, holder(&terminal));
    terminal.signal(Signal::KILL);
    terminal.end();
    terminal.is_as_it_was();
    until("nothing is left", || !lives(session.pid) && !lives(turn));
    session.project.write("go", "");
    let resumed = session.project.creel(&["resume", "s", "--headless"]);
    assert_eq!(resumed.code, 0, "{}", resumed.err);
    assert_eq!(session.project.outcome().as_deref(), Some("complete"));
}

#[test]
fn the_terminal_is_restored_when_the_session_is_killed() {
    let (session, mut terminal, _) = in_a_turn("");
    assert_ne!(terminal.settings(), terminal.before);
    kill_process(process(session.pid), Signal::KILL).expect("it is there");
    assert_eq!(terminal.end(), 128 + 9);
    terminal.is_as_it_was();
    let text = terminal.text();
    assert!(
        text.contains("creel: the session was killed by signal 9; "),
        "{text}"
    );
    assert!(text.contains("continue it with `creel resume`"), "{text}");
    session.project.write("go", "");
    assert_eq!(session.project.creel(&["resume", "--headless"]).code, 0);
}

#[test]
fn a_signal_to_both_is_one_signal() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let end = "sleep 0.2; touch bye";
        let (session, mut terminal, turn) = in_a_turn(&format!(
            "hooks: {{ session_end: [{{ command: '{end}' }}] }}"
        ));
        kill_process_group(process(holder(&terminal)), signal).expect("it is there");
        assert_eq!(terminal.end(), 130);
        terminal.is_as_it_was();
        session.ends("cancelled");
        assert!(
            session.project.root().join("bye").exists() && !lives(turn),
            "{signal:?}"
        );
    }
}

#[test]
fn terminal_signals_before_the_screen_opens_end_both_processes() {
    let project = scripted(
        "hooks: { session_start: [{ command: 'touch ran' }] }",
        COMPLETE,
    );
    let mut terminal = Terminal::open(&project, &["run", "-s", "s"], WIDE);
    terminal.wait_for_text("[y/N]");
    terminal.press("ctrl-c");
    assert_eq!(terminal.end(), 130);
    assert_eq!(terminal.settings(), terminal.before);
    assert!(
        !terminal.text().contains("was killed"),
        "{}",
        terminal.text()
    );
    assert!(!project.root().join("ran").exists());
}

#[test]
fn hooks_and_agents_do_not_see_the_parent_process() {
    let look = |name: &str| format!("env > {name}.env; readlink /proc/self/fd/* > {name}.files");
    let rest = format!(
        "hooks: {{ session_start: [{{ command: '{}' }}] }}",
        look("hook")
    );
    let project = scripted(
        &rest,
        &format!(
            "  - {{ say: '<promise>COMPLETE</promise>', run: '{}' }}\n",
            look("agent")
        ),
    );
    let mut terminal = Terminal::run(&project, WIDE);
    terminal.wait_for_status("COMPLETE");
    terminal.press("q");
    assert_eq!(terminal.end(), 0);
    for who in ["hook", "agent"] {
        let files = project.read(&format!("{who}.files"));
        assert!(
            !files.is_empty() && !files.contains("/dev/pts") && !files.contains("socket"),
            "{who}: {files}"
        );
        let variables = project.read(&format!("{who}.env"));
        let mut ours: Vec<&str> = variables
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, _)| name)
            .collect();
        ours.retain(|name| name.starts_with("CREEL"));
        ours.sort_unstable();
        let known = [
            "CREEL_HOOK",
            "CREEL_MARK",
            "CREEL_POINT",
            "CREEL_PROJECT",
            "CREEL_SESSION",
        ];
        assert!(
            ours.contains(&"CREEL_SESSION") && ours.iter().all(|name| known.contains(name)),
            "{who}: {ours:?}"
        );
    }
}
