//! What a session guarantees in states that few sessions reach.

use creel::engine::{
    conversation::{AgentUpdate, ForbiddenChanges, StopReason, TurnEnd},
    decide,
    effect::{Effect, HookJob},
    event::{
        ActorKind, Event, GateEvent, HookEvent, PipelineEvent, SessionEvent, SessionOutcome,
        StopTiming, UserPresence,
    },
    gate::{
        Gate,
        kind::{GateChoice, GateKind},
    },
    hooks::{
        point::HookPoint,
        verdict::{HookDecision, HookReply, RunEnd, RunResult, RunView, judge},
    },
    ids::ItemId,
    input::{GateAnswer, Input, SessionCommand},
    pending::ItemState,
    policy::{BackoffPolicy, DeliveryPolicy, HookFailurePolicy},
    refusal::Refusal,
    session::event::ResumeAnswer,
    time::{TimeSpan, UnixTime},
    verify::{MeasuredChanges, MissingCheck, WorkMeasurement},
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
    for (choice, items, expected) in [
        (
            GateChoice::Approve,
            None,
            [
                ItemState::InFlight,
                ItemState::InFlight,
                ItemState::InFlight,
            ],
        ),
        (
            GateChoice::Approve,
            Some(&[1, 3][..]),
            [ItemState::InFlight, ItemState::Skipped, ItemState::InFlight],
        ),
        (
            GateChoice::Skip,
            None,
            [ItemState::Skipped, ItemState::Skipped, ItemState::Skipped],
        ),
        (
            GateChoice::Skip,
            Some(&[2][..]),
            [ItemState::Skipped, ItemState::Skipped, ItemState::Skipped],
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
fn a_broken_hook_that_is_no_check_is_disabled_at_the_deadline_of_its_gate() {
    let script = Script::new()
        .attended(&[])
        .hook(HookPoint::PreIteration, "slow", [breaks()])
        .agent([WORKS, DONE])
        .plan(|plan| plan.gates.timeout = TimeSpan::secs(5));
    let world = World::begin(script).run();
    assert!(
        world.story().contains("gate 1 disable by Timeout"),
        "{}",
        world.story()
    );
    assert_eq!(outcome(&world), Some(SessionOutcome::Complete));
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
        update: AgentUpdate::Message(text.into()),
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
        world.state.gates.open.as_ref().map(Gate::kind),
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
fn a_file_that_changed_at_another_gate_is_asked_about_before_the_work_is_accepted() {
    let story = |choice| {
        let script = Script::new()
            .agent([Answer::Says("HTML or PDF? <promise>ESCALATE</promise>")])
            .attended(&[
                (GateKind::Escalation, choice),
                (GateKind::Tampered, GateChoice::Ignore),
            ]);
        let mut world = World::begin(script);
        world.settle();
        world.finish_turn();
        world.input(found());
        world.run().story()
    };
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
        iteration 1 done
          decided Escalate
          gate 1 escalation
          TamperingFound
          gate 1 complete by Tui
          gate 2 tampered
          gate 2 ignore by Tui
          LoopEnded
        ended complete (no checks are configured, and you accepted the work)
    "#]]
    .assert_eq(&story(GateChoice::Complete));
    // If the user aborts, the loop ends first.
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
        iteration 1 done
          decided Escalate
          gate 1 escalation
          TamperingFound
          gate 1 abort by Tui
          LoopEnded
          gate 2 tampered
          gate 2 ignore by Tui
        ended aborted (HTML or PDF?)
    "#]]
    .assert_eq(&story(GateChoice::Abort));
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
        .stop_hooks([])
        .stop_command(
            "judge",
            [
                prints(r#"{"action":"continue","reason":"more"}"#),
                prints(r#"{"action":"complete","reason":"enough"}"#),
            ],
        )
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
        let in_flight = world.jobs.len() + world.checks.len() + usize::from(world.turn.is_some());
        let ends = |job: &HookJob| job.point == HookPoint::SessionEnd;
        let has_ended = world.left.is_some() || world.jobs.iter().any(ends);
        world.command(SessionCommand::Pause);
        let mut finished = 0;
        while world.step() {
            finished += 1;
        }
        assert!(finished <= in_flight, "{steps}\n{}", world.story());
        assert_eq!(
            world.left.is_some(),
            has_ended,
            "{steps}\n{}",
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

/// What each hook and rule of a session gets to know.
fn facts(mut world: World) -> Vec<String> {
    let mut told = Vec::new();
    world.settle();
    loop {
        let hooks = world.jobs.iter().map(|job| (&job.hook.name, &job.facts));
        let rules = world.checks.iter().map(|job| (&job.rule.name, &job.facts));
        for (name, it) in hooks.chain(rules) {
            let (results, context) = (&it.validation_results, &it.context);
            let counted =
                |value: &Option<serde_json::Value>| value.as_ref().map(ToString::to_string);
            told.push(format!(
                "{} {name}: {:?} {:?} {:?} {:?} {:?} {:?}",
                it.session,
                it.iteration,
                it.attempt,
                it.agent_output,
                it.files_modified,
                counted(results),
                counted(context),
            ));
        }
        if !world.step() {
            return told;
        }
    }
}

#[test]
fn every_hook_gets_the_facts_of_its_point() {
    let mut script = busy().agent([Answer::Says("Half."), DONE]);
    script.works = Some(1);
    expect![[r#"
        [
            "story build: None None None None None None",
            "story pull: Some(1) None None None None None",
            "story tests: Some(1) Some(0) Some(\"Half.\") Some([\"work.rs\"]) None None",
            "story tests: Some(1) Some(1) Some(\"All done. <promise>COMPLETE</promise>\") Some([\"work.rs\"]) None None",
            "story note: Some(1) None Some(\"All done. <promise>COMPLETE</promise>\") Some([\"work.rs\"]) None None",
            "story files: Some(1) None Some(\"All done. <promise>COMPLETE</promise>\") Some([\"work.rs\"]) None None",
            "story judge: Some(1) None Some(\"All done. <promise>COMPLETE</promise>\") Some([\"work.rs\"]) Some(\"[{\\\"ruleName\\\":\\\"files\\\",\\\"passed\\\":false,\\\"message\\\":\\\"exit 101, expected 0\\\"}]\") Some(\"{\\\"taskId\\\":\\\"story\\\",\\\"iteration\\\":1,\\\"executionPhase\\\":null,\\\"filesModified\\\":[\\\"work.rs\\\"],\\\"validationResults\\\":[{\\\"ruleName\\\":\\\"files\\\",\\\"passed\\\":false,\\\"message\\\":\\\"exit 101, expected 0\\\"}],\\\"completionPromises\\\":[{\\\"type\\\":\\\"COMPLETE\\\",\\\"detected\\\":true,\\\"content\\\":\\\"<promise>COMPLETE</promise>\\\",\\\"detectedAt\\\":\\\"1970-01-01T00:00:00.000Z\\\"}],\\\"agentOutput\\\":\\\"All done. <promise>COMPLETE</promise>\\\",\\\"labels\\\":[]}\")",
            "story pull: Some(2) None Some(\"All done. <promise>COMPLETE</promise>\") None None None",
            "story tests: Some(2) Some(0) Some(\"All done. <promise>COMPLETE</promise>\") Some([]) None None",
            "story note: Some(2) None Some(\"All done. <promise>COMPLETE</promise>\") Some([]) None None",
            "story files: Some(2) None Some(\"All done. <promise>COMPLETE</promise>\") Some([]) None None",
            "story judge: Some(2) None Some(\"All done. <promise>COMPLETE</promise>\") Some([]) Some(\"[{\\\"ruleName\\\":\\\"files\\\",\\\"passed\\\":true,\\\"message\\\":\\\"as it should be\\\"}]\") Some(\"{\\\"taskId\\\":\\\"story\\\",\\\"iteration\\\":2,\\\"executionPhase\\\":null,\\\"filesModified\\\":[],\\\"validationResults\\\":[{\\\"ruleName\\\":\\\"files\\\",\\\"passed\\\":true,\\\"message\\\":\\\"as it should be\\\"}],\\\"completionPromises\\\":[{\\\"type\\\":\\\"COMPLETE\\\",\\\"detected\\\":true,\\\"content\\\":\\\"<promise>COMPLETE</promise>\\\",\\\"detectedAt\\\":\\\"1970-01-01T00:00:00.000Z\\\"}],\\\"agentOutput\\\":\\\"All done. <promise>COMPLETE</promise>\\\",\\\"labels\\\":[]}\")",
            "story tests: Some(2) Some(0) Some(\"All done. <promise>COMPLETE</promise>\") Some([]) None None",
            "story lint: None Some(0) Some(\"All done. <promise>COMPLETE</promise>\") None None None",
            "story clean: None None Some(\"All done. <promise>COMPLETE</promise>\") None None None",
        ]
    "#]].assert_debug_eq(&facts(World::begin(script)));
}

#[test]
fn the_record_of_a_run_has_all_that_the_hook_printed() {
    let script = Script::new()
        .hook(HookPoint::Stop, "tests", [passes()])
        .stop_command("judge", [passes()])
        .agent([WORKS, DONE]);
    let mut world = World::begin(script);
    world.settle();
    world.finish_turn();
    for _ in 0..2 {
        let run = world.jobs.remove(0).run;
        let result = RunResult {
            end: RunEnd::Exit(0),
            took: TimeSpan(1_234),
            stdout: "out".into(),
            stderr: "err".into(),
            omitted_bytes: 5,
            file: Some("runs/1.txt".into()),
            reply: None,
            answer: None,
            outcome: None,
            tests: None,
            changed_tests: None,
        };
        world.input(Input::HookFinished {
            run,
            result: Box::new(result),
        });
    }
    let records = world.events.iter().filter_map(|event| match event {
        Event::Hook(HookEvent::Finished(it)) => Some(format!(
            "{} {} {} {:?} {} {} {} {:?}",
            it.hook,
            it.iteration,
            it.run,
            it.took_ms,
            it.stdout,
            it.stderr,
            it.omitted_bytes,
            it.file
        )),
        _ => None,
    });
    expect![[r#"
        [
            "tests 1 1 TimeSpan(1234) out err 5 Some(\"runs/1.txt\")",
            "judge 1 2 TimeSpan(1234) out err 5 Some(\"runs/1.txt\")",
        ]
    "#]]
    .assert_debug_eq(&records.collect::<Vec<_>>());
}

#[test]
fn changes_after_the_last_check_are_a_warning_and_change_no_result() {
    let ends = |script: Script| {
        let mut world = World::begin(script.hook(HookPoint::SessionEnd, "clean", [passes()]));
        world.settle();
        world.finish_turn();
        while world
            .jobs
            .first()
            .is_some_and(|job| job.point != HookPoint::SessionEnd)
        {
            world.finish_hook(0);
        }
        world.script.unrest = 1;
        world.finish_hook(0);
        world.story()
    };
    let checked = ends(Script::new().hook(HookPoint::Stop, "tests", [passes()]));
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 1 done
          decided Complete
          LoopEnded
          session_end clean exit 0 -> Pass
          warning changed after the last check, while the session ended: something that creel cannot tell
        ended complete (tests passed, and the agent says it is done)
    "#]].assert_eq(&checked);
    let checks = Script::new().hook(HookPoint::Stop, "tests", [passes()]);
    let named = ends(checks.hook(HookPoint::Stop, "lint", [passes()]));
    assert!(named.contains("while the session ended: a.rs"), "{named}");
    let unchecked = ends(Script::new());
    assert!(!unchecked.contains("warning"), "{unchecked}");
}

#[test]
fn a_submit_that_waits_for_the_user_is_answered_with_resume() {
    let failing = [wants(None), wants(None), does("green")];
    let script = Script::new()
        .submits()
        .built_in(HookPoint::BeforeSubmit, "run_tests", failing);
    let world = World::begin(script.clone()).run();
    assert_eq!(
        outcome(&world),
        Some(SessionOutcome::Escalated),
        "{}",
        world.story()
    );
    let offered = world.state.choices_on_resume();
    expect![[r#"
        [
            Retry,
            Send,
            Skip,
            Leave,
        ]
    "#]]
    .assert_debug_eq(&offered);
    let resumed = |choice, text: Option<&str>| {
        let mut world = World::from_events(script.clone(), &world.events);
        let text = text.map(str::to_owned);
        world.input(Input::Resume {
            presence: UserPresence::Unattended,
            max_iterations: None,
            checkpoint: None,
            answer: Some(ResumeAnswer { choice, text }),
        });
        world.run()
    };
    let again = resumed(GateChoice::Retry, None);
    expect![[r#"
          SessionResumed
        submit
          before_submit run_tests exit 1 -> Block
          gate 2 submit
          gate 2 retry by Cli
          before_submit run_tests exit 0 -> Pass
        submit done (green)
        ended complete (no checks are configured, and the agent says it is done)
    "#]]
    .assert_eq(&again.story()[world.story().len()..]);
    let told = resumed(GateChoice::Send, Some("Use the cache."));
    expect![[r#"
          SessionResumed
        submit
          before_submit run_tests exit 1 -> Block
          gate 2 submit
          MessageQueued
          gate 2 send by Cli
          prompt Message "[Message]: from the user\nUse the cache."
          turn ended EndTurn
          before_submit run_tests exit 0 -> Pass
        submit done (green)
        ended complete (no checks are configured, and the agent says it is done)
    "#]]
    .assert_eq(&told.story()[world.story().len()..]);
    for (choice, text, refusal) in [
        (GateChoice::Send, None, Refusal::EmptyGateMessage),
        (GateChoice::Send, Some(" "), Refusal::EmptyGateMessage),
        (
            GateChoice::Disable,
            None,
            Refusal::ChoiceNotOffered {
                gate: world.state.gates.last,
                choice: GateChoice::Disable,
                offered: offered.clone(),
            },
        ),
    ] {
        assert_eq!(resumed(choice, text).refused, [refusal]);
    }
}

#[test]
fn only_a_session_that_waits_for_the_user_takes_an_answer_with_resume() {
    let stopped = |script: Script| {
        let mut world = World::begin(script);
        world.settle();
        world.command(SessionCommand::Stop {
            how: StopTiming::Now,
        });
        world.run()
    };
    let world = stopped(Script::new());
    assert_eq!(world.state.choices_on_resume(), []);
    let refused =
        World::from_events(world.script, &world.events).resume_answering(GateChoice::Continue);
    assert_eq!(refused.refused, [Refusal::NothingToAnswer]);
    let escalated = Script::new().hook_with(
        HookPoint::SessionStart,
        "pull",
        [exits(1, "", "no")],
        |spec| spec.on_failure = Some(HookFailurePolicy::Escalate),
    );
    let world = World::begin(escalated).run();
    assert!(
        world
            .state
            .choices_on_resume()
            .contains(&GateChoice::Continue)
    );
    // A request of a turn that is gone cannot be answered.
    let mut asks = World::begin(Script::new().agent([Answer::Asks(&["a.rs"])]).attended(&[]));
    asks.settle();
    asks.finish_turn();
    assert!(asks.state.gates.open.is_some());
    assert_eq!(asks.state.choices_on_resume(), []);
}

/// The judgement of a run, in a few words.
fn judged(point: HookPoint, policy: Option<HookFailurePolicy>, ran: &Ran) -> String {
    let mut hook = hook_command("it");
    hook.on_failure = policy;
    let run = RunView {
        end: &ran.end,
        stdout: ran.stdout,
        stderr: ran.stderr,
        reply: ran.reply.as_ref(),
    };
    let it = judge(point, &hook, run);
    let flags = [
        (it.broken, " broken"),
        (it.escalates, " escalates"),
        (it.stops, " stops"),
    ];
    let flags: String = flags
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, name)| *name)
        .collect();
    format!("{:?}{flags}", it.verdict)
}

/// Runs that end in every way.
fn ends() -> [(&'static str, Ran); 9] {
    let reply = |change: fn(&mut HookReply)| {
        let mut reply = HookReply::default();
        change(&mut reply);
        Ran {
            reply: Some(reply),
            ..passes()
        }
    };
    [
        ("exit 0", passes()),
        ("exit 1", exits(1, "", "")),
        ("exit 2", blocks("")),
        ("exit 127", exits(127, "", "")),
        ("timed out", breaks()),
        ("no program", cannot_start()),
        (
            "blocks",
            reply(|it| it.decision = Some(HookDecision::Block)),
        ),
        ("continue: false", reply(|it| it.stops = true)),
        ("unreadable", reply(|it| it.unreadable = true)),
    ]
}

#[test]
fn the_point_the_policy_and_the_end_of_a_run_decide_its_verdict() {
    let mut table = String::new();
    for point in [
        HookPoint::Stop,
        HookPoint::PostIteration,
        HookPoint::BeforeSubmit,
    ] {
        for policy in [
            None,
            Some(HookFailurePolicy::Block),
            Some(HookFailurePolicy::Escalate),
            Some(HookFailurePolicy::Ignore),
        ] {
            table += &format!("{point} {policy:?}\n");
            for (name, ran) in ends() {
                table += &format!("    {name}: {}\n", judged(point, policy, &ran));
            }
        }
    }
    expect![[r#"
        stop None
            exit 0: Pass
            exit 1: Fail
            exit 2: Block
            exit 127: Fail
            timed out: Fail
            no program: Fail broken
            blocks: Block
            continue: false: Fail escalates stops
            unreadable: Fail
        stop Some(Block)
            exit 0: Pass
            exit 1: Block
            exit 2: Block
            exit 127: Block
            timed out: Block
            no program: Fail broken
            blocks: Block
            continue: false: Fail escalates stops
            unreadable: Fail escalates
        stop Some(Escalate)
            exit 0: Pass
            exit 1: Fail escalates
            exit 2: Block
            exit 127: Fail escalates
            timed out: Fail escalates
            no program: Fail broken
            blocks: Block
            continue: false: Fail escalates stops
            unreadable: Fail escalates
        stop Some(Ignore)
            exit 0: Pass
            exit 1: Fail
            exit 2: Fail
            exit 127: Fail
            timed out: Fail
            no program: Fail broken
            blocks: Fail
            continue: false: Fail stops
            unreadable: Fail
        post_iteration None
            exit 0: Pass
            exit 1: Fail
            exit 2: Fail
            exit 127: Fail broken
            timed out: Fail broken
            no program: Fail broken
            blocks: Fail
            continue: false: Fail escalates stops
            unreadable: Fail broken
        post_iteration Some(Block)
            exit 0: Pass
            exit 1: Fail escalates
            exit 2: Fail escalates
            exit 127: Fail broken escalates
            timed out: Fail broken escalates
            no program: Fail broken escalates
            blocks: Fail escalates
            continue: false: Fail escalates stops
            unreadable: Fail broken escalates
        post_iteration Some(Escalate)
            exit 0: Pass
            exit 1: Fail escalates
            exit 2: Fail escalates
            exit 127: Fail broken escalates
            timed out: Fail broken escalates
            no program: Fail broken escalates
            blocks: Fail escalates
            continue: false: Fail escalates stops
            unreadable: Fail broken escalates
        post_iteration Some(Ignore)
            exit 0: Pass
            exit 1: Fail
            exit 2: Fail
            exit 127: Fail broken
            timed out: Fail broken
            no program: Fail broken
            blocks: Fail
            continue: false: Fail escalates stops
            unreadable: Fail broken
        before_submit None
            exit 0: Pass
            exit 1: Block
            exit 2: Block
            exit 127: Block broken
            timed out: Block broken
            no program: Block broken
            blocks: Block
            continue: false: Fail escalates stops
            unreadable: Block broken
        before_submit Some(Block)
            exit 0: Pass
            exit 1: Block
            exit 2: Block
            exit 127: Block broken
            timed out: Block broken
            no program: Block broken
            blocks: Block
            continue: false: Fail escalates stops
            unreadable: Block broken
        before_submit Some(Escalate)
            exit 0: Pass
            exit 1: Fail escalates
            exit 2: Block
            exit 127: Fail broken escalates
            timed out: Fail broken escalates
            no program: Fail broken escalates
            blocks: Block
            continue: false: Fail escalates stops
            unreadable: Fail broken escalates
        before_submit Some(Ignore)
            exit 0: Pass
            exit 1: Fail
            exit 2: Block
            exit 127: Fail broken
            timed out: Fail broken
            no program: Fail broken
            blocks: Block
            continue: false: Fail escalates stops
            unreadable: Fail broken
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_check_without_its_program_is_asked_about_before_the_first_turn() {
    let looks = |presence| {
        let mut script = Script::new()
            .hook(HookPoint::SessionStart, "build", [passes()])
            .hook(HookPoint::Stop, "tests", [passes()])
            .hook_with(HookPoint::Stop, "style", [passes()], |spec| {
                spec.on_failure = Some(HookFailurePolicy::Ignore);
            });
        script.presence = presence;
        let mut world = World::begin(script);
        world.settle();
        let run = world.jobs[0].run;
        let now = world.now;
        let result = RunResult {
            end: RunEnd::Exit(0),
            took: TimeSpan(1),
            stdout: String::new(),
            stderr: String::new(),
            omitted_bytes: 0,
            file: None,
            reply: None,
            answer: None,
            outcome: None,
            tests: None,
            changed_tests: None,
        };
        let finished = Input::HookFinished {
            run,
            result: Box::new(result),
        };
        for event in decide(&world.state, now, finished).events {
            world.state.apply(now, &event);
        }
        (world.state, now)
    };
    let (state, now) = looks(UserPresence::Attended);
    let step = decide(&state, now, Input::Proceed);
    let [Effect::MeasureWork { by, checks, .. }] = &step.effects[..] else {
        panic!("it looks at the checks: {step:?}");
    };
    let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
    assert_eq!((names, step.events.len()), (vec!["tests"], 0));
    let measured = |missing: Vec<MissingCheck>| {
        Input::WorkMeasured(WorkMeasurement {
            by: *by,
            changes: Some(MeasuredChanges::default()),
            missing,
            tests: None,
        })
    };
    let missing = MissingCheck {
        check: "tests".into(),
        why: "no such program".into(),
    };
    let asks = decide(&state, now, measured(vec![missing]));
    let [Event::Gate(GateEvent::Opened { about, reason, .. })] = &asks.events[..] else {
        panic!("a gate: {asks:?}");
    };
    assert_eq!(
        (*about, reason.as_str()),
        (
            GateKind::BrokenHook,
            "the check `tests` cannot start: no such program"
        )
    );
    let begins = decide(&state, now, measured(Vec::new()));
    assert!(matches!(
        begins.events[..],
        [Event::Session(SessionEvent::IterationStarted { .. })]
    ));
}
