//! The task graph from the command line: real sessions in separate processes, and agents that
//! complete their tasks.

use serde_json::{Value, json};

use crate::support::{
    peer::Peer,
    project::{Project, Ran, Started, until},
};

const CREEL: &str = env!("CARGO_BIN_EXE_creel");

/// Writes what it gets about each completed task to a file.
const NOTES: &str = "hooks: { on_task_complete: [{ name: note, command: 'echo \"$CREEL_TASK_ID: $CREEL_TASK_CONTENT\" >> notes' }] }";

/// A session whose agent works until the file `go` exists.
fn working(rest: &str) -> (Project, Started) {
    let turn = "  - { say: '<promise>COMPLETE</promise>', run: 'until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }\n";
    let config = format!("prompt: GOAL\nagents: {{ demo: {{ script: scenario.yaml }} }}\n{rest}");
    let scenario = format!("turns:\n{turn}otherwise: {{ say: '<promise>COMPLETE</promise>' }}\n");
    let project = Project::with(&config).file("scenario.yaml", &scenario);
    let mut session = project.start();
    session.wait_for("prompt_sent");
    (project, session)
}

impl Project {
    /// Adds a task, and returns its id.
    #[track_caller]
    fn adds(&self, args: &[&str]) -> String {
        let Ran { code, out, err } = self.creel(&[&["task", "add"], args].concat());
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
        out.strip_suffix('\n').expect("a line").to_owned()
    }

    /// The named fields of a task.
    #[track_caller]
    fn task(&self, id: &str, facts: &[&str]) -> Value {
        let task = self.tells(&["task", "show", id, "--json"]);
        facts.iter().map(|fact| task[fact].clone()).collect()
    }

    /// The ids of the listed tasks.
    #[track_caller]
    fn lists(&self, args: &[&str]) -> Vec<String> {
        let tasks = self.tells(&[&["task", "list", "--json"], args].concat());
        let name = |task: &Value| task["id"].as_str().expect("a name").to_owned();
        tasks.as_array().expect("a list").iter().map(name).collect()
    }
}

fn goes_on_and_ends(project: &Project, session: Started) {
    project.write("go", "");
    assert_eq!(session.end().code, 0);
}

// Every command

#[test]
fn a_task_is_added_started_blocked_changed_and_completed() {
    let (project, session) = working("");
    let all = [
        "Write the parser",
        "--id",
        "parser",
        "-d",
        "parser.rs",
        "-d",
        "tests",
        "-l",
        "rust",
        "--priority",
        "0",
    ];
    assert_eq!(
        project.adds(&[&all[..], &["--type", "feature"]].concat()),
        "parser"
    );
    assert_eq!(
        project.adds(&[
            "Document it",
            "--depends-on",
            "parser",
            "--parent",
            "parser"
        ]),
        "task_1"
    );
    let known = project.task(
        "parser",
        &[
            "goal",
            "deliverables",
            "labels",
            "priority",
            "type",
            "state",
            "dependents",
        ],
    );
    assert_eq!(
        known,
        json!([
            "Write the parser",
            ["parser.rs", "tests"],
            ["rust"],
            0,
            "feature",
            "ready",
            ["task_1"]
        ])
    );
    let waiting = project.task(
        "task_1",
        &[
            "state",
            "priority",
            "dependencies",
            "openDependencies",
            "parent",
        ],
    );
    assert_eq!(waiting, json!(["created", 2, ["parser"], 1, "parser"]));

    project.does(&["task", "start", "parser", "--context", "see the grammar"]);
    assert_eq!(
        project.kind("task_started")[0]["data"],
        json!({ "context": "see the grammar" })
    );
    project.does(&[
        "task",
        "block",
        "parser",
        "the grammar is unclear",
        "--needs",
        "precedence",
        "--needs",
        "unary",
    ]);
    let blocked = project.task("parser", &["state", "reason", "requiredKnowledge"]);
    assert_eq!(
        blocked,
        json!(["blocked", "the grammar is unclear", ["precedence", "unary"]])
    );
    project.does(&[
        "task",
        "update",
        "parser",
        "--goal",
        "Parse",
        "--add-label",
        "core",
        "--remove-label",
        "rust",
    ]);
    project.does(&[
        "task",
        "update",
        "parser",
        "--priority",
        "3",
        "--type",
        "chore",
        "-d",
        "one.rs",
    ]);
    let updated = project.task(
        "parser",
        &["goal", "labels", "priority", "type", "deliverables"],
    );
    assert_eq!(updated, json!(["Parse", ["core"], 3, "chore", ["one.rs"]]));
    project.does(&["task", "update", "parser", "--label", "a", "--label", "b"]);
    assert_eq!(project.task("parser", &["labels"]), json!([["a", "b"]]));

    project.does(&[
        "task",
        "done",
        "parser",
        "--result",
        "it parses",
        "--artifact",
        "parser.rs",
        "--artifact",
        "t.rs",
    ]);
    let completed = project.task("parser", &["state", "result", "artifacts"]);
    assert_eq!(
        completed,
        json!(["completed", "it parses", ["parser.rs", "t.rs"]])
    );
    assert_eq!(project.kind("task_completed")[0]["by"], "cli");
    project.does_with(&["task", "done", "task_1", "--result", "-"], "one\ntwo\n");
    assert_eq!(project.task("task_1", &["result"]), json!(["one\ntwo"]));
    goes_on_and_ends(&project, session);
}

#[test]
fn edges_and_tasks_are_added_and_removed() {
    let (project, session) = working("");
    for id in ["a", "b", "c"] {
        project.adds(&["Do it", "--id", id]);
    }
    project.does(&["task", "depend", "b", "a"]);
    project.does(&["task", "depend", "c", "b"]);
    assert_eq!(
        project.task("b", &["state", "dependencies", "dependents"]),
        json!(["created", ["a"], ["c"]])
    );
    project.does(&["task", "depend", "b", "a", "--remove"]);
    assert_eq!(
        project.task("b", &["state", "dependencies"]),
        json!(["ready", []])
    );
    project.does(&["task", "remove", "b"]);
    assert_eq!(
        project.task("c", &["state", "dependencies"]),
        json!(["ready", []])
    );
    assert_eq!(project.lists(&[]), ["a", "c"]);
    goes_on_and_ends(&project, session);
}

#[test]
fn a_list_is_filtered_and_reads_as_a_table() {
    let (project, session) = working("");
    assert_eq!(
        project.creel(&["task", "list"]).err,
        "creel: no tasks; add one with `creel task add`\n"
    );
    assert_eq!(project.tells(&["task", "list", "--json"]), json!([]));
    project.adds(&[
        "Write the parser\nby hand",
        "--id",
        "parser",
        "-l",
        "rust",
        "-l",
        "core",
        "--type",
        "feature",
    ]);
    project.adds(&["Lex", "--id", "lexer", "-l", "rust", "-p", "1"]);
    project.adds(&["Print", "--depends-on", "parser", "--depends-on", "lexer"]);
    project.does(&["task", "start", "lexer"]);
    let table = "ID      STATE    PRIORITY  GOAL               DEPENDS ON\n\
                 parser  ready    2         Write the parser…\n\
                 lexer   active   1         Lex\n\
                 task_1  created  2         Print              lexer, parser\n";
    assert_eq!(project.creel(&["task", "list"]).out, table);
    assert_eq!(project.lists(&["--label", "rust"]), ["parser", "lexer"]);
    assert_eq!(
        project.lists(&["--label", "rust", "--label", "core"]),
        ["parser"]
    );
    assert_eq!(
        project.lists(&["--state", "active", "--state", "created"]),
        ["lexer", "task_1"]
    );
    assert_eq!(project.lists(&["-t", "feature"]), ["parser"]);
    assert_eq!(project.lists(&["--type", "chore"]), [""; 0]);
    let shown = project.creel(&["task", "show", "parser"]).out;
    assert!(
        shown.starts_with("task          parser (ready)\ngoal          Write the parser\n"),
        "{shown}"
    );
    assert!(
        shown.contains("              by hand\n") && shown.contains("needed by     task_1\n"),
        "{shown}"
    );
    goes_on_and_ends(&project, session);
}

// Refusals

#[test]
fn a_refusal_of_the_session_is_printed_with_its_reason() {
    let (project, session) = working("");
    for id in ["a", "b", "c"] {
        project.adds(&["Do it", "--id", id]);
    }
    project.does(&["task", "depend", "b", "a"]);
    project.does(&["task", "depend", "c", "b"]);
    let refuses = |args: &[&str], why: &str| project.refuses(&[&["task"], args].concat(), why);
    refuses(
        &["depend", "a", "c"],
        "a cannot depend on c: that would be a cycle, a → c → b → a",
    );
    refuses(&["depend", "a", "a"], "a cannot depend on itself");
    refuses(&["depend", "a", "b", "--remove"], "a does not depend on b");
    for verb in ["show", "start", "remove"] {
        refuses(&[verb, "nope"], "there is no task nope");
    }
    refuses(&["block", "nope", "why"], "there is no task nope");
    refuses(&["update", "nope", "--goal", "x"], "there is no task nope");
    refuses(
        &["done", "nope"],
        "there is no task nope; to complete a task of another program, pass its content",
    );
    refuses(
        &["add", "Do it", "--depends-on", "nope"],
        "there is no task nope",
    );
    refuses(&["add", "Do it", "--id", "a"], "task a already exists");
    refuses(&["add", " "], "a task needs a goal");
    refuses(&["start", "c"], "c depends on a task that is not completed");
    refuses(&["block", "a", ""], "a reason is needed to block a");
    project.rejects(
        &["task", "add", "Do it", "--priority", "5"],
        "5 is not in 0..=4",
    );
    project.rejects(
        &["task", "list", "--state", "odd"],
        "use one of: created, ready, active, blocked, completed",
    );
    project.rejects(
        &["task", "update", "a"],
        "needs one of `--goal <TEXT>`, `--deliverable <TEXT>`",
    );
    assert_eq!(
        project.kind("task_created").len(),
        3,
        "nothing that was refused is on record"
    );
    goes_on_and_ends(&project, session);
}

// Completing

#[test]
fn an_agent_completes_its_task_inside_its_turn() {
    let agent = "\"$CREEL\" task add \"Write the parser\" --id parser && \
                 \"$CREEL\" task start parser && \
                 \"$CREEL\" task done parser --result \"it parses\" && \
                 echo \"<promise>COMPLETE</promise>\"";
    let config = format!("prompt: GOAL\nagents: {{ mine: {{ command: '{agent}' }} }}\n{NOTES}");
    let project = Project::with(&config);
    let ran = project.start_with(&[("CREEL", CREEL)]).end();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let completed = &project.kind("task_completed")[0];
    assert_eq!(
        (&completed["task"], &completed["data"]["result"]),
        (&"parser".into(), &"it parses".into())
    );
    assert_eq!(project.read("notes"), "parser: Write the parser\n");
}

#[test]
fn hooks_get_a_completion_once_however_often_it_is_sent() {
    let (project, session) = working(NOTES);
    project.adds(&["Write the parser", "--id", "parser"]);
    project.does(&["task", "done", "parser"]);
    project.refuses(
        &["task", "done", "parser"],
        "task parser is already completed",
    );
    project.does(&[
        "task",
        "done",
        "TAS-7",
        "--content",
        "a task of another program",
    ]);
    project.refuses(
        &["task", "done", "TAS-7", "--content", "again"],
        "task TAS-7 is already completed",
    );
    let notes = "parser: Write the parser\nTAS-7: a task of another program\n";
    until("both were noted", || project.read("notes") == notes);
    assert_eq!(project.kind("task_completed").len(), 2);
    assert_eq!(
        project.lists(&[]),
        ["parser"],
        "what another program did is no task of ours"
    );
    goes_on_and_ends(&project, session);
    assert_eq!(project.read("notes"), notes);
}

#[test]
fn concurrent_adds_get_unused_ids() {
    const CLIENTS: usize = 8;
    const EACH: usize = 10;
    let (project, session) = working("");
    project.does(&[
        "task",
        "done",
        "task_1",
        "--content",
        "a task of another program",
    ]);
    let add = json!({ "v": 1, "do": "task", "task": { "add": { "goal": "Do it" } } }).to_string();
    let mut names: Vec<String> = std::thread::scope(|scope| {
        let client = || {
            let mut peer = Peer::of(&project);
            (0..EACH)
                .map(|_| peer.ask(&add)["added"].as_str().expect("a name").to_owned())
                .collect::<Vec<_>>()
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        clients
            .into_iter()
            .flat_map(|client| client.join().expect("names"))
            .collect()
    });
    let number = |name: &String| {
        name.strip_prefix("task_")
            .and_then(|n| n.parse::<usize>().ok())
            .expect("a number")
    };
    names.sort_by_key(number);
    let expected: Vec<String> = (2..2 + CLIENTS * EACH)
        .map(|n| format!("task_{n}"))
        .collect();
    assert_eq!(names, expected);
    assert_eq!(project.lists(&[]), expected);
    goes_on_and_ends(&project, session);
}

// Past sessions

#[test]
fn the_tasks_of_a_past_session_are_read_from_its_journal() {
    let (project, session) = working("");
    project.adds(&["Write the parser", "--id", "parser"]);
    let (listed, shown) = (
        ["task", "list", "--json", "-s", "s"],
        ["task", "show", "parser", "--json", "-s", "s"],
    );
    let running = (project.tells(&listed), project.tells(&shown));
    goes_on_and_ends(&project, session);
    assert_eq!((project.tells(&listed), project.tells(&shown)), running);
    project.refuses(
        &["task", "show", "nope", "-s", "s"],
        "there is no task nope",
    );
    project.rejects(&["task", "list"], "no session is running");
    project.rejects(
        &["task", "list", "-s", "nope"],
        "session `nope` does not exist here",
    );
    project.rejects(
        &["task", "done", "parser", "-s", "s"],
        "session `s` is not running",
    );
}

#[test]
fn a_new_session_takes_over_the_open_tasks_of_another() {
    let (project, session) = working("");
    project.adds(&["Lex", "--id", "lexer"]);
    project.adds(&[
        "Print",
        "--id",
        "printer",
        "-l",
        "rust",
        "-d",
        "printer.rs",
        "-p",
        "1",
        "--depends-on",
        "lexer",
    ]);
    project.adds(&[
        "Parse",
        "--id",
        "parser",
        "--type",
        "feature",
        "--depends-on",
        "lexer",
        "--parent",
        "printer",
    ]);
    project.adds(&["Old", "--id", "old", "--parent", "lexer"]);
    project.adds(&["Format", "--id", "format"]);
    project.does(&[
        "task",
        "block",
        "format",
        "the headings are unclear",
        "--needs",
        "which headings there are",
    ]);
    project.does(&["task", "depend", "printer", "parser"]);
    project.does(&["task", "done", "lexer"]);
    project.does(&["task", "start", "parser"]);
    goes_on_and_ends(&project, session);

    let run = ["run", "--headless", "--trust", "-s", "two", "--tasks-from"];
    project.rejects(
        &[&run[..], &["nope"]].concat(),
        "session `nope` does not exist here",
    );
    assert_eq!(project.creel(&[&run[..], &["s"]].concat()).code, 0);
    let records = project.creel(&["show", "two", "--json"]).out;
    let created: Vec<Value> = crate::support::project::lines(&records)
        .into_iter()
        .filter(|record| record["kind"] == "task_created")
        .map(|record| {
            json!([
                record["task"],
                record["data"]["dependencies"],
                record["data"]["state"]
            ])
        })
        .collect();
    // Tasks that others wait for come first.
    assert_eq!(
        created,
        [
            json!(["parser", [], "ready"]),
            json!(["printer", ["parser"], "created"]),
            json!(["old", [], "ready"]),
            json!(["format", [], "ready"])
        ]
    );
    let tasks = project.tells(&["task", "list", "-s", "two", "--json"]);
    let fact = |n: usize, name: &str| tasks[n][name].clone();
    assert_eq!(
        (fact(0, "type"), fact(0, "parent")),
        (json!("feature"), json!("printer"))
    );
    assert_eq!(
        (fact(1, "labels"), fact(1, "deliverables")),
        (json!(["rust"]), json!(["printer.rs"]))
    );
    assert_eq!(
        (fact(1, "priority"), fact(2, "parent")),
        (json!(1), Value::Null)
    );
    assert_eq!(
        (fact(3, "state"), fact(3, "reason")),
        (json!("blocked"), json!("the headings are unclear"))
    );
    assert_eq!(
        fact(3, "requiredKnowledge"),
        json!(["which headings there are"])
    );
}
