//! What the user asks a worker for on its screen, which is another process.

/// An order for a worker: a line on its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerOrder {
    /// Take no task until it is unpaused.
    Pause,
    Unpause,
    /// End when the queue has no task left.
    Drain,
    /// Take no further task, and end when the sessions that run have ended.
    Finish,
}

impl WorkerOrder {
    const ALL: [Self; 4] = [Self::Pause, Self::Unpause, Self::Drain, Self::Finish];

    pub const fn line(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Unpause => "unpause",
            Self::Drain => "drain",
            Self::Finish => "finish",
        }
    }

    /// None if this creel does not know the order.
    pub fn of_line(line: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.line() == line)
    }
}
