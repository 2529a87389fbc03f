//! The row of tabs on a screen that shows one pane at a time. The tabs carry the counts of the
//! hidden panes.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::Widget as _,
};
use unicode_width::UnicodeWidthStr as _;

use super::facts;
use crate::tui::{
    model::{Pane, ScreenModel},
    panes,
    theme::{ScreenTheme, ThemeRole},
};

pub(super) fn draw(model: &ScreenModel, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
    let tabs = tabs(model, area.width)
        .into_iter()
        .flat_map(|(pane, text)| {
            if pane == model.focus {
                return vec![Span::styled(text, theme.style(ThemeRole::Selected))];
            }
            facts::coloured(&text, theme.style(ThemeRole::Text), theme)
        });
    Line::from(tabs.collect::<Vec<_>>()).render(area, buffer);
}

pub(super) fn tab_at(model: &ScreenModel, room: u16, column: u16) -> Option<Pane> {
    let mut from = 0;
    for (pane, text) in tabs(model, room) {
        let width = u16::try_from(text.width()).unwrap_or(0);
        if (from..from + width).contains(&column) {
            return Some(pane);
        }
        from += width;
    }
    None
}

/// The tabs, in the longest form that fits: with names and counts, with the name of the focused
/// pane only, and last without the counts.
fn tabs(model: &ScreenModel, room: u16) -> Vec<(Pane, String)> {
    let form = |names: bool, counts: bool, end: &str| -> Vec<(Pane, String)> {
        let tab = |pane: Pane| {
            let name = if names || pane == model.focus {
                format!(" {}", pane.title())
            } else {
                String::new()
            };
            let count = if counts && pane != Pane::Stream {
                panes::count(model, pane)
            } else {
                String::new()
            };
            let count = if count.is_empty() {
                count
            } else {
                format!(" {count}")
            };
            (pane, format!(" {}{name}{count}{end}", pane.number()))
        };
        Pane::ALL.into_iter().map(tab).collect()
    };
    let fits = |tabs: &Vec<(Pane, String)>| {
        tabs.iter().map(|(_, text)| text.width()).sum::<usize>() <= usize::from(room)
    };
    let forms = [
        (true, true, " "),
        (true, true, ""),
        (false, true, " "),
        (true, false, " "),
    ];
    let found = forms
        .into_iter()
        .map(|(names, counts, end)| form(names, counts, end))
        .find(fits);
    found.unwrap_or_else(|| form(false, false, " "))
}
