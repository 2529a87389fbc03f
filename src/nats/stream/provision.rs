//! Finds streams, and creates them as the config says.
//!
//! # Invariants
//! - creel uses an existing stream of records as it is: it reports what differs from the config,
//!   and changes nothing.
//! - Streams for creel's own use (the list of sessions, the queue) have at least as many replicas
//!   as the config says, or creel reports why they have fewer. Their `max_age` can grow, and never
//!   shrinks: projects with other configs use them, too.

use std::time::{Duration, Instant};

use async_nats::jetstream::{
    self, Context, ErrorCode,
    context::{
        CreateStreamErrorKind, GetStreamError, GetStreamErrorKind, RequestError, RequestErrorKind,
    },
    stream::{Config, DiscardPolicy, RetentionPolicy, StorageType, Stream},
};

use super::{ELECTION, ELECTION_PAUSE, NatsStream};
use crate::{
    config::NatsConfig,
    engine::time::TimeSpan,
    nats::{connection::NatsError, subject::all_events},
};

/// How long the server itself recognises duplicate messages.
const KNOWN: Duration = Duration::from_mins(2);

/// Opens the stream of the records. Creates it if there is none.
pub async fn open(jetstream: &Context, nats: &NatsConfig) -> Result<NatsStream, NatsError> {
    let store = ensured(jetstream, wanted(nats)).await?;
    store.takes(&all_events(&nats.prefix))?;
    Ok(store)
}

/// Opens a stream as it is. Creates it as wanted if there is none.
pub async fn ensured(jetstream: &Context, wanted: Config) -> Result<NatsStream, NatsError> {
    match found(jetstream, &wanted.name).await? {
        Some(stream) => {
            let differences = differences(&wanted, &stream.cached_info().config);
            Ok(NatsStream {
                differences,
                ..NatsStream::of(stream)
            })
        }
        None => create(jetstream, wanted).await.map(NatsStream::of),
    }
}

/// A stream for creel's own use, with at least as many replicas as wanted, and a `max_age` that is
/// at least as long. The list of sessions and the queue must survive the loss of a server, so creel
/// adds missing replicas if the server allows it. Otherwise `differences` says why not.
pub async fn ensured_replicas(
    jetstream: &Context,
    wanted: Config,
) -> Result<NatsStream, NatsError> {
    let (replicas, max_age) = (wanted.num_replicas, wanted.max_age);
    let store = NatsStream {
        differences: Vec::new(),
        ..ensured(jetstream, wanted).await?
    };
    let mut found = store.stream.cached_info().config.clone();
    if !found.max_age.is_zero() && found.max_age < max_age {
        found.max_age = max_age;
        if let Err(error) = jetstream.update_stream(&found).await {
            tracing::warn!(
                "nats: the server does not keep {} for longer: {error}",
                found.name
            );
        }
    }
    if found.num_replicas >= replicas {
        return Ok(store);
    }
    let (name, has) = (found.name.clone(), found.num_replicas);
    let why = if store.stream.cached_info().cluster.is_none() {
        // Such a server accepts the number, and still keeps only one replica.
        Some("it is not part of a cluster".to_owned())
    } else {
        let updated = jetstream
            .update_stream(&Config {
                num_replicas: replicas,
                ..found
            })
            .await;
        updated.err().map(|error| error.to_string())
    };
    let difference = why.map(|why| {
        format!("{name} should have {replicas} copies but has {has}, and the server does not add any: {why}")
    });
    Ok(NatsStream {
        differences: difference.into_iter().collect(),
        ..store
    })
}

pub async fn found(jetstream: &Context, name: &str) -> Result<Option<Stream>, NatsError> {
    match look_up(jetstream, name).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(error)
                if error.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                Ok(None)
            }
            GetStreamErrorKind::JetStream(_)
            | GetStreamErrorKind::EmptyName
            | GetStreamErrorKind::Request
            | GetStreamErrorKind::InvalidStreamName => Err(not_found(name, &error)),
        },
    }
}

/// Looks a stream up. A cluster that has just lost a server does not answer until the stream has a
/// new leader.
async fn look_up(jetstream: &Context, name: &str) -> Result<Stream, GetStreamError> {
    let is_cluster = jetstream.client().server_info().cluster.is_some();
    let deadline = Instant::now() + ELECTION;
    loop {
        match jetstream.get_stream(name).await {
            Err(error) if is_cluster && has_no_leader(&error) && Instant::now() < deadline => {
                tokio::time::sleep(ELECTION_PAUSE).await;
            }
            looked_up => return looked_up,
        }
    }
}

/// Whether this error can mean that the stream has no leader at the moment.
fn has_no_leader(error: &GetStreamError) -> bool {
    match error.kind() {
        GetStreamErrorKind::JetStream(cause) => {
            cause.error_code() == ErrorCode::CLUSTER_NOT_AVAILABLE
        }
        GetStreamErrorKind::Request => request_error(error) == Some(RequestErrorKind::TimedOut),
        GetStreamErrorKind::EmptyName | GetStreamErrorKind::InvalidStreamName => false,
    }
}

fn request_error(error: &GetStreamError) -> Option<RequestErrorKind> {
    std::error::Error::source(error)?
        .downcast_ref::<RequestError>()
        .map(RequestError::kind)
}

/// The stream, for callers that only read it and must not create it.
pub async fn find(jetstream: &Context, name: &str) -> Result<NatsStream, NatsError> {
    look_up(jetstream, name)
        .await
        .map(NatsStream::of)
        .map_err(|error| not_found(name, &error))
}

async fn create(jetstream: &Context, wanted: Config) -> Result<Stream, NatsError> {
    let name = &wanted.name.clone();
    match jetstream.create_stream(wanted).await {
        Ok(stream) => Ok(stream),
        Err(error) => match error.kind() {
            // Another process created it first.
            CreateStreamErrorKind::JetStream(cause)
                if cause.error_code() == ErrorCode::STREAM_NAME_EXIST =>
            {
                jetstream
                    .get_stream(name)
                    .await
                    .map_err(|error| not_found(name, &error))
            }
            CreateStreamErrorKind::JetStreamUnavailable => Err(no_jetstream()),
            CreateStreamErrorKind::JetStream(cause) if is_off(&cause) => Err(no_jetstream()),
            CreateStreamErrorKind::EmptyStreamName
            | CreateStreamErrorKind::InvalidStreamName
            | CreateStreamErrorKind::DomainAndExternalSet
            | CreateStreamErrorKind::JetStream(_)
            | CreateStreamErrorKind::TimedOut
            | CreateStreamErrorKind::Response
            | CreateStreamErrorKind::NotFound
            | CreateStreamErrorKind::ResponseParse => Err(no_stream(name, &error)),
        },
    }
}

/// The error for a stream that cannot be looked up.
fn not_found(name: &str, error: &GetStreamError) -> NatsError {
    let is_off = match error.kind() {
        GetStreamErrorKind::JetStream(cause) => is_off(&cause),
        // A server without JetStream does not know these requests at all.
        GetStreamErrorKind::Request => request_error(error) == Some(RequestErrorKind::NoResponders),
        GetStreamErrorKind::EmptyName | GetStreamErrorKind::InvalidStreamName => false,
    };
    if is_off {
        no_jetstream()
    } else {
        no_stream(name, error)
    }
}

/// Whether the error means that `JetStream` is disabled, on the server or for this account.
fn is_off(error: &jetstream::Error) -> bool {
    [
        ErrorCode::JETSTREAM_NOT_ENABLED,
        ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT,
    ]
    .contains(&error.error_code())
}

fn no_jetstream() -> NatsError {
    let why = "JetStream is not enabled on this server, but creel keeps its records there. Start the server with \
               `nats-server -js`, or add `jetstream {}` to its config (and to the account, if it has accounts)";
    NatsError(why.to_owned())
}

fn no_stream(name: &str, error: &impl std::error::Error) -> NatsError {
    let cause = error
        .source()
        .map(|cause| format!(": {cause}"))
        .unwrap_or_default();
    NatsError(format!("cannot open the stream {name}: {error}{cause}"))
}

fn wanted(nats: &NatsConfig) -> Config {
    let max_age = Duration::from(nats.stream.max_age);
    Config {
        name: nats.stream.name.clone(),
        subjects: vec![all_events(&nats.prefix)],
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        discard: DiscardPolicy::Old,
        num_replicas: nats.stream.replicas,
        max_age,
        max_bytes: if nats.stream.max_bytes == 0 {
            -1
        } else {
            nats.stream.max_bytes
        },
        duplicate_window: if max_age.is_zero() {
            KNOWN
        } else {
            KNOWN.min(max_age)
        },
        allow_direct: true,
        ..Config::default()
    }
}

/// A key-value bucket, as the config of its stream: the client's own call does not support older
/// servers.
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

/// The differences, as text for the user.
fn differences(wanted: &Config, found: &Config) -> Vec<String> {
    let amount = |n: i64| {
        if n <= 0 {
            "unlimited".to_owned()
        } else {
            n.to_string()
        }
    };
    let age = |age: Duration| {
        if age.is_zero() {
            "forever".to_owned()
        } else {
            TimeSpan::from(age).to_string()
        }
    };
    let all = [
        (
            "subjects",
            wanted.subjects.join(", "),
            found.subjects.join(", "),
        ),
        (
            "retention",
            retention(wanted.retention),
            retention(found.retention),
        ),
        ("storage", storage(wanted.storage), storage(found.storage)),
        ("discard", discard(wanted.discard), discard(found.discard)),
        (
            "replicas",
            wanted.num_replicas.to_string(),
            found.num_replicas.to_string(),
        ),
        ("max_age", age(wanted.max_age), age(found.max_age)),
        (
            "max_bytes",
            amount(wanted.max_bytes),
            amount(found.max_bytes),
        ),
        (
            "max_msg_size",
            amount(wanted.max_message_size.into()),
            amount(found.max_message_size.into()),
        ),
        (
            "max_msgs",
            amount(wanted.max_messages),
            amount(found.max_messages),
        ),
        (
            "max_msgs_per_subject",
            amount(wanted.max_messages_per_subject),
            amount(found.max_messages_per_subject),
        ),
    ];
    let different = all.into_iter().filter(|(_, wanted, found)| wanted != found);
    different
        .map(|(what, wanted, found)| format!("{what}: {found} instead of {wanted}"))
        .collect()
}

fn retention(policy: RetentionPolicy) -> String {
    match policy {
        RetentionPolicy::Limits => "limits".to_owned(),
        RetentionPolicy::Interest => "interest".to_owned(),
        RetentionPolicy::WorkQueue => "workqueue".to_owned(),
    }
}

fn storage(kind: StorageType) -> String {
    match kind {
        StorageType::File => "file".to_owned(),
        StorageType::Memory => "memory".to_owned(),
    }
}

fn discard(policy: DiscardPolicy) -> String {
    match policy {
        DiscardPolicy::Old => "old".to_owned(),
        DiscardPolicy::New => "new".to_owned(),
    }
}

/// Whether a stream's subject includes everything that `other` matches.
pub(super) fn covers(subject: &str, other: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_covers_the_subjects_below_its_own() {
        let covered = |subject| covers(subject, "creel.events.>");
        assert!(
            ["creel.events.>", "creel.>", ">", "*.events.>", "creel.*.>"]
                .into_iter()
                .all(covered)
        );
        assert!(
            ![
                "creel.events.*",
                "creel.events.s.>",
                "creel.commands.>",
                "creel",
                "creel.events"
            ]
            .into_iter()
            .any(covered)
        );
    }

    #[test]
    fn differences_are_reported() {
        let config = Config {
            max_bytes: -1,
            num_replicas: 1,
            ..Config::default()
        };
        let other = Config {
            num_replicas: 3,
            max_age: Duration::from_mins(1),
            max_bytes: 0,
            ..config.clone()
        };
        assert_eq!(
            differences(&config, &other),
            [
                "replicas: 3 instead of 1",
                "max_age: 1 min instead of forever"
            ]
        );
        assert_eq!(differences(&config, &config), [""; 0]);
        let subjects = |subject: &str| Config {
            subjects: vec![subject.to_owned()],
            ..config.clone()
        };
        assert_eq!(
            differences(&subjects("Team.events.>"), &subjects("team.events.>")),
            ["subjects: team.events.> instead of Team.events.>"]
        );
        let memory = Config {
            storage: StorageType::Memory,
            ..config.clone()
        };
        assert_eq!(
            differences(&config, &memory),
            ["storage: memory instead of file"]
        );
    }
}
