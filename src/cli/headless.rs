//! A session without a screen: lines for people, records for programs, and what Ctrl-C does.

use std::{
    io::{self, Write as _},
    time::{Duration, Instant},
};

use tokio::sync::{mpsc, watch};

use crate::{
    cli::record_formatter::{HookOutputMode, RecordFormatter},
    engine::{
        event::{ActorKind, Event, StopTiming},
        input::SessionCommand,
    },
    journal::RecordTail,
    present::{style::ColourMode, text::without_c1},
    process::signals::ShutdownSignals,
    runtime::{HookOutputChunk, SessionHandle, session_processes::SessionProcesses},
    socket::address::SocketLocation,
};

/// How much output of hooks may wait to be printed before some of it is passed over.
const LIVE_BACKLOG: usize = 256;
/// How long a signal may be heard again without being meant again: where a whole process group is told, each of its
/// processes may pass it on to the others.
const ECHO: Duration = Duration::from_millis(500);

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrintFormat {
    /// Lines that a person reads.
    Lines,
    /// The records.
    Json,
}

/// Prints a session as it happens. Ends when the session does.
///
/// It reads the journal only as fast as its output is read, so a reader that stops for an hour costs no memory.
pub struct SessionPrinter {
    live: mpsc::Receiver<HookOutputChunk>,
    format: PrintFormat,
    narrator: RecordFormatter,
}

impl SessionPrinter {
    /// A printer, and where the output of hooks goes.
    pub fn new(format: PrintFormat) -> (Self, mpsc::Sender<HookOutputChunk>) {
        let (live_in, live) = mpsc::channel(LIVE_BACKLOG);
        let narrator = RecordFormatter::new(ColourMode::for_stream(&io::stdout()), HookOutputMode::Shown);
        (Self { live, format, narrator }, live_in)
    }

    /// Knows what happened before, so that what was used is told in full.
    pub fn catch_up(&mut self, event: &Event) {
        self.narrator.follow(event);
    }

    /// Prints until the session is over, in a thread of its own: whoever reads may stop reading for a while, and that
    /// must hold neither hooks nor signals.
    pub fn start(self, records: RecordTail, news: watch::Receiver<u64>) -> io::Result<std::thread::JoinHandle<()>> {
        let tokio = tokio::runtime::Builder::new_current_thread().build()?;
        Ok(std::thread::spawn(move || {
            if let Err(error) = tokio.block_on(self.print(records, news)) {
                // The output can no longer be written. The session continues, and its journal has the rest.
                tracing::info!("printing stopped: {error}");
            }
        }))
    }

    async fn print(mut self, mut records: RecordTail, mut news: watch::Receiver<u64>) -> io::Result<()> {
        let mut is_over = false;
        loop {
            self.print_all(&mut records)?;
            if is_over {
                return Ok(());
            }
            tokio::select! {
                Some(live) = self.live.recv() => put(&self.narrator.overhear(&live))?,
                // Records that were written before the end must still be printed.
                written = news.changed() => is_over = written.is_err(),
            }
        }
    }

    /// Prints everything that is available. Hook output comes first, because the records of the hooks' ends follow it.
    fn print_all(&mut self, records: &mut RecordTail) -> io::Result<()> {
        loop {
            while let Ok(live) = self.live.try_recv() {
                put(&self.narrator.overhear(&live))?;
            }
            let text = match self.format {
                PrintFormat::Lines => records.next_record()?.map(|record| self.narrator.tell(&record)),
                PrintFormat::Json => records.next_line()?.map(str::to_owned),
            };
            match text {
                Some(text) => put(&text)?,
                None => return Ok(()),
            }
        }
    }
}

/// Writes to standard output at once.
pub fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(without_c1(text).as_bytes())?;
    out.flush()
}

/// What is left to do where there is no time for an orderly end.
#[derive(Debug, Clone)]
pub struct ExitCleanup {
    /// The processes of the session.
    pub children: SessionProcesses,
    /// Where it can be reached.
    pub address: Option<SocketLocation>,
}

impl ExitCleanup {
    /// Cleans up, and ends the program.
    pub fn take(&self) -> ! {
        self.clear();
        std::process::exit(130);
    }

    /// Leaves nothing behind.
    pub fn clear(&self) {
        self.children.kill_now();
        if let Some(address) = &self.address {
            address.remove();
        }
    }
}

/// Listens for Ctrl-C and its like: the first ends the session in order, the second leaves at once.
pub fn obey_signals(handle: SessionHandle, way_out: ExitCleanup) -> io::Result<()> {
    let mut signals = ShutdownSignals::listen()?;
    tokio::spawn(async move {
        signals.next().await;
        // It may be stopping already, or be over: then there is nothing to ask for.
        let _ = handle.command(ActorKind::Cli, SessionCommand::Stop(StopTiming::Now)).await;
        signals.next().await;
        way_out.take();
    });
    Ok(())
}

/// Leaves at once at the next signal: the session was told to stop before, perhaps by one that has an echo.
pub fn leave_at_a_signal(way_out: ExitCleanup) -> io::Result<()> {
    let mut signals = ShutdownSignals::listen()?;
    let silence = Instant::now() + ECHO;
    tokio::spawn(async move {
        while Instant::now() < silence {
            signals.next().await;
        }
        way_out.take();
    });
    Ok(())
}
