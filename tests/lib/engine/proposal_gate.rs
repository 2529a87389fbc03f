//! The gate at which the user decides about the tasks that an agent proposes.

use expect_test::expect;

use super::invariants::run_out;
use crate::support::{
    samples::{at_gate, until},
    world::*,
};
use creel::engine::{
    effect::ExitReason,
    event::{ActorKind, Event, GateEvent, StopTiming, TurnEvent},
    gate::kind::{GateChoice, GateKind},
    hooks::point::HookPoint,
    input::{GateAnswer, Input, SessionCommand},
    policy::{AgentSpec, ProposalPlan, StopHook, StopHookCondition, StopHookKind},
    refusal::Refusal,
    stop::decision::{StopAction, StopResult},
    time::{TimeSpan, UnixTime},
};

pub(crate) const TWO: &str = r#"I looked around. {"tasks": [
    {"id": "parser", "goal": "Write the parser."},
    {"id": "test", "goal": "Test it.", "depends_on": ["parser"]}]}"#;
const ONE: &str = r#"{"tasks": [{"id": "all", "goal": "Do it in one step."}]}"#;
const CHANGED: &str =
    r#"{"tasks": [{"id": "parser", "goal": "Write half of it.", "type": "code"}]}"#;

/// A session whose agent proposes tasks.
fn proposes(answers: &[&'static str]) -> Script {
    let done = StopResult::new(StopAction::Complete, "The proposal is valid.".to_owned());
    let judge = StopHookKind::Fixed(done);
    let decision = StopHook {
        name: "proposal".into(),
        judge,
        when: StopHookCondition::default(),
        enabled: true,
    };
    Script::new()
        .hook(HookPoint::Stop, "check the proposal", [passes()])
        .agent(
            answers
                .iter()
                .copied()
                .map(Answer::Says)
                .collect::<Vec<_>>(),
        )
        .stop_hooks([decision])
        .plan(|plan| {
            plan.proposal = Some(ProposalPlan {
                types: ["code".to_owned()].into(),
            });
        })
}

pub(crate) fn asks(answers: &[&'static str]) -> World {
    at_gate(proposes(answers).attended(&[(GateKind::Proposal, GateChoice::Approve)]))
}

fn answer(world: &mut World, choice: GateChoice, text: Option<&str>) {
    let gate = world.state.gates.open.as_ref().expect("a gate").id;
    let answer = GateAnswer {
        gate,
        choice,
        text: text.map(str::to_owned),
        items: None,
    };
    world.command(SessionCommand::AnswerGate(answer));
}

/// The mistakes of each refused proposal.
fn mistakes(world: &World) -> Vec<String> {
    let text = |refusal: &Refusal| match refusal {
        Refusal::BadProposal(mistakes) => {
            let texts: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            texts.join("; ")
        }
        other => panic!("not about a proposal: {other:?}"),
    };
    world.refused.iter().map(text).collect()
}

/// The tasks as the session has them.
fn proposed(world: &World) -> Vec<String> {
    let proposal = world
        .state
        .proposal
        .of_answer(&world.state.turns.agent_text)
        .expect("a proposal");
    proposal
        .tasks
        .into_iter()
        .map(|task| format!("{}: {}", task.id, task.goal))
        .collect()
}

#[test]
fn a_valid_proposal_waits_for_the_user_and_approving_it_completes_the_session() {
    let world = asks(&[TWO]);
    let gate = world.state.gates.open.clone().expect("a gate");
    assert_eq!(gate.kind(), GateKind::Proposal);
    assert_eq!(gate.reason, "the agent proposes 2 tasks: parser, test");
    assert_eq!(
        gate.choices,
        [
            GateChoice::Approve,
            GateChoice::Edit,
            GateChoice::Send,
            GateChoice::Leave
        ]
    );
    let world = world.run();
    assert!(world.state.proposal.is_approved);
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop check the proposal exit 0 -> Pass
          gate 1 proposal
          gate 1 approve by Tui
        iteration 1 done
          LoopEnded
        ended complete (the user approved 2 tasks)
    "#]]
    .assert_eq(&world.story());
}

#[test]
fn a_change_is_recorded_and_shown_before_it_is_approved() {
    let mut world = asks(&[TWO]);
    answer(&mut world, GateChoice::Edit, Some(CHANGED));
    assert!(world.refused.is_empty(), "{:?}", world.refused);
    let gate = world.state.gates.open.clone().expect("the gate stays open");
    assert_eq!(gate.reason, "the changed proposal has 1 task: parser");
    assert_eq!(
        gate.subject.proposal().expect("tasks").tasks[0].goal,
        "Write half of it."
    );
    let world = world.run();
    assert!(world.state.proposal.is_approved);
    assert_eq!(proposed(&world), ["parser: Write half of it."]);
    assert!(
        world
            .story()
            .contains("  ProposalEdited\n  gate 1 approve by Tui\n"),
        "{}",
        world.story()
    );
}

#[test]
fn an_approval_can_bring_the_change_along() {
    let mut world = asks(&[TWO]);
    answer(&mut world, GateChoice::Approve, Some(CHANGED));
    let world = world.run();
    assert!(world.state.proposal.is_approved);
    assert_eq!(proposed(&world), ["parser: Write half of it."]);
    assert!(
        world
            .story()
            .contains("  ProposalEdited\n  gate 1 approve by Tui\n"),
        "{}",
        world.story()
    );
    // The same tasks are no change.
    let mut world = asks(&[TWO]);
    answer(&mut world, GateChoice::Approve, Some(TWO));
    assert!(!world.run().story().contains("ProposalEdited"));
}

#[test]
fn a_change_with_mistakes_is_refused_with_all_of_them() {
    let wrong = r#"{"tasks": [{"id": "a", "goal": " "}, {"id": "b", "goal": "Go.", "depends_on": ["c"], "type": "art"}]}"#;
    for choice in [GateChoice::Edit, GateChoice::Approve] {
        let mut world = asks(&[TWO]);
        let before = world.events.len();
        for text in [wrong, r#"{"tasks": []}"#, "tasks: later"] {
            answer(&mut world, choice, Some(text));
        }
        let refused = mistakes(&world);
        for mistake in [
            "task `a`: ",
            "depends on `c`, which is not in the list",
            "the type `art`; the types are: `code`",
        ] {
            assert!(refused[0].contains(mistake), "{refused:?}");
        }
        assert!(refused[1].contains("there are no tasks"), "{refused:?}");
        assert!(
            refused[2].contains("no JSON object with `tasks`"),
            "{refused:?}"
        );
        assert_eq!(world.events.len(), before, "nothing is recorded");
        assert_eq!(
            proposed(&world),
            ["parser: Write the parser.", "test: Test it."]
        );
        assert!(world.state.gates.open.is_some());
    }
    let mut world = asks(&[TWO]);
    answer(&mut world, GateChoice::Edit, None);
    assert!(
        mistakes(&world)[0].contains("there are no tasks"),
        "{:?}",
        world.refused
    );
}

#[test]
fn what_should_be_different_goes_to_the_agent_which_proposes_again() {
    let mut world = asks(&[TWO, ONE]);
    answer(&mut world, GateChoice::Send, Some("In one step, please."));
    let world = until(world, |world| world.state.gates.open.is_some());
    assert_eq!(proposed(&world), ["all: Do it in one step."]);
    let prompts: Vec<_> = world
        .events
        .iter()
        .filter_map(|event| {
            if let Event::Turn(TurnEvent::PromptSent(prompt)) = event {
                Some(prompt)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(prompts.len(), 2);
    let form = "Answer with the whole proposal again, in the form that was asked for.";
    assert_eq!(
        prompts[1].text,
        format!("[Message]: from the user\nIn one step, please.\n\n{form}")
    );
    assert_eq!(
        prompts[1].conversation,
        creel::engine::conversation::ConversationMode::Same
    );
    let world = world.run();
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop check the proposal exit 0 -> Pass
          gate 1 proposal
          MessageQueued
          gate 1 send by Tui
          prompt Message "[Message]: from the user\nIn one step, please.\n\nAnswer with the whole proposal again, in the form that was asked for."
          turn ended EndTurn
          stop check the proposal exit 0 -> Pass
          gate 2 proposal
          gate 2 approve by Tui
        iteration 1 done
          LoopEnded
        ended complete (the user approved 1 task)
    "#]]
    .assert_eq(&world.story());
    let mut silent = asks(&[TWO]);
    answer(&mut silent, GateChoice::Send, None);
    assert_eq!(silent.refused, [Refusal::EmptyGateMessage]);
}

#[test]
fn the_agent_reads_what_it_cannot_know() {
    let sent = |world: &World| world.turn.clone().expect("the agent works").1;
    let mut world = asks(&[TWO, ONE]);
    answer(&mut world, GateChoice::Edit, Some(CHANGED));
    answer(&mut world, GateChoice::Send, Some("And a manual."));
    let told = sent(&world);
    assert!(
        told.contains(
            "\nAnd a manual.\n\nThis is about the proposal as the user has changed it:\n\n{"
        ),
        "{told}"
    );
    assert!(
        told.contains("Write half of it.") && !told.contains("GOAL"),
        "{told}"
    );
    let world = until(world, |world| world.state.gates.open.is_some());
    assert_eq!(
        proposed(&world),
        ["all: Do it in one step."],
        "the change was of the first proposal"
    );
    // An agent that cannot continue its conversation has forgotten everything.
    let script = proposes(&[TWO]).plan(|plan| plan.agent_spec = AgentSpec::command("codex exec -"));
    let mut world = at_gate(script.attended(&[(GateKind::Proposal, GateChoice::Approve)]));
    answer(&mut world, GateChoice::Send, Some("And a manual."));
    let told = sent(&world);
    assert!(
        told.contains("This is about your proposal:\n\n{") && told.contains("Write the parser."),
        "{told}"
    );
    assert!(
        told.contains("It was made for this request:\n\nGOAL\n\n"),
        "{told}"
    );
}

#[test]
fn leaving_queues_nothing_and_the_changed_proposal_stays() {
    let mut world = asks(&[TWO]);
    answer(&mut world, GateChoice::Edit, Some(CHANGED));
    answer(&mut world, GateChoice::Leave, None);
    let world = world.run();
    assert!(!world.state.proposal.is_approved);
    assert_eq!(proposed(&world), ["parser: Write half of it."]);
    let end = world.story().lines().last().map(str::to_owned);
    assert_eq!(
        end.as_deref(),
        Some("ended complete (the user queued none of the proposed tasks)")
    );
}

#[test]
fn a_session_that_was_stopped_and_killed_in_its_last_checks_gets_its_message_and_ends() {
    let script = proposes(&[TWO])
        .rule("rule", &[true])
        .attended(&[(GateKind::Proposal, GateChoice::Approve)]);
    let mut world = at_gate(script);
    answer(&mut world, GateChoice::Leave, None);
    assert!(world.state.verify.pass.is_some(), "the rule is checked");
    world.command(SessionCommand::Message {
        text: "Be careful.".to_owned(),
    });
    world.command(SessionCommand::Stop {
        how: StopTiming::Now,
    });
    let mut world = World::from_events(world.script, &world.events);
    world.input(Input::Resume {
        presence: world.script.presence,
        max_iterations: None,
        checkpoint: None,
        answer: None,
    });
    let world = run_out(world);
    assert!(world.story().contains("Be careful."), "{}", world.story());
    assert!(world.left.is_some());
}

#[test]
fn repairs_come_before_the_gate() {
    let script = proposes(&["I have no idea.", "Still not.", TWO]);
    let script = Script {
        hooks: [(
            "check the proposal".to_owned(),
            vec![blocks("none"), blocks("none"), passes()],
        )]
        .into(),
        ..script
    };
    let world = World::begin(script.attended(&[(GateKind::Proposal, GateChoice::Approve)])).run();
    expect![[r#"
        iteration 1
          prompt iteration "GOAL"
          turn ended EndTurn
          stop check the proposal exit 2 -> Block
          retry 1/5
          prompt Feedback "[Hook feedback]: check `check the proposal` failed, exit 2\nnone"
          turn ended EndTurn
          stop check the proposal exit 2 -> Block
          retry 2/5 no progress
          prompt Feedback "[Hook feedback]: check `check the proposal` failed, exit 2\nnone"
          turn ended EndTurn
          stop check the proposal exit 0 -> Pass
          gate 1 proposal
          gate 1 approve by Tui
        iteration 1 done
          LoopEnded
        ended complete (the user approved 2 tasks)
    "#]]
    .assert_eq(&world.story());
}

#[test]
fn an_answer_without_a_valid_proposal_opens_no_gate() {
    for answer in [
        "No tasks today.",
        r#"{"tasks": [{"id": "a", "goal": "Go.", "type": "art"}]}"#,
    ] {
        let world = World::begin(proposes(&[answer]).attended(&[])).run();
        assert!(!world.story().contains("gate"), "{}", world.story());
        assert!(!world.state.proposal.is_approved);
    }
}

#[test]
fn without_a_user_no_gate_opens_and_nothing_is_approved() {
    let world = World::begin(proposes(&[TWO])).run();
    assert!(!world.story().contains("gate"), "{}", world.story());
    assert!(!world.state.proposal.is_approved);
    assert_eq!(proposed(&world).len(), 2);
    // A session without a plan for proposals has no such gate either.
    let other = proposes(&[TWO])
        .plan(|plan| plan.proposal = None)
        .attended(&[]);
    assert!(!World::begin(other).run().story().contains("gate"));
}

#[test]
fn an_open_gate_waits_for_a_user_even_if_the_session_is_resumed_without_one() {
    let world = asks(&[TWO]);
    let script = proposes(&[TWO]);
    let mut resumed = World::from_events(script.clone(), &world.events);
    resumed.input(Input::Resume {
        presence: script.presence,
        max_iterations: None,
        checkpoint: None,
        answer: None,
    });
    assert_eq!(resumed.left, Some(ExitReason::NeedsUser));
    assert!(resumed.state.gates.open.is_some());
}

#[test]
fn after_the_timeout_nothing_is_approved() {
    let script = proposes(&[TWO]).plan(|plan| plan.gates.timeout = TimeSpan::secs(60));
    let mut world = at_gate(script.attended(&[(GateKind::Proposal, GateChoice::Approve)]));
    world.now = UnixTime(61_000);
    world.settle();
    let world = world.run();
    assert!(!world.state.proposal.is_approved);
    assert!(
        world.story().contains("  gate 1 leave by Timeout\n"),
        "{}",
        world.story()
    );
}

#[test]
fn a_kill_at_any_record_loses_no_change_and_no_approval() {
    let mut whole = asks(&[TWO]);
    answer(&mut whole, GateChoice::Edit, Some(CHANGED));
    let edited = whole
        .events
        .iter()
        .position(|event| matches!(event, Event::Gate(GateEvent::ProposalEdited { .. })));
    let edited = edited.expect("the change is recorded");
    let whole = whole.run();
    for cut in edited..whole.events.len() {
        let killed = World::from_events(whole.script.clone(), &whole.events[..=cut]);
        let ended = killed.state.phase.outcome().is_some();
        let resumed = if ended { killed } else { killed.resume() };
        assert!(
            resumed.state.proposal.is_approved,
            "after record {cut}:\n{}",
            resumed.story()
        );
        assert_eq!(
            proposed(&resumed),
            ["parser: Write half of it."],
            "after record {cut}"
        );
        let opened = resumed
            .events
            .iter()
            .filter(|event| matches!(event, Event::Gate(GateEvent::Opened { .. })));
        assert_eq!(opened.count(), 1, "the gate is still open, not a new one");
    }
}

#[test]
fn agents_and_hooks_approve_nothing() {
    for by in [ActorKind::Agent, ActorKind::Hook] {
        let mut world = asks(&[TWO]);
        let gate = world.state.gates.open.as_ref().expect("a gate").id;
        for choice in GateKind::Proposal.choices() {
            let answer = GateAnswer {
                gate,
                choice,
                text: Some(CHANGED.to_owned()),
                items: None,
            };
            world.input(Input::Command {
                by: by.into(),
                command: SessionCommand::AnswerGate(answer),
            });
        }
        assert_eq!(world.refused.len(), 4, "{:?}", world.refused);
        assert_eq!(proposed(&world).len(), 2);
    }
}

#[test]
fn a_message_that_arrives_after_the_approval_leads_to_a_new_proposal() {
    let mut world = asks(&[TWO, ONE]);
    world.command(SessionCommand::Message {
        text: "Wait, in one step.".into(),
    });
    answer(&mut world, GateChoice::Approve, None);
    let world = until(world, |world| world.state.gates.open.is_some());
    assert!(!world.state.proposal.is_approved, "{}", world.story());
    assert_eq!(proposed(&world), ["all: Do it in one step."]);
}

/// Its hooks of prompts read every prompt, also your answer at the gate of the proposal.
#[test]
fn hooks_read_the_prompts_of_a_planning_session() {
    let script = proposes(&["Not yet.", TWO, ONE])
        .attended(&[
            (GateKind::Proposal, GateChoice::Send),
            (GateKind::Escalation, GateChoice::Continue),
            (GateKind::Proposal, GateChoice::Approve),
        ])
        .hook(
            HookPoint::PrePrompt,
            "look",
            [passes(), passes(), blocks("a key")],
        );
    let mut script = script;
    script.hooks.insert(
        "check the proposal".into(),
        vec![blocks("no tasks"), passes()],
    );
    let story = World::begin(script).run().story();
    expect![[r#"
        iteration 1
          pre_prompt look exit 0 -> Pass
          prompt iteration "GOAL"
          turn ended EndTurn
          stop check the proposal exit 2 -> Block
          retry 1/5
          pre_prompt look exit 0 -> Pass
          prompt Feedback "[Hook feedback]: check `check the proposal` failed, exit 2\nno tasks"
          turn ended EndTurn
          stop check the proposal exit 0 -> Pass
          gate 1 proposal
          MessageQueued
          gate 1 send by Tui
          pre_prompt look exit 2 -> Block
          gate 2 escalation
          gate 2 continue by Tui
          prompt Message "[Message]: from the user\nTry another way.\n\nAnswer with the whole proposal again, in the form that was asked for."
          turn ended EndTurn
          stop check the proposal exit 0 -> Pass
          gate 3 proposal
          gate 3 approve by Tui
        iteration 1 done
          LoopEnded
        ended complete (the user approved 1 task)
    "#]].assert_eq(&story);
}
