//! Checks with `tests: base`: they run again with the tests of the commit before the session.

use creel::engine::{
    event::{CheckRunResult, Event, HookEvent, SessionEvent, SessionOutcome, VerifyEvent},
    gate::kind::{GateChoice, GateKind},
    hooks::{point::HookPoint, verdict::RunEnd},
    policy::{HookFailurePolicy, TestProtection},
    verify::{
        base_tests::TestSource,
        test_guard::{TestComparison, TestFinding},
    },
};
use expect_test::expect;

use crate::support::world::{DONE, Ran, Script, World, exits, passes, prints};

const ALL: &str = "test result: ok. 9 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";

fn fails() -> Ran {
    let out = "test result: FAILED. 8 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";
    exits(101, out, "price(7) is 22, not 21")
}

/// A session whose check passes with its own tests, and then runs with those of the base commit,
/// and with its own in a clean worktree.
fn script(base: Ran, work: Ran) -> Script {
    let mut script = Script::new()
        .hook_with(HookPoint::Stop, "tests", [prints(ALL)], |spec| {
            spec.tests = Some(TestSource::Base);
            spec.on_failure = Some(HookFailurePolicy::Block);
        })
        .agent([DONE]);
    script.hooks.insert("tests base".into(), vec![base]);
    script.hooks.insert("tests work".into(), vec![work]);
    script.works = Some(9);
    script.tests = Some(TestComparison::default());
    script
}

fn ends(end: RunEnd) -> Ran {
    Ran { end, ..passes() }
}

fn compared(world: &World) -> TestComparison {
    let compared = world.events.iter().rev().find_map(|event| match event {
        Event::Verify(VerifyEvent::TestsCompared(found)) => Some(found.clone()),
        _ => None,
    });
    compared.expect("the tests were compared")
}

/// How often the check ran with these tests.
fn clean_runs(world: &World, of: TestSource) -> usize {
    let is_it = |event: &&Event| {
        matches!(event, Event::Hook(HookEvent::Finished(done))
            if done.tests_of.as_ref().is_some_and(|run| run.of == of))
    };
    world.events.iter().filter(is_it).count()
}

fn undecided(script: Script) -> String {
    let world = World::begin(script).run();
    let found = compared(&world);
    assert!(
        found.findings.is_empty() && found.passed_with_base.is_empty(),
        "{found:?}"
    );
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Complete));
    found.undecided.join("\n")
}

#[test]
fn a_check_that_also_passes_with_the_tests_of_the_base_commit_is_recorded() {
    let world = World::begin(script(prints(ALL), fails())).run();
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 1 done
          decided Complete
          LoopEnded
          VerificationStarted
          stop tests with the tests of the base commit exit 0 -> Pass
          VerificationEnded
          TestsCompared
        ended complete (tests passed, and the agent says it is done)
    "#]]
    .assert_eq(&world.story());
    let found = TestComparison {
        passed_with_base: vec!["tests".into()],
        ..TestComparison::default()
    };
    assert_eq!(compared(&world), found);
    assert_eq!(clean_runs(&world, TestSource::Work), 0);
}

#[test]
fn a_check_that_fails_only_with_the_tests_of_the_base_commit_is_a_finding() {
    let world = World::begin(script(fails(), prints(ALL))).run();
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 1 done
          decided Complete
          LoopEnded
          VerificationStarted
          stop tests with the tests of the base commit exit 101 -> Fail
          VerificationEnded
          VerificationStarted
          stop tests with its own tests in a clean worktree exit 0 -> Pass
          VerificationEnded
          TestsCompared
        ended complete (tests passed, and the agent says it is done; the tests may be weaker than at the start: tests fails with the tests of the base commit: test result: FAILED. 8 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out)
    "#]].assert_eq(&world.story());
}

#[test]
fn the_failure_with_the_tests_of_the_base_commit_is_no_result_of_the_check() {
    let world = World::begin(script(fails(), prints(ALL))).run();
    let ended = world.events.iter().rev().find_map(|event| match event {
        Event::Session(SessionEvent::Ended { checks, .. }) => Some(checks.clone()),
        _ => None,
    });
    let checks = ended.expect("the session has ended");
    assert_eq!(checks[0].result, CheckRunResult::Passed);
}

#[test]
fn a_gate_asks_about_it_and_the_answer_counts_until_the_failure_is_another() {
    let script = script(fails(), prints(ALL))
        .plan(|plan| plan.access.protect_tests = TestProtection::Gate)
        .attended(&[(GateKind::Tampered, GateChoice::Ignore)]);
    let world = World::begin(script).run();
    assert!(compared(&world).asks);
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Complete));
    assert_eq!(
        world.state.verify.tests.accepted,
        [TestFinding::FailsWithBase {
            check: "tests".into(),
            reason:
                "test result: FAILED. 8 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out"
                    .into(),
        }]
    );
}

#[test]
fn a_failure_in_a_clean_worktree_whatever_the_tests_proves_nothing() {
    let needs = || exits(1, "", "Cannot find module 'left-pad'");
    expect!["creel cannot decide whether tests passes with the tests of the base commit: in a clean worktree it does not pass with the tests of the work either (Cannot find module 'left-pad')"].assert_eq(&undecided(script(needs(), needs())));
    expect!["creel cannot decide whether tests passes with the tests of the base commit: in a clean worktree it does not pass with the tests of the work either (it timed out after 1m)"].assert_eq(&undecided(script(fails(), ends(RunEnd::TimedOut))));
}

#[test]
fn a_run_that_cannot_start_or_end_proves_nothing() {
    let why = "creel cannot make a clean worktree: git is missing";
    for end in [
        RunEnd::SpawnFailed(why.into()),
        RunEnd::TimedOut,
        RunEnd::Signal(9),
    ] {
        let said = undecided(script(ends(end.clone()), prints(ALL)));
        assert!(
            said.starts_with("creel cannot decide whether tests passes"),
            "{said}"
        );
        let undecided = script(ends(end), prints(ALL))
            .plan(|plan| plan.access.protect_tests = TestProtection::Gate);
        assert!(!compared(&World::begin(undecided).run()).asks);
    }
}

#[test]
fn a_pass_that_no_longer_counts_its_tests_proves_nothing() {
    expect!["creel cannot decide whether tests passes with the tests of the base commit: its output does not say how many tests ran"].assert_eq(&undecided(script(prints("ok"), prints(ALL))));
}

#[test]
fn a_pass_without_tests_proves_nothing_and_one_with_fewer_tests_says_so() {
    let none = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out";
    expect!["creel cannot decide whether tests passes with the tests of the base commit: it ran no tests"].assert_eq(&undecided(script(prints(none), prints(ALL))));
    let fewer = "test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
    let world = World::begin(script(prints(fewer), prints(ALL))).run();
    expect!["tests (7 tests, 9 with its own) also passed with the tests of the base commit"]
        .assert_eq(&compared(&world).with_base().unwrap_or_default());
}

#[test]
fn without_a_changed_test_file_the_run_is_not_needed_and_proves_nothing() {
    let mut script = script(prints(ALL), fails());
    script.changed_tests = 0;
    let world = World::begin(script).run();
    assert_eq!(compared(&world), TestComparison::default());
    assert_eq!(clean_runs(&world, TestSource::Base), 1);
}

#[test]
fn the_run_belongs_to_the_version_of_the_work() {
    let mut script = script(prints(ALL), fails());
    script.plan.submit.on_complete = true;
    let unchanged = script
        .clone()
        .hook(HookPoint::BeforeSubmit, "create_pr", [prints("ok")]);
    let world = World::begin(unchanged).run();
    assert_eq!(clean_runs(&world, TestSource::Base), 1, "{}", world.story());
    script.plan.submit.remediation_attempts = 1;
    let repaired = script
        .hook(
            HookPoint::BeforeSubmit,
            "lint",
            [
                crate::support::world::wants(Some("Repair it.")),
                prints("ok"),
            ],
        )
        .hook(HookPoint::BeforeSubmit, "create_pr", [prints("ok")]);
    let world = World::begin(repaired).run();
    assert_eq!(clean_runs(&world, TestSource::Base), 2, "{}", world.story());
}

#[test]
fn a_kill_at_any_moment_runs_what_was_cut_again() {
    let whole = World::begin(script(fails(), prints(ALL))).run();
    let is_clean = |event: &Event| {
        matches!(
            event,
            Event::Hook(HookEvent::Started {
                tests_of: Some(_),
                ..
            })
        )
    };
    let starts: Vec<usize> = (0..whole.events.len())
        .filter(|at| is_clean(&whole.events[*at]))
        .collect();
    assert_eq!(starts.len(), 2);
    for at in starts {
        let script = script(fails(), prints(ALL));
        let killed = World::from_events(script, &whole.events[..=at]);
        let world = killed.resume();
        assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Complete));
        assert_eq!(compared(&world).findings.len(), 1, "{}", world.story());
        let cut = world.events.iter().filter(|event| {
            matches!(event, Event::Hook(HookEvent::Finished(done)) if done.again && done.tests_of.is_some())
        });
        assert_eq!(cut.count(), 1, "{}", world.story());
    }
}

#[test]
fn a_check_that_was_accepted_without_passing_does_not_run_with_other_tests() {
    let mut script = script(prints(ALL), fails());
    script
        .hooks
        .insert("tests".into(), vec![exits(1, "", "no")]);
    script.plan.on_limit = creel::engine::policy::RetryLimitPolicy::Complete;
    let world = World::begin(script).run();
    assert_eq!(clean_runs(&world, TestSource::Base), 0, "{}", world.story());
}

#[test]
fn a_gate_also_asks_about_test_files_that_creel_cannot_compare() {
    let why = "creel did not look into 101 more changed files";
    let mut blind = script(prints(ALL), prints(ALL))
        .plan(|plan| plan.access.protect_tests = TestProtection::Gate)
        .attended(&[(GateKind::Tampered, GateChoice::Ignore)]);
    blind.tests = Some(TestComparison {
        undecided: vec![why.into()],
        ..TestComparison::default()
    });
    let world = World::begin(blind.clone()).run();
    let found = compared(&world);
    assert!(found.asks && found.undecided.is_empty(), "{found:?}");
    assert_eq!(
        world.state.verify.tests.accepted,
        [TestFinding::NotCompared { reason: why.into() }]
    );
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Complete));
    let warned = blind.plan(|plan| plan.access.protect_tests = TestProtection::Warn);
    assert_eq!(compared(&World::begin(warned).run()).undecided, [why]);
}
