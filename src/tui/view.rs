//! Where everything stands on the screen, and the drawing of it. No I/O, no decision.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span},
    widgets::{Block, BorderType, Widget as _},
};

use super::{
    keymap::Action,
    modals::{Modal, quit::QuitModal},
    model::{Mode, Model, Pane},
    panes,
    runs::Run,
    stream::Reload,
    text::fit,
    theme::{Role, Theme},
};
use crate::{control::text::plain, engine::State};
use unicode_width::UnicodeWidthStr as _;

/// With less than this there is only a line that says so.
const SMALLEST: (u16, u16) = (24, 6);
/// From here on all panes stand side by side.
const WIDE: (u16, u16) = (100, 20);

/// The places of everything.
#[derive(Debug)]
pub struct Places {
    /// The panes in sight.
    pub panes: Vec<(Pane, Rect)>,
    /// The row of tabs, where panes take turns.
    pub tabs: Option<Rect>,
    /// The status line.
    pub status: Rect,
    /// The hints.
    pub hints: Rect,
}

/// The places for a size; nothing, if it is too small.
pub fn places(model: &Model, area: Rect) -> Option<Places> {
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        return None;
    }
    let [status, body, hints] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)]).areas(area);
    let wide = area.width >= WIDE.0 && area.height >= WIDE.1;
    if wide && !model.zoomed {
        let [left, right] = Layout::horizontal([Constraint::Percentage(60), Constraint::Fill(1)]).areas(body);
        let column = Layout::vertical([
            Constraint::Fill(3),
            Constraint::Fill(2),
            Constraint::Length(9.min(body.height / 4).max(4)),
            Constraint::Length(3),
        ]);
        let [hooks, pending, retries, tasks] = column.areas(right);
        let panes = vec![
            (Pane::Stream, left),
            (Pane::Hooks, hooks),
            (Pane::Pending, pending),
            (Pane::Retries, retries),
            (Pane::Tasks, tasks),
        ];
        return Some(Places { panes, tabs: None, status, hints });
    }
    let [tabs, pane] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(body);
    Some(Places { panes: vec![(model.focus, pane)], tabs: Some(tabs), status, hints })
}

/// The pane at a place.
pub fn pane_at(model: &Model, column: u16, row: u16) -> Option<Pane> {
    let area = Rect { x: 0, y: 0, width: model.size.0, height: model.size.1 };
    let places = places(model, area)?;
    if let Some(tabs) = places.tabs.filter(|tabs| tabs.y == row) {
        return tab_at(model, tabs.width, column - tabs.x);
    }
    places.panes.into_iter().find(|(_, rect)| rect.contains((column, row).into())).map(|(pane, _)| pane)
}

fn tab_at(model: &Model, room: u16, column: u16) -> Option<Pane> {
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

/// The tabs; where not all names fit, only that of the pane in sight stands there.
fn tabs(model: &Model, room: u16) -> Vec<(Pane, String)> {
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

/// Chooses the row of a list that was clicked on.
pub fn choose_at(model: &mut Model, pane: Pane, row: u16) {
    let area = Rect { x: 0, y: 0, width: model.size.0, height: model.size.1 };
    let Some(places) = places(model, area) else { return };
    let Some((_, rect)) = places.panes.into_iter().find(|(shown, _)| *shown == pane) else { return };
    let inside = Rect { y: rect.y + 1, height: rect.height.saturating_sub(2), ..rect };
    let Some(nth) = row.checked_sub(inside.y).map(usize::from) else { return };
    match pane {
        Pane::Hooks => panes::hooks::choose(model, inside, nth),
        Pane::Pending => panes::pending::choose(model, inside, nth),
        Pane::Stream | Pane::Retries | Pane::Tasks => {}
    }
}

/// The row of a gate's buttons, if one is shown.
pub fn gate_buttons(model: &Model, area: Rect) -> Option<Rect> {
    let Some(Modal::Gate(gate)) = model.modals.last() else { return None };
    let frame = gate.frame(model, area);
    Some(Rect { x: frame.x + 1, y: frame.bottom().saturating_sub(3), width: frame.width.saturating_sub(2), height: 1 })
}

/// What a run printed, as one text.
pub fn run_text(run: &Run) -> String {
    run.ended
        .as_ref()
        .map_or_else(|| run.live.clone(), |finished| plain(&format!("{}{}", finished.stdout, finished.stderr)))
}

/// Makes the rows of the stream that will be in sight. Text that is on disk is read here, not while drawing.
pub fn prepare(model: &mut Model, reload: Reload<'_>) {
    let area = Rect { x: 0, y: 0, width: model.size.0, height: model.size.1 };
    let Some(places) = places(model, area) else { return };
    let Some((_, rect)) = places.panes.iter().find(|(pane, _)| *pane == Pane::Stream) else { return };
    let size = (usize::from(rect.width.saturating_sub(2)), usize::from(rect.height.saturating_sub(2)));
    model.stream_size = size;
    model.stream_lines = model.stream.in_sight(size.0, size.1, &model.theme, reload);
}

/// Draws the whole screen.
pub fn draw(model: &mut Model, area: Rect, buffer: &mut Buffer) {
    let theme = model.theme.clone();
    buffer.set_style(area, theme.style(Role::Text));
    let Some(places) = places(model, area) else {
        let text = fit("too small for creel", usize::from(area.width));
        Line::styled(text, theme.style(Role::Warning)).render(Rect { height: area.height.min(1), ..area }, buffer);
        return;
    };
    draw_status(model, &theme, places.status, buffer);
    if let Some(tabs) = places.tabs {
        draw_tabs(model, &theme, tabs, buffer);
    }
    for (pane, rect) in &places.panes {
        draw_pane(model, *pane, &theme, *rect, buffer);
    }
    draw_hints(model, &theme, places.hints, buffer);
    let mut modals = std::mem::take(&mut model.modals);
    for modal in &mut modals {
        match modal {
            Modal::Gate(gate) => gate.draw(model, &theme, area, buffer),
            Modal::Editor(editor) => editor.draw(&theme, area, buffer),
            Modal::Viewer(viewer) => viewer.draw(&model.keymap, &theme, area, buffer),
            Modal::Help(help) => help.draw(&model.keymap, &theme, area, buffer),
            Modal::Palette(palette) => palette.draw(&model.keymap, &theme, area, buffer),
            Modal::Search(search) => search.draw(&theme, area, buffer),
            Modal::Quit(_) => QuitModal::draw(&theme, area, buffer),
        }
    }
    model.modals = modals;
}

fn draw_pane(model: &Model, pane: Pane, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let focused = model.focus == pane;
    let role = if focused { Role::BorderFocused } else { Role::Border };
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

fn draw_tabs(model: &Model, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let tabs = tabs(model, area.width).into_iter().map(|(pane, text)| {
        let role = if pane == model.focus { Role::Selected } else { Role::Faint };
        Span::styled(text, theme.style(role))
    });
    Line::from(tabs.collect::<Vec<_>>()).render(area, buffer);
}

fn draw_status(model: &Model, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let Some(state) = &model.session else {
        Line::styled(" creel", theme.style(Role::Heading)).render(area, buffer);
        return;
    };
    let mut parts = vec![format!("iteration {}/{}", state.iterations.current, state.max_iterations())];
    if state.outcome().is_none() && matches!(model.mode, Mode::Live) {
        let elapsed = model.now.since(state.started).0 / 1_000;
        parts.push(format!("{}:{:02}", elapsed / 60, elapsed % 60));
    }
    if state.account.tokens > 0 {
        parts.push(format!("{} tokens", state.account.tokens));
    }
    if state.account.cost > 0.0 {
        parts.push(format!("${:.2}", state.account.cost));
    }
    if let Mode::Replay(player) = &model.mode {
        parts.push(player.describe());
    }
    let gate = if state.gates.open.is_some() {
        format!(" ◆ gate: {} ", model.keymap.key(Action::ShowGate))
    } else {
        String::new()
    };
    // Where there is little room, what it does and that a gate waits are the last to go.
    let room = usize::from(area.width).saturating_sub(gate.width());
    let doing = fit(&format!(" {} ", plain(&doing(model, state))), room);
    let right = Some(format!(" {} ", parts.join(" · "))).filter(|right| doing.width() + right.width() <= room);
    let right = right.unwrap_or_default();
    let name = plain(&format!(" {} · {} ", state.name, state.began.agent));
    let name = fit(&name, room.saturating_sub(doing.width() + right.width()));
    let working = if state.outcome().is_some() { Role::Faint } else { Role::Accent };
    let line = Line::from(vec![
        Span::styled(name, theme.style(Role::Heading)),
        Span::styled(doing, theme.style(working)),
        Span::styled(right, theme.style(Role::Faint)),
        Span::styled(gate, theme.style(Role::Gate)),
    ]);
    line.render(area, buffer);
}

/// What the session is doing; while it only waits, until when.
fn doing(model: &Model, state: &State) -> String {
    let idle = state.gates.open.is_none() && state.turn_in_flight().is_none() && state.outcome().is_none();
    let wait = panes::retries::waits(state, model).filter(|_| idle && !state.steering.paused);
    wait.unwrap_or_else(|| state.doing())
}

fn draw_hints(model: &Model, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    if let Some(toast) = &model.toast {
        let text = fit(&format!(" {}", plain(&toast.text)), usize::from(area.width));
        Line::styled(text, theme.style(toast.role)).render(area, buffer);
        return;
    }
    let over = model.session.as_ref().is_some_and(|state| state.outcome().is_some());
    let own: &[Action] = match model.focus {
        // There the keys for the next iteration and error play up to them.
        Pane::Stream if matches!(model.mode, Mode::Replay(_)) => &[Action::Fold],
        Pane::Stream => &[Action::Fold, Action::NextIteration, Action::NextError],
        Pane::Hooks => &[Action::Open, Action::RunHook, Action::SwitchHook, Action::CancelHook],
        Pane::Pending => &[Action::OpenItem, Action::Edit, Action::Skip, Action::Preview],
        Pane::Retries | Pane::Tasks => &[],
    };
    let general: &[Action] = match &model.mode {
        Mode::Replay(_) => {
            &[Action::Play, Action::Step, Action::StepBack, Action::Faster, Action::StepIteration, Action::StepError]
        }
        Mode::Live if over => &[Action::NextPane],
        Mode::Live => &[Action::Message, Action::Pause, Action::NextPane, Action::Search, Action::Zoom],
    };
    let hint = |action: Action| (model.keymap.key(action), format!(" {}  ", super::keymap::name(action)));
    let width = |(key, about): &(String, String)| key.width() + about.width();
    // The way out and the way to all other keys are always there; the rest as far as there is room.
    let always = [hint(Action::Quit), hint(Action::Help)];
    let mut left = usize::from(area.width).saturating_sub(1 + always.iter().map(width).sum::<usize>());
    let mut hints = Vec::new();
    for action in own.iter().chain(general) {
        let hint = hint(*action);
        let Some(rest) = left.checked_sub(width(&hint)) else { break };
        left = rest;
        hints.push(hint);
    }
    hints.extend(always);
    let mut spans = vec![Span::raw(" ")];
    for (key, about) in hints {
        spans.push(Span::styled(key, theme.style(Role::Key)));
        spans.push(Span::styled(about, theme.style(Role::Faint)));
    }
    Line::from(spans).render(area, buffer);
}
