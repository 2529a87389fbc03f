//! How a command runs and ends, with real processes: each promise of the design.

use std::time::{Duration, Instant};

use creel::process::{
    children,
    process_table::ProcessTable,
    run::{ProcessEnd, ProcessSpec, run},
    sweep::{self, ProcessSweep, SweepReach},
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    Memory, alive_with_mark, eventually, folder, in_folder, lives, mark, pid_in, spec,
};

async fn ran(spec: ProcessSpec) -> (ProcessEnd, Memory) {
    let mut memory = Memory::default();
    let end = run(spec, &mut memory, &CancellationToken::new()).await;
    (end, memory)
}

#[tokio::test]
async fn both_streams_and_the_exit_code_are_returned() {
    let dir = folder();
    let (end, memory) = ran(spec("echo out; echo err >&2; exit 3", dir.path(), "both")).await;
    assert_eq!(
        (end, memory.stdout().as_str(), memory.stderr().as_str()),
        (ProcessEnd::Exit(3), "out\n", "err\n")
    );
}

#[tokio::test]
async fn death_by_signal_is_reported() {
    let dir = folder();
    let (end, _) = ran(spec("kill -9 $$", dir.path(), "signal")).await;
    assert_eq!(end, ProcessEnd::Signal(9));
}

/// Runs until the command has written a process id to this file, then cancels. Returns that process
/// id.
async fn cancelled_at(spec: ProcessSpec, file: &str) -> (ProcessEnd, Memory, i32) {
    let mut memory = Memory::default();
    let cancel = CancellationToken::new();
    let file = spec.cwd.join(file);
    let (end, pid) = tokio::join!(run(spec, &mut memory, &cancel), async {
        let pid = pid_in(&file).await;
        cancel.cancel();
        pid
    });
    (end, memory, pid)
}

#[tokio::test]
async fn a_timeout_keeps_what_was_printed_on_both_streams() {
    let dir = folder();
    let mut spec = spec("echo out; echo err >&2; sleep 1000", dir.path(), "timeout");
    spec.timeout = Some(Duration::from_secs(2));
    spec.grace = Duration::from_mins(1);
    let started = Instant::now();
    let (end, memory) = ran(spec).await;
    assert_eq!(
        (end, memory.stdout().as_str(), memory.stderr().as_str()),
        (ProcessEnd::TimedOut, "out\n", "err\n")
    );
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "what obeys TERM does not use up the grace"
    );
    eventually("all are gone", || {
        alive_with_mark(&mark("timeout")).is_empty()
    })
    .await;
}

#[tokio::test]
async fn grandchildren_are_ended() {
    let dir = folder();
    let command = "(sh -c 'echo $$ > deep; exec sleep 1000') & sleep 1000";
    let (end, _, deep) = cancelled_at(spec(command, dir.path(), "deep"), "deep").await;
    assert_eq!(end, ProcessEnd::Cancelled);
    assert!(!lives(deep));
}

#[tokio::test]
async fn a_process_that_left_the_group_is_ended_too() {
    let dir = folder();
    let command = "setsid sh -c 'echo $$ > away; exec sleep 1000' & sleep 1000";
    let (end, _, away) = cancelled_at(spec(command, dir.path(), "setsid"), "away").await;
    assert_eq!(end, ProcessEnd::Cancelled);
    assert!(!lives(away));
}

#[tokio::test]
async fn a_process_that_ignores_term_is_killed_after_the_grace_period() {
    let dir = folder();
    let mut spec = spec(
        "trap '' TERM; echo $$ > stubborn; while :; do sleep 0.05; done",
        dir.path(),
        "stubborn",
    );
    spec.grace = Duration::from_millis(200);
    let started = Instant::now();
    let (end, _, stubborn) = cancelled_at(spec, "stubborn").await;
    assert_eq!(end, ProcessEnd::Cancelled);
    assert!(started.elapsed() >= Duration::from_millis(200));
    assert!(!lives(stubborn));
}

#[tokio::test]
async fn a_child_that_ignores_term_is_killed_even_if_the_leader_is_gone() {
    let dir = folder();
    let command = "sh -c 'trap \"\" TERM; echo $$ > child; while :; do sleep 0.05; done' & wait";
    let mut spec = spec(command, dir.path(), "orphan");
    spec.grace = Duration::from_millis(200);
    let (end, _, child) = cancelled_at(spec, "child").await;
    assert_eq!(end, ProcessEnd::Cancelled);
    assert!(!lives(child));
}

#[tokio::test]
async fn output_after_term_is_kept() {
    let dir = folder();
    let command = "trap 'echo cleaned up; exit 1' TERM; echo ready; while :; do sleep 0.02; done";
    let cancel = CancellationToken::new();
    let mut memory = Memory::default();
    let seen = memory.clone();
    let spec = spec(command, dir.path(), "goodbye");
    let (end, ()) = tokio::join!(run(spec, &mut memory, &cancel), async {
        eventually("live output", || seen.stdout() == "ready\n").await;
        cancel.cancel();
    });
    assert_eq!(
        (end, memory.stdout().as_str()),
        (ProcessEnd::Cancelled, "ready\ncleaned up\n")
    );
}

#[tokio::test]
async fn term_is_sent_once_and_a_process_that_cleans_up_is_left_alone() {
    let dir = folder();
    let command = "trap 'echo told; sh -c \"sleep 0.2; echo cleaned up\"; exit 1' TERM
        echo $$ > ready; while :; do sleep 0.02; done";
    let (end, memory, _) = cancelled_at(spec(command, dir.path(), "once"), "ready").await;
    assert_eq!(
        (end, memory.stdout().as_str()),
        (ProcessEnd::Cancelled, "told\ncleaned up\n")
    );
}

#[tokio::test]
async fn a_dropped_run_leaves_no_process() {
    let dir = folder();
    let mut memory = Memory::default();
    let command =
        "setsid sh -c 'echo $$ > away; exec sleep 1000' & echo $$ > leader; exec sleep 1000";
    let spec = spec(command, dir.path(), "dropped");
    let cancel = CancellationToken::new();
    let (mut leader, mut away) = (0, 0);
    tokio::select! {
        end = run(spec, &mut memory, &cancel) => panic!("it must not end: {end:?}"),
        () = async {
            leader = pid_in(&in_folder(&dir, "leader")).await;
            away = pid_in(&in_folder(&dir, "away")).await;
        } => {}
    }
    eventually("both are gone", || !lives(leader) && !lives(away)).await;
}

#[tokio::test]
async fn a_background_child_blocks_nothing_and_lives_until_the_sweep() {
    let dir = folder();
    let command = "(while :; do echo noise; sleep 0.05; done) & echo $! > background; echo done";
    let started = Instant::now();
    let (end, memory) = ran(spec(command, dir.path(), "background")).await;
    assert_eq!(end, ProcessEnd::Exit(0));
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(memory.stdout().contains("done\n"));
    let background = pid_in(&in_folder(&dir, "background")).await;
    assert!(
        lives(background),
        "it may keep running, although its output is no longer read"
    );
    assert!(alive_with_mark(&mark("background")).contains(&background));
    let ended = sweep::end_all(
        &mark("background"),
        &memory.groups(),
        Duration::from_secs(2),
    )
    .await;
    assert!(ended >= 1);
    assert!(!lives(background));
}

#[tokio::test]
async fn a_group_is_ended_even_without_its_mark() {
    let dir = folder();
    let command = "env -i sh -c 'echo $$ > bare; exec sleep 1000' >/dev/null 2>&1 & exit 0";
    let (_, memory) = ran(spec(command, dir.path(), "bare")).await;
    let bare = pid_in(&in_folder(&dir, "bare")).await;
    assert!(lives(bare));
    assert_eq!(
        sweep::kill_all_now("test-no-such-mark", &memory.groups()),
        1
    );
    eventually("it is gone", || !lives(bare)).await;
}

#[tokio::test]
async fn an_unrelated_process_with_the_same_pid_is_spared() {
    let dir = folder();
    let (_, memory) = ran(spec(
        "sleep 1000 >/dev/null 2>&1 & echo $! > own",
        dir.path(),
        "stranger",
    ))
    .await;
    let own = pid_in(&in_folder(&dir, "own")).await;
    let mut group = creel::process::run::ProcessGroup::led_by(own);
    group.start = group.start.map(|start| start - 1);
    assert_eq!(sweep::kill_all_now("test-no-such-mark", &[group]), 0);
    assert!(lives(own));
    sweep::kill_all_now(&mark("stranger"), &memory.groups());
}

#[tokio::test]
async fn unread_input_does_not_block() {
    let dir = folder();
    let mut unread = spec("exec sleep 0.1", dir.path(), "unread");
    unread.stdin = vec![b'x'; 1024 * 1024];
    assert_eq!(ran(unread).await.0, ProcessEnd::Exit(0));
    let mut closed = spec("exec <&-; echo closed", dir.path(), "closed");
    closed.stdin = vec![b'x'; 1024 * 1024];
    assert_eq!(ran(closed).await.0, ProcessEnd::Exit(0));
}

#[tokio::test]
async fn input_and_output_larger_than_any_pipe_do_not_deadlock() {
    let dir = folder();
    let mut spec = spec("exec cat", dir.path(), "cat");
    spec.stdin = (0..3_000_000u32).map(|n| n.to_le_bytes()[0]).collect();
    let sent = spec.stdin.clone();
    let (end, memory) = ran(spec).await;
    assert_eq!(end, ProcessEnd::Exit(0));
    assert!(memory.stdout_bytes() == sent, "the bytes differ");
}

#[tokio::test]
async fn a_missing_folder_is_a_distinct_error() {
    let dir = folder();
    let gone = in_folder(&dir, "gone");
    let (end, _) = ran(spec("true", &gone, "gone")).await;
    assert_eq!(
        end,
        ProcessEnd::SpawnFailed(format!("the folder {} no longer exists", gone.display()))
    );
}

#[tokio::test]
async fn a_command_that_is_too_long_is_reported() {
    let dir = folder();
    let (end, _) = ran(spec(
        &format!(": {}", "x".repeat(3 * 1024 * 1024)),
        dir.path(),
        "long",
    ))
    .await;
    assert!(
        matches!(&end, ProcessEnd::SpawnFailed(why) if why.contains("too long")),
        "{end:?}"
    );
}

#[tokio::test]
async fn a_run_cancelled_beforehand_does_not_start() {
    let dir = folder();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let mut memory = Memory::default();
    assert_eq!(
        run(
            spec("touch started", dir.path(), "before"),
            &mut memory,
            &cancel
        )
        .await,
        ProcessEnd::Cancelled
    );
    assert!(!in_folder(&dir, "started").exists());
}

// Where the system has no list of processes, as on macOS

#[tokio::test]
async fn without_start_times_a_group_of_an_earlier_process_is_left_alone() {
    use std::os::unix::process::CommandExt as _;
    let mut stranger = std::process::Command::new("sleep")
        .arg("1000")
        .process_group(0)
        .spawn()
        .expect("sleep");
    let pid = i32::try_from(stranger.id()).expect("a number");
    for start in [None, Some(0), Some(7)] {
        let groups = [creel::process::run::ProcessGroup { pid, start }];
        for reach in [SweepReach::Marked, SweepReach::WithOrphans] {
            let sweep = || {
                ProcessSweep::with_table(ProcessTable::Absent, "test-no-such-mark", &groups, reach)
            };
            assert_eq!(
                (sweep().kill(), sweep().end(Duration::ZERO).await),
                (0, 0),
                "{start:?}"
            );
        }
    }
    assert!(lives(pid));
    // Nor if there is a list, but the journal has no start time.
    let unknown = [creel::process::run::ProcessGroup { pid, start: None }];
    assert_eq!(sweep::kill_all_now("test-no-such-mark", &unknown), 0);
    assert!(lives(pid));
    stranger
        .kill()
        .and_then(|()| stranger.wait())
        .expect("it ended");
}

#[tokio::test]
async fn without_a_list_of_processes_a_group_ends_while_its_leader_is_a_child() {
    let dir = folder();
    let memory = Memory::default();
    let cancel = CancellationToken::new();
    let (mut watch, token) = (memory.clone(), cancel.clone());
    let line = "sleep 1000 & echo $! > child; wait";
    let spec = spec(line, dir.path(), "absent");
    let running = tokio::spawn(async move { run(spec, &mut watch, &token).await });
    let child = pid_in(&in_folder(&dir, "child")).await;
    let groups = memory.groups();
    let sweep = ProcessSweep::with_table(ProcessTable::Absent, "", &groups, SweepReach::Marked);
    assert_eq!(sweep.kill(), 1);
    assert_eq!(running.await.expect("it ran"), ProcessEnd::Signal(9));
    eventually("it is gone", || !lives(child)).await;
}

#[tokio::test]
async fn nothing_starts_for_a_session_that_is_being_ended_at_once() {
    let dir = folder();
    children::refuse_new(&mark("refused"));
    let (end, _) = ran(spec("touch started", dir.path(), "refused")).await;
    assert_eq!(
        end,
        ProcessEnd::SpawnFailed("creel is ending this session".into())
    );
    assert!(!in_folder(&dir, "started").exists());
}
