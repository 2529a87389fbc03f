//! Which model gets a prompt: of the plan, after retries, by the user's choice, of another agent.

use creel::engine::{
    conversation::{AgentUpdate, LimitCause, TurnFailure, UsageLimit},
    event::ActorKind,
    event::{Event, PromptReason, TurnEvent},
    hooks::point::HookPoint,
    input::{Input, SessionCommand},
    policy::{AgentFacts, AgentSpec, FallbackAgent, MODEL, ModelPlan, OutputFormat, RetryModel},
    refusal::Refusal,
    time::TimeSpan,
    turn::{MODELS_NOTE, SOME_MODELS_NOTE},
};

use crate::support::world::*;

fn models(retries: &[(u32, &str)]) -> ModelPlan {
    let retries = retries.iter().map(|(after, model)| RetryModel {
        after: *after,
        model: (*model).into(),
    });
    ModelPlan {
        model: Some("small".into()),
        retries: retries.collect(),
    }
}

fn chosen(world: &World) -> Vec<(PromptReason, Option<&str>)> {
    let prompts = world.events.iter().filter_map(|event| match event {
        Event::Turn(TurnEvent::PromptSent(prompt)) => {
            Some((prompt.reason, prompt.model.as_deref()))
        }
        _ => None,
    });
    prompts.collect()
}

/// A note of the agent that works now.
fn notes(world: &mut World, what: &str, text: &str) {
    let turn = world.state.turns.last;
    let (what, text) = (what.into(), text.into());
    let update = AgentUpdate::Noted { what, text };
    world.input(Input::Agent { turn, update });
}

/// A session of an agent that can be given a model.
fn acp() -> Script {
    let script = Script::new().agent([Answer::Says("Trying.")]);
    script.plan(|plan| plan.agent_spec = AgentSpec::acp("a"))
}

fn set(model: Option<&str>) -> SessionCommand {
    SessionCommand::SetModel {
        model: model.map(str::to_owned),
    }
}

#[test]
fn a_stronger_model_takes_the_retries_that_the_first_one_needs_too_many_of() {
    let red_twice = [blocks("1"), blocks("2"), blocks("3"), blocks("4"), passes()];
    let script = Script::new()
        .hook(HookPoint::Stop, "tests", red_twice)
        .agent([Answer::Says("Trying.")])
        .plan(|plan| {
            plan.max_iterations = 2;
            plan.models = models(&[(3, "large"), (1, "medium")]);
        });
    let world = World::begin(script).run();
    let (iteration, feedback) = (PromptReason::Iteration, PromptReason::Feedback);
    assert_eq!(
        chosen(&world),
        [
            (iteration, Some("small")),
            (feedback, Some("small")),
            (feedback, Some("medium")),
            (feedback, Some("medium")),
            (feedback, Some("large")),
            (iteration, Some("small")),
        ]
    );
}

#[test]
fn your_choice_counts_for_all_later_prompts_until_you_take_it_back() {
    let script = acp().plan(|plan| {
        plan.max_iterations = 4;
        plan.models = models(&[]);
    });
    let mut world = World::begin(script);
    world.settle();
    world.command(set(Some("huge")));
    world.finish_turn();
    world.settle();
    world.finish_turn();
    world.settle();
    world.command(set(None));
    let world = world.run();
    let all: Vec<Option<&str>> = chosen(&world).into_iter().map(|(_, model)| model).collect();
    assert_eq!(
        all,
        [Some("small"), Some("huge"), Some("huge"), Some("small")]
    );
}

#[test]
fn only_a_model_that_the_agent_offers_can_be_chosen() {
    let mut world = World::begin(acp());
    world.settle();
    notes(&mut world, MODELS_NOTE, "opus\nhaiku");
    notes(&mut world, MODEL, "haiku");
    assert_eq!(world.state.turns.model.as_deref(), Some("haiku"));
    world.command(set(Some("gpt")));
    assert_eq!(
        world.refused.last(),
        Some(&Refusal::NoSuchModel {
            model: "gpt".into(),
            offered: vec!["opus".into(), "haiku".into()],
        })
    );
    world.command(set(Some("OPUS")));
    let chosen = |world: &World| {
        world
            .state
            .steering
            .models
            .values()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(chosen(&world), ["opus"]);
    notes(&mut world, SOME_MODELS_NOTE, "opus\nhaiku");
    world.command(set(Some("gpt")));
    assert_eq!(chosen(&world), ["gpt"], "not all are listed");
}

#[test]
fn each_agent_has_its_own_models_and_your_choice_for_it() {
    let script = acp().plan(|plan| {
        let spec = AgentSpec::acp("b");
        let name = "b".to_owned();
        plan.limits.fallback = vec![FallbackAgent { name, spec }];
    });
    let mut world = World::begin(script);
    world.settle();
    notes(&mut world, MODELS_NOTE, "opus\nhaiku");
    world.command(set(Some("opus")));
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
    assert_eq!(world.state.limits.stand_in.as_deref(), Some("b"));
    notes(&mut world, MODELS_NOTE, "gpt-4\ngpt-5");
    world.command(set(Some("opus")));
    assert_eq!(world.refused.len(), 1, "`b` does not offer it");
    world.command(set(Some("gpt-4")));
    world.finish_turn();
    world.settle();
    let by_b = chosen(&world);
    assert_eq!(by_b.last().expect("a prompt").1, Some("gpt-4"));
    world.now = world.now.after(TimeSpan::secs(7_200));
    world.finish_turn();
    world.settle();
    assert_eq!(world.state.limits.stand_in, None);
    assert_eq!(chosen(&world).last().expect("a prompt").1, Some("opus"));
}

#[test]
fn a_recovery_keeps_the_model_of_the_retry_that_failed() {
    let red = [blocks("1"), blocks("2"), passes()];
    let answers = [
        Answer::Says("One."),
        Answer::Says("Two."),
        Answer::Fails("boom"),
        Answer::Says("Three."),
    ];
    let script = Script::new()
        .hook(HookPoint::Stop, "tests", red)
        .piped(HookPoint::OnError, "why", [prints("look")])
        .agent(answers)
        .plan(|plan| {
            plan.max_iterations = 2;
            plan.models = models(&[(1, "large")]);
        });
    let world = World::begin(script).run();
    let recovery = chosen(&world)
        .into_iter()
        .find(|(reason, _)| *reason == PromptReason::Recovery);
    assert_eq!(recovery, Some((PromptReason::Recovery, Some("large"))));
}

#[test]
fn agents_and_hooks_cannot_choose_the_model() {
    for by in [ActorKind::Agent, ActorKind::Hook, ActorKind::OtherSession] {
        let mut world = World::begin(acp());
        world.settle();
        world.input(Input::Command {
            by: by.into(),
            command: set(Some("opus")),
        });
        assert_eq!(world.refused.len(), 1, "{by:?}");
        assert!(world.state.steering.models.is_empty());
    }
}

#[test]
fn a_command_without_a_flag_or_a_script_gets_no_model() {
    let command = AgentSpec::Command {
        command: "agent".into(),
        continue_command: None,
        format: OutputFormat::Text,
        tty: false,
        known: AgentFacts::default(),
    };
    let script = AgentSpec::Scripted {
        script: String::new(),
    };
    for spec in [command, script] {
        let mut world = World::begin(Script::new().plan(|plan| plan.agent_spec = spec));
        world.settle();
        world.command(set(Some("opus")));
        assert_eq!(
            world.refused.last(),
            Some(&Refusal::NoSuchModel {
                model: "opus".into(),
                offered: Vec::new(),
            })
        );
    }
}
