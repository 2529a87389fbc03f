//! Sessions whose agent changes nothing more, or leaves tasks open.

use creel::engine::{
    event::{Event, SessionOutcome, StopEvent},
    gate::kind::{GateChoice, GateKind},
    hooks::point::HookPoint,
    input::SessionCommand,
    policy::{HookFailurePolicy, OpenTasksPolicy, SettledPolicy},
    tasks::command::{NewTask, TaskCommand},
};
use expect_test::expect;

use crate::support::world::*;

const WORKS: Answer = Answer::Says("Working.");

/// The first turn changes a file, the later ones nothing. The check passes.
fn quiet() -> Script {
    let mut script = Script::new()
        .hook(HookPoint::Stop, "tests", [passes()])
        .agent([WORKS])
        .plan(|plan| {
            plan.stop.settled = SettledPolicy::Complete;
            plan.stop.circuit_breaker = 0;
            plan.max_iterations = 4;
        });
    script.works = Some(1);
    script
}

/// How the session ended, after how many iterations, and the decision of each.
fn decided(script: Script) -> String {
    let world = World::begin(script).run();
    let decisions = world.events.iter().filter_map(|event| match event {
        Event::Stop(StopEvent::Decided(it)) => Some(format!("{:?} by {}", it.action, it.hook)),
        _ => None,
    });
    let decisions: Vec<String> = decisions.collect();
    let outcome = world.state.phase.outcome().map(SessionOutcome::name);
    format!("{}: {}", outcome.unwrap_or("open"), decisions.join(", "))
}

#[test]
fn an_iteration_without_work_completes_a_session_whose_checks_pass() {
    assert_eq!(
        decided(quiet()),
        "complete: Continue by default, Complete by settled"
    );
    let asks = quiet()
        .plan(|plan| plan.stop.settled = SettledPolicy::Ask)
        .attended(&[(GateKind::Escalation, GateChoice::Complete)]);
    assert_eq!(
        decided(asks),
        "complete: Continue by default, Escalate by settled"
    );
}

#[test]
fn an_iteration_without_work_completes_nothing_that_is_not_checked_or_not_quiet() {
    let goes_on =
        "limit: Continue by default, Continue by default, Continue by default, Continue by default";
    let never = quiet().plan(|plan| plan.stop.settled = SettledPolicy::Continue);
    assert_eq!(decided(never), goes_on);
    let unchecked = quiet().plan(|plan| plan.hooks.clear());
    assert_eq!(decided(unchecked), goes_on);
    let mut works = quiet();
    works.works = Some(9);
    assert_eq!(decided(works), goes_on);
    let mut unknown = quiet();
    unknown.works = None;
    assert_eq!(decided(unknown), goes_on);
    let advisory = quiet().plan(|plan| {
        let checks = plan.hooks.get_mut(&HookPoint::Stop).expect("a check");
        checks[0].on_failure = Some(HookFailurePolicy::Ignore);
    });
    assert_eq!(decided(advisory), goes_on);
    let busy = quiet().agent([Answer::Acts(&[Deed::CompletesTask], 0)]);
    assert_eq!(decided(busy), goes_on);
    let red = quiet().rule("files", &[false]);
    assert_eq!(decided(red), goes_on);
    let rules_only = quiet()
        .plan(|plan| plan.hooks.clear())
        .rule("files", &[true]);
    assert_eq!(decided(rules_only), "complete: Complete by default");
    let failing = Script {
        hooks: [("tests".to_owned(), vec![exits(1, "", "red")])].into(),
        ..quiet()
    };
    assert_eq!(decided(failing), goes_on);
    let asks = quiet().agent([WORKS, Answer::Says("<promise>ESCALATE</promise>")]);
    assert!(decided(asks).starts_with("escalated: Continue by default, Escalate by default"));
}

#[test]
fn a_session_in_which_nothing_was_done_gets_one_hint_and_then_asks() {
    let mut script = quiet();
    script.works = Some(0);
    let world = World::begin(script.clone()).run();
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 1 done
          decided Continue
        iteration 2
          prompt iteration "[Nothing changed]: the checks pass, but you have not changed any file in this session yet. Start with the goal below. If you need a decision first, ask your question and end with the tag for escalation; if nothing has to change, say so and end with the tag for completion.\n\nGOAL"
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 2 done
          decided Escalate
          gate 1 escalation
          gate 1 escalate by Policy
          LoopEnded
        ended escalated (the agent has changed nothing so far, and says: Working.)
    "#]].assert_eq(&world.story());
    // Only rules want to complete it.
    let rules = script
        .clone()
        .stop_hooks([])
        .rule("files", &[true])
        .plan(|plan| plan.hooks.clear());
    expect!["escalated: Continue by nothing_done, Escalate by nothing_done"]
        .assert_eq(&decided(rules));
    // A stop hook that the config lists decides.
    let listed = script.stop_hooks([]).stop_command(
        "judge",
        [prints(r#"{"action":"complete","reason":"enough"}"#)],
    );
    expect!["complete: Complete by judge"].assert_eq(&decided(listed));
}

fn add(goal: &str) -> SessionCommand {
    SessionCommand::Task {
        task: TaskCommand::Add(NewTask {
            goal: goal.into(),
            ..NewTask::default()
        }),
    }
}

/// A session with these tasks, before its first turn ends.
fn with_tasks(goals: &[&str], script: Script) -> World {
    let mut world = World::begin(script.plan(|plan| {
        plan.stop.open_tasks = OpenTasksPolicy::Continue;
        plan.max_iterations = 3;
    }));
    world.settle();
    for goal in goals {
        world.command(add(goal));
    }
    world
}

#[test]
fn an_agent_that_says_it_is_done_is_reminded_once_of_open_tasks() {
    let one = with_tasks(&["write the docs"], Script::new()).run();
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          TaskCreated
          turn ended EndTurn
        iteration 1 done
          decided Continue
        iteration 2
          prompt iteration "[Open tasks]: you said that you are done, but 1 task of this session is open. Complete each one with `creel task done ID` when it is done, block it with its reason, or remove it:\n- task_1 (ready): write the docs\n\nGOAL\n\nOpen tasks of this session:\n- task_1 (ready): write the docs"
          turn ended EndTurn
        iteration 2 done
          decided Complete
          LoopEnded
        ended complete (no checks are configured, and the agent says it is done; 1 task is still open)
    "#]].assert_eq(&one.story());
    // Another open task is another reason.
    let mut two = with_tasks(&["write the docs"], Script::new());
    two.finish_turn();
    two.command(add("test it"));
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          TaskCreated
          turn ended EndTurn
        iteration 1 done
          decided Continue
        iteration 2
          prompt iteration "[Open tasks]: you said that you are done, but 1 task of this session is open. Complete each one with `creel task done ID` when it is done, block it with its reason, or remove it:\n- task_1 (ready): write the docs\n\nGOAL\n\nOpen tasks of this session:\n- task_1 (ready): write the docs"
          TaskCreated
          turn ended EndTurn
        iteration 2 done
          decided Continue
        iteration 3
          prompt iteration "[Open tasks]: you said that you are done, but 2 tasks of this session are open. Complete each one with `creel task done ID` when it is done, block it with its reason, or remove it:\n- task_1 (ready): write the docs\n- task_2 (ready): test it\n\nGOAL\n\nOpen tasks of this session:\n- task_1 (ready): write the docs\n- task_2 (ready): test it"
          turn ended EndTurn
        iteration 3 done
          decided Complete
          LoopEnded
        ended complete (no checks are configured, and the agent says it is done; 2 tasks are still open)
    "#]].assert_eq(&two.run().story());
}

#[test]
fn open_tasks_do_not_hold_up_the_last_iteration_or_a_session_that_ignores_them() {
    let last = with_tasks(&["a"], Script::new()).run();
    let mut only = with_tasks(&["a"], Script::new());
    only.state.iterations.raised_limit = Some(1);
    let only = only.run();
    assert_eq!(last.state.iterations.current, 2);
    assert_eq!(only.state.iterations.current, 1);
    let mut ignored = World::begin(Script::new());
    ignored.settle();
    ignored.command(add("a"));
    assert_eq!(ignored.run().state.iterations.current, 1);
    let works = with_tasks(&["a"], Script::new().agent([WORKS])).run();
    assert_eq!(
        works.state.phase.outcome(),
        Some(SessionOutcome::Limit),
        "{}",
        works.story()
    );
}
