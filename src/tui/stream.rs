//! The story of a session as blocks, and the rows of those that are in sight.
//!
//! Owns what stands in the stream and where the reader is. Work is in proportion to what is visible: a block is turned into
//! rows only when it comes into sight, and a position is a block and a row in it, never a count of all rows.
//!
//! # Invariants
//! - While the reader does not follow the end, new blocks do not move what is in sight.
//! - The text that is kept in memory is bounded; older text is read back from the journal.
//! - The live end of a very long answer is the last block, and gone before the next record is taken in.

mod block_text;
mod live_answer;
mod record_text;

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
        event::{Event, HookEvent, SessionEvent, StopEvent, TurnEvent},
        ids::{RunId, TurnId},
        time::UnixTime,
    },
    journal::Record,
    present::{
        permission_requests::TurnPermissions,
        text::{first_line, plain},
    },
    tui::{
        journal_feed::RecordSpan,
        stream::{
            block_text::{BlockText, size},
            live_answer::LiveAnswerTail,
            record_text::{
                answer_block, block, body_of, finished_block, note, noted_block, plan_block, prompt_block,
                request_block, tool_block,
            },
        },
    },
};

/// How much text is kept; what is older is read back when it is looked at.
const KEPT: usize = 16 << 20;
/// A block of agent text ends at the next line end when it is this long, so that its rows stay cheap to make.
const LONG_BLOCK: usize = 8 << 10;
/// How many blocks' rows are kept.
const ROWS_KEPT: usize = 512;

/// Reads a record again.
pub type RecordLoader<'a> = &'a dyn Fn(RecordSpan) -> Option<Record>;

/// What a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// The session began, was resumed, or ended.
    Session,
    /// An iteration began.
    Iteration,
    /// A prompt as it was sent.
    Prompt,
    /// The agent's words.
    Said,
    /// The agent's thinking.
    Thought,
    /// A tool call.
    Tool,
    /// Something that the agent asks leave for.
    Request,
    /// What the agent means to do.
    Plan,
    /// A hook run.
    Hook,
    /// Anything else, a line.
    Note,
}

/// One thing in the stream.
#[derive(Debug, Clone)]
pub struct StreamBlock {
    /// What it is.
    pub kind: BlockKind,
    /// When it began.
    pub at: UnixTime,
    /// Its line.
    pub head: String,
    /// How the line looks.
    pub role: ThemeRole,
    /// Whether it is something that went wrong.
    pub error: bool,
    /// Whether its text is hidden.
    pub folded: bool,
    body: BlockBody,
    spots: Vec<RecordSpan>,
    turn: Option<TurnId>,
    revision: u32,
}

#[derive(Debug, Clone)]
enum BlockBody {
    None,
    Text(Vec<BlockText>),
    OnDisk,
}

/// Where the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamPosition {
    /// At the end, and new things push old ones up.
    Follow,
    /// This row of this block is the first in sight.
    At {
        /// The block.
        block: usize,
        /// The row in it.
        row: usize,
    },
}

/// The rows of a block, for the width and the content that they were made for.
#[derive(Debug)]
struct BlockRows {
    width: usize,
    revision: u32,
    lines: Rc<Vec<Line<'static>>>,
}

/// The story so far.
#[derive(Debug)]
pub struct SessionStream {
    blocks: Vec<StreamBlock>,
    position: StreamPosition,
    tools: HashMap<String, usize>,
    runs: HashMap<RunId, usize>,
    /// The newest plan.
    plan: Option<usize>,
    requests: TurnPermissions,
    /// The project's folder.
    project: String,
    /// Blocks whose text is in memory, oldest first.
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
            requests: TurnPermissions::default(),
            project: String::new(),
            loaded: VecDeque::new(),
            loaded_bytes: 0,
            rows: HashMap::new(),
            fold_thoughts: true,
            live_end: LiveAnswerTail::default(),
        }
    }
}

impl SessionStream {
    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether nothing has happened yet.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Where the reader is.
    pub fn position(&self) -> StreamPosition {
        self.position
    }

    /// Takes in a record.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other records become one note, or nothing")]
    pub fn take(&mut self, spot: RecordSpan, record: &Record) {
        let at = record.at;
        let event = &record.event;
        self.hide_live_end();
        self.live_end.count(event);
        let told = self.requests.tell(event);
        self.requests.follow(event);
        match event {
            Event::Turn(TurnEvent::AgentSaid { turn, text, .. }) => self.speak(BlockKind::Said, at, *turn, text, spot),
            Event::Turn(TurnEvent::AgentThought { turn, text, .. }) => {
                self.speak(BlockKind::Thought, at, *turn, text, spot);
            }
            Event::Turn(TurnEvent::ToolCalled { tool, .. } | TurnEvent::ToolUpdated { tool, .. }) => {
                let known = self.tools.get(&tool.call).copied();
                let began = known.map_or(at, |index| self.blocks[index].at);
                let took = known.map(|_| at.since(began));
                let index = self.put(known, tool_block(began, tool, &self.project, took), event, spot);
                self.tools.insert(tool.call.clone(), index);
            }
            Event::Turn(TurnEvent::AgentPlanned { entries, .. }) => self.planned(plan_block(at, entries), event, spot),
            Event::Turn(TurnEvent::AgentNoted { what, text, .. }) => {
                _ = self.put(None, noted_block(at, what, text), event, spot);
            }
            Event::Turn(TurnEvent::PermissionAsked { ask, .. }) => {
                self.put(None, request_block(at, ask, &self.project), event, spot);
            }
            Event::Hook(HookEvent::Started { run, point, hook, .. }) => {
                let head = format!("▸ {point}: {} …", first_line(&plain(hook), 80));
                let index = self.put(None, block(BlockKind::Hook, at, head, ThemeRole::Accent), event, spot);
                self.runs.insert(*run, index);
            }
            Event::Hook(HookEvent::Finished(finished)) => {
                let known = self.runs.remove(&finished.run);
                self.put(known, finished_block(at, finished), event, spot);
            }
            Event::Stop(StopEvent::RuleStarted { run, .. }) => {
                if let Some(line) = note(at, event) {
                    let index = self.put(None, line, event, spot);
                    self.runs.insert(*run, index);
                }
            }
            Event::Stop(StopEvent::RuleChecked { run, .. }) => {
                let known = self.runs.remove(run);
                if let Some(line) = note(at, event) {
                    self.put(known, line, event, spot);
                }
            }
            Event::Turn(TurnEvent::PromptSent(prompt)) => {
                // Calls of the last turn get no more news, and an agent may use their names again.
                self.tools.clear();
                self.put(None, prompt_block(at, prompt), event, spot);
            }
            _ => {
                if let Event::Session(SessionEvent::Started(began)) = event {
                    self.project.clone_from(&began.cwd);
                }
                let line = told.map(|told| answer_block(at, &told)).or_else(|| note(at, event));
                if let Some(line) = line {
                    self.put(None, line, event, spot);
                }
            }
        }
    }

    /// The newest plan is open. The one before is folded, unless somebody reads there: what is in sight does not move.
    fn planned(&mut self, new: StreamBlock, event: &Event, spot: RecordSpan) {
        let before = self.plan.filter(|_| self.position == StreamPosition::Follow);
        if let Some(before) = before.and_then(|index| self.blocks.get_mut(index)) {
            before.folded = true;
            before.revision += 1;
        }
        self.plan = Some(self.put(None, new, event, spot));
    }

    fn speak(&mut self, kind: BlockKind, at: UnixTime, turn: TurnId, text: &str, spot: RecordSpan) {
        let goes_on = self.blocks.last().is_some_and(|last| {
            let ends = |parts: &[BlockText]| parts.last().is_some_and(|part| part.text.ends_with('\n'));
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
            self.put_with(None, new, vec![BlockText::words(text)], spot);
        }
        self.forget_old_text();
    }

    /// Adds the block of an event, or puts it in the place of an earlier one.
    fn put(&mut self, known: Option<usize>, new: StreamBlock, event: &Event, spot: RecordSpan) -> usize {
        self.put_with(known, new, body_of(event), spot)
    }

    fn put_with(
        &mut self,
        known: Option<usize>,
        mut new: StreamBlock,
        parts: Vec<BlockText>,
        spot: RecordSpan,
    ) -> usize {
        let index = known.unwrap_or(self.blocks.len());
        if let Some(old) = self.blocks.get(index) {
            new.revision = old.revision + 1;
            // Where there was nothing to fold, nobody has folded anything: the new block knows best.
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

    fn parts(&self, index: usize, reload: RecordLoader<'_>) -> Vec<BlockText> {
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
                spots.into_iter().filter_map(reload).flat_map(|record| body_of(&record.event)).collect()
            }
        }
    }

    fn text(&self, index: usize, reload: RecordLoader<'_>) -> String {
        let texts = self.parts(index, reload).into_iter().map(|part| part.text);
        let words = matches!(self.blocks[index].kind, BlockKind::Said | BlockKind::Thought);
        texts.collect::<Vec<_>>().join(if words { "" } else { "\n" })
    }

    /// The rows of a block.
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
            BlockKind::Thought => block_text::quoted(&[BlockText::words(self.text(index, reload))], theme, width),
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

    /// The lines in sight, and where the first of them is.
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

    /// The position at which the last row is just in sight.
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

    /// Moves by rows; at the end it follows again.
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
        // Where everything is in sight there is nothing to go back to: the end stays in sight, too.
        let all_in_sight = end == (0, 0) && self.position == StreamPosition::Follow;
        let follows = all_in_sight || (by > 0 && (block, row) >= end);
        self.position = if follows { StreamPosition::Follow } else { StreamPosition::At { block, row } };
    }

    /// To the beginning.
    pub fn to_top(&mut self) {
        self.position = StreamPosition::At { block: 0, row: 0 };
    }

    /// To the end, and follow it.
    pub fn to_end(&mut self) {
        self.position = StreamPosition::Follow;
    }

    /// The block at the top of the screen.
    fn here(&mut self, size: (usize, usize), theme: &ScreenTheme, reload: RecordLoader<'_>) -> usize {
        self.first_in_sight(size.0, size.1, theme, reload).0
    }

    /// Jumps to the next or previous block that is wanted; tells whether there is one.
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

    /// Searches from where the reader is; tells whether something was found.
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

    /// Folds or unfolds the block at the top of the screen, or the nearest one below that can be.
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

    /// Folds or unfolds all thoughts.
    pub fn fold_thoughts(&mut self) {
        self.fold_thoughts = !self.fold_thoughts;
        for block in self.blocks.iter_mut().filter(|block| block.kind == BlockKind::Thought) {
            block.folded = self.fold_thoughts;
            block.revision += 1;
        }
    }
}

/// The first of these rows with the text in it, or the last, if one goes back.
fn row_with(rows: &[Line<'_>], query: &str, forward: bool, mut among: Range<usize>) -> Option<usize> {
    let holds = |row: &usize| rows.get(*row).is_some_and(|line| line.to_string().to_lowercase().contains(query));
    if forward { among.find(holds) } else { among.rev().find(holds) }
}
