//! What the screen knows: the session as its records tell it, and where the person is looking.
//!
//! Holds no rule of a session: what can be asked, and what follows, is the engine's affair.

use std::collections::HashMap;

use ratatui::text::Line;

use super::{
    keymap::Keymap,
    modals::{Modal, editor::EditorModal, gate::GateModal},
    notification::TerminalFocus,
    replay::ReplayPlayer,
    runs::{HookRowId, HookRows, RunList},
    stream::SessionStream,
    theme::{ScreenTheme, ThemeRole},
    update::ScreenRequest,
    view,
};
use crate::{
    engine::{
        SessionState,
        event::{Event, GateEvent, HookEvent, PendingEvent, RetryEvent, SessionEvent, StopEvent},
        ids::ItemId,
        input::SessionCommand,
        tasks::{graph::TaskGraph, task::Task},
        time::UnixTime,
    },
    journal::Record,
    nats::status::NatsStatus,
    present::hook_stats::HookTallies,
    tui::{
        journal_feed::RecordSpan,
        task_board::{self, TaskBoard},
    },
};

/// A pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pane {
    /// What happens.
    Stream,
    /// What runs and ran.
    Hooks,
    /// What is held.
    Pending,
    /// How often a turn was sent back.
    Retries,
    /// What is to be done.
    Tasks,
}

impl Pane {
    /// All panes, in the order of the keys.
    pub const ALL: [Self; 5] = [Self::Stream, Self::Hooks, Self::Pending, Self::Retries, Self::Tasks];

    /// What it is called.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Stream => "Stream",
            Self::Hooks => "Hooks",
            Self::Pending => "Pending",
            Self::Retries => "Retries",
            Self::Tasks => "Tasks",
        }
    }
}

/// One retry, for the retries pane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryAttempt {
    /// The count.
    pub used: u32,
    /// The hook that blocked.
    pub hook: String,
    /// Why, in a line.
    pub reason: String,
    /// All that the agent was told.
    pub feedback: String,
    /// Whether it said the same as before.
    pub no_progress: bool,
}

/// Where the records come from.
#[derive(Debug)]
pub enum ScreenMode {
    /// A session that runs, and can be steered.
    Live,
    /// A past one.
    Replay(ReplayPlayer),
}

/// What becomes of a running session when the screen goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CloseBehavior {
    /// It ends with it.
    #[default]
    Close,
    /// It can go on.
    Loose,
}

/// A word to the person at the bottom of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toast {
    /// The word.
    pub text: String,
    /// How it looks.
    pub role: ThemeRole,
}

/// What was written and sent, by the command that it became.
#[derive(Debug, Default)]
pub struct SentDrafts(Vec<(SessionCommand, Box<EditorModal>)>);

impl SentDrafts {
    /// Keeps what became these requests: the first of them has the text.
    pub fn keep(&mut self, asks: &[ScreenRequest], editor: EditorModal) {
        let first = asks.iter().find_map(|ask| match ask {
            ScreenRequest::Command(command) => Some(command),
            ScreenRequest::InOrder(commands) => commands.first(),
            ScreenRequest::EditOutside(..)
            | ScreenRequest::Copy(_)
            | ScreenRequest::Leave
            | ScreenRequest::LeaveRunning
            | ScreenRequest::LeaveAtTheEnd
            | ScreenRequest::LeaveAtOnce
            | ScreenRequest::Suspend
            | ScreenRequest::Redraw
            | ScreenRequest::ReadOutput { .. }
            | ScreenRequest::Seek(_) => None,
        });
        self.0.extend(first.map(|command| (command.clone(), Box::new(editor))));
    }

    /// What became of this command is known now; gives what was written for it.
    pub fn take(&mut self, command: &SessionCommand) -> Option<Box<EditorModal>> {
        let at = self.0.iter().position(|(sent, _)| sent == command)?;
        Some(self.0.remove(at).1)
    }
}

/// Everything that the screen shows.
#[derive(Debug)]
pub struct ScreenModel {
    /// The session so far; nothing before its first record.
    pub session: Option<SessionState>,
    /// The story.
    pub stream: SessionStream,
    /// The runs of hooks.
    pub runs: RunList,
    /// How the hooks did.
    pub tallies: HookTallies,
    /// The retries since the last new message.
    pub attempts: Vec<RetryAttempt>,
    /// The pane that has the keys.
    pub focus: Pane,
    /// Whether it has the whole screen.
    pub zoomed: bool,
    /// The chosen row of the hooks.
    pub chosen_hook: usize,
    /// The chosen item.
    pub chosen_item: usize,
    /// How the tasks are looked at.
    pub board: TaskBoard,
    /// How many attempts, newest first, are scrolled out of sight.
    pub skipped_attempts: usize,
    /// What is laid over the panes; the last has the keys.
    pub modals: Vec<Modal>,
    /// The gate that was put aside, with what was chosen in it.
    pub aside: Option<Box<GateModal>>,
    /// A message that was begun and not sent, as long as no editor has it.
    pub draft: String,
    /// What was written and sent, as long as nobody said what became of it.
    pub sent: SentDrafts,
    /// What was searched for last.
    pub query: String,
    /// A word to the person.
    pub toast: Option<Toast>,
    /// The keys.
    pub keymap: Keymap,
    /// The looks.
    pub theme: ScreenTheme,
    /// Where records come from.
    pub mode: ScreenMode,
    /// What becomes of the session when the screen goes.
    pub tie: CloseBehavior,
    /// How it stands with a NATS server, if there is one.
    pub nats: Option<NatsStatus>,
    /// What time it is.
    pub now: UnixTime,
    /// When the last record was made.
    recorded: UnixTime,
    /// The screen's size.
    pub size: (u16, u16),
    /// Whether the user looks at the terminal.
    pub terminal_focus: TerminalFocus,
    /// Where each item's text lies in the journal: what was delivered is not kept in memory.
    pub item_spots: HashMap<ItemId, RecordSpan>,
    /// The lines of the stream that are in sight, made before each drawing.
    pub stream_lines: Vec<Line<'static>>,
    /// The size that those lines were made for.
    pub stream_size: (usize, usize),
}

impl ScreenModel {
    /// A screen before its first record.
    pub fn new(keymap: Keymap, theme: ScreenTheme, mode: ScreenMode) -> Self {
        Self {
            session: None,
            stream: SessionStream::default(),
            runs: RunList::default(),
            tallies: HookTallies::default(),
            attempts: Vec::new(),
            focus: Pane::Stream,
            zoomed: false,
            chosen_hook: 0,
            chosen_item: 0,
            board: TaskBoard::default(),
            skipped_attempts: 0,
            modals: Vec::new(),
            aside: None,
            draft: String::new(),
            sent: SentDrafts::default(),
            query: String::new(),
            toast: None,
            keymap,
            theme,
            mode,
            tie: CloseBehavior::default(),
            nats: None,
            now: UnixTime(0),
            recorded: UnixTime(0),
            size: (80, 24),
            terminal_focus: TerminalFocus::Unknown,
            item_spots: HashMap::new(),
            stream_lines: Vec::new(),
            stream_size: (80, 20),
        }
    }

    /// Forgets the session, but not where the person is looking: a replay goes back this way.
    pub fn start_over(&mut self) {
        self.session = None;
        self.board.forget();
        self.stream = SessionStream::default();
        self.runs = RunList::default();
        self.tallies = HookTallies::default();
        self.attempts.clear();
        self.item_spots.clear();
        self.modals.clear();
    }

    /// Takes in a record.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other records change no list of the screen")]
    pub fn take(&mut self, spot: RecordSpan, record: &Record) {
        match (&mut self.session, &record.event) {
            (Some(state), event) => state.apply(record.at, event),
            (None, Event::Session(SessionEvent::Started(began))) => {
                self.session = Some(SessionState::new(&record.session, (**began).clone(), record.at));
            }
            (None, _) => {}
        }
        if record.event.task_news().is_some() {
            self.board.forget();
        }
        self.recorded = record.at;
        self.stream.take(spot, record);
        let starts =
            matches!(record.event, Event::Hook(HookEvent::Started { .. }) | Event::Stop(StopEvent::RuleStarted { .. }));
        let chosen = starts.then(|| self.chosen_row()).flatten();
        self.runs.take(record);
        self.tallies.take(&record.event);
        match &record.event {
            Event::Retry(RetryEvent::Counted { used, hook, reason, no_progress, .. }) => {
                let feedback = self.session.as_ref().and_then(|state| state.retry.last_feedback.as_deref());
                let told = feedback.map(|text| text.trim_start_matches("[Hook feedback]: "));
                self.attempts.push(RetryAttempt {
                    used: *used,
                    hook: hook.clone(),
                    reason: reason.clone(),
                    feedback: told.unwrap_or(reason).to_owned(),
                    no_progress: *no_progress,
                });
            }
            Event::Session(SessionEvent::IterationStarted { .. }) => {
                self.attempts.clear();
                self.skipped_attempts = 0;
            }
            Event::Gate(GateEvent::Opened { .. }) => self.aside = None,
            Event::Pending(PendingEvent::Added { item, .. } | PendingEvent::Edited { item, .. }) => {
                self.item_spots.insert(*item, spot);
            }
            Event::Hook(HookEvent::Started { .. }) | Event::Stop(StopEvent::RuleStarted { .. }) => {
                let rows = self.hook_rows();
                let kept = chosen.and_then(|row| rows.find(&row)).unwrap_or(self.chosen_hook);
                self.chosen_hook = kept.min(rows.len().saturating_sub(1));
            }
            _ => {}
        }
    }

    /// The rows of the hooks.
    pub fn hook_rows(&self) -> HookRows<'_> {
        HookRows::new(&self.runs, self.session.as_ref())
    }

    /// The tasks and what depends on what.
    pub fn graph(&self) -> Option<&TaskGraph> {
        self.session.as_ref().map(|state| &state.tasks.graph)
    }

    /// The tasks in sight; nothing before there is a session.
    pub fn task_rows(&self) -> Option<task_board::TaskRows<'_>> {
        self.graph().map(|graph| self.board.rows(graph))
    }

    /// The chosen task.
    pub fn chosen_task(&self) -> Option<&Task> {
        let rows = self.task_rows()?;
        rows.get(self.board.position(rows)).map(|row| row.task)
    }

    /// The task that others are to wait for, if it is still there.
    pub fn marked_task(&self) -> Option<&Task> {
        self.graph()?.get(self.board.marked.as_deref()?)
    }

    /// Whether the session takes commands.
    pub fn is_steered(&self) -> bool {
        let over = self.session.as_ref().is_none_or(|state| state.outcome().is_some());
        matches!(self.mode, ScreenMode::Live) && !over
    }

    /// The row of the hooks that somebody has chosen. The newest run is the first, and chosen by nobody.
    fn chosen_row(&self) -> Option<HookRowId> {
        let by_somebody = self.chosen_hook > 0 || self.focus == Pane::Hooks;
        self.hook_rows().id(self.chosen_hook).filter(|_| by_somebody)
    }

    /// Opens the gate that waits, and closes one that does not any more.
    pub fn look_after_the_gate(&mut self) {
        let open = self.session.as_ref().and_then(|state| state.gates.open.clone());
        let waiting = self.session.as_ref().and_then(SessionState::gate_for_a_person).cloned();
        let live = matches!(self.mode, ScreenMode::Live);
        self.modals.retain(|modal| {
            let Modal::Gate(shown) = modal else { return true };
            open.as_ref().is_some_and(|gate| gate.id == shown.gate.id)
        });
        let shown =
            self.modals.iter_mut().filter_map(|modal| if let Modal::Gate(gate) = modal { Some(gate) } else { None });
        for gate in shown.chain(&mut self.aside) {
            if let Some(state) = &self.session {
                gate.look_at(&state.pending);
            }
        }
        // What the person is writing is not taken away: the status line says that a gate waits.
        let free = self.modals.is_empty();
        if let (Some(gate), Some(state), true) = (waiting, &self.session, free && live && self.aside.is_none()) {
            let modal = GateModal::open(gate, state, self.now);
            self.modals.push(Modal::Gate(Box::new(modal)));
        }
    }

    /// The screen has another size. A gate that comes into sight by that takes no answer in its first moment.
    pub fn resized(&mut self, size: (u16, u16)) {
        let had_room = view::has_room(std::mem::replace(&mut self.size, size));
        for modal in self.modals.iter_mut().filter(|_| !had_room) {
            if let Modal::Gate(gate) = modal {
                gate.shown_again(self.now);
            }
        }
    }

    /// The moment that is looked at: now, or when the last record of a past session was made.
    pub fn moment(&self) -> UnixTime {
        match &self.mode {
            ScreenMode::Live => self.now,
            ScreenMode::Replay(_) => self.recorded,
        }
    }

    /// A message waits to be gone on with, behind another one that does.
    pub fn keep_draft(&mut self, text: &str) {
        if !self.draft.is_empty() && !text.is_empty() {
            self.draft.push_str("\n\n");
        }
        self.draft.push_str(text);
    }

    /// Says something at the bottom of the screen.
    pub fn say(&mut self, role: ThemeRole, text: impl Into<String>) {
        self.toast = Some(Toast { text: text.into(), role });
    }

    /// When the screen changes by itself, if it does: times that are counted on it.
    pub fn next_tick(&self) -> Option<UnixTime> {
        if let ScreenMode::Replay(player) = &self.mode {
            return player.due();
        }
        let arming = self.modals.iter().find_map(|modal| {
            let Modal::Gate(gate) = modal else { return None };
            Some(gate.armed_at).filter(|at| *at > self.now)
        });
        if arming.is_some() {
            return arming;
        }
        let state = self.session.as_ref()?;
        let waits_for_a_person = state.gates.open.is_some() || state.outcome().is_some() || state.steering.paused;
        let asks = state.gates.open.is_some();
        let works = (state.turn_in_flight().is_some() && !asks) || state.running().next().is_some();
        // Nothing is counted at a gate: a session that waits draws nothing.
        let counts = works || (!waits_for_a_person && state.next_wake().is_some());
        counts.then(|| UnixTime(self.now.0 - self.now.0.rem_euclid(1_000) + 1_000))
    }
}
