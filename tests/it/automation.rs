//! Automation in whole sessions: commands that answer, fail and hang, workflows, an agent that
//! completes its tasks, and a kill in the middle of it.

use serde_json::{Value, json};

use crate::support::project::Project;

const CREEL: &str = env!("CARGO_BIN_EXE_creel");

/// The actions that the hook `plan` requests for the parser.
const WANTED: &str = r#"[
  {"type": "create_task", "payload": {"taskId": "ship", "goal": "Ship it", "dependsOn": ["docs"]}},
  {"type": "create_task", "payload": {"taskId": "ship", "goal": "Ship it twice"}},
  {"type": "execute_workflow", "payload": {"workflowId": "release", "context": {"why": "it's new"}}}
]"#;

const CONFIG: &str = r#"
prompt: GOAL
agents: { demo: { script: scenario.yaml } }
automation:
  hooks:
    - { name: plan, event_types: [task_completed], priority: 30, command: '[ {{task_id}} != parser ] || cat wanted.json' }
    - { name: broken, event_types: [task_completed], priority: 31, command: '[ {{task_id}} != parser ] || { echo no luck >&2; exit 3; }' }
    - { name: hangs, event_types: [task_completed], priority: 32, timeout: 300ms, command: '[ {{task_id}} != parser ] || sleep 600' }
workflows:
  release:
    steps:
      - { name: build, type: command, command: 'echo "v1 of {{task_id}}"' }
      - { name: tell, type: create_task, task: { goal: "Announce {{steps.build.stdout}}" } }
hooks:
  on_task_complete: [{ name: report, pipe_output: true, command: 'echo "{{task_id}} is done: {{task_content}}"' }]
"#;

/// An agent that completes one task per turn. A repeated turn is refused what the cut turn already
/// did.
const SCENARIO: &str = r#"
turns:
  - run:
      - "'CREEL' task add 'Write the parser' --id parser -l agent"
      - "'CREEL' task add 'Document it' --id docs --depends-on parser"
      - "'CREEL' task done parser --result 'it parses'"
    say: The parser is written.
  - run: "'CREEL' task done docs"
    say: <promise>COMPLETE</promise>
otherwise: { say: Thanks. }
"#;

fn project() -> Project {
    Project::with(CONFIG)
        .file("wanted.json", WANTED)
        .file("scenario.yaml", &SCENARIO.replace("CREEL", CREEL))
}

/// What followed from the completion of the parser: first all hooks, then all their actions.
const FOLLOWED: [&str; 13] = [
    "auto-create-review-task decided 1",
    "check-dependency-satisfaction decided 2",
    "plan decided 3",
    "broken failed: exit 3: no luck",
    "hangs failed: timed out",
    "track-agent-task-lifecycle decided 1",
    "task_created task_1",
    "task_updated docs",
    "dependency_satisfied docs",
    "task_created ship",
    "action_error system",
    "workflow_started release",
    "agent_metrics parser",
];

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The hooks' decisions about the first event that had any, and the actions that followed, in the
/// order of the records.
fn followed(project: &Project) -> Vec<String> {
    let about_first = |record: &Value| match text(&record["kind"]) {
        "automation_decided" | "hook_error" => record["event"] == first(project),
        _ => record["cause"]["event"] == first(project),
    };
    let tell = |record: &Value| {
        let data = &record["data"];
        match text(&record["kind"]) {
            "automation_decided" => {
                format!(
                    "{} decided {}",
                    text(&record["hook"]),
                    record["actions"].as_array().map_or(0, Vec::len)
                )
            }
            "hook_error" => format!(
                "{} failed: {}",
                text(&data["hookName"]),
                text(&data["error"])
            ),
            "workflow_started" => format!("workflow_started {}", text(&record["workflow"])),
            kind => format!("{kind} {}", text(&record["task"])),
        }
    };
    project
        .records()
        .iter()
        .filter(|record| about_first(record))
        .map(tell)
        .collect()
}

/// The event of the parser's completion.
fn first(project: &Project) -> Value {
    project.kind("automation_due")[0]["event"].clone()
}

/// The tasks at the end.
fn graph(project: &Project) -> Vec<Value> {
    let tasks = project.tells(&["task", "list", "-s", "s", "--json"]);
    let facts = |task: &Value| {
        json!([
            task["id"],
            task["state"],
            task["goal"],
            task["parent"],
            task["dependencies"]
        ])
    };
    tasks
        .as_array()
        .expect("a list")
        .iter()
        .map(facts)
        .collect()
}

/// However the session got here, everything was done exactly once.
#[track_caller]
fn everything_was_done_once(project: &Project) {
    assert_eq!(followed(project), FOLLOWED);
    let tasks = [
        json!(["parser", "completed", "Write the parser", null, []]),
        json!(["docs", "completed", "Document it", null, ["parser"]]),
        json!(["task_1", "ready", "Review: Write the parser", "parser", []]),
        json!(["ship", "ready", "Ship it", null, ["docs"]]),
        json!(["task_2", "ready", "Announce v1 of parser", null, []]),
    ];
    assert_eq!(graph(project), tasks);
    assert_eq!(project.kind("workflow_ended").len(), 1);
    assert_eq!(
        project.kind("action_error")[0]["data"]["error"],
        "task ship already exists"
    );

    let added: Vec<Value> = project
        .kind("pending_added")
        .iter()
        .map(|record| record["item"].clone())
        .collect();
    let delivered: Vec<Value> = project
        .kind("delivered")
        .iter()
        .filter_map(|record| record["items"].as_array().cloned())
        .flatten()
        .collect();
    assert_eq!(
        (added.len(), &delivered),
        (2, &added),
        "each report is held once and delivered once"
    );
}

#[test]
fn the_consequences_of_a_task_are_decided_in_order_and_then_done() {
    let project = project();
    let ran = project.run();
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    everything_was_done_once(&project);

    let prompts = project.prompts();
    let reasons: Vec<&str> = prompts.iter().map(|(reason, _)| reason.as_str()).collect();
    assert_eq!(reasons, ["iteration", "iteration", "final_delivery"]);
    assert!(
        prompts[1].1.contains("parser is done: Write the parser\n"),
        "{}",
        prompts[1].1
    );
    assert!(
        prompts[2].1.contains("docs is done: Document it"),
        "{}",
        prompts[2].1
    );
    assert!(!prompts[2].1.contains("parser is done"), "{}", prompts[2].1);

    let seq = |kind: &str| project.kind(kind)[0]["seq"].as_u64().expect("a number");
    let second_prompt = project.kind("prompt_sent")[1]["seq"]
        .as_u64()
        .expect("a number");
    assert!(
        seq("workflow_ended") < second_prompt,
        "no prompt overtakes what follows from a task"
    );
    let hung = project
        .kind("hook_finished")
        .into_iter()
        .find(|record| record["hook"] == "hangs")
        .expect("it ran");
    assert_eq!(hung["end"], "timed_out");
}

#[test]
fn everything_is_done_once_although_creel_is_killed_in_the_middle() {
    type Wanted = fn(&Value) -> bool;
    let moments: [(&str, Wanted); 6] = [
        ("automation_due", |_| true),
        ("automation_decided", |record| record["hook"] == "plan"),
        ("hook_started", |record| record["hook"] == "hangs"),
        ("task_created", |record| record["task"] == "ship"),
        ("workflow_step_started", |_| true),
        ("pending_added", |_| true),
    ];
    for (kind, is_wanted) in moments {
        let project = project();
        let mut session = project.start();
        session.wait_for_one(kind, is_wanted);
        session.kill();
        let ran = project.creel(&["resume", "s", "--headless"]);
        assert_eq!(ran.code, 0, "killed at {kind}: {}{}", ran.out, ran.err);
        everything_was_done_once(&project);
    }
}
