//! The screen: shows a session live and lets the user steer it.
//!
//! Reads records from the journal's file, whichever process writes it, and the engine's state that follows from them, and acts only by sending commands.
//! Keys go through the key map to [`mod@update`], which changes the [`model`] and returns requests;
//! [`view`] draws the model.
//!
//! # Invariants
//! - A frame is drawn only when something changed, on average at most 60 times a second: see
//!   [`screen_terminal`].
//! - The terminal gets its own settings back, however the screen ends.

pub mod ansi;
pub mod cast;
pub mod changes;
mod command_queue;
mod diff;
mod diff_reader;
pub mod hints;
pub mod home;
pub mod hook_rows;
pub mod keymap;
mod markdown;
pub mod memory;
pub mod modals;
pub mod model;
pub mod output_lines;
pub mod panes;
pub mod patch;
pub mod replay;
pub mod request;
pub mod runs;
mod screen_terminal;
mod session_records;
pub mod stream;
pub mod task_board;
pub mod terminal;
pub mod text;
pub mod theme;
pub mod update;
pub mod view;

pub use crate::report::session_diff::DiffPlace;

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Instant,
};

use crossterm::event::{Event, KeyEvent};
use memory::ScreenMemory;
use model::{ScreenMode, ScreenModel};
use replay::ReplayPlayer;
use request::{CloseBehavior, OutsideText, ScreenEvent, ScreenRequest};
use rustix::process::Signal;
use screen_terminal::{
    ECHO, ScreenTerminal, SuspendResult, TerminalKeys, event_stream, next_event, until_frame,
};
use stream::SessionStream;
use terminal::{TerminalFocus, TerminalNotifier};
use theme::{Rgb, ScreenTheme, ThemeRole};
use tokio::sync::{mpsc, watch};
use update::update;

use crate::{
    engine::{
        event::{ActorKind, StopTiming},
        input::SessionCommand,
    },
    journal::{RecordSpan, RecordTail},
    present::{
        style::SignSet,
        text::{local_zone, plain},
    },
    process::{
        editor::EditorFile,
        playback_pace::{PaceFile, PlaybackPace},
    },
    protocol::NatsStatus,
    runtime::{
        HookOutputChunk,
        clock::{session_time, sleep_until},
    },
    sessions::session_client::SessionAddress,
    tui::{command_queue::CommandQueue, diff_reader::DiffReader, session_records::UnreadHistory},
};

#[derive(Debug, Clone)]
pub struct ScreenOptions {
    pub theme: crate::config::ThemeName,
    pub no_color: bool,
    /// The terminal's background as far as the environment says it, or whether to ask the terminal.
    pub background: BackgroundSource,
    pub motion: crate::config::MotionMode,
    pub hints: crate::config::HintMode,
    pub signs: SignSet,
    /// Whether to capture the mouse.
    pub mouse: bool,
    /// How to notify the user when a gate opens. None: not at all.
    pub notify: Option<TerminalNotifier>,
    /// The file with the user's own keys.
    pub keymap: Option<PathBuf>,
    /// The file with what the screen remembers.
    pub memory: Option<PathBuf>,
    /// The log file, for the message after a panic.
    pub log: Option<PathBuf>,
}

/// Where the theme `auto` finds out about the terminal's background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackgroundSource {
    Known(Rgb),
    Ask,
    /// The terminal has a theme from the config, or cannot answer.
    Unneeded,
}

impl BackgroundSource {
    /// What the environment says about the background. The text consoles of Linux and dumb
    /// terminals do not answer.
    pub fn detect(
        theme: crate::config::ThemeName,
        no_color: bool,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        if no_color || theme != crate::config::ThemeName::Auto {
            return Self::Unneeded;
        }
        let known = variable("COLORFGBG").and_then(|value| Rgb::from_colorfgbg(&value));
        let is_mute = variable("TERM").is_none_or(|term| matches!(term.as_str(), "linux" | "dumb"));
        match known {
            Some(colour) => Self::Known(colour),
            None if is_mute => Self::Unneeded,
            None => Self::Ask,
        }
    }
}

pub struct ScreenSource {
    pub journal: PathBuf,
    /// None for a past session.
    pub client: Option<SessionAddress>,
    /// The number of the last record, as a signal that the journal has more. The channel closes
    /// with the session.
    pub news: watch::Receiver<u64>,
    pub live: mpsc::Receiver<HookOutputChunk>,
    /// What happens to the session when the screen closes.
    pub tie: CloseBehavior,
    /// The pace of a demo, which the viewer controls. None for other sessions.
    pub pace: Option<(PaceFile, PlaybackPace)>,
    /// The connection of the session, or of this screen, to a NATS server.
    pub nats: Option<watch::Receiver<NatsStatus>>,
    /// Where the files of the session are.
    pub files: DiffPlace,
}

/// How the user left the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScreenExit {
    /// The session is over, or the user has seen enough.
    Done,
    /// The terminal is gone, or a signal ends creel.
    Gone,
    /// The session continues without the screen.
    LeavesItRunning,
    /// The user pressed Ctrl-C again: everything that belongs to this screen ends immediately.
    AtOnce,
}

struct Tui {
    model: ScreenModel,
    terminal: ScreenTerminal,
    feed: RecordTail,
    /// Set while records of the past are not read yet.
    history: Option<Box<UnreadHistory>>,
    source: ScreenSource,
    options: ScreenOptions,
    called: Option<crate::engine::ids::GateId>,
    /// The channel `news` has closed: no record follows.
    over: bool,
    stay: ExitCondition,
    commands: CommandQueue,
    diffs: DiffReader,
    /// Until then, an interrupt was meant for the user's editor.
    deaf_until: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExitCondition {
    AsLongAsWanted,
    UntilTheEnd,
    NoLonger(ScreenExit),
}

/// Shows a session until the user leaves.
pub async fn run(source: ScreenSource, options: ScreenOptions) -> io::Result<ScreenExit> {
    let (keymap, wrong) = options.keys();
    let mode = if source.client.is_some() {
        ScreenMode::Live
    } else {
        ScreenMode::Replay(ReplayPlayer::default())
    };
    let mut model = ScreenModel::new(keymap, options.first_theme(), mode);
    model.link.tie = source.tie;
    (model.look.motion, model.look.signs, model.hint.mode) =
        (options.motion, options.signs, options.hints);
    model.link.demo = source.pace.as_ref().map(|(_, pace)| *pace);
    model.look.zone = local_zone();
    model.stream = SessionStream::in_zone(model.look.zone.clone());
    model.memory = options
        .memory
        .as_deref()
        .map(ScreenMemory::load)
        .unwrap_or_default();
    if let Some(wrong) = wrong {
        model.say(ThemeRole::Warning, wrong);
    }
    model.link.nats = source.nats.as_ref().map(|link| link.borrow().clone());
    let feed = RecordTail::open(&source.journal)?;
    let is_live = matches!(model.link.mode, ScreenMode::Live);
    let history = if is_live {
        UnreadHistory::of(&source.journal, &mut model).map(Box::new)
    } else {
        None
    };
    let commands = CommandQueue::new(source.client.clone());
    let diffs = DiffReader::new(source.journal.clone(), source.files.clone());
    let terminal = ScreenTerminal::open(&options)?;
    model.size = terminal.screen.size()?;
    let mut tui = Tui {
        model,
        terminal,
        feed,
        history,
        source,
        options,
        called: None,
        over: false,
        stay: ExitCondition::AsLongAsWanted,
        commands,
        diffs,
        deaf_until: None,
    };
    tui.load_replay()?;
    let followed = tui.follow().await;
    tui.remember();
    let left = tui.commands.close().await;
    // Close the screen first, so that these messages stay on the terminal.
    drop(tui.terminal);
    for words in left
        .iter()
        .filter_map(|left| left.words(&mut tui.model.drafts.sent))
    {
        let _ = writeln!(io::stderr(), "creel: {}", plain(&words));
    }
    followed?;
    Ok(match tui.stay {
        ExitCondition::NoLonger(exit) => exit,
        ExitCondition::AsLongAsWanted | ExitCondition::UntilTheEnd => ScreenExit::Done,
    })
}

impl Tui {
    async fn follow(&mut self) -> io::Result<()> {
        self.read_records()?;
        // Do not notify about a gate that is already open: the user has just opened the screen and
        // sees it.
        self.called = self.open_gate().map(|gate| gate.id);
        while !self.is_done() {
            self.model.now = session_time();
            for part in self.model.due_changes() {
                self.diffs.ask(part);
            }
            self.draw_if_due()?;
            let tick = self.model.next_tick();
            let frame = self.terminal.next_frame();
            tokio::select! {
                event = next_event(&mut self.terminal.events) => match event {
                    Some(Ok(event)) => self.on_event(event).await?,
                    Some(Err(_)) | None => self.stay = ExitCondition::NoLonger(ScreenExit::Gone),
                },
                news = self.source.news.changed(), if !self.over => self.on_news(news.is_err())?,
                Some(live) = self.source.live.recv() => self.on_live(&live)?,
                Some(link) = next_link(&mut self.source.nats) => {
                    self.model.link.nats = Some(link);
                    self.terminal.changed = true;
                }
                () = sleep_until(tick) => self.on_tick()?,
                () = until_frame(frame) => {}
                // Ready at once: between two parts of the history, the other branches have their
                // turn.
                () = std::future::ready(()), if self.history.is_some() => self.read_history()?,
                msg = self.commands.answer() => {
                    self.terminal.changed = true;
                    self.take(msg).await?;
                }
                msg = self.diffs.answer() => {
                    self.terminal.changed = true;
                    self.take(msg).await?;
                }
                signal = self.terminal.signals.next() => {
                    if signal != Signal::INT || self.deaf_until.is_none_or(|until| Instant::now() >= until) {
                        self.stop_session().await;
                        self.stay = ExitCondition::NoLonger(ScreenExit::Gone);
                    }
                }
                () = self.terminal.stop_signal.next() => {
                    if self.terminal.stops() {
                        self.suspend()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether there is nothing more to show. If the session died without an end record, the screen
    /// closes so that the caller can print why.
    fn is_done(&self) -> bool {
        let ended = || {
            self.model
                .session
                .as_ref()
                .is_some_and(|state| state.phase.outcome().is_some())
        };
        match self.stay {
            ExitCondition::AsLongAsWanted => self.over && self.history.is_none() && !ended(),
            ExitCondition::UntilTheEnd => self.over,
            ExitCondition::NoLonger(_) => true,
        }
    }

    fn draw_if_due(&mut self) -> io::Result<()> {
        if !self.terminal.is_frame_due() {
            return Ok(());
        }
        self.model.look_after_the_gate();
        self.call_for_the_gate()?;
        self.set_title()?;
        let Self {
            model,
            feed,
            terminal,
            ..
        } = self;
        terminal.draw(|frame| {
            // The terminal may have another size than the last event said.
            view::prepare(model, frame.area(), &|spot| feed.again(spot).ok());
            view::draw(model, frame.area(), frame.buffer_mut());
        })
    }

    /// The terminal's title says what the session does, without times: it changes only with the
    /// state.
    fn set_title(&mut self) -> io::Result<()> {
        let Some(state) = &self.model.session else {
            return Ok(());
        };
        let chip = view::chip(&self.model, state);
        let title =
            plain(&format!("{} {} · {}", chip.sign, state.name, chip.word)).replace('\n', " ");
        self.terminal.screen.set_title(title)
    }

    fn open_gate(&self) -> Option<&crate::engine::gate::Gate> {
        self.model
            .session
            .as_ref()
            .and_then(|session| session.permissions().gate_for_a_person())
    }

    fn call_for_the_gate(&mut self) -> io::Result<()> {
        let gate = self
            .open_gate()
            .map(|gate| (gate.id, format!("creel needs you: {}", gate.reason)));
        let id = gate.as_ref().map(|(id, _)| *id);
        if id == self.called {
            return Ok(());
        }
        self.called = id;
        let live = matches!(self.model.link.mode, ScreenMode::Live);
        match (gate, &self.options.notify) {
            (Some((_, text)), Some(notifier))
                if live && self.model.terminal_focus != TerminalFocus::Here =>
            {
                self.terminal.screen.call(notifier, &text)
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    async fn on_event(&mut self, event: Event) -> io::Result<()> {
        self.terminal.changed = true;
        // A gate checks when the key was pressed, not when the last frame was drawn.
        self.model.now = session_time();
        let msg = match event {
            Event::Key(key) => return self.on_keys(key).await,
            Event::Mouse(mouse) => ScreenEvent::Mouse(mouse),
            Event::Paste(text) => ScreenEvent::Paste(text),
            Event::Resize(width, height) => ScreenEvent::Resize(width, height),
            Event::FocusGained => ScreenEvent::Focus(true),
            Event::FocusLost => ScreenEvent::Focus(false),
        };
        self.take(msg).await
    }

    /// A key that may be part of the terminal's answer.
    async fn on_keys(&mut self, key: KeyEvent) -> io::Result<()> {
        match self.terminal.filter(key) {
            TerminalKeys::Keys(keys) => {
                for key in keys {
                    self.take(ScreenEvent::Key(key)).await?;
                }
            }
            TerminalKeys::Background(colour) => {
                self.model.look.theme = ScreenTheme::on_background(colour);
                self.model.stream.forget_rows();
            }
        }
        Ok(())
    }

    async fn take(&mut self, msg: ScreenEvent) -> io::Result<()> {
        let mut requests: std::collections::VecDeque<ScreenRequest> = self.updated(msg).into();
        while let Some(request) = requests.pop_front() {
            if let Some(msg) = self.perform(request).await? {
                requests.extend(self.updated(msg));
            }
        }
        Ok(())
    }

    fn updated(&mut self, msg: ScreenEvent) -> Vec<ScreenRequest> {
        let Self { model, feed, .. } = self;
        update(model, msg, &|spot: RecordSpan| feed.again(spot).ok())
    }

    async fn perform(&mut self, request: ScreenRequest) -> io::Result<Option<ScreenEvent>> {
        match request {
            ScreenRequest::Command(command) => self.commands.send(vec![command]),
            ScreenRequest::InOrder(commands) => self.commands.send(commands),
            ScreenRequest::Leave => self.stay = ExitCondition::NoLonger(ScreenExit::Done),
            ScreenRequest::LeaveRunning => {
                self.stay = ExitCondition::NoLonger(ScreenExit::LeavesItRunning);
            }
            ScreenRequest::LeaveAtOnce => self.stay = ExitCondition::NoLonger(ScreenExit::AtOnce),
            ScreenRequest::LeaveAtTheEnd => self.stay = ExitCondition::UntilTheEnd,
            ScreenRequest::Copy(text) => self.terminal.screen.copy(&text)?,
            ScreenRequest::EditOutside(what, text) => {
                return self.edit_outside(what, text).await;
            }
            ScreenRequest::Suspend => self.suspend()?,
            ScreenRequest::Redraw => self.terminal.screen.redraw(),
            ScreenRequest::Remember => self.remember(),
            ScreenRequest::SetPace(pace) => self.set_pace(pace),
            ScreenRequest::ReadOutput(output) => {
                let folder = self.source.journal.parent().unwrap_or(Path::new("."));
                return Ok(Some(ScreenEvent::Read(output.viewer(folder))));
            }
            ScreenRequest::ReadDiff(part) => self.diffs.ask(part),
            ScreenRequest::Seek(target) => self.seek(target)?,
        }
        Ok(None)
    }

    /// Saves what lasts longer than this screen. Without it the next screen has the defaults, so
    /// errors are only logged.
    fn remember(&self) {
        let Some(file) = &self.options.memory else {
            return;
        };
        if let Err(error) = self.model.memory.save(file) {
            tracing::warn!("cannot save {}: {error}", file.display());
        }
    }

    /// A demo whose pace cannot be changed plays on.
    fn set_pace(&self, pace: PlaybackPace) {
        let Some((file, _)) = &self.source.pace else {
            return;
        };
        if let Err(error) = file.write(pace) {
            tracing::warn!("cannot change the demo's pace: {error}");
        }
    }

    /// Hands the terminal to the user's editor until it exits.
    async fn edit_outside(
        &mut self,
        what: OutsideText,
        before: String,
    ) -> io::Result<Option<ScreenEvent>> {
        let sheet = match EditorFile::new(&before) {
            Ok(sheet) => sheet,
            Err(why) => return Ok(Some(ScreenEvent::Failed(why.to_string()))),
        };
        self.lend();
        let (ended, signal) = sheet
            .edited(&mut self.terminal.signals, &mut self.terminal.stop_signal)
            .await;
        let became = sheet.read(ended);
        if signal.is_some() {
            // Leave the terminal alone: it may be gone.
            let why = became.map_or_else(|why| why.to_string(), |_| sheet.kept(self.what_ends()));
            let _ = writeln!(io::stderr(), "creel: {}", plain(&why));
            self.stop_session().await;
            self.stay = ExitCondition::NoLonger(ScreenExit::Gone);
            return Ok(None);
        }
        self.take_back()?;
        self.deaf_until = Some(Instant::now() + ECHO);
        self.terminal.returned();
        Ok(Some(match became {
            Ok(text) => {
                // creel has the text now: a refused command brings it back on the screen.
                sheet.remove();
                ScreenEvent::Edited { what, before, text }
            }
            Err(why) => ScreenEvent::Failed(why.to_string()),
        }))
    }

    /// Hands the terminal to another program.
    fn lend(&mut self) {
        // The event stream's thread would read keys that are meant for the other program.
        self.terminal.events = None;
        self.terminal.screen.lend();
    }

    fn take_back(&mut self) -> io::Result<()> {
        self.terminal.events = Some(event_stream());
        self.terminal.screen.take_back()?;
        self.look_at_size()
    }

    /// A background program gets no event for a resize.
    fn look_at_size(&mut self) -> io::Result<()> {
        self.model.resized(self.terminal.screen.size()?);
        Ok(())
    }

    fn suspend(&mut self) -> io::Result<()> {
        let result = self.terminal.suspend()?;
        self.look_at_size()?;
        if result == SuspendResult::NotPossible {
            self.model.say(
                ThemeRole::Warning,
                "cannot suspend creel here: no shell could resume it",
            );
        }
        Ok(())
    }

    /// What ends together with the screen, for the message to the user.
    const fn what_ends(&self) -> &'static str {
        match &self.source.client {
            Some(SessionAddress::Here(_)) => "the session has ended",
            Some(SessionAddress::Socket(_) | SessionAddress::Nats(_)) | None => {
                "creel closed the screen"
            }
        }
    }

    /// Stops a session that runs in this process. Any other session continues.
    async fn stop_session(&mut self) {
        if let Some(SessionAddress::Here(handle)) = &self.source.client {
            let _ = handle
                .command(
                    ActorKind::Cli,
                    SessionCommand::Stop {
                        how: StopTiming::Now,
                    },
                )
                .await;
        }
    }
}

/// Waits until the NATS status changes.
async fn next_link(link: &mut Option<watch::Receiver<NatsStatus>>) -> Option<NatsStatus> {
    let changed = match link {
        Some(link) => link.changed().await,
        None => std::future::pending().await,
    };
    if changed.is_err() {
        // The connection has ended; the last status stays on the screen.
        *link = None;
    }
    link.as_mut().map(|link| link.borrow_and_update().clone())
}
