//! Sessions that would be complete with fewer or weaker tests than at the start.

use creel::engine::{
    event::{Event, SessionEvent, SessionOutcome, VerifyEvent},
    gate::kind::{GateChoice, GateKind},
    hooks::point::HookPoint,
    policy::TestProtection,
    verify::test_guard::{TestComparison, TestFinding},
};
use expect_test::expect;

use crate::support::world::{DONE, Ran, Script, World, exits, prints, wants};

const ALL: &str = "test result: ok. 9 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out";

fn fails() -> Ran {
    let out = "test result: FAILED. 6 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out";
    exits(2, out, "3 tests fail")
}

/// A session whose check runs these tests, one run after the other.
fn script(runs: impl Into<Vec<Ran>>) -> Script {
    let mut script = Script::new()
        .hook(HookPoint::Stop, "tests", runs)
        .agent([DONE]);
    script.works = Some(9);
    script.tests = Some(TestComparison::default());
    script
}

fn skips_three() -> Script {
    script([
        fails(),
        prints("test result: ok. 6 passed; 0 failed; 4 ignored; 0 measured; 0 filtered out"),
    ])
}

fn policy(script: Script, policy: TestProtection) -> Script {
    script.plan(|plan| plan.access.protect_tests = policy)
}

fn reason(world: &World) -> String {
    let ended = world.events.iter().rev().find_map(|event| match event {
        Event::Session(SessionEvent::Ended { reason, .. }) => Some(reason.clone()),
        _ => None,
    });
    ended.expect("the session has ended")
}

fn comparisons(world: &World) -> Vec<&TestComparison> {
    let compared = world.events.iter().filter_map(|event| match event {
        Event::Verify(VerifyEvent::TestsCompared(found)) => Some(found),
        _ => None,
    });
    compared.collect()
}

#[test]
fn a_repair_that_skips_three_tests_is_named_at_the_end() {
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop tests exit 2 -> Block
          retry 1/5
          prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\n3 tests fail\n\ntest result: FAILED. 6 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out"
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 1 done
          decided Complete
          LoopEnded
          TestsCompared
        ended complete (tests passed, and the agent says it is done; the tests may be weaker than at the start: tests: 1 skipped test at the start, 4 at the end)
    "#]].assert_eq(&World::begin(skips_three()).run().story());
}

#[test]
fn a_gate_asks_before_the_session_is_complete() {
    let script = policy(skips_three(), TestProtection::Gate)
        .attended(&[(GateKind::Tampered, GateChoice::Ignore)]);
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop tests exit 2 -> Block
          retry 1/5
          prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\n3 tests fail\n\ntest result: FAILED. 6 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out"
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 1 done
          decided Complete
          LoopEnded
          TestsCompared
          gate 1 tampered
          gate 1 ignore by Tui
        ended complete (tests passed, and the agent says it is done; the tests may be weaker than at the start: tests: 1 skipped test at the start, 4 at the end)
    "#]].assert_eq(&World::begin(script).run().story());
}

#[test]
fn a_message_at_the_gate_gets_the_agent_another_turn_and_the_tests_are_compared_again() {
    let mut script = script([
        fails(),
        prints("test result: ok. 6 passed; 0 failed; 4 ignored; 0 measured; 0 filtered out"),
        prints(ALL),
    ]);
    script =
        policy(script, TestProtection::Gate).attended(&[(GateKind::Tampered, GateChoice::Send)]);
    let world = World::begin(script).run();
    let found: Vec<usize> = comparisons(&world)
        .iter()
        .map(|it| it.findings.len())
        .collect();
    assert_eq!(found, [1, 0]);
    assert_eq!(
        reason(&world),
        "tests passed, and the agent says it is done"
    );
}

#[test]
fn an_unattended_gate_escalates_and_opens_again_when_the_session_is_resumed() {
    let world = World::begin(policy(skips_three(), TestProtection::Gate)).run();
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Escalated));
    assert_eq!(
        world.state.unsettled.tests.len(),
        1,
        "the user has not decided about it"
    );
}

#[test]
fn without_protection_nothing_is_compared() {
    let world = World::begin(policy(skips_three(), TestProtection::Off)).run();
    assert_eq!(comparisons(&world).len(), 0);
    assert_eq!(
        reason(&world),
        "tests passed, and the agent says it is done"
    );
}

#[test]
fn the_same_tests_and_more_of_them_are_recorded_without_a_finding() {
    let world = World::begin(script([fails(), prints(ALL)])).run();
    assert_eq!(comparisons(&world), [&TestComparison::default()]);
    assert_eq!(
        reason(&world),
        "tests passed, and the agent says it is done"
    );
}

#[test]
fn a_check_that_no_longer_counts_its_tests_is_a_finding() {
    let world = World::begin(script([fails(), prints("ok")])).run();
    assert_eq!(
        comparisons(&world)[0].findings,
        [TestFinding::NotCounted {
            check: "tests".into(),
            before: 10
        }]
    );
}

#[test]
fn checks_that_never_count_tests_say_nothing() {
    let world = World::begin(script([exits(2, "", "warning"), prints("ok")])).run();
    assert_eq!(comparisons(&world).len(), 0);
}

#[test]
fn what_the_changed_files_say_is_part_of_the_comparison() {
    let mut script = script([prints(ALL)]);
    script.tests = Some(TestComparison {
        files: 1,
        findings: vec![TestFinding::FewerAssertions {
            file: "tests/a.rs".into(),
            line: 4,
            fewer: 1,
        }],
        ..TestComparison::default()
    });
    let world = World::begin(script).run();
    assert_eq!(
        reason(&world),
        "tests passed, and the agent says it is done; the tests may be weaker than at the start: \
         tests/a.rs:4: 1 assertion was removed"
    );
}

#[test]
fn a_repair_before_a_submit_is_compared_before_the_push() {
    let mut script = script([
        prints(ALL),
        prints("test result: ok. 6 passed; 0 failed; 4 ignored; 0 measured; 0 filtered out"),
    ]);
    script.plan.submit.on_complete = true;
    script.plan.submit.remediation_attempts = 1;
    let script = policy(script, TestProtection::Gate)
        .hook(
            HookPoint::BeforeSubmit,
            "lint",
            [wants(Some("Repair it.")), prints("ok")],
        )
        .hook(HookPoint::BeforeSubmit, "create_pr", [prints("ok")]);
    let world = World::begin(script).run();
    let found: Vec<usize> = comparisons(&world)
        .iter()
        .map(|it| it.findings.len())
        .collect();
    assert_eq!(found, [0, 1], "{}", world.story());
}
