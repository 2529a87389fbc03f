//! Themes: the screen uses roles, and a theme is a data file that gives each role its colours.

pub mod background;

use std::collections::BTreeMap;

use background::Rgb;
use jiff::tz::TimeZone;
use ratatui::{
    buffer::Buffer,
    style::{Color, Modifier, Style},
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
}

const NAMES: [(&str, ThemeRole); 15] = [
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
            .all(|(front, back)| front.contrast(back.unwrap_or(reported)) >= background::READABLE)
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
                    contrast >= background::READABLE,
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
}
