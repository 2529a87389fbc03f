//! The queues of the projects or of a server, for lists of sessions: how many tasks are in which state,
//! and which are blocked.
//!
//! # Invariants
//! - While no queue changes, nothing is read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use async_nats::{Client, jetstream};
use tokio::{sync::mpsc, task::JoinHandle, time::Instant};

use crate::{
    config::NatsConfig,
    engine::queue::{QueueCounts, QueuedTask, QueuedTaskState},
    journal::{SessionDir, SessionsDir},
    present::{
        session_list::ListedSession,
        tables::queued_name,
        text::{counted, plain_line, some_names},
    },
    protocol::process_origin::host,
    queue::{ProjectTasks, backend::QueueTaskKey, task_bucket::FleetTasks},
    sessions::{
        BlockedTaskKey, QueueKey, SessionKey,
        folder_watch::FolderWatch,
        session_store::{ProjectList, ProjectScope},
    },
    worktrees::{self, merge_report::MergeReport},
};

/// The shortest time between two reports.
const PAUSE: Duration = Duration::from_millis(200);
/// How long to wait before asking a server again.
const AGAIN: Duration = Duration::from_secs(10);

/// All queues as they are.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct QueueSummary {
    pub counts: QueueCounts,
    pub blocked: Vec<(SessionKey, ListedSession)>,
    /// How many tasks are completed.
    pub done: usize,
    /// Completed work that is not merged yet.
    pub to_merge: Vec<BoardTask>,
    /// What merge queues of this machine test now.
    pub tested: Vec<MergeReport>,
    /// What was merged, newest first, as far as the screen shows it.
    pub merged: Vec<BoardTask>,
    /// The next tasks: those that are ready, then those that wait for others.
    pub next: Vec<BoardTask>,
}

/// A task of a queue in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoardTask {
    pub name: String,
    pub goal: String,
    /// What it waits for, or the commit that it was merged as.
    pub note: String,
    /// When it was completed. Empty before that.
    at: String,
}

impl BoardTask {
    fn of(task: &QueuedTask, note: String) -> Self {
        let at = match &task.state {
            QueuedTaskState::Completed { completed_at, .. } => completed_at.clone(),
            QueuedTaskState::Created
            | QueuedTaskState::Ready
            | QueuedTaskState::Active { .. }
            | QueuedTaskState::Blocked { .. }
            | QueuedTaskState::Removed => String::new(),
        };
        Self {
            name: queued_name(&task.order),
            goal: plain_line(&task.order.goal, GOAL),
            note,
            at,
        }
    }
}

impl BoardTask {
    /// The tasks that a merge queue tests together, in one line.
    pub fn tested(test: &MergeReport, waiting: &[Self]) -> Self {
        let known = match &test.tasks[..] {
            [one] => waiting.iter().find(|task| task.name == *one),
            [] | [_, ..] => None,
        };
        let how = if test.tasks.len() > 1 {
            "testing together"
        } else {
            "testing"
        };
        let name = match &test.tasks[..] {
            [] => "the base branch".to_owned(),
            tasks => tasks.join(" + "),
        };
        let (number, checks) = (test.number, counted(test.checks, "check"));
        Self {
            name,
            goal: known.map_or_else(|| test.check.clone(), |task| task.goal.clone()),
            note: format!("{how}, {number} of {checks}"),
            at: String::new(),
        }
    }
}

/// The longest goal on a board, in characters.
const GOAL: usize = 200;
/// How many merged tasks and how many next ones a board has.
const MERGED: usize = 5;
const NEXT: usize = 20;
/// How much of a commit's name a board has.
const COMMIT: usize = 7;

impl QueueSummary {
    fn add(&mut self, queue: &QueueKey, task: &QueuedTask) {
        self.counts.add(task);
        self.list(task);
        let QueuedTaskState::Blocked { reason, by } = &task.state else {
            return;
        };
        let (project, root) = match queue {
            QueueKey::Project(root) => (root.display().to_string(), Some(root)),
            QueueKey::Named(name) => (name.clone(), None),
        };
        let by = by.as_ref().filter(|by| by.host == host());
        let folder = root
            .zip(by)
            .map(|(root, by)| SessionsDir::of(root).folder(&by.session));
        let key = BlockedTaskKey {
            queue: queue.clone(),
            key: QueueTaskKey::of(&task.order),
            task: queued_name(&task.order),
            session: folder.filter(SessionDir::exists).map(|it| it.path),
        };
        let listed = ListedSession {
            cost: task.total_spent().cost_total(),
            ..ListedSession::blocked_task(task, &project, reason)
        };
        self.blocked.push((SessionKey::Task(key), listed));
    }
}

impl QueueSummary {
    /// Puts a task on the board.
    fn list(&mut self, task: &QueuedTask) {
        match &task.state {
            QueuedTaskState::Ready if self.next.len() < NEXT => {
                self.next.push(BoardTask::of(task, "ready".to_owned()));
            }
            QueuedTaskState::Created if self.next.len() < NEXT => {
                let on: Vec<String> = task.order.dependencies.iter().cloned().collect();
                let on = some_names(&on, 3);
                let note = if on.is_empty() {
                    String::new()
                } else {
                    format!("waits for {on}")
                };
                self.next.push(BoardTask::of(task, note));
            }
            QueuedTaskState::Completed { .. } => {
                self.done += 1;
                match (&task.merged, &task.branch) {
                    (Some(commit), _) => {
                        let commit: String = commit.chars().take(COMMIT).collect();
                        self.merged
                            .push(BoardTask::of(task, format!("merged as {commit}")));
                    }
                    (None, Some(_)) => self
                        .to_merge
                        .push(BoardTask::of(task, "waits to be merged".to_owned())),
                    (None, None) => {}
                }
            }
            QueuedTaskState::Ready
            | QueuedTaskState::Created
            | QueuedTaskState::Active { .. }
            | QueuedTaskState::Blocked { .. }
            | QueuedTaskState::Removed => {}
        }
    }

    /// Puts the board into its order.
    fn settle(&mut self) {
        self.merged.sort_by(|one, other| other.at.cmp(&one.at));
        self.merged.truncate(MERGED);
        self.next.sort_by_key(|task| task.note != "ready");
    }

    fn join(&mut self, more: &Self) {
        self.counts = self.counts.plus(more.counts);
        self.blocked.extend(more.blocked.iter().cloned());
        self.done += more.done;
        self.to_merge.extend(more.to_merge.iter().cloned());
        self.merged.extend(more.merged.iter().cloned());
        self.next.extend(more.next.iter().cloned());
    }
}

/// The queues of projects on this machine, each read only when its file has changed.
#[derive(Debug, Default)]
pub struct ProjectQueues(BTreeMap<PathBuf, KnownQueue>);

#[derive(Debug)]
struct KnownQueue {
    tasks: ProjectTasks,
    stamp: Option<(SystemTime, u64)>,
    found: QueueSummary,
}

impl ProjectQueues {
    pub fn summary<'a>(&mut self, roots: impl Iterator<Item = &'a Path>) -> QueueSummary {
        let mut all = QueueSummary::default();
        for root in roots {
            let known = self.0.entry(root.to_owned()).or_insert_with(|| KnownQueue {
                tasks: ProjectTasks::of(root),
                stamp: None,
                found: QueueSummary::default(),
            });
            known.look(root);
            all.join(&known.found);
            all.tested.extend(MergeReport::current(root));
        }
        all.settle();
        all
    }
}

impl KnownQueue {
    fn look(&mut self, root: &Path) {
        let [file, _] = ProjectTasks::paths(root);
        let meta = fs::metadata(file).ok();
        let stamp = meta.and_then(|meta| Some((meta.modified().ok()?, meta.len())));
        if stamp == std::mem::replace(&mut self.stamp, stamp) {
            return;
        }
        self.found = QueueSummary::default();
        // A queue that cannot be read has no tasks to show.
        for task in self.tasks.now().unwrap_or_default() {
            self.found.add(&QueueKey::Project(root.to_owned()), &task);
        }
    }
}

/// The queues of a server, from their tasks.
pub fn summary_of_fleet<'a>(
    tasks: impl Iterator<Item = (&'a String, &'a QueuedTask)>,
) -> QueueSummary {
    let mut found = QueueSummary::default();
    for (queue, task) in tasks {
        found.add(&QueueKey::Named(queue.clone()), task);
    }
    found.settle();
    found
}

/// The receiver's end of a watcher. Dropping it ends the watcher.
#[derive(Debug)]
pub struct QueueFeed {
    reports: mpsc::UnboundedReceiver<QueueSummary>,
    task: JoinHandle<()>,
}

impl QueueFeed {
    pub fn start(scope: ProjectScope) -> Self {
        let (out, reports) = mpsc::unbounded_channel();
        let task = tokio::spawn(watch(scope, out));
        Self { reports, task }
    }

    pub fn of_fleet(client: Client, nats: NatsConfig) -> Self {
        let (out, reports) = mpsc::unbounded_channel();
        let task = tokio::spawn(follow_fleet(client, nats, out));
        Self { reports, task }
    }

    /// The next report. None if the watcher has failed.
    pub async fn next(&mut self) -> Option<QueueSummary> {
        self.reports.recv().await
    }
}

impl Drop for QueueFeed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn watch(scope: ProjectScope, out: mpsc::UnboundedSender<QueueSummary>) {
    let mut folders = FolderWatch::new();
    let (mut queues, mut last) = (ProjectQueues::default(), None);
    loop {
        let roots = scope.roots();
        // Watch before looking, so that nothing in between is missed.
        folders.watch(&watched(&scope, &roots));
        let look = tokio::task::spawn_blocking(move || {
            let found = queues.summary(roots.iter().map(PathBuf::as_path));
            (queues, found)
        });
        let Ok((looked, found)) = look.await else {
            return;
        };
        queues = looked;
        if last.as_ref() != Some(&found) && out.send(found.clone()).is_err() {
            return;
        }
        last = Some(found);
        tokio::time::sleep(PAUSE).await;
        folders.changed().await;
    }
}

/// Where a project or a queue can appear, and the queues that exist.
fn watched(scope: &ProjectScope, roots: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let list = scope.list.as_ref().map(ProjectList::file);
    let list = list.and_then(|file| file.parent().map(Path::to_owned));
    let queues = roots.iter().flat_map(|root| {
        let [file, folder] = ProjectTasks::paths(root);
        let merges = root.join(worktrees::FOLDER);
        let merges = Some(merges).filter(|folder| folder.is_dir());
        let queue = if folder.is_dir() {
            vec![file, folder]
        } else {
            folder.parent().map(Path::to_owned).into_iter().collect()
        };
        queue.into_iter().chain(merges)
    });
    queues.chain(list).collect()
}

async fn follow_fleet(client: Client, nats: NatsConfig, out: mpsc::UnboundedSender<QueueSummary>) {
    loop {
        match FleetTasks::follow(&jetstream::new(client.clone()), &nats).await {
            Ok(tasks) => {
                if report(tasks, &out).await.is_none() {
                    return;
                }
            }
            Err(error) => tracing::info!("the queues of the server: {error}"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Reports the tasks until the connection fails. None if there is no receiver any more.
async fn report(mut tasks: FleetTasks, out: &mpsc::UnboundedSender<QueueSummary>) -> Option<()> {
    let mut known: BTreeMap<(String, String), QueuedTask> = BTreeMap::new();
    // When to report, if something has changed.
    let mut due: Option<Instant> = None;
    loop {
        let next = match due {
            Some(due) => tokio::time::timeout_at(due, tasks.next()).await,
            None => Ok(tasks.next().await),
        };
        match next {
            Ok(Ok((queue, key, Some(task)))) => {
                known.insert((queue, key), task);
                due.get_or_insert_with(|| Instant::now() + PAUSE);
            }
            Ok(Ok((queue, key, None))) => {
                if known.remove(&(queue, key)).is_some() {
                    due.get_or_insert_with(|| Instant::now() + PAUSE);
                }
            }
            Ok(Err(error)) => {
                tracing::info!("the queues of the server: {error}");
                return Some(());
            }
            Err(_) => {
                let tasks = known.iter().map(|((queue, _), task)| (queue, task));
                out.send(summary_of_fleet(tasks)).ok()?;
                due = None;
            }
        }
    }
}
