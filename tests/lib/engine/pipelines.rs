//! Submitting and merging in a world without processes: stories and invariants.

use creel::engine::{
    conversation::ConversationMode,
    event::{
        ActorKind, Event, GateEvent, HookEvent, PipelineEvent, PromptReason, PromptSent,
        SessionOutcome, StopTiming, TurnEvent,
    },
    gate::kind::{GateChoice, GateKind},
    hooks::{point::HookPoint, verdict::Verdict},
    input::{Input, SessionCommand},
    policy::{AgentSpec, HookFailurePolicy, MERGE, PipeOutput},
    refusal::Refusal,
    submit::{
        kind::{PipelineKind, PipelineOutcome},
        state::PipelineStepState,
    },
    tasks::command::{NewTask, TaskCommand},
};
use expect_test::{Expect, expect};
use proptest::prelude::*;

use crate::support::{
    samples::until,
    world::{
        Answer, DONE, Ran, Script, World, blocks, breaks, does, exits, passes, prints,
        random_cases, wants,
    },
};

const LINK: &str = "https://forge.example/pr/1";
const APPROVES: Answer = Answer::Says("Fine.\n<verdict>approve</verdict>");
const BLOCKS: Answer = Answer::Says("No tests. <verdict>block</verdict>");

#[expect(clippy::needless_pass_by_value, reason = "as the macro gives it")]
fn story(script: Script, expected: Expect) -> World {
    let world = World::begin(script).run();
    expected.assert_eq(&world.story());
    world
}

/// The part of a story after the loop.
fn after_the_loop(world: &World) -> String {
    let story = world.story();
    let from = story
        .find("submit\n")
        .or_else(|| story.find("merge\n"))
        .unwrap_or(0);
    story[from..].to_owned()
}

fn merges(script: Script) -> Script {
    Script {
        only_pipeline: Some(PipelineKind::Merge),
        ..script
    }
}

#[test]
fn a_complete_session_is_submitted_before_it_ends() {
    let script = Script::new()
        .submits()
        .built_in(HookPoint::BeforeSubmit, "rebase_on_main", [does("rebased")])
        .built_in(HookPoint::BeforeSubmit, "create_pr", [does(LINK)])
        .piped(HookPoint::AfterSubmit, "announce", [prints("told all")])
        .hook(HookPoint::SessionEnd, "bye", [passes()]);
    story(
        script,
        expect![[r#"
            iteration 1
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 1 done
              decided Complete
              LoopEnded
            submit
              before_submit rebase_on_main exit 0 -> Pass
              before_submit create_pr exit 0 -> Pass
              after_submit announce exit 0 -> Pass piped
              held 1 "[Hook output: after_submit \"announce\" · exit 0 · 1.2 s]\ntold all"
            submit done https://forge.example/pr/1 (https://forge.example/pr/1)
              session_end bye exit 0 -> Pass
              warning not delivered: item 1; the text is in the journal
            ended complete (no checks are configured, and the agent says it is done)
        "#]],
    );
}

#[test]
fn nothing_is_submitted_unless_the_config_says_so() {
    let world =
        World::begin(Script::new().built_in(HookPoint::BeforeSubmit, "create_pr", [does(LINK)]))
            .run();
    assert!(!world.story().contains("submit"), "{}", world.story());
}

#[test]
fn without_a_list_the_default_hooks_submit() {
    let mut script = Script::new().submits();
    script.hooks.insert("create_pr".into(), vec![does(LINK)]);
    let world = World::begin(script).run();
    let last = world.state.pipelines.last.expect("it was submitted");
    assert_eq!(
        (last.outcome, last.pull_request.as_deref()),
        (PipelineOutcome::Done, Some(LINK))
    );
    // An empty list means no hooks.
    let mut none = Script::new().submits();
    none.plan.hooks.insert(HookPoint::BeforeSubmit, Vec::new());
    let world = World::begin(none).run();
    assert_eq!(
        world.state.pipelines.last.expect("it was submitted").steps,
        []
    );
}

#[test]
fn a_failure_with_a_remediation_prompt_becomes_a_turn_and_then_the_whole_list_runs_again() {
    let script = Script::new()
        .submits()
        .built_in(HookPoint::BeforeSubmit, "rebase_on_main", [does("rebased")])
        .built_in(
            HookPoint::BeforeSubmit,
            "run_tests",
            [wants(Some("Repair test 7.")), does("green")],
        )
        .built_in(HookPoint::BeforeSubmit, "create_pr", [does(LINK)]);
    let world = World::begin(script).run();
    expect![[r#"
        submit
          before_submit rebase_on_main exit 0 -> Pass
          before_submit run_tests exit 1 -> Block
          repair 1/1 of run_tests
          prompt Remediation "[Check failed]: the work is to be submitted, and `run_tests` holds it. Repair what it says and commit what belongs to the task; then every check before the submit runs again.\n\nRepair test 7."
          turn ended EndTurn
          before_submit rebase_on_main exit 0 -> Pass
          before_submit run_tests exit 0 -> Pass
          before_submit create_pr exit 0 -> Pass
        submit done https://forge.example/pr/1 (https://forge.example/pr/1)
        ended complete (no checks are configured, and the agent says it is done)
    "#]].assert_eq(&after_the_loop(&world));
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Complete));
}

#[test]
fn a_failure_without_a_remediation_prompt_starts_no_turn_and_escalates_an_unattended_session() {
    let script = Script::new()
        .submits()
        .hook(
            HookPoint::BeforeSubmit,
            "licence",
            [exits(1, "", "no licence")],
        )
        .built_in(HookPoint::BeforeSubmit, "create_pr", [does(LINK)]);
    let world = World::begin(script).run();
    expect![[r#"
        submit
          before_submit licence exit 1 -> Block
          gate 1 submit
          gate 1 leave by Policy
        submit failed (`licence` blocks the submit: no licence)
        ended escalated (`licence` blocks the submit: no licence)
    "#]]
    .assert_eq(&after_the_loop(&world));
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Escalated));
}

#[test]
fn a_command_whose_output_is_piped_is_its_own_remediation_prompt() {
    let script = Script::new()
        .submits()
        .piped(
            HookPoint::BeforeSubmit,
            "lint",
            [exits(1, "unused import", ""), passes()],
        )
        .plan(|plan| plan.submit.remediation_attempts = 2);
    let world = World::begin(script).run();
    expect![[r#"
        submit
          before_submit lint exit 1 -> Block piped
          repair 1/2 of lint
          prompt Remediation "[Check failed]: the work is to be submitted, and `lint` holds it. Repair what it says and commit what belongs to the task; then every check before the submit runs again.\n\n[Hook output: before_submit \"lint\" · exit 1 · 1.2 s]\nunused import"
          turn ended EndTurn
          before_submit lint exit 0 -> Pass
        submit done (every check has passed)
        ended complete (no checks are configured, and the agent says it is done)
    "#]].assert_eq(&after_the_loop(&world));
}

#[test]
fn a_broken_check_blocks_and_one_whose_failure_is_ignored_does_not() {
    let script = Script::new()
        .submits()
        .hook_with(
            HookPoint::BeforeSubmit,
            "spelling",
            [exits(1, "", "typo")],
            |spec| {
                spec.on_failure = Some(HookFailurePolicy::Ignore);
            },
        )
        .hook(HookPoint::BeforeSubmit, "slow", [breaks()])
        .hook(HookPoint::BeforeSubmit, "never reached", [passes()]);
    let world = World::begin(script).run();
    expect![[r#"
        submit
          before_submit spelling exit 1 -> Fail
          before_submit slow timed out -> Block
          warning hook `slow` at before_submit: timed out
          gate 1 submit
          gate 1 leave by Policy
        submit failed (`slow` blocks the submit: hook failed (timed out))
        ended escalated (`slow` blocks the submit: Hook failed (timed out))
    "#]]
    .assert_eq(&after_the_loop(&world));
}

#[test]
fn at_the_gate_the_user_retries_writes_skips_or_leaves() {
    let red = || {
        Script::new()
            .submits()
            .built_in(
                HookPoint::BeforeSubmit,
                "run_tests",
                [wants(None), wants(None), does("green")],
            )
            .built_in(HookPoint::BeforeSubmit, "create_pr", [does(LINK)])
    };
    let told = |person: &[(GateKind, GateChoice)]| {
        after_the_loop(&World::begin(red().attended(person)).run())
    };
    expect![[r#"
        submit
          before_submit run_tests exit 1 -> Block
          gate 1 submit
          gate 1 retry by Tui
          before_submit run_tests exit 1 -> Block
          gate 2 submit
          MessageQueued
          gate 2 send by Tui
          prompt Message "[Message]: from the user\nTry another way."
          turn ended EndTurn
          before_submit run_tests exit 0 -> Pass
          before_submit create_pr exit 0 -> Pass
        submit done https://forge.example/pr/1 (https://forge.example/pr/1)
        ended complete (no checks are configured, and the agent says it is done)
    "#]]
    .assert_eq(&told(&[
        (GateKind::Submit, GateChoice::Retry),
        (GateKind::Submit, GateChoice::Send),
    ]));
    expect![[r#"
        submit
          before_submit run_tests exit 1 -> Block
          gate 1 submit
          gate 1 skip by Tui
          before_submit create_pr exit 0 -> Pass
        submit done https://forge.example/pr/1 (https://forge.example/pr/1)
        ended complete (no checks are configured, and the agent says it is done)
    "#]]
    .assert_eq(&told(&[(GateKind::Submit, GateChoice::Skip)]));
    expect![[r#"
        submit
          before_submit run_tests exit 1 -> Block
          gate 1 submit
          gate 1 leave by Tui
        submit failed (`run_tests` blocks the submit: red)
        ended complete (no checks are configured, and the agent says it is done; nothing was submitted)
    "#]]
    .assert_eq(&told(&[(GateKind::Submit, GateChoice::Leave)]));
}

#[test]
fn a_session_stopped_at_its_submit_retries_it_when_it_is_resumed() {
    let script = Script::new().submits().built_in(
        HookPoint::BeforeSubmit,
        "create_pr",
        [wants(None), does(LINK)],
    );
    let held = World::begin(script.clone()).run();
    assert_eq!(held.state.phase.outcome(), Some(SessionOutcome::Escalated));
    let resumed = World::from_events(script, &held.events).resume();
    assert_eq!(
        resumed.state.phase.outcome(),
        Some(SessionOutcome::Complete)
    );
    assert_eq!(resumed.state.iterations.current, 1, "no further iteration");
    assert_eq!(
        resumed
            .state
            .pipelines
            .last
            .and_then(|last| last.pull_request)
            .as_deref(),
        Some(LINK)
    );
}

#[test]
fn an_ended_session_can_be_submitted_and_keeps_its_outcome() {
    let script = Script::new()
        .built_in(
            HookPoint::BeforeSubmit,
            "create_pr",
            [wants(Some("Commit it.")), does(LINK)],
        )
        .hook(HookPoint::SessionEnd, "bye", [passes()]);
    let mut world = World::begin(script.clone()).run();
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Complete));
    world.left = None;
    world.input(Input::Pipeline {
        pipeline: PipelineKind::Submit,
        until_merged: false,
        presence: script.presence,
    });
    let world = world.run();
    expect![[r#"
        submit
          before_submit create_pr exit 1 -> Block
          repair 1/1 of create_pr
          prompt Remediation "[Check failed]: the work is to be submitted, and `create_pr` holds it. Repair what it says and commit what belongs to the task; then every check before the submit runs again.\n\nCommit it."
          turn ended EndTurn
          before_submit create_pr exit 0 -> Pass
        submit done https://forge.example/pr/1 (https://forge.example/pr/1)
        ended complete (no checks are configured, and the agent says it is done)
    "#]].assert_eq(&after_the_loop(&world));
    assert!(world.left.is_some());
}

#[test]
fn a_running_session_is_submitted_between_two_iterations() {
    let script = Script::new()
        .agent([Answer::Says("Working."), DONE])
        .built_in(HookPoint::BeforeSubmit, "create_pr", [does(LINK)]);
    let mut world = World::begin(script);
    world.settle();
    world.command(SessionCommand::Pipeline {
        pipeline: PipelineKind::Submit,
    });
    world.command(SessionCommand::Pipeline {
        pipeline: PipelineKind::Submit,
    });
    assert_eq!(
        world.refused,
        [Refusal::PipelineRequested(PipelineKind::Submit)]
    );
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          PipelineRequested
          turn ended EndTurn
        iteration 1 done
          decided Continue
        submit
          before_submit create_pr exit 0 -> Pass
        submit done https://forge.example/pr/1 (https://forge.example/pr/1)
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
fn a_merge_asks_every_gatekeeper_before_it() {
    let script = merges(Script::new())
        .review(
            HookPoint::BeforeMerge,
            &[("qa", &[APPROVES]), ("architecture", &[APPROVES])],
        )
        .built_in(HookPoint::BeforeMerge, MERGE, [does("merged")])
        .hook(HookPoint::AfterMerge, "deploy", [passes()]);
    story(
        script,
        expect![[r#"
        merge
          ReviewStarted
          prompt Gatekeeper for qa
          turn ended EndTurn
          review by qa: approve
          prompt Gatekeeper for architecture
          turn ended EndTurn
          review by architecture: approve
          before_merge review exit 0 -> Pass
          before_merge merge_pr exit 0 -> Pass
          after_merge deploy exit 0 -> Pass
        merge done (merged)
        ended complete (merged)
    "#]],
    );
}

#[test]
fn an_objection_goes_to_the_agent_and_then_every_check_runs_again() {
    let script = merges(Script::new())
        .review(
            HookPoint::BeforeMerge,
            &[("qa", &[BLOCKS, APPROVES]), ("architecture", &[APPROVES])],
        )
        .built_in(HookPoint::BeforeMerge, MERGE, [does("merged")]);
    let world = story(
        script,
        expect![[r#"
        merge
          ReviewStarted
          prompt Gatekeeper for qa
          turn ended EndTurn
          review by qa: block
          prompt Gatekeeper for architecture
          turn ended EndTurn
          review by architecture: approve
          before_merge review exit 1 -> Block
          repair 1/1 of review
          prompt Remediation "[Check failed]: the work is to be merged, and `review` holds it. Repair what it says and commit what belongs to the task; then every check before the merge runs again.\n\nqa: block. No tests."
          turn ended EndTurn
          ReviewStarted
          prompt Gatekeeper for qa
          turn ended EndTurn
          review by qa: approve
          prompt Gatekeeper for architecture
          turn ended EndTurn
          review by architecture: approve
          before_merge review exit 0 -> Pass
          before_merge merge_pr exit 0 -> Pass
        merge done (merged)
        ended complete (merged)
    "#]],
    );
    let remediation = world.events.iter().find_map(|event| match event {
        Event::Turn(TurnEvent::PromptSent(prompt))
            if prompt.reason == PromptReason::Remediation =>
        {
            Some(prompt.text.clone())
        }
        _ => None,
    });
    assert!(
        remediation
            .expect("a remediation")
            .contains("qa: block. No tests.")
    );
}

#[test]
fn a_gatekeeper_that_is_silent_fails_or_does_not_exist_has_not_approved() {
    for (answers, why) in [
        (vec![Answer::Says("Looks good.")], "no verdict"),
        (
            vec![Answer::Says(
                "I would give <verdict>approve</verdict>, but there are no tests.",
            )],
            "no verdict",
        ),
        (
            vec![Answer::Says(
                "I would say:\n```\n<verdict>approve</verdict>\n```",
            )],
            "no verdict",
        ),
        (
            vec![Answer::Says(
                "> <verdict>approve</verdict>\n\nThat is what the author wrote.",
            )],
            "no verdict",
        ),
        (
            vec![Answer::Says(
                "Not `<verdict>approve</verdict>`.\n`<verdict>approve</verdict>`",
            )],
            "no verdict",
        ),
        (vec![Answer::Fails("down")], "the review failed: down"),
        (
            vec![Answer::CutShort("I would say\n<verdict>approve</verdict>")],
            "the review failed: it ran into its",
        ),
    ] {
        let script = merges(Script::new())
            .review(HookPoint::BeforeMerge, &[("qa", &answers)])
            .built_in(HookPoint::BeforeMerge, MERGE, [does("merged")]);
        let world = World::begin(script).run();
        let last = world.state.pipelines.last.expect("it ended");
        assert_eq!(last.outcome, PipelineOutcome::Failed);
        assert!(last.reason.contains(why), "{}", last.reason);
        assert_eq!(
            last.steps.last().map(|step| step.state),
            Some(PipelineStepState::Waiting),
            "nothing was merged"
        );
    }
    let mut unknown = merges(Script::new())
        .review(HookPoint::BeforeMerge, &[("qa", &[APPROVES])])
        .built_in(HookPoint::BeforeMerge, MERGE, [does("merged")]);
    unknown.plan.gatekeepers.clear();
    let world = World::begin(unknown).run();
    assert!(
        world
            .state
            .pipelines
            .last
            .expect("it ended")
            .reason
            .contains("unknown agent `qa`")
    );
}

/// The prompts that gatekeepers got.
fn gatekeeper_prompts(events: &[Event]) -> Vec<PromptSent> {
    let prompts = events.iter().filter_map(|event| match event {
        Event::Turn(TurnEvent::PromptSent(prompt)) if prompt.reason == PromptReason::Gatekeeper => {
            Some((**prompt).clone())
        }
        _ => None,
    });
    prompts.collect()
}

const UNCLEAR: Answer = Answer::Says("Looks good.");

fn reviewed_merge(answers: &[Answer]) -> Script {
    merges(Script::new())
        .review(HookPoint::BeforeMerge, &[("qa", answers)])
        .built_in(HookPoint::BeforeMerge, MERGE, [does("merged")])
}

#[test]
fn a_gatekeeper_without_a_verdict_is_asked_once_more() {
    let world = story(
        reviewed_merge(&[UNCLEAR, APPROVES]),
        expect![[r#"
        merge
          ReviewStarted
          prompt Gatekeeper for qa
          turn ended EndTurn
          prompt Gatekeeper for qa
          turn ended EndTurn
          review by qa: approve
          before_merge review exit 0 -> Pass
          before_merge merge_pr exit 0 -> Pass
        merge done (merged)
        ended complete (merged)
    "#]],
    );
    let again = &gatekeeper_prompts(&world.events)[1];
    assert_eq!(
        (again.conversation, again.agent.as_deref()),
        (ConversationMode::Same, Some("qa"))
    );
    assert!(
        again.text.starts_with("Your answer has no verdict. ") && again.text.lines().count() == 1,
        "{}",
        again.text
    );
    let silent = World::begin(reviewed_merge(&[UNCLEAR])).run();
    assert_eq!(gatekeeper_prompts(&silent.events).len(), 2);
    assert_eq!(
        silent.state.pipelines.last.expect("it ended").outcome,
        PipelineOutcome::Failed
    );
    let failed = World::begin(reviewed_merge(&[Answer::Fails("down"), APPROVES])).run();
    assert_eq!(
        gatekeeper_prompts(&failed.events).len(),
        1,
        "a failed turn is not repeated"
    );
}

#[test]
fn a_gatekeeper_that_has_no_conversation_gets_the_whole_review_again() {
    let mut script = reviewed_merge(&[UNCLEAR, APPROVES]);
    for gatekeeper in script.plan.gatekeepers.values_mut() {
        gatekeeper.spec = AgentSpec::command("review");
    }
    let world = World::begin(script).run();
    let prompts = gatekeeper_prompts(&world.events);
    let (first, again) = (&prompts[0], &prompts[1]);
    assert_eq!(again.conversation, ConversationMode::New);
    assert!(
        again.text.starts_with("Your answer has no verdict. "),
        "{}",
        again.text
    );
    assert!(
        again.text.contains("Looks good.") && again.text.ends_with(&first.text),
        "{}",
        again.text
    );
}

#[test]
fn a_kill_neither_repeats_the_question_for_a_verdict_nor_sends_it_without_the_review() {
    let whole = World::begin(reviewed_merge(&[UNCLEAR])).run();
    let is_reviewed =
        |event: &Event| matches!(event, Event::Pipeline(PipelineEvent::Reviewed { .. }));
    let reviewed = whole.events.iter().position(is_reviewed).expect("a review");
    for cut in 1..=reviewed {
        let world = World::from_events(whole.script.clone(), &whole.events[..cut]).resume();
        let asked = gatekeeper_prompts(&world.events);
        let is_answer = |event: &&Event| matches!(event, Event::Turn(TurnEvent::Ended { turn, .. }) if asked.iter().any(|prompt| prompt.turn == *turn));
        assert_eq!(
            world.events.iter().filter(is_answer).count(),
            2,
            "killed after {cut} records"
        );
        let later = gatekeeper_prompts(&world.events[cut..]);
        let stands_alone = |first: &PromptSent| {
            first.conversation == ConversationMode::New && first.text.contains("+ line")
        };
        assert!(
            later.first().is_none_or(stands_alone),
            "killed after {cut} records: {later:?}"
        );
    }
}

#[test]
fn checks_get_the_description_of_the_work() {
    let script = Script::new()
        .submits()
        .built_in(
            HookPoint::BeforeSubmit,
            "create_pr",
            [wants(Some("Commit it.")), does(LINK)],
        )
        .plan(|plan| plan.submit.base_branch = Some("trunk".into()));
    let mut world = World::begin(script);
    world.settle();
    let task = NewTask {
        id: Some("parser".into()),
        goal: "Write the parser\nand its tests".into(),
        deliverables: vec!["src/parser.rs".into()],
        kind: Some("feature".into()),
        ..NewTask::default()
    };
    world.command(SessionCommand::Task {
        task: TaskCommand::Add(task),
    });
    world.command(SessionCommand::Task {
        task: TaskCommand::Start {
            id: "parser".into(),
            context: None,
        },
    });
    let world = until(world, |world| !world.jobs.is_empty());
    let facts = &world.jobs[0].facts;
    let submission = facts.submission.as_ref().expect("it is about a submit");
    assert_eq!(
        facts.task.as_ref().map(|task| task.id.as_str()),
        Some("parser")
    );
    assert_eq!(
        (facts.attempt, submission.title.as_str()),
        (Some(0), "Write the parser")
    );
    assert_eq!(
        submission.body,
        "Write the parser\nand its tests\n\n- src/parser.rs"
    );
    assert_eq!(
        (
            submission.task_type.as_deref(),
            submission.base_branch.as_deref()
        ),
        (Some("feature"), Some("trunk"))
    );
    let mut world = world;
    world.finish_hook(0);
    let world = until(world, |world| !world.jobs.is_empty());
    assert_eq!(world.jobs[0].facts.attempt, Some(1));
}

#[test]
fn a_typed_task_is_started_only_by_allowed_agents() {
    let script = Script::new().plan(|plan| {
        plan.task_types.insert("product".into(), vec!["ada".into()]);
        plan.task_types
            .insert("hotfix".into(), vec!["ada".into(), "demo".into()]);
    });
    let mut world = World::begin(script);
    world.settle();
    for kind in ["product", "hotfix", "open"] {
        let task = NewTask {
            id: Some(kind.into()),
            goal: "x".into(),
            kind: Some(kind.into()),
            ..NewTask::default()
        };
        world.command(SessionCommand::Task {
            task: TaskCommand::Add(task),
        });
        world.command(SessionCommand::Task {
            task: TaskCommand::Start {
                id: kind.into(),
                context: None,
            },
        });
    }
    let text = |refusal: &Refusal| match refusal {
        Refusal::Task(refusal) => refusal.to_string(),
        other => panic!("not about a task: {other:?}"),
    };
    let refused: Vec<String> = world.refused.iter().map(text).collect();
    assert_eq!(
        refused,
        ["the agent `demo` may not work on tasks of type `product`. Agents for this type: `ada`"]
    );
}

#[test]
fn nothing_is_skipped_before_a_merge() {
    let script = merges(Script::new())
        .hook(HookPoint::BeforeMerge, "check", [blocks("no")])
        .built_in(HookPoint::BeforeMerge, MERGE, [does("merged")])
        .attended(&[(GateKind::Merge, GateChoice::Leave)]);
    let mut world = World::begin(script);
    world.settle();
    world.finish_hook(0);
    let gate = world.state.gates.open.clone().expect("a gate");
    assert_eq!(
        gate.choices,
        [GateChoice::Retry, GateChoice::Send, GateChoice::Leave]
    );
    let world = world.run();
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Aborted));
}

#[test]
fn a_check_switched_off_while_it_runs_neither_blocks_nor_stops_the_pipeline() {
    let script = merges(Script::new())
        .hook(HookPoint::BeforeMerge, "tests", [exits(1, "", "red")])
        .built_in(HookPoint::BeforeMerge, MERGE, [does("merged")])
        .hook(HookPoint::AfterMerge, "deploy", [passes()]);
    let mut world = World::begin(script);
    world.settle();
    world.command(SessionCommand::DisableHook {
        point: None,
        hook: "tests".into(),
    });
    expect![[r"
        merge
          HookDisabled
          before_merge tests exit 1 -> Block
          before_merge merge_pr exit 0 -> Pass
          after_merge deploy exit 0 -> Pass
        merge done (merged)
        ended complete (merged)
    "]]
    .assert_eq(&world.run().story());
}

fn stories() -> Vec<Script> {
    let works = Answer::Says("Working.");
    vec![
        Script::new()
            .submits()
            .built_in(
                HookPoint::BeforeSubmit,
                "rebase_on_main",
                [wants(Some("Resolve.")), does("rebased")],
            )
            .piped(
                HookPoint::BeforeSubmit,
                "lint",
                [exits(1, "unused", ""), passes()],
            )
            .built_in(HookPoint::BeforeSubmit, "create_pr", [does(LINK)])
            .piped(HookPoint::AfterSubmit, "announce", [prints("told all")])
            .agent([works, DONE])
            .plan(|plan| plan.submit.remediation_attempts = 2),
        Script::new()
            .submits()
            .review(
                HookPoint::BeforeSubmit,
                &[
                    ("qa", &[BLOCKS, APPROVES]),
                    ("ops", &[Answer::Fails("down"), APPROVES]),
                ],
            )
            .built_in(HookPoint::BeforeSubmit, "create_pr", [does(LINK)]),
        merges(Script::new())
            .review(HookPoint::BeforeMerge, &[("qa", &[APPROVES])])
            .built_in(
                HookPoint::BeforeMerge,
                MERGE,
                [wants(Some("Wait.")), does("merged")],
            )
            .hook(HookPoint::AfterMerge, "deploy", [passes()]),
        Script::new()
            .submits()
            .hook(HookPoint::BeforeSubmit, "never", [blocks("no")]),
        Script::new()
            .submits()
            .piped(
                HookPoint::BeforeSubmit,
                "lint",
                [exits(1, "unused", ""), passes()],
            )
            .piped(HookPoint::OnError, "diff", [prints("diff")])
            .agent([DONE, Answer::Fails("reset"), Answer::Says("Recovered.")]),
    ]
}

/// The result of a session, however often it was killed.
fn end_state(world: &World) -> (Option<SessionOutcome>, Vec<String>) {
    let told = world.events.iter().filter_map(|event| match event {
        Event::Hook(HookEvent::Finished(done)) if !done.again => {
            Some(format!("{} {} {:?}", done.point, done.hook, done.verdict))
        }
        Event::Pipeline(PipelineEvent::RemediationCounted { used, limit, .. }) => {
            Some(format!("repair {used}/{limit}"))
        }
        Event::Pipeline(PipelineEvent::Reviewed { review, .. }) => Some(format!("{review:?}")),
        Event::Pipeline(PipelineEvent::Ended {
            outcome,
            reason,
            pull_request,
            ..
        }) => Some(format!("{outcome:?} {reason} {pull_request:?}")),
        Event::Turn(TurnEvent::Ended { turn, .. } | TurnEvent::Failed { turn, .. }) => {
            let sent = world.events.iter().find_map(|event| match event {
                Event::Turn(TurnEvent::PromptSent(prompt)) if prompt.turn == *turn => Some(prompt),
                _ => None,
            });
            sent.map(|prompt| format!("{:?} {:?} {}", prompt.reason, prompt.agent, prompt.text))
        }
        _ => None,
    });
    (world.state.phase.outcome(), told.collect())
}

#[test]
fn a_pipeline_killed_at_any_record_and_resumed_reaches_the_same_end() {
    for script in stories() {
        let uncut = World::begin(script.clone()).run();
        for kept in 1..uncut.events.len() {
            let cut = World::from_events(script.clone(), &uncut.events[..kept]);
            if cut.state.phase.outcome().is_some() {
                assert_eq!(cut.state.phase.outcome(), uncut.state.phase.outcome());
                continue;
            }
            assert_eq!(
                end_state(&cut.resume()),
                end_state(&uncut),
                "killed after {kept}: {:?}",
                uncut.events[kept - 1]
            );
        }
    }
}

/// Something that happens to a pipeline.
#[derive(Debug, Clone)]
enum Happens {
    HookEnds,
    TurnEnds,
    Gate(usize),
    Asks(PipelineKind),
    Stops,
    CancelsTurn,
    /// The user switches off a check.
    Disables(&'static str),
    Dies,
}

fn a_run() -> impl Strategy<Value = Ran> {
    prop_oneof![
        3 => Just(passes()),
        2 => Just(wants(Some("Repair."))),
        1 => Just(wants(None)),
        1 => Just(exits(1, "red", "red")),
        1 => Just(breaks()),
    ]
}

fn an_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        3 => Just(APPROVES),
        2 => Just(BLOCKS),
        1 => Just(Answer::Says("Hm.")),
        1 => Just(Answer::Fails("down")),
        1 => Just(Answer::Refuses),
        1 => Just(Answer::CutShort("Fine.\n<verdict>approve</verdict>")),
    ]
}

fn a_script() -> impl Strategy<Value = Script> {
    let runs = || prop::collection::vec(a_run(), 1..4);
    let answers = || prop::collection::vec(an_answer(), 1..4);
    let only_pipeline = prop::sample::select(vec![
        None,
        None,
        Some(PipelineKind::Submit),
        Some(PipelineKind::Merge),
    ]);
    let agent = prop::collection::vec(
        prop_oneof![3 => Just(DONE), 1 => Just(Answer::Fails("down"))],
        1..4,
    );
    (
        runs(),
        runs(),
        runs(),
        answers(),
        agent,
        only_pipeline,
        0u32..3,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(one, two, merge, reviews, agent, only_pipeline, attempts, piped, attended)| {
                let script = Script {
                    only_pipeline,
                    ..Script::new()
                };
                let script = script
                    .hook_with(HookPoint::BeforeSubmit, "one", one.clone(), |spec| {
                        spec.pipe_output = if piped {
                            PipeOutput::Always
                        } else {
                            PipeOutput::Never
                        }
                    })
                    .built_in(HookPoint::BeforeSubmit, "create_pr", two)
                    .hook(HookPoint::AfterSubmit, "after", one.clone())
                    .hook_with(HookPoint::BeforeMerge, "check", one, |spec| {
                        spec.pipe_output = if piped {
                            PipeOutput::Always
                        } else {
                            PipeOutput::Never
                        }
                    })
                    .review(
                        HookPoint::BeforeMerge,
                        &[("qa", &reviews), ("ops", &[APPROVES])],
                    )
                    .built_in(HookPoint::BeforeMerge, MERGE, merge)
                    .hook(HookPoint::AfterMerge, "after merge", [passes()])
                    .agent(agent)
                    .submits()
                    .plan(|plan| plan.submit.remediation_attempts = attempts);
                if attended {
                    script.attended(&[])
                } else {
                    script
                }
            },
        )
}

fn what_happens() -> impl Strategy<Value = Vec<Happens>> {
    let one = prop_oneof![
        8 => Just(Happens::HookEnds),
        6 => Just(Happens::TurnEnds),
        3 => (0usize..4).prop_map(Happens::Gate),
        1 => prop::sample::select(vec![PipelineKind::Submit, PipelineKind::Merge]).prop_map(Happens::Asks),
        1 => Just(Happens::Stops),
        1 => Just(Happens::CancelsTurn),
        1 => prop::sample::select(vec!["one", "check", "review"]).prop_map(Happens::Disables),
        2 => Just(Happens::Dies),
    ];
    prop::collection::vec(one, 0..60)
}

fn happen(mut world: World, what: &Happens) -> World {
    match what {
        Happens::HookEnds if !world.jobs.is_empty() => world.finish_hook(0),
        Happens::TurnEnds => world.finish_turn(),
        Happens::Gate(n) => answer(&mut world, |choices| choices[n % choices.len()]),
        Happens::Asks(pipeline) => world.command(SessionCommand::Pipeline {
            pipeline: *pipeline,
        }),
        Happens::Stops => world.command(SessionCommand::Stop {
            how: creel::engine::event::StopTiming::Now,
        }),
        Happens::CancelsTurn => world.command(SessionCommand::CancelTurn),
        Happens::Disables(hook) => world.command(SessionCommand::DisableHook {
            point: None,
            hook: (*hook).into(),
        }),
        Happens::Dies if world.state.phase.outcome().is_none() => {
            let mut next = World::from_events(world.script, &world.events);
            next.input(Input::Resume {
                presence: next.script.presence,
                max_iterations: None,
                checkpoint: None,
                answer: None,
            });
            return next;
        }
        Happens::HookEnds | Happens::Dies => {}
    }
    world
}

fn answer(world: &mut World, choose: impl Fn(&[GateChoice]) -> GateChoice) {
    let Some(gate) = world.state.gates.open.clone() else {
        return;
    };
    let choice = choose(&gate.choices);
    let text = (choice == GateChoice::Send).then(|| "Another way.".to_owned());
    let answer = creel::engine::input::GateAnswer {
        gate: gate.id,
        choice,
        text,
        items: None,
    };
    world.command(SessionCommand::AnswerGate(answer));
}

fn run_out(mut world: World) -> World {
    world.settle();
    for _ in 0..2_000 {
        if world.left.is_some() {
            return world;
        }
        if world.state.steering.paused {
            world.command(SessionCommand::Unpause);
        } else if !world.jobs.is_empty() {
            world.finish_hook(0);
        } else if world.turn.is_some() {
            world.finish_turn();
        } else if let Some(at) = world.state.next_wake() {
            world.now = world.now.max(at);
            world.settle();
        } else {
            assert!(
                world.state.gates.open.is_some(),
                "nothing is to be done: {:#?}",
                world.state.phase
            );
            answer(&mut world, |choices| *choices.last().expect("a choice"));
        }
    }
    panic!("the pipeline does not end: {:?}", world.state.phase);
}

/// Every pipeline that began has ended, once.
fn pipelines_end(world: &World) {
    let mut open = 0_i32;
    for event in &world.events {
        match event {
            Event::Pipeline(PipelineEvent::Started { .. }) => open += 1,
            Event::Pipeline(PipelineEvent::Ended { .. }) => open -= 1,
            _ => {}
        }
        assert!((0..=1).contains(&open), "{}", world.story());
    }
    assert_eq!(open, 0, "{}", world.story());
    assert!(world.state.phase.outcome().is_some());
}

/// In each pipeline the agent repairs at most as often as the plan allows.
fn repairs_stay_within_their_limit(world: &World) {
    let mut counted = 0;
    for event in &world.events {
        match event {
            Event::Pipeline(PipelineEvent::Started { .. }) => counted = 0,
            Event::Pipeline(PipelineEvent::RemediationCounted { used, limit, .. }) => {
                counted += 1;
                assert_eq!(
                    (*used, *limit),
                    (counted, world.state.plan().submit.remediation_attempts)
                );
                assert!(used <= limit);
            }
            _ => {}
        }
    }
}

/// When the merge begins, every check of its pipeline has passed since the list last began, or the
/// user switched it off; and the steps after the merge come after it.
fn nothing_merges_past_a_failed_check(world: &World) {
    let mut passed: Vec<&str> = Vec::new();
    let mut off: Vec<&str> = Vec::new();
    for event in &world.events {
        match event {
            Event::Hook(HookEvent::Due {
                point: HookPoint::BeforeMerge,
                ..
            }) => passed.clear(),
            Event::Hook(HookEvent::Disabled {
                point: HookPoint::BeforeMerge,
                hook,
                ..
            }) => off.push(hook),
            Event::Hook(HookEvent::Finished(done))
                if done.point == HookPoint::BeforeMerge && done.verdict == Verdict::Pass =>
            {
                passed.push(&done.hook);
            }
            Event::Hook(HookEvent::Started {
                point: HookPoint::BeforeMerge,
                hook,
                ..
            }) if hook == MERGE => {
                let settled = |check| passed.contains(&check) || off.contains(&check);
                assert!(settled("check") && settled("review"), "{}", world.story());
            }
            Event::Hook(HookEvent::Due {
                point: HookPoint::AfterMerge,
                ..
            }) => {
                assert!(passed.contains(&MERGE), "{}", world.story());
            }
            _ => {}
        }
    }
}

/// A run has exactly one end, and a turn has exactly one end or cut.
fn every_effect_is_answered_or_cut(world: &World) {
    for event in &world.events {
        if let Event::Hook(HookEvent::Started { run, hook, .. }) = event {
            let ends = world
                .events
                .iter()
                .filter(|e| matches!(e, Event::Hook(HookEvent::Finished(done)) if done.run == *run))
                .count();
            assert_eq!(ends, 1, "run {run} of {hook}\n{}", world.story());
        }
    }
}

/// Only the user skips a check.
fn checks_are_skipped_by_people_only(world: &World) {
    for event in &world.events {
        if let Event::Gate(GateEvent::Answered {
            choice: GateChoice::Skip,
            by,
            ..
        }) = event
        {
            assert!(!matches!(by.by, ActorKind::Policy | ActorKind::Timeout));
        }
    }
}

proptest! {
    #![proptest_config(random_cases(1_500))]

    #[test]
    fn a_pipeline_keeps_its_invariants_whatever_hooks_and_agents_do(script in a_script(), happenings in what_happens()) {
        let mut world = World::begin(script);
        world.settle();
        for what in &happenings {
            world = happen(world, what);
        }
        let world = run_out(world);
        pipelines_end(&world);
        repairs_stay_within_their_limit(&world);
        nothing_merges_past_a_failed_check(&world);
        every_effect_is_answered_or_cut(&world);
        checks_are_skipped_by_people_only(&world);
    }
}

#[test]
fn interrupting_the_submit_of_an_ended_session_keeps_its_outcome() {
    let script = Script::new().built_in(HookPoint::BeforeSubmit, "create_pr", [does(LINK)]);
    let mut world = World::begin(script.clone()).run();
    world.left = None;
    world.input(Input::Pipeline {
        pipeline: PipelineKind::Submit,
        until_merged: false,
        presence: script.presence,
    });
    world.command(SessionCommand::Stop {
        how: StopTiming::Now,
    });
    let mut world = world.run();
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Complete));
    world.left = None;
    world.input(Input::Resume {
        presence: script.presence,
        max_iterations: None,
        checkpoint: None,
        answer: None,
    });
    assert_eq!(world.refused, [Refusal::SessionComplete]);
}

#[test]
fn a_review_does_not_begin_the_agents_conversation() {
    let script = merges(Script::new())
        .review(HookPoint::BeforeMerge, &[("qa", &[BLOCKS, APPROVES])])
        .built_in(HookPoint::BeforeMerge, MERGE, [does("merged")]);
    let world = World::begin(script).run();
    let own = world.events.iter().find_map(|event| match event {
        Event::Turn(TurnEvent::PromptSent(prompt)) if prompt.agent.is_none() => {
            Some(prompt.conversation)
        }
        _ => None,
    });
    assert_eq!(own, Some(ConversationMode::New));
}

#[test]
fn a_check_that_cannot_run_starts_no_turn_whatever_it_printed() {
    let script = Script::new().submits().piped(
        HookPoint::BeforeSubmit,
        "lint",
        [exits(127, "", "lint: not found")],
    );
    let world = World::begin(script).run();
    let repairs = world.events.iter().filter(|event| {
        matches!(
            event,
            Event::Pipeline(PipelineEvent::RemediationCounted { .. })
        )
    });
    assert_eq!(
        (repairs.count(), world.state.phase.outcome()),
        (0, Some(SessionOutcome::Escalated))
    );
}
