//! The events of a session as blocks, and the rows of the visible ones.
//!
//! Owns the content of the stream and the scroll position. The work is proportional to what is
//! visible: a block becomes rows only when it comes into view, and a position is a block and a row
//! in it, never a count of all rows.
//!
//! # Invariants
//! - Nothing that an agent or a hook prints looks like a row of creel: what the agent says has a
//!   gutter, other output is indented, and creel's rows begin at the left edge with a sign.
//! - While the view does not follow the end, new blocks do not move it.
//! - The text in memory is bounded; older text is read back from the journal.
//! - The live end of a very long answer is the last block, and is removed before the next record is
//!   applied.

mod movement;
mod parts;
mod rows;
mod timeline;

pub use movement::{SearchHit, SearchStep, StreamJump};
pub use timeline::TimelineCell;

use movement::SearchCounts;

use std::collections::{HashMap, VecDeque};

use jiff::tz::TimeZone;

use crate::{
    engine::{
        event::{
            ActorKind, Event, GateEvent, HookEvent, PendingEvent, PipelineEvent, SessionEvent,
            SteeringEvent, StopEvent, TurnEvent,
        },
        ids::{RunId, TurnId},
        time::UnixTime,
    },
    journal::{Record, RecordSpan},
    present::{
        describe::{Described, DetailText, EventContext, EventTone, describe, details},
        text::brief_span,
    },
    tui::{
        stream::{
            parts::{PartColumns, StreamPart},
            rows::{BlockRows, LiveAnswerTail, size},
            timeline::SessionTimeline,
        },
        theme::{ScreenTheme, ThemeRole},
    },
};

/// How many bytes of text stay in memory; older text is read again when it is needed.
const KEPT: usize = 16 << 20;
/// A block of agent text ends at the first line end after this many bytes, so that its rows stay
/// cheap to make.
const LONG_BLOCK: usize = 8 << 10;
/// Reads a record again.
pub type RecordLoader<'a> = &'a dyn Fn(RecordSpan) -> Option<Record>;

/// What rows depend on, apart from the blocks.
#[derive(Clone, Copy)]
pub struct StreamViewport<'a> {
    pub width: usize,
    pub height: usize,
    pub theme: &'a ScreenTheme,
    pub reload: RecordLoader<'a>,
}

/// A row of a block. It stays valid while other blocks come and go below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamPlace {
    pub block: usize,
    pub row: usize,
}

/// How much of a block's text is visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockFold {
    /// Only its first line.
    Closed,
    /// The end of a long output.
    End,
    Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// The session started, was resumed, or ended.
    Session,
    Iteration,
    /// A submit or a merge began.
    Pipeline,
    Prompt,
    Message,
    Thought,
    Tool,
    /// A permission request of the agent.
    Request,
    Plan,
    Hook,
    /// What the user says to the agent.
    Yours,
    /// Anything else, in one line.
    Note,
}

#[derive(Debug, Clone)]
pub struct StreamBlock {
    pub kind: BlockKind,
    /// When it began.
    pub at: UnixTime,
    /// The first line.
    pub head: String,
    /// How long it took, at the right of the first line. Empty if that is not known.
    pub took: String,
    pub role: ThemeRole,
    /// Whether something went wrong, for the keys that jump to errors.
    pub error: bool,
    pub fold: BlockFold,
    body: BlockBody,
    spots: Vec<RecordSpan>,
    turn: Option<TurnId>,
    /// The run of a hook or a rule that the block is about.
    run: Option<RunId>,
    revision: u32,
}

impl StreamBlock {
    /// Whether an iteration, a submit or a merge begins with it.
    pub const fn begins_part(&self) -> bool {
        matches!(self.kind, BlockKind::Iteration | BlockKind::Pipeline)
    }
}

#[derive(Debug, Clone)]
enum BlockBody {
    None,
    Text(Vec<DetailText>),
    OnDisk,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamPosition {
    /// At the end: new blocks push old ones up.
    Follow,
    /// This row of this block is the first visible one.
    At { block: usize, row: usize },
}

/// What the keys that jump can find.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamLandmarks {
    /// Iterations, submits and merges.
    pub parts: usize,
    pub errors: usize,
}

#[derive(Debug)]
pub struct SessionStream {
    pub landmarks: StreamLandmarks,
    blocks: Vec<StreamBlock>,
    position: StreamPosition,
    /// The row under the cursor. None: the last one.
    cursor: Option<StreamPlace>,
    zone: TimeZone,
    tools: HashMap<String, usize>,
    runs: HashMap<RunId, usize>,
    /// The block of the newest plan.
    plan: Option<usize>,
    /// The block of the gate that opened last.
    gate: Option<usize>,
    context: EventContext,
    /// Blocks with their text in memory, oldest first.
    loaded: VecDeque<usize>,
    loaded_bytes: usize,
    rows: HashMap<usize, BlockRows>,
    matches: SearchCounts,
    fold_thoughts: bool,
    live_end: LiveAnswerTail,
    /// The parts, oldest first.
    parts: Vec<StreamPart>,
    /// Iterations that stayed open because the user had scrolled back.
    kept: Vec<usize>,
    part_columns: PartColumns,
    timeline: SessionTimeline,
}

/// Whether other rows say what an event says: the hook's row that its output is piped, the prompt's
/// row that it carries items, and the pending pane both.
const fn is_seen_elsewhere(event: &Event) -> bool {
    matches!(
        event,
        Event::Pending(PendingEvent::Added { .. } | PendingEvent::Delivered { .. })
    )
}

impl Default for SessionStream {
    fn default() -> Self {
        Self {
            landmarks: StreamLandmarks::default(),
            blocks: Vec::new(),
            position: StreamPosition::Follow,
            cursor: None,
            zone: TimeZone::UTC,
            tools: HashMap::new(),
            runs: HashMap::new(),
            plan: None,
            gate: None,
            context: EventContext::default(),
            loaded: VecDeque::new(),
            loaded_bytes: 0,
            rows: HashMap::new(),
            matches: SearchCounts::default(),
            fold_thoughts: true,
            live_end: LiveAnswerTail::default(),
            parts: Vec::new(),
            kept: Vec::new(),
            part_columns: PartColumns::default(),
            timeline: SessionTimeline::default(),
        }
    }
}

impl SessionStream {
    /// An empty stream that shows times in this zone.
    pub fn in_zone(zone: TimeZone) -> Self {
        Self {
            zone,
            ..Self::default()
        }
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub fn position(&self) -> StreamPosition {
        self.position
    }

    /// Applies a record.
    pub fn take(&mut self, spot: RecordSpan, record: &Record) {
        let at = record.at;
        let event = &record.event;
        self.hide_live_end();
        self.live_end.count(event);
        self.count_part(at, event);
        if let Event::Turn(TurnEvent::AgentSaid { turn, text, .. }) = event {
            self.speak(BlockKind::Message, at, *turn, text, spot);
        } else if let Event::Turn(TurnEvent::AgentThought { turn, text, .. }) = event {
            self.speak(BlockKind::Thought, at, *turn, text, spot);
        } else if let Some(described) =
            describe(event, &self.context).filter(|_| !is_seen_elsewhere(event))
        {
            let new = event_block(at, event, &described);
            self.place(new, described.detail, event, spot);
        }
        let last = self.blocks.len().saturating_sub(1);
        self.note_part(at, event, last);
        self.timeline.take(event, last);
        self.context.follow(event);
    }

    /// Adds the block of an event. A tool call, a hook and a rule each keep the block in which they
    /// began.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the blocks of all other records are simply added"
    )]
    fn place(
        &mut self,
        mut new: StreamBlock,
        detail: Vec<DetailText>,
        event: &Event,
        spot: RecordSpan,
    ) {
        match event {
            Event::Turn(
                TurnEvent::ToolCalled { tool, .. } | TurnEvent::ToolUpdated { tool, .. },
            ) => {
                let known = self.tools.get(&tool.call).copied();
                if let Some(index) = known {
                    let began = self.blocks[index].at;
                    new.took = brief_span(new.at.since(began));
                    new.at = began;
                }
                let index = self.put(known, new, detail, spot);
                self.tools.insert(tool.call.clone(), index);
            }
            Event::Turn(TurnEvent::AgentPlanned { .. }) => self.planned(new, detail, spot),
            Event::Hook(HookEvent::Started { run, .. })
            | Event::Stop(StopEvent::RuleStarted { run, .. }) => {
                let index = self.put(
                    None,
                    StreamBlock {
                        run: Some(*run),
                        ..new
                    },
                    detail,
                    spot,
                );
                self.runs.insert(*run, index);
            }
            Event::Hook(HookEvent::Finished(finished)) => {
                let known = self.runs.remove(&finished.run);
                self.put(
                    known,
                    StreamBlock {
                        run: Some(finished.run),
                        ..new
                    },
                    detail,
                    spot,
                );
            }
            Event::Stop(StopEvent::RuleChecked { run, .. }) => {
                let known = self.runs.remove(run);
                self.put(
                    known,
                    StreamBlock {
                        run: Some(*run),
                        ..new
                    },
                    detail,
                    spot,
                );
            }
            Event::Gate(GateEvent::Opened { .. }) => {
                self.gate = Some(self.put(None, new, detail, spot));
            }
            Event::Gate(GateEvent::Answered { by, .. }) if by.by == ActorKind::Policy => {
                // creel has answered it: it needs no look.
                let opened = self.gate.take().and_then(|at| self.blocks.get_mut(at));
                if let Some(opened) = opened {
                    opened.role = ThemeRole::Faint;
                    opened.revision += 1;
                }
                self.put(None, new, detail, spot);
            }
            Event::Turn(TurnEvent::PromptSent(_)) => {
                // Tool calls of the last turn get no more updates, and an agent may use their ids
                // again.
                self.tools.clear();
                self.put(None, new, detail, spot);
            }
            _ => {
                self.put(None, new, detail, spot);
            }
        }
    }

    /// Adds a plan and folds the one before, unless the user has scrolled back: then nothing
    /// visible may move.
    fn planned(&mut self, new: StreamBlock, detail: Vec<DetailText>, spot: RecordSpan) {
        let before = self
            .plan
            .filter(|_| self.position == StreamPosition::Follow);
        if let Some(before) = before.and_then(|index| self.blocks.get_mut(index)) {
            before.fold = BlockFold::Closed;
            before.revision += 1;
        }
        self.plan = Some(self.put(None, new, detail, spot));
    }

    fn speak(&mut self, kind: BlockKind, at: UnixTime, turn: TurnId, text: &str, spot: RecordSpan) {
        let goes_on = self.blocks.last().is_some_and(|last| {
            let ends = |parts: &[DetailText]| parts.last().is_some_and(|part| part.text.ends_with('\n'));
            let long = matches!(&last.body, BlockBody::Text(parts) if size(parts) > LONG_BLOCK && ends(parts));
            last.kind == kind && last.turn == Some(turn) && !long
        });
        if goes_on && let Some(last) = self.blocks.last_mut() {
            last.spots.push(spot);
            last.revision += 1;
            if let BlockBody::Text(parts) = &mut last.body
                && let Some(part) = parts.last_mut()
            {
                part.text.push_str(text);
                self.loaded_bytes += text.len();
            }
        } else {
            let head = if kind == BlockKind::Thought {
                "… Thinking".into()
            } else {
                String::new()
            };
            let role = if kind == BlockKind::Thought {
                ThemeRole::Faint
            } else {
                ThemeRole::Text
            };
            let closed = kind == BlockKind::Thought && self.fold_thoughts;
            let fold = if closed {
                BlockFold::Closed
            } else {
                BlockFold::Open
            };
            let new = StreamBlock {
                turn: Some(turn),
                fold,
                ..block(kind, at, head, role)
            };
            self.put(None, new, vec![DetailText::words(text)], spot);
        }
        self.forget_old_text();
    }

    /// Adds a block, or replaces an earlier one.
    fn put(
        &mut self,
        known: Option<usize>,
        mut new: StreamBlock,
        parts: Vec<DetailText>,
        spot: RecordSpan,
    ) -> usize {
        let index = known.unwrap_or(self.blocks.len());
        self.landmarks.errors += usize::from(new.error);
        self.landmarks.parts += usize::from(new.begins_part());
        if let Some(old) = self.blocks.get(index) {
            self.landmarks.errors -= usize::from(old.error);
            self.landmarks.parts -= usize::from(old.begins_part());
            new.revision = old.revision + 1;
            // A block without text cannot have been folded by the user, so the new block's default
            // applies.
            match &old.body {
                BlockBody::None => {}
                BlockBody::OnDisk => new.fold = old.fold,
                BlockBody::Text(parts) => {
                    new.fold = old.fold;
                    self.loaded_bytes = self.loaded_bytes.saturating_sub(size(parts));
                }
            }
        }
        new.spots.push(spot);
        if !parts.is_empty() {
            self.loaded_bytes += size(&parts);
            self.loaded.push_back(index);
            new.body = BlockBody::Text(parts);
        }
        if index < self.blocks.len() {
            self.blocks[index] = new;
        } else {
            self.blocks.push(new);
        }
        self.forget_old_text();
        index
    }

    fn forget_old_text(&mut self) {
        while self.loaded_bytes > KEPT && self.loaded.len() > 1 {
            let Some(index) = self.loaded.pop_front() else {
                break;
            };
            if let BlockBody::Text(parts) = &self.blocks[index].body {
                self.loaded_bytes = self.loaded_bytes.saturating_sub(size(parts));
                self.blocks[index].body = BlockBody::OnDisk;
            }
        }
    }

    fn parts(&self, index: usize, reload: RecordLoader<'_>) -> Vec<DetailText> {
        let block = &self.blocks[index];
        match &block.body {
            BlockBody::None => Vec::new(),
            BlockBody::Text(parts) => parts.clone(),
            BlockBody::OnDisk => {
                let last = block.spots.last().copied();
                let spots = if matches!(block.kind, BlockKind::Message | BlockKind::Thought) {
                    block.spots.clone()
                } else {
                    last.into_iter().collect()
                };
                spots
                    .into_iter()
                    .filter_map(reload)
                    .flat_map(|record| details(&record.event))
                    .collect()
            }
        }
    }

    fn text(&self, index: usize, reload: RecordLoader<'_>) -> String {
        let texts = self.parts(index, reload).into_iter().map(|part| part.text);
        let words = matches!(
            self.blocks[index].kind,
            BlockKind::Message | BlockKind::Thought
        );
        texts
            .collect::<Vec<_>>()
            .join(if words { "" } else { "\n" })
    }
}

pub(super) fn block(kind: BlockKind, at: UnixTime, head: String, role: ThemeRole) -> StreamBlock {
    let (body, spots) = (BlockBody::None, Vec::new());
    StreamBlock {
        kind,
        at,
        head,
        took: String::new(),
        role,
        error: false,
        fold: BlockFold::Open,
        body,
        spots,
        turn: None,
        run: None,
        revision: 0,
    }
}

pub(super) fn event_block(at: UnixTime, event: &Event, described: &Described) -> StreamBlock {
    let kind = kind_of(event);
    let fold = match kind {
        BlockKind::Hook if described.tone.is_error() => BlockFold::End,
        BlockKind::Tool
        | BlockKind::Request
        | BlockKind::Prompt
        | BlockKind::Thought
        | BlockKind::Note
        | BlockKind::Hook => BlockFold::Closed,
        BlockKind::Session
        | BlockKind::Iteration
        | BlockKind::Pipeline
        | BlockKind::Message
        | BlockKind::Yours
        | BlockKind::Plan => BlockFold::Open,
    };
    let error = described.tone.is_error();
    let head = if described.sign.is_empty() {
        format!("{} {}", sign_of(described.tone), described.text)
    } else {
        described.headline()
    };
    let role = if kind == BlockKind::Yours {
        ThemeRole::You
    } else {
        role_of(described.tone)
    };
    StreamBlock {
        error,
        fold,
        ..block(kind, at, head, role)
    }
}

/// The sign of a record that has no sign of its own. Every row of creel begins with one.
const fn sign_of(tone: EventTone) -> &'static str {
    match tone {
        EventTone::Plain | EventTone::Quiet => "·",
        EventTone::Heading => "●",
        EventTone::Passed => "✓",
        EventTone::Failed => "✗",
        EventTone::Problem | EventTone::Warning => "!",
        EventTone::Question => "◆",
        EventTone::Active => "▸",
    }
}

pub const fn role_of(tone: EventTone) -> ThemeRole {
    match tone {
        EventTone::Plain => ThemeRole::Text,
        EventTone::Active => ThemeRole::Running,
        EventTone::Heading => ThemeRole::Heading,
        EventTone::Passed => ThemeRole::Good,
        EventTone::Failed => ThemeRole::Bad,
        EventTone::Problem | EventTone::Warning => ThemeRole::Warning,
        EventTone::Question => ThemeRole::Gate,
        EventTone::Quiet => ThemeRole::Faint,
    }
}

const fn kind_of(event: &Event) -> BlockKind {
    match event {
        Event::Session(event) => match event {
            SessionEvent::Started(_)
            | SessionEvent::Resumed { .. }
            | SessionEvent::Ended { .. } => BlockKind::Session,
            SessionEvent::IterationStarted { .. } => BlockKind::Iteration,
            SessionEvent::IterationCompleted { .. }
            | SessionEvent::LoopEnded { .. }
            | SessionEvent::Warning { .. }
            | SessionEvent::ProcessStarted { .. } => BlockKind::Note,
        },
        Event::Hook(HookEvent::Started { .. } | HookEvent::Finished(_)) => BlockKind::Hook,
        Event::Turn(event) => match event {
            TurnEvent::PromptSent(_) => BlockKind::Prompt,
            TurnEvent::AgentSaid { .. } => BlockKind::Message,
            TurnEvent::AgentThought { .. } => BlockKind::Thought,
            TurnEvent::ToolCalled { .. } | TurnEvent::ToolUpdated { .. } => BlockKind::Tool,
            TurnEvent::AgentPlanned { .. } => BlockKind::Plan,
            TurnEvent::PermissionAsked { .. } => BlockKind::Request,
            TurnEvent::AgentUsed { .. }
            | TurnEvent::ToolDecided { .. }
            | TurnEvent::QuestionAnswered { .. }
            | TurnEvent::Cancelling { .. }
            | TurnEvent::AgentNoted { .. }
            | TurnEvent::ConversationOpened { .. }
            | TurnEvent::Ended { .. }
            | TurnEvent::Failed { .. } => BlockKind::Note,
        },
        Event::Pipeline(PipelineEvent::Started { .. }) => BlockKind::Pipeline,
        Event::Steering(SteeringEvent::MessageQueued { .. }) => BlockKind::Yours,
        Event::Hook(_)
        | Event::Pending(_)
        | Event::UsageLimit(_)
        | Event::Retry(_)
        | Event::Gate(_)
        | Event::Stop(_)
        | Event::Task(_)
        | Event::Automation(_)
        | Event::Workflow(_)
        | Event::Pipeline(_)
        | Event::Steering(_)
        | Event::Verify(_)
        | Event::Watch(_)
        | Event::Unknown => BlockKind::Note,
    }
}
