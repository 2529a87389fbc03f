//! Sessions at the moments that tests look at.

use creel::engine::{
    conversation::{
        AgentPermissionRequest, AgentUpdate, ContextUsage, FileLocation, ForbiddenChanges,
        PermissionOption, PermissionOptionKind, PermissionSource, PlanEntry, StopReason, ToolCall,
        ToolKind, ToolStatus, TurnEnd, TurnFailure, TurnUsage, UsageLimit,
    },
    event::{Event, GateEvent},
    gate::kind::{GateChoice, GateKind},
    hooks::point::HookPoint,
    input::{GateAnswer, Input, SessionCommand},
    policy::{
        BackoffPolicy, Budget, DeliveryPolicy, HookFailurePolicy, ProposalPlan, ReviewPolicy,
        TestProtection, UsageLimitPolicy,
    },
    question::{AgentQuestion, FieldKind, FieldOption, QuestionField},
    submit::kind::PipelineKind,
    tasks::{
        command::{NewTask, TaskCommand},
        record::TaskEventKind,
    },
    time::TimeSpan,
    verify::test_guard::{TestComparison, TestFinding},
    watch::forge::{ForgeReading, ReviewDecision},
};

use super::world::*;
use crate::engine::{
    watch::{commented, green, watches},
    workflows::release,
};

const REPORT: &str = "# The parser\n\nI rewrote `parse` in two steps:\n\n- the **lexer** gives tokens with their places, so that every message can name the line and the column\n- the parser reads them\n\n```rust\nfn parse(text: &str) -> Result<Tree, Error> {\n\tlexer(text).collect()\n}\n```\nThe tests come next.";
const RED: &str = "test parser::empty ... FAILED\ntest parser::nested ... FAILED\n\n2 failed; 31 passed\nThe empty text is no error.";
const ONE_RED: &str = "test parser::nested ... FAILED\n\n1 failed; 32 passed";
const LINT: &str = "warning: unused variable: `depth`\n --> src/parser.rs:41:9\nwarning: this function is too long\n --> src/parser.rs:80:1";

/// Runs until a condition is true.
pub fn until(mut world: World, holds: impl Fn(&World) -> bool) -> World {
    world.settle();
    while !holds(&world) {
        assert!(world.step(), "it never came to that:\n{}", world.story());
    }
    world
}

/// Runs until a gate is open.
pub fn at_gate(script: Script) -> World {
    until(World::begin(script), |world| {
        world.state.gates.open.is_some()
    })
}

/// The agent does something in its turn.
pub fn agent(world: &mut World, update: AgentUpdate) {
    let turn = world.turn.as_ref().expect("the agent works").0;
    world.input(Input::Agent { turn, update });
}

fn tool(call: &str, title: &str, status: ToolStatus, output: Option<&str>) -> ToolCall {
    ToolCall {
        call: call.into(),
        title: title.into(),
        status,
        output: output.map(Into::into),
        ..ToolCall::default()
    }
}

/// The agent thinks, reads a file, runs a command that fails, and begins another.
pub fn thinks_and_acts(world: &mut World) {
    agent(
        world,
        AgentUpdate::Thought("The empty text is a case of its own.\nFirst the lexer.".into()),
    );
    agent(
        world,
        AgentUpdate::ToolCalled(tool("a", "Read src/parser.rs", ToolStatus::Pending, None)),
    );
    let read = tool(
        "a",
        "Read src/parser.rs",
        ToolStatus::Completed,
        Some("120 lines"),
    );
    agent(world, AgentUpdate::ToolUpdated(read));
    agent(
        world,
        AgentUpdate::ToolCalled(tool("b", "cargo build", ToolStatus::InProgress, None)),
    );
    let failed = tool(
        "b",
        "cargo build",
        ToolStatus::Failed,
        Some("error[E0425]: cannot find value `tree`"),
    );
    agent(world, AgentUpdate::ToolUpdated(failed));
    agent(
        world,
        AgentUpdate::ToolCalled(tool(
            "c",
            "Edit src/parser.rs",
            ToolStatus::InProgress,
            None,
        )),
    );
}

const DIFF: &str = "--- a/src/parser.rs\n+++ b/src/parser.rs\n@@ -38,7 +38,9 @@ impl Parser {\n     /// The next list.\n     fn list(&mut self) -> Result<Tree, Error> {\n-        let depth = self.depth;\n-        self.items(depth + 1)\n+        if self.depth > DEEPEST {\n+            return Err(Error::TooDeep(self.place()));\n+        }\n+        self.deeper(Self::items)\n     }\n \n     /// The items of a list.\n";

/// In a first turn, without hooks.
pub fn works() -> World {
    until(World::begin(Script::new().attended(&[])), |world| {
        world.turn.is_some()
    })
}

fn at(path: &str, line: Option<u32>) -> FileLocation {
    FileLocation {
        path: path.into(),
        line,
    }
}

/// The change that the agent wants to make.
fn change() -> ToolCall {
    ToolCall {
        call: "edit".into(),
        title: "Edit src/parser.rs".into(),
        kind: Some(ToolKind::Edit),
        locations: vec![
            at("/project/src/parser.rs", Some(38)),
            at("/tmp/notes.md", None),
        ],
        input: Some("{\"file_path\": \"/project/src/parser.rs\", \"replace_all\": false}".into()),
        diff: Some(DIFF.into()),
        ..ToolCall::default()
    }
}

/// The agent reads, changes a file, and runs a command that fails.
pub fn uses_tools(world: &mut World) {
    let read = ToolCall {
        kind: Some(ToolKind::Read),
        locations: vec![at("/project/src/parser.rs", Some(41))],
        ..tool(
            "a",
            "Read the parser",
            ToolStatus::Completed,
            Some("120 lines"),
        )
    };
    agent(
        world,
        AgentUpdate::ToolCalled(ToolCall {
            status: ToolStatus::Pending,
            output: None,
            ..read.clone()
        }),
    );
    agent(world, AgentUpdate::ToolUpdated(read));
    agent(world, AgentUpdate::ToolCalled(change()));
    agent(
        world,
        AgentUpdate::ToolUpdated(ToolCall {
            status: ToolStatus::Completed,
            ..change()
        }),
    );
    let test = ToolCall {
        kind: Some(ToolKind::Execute),
        input: Some("{\"command\": \"cargo test --lib parser\", \"timeout\": 120}".into()),
        ..tool("c", "cargo test --lib parser", ToolStatus::InProgress, None)
    };
    agent(world, AgentUpdate::ToolCalled(test.clone()));
    let output = Some("-- 1 failed\n++ 32 passed".to_owned());
    agent(
        world,
        AgentUpdate::ToolUpdated(ToolCall {
            status: ToolStatus::Failed,
            output,
            ..test
        }),
    );
}

/// A session in which everything happens once.
pub fn eventful() -> Script {
    Script::new()
        .piped(
            HookPoint::SessionStart,
            "git log",
            [prints("4f2a1c parser: keep the places")],
        )
        .hook(HookPoint::PreIteration, "disk space", [breaks(), passes()])
        .hook(
            HookPoint::Stop,
            "cargo test",
            [blocks(RED), blocks(ONE_RED), prints("33 passed")],
        )
        .piped(
            HookPoint::PostIteration,
            "cargo clippy",
            [prints(LINT), prints("warning: one is left")],
        )
        .agent([
            Answer::Says(REPORT),
            Answer::Says("The empty text is an empty tree now."),
            Answer::Says("Nested lists, too."),
            Answer::Fails("connection reset by the server"),
            DONE,
        ])
        .attended(&[(GateKind::FinalDelivery, GateChoice::Approve)])
}

/// In the first turn, with much activity of the agent.
pub fn first_turn() -> World {
    let mut world = until(World::begin(eventful()), |world| world.turn.is_some());
    thinks_and_acts(&mut world);
    world
}

/// After the first hook has sent the turn back twice.
pub fn sent_back_twice() -> World {
    until(first_turn(), |world| {
        world.state.retry.used == 2 && world.turn.is_some()
    })
}

/// The loop has ended, and output is pending.
pub fn final_delivery() -> World {
    until(first_turn(), |world| world.state.gates.open.is_some())
}

pub fn ended() -> World {
    until(final_delivery(), |world| {
        world.state.phase.outcome().is_some()
    })
}

/// A hook is running.
pub fn hook_runs() -> World {
    until(first_turn(), |world| {
        world.jobs.iter().any(|job| job.hook.name == "cargo test")
    })
}

/// Before a prompt that carries the output of two hooks.
pub fn delivery() -> World {
    at_gate(
        Script::new()
            .piped(
                HookPoint::SessionStart,
                "git log",
                [prints("4f2a1c parser: keep the places")],
            )
            .piped(HookPoint::SessionStart, "cargo clippy", [prints(LINT)])
            .piped(
                HookPoint::SessionStart,
                "todo list",
                [prints("- the lexer\n- the parser")],
            )
            .plan(|plan| plan.gates.delivery = DeliveryPolicy::Ask)
            .attended(&[(GateKind::Delivery, GateChoice::Approve)]),
    )
}

/// A pull request has news, and the user wants to see it first.
pub fn news() -> World {
    let comment = commented("c1", "1", "alice on src/parser.rs:3: rename `x`.");
    at_gate(
        watches([comment])
            .plan(|plan| plan.gates.review = ReviewPolicy::Ask)
            .attended(&[(GateKind::Review, GateChoice::Approve)]),
    )
}

/// The session waits until its pull request is merged.
pub fn watching() -> World {
    let waiting = ForgeReading {
        review: ReviewDecision::Required,
        ..green("c1")
    };
    until(World::begin(watches([waiting])), |world| {
        let watch = world.state.pipelines.watch();
        watch.is_some_and(|watch| watch.checked.is_some())
    })
}

/// A stop hook has blocked up to the limit, and said the same twice.
pub fn retry_limit() -> World {
    at_gate(
        Script::new()
            .hook(
                HookPoint::Stop,
                "cargo test",
                [
                    blocks(RED),
                    blocks(ONE_RED),
                    blocks(ONE_RED),
                    blocks(ONE_RED),
                ],
            )
            .plan(|plan| plan.max_hook_retries = 3)
            .agent([Answer::Says("I think that it works."), DONE])
            .attended(&[(GateKind::RetryLimit, GateChoice::Continue)]),
    )
}

/// The same without a user: the policy has answered the gate.
pub fn retry_limit_by_policy() -> World {
    let script = Script::new()
        .hook(
            HookPoint::Stop,
            "cargo test",
            [blocks(RED), blocks(ONE_RED), blocks(ONE_RED), passes()],
        )
        .plan(|plan| plan.max_hook_retries = 2)
        .agent([Answer::Says("I think that it works."), DONE]);
    until(World::begin(script), |world| {
        let mut events = world.events.iter();
        events.any(|event| matches!(event, Event::Gate(GateEvent::Answered { .. })))
    })
}

/// A step of a workflow runs in parallel with the agent.
pub fn workflow() -> World {
    let begin = r#"[{"type":"execute_workflow","payload":{"workflowId":"release"}}]"#;
    let kinds = [TaskEventKind::TaskStarted];
    let mut script = Script::new().automation("go", 1, &kinds, [prints(begin)]);
    script.plan.workflows = [("release".into(), release())].into();
    script.hooks.insert("release/build".into(), vec![passes()]);
    let mut world = until(World::begin(script), |world| world.turn.is_some());
    let task = NewTask {
        goal: "Publish the release".into(),
        ..NewTask::default()
    };
    let start = TaskCommand::Start {
        id: "task_1".into(),
        context: None,
    };
    for task in [TaskCommand::Add(task), start] {
        world.command(SessionCommand::Task { task });
    }
    until(world, |world| {
        world.state.tasks.flows.running().next().is_some()
    })
}

/// A hook wants the user to look.
pub fn escalation() -> World {
    at_gate(
        Script::new()
            .hook_with(
                HookPoint::SessionStart,
                "git pull",
                [exits(1, "", "conflict in src/parser.rs")],
                |spec| {
                    spec.on_failure = Some(HookFailurePolicy::Escalate);
                },
            )
            .attended(&[(GateKind::Escalation, GateChoice::Continue)]),
    )
}

/// Two hooks keep a prompt back.
pub fn prompt_kept_back() -> World {
    at_gate(
        Script::new()
            .hook(
                HookPoint::PrePrompt,
                "secrets",
                [blocks("the goal names a password")],
            )
            .hook(HookPoint::PrePrompt, "style", [blocks("no full sentence")])
            .attended(&[(GateKind::Escalation, GateChoice::Continue)]),
    )
}

fn failing() -> Script {
    let backoff = BackoffPolicy {
        base: TimeSpan::secs(20),
        factor: 2.0,
        max: TimeSpan::secs(60),
        jitter: 0.0,
    };
    Script::new()
        .agent([Answer::Fails("connection reset by the server")])
        .plan(|plan| plan.backoff = Some(backoff))
        .attended(&[(GateKind::Errors, GateChoice::Continue)])
}

/// Too many turns have failed.
pub fn errors() -> World {
    at_gate(failing())
}

/// A turn has failed, and the session waits before the next.
pub fn backoff() -> World {
    until(World::begin(failing()), |world| {
        world.state.next_wake().is_some() && world.turn.is_none()
    })
}

/// A hook has failed to run twice.
pub fn broken_hook() -> World {
    at_gate(
        Script::new()
            .hook(HookPoint::PreIteration, "disk space", [breaks()])
            .agent([Answer::Says("Working.")])
            .attended(&[(GateKind::BrokenHook, GateChoice::Disable)]),
    )
}

fn option(id: &str, name: &str, kind: PermissionOptionKind) -> PermissionOption {
    PermissionOption {
        id: id.into(),
        name: name.into(),
        kind,
    }
}

/// The options that agents usually offer.
pub fn usual_options() -> Vec<PermissionOption> {
    vec![
        option("once", "Yes", PermissionOptionKind::AllowOnce),
        option(
            "always",
            "Yes, and don't ask again",
            PermissionOptionKind::AllowAlways,
        ),
        option(
            "no",
            "No, and tell the agent what to do differently",
            PermissionOptionKind::RejectOnce,
        ),
    ]
}

/// Two options that both allow it from now on.
pub fn options_alike() -> Vec<PermissionOption> {
    vec![
        option("once", "Yes", PermissionOptionKind::AllowOnce),
        option(
            "file",
            "Yes, always for src/parser.rs",
            PermissionOptionKind::AllowAlways,
        ),
        option(
            "all",
            "Yes, always for every file of this project",
            PermissionOptionKind::AllowAlways,
        ),
        option("no", "No", PermissionOptionKind::RejectOnce),
    ]
}

/// The agent sends a permission request in its turn.
pub fn asks(world: &mut World, tool: ToolCall, options: Vec<PermissionOption>) {
    let turn = world.turn.as_ref().expect("the agent works").0;
    world.asking.1 = world.asking.1.next();
    let ask = world.asking.1;
    world.asking.0.push(ask);
    world.input(Input::PermissionAsked {
        turn,
        ask: Box::new(permission_request(ask, tool, options)),
    });
}

/// The agent wants to change a file, and two more requests wait behind this one.
pub fn permission() -> World {
    permission_with(usual_options())
}

/// The same, with other options.
pub fn permission_with(options: Vec<PermissionOption>) -> World {
    let mut world = works();
    agent(
        &mut world,
        AgentUpdate::Message("The parser goes too deep. I will limit that.".into()),
    );
    asks(&mut world, change(), options);
    for path in ["src/lib.rs", "src/lexer.rs"] {
        let tool = ToolCall {
            title: format!("Edit {path}"),
            kind: Some(ToolKind::Edit),
            ..ToolCall::default()
        };
        asks(&mut world, tool, usual_options());
    }
    world
}

/// The agent asks something, with answers to choose from.
pub fn question() -> World {
    let option = |title: &str, description: &str| FieldOption {
        value: title.into(),
        title: title.into(),
        description: Some(description.into()),
    };
    asks_about(AgentQuestion {
        message: "Choose the database of the service. Both pass your tests; they differ in how you run them.".into(),
        fields: vec![QuestionField {
            name: "question_0".into(),
            title: "Database".into(),
            kind: FieldKind::One,
            options: vec![
                option("Postgres", "a server, for several writers"),
                option("SQLite", "a file, nothing to run"),
            ],
            other: Some("question_0_custom".into()),
            ..QuestionField::default()
        }],
        url: None,
    })
}

/// The agent asks several things at once.
pub fn questions() -> World {
    let field = |title: &str, kind, options: &[&str]| QuestionField {
        name: title.to_lowercase(),
        title: title.into(),
        description: Some(format!("Which {}?", title.to_lowercase())),
        kind,
        options: options
            .iter()
            .map(|title| FieldOption {
                value: (*title).into(),
                title: (*title).into(),
                description: None,
            })
            .collect(),
        ..QuestionField::default()
    };
    asks_about(AgentQuestion {
        message: "Please answer the following questions.".into(),
        fields: vec![
            field("Database", FieldKind::One, &["Postgres", "SQLite"]),
            field("Systems", FieldKind::Many, &["Linux", "macOS", "Windows"]),
            field("Port", FieldKind::Integer, &[]),
        ],
        url: None,
    })
}

fn asks_about(question: AgentQuestion) -> World {
    let mut world = works();
    let turn = world.turn.as_ref().expect("the agent works").0;
    world.asking.1 = world.asking.1.next();
    let tool = ToolCall {
        title: question.message.clone(),
        ..ToolCall::default()
    };
    let ask = Box::new(AgentPermissionRequest {
        source: PermissionSource::Question(Box::new(question)),
        ..permission_request(world.asking.1, tool, Vec::new())
    });
    world.input(Input::PermissionAsked { turn, ask });
    world
}

/// The agent wants to run a long command that is not harmless.
pub fn long_command() -> World {
    let mut world = works();
    let parts = (1..=12).map(|n| format!("cp target/release/part-{n} /srv/www/downloads/part-{n}"));
    let command = parts
        .chain(["rm -rf ~/.ssh".into()])
        .collect::<Vec<_>>()
        .join(" && ");
    let tool = ToolCall {
        title: command,
        kind: Some(ToolKind::Execute),
        ..ToolCall::default()
    };
    asks(&mut world, tool, usual_options());
    world
}

/// The token budget is used up.
pub fn budget() -> World {
    let script = Script::new()
        .plan(|plan| {
            plan.budget = Budget {
                tokens: Some(20_000),
                cost: Some(2.0),
                time: None,
            };
        })
        .attended(&[(GateKind::Budget, GateChoice::Continue)]);
    let mut world = until(World::begin(script), |world| world.turn.is_some());
    spends(
        &mut world,
        TurnUsage {
            tokens: Some(21_345),
            cost: Some(0.42),
            ..TurnUsage::UNKNOWN
        },
    );
    until(world, |world| world.state.gates.open.is_some())
}

/// The agent's turn changed git's config and the session's config.
pub fn tampered() -> World {
    let script = Script::new().attended(&[(GateKind::Tampered, GateChoice::Ignore)]);
    let mut world = until(World::begin(script), |world| world.turn.is_some());
    let turn = world.turn.take().expect("the agent works").0;
    let tampered = [".git/config", ".git/hooks/pre-commit", "creel.yaml"]
        .map(str::to_owned)
        .to_vec();
    let forbidden = ForbiddenChanges {
        tampered,
        ..ForbiddenChanges::default()
    };
    world.input(Input::TurnEnded {
        turn,
        end: TurnEnd {
            forbidden,
            ..TurnEnd::new(StopReason::EndTurn)
        },
    });
    until(world, |world| world.state.gates.open.is_some())
}

/// The agent made the checks pass by skipping tests and removing an assertion.
pub fn weaker_tests() -> World {
    const BEFORE: &str =
        "test result: FAILED. 6 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out";
    const AFTER: &str =
        "test result: ok. 6 passed; 0 failed; 4 ignored; 0 measured; 0 filtered out";
    let mut script = Script::new()
        .hook(
            HookPoint::Stop,
            "tests",
            [exits(2, BEFORE, "3 tests fail"), prints(AFTER)],
        )
        .agent([DONE])
        .attended(&[(GateKind::Tampered, GateChoice::Ignore)])
        .plan(|plan| plan.access.protect_tests = TestProtection::Gate);
    script.works = Some(9);
    script.tests = Some(TestComparison {
        files: 2,
        findings: vec![
            TestFinding::FewerAssertions {
                file: "tests/price.rs".into(),
                line: 41,
                fewer: 2,
            },
            TestFinding::Weakened {
                file: "tests/price.rs".into(),
                line: 12,
                text: "#[ignore]".into(),
            },
        ],
        ..TestComparison::default()
    });
    until(World::begin(script), |world| {
        world.state.gates.open.is_some()
    })
}

/// The turn ends, with this usage.
pub fn spends(world: &mut World, spent: TurnUsage) {
    let turn = world.turn.take().expect("the agent works").0;
    world.input(Input::TurnEnded {
        turn,
        end: TurnEnd {
            spent,
            ..TurnEnd::new(StopReason::EndTurn)
        },
    });
}

pub fn plan(entries: &[(&str, ToolStatus)]) -> AgentUpdate {
    let entry = |(content, status): &(&str, ToolStatus)| PlanEntry {
        content: (*content).into(),
        status: *status,
    };
    AgentUpdate::Planned(entries.iter().map(entry).collect())
}

/// A turn with every kind of update, in the second iteration.
pub fn talkative() -> World {
    use ToolStatus::{Completed, InProgress, Pending};
    let mut world = works();
    spends(
        &mut world,
        TurnUsage {
            tokens: Some(12_345),
            cost: Some(0.42),
            ..TurnUsage::UNKNOWN
        },
    );
    let mut world = until(world, |world| world.turn.is_some());
    agent(&mut world, AgentUpdate::Opened("0199-a2f4".into()));
    agent(
        &mut world,
        AgentUpdate::Noted {
            what: "mode".into(),
            text: "ask before changes".into(),
        },
    );
    agent(
        &mut world,
        AgentUpdate::Noted {
            what: "commands".into(),
            text: "/compact\n/review\n/init".into(),
        },
    );
    agent(
        &mut world,
        plan(&[("Limit the depth", InProgress), ("Test it", Pending)]),
    );
    uses_tools(&mut world);
    agent(
        &mut world,
        plan(&[
            ("Limit the depth", Completed),
            ("Test it", InProgress),
            ("Tell", Pending),
        ]),
    );
    asks(&mut world, change(), usual_options());
    let gate = world.state.gates.open.as_ref().expect("it asks").id;
    let answer = GateAnswer {
        gate,
        choice: GateChoice::AllowAlways,
        text: Some("always".into()),
        items: None,
    };
    world.command(SessionCommand::AnswerGate(answer));
    agent(
        &mut world,
        AgentUpdate::Used(ContextUsage {
            used: 86_000,
            size: 200_000,
        }),
    );
    world
}

/// A complete session that goes through these checks.
fn submitted() -> Script {
    Script::new()
        .submits()
        .built_in(HookPoint::BeforeSubmit, "rebase_on_main", [does("rebased")])
        .built_in(
            HookPoint::BeforeSubmit,
            "run_tests",
            [
                wants(Some("2 tests are red:\nparser::empty, parser::nested")),
                wants(Some("parser::nested is red")),
            ],
        )
        .built_in(
            HookPoint::BeforeSubmit,
            "create_pr",
            [does("https://forge.example/parser/pull/7")],
        )
        .attended(&[(GateKind::Submit, GateChoice::Skip)])
}

/// A check has failed, and the agent is repairing that.
pub fn repair() -> World {
    let repairs = |world: &World| {
        world
            .turn
            .as_ref()
            .is_some_and(|(_, text)| text.contains("are red"))
    };
    until(World::begin(submitted()), repairs)
}

/// The repair failed, and a gate is open.
pub fn submit_held() -> World {
    at_gate(submitted())
}

/// The check was skipped, and there is a pull request.
pub fn submit_done() -> World {
    World::begin(submitted()).run()
}

/// A check has failed before a merge.
pub fn merge_held() -> World {
    let script = Script {
        only_pipeline: Some(PipelineKind::Merge),
        ..Script::new()
    }
    .hook(HookPoint::BeforeMerge, "cargo test", [blocks(ONE_RED)])
    .built_in(HookPoint::BeforeMerge, "merge", [does("merged")])
    .attended(&[(GateKind::Merge, GateChoice::Leave)]);
    at_gate(script)
}

/// The agent proposes these tasks.
pub fn proposes(tasks: &'static str) -> World {
    at_gate(
        Script::new()
            .agent([Answer::Says(tasks)])
            .plan(|plan| plan.proposal = Some(ProposalPlan::default()))
            .attended(&[(GateKind::Proposal, GateChoice::Approve)]),
    )
}

/// The agent has proposed tasks that depend on each other.
pub fn proposal() -> World {
    proposes(
        r#"{"tasks": [
            {"id": "parser", "goal": "Write a parser for CSV files in src/csv.rs, with tests."},
            {"id": "table", "goal": "Write src/table.rs, which aligns columns, with tests.", "type": "code"},
            {"id": "command", "goal": "Add `print FILE` to the command line.", "depends_on": ["parser", "table"]},
            {"id": "manual", "goal": "Describe the command in docs/print.md, with an example that a test runs.",
             "depends_on": ["command"], "type": "docs", "priority": 4}]}"#,
    )
}

/// The agent has reached a usage limit that resets in an hour.
fn reaches_a_limit(mut world: World) -> World {
    let (turn, _) = world.turn.take().expect("the agent works");
    let limit = Some(UsageLimit {
        resets_in: Some(TimeSpan::secs(3_600)),
        ..UsageLimit::default()
    });
    world.input(Input::TurnFailed {
        turn,
        failure: TurnFailure {
            limit,
            ..TurnFailure::new("429")
        },
    });
    until(world, |world| world.state.limits.hold.is_some())
}

/// The session waits until a usage limit resets.
pub fn limited() -> World {
    reaches_a_limit(works())
}

/// The user decides what happens at a usage limit.
pub fn usage_limit() -> World {
    let script = Script::new()
        .plan(|plan| plan.limits.on_usage_limit = UsageLimitPolicy::Ask)
        .attended(&[(GateKind::UsageLimit, GateChoice::Wait)]);
    reaches_a_limit(until(World::begin(script), |world| world.turn.is_some()))
}

/// The user has paused the session after its first turn.
pub fn paused() -> World {
    let mut world = first_turn();
    world.command(SessionCommand::Pause);
    until(world, |world| world.turn.is_none() && world.jobs.is_empty())
}
