//! The output of running hooks, for viewers on other machines.
//!
//! Live output is not a record: the server does not store it. A viewer regularly reports that it
//! watches; after each report the session publishes what the running hooks have printed so far.
//! Each chunk has its position in the output of its run, so a viewer shows no part twice.
//!
//! # Invariants
//! - A session without viewers publishes nothing.
//! - Neither the session nor its records wait for live output: creel publishes a little at a time,
//!   and if hooks print faster, only the end of their output. A failure here has no effect on the
//!   session.
//! - A viewer shows the output of a run only after the record of its start, since output and
//!   records arrive on different subjects. If its login does not allow live output, it still
//!   receives everything else.

use std::{collections::VecDeque, path::Path, time::Duration};

use async_nats::{Client, HeaderMap, Message, Subscriber};
use tokio::{
    sync::{
        broadcast::{self, error::RecvError},
        mpsc,
    },
    time::{Instant, Interval, MissedTickBehavior, interval, sleep_until},
};

use crate::{
    engine::ids::RunId,
    nats::{
        commands::next,
        stream::header,
        subject::{SESSION, SessionSubjects},
    },
    process::run::OutputStream,
    protocol::{
        ClientKind, LiveMessage, ReplyData, SessionQuery, SessionRequest, WatchRequest,
        read_request, request_line,
    },
    runtime::HookOutputChunk,
    socket::session_mirror::{self, QueryHandle, SHOWN},
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

/// How long a session publishes after a viewer's report.
const WATCHED: Duration = Duration::from_mins(1);
/// The shortest time between two publications.
const PACE: Duration = Duration::from_millis(100);
/// How many chunks can wait. Older ones are dropped.
const PIECES: usize = 128;
/// The most bytes that one byte can become in JSON.
const ESCAPED: usize = 6;
/// The bytes of a message besides the text.
const ENVELOPE: usize = 512;

pub(super) struct LiveOutputPublisher<'a> {
    pub(super) client: &'a Client,
    pub(super) subjects: &'a SessionSubjects,
    pub(super) id: &'a str,
    pub(super) query_handle: &'a QueryHandle,
    pub(super) live: &'a broadcast::Sender<HookOutputChunk>,
    pub(super) folder: &'a Path,
    /// The size limit of a message, in bytes.
    pub(super) largest: usize,
}

impl LiveOutputPublisher<'_> {
    /// Publishes while viewers watch, until the caller drops the future. The next connection
    /// continues with `until`.
    pub(super) async fn show(&self, until: &mut Instant) {
        if let Ok(mut watchers) = self.client.subscribe(self.subjects.watch()).await {
            loop {
                if Instant::now() < *until {
                    self.while_watched(&mut watchers, until).await;
                }
                match next(&mut watchers).await {
                    Some(asked) if self.is_meant_by(&asked) => *until = Instant::now() + WATCHED,
                    Some(_) => {}
                    None => break,
                }
            }
        }
        std::future::pending::<()>().await;
    }

    async fn while_watched(&self, watchers: &mut Subscriber, until: &mut Instant) {
        let mut pieces = self.live.subscribe();
        let mut waiting = UnsentOutput::default();
        let mut due = Instant::now();
        // A new viewer does not know what was printed before.
        let mut newcomers = true;
        loop {
            tokio::select! {
                asked = next(watchers) => match asked {
                    Some(asked) if self.is_meant_by(&asked) => (*until, newcomers) = (Instant::now() + WATCHED, true),
                    Some(_) => {}
                    None => return,
                },
                piece = pieces.recv() => match piece {
                    Ok(piece) => waiting.add(piece),
                    Err(RecvError::Lagged(_)) => waiting.missed = true,
                    Err(RecvError::Closed) => return,
                },
                () = sleep_until(due), if newcomers || !waiting.is_empty() => {
                    if std::mem::take(&mut newcomers) {
                        self.look_back(&mut waiting).await;
                    }
                    self.publish(&mut waiting).await;
                    due = Instant::now() + PACE;
                }
                () = sleep_until(*until) => return,
            }
        }
    }

    /// Whether a request asks this session for live output. Two sessions can have the same name, so
    /// a request names an id.
    fn is_meant_by(&self, asked: &Message) -> bool {
        let meant = asked
            .headers
            .as_ref()
            .and_then(|headers| header(headers, SESSION));
        let watches = || {
            matches!(
                read_request(&asked.payload),
                Ok((_, SessionRequest::Watch(WatchRequest { live: true, .. })))
            )
        };
        meant.is_none_or(|id| id == self.id) && watches()
    }

    /// Adds what the running hooks have printed so far.
    async fn look_back(&self, waiting: &mut UnsentOutput) {
        let Some(ReplyData::Status(status)) =
            self.query_handle.ask(SessionQuery::Status).await.data
        else {
            return;
        };
        for run in status.running {
            let (printed, end) = session_mirror::end(&self.folder.join(run.output_file()));
            let at = printed.saturating_sub(end.len() as u64);
            // The file contains both streams, so this calls all of it standard output.
            waiting.begin_with(HookOutputChunk {
                run,
                stream: OutputStream::Stdout,
                at,
                bytes: end,
                gap: at > 0,
            });
        }
    }

    async fn publish(&self, waiting: &mut UnsentOutput) {
        let room = (self.largest.saturating_sub(ENVELOPE) / ESCAPED).clamp(1, SHOWN);
        while let Some(piece) = waiting.next(room) {
            let mut headers = HeaderMap::new();
            headers.insert(SESSION, self.id);
            let line = LiveMessage::from(piece).into_line();
            // A lost chunk does not matter: another one follows.
            let _ = self
                .client
                .publish_with_headers(self.subjects.live(), headers, line.into())
                .await;
        }
        let _ = self.client.flush().await;
    }
}

/// Output that has not been published yet, for each run at most the last [`SHOWN`] bytes.
#[derive(Debug, Default)]
struct UnsentOutput {
    pieces: VecDeque<HookOutputChunk>,
    /// Hooks printed faster than this task could read.
    missed: bool,
}

impl UnsentOutput {
    fn is_empty(&self) -> bool {
        self.pieces.iter().all(|piece| whole(&piece.bytes) == 0)
    }

    fn add(&mut self, new: HookOutputChunk) {
        let new = HookOutputChunk {
            gap: new.gap || std::mem::take(&mut self.missed),
            ..new
        };
        let (run, end) = (new.run, |piece: &HookOutputChunk| {
            piece.at + piece.bytes.len() as u64
        });
        let last = self.pieces.iter_mut().rev().find(|piece| piece.run == run);
        match last {
            // The chunk was already read from the file.
            Some(last) if end(&new) <= end(last) => {}
            Some(last) if last.stream == new.stream && new.at <= end(last) => {
                let known = usize::try_from(end(last) - new.at).unwrap_or(usize::MAX);
                last.bytes
                    .extend_from_slice(new.bytes.get(known..).unwrap_or_default());
            }
            Some(_) | None => self.pieces.push_back(new),
        }
        self.shorten(run);
    }

    /// Adds the output in the file of a run. Chunks that wait already can be newer.
    fn begin_with(&mut self, all: HookOutputChunk) {
        let of_the_run = |piece: &HookOutputChunk| piece.run == all.run;
        let (newer, others): (VecDeque<_>, _) = self.pieces.drain(..).partition(of_the_run);
        self.pieces = others;
        self.add(all);
        for piece in newer {
            self.add(piece);
        }
    }

    /// Drops all but the end of a run's output, since a screen shows no more.
    fn shorten(&mut self, run: RunId) {
        let mut kept = 0;
        for piece in self
            .pieces
            .iter_mut()
            .rev()
            .filter(|piece| piece.run == run)
        {
            let surplus = (kept + piece.bytes.len())
                .saturating_sub(SHOWN)
                .min(piece.bytes.len());
            if surplus > 0 {
                piece.bytes.drain(..surplus);
                piece.at += surplus as u64;
                piece.gap = true;
            }
            kept += piece.bytes.len();
        }
        self.pieces.retain(|piece| !piece.bytes.is_empty());
        while self.pieces.len() > PIECES {
            let lost = self.pieces.pop_front().map(|piece| piece.run);
            if let Some(after) = self.pieces.iter_mut().find(|piece| Some(piece.run) == lost) {
                after.gap = true;
            }
        }
    }

    /// The next chunk to publish, of at most `room` bytes. An incomplete character at the end waits
    /// for its rest.
    fn next(&mut self, room: usize) -> Option<HookOutputChunk> {
        let piece = self
            .pieces
            .iter_mut()
            .find(|piece| whole(&piece.bytes) > 0)?;
        let length = match whole(&piece.bytes[..piece.bytes.len().min(room)]) {
            0 => piece.bytes.len().min(room),
            length => length,
        };
        let rest = piece.bytes.split_off(length);
        let chunk = HookOutputChunk {
            bytes: std::mem::replace(&mut piece.bytes, rest),
            ..piece.clone()
        };
        (piece.at, piece.gap) = (piece.at + length as u64, false);
        self.pieces.retain(|piece| !piece.bytes.is_empty());
        Some(chunk)
    }
}

/// How many bytes there are before an incomplete character at the end.
fn whole(bytes: &[u8]) -> usize {
    let start = bytes.len().saturating_sub(3);
    let cut = (start..bytes.len()).find(|at| {
        let letter = str::from_utf8(&bytes[*at..]);
        bytes[*at] >= 0xC0
            && letter.is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    });
    cut.unwrap_or(bytes.len())
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

    fn piece(at: u64, text: &[u8]) -> HookOutputChunk {
        HookOutputChunk {
            run: RunId(1),
            stream: OutputStream::Stdout,
            at,
            bytes: text.to_vec(),
            gap: false,
        }
    }

    fn chunk(waiting: &mut UnsentOutput, room: usize) -> Vec<(u64, String)> {
        let text = |live: HookOutputChunk| (live.at, String::from_utf8(live.bytes).expect("text"));
        std::iter::from_fn(|| waiting.next(room).map(text)).collect()
    }

    #[test]
    fn output_is_sent_once_and_in_pieces_that_fit() {
        let mut waiting = UnsentOutput::default();
        waiting.add(piece(4, b"two "));
        waiting.begin_with(piece(0, b"one two "));
        waiting.add(piece(4, b"two three"));
        assert_eq!(
            chunk(&mut waiting, 8),
            [(0, "one two ".to_owned()), (8, "three".to_owned())]
        );
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_letter_that_is_cut_off_waits_for_its_rest() {
        let mut waiting = UnsentOutput::default();
        waiting.add(piece(0, b"na\xC3"));
        assert_eq!(chunk(&mut waiting, 100), [(0, "na".to_owned())]);
        assert!(waiting.is_empty());
        waiting.add(piece(3, b"\xAFve"));
        assert_eq!(
            chunk(&mut waiting, 3),
            [(2, "ïv".to_owned()), (5, "e".to_owned())]
        );
    }

    #[test]
    fn a_slow_viewer_gets_the_end_of_the_output() {
        let mut waiting = UnsentOutput::default();
        for n in 0..100 {
            waiting.add(piece(n * 1000, &[b'x'; 1000]));
        }
        let last = waiting.next(SHOWN).expect("a piece");
        assert_eq!(
            (
                last.at + last.bytes.len() as u64,
                last.bytes.len(),
                last.gap
            ),
            (100_000, SHOWN, true)
        );
        assert!(waiting.is_empty());
    }
}
