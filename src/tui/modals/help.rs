//! The help page: all keys, from the key map. The keys of the focused pane come first.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::Line,
    widgets::{Block, Paragraph, Widget as _},
};
use unicode_width::UnicodeWidthStr as _;

use crate::tui::{
    keymap::{ACTIONS, KeyAction, KeyContext, Keymap, ViewerKey},
    modals::frame::{dialog, keys_that_fit, middle},
    text::wrap,
    theme::{ScreenTheme, ThemeRole},
};

/// The widest column for the keys.
const KEYS: usize = 24;
/// The width of the page, in columns.
const WIDTH: u16 = 84;
/// Narrower pages have no such column.
const NARROW: usize = 56;

#[derive(Debug)]
pub struct HelpModal {
    top: usize,
    /// The places whose keys are shown, in order.
    places: Vec<KeyContext>,
    /// Which of their keys are shown.
    is_shown: fn(KeyAction) -> bool,
    /// A key that does something else than usual here, and what.
    unusual: Option<(KeyAction, &'static str)>,
}

impl HelpModal {
    /// A page of the screen of a session that begins with the keys of these places.
    pub fn new(first: Vec<KeyContext>) -> Self {
        let others = KeyContext::ALL
            .into_iter()
            .filter(|context| !matches!(context, KeyContext::Home | KeyContext::Worker));
        let others: Vec<KeyContext> = others.filter(|context| !first.contains(context)).collect();
        Self {
            top: 0,
            places: first.into_iter().chain(others).collect(),
            is_shown: |_| true,
            unusual: None,
        }
    }

    /// A page with some of the keys of these places.
    pub const fn only(places: Vec<KeyContext>, is_shown: fn(KeyAction) -> bool) -> Self {
        Self {
            top: 0,
            places,
            is_shown,
            unusual: None,
        }
    }

    /// The same page with other words for a key.
    #[must_use]
    pub fn with_words(self, unusual: (KeyAction, &'static str)) -> Self {
        Self {
            unusual: Some(unusual),
            ..self
        }
    }

    /// The keys of a viewer.
    pub fn of_viewer() -> Self {
        Self {
            top: 0,
            places: vec![KeyContext::Viewer, KeyContext::Scroll],
            is_shown: |_| true,
            unusual: None,
        }
    }

    /// The keys of the changes.
    pub fn of_changes() -> Self {
        Self {
            top: 0,
            places: vec![KeyContext::Diff, KeyContext::Viewer, KeyContext::Scroll],
            is_shown: |action| action != ViewerKey::Wrap.into(),
            unusual: None,
        }
    }

    pub fn key(&mut self, action: KeyAction, page: usize) {
        if let KeyAction::Scroll(key) = action
            && let Some(by) = key.rows(page)
        {
            self.top = self.top.saturating_add_signed(by);
        }
    }

    /// Keeps the page from scrolling past its end: the way back would be as long.
    pub fn prepare(&mut self, keymap: &Keymap, theme: &ScreenTheme, area: Rect) {
        let inside = Block::bordered().inner(self.frame(keymap, theme, area));
        let rows = self.lines(keymap, theme, usize::from(inside.width)).len();
        self.top = self
            .top
            .min(rows.saturating_sub(usize::from(inside.height)));
    }

    pub fn draw(&self, keymap: &Keymap, theme: &ScreenTheme, area: Rect, buffer: &mut Buffer) {
        let inside = dialog(
            self.frame(keymap, theme, area),
            "Keys",
            ThemeRole::Accent,
            theme,
            buffer,
        );
        let lines = self.lines(keymap, theme, usize::from(inside.width));
        Paragraph::new(lines.into_iter().skip(self.top).collect::<Vec<_>>()).render(inside, buffer);
        let edge = Rect {
            y: inside.bottom(),
            height: 1,
            ..inside
        };
        let keys = keys_that_fit(
            &["↑↓ move".to_owned(), "esc close".to_owned()],
            usize::from(edge.width),
        );
        theme
            .line(ThemeRole::Accent, format!(" {keys} "))
            .right_aligned()
            .render(edge, buffer);
    }

    fn lines(&self, keymap: &Keymap, theme: &ScreenTheme, width: usize) -> Vec<Line<'static>> {
        // On a narrow page, a fixed column of keys would leave no room for the text.
        let shown = |place: KeyContext| {
            ACTIONS
                .iter()
                .filter(move |(context, action, ..)| *context == place && (self.is_shown)(*action))
        };
        let keys = self
            .places
            .iter()
            .flat_map(|place| shown(*place))
            .map(|(_, action, ..)| keymap.keys(*action).width());
        let column = if width < NARROW {
            0
        } else {
            keys.max().unwrap_or(0).min(KEYS)
        };
        let mut lines = Vec::new();
        for place in self.places.iter().copied() {
            if !lines.is_empty() {
                lines.push(Line::default());
            }
            lines.push(theme.line(ThemeRole::Heading, format!(" {}", place.title())));
            for (_, action, _, about) in shown(place) {
                let keys = format!("  {:column$}  ", keymap.keys(*action));
                let about = self
                    .unusual
                    .filter(|(known, _)| known == action)
                    .map_or(*about, |(_, words)| words);
                let pieces = [
                    (keys, theme.style(ThemeRole::Key)),
                    (about.to_owned(), theme.style(ThemeRole::Text)),
                ];
                lines.extend(wrap(&pieces, width, column + 4));
            }
        }
        lines
    }

    /// As high as its content.
    fn frame(&self, keymap: &Keymap, theme: &ScreenTheme, area: Rect) -> Rect {
        let width = middle(area, WIDTH, area.height).width;
        let rows = self
            .lines(keymap, theme, usize::from(width.saturating_sub(2)))
            .len();
        middle(area, WIDTH, u16::try_from(rows + 2).unwrap_or(area.height))
    }
}
