//! The terminal: taken over when the screen opens, given back as it was, whatever happens.
//!
//! # Invariants
//! - After [`TerminalScreen`] is dropped, after a panic, and while suspended, the terminal has its own settings.

use std::{
    io::{self, Stdout, Write as _},
    mem::ManuallyDrop,
    path::PathBuf,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
};

use crossterm::{
    clipboard::CopyToClipboard,
    cursor, event, execute,
    terminal::{self, EnterAlternateScreen, LeaveAlternateScreen},
};
use ratatui::{Terminal, backend::CrosstermBackend};
use rustix::termios::{LocalModes, tcgetattr};

use super::notification::TerminalNotifier;

/// Whether the terminal is ours now.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The screen while it is ours.
pub struct TerminalScreen {
    /// Never dropped: it would complain on standard error about a cursor that it cannot show, and panic if that is gone
    /// with the terminal. [`give_back`] shows the cursor.
    terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
    mouse: bool,
    /// What the terminal shows is not what was drawn last.
    stale: bool,
}

impl TerminalScreen {
    /// Takes the terminal over.
    pub fn open(mouse: bool, log: Option<PathBuf>) -> io::Result<Self> {
        restore_on_panic(log);
        take(mouse)?;
        let terminal = ManuallyDrop::new(Terminal::new(CrosstermBackend::new(io::stdout()))?);
        Ok(Self { terminal, mouse, stale: false })
    }

    /// Draws a frame.
    pub fn draw(&mut self, draw: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        if std::mem::take(&mut self.stale) {
            // Not `clear`: that asks the terminal where its cursor is, and waits for the answer.
            let size = self.terminal.size()?;
            self.terminal.resize(size.into())?;
        }
        self.terminal.draw(draw).map(|_| ())
    }

    /// The size of the terminal.
    pub fn size(&self) -> io::Result<(u16, u16)> {
        terminal::size()
    }

    /// Draws everything again with the next frame.
    pub fn redraw(&mut self) {
        self.stale = true;
    }

    /// Gives the terminal back while something else runs.
    pub fn lend(&mut self) {
        give_back();
    }

    /// Takes over the terminal that was lent.
    pub fn take_back(&mut self) -> io::Result<()> {
        self.redraw();
        take(self.mouse)
    }

    /// Puts a text on the clipboard, if the terminal allows that.
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        execute!(io::stdout(), CopyToClipboard::to_clipboard_from(text))
    }

    /// Calls the user: the bell, and a notification where the terminal shows one.
    pub fn call(&mut self, notifier: TerminalNotifier, text: &str) -> io::Result<()> {
        let mut out = io::stdout();
        out.write_all(notifier.call(text).as_bytes())?;
        out.flush()
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        // Once is enough: a second time would put the cursor on what was said since.
        if is_taken() {
            give_back();
        }
    }
}

fn take(mouse: bool) -> io::Result<()> {
    TAKEN.store(true, Ordering::SeqCst);
    terminal::enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, event::EnableBracketedPaste, event::EnableFocusChange, cursor::Hide)?;
    if mouse {
        execute!(io::stdout(), event::EnableMouseCapture)?;
    }
    Ok(())
}

/// Whether the terminal is ours now.
pub fn is_taken() -> bool {
    TAKEN.load(Ordering::SeqCst)
}

/// Whether the terminal has the settings of a screen: no shell leaves it without a key that interrupts.
pub fn is_raw() -> bool {
    let of_lines = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
    tcgetattr(io::stdin()).is_ok_and(|now| !now.local_modes.intersects(of_lines))
}

/// Gives the terminal back.
pub fn give_back() {
    switch_off();
    let _ = terminal::disable_raw_mode();
}

/// Switches off what the screen has switched on, in the terminal itself and not in its settings. There is nothing to be
/// done about a failure: the terminal is gone then.
pub fn switch_off() {
    TAKEN.store(false, Ordering::SeqCst);
    let _ = execute!(
        io::stdout(),
        event::DisableMouseCapture,
        event::DisableFocusChange,
        event::DisableBracketedPaste,
        LeaveAlternateScreen,
        cursor::Show
    );
}

/// A panic prints its message on the terminal as it was, and where the log is. One in another thread leaves the screen
/// alone, which goes on or ends as those decide who wait for that thread.
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
                let _ = writeln!(io::stderr(), "creel: this is a fault of creel; its log is in {}", log.display());
            }
        }));
    });
}
