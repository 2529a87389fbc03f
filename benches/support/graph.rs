//! A session with many tasks that depend on each other.

use std::path::Path;

use creel::{
    config,
    engine::{
        self, SessionState,
        event::{ActorKind, Event, SessionEvent, SessionStarted, UserPresence},
        input::{Input, SessionCommand},
        policy::SessionPlan,
        tasks::command::{NewTask, TaskCommand},
        time::UnixTime,
    },
    journal::Record,
};

use crate::measure::{Result, check};

/// How many tasks each task waits for; the first ones have fewer.
const EDGES: u32 = 5;
/// An arbitrary time.
const NOW: UnixTime = UnixTime(1_794_735_000_123);

/// A session with this many tasks, and its records. Every second task belongs to an agent, so that
/// its completion adds a review and a note.
pub(crate) fn session(tasks: u32) -> Result<(SessionState, Vec<Record>)> {
    let began = began(plan()?);
    let mut state = SessionState::new("bench", began.clone(), NOW);
    let mut records = vec![record(
        1,
        Event::Session(SessionEvent::Started(Box::new(began))),
    )];
    for n in 0..tasks {
        let task = NewTask {
            id: Some(name(n)),
            goal: format!("Write part {n} of many"),
            labels: if n % 2 == 0 {
                vec!["agent".into()]
            } else {
                Vec::new()
            },
            dependencies: (1..=EDGES)
                .filter_map(|k| n.checked_sub(k * k))
                .map(name)
                .collect(),
            ..NewTask::default()
        };
        change(&mut state, TaskCommand::Add(task), &mut records)?;
    }
    check(
        state.tasks.graph.len() == tasks as usize,
        "not all tasks were added",
    )?;
    Ok((state, records))
}

pub(crate) fn name(n: u32) -> String {
    format!("task_{}", n + 1)
}

/// Sends a command, and runs until nothing more follows from it.
pub(crate) fn change(
    state: &mut SessionState,
    command: TaskCommand,
    records: &mut Vec<Record>,
) -> Result<()> {
    let mut step = engine::decide(
        state,
        NOW,
        Input::Command {
            by: ActorKind::Cli.into(),
            command: SessionCommand::Task { task: command },
        },
    );
    check(step.refusal.is_none(), "a change was refused")?;
    loop {
        for event in step.events {
            let record = record(records.len() as u64 + 1, event);
            state.apply(record.at, &record.event);
            records.push(record);
        }
        if !state.tasks.automation.is_busy() {
            return Ok(());
        }
        step = engine::decide(state, NOW, Input::Proceed);
    }
}

fn record(seq: u64, event: Event) -> Record {
    Record {
        v: 1,
        seq,
        at: NOW,
        session: "bench".into(),
        event,
        chain: None,
    }
}

fn plan() -> Result<SessionPlan> {
    let settings = config::parse(
        "prompt: x\nagents: { demo: { command: 'true' } }",
        Path::new("creel.yaml"),
    );
    settings
        .map_err(|_| "the config does not load")?
        .plan(creel::config::PlanRequest::default())
        .map_err(|_| "there is no plan".into())
}

fn began(plan: SessionPlan) -> SessionStarted {
    SessionStarted {
        agent: plan.agent.clone(),
        cwd: "/project".into(),
        prompt: "Do it all.".into(),
        max_iterations: plan.max_iterations,
        id: "bench".into(),
        seed: 7,
        presence: UserPresence::Unattended,
        plan,
        only_pipeline: None,
        order: None,
        worktree: None,
        from: None,
        fork: None,
        creel: String::new(),
        user: None,
        trace: None,
    }
}
