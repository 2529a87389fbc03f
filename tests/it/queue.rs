//! A queue of tasks for workers on many machines: what `queue_contract` does not say about queues
//! in general, and what happens when the server or the connection to it dies.

use std::{collections::BTreeMap, fs, sync::mpsc, time::Duration};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    nats::Chance,
    support::{
        lives,
        mcp::Tools,
        nats::NatsServer,
        project::{Project, Ran, Started, eventually_in, until},
    },
};

/// Completes its task.
pub(crate) const DONE: &str = "otherwise: { say: 'It is in a.rs. <promise>COMPLETE</promise>' }\n";
/// Works until the file `go` exists, and writes its process id to a file.
pub(crate) const UNTIL_GO: &str = "otherwise: { say: 'Yes. <promise>COMPLETE</promise>', \
                        run: 'echo $$ >> pids; until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }\n";

/// A machine with a worker's config.
fn machine(server: &NatsServer, rest: &str, script: &str) -> Project {
    let config = format!(
        "max_iterations: 3\nagents: {{ demo: {{ script: s.yaml }}, other: {{ script: s.yaml }} }}\n\
         nats: {{ url: '{}', queue: q }}\n{rest}\n",
        server.url()
    );
    let agent = if rest.contains("agent:") {
        ""
    } else {
        "agent: demo\n"
    };
    Project::with(&format!("{agent}{config}")).file("s.yaml", &format!("turns: []\n{script}"))
}

impl Project {
    /// The config's server, even if the config is not trusted.
    fn server(&self) -> Option<String> {
        let config = self.read("creel.yaml");
        let url = config
            .split("url: '")
            .nth(1)
            .and_then(|rest| rest.split('\'').next());
        url.map(str::to_owned)
    }

    pub(crate) fn queue(&self, args: &[&str]) -> Ran {
        let server = self.server();
        let server = server
            .as_deref()
            .map_or_else(Vec::new, |url| vec!["--nats", url]);
        let ran = self.creel(&[&["task"], args, &["--queue"], &server[..]].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran
    }

    pub(crate) fn queued(&self, id: &str) -> Value {
        serde_json::from_str(&self.queue(&["show", id, "--json"]).out).expect("JSON")
    }

    pub(crate) fn state(&self, id: &str) -> String {
        self.queued(id)["state"]
            .as_str()
            .expect("a state")
            .to_owned()
    }

    pub(crate) fn worker(&self, args: &[&str]) -> Started {
        Started::of(
            self.command(&[&["worker", "--trust", "--json", "--lease", "1s"], args].concat()),
        )
    }

    pub(crate) fn drain(&self, args: &[&str]) -> Ran {
        self.creel(&[&["worker", "--trust", "--json", "--drain"], args].concat())
    }
}

/// The ids of tasks in the order in which they reached a state.
pub(crate) fn order(ran: &Ran, state: &str) -> Vec<String> {
    let all = crate::support::project::lines(&ran.out)
        .into_iter()
        .filter(|task| task["state"] == state);
    all.map(|task| task["id"].as_str().expect("a name").to_owned())
        .collect()
}

pub(crate) fn is(task: &Value, id: &str, state: &str) -> bool {
    task["id"] == id && task["state"] == state
}

// How long tasks stay

#[test]
fn tasks_that_ended_long_ago_leave_the_queue_and_others_stay() {
    let server = NatsServer::start();
    let here = machine(&server, "", DONE);
    here.queue(&["add", "First"]);
    here.queue(&["add", "Second", "--depends-on", "1"]);
    here.queue(&["add", "Third", "--id", "named"]);
    here.queue(&["add", "Fourth", "--agent", "missing-agent"]);
    here.queue(&["add", "Fifth", "--depends-on", "4", "--depends-on", "2"]);
    assert_eq!(here.drain(&[]).code, 0);
    let config = here.read("creel.yaml").replace("url:", "max_age: 1s, url:");
    here.write("creel.yaml", &config);
    let names = || {
        let listed: Value =
            serde_json::from_str(&here.queue(&["list", "--json"]).out).expect("JSON");
        let ids = listed
            .as_array()
            .expect("a list")
            .iter()
            .map(|task| task["id"].as_str().expect("an id").to_owned());
        ids.collect::<std::collections::BTreeSet<String>>()
    };
    let worker = here.worker(&[]);
    until("the old ones are gone", || {
        names() == ["2", "4", "5"].map(str::to_owned).into()
    });
    worker.kill();
    // A worker forgets the completed ones first, while this one is in the line.
    assert_eq!(here.queue(&["add", "Next"]).out, "6\n");
    assert_eq!(order(&here.drain(&[]), "completed"), ["6"]);
}

// Lines that cannot be read

#[test]
fn a_damaged_line_of_a_projects_queue_is_named_and_kept_and_costs_only_its_change() {
    let here = Project::with("agent: demo\nagents: { demo: { script: s.yaml } }\n");
    let here = here.file("s.yaml", &format!("turns: []\n{DONE}"));
    here.queue(&["add", "First"]);
    here.queue(&["add", "Second"]);
    let file = ".creel/queue/tasks.jsonl";
    let whole = here.read(file);
    let second = whole.lines().nth(1).expect("a second line");
    let half = &second[..second.len() / 2];
    here.write(file, &whole.replace(second, half));
    let named = |ran: &Ran| {
        ran.err
            .matches("tasks.jsonl: cannot read line 2. creel skips this change")
            .count()
    };
    let listed = here.queue(&["list"]);
    assert_eq!(named(&listed), 1, "{}", listed.err);
    assert!(
        listed
            .err
            .contains("stop the workers, then repair or delete it"),
        "{}",
        listed.err
    );
    assert!(
        listed.out.contains("First") && listed.out.contains("Second"),
        "{}",
        listed.out
    );
    let drained = here.drain(&[]);
    assert_eq!(
        (order(&drained, "completed"), named(&drained)),
        (vec!["1".to_owned(), "2".to_owned()], 1)
    );
    assert!(here.read(file).contains(half), "the line is kept");
    // The repaired line is an old state and changes nothing.
    here.write(
        file,
        &here
            .read(file)
            .replace(&format!("{half}\n"), &format!("{second}\n")),
    );
    let repaired = here.queue(&["list"]);
    assert_eq!(repaired.err, "");
    assert_eq!(
        (here.state("1"), here.state("2")),
        ("completed".into(), "completed".into())
    );
}

// Which workers there are

#[test]
fn the_server_lists_its_workers_with_what_they_can_do_and_do() {
    let server = NatsServer::start();
    let here = machine(&server, "", UNTIL_GO);
    let listed = || -> Vec<Value> {
        let ran = here.creel(&["worker", "--list", "--json", "--nats", &server.url()]);
        serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.err))
    };
    let none = here.creel(&["worker", "--list", "--nats", &server.url()]);
    assert_eq!(
        (none.code, none.err.as_str()),
        (
            0,
            "creel: no worker is running; start one with `creel worker`\n"
        )
    );
    here.queue(&["add", "Do it", "--type", "bug"]);
    let worker = here.worker(&["--types", "bug,docs", "--drain"]);
    until("it works", || {
        listed().iter().any(|worker| worker["working"] == 1)
    });
    let one = listed().remove(0);
    assert_eq!(
        (&one["jobs"], &one["waiting"], &one["types"], &one["agents"]),
        (
            &json!(1),
            &json!(0),
            &json!(["bug", "docs"]),
            &json!(["demo"])
        )
    );
    let table = here
        .creel(&["worker", "--list", "--nats", &server.url()])
        .out;
    assert!(table.contains("1 of 1    bug, docs  demo"), "{table}");
    here.write("go", "");
    assert_eq!(worker.end().code, 0);
    assert_eq!(listed(), Vec::<Value>::new(), "it has left");
}

#[test]
fn a_projects_own_queue_has_no_list_of_workers() {
    let ran = Project::with("agent: x\nagents: { x: { command: 'true' } }\n")
        .creel(&["worker", "--list"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("only a server lists its workers"),
        "{}",
        ran.err
    );
}

// Which worker gets which task, and when

#[test]
fn tasks_are_done_by_priority_and_after_their_dependencies() {
    let server = NatsServer::start();
    let here = machine(&server, "", DONE);
    let elsewhere = Project::new();
    let (add, url) = (["task", "add", "--queue=q", "--nats"], server.url());
    let add = |args: &[&str]| {
        let ran = elsewhere.creel(&[&add[..], &[&url], args].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out
    };
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
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(order(&ran, "completed"), ["look", "1", "2", "4"]);
    let task = here.queued("2");
    assert_eq!(
        (&task["result"], &task["by"]["session"]),
        (&"It is in a.rs.".into(), &"task-2".into())
    );
    assert_eq!(server.count("CREEL_QUEUE"), 0);
    let prompt = here.creel(&["show", "task-2", "--prompts"]).out;
    assert!(
        prompt.contains("Test it\n\n[Result of task 1: Write it]\nIt is in a.rs.\n"),
        "{prompt}"
    );
    let listed = elsewhere
        .creel(&[
            "task",
            "list",
            "--queue=q",
            "-l",
            "x",
            "--nats",
            &server.url(),
        ])
        .out;
    assert!(
        listed.contains("look  completed  1               task-look on "),
        "{listed}"
    );
    let listed = elsewhere.creel(&["sessions", "--ended", "--nats", &server.url()]);
    assert!(
        listed.out.contains("task-4"),
        "{}{}",
        listed.out,
        listed.err
    );
}

#[test]
fn a_worker_gets_its_types_and_the_tasks_that_its_agent_may_work_on() {
    let server = NatsServer::start();
    let rest =
        "task_types: { bug: { agents: [other] }, docs: {}, hard: { agents: [missing-agent] } }";
    let here = machine(&server, rest, DONE);
    for (id, kind) in [("a", "bug"), ("b", "docs"), ("c", "hard")] {
        here.queue(&["add", "Do it", "--id", id, "-t", kind]);
    }
    here.queue(&[
        "add",
        "Do it",
        "--id",
        "d",
        "--agent",
        "other",
        "--agent",
        "missing-agent",
    ]);
    here.queue(&["add", "Do it", "--id", "e"]);
    assert_eq!(here.queued("a")["agents"], serde_json::json!(["other"]));
    assert_eq!(order(&here.drain(&["--types", "docs"]), "completed"), ["b"]);
    assert_eq!(order(&here.drain(&["--agent", "demo"]), "completed"), ["e"]);
    let ran = here.drain(&[]);
    assert_eq!(order(&ran, "completed"), ["d", "a"], "{}", ran.err);
    assert_eq!(here.state("c"), "ready");
    let agent = |session: &str| {
        here.creel(&["show", session])
            .out
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(agent("task-a").contains("agent other") && agent("task-b").contains("agent demo"));
    // Without a description, a type is only a word.
    let plain = machine(&server, "", DONE);
    plain.queue(&["add", "Do it", "--id", "f", "-t", "anything"]);
    assert_eq!(
        order(&plain.drain(&["--types", "docs,anything"]), "completed"),
        ["f"]
    );
}

#[test]
fn mistakes_are_reported_before_anything_runs() {
    let server = NatsServer::start();
    let here = machine(&server, "task_types: { bug: { agents: [other] } }", DONE);
    let fails = |args: &[&str]| {
        let ran = here.creel(args);
        assert_ne!(ran.code, 0, "{}", ran.out);
        ran.err
    };
    assert!(fails(&["worker", "--types", "bgu", "--trust"]).contains("did you mean `bug`?"));
    assert!(fails(&["worker", "--types", "bug", "-a", "demo", "--trust"]).contains("`bug`"));
    for none in ["", ",", "bug,"] {
        assert!(
            fails(&["worker", "--types", none]).contains("a type needs a name"),
            "{none}"
        );
    }
    assert!(fails(&["worker", "--lease", "10ms"]).contains("a lease must be at least a second"));
    let asked = fails(&["worker"]);
    assert!(
        asked.contains("You have not trusted it yet")
            && asked.matches("agent other: ").count() == 1,
        "{asked}"
    );
    assert_eq!(here.creel(&["trust"]).code, 0);
    assert!(
        fails(&["task", "add", "--queue", "x", "--id", "a.b"])
            .contains("`a.b` is not a valid name for a task")
    );
    assert!(
        fails(&["task", "add", "--queue", "x", "--id", ""]).contains("a task name has letters")
    );
    assert!(
        fails(&["task", "add", "--queue", "x", "-t", "a.>"])
            .contains("`a.>` is not a valid name for a type")
    );
    assert!(fails(&["task", "add", "--queue", " "]).contains("a task needs a goal"));
    assert!(
        fails(&["task", "add", "--queue", "x", "--depends-on", "7"])
            .contains("the queue has no task 7")
    );
    assert!(
        fails(&["task", "add", "--queue", "x", "--parent", "7"])
            .contains("--parent is for tasks of a session")
    );
    assert!(fails(&["task", "show", "--queue", "7"]).contains("the queue has no task 7"));
    assert!(fails(&["task", "start", "--queue", "s/7"]).contains("the queue has no task s/7"));
    here.queue(&["add", "x", "--id", "a"]);
    assert!(
        fails(&["task", "add", "--queue", "x", "--id", "a"])
            .contains("the queue already has a task a")
    );
    for any in ["*", ">"] {
        assert!(
            fails(&["task", "show", "--queue", any]).contains("the queue has no task"),
            "{any}"
        );
        assert!(
            fails(&["task", "remove", "--queue", any]).contains("the queue has no task"),
            "{any}"
        );
        let added = fails(&["task", "add", "--queue", "x", "--depends-on", any]);
        assert!(added.contains("is not a valid name for a task"), "{added}");
    }
    assert_eq!(here.state("a"), "ready");
    assert!(fails(&["task", "start", "--queue", "a"]).contains("a is already in the queue"));
    let alone = Project::with("agents: { demo: { script: s.yaml } }").file("s.yaml", "turns: []");
    let list = |args: &[&str]| {
        alone
            .creel(&[&["task", "list", "--queue"], args].concat())
            .err
    };
    assert!(
        list(&[]).contains("The queue has no tasks; add one with `creel task add --queue`"),
        "{}",
        list(&[])
    );
    assert_eq!(alone.creel(&["task", "add", "--queue", "x"]).code, 0);
    assert!(
        list(&["-t", "bug"]).contains("No task in the queue matches"),
        "{}",
        list(&["-t", "bug"])
    );
}

#[test]
fn sessions_that_do_not_complete_block_their_task_and_say_why() {
    let server = NatsServer::start();
    let script = "turns:\n  - { when: Forget, say: 'I forgot.', run: 'echo 1 > work' }\n  - { when: Forget, say: 'Again.', run: 'echo 2 > work' }\n\
                  \x20 - { when: Forget, say: 'Once more.', run: 'echo 3 > work' }\n\
                  otherwise: { say: 'Red. <promise>COMPLETE</promise>' }\n";
    let rest = "max_hook_retries: 0\nhooks: { stop: [{ command: '[ ! -e red ] || { echo 3 tests failed >&2; exit 2; }', name: tests }] }";
    let here = machine(&server, rest, "").file("s.yaml", script);
    here.queue(&["add", "Forget to say that it is done", "--id", "limit"]);
    assert_eq!(here.drain(&[]).code, 4);
    let reason = |id: &str| {
        here.queued(id)["reason"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(
        reason("limit").starts_with("it used all its iterations"),
        "{}",
        reason("limit")
    );
    here.write("red", "");
    here.queue(&["add", "Leave it red", "--id", "forced"]);
    assert_eq!(here.drain(&[]).code, 4);
    assert_eq!(
        reason("forced"),
        "its checks did not pass: tests still fails; accepted because on_limit is complete"
    );
}

#[test]
fn a_blocked_task_names_the_rule_that_failed_and_its_reason() {
    let server = NatsServer::start();
    let rest = "stop: { hooks: [validation], rules: [{ name: lint, type: command, command: 'echo 7 lints >&2; exit 1' }] }";
    let here = machine(&server, rest, "otherwise: { say: 'It is good.' }\n");
    here.queue(&["add", "Leave it ugly", "--id", "rule"]);
    assert_eq!(here.drain(&[]).code, 4);
    let said = here.queued("rule")["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert!(
        said.contains("; the rule `lint` failed: ") && said.contains("7 lints"),
        "{said}"
    );
    assert!(
        here.queue(&["show", "rule"])
            .out
            .contains("the rule `lint` failed")
    );
}

#[test]
fn tasks_with_long_names_that_begin_alike_are_all_done() {
    let server = NatsServer::start();
    let here = machine(&server, "", DONE);
    let ids = ["1", "2"].map(|end| format!("{}{end}", "y".repeat(63)));
    for id in &ids {
        here.queue(&["add", &format!("Do {id}"), "--id", id]);
    }
    let ran = here.drain(&[]);
    assert_eq!(
        (ran.code, order(&ran, "completed")),
        (0, ids.to_vec()),
        "{}",
        ran.err
    );
    here.queue(&["start", &ids[0]]);
    assert_eq!(order(&here.drain(&[]), "completed"), [ids[0].as_str()]);
    assert!(
        here.queued(&ids[0])["by"]["session"]
            .as_str()
            .is_some_and(|session| session.ends_with("y-2"))
    );
}

#[test]
fn a_worker_whose_agent_is_broken_does_not_go_through_the_whole_queue() {
    let server = NatsServer::start();
    let here = machine(
        &server,
        "max_consecutive_errors: 1",
        "otherwise: { fail: 'not logged in' }\n",
    );
    for n in 0..5 {
        here.queue(&["add", &format!("Task {n}")]);
    }
    let ran = here.drain(&[]);
    assert_eq!(
        (ran.code, order(&ran, "blocked").len()),
        (1, 3),
        "{}",
        ran.err
    );
    let why = "this worker stops: the agent is not logged in, and 3 sessions in a row failed";
    assert!(ran.err.contains(why), "{}", ran.err);
    assert_eq!(here.state("4"), "ready");
}

#[test]
fn tasks_that_fail_for_their_own_reasons_do_not_stop_the_worker() {
    let server = NatsServer::start();
    let script = "otherwise: { fail: 'the model sent nothing' }\n";
    let here = machine(&server, "max_consecutive_errors: 1", script);
    for n in 0..5 {
        here.queue(&["add", &format!("Task {n}")]);
    }
    let ran = here.drain(&[]);
    let blocked = order(&ran, "blocked").len();
    assert_eq!((ran.code, blocked), (4, 5), "{}", ran.err);
}

#[test]
fn an_attended_worker_has_gates_answered_from_another_machine() {
    let server = NatsServer::start();
    let rest = "hooks: { post_iteration: [{ command: 'echo look at this', pipe_output: true }] }";
    let (here, there) = (machine(&server, rest, DONE), Project::new());
    here.queue(&["add", "Do it"]);
    let worker = here.command(&["worker", "--trust", "--drain", "--attended"]);
    let worker = std::thread::spawn(move || {
        let mut worker = worker;
        Ran::of(&worker.output().expect("creel starts"))
    });
    let nats = |args: &[&str]| there.creel(&[args, &["--nats", &server.url()]].concat());
    until("a gate is seen from afar", || {
        nats(&["sessions"]).out.contains("waiting at gate 1")
    });
    assert_eq!(here.state("1"), "active");
    let answered = nats(&["gate", "answer", "1", "skip", "-s", "task-1"]);
    assert_eq!(answered.code, 0, "{}", answered.err);
    let ran = worker.join().expect("it ends");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("◆ ") && ran.err.contains("task 1 is completed"),
        "{}{}",
        ran.out,
        ran.err
    );
}

#[test]
fn a_worker_that_drains_the_queue_waits_for_what_others_work_on() {
    let server = NatsServer::start();
    let (here, there) = (machine(&server, "", UNTIL_GO), machine(&server, "", DONE));
    here.queue(&["add", "First", "-t", "a"]);
    here.queue(&["add", "Then", "-t", "c", "--depends-on", "1"]);
    here.queue(&["add", "Last", "-t", "b", "--depends-on", "1"]);
    let mut first = here.worker(&["--types", "a"]);
    first.wait_until("begin", |task| is(task, "1", "active"));
    let mut second = there.worker(&["--types", "b", "--drain"]);
    here.write("go", "");
    second.wait_until("end", |task| is(task, "3", "completed"));
    assert_eq!((second.end().code, here.state("2").as_str()), (0, "ready"));
    first.signal(Signal::TERM);
    first.end();
}

#[test]
fn a_worker_with_a_no_longer_trusted_config_leaves_the_task_to_others() {
    let server = NatsServer::start();
    let here = machine(&server, "", UNTIL_GO);
    here.queue(&["add", "Do it"]);
    let mut first = here.worker(&[]);
    first.wait_until("begin", |task| is(task, "1", "active"));
    eventually_in(&here.root().join("pids"));
    first.signal(Signal::TERM);
    first.end();
    here.queue(&["add", "Do more", "-p", "4"]);
    let mut second = Started::of(here.command(&["worker", "--trust", "--json"]));
    until("it works on the first one", || {
        here.read("pids").lines().count() == 2
    });
    assert_eq!(here.creel(&["untrust"]).code, 0);
    here.write("go", "");
    second.wait_until("end", |task| is(task, "1", "completed"));
    let ran = second.end();
    assert_eq!(ran.code, 1);
    assert!(
        ran.err
            .contains("the session of task 2 did not start, so this worker stops"),
        "{}",
        ran.err
    );
    assert_eq!(
        (here.state("2"), &here.queued("2")["attempt"]),
        ("ready".into(), &0.into())
    );
}

// Kills and lost connections

#[test]
fn another_machine_starts_the_task_of_a_dead_machine_again() {
    let server = NatsServer::start();
    let (here, there) = (machine(&server, "", UNTIL_GO), machine(&server, "", DONE));
    here.queue(&["add", "Do it"]);
    let mut first = here.worker(&[]);
    first.wait_until("begin", |task| is(task, "1", "active"));
    first.kill();
    let ran = there.drain(&[]);
    assert_eq!(
        (ran.code, order(&ran, "completed")),
        (0, vec!["1".to_owned()]),
        "{}",
        ran.err
    );
    // The work that began here is obsolete, and no worker gets the task again.
    here.write("go", "");
    let ran = here.drain(&[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
}

#[test]
fn a_task_completed_before_the_worker_ends_is_not_done_again() {
    let server = NatsServer::start();
    let hook = "hooks: { session_end: [{ command: 'echo x > ending; until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }] }";
    let here = machine(&server, hook, DONE);
    here.queue(&["add", "Do it"]);
    let mut worker = here.worker(&[]);
    eventually_in(&here.root().join("ending"));
    worker.signal(Signal::TERM);
    let journal = here.root().join(".creel/sessions/task-1/journal.jsonl");
    until("its session hears it", || {
        fs::read_to_string(&journal).is_ok_and(|text| text.contains("stop_requested"))
    });
    here.write("go", "");
    worker.wait_until("end", |task| is(task, "1", "completed"));
    assert_eq!(worker.end().code, 130);
}

#[test]
fn a_worker_suspended_for_too_long_cannot_change_its_task() {
    let server = NatsServer::start();
    let (here, there) = (machine(&server, "", UNTIL_GO), machine(&server, "", DONE));
    here.queue(&["add", "Do it"]);
    let mut first = here.worker(&["--drain"]);
    first.wait_until("begin", |task| is(task, "1", "active"));
    let pid: i32 = eventually_in(&here.root().join("pids"))
        .parse()
        .expect("a number");
    first.signal(Signal::STOP);
    let ran = there.drain(&[]);
    assert_eq!(order(&ran, "completed"), ["1"], "{}", ran.err);
    // What its session has used counts all the same.
    let without_spending = || {
        let mut task = there.queued("1");
        for key in ["spent", "tokens", "cost", "timeMs"] {
            task.as_object_mut().expect("an object").remove(key);
        }
        task
    };
    let done = without_spending();
    first.signal(Signal::CONT);
    until("its session is stopped", || !lives(pid));
    let ran = first.end();
    assert!(
        ran.code == 0 && ran.err.contains("another worker has task 1 now"),
        "{}",
        ran.err
    );
    assert_eq!(without_spending(), done);
}

#[test]
fn a_suspended_worker_does_not_remove_the_task_of_another_from_the_queue() {
    let server = NatsServer::start();
    let (here, there) = (
        machine(&server, "", UNTIL_GO),
        machine(&server, "", UNTIL_GO),
    );
    here.queue(&["add", "Do it"]);
    let mut first = here.worker(&[]);
    first.wait_until("begin", |task| is(task, "1", "active"));
    eventually_in(&here.root().join("pids"));
    first.signal(Signal::STOP);
    let mut second = there.worker(&[]);
    second.wait_until("begin", |task| is(task, "1", "active"));
    here.write("go", "");
    let journal = here.root().join(".creel/sessions/task-1/journal.jsonl");
    until("it is over", || {
        fs::read_to_string(&journal).is_ok_and(|text| text.contains("session_ended"))
    });
    first.signal(Signal::CONT);
    here.queue(&["add", "Do more"]);
    first.wait_until("go on", |task| is(task, "2", "completed"));
    first.kill();
    second.kill();
    there.write("go", "");
    let ran = there.drain(&[]);
    assert_eq!(
        (ran.code, order(&ran, "completed")),
        (0, vec!["1".to_owned()]),
        "{}",
        ran.err
    );
}

#[test]
fn an_unreachable_server_does_not_block_a_worker_and_gets_the_result_later() {
    let mut server = NatsServer::start();
    let here = machine(&server, "", UNTIL_GO);
    here.queue(&["add", "Do it"]);
    here.queue(&["add", "Do more", "--depends-on", "1"]);
    let mut worker =
        Started::of(here.command(&["worker", "--trust", "--json", "--drain", "--lease", "1h"]));
    worker.wait_until("begin", |task| is(task, "1", "active"));
    server.kill();
    here.write("go", "");
    let journal = here.root().join(".creel/sessions/task-1/journal.jsonl");
    until("it is over", || {
        fs::read_to_string(&journal).is_ok_and(|text| text.contains("session_ended"))
    });
    server.up();
    worker.wait_until("end", |task| is(task, "2", "completed"));
    let ran = worker.end();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        (here.state("1"), here.state("2")),
        ("completed".into(), "completed".into())
    );
}

#[test]
fn a_server_that_lost_everything_does_not_block_a_worker() {
    let mut server = NatsServer::start();
    let here = machine(&server, "", UNTIL_GO);
    here.queue(&["add", "Do it"]);
    let mut worker = here.worker(&["--drain"]);
    worker.wait_until("begin", |task| is(task, "1", "active"));
    eventually_in(&here.root().join("pids"));
    server.kill();
    server.forget();
    server.up();
    here.write("go", "");
    let ran = worker.end();
    assert!(
        ran.code == 0 && ran.err.contains("the queue does not have task 1 any more"),
        "{}",
        ran.err
    );
}

#[test]
fn tasks_that_other_programs_queue_are_done_too() {
    let server = NatsServer::start();
    let here = machine(&server, "", DONE);
    here.queue(&["list"]);
    server.publish_for_good(
        "creel.queue.q.1.-.-.-.x7",
        r#"{"task_id":"x7","content":"Do it"}"#,
    );
    // An invalid subject for a task, and one that another task has.
    server.publish_for_good(
        "creel.queue.q.0.docs/api.-.-.x5",
        r#"{"id":"x5","goal":"Do it"}"#,
    );
    server.publish_for_good(
        "creel.queue.q.0.-.-.-.x6",
        r#"{"id":"x7","goal":"Do something else"}"#,
    );
    server.publish_for_good("creel.queue.q.0.-.-.-.x8", "what?");
    server.publish_for_good("creel.queue.q.0.-.-.-.x9", r#"{"id":"a.*","goal":"Do it"}"#);
    // As if the sender had died before the task was in the queue.
    let mut lost: Value =
        serde_json::json!({ "id": "lost", "goal": "g", "createdAt": "", "run": 1, "attempt": 0 });
    lost["state"] = "ready".into();
    server.publish_for_good("$KV.creel-tasks.q.-.lost", &lost.to_string());
    // As if its worker had died after the task was taken from the queue.
    let mut alone = lost.clone();
    (alone["id"], alone["state"], alone["startedAt"]) =
        ("alone".into(), "active".into(), "".into());
    alone["by"] = serde_json::json!({ "worker": "w", "host": "h", "session": "task-alone" });
    server.publish_for_good("$KV.creel-tasks.q.-.alone", &alone.to_string());
    let ran = here.drain(&[]);
    let mut done = order(&ran, "completed");
    done[1..].sort();
    assert_eq!(done, ["x7", "alone", "lost"], "{}", ran.err);
    assert_eq!(server.count("CREEL_QUEUE"), 1);
    assert_eq!(here.queued("x7")["priority"], 1);
    server.publish_for_good(
        "creel.queue.q.2.qa.-.-.x9",
        r#"{"id":"x9","goal":"Look at it"}"#,
    );
    assert_eq!(order(&here.drain(&["--types", "qa"]), "completed"), ["x9"]);
}

#[test]
fn a_task_deleted_with_other_tools_does_not_block_the_queue() {
    let server = NatsServer::start();
    let here = machine(&server, "", DONE);
    here.queue(&["add", "Do it"]);
    here.queue(&["add", "Then this", "--depends-on", "1"]);
    // Like `nats kv del`.
    server.publish_for_good("$KV.creel-tasks.q.-.1", "");
    let ran = here.drain(&[]);
    assert_eq!(order(&ran, "completed"), ["2"], "{}", ran.err);
    assert_eq!(server.count("CREEL_QUEUE"), 0);
    here.queue(&["add", "Again", "--id", "1"]);
    assert_eq!(order(&here.drain(&[]), "completed"), ["1"]);
}

// Tasks of a session

/// A session whose agent works until `home` exists, and whose hook records each completed task.
fn leading(server: &NatsServer) -> Project {
    leading_with(server, "")
}

fn leading_with(server: &NatsServer, rest: &str) -> Project {
    let hooks = "hooks: { on_task_complete: [{ command: 'echo {{task_id}} >> completed' }] }";
    let script = "otherwise: { say: 'Yes. <promise>COMPLETE</promise>', run: 'until [ -e home ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }\n";
    machine(server, &format!("prompt: GOAL\n{hooks}\n{rest}"), script)
}

impl Project {
    pub(crate) fn own_task(&self, id: &str) -> Value {
        self.tells(&["task", "show", id, "-s", "s", "--json"])
    }

    /// Adds a task to the session, which has to be reachable through its server: that is later than
    /// its first prompt.
    fn hand_over(&self, args: &[&str]) -> String {
        let server = self.server().expect("a server");
        until("the session can be reached", || {
            self.creel(&["status", "-s", "s", "--nats", &server]).code == 0
        });
        self.queue(&[&["add", "-s", "s"], args].concat())
            .out
            .trim()
            .to_owned()
    }
}

#[test]
fn a_session_queues_tasks_when_they_are_ready_and_gets_their_results() {
    let server = NatsServer::start();
    let (here, there) = (leading(&server), machine(&server, "", DONE));
    let mut session = here.start();
    session.wait_for("prompt_sent");
    assert_eq!(
        here.hand_over(&["Part one", "-t", "bug", "--agent", "demo", "-p", "0"]),
        "task_1"
    );
    assert_eq!(
        here.hand_over(&["Part two", "--depends-on", "task_1"]),
        "task_2"
    );
    until("it is in the queue", || server.count("CREEL_QUEUE") == 1);
    let listed = there.queue(&["list"]).out;
    assert!(
        listed.contains("s/task_1  ready  0         bug            Part one")
            && !listed.contains("task_2"),
        "{listed}"
    );
    assert!(
        here.creel(&["task", "start", "task_1"])
            .err
            .contains("the worker that gets it starts it")
    );
    assert_eq!(
        here.own_task("task_1")["queue"],
        serde_json::json!(["demo"])
    );
    let mut worker = there.worker(&["--agent", "demo"]);
    until("both are done", || {
        here.own_task("task_2")["state"] == "completed"
    });
    assert_eq!(here.own_task("task_1")["result"], "It is in a.rs.");
    let begun = worker.wait_until("begin", |task| is(task, "task_2", "active"));
    assert_eq!(begun["by"]["session"], "s-task_2");
    worker.signal(Signal::TERM);
    worker.end();
    here.write("home", "");
    assert_eq!(session.end().code, 0);
    assert_eq!(here.read("completed"), "task_1\ntask_2\n");
    let started = here.kind("task_started");
    assert_eq!((started.len(), &started[0]["by"]), (2, &"nats".into()));
    assert!(
        started[0]["data"]["context"]
            .as_str()
            .is_some_and(|text| text.starts_with("in session s-task_1 on "))
    );
}

#[test]
fn decisions_in_the_session_apply_in_the_queue_and_vice_versa() {
    let server = NatsServer::start();
    let here = leading(&server);
    let there = machine(
        &server,
        "",
        "otherwise: { say: 'I cannot. <promise>BLOCKED</promise>' }\n",
    );
    let mut session = here.start();
    session.wait_for("prompt_sent");
    for goal in ["Stuck", "Gone", "Done at home", "Held", "Taken out"] {
        here.hand_over(&[goal]);
    }
    until("they are in the queue", || server.count("CREEL_QUEUE") == 5);
    here.does(&["task", "remove", "task_2"]);
    here.does(&["task", "done", "task_3", "-r", "by hand"]);
    here.does(&["task", "block", "task_4", "not today"]);
    there.queue(&["remove", "s/task_5"]);
    let state = |id: &str| there.state(&format!("s/{id}"));
    until("it is done", || {
        state("task_3") == "completed" && state("task_4") == "blocked"
    });
    until("it is gone", || {
        !there.queue(&["list"]).out.contains("Gone")
    });
    until("it is blocked", || {
        here.own_task("task_5")["reason"] == "it was removed from the queue"
    });
    let ran = there.drain(&[]);
    assert_eq!(order(&ran, "blocked"), ["task_1"], "{}", ran.err);
    until("it is told", || {
        here.own_task("task_1")["state"] == "blocked"
    });
    there.write("s.yaml", &format!("turns: []\n{DONE}"));
    there.queue(&["start", "s/task_1"]);
    until("it is ready again", || {
        here.own_task("task_1")["state"] == "ready"
    });
    assert_eq!(order(&there.drain(&[]), "completed"), ["task_1"]);
    until("it is done", || {
        here.own_task("task_1")["state"] == "completed"
    });
    here.write("home", "");
    assert_eq!(session.end().code, 0);
}

#[test]
fn a_session_that_ends_leaves_its_tasks_in_the_queue() {
    let server = NatsServer::start();
    let (here, there) = (leading(&server), machine(&server, "", DONE));
    // Its connection stays open for a while, because there is much to send for another session.
    let started = r#"{"v":1,"seq":1,"at":"2026-11-15T09:30:00.123Z","session":"old","kind":"session_started","id":"old"}"#;
    let said = |seq: u32| {
        format!(r#"{{"v":1,"seq":{seq},"session":"old","kind":"agent_said","text":"x"}}"#)
    };
    let journal: Vec<String> = std::iter::once(started.to_owned())
        .chain((2..20_000).map(said))
        .collect();
    here.write(
        ".creel/sessions/old/journal.jsonl",
        &(journal.join("\n") + "\n"),
    );
    here.write(".creel/sessions/old/outbox", "");
    let mut session = here.start();
    session.wait_for("prompt_sent");
    here.hand_over(&["Part one"]);
    until("it is in the queue", || server.count("CREEL_QUEUE") == 1);
    here.write("home", "");
    assert_eq!(session.end().code, 0);
    assert_eq!(order(&there.drain(&[]), "completed"), ["task_1"]);
}

#[test]
fn an_agent_queues_tasks_for_the_agents_that_their_type_allows() {
    let server = NatsServer::start();
    let here = leading_with(
        &server,
        "task_types: { bug: { agents: { implementer: [other] } } }",
    );
    let mut session = here.start();
    session.wait_for("prompt_sent");
    server.block_on(async {
        let tools = Tools::of(&here).await;
        let of_type = tools
            .does(
                "task_add",
                json!({"goal": "Mend it", "type": "bug", "queue": true}),
            )
            .await;
        assert_eq!(
            (&of_type["id"], &of_type["queue"]),
            (&json!("task_1"), &json!(["other"]))
        );
        let named =
            json!({"goal": "Mend it too", "type": "bug", "queue": true, "agents": ["demo"]});
        assert_eq!(
            tools.does("task_add", named).await["queue"],
            json!(["demo"])
        );
        assert_eq!(
            tools.does("task_add", json!({"goal": "Say so"})).await["queue"],
            Value::Null
        );
        let why = tools
            .fails("task_add", json!({"goal": "Whose?", "agents": ["demo"]}))
            .await;
        assert!(why.contains("set `queue` too"), "{why}");
        tools.close().await;
    });
    until("they are in the queue", || server.count("CREEL_QUEUE") == 2);
    for way in [&["-s", "s"][..], &["-s", "s", "--nats", &server.url()]] {
        let refused = |args: &[&str], why: &str| {
            let ran = here.creel(&[args, way].concat());
            assert!(ran.code == 1 && ran.err.contains(why), "{}", ran.err);
        };
        refused(
            &["task", "start", "task_1"],
            "task_1 is for the queue: the worker that gets it starts it",
        );
        refused(
            &["task", "update", "task_1", "--goal", "Mend all"],
            "task_1 is for the queue and cannot change",
        );
    }
    let there = machine(&server, "", DONE);
    assert_eq!(
        order(&there.drain(&["--agent", "demo"]), "completed"),
        ["task_2"]
    );
    assert_eq!(
        order(&there.drain(&["--agent", "other"]), "completed"),
        ["task_1"]
    );
    until("it is told", || {
        here.own_task("task_1")["state"] == "completed"
    });
    // Also a task of a type that the session's own agent may not work on.
    assert_eq!(here.kind("task_started").len(), 2);
    here.write("home", "");
    assert_eq!(session.end().code, 0);
}

#[test]
fn a_resumed_session_gets_the_results_from_while_it_was_dead() {
    let server = NatsServer::start();
    let (here, there) = (leading(&server), machine(&server, "", DONE));
    let mut session = here.start();
    session.wait_for("prompt_sent");
    here.hand_over(&["Part one"]);
    here.hand_over(&["Part two", "--depends-on", "task_1"]);
    until("it is in the queue", || server.count("CREEL_QUEUE") == 1);
    session.kill();
    assert_eq!(order(&there.drain(&[]), "completed"), ["task_1"]);
    let session = Started::of(here.command(&["resume", "s", "--json", "--trust"]));
    until("it is told", || {
        here.own_task("task_1")["state"] == "completed"
    });
    until("the next one is in the queue", || {
        server.count("CREEL_QUEUE") == 1
    });
    assert_eq!(order(&there.drain(&[]), "completed"), ["task_2"]);
    until("it is told", || {
        here.own_task("task_2")["state"] == "completed"
    });
    here.write("home", "");
    assert_eq!(session.end().code, 0);
    assert_eq!(here.read("completed"), "task_1\ntask_2\n");
}

#[test]
fn creel_does_not_log_in_to_the_server_of_an_untrusted_config() {
    let server = NatsServer::start();
    let here = machine(&server, "", DONE);
    let list = &["task", "list", "--queue"];
    let ran = here.creel(list);
    assert!(
        ran.code == 2 && ran.err.contains("You have not trusted this config yet"),
        "{}",
        ran.err
    );
    assert_eq!(
        here.creel(&[&list[..], &["--nats", &server.url()]].concat())
            .code,
        0
    );
    assert_eq!(here.creel(&["trust"]).code, 0);
    assert_eq!(here.creel(list).code, 0);
}

#[test]
fn a_server_that_allows_only_what_the_documentation_lists_is_enough_for_workers() {
    let page = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/docs/reference-nats.md"
    ))
    .expect("the page");
    let config = page
        .split("```conf\n")
        .nth(2)
        .and_then(|rest| rest.split("```").next())
        .expect("a config");
    let mut server = NatsServer::with(config);
    let (worker, adder) = (
        server.url_for("worker:s3cret"),
        server.url_for("adder:s3cret"),
    );
    let config =
        format!("agents: {{ demo: {{ script: s.yaml }} }}\nnats: {{ url: '{worker}', queue: q }}");
    let here = Project::with(&config).file("s.yaml", &format!("turns: []\n{DONE}"));
    let there = Project::new();
    let does = |args: &[&str]| {
        let ran = there.creel(&[args, &["--queue=q", "--nats", &adder]].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out
    };
    does(&["task", "add", "Write it"]);
    does(&["task", "add", "Test it", "--depends-on", "1"]);
    let ran = here.drain(&[]);
    assert_eq!(order(&ran, "completed"), ["1", "2"], "{}", ran.err);
    assert!(does(&["task", "list"]).contains("2   completed"));
    does(&["task", "start", "2"]);
    does(&["task", "remove", "1"]);
    let warnings = here.creel(&["show", "task-2", "--json"]).out;
    assert!(!warnings.contains("\"kind\":\"warning\""), "{warnings}");
    // Also after the connection was lost, and for the list of workers.
    let worker = here.worker(&[]);
    until("it is listed and has done the task again", || {
        here.creel(&["worker", "--list"]).out.contains("demo")
            && does(&["task", "list"]).contains("2   completed")
    });
    server.kill();
    server.up();
    until("it takes the next task", || {
        there.creel(&[
            "task",
            "add",
            "Another",
            "--id",
            "3",
            "--queue=q",
            "--nats",
            &adder,
        ]);
        there
            .creel(&["task", "show", "3", "--queue=q", "--nats", &adder])
            .out
            .contains("completed")
    });
    worker.signal(Signal::TERM);
    let ran = worker.end();
    // The session of that task may have met the killed server: its connection was refused, no right.
    for of_a_right in ["server refused", "Permissions Violation"] {
        assert!(!ran.err.contains(of_a_right), "{}", ran.err);
    }
}

#[test]
fn a_missing_right_is_named() {
    let server = NatsServer::with(
        "authorization { users: [ { user: root, password: s3cret }\n\
         { user: me, password: s3cret, permissions: { publish: \"$JS.API.STREAM.INFO.>\", subscribe: \"_INBOX.me.>\" } } ] }",
    );
    let here = Project::new();
    let url = server.url_for("me:s3cret");
    let ran = here.creel(&["task", "add", "Do it", "--queue=q", "--nats", &url]);
    let names = ran
        .err
        .contains("Permissions Violation for Publish to \"$JS.API.STREAM.CREATE.KV_creel-tasks\"");
    assert!(
        ran.code == 1 && names && !ran.err.contains("timed out"),
        "{}",
        ran.err
    );
    let ran = here.creel(&["pause", "-s", "s", "--nats", &url]);
    assert!(
        ran.code == 1 && ran.err.contains("\"creel.commands.s\""),
        "{}",
        ran.err
    );
}

#[test]
fn a_task_that_could_not_be_queued_is_not_in_the_queue() {
    let server = NatsServer::with(
        "authorization { users: [ { user: root, password: s3cret }\n\
         { user: me, password: s3cret, permissions: { publish: [\"$JS.API.>\", \"$KV.creel-tasks.>\"], \
         subscribe: \"_INBOX.me.>\" } } ] }",
    );
    let here = Project::new();
    let [me, root] = ["me:s3cret", "root:s3cret"].map(|login| server.url_for(login));
    let ran = here.creel(&["task", "add", "Do it", "--queue=q", "--nats", &me]);
    assert!(
        ran.code == 1
            && ran
                .err
                .contains("Permissions Violation for Publish to \"creel.queue.q."),
        "{}",
        ran.err
    );
    let listed = here.creel(&["task", "list", "--queue=q", "--json", "--nats", &root]);
    assert_eq!(listed.out.trim(), "[]", "{}", listed.err);
}

// Many tasks

#[test]
fn a_session_of_a_lost_queue_does_not_count_for_a_task_of_the_same_name() {
    let lost = NatsServer::start();
    let here = machine(
        &lost,
        "",
        "otherwise: { say: 'Yes. <promise>COMPLETE</promise>', run: 'echo x >> done' }\n",
    );
    here.queue(&["add", "Do it"]);
    assert_eq!(order(&here.drain(&[]), "completed"), ["1"]);
    let server = NatsServer::start();
    let url = server.url();
    assert_eq!(
        here.creel(&["task", "add", "--queue", "Do it", "--nats", &url])
            .out,
        "1\n"
    );
    assert_eq!(order(&here.drain(&["--nats", &url]), "completed"), ["1"]);
    assert_eq!(here.read("done"), "x\nx\n");
    // This run used the session name that the next run would have.
    assert_eq!(
        here.creel(&["task", "start", "--queue", "1", "--nats", &url])
            .code,
        0
    );
    assert_eq!(order(&here.drain(&["--nats", &url]), "completed"), ["1"]);
    assert_eq!(here.read("done"), "x\nx\nx\n");
}

/// `CREEL_QUEUE_SEED` decides when a worker is killed.
#[test]
fn each_of_two_hundred_tasks_is_completed_once_although_workers_are_killed() {
    const TASKS: usize = 200;
    let server = NatsServer::start();
    let (here, there) = (machine(&server, "", DONE), machine(&server, "", DONE));
    let told = completions(&server);
    let url = server.url();
    for first in (0..TASKS).step_by(10) {
        let adding: Vec<_> = (first..first + 10).map(|n| add(&here, &url, n)).collect();
        for mut child in adding {
            assert!(child.wait().expect("it ends").success());
        }
    }
    let seed = std::env::var("CREEL_QUEUE_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    let mut chance = Chance(seed);
    let mut workers = [here.worker(&[]), there.worker(&[])].map(Some);
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    let mut until_kill = 5 + chance.below(20);
    while done.len() < TASKS {
        let id = told
            .recv_timeout(Duration::from_mins(1))
            .unwrap_or_else(|_| panic!("seed {seed}: {} done", done.len()));
        *done.entry(id).or_default() += 1;
        until_kill -= 1;
        if until_kill == 0 {
            until_kill = 5 + chance.below(20);
            let which = usize::try_from(chance.below(2)).expect("small");
            workers[which].take().expect("there is one").kill();
            workers[which] = Some(if which == 0 {
                here.worker(&[])
            } else {
                there.worker(&[])
            });
        }
    }
    until("nothing is left in the line", || {
        server.count("CREEL_QUEUE") == 0
    });
    for worker in workers.into_iter().flatten() {
        worker.signal(Signal::TERM);
        worker.end();
    }
    done.extend(told.try_iter().map(|id| (id, 2)));
    let wrong: Vec<_> = done.iter().filter(|(_, times)| **times != 1).collect();
    assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
    let all: Vec<Value> = serde_json::from_str(&here.queue(&["list", "--json"]).out).expect("JSON");
    assert!(all.len() == TASKS && all.iter().all(|task| task["state"] == "completed"));
}

/// Adds the nth task, with one of the five priorities.
fn add(project: &Project, url: &str, n: usize) -> std::process::Child {
    let (id, goal, priority) = (format!("t{n}"), format!("Task {n}"), (n % 5).to_string());
    let args = [
        "task", "add", "--queue", "--nats", url, &goal, "--id", &id, "-p", &priority,
    ];
    project
        .command(&args)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("creel starts")
}

/// The ids of tasks as they are completed, one per message.
fn completions(server: &NatsServer) -> mpsc::Receiver<String> {
    let (tell, told) = mpsc::channel();
    let client = server.block_on(server.client());
    let mut all = server
        .block_on(client.subscribe("$KV.creel-tasks.>"))
        .expect("a connection");
    server.block_on(client.flush()).expect("a connection");
    server.spawn(async move {
        // The client must live as long as its subscription.
        let _client = client;
        while let Some(message) = next(&mut all).await {
            let task: Value = serde_json::from_slice(&message.payload).unwrap_or_default();
            if task["state"] == "completed" {
                let _ = tell.send(task["id"].as_str().unwrap_or_default().to_owned());
            }
        }
    });
    told
}

async fn next(subscriber: &mut async_nats::Subscriber) -> Option<async_nats::Message> {
    creel::nats::commands::next(subscriber).await
}
