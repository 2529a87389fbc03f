//! `creel import`, `creel export` and `creel run --tasks`: real files, sessions and queues.

use std::fs::File;

use serde_json::{Value, json};

use crate::support::project::{Project, Ran, Started};

const PLAN: &str = "\
# Release

- [x] Choose a name
- [ ] Write the parser
  It reads all forms.
  - [ ] Numbers
  - [ ] Texts
- [-] Translate it
";

const PRD: &str = r#"{
  "project": "MyApp",
  "userStories": [
    { "id": "US-001", "title": "Add a field", "description": "As a user, I see it.",
      "acceptanceCriteria": ["Tests pass"], "priority": 1, "passes": false, "notes": "" },
    { "id": "US-002", "title": "Show it", "description": "", "acceptanceCriteria": [], "priority": 2, "passes": false }
  ]
}
"#;

/// A project with an agent that works until the file `go` exists.
fn project() -> Project {
    let turn = "turns:\n  - { say: '<promise>COMPLETE</promise>', run: 'until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }\n\
                otherwise: { say: '<promise>COMPLETE</promise>' }\n";
    Project::with(
        "prompt: GOAL\nstop: { open_tasks: ignore }\nagents: { demo: { script: s.yaml } }\n",
    )
    .file("s.yaml", turn)
    .file("plan.md", PLAN)
    .file("prd.json", PRD)
}

fn running(project: &Project) -> Started {
    let mut session = project.start();
    session.wait_for("prompt_sent");
    session
}

/// Imports a file into the queue.
#[track_caller]
fn imports(project: &Project, file: &str) {
    let Ran { code, err, .. } = project.creel(&["import", file, "--queue"]);
    assert_eq!(code, 0, "{err}");
}

fn ends(project: &Project, session: Started) {
    project.write("go", "");
    assert_eq!(session.end().code, 0);
}

/// The named fields of each task, by their names in a queue, which adds several in a millisecond.
fn tasks(project: &Project, args: &[&str], fields: &[&str]) -> Value {
    let tasks = project.tells(&[&["task", "list", "--json"], args].concat());
    let mut tasks = tasks.as_array().expect("a list").clone();
    if args.contains(&"--queue") {
        tasks.sort_by_key(|task| task["id"].to_string());
    }
    let of_task = |task: &Value| {
        fields
            .iter()
            .map(|field| task[field].clone())
            .collect::<Value>()
    };
    tasks.iter().map(of_task).collect()
}

#[test]
fn a_checklist_is_imported_once_and_its_completed_tasks_are_marked() {
    let project = project();
    let session = running(&project);
    let dry = project.creel(&["import", "plan.md", "--dry-run"]);
    assert_eq!(
        (dry.code, dry.out.as_str(), dry.err.as_str()),
        (
            0,
            "numbers           Numbers\ntexts             Texts\nwrite-the-parser  Write the parser…\n",
            "creel: would import 3 tasks from plan.md, a Markdown checklist\n  skipped 1, done in the file: choose-a-name\n  \
             skipped 1, deferred in the file: translate-it\n"
        )
    );
    assert_eq!(tasks(&project, &[], &["id"]), json!([]));
    let imported = project.creel(&["import", "plan.md"]);
    assert_eq!((imported.code, imported.out), (0, dry.out));
    assert_eq!(
        tasks(
            &project,
            &[],
            &["id", "goal", "state", "dependencies", "parent", "labels"]
        ),
        json!([
            [
                "numbers",
                "Numbers",
                "ready",
                [],
                "write-the-parser",
                ["from:plan.md#numbers"]
            ],
            [
                "texts",
                "Texts",
                "ready",
                [],
                "write-the-parser",
                ["from:plan.md#texts"]
            ],
            [
                "write-the-parser",
                "Write the parser\nIt reads all forms.",
                "created",
                ["numbers", "texts"],
                null,
                ["from:plan.md#write-the-parser"]
            ],
        ])
    );
    let again = project.creel(&["import", "plan.md", "--json"]);
    let again: Value = serde_json::from_str(&again.out).expect("JSON");
    assert_eq!(again["imported"], json!([]));
    let present = json!({ "id": "texts", "reason": "present", "task": "texts" });
    assert!(
        again["skipped"]
            .as_array()
            .expect("a list")
            .contains(&present),
        "{again}"
    );

    project.does(&["task", "done", "texts"]);
    let marked = project.creel(&["export", "plan.md"]);
    assert_eq!(
        (marked.code, marked.err.as_str()),
        (
            0,
            "creel: marked 1 task as done in plan.md; 2 of those imported from it not completed yet\n"
        )
    );
    assert_eq!(
        project.read("plan.md"),
        PLAN.replace("- [ ] Texts", "- [x] Texts")
    );
    // The session can be over.
    project.does(&["task", "done", "numbers"]);
    ends(&project, session);
    assert_eq!(
        project.creel(&["export", "plan.md", "--session", "s"]).code,
        0
    );
    assert!(project.read("plan.md").contains("- [x] Numbers"));
}

#[test]
fn a_session_works_on_the_tasks_of_a_file() {
    let project = project().file(
        "s.yaml",
        "turns:\n  - { say: 'Done.', run: \"creel task done US-001 && creel task start US-002 && creel task done US-002\" }\n\
         otherwise: { say: '<promise>COMPLETE</promise>' }\n",
    );
    project.write(
        "creel.yaml",
        &project.read("creel.yaml").replace("prompt: GOAL\n", ""),
    );
    let ran = project.creel(&[
        "run",
        "--trust",
        "--headless",
        "--tasks",
        "prd.json",
        "-s",
        "one",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err
            .contains("creel: took over 2 tasks from prd.json, a prd.json\n"),
        "{}",
        ran.err
    );
    let prompts = project.creel(&["show", "one", "--prompts"]).out;
    assert!(
        prompts.contains("Work on the open tasks of this session"),
        "{prompts}"
    );
    let first = "- US-001 (ready): Add a field\n\n  As a user, I see it.\n  Deliverables:\n  - Tests pass\n- US-002 (created): Show it\n";
    assert!(prompts.contains(first), "{prompts}");
    assert_eq!(
        tasks(
            &project,
            &["-s", "one"],
            &["id", "state", "dependencies", "priority"]
        ),
        json!([
            ["US-001", "completed", [], 0],
            ["US-002", "completed", ["US-001"], 1]
        ])
    );
    assert_eq!(project.creel(&["export", "prd.json", "-s", "one"]).code, 0);
    assert_eq!(project.read("prd.json"), PRD.replace("false", "true"));
    let none = project.creel(&["run", "--headless", "--tasks", "prd.json", "-s", "two"]);
    assert_eq!(none.code, 2);
    assert!(
        none.err.contains("prd.json has no open tasks"),
        "{}",
        none.err
    );
}

#[test]
fn issues_from_standard_input_are_queued_once() {
    let issues = r#"[{"number": 8, "title": "Two", "body": "", "labels": [], "state": "OPEN", "url": "https://github.com/me/app/issues/8"},
        {"number": 7, "title": "One", "body": "It fails.", "labels": [{"name": "bug"}], "state": "OPEN", "url": "https://github.com/me/app/issues/7"}]"#;
    let project = project().file("issues.json", issues);
    let import = || {
        let input = File::open(project.root().join("issues.json")).expect("the file");
        let mut command = project.command(&["import", "-", "--queue"]);
        Ran::of(&command.stdin(input).output().expect("creel starts"))
    };
    let first = import();
    assert_eq!(
        (first.code, first.out.as_str()),
        (0, "issue-8  Issue #8: Two…\nissue-7  Issue #7: One…\n"),
        "{}",
        first.err
    );
    let again = import();
    assert_eq!((again.code, again.out.as_str()), (0, ""));
    assert_eq!(
        tasks(&project, &["--queue"], &["id", "labels", "state"]),
        json!([
            ["issue-7", ["bug", "from:me/app#7"], "ready"],
            ["issue-8", ["from:me/app#8"], "ready"]
        ])
    );
    let refused = project.creel(&["export", "--queue", "prd.json"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused
            .err
            .contains("the queue has no task that was imported from prd.json"),
        "{}",
        refused.err
    );
}

#[test]
fn what_is_exported_is_imported_elsewhere() {
    for format in ["markdown", "prd", "json"] {
        let one = project();
        imports(&one, "plan.md");
        let added = one.creel(&[
            "task",
            "add",
            "--queue",
            "With -->\n- [ ] a box",
            "--id",
            "odd",
            "--priority",
            "0",
            "-d",
            "tests",
        ]);
        assert_eq!(added.code, 0, "{}", added.err);
        let exported = one.creel(&["export", "--queue", "--format", format]).out;
        let other = project().file("tasks", &exported);
        imports(&other, "tasks");
        let fields = ["id", "goal", "deliverables", "priority", "dependencies"];
        assert_eq!(
            tasks(&other, &["--queue"], &fields),
            tasks(&one, &["--queue"], &fields),
            "{exported}"
        );
        let again = other.creel(&["import", "tasks", "--queue"]);
        assert_eq!((again.code, again.out.as_str()), (0, ""));
    }
}

#[test]
fn a_file_with_a_mistake_creates_nothing() {
    let project = project()
        .file("cycle.jsonl", "{\"id\":\"c\",\"goal\":\"C\"}\n{\"id\":\"a\",\"goal\":\"A\",\"dependencies\":[\"b\"]}\n{\"id\":\"b\",\"goal\":\"B\",\"dependencies\":[\"a\"]}\n")
        .file("notes.md", "# Notes\n");
    let refused = |args: &[&str]| {
        let Ran { code, out, err } = project.creel(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        err
    };
    assert_eq!(
        refused(&["import", "cycle.jsonl", "--queue"]),
        "creel: cannot use cycle.jsonl: these tasks wait for each other: a → b → a\n  remove one of the dependencies\n"
    );
    assert!(
        refused(&["import", "notes.md", "--queue"])
            .starts_with("creel: cannot use notes.md: it has no checklist\n")
    );
    assert!(
        refused(&["import", "missing.md"])
            .starts_with("creel: cannot read missing.md: it does not exist\n")
    );
    let none = refused(&["import", "plan.md"]);
    assert!(
        none.contains("`creel run --tasks plan.md`") && none.contains("--queue"),
        "{none}"
    );
    assert_eq!(tasks(&project, &["--queue"], &["id"]), json!([]));
    let dry = project.creel(&["import", "plan.md", "--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.err);
}

#[test]
fn a_new_story_with_the_number_of_a_completed_one_is_not_marked() {
    let stories = |title: &str| {
        format!(r#"{{"userStories": [{{"id": "US-001", "title": "{title}", "passes": false}}]}}"#)
    };
    let project = Project::new();
    project.write("prd.json", &stories("Log in"));
    assert_eq!(project.creel(&["import", "prd.json", "--queue"]).code, 0);
    let done = project.creel(&["task", "done", "--queue", "US-001"]);
    assert_eq!(done.code, 0, "{}", done.err);
    project.write("prd.json", &stories("Delete account"));
    let marked = project.creel(&["export", "prd.json", "--queue"]);
    assert_ne!(marked.code, 0, "{}", marked.err);
    assert_eq!(project.read("prd.json"), stories("Delete account"));
    let imported = project.creel(&["import", "prd.json", "--queue"]);
    assert!(imported.err.contains("imported 1 task"), "{}", imported.err);
}
