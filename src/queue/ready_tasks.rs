//! The tasks that can be begun, in a stream from which each is handed to one worker.
//!
//! Tasks of one priority, one type and the same allowed agents stand in one [`DispatchGroup`]. A worker looks into the rows that
//! are for it, the highest priority first; rows of one priority take turns, and within a row, who was there first comes first.
//!
//! # Invariants
//! - A task is in the line at most once: its subject is its own, and says where it stands, whatever else a message says.
//! - What was handed out and is not heard of for the time of its lease is handed out again.

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
    engine::queue::task_spec::TaskSpec,
    nats::{
        connection::NatsError,
        stream::{self, NatsStream},
        subject::{self, LAST_OF_SUBJECT},
    },
    queue::task_bucket::QueueTaskKey,
};

/// Between the names of agents: no name has it.
const AND: char = '+';
/// What stands for nothing.
const NONE: &str = "-";
/// How long the server may take to say whether there is a task.
const PATIENCE: Duration = Duration::from_secs(5);

/// The line.
#[derive(Debug)]
pub struct ReadyTaskStream {
    jetstream: Context,
    store: NatsStream,
    prefix: String,
    /// How long a worker may be silent, where nobody said so before.
    lease: Duration,
    rows: BTreeMap<DispatchGroup, DispatchGroupState>,
    /// How many tasks were taken.
    taken: u64,
}

/// What is known of a row.
#[derive(Debug, Default)]
struct DispatchGroupState {
    /// Whoever hands out its tasks, once it was asked.
    consumer: Option<PullConsumer>,
    /// When one was taken from it last.
    taken: u64,
}

/// Tasks that are handed out alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DispatchGroup {
    /// 0 is the highest.
    pub priority: u8,
    /// Their type.
    pub kind: Option<String>,
    /// Who may work on them; nobody means everybody.
    pub agents: BTreeSet<String>,
}

/// A task that was handed out.
#[derive(Debug)]
pub struct LeasedTask {
    /// What is to be done.
    pub order: TaskSpec,
    /// How long the worker may be silent.
    pub lease: Duration,
    message: Message,
}

impl DispatchGroup {
    /// Where an order stands.
    pub fn of(order: &TaskSpec) -> Self {
        Self { priority: order.priority, kind: order.kind.clone(), agents: order.agents.clone() }
    }

    fn tokens(&self) -> String {
        let kind = self.kind.as_deref().unwrap_or(NONE);
        format!("{}.{kind}.{}", self.priority, self.agents_token())
    }

    /// The name of whoever hands out its tasks: no other row has it, though names of types and agents have a `_`.
    fn consumer(&self) -> String {
        self.tokens().replace('.', &AND.to_string())
    }

    fn agents_token(&self) -> String {
        let agents: Vec<&str> = self.agents.iter().map(String::as_str).collect();
        if agents.is_empty() { NONE.to_owned() } else { agents.join(&AND.to_string()) }
    }

    /// The row of a subject, after the prefix. None, if no task could stand there.
    fn parse(tokens: &str) -> Option<Self> {
        let [priority, kind, agents, _owner, id] = *tokens.split('.').collect::<Vec<_>>() else { return None };
        let agents = if agents == NONE { BTreeSet::new() } else { agents.split(AND).map(str::to_owned).collect() };
        let kind = (kind != NONE).then(|| kind.to_owned());
        let row = Self { priority: priority.parse().ok()?, kind, agents };
        // Said in other words, it is a row that nobody would look into.
        let is_so = tokens.strip_prefix(&row.tokens()).is_some_and(|rest| rest.starts_with('.'));
        let could_be = |row: &Self| {
            let Self { priority, kind, agents } = row.clone();
            let order =
                TaskSpec { id: id.to_owned(), goal: "any".to_owned(), priority, kind, agents, ..TaskSpec::default() };
            order.checked().is_ok()
        };
        Some(row).filter(|row| is_so && could_be(row))
    }
}

/// The subjects of the line.
pub fn subjects(prefix: &str) -> String {
    format!("{}>", subject::queue(prefix))
}

/// The stream's name.
fn stream_name(nats: &NatsConfig) -> String {
    format!("{}_QUEUE", nats.stream.name)
}

impl ReadyTaskStream {
    /// The line; makes it, if there is none.
    pub async fn open(jetstream: &Context, nats: &NatsConfig, lease: Duration) -> Result<Self, NatsError> {
        let wanted = Config {
            name: stream_name(nats),
            subjects: vec![subjects(&nats.prefix)],
            retention: RetentionPolicy::WorkQueue,
            storage: StorageType::File,
            discard: DiscardPolicy::New,
            num_replicas: nats.stream.replicas,
            max_bytes: -1,
            max_messages: -1,
            ..Config::default()
        };
        let store = stream::ensured_replicas(jetstream, wanted).await?;
        store.takes(&subjects(&nats.prefix))?;
        let retention = store.stream.cached_info().config.retention;
        if retention != RetentionPolicy::WorkQueue {
            let name = stream_name(nats);
            return Err(NatsError(format!("the stream {name} is no work queue, so tasks would be handed out twice")));
        }
        let prefix = subject::queue(&nats.prefix);
        Ok(Self { jetstream: jetstream.clone(), store, prefix, lease, rows: BTreeMap::new(), taken: 0 })
    }

    /// Why the server keeps fewer replicas than the config says, if it does.
    pub fn missing_replicas(&self) -> Option<&str> {
        self.store.differences.first().map(String::as_str)
    }

    /// The place of a task.
    pub fn subject(&self, order: &TaskSpec) -> String {
        format!("{}{}.{}", self.prefix, DispatchGroup::of(order).tokens(), QueueTaskKey::of(order).tokens())
    }

    /// Puts a task into the line, unless it is there.
    pub async fn put(&mut self, order: &TaskSpec) -> Result<(), NatsError> {
        let subject = self.subject(order);
        let mut headers = HeaderMap::new();
        headers.insert(LAST_OF_SUBJECT, "0");
        let text = serde_json::to_vec(order).expect("an order has no keys that are not text");
        let cannot = |error: &dyn std::error::Error| {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            NatsError(format!("the server does not take task {} into the queue: {error}{cause}", order.id))
        };
        let sent = self.jetstream.publish_with_headers(subject, headers, text.into()).await;
        match sent.map_err(|error| cannot(&error))?.await {
            Err(error) if error.kind() != PublishErrorKind::WrongLastSequence => return Err(cannot(&error)),
            Ok(_) | Err(_) => {}
        }
        self.rows.entry(DispatchGroup::of(order)).or_default();
        Ok(())
    }

    /// There is something under this subject.
    pub fn heard(&mut self, subject: &str) {
        if let Some(row) = subject.strip_prefix(&self.prefix).and_then(DispatchGroup::parse) {
            self.rows.entry(row).or_default();
        }
    }

    /// Looks what is there, and gives the subjects. Rows with nothing in them are not asked for tasks any more.
    pub async fn look(&mut self) -> Result<BTreeSet<String>, NatsError> {
        let there = self.store.subjects(format!("{}>", self.prefix)).await?;
        let row = |subject: &String| subject.strip_prefix(&self.prefix).and_then(DispatchGroup::parse);
        let rows: BTreeSet<DispatchGroup> = there.iter().filter_map(row).collect();
        self.rows.retain(|row, _| rows.contains(row));
        for row in rows {
            self.rows.entry(row).or_default();
        }
        Ok(there)
    }

    /// The next task of the rows that are wanted, the highest priority first.
    pub async fn take(
        &mut self,
        mut wanted: impl FnMut(&DispatchGroup) -> bool,
    ) -> Result<Option<LeasedTask>, NatsError> {
        let rows = self.rows.iter().filter(|(row, _)| wanted(row));
        let mut rows: Vec<(u8, u64, DispatchGroup)> =
            rows.map(|(row, known)| (row.priority, known.taken, row.clone())).collect();
        rows.sort();
        for (_, _, row) in rows {
            if let Some(lot) = self.take_from(&row).await? {
                self.taken += 1;
                self.rows.entry(row).or_default().taken = self.taken;
                return Ok(Some(lot));
            }
        }
        Ok(None)
    }

    async fn take_from(&mut self, row: &DispatchGroup) -> Result<Option<LeasedTask>, NatsError> {
        let cannot = |error: String| NatsError(format!("the queue hands out nothing: {error}"));
        let consumer = self.consumer(row).await?;
        let lease = consumer.cached_info().config.ack_wait;
        loop {
            let mut batch =
                consumer.fetch().max_messages(1).messages().await.map_err(|error| cannot(error.to_string()))?;
            // What a lost connection was asked is answered by nobody.
            let next = std::future::poll_fn(|context| Pin::new(&mut batch).poll_next(context));
            let next = tokio::time::timeout(PATIENCE, next).await;
            let next = next.map_err(|_| cannot("the server does not answer".to_owned()))?;
            let Some(message) = next.transpose().map_err(|error| cannot(error.to_string()))? else { return Ok(None) };
            match self.read(row, &message) {
                Ok(order) => return Ok(Some(LeasedTask { order, lease, message })),
                Err(why) => {
                    tracing::warn!("nats: a task in the queue is thrown away, since it is not understood: {why}");
                    message.ack_with(AckKind::Term).await.map_err(|error| cannot(error.to_string()))?;
                }
            }
        }
    }

    /// The order of a message. Its place is where it stands: other programs need not say it twice.
    fn read(&self, row: &DispatchGroup, message: &Message) -> Result<TaskSpec, String> {
        let read = serde_json::from_slice::<TaskSpec>(&message.payload).map_err(|error| error.to_string())?;
        let DispatchGroup { priority, kind, agents } = row.clone();
        let order = TaskSpec { priority, kind, agents, ..read }.checked()?;
        let subject = self.subject(&order);
        if subject == message.subject.as_str() { Ok(order) } else { Err(format!("it is at {}", message.subject)) }
    }

    /// Whoever hands out the tasks of a row.
    async fn consumer(&mut self, row: &DispatchGroup) -> Result<PullConsumer, NatsError> {
        if let Some(DispatchGroupState { consumer: Some(consumer), .. }) = self.rows.get(row) {
            return Ok(consumer.clone());
        }
        let name = row.consumer();
        let config = pull::Config {
            durable_name: Some(name.clone()),
            filter_subject: format!("{}{}.>", self.prefix, row.tokens()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.lease,
            max_deliver: -1,
            ..pull::Config::default()
        };
        let made = self.store.stream.get_or_create_consumer(&name, config).await;
        let consumer = made.map_err(|error| NatsError(format!("the queue hands out nothing: {error}")))?;
        self.rows.entry(row.clone()).or_default().consumer = Some(consumer.clone());
        Ok(consumer)
    }
}

impl LeasedTask {
    /// Where it stands.
    pub fn subject(&self) -> &str {
        &self.message.subject
    }

    /// The worker is alive.
    pub async fn keep(&self) -> Result<(), NatsError> {
        self.message.ack_with(AckKind::Progress).await.map_err(|error| NatsError(error.to_string()))
    }

    /// Nobody has to be handed this any more.
    pub async fn done(&self) -> Result<(), NatsError> {
        self.message.double_ack().await.map_err(|error| NatsError(error.to_string()))
    }

    /// Somebody else shall have it, after a while.
    pub async fn back(&self, after: Duration) -> Result<(), NatsError> {
        let after = (!after.is_zero()).then_some(after);
        self.message.ack_with(AckKind::Nak(after)).await.map_err(|error| NatsError(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_tells_the_row() {
        let agents = ["codex".to_owned(), "claude".to_owned()].into();
        let order = TaskSpec { id: "7".into(), priority: 0, kind: Some("bug".into()), agents, ..TaskSpec::default() };
        let row = DispatchGroup::of(&order);
        assert_eq!(row.tokens(), "0.bug.claude+codex");
        assert_eq!(DispatchGroup::parse(&format!("{}.-.7", row.tokens())), Some(row));
        let plain = DispatchGroup::of(&TaskSpec::default());
        assert_eq!(plain.tokens(), "2.-.-");
        assert_eq!(DispatchGroup::parse("2.-.-.1-a.7"), Some(plain));
        assert_eq!(DispatchGroup::parse("2.-.-.7"), None);
        let row = |kind: &str, agent: &str| DispatchGroup {
            priority: 2,
            kind: Some(kind.into()),
            agents: [agent.into()].into(),
        };
        assert_ne!(row("a_b", "c").consumer(), row("a", "b_c").consumer());
        for odd in
            ["x.-.-.-.7", "5.-.-.-.7", "02.-.-.-.7", "2.a/b.-.-.7", "2.-.codex+claude.-.7", "2.-.+.-.7", "2..-.-.7"]
        {
            assert_eq!(DispatchGroup::parse(odd), None, "{odd}");
        }
    }

    #[test]
    fn the_highest_priority_comes_first() {
        let row = |priority, kind: &str| DispatchGroup { priority, kind: Some(kind.into()), agents: BTreeSet::new() };
        let rows: BTreeSet<DispatchGroup> = [row(2, "a"), row(0, "z"), row(1, "m")].into();
        assert_eq!(rows.iter().map(|row| row.priority).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
