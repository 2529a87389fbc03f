//! Sends the records of a session to its stream, and those that earlier sessions of the project
//! could not send.
//!
//! Many records are in flight at once, and each leaves the window, in order, when the server has
//! stored it. Does not handle a lost connection: the caller starts again with a new one. A session
//! that has ended does not wait for an unreachable server: the next session that reaches the server
//! sends the rest.
//!
//! # Invariants
//! - Records are sent in the order of the journal. If the server refuses one and stores the next,
//!   the order in the stream differs until the refused one is sent again. Each record has its
//!   number, and creel's readers sort by it.
//! - Records for one server are never sent to another.
//! - A folder may have been cloned with the project: creel sends it only if it looks like one that
//!   creel wrote. A broken folder does not keep creel from sending the others.

use std::{collections::BTreeSet, io};

use async_nats::{Client, HeaderMap, connection::State};
use serde::Deserialize;
use tokio::{
    sync::watch,
    time::{Duration, Instant},
};

use crate::{
    config::NatsConfig,
    journal::{
        self, SessionDir, SessionsDir,
        outbox::{Outbox, OutboxReader, OutboxRecord, RecordNaming},
    },
    nats::{
        ANSWER,
        connection::{NatsError, destination},
        send_window::{
            InFlightRecord, PublishOutcome, PublishRefusal, RemainingRecords, SendWindow,
            StreamPublisher,
        },
        stream::{NatsStream, SessionIdentity},
        subject::{
            LAST_OF_SUBJECT, MESSAGE_ID, PART, SESSION, SessionSubjects, is_plain, message_id,
        },
    },
    protocol::NatsStatus,
};

/// After how many records the position is saved and the status updated.
const KEPT_EVERY: u64 = 256;
/// After how long the status shows that the server is behind. A record in flight is not worth
/// showing.
const SLOW: Duration = Duration::from_millis(300);
/// The bytes of a message besides the record: the headers with their values.
const ENVELOPE: usize = 512;

/// Two sessions have the same name. The next connection adds the id to the names of its messages.
const TAKEN: &str = "another session uses the same name";

pub(super) struct RecordSender<'a> {
    pub(super) client: &'a Client,
    pub(super) store: &'a NatsStream,
    pub(super) outbox: &'a mut Outbox,
    pub(super) subjects: &'a SessionSubjects,
    /// The session's name.
    pub(super) session: &'a str,
    pub(super) id: &'a str,
    /// The records that the stream has beyond the outbox's position.
    pub(super) beyond: BTreeSet<u64>,
    /// The size limit of a message, in bytes.
    pub(super) largest: usize,
    pub(super) link: &'a watch::Sender<NatsStatus>,
}

impl RecordSender<'_> {
    /// Sends all records, until the session has ended and the server has everything.
    pub(super) async fn run(&mut self, mut news: watch::Receiver<u64>) -> Result<(), NatsError> {
        let mut wire = StreamPublisher::open(self.client, self.store.name()).await?;
        let mut unsent = self.outbox.records(self.outbox.place().offset)?;
        let mut window = SendWindow::default();
        let mut over = false;
        let mut word_due = Instant::now() + SLOW;
        loop {
            if window.can_follow() {
                // Mark first, read the file afterwards: a record that is written in between counts
                // as a change.
                news.mark_unchanged();
                window.rest = self.fill(&mut wire, &mut unsent, &mut window).await?;
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
                    // Copied, since a borrow across the wait would block the task that announces
                    // new records.
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

    /// Sends until the window is full or no records are left.
    async fn fill(
        &mut self,
        wire: &mut StreamPublisher<'_>,
        unsent: &mut OutboxReader,
        window: &mut SendWindow,
    ) -> Result<RemainingRecords, NatsError> {
        let now = Instant::now();
        while !window.is_full() {
            let Some(record) = unsent.read()? else {
                return Ok(RemainingRecords::Nothing);
            };
            let is_before = record.seq <= self.outbox.place().seq;
            if is_before || self.beyond.contains(&record.seq) {
                if window.is_empty() && is_before {
                    self.outbox.place_mut().offset = record.end;
                }
                continue;
            }
            let alone = record.seq == 1;
            window.leave(self.send(wire, record, now).await?);
            if alone {
                return Ok(RemainingRecords::AllButTheFirst);
            }
        }
        Ok(RemainingRecords::TooMuch)
    }

    async fn send(
        &self,
        wire: &mut StreamPublisher<'_>,
        record: OutboxRecord,
        now: Instant,
    ) -> Result<InFlightRecord, NatsError> {
        let subject = self.subjects.event(&record.kind);
        let room = self.largest.saturating_sub(ENVELOPE + subject.len()).max(1);
        let of = record.line.len().div_ceil(room).max(1);
        let mut missing = BTreeSet::new();
        for number in 1..=of {
            let part = (of > 1).then_some(number);
            let mut headers = HeaderMap::new();
            let names = self.outbox.place().names;
            headers.insert(
                MESSAGE_ID,
                message_id(names, self.session, self.id, record.seq, part).as_str(),
            );
            headers.insert(SESSION, self.id);
            if part.is_some() {
                headers.insert(PART, format!("{number}/{of}").as_str());
            }
            if record.seq == 1 && number == 1 && names == RecordNaming::Plain {
                headers.insert(LAST_OF_SUBJECT, "0");
            }
            let piece = record
                .line
                .slice((number - 1) * room..record.line.len().min(number * room));
            missing.insert(wire.send(subject.clone(), headers, piece).await?);
        }
        let (seq, end, bytes) = (record.seq, record.end, record.line.len());
        Ok(InFlightRecord {
            seq,
            end,
            bytes,
            missing,
            at: 0,
            since: now,
        })
    }

    /// Handles the server's answer to a message. `last` is the number of the last record in the
    /// journal.
    async fn hear(
        &mut self,
        answer: PublishOutcome,
        window: &mut SendWindow,
        last: u64,
    ) -> Result<(), NatsError> {
        // Another program can send to this inbox, too.
        if !window.awaits(answer.message) {
            return Ok(());
        }
        let kept = answer.reply.map_err(in_words)?;
        // creel has already checked which records of this session the stream has. So a duplicate
        // was either in flight at that time, or belongs to another session.
        if kept.again && !self.store.is_of(kept.at, self.id).await? {
            self.outbox.place_mut().names = RecordNaming::WithId;
            self.outbox.save()?;
            return Err(NatsError(TAKEN.to_owned()));
        }
        window.arrived(answer.message, kept.at);
        while let Some(record) = window.take_off() {
            self.take_off(&record, last)?;
        }
        Ok(())
    }

    fn take_off(&mut self, record: &InFlightRecord, last: u64) -> Result<(), NatsError> {
        let place = self.outbox.place_mut();
        (place.seq, place.offset) = (record.seq, record.end);
        while self.beyond.remove(&(place.seq + 1)) {
            place.seq += 1;
        }
        // The next check must find the records beyond the position again.
        if self.beyond.is_empty() {
            place.at = place.at.max(record.at);
        }
        // The first record is saved at once: it proves that this session owns the name.
        if record.seq == 1 || record.seq.is_multiple_of(KEPT_EVERY) {
            self.outbox.save()?;
            self.tell(last);
        }
        Ok(())
    }

    fn caught_up(&mut self, last: u64) -> Result<(), NatsError> {
        self.outbox.save()?;
        self.tell(last);
        Ok(())
    }

    fn tell(&self, last: u64) {
        let link = NatsStatus::Connected {
            behind: last.saturating_sub(self.outbox.place().seq),
        };
        self.link.send_if_modified(|known| {
            let news = *known != link;
            *known = link;
            news
        });
    }
}

fn in_words(refusal: PublishRefusal) -> NatsError {
    NatsError(match refusal {
        PublishRefusal::NoStream => "the stream does not exist any more".to_owned(),
        PublishRefusal::NotTheFirst => TAKEN.to_owned(),
        PublishRefusal::Other(why) => format!("the server does not accept records: {why}"),
    })
}

/// The fields of a session's first record that creel checks.
#[derive(Deserialize)]
struct FirstRecordHeader {
    session: String,
    id: String,
}

/// What is left to send of a session that has ended.
enum SessionBacklog {
    Nothing,
    /// Another process sends it, or it is for another server.
    Elsewhere,
    /// The session's id comes with it.
    Unsent(Box<Outbox>, String),
}

/// Sends the backlog of other sessions.
#[derive(Clone, Copy)]
pub(super) struct BacklogSender<'a> {
    pub(super) client: &'a Client,
    pub(super) store: &'a NatsStream,
    pub(super) nats: &'a NatsConfig,
    pub(super) largest: usize,
}

impl BacklogSender<'_> {
    /// Sends the unsent records of all sessions except `own`. Errors are only logged, since no
    /// caller depends on it.
    pub(super) async fn send_all(
        &self,
        sessions: &SessionsDir,
        own: &str,
    ) -> Result<(), NatsError> {
        for folder in sessions.unsent_to(&self.store.made).unwrap_or_default() {
            // A session that runs sends its own records.
            if folder.name == own || journal::running(&folder).is_some() {
                continue;
            }
            let sent = match self.rest(&folder) {
                Ok(SessionBacklog::Nothing) => Ok(()),
                Ok(SessionBacklog::Elsewhere) => continue,
                Ok(SessionBacklog::Unsent(outbox, id)) => {
                    // Until they are sent: after another store, the session may have no entry.
                    let _ = folder.mark_unsent();
                    self.send(&folder, *outbox, &id)
                        .await
                        .map_err(|NatsError(why)| why)
                }
                Err(error) => Err(error.to_string()),
            };
            match sent {
                Ok(()) => folder.mark_sent(),
                Err(why) => {
                    tracing::info!(
                        "nats: cannot send the rest of session {}: {why}",
                        folder.name
                    );
                    if self.client.connection_state() != State::Connected {
                        return Ok(());
                    }
                }
            }
        }
        if let Err(error) = sessions.note_sent_to(&self.store.made) {
            tracing::info!(
                "nats: cannot save what the server has, so the next session checks all sessions again: {error}"
            );
        }
        Ok(())
    }

    fn rest(&self, folder: &SessionDir) -> io::Result<SessionBacklog> {
        let Some(outbox) = Outbox::open(folder)? else {
            return Ok(SessionBacklog::Elsewhere);
        };
        let kept = outbox.place();
        let is_ours = outbox.is_for(&destination(self.nats)) || kept.store == self.store.made;
        if !is_ours {
            return Ok(SessionBacklog::Elsewhere);
        }
        let has_more =
            kept.store != self.store.made || outbox.records(kept.offset)?.read()?.is_some();
        let Some(first) = outbox.records(0)?.read()?.filter(|_| has_more) else {
            return Ok(SessionBacklog::Nothing);
        };
        let FirstRecordHeader { session, id } = serde_json::from_slice(&first.line)?;
        if session != folder.name || !is_plain(&session) || !is_plain(&id) {
            return Err(io::Error::other("its first record is not from creel"));
        }
        Ok(SessionBacklog::Unsent(Box::new(outbox), id))
    }

    async fn send(
        &self,
        folder: &SessionDir,
        mut outbox: Outbox,
        id: &str,
    ) -> Result<(), NatsError> {
        let subjects = SessionSubjects::new(&self.nats.prefix, &folder.name);
        let stored = self
            .store
            .stored(
                SessionIdentity {
                    subjects: &subjects,
                    id,
                },
                outbox.place(),
            )
            .await?;
        let beyond = stored.continue_in(&mut outbox);
        let (link, _) = watch::channel(NatsStatus::Connecting { behind: 0 });
        let (_, no_news) = watch::channel(0);
        let mut sender = RecordSender {
            client: self.client,
            store: self.store,
            outbox: &mut outbox,
            subjects: &subjects,
            session: &folder.name,
            id,
            beyond,
            largest: self.largest,
            link: &link,
        };
        sender.run(no_news).await
    }
}
