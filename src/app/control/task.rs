//! `creel task`: the task graph of a session, looked at and changed from another terminal or by the agent itself.

use super::{ask, given, json, other_answer, queue, refusal_as_json, told};
use crate::{
    app::{
        AppError, AppResult, control::choose_session, print, project, remote_sessions::NatsServerConnection, warn_of,
    },
    cli::{
        control::SessionArgs,
        task::{
            QueueArgs, TaskAddArgs, TaskBlockArgs, TaskCliCommand, TaskDependArgs, TaskDoneArgs, TaskListArgs,
            TaskRemoveArgs, TaskShowArgs, TaskStartArgs, TaskUpdateArgs,
        },
    },
    engine::{
        input::SessionCommand,
        queue::QueueRequest,
        tasks::{
            command::{NewTask, TaskChanges, TaskCommand, TaskCompletion},
            graph::TaskGraph,
        },
    },
    journal::{self, SessionDir},
    present::{
        task_table,
        task_view::{self, TaskView},
    },
    socket::{
        client::{SessionRequestError, SocketClient},
        message::{ClientKind, ReplyData, SessionRequest},
        query::SessionQuery,
    },
};

pub(in crate::app) fn task(verb: TaskCliCommand) -> AppResult {
    match verb {
        TaskCliCommand::Add(args) if args.queue => queue::add(args),
        TaskCliCommand::Add(args) => add(args),
        TaskCliCommand::List(args) if args.queue.queue => queue::list(&args),
        TaskCliCommand::Show(args) if args.queue.queue => queue::show(&args),
        TaskCliCommand::Start(TaskStartArgs { id, session, queue: QueueArgs { queue: true }, .. }) => {
            queue::ask(&session, &id, &QueueRequest::Again)
        }
        TaskCliCommand::Done(TaskDoneArgs { id, result, session, queue: QueueArgs { queue: true }, .. }) => {
            let result = result.as_deref().map(given).transpose()?;
            queue::ask(&session, &id, &QueueRequest::Complete(result))
        }
        TaskCliCommand::Block(TaskBlockArgs { id, reason, session, queue: QueueArgs { queue: true }, .. }) => {
            queue::ask(&session, &id, &QueueRequest::Block(given(&reason)?))
        }
        TaskCliCommand::Remove(TaskRemoveArgs { id, session, queue: QueueArgs { queue: true } }) => {
            queue::ask(&session, &id, &QueueRequest::Remove)
        }
        TaskCliCommand::List(args) => list(&args),
        TaskCliCommand::Show(args) => show(&args),
        TaskCliCommand::Start(TaskStartArgs { id, context, session, .. }) => {
            change(&session, TaskCommand::Start { id, context })
        }
        TaskCliCommand::Done(args) => done(args),
        TaskCliCommand::Block(TaskBlockArgs { id, reason, needs, session, .. }) => {
            let reason = given(&reason)?;
            change(&session, TaskCommand::Block { id, reason, required_knowledge: needs })
        }
        TaskCliCommand::Update(args) => update(args),
        TaskCliCommand::Depend(TaskDependArgs { id, on, remove: false, session }) => {
            change(&session, TaskCommand::Depend { id, on })
        }
        TaskCliCommand::Depend(TaskDependArgs { id, on, remove: true, session }) => {
            change(&session, TaskCommand::Undepend { id, on })
        }
        TaskCliCommand::Remove(TaskRemoveArgs { id, session, .. }) => change(&session, TaskCommand::Remove { id }),
    }
}

fn change(session: &SessionArgs, task: TaskCommand) -> AppResult {
    ask(session, SessionCommand::Task { task })
}

fn add(args: TaskAddArgs) -> AppResult {
    let TaskAddArgs { goal, id, deliverables, labels, priority, kind, parent, dependencies, session, .. } = args;
    let goal = given(&goal)?;
    let new = NewTask { id, goal, deliverables, labels, priority, kind, parent, dependencies, queue: None };
    let Some(ReplyData::Added(id)) = told(&session, SessionCommand::Task { task: TaskCommand::Add(new) })? else {
        return Err(other_answer());
    };
    print(&(id + "\n"))
}

fn done(args: TaskDoneArgs) -> AppResult {
    let TaskDoneArgs { id, result, artifacts, content, session, .. } = args;
    let result = result.as_deref().map(given).transpose()?;
    change(&session, TaskCommand::Complete(TaskCompletion { id, content, result, artifacts }))
}

fn update(args: TaskUpdateArgs) -> AppResult {
    let TaskUpdateArgs { id, goal, deliverables, labels, add_labels, remove_labels, priority, kind, parent, session } =
        args;
    let changes = TaskChanges { goal, deliverables, labels, priority, kind, parent, add_labels, remove_labels };
    change(&session, TaskCommand::Update { id, changes })
}

fn list(args: &TaskListArgs) -> AppResult {
    refusal_as_json(args.json, list_tasks(args))
}

fn list_tasks(args: &TaskListArgs) -> AppResult {
    let mut tasks = match known(&args.session, SessionQuery::TaskList)? {
        TaskLookup::Told(ReplyData::Tasks(tasks)) => tasks,
        TaskLookup::Told(_) => return Err(other_answer()),
        TaskLookup::OnRecord(graph) => task_view::all(&graph),
    };
    tasks.retain(|task| is_wanted(args, task));
    if args.json {
        return json(&tasks);
    }
    if tasks.is_empty() {
        crate::app::say("creel: there are no such tasks");
        return Ok(0);
    }
    print(&task_table::table(&tasks))
}

fn is_wanted(args: &TaskListArgs, task: &TaskView) -> bool {
    let TaskListArgs { states, labels, kind, .. } = args;
    (states.is_empty() || states.contains(&task.state))
        && labels.iter().all(|label| task.labels.contains(label))
        && kind.as_ref().is_none_or(|kind| task.kind.as_ref() == Some(kind))
}

fn show(args: &TaskShowArgs) -> AppResult {
    refusal_as_json(args.json, show_task(args))
}

fn show_task(args: &TaskShowArgs) -> AppResult {
    let task = match known(&args.session, SessionQuery::TaskShow { id: args.id.clone() })? {
        TaskLookup::Told(ReplyData::Task(task)) => *task,
        TaskLookup::Told(_) => return Err(other_answer()),
        TaskLookup::OnRecord(graph) => task_view::one(&graph, &args.id).map_err(AppError::refused)?,
    };
    if args.json { json(&task) } else { print(&task_table::whole(&task)) }
}

/// Where the tasks of a session are known from.
enum TaskLookup {
    /// It runs, and told.
    Told(ReplyData),
    /// It does not run: these are the tasks that its journal tells of.
    OnRecord(Box<TaskGraph>),
}

/// Asks the session that is meant; one that is named need not run.
fn known(session: &SessionArgs, request: impl Into<SessionRequest>) -> AppResult<TaskLookup> {
    let request = request.into();
    if let Some(server) = NatsServerConnection::named(&session.nats, &session.config)? {
        return server.told(session, &request)?.map(TaskLookup::Told).ok_or_else(other_answer);
    }
    let (_, sessions) = project::sessions_of(&session.config)?;
    let Some(folder) = choose_session::named(session, &sessions)? else {
        return told(session, request)?.map(TaskLookup::Told).ok_or_else(other_answer);
    };
    match SocketClient::connect(&folder).and_then(|mut client| client.ask(ClientKind::Cli, request)) {
        Ok(told) => told.map(TaskLookup::Told).ok_or_else(other_answer),
        // It may have ended just now.
        Err(SessionRequestError::NotRunning(_) | SessionRequestError::Ended(_)) => {
            Ok(TaskLookup::OnRecord(Box::new(on_record(&folder)?)))
        }
        Err(
            error @ (SessionRequestError::Unreachable { .. }
            | SessionRequestError::Refused(_)
            | SessionRequestError::NotSent(_)),
        ) => Err(error.into()),
    }
}

/// The tasks that a journal tells of.
pub(in crate::app) fn on_record(folder: &SessionDir) -> AppResult<TaskGraph> {
    let (state, disorder) = journal::fold_checked(&folder.journal())?;
    warn_of(disorder.as_ref());
    Ok(state.tasks.graph)
}
