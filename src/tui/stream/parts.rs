//! The iterations of the stream: finished ones are one row each, until the user opens them.
//!
//! # Invariants
//! - While the view does not follow the end, no iteration closes by itself.
//! - Moving over closed iterations costs nothing for the blocks in them.
//! - A row has changed lines only if all of them are known, else the number of files.

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::{BlockKind, SessionStream, StreamPlace, StreamPosition, StreamViewport};
use crate::{
    engine::{
        event::{Event, SessionEvent},
        time::UnixTime,
    },
    present::iteration_line::{IterationLine, IterationResult, IterationTally},
    tui::{text::fit, theme::ThemeRole},
};

/// In columns. Narrower rows have neither the cost nor the changes nor the agent's words.
const WITH_WORDS: usize = 64;
/// In columns. Narrower rows have less room for the checks.
const WIDE: usize = 90;
/// The columns of the checks, of a time, a cost, and a count of lines or files.
const CHECKS: usize = 24;
const FEW_CHECKS: usize = 16;
const TOOK: usize = 8;
const COST: usize = 8;
const FILES: usize = 11;

/// A part of the stream that begins with a head: an iteration, or a submit or merge.
#[derive(Debug)]
pub(super) struct StreamPart {
    /// The block of its head.
    pub(super) head: usize,
    /// None for a submit or a merge.
    iteration: Option<u32>,
    tally: IterationTally,
    lines: PartLines,
    state: PartState,
}

/// The columns that only some sessions need: without any cost, or any change, there is more room for
/// the words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PartColumns {
    cost: bool,
    changes: bool,
}

/// The lines that an iteration added and removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartLines {
    NotAsked,
    Asked,
    Known(usize, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartState {
    /// It is the last part.
    Current,
    /// It was over while the user had scrolled back.
    Kept,
    Closed,
    /// By the user.
    Opened,
}

impl StreamPart {
    fn is_over(&self) -> bool {
        self.state != PartState::Current
    }
}

impl SessionStream {
    /// Counts a record for the iteration that it belongs to.
    pub(super) fn count_part(&mut self, at: UnixTime, event: &Event) {
        if let Some(part) = self.parts.last_mut()
            && part.iteration.is_some()
        {
            part.tally.take(at, event);
            let before = self.part_columns;
            self.part_columns = PartColumns {
                cost: before.cost || part.tally.has_cost(),
                changes: before.changes || part.tally.has_files(),
            };
            if self.part_columns != before {
                let heads: Vec<usize> = self.parts.iter().map(|part| part.head).collect();
                for head in heads {
                    self.changed(head);
                }
            }
        }
    }

    /// Notes the block that was added, if a part begins with it.
    pub(super) fn note_part(&mut self, at: UnixTime, event: &Event, head: usize) {
        let is_new = self.parts.last().is_none_or(|last| last.head < head);
        let begins = self
            .blocks
            .get(head)
            .is_some_and(super::StreamBlock::begins_part);
        if !is_new || !begins {
            return;
        }
        self.end_part();
        let iteration = match event {
            Event::Session(SessionEvent::IterationStarted { iteration }) => Some(*iteration),
            Event::Session(_)
            | Event::Turn(_)
            | Event::Hook(_)
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
            | Event::Unknown => None,
        };
        let mut tally = IterationTally::default();
        tally.take(at, event);
        self.parts.push(StreamPart {
            head,
            iteration,
            tally,
            lines: PartLines::NotAsked,
            state: PartState::Current,
        });
    }

    /// Closes the iteration that is over, unless the user looks elsewhere.
    fn end_part(&mut self) {
        let follows = self.position == StreamPosition::Follow;
        let number = self.parts.len().saturating_sub(1);
        let Some(part) = self.parts.last_mut() else {
            return;
        };
        part.state = match (part.iteration, follows) {
            (None, _) => PartState::Opened,
            (Some(_), true) => PartState::Closed,
            (Some(_), false) => {
                self.kept.push(number);
                PartState::Kept
            }
        };
        let head = part.head;
        self.changed(head);
    }

    /// Closes what stayed open while the user had scrolled back.
    pub(super) fn close_kept(&mut self) {
        for number in std::mem::take(&mut self.kept) {
            if let Some(part) = self
                .parts
                .get_mut(number)
                .filter(|part| part.state == PartState::Kept)
            {
                part.state = PartState::Closed;
                let head = part.head;
                self.changed(head);
            }
        }
    }

    fn changed(&mut self, block: usize) {
        if let Some(block) = self.blocks.get_mut(block) {
            block.revision += 1;
        }
    }

    fn part_at(&self, block: usize) -> Option<usize> {
        self.parts
            .partition_point(|part| part.head <= block)
            .checked_sub(1)
    }

    /// The head of the closed iteration that a block is in.
    fn closed_head(&self, block: usize) -> Option<usize> {
        let part = self.parts.get(self.part_at(block)?)?;
        (part.state == PartState::Closed).then_some(part.head)
    }

    /// The same place; in a closed iteration, its row.
    pub(super) fn visible(&self, place: StreamPlace) -> StreamPlace {
        match self.closed_head(place.block) {
            Some(head) if head != place.block => StreamPlace {
                block: head,
                row: 0,
            },
            Some(_) | None => place,
        }
    }

    /// The visible block before this one.
    pub(super) fn block_before(&self, block: usize) -> Option<usize> {
        let before = block.checked_sub(1)?;
        Some(self.closed_head(before).unwrap_or(before))
    }

    /// The visible block after this one. There may be none: then it is the number of blocks.
    pub(super) fn block_after(&self, block: usize) -> usize {
        let next = self
            .part_at(block)
            .filter(|part| self.parts[*part].state == PartState::Closed);
        match next {
            Some(part) => self
                .parts
                .get(part + 1)
                .map_or(self.blocks.len(), |part| part.head),
            None => block + 1,
        }
    }

    /// The last visible block.
    pub(super) fn last_block(&self) -> usize {
        let last = self.blocks.len().saturating_sub(1);
        self.closed_head(last).unwrap_or(last)
    }

    /// Whether a block is the head of an iteration that is over.
    pub(super) fn is_over(&self, block: usize) -> bool {
        self.part_at(block)
            .and_then(|part| self.parts.get(part))
            .is_some_and(|part| part.head == block && part.iteration.is_some() && part.is_over())
    }

    /// Opens or closes the iteration whose head is this block.
    pub(super) fn switch_part(&mut self, head: usize) {
        let Some(part) = self.part_at(head) else {
            return;
        };
        let part = &mut self.parts[part];
        part.state = match part.state {
            PartState::Closed => PartState::Opened,
            PartState::Kept | PartState::Opened => PartState::Closed,
            PartState::Current => return,
        };
        self.changed(head);
    }

    /// Opens the iteration that a block is in.
    pub(super) fn reveal(&mut self, block: usize) {
        if let Some(head) = self.closed_head(block).filter(|head| *head != block) {
            self.switch_part(head);
        }
    }

    /// An iteration whose row is in sight, and whose changed lines were never asked for. From now on,
    /// they were.
    pub fn uncounted_iteration(&mut self, places: &[StreamPlace], width: usize) -> Option<u32> {
        if width < WITH_WORDS {
            return None;
        }
        let shown = places.iter().filter_map(|place| self.part_at(place.block));
        let number = shown.into_iter().find(|number| {
            let part = &self.parts[*number];
            let is_closed = part.state == PartState::Closed && part.iteration.is_some();
            is_closed && part.lines == PartLines::NotAsked && part.tally.has_files()
        })?;
        let part = &mut self.parts[number];
        part.lines = PartLines::Asked;
        part.iteration
    }

    /// Notes the lines that an iteration added and removed.
    pub fn count_lines(&mut self, iteration: u32, (added, removed): (usize, usize)) {
        let mut parts = self.parts.iter_mut();
        let Some(part) = parts.find(|part| part.iteration == Some(iteration) && part.is_over())
        else {
            return;
        };
        part.lines = PartLines::Known(added, removed);
        let head = part.head;
        self.changed(head);
    }

    /// The row of a closed iteration. None for any other block.
    pub(super) fn closed_line(
        &self,
        block: usize,
        view: StreamViewport<'_>,
    ) -> Option<Line<'static>> {
        let part = self.parts.get(self.part_at(block)?)?;
        let number = part.iteration.filter(|_| part.head == block)?;
        if part.state != PartState::Closed || self.blocks[block].kind != BlockKind::Iteration {
            return None;
        }
        let mut line = part.tally.line();
        if let PartLines::Known(added, removed) = part.lines {
            line.files = format!("+{added} −{removed}");
        }
        Some(part_row(number, &line, self.part_columns, view))
    }
}

/// `▸ 29  ✓ tests clippy   4m 10s   $0.31   +14 −2   Parse nested lists`
fn part_row(
    number: u32,
    line: &IterationLine,
    columns: PartColumns,
    view: StreamViewport<'_>,
) -> Line<'static> {
    let StreamViewport { width, theme, .. } = view;
    let role = match line.result {
        IterationResult::Passed => ThemeRole::Good,
        IterationResult::Failed => ThemeRole::Bad,
        IterationResult::Forced => ThemeRole::Warning,
    };
    let head = format!("▸ {number:>2}  ");
    let took = format!("{:>TOOK$}", line.took);
    let left = width.saturating_sub(head.width() + TOOK);
    let checks = match width {
        0..WITH_WORDS => left,
        WITH_WORDS..WIDE => FEW_CHECKS,
        WIDE.. => CHECKS,
    };
    let (sign, rest) = line
        .checks
        .split_once(' ')
        .unwrap_or((line.checks.as_str(), ""));
    let filled = |text: &str, width: usize| {
        let text = fit(text, width);
        let gap = " ".repeat(width.saturating_sub(text.width()));
        text + &gap
    };
    let rest = filled(&format!(" {rest}"), checks.saturating_sub(sign.width()));
    let mut spans = vec![
        theme.span(ThemeRole::Faint, head),
        theme.span(role, sign.to_owned()),
        theme.span(ThemeRole::Text, rest),
        theme.span(ThemeRole::Faint, took),
    ];
    if width >= WITH_WORDS {
        let cost = if columns.cost { COST } else { 0 };
        let files = if columns.changes { FILES } else { 0 };
        let room = left.saturating_sub(checks + cost + files + 2);
        spans.push(theme.span(ThemeRole::Faint, format!("{:>cost$}", line.cost)));
        spans.push(theme.span(ThemeRole::Faint, format!("{:>files$}", line.files)));
        spans.push(Span::raw("  "));
        spans.push(theme.span(ThemeRole::Text, fit(&line.words, room)));
    }
    Line::from(spans)
}
