//! Messages that arrive when the session is about to be complete: the agent answers them, and the
//! answer is checked.

use creel::engine::{
    event::{Event, SessionOutcome, StopEvent, StopTiming, TurnEvent},
    gate::kind::{GateChoice, GateKind},
    hooks::point::HookPoint,
    input::SessionCommand,
    policy::Budget,
};
use expect_test::expect;

use crate::support::world::*;

const WORKS: Answer = Answer::Says("Working.");

fn says(world: &mut World, text: &str) {
    world.command(SessionCommand::Message { text: text.into() });
}

fn prompts(world: &World) -> usize {
    world
        .events
        .iter()
        .filter(|event| matches!(event, Event::Turn(TurnEvent::PromptSent(_))))
        .count()
}

#[test]
fn a_message_that_arrives_while_the_stop_hooks_run_is_answered_and_checked_before_the_session_is_complete()
 {
    let script = Script::new()
        .hook(
            HookPoint::Stop,
            "tests",
            [passes(), blocks("red"), passes()],
        )
        .agent([DONE]);
    let mut world = World::begin(script);
    world.settle();
    world.finish_turn();
    says(&mut world, "Use tabs.");
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          MessageQueued
          stop tests exit 0 -> Pass
        iteration 1 done
          decided Complete
          prompt Message "[Message]: from the user\nUse tabs."
          turn ended EndTurn
          stop tests exit 2 -> Block
          retry 1/5
          prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\nred"
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 1 done
          decided Complete
          LoopEnded
        ended complete (tests passed, and the agent says it is done)
    "#]]
    .assert_eq(&world.run().story());
}

#[test]
fn a_message_that_arrives_while_the_stop_decision_is_made_is_answered_first() {
    let decided = [prints(r#"{"action":"complete","reason":"fine"}"#)];
    let script = Script::new()
        .stop_hooks([])
        .stop_command("judge", decided)
        .agent([WORKS]);
    let mut world = World::begin(script.plan(|plan| plan.max_iterations = 1));
    world.settle();
    world.finish_turn();
    says(&mut world, "Use tabs.");
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
        iteration 1 done
          MessageQueued
          stop_decision judge exit 0 -> Pass
          decided Complete
          prompt Message "[Message]: from the user\nUse tabs."
          turn ended EndTurn
        iteration 1 done
          stop_decision judge exit 0 -> Pass
          decided Complete
          LoopEnded
        ended complete (no checks are configured)
    "#]]
    .assert_eq(&world.run().story());
}

#[test]
fn an_answer_without_a_promise_does_not_complete_the_session() {
    let script = Script::new()
        .hook(HookPoint::Stop, "tests", [passes()])
        .agent([DONE, WORKS, DONE]);
    let mut world = World::begin(script.clone());
    world.settle();
    world.finish_turn();
    says(&mut world, "Use tabs.");
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          MessageQueued
          stop tests exit 0 -> Pass
        iteration 1 done
          decided Complete
          prompt Message "[Message]: from the user\nUse tabs."
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 1 done
          decided Continue
        iteration 2
          prompt iteration "GOAL"
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 2 done
          decided Complete
          LoopEnded
        ended complete (tests passed, and the agent says it is done)
    "#]]
    .assert_eq(&world.run().story());
    let mut world = World::begin(script.plan(|plan| plan.max_iterations = 1));
    world.settle();
    world.finish_turn();
    says(&mut world, "Use tabs.");
    assert_eq!(
        world.run().state.phase.outcome(),
        Some(SessionOutcome::Limit),
        "the work that followed was not judged complete"
    );
}

#[test]
fn a_message_during_the_final_delivery_continues_the_loop() {
    let script = Script::new()
        .hook(HookPoint::Stop, "tests", [passes()])
        .piped(HookPoint::PostIteration, "lint", [prints("lint"), passes()])
        .agent([DONE]);
    let mut world = World::begin(script);
    world.settle();
    world.finish_turn();
    world.finish_hook(0);
    world.finish_hook(0);
    says(&mut world, "Use tabs.");
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 1 done
          post_iteration lint exit 0 -> Pass piped
          held 1 "[Hook output: post_iteration \"lint\" · exit 0 · 1.2 s]\nlint"
          decided Complete
          LoopEnded
          gate 1 final_delivery
          gate 1 approve by Policy
          prompt FinalDelivery items [1] "[Final delivery]: the loop has ended; this output of hooks has not reached you yet. Act on it if it needs work.\n\n[Hook output: post_iteration \"lint\" · exit 0 · 1.2 s]\nlint"
          MessageQueued
          turn ended EndTurn
          delivered [1]
          stop tests exit 0 -> Pass
          DeliveryChecked
          prompt Message "[Message]: from the user\nUse tabs."
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 1 done
          post_iteration lint exit 0 -> Pass
          decided Complete
          LoopEnded
        ended complete (tests passed, and the agent says it is done)
    "#]]
    .assert_eq(&world.run().story());
}

#[test]
fn items_that_the_user_approved_are_sent_before_a_later_message() {
    let script = Script::new()
        .hook(HookPoint::Stop, "tests", [passes()])
        .piped(HookPoint::PostIteration, "lint", [prints("lint"), passes()])
        .attended(&[(GateKind::FinalDelivery, GateChoice::Approve)])
        .agent([DONE]);
    let mut world = World::begin(script);
    world.settle();
    world.finish_turn();
    world.finish_hook(0);
    world.finish_hook(0);
    assert!(
        world.state.gates.open.is_some(),
        "the gate of the final delivery"
    );
    says(&mut world, "Use tabs.");
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 1 done
          post_iteration lint exit 0 -> Pass piped
          held 1 "[Hook output: post_iteration \"lint\" · exit 0 · 1.2 s]\nlint"
          decided Complete
          LoopEnded
          gate 1 final_delivery
          MessageQueued
          gate 1 approve by Tui
          prompt FinalDelivery items [1] "[Final delivery]: the loop has ended; this output of hooks has not reached you yet. Act on it if it needs work.\n\n[Hook output: post_iteration \"lint\" · exit 0 · 1.2 s]\nlint"
          turn ended EndTurn
          delivered [1]
          stop tests exit 0 -> Pass
          DeliveryChecked
          prompt Message "[Message]: from the user\nUse tabs."
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 1 done
          post_iteration lint exit 0 -> Pass
          decided Complete
          LoopEnded
        ended complete (tests passed, and the agent says it is done)
    "#]]
    .assert_eq(&world.run().story());
}

#[test]
fn a_message_during_the_submit_is_answered_and_checked_and_the_work_is_submitted_again() {
    let script = Script::new()
        .hook(HookPoint::Stop, "tests", [passes()])
        .hook(HookPoint::BeforeSubmit, "lint", [passes()])
        .submits()
        .agent([DONE]);
    let mut world = World::begin(script);
    world.settle();
    world.finish_turn();
    world.finish_hook(0);
    says(&mut world, "Use tabs.");
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 1 done
          decided Complete
          LoopEnded
        submit
          MessageQueued
          before_submit lint exit 0 -> Pass
        submit done (every check has passed)
          prompt Message "[Message]: from the user\nUse tabs."
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 1 done
          decided Complete
          LoopEnded
        submit
          before_submit lint exit 0 -> Pass
        submit done (every check has passed)
        ended complete (tests passed, and the agent says it is done)
    "#]]
    .assert_eq(&world.run().story());
}

#[test]
fn a_message_whose_turn_fails_goes_with_the_next_iteration() {
    let script = Script::new()
        .hook(HookPoint::Stop, "tests", [passes()])
        .agent([DONE, Answer::Fails("reset"), DONE]);
    let mut world = World::begin(script);
    world.settle();
    world.finish_turn();
    says(&mut world, "Use tabs.");
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          MessageQueued
          stop tests exit 0 -> Pass
        iteration 1 done
          decided Complete
          prompt Message "[Message]: from the user\nUse tabs."
          turn failed reset
        iteration 1 failed
        iteration 2
          prompt iteration "Use tabs.\n\nGOAL"
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 2 done
          decided Complete
          LoopEnded
        ended complete (tests passed, and the agent says it is done)
    "#]]
    .assert_eq(&world.run().story());
}

#[test]
fn a_message_waits_while_the_session_is_paused() {
    let script = Script::new()
        .hook(HookPoint::Stop, "tests", [passes()])
        .agent([DONE]);
    let mut world = World::begin(script);
    world.settle();
    world.finish_turn();
    says(&mut world, "Use tabs.");
    world.command(SessionCommand::Pause);
    world.finish_hook(0);
    assert_eq!((prompts(&world), world.state.phase.outcome()), (1, None));
    world.command(SessionCommand::Unpause);
    assert_eq!(prompts(&world), 2);
    world.command(SessionCommand::Stop {
        how: StopTiming::AfterIteration,
    });
    assert_eq!(
        world.run().state.phase.outcome(),
        Some(SessionOutcome::Complete)
    );
}

#[test]
fn work_that_was_judged_complete_stays_complete_if_the_budget_does_not_allow_the_answer() {
    let script = Script::new()
        .hook(HookPoint::Stop, "tests", [passes()])
        .agent([Answer::Spends(100)]);
    let decided = [prints(r#"{"action":"complete","reason":"fine"}"#)];
    let script = script.stop_hooks([]).stop_command("judge", decided);
    let mut world = World::begin(script.plan(|plan| {
        plan.budget = Budget {
            tokens: Some(50),
            ..Budget::default()
        }
    }));
    world.settle();
    world.finish_turn();
    says(&mut world, "Use tabs.");
    let world = world.run();
    assert_eq!(
        (prompts(&world), world.state.phase.outcome()),
        (1, Some(SessionOutcome::Complete)),
        "{}",
        world.story()
    );
}

#[test]
fn an_agent_that_writes_to_itself_and_promises_completion_uses_up_its_iterations() {
    let script = Script::new()
        .hook(HookPoint::Stop, "tests", [acts(&[Deed::SendsMessage])])
        .agent([DONE])
        .plan(|plan| plan.max_iterations = 4);
    let world = World::begin(script).run();
    assert_eq!(
        (prompts(&world), world.state.phase.outcome()),
        (4, Some(SessionOutcome::Complete)),
        "{}",
        world.story()
    );
}

#[test]
fn a_session_killed_at_any_record_reaches_the_same_end() {
    let script = Script::new()
        .hook(
            HookPoint::Stop,
            "tests",
            [passes(), blocks("red"), passes()],
        )
        .piped(HookPoint::PostIteration, "lint", [prints("lint")])
        .agent([DONE]);
    let mut world = World::begin(script.clone());
    world.settle();
    world.finish_turn();
    says(&mut world, "Use tabs.");
    let known = world.events.len();
    let uncut = world.run();
    let answered = |world: &World| {
        let ended = world
            .events
            .iter()
            .filter(|event| matches!(event, Event::Turn(TurnEvent::Ended { .. })))
            .count();
        let checked = world
            .events
            .iter()
            .filter(|event| matches!(event, Event::Stop(StopEvent::Decided(_))))
            .count();
        (
            ended,
            checked,
            world.state.phase.outcome(),
            world.state.steering.messages.len(),
        )
    };
    for kept in known..uncut.events.len() {
        let resumed = World::from_events(script.clone(), &uncut.events[..kept]).resume();
        assert_eq!(
            answered(&resumed),
            answered(&uncut),
            "killed after {:?}",
            uncut.events[kept - 1]
        );
    }
}
