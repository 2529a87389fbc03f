//! Sessions as stories: a script goes in, what happened comes out.

use creel::engine::{
    self,
    conversation::{AgentUpdate, ConversationMode, PermissionAnswer, ToolKind},
    effect::ExitReason,
    event::{
        ActorKind, Event, GateEvent, HookEvent, PendingEvent, PromptReason, SessionEvent,
        SessionOutcome, StopTiming, TurnEvent, UserPresence,
    },
    gate::kind::{GateChoice, GateKind},
    hooks::{
        point::HookPoint,
        verdict::{HookDecision, HookReply},
    },
    ids::{GateId, ItemId},
    input::{Input, SessionCommand},
    policy::{
        AgentSpec, BackoffPolicy, CompletionInstructions, ContextPolicy, DeliveryPolicy,
        FinalDeliveryPolicy, HookAction, HookFailurePolicy, HookSpec, PermissionPolicy,
        PermissionRule, PipeOutput, RetryLimitPolicy,
    },
    refusal::{ByHandObstacle, Refusal},
    retry::RetryWait,
    time::{TimeSpan, UnixTime},
};
use expect_test::{Expect, expect};

use crate::support::world::*;

#[expect(
    clippy::needless_pass_by_value,
    reason = "so that a story stands in its test"
)]
pub(crate) fn becomes(script: Script, expected: Expect) {
    expected.assert_eq(&World::begin(script).run().story());
}

const WORKS: Answer = Answer::Says("Working.");

#[test]
fn a_session_without_hooks_ends_when_the_agent_promises() {
    becomes(
        Script::new().agent([WORKS, DONE]),
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 1 done
              decided Continue
            iteration 2
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 2 done
              decided Complete
              LoopEnded
            ended complete (no checks are configured, and the agent says it is done)
        "#]],
    );
}

#[test]
fn pending_output_of_a_failed_turn_is_sent_with_the_next_prompt() {
    let script = Script::new()
        .piped(HookPoint::PostIteration, "test", [prints("red"), passes()])
        .agent([WORKS, Answer::Fails("connection reset"), DONE]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 1 done
              post_iteration test exit 0 -> Pass piped
              held 1 "[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred"
              decided Continue
            iteration 2
              prompt iteration items [1] "[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred\n\nGOAL"
              turn failed connection reset
            iteration 2 failed
            iteration 3
              prompt iteration items [1] "[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred\n\nGOAL"
              turn ended EndTurn
              delivered [1]
            iteration 3 done
              post_iteration test exit 0 -> Pass
              decided Complete
              LoopEnded
            ended complete (no checks are configured, and the agent says it is done)
        "#]],
    );
}

#[test]
fn a_hook_that_always_blocks_gives_six_turns_five_feedbacks_and_a_forced_end() {
    let script = Script::new()
        .hook(HookPoint::Stop, "tests", [exits(2, "1 failed", "fix it")])
        .agent([DONE]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
              stop tests exit 2 -> Block
              retry 1/5
              prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\nfix it\n\n1 failed"
              turn ended EndTurn
              stop tests exit 2 -> Block
              retry 2/5 no progress
              prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\nfix it\n\n1 failed"
              turn ended EndTurn
              stop tests exit 2 -> Block
              retry 3/5 no progress
              prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\nfix it\n\n1 failed"
              turn ended EndTurn
              stop tests exit 2 -> Block
              retry 4/5 no progress
              prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\nfix it\n\n1 failed"
              turn ended EndTurn
              stop tests exit 2 -> Block
              retry 5/5 no progress
              prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\nfix it\n\n1 failed"
              turn ended EndTurn
              stop tests exit 2 -> Block
              retry limit 5/5
              warning [Warning: Hook retry limit (5) reached. Completing execution.]
              gate 1 retry_limit
              gate 1 ignore by Policy
            iteration 1 forced
              decided Complete
              LoopEnded
            ended forced (tests still fails after 5 retries; accepted because on_limit is complete)
        "#]],
    );
}

#[test]
fn the_same_failure_with_another_duration_and_thread_is_no_progress() {
    let first =
        "thread 'adds' (4711) panicked at src/lib.rs:3:5:\ntest result: FAILED. finished in 0.12s";
    let again =
        "thread 'adds' (4900) panicked at src/lib.rs:3:5:\ntest result: FAILED. finished in 1m 20s";
    let runs = [
        exits(2, first, ""),
        exits(2, again, ""),
        exits(2, "another test failed", ""),
        exits(0, "", ""),
    ];
    becomes(
        Script::new()
            .hook(HookPoint::Stop, "tests", runs)
            .agent([DONE]),
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
              stop tests exit 2 -> Block
              retry 1/5
              prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\nthread 'adds' (4711) panicked at src/lib.rs:3:5:\ntest result: FAILED. finished in 0.12s"
              turn ended EndTurn
              stop tests exit 2 -> Block
              retry 2/5 no progress
              prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\nthread 'adds' (4900) panicked at src/lib.rs:3:5:\ntest result: FAILED. finished in 1m 20s"
              turn ended EndTurn
              stop tests exit 2 -> Block
              retry 3/5
              prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\nanother test failed"
              turn ended EndTurn
              stop tests exit 0 -> Pass
            iteration 1 done
              decided Complete
              LoopEnded
            ended complete (tests passed, and the agent says it is done)
        "#]],
    );
}

#[test]
fn three_failing_then_one_then_none() {
    let script = Script::new()
        .hook(
            HookPoint::Stop,
            "run-tests",
            [
                blocks("3 tests failing"),
                blocks("1 test failing"),
                prints("All tests passed!"),
            ],
        )
        .agent([Answer::Says("Wrote it."), Answer::Says("Fixed two."), DONE]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
              stop run-tests exit 2 -> Block
              retry 1/5
              prompt Feedback "[Hook feedback]: check `run-tests` failed, exit 2\n3 tests failing"
              turn ended EndTurn
              stop run-tests exit 2 -> Block
              retry 2/5
              prompt Feedback "[Hook feedback]: check `run-tests` failed, exit 2\n1 test failing"
              turn ended EndTurn
              stop run-tests exit 0 -> Pass
            iteration 1 done
              decided Complete
              LoopEnded
            ended complete (run-tests passed, and the agent says it is done)
        "#]],
    );
}

#[test]
fn output_still_pending_after_the_loop_is_delivered_before_session_end() {
    let script = Script::new()
        .piped(
            HookPoint::PostIteration,
            "test",
            [exits(101, "1 failed", "")],
        )
        .hook(HookPoint::SessionEnd, "notify", [passes()]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 1 done
              post_iteration test exit 101 -> Fail piped
              held 1 "[Hook output: post_iteration \"test\" · exit 101 · 1.2 s]\n1 failed"
              decided Complete
              LoopEnded
              gate 1 final_delivery
              gate 1 approve by Policy
              prompt FinalDelivery items [1] "[Final delivery]: the loop has ended; this output of hooks has not reached you yet. Act on it if it needs work.\n\n[Hook output: post_iteration \"test\" · exit 101 · 1.2 s]\n1 failed"
              turn ended EndTurn
              delivered [1]
              session_end notify exit 0 -> Pass
            ended complete (no checks are configured, and the agent says it is done)
        "#]],
    );
}

#[test]
fn the_user_approves_the_final_delivery() {
    let script = Script::new()
        .piped(HookPoint::PostIteration, "test", [prints("red")])
        .attended(&[(GateKind::FinalDelivery, GateChoice::Approve)]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 1 done
              post_iteration test exit 0 -> Pass piped
              held 1 "[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred"
              decided Complete
              LoopEnded
              gate 1 final_delivery
              gate 1 approve by Tui
              prompt FinalDelivery items [1] "[Final delivery]: the loop has ended; this output of hooks has not reached you yet. Act on it if it needs work.\n\n[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred"
              turn ended EndTurn
              delivered [1]
            ended complete (no checks are configured, and the agent says it is done)
        "#]],
    );
}

#[test]
fn the_user_skips_the_final_delivery() {
    let script = Script::new()
        .piped(HookPoint::PostIteration, "test", [prints("red")])
        .attended(&[(GateKind::FinalDelivery, GateChoice::Skip)]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 1 done
              post_iteration test exit 0 -> Pass piped
              held 1 "[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred"
              decided Complete
              LoopEnded
              gate 1 final_delivery
              PendingSkipped
              gate 1 skip by Tui
            ended complete (no checks are configured, and the agent says it is done)
        "#]],
    );
}

#[test]
fn a_delivery_that_needs_approval_waits_when_unattended() {
    let script = Script::new()
        .piped(HookPoint::PostIteration, "test", [prints("red")])
        .plan(|plan| plan.gates.final_delivery = Some(FinalDeliveryPolicy::Ask));
    let world = World::begin(script).run();
    assert_eq!(
        world.left,
        Some(creel::engine::effect::ExitReason::NeedsUser)
    );
    assert_eq!(world.state.phase.outcome(), None);
}

#[test]
fn every_delivery_can_need_approval() {
    let script = Script::new()
        .piped(
            HookPoint::SessionStart,
            "build",
            [prints("warning: unused")],
        )
        .plan(|plan| plan.gates.delivery = DeliveryPolicy::Ask)
        .attended(&[(GateKind::Delivery, GateChoice::Approve)]);
    becomes(
        script,
        expect![[r#"
              session_start build exit 0 -> Pass piped
              held 1 "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nwarning: unused"
            iteration 1
              gate 1 delivery
              gate 1 approve by Tui
              prompt iteration items [1] "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nwarning: unused\n\nGOAL"
              turn ended EndTurn
              delivered [1]
            iteration 1 done
              decided Complete
              LoopEnded
            ended complete (no checks are configured, and the agent says it is done)
        "#]],
    );
}

#[test]
fn piped_output_of_pre_iteration_is_between_pending_items_and_the_goal() {
    let script = Script::new()
        .piped(HookPoint::SessionStart, "build", [prints("held")])
        .piped(HookPoint::PreIteration, "lint", [prints("lint says")])
        .hook(
            HookPoint::PreIteration,
            "quiet",
            [prints("not for the agent")],
        );
    becomes(
        script,
        expect![[r#"
              session_start build exit 0 -> Pass piped
              held 1 "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nheld"
            iteration 1
              pre_iteration lint exit 0 -> Pass piped
              pre_iteration quiet exit 0 -> Pass
              prompt iteration items [1] "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nheld\n\n[Hook output: pre_iteration \"lint\" · exit 0 · 1.2 s]\nlint says\n\nGOAL"
              turn ended EndTurn
              delivered [1]
            iteration 1 done
              decided Complete
              LoopEnded
            ended complete (no checks are configured, and the agent says it is done)
        "#]],
    );
}

#[test]
fn a_failed_turn_runs_on_error_and_a_recovery_turn_and_counts() {
    let script = Script::new()
        .piped(HookPoint::OnError, "git diff", [prints("what changed")])
        .hook(HookPoint::Stop, "tests", [passes()])
        .hook(HookPoint::PostIteration, "post", [passes()])
        .agent([
            Answer::Fails("connection reset"),
            Answer::Says("Recovered."),
            DONE,
        ]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn failed connection reset
              on_error git diff exit 0 -> Pass piped
              prompt Recovery "[Recovery]: the last turn failed: connection reset. Repair what the hooks report about it; the work continues in the next turn.\n\n[Hook output: on_error \"git diff\" · exit 0 · 1.2 s]\nwhat changed"
              turn ended EndTurn
            iteration 1 failed
            iteration 2
              prompt iteration "GOAL"
              turn ended EndTurn
              stop tests exit 0 -> Pass
            iteration 2 done
              post_iteration post exit 0 -> Pass
              decided Complete
              LoopEnded
            ended complete (tests passed, and the agent says it is done)
        "#]],
    );
}

#[test]
fn three_failed_turns_in_a_row_fail_an_unattended_session() {
    becomes(
        Script::new().agent([Answer::Fails("no network")]),
        expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn failed no network
        iteration 1 failed
        iteration 2
          prompt iteration "GOAL"
          turn failed no network
        iteration 2 failed
        iteration 3
          prompt iteration "GOAL"
          turn failed no network
        iteration 3 failed
          gate 1 errors
          gate 1 fail by Policy
          LoopEnded
        ended failed (3 turns failed in a row, the last one with: no network)
    "#]],
    );
}

#[test]
fn waits_between_failed_iterations_grow() {
    let backoff = BackoffPolicy {
        base: TimeSpan::secs(1),
        factor: 2.0,
        max: TimeSpan::secs(60),
        jitter: 0.0,
    };
    let script = Script::new()
        .agent([Answer::Fails("x"), Answer::Fails("y"), DONE])
        .plan(|plan| plan.backoff = Some(backoff));
    let world = World::begin(script).run();
    assert_eq!(world.now.0, 3_000);
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Complete));
}

#[test]
fn at_the_limit_the_user_grants_the_same_number_of_retries_again() {
    let script = Script::new()
        .hook(
            HookPoint::Stop,
            "tests",
            [blocks("a"), blocks("b"), passes()],
        )
        .plan(|plan| plan.max_hook_retries = 1)
        .attended(&[(GateKind::RetryLimit, GateChoice::Continue)]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
              stop tests exit 2 -> Block
              retry 1/1
              prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\na"
              turn ended EndTurn
              stop tests exit 2 -> Block
              retry limit 1/1
              gate 1 retry_limit
              gate 1 continue by Tui
              retry 2/2
              prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\nb"
              turn ended EndTurn
              stop tests exit 0 -> Pass
            iteration 1 done
              decided Complete
              LoopEnded
            ended complete (tests passed, and the agent says it is done)
        "#]],
    );
}

#[test]
fn at_the_limit_the_user_sends_a_message_and_the_count_is_reset() {
    let script = Script::new()
        .hook(
            HookPoint::Stop,
            "tests",
            [blocks("a"), blocks("b"), blocks("c"), passes()],
        )
        .plan(|plan| plan.max_hook_retries = 1)
        .attended(&[(GateKind::RetryLimit, GateChoice::Send)]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
              stop tests exit 2 -> Block
              retry 1/1
              prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\na"
              turn ended EndTurn
              stop tests exit 2 -> Block
              retry limit 1/1
              gate 1 retry_limit
              MessageQueued
              gate 1 send by Tui
              prompt Message "[Message]: from the user\nTry another way."
              turn ended EndTurn
              stop tests exit 2 -> Block
              retry 1/1
              prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\nc"
              turn ended EndTurn
              stop tests exit 0 -> Pass
            iteration 1 done
              decided Complete
              LoopEnded
            ended complete (tests passed, and the agent says it is done)
        "#]],
    );
}

#[test]
fn at_the_limit_the_user_can_ignore_disable_or_abort() {
    let ends = [GateChoice::Ignore, GateChoice::Disable, GateChoice::Abort].map(|choice| {
        let script = Script::new()
            .hook(HookPoint::Stop, "tests", [blocks("no")])
            .attended(&[(GateKind::RetryLimit, choice)]);
        World::begin(script).run().state.phase.outcome()
    });
    assert_eq!(
        ends,
        [
            Some(SessionOutcome::Forced),
            Some(SessionOutcome::Unverified),
            Some(SessionOutcome::Aborted)
        ]
    );
}

#[test]
fn unattended_the_limit_can_escalate_or_abort() {
    let ends = [RetryLimitPolicy::Escalate, RetryLimitPolicy::Abort].map(|on_limit| {
        let script = Script::new()
            .hook(HookPoint::Stop, "tests", [blocks("no")])
            .plan(|plan| plan.on_limit = on_limit);
        World::begin(script).run().state.phase.outcome()
    });
    assert_eq!(
        ends,
        [
            Some(SessionOutcome::Escalated),
            Some(SessionOutcome::Aborted)
        ]
    );
}

#[test]
fn a_limit_of_zero_never_retries() {
    let script = Script::new()
        .hook(HookPoint::Stop, "tests", [blocks("no")])
        .plan(|plan| plan.max_hook_retries = 0);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
              stop tests exit 2 -> Block
              retry limit 0/0
              warning [Warning: Hook retry limit (0) reached. Completing execution.]
              gate 1 retry_limit
              gate 1 ignore by Policy
            iteration 1 forced
              decided Complete
              LoopEnded
            ended forced (tests still fails; accepted because on_limit is complete)
        "#]],
    );
}

#[test]
fn feedback_names_each_check_its_command_and_its_end() {
    let decided = HookReply {
        decision: Some(HookDecision::Deny),
        reason: Some("write a test first".into()),
        ..HookReply::default()
    };
    let command = |spec: &mut HookSpec| {
        spec.action = HookAction::Command("sh test.sh".into());
        spec.on_failure = Some(HookFailurePolicy::Block);
    };
    let script = Script::new()
        .hook_with(
            HookPoint::Stop,
            "tests",
            [exits(1, "1 of 2 failed\n", "error: add"), passes()],
            command,
        )
        .hook(HookPoint::Stop, "silent", [exits(2, "", ""), passes()])
        .hook(
            HookPoint::Stop,
            "cargo guard",
            [
                Ran {
                    reply: Some(decided),
                    ..passes()
                },
                passes(),
            ],
        );
    let world = World::begin(script).run();
    let expected = "\
[Hook feedback]: check `tests` failed: `sh test.sh`, exit 1
error: add

1 of 2 failed

check `silent` failed, exit 2

check `cargo guard` blocked
write a test first";
    assert_eq!(texts(&world, PromptReason::Feedback), [expected]);
}

/// The texts of all prompts with this reason.
fn texts(world: &World, reason: PromptReason) -> Vec<&str> {
    let sent = world.events.iter().filter_map(|event| match event {
        Event::Turn(TurnEvent::PromptSent(prompt)) if prompt.reason == reason => {
            Some(prompt.text.as_str())
        }
        _ => None,
    });
    sent.collect()
}

#[test]
fn prompts_that_begin_no_iteration_say_first_what_they_are() {
    let script = Script::new()
        .piped(HookPoint::OnError, "look", [prints("disk full")])
        .piped(HookPoint::SessionStart, "facts", [prints("2 warnings")])
        .agent([Answer::Fails("connection reset.\nat line 3"), WORKS, DONE])
        .plan(|plan| plan.max_iterations = 1);
    let world = World::begin(script).run();
    assert_eq!(
        texts(&world, PromptReason::Recovery),
        [
            "[Recovery]: the last turn failed: connection reset. Repair what the hooks report about it; the work continues in \
          the next turn.\n\n[Hook output: on_error \"look\" · exit 0 · 1.2 s]\ndisk full"
        ]
    );
    assert_eq!(
        texts(&world, PromptReason::FinalDelivery),
        [
            "[Final delivery]: the loop has ended; this output of hooks has not reached you yet. Act on it if it needs \
             work.\n\n[Hook output: session_start \"facts\" · exit 0 · 1.2 s]\n2 warnings"
        ]
    );
    let mut world = World::begin(Script::new());
    world.settle();
    world.command(SessionCommand::Message {
        text: "Use tabs.".into(),
    });
    world.command(SessionCommand::Message {
        text: "And <b>.".into(),
    });
    let by_hook = SessionCommand::Message {
        text: "Again.".into(),
    };
    world.input(Input::Command {
        by: ActorKind::Hook.into(),
        command: by_hook,
    });
    let world = world.run();
    assert_eq!(
        texts(&world, PromptReason::Message),
        [
            "[Message]: from the user\nUse tabs.\n\nAnd <b>.\n\n[Message]: from a hook of this session\nAgain."
        ]
    );
}

#[test]
fn an_agent_without_a_conversation_gets_the_goal_what_happened_and_the_note_with_every_prompt() {
    let forgets = |script: Script| {
        script.plan(|plan| {
            plan.agent_spec = AgentSpec::command("agent");
            plan.instructions = CompletionInstructions::Text("NOTE".into());
            plan.context = ContextPolicy::Keep;
        })
    };
    let delivered = Script::new()
        .piped(HookPoint::SessionStart, "facts", [prints("facts")])
        .agent([Answer::Fails("down")]);
    let sent_back = Script::new()
        .hook(
            HookPoint::Stop,
            "tests",
            [blocks("red"), blocks("red"), passes()],
        )
        .plan(|plan| plan.max_hook_retries = 1)
        .attended(&[(GateKind::RetryLimit, GateChoice::Send)]);
    let repaired = Script::new().submits().built_in(
        HookPoint::BeforeSubmit,
        "create_pr",
        [wants(Some("Commit it.")), does("done")],
    );
    let mut seen = Vec::new();
    for script in [
        delivered.plan(|plan| plan.max_iterations = 1),
        sent_back,
        repaired,
    ] {
        let world = World::begin(forgets(script)).run();
        for event in &world.events {
            let Event::Turn(TurnEvent::PromptSent(prompt)) = event else {
                continue;
            };
            seen.push(prompt.reason);
            assert_eq!(prompt.conversation, ConversationMode::New, "{prompt:?}");
            assert_eq!(
                (
                    prompt.text.matches("GOAL").count(),
                    prompt.text.matches("NOTE").count()
                ),
                (1, 1),
                "{prompt:?}"
            );
            assert!(prompt.text.ends_with("\n\nNOTE"), "{prompt:?}");
            let knows_the_check = prompt.text.contains("check `tests` failed, exit 2");
            assert!(
                knows_the_check || prompt.reason != PromptReason::Message,
                "{prompt:?}"
            );
        }
    }
    for reason in [
        PromptReason::FinalDelivery,
        PromptReason::Feedback,
        PromptReason::Message,
        PromptReason::Remediation,
    ] {
        assert!(seen.contains(&reason), "{reason:?} is not in {seen:?}");
    }
}

#[test]
fn all_stop_hooks_run_and_each_text_reaches_the_agent_once() {
    let allow = HookReply {
        decision: Some(HookDecision::Allow),
        additional_context: Some("from json".into()),
        ..HookReply::default()
    };
    let script = Script::new()
        .hook(HookPoint::Stop, "one", [exits(2, "same", "why"), passes()])
        .hook(HookPoint::Stop, "two", [exits(2, "same", "why"), passes()])
        .hook(
            HookPoint::Stop,
            "failed",
            [exits(1, "info", "note"), passes()],
        )
        .hook(
            HookPoint::Stop,
            "json",
            [
                Ran {
                    reply: Some(allow),
                    ..passes()
                },
                passes(),
            ],
        );
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
              stop one exit 2 -> Block
              stop two exit 2 -> Block
              stop failed exit 1 -> Fail
              stop json exit 0 -> Pass piped
              retry 1/5
              prompt Feedback "[Hook feedback]: check `one` failed, exit 2\nwhy\n\nsame\n\ncheck `two` failed, exit 2\n\ncheck `failed` failed, exit 1; it does not block\nnote\n\ninfo\n\ncheck `json` passed\nfrom json"
              turn ended EndTurn
              stop one exit 0 -> Pass
              stop two exit 0 -> Pass
              stop failed exit 0 -> Pass
              stop json exit 0 -> Pass
            iteration 1 done
              decided Complete
              LoopEnded
            ended complete (4 checks passed, and the agent says it is done)
        "#]],
    );
}

#[test]
fn a_broken_stop_hook_spends_no_retries() {
    let script = Script::new().hook(
        HookPoint::Stop,
        "missing",
        [exits(127, "", "sh: missing: not found")],
    );
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
              stop missing exit 127 -> Fail
            iteration 1 done
              decided Complete
              LoopEnded
            ended unverified (missing failed (sh: missing: not found))
        "#]],
    );
}

#[test]
fn a_hook_broken_twice_in_a_row_opens_a_gate() {
    let script = Script::new()
        .hook(HookPoint::PreIteration, "slow", [breaks()])
        .agent([WORKS, DONE])
        .attended(&[(GateKind::BrokenHook, GateChoice::Disable)]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              pre_iteration slow timed out -> Fail
              warning hook `slow` at pre_iteration: timed out
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 1 done
              decided Continue
            iteration 2
              pre_iteration slow timed out -> Fail
              warning hook `slow` at pre_iteration: timed out
              gate 1 broken_hook
              HookDisabled
              gate 1 disable by Tui
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 2 done
              decided Complete
              LoopEnded
            ended complete (no checks are configured, and the agent says it is done)
        "#]],
    );
}

#[test]
fn a_failure_that_must_escalate_opens_a_gate() {
    let script = Script::new().hook_with(
        HookPoint::SessionStart,
        "pull",
        [exits(1, "", "conflict")],
        |spec| {
            spec.on_failure = Some(HookFailurePolicy::Escalate);
        },
    );
    becomes(
        script,
        expect![[r#"
          session_start pull exit 1 -> Fail
          gate 1 escalation
          gate 1 escalate by Policy
          LoopEnded
        ended escalated (the hook `pull` at session_start needs you: conflict)
    "#]],
    );
}

#[test]
fn a_failure_after_a_task_that_must_escalate_opens_a_gate_between_two_turns() {
    let script = || {
        Script::new().agent([WORKS, DONE]).hook_with(
            HookPoint::OnTaskComplete,
            "deploy",
            [exits(1, "", "no")],
            |spec| {
                spec.on_failure = Some(HookFailurePolicy::Escalate);
            },
        )
    };
    let mut world = World::begin(script());
    world.settle();
    world.command(completes("T1", "text"));
    let story = world.run().story();
    assert!(
        story.ends_with("ended escalated (the hook `deploy` at on_task_complete needs you: no)\n"),
        "{story}"
    );

    let mut world =
        World::begin(script().attended(&[(GateKind::Escalation, GateChoice::Continue)]));
    world.settle();
    world.command(completes("T1", "text"));
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          TaskCompleted
          on_task_complete deploy exit 1 -> Fail
          turn ended EndTurn
        iteration 1 done
          decided Continue
          gate 1 escalation
          gate 1 continue by Tui
        iteration 2
          prompt iteration "GOAL"
          turn ended EndTurn
        iteration 2 done
          decided Complete
          LoopEnded
        ended complete (no checks are configured, and the agent says it is done)
    "#]]
    .assert_eq(&world.run().story());
}

/// A session in which tasks are completed, with a hook that runs like this for each.
fn completed(tasks: &[&str], runs: &[Ran], answers: &[(GateKind, GateChoice)]) -> World {
    let script =
        Script::new()
            .agent([WORKS, DONE])
            .hook(HookPoint::OnTaskComplete, "deploy", runs.to_vec());
    let script = script.hook(HookPoint::OnTaskComplete, "note", [passes()]);
    let mut world = World::begin(if answers.is_empty() {
        script
    } else {
        script.attended(answers)
    });
    world.settle();
    for task in tasks {
        world.command(completes(task, "text"));
    }
    world.run()
}

#[test]
fn a_hook_that_is_broken_for_two_tasks_in_a_row_is_asked_about_and_runs_again_for_the_last() {
    let runs = [breaks(), breaks(), passes()];
    let world = completed(
        &["T1", "T2"],
        &runs,
        &[(GateKind::BrokenHook, GateChoice::Retry)],
    );
    let story = world.story();
    let asked = "  gate 1 broken_hook\n  gate 1 retry by Tui\niteration 2\n  on_task_complete deploy exit 0 -> Pass\n";
    assert!(story.contains(asked), "{story}");
    let times = |what: &str| story.matches(what).count();
    assert_eq!(
        [
            times("deploy timed out -> Fail"),
            times("note exit 0"),
            times("gate ")
        ],
        [2, 2, 2],
        "{story}"
    );
    let reason = world.events.iter().find_map(|event| match event {
        Event::Gate(GateEvent::Opened { reason, .. }) => Some(reason.as_str()),
        _ => None,
    });
    assert_eq!(
        reason,
        Some("the hook `deploy` at on_task_complete failed to run twice in a row")
    );
}

#[test]
fn a_broken_task_hook_can_be_switched_off_and_an_unattended_session_continues() {
    let world = completed(
        &["T1", "T2"],
        &[breaks()],
        &[(GateKind::BrokenHook, GateChoice::Disable)],
    );
    assert_eq!(
        world.state.phase.outcome(),
        Some(SessionOutcome::Complete),
        "{}",
        world.story()
    );
    assert_eq!(world.story().matches("gate 1 disable").count(), 1);
    let disabled = |event: &&Event| {
        matches!(
            event,
            Event::Hook(HookEvent::Disabled {
                point: HookPoint::OnTaskComplete,
                ..
            })
        )
    };
    assert_eq!(world.events.iter().filter(disabled).count(), 1);
    let alone = completed(&["T1", "T2"], &[breaks()], &[]);
    // The hook can also work again before the user can be asked.
    let runs = [breaks(), breaks(), passes()];
    let better = completed(
        &["T1", "T2", "T3"],
        &runs,
        &[(GateKind::BrokenHook, GateChoice::Abort)],
    );
    for world in [alone, better] {
        assert_eq!(
            world.state.phase.outcome(),
            Some(SessionOutcome::Complete),
            "{}",
            world.story()
        );
        assert!(!world.story().contains("gate"), "{}", world.story());
    }
}

#[test]
fn a_session_that_a_task_hook_escalated_after_the_loop_is_submitted_when_it_is_resumed() {
    let script = Script::new().agent([DONE]).submits().built_in(
        HookPoint::BeforeSubmit,
        "run_tests",
        [does("green")],
    );
    let script = script.plan(|plan| plan.max_iterations = 1);
    let script = script.hook_with(
        HookPoint::OnTaskComplete,
        "deploy",
        [exits(1, "", "no")],
        |spec| {
            spec.on_failure = Some(HookFailurePolicy::Escalate);
        },
    );
    let mut world = World::begin(script);
    world.settle();
    world.command(completes("T1", "text"));
    let escalated = world.run();
    assert_eq!(
        escalated.state.phase.outcome(),
        Some(SessionOutcome::Escalated),
        "{}",
        escalated.story()
    );
    let before = escalated.story();
    let resumed = World::from_events(escalated.script, &escalated.events);
    let story = resumed.resume_answering(GateChoice::Continue).story();
    expect![[r#"
          SessionResumed
          gate 2 escalation
          gate 2 continue by Cli
        submit
          before_submit run_tests exit 0 -> Pass
        submit done (green)
        ended complete (no checks are configured, and the agent says it is done)
    "#]]
    .assert_eq(&story[before.len()..]);
}

#[test]
fn exit_code_2_is_a_decision_of_the_hook_unless_it_is_advisory() {
    for (on_failure, retries) in [
        (HookFailurePolicy::Ignore, 0),
        (HookFailurePolicy::Escalate, 1),
    ] {
        let script = Script::new().hook_with(
            HookPoint::Stop,
            "tests",
            [blocks("red"), passes()],
            |spec| {
                spec.on_failure = Some(on_failure);
            },
        );
        let world = World::begin(script).run();
        assert_eq!(
            (world.state.phase.outcome(), world.state.retry.used),
            (Some(SessionOutcome::Complete), retries)
        );
    }
}

#[test]
fn the_iteration_limit_ends_the_loop_and_still_delivers() {
    let script = Script::new()
        .piped(HookPoint::PostIteration, "test", [prints("red")])
        .agent([WORKS])
        .plan(|plan| plan.max_iterations = 2);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 1 done
              post_iteration test exit 0 -> Pass piped
              held 1 "[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred"
              decided Continue
            iteration 2
              prompt iteration items [1] "[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred\n\nGOAL"
              turn ended EndTurn
              delivered [1]
            iteration 2 done
              post_iteration test exit 0 -> Pass piped
              held 2 "[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred"
              decided Continue
              LoopEnded
              gate 1 final_delivery
              gate 1 approve by Policy
              prompt FinalDelivery items [2] "[Final delivery]: the loop has ended; this output of hooks has not reached you yet. Act on it if it needs work.\n\n[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred"
              turn ended EndTurn
              delivered [2]
            ended limit (stopped at 2 iterations: the agent has not said that it is done)
        "#]],
    );
}

#[test]
fn priority_zero_is_the_first_and_ties_keep_their_order() {
    let script = Script::new()
        .hook(HookPoint::SessionStart, "b", [passes()])
        .hook(HookPoint::SessionStart, "c", [passes()])
        .hook_with(HookPoint::SessionStart, "a", [passes()], |spec| {
            spec.priority = 0;
        });
    becomes(
        script,
        expect![[r#"
              session_start a exit 0 -> Pass
              session_start b exit 0 -> Pass
              session_start c exit 0 -> Pass
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 1 done
              decided Complete
              LoopEnded
            ended complete (no checks are configured, and the agent says it is done)
        "#]],
    );
}

#[test]
fn an_interrupt_cancels_the_turn_runs_session_end_and_delivers_nothing() {
    let script = Script::new()
        .piped(HookPoint::SessionStart, "build", [prints("held")])
        .hook(HookPoint::SessionEnd, "notify", [passes()]);
    let mut world = World::begin(script);
    world.settle();
    world.finish_hook(0);
    world.command(SessionCommand::Stop {
        how: creel::engine::event::StopTiming::Now,
    });
    expect![[r#"
          session_start build exit 0 -> Pass piped
          held 1 "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nheld"
        iteration 1
          prompt iteration items [1] "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nheld\n\nGOAL"
          StopRequested
          turn ended Cancelled
          LoopEnded
          session_end notify exit 0 -> Pass
          warning not delivered: item 1; the text is in the journal
        ended cancelled (stopped by the user)
    "#]]
    .assert_eq(&world.run().story());
}

#[test]
fn a_stop_with_grace_lets_the_iteration_end_and_delivers() {
    let script = Script::new()
        .piped(HookPoint::PostIteration, "test", [prints("red")])
        .agent([WORKS]);
    let mut world = World::begin(script);
    world.settle();
    world.command(SessionCommand::Stop {
        how: creel::engine::event::StopTiming::AfterIteration,
    });
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          StopRequested
          turn ended EndTurn
        iteration 1 done
          post_iteration test exit 0 -> Pass piped
          held 1 "[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred"
          decided Continue
          LoopEnded
          gate 1 final_delivery
          gate 1 approve by Policy
          prompt FinalDelivery items [1] "[Final delivery]: the loop has ended; this output of hooks has not reached you yet. Act on it if it needs work.\n\n[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred"
          turn ended EndTurn
          delivered [1]
        ended cancelled (stopped by the user)
    "#]]
    .assert_eq(&world.run().story());
}

#[test]
fn a_paused_session_sends_nothing_until_it_is_unpaused() {
    let mut world = World::begin(Script::new().agent([WORKS, DONE]));
    world.settle();
    world.command(SessionCommand::Pause);
    world.finish_turn();
    assert!(!world.step(), "nothing is to be done while paused");
    world.command(SessionCommand::Unpause);
    assert_eq!(
        world.run().state.phase.outcome(),
        Some(SessionOutcome::Complete)
    );
}

#[test]
fn a_message_is_sent_when_the_turn_ends_and_before_the_stop_hooks() {
    let mut world = World::begin(
        Script::new()
            .hook(HookPoint::Stop, "tests", [passes()])
            .agent([WORKS, DONE]),
    );
    world.settle();
    world.command(SessionCommand::Message {
        text: "Use tabs.".into(),
    });
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          MessageQueued
          turn ended EndTurn
          prompt Message "[Message]: from the user\nUse tabs."
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
fn a_message_is_not_lost_when_its_turn_fails() {
    let mut world = World::begin(Script::new().agent([WORKS, Answer::Fails("reset"), DONE]));
    world.settle();
    world.command(SessionCommand::Message {
        text: "Use tabs.".into(),
    });
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          MessageQueued
          turn ended EndTurn
          prompt Message "[Message]: from the user\nUse tabs."
          turn failed reset
        iteration 1 failed
        iteration 2
          prompt iteration "Use tabs.\n\nGOAL"
          turn ended EndTurn
        iteration 2 done
          decided Complete
          LoopEnded
        ended complete (no checks are configured, and the agent says it is done)
    "#]]
    .assert_eq(&world.run().story());
}

#[test]
fn a_task_hook_runs_beside_the_agent_and_nothing_is_delivered_or_ended_meanwhile() {
    let script = Script::new().piped(
        HookPoint::OnTaskComplete,
        "validate",
        [prints("task is wrong")],
    );
    let mut world = World::begin(script);
    world.settle();
    world.command(completes("T1", "parser"));
    world.command(completes("T1", "parser"));
    world.finish_turn();
    assert!(
        world.turn.is_none() && world.state.phase.outcome().is_none(),
        "the session waits for the hook"
    );
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          TaskCompleted
          turn ended EndTurn
        iteration 1 done
          decided Complete
          LoopEnded
          on_task_complete validate exit 0 -> Pass piped
          held 1 "[Hook output: on_task_complete \"validate\" · exit 0 · 1.2 s]\ntask is wrong"
          gate 1 final_delivery
          gate 1 approve by Policy
          prompt FinalDelivery items [1] "[Final delivery]: the loop has ended; this output of hooks has not reached you yet. Act on it if it needs work.\n\n[Hook output: on_task_complete \"validate\" · exit 0 · 1.2 s]\ntask is wrong"
          turn ended EndTurn
          delivered [1]
        ended complete (no checks are configured, and the agent says it is done)
    "#]]
    .assert_eq(&world.run().story());
}

#[test]
fn commands_that_make_no_sense_are_refused_with_a_reason() {
    let mut world = World::begin(Script::new());
    world.settle();
    world.command(SessionCommand::Unpause);
    world.command(SessionCommand::Message { text: "  ".into() });
    world.command(SessionCommand::SkipItem { item: ItemId(9) });
    world.command(SessionCommand::DisableHook {
        point: None,
        hook: "nope".into(),
    });
    world.command(SessionCommand::AnswerGate(
        creel::engine::input::GateAnswer {
            gate: GateId(1),
            choice: GateChoice::Approve,
            text: None,
            items: None,
        },
    ));
    assert_eq!(
        world.refused,
        [
            Refusal::NotPaused,
            Refusal::EmptyMessage,
            Refusal::NoSuchItem(ItemId(9)),
            Refusal::NoSuchHook("nope".into()),
            Refusal::NoSuchGate(GateId(1)),
        ]
    );
}

#[test]
fn a_stopped_session_can_be_resumed_with_the_next_iteration() {
    let mut world =
        World::begin(Script::new().piped(HookPoint::SessionStart, "build", [prints("held")]));
    world.settle();
    world.finish_hook(0);
    world.command(SessionCommand::Stop {
        how: creel::engine::event::StopTiming::Now,
    });
    let stopped = world.run();
    assert_eq!(
        stopped.state.phase.outcome(),
        Some(SessionOutcome::Cancelled)
    );
    let resumed = World::from_events(stopped.script, &stopped.events).resume();
    assert_eq!(
        resumed.state.phase.outcome(),
        Some(SessionOutcome::Complete)
    );
    assert!(
        resumed.story().contains("delivered [1]"),
        "{}",
        resumed.story()
    );
}

#[test]
fn a_waiting_unattended_session_continues_when_it_is_attended() {
    let script = Script::new()
        .piped(HookPoint::PostIteration, "test", [prints("red")])
        .plan(|plan| plan.gates.final_delivery = Some(FinalDeliveryPolicy::Ask));
    let waiting = World::begin(script).run();
    let script = Script {
        presence: UserPresence::Attended,
        ..waiting.script
    }
    .attended(&[(GateKind::FinalDelivery, GateChoice::Approve)]);
    assert_eq!(
        World::from_events(script, &waiting.events)
            .resume()
            .state
            .phase
            .outcome(),
        Some(SessionOutcome::Complete)
    );
}

#[test]
fn an_interrupted_final_delivery_is_all_that_is_left_to_resume() {
    let mut world =
        World::begin(Script::new().piped(HookPoint::PostIteration, "test", [prints("red")]));
    world.settle();
    world.finish_turn();
    world.finish_hook(0);
    world.command(SessionCommand::Stop {
        how: creel::engine::event::StopTiming::Now,
    });
    let stopped = world.run();
    assert_eq!(
        stopped.state.phase.outcome(),
        Some(SessionOutcome::Cancelled)
    );
    let resumed = World::from_events(stopped.script, &stopped.events).resume();
    assert_eq!(
        resumed.state.phase.outcome(),
        Some(SessionOutcome::Complete)
    );
    assert_eq!(resumed.state.iterations.current, 1);
}

#[test]
fn a_session_stopped_during_session_start_repeats_it() {
    let mut world =
        World::begin(Script::new().piped(HookPoint::SessionStart, "build", [prints("built")]));
    world.settle();
    world.command(SessionCommand::Stop {
        how: creel::engine::event::StopTiming::Now,
    });
    let stopped = world.run();
    let resumed = World::from_events(stopped.script, &stopped.events).resume();
    expect![[r#"
          StopRequested
          session_start build cut -> Fail
          LoopEnded
        ended cancelled (stopped by the user)
          SessionResumed
          session_start build exit 0 -> Pass piped
          held 1 "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nbuilt"
        iteration 1
          prompt iteration items [1] "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nbuilt\n\nGOAL"
          turn ended EndTurn
          delivered [1]
        iteration 1 done
          decided Complete
          LoopEnded
        ended complete (no checks are configured, and the agent says it is done)
    "#]]
    .assert_eq(&resumed.story());
}

#[test]
fn piped_output_of_stop_hooks_is_kept_pending_when_the_turn_is_forced() {
    let script = Script::new()
        .piped(HookPoint::Stop, "red", [exits(2, "RED", "")])
        .piped(HookPoint::Stop, "info", [prints("INFO")])
        .agent([WORKS])
        .plan(|plan| (plan.max_hook_retries, plan.max_iterations) = (0, 2));
    let world = World::begin(script).run();
    let second = world.story();
    assert!(second.contains("prompt iteration items [1, 2]"), "{second}");
}

#[test]
fn hooks_that_differ_in_more_than_their_names_all_run() {
    let same = |spec: &mut creel::engine::policy::HookSpec| {
        spec.action = creel::engine::policy::HookAction::Command("echo same".into());
    };
    let script = Script::new()
        .hook_with(HookPoint::PostIteration, "quiet", [prints("same")], same)
        .hook_with(HookPoint::PostIteration, "again", [prints("same")], same)
        .hook_with(HookPoint::PostIteration, "loud", [prints("same")], |spec| {
            same(spec);
            spec.pipe_output = PipeOutput::Always;
        });
    let story = World::begin(script).run().story();
    assert!(
        story.contains("quiet") && story.contains("loud") && !story.contains("again"),
        "{story}"
    );
}

#[test]
fn a_recovery_that_fails_counts_and_one_that_succeeds_clears_nothing() {
    let script = Script::new()
        .piped(HookPoint::OnError, "diff", [prints("diff")])
        .agent([
            Answer::Fails("1"),
            Answer::Says("recovered"),
            Answer::Fails("2"),
            Answer::Fails("recovery fails, too"),
            Answer::Fails("3"),
            Answer::Says("recovered"),
            DONE,
        ]);
    let world = World::begin(script).run();
    assert_eq!(
        (world.state.phase.outcome(), world.state.iterations.current),
        (Some(SessionOutcome::Failed), 2)
    );
}

#[test]
fn the_output_of_a_hook_that_the_user_runs_is_only_shown() {
    let mut world = World::begin(
        Script::new()
            .piped(HookPoint::Stop, "tests", [blocks("red"), passes()])
            .agent([DONE]),
    );
    world.settle();
    world.command(SessionCommand::RunHook {
        point: None,
        hook: "tests".into(),
    });
    world.finish_hook(0);
    let story = world.run().story();
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          HookRequested
          stop tests exit 2 -> Block
          turn ended EndTurn
          stop tests exit 0 -> Pass
        iteration 1 done
          decided Complete
          LoopEnded
        ended complete (tests passed, and the agent says it is done)
    "#]]
    .assert_eq(&story);
}

#[test]
fn automation_and_stop_decision_hooks_are_not_run_by_hand_however_they_are_named() {
    let completed = creel::engine::tasks::record::TaskEventKind::TaskCompleted;
    let script = Script::new()
        .automation("look", 1, &[completed], [passes()])
        .stop_command("judge", [passes()]);
    let mut world = World::begin(script);
    world.settle();
    for (point, hook) in [
        (HookPoint::Automation, "look"),
        (HookPoint::StopDecision, "default"),
        (HookPoint::StopDecision, "judge"),
    ] {
        world.command(SessionCommand::RunHook {
            point: Some(point),
            hook: hook.into(),
        });
        world.command(SessionCommand::RunHook {
            point: None,
            hook: hook.into(),
        });
    }
    let twice = |hook: &str, why| {
        let hook = hook.to_owned();
        vec![Refusal::NotRunByHand { hook, why }; 2]
    };
    let refused = [
        twice("look", ByHandObstacle::AnswersTaskEvents),
        twice("default", ByHandObstacle::DecidesIterations),
        twice("judge", ByHandObstacle::DecidesIterations),
    ];
    assert_eq!(world.refused, refused.concat());
    assert_eq!(
        (world.jobs.len(), world.state.beside().is_busy_beside()),
        (0, false)
    );
}

#[test]
fn a_recorded_request_for_a_hook_that_cannot_be_run_by_hand_is_dropped() {
    let completed = creel::engine::tasks::record::TaskEventKind::TaskCompleted;
    let begun = World::begin(Script::new().automation("look", 1, &[completed], [passes()]));
    for (point, hook) in [
        (HookPoint::Automation, "look"),
        (HookPoint::StopDecision, "default"),
        (HookPoint::Stop, "gone"),
    ] {
        let requested = Event::Hook(HookEvent::Requested {
            point,
            hook: hook.into(),
            by: ActorKind::Tui.into(),
        });
        let hooks = vec![hook.to_owned()];
        let due = Event::Hook(HookEvent::Due {
            point,
            iteration: Some(1),
            hooks,
            task: None,
            by_hand: true,
            ask: None,
            prompt: None,
            answer: None,
        });
        for records in [vec![requested.clone()], vec![requested, due]] {
            let events = [&begun.events[..], &records].concat();
            let mut world = World::from_events(begun.script.clone(), &events);
            world.settle();
            assert_eq!(
                (world.jobs.len(), world.state.beside().is_busy_beside()),
                (0, false),
                "{hook}: {records:?}"
            );
        }
    }
}

#[test]
fn a_session_stopped_at_an_escalation_returns_to_it() {
    let script = Script::new()
        .agent([Answer::Says("<promise>ESCALATE</promise>")])
        .attended(&[(GateKind::Escalation, GateChoice::Complete)]);
    let mut world = World::begin(script);
    world.settle();
    world.finish_turn();
    world.command(SessionCommand::Stop {
        how: creel::engine::event::StopTiming::Now,
    });
    let stopped = world.run();
    let resumed = World::from_events(stopped.script, &stopped.events).resume();
    assert_eq!(
        (
            resumed.state.phase.outcome(),
            resumed.state.iterations.current
        ),
        (Some(SessionOutcome::Complete), 1)
    );
}

#[test]
fn the_user_is_asked_about_one_request_after_another() {
    let script = Script::new()
        .agent([Answer::Asks(&["a.rs", "b.rs"]), DONE])
        .attended(&[
            (GateKind::Permission, GateChoice::AllowOnce),
            (GateKind::Permission, GateChoice::RejectOnce),
        ]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              asks "Edit a.rs"
              gate 1 permission
              asks "Edit b.rs"
              gate 1 allow_once by Tui
              gate 2 permission
              gate 2 reject_once by Tui
              turn ended EndTurn
            iteration 1 done
              decided Continue
            iteration 2
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 2 done
              decided Complete
              LoopEnded
            ended complete (no checks are configured, and the agent says it is done)
        "#]],
    );
}

#[test]
fn an_always_allowed_request_is_not_asked_again_in_this_session() {
    let script = Script::new()
        .agent([
            Answer::Asks(&["a.rs"]),
            Answer::Asks(&["a.rs"]),
            Answer::Asks(&["b.rs"]),
            DONE,
        ])
        .attended(&[
            (GateKind::Permission, GateChoice::AllowAlways),
            (GateKind::Permission, GateChoice::RejectOnce),
        ]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              asks "Edit a.rs"
              gate 1 permission
              gate 1 allow_always by Tui
              turn ended EndTurn
            iteration 1 done
              decided Continue
            iteration 2
              prompt iteration "GOAL"
              asks "Edit a.rs"
              gate 2 permission
              gate 2 allow_once by Policy
              turn ended EndTurn
            iteration 2 done
              decided Continue
            iteration 3
              prompt iteration "GOAL"
              asks "Edit b.rs"
              gate 3 permission
              gate 3 reject_once by Tui
              turn ended EndTurn
            iteration 3 done
              decided Continue
            iteration 4
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 4 done
              decided Complete
              LoopEnded
            ended complete (no checks are configured, and the agent says it is done)
        "#]],
    );
}

#[test]
fn rules_answer_before_the_user_and_the_first_match_decides() {
    let rule = |kinds: &[ToolKind], paths: &[&str], action| PermissionRule {
        kinds: kinds.to_vec(),
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        action,
    };
    let script = Script::new()
        .agent([
            Answer::Asks(&["src/a.rs", "src/secret.rs", "README.md"]),
            DONE,
        ])
        .plan(|plan| {
            plan.gates.permissions = PermissionPolicy::Deny;
            plan.access.permissions = vec![
                rule(&[ToolKind::Edit], &["**/secret*"], PermissionPolicy::Deny),
                rule(&[ToolKind::Edit], &["src/**"], PermissionPolicy::Allow),
            ];
        });
    let world = World::begin(script).run();
    let answers: Vec<PermissionAnswer> = world
        .permitted
        .iter()
        .map(|(_, answer)| answer.clone())
        .collect();
    let selected = |id: &str| PermissionAnswer::Selected(id.to_owned());
    assert_eq!(answers, [selected("yes"), selected("no"), selected("no")]);
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Complete));
}

#[test]
fn an_unattended_permission_request_waits_for_the_user() {
    let world = World::begin(Script::new().agent([Answer::Asks(&["a.rs"]), DONE])).run();
    assert_eq!(world.left, Some(ExitReason::NeedsUser));
    assert!(world.permitted.is_empty());
}

#[test]
fn the_permission_request_of_a_killed_session_is_dropped_and_its_turn_is_sent_again() {
    let script = Script::new()
        .agent([Answer::Asks(&["a.rs"]), DONE])
        .attended(&[(GateKind::Permission, GateChoice::AllowOnce)]);
    let mut world = World::begin(script);
    world.settle();
    world.finish_turn();
    assert!(world.state.gates.open.is_some());
    let resumed = World::from_events(world.script, &world.events).resume();
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          asks "Edit a.rs"
          gate 1 permission
          gate 1 cancel by Policy
          SessionResumed
          prompt iteration "GOAL"
          asks "Edit a.rs"
          gate 2 permission
          gate 2 allow_once by Tui
          turn ended EndTurn
        iteration 1 done
          decided Continue
        iteration 2
          prompt iteration "GOAL"
          turn ended EndTurn
        iteration 2 done
          decided Complete
          LoopEnded
        ended complete (no checks are configured, and the agent says it is done)
    "#]]
    .assert_eq(&resumed.story());
}

#[test]
fn the_items_of_a_killed_turn_are_sent_again_unchanged() {
    let mut world = World::begin(
        Script::new()
            .piped(HookPoint::SessionStart, "build", [prints("held")])
            .agent([DONE]),
    );
    world.settle();
    world.finish_hook(0);
    let sent = world.turn.clone().expect("a prompt").1;
    assert!(sent.contains("held"));
    let mut resumed = World::from_events(world.script, &world.events);
    let presence = resumed.script.presence;
    let step = engine::decide(
        &resumed.state,
        UnixTime(0),
        Input::Resume {
            presence,
            max_iterations: None,
            checkpoint: None,
            answer: None,
        },
    );
    step.events
        .iter()
        .for_each(|event| resumed.state.apply(UnixTime(0), event));
    let item = resumed.state.pending.items()[0].id;
    for command in [
        SessionCommand::EditItem {
            item,
            text: "another text".into(),
        },
        SessionCommand::SkipItem { item },
    ] {
        let step = engine::decide(
            &resumed.state,
            UnixTime(0),
            Input::Command {
                by: ActorKind::Tui.into(),
                command,
            },
        );
        assert_eq!(
            (step.refusal, step.events.len()),
            (Some(Refusal::ItemInFlight(item)), 0)
        );
    }
    let mut stopped = resumed.clone();
    resumed.settle();
    assert_eq!(resumed.turn.expect("the prompt again").1, sent);
    // If the user stops the session first, the item is pending again.
    stopped.command(SessionCommand::Stop {
        how: StopTiming::Now,
    });
    let stopped = stopped.run();
    assert_eq!(
        (
            stopped.state.phase.outcome(),
            stopped.state.pending.waiting_ids()
        ),
        (Some(SessionOutcome::Cancelled), vec![item])
    );
}

#[test]
fn a_cancelled_turn_answers_the_agents_permission_requests() {
    let script = Script::new()
        .agent([Answer::Asks(&["a.rs", "b.rs"]), DONE])
        .attended(&[(GateKind::Permission, GateChoice::AllowOnce)]);
    let mut world = World::begin(script);
    world.settle();
    world.finish_turn();
    world.command(SessionCommand::CancelTurn);
    assert!(world.turn_cancelled && world.state.gates.open.is_none());
    world.finish_turn();
    world.command(SessionCommand::Unpause);
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          asks "Edit a.rs"
          gate 1 permission
          asks "Edit b.rs"
          gate 1 cancel by Tui
          Paused
          turn ended Cancelled
          Unpaused
          prompt iteration "GOAL"
          asks "Edit a.rs"
          gate 2 permission
          asks "Edit b.rs"
          gate 2 allow_once by Tui
          gate 3 permission
          gate 3 allow_once by Tui
          turn ended EndTurn
        iteration 1 done
          decided Continue
        iteration 2
          prompt iteration "GOAL"
          turn ended EndTurn
        iteration 2 done
          decided Complete
          LoopEnded
        ended complete (no checks are configured, and the agent says it is done)
    "#]]
    .assert_eq(&world.run().story());
}

#[test]
fn a_turn_that_ends_by_itself_closes_the_gate_of_its_request() {
    let mut world = World::begin(
        Script::new()
            .agent([Answer::Asks(&["a.rs"]), DONE])
            .attended(&[]),
    );
    world.settle();
    world.finish_turn();
    world.finish_turn();
    assert!(world.state.gates.open.is_none());
    assert_eq!(
        world.run().state.phase.outcome(),
        Some(SessionOutcome::Complete)
    );
}

#[test]
fn a_refused_prompt_is_a_failed_turn_and_delivers_nothing() {
    let script = Script::new()
        .piped(HookPoint::PostIteration, "test", [prints("red"), passes()])
        .hook(HookPoint::OnError, "note", [passes()])
        .agent([WORKS, Answer::Refuses, DONE]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 1 done
              post_iteration test exit 0 -> Pass piped
              held 1 "[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred"
              decided Continue
            iteration 2
              prompt iteration items [1] "[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred\n\nGOAL"
              turn ended Refusal
              on_error note exit 0 -> Pass
            iteration 2 failed
            iteration 3
              prompt iteration items [1] "[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred\n\nGOAL"
              turn ended EndTurn
              delivered [1]
            iteration 3 done
              post_iteration test exit 0 -> Pass
              decided Complete
              LoopEnded
            ended complete (no checks are configured, and the agent says it is done)
        "#]],
    );
}

#[test]
fn an_overloaded_server_is_left_alone_by_the_recovery_too() {
    let script = Script::new()
        .piped(HookPoint::OnError, "note", [prints("slower")])
        .agent([Answer::Overloads(30_000), WORKS, DONE]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn failed 429
              on_error note exit 0 -> Pass piped
              waits 30 s
              prompt Recovery "[Recovery]: the last turn failed: 429. Repair what the hooks report about it; the work continues in the next turn.\n\n[Hook output: on_error \"note\" · exit 0 · 1.2 s]\nslower"
              turn ended EndTurn
            iteration 1 failed
            iteration 2
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 2 done
              decided Complete
              LoopEnded
            ended complete (no checks are configured, and the agent says it is done)
        "#]],
    );
}

#[test]
fn an_exhausted_budget_opens_a_gate_and_the_same_amount_is_granted_again() {
    let script = Script::new()
        .agent([
            Answer::Spends(60),
            Answer::Spends(60),
            Answer::Spends(300),
            Answer::Spends(60),
            DONE,
        ])
        .plan(|plan| plan.budget.tokens = Some(100))
        .attended(&[
            (GateKind::Budget, GateChoice::Continue),
            (GateKind::Budget, GateChoice::Continue),
            (GateKind::Budget, GateChoice::Stop),
        ]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 1 done
              decided Continue
            iteration 2
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 2 done
              decided Continue
              gate 1 budget
              gate 1 continue by Tui
            iteration 3
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 3 done
              decided Continue
              gate 2 budget
              gate 2 continue by Tui
            iteration 4
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 4 done
              decided Continue
            iteration 5
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 5 done
              decided Complete
              LoopEnded
            ended complete (no checks are configured, and the agent says it is done)
        "#]],
    );
}

#[test]
fn an_exhausted_budget_ends_an_unattended_session() {
    let script = Script::new()
        .agent([Answer::Spends(60)])
        .plan(|plan| plan.budget.tokens = Some(100));
    let world = World::begin(script).run();
    assert_eq!(
        (world.state.phase.outcome(), world.state.iterations.current),
        (Some(SessionOutcome::Limit), 2)
    );
}

#[test]
fn a_session_ended_by_its_budget_is_resumed_with_the_same_amount_again() {
    let spends = |max| {
        Script::new().agent([Answer::Spends(60)]).plan(|plan| {
            plan.budget.tokens = Some(100);
            plan.max_iterations = max;
        })
    };
    let resumed = |script: &Script, max_iterations| {
        let ended = World::begin(script.clone()).run();
        let mut world = World::from_events(script.clone(), &ended.events);
        world.input(Input::Resume {
            presence: UserPresence::Unattended,
            max_iterations,
            checkpoint: None,
            answer: None,
        });
        world
    };
    let world = resumed(&spends(20), None);
    let told = "the budget of 100 tokens is used up: 120 so far; you resumed it, so creel grants the same budget again";
    assert!(world.story().contains(told), "{}", world.story());
    let world = world.run();
    assert_eq!(
        (world.state.phase.outcome(), world.state.iterations.current),
        (Some(SessionOutcome::Limit), 4)
    );
    // The iteration limit ended the session, so its budget was never asked about.
    assert_eq!(
        resumed(&spends(2), None).refused,
        [Refusal::IterationLimitUsed(2)]
    );
    assert_eq!(
        resumed(&spends(2), Some(9)).run().state.iterations.current,
        2
    );
}

#[test]
fn a_budget_also_ends_retries() {
    let script = Script::new()
        .hook(HookPoint::Stop, "tests", [blocks("red")])
        .agent([Answer::Spends(60)])
        .plan(|plan| plan.budget.tokens = Some(100));
    let world = World::begin(script).run();
    assert_eq!(
        (world.state.phase.outcome(), world.state.retry.used),
        (Some(SessionOutcome::Limit), 2)
    );
}

#[test]
fn a_message_whose_turn_is_cancelled_is_sent_again_when_the_session_continues_and_not_at_once() {
    let mut world = World::begin(Script::new().agent([WORKS, DONE]));
    world.settle();
    world.command(SessionCommand::Message {
        text: "Use tabs.".into(),
    });
    world.finish_turn();
    world.command(SessionCommand::CancelTurn);
    world.finish_turn();
    assert!(!world.step(), "nothing is sent by itself");
    world.command(SessionCommand::Unpause);
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          MessageQueued
          turn ended EndTurn
          prompt Message "[Message]: from the user\nUse tabs."
          Paused
          turn ended Cancelled
          Unpaused
          prompt Message "[Message]: from the user\nUse tabs."
          turn ended EndTurn
        iteration 1 done
          decided Complete
          LoopEnded
        ended complete (no checks are configured, and the agent says it is done)
    "#]]
    .assert_eq(&world.run().story());
}

#[test]
fn an_interrupt_after_the_loop_waits_for_no_server_and_sends_no_recovery() {
    let script = Script::new()
        .piped(HookPoint::PostIteration, "test", [prints("red")])
        .piped(HookPoint::OnError, "look", [prints("the server is down")])
        .agent([DONE, Answer::Overloads(600_000)]);
    let mut world = World::begin(script);
    world.settle();
    while world.state.retry.wait == RetryWait::No {
        assert!(world.step());
    }
    while !world.jobs.is_empty() {
        world.finish_hook(0);
    }
    world.command(SessionCommand::Stop {
        how: creel::engine::event::StopTiming::Now,
    });
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
        iteration 1 done
          post_iteration test exit 0 -> Pass piped
          held 1 "[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred"
          decided Complete
          LoopEnded
          gate 1 final_delivery
          gate 1 approve by Policy
          prompt FinalDelivery items [1] "[Final delivery]: the loop has ended; this output of hooks has not reached you yet. Act on it if it needs work.\n\n[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred"
          turn failed 429
          on_error look exit 0 -> Pass piped
          waits 10 min
          StopRequested
          warning not delivered: item 1; the text is in the journal
        ended cancelled (stopped by the user)
    "#]]
    .assert_eq(&world.story());
}

#[test]
fn output_captured_while_the_last_gate_is_open_needs_approval_too() {
    let script = Script::new()
        .piped(HookPoint::PostIteration, "test", [prints("red")])
        .piped(HookPoint::OnTaskComplete, "announce", [prints("T is done")])
        .attended(&[(GateKind::FinalDelivery, GateChoice::Skip)]);
    let mut world = World::begin(script);
    world.settle();
    while world.state.gates.open.is_none() {
        assert!(world.step());
    }
    world.command(completes("T", "the parser"));
    world.finish_hook(0);
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
        iteration 1 done
          post_iteration test exit 0 -> Pass piped
          held 1 "[Hook output: post_iteration \"test\" · exit 0 · 1.2 s]\nred"
          decided Complete
          LoopEnded
          gate 1 final_delivery
          TaskCompleted
          on_task_complete announce exit 0 -> Pass piped
          held 2 "[Hook output: on_task_complete \"announce\" · exit 0 · 1.2 s]\nT is done"
          PendingSkipped
          gate 1 skip by Tui
          gate 2 final_delivery
          PendingSkipped
          gate 2 skip by Tui
        ended complete (no checks are configured, and the agent says it is done)
    "#]]
    .assert_eq(&world.run().story());
}

#[test]
fn output_captured_while_a_delivery_waits_for_approval_is_not_sent_unseen() {
    let script = Script::new()
        .piped(HookPoint::SessionStart, "build", [prints("held")])
        .piped(HookPoint::OnTaskComplete, "announce", [prints("T is done")])
        .plan(|plan| plan.gates.delivery = DeliveryPolicy::Ask)
        .attended(&[(GateKind::Delivery, GateChoice::Approve)]);
    let mut world = World::begin(script);
    world.settle();
    while world.state.gates.open.is_none() {
        assert!(world.step());
    }
    world.command(completes("T", "the parser"));
    world.finish_hook(0);
    expect![[r#"
          session_start build exit 0 -> Pass piped
          held 1 "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nheld"
        iteration 1
          gate 1 delivery
          TaskCompleted
          on_task_complete announce exit 0 -> Pass piped
          held 2 "[Hook output: on_task_complete \"announce\" · exit 0 · 1.2 s]\nT is done"
          gate 1 approve by Tui
          gate 2 delivery
          gate 2 approve by Tui
          prompt iteration items [1, 2] "[Hook output: session_start \"build\" · exit 0 · 1.2 s]\nheld\n\n[Hook output: on_task_complete \"announce\" · exit 0 · 1.2 s]\nT is done\n\nGOAL"
          turn ended EndTurn
          delivered [1, 2]
        iteration 1 done
          decided Complete
          LoopEnded
        ended complete (no checks are configured, and the agent says it is done)
    "#]].assert_eq(&world.run().story());
}

#[test]
fn a_turn_that_the_user_accepts_at_a_gate_is_done_and_the_output_of_its_hooks_is_offered() {
    let script = Script::new()
        .piped(HookPoint::Stop, "notes", [prints("INFO")])
        .hook_with(HookPoint::Stop, "audit", [exits(1, "", "odd")], |spec| {
            spec.on_failure = Some(HookFailurePolicy::Escalate);
        })
        .attended(&[
            (GateKind::Escalation, GateChoice::Complete),
            (GateKind::FinalDelivery, GateChoice::Approve),
            (GateKind::Escalation, GateChoice::Complete),
            (GateKind::FinalDelivery, GateChoice::Skip),
        ]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
              stop notes exit 0 -> Pass piped
              stop audit exit 1 -> Fail
              gate 1 escalation
              gate 1 complete by Tui
              held 1 "[Hook output: stop \"notes\" · exit 0 · 1.2 s]\nINFO"
            iteration 1 done
              LoopEnded
              gate 2 final_delivery
              gate 2 approve by Tui
              prompt FinalDelivery items [1] "[Final delivery]: the loop has ended; this output of hooks has not reached you yet. Act on it if it needs work.\n\n[Hook output: stop \"notes\" · exit 0 · 1.2 s]\nINFO"
              turn ended EndTurn
              delivered [1]
              stop notes exit 0 -> Pass piped
              stop audit exit 1 -> Fail
              gate 3 escalation
              gate 3 complete by Tui
              held 2 "[Hook output: stop \"notes\" · exit 0 · 1.2 s]\nINFO"
              LoopEnded
              gate 4 final_delivery
              PendingSkipped
              gate 4 skip by Tui
            ended forced (audit still fails; you accepted it)
        "#]],
    );
}

#[test]
fn a_run_belongs_to_the_iteration_in_which_it_began() {
    let script = Script::new()
        .piped(HookPoint::OnTaskComplete, "announce", [prints("T is done")])
        .agent([WORKS, DONE]);
    let mut world = World::begin(script);
    world.settle();
    world.command(completes("T", "the parser"));
    world.finish_turn();
    assert_eq!(
        world.state.iterations.current, 2,
        "the next prompt waits for the hook"
    );
    world.finish_hook(0);
    let of_runs: Vec<u32> = world
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Hook(HookEvent::Started { iteration, .. })
            | Event::Pending(PendingEvent::Added { iteration, .. }) => Some(*iteration),
            Event::Hook(HookEvent::Finished(finished)) => Some(finished.iteration),
            _ => None,
        })
        .collect();
    assert_eq!(of_runs, [1, 1, 1]);
}

#[test]
fn a_denial_at_a_point_without_a_decision_escalates_if_configured() {
    let denies = Ran {
        reply: Some(HookReply {
            decision: Some(HookDecision::Deny),
            reason: Some("not on a Friday".into()),
            ..HookReply::default()
        }),
        ..passes()
    };
    let script = Script::new().hook_with(HookPoint::PostIteration, "calendar", [denies], |spec| {
        spec.on_failure = Some(HookFailurePolicy::Escalate);
    });
    becomes(
        script,
        expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
        iteration 1 done
          post_iteration calendar exit 0 -> Fail
          gate 1 escalation
          gate 1 escalate by Policy
          LoopEnded
        ended escalated (the hook `calendar` at post_iteration needs you: not on a Friday)
    "#]],
    );
}

/// A hook that prints `{"continue": false}` with a reason, and possibly another decision.
fn stops(reason: &str, decision: Option<HookDecision>) -> Ran {
    Ran {
        reply: Some(HookReply {
            stops: true,
            decision,
            reason: Some(reason.into()),
            ..HookReply::default()
        }),
        ..passes()
    }
}

#[test]
fn a_stop_hook_that_says_continue_false_opens_a_gate_and_sends_nothing_back() {
    let script = Script::new()
        .piped(
            HookPoint::Stop,
            "guard",
            [
                stops("the disk is full", Some(HookDecision::Block)),
                passes(),
            ],
        )
        .hook(HookPoint::Stop, "tests", [blocks("red"), passes()])
        .attended(&[(GateKind::Escalation, GateChoice::Continue)]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
              stop guard exit 0 -> Fail
              stop tests exit 2 -> Block
              gate 1 escalation
              gate 1 continue by Tui
              retry 1/5
              prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\nred"
              turn ended EndTurn
              stop guard exit 0 -> Pass
              stop tests exit 0 -> Pass
            iteration 1 done
              decided Complete
              LoopEnded
            ended complete (guard and tests passed, and the agent says it is done)
        "#]],
    );
    let unattended =
        Script::new().hook(HookPoint::Stop, "guard", [stops("the disk is full", None)]);
    becomes(
        unattended,
        expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop guard exit 0 -> Fail
          gate 1 escalation
          gate 1 escalate by Policy
          LoopEnded
        ended escalated (the hook `guard` at stop stopped the session: the disk is full)
    "#]],
    );
}

#[test]
fn a_hook_that_says_continue_false_stops_the_session_at_any_point() {
    for point in [
        HookPoint::SessionStart,
        HookPoint::PreIteration,
        HookPoint::PostIteration,
        HookPoint::OnTaskComplete,
    ] {
        let ended = World::begin(Script::new().hook(point, "guard", [stops("enough", None)]));
        let mut world = ended;
        world.settle();
        if point == HookPoint::OnTaskComplete {
            world.command(completes("T", "the parser"));
        }
        let story = world.run().story();
        let says =
            format!("ended escalated (the hook `guard` at {point} stopped the session: enough)");
        assert!(story.contains(&says), "{story}");
    }
}

#[test]
fn a_check_before_submitting_that_says_continue_false_starts_no_repair() {
    let script = Script::new().submits().piped(
        HookPoint::BeforeSubmit,
        "guard",
        [stops("enough", Some(HookDecision::Block))],
    );
    becomes(
        script,
        expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
        iteration 1 done
          decided Complete
          LoopEnded
        submit
          before_submit guard exit 0 -> Fail
          gate 1 submit
          gate 1 leave by Policy
        submit failed (`guard` blocks the submit: enough)
        ended escalated (`guard` blocks the submit: enough)
    "#]],
    );
}

#[test]
fn an_unreadable_decision_makes_a_hook_broken() {
    let unreadable = || Ran {
        reply: Some(HookReply::unreadable("its JSON reply is too long")),
        ..passes()
    };
    becomes(
        Script::new().hook(HookPoint::Stop, "review", [unreadable()]),
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
              stop review exit 0 -> Fail
            iteration 1 done
              decided Complete
              LoopEnded
            ended unverified (review failed (its JSON reply is too long))
        "#]],
    );
}

#[test]
fn a_cut_turn_is_sent_to_the_conversation_that_the_agent_opened_in_it() {
    for context in [ContextPolicy::Fresh, ContextPolicy::Keep] {
        for opened in [true, false] {
            let mut world = World::begin(Script::new().plan(|plan| plan.context = context));
            world.settle();
            if opened {
                let turn = world.state.turns.last;
                world.input(Input::Agent {
                    turn,
                    update: AgentUpdate::Opened("c-1".into()),
                });
            }
            let resumed = World::from_events(world.script.clone(), &world.events).resume();
            let sent = resumed.events.iter().filter_map(|event| match event {
                Event::Turn(TurnEvent::PromptSent(prompt)) => Some(prompt.conversation),
                _ => None,
            });
            let again = if opened {
                ConversationMode::Same
            } else {
                ConversationMode::New
            };
            assert_eq!(
                sent.collect::<Vec<_>>(),
                [ConversationMode::New, again],
                "{context:?}"
            );
        }
    }
}

/// The conversation of each prompt, and whether it has the completion note.
fn conversations(world: &World) -> Vec<(ConversationMode, bool)> {
    let sent = world.events.iter().filter_map(|event| match event {
        Event::Turn(TurnEvent::PromptSent(prompt)) => Some(prompt),
        _ => None,
    });
    sent.map(|prompt| (prompt.conversation, prompt.text.contains("<promise>")))
        .collect()
}

#[test]
fn a_session_continues_the_conversation_that_the_user_chose_until_a_turn_has_ended_well() {
    use ConversationMode::{New, Same};
    let script = |context| {
        let mut script = Script::new().plan(|plan| {
            (plan.context, plan.max_iterations) = (context, 3);
            plan.instructions = CompletionInstructions::Auto;
        });
        script.from = Some("c-0".into());
        script
    };
    let answers = [
        Answer::Fails("no"),
        Answer::Says("more"),
        Answer::Says("more"),
    ];
    let fresh = World::begin(script(ContextPolicy::Fresh).agent(answers.clone())).run();
    assert_eq!(
        conversations(&fresh),
        [(Same, true), (Same, true), (New, true)]
    );
    let keep = World::begin(script(ContextPolicy::Keep).agent(answers)).run();
    assert_eq!(
        conversations(&keep),
        [(Same, true), (Same, true), (Same, false)]
    );
}

#[test]
fn a_kill_before_or_in_the_first_turn_keeps_the_chosen_conversation() {
    let mut script = Script::new().plan(|plan| plan.context = ContextPolicy::Fresh);
    script.from = Some("c-0".into());
    let mut world = World::begin(script.clone());
    world.settle();
    for killed in 1..=world.events.len() {
        let resumed = World::from_events(script.clone(), &world.events[..killed]).resume();
        let sent = conversations(&resumed);
        assert!(
            sent.iter()
                .take(2)
                .all(|(mode, _)| *mode == ConversationMode::Same),
            "{killed}: {sent:?}"
        );
    }
}

#[test]
fn a_wait_is_never_longer_than_it_was_when_the_clock_was_set_back() {
    let backoff = BackoffPolicy {
        base: TimeSpan::secs(1),
        factor: 2.0,
        max: TimeSpan::secs(60),
        jitter: 0.0,
    };
    let script = Script::new()
        .agent([Answer::Fails("no"), DONE])
        .plan(|plan| plan.backoff = Some(backoff));
    let mut world = World::begin(script);
    world.now = UnixTime(50_000_000_000);
    world.settle();
    world.finish_turn();
    assert_eq!(world.state.next_wake(), Some(UnixTime(50_000_001_000)));
    // Killed, and resumed with a clock that is set back by more than a year.
    let mut resumed = World::from_events(world.script.clone(), &world.events);
    resumed.now = UnixTime(1_000);
    resumed.input(Input::Resume {
        presence: UserPresence::Unattended,
        max_iterations: None,
        checkpoint: None,
        answer: None,
    });
    assert_eq!(resumed.state.next_wake(), Some(UnixTime(2_000)));
}

#[test]
fn a_gate_waits_no_longer_than_its_timeout_when_the_clock_was_set_back() {
    let script = Script::new()
        .attended(&[])
        .hook_with(
            HookPoint::PostIteration,
            "audit",
            [exits(1, "", "no")],
            |spec| {
                spec.on_failure = Some(HookFailurePolicy::Escalate);
            },
        )
        .plan(|plan| plan.gates.timeout = TimeSpan::secs(5));
    let mut world = World::begin(script);
    world.now = UnixTime(50_000_000_000);
    world.settle();
    world.finish_turn();
    world.finish_hook(0);
    assert_eq!(world.state.next_wake(), Some(UnixTime(50_000_005_000)));
    let mut state = world.state.clone();
    let resumed = Event::Session(SessionEvent::Resumed {
        cut: Vec::new(),
        presence: UserPresence::Attended,
        max_iterations: None,
        checkpoint: None,
        answer: None,
        paused: false,
        hooks: Vec::new(),
        decision: None,
    });
    state.apply(UnixTime(1_000), &resumed);
    assert_eq!(state.next_wake(), Some(UnixTime(6_000)));
}

#[test]
fn a_session_of_an_earlier_version_that_ended_at_a_gate_asks_again_too() {
    let script = Script::new().hook(
        HookPoint::Stop,
        "tests",
        [blocks("red"), blocks("red"), passes()],
    );
    let script = script.plan(|plan| {
        (plan.max_hook_retries, plan.on_limit) = (1, RetryLimitPolicy::Escalate);
    });
    let ended = World::begin(script.clone()).run();
    // It recorded the iteration as failed.
    let failed = SessionEvent::IterationCompleted {
        iteration: 1,
        outcome: creel::engine::event::IterationOutcome::Failed,
    };
    let at = ended
        .events
        .iter()
        .position(|event| matches!(event, Event::Session(SessionEvent::LoopEnded { .. })));
    let mut events = ended.events.clone();
    events.insert(at.expect("a loop that ended"), Event::Session(failed));
    let world = World::from_events(script, &events).resume_answering(GateChoice::Continue);
    assert_eq!(
        (world.state.phase.outcome(), world.state.iterations.current),
        (Some(SessionOutcome::Complete), 1),
        "{}",
        world.story()
    );
}
