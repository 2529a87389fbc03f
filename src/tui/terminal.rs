//! Sets up the terminal for the screen and restores it.
//!
//! # Invariants
//! - After [`TerminalScreen`] is dropped, after a panic, and while suspended, the terminal has its
//!   own settings.

pub(super) mod lean_backend;

use std::{
    io::{self, BufWriter, Stdout, Write as _},
    mem::ManuallyDrop,
    path::PathBuf,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
};

use crossterm::{
    clipboard::CopyToClipboard,
    cursor, event, execute, queue,
    style::{Attribute, Print, SetAttribute},
    terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen},
};
use lean_backend::LeanBackend;
use ratatui::Terminal;
use rustix::termios::{LocalModes, SpecialCodeIndex, Termios, tcgetattr};

use crate::process::windows_notice;

/// Terminals that keep a stack of titles put the old one back when creel leaves.
const SAVE_TITLE: &str = "\u{1b}[22;2t";
const RESTORE_TITLE: &str = "\u{1b}[23;2t";

/// Whether the screen has the terminal now.
static TAKEN: AtomicBool = AtomicBool::new(false);

pub struct TerminalScreen {
    /// Never dropped: its `drop` prints to standard error if it cannot show the cursor, and panics
    /// if standard error is gone with the terminal. [`give_back`] shows the cursor.
    terminal: ManuallyDrop<Terminal<LeanBackend<BufWriter<Stdout>>>>,
    mouse: bool,
    /// Whether the terminal shows something else than the last frame.
    stale: bool,
    /// The terminal's title, as it was last set.
    title: String,
}

impl TerminalScreen {
    pub fn open(mouse: bool, log: Option<PathBuf>) -> io::Result<Self> {
        restore_on_panic(log);
        take(mouse)?;
        let terminal = ManuallyDrop::new(Terminal::new(LeanBackend::new(BufWriter::new(
            io::stdout(),
        )))?);
        Ok(Self {
            terminal,
            mouse,
            stale: false,
            title: String::new(),
        })
    }

    pub fn draw(&mut self, draw: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        if std::mem::take(&mut self.stale) {
            // Not `clear`: that asks the terminal for the cursor position, and waits for the
            // answer.
            self.terminal.backend_mut().forget();
            let size = self.terminal.size()?;
            self.terminal.resize(size.into())?;
        }
        self.terminal.draw(draw).map(|_| ())
    }

    /// Sets the terminal's title, if it has changed.
    pub fn set_title(&mut self, title: String) -> io::Result<()> {
        if self.title == title {
            return Ok(());
        }
        // Not `SetTitle`: it ends with the character of the bell.
        execute!(io::stdout(), Print(format!("\u{1b}]2;{title}\u{1b}\\")))?;
        self.title = title;
        Ok(())
    }

    /// Asks the terminal for something. The answer arrives among the keys.
    pub fn ask(&mut self, question: &str) -> io::Result<()> {
        let mut out = io::stdout();
        out.write_all(question.as_bytes())?;
        out.flush()
    }

    pub fn size(&self) -> io::Result<(u16, u16)> {
        terminal::size()
    }

    /// Draws everything again with the next frame.
    pub fn redraw(&mut self) {
        self.stale = true;
    }

    /// Restores the terminal while another program uses it.
    pub fn lend(&mut self) {
        give_back();
    }

    pub fn take_back(&mut self) -> io::Result<()> {
        self.redraw();
        self.title.clear();
        take(self.mouse)
    }

    /// Puts a text on the clipboard, if the terminal allows that.
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        execute!(io::stdout(), CopyToClipboard::to_clipboard_from(text))
    }

    /// Notifies the user: the bell, and a notification if the terminal shows one.
    pub fn call(&mut self, notifier: &TerminalNotifier, text: &str) -> io::Result<()> {
        let mut out = io::stdout();
        out.write_all(notifier.call(text).as_bytes())?;
        if let NotificationForm::Windows(powershell) = &notifier.form {
            windows_notice::show(powershell, &cleaned(text));
        }
        out.flush()
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        // Only once: a second time would move the cursor over what was printed since.
        if is_taken() {
            give_back();
        }
    }
}

fn take(mouse: bool) -> io::Result<()> {
    TAKEN.store(true, Ordering::SeqCst);
    terminal::enable_raw_mode()?;
    // Where there is no alternate screen, the text of the shell would stay inside the panes.
    execute!(
        io::stdout(),
        Print(SAVE_TITLE),
        EnterAlternateScreen,
        SetAttribute(Attribute::Reset),
        Clear(ClearType::All),
        event::EnableBracketedPaste,
        event::EnableFocusChange,
        cursor::Hide
    )?;
    if mouse {
        execute!(io::stdout(), event::EnableMouseCapture)?;
    }
    Ok(())
}

/// Whether the screen has the terminal now.
pub fn is_taken() -> bool {
    TAKEN.load(Ordering::SeqCst)
}

/// Whether the terminal is in raw mode: line input, echo and interrupt keys are all off, which no
/// shell does.
pub fn is_raw() -> bool {
    let of_lines = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
    tcgetattr(io::stdin()).is_ok_and(|now| !now.local_modes.intersects(of_lines))
}

/// Whether two terminals behave alike: everything that a program changes to read single keys.
pub fn have_same_settings(one: &Termios, other: &Termios) -> bool {
    const CODES: [SpecialCodeIndex; 11] = [
        SpecialCodeIndex::VINTR,
        SpecialCodeIndex::VQUIT,
        SpecialCodeIndex::VERASE,
        SpecialCodeIndex::VKILL,
        SpecialCodeIndex::VEOF,
        SpecialCodeIndex::VTIME,
        SpecialCodeIndex::VMIN,
        SpecialCodeIndex::VSTART,
        SpecialCodeIndex::VSTOP,
        SpecialCodeIndex::VSUSP,
        SpecialCodeIndex::VEOL,
    ];
    one.input_modes == other.input_modes
        && one.output_modes == other.output_modes
        && one.control_modes == other.control_modes
        && one.local_modes == other.local_modes
        && CODES
            .into_iter()
            .all(|code| one.special_codes[code] == other.special_codes[code])
}

/// Gives the terminal back.
pub fn give_back() {
    switch_off();
    let _ = terminal::disable_raw_mode();
}

/// Undoes what the screen changed by escape sequences, but not raw mode. Errors are ignored: they
/// mean that the terminal is gone.
pub fn switch_off() {
    // Where there is no alternate screen, the panes would stay around what the shell prints next.
    // Only while the screen is open: later, it would erase the shell's own text.
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = queue!(
            io::stdout(),
            SetAttribute(Attribute::Reset),
            Clear(ClearType::All),
            cursor::MoveTo(0, 0)
        );
    }
    let _ = execute!(
        io::stdout(),
        event::DisableMouseCapture,
        event::DisableFocusChange,
        event::DisableBracketedPaste,
        SetAttribute(Attribute::Reset),
        LeaveAlternateScreen,
        Print(RESTORE_TITLE),
        cursor::Show
    );
}

/// Makes a panic restore the terminal, print its message and name the log. A panic in another
/// thread leaves the screen alone: the code that waits for that thread decides what happens.
fn restore_on_panic(log: Option<PathBuf>) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        let owner = std::thread::current().id();
        std::panic::set_hook(Box::new(move |panic| {
            tracing::error!("{panic}");
            if is_taken() {
                if std::thread::current().id() != owner {
                    return;
                }
                give_back();
            }
            before(panic);
            if let Some(log) = &log {
                let _ = writeln!(
                    io::stderr(),
                    "creel: this is a bug in creel; see its log in {}",
                    log.display()
                );
            }
        }));
    });
}

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

#[derive(Debug, Clone, PartialEq, Eq)]
enum NotificationForm {
    Osc9,
    Osc777,
    /// In WSL: no sequence, but this PowerShell. Windows Terminal shows none by default.
    Windows(PathBuf),
    /// For an unknown terminal. Most ignore sequences that they do not understand.
    Both,
}

#[derive(Debug, Clone, PartialEq, Eq)]
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
        let form = if known && path == TerminalPath::Direct {
            NotificationForm::Osc9
        } else if let Some(powershell) = windows_notice::find(&variable) {
            NotificationForm::Windows(powershell)
        } else if path != TerminalPath::Direct {
            // These variables can describe a terminal that has since detached.
            NotificationForm::Both
        } else if is_set("WT_SESSION") {
            // Windows Terminal reads OSC 9 differently.
            NotificationForm::Osc777
        } else if term.starts_with("foot") || term.starts_with("rxvt") || is_set("VTE_VERSION") {
            NotificationForm::Osc777
        } else {
            NotificationForm::Both
        };
        Self { path, form }
    }

    /// What the user gets to see.
    pub fn in_words(&self) -> String {
        let form = match self.form {
            NotificationForm::Windows(_) => "a notification on the Windows desktop",
            NotificationForm::Osc9 => "a notification (OSC 9)",
            NotificationForm::Osc777 => "a notification (OSC 777)",
            NotificationForm::Both => "a notification, if the terminal knows OSC 9 or OSC 777",
        };
        let path = match self.path {
            TerminalPath::Direct => "",
            TerminalPath::Tmux => ", through tmux",
            TerminalPath::Screen => ", through screen",
        };
        format!("a bell and {form}{path}, while you look elsewhere")
    }

    /// The bytes that notify the user with this text.
    pub fn call(&self, text: &str) -> String {
        let clean = cleaned(text);
        let osc9 = format!("\u{1b}]9;{clean}\u{7}");
        let osc777 = format!("\u{1b}]777;notify;creel;{clean}\u{7}");
        let sequences = match &self.form {
            NotificationForm::Osc9 => vec![osc9],
            NotificationForm::Osc777 => vec![osc777],
            NotificationForm::Both => vec![osc9, osc777],
            NotificationForm::Windows(_) => Vec::new(),
        };
        // tmux and screen handle the bell themselves.
        sequences
            .iter()
            .fold("\u{7}".to_owned(), |bytes, sequence| {
                bytes + &self.passed_on(sequence)
            })
    }

    /// Wraps the sequence so that tmux or screen passes it on to the terminal.
    fn passed_on(&self, sequence: &str) -> String {
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

/// What fits into a notification.
fn cleaned(text: &str) -> String {
    let allowed = text.chars().filter(|c| !c.is_control() && *c != ';');
    allowed.take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::termios::OutputModes;

    #[test]
    fn settings_are_compared_by_what_they_do() {
        let (pty, _inside) = pty_process::blocking::open().expect("a terminal");
        let before = tcgetattr(&pty).expect("a terminal has settings");
        assert!(have_same_settings(&before, &before.clone()));
        let changes: [fn(&mut Termios); 4] = [
            Termios::make_raw,
            |it| it.local_modes.remove(LocalModes::ECHO),
            |it| it.output_modes.toggle(OutputModes::OPOST),
            |it| it.special_codes[SpecialCodeIndex::VINTR] = 7,
        ];
        for change in changes {
            let mut after = before.clone();
            change(&mut after);
            assert!(!have_same_settings(&before, &after), "{after:?}");
        }
    }

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
            [("WT_SESSION", "2f6d0c9e")],
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
