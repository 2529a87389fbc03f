//! The signals that end or stop creel, and those that it must survive.
//!
//! # Invariants
//! - INT, QUIT, TERM and HUP mean the same: end in order, or at once if it is the second signal.
//! - A signal that was ignored when creel started (`nohup`, a background job of a script) stays
//!   ignored. TERM never does: it always asks creel to end.
//! - TSTP stops creel only after the terminal is restored, and only where a shell can resume creel.
//! - Hooks and agents do not ignore a signal because creel was started that way: creel resets each
//!   signal that it handles.

use std::{
    fs, io,
    sync::OnceLock,
    task::{Context, Poll, Waker},
};

use rustix::process::{Signal, kill_current_process_group};
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

use crate::process::process_table::ProcessTable;

pub struct ShutdownSignals {
    /// Without the ignored signals.
    listeners: Vec<(Signal, Listener)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IgnoredSignals {
    /// It gets a handler that does nothing, so that processes that creel starts do not ignore it.
    Handled,
    /// It stays ignored, and the process that creel starts inherits that.
    PassedOn,
}

impl ShutdownSignals {
    /// From now on these signals do not end the program by themselves.
    pub fn listen() -> io::Result<Self> {
        survive_file_limits()?;
        Self::with(IgnoredSignals::Handled)
    }

    /// For a process that only forwards the signals to another creel.
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

    pub async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            let came = self.listeners.iter_mut().find_map(|(signal, listener)| {
                listener.poll_recv(context).is_ready().then_some(*signal)
            });
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Listens for TSTP, which asks creel to stop until a shell resumes it.
pub struct SuspendSignal(Option<Listener>);

impl SuspendSignal {
    /// From now on TSTP does not stop the program by itself.
    pub fn listen() -> io::Result<Self> {
        let wanted = !was_ignored(Signal::TSTP);
        Ok(Self(
            wanted
                .then(|| signal(SignalKind::from_raw(Signal::TSTP.as_raw())))
                .transpose()?,
        ))
    }

    pub async fn next(&mut self) {
        match &mut self.0 {
            Some(listener) => drop(listener.recv().await),
            None => std::future::pending().await,
        }
    }

    /// Discards a signal that arrived already.
    pub fn forget(&mut self) {
        if let Some(listener) = &mut self.0 {
            let _ = listener.poll_recv(&mut Context::from_waker(Waker::noop()));
        }
    }
}

/// Stops this process and its job, and returns after a shell has resumed it. Returns false at once
/// if there is no shell.
pub fn stop_job() -> io::Result<bool> {
    let stops = ProcessTable::of_system().is_under_a_shell();
    if stops {
        kill_current_process_group(Signal::STOP)?;
    }
    Ok(stops)
}

/// Makes a write beyond `ulimit -f` fail with an error instead of ending creel. Needs tokio.
pub fn survive_file_limits() -> io::Result<()> {
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
}

/// Whether a signal was ignored when creel started. Only Linux reports this; elsewhere the answer
/// is always false.
pub fn was_ignored(signal: Signal) -> bool {
    static MASK: OnceLock<u64> = OnceLock::new();
    // Read once, before the first handler replaces the inherited setting.
    let mask = MASK.get_or_init(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        ignored
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .unwrap_or(0)
    });
    mask & (1 << (signal.as_raw() - 1)) != 0
}
