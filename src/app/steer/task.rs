//! `creel task`: the task graph of a session, looked at and changed from another terminal or by the agent itself.

use super::{ask, choose, given, json, other_answer, queue, told};
use crate::{
    app::{Failure, Result, print, project, remote::Server, warn_of},
    cli::{
        steer::SessionArgs,
        task::{
            AddArgs, BlockArgs, DependArgs, DoneArgs, ListTasksArgs, OneTaskArgs, QueueArgs, ShowTaskArgs, StartArgs,
            TaskVerb, UpdateArgs,
        },
    },
    engine::{
        queue::Ask,
        tasks::{
            command::{Completion, NewTask, TaskChanges, TaskCommand},
            graph::Graph,
        },
    },
    journal::{self, Folder},
    present::{
        task_table,
        task_view::{self, TaskView},
    },
    socket::{
        client::{AskError, Client},
        message::{Asker, Request, Told},
    },
};

pub(in crate::app) fn task(verb: TaskVerb) -> Result {
    match verb {
        TaskVerb::Add(args) if args.queue => queue::add(args),
        TaskVerb::Add(args) => add(args),
        TaskVerb::List(args) if args.queue.queue => queue::list(&args),
        TaskVerb::Show(args) if args.queue.queue => queue::show(&args),
        TaskVerb::Start(StartArgs { id, session, queue: QueueArgs { queue: true }, .. }) => {
            queue::ask(&session, &id, &Ask::Again)
        }
        TaskVerb::Done(DoneArgs { id, result, session, queue: QueueArgs { queue: true }, .. }) => {
            let result = result.as_deref().map(given).transpose()?;
            queue::ask(&session, &id, &Ask::Complete(result))
        }
        TaskVerb::Block(BlockArgs { id, reason, session, queue: QueueArgs { queue: true }, .. }) => {
            queue::ask(&session, &id, &Ask::Block(given(&reason)?))
        }
        TaskVerb::Remove(OneTaskArgs { id, session, queue: QueueArgs { queue: true } }) => {
            queue::ask(&session, &id, &Ask::Remove)
        }
        TaskVerb::List(args) => list(&args),
        TaskVerb::Show(args) => show(&args),
        TaskVerb::Start(StartArgs { id, context, session, .. }) => change(&session, TaskCommand::Start { id, context }),
        TaskVerb::Done(args) => done(args),
        TaskVerb::Block(BlockArgs { id, reason, needs, session, .. }) => {
            let reason = given(&reason)?;
            change(&session, TaskCommand::Block { id, reason, required_knowledge: needs })
        }
        TaskVerb::Update(args) => update(args),
        TaskVerb::Depend(DependArgs { id, on, remove: false, session }) => {
            change(&session, TaskCommand::Depend { id, on })
        }
        TaskVerb::Depend(DependArgs { id, on, remove: true, session }) => {
            change(&session, TaskCommand::Undepend { id, on })
        }
        TaskVerb::Remove(OneTaskArgs { id, session, .. }) => change(&session, TaskCommand::Remove { id }),
    }
}

fn change(session: &SessionArgs, task: TaskCommand) -> Result {
    ask(session, &Request::Task { task })
}

fn add(args: AddArgs) -> Result {
    let AddArgs { goal, id, deliverables, labels, priority, kind, parent, dependencies, session, .. } = args;
    let goal = given(&goal)?;
    let new = NewTask { id, goal, deliverables, labels, priority, kind, parent, dependencies, queue: None };
    let Some(Told::Added(id)) = told(&session, &Request::Task { task: TaskCommand::Add(new) })? else {
        return Err(other_answer());
    };
    print(&(id + "\n"))
}

fn done(args: DoneArgs) -> Result {
    let DoneArgs { id, result, artifacts, content, session, .. } = args;
    let result = result.as_deref().map(given).transpose()?;
    change(&session, TaskCommand::Complete(Completion { id, content, result, artifacts }))
}

fn update(args: UpdateArgs) -> Result {
    let UpdateArgs { id, goal, deliverables, labels, add_labels, remove_labels, priority, kind, parent, session } =
        args;
    let changes = TaskChanges { goal, deliverables, labels, priority, kind, parent, add_labels, remove_labels };
    change(&session, TaskCommand::Update { id, changes })
}

fn list(args: &ListTasksArgs) -> Result {
    let mut tasks = match known(&args.session, &Request::TaskList)? {
        Known::Told(Told::Tasks(tasks)) => tasks,
        Known::Told(_) => return Err(other_answer()),
        Known::OnRecord(graph) => task_view::all(&graph),
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

fn is_wanted(args: &ListTasksArgs, task: &TaskView) -> bool {
    let ListTasksArgs { states, labels, kind, .. } = args;
    (states.is_empty() || states.contains(&task.state))
        && labels.iter().all(|label| task.labels.contains(label))
        && kind.as_ref().is_none_or(|kind| task.kind.as_ref() == Some(kind))
}

fn show(args: &ShowTaskArgs) -> Result {
    let task = match known(&args.session, &Request::TaskShow { id: args.id.clone() })? {
        Known::Told(Told::Task(task)) => *task,
        Known::Told(_) => return Err(other_answer()),
        Known::OnRecord(graph) => task_view::one(&graph, &args.id).map_err(Failure::failed)?,
    };
    if args.json { json(&task) } else { print(&task_table::whole(&task)) }
}

/// Where the tasks of a session are known from.
enum Known {
    /// It runs, and told.
    Told(Told),
    /// It does not run: these are the tasks that its journal tells of.
    OnRecord(Box<Graph>),
}

/// Asks the session that is meant; one that is named need not run.
fn known(session: &SessionArgs, request: &Request) -> Result<Known> {
    if let Some(server) = Server::named(&session.nats, &session.config)? {
        return server.told(session, request)?.map(Known::Told).ok_or_else(other_answer);
    }
    let (_, sessions) = project::sessions_of(&session.config)?;
    let Some(folder) = choose::named(session, &sessions)? else {
        return told(session, request)?.map(Known::Told).ok_or_else(other_answer);
    };
    match Client::connect(&folder).and_then(|mut client| client.ask(Asker::Cli, request)) {
        Ok(told) => told.map(Known::Told).ok_or_else(other_answer),
        // It may have ended just now.
        Err(AskError::NotRunning(_) | AskError::Ended(_)) => Ok(Known::OnRecord(Box::new(on_record(&folder)?))),
        Err(error @ (AskError::Unreachable { .. } | AskError::Refused(_))) => Err(error.into()),
    }
}

/// The tasks that a journal tells of.
pub(in crate::app) fn on_record(folder: &Folder) -> Result<Graph> {
    let (state, disorder) = journal::fold_checked(&folder.journal())?;
    warn_of(disorder.as_ref());
    Ok(state.tasks.graph)
}
