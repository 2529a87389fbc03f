//! A session without a screen: lines for people, records for programs, and what Ctrl-C does.

use std::{
    io::{self, Write as _},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use super::{
    narrate::{HookOutput, Narrator},
    paint::Paint,
    socket::address::Address,
    text::without_c1,
};
use crate::{
    engine::{
        event::{By, Event, StopHow},
        input::Command,
    },
    journal::Record,
    runtime::{Handle, Live, shutdown::Children},
};

/// How much output of hooks may wait to be printed before some of it is passed over.
const LIVE_BACKLOG: usize = 256;
/// How long a signal may be heard again without being meant again: where a whole process group is told, each of its
/// processes may pass it on to the others.
const ECHO: Duration = Duration::from_millis(500);

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Lines that a person reads.
    Lines,
    /// The records.
    Json,
}

/// Prints a session as it happens. Ends when the session does.
pub struct Printer {
    records: mpsc::UnboundedReceiver<Arc<Record>>,
    live: mpsc::Receiver<Live>,
    format: Format,
    narrator: Narrator,
}

/// The ends that the runtime writes to.
pub struct Feeds {
    /// All records.
    pub records: mpsc::UnboundedSender<Arc<Record>>,
    /// The output of hooks.
    pub live: mpsc::Sender<Live>,
}

impl Printer {
    /// A printer, and what to feed it by.
    pub fn new(format: Format) -> (Self, Feeds) {
        let (records_in, records) = mpsc::unbounded_channel();
        let (live_in, live) = mpsc::channel(LIVE_BACKLOG);
        let narrator = Narrator::new(Paint::for_stream(&io::stdout()), HookOutput::Shown);
        (Self { records, live, format, narrator }, Feeds { records: records_in, live: live_in })
    }

    /// Knows what happened before, so that what was used is told in full.
    pub fn catch_up(&mut self, event: &Event) {
        self.narrator.follow(event);
    }

    /// Prints until the session is over, in a thread of its own: whoever reads may stop reading for a while, and that
    /// must hold neither hooks nor signals.
    pub fn start(self) -> io::Result<std::thread::JoinHandle<()>> {
        let tokio = tokio::runtime::Builder::new_current_thread().build()?;
        Ok(std::thread::spawn(move || tokio.block_on(self.print())))
    }

    async fn print(mut self) {
        loop {
            let text = tokio::select! {
                biased;
                Some(live) = self.live.recv() => match self.format {
                    Format::Lines => self.narrator.overhear(&live),
                    Format::Json => continue,
                },
                record = self.records.recv() => match record {
                    Some(record) => match self.format {
                        Format::Lines => self.narrator.tell(&record),
                        Format::Json => record.to_line(),
                    },
                    None => break,
                },
            };
            if put(&text).is_err() {
                // Nobody reads any more; the session goes on, and its journal tells the rest.
                break;
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
pub struct WayOut {
    /// The processes of the session.
    pub children: Children,
    /// Where it can be reached.
    pub address: Option<Address>,
}

impl WayOut {
    fn take(&self) -> ! {
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
pub fn obey_signals(handle: Handle, way_out: WayOut) -> io::Result<()> {
    let mut signals = Signals::listen()?;
    tokio::spawn(async move {
        signals.next().await;
        // It may be stopping already, or be over: then there is nothing to ask for.
        let _ = handle.command(By::Cli, Command::Stop(StopHow::Now)).await;
        signals.next().await;
        way_out.take();
    });
    Ok(())
}

/// Leaves at once at the next signal: the session was told to stop before, perhaps by one that has an echo.
pub fn leave_at_a_signal(way_out: WayOut) -> io::Result<()> {
    let mut signals = Signals::listen()?;
    let silence = Instant::now() + ECHO;
    tokio::spawn(async move {
        while Instant::now() < silence {
            signals.next().await;
        }
        way_out.take();
    });
    Ok(())
}

/// INT, TERM and HUP, which mean the same here.
pub struct Signals {
    int: tokio::signal::unix::Signal,
    term: tokio::signal::unix::Signal,
    /// None under `nohup`, which asks to go on without the terminal.
    hup: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    /// From now on these signals do not end the program by themselves.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            int: signal(SignalKind::interrupt())?,
            term: signal(SignalKind::terminate())?,
            hup: if hangup_is_ignored() { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    /// Waits for the next one, and tells which it was.
    pub async fn next(&mut self) -> Signal {
        let hangup = async {
            match &mut self.hup {
                Some(hup) => hup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.int.recv() => Signal::INT,
            _ = self.term.recv() => Signal::TERM,
            _ = hangup => Signal::HUP,
        }
    }
}

/// Whether creel was started with HUP ignored, as `nohup` does. Only Linux tells; elsewhere HUP means what it says.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
