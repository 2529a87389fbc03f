//! Notifies the user through the terminal: the bell, and the escape sequences for a desktop
//! notification.
//!
//! Owns which sequences a terminal gets, and how they pass through tmux and GNU screen. Does not
//! decide when to notify: see [`crate::tui`].
//!
//! # Invariants
//! - The text contains no control character and no `;`, so it cannot end its sequence or become
//!   another one.
//! - A terminal that is known to understand both sequences gets one, or it would show two
//!   notifications.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalFocus {
    /// The terminal has not reported it. Some never do, such as tmux without `focus-events`.
    Unknown,
    Here,
    Elsewhere,
}

/// The program between creel and the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TerminalPath {
    Direct,
    Tmux,
    Screen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotificationForm {
    Osc9,
    Osc777,
    /// For an unknown terminal. Most ignore sequences that they do not understand.
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalNotifier {
    path: TerminalPath,
    form: NotificationForm,
}

impl TerminalNotifier {
    /// Detects the terminal from environment variables.
    pub fn detect(variable: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name: &str| variable(name).unwrap_or_default();
        let is_set = |name: &str| !value(name).is_empty();
        let term = value("TERM");
        let path = if is_set("TMUX") || term.starts_with("tmux") {
            TerminalPath::Tmux
        } else if is_set("STY") {
            TerminalPath::Screen
        } else {
            TerminalPath::Direct
        };
        let known = ["iTerm.app", "WezTerm", "ghostty", "WarpTerminal"]
            .contains(&value("TERM_PROGRAM").as_str())
            || value("LC_TERMINAL") == "iTerm2"
            || ["xterm-kitty", "xterm-ghostty"].contains(&term.as_str());
        let form = if path != TerminalPath::Direct {
            // These variables can describe a terminal that has since detached.
            NotificationForm::Both
        } else if known {
            NotificationForm::Osc9
        } else if term.starts_with("foot") || term.starts_with("rxvt") || is_set("VTE_VERSION") {
            NotificationForm::Osc777
        } else {
            NotificationForm::Both
        };
        Self { path, form }
    }

    /// The bytes that notify the user with this text.
    pub fn call(self, text: &str) -> String {
        let clean: String = text
            .chars()
            .filter(|c| !c.is_control() && *c != ';')
            .take(200)
            .collect();
        let osc9 = format!("\u{1b}]9;{clean}\u{7}");
        let osc777 = format!("\u{1b}]777;notify;creel;{clean}\u{7}");
        let sequences = match self.form {
            NotificationForm::Osc9 => vec![osc9],
            NotificationForm::Osc777 => vec![osc777],
            NotificationForm::Both => vec![osc9, osc777],
        };
        // tmux and screen handle the bell themselves.
        sequences
            .iter()
            .fold("\u{7}".to_owned(), |bytes, sequence| {
                bytes + &self.passed_on(sequence)
            })
    }

    /// Wraps the sequence so that tmux or screen passes it on to the terminal.
    fn passed_on(self, sequence: &str) -> String {
        match self.path {
            TerminalPath::Direct => sequence.to_owned(),
            TerminalPath::Tmux => format!(
                "\u{1b}Ptmux;{}\u{1b}\\",
                sequence.replace('\u{1b}', "\u{1b}\u{1b}")
            ),
            TerminalPath::Screen => format!("\u{1b}P{sequence}\u{1b}\\"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(variables: &[(&str, &str)]) -> String {
        let value = |name: &str| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        TerminalNotifier::detect(value)
            .call("Hi")
            .replace('\u{1b}', "^")
            .replace('\u{7}', "!")
    }

    #[test]
    fn an_unknown_terminal_gets_both_sequences_and_a_known_one_gets_one() {
        assert_eq!(
            call(&[("TERM", "xterm-256color")]),
            "!^]9;Hi!^]777;notify;creel;Hi!"
        );
        for known in [
            [("TERM_PROGRAM", "iTerm.app")],
            [("TERM_PROGRAM", "WezTerm")],
            [("TERM", "xterm-kitty")],
            [("LC_TERMINAL", "iTerm2")],
        ] {
            assert_eq!(call(&known), "!^]9;Hi!", "{known:?}");
        }
        for known in [
            [("TERM", "foot-direct")],
            [("TERM", "rxvt-unicode-256color")],
            [("VTE_VERSION", "7600")],
        ] {
            assert_eq!(call(&known), "!^]777;notify;creel;Hi!", "{known:?}");
        }
    }

    #[test]
    fn sequences_pass_through_tmux_and_screen_and_the_bell_does_not_have_to() {
        let through_tmux = r"!^Ptmux;^^]9;Hi!^\^Ptmux;^^]777;notify;creel;Hi!^\";
        assert_eq!(
            call(&[("TMUX", "/tmp/tmux-0/default,1,0"), ("TERM", "screen")]),
            through_tmux
        );
        assert_eq!(
            call(&[("TERM", "tmux-256color"), ("LC_TERMINAL", "iTerm2")]),
            through_tmux
        );
        assert_eq!(
            call(&[("STY", "1.pts-0"), ("TERM", "screen")]),
            r"!^P^]9;Hi!^\^P^]777;notify;creel;Hi!^\"
        );
    }

    #[test]
    fn a_text_cannot_leave_its_sequence() {
        let notifier = TerminalNotifier::detect(|_| None);
        let call = notifier.call("a\u{7}\u{1b}]0;b\u{9c}\n");
        assert_eq!(
            call,
            "\u{7}\u{1b}]9;a]0b\u{7}\u{1b}]777;notify;creel;a]0b\u{7}"
        );
    }
}
