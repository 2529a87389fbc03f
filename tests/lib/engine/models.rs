//! Which model gets a prompt: of the plan, after retries, by the user's choice, of another agent.

use creel::engine::{
    conversation::AgentUpdate,
    event::{Event, PromptReason, TurnEvent},
    hooks::point::HookPoint,
    input::{Input, SessionCommand},
    policy::{AgentFacts, AgentSpec, MODEL, ModelPlan, OutputFormat, RetryModel},
    refusal::Refusal,
    turn::MODELS_NOTE,
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
    let script = Script::new().agent([Answer::Says("Trying.")]).plan(|plan| {
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
    let mut world = World::begin(Script::new().agent([Answer::Says("Trying.")]));
    world.settle();
    let turn = world.state.turns.last;
    let note = |what: &str, text: &str| Input::Agent {
        turn,
        update: AgentUpdate::Noted {
            what: what.into(),
            text: text.into(),
        },
    };
    world.input(note(MODELS_NOTE, "opus\nhaiku"));
    world.input(note(MODEL, "haiku"));
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
    assert_eq!(world.state.steering.model.as_deref(), Some("opus"));
}

#[test]
fn a_command_without_a_flag_gets_no_model() {
    let command = AgentSpec::Command {
        command: "agent".into(),
        continue_command: None,
        format: OutputFormat::Text,
        tty: false,
        known: AgentFacts::default(),
    };
    let script = Script::new().plan(|plan| plan.agent_spec = command);
    let mut world = World::begin(script);
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
