//! The gate for files that an agent must not change, and what the end says about them.

use creel::engine::{
    conversation::{ForbiddenChanges, StopReason, TurnEnd, TurnFailure},
    decide,
    event::SessionOutcome,
    gate::kind::{GateChoice, GateKind},
    input::Input,
    protect::UnsettledChanges,
    time::UnixTime,
};
use expect_test::expect;

use crate::support::world::{DONE, Script, World};

#[test]
fn the_user_can_ignore_it_write_to_the_agent_or_abort() {
    let changed = |world: &mut World| {
        let turn = world.turn.take().expect("the agent works").0;
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
    };
    let story = |choice| {
        let script = Script::new()
            .agent([DONE])
            .attended(&[(GateKind::Tampered, choice)]);
        let mut world = World::begin(script);
        world.settle();
        changed(&mut world);
        world.run()
    };
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          gate 1 tampered
          MessageQueued
          gate 1 send by Tui
          prompt Message "[Message]: from the user\nTry another way."
          turn ended EndTurn
        iteration 1 done
          decided Complete
          LoopEnded
        ended complete (no checks are configured, and the agent says it is done)
    "#]]
    .assert_eq(&story(GateChoice::Send).story());
    assert_eq!(
        story(GateChoice::Ignore).state.phase.outcome(),
        Some(SessionOutcome::Complete)
    );
    assert_eq!(
        story(GateChoice::Abort).state.phase.outcome(),
        Some(SessionOutcome::Aborted)
    );
}

#[test]
fn a_change_in_a_turn_that_failed_is_not_forgotten() {
    let script = Script::new()
        .agent([DONE])
        .attended(&[(GateKind::RetryLimit, GateChoice::Disable)])
        .plan(|plan| {
            plan.access.protect = vec!["tests/**".into()];
            plan.max_hook_retries = 0;
        });
    let forbidden = ForbiddenChanges {
        protected: vec!["tests/a.rs".into()],
        ..ForbiddenChanges::default()
    };
    let mut world = World::begin(script);
    world.settle();
    let turn = world.turn.take().expect("the agent works").0;
    world.input(Input::TurnFailed {
        turn,
        failure: TurnFailure {
            forbidden: Box::new(forbidden.clone()),
            ..TurnFailure::new("down")
        },
    });
    world.settle();
    let turn = world.turn.take().expect("the next iteration").0;
    assert_eq!(
        world.state.unsettled.protected,
        ["tests/a.rs"],
        "it is compared with what was there before"
    );
    world.input(Input::TurnEnded {
        turn,
        end: TurnEnd {
            forbidden,
            ..TurnEnd::new(StopReason::EndTurn)
        },
    });
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn failed down
        iteration 1 failed
        iteration 2
          prompt iteration "GOAL"
          turn ended EndTurn
          retry limit 0/0
          gate 1 retry_limit
          HookDisabled
          gate 1 disable by Tui
        iteration 2 done
          decided Continue
        iteration 3
          prompt iteration "GOAL"
          turn ended EndTurn
        iteration 3 done
          decided Complete
          LoopEnded
        ended unverified (protect was disabled during the session)
    "#]]
    .assert_eq(&world.run().story());
}

#[test]
fn paths_that_cannot_be_compared_are_asked_about_and_the_end_is_not_verified() {
    let unchecked = || {
        let unchecked = vec!["creel cannot compare the paths under `protect:`".to_owned()];
        Input::FilesCompared(ForbiddenChanges {
            unchecked,
            ..ForbiddenChanges::default()
        })
    };
    let script = Script::new()
        .agent([DONE])
        .attended(&[(GateKind::Tampered, GateChoice::Ignore)])
        .plan(|plan| plan.access.protect = vec!["tests/**".into()]);
    let mut world = World::begin(script);
    world.input(unchecked());
    assert_ne!(
        world.state.unsettled,
        UnsettledChanges::default(),
        "it is recorded"
    );
    let world = world.run();
    expect![[r#"
          TamperingFound
          gate 1 tampered
          gate 1 ignore by Tui
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
        iteration 1 done
          decided Complete
          LoopEnded
        ended forced (protect still fails; you accepted it)
    "#]]
    .assert_eq(&world.story());
    assert!(
        decide(&world.state, UnixTime(0), unchecked()).is_empty(),
        "the user has accepted it"
    );
}
