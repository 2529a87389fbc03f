//! Draws a gate where [`super::layout`] has laid it out.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::{Paragraph, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use super::{GateAvailability, GateModal, ItemMark, answers, layout::GAP};
use crate::{
    engine::{
        gate::{Gate, kind::GateKind},
        ids::ItemId,
    },
    present::text::{plain_line, readable_size, time_of_day, time_with_seconds},
    tui::{
        keymap::GateKey,
        modals::frame::{dialog, first_that_fits, keys_that_fit},
        model::ScreenModel,
        text::fit,
        theme::{ScreenTheme, ThemeRole},
    },
};

/// The cells before the label of an answer: the cursor, the number, two spaces.
pub(super) const OPTION_MARGIN: usize = 4;
/// The longest name of an item, in characters.
const NAME: usize = 40;

impl GateModal {
    /// Draws the gate where the last [`GateModal::prepare`] has laid it out, over a dimmed
    /// background.
    pub fn draw(&self, model: &ScreenModel, theme: &ScreenTheme, buffer: &mut Buffer) {
        let layout = &self.layout;
        dialog(
            layout.frame,
            &format!("◆ {}", self.fitting_title()),
            ThemeRole::Gate,
            theme,
            buffer,
        );
        self.draw_since(theme, buffer);
        Paragraph::new(layout.reason.clone()).render(layout.head, buffer);
        let shown: Vec<Line<'_>> = layout
            .body
            .lines
            .iter()
            .skip(self.scroll)
            .cloned()
            .collect();
        Paragraph::new(shown).render(layout.body.area, buffer);
        if self.has_items() {
            self.draw_items(model, theme, buffer);
        } else if !self.runs.is_empty() {
            self.draw_runs(model, theme, buffer);
        }
        self.draw_options(theme, buffer);
        let width = usize::from(layout.hints.width);
        theme
            .line(ThemeRole::Faint, self.hints(model, width))
            .render(layout.hints, buffer);
        self.draw_place(theme, layout.frame, buffer);
        if self.availability == GateAvailability::Waits {
            draw_deadline(&self.gate, model, layout.frame, buffer);
        }
    }

    fn fitting_title(&self) -> String {
        fit(
            &self.layout.title,
            usize::from(self.layout.frame.width).saturating_sub(6),
        )
    }

    /// Since when the session waits, at the right of the title.
    fn draw_since(&self, theme: &ScreenTheme, buffer: &mut Buffer) {
        let (frame, text) = (self.layout.frame, format!(" {} ", self.layout.since));
        let width = u16::try_from(text.width()).unwrap_or(u16::MAX);
        let title = u16::try_from(self.fitting_title().width()).unwrap_or(u16::MAX);
        if title.saturating_add(width).saturating_add(8) <= frame.width {
            let area = Rect {
                x: frame.right() - width - 2,
                y: frame.y,
                width,
                height: 1,
            };
            theme.line(ThemeRole::Gate, text).render(area, buffer);
        }
    }

    /// The row of an item without its cursor: tick, name, origin and size.
    pub(super) fn item_row(&self, n: usize, model: &ScreenModel) -> String {
        let Some((id, mark)) = self.items.get(n) else {
            return String::new();
        };
        let Some(item) = model
            .session
            .as_ref()
            .and_then(|state| state.pending.get(*id))
        else {
            return String::new();
        };
        let (tick, skipped) = match mark {
            ItemMark::Approved => ("☑", ""),
            ItemMark::LeftOut => ("☐", ""),
            ItemMark::Skipped => ("☐", "skipped · "),
        };
        let edited = if item.edited { "~" } else { " " };
        let (hook, size) = (
            plain_line(&item.source.hook, NAME),
            readable_size(item.text.len() as u64),
        );
        let gap = " ".repeat(widest_name(&self.items, model).saturating_sub(hook.width()) + 2);
        format!(
            "{tick}{edited}{hook}{gap}{skipped}{} · {size}",
            item.source.point
        )
    }

    fn draw_items(&self, model: &ScreenModel, theme: &ScreenTheme, buffer: &mut Buffer) {
        let area = self.layout.list;
        let rows = (self.first_item()..self.items.len()).take(usize::from(area.height));
        let lines: Vec<Line<'_>> = rows
            .map(|n| {
                let chosen = n == self.item;
                let role = match self.items[n].1 {
                    _ if chosen => ThemeRole::Heading,
                    ItemMark::Approved | ItemMark::LeftOut => ThemeRole::Text,
                    ItemMark::Skipped => ThemeRole::Faint,
                };
                let text = fit(
                    &self.item_row(n, model),
                    usize::from(area.width).saturating_sub(1),
                );
                Line::from(vec![cursor(chosen, theme), theme.span(role, text)])
            })
            .collect();
        Paragraph::new(lines).render(area, buffer);
        let line = Rect {
            x: area.right() + 1,
            y: area.y,
            width: 1,
            height: area.height,
        };
        vertical(line, theme, buffer);
    }

    /// The history beside the output: which runs there were, why they failed, and `=` where nothing
    /// changed.
    fn draw_runs(&self, model: &ScreenModel, theme: &ScreenTheme, buffer: &mut Buffer) {
        let (text, list, heads) = (self.layout.body.area, self.layout.list, self.layout.heads);
        if heads.height > 0 {
            let shown = &self.runs[self.run];
            let when = if self.run == 0 {
                "now".to_owned()
            } else {
                time_of_day(shown.at, &model.look.zone)
            };
            titled(
                &format!("Run {}, {when}", shown.number),
                Rect {
                    width: text.width,
                    ..heads
                },
                theme,
                buffer,
            );
            titled(
                "History",
                Rect {
                    x: list.x,
                    width: list.width,
                    ..heads
                },
                theme,
                buffer,
            );
        }
        let line = Rect {
            x: list.x.saturating_sub(GAP - 1),
            y: heads.y,
            width: 1,
            height: heads.height + list.height,
        };
        vertical(line, theme, buffer);
        let width = usize::from(list.width);
        let rows = self
            .runs
            .iter()
            .enumerate()
            .skip(self.first_run())
            .take(usize::from(list.height));
        let lines: Vec<Line<'_>> = rows
            .map(|(n, run)| {
                let number = format!("{:>2}  ", run.number);
                let room = width.saturating_sub(number.width() + 3);
                let reason = fit(&run.reason, room);
                let gap = " ".repeat(room.saturating_sub(reason.width()));
                let role = if n == self.run {
                    ThemeRole::Heading
                } else {
                    ThemeRole::Text
                };
                let same = if run.same { " =" } else { "" };
                Line::from(vec![
                    cursor(n == self.run, theme),
                    theme.span(role, number),
                    theme.span(role, reason),
                    theme.span(ThemeRole::Warning, format!("{gap}{same}")),
                ])
            })
            .collect();
        Paragraph::new(lines).render(list, buffer);
    }

    fn draw_options(&self, theme: &ScreenTheme, buffer: &mut Buffer) {
        let area = self.layout.options;
        let width = usize::from(area.width);
        let shown = self
            .options
            .iter()
            .enumerate()
            .skip(self.layout.first_option)
            .take(usize::from(area.height));
        let lines: Vec<Line<'_>> = shown
            .map(|(n, option)| {
                let chosen = n == self.choice;
                let role = if chosen {
                    ThemeRole::Selected
                } else {
                    ThemeRole::Text
                };
                let number = if n < 9 {
                    format!("{}  ", n + 1)
                } else {
                    "   ".to_owned()
                };
                let label = fit(&option.words.label, width.saturating_sub(OPTION_MARGIN));
                let mut spans = vec![cursor(chosen, theme), theme.span(ThemeRole::Key, number)];
                let used = label.width();
                spans.extend(with_letter(label, option.words.letter, theme.style(role)));
                if let Some(labels) = self.layout.label_width {
                    let gap = " ".repeat(labels.saturating_sub(used) + 3);
                    spans.push(Span::raw(gap));
                    spans.push(theme.span(ThemeRole::Text, option.words.effect.to_string()));
                } else if chosen && self.layout.effect.height == 0 {
                    let effect = fit(
                        &option.words.effect,
                        width.saturating_sub(OPTION_MARGIN + used + 3),
                    );
                    spans.push(theme.span(ThemeRole::Accent, format!("   {effect}")));
                }
                Line::from(spans)
            })
            .collect();
        Paragraph::new(lines).render(area, buffer);
        if self.layout.effect.height > 0 {
            let effect = self
                .options
                .get(self.choice)
                .map_or("", |option| option.words.effect.as_ref());
            let text = fit(effect, usize::from(self.layout.effect.width));
            theme
                .line(ThemeRole::Accent, text)
                .render(self.layout.effect, buffer);
        }
    }

    fn hints(&self, model: &ScreenModel, width: usize) -> String {
        let key = |action| key_sign(&model.look.keymap.key(action));
        if self.availability == GateAvailability::Past {
            let close = format!("{} close", key(GateKey::Later));
            return keys_that_fit(
                &["A past gate: you cannot answer it any more".into(), close],
                width,
            );
        }
        if !self.is_armed(model.now) {
            let words = [
                "One moment: creel ignores keys that you meant for something else",
                "One moment …",
            ];
            return first_that_fits(&words, width);
        }
        let again = self.options.get(self.choice).filter(|_| self.sure);
        if let Some(effect) = again.and_then(|option| answers::again(option.choice)) {
            let number = self.choice + 1;
            return fit(
                &format!("{} or {number} again {effect}", key(GateKey::Answer)),
                width,
            );
        }
        let mut hints = vec![format!("{} answer", key(GateKey::Answer))];
        hints.extend(
            self.more_text()
                .map(|action| format!("{} more", key(action))),
        );
        hints.push(format!("1-{} choose", self.options.len()));
        let up_down = format!("{}{}", key(GateKey::ItemUp), key(GateKey::ItemDown));
        if self.has_items() {
            hints.push(format!("{} tick", key(GateKey::ToggleItem)));
            hints.push(format!("{} edit", key(GateKey::Edit)));
            hints.push(format!("{} preview", key(GateKey::Preview)));
            hints.push(format!("{up_down} item"));
        }
        if self.gate.kind() == GateKind::Proposal {
            hints.push(format!("{} edit", key(GateKey::Edit)));
        }
        if self.has_runs() {
            hints.push(format!(
                "{}{} other runs",
                key(GateKey::OlderRun),
                key(GateKey::NewerRun)
            ));
        }
        if !self.has_items() {
            hints.push(format!("{up_down} move"));
        }
        hints.push(format!("{} look around", key(GateKey::Later)));
        keys_that_fit(&hints, width)
    }

    /// Draws the scroll position at the edge if the text is longer than its area.
    fn draw_place(&self, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let (rows, height) = (self.layout.rows, self.layout.rows_shown);
        let text = format!(" {} ", self.layout.place_from(self.scroll));
        let width = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
        if rows <= height || width + 4 > area.width {
            return;
        }
        let edge = Rect {
            x: area.right() - width - 2,
            y: area.bottom().saturating_sub(1),
            width,
            height: 1,
        };
        theme.line(ThemeRole::Gate, text).render(edge, buffer);
    }
}

/// When creel decides without the user, at the edge, where the smallest gate has room for it.
fn draw_deadline(gate: &Gate, model: &ScreenModel, frame: Rect, buffer: &mut Buffer) {
    let Some(deadline) = model
        .session
        .as_ref()
        .and_then(|state| gate.deadline(state.plan()))
    else {
        return;
    };
    let text = format!(
        " creel decides at {} ",
        time_with_seconds(deadline, &model.look.zone)
    );
    let width = u16::try_from(text.width()).unwrap_or(u16::MAX);
    if width + 4 <= frame.width {
        let edge = Rect {
            x: frame.x + 2,
            y: frame.bottom().saturating_sub(1),
            width,
            height: 1,
        };
        model
            .look
            .theme
            .line(ThemeRole::Gate, text)
            .render(edge, buffer);
    }
}

fn cursor(chosen: bool, theme: &ScreenTheme) -> Span<'static> {
    theme.span(ThemeRole::BorderFocused, if chosen { "▌" } else { " " })
}

/// The label with its letter underlined, if the letter is part of it.
fn with_letter(label: String, letter: char, style: Style) -> Vec<Span<'static>> {
    let found = label
        .char_indices()
        .find(|(_, c)| c.to_lowercase().eq([letter]));
    let Some((at, c)) = found else {
        return vec![Span::styled(label, style)];
    };
    let (before, rest) = label.split_at(at);
    let (key, after) = rest.split_at(c.len_utf8());
    vec![
        Span::styled(before.to_owned(), style),
        Span::styled(key.to_owned(), style.add_modifier(Modifier::UNDERLINED)),
        Span::styled(after.to_owned(), style),
    ]
}

/// A short name for a key in hints.
fn key_sign(key: &str) -> String {
    match key {
        "up" => "↑".to_owned(),
        "down" => "↓".to_owned(),
        "left" => "←".to_owned(),
        "right" => "→".to_owned(),
        "page-down" => "PgDn".to_owned(),
        "page-up" => "PgUp".to_owned(),
        other => other.to_owned(),
    }
}

/// A title with a line after it.
fn titled(title: &str, area: Rect, theme: &ScreenTheme, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let text = fit(title, width);
    let rule = "─".repeat(width.saturating_sub(text.width() + 1));
    let spans = vec![
        theme.span(ThemeRole::Warning, format!("{text} ")),
        theme.span(ThemeRole::Border, rule),
    ];
    Line::from(spans).render(area, buffer);
}

fn vertical(area: Rect, theme: &ScreenTheme, buffer: &mut Buffer) {
    for y in area.top()..area.bottom() {
        buffer.set_string(area.x, y, "│", theme.style(ThemeRole::Border));
    }
}

/// The width of the longest name in the list.
fn widest_name(items: &[(ItemId, ItemMark)], model: &ScreenModel) -> usize {
    let pending = model.session.as_ref().map(|state| &state.pending);
    let items = items.iter().filter_map(|(id, _)| pending?.get(*id));
    items
        .map(|item| plain_line(&item.source.hook, NAME).width())
        .max()
        .unwrap_or(0)
}
