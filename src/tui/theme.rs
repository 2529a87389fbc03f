//! Themes: the screen uses roles, and a theme is a data file that gives each role its colours.

use std::{borrow::Cow, collections::BTreeMap};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::tz::TimeZone;
use ratatui::{
    buffer::Buffer,
    style::{Color, Modifier, Style},
    text::{Line, Span},
};

use crate::{
    config::{MotionMode, ThemeName as Choice},
    present::style::SignSet,
    tui::keymap::Keymap,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThemeRole {
    Text,
    /// Less important text.
    Faint,
    Heading,
    /// Something to find quickly; the agent at work.
    Accent,
    /// A hook at work.
    Running,
    Good,
    Bad,
    Warning,
    Selected,
    Border,
    /// The frame of the pane that receives the keys.
    BorderFocused,
    Code,
    Key,
    /// A decision for the user.
    Gate,
    /// The session waits for the user: the loudest text on the screen.
    Alert,
    /// The gutter before what the agent says.
    Agent,
    /// What the user says to the agent.
    You,
}

const NAMES: [(&str, ThemeRole); 17] = [
    ("text", ThemeRole::Text),
    ("faint", ThemeRole::Faint),
    ("heading", ThemeRole::Heading),
    ("accent", ThemeRole::Accent),
    ("running", ThemeRole::Running),
    ("good", ThemeRole::Good),
    ("bad", ThemeRole::Bad),
    ("warning", ThemeRole::Warning),
    ("selected", ThemeRole::Selected),
    ("border", ThemeRole::Border),
    ("border-focused", ThemeRole::BorderFocused),
    ("code", ThemeRole::Code),
    ("key", ThemeRole::Key),
    ("gate", ThemeRole::Gate),
    ("alert", ThemeRole::Alert),
    ("agent", ThemeRole::Agent),
    ("you", ThemeRole::You),
];

#[derive(Debug, Clone)]
pub struct ScreenTheme {
    styles: BTreeMap<ThemeRole, Style>,
    /// Whether text of hooks and agents keeps its own colours.
    pub keeps_colours: bool,
}

impl ScreenTheme {
    /// The theme from the config. With `no_color`, a theme without colours. `auto` begins with the
    /// terminal's own colours, until the terminal has reported its background.
    pub fn chosen(choice: Choice, no_color: bool) -> Self {
        let text = match choice {
            _ if no_color => include_str!("../../assets/themes/plain.yaml"),
            Choice::Auto | Choice::Terminal => include_str!("../../assets/themes/terminal.yaml"),
            Choice::Dark => include_str!("../../assets/themes/dark.yaml"),
            Choice::Light => include_str!("../../assets/themes/light.yaml"),
            Choice::HighContrast => include_str!("../../assets/themes/high-contrast.yaml"),
        };
        let theme = Self::parse(text).expect("the themes that creel brings along are right");
        Self {
            keeps_colours: !no_color,
            ..theme
        }
    }

    /// The theme for a terminal with this background: dark or light. The background stays as it is
    /// if every colour of the theme is readable on it.
    pub fn on_background(reported: Rgb) -> Self {
        let choice = if reported.is_dark() {
            Choice::Dark
        } else {
            Choice::Light
        };
        let mut theme = Self::chosen(choice, false);
        if theme
            .content()
            .all(|(front, back)| front.contrast(back.unwrap_or(reported)) >= READABLE)
            && let Some(text) = theme.styles.get_mut(&ThemeRole::Text)
        {
            text.bg = None;
        }
        theme
    }

    /// The colours of all content, each with its own background. None: the background of the text.
    /// Frames are not content.
    fn content(&self) -> impl Iterator<Item = (Rgb, Option<Rgb>)> {
        let is_content =
            |role: ThemeRole| !matches!(role, ThemeRole::Border | ThemeRole::BorderFocused);
        self.styles
            .iter()
            .filter(move |(role, _)| is_content(**role))
            .filter_map(|(role, style)| {
                let back = style
                    .bg
                    .and_then(Rgb::of)
                    .filter(|_| *role != ThemeRole::Text);
                Some((Rgb::of(style.fg?)?, back))
            })
    }

    /// Parses a theme: `role: "colour on-colour bold"`.
    pub fn parse(text: &str) -> Result<Self, ThemeError> {
        let looks: BTreeMap<String, String> =
            serde_yaml::from_str(text).map_err(|error| ThemeError::Malformed(error.to_string()))?;
        let mut styles = BTreeMap::new();
        for (name, look) in &looks {
            let known = NAMES.iter().find(|(known, _)| known == name);
            let (_, role) = known.ok_or_else(|| ThemeError::UnknownRole(name.clone()))?;
            styles.insert(*role, style(look)?);
        }
        match NAMES.iter().find(|(_, role)| !styles.contains_key(role)) {
            Some((missing, _)) => Err(ThemeError::MissingRole(missing)),
            None => Ok(Self {
                styles,
                keeps_colours: true,
            }),
        }
    }

    /// A piece of text in a role.
    pub fn span<'a>(&self, role: ThemeRole, text: impl Into<Cow<'a, str>>) -> Span<'a> {
        Span::styled(text, self.style(role))
    }

    /// A line of text in a role.
    pub fn line<'a>(&self, role: ThemeRole, text: impl Into<Cow<'a, str>>) -> Line<'a> {
        Line::styled(text, self.style(role))
    }

    /// A selected row. Where that is a reversed row, it has no colours: each of them would be
    /// reversed into a background.
    pub fn selected<'a>(&self, mut line: Line<'a>) -> Line<'a> {
        let style = self.style(ThemeRole::Selected);
        if style.add_modifier.contains(Modifier::REVERSED) {
            for span in &mut line.spans {
                (span.style.fg, span.style.bg) = (None, None);
                span.style
                    .add_modifier
                    .remove(Modifier::DIM | Modifier::REVERSED);
            }
        }
        line.patch_style(style)
    }

    pub fn style(&self, role: ThemeRole) -> Style {
        self.styles.get(&role).copied().unwrap_or_default()
    }
}

/// Why a text is no theme.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThemeError {
    /// The YAML parser's message.
    #[error("{0}")]
    Malformed(String),
    #[error("unknown role `{0}`")]
    UnknownRole(String),
    #[error("the role `{0}` is missing")]
    MissingRole(&'static str),
    #[error("`{0}` is not a color")]
    NotAColour(String),
}

fn style(look: &str) -> Result<Style, ThemeError> {
    let mut style = Style::default();
    for word in look.split_whitespace() {
        style = match word {
            "bold" => style.add_modifier(Modifier::BOLD),
            "dim" => style.add_modifier(Modifier::DIM),
            "reversed" => style.add_modifier(Modifier::REVERSED),
            "underlined" => style.add_modifier(Modifier::UNDERLINED),
            _ => match word.strip_prefix("on-") {
                Some(background) => style.bg(colour(background)?),
                None => style.fg(colour(word)?),
            },
        };
    }
    Ok(style)
}

fn colour(word: &str) -> Result<Color, ThemeError> {
    word.parse()
        .map_err(|_| ThemeError::NotAColour(word.to_owned()))
}

/// How the screens of this user look, and what their keys do.
#[derive(Debug)]
pub struct ScreenLook {
    pub keymap: Keymap,
    pub theme: ScreenTheme,
    pub motion: MotionMode,
    pub signs: SignSet,
    /// The time zone of displayed times.
    pub zone: TimeZone,
}

impl ScreenLook {
    pub fn new(keymap: Keymap, theme: ScreenTheme) -> Self {
        Self {
            keymap,
            theme,
            motion: MotionMode::default(),
            signs: SignSet::default(),
            zone: TimeZone::UTC,
        }
    }

    /// Replaces the signs that the terminal cannot show.
    pub fn replace_signs(&self, buffer: &mut Buffer) {
        if self.signs != SignSet::Unicode {
            for cell in &mut buffer.content {
                let shown = self.signs.shown(cell.symbol()).to_owned();
                cell.set_symbol(&shown);
            }
        }
    }
}

/// Asks the terminal for its background. It ends with BEL, because rxvt-unicode ends its answer
/// like the question, and does not finish the other end.
pub const QUESTION: &str = "\u{1b}]11;?\u{7}";
/// The contrast from which on text is readable, as in WCAG 2.
pub const READABLE: f64 = 4.5;
/// An answer is not longer than this.
const LONGEST: usize = 40;

/// A colour by its red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl Rgb {
    /// None for a colour of the terminal's palette, which can be anything.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "all other colours are of the palette"
    )]
    pub const fn of(colour: Color) -> Option<Self> {
        match colour {
            Color::Rgb(r, g, b) => Some(Self(r, g, b)),
            _ => None,
        }
    }

    /// The relative luminance, 0 to 1.
    fn luminance(self) -> f64 {
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 {
                part / 12.92
            } else {
                ((part + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }

    /// The contrast between two colours, 1 to 21.
    pub fn contrast(self, other: Self) -> f64 {
        let (one, two) = (self.luminance() + 0.05, other.luminance() + 0.05);
        one.max(two) / one.min(two)
    }

    pub fn is_dark(self) -> bool {
        self.contrast(Self(255, 255, 255)) > self.contrast(Self(0, 0, 0))
    }

    /// The background from `COLORFGBG`, such as `15;0`: the last number is a colour of the palette.
    pub fn from_colorfgbg(value: &str) -> Option<Self> {
        match value.rsplit(';').next()?.parse::<u8>().ok()? {
            0..=6 | 8 => Some(Self(0, 0, 0)),
            7 | 15 => Some(Self(255, 255, 255)),
            9..=14 | 16.. => None,
        }
    }

    /// The colour in an answer, such as `rgb:1e1e/2e2e/3e3e`.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text
            .strip_prefix("rgb:")
            .or_else(|| text.strip_prefix("rgba:"))?
            .split('/')
            .map(|part| {
                let digits = part.get(..2).unwrap_or(part);
                let value = u8::from_str_radix(digits, 16).ok()?;
                Some(if digits.len() == 1 { value * 17 } else { value })
            });
        Some(Self(parts.next()??, parts.next()??, parts.next()??))
    }
}

/// What a key means while an answer is expected.
#[derive(Debug, PartialEq, Eq)]
pub enum FilteredKeys {
    /// They are keys of the user.
    Keys(Vec<KeyEvent>),
    /// It can be part of an answer.
    Withheld,
    /// The answer is complete. None if it is not readable.
    Answer(Option<Rgb>),
}

/// Takes the terminal's answer out of the keys.
#[derive(Debug, Default)]
pub struct BackgroundReply {
    withheld: Vec<KeyEvent>,
    /// The answer so far, after `ESC ]`.
    text: String,
}

impl BackgroundReply {
    /// Gives the withheld keys back, because nothing followed them.
    pub fn give_up(&mut self) -> Vec<KeyEvent> {
        self.text.clear();
        std::mem::take(&mut self.withheld)
    }

    pub fn filter(&mut self, key: KeyEvent) -> FilteredKeys {
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if self.withheld.is_empty() {
            if alt && key.code == KeyCode::Char(']') {
                self.withheld.push(key);
                return FilteredKeys::Withheld;
            }
            return FilteredKeys::Keys(vec![key]);
        }
        // `ESC \` and `BEL` end the answer. The terminal library reports them as alt-\ and ctrl-g.
        let ends =
            (alt && key.code == KeyCode::Char('\\')) || (control && key.code == KeyCode::Char('g'));
        if ends && self.text.starts_with("11;") {
            let answer = Rgb::parse(&self.text[3..]);
            self.give_up();
            return FilteredKeys::Answer(answer);
        }
        self.withheld.push(key);
        let KeyCode::Char(c) = key.code else {
            return FilteredKeys::Keys(self.give_up());
        };
        if alt || control {
            return FilteredKeys::Keys(self.give_up());
        }
        self.text.push(c);
        let belongs = self.text.starts_with("11;") || "11;".starts_with(&self.text);
        if belongs && self.text.len() <= LONGEST {
            FilteredKeys::Withheld
        } else {
            FilteredKeys::Keys(self.give_up())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_theme_that_creel_brings_along_is_whole() {
        for choice in [
            Choice::Auto,
            Choice::Dark,
            Choice::Light,
            Choice::HighContrast,
            Choice::Terminal,
        ] {
            ScreenTheme::chosen(choice, false);
        }
        let plain = ScreenTheme::chosen(Choice::Dark, true);
        assert!(
            plain
                .styles
                .values()
                .all(|style| style.fg.is_none() && style.bg.is_none())
        );
    }

    #[test]
    fn a_wrong_theme_is_reported() {
        assert_eq!(
            ScreenTheme::parse("texd: red")
                .expect_err("wrong")
                .to_string(),
            "unknown role `texd`"
        );
        assert_eq!(
            ScreenTheme::parse("text: rad")
                .expect_err("wrong")
                .to_string(),
            "`rad` is not a color"
        );
    }

    #[test]
    fn every_content_color_of_the_fixed_themes_is_readable() {
        for choice in [Choice::Dark, Choice::Light, Choice::HighContrast] {
            let theme = ScreenTheme::chosen(choice, false);
            let base = theme
                .style(ThemeRole::Text)
                .bg
                .and_then(Rgb::of)
                .expect("a fixed background");
            assert_eq!(
                theme.content().count(),
                NAMES.len() - 2,
                "{choice:?} has a fixed colour for everything"
            );
            for (front, back) in theme.content() {
                let contrast = front.contrast(back.unwrap_or(base));
                assert!(
                    contrast >= READABLE,
                    "{choice:?}: {front:?} on {back:?} has {contrast:.1}"
                );
            }
        }
    }

    #[test]
    fn the_terminal_theme_uses_only_the_sixteen_colours() {
        let theme = ScreenTheme::chosen(Choice::Terminal, false);
        let colours = theme
            .styles
            .values()
            .flat_map(|style| [style.fg, style.bg])
            .flatten();
        for colour in colours {
            assert!(
                !matches!(colour, Color::Rgb(..) | Color::Indexed(_)),
                "{colour:?}"
            );
        }
    }

    #[test]
    fn a_reported_background_chooses_the_theme_and_stays_if_everything_is_readable_on_it() {
        let back = |reported| {
            ScreenTheme::on_background(reported)
                .style(ThemeRole::Text)
                .bg
        };
        assert_eq!(back(Rgb(0, 0, 0)), None);
        assert_eq!(back(Rgb(255, 255, 255)), None);
        // A background in between has no theme of its own, so the theme brings its own.
        assert_eq!(
            back(Rgb(90, 90, 90)),
            ScreenTheme::chosen(Choice::Dark, false)
                .style(ThemeRole::Text)
                .bg
        );
        assert_eq!(
            ScreenTheme::on_background(Rgb(250, 245, 230)).style(ThemeRole::Bad),
            ScreenTheme::chosen(Choice::Light, false).style(ThemeRole::Bad)
        );
    }

    /// The key events that the terminal library makes of bytes.
    fn keys(text: &str) -> Vec<KeyEvent> {
        let mut out = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            out.push(match c {
                '\u{1b}' => KeyEvent::new(
                    KeyCode::Char(chars.next().expect("a character")),
                    KeyModifiers::ALT,
                ),
                '\u{7}' => KeyEvent::new(KeyCode::Char('g'), KeyModifiers::CONTROL),
                c => KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE),
            });
        }
        out
    }

    /// The answers, and the keys that came through.
    fn filtered(text: &str) -> (Vec<Option<Rgb>>, Vec<KeyEvent>) {
        let (mut reply, mut answers, mut through) =
            (BackgroundReply::default(), Vec::new(), Vec::new());
        for key in keys(text) {
            match reply.filter(key) {
                FilteredKeys::Keys(keys) => through.extend(keys),
                FilteredKeys::Withheld => {}
                FilteredKeys::Answer(colour) => answers.push(colour),
            }
        }
        through.extend(reply.give_up());
        (answers, through)
    }

    #[test]
    fn an_answer_among_keys_is_taken_out_whole() {
        let dark = vec![Some(Rgb(0x1e, 0x2e, 0x3e))];
        for end in ["\u{1b}\\", "\u{7}"] {
            assert_eq!(
                filtered(&format!("q\u{1b}]11;rgb:1e1e/2e2e/3e3e{end}j")),
                (dark.clone(), keys("qj"))
            );
        }
        assert_eq!(
            filtered("\u{1b}]11;rgb:f/0/8\u{7}").0,
            [Some(Rgb(255, 0, 136))]
        );
        assert_eq!(
            filtered("\u{1b}]11;rgba:ffff/0000/8080/ffff\u{7}").0,
            [Some(Rgb(255, 0, 128))]
        );
        assert_eq!(filtered("\u{1b}]11;what\u{7}"), (vec![None], Vec::new()));
    }

    #[test]
    fn keys_that_are_no_answer_come_back_in_their_order() {
        for typed in [
            "abc",
            "\u{1b}]",
            "\u{1b}]1x",
            "\u{1b}]11;rgb\u{1b}x",
            "\u{1b}]\u{7}",
        ] {
            assert_eq!(filtered(typed), (Vec::new(), keys(typed)), "{typed:?}");
        }
        let long = format!("\u{1b}]11;{}", "a".repeat(60));
        assert_eq!(filtered(&long), (Vec::new(), keys(&long)));
    }

    #[test]
    fn the_variable_of_some_terminals_names_the_background() {
        let dark = ["15;0", "15;default;0", "0;8"]
            .map(|value| Rgb::from_colorfgbg(value).map(Rgb::is_dark));
        assert_eq!(dark, [Some(true); 3]);
        assert_eq!(Rgb::from_colorfgbg("0;15").map(Rgb::is_dark), Some(false));
        assert_eq!(
            ["", "15;default", "0;11"].map(Rgb::from_colorfgbg),
            [None; 3]
        );
    }
}
