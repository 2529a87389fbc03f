//! The events of a session as blocks, and the rows of the visible ones.
//!
//! Owns the content of the stream and the scroll position. The work is proportional to what is visible: a block becomes
//! rows only when it comes into view, and a position is a block and a row in it, never a count of all rows.
//!
//! # Invariants
//! - While the view does not follow the end, new blocks do not move it.
//! - The text in memory is bounded; older text is read back from the journal.
//! - The live end of a very long answer is the last block, and is removed before the next record is applied.

mod block_text;
mod event_block;
mod live_answer;

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    rc::Rc,
};

use ratatui::text::Line;

use super::{
    text::{markdown, wrap},
    theme::{ScreenTheme, ThemeRole},
};
use crate::{
    engine::{
        event::{Event, HookEvent, StopEvent, TurnEvent},
        ids::{RunId, TurnId},
        time::UnixTime,
    },
    journal::Record,
    present::describe::{DetailText, EventContext, describe, details},
    tui::{
        journal_feed::RecordSpan,
        stream::{
            block_text::size,
            event_block::{block, event_block},
            live_answer::LiveAnswerTail,
        },
    },
};

/// How many bytes of text stay in memory; older text is read again when it is needed.
const KEPT: usize = 16 << 20;
/// A block of agent text ends at the first line end after this many bytes, so that its rows stay cheap to make.
const LONG_BLOCK: usize = 8 << 10;
/// How many blocks have cached rows.
const ROWS_KEPT: usize = 512;

/// Reads a record again.
pub type RecordLoader<'a> = &'a dyn Fn(RecordSpan) -> Option<Record>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// The session started, was resumed, or ended.
    Session,
    Iteration,
    Prompt,
    Said,
    Thought,
    Tool,
    /// A permission request of the agent.
    Request,
    Plan,
    Hook,
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
    pub role: ThemeRole,
    /// Whether something went wrong, for the keys that jump to errors.
    pub error: bool,
    pub folded: bool,
    body: BlockBody,
    spots: Vec<RecordSpan>,
    turn: Option<TurnId>,
    revision: u32,
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

/// Cached rows of a block, valid for one width and one revision.
#[derive(Debug)]
struct BlockRows {
    width: usize,
    revision: u32,
    lines: Rc<Vec<Line<'static>>>,
}

#[derive(Debug)]
pub struct SessionStream {
    blocks: Vec<StreamBlock>,
    position: StreamPosition,
    tools: HashMap<String, usize>,
    runs: HashMap<RunId, usize>,
    /// The block of the newest plan.
    plan: Option<usize>,
    context: EventContext,
    /// Blocks with their text in memory, oldest first.
    loaded: VecDeque<usize>,
    loaded_bytes: usize,
    rows: HashMap<usize, BlockRows>,
    fold_thoughts: bool,
    live_end: LiveAnswerTail,
}

impl Default for SessionStream {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            position: StreamPosition::Follow,
            tools: HashMap::new(),
            runs: HashMap::new(),
            plan: None,
            context: EventContext::default(),
            loaded: VecDeque::new(),
            loaded_bytes: 0,
            rows: HashMap::new(),
            fold_thoughts: true,
            live_end: LiveAnswerTail::default(),
        }
    }
}

impl SessionStream {
    pub fn len(&self) -> usize {
        self.blocks.len()
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
        if let Event::Turn(TurnEvent::AgentSaid { turn, text, .. }) = event {
            self.speak(BlockKind::Said, at, *turn, text, spot);
        } else if let Event::Turn(TurnEvent::AgentThought { turn, text, .. }) = event {
            self.speak(BlockKind::Thought, at, *turn, text, spot);
        } else if let Some(described) = describe(event, &self.context) {
            let new = event_block(at, event, &described);
            self.place(new, described.detail, event, spot);
        }
        self.context.follow(event);
    }

    /// Adds the block of an event. A tool call, a hook and a rule each keep the block in which they began.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the blocks of all other records are simply added")]
    fn place(&mut self, mut new: StreamBlock, detail: Vec<DetailText>, event: &Event, spot: RecordSpan) {
        match event {
            Event::Turn(TurnEvent::ToolCalled { tool, .. } | TurnEvent::ToolUpdated { tool, .. }) => {
                let known = self.tools.get(&tool.call).copied();
                if let Some(index) = known {
                    let began = self.blocks[index].at;
                    new.head += &format!(" · {}", new.at.since(began));
                    new.at = began;
                }
                let index = self.put(known, new, detail, spot);
                self.tools.insert(tool.call.clone(), index);
            }
            Event::Turn(TurnEvent::AgentPlanned { .. }) => self.planned(new, detail, spot),
            Event::Hook(HookEvent::Started { run, .. }) | Event::Stop(StopEvent::RuleStarted { run, .. }) => {
                let index = self.put(None, new, detail, spot);
                self.runs.insert(*run, index);
            }
            Event::Hook(HookEvent::Finished(finished)) => {
                let known = self.runs.remove(&finished.run);
                self.put(known, new, detail, spot);
            }
            Event::Stop(StopEvent::RuleChecked { run, .. }) => {
                let known = self.runs.remove(run);
                self.put(known, new, detail, spot);
            }
            Event::Turn(TurnEvent::PromptSent(_)) => {
                // Tool calls of the last turn get no more updates, and an agent may use their ids again.
                self.tools.clear();
                self.put(None, new, detail, spot);
            }
            _ => {
                self.put(None, new, detail, spot);
            }
        }
    }

    /// Adds a plan and folds the one before, unless the user has scrolled back: then nothing visible may move.
    fn planned(&mut self, new: StreamBlock, detail: Vec<DetailText>, spot: RecordSpan) {
        let before = self.plan.filter(|_| self.position == StreamPosition::Follow);
        if let Some(before) = before.and_then(|index| self.blocks.get_mut(index)) {
            before.folded = true;
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
            let head = if kind == BlockKind::Thought { "… thinking".into() } else { String::new() };
            let role = if kind == BlockKind::Thought { ThemeRole::Faint } else { ThemeRole::Text };
            let folded = kind == BlockKind::Thought && self.fold_thoughts;
            let new = StreamBlock { turn: Some(turn), folded, ..block(kind, at, head, role) };
            self.put(None, new, vec![DetailText::words(text)], spot);
        }
        self.forget_old_text();
    }

    /// Adds a block, or replaces an earlier one.
    fn put(&mut self, known: Option<usize>, mut new: StreamBlock, parts: Vec<DetailText>, spot: RecordSpan) -> usize {
        let index = known.unwrap_or(self.blocks.len());
        if let Some(old) = self.blocks.get(index) {
            new.revision = old.revision + 1;
            // A block without text cannot have been folded by the user, so the new block's default applies.
            match &old.body {
                BlockBody::None => {}
                BlockBody::OnDisk => new.folded = old.folded,
                BlockBody::Text(parts) => {
                    new.folded = old.folded;
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
            let Some(index) = self.loaded.pop_front() else { break };
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
                let spots = if matches!(block.kind, BlockKind::Said | BlockKind::Thought) {
                    block.spots.clone()
                } else {
                    last.into_iter().collect()
                };
                spots.into_iter().filter_map(reload).flat_map(|record| details(&record.event)).collect()
            }
        }
    }

    fn text(&self, index: usize, reload: RecordLoader<'_>) -> String {
        let texts = self.parts(index, reload).into_iter().map(|part| part.text);
        let words = matches!(self.blocks[index].kind, BlockKind::Said | BlockKind::Thought);
        texts.collect::<Vec<_>>().join(if words { "" } else { "\n" })
    }

    fn rows(
        &mut self,
        index: usize,
        width: usize,
        theme: &ScreenTheme,
        reload: RecordLoader<'_>,
    ) -> Rc<Vec<Line<'static>>> {
        let block = &self.blocks[index];
        if let Some(rows) = self.rows.get(&index).filter(|rows| rows.width == width && rows.revision == block.revision)
        {
            return rows.lines.clone();
        }
        let lines = Rc::new(self.make_rows(index, width, theme, reload));
        if self.rows.len() >= ROWS_KEPT {
            self.rows.clear();
        }
        let revision = self.blocks[index].revision;
        self.rows.insert(index, BlockRows { width, revision, lines: lines.clone() });
        lines
    }

    fn make_rows(
        &self,
        index: usize,
        width: usize,
        theme: &ScreenTheme,
        reload: RecordLoader<'_>,
    ) -> Vec<Line<'static>> {
        let block = &self.blocks[index];
        let mut lines = Vec::new();
        if block.kind == BlockKind::Iteration && index > 0 {
            lines.push(Line::default());
        }
        let hidden = block.folded && !matches!(block.body, BlockBody::None);
        if !block.head.is_empty() {
            let more = if hidden { " ▾" } else { "" };
            lines.extend(wrap(&[(format!("{}{more}", block.head), theme.style(block.role))], width, 2));
        }
        if hidden || matches!(block.body, BlockBody::None) {
            return lines;
        }
        lines.extend(match block.kind {
            BlockKind::Said => markdown(&self.text(index, reload), theme, width),
            BlockKind::Thought => block_text::quoted(&[DetailText::words(self.text(index, reload))], theme, width),
            BlockKind::Session
            | BlockKind::Iteration
            | BlockKind::Prompt
            | BlockKind::Tool
            | BlockKind::Request
            | BlockKind::Plan
            | BlockKind::Hook
            | BlockKind::Note => block_text::quoted(&self.parts(index, reload), theme, width),
        });
        lines
    }

    /// The visible lines.
    pub fn in_sight(
        &mut self,
        width: usize,
        height: usize,
        theme: &ScreenTheme,
        reload: RecordLoader<'_>,
    ) -> Vec<Line<'static>> {
        let (mut block, mut skip) = self.first_in_sight(width, height, theme, reload);
        let mut lines = Vec::with_capacity(height);
        while lines.len() < height && block < self.blocks.len() {
            let rows = self.rows(block, width, theme, reload);
            lines.extend(rows.iter().skip(skip).take(height - lines.len()).cloned());
            (block, skip) = (block + 1, 0);
        }
        lines
    }

    fn first_in_sight(
        &mut self,
        width: usize,
        height: usize,
        theme: &ScreenTheme,
        reload: RecordLoader<'_>,
    ) -> (usize, usize) {
        match self.position {
            StreamPosition::At { block, row } if block < self.blocks.len() => {
                let rows = self.rows(block, width, theme, reload).len();
                (block, row.min(rows.saturating_sub(1)))
            }
            StreamPosition::At { .. } | StreamPosition::Follow => self.end(width, height, theme, reload),
        }
    }

    /// The position at which the last row is just visible.
    fn end(&mut self, width: usize, height: usize, theme: &ScreenTheme, reload: RecordLoader<'_>) -> (usize, usize) {
        let mut need = height;
        for block in (0..self.blocks.len()).rev() {
            let rows = self.rows(block, width, theme, reload).len();
            if rows >= need {
                return (block, rows - need);
            }
            need -= rows;
        }
        (0, 0)
    }

    /// Scrolls by rows; at the end it follows again.
    pub fn scroll(
        &mut self,
        by: isize,
        (width, height): (usize, usize),
        theme: &ScreenTheme,
        reload: RecordLoader<'_>,
    ) {
        let (mut block, mut row) = self.first_in_sight(width, height, theme, reload);
        let mut left = by.unsigned_abs();
        while left > 0 {
            if by < 0 {
                if row >= left {
                    row -= left;
                    break;
                }
                left -= row;
                if block == 0 {
                    row = 0;
                    break;
                }
                block -= 1;
                row = self.rows(block, width, theme, reload).len();
            } else {
                let rows = self.rows(block, width, theme, reload).len();
                if row + left < rows {
                    row += left;
                    break;
                }
                left -= rows - row;
                if block + 1 >= self.blocks.len() {
                    break;
                }
                (block, row) = (block + 1, 0);
            }
        }
        let end = self.end(width, height, theme, reload);
        // If everything is visible there is nothing to scroll back to, so the end stays in view.
        let all_in_sight = end == (0, 0) && self.position == StreamPosition::Follow;
        let follows = all_in_sight || (by > 0 && (block, row) >= end);
        self.position = if follows { StreamPosition::Follow } else { StreamPosition::At { block, row } };
    }

    pub fn to_top(&mut self) {
        self.position = StreamPosition::At { block: 0, row: 0 };
    }

    pub fn to_end(&mut self) {
        self.position = StreamPosition::Follow;
    }

    /// The block at the top of the view.
    fn here(&mut self, size: (usize, usize), theme: &ScreenTheme, reload: RecordLoader<'_>) -> usize {
        self.first_in_sight(size.0, size.1, theme, reload).0
    }

    /// Jumps to the next or previous block that `wanted` accepts; returns whether there is one.
    pub fn jump(
        &mut self,
        forward: bool,
        size: (usize, usize),
        theme: &ScreenTheme,
        reload: RecordLoader<'_>,
        wanted: &dyn Fn(&StreamBlock) -> bool,
    ) -> bool {
        let here = self.here(size, theme, reload);
        let found = if forward {
            let from = if self.position == StreamPosition::Follow { self.blocks.len() } else { here + 1 };
            (from..self.blocks.len()).find(|index| wanted(&self.blocks[*index]))
        } else {
            (0..here.min(self.blocks.len())).rev().find(|index| wanted(&self.blocks[*index]))
        };
        if let Some(block) = found {
            self.position = StreamPosition::At { block, row: 0 };
        }
        found.is_some()
    }

    /// Searches from the current position, going around; returns whether something was found.
    pub fn search(
        &mut self,
        query: &str,
        forward: bool,
        size: (usize, usize),
        theme: &ScreenTheme,
        reload: RecordLoader<'_>,
    ) -> bool {
        let (here, row) = self.first_in_sight(size.0, size.1, theme, reload);
        let query = query.to_lowercase();
        if here < self.blocks.len() {
            let rows = self.rows(here, size.0, theme, reload);
            if let Some(row) = row_with(&rows, &query, forward, if forward { row + 1..rows.len() } else { 0..row }) {
                self.position = StreamPosition::At { block: here, row };
                return true;
            }
        }
        let holds = |stream: &Self, index: usize| {
            let block = &stream.blocks[index];
            block.head.to_lowercase().contains(&query) || stream.text(index, reload).to_lowercase().contains(&query)
        };
        let count = self.blocks.len();
        let order: Vec<usize> = if forward {
            (here + 1..count).chain(0..(here + 1).min(count)).collect()
        } else {
            (0..here.min(count)).rev().chain((here.min(count)..count).rev()).collect()
        };
        let Some(block) = order.into_iter().find(|index| holds(self, *index)) else { return false };
        self.blocks[block].folded = false;
        self.blocks[block].revision += 1;
        let rows = self.rows(block, size.0, theme, reload);
        let row = row_with(&rows, &query, forward, 0..rows.len()).unwrap_or(0);
        self.position = StreamPosition::At { block, row };
        true
    }

    /// Folds or unfolds the block at the top of the view, or the nearest one below that can be folded.
    pub fn fold(&mut self, size: (usize, usize), theme: &ScreenTheme, reload: RecordLoader<'_>) {
        let here = self.here(size, theme, reload);
        let end = (here + size.1).min(self.blocks.len());
        let can = |block: &StreamBlock| !matches!(block.body, BlockBody::None) && block.kind != BlockKind::Said;
        if let Some(index) = (here..end).find(|index| can(&self.blocks[*index])) {
            let block = &mut self.blocks[index];
            block.folded = !block.folded;
            block.revision += 1;
        }
    }

    pub fn fold_thoughts(&mut self) {
        self.fold_thoughts = !self.fold_thoughts;
        for block in self.blocks.iter_mut().filter(|block| block.kind == BlockKind::Thought) {
            block.folded = self.fold_thoughts;
            block.revision += 1;
        }
    }
}

/// The first of these rows that contains the text, or the last one when searching backwards.
fn row_with(rows: &[Line<'_>], query: &str, forward: bool, mut among: Range<usize>) -> Option<usize> {
    let holds = |row: &usize| rows.get(*row).is_some_and(|line| line.to_string().to_lowercase().contains(query));
    if forward { among.find(holds) } else { among.rev().find(holds) }
}
