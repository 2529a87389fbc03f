//! Stop decisions, as stories: rules, presets, commands, conditions, groups, guards, and the hooks
//! and loops of the agent.

use std::collections::BTreeSet;

use creel::engine::{
    conversation::{AgentUpdate, StopReason, TurnEnd},
    event::{
        ActorKind, Event, GateEvent, HookEvent, PipelineEvent, PromptReason, SessionEvent,
        SessionOutcome, StopEvent, TaskEvent, TurnEvent, UserPresence,
    },
    gate::kind::{GateChoice, GateKind},
    hooks::point::HookPoint,
    input::{Input, SessionCommand},
    policy::{
        AgentSpec, FinalDeliveryPolicy, HookFailurePolicy, StopHook, StopHookCondition,
        StopHookKind, StopPreset,
    },
    refusal::Refusal,
    stop::{
        agent_loop::{EvaluationRequest, LoopCommand, LoopRefusal, RuleCheckMode},
        chain::{RegisteredStopHook, StopHookRegistration, holds},
        context::{AgentContext, Promise},
        decision::{StopAction, StopResult},
    },
    tasks::{
        command::{NewTask, TaskCommand, TaskRefusal},
        graph::TaskState,
    },
    time::{TimeSpan, UnixTime},
};
use expect_test::{Expect, expect};
use serde_json::{Map, json};

use crate::support::{
    samples::until,
    world::{
        Answer, DONE, Ran, Script, World, breaks, completes, does, exits, passes, prints,
        stop_command, wants,
    },
};

const WORKING: Answer = Answer::Says("Working.");

fn story(script: Script, expected: &Expect) {
    expected.assert_eq(&script_run(script).story());
}

fn script_run(script: Script) -> World {
    World::begin(script).run()
}

/// The decisions: the hook, the action, the reason.
fn decisions(world: &World) -> Vec<(String, StopAction, String)> {
    let decided = world.events.iter().filter_map(|event| match event {
        Event::Stop(StopEvent::Decided(decided)) => {
            Some((decided.hook.clone(), decided.action, decided.reason.clone()))
        }
        _ => None,
    });
    decided.collect()
}

fn fixed(action: StopAction, reason: &str, when: StopHookCondition) -> StopHook {
    let judge = StopHookKind::Fixed(StopResult::new(action, reason));
    StopHook {
        name: reason.into(),
        judge,
        when,
        enabled: true,
    }
}

fn rules(name: &str, passed: bool) -> StopHookCondition {
    StopHookCondition {
        rules: [(name.to_owned(), passed)].into(),
        ..StopHookCondition::default()
    }
}

#[test]
fn rules_are_checked_before_the_hooks_are_asked_and_their_failures_go_with_the_next_prompt() {
    let script = Script::new()
        .rule("tests", &[false, true])
        .rule("lint", &[true])
        .agent(&[WORKING]);
    story(
        script,
        &expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 1 done
              rule tests failed
              rule lint passed
              decided Continue
            iteration 2
              prompt iteration "[Validation failed]\n- tests: exit 101, expected 0\n\nGOAL"
              turn ended EndTurn
            iteration 2 done
              rule tests passed
              rule lint passed
              decided Complete
              LoopEnded
            ended complete (tests and lint passed)
        "#]],
    );
}

#[test]
fn the_presets_decide_by_promises_rules_or_both() {
    let run = |preset, says, passed: &[bool]| {
        let script = Script::new()
            .stop_hooks([StopHook::preset(preset)])
            .agent(&[Answer::Says(says)]);
        let script = script.plan(|plan| plan.max_iterations = 1);
        let script = if passed.is_empty() {
            script
        } else {
            script.rule("tests", passed)
        };
        let world = script_run(script);
        decisions(&world)
            .into_iter()
            .map(|(_, action, reason)| (action, reason))
            .next()
            .expect("a decision")
    };
    let (complete, escalate, blocked) = (
        "<promise>COMPLETE</promise>",
        "<promise>ESCALATE</promise>",
        "<promise>BLOCKED</promise>",
    );
    let said = |action, reason: &str| (action, reason.to_owned());
    let completed = said(
        StopAction::Complete,
        "Agent signaled completion via <promise>COMPLETE</promise>",
    );
    assert_eq!(run(StopPreset::Default, complete, &[true]), completed);
    assert_eq!(run(StopPreset::Promise, complete, &[true]), completed);
    let doubted = "the rule `tests` fails, so the work is not complete: exit 101, expected 0";
    assert_eq!(
        run(StopPreset::Default, complete, &[false]),
        said(StopAction::Continue, doubted)
    );
    assert_eq!(
        run(StopPreset::Promise, complete, &[false]),
        said(StopAction::Continue, doubted)
    );
    assert_eq!(
        run(StopPreset::Default, escalate, &[true]),
        said(
            StopAction::Escalate,
            "Agent signaled a need for escalation via <promise>ESCALATE</promise>"
        )
    );
    assert_eq!(
        run(StopPreset::Promise, blocked, &[true]),
        said(
            StopAction::Escalate,
            "Agent signaled that it is blocked via <promise>BLOCKED</promise>"
        )
    );
    assert_eq!(
        run(StopPreset::Default, "x", &[true]),
        said(StopAction::Complete, "The validation rule passed")
    );
    assert_eq!(
        run(StopPreset::Validation, blocked, &[true]),
        said(StopAction::Complete, "The validation rule passed")
    );
    assert_eq!(
        run(StopPreset::Validation, complete, &[false]),
        said(StopAction::Continue, "1 of 1 validation rule failed: tests")
    );
    assert_eq!(
        run(StopPreset::Default, "x", &[]),
        said(StopAction::Continue, "Iteration in progress")
    );
    assert_eq!(
        run(StopPreset::Validation, complete, &[]),
        said(StopAction::Continue, "No validation rules to judge by")
    );
    assert_eq!(
        run(StopPreset::Promise, "x", &[true]),
        said(StopAction::Continue, "No completion promise detected")
    );
}

#[test]
fn the_first_hook_that_ends_the_loop_decides_and_otherwise_the_last_one() {
    let [go, stop, off] = [
        StopAction::Continue,
        StopAction::Complete,
        StopAction::Escalate,
    ];
    let always = StopHookCondition::default;
    let decided = |hooks: Vec<StopHook>| {
        let script = Script::new()
            .stop_hooks(hooks)
            .agent(&[WORKING])
            .plan(|plan| plan.max_iterations = 1);
        decisions(&script_run(script)).remove(0)
    };
    let hooks = vec![
        fixed(go, "one", always()),
        fixed(stop, "two", always()),
        fixed(off, "three", always()),
    ];
    assert_eq!(decided(hooks), ("two".into(), stop, "two".into()));
    let disabled = StopHook {
        enabled: false,
        ..fixed(go, "three", always())
    };
    assert_eq!(
        decided(vec![
            fixed(go, "one", always()),
            fixed(go, "two", always()),
            disabled.clone()
        ])
        .0,
        "two"
    );
    assert_eq!(
        decided(vec![disabled]),
        (
            "default".into(),
            go,
            "No hooks registered for this task".into()
        )
    );
}

#[test]
fn a_command_decides_by_what_it_answers() {
    let answer = r#"{"action":"continue","reason":"not yet","nextPrompt":"Look at main.rs","metadata":{"n":1}}"#;
    let done = r#"{"action":"complete","reason":"enough"}"#;
    let script = Script::new()
        .stop_hooks([])
        .stop_command("judge", [prints(answer), prints(done)])
        .agent(&[WORKING]);
    story(
        script,
        &expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 1 done
              stop_decision judge exit 0 -> Pass
              decided Continue
            iteration 2
              prompt iteration "Look at main.rs\n\nGOAL"
              turn ended EndTurn
            iteration 2 done
              stop_decision judge exit 0 -> Pass
              decided Complete
              LoopEnded
            ended complete (no checks are configured)
        "#]],
    );
}

#[test]
fn a_broken_command_escalates() {
    let reason = |ran| {
        let script = Script::new()
            .stop_hooks([])
            .stop_command("judge", [ran])
            .agent(&[WORKING]);
        let (hook, action, reason) = decisions(&script_run(script)).remove(0);
        assert_eq!((hook.as_str(), action), ("judge", StopAction::Escalate));
        reason
    };
    assert_eq!(
        reason(exits(1, "", "no such table")),
        "Hook evaluation failed: exit 1: no such table"
    );
    assert_eq!(reason(breaks()), "Hook evaluation failed: timed out");
    assert!(reason(prints("done")).starts_with("Hook evaluation failed: its answer is not JSON"));
    assert!(reason(prints(r#"{"action":"maybe"}"#)).contains("unknown variant `maybe`"));
}

#[test]
fn a_condition_keeps_a_hook_from_being_asked() {
    let from_third = StopHookCondition {
        from: Some(3),
        ..StopHookCondition::default()
    };
    let hooks = [
        fixed(StopAction::Complete, "third time lucky", from_third),
        fixed(StopAction::Continue, "go on", StopHookCondition::default()),
    ];
    let world = script_run(Script::new().stop_hooks(hooks).agent(&[WORKING]));
    let by: Vec<_> = decisions(&world)
        .into_iter()
        .map(|(hook, ..)| hook)
        .collect();
    assert_eq!(by, ["go on", "go on", "third time lucky"]);
}

#[test]
fn the_test_driven_loop_of_conditions_on_rules() {
    let again = StopResult::new(StopAction::Continue, "Tests still failing")
        .telling("Fix failing tests and run again");
    let again = StopHook {
        name: "again".into(),
        judge: StopHookKind::Fixed(again),
        when: StopHookCondition::default(),
        enabled: true,
    };
    let hooks = [
        fixed(
            StopAction::Complete,
            "All tests pass",
            rules("tests_pass", true),
        ),
        again,
    ];
    let script = Script::new()
        .stop_hooks(hooks)
        .rule("tests_pass", &[false, true])
        .agent(&[WORKING]);
    story(
        script,
        &expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 1 done
              rule tests_pass failed
              decided Continue
            iteration 2
              prompt iteration "Fix failing tests and run again\n\nGOAL"
              turn ended EndTurn
            iteration 2 done
              rule tests_pass passed
              decided Complete
              LoopEnded
            ended complete (tests_pass passed)
        "#]],
    );
}

#[test]
fn a_group_completes_when_all_or_any_of_its_hooks_do() {
    let group = |judge| StopHook {
        name: "group".into(),
        judge,
        when: StopHookCondition::default(),
        enabled: true,
    };
    let parts = || {
        vec![
            StopHook::preset(StopPreset::Promise),
            StopHook::preset(StopPreset::Validation),
        ]
    };
    let decided = |judge, says, passed| {
        let script = Script::new()
            .stop_hooks([group(judge)])
            .rule("tests", &[passed])
            .agent(&[Answer::Says(says)]);
        let (_, action, reason) =
            decisions(&script_run(script.plan(|plan| plan.max_iterations = 1))).remove(0);
        (action, reason)
    };
    let (yes, no) = ("<promise>COMPLETE</promise>", "Working.");
    assert_eq!(
        decided(StopHookKind::All(parts()), yes, true).0,
        StopAction::Complete
    );
    assert_eq!(
        decided(StopHookKind::All(parts()), yes, false),
        (
            StopAction::Continue,
            "1 of 1 validation rule failed: tests".into()
        )
    );
    assert_eq!(
        decided(StopHookKind::All(parts()), no, true).0,
        StopAction::Continue
    );
    assert_eq!(
        decided(
            StopHookKind::All(parts()),
            "<promise>BLOCKED</promise>",
            true
        )
        .0,
        StopAction::Escalate
    );
    assert_eq!(
        decided(StopHookKind::Any(parts()), no, true).0,
        StopAction::Complete
    );
    assert_eq!(
        decided(StopHookKind::Any(parts()), yes, false).0,
        StopAction::Continue,
        "a red rule"
    );
    assert_eq!(
        decided(
            StopHookKind::Any(parts()),
            "<promise>BLOCKED</promise>",
            true
        )
        .0,
        StopAction::Complete
    );
    assert_eq!(
        decided(
            StopHookKind::Any(parts()),
            "<promise>BLOCKED</promise>",
            false
        )
        .0,
        StopAction::Escalate
    );
    assert_eq!(
        decided(StopHookKind::Any(parts()), no, false).0,
        StopAction::Continue
    );
}

#[test]
fn commands_in_a_group_run_only_as_far_as_they_matter() {
    let complete = r#"{"action":"complete","reason":"one"}"#;
    let group = StopHook {
        name: "group".into(),
        judge: StopHookKind::Any(vec![stop_command("one"), stop_command("two")]),
        when: StopHookCondition::default(),
        enabled: true,
    };
    let mut script = Script::new().stop_hooks([group]).agent(&[WORKING]);
    script.hooks.insert("one".into(), vec![prints(complete)]);
    let world = script_run(script);
    assert_eq!(
        decisions(&world),
        [("group".to_owned(), StopAction::Complete, "one".to_owned())]
    );
    assert_eq!(
        world
            .events
            .iter()
            .filter(|event| matches!(event, Event::Hook(HookEvent::Finished(_))))
            .count(),
        1
    );
}

#[test]
fn an_escalation_blocks_the_task_until_the_user_continues_it() {
    let escalates = Answer::Says("I need a key. <promise>BLOCKED</promise>");
    let script = Script::new().agent(&[escalates, Answer::Says("<promise>COMPLETE</promise>")]);
    let script = script.attended(&[(GateKind::Escalation, GateChoice::Message)]);
    let mut world = World::begin(script);
    world.settle();
    world.command(SessionCommand::Task {
        task: TaskCommand::Add(NewTask {
            goal: "Publish".into(),
            ..NewTask::default()
        }),
    });
    let id = world.state.tasks.graph.tasks()[0].id.clone();
    world.command(SessionCommand::Task {
        task: TaskCommand::Start {
            id: id.clone(),
            context: None,
        },
    });
    world.finish_turn();
    let task = world.state.tasks.graph.get(&id).expect("the task");
    assert_eq!(task.state, TaskState::Blocked);
    let gate = world.state.gates.open.clone().expect("a gate waits");
    assert_eq!(
        gate.choices
            .iter()
            .map(|choice| choice.name())
            .collect::<Vec<_>>(),
        ["continue", "message", "complete", "abort"]
    );
    world.answer_gate();
    assert_eq!(
        world.state.tasks.graph.get(&id).expect("the task").state,
        TaskState::Active
    );
    let world = world.run();
    let prompts = world.events.iter().filter_map(|event| match event {
        Event::Turn(TurnEvent::PromptSent(prompt)) => Some(prompt.text.as_str()),
        _ => None,
    });
    assert_eq!(
        prompts.collect::<Vec<_>>(),
        [
            "GOAL",
            "Try another way.\n\nGOAL\n\nOpen tasks of this session:\n- task_1 (active): Publish"
        ]
    );
}

#[test]
fn an_escalation_leaves_the_tasks_of_other_workers_alone() {
    let script = Script::new().agent(&[Answer::Says("I need a key. <promise>BLOCKED</promise>")]);
    let mut world = World::begin(script.attended(&[(GateKind::Escalation, GateChoice::Abort)]));
    world.settle();
    for (id, queue) in [("there", Some(BTreeSet::new())), ("here", None)] {
        let new = NewTask {
            id: Some(id.into()),
            goal: id.into(),
            queue,
            ..NewTask::default()
        };
        world.command(SessionCommand::Task {
            task: TaskCommand::Add(new),
        });
    }
    let context = "in session one on another machine".to_owned();
    world.command(SessionCommand::Task {
        task: TaskCommand::TakenUp {
            id: "there".into(),
            context,
        },
    });
    tool(&mut world, start("there", 1));
    assert_eq!(
        world.refused.pop(),
        Some(Refusal::Task(TaskRefusal::ActiveInQueue("there".into())))
    );
    world.command(SessionCommand::Task {
        task: TaskCommand::Start {
            id: "here".into(),
            context: None,
        },
    });
    world.finish_turn();
    let state = |id: &str| world.state.tasks.graph.get(id).map(|task| task.state);
    assert_eq!(
        (state("there"), state("here")),
        (Some(TaskState::Active), Some(TaskState::Blocked))
    );
    let blocked = world.events.iter().find_map(|event| match event {
        Event::Stop(StopEvent::Decided(decided)) => {
            Some((decided.task.clone(), decided.blocked.clone()))
        }
        _ => None,
    });
    assert_eq!(
        blocked,
        Some((Some("here".to_owned()), vec!["here".to_owned()]))
    );
}

#[test]
fn contradicting_promises_are_reported_and_the_strongest_counts() {
    let both = Answer::Says("<promise>BLOCKED</promise> or <promise>COMPLETE</promise>");
    story(
        Script::new().agent(&[both]),
        &expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 1 done
              warning the agent promised COMPLETE and BLOCKED together; creel uses COMPLETE
              decided Complete
              LoopEnded
            ended complete (no checks are configured, and the agent says it is done)
        "#]],
    );
}

#[test]
fn three_iterations_in_a_row_with_failed_rules_escalate_and_the_users_answer_resets_the_count() {
    let script = Script::new()
        .rule("tests", &[false])
        .agent(&[WORKING])
        .plan(|plan| plan.max_iterations = 8);
    let script = script.attended(&[
        (GateKind::Escalation, GateChoice::Continue),
        (GateKind::Escalation, GateChoice::Abort),
    ]);
    let world = script_run(script);
    let by: Vec<_> = decisions(&world)
        .into_iter()
        .map(|(hook, action, _)| (hook, action))
        .collect();
    let default = || ("default".to_owned(), StopAction::Continue);
    let breaker = || ("circuit_breaker".to_owned(), StopAction::Escalate);
    assert_eq!(
        by,
        [
            default(),
            default(),
            breaker(),
            default(),
            default(),
            breaker()
        ]
    );
}

#[test]
fn continuing_when_an_escalated_session_is_resumed_starts_its_tasks_again() {
    let script = Script::new()
        .rule("tests", &[false])
        .agent(&[WORKING])
        .plan(|plan| plan.max_iterations = 8);
    let (mut world, id) = with_a_task(script.clone());
    world.command(SessionCommand::Task {
        task: TaskCommand::Start {
            id: id.clone(),
            context: None,
        },
    });
    let world = world.run();
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Escalated));
    assert_eq!(
        world.state.tasks.graph.get(&id).map(|task| task.state),
        Some(TaskState::Blocked)
    );
    let world = World::from_events(script, &world.events).resume_answering(GateChoice::Continue);
    let by: Vec<_> = decisions(&world)
        .into_iter()
        .map(|(hook, ..)| hook)
        .collect();
    assert_eq!(
        by,
        [
            "default",
            "default",
            "circuit_breaker",
            "default",
            "default",
            "circuit_breaker"
        ]
    );
    let started = |event: &&Event| matches!(event, Event::Task(TaskEvent::Started { .. }));
    assert_eq!(
        world.events.iter().filter(started).count(),
        2,
        "{}",
        world.story()
    );
}

#[test]
fn a_guard_says_nothing_in_the_last_iteration() {
    let script = Script::new()
        .rule("tests", &[false])
        .agent(&[WORKING])
        .plan(|plan| plan.max_iterations = 3);
    assert!(
        script_run(script)
            .story()
            .ends_with("ended limit (stopped at 3 iterations: tests still fails)\n")
    );
    let script = Script::new()
        .agent(&[WORKING])
        .plan(|plan| plan.stop.no_progress = 3);
    let (hook, action, _) = decisions(&script_run(script)).pop().expect("a decision");
    assert_eq!(
        (hook.as_str(), action),
        ("no_progress", StopAction::Escalate)
    );
}

#[test]
fn a_checkpoint_is_kept_whatever_the_decision_and_names_the_agents_task() {
    let halfway = StopResult {
        checkpoint_data: Some(json!({"executionPhase": "midpoint", "executionStep": 2})),
        ..StopResult::new(StopAction::Continue, "Halfway checkpoint")
    };
    let second = StopHookCondition {
        from: Some(2),
        to: Some(2),
        ..StopHookCondition::default()
    };
    let halfway = StopHook {
        name: "halfway".into(),
        judge: StopHookKind::Fixed(halfway),
        when: second,
        enabled: true,
    };
    let script = Script::new()
        .stop_hooks([halfway, StopHook::preset(StopPreset::Default)])
        .agent(&[
            WORKING,
            WORKING,
            WORKING,
            Answer::Says("<promise>COMPLETE</promise>"),
        ]);
    let world = script_run(script);
    let kept: Vec<_> = world
        .state
        .stop
        .checkpoints
        .iter()
        .map(|kept| &kept.checkpoint)
        .collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(
        (
            kept[0].checkpoint,
            kept[0].iteration,
            kept[0].hook.as_deref()
        ),
        (1, 2, Some("halfway"))
    );
    assert_eq!(kept[0].phase(), Some("midpoint"));
}

/// A session with a task, in the middle of the agent's turn.
fn with_a_task(script: Script) -> (World, String) {
    let mut world = World::begin(script);
    world.settle();
    world.command(SessionCommand::Task {
        task: TaskCommand::Add(NewTask {
            goal: "Publish".into(),
            ..NewTask::default()
        }),
    });
    let id = world.state.tasks.graph.tasks()[0].id.clone();
    (world, id)
}

fn tool(world: &mut World, command: SessionCommand) {
    world.input(Input::Command {
        by: ActorKind::Mcp.into(),
        command,
    });
}

fn register(task: &str, preset: StopPreset) -> SessionCommand {
    SessionCommand::RegisterStopHook(StopHookRegistration {
        task: task.into(),
        preset,
        metadata: Map::new(),
    })
}

#[test]
fn a_hook_that_the_agent_registers_is_asked_after_those_of_the_config_until_it_is_cleared() {
    let promises = [
        Answer::Says("<promise>COMPLETE</promise>"),
        Answer::Says("<promise>COMPLETE</promise>"),
    ];
    let hooks = [StopHook::preset(StopPreset::Promise)];
    let script = Script::new()
        .stop_hooks(hooks)
        .rule("tests", &[false, true])
        .agent(promises);
    let (mut world, id) = with_a_task(script);
    tool(&mut world, register(&id, StopPreset::Validation));
    tool(&mut world, register("story", StopPreset::Promise));
    assert_eq!(world.state.stop.registered.len(), 2);
    assert!(world.state.stop.registered[0].id.starts_with("HOOK-0-00"));
    tool(&mut world, register("nothing", StopPreset::Promise));
    let unknown = LoopRefusal::UnknownTask {
        task: "nothing".into(),
        near: None,
        session: "story".into(),
    };
    assert_eq!(world.refused, [Refusal::Loop(unknown)]);
    tool(
        &mut world,
        SessionCommand::ClearStopHooks {
            task: "story".into(),
        },
    );
    let world = world.run();
    let decided: Vec<_> = decisions(&world)
        .into_iter()
        .map(|(_, action, _)| action)
        .collect();
    assert_eq!(decided, [StopAction::Continue, StopAction::Complete]);
}

#[test]
fn a_hook_that_the_agent_registers_never_completes_what_the_config_continues() {
    let hooks = [StopHook::preset(StopPreset::Validation)];
    let promise = Answer::Says("<promise>COMPLETE</promise>");
    let script = Script::new()
        .stop_hooks(hooks)
        .rule("tests", &[false, false])
        .agent([promise.clone(), promise]);
    let (mut world, id) = with_a_task(script.plan(|plan| plan.max_iterations = 2));
    tool(&mut world, register(&id, StopPreset::Default));
    tool(&mut world, register("story", StopPreset::Promise));
    let world = world.run();
    let decided: Vec<_> = decisions(&world)
        .into_iter()
        .map(|(_, action, _)| action)
        .collect();
    assert_eq!(decided, [StopAction::Continue, StopAction::Continue]);
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Limit));
}

#[test]
fn a_registered_hook_for_missing_rules_blocks_nothing() {
    let (mut world, id) =
        with_a_task(Script::new().agent([Answer::Says("<promise>COMPLETE</promise>")]));
    tool(&mut world, register(&id, StopPreset::Validation));
    assert_eq!(
        world.run().state.phase.outcome(),
        Some(SessionOutcome::Complete)
    );
}

#[test]
fn an_agent_clears_only_the_hooks_that_it_registered_itself() {
    let (mut world, id) = with_a_task(Script::new().agent(&[WORKING]));
    tool(&mut world, register(&id, StopPreset::Validation));
    world.input(Input::Command {
        by: ActorKind::Agent.into(),
        command: register(&id, StopPreset::Promise),
    });
    world.input(Input::Command {
        by: ActorKind::Agent.into(),
        command: SessionCommand::ClearStopHooks { task: id.clone() },
    });
    let left: Vec<_> = world
        .state
        .stop
        .registered
        .iter()
        .map(RegisteredStopHook::preset)
        .collect();
    assert_eq!(left, ["validation"]);
}

#[test]
fn completing_a_session_with_a_tool_is_judged_like_a_promise() {
    let (mut world, _) = with_a_task(Script::new().agent(&[WORKING]));
    tool(
        &mut world,
        SessionCommand::CompleteSession {
            reason: "all is done".into(),
        },
    );
    let decided = decisions(&world.run());
    assert_eq!(
        decided,
        [(
            "default".to_owned(),
            StopAction::Complete,
            "Agent signaled completion via session_complete: all is done".to_owned()
        )]
    );
    let script = Script::new()
        .stop_hooks([StopHook::preset(StopPreset::Validation)])
        .rule("tests", &[false]);
    let (mut world, _) = with_a_task(
        script
            .agent(&[WORKING])
            .plan(|plan| plan.max_iterations = 1),
    );
    tool(
        &mut world,
        SessionCommand::CompleteSession {
            reason: String::new(),
        },
    );
    assert_eq!(decisions(&world.run())[0].1, StopAction::Continue);
}

#[test]
fn a_promise_in_a_failed_turn_completes_no_later_iteration() {
    let cut_off = [Answer::Fails("connection reset"), WORKING];
    let (mut world, _) = with_a_task(
        Script::new()
            .agent(cut_off)
            .plan(|plan| plan.max_iterations = 2),
    );
    tool(
        &mut world,
        SessionCommand::CompleteSession {
            reason: "all is done".into(),
        },
    );
    let world = world.run();
    assert_eq!(
        decisions(&world),
        [(
            "default".to_owned(),
            StopAction::Continue,
            "Iteration in progress".to_owned()
        )]
    );
}

/// A session that its agent drives itself.
fn outside() -> Script {
    Script::new().plan(|plan| plan.agent_spec = AgentSpec::Outside)
}

#[test]
fn a_self_driven_session_is_completed_once() {
    let mut world = World::begin(outside().hook(HookPoint::SessionEnd, "bye", [passes()]));
    world.settle();
    tool(
        &mut world,
        SessionCommand::CompleteSession {
            reason: "enough".into(),
        },
    );
    tool(
        &mut world,
        SessionCommand::CompleteSession {
            reason: "the agent has exited".into(),
        },
    );
    assert_eq!(world.refused, [Refusal::AlreadyCompleting]);
    expect![[r#"
          CompletionPromised
          LoopEnded
          session_end bye exit 0 -> Pass
        ended complete (no checks are configured, and the agent says it is done: enough)
    "#]]
    .assert_eq(&world.run().story());
}

#[test]
fn a_self_driven_session_ends_when_its_running_hooks_have_ended() {
    let script = outside()
        .hook(HookPoint::SessionStart, "hello", [passes()])
        .hook(HookPoint::SessionEnd, "bye", [passes()]);
    let mut world = World::begin(script.clone());
    world.settle();
    tool(
        &mut world,
        SessionCommand::CompleteSession {
            reason: "enough".into(),
        },
    );
    tool(
        &mut world,
        SessionCommand::CompleteSession {
            reason: "the agent has exited".into(),
        },
    );
    assert_eq!(world.refused, [Refusal::AlreadyCompleting]);
    let killed = World::from_events(script, &world.events);
    let expected = expect![[r#"
          CompletionPromised
          session_start hello exit 0 -> Pass
          LoopEnded
          session_end bye exit 0 -> Pass
        ended complete (no checks are configured, and the agent says it is done: enough)
    "#]];
    expected.assert_eq(&world.run().story());
    assert!(
        killed
            .resume()
            .story()
            .ends_with("(no checks are configured, and the agent says it is done: enough)\n")
    );
}

#[test]
fn a_failure_after_a_task_is_only_reported_in_a_self_driven_session() {
    let script = outside().hook_with(
        HookPoint::OnTaskComplete,
        "deploy",
        [exits(1, "", "no")],
        |spec| {
            spec.on_failure = Some(HookFailurePolicy::Escalate);
        },
    );
    let mut world = World::begin(script);
    world.settle();
    for id in ["one", "two"] {
        let new = NewTask {
            id: Some(id.into()),
            goal: id.into(),
            ..NewTask::default()
        };
        tool(
            &mut world,
            SessionCommand::Task {
                task: TaskCommand::Add(new),
            },
        );
    }
    tool(&mut world, completes("one", "text"));
    let mut world = world.run();
    let told = "  warning the hook `deploy` at on_task_complete needs you: no\n";
    assert!(world.story().ends_with(told), "{}", world.story());
    assert_eq!(
        (
            world.state.gates.open.is_some(),
            world.state.phase.outcome()
        ),
        (false, None)
    );
    tool(&mut world, completes("two", "text"));
    let state = |id: &str| world.state.tasks.graph.get(id).map(|task| task.state);
    assert_eq!(
        (world.refused.len(), state("two")),
        (0, Some(TaskState::Completed))
    );
}

fn start(task: &str, max_iterations: u32) -> SessionCommand {
    SessionCommand::Loop {
        about: LoopCommand::Start {
            task: task.into(),
            max_iterations,
            promises: Vec::new(),
        },
    }
}

fn judge(id: &str, said: &str) -> SessionCommand {
    SessionCommand::Loop {
        about: LoopCommand::Judge(Box::new(EvaluationRequest {
            id: id.into(),
            agent_text: said.into(),
            files: vec!["src/auth.rs".into()],
            draft: None,
            checkpoint: None,
            rules: RuleCheckMode::Check,
        })),
    }
}

#[test]
fn an_agent_runs_its_own_loop_over_a_task() {
    let script = Script::new()
        .rule("tests", &[false, true])
        .agent(&[Answer::Says("<promise>COMPLETE</promise>")]);
    let (mut world, id) = with_a_task(script);
    tool(&mut world, register(&id, StopPreset::Default));
    tool(&mut world, start(&id, 3));
    let known = world.state.stop.loops[0].id.clone();
    assert!(known.starts_with("IT-0-00"), "{known}");
    assert_eq!(
        world.state.tasks.graph.get(&id).expect("the task").state,
        TaskState::Active
    );
    tool(&mut world, judge(&known, "first try"));
    tool(&mut world, judge(&known, "again"));
    assert_eq!(
        world.refused.pop(),
        Some(LoopRefusal::BeingJudged(known.clone()).into())
    );
    world.finish_check(0);
    assert_eq!(
        decisions(&world),
        [(
            world.state.stop.registered[0].id.clone(),
            StopAction::Continue,
            "1 of 1 validation rule failed: tests".to_owned()
        )]
    );
    tool(
        &mut world,
        SessionCommand::Loop {
            about: LoopCommand::Next {
                id: known.clone(),
                checkpoint: Some(json!({"step": 1})),
            },
        },
    );
    assert_eq!(world.state.stop.loops[0].iteration, 2);
    assert_eq!(world.state.stop.checkpoints[0].checkpoint.task, id);
    tool(&mut world, judge(&known, "second try"));
    world.finish_check(0);
    assert_eq!(
        decisions(&world).pop().expect("a decision").1,
        StopAction::Complete
    );
    tool(
        &mut world,
        SessionCommand::Loop {
            about: LoopCommand::Complete {
                id: known.clone(),
                promise: Promise::Complete,
            },
        },
    );
    assert_eq!(
        world.state.tasks.graph.get(&id).expect("the task").state,
        TaskState::Completed
    );
    tool(&mut world, judge(&known, "more"));
    assert_eq!(
        world.refused.pop(),
        Some(
            LoopRefusal::LoopOver {
                loop_id: known,
                task: id
            }
            .into()
        )
    );
    let story = world.run().story();
    assert!(
        story.ends_with(", and the agent says it is done)\n"),
        "{story}"
    );
}

#[test]
fn a_loop_completes_its_task_only_after_a_judgement_that_says_complete() {
    let (mut world, id) = with_a_task(
        Script::new()
            .rule("tests", &[false, true])
            .agent(&[WORKING]),
    );
    tool(&mut world, register(&id, StopPreset::Default));
    tool(&mut world, start(&id, 3));
    let known = world.state.stop.loops[0].id.clone();
    let complete = || SessionCommand::Loop {
        about: LoopCommand::Complete {
            id: known.clone(),
            promise: Promise::Complete,
        },
    };
    tool(&mut world, complete());
    let refused = |last| {
        let loop_id = known.clone();
        Some(LoopRefusal::NotJudgedComplete { loop_id, last }.into())
    };
    assert_eq!(world.refused.pop(), refused(None));
    tool(&mut world, judge(&known, "first try"));
    world.finish_check(0);
    tool(&mut world, complete());
    let why = "1 of 1 validation rule failed: tests".to_owned();
    assert_eq!(
        world.refused.pop(),
        refused(Some((StopAction::Continue, why)))
    );
    assert_eq!(
        world.state.tasks.graph.get(&id).expect("the task").state,
        TaskState::Active
    );
    tool(&mut world, judge(&known, "second try"));
    world.finish_check(0);
    tool(&mut world, complete());
    assert_eq!(
        world.state.tasks.graph.get(&id).expect("the task").state,
        TaskState::Completed
    );
}

#[test]
fn a_loop_over_the_whole_session_is_judged_by_the_hooks_of_the_config() {
    let script = Script::new()
        .stop_hooks([StopHook::preset(StopPreset::Validation)])
        .rule("tests", &[false])
        .agent(&[WORKING]);
    let (mut world, _) = with_a_task(script);
    tool(&mut world, register("story", StopPreset::Promise));
    tool(&mut world, start("story", 3));
    let known = world.state.stop.loops[0].id.clone();
    tool(&mut world, judge(&known, "<promise>COMPLETE</promise>"));
    world.finish_check(0);
    assert_eq!(
        decisions(&world).pop().expect("a decision").1,
        StopAction::Continue
    );
}

#[test]
fn the_guards_watch_the_loops_of_the_agent_too() {
    let (mut world, id) = with_a_task(Script::new().rule("tests", &[false; 9]).agent(&[WORKING]));
    tool(&mut world, register(&id, StopPreset::Default));
    tool(&mut world, start(&id, 9));
    let known = world.state.stop.loops[0].id.clone();
    for iteration in 1..=3 {
        // Judged twice, an iteration still counts once.
        for said in ["a", "b"] {
            tool(&mut world, judge(&known, &format!("{said} {iteration}")));
            world.finish_check(0);
        }
        tool(
            &mut world,
            SessionCommand::Loop {
                about: LoopCommand::Next {
                    id: known.clone(),
                    checkpoint: None,
                },
            },
        );
    }
    let decided = decisions(&world);
    let continued = decided
        .iter()
        .take_while(|(_, action, _)| *action == StopAction::Continue)
        .count();
    assert_eq!(continued, 4, "{decided:?}");
    let (hook, action, reason) = &decided[4];
    assert_eq!(
        (hook.as_str(), *action),
        ("circuit_breaker", StopAction::Escalate),
        "{reason}"
    );
    assert_eq!(
        world.state.tasks.graph.get(&id).expect("the task").state,
        TaskState::Blocked
    );
}

#[test]
fn a_loop_that_escalates_blocks_its_task_and_opens_a_gate_at_the_end_of_the_turn() {
    let script = Script::new()
        .agent(&[WORKING])
        .attended(&[(GateKind::Escalation, GateChoice::Abort)]);
    let (mut world, id) = with_a_task(script);
    tool(&mut world, register(&id, StopPreset::Promise));
    tool(&mut world, start(&id, 3));
    let known = world.state.stop.loops[0].id.clone();
    tool(&mut world, judge(&known, "<promise>ESCALATE</promise>"));
    assert_eq!(
        world.state.tasks.graph.get(&id).expect("the task").state,
        TaskState::Blocked
    );
    assert!(world.state.gates.open.is_none(), "the turn goes on");
    world.finish_turn();
    let gate = world.state.gates.open.clone().expect("a gate waits");
    assert_eq!(gate.kind(), GateKind::Escalation);
    assert_eq!(
        gate.reason,
        "Agent signaled a need for escalation via <promise>ESCALATE</promise>"
    );
    tool(
        &mut world,
        SessionCommand::Loop {
            about: LoopCommand::Next {
                id: known.clone(),
                checkpoint: None,
            },
        },
    );
    assert_eq!(
        world.refused.pop(),
        Some(LoopRefusal::Escalated(known).into())
    );
}

/// Two active tasks, and a loop over the first one that has just escalated, in the agent's turn.
fn escalated_loop(script: Script) -> (World, String, String) {
    let (mut world, id) = with_a_task(script);
    let other = NewTask {
        id: Some("other".into()),
        goal: "Something else".into(),
        ..NewTask::default()
    };
    world.command(SessionCommand::Task {
        task: TaskCommand::Add(other),
    });
    world.command(SessionCommand::Task {
        task: TaskCommand::Start {
            id: "other".into(),
            context: None,
        },
    });
    tool(&mut world, register(&id, StopPreset::Promise));
    tool(&mut world, start(&id, 3));
    let known = world.state.stop.loops[0].id.clone();
    tool(&mut world, judge(&known, "<promise>ESCALATE</promise>"));
    (world, id, known)
}

/// The tasks that were blocked, one entry each time.
fn blocked(world: &World) -> Vec<&str> {
    let blocked = world.events.iter().filter_map(|event| match event {
        Event::Task(TaskEvent::Blocked(record)) => Some(record.task.as_str()),
        _ => None,
    });
    blocked.collect()
}

#[test]
fn a_loop_that_escalates_blocks_its_task_once_and_no_other() {
    let script = || {
        Script::new()
            .agent(&[WORKING])
            .attended(&[(GateKind::Escalation, GateChoice::Continue)])
    };
    let (mut world, id, known) = escalated_loop(script());
    world.finish_turn();
    assert!(world.state.gates.open.is_some(), "the session is held");
    assert_eq!(blocked(&world), [id.as_str()]);
    world.answer_gate();
    assert_eq!(
        world.state.tasks.graph.get(&id).map(|task| task.state),
        Some(TaskState::Active)
    );
    // The same if the agent has ended the loop, and if the task is gone.
    let end = SessionCommand::Loop {
        about: LoopCommand::Complete {
            id: known,
            promise: Promise::Blocked,
        },
    };
    for last in [
        end,
        SessionCommand::Task {
            task: TaskCommand::Remove { id: id.clone() },
        },
    ] {
        let (mut world, _, _) = escalated_loop(script());
        tool(&mut world, last);
        world.finish_turn();
        assert_eq!(
            (world.state.gates.open.is_some(), blocked(&world)),
            (true, vec![id.as_str()])
        );
    }
}

#[test]
fn a_loop_that_waits_for_the_user_is_not_completed() {
    let (mut world, id, known) = escalated_loop(Script::new().agent(&[WORKING]));
    let complete = SessionCommand::Loop {
        about: LoopCommand::Complete {
            id: known.clone(),
            promise: Promise::Complete,
        },
    };
    tool(&mut world, complete.clone());
    assert_eq!(
        world.refused.pop(),
        Some(LoopRefusal::NotCompletedWhileEscalated(known.clone()).into())
    );
    tool(&mut world, judge(&known, "<promise>COMPLETE</promise>"));
    tool(&mut world, complete);
    assert!(
        world.refused.pop().is_some(),
        "another word changes nothing"
    );
    assert_eq!(
        world.state.tasks.graph.get(&id).map(|task| task.state),
        Some(TaskState::Blocked)
    );
}

#[test]
fn no_later_judgement_gets_an_escalated_loop_past_the_user() {
    let (mut world, id) = with_a_task(outside());
    tool(&mut world, register(&id, StopPreset::Promise));
    tool(&mut world, start(&id, 3));
    let known = world.state.stop.loops[0].id.clone();
    let next = SessionCommand::Loop {
        about: LoopCommand::Next {
            id: known.clone(),
            checkpoint: None,
        },
    };
    let complete = SessionCommand::Loop {
        about: LoopCommand::Complete {
            id: known.clone(),
            promise: Promise::Complete,
        },
    };
    for said in [
        "<promise>ESCALATE</promise>",
        "Working.",
        "<promise>COMPLETE</promise>",
    ] {
        tool(&mut world, judge(&known, said));
        for (more, why) in [
            (&next, LoopRefusal::Escalated(known.clone())),
            (
                &complete,
                LoopRefusal::NotCompletedWhileEscalated(known.clone()),
            ),
        ] {
            tool(&mut world, more.clone());
            assert_eq!(world.refused.pop(), Some(why.into()), "{said}");
        }
    }
    assert_eq!(decisions(&world).len(), 3);
    world.command(SessionCommand::Task {
        task: TaskCommand::Start { id, context: None },
    });
    tool(&mut world, next);
    assert_eq!(
        (
            world.refused.as_slice(),
            world.state.stop.loops[0].iteration
        ),
        (&[][..], 2)
    );
}

#[test]
fn a_loop_over_a_self_driven_session_is_judged_again() {
    let mut world = World::begin(outside());
    world.settle();
    tool(&mut world, register("story", StopPreset::Promise));
    tool(&mut world, start("story", 3));
    let known = world.state.stop.loops[0].id.clone();
    tool(&mut world, judge(&known, "<promise>ESCALATE</promise>"));
    tool(&mut world, judge(&known, "<promise>COMPLETE</promise>"));
    tool(
        &mut world,
        SessionCommand::Loop {
            about: LoopCommand::Complete {
                id: known,
                promise: Promise::Complete,
            },
        },
    );
    assert_eq!(
        (world.refused.as_slice(), world.state.stop.loops[0].is_over),
        (&[][..], true)
    );
}

#[test]
fn a_loop_continues_after_the_users_answer() {
    for whole_session in [false, true] {
        let script = Script::new()
            .agent(&[WORKING])
            .attended(&[(GateKind::Escalation, GateChoice::Continue)]);
        let (mut world, id) = with_a_task(script);
        let id = if whole_session {
            "story".to_owned()
        } else {
            id
        };
        tool(&mut world, register(&id, StopPreset::Promise));
        tool(&mut world, start(&id, 3));
        let known = world.state.stop.loops[0].id.clone();
        tool(&mut world, judge(&known, "<promise>ESCALATE</promise>"));
        let next = SessionCommand::Loop {
            about: LoopCommand::Next {
                id: known.clone(),
                checkpoint: None,
            },
        };
        world.finish_turn();
        tool(&mut world, next.clone());
        assert_eq!(
            world.refused.pop(),
            Some(LoopRefusal::Escalated(known).into())
        );
        world.answer_gate();
        tool(&mut world, next);
        assert_eq!(
            (
                world.refused.as_slice(),
                world.state.stop.loops[0].iteration
            ),
            (&[][..], 2)
        );
    }
}

/// Runs a loop over a task in the current turn until it escalates.
fn escalate(world: &mut World, id: &str) {
    tool(world, register(id, StopPreset::Promise));
    tool(world, start(id, 3));
    let known = world.state.stop.loops[0].id.clone();
    tool(world, judge(&known, "<promise>ESCALATE</promise>"));
}

/// Runs until the first prompt with this reason.
fn at_prompt(script: Script, reason: PromptReason) -> (World, String) {
    let (world, id) = with_a_task(script);
    let sent = |world: &World| {
        world
            .state
            .phase
            .turn_in_flight()
            .is_some_and(|prompt| prompt.reason == reason)
    };
    (until(world, sent), id)
}

#[test]
fn a_loop_that_escalates_in_an_unjudged_turn_still_opens_a_gate() {
    let failing = || Script::new().agent([Answer::Fails("reset"), DONE]);
    let held = || {
        let script = Script::new().piped(HookPoint::PostIteration, "lint", [prints("unused")]);
        script.plan(|plan| plan.gates.final_delivery = Some(FinalDeliveryPolicy::Auto))
    };
    let samples = [
        (failing(), PromptReason::Iteration, 2),
        (
            failing().plan(|plan| plan.max_iterations = 1),
            PromptReason::Iteration,
            1,
        ),
        (held(), PromptReason::FinalDelivery, 1),
        (repaired(), PromptReason::Remediation, 1),
    ];
    for (script, reason, iterations) in samples {
        let (mut world, id) = at_prompt(script.clone(), reason);
        escalate(&mut world, &id);
        let world = world.run();
        assert_eq!(
            world.state.phase.outcome(),
            Some(SessionOutcome::Escalated),
            "{}",
            world.story()
        );

        let (mut world, id) = at_prompt(
            script.attended(&[(GateKind::Escalation, GateChoice::Continue)]),
            reason,
        );
        escalate(&mut world, &id);
        let world = world.run();
        let gates = world
            .events
            .iter()
            .filter(|event| {
                matches!(
                    event,
                    Event::Gate(GateEvent::Opened {
                        about: GateKind::Escalation,
                        ..
                    })
                )
            })
            .count();
        assert_eq!(
            (gates, world.state.iterations.current),
            (1, iterations),
            "{}",
            world.story()
        );
        assert_ne!(world.state.phase.outcome(), Some(SessionOutcome::Escalated));
        assert_eq!(
            world.state.tasks.graph.get(&id).map(|task| task.state),
            Some(TaskState::Active)
        );
    }
}

/// A session with a submit.
fn submitted(checks: impl Into<Vec<Ran>>) -> Script {
    Script::new()
        .submits()
        .built_in(HookPoint::BeforeSubmit, "run_tests", checks)
}

/// The same, after one repair.
fn repaired() -> Script {
    submitted([wants(Some("Repair it.")), does("green")])
}

fn submits(world: &World) -> usize {
    world
        .events
        .iter()
        .filter(|event| matches!(event, Event::Pipeline(PipelineEvent::Started { .. })))
        .count()
}

#[test]
fn accepting_submitted_work_does_not_submit_it_again() {
    let accepts = [(GateKind::Escalation, GateChoice::Complete)];
    let (mut world, id) = at_prompt(repaired().attended(&accepts), PromptReason::Remediation);
    escalate(&mut world, &id);
    let announced = submitted([does("green")]).hook_with(
        HookPoint::AfterSubmit,
        "announce",
        [exits(1, "", "no")],
        |spec| {
            spec.on_failure = Some(HookFailurePolicy::Escalate);
        },
    );
    for world in [world.run(), script_run(announced.attended(&accepts))] {
        assert_eq!(
            (world.state.phase.outcome(), submits(&world)),
            (Some(SessionOutcome::Complete), 1),
            "{}",
            world.story()
        );
    }
}

#[test]
fn a_session_escalated_after_its_loop_continues_after_the_loop() {
    let held =
        submitted([does("green")]).piped(HookPoint::PostIteration, "lint", [prints("unused")]);
    let held = held.plan(|plan| plan.gates.final_delivery = Some(FinalDeliveryPolicy::Auto));
    for (script, reason) in [
        (repaired(), PromptReason::Remediation),
        (held, PromptReason::FinalDelivery),
    ] {
        let (mut world, id) = at_prompt(script.plan(|plan| plan.max_iterations = 1), reason);
        escalate(&mut world, &id);
        let escalated = world.run();
        assert_eq!(
            escalated.state.phase.outcome(),
            Some(SessionOutcome::Escalated),
            "{}",
            escalated.story()
        );
        let resumed = World::from_events(escalated.script, &escalated.events);
        let world = resumed.resume_answering(GateChoice::Continue);
        let task = world.state.tasks.graph.get(&id).map(|task| task.state);
        let end = (
            world.state.phase.outcome(),
            submits(&world),
            world.state.iterations.current,
            task,
        );
        assert_eq!(
            end,
            (
                Some(SessionOutcome::Complete),
                1,
                1,
                Some(TaskState::Active)
            ),
            "{}",
            world.story()
        );
    }
}

#[test]
fn a_loop_has_an_iteration_limit_and_a_task_has_one_loop() {
    let (mut world, id) = with_a_task(Script::new().agent(&[WORKING]));
    tool(&mut world, start(&id, 1));
    tool(&mut world, start(&id, 1));
    let known = world.state.stop.loops[0].id.clone();
    let exists = LoopRefusal::LoopExists {
        task: id,
        loop_id: known.clone(),
        iteration: 1,
    };
    assert_eq!(world.refused.pop(), Some(exists.into()));
    tool(
        &mut world,
        SessionCommand::Loop {
            about: LoopCommand::Next {
                id: known.clone(),
                checkpoint: None,
            },
        },
    );
    assert_eq!(
        world.refused.pop(),
        Some(
            LoopRefusal::LimitUsed {
                loop_id: known,
                limit: 1
            }
            .into()
        )
    );
    tool(&mut world, judge("IT-1-xyz", ""));
    assert_eq!(
        world.refused.pop(),
        Some(LoopRefusal::NoSuchLoop("IT-1-xyz".into()).into())
    );
}

#[test]
fn a_cut_judgement_continues_where_it_was() {
    let complete = r#"{"action":"complete","reason":"enough"}"#;
    let script = || {
        let script = Script::new()
            .stop_hooks([])
            .rule("tests", &[true])
            .rule("lint", &[true]);
        script
            .stop_command("judge", [prints(complete)])
            .agent(&[WORKING])
    };
    let whole = script_run(script());
    let end = |world: &World| decisions(world).pop();
    for cut in 1..whole.events.len() {
        let world = World::from_events(script(), &whole.events[..cut]);
        if world.state.phase.outcome().is_some() {
            continue;
        }
        let world = world.resume();
        assert_eq!(end(&world), end(&whole), "cut after record {cut}");
        assert_eq!(world.state.presence, UserPresence::Unattended);
    }
}

/// Makes a checkpoint after every iteration, and decides this.
fn halfway(action: StopAction) -> StopHook {
    let checkpoint_data = Some(json!({"milestone": "halfway"}));
    let decided = StopResult {
        checkpoint_data,
        ..StopResult::new(action, "look")
    };
    StopHook {
        name: "halfway".into(),
        judge: StopHookKind::Fixed(decided),
        when: StopHookCondition::default(),
        enabled: true,
    }
}

#[test]
fn a_session_is_resumed_with_a_checkpoint_on_request() {
    let stopped = script_run(
        Script::new()
            .stop_hooks([halfway(StopAction::Escalate)])
            .agent([WORKING]),
    );
    let resume = |checkpoint| {
        let mut world = World::from_events(stopped.script.clone(), &stopped.events);
        let presence = UserPresence::Attended;
        world.input(Input::Resume {
            presence,
            max_iterations: None,
            checkpoint,
            answer: None,
        });
        world
    };
    let (_, prompt) = resume(Some(1)).turn.expect("a prompt");
    assert_eq!(
        prompt,
        "[Checkpoint 1 · iteration 1]\n{\"milestone\":\"halfway\"}\n\nGOAL"
    );
    assert_eq!(
        resume(Some(2)).refused,
        [Refusal::NoSuchCheckpoint {
            number: 2,
            last: Some(1)
        }]
    );
    let offered = resume(None);
    let warning = offered.events.iter().rev().find_map(|event| match event {
        Event::Session(SessionEvent::Warning { text }) => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(
        warning,
        Some(
            "checkpoint 1 of iteration 1 exists. To send it to the agent, resume the session with `--checkpoint 1`"
        )
    );
}

#[test]
fn a_promise_split_over_several_pieces_counts() {
    let mut world = World::begin(Script::new());
    world.settle();
    let (turn, _) = world.turn.clone().expect("a prompt");
    for piece in ["Done. <prom", "ise>COMP", "LETE</promise>"] {
        world.input(Input::Agent {
            turn,
            update: AgentUpdate::Message(piece.into()),
        });
    }
    world.input(Input::TurnEnded {
        turn,
        end: TurnEnd::new(StopReason::EndTurn),
    });
    assert_eq!(decisions(&world)[0].1, StopAction::Complete);
}

#[test]
fn a_promise_repeated_from_the_prompt_does_not_count() {
    let told = "Say <promise>COMPLETE</promise> when the tests pass.";
    let script = Script::new()
        .agent([Answer::Says(told)])
        .plan(|plan| plan.max_iterations = 1);
    let mut world = World::begin(script);
    world.state.began.prompt = told.into();
    assert_eq!(decisions(&world.run())[0].1, StopAction::Continue);
}

#[test]
fn conditions_depend_on_files_and_labels() {
    let files = StopHookCondition {
        files: vec!["src/**/*.rs".into()],
        ..StopHookCondition::default()
    };
    let labels = StopHookCondition {
        labels: vec!["risky".into()],
        ..StopHookCondition::default()
    };
    let context = |file: &str, label: &str| AgentContext {
        files_modified: vec!["README.md".into(), file.into()],
        labels: vec![label.into()],
        ..AgentContext::default()
    };
    assert!(holds(&files, &context("src/engine/stop.rs", "")));
    assert!(!holds(&files, &context("docs/stop.rs", "")));
    assert!(holds(&labels, &context("", "risky")));
    assert!(!holds(&labels, &context("", "dull")));
    assert!(holds(
        &StopHookCondition::default(),
        &AgentContext::default()
    ));
}

#[test]
fn a_session_killed_in_a_turn_gets_the_checkpoint_too() {
    let mut world = World::begin(
        Script::new()
            .stop_hooks([halfway(StopAction::Continue)])
            .agent([WORKING]),
    );
    world.settle();
    world.finish_turn();
    assert!(world.turn.is_some(), "the second iteration works");
    let mut world = World::from_events(world.script.clone(), &world.events);
    world.input(Input::Resume {
        presence: UserPresence::Unattended,
        max_iterations: None,
        checkpoint: Some(1),
        answer: None,
    });
    let (_, again) = world.turn.clone().expect("a prompt");
    assert_eq!(again, "GOAL");
    world.finish_turn();
    let (_, told) = world.turn.clone().expect("a prompt");
    assert_eq!(
        told,
        "[Message]: from the user\n[Checkpoint 1 · iteration 1]\n{\"milestone\":\"halfway\"}"
    );
}

#[test]
fn a_hook_that_no_agent_could_register_is_not_loaded_from_a_journal() {
    let mut world = World::begin(Script::new());
    let registered = |name: &str, judge: StopHookKind| {
        Event::Stop(StopEvent::HookRegistered {
            hook_id: name.into(),
            task: "story".into(),
            hook: Box::new(StopHook {
                judge,
                ..StopHook::preset(StopPreset::Default)
            }),
            metadata: serde_json::Map::new(),
            by: ActorKind::Mcp.into(),
        })
    };
    let command = StopHookKind::Command {
        command: "touch pwned".into(),
        timeout: TimeSpan::secs(60),
    };
    world.state.apply(UnixTime(0), &registered("bad", command));
    world.state.apply(
        UnixTime(0),
        &registered("good", StopHookKind::Preset(StopPreset::Promise)),
    );
    let known: Vec<&str> = world
        .state
        .stop
        .registered
        .iter()
        .map(|known| known.id.as_str())
        .collect();
    assert_eq!(known, ["good"]);
}
