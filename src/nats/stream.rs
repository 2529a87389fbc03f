//! The stream that keeps the records, and what it has of a session.
//!
//! # Invariants
//! - What the stream has is read from the stream: the place that was kept says only from where on to look.

mod provision;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_nats::{
    HeaderMap,
    jetstream::{
        message::StreamMessage,
        stream::{Config, LastRawMessageErrorKind, RawMessageErrorKind, Stream},
    },
};
use futures_core::Stream as _;
use tokio::task::JoinSet;

use super::{
    connection::NatsError,
    subject::{MESSAGE_ID, PART, SESSION, SessionSubjects},
};
use crate::journal::outbox::{OutboxPosition, RecordNaming};
use provision::covers;
pub use provision::{bucket, ensured_replicas, find, found, open};

/// How many subjects are looked up at once.
const AT_ONCE: usize = 64;

/// Smaller messages would be little but headers.
const SMALLEST: usize = 1024;

/// The stream, and whatever is not as the config says.
#[derive(Debug)]
pub struct NatsStream {
    /// The stream.
    pub stream: Stream,
    /// When it was made: tells it apart from a later one of that name.
    pub made: String,
    /// What is not as the config says, in words.
    pub differences: Vec<String>,
}

/// What the stream has of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecords {
    /// Up to where it has all.
    pub place: OutboxPosition,
    /// What it has beyond that: a server may take a record and not the one before.
    pub beyond: BTreeSet<u64>,
}

/// The session whose records are looked for.
#[derive(Debug, Clone, Copy)]
pub struct SessionIdentity<'a> {
    /// Its subjects.
    pub subjects: &'a SessionSubjects,
    /// Its id.
    pub id: &'a str,
}

impl StoredRecords {
    /// What the stream has forgotten, it had: the first record goes before all others.
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
    /// A stream as it is.
    pub fn of(stream: Stream) -> Self {
        Self { made: stream.cached_info().created.to_string(), stream, differences: Vec::new() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.stream.cached_info().config.name
    }

    /// Whether it takes what is published to these subjects.
    pub fn takes(&self, subjects: &str) -> Result<(), NatsError> {
        let Config { name, subjects: own, .. } = &self.stream.cached_info().config;
        if own.iter().any(|subject| covers(subject, subjects)) {
            return Ok(());
        }
        Err(NatsError(format!("the stream {name} does not take the subjects {subjects}")))
    }

    /// Looks what the stream has of a session, from the place on that was kept.
    pub async fn holdings(
        &self,
        whose: SessionIdentity<'_>,
        kept: &OutboxPosition,
    ) -> Result<StoredRecords, NatsError> {
        let last = self.stream.cached_info().state.last_sequence;
        // Another stream has nothing of it; one that lost its end is looked through from the beginning. Others may have
        // written on since, so its length alone does not tell.
        let known = kept.store == self.made && kept.at <= last && (kept.seq == 0 || self.has_kept(whose, kept).await?);
        let unknown =
            || OutboxPosition { store: self.made.clone(), server: kept.server.clone(), ..OutboxPosition::default() };
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
                let with_id = header(&first.headers, MESSAGE_ID).is_some_and(|id| id.matches(':').count() > 1);
                let names = if with_id { RecordNaming::WithId } else { RecordNaming::Plain };
                return self.walk(whose, OutboxPosition { at: first.sequence - 1, names, ..nothing }).await;
            }
            // Another session had the name before.
            (names, from) = (RecordNaming::WithId, first.sequence + 1);
        }
        // Its beginning may have been forgotten already, and the rest not.
        if names == RecordNaming::Plain && !self.subjects(whose.subjects.events()).await?.is_empty() {
            let found = self.walk(whose, OutboxPosition { names: RecordNaming::WithId, ..nothing }).await?;
            return Ok(found.without_the_forgotten());
        }
        Ok(StoredRecords { place: OutboxPosition { names, ..nothing }, beyond: BTreeSet::new() })
    }

    /// Whether what is known of it lies where it lay, as far as the stream remembers.
    async fn has_kept(&self, whose: SessionIdentity<'_>, kept: &OutboxPosition) -> Result<bool, NatsError> {
        if kept.at < self.stream.cached_info().state.first_sequence {
            return Ok(true);
        }
        let message = self.message(kept.at).await?;
        Ok(message.is_some_and(|message| ours(&message, whose.id).is_some_and(|(seq, _)| seq <= kept.seq)))
    }

    /// Whether a message is one of that session.
    pub async fn is_of(&self, at: u64, id: &str) -> Result<bool, NatsError> {
        let message = self.message(at).await?;
        Ok(message.is_some_and(|message| header(&message.headers, SESSION) == Some(id)))
    }

    /// The most bytes that a message may have, if a server takes that many.
    pub fn largest(&self, max_payload: usize) -> Result<usize, NatsError> {
        let Config { name, max_message_size, .. } = &self.stream.cached_info().config;
        let limit = usize::try_from(*max_message_size).ok().filter(|limit| *limit > 0).unwrap_or(max_payload);
        if limit < SMALLEST {
            return Err(NatsError(format!(
                "the stream {name} takes messages of {limit} bytes, and records need {SMALLEST}"
            )));
        }
        Ok(max_payload.min(limit))
    }

    /// Reads what comes after a place.
    async fn walk(&self, whose: SessionIdentity<'_>, mut place: OutboxPosition) -> Result<StoredRecords, NatsError> {
        let mut parts: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        let mut beyond = BTreeSet::new();
        let subjects = whose.subjects.events();
        // Beyond the last, a server would look through whatever others have written since.
        let last = self.end_of(&subjects, place.at).await?;
        let mut at = place.at;
        while at < last
            && let Some(message) = self.next_of(&subjects, at + 1).await?
        {
            at = message.sequence;
            let Some((seq, part)) = ours(&message, whose.id) else { continue };
            let have = parts.entry(seq).or_default();
            have.insert(part.number);
            let all_parts = have.len() == part.of;
            if all_parts && seq > place.seq {
                beyond.insert(seq);
            }
            while beyond.remove(&(place.seq + 1)) {
                place.seq += 1;
            }
            // What lies beyond must be found again the next time.
            if beyond.is_empty() && all_parts {
                place.at = message.sequence;
            }
        }
        Ok(StoredRecords { place, beyond })
    }

    /// The subjects under which there is something.
    pub async fn subjects(&self, filter: String) -> Result<BTreeSet<String>, NatsError> {
        let cannot = |error: String| NatsError(format!("the stream cannot be read: {error}"));
        let found = self.stream.info_with_subjects(filter).await.map_err(|error| cannot(error.to_string()))?;
        let mut found = std::pin::pin!(found);
        let mut subjects = BTreeSet::new();
        while let Some(next) = std::future::poll_fn(|context| found.as_mut().poll_next(context)).await {
            subjects.insert(next.map_err(|error| cannot(error.to_string()))?.0);
        }
        Ok(subjects)
    }

    /// The last message of each subject that there is now, the latest last.
    ///
    /// Each is looked up by itself. A walk through the stream would meet a subject again whenever it changes meanwhile, and a
    /// consumer could be put on a server of the cluster that was just lost.
    pub async fn last_of_each(self: &Arc<Self>, filter: String) -> Result<Vec<StreamMessage>, NatsError> {
        let mut subjects = self.subjects(filter).await?.into_iter();
        let (mut asked, mut found) = (JoinSet::new(), Vec::new());
        loop {
            for subject in subjects.by_ref().take(AT_ONCE.saturating_sub(asked.len())) {
                let store = Arc::clone(self);
                asked.spawn(async move { store.last_of(&subject).await });
            }
            match asked.join_next().await {
                // A subject that was deleted just now has no message any more.
                Some(Ok(message)) => found.extend(message?),
                Some(Err(error)) => return Err(NatsError(format!("the stream cannot be read: {error}"))),
                None => break,
            }
        }
        found.sort_by_key(|message: &StreamMessage| message.sequence);
        Ok(found)
    }

    /// The last message of a subject.
    pub async fn last_of(&self, subject: &str) -> Result<Option<StreamMessage>, NatsError> {
        match self.stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some(message)),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(NatsError(format!("the stream cannot be read: {error}"))),
        }
    }

    /// The number of the last message of a subject. A server that does not know it, because somebody has deleted the last,
    /// is asked for each from a number on.
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

    /// The message of a number, if it is there.
    async fn message(&self, at: u64) -> Result<Option<StreamMessage>, NatsError> {
        // The server does not count from there, and says so.
        if at == 0 {
            return Ok(None);
        }
        match self.stream.get_raw_message(at).await {
            Ok(message) => Ok(Some(message)),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(NatsError(format!("the stream cannot be read: {error}"))),
        }
    }

    /// The first message of a subject from a number on.
    pub async fn next_of(&self, subject: &str, from: u64) -> Result<Option<StreamMessage>, NatsError> {
        match self.stream.get_first_raw_message_by_subject(subject, from).await {
            Ok(message) => Ok(Some(message)),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(NatsError(format!("the stream cannot be read: {error}"))),
        }
    }
}

/// Which part of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessagePart {
    /// Its number, from 1.
    pub number: usize,
    /// How many there are.
    pub of: usize,
}

/// What a header says.
pub fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(async_nats::HeaderValue::as_str)
}

/// Which part of a record a message is.
pub fn part(headers: &HeaderMap) -> Option<MessagePart> {
    let Some(said) = header(headers, PART) else { return Some(MessagePart { number: 1, of: 1 }) };
    let (number, of) = said.split_once('/')?;
    let (number, of) = (number.parse().ok()?, of.parse().ok()?);
    (1..=of).contains(&number).then_some(MessagePart { number, of })
}

/// The number of a record of that session, and which part of it this is.
fn ours(message: &StreamMessage, id: &str) -> Option<(u64, MessagePart)> {
    if header(&message.headers, SESSION) != Some(id) {
        return None;
    }
    let named = header(&message.headers, MESSAGE_ID)?.rsplit(':').next()?;
    let seq = named.split('.').next()?.parse().ok()?;
    Some((seq, part(&message.headers)?))
}
