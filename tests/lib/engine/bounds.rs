//! Every session ends, whatever its hooks and its agent do: stories about the limits that ensure
//! it.

use creel::engine::{
    conversation::{AgentUpdate, ToolCall, ToolStatus},
    event::{
        Event, HookEvent, IterationOutcome, PromptReason, SessionEvent, SessionOutcome, StopTiming,
        TurnEvent, UserPresence,
    },
    gate::kind::{GateChoice, GateKind},
    hooks::point::HookPoint,
    input::{Input, SessionCommand},
    pending::ItemState,
};
use expect_test::expect;

use crate::support::world::*;

const WORKS: Answer = Answer::Says("Working.");
const COMPLETES: &[Deed] = &[Deed::CompletesTask];

fn prompts(world: &World, reason: PromptReason) -> usize {
    world
        .events
        .iter()
        .filter(|event| matches!(event, Event::Turn(TurnEvent::PromptSent(sent)) if sent.reason == reason))
        .count()
}

fn warned(world: &World, what: &str) -> bool {
    world
        .events
        .iter()
        .any(|event| matches!(event, Event::Session(SessionEvent::Warning { text }) if text.contains(what)))
}

/// An agent that completes a task in every turn, and a hook that prints something about each.
fn chatty(tokens: u64) -> Script {
    Script::new()
        .piped(HookPoint::OnTaskComplete, "note", [prints("seen")])
        .agent([Answer::Acts(COMPLETES, tokens)])
        .plan(|plan| plan.max_iterations = 1)
}

#[test]
fn there_are_at_most_three_final_deliveries_and_later_items_are_listed() {
    let world = World::begin(chatty(0)).run();
    assert_eq!(
        (
            world.state.phase.outcome(),
            prompts(&world, PromptReason::FinalDelivery)
        ),
        (Some(SessionOutcome::Limit), 3)
    );
    assert_eq!(world.state.pending.waiting().count(), 1);
    assert!(
        warned(&world, "not delivered: item 4; the text is in the journal"),
        "{}",
        world.story()
    );
}

#[test]
fn a_message_is_still_sent_after_the_last_final_delivery() {
    let mut world = World::begin(chatty(0));
    world.settle();
    while prompts(&world, PromptReason::FinalDelivery) < 3 {
        assert!(world.step());
    }
    world.command(SessionCommand::Message {
        text: "One more thing.".into(),
    });
    let world = world.run();
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Limit));
    let last = world.events.iter().rev().find_map(|event| match event {
        Event::Turn(TurnEvent::PromptSent(sent)) => Some((sent.reason, sent.items.len())),
        _ => None,
    });
    assert_eq!(
        last,
        Some((PromptReason::Message, 0)),
        "the message goes without what is held"
    );
    assert!(world.state.steering.messages.is_empty());
}

#[test]
fn an_exhausted_budget_stops_the_final_delivery() {
    let script = chatty(100).plan(|plan| plan.budget.tokens = Some(150));
    let world = World::begin(script.clone()).run();
    assert_eq!(
        (
            world.state.phase.outcome(),
            prompts(&world, PromptReason::FinalDelivery)
        ),
        (Some(SessionOutcome::Limit), 1)
    );
    assert!(warned(&world, "not delivered: item 2"), "{}", world.story());
    // The user can grant more: here once, after the loop.
    let answers = [
        (GateKind::FinalDelivery, GateChoice::Approve),
        (GateKind::FinalDelivery, GateChoice::Approve),
        (GateKind::Budget, GateChoice::Continue),
        (GateKind::FinalDelivery, GateChoice::Approve),
        (GateKind::Budget, GateChoice::Stop),
    ];
    let world = World::begin(script.attended(&answers)).run();
    assert_eq!(
        (
            world.state.phase.outcome(),
            prompts(&world, PromptReason::FinalDelivery)
        ),
        (Some(SessionOutcome::Limit), 2)
    );
}

#[test]
fn a_complete_loop_stays_complete_when_the_budget_stops_its_delivery() {
    let script = Script::new()
        .piped(HookPoint::PostIteration, "test", [prints("red")])
        .agent([Answer::Spends(100)])
        .stop_command(
            "decides",
            [prints(r#"{"action": "complete", "reason": "good"}"#)],
        )
        .plan(|plan| plan.budget.tokens = Some(50));
    let world = World::begin(script).run();
    assert_eq!(
        (
            world.state.phase.outcome(),
            prompts(&world, PromptReason::FinalDelivery)
        ),
        (Some(SessionOutcome::Complete), 0)
    );
    assert!(warned(&world, "not delivered: item 1"), "{}", world.story());
}

/// Every reason to send a prompt except the first, each with a budget that the first turn has used
/// up.
#[test]
fn the_budget_is_checked_before_a_prompt_whatever_its_reason() {
    let spends = || {
        Script::new()
            .agent([Answer::Spends(100)])
            .plan(|plan| plan.budget.tokens = Some(50))
    };
    let feedback = spends().hook(HookPoint::Stop, "tests", [blocks("red")]);
    let remediation = spends().submits().built_in(
        HookPoint::BeforeSubmit,
        "run_tests",
        [wants(Some("Repair it."))],
    );
    let gatekeeper = spends()
        .submits()
        .review(HookPoint::BeforeSubmit, &[("ada", &[DONE])]);
    let complete = [prints(r#"{"action": "complete", "reason": "good"}"#)];
    let scripts = [
        feedback,
        remediation.stop_command("decides", complete.clone()),
        gatekeeper.stop_command("decides", complete),
    ];
    for script in scripts {
        let world = World::begin(script).run();
        let sent = world
            .events
            .iter()
            .filter(|event| matches!(event, Event::Turn(TurnEvent::PromptSent(_))))
            .count();
        assert_eq!(sent, 1, "{}", world.story());
        assert!(
            world
                .story()
                .contains("gate 1 budget\n  gate 1 stop by Policy"),
            "{}",
            world.story()
        );
        assert!(world.state.phase.outcome().is_some());
        every_run_has_ended(&world);
    }
}

#[test]
fn a_message_waits_at_the_budget_gate() {
    let script = Script::new()
        .agent([Answer::Spends(100)])
        .plan(|plan| plan.budget.tokens = Some(50));
    let mut world = World::begin(script.attended(&[(GateKind::Budget, GateChoice::Stop)]));
    world.settle();
    world.command(SessionCommand::Message {
        text: "Use tabs.".into(),
    });
    let world = world.run();
    assert_eq!(
        (
            world.state.phase.outcome(),
            prompts(&world, PromptReason::Message)
        ),
        (Some(SessionOutcome::Limit), 0)
    );
}

#[test]
fn a_recovery_waits_at_the_budget_gate() {
    let script = Script::new()
        .piped(HookPoint::OnError, "look", [prints("down")])
        .agent([Answer::Spends(100), Answer::Fails("reset")])
        .plan(|plan| plan.budget.tokens = Some(100))
        .attended(&[
            (GateKind::Budget, GateChoice::Continue),
            (GateKind::Budget, GateChoice::Stop),
        ]);
    let mut world = World::begin(script);
    world.settle();
    // The second turn fails without using anything: the budget is what the first turn left of it.
    for _ in 0..3 {
        world.step();
    }
    world.state.account.used.tokens = 200;
    let world = world.run();
    assert_eq!(
        prompts(&world, PromptReason::Recovery),
        0,
        "{}",
        world.story()
    );
}

#[test]
fn a_cut_turn_is_not_sent_again_past_the_budget() {
    let script = Script::new()
        .agent([Answer::Spends(100)])
        .plan(|plan| plan.budget.tokens = Some(100));
    let script = script.attended(&[(GateKind::Budget, GateChoice::Continue)]);
    let mut world = World::begin(script.clone());
    world.settle();
    world.step();
    world.step();
    assert!(world.turn.is_some(), "{}", world.story());
    let mut cut = World::from_events(script, &world.events);
    cut.state.account.used.tokens = 500;
    cut.input(Input::Resume {
        presence: UserPresence::Unattended,
        max_iterations: None,
        checkpoint: None,
        answer: None,
    });
    assert!(cut.story().ends_with("gate 2 budget\n  gate 2 stop by Policy\niteration 2 failed\n  LoopEnded\nended limit (the budget of 200 tokens is used up: 500 so far)\n"), "{}", cut.story());
}

#[test]
fn a_submit_that_the_budget_stopped_is_retried_with_the_same_amount_after_resume() {
    let script = Script::new()
        .agent([Answer::Spends(100)])
        .submits()
        .review(
            HookPoint::BeforeSubmit,
            &[("ada", &[Answer::Says("<verdict>approve</verdict>")])],
        )
        .stop_command(
            "decides",
            [prints(r#"{"action": "complete", "reason": "good"}"#)],
        )
        .plan(|plan| plan.budget.tokens = Some(50));
    let held = World::begin(script.clone()).run();
    assert_eq!(
        held.state.phase.outcome(),
        Some(SessionOutcome::Escalated),
        "{}",
        held.story()
    );
    let resumed = World::from_events(script, &held.events).resume();
    assert_eq!(
        resumed.state.phase.outcome(),
        Some(SessionOutcome::Complete),
        "{}",
        resumed.story()
    );
    every_run_has_ended(&resumed);
}

#[test]
fn a_chain_of_hooks_that_complete_further_tasks_is_cut_with_a_warning() {
    let script = Script::new()
        .hook(HookPoint::OnTaskComplete, "next", [acts(COMPLETES)])
        .agent([Answer::Acts(COMPLETES, 0), DONE])
        .plan(|plan| plan.max_iterations = 1);
    let world = World::begin(script).run();
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Limit));
    assert!(
        warned(&world, "creel stops on_task_complete here: 8 tasks led to"),
        "{}",
        world.story()
    );
    let runs = world
        .events
        .iter()
        .filter(|event| matches!(event, Event::Hook(HookEvent::Finished(_))))
        .count();
    assert!((9..=10).contains(&runs), "{runs} runs");
}

#[test]
fn hooks_that_complete_several_tasks_each_are_cut_before_there_are_thousands_of_runs() {
    let script = Script::new()
        .hook(HookPoint::OnTaskComplete, "one", [acts(COMPLETES)])
        .hook(HookPoint::OnTaskComplete, "two", [acts(COMPLETES)])
        .hook(HookPoint::OnTaskComplete, "three", [acts(COMPLETES)])
        .agent([Answer::Acts(COMPLETES, 0), DONE])
        .plan(|plan| plan.max_iterations = 1);
    let world = World::begin(script).run();
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Limit));
    assert!(
        warned(&world, "hooks completed 64 tasks since the last prompt"),
        "{}",
        world.story()
    );
    let runs = world
        .events
        .iter()
        .filter(|event| matches!(event, Event::Hook(HookEvent::Finished(_))))
        .count();
    assert!(runs <= 3 * 66, "{runs} runs");
}

#[test]
fn a_message_of_the_agent_uses_up_an_iteration() {
    let talks = Answer::Acts(&[Deed::SendsMessage], 0);
    let world = World::begin(
        Script::new()
            .agent([talks.clone()])
            .plan(|plan| plan.max_iterations = 3),
    )
    .run();
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          MessageQueued
          turn ended EndTurn
          prompt Message "[Message]: from yourself, in an earlier turn\nAgain."
          MessageQueued
          turn ended EndTurn
          prompt Message "[Message]: from yourself, in an earlier turn\nAgain."
          MessageQueued
          turn ended EndTurn
        iteration 1 done
          decided Continue
          LoopEnded
          warning not sent: 1 message of the agent or its hooks; the text is in the journal
        ended limit (stopped at 3 iterations: the agent has not said that it is done)
    "#]]
    .assert_eq(&world.story());
    // A message from the user does not count, and the agent's message is sent along with it.
    let mut world = World::begin(
        Script::new()
            .agent([talks, DONE])
            .plan(|plan| plan.max_iterations = 1),
    );
    world.settle();
    world.command(SessionCommand::Message {
        text: "Use tabs.".into(),
    });
    let world = world.run();
    assert!(
        world
            .story()
            .contains("Use tabs.\\n\\n[Message]: from yourself, in an earlier turn\\nAgain.\""),
        "{}",
        world.story()
    );
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Complete));
}

#[test]
fn a_message_of_the_agent_does_not_reset_the_retries() {
    let talks = Answer::Acts(&[Deed::SendsMessage], 0);
    let script = |agent: &[Answer]| {
        Script::new()
            .hook(HookPoint::Stop, "tests", [blocks("red")])
            .agent(agent)
            .plan(|plan| (plan.max_iterations, plan.max_hook_retries) = (3, 2))
    };
    // The message has a prompt of its own, after the first feedback.
    let world = World::begin(script(&[WORKS, talks.clone(), DONE])).run();
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop tests exit 2 -> Block
          retry 1/2
          prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\nred"
          MessageQueued
          turn ended EndTurn
          prompt Message "[Message]: from yourself, in an earlier turn\nAgain."
          turn ended EndTurn
          stop tests exit 2 -> Block
          retry 2/2 no progress
          prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\nred"
          turn ended EndTurn
          stop tests exit 2 -> Block
          retry limit 2/2
          warning [Warning: Hook retry limit (2) reached. Completing execution.]
          gate 1 retry_limit
          gate 1 ignore by Policy
        iteration 1 forced
          decided Complete
          LoopEnded
        ended forced (tests still fails after 2 retries; accepted because on_limit is complete)
    "#]]
    .assert_eq(&world.story());
    // The message is sent with the feedback.
    let last = script(&[talks]).plan(|plan| plan.max_iterations = 1);
    let world = World::begin(last).run();
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Forced));
    assert_eq!(
        prompts(&world, PromptReason::Feedback),
        2,
        "{}",
        world.story()
    );
    assert!(
        world
            .story()
            .contains("Again.\\n\\n[Hook feedback]: check `tests` failed, exit 2\\nred\""),
        "{}",
        world.story()
    );
}

#[test]
fn a_message_that_a_hook_queues_after_the_loop_counts_too() {
    let talks = |max| {
        let script = Script::new()
            .hook(
                HookPoint::PostIteration,
                "talks",
                [acts(&[Deed::SendsMessage])],
            )
            .agent([DONE]);
        World::begin(script.plan(|plan| plan.max_iterations = max)).run()
    };
    for (max, sent) in [(3, 2), (2, 1), (1, 0)] {
        let world = talks(max);
        assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Complete));
        assert_eq!(
            prompts(&world, PromptReason::Message),
            sent,
            "{}",
            world.story()
        );
        assert!(
            warned(&world, "not sent: 1 message"),
            "the hook talks after each answer:\n{}",
            world.story()
        );
    }
}

#[test]
fn a_task_completed_while_the_session_stops_gets_its_hooks_when_it_is_resumed() {
    let script = Script::new()
        .piped(HookPoint::OnTaskComplete, "note", [prints("seen")])
        .agent([WORKS, DONE]);
    let mut world = World::begin(script.clone());
    world.settle();
    world.command(completes("early", "before"));
    world.command(SessionCommand::Stop {
        how: StopTiming::Now,
    });
    world.command(completes("late", "on the way out"));
    let stopped = world.run();
    assert_eq!(
        stopped.state.phase.outcome(),
        Some(SessionOutcome::Cancelled)
    );
    assert!(warned(
        &stopped,
        "the on_task_complete hooks of 2 tasks have not run; they run when you resume"
    ));
    let resumed = World::from_events(script, &stopped.events).resume();
    let ran: Vec<String> = resumed
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Hook(HookEvent::Due {
                task: Some(task), ..
            }) => Some(task.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(ran, ["early", "late"]);
    assert_eq!(
        resumed
            .story()
            .matches("on_task_complete note exit 0 -> Pass piped")
            .count(),
        2
    );
    assert_eq!(
        resumed.state.pending.waiting().count(),
        0,
        "both were delivered"
    );
    every_run_has_ended(&resumed);
}

#[test]
fn a_task_completed_while_session_end_is_stopped_gets_its_hooks_before_the_end() {
    let script = Script::new()
        .hook(HookPoint::OnTaskComplete, "note", [passes()])
        .hook(HookPoint::SessionEnd, "bye", [passes()]);
    let mut world = World::begin(script);
    world.settle();
    world.finish_turn();
    assert_eq!(world.jobs.len(), 1, "session_end runs");
    world.command(SessionCommand::Stop {
        how: StopTiming::Now,
    });
    world.command(completes("late", "on the way out"));
    let world = world.run();
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Complete));
    assert!(
        world.story().contains("on_task_complete note exit 0"),
        "{}",
        world.story()
    );
}

#[test]
fn a_turn_stopped_in_the_last_iteration_is_sent_again_in_it() {
    let script = Script::new()
        .piped(HookPoint::SessionStart, "build", [prints("held")])
        .plan(|plan| plan.max_iterations = 1);
    let mut world = World::begin(script.clone());
    world.settle();
    world.finish_hook(0);
    world.command(SessionCommand::Stop {
        how: StopTiming::Now,
    });
    let stopped = world.run();
    assert_eq!(
        stopped.state.phase.outcome(),
        Some(SessionOutcome::Cancelled)
    );
    let resumed = World::from_events(script, &stopped.events).resume();
    expect![[r#"
          session_start build exit 0 -> Pass piped
          held 1 "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nheld"
        iteration 1
          prompt iteration items [1] "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nheld\n\nGOAL"
          StopRequested
          turn ended Cancelled
          LoopEnded
          warning not delivered: item 1; the text is in the journal
        ended cancelled (stopped by the user)
          SessionResumed
          prompt iteration items [1] "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nheld\n\nGOAL"
          turn ended EndTurn
          delivered [1]
        iteration 1 done
          decided Complete
          LoopEnded
        ended complete (no checks are configured, and the agent says it is done)
    "#]]
    .assert_eq(&resumed.story());
}

/// A session that is stopped anywhere and resumed reaches the same end.
#[test]
fn a_session_reaches_the_same_end_wherever_it_is_stopped_and_resumed() {
    let script = || {
        Script::new()
            .piped(HookPoint::SessionStart, "build", [prints("built")])
            .piped(HookPoint::PreIteration, "look", [prints("looked")])
            .hook(HookPoint::Stop, "tests", [blocks("3 failing"), passes()])
            .piped(HookPoint::PostIteration, "lint", [prints("lint")])
            .rule("holds", &[true])
            .stop_command(
                "decides",
                [prints(r#"{"action": "continue", "reason": "more"}"#)],
            )
            .agent([WORKS, WORKS, DONE])
            .plan(|plan| plan.max_iterations = 2)
    };
    let ends = |world: &World| {
        let answered = world.events.iter().filter(|event| {
            matches!(event, Event::Turn(TurnEvent::Ended { stop_reason, .. }) if *stop_reason != creel::engine::conversation::StopReason::Cancelled)
        });
        let forced = world
            .events
            .iter()
            .filter(|e| matches!(e, Event::Session(SessionEvent::IterationCompleted { outcome, .. }) if *outcome != IterationOutcome::Done));
        (
            world.state.phase.outcome(),
            world.state.iterations.current,
            answered.count(),
            forced.count(),
        )
    };
    let uncut = World::begin(script()).run();
    for steps in 0..40 {
        let mut world = World::begin(script());
        world.settle();
        if !(0..steps).all(|_| world.step()) || world.state.ending.is_some() {
            continue;
        }
        world.command(SessionCommand::Stop {
            how: StopTiming::Now,
        });
        let stopped = world.run();
        let resumed = World::from_events(script(), &stopped.events).resume();
        assert_eq!(
            ends(&resumed),
            ends(&uncut),
            "stopped after {steps} steps:\n{}",
            resumed.story()
        );
        every_run_has_ended(&resumed);
    }
}

#[test]
fn after_cancelling_a_turn_the_user_can_write_another_message() {
    let script = Script::new()
        .piped(HookPoint::SessionStart, "build", [prints("held")])
        .agent([DONE]);
    let mut world = World::begin(script.plan(|plan| plan.max_iterations = 1));
    world.settle();
    world.finish_hook(0);
    world.command(SessionCommand::CancelTurn);
    world.finish_turn();
    assert!(
        world.state.steering.paused && !world.step(),
        "nothing is sent by itself"
    );
    world.command(SessionCommand::Message {
        text: "Use tabs.".into(),
    });
    expect![[r#"
          session_start build exit 0 -> Pass piped
          held 1 "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nheld"
        iteration 1
          prompt iteration items [1] "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nheld\n\nGOAL"
          Paused
          turn ended Cancelled
          MessageQueued
          Unpaused
          prompt Message "[Message]: from the user\nUse tabs."
          turn ended EndTurn
        iteration 1 done
          decided Complete
          LoopEnded
          gate 1 final_delivery
          gate 1 approve by Policy
          prompt FinalDelivery items [1] "[Final delivery]: the loop has ended; this output of hooks has not reached you yet. Act on it if it needs work.\n\n[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nheld"
          turn ended EndTurn
          delivered [1]
        ended complete (no checks are configured, and the agent says it is done)
    "#]]
    .assert_eq(&world.run().story());
}

#[test]
fn a_cancelled_turn_is_sent_again_in_its_iteration_when_the_session_continues() {
    let script = Script::new()
        .piped(HookPoint::SessionStart, "build", [prints("held")])
        .plan(|plan| plan.max_iterations = 1);
    let cancelled = || {
        let mut world = World::begin(script.clone());
        world.settle();
        world.finish_hook(0);
        world.command(SessionCommand::CancelTurn);
        world.finish_turn();
        world
    };
    let goes_on = |mut world: World| {
        world.command(SessionCommand::Unpause);
        world.run()
    };
    let killed = World::from_events(script.clone().attended(&[]), &cancelled().events).resume();
    assert!(
        killed.state.steering.paused && killed.state.phase.outcome().is_none(),
        "a kill does not end the pause"
    );
    for world in [goes_on(cancelled()), goes_on(killed)] {
        assert_eq!(
            (world.state.phase.outcome(), world.state.iterations.current),
            (Some(SessionOutcome::Complete), 1)
        );
        assert_eq!(
            prompts(&world, PromptReason::Iteration),
            2,
            "{}",
            world.story()
        );
        assert!(
            world
                .state
                .pending
                .items()
                .iter()
                .all(|item| item.state == ItemState::Delivered)
        );
    }
    // If the user stops the session afterwards, the turn is not sent again.
    let mut world = cancelled();
    world.command(SessionCommand::Stop {
        how: StopTiming::AfterIteration,
    });
    let world = world.run();
    assert_eq!(
        (
            world.state.phase.outcome(),
            prompts(&world, PromptReason::Iteration)
        ),
        (Some(SessionOutcome::Cancelled), 1)
    );
}

#[test]
fn a_message_that_cancels_the_turn_is_sent_at_once() {
    let mut world = World::begin(Script::new().plan(|plan| plan.max_iterations = 1));
    world.settle();
    world.command(SessionCommand::Message {
        text: "Stop that.".into(),
    });
    world.command(SessionCommand::CancelTurn);
    let world = world.run();
    assert_eq!(
        (
            world.state.phase.outcome(),
            prompts(&world, PromptReason::Message)
        ),
        (Some(SessionOutcome::Complete), 1)
    );
    assert!(!world.story().contains("Paused"));
}

fn calls(world: &mut World, call: &str, status: ToolStatus) {
    let (turn, _) = world.turn.clone().expect("a turn");
    let tool = ToolCall {
        call: call.into(),
        title: call.into(),
        status,
        ..ToolCall::default()
    };
    world.input(Input::Agent {
        turn,
        update: AgentUpdate::ToolCalled(tool),
    });
}

/// How the tool calls of a session ended, by the last record of each.
fn ended_calls(world: &World) -> Vec<(String, ToolStatus)> {
    let mut last = std::collections::BTreeMap::new();
    for event in &world.events {
        if let Event::Turn(
            TurnEvent::ToolCalled { tool, .. } | TurnEvent::ToolUpdated { tool, .. },
        ) = event
        {
            last.insert(tool.call.clone(), tool.status);
        }
    }
    last.into_iter().collect()
}

#[test]
fn every_tool_call_ends_with_its_turn_however_that_ends() {
    let begun = |script: Script| {
        let mut world = World::begin(script);
        world.settle();
        calls(&mut world, "a", ToolStatus::InProgress);
        calls(&mut world, "b", ToolStatus::Completed);
        world
    };
    let one = |status| {
        vec![
            ("a".to_owned(), status),
            ("b".to_owned(), ToolStatus::Completed),
        ]
    };
    assert_eq!(
        ended_calls(&begun(Script::new()).run()),
        one(ToolStatus::Completed)
    );
    let fails = Script::new().agent([Answer::Fails("reset")]);
    assert_eq!(ended_calls(&begun(fails).run()), one(ToolStatus::Failed));
    let mut stopped = begun(Script::new());
    stopped.command(SessionCommand::Stop {
        how: StopTiming::Now,
    });
    assert_eq!(ended_calls(&stopped.run()), one(ToolStatus::Failed));
    let killed = begun(Script::new());
    let killed = World::from_events(Script::new(), &killed.events).resume();
    assert_eq!(ended_calls(&killed), one(ToolStatus::Failed));
    let mut ended = begun(Script::new());
    ended.input(Input::CannotContinue("the folder is gone".into()));
    assert_eq!(ended_calls(&ended), one(ToolStatus::Failed));
}

fn every_run_has_ended(world: &World) {
    for event in &world.events {
        let Event::Hook(HookEvent::Started { run, hook, .. }) = event else {
            continue;
        };
        let ends = world
            .events
            .iter()
            .filter(|e| matches!(e, Event::Hook(HookEvent::Finished(done)) if done.run == *run))
            .count();
        assert_eq!(ends, 1, "run {run} of {hook}:\n{}", world.story());
    }
}

#[test]
fn a_pause_survives_a_kill_and_ends_with_the_session() {
    let script = || {
        Script::new()
            .agent([WORKS])
            .plan(|plan| plan.max_iterations = 1)
    };
    let mut world = World::begin(script());
    world.settle();
    world.command(SessionCommand::Pause);
    let unattended = World::from_events(script(), &world.events).resume();
    assert_eq!(
        unattended.state.phase.outcome(),
        Some(SessionOutcome::Limit),
        "unattended, no user could end the pause"
    );
    let script = || script().attended(&[]);
    let killed = World::from_events(script(), &world.events).resume();
    assert!(
        killed.state.steering.paused && killed.turn.is_none(),
        "the turn that was cut off waits"
    );
    let mut again = World::from_events(script(), &killed.events).resume();
    assert!(again.state.steering.paused && again.turn.is_none());
    again.command(SessionCommand::Unpause);
    let ended = again.run();
    assert_eq!(ended.state.phase.outcome(), Some(SessionOutcome::Limit));
    // A paused session that is stopped and resumed continues; the same applies to an ended one.
    let mut world = World::begin(script());
    world.settle();
    world.command(SessionCommand::Pause);
    world.command(SessionCommand::Stop {
        how: StopTiming::Now,
    });
    let stopped = world.run();
    assert_eq!(
        stopped.state.phase.outcome(),
        Some(SessionOutcome::Cancelled)
    );
    assert_eq!(
        World::from_events(script(), &stopped.events)
            .resume()
            .state
            .phase
            .outcome(),
        Some(SessionOutcome::Limit)
    );
    let mut world = World::begin(script());
    world.settle();
    world.command(SessionCommand::Pause);
    world.finish_turn();
    assert_eq!(
        world.state.phase.outcome(),
        None,
        "a pause holds the end of the loop, too"
    );
    world.command(SessionCommand::Unpause);
    let ended = world.run();
    assert_eq!(ended.state.phase.outcome(), Some(SessionOutcome::Limit));
    let mut more = World::from_events(script(), &ended.events);
    more.input(Input::Resume {
        presence: more.script.presence,
        max_iterations: Some(2),
        checkpoint: None,
        answer: None,
    });
    assert_eq!(more.run().state.iterations.current, 2);
}
