//! Where everything is, for every size of the screen.

use ratatui::layout::{Constraint, Layout, Rect};

use super::{pipeline, scrubber};
use crate::tui::{
    hints,
    memory::PaneSplit,
    model::{Pane, ScreenModel, has_room},
    panes,
};

/// Columns and rows. From this size on, all panes are visible side by side.
const WIDE: (u16, u16) = (100, 20);
/// Columns and rows. From this size on, a screen with tabs also has lines about the hook and the
/// counts.
const WITH_LINES: (u16, u16) = (60, 16);
/// Columns. From this width on, the detail of the selected row is beside the panes.
const WITH_DETAIL: u16 = 160;
/// How much of such a screen the detail has, in percent.
const DETAIL: u16 = 30;
/// The widest column of text. Longer lines are hard to read.
pub(super) const TEXT: usize = 110;
/// The widest stream: its text, the cursor, a free column and the frame.
const STREAM: u16 = 115;

/// In columns. From this width on, there is a free column between a frame and its text.
const PADDED: u16 = 40;
/// The panes beside the stream.
const BESIDE: [Pane; 4] = [Pane::Hooks, Pane::Pending, Pane::Retries, Pane::Tasks];

#[derive(Debug)]
pub struct ScreenLayout {
    pub panes: Vec<(Pane, Rect)>,
    /// The row of tabs, if only one pane is visible.
    pub tabs: Option<Rect>,
    /// The detail of the selected row, on a wide screen.
    pub detail: Option<Rect>,
    pub status: Rect,
    /// The row of a submit or a merge. Its height is 0 if there is none.
    pub pipeline: Rect,
    /// The row about the running hook, on a screen with tabs. Its height is 0 if there is none.
    pub hook_line: Rect,
    /// The row with retries, pending items and the next hooks, on a screen with tabs.
    pub fact_line: Rect,
    /// The row that explains what happens, or the scrubber of a replay. Its height is 0 if there is
    /// none.
    pub hint_line: Rect,
    pub hints: Rect,
}

const fn is_wide(size: (u16, u16)) -> bool {
    size.0 >= WIDE.0 && size.1 >= WIDE.1
}

/// Whether only one pane is visible, and tabs lead to the others.
pub fn has_tabs(model: &ScreenModel) -> bool {
    !is_wide(model.size) || model.panes.zoomed
}

/// Whether lines below the pane have the counts and the cost.
pub(super) fn has_lines(model: &ScreenModel) -> bool {
    has_tabs(model) && model.size.0 >= WITH_LINES.0 && model.size.1 >= WITH_LINES.1
}

/// The layout for an area. None if it is too small.
pub fn places(model: &ScreenModel, area: Rect) -> Option<ScreenLayout> {
    if !has_room((area.width, area.height)) {
        return None;
    }
    let tabbed = !is_wide((area.width, area.height)) || model.panes.zoomed;
    let with_lines = tabbed
        && area.width >= WITH_LINES.0
        && area.height >= WITH_LINES.1
        && model.session.is_some();
    let with_pipeline = model.session.as_ref().is_some_and(pipeline::is_shown);
    let with_hook = with_lines && !model.hook_rows().is_empty();
    let rows = [
        Constraint::Length(1),
        Constraint::Length(u16::from(with_pipeline)),
        Constraint::Min(1),
        Constraint::Length(u16::from(with_hook)),
        Constraint::Length(u16::from(with_lines)),
        Constraint::Length(
            hints::hint_rows(model, area).max(u16::from(scrubber::is_shown(model, area))),
        ),
        Constraint::Length(1),
    ];
    let [
        status,
        pipeline,
        body,
        hook_line,
        fact_line,
        hint_line,
        hints,
    ] = Layout::vertical(rows).areas(area);
    let (panes, tabs, detail) = (Vec::new(), None, None);
    let layout = ScreenLayout {
        panes,
        tabs,
        detail,
        status,
        pipeline,
        hook_line,
        fact_line,
        hint_line,
        hints,
    };
    if tabbed {
        let [tabs, pane] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(body);
        return Some(ScreenLayout {
            panes: vec![(model.panes.focus, pane)],
            tabs: Some(tabs),
            ..layout
        });
    }
    let (rest, detail) = with_detail(body);
    if BESIDE
        .into_iter()
        .all(|pane| panes::wanted(model, pane) == 0)
    {
        // Nothing would be beside the stream, so it has the whole width, as far as its text needs it.
        let (rest, detail) = match detail {
            Some(detail) if rest.width > STREAM => {
                let more = rest.width - STREAM;
                let rest = Rect {
                    width: STREAM,
                    ..rest
                };
                let detail = Rect {
                    x: detail.x - more,
                    width: detail.width + more,
                    ..detail
                };
                (rest, Some(detail))
            }
            detail => (rest, detail),
        };
        return Some(ScreenLayout {
            panes: one_below_the_other(rest),
            detail,
            ..layout
        });
    }
    let share = u32::from(rest.width) * u32::from(model.memory.split.percent()) / 100;
    let stream = Constraint::Length(u16::try_from(share).unwrap_or(STREAM).min(STREAM));
    let [left, right] = Layout::horizontal([stream, Constraint::Fill(1)]).areas(rest);
    let mut panes = vec![(Pane::Stream, left)];
    panes.extend(stacked(model, right));
    Some(ScreenLayout {
        panes,
        detail,
        ..layout
    })
}

/// The panes, and the detail beside them.
fn with_detail(body: Rect) -> (Rect, Option<Rect>) {
    if body.width < WITH_DETAIL {
        return (body, None);
    }
    let [rest, detail] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Percentage(DETAIL)]).areas(body);
    (rest, Some(detail))
}

/// The stream, and one line for each of the others below it.
fn one_below_the_other(area: Rect) -> Vec<(Pane, Rect)> {
    let line = Constraint::Length(1);
    let rows = Layout::vertical([Constraint::Min(1), line, line, line, line]).areas::<5>(area);
    [Pane::Stream].into_iter().chain(BESIDE).zip(rows).collect()
}

/// The panes on the right: those without content have one line, the others what they need. If that
/// is too much, all give way; if it is too little, the hooks get the rest.
fn stacked(model: &ScreenModel, area: Rect) -> Vec<(Pane, Rect)> {
    const FRAME: usize = 2;
    const LEAST: usize = 4;
    let mut heights = BESIDE.map(|pane| match panes::wanted(model, pane) {
        0 => 1,
        rows => rows + FRAME,
    });
    let room = usize::from(area.height);
    while heights.iter().sum::<usize>() > room {
        // The tallest gives way first, so that short lists stay complete.
        let tallest = (0..heights.len()).max_by_key(|n| heights[*n]).unwrap_or(0);
        if heights[tallest] <= LEAST {
            break;
        }
        heights[tallest] -= 1;
    }
    let used: usize = heights.iter().sum();
    let taker = (0..heights.len()).find(|n| heights[*n] > 1);
    if let Some(taker) = taker {
        heights[taker] += room.saturating_sub(used);
    }
    let rows = heights.map(|height| Constraint::Length(u16::try_from(height).unwrap_or(u16::MAX)));
    BESIDE
        .into_iter()
        .zip(Layout::vertical(rows).areas::<4>(area))
        .collect()
}

/// The columns that the split divides, and the first column right of it. None if there is no split.
fn split_columns(model: &ScreenModel) -> Option<(Rect, u16)> {
    let places = places(model, model.area()).filter(|places| places.tabs.is_none())?;
    let column = |wanted: Pane| {
        places
            .panes
            .iter()
            .find(|(pane, _)| *pane == wanted)
            .map(|(_, rect)| *rect)
    };
    let (left, right) = (
        column(Pane::Stream)?,
        column(Pane::Hooks).filter(|hooks| hooks.x > 0)?,
    );
    Some((
        Rect {
            width: left.width + right.width,
            ..left
        },
        right.x,
    ))
}

/// Whether this position is on the line between the stream and the other panes.
pub fn is_split_line(model: &ScreenModel, column: u16, row: u16) -> bool {
    split_columns(model).is_some_and(|(area, line)| {
        (column == line || column + 1 == line) && (area.top()..area.bottom()).contains(&row)
    })
}

/// The split that puts the line at this column.
pub fn split_at(model: &ScreenModel, column: u16) -> Option<PaneSplit> {
    let (area, _) = split_columns(model)?;
    let left = u32::from(column.saturating_sub(area.x)) * 100;
    Some(PaneSplit::new(
        u16::try_from(left.div_ceil(u32::from(area.width).max(1))).unwrap_or(0),
    ))
}

/// The area with a free column at both sides, unless it is narrow.
pub(super) fn padded(area: Rect) -> Rect {
    let margin = u16::from(area.width >= PADDED);
    Rect {
        x: area.x + margin,
        width: area.width.saturating_sub(2 * margin),
        ..area
    }
}
