//! Receives the output of running hooks of a session on another machine.
//!
//! # Invariants
//! - The output of a run is shown only after the record of its start, since output and records
//!   arrive on different subjects.
//! - A viewer whose login does not allow this still receives everything else.

use std::{collections::VecDeque, time::Duration};

use async_nats::{Client, HeaderMap, Message, Subscriber};
use tokio::{
    sync::mpsc,
    time::{Interval, MissedTickBehavior, interval},
};

use super::subject::{SESSION, SessionSubjects};
use crate::{
    engine::ids::RunId,
    nats::{command_listener::next, stream::header},
    protocol::{ClientKind, LiveMessage, WatchRequest, request_line},
    runtime::HookOutputChunk,
};

/// How often a viewer reports that it watches: before the session stops publishing.
const SO_OFTEN: Duration = Duration::from_secs(10);
/// How many chunks wait for the record of their run. Older ones are dropped.
const EARLY: usize = 64;

pub(super) struct LiveOutputReceiver {
    client: Client,
    subjects: SessionSubjects,
    id: String,
    /// `None` if the server does not allow the subscription.
    pieces: Option<Subscriber>,
    again: Interval,
    early: EarlyOutput,
    screen: mpsc::Sender<HookOutputChunk>,
}

impl LiveOutputReceiver {
    pub(super) async fn begin(
        client: Client,
        subjects: SessionSubjects,
        id: String,
        screen: mpsc::Sender<HookOutputChunk>,
    ) -> Self {
        let pieces = client.subscribe(subjects.live()).await.ok();
        let mut again = interval(SO_OFTEN);
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            client,
            subjects,
            id,
            pieces,
            again,
            early: EarlyOutput::default(),
            screen,
        }
    }

    /// Reports at once after a reconnect: the session may not know that a viewer watches.
    pub(super) fn connected(&mut self) {
        self.again.reset_immediately();
    }

    /// Whether the server refused this subscription. Then the receiver stops.
    pub(super) fn is_refused(&mut self, why: &str) -> bool {
        let refused = self.subjects.live_is_meant(why);
        if refused {
            tracing::info!("nats: cannot receive the live output of hooks: {why}");
            self.pieces = None;
        }
        refused
    }

    /// Waits for the next chunk, or until it is time to report that a viewer watches.
    pub(super) async fn hear(&mut self, begun: RunId) {
        let Some(pieces) = &mut self.pieces else {
            return std::future::pending().await;
        };
        tokio::select! {
            message = next(pieces) => match message {
                Some(message) => self.take(&message, begun),
                None => self.pieces = None,
            },
            _ = self.again.tick() => self.say_so().await,
        }
    }

    async fn say_so(&self) {
        let mut headers = HeaderMap::new();
        headers.insert(SESSION, self.id.as_str());
        let line = request_line(
            ClientKind::Tui,
            &WatchRequest {
                from: None,
                live: true,
            }
            .into(),
            None,
        );
        let _ = self
            .client
            .publish_with_headers(self.subjects.watch(), headers, line.into())
            .await;
    }

    fn take(&mut self, message: &Message, begun: RunId) {
        let from = message
            .headers
            .as_ref()
            .and_then(|headers| header(headers, SESSION));
        let Ok(Some(LiveMessage::Live(piece))) = LiveMessage::read(&message.payload) else {
            return;
        };
        if from != Some(self.id.as_str()) {
            return;
        }
        self.early.add(piece.into());
        self.pass_on(begun);
    }

    /// Passes on the output of all runs up to `begun`.
    pub(super) fn pass_on(&mut self, begun: RunId) {
        for piece in self.early.take(begun) {
            // If the screen is too slow, chunks are dropped.
            let _ = self.screen.try_send(piece);
        }
    }
}

/// Output of runs whose start may not be recorded yet.
#[derive(Default)]
struct EarlyOutput(VecDeque<HookOutputChunk>);

impl EarlyOutput {
    fn add(&mut self, piece: HookOutputChunk) {
        self.0.push_back(piece);
        if self.0.len() > EARLY {
            self.0.pop_front();
        }
    }

    /// The output of all runs up to `begun`.
    fn take(&mut self, begun: RunId) -> VecDeque<HookOutputChunk> {
        let (ready, early) = self.0.drain(..).partition(|piece| piece.run <= begun);
        self.0 = early;
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::run::OutputStream;

    #[test]
    fn what_a_run_printed_waits_for_the_record_that_it_began_and_not_without_limit() {
        let mut early = EarlyOutput::default();
        let piece = |run, at| HookOutputChunk {
            run: RunId(run),
            stream: OutputStream::Stdout,
            at,
            bytes: vec![b'x'],
            gap: false,
        };
        for (run, at) in [(3, 0), (2, 0), (3, 1)] {
            early.add(piece(run, at));
        }
        let mut taken = |begun| {
            early
                .take(RunId(begun))
                .iter()
                .map(|piece| (piece.run.0, piece.at))
                .collect::<Vec<_>>()
        };
        assert_eq!((taken(1), taken(2)), (vec![], vec![(2, 0)]));
        assert_eq!((taken(3), taken(4)), (vec![(3, 0), (3, 1)], vec![]));
        for at in 0..1000 {
            early.add(piece(9, at));
        }
        assert_eq!(
            early
                .take(RunId(9))
                .iter()
                .map(|piece| piece.at)
                .collect::<Vec<_>>(),
            (936..1000).collect::<Vec<_>>()
        );
    }
}
