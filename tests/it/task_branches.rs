//! Tasks of the queue on branches: several at once, on top of each other, and merged.

use std::{
    fs,
    os::unix::{
        fs::PermissionsExt as _,
        process::{CommandExt as _, ExitStatusExt as _},
    },
    process::Stdio,
    time::{Duration, Instant, SystemTime},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::support::{
    git_project::{config, git, repository, with_remote},
    nats::NatsServer,
    project::{Project, Ran, eventually_in, until},
    terminal::Terminal,
};
use crate::worktree::git_that;

/// An agent that does what the goal says: `write FILE` adds the name of its session to a file. It
/// resolves conflicts by keeping the lines of both sides. With `leave`, it commits nothing; with
/// `break git`, nothing can be committed. If a program that it runs is killed, its turn fails.
const AGENT: &str = r#"#!/bin/sh
goal=$(cat)
[ -n "$goal" ] || exit 1
resolve() {
    for file in $(git diff --name-only --diff-filter=U); do
        grep -v '^[<=>|]\{7\}' "$file" > "$file.both" || [ $? = 1 ] || exit 1
        sort -u -o "$file.both" "$file.both" && mv "$file.both" "$file" && git add "$file" || exit 1
    done
    [ -e "$(git rev-parse --git-path MERGE_HEAD)" ] && git commit -q --no-edit
}
case $goal in *stubborn*) ;; *) resolve ;; esac
for branch in $(printf '%s' "$goal" | sed -n 's/^`git merge \(.*\)`$/\1/p'); do git merge -q --no-edit "$branch" || resolve; done
case $goal in *repair*"sent back"*) rm -f broken ;; *repair*) touch broken ;; esac
files=$(printf '%s' "$goal" | grep -o 'write [a-z0-9/]*[.]txt' | cut -d' ' -f2)
case $goal in *write\ *.txt*) [ -n "$files" ] || exit 1 ;; esac
for file in $files; do
    mkdir -p "$(dirname "$file")" || exit 1
    { [ ! -e "$file" ] || cat "$file" || exit 1; echo "$CREEL_SESSION"; } > "$file.new"
    sort -u -o "$file.new" "$file.new" && mv "$file.new" "$file" || exit 1
done
case $goal in *leave*|*stubborn*) ;; *) git add -A && git commit -q -m "by the agent of $CREEL_SESSION" ;; esac
case $goal in *"break git"*) echo broken > "$(git rev-parse --git-path index)" ;; esac
ls
echo '<promise>COMPLETE</promise>'
"#;

pub(crate) fn with_agent(more: &str, make: impl Fn(&str) -> Project) -> Project {
    let project = make(&config("exec ./agent", more));
    project.write("agent", AGENT);
    let path = project.root().join("agent");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    git(&project, &["add", "agent"]);
    git(&project, &["commit", "--quiet", "-m", "agent"]);
    if !git(&project, &["remote"]).is_empty() {
        git(&project, &["push", "--quiet", "origin", "main"]);
    }
    assert_eq!(project.creel(&["trust"]).code, 0);
    project
}

pub(crate) fn add(project: &Project, goal: &str, after: &[&str]) -> String {
    let mut args = vec!["task", "add", "--queue", goal];
    args.extend(after.iter().flat_map(|on| ["--depends-on", on]));
    let ran = project.creel(&args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.out.trim().to_owned()
}

pub(crate) fn drain(project: &Project, jobs: &str) -> Ran {
    let ran = project.creel(&["worker", "--drain", "--jobs", jobs]);
    let has_blocked = tasks(project).iter().any(|task| task["state"] == "blocked");
    assert_eq!(ran.code, if has_blocked { 4 } else { 0 }, "{}", ran.err);
    ran
}

pub(crate) fn tasks(project: &Project) -> Vec<Value> {
    serde_json::from_str(&project.creel(&["task", "list", "--queue", "--json"]).out).expect("JSON")
}

pub(crate) fn task(project: &Project, id: &str) -> Value {
    tasks(project)
        .into_iter()
        .find(|task| task["id"] == id)
        .expect("the task")
}

pub(crate) fn files(project: &Project, branch: &str) -> String {
    git(project, &["ls-tree", "-r", "--name-only", branch])
}

#[test]
fn a_task_starts_from_the_work_of_those_that_it_waited_for() {
    let project = with_agent("", with_remote);
    let parser = add(&project, "Write the parser: write parser.txt", &[]);
    let printer = add(&project, "Write the printer: write printer.txt", &[]);
    let both = add(&project, "Test both.", &[&parser, &printer]);
    drain(&project, "2");
    let seen = task(&project, &both);
    assert_eq!(seen["state"], "completed", "{seen}");
    let result = seen["result"].as_str().expect("a result");
    assert!(
        result.contains("parser.txt") && result.contains("printer.txt"),
        "{result}"
    );
    assert_eq!(seen["branch"], "creel/task-3");
    // Others find it at the remote.
    assert!(git(&project, &["ls-remote", "origin"]).contains("refs/heads/creel/task-3"));
    // Nothing of this shows up in the user's checkout.
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
    assert_eq!(project.creel(&["worktree", "list"]).out, "");
}

/// Another clone of the project's remote, with its config trusted.
pub(crate) fn clone_of(project: &Project) -> Project {
    let clone = Project::new();
    let origin = git(project, &["remote", "get-url", "origin"]);
    git(&clone, &["clone", "--quiet", &origin, "."]);
    git(&clone, &["config", "--global", "user.name", "Test"]);
    git(
        &clone,
        &["config", "--global", "user.email", "test@example.com"],
    );
    assert_eq!(clone.creel(&["trust"]).code, 0);
    clone
}

#[test]
fn workers_of_another_project_do_not_take_a_task() {
    let server = NatsServer::start();
    let url = server.url();
    let [ours, theirs] = ["# ours", "# theirs"].map(|more| with_agent(more, with_remote));
    let on_server =
        |project: &Project, args: &[&str]| project.creel(&[args, &["--nats", &url]].concat());
    let added = on_server(&ours, &["task", "add", "write one.txt", "--queue"]);
    assert_eq!((added.code, added.out.trim()), (0, "1"), "{}", added.err);
    let worked = on_server(&theirs, &["worker", "--drain"]);
    assert!(
        worked.code == 0 && !worked.err.contains("task 1"),
        "{}",
        worked.err
    );
    assert_eq!(
        on_server(&theirs, &["task", "show", "1", "--queue"]).code,
        1
    );
    // Each project counts its own tasks.
    assert_eq!(
        on_server(&theirs, &["task", "add", "write two.txt", "--queue"])
            .out
            .trim(),
        "1"
    );
    // A clone is the same project, with one worker that does one thing at a time.
    let clone = clone_of(&ours);
    let worked = on_server(&clone, &["worker", "--drain"]);
    assert!(
        worked.code == 0 && worked.err.contains("task 1 is completed"),
        "{}",
        worked.err
    );
    assert!(git(&ours, &["ls-remote", "origin"]).contains("refs/heads/creel/task-1"));
    assert_eq!(git(&clone, &["status", "--porcelain"]), "");
    // What depends on it sees its work on any machine.
    on_server(
        &clone,
        &["task", "add", "Look.", "--depends-on", "1", "--queue"],
    );
    let worked = on_server(&ours, &["worker", "--drain"]);
    let seen: Value =
        serde_json::from_str(&on_server(&ours, &["task", "show", "2", "--queue", "--json"]).out)
            .expect("JSON");
    assert!(
        seen["result"]
            .as_str()
            .is_some_and(|text| text.contains("one.txt")),
        "{seen}\n{}",
        worked.err
    );
}

#[test]
fn a_queue_on_a_server_needs_a_name() {
    let server = NatsServer::start();
    let url = server.url();
    let add = |project: &Project, queue: &str| {
        project.creel(&["task", "add", "Do it.", queue, "--nats", &url])
    };
    let bare = Project::new();
    let refused = add(&bare, "--queue");
    assert!(
        refused.code == 2
            && refused
                .err
                .contains("this folder is not in a git repository"),
        "{}",
        refused.err
    );
    assert!(refused.err.contains("nats.queue"), "{}", refused.err);
    let full = with_agent("", with_remote);
    git(
        &bare,
        &[
            "clone",
            "--quiet",
            "--depth",
            "1",
            &format!("file://{}", git(&full, &["remote", "get-url", "origin"])),
            ".",
        ],
    );
    let refused = add(&bare, "--queue");
    assert!(
        refused.code == 2 && refused.err.contains("the clone is shallow"),
        "{}",
        refused.err
    );
    let refused = add(&bare, "--queue=a.*");
    assert!(
        refused.code == 2 && refused.err.contains("a name has only letters"),
        "{}",
        refused.err
    );
    assert_eq!(add(&bare, "--queue=shop").out.trim(), "1");
    // The worker has it in its config.
    let config = full.read("creel.yaml") + &format!("\nnats: {{ url: '{url}', queue: shop }}\n");
    full.write("creel.yaml", &config);
    let worked = full.creel(&["worker", "--drain", "--trust"]);
    assert!(worked.err.contains("task 1 is completed"), "{}", worked.err);
    // A project's own queue has no name.
    let refused = bare.creel(&["task", "add", "Do it.", "--queue=shop"]);
    assert!(
        refused.code == 2 && refused.err.contains("--nats"),
        "{}",
        refused.err
    );
}

#[test]
fn tasks_of_an_earlier_version_are_named_and_left_alone() {
    let server = NatsServer::start();
    let url = server.url();
    let project = with_agent("", with_remote);
    let list = || project.creel(&["task", "list", "--queue", "--nats", &url]);
    assert!(!list().err.contains("earlier version"));
    let old = serde_json::json!({ "id": "old", "goal": "g", "createdAt": "", "run": 1, "attempt": 0, "state": "ready" });
    server.publish_for_good("$KV.creel-tasks.-.old", &old.to_string());
    let listed = list();
    assert!(
        listed.code == 0 && listed.err.contains("the tasks old of this server"),
        "{}",
        listed.err
    );
}

#[test]
fn a_slow_remote_does_not_cost_a_worker_its_task() {
    let server = NatsServer::start();
    let project = with_agent("", with_remote);
    let url = server.url();
    let ran = |args: &[&str]| {
        let ran = project.creel(&[args, &["--nats", &url]].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran
    };
    let work = ["worker", "--drain", "--jobs", "2", "--lease", "3s"];
    ran(&["task", "add", "write one.txt", "--id", "one", "--queue"]);
    ran(&work);
    // Looking for the branch of the first task takes longer than the lease of the second.
    project.write(
        "slow",
        "#!/bin/sh\n[ -e was-slow ] || { touch was-slow; sleep 7; }\nexec git-upload-pack \"$@\"\n",
    );
    let slow = project.root().join("slow");
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).expect("it is ours");
    git(
        &project,
        &[
            "config",
            "remote.origin.uploadpack",
            &slow.display().to_string(),
        ],
    );
    ran(&[
        "task",
        "add",
        "write two.txt",
        "--id",
        "two",
        "--depends-on",
        "one",
        "--queue",
    ]);
    let worked = ran(&work);
    let listed: Vec<Value> =
        serde_json::from_str(&ran(&["task", "list", "--queue", "--json"]).out).expect("JSON");
    let two = listed
        .iter()
        .find(|task| task["id"] == "two")
        .expect("the task");
    assert_eq!(
        (&two["state"], &two["attempt"]),
        (&"completed".into(), &1.into()),
        "{two}\n{}",
        worked.err
    );
}

#[test]
fn a_worker_that_is_stopped_while_it_pushes_blocks_nothing() {
    let project = with_agent("", with_remote);
    // The remote does not answer until the file is there.
    let script = "#!/bin/sh\necho $$ > \"$HOME/pushing\"\n\
                  until [ -e \"$HOME/go\" ] || [ ! -d \"$HOME\" ]; do sleep 0.02; done\nexec git-receive-pack \"$@\"\n";
    project.write("slow", script);
    let slow = project.root().join("slow");
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).expect("it is ours");
    git(
        &project,
        &[
            "config",
            "remote.origin.receivepack",
            &slow.display().to_string(),
        ],
    );
    let one = add(&project, "write one.txt", &[]);
    let pushing = project.root().with_file_name("pushing");
    let started = || {
        let _ = fs::remove_file(&pushing);
        let mut worker = project.command(&["worker", "--drain", "--jobs", "2"]);
        let worker = worker
            .process_group(0)
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("creel");
        eventually_in(&pushing);
        worker
    };
    // As at Ctrl-C in a terminal, which git gets too.
    let mut worker = started();
    kill_process_group(Pid::from_child(&worker), Signal::TERM).expect("it runs");
    assert_eq!(worker.wait().expect("it ends").code(), Some(130));
    let seen = task(&project, &one);
    assert_eq!(seen["state"], "ready", "{seen}");
    // The session has ended, so the next worker only hands its work in. If only the worker gets the
    // signal, it lets git finish.
    let mut worker = started();
    kill_process(Pid::from_child(&worker), Signal::TERM).expect("it runs");
    fs::write(project.root().with_file_name("go"), "").expect("space");
    assert_eq!(worker.wait().expect("it ends").code(), Some(130));
    let seen = task(&project, &one);
    assert_eq!(seen["state"], "completed", "{seen}");
    assert!(git(&project, &["ls-remote", "origin"]).contains("refs/heads/creel/task-1"));
    assert_eq!(
        git(&project, &["log", "--format=%s", "creel/task-1"])
            .matches("by the agent")
            .count(),
        1
    );
}

#[test]
fn a_removal_that_is_cut_off_does_not_count_as_work() {
    let project = with_agent("", with_remote);
    let one = add(&project, "write one.txt", &[]);
    // The worker is killed while git removes the worktree, which has been pushed.
    let bin = tempfile::tempdir().expect("a folder");
    let dies = "case \" $* \" in *' worktree remove '*) rm -r .creel/worktrees/task-1/one.txt .creel/worktrees/task-1/agent; \
                kill -9 $PPID; exit 1 ;; esac";
    let path = git_that(bin.path(), dies);
    let mut worker = project.command(&["worker", "--drain", "--jobs", "2"]);
    let ended = worker
        .env("PATH", path)
        .stderr(Stdio::null())
        .status()
        .expect("creel starts");
    assert_eq!(ended.signal(), Some(9));
    drain(&project, "2");
    let seen = task(&project, &one);
    assert_eq!(seen["state"], "completed", "{seen}");
    assert_eq!(
        git(&project, &["log", "--format=%s", "creel/task-1"])
            .lines()
            .count(),
        3,
        "no commit was added"
    );
    let files = files(&project, "origin/creel/task-1");
    assert!(
        files.contains("one.txt") && files.contains("agent"),
        "{files}"
    );
    assert_eq!(project.creel(&["worktree", "list"]).out, "");
}

#[test]
fn a_task_whose_workers_died_continues_their_work() {
    continues_after(|_| ());
}

#[test]
fn a_session_that_was_killed_before_it_began_starts_from_the_work_of_the_last_one() {
    continues_after(|project| {
        let reason = format!("creel session task-1-2 in {}", project.root().display());
        let (branch, folder) = ("refs/heads/creel/task-1-2", ".creel/worktrees/task-1-2");
        git(
            project,
            &[
                "update-ref",
                "--create-reflog",
                "-m",
                &reason,
                branch,
                "main",
            ],
        );
        let add = ["worktree", "add", "--quiet", "--lock", "--reason", &reason];
        git(project, &[&add[..], &[folder, "creel/task-1-2"]].concat());
    });
}

/// Does something after the first run of a task, and looks whether the second one continues it.
fn continues_after(interlude: impl Fn(&Project)) {
    // Each time, the session dies with uncommitted work.
    let kills = "echo $CREEL_SESSION >> begun.txt; [ -e $HOME/well ] || { kill -9 $PPID; sleep 9; }; wc -l < begun.txt; \
                 echo '<promise>COMPLETE</promise>'";
    let project = with_remote(&config(kills, ""));
    assert_eq!(project.creel(&["trust"]).code, 0);
    let one = add(&project, "Do it.", &[]);
    drain(&project, "1");
    let seen = task(&project, &one);
    assert_eq!(
        (&seen["state"], &seen["branch"]),
        (&"blocked".into(), &"creel/task-1".into()),
        "{seen}"
    );
    fs::write(project.root().with_file_name("well"), "").expect("a file");
    interlude(&project);
    assert_eq!(project.creel(&["task", "start", "--queue", &one]).code, 0);
    drain(&project, "1");
    let seen = task(&project, &one);
    assert_eq!(
        (&seen["state"], &seen["result"]),
        (&"completed".into(), &"6".into()),
        "{seen}"
    );
    assert_eq!(
        project.creel(&["worktree", "list"]).out,
        "",
        "no worktree stays"
    );
    assert_eq!(
        git(&project, &["show", "origin/creel/task-1-2:begun.txt"])
            .lines()
            .count(),
        6
    );
}

#[test]
fn a_task_whose_dependency_was_done_again_meanwhile_runs_again_on_top_of_it() {
    let agent = "case $(cat) in *second*) f=two; echo yes > $HOME/begun; \
                 until [ -e $HOME/go ] || [ ! -d $HOME ]; do sleep 0.02; done ;; *) f=one ;; esac; \
                 echo $CREEL_SESSION >> $f.txt; git add -A; git commit -qm $CREEL_SESSION; echo '<promise>COMPLETE</promise>'";
    let project = with_remote(&config(agent, ""));
    assert_eq!(project.creel(&["trust"]).code, 0);
    let typed = |goal: &str, more: &[&str]| {
        let mut args = vec!["task", "add", "--queue", goal, "--type", goal];
        args.extend(more);
        project.creel(&args).out.trim().to_owned()
    };
    let one = typed("first", &[]);
    let two = typed("second", &["--depends-on", &one]);
    let work_on = |types: &str| project.creel(&["worker", "--drain", "--types", types]);
    work_on("first");
    let mut worker = project.command(&["worker", "--drain", "--types", "second"]);
    let mut worker = worker
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("creel starts");
    eventually_in(&project.root().with_file_name("begun"));
    worker.kill().expect("it runs");
    worker.wait().expect("it was killed");
    assert_eq!(project.creel(&["task", "start", "--queue", &one]).code, 0);
    work_on("first");
    fs::write(project.root().with_file_name("go"), "").expect("a file");
    let ran = work_on("second");
    let seen = task(&project, &two);
    assert_eq!(
        (&seen["state"], &seen["branch"]),
        (&"completed".into(), &"creel/task-2-2".into()),
        "{seen}\n{}",
        ran.err
    );
    let note = "task 2 goes back to the queue: its branch does not contain `creel/task-1-2`";
    assert!(ran.err.contains(note), "{}", ran.err);
    assert_eq!(
        git(&project, &["show", "origin/creel/task-2-2:one.txt"]),
        "task-1\ntask-1-2"
    );
}

#[test]
fn a_worker_removes_the_worktrees_of_completed_tasks_that_others_left() {
    let project = with_agent("", with_remote);
    add(&project, "write one.txt", &[]);
    drain(&project, "1");
    let reason = format!("creel session task-1 in {}", project.root().display());
    let again = [
        "worktree",
        "add",
        "--quiet",
        "--lock",
        "--reason",
        &reason,
        ".creel/worktrees/task-1",
        "creel/task-1",
    ];
    git(&project, &again);
    assert!(project.creel(&["worktree", "list"]).out.contains("task-1"));
    drain(&project, "1");
    assert_eq!(project.creel(&["worktree", "list"]).out, "");
}

/// creel was killed after it had made the branch, before it noted the session.
#[test]
fn the_branch_of_a_session_that_never_began_goes_with_the_completed_task() {
    let project = with_agent("", with_remote);
    add(&project, "write one.txt", &[]);
    drain(&project, "1");
    assert_eq!(project.creel(&["task", "start", "--queue", "1"]).code, 0);
    drain(&project, "1");
    fs::remove_dir_all(project.root().join(".creel/sessions/task-1")).expect("the first run");
    let reason = format!("creel session task-1 in {}", project.root().display());
    for (branch, reason) in [
        ("creel/task-1", reason.as_str()),
        ("creel/task-1-3", "by the user"),
    ] {
        git(
            &project,
            &[
                "update-ref",
                "--create-reflog",
                "-m",
                reason,
                &format!("refs/heads/{branch}"),
                "main",
            ],
        );
    }
    // creel had merged what the task builds on.
    let parents = ["-p", "main", "-p", "creel/task-1-2"];
    let tree = git(&project, &["rev-parse", "creel/task-1-2^{tree}"]);
    let merge = ["commit-tree", "-m", "merge", &tree];
    let merge = git(&project, &[&merge[..], &parents].concat());
    git(&project, &["update-ref", "refs/heads/creel/task-1", &merge]);
    drain(&project, "1");
    let branches = git(&project, &["branch", "--format=%(refname:short)"]);
    assert_eq!(branches, "creel/task-1-2\ncreel/task-1-3\nmain");
    // A merge into its worktree was killed. What the task's branch has, too, goes.
    let folder = ".creel/worktrees/task-1";
    let add = ["worktree", "add", "--quiet", "--lock", "--reason", &reason];
    git(
        &project,
        &[&add[..], &["-b", "creel/task-1", folder, "main"]].concat(),
    );
    let text = git(&project, &["show", "creel/task-1-2:one.txt"]);
    project.write(&format!("{folder}/one.txt"), &format!("{text}more\n"));
    drain(&project, "1");
    assert!(
        project
            .creel(&["worktree", "list"])
            .out
            .contains("uncommitted changes (one.txt)")
    );
    // Only a branch of the remote has it.
    let there = |args: &[&str]| git(&project, &[&["-C", folder], args].concat());
    there(&["add", "--all"]);
    let tree = there(&["write-tree"]);
    let commit = there(&["commit-tree", "-m", "x", &tree]);
    git(
        &project,
        &["update-ref", "refs/remotes/origin/other", &commit],
    );
    there(&["reset", "--quiet"]);
    drain(&project, "1");
    assert_eq!(project.creel(&["worktree", "list"]).out, "");
}

#[test]
fn branches_of_other_tasks_and_of_the_user_stay() {
    // The second session of task `a` has the name of the first one of `a-2`.
    let project = with_agent("", repository);
    for (id, goal) in [("a-2", "write two.txt"), ("a", "write one.txt")] {
        let ran = project.creel(&["task", "add", "--queue", "--id", id, goal]);
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    drain(&project, "1");
    let two = git(&project, &["rev-parse", "creel/task-a-2"]);
    for _ in 0..2 {
        assert_eq!(project.creel(&["task", "start", "--queue", "a"]).code, 0);
        drain(&project, "1");
    }
    assert_eq!(git(&project, &["rev-parse", "creel/task-a-2"]), two);
    assert_eq!(task(&project, "a-2")["branch"], "creel/task-a-2");
}

#[test]
fn what_an_agent_left_on_the_users_branch_is_not_committed_there() {
    let leaves = "git switch -q main; echo junk > junk.txt; until [ -e $HOME/go ] || [ ! -e creel.yaml ]; do sleep 0.02; done; \
                  echo '<promise>COMPLETE</promise>'";
    let project = repository(&config(leaves, ""));
    git(&project, &["switch", "--quiet", "-c", "dev"]);
    assert_eq!(project.creel(&["trust"]).code, 0);
    let one = add(&project, "Do it.", &[]);
    let before = git(&project, &["rev-parse", "main"]);
    let mut worker = project.command(&["worker", "--headless"]);
    let mut worker = worker
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("creel starts");
    until("the agent has left its branch", || {
        project
            .root()
            .join(".creel/worktrees/task-1/junk.txt")
            .exists()
    });
    assert_eq!(
        project
            .creel(&["task", "block", "--queue", &one, "enough"])
            .code,
        0
    );
    until("the session has ended", || {
        project
            .creel(&["sessions", "--state", "running"])
            .out
            .is_empty()
    });
    kill_process(Pid::from_child(&worker), Signal::TERM).expect("it runs");
    worker.wait().expect("it ends");
    fs::write(project.root().with_file_name("go"), "").expect("a file");
    assert_eq!(project.creel(&["task", "start", "--queue", &one]).code, 0);
    let ran = drain(&project, "1");
    assert_eq!(git(&project, &["rev-parse", "main"]), before, "{}", ran.err);
    assert!(
        ran.err.contains("what its last session did on `main`"),
        "{}",
        ran.err
    );
}

#[test]
fn a_worker_says_at_once_why_its_sessions_could_not_work() {
    let project = with_agent("", repository);
    project.write("sub/creel.yaml", &project.read("creel.yaml"));
    let mut worker = project.command(&["worker", "--drain", "--trust"]);
    let ran = Ran::of(
        &worker
            .current_dir(project.root().join("sub"))
            .output()
            .expect("creel starts"),
    );
    assert!(
        ran.code == 2 && ran.err.contains("is not in the last commit"),
        "{} {}",
        ran.code,
        ran.err
    );
}

#[test]
fn a_killed_git_is_asked_again() {
    let project = with_agent("", with_remote);
    let one = add(&project, "write one.txt", &[]);
    let two = add(&project, "write two.txt", &[&one]);
    // Every question is killed once.
    let bin = tempfile::tempdir().expect("a folder");
    let dies = "case \" $* \" in *' rev-parse '*|*' fetch '*|*' merge-base '*|*' symbolic-ref '*|*' ls-remote '*|*' config '*) \
                asked=\"$0.$(printf '%s' \"$*\" | cksum | tr -d ' ')\"; [ -e \"$asked\" ] || { : > \"$asked\"; kill -9 $$; } ;; esac";
    let path = git_that(bin.path(), dies);
    let mut worker = project.command(&["worker", "--drain", "--headless"]);
    let ran = worker.env("PATH", path).output().expect("creel starts");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(
        (
            &task(&project, &one)["state"],
            &task(&project, &two)["state"]
        ),
        (&"completed".into(), &"completed".into()),
        "{said}"
    );
}

#[test]
fn creel_commits_what_the_agent_left() {
    let project = with_agent("", repository);
    add(
        &project,
        "Leave it: write left.txt\n\nwith a second paragraph, leave",
        &[],
    );
    drain(&project, "2");
    assert_eq!(
        git(&project, &["log", "-1", "--format=%s", "creel/task-1"]),
        "Leave it: write left.txt"
    );
    assert!(files(&project, "creel/task-1").contains("left.txt"));
}

#[test]
fn work_that_cannot_be_committed_blocks_the_task_and_stays() {
    let project = with_agent("", repository);
    let one = add(&project, "write left.txt, leave it, and break git", &[]);
    drain(&project, "2");
    let seen = task(&project, &one);
    assert_eq!(seen["state"], "blocked", "{seen}");
    assert!(
        seen["reason"]
            .as_str()
            .expect("a reason")
            .contains("could not commit its work"),
        "{seen}"
    );
    assert!(
        project
            .root()
            .join(".creel/worktrees/task-1/left.txt")
            .exists(),
        "the work stays"
    );
}

#[test]
fn the_agent_resolves_conflicts_between_the_tasks_that_it_builds_on() {
    let project = with_agent("", repository);
    let one = add(&project, "write shared.txt", &[]);
    let two = add(&project, "write shared.txt", &[]);
    let three = add(&project, "write shared.txt and write third.txt", &[]);
    let last = add(&project, "write last.txt", &[&one, &two, &three]);
    drain(&project, "3");
    assert_eq!(task(&project, &last)["state"], "completed");
    assert_eq!(
        git(&project, &["show", "creel/task-4:shared.txt"]),
        "task-1\ntask-2\ntask-3\ntask-4"
    );
    assert!(files(&project, "creel/task-4").contains("third.txt"));
}

#[test]
fn an_unresolved_conflict_blocks_the_task_and_names_the_files() {
    let project = with_agent("", repository);
    let one = add(&project, "write shared.txt", &[]);
    let two = add(&project, "write shared.txt", &[]);
    let last = add(&project, "be stubborn", &[&one, &two]);
    drain(&project, "2");
    let seen = task(&project, &last);
    assert_eq!(seen["state"], "blocked");
    let reason = seen["reason"].as_str().expect("a reason");
    assert!(reason.contains("shared.txt is in conflict"), "{reason}");
    assert!(
        project.creel(&["worktree", "list"]).out.contains("task-3"),
        "the work stays"
    );
}

#[test]
fn a_blocked_task_that_you_complete_hands_in_its_branch() {
    let block = "max_hook_retries: 0\nhooks: { stop: [{ command: 'case $CREEL_SESSION in task-1) exit 2;; esac' }] }";
    let project = with_agent(block, with_remote);
    let one = add(&project, "write one.txt, leave", &[]);
    let two = add(&project, "write two.txt", &[&one]);
    drain(&project, "2");
    assert_eq!(
        (
            &task(&project, &one)["state"],
            &task(&project, &two)["state"]
        ),
        (&"blocked".into(), &"created".into())
    );
    // What is uncommitted would be missing from the tasks that wait, and from the merge.
    let refused = project.creel(&["task", "done", "--queue", &one]);
    let why = "task 1 is not done: its worktree ";
    let advice = "`creel worktree open task-1`";
    assert!(
        refused.code == 1 && refused.err.contains(why) && refused.err.contains(advice),
        "{}",
        refused.err
    );
    assert!(refused.err.contains("one.txt"), "{}", refused.err);
    let there = project
        .root()
        .join(".creel/worktrees/task-1")
        .display()
        .to_string();
    git(&project, &["-C", &there, "add", "--all"]);
    git(
        &project,
        &["-C", &there, "commit", "--quiet", "-m", "by hand"],
    );
    let done = project.creel(&["task", "done", "--queue", &one]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(git(&project, &["ls-remote", "origin"]).contains("refs/heads/creel/task-1"));
    drain(&project, "2");
    assert!(files(&project, "creel/task-2").contains("one.txt"));
    let merged = project.creel(&["merge", "--queue"]);
    assert_eq!(merged.code, 0, "{}", merged.err);
    let all = files(&project, "origin/main");
    assert!(all.contains("one.txt") && all.contains("two.txt"), "{all}");
}

#[test]
fn a_blocked_task_that_starts_again_continues_its_uncommitted_work() {
    let block = "max_hook_retries: 0\nhooks: { stop: [{ command: 'case $CREEL_SESSION in task-1) exit 2;; esac' }] }";
    let project = with_agent(block, repository);
    let one = add(&project, "write one.txt, leave", &[]);
    let ran = drain(&project, "2");
    assert_eq!(task(&project, &one)["state"], "blocked");
    assert!(ran.err.contains("task 1 is blocked"), "{}", ran.err);
    assert_eq!(project.creel(&["task", "start", "--queue", &one]).code, 0);
    drain(&project, "2");
    let seen = task(&project, &one);
    assert_eq!(seen["state"], "completed", "{seen}");
    let branch = seen["branch"].as_str().expect("a branch");
    assert_ne!(
        branch, "creel/task-1",
        "its second session has a branch of its own"
    );
    let written = git(&project, &["show", &format!("{branch}:one.txt")]);
    assert!(
        written.starts_with("task-1\n") && written.lines().count() == 2,
        "both sessions wrote to it: {written}"
    );
    let commits = git(&project, &["log", "--format=%s", branch]);
    assert!(
        commits.contains("Unfinished: write one.txt, leave"),
        "{commits}"
    );
}

#[test]
fn a_push_that_is_killed_says_so() {
    let project = with_agent("", with_remote);
    git(
        &project,
        &["config", "remote.origin.receivepack", "kill -9 $PPID; true"],
    );
    let one = add(&project, "write one.txt", &[]);
    drain(&project, "2");
    let seen = task(&project, &one);
    let reason = seen["reason"].as_str().unwrap_or_default();
    assert!(
        reason
            .contains("could not push it to `origin`: git was killed by signal 9; when the remote"),
        "{seen}"
    );
}

#[test]
fn work_that_could_not_be_pushed_is_handed_in_without_the_agent() {
    let project = with_agent("", with_remote);
    let one = add(&project, "write one.txt", &[]);
    let remote = git(&project, &["remote", "get-url", "--push", "origin"]);
    git(
        &project,
        &["remote", "set-url", "--push", "origin", "/nowhere/at/all"],
    );
    drain(&project, "2");
    let seen = task(&project, &one);
    let reason = seen["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("could not push it") && reason.contains("`creel task done --queue 1`"),
        "{seen}"
    );
    git(
        &project,
        &["remote", "set-url", "--push", "origin", &remote],
    );
    let done = project.creel(&["task", "done", "--queue", &one]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(git(&project, &["ls-remote", "origin"]).contains("refs/heads/creel/task-1"));
}

#[test]
fn a_worker_that_drains_the_queue_says_what_is_left() {
    let block = "max_hook_retries: 0\nhooks: { stop: [{ command: exit 2 }] }";
    let project = with_agent(block, repository);
    let one = add(&project, "does not pass", &[]);
    add(&project, "waits", &[&one]);
    let told = project.creel(&[
        "task",
        "add",
        "--queue",
        "--agent",
        "elsewhere",
        "for another machine",
    ]);
    assert!(
        told.code == 0
            && told
                .err
                .contains("does not take task 3: unknown agent `elsewhere`"),
        "{}",
        told.err
    );
    let ran = drain(&project, "1");
    let left = "nothing is left that this worker can do: task 1 is blocked, task 2 waits, task 3 is for other workers";
    assert!(ran.err.contains(left), "{}", ran.err);
    assert!(ran.err.contains("`creel task list --queue`"), "{}", ran.err);
    // An empty queue is not worth a line.
    for id in ["3", "2", "1"] {
        assert_eq!(project.creel(&["task", "remove", "--queue", id]).code, 0);
    }
    assert!(!drain(&project, "1").err.contains("is left"));
}

#[test]
fn several_jobs_need_a_repository() {
    let project = Project::with(&config("true", ""));
    let ran = project.creel(&["worker", "--jobs", "2", "--trust"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("is not in a git repository"),
        "{}",
        ran.err
    );
    assert!(
        project
            .creel(&["worker", "--jobs", "0"])
            .err
            .contains("a whole number from 1")
    );
}

#[test]
fn a_session_that_waits_for_the_user_does_not_keep_its_slot() {
    let asks = "case $(cat) in *asks*) exit 1 ;; esac; echo '<promise>COMPLETE</promise>'";
    let project = repository(&config(asks, "worktree: true\nmax_consecutive_errors: 1"));
    assert_eq!(project.creel(&["trust"]).code, 0);
    add(&project, "asks", &[]);
    add(&project, "does not", &[]);
    let mut worker = project.command(&["worker", "--attended", "--json"]);
    let mut worker = worker
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("creel starts");
    let deadline = Instant::now() + Duration::from_secs(30);
    while task(&project, "2")["state"] != "completed" {
        assert!(
            Instant::now() < deadline,
            "the second task waits: {:?}",
            tasks(&project)
        );
    }
    assert_eq!(task(&project, "1")["state"], "active");
    worker.kill().expect("it runs");
    worker.wait().expect("it was killed");
}

#[test]
fn finished_tasks_are_merged_one_after_another_and_only_if_they_pass() {
    let project = with_agent("submit: { test_command: 'test ! -e broken' }", with_remote);
    let one = add(&project, "write one.txt", &[]);
    add(&project, "write two.txt, repair", &[]);
    add(&project, "write three.txt", &[&one]);
    drain(&project, "2");
    let merged = project.creel(&["merge", "--queue"]);
    assert_eq!(merged.code, 1, "{}", merged.err);
    assert!(
        merged.err.contains("task 2 goes back to the queue"),
        "{}",
        merged.err
    );
    let on_main = |name: &str| {
        files(&project, "origin/main")
            .lines()
            .any(|file| file == name)
    };
    assert!(on_main("one.txt") && on_main("three.txt") && !on_main("two.txt"));
    let sent = task(&project, "2");
    assert_eq!(sent["state"], "ready");
    assert!(
        sent["feedback"]
            .as_str()
            .is_some_and(|why| why.contains("does not pass (exit 1)")),
        "{sent}"
    );
    drain(&project, "2");
    let again = project.creel(&["merge", "--queue"]);
    assert_eq!(again.code, 0, "{}", again.err);
    assert!(on_main("two.txt") && !on_main("broken"));
    assert!(
        tasks(&project)
            .iter()
            .all(|task| task["merged"].is_string())
    );
    assert!(
        project
            .creel(&["merge", "--queue"])
            .err
            .contains("no finished task")
    );
    // The user's checkout is untouched, and can be updated.
    assert_eq!(git(&project, &["log", "-1", "--format=%s"]), "agent");
    git(&project, &["merge", "--quiet", "--ff-only", "origin/main"]);
}

#[test]
fn a_red_base_stops_the_merge_queue_and_sends_no_task_back() {
    let runs = "submit: { test_command: 'echo ran >> ../../../runs; if [ -e broken ]; then echo syntax error; exit 1; fi' }";
    let project = with_agent(runs, with_remote);
    for name in ["one", "two"] {
        add(&project, &format!("write {name}.txt"), &[]);
    }
    drain(&project, "2");
    let push = |message: &str| {
        git(&project, &["commit", "--quiet", "--all", "-m", message]);
        git(&project, &["push", "--quiet", "origin", "main"]);
    };
    project.write("broken", "");
    git(&project, &["add", "broken"]);
    push("a mistake");
    for _ in 0..2 {
        let red = project.creel(&["merge", "--queue"]);
        assert_eq!(red.code, 4, "{}", red.err);
        for part in [
            "the base branch does not pass",
            "`run_tests` does not pass (exit 1):",
            "syntax error",
            "No task was sent back",
        ] {
            assert!(red.err.contains(part), "{part}: {}", red.err);
        }
        for task in tasks(&project) {
            assert_eq!(task["state"], "completed", "{task}");
            assert!(task["feedback"].is_null(), "{task}");
        }
    }
    git(&project, &["rm", "--quiet", "broken"]);
    push("repaired");
    fs::remove_file(project.root().join("runs")).expect("the checks ran");
    let green = project.creel(&["merge", "--queue"]);
    assert_eq!(green.code, 0, "{}", green.err);
    // The base, then both tasks together.
    assert_eq!(project.read("runs").lines().count(), 2);
}

#[test]
fn a_task_that_keeps_failing_is_blocked_after_the_configured_attempts() {
    let project = with_agent(
        "submit: { test_command: 'test ! -e bad.txt' }\nmerge: { attempts: 1 }",
        repository,
    );
    add(&project, "write bad.txt", &[]);
    drain(&project, "1");
    let merge = || project.creel(&["merge", "--queue"]);
    let first = merge();
    assert_eq!(first.code, 1, "{}", first.err);
    assert!(
        first.err.contains("goes back to the queue"),
        "{}",
        first.err
    );
    assert_eq!(task(&project, "1")["sentBack"], 1);
    drain(&project, "1");
    let second = merge();
    assert_eq!(second.code, 1, "{}", second.err);
    assert!(second.err.contains("task 1 is blocked"), "{}", second.err);
    let blocked = task(&project, "1");
    let reason = blocked["reason"].as_str().expect("it is blocked");
    assert!(
        reason.contains("(it was sent back once)") && reason.contains("does not pass (exit 1)"),
        "{reason}"
    );
    assert!(merge().err.contains("no finished task"));
    assert_eq!(project.creel(&["task", "start", "--queue", "1"]).code, 0);
    assert!(task(&project, "1")["sentBack"].is_null());
    drain(&project, "1");
    let prompts = project.creel(&["show", "task-1-3", "--prompts"]).out;
    assert!(prompts.contains("does not pass (exit 1)"), "{prompts}");
}

#[test]
fn two_merge_queues_at_once_merge_everything_and_send_nothing_back() {
    let server = NatsServer::start();
    let url = server.url();
    let one = with_agent("submit: { test_command: 'sleep 0.1' }", with_remote);
    let two = clone_of(&one);
    for number in 1..=4 {
        let goal = format!("write file{number}.txt");
        let added = one.creel(&["task", "add", "--queue", "--nats", &url, &goal]);
        assert_eq!(added.code, 0, "{}", added.err);
    }
    let worked = one.creel(&["worker", "--drain", "--jobs", "2", "--nats", &url]);
    assert_eq!(worked.code, 0, "{}", worked.err);
    let merge = |project: &Project| project.creel(&["merge", "--queue", "--nats", &url]);
    let ran = std::thread::scope(|scope| {
        let other = scope.spawn(|| merge(&two));
        [merge(&one), other.join().expect("it ends")]
    });
    for ran in &ran {
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    let listed = one.creel(&["task", "list", "--queue", "--json", "--nats", &url]);
    let tasks: Vec<Value> = serde_json::from_str(&listed.out).expect("JSON");
    for task in &tasks {
        assert!(
            task["merged"].is_string() && task["sentBack"].is_null(),
            "{task}"
        );
    }
    git(&one, &["fetch", "--quiet", "origin"]);
    let on_main = files(&one, "origin/main");
    assert_eq!(on_main.matches("file").count(), 4, "{on_main}");
}

fn branches(project: &Project) -> String {
    git(project, &["branch", "--format=%(refname:short)"])
}

fn remote_branches(project: &Project) -> Vec<String> {
    let list = git(project, &["ls-remote", "--heads", "origin"]);
    let names = list
        .lines()
        .filter_map(|line| line.split_once("refs/heads/"));
    names.map(|(_, name)| name.to_owned()).collect()
}

#[test]
fn branches_and_worktrees_of_merged_tasks_go_here_and_at_the_remote() {
    let project = with_agent("worktree: { keep: on_failure }", with_remote);
    add(&project, "write one.txt", &[]);
    add(&project, "write two.txt", &[]);
    drain(&project, "2");
    assert_eq!(project.creel(&["task", "start", "--queue", "1"]).code, 0);
    drain(&project, "1");
    // The user's own, and work that is not merged.
    let tip = git(&project, &["rev-parse", "creel/task-2"]);
    let tree = format!("{tip}^{{tree}}");
    let more = git(&project, &["commit-tree", &tree, "-p", &tip, "-m", "more"]);
    for (name, commit) in [
        ("feature/task-1", &tip),
        ("task-1", &tip),
        ("creel/task-9", &tip),
    ] {
        git(&project, &["branch", name, commit]);
        git(&project, &["push", "--quiet", "origin", name]);
    }
    git(&project, &["update-ref", "refs/heads/creel/task-2", &more]);
    let reason = format!("creel session task-1-2 in {}", project.root().display());
    let again = ["worktree", "add", "--quiet", "--lock", "--reason", &reason];
    let folder = ".creel/worktrees/task-1-2";
    git(
        &project,
        &[&again[..], &[folder, "creel/task-1-2"]].concat(),
    );
    let merged = project.creel(&["merge", "--queue"]);
    assert_eq!(merged.code, 0, "{}", merged.err);
    assert_eq!(project.creel(&["worktree", "list"]).out, "");
    assert!(
        merged
            .err
            .contains("deleted the branches of merged tasks: 1 here, 3 at `origin`"),
        "{}",
        merged.err
    );
    assert_eq!(
        branches(&project),
        "creel/task-2\ncreel/task-9\nfeature/task-1\nmain\ntask-1"
    );
    assert_eq!(
        remote_branches(&project),
        ["creel/task-9", "feature/task-1", "main", "task-1"]
    );
    let log = ["log", "--format=%B", "origin/main"];
    let message = "Merge task 1: write one.txt\n\nCreel-Task: 1\nCreel-Session: task-1-2\n";
    assert!(git(&project, &log).contains(message));
    // A later run continues without the branch.
    assert_eq!(project.creel(&["task", "start", "--queue", "1"]).code, 0);
    drain(&project, "1");
    assert_eq!(project.creel(&["merge", "--queue"]).code, 0);
    // A checked out branch stays.
    git(
        &project,
        &["checkout", "--quiet", "-b", "creel/task-1-3", "origin/main"],
    );
    assert_eq!(project.creel(&["merge", "--queue"]).code, 0);
    assert!(branches(&project).contains("creel/task-1-3"));
}

#[test]
fn a_branch_of_the_user_with_the_name_of_a_tasks_branch_stays() {
    let project = with_agent("worktree: { keep: on_failure }", with_remote);
    // The user's own, with nothing that is not merged.
    git(&project, &["branch", "creel/task-1"]);
    git(&project, &["push", "--quiet", "origin", "creel/task-1"]);
    add(&project, "write one.txt", &[]);
    drain(&project, "1");
    assert!(branches(&project).contains("creel/task-1-2"));
    let merged = project.creel(&["merge", "--queue"]);
    assert_eq!(merged.code, 0, "{}", merged.err);
    assert_eq!(branches(&project), "creel/task-1\nmain");
    assert_eq!(remote_branches(&project), ["creel/task-1", "main"]);
}

#[test]
fn a_branch_that_is_being_rebased_stays() {
    let project = with_agent("worktree: { keep: on_failure }", with_remote);
    add(&project, "write one.txt", &[]);
    drain(&project, "1");
    let folder = project.root().join("../rebased");
    let place = folder.display().to_string();
    git(
        &project,
        &["worktree", "add", "--quiet", &place, "creel/task-1"],
    );
    let rebase = ["-c", "sequence.editor=sed -i s/^pick/edit/", "-C", &place];
    git(
        &project,
        &[&rebase[..], &["rebase", "--quiet", "-i", "HEAD~1"]].concat(),
    );
    assert_eq!(project.creel(&["merge", "--queue"]).code, 0);
    assert!(branches(&project).contains("creel/task-1"));
    git(&project, &["-C", &place, "rebase", "--continue"]);
}

#[test]
fn a_rebase_that_would_lose_something_becomes_a_squash() {
    let project = with_agent(
        "merge: { style: rebase }\nworktree: { keep: on_failure }",
        with_remote,
    );
    add(&project, "write one.txt", &[]);
    drain(&project, "1");
    // Only the merge commit has this file.
    let folder = project.root().join("../merging");
    let place = folder.display().to_string();
    let there = |args: &[&str]| git(&project, &[&["-C", &place], args].concat());
    let side = git(
        &project,
        &["commit-tree", "main^{tree}", "-p", "main", "-m", "side"],
    );
    git(
        &project,
        &["worktree", "add", "--quiet", &place, "creel/task-1"],
    );
    there(&["merge", "--quiet", "--no-commit", "--no-ff", &side]);
    fs::write(folder.join("inmerge.txt"), "new").expect("a file");
    there(&["add", "inmerge.txt"]);
    there(&["commit", "--quiet", "-m", "merge"]);
    there(&["push", "--quiet", "origin", "creel/task-1"]);
    git(&project, &["worktree", "remove", &place]);
    let merged = project.creel(&["merge", "--queue"]);
    assert_eq!(merged.code, 0, "{}", merged.err);
    git(&project, &["fetch", "--quiet", "origin", "main"]);
    git(&project, &["cat-file", "-e", "FETCH_HEAD:inmerge.txt"]);
}

#[test]
fn a_red_base_of_one_type_stops_only_that_type() {
    let types = "task_types: { x: { hooks: { before_merge: [{ command: 'false' }] } }, y: { hooks: { before_merge: [{ command: 'test \"$CREEL_TASK_TYPE\" = y' }] } } }";
    let project = with_agent(types, with_remote);
    for (goal, kind) in [("write one.txt", "x"), ("write two.txt", "y")] {
        let added = project.creel(&["task", "add", "--queue", goal, "--type", kind]);
        assert_eq!(added.code, 0, "{}", added.err);
    }
    drain(&project, "2");
    let merged = project.creel(&["merge", "--queue"]);
    assert_eq!(merged.code, 4, "{}", merged.err);
    assert!(
        merged.err.contains("task 1 is not merged") && merged.err.contains("merged task 2"),
        "{}",
        merged.err
    );
}

#[test]
fn a_base_that_lost_a_merge_keeps_the_branches_of_its_tasks() {
    let project = with_agent("", with_remote);
    add(&project, "write one.txt", &[]);
    drain(&project, "1");
    let before = git(&project, &["rev-parse", "origin/main"]);
    let tip = git(&project, &["rev-parse", "creel/task-1"]);
    assert_eq!(project.creel(&["merge", "--queue"]).code, 0);
    git(&project, &["branch", "creel/task-1", &tip]);
    git(&project, &["push", "--quiet", "origin", "creel/task-1"]);
    git(
        &project,
        &[
            "push",
            "--quiet",
            "--force",
            "origin",
            &format!("{before}:main"),
        ],
    );
    assert_eq!(project.creel(&["merge", "--queue"]).code, 0);
    assert!(branches(&project).contains("creel/task-1"));
    assert!(remote_branches(&project).contains(&"creel/task-1".to_owned()));
}

#[test]
fn tasks_are_squashed_or_rebased_where_the_config_says_so() {
    for style in ["squash", "rebase"] {
        let project = with_agent(&format!("merge: {{ style: {style} }}"), with_remote);
        let one = add(&project, "write one.txt, write both.txt", &[]);
        add(&project, "write two.txt, write both.txt", &[&one]);
        add(&project, "write three.txt", &[]);
        drain(&project, "2");
        let merged = project.creel(&["merge", "--queue"]);
        assert_eq!(merged.code, 0, "{style}: {}", merged.err);
        let log = git(
            &project,
            &[
                "log",
                "--format=%p|%(trailers:separator=%x2C)",
                "origin/main",
            ],
        );
        let (ours, before): (Vec<&str>, Vec<&str>) =
            log.lines().partition(|line| line.contains("Creel-Task"));
        assert_eq!(ours.len(), 3, "{style}: {log}");
        assert!(
            ours.iter()
                .all(|line| !line.split('|').next().unwrap_or("").contains(' ')),
            "{log}"
        );
        assert_eq!(before.len(), 2, "{style}: {log}");
        assert!(log.contains("Creel-Task: 2,Creel-Session: task-2"), "{log}");
        let both = git(&project, &["show", "origin/main:both.txt"]);
        assert_eq!(both, "task-1\ntask-2", "{style}");
        assert_eq!(branches(&project), "main", "{style}");
        assert_eq!(remote_branches(&project), ["main"], "{style}");
        assert!(
            tasks(&project)
                .iter()
                .all(|task| task["merged"].is_string())
        );
    }
}

/// A merge was killed after the base branch had moved and before the queue knew it.
#[test]
fn a_squashed_task_whose_merge_was_killed_is_not_merged_twice() {
    let project = with_agent("merge: { style: squash }", with_remote);
    add(&project, "write one.txt", &[]);
    drain(&project, "1");
    let tip = git(&project, &["rev-parse", "creel/task-1"]);
    assert_eq!(project.creel(&["merge", "--queue"]).code, 0);
    let queue = ".creel/queue/tasks.jsonl";
    let lines = project.read(queue);
    let (kept, last) = lines.trim_end().rsplit_once('\n').expect("changes");
    assert!(
        last.contains("\"merged\"") && !kept.contains("\"merged\""),
        "{last}"
    );
    project.write(queue, &format!("{kept}\n"));
    git(
        &project,
        &[
            "push",
            "--quiet",
            "origin",
            &format!("{tip}:refs/heads/creel/task-1"),
        ],
    );
    // Something else changed the same lines since.
    git(&project, &["pull", "--quiet", "origin", "main"]);
    project.write("one.txt", "rewritten\n");
    git(&project, &["commit", "--quiet", "--all", "-m", "rewritten"]);
    git(&project, &["push", "--quiet", "origin", "main"]);
    let again = project.creel(&["merge", "--queue"]);
    assert_eq!(again.code, 0, "{}", again.err);
    assert!(task(&project, "1")["merged"].is_string());
    assert_eq!(git(&project, &["show", "origin/main:one.txt"]), "rewritten");
    assert_eq!(remote_branches(&project), ["main"]);
}

#[test]
fn without_a_remote_the_checked_out_branch_moves_unless_it_has_changes() {
    let project = with_agent("", repository);
    add(&project, "write one.txt", &[]);
    drain(&project, "2");
    project.write("agent", "changed\n");
    let refused = project.creel(&["merge", "--queue"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("has uncommitted changes there"),
        "{}",
        refused.err
    );
    git(&project, &["checkout", "--quiet", "agent"]);
    assert_eq!(project.creel(&["merge", "--queue"]).code, 0);
    assert!(project.root().join("one.txt").exists());
}

#[test]
fn a_task_that_was_sent_back_holds_those_that_build_on_it() {
    let project = with_agent("submit: { test_command: 'test ! -e broken' }", repository);
    let one = add(&project, "write one.txt, repair", &[]);
    add(&project, "write two.txt", &[&one]);
    drain(&project, "2");
    for _ in 0..2 {
        let merged = project.creel(&["merge", "--queue"]);
        assert_eq!(merged.code, 1, "{}", merged.err);
        assert!(merged.err.contains("it waits for task 1"), "{}", merged.err);
    }
    assert!(!project.root().join("two.txt").exists());
}

#[test]
fn a_merge_never_touches_the_users_checkout_or_worktrees() {
    let project = with_agent("", repository);
    let kept = project.creel(&[
        "run",
        "--headless",
        "-s",
        "k",
        "--worktree",
        "merge-queue",
        "write kept.txt and leave it",
    ]);
    assert_eq!(kept.code, 0, "{}", kept.err);
    add(&project, "write one.txt", &[]);
    drain(&project, "2");
    assert_eq!(project.creel(&["merge", "--queue"]).code, 0);
    assert!(
        project
            .root()
            .join(".creel/worktrees/merge-queue/kept.txt")
            .exists()
    );
    // Its own folder has lost its link to the repository: creel makes it again.
    fs::remove_file(project.root().join(".creel/worktrees/.merge-queue/.git"))
        .expect("it is there");
    add(&project, "write two.txt", &[]);
    drain(&project, "2");
    project.write("one.txt", "precious\n");
    let refused = project.creel(&["merge", "--queue"]);
    assert_ne!(refused.code, 0);
    assert!(
        refused.err.contains("has uncommitted changes there"),
        "{}",
        refused.err
    );
    assert_eq!(project.read("one.txt"), "precious\n");
    assert_eq!(git(&project, &["symbolic-ref", "--short", "HEAD"]), "main");
}

#[test]
fn a_merge_that_was_killed_does_not_block_the_next_one() {
    let project = with_agent("", repository);
    let stage = project.root().join(".creel/worktrees/.merge-queue");
    let entry = || {
        let link = fs::read_to_string(stage.join(".git")).expect("a worktree");
        std::path::PathBuf::from(link.trim_start_matches("gitdir: ").trim_end())
    };
    let damages: [&dyn Fn(); 5] = [
        &|| {},
        &|| fs::write(entry().join("index.lock"), "").expect("a file"),
        &|| fs::write(entry().join("AUTO_MERGE.lock"), "").expect("a file"),
        &|| fs::remove_file(entry().join("HEAD")).expect("it is there"),
        &|| fs::remove_file(stage.join(".git")).expect("it is there"),
    ];
    for (i, damage) in damages.iter().enumerate() {
        damage();
        add(&project, &format!("write file{i}.txt"), &[]);
        drain(&project, "2");
        let merged = project.creel(&["merge", "--queue"]);
        assert_eq!(merged.code, 0, "{i}: {}", merged.err);
        assert!(
            git(&project, &["ls-tree", "--name-only", "main"]).contains(&format!("file{i}.txt")),
            "{i}"
        );
    }
}

#[test]
fn old_locks_of_branches_that_a_killed_git_left_behind_go() {
    let project = with_agent("", with_remote);
    let of = |name: &str| project.root().join(".git").join(name);
    let old = [
        "refs/remotes/origin/creel/task-1.lock",
        "refs/remotes/origin/main.lock",
        "packed-refs.lock",
    ];
    for name in old {
        fs::create_dir_all(of(name).parent().expect("a folder")).expect("a folder");
        let file = fs::File::create(of(name)).expect("a file");
        file.set_modified(SystemTime::now() - Duration::from_mins(1))
            .expect("it is ours");
    }
    add(&project, "write one.txt", &[]);
    drain(&project, "1");
    let merged = project.creel(&["merge", "--queue"]);
    assert_eq!(merged.code, 0, "{}", merged.err);
    // They stay as long as a git works in the project, such as its housekeeping.
    until("the old locks are gone", || {
        old.iter().all(|name| !of(name).exists()) || project.creel(&["worktree", "prune"]).code != 0
    });
    assert_eq!(old.map(|name| of(name).exists()), [false; 3]);
    // Somebody may still be behind a new one.
    fs::write(of(old[1]), "").expect("a file");
    assert_eq!(project.creel(&["worktree", "prune"]).code, 0);
    assert!(of(old[1]).exists());
}

#[test]
fn completed_work_is_submitted_where_the_config_says_so() {
    let submit = "submit: { on_complete: true, pr_command: 'echo https://forge.example/pull/7; touch ../../../submitted' }";
    let project = with_agent(submit, with_remote);
    add(&project, "write one.txt and leave it", &[]);
    drain(&project, "2");
    assert_eq!(
        task(&project, "1")["state"],
        "completed",
        "{}",
        task(&project, "1")
    );
    assert!(project.root().join("submitted").exists());
}

#[test]
fn at_a_terminal_a_screen_shows_the_sessions_of_several_jobs() {
    let project = with_agent("", repository);
    add(&project, "write one.txt", &[]);
    add(&project, "write two.txt", &[]);
    let mut terminal = Terminal::start(project.command(&["worker", "--jobs", "2"]), (120, 30));
    terminal.wait_for("both tasks are done", |shown| {
        shown.has("task-1") && shown.has("task-2") && shown.has("ENDED  2")
    });
    terminal.press("q");
    terminal.wait_for_text("Leave the worker?");
    terminal.press("esc");
    terminal.wait_for("the question is gone", |shown| {
        shown.has("ENDED  2") && !shown.has("Leave the worker?")
    });
    terminal.press("q");
    terminal.wait_for_text("Leave the worker?");
    terminal.press("2");
    assert_eq!(terminal.end(), 130, "{}", terminal.text());
    assert!(
        terminal.text().contains("task 2 is completed"),
        "{}",
        terminal.text()
    );
    assert!(
        tasks(&project)
            .iter()
            .all(|task| task["state"] == "completed")
    );
}

#[test]
fn a_screen_of_a_worker_that_drains_the_queue_closes_when_it_is_empty() {
    let project = with_agent("", repository);
    add(&project, "write one.txt", &[]);
    let mut terminal = Terminal::start(
        project.command(&["worker", "--jobs", "2", "--drain"]),
        (80, 24),
    );
    assert_eq!(terminal.end(), 0, "{}", terminal.text());
    terminal.is_as_it_was();
    assert!(
        terminal.text().contains("task 1 is completed"),
        "{}",
        terminal.text()
    );
}

#[test]
fn a_worker_on_a_screen_ends_with_its_terminal_and_at_a_signal() {
    for signal in [Signal::TERM, Signal::HUP] {
        let project = with_agent("", repository);
        let mut terminal = Terminal::start(project.command(&["worker", "--jobs", "2"]), (80, 24));
        terminal.wait_for_text("worker · 2 jobs");
        terminal.signal(signal);
        assert_eq!(terminal.end(), 130, "{}", terminal.text());
        terminal.is_as_it_was();
        assert!(
            terminal.text().contains("stopping the worker"),
            "{}",
            terminal.text()
        );
    }
}

#[test]
fn a_worker_ends_at_a_signal_while_its_user_looks_at_a_session() {
    let project = repository(&config(
        "until [ -e $HOME/go ] || [ ! -e creel.yaml ]; do sleep 0.02; done",
        "",
    ));
    assert_eq!(project.creel(&["trust"]).code, 0);
    let one = add(&project, "Do it.", &[]);
    let mut terminal = Terminal::start(project.command(&["worker", "--jobs", "2"]), (80, 24));
    terminal.wait_for_text("task-1");
    terminal.press("enter");
    terminal.wait_for_status("WORKING");
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.end(), 130, "{}", terminal.text());
    terminal.is_as_it_was();
    let seen = task(&project, &one);
    assert_eq!(seen["state"], "ready", "the worker returned it: {seen}");
}

pub(crate) fn log_file(project: &Project, name: &str) -> fs::File {
    fs::File::options()
        .create(true)
        .append(true)
        .open(project.temp_dir().join(name))
        .expect("a file")
}

fn lines_of(project: &Project, log: &str) -> usize {
    fs::read_to_string(project.temp_dir().join(log))
        .unwrap_or_default()
        .lines()
        .count()
}

/// Tasks with dependencies, types and conflicts, workers and merges that are killed.
fn soak(clones: &[&Project], server: &[&str]) {
    const TASKS: usize = 30;
    let main = clones[0];
    let with_server = |args: &[&'static str]| -> Vec<String> {
        args.iter()
            .chain(server)
            .map(|arg| (*arg).to_owned())
            .collect()
    };
    let creel = |project: &Project, args: &[String]| {
        project.creel(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    for number in 1..=TASKS {
        let shared = if number % 6 == 0 {
            " and write shared.txt"
        } else {
            ""
        };
        let leave = if number % 4 == 0 { " (leave)" } else { "" };
        let goal = format!("write files/f{number}.txt{shared}{leave}");
        let mut args = with_server(&["task", "add", "--queue"]);
        args.push(goal);
        if number % 3 == 0 {
            args.extend(["--depends-on".to_owned(), (number - 1).to_string()]);
        }
        if number % 5 == 0 {
            args.extend([
                "--depends-on".to_owned(),
                (number - 4).to_string(),
                "--type".to_owned(),
                "qa".to_owned(),
            ]);
        }
        assert_eq!(creel(main, &args).code, 0);
    }
    let worker_args = with_server(&["worker", "--drain", "--jobs", "3", "--lease", "3s"]);
    let worker = |project: &Project| {
        let mut command =
            project.command(&worker_args.iter().map(String::as_str).collect::<Vec<_>>());
        command
            .stdout(Stdio::null())
            .stderr(log_file(project, "worker.log"))
            .spawn()
            .expect("creel starts")
    };
    let reports = || -> usize {
        clones
            .iter()
            .map(|project| lines_of(project, "worker.log"))
            .sum()
    };
    for round in 0..4 {
        let before = reports();
        let mut workers: Vec<_> = clones.iter().map(|project| worker(project)).collect();
        // One job has just reported something; the others are wherever they are.
        until("the workers report something", || {
            reports() > before + 3 + 4 * round
        });
        for worker in &mut workers {
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
    let listed = || -> Vec<Value> {
        let ran = creel(main, &with_server(&["task", "list", "--queue", "--json"]));
        serde_json::from_str(&ran.out).expect("JSON")
    };
    let merge_args = with_server(&["merge", "--queue"]);
    for round in 0..20 {
        let workers: Vec<_> = clones
            .iter()
            .map(|project| (worker(project), project))
            .collect();
        for (mut worker, project) in workers {
            let log =
                || fs::read_to_string(project.temp_dir().join("worker.log")).unwrap_or_default();
            assert!(worker.wait().expect("it ends").success(), "{}", log());
        }
        let all = listed();
        assert!(
            all.iter().all(|task| task["state"] == "completed"),
            "{all:#?}"
        );
        if round < 2 {
            // Also a merge can be killed.
            let mut command =
                main.command(&merge_args.iter().map(String::as_str).collect::<Vec<_>>());
            let (log, before) = (log_file(main, "merge.log"), lines_of(main, "merge.log"));
            let mut merge = command
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .expect("creel starts");
            until("a merge", || {
                lines_of(main, "merge.log") > before + round
                    || merge.try_wait().expect("it is ours").is_some()
            });
            let _ = merge.kill();
            let _ = merge.wait();
        }
        let merged = creel(main, &merge_args);
        if listed().iter().all(|task| task["merged"].is_string()) {
            break;
        }
        assert!(round < 19, "{}", merged.err);
    }
    git(main, &["fetch", "--quiet", "origin"]);
    let on_main = files(main, "origin/main");
    for number in 1..=TASKS {
        assert!(
            on_main
                .lines()
                .any(|file| file == format!("files/f{number}.txt")),
            "task {number}: {on_main}"
        );
    }
    let shared = git(main, &["show", "origin/main:shared.txt"]);
    let names: Vec<&str> = shared
        .lines()
        .map(|line| line.split('-').nth(1).expect("a number"))
        .collect();
    for number in (6..=TASKS).step_by(6) {
        assert!(
            names.contains(&number.to_string().as_str()),
            "task {number}: {shared}"
        );
    }
    assert!(!shared.contains("<<<"), "{shared}");
    // The base has every commit of every completed task, so their branches are gone. Only work of
    // workers that lost their task to another machine stays.
    assert_eq!(creel(main, &merge_args).code, 0);
    for project in clones {
        let drained = creel(project, &worker_args);
        assert_eq!(drained.code, 0, "{}", drained.err);
        git(project, &["fetch", "--quiet", "--prune", "origin"]);
        let merged = [
            "for-each-ref",
            "--merged=origin/main",
            "--format=%(refname)",
        ];
        let places = ["refs/heads/creel", "refs/remotes/origin/creel"];
        assert_eq!(git(project, &[&merged[..], &places].concat()), "");
    }
    for task in listed() {
        assert_eq!(task["state"], "completed");
    }
}

#[test]
fn no_commit_is_lost_when_workers_and_merges_are_killed() {
    let project = with_agent(
        "submit: { test_command: '! grep -q \"^<<<\" shared.txt 2>/dev/null' }\nmerge: { attempts: 20 }",
        with_remote,
    );
    soak(&[&project], &[]);
}

#[test]
fn no_commit_is_lost_over_a_server_with_two_clones() {
    let server = NatsServer::start();
    let one = with_agent("merge: { attempts: 20 }", with_remote);
    let remote = git(&one, &["remote", "get-url", "origin"]);
    let two = Project::new();
    git(&two, &["clone", "--quiet", &remote, "."]);
    for (key, value) in [("user.name", "Test"), ("user.email", "test@example.com")] {
        git(&two, &["config", "--global", key, value]);
    }
    assert_eq!(two.creel(&["trust"]).code, 0);
    let url = server.url();
    soak(&[&one, &two], &["--nats", &url]);
}

#[test]
fn an_agent_has_as_many_sessions_at_once_as_the_user_allows() {
    let project = repository("agent: slow\nagents: { slow: { command: sh slow.sh } }\n");
    project.write(
        "slow.sh",
        "cat > /dev/null\nmkdir -p \"$HOME/at-once\"\n: > \"$HOME/at-once/$CREEL_SESSION\"\n\
         until [ -e \"$HOME/met\" ] || [ $(ls \"$HOME/at-once\" | wc -l) -gt 1 ]; do sleep 0.02; done\n\
         : > \"$HOME/met\"\nls \"$HOME/at-once\" | wc -l >> \"$HOME/counts\"\nsleep 0.3\n\
         rm \"$HOME/at-once/$CREEL_SESSION\"\necho '<promise>COMPLETE</promise>'\n",
    );
    git(&project, &["add", "slow.sh"]);
    git(&project, &["commit", "--quiet", "-m", "agent"]);
    assert_eq!(project.creel(&["trust"]).code, 0);
    for goal in ["one", "two", "three", "four"] {
        add(&project, goal, &[]);
    }
    let ran = project.creel(&[
        "worker",
        "--drain",
        "--jobs",
        "4",
        "--limit-agent",
        "slow=2",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let counts = fs::read_to_string(project.root().parent().expect("a folder").join("counts"))
        .expect("the agent's counts");
    let most = counts
        .lines()
        .filter_map(|line| line.trim().parse::<u32>().ok())
        .max();
    assert_eq!(most, Some(2), "{counts}");
}
