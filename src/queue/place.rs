//! Where a worker finds its queue, and opens it again after trouble.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::{Client, Subscriber, jetstream};
use tokio::sync::mpsc;

use crate::{
    config::NatsConfig,
    nats::{
        command_listener::next,
        connection::{NatsConnectionEvent, NatsError},
    },
    queue::{TaskQueue, backend::QueueTrouble, ready_tasks::subjects},
};

pub enum QueuePlace {
    Server(Box<QueueServer>),
    /// The project's own folder.
    Project(PathBuf),
}

/// A NATS server, and what arrives from it.
pub struct QueueServer {
    nats: NatsConfig,
    client: Client,
    told: mpsc::UnboundedReceiver<NatsConnectionEvent>,
    news: Subscriber,
}

impl QueuePlace {
    pub async fn server(
        nats: NatsConfig,
        client: Client,
        told: mpsc::UnboundedReceiver<NatsConnectionEvent>,
    ) -> Result<Self, QueueTrouble> {
        let news = client.subscribe(subjects(&nats)?).await;
        let news = news.map_err(|error| NatsError(format!("cannot subscribe: {error}")))?;
        Ok(Self::Server(Box::new(QueueServer {
            nats,
            client,
            told,
            news,
        })))
    }

    pub async fn open(&mut self, lease: Duration) -> Result<TaskQueue, QueueTrouble> {
        match self {
            Self::Server(server) => {
                let opened = TaskQueue::of_server(
                    &jetstream::new(server.client.clone()),
                    &server.nats,
                    lease,
                )
                .await;
                opened.map_err(|trouble| self.explained(trouble))
            }
            Self::Project(root) => TaskQueue::of_project(root, lease),
        }
    }

    /// The reason for trouble. A server that refuses something says so, and does not answer.
    pub fn explained(&mut self, trouble: QueueTrouble) -> QueueTrouble {
        match self {
            Self::Server(server) => server.refusal().map_or(trouble, QueueTrouble::Nats),
            Self::Project(_) => trouble,
        }
    }

    /// Waits until another process has put a task into the line, and returns the task's subject. In
    /// a project's own queue, the changes of the tasks say everything.
    pub async fn news(&mut self) -> Result<Option<String>, QueueTrouble> {
        match self {
            Self::Server(server) => Ok(server.news().await?),
            Self::Project(_) => std::future::pending().await,
        }
    }

    /// Sends what is still in a buffer. An unreachable server gets it when it is back.
    pub async fn flush(&self) {
        match self {
            Self::Server(server) => {
                let _ = server.client.flush().await;
            }
            Self::Project(_) => {}
        }
    }
}

impl QueueServer {
    /// What the server has refused since the last question. It does not answer a user that lacks a
    /// right.
    fn refusal(&mut self) -> Option<NatsError> {
        let events = std::iter::from_fn(|| self.told.try_recv().ok());
        let refusals = events.filter_map(|event| match event {
            NatsConnectionEvent::Refused(why) => Some(why),
            NatsConnectionEvent::Connected | NatsConnectionEvent::Lost => None,
        });
        refusals
            .last()
            .map(|why| NatsError(format!("the server refused: {why}")))
    }

    async fn news(&mut self) -> Result<Option<String>, NatsError> {
        tokio::select! {
            told = self.told.recv() => match told {
                Some(NatsConnectionEvent::Connected) => Ok(None),
                Some(NatsConnectionEvent::Lost) | None => Err(NatsError("the connection was lost".to_owned())),
                Some(NatsConnectionEvent::Refused(why)) => Err(NatsError(format!("the server refused: {why}"))),
            },
            Some(message) = next(&mut self.news) => Ok(Some(message.subject.to_string())),
        }
    }
}
