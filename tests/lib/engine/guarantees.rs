//! What a session guarantees in states that few sessions reach.

use creel::engine::{
    conversation::{ForbiddenChanges, StopReason, TurnEnd},
    event::{
        ActorKind, Event, GateEvent, PendingEvent, PipelineEvent, SessionOutcome, StopTiming,
        UserPresence,
    },
    gate::kind::{GateChoice, GateKind},
    hooks::{point::HookPoint, verdict::RunEnd},
    ids::ItemId,
    input::{GateAnswer, Input, SessionCommand},
    pending::ItemState,
    policy::{BackoffPolicy, DeliveryPolicy, HookFailurePolicy, RetryLimitPolicy},
    refusal::Refusal,
    time::{TimeSpan, UnixTime},
};
use expect_test::expect;

use crate::support::world::*;

const WORKS: Answer = Answer::Says("Working.");

fn outcome(world: &World) -> Option<SessionOutcome> {
    world.state.phase.outcome()
}

fn submitted(world: &World) -> bool {
    world
        .events
        .iter()
        .any(|event| matches!(event, Event::Pipeline(PipelineEvent::Started { .. })))
}

fn cannot_start() -> Ran {
    Ran {
        end: RunEnd::SpawnFailed("no such program".into()),
        ..passes()
    }
}

fn answers(gate: &World, choice: GateChoice, items: Option<&[u64]>) -> SessionCommand {
    SessionCommand::AnswerGate(GateAnswer {
        gate: gate.state.gates.open.as_ref().expect("a gate").id,
        choice,
        text: None,
        items: items.map(|ids| ids.iter().copied().map(ItemId).collect()),
    })
}

fn states(world: &World) -> Vec<ItemState> {
    let items = world.state.pending.items().iter();
    items.map(|item| item.state).collect()
}

#[test]
fn a_forced_session_does_not_submit_itself() {
    let checked = |run: Ran| {
        let script = Script::new()
            .submits()
            .hook(HookPoint::Stop, "tests", [run])
            .hook(HookPoint::BeforeSubmit, "lint", [passes()])
            .plan(|plan| plan.max_hook_retries = 1);
        World::begin(script).run()
    };
    let green = checked(passes());
    assert_eq!(outcome(&green), Some(SessionOutcome::Complete));
    assert!(submitted(&green));
    let forced = checked(blocks("red"));
    assert_eq!(outcome(&forced), Some(SessionOutcome::Forced));
    assert!(!submitted(&forced), "{}", forced.story());
    let unverified = checked(exits(1, "", "red"));
    assert_eq!(outcome(&unverified), Some(SessionOutcome::Unverified));
    assert!(!submitted(&unverified), "{}", unverified.story());
}

#[test]
fn a_check_that_cannot_start_escalates_and_is_not_forced() {
    for on_failure in [
        None,
        Some(HookFailurePolicy::Block),
        Some(HookFailurePolicy::Escalate),
    ] {
        let script =
            Script::new()
                .submits()
                .hook_with(HookPoint::Stop, "tests", [cannot_start()], |spec| {
                    spec.on_failure = on_failure;
                });
        let world = World::begin(script).run();
        assert_eq!(
            world.story(),
            "iteration 1
  prompt iteration \"GOAL\"
  turn ended EndTurn
  stop tests could not start: no such program -> Fail
  warning hook `tests` at stop: could not start: no such program
  gate 1 broken_hook
  gate 1 escalate by Policy
  LoopEnded
ended escalated (the check `tests` cannot start: Hook failed (could not start: no such program))
",
            "{on_failure:?}"
        );
    }
}

#[test]
fn the_user_repairs_or_disables_a_check_that_could_not_start() {
    let story = |choice| {
        let script = Script::new()
            .hook(HookPoint::Stop, "tests", [cannot_start(), passes()])
            .hook(HookPoint::Stop, "lint", [passes()])
            .attended(&[(GateKind::BrokenHook, choice)]);
        World::begin(script).run().story()
    };
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop tests could not start: no such program -> Fail
          warning hook `tests` at stop: could not start: no such program
          gate 1 broken_hook
          gate 1 retry by Tui
          stop tests exit 0 -> Pass
          stop lint exit 0 -> Pass
        iteration 1 done
          decided Complete
          LoopEnded
        ended complete (tests and lint passed, and the agent says it is done)
    "#]]
    .assert_eq(&story(GateChoice::Retry));
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop tests could not start: no such program -> Fail
          warning hook `tests` at stop: could not start: no such program
          gate 1 broken_hook
          HookDisabled
          gate 1 disable by Tui
          stop lint exit 0 -> Pass
        iteration 1 done
          decided Complete
          LoopEnded
        ended unverified (tests was disabled during the session)
    "#]]
    .assert_eq(&story(GateChoice::Disable));
}

#[test]
fn the_items_of_a_cancelled_turn_are_sent_again() {
    let working = || {
        let script = Script::new()
            .piped(HookPoint::SessionStart, "build", [prints("held")])
            .agent([WORKS, DONE]);
        let mut world = World::begin(script);
        world.settle();
        world.finish_hook(0);
        assert_eq!(states(&world), [ItemState::InFlight]);
        world
    };
    // The user cancels it: its items stay with it, because it may be sent again.
    let mut world = working();
    world.command(SessionCommand::CancelTurn);
    world.finish_turn();
    assert_eq!(states(&world), [ItemState::InFlight]);
    // A message takes its place: the items wait for the next iteration.
    world.command(SessionCommand::Message {
        text: "Use tabs.".into(),
    });
    world.command(SessionCommand::Unpause);
    assert_eq!(states(&world), [ItemState::Pending]);
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
          decided Continue
        iteration 2
          prompt iteration items [1] "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nheld\n\nGOAL"
          turn ended EndTurn
          delivered [1]
        iteration 2 done
          decided Complete
          LoopEnded
        ended complete (no checks are configured, and the agent says it is done)
    "#]].assert_eq(&world.run().story());
    // The agent cancels it: the items wait for the next iteration.
    let mut world = working();
    let turn = world.turn.take().expect("a turn").0;
    let end = TurnEnd::new(StopReason::Cancelled);
    world.input(Input::TurnEnded { turn, end });
    expect![[r#"
          session_start build exit 0 -> Pass piped
          held 1 "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nheld"
        iteration 1
          prompt iteration items [1] "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nheld\n\nGOAL"
          turn ended Cancelled
        iteration 1 failed
        iteration 2
          prompt iteration items [1] "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nheld\n\nGOAL"
          turn ended EndTurn
          delivered [1]
        iteration 2 done
          decided Continue
        iteration 3
          prompt iteration "GOAL"
          turn ended EndTurn
        iteration 3 done
          decided Complete
          LoopEnded
        ended complete (no checks are configured, and the agent says it is done)
    "#]].assert_eq(&world.run().story());
}

#[test]
fn an_item_is_skipped_restored_and_edited_only_before_it_is_sent() {
    let script = Script::new()
        .piped(HookPoint::SessionStart, "build", [prints("held")])
        .piped(HookPoint::SessionStart, "notes", [prints("more")])
        .agent([WORKS, DONE])
        .plan(|plan| plan.gates.delivery = DeliveryPolicy::Ask)
        .attended(&[(GateKind::Delivery, GateChoice::Approve)]);
    let mut world = World::begin(script);
    world.settle();
    world.finish_hook(0);
    world.finish_hook(0);
    let (skip, restore) = (
        |item| SessionCommand::SkipItem { item: ItemId(item) },
        |item| SessionCommand::RestoreItem { item: ItemId(item) },
    );
    let edit = |item, text: &str| SessionCommand::EditItem {
        item: ItemId(item),
        text: text.into(),
    };
    world.command(restore(1));
    world.command(skip(1));
    world.command(skip(1));
    assert_eq!(states(&world), [ItemState::Skipped, ItemState::Pending]);
    world.command(restore(1));
    world.command(edit(1, "edited"));
    world.command(edit(9, "edited"));
    assert_eq!(states(&world), [ItemState::Pending, ItemState::Pending]);
    assert!(world.state.pending.items()[0].edited);
    world.answer_gate();
    assert_eq!(states(&world), [ItemState::InFlight, ItemState::InFlight]);
    let sent = &world.turn.as_ref().expect("a turn").1;
    assert!(sent.starts_with("edited\n"), "{sent}");
    world.command(skip(1));
    world.finish_turn();
    world.command(edit(2, "late"));
    assert_eq!(
        world.refused,
        [
            Refusal::ItemNotSkipped(ItemId(1)),
            Refusal::ItemAlreadySkipped(ItemId(1)),
            Refusal::NoSuchItem(ItemId(9)),
            Refusal::ItemInFlight(ItemId(1)),
            Refusal::ItemDelivered(ItemId(2)),
        ]
    );
}

#[test]
fn the_user_approves_some_items_and_the_others_are_skipped() {
    let at_the_gate = || {
        let script = Script::new()
            .piped(HookPoint::SessionStart, "a", [prints("one")])
            .piped(HookPoint::SessionStart, "b", [prints("two")])
            .piped(HookPoint::SessionStart, "c", [prints("three")])
            .plan(|plan| plan.gates.delivery = DeliveryPolicy::Ask)
            .attended(&[]);
        let mut world = World::begin(script);
        world.settle();
        (0..3).for_each(|_| world.finish_hook(0));
        world
    };
    use ItemState::{InFlight, Skipped};
    for (choice, items, expected) in [
        (GateChoice::Approve, None, [InFlight, InFlight, InFlight]),
        (
            GateChoice::Approve,
            Some(&[1, 3][..]),
            [InFlight, Skipped, InFlight],
        ),
        (GateChoice::Skip, None, [Skipped, Skipped, Skipped]),
        (
            GateChoice::Skip,
            Some(&[2][..]),
            [Skipped, Skipped, Skipped],
        ),
    ] {
        let mut world = at_the_gate();
        let answer = answers(&world, choice, items);
        world.command(answer);
        assert_eq!(states(&world), expected, "{choice:?} {items:?}");
        assert!(world.turn.is_some());
    }
    let mut world = at_the_gate();
    let answer = answers(&world, GateChoice::Approve, Some(&[1, 7]));
    world.command(answer);
    let answer = answers(&world, GateChoice::Ignore, None);
    world.command(answer);
    expect![[r#"
        [
            ItemNotAtGate {
                gate: GateId(
                    1,
                ),
                item: ItemId(
                    7,
                ),
            },
            ChoiceNotOffered {
                gate: GateId(
                    1,
                ),
                choice: Ignore,
                offered: [
                    Approve,
                    Skip,
                ],
            },
        ]
    "#]]
    .assert_debug_eq(&world.refused);
    assert!(world.state.gates.open.is_some());
}

#[test]
fn a_gate_is_answered_at_its_deadline_and_not_before() {
    let script = Script::new()
        .attended(&[])
        .hook_with(
            HookPoint::SessionStart,
            "pull",
            [exits(1, "", "no")],
            |spec| {
                spec.on_failure = Some(HookFailurePolicy::Escalate);
            },
        )
        .plan(|plan| plan.gates.timeout = TimeSpan::secs(5));
    let mut world = World::begin(script);
    world.now = UnixTime(1_000);
    world.settle();
    world.finish_hook(0);
    assert_eq!(world.state.next_wake(), Some(UnixTime(6_000)));
    world.now = UnixTime(5_999);
    world.settle();
    assert!(world.state.gates.open.is_some());
    world.now = UnixTime(6_000);
    world.settle();
    let by = world.events.iter().find_map(|event| match event {
        Event::Gate(GateEvent::Answered { choice, by, .. }) => Some((*choice, by.by)),
        _ => None,
    });
    assert_eq!(by, Some((GateChoice::Escalate, ActorKind::Timeout)));
    assert_eq!(outcome(&world.run()), Some(SessionOutcome::Escalated));
}

#[test]
fn an_unattended_gate_that_only_the_user_answers_waits_for_its_deadline() {
    let script = |timeout| {
        Script::new()
            .piped(HookPoint::SessionStart, "build", [prints("held")])
            .plan(|plan| {
                plan.gates.delivery = DeliveryPolicy::Ask;
                plan.gates.timeout = timeout;
            })
    };
    let mut world = World::begin(script(TimeSpan::secs(5)));
    world.settle();
    world.finish_hook(0);
    assert_eq!(
        (world.left, world.state.next_wake()),
        (None, Some(UnixTime(5_000)))
    );
    assert_eq!(outcome(&world.run()), Some(SessionOutcome::Complete));
    let mut world = World::begin(script(TimeSpan(0)));
    world.settle();
    world.finish_hook(0);
    assert!(world.left.is_some() && world.state.gates.open.is_some());
}

/// Ends the turn in progress with changes to a file that agents must not change.
fn tampers(world: &mut World, text: &str) {
    let turn = world.turn.take().expect("the agent works").0;
    world.input(Input::Agent {
        turn,
        update: creel::engine::conversation::AgentUpdate::Message(text.into()),
    });
    let forbidden = ForbiddenChanges {
        tampered: vec![".git/config".into()],
        ..ForbiddenChanges::default()
    };
    world.input(Input::TurnEnded {
        turn,
        end: TurnEnd {
            forbidden,
            ..TurnEnd::new(StopReason::EndTurn)
        },
    });
}

fn found() -> Input {
    Input::FilesCompared(ForbiddenChanges {
        tampered: vec![".git/config".into()],
        ..ForbiddenChanges::default()
    })
}

#[test]
fn a_session_does_not_complete_past_a_file_that_changed_at_its_end() {
    let world = |presence| {
        let mut script = Script::new().attended(&[(GateKind::Tampered, GateChoice::Ignore)]);
        script.presence = presence;
        let mut world = World::begin(script);
        world.settle();
        tampers(&mut world, "All done. <promise>COMPLETE</promise>");
        world
    };
    assert_eq!(
        outcome(&world(UserPresence::Unattended).run()),
        Some(SessionOutcome::Escalated)
    );
    assert_eq!(
        outcome(&world(UserPresence::Attended).run()),
        Some(SessionOutcome::Complete)
    );
}

#[test]
fn a_paused_session_that_is_complete_asks_about_a_changed_file_before_it_ends() {
    let mut world =
        World::begin(Script::new().attended(&[(GateKind::Tampered, GateChoice::Ignore)]));
    world.settle();
    world.command(SessionCommand::CompleteSession {
        reason: "enough".into(),
    });
    world.command(SessionCommand::Pause);
    while world.step() {}
    world.input(found());
    assert_eq!(
        world.state.gates.open.as_ref().map(|gate| gate.kind()),
        Some(GateKind::Tampered)
    );
    // A session that stops asks when it is resumed.
    let mut world = World::begin(Script::new());
    world.settle();
    world.command(SessionCommand::Stop {
        how: StopTiming::Now,
    });
    world.input(found());
    let world = world.run();
    assert_eq!(
        outcome(&world),
        Some(SessionOutcome::Cancelled),
        "{}",
        world.story()
    );
    let mut script = world
        .script
        .clone()
        .attended(&[(GateKind::Tampered, GateChoice::Ignore)]);
    script.presence = UserPresence::Attended;
    let resumed = World::from_events(script, &world.events).resume();
    assert!(
        resumed.story().contains("gate 1 tampered"),
        "{}",
        resumed.story()
    );
}

#[test]
fn waits_differ_by_the_seed_and_stay_below_the_longest() {
    let script = Script::new().agent([Answer::Fails("down")]).plan(|plan| {
        plan.max_consecutive_errors = 9;
        plan.backoff = Some(BackoffPolicy {
            base: TimeSpan::secs(10),
            factor: 2.0,
            max: TimeSpan::secs(300),
            jitter: 0.5,
        });
    });
    let story = World::begin(script).run().story();
    let waits: Vec<&str> = story
        .lines()
        .filter(|line| line.contains("waits"))
        .collect();
    expect![[r#"
        [
            "  waits 12.3 s",
            "  waits 17.7 s",
            "  waits 37.2 s",
            "  waits 49.0 s",
            "  waits 2 min 54 s",
            "  waits 5 min",
            "  waits 5 min",
            "  waits 5 min",
        ]
    "#]]
    .assert_debug_eq(&waits);
}

/// A session with work of every kind.
fn busy() -> Script {
    Script::new()
        .submits()
        .piped(HookPoint::SessionStart, "build", [prints("held")])
        .hook(HookPoint::PreIteration, "pull", [passes()])
        .hook(HookPoint::Stop, "tests", [blocks("red"), passes()])
        .piped(HookPoint::PostIteration, "note", [prints("noted")])
        .stop_command("judge", [passes()])
        .rule("files", &[false, true])
        .hook(HookPoint::BeforeSubmit, "lint", [passes()])
        .hook(HookPoint::SessionEnd, "clean", [passes()])
        .agent([WORKS, DONE])
}

#[test]
fn a_session_paused_anywhere_starts_nothing_more_and_reaches_the_same_end() {
    let expected = World::begin(busy()).run().story();
    let unpaused = |world: &World| {
        let lines = world.story();
        let kept = lines
            .lines()
            .filter(|line| !matches!(line.trim(), "Paused" | "Unpaused"));
        kept.map(|line| format!("{line}\n")).collect::<String>()
    };
    for steps in 0.. {
        let mut world = World::begin(busy());
        world.settle();
        if !(0..steps).all(|_| world.step()) {
            assert!(steps > 10, "the session has many steps: {steps}");
            break;
        }
        let in_flight = (
            world.jobs.len(),
            world.checks.len(),
            usize::from(world.turn.is_some()),
        );
        world.command(SessionCommand::Pause);
        let mut ended = 0;
        while world.step() {
            ended += 1;
        }
        assert!(
            ended <= in_flight.0 + in_flight.1 + in_flight.2 || world.left.is_some(),
            "{in_flight:?} {ended}\n{}",
            world.story()
        );
        if world.left.is_none() {
            world.command(SessionCommand::Unpause);
        }
        assert_eq!(
            unpaused(&world.run()),
            expected,
            "paused after {steps} steps"
        );
    }
}

#[test]
fn a_paused_session_still_ends_when_it_is_stopped() {
    for how in [StopTiming::Now, StopTiming::AfterIteration] {
        let mut world = World::begin(busy());
        world.settle();
        world.command(SessionCommand::Pause);
        world.command(SessionCommand::Stop { how });
        assert_eq!(
            outcome(&world.run()),
            Some(SessionOutcome::Cancelled),
            "{how:?}"
        );
    }
}
