//! The palette: finds a command by a few letters of its name. It begins with what is useful now.

use std::collections::BTreeMap;

use nucleo_matcher::{
    Config, Matcher,
    pattern::{AtomKind, CaseMatching, Normalization, Pattern},
};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span},
    widgets::{Block, Paragraph, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    present::text::sentence_case,
    tui::{
        keymap::{ACTIONS, KeyAction, KeyContext, Keymap},
        memory::ScreenMemory,
        modals::frame::{framed, middle},
        text::fit,
        theme::{ScreenTheme, ThemeRole},
    },
};

#[derive(Debug)]
pub struct PaletteModal {
    query: String,
    chosen: usize,
    /// How useful each command is, highest first: what can be done now, then what the user used
    /// most.
    ranks: BTreeMap<KeyAction, (usize, u32)>,
}

impl PaletteModal {
    /// `useful` are the commands that do something now, most useful first.
    pub fn new(useful: &[KeyAction], memory: &ScreenMemory) -> Self {
        let rank = |action: KeyAction| {
            let rank = useful
                .iter()
                .position(|one| *one == action)
                .map_or(0, |at| useful.len() - at);
            (action, (rank, memory.uses(action)))
        };
        let ranks = ACTIONS
            .iter()
            .map(|(_, action, ..)| rank(*action))
            .collect();
        Self {
            query: String::new(),
            chosen: 0,
            ranks,
        }
    }

    pub fn push(&mut self, c: char) {
        self.query.push(c);
        self.chosen = 0;
    }

    pub fn pop(&mut self) {
        self.query.pop();
        self.chosen = 0;
    }

    pub fn step(&mut self, down: bool) {
        let count = self.found().len().max(1);
        self.chosen = if down {
            (self.chosen + 1) % count
        } else {
            (self.chosen + count - 1) % count
        };
    }

    pub fn chosen(&self) -> Option<KeyAction> {
        self.found().get(self.chosen).map(|(action, ..)| *action)
    }

    /// Selects the command in a screen row; returns whether there is one.
    pub fn choose_at(&mut self, area: Rect, column: u16, row: u16) -> bool {
        let [_, list] = parts(Block::bordered().inner(frame(area)));
        let clicked = usize::from(row.saturating_sub(list.y)) + self.first(list);
        let is_command = list.contains((column, row).into()) && clicked < self.found().len();
        self.chosen = if is_command { clicked } else { self.chosen };
        is_command
    }

    /// The first visible command.
    fn first(&self, list: Rect) -> usize {
        self.chosen
            .saturating_sub(usize::from(list.height).saturating_sub(1))
    }

    /// The commands that match the query, best first. Keys inside dialogs are not commands.
    fn found(&self) -> Vec<(KeyAction, &'static str, &'static str)> {
        let all = ACTIONS.iter().filter(|(context, ..)| {
            !matches!(
                context,
                KeyContext::Gate | KeyContext::Viewer | KeyContext::Replay | KeyContext::Home
            )
        });
        let pattern = Pattern::parse(&self.query, CaseMatching::Ignore, Normalization::Smart);
        let mut matcher = Matcher::new(Config::DEFAULT);
        let mut buffer = Vec::new();
        // A few letters find a name, but only whole parts of words find a description: any letters
        // are in a long one.
        let parts = Pattern::new(
            &self.query,
            CaseMatching::Ignore,
            Normalization::Smart,
            AtomKind::Substring,
        );
        let mut score = |pattern: &Pattern, text: &str| {
            pattern.score(
                nucleo_matcher::Utf32Str::new(text, &mut buffer),
                &mut matcher,
            )
        };
        let mut scored = Vec::new();
        for (_, action, name, about) in all {
            let (in_name, in_words) = (
                score(&pattern, name),
                score(&parts, &format!("{name} {about}")),
            );
            if in_name.is_some() || in_words.is_some() {
                scored.push((in_name, in_words, (*action, *name, *about)));
            }
        }
        let rank = |action: &KeyAction| self.ranks.get(action).copied().unwrap_or_default();
        scored.sort_by_key(|(name, whole, (action, ..))| {
            std::cmp::Reverse((*name, *whole, rank(action)))
        });
        scored.into_iter().map(|(_, _, command)| command).collect()
    }

    pub fn draw(&self, keymap: &Keymap, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let [input, list] = parts(framed(
            frame(area),
            "Commands",
            ThemeRole::Accent,
            theme,
            buffer,
        ));
        Line::from(vec![
            theme.span(ThemeRole::Key, "› "),
            Span::raw(self.query.clone()),
            Span::raw("▏"),
        ])
        .render(input, buffer);
        let rows = self
            .found()
            .into_iter()
            .enumerate()
            .skip(self.first(list))
            .take(usize::from(list.height));
        let lines: Vec<Line<'_>> = rows
            .map(|(n, (action, _, about))| {
                let key = keymap.key(action);
                let room = usize::from(list.width).saturating_sub(key.width() + 4);
                let about = fit(&sentence_case(about), room);
                let gap = " ".repeat(room.saturating_sub(about.width()) + 1);
                let sign = if n == self.chosen { "▌" } else { " " };
                let line = Line::from(vec![
                    theme.span(ThemeRole::BorderFocused, sign),
                    theme.span(ThemeRole::Text, format!("{about}{gap}")),
                    theme.span(ThemeRole::Key, format!("{key}  ")),
                ]);
                if n == self.chosen {
                    line.patch_style(theme.style(ThemeRole::Selected))
                } else {
                    line
                }
            })
            .collect();
        Paragraph::new(lines).render(list, buffer);
    }
}

fn frame(area: Rect) -> Rect {
    middle(area, 76, 18)
}

/// The query, and the list below it.
fn parts(inside: Rect) -> [Rect; 2] {
    Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(inside)
}
