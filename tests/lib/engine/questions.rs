//! Questions of the agent: who answers them, and what the agent gets.

use creel::engine::{
    conversation::{
        AgentPermissionRequest, PermissionAnswer, PermissionSource, ToolCall, ToolKind,
    },
    effect::ExitReason,
    event::{ActorKind, Event, SessionOutcome, TurnEvent},
    gate::{
        Gate,
        kind::{GateChoice, GateKind},
    },
    hooks::{
        claude::{ClaudeEvent, ClaudeHandler},
        point::HookPoint,
        verdict::HookReply,
    },
    input::{GateAnswer, Input, SessionCommand},
    policy::{PermissionPolicy, SessionPlan},
    question::{AgentQuestion, FieldKind, FieldOption, QuestionField, QuestionPolicy, UNATTENDED},
    refusal::Refusal,
    time::TimeSpan,
};

use crate::support::{
    samples::{self, until},
    world::{Answer, DONE, Ran, Script, World, blocks, breaks, passes, permission_request},
};

fn database(other: Option<&str>) -> AgentQuestion {
    let option = |value: &str| FieldOption {
        value: value.to_lowercase(),
        title: value.into(),
        description: None,
    };
    AgentQuestion {
        message: "Which database?".into(),
        fields: vec![QuestionField {
            name: "db".into(),
            title: "Database".into(),
            kind: FieldKind::One,
            options: ["Postgres", "SQLite"].map(option).to_vec(),
            other: other.map(str::to_owned),
            ..QuestionField::default()
        }],
        url: None,
    }
}

fn asks(world: &mut World, question: AgentQuestion) {
    let turn = world.turn.as_ref().expect("the agent works").0;
    world.asking.1 = world.asking.1.next();
    let tool = ToolCall {
        title: question.message.clone(),
        ..ToolCall::default()
    };
    let ask = Box::new(AgentPermissionRequest {
        source: PermissionSource::Question(Box::new(question)),
        ..permission_request(world.asking.1, tool, Vec::new())
    });
    world.input(Input::PermissionAsked { turn, ask });
    world.settle();
}

fn works(script: Script) -> World {
    let script = script.agent([Answer::Says("Working."), Answer::Says("More."), DONE]);
    until(World::begin(script), |world| world.turn.is_some())
}

fn answers(world: &mut World, choice: GateChoice, text: Option<&str>) {
    let gate = world.state.gates.open.as_ref().expect("a gate").id;
    world.command(SessionCommand::AnswerGate(GateAnswer {
        gate,
        choice,
        text: text.map(str::to_owned),
        items: None,
    }));
    world.settle();
}

fn prompts(world: &World) -> Vec<&str> {
    let sent = world.events.iter().filter_map(|event| match event {
        Event::Turn(TurnEvent::PromptSent(prompt)) => Some(prompt.text.as_str()),
        _ => None,
    });
    sent.collect()
}

fn given(world: &World) -> Option<PermissionAnswer> {
    world.permitted.last().map(|(_, answer)| answer.clone())
}

fn filled(json: &str) -> PermissionAnswer {
    PermissionAnswer::Selected(json.into())
}

#[test]
fn the_user_answers_and_a_wrong_answer_says_what_fits() {
    let mut world = works(Script::new().attended(&[]));
    asks(&mut world, database(None));
    let gate = world.state.gates.open.clone().expect("a gate");
    assert_eq!(gate.kind(), GateKind::Question);
    assert_eq!(
        gate.choices,
        [GateChoice::Answer, GateChoice::Decline, GateChoice::Cancel]
    );
    answers(&mut world, GateChoice::Answer, Some("Oracle"));
    assert!(
        matches!(world.refused.last(), Some(Refusal::BadAnswer { why, .. }) if why.contains("Postgres, SQLite")),
        "{:?}",
        world.refused
    );
    answers(&mut world, GateChoice::Answer, None);
    assert_eq!(world.refused.len(), 2, "an empty answer is none");
    answers(&mut world, GateChoice::AllowOnce, None);
    assert_eq!(world.refused.len(), 3, "a question is no permission");
    answers(&mut world, GateChoice::Send, Some("2"));
    assert_eq!(given(&world), Some(filled(r#"{"db":"sqlite"}"#)));
    assert!(world.state.gates.open.is_none());
}

#[test]
fn no_rule_about_permissions_answers_a_question() {
    for policy in [PermissionPolicy::Allow, PermissionPolicy::Deny] {
        let script = Script::new().attended(&[]);
        let mut world = works(script.plan(|plan| plan.gates.permissions = policy));
        asks(&mut world, database(None));
        let waits = world.state.permissions().gate_for_a_person();
        assert_eq!(waits.map(Gate::kind), Some(GateKind::Question));
        answers(&mut world, GateChoice::Decline, None);
        let declined = PermissionAnswer::Declined { unattended: false };
        assert_eq!(given(&world), Some(declined));
        assert!(!world.run().story().contains(UNATTENDED));
    }
}

#[test]
fn an_answer_grants_no_command_that_the_question_mentions() {
    let mut world = works(Script::new().attended(&[]));
    let mut question = database(Some("db_custom"));
    question.message = "rm -rf build".into();
    asks(&mut world, question);
    answers(&mut world, GateChoice::Answer, Some("DuckDB"));
    assert_eq!(given(&world), Some(filled(r#"{"db_custom":"DuckDB"}"#)));
    let turn = world.turn.as_ref().expect("the agent works").0;
    world.asking.1 = world.asking.1.next();
    let run = ToolCall {
        title: "rm -rf build".into(),
        kind: Some(ToolKind::Execute),
        ..ToolCall::default()
    };
    let ask = Box::new(AgentPermissionRequest {
        source: PermissionSource::Service,
        ..permission_request(world.asking.1, run, samples::usual_options())
    });
    world.input(Input::PermissionAsked { turn, ask });
    world.settle();
    let waits = world.state.permissions().gate_for_a_person();
    assert_eq!(waits.map(Gate::kind), Some(GateKind::Permission));
}

#[test]
fn an_unattended_session_declines_and_tells_the_agent() {
    let mut world = works(Script::new());
    asks(&mut world, database(None));
    let declined = PermissionAnswer::Declined { unattended: true };
    assert_eq!(given(&world), Some(declined));
    let note = format!("[Question]: you asked “Which database?”. {UNATTENDED}\n\n");
    let world = world.run();
    let prompts = prompts(&world);
    assert!(prompts[1].starts_with(&note), "{prompts:?}");
    assert!(prompts[2..].iter().all(|text| !text.contains(UNATTENDED)));
}

#[test]
fn where_the_form_has_room_for_words_the_agent_gets_them_at_once() {
    let mut world = works(Script::new());
    asks(&mut world, database(Some("db_custom")));
    let note = serde_json::json!({ "db_custom": UNATTENDED }).to_string();
    assert_eq!(given(&world), Some(filled(&note)));
}

#[test]
fn a_session_that_escalates_leaves_its_question_open() {
    let escalates = |plan: &mut SessionPlan| plan.gates.questions = QuestionPolicy::Escalate;
    let mut world = works(Script::new().plan(escalates));
    asks(&mut world, database(None));
    assert_eq!(world.left, Some(ExitReason::NeedsUser));
    assert!(world.state.gates.open.is_some() && given(&world).is_none());
}

#[test]
fn a_timeout_declines_unless_only_the_user_answers() {
    let asked = |questions: QuestionPolicy| {
        let script = Script::new().attended(&[]).plan(|plan| {
            plan.gates.timeout = TimeSpan(1_000);
            plan.gates.questions = questions;
        });
        let mut world = works(script);
        asks(&mut world, database(None));
        assert_eq!(given(&world), None);
        let deadline = world.state.next_wake();
        world.now = world.now.after(TimeSpan(1_000));
        world.settle();
        (deadline, given(&world), world.left)
    };
    let (deadline, answer, left) = asked(QuestionPolicy::Decline);
    assert!(deadline.is_some() && left.is_none());
    assert_eq!(
        answer,
        Some(PermissionAnswer::Declined { unattended: true })
    );
    let waits = (None, None, None);
    assert_eq!(asked(QuestionPolicy::Escalate), waits);
}

#[test]
fn agents_and_hooks_cannot_answer_a_question() {
    for by in [ActorKind::Agent, ActorKind::Hook, ActorKind::OtherSession] {
        let mut world = works(Script::new().attended(&[]));
        asks(&mut world, database(None));
        let gate = world.state.gates.open.as_ref().expect("a gate").id;
        world.input(Input::Command {
            by: by.into(),
            command: SessionCommand::AnswerGate(GateAnswer {
                gate,
                choice: GateChoice::Answer,
                text: Some("1".into()),
                items: None,
            }),
        });
        assert_eq!(world.refused.len(), 1, "{by:?}");
        assert!(given(&world).is_none() && world.state.gates.open.is_some());
    }
}

#[test]
fn a_question_of_a_reviewer_is_not_blamed_on_the_sessions_agent() {
    let block: &[Answer] = &[Answer::Says("BLOCK: no")];
    let script = Script::new()
        .submits()
        .plan(|plan| plan.submit.remediation_attempts = 1)
        .review(HookPoint::BeforeSubmit, &[("reviewer", block)])
        .agent([DONE]);
    let world = until(World::begin(script), |world| world.asked.is_some());
    let mut world = world;
    asks(&mut world, database(None));
    let declined = PermissionAnswer::Declined { unattended: true };
    assert_eq!(given(&world), Some(declined));
    let world = world.run();
    let prompts = prompts(&world);
    assert!(prompts.len() > 2, "{prompts:?}");
    assert!(prompts.iter().all(|text| !text.contains(UNATTENDED)));
}

#[test]
fn a_notification_shows_what_to_choose_from() {
    let script = Script::new().attended(&[]);
    let mut world = works(script.hook(HookPoint::OnGate, "phone", [passes()]));
    asks(&mut world, database(None));
    let reasons: Vec<&str> = world
        .jobs
        .iter()
        .filter_map(|job| Some(job.facts.gate.as_ref()?.reason.as_str()))
        .collect();
    assert_eq!(
        reasons,
        ["the agent asks: Which database?\n1  Postgres\n2  SQLite"]
    );
}

#[test]
fn a_cancelled_turn_takes_its_question_with_it() {
    let mut world = works(Script::new().attended(&[]));
    asks(&mut world, database(None));
    answers(&mut world, GateChoice::Cancel, None);
    assert!(world.state.gates.open.is_none());
    assert!(world.state.requests.waiting.is_empty());
}

/// A reply to a question: an answer, or a refusal.
fn replies(permission: PermissionPolicy, content: Option<&str>) -> Ran {
    Ran {
        reply: Some(HookReply {
            permission: Some(permission),
            answer: content.map(str::to_owned),
            ..HookReply::default()
        }),
        ..passes()
    }
}

fn with_question_hook(event: ClaudeEvent, ran: Ran) -> Script {
    Script::new().hook_with(HookPoint::OnQuestion, "guide", [ran], |spec| {
        spec.claude = Some(Box::new(ClaudeHandler::new(event)));
    })
}

/// Until its hooks have run.
fn asks_hooks(world: &mut World, question: AgentQuestion) {
    asks(world, question);
    assert!(world.state.gates.open.is_none(), "the hooks come first");
    world.finish_hook(0);
}

#[test]
fn a_hook_answers_or_declines_a_question_before_the_user_is_asked() {
    let (allow, deny) = (PermissionPolicy::Allow, PermissionPolicy::Deny);
    let fits = r#"{"db":"sqlite"}"#;
    for (ran, answer) in [
        (replies(allow, Some(fits)), Some(filled(fits))),
        (
            replies(deny, None),
            Some(PermissionAnswer::Declined { unattended: false }),
        ),
        (
            blocks("not today"),
            Some(PermissionAnswer::Declined { unattended: false }),
        ),
        // You are asked: nothing was decided, or nothing that fits the form.
        (replies(allow, Some(r#"{"db":"oracle"}"#)), None),
        (replies(allow, None), None),
        (breaks(), None),
        (passes(), None),
    ] {
        let case = format!("{ran:?}");
        let script = with_question_hook(ClaudeEvent::Elicitation, ran).attended(&[]);
        // Nor does a rule about permissions keep a question from its hooks.
        let mut world = works(script.plan(|plan| plan.gates.permissions = deny));
        asks_hooks(&mut world, database(None));
        assert_eq!(given(&world), answer, "{case}");
        assert_eq!(world.state.gates.open.is_some(), answer.is_none(), "{case}");
    }
}

#[test]
fn an_answer_of_a_hook_that_does_not_fit_says_why() {
    let ran = || replies(PermissionPolicy::Allow, Some(r#"{"db":"oracle"}"#));
    let why = "cannot be used: `oracle` does not fit: choose one of Postgres, SQLite";
    let mut asked = works(with_question_hook(ClaudeEvent::Elicitation, ran()).attended(&[]));
    asks_hooks(&mut asked, database(None));
    let gate = asked.state.gates.open.as_ref().expect("a gate");
    let reason = format!(
        "the agent asks: Which database?; the hook `guide` leaves it to you, because its answer {why}"
    );
    assert_eq!(gate.reason, reason);
    let script = with_question_hook(ClaudeEvent::ElicitationResult, ran()).attended(&[]);
    let mut changed = works(script);
    asks(&mut changed, database(None));
    answers(&mut changed, GateChoice::Answer, Some("2"));
    changed.finish_hook(0);
    let warning =
        format!("hook `guide` at on_question: its answer {why}. The answer stays as it was");
    assert!(changed.story().contains(&warning), "{}", changed.story());
}

#[test]
fn a_hook_sees_the_answer_before_the_agent_and_may_change_it() {
    let (allow, deny) = (PermissionPolicy::Allow, PermissionPolicy::Deny);
    let (yours, changed) = (r#"{"db":"sqlite"}"#, r#"{"db":"postgres"}"#);
    for (ran, answer) in [
        (passes(), filled(yours)),
        (breaks(), filled(yours)),
        (replies(allow, Some(changed)), filled(changed)),
        (replies(allow, Some(r#"{"db":"oracle"}"#)), filled(yours)),
        (
            replies(deny, None),
            PermissionAnswer::Declined { unattended: false },
        ),
        (
            blocks("no"),
            PermissionAnswer::Declined { unattended: false },
        ),
    ] {
        let case = format!("{ran:?}");
        let script = with_question_hook(ClaudeEvent::ElicitationResult, ran).attended(&[]);
        let mut world = works(script);
        asks(&mut world, database(None));
        answers(&mut world, GateChoice::Answer, Some("2"));
        assert_eq!(given(&world), None, "{case}: the hook comes first");
        let seen = world.jobs[0].facts.question.as_ref().expect("a question");
        let seen = seen.answer.as_ref().and_then(|it| it.content.clone());
        assert_eq!(seen.as_deref(), Some(yours));
        world.finish_hook(0);
        assert_eq!(given(&world), Some(answer), "{case}");
        assert_eq!(world.permitted.len(), 1, "{case}");
    }
}

/// An unattended session that a hook answers for says nothing about a missing user.
#[test]
fn an_answer_of_a_hook_replaces_the_unattended_one() {
    let content = r#"{"db":"sqlite"}"#;
    let ran = replies(PermissionPolicy::Allow, Some(content));
    for event in [ClaudeEvent::Elicitation, ClaudeEvent::ElicitationResult] {
        let mut world = works(with_question_hook(event, ran.clone()));
        asks(&mut world, database(None));
        world.finish_hook(0);
        assert_eq!(given(&world), Some(filled(content)));
        let world = world.run();
        assert!(
            prompts(&world)
                .iter()
                .all(|text| !text.contains(UNATTENDED))
        );
    }
}

#[test]
fn a_cancelled_turn_ends_the_hooks_of_its_question() {
    for event in [ClaudeEvent::Elicitation, ClaudeEvent::ElicitationResult] {
        let mut world = works(with_question_hook(event, passes()).attended(&[]));
        asks(&mut world, database(None));
        if event == ClaudeEvent::ElicitationResult {
            answers(&mut world, GateChoice::Answer, Some("2"));
        }
        world.command(SessionCommand::CancelTurn);
        world.finish_turn();
        world.finish_hook(0);
        assert_eq!(given(&world), None);
        assert!(world.state.gates.open.is_none());
        world.command(SessionCommand::Unpause);
        let world = world.run();
        assert!(world.state.phase.outcome().is_some(), "{}", world.story());
    }
}

/// Neither the question nor its answer reaches the agent, and you read why.
#[test]
fn a_hook_of_a_question_can_stop_the_session() {
    let stops = Ran {
        reply: Some(HookReply {
            stops: true,
            reason: Some("no questions".into()),
            ..HookReply::default()
        }),
        ..passes()
    };
    for event in [ClaudeEvent::Elicitation, ClaudeEvent::ElicitationResult] {
        let script = with_question_hook(event, stops.clone());
        let script = script.attended(&[(GateKind::Escalation, GateChoice::Abort)]);
        let mut world = works(script);
        asks(&mut world, database(None));
        if event == ClaudeEvent::ElicitationResult {
            answers(&mut world, GateChoice::Answer, Some("2"));
        }
        world.finish_hook(0);
        assert!(world.turn_cancelled, "{}", world.story());
        let answered = given(&world).filter(|answer| *answer != PermissionAnswer::Cancelled);
        assert_eq!(answered, None, "{}", world.story());
        let world = world.run();
        let ended = world.state.phase.outcome();
        assert_eq!(ended, Some(SessionOutcome::Aborted), "{}", world.story());
        assert_eq!(prompts(&world).len(), 1);
    }
}
