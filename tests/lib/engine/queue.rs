//! Tasks of the queue and the sessions that exist for them.

use creel::engine::{
    event::{SessionOutcome, StopTiming},
    input::SessionCommand,
    queue::{
        QueuedTask, TaskOutcome,
        task_spec::{OwnerSession, TaskSpec},
        worker_rules::ExistingSession,
    },
    tasks::graph::TaskDescription,
    time::UnixTime,
};

use crate::support::world::{Script, World};

#[test]
fn an_existing_session_counts_only_for_its_own_task() {
    let task = QueuedTask::new(
        TaskSpec {
            id: "1".into(),
            description: TaskDescription {
                goal: "GOAL".into(),
                ..TaskDescription::default()
            },
            ..TaskSpec::default()
        },
        UnixTime(1),
    );
    let world = || {
        let mut world = World::begin(Script::new());
        world.state.began.order = Some(task.mark());
        world
    };
    let over = world().run().state;
    let mut stopped = world();
    stopped.settle();
    let begun = stopped.state.clone();
    stopped.command(SessionCommand::Stop {
        how: StopTiming::Now,
    });
    let stopped = stopped.run().state;
    assert_eq!(
        (over.phase.outcome(), stopped.phase.outcome()),
        (
            Some(SessionOutcome::Complete),
            Some(SessionOutcome::Cancelled)
        )
    );
    assert_eq!(
        ExistingSession::of(&over, &task),
        ExistingSession::Over(TaskOutcome::of(&over))
    );
    assert_eq!(
        ExistingSession::of(&begun, &task),
        ExistingSession::Unfinished
    );
    assert_eq!(
        ExistingSession::of(&stopped, &task),
        ExistingSession::Unfinished
    );
    // The next run of it, a later task of that name, and a task of a session.
    let of_session = TaskSpec {
        session: Some(OwnerSession {
            name: "s".into(),
            id: "i".into(),
        }),
        ..task.order.clone()
    };
    let later = QueuedTask {
        created_at: UnixTime(2).rfc3339(),
        ..task.clone()
    };
    for other in [
        QueuedTask {
            run: 2,
            ..task.clone()
        },
        later,
        QueuedTask {
            order: of_session,
            ..task.clone()
        },
    ] {
        assert_eq!(ExistingSession::of(&over, &other), ExistingSession::Foreign);
    }
    assert_eq!(
        ExistingSession::of(&World::begin(Script::new()).run().state, &task),
        ExistingSession::Foreign
    );
}
