//! The rows of blocks, and which of them are visible.
//!
//! A block becomes rows only when it comes into view; its rows are kept until it changes.
//!
//! A [`LiveAnswerTail`] is the live end of an answer that is too long for the journal. creel
//! records the beginning of a very long answer and writes the rest to a file until the turn ends.
//! The stream shows the end of that file below the recorded text, so that the user sees progress.

use std::rc::Rc;

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use super::{StreamBlock, block};
use crate::{
    engine::{
        event::{Event, TurnEvent},
        ids::TurnId,
        time::UnixTime,
    },
    present::{
        describe::{DetailKind, DetailText},
        text::{grouped, plural, readable_size, time_with_seconds},
    },
    text::printed_lines,
    tui::{
        ansi::{coloured_lines, omitted_words},
        diff,
        markdown::markdown,
        stream::{
            BlockBody, BlockFold, BlockKind, SessionStream, StreamPlace, StreamPosition,
            StreamViewport,
        },
        text::{fit, plain_lines, wrap},
        theme::{ScreenTheme, ThemeRole},
    },
};

/// How many blocks have cached rows.
const ROWS_KEPT: usize = 512;
/// In columns. Narrower lines have no time at their right.
const NARROW: usize = 30;

/// Cached rows of a block, valid for one width and one revision.
#[derive(Debug)]
pub(super) struct BlockRows {
    width: usize,
    revision: u32,
    lines: Rc<Vec<Line<'static>>>,
}

/// How much of a first line has the colour of its block, in bytes. Of what went well, and of
/// prompts, only the sign: so what failed and what runs stand out.
fn coloured_part(kind: BlockKind, role: ThemeRole, head: &str) -> usize {
    let is_calm = role == ThemeRole::Good || kind == BlockKind::Prompt;
    let sign = head
        .split_inclusive(' ')
        .next()
        .filter(|sign| sign.trim_end().chars().count() == 1);
    if is_calm {
        sign.map_or(head.len(), str::len)
    } else {
        head.len()
    }
}

impl SessionStream {
    /// Makes all rows again, since the theme has changed.
    pub fn forget_rows(&mut self) {
        self.rows.clear();
    }

    pub(super) fn rows(
        &mut self,
        index: usize,
        view: StreamViewport<'_>,
    ) -> Rc<Vec<Line<'static>>> {
        let block = &self.blocks[index];
        let kept = self.rows.get(&index);
        if let Some(rows) =
            kept.filter(|rows| rows.width == view.width && rows.revision == block.revision)
        {
            return rows.lines.clone();
        }
        let lines = Rc::new(self.make_rows(index, view));
        if self.rows.len() >= ROWS_KEPT {
            self.rows.clear();
        }
        let revision = self.blocks[index].revision;
        self.rows.insert(
            index,
            BlockRows {
                width: view.width,
                revision,
                lines: lines.clone(),
            },
        );
        lines
    }

    /// Whether the user can open and close a block.
    pub(super) fn can_fold(&self, index: usize) -> bool {
        let block = &self.blocks[index];
        !matches!(block.body, BlockBody::None) && block.kind != BlockKind::Message
    }

    fn make_rows(&self, index: usize, view: StreamViewport<'_>) -> Vec<Line<'static>> {
        let block = &self.blocks[index];
        let StreamViewport {
            width,
            theme,
            reload,
            ..
        } = view;
        if let Some(line) = self.closed_line(index, view) {
            return vec![line];
        }
        let mut lines = Vec::new();
        if matches!(block.kind, BlockKind::Iteration | BlockKind::Pipeline) {
            if index > 0 {
                lines.push(Line::default());
            }
            lines.push(self.part_line(index, view));
        } else if !block.head.is_empty() {
            lines.extend(self.head_lines(index, view));
        }
        if block.fold == BlockFold::Closed || matches!(block.body, BlockBody::None) {
            return lines;
        }
        lines.extend(match block.kind {
            BlockKind::Message => {
                let rows = markdown(&self.text(index, reload), theme, width_of_agent(width));
                with_gutter(rows, ThemeRole::Agent, theme)
            }
            BlockKind::Thought => {
                let (text, style) = (self.text(index, reload), theme.style(ThemeRole::Text));
                let rows = plain_lines(text.trim_end(), style, width_of_agent(width));
                with_gutter(rows, ThemeRole::Faint, theme)
            }
            BlockKind::Session
            | BlockKind::Iteration
            | BlockKind::Pipeline
            | BlockKind::Prompt
            | BlockKind::Tool
            | BlockKind::Request
            | BlockKind::Plan
            | BlockKind::Hook
            | BlockKind::Yours
            | BlockKind::Note => quoted(&self.parts(index, reload), block.fold, theme, width),
        });
        lines
    }

    /// The first line of a block, with the time that it took at its right. A prompt has one line:
    /// its text is below it.
    fn head_lines(&self, index: usize, view: StreamViewport<'_>) -> Vec<Line<'static>> {
        let (block, StreamViewport { width, theme, .. }) = (&self.blocks[index], view);
        let sign = match block.fold {
            _ if !self.can_fold(index) => "",
            BlockFold::Closed => "▸ ",
            BlockFold::End | BlockFold::Open => "▾ ",
        };
        let head = if block.kind == BlockKind::Prompt {
            fit(&block.head, width.saturating_sub(sign.width()))
        } else {
            block.head.clone()
        };
        let (mark, text) = head.split_at(coloured_part(block.kind, block.role, &head));
        let pieces = [
            (sign.to_owned(), theme.style(ThemeRole::Faint)),
            (mark.to_owned(), theme.style(block.role)),
            (text.to_owned(), theme.style(ThemeRole::Text)),
        ];
        // Without much room, the name of a tool is more important than its time.
        if block.took.is_empty() || width < NARROW {
            return wrap(&pieces, width, 2);
        }
        let room = width - block.took.width() - 2;
        let mut lines = wrap(&pieces, room, 2);
        if let Some(first) = lines.first_mut() {
            let gap = width.saturating_sub(first.width() + block.took.width());
            first.spans.push(Span::raw(" ".repeat(gap)));
            first
                .spans
                .push(theme.span(ThemeRole::Faint, block.took.clone()));
        }
        lines
    }

    /// The line above a part of the session: `ITERATION 2 ───── 14:31:07`.
    fn part_line(&self, index: usize, view: StreamViewport<'_>) -> Line<'static> {
        let block = &self.blocks[index];
        let title = block
            .head
            .trim_start_matches('━')
            .trim_start()
            .to_uppercase();
        let time = time_with_seconds(block.at, &self.zone);
        let ruler = view.width.saturating_sub(title.width() + time.width() + 2);
        let mut spans = vec![view.theme.span(ThemeRole::Heading, title)];
        if ruler > 2 {
            spans.push(
                view.theme
                    .span(ThemeRole::Border, format!(" {} ", "─".repeat(ruler))),
            );
            spans.push(view.theme.span(ThemeRole::Faint, time));
        }
        Line::from(spans)
    }

    /// The visible lines, each with its place.
    pub fn in_view(&mut self, view: StreamViewport<'_>) -> Vec<(StreamPlace, Line<'static>)> {
        let StreamPlace {
            mut block,
            row: mut skip,
        } = self.first_in_view(view);
        let mut lines = Vec::with_capacity(view.height);
        while lines.len() < view.height && block < self.blocks.len() {
            let rows = self.rows(block, view);
            let places = rows
                .iter()
                .enumerate()
                .skip(skip)
                .take(view.height - lines.len());
            lines.extend(places.map(|(row, line)| (StreamPlace { block, row }, line.clone())));
            (block, skip) = (self.block_after(block), 0);
        }
        lines
    }

    pub(super) fn first_in_view(&mut self, view: StreamViewport<'_>) -> StreamPlace {
        match self.position {
            StreamPosition::At { block, row } if block < self.blocks.len() => {
                let StreamPlace { block, row } = self.visible(StreamPlace { block, row });
                let rows = self.rows(block, view).len();
                StreamPlace {
                    block,
                    row: row.min(rows.saturating_sub(1)),
                }
            }
            StreamPosition::At { .. } | StreamPosition::Follow => self.end(view),
        }
    }

    /// The place at which the last row is just visible.
    pub(super) fn end(&mut self, view: StreamViewport<'_>) -> StreamPlace {
        let mut need = view.height;
        let mut next = (!self.blocks.is_empty()).then(|| self.last_block());
        while let Some(block) = next {
            let rows = self.rows(block, view).len();
            if rows >= need {
                return StreamPlace {
                    block,
                    row: rows - need,
                };
            }
            need -= rows;
            next = self.block_before(block);
        }
        StreamPlace { block: 0, row: 0 }
    }

    /// The last row.
    pub(super) fn last_row(&mut self, view: StreamViewport<'_>) -> StreamPlace {
        let mut block = self.last_block();
        // A block of an answer that has just begun can have no row yet.
        while self.blocks.len() > block && self.rows(block, view).is_empty() {
            let Some(before) = self.block_before(block) else {
                break;
            };
            block = before;
        }
        let rows = if self.blocks.is_empty() {
            0
        } else {
            self.rows(block, view).len()
        };
        StreamPlace {
            block,
            row: rows.saturating_sub(1),
        }
    }
}

/// Before each row of what the agent says: no row of creel begins with it.
const GUTTER: &str = "▎";

/// The columns that the gutter leaves.
fn width_of_agent(width: usize) -> usize {
    width.saturating_sub(2).max(1)
}

/// Puts the gutter before the rows of a text of the agent.
fn with_gutter(
    mut rows: Vec<Line<'static>>,
    role: ThemeRole,
    theme: &ScreenTheme,
) -> Vec<Line<'static>> {
    for row in &mut rows {
        let gap = if row.width() == 0 { "" } else { " " };
        let spans = [theme.span(role, GUTTER), Span::raw(gap)];
        row.spans.splice(0..0, spans);
    }
    rows
}

/// How many lines of a long output are visible before the user opens all of it.
const END: usize = 12;
/// Narrower text has a smaller indent, in columns.
const INDENTED: usize = 40;

/// The title above the text, used if a block has more than one text.
const fn title(kind: DetailKind) -> &'static str {
    match kind {
        DetailKind::Change => "Changes",
        DetailKind::Arguments => "Arguments",
        DetailKind::Output => "Output",
        DetailKind::Words | DetailKind::Plan => "",
    }
}

/// In bytes.
pub(super) fn size(parts: &[DetailText]) -> usize {
    parts.iter().map(|part| part.text.len()).sum()
}

/// The rows of the texts, indented. Of a block that is open to its end, only the last lines of long
/// texts. creel's own words are indented less than the texts, so that no text looks like them.
pub(super) fn quoted(
    parts: &[DetailText],
    fold: BlockFold,
    theme: &ScreenTheme,
    width: usize,
) -> Vec<Line<'static>> {
    let indent = if width < INDENTED { 2 } else { 4 };
    let inner = width.saturating_sub(indent).max(1);
    let own = |text: &str| {
        let note = plain_lines(text, theme.style(ThemeRole::Faint), inner);
        indented(note, indent / 2)
    };
    let mut rows = Vec::new();
    for part in parts {
        if parts.len() > 1 && !title(part.kind).is_empty() {
            rows.extend(own(title(part.kind)));
        }
        let text = match part.kind {
            DetailKind::Change => diff::lines(&part.text, theme, inner),
            DetailKind::Plan => part
                .text
                .lines()
                .flat_map(|entry| planned(entry, theme, inner))
                .collect(),
            DetailKind::Words | DetailKind::Arguments | DetailKind::Output => {
                let text = part.text.trim_end();
                let (before, end) = if fold == BlockFold::End {
                    end_of(text)
                } else {
                    (0, text)
                };
                if before > 0 {
                    let lines = plural(before, "line");
                    rows.extend(own(&format!("… {} more {lines}", grouped(before))));
                }
                output(end, part.kind, theme, inner)
            }
        };
        rows.extend(indented(text, indent));
    }
    rows
}

fn indented(mut rows: Vec<Line<'static>>, indent: usize) -> Vec<Line<'static>> {
    for row in &mut rows {
        row.spans.insert(0, " ".repeat(indent).into());
    }
    rows
}

/// A text in its own colours.
fn output(text: &str, kind: DetailKind, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
    let mut rows = Vec::new();
    let lines = coloured_lines(text, theme.style(ThemeRole::Text), theme.keeps_colours);
    for line in lines {
        let omitted = omitted_words(&line).filter(|_| kind == DetailKind::Output);
        let line = omitted.map_or(line, |words| vec![(words, theme.style(ThemeRole::Faint))]);
        rows.extend(wrap(&line, width, 0));
    }
    rows
}

/// The last lines of a text, and how many were printed before them.
fn end_of(text: &str) -> (usize, &str) {
    let Some((cut, _)) = text.rmatch_indices('\n').nth(END - 1) else {
        return (0, text);
    };
    (printed_lines(&text[..=cut]), &text[cut + 1..])
}

/// An entry of a plan: active entries stand out, completed ones are faint.
fn planned(entry: &str, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
    let role = match entry.chars().next() {
        Some('▸') => ThemeRole::Accent,
        Some('☑') => ThemeRole::Faint,
        Some('✗') => ThemeRole::Bad,
        Some(_) | None => ThemeRole::Text,
    };
    plain_lines(entry, theme.style(role), width)
}

/// The answer of the current turn.
#[derive(Debug, Default)]
pub(super) struct LiveAnswerTail {
    turn: Option<TurnId>,
    /// How many bytes of the answer are recorded.
    recorded: u64,
    /// The length of the answer when its end was last shown. None while it is not shown.
    shown: Option<u64>,
    /// The block of the end while it was last shown. The view follows it if records arrive before
    /// it.
    block: usize,
}

impl LiveAnswerTail {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the other records are no part of an answer"
    )]
    pub(super) fn count(&mut self, event: &Event) {
        match event {
            Event::Turn(TurnEvent::PromptSent(prompt)) => {
                *self = Self {
                    turn: Some(prompt.turn),
                    ..Self::default()
                }
            }
            Event::Turn(TurnEvent::AgentSaid { turn, text, .. }) if self.turn == Some(*turn) => {
                self.recorded += text.len() as u64;
            }
            Event::Turn(TurnEvent::Ended { .. } | TurnEvent::Failed { .. }) => self.turn = None,
            _ => {}
        }
    }
}

impl SessionStream {
    /// Shows the end of this turn's answer, which has `printed` bytes by now. Returns whether it
    /// has grown.
    pub fn show_live_end(&mut self, turn: TurnId, at: UnixTime, printed: u64, end: &[u8]) -> bool {
        let missing = printed.saturating_sub(self.live_end.recorded);
        if self.live_end.turn != Some(turn) || missing == 0 || self.live_end.shown == Some(printed)
        {
            return false;
        }
        self.hide_live_end();
        let wanted = usize::try_from(missing)
            .unwrap_or(usize::MAX)
            .min(end.len());
        let text = String::from_utf8_lossy(&end[end.len() - wanted..]).into_owned();
        let omitted = missing - wanted as u64;
        let head = if omitted > 0 {
            format!(
                "… {} of this answer omitted; it continues:",
                readable_size(omitted)
            )
        } else {
            String::new()
        };
        let mut new: StreamBlock = block(BlockKind::Message, at, head, ThemeRole::Faint);
        new.body = BlockBody::Text(vec![DetailText::words(text)]);
        self.blocks.push(new);
        let (was, is) = (self.live_end.block, self.blocks.len() - 1);
        if was > 0 && is > was {
            self.follow_block(was, is);
        }
        (self.live_end.shown, self.live_end.block) = (Some(printed), is);
        true
    }

    /// The view and the cursor stay in a block that has moved.
    fn follow_block(&mut self, was: usize, is: usize) {
        if let StreamPosition::At { block, .. } = &mut self.position
            && *block == was
        {
            *block = is;
        }
        if let Some(cursor) = self.cursor.as_mut().filter(|cursor| cursor.block == was) {
            cursor.block = is;
        }
    }

    /// Removes the block of the live end, before a record or a newer end is added.
    pub(super) fn hide_live_end(&mut self) {
        if self.live_end.shown.take().is_some() {
            self.blocks.pop();
            self.rows.remove(&self.blocks.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_shown_from_its_end() {
        let text = (1..=20)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join("\n");
        let (omitted, end) = end_of(&text);
        assert_eq!(
            (omitted, end.lines().count(), end.lines().next()),
            (8, 12, Some("9"))
        );
        assert_eq!(end_of("1\n2"), (0, "1\n2"));
        let twelve = (1..=12)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join("\n");
        assert_eq!(end_of(&twelve).0, 0);
        assert_eq!(
            end_of(&format!("1\n[… 900 lines, 9 bytes left out …]\n{twelve}")).0,
            901
        );
    }
}

#[cfg(test)]
mod live_answer_tests {
    use super::*;
    use crate::tui::stream::StreamPlace;

    #[test]
    fn the_view_stays_in_the_live_end_when_late_records_come_before_it() {
        let at = UnixTime::default();
        let mut stream = SessionStream::default();
        let record = |stream: &mut SessionStream| {
            stream.hide_live_end();
            stream.blocks.push(block(
                BlockKind::Message,
                at,
                String::new(),
                ThemeRole::Text,
            ));
        };
        stream.live_end.turn = Some(TurnId::default());
        record(&mut stream);
        assert!(stream.show_live_end(TurnId::default(), at, 100, b"the end"));
        stream.position = StreamPosition::At { block: 1, row: 0 };
        stream.cursor = Some(StreamPlace { block: 1, row: 0 });
        record(&mut stream);
        assert!(stream.show_live_end(TurnId::default(), at, 100, b"the end"));
        assert_eq!(stream.position, StreamPosition::At { block: 2, row: 0 });
        assert_eq!(stream.cursor.map(|cursor| cursor.block), Some(2));
    }
}
