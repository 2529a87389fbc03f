//! The signals that end creel, those that it must survive, and those that it leaves to others.
//!
//! # Invariants
//! - INT, QUIT, TERM and HUP mean the same: end in order, or at once if one came before.
//! - A signal that was ignored when creel started (`nohup`, a background job of a script) stays without effect. TERM never
//!   does: it is how creel is asked to end.
//! - TSTP stops creel only once the terminal is as it was, and only where a shell can bring creel back.
//! - Hooks and agents do not ignore a signal because creel was started that way: creel resets each signal that it
//!   handles.

use std::{
    fs, io,
    sync::OnceLock,
    task::{Context, Poll, Waker},
};

use rustix::process::{Signal, kill_current_process_group};
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

use crate::process::process_table::ProcessTable;

/// Listens for the signals that ask creel to end.
pub struct ShutdownSignals {
    /// Without those that are ignored.
    listeners: Vec<(Signal, Listener)>,
}

/// What happens to a signal that was ignored when creel started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IgnoredSignals {
    /// It gets a handler that does nothing, so that processes that creel starts do not ignore it.
    Handled,
    /// It stays as it is, for the process that creel starts to find out.
    PassedOn,
}

impl ShutdownSignals {
    /// From now on these signals do not end the program by themselves.
    pub fn listen() -> io::Result<Self> {
        survive_file_limits()?;
        Self::with(IgnoredSignals::Handled)
    }

    /// The same for a process that only passes them on to another creel.
    pub fn listen_to_pass_on() -> io::Result<Self> {
        Self::with(IgnoredSignals::PassedOn)
    }

    fn with(ignored: IgnoredSignals) -> io::Result<Self> {
        let mut listeners = Vec::new();
        for wanted in [Signal::INT, Signal::QUIT, Signal::TERM, Signal::HUP] {
            let is_ignored = wanted != Signal::TERM && was_ignored(wanted);
            if is_ignored && ignored == IgnoredSignals::PassedOn {
                continue;
            }
            let listener = signal(SignalKind::from_raw(wanted.as_raw()))?;
            if !is_ignored {
                listeners.push((wanted, listener));
            }
        }
        Ok(Self { listeners })
    }

    /// Waits for the next one, and returns which it was.
    pub async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            let came = self
                .listeners
                .iter_mut()
                .find_map(|(signal, listener)| listener.poll_recv(context).is_ready().then_some(*signal));
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Listens for TSTP, which asks creel to stop until a shell brings it back.
pub struct SuspendSignal(Option<Listener>);

impl SuspendSignal {
    /// From now on TSTP does not stop the program by itself.
    pub fn listen() -> io::Result<Self> {
        let wanted = !was_ignored(Signal::TSTP);
        Ok(Self(wanted.then(|| signal(SignalKind::from_raw(Signal::TSTP.as_raw()))).transpose()?))
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        match &mut self.0 {
            Some(listener) => drop(listener.recv().await),
            None => std::future::pending().await,
        }
    }

    /// Forgets one that came already.
    pub fn forget(&mut self) {
        if let Some(listener) = &mut self.0 {
            let _ = listener.poll_recv(&mut Context::from_waker(Waker::noop()));
        }
    }
}

/// Stops this process and its job, and returns when a shell has brought it back. Returns whether there is a shell.
pub fn stop_job() -> io::Result<bool> {
    let stops = ProcessTable::of_system().is_under_a_shell();
    if stops {
        kill_current_process_group(Signal::STOP)?;
    }
    Ok(stops)
}

/// A write beyond `ulimit -f` fails like any other, instead of ending creel. Needs tokio.
pub fn survive_file_limits() -> io::Result<()> {
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
}

/// Whether a signal was ignored when creel started. Only Linux reports this; elsewhere every signal has its usual
/// effect.
pub fn was_ignored(signal: Signal) -> bool {
    static MASK: OnceLock<u64> = OnceLock::new();
    // Read once, before the first handler takes the place of what was inherited.
    let mask = MASK.get_or_init(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    });
    mask & (1 << (signal.as_raw() - 1)) != 0
}
