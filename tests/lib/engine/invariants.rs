//! The invariants of the engine, over random sessions: answers, failures, commands, timers and
//! kills in any order.

use std::collections::{BTreeMap, BTreeSet};

use creel::engine::{
    conversation::{StopReason, ToolKind},
    event::{
        ActorKind, CheckRunResult, Event, GateEvent, HookEvent, PendingEvent, PipelineEvent,
        PromptReason, RetryEvent, SessionEvent, SessionOutcome, SteeringEvent, StopEvent,
        StopTiming, TaskEvent, TurnEvent, VerifyEvent,
    },
    gate::kind::{GateChoice, GateKind},
    hooks::{
        point::HookPoint,
        verdict::{RunEnd, Verdict},
    },
    ids::{GateId, ItemId},
    input::{GateAnswer, Input, SessionCommand},
    pending::ItemState,
    policy::{
        BackoffPolicy, ContextPolicy, DeliveryPolicy, FinalDeliveryPolicy, HookFailurePolicy,
        OpenTasksPolicy, PermissionPolicy, PermissionRule, PipeOutput, ProposalPlan,
        RetryLimitPolicy, SettledPolicy,
    },
    session::event::ResumeAnswer,
    tasks::{
        command::{NewTask, TaskCommand},
        record::TaskEventKind,
    },
    time::{TimeSpan, UnixTime},
    verify::{base_tests::TestSource, test_guard::TestComparison},
};
use proptest::prelude::*;

use crate::support::world::*;

/// Something that happens while a session runs.
#[derive(Debug, Clone)]
pub(crate) enum Happens {
    HookEnds(usize),
    TurnEnds,
    TimePasses(u64),
    Gate(usize),
    Asks(SessionCommand),
    Dies,
}

fn a_run() -> impl Strategy<Value = Ran> {
    prop_oneof![
        3 => Just(passes()),
        3 => prop_oneof![Just("alpha"), Just("beta"), Just("gamma")].prop_map(prints),
        3 => prop_oneof![Just("no"), Just("still no")].prop_map(blocks),
        2 => Just(exits(1, "out", "err")),
        1 => Just(breaks()),
        1 => Just(exits(127, "", "not found")),
        2 => some_deeds().prop_map(acts),
    ]
}

/// What hooks and agents do with creel commands, possibly for ever.
fn some_deeds() -> impl Strategy<Value = &'static [Deed]> {
    prop::sample::select(vec![
        &[Deed::CompletesTask][..],
        &[Deed::SendsMessage],
        &[Deed::CompletesTask, Deed::SendsMessage],
        &[Deed::CompletesTask, Deed::CompletesTask],
    ])
}

fn an_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        5 => Just(Answer::Says("Working.")),
        2 => Just(Answer::Says(r#"{"tasks": [{"id": "a", "goal": "Go."}, {"id": "b", "goal": "On.", "depends_on": ["a"]}]}"#)),
        2 => Just(Answer::Fails("reset")),
        1 => Just(DONE),
        1 => Just(Answer::Says("<promise>ESCALATE</promise>")),
        2 => prop::sample::select(vec![&["a.rs"][..], &["a.rs", "b.rs"], &["secret"]]).prop_map(Answer::Asks),
        1 => Just(Answer::Refuses),
        1 => Just(Answer::Overloads(1_500)),
        1 => Just(Answer::Spends(100)),
        3 => (some_deeds(), prop::sample::select(vec![0, 60])).prop_map(|(deeds, tokens)| Answer::Acts(deeds, tokens)),
    ]
}

fn a_point() -> impl Strategy<Value = HookPoint> {
    prop::sample::select(vec![
        HookPoint::SessionStart,
        HookPoint::PreIteration,
        HookPoint::PrePrompt,
        HookPoint::PreTool,
        HookPoint::PostTool,
        HookPoint::OnQuestion,
        HookPoint::Stop,
        HookPoint::PostIteration,
        HookPoint::OnTaskComplete,
        HookPoint::OnError,
        HookPoint::OnGate,
        HookPoint::SessionEnd,
    ])
}

pub(crate) fn a_script() -> impl Strategy<Value = Script> {
    let failure = prop::option::weighted(
        0.2,
        prop::sample::select(vec![
            HookFailurePolicy::Ignore,
            HookFailurePolicy::Block,
            HookFailurePolicy::Escalate,
        ]),
    );
    let hook = (
        a_point(),
        any::<bool>(),
        failure,
        prop::collection::vec(a_run(), 1..4),
    );
    let hooks = prop::collection::vec(hook, 0..6);
    let answers = prop::collection::vec(an_answer(), 1..8);
    let limits = (1u32..6, 0u32..4, 1u32..4);
    let policies = (
        prop::sample::select(vec![
            RetryLimitPolicy::Complete,
            RetryLimitPolicy::Escalate,
            RetryLimitPolicy::Abort,
        ]),
        prop::option::of(prop::sample::select(vec![
            FinalDeliveryPolicy::Ask,
            FinalDeliveryPolicy::Auto,
            FinalDeliveryPolicy::Skip,
        ])),
        prop::sample::select(vec![DeliveryPolicy::Ask, DeliveryPolicy::Auto]),
        any::<bool>(),
        any::<bool>(),
        prop::sample::select(vec![0, 5_000]),
        prop::sample::select(vec![
            PermissionPolicy::Ask,
            PermissionPolicy::Allow,
            PermissionPolicy::Deny,
        ]),
        prop::option::of(prop::sample::select(vec![50, 250])),
        prop::option::weighted(0.3, Just(ProposalPlan::default())),
    );
    let unrest = prop::sample::select(vec![0, 0, 1, 2, 3, 5]);
    let rules = prop::option::weighted(0.3, prop::collection::vec(any::<bool>(), 1..4));
    let settled = prop::sample::select(vec![
        SettledPolicy::Complete,
        SettledPolicy::Ask,
        SettledPolicy::Continue,
    ]);
    let checks = (
        unrest,
        rules,
        settled,
        prop::option::of(0u32..3),
        any::<bool>(),
    );
    (hooks, answers, limits, policies, checks).prop_map(
        |(hooks, answers, limits, policies, checks)| {
            let mut script = Script::new().attended(&[]).agent(answers).builtins();
            let answers = [
                prints(r#"[{"type":"create_task","payload":{"goal":"more"}}]"#),
                breaks(),
                passes(),
            ];
            script = script.automation("automation", 15, &[TaskEventKind::TaskCompleted], answers);
            for (n, (point, piped, on_failure, runs)) in hooks.into_iter().enumerate() {
                let has_base = point == HookPoint::Stop && !piped;
                if has_base {
                    let again = runs.iter().rev().cloned().collect();
                    script.hooks.insert(format!("hook {n} base"), again);
                    script.tests = Some(TestComparison::default());
                }
                script = script.hook_with(point, &format!("hook {n}"), runs, |spec| {
                    spec.tests = has_base.then_some(TestSource::Base);
                    spec.pipe_output = if piped {
                        PipeOutput::Always
                    } else {
                        PipeOutput::Never
                    };
                    spec.on_failure = on_failure;
                });
            }
            (script.unrest, script.works) = (checks.0, checks.3);
            if let Some(passes) = checks.1 {
                script = script.rule("rule", &passes);
            }
            script.plan(|plan| {
                plan.stop.settled = checks.2;
                plan.submit.on_complete = checks.4;
                plan.stop.open_tasks = OpenTasksPolicy::Continue;
                (
                    plan.max_iterations,
                    plan.max_hook_retries,
                    plan.max_consecutive_errors,
                ) = limits;
                plan.on_limit = policies.0;
                plan.gates.final_delivery = policies.1;
                plan.gates.delivery = policies.2;
                plan.context = if policies.3 {
                    ContextPolicy::Keep
                } else {
                    ContextPolicy::Fresh
                };
                plan.backoff = policies.4.then_some(BackoffPolicy {
                    base: TimeSpan::secs(1),
                    factor: 2.0,
                    max: TimeSpan::secs(4),
                    jitter: 0.5,
                });
                plan.gates.timeout = TimeSpan(policies.5);
                plan.gates.permissions = policies.6;
                plan.budget.tokens = policies.7;
                plan.proposal = policies.8;
                plan.access.permissions = vec![PermissionRule {
                    kinds: vec![ToolKind::Edit],
                    paths: vec!["secret".into()],
                    action: PermissionPolicy::Deny,
                }];
            })
        },
    )
}

fn a_command() -> impl Strategy<Value = SessionCommand> {
    let item = (1u64..6).prop_map(ItemId);
    prop_oneof![
        Just(SessionCommand::Pause),
        Just(SessionCommand::Unpause),
        Just(SessionCommand::CancelTurn),
        Just(SessionCommand::Message {
            text: "Be careful.".into()
        }),
        item.clone()
            .prop_map(|item| SessionCommand::SkipItem { item }),
        item.clone()
            .prop_map(|item| SessionCommand::RestoreItem { item }),
        item.prop_map(|item| SessionCommand::EditItem {
            item,
            text: format!("edited {item}")
        }),
        (0..6).prop_map(|n| SessionCommand::DisableHook {
            point: None,
            hook: format!("hook {n}")
        }),
        a_hook_by_hand(),
        (0..6).prop_map(|n| SessionCommand::EnableHook {
            point: None,
            hook: format!("hook {n}")
        }),
        (0..4).prop_map(|n| completes(&format!("T{n}"), "text")),
        (0..4u8).prop_map(|n| SessionCommand::Task {
            task: TaskCommand::Add(a_task(n))
        }),
        prop::sample::select(vec![
            SessionCommand::Stop {
                how: StopTiming::AfterIteration
            },
            SessionCommand::Stop {
                how: StopTiming::Now
            }
        ]),
    ]
}

/// At any point, named or not, and also hooks that cannot be run by hand.
fn a_hook_by_hand() -> impl Strategy<Value = SessionCommand> {
    let elsewhere = prop::sample::select(vec![HookPoint::Automation, HookPoint::StopDecision]);
    let at = prop::option::of(prop_oneof![a_point(), elsewhere]);
    let named = (0..6).prop_map(|n| format!("hook {n}"));
    let others = prop::sample::select(vec!["automation", "auto-create-review-task", "default"])
        .prop_map(String::from);
    (at, prop_oneof![3 => named, 1 => others])
        .prop_map(|(at, hook)| SessionCommand::RunHook { point: at, hook })
}

/// Each task waits for the one before, if there is one.
fn a_task(n: u8) -> NewTask {
    let before = n.checked_sub(1).map(|n| format!("T{n}"));
    NewTask {
        id: Some(format!("T{n}")),
        goal: "text".into(),
        labels: vec!["agent".into()],
        dependencies: before.into_iter().collect(),
        ..NewTask::default()
    }
}

pub(crate) fn what_happens() -> impl Strategy<Value = Vec<Happens>> {
    let one = prop_oneof![
        6 => (0usize..2).prop_map(Happens::HookEnds),
        5 => Just(Happens::TurnEnds),
        2 => (0u64..3_000).prop_map(Happens::TimePasses),
        2 => (0usize..5).prop_map(Happens::Gate),
        2 => a_command().prop_map(Happens::Asks),
        1 => Just(Happens::Dies),
    ];
    prop::collection::vec(one, 0..60)
}

pub(crate) fn happen(mut world: World, what: Happens) -> World {
    match what {
        Happens::HookEnds(n) if !world.jobs.is_empty() => world.finish_hook(n % world.jobs.len()),
        Happens::TurnEnds => world.finish_turn(),
        Happens::TimePasses(ms) => {
            world.now = world.now.after(TimeSpan(ms));
            world.settle();
        }
        Happens::Gate(n) => answer(&mut world, n),
        Happens::Asks(command) => world.command(command),
        // creel is killed, or the session has ended: either way the user resumes it.
        Happens::Dies if world.state.refuse_resume(None).is_none() => {
            let now = world.now;
            let mut next = World::from_events(world.script, &world.events);
            next.now = now;
            let answer = answer_at_once(&next);
            next.input(Input::Resume {
                presence: next.script.presence,
                max_iterations: None,
                checkpoint: None,
                answer,
            });
            return next;
        }
        Happens::HookEnds(_) | Happens::Dies => {}
    }
    world
}

/// An answer to the gate at which the session ended, or none.
fn answer_at_once(world: &World) -> Option<ResumeAnswer> {
    world.state.phase.outcome()?;
    let asked = world.state.ending.as_ref()?.asked.as_ref()?;
    let choice = *asked
        .gate
        .choices
        .get(world.events.len() % (asked.gate.choices.len() + 1))?;
    let text =
        matches!(choice, GateChoice::Send | GateChoice::Message).then(|| "Another way.".to_owned());
    Some(ResumeAnswer { choice, text })
}

fn answer(world: &mut World, n: usize) {
    let Some(gate) = world.state.gates.open.clone() else {
        return;
    };
    let choice = gate.choices[n % gate.choices.len()];
    let text = match choice {
        GateChoice::Send => Some("Another way."),
        GateChoice::Edit => Some(
            [
                r#"{"tasks": [{"id": "c", "goal": "Less."}]}"#,
                r#"{"tasks": []}"#,
            ][n % 2],
        ),
        _ => None,
    };
    let text = text.map(str::to_owned);
    // Every second approval covers only a part.
    let items = (n % 2 == 1 && choice == GateChoice::Approve)
        .then(|| gate.subject.items().iter().copied().take(1).collect());
    world.command(SessionCommand::AnswerGate(GateAnswer {
        gate: gate.id,
        choice,
        text,
        items,
    }));
}

/// Runs the session to its end, where the user grants nothing more.
pub(crate) fn run_out(mut world: World) -> World {
    world.settle();
    for _ in 0..5_000 {
        if world.left.is_some() {
            break;
        }
        if world.state.steering.paused {
            world.command(SessionCommand::Unpause);
        } else if !world.jobs.is_empty() {
            world.finish_hook(0);
        } else if !world.checks.is_empty() {
            world.finish_check(0);
        } else if world.turn.is_some() {
            world.finish_turn();
        } else if let Some(at) = world.state.next_wake() {
            world.now = world.now.max(at);
            world.settle();
        } else if let Some(gate) = world.state.gates.open.clone() {
            let last = *gate.choices.last().expect("a gate has choices");
            world.command(SessionCommand::AnswerGate(GateAnswer {
                gate: gate.id,
                choice: last,
                text: None,
                items: None,
            }));
        } else {
            let last = &world.events[world.events.len().saturating_sub(15)..];
            panic!(
                "nothing is to be done, and the session has not ended: {:#?}\n{last:#?}",
                world.state
            );
        }
    }
    world
}

/// The prompts whose turns ended successfully.
fn answered(events: &[Event]) -> Vec<&creel::engine::event::PromptSent> {
    let ended = |turn| {
        events.iter().any(|event| matches!(event, Event::Turn(TurnEvent::Ended { turn: t, stop_reason, .. }) if *t == turn && !matches!(stop_reason, StopReason::Cancelled | StopReason::Refusal)))
    };
    let sent = events.iter().filter_map(|event| {
        if let Event::Turn(TurnEvent::PromptSent(prompt)) = event {
            Some(&**prompt)
        } else {
            None
        }
    });
    sent.filter(|prompt| ended(prompt.turn)).collect()
}

fn holds(world: &World) {
    the_session_ends(world);
    no_text_is_lost_and_none_is_delivered_twice(world);
    the_counter_never_passes_the_limit_without_a_person(world);
    every_effect_is_answered_or_cut(world);
    complete_means_verified(world);
    nothing_unverified_is_published(world);
    only_work_settles(world);
    forced_is_shown_as_forced(world);
    no_answer_to_a_message_is_complete_without_a_judgement(world);
    nothing_held_is_sent_while_a_hook_runs_beside(world);
    every_request_of_the_agent_is_answered_once(world);
    no_prompt_is_sent_past_the_budget(world);
    hooks_of_gates_open_no_gate(world);
    only_the_user_approves_tasks(world);
}

/// Whatever its reason, and wherever creel was killed.
fn no_prompt_is_sent_past_the_budget(world: &World) {
    let mut so_far = World::begin(world.script.clone()).state;
    for (n, event) in world.events.iter().enumerate().skip(1) {
        if let Event::Turn(TurnEvent::PromptSent(prompt)) = event {
            assert_eq!(
                so_far.budget().used_up(),
                None,
                "record {n} is a prompt for {:?}",
                prompt.reason
            );
        }
        so_far.apply(UnixTime(0), event);
    }
}

/// However often they break, and whatever their `on_failure` says.
fn hooks_of_gates_open_no_gate(world: &World) {
    for event in &world.events {
        if let Event::Gate(GateEvent::Opened { reason, .. }) = event {
            assert!(!reason.contains("at on_gate"), "{reason}");
        }
    }
}

/// By the user, a rule, or the end of its turn.
fn every_request_of_the_agent_is_answered_once(world: &World) {
    for event in &world.events {
        let Event::Turn(TurnEvent::PermissionAsked { ask, .. }) = event else {
            continue;
        };
        let answers = world
            .permitted
            .iter()
            .filter(|(answered, _)| *answered == ask.ask)
            .count();
        assert!(
            answers <= 1,
            "request {} was answered {answers} times",
            ask.ask
        );
    }
    let opened = world.events.iter().filter_map(|event| match event {
        Event::Gate(GateEvent::Opened {
            gate,
            about: GateKind::Permission,
            ..
        }) => Some(*gate),
        _ => None,
    });
    for gate in opened {
        let answered = world.events.iter().any(
            |e| matches!(e, Event::Gate(GateEvent::Answered { gate: one, .. }) if *one == gate),
        );
        let stopped = world.events.iter().any(|e| {
            matches!(
                e,
                Event::Steering(SteeringEvent::StopRequested {
                    how: StopTiming::Now,
                    ..
                })
            )
        });
        assert!(answered || stopped, "gate {gate} was never answered");
    }
    assert!(world.state.requests.waiting.is_empty());
}

fn the_session_ends(world: &World) {
    assert!(
        world.state.phase.outcome().is_some(),
        "still {:?}",
        world.state.phase
    );
    let ends = world
        .events
        .iter()
        .filter(|event| matches!(event, Event::Session(SessionEvent::Ended { .. })))
        .count();
    let resumed = world
        .events
        .iter()
        .filter(|event| matches!(event, Event::Session(SessionEvent::Resumed { .. })))
        .count();
    assert!((1..=1 + resumed).contains(&ends));
}

fn no_text_is_lost_and_none_is_delivered_twice(world: &World) {
    let mut deliveries: BTreeMap<ItemId, usize> = BTreeMap::new();
    for prompt in answered(&world.events) {
        for item in &prompt.items {
            *deliveries.entry(*item).or_default() += 1;
        }
    }
    let piped_to_pending = world.events.iter().filter(|event| {
        matches!(event, Event::Hook(HookEvent::Finished(done)) if done.piped && done.point.rules().piped_to == creel::engine::hooks::point::PipeTarget::Pending)
    });
    // Output for a prompt becomes an item if a hook kept that prompt back.
    let is_kept = |point| matches!(point, HookPoint::Stop | HookPoint::PreIteration);
    let items = world.state.pending.items().iter();
    let kept = items.filter(|item| is_kept(item.source.point)).count();
    assert_eq!(
        piped_to_pending.count() + kept,
        world.state.pending.items().len(),
        "caught and held differ"
    );
    for item in world.state.pending.items() {
        let times = deliveries.get(&item.id).copied().unwrap_or(0);
        let expected = usize::from(item.state == ItemState::Delivered);
        assert_eq!(times, expected, "item {} is {:?}", item.id, item.state);
        assert_ne!(item.state, ItemState::InFlight);
    }
    let reported: Vec<ItemId> = world
        .events
        .iter()
        .filter_map(|e| {
            if let Event::Pending(PendingEvent::Delivered { items }) = e {
                Some(items.clone())
            } else {
                None
            }
        })
        .flatten()
        .collect();
    assert_eq!(
        reported.len(),
        deliveries.len(),
        "each delivery is reported once"
    );
    let went_well = matches!(
        world.state.phase.outcome(),
        Some(SessionOutcome::Complete | SessionOutcome::Limit)
    );
    if went_well && !somebody_meddled_with_the_end(&world.events) {
        assert_eq!(
            world.state.pending.waiting().count(),
            0,
            "held output at the end of a session that went well"
        );
    }
}

/// Pending output can stay if the user cancelled the final turn, if something new was added after
/// it, or if the limit of deliveries or the budget was reached.
fn somebody_meddled_with_the_end(events: &[Event]) -> bool {
    let held_by_the_budget = |event: &Event| {
        matches!(
            event,
            Event::Gate(GateEvent::Answered {
                choice: GateChoice::Stop,
                ..
            })
        )
    };
    // What a hook of a tool call pipes in the last of three final deliveries is kept, and not sent.
    let is_final = |event: &&Event| matches!(event, Event::Turn(TurnEvent::PromptSent(sent)) if sent.reason == PromptReason::FinalDelivery);
    if events.iter().any(held_by_the_budget) || events.iter().filter(is_final).count() >= 3 {
        return true;
    }
    let after = events
        .iter()
        .skip_while(|event| !matches!(event, Event::Session(SessionEvent::LoopEnded { .. })));
    after.into_iter().any(|event| {
        matches!(
            event,
            Event::Pending(PendingEvent::Restored { .. })
                | Event::Task(TaskEvent::Completed(_))
                | Event::Turn(TurnEvent::Ended {
                    stop_reason: StopReason::Cancelled,
                    ..
                })
        )
    })
}

fn the_counter_never_passes_the_limit_without_a_person(world: &World) {
    let granted = world.events.iter().any(|event| {
        matches!(event, Event::Gate(GateEvent::Answered { choice: GateChoice::Continue, by, .. }) if !matches!(by.by, ActorKind::Policy | ActorKind::Timeout))
    });
    for event in &world.events {
        if let Event::Retry(RetryEvent::Counted { used, limit, .. }) = event {
            assert!(used <= limit);
            assert!(granted || *limit == world.state.plan().max_hook_retries);
        }
    }
}

fn every_effect_is_answered_or_cut(world: &World) {
    for event in &world.events {
        match event {
            Event::Hook(HookEvent::Started { run, .. }) => {
                let ends = world.events.iter().filter(
                    |e| matches!(e, Event::Hook(HookEvent::Finished(done)) if done.run == *run),
                );
                assert_eq!(ends.count(), 1, "run {run}");
            }
            Event::Turn(TurnEvent::PromptSent(prompt)) => {
                let ended = world.events.iter().any(|e| {
                    matches!(e, Event::Turn(TurnEvent::Ended { turn, .. } | TurnEvent::Failed { turn, .. }) if *turn == prompt.turn)
                });
                let name = format!("turn {}", prompt.turn);
                let cut = world
                    .events
                    .iter()
                    .any(|e| matches!(e, Event::Session(SessionEvent::Resumed { cut, .. }) if cut.contains(&name)));
                assert!(ended != cut, "{name}: ended {ended}, cut {cut}");
            }
            _ => {}
        }
    }
}

fn no_answer_to_a_message_is_complete_without_a_judgement(world: &World) {
    if world.state.phase.outcome() != Some(SessionOutcome::Complete) {
        return;
    }
    let is_message = |event: &Event| matches!(event, Event::Turn(TurnEvent::PromptSent(prompt)) if prompt.reason == PromptReason::Message);
    let Some(last) = world.events.iter().rposition(is_message) else {
        return;
    };
    // The loop is over when a submit begins. There, the checks judge what the agent repaired.
    let is_pipeline = |event: &&Event| {
        matches!(
            event,
            Event::Pipeline(PipelineEvent::Started { .. } | PipelineEvent::Ended { .. })
        )
    };
    let before = world.events[..last].iter().rfind(is_pipeline);
    if matches!(before, Some(Event::Pipeline(PipelineEvent::Started { .. }))) {
        return;
    }
    let judged = world.events[last..].iter().any(|event| match event {
        Event::Stop(StopEvent::Decided(decided)) => decided.of.is_none(),
        Event::Gate(GateEvent::Answered {
            choice: GateChoice::Complete,
            ..
        }) => true,
        // What the user decides about tasks is a judgement, too.
        Event::Gate(GateEvent::Answered { gate, .. }) => is_about_tasks(world, *gate),
        _ => false,
    });
    assert!(judged, "{}", world.story());
}

fn is_about_tasks(world: &World, id: GateId) -> bool {
    let opened = |event: &Event| matches!(event, Event::Gate(GateEvent::Opened { gate, about: GateKind::Proposal, .. }) if *gate == id);
    world.events.iter().any(opened)
}

/// And it approves what the gate showed at that moment, wherever creel was killed.
fn only_the_user_approves_tasks(world: &World) {
    let mut so_far = World::begin(world.script.clone()).state;
    let mut shown = None;
    for event in world.events.iter().skip(1) {
        let was_approved = so_far.proposal.is_approved;
        let tasks = so_far
            .gates
            .open
            .as_ref()
            .and_then(|gate| gate.subject.proposal().cloned());
        so_far.apply(UnixTime(0), event);
        if so_far.proposal.is_approved && !was_approved {
            assert!(
                matches!(event, Event::Gate(GateEvent::Answered { choice: GateChoice::Approve, by, .. }) if by.by == ActorKind::Tui)
            );
            shown = tasks;
        }
    }
    if world.state.proposal.is_approved {
        assert_eq!(
            world
                .state
                .proposal
                .of_answer(&world.state.turns.agent_text)
                .ok(),
            shown,
            "{}",
            world.story()
        );
    }
}

/// The checks that have a passing run since the work last changed.
#[derive(Debug, Default)]
struct GreenChecks {
    changed: usize,
    /// What you run by hand has no effect on the session.
    by_hand: BTreeSet<creel::engine::ids::RunId>,
    /// Rules and stop hooks, by name.
    runs: BTreeMap<(bool, String), usize>,
}

impl GreenChecks {
    fn see(&mut self, at: usize, event: &Event) {
        match event {
            Event::Turn(TurnEvent::Ended {
                work: Some(work), ..
            }) if work.files_modified.is_empty() => {}
            Event::Verify(VerifyEvent::WorkChanged { .. })
            | Event::Turn(TurnEvent::Ended { .. } | TurnEvent::Failed { .. })
            | Event::Session(SessionEvent::Resumed { .. }) => self.changed = at,
            Event::Hook(HookEvent::Started {
                run, beside: true, ..
            }) => {
                self.by_hand.insert(*run);
            }
            Event::Hook(HookEvent::Finished(done))
                if done.point == HookPoint::Stop && !self.by_hand.contains(&done.run) =>
            {
                let passes = done.end == RunEnd::Exit(0) && done.verdict == Verdict::Pass;
                self.ran((false, done.hook.clone()), passes, at);
            }
            Event::Stop(StopEvent::RuleChecked { rule, passed, .. }) => {
                self.ran((true, rule.clone()), *passed, at);
            }
            _ => {}
        }
    }

    fn ran(&mut self, check: (bool, String), passes: bool, at: usize) {
        if passes {
            self.runs.insert(check, at);
        } else {
            self.runs.remove(&check);
        }
    }

    #[track_caller]
    fn are_all(&self, world: &World) {
        let plan = world.state.plan();
        let hooks = plan
            .hooks_at(HookPoint::Stop)
            .iter()
            .filter(|spec| spec.enabled && !spec.is_advisory());
        let rules = plan.stop.rules.iter().map(|rule| (true, rule.name.clone()));
        for check in hooks.map(|spec| (false, spec.name.clone())).chain(rules) {
            assert!(
                self.runs.get(&check).is_some_and(|run| *run > self.changed),
                "{check:?}: {}",
                world.story()
            );
        }
    }
}

/// Complete means verified: every check that counts has a passing run since the work last changed.
fn complete_means_verified(world: &World) {
    let mut green = GreenChecks::default();
    for (at, event) in world.events.iter().enumerate() {
        green.see(at, event);
        if let Event::Session(SessionEvent::Ended {
            outcome: SessionOutcome::Complete,
            checks,
            ..
        }) = event
        {
            green.are_all(world);
            assert!(
                checks
                    .iter()
                    .all(|check| check.result == CheckRunResult::Passed),
                "{checks:?}"
            );
        }
    }
}

/// A hook that can push runs only on verified work, unless a person decided otherwise.
fn nothing_unverified_is_published(world: &World) {
    let mut green = GreenChecks::default();
    let mut decided = false;
    for (at, event) in world.events.iter().enumerate() {
        green.see(at, event);
        match event {
            Event::Gate(GateEvent::Answered {
                choice:
                    GateChoice::Skip | GateChoice::Ignore | GateChoice::Complete | GateChoice::Disable,
                ..
            })
            | Event::Hook(HookEvent::Disabled { .. }) => decided = true,
            Event::Hook(HookEvent::Started {
                point: HookPoint::BeforeSubmit,
                hook,
                beside: false,
                ..
            }) if !decided
                && world
                    .state
                    .plan()
                    .hook(HookPoint::BeforeSubmit, hook)
                    .is_some_and(creel::engine::policy::HookSpec::can_publish) =>
            {
                green.are_all(world);
            }
            _ => {}
        }
    }
}

/// A session in which nothing was done is not complete because nothing happens any more.
fn only_work_settles(world: &World) {
    let mut worked = false;
    for event in &world.events {
        match event {
            Event::Turn(TurnEvent::Ended { work, .. }) => {
                worked |= work
                    .as_ref()
                    .is_none_or(|work| !work.files_modified.is_empty());
            }
            // Its changes are unknown.
            Event::Turn(TurnEvent::Failed { .. })
            | Event::Session(SessionEvent::Resumed { .. })
            | Event::Task(_) => {
                worked = true;
            }
            Event::Stop(StopEvent::Decided(decided)) if decided.hook == "settled" => {
                assert!(
                    worked || decided.action != creel::engine::stop::decision::StopAction::Complete,
                    "{}",
                    world.story()
                );
            }
            _ => {}
        }
    }
}

fn forced_is_shown_as_forced(world: &World) {
    let accepted = world
        .state
        .verify
        .checks
        .iter()
        .any(|run| run.accepted.is_some());
    if world.state.phase.outcome() == Some(SessionOutcome::Forced) {
        assert!(accepted, "{}", world.story());
    }
}

fn nothing_held_is_sent_while_a_hook_runs_beside(world: &World) {
    let (mut beside, mut about_gates) = (Vec::new(), Vec::new());
    for event in &world.events {
        match event {
            Event::Hook(HookEvent::Started {
                run,
                point: HookPoint::OnGate,
                ..
            }) => about_gates.push(*run),
            Event::Hook(HookEvent::Started {
                run, beside: true, ..
            }) => beside.push(*run),
            Event::Hook(HookEvent::Finished(done)) => {
                beside.retain(|run| *run != done.run);
                about_gates.retain(|run| *run != done.run);
            }
            Event::Turn(TurnEvent::PromptSent(prompt)) if !prompt.items.is_empty() => {
                assert_eq!(beside, []);
            }
            Event::Session(SessionEvent::Ended { .. }) => {
                assert_eq!((&beside[..], &about_gates[..]), (&[][..], &[][..]));
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(random_cases(1_500))]

    #[test]
    fn every_session_keeps_its_invariants(script in a_script(), happenings in what_happens()) {
        let mut world = World::begin(script);
        world.settle();
        for what in happenings {
            world = happen(world, what);
        }
        holds(&run_out(world));
    }
}

/// An unattended session in which everything works against its end.
fn a_session_without_a_person() -> impl Strategy<Value = Script> {
    let every_point = prop::sample::select(HookPoint::ALL.to_vec());
    let hook = (
        every_point,
        any::<bool>(),
        prop::collection::vec(a_run(), 1..4),
    );
    let hooks = prop::collection::vec(hook, 1..8);
    let budget = prop::option::of(prop::sample::select(vec![50, 250]));
    let rest = (
        1u32..4,
        0u32..3,
        budget,
        any::<bool>(),
        prop::option::of(Just(FinalDeliveryPolicy::Auto)),
    );
    // The work changes at every so many looks, and a rule that fails now and then sends the agent
    // back.
    let work = (
        0usize..4,
        prop::collection::vec(any::<bool>(), 0..4),
        any::<bool>(),
        prop::option::of(0u32..3),
    );
    (hooks, prop::collection::vec(an_answer(), 1..6), rest, work).prop_map(|(hooks, answers, rest, work)| {
        let mut script = Script::new().agent(answers).builtins();
        (script.unrest, script.works) = (work.0, work.3);
        if !work.1.is_empty() {
            script = script.rule("rule", &work.1);
        }
        let follow_up = r#"[{"type":"create_task","payload":{"id":"next","goal":"more"}},{"type":"update_task","payload":{"taskId":"next","action":"complete"}}]"#;
        script = script.automation("chain", 15, &TaskEventKind::ALL, [prints(follow_up)]);
        // If each task led to two others, there would be 2^8 of them before the chain is cut: that
        // ends, but takes too long.
        let mut chains = 0;
        for (n, (point, piped, mut runs)) in hooks.into_iter().enumerate() {
            if point == HookPoint::OnTaskComplete {
                for run in &mut runs {
                    let most = usize::from(chains == 0);
                    run.deeds = &run.deeds[..run.deeds.len().min(most)];
                }
                chains += 1;
            }
            script = script.hook_with(point, &format!("hook {n}"), runs, |spec| {
                spec.pipe_output = if piped { PipeOutput::Always } else { PipeOutput::Never };
                // Otherwise a hook that fails leaves a request to the user.
                spec.on_failure = (point == HookPoint::PreTool).then_some(HookFailurePolicy::Ignore);
            });
        }
        script.plan(|plan| {
            (plan.max_iterations, plan.max_hook_retries, plan.budget.tokens) = (rest.0, rest.1, rest.2);
            plan.submit.on_complete = rest.3;
            plan.gates.final_delivery = rest.4;
            plan.gates.permissions = PermissionPolicy::Allow;
            if work.2 {
                plan.on_limit = RetryLimitPolicy::Escalate;
            }
        })
    })
}

/// A session that submits its work by itself. The agent is asked to repair what blocks the submit,
/// and may break the work.
fn a_session_that_submits() -> impl Strategy<Value = Script> {
    let missing = Ran {
        end: RunEnd::SpawnFailed("it is not there".into()),
        ..passes()
    };
    let checks = prop::collection::vec(prop_oneof![4 => a_run(), 1 => Just(missing)], 1..5);
    let steps = prop::collection::vec(
        prop::collection::vec(
            prop::sample::select(vec![blocks("not yet"), passes()]),
            1..4,
        ),
        1..3,
    );
    let rest = (0usize..4, prop::option::of(0u32..4), 0u32..3, any::<bool>());
    (checks, steps, rest).prop_map(|(checks, steps, (unrest, works, attempts, ignores))| {
        let mut script = Script::new().agent([DONE]).submits();
        (script.unrest, script.works) = (unrest, works);
        script = script.hook_with(HookPoint::Stop, "tests", checks, |spec| {
            spec.on_failure = ignores.then_some(HookFailurePolicy::Block);
        });
        for (n, runs) in steps.into_iter().enumerate() {
            script = script.piped(HookPoint::BeforeSubmit, &format!("step {n}"), runs);
        }
        script.plan(|plan| plan.submit.remediation_attempts = attempts)
    })
}

/// The most prompts that the rules allow without a user: per iteration the prompt, the retries and
/// a recovery; then the repairs of a submit and the final deliveries, each after as many failed
/// turns as allowed, with a recovery each. A message of the agent or a hook, which counts as an
/// iteration, continues a loop that had ended as complete.
fn most_prompts(script: &Script) -> usize {
    let plan = &script.plan;
    let failed = 2 * plan.max_consecutive_errors;
    let in_the_loop = plan.max_hook_retries + 2 + failed;
    let after_the_loop = plan.submit.remediation_attempts * 2 + 4 * (1 + failed);
    (plan.max_iterations * (in_the_loop + after_the_loop)) as usize
}

proptest! {
    #![proptest_config(random_cases(1_500))]

    #[test]
    fn every_session_ends_whatever_its_hooks_and_its_agent_do(script in a_session_without_a_person()) {
        let most = most_prompts(&script);
        let world = World::begin(script).run();
        the_session_ends(&world);
        no_prompt_is_sent_past_the_budget(&world);
        every_effect_is_answered_or_cut(&world);
        let prompts = world.events.iter().filter(|event| matches!(event, Event::Turn(TurnEvent::PromptSent(_)))).count();
        prop_assert!(prompts <= most, "{} prompts, at most {}:\n{}", prompts, most, world.story());
        ends_again_when_resumed(&world, most);
    }
}

proptest! {
    #![proptest_config(random_cases(1_500))]

    #[test]
    fn every_session_that_submits_has_verified_its_work(script in a_session_that_submits()) {
        let world = World::begin(script).run();
        the_session_ends(&world);
        complete_means_verified(&world);
        nothing_unverified_is_published(&world);
    }
}

/// Without a person, a session that ended at a gate asks the same again, and sends no prompt
/// before. If the gate is answered, the session works on, and ends.
fn ends_again_when_resumed(world: &World, most: usize) {
    let prompts = |world: &World| {
        world
            .events
            .iter()
            .filter(|event| matches!(event, Event::Turn(TurnEvent::PromptSent(_))))
            .count()
    };
    let Some(asked) = world
        .state
        .ending
        .as_ref()
        .and_then(|ending| ending.asked.clone())
    else {
        return;
    };
    assert_eq!(asked.phase.turn_in_flight(), None);
    assert!(
        asked
            .phase
            .dispatch()
            .is_none_or(|dispatch| dispatch.running.is_none()),
        "{:?}",
        asked.phase
    );
    let sent = prompts(world);
    let resumed = || World::from_events(world.script.clone(), &world.events);
    let again = resumed().resume();
    the_session_ends(&again);
    if !asked.gate.subject.is_broken_check() {
        assert_eq!(prompts(&again), sent, "{}", again.story());
        let opened = again
            .state
            .ending
            .as_ref()
            .and_then(|ending| ending.asked.clone())
            .expect("it asks again");
        assert_eq!(
            (opened.gate.subject, opened.gate.reason),
            (asked.gate.subject, asked.gate.reason)
        );
        assert_eq!(
            (opened.phase, opened.in_iteration),
            (asked.phase, asked.in_iteration)
        );
    }
    for choice in asked
        .gate
        .choices
        .iter()
        .filter(|choice| !matches!(choice, GateChoice::Send | GateChoice::Message))
    {
        let answered = resumed().resume_answering(*choice);
        the_session_ends(&answered);
        complete_means_verified(&answered);
        assert!(prompts(&answered) <= sent + most, "{}", answered.story());
    }
}

/// The result of a session, however often it was killed: turns and runs without their numbers.
fn end_state(world: &World) -> (Option<SessionOutcome>, u32, Vec<String>, Vec<String>) {
    let prompts = answered(&world.events)
        .iter()
        .map(|p| format!("{:?} {:?} {}", p.reason, p.items, p.text))
        .collect();
    // After a kill the work may have changed, so the checks run once more at the end.
    let mut verifies = false;
    let runs = world.events.iter().filter_map(|event| match event {
        Event::Verify(verify) => {
            verifies = matches!(verify, VerifyEvent::Started { .. });
            None
        }
        Event::Hook(HookEvent::Finished(_)) if verifies => None,
        Event::Hook(HookEvent::Finished(done)) if done.end != RunEnd::Cut => {
            Some(format!("{} {} {:?}", done.point, done.hook, done.end))
        }
        Event::Retry(RetryEvent::Counted { used, limit, .. }) => {
            Some(format!("retry {used}/{limit}"))
        }
        Event::Session(SessionEvent::IterationCompleted { iteration, outcome }) => {
            Some(format!("{iteration} {outcome:?}"))
        }
        Event::Pending(PendingEvent::Added { item, text, .. }) => Some(format!("{item} {text}")),
        Event::Pending(PendingEvent::Delivered { items }) => Some(format!("{items:?}")),
        _ => None,
    });
    (
        world.state.phase.outcome(),
        world.state.iterations.current,
        prompts,
        runs.collect(),
    )
}

fn stories() -> Vec<Script> {
    let works = Answer::Says("Working.");
    vec![
        Script::new()
            .piped(HookPoint::SessionStart, "build", [prints("built")])
            .hook(
                HookPoint::Stop,
                "tests",
                [blocks("3 failing"), blocks("1 failing"), passes()],
            )
            .piped(HookPoint::PostIteration, "lint", [prints("lint")])
            .hook(HookPoint::SessionEnd, "notify", [passes()])
            .agent([works.clone(), works.clone(), DONE]),
        Script::new()
            .hook(HookPoint::Stop, "never", [blocks("no")])
            .piped(HookPoint::PostIteration, "test", [exits(1, "red", "")])
            .plan(|plan| (plan.max_hook_retries, plan.max_iterations) = (2, 2)),
        Script::new()
            .piped(HookPoint::PostIteration, "test", [prints("red")])
            .piped(HookPoint::OnError, "diff", [prints("diff")])
            .agent([
                works.clone(),
                Answer::Fails("reset"),
                works.clone(),
                Answer::Fails("reset"),
                works,
                DONE,
            ])
            .plan(|plan| {
                plan.backoff = Some(BackoffPolicy {
                    base: TimeSpan::secs(1),
                    factor: 2.0,
                    max: TimeSpan::secs(9),
                    jitter: 0.1,
                });
            }),
        Script::new()
            .agent([Answer::Fails("down")])
            .hook(HookPoint::OnError, "note", [passes()]),
    ]
}

#[test]
fn a_session_killed_at_any_record_and_resumed_reaches_the_same_end() {
    for script in stories() {
        let uncut = World::begin(script.clone()).run();
        for kept in 1..uncut.events.len() {
            let resumed = World::from_events(script.clone(), &uncut.events[..kept]).resume();
            assert_eq!(
                end_state(&resumed),
                end_state(&uncut),
                "killed after {kept}: {:?}",
                uncut.events[kept - 1]
            );
        }
    }
}

#[test]
fn a_session_that_is_killed_again_and_again_still_ends() {
    for script in stories() {
        let uncut = World::begin(script.clone()).run();
        // Each run is killed after eight records: what was cut is repeated, and a little more is
        // done.
        let mut events = uncut.events[..1].to_vec();
        for _ in 0..uncut.events.len() * 4 {
            let mut world = World::from_events(script.clone(), &events);
            if world.state.phase.outcome().is_some() {
                break;
            }
            world = world.resume();
            let keep = (events.len() + 8).min(world.events.len());
            events = world.events[..keep].to_vec();
        }
        let last = World::from_events(script.clone(), &events);
        assert_eq!(last.state.phase.outcome(), uncut.state.phase.outcome());
    }
}
