//! Stop hooks with a retry limit and a feedback text of their own.

use creel::engine::{
    gate::kind::{GateChoice, GateKind},
    hooks::point::HookPoint,
};
use expect_test::expect;

use crate::support::world::*;

fn story(script: Script) -> String {
    World::begin(script).run().story()
}

/// A stop hook with its own limit.
fn limited(script: Script, name: &str, retries: u32, runs: impl Into<Vec<Ran>>) -> Script {
    script.hook_with(HookPoint::Stop, name, runs, |spec| {
        spec.retry.retries = Some(retries);
    })
}

#[test]
fn a_hook_without_retries_goes_straight_to_the_gate() {
    let script = limited(
        Script::new(),
        "license",
        0,
        [blocks("not allowed"), passes()],
    );
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop license exit 2 -> Block
          retry limit 0/0
          gate 1 retry_limit
          gate 1 continue by Tui
          retry 1/1
          prompt Feedback "[Hook feedback]: check `license` failed, exit 2\nnot allowed"
          turn ended EndTurn
          stop license exit 0 -> Pass
        iteration 1 done
          decided Complete
          LoopEnded
        ended complete (license passed, and the agent says it is done)
    "#]]
    .assert_eq(&story(
        script.attended(&[(GateKind::RetryLimit, GateChoice::Continue)]),
    ));
}

#[test]
fn the_first_limit_that_is_reached_decides_and_each_hook_counts_its_own_retries() {
    let script = Script::new().hook(
        HookPoint::Stop,
        "tests",
        [blocks("a"), blocks("b"), passes()],
    );
    let script = limited(
        script,
        "lint",
        1,
        [passes(), passes(), blocks("c"), blocks("d")],
    );
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop tests exit 2 -> Block
          stop lint exit 0 -> Pass
          retry 1/5
          prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\na"
          turn ended EndTurn
          stop tests exit 2 -> Block
          stop lint exit 0 -> Pass
          retry 2/5
          prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\nb"
          turn ended EndTurn
          stop tests exit 0 -> Pass
          stop lint exit 2 -> Block
          retry 3/3
          prompt Feedback "[Hook feedback]: check `lint` failed, exit 2\nc"
          turn ended EndTurn
          stop tests exit 0 -> Pass
          stop lint exit 2 -> Block
          retry limit 3/3
          warning [Warning: Hook retry limit (3) reached. Completing execution.]
          gate 1 retry_limit
          gate 1 ignore by Policy
        iteration 1 forced
          decided Complete
          LoopEnded
        ended forced (lint still fails after 3 retries; accepted because on_limit is complete)
    "#]]
    .assert_eq(&story(script.plan(|plan| plan.max_iterations = 1)));
    let all = limited(Script::new(), "lint", 9, [blocks("x")]);
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop lint exit 2 -> Block
          retry 1/1
          prompt Feedback "[Hook feedback]: check `lint` failed, exit 2\nx"
          turn ended EndTurn
          stop lint exit 2 -> Block
          retry limit 1/1
          warning [Warning: Hook retry limit (1) reached. Completing execution.]
          gate 1 retry_limit
          gate 1 ignore by Policy
        iteration 1 forced
          decided Complete
          LoopEnded
        ended forced (lint still fails after 1 retry; accepted because on_limit is complete)
    "#]]
    .assert_eq(&story(all.plan(|plan| {
        (plan.max_hook_retries, plan.max_iterations) = (1, 1);
    })));
}

#[test]
fn the_user_grants_the_same_number_of_retries_again() {
    let script = limited(
        Script::new(),
        "lint",
        2,
        [blocks("a"), blocks("b"), blocks("c"), blocks("d"), passes()],
    );
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop lint exit 2 -> Block
          retry 1/2
          prompt Feedback "[Hook feedback]: check `lint` failed, exit 2\na"
          turn ended EndTurn
          stop lint exit 2 -> Block
          retry 2/2
          prompt Feedback "[Hook feedback]: check `lint` failed, exit 2\nb"
          turn ended EndTurn
          stop lint exit 2 -> Block
          retry limit 2/2
          gate 1 retry_limit
          gate 1 continue by Tui
          retry 3/4
          prompt Feedback "[Hook feedback]: check `lint` failed, exit 2\nc"
          turn ended EndTurn
          stop lint exit 2 -> Block
          retry 4/4
          prompt Feedback "[Hook feedback]: check `lint` failed, exit 2\nd"
          turn ended EndTurn
          stop lint exit 0 -> Pass
        iteration 1 done
          decided Complete
          LoopEnded
        ended complete (lint passed, and the agent says it is done)
    "#]]
    .assert_eq(&story(
        script.attended(&[(GateKind::RetryLimit, GateChoice::Continue)]),
    ));
}

#[test]
fn a_template_replaces_the_usual_feedback_of_its_hook_alone() {
    let template = "Fix {{hook}}, attempt {{attempt}} of {{limit}}: {{reason}}\n{{changed}}";
    let runs = [
        blocks("say {{hook}}"),
        blocks("say {{hook}}"),
        blocks("other"),
        passes(),
    ];
    let script = Script::new()
        .hook_with(HookPoint::Stop, "own", runs, |spec| {
            spec.retry.feedback = Some(template.into());
        })
        .hook(HookPoint::Stop, "usual", [blocks("U"), passes()]);
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop own exit 2 -> Block
          stop usual exit 2 -> Block
          retry 1/5
          prompt Feedback "[Hook feedback]: check `usual` failed, exit 2\nU\n\nFix own, attempt 1 of 5: say {{hook}}\n(first run)"
          turn ended EndTurn
          stop own exit 2 -> Block
          stop usual exit 0 -> Pass
          retry 2/5
          prompt Feedback "Fix own, attempt 2 of 5: say {{hook}}\n(no change)"
          turn ended EndTurn
          stop own exit 2 -> Block
          stop usual exit 0 -> Pass
          retry 3/5
          prompt Feedback "Fix own, attempt 3 of 5: other\n- say {{hook}}\n+ other"
          turn ended EndTurn
          stop own exit 0 -> Pass
          stop usual exit 0 -> Pass
        iteration 1 done
          decided Complete
          LoopEnded
        ended complete (own and usual passed, and the agent says it is done)
    "#]]
    .assert_eq(&story(script));
}
