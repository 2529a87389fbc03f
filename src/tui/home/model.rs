//! What the home screen shows: the sessions in order, the cursor, and what lies over them.
//!
//! # Invariants
//! - The cursor stays on its session while sessions come, go and change their place.
//! - The keys in the footer are those that do something for the session under the cursor.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    HomeRequest, HomeWorker,
    new_session::NewSessionForm,
    preview::{PreviewLine, WITH_PREVIEW},
};
use crate::{
    config::MotionMode,
    engine::{budget::CostTotal, queue::QueueCounts, time::UnixTime},
    present::{
        session_chip::ChipRole,
        session_list::{ListedSession, ListedState, SessionGroup},
        style::SPIN,
        text::counted as counted_words,
    },
    sessions::{
        BlockedTaskKey, SessionChange, SessionKey,
        queue_feed::{BoardTask, QueueSummary},
    },
    tui::{
        keymap::{HomeKey, Keymap, WorkerKey},
        modals::{help::HelpModal, question::ChoiceQuestion},
        model::Toast,
        theme::{ScreenLook, ScreenTheme, ThemeRole},
    },
};

const SECOND: i64 = 1_000;
/// In milliseconds. The times of files can be this much behind the clock.
const FILE_CLOCK: i64 = SECOND;
/// Rows. A smaller screen needs them for the list.
const WITH_DETAIL: u16 = 12;

/// Whose sessions the screen shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeScope {
    /// Those of this user on this machine.
    Machine,
    /// Those on all machines of a NATS server.
    Fleet,
}

/// A session on the screen.
#[derive(Debug, Clone)]
pub struct HomeRow {
    pub key: Arc<SessionKey>,
    pub session: Arc<ListedSession>,
}

/// What happened last in the selected session.
#[derive(Debug, Default)]
struct HomePreview {
    /// The row that was read, or is being read, as it was then.
    read: Option<(Arc<SessionKey>, Arc<ListedSession>)>,
    is_reading: bool,
    of: Option<Arc<SessionKey>>,
    lines: Vec<PreviewLine>,
}

/// A line of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeLine {
    /// How many tasks of the queues are in which state.
    Queue,
    Heading(SessionGroup),
    /// The row with this number.
    Session(usize),
    /// A part of a worker's board, with how many tasks it has.
    Board(BoardPart, usize),
    /// The task with this number in its part.
    Task(BoardPart, usize),
}

/// A part of a worker's board that has tasks without a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoardPart {
    Merge,
    Next,
}

impl BoardPart {
    pub const fn title(self) -> &'static str {
        match self {
            Self::Merge => "MERGE",
            Self::Next => "NEXT",
        }
    }
}

/// What a worker's screen shows beside its sessions.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct WorkerBoard {
    pub jobs: usize,
    pub agents: Vec<String>,
    pub merges: bool,
    pub drains: bool,
    pub is_paused: bool,
    /// Whether it takes no further task and ends with its last session.
    pub finishes: bool,
    pub started: UnixTime,
    pub done: usize,
    /// Finished work: what is tested now, what waits to be merged, then what was merged last.
    pub merge: Vec<(BoardTask, MergeState)>,
    /// The next tasks.
    pub next: Vec<BoardTask>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeState {
    /// The checks run since then.
    Tested {
        since: UnixTime,
    },
    Waits,
    Merged,
}

impl WorkerBoard {
    pub fn of(worker: &HomeWorker) -> Self {
        Self {
            jobs: worker.jobs,
            agents: worker.agents.clone(),
            merges: worker.merges,
            drains: worker.drains,
            started: worker.started,
            ..Self::default()
        }
    }

    fn take(&mut self, report: &QueueSummary) {
        self.done = report.done;
        let tested = report.tested.iter().map(|test| {
            let state = MergeState::Tested { since: test.since };
            (BoardTask::tested(test, &report.to_merge), state)
        });
        let is_tested = |task: &&BoardTask| {
            let mut tests = report.tested.iter();
            tests.any(|test| test.tasks.contains(&task.name))
        };
        let waits = report.to_merge.iter().filter(|task| !is_tested(task));
        let waits = waits.map(|task| (task.clone(), MergeState::Waits));
        let merged = report.merged.iter();
        let merged = merged.map(|task| (task.clone(), MergeState::Merged));
        self.merge = tested.chain(waits).chain(merged).collect();
        self.next.clone_from(&report.next);
    }

    fn tasks(&self, part: BoardPart) -> usize {
        match part {
            BoardPart::Merge => self.merge.len(),
            BoardPart::Next => self.next.len(),
        }
    }
}

/// What lies over the list and receives the keys.
#[derive(Debug)]
pub enum HomeModal {
    Help(HelpModal),
    Question(Box<ChoiceQuestion<HomeRequest>>),
    NewSession(Box<NewSessionForm>),
    /// The user types a filter.
    Filter,
    /// The user types what the agent of a blocked task should know.
    Hint(BlockedTaskKey, String),
}

/// What outlasts a visit to a session: the next home screen begins with it.
#[derive(Debug, Default)]
pub struct HomeMemory {
    sessions: BTreeMap<Arc<SessionKey>, Arc<ListedSession>>,
    queue: QueueCounts,
    cursor: Option<Arc<SessionKey>>,
    filter: String,
    /// When the home screen closed. What changed since is read again.
    left: Option<UnixTime>,
    /// What changed before, and was not read again.
    outdated: BTreeSet<SessionKey>,
    /// A message for the user.
    pub toast: Option<Toast>,
    /// What happens to the sessions when the user leaves creel now.
    pub farewell: Option<String>,
}

#[derive(Debug)]
pub struct HomeModel {
    pub look: ScreenLook,
    pub now: UnixTime,
    pub size: (u16, u16),
    pub scope: HomeScope,
    /// The worker that the sessions are of. It stops when the screen closes.
    pub worker: Option<WorkerBoard>,
    /// Whether the folder in which creel was started has a config.
    pub has_config: bool,
    /// The user's home folder, which paths leave out.
    pub home_dir: Option<String>,
    /// Whether the first report has arrived.
    pub is_loaded: bool,
    /// Whether the user has pressed a key. Until then the cursor is on the first row.
    pub is_used: bool,
    pub filter: String,
    pub toast: Option<Toast>,
    pub modal: Option<HomeModal>,
    sessions: BTreeMap<Arc<SessionKey>, Arc<ListedSession>>,
    preview: HomePreview,
    /// The tasks of all queues.
    queue: QueueCounts,
    /// The sessions that match the filter, in order.
    rows: Vec<HomeRow>,
    /// How many rows each group has, and how many sessions whatever the filter.
    row_counts: [usize; 3],
    session_counts: [usize; 3],
    /// What all sessions of today cost.
    cost_today: CostTotal,
    cursor: Option<Arc<SessionKey>>,
    /// Where the cursor is among the rows.
    at: usize,
    /// The first visible line.
    top: usize,
    /// When the home screen before this one closed.
    left: Option<UnixTime>,
    /// The sessions that ran while the home screen was closed. They show what was known before
    /// until they are read.
    outdated: BTreeSet<SessionKey>,
}

impl HomeModel {
    pub fn new(keymap: Keymap, theme: ScreenTheme, scope: HomeScope) -> Self {
        Self {
            look: ScreenLook::new(keymap, theme),
            now: UnixTime(0),
            size: (80, 24),
            scope,
            worker: None,
            has_config: false,
            home_dir: None,
            is_loaded: false,
            is_used: false,
            filter: String::new(),
            toast: None,
            modal: None,
            sessions: BTreeMap::new(),
            preview: HomePreview::default(),
            queue: QueueCounts::default(),
            rows: Vec::new(),
            row_counts: [0; 3],
            session_counts: [0; 3],
            cost_today: CostTotal::default(),
            cursor: None,
            at: 0,
            top: 0,
            left: None,
            outdated: BTreeSet::new(),
        }
    }

    /// Continues where the home screen was left.
    pub fn restore(&mut self, memory: &mut HomeMemory) {
        let HomeMemory {
            sessions,
            queue,
            cursor,
            filter,
            left,
            outdated,
            toast,
            farewell: _,
        } = std::mem::take(memory);
        self.is_loaded = !sessions.is_empty();
        self.is_used = self.is_loaded;
        (self.left, self.outdated, self.queue) = (left, outdated, queue);
        (self.sessions, self.cursor, self.filter, self.toast) = (sessions, cursor, filter, toast);
        self.arrange();
    }

    /// What happens to the sessions when the home screen closes, for the terminal. None if none is
    /// running.
    pub fn farewell(&self) -> Option<String> {
        let tasks = self.sessions.keys().filter(|key| is_task(key)).count();
        let listed = self.count(SessionGroup::NeedsYou) + self.count(SessionGroup::Running);
        let running = listed.saturating_sub(tasks);
        let is_local = self.scope == HomeScope::Machine && self.worker.is_none();
        let (verb, them) = if running == 1 {
            ("keeps", "it")
        } else {
            ("keep", "them")
        };
        let words = || {
            format!(
                "{} {verb} running; `creel` shows {them} again",
                counted_words(running, "session")
            )
        };
        (is_local && running > 0).then(words)
    }

    pub fn remember(self) -> HomeMemory {
        let (farewell, left) = (self.farewell(), Some(self.now));
        let Self {
            sessions,
            queue,
            cursor,
            filter,
            outdated,
            ..
        } = self;
        HomeMemory {
            sessions,
            queue,
            cursor,
            filter,
            left,
            outdated,
            toast: None,
            farewell,
        }
    }

    /// Takes the first report of a watcher: sessions that are not in it are gone.
    pub fn take_all(&mut self, changes: Vec<SessionChange>) {
        let before = std::mem::take(&mut self.sessions);
        let tasks = before.iter().filter(|(key, _)| is_task(key));
        self.sessions
            .extend(tasks.map(|(key, task)| (key.clone(), task.clone())));
        let left = self
            .left
            .map(|left| UnixTime(left.0.saturating_sub(FILE_CLOCK)));
        self.is_loaded = true;
        for change in changes {
            if let SessionChange::Seen(key, session) = change {
                // What was read already stays until it is read again, so that the keys in the
                // footer stay in place.
                let is_unread = matches!(session.state, ListedState::Unread);
                let known = before
                    .get(&key)
                    .filter(|known| is_unread && known.group() == SessionGroup::Ended);
                if known.is_some() && left.is_some_and(|left| session.changed >= left) {
                    self.outdated.insert(key.clone());
                }
                self.sessions.insert(
                    Arc::new(key),
                    known.cloned().unwrap_or_else(|| Arc::new(*session)),
                );
            }
        }
        self.arrange();
    }

    pub fn take(&mut self, changes: Vec<SessionChange>) {
        for change in changes {
            match change {
                SessionChange::Seen(key, session) => {
                    self.outdated.remove(&key);
                    self.sessions.insert(Arc::new(key), Arc::new(*session));
                }
                SessionChange::Removed(key) => {
                    self.sessions.remove(&key);
                }
            }
        }
        self.arrange();
    }

    /// Takes what the queues have now: blocked tasks need the user like sessions.
    pub fn take_queue(&mut self, report: QueueSummary) {
        self.queue = report.counts;
        if let Some(worker) = &mut self.worker {
            worker.take(&report);
        }
        self.sessions.retain(|key, _| !is_task(key));
        let blocked = report.blocked.into_iter();
        self.sessions
            .extend(blocked.map(|(key, task)| (Arc::new(key), Arc::new(task))));
        self.arrange();
        if !self.is_used {
            self.move_to(0);
        }
    }

    pub const fn queue(&self) -> QueueCounts {
        self.queue
    }

    /// Whether a line above the sessions says what the queues have.
    pub fn has_queue(&self) -> bool {
        self.worker.is_none() && self.queue != QueueCounts::default()
    }

    /// What the sessions of the worker cost so far, in dollars.
    pub fn worker_cost(&self) -> CostTotal {
        let started = self
            .worker
            .as_ref()
            .map_or(UnixTime(0), |worker| worker.started);
        let own = self.sessions.iter().filter(|(key, session)| {
            !is_task(key) && (session.group() != SessionGroup::Ended || session.changed >= started)
        });
        own.fold(CostTotal::default(), |all, (_, session)| {
            all.plus(session.cost)
        })
    }

    /// How many lines a worker's board has above the ended sessions.
    fn board_lines(&self) -> usize {
        let Some(worker) = &self.worker else {
            return 0;
        };
        let parts = [BoardPart::Merge, BoardPart::Next].map(|part| worker.tasks(part));
        parts
            .iter()
            .map(|tasks| tasks + usize::from(*tasks > 0))
            .sum()
    }

    /// A line of the board.
    fn board_line(&self, mut number: usize) -> Option<HomeLine> {
        let worker = self.worker.as_ref()?;
        for part in [BoardPart::Merge, BoardPart::Next] {
            let tasks = worker.tasks(part);
            if tasks == 0 {
                continue;
            }
            match number.checked_sub(1) {
                None => return Some(HomeLine::Board(part, tasks)),
                Some(nth) if nth < tasks => return Some(HomeLine::Task(part, nth)),
                Some(nth) => number = nth - tasks,
            }
        }
        None
    }

    /// The blocked task under the cursor.
    pub fn chosen_task(&self) -> Option<&BlockedTaskKey> {
        match &*self.chosen()?.key {
            SessionKey::Task(task) => Some(task),
            SessionKey::Here(_) | SessionKey::There { .. } => None,
        }
    }

    /// Puts the sessions that match the filter into order, and finds the cursor again.
    pub fn arrange(&mut self) {
        let matching = self
            .sessions
            .iter()
            .filter(|(_, session)| session.matches(&self.filter));
        self.rows = matching
            .map(|(key, session)| HomeRow {
                key: key.clone(),
                session: session.clone(),
            })
            .collect();
        self.rows
            .sort_by(|one, other| one.session.order(&other.session));
        self.row_counts = counted(self.rows.iter().map(|row| &*row.session));
        self.session_counts = counted(self.sessions.values().map(|session| &**session));
        self.cost_today = self
            .sessions
            .values()
            .map(|session| session.cost_today(self.now, &self.look.zone))
            .fold(CostTotal::default(), CostTotal::plus);
        let found = self
            .cursor
            .as_ref()
            .and_then(|cursor| self.rows.iter().position(|row| row.key == *cursor));
        self.move_to(found.unwrap_or(self.at));
    }

    pub fn rows(&self) -> &[HomeRow] {
        &self.rows
    }

    /// Whether there is no session at all.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    pub const fn position(&self) -> usize {
        self.at
    }

    pub fn chosen(&self) -> Option<&HomeRow> {
        self.rows.get(self.at)
    }

    pub fn move_to(&mut self, at: usize) {
        self.at = at.min(self.rows.len().saturating_sub(1));
        self.cursor = self.rows.get(self.at).map(|row| row.key.clone());
        self.scroll();
    }

    pub fn move_by(&mut self, by: isize) {
        self.move_to(self.at.saturating_add_signed(by));
    }

    /// The session to read for the preview, if its row has changed since it was read.
    pub fn preview_to_read(&mut self) -> Option<SessionKey> {
        let row = self
            .rows
            .get(self.at)
            .filter(|_| self.size.0 >= WITH_PREVIEW && !self.preview.is_reading)?;
        let is_known = self.preview.read.as_ref().is_some_and(|(key, session)| {
            Arc::ptr_eq(key, &row.key) && Arc::ptr_eq(session, &row.session)
        });
        if is_known || row.key.folder().is_none() {
            return None;
        }
        self.preview.read = Some((row.key.clone(), row.session.clone()));
        self.preview.is_reading = true;
        Some(SessionKey::clone(&row.key))
    }

    pub fn take_preview(&mut self, key: SessionKey, lines: Vec<PreviewLine>) {
        self.preview.is_reading = false;
        (self.preview.of, self.preview.lines) = (Some(Arc::new(key)), lines);
    }

    /// The lines of the selected session, as far as they are read.
    pub fn preview_lines(&self) -> &[PreviewLine] {
        let chosen = self.chosen().map(|row| &row.key);
        if chosen.is_some() && chosen == self.preview.of.as_ref() {
            &self.preview.lines
        } else {
            &[]
        }
    }

    /// How many lines the list has on the screen.
    pub fn height(&self) -> usize {
        usize::from(self.size.1.saturating_sub(2 + u16::from(self.has_detail())))
    }

    /// Whether a line below the list says more about the session under the cursor.
    pub fn has_detail(&self) -> bool {
        // The preview says it, too.
        self.size.1 >= WITH_DETAIL && self.size.0 < WITH_PREVIEW && !self.rows.is_empty()
    }

    /// The line with this number: each group that has rows begins with its heading.
    fn line(&self, mut number: usize) -> Option<HomeLine> {
        let mut before = 0;
        if self.has_queue() {
            match number.checked_sub(1) {
                None => return Some(HomeLine::Queue),
                Some(below) => number = below,
            }
        }
        for (group, rows) in SessionGroup::ALL
            .into_iter()
            .zip(self.row_counts)
            .filter(|(group, rows)| *rows > 0 || *group == SessionGroup::Ended)
        {
            if group == SessionGroup::Ended {
                let board = self.board_lines();
                if number < board {
                    return self.board_line(number);
                }
                number -= board;
            }
            if rows == 0 {
                continue;
            }
            match number {
                0 => return Some(HomeLine::Heading(group)),
                _ if number <= rows => return Some(HomeLine::Session(before + number - 1)),
                _ => (number, before) = (number - rows - 1, before + rows),
            }
        }
        None
    }

    /// The line on which the cursor is.
    fn cursor_line(&self) -> usize {
        let Some(chosen) = self.chosen() else {
            return 0;
        };
        let groups = SessionGroup::ALL.into_iter().zip(self.row_counts);
        let headings = groups.filter(|(group, rows)| *group <= chosen.session.group() && *rows > 0);
        let is_ended = chosen.session.group() == SessionGroup::Ended;
        let board = if is_ended { self.board_lines() } else { 0 };
        self.at + headings.count() + usize::from(self.has_queue()) + board
    }

    /// Keeps the cursor in sight, with its heading where it is the first of its group.
    fn scroll(&mut self) {
        let (line, height) = (self.cursor_line(), self.height().max(1));
        let total = self.rows.len()
            + SessionGroup::ALL.len()
            + usize::from(self.has_queue())
            + self.board_lines();
        let above = line.saturating_sub(1);
        self.top = self
            .top
            .min(above)
            .max((line + 1).saturating_sub(height))
            .min(total);
        if self.at == 0 {
            self.top = 0;
        }
    }

    /// The lines in sight, from the top of the list.
    pub fn in_view(&self) -> Vec<HomeLine> {
        (self.top..self.top + self.height())
            .map_while(|number| self.line(number))
            .collect()
    }

    /// The session on a row of the screen.
    pub fn row_at(&self, screen_row: u16) -> Option<usize> {
        let nth = usize::from(screen_row.checked_sub(1)?);
        match self.in_view().get(nth) {
            Some(HomeLine::Session(n)) => Some(*n),
            Some(
                HomeLine::Heading(_) | HomeLine::Queue | HomeLine::Board(..) | HomeLine::Task(..),
            )
            | None => None,
        }
    }

    /// The sessions in sight that have not been read yet, or not since they ran.
    pub fn unread_in_view(&self) -> Vec<SessionKey> {
        let rows = self.in_view().into_iter().filter_map(|line| match line {
            HomeLine::Session(n) => self.rows.get(n),
            HomeLine::Heading(_) | HomeLine::Queue | HomeLine::Board(..) | HomeLine::Task(..) => {
                None
            }
        });
        let is_unread = |row: &&HomeRow| matches!(row.session.state, ListedState::Unread);
        let unread = rows.filter(|row| is_unread(row) || self.outdated.contains(&*row.key));
        unread.map(|row| SessionKey::clone(&row.key)).collect()
    }

    /// How many sessions a group has, whatever the filter.
    pub const fn count(&self, group: SessionGroup) -> usize {
        self.session_counts[group as usize]
    }

    pub const fn cost_today(&self) -> CostTotal {
        self.cost_today
    }

    /// How many rows a group has.
    pub const fn row_count(&self, group: SessionGroup) -> usize {
        self.row_counts[group as usize]
    }

    /// When something on the screen moves next. None while nothing does.
    pub fn next_tick(&self) -> Option<UnixTime> {
        let rows = self.in_view().into_iter().filter_map(|line| match line {
            HomeLine::Session(n) => self.rows.get(n),
            HomeLine::Heading(_) | HomeLine::Queue | HomeLine::Board(..) | HomeLine::Task(..) => {
                None
            }
        });
        let tests = self.worker.as_ref().is_some_and(|worker| {
            let mut merges = worker.merge.iter();
            merges.any(|(_, state)| matches!(state, MergeState::Tested { .. }))
        });
        let running: Vec<HomeRow> = rows
            .filter(|row| row.session.has_clock())
            .cloned()
            .collect();
        if running.is_empty() && !tests {
            return None;
        }
        let spins = tests
            || running
                .iter()
                .any(|row| row.session.words(self.now, &self.look.zone).role == ChipRole::Working);
        let period = if spins && self.look.motion == MotionMode::Full {
            SPIN
        } else {
            SECOND
        };
        Some(UnixTime((self.now.0.div_euclid(period) + 1) * period))
    }

    pub fn say(&mut self, role: ThemeRole, text: impl Into<String>) {
        self.toast = Some(Toast {
            role,
            text: text.into(),
        });
    }

    /// The keys of a worker that do something now.
    pub fn worker_keys(&self) -> Vec<WorkerKey> {
        let Some(worker) = self.worker.as_ref().filter(|worker| !worker.finishes) else {
            return Vec::new();
        };
        let is_blocked = self.chosen_task().is_some();
        let waits = worker
            .merge
            .iter()
            .any(|(_, state)| *state == MergeState::Waits);
        let keys = [
            (WorkerKey::Hint, is_blocked),
            (WorkerKey::Retry, is_blocked),
            (WorkerKey::Merge, waits && !worker.merges),
            (WorkerKey::Pause, true),
            (WorkerKey::Drain, !worker.drains),
        ];
        let useful = keys.into_iter().filter(|(_, works)| *works);
        useful.map(|(key, _)| key).collect()
    }

    /// The keys that do something now, most useful first. Those for help and for leaving come last.
    pub fn useful_keys(&self) -> Vec<HomeKey> {
        let is_local = self.scope == HomeScope::Machine;
        if self.worker.is_some() && self.is_empty() {
            return Vec::new();
        }
        if self.is_empty() && self.is_loaded {
            let first = [
                (HomeKey::Demo, is_local),
                (HomeKey::Init, is_local && !self.has_config),
            ];
            let first = first.into_iter().chain([(HomeKey::New, is_local)]);
            return first
                .filter(|(_, works)| *works)
                .map(|(action, _)| action)
                .collect();
        }
        if let Some(task) = self.chosen_task() {
            let keys = [
                (HomeKey::Open, task.session.is_some()),
                (HomeKey::Answer, true),
                (HomeKey::New, is_local && self.worker.is_none()),
                (HomeKey::Resume, self.worker.is_none()),
                (HomeKey::Filter, true),
            ];
            let useful = keys.into_iter().filter(|(_, works)| *works);
            return useful.map(|(key, _)| key).collect();
        }
        let chosen = self
            .chosen()
            .map(|row| (row.session.group(), row.session.can_resume));
        let over = matches!(chosen, Some((SessionGroup::Ended, _)));
        let keys = [
            (HomeKey::Open, chosen.is_some()),
            (
                HomeKey::Answer,
                matches!(chosen, Some((SessionGroup::NeedsYou, _))),
            ),
            (HomeKey::New, is_local && self.worker.is_none()),
            (HomeKey::Stop, chosen.is_some() && !over),
            (
                HomeKey::Resume,
                is_local && matches!(chosen, Some((SessionGroup::Ended, true))),
            ),
            (HomeKey::Filter, true),
            (HomeKey::Remove, is_local && over),
            (HomeKey::Report, is_local && chosen.is_some()),
        ];
        keys.into_iter()
            .filter(|(_, works)| *works)
            .map(|(action, _)| action)
            .collect()
    }
}

fn is_task(key: &SessionKey) -> bool {
    matches!(key, SessionKey::Task(_))
}

/// How many sessions each group has.
fn counted<'a>(sessions: impl Iterator<Item = &'a ListedSession>) -> [usize; 3] {
    let mut counts = [0; 3];
    for session in sessions {
        counts[session.group() as usize] += 1;
    }
    counts
}
