//! The palette: finds a command by a few letters of its name, or a model that the agent offers.
//! Commands begin with what is useful now, models with the agent's own order.

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
    engine::turn::OfferedModels,
    present::text::{plain_line, sentence_case},
    tui::{
        keymap::{ACTIONS, KeyAction, Keymap},
        memory::ScreenMemory,
        modals::frame::{dialog, middle},
        text::fit,
        theme::{ScreenTheme, ThemeRole},
    },
};

#[derive(Debug)]
pub struct PaletteModal {
    query: String,
    chosen: usize,
    list: PaletteList,
}

#[derive(Debug)]
enum PaletteList {
    /// The commands that do something now, and how useful each is, highest first: what the last
    /// line shows, then what the user used most.
    Commands(BTreeMap<KeyAction, (usize, u32)>),
    Models(OfferedModels),
}

/// What `enter` chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaletteChoice {
    Command(KeyAction),
    /// None for the model that the agent chooses itself.
    Model(Option<String>),
}

impl PaletteModal {
    /// `useful` are commands to offer first, most useful first; `possible` all that do something
    /// now.
    pub fn new(useful: &[KeyAction], possible: Vec<KeyAction>, memory: &ScreenMemory) -> Self {
        let rank = |action: KeyAction| {
            let rank = useful
                .iter()
                .position(|one| *one == action)
                .map_or(0, |at| useful.len() - at);
            (action, (rank, memory.uses(action)))
        };
        let ranks = possible.into_iter().map(rank).collect();
        Self::of(PaletteList::Commands(ranks))
    }

    /// The models that the agent offers; the cursor is at the current one.
    pub fn models(offered: &OfferedModels, current: Option<&str>) -> Self {
        let mut palette = Self::of(PaletteList::Models(offered.clone()));
        let current = PaletteChoice::Model(current.map(str::to_owned));
        let at = palette.found().iter().position(|it| it.0 == current);
        palette.chosen = at.unwrap_or(0);
        palette
    }

    const fn of(list: PaletteList) -> Self {
        Self {
            query: String::new(),
            chosen: 0,
            list,
        }
    }

    pub const fn lists_models(&self) -> bool {
        matches!(self.list, PaletteList::Models(_))
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

    pub fn chosen(&self) -> Option<PaletteChoice> {
        self.found().into_iter().nth(self.chosen).map(|it| it.0)
    }

    /// Selects the entry in a screen row; returns whether there is one.
    pub fn choose_at(&mut self, area: Rect, column: u16, row: u16) -> bool {
        let [_, list] = parts(Block::bordered().inner(frame(area)));
        let clicked = usize::from(row.saturating_sub(list.y)) + self.first(list);
        let is_entry = list.contains((column, row).into()) && clicked < self.found().len();
        self.chosen = if is_entry { clicked } else { self.chosen };
        is_entry
    }

    /// The first visible entry.
    fn first(&self, list: Rect) -> usize {
        self.chosen
            .saturating_sub(usize::from(list.height).saturating_sub(1))
    }

    /// The entries that match the query, best first: what each chooses, and its text.
    fn found(&self) -> Vec<(PaletteChoice, String)> {
        match &self.list {
            PaletteList::Commands(ranks) => self
                .commands(ranks)
                .into_iter()
                .map(|(action, about)| (PaletteChoice::Command(action), sentence_case(about)))
                .collect(),
            PaletteList::Models(offered) => self.models_found(offered),
        }
    }

    fn models_found(&self, offered: &OfferedModels) -> Vec<(PaletteChoice, String)> {
        let pattern = Pattern::parse(&self.query, CaseMatching::Ignore, Normalization::Smart);
        let mut matcher = Matcher::new(Config::DEFAULT);
        let mut found = pattern.match_list(&offered.names, &mut matcher);
        found.sort_by_key(|(_, score)| std::cmp::Reverse(*score));
        let named = |name: &str| PaletteChoice::Model(Some(name.to_owned()));
        let mut entries: Vec<_> = found
            .into_iter()
            .map(|(name, _)| (named(name), plain_line(name, usize::MAX)))
            .collect();
        let query = self.query.trim();
        if query.is_empty() {
            let own = "The agent's own choice".to_owned();
            entries.push((PaletteChoice::Model(None), own));
        } else if !offered.is_complete && !offered.names.iter().any(|name| name == query) {
            entries.push((
                named(query),
                format!("Use “{query}”, which is not in the list"),
            ));
        }
        entries
    }

    /// The commands that match the query, best first.
    fn commands(
        &self,
        ranks: &BTreeMap<KeyAction, (usize, u32)>,
    ) -> Vec<(KeyAction, &'static str)> {
        let all = ACTIONS
            .iter()
            .filter(|(_, action, ..)| ranks.contains_key(action));
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
                scored.push((in_name, in_words, (*action, *about)));
            }
        }
        let rank = |action: &KeyAction| ranks.get(action).copied().unwrap_or_default();
        scored.sort_by_key(|(name, whole, (action, ..))| {
            std::cmp::Reverse((*name, *whole, rank(action)))
        });
        scored.into_iter().map(|(_, _, command)| command).collect()
    }

    pub fn draw(&self, keymap: &Keymap, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let [input, list] = parts(dialog(
            frame(area),
            if self.lists_models() {
                "Model of the next prompts"
            } else {
                "Commands"
            },
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
            .map(|(n, (choice, about))| {
                let key = match choice {
                    PaletteChoice::Command(action) => keymap.key(action),
                    PaletteChoice::Model(_) => String::new(),
                };
                let room = usize::from(list.width).saturating_sub(key.width() + 4);
                let about = fit(&about, room);
                let gap = " ".repeat(room.saturating_sub(about.width()) + 1);
                let sign = if n == self.chosen { "▌" } else { " " };
                let line = Line::from(vec![
                    theme.span(ThemeRole::BorderFocused, sign),
                    theme.span(ThemeRole::Text, format!("{about}{gap}")),
                    theme.span(ThemeRole::Key, format!("{key}  ")),
                ]);
                if n == self.chosen {
                    theme.selected(line)
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
