//! Stop hooks and loops that an agent runs with its tools: in a session that creel supervises, and
//! in one that the tool server creates itself.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    mcp::{configured, ends, facts, working},
    support::{
        mcp::{Raw, Tools},
        project::{Project, until},
    },
};

/// A project with this config and without a session.
fn alone(config: &str) -> Project {
    Project::with(config)
}

/// The only session of the project.
fn only(project: &Project) -> Value {
    let sessions = project.tells(&["sessions", "--json"]);
    assert_eq!(sessions.as_array().map(Vec::len), Some(1), "{sessions}");
    sessions[0].clone()
}

/// The records of one kind in a session.
fn kinds(project: &Project, session: &Value, kind: &str) -> Vec<Value> {
    let name = session["name"].as_str().expect("a name");
    let text = project.creel(&["show", name, "--json"]).out;
    let records = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    records.filter(|record| record["kind"] == kind).collect()
}

/// A loop over a new task with one hook; returns the loop's id.
async fn looping(tools: &Tools, task: &str, hook: &str) -> Value {
    tools
        .does("task_add", json!({"goal": task, "taskId": task}))
        .await;
    tools
        .does("hook_register", json!({"taskId": task, "hookType": hook}))
        .await;
    tools.does("iteration_start", json!({"taskId": task})).await["iterationId"].clone()
}

// Input and output of the tools

#[tokio::test]
async fn hooks_are_registered_listed_and_cleared_as_documented() {
    let (project, session) = working();
    let tools = Tools::of(&project).await;
    tools
        .does("task_add", json!({"goal": "x", "taskId": "TASK-abc123"}))
        .await;
    let input = json!({"taskId": "TASK-abc123", "hookType": "default", "metadata": {"description": "Optional metadata"}});
    let first = tools.does("hook_register", input).await;
    let id = first["hookId"].as_str().expect("an id").to_owned();
    assert!(id.starts_with("HOOK-"), "{id}");
    let metadata = json!({"description": "Optional metadata"});
    let expected = json!({"hookId": id, "taskId": "TASK-abc123", "hookType": "default", "enabled": true, "metadata": metadata});
    assert_eq!(first, expected);
    let second = tools
        .does(
            "hook_register",
            json!({"task_id": "TASK-abc123", "hook_type": "promise"}),
        )
        .await;
    assert_eq!(
        facts(&second, &["hookType", "metadata"]),
        json!(["promise", {}])
    );

    let listed = tools
        .does("hook_list", json!({"taskId": "TASK-abc123"}))
        .await;
    let hooks = json!([
        {"id": id, "enabled": true, "metadata": {"type": "default", "description": "Optional metadata"}},
        {"id": second["hookId"], "enabled": true, "metadata": {"type": "promise"}},
    ]);
    assert_eq!(
        listed,
        json!({"taskId": "TASK-abc123", "hookCount": 2, "hooks": hooks})
    );
    project.does(&["hooks", "disable", &id]);
    let listed = tools
        .does("hook_list", json!({"taskId": "TASK-abc123"}))
        .await;
    assert_eq!(listed["hooks"][0]["enabled"], false);
    assert_eq!(
        tools
            .does("hook_clear", json!({"taskId": "TASK-abc123"}))
            .await,
        json!({"taskId": "TASK-abc123", "hooksCleared": 2})
    );
    assert_eq!(
        tools
            .does("hook_list", json!({"taskId": "TASK-abc123"}))
            .await["hooks"],
        json!([])
    );

    let why = tools
        .rejects(
            "hook_register",
            json!({"taskId": "TASK-abc123", "hookType": "custom"}),
        )
        .await;
    assert!(
        why.contains(
            "unknown variant `custom`, expected one of `default`, `validation`, `promise`"
        ),
        "{why}"
    );
    let why = tools.fails("hook_register", json!({"taskId": "x"})).await;
    assert_eq!(
        why,
        "there is no task x: create it with task_add first, or use `s` for the whole session"
    );
    assert_eq!(
        tools.does("hook_register", json!({"taskId": "s"})).await["taskId"],
        "s"
    );
    tools.close().await;
    ends(&project, session);
}

#[tokio::test]
async fn an_evaluation_answers_as_documented() {
    let (project, session) = working();
    let tools = Tools::of(&project).await;
    tools
        .does("task_add", json!({"goal": "x", "taskId": "TASK-abc123"}))
        .await;
    let hook = tools
        .does("hook_register", json!({"taskId": "TASK-abc123"}))
        .await["hookId"]
        .clone();
    let start = json!({"taskId": "TASK-abc123", "maxIterations": 10, "completionPromises": ["COMPLETE", "BLOCKED"]});
    let started = tools.does("iteration_start", start).await;
    let id = started["iterationId"].clone();
    assert!(id.as_str().is_some_and(|id| id.starts_with("IT-")), "{id}");
    assert_eq!(
        started,
        json!({"iterationId": id, "taskId": "TASK-abc123", "iteration": 1, "iterationNumber": 1, "maxIterations": 10,
            "completionPromises": ["COMPLETE", "BLOCKED"]})
    );
    for n in 2..=3 {
        let next = tools
            .does("iteration_next", json!({"iterationId": id}))
            .await;
        assert_eq!(
            next,
            json!({"iterationId": id, "taskId": "TASK-abc123", "iteration": n, "iterationNumber": n, "maxIterations": 10,
                "remaining": 10 - n})
        );
    }
    let input = json!({
        "iterationId": id,
        "agentOutput": "Implementation complete. <promise>COMPLETE</promise>",
        "filesModified": ["src/auth.ts", "tests/auth.test.ts"],
        "draftContent": "// Implementation code...",
        "draftType": "implementation",
    });
    let evaluated = tools.does("hook_evaluate", input).await;
    assert_eq!(
        evaluated,
        json!({"hookId": hook, "taskId": "TASK-abc123", "iteration": 3, "action": "complete",
            "reason": "Agent signaled completion via <promise>COMPLETE</promise>", "nextPrompt": null,
            "checkpointCreated": false, "metadata": {}})
    );
    let completed = tools
        .does(
            "iteration_complete",
            json!({"iterationId": id, "completionPromise": "COMPLETE"}),
        )
        .await;
    assert_eq!(
        completed,
        json!({"iterationId": id, "taskId": "TASK-abc123", "status": "completed", "iterations": 3,
            "completionPromise": "COMPLETE"})
    );
    assert_eq!(
        tools
            .does("task_get", json!({"taskId": "TASK-abc123"}))
            .await["state"],
        "completed"
    );
    tools.close().await;
    ends(&project, session);
}

#[tokio::test]
async fn each_preset_decides_by_what_it_looks_at() {
    let rules = "stop: { rules: [{ name: ok, type: file_existence, files: [ok] }] }";
    let project = configured(rules);
    let mut session = project.start();
    session.wait_for("prompt_sent");
    let tools = Tools::of(&project).await;
    let signals = ["COMPLETE", "ESCALATE", "BLOCKED", ""];
    let (y, n, c) = ("ESCALATE", "COMPLETE", "CONTINUE");
    for (hook, rules, expected) in [
        ("default", false, [n, y, y, c]),
        ("validation", false, [c, c, c, c]),
        ("promise", false, [n, y, y, c]),
        ("default", true, [n, y, y, n]),
        ("validation", true, [n, n, n, n]),
        ("promise", true, [n, y, y, c]),
    ] {
        if rules {
            project.write("ok", "");
        }
        for (signal, expected) in signals.into_iter().zip(expected) {
            let task = format!("{hook}-{rules}-{signal}");
            let id = looping(&tools, &task, hook).await;
            let said = if signal.is_empty() {
                "working".into()
            } else {
                format!("<promise>{signal}</promise>")
            };
            let judged = tools
                .does(
                    "iteration_validate",
                    json!({"iterationId": id, "agentOutput": said}),
                )
                .await;
            assert_eq!(judged["completionSignal"], expected, "{task}: {judged}");
            assert_eq!(judged["action"], expected.to_lowercase());
            assert_eq!(judged["validationPassed"], rules);
            assert_eq!(judged["validationResults"][0]["ruleName"], "ok");
            let state = tools.does("task_get", json!({"taskId": task})).await["state"].clone();
            assert_eq!(
                state,
                if expected == y { "blocked" } else { "active" },
                "{task}"
            );
            if hook == "validation" && !rules {
                let feedback = judged["feedback"].as_str().expect("what has to be better");
                assert!(
                    feedback.starts_with("[Validation failed]\n- ok: "),
                    "{feedback}"
                );
                assert_eq!(judged["nextPrompt"], judged["feedback"]);
            }
        }
    }
    tools.close().await;
    project.does(&["stop", "--now"]);
    session.end();
}

#[tokio::test]
async fn hooks_are_asked_in_order_and_without_hooks_the_work_continues() {
    let (project, session) = working();
    let tools = Tools::of(&project).await;
    let id = looping(&tools, "t", "validation").await;
    tools
        .does(
            "hook_register",
            json!({"taskId": "t", "hookType": "promise"}),
        )
        .await;
    let last = tools
        .does(
            "hook_register",
            json!({"taskId": "t", "hookType": "default"}),
        )
        .await["hookId"]
        .clone();
    let evaluate = |said: &str| json!({"iterationId": id, "agentOutput": said});
    let evaluated = tools.does("hook_evaluate", evaluate("working")).await;
    assert_eq!(
        facts(&evaluated, &["hookId", "action", "reason"]),
        json!([last, "continue", "Iteration in progress"]),
        "the last one's word stands"
    );
    let listed = tools.does("hook_list", json!({"taskId": "t"})).await;
    let second = listed["hooks"][1]["id"].clone();
    let evaluated = tools
        .does("hook_evaluate", evaluate("<promise>COMPLETE</promise>"))
        .await;
    assert_eq!(
        facts(&evaluated, &["hookId", "action"]),
        json!([second, "complete"]),
        "the first that decides"
    );
    project.does(&["hooks", "disable", second.as_str().expect("an id")]);
    let evaluated = tools
        .does("hook_evaluate", evaluate("<promise>COMPLETE</promise>"))
        .await;
    assert_eq!(
        facts(&evaluated, &["hookId", "action"]),
        json!([last, "complete"]),
        "who is switched off is skipped"
    );
    tools.does("hook_clear", json!({"taskId": "t"})).await;
    let evaluated = tools
        .does("hook_evaluate", evaluate("<promise>COMPLETE</promise>"))
        .await;
    assert_eq!(
        facts(&evaluated, &["hookId", "action", "reason"]),
        json!(["default", "continue", "No hooks registered for this task"])
    );
    tools.close().await;
    ends(&project, session);
}

#[tokio::test]
async fn refusals_of_a_loop_say_what_to_do_instead() {
    let (project, session) = working();
    let tools = Tools::of(&project).await;
    let why = tools
        .fails("iteration_validate", json!({"iterationId": "IT-1-x"}))
        .await;
    assert_eq!(
        why,
        "there is no iteration IT-1-x\nstart one with iteration_start, and use its id"
    );
    let id = looping(&tools, "t", "default").await;
    let why = tools.fails("iteration_start", json!({"taskId": "t"})).await;
    assert!(
        why.starts_with("t already has a loop: IT-") && why.contains("in iteration 1"),
        "{why}"
    );
    let why = tools
        .rejects(
            "iteration_start",
            json!({"taskId": "t", "completionPromises": ["DONE"]}),
        )
        .await;
    assert_eq!(
        why,
        "iteration_start: `DONE` is not a promise; use one of: COMPLETE, ESCALATE, BLOCKED"
    );
    let why = tools
        .rejects(
            "iteration_complete",
            json!({"iterationId": id, "completionPromise": "done"}),
        )
        .await;
    assert!(
        why.ends_with("use one of: COMPLETE, ESCALATE, BLOCKED"),
        "{why}"
    );
    let why = tools
        .rejects(
            "iteration_start",
            json!({"taskId": "t", "maxIterations": -1}),
        )
        .await;
    assert!(
        why.contains("`maxIterations`: invalid value: integer `-1`"),
        "{why}"
    );
    let done = json!({"iterationId": id, "completionPromise": "<promise>BLOCKED</promise>"});
    let done = tools.does("iteration_complete", done).await;
    assert_eq!(
        facts(&done, &["status", "completionPromise"]),
        json!(["blocked", "BLOCKED"])
    );
    let why = tools
        .fails("iteration_next", json!({"iterationId": id}))
        .await;
    assert!(why.contains("has ended"), "{why}");
    let one = tools
        .does(
            "iteration_start",
            json!({"taskId": "s", "max_iterations": 1}),
        )
        .await["iterationId"]
        .clone();
    let why = tools
        .fails("iteration_next", json!({"iterationId": one}))
        .await;
    assert!(
        why.contains("limit of 1 iteration, and the work is not done"),
        "{why}"
    );
    tools.close().await;
    ends(&project, session);
}

// Slow rules, and checkpoints

#[tokio::test(flavor = "multi_thread")]
async fn a_long_judgement_blocks_no_other_call() {
    let wait = "until [ -e ready ] || [ ! -e creel.yaml ]; do sleep 0.02; done; test -e good";
    let project = configured(&format!(
        "stop: {{ rules: [{{ name: slow, type: command, command: '{wait}' }}] }}"
    ));
    let mut session = project.start();
    session.wait_for("prompt_sent");
    let tools = Tools::of(&project).await;
    let id = looping(&tools, "t", "default").await;
    let judge = |more: Value| {
        let mut arguments = json!({"iterationId": id, "agentOutput": "working"});
        arguments
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        arguments
    };
    let keep = judge(json!({"checkpointData": {"executionPhase": "testing"}}));
    let meanwhile = async {
        until("the rule runs", || !project.kind("rule_started").is_empty());
        assert_eq!(tools.does("task_list", json!({})).await["taskCount"], 1);
        let why = tools.fails("iteration_validate", judge(json!({}))).await;
        assert!(why.contains("is being evaluated"), "{why}");
        project.write("ready", "");
    };
    let (judged, ()) = tokio::join!(tools.does("iteration_validate", keep), meanwhile);
    assert_eq!(
        facts(
            &judged,
            &["completionSignal", "validationPassed", "checkpointCreated"]
        ),
        json!(["CONTINUE", false, true])
    );
    assert_eq!(
        project.kind("checkpoint")[0]["data"],
        json!({"executionPhase": "testing"})
    );
    project.write("good", "");
    let as_last = tools.does("hook_evaluate", judge(json!({}))).await;
    assert_eq!(
        as_last["action"], "continue",
        "the rules are not checked again"
    );
    let judged = tools.does("iteration_validate", judge(json!({}))).await;
    assert_eq!(
        facts(&judged, &["completionSignal", "reason"]),
        json!(["COMPLETE", "The validation rule passed"])
    );
    tools.close().await;
    project.does(&["stop", "--now"]);
    session.end();
}

// Effects on the supervised session

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_its_agent_completes_with_a_tool_is_complete() {
    let turn = "  - { say: 'All done.', run: 'until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }\n";
    let project = configured("").file(
        "scenario.yaml",
        &format!("turns:\n{turn}otherwise: {{ say: more }}\n"),
    );
    let mut session = project.start();
    session.wait_for("prompt_sent");
    let tools = Tools::of(&project).await;
    let told = tools
        .does("session_complete", json!({"reason": "it works"}))
        .await;
    assert_eq!(told["session"], "s");
    assert!(
        told["next"]
            .as_str()
            .is_some_and(|next| next.starts_with("end your turn")),
        "{told}"
    );
    tools.close().await;
    ends(&project, session);
    let [decided] = &project.kind("stop_decided")[..] else {
        panic!("one decision")
    };
    assert_eq!(
        decided["reason"],
        "Agent signaled completion via session_complete: it works"
    );
    assert_eq!(project.outcome().as_deref(), Some("complete"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_that_escalates_opens_a_gate_when_the_turn_ends() {
    let (project, session) = working();
    let tools = Tools::of(&project).await;
    let id = looping(&tools, "t", "promise").await;
    let said = json!({"iterationId": id, "agentOutput": "<promise>BLOCKED</promise>"});
    assert_eq!(
        tools.does("iteration_validate", said).await["completionSignal"],
        "ESCALATE"
    );
    tools.close().await;
    project.write("go", "");
    assert_eq!(session.end().code, 4);
    assert_eq!(project.kind("gate_opened")[0]["about"], "escalation");
    assert_eq!(project.kind("task_blocked")[0]["task"], "t");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_registered_for_the_session_continues_its_agent() {
    let turns = "turns:\n  - { say: '<promise>COMPLETE</promise>', run: 'until [ -e go ] || [ ! -e creel.yaml ]; do sleep 0.02; done' }\n  \
                 - { say: '<promise>COMPLETE</promise>', run: 'touch ok' }\notherwise: { say: more }\n";
    let rest =
        "stop: { hooks: [promise], rules: [{ name: ok, type: file_existence, files: [ok] }] }";
    let project = configured(rest).file("scenario.yaml", turns);
    let mut session = project.start();
    session.wait_for("prompt_sent");
    let tools = Tools::of(&project).await;
    tools
        .does(
            "hook_register",
            json!({"taskId": "s", "hookType": "validation"}),
        )
        .await;
    tools.close().await;
    ends(&project, session);
    let actions: Vec<Value> = project
        .kind("stop_decided")
        .iter()
        .map(|decided| decided["action"].clone())
        .collect();
    assert_eq!(actions, ["continue", "complete"]);
    assert!(
        project.prompts()[1]
            .1
            .starts_with("[Validation failed]\n- ok: "),
        "{}",
        project.prompts()[1].1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_and_loops_survive_a_kill() {
    let (project, session) = working();
    let tools = Tools::of(&project).await;
    let id = looping(&tools, "t", "promise").await;
    tools
        .does("iteration_next", json!({"iterationId": id}))
        .await;
    session.kill();
    let mut resumed = project.command(&["resume", "s", "--headless"]);
    let mut resumed = resumed
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    until("it can be reached", || {
        project.creel(&["status", "-s", "s"]).code == 0
    });
    assert_eq!(
        tools.does("hook_list", json!({"taskId": "t"})).await["hookCount"],
        1,
        "the server finds it again"
    );
    let said = json!({"iterationId": id, "agentOutput": "<promise>COMPLETE</promise>"});
    let judged = tools.does("iteration_validate", said).await;
    assert_eq!(
        facts(&judged, &["iteration", "completionSignal"]),
        json!([2, "COMPLETE"])
    );
    tools.close().await;
    project.write("go", "");
    assert!(resumed.wait().expect("it ended").success());
}

// Self-driven sessions

/// The workflow from the documentation.
async fn flow(tools: &Tools, task: &str, rule_holds_from: impl Fn()) {
    let hook = tools
        .does(
            "hook_register",
            json!({"taskId": task, "hookType": "default"}),
        )
        .await["hookId"]
        .clone();
    let start =
        json!({"taskId": task, "maxIterations": 10, "completionPromises": ["COMPLETE", "BLOCKED"]});
    let id = tools.does("iteration_start", start).await["iterationId"].clone();
    let validate =
        json!({"iterationId": id, "agentOutput": "I wrote half of it.", "filesModified": ["a"]});
    let judged = tools.does("iteration_validate", validate.clone()).await;
    assert_eq!(
        facts(&judged, &["completionSignal", "hookId", "iteration"]),
        json!(["CONTINUE", hook, 1])
    );
    assert_eq!(
        tools
            .does("iteration_next", json!({"iterationId": id}))
            .await["iteration"],
        2
    );
    rule_holds_from();
    let judged = tools.does("iteration_validate", validate).await;
    assert_eq!(
        facts(
            &judged,
            &["completionSignal", "validationPassed", "iteration"]
        ),
        json!(["COMPLETE", true, 2])
    );
    let done = json!({"iterationId": id, "completionPromise": "COMPLETE"});
    assert_eq!(
        tools.does("iteration_complete", done).await["status"],
        "completed"
    );
    assert_eq!(
        tools.does("hook_clear", json!({"taskId": task})).await["hooksCleared"],
        1
    );
}

const RULE: &str = "stop: { rules: [{ name: ok, type: command, command: 'test -e ok' }] }\n";

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_workflow_works_in_a_supervised_session() {
    let project = configured(RULE);
    let mut session = project.start();
    session.wait_for("prompt_sent");
    let tools = Tools::of(&project).await;
    tools
        .does("task_add", json!({"goal": "x", "taskId": "TASK-abc123"}))
        .await;
    flow(&tools, "TASK-abc123", || project.write("ok", "")).await;
    tools.close().await;
    ends(&project, session);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_self_driven_agent_has_its_own_session() {
    let project = alone(RULE);
    project.creel(&["trust"]);
    let tools = Tools::of(&project).await;
    tools.peer().list_all_tools().await.expect("a list");
    assert_eq!(
        project.tells(&["sessions", "--json"]),
        json!([]),
        "looking at the tools begins nothing"
    );
    tools
        .does("task_add", json!({"goal": "x", "taskId": "TASK-abc123"}))
        .await;
    flow(&tools, "TASK-abc123", || project.write("ok", "")).await;
    let status = tools.does("session_status", json!({})).await;
    assert_eq!(
        facts(&status, &["agent", "doing"]),
        json!(["outside", "the agent drives it"])
    );
    let session = only(&project);
    let name = session["name"].as_str().expect("a name");
    assert!(
        name.starts_with("mcp-") && status["session"] == name,
        "{session}"
    );
    assert_eq!(
        project.tells(&["status", "--json"])["session"],
        name,
        "it can be reached like any other"
    );
    tools.close().await;
    until("it is over", || only(&project)["running"] == false);
    let session = only(&project);
    assert_eq!(session["outcome"], "complete");
    let task = project.tells(&["task", "show", "TASK-abc123", "-s", name, "--json"]);
    assert_eq!(facts(&task, &["state", "goal"]), json!(["completed", "x"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistyped_task_is_refused_with_a_suggestion_and_not_created() {
    let project = alone("");
    let tools = Tools::of(&project).await;
    let first = "create it with task_add first";
    let why = tools
        .fails("hook_register", json!({"taskId": "parser"}))
        .await;
    assert!(
        why.starts_with("there is no task parser") && why.contains(first),
        "{why}"
    );
    tools
        .does("task_add", json!({"goal": "x", "taskId": "parser"}))
        .await;
    for tool in ["hook_register", "iteration_start"] {
        let why = tools.fails(tool, json!({"taskId": "praser"})).await;
        assert!(
            why.starts_with("there is no task praser: did you mean `parser`?"),
            "{why}"
        );
    }
    assert_eq!(tools.does("task_list", json!({})).await["taskCount"], 1);
    tools.close().await;
}

#[test]
fn a_self_driven_session_ends_with_its_agent() {
    let project = alone("");
    let mut raw = Raw::greeted(&project);
    raw.does("task_add", &json!({"goal": "x", "taskId": "t"}));
    raw.does("iteration_start", &json!({"taskId": "t"}));
    assert_eq!(raw.hang_up().1, 0);
    let session = only(&project);
    assert_eq!(
        (&session["outcome"], &session["running"]),
        (&json!("cancelled"), &json!(false)),
        "in the middle of a loop"
    );
}

#[test]
fn a_self_driven_session_is_completed_by_a_tool_and_the_next_call_begins_another() {
    let project = alone("");
    let mut raw = Raw::greeted(&project);
    let first = raw.does("session_complete", &json!({"reason": "enough"}));
    assert_eq!(first["next"], "the session is complete and has ended");
    until("it is over", || only(&project)["running"] == false);
    assert_eq!(
        kinds(&project, &only(&project), "session_ended")[0]["reason"],
        "no checks are configured, and the agent says it is done: enough"
    );
    let second = raw.does("session_status", &json!({}));
    assert_ne!(second["session"], first["session"]);
    assert_eq!(raw.hang_up().1, 0);
}

#[test]
fn an_agent_that_hangs_up_while_its_session_ends_does_not_end_it_again() {
    let project = alone("hooks: { session_end: [{ command: 'echo ended >> ends; sleep 0.5' }] }\n");
    project.creel(&["trust"]);
    let mut raw = Raw::greeted(&project);
    raw.does("session_complete", &json!({"reason": "enough"}));
    crate::support::project::eventually_in(&project.root().join("ends"));
    assert_eq!(raw.hang_up().1, 0);
    let session = only(&project);
    assert_eq!(
        kinds(&project, &session, "session_ended")[0]["reason"],
        "no checks are configured, and the agent says it is done: enough"
    );
    assert_eq!(
        (
            kinds(&project, &session, "loop_ended").len(),
            project.read("ends").lines().count()
        ),
        (1, 1)
    );
}

#[test]
fn concurrent_calls_begin_one_session() {
    let project = alone("");
    let mut raw = Raw::greeted(&project);
    for id in 1..=10 {
        raw.send(
            id,
            "tools/call",
            &json!({"name": "task_add", "arguments": {"goal": "x"}}),
        );
    }
    let (answers, _) = raw.hang_up();
    assert_eq!(answers.len(), 10);
    assert_eq!(kinds(&project, &only(&project), "task_created").len(), 10);
}

#[test]
fn an_untrusted_config_does_not_run_in_a_self_driven_session_and_the_agent_gets_the_reason() {
    let project =
        alone("stop: { rules: [{ name: evil, type: command, command: 'touch evil' }] }\n");
    let mut raw = Raw::of(&project);
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}});
    let hello = raw.ask(0, "initialize", &hello);
    let told = hello["result"]["instructions"].as_str().expect("words");
    assert!(told.ends_with("Trust it with `creel trust`."), "{told}");
    raw.does("task_add", &json!({"goal": "x", "taskId": "t"}));
    raw.does("hook_register", &json!({"taskId": "t"}));
    let id = raw.does("iteration_start", &json!({"taskId": "t"}))["iterationId"].clone();
    let judged = raw.does("iteration_validate", &json!({"iterationId": id}));
    assert_eq!(
        facts(&judged, &["completionSignal", "validationResults"]),
        json!(["CONTINUE", []])
    );
    raw.hang_up();
    assert!(!project.root().join("evil").exists());
    assert_eq!(
        kinds(&project, &only(&project), "rule_started"),
        [json!(null); 0]
    );
}

#[test]
fn a_signal_to_the_server_ends_its_session_and_every_process_in_it() {
    let project = alone(
        "stop: { rules: [{ name: slow, type: command, command: 'echo $$ > pid; exec sleep 1000' }] }\n",
    );
    project.creel(&["trust"]);
    let mut raw = Raw::greeted(&project);
    raw.does("task_add", &json!({"goal": "x", "taskId": "t"}));
    let id = raw.does("iteration_start", &json!({"taskId": "t"}))["iterationId"].clone();
    raw.send(
        8,
        "tools/call",
        &json!({"name": "iteration_validate", "arguments": {"iterationId": id}}),
    );
    let rule: i32 = crate::support::project::eventually_in(&project.root().join("pid"))
        .parse()
        .expect("a number");
    let server =
        Pid::from_raw(i32::try_from(raw.child.id()).expect("a number")).expect("a process");
    kill_process(server, Signal::TERM).expect("it is there");
    assert_eq!(raw.child.wait().expect("it ended").code(), Some(130));
    assert!(!crate::support::lives(rule));
    assert_eq!(only(&project)["outcome"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_self_driven_session_is_resumed_with_its_hooks_and_loops() {
    let project = alone("");
    let mut raw = Raw::greeted(&project);
    raw.does("task_add", &json!({"goal": "x", "taskId": "t"}));
    raw.does(
        "hook_register",
        &json!({"taskId": "t", "hookType": "promise"}),
    );
    let id = raw.does("iteration_start", &json!({"taskId": "t"}))["iterationId"].clone();
    raw.child.kill().expect("it runs");
    raw.child.wait().expect("it ended");
    let name = only(&project)["name"].as_str().expect("a name").to_owned();
    project.creel(&["resume", &name, "--detach"]);
    let tools = Tools::of(&project).await;
    assert_eq!(
        tools.does("hook_list", json!({"taskId": "t"})).await["hookCount"],
        1
    );
    let said = json!({"iterationId": id, "agentOutput": "<promise>COMPLETE</promise>"});
    assert_eq!(
        tools.does("iteration_validate", said).await["completionSignal"],
        "COMPLETE"
    );
    tools.close().await;
    assert_eq!(
        only(&project)["running"],
        true,
        "a server ends only what it began"
    );
    project.does(&["stop", "--now"]);
    until("it is over", || only(&project)["running"] == false);
}

#[test]
fn a_server_whose_folder_is_gone_ends_with_its_agent() {
    let project = alone("");
    let mut raw = Raw::greeted(&project);
    raw.does("task_add", &json!({"goal": "Do it"}));
    std::fs::remove_dir_all(project.root()).expect("it is there");
    assert_eq!(raw.hang_up(), (Vec::new(), 0));
}

#[test]
fn a_self_driven_session_is_refused_while_a_check_is_red() {
    let config = "checks: [{ command: '[ -e fixed ]', name: tests }]\nhooks: { stop: [{ command: '[ ! -e red ]', name: lint }] }\n";
    let project = alone(config);
    assert_eq!(project.creel(&["trust"]).code, 0);
    let mut raw = Raw::greeted(&project);
    let refused = |answer: &Value| {
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        answer["result"]["content"][0]["text"]
            .as_str()
            .expect("a text")
            .to_owned()
    };
    let why = refused(&raw.call(7, "session_complete", &json!({"reason": "enough"})));
    assert!(
        why.contains("the session is not complete") && why.contains("check `tests` failed"),
        "{why}"
    );
    project.write("fixed", "");
    project.write("red", "");
    // A check that does not block is red, too.
    let why = refused(&raw.call(8, "session_complete", &json!({"reason": "enough"})));
    assert!(why.contains("lint failed"), "{why}");
    std::fs::remove_file(project.root().join("red")).expect("it was there");
    raw.does("session_complete", &json!({"reason": "enough"}));
    until("it is over", || only(&project)["running"] == false);
    let ended = &kinds(&project, &only(&project), "session_ended")[0];
    assert_eq!(
        (&ended["outcome"], &ended["reason"]),
        (
            &json!("complete"),
            &json!("tests and lint passed, and the agent says it is done: enough")
        )
    );
    assert_eq!(raw.hang_up().1, 0);
}

#[test]
fn an_agent_that_hangs_up_over_a_red_check_leaves_no_session_and_no_complete_one() {
    let project = alone("checks: ['[ -e fixed ]']\n");
    assert_eq!(project.creel(&["trust"]).code, 0);
    let mut raw = Raw::greeted(&project);
    raw.does("session_status", &json!({}));
    assert_eq!(raw.hang_up().1, 0);
    let ended = &kinds(&project, &only(&project), "session_ended")[0];
    assert_eq!(ended["outcome"], "cancelled");
}
