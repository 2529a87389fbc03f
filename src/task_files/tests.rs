//! Real files of other tools, and that what creel writes is read back as the same tasks.

use std::collections::BTreeSet;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::{
    export::{ExportFormat, written},
    import_plan::{ImportPlan, PresentTask},
    *,
};
use crate::engine::tasks::graph::PRIORITY;

/// A task in one line, with everything that the file says about it.
fn shown(task: &FileTask) -> String {
    let NewTask {
        id,
        goal,
        deliverables,
        labels,
        priority,
        kind,
        parent,
        dependencies,
        queue,
    } = &task.task;
    let mut line = format!("{} {goal:?}", id.as_deref().unwrap_or("?"));
    let lists = [
        ("makes", deliverables),
        ("labels", labels),
        ("after", dependencies),
    ];
    for (name, list) in lists {
        if !list.is_empty() {
            line += &format!(" {name} {list:?}");
        }
    }
    for (name, one) in [("type", kind), ("parent", parent)] {
        line += &one
            .as_ref()
            .map(|one| format!(" {name} {one}"))
            .unwrap_or_default();
    }
    line += &priority
        .map(|priority| format!(" p{priority}"))
        .unwrap_or_default();
    line += &queue
        .as_ref()
        .map(|agents| format!(" by {agents:?}"))
        .unwrap_or_default();
    line += match task.state {
        FileTaskState::Open => "",
        FileTaskState::Done => " (done)",
        FileTaskState::Deferred => " (deferred)",
    };
    line
}

fn reads(text: &str, expected: &Expect) {
    let shown = match TaskFile::read(text, None) {
        Ok(file) => {
            let lines = file.tasks.iter().map(|task| shown(task) + "\n");
            format!("{}\n{}", file.format, lines.collect::<String>())
        }
        Err(error) => format!("{error}\n"),
    };
    expected.assert_eq(&shown);
}

fn plan(text: &str, present: &[PresentTask]) -> Result<ImportPlan, TaskFileError> {
    ImportPlan::of(&TaskFile::read(text, None)?, "plan.md", present)
}

/// What creel has after an import.
fn imported(plan: &ImportPlan) -> Vec<PresentTask> {
    let tasks = plan.clone().into_new_tasks().into_iter();
    let task = |task: NewTask| PresentTask {
        name: task.id.unwrap_or_default(),
        goal: task.goal,
        labels: task.labels,
    };
    tasks.map(task).collect()
}

const CHECKLIST: &str = "\
# Release

Some text with [ ] a box, and `- [ ] code`.

- [x] Choose a name
- [ ] Write the parser
  It reads all forms.

  ```
  - [ ] not a task
  ```

  Deliverables:
  - src/parser.rs
  - tests
  - [ ] Numbers
  - [x] Texts
    * [ ] Escapes
- [-] Translate it
1. [ ] Write the parser

<!--
- [ ] hidden
-->
- [1] a footnote
- [link](x)
";

#[test]
fn a_checklist_is_read_with_what_is_nested_and_indented() {
    reads(
        CHECKLIST,
        &expect![[r#"
        a Markdown checklist
        choose-a-name "Choose a name" (done)
        write-the-parser "Write the parser\nIt reads all forms.\n\n```\n- [ ] not a task\n```" makes ["src/parser.rs", "tests"] after ["numbers", "texts"]
        numbers "Numbers" parent write-the-parser
        texts "Texts" after ["escapes"] parent write-the-parser (done)
        escapes "Escapes" parent texts
        translate-it "Translate it" (deferred)
        write-the-parser-2 "Write the parser"
    "#]],
    );
}

#[test]
fn a_plan_with_task_headings_is_worked_on_in_order() {
    let plan = "\
# Plan: Login

## Validation Commands
- `go test ./...`

### Task 1: Hash passwords
Use bcrypt.

- [x] Create auth/hash.go
- [ ] Write unit tests
  - [ ] for long passwords

```bash
# not a heading
```

---

### Task 2a: Handler

- [x] Create POST /login

### Iteration 3: Docs

## Success criteria

- [ ] Deploy to staging
";
    reads(
        plan,
        &expect![[r#"
            a Markdown checklist
            task-1 "Hash passwords\n\nUse bcrypt.\n\n\n```bash\n# not a heading\n```" makes ["Write unit tests", "for long passwords"]
            task-2a "Handler" (done)
            task-3 "Docs" after ["task-1"]
        "#]],
    );
}

#[test]
fn a_prd_without_dependencies_is_worked_on_by_priority() {
    let ralph = r#"{
  "project": "MyApp", "branchName": "ralph/task-status", "description": "Task Status Feature",
  "userStories": [
    {"id": "US-002", "title": "Display status badge", "description": "As a user, I want to see status.",
     "acceptanceCriteria": ["Typecheck passes"], "priority": 2, "passes": false, "notes": ""},
    {"id": "US-001", "title": "Add status field", "description": "As a developer, I store status.",
     "acceptanceCriteria": ["Column exists", "Typecheck passes"], "priority": 1, "passes": true, "notes": "Uses an enum."}
  ]}"#;
    reads(
        ralph,
        &expect![[r#"
            a prd.json
            US-001 "Add status field\n\nAs a developer, I store status.\n\nUses an enum." makes ["Column exists", "Typecheck passes"] p0 (done)
            US-002 "Display status badge\n\nAs a user, I want to see status." makes ["Typecheck passes"] p1
        "#]],
    );
    let ralph_tui = r#"{"name": "App", "userStories": [
        {"id": "US-001", "title": "Schema", "passes": false, "dependsOn": []},
        {"id": "US-002", "title": "Form", "priority": "high", "passes": false, "labels": ["ui"], "dependsOn": ["US-001"]}]}"#;
    reads(
        ralph_tui,
        &expect![[r#"
        a prd.json
        US-001 "Schema"
        US-002 "Form" labels ["ui"] after ["US-001"] p1
    "#]],
    );
}

#[test]
fn issues_of_a_forge_are_read_with_their_address() {
    let issues = r#"[
      {"body": "It fails.\r\nAlways.", "labels": [{"id": "LA_1", "name": "bug", "description": "", "color": "d73a4a"}],
       "number": 42, "state": "OPEN", "title": "Fix the parser", "url": "https://github.com/me/app/issues/42"},
      {"body": "", "labels": [], "number": 7, "state": "CLOSED", "title": "Old", "url": "https://github.com/me/app/issues/7"}]"#;
    reads(
        issues,
        &expect![[r#"
        a list of GitHub issues
        42 "Issue #42: Fix the parser\n\nIt fails.\nAlways.\n\nhttps://github.com/me/app/issues/42" labels ["bug"]
        7 "Issue #7: Old\n\nhttps://github.com/me/app/issues/7" (done)
    "#]],
    );
    reads(
        "[]",
        &expect![[r#"
        a list of creel's tasks
    "#]],
    );
}

#[test]
fn beads_are_read_from_their_file_and_from_the_output_of_bd() {
    let file = concat!(
        r#"{"id":"bd-a1","title":"Login","description":"","status":"open","priority":1,"issue_type":"epic","created_at":"2026-01-16T13:00:00Z"}"#,
        "\n",
        r#"{"id":"bd-a1.1","title":"Form","description":"A form.","design":"Two fields.","acceptance_criteria":"- [ ] has a test\n- no warnings","status":"in_progress","priority":0,"issue_type":"task","labels":["ui"],"dependencies":[{"issue_id":"bd-a1.1","depends_on_id":"bd-a1","type":"parent-child"},{"issue_id":"bd-a1.1","depends_on_id":"bd-b2","type":"blocks"},{"issue_id":"bd-a1.1","depends_on_id":"bd-zz","type":"related"}]}"#,
        "\n",
        r#"{"id":"bd-b2","title":"Schema","status":"closed","priority":2,"issue_type":"task"}"#,
        "\n",
        r#"{"id":"bd-c3","title":"Later","status":"deferred","priority":3,"issue_type":"chore"}"#,
        "\n",
        r#"{"id":"bd-d4","title":"Gone","status":"tombstone","priority":3,"issue_type":"task"}"#,
        "\n",
        r#"{"_type":"memory","key":"x","value":"y"}"#,
        "\n",
    );
    reads(
        file,
        &expect![[r#"
        a list of beads
        bd-a1 "Login" labels ["epic"] after ["bd-a1.1"] p1
        bd-a1.1 "Form\n\nA form.\n\nDesign:\nTwo fields." makes ["has a test", "no warnings"] labels ["ui"] after ["bd-b2"] parent bd-a1 p0
        bd-b2 "Schema" p2 (done)
        bd-c3 "Later" labels ["chore"] p3 (deferred)
    "#]],
    );
}

#[test]
fn each_mistake_in_a_file_is_named() {
    reads(
        "# Notes\n\nNo tasks here.\n",
        &expect![[r#"
        it has no checklist
          a task is a line such as `- [ ] Write the parser`, or a heading `### Task 1: TITLE`
    "#]],
    );
    reads(
        r#"{"tasks": []}"#,
        &expect![[r#"
        creel does not know its format
          creel reads Markdown checklists, prd.json, `gh issue list --json number,title,body,labels,state,url`, beads and `creel export`; --format says which one it is
    "#]],
    );
    reads(
        "[{\"goal\": ",
        &expect![[r#"
        it cannot be read as a list of creel's tasks: EOF while parsing a value at line 1 column 10
    "#]],
    );
    reads(
        r#"{"userStories": [{"id": "US-1"}]}"#,
        &expect![[r#"
        it cannot be read as a prd.json: story 1: missing field `title` at line 1 column 14
    "#]],
    );
    reads(
        r#"{"userStories": [{"id": "a", "title": "A", "passes": "no"}]}"#,
        &expect![[r#"
            it cannot be read as a prd.json: story `a`: `passes` is true or false, not "no"
        "#]],
    );
    reads(
        r#"[{"id": "a", "goal": "A"}, {"id": "a", "goal": "B"}]"#,
        &expect![[r#"
            two tasks have the id `a`; each needs its own
        "#]],
    );
    reads(
        "- [ ] A <!-- creel {\"after\": 1} -->\n",
        &expect![[r#"
        it cannot be read as a Markdown checklist: line 1: the comment `<!-- creel … -->` is not as creel writes it: invalid type: integer `1`, expected a sequence at line 1 column 11
    "#]],
    );
    let refused = |text: &str| plan(text, &[]).expect_err("it is refused").to_string();
    let cycle = r#"[{"id": "a", "goal": "A", "dependencies": ["b"]}, {"id": "b", "goal": "B", "dependencies": ["c"]},
        {"id": "c", "goal": "C", "dependencies": ["b"]}]"#;
    expect![[r#"
        these tasks wait for each other: b → c → b
          remove one of the dependencies"#]]
    .assert_eq(&refused(cycle));
    let unknown = r#"[{"id": "bd-1", "title": "A", "dependencies": [{"depends_on_id": "bd-2"}]}]"#;
    expect![[r#"
        task `bd-1` depends on `bd-2`, which is not in the file
          `bd list` leaves out closed beads; .beads/issues.jsonl has all of them"#]]
    .assert_eq(&refused(unknown));
    expect!["task `a`: a task needs a goal"].assert_eq(&refused(r#"[{"id": "a", "goal": " "}]"#));
    expect!["task `task`: a task needs a goal"].assert_eq(&refused("- [ ] \n"));
}

#[test]
fn a_file_that_is_imported_again_creates_only_what_is_new() {
    let first = plan(CHECKLIST, &[]).expect("a plan");
    let order: Vec<&str> = first.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(
        order,
        [
            "numbers",
            "write-the-parser",
            "escapes",
            "write-the-parser-2"
        ]
    );
    let again = plan(CHECKLIST, &imported(&first)).expect("a plan");
    assert_eq!(again.tasks, []);
    let more = CHECKLIST.replace("- [-] Translate it", "- [ ] Translate it");
    let more = plan(&more, &imported(&first)).expect("a plan");
    assert_eq!(more.tasks.len(), 1);
}

#[test]
fn tasks_that_wait_for_deferred_ones_are_skipped_too() {
    let text = "- [ ] A\n  - [/] B\n- [ ] C\n";
    let plan = plan(text, &[]).expect("a plan");
    assert_eq!(
        plan.tasks
            .iter()
            .map(|task| task.id.as_str())
            .collect::<Vec<_>>(),
        ["c"]
    );
}

#[test]
fn names_that_other_tasks_have_become_numbers() {
    let other = PresentTask {
        name: "us-1".to_owned(),
        goal: "US 1".to_owned(),
        labels: vec!["from:other.md#us-1".to_owned()],
    };
    let plan = plan("- [ ] US 1\n- [ ] Größe\n- [ ] 日本\n", &[other]).expect("a plan");
    let names: Vec<Option<&str>> = plan
        .tasks
        .iter()
        .map(|task| task.task.id.as_deref())
        .collect();
    assert_eq!(names, [None, Some("gr--e"), None]);
    let labels = plan.tasks.iter().map(|task| task.source.as_str());
    assert_eq!(
        labels.collect::<Vec<_>>(),
        [
            "from:plan.md#us-1",
            "from:plan.md#größe",
            "from:plan.md#日本"
        ]
    );
}

#[test]
fn only_the_marks_of_finished_tasks_change() {
    let file = TaskFile::read(CHECKLIST, None).expect("a checklist");
    let (new, count) = file.marked(CHECKLIST, |task| {
        task.id() == "numbers" || task.id() == "choose-a-name"
    });
    let expected = CHECKLIST.replace("- [ ] Numbers", "- [x] Numbers");
    assert_eq!((new, count), (expected, 1));
    let prd = "\u{feff}{\"name\" : \"x\",\r\n \"userStories\":[{\"passes\":false, \"id\":\"ä\",\"title\":\"passes: false\"},{\"id\":\"b\",\"title\":\"B\",\"passes\":  false}]}";
    let file = TaskFile::read(prd, None).expect("a prd");
    let (new, _) = file.marked(prd, |task| task.id() == "b");
    assert_eq!(new, prd.replace("\"passes\":  false", "\"passes\":  true"));
    let plan = "### Task 1: A\r\n- [ ] x\r\n- [x] y\r\n- [ ] z\r\n### Task 2: B\r\n- [ ] x\r\n";
    let file = TaskFile::read(plan, None).expect("a plan");
    let (new, count) = file.marked(plan, |task| task.id() == "task-1");
    assert_eq!(count, 1);
    assert_eq!(
        new,
        plan.replacen("- [ ] x", "- [x] x", 1)
            .replace("- [ ] z", "- [x] z")
    );
}

/// A task without differences that a format cannot say.
fn comparable(mut task: FileTask) -> FileTask {
    task.task.dependencies.sort();
    task.task.priority = task.task.priority.or(Some(PRIORITY));
    task.marks.clear();
    task
}

fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[a-zäß*#<>!`~\\[\\]{}\"\\\\ -]{1,12}",
        1 => Just("- [ ] box".to_owned()), 1 => Just("```".to_owned()), 1 => Just("-->".to_owned()),
        1 => Just("Deliverables:".to_owned()), 1 => Just("### Task 1: x".to_owned()),
        1 => Just("<!-- creel {} -->".to_owned()), 1 => Just("\n".to_owned()), 1 => Just("\n\n  ".to_owned()),
    ];
    proptest::collection::vec(part, 1..5).prop_map(|parts| parts.join(" "))
}

fn tasks() -> impl Strategy<Value = Vec<FileTask>> {
    let task = (
        text(),
        proptest::collection::vec(text(), 0..3),
        proptest::collection::vec("[a-z:#]{1,6}", 0..2),
        0u8..=4,
        proptest::option::of("[a-z]{1,5}"),
        any::<(bool, bool, bool)>(),
        any::<(proptest::sample::Index, proptest::sample::Index)>(),
    );
    proptest::collection::vec(task, 1..6).prop_map(|drafts| {
        let mut tasks: Vec<FileTask> = Vec::new();
        for (
            at,
            (goal, deliverables, labels, priority, kind, (is_done, waits, is_part), (on, parent)),
        ) in drafts.into_iter().enumerate()
        {
            let before: Vec<String> = tasks.iter().map(|task| task.id().to_owned()).collect();
            let pick =
                |index: &proptest::sample::Index| before.get(index.index(at.max(1))).cloned();
            let new = NewTask {
                id: Some(format!("t{at}")),
                goal: format!("x{goal}"),
                deliverables,
                labels,
                priority: Some(priority),
                kind,
                parent: pick(&parent),
                dependencies: pick(&on).filter(|_| waits).into_iter().collect(),
                queue: None,
            };
            if let Some(above) = tasks
                .iter_mut()
                .find(|task| is_part && new.parent.as_deref() == Some(task.id()))
            {
                above.task.dependencies.push(format!("t{at}"));
            }
            let state = if is_done {
                FileTaskState::Done
            } else {
                FileTaskState::Open
            };
            tasks.push(FileTask::of(new, state));
        }
        tasks
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_exported_is_imported_as_the_same_tasks(tasks in tasks()) {
        for format in [ExportFormat::Markdown, ExportFormat::Json, ExportFormat::Prd] {
            let text = written(&tasks, format, "app");
            let read = TaskFile::read(&text, None).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
            let by_id = |tasks: &[FileTask]| -> Vec<FileTask> {
                let mut all: Vec<FileTask> = tasks.iter().cloned().map(comparable).collect();
                all.sort_by(|one, other| one.id().cmp(other.id()));
                if format == ExportFormat::Prd {
                    for task in &mut all {
                        task.task.goal = task.task.goal.split_whitespace().collect::<Vec<_>>().join(" ");
                    }
                }
                all
            };
            prop_assert_eq!(by_id(&read.tasks), by_id(&tasks), "{:?}:\n{}", format, text);
        }
    }

    #[test]
    fn no_text_makes_the_reader_fail(text in "(?s).{0,200}", lines in proptest::collection::vec("[ \t]{0,5}(- |1\\. |```|<!--|-->|#{0,4} )?(\\[[ x-]\\])? ?.{0,12}", 0..12)) {
        for text in [text, lines.join("\n")] {
            if let Ok(file) = TaskFile::read(&text, None) {
                let _ = ImportPlan::of(&file, "f", &[]);
                let (same, _) = file.marked(&text, |_| false);
                prop_assert_eq!(&same, &text);
                let ids: BTreeSet<&str> = file.tasks.iter().map(FileTask::id).collect();
                prop_assert_eq!(ids.len(), file.tasks.len());
            }
        }
    }
}

#[test]
fn a_story_that_is_done_does_not_break_the_order_of_the_others() {
    let text = r#"{"userStories": [
        {"id": "a", "title": "A", "priority": 1}, {"id": "b", "title": "B", "priority": 2, "passes": true},
        {"id": "c", "title": "C", "priority": 3}]}"#;
    let read = TaskFile::read(text, None).expect("a prd.json");
    let last = read.tasks.last().expect("three stories");
    assert_eq!(last.task.dependencies, ["a"]);
}

#[test]
fn another_task_with_an_old_number_is_new() {
    let stories =
        |title: &str| format!(r#"{{"userStories": [{{"id": "US-001", "title": "{title}"}}]}}"#);
    let before = imported(&plan(&stories("Log in"), &[]).expect("a plan"));
    let again = plan(&stories("Log in"), &before).expect("a plan");
    assert!(again.tasks.is_empty());
    let next = plan(&stories("Delete account"), &before).expect("a plan");
    assert_eq!(next.tasks.len(), 1, "{next:?}");
}
