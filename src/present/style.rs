//! Colour for lines that go to a terminal, and none for anything else.

use std::{fmt::Display, io::IsTerminal};

/// What a piece of text is; how that looks is decided in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRole {
    /// A heading.
    Heading,
    /// Something that went well.
    Good,
    /// Something that did not.
    Bad,
    /// Something to know.
    Warning,
    /// What can be skipped when reading.
    Faint,
}

/// Whether to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColourMode {
    /// Yes.
    Colour,
    /// No.
    Plain,
}

impl ColourMode {
    /// Colour, if the stream is a terminal and nobody asked for none.
    pub fn for_stream(stream: &impl IsTerminal) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if stream.is_terminal() && !unwanted { Self::Colour } else { Self::Plain }
    }

    /// The text in the look of its role.
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
