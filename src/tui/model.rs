//! The state of the screen: the session as its records describe it, and what the user is looking
//! at.
//!
//! Contains no rules: the engine decides which commands are possible and what follows from them.

use std::{collections::HashMap, rc::Rc};

use ratatui::{layout::Rect, text::Line};

use super::{
    changes::ChangesModel,
    hints::HintModel,
    hook_rows::{HookOrder, HookRowId, HookRows},
    keymap::Keymap,
    memory::ScreenMemory,
    modals::{
        Modal,
        editor::{EditorModal, EditorPurpose},
        gate::GateModal,
        task_form::TaskForm,
    },
    replay::ReplayPlayer,
    runs::RunList,
    stream::{SessionStream, StreamPlace, TimelineCell},
    theme::{ScreenTheme, ThemeRole},
};
use crate::{
    config::MotionMode,
    engine::{
        SessionState,
        conversation::LimitCause,
        event::{Event, GateEvent, HookEvent, PendingEvent, RetryEvent, SessionEvent, StopEvent},
        gate::Gate,
        ids::{GateId, ItemId},
        input::SessionCommand,
        tasks::graph::{Task, TaskGraph},
        time::UnixTime,
    },
    journal::{Record, RecordSpan},
    present::{
        end_card::{EndCard, EndTally},
        hook_stats::HookTallies,
        session_chip::SessionTimes,
        style::SPIN,
        text::sentence_case,
    },
    process::playback_pace::{PlaybackMode, PlaybackPace},
    protocol::NatsStatus,
    text::is_shortened,
    tui::{
        request::{CloseBehavior, ScreenRequest},
        runs::{GateRun, RetryAttempt},
        task_board::{self, TaskBoard},
        terminal::TerminalFocus,
        theme::ScreenLook,
    },
};

/// Columns and rows. A smaller screen shows only a note.
const SMALLEST: (u16, u16) = (24, 6);

/// Whether a screen of this size can show anything.
pub const fn has_room(size: (u16, u16)) -> bool {
    size.0 >= SMALLEST.0 && size.1 >= SMALLEST.1
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pane {
    Stream,
    Hooks,
    Pending,
    Retries,
    Tasks,
}

impl Pane {
    /// In the order of the keys that focus them.
    pub const ALL: [Self; 5] = [
        Self::Stream,
        Self::Hooks,
        Self::Pending,
        Self::Retries,
        Self::Tasks,
    ];

    /// The key that focuses it.
    pub const fn number(self) -> u8 {
        match self {
            Self::Stream => 1,
            Self::Hooks => 2,
            Self::Pending => 3,
            Self::Retries => 4,
            Self::Tasks => 5,
        }
    }

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

#[derive(Debug)]
pub enum ScreenMode {
    /// A running session, which accepts commands.
    Live,
    Replay(ReplayPlayer),
}

/// The detail of the selected row, beside the panes of a wide screen.
#[derive(Debug, Clone)]
pub struct RowDetail {
    pub title: String,
    pub lines: Vec<Line<'static>>,
}

/// A message to the user at the bottom of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toast {
    pub text: String,
    pub role: ThemeRole,
}

/// What the user wrote and sent.
#[derive(Debug)]
pub enum SentDraft {
    Text(Box<EditorModal>),
    Task(Box<TaskForm>),
}

impl SentDraft {
    pub fn text(&self) -> String {
        match self {
            Self::Text(editor) => editor.text(),
            Self::Task(form) => form.text(),
        }
    }
}

/// What the user wrote and sent, with the commands that carry it and are not answered yet.
#[derive(Debug, Default)]
pub struct SentDrafts(Vec<(Vec<SessionCommand>, SentDraft)>);

impl SentDrafts {
    /// Remembers a draft until the session has accepted all of these commands.
    pub fn keep(&mut self, commands: Vec<SessionCommand>, draft: SentDraft) {
        self.0.push((commands, draft));
    }

    fn position(&self, command: &SessionCommand) -> Option<usize> {
        self.0.iter().position(|(sent, _)| sent.contains(command))
    }

    /// The session has accepted a command.
    pub fn accepted(&mut self, command: &SessionCommand) {
        let Some(at) = self.position(command) else {
            return;
        };
        self.0[at].0.retain(|sent| sent != command);
        self.0.retain(|(sent, _)| !sent.is_empty());
    }

    /// Removes and returns the draft of a command that the session did not accept.
    pub fn take(&mut self, command: &SessionCommand) -> Option<SentDraft> {
        let at = self.position(command)?;
        Some(self.0.remove(at).1)
    }
}

/// How the screen and the session belong together.
#[derive(Debug)]
pub struct SessionLink {
    pub mode: ScreenMode,
    /// What happens to the session when the screen closes.
    pub tie: CloseBehavior,
    /// None without a NATS server.
    pub nats: Option<NatsStatus>,
    /// The pace of a demo. None for other sessions.
    pub demo: Option<PlaybackPace>,
}

/// What the panes show, as far as the user has chosen it.
#[derive(Debug)]
pub struct PaneSelection {
    /// The pane that receives the keys.
    pub focus: Pane,
    /// Whether the focused pane fills the screen.
    pub zoomed: bool,
    /// Whether the mouse moves the line between the panes.
    pub drags: bool,
    /// The selected row of the hooks pane.
    pub hook: usize,
    /// The selected row of the pending pane.
    pub item: usize,
    /// Whether each delivered item has a row of its own.
    pub shows_delivered: bool,
    /// The selected attempt of the retries pane, counted from the newest.
    pub attempt: usize,
}

/// What was made for the next frame before it is drawn.
#[derive(Debug)]
pub struct PreparedFrame {
    /// The visible lines of the stream.
    pub lines: Vec<Line<'static>>,
    /// Where those lines are.
    pub places: Vec<StreamPlace>,
    /// The row under the cursor, if there is one.
    pub cursor: Option<StreamPlace>,
    /// The size that the lines were made for.
    pub size: (usize, usize),
    /// What the selected row is about, for wide screens.
    pub detail: Option<RowDetail>,
    /// The whole session, at the top of the stream.
    pub timeline: Option<ShownTimeline>,
}

/// The whole session in a row of signs.
#[derive(Debug, Clone)]
pub struct ShownTimeline {
    /// Where its cells are.
    pub place: Rect,
    pub cells: Rc<Vec<TimelineCell>>,
    /// How long the session has run. Empty in its first minute, and after its end.
    pub took: String,
    /// The cell at which the user reads. None at the end of the stream.
    pub here: Option<usize>,
}

/// What is counted over all records.
#[derive(Debug, Default)]
pub struct SessionTallies {
    pub hooks: HookTallies,
    pub end: EndTally,
    /// When the things that the header shows began.
    pub times: SessionTimes,
}

/// The texts that the user wrote.
#[derive(Debug, Default)]
pub struct MessageDrafts {
    /// An unsent message, while no editor shows it.
    pub unsent: String,
    /// The form of a question of the agent, with the text so far.
    pub form: Option<(GateId, String)>,
    /// Texts that were sent and not answered yet.
    pub sent: SentDrafts,
}

#[derive(Debug)]
pub struct ScreenModel {
    /// None before the first record.
    pub session: Option<SessionState>,
    pub link: SessionLink,
    pub stream: SessionStream,
    pub runs: RunList,
    /// The order of the hooks pane, made when a record changes it.
    hook_order: HookOrder,
    pub tallies: SessionTallies,
    /// Whether the user has closed the card at the end of the session.
    pub card_closed: bool,
    /// The retries in this iteration.
    pub attempts: Vec<RetryAttempt>,
    pub panes: PaneSelection,
    pub board: TaskBoard,
    pub changes: ChangesModel,
    /// What lasts longer than this screen.
    pub memory: ScreenMemory,
    pub hint: HintModel,
    /// The dialogs over the panes; the last one receives the keys.
    pub modals: Vec<Modal>,
    /// The gate that the user has closed without an answer, with the selections made in it.
    pub later_gate: Option<Box<GateModal>>,
    pub drafts: MessageDrafts,
    /// The last search.
    pub query: String,
    /// The size of a large text that creel has asked about before it copies it.
    pub copy_asked: Option<usize>,
    pub toast: Option<Toast>,
    /// What the last event has asked for.
    pub(super) requests: Vec<ScreenRequest>,
    pub look: ScreenLook,
    pub now: UnixTime,
    /// The time of the last record.
    recorded: UnixTime,
    /// Columns and rows.
    pub size: (u16, u16),
    pub terminal_focus: TerminalFocus,
    /// Where each item's text is in the journal, since the text of delivered items is not kept in
    /// memory.
    pub item_spots: HashMap<ItemId, RecordSpan>,
    pub frame: PreparedFrame,
}

impl ScreenModel {
    /// A screen before its first record.
    pub fn new(keymap: Keymap, theme: ScreenTheme, mode: ScreenMode) -> Self {
        Self {
            session: None,
            link: SessionLink {
                mode,
                tie: CloseBehavior::default(),
                nats: None,
                demo: None,
            },
            stream: SessionStream::default(),
            runs: RunList::default(),
            hook_order: HookOrder::default(),
            tallies: SessionTallies::default(),
            card_closed: false,
            attempts: Vec::new(),
            panes: PaneSelection {
                focus: Pane::Stream,
                zoomed: false,
                drags: false,
                hook: 0,
                item: 0,
                shows_delivered: false,
                attempt: 0,
            },
            board: TaskBoard::default(),
            changes: ChangesModel::default(),
            memory: ScreenMemory::default(),
            hint: HintModel::default(),
            modals: Vec::new(),
            later_gate: None,
            drafts: MessageDrafts::default(),
            query: String::new(),
            copy_asked: None,
            toast: None,
            requests: Vec::new(),
            look: ScreenLook::new(keymap, theme),
            now: UnixTime(0),
            recorded: UnixTime(0),
            size: (80, 24),
            terminal_focus: TerminalFocus::Unknown,
            item_spots: HashMap::new(),
            frame: PreparedFrame {
                lines: Vec::new(),
                places: Vec::new(),
                cursor: None,
                size: (80, 20),
                detail: None,
                timeline: None,
            },
        }
    }

    /// Clears the session, but not what the user is looking at. A replay steps back this way.
    pub fn start_over(&mut self) {
        self.session = None;
        self.board.forget();
        self.stream = SessionStream::in_zone(self.look.zone.clone());
        (self.runs, self.hook_order) = (RunList::default(), HookOrder::default());
        self.tallies = SessionTallies::default();
        self.changes = ChangesModel::default();
        self.attempts.clear();
        self.item_spots.clear();
        self.modals.clear();
        self.forget_hint();
    }

    /// Applies a record.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the other records change no list of the screen"
    )]
    pub fn take(&mut self, spot: RecordSpan, record: &Record) {
        match (&mut self.session, &record.event) {
            (Some(state), event) => state.apply(record.at, event),
            (None, Event::Session(SessionEvent::Started(began))) => {
                self.session = Some(SessionState::new(
                    &record.session,
                    (**began).clone(),
                    record.at,
                ));
            }
            (None, _) => {}
        }
        if record.event.task_news().is_some() {
            self.board.forget();
        }
        self.recorded = record.at;
        self.tallies.times.follow(record.at, &record.event);
        self.follow_hint(&record.event);
        self.stream.take(spot, record);
        let starts = matches!(
            record.event,
            Event::Hook(HookEvent::Started { .. }) | Event::Stop(StopEvent::RuleStarted { .. })
        );
        let chosen = starts.then(|| self.chosen_row()).flatten();
        self.runs.take(record);
        if starts
            || matches!(
                record.event,
                Event::Session(SessionEvent::Started(_)) | Event::Stop(_)
            )
        {
            self.order_hooks();
        }
        self.tallies.hooks.take(&record.event);
        self.tallies.end.take(record.at, &record.event);
        self.changes.take(&record.event);
        match &record.event {
            Event::Retry(RetryEvent::Counted {
                used,
                hook,
                reason,
                no_progress,
                ..
            }) => {
                let feedback = self
                    .session
                    .as_ref()
                    .and_then(|state| state.retry.last_feedback.as_deref());
                let text = feedback.map(|text| text.trim_start_matches("[Hook feedback]: "));
                let text = text.unwrap_or(reason).to_owned();
                self.attempts.push(RetryAttempt {
                    at: record.at,
                    used: *used,
                    hook: hook.clone(),
                    reason: reason.clone(),
                    // What was left out of a long output can differ.
                    is_repeated: *no_progress && !is_shortened(&text),
                    feedback: text,
                });
            }
            Event::Session(SessionEvent::IterationStarted { .. }) => {
                self.attempts.clear();
                self.panes.attempt = 0;
            }
            Event::Gate(GateEvent::Opened { .. }) => self.later_gate = None,
            Event::Pending(
                PendingEvent::Added { item, .. } | PendingEvent::Edited { item, .. },
            ) => {
                self.item_spots.insert(*item, spot);
            }
            Event::Hook(HookEvent::Started { .. }) | Event::Stop(StopEvent::RuleStarted { .. }) => {
                let rows = self.hook_rows();
                let kept = chosen
                    .and_then(|row| rows.find(&row))
                    .unwrap_or(self.panes.hook);
                self.panes.hook = kept.min(rows.len().saturating_sub(1));
            }
            _ => {}
        }
    }

    pub const fn hook_rows(&self) -> HookRows<'_> {
        HookRows::new(&self.hook_order, &self.runs, self.session.as_ref())
    }

    /// Makes the order of the hooks pane, for the session and the runs as they are now.
    pub(super) fn order_hooks(&mut self) {
        self.hook_order = HookOrder::new(&self.runs, self.session.as_ref());
    }

    pub fn graph(&self) -> Option<&TaskGraph> {
        self.session.as_ref().map(|state| &state.tasks.graph)
    }

    pub fn has_tasks(&self) -> bool {
        self.graph().is_some_and(|graph| !graph.is_empty())
    }

    /// None before there is a session.
    pub fn task_rows(&self) -> Option<task_board::TaskRows<'_>> {
        self.graph().map(|graph| self.board.rows(graph))
    }

    pub fn chosen_task(&self) -> Option<&Task> {
        let rows = self.task_rows()?;
        rows.get(self.board.position(rows)).map(|row| row.task)
    }

    /// The task that other tasks are to wait for, if it still exists.
    pub fn marked_task(&self) -> Option<&Task> {
        self.graph()?.get(self.board.marked.as_deref()?)
    }

    /// Whether the session accepts commands.
    pub fn is_steered(&self) -> bool {
        let over = self
            .session
            .as_ref()
            .is_none_or(|state| state.phase.outcome().is_some());
        matches!(self.link.mode, ScreenMode::Live) && !over
    }

    /// The hook row that the user selected. None if the selection is only the default, the first
    /// row.
    fn chosen_row(&self) -> Option<HookRowId> {
        let by_somebody = self.panes.hook > 0 || self.panes.focus == Pane::Hooks;
        self.hook_rows()
            .nth(self.panes.hook)
            .map(|row| row.id())
            .filter(|_| by_somebody)
    }

    /// Opens the gate that waits for the user, and closes dialogs that are about something past.
    pub fn look_after_the_gate(&mut self) {
        let open = self
            .session
            .as_ref()
            .and_then(|state| state.gates.open.clone());
        let (is_steered, works) = (self.is_steered(), self.works());
        self.modals.retain(|modal| match modal {
            Modal::Gate(shown) => open.as_ref().is_some_and(|gate| gate.id == shown.gate.id),
            // The session or the turn that the question is about is over.
            Modal::Quit(_) => is_steered,
            Modal::Cancel(_) => works,
            Modal::Editor(_)
            | Modal::TaskForm(_)
            | Modal::Viewer(_)
            | Modal::Diff(_)
            | Modal::Help(_)
            | Modal::Palette(_)
            | Modal::Search(_)
            | Modal::Remove(_) => true,
        });
        let shown = self.modals.iter_mut().filter_map(|modal| {
            if let Modal::Gate(gate) = modal {
                Some(gate)
            } else {
                None
            }
        });
        for gate in shown.chain(&mut self.later_gate) {
            if let Some(state) = &self.session {
                gate.look_at(state);
            }
        }
        // Do not interrupt the user's typing: the status line says that a gate waits.
        if self.modals.is_empty() && self.later_gate.is_none() {
            self.open_gate();
        }
    }

    /// The gate that waits for the user, if the session is live.
    pub fn waiting_gate(&self) -> Option<&Gate> {
        let session = self
            .session
            .as_ref()
            .filter(|_| matches!(self.link.mode, ScreenMode::Live))?;
        session.permissions().gate_for_a_person()
    }

    /// Shows the gate that waits for the user over everything else, unless it is visible already.
    pub fn open_gate(&mut self) {
        let shown = self
            .modals
            .iter()
            .any(|modal| matches!(modal, Modal::Gate(_)));
        let (Some(gate), Some(state), false) = (self.waiting_gate().cloned(), &self.session, shown)
        else {
            return;
        };
        let runs = GateRun::list(&gate, state, &self.runs, &self.attempts);
        let modal = GateModal::open(gate, state, runs, self.now);
        self.modals.push(Modal::Gate(Box::new(modal)));
    }

    /// Applies a new screen size. A gate that becomes visible this way accepts no answer for a
    /// moment.
    pub fn resized(&mut self, size: (u16, u16)) {
        let had_room = has_room(std::mem::replace(&mut self.size, size));
        for modal in self.modals.iter_mut().filter(|_| !had_room) {
            if let Modal::Gate(gate) = modal {
                gate.shown_again(self.now);
            }
        }
    }

    /// The whole screen.
    pub const fn area(&self) -> Rect {
        let (width, height) = self.size;
        Rect {
            x: 0,
            y: 0,
            width,
            height,
        }
    }

    /// Puts a dialog over everything else.
    pub fn lay_over(&mut self, modal: Modal) {
        self.modals.push(modal);
    }

    /// Asks for something that the screen cannot do itself.
    pub fn request(&mut self, request: ScreenRequest) {
        self.requests.push(request);
    }

    /// Whether the session accepts commands. If it is a replay, the screen says so.
    pub fn is_live(&mut self) -> bool {
        let live = matches!(self.link.mode, ScreenMode::Live);
        if !live {
            self.say(ThemeRole::Faint, "this is a replay: you cannot control it");
        }
        live
    }

    /// The displayed time: now, or the time of the last shown record in a replay.
    pub fn moment(&self) -> UnixTime {
        match &self.link.mode {
            ScreenMode::Live => self.now,
            ScreenMode::Replay(_) => self.recorded,
        }
    }

    /// The displayed time while something works, else that of the last record.
    pub fn last_moved(&self) -> UnixTime {
        if self.works() {
            self.moment()
        } else {
            self.recorded
        }
    }

    /// Saves an unsent message, after any other that is already saved. A form is kept for its own
    /// gate.
    pub fn keep_draft(&mut self, purpose: &EditorPurpose, text: &str) {
        if let (EditorPurpose::Answer(gate), Some((of, form))) = (purpose, &mut self.drafts.form)
            && gate == of
        {
            text.clone_into(form);
            return;
        }
        if !self.drafts.unsent.is_empty() && !text.is_empty() {
            self.drafts.unsent.push_str("\n\n");
        }
        self.drafts.unsent.push_str(text);
    }

    /// Shows a message at the bottom of the screen.
    pub fn say(&mut self, role: ThemeRole, text: impl Into<String>) {
        self.toast = Some(Toast {
            text: sentence_case(&text.into()),
            role,
        });
    }

    /// When the screen next changes by itself, because it shows a running time or a replay.
    pub fn next_tick(&self) -> Option<UnixTime> {
        let moves = self.next_motion();
        let reads = self.changes_due();
        moves.into_iter().chain(reads).min()
    }

    fn next_motion(&self) -> Option<UnixTime> {
        if let ScreenMode::Replay(player) = &self.link.mode {
            let spins = player.is_playing() && self.look.motion == MotionMode::Full && self.works();
            return player.due().map(|due| {
                if spins {
                    due.min(self.next_beat(SPIN))
                } else {
                    due
                }
            });
        }
        let arming = self.modals.iter().find_map(|modal| {
            let Modal::Gate(gate) = modal else {
                return None;
            };
            Some(gate.armed_at).filter(|at| *at > self.now)
        });
        if arming.is_some() {
            return arming;
        }
        let state = self.session.as_ref()?;
        if self
            .plays_demo()
            .is_some_and(|pace| pace.mode == PlaybackMode::Paused)
        {
            return None;
        }
        if self.works() {
            let period = match self.look.motion {
                MotionMode::Full => SPIN,
                MotionMode::Reduced => SECOND,
            };
            return Some(self.next_beat(period));
        }
        // No time runs at a gate, so a session that waits for the user draws nothing.
        let waits_for_a_person =
            state.gates.open.is_some() || state.phase.outcome().is_some() || state.steering.paused;
        let is_long = state
            .limits
            .hold
            .as_ref()
            .is_some_and(|hold| hold.cause != LimitCause::Outage);
        let period = if is_long { MINUTE } else { SECOND };
        (!waits_for_a_person && state.next_wake().is_some()).then(|| self.next_beat(period))
    }

    /// The card at the end of the session, until the user closes it.
    pub fn end_card(&self) -> Option<EndCard> {
        self.tallies.end.card(
            self.session.as_ref().filter(|_| !self.card_closed)?,
            &self.tallies.hooks,
        )
    }

    /// Whether an agent or a hook works at this moment.
    pub fn works(&self) -> bool {
        let Some(state) = &self.session else {
            return false;
        };
        let turn = state.phase.turn_in_flight().is_some() && state.gates.open.is_none();
        turn || state.commands().running().next().is_some()
    }

    fn next_beat(&self, period: i64) -> UnixTime {
        UnixTime(self.now.0 - self.now.0.rem_euclid(period) + period)
    }
}

/// In milliseconds.
const SECOND: i64 = 1_000;
const MINUTE: i64 = 60_000;
