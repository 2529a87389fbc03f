//! Hooks of `pre_prompt`: they read every prompt before it is sent, add to it or keep it back. Also
//! what a hook says to you, and to the agent before its goal.

use creel::engine::{
    conversation::{LimitCause, TurnFailure, UsageLimit},
    event::{Event, GateEvent, HookEvent, HookFinished, PromptReason, SessionOutcome, TurnEvent},
    gate::kind::{GateChoice, GateKind},
    hooks::{
        claude::{ClaudeEvent, ClaudeHandler},
        point::HookPoint,
        verdict::HookReply,
    },
    ids::ItemId,
    input::{Input, SessionCommand},
    policy::{AgentSpec, FallbackAgent, HookFailurePolicy},
    refusal::Refusal,
    time::TimeSpan,
};
use expect_test::expect;

use crate::{
    engine::stories::becomes,
    support::{samples::until, world::*},
};

fn prompts(world: &World) -> Vec<(PromptReason, String)> {
    let sent = |event: &Event| match event {
        Event::Turn(TurnEvent::PromptSent(prompt)) => Some((prompt.reason, prompt.text.clone())),
        _ => None,
    };
    world.events.iter().filter_map(sent).collect()
}

/// What the hooks read, one for each pass over them.
fn read(world: &World) -> Vec<(PromptReason, String)> {
    let due = |event: &Event| match event {
        Event::Hook(HookEvent::Due { prompt, .. }) => {
            prompt.as_ref().map(|it| (it.reason, it.text.clone()))
        }
        _ => None,
    };
    world.events.iter().filter_map(due).collect()
}

fn gates(world: &World) -> usize {
    let opened = |event: &&Event| matches!(event, Event::Gate(GateEvent::Opened { .. }));
    world.events.iter().filter(opened).count()
}

#[test]
fn every_prompt_is_read_and_what_its_hooks_print_goes_with_it() {
    let script = Script::new()
        .agent([
            Answer::Says("One."),
            Answer::Says("Two."),
            Answer::Fails("reset"),
            DONE,
        ])
        .piped(HookPoint::PrePrompt, "look", [prints("noted")])
        .piped(HookPoint::OnError, "git diff", [prints("changed")])
        .hook(HookPoint::Stop, "tests", [blocks("red"), passes()]);
    becomes(
        script,
        expect![[r#"
            iteration 1
              pre_prompt look exit 0 -> Pass piped
              prompt iteration "GOAL\n\n[Hook output: pre_prompt \"look\" · exit 0 · 1.2 s]\nnoted"
              turn ended EndTurn
              stop tests exit 2 -> Block
              retry 1/5
              pre_prompt look exit 0 -> Pass piped
              prompt Feedback "[Hook feedback]: check `tests` failed, exit 2\nred\n\n[Hook output: pre_prompt \"look\" · exit 0 · 1.2 s]\nnoted"
              turn ended EndTurn
              stop tests exit 0 -> Pass
            iteration 1 done
              decided Continue
            iteration 2
              pre_prompt look exit 0 -> Pass piped
              prompt iteration "GOAL\n\n[Hook output: pre_prompt \"look\" · exit 0 · 1.2 s]\nnoted"
              turn failed reset
              on_error git diff exit 0 -> Pass piped
              pre_prompt look exit 0 -> Pass piped
              prompt Recovery "[Recovery]: the last turn failed: reset. Repair what the hooks report about it; the work continues in the next turn.\n\n[Hook output: on_error \"git diff\" · exit 0 · 1.2 s]\nchanged\n\n[Hook output: pre_prompt \"look\" · exit 0 · 1.2 s]\nnoted"
              turn ended EndTurn
            iteration 2 failed
            iteration 3
              pre_prompt look exit 0 -> Pass piped
              prompt iteration "GOAL\n\n[Hook output: pre_prompt \"look\" · exit 0 · 1.2 s]\nnoted"
              turn ended EndTurn
              stop tests exit 0 -> Pass
            iteration 3 done
              decided Complete
              LoopEnded
            ended complete (tests passed, and the agent says it is done)
        "#]],
    );
}

#[test]
fn a_repair_and_a_message_are_read_and_a_review_is_not() {
    let script = Script::new()
        .submits()
        .agent([Answer::Acts(&[Deed::SendsMessage], 0), DONE])
        .hook(HookPoint::PrePrompt, "look", [passes()])
        .built_in(
            HookPoint::BeforeSubmit,
            "run_tests",
            [wants(Some("mend it")), does("green")],
        )
        .review(
            HookPoint::BeforeSubmit,
            &[("judge", &[Answer::Says("<verdict>approve</verdict>")])],
        );
    let world = World::begin(script).run();
    let reasons = |of: Vec<(PromptReason, String)>| -> Vec<PromptReason> {
        of.into_iter().map(|(reason, _)| reason).collect()
    };
    let mut sent = reasons(prompts(&world));
    assert!(
        sent.contains(&PromptReason::Gatekeeper),
        "{}",
        world.story()
    );
    sent.retain(|reason| *reason != PromptReason::Gatekeeper);
    assert_eq!(
        sent,
        [
            PromptReason::Iteration,
            PromptReason::Message,
            PromptReason::Remediation
        ],
        "{}",
        world.story()
    );
    assert_eq!(reasons(read(&world)), sent);
}

#[test]
fn a_prompt_that_a_hook_blocks_waits_for_you() {
    let script = Script::new().hook(HookPoint::PrePrompt, "secrets", [blocks("a key in it")]);
    let asked = World::begin(script.clone()).run();
    assert!(prompts(&asked).is_empty(), "{}", asked.story());
    assert_eq!(asked.state.phase.outcome(), Some(SessionOutcome::Escalated));
    // `resume` asks the same again and reads nothing twice.
    let resumed = asked.resume_answering(GateChoice::Continue);
    assert_eq!(
        prompts(&resumed),
        [(PromptReason::Iteration, "GOAL".into())]
    );
    assert_eq!(read(&resumed).len(), 1, "{}", resumed.story());

    let attended = script.attended(&[(GateKind::Escalation, GateChoice::Abort)]);
    let aborted = World::begin(attended).run();
    assert!(prompts(&aborted).is_empty());
    assert_eq!(aborted.state.phase.outcome(), Some(SessionOutcome::Aborted));
}

#[test]
fn your_message_is_sent_instead_of_a_held_prompt_and_is_read_too() {
    let script = Script::new()
        .attended(&[(GateKind::Escalation, GateChoice::Message)])
        .piped(HookPoint::SessionStart, "build", [prints("held")])
        .hook(HookPoint::PrePrompt, "secrets", [blocks("a key"), passes()])
        .agent([Answer::Says("One."), DONE]);
    let world = World::begin(script).run();
    let (read, sent) = (read(&world), prompts(&world));
    assert_eq!(read.len(), 3, "{}", world.story());
    assert_eq!(read[1..], sent);
    assert_eq!(sent[0].0, PromptReason::Message);
    assert!(sent[0].1.contains("Try another way."), "{sent:?}");
    assert!(!sent[0].1.contains("held"), "{sent:?}");
    assert!(sent[1].1.contains("held"), "{sent:?}");
}

/// What hooks gave for a prompt is not lost when your message is sent instead of it: their messages
/// go with yours, their output with the next iteration.
#[test]
fn what_hooks_gave_for_a_held_prompt_outlives_your_message() {
    let initial = Ran {
        reply: Some(HookReply {
            initial_message: Some("Read NOTES first.".into()),
            ..HookReply::default()
        }),
        ..passes()
    };
    for spec in [AgentSpec::acp("agent"), AgentSpec::command("agent")] {
        let is_forgetful = spec.forgets();
        let script = Script::new()
            .attended(&[(GateKind::Escalation, GateChoice::Message)])
            .hook(HookPoint::SessionStart, "notes", [initial.clone()])
            .piped(
                HookPoint::PreIteration,
                "look",
                [prints("first look"), prints("second look")],
            )
            .hook(HookPoint::PrePrompt, "secrets", [blocks("a key"), passes()])
            .agent([Answer::Says("One."), DONE])
            .plan(|plan| plan.agent_spec = spec);
        let world = World::begin(script).run();
        let (sent, story) = (prompts(&world), world.story());
        assert_eq!(sent[0].0, PromptReason::Message, "{story}");
        assert_eq!(sent[0].1.matches("Read NOTES first.").count(), 1, "{story}");
        assert!(sent[0].1.contains("Try another way."), "{story}");
        let goals = usize::from(is_forgetful);
        assert_eq!(sent[0].1.matches("GOAL").count(), goals, "{story}");
        for look in ["first look", "second look"] {
            let all: usize = sent
                .iter()
                .map(|(_, text)| text.matches(look).count())
                .sum();
            assert_eq!(all, 1, "{look}: {story}");
            assert!(sent[1].1.contains(look), "{look}: {story}");
        }
        assert_eq!(sent[1].1.matches("GOAL").count(), 1, "{story}");
    }
}

/// The same for the output of `on_error` in a recovery prompt.
#[test]
fn output_for_a_recovery_that_is_not_sent_waits_for_the_next_prompt() {
    let script = Script::new()
        .attended(&[(GateKind::Escalation, GateChoice::Message)])
        .piped(HookPoint::OnError, "git diff", [prints("changed")])
        .hook(
            HookPoint::PrePrompt,
            "secrets",
            [passes(), blocks("a key"), passes()],
        )
        .agent([Answer::Fails("reset"), Answer::Says("One."), DONE]);
    let world = World::begin(script).run();
    let sent = prompts(&world);
    let with_it = sent.iter().filter(|(_, text)| text.contains("changed"));
    let reasons: Vec<PromptReason> = with_it.map(|(reason, _)| *reason).collect();
    assert_eq!(reasons, [PromptReason::Iteration], "{}", world.story());
}

#[test]
fn the_gate_of_a_held_prompt_has_every_reason() {
    let script = Script::new()
        .hook(HookPoint::PrePrompt, "secrets", [blocks("a key in it")])
        .hook(HookPoint::PrePrompt, "style", [blocks("too long")]);
    let world = World::begin(script).run();
    let opened = world.events.iter().find_map(|event| match event {
        Event::Gate(GateEvent::Opened { reason, .. }) => Some(reason.as_str()),
        _ => None,
    });
    assert_eq!(
        opened,
        Some(
            "the hook `secrets` at pre_prompt needs you: a key in it; the hook `style` at pre_prompt needs you: too long"
        )
    );
}

/// Hooks read what an agent gets: also the handover before an interrupted prompt.
#[test]
fn a_handover_is_read_with_the_prompt_that_it_precedes() {
    let script = |person: &[(GateKind, GateChoice)]| {
        let script = Script::new()
            .agent([Answer::Says("One."), DONE])
            .attended(person)
            .piped(
                HookPoint::PrePrompt,
                "look",
                [prints("first"), prints("second")],
            );
        script.plan(|plan| {
            plan.agent_spec = AgentSpec::acp("a");
            let (name, spec) = ("b".to_owned(), AgentSpec::acp("b"));
            plan.limits.fallback = vec![FallbackAgent { name, spec }];
        })
    };
    let mut world = until(World::begin(script(&[])), |world| world.turn.is_some());
    let (turn, _) = world.turn.take().expect("the agent works");
    let limit = Some(UsageLimit {
        resets_in: Some(TimeSpan::secs(3_600)),
        cause: LimitCause::Usage,
    });
    let failure = TurnFailure {
        limit,
        ..TurnFailure::new("429")
    };
    world.input(Input::TurnFailed { turn, failure });
    let failed = world.events.len();
    let world = until(world, |world| world.turn.is_some());
    let (read, sent) = (read(&world), prompts(&world));
    let frame = |text: &str| format!("[Hook output: pre_prompt \"look\" · exit 0 · 1.2 s]\n{text}");
    assert_eq!(read.len(), 2, "{}", world.story());
    assert!(read[1].1.starts_with("[Handover: "), "{}", read[1].1);
    assert!(read[1].1.ends_with("\n\nGOAL"), "{}", read[1].1);
    assert_eq!(sent[1].1, format!("{}\n\n{}", read[1].1, frame("second")));
    // Whenever creel is killed, the other agent gets the same.
    for kept in failed..world.events.len() {
        let killed = World::from_events(script(&[]), &world.events[..kept]).resume();
        let again = prompts(&killed);
        assert_eq!(again[1].1, sent[1].1, "{kept}: {}", killed.story());
    }
}

#[test]
fn a_hook_for_questions_is_not_run_by_hand() {
    let script = Script::new().hook(HookPoint::OnQuestion, "guide", [passes()]);
    let mut world = World::begin(script);
    world.command(SessionCommand::RunHook {
        point: None,
        hook: "guide".into(),
    });
    assert!(
        matches!(world.refused[..], [Refusal::NotRunByHand { .. }]),
        "{:?}",
        world.refused
    );
}

/// Only an explicit block keeps a prompt back, unless the config says more; and a decision that
/// creel cannot read.
#[test]
fn a_hook_that_fails_keeps_a_prompt_back_only_if_the_config_says_so() {
    let replied = |reply| Ran {
        reply: Some(reply),
        ..passes()
    };
    let unreadable = || replied(HookReply::unreadable("no JSON"));
    let stops = replied(HookReply {
        stops: true,
        ..HookReply::default()
    });
    let block = Some(HookFailurePolicy::Block);
    let ignore = Some(HookFailurePolicy::Ignore);
    for (ran, on_failure, holds) in [
        (exits(1, "", "red"), None, false),
        (exits(1, "", "red"), block, true),
        (breaks(), None, false),
        (breaks(), block, true),
        (unreadable(), None, true),
        (unreadable(), ignore, false),
        (blocks("no"), ignore, true),
        (stops, None, true),
    ] {
        let case = format!("{ran:?} {on_failure:?}");
        let script = Script::new().hook_with(HookPoint::PrePrompt, "look", [ran], |spec| {
            spec.on_failure = on_failure;
            spec.pipe_output = creel::engine::policy::PipeOutput::Always;
        });
        let world = World::begin(script).run();
        assert_eq!(
            prompts(&world).is_empty(),
            holds,
            "{case}\n{}",
            world.story()
        );
        for (_, text) in prompts(&world) {
            assert_eq!(
                text, "GOAL",
                "{case}: only a hook that passed adds to a prompt"
            );
        }
    }
}

#[test]
fn wherever_creel_is_killed_a_prompt_has_one_reading_and_you_are_asked_once() {
    let script = || {
        Script::new()
            .agent([Answer::Says("One."), DONE])
            .attended(&[(GateKind::Escalation, GateChoice::Continue)])
            .piped(HookPoint::SessionStart, "build", [prints("held")])
            .piped(
                HookPoint::PrePrompt,
                "look",
                [prints("noted"), prints("other")],
            )
            .hook(HookPoint::PrePrompt, "secrets", [blocks("a key"), passes()])
            .hook(HookPoint::Stop, "tests", [blocks("red"), passes()])
    };
    let whole = World::begin(script()).run();
    assert_eq!(prompts(&whole).len(), 2, "{}", whole.story());
    assert_eq!((gates(&whole), read(&whole).len()), (1, 2));
    let texts = |world: &World| -> Vec<String> {
        let mut texts: Vec<String> = prompts(world).into_iter().map(|(_, text)| text).collect();
        texts.dedup();
        texts
    };
    for kept in 1..whole.events.len() {
        let world = World::from_events(script(), &whole.events[..kept]).resume();
        let story = world.story();
        assert_eq!(gates(&world), 1, "killed after {kept}:\n{story}");
        assert_eq!(read(&world), read(&whole), "killed after {kept}:\n{story}");
        assert_eq!(
            texts(&world),
            texts(&whole),
            "killed after {kept}:\n{story}"
        );
        assert_eq!(world.state.phase.outcome(), whole.state.phase.outcome());
    }
}

#[test]
fn what_a_held_prompt_carries_cannot_be_changed_and_is_free_again_when_it_is_dropped() {
    let script = Script::new()
        .attended(&[(GateKind::Escalation, GateChoice::Abort)])
        .piped(HookPoint::SessionStart, "build", [prints("held")])
        .hook(HookPoint::PrePrompt, "secrets", [blocks("a key")]);
    let mut world = World::begin(script);
    world.settle();
    world.step();
    world.step();
    assert!(world.state.gates.open.is_some(), "{}", world.story());
    world.command(SessionCommand::SkipItem { item: ItemId(1) });
    assert_eq!(world.refused, [Refusal::ItemInFlight(ItemId(1))]);
    let world = world.run();
    assert_eq!(world.state.pending.waiting_ids(), [ItemId(1)]);
}

/// The event of Claude Code means the same.
#[test]
fn an_event_of_claude_code_reads_every_prompt_too() {
    let script = Script::new()
        .agent([Answer::Says("One."), DONE])
        .hook_with(
            HookPoint::PrePrompt,
            "look",
            [passes(), blocks("no")],
            |spec| {
                spec.claude = Some(Box::new(ClaudeHandler::new(ClaudeEvent::UserPromptSubmit)));
            },
        )
        .hook(HookPoint::Stop, "tests", [blocks("red")]);
    let world = World::begin(script).run();
    assert_eq!(prompts(&world).len(), 1, "{}", world.story());
    assert_eq!(world.state.phase.outcome(), Some(SessionOutcome::Escalated));
    let finished = |event: &Event| match event {
        Event::Hook(HookEvent::Finished(done)) => Some(HookFinished::clone(done)),
        _ => None,
    };
    let last = world.events.iter().filter_map(finished).next_back();
    assert_eq!(last.map(|done| done.hook), Some("look".into()));
}

/// A reply that creel cannot use is named as such, whatever the exit code is: the command did run.
#[test]
fn a_reply_with_an_unknown_decision_is_not_a_command_that_could_not_run() {
    let unreadable = HookReply::unreadable("its JSON reply has the decision \"blok\"");
    let ran = Ran {
        reply: Some(unreadable),
        ..exits(1, "", "")
    };
    let script = Script::new().hook_with(HookPoint::PrePrompt, "look", [ran], |spec| {
        spec.claude = Some(Box::new(ClaudeHandler::new(ClaudeEvent::UserPromptSubmit)));
    });
    let story = World::begin(script).run().story();
    let warning = "hook `look` at pre_prompt: its JSON reply has the decision \"blok\"";
    assert!(story.contains(warning), "{story}");
    assert!(!story.contains("could not run"), "{story}");
}

/// The message for the user is a warning, on every surface; the one for the agent comes before the
/// goal of the first prompt, once.
#[test]
fn messages_of_a_reply_reach_the_user_and_the_agent() {
    let reply = HookReply {
        system_message: Some("Look here.".into()),
        initial_message: Some("Read NOTES first.".into()),
        ..HookReply::default()
    };
    let says = Ran {
        reply: Some(reply),
        ..passes()
    };
    let script = Script::new()
        .agent([Answer::Says("One."), DONE])
        .hook(HookPoint::SessionStart, "notes", [says.clone()])
        .hook(HookPoint::PostIteration, "other", [says]);
    becomes(
        script,
        expect![[r#"
              session_start notes exit 0 -> Pass
              warning hook `notes` at session_start says: Look here.
              MessageQueued
            iteration 1
              prompt iteration "Read NOTES first.\n\nGOAL"
              turn ended EndTurn
            iteration 1 done
              post_iteration other exit 0 -> Pass
              warning hook `other` at post_iteration says: Look here.
              decided Continue
            iteration 2
              prompt iteration "GOAL"
              turn ended EndTurn
            iteration 2 done
              post_iteration other exit 0 -> Pass
              warning hook `other` at post_iteration says: Look here.
              decided Complete
              LoopEnded
            ended complete (no checks are configured, and the agent says it is done)
        "#]],
    );
}
