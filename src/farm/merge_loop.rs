//! Runs the merge queue: once, or again whenever a task is finished.
//!
//! Owns the turns of several mergers of one queue, the messages to the user, and the changes of the queue. Does not
//! merge: see [`super::merge_queue`].
//!
//! # Invariants
//! - One creel at a time merges a queue. The others wait, and the next one takes over when it ends or dies.
//! - A reason that nothing is merged is said once, as long as it stays the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{runtime::Handle, sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{NatsConfig, Settings},
    engine::queue::{QueueRequest, QueuedTask, QueuedTaskState, TaskLanding},
    farm::{
        FarmError,
        merge_checks::CheckedStage,
        merge_queue::{GOAL, MergeResult, QueueMerger, in_order, is_due},
        open_place,
    },
    journal::session_dir::create_ignored,
    present::text::plain_line,
    process::{
        process_table::ProcessTable,
        run::{OutputStream, ProcessGroup, ProcessObserver},
    },
    protocol::process_origin::host,
    queue::{
        QueueError, QueuePlace, WatchedQueue,
        backend::{QueueFailure, QueueTaskKey},
        merger_lease::{MergerEntry, MergerLease, MergerTurn, MergerWatch},
    },
    runtime::now,
    worktrees::{FOLDER, ProjectRepository},
};

/// The exit code after a signal.
const INTERRUPTED: u8 = 130;
/// The exit code if only the user can help.
const NEEDS_USER: u8 = 4;
/// How often one that waits asks whether it is its turn.
const TURN_LOOK: Duration = Duration::from_millis(500);
/// After how long without a change all changes so far are read.
const QUIET: Duration = Duration::from_millis(10);
/// How often to look whether the base has moved, if it is in the way.
const BASE_LOOK: Duration = Duration::from_secs(3);
/// How often to try again what is in the way for other reasons, or with a remote.
const TRY_AGAIN: Duration = Duration::from_mins(1);
/// The longest wait after a failure.
const LONGEST: Duration = Duration::from_mins(1);
/// How much later than git this process can notice a signal that both got.
const SIGNAL_LAG: Duration = Duration::from_millis(100);
/// How many tasks are tested together by default.
pub(crate) const BATCH: usize = 4;

/// How a queue is merged.
pub(crate) struct MergeLoop {
    /// The project's folder.
    pub(crate) root: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) repository: ProjectRepository,
    /// The branch that is checked out at the start.
    pub(crate) home: Option<String>,
    pub(crate) nats: Option<NatsConfig>,
    /// How many tasks are tested together.
    pub(crate) batch: usize,
    /// How long it can be silent before another merger takes over.
    pub(crate) lease: Duration,
    /// Whether it waits for more tasks.
    pub(crate) watches: bool,
    /// How many failures in a row end it although it waits.
    pub(crate) patience: Option<u32>,
    /// Prints a message for the user.
    pub(crate) say: fn(&str),
    /// Prints the output of checks.
    pub(crate) echo: fn(&[u8]),
}

/// A task as it was completed.
type DoneRun = (QueueTaskKey, u32);

/// How far a merger is.
#[derive(Debug, Clone, Default)]
pub(crate) struct MergeProgress {
    /// The finished tasks that cannot be merged as everything is now.
    left: BTreeSet<DoneRun>,
}

impl MergeProgress {
    /// Whether nothing of these tasks is still to be merged.
    pub(crate) fn has_done<'a>(&self, mut tasks: impl Iterator<Item = &'a QueuedTask>) -> bool {
        tasks.all(|task| !is_due(task) || self.left.contains(&done_run(task)))
    }

    pub(crate) fn has_left(&self) -> bool {
        !self.left.is_empty()
    }
}

fn done_run(task: &QueuedTask) -> DoneRun {
    (QueueTaskKey::of(&task.order), task.run)
}

/// What one pass over the queue did.
#[derive(Default)]
struct PassEnd {
    code: u8,
    is_red: bool,
    has_merged: bool,
    was_stopped: bool,
    progress: MergeProgress,
}

/// The turn of a merger, until it is released.
struct MergeTurn {
    _folder: MergerLock,
    lease: Option<(Arc<MergerLease>, JoinHandle<()>)>,
    /// Cancelled if the merger has to stop.
    halt: CancellationToken,
}

impl MergeTurn {
    fn release(self, tokio: &Handle) {
        if let Some((lease, keeper)) = self.lease {
            keeper.abort();
            tokio.block_on(lease.release());
        }
    }
}

impl MergeLoop {
    /// Merges until there is nothing left, or until it is stopped. Returns the exit code. Blocks.
    pub(crate) fn run(
        &self,
        tokio: &Handle,
        stop: &CancellationToken,
        progress: &watch::Sender<MergeProgress>,
    ) -> Result<u8, FarmError> {
        let (mut failures, mut last) = (0, String::new());
        loop {
            let error = match self.run_until_failure((tokio, stop), progress, &mut failures) {
                Ok(code) => return Ok(code),
                Err(error) => error,
            };
            // Ctrl-C in a terminal also ends git.
            let stopped = async { tokio::time::timeout(SIGNAL_LAG, stop.cancelled()).await };
            if tokio.block_on(stopped).is_ok() {
                return Ok(INTERRUPTED);
            }
            failures += 1;
            if !self.watches || self.patience.is_some_and(|most| failures >= most) {
                return Err(error);
            }
            let why = error.to_string();
            if last != why {
                (self.say)(&format!("creel: merging: {why}; retrying"));
                last = why;
            }
            let wait = Duration::from_secs(1 << failures.min(6)).min(LONGEST);
            let waited = async { tokio::time::timeout(wait, stop.cancelled()).await };
            if tokio.block_on(waited).is_ok() {
                return Ok(INTERRUPTED);
            }
        }
    }

    fn run_until_failure(
        &self,
        (tokio, stop): (&Handle, &CancellationToken),
        progress: &watch::Sender<MergeProgress>,
        failures: &mut u32,
    ) -> Result<u8, FarmError> {
        let mut place = tokio.block_on(open_place(self.nats.as_ref(), &self.root))?;
        let queue = tokio.block_on(async { place.open(self.lease).await?.watched().await })?;
        if let Some(notice) = queue.queue.notice.as_ref().filter(|_| !self.watches) {
            (self.say)(&format!("creel: {notice}"));
        }
        let mut merging = Merging {
            options: self,
            tokio,
            stop,
            place,
            queue,
            reasons: BTreeMap::new(),
            red: BTreeSet::new(),
        };
        loop {
            let Some(turn) = merging.turn()? else {
                return Ok(if stop.is_cancelled() { INTERRUPTED } else { 0 });
            };
            let ended = merging.merge_in_turn(&turn.halt, progress, failures);
            turn.release(tokio);
            if let Some(code) = ended? {
                return Ok(code);
            }
            (self.say)("creel: another creel merges this queue now");
        }
    }
}

/// A merger with its queue open.
struct Merging<'a> {
    options: &'a MergeLoop,
    tokio: &'a Handle,
    stop: &'a CancellationToken,
    place: QueuePlace,
    queue: WatchedQueue,
    /// Why tasks are not merged, as it was said last.
    reasons: BTreeMap<QueueTaskKey, String>,
    /// What was said about the base.
    red: BTreeSet<String>,
}

impl Merging<'_> {
    /// Waits until no other creel merges this queue. None if it was stopped, or if nothing is left to merge
    /// by then.
    fn turn(&mut self) -> Result<Option<MergeTurn>, FarmError> {
        let mut folder = MergerLock::open(self.options)?;
        let (mut watch, mut announced) = (MergerWatch::default(), String::new());
        let entry = MergerEntry {
            merger: format!("{}-{:x}-{:x}", host(), std::process::id(), now().0),
            host: host(),
            lease: u64::try_from(self.options.lease.as_millis()).unwrap_or(u64::MAX),
        };
        while !self.stop.is_cancelled() {
            let other = if folder.is_taken() {
                let turn = self.queue.queue.merge(&mut watch, &entry);
                match self.tokio.block_on(turn)? {
                    None => return Ok(Some(self.begin(folder, None))),
                    Some(MergerTurn::Taken(lease)) => {
                        return Ok(Some(self.begin(folder, Some(Arc::from(lease)))));
                    }
                    Some(MergerTurn::Waits(host)) if host.is_empty() => host,
                    Some(MergerTurn::Waits(host)) => {
                        format!("another creel on {host} merges this queue")
                    }
                }
            } else {
                folder.other()
            };
            let is_over = !self.options.watches && !self.queue.tasks().any(is_due);
            if is_over {
                (self.options.say)("creel: no finished task is waiting to be merged");
                return Ok(None);
            }
            if !other.is_empty() && other != announced {
                (self.options.say)(&format!("creel: {other}; waiting"));
                announced = other;
            }
            self.wait(self.stop, Some(TURN_LOOK))?;
        }
        Ok(None)
    }

    fn begin(&self, folder: MergerLock, lease: Option<Arc<MergerLease>>) -> MergeTurn {
        let halt = self.stop.child_token();
        let lease = lease.map(|lease| {
            let (kept, lost) = (Arc::clone(&lease), halt.clone());
            let keeper = self.tokio.spawn(async move {
                kept.keep().await;
                lost.cancel();
            });
            (lease, keeper)
        });
        MergeTurn {
            _folder: folder,
            lease,
            halt,
        }
    }

    /// Merges what is finished. Returns an exit code, or None if the lease is lost.
    fn merge_in_turn(
        &mut self,
        halt: &CancellationToken,
        progress: &watch::Sender<MergeProgress>,
        failures: &mut u32,
    ) -> Result<Option<u8>, FarmError> {
        let options = self.options;
        let mut stage =
            CheckedStage::new(&options.root, &options.repository, self.tokio, options.say);
        stage.halt = halt.clone();
        let tips = self.queue.tasks().filter_map(|task| {
            let landed = task.landed()?;
            (landed.tip != landed.commit).then(|| (QueueTaskKey::of(&task.order), landed.tip))
        });
        let mut merger = QueueMerger {
            root: &options.root,
            settings: &options.settings,
            repository: &options.repository,
            say: options.say,
            stage,
            has_named_base: false,
            home: options.home.clone(),
            landed: tips.collect(),
        };
        merger.clear_merged(&self.all());
        if !options.watches && !self.queue.tasks().any(is_due) {
            (options.say)("creel: no finished task is waiting to be merged");
            return Ok(Some(0));
        }
        loop {
            // What was in the way before may not be any more.
            progress.send_replace(MergeProgress::default());
            self.catch_up()?;
            let end = self.pass(&mut merger)?;
            *failures = 0;
            if end.has_merged {
                merger.clear_merged(&self.all());
            }
            if end.was_stopped {
                return Ok(self.stop.is_cancelled().then_some(INTERRUPTED));
            }
            if !options.watches {
                return Ok(Some(if end.is_red { NEEDS_USER } else { end.code }));
            }
            progress.send_replace(end.progress.clone());
            self.rest(&merger, &end, halt)?;
            if halt.is_cancelled() {
                return Ok(self.stop.is_cancelled().then_some(INTERRUPTED));
            }
        }
    }

    /// Waits until there may be something to merge.
    fn rest(
        &mut self,
        merger: &QueueMerger<'_>,
        end: &PassEnd,
        halt: &CancellationToken,
    ) -> Result<(), FarmError> {
        let before = if end.progress.has_left() {
            Some(merger.default_base()?)
        } else {
            None
        };
        let since = Instant::now();
        let look = before.is_some().then_some(BASE_LOOK);
        while !halt.is_cancelled() && end.progress.has_done(self.queue.tasks()) {
            let looked = Instant::now();
            self.wait(halt, look)?;
            if let Some(before) = &before
                && looked.elapsed() >= BASE_LOOK
            {
                let base = merger.default_base()?;
                let is_near = base.remote.is_none();
                if base.commit != before.commit || is_near || since.elapsed() > TRY_AGAIN {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Waits for a change of the queue, for the end, or for as long as this.
    fn wait(
        &mut self,
        halt: &CancellationToken,
        most: Option<Duration>,
    ) -> Result<(), QueueFailure> {
        let Self { queue, place, .. } = self;
        let elapsed = async {
            match most {
                Some(most) => tokio::time::sleep(most).await,
                None => std::future::pending().await,
            }
        };
        self.tokio.block_on(async {
            tokio::select! {
                () = halt.cancelled() => Ok(()),
                changed = queue.changed() => changed,
                news = place.news() => news.map(drop),
                () = elapsed => Ok(()),
            }
        })
    }

    /// Reads all changes so far: what is finished by now can be merged together.
    fn catch_up(&mut self) -> Result<(), QueueFailure> {
        loop {
            let changed = async { tokio::time::timeout(QUIET, self.queue.changed()).await };
            match self.tokio.block_on(changed) {
                Ok(changed) => changed?,
                Err(_) => return Ok(()),
            }
        }
    }

    /// All tasks, in the order in which they were added.
    fn all(&self) -> Vec<QueuedTask> {
        let known = self
            .queue
            .tasks()
            .filter(|task| task.state.state().is_some());
        let mut all: Vec<QueuedTask> = known.cloned().collect();
        all.sort_by(|one, other| one.created_at.cmp(&other.created_at));
        all
    }

    /// Merges everything that can be merged now.
    fn pass(&mut self, merger: &mut QueueMerger<'_>) -> Result<PassEnd, FarmError> {
        let all = self.all();
        // What is neither merged nor only a label: a task that depends on it must wait.
        let mut unmerged: BTreeSet<QueueTaskKey> = all
            .iter()
            .filter(|task| task.merged.is_none() && (task.is_open() || task.branch.is_some()))
            .map(|task| QueueTaskKey::of(&task.order))
            .collect();
        let (mut due, mut end) = (in_order(all), PassEnd::default());
        let (board, tokio) = (Arc::clone(&self.queue.queue.board), self.tokio);
        let note = |task: &QueuedTask, landing: Option<&TaskLanding>| {
            let key = QueueTaskKey::of(&task.order);
            let Some(landing) = landing else {
                let seen = tokio.block_on(board.get(&key))?;
                return Ok(
                    seen.is_some_and(|seen| seen.task.is_same_run(task) && is_due(&seen.task))
                );
            };
            let change = |now: &QueuedTask| {
                now.landing_as(landing)
                    .filter(|landed| landed.is_same_run(task))
            };
            Ok(tokio.block_on(board.change(&key, change))?.is_some())
        };
        while let Some(first) = due.first() {
            if merger.stage.halt.is_cancelled() {
                end.was_stopped = true;
                break;
            }
            let waits = |task: &QueuedTask, on: &str| {
                unmerged.contains(&QueueTaskKey::of(&task.order).sibling(on))
            };
            let mut before = first.order.dependencies.iter();
            let results = if let Some(on) = before.find(|on| waits(first, on)) {
                let why = format!("it waits for task {on}");
                vec![(QueueTaskKey::of(&first.order), MergeResult::Held(why))]
            } else {
                let batch = merger.batch(&due, self.options.batch, waits)?;
                merger.merge(&batch, &note, &mut EchoedOutput(self.options.echo))?
            };
            for (key, result) in results {
                let is_it = |task: &QueuedTask| QueueTaskKey::of(&task.order) == key;
                if let Some(at) = due.iter().position(is_it) {
                    let task = due.remove(at);
                    if self.settle(&task, result, &mut end)? {
                        unmerged.remove(&key);
                    }
                }
            }
        }
        Ok(end)
    }

    /// Stores what happened to a task, and tells the user. Returns whether it is merged.
    fn settle(
        &mut self,
        task: &QueuedTask,
        result: MergeResult,
        end: &mut PassEnd,
    ) -> Result<bool, FarmError> {
        let (key, id, say) = (
            QueueTaskKey::of(&task.order),
            &task.order.id,
            self.options.say,
        );
        match result {
            MergeResult::Merged(commit) => {
                end.has_merged = true;
                self.note_merged(task, &commit)?;
                let short: String = commit.chars().take(10).collect();
                let goal = plain_line(&task.order.goal, GOAL);
                say(&format!("creel: merged task {id} ({goal}) as {short}"));
                return Ok(true);
            }
            MergeResult::Present(commit) => {
                self.note_merged(task, &commit)?;
                say(&format!(
                    "creel: task {id} has no commits that the base branch does not have"
                ));
                return Ok(true);
            }
            MergeResult::Stopped => end.was_stopped = true,
            MergeResult::RedBase(reason) => {
                end.is_red = true;
                end.progress.left.insert(done_run(task));
                self.say_red(id, &reason);
            }
            MergeResult::SentBack(reason) => {
                end.code = 1;
                self.send_back(task, reason)?;
            }
            MergeResult::Held(reason) => {
                end.code = 1;
                end.progress.left.insert(done_run(task));
                self.say_held(key, id, reason);
            }
            MergeResult::Later(reason) => {
                end.code = 1;
                self.say_held(key, id, reason);
            }
        }
        Ok(false)
    }

    fn note_merged(&mut self, task: &QueuedTask, commit: &str) -> Result<(), FarmError> {
        let key = &QueueTaskKey::of(&task.order);
        let board = Arc::clone(&self.queue.queue.board);
        let changed = board.change(key, |now| {
            now.merged_as(commit).filter(|now| now.is_same_run(task))
        });
        match self.tokio.block_on(changed)? {
            Some(seen) => self.queue.note(seen),
            None => self.read_again(key)?,
        }
        self.reasons.remove(key);
        Ok(())
    }

    /// Reads a task that another process has changed.
    fn read_again(&mut self, key: &QueueTaskKey) -> Result<(), FarmError> {
        let board = Arc::clone(&self.queue.queue.board);
        if let Some(seen) = self.tokio.block_on(board.get(key))? {
            self.queue.note(seen);
        }
        Ok(())
    }

    fn say_held(&mut self, key: QueueTaskKey, id: &str, reason: String) {
        if self.reasons.get(&key) != Some(&reason) {
            (self.options.say)(&format!("creel: task {id} is not merged: {reason}"));
            self.reasons.insert(key, reason);
        }
    }

    fn say_red(&mut self, id: &str, reason: &str) {
        let is_news = self.red.insert(reason.to_owned());
        let then = if self.options.watches {
            "creel looks again when it moves, and every ten minutes"
        } else {
            "Repair the base branch, then run `creel merge --queue` again"
        };
        let why = if is_news {
            format!(": {reason}\n  No task was sent back. {then}")
        } else {
            String::new()
        };
        if is_news || !self.options.watches {
            (self.options.say)(&format!(
                "creel: the base branch does not pass, so task {id} is not merged{why}"
            ));
        }
    }

    fn send_back(&mut self, task: &QueuedTask, reason: String) -> Result<(), FarmError> {
        let (key, id) = (QueueTaskKey::of(&task.order), &task.order.id);
        let why = plain_line(&reason, 200);
        let request = QueueRequest::SendBack {
            run: task.run,
            reason,
            limit: self.options.settings.base_plan.submit.queue.attempts,
        };
        let asked = self.queue.queue.ask(&key, &request, now());
        let what = match self.tokio.block_on(asked) {
            Ok(seen) => {
                let is_blocked = matches!(seen.task.state, QueuedTaskState::Blocked { .. });
                self.queue.note(seen);
                if is_blocked {
                    format!(
                        "is blocked: {why}\n  `creel task show --queue {id}` shows the output; \
                         `creel task start --queue {id}` gives it to the agent again"
                    )
                } else {
                    format!("goes back to the queue: {why}")
                }
            }
            Err(QueueError::Refused(_)) => {
                self.read_again(&key)?;
                "was changed by another command".to_owned()
            }
            Err(QueueError::Failed(failure)) => return Err(failure.into()),
            Err(
                error @ (QueueError::BadTask(_) | QueueError::Taken(_) | QueueError::Named { .. }),
            ) => {
                return Err(FarmError::Failed(error.to_string()));
            }
        };
        (self.options.say)(&format!("creel: task {id} {what}"));
        Ok(())
    }
}

/// The file whose lock says that a creel merges in this folder. The kernel releases it if that dies.
struct MergerLock {
    file: File,
    path: PathBuf,
    is_taken: bool,
}

impl MergerLock {
    fn open(options: &MergeLoop) -> Result<Self, FarmError> {
        let folder = options.root.join(FOLDER);
        let path = folder.join("merge-queue.lock");
        let opened = create_ignored(&folder).and_then(|()| {
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
        });
        let file = opened.map_err(|error| {
            FarmError::Failed(format!("cannot open {}: {error}", path.display()))
        })?;
        Ok(Self {
            file,
            path,
            is_taken: false,
        })
    }

    /// Takes the lock, unless another creel has it. The file names the process.
    fn is_taken(&mut self) -> bool {
        if !self.is_taken && self.file.try_lock().is_ok() {
            self.is_taken = true;
            // The number only helps the user.
            let _ = fs::write(&self.path, std::process::id().to_string());
        }
        self.is_taken
    }

    /// What the creel that has the lock does.
    fn other(&self) -> String {
        let pid = fs::read_to_string(&self.path).ok();
        let pid = pid.and_then(|pid| pid.trim().parse::<i32>().ok());
        let stat = pid.and_then(|pid| ProcessTable::of_system().stat(pid));
        match (pid, stat) {
            (Some(pid), Some(stat)) if stat.is_stopped => format!(
                "the creel that merges this queue (process {pid}) is stopped; continue it with \
                 `kill -CONT {pid}`, or end it with `kill -KILL {pid}`"
            ),
            (Some(pid), _) => {
                format!("another creel here (process {pid}) merges this queue")
            }
            (None, _) => "another creel here merges this queue".to_owned(),
        }
    }
}

/// Shows what a check prints.
struct EchoedOutput(fn(&[u8]));

impl ProcessObserver for EchoedOutput {
    fn started(&mut self, _: ProcessGroup) {}

    fn output(&mut self, _: OutputStream, bytes: &[u8]) {
        (self.0)(bytes);
    }
}
