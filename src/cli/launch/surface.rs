//! Where a session that this process runs is shown.

use std::io::{self, IsTerminal as _};

use crate::{
    cli::{
        arguments::{DetachArgs, OutputArgs},
        headless::PrintFormat,
    },
    config::UiSettings,
    engine::event::UserPresence,
    process::playback_pace::PlaybackPace,
};

#[derive(Debug, Clone, Copy)]
pub(crate) enum SessionSurface {
    /// On the screen, where the user can answer.
    Screen(UiSettings),
    /// On the screen, at a pace that the viewer controls.
    Demo(UiSettings, PlaybackPace),
    /// Printed, usually unattended.
    Printed(PrintFormat, UserPresence),
    /// Not at all: it runs in the background, and waits until the user attaches or answers from
    /// elsewhere.
    Nowhere,
}

impl SessionSurface {
    /// The surface that the command line asks for. Without a terminal there is no screen.
    pub(crate) fn chosen(output: OutputArgs, detach: DetachArgs, ui: UiSettings) -> Self {
        if detach.background {
            return Self::Nowhere;
        }
        let presence = if output.attended {
            UserPresence::Attended
        } else {
            UserPresence::Unattended
        };
        match output {
            OutputArgs { json: true, .. } => Self::Printed(PrintFormat::Json, presence),
            OutputArgs { .. } if !is_on_screen(output, detach) => {
                Self::Printed(PrintFormat::Lines, presence)
            }
            OutputArgs { .. } => Self::Screen(ui),
        }
    }

    /// Whether the user can answer.
    pub(crate) fn presence(self) -> UserPresence {
        match self {
            Self::Screen(_) | Self::Demo(..) | Self::Nowhere => UserPresence::Attended,
            Self::Printed(_, presence) => presence,
        }
    }
}

/// Whether a session with these arguments has a screen.
pub(crate) fn is_on_screen(output: OutputArgs, detach: DetachArgs) -> bool {
    let asked_for = !output.json && !output.headless && !detach.detach && !detach.background;
    asked_for && io::stdin().is_terminal() && io::stdout().is_terminal()
}
