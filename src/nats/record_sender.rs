//! Records on their way out.
//!
//! Owns the window: many records are under way at once, and each is taken off when the server has it, in order. Does not
//! decide what a lost connection means: whoever holds it begins again with a new one.
//!
//! # Invariants
//! - A record is taken off only when the server said that it has it, and all before it.
//! - Records leave in the order of the journal. A server that refuses one and takes the next can still hold them in
//!   another order, until the refused one was sent again: each has its number, and creel's readers go by that.

use std::collections::BTreeSet;

use async_nats::{Client, HeaderMap};
use tokio::{
    sync::watch,
    time::{Duration, Instant},
};

use super::{
    ANSWER,
    connection::NatsError,
    subject::{LAST_OF_SUBJECT, MESSAGE_ID, PART, SESSION, SessionSubjects, message_id},
};
use crate::{
    journal::outbox::{Outbox, OutboxReader, OutboxRecord, RecordNaming},
    nats::{
        publisher::{PublishOutcome, PublishRefusal, StreamPublisher},
        send_window::{InFlightRecord, RemainingRecords, SendWindow},
        status::NatsStatus,
        stream::{NatsStream, StoredRecords},
    },
};

/// After how many records the place is kept, and those who watch are told.
const KEPT_EVERY: u64 = 256;
/// After how long those who watch are told that the server is behind: a record on its way is no news.
const SLOW: Duration = Duration::from_millis(300);
/// What a message needs beside the record: headers, and the names in them.
const ENVELOPE: usize = 512;

/// Two sessions have one name; the next connection names its records so that they are told apart.
const TAKEN: &str = "another session has taken the name";

/// Sends the records of a session.
pub(super) struct RecordSender<'a> {
    pub(super) client: &'a Client,
    pub(super) store: &'a NatsStream,
    pub(super) outbox: &'a mut Outbox,
    pub(super) subjects: &'a SessionSubjects,
    /// The session's name.
    pub(super) session: &'a str,
    /// The session's id.
    pub(super) id: &'a str,
    /// What the stream has.
    pub(super) holdings: StoredRecords,
    /// The most bytes that a message may have.
    pub(super) largest: usize,
    pub(super) link: &'a watch::Sender<NatsStatus>,
}

impl RecordSender<'_> {
    /// Sends all that there is, and what comes, until the session is over and the server has everything.
    pub(super) async fn run(&mut self, mut news: watch::Receiver<u64>) -> Result<(), NatsError> {
        let mut wire = StreamPublisher::open(self.client, self.store.name()).await?;
        let mut letters = self.outbox.letters(self.holdings.place.offset)?;
        let mut window = SendWindow::default();
        let mut over = false;
        let mut word_due = Instant::now() + SLOW;
        loop {
            if window.can_follow() {
                // First what is known to be there, then the file: a record that comes in between is seen the next time.
                news.mark_unchanged();
                window.rest = self.fill(&mut wire, &mut letters, &mut window).await?;
            }
            let Some(since) = window.since() else {
                self.caught_up(*news.borrow())?;
                if over {
                    return Ok(());
                }
                over = news.changed().await.is_err();
                window.rest = RemainingRecords::Unknown;
                word_due = Instant::now() + SLOW;
                continue;
            };
            tokio::select! {
                biased;
                answer = wire.next() => {
                    // Not held while it waits: whoever has news would wait for it.
                    let last = *news.borrow();
                    self.hear(answer?, &mut window, last).await?;
                }
                changed = news.changed(), if !over && window.rest == RemainingRecords::Nothing => {
                    over = changed.is_err();
                    window.rest = RemainingRecords::Unknown;
                }
                () = tokio::time::sleep_until(word_due.min(since + ANSWER)) => {
                    if since.elapsed() >= ANSWER {
                        return Err(NatsError("the server does not answer".to_owned()));
                    }
                    self.tell(*news.borrow());
                    word_due = Instant::now() + SLOW;
                }
            }
        }
    }

    /// Sends until the window is full, or nothing is left.
    async fn fill(
        &mut self,
        wire: &mut StreamPublisher<'_>,
        letters: &mut OutboxReader,
        window: &mut SendWindow,
    ) -> Result<RemainingRecords, NatsError> {
        let now = Instant::now();
        while !window.is_full() {
            let Some(letter) = letters.read()? else { return Ok(RemainingRecords::Nothing) };
            let there = letter.seq <= self.holdings.place.seq || self.holdings.beyond.contains(&letter.seq);
            if there {
                if window.is_empty() && letter.seq <= self.holdings.place.seq {
                    self.holdings.place.offset = letter.end;
                }
                continue;
            }
            let alone = letter.seq == 1;
            window.leave(self.send(wire, letter, now).await?);
            if alone {
                return Ok(RemainingRecords::AllButTheFirst);
            }
        }
        Ok(RemainingRecords::TooMuch)
    }

    async fn send(
        &self,
        wire: &mut StreamPublisher<'_>,
        letter: OutboxRecord,
        now: Instant,
    ) -> Result<InFlightRecord, NatsError> {
        let subject = self.subjects.event(&letter.kind);
        let room = self.largest.saturating_sub(ENVELOPE + subject.len()).max(1);
        let of = letter.line.len().div_ceil(room).max(1);
        let mut missing = BTreeSet::new();
        for number in 1..=of {
            let part = (of > 1).then_some(number);
            let mut headers = HeaderMap::new();
            let names = self.holdings.place.names;
            headers.insert(MESSAGE_ID, message_id(names, self.session, self.id, letter.seq, part).as_str());
            headers.insert(SESSION, self.id);
            if part.is_some() {
                headers.insert(PART, format!("{number}/{of}").as_str());
            }
            if letter.seq == 1 && number == 1 && names == RecordNaming::Plain {
                headers.insert(LAST_OF_SUBJECT, "0");
            }
            let piece = letter.line.slice((number - 1) * room..letter.line.len().min(number * room));
            missing.insert(wire.send(subject.clone(), headers, piece).await?);
        }
        let (seq, end, bytes) = (letter.seq, letter.end, letter.line.len());
        Ok(InFlightRecord { seq, end, bytes, missing, at: 0, since: now })
    }

    /// What the server says about a message; `last` is the last record that there is.
    async fn hear(&mut self, answer: PublishOutcome, window: &mut SendWindow, last: u64) -> Result<(), NatsError> {
        // Somebody else may answer, too.
        if !window.awaits(answer.message) {
            return Ok(());
        }
        let kept = answer.said.map_err(in_words)?;
        // What the stream had of this session was looked at before. So it is one that was still on its way then, or
        // somebody else's.
        if kept.again && !self.store.is_of(kept.at, self.id).await? {
            self.holdings.place.names = RecordNaming::WithId;
            self.outbox.keep(self.holdings.place.clone())?;
            return Err(NatsError(TAKEN.to_owned()));
        }
        window.arrived(answer.message, kept.at);
        while let Some(record) = window.take_off() {
            self.take_off(&record, last)?;
        }
        Ok(())
    }

    fn take_off(&mut self, record: &InFlightRecord, last: u64) -> Result<(), NatsError> {
        let StoredRecords { place, beyond } = &mut self.holdings;
        (place.seq, place.offset) = (record.seq, record.end);
        while beyond.remove(&(place.seq + 1)) {
            place.seq += 1;
        }
        // What lies beyond must be found again the next time.
        if beyond.is_empty() {
            place.at = place.at.max(record.at);
        }
        // The first is kept at once: it tells that the name is ours.
        if record.seq == 1 || record.seq.is_multiple_of(KEPT_EVERY) {
            self.outbox.keep(place.clone())?;
            self.tell(last);
        }
        Ok(())
    }

    fn caught_up(&mut self, last: u64) -> Result<(), NatsError> {
        self.outbox.keep(self.holdings.place.clone())?;
        self.tell(last);
        Ok(())
    }

    fn tell(&self, last: u64) {
        let link = NatsStatus::Connected { behind: last.saturating_sub(self.holdings.place.seq) };
        self.link.send_if_modified(|known| {
            let news = *known != link;
            *known = link;
            news
        });
    }
}

fn in_words(refusal: PublishRefusal) -> NatsError {
    NatsError(match refusal {
        PublishRefusal::NoStream => "the stream is gone".to_owned(),
        PublishRefusal::NotTheFirst => TAKEN.to_owned(),
        PublishRefusal::Other(why) => format!("the server does not take records: {why}"),
    })
}
