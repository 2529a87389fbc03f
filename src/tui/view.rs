//! The layout of the screen, and its drawing. No I/O, no decisions.

mod detail;
mod end_card;
pub mod facts;
pub mod footer;
mod layout;
pub mod lines;
pub mod pipeline;
pub mod possible;
mod scrubber;
mod status;
mod timeline;

pub use end_card::is_shown as shows_end_card;
pub use layout::{ScreenLayout, has_tabs, is_split_line, places, split_at};
pub use scrubber::position_at as replay_position_at;
pub use status::{chip, role as chip_role};
pub use timeline::block_at as timeline_block_at;

use crossterm::event::KeyEvent;
use layout::padded;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Color,
    text::{Line, Span},
    widgets::{Block, BorderType, Clear, Paragraph, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use super::{
    hints,
    modals::{Modal, editor::EditorPlace, gate::GateParts},
    model::{Pane, ScreenModel},
    panes,
    stream::{RecordLoader, StreamPosition, StreamViewport},
    text::{fit, wrap},
    theme::{ScreenTheme, ThemeRole},
};
use crate::{
    present::gate_words,
    tui::{
        keymap::{GlobalKey, ScrollKey},
        modals::frame::{KeyRow, key_in_row},
        panes::{ClickedRow, MARGIN},
    },
};

/// The pane, or the tab of a pane, at a screen position.
pub fn pane_at(model: &ScreenModel, column: u16, row: u16) -> Option<Pane> {
    let places = places(model, model.area())?;
    if let Some(tabs) = places.tabs.filter(|tabs| tabs.y == row) {
        return lines::tab_at(model, tabs.width, column - tabs.x);
    }
    places
        .panes
        .into_iter()
        .find(|(_, rect)| rect.contains((column, row).into()))
        .map(|(pane, _)| pane)
}

/// The key whose hint is at a screen position.
pub fn key_at(model: &ScreenModel, column: u16, row: u16) -> Option<KeyEvent> {
    let area = model.area();
    let hints = |wanted: Option<u16>| Some(KeyRow::Hints).filter(|_| wanted == Some(row));
    let kind = match model.modals.last() {
        Some(Modal::Viewer(_) | Modal::Diff(_)) => hints(area.bottom().checked_sub(2)),
        Some(Modal::Help(_)) => hints(area.bottom().checked_sub(1)),
        Some(Modal::Editor(editor)) => hints(Some(editor.hint_row(area))),
        Some(Modal::TaskForm(form)) => hints(Some(form.hint_row(area))),
        Some(Modal::Gate(gate)) if gate.hint_row() == Some(row) => Some(KeyRow::Hints),
        Some(Modal::Quit(question)) => hints(Some(question.hint_row(area))),
        Some(Modal::Remove(question) | Modal::Cancel(question)) => {
            hints(Some(question.hint_row(area)))
        }
        Some(Modal::Gate(_) | Modal::Palette(_) | Modal::Search(_)) | None => {
            hints(places(model, area).map(|places| places.hints.y))
        }
    }?;
    let mut buffer = Buffer::empty(area);
    draw(model, area, &mut buffer);
    key_in_row(&buffer, kind, column, row)
}

/// Whether the words that hide the sentence above the footer are at a screen position.
pub fn hides_hint(model: &ScreenModel, column: u16, row: u16) -> bool {
    let area = model.area();
    let line = places(model, area)
        .map(|places| places.hint_line)
        .filter(|line| line.height > 0 && line.y == row);
    let is_visible = matches!(model.modals.last(), Some(Modal::Gate(_)) | None);
    line.is_some_and(|line| is_visible && hints::hides_hint_line(model, line, column))
}

/// Selects the clicked row of a pane.
pub fn choose_at(model: &mut ScreenModel, pane: Pane, row: u16) -> ClickedRow {
    let Some(places) = places(model, model.area()) else {
        return ClickedRow::Nothing;
    };
    let Some((_, rect)) = places.panes.into_iter().find(|(shown, _)| *shown == pane) else {
        return ClickedRow::Nothing;
    };
    let inside = Rect {
        y: rect.y + 1,
        height: rect.height.saturating_sub(2),
        ..rect
    };
    let Some(nth) = row
        .checked_sub(inside.y)
        .filter(|nth| *nth < inside.height)
        .map(usize::from)
    else {
        return ClickedRow::Nothing;
    };
    let choose = |at: &mut usize, new: Option<usize>| match new {
        None => ClickedRow::Nothing,
        Some(new) if new == *at => ClickedRow::Again,
        Some(new) => {
            *at = new;
            ClickedRow::Chosen
        }
    };
    match pane {
        Pane::Hooks => {
            let new = panes::hooks::row_at(model, inside, nth);
            choose(&mut model.panes.hook, new)
        }
        Pane::Pending => {
            let new = panes::item_at(model, inside, nth);
            choose(&mut model.panes.item, new)
        }
        Pane::Retries => {
            let new = panes::retries::row_at(model, inside, nth);
            choose(&mut model.panes.attempt, new)
        }
        Pane::Tasks => panes::tasks::choose(model, inside, nth),
        Pane::Stream => match model.frame.places.get(nth) {
            Some(place) => {
                model.frame.cursor = Some(*place);
                ClickedRow::Chosen
            }
            None => ClickedRow::Nothing,
        },
    }
}

/// Computes what the next frame needs: the rows of the stream that will be in sight, the detail of
/// the selected row, and the layout of what lies over the panes. Text that is on disk is read here,
/// not while drawing.
pub fn prepare(model: &mut ScreenModel, area: Rect, reload: RecordLoader<'_>) {
    let Some(places) = places(model, area) else {
        return;
    };
    if let Some((_, rect)) = places.panes.iter().find(|(pane, _)| *pane == Pane::Stream) {
        // One column on the right stays free.
        let size = (
            usize::from(rect.width.saturating_sub(3 + MARGIN)).min(layout::TEXT),
            usize::from(rect.height.saturating_sub(2)),
        );
        model.frame.size = size;
        let view = StreamViewport {
            width: size.0,
            height: size.1,
            theme: &model.look.theme,
            reload,
        };
        (model.frame.places, model.frame.lines) = model.stream.in_view(view).into_iter().unzip();
        model.frame.cursor = (!model.stream.is_empty()).then(|| model.stream.cursor(view));
    }
    model.frame.timeline = timeline::of(model, &places);
    model.frame.detail = places.detail.and_then(|rect| detail::of(model, rect));
    let mut modals = std::mem::take(&mut model.modals);
    let above = match modals.last() {
        Some(Modal::Editor(editor)) => above(editor.frame(area), area),
        Some(_) | None => None,
    };
    for modal in &mut modals {
        match modal {
            // The sentence above the footer explains the gate, so it stays in sight.
            Modal::Gate(gate) => {
                if let Some(above) = above {
                    gate.prepare(model, above, GateParts::Text);
                } else {
                    let height = area.height - places.hint_line.height;
                    gate.prepare(model, Rect { height, ..area }, GateParts::All);
                }
            }
            Modal::Editor(editor) => editor.prepare(&model.look.theme),
            Modal::TaskForm(form) => form.prepare(&model.look.theme),
            Modal::Help(help) => help.prepare(&model.look.keymap, &model.look.theme, area),
            Modal::Viewer(viewer) => viewer.prepare(&model.runs, model.moment(), &model.look, area),
            Modal::Diff(diff) => diff.prepare(&model.look.theme, area),
            Modal::Palette(_)
            | Modal::Search(_)
            | Modal::Quit(_)
            | Modal::Remove(_)
            | Modal::Cancel(_) => {}
        }
    }
    model.modals = modals;
}

/// The rows between the header and an editor.
fn above(editor: Rect, area: Rect) -> Option<Rect> {
    let height = editor.y.checked_sub(area.y + 1).filter(|rows| *rows > 3)?;
    Some(Rect {
        y: area.y + 1,
        height,
        ..area
    })
}

/// A note in place of everything. If creel is asking whether to leave, the note says so, since the
/// question is not visible.
fn draw_too_small(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let (style, width) = (theme.style(ThemeRole::Warning), usize::from(area.width));
    let lines = if model
        .modals
        .iter()
        .any(|modal| matches!(modal, Modal::Quit(_)))
    {
        wrap(
            &[(
                "Terminal too small: make it larger to answer".to_owned(),
                style,
            )],
            width,
            0,
        )
    } else {
        vec![Line::styled(fit("Terminal too small", width), style)]
    };
    Paragraph::new(lines).render(area, buffer);
}

/// Draws the whole screen, as [`prepare`] has laid it out for the same area.
pub fn draw(model: &ScreenModel, area: Rect, buffer: &mut Buffer) {
    let theme = &model.look.theme;
    buffer.set_style(area, theme.style(ThemeRole::Text));
    match places(model, area) {
        Some(places) => draw_places(model, &places, area, buffer),
        None => draw_too_small(model, theme, area, buffer),
    }
    model.look.replace_signs(buffer);
}

fn draw_places(model: &ScreenModel, places: &ScreenLayout, area: Rect, buffer: &mut Buffer) {
    let theme = &model.look.theme;
    status::draw(model, theme, places.status, buffer);
    if let Some(state) = &model.session {
        pipeline::draw(state, theme, places.pipeline, buffer);
    }
    if let Some(tabs) = places.tabs {
        lines::draw_tabs(model, theme, tabs, buffer);
    }
    for (pane, rect) in &places.panes {
        draw_pane(model, *pane, theme, *rect, buffer);
    }
    end_card::draw(model, theme, buffer);
    if let (Some(rect), Some(detail)) = (places.detail, &model.frame.detail) {
        detail::draw(detail, theme, rect, buffer);
    }
    lines::draw(model, theme, places.hook_line, places.fact_line, buffer);
    footer::draw(model, theme, places.hints, buffer);
    if scrubber::is_shown(model, area) {
        scrubber::draw(model, theme, places.hint_line, buffer);
    } else if !matches!(model.modals.last(), Some(Modal::Gate(_))) {
        hints::draw_hint_line(model, theme, places.hint_line, buffer);
    }
    let is_gate = |modal: &Modal| matches!(modal, Modal::Gate(_));
    let below = if model.modals.iter().any(is_gate) {
        EditorPlace::Gate
    } else {
        EditorPlace::Panes
    };
    for modal in &model.modals {
        match modal {
            Modal::Gate(gate) => gate.draw(model, theme, buffer),
            Modal::Editor(editor) => editor.draw(theme, area, below, buffer),
            Modal::TaskForm(form) => form.draw(theme, area, buffer),
            Modal::Viewer(viewer) => viewer.draw(&model.look.keymap, theme, area, buffer),
            Modal::Diff(diff) => diff.draw(&model.look.keymap, theme, area, buffer),
            Modal::Help(help) => help.draw(&model.look.keymap, theme, area, buffer),
            Modal::Palette(palette) => palette.draw(&model.look.keymap, theme, area, buffer),
            Modal::Search(search) => search.draw(theme, area, buffer),
            Modal::Quit(quit) => quit.draw(theme, area, buffer),
            Modal::Remove(question) | Modal::Cancel(question) => question.draw(theme, area, buffer),
        }
    }
    if matches!(
        model.modals.last(),
        Some(Modal::Viewer(_) | Modal::Diff(_) | Modal::Help(_))
    ) {
        // These cover the last line.
        footer::draw_toast(model, theme, places.hints, buffer);
    }
    announce_gate(model, theme, area, buffer);
    // A gate dims everything else.
    if let Some(Modal::Gate(_)) = model.modals.last()
        && !scrubber::is_shown(model, area)
    {
        Clear.render(places.hint_line, buffer);
        buffer.set_style(places.hint_line, theme.style(ThemeRole::Text));
        hints::draw_hint_line(model, theme, places.hint_line, buffer);
    }
}

/// Says over a dialog that hides the header that a gate waits.
fn announce_gate(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let (Some(gate), Some(state)) = (model.waiting_gate(), &model.session) else {
        return;
    };
    let how = match model.modals.last() {
        Some(Modal::Viewer(_) | Modal::Diff(_) | Modal::Help(_)) => {
            format!("{} answer", model.look.keymap.key(GlobalKey::ShowGate))
        }
        // A gate that the user closed for later is known.
        Some(Modal::Editor(_) | Modal::TaskForm(_)) if model.later_gate.is_none() => {
            "waits until you close this".to_owned()
        }
        Some(
            Modal::Gate(_)
            | Modal::Editor(_)
            | Modal::TaskForm(_)
            | Modal::Palette(_)
            | Modal::Search(_)
            | Modal::Quit(_)
            | Modal::Remove(_)
            | Modal::Cancel(_),
        )
        | None => return,
    };
    if model
        .modals
        .iter()
        .any(|modal| matches!(modal, Modal::Gate(_)))
    {
        return;
    }
    let (most, style) = (usize::from(area.width), theme.style(ThemeRole::Alert));
    let title = gate_words::gate_title(state, gate);
    // A title that does not fit beside the key has more rows.
    let text = format!(" ◆ {title} · {how} ");
    let lines = if text.width() <= most {
        vec![Line::styled(text, style)]
    } else {
        wrap(&[(text, style)], most, 3)
    };
    let width = if lines.len() == 1 {
        u16::try_from(lines[0].width()).unwrap_or(area.width)
    } else {
        area.width
    };
    let height = u16::try_from(lines.len())
        .unwrap_or(area.height)
        .min(area.height);
    let place = Rect {
        x: area.right().saturating_sub(width),
        y: area.y,
        width,
        height,
    };
    Clear.render(place, buffer);
    Paragraph::new(lines).style(style).render(place, buffer);
}

fn draw_pane(
    model: &ScreenModel,
    pane: Pane,
    theme: &ScreenTheme,
    area: Rect,
    buffer: &mut Buffer,
) {
    let focused = model.panes.focus == pane;
    let role = if focused {
        ThemeRole::BorderFocused
    } else {
        ThemeRole::Border
    };
    if area.height == 1 {
        draw_shrunk(model, pane, theme, area, buffer);
        return;
    }
    let border = if focused {
        BorderType::Thick
    } else {
        BorderType::Rounded
    };
    let words = theme.style(if focused {
        ThemeRole::BorderFocused
    } else {
        ThemeRole::Text
    });
    // Without a colour of its own, a title would have that of the frame.
    let words = words.fg(words.fg.unwrap_or(Color::Reset));
    let mut block = Block::bordered()
        .border_type(border)
        .border_style(theme.style(role));
    // The tabs already say which pane it is.
    if !has_tabs(model) {
        block = block.title(Line::styled(
            format!(" {} {} ", pane.number(), pane.title()),
            words,
        ));
    }
    let count = panes::count_in_words(model, pane);
    if !count.is_empty() && area.width > 24 {
        let count = facts::coloured(&format!(" {count} "), words, theme);
        block = block.title_top(Line::from(count).right_aligned());
    }
    if pane == Pane::Stream {
        block = block.title_bottom(live_sign(model, theme).right_aligned());
    }
    let inside = block.inner(area);
    block.render(area, buffer);
    if pane == Pane::Stream {
        timeline::draw(model, theme, buffer);
    }
    let inside = if pane == Pane::Stream {
        inside
    } else {
        padded(inside)
    };
    match pane {
        Pane::Stream => panes::draw_stream(model, theme, inside, buffer),
        Pane::Hooks => panes::hooks::draw(model, theme, inside, buffer),
        Pane::Pending => panes::draw_pending(model, theme, inside, buffer),
        Pane::Retries => panes::retries::draw(model, theme, inside, buffer),
        Pane::Tasks => panes::tasks::draw(model, theme, inside, buffer),
    }
}

/// Whether the stream follows the end.
fn live_sign(model: &ScreenModel, theme: &ScreenTheme) -> Line<'static> {
    let over = model
        .session
        .as_ref()
        .is_some_and(|state| state.phase.outcome().is_some());
    match model.stream.position() {
        StreamPosition::Follow if over || !model.is_steered() => Line::default(),
        StreamPosition::Follow => theme.line(ThemeRole::Good, " ● live "),
        StreamPosition::At { .. } => {
            let key = model.look.keymap.key(ScrollKey::Bottom);
            theme.line(
                ThemeRole::Warning,
                format!(" ○ scrolled back · {key} to the end "),
            )
        }
    }
}

/// A pane without content: its name, and what would be there.
fn draw_shrunk(
    model: &ScreenModel,
    pane: Pane,
    theme: &ScreenTheme,
    area: Rect,
    buffer: &mut Buffer,
) {
    let focused = model.panes.focus == pane;
    let sign = if focused { "▌" } else { " " };
    let name = theme.style(if focused {
        ThemeRole::BorderFocused
    } else {
        ThemeRole::Text
    });
    let head = format!("{sign} {} {}  ", pane.number(), pane.title());
    let text = panes::empty(
        model,
        pane,
        usize::from(area.width).saturating_sub(head.width()),
    );
    let spans = vec![Span::styled(head, name), theme.span(ThemeRole::Faint, text)];
    Line::from(spans).render(area, buffer);
}
