//! Hooks of `on_gate`: they notify the user beside the session when a gate opens and closes.

use creel::engine::{
    conversation::StopReason,
    effect::ExitReason,
    event::{Event, GateEvent, HookEvent, SessionEvent, SessionOutcome, StopTiming, TurnEvent},
    gate::kind::{GateChoice, GateKind},
    hooks::point::HookPoint,
    input::{Input, SessionCommand},
    policy::{DeliveryPolicy, FinalDeliveryPolicy, HookFailurePolicy, PermissionPolicy},
};
use expect_test::expect;

use crate::support::world::*;

/// A stop hook that blocks until the user ignores it, and a hook that notifies.
fn limited() -> Script {
    let script = Script::new()
        .agent([DONE])
        .hook(HookPoint::Stop, "tests", [blocks("red")]);
    script
        .hook(HookPoint::OnGate, "tell", [passes()])
        .plan(|plan| plan.max_hook_retries = 0)
}

/// What the hooks were told: which gate, and whether it opened or closed.
fn told(world: &World) -> Vec<(u64, &'static str)> {
    let gates = world.jobs.iter().filter_map(|job| job.facts.gate.as_ref());
    gates.map(|gate| (gate.gate.0, gate.state.name())).collect()
}

#[test]
fn hooks_run_beside_the_session_when_a_gate_opens_and_when_it_closes() {
    let mut world = World::begin(limited().attended(&[(GateKind::RetryLimit, GateChoice::Ignore)]));
    world.settle();
    world.finish_turn();
    world.finish_hook(0);
    assert_eq!(told(&world), [(1, "opened")]);
    assert!(
        world.jobs[0]
            .facts
            .gate
            .as_ref()
            .is_some_and(|gate| gate.waits_for_user)
    );
    // The hook still runs, and the gate accepts an answer.
    world.answer_gate();
    assert!(
        world.state.ending.is_some(),
        "the session continues: {}",
        world.story()
    );
    assert_eq!(
        world.state.phase.outcome(),
        None,
        "the end waits for the hooks"
    );
    world.finish_hook(0);
    assert_eq!(told(&world), [(1, "closed")]);
    let closed = world.jobs[0]
        .facts
        .gate
        .as_ref()
        .and_then(|gate| gate.answer)
        .map(|(choice, _)| choice);
    assert_eq!(closed, Some(GateChoice::Ignore));
    let world = world.run();
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Forced));
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop tests exit 2 -> Block
          retry limit 0/0
          gate 1 retry_limit
          gate 1 ignore by Tui
        iteration 1 forced
          decided Complete
          LoopEnded
          on_gate tell exit 0 -> Pass
          on_gate tell exit 0 -> Pass
        ended forced (tests still fails; you accepted it)
    "#]]
    .assert_eq(&world.story());
}

#[test]
fn a_gate_that_the_config_answers_is_announced_as_one_that_does_not_wait_for_the_user() {
    let mut world = World::begin(limited());
    world.settle();
    world.finish_turn();
    world.finish_hook(0);
    let gate = world.jobs[0].facts.gate.clone().expect("a gate");
    assert_eq!(
        (gate.about, gate.waits_for_user),
        (GateKind::RetryLimit, false)
    );
    let world = world.run();
    let runs = world.events.iter().filter(
        |e| matches!(e, Event::Hook(HookEvent::Finished(done)) if done.point == HookPoint::OnGate),
    );
    assert_eq!(
        (world.state.phase.outcome(), runs.count()),
        (Some(SessionOutcome::Forced), 2)
    );
}

#[test]
fn an_unattended_session_that_needs_the_user_ends_only_after_its_hooks_have_run() {
    let script = Script::new()
        .piped(HookPoint::SessionStart, "lint", [prints("red")])
        .agent([DONE]);
    let script = script.hook(HookPoint::OnGate, "tell", [passes()]);
    let mut world = World::begin(script.plan(|plan| plan.gates.delivery = DeliveryPolicy::Ask));
    world.settle();
    world.finish_hook(0);
    assert_eq!((told(&world), world.left), (vec![(1, "opened")], None));
    assert!(
        world.jobs[0]
            .facts
            .gate
            .as_ref()
            .is_some_and(|gate| gate.waits_for_user)
    );
    world.finish_hook(0);
    assert_eq!(world.left, Some(ExitReason::NeedsUser));
}

#[test]
fn failing_gate_hooks_open_no_gate() {
    for failure in [
        None,
        Some(HookFailurePolicy::Block),
        Some(HookFailurePolicy::Escalate),
    ] {
        let script = Script::new()
            .agent([DONE])
            .hook(HookPoint::Stop, "tests", [blocks("red")]);
        let script = script.hook_with(HookPoint::OnGate, "tell", [breaks()], |spec| {
            spec.on_failure = failure;
        });
        let script = script.plan(|plan| plan.max_hook_retries = 0);
        let world =
            World::begin(script.attended(&[(GateKind::RetryLimit, GateChoice::Ignore)])).run();
        let opened = world
            .events
            .iter()
            .filter(|event| matches!(event, Event::Gate(GateEvent::Opened { .. })))
            .count();
        assert_eq!(
            (world.state.phase.outcome(), opened),
            (Some(SessionOutcome::Forced), 1),
            "{}",
            world.story()
        );
        let warned = |event: &&Event| matches!(event, Event::Session(SessionEvent::Warning { text }) if text.contains("`tell` at on_gate"));
        assert_eq!(
            world.events.iter().filter(warned).count(),
            2,
            "{}",
            world.story()
        );
    }
}

/// The hook completes a task at every gate, and what the task's own hook prints opens the next
/// gate.
#[test]
fn a_chain_of_gates_ends() {
    let script = Script::new()
        .piped(HookPoint::SessionStart, "lint", [prints("red")])
        .piped(HookPoint::OnTaskComplete, "note", [prints("more")])
        .hook(HookPoint::OnGate, "tell", [acts(&[Deed::CompletesTask])])
        .agent([DONE])
        .plan(|plan| {
            plan.gates.delivery = DeliveryPolicy::Ask;
            plan.gates.final_delivery = Some(FinalDeliveryPolicy::Auto);
        });
    let world = World::begin(script.attended(&[(GateKind::Delivery, GateChoice::Approve)])).run();
    let cut = |event: &&Event| matches!(event, Event::Session(SessionEvent::Warning { text }) if text.contains("creel stops on_task_complete here"));
    assert!(
        world.events.iter().any(|event| cut(&event)),
        "{}",
        world.story()
    );
    assert_eq!(
        world.state.phase.outcome(),
        Some(SessionOutcome::Complete),
        "{}",
        world.story()
    );
}

#[test]
fn a_hook_that_was_cut_by_a_kill_runs_again_for_the_same_gate() {
    let mut world = World::begin(limited().attended(&[(GateKind::RetryLimit, GateChoice::Ignore)]));
    world.settle();
    world.finish_turn();
    world.finish_hook(0);
    let mut world = World::from_events(world.script, &world.events);
    world.input(Input::Resume {
        presence: world.script.presence,
        max_iterations: None,
        checkpoint: None,
        answer: None,
    });
    assert_eq!(told(&world), [(1, "opened")]);
    assert_eq!(
        world.run().state.phase.outcome(),
        Some(SessionOutcome::Forced)
    );
}

#[test]
fn an_immediate_stop_ends_gate_hooks_and_starts_none() {
    let mut world = World::begin(limited().attended(&[]));
    world.settle();
    world.finish_turn();
    world.finish_hook(0);
    let run = world.jobs[0].run;
    world.command(SessionCommand::Stop {
        how: StopTiming::Now,
    });
    assert_eq!(world.cancelled, [run]);
    world.finish_hook(0);
    assert_eq!(
        (world.state.phase.outcome(), world.jobs.len()),
        (Some(SessionOutcome::Cancelled), 0),
        "{}",
        world.story()
    );
}

/// The user answers while the first of two hooks is running: the second one does not call for the
/// user any more.
#[test]
fn a_hook_that_starts_after_the_answer_does_not_call_the_user() {
    let script = limited().hook(HookPoint::OnGate, "second", [passes()]);
    let mut world = World::begin(script.attended(&[(GateKind::RetryLimit, GateChoice::Ignore)]));
    world.settle();
    world.finish_turn();
    world.finish_hook(0);
    world.answer_gate();
    world.finish_hook(0);
    let second = world.jobs[0].facts.gate.as_ref().expect("a gate");
    assert_eq!(
        (world.jobs[0].hook.name.as_str(), second.state.name()),
        ("second", "opened")
    );
    assert!(!second.waits_for_user);
}

#[test]
fn session_end_comes_after_the_hooks_of_gates() {
    let script = limited().hook(HookPoint::SessionEnd, "bye", [passes()]);
    let world = World::begin(script).run();
    let points = world.events.iter().filter_map(|event| match event {
        Event::Hook(HookEvent::Finished(done)) => Some(done.point.name()),
        _ => None,
    });
    assert_eq!(
        points.collect::<Vec<_>>(),
        ["stop", "on_gate", "on_gate", "session_end"]
    );
}

#[test]
fn a_permission_request_that_a_rule_answers_is_not_announced() {
    let script = Script::new().agent([Answer::Asks(&["a.rs"]), DONE]).hook(
        HookPoint::OnGate,
        "tell",
        [passes()],
    );
    let script = script.plan(|plan| plan.gates.permissions = PermissionPolicy::Allow);
    let world = World::begin(script.attended(&[])).run();
    assert!(!world.story().contains("on_gate"), "{}", world.story());
    assert!(world.events.iter().any(|e| matches!(
        e,
        Event::Turn(TurnEvent::Ended {
            stop_reason: StopReason::EndTurn,
            ..
        })
    )));
}

#[test]
fn a_hook_run_by_hand_gets_the_open_gate() {
    let mut world = World::begin(limited().attended(&[(GateKind::RetryLimit, GateChoice::Ignore)]));
    world.settle();
    world.command(SessionCommand::RunHook {
        point: Some(HookPoint::OnGate),
        hook: "tell".into(),
    });
    assert_eq!(
        (world.jobs.len(), told(&world)),
        (1, vec![]),
        "there is no gate yet"
    );
    world.finish_hook(0);
    world.finish_turn();
    world.finish_hook(0);
    world.finish_hook(0);
    world.command(SessionCommand::RunHook {
        point: Some(HookPoint::OnGate),
        hook: "tell".into(),
    });
    assert_eq!(told(&world), [(1, "opened")]);
    assert_eq!(
        world.run().state.phase.outcome(),
        Some(SessionOutcome::Forced)
    );
}
