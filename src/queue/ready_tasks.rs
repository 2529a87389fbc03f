//! The tasks that are ready to start, in a stream that hands each of them to one worker.
//!
//! # Invariants
//! - A task is in the stream at most once, since its subject is unique. The subject defines the
//!   task's group, whatever the message says.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    time::Duration,
};

use async_nats::{
    HeaderMap,
    jetstream::{
        AckKind, Context, Message,
        consumer::{AckPolicy, PullConsumer, pull},
        context::PublishErrorKind,
        stream::{Config, DiscardPolicy, RetentionPolicy, StorageType},
    },
};
use futures_core::Stream as _;

use crate::{
    config::NatsConfig,
    engine::{
        queue::task_spec::TaskSpec,
        tasks::{command::TaskRefusal, graph::TaskDescription},
    },
    nats::{
        connection::NatsError,
        stream::{self, NatsStream},
        subject::{self, LAST_OF_SUBJECT},
    },
    queue::{
        backend::{
            DispatchGroup, GroupTurns, QueueFailure, QueueFuture, QueueTaskKey, ReadyLine,
            TaskLease, WantedGroups,
        },
        queue_of,
    },
};

/// How often a task is sent to a stream that has just been created, and the time in between.
const ATTEMPTS: u32 = 10;
const STREAM_BEGINS: Duration = Duration::from_millis(50);
/// Separates the names of agents. No name contains it.
const AND: char = '+';
/// Stands for an empty part of a subject.
const NONE: &str = "-";
/// How long to wait for the server to say whether there is a task.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct ReadyTaskStream {
    jetstream: Context,
    store: NatsStream,
    queue: String,
    prefix: String,
    /// How long a worker can be silent. Only for new consumers: an existing one keeps its own
    /// lease.
    lease: Duration,
    /// The groups with their consumers. `None` until a task is requested for the first time.
    rows: BTreeMap<DispatchGroup, Option<PullConsumer>>,
    turns: GroupTurns,
}

/// A task that a worker has received.
#[derive(Debug)]
struct LeasedTask {
    order: TaskSpec,
    /// How long the worker can be silent.
    lease: Duration,
    message: Message,
    /// The start of the subjects of this queue.
    prefix: String,
}

impl DispatchGroup {
    fn tokens(&self) -> String {
        let kind = self.kind.as_deref().unwrap_or(NONE);
        format!("{}.{kind}.{}", self.priority, self.agents_token())
    }

    /// The name of the group's consumer. It is unique, although names of queues, types and agents
    /// can contain a `_`.
    fn consumer(&self, queue: &str) -> String {
        format!(
            "{queue}{AND}{}",
            self.tokens().replace('.', &AND.to_string())
        )
    }

    fn agents_token(&self) -> String {
        let agents: Vec<&str> = self.agents.iter().map(String::as_str).collect();
        if agents.is_empty() {
            NONE.to_owned()
        } else {
            agents.join(&AND.to_string())
        }
    }

    /// Parses the part of a subject after the prefix. `None` if no task can have this subject.
    fn parse(tokens: &str) -> Option<Self> {
        let [priority, kind, agents, _owner, id] = *tokens.split('.').collect::<Vec<_>>() else {
            return None;
        };
        let agents = if agents == NONE {
            BTreeSet::new()
        } else {
            agents.split(AND).map(str::to_owned).collect()
        };
        let kind = (kind != NONE).then(|| kind.to_owned());
        let row = Self {
            priority: priority.parse().ok()?,
            kind,
            agents,
        };
        // Workers would not ask for a group that is spelled differently, such as with agents in
        // another order.
        let is_so = tokens
            .strip_prefix(&row.tokens())
            .is_some_and(|rest| rest.starts_with('.'));
        let could_be = |row: &Self| {
            let Self {
                priority,
                kind,
                agents,
            } = row.clone();
            let order = TaskSpec {
                id: id.to_owned(),
                description: TaskDescription {
                    goal: "any".to_owned(),
                    priority,
                    kind,
                    ..TaskDescription::default()
                },
                agents,
                ..TaskSpec::default()
            };
            order.checked().is_ok()
        };
        Some(row).filter(|row| is_so && could_be(row))
    }
}

/// The subjects of the tasks of all projects.
fn all_subjects(nats: &NatsConfig) -> String {
    format!("{}>", subject::queue(&nats.prefix))
}

/// The subjects of the tasks of a project's queue.
pub fn subjects(nats: &NatsConfig) -> Result<String, NatsError> {
    Ok(format!(
        "{}{}.>",
        subject::queue(&nats.prefix),
        queue_of(nats)?
    ))
}

fn subject_of(prefix: &str, order: &TaskSpec) -> String {
    format!(
        "{prefix}{}.{}",
        DispatchGroup::of(order).tokens(),
        QueueTaskKey::of(order).tokens()
    )
}

fn stream_name(nats: &NatsConfig) -> String {
    format!("{}_QUEUE", nats.stream.name)
}

impl ReadyTaskStream {
    /// Opens the stream. Creates it if there is none.
    pub(super) async fn open(
        jetstream: &Context,
        nats: &NatsConfig,
        lease: Duration,
    ) -> Result<Self, NatsError> {
        let wanted = Config {
            name: stream_name(nats),
            subjects: vec![all_subjects(nats)],
            retention: RetentionPolicy::WorkQueue,
            storage: StorageType::File,
            discard: DiscardPolicy::New,
            num_replicas: nats.stream.replicas,
            max_bytes: -1,
            max_messages: -1,
            ..Config::default()
        };
        let store = stream::ensured_replicas(jetstream, wanted).await?;
        store.takes(&all_subjects(nats))?;
        let retention = store.stream.cached_info().config.retention;
        if retention != RetentionPolicy::WorkQueue {
            let name = stream_name(nats);
            return Err(NatsError(format!(
                "the stream {name} is not a work queue, so workers would get tasks twice"
            )));
        }
        let queue = queue_of(nats)?.to_owned();
        let prefix = format!("{}{queue}.", subject::queue(&nats.prefix));
        Ok(Self {
            jetstream: jetstream.clone(),
            store,
            queue,
            prefix,
            lease,
            rows: BTreeMap::new(),
            turns: GroupTurns::default(),
        })
    }

    /// Why the server has fewer replicas than the config asks for.
    pub(super) fn missing_replicas(&self) -> Option<&str> {
        self.store.differences.first().map(String::as_str)
    }

    /// Puts a task into the stream, unless it is already there.
    async fn put(&mut self, order: &TaskSpec) -> Result<(), NatsError> {
        let subject = subject_of(&self.prefix, order);
        let mut headers = HeaderMap::new();
        headers.insert(LAST_OF_SUBJECT, "0");
        let text = serde_json::to_vec(order).expect("an order has no keys that are not text");
        let cannot = |error: &dyn std::error::Error| {
            let cause = error
                .source()
                .map(|cause| format!(": {cause}"))
                .unwrap_or_default();
            NatsError(format!(
                "the server does not accept task {} in the queue: {error}{cause}",
                order.id
            ))
        };
        for attempt in 1.. {
            let sent = self
                .jetstream
                .publish_with_headers(subject.clone(), headers.clone(), text.clone().into())
                .await;
            match sent.map_err(|error| cannot(&error))?.await {
                // Another client has just created the stream, and the server does not deliver to it
                // yet.
                Err(error)
                    if error.kind() == PublishErrorKind::StreamNotFound && attempt < ATTEMPTS =>
                {
                    tokio::time::sleep(STREAM_BEGINS).await;
                }
                Err(error) if error.kind() != PublishErrorKind::WrongLastSequence => {
                    return Err(cannot(&error));
                }
                Ok(_) | Err(_) => break,
            }
        }
        self.rows.entry(DispatchGroup::of(order)).or_default();
        Ok(())
    }

    /// Reads which subjects have tasks and returns them. Groups without tasks are not asked any
    /// more.
    pub(super) async fn look(&mut self) -> Result<BTreeSet<String>, NatsError> {
        let there = self.store.subjects(format!("{}>", self.prefix)).await?;
        let row = |subject: &String| {
            subject
                .strip_prefix(&self.prefix)
                .and_then(DispatchGroup::parse)
        };
        let rows: BTreeSet<DispatchGroup> = there.iter().filter_map(row).collect();
        self.rows.retain(|row, _| rows.contains(row));
        for row in rows {
            self.rows.entry(row).or_default();
        }
        Ok(there)
    }

    async fn take(&mut self, wanted: WantedGroups<'_>) -> Result<Option<LeasedTask>, NatsError> {
        let rows = self.rows.keys().filter(|row| wanted(row)).cloned();
        for row in self.turns.in_order(rows) {
            if let Some(lease) = self.take_from(&row).await? {
                self.turns.note(row);
                return Ok(Some(lease));
            }
        }
        Ok(None)
    }

    async fn take_from(&mut self, row: &DispatchGroup) -> Result<Option<LeasedTask>, NatsError> {
        let cannot = |error: String| NatsError(format!("cannot get tasks from the queue: {error}"));
        let consumer = self.consumer(row).await?;
        let lease = consumer.cached_info().config.ack_wait;
        loop {
            let mut batch = consumer
                .fetch()
                .max_messages(1)
                .messages()
                .await
                .map_err(|error| cannot(error.to_string()))?;
            // A request on a lost connection gets no answer.
            let next = std::future::poll_fn(|context| Pin::new(&mut batch).poll_next(context));
            let next = tokio::time::timeout(PATIENCE, next).await;
            let next = next.map_err(|_| cannot("the server does not answer".to_owned()))?;
            let Some(message) = next
                .transpose()
                .map_err(|error| cannot(error.to_string()))?
            else {
                return Ok(None);
            };
            match self.read(row, &message) {
                Ok(order) => {
                    return Ok(Some(LeasedTask {
                        order,
                        lease,
                        message,
                        prefix: self.prefix.clone(),
                    }));
                }
                Err(why) => {
                    tracing::warn!(
                        "nats: creel discards a task in the queue that it does not understand: {why}"
                    );
                    message
                        .ack_with(AckKind::Term)
                        .await
                        .map_err(|error| cannot(error.to_string()))?;
                }
            }
        }
    }

    /// Parses a message. Its subject defines the group, so other programs need not repeat that in
    /// the message.
    fn read(&self, row: &DispatchGroup, message: &Message) -> Result<TaskSpec, QueueMessageError> {
        let read = serde_json::from_slice::<TaskSpec>(&message.payload)?;
        let DispatchGroup {
            priority,
            kind,
            agents,
        } = row.clone();
        let order = TaskSpec {
            description: TaskDescription {
                priority,
                kind,
                ..read.description
            },
            agents,
            ..read
        }
        .checked()?;
        let subject = subject_of(&self.prefix, &order);
        let fits = subject == message.subject.as_str();
        if fits {
            Ok(order)
        } else {
            Err(QueueMessageError::OtherSubject(message.subject.to_string()))
        }
    }

    /// The consumer that hands out the tasks of a group.
    async fn consumer(&mut self, row: &DispatchGroup) -> Result<PullConsumer, NatsError> {
        if let Some(Some(consumer)) = self.rows.get(row) {
            return Ok(consumer.clone());
        }
        let name = row.consumer(&self.queue);
        let config = pull::Config {
            durable_name: Some(name.clone()),
            filter_subject: format!("{}{}.>", self.prefix, row.tokens()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.lease,
            max_deliver: -1,
            ..pull::Config::default()
        };
        let made = self
            .store
            .stream
            .get_or_create_consumer(&name, config)
            .await;
        let consumer =
            made.map_err(|error| NatsError(format!("cannot get tasks from the queue: {error}")))?;
        self.rows.insert(row.clone(), Some(consumer.clone()));
        Ok(consumer)
    }
}

impl ReadyLine for ReadyTaskStream {
    fn put<'a>(&'a mut self, order: &'a TaskSpec) -> QueueFuture<'a, ()> {
        Box::pin(async { Ok(Self::put(self, order).await?) })
    }

    fn restore<'a>(&'a mut self, due: Vec<&'a TaskSpec>) -> QueueFuture<'a, ()> {
        Box::pin(async move {
            let there = self.look().await?;
            for order in due {
                if !there.contains(&subject_of(&self.prefix, order)) {
                    Self::put(self, order).await?;
                }
            }
            Ok(())
        })
    }

    fn take<'a>(
        &'a mut self,
        wanted: WantedGroups<'a>,
    ) -> QueueFuture<'a, Option<Box<dyn TaskLease>>> {
        Box::pin(async {
            Ok(Self::take(self, wanted)
                .await?
                .map(|lease| Box::new(lease) as Box<dyn TaskLease>))
        })
    }

    fn note_change(&mut self, subject: &str) {
        if let Some(row) = subject
            .strip_prefix(&self.prefix)
            .and_then(DispatchGroup::parse)
        {
            self.rows.entry(row).or_default();
        }
    }
}

impl LeasedTask {
    async fn ack(&self, kind: AckKind) -> Result<(), QueueFailure> {
        Ok(self
            .message
            .ack_with(kind)
            .await
            .map_err(|error| NatsError(error.to_string()))?)
    }
}

impl TaskLease for LeasedTask {
    fn order(&self) -> &TaskSpec {
        &self.order
    }

    fn length(&self) -> Duration {
        self.lease
    }

    fn is_for(&self, order: &TaskSpec) -> bool {
        subject_of(&self.prefix, order) == self.message.subject.as_str()
    }

    fn keep(&self) -> QueueFuture<'_, ()> {
        Box::pin(self.ack(AckKind::Progress))
    }

    fn done(&self) -> QueueFuture<'_, ()> {
        Box::pin(async {
            Ok(self
                .message
                .double_ack()
                .await
                .map_err(|error| NatsError(error.to_string()))?)
        })
    }

    fn back(&self, after: Duration) -> QueueFuture<'_, ()> {
        Box::pin(self.ack(AckKind::Nak((!after.is_zero()).then_some(after))))
    }
}

/// Why a message in the queue is no task.
#[derive(Debug, thiserror::Error)]
enum QueueMessageError {
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
    #[error(transparent)]
    BadTask(#[from] TaskRefusal),
    #[error("it is at {0}")]
    OtherSubject(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_tells_the_row() {
        let agents = ["codex".to_owned(), "claude".to_owned()].into();
        let order = TaskSpec {
            id: "7".into(),
            description: TaskDescription {
                priority: 0,
                kind: Some("bug".into()),
                ..TaskDescription::default()
            },
            agents,
            ..TaskSpec::default()
        };
        let row = DispatchGroup::of(&order);
        assert_eq!(row.tokens(), "0.bug.claude+codex");
        assert_eq!(
            DispatchGroup::parse(&format!("{}.-.7", row.tokens())),
            Some(row)
        );
        let plain = DispatchGroup::of(&TaskSpec::default());
        assert_eq!(plain.tokens(), "2.-.-");
        assert_eq!(DispatchGroup::parse("2.-.-.1-a.7"), Some(plain));
        assert_eq!(DispatchGroup::parse("2.-.-.7"), None);
        let row = |kind: &str, agent: &str| DispatchGroup {
            priority: 2,
            kind: Some(kind.into()),
            agents: [agent.into()].into(),
        };
        assert_ne!(row("a_b", "c").consumer("q"), row("a", "b_c").consumer("q"));
        for odd in [
            "x.-.-.-.7",
            "5.-.-.-.7",
            "02.-.-.-.7",
            "2.a/b.-.-.7",
            "2.-.codex+claude.-.7",
            "2.-.+.-.7",
            "2..-.-.7",
        ] {
            assert_eq!(DispatchGroup::parse(odd), None, "{odd}");
        }
    }
}
