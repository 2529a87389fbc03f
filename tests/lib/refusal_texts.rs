//! What people read when the session refuses a command.

use creel::{
    engine::{
        ids::{GateId, ItemId},
        refusal::{ByHandObstacle, Refusal},
        stop::{agent_loop::LoopRefusal, decision::StopAction},
        submit::kind::PipelineKind,
    },
    present::refusals::text,
};
use expect_test::expect;

#[test]
fn a_refusal_says_why_and_what_to_do() {
    let by_hand = |hook: &str, why| Refusal::NotRunByHand {
        hook: hook.into(),
        why,
    };
    let refusals = [
        Refusal::NotPaused,
        Refusal::EmptyMessage,
        Refusal::EmptyGateMessage,
        Refusal::NoSuchItem(ItemId(9)),
        Refusal::NoSuchHook("nope".into()),
        Refusal::NoSuchGate(GateId(1)),
        by_hand("look", ByHandObstacle::AnswersTaskEvents),
        by_hand("judge", ByHandObstacle::DecidesIterations),
        Refusal::AlreadyCompleting,
        Refusal::PipelineRequested(PipelineKind::Submit),
        Refusal::SessionComplete,
        Refusal::IterationLimitUsed(2),
        Refusal::NoSuchCheckpoint {
            number: 2,
            last: Some(1),
        },
    ];
    expect![[r#"
        the session is not paused
        the message is empty
        the message is empty; write it in quotes after the answer
        there is no pending item 9
        unknown hook `nope`
        there is no gate 1
        `look` answers events of tasks; you cannot run it without one
        `judge` decides about an iteration; you cannot run it without one
        the session is already completing
        you already requested a submit; it starts after this iteration
        the session has ended, so there is nothing to resume; start a new one with `creel run`
        the session has used its limit of 2 iterations; raise it with `--max-iterations`
        the session has no checkpoint 2; the last one is 1
    "#]]
    .assert_eq(&texts(&refusals));
}

#[test]
fn a_refusal_about_a_loop_says_how_to_continue() {
    let id = || "IT-1-xyz".to_owned();
    let loops = [
        LoopRefusal::UnknownTask {
            task: "nothing".into(),
            near: None,
            session: "story".into(),
        },
        LoopRefusal::LoopExists {
            task: "a".into(),
            loop_id: id(),
            iteration: 1,
        },
        LoopRefusal::NoSuchLoop(id()),
        LoopRefusal::LoopOver {
            loop_id: id(),
            task: "a".into(),
        },
        LoopRefusal::BeingJudged(id()),
        LoopRefusal::LimitUsed {
            loop_id: id(),
            limit: 1,
        },
        LoopRefusal::Escalated(id()),
        LoopRefusal::NotCompletedWhileEscalated(id()),
        LoopRefusal::NotJudgedComplete {
            loop_id: id(),
            last: None,
        },
        LoopRefusal::NotJudgedComplete {
            loop_id: id(),
            last: Some((
                StopAction::Continue,
                "1 of 1 validation rule failed: tests".into(),
            )),
        },
    ];
    expect![[r#"
        there is no task nothing: create it with task_add first, or use `story` for the whole session
        a already has a loop: IT-1-xyz, in iteration 1; continue it, or complete it
        there is no iteration IT-1-xyz; start one first, and use its id
        IT-1-xyz has ended: its task a needs no more iterations; start a new loop if it does
        IT-1-xyz is being evaluated; wait for that answer
        IT-1-xyz has used its limit of 1 iteration, and the work is not done: report to the user what blocks you
        IT-1-xyz waits for the user: its task is blocked
        IT-1-xyz waits for the user: its task is blocked and not completed; end your turn, or complete the iteration with BLOCKED
        IT-1-xyz is not complete: it has not been evaluated. Evaluate the iteration with iteration_validate, and complete it when that says COMPLETE; hook_register sets what decides
        IT-1-xyz is not complete: its last evaluation said CONTINUE: 1 of 1 validation rule failed: tests. Evaluate the iteration with iteration_validate, and complete it when that says COMPLETE; hook_register sets what decides
    "#]].assert_eq(&texts(&loops.map(Refusal::Loop)));
}

fn texts(refusals: &[Refusal]) -> String {
    refusals
        .iter()
        .map(|refusal| text(refusal) + "\n")
        .collect()
}
