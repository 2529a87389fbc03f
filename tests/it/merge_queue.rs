//! The merge queue: what it checks, in batches, and who merges.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use creel::process::process_table::ProcessTable;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    farm_kills::{KILLED, strike},
    kills::{Dice, number, seed},
    support::{
        git_project::{git, repository, with_remote},
        nats::NatsServer,
        project::{Project, Started, eventually_in, until},
    },
    task_branches::{add, clone_of, drain, files, log_file, task, tasks, with_agent},
    worktree::git_that,
};

#[test]
fn what_a_check_leaves_behind_is_blamed_on_no_task_and_on_no_base() {
    let check = "test -e .env && test -e .made && test ! -e .ready || exit 1; [ ! -e one.txt ] || touch .ready";
    let more = format!(
        "submit: {{ test_command: '{check}' }}\nworktree: {{ copy: [.env], setup: ['touch .made'] }}"
    );
    let project = with_agent(&more, with_remote);
    let exclude = project.root().join(".git/info/exclude");
    fs::write(exclude, ".made\n").expect("it is ours");
    project.write(".env", "");
    for name in ["one", "two"] {
        add(&project, &format!("write {name}.txt"), &[]);
    }
    drain(&project, "1");
    // The check of the first task leaves a file behind, and so does that of the last one.
    for next in ["three", "four"] {
        let merged = project.creel(&["merge", "--queue", "--batch", "1"]);
        assert_eq!(merged.code, 0, "{}", merged.err);
        assert!(
            merged.err.contains("once more, in a new worktree"),
            "{}",
            merged.err
        );
        add(&project, &format!("write {next}.txt"), &[]);
        drain(&project, "1");
    }
    let on_main = files(&project, "origin/main");
    assert!(
        ["one", "two", "three"]
            .iter()
            .all(|name| on_main.contains(name)),
        "{on_main}"
    );
}

#[test]
fn a_base_that_passes_only_thanks_to_leftovers_is_red_and_no_task_is_blamed() {
    let check = "if test -e two.txt; then rm -f left; touch ../../../down; exit 1; fi; \
                 test -e left || ! test -e ../../../down || exit 1; touch left";
    let project = with_agent(
        &format!("submit: {{ test_command: '{check}' }}"),
        with_remote,
    );
    fs::write(project.root().join(".git/info/exclude"), "left\n").expect("it is ours");
    for name in ["one", "two"] {
        add(&project, &format!("write {name}.txt"), &[]);
    }
    drain(&project, "1");
    let merged = project.creel(&["merge", "--queue", "--batch", "1"]);
    assert!(
        merged.code == 4 && merged.err.contains("the base branch does not pass"),
        "{}",
        merged.err
    );
    assert_eq!(merged_ids(&project), ["1"], "{}", merged.err);
    assert!(task(&project, "2")["sentBack"].is_null());
}

#[test]
fn what_the_merge_queue_tests_is_reported_while_its_checks_run() {
    if ProcessTable::of_system() == ProcessTable::Absent {
        return;
    }
    // The checks run in the merge queue's own worktree, below the project's folder.
    let check =
        "cat ../merge-queue.report >> ../../../reports 2>/dev/null; echo >> ../../../reports";
    let more = format!("submit: {{ test_command: '{check}' }}");
    let project = with_agent(&more, with_remote);
    for name in ["one", "two"] {
        add(&project, &format!("write {name}.txt"), &[]);
    }
    drain(&project, "1");
    let merged = project.creel(&["merge", "--queue"]);
    assert_eq!(merged.code, 0, "{}", merged.err);
    let reports = fs::read_to_string(project.root().join("reports")).expect("the checks ran");
    let reports = reports.lines().filter(|line| !line.is_empty());
    let tested: Vec<Value> = reports
        .map(|line| {
            let report: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(
                (&report["number"], &report["checks"]),
                (&1.into(), &1.into())
            );
            report["tasks"].clone()
        })
        .collect();
    assert_eq!(
        tested,
        [serde_json::json!([]), serde_json::json!(["1", "2"])]
    );
    let left = project.root().join(".creel/worktrees/merge-queue.report");
    assert!(!left.exists(), "nothing is tested any more");
}

#[test]
fn what_the_remote_refuses_keeps_no_other_task_of_its_batch() {
    let project = with_agent("", with_remote);
    for name in ["one", "two", "three"] {
        add(&project, &format!("write {name}.txt"), &[]);
    }
    drain(&project, "1");
    let remote = git(&project, &["remote", "get-url", "origin"]);
    executable(
        &Path::new(&remote).join("hooks/pre-receive"),
        "while read old new ref; do ! git ls-tree -r --name-only $new | grep -q two.txt || { echo no twos; exit 1; }; done",
    );
    let merged = project.creel(&["merge", "--queue"]);
    assert!(
        merged.code == 1 && merged.err.contains("task 2 is not merged"),
        "{}",
        merged.err
    );
    assert_eq!(merged_ids(&project), ["1", "3"], "{}", merged.err);
    assert!(task(&project, "2")["sentBack"].is_null());
}

#[test]
fn without_a_remote_the_base_stays_the_branch_on_which_the_merger_began() {
    let project = with_agent("", repository);
    let watching = Background::start(&project, "watch.log", &["merge", "--queue", "--watch"]);
    watching.says("merging finished tasks as they come");
    git(&project, &["switch", "--quiet", "--create", "other"]);
    add(&project, "write one.txt", &[]);
    drain(&project, "1");
    until("it is merged", || is_merged(&project, "1", &[]));
    assert!(files(&project, "main").contains("one.txt"));
    assert!(!files(&project, "other").contains("one.txt"));
    assert_eq!(watching.end(Signal::INT), Some(130));
}

#[test]
fn a_change_that_the_merge_queue_merged_counts_once_in_the_sums() {
    let project = with_agent("", repository);
    for name in ["one", "two", "three"] {
        add(&project, &format!("write {name}.txt"), &[]);
    }
    drain(&project, "1");
    let merged = |sessions: usize| {
        let ran = project.creel(&["stats", "--json"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let sums: Value = serde_json::from_str(&ran.out).expect("JSON");
        assert_eq!(sums["total"]["sessions"], sessions, "{sums:#}");
        sums["total"]["merged"].clone()
    };
    assert_eq!(merged(3), 0);
    for _ in 0..2 {
        let ran = project.creel(&["merge", "--queue"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert_eq!(merged(3), 3);
    }
}

#[test]
fn the_checks_of_sessions_run_on_what_is_merged_and_none_runs_twice() {
    let check = "echo ran >> ../../../runs; test ! -e one.txt || test ! -e two.txt";
    let more = format!(
        "checks: ['{check}']\nhooks: {{ before_merge: [{{ name: same, command: '{check}' }}] }}"
    );
    let project = with_agent(&more, repository);
    for name in ["one", "two"] {
        add(&project, &format!("write {name}.txt"), &[]);
    }
    drain(&project, "1");
    assert!(
        tasks(&project)
            .iter()
            .all(|task| task["state"] == "completed")
    );
    fs::remove_file(project.root().join("runs")).expect("the checks ran");
    let merged = project.creel(&["merge", "--queue", "--batch", "1"]);
    assert_eq!(merged.code, 1, "{}", merged.err);
    // The base, the first task, the second one twice: in a used worktree and in a new one, and there the base.
    assert_eq!(project.read("runs").lines().count(), 5, "{}", merged.err);
    let sent = task(&project, "2");
    assert!(
        sent["feedback"]
            .as_str()
            .is_some_and(|why| why.contains("does not pass (exit 1")),
        "{sent}"
    );
    assert!(git(&project, &["ls-files"]).contains("one.txt"));
}

/// The commits of the base branch by its first parents, without those before creel's.
fn first_parents(project: &Project) -> Vec<String> {
    git(project, &["fetch", "--quiet", "origin"]);
    let log = git(
        project,
        &["log", "--first-parent", "--format=%H", "main..origin/main"],
    );
    log.lines().map(str::to_owned).collect()
}

fn merged_ids(project: &Project) -> Vec<String> {
    let trailers = "--format=%(trailers:key=Creel-Task,valueonly,separator=%x2C)";
    let log = git(project, &["log", trailers, "--merges", "origin/main"]);
    let mut ids: Vec<String> = log
        .lines()
        // The commit of a batch names all of them.
        .filter(|id| !id.is_empty() && !id.contains(','))
        .map(str::to_owned)
        .collect();
    ids.sort();
    ids
}

#[test]
fn a_batch_is_tested_once_and_is_one_commit_of_the_base() {
    let project = with_agent(
        "submit: { test_command: 'echo ran >> ../../../runs' }",
        with_remote,
    );
    let one = add(&project, "write one.txt", &[]);
    add(&project, "write two.txt", &[&one]);
    for name in ["three", "four", "five"] {
        add(&project, &format!("write {name}.txt"), &[]);
    }
    drain(&project, "2");
    let merged = project.creel(&["merge", "--queue"]);
    assert_eq!(merged.code, 0, "{}", merged.err);
    // The base, four tasks together, and the last one.
    assert_eq!(project.read("runs").lines().count(), 3, "{}", merged.err);
    assert_eq!(first_parents(&project).len(), 2);
    assert_eq!(merged_ids(&project), ["1", "2", "3", "4", "5"]);
    assert!(
        tasks(&project)
            .iter()
            .all(|task| task["merged"].is_string())
    );
    assert_eq!(
        git(&project, &["branch", "--format=%(refname:short)"]),
        "main"
    );
    let bad = project.creel(&["merge", "--queue", "--batch", "0"]);
    assert!(
        bad.code == 2 && bad.err.contains("from 1 to 64"),
        "{}",
        bad.err
    );
}

#[test]
fn a_task_that_is_removed_while_it_is_tested_is_not_merged() {
    let check = "echo now > ../../../testing; until [ -e ../../../go ]; do sleep 0.02; done";
    let project = with_agent(
        &format!("submit: {{ test_command: '{check}' }}"),
        with_remote,
    );
    for name in ["one", "two"] {
        add(&project, &format!("write {name}.txt"), &[]);
    }
    drain(&project, "2");
    let merging = Started::of(project.command(&["merge", "--queue"]));
    eventually_in(&project.root().join("testing"));
    assert_eq!(project.creel(&["task", "remove", "--queue", "2"]).code, 0);
    project.write("go", "");
    let merged = merging.end();
    assert!(
        merged
            .err
            .contains("task 2 is not merged: it was changed while it was tested"),
        "{}",
        merged.err
    );
    assert_eq!(merged_ids(&project), ["1"], "{}", merged.err);
}

#[test]
fn a_red_batch_is_bisected_and_only_the_first_task_that_breaks_goes_back() {
    let project = with_agent("submit: { test_command: 'test ! -e bad.txt' }", with_remote);
    for name in ["one", "two", "bad", "four", "five"] {
        add(&project, &format!("write {name}.txt"), &[]);
    }
    drain(&project, "1");
    let merged = project.creel(&["merge", "--queue", "--batch", "5"]);
    assert_eq!(merged.code, 1, "{}", merged.err);
    assert_eq!(merged_ids(&project), ["1", "2", "4", "5"]);
    let sent = task(&project, "3");
    assert_eq!(
        (&sent["state"], &sent["sentBack"]),
        (&"ready".into(), &1.into()),
        "{sent}"
    );
    let commits = first_parents(&project);
    assert_eq!(commits.len(), 2, "those before it, and those after it");
    for commit in commits {
        assert!(!files(&project, &commit).contains("bad.txt"));
    }
}

#[test]
fn a_conflict_ends_a_batch_and_is_judged_alone() {
    let project = with_agent("submit: { test_command: 'true' }", with_remote);
    for goal in [
        "write one.txt",
        "write same.txt",
        "write same.txt",
        "write four.txt",
    ] {
        add(&project, goal, &[]);
    }
    drain(&project, "1");
    let merged = project.creel(&["merge", "--queue"]);
    assert_eq!(merged.code, 1, "{}", merged.err);
    assert_eq!(merged_ids(&project), ["1", "2", "4"]);
    let why = task(&project, "3")["feedback"].to_string();
    assert!(
        why.contains("conflicts with `origin/main` in same.txt"),
        "{why}"
    );
    drain(&project, "1");
    assert_eq!(project.creel(&["merge", "--queue"]).code, 0);
    assert_eq!(
        git(&project, &["show", "origin/main:same.txt"]),
        "task-2\ntask-3\ntask-3-2"
    );
}

/// A process that goes on until it gets a signal.
struct Background {
    child: Child,
    log: std::path::PathBuf,
}

impl Background {
    fn start(project: &Project, name: &str, args: &[&str]) -> Self {
        let child = project
            .command(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log_file(project, name))
            .spawn()
            .expect("creel starts");
        Self {
            child,
            log: project.temp_dir().join(name),
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn says(&self, words: &str) {
        until(&format!("it says: {words}"), || self.log().contains(words));
    }

    fn end(mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
        self.child.wait().expect("it ends").code()
    }
}

fn is_merged(project: &Project, id: &str, server: &[&str]) -> bool {
    let shown = project.creel(&[&["task", "show", "--queue", id, "--json"], server].concat());
    let task: Value = serde_json::from_str(&shown.out).expect("JSON");
    task["merged"].is_string()
}

#[test]
fn a_merger_that_watches_says_once_that_the_base_is_red_and_looks_again_when_it_moves() {
    let project = with_agent("submit: { test_command: 'test ! -e broken' }", with_remote);
    let watching = Background::start(&project, "watch.log", &["merge", "--queue", "--watch"]);
    watching.says("merging finished tasks as they come");
    add(&project, "write one.txt", &[]);
    drain(&project, "1");
    until("it is merged", || is_merged(&project, "1", &[]));
    git(
        &project,
        &["pull", "--quiet", "--ff-only", "origin", "main"],
    );
    let push = |message: &str| {
        git(&project, &["add", "--all", "."]);
        git(&project, &["commit", "--quiet", "-m", message]);
        git(&project, &["push", "--quiet", "origin", "main"]);
    };
    project.write("broken", "");
    push("a mistake");
    for name in ["two", "three"] {
        add(&project, &format!("write {name}.txt"), &[]);
        drain(&project, "1");
    }
    watching.says("the base branch does not pass");
    fs::remove_file(project.root().join("broken")).expect("it is there");
    push("repaired");
    until("they are merged", || {
        ["2", "3"].iter().all(|id| is_merged(&project, id, &[]))
    });
    let log = watching.log();
    assert_eq!(
        log.matches("the base branch does not pass").count(),
        1,
        "{log}"
    );
    assert!(task(&project, "2")["sentBack"].is_null());
    assert_eq!(watching.end(Signal::INT), Some(130));
}

#[test]
fn a_second_merger_waits_and_takes_over_when_the_first_one_dies() {
    let project = with_agent("", with_remote);
    let first = Background::start(&project, "first.log", &["merge", "--queue", "--watch"]);
    add(&project, "write one.txt", &[]);
    drain(&project, "1");
    until("it is merged", || is_merged(&project, "1", &[]));
    let second = Background::start(&project, "second.log", &["merge", "--queue", "--watch"]);
    second.says("merges this queue; waiting");
    // One that does not watch only waits for what is to be merged.
    let once = project.creel(&["merge", "--queue"]);
    assert!(
        once.code == 0 && once.err.contains("no finished task"),
        "{}",
        once.err
    );
    if cfg!(target_os = "linux") {
        kill_process(Pid::from_child(&first.child), Signal::STOP).expect("it runs");
        second.says("is stopped; continue it with `kill -CONT");
    }
    first.end(Signal::KILL);
    add(&project, "write two.txt", &[]);
    drain(&project, "1");
    until("it is merged", || is_merged(&project, "2", &[]));
    assert_eq!(second.end(Signal::TERM), Some(130));
}

#[test]
fn a_merger_on_another_machine_takes_over_when_the_lease_is_over() {
    let server = NatsServer::start();
    let url = server.url();
    let one = with_agent("", with_remote);
    let two = clone_of(&one);
    let nats = ["--nats", url.as_str()];
    let work = |project: &Project| {
        let ran = project.creel(&[&["worker", "--drain"][..], &nats].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
    };
    let add = |goal: &str| {
        let added = one.creel(&[&["task", "add", "--queue", goal][..], &nats].concat());
        assert_eq!(added.code, 0, "{}", added.err);
        added.out.trim().to_owned()
    };
    let merging = [
        &["worker", "--merge", "--types", "none", "--lease", "2s"][..],
        &nats,
    ]
    .concat();
    let first = Background::start(&one, "first.log", &merging);
    assert_eq!(add("write one.txt"), "1");
    work(&one);
    until("it is merged", || is_merged(&one, "1", &nats));
    let second = Background::start(
        &two,
        "second.log",
        &[&["merge", "--queue", "--watch"][..], &nats].concat(),
    );
    second.says("merges this queue; waiting");
    first.end(Signal::KILL);
    assert_eq!(add("write two.txt"), "2", "a lease is no task");
    work(&one);
    until("it is merged", || is_merged(&one, "2", &nats));
    assert_eq!(second.end(Signal::TERM), Some(130));
    // It leaves the lease to others at once.
    assert_eq!(add("write three.txt"), "3");
    work(&two);
    let last = one.creel(&[&["merge", "--queue"][..], &nats].concat());
    assert!(
        last.code == 0 && !last.err.contains("waiting"),
        "{}",
        last.err
    );
    assert!(is_merged(&one, "3", &nats));
}

#[test]
fn a_worker_that_merges_ends_when_everything_is_merged_that_can_be() {
    let project = with_agent("submit: { test_command: 'test ! -e broken' }", with_remote);
    add(&project, "write one.txt, repair", &[]);
    add(&project, "write two.txt", &[]);
    let worked = project.creel(&["worker", "--merge", "--drain", "--jobs", "2"]);
    assert_eq!(worked.code, 0, "{}", worked.err);
    assert!(
        worked.err.contains("task 1 goes back to the queue"),
        "{}",
        worked.err
    );
    assert_eq!(merged_ids(&project), ["1", "2"]);
    // A red base is up to the user.
    git(
        &project,
        &["pull", "--quiet", "--ff-only", "origin", "main"],
    );
    project.write("broken", "");
    git(&project, &["add", "broken"]);
    git(&project, &["commit", "--quiet", "-m", "a mistake"]);
    git(&project, &["push", "--quiet", "origin", "main"]);
    add(&project, "write three.txt", &[]);
    let red = project.creel(&["worker", "--merge", "--drain"]);
    assert_eq!(red.code, 4, "{}", red.err);
    assert_eq!(task(&project, "3")["state"], "completed");
}

fn hook(project: &Project, name: &str, script: &str) {
    let path = project.root().join(".git/hooks").join(name);
    executable(&path, script);
}

fn executable(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, format!("#!/bin/sh\n{script}\n")).expect("space");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

#[test]
fn what_a_commit_hook_refuses_goes_back_to_the_agent() {
    let project = with_agent("", with_remote);
    add(&project, "write one.txt, repair", &[]);
    add(&project, "write two.txt", &[]);
    drain(&project, "1");
    hook(
        &project,
        "pre-merge-commit",
        "test ! -e broken || { echo broken is not allowed; exit 1; }",
    );
    let merged = project.creel(&["merge", "--queue"]);
    assert_eq!(merged.code, 1, "{}", merged.err);
    let sent = task(&project, "1");
    assert_eq!(
        (&sent["state"], &sent["sentBack"]),
        (&"ready".into(), &1.into()),
        "{sent}"
    );
    assert!(
        sent["feedback"]
            .to_string()
            .contains("broken is not allowed"),
        "{sent}"
    );
    assert_eq!(merged_ids(&project), ["2"]);
    drain(&project, "1");
    assert_eq!(project.creel(&["merge", "--queue"]).code, 0);
    assert_eq!(merged_ids(&project), ["1", "2"]);
    // One that refuses everything is blamed on no task.
    add(&project, "write three.txt", &[]);
    drain(&project, "1");
    hook(&project, "commit-msg", "echo no ticket; exit 1");
    let red = project.creel(&["merge", "--queue"]);
    assert!(
        red.code == 4 && red.err.contains("refuses every merge"),
        "{}",
        red.err
    );
    assert!(task(&project, "3")["sentBack"].is_null());
}

#[test]
fn a_commit_of_leftovers_that_a_hook_refuses_goes_back_to_the_agent_with_its_work() {
    let project = with_agent("merge: { attempts: 1 }", with_remote);
    let script = "git diff --cached --name-only --diff-filter=d | grep -q broken || exit 0; echo broken is not allowed; exit 1";
    hook(&project, "pre-commit", script);
    add(&project, "write one.txt, repair and leave it", &[]);
    add(
        &project,
        "write two.txt and leave it, broken too: write broken.txt",
        &[],
    );
    let worked = drain(&project, "1");
    assert!(
        worked.err.contains("task 1 goes back to the queue"),
        "{}",
        worked.err
    );
    assert!(
        worked.err.contains("broken is not allowed"),
        "{}",
        worked.err
    );
    let one = task(&project, "1");
    assert_eq!(one["state"], "completed", "{one}");
    let branch = one["branch"].as_str().expect("a branch");
    let there = files(&project, branch);
    assert!(
        there.contains("one.txt") && !there.contains("broken"),
        "{there}"
    );
    // What keeps failing is blocked, and no commit got past the hook.
    let two = task(&project, "2");
    assert!(
        two["state"] == "blocked" && two["reason"].to_string().contains("broken is not allowed"),
        "{two}"
    );
}

#[test]
fn edits_that_git_overlooks_are_not_lost_with_the_worktree() {
    let project = with_agent("", with_remote);
    let agent = project.read("agent");
    let hides = "git update-index --assume-unchanged .gitignore; echo '# mine' >> .gitignore\nls\n";
    project.write("agent", &agent.replace("\nls\n", &format!("\n{hides}")));
    git(
        &project,
        &["commit", "--quiet", "--all", "-m", "another agent"],
    );
    git(&project, &["push", "--quiet", "origin", "main"]);
    add(&project, "write one.txt", &[]);
    let worked = drain(&project, "1");
    let why = "has edits that git overlooks (.gitignore)";
    assert!(worked.err.contains(why), "{}", worked.err);
    assert_eq!(task(&project, "1")["state"], "completed");
    let kept = project.root().join(".creel/worktrees/task-1/.gitignore");
    assert!(
        fs::read_to_string(&kept)
            .expect("it stays")
            .contains("# mine")
    );
    let removed = project.creel(&["worktree", "remove", "task-1"]);
    assert!(
        removed.code == 1 && removed.err.contains("edits that git overlooks"),
        "{}",
        removed.err
    );
}

#[test]
fn a_worktree_from_a_feature_branch_says_which_base_it_takes() {
    let project = with_agent("", with_remote);
    let run = |name: &str| {
        project.creel(&[
            "run",
            "--headless",
            "-s",
            name,
            "--worktree",
            "--",
            "write one.txt",
        ])
    };
    assert!(!run("a").err.contains("not from your branch"));
    git(&project, &["switch", "--quiet", "-c", "feature"]);
    assert!(
        !run("b").err.contains("not from your branch"),
        "it has nothing of its own"
    );
    git(
        &project,
        &["commit", "--quiet", "--allow-empty", "-m", "mine"],
    );
    let ran = run("c");
    assert!(
        ran.err
            .contains("starts from `origin/main`, not from your branch `feature`"),
        "{}",
        ran.err
    );
}

#[test]
fn a_worker_that_drains_does_not_count_blocked_tasks_of_other_types() {
    let project = with_agent("", repository);
    for kind in ["qa", "docs"] {
        let added = project.creel(&["task", "add", "--queue", "write one.txt", "--type", kind]);
        assert_eq!(added.code, 0, "{}", added.err);
    }
    assert_eq!(
        project
            .creel(&["task", "block", "--queue", "1", "wait"])
            .code,
        0
    );
    let ran = |kind: &str| project.creel(&["worker", "--drain", "--types", kind]).code;
    assert_eq!((ran("docs"), ran("qa")), (0, 4));
}

#[test]
fn a_worker_that_cannot_make_worktrees_stops_and_blocks_no_task() {
    let project = with_agent("worktree: { copy: [.env] }", repository);
    project.write(".env", "");
    add(&project, "write one.txt", &[]);
    let bin = tempfile::tempdir().expect("a folder");
    let fails = "case \" $* \" in *' worktree add '*) echo 'fatal: No space left on device' >&2; exit 128 ;; esac";
    let path = git_that(bin.path(), fails);
    let mut worker = project.command(&["worker", "--drain", "--jobs", "2"]);
    let ran = worker.env("PATH", path).output().expect("creel");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(
        said.contains("cannot make the worktrees of its sessions"),
        "{said}"
    );
    let one = task(&project, "1");
    assert_eq!(
        (&one["state"], &one["attempt"]),
        (&"ready".into(), &0.into()),
        "{one}"
    );
    drain(&project, "1");
    assert_eq!(task(&project, "1")["state"], "completed");
}

/// How many tasks there are, and which never pass.
const TASKS: usize = 30;
const BAD: [usize; 2] = [7, 20];
/// The task that a commit hook refuses at first.
const REFUSED: usize = 13;

/// Tasks that build on each other, conflict, are refused by a commit hook, or never pass.
fn many(project: &Project, server: &[&str]) {
    hook(
        project,
        "pre-merge-commit",
        "test ! -e broken || { echo broken is not allowed; exit 1; }",
    );
    for number in 1..=TASKS {
        let mut goal = format!("write files/f{number}.txt");
        if number % 6 == 0 {
            goal += " and write shared.txt";
        }
        if BAD.contains(&number) {
            goal += " and write bad.txt";
        }
        if number == REFUSED {
            goal += " and repair";
        }
        let on = number.saturating_sub(2).to_string();
        let mut args = [&["task", "add", "--queue", &goal][..], server].concat();
        if number % 5 == 0 && number != REFUSED + 2 {
            args.extend(["--depends-on", &on]);
        }
        let added = project.creel(&args);
        assert_eq!(added.code, 0, "{}", added.err);
    }
}

const MANY: &str = "submit: { test_command: 'test ! -e bad.txt && test ! -e broken && { test ! -e shared.txt || ! grep -q \"^<<<\" shared.txt; }' }\nmerge: { attempts: 4 }";

/// Everything that can be merged is, and each commit of the base passes.
fn check_many(project: &Project, all: &[Value], said: &str) {
    let commits = first_parents(project);
    assert!(!commits.is_empty());
    for commit in &commits {
        let there = files(project, commit);
        assert!(
            !there.contains("bad.txt") && !there.contains("broken"),
            "{commit}: {there}"
        );
        if there.contains("shared.txt") {
            assert!(!git(project, &["show", &format!("{commit}:shared.txt")]).contains("<<<"));
        }
    }
    let there = files(project, "origin/main");
    for number in 1..=TASKS {
        let id = number.to_string();
        let task = all
            .iter()
            .find(|task| task["id"] == id.as_str())
            .expect("the task");
        let is_bad = BAD.contains(&number);
        let state = if is_bad { "blocked" } else { "completed" };
        assert_eq!(
            (task["state"].as_str(), task["merged"].is_string()),
            (Some(state), !is_bad),
            "{task}\n{said}"
        );
        let name = format!("files/f{number}.txt");
        assert_eq!(
            there.lines().any(|file| file == name),
            !is_bad,
            "{name}\n{said}"
        );
    }
    let shared = git(project, &["show", "origin/main:shared.txt"]);
    for number in (6..=TASKS).step_by(6) {
        assert!(
            shared.contains(&format!("task-{number}")),
            "{number}: {shared}"
        );
    }
}

#[test]
fn a_worker_merges_thirty_tasks_by_itself() {
    let project = with_agent(MANY, with_remote);
    many(&project, &[]);
    let worked = project.creel(&["worker", "--jobs", "3", "--merge", "--drain"]);
    assert_eq!(worked.code, 4, "{}", worked.err);
    check_many(&project, &tasks(&project), &worked.err);
}

#[test]
fn workers_on_two_machines_merge_thirty_tasks_whatever_is_killed() {
    let kills = number("CREEL_KILLS").map_or(6, |kills| usize::try_from(kills).expect("a number"));
    let seed = seed();
    let mut dice = Dice(seed);
    let server = NatsServer::start();
    let url = server.url();
    let nats = ["--nats", url.as_str()];
    let one = with_agent(MANY, with_remote);
    let two = clone_of(&one);
    many(&one, &nats);
    hook(
        &two,
        "pre-merge-commit",
        "test ! -e broken || { echo broken is not allowed; exit 1; }",
    );
    let clones = [&one, &two];
    let args = [
        "worker",
        "--jobs",
        "3",
        "--merge",
        "--drain",
        "--lease",
        "3s",
        "--headless",
    ];
    let worker =
        |project: &Project| Background::start(project, "worker.log", &[&args[..], &nats].concat());
    let listed = || -> Vec<Value> {
        let ran = one.creel(&[&["task", "list", "--queue", "--json"][..], &nats].concat());
        serde_json::from_str(&ran.out).expect("JSON")
    };
    let is_over = |task: &Value| {
        task["merged"].is_string()
            || (task["state"] == "blocked" && task["reason"].to_string().contains("does not pass"))
    };
    let said = || {
        clones
            .map(|project| {
                fs::read_to_string(project.temp_dir().join("worker.log")).unwrap_or_default()
            })
            .join("\n")
    };
    let mut workers = clones.map(worker);
    let (mut done, mut quiet) = (0, Instant::now());
    let most = Duration::from_secs(240 + 2 * kills as u64);
    let begun = Instant::now();
    while !listed().iter().all(is_over) {
        assert!(
            begun.elapsed() < most,
            "seed {seed}: {:#?}\n{}",
            listed(),
            said()
        );
        std::thread::sleep(Duration::from_millis(100 + dice.below(200)));
        if done < kills && quiet.elapsed() > Duration::from_millis(300) {
            let own = clones[usize::try_from(dice.below(2)).expect("small")].root();
            done += usize::from(strike(&own, &mut dice));
            quiet = Instant::now();
        }
        for (background, project) in workers.iter_mut().zip(clones) {
            if background.child.try_wait().expect("it is ours").is_some() {
                *background = worker(project);
            }
        }
        // What a person does about tasks whose workers were killed too often.
        for task in listed()
            .iter()
            .filter(|task| task["state"] == "blocked" && !is_over(task))
        {
            let (id, reason) = (
                task["id"].as_str().expect("an id"),
                task["reason"].to_string(),
            );
            assert!(
                KILLED.iter().any(|words| reason.contains(words)),
                "seed {seed}: {task}\n{}",
                said()
            );
            one.creel(&[&["task", "start", "--queue", id][..], &nats].concat());
        }
    }
    // In peace, they end by themselves.
    for background in &mut workers {
        let code = background.child.wait().expect("it ends").code();
        assert!(
            code == Some(4) || done > 0,
            "seed {seed}: {code:?}\n{}",
            said()
        );
    }
    git(&one, &["fetch", "--quiet", "origin"]);
    check_many(&one, &listed(), &format!("seed {seed}\n{}", said()));
}
