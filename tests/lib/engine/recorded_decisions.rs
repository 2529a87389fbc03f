//! Decisions are read back from the journal. They do not change when a rule changes.

use creel::engine::{
    SessionState,
    event::{ActorKind, Event, SessionEvent},
    gate::kind::{GateChoice, GateKind},
    hooks::point::HookPoint,
    input::{Input, SessionCommand},
    policy::{HookFailurePolicy, SessionPlan},
    tasks::{
        command::{NewTask, TaskCommand},
        record::TaskEventKind,
    },
    time::UnixTime,
};

use crate::support::world::*;

/// Every rule that decides something when a record is made, changed.
fn change_rules(plan: &mut SessionPlan) {
    plan.max_hook_retries += 7;
    plan.max_iterations = 1;
    plan.budget.tokens = plan.budget.tokens.map(|tokens| tokens * 9);
    for hook in plan.hooks.values_mut().flatten() {
        hook.on_failure = match hook.on_failure {
            None => Some(HookFailurePolicy::Escalate),
            Some(
                HookFailurePolicy::Escalate | HookFailurePolicy::Block | HookFailurePolicy::Ignore,
            ) => None,
        };
        hook.retry.retries = hook.retry.retries.map(|retries| retries + 3);
    }
    for hook in plan
        .hooks
        .get_mut(&HookPoint::OnTaskComplete)
        .into_iter()
        .flatten()
    {
        hook.enabled = !hook.enabled;
    }
    for hook in &mut plan.automation {
        hook.events.clear();
    }
}

fn folded(events: &[Event], change: impl FnOnce(&mut SessionPlan)) -> SessionState {
    let Some(Event::Session(SessionEvent::Started(began))) = events.first() else {
        panic!("a journal starts so")
    };
    let mut began = (**began).clone();
    change(&mut began.plan);
    let mut state = SessionState::new("story", began, UnixTime(0));
    events[1..]
        .iter()
        .for_each(|event| state.apply(UnixTime(0), event));
    state
}

/// Folds every prefix of the journal with the rules of its time and with others.
fn assert_reads_the_same(world: &World) {
    for length in 1..=world.events.len() {
        let events = &world.events[..length];
        let before = folded(events, |_| {});
        let mut after = folded(events, change_rules);
        after.began = before.began.clone();
        assert_eq!(after, before, "after {:?}", events.last());
    }
}

/// The same journal as an earlier version wrote it, without the decisions.
fn without_decisions(events: &[Event]) -> Vec<Event> {
    let forget = |event: &Event| {
        let mut record = serde_json::to_value(event).expect("an event is JSON");
        let fields = record.as_object_mut().expect("an event is an object");
        let kind = fields["kind"].as_str().expect("a kind").to_owned();
        let common = [
            "next", "judged", "grants", "decision", "due", "feedback", "streaks",
        ];
        let text = (kind == "remediation_counted").then_some("text");
        for field in common.into_iter().chain(text) {
            fields.remove(field);
        }
        Event::read(&kind, &record.to_string()).expect("the field is optional")
    };
    events.iter().map(forget).collect()
}

/// Shows that the changed rules matter: without the recorded decisions, the journal would read
/// differently.
fn assert_rules_matter(world: &World) {
    let events = without_decisions(&world.events);
    let differs = |length: usize| {
        let before = folded(&events[..length], |_| {});
        let mut after = folded(&events[..length], change_rules);
        after.began = before.began.clone();
        after != before
    };
    assert!(
        (1..=events.len()).any(differs),
        "no rule that changed decides anything here:\n{}",
        world.story()
    );
}

/// What a later version would not have written.
const OTHER: &str = "as another version worded it";

/// Changes what these records decided, and looks whether the state after each is what it says.
fn assert_counts_as_recorded(world: &World, kind: &str, pointer: &str, other: &serde_json::Value) {
    let read = |event: &Event| {
        let mut record = serde_json::to_value(event).expect("an event is JSON");
        let field = record
            .pointer_mut(pointer)
            .unwrap_or_else(|| panic!("{event:?} has no {pointer}"));
        *field = other.clone();
        Event::read(kind, &record.to_string()).expect("a record")
    };
    let is_meant =
        |event: &&Event| serde_json::to_value(event).is_ok_and(|record| record["kind"] == kind);
    assert!(
        world.events.iter().any(|event| is_meant(&event)),
        "{}",
        world.story()
    );
    for (at, event) in world
        .events
        .iter()
        .enumerate()
        .filter(|(_, event)| is_meant(event))
    {
        let events = [&world.events[..at], &[read(event)]].concat();
        let state = serde_json::to_string(&folded(&events, |_| {})).expect("a state is JSON");
        assert!(
            state.contains(&other.to_string()),
            "{kind} {pointer}: {state}"
        );
    }
}

#[test]
fn a_changed_wording_or_comparison_changes_nothing_that_is_recorded() {
    let blocked = Script::new().hook(
        HookPoint::Stop,
        "tests",
        [
            blocks("1 failed in 3 s"),
            blocks("1 failed in 4 s"),
            passes(),
        ],
    );
    let blocked = World::begin(blocked).run();
    assert_counts_as_recorded(&blocked, "retry_counted", "/feedback/text", &OTHER.into());
    let same = Script::new().agent([Answer::Says("On it."), Answer::Says("On it."), DONE]);
    let same = World::begin(same).run();
    assert_counts_as_recorded(&same, "stop_decided", "/streaks/repeated", &4711.into());
    let submits = Script::new().submits().piped(
        HookPoint::BeforeSubmit,
        "lint",
        [exits(1, "unused", ""), passes()],
    );
    let submits = World::begin(submits).run();
    assert_counts_as_recorded(&submits, "remediation_counted", "/text", &OTHER.into());
    for world in [&blocked, &same, &submits] {
        assert_reads_the_same(world);
        let (now, before) = (&world.events, without_decisions(&world.events));
        assert_eq!(
            folded(&before, |_| {}),
            folded(now, |_| {}),
            "as earlier versions wrote it"
        );
    }
}

fn add(goal: &str) -> SessionCommand {
    SessionCommand::Task {
        task: TaskCommand::Add(NewTask {
            goal: goal.into(),
            ..NewTask::default()
        }),
    }
}

#[test]
fn retries_that_were_granted_stay_granted() {
    let script = Script::new()
        .attended(&[
            (GateKind::RetryLimit, GateChoice::Continue),
            (GateKind::RetryLimit, GateChoice::Continue),
        ])
        .plan(|plan| plan.max_hook_retries = 1)
        .hook_with(
            HookPoint::Stop,
            "lint",
            [blocks("a"), blocks("b"), passes()],
            |spec| spec.retry.retries = Some(0),
        )
        .hook(
            HookPoint::Stop,
            "tests",
            [blocks("x"), blocks("y"), blocks("z"), passes()],
        );
    let world = World::begin(script).run();
    assert!(
        world.story().contains("gate 1 continue"),
        "{}",
        world.story()
    );
    assert_rules_matter(&world);
    assert_reads_the_same(&world);
}

#[test]
fn a_judged_run_keeps_its_judgement() {
    let script = Script::new()
        .hook(HookPoint::SessionStart, "disk", [exits(1, "", "full")])
        .hook(HookPoint::PreIteration, "gone", [breaks()])
        .hook(
            HookPoint::Stop,
            "tests",
            [exits(1, "2 failed", ""), exits(2, "", "no"), passes()],
        )
        .hook_with(
            HookPoint::PostIteration,
            "log",
            [exits(3, "", "no log")],
            |spec| {
                spec.on_failure = Some(HookFailurePolicy::Escalate);
            },
        );
    let world = World::begin(script).run();
    assert_rules_matter(&world);
    assert_reads_the_same(&world);
}

#[test]
fn a_budget_that_was_granted_stays_granted() {
    let agent = [
        Answer::Spends(60),
        Answer::Spends(70),
        Answer::Spends(80),
        DONE,
    ];
    let script = Script::new()
        .attended(&[
            (GateKind::Budget, GateChoice::Continue),
            (GateKind::Budget, GateChoice::Continue),
        ])
        .plan(|plan| plan.budget.tokens = Some(50))
        .agent(agent);
    let world = World::begin(script).run();
    assert!(
        world.story().contains("gate 2 continue"),
        "{}",
        world.story()
    );
    assert_reads_the_same(&world);
    // Unattended, the budget ends the session, and resuming it grants the budget again.
    let script = Script::new()
        .plan(|plan| plan.budget.tokens = Some(50))
        .agent([Answer::Spends(60), DONE]);
    let world = World::begin(script).run().resume().run();
    assert!(world.state.account.granted > 0, "{}", world.story());
    assert_rules_matter(&world);
    assert_reads_the_same(&world);
}

#[test]
fn hooks_of_tasks_stay_due() {
    let script = Script::new()
        .hook(HookPoint::OnTaskComplete, "notes", [passes()])
        .automation(
            "react",
            100,
            &[TaskEventKind::TaskCreated, TaskEventKind::TaskCompleted],
            [prints("[]")],
        );
    let mut world = World::begin(script);
    world.settle();
    world.command(add("Write the parser"));
    let id = world.state.tasks.graph.tasks()[0].id.clone();
    world.command(completes(&id, "done"));
    let world = world.run();
    assert!(world.story().contains("notes"), "{}", world.story());
    assert_rules_matter(&world);
    assert_reads_the_same(&world);
}

#[test]
fn a_turn_leads_where_it_led_before() {
    let script = Script::new().agent([
        Answer::Says("one"),
        Answer::Fails("lost"),
        Answer::Refuses,
        DONE,
    ]);
    let mut world = World::begin(script);
    world.settle();
    // A hook's message is sent only while iterations are left, so this depends on the limit.
    let by = ActorKind::Hook.into();
    world.input(Input::Command {
        by,
        command: SessionCommand::Message {
            text: "Look at the log".into(),
        },
    });
    let world = world.run();
    assert_rules_matter(&world);
    assert_reads_the_same(&world);
}

#[test]
fn a_resumed_session_continues_where_it_continued_before() {
    let script = Script::new()
        .plan(|plan| plan.max_iterations = 2)
        .agent([Answer::Says("one"), Answer::Says("two")]);
    let world = World::begin(script).run();
    for length in 1..world.events.len() {
        let killed = World::from_events(world.script.clone(), &world.events[..length]);
        assert_reads_the_same(&killed.resume().run());
    }
}

#[test]
fn a_decision_of_a_later_version_is_read_as_none() {
    let line = r#"{"kind":"turn_ended","iteration":1,"turn":1,"stop_reason":"end_turn","next":"somewhere_new"}"#;
    let read = Event::read("turn_ended", line).expect("the rest of the record counts");
    let plain = line.replace(r#","next":"somewhere_new""#, "");
    assert_eq!(read, Event::read("turn_ended", &plain).expect("a record"));
    let line = r#"{"kind":"session_resumed","cut":[],"presence":"attended","decision":{"next":"somewhere_new"}}"#;
    assert!(Event::read("session_resumed", line).is_ok());
}
