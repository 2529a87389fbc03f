//! The other end of what hooks print while they run: heard from a session on another machine.
//!
//! # Invariants
//! - Nothing is passed on of a run whose record has not come yet: output and records come by different ways.
//! - Who may not hear it sees everything else.

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
    runtime::HookOutputChunk,
    socket::message::{ClientKind, SessionRequest, ask, live_message::LiveMessage},
};

/// How often a session is told that somebody watches: sooner than it forgets.
const SO_OFTEN: Duration = Duration::from_secs(10);
/// How many pieces wait for the record of their run.
const EARLY: usize = 64;

/// Hears what the hooks of a session print.
pub(super) struct LiveOutputReceiver {
    client: Client,
    subjects: SessionSubjects,
    id: String,
    /// Nothing, if the server does not allow it.
    pieces: Option<Subscriber>,
    again: Interval,
    early: EarlyOutput,
    screen: mpsc::Sender<HookOutputChunk>,
}

impl LiveOutputReceiver {
    /// Of the session of that id.
    pub(super) async fn begin(
        client: Client,
        subjects: SessionSubjects,
        id: String,
        screen: mpsc::Sender<HookOutputChunk>,
    ) -> Self {
        let pieces = client.subscribe(subjects.live()).await.ok();
        let mut again = interval(SO_OFTEN);
        again.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { client, subjects, id, pieces, again, early: EarlyOutput::default(), screen }
    }

    /// The connection is a new one: the session may not know that somebody watches.
    pub(super) fn connected(&mut self) {
        self.again.reset_immediately();
    }

    /// Whether it was this that the server refused. Then it is not tried any more.
    pub(super) fn is_refused(&mut self, why: &str) -> bool {
        let refused = self.subjects.live_is_meant(why);
        if refused {
            tracing::info!("nats: the output of running hooks is not shown: {why}");
            self.pieces = None;
        }
        refused
    }

    /// Waits for the next piece, or says that somebody watches.
    pub(super) async fn hear(&mut self, begun: RunId) {
        let Some(pieces) = &mut self.pieces else { return std::future::pending().await };
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
        let line = ask(ClientKind::Tui, &SessionRequest::Watch { from: None, live: true });
        let _ = self.client.publish_with_headers(self.subjects.watch(), headers, line.into()).await;
    }

    fn take(&mut self, message: &Message, begun: RunId) {
        let from = message.headers.as_ref().and_then(|headers| header(headers, SESSION));
        let Ok(Some(LiveMessage::Live(piece))) = LiveMessage::read(&message.payload) else { return };
        if from != Some(self.id.as_str()) {
            return;
        }
        self.early.add(piece.into());
        self.pass_on(begun);
    }

    /// Passes on what the runs up to this one printed.
    pub(super) fn pass_on(&mut self, begun: RunId) {
        for piece in self.early.take(begun) {
            // What the screen is too slow for is dropped.
            let _ = self.screen.try_send(piece);
        }
    }
}

/// What was printed by runs whose record may not have come yet.
#[derive(Default)]
struct EarlyOutput(VecDeque<HookOutputChunk>);

impl EarlyOutput {
    fn add(&mut self, piece: HookOutputChunk) {
        self.0.push_back(piece);
        if self.0.len() > EARLY {
            self.0.pop_front();
        }
    }

    /// What the runs up to this one printed.
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
        let mut taken =
            |begun| early.take(RunId(begun)).iter().map(|piece| (piece.run.0, piece.at)).collect::<Vec<_>>();
        assert_eq!((taken(1), taken(2)), (vec![], vec![(2, 0)]));
        assert_eq!((taken(3), taken(4)), (vec![(3, 0), (3, 1)], vec![]));
        for at in 0..1000 {
            early.add(piece(9, at));
        }
        assert_eq!(
            early.take(RunId(9)).iter().map(|piece| piece.at).collect::<Vec<_>>(),
            (936..1000).collect::<Vec<_>>()
        );
    }
}
