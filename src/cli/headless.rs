//! A session without a screen: prints lines or records, and handles Ctrl-C.

use std::{
    io,
    time::{Duration, Instant},
};

use tokio::sync::{mpsc, watch};

use crate::{
    cli::{
        error::put,
        record_formatter::{HookOutputMode, RecordFormatter},
    },
    engine::{
        SessionState,
        event::{ActorKind, StopTiming},
        input::SessionCommand,
    },
    journal::RecordTail,
    present::style::ColourMode,
    process::signals::ShutdownSignals,
    runtime::{HookOutputChunk, SessionHandle, handle::SessionProcesses},
    socket::address::SocketLocation,
};

/// How many chunks of hook output can wait to be printed. Further ones are dropped.
const LIVE_BACKLOG: usize = 256;
/// How long the same signal can arrive again without counting again: processes of a group may
/// forward it to each other.
const ECHO: Duration = Duration::from_millis(500);

/// How long the line of a tool call waits for its real title.
const TITLE_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrintFormat {
    /// Lines for people.
    Lines,
    /// The records of the journal, for programs.
    Json,
}

/// Prints a session as it happens. Ends with the session.
///
/// It reads the journal only as fast as its output is read, so a reader that stops for an hour
/// costs no memory.
pub struct SessionPrinter {
    live: mpsc::Receiver<HookOutputChunk>,
    format: PrintFormat,
    narrator: RecordFormatter,
}

impl SessionPrinter {
    /// A printer, and the channel for hook output.
    pub fn new(format: PrintFormat) -> (Self, mpsc::Sender<HookOutputChunk>) {
        let (live_in, live) = mpsc::channel(LIVE_BACKLOG);
        let narrator =
            RecordFormatter::new(ColourMode::for_stream(&io::stdout()), HookOutputMode::Shown);
        (
            Self {
                live,
                format,
                narrator,
            },
            live_in,
        )
    }

    /// Continues after earlier records, so that usage totals are complete.
    pub fn continue_after(&mut self, state: &SessionState) {
        self.narrator.continue_after(state);
    }

    /// Prints until the session has ended, in a thread of its own: a reader that stops reading must
    /// block neither hooks nor signals.
    pub fn start(
        self,
        records: RecordTail,
        news: watch::Receiver<u64>,
    ) -> io::Result<std::thread::JoinHandle<()>> {
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        Ok(std::thread::spawn(move || {
            if let Err(error) = tokio.block_on(self.print(records, news)) {
                // The output can no longer be written. The session continues, and its journal has
                // the rest.
                tracing::info!("printing stopped: {error}");
            }
        }))
    }

    async fn print(
        mut self,
        mut records: RecordTail,
        mut news: watch::Receiver<u64>,
    ) -> io::Result<()> {
        let mut is_over = false;
        loop {
            self.print_all(&mut records)?;
            if is_over {
                return put(&self.narrator.rest());
            }
            tokio::select! {
                () = tokio::time::sleep(TITLE_WAIT), if self.narrator.holds() => {
                    put(&self.narrator.rest())?;
                }
                Some(live) = self.live.recv() => put(&self.narrator.overhear(&live))?,
                // Records that were written before the end must still be printed.
                written = news.changed() => is_over = written.is_err(),
            }
        }
    }

    /// Prints everything that is available. Hook output comes first, because the records of the
    /// hooks' ends follow it.
    fn print_all(&mut self, records: &mut RecordTail) -> io::Result<()> {
        loop {
            while let Ok(live) = self.live.try_recv() {
                put(&self.narrator.overhear(&live))?;
            }
            let text = match self.format {
                PrintFormat::Lines => records
                    .next_record()?
                    .map(|record| self.narrator.tell(&record)),
                PrintFormat::Json => records.next_line()?.map(str::to_owned),
            };
            match text {
                Some(text) => put(&text)?,
                None => return Ok(()),
            }
        }
    }
}

/// What to clean up when there is no time for an orderly end.
#[derive(Debug, Clone)]
pub struct ExitCleanup {
    pub children: SessionProcesses,
    /// The control socket.
    pub address: Option<SocketLocation>,
}

impl ExitCleanup {
    /// Cleans up, and exits.
    pub fn take(&self) -> ! {
        self.clear();
        std::process::exit(130);
    }

    /// Kills the session's processes and removes its socket.
    pub fn clear(&self) {
        self.children.kill_now();
        if let Some(address) = &self.address {
            address.remove();
        }
    }
}

/// Handles Ctrl-C and similar signals: the first stops the session in order, the second exits at
/// once.
pub fn obey_signals(handle: SessionHandle, way_out: ExitCleanup) -> io::Result<()> {
    let mut signals = ShutdownSignals::listen()?;
    tokio::spawn(async move {
        signals.next().await;
        // This fails if the session is already stopping or has ended, which does not matter.
        let _ = handle
            .command(
                ActorKind::Cli,
                SessionCommand::Stop {
                    how: StopTiming::Now,
                },
            )
            .await;
        signals.next().await;
        way_out.take();
    });
    Ok(())
}

/// Exits at the next signal. Ignores signals for a moment, since they can repeat the one that
/// stopped the session.
pub fn leave_at_a_signal(way_out: ExitCleanup) -> io::Result<()> {
    let mut signals = ShutdownSignals::listen()?;
    let silence = Instant::now() + ECHO;
    tokio::spawn(async move {
        // Looks at the clock only after a signal: this can start after the silence.
        loop {
            signals.next().await;
            if Instant::now() >= silence {
                break;
            }
        }
        way_out.take();
    });
    Ok(())
}
