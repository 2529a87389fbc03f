//! Themes: the screen uses roles, and a theme is a data file that gives each role its colours.

use std::collections::BTreeMap;

use ratatui::style::{Color, Modifier, Style};

use crate::config::ThemeName as Choice;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThemeRole {
    Text,
    /// Less important text.
    Faint,
    Heading,
    /// Something to find quickly.
    Accent,
    Good,
    Bad,
    Warning,
    Selected,
    Border,
    /// The frame of the pane that receives the keys.
    BorderFocused,
    Code,
    Key,
    /// The session waits for the user.
    Gate,
}

const NAMES: [(&str, ThemeRole); 13] = [
    ("text", ThemeRole::Text),
    ("faint", ThemeRole::Faint),
    ("heading", ThemeRole::Heading),
    ("accent", ThemeRole::Accent),
    ("good", ThemeRole::Good),
    ("bad", ThemeRole::Bad),
    ("warning", ThemeRole::Warning),
    ("selected", ThemeRole::Selected),
    ("border", ThemeRole::Border),
    ("border-focused", ThemeRole::BorderFocused),
    ("code", ThemeRole::Code),
    ("key", ThemeRole::Key),
    ("gate", ThemeRole::Gate),
];

#[derive(Debug, Clone)]
pub struct ScreenTheme {
    styles: BTreeMap<ThemeRole, Style>,
}

impl ScreenTheme {
    /// The theme from the config. With `no_color`, a theme without colours.
    pub fn chosen(choice: Choice, no_color: bool) -> Self {
        let text = match choice {
            _ if no_color => include_str!("../../assets/themes/plain.yaml"),
            Choice::Auto => include_str!("../../assets/themes/auto.yaml"),
            Choice::Dark => include_str!("../../assets/themes/dark.yaml"),
            Choice::Light => include_str!("../../assets/themes/light.yaml"),
            Choice::HighContrast => include_str!("../../assets/themes/high-contrast.yaml"),
        };
        Self::parse(text).expect("the themes that creel brings along are right")
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
            None => Ok(Self { styles }),
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
    #[error("`{0}` is not a colour")]
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
    word.parse().map_err(|_| ThemeError::NotAColour(word.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_theme_that_creel_brings_along_is_whole() {
        for choice in [Choice::Auto, Choice::Dark, Choice::Light, Choice::HighContrast] {
            ScreenTheme::chosen(choice, false);
        }
        let plain = ScreenTheme::chosen(Choice::Dark, true);
        assert!(plain.styles.values().all(|style| style.fg.is_none() && style.bg.is_none()));
    }

    #[test]
    fn a_wrong_theme_is_told() {
        assert_eq!(ScreenTheme::parse("texd: red").expect_err("wrong").to_string(), "unknown role `texd`");
        assert_eq!(ScreenTheme::parse("text: rad").expect_err("wrong").to_string(), "`rad` is not a colour");
    }
}
