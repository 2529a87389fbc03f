//! What sessions of this project could not send before they left.
//!
//! A session that is over does not wait for a server that is away. The next one that reaches the server sends the rest.
//!
//! # Invariants
//! - What was meant for one server is not sent to another.
//! - A folder may have come with the project's files: it is sent only if it is what creel writes. Whatever is wrong with one
//!   keeps nobody else's records back.

use std::io;

use async_nats::{Client, connection::State};
use serde::Deserialize;
use tokio::sync::watch;

use super::{
    connection::{Trouble, destination},
    link::Link,
    send::Sender,
    store::{Store, Whose},
    subject::{Subjects, is_plain},
};
use crate::{
    config::Nats,
    journal::{self, Folder, Sessions, outbox::Outbox},
};

/// What has to be known of a session's first record.
#[derive(Deserialize)]
struct First {
    session: String,
    id: String,
}

/// Where leftovers go.
#[derive(Clone, Copy)]
pub(super) struct Post<'a> {
    pub(super) client: &'a Client,
    pub(super) store: &'a Store,
    pub(super) nats: &'a Nats,
    pub(super) largest: usize,
}

impl Post<'_> {
    /// Sends what others have left. Nobody relies on it, so trouble is only told to the log.
    pub(super) async fn send_all(&self, sessions: &Sessions, own: &str) -> Result<(), Trouble> {
        for folder in sessions.list().unwrap_or_default() {
            // A session that never had a server is none of its business.
            let is_left = folder.name != own && folder.outbox_file().exists() && journal::running(&folder).is_none();
            if !is_left {
                continue;
            }
            let not_sent = |why: &str| tracing::info!("nats: the rest of session {} is not sent: {why}", folder.name);
            match self.rest(&folder) {
                Ok(None) => {}
                Ok(Some((outbox, id))) => {
                    if let Err(Trouble(why)) = self.send(&folder, outbox, &id).await {
                        not_sent(&why);
                        if self.client.connection_state() != State::Connected {
                            break;
                        }
                    }
                }
                Err(error) => not_sent(&error.to_string()),
            }
        }
        Ok(())
    }

    /// What a session may have left, and its id.
    fn rest(&self, folder: &Folder) -> io::Result<Option<(Outbox, String)>> {
        let Some(outbox) = Outbox::open(folder)? else { return Ok(None) };
        let kept = outbox.place();
        let is_ours = outbox.is_for(&destination(self.nats)) || kept.store == self.store.made;
        if !is_ours {
            return Ok(None);
        }
        let has_more = kept.store != self.store.made || outbox.letters(kept.offset)?.read()?.is_some();
        let Some(first) = outbox.letters(0)?.read()?.filter(|_| has_more) else { return Ok(None) };
        let First { session, id } = serde_json::from_slice(&first.line)?;
        if session != folder.name || !is_plain(&session) || !is_plain(&id) {
            return Err(io::Error::other("its first record is not what creel writes"));
        }
        Ok(Some((outbox, id)))
    }

    async fn send(&self, folder: &Folder, mut outbox: Outbox, id: &str) -> Result<(), Trouble> {
        let subjects = Subjects::new(&self.nats.prefix, &folder.name);
        let holdings = self.store.holdings(Whose { subjects: &subjects, id }, outbox.place()).await?;
        let (link, _) = watch::channel(Link::Connecting { behind: 0 });
        let (_, no_news) = watch::channel(0);
        let mut sender = Sender {
            client: self.client,
            store: self.store,
            outbox: &mut outbox,
            subjects: &subjects,
            session: &folder.name,
            id,
            holdings,
            largest: self.largest,
            link: &link,
        };
        sender.run(no_news).await
    }
}
