//! What holds for every queue: of a NATS server, and of a project without any server.

use std::{collections::BTreeMap, fs};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    nats::Chance,
    queue::{DONE, UNTIL_GO, is, order},
    support::{
        lives,
        nats::NatsServer,
        project::{Project, Started, eventually_in, until},
    },
};

/// Where the queue is.
enum QueueHome {
    Server(NatsServer),
    Project,
}

impl QueueHome {
    /// A project whose workers use the queue.
    fn project(&self, rest: &str, script: &str) -> Project {
        let nats = match self {
            Self::Server(server) => format!("nats: {{ url: '{}', queue: q }}\n", server.url()),
            Self::Project => String::new(),
        };
        let config = format!(
            "agent: demo\nmax_iterations: 3\nagents: {{ demo: {{ script: s.yaml }}, other: {{ script: s.yaml }} }}\n{nats}{rest}\n"
        );
        Project::with(&config).file("s.yaml", &format!("turns: []\n{script}"))
    }
}

impl QueueHome {
    /// Waits until the queue's commands reach the session. Through a server that is later than its
    /// first prompt.
    fn wait_for_session(&self, project: &Project) {
        let reach = match self {
            Self::Server(server) => vec!["--nats".to_owned(), server.url()],
            Self::Project => Vec::new(),
        };
        let reach: Vec<&str> = reach.iter().map(String::as_str).collect();
        until("the session can be reached", || {
            project
                .creel(&[&["status", "-s", "s"], &reach[..]].concat())
                .code
                == 0
        });
    }
}

/// Each story is told twice.
macro_rules! for_each_queue {
    ($($story:ident),* $(,)?) => {
        mod with_a_server {
            $(#[test] fn $story() { super::$story(&super::QueueHome::Server(super::NatsServer::start())) })*
        }
        mod without_a_server {
            $(#[test] fn $story() { super::$story(&super::QueueHome::Project) })*
        }
    };
}

for_each_queue! {
    tasks_are_done_by_priority_and_after_their_dependencies,
    a_worker_gets_its_types_and_types_take_turns,
    the_user_decides_about_a_task,
    the_user_changes_the_tasks_of_the_queue,
    a_task_says_what_its_sessions_cost_and_a_budget_ends_the_worker,
    a_session_stops_when_the_budget_of_its_worker_is_used_up,
    a_task_that_was_given_back_starts_anew_when_its_goal_changes,
    a_killed_worker_ends_its_session_and_another_worker_continues_it,
    a_worker_that_is_asked_to_end_returns_its_task_at_once,
    a_suspended_worker_loses_its_task,
    a_task_that_keeps_killing_its_session_is_blocked_in_the_end,
    a_worker_that_waits_gets_a_task_that_is_added_later,
    a_session_hands_its_tasks_to_workers_and_gets_their_results,
    a_task_that_an_agent_adds_or_makes_ready_last_is_in_the_queue,
    each_task_is_completed_once_although_workers_are_killed,
}

fn tasks_are_done_by_priority_and_after_their_dependencies(home: &QueueHome) {
    let here = home.project("", DONE);
    let add = |args: &[&str]| here.queue(&[&["add"], args].concat()).out;
    assert_eq!(add(&["Write it", "-p", "3", "-d", "a.rs"]), "1\n");
    assert_eq!(add(&["Test it", "-p", "0", "--depends-on", "1"]), "2\n");
    assert_eq!(
        add(&["Look around", "-p", "1", "--id", "look", "-l", "x"]),
        "look\n"
    );
    assert_eq!(
        add(&["Say so", "--depends-on", "2", "--depends-on", "look"]),
        "4\n"
    );
    assert_eq!(
        ["1", "2", "look", "4"].map(|id| here.state(id)),
        ["ready", "created", "ready", "created"]
    );
    let ran = here.drain(&[]);
    assert_eq!(
        (ran.code, order(&ran, "completed").join(" ").as_str()),
        (0, "look 1 2 4"),
        "{}",
        ran.err
    );
    let task = here.queued("2");
    assert_eq!(
        (&task["result"], &task["by"]["session"]),
        (&"It is in a.rs.".into(), &"task-2".into())
    );
    let prompt = here.creel(&["show", "task-2", "--prompts"]).out;
    assert!(
        prompt.contains("Test it\n\n[Result of task 1: Write it]\nIt is in a.rs.\n"),
        "{prompt}"
    );
    let listed = here.queue(&["list", "-l", "x"]).out;
    assert!(
        listed.contains("look  completed  1               task-look on "),
        "{listed}"
    );
    let again = here.creel(&["task", "add", "--queue", "x", "--depends-on", "nothing"]);
    assert!(
        again.code == 1
            && again
                .err
                .contains("the queue has no task nothing to depend on"),
        "{}",
        again.err
    );
}

fn a_worker_gets_its_types_and_types_take_turns(home: &QueueHome) {
    let here = home.project("", DONE);
    for kind in ["a", "a", "b", "b", "c"] {
        here.queue(&["add", "Do it", "-t", kind]);
    }
    here.queue(&["add", "For another", "-t", "a", "--agent", "other"]);
    assert_eq!(
        order(
            &here.drain(&["--types", "a,b", "--agent", "demo"]),
            "completed"
        ),
        ["1", "3", "2", "4"]
    );
    assert_eq!(
        (here.state("5"), here.state("6")),
        ("ready".into(), "ready".into())
    );
    assert_eq!(
        order(
            &here.drain(&["--agent", "other", "--types", "a"]),
            "completed"
        ),
        ["6"]
    );
}

fn the_user_decides_about_a_task(home: &QueueHome) {
    let here = home.project(
        "",
        "otherwise: { say: 'I cannot. <promise>BLOCKED</promise>' }\n",
    );
    here.queue(&["add", "Do it", "--id", "a"]);
    here.queue(&["add", "Do more", "--id", "b", "--depends-on", "a"]);
    assert_eq!(here.drain(&[]).code, 4);
    assert_eq!(
        (here.state("a"), here.state("b")),
        ("blocked".into(), "created".into())
    );
    here.write("s.yaml", &format!("turns: []\n{DONE}"));
    here.queue(&["start", "a"]);
    let ran = here.drain(&[]);
    assert_eq!(order(&ran, "completed"), ["a", "b"], "{}", ran.err);
    assert_eq!(
        (&here.queued("a")["by"]["session"], &here.queued("a")["run"]),
        (&"task-a-2".into(), &2.into())
    );
    here.queue(&["add", "By hand", "--id", "c"]);
    here.queue(&["add", "Never", "--id", "d"]);
    here.queue(&["add", "After that", "--id", "f", "--depends-on", "d"]);
    here.queue(&["done", "c", "-r", "I did it."]);
    here.queue(&["remove", "d"]);
    assert_eq!(order(&here.drain(&[]), "completed"), ["f"]);
    assert!(!here.queue(&["list"]).out.contains("Never"));
    let taken = here.creel(&["task", "add", "--queue", "x", "--id", "c"]);
    assert!(taken.err.contains("already has a task c"), "{}", taken.err);
    here.queue(&["add", "Once more", "--id", "d"]);
    assert_eq!(order(&here.drain(&[]), "completed"), ["d"]);
    assert_eq!(here.queued("d")["goal"], "Once more");
}

fn the_user_changes_the_tasks_of_the_queue(home: &QueueHome) {
    let here = home.project(
        "",
        "otherwise: { say: 'I cannot. <promise>BLOCKED</promise>' }\n",
    );
    assert_eq!(here.creel(&["trust"]).code, 0);
    let fails = |args: &[&str], why: &str| {
        let ran = here.creel(&[&["task"], args, &["--queue"]].concat());
        assert!(
            ran.code == 1 && ran.err.contains(why),
            "{args:?}: {}",
            ran.err
        );
    };
    for id in ["a", "b", "c"] {
        here.queue(&["add", &format!("Do {id}"), "--id", id]);
    }
    here.queue(&["depend", "a", "b"]);
    here.queue(&["depend", "b", "c"]);
    assert_eq!(
        (here.state("a"), here.state("b")),
        ("created".into(), "created".into())
    );
    fails(
        &["depend", "c", "a"],
        "that would be a cycle, c → a → b → c",
    );
    fails(
        &["depend", "c", "nothing"],
        "the queue has no task nothing to depend on",
    );
    fails(&["depend", "c", "a", "--remove"], "c does not depend on a");
    here.queue(&["depend", "a", "b", "--remove"]);
    assert_eq!(here.state("a"), "ready");
    here.queue(&[
        "update",
        "a",
        "--type",
        "docs",
        "--priority",
        "0",
        "--goal",
        "Write it",
    ]);
    here.queue(&["update", "a", "--add-label", "night"]);
    let changed = here.queued("a");
    assert_eq!(
        (
            &changed["goal"],
            &changed["priority"],
            &changed["type"],
            &changed["labels"][0]
        ),
        (
            &"Write it".into(),
            &0.into(),
            &"docs".into(),
            &"night".into()
        )
    );
    fails(&["update", "a", "--goal", " "], "a task needs a goal");
    // Only the worker of its new type gets it.
    assert_eq!(order(&here.drain(&["--types", "qa"]), "blocked"), [""; 0]);
    assert_eq!(order(&here.drain(&["--types", "docs"]), "blocked"), ["a"]);
    assert!(
        here.creel(&["show", "task-a", "--prompts"])
            .out
            .contains("Write it")
    );
    here.queue(&["update", "a", "--goal", "Write it well", "--priority", "1"]);
    here.queue(&["start", "a", "--context", "Use tabs"]);
    here.write("s.yaml", &format!("turns: []\n{DONE}"));
    assert_eq!(order(&here.drain(&[]), "completed"), ["a", "c", "b"]);
    let prompt = here.creel(&["show", "task-a-2", "--prompts"]).out;
    assert!(
        prompt.contains("Write it well\n\nYour user says about it:\nUse tabs"),
        "{prompt}"
    );
    fails(&["update", "a", "--goal", "Too late"], "a is completed");
    // A name that another task still waits for is not used again.
    here.queue(&["add", "First", "--id", "x"]);
    here.queue(&["add", "Second", "--id", "y", "--depends-on", "x"]);
    here.queue(&["remove", "x"]);
    fails(
        &["add", "Again", "--id", "x", "--depends-on", "y"],
        "task y depends on a task x that was removed",
    );
}

fn a_task_that_was_given_back_starts_anew_when_its_goal_changes(home: &QueueHome) {
    let here = home.project("", UNTIL_GO);
    here.queue(&["add", "The old goal"]);
    let mut first = here.worker(&[]);
    first.wait_until("begin", |task| is(task, "1", "active"));
    eventually_in(&here.root().join("pids"));
    first.signal(Signal::TERM);
    assert_eq!(first.end().code, 130);
    assert_eq!(here.state("1"), "ready");
    here.queue(&["update", "1", "--goal", "The new goal"]);
    here.write("go", "");
    assert_eq!(order(&here.drain(&[]), "completed"), ["1"]);
    let prompts = here.creel(&["show", "task-1-2", "--prompts"]).out;
    assert!(prompts.contains("The new goal"), "{prompts}");
}

fn a_task_says_what_its_sessions_cost_and_a_budget_ends_the_worker(home: &QueueHome) {
    let here = home.project(
        "",
        "otherwise: { say: 'Yes. <promise>COMPLETE</promise>', tokens: 600, cost: 0.5 }\n",
    );
    for goal in ["One", "Two", "Three"] {
        here.queue(&["add", goal]);
    }
    let ran = here.drain(&["--budget", "cost=1,tokens=1M,time=8h"]);
    let why = "this worker stops: the budget of 1.00 is used up: 1.00 so far; task 3 is not done";
    assert!(
        ran.code == 3 && ran.err.contains(why),
        "{} {}",
        ran.code,
        ran.err
    );
    let again = here.drain(&["--budget", "tokens=600"]);
    assert_eq!(
        (again.code, order(&again, "completed")),
        (3, vec!["3".to_owned()])
    );
    assert!(
        again.err.contains("nothing is left in the queue"),
        "{}",
        again.err
    );
    // A second session for the same task.
    here.queue(&["start", "1"]);
    here.write("s.yaml", &format!("turns: []\n{DONE}"));
    assert_eq!(here.drain(&[]).code, 0);
    let task = here.queued("1");
    assert_eq!(
        (&task["tokens"], &task["cost"], &task["spent"][1]["cost"]),
        (&600.into(), &0.5.into(), &Value::Null)
    );
    let shown = here.queue(&["show", "1"]).out;
    assert!(
        shown.contains("at least $0.50 · 600 tokens · ") && shown.contains(" in 2 sessions"),
        "{shown}"
    );
    for (limits, why) in [
        ("cost", "`cost` is no limit"),
        ("time=soon", "`time=soon` is no limit"),
        ("tokens=0", "`tokens=0` is no limit"),
    ] {
        let refused = here.creel(&["worker", "--budget", limits]);
        assert!(
            refused.code == 2 && refused.err.contains(why),
            "{}",
            refused.err
        );
    }
}

fn a_session_stops_when_the_budget_of_its_worker_is_used_up(home: &QueueHome) {
    let here = home.project("", "");
    here.write(
        "s.yaml",
        "turns: [{ say: working, cost: 2 }]\notherwise: { run: 'until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done', \
         say: 'Yes. <promise>COMPLETE</promise>', cost: 1 }\n",
    );
    here.queue(&["add", "Do it"]);
    let ran = here.drain(&["--budget", "cost=1.5"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(
        ran.err
            .contains("the budget of 1.50 is used up: 2.00 so far"),
        "{}",
        ran.err
    );
    assert_eq!(
        (here.state("1"), &here.queued("1")["cost"]),
        ("ready".into(), &2.0.into())
    );
    here.write("go", "");
    assert_eq!(order(&here.drain(&[]), "completed"), ["1"]);
    let task = here.queued("1");
    assert_eq!(
        (
            task["spent"].as_array().map(Vec::len),
            &task["spent"][0]["session"],
            &task["cost"]
        ),
        (Some(1), &"task-1".into(), &3.0.into())
    );
}

fn a_killed_worker_ends_its_session_and_another_worker_continues_it(home: &QueueHome) {
    let here = home.project("", UNTIL_GO);
    here.queue(&["add", "Do it"]);
    let mut first = here.worker(&[]);
    first.wait_until("begin", |task| is(task, "1", "active"));
    let pid: i32 = eventually_in(&here.root().join("pids"))
        .parse()
        .expect("a number");
    first.kill();
    until("its agent is gone", || !lives(pid));
    let mut second = here.worker(&["--drain"]);
    let begun = second.wait_until("begin", |task| is(task, "1", "active"));
    assert_eq!(
        (&begun["attempt"], &begun["by"]["session"]),
        (&2.into(), &"task-1".into())
    );
    here.write("go", "");
    second.wait_until("end", |task| is(task, "1", "completed"));
    assert_eq!(second.end().code, 0);
}

fn a_worker_that_is_asked_to_end_returns_its_task_at_once(home: &QueueHome) {
    let here = home.project("", UNTIL_GO);
    here.queue(&["add", "Do it"]);
    let mut first = Started::of(here.command(&["worker", "--trust", "--json", "--lease", "1h"]));
    first.wait_until("begin", |task| is(task, "1", "active"));
    let pid: i32 = eventually_in(&here.root().join("pids"))
        .parse()
        .expect("a number");
    first.signal(Signal::TERM);
    first.wait_until("back", |task| is(task, "1", "ready"));
    assert_eq!(first.end().code, 130);
    assert!(!lives(pid));
    here.write("go", "");
    let ran = here.drain(&[]);
    assert_eq!(
        (ran.code, order(&ran, "completed")),
        (0, vec!["1".to_owned()]),
        "{}",
        ran.err
    );
    assert_eq!(here.queued("1")["attempt"], 1);
}

fn a_suspended_worker_loses_its_task(home: &QueueHome) {
    let here = home.project("", UNTIL_GO);
    here.queue(&["add", "Do it"]);
    let mut first = here.worker(&["--drain"]);
    first.wait_until("begin", |task| is(task, "1", "active"));
    let pid: i32 = eventually_in(&here.root().join("pids"))
        .parse()
        .expect("a number");
    first.signal(Signal::STOP);
    // Its session ends meanwhile, so the second worker has only its result to report.
    here.write("go", "");
    let journal = here.root().join(".creel/sessions/task-1/journal.jsonl");
    until("it is over", || {
        fs::read_to_string(&journal).is_ok_and(|text| text.contains("session_ended"))
    });
    let ran = here.drain(&[]);
    assert_eq!(order(&ran, "completed"), ["1"], "{}", ran.err);
    let done = here.queued("1");
    assert_eq!(done["attempt"], 2);
    first.signal(Signal::CONT);
    assert_eq!(first.end().code, 0);
    assert_eq!(here.queued("1"), done);
    assert!(!lives(pid));
}

fn a_task_that_keeps_killing_its_session_is_blocked_in_the_end(home: &QueueHome) {
    let here = home.project("", "otherwise: { say: x, run: 'kill -9 $PPID; sleep 9' }\n");
    here.queue(&["add", "Do it"]);
    let ran = here.drain(&[]);
    assert_eq!(
        (
            ran.code,
            order(&ran, "active").len(),
            order(&ran, "blocked").len()
        ),
        (4, 5, 1),
        "{}",
        ran.err
    );
    assert!(
        here.queued("1")["reason"]
            .as_str()
            .is_some_and(|why| why.contains("5 workers started it"))
    );
}

fn a_worker_that_waits_gets_a_task_that_is_added_later(home: &QueueHome) {
    let here = home.project("", DONE);
    let mut worker = here.worker(&[]);
    here.queue(&["add", "Do it"]);
    worker.wait_until("end", |task| is(task, "1", "completed"));
    here.queue(&["add", "Do more", "--depends-on", "1"]);
    worker.wait_until("end", |task| is(task, "2", "completed"));
    worker.signal(Signal::TERM);
    worker.end();
}

fn a_session_hands_its_tasks_to_workers_and_gets_their_results(home: &QueueHome) {
    let script = "  - { when: GOAL, say: 'Yes. <promise>COMPLETE</promise>', run: 'until [ -e home ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }\n";
    let here = home
        .project("prompt: GOAL", "")
        .file("s.yaml", &format!("turns:\n{script}{DONE}"));
    let mut session = here.start();
    session.wait_for("prompt_sent");
    home.wait_for_session(&here);
    let add = |args: &[&str]| {
        here.queue(&[&["add", "-s", "s"], args].concat())
            .out
            .trim()
            .to_owned()
    };
    assert_eq!(add(&["Part one"]), "task_1");
    assert_eq!(add(&["Part two", "--depends-on", "task_1"]), "task_2");
    let worker = here.worker(&[]);
    until("both are done", || {
        here.own_task("task_2")["state"] == "completed"
    });
    assert_eq!(here.own_task("task_1")["result"], "It is in a.rs.");
    worker.signal(Signal::TERM);
    worker.end();
    here.write("home", "");
    assert_eq!(session.end().code, 0);
}

/// The turn and the session end right after the command.
fn a_task_that_an_agent_adds_or_makes_ready_last_is_in_the_queue(home: &QueueHome) {
    let creel = env!("CARGO_BIN_EXE_creel");
    let last = |goal: &str, command: &str| {
        let script = format!(
            "turns:\n  - {{ run: '{creel} {command}', say: '<promise>COMPLETE</promise>' }}\n"
        );
        let here = home.project("prompt: GOAL", "").file("s.yaml", &script);
        let ran = here.run();
        assert_eq!(ran.code, 0, "{}", ran.err);
        let queued: Vec<Value> =
            serde_json::from_str(&here.queue(&["list", "--json"]).out).expect("JSON");
        let goals: Vec<&str> = queued
            .iter()
            .filter_map(|task| task["goal"].as_str())
            .collect();
        assert!(goals.contains(&goal), "{command}: {goals:?} {}", ran.out);
    };
    last("Later", "task add --queue Later > added");
    // Nothing waits for the queue here.
    let command =
        "task add Now && creel task add --queue Last --depends-on task_1 && creel task done task_1";
    last("Last", &command.replace("creel", creel));
}

/// `CREEL_QUEUE_SEED` decides when a worker is killed.
fn each_task_is_completed_once_although_workers_are_killed(home: &QueueHome) {
    const TASKS: usize = 40;
    let here = home
        .project("", "otherwise: { say: 'Yes. <promise>COMPLETE</promise>', run: 'echo $CREEL_SESSION >> done' }\n");
    for n in 0..TASKS {
        here.queue(&[
            "add",
            "Do it",
            "--id",
            &format!("t{n}"),
            "-p",
            &(n % 5).to_string(),
        ]);
    }
    let seed = std::env::var("CREEL_QUEUE_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    let mut chance = Chance(seed);
    let mut workers = [here.worker(&[]), here.worker(&[])].map(Some);
    let states = || -> BTreeMap<String, usize> {
        let all: Vec<Value> =
            serde_json::from_str(&here.queue(&["list", "--json"]).out).expect("JSON");
        let mut states = BTreeMap::new();
        for task in &all {
            *states
                .entry(task["state"].as_str().expect("a state").to_owned())
                .or_default() += 1;
        }
        states
    };
    let completed =
        |states: &BTreeMap<String, usize>| states.get("completed").copied().unwrap_or_default();
    let mut kill_at = 2 + usize::try_from(chance.below(6)).expect("small");
    until("all are completed", || {
        let states = states();
        if completed(&states) >= kill_at && completed(&states) < TASKS {
            kill_at += 2 + usize::try_from(chance.below(6)).expect("small");
            let which = usize::try_from(chance.below(2)).expect("small");
            workers[which].take().expect("there is one").kill();
            workers[which] = Some(here.worker(&[]));
        }
        completed(&states) == TASKS
    });
    for worker in workers.into_iter().flatten() {
        worker.signal(Signal::TERM);
        worker.end();
    }
    assert_eq!(
        states(),
        BTreeMap::from([("completed".to_owned(), TASKS)]),
        "seed {seed}"
    );
    let sessions = fs::read_dir(here.root().join(".creel/sessions")).expect("a folder");
    let names = sessions.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("task-")).collect();
    names.sort();
    assert_eq!(
        names.len(),
        TASKS,
        "seed {seed}: a task has one session: {names:?}"
    );
}
