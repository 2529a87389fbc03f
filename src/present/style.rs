//! Colour for lines that go to a terminal.

use std::{fmt::Display, io::IsTerminal};

/// The meaning of a text. `paint` decides how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRole {
    Heading,
    Good,
    Bad,
    Warning,
    /// Less important.
    Faint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColourMode {
    Colour,
    Plain,
}

impl ColourMode {
    /// Colour if the stream is a terminal, unless `NO_COLOR` or a dumb terminal forbids it.
    pub fn for_stream(stream: &impl IsTerminal) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if stream.is_terminal() && !unwanted {
            Self::Colour
        } else {
            Self::Plain
        }
    }

    pub fn paint(self, role: TextRole, text: impl Display) -> String {
        let code = match role {
            TextRole::Heading => "1",
            TextRole::Good => "32",
            TextRole::Bad => "31",
            TextRole::Warning => "33",
            TextRole::Faint => "2",
        };
        match self {
            Self::Colour => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            Self::Plain => text.to_string(),
        }
    }
}
