//! `creel task … --queue`: the tasks that workers take, from the project's own queue or from a
//! server.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::{
    cli::{
        arguments::SessionArgs,
        error::{self, CliError, CliResult, json, print, say},
        target::{
            Project, given, name_queue, remote_sessions::NatsServerConnection, reply_to,
            sessions_of,
        },
        task::{
            QueueArgs, TaskAddArgs, TaskListArgs, TaskShowArgs, TaskStartArgs, TaskUpdateArgs,
            add_to_session,
        },
    },
    config::{PlanError, PlanRequest, Settings},
    engine::{
        queue::{
            QueueRequest, QueueRequestError, QueuedTask, QueuedTaskState, TaskSpending,
            task_spec::TaskSpec,
        },
        tasks::{
            command::{NewTask, TaskRefusal},
            graph::{PRIORITY, TaskDescription, TaskState},
        },
    },
    present::tables,
    protocol::{ReplyData, SessionQuery},
    queue::{
        LEASE, QueueError, TaskQueue,
        backend::{QueueFailure, QueueTaskKey},
    },
    runtime::now,
    worktrees::{ProjectRepository, inventory::OwnedWorktree},
};

/// How long to wait until a session has handed a task over, and how often to look.
const STORED: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);

impl From<QueueFailure> for CliError {
    fn from(error: QueueFailure) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<QueueError> for CliError {
    fn from(error: QueueError) -> Self {
        let message = error.to_string();
        match error {
            QueueError::Refused(refusal) => {
                Self::failed(format!("{message}\n  {}", way_out(&refusal)))
            }
            QueueError::Taken(_) => Self::failed(format!(
                "{message}\n  choose another name with --id, or leave it out for a number"
            )),
            QueueError::BadTask(TaskRefusal::NoGoal) => Self::failed(format!(
                "{message}\n  say what to do, as in `creel task add --queue \"Write the parser.\"`"
            )),
            QueueError::Named { name, by } => Self::failed(format!(
                "{message}\n  choose another name, or first say `creel task depend --queue {by} {name} --remove`"
            )),
            QueueError::BadTask(_) | QueueError::Failed(_) => Self::failed(message),
        }
    }
}

/// The queue that is meant: of the server, else the project's own.
pub(in crate::cli) struct QueueConnection {
    place: ConnectedPlace,
    queue: TaskQueue,
}

enum ConnectedPlace {
    Project(tokio::runtime::Runtime),
    Server(Box<NatsServerConnection>),
}

impl ConnectedPlace {
    fn wait<T, E: Into<CliError>>(
        &self,
        asked: impl Future<Output = Result<T, E>>,
    ) -> CliResult<T> {
        match self {
            Self::Project(tokio) => tokio.block_on(asked).map_err(Into::into),
            Self::Server(server) => server.wait(asked),
        }
    }
}

impl QueueConnection {
    pub(in crate::cli) fn open(args: &SessionArgs, queue: &QueueArgs) -> CliResult<Self> {
        let (root, _) = sessions_of(&args.config)?;
        let Some(mut server) = NatsServerConnection::meant(&args.nats, &args.config)? else {
            if queue.name().is_some() {
                let why = "only a server has queues with names; pass it with --nats, or set `nats:` in the config";
                return Err(CliError::usage(why));
            }
            let queue = TaskQueue::of_project(&root, LEASE)?;
            say_notice(&queue);
            return Ok(Self {
                place: ConnectedPlace::Project(error::start_tokio()?),
                queue,
            });
        };
        name_queue(&mut server.nats, queue.name(), &root)?;
        let queue = server.wait(TaskQueue::of_server(
            &server.jetstream(),
            &server.nats,
            LEASE,
        ))?;
        say_notice(&queue);
        Ok(Self {
            place: ConnectedPlace::Server(Box::new(server)),
            queue,
        })
    }

    /// Adds a task, and returns its name.
    pub(in crate::cli) fn add(&mut self, order: TaskSpec) -> CliResult<String> {
        Ok(self.place.wait(self.queue.add(order, now()))?.task.order.id)
    }

    /// Adds a task as the config describes its type, and returns its name. Warns if no worker with
    /// this config takes it.
    pub(in crate::cli) fn add_new(
        &mut self,
        new: NewTask,
        settings: Option<&Settings>,
    ) -> CliResult<String> {
        let kind = new.kind.clone();
        let agents: Vec<String> = new.queue.into_iter().flatten().collect();
        let no_taker =
            settings.and_then(|settings| refusal_of_all(settings, &agents, kind.as_deref()));
        let id = self.add(TaskSpec {
            id: new.id.unwrap_or_default(),
            description: TaskDescription {
                goal: new.goal,
                deliverables: new.deliverables,
                labels: new.labels,
                priority: new.priority.unwrap_or(PRIORITY),
                kind: new.kind,
            },
            dependencies: new.dependencies.into_iter().collect(),
            agents: who_may(agents, settings, kind.as_deref()),
            session: None,
        })?;
        say_no_taker(&id, no_taker);
        Ok(id)
    }

    pub(in crate::cli) fn ask(
        &mut self,
        key: &QueueTaskKey,
        request: &QueueRequest,
    ) -> CliResult<()> {
        self.place.wait(self.queue.ask(key, request, now()))?;
        Ok(())
    }

    pub(in crate::cli) fn change(
        &self,
        key: &QueueTaskKey,
        change: impl Fn(&QueuedTask) -> Option<QueuedTask> + Send,
    ) -> CliResult<()> {
        self.place.wait(self.queue.board.change(key, change))?;
        Ok(())
    }

    pub(in crate::cli) fn all(&self) -> CliResult<Vec<QueuedTask>> {
        let mut all = self.place.wait(self.queue.board.all())?;
        all.retain(|task| task.state.state().is_some());
        all.sort_by(|one, other| one.created_at.cmp(&other.created_at));
        Ok(all)
    }

    /// The key of a task that is named `ID`, or `SESSION/ID`; of several sessions of that name, the
    /// last.
    fn key(&self, name: &str) -> CliResult<QueueTaskKey> {
        let Some((session, id)) = name.split_once('/') else {
            return Ok(QueueTaskKey::own(name));
        };
        let is_it = |order: &TaskSpec| {
            order.id == id
                && order
                    .session
                    .as_ref()
                    .is_some_and(|owner| owner.name == session)
        };
        let found = self
            .all()?
            .into_iter()
            .rev()
            .find(|task| is_it(&task.order));
        found
            .map(|task| QueueTaskKey::of(&task.order))
            .ok_or_else(|| none(name))
    }
}

pub(in crate::cli) fn say_notice(queue: &TaskQueue) {
    if let Some(notice) = &queue.notice {
        say(&format!("creel: {notice}"));
    }
}

fn none(name: &str) -> CliError {
    QueueError::Refused(QueueRequestError::NoSuchTask(name.to_owned())).into()
}

/// What to do after a refusal of the queue.
fn way_out(refusal: &QueueRequestError) -> String {
    match refusal {
        QueueRequestError::NoSuchTask(_) | QueueRequestError::NoDependency(_) => {
            "list its tasks with `creel task list --queue`".to_owned()
        }
        QueueRequestError::Completed(_) | QueueRequestError::Merged(_) => {
            "for more work on the same thing, add a task with `creel task add --queue`".to_owned()
        }
        QueueRequestError::NoReason(id) => {
            format!("say why: `creel task block --queue {id} REASON`")
        }
        QueueRequestError::Waits(id) => {
            format!("`creel task show --queue {id}` shows what it waits for")
        }
        QueueRequestError::BadChange(_) => {
            "`creel task update --help` shows what can change".to_owned()
        }
        QueueRequestError::OfSession { owner, .. } => {
            format!("its other tasks: `creel task list --session {owner}`")
        }
        QueueRequestError::Unfinished(id) => {
            format!("`creel task show --queue {id}` shows its state")
        }
        QueueRequestError::Ready(_) => {
            "a worker takes it: start one with `creel worker`".to_owned()
        }
        QueueRequestError::Active { id, .. } => {
            format!("wait until it ends; `creel task show --queue {id}` names its session")
        }
    }
}

/// A task of the queue alone, or of the session that is named or that this is called from.
pub(super) fn add(args: TaskAddArgs) -> CliResult {
    let (new, queue, session) = args.described()?;
    let id = if is_of_session(&session) {
        refuse_name(&queue)?;
        add_by_session(&session, &queue, new)
    } else {
        add_alone(new, &session, &queue)
    }?;
    print(&(id + "\n"))
}

/// Whether a task for the queue is one of a session: that is named, or that this is called from.
pub(in crate::cli) fn is_of_session(session: &SessionArgs) -> bool {
    let within = || std::env::var_os("CREEL_SESSION").is_some_and(|name| !name.is_empty());
    session.session.is_some() || within()
}

/// A session hands its tasks to the queue that it knows.
pub(in crate::cli) fn refuse_name(queue: &QueueArgs) -> CliResult<()> {
    let why = "a task of a session goes to the session's own queue; leave out the name, or add it outside of a session";
    match queue.name() {
        Some(_) => Err(CliError::usage(why)),
        None => Ok(()),
    }
}

/// Adds a task to a session, which hands it over to its queue. Returns the task's name.
pub(in crate::cli) fn add_by_session(
    session: &SessionArgs,
    queue: &QueueArgs,
    new: NewTask,
) -> CliResult<String> {
    let id = add_to_session(session, new)?;
    wait_for(session, queue, &id)?;
    Ok(id)
}

/// Waits until the queue has a task that a session hands over. One that waits for other tasks gets
/// there later.
fn wait_for(session: &SessionArgs, queue: &QueueArgs, id: &str) -> CliResult<()> {
    let owner = session
        .session
        .clone()
        .or_else(|| std::env::var("CREEL_SESSION").ok())
        .unwrap_or_default();
    // An agent may lack the login for a server, or not know it. The session hands the task over, at
    // the latest when it ends.
    let is_on_server = matches!(reply_to(session, SessionQuery::Status), Ok(Some(ReplyData::Status(status))) if status.nats.is_some());
    let Ok(reached) = QueueConnection::open(session, queue) else {
        return Ok(());
    };
    if is_on_server != matches!(reached.place, ConnectedPlace::Server(_)) {
        return Ok(());
    }
    let since = Instant::now();
    while reached.key(&format!("{owner}/{id}")).is_err() {
        // The session may have just ended.
        let asked = reply_to(session, SessionQuery::TaskShow { id: id.to_owned() });
        let is_ready =
            matches!(asked, Ok(Some(ReplyData::Task(task))) if task.state == TaskState::Ready);
        if !is_ready {
            break;
        }
        if since.elapsed() > STORED {
            return Err(CliError::failed(format!(
                "session `{owner}` has task {id}, but the queue does not have it yet\n  `creel show {owner}` says why; creel \
                 hands the task over as soon as it can"
            )));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn add_alone(new: NewTask, session: &SessionArgs, queue: &QueueArgs) -> CliResult<String> {
    if new.parent.is_some() {
        return Err(CliError::usage(
            "tasks in the queue have no parent; --parent is for tasks of a session",
        ));
    }
    if new.id.as_deref() == Some("") {
        return Err(CliError::usage(
            "a task name has letters, digits, `-` and `_`; leave it out for a number",
        ));
    }
    let settings = Project::load(&session.config)
        .ok()
        .map(|project| project.settings);
    QueueConnection::open(session, queue)?.add_new(new, settings.as_ref())
}

/// Why no worker with this config takes a task for these agents. None if one does, or if the agent
/// only has to be installed there.
fn refusal_of_all(settings: &Settings, agents: &[String], kind: Option<&str>) -> Option<PlanError> {
    // Without definitions, types are only labels.
    let task_type = kind.filter(|_| !settings.task_types.is_empty());
    let refusal = |agent: Option<&str>| {
        let refused = settings
            .plan(PlanRequest {
                agent,
                task_type,
                ..PlanRequest::default()
            })
            .err();
        refused.filter(|error| {
            !matches!(
                error,
                PlanError::NotInstalled { .. } | PlanError::NoAgent { .. }
            )
        })
    };
    if agents.is_empty() {
        return refusal(None).filter(|error| matches!(error, PlanError::UnknownType { .. }));
    }
    let refusals: Option<Vec<PlanError>> =
        agents.iter().map(|agent| refusal(Some(agent))).collect();
    refusals?.into_iter().next()
}

/// The agents that were named, otherwise those that the local config allows for the type.
fn who_may(
    named: Vec<String>,
    settings: Option<&Settings>,
    kind: Option<&str>,
) -> BTreeSet<String> {
    if !named.is_empty() {
        return named.into_iter().collect();
    }
    let of_type = settings
        .zip(kind)
        .and_then(|(settings, kind)| settings.task_types.get(kind));
    of_type
        .and_then(|of_type| of_type.implementers())
        .unwrap_or_default()
        .iter()
        .cloned()
        .collect()
}

pub(super) fn list(args: &TaskListArgs) -> CliResult {
    let TaskListArgs {
        states,
        labels,
        kind,
        json: as_json,
        session,
        queue,
        ..
    } = args;
    let mut tasks = QueueConnection::open(session, queue)?.all()?;
    let is_empty = tasks.is_empty();
    tasks.retain(|QueuedTask { order, state, .. }| {
        (states.is_empty() || state.state().is_some_and(|state| states.contains(&state)))
            && labels.iter().all(|label| order.labels.contains(label))
            && kind
                .as_ref()
                .is_none_or(|kind| order.kind.as_ref() == Some(kind))
    });
    if *as_json {
        return json(&tasks.iter().map(TaskWithTotal::of).collect::<Vec<_>>());
    }
    if tasks.is_empty() {
        let none = if is_empty {
            "The queue has no tasks; add one with `creel task add --queue`"
        } else {
            "No task in the queue matches"
        };
        say(none);
        return Ok(0);
    }
    print(&tables::queue_table(&tasks))
}

/// A task as JSON, with what all of its sessions have used.
#[derive(Debug, Serialize)]
struct TaskWithTotal<'a> {
    #[serde(flatten)]
    task: &'a QueuedTask,
    #[serde(flatten)]
    total: TaskSpending,
}

impl<'a> TaskWithTotal<'a> {
    fn of(task: &'a QueuedTask) -> Self {
        Self {
            task,
            total: task.total_spent(),
        }
    }
}

pub(super) fn show(args: &TaskShowArgs) -> CliResult {
    let reached = QueueConnection::open(&args.session, &args.queue)?;
    let key = reached.key(&args.id)?;
    let seen = reached.place.wait(reached.queue.board.get(&key))?;
    let task = seen
        .map(|seen| seen.task)
        .filter(|task| task.state.state().is_some());
    let task = task.ok_or_else(|| none(&args.id))?;
    if args.json {
        json(&TaskWithTotal::of(&task))
    } else {
        print(&tables::queued_details(&task))
    }
}

/// Does what a person asks for.
pub(super) fn ask(
    session: &SessionArgs,
    queue: &QueueArgs,
    id: &str,
    ask: &QueueRequest,
) -> CliResult {
    let mut reached = QueueConnection::open(session, queue)?;
    let key = reached.key(id)?;
    reached.ask(&key, ask)?;
    Ok(0)
}

/// Changes the description of a task.
pub(super) fn update(args: TaskUpdateArgs) -> CliResult {
    let queue = args.queue.clone();
    let (id, session, changes) = args.changes()?;
    let kind = changes.description.kind.clone();
    let project = Project::load(&session.config).ok();
    let settings = project.as_ref().map(|project| &project.settings);
    // Which agents may work on it is a matter of its type.
    let agents = kind
        .as_deref()
        .map(|kind| who_may(Vec::new(), settings, Some(kind)));
    let no_taker = settings
        .zip(kind)
        .and_then(|(settings, kind)| refusal_of_all(settings, &[], Some(&kind)));
    ask(
        &session,
        &queue,
        &id,
        &QueueRequest::Update { changes, agents },
    )?;
    say_no_taker(&id, no_taker);
    Ok(0)
}

fn say_no_taker(id: &str, why: Option<PlanError>) {
    if let Some(why) = why {
        say(&format!(
            "creel: a worker with this config does not take task {id}: {why}"
        ));
    }
}

/// Puts a task into the queue again.
pub(super) fn start(args: TaskStartArgs) -> CliResult {
    let TaskStartArgs {
        id,
        context,
        queue,
        session,
    } = args;
    let context = context.as_deref().map(given).transpose()?;
    let mut reached = QueueConnection::open(&session, &queue)?;
    let key = reached.key(&id)?;
    let before = reached
        .place
        .wait(reached.queue.board.get(&key))?
        .map(|seen| seen.task);
    reached.ask(&key, &QueueRequest::Again { context })?;
    if before.is_some_and(|task| matches!(task.state, QueuedTaskState::Completed { .. })) {
        say(&format!(
            "creel: task {id} was completed; a worker now does it again"
        ));
    }
    Ok(0)
}

/// Completes a task. The work of a blocked one is on a branch that no worker has handed in: nothing
/// in its worktree may be uncommitted, and other machines get the branch from the remote.
pub(super) fn done(
    session: &SessionArgs,
    queue: &QueueArgs,
    id: &str,
    result: Option<String>,
) -> CliResult {
    let mut reached = QueueConnection::open(session, queue)?;
    let key = reached.key(id)?;
    let found = reached
        .place
        .wait(reached.queue.board.get(&key))?
        .map(|seen| seen.task);
    let is_blocked = |task: &QueuedTask| matches!(task.state, QueuedTaskState::Blocked { .. });
    if let Some(task) = found.filter(is_blocked)
        && let Some(branch) = hand_in(session, &task)?
    {
        reached.change(&key, |task| {
            Some(task.clone().on_branch(Some(branch.clone())))
        })?;
    }
    reached.ask(&key, &QueueRequest::Complete(result))?;
    Ok(0)
}

/// Pushes the branch of a blocked task, if it is here and there is a remote. Returns its name at
/// the remote.
fn hand_in(session: &SessionArgs, task: &QueuedTask) -> CliResult<Option<String>> {
    let (root, _) = sessions_of(&session.config)?;
    let Ok(repository) = ProjectRepository::of(&root) else {
        return Ok(None);
    };
    let worker = task.state.by().map(|by| by.session.as_str());
    let worktrees = repository.worktrees()?;
    let mut own = worktrees.iter().filter(|worktree| !worktree.is_missing);
    let own =
        own.find(|worktree| worktree.session.is_some() && worktree.session.as_deref() == worker);
    // A worker that died could not say where its work is.
    let Some(branch) = task
        .branch
        .as_ref()
        .or_else(|| own.and_then(|own| own.branch.as_ref()))
    else {
        return Ok(None);
    };
    if let Some(worktree) = own {
        let OwnedWorktree { name, path, .. } = worktree;
        let (id, path) = (&task.order.id, path.display());
        if let Some(unsaved) = worktree.unsaved(&repository)? {
            let what = unsaved.in_words();
            return Err(CliError::failed(format!(
                "task {id} is not done: its worktree {path} has {what}\n  commit there what belongs to the task, discard the \
                 rest, then try again (`creel worktree open {name}` opens a shell in it)"
            )));
        }
        if worktree.branch.as_ref() != Some(branch) {
            return Err(CliError::failed(format!(
                "task {id} is not done: its worktree {path} is not on its branch `{branch}`\n  put the work there with \
                 `git switch -C {branch}`, then try again"
            )));
        }
    }
    let configured = Project::load(&session.config)
        .ok()
        .and_then(|project| project.settings.base_plan.submit.remote.clone());
    let remote = repository.remote(configured.as_deref())?;
    let (Some(remote), Some(_)) = (remote, repository.branch(branch)?) else {
        return Ok(None);
    };
    let pushed = repository.push(branch, &remote);
    pushed
        .map(Some)
        .map_err(|error| CliError::failed(format!("task {} is not done: {error}", task.order.id)))
}
