//! The stream that stores the records, and how to find out which records of a session it has.
//!
//! # Invariants
//! - The stream itself says which records it has. The saved position only says where to start
//!   reading.

mod provision;

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use async_nats::{
    HeaderMap,
    jetstream::{
        Message,
        consumer::{
            DeliverPolicy,
            pull::{Ordered, OrderedConfig},
        },
        message::StreamMessage,
        stream::{Config, InfoError, RawMessageError, RawMessageErrorKind, Stream},
    },
};
use futures_core::Stream as _;
use tokio::task::JoinSet;

use super::{
    connection::NatsError,
    subject::{MESSAGE_ID, PART, SESSION, SessionSubjects},
};
use crate::journal::outbox::{Outbox, OutboxPosition, RecordNaming};
use provision::covers;
pub use provision::{bucket, ensured_replicas, find, found, open};

/// How many subjects to look up at the same time.
const AT_ONCE: usize = 64;

/// How long a cluster can take to elect a leader: its servers wait for up to 9 seconds before they
/// vote.
const ELECTION: Duration = Duration::from_secs(15);
/// How long to wait before asking a cluster without a leader again.
const ELECTION_PAUSE: Duration = Duration::from_millis(250);

/// The smallest usable message size, in bytes: a smaller message would be little but headers.
const SMALLEST: usize = 1024;

#[derive(Debug)]
pub struct NatsStream {
    pub stream: Stream,
    /// When the stream was created. This distinguishes it from a later stream of the same name.
    pub made: String,
    /// How it differs from the config, as text for the user.
    pub differences: Vec<String>,
}

/// The records of a session that the stream has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecords {
    /// The position up to which it has all records.
    pub place: OutboxPosition,
    /// The records beyond that: a server can store a record and not the one before it.
    pub beyond: BTreeSet<u64>,
}

#[derive(Debug, Clone, Copy)]
pub struct SessionIdentity<'a> {
    pub subjects: &'a SessionSubjects,
    pub id: &'a str,
}

impl StoredRecords {
    /// Continues there, and returns the records beyond that position.
    pub fn continue_in(self, outbox: &mut Outbox) -> BTreeSet<u64> {
        *outbox.place_mut() = self.place;
        self.beyond
    }

    /// Records that the stream has expired count as stored: the first record is sent before all
    /// others.
    fn without_the_forgotten(mut self) -> Self {
        if let Some(first) = self.beyond.first().filter(|_| self.place.seq == 0) {
            self.place.seq = first - 1;
        }
        while self.beyond.remove(&(self.place.seq + 1)) {
            self.place.seq += 1;
        }
        self
    }
}

impl NatsStream {
    pub fn of(stream: Stream) -> Self {
        Self {
            made: stream.cached_info().created.to_string(),
            stream,
            differences: Vec::new(),
        }
    }

    pub fn name(&self) -> &str {
        &self.stream.cached_info().config.name
    }

    /// Fails if the stream does not store messages of these subjects.
    pub fn takes(&self, subjects: &str) -> Result<(), NatsError> {
        let Config {
            name,
            subjects: own,
            ..
        } = &self.stream.cached_info().config;
        if own.iter().any(|subject| covers(subject, subjects)) {
            return Ok(());
        }
        Err(NatsError(format!(
            "the stream {name} does not include the subjects {subjects}. Add them to the stream, or set another `stream` under `nats:`"
        )))
    }

    /// Finds out which records of a session the stream has, starting at the saved position.
    pub async fn stored(
        &self,
        whose: SessionIdentity<'_>,
        kept: &OutboxPosition,
    ) -> Result<StoredRecords, NatsError> {
        let last = self.stream.cached_info().state.last_sequence;
        // Another stream has no records of the session. One that lost its end is read from the
        // beginning: its length does not show this, since other sessions may have written since.
        let known = kept.store == self.made
            && kept.at <= last
            && (kept.seq == 0 || self.has_kept(whose, kept).await?);
        let unknown = || OutboxPosition {
            store: self.made.clone(),
            server: kept.server.clone(),
            ..OutboxPosition::default()
        };
        let kept = if known { kept.clone() } else { unknown() };
        if kept.seq == 0 {
            return self.since_the_beginning(whose, kept).await;
        }
        self.walk(whose, kept).await
    }

    async fn since_the_beginning(
        &self,
        whose: SessionIdentity<'_>,
        nothing: OutboxPosition,
    ) -> Result<StoredRecords, NatsError> {
        let (mut names, mut from) = (nothing.names, 1);
        while let Some(first) = self.next_of(&whose.subjects.beginning(), from).await? {
            if header(&first.headers, SESSION) == Some(whose.id) {
                let with_id = header(&first.headers, MESSAGE_ID)
                    .is_some_and(|id| id.matches(':').count() > 1);
                let names = if with_id {
                    RecordNaming::WithId
                } else {
                    RecordNaming::Plain
                };
                return self
                    .walk(
                        whose,
                        OutboxPosition {
                            at: first.sequence - 1,
                            names,
                            ..nothing
                        },
                    )
                    .await;
            }
            // Another session had this name before.
            (names, from) = (RecordNaming::WithId, first.sequence + 1);
        }
        // The first record may have expired while later ones still exist.
        if names == RecordNaming::Plain && !self.subjects(whose.subjects.events()).await?.is_empty()
        {
            let found = self
                .walk(
                    whose,
                    OutboxPosition {
                        names: RecordNaming::WithId,
                        ..nothing
                    },
                )
                .await?;
            return Ok(found.without_the_forgotten());
        }
        Ok(StoredRecords {
            place: OutboxPosition { names, ..nothing },
            beyond: BTreeSet::new(),
        })
    }

    /// Whether the message at the saved position is still one of the session. An expired message
    /// counts as one.
    async fn has_kept(
        &self,
        whose: SessionIdentity<'_>,
        kept: &OutboxPosition,
    ) -> Result<bool, NatsError> {
        if kept.at < self.stream.cached_info().state.first_sequence {
            return Ok(true);
        }
        let message = self.message(kept.at).await?;
        Ok(message.is_some_and(|message| {
            ours(&message, whose.id).is_some_and(|(seq, _)| seq <= kept.seq)
        }))
    }

    /// Whether the message `at` belongs to the session with that id.
    pub async fn is_of(&self, at: u64, id: &str) -> Result<bool, NatsError> {
        let message = self.message(at).await?;
        Ok(message.is_some_and(|message| header(&message.headers, SESSION) == Some(id)))
    }

    /// The size limit of a message in bytes, from the stream and from the server's `max_payload`.
    pub fn largest(&self, max_payload: usize) -> Result<usize, NatsError> {
        let Config {
            name,
            max_message_size,
            ..
        } = &self.stream.cached_info().config;
        let limit = usize::try_from(*max_message_size)
            .ok()
            .filter(|limit| *limit > 0)
            .unwrap_or(max_payload);
        if limit < SMALLEST {
            return Err(NatsError(format!(
                "the stream {name} allows messages of {limit} B, but creel needs at least {SMALLEST} B. Raise the stream's `max_msg_size`, or set another `stream` under `nats:`"
            )));
        }
        Ok(max_payload.min(limit))
    }

    /// The messages of a subject in their order, also those that come later.
    pub async fn follow(
        &self,
        subject: String,
        from: DeliverPolicy,
    ) -> Result<OrderedMessages, NatsError> {
        let cannot = |error: String| NatsError(format!("cannot read the stream: {error}"));
        let config = OrderedConfig {
            filter_subject: subject,
            deliver_policy: from,
            ..OrderedConfig::default()
        };
        let consumer = self.stream.create_consumer(config).await;
        let consumer = consumer.map_err(|error| cannot(error.to_string()))?;
        let messages = consumer.messages().await;
        messages
            .map(OrderedMessages)
            .map_err(|error| cannot(error.to_string()))
    }

    /// Reads the messages after `place`.
    async fn walk(
        &self,
        whose: SessionIdentity<'_>,
        mut place: OutboxPosition,
    ) -> Result<StoredRecords, NatsError> {
        let mut parts: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        let mut beyond = BTreeSet::new();
        let subjects = whose.subjects.events();
        // Stop at the last one: after it the server would search through everything that other
        // sessions wrote.
        let last = self.end_of(&subjects, place.at).await?;
        let mut at = place.at;
        while at < last
            && let Some(message) = self.next_of(&subjects, at + 1).await?
        {
            at = message.sequence;
            let Some((seq, part)) = ours(&message, whose.id) else {
                continue;
            };
            let have = parts.entry(seq).or_default();
            have.insert(part.number);
            let all_parts = have.len() == part.of;
            if all_parts && seq > place.seq {
                beyond.insert(seq);
            }
            while beyond.remove(&(place.seq + 1)) {
                place.seq += 1;
            }
            // The next check must find the records beyond the position again.
            if beyond.is_empty() && all_parts {
                place.at = message.sequence;
            }
        }
        Ok(StoredRecords { place, beyond })
    }

    /// The subjects that have messages.
    pub async fn subjects(&self, filter: String) -> Result<BTreeSet<String>, NatsError> {
        let is_cluster = self.stream.cached_info().cluster.is_some();
        let deadline = Instant::now() + ELECTION;
        loop {
            match self.subjects_now(&filter).await {
                Err(_) if is_cluster && Instant::now() < deadline => {
                    tokio::time::sleep(ELECTION_PAUSE).await;
                }
                listed => {
                    return listed
                        .map_err(|error| NatsError(format!("cannot read the stream: {error}")));
                }
            }
        }
    }

    async fn subjects_now(&self, filter: &str) -> Result<BTreeSet<String>, InfoError> {
        let mut found = std::pin::pin!(self.stream.info_with_subjects(filter).await?);
        let mut subjects = BTreeSet::new();
        while let Some(next) =
            std::future::poll_fn(|context| found.as_mut().poll_next(context)).await
        {
            subjects.insert(next?.0);
        }
        Ok(subjects)
    }

    /// The last message of each subject, the latest last.
    ///
    /// Each subject is looked up separately. A walk through the stream would return a subject again
    /// if it changes meanwhile, and a consumer could be placed on a server of the cluster that has
    /// just failed.
    pub async fn last_of_each(
        self: &Arc<Self>,
        filter: String,
    ) -> Result<Vec<StreamMessage>, NatsError> {
        let mut subjects = self.subjects(filter).await?.into_iter();
        let (mut asked, mut found) = (JoinSet::new(), Vec::new());
        loop {
            for subject in subjects.by_ref().take(AT_ONCE.saturating_sub(asked.len())) {
                let store = Arc::clone(self);
                asked.spawn(async move { store.last_of(&subject).await });
            }
            match asked.join_next().await {
                // A subject that was just deleted has no message.
                Some(Ok(message)) => found.extend(message?),
                Some(Err(error)) => {
                    return Err(NatsError(format!("cannot read the stream: {error}")));
                }
                None => break,
            }
        }
        found.sort_by_key(|message: &StreamMessage| message.sequence);
        Ok(found)
    }

    pub async fn last_of(&self, subject: &str) -> Result<Option<StreamMessage>, NatsError> {
        self.read(|| self.stream.get_last_raw_message_by_subject(subject))
            .await
    }

    /// The sequence number of the last message of a subject. If the last message was deleted, the
    /// server reports none; then this reads all messages after `from`.
    pub async fn end_of(&self, subject: &str, from: u64) -> Result<u64, NatsError> {
        if let Some(last) = self.last_of(subject).await? {
            return Ok(last.sequence);
        }
        let mut at = from;
        while let Some(message) = self.next_of(subject, at + 1).await? {
            at = message.sequence;
        }
        Ok(at)
    }

    /// The message with that sequence number.
    async fn message(&self, at: u64) -> Result<Option<StreamMessage>, NatsError> {
        // Sequence numbers start at 1, and the server refuses 0.
        if at == 0 {
            return Ok(None);
        }
        self.read(|| self.stream.get_raw_message(at)).await
    }

    /// The first message of a subject with at least that sequence number.
    pub async fn next_of(
        &self,
        subject: &str,
        from: u64,
    ) -> Result<Option<StreamMessage>, NatsError> {
        self.read(|| self.stream.get_first_raw_message_by_subject(subject, from))
            .await
    }

    /// Reads a message. A cluster that has just changed its leader does not always answer, so it is
    /// asked again.
    async fn read<F>(
        &self,
        ask: impl Fn() -> F + Send + Sync,
    ) -> Result<Option<StreamMessage>, NatsError>
    where
        F: Future<Output = Result<StreamMessage, RawMessageError>> + Send,
    {
        let is_cluster = self.stream.cached_info().cluster.is_some();
        let deadline = Instant::now() + ELECTION;
        loop {
            match ask().await {
                Ok(message) => return Ok(Some(message)),
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => {
                    return Ok(None);
                }
                Err(_) if is_cluster && Instant::now() < deadline => {
                    tokio::time::sleep(ELECTION_PAUSE).await;
                }
                Err(error) => return Err(NatsError(format!("cannot read the stream: {error}"))),
            }
        }
    }
}

/// The messages of a stream, from a place on.
pub struct OrderedMessages(Ordered);

impl OrderedMessages {
    /// Waits for the next message. Cancel-safe: dropping the future loses none.
    pub async fn next(&mut self) -> Result<Message, NatsError> {
        let next = std::future::poll_fn(|context| Pin::new(&mut self.0).poll_next(context)).await;
        match next {
            Some(Ok(message)) => Ok(message),
            Some(Err(error)) => Err(NatsError(format!("cannot read the stream: {error}"))),
            None => Err(NatsError("the connection was lost".to_owned())),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessagePart {
    /// From 1.
    pub number: usize,
    /// How many parts the record has.
    pub of: usize,
}

pub fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(async_nats::HeaderValue::as_str)
}

/// Which part of a record the message is. `None` if the header is invalid.
pub fn part(headers: &HeaderMap) -> Option<MessagePart> {
    let Some(part) = header(headers, PART) else {
        return Some(MessagePart { number: 1, of: 1 });
    };
    let (number, of) = part.split_once('/')?;
    let (number, of) = (number.parse().ok()?, of.parse().ok()?);
    (1..=of)
        .contains(&number)
        .then_some(MessagePart { number, of })
}

/// The number of the record and which part of it this message is. `None` if it is not of that
/// session.
fn ours(message: &StreamMessage, id: &str) -> Option<(u64, MessagePart)> {
    if header(&message.headers, SESSION) != Some(id) {
        return None;
    }
    let named = header(&message.headers, MESSAGE_ID)?.rsplit(':').next()?;
    let seq = named.split('.').next()?.parse().ok()?;
    Some((seq, part(&message.headers)?))
}
