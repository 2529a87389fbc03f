//! The terminal as the screen of a session and the home screen use it: when a frame is due, keys,
//! signals, and the answer about the background.
//!
//! Does not know what is shown: see [`super::view`] and [`super::home`].
//!
//! # Invariants
//! - A frame is drawn only when something changed, and not before [`FramePacer`] allows it.

use std::{
    io,
    time::{Duration, Instant},
};

use crossterm::event::{Event, EventStream, KeyEvent};
use futures_core::Stream as _;
use rustix::{
    io::ioctl_fionread,
    process::getpgrp,
    termios::{OptionalActions, tcgetattr, tcgetpgrp, tcsetattr},
};

use crate::{
    process::signals::{ShutdownSignals, SuspendSignal, stop_job},
    tui::{
        BackgroundSource, ScreenOptions,
        keymap::Keymap,
        terminal::TerminalScreen,
        theme::{BackgroundReply, FilteredKeys, QUESTION, Rgb, ScreenTheme},
    },
};

/// How long an answer of the terminal about its background can change the theme.
const ANSWER: Duration = Duration::from_secs(2);
/// How long creel ignores signals that were meant for the user's editor or for a suspension: Ctrl-C
/// in the editor also reaches creel, and then once more through the parent process.
pub(super) const ECHO: Duration = Duration::from_millis(500);

pub(super) struct ScreenTerminal {
    pub(super) screen: TerminalScreen,
    /// Keys, mouse and resize events. None while another program has the terminal.
    pub(super) events: Option<EventStream>,
    /// Whether the next frame differs from the last.
    pub(super) changed: bool,
    pub(super) signals: ShutdownSignals,
    pub(super) stop_signal: SuspendSignal,
    pacer: FramePacer,
    /// Whether the terminal was asked about its background, and when.
    asked: Option<Instant>,
    /// Takes the answer out of the keys.
    reply: BackgroundReply,
    /// Until then, a stop signal belongs to the suspension that creel has just returned from.
    back_until: Option<Instant>,
}

/// What a key is, after the terminal's answer has been taken out of the keys.
pub(super) enum TerminalKeys {
    Keys(Vec<KeyEvent>),
    /// The terminal reported its background.
    Background(Rgb),
}

/// Whether creel was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SuspendResult {
    Suspended,
    /// No shell could resume it.
    NotPossible,
}

impl ScreenTerminal {
    pub(super) fn open(options: &ScreenOptions) -> io::Result<Self> {
        let (signals, stop_signal) = (ShutdownSignals::listen()?, SuspendSignal::listen()?);
        let mut screen = TerminalScreen::open(options.mouse, options.log.clone())?;
        let is_asked = options.background == BackgroundSource::Ask;
        if is_asked {
            screen.ask(QUESTION)?;
        }
        Ok(Self {
            screen,
            events: Some(event_stream()),
            changed: true,
            signals,
            stop_signal,
            pacer: FramePacer::default(),
            asked: is_asked.then(Instant::now),
            reply: BackgroundReply::default(),
            back_until: None,
        })
    }

    pub(super) fn is_frame_due(&self) -> bool {
        self.changed && self.pacer.may_draw(Instant::now())
    }

    /// When the next frame may be drawn. None if nothing has changed.
    pub(super) fn next_frame(&self) -> Option<Instant> {
        self.pacer.next().filter(|_| self.changed)
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        self.screen.draw(draw)?;
        self.pacer.drawn(Instant::now());
        self.changed = false;
        Ok(())
    }

    /// A late answer changes nothing: the user is used to the colours by then.
    pub(super) fn filter(&mut self, key: KeyEvent) -> TerminalKeys {
        let Some(asked) = self.asked else {
            return TerminalKeys::Keys(vec![key]);
        };
        match self.reply.filter(key) {
            FilteredKeys::Keys(keys) => TerminalKeys::Keys(keys),
            FilteredKeys::Answer(Some(colour)) if asked.elapsed() < ANSWER => {
                TerminalKeys::Background(colour)
            }
            FilteredKeys::Answer(_) | FilteredKeys::Withheld => TerminalKeys::Keys(Vec::new()),
        }
    }

    /// Whether a stop signal is the user's, and not an echo.
    pub(super) fn stops(&self) -> bool {
        self.back_until.is_none_or(|until| Instant::now() >= until)
    }

    /// From now on, stop signals are echoes for a moment.
    pub(super) fn returned(&mut self) {
        self.back_until = Some(Instant::now() + ECHO);
    }

    /// Releases the terminal and stops the process until a shell continues it.
    pub(super) fn suspend(&mut self) -> io::Result<SuspendResult> {
        self.changed = true;
        // The thread that reads keys stops with the process. If creel ended it here, the thread
        // might notice only after the process continues, and then swallow the first key.
        self.screen.lend();
        let stopped = stop_job();
        self.screen.take_back()?;
        self.returned();
        Ok(if stopped? {
            SuspendResult::Suspended
        } else {
            SuspendResult::NotPossible
        })
    }
}

impl ScreenOptions {
    /// The theme before the terminal has answered.
    pub(super) fn first_theme(&self) -> ScreenTheme {
        match self.background {
            BackgroundSource::Known(colour) => ScreenTheme::on_background(colour),
            BackgroundSource::Ask | BackgroundSource::Unneeded => {
                ScreenTheme::chosen(self.theme, self.no_color)
            }
        }
    }

    /// The keys, and what is wrong with the user's file.
    pub(super) fn keys(&self) -> (Keymap, Option<String>) {
        let standard = || (Keymap::standard(), Vec::new());
        let (keymap, mistakes) = self.keymap.as_deref().map_or_else(standard, Keymap::load);
        let others = match mistakes.len() {
            0 | 1 => String::new(),
            n => format!(" and {} more (`creel check` lists them)", n - 1),
        };
        let wrong = mistakes
            .first()
            .map(|first| format!("keymap.yaml: {first}{others}; the default keys apply"));
        (keymap, wrong)
    }
}

/// Reads keys, also after an earlier stream was dropped. Dropping one leaves a wake-up behind. If
/// the wake-up arrives together with the next key, crossterm forgets the key until yet another one
/// is pressed. So it is taken here, before the user can see the screen and press a key.
pub(super) fn event_stream() -> EventStream {
    let events = EventStream::new();
    let _ = crossterm::event::poll(Duration::ZERO);
    events
}

pub(super) async fn next_event(events: &mut Option<EventStream>) -> Option<io::Result<Event>> {
    let events = events.as_mut()?;
    let next = |context: &mut std::task::Context<'_>| {
        let polled = std::pin::Pin::new(&mut *events).poll_next(context);
        if polled.is_pending() {
            report_input_again();
        }
        polled
    };
    std::future::poll_fn(next).await
}

/// If the terminal has input that crossterm left there, makes the kernel report it again. crossterm
/// reads at most 1,024 bytes for each report, so the rest of a long burst would wait for the next
/// key. Setting the modes of the terminal to what they are is such a report.
fn report_input_again() {
    let terminal = io::stdin();
    let is_waiting = ioctl_fionread(&terminal).is_ok_and(|bytes| bytes > 0);
    // In the background, changing a terminal would stop creel.
    if is_waiting
        && tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp())
        && let Ok(modes) = tcgetattr(&terminal)
    {
        let _ = tcsetattr(&terminal, OptionalActions::Now, &modes);
    }
}

pub(super) async fn until_frame(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// The average time between two frames.
const FRAME: Duration = Duration::from_millis(16);
/// How many frames may follow each other at once after a pause, besides the first.
const AT_ONCE: u32 = 2;

#[derive(Debug, Default)]
pub(super) struct FramePacer {
    /// When the frames so far would have ended if each had taken its time. `None` before the first.
    spent_until: Option<Instant>,
}

impl FramePacer {
    /// The earliest time of the next frame. `None`: now.
    pub(super) fn next(&self) -> Option<Instant> {
        self.spent_until
            .and_then(|until| until.checked_sub(FRAME * AT_ONCE))
    }

    pub(super) fn may_draw(&self, now: Instant) -> bool {
        self.next().is_none_or(|next| now >= next)
    }

    pub(super) fn drawn(&mut self, now: Instant) {
        self.spent_until = Some(self.spent_until.map_or(now, |until| until.max(now)) + FRAME);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_pause_three_frames_come_at_once_and_then_sixty_a_second() {
        let start = Instant::now() + Duration::from_mins(1);
        let mut pacer = FramePacer::default();
        let frames = (0..1_000).filter(|ms| {
            let now = start + Duration::from_millis(*ms);
            let may = pacer.may_draw(now);
            if may {
                pacer.drawn(now);
            }
            may
        });
        let frames: Vec<u64> = frames.collect();
        assert_eq!(frames[..5], [0, 1, 2, 16, 32]);
        assert!(frames.len() <= 65, "{}", frames.len());
    }
}
