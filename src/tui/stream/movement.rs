//! The cursor of the stream: moving, jumping, searching, opening and closing.
//!
//! # Invariants
//! - At the last row the view follows the end. Everywhere else, new blocks move neither the view
//!   nor the cursor.

use std::ops::Range;

use ratatui::text::Line;

use super::{
    BlockBody, BlockFold, BlockKind, RecordLoader, SessionStream, StreamBlock, StreamPlace,
    StreamPosition, StreamViewport,
};
use crate::{engine::ids::RunId, present::text::grouped, text::OmittedOutput};

/// Where a jump to the next or previous block has led.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamJump {
    Ahead,
    /// There was none ahead, so it went on from the other end.
    Around,
    /// The block under the cursor is the only one.
    SameBlock,
    Nowhere,
}

/// Where a search looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchStep {
    /// At the match that is nearest to the cursor, in both directions.
    Nearest,
    Next,
    Previous,
}

/// A match: which one it is, and how many lines have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchHit {
    /// From 1. 0: not counted so far.
    pub nth: usize,
    pub of: usize,
    /// Whether all lines are counted.
    pub is_all: bool,
}

impl SearchHit {
    /// `match 3 of 1,204`, or `match 3 of 1,204+` if there can be more.
    pub fn words(self) -> String {
        let more = if self.is_all { "" } else { "+" };
        match (self.nth, self.of) {
            (0, 0) => String::new(),
            (0, of) => format!("{}{more} matches", grouped(of)),
            (nth, of) => format!("match {} of {}{more}", grouped(nth), grouped(of)),
        }
    }
}

/// How many lines of each block have what was searched for last. A block is counted again only
/// after it has changed.
#[derive(Debug, Default)]
pub(super) struct SearchCounts {
    query: String,
    blocks: Vec<(u32, usize)>,
}

impl SessionStream {
    /// The row under the cursor.
    pub fn cursor(&mut self, view: StreamViewport<'_>) -> StreamPlace {
        match self.cursor {
            Some(place) if place.block < self.blocks.len() => {
                let place = self.visible(place);
                let rows = self.rows(place.block, view).len();
                StreamPlace {
                    row: place.row.min(rows.saturating_sub(1)),
                    ..place
                }
            }
            Some(_) | None => self.last_row(view),
        }
    }

    /// The title and the text of the block under the cursor.
    pub fn block_in_full(&mut self, view: StreamViewport<'_>) -> Option<(String, String)> {
        let block = self.cursor(view).block;
        let head = self.blocks.get(block)?.head.clone();
        Some((head, self.text(block, view.reload)))
    }

    /// The place this many rows away, within the stream.
    fn walk(&mut self, from: StreamPlace, by: isize, view: StreamViewport<'_>) -> StreamPlace {
        let StreamPlace { mut block, mut row } = from;
        let mut left = by.unsigned_abs();
        while left > 0 && !self.blocks.is_empty() {
            if by < 0 {
                if row >= left {
                    row -= left;
                    break;
                }
                left -= row;
                let Some(before) = self.block_before(block) else {
                    row = 0;
                    break;
                };
                block = before;
                row = self.rows(block, view).len();
            } else {
                let rows = self.rows(block, view).len();
                if row + left < rows {
                    row += left;
                    break;
                }
                let after = self.block_after(block);
                if after >= self.blocks.len() {
                    return self.last_row(view);
                }
                left -= (rows - row).min(left);
                (block, row) = (after, 0);
            }
        }
        StreamPlace { block, row }
    }

    /// Scrolls by rows; at the end it follows again. The cursor stays in view.
    pub fn scroll(&mut self, by: isize, view: StreamViewport<'_>) {
        let top = self.first_in_view(view);
        let to = self.walk(top, by, view);
        let end = self.end(view);
        // If everything is visible there is nothing to scroll back to, so the end stays in view.
        let all_in_view =
            end == StreamPlace { block: 0, row: 0 } && self.position == StreamPosition::Follow;
        if all_in_view || (by > 0 && to >= end) {
            self.to_end();
            return;
        }
        self.position = StreamPosition::At {
            block: to.block,
            row: to.row,
        };
        let bottom = self.walk(
            to,
            isize::try_from(view.height.saturating_sub(1)).unwrap_or(0),
            view,
        );
        let cursor = self.cursor(view);
        self.cursor = Some(cursor.clamp(to, bottom));
    }

    /// Scrolls by a page, and the cursor with it.
    pub fn page(&mut self, by: isize, view: StreamViewport<'_>) {
        let cursor = self.cursor(view);
        let to = self.walk(cursor, by, view);
        self.cursor = Some(to);
        self.scroll(by, view);
        if self.position == StreamPosition::Follow && by < 0 {
            self.cursor = Some(to);
        }
    }

    /// Moves the cursor by rows. The view moves only as far as the cursor needs.
    pub fn step(&mut self, by: isize, view: StreamViewport<'_>) {
        let from = self.cursor(view);
        let to = self.walk(from, by, view);
        if to == self.last_row(view) {
            self.to_end();
            return;
        }
        let top = self.first_in_view(view);
        let page = isize::try_from(view.height.saturating_sub(1)).unwrap_or(0);
        let bottom = self.walk(top, page, view);
        let everything = self.end(view) == StreamPlace { block: 0, row: 0 };
        self.cursor = Some(to);
        let first = if to < top {
            to
        } else if to > bottom {
            self.walk(to, -page, view)
        } else {
            top
        };
        if !(everything && self.position == StreamPosition::Follow) {
            self.position = StreamPosition::At {
                block: first.block,
                row: first.row,
            };
        }
    }

    pub fn to_top(&mut self) {
        self.position = StreamPosition::At { block: 0, row: 0 };
        self.cursor = Some(StreamPlace { block: 0, row: 0 });
    }

    pub fn to_end(&mut self) {
        self.position = StreamPosition::Follow;
        self.cursor = None;
        self.close_kept();
    }

    /// Puts the cursor on a visible row. The view stays.
    pub fn point_at(&mut self, place: StreamPlace, view: StreamViewport<'_>) {
        if place == self.last_row(view) && self.position == StreamPosition::Follow {
            self.cursor = None;
            return;
        }
        let top = self.first_in_view(view);
        self.cursor = Some(place);
        if self.end(view) != (StreamPlace { block: 0, row: 0 }) {
            self.position = StreamPosition::At {
                block: top.block,
                row: top.row,
            };
        }
    }

    /// Moves to a block, and opens the iteration that it is in.
    pub fn go_to_block(&mut self, block: usize) {
        if block < self.blocks.len() {
            self.reveal(block);
            self.go_to(StreamPlace { block, row: 0 });
        }
    }

    fn go_to(&mut self, place: StreamPlace) {
        self.cursor = Some(place);
        self.position = StreamPosition::At {
            block: place.block,
            row: place.row,
        };
    }

    /// Jumps to the next or previous block that `wanted` accepts, going around.
    pub fn jump(
        &mut self,
        forward: bool,
        view: StreamViewport<'_>,
        wanted: &dyn Fn(&StreamBlock) -> bool,
    ) -> StreamJump {
        let count = self.blocks.len();
        let here = self.cursor.map_or(count, |place| place.block.min(count));
        let fits = |index: &usize| wanted(&self.blocks[*index]);
        let (ahead, around) = if forward {
            (
                (here + 1..count).find(fits),
                (0..(here + 1).min(count)).find(fits),
            )
        } else {
            ((0..here).rev().find(fits), (here..count).rev().find(fits))
        };
        let Some(block) = ahead.or(around) else {
            return StreamJump::Nowhere;
        };
        self.reveal(block);
        // An iteration begins with an empty row.
        let spaced = matches!(
            self.blocks[block].kind,
            BlockKind::Iteration | BlockKind::Pipeline
        );
        let skip = usize::from(spaced && block > 0);
        let rows = self.rows(block, view).len();
        self.go_to(StreamPlace {
            block,
            row: skip.min(rows.saturating_sub(1)),
        });
        match ahead {
            Some(_) => StreamJump::Ahead,
            None if block == here => StreamJump::SameBlock,
            None => StreamJump::Around,
        }
    }

    /// The run under the cursor whose output the stream does not have: it still runs, or a part was
    /// left out.
    pub fn run_to_open(&mut self, view: StreamViewport<'_>) -> Option<RunId> {
        let index = self.cursor(view).block;
        let block = self.blocks.get(index).filter(|block| block.run.is_some())?;
        let has_gap = || {
            self.text(index, view.reload)
                .lines()
                .any(|line| OmittedOutput::at_start(line).is_some())
        };
        match (&block.body, block.fold) {
            (BlockBody::None, _) => block.run,
            (BlockBody::Text(_) | BlockBody::OnDisk, BlockFold::End) if has_gap() => block.run,
            (
                BlockBody::Text(_) | BlockBody::OnDisk,
                BlockFold::Closed | BlockFold::End | BlockFold::Open,
            ) => None,
        }
    }

    /// Searches from the cursor, going around.
    pub fn search(
        &mut self,
        query: &str,
        step: SearchStep,
        view: StreamViewport<'_>,
    ) -> Option<SearchHit> {
        let query = query.to_lowercase();
        self.count_matches(&query, view.reload);
        let StreamPlace { block: here, row } = self.cursor(view);
        if let Some(row) = self.row_in_block(here, row, &query, step, view) {
            return Some(self.found_at(StreamPlace { block: here, row }, &query, view));
        }
        let (block, is_ahead) = self.block_with_match(here, step)?;
        self.reveal(block);
        self.blocks[block].fold = BlockFold::Open;
        self.blocks[block].revision += 1;
        let rows = self.rows(block, view);
        let row = row_with(&rows, &query, is_ahead, 0..rows.len()).unwrap_or(0);
        Some(self.found_at(StreamPlace { block, row }, &query, view))
    }

    /// Another match in the block under the cursor.
    fn row_in_block(
        &mut self,
        here: usize,
        row: usize,
        query: &str,
        step: SearchStep,
        view: StreamViewport<'_>,
    ) -> Option<usize> {
        if here >= self.blocks.len() {
            return None;
        }
        let rows = self.rows(here, view);
        match step {
            SearchStep::Next => row_with(&rows, query, true, row + 1..rows.len()),
            SearchStep::Previous => row_with(&rows, query, false, 0..row),
            SearchStep::Nearest => {
                let ahead = row_with(&rows, query, true, row..rows.len());
                let back = row_with(&rows, query, false, 0..row);
                ahead
                    .into_iter()
                    .chain(back)
                    .min_by_key(|at| at.abs_diff(row))
            }
        }
    }

    /// The next block with a match, and whether it is searched from its first row.
    fn block_with_match(&self, here: usize, step: SearchStep) -> Option<(usize, bool)> {
        let count = self.blocks.len();
        let has = |at: &usize| {
            self.matches
                .blocks
                .get(*at)
                .is_some_and(|(_, found)| *found > 0)
        };
        let ahead = || (here + 1..count).find(has);
        let back = || (0..here.min(count)).rev().find(has);
        let found = match step {
            SearchStep::Next => (here + 1..count)
                .chain(0..(here + 1).min(count))
                .find(has)
                .map(|at| (at, true)),
            SearchStep::Previous => (0..here.min(count))
                .rev()
                .chain((here.min(count)..count).rev())
                .find(has)
                .map(|at| (at, false)),
            SearchStep::Nearest => match (ahead(), back()) {
                (Some(next), Some(before)) if here - before < next - here => Some((before, false)),
                (Some(next), _) => Some((next, true)),
                (None, before) => before.map(|at| (at, false)),
            },
        };
        found.or_else(|| has(&here).then_some((here, true)))
    }

    fn found_at(&mut self, place: StreamPlace, query: &str, view: StreamViewport<'_>) -> SearchHit {
        let rows = self.rows(place.block, view);
        let above = rows.iter().take(place.row + 1);
        let in_block = above
            .filter(|line| line.to_string().to_lowercase().contains(query))
            .count()
            .max(1);
        let found = |(_, found): &(u32, usize)| *found;
        let counts = &self.matches.blocks;
        let before: usize = counts.iter().take(place.block).map(found).sum();
        let here = counts.get(place.block).map_or(0, found);
        let hit = SearchHit {
            nth: before + in_block.min(here.max(1)),
            of: counts.iter().map(found).sum::<usize>().max(1),
            is_all: true,
        };
        self.go_to(place);
        hit
    }

    /// Counts the lines with a match in each block that has changed since it was counted.
    fn count_matches(&mut self, query: &str, reload: RecordLoader<'_>) {
        let mut counts = std::mem::take(&mut self.matches);
        if counts.query != query {
            counts = SearchCounts {
                query: query.to_owned(),
                blocks: Vec::new(),
            };
        }
        counts.blocks.truncate(self.blocks.len());
        for (index, block) in self.blocks.iter().enumerate() {
            let revision = block.revision;
            if counts
                .blocks
                .get(index)
                .is_some_and(|(at, _)| *at == revision)
            {
                continue;
            }
            let text = self.text(index, reload);
            let lines = block.head.lines().chain(text.lines());
            let found = lines
                .filter(|line| line.to_lowercase().contains(query))
                .count();
            match counts.blocks.get_mut(index) {
                Some(known) => *known = (revision, found),
                None => counts.blocks.push((revision, found)),
            }
        }
        self.matches = counts;
    }

    /// Closes the block under the cursor.
    pub fn close_block(&mut self, view: StreamViewport<'_>) {
        let index = self.cursor(view).block;
        if let Some(block) = self
            .blocks
            .get_mut(index)
            .filter(|block| block.fold != BlockFold::Closed)
        {
            block.fold = BlockFold::Closed;
            block.revision += 1;
        }
    }

    /// Opens or closes the block under the cursor; returns whether it has something to open. A long
    /// output opens in two steps: its end, then all of it.
    pub fn fold(&mut self, view: StreamViewport<'_>) -> bool {
        let index = self.cursor(view).block;
        if self.is_over(index) {
            self.switch_part(index);
            self.cursor = Some(StreamPlace {
                block: index,
                row: 0,
            });
            return true;
        }
        if index >= self.blocks.len() || !self.can_fold(index) {
            return false;
        }
        let printed = matches!(self.blocks[index].kind, BlockKind::Hook | BlockKind::Tool);
        let fold = self.blocks[index].fold;
        let next = match fold {
            BlockFold::Closed if printed => BlockFold::End,
            BlockFold::Closed => BlockFold::Open,
            BlockFold::End if self.has_more(index, view) => BlockFold::Open,
            BlockFold::End | BlockFold::Open => BlockFold::Closed,
        };
        self.blocks[index].fold = next;
        self.blocks[index].revision += 1;
        if self.cursor.is_some() {
            self.cursor = Some(StreamPlace {
                block: index,
                row: 0,
            });
        }
        true
    }

    /// Whether the open end of a block leaves something out.
    fn has_more(&mut self, index: usize, view: StreamViewport<'_>) -> bool {
        let end = self.rows(index, view).len();
        self.blocks[index].fold = BlockFold::Open;
        self.blocks[index].revision += 1;
        self.rows(index, view).len() != end
    }

    pub fn fold_thoughts(&mut self) {
        self.fold_thoughts = !self.fold_thoughts;
        let fold = if self.fold_thoughts {
            BlockFold::Closed
        } else {
            BlockFold::Open
        };
        for block in self
            .blocks
            .iter_mut()
            .filter(|block| block.kind == BlockKind::Thought)
        {
            block.fold = fold;
            block.revision += 1;
        }
    }
}

/// The first of these rows that contains the text, or the last one when searching backwards.
fn row_with(
    rows: &[Line<'_>],
    query: &str,
    forward: bool,
    mut among: Range<usize>,
) -> Option<usize> {
    let holds = |row: &usize| {
        rows.get(*row)
            .is_some_and(|line| line.to_string().to_lowercase().contains(query))
    };
    if forward {
        among.find(holds)
    } else {
        among.rev().find(holds)
    }
}
