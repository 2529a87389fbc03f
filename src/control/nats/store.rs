//! The stream that keeps the records, and what it has of a session.
//!
//! # Invariants
//! - A stream that exists is used as it is; what is different from the config is told, and nothing is changed.
//! - What the stream has is read from the stream: the place that was kept says only from where on to look.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use async_nats::{
    HeaderMap,
    jetstream::{
        Context, ErrorCode,
        context::{CreateStreamErrorKind, GetStreamErrorKind},
        message::StreamMessage,
        stream::{
            Config, DiscardPolicy, LastRawMessageErrorKind, RawMessageErrorKind, RetentionPolicy, StorageType, Stream,
        },
    },
};
use futures_core::Stream as _;

use super::{
    connection::Trouble,
    subject::{MESSAGE_ID, PART, SESSION, Subjects, all_events},
};
use crate::{
    config::Nats,
    engine::time::Span,
    journal::outbox::{Names, Place},
};

/// How long the server itself knows a message that it has.
const KNOWN: Duration = Duration::from_mins(2);

/// Smaller messages would be little but headers.
const SMALLEST: usize = 1024;

/// The stream, and whatever is not as the config says.
#[derive(Debug)]
pub struct Store {
    /// The stream.
    pub stream: Stream,
    /// When it was made: tells it apart from a later one of that name.
    pub made: String,
    /// What is not as the config says, in words.
    pub differences: Vec<String>,
}

/// Opens the stream of the records; makes it, if there is none.
pub async fn open(jetstream: &Context, nats: &Nats) -> Result<Store, Trouble> {
    let store = ensured(jetstream, wanted(nats)).await?;
    store.takes(&all_events(&nats.prefix))?;
    Ok(store)
}

/// A stream as it is; as it is wanted, if there is none.
pub async fn ensured(jetstream: &Context, wanted: Config) -> Result<Store, Trouble> {
    match found(jetstream, &wanted.name).await? {
        Some(stream) => {
            let differences = differences(&wanted, &stream.cached_info().config);
            Ok(Store { differences, ..Store::of(stream) })
        }
        None => create(jetstream, wanted).await.map(Store::of),
    }
}

/// A stream, if there is one.
pub async fn found(jetstream: &Context, name: &str) -> Result<Option<Stream>, Trouble> {
    match jetstream.get_stream(name).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => Ok(None),
            GetStreamErrorKind::JetStream(_)
            | GetStreamErrorKind::EmptyName
            | GetStreamErrorKind::Request
            | GetStreamErrorKind::InvalidStreamName => Err(no_stream(name, &error)),
        },
    }
}

/// The stream, for whoever only reads it.
pub async fn find(jetstream: &Context, name: &str) -> Result<Store, Trouble> {
    jetstream.get_stream(name).await.map(Store::of).map_err(|error| no_stream(name, &error))
}

async fn create(jetstream: &Context, wanted: Config) -> Result<Stream, Trouble> {
    let name = &wanted.name.clone();
    match jetstream.create_stream(wanted).await {
        Ok(stream) => Ok(stream),
        Err(error) => match error.kind() {
            // Somebody else was faster.
            CreateStreamErrorKind::JetStream(cause) if cause.error_code() == ErrorCode::STREAM_NAME_EXIST => {
                jetstream.get_stream(name).await.map_err(|error| no_stream(name, &error))
            }
            CreateStreamErrorKind::EmptyStreamName
            | CreateStreamErrorKind::InvalidStreamName
            | CreateStreamErrorKind::DomainAndExternalSet
            | CreateStreamErrorKind::JetStreamUnavailable
            | CreateStreamErrorKind::JetStream(_)
            | CreateStreamErrorKind::TimedOut
            | CreateStreamErrorKind::Response
            | CreateStreamErrorKind::NotFound
            | CreateStreamErrorKind::ResponseParse => Err(no_stream(name, &error)),
        },
    }
}

fn no_stream(name: &str, error: &impl std::error::Error) -> Trouble {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    Trouble(format!("no stream {name}: {error}{cause}"))
}

/// The stream as the config wants it.
fn wanted(nats: &Nats) -> Config {
    let max_age = Duration::from(nats.stream.max_age);
    Config {
        name: nats.stream.name.clone(),
        subjects: vec![all_events(&nats.prefix)],
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        discard: DiscardPolicy::Old,
        num_replicas: nats.stream.replicas,
        max_age,
        max_bytes: if nats.stream.max_bytes == 0 { -1 } else { nats.stream.max_bytes },
        duplicate_window: if max_age.is_zero() { KNOWN } else { KNOWN.min(max_age) },
        allow_direct: true,
        ..Config::default()
    }
}

/// A bucket that keeps the last of each key. As a stream: the client's own call does not understand older servers.
pub fn bucket(name: &str, remembered: Duration, replicas: usize) -> Config {
    Config {
        name: format!("KV_{name}"),
        subjects: vec![format!("$KV.{name}.>")],
        max_messages_per_subject: 1,
        max_age: remembered,
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        num_replicas: replicas,
        max_bytes: -1,
        max_messages: -1,
        ..Config::default()
    }
}

/// What is different about a stream, in words.
fn differences(wanted: &Config, found: &Config) -> Vec<String> {
    let amount = |n: i64| if n <= 0 { "unlimited".to_owned() } else { n.to_string() };
    let age = |age: Duration| if age.is_zero() { "for ever".to_owned() } else { Span::from(age).to_string() };
    let all = [
        ("subjects", wanted.subjects.join(", "), found.subjects.join(", ")),
        ("retention", format!("{:?}", wanted.retention), format!("{:?}", found.retention)),
        ("storage", format!("{:?}", wanted.storage), format!("{:?}", found.storage)),
        ("discard", format!("{:?}", wanted.discard), format!("{:?}", found.discard)),
        ("replicas", wanted.num_replicas.to_string(), found.num_replicas.to_string()),
        ("max_age", age(wanted.max_age), age(found.max_age)),
        ("max_bytes", amount(wanted.max_bytes), amount(found.max_bytes)),
        ("max_msg_size", amount(wanted.max_message_size.into()), amount(found.max_message_size.into())),
        ("max_msgs", amount(wanted.max_messages), amount(found.max_messages)),
        ("max_msgs_per_subject", amount(wanted.max_messages_per_subject), amount(found.max_messages_per_subject)),
    ];
    let different = all.into_iter().filter(|(_, wanted, found)| wanted != found);
    different.map(|(what, wanted, found)| format!("{what}: {found} instead of {wanted}").to_lowercase()).collect()
}

/// Whether a stream's subject takes all of another.
fn covers(subject: &str, other: &str) -> bool {
    let mut others = other.split('.');
    for token in subject.split('.') {
        match (token, others.next()) {
            (">", Some(_)) => return true,
            ("*", Some(other)) if other != ">" => {}
            (token, Some(other)) if token == other => {}
            (_, Some(_) | None) => return false,
        }
    }
    others.next().is_none()
}

/// What the stream has of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holdings {
    /// Up to where it has all.
    pub place: Place,
    /// What it has beyond that: a server may take a record and not the one before.
    pub beyond: BTreeSet<u64>,
}

/// The session whose records are looked for.
#[derive(Debug, Clone, Copy)]
pub struct Whose<'a> {
    /// Its subjects.
    pub subjects: &'a Subjects,
    /// Its id.
    pub id: &'a str,
}

impl Holdings {
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

impl Store {
    /// A stream as it is.
    pub fn of(stream: Stream) -> Self {
        Self { made: stream.cached_info().created.to_string(), stream, differences: Vec::new() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.stream.cached_info().config.name
    }

    /// Whether it takes what is published to these subjects.
    pub fn takes(&self, subjects: &str) -> Result<(), Trouble> {
        let Config { name, subjects: own, .. } = &self.stream.cached_info().config;
        if own.iter().any(|subject| covers(subject, subjects)) {
            return Ok(());
        }
        Err(Trouble(format!("the stream {name} does not take the subjects {subjects}")))
    }

    /// Looks what the stream has of a session, from the place on that was kept.
    pub async fn holdings(&self, whose: Whose<'_>, kept: &Place) -> Result<Holdings, Trouble> {
        let last = self.stream.cached_info().state.last_sequence;
        // Another stream has nothing of it; one that lost its end is looked through from the beginning. Others may have
        // written on since, so its length alone does not tell.
        let known = kept.store == self.made && kept.at <= last && (kept.seq == 0 || self.has_kept(whose, kept).await?);
        let unknown = || Place { store: self.made.clone(), server: kept.server.clone(), ..Place::default() };
        let kept = if known { kept.clone() } else { unknown() };
        if kept.seq == 0 {
            return self.since_the_beginning(whose, kept).await;
        }
        self.walk(whose, kept).await
    }

    async fn since_the_beginning(&self, whose: Whose<'_>, nothing: Place) -> Result<Holdings, Trouble> {
        let (mut names, mut from) = (nothing.names, 1);
        while let Some(first) = self.next_of(&whose.subjects.beginning(), from).await? {
            if header(&first.headers, SESSION) == Some(whose.id) {
                let with_id = header(&first.headers, MESSAGE_ID).is_some_and(|id| id.matches(':').count() > 1);
                let names = if with_id { Names::WithId } else { Names::Plain };
                return self.walk(whose, Place { at: first.sequence - 1, names, ..nothing }).await;
            }
            // Another session had the name before.
            (names, from) = (Names::WithId, first.sequence + 1);
        }
        // Its beginning may have been forgotten already, and the rest not.
        if names == Names::Plain && !self.subjects(whose.subjects.events()).await?.is_empty() {
            let found = self.walk(whose, Place { names: Names::WithId, ..nothing }).await?;
            return Ok(found.without_the_forgotten());
        }
        Ok(Holdings { place: Place { names, ..nothing }, beyond: BTreeSet::new() })
    }

    /// Whether what is known of it lies where it lay, as far as the stream remembers.
    async fn has_kept(&self, whose: Whose<'_>, kept: &Place) -> Result<bool, Trouble> {
        if kept.at < self.stream.cached_info().state.first_sequence {
            return Ok(true);
        }
        let message = self.message(kept.at).await?;
        Ok(message.is_some_and(|message| ours(&message, whose.id).is_some_and(|(seq, _)| seq <= kept.seq)))
    }

    /// Whether a message is one of that session.
    pub async fn is_of(&self, at: u64, id: &str) -> Result<bool, Trouble> {
        let message = self.message(at).await?;
        Ok(message.is_some_and(|message| header(&message.headers, SESSION) == Some(id)))
    }

    /// The most bytes that a message may have, if a server takes that many.
    pub fn largest(&self, max_payload: usize) -> Result<usize, Trouble> {
        let Config { name, max_message_size, .. } = &self.stream.cached_info().config;
        let limit = usize::try_from(*max_message_size).ok().filter(|limit| *limit > 0).unwrap_or(max_payload);
        if limit < SMALLEST {
            return Err(Trouble(format!(
                "the stream {name} takes messages of {limit} bytes, and records need {SMALLEST}"
            )));
        }
        Ok(max_payload.min(limit))
    }

    /// Reads what comes after a place.
    async fn walk(&self, whose: Whose<'_>, mut place: Place) -> Result<Holdings, Trouble> {
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
        Ok(Holdings { place, beyond })
    }

    /// The subjects under which there is something.
    pub async fn subjects(&self, filter: String) -> Result<BTreeSet<String>, Trouble> {
        let cannot = |error: String| Trouble(format!("the stream cannot be read: {error}"));
        let found = self.stream.info_with_subjects(filter).await.map_err(|error| cannot(error.to_string()))?;
        let mut found = std::pin::pin!(found);
        let mut subjects = BTreeSet::new();
        while let Some(next) = std::future::poll_fn(|context| found.as_mut().poll_next(context)).await {
            subjects.insert(next.map_err(|error| cannot(error.to_string()))?.0);
        }
        Ok(subjects)
    }

    /// The last message of a subject.
    pub async fn last_of(&self, subject: &str) -> Result<Option<StreamMessage>, Trouble> {
        match self.stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some(message)),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(Trouble(format!("the stream cannot be read: {error}"))),
        }
    }

    /// The number of the last message of a subject. A server that does not know it, because somebody has deleted the last,
    /// is asked for each from a number on.
    pub async fn end_of(&self, subject: &str, from: u64) -> Result<u64, Trouble> {
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
    async fn message(&self, at: u64) -> Result<Option<StreamMessage>, Trouble> {
        // The server does not count from there, and says so.
        if at == 0 {
            return Ok(None);
        }
        match self.stream.get_raw_message(at).await {
            Ok(message) => Ok(Some(message)),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(Trouble(format!("the stream cannot be read: {error}"))),
        }
    }

    /// The first message of a subject from a number on.
    pub async fn next_of(&self, subject: &str, from: u64) -> Result<Option<StreamMessage>, Trouble> {
        match self.stream.get_first_raw_message_by_subject(subject, from).await {
            Ok(message) => Ok(Some(message)),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(Trouble(format!("the stream cannot be read: {error}"))),
        }
    }
}

/// Which part of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
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
pub fn part(headers: &HeaderMap) -> Option<Part> {
    let Some(said) = header(headers, PART) else { return Some(Part { number: 1, of: 1 }) };
    let (number, of) = said.split_once('/')?;
    let (number, of) = (number.parse().ok()?, of.parse().ok()?);
    (1..=of).contains(&number).then_some(Part { number, of })
}

/// The number of a record of that session, and which part of it this is.
fn ours(message: &StreamMessage, id: &str) -> Option<(u64, Part)> {
    if header(&message.headers, SESSION) != Some(id) {
        return None;
    }
    let named = header(&message.headers, MESSAGE_ID)?.rsplit(':').next()?;
    let seq = named.split('.').next()?.parse().ok()?;
    Some((seq, part(&message.headers)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_covers_the_subjects_below_its_own() {
        let covered = |subject| covers(subject, "creel.events.>");
        assert!(["creel.events.>", "creel.>", ">", "*.events.>", "creel.*.>"].into_iter().all(covered));
        assert!(
            !["creel.events.*", "creel.events.s.>", "creel.commands.>", "creel", "creel.events"]
                .into_iter()
                .any(covered)
        );
    }

    #[test]
    fn what_differs_is_told() {
        let config = Config { max_bytes: -1, num_replicas: 1, ..Config::default() };
        let other = Config { num_replicas: 3, max_age: Duration::from_mins(1), max_bytes: 0, ..config.clone() };
        assert_eq!(differences(&config, &other), ["replicas: 3 instead of 1", "max_age: 1 min instead of for ever"]);
        assert_eq!(differences(&config, &config), [""; 0]);
    }
}
