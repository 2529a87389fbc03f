//! The layout of the screen, and its drawing. No I/O, no decisions.

mod hints;
pub mod pipeline;
mod status;

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span},
    widgets::{Block, BorderType, Paragraph, Widget as _},
};

use super::{
    modals::Modal,
    model::{Pane, ScreenModel},
    panes,
    runs::RunEntry,
    stream::RecordLoader,
    text::{fit, wrap},
    theme::{ScreenTheme, ThemeRole},
};
use crate::{engine::tasks::graph::TaskGraph, present::text::plain};

/// Columns and rows. A smaller screen shows only a note.
const SMALLEST: (u16, u16) = (24, 6);
/// Columns and rows. From this size on, all panes are visible side by side.
const WIDE: (u16, u16) = (100, 20);

#[derive(Debug)]
pub struct ScreenLayout {
    pub panes: Vec<(Pane, Rect)>,
    /// The row of tabs, if only one pane is visible.
    pub tabs: Option<Rect>,
    pub status: Rect,
    /// The row of a submit or a merge. Its height is 0 if there is none.
    pub pipeline: Rect,
    pub hints: Rect,
}

/// Whether a screen of this size can show anything.
pub const fn has_room(size: (u16, u16)) -> bool {
    size.0 >= SMALLEST.0 && size.1 >= SMALLEST.1
}

/// The layout for an area. None if it is too small.
pub fn places(model: &ScreenModel, area: Rect) -> Option<ScreenLayout> {
    if !has_room((area.width, area.height)) {
        return None;
    }
    let row = u16::from(model.session.as_ref().is_some_and(pipeline::is_shown));
    let rows = [1, row].map(Constraint::Length).into_iter().chain([Constraint::Min(1), Constraint::Length(1)]);
    let [status, pipeline, body, hints] = Layout::vertical(rows).areas(area);
    let wide = area.width >= WIDE.0 && area.height >= WIDE.1;
    if wide && !model.zoomed {
        let [left, right] = Layout::horizontal([Constraint::Percentage(60), Constraint::Fill(1)]).areas(body);
        let column = Layout::vertical([
            Constraint::Fill(3),
            Constraint::Fill(2),
            Constraint::Length(9.min(body.height / 4).max(4)),
            if model.graph().is_none_or(TaskGraph::is_empty) { Constraint::Length(3) } else { Constraint::Fill(2) },
        ]);
        let [hooks, pending, retries, tasks] = column.areas(right);
        let panes = vec![
            (Pane::Stream, left),
            (Pane::Hooks, hooks),
            (Pane::Pending, pending),
            (Pane::Retries, retries),
            (Pane::Tasks, tasks),
        ];
        return Some(ScreenLayout { panes, tabs: None, status, pipeline, hints });
    }
    let [tabs, pane] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(body);
    Some(ScreenLayout { panes: vec![(model.focus, pane)], tabs: Some(tabs), status, pipeline, hints })
}

/// The pane, or the tab of a pane, at a screen position.
pub fn pane_at(model: &ScreenModel, column: u16, row: u16) -> Option<Pane> {
    let area = Rect { x: 0, y: 0, width: model.size.0, height: model.size.1 };
    let places = places(model, area)?;
    if let Some(tabs) = places.tabs.filter(|tabs| tabs.y == row) {
        return tab_at(model, tabs.width, column - tabs.x);
    }
    places.panes.into_iter().find(|(_, rect)| rect.contains((column, row).into())).map(|(pane, _)| pane)
}

fn tab_at(model: &ScreenModel, room: u16, column: u16) -> Option<Pane> {
    let mut from = 0;
    for (pane, text) in tabs(model, room) {
        let width = u16::try_from(text.len()).unwrap_or(0);
        if (from..from + width).contains(&column) {
            return Some(pane);
        }
        from += width;
    }
    None
}

/// The tabs. If there is no room for all names, only the focused pane has one.
fn tabs(model: &ScreenModel, room: u16) -> Vec<(Pane, String)> {
    let numbered = || Pane::ALL.into_iter().zip(1..);
    let long: Vec<(Pane, String)> = numbered().map(|(pane, n)| (pane, format!(" {n} {} ", pane.title()))).collect();
    if long.iter().map(|(_, text)| text.len()).sum::<usize>() <= usize::from(room) {
        return long;
    }
    let short = |(pane, text): (Pane, String), n: usize| {
        if pane == model.focus { (pane, text) } else { (pane, format!(" {n} ")) }
    };
    long.into_iter().zip(1..).map(|(tab, n)| short(tab, n)).collect()
}

/// Selects the clicked row of a list.
pub fn choose_at(model: &mut ScreenModel, pane: Pane, row: u16) {
    let area = Rect { x: 0, y: 0, width: model.size.0, height: model.size.1 };
    let Some(places) = places(model, area) else { return };
    let Some((_, rect)) = places.panes.into_iter().find(|(shown, _)| *shown == pane) else { return };
    let inside = Rect { y: rect.y + 1, height: rect.height.saturating_sub(2), ..rect };
    let Some(nth) = row.checked_sub(inside.y).map(usize::from) else { return };
    match pane {
        Pane::Hooks => panes::hooks::choose(model, inside, nth),
        Pane::Pending => panes::pending::choose(model, inside, nth),
        Pane::Tasks => panes::tasks::choose(model, inside, nth),
        Pane::Stream | Pane::Retries => {}
    }
}

/// What a run printed: stdout, then stderr; while it runs, its live output.
pub fn run_text(run: &RunEntry) -> String {
    run.ended
        .as_ref()
        .map_or_else(|| run.live.clone(), |finished| plain(&format!("{}{}", finished.stdout, finished.stderr)))
}

/// Computes what the next frame needs: the rows of the stream that will be in sight, and the layout of what lies over the
/// panes. Text that is on disk is read here, not while drawing.
pub fn prepare(model: &mut ScreenModel, area: Rect, reload: RecordLoader<'_>) {
    let Some(places) = places(model, area) else { return };
    if let Some((_, rect)) = places.panes.iter().find(|(pane, _)| *pane == Pane::Stream) {
        let size = (usize::from(rect.width.saturating_sub(2)), usize::from(rect.height.saturating_sub(2)));
        model.stream_size = size;
        model.stream_lines = model.stream.in_sight(size.0, size.1, &model.theme, reload);
    }
    let mut modals = std::mem::take(&mut model.modals);
    for modal in &mut modals {
        match modal {
            Modal::Gate(gate) => gate.prepare(model, area),
            Modal::Editor(editor) => editor.prepare(&model.theme),
            Modal::Help(help) => help.prepare(&model.keymap, &model.theme, area),
            Modal::Viewer(_) | Modal::Palette(_) | Modal::Search(_) | Modal::Quit(_) | Modal::Remove(_) => {}
        }
    }
    model.modals = modals;
}

/// A note in place of everything. If creel is asking whether to leave, the note says so, since the question is not
/// visible.
fn draw_too_small(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let (style, width) = (theme.style(ThemeRole::Warning), usize::from(area.width));
    let lines = if model.modals.iter().any(|modal| matches!(modal, Modal::Quit(_))) {
        wrap(&[("terminal too small: make it larger to answer".to_owned(), style)], width, 0)
    } else {
        vec![Line::styled(fit("terminal too small", width), style)]
    };
    Paragraph::new(lines).render(area, buffer);
}

/// Draws the whole screen, as [`prepare`] has laid it out for the same area.
pub fn draw(model: &ScreenModel, area: Rect, buffer: &mut Buffer) {
    let theme = &model.theme;
    buffer.set_style(area, theme.style(ThemeRole::Text));
    let Some(places) = places(model, area) else {
        draw_too_small(model, theme, area, buffer);
        return;
    };
    status::draw(model, theme, places.status, buffer);
    if let Some(state) = &model.session {
        pipeline::draw(state, theme, places.pipeline, buffer);
    }
    if let Some(tabs) = places.tabs {
        draw_tabs(model, theme, tabs, buffer);
    }
    for (pane, rect) in &places.panes {
        draw_pane(model, *pane, theme, *rect, buffer);
    }
    hints::draw(model, theme, places.hints, buffer);
    for modal in &model.modals {
        match modal {
            Modal::Gate(gate) => gate.draw(model, theme, buffer),
            Modal::Editor(editor) => editor.draw(theme, area, buffer),
            Modal::Viewer(viewer) => viewer.draw(&model.keymap, theme, area, buffer),
            Modal::Help(help) => help.draw(&model.keymap, theme, area, buffer),
            Modal::Palette(palette) => palette.draw(&model.keymap, theme, area, buffer),
            Modal::Search(search) => search.draw(theme, area, buffer),
            Modal::Quit(quit) => quit.draw(theme, area, buffer),
            Modal::Remove(question) => question.draw(theme, area, buffer),
        }
    }
}

fn draw_pane(model: &ScreenModel, pane: Pane, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let focused = model.focus == pane;
    let role = if focused { ThemeRole::BorderFocused } else { ThemeRole::Border };
    let border = if focused { BorderType::Thick } else { BorderType::Plain };
    let block = Block::bordered()
        .border_type(border)
        .border_style(theme.style(role))
        .title(Line::styled(format!(" {} ", panes::title(model, pane)), theme.style(role)));
    let inside = block.inner(area);
    block.render(area, buffer);
    match pane {
        Pane::Stream => panes::stream::draw(model, theme, inside, buffer),
        Pane::Hooks => panes::hooks::draw(model, theme, inside, buffer),
        Pane::Pending => panes::pending::draw(model, theme, inside, buffer),
        Pane::Retries => panes::retries::draw(model, theme, inside, buffer),
        Pane::Tasks => panes::tasks::draw(model, theme, inside, buffer),
    }
}

fn draw_tabs(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let tabs = tabs(model, area.width).into_iter().map(|(pane, text)| {
        let role = if pane == model.focus { ThemeRole::Selected } else { ThemeRole::Faint };
        Span::styled(text, theme.style(role))
    });
    Line::from(tabs.collect::<Vec<_>>()).render(area, buffer);
}
